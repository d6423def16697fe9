//! Tiles of matrices in the processor's registers: their configuration, and sums of their products.

#[cfg(target_arch = "x86_64")]
use super::dots;
#[cfg(target_arch = "x86_64")]
use ferrotrace_runtime::has_amx;

/// Rows of a tile of sums, and its columns.
pub(in crate::cpu) const SIDE: usize = 16;
/// Terms that one instruction sums.
pub(in crate::cpu) const TERMS: usize = 32;
/// Elements of a tile of factors: a row of terms for each of 16 rows, or a row of pairs of terms for each of 16 pairs.
pub(super) const ELEMENTS: usize = SIDE * TERMS;

/// Elements that a step asks for.
pub(super) const AHEAD: usize = 128;

/// Tiles of factors, one for every 32 terms, or one for each part, and how many elements after the first the next 16 rows or columns
/// begin.
#[derive(Clone, Copy, Debug)]
pub(super) struct Factors {
    pub first: *const u16,
    pub next: usize,
}

impl Factors {
    /// The factors of the lines from a multiple of 16 on.
    pub fn from(self, line: usize) -> Factors {
        Factors {
            first: self.first.wrapping_add(line / SIDE * self.next),
            ..self
        }
    }
}

/// The registers' shapes, as `ldtilecfg` reads them.
#[cfg(target_arch = "x86_64")]
#[repr(C, align(64))]
struct Configuration {
    palette: u8,
    start: u8,
    reserved: [u8; 14],
    bytes: [u16; 16],
    rows: [u8; 16],
}

/// Whole tiles in all eight registers: 16 rows of 64 bytes.
#[cfg(target_arch = "x86_64")]
static WHOLE: Configuration = Configuration {
    palette: 1,
    start: 0,
    reserved: [0; 14],
    bytes: [64, 64, 64, 64, 64, 64, 64, 64, 0, 0, 0, 0, 0, 0, 0, 0],
    rows: [16, 16, 16, 16, 16, 16, 16, 16, 0, 0, 0, 0, 0, 0, 0, 0],
};

/// This thread's registers while they are configured, where the process may use tiles; afterwards the system need not keep them.
pub(in crate::cpu) struct Configured(());

impl Configured {
    /// Configures this thread's registers, if it has such. None is configured on it yet.
    ///
    /// # Safety
    /// The process multiplies numbers of bf16 (`ferrotrace_runtime::has_amx`, `has_bf16_dots`).
    pub unsafe fn new() -> Configured {
        #[cfg(target_arch = "x86_64")]
        if has_amx() {
            // SAFETY: the process may use tiles, and the configuration is one that every processor with them takes.
            unsafe {
                std::arch::asm!("ldtilecfg [{}]", in(reg) &raw const WHOLE, options(nostack, readonly, preserves_flags));
            }
        }
        Configured(())
    }

    /// Writes the sums of products of so many rows and columns, at most two tiles of each side, of `steps` tiles each, to `to`, whose
    /// rows are `pitch` apart; of tiles that are not whole, also what lies behind these rows and columns. The factors are those of
    /// rows, which pass by the first-level cache, and of columns; each step asks for 128 elements ([`AHEAD`]) that are read later. Terms
    /// that are less than 2⁻¹²⁶ in magnitude count as zero, and so do sums.
    ///
    /// # Safety
    /// The factors may be read, the result written.
    #[inline]
    pub(super) unsafe fn sums(
        &self,
        size: (usize, usize),
        steps: usize,
        factors: [Factors; 2],
        ahead: *const u16,
        to: (*mut f32, usize),
    ) {
        #[cfg(target_arch = "x86_64")]
        if !has_amx() {
            // SAFETY: as the caller promises; the process has dot products, as it has no tiles.
            return unsafe { dots::sums(size, steps, factors, ahead, to) };
        }
        let tiles = (size.0.div_ceil(SIDE), size.1.div_ceil(SIDE));
        // SAFETY: as the caller promises; the registers are configured.
        unsafe {
            match tiles {
                (1, 1) => one_by_one(steps, factors, ahead, to),
                (1, _) => one_by_two(steps, factors, ahead, to),
                (_, 1) => two_by_one(steps, factors, ahead, to),
                _ => two_by_two(steps, factors, ahead, to),
            }
        }
    }

