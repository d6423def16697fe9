//! The instruction set that generated C is compiled for.

#[cfg(target_arch = "x86_64")]
use crate::Config;
use once_cell::sync::Lazy;

/// An instruction set generated kernels may use. Flags name features explicitly, never `-march=native`, so that a
/// cached artifact states what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isa {
    /// x86-64 with SSE2 alone.
    Sse2,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, VL, BW and DQ, besides AVX2, FMA and F16C.
    Avx512,
    /// AArch64.
    Neon,
    /// Any other: vectors of 16 bytes as the compiler lowers them.
    Generic,
}

static HOST: Lazy<Isa> = Lazy::new(detect);

#[cfg(target_arch = "x86_64")]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq");
    match Config::get().isa {
        "sse2" => Isa::Sse2,
        "avx2" if avx2 => Isa::Avx2,
        _ if avx2 && avx512 => Isa::Avx512,
        _ if avx2 => Isa::Avx2,
        _ => Isa::Sse2,
    }
}

#[cfg(target_arch = "aarch64")]
fn detect() -> Isa {
    Isa::Neon
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Isa {
    Isa::Generic
}

impl Isa {
    /// The best set of this machine, or a lesser one named by `FERROTRACE_ISA` (`sse2`, `avx2`, `avx512`: without
    /// instructions for bf16, `avx512bf16`: without AMX).
    #[inline]
    pub fn host() -> Isa {
        *HOST
    }

    /// Bytes of a vector register.
    pub const fn vector_bytes(self) -> usize {
        match self {
            Isa::Avx512 => 64,
            Isa::Avx2 => 32,
            Isa::Sse2 | Isa::Neon | Isa::Generic => 16,
        }
    }

    /// Compiler flags that allow the set.
    pub const fn flags(self) -> &'static [&'static str] {
        match self {
            Isa::Avx512 => &[
                "-mavx2",
                "-mfma",
                "-mf16c",
                "-mavx512f",
                "-mavx512vl",
                "-mavx512bw",
                "-mavx512dq",
                "-mprefer-vector-width=512",
            ],
            Isa::Avx2 => &["-mavx2", "-mfma", "-mf16c"],
            Isa::Sse2 | Isa::Neon | Isa::Generic => &[],
        }
    }
}
