//! The upper halves of vector registers, which generated code of wide vectors leaves behind.
//!
//! Code that knows of the lower 128 bits alone, as most of a program does, keeps the bits above: while they are not zero,
//! each of its writes to a register waits for what wrote it before, and costs another operation. Compilers clear them at
//! the end of a function, but not at the level of optimisation that kernels are compiled with.

/// Clears the upper halves of this thread's vector registers.
#[inline(always)]
pub(crate) fn clear_upper_halves() {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx") {
        // SAFETY: the processor has the instruction; every register that it changes is one that foreign code may change,
        // and is declared as such.
        unsafe { std::arch::asm!("vzeroupper", clobber_abi("C"), options(nomem, nostack)) };
    }
}
