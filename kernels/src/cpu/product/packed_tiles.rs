//! Tiles of products by packed matrices, as compiled for each instruction set.

use ferrotrace_runtime::Isa;

/// Most rows of a tile, and most columns: their sums, the columns and a factor stay in registers.
pub(super) const MOST: (usize, usize) = (8, 48);

/// Rows and columns of a tile, and elements of a vector.
pub(super) fn tile_sizes() -> (usize, usize, usize) {
    match Isa::host() {
        Isa::Avx512 => (MOST.0, MOST.1, 16),
        _ => (4, 24, 8),
    }
}

/// Terms of rows and columns, and where they lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub k: usize,
    /// The left matrix, with the distances of rows and of columns.
    pub a: (*const f32, isize, isize),
    /// The columns, with the distance of rows.
    pub b: (*const f32, usize),
    /// What later tiles read, which is asked for: as many lines of the cache as there are terms.
    pub next: *const f32,
    /// The result, with the distance of rows.
    pub to: (*mut f32, usize),
}

/// Elements of a line of the cache.
pub(super) const LINE: usize = 16;

/// Writes the sums of the products of some rows and columns: a chain of fused multiply-adds each.
///
/// # Safety
/// This machine has AVX-512 or AVX2; the tile is no larger than [`tile_sizes`] says, of whole vectors; the operands may be read, the
/// result written.
pub(super) unsafe fn sums((rows, columns): (usize, usize), terms: Terms) {
    // SAFETY: as the caller promises.
    unsafe {
        match Isa::host() {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512_sums((rows, columns / 16), terms),
            #[cfg(target_arch = "x86_64")]
            _ => avx2_sums((rows, columns / 8), terms),
            #[cfg(not(target_arch = "x86_64"))]
            _ => _ = (rows, columns, terms),
        }
    }
}

/// Tiles as compiled for an instruction set, whose vectors have so many elements, and the choice of one by its rows and vectors.
macro_rules! tiles {
    ($name:ident, $chosen:ident, $features:literal, $lanes:literal, $zero:ident $load:ident $spread:ident $fma:ident $store:ident, $($rows:literal)*) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const V: usize>(terms: Terms) {
            use std::arch::x86_64::*;
            /// How many rows ahead elements of the panel are asked for: 6 KiB.
            const AHEAD: usize = 32;
            let Terms { k, mut a, mut b, mut next, to } = terms;
            let mut sums = [[$zero(); V]; R];
            for _ in 0..k {
                for line in 0..(V * $lanes).div_ceil(LINE) {
                    let ahead = b.0.wrapping_add(AHEAD * b.1 + line * LINE);
                    _mm_prefetch::<_MM_HINT_T0>(ahead.cast());
                }
                _mm_prefetch::<_MM_HINT_T1>(next.cast());
                next = next.wrapping_add(LINE);
                // SAFETY: the caller gives as many elements.
                unsafe {
                    let mut columns = [$zero(); V];
                    for v in 0..V {
                        columns[v] = $load(b.0.add(v * $lanes));
                    }
                    for r in 0..R {
                        let factor = $spread(*a.0.wrapping_offset(r as isize * a.1));
                        for v in 0..V {
                            sums[r][v] = $fma(factor, columns[v], sums[r][v]);
                        }
                    }
                }
                (a.0, b.0) = (a.0.wrapping_offset(a.2), b.0.wrapping_add(b.1));
            }
            for r in 0..R {
                for v in 0..V {
                    // SAFETY: the caller gives room for the tile.
                    unsafe { $store(to.0.add(r * to.1 + v * $lanes), sums[r][v]) };
                }
            }
        }

        #[cfg(target_arch = "x86_64")]
        unsafe fn $chosen(tile: (usize, usize), terms: Terms) {
            // SAFETY: as the caller promises.
            unsafe {
                match tile {
                    $(
                        ($rows, 1) => $name::<$rows, 1>(terms),
                        ($rows, 2) => $name::<$rows, 2>(terms),
                        ($rows, 3) => $name::<$rows, 3>(terms),
                    )*
                    _ => {}
                }
            }
        }
    };
}

tiles!(avx512, avx512_sums, "avx512f,avx512dq,avx512vl,avx2,fma", 16, _mm512_setzero_ps _mm512_loadu_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_storeu_ps, 1 2 3 4 5 6 7 8);
tiles!(avx2, avx2_sums, "avx2,fma", 8, _mm256_setzero_ps _mm256_loadu_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_storeu_ps, 1 2 3 4);
