//! The floating-point environment: how the processor rounds, and whether it takes subnormal numbers for zeros.
//!
//! It belongs to a thread, and a program may have set it otherwise (audio code turns subnormals off, interval arithmetic
//! turns the rounding). Results must not depend on it: whatever computes does so in the default environment of IEEE 754,
//! rounding to nearest with subnormal numbers and no traps, and leaves the caller its own.

#[cfg(target_arch = "x86_64")]
mod control {
    use std::arch::asm;

    /// All exceptions masked; rounding to nearest; no flushing of subnormal numbers.
    pub const DEFAULT: u32 = 0x1f80;
    /// The flags of exceptions that occurred: they change nothing.
    const FLAGS: u32 = 0x3f;

    #[inline(always)]
    pub fn get() -> u32 {
        let mut control = 0u32;
        // SAFETY: the instruction writes MXCSR to the four bytes it is given.
        unsafe { asm!("stmxcsr [{}]", in(reg) &mut control, options(nostack, preserves_flags)) };
        control
    }

    #[inline(always)]
    pub fn is_default(control: u32) -> bool {
        control & !FLAGS == DEFAULT
    }

    pub fn set(control: u32) {
        // SAFETY: the instruction reads MXCSR from four bytes, which hold the default or what it was before: neither
        // sets a reserved bit.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &control, options(nostack, preserves_flags)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod control {
    use std::arch::asm;

    /// Rounding to nearest; no flushing of subnormal numbers, no default NaNs, no traps.
    pub const DEFAULT: u64 = 0;

    #[inline(always)]
    pub fn get() -> u64 {
        let control: u64;
        // SAFETY: the instruction reads FPCR.
        unsafe { asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack, preserves_flags)) };
        control
    }

    #[inline(always)]
    pub fn is_default(control: u64) -> bool {
        control == DEFAULT
    }

    pub fn set(control: u64) {
        // SAFETY: the instruction writes FPCR: the default, or what it was before.
        unsafe { asm!("msr fpcr, {}", in(reg) control, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod control {
    pub const DEFAULT: u32 = 0;

    pub fn get() -> u32 {
        DEFAULT
    }

    pub fn is_default(_: u32) -> bool {
        true
    }

    pub fn set(_: u32) {}
}

/// The control word of the thread's floating-point unit: `MXCSR` on x86-64, `FPCR` on AArch64.
#[cfg(target_arch = "aarch64")]
pub type Control = u64;
/// The control word of the thread's floating-point unit: `MXCSR` on x86-64, `FPCR` on AArch64.
#[cfg(not(target_arch = "aarch64"))]
pub type Control = u32;

/// The default floating-point environment on this thread, until it goes; then the one before.
#[derive(Debug)]
#[must_use]
pub struct FloatEnvironment {
    /// The control word to restore; none where it was the default.
    before: Option<Control>,
    /// Keeps the value on its thread: the environment is a thread's.
    here: std::marker::PhantomData<*const ()>,
}

impl FloatEnvironment {
    /// Sets the default environment, if it is another: a load and a comparison where it is not.
    #[inline]
    pub fn standard() -> FloatEnvironment {
        let control = control::get();
        FloatEnvironment {
            before: match control::is_default(control) {
                true => None,
                false => replace(control),
            },
            here: std::marker::PhantomData,
        }
    }

    /// Sets the default environment of a thread of the library, which inherits that of its maker.
    pub fn start_thread() {
        control::set(control::DEFAULT);
    }
}

#[cold]
fn replace(control: Control) -> Option<Control> {
    control::set(control::DEFAULT);
    Some(control)
}

impl Drop for FloatEnvironment {
    #[inline]
    fn drop(&mut self) {
        if let Some(control) = self.before {
            control::set(control);
        }
    }
}

/// Runs `f` in another environment, for tests: its result, and the control word that it left, without flags of
/// exceptions.
#[doc(hidden)]
pub fn with_control<R>(control: Control, f: impl FnOnce() -> R) -> (R, Control) {
    let _restore = FloatEnvironment {
        before: Some(control::get()),
        here: std::marker::PhantomData,
    };
    control::set(control);
    let result = f();
    #[cfg(target_arch = "x86_64")]
    let left = control::get() & !0x3f;
    #[cfg(not(target_arch = "x86_64"))]
    let left = control::get();
    (result, left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// Rounding toward zero, and subnormal numbers flushed, in and out.
    #[cfg(target_arch = "x86_64")]
    const ODD: Control = 0x1f80 | 3 << 13 | 1 << 15 | 1 << 6;
    #[cfg(target_arch = "aarch64")]
    const ODD: Control = 3 << 22 | 1 << 24;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const ODD: Control = 0;

    /// Bits of a product that is subnormal, and of a quotient that rounds up.
    #[inline(never)]
    fn sample() -> (u32, u32) {
        let product = black_box(1e-30f32) * black_box(1e-10f32);
        (
            product.to_bits(),
            (black_box(2f32) / black_box(3f32)).to_bits(),
        )
    }

    #[test]
    fn is_set_and_restored() {
        let want = sample();
        let ((odd, standard, after), left) = with_control(ODD, || {
            let odd = sample();
            let environment = FloatEnvironment::standard();
            let nested = FloatEnvironment::standard();
            drop(nested);
            let standard = sample();
            drop(environment);
            (odd, standard, sample())
        });
        assert_eq!((standard, odd), (want, after));
        assert_eq!(left, ODD);
        assert!(odd != want || ODD == 0);
        assert_eq!(sample(), want);
    }
}
