//! The processor's instructions that multiply numbers of bf16 and sum in binary32: AVX-512's dot products, and Intel's Advanced
//! Matrix Extensions, registers of tiles and their products.

use super::isa::Isa;
use crate::Config;
use once_cell::sync::Lazy;

/// Whether this process may multiply tiles of bf16: the processor can, the system lets it, and `FERROTRACE_ISA` names no lesser
/// instruction set. The system is asked once, for all threads that there are or will be.
#[inline]
pub fn has_amx() -> bool {
    static ALLOWED: Lazy<bool> = Lazy::new(is_allowed);
    *ALLOWED
}

/// Whether this process may use AVX-512's dot products of bf16 (AVX512_BF16): the processor has them, and `FERROTRACE_ISA` names no
/// lesser instruction set.
#[inline]
pub fn has_bf16_dots() -> bool {
    static ALLOWED: Lazy<bool> = Lazy::new(|| {
        let wanted = matches!(Config::get().isa, "" | "amx" | "avx512bf16");
        wanted && Isa::host() == Isa::Avx512 && processor_has_dots()
    });
    *ALLOWED
}

#[cfg(target_arch = "x86_64")]
fn processor_has_dots() -> bool {
    is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
fn processor_has_dots() -> bool {
    false
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn is_allowed() -> bool {
    let wanted = matches!(Config::get().isa, "" | "amx") && Isa::host() == Isa::Avx512;
    wanted && is_supported() && is_permitted()
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn is_allowed() -> bool {
    false
}

/// Whether the processor multiplies tiles of bf16, and the system keeps tiles when it switches threads.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn is_supported() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
    /// Of leaf 7: products of bf16, and tiles.
    const FEATURES: u32 = 1 << 22 | 1 << 24;
    /// Of leaf 1: XGETBV may be used.
    const OSXSAVE: u32 = 1 << 27;
    /// Of XCR0: the configuration of tiles, and their data.
    const STATE: u64 = 1 << 17 | 1 << 18;
    #[target_feature(enable = "xsave")]
    fn kept() -> u64 {
        // SAFETY: the register number 0 is valid wherever the instruction is.
        unsafe { _xgetbv(0) }
    }
    let most = __cpuid(0).eax;
    if most < 7 || __cpuid(1).ecx & OSXSAVE == 0 {
        return false;
    }
    let features = __cpuid_count(7, 0).edx;
    // SAFETY: the processor said above that it has XGETBV.
    features & FEATURES == FEATURES && unsafe { kept() } & STATE == STATE
}

/// Asks Linux for the tiles' data, which a process may use only after that.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn is_permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_ulong = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_ulong = 18;
    // SAFETY: this call takes two numbers, and changes nothing but what the process may use.
    unsafe {
        libc::syscall(
            libc::SYS_arch_prctl,
            ARCH_REQ_XCOMP_PERM,
            XFEATURE_XTILEDATA,
        ) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lesser_instruction_sets_multiply_no_halves() {
        let isa = Config::get().isa;
        let lesser = matches!(isa, "sse2" | "avx2" | "avx512");
        assert!(!(lesser && (has_amx() || has_bf16_dots())));
        assert!(!(isa == "avx512bf16" && has_amx()));
        assert!(!(has_amx() || has_bf16_dots()) || Isa::host() == Isa::Avx512);
    }
}