    /// [`sums`](Configured::sums) of factors of three parts, of two tiles of each side: what there is one of is read twice. Of the nine
    /// products of parts, the three smallest, less than 2⁻²⁴ of the largest, are left out.
    ///
    /// # Safety
    /// The factors may be read, the result written.
    #[inline]
    pub(super) unsafe fn sums_of_parts(
        &self,
        tiles: (usize, usize),
        steps: usize,
        [mut a, mut b]: [Factors; 2],
        ahead: *const u16,
        to: (*mut f32, usize),
    ) {
        if tiles.0 == 1 {
            a.next = 0;
        }
        if tiles.1 == 1 {
            b.next = 0;
        }
        // SAFETY: as the caller promises; the registers are configured.
        unsafe { parts_two_by_two(steps, [a, b], ahead, to) };
    }

    /// Writes the sums of products of 32 rows of parts, so many bytes apart, by two tiles of columns to `to`, in rows of 32. `offsets`
    /// are bytes from the first row to what each step reads: of each row 32 terms of the first part, of the second and of the third.
    ///
    /// # Safety
    /// The factors may be read, the result written.
    pub(super) unsafe fn sums_of_rows(
        &self,
        (first, row): (*const u16, usize),
        offsets: &[usize],
        b: Factors,
        to: *mut f32,
    ) {
        if offsets.is_empty() {
            return;
        }
        // SAFETY: the registers are configured; the caller answers for what is read and written.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!(
                "tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3",
                "2:",
                "mov {t}, [{offsets}]",
                "add {offsets}, 8",
                "add {t}, {first}",
                "lea {c}, [{t} + {v}]",
                "tileloadd tmm4, [{t} + {u}*1]", "tileloadd tmm6, [{b} + {s}*1 + 2048]", "tileloadd tmm7, [{d} + {s}*1 + 2048]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tileloadd tmm5, [{c} + {u}*1]", "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6", "tileloadd tmm6, [{b} + {s}*1 + 1024]", "tdpbf16ps tmm3, tmm5, tmm7", "tileloadd tmm7, [{d} + {s}*1 + 1024]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7", "tileloadd tmm4, [{t} + {u}*1 + 64]",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7", "tileloadd tmm5, [{c} + {u}*1 + 64]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm2, tmm5, tmm6", "tileloadd tmm6, [{b} + {s}*1]",
                "tdpbf16ps tmm1, tmm4, tmm7", "tdpbf16ps tmm3, tmm5, tmm7", "tileloadd tmm7, [{d} + {s}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7", "tileloadd tmm4, [{t} + {u}*1 + 128]",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7", "tileloadd tmm5, [{c} + {u}*1 + 128]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7", "tileloadd tmm4, [{t} + {u}*1]",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7", "tileloadd tmm5, [{c} + {u}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7",
                "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
                "add {b}, 3072",
                "add {d}, 3072",
                "dec {n}",
                "jnz 2b",
                "mov {t}, 128",
                "tilestored [{to} + {t}*1], tmm0", "tilestored [{to} + {t}*1 + 64], tmm1",
                "tilestored [{to} + {t}*1 + 2048], tmm2", "tilestored [{to} + {t}*1 + 2112], tmm3",
                first = in(reg) first,
                offsets = inout(reg) offsets.as_ptr() => _,
                n = inout(reg) offsets.len() => _,
                b = inout(reg) b.first => _,
                d = inout(reg) b.first.wrapping_add(b.next) => _,
                s = in(reg) 64usize,
                u = in(reg) row,
                v = in(reg) SIDE * row,
                to = in(reg) to,
                t = out(reg) _,
                c = out(reg) _,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack),
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (first, row, b, to);
    }
}

