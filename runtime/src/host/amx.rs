//! Intel's Advanced Matrix Extensions: registers of tiles and their products.

use once_cell::sync::Lazy;

/// Whether this process may multiply tiles of bf16: the processor can, the system lets it, and `FERROTRACE_ISA` names no lesser
/// instruction set. The system is asked once, for all threads that there are or will be.
#[inline]
pub fn has_amx() -> bool {
    static ALLOWED: Lazy<bool> = Lazy::new(is_allowed);
    *ALLOWED
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn is_allowed() -> bool {
    use crate::{Config, Isa};
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
    fn lesser_instruction_sets_have_no_tiles() {
        let lesser = matches!(crate::Config::get().isa, "sse2" | "avx2" | "avx512");
        assert!(!(lesser && has_amx()));
        assert!(!has_amx() || crate::Isa::host() == crate::Isa::Avx512);
    }
}
