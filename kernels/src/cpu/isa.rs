//! Loops compiled once for each instruction set, the best of this machine chosen when they run.

use ferrotrace_runtime::Isa;

/// A loop. `run` must be `#[inline(always)]`, and so must what it calls in its hot part: only then is the code compiled
/// for the instruction set that [`dispatch`] chose.
pub trait Loop {
    /// What the loop returns.
    type Output;
    /// Runs the loop.
    fn run(self) -> Self::Output;
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c")]
fn avx512<L: Loop>(body: L) -> L::Output {
    body.run()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,f16c")]
fn avx2<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// Runs a loop as compiled without further instruction sets. Not inlined: once, not with each caller.
#[inline(never)]
fn baseline<L: Loop>(body: L) -> L::Output {
    body.run()
}

/// Runs a loop as compiled for [`Isa::host`].
#[inline]
pub fn dispatch<L: Loop>(body: L) -> L::Output {
    match Isa::host() {
        // SAFETY: the host reports an instruction set only where the processor has its features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { avx512(body) },
        // SAFETY: the host reports an instruction set only where the processor has its features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { avx2(body) },
        _ => baseline(body),
    }
}