impl Drop for Configured {
    fn drop(&mut self) {
        #[cfg(target_arch = "x86_64")]
        if has_amx() {
            // SAFETY: the process may use tiles.
            unsafe {
                std::arch::asm!(
                    "tilerelease",
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack, nomem, preserves_flags),
                );
            }
        }
    }
}

/// Functions that sum the products of some tiles: what begins the sums, what a step does, what stores them. Of the registers 0 to
/// 3 are sums, 4 and 5 rows, 6 and 7 columns. `{a}`, `{b}` are the first tiles, `{c}`, `{d}` the ones next to them; `{e}` is read later;
/// `{s}` is the distance of a tile's rows in bytes; `{to}`, `{on}` are the rows of the result, `{p}` is their distance. The next step's
/// tiles lie so many bytes behind this one's.
macro_rules! sums {
    ($($name:ident $bytes:literal: [$($zero:literal)*] [$($step:literal)*] [$($store:literal)*];)*) => {$(
        unsafe fn $name(steps: usize, [a, b]: [Factors; 2], ahead: *const u16, (to, pitch): (*mut f32, usize)) {
            debug_assert!(steps > 0);
            // SAFETY: the caller configured the registers, and answers for what is read and written.
            #[cfg(target_arch = "x86_64")]
            unsafe {
                std::arch::asm!(
                    $($zero,)*
                    "2:",
                    $($step,)*
                    "prefetcht1 [{e}]",
                    "prefetcht1 [{e} + 64]",
                    "prefetcht1 [{e} + 128]",
                    "prefetcht1 [{e} + 192]",
                    "add {e}, 256",
                    concat!("add {a}, ", $bytes),
                    concat!("add {c}, ", $bytes),
                    concat!("add {b}, ", $bytes),
                    concat!("add {d}, ", $bytes),
                    "dec {n}",
                    "jnz 2b",
                    $($store,)*
                    "/* {on} */",
                    a = inout(reg) a.first => _,
                    b = inout(reg) b.first => _,
                    c = inout(reg) a.first.wrapping_add(a.next) => _,
                    d = inout(reg) b.first.wrapping_add(b.next) => _,
                    e = inout(reg) ahead => _,
                    n = inout(reg) steps => _,
                    s = in(reg) 64usize,
                    to = in(reg) to,
                    on = in(reg) to.wrapping_add(SIDE * pitch),
                    p = in(reg) pitch * size_of::<f32>(),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack),
                );
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = (a, b, ahead, to, pitch);
        }
    )*};
}

sums! {
    one_by_one "1024":
        ["tilezero tmm0"]
        ["tileloaddt1 tmm4, [{a} + {s}*1]" "tileloadd tmm6, [{b} + {s}*1]" "tdpbf16ps tmm0, tmm4, tmm6"]
        ["tilestored [{to} + {p}*1], tmm0"];
    one_by_two "1024":
        ["tilezero tmm0" "tilezero tmm1"]
        ["tileloaddt1 tmm4, [{a} + {s}*1]" "tileloadd tmm6, [{b} + {s}*1]" "tdpbf16ps tmm0, tmm4, tmm6"
         "tileloadd tmm7, [{d} + {s}*1]" "tdpbf16ps tmm1, tmm4, tmm7"]
        ["tilestored [{to} + {p}*1], tmm0" "tilestored [{to} + {p}*1 + 64], tmm1"];
    two_by_one "1024":
        ["tilezero tmm0" "tilezero tmm2"]
        ["tileloadd tmm6, [{b} + {s}*1]" "tileloaddt1 tmm4, [{a} + {s}*1]" "tdpbf16ps tmm0, tmm4, tmm6"
         "tileloaddt1 tmm5, [{c} + {s}*1]" "tdpbf16ps tmm2, tmm5, tmm6"]
        ["tilestored [{to} + {p}*1], tmm0" "tilestored [{on} + {p}*1], tmm2"];
    two_by_two "1024":
        ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"]
        ["tileloaddt1 tmm4, [{a} + {s}*1]" "tileloadd tmm6, [{b} + {s}*1]" "tileloadd tmm7, [{d} + {s}*1]"
         "tdpbf16ps tmm0, tmm4, tmm6" "tileloaddt1 tmm5, [{c} + {s}*1]" "tdpbf16ps tmm1, tmm4, tmm7"
         "tdpbf16ps tmm2, tmm5, tmm6" "tdpbf16ps tmm3, tmm5, tmm7"]
        ["tilestored [{to} + {p}*1], tmm0" "tilestored [{to} + {p}*1 + 64], tmm1"
         "tilestored [{on} + {p}*1], tmm2" "tilestored [{on} + {p}*1 + 64], tmm3"];
    // The smallest products first: of the first part and the third, of the first and the second, of both seconds, and so on.
    parts_two_by_two "3072":
        ["tilezero tmm0" "tilezero tmm1" "tilezero tmm2" "tilezero tmm3"]
        ["tileloadd tmm4, [{a} + {s}*1]" "tileloadd tmm6, [{b} + {s}*1 + 2048]" "tileloadd tmm7, [{d} + {s}*1 + 2048]"
         "tdpbf16ps tmm0, tmm4, tmm6" "tileloadd tmm5, [{c} + {s}*1]" "tdpbf16ps tmm1, tmm4, tmm7"
         "tdpbf16ps tmm2, tmm5, tmm6" "tileloadd tmm6, [{b} + {s}*1 + 1024]" "tdpbf16ps tmm3, tmm5, tmm7" "tileloadd tmm7, [{d} + {s}*1 + 1024]"
         "tdpbf16ps tmm0, tmm4, tmm6" "tdpbf16ps tmm1, tmm4, tmm7" "tileloadd tmm4, [{a} + {s}*1 + 1024]"
         "tdpbf16ps tmm2, tmm5, tmm6" "tdpbf16ps tmm3, tmm5, tmm7" "tileloadd tmm5, [{c} + {s}*1 + 1024]"
         "tdpbf16ps tmm0, tmm4, tmm6" "tdpbf16ps tmm2, tmm5, tmm6" "tileloadd tmm6, [{b} + {s}*1]"
         "tdpbf16ps tmm1, tmm4, tmm7" "tdpbf16ps tmm3, tmm5, tmm7" "tileloadd tmm7, [{d} + {s}*1]"
         "tdpbf16ps tmm0, tmm4, tmm6" "tdpbf16ps tmm1, tmm4, tmm7" "tileloadd tmm4, [{a} + {s}*1 + 2048]"
         "tdpbf16ps tmm2, tmm5, tmm6" "tdpbf16ps tmm3, tmm5, tmm7" "tileloadd tmm5, [{c} + {s}*1 + 2048]"
         "tdpbf16ps tmm0, tmm4, tmm6" "tdpbf16ps tmm1, tmm4, tmm7" "tileloadd tmm4, [{a} + {s}*1]"
         "tdpbf16ps tmm2, tmm5, tmm6" "tdpbf16ps tmm3, tmm5, tmm7" "tileloadd tmm5, [{c} + {s}*1]"
         "tdpbf16ps tmm0, tmm4, tmm6" "tdpbf16ps tmm1, tmm4, tmm7"
         "tdpbf16ps tmm2, tmm5, tmm6" "tdpbf16ps tmm3, tmm5, tmm7"]
        ["tilestored [{to} + {p}*1], tmm0" "tilestored [{to} + {p}*1 + 64], tmm1"
         "tilestored [{on} + {p}*1], tmm2" "tilestored [{on} + {p}*1 + 64], tmm3"];
}
