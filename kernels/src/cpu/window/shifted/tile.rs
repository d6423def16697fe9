//! The loops over input channels and taps that keep a tile of the result in registers.

use ferrotrace_runtime::Isa;

/// Vectors of positions in a tile.
pub(super) const VECTORS: usize = 3;
/// The most output channels of a tile.
pub(super) const CHANNELS: usize = 8;
/// The most positions of a tile.
pub(super) const WIDTH: usize = 16 * VECTORS;

/// A tile: what its loop reads. Only x86-64 has loops.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) struct Tile<'a> {
    /// The first position, of the first input channel of a chain.
    pub x: *const f32,
    /// How far from there each term of the chain is read.
    pub offsets: &'a [usize],
    /// The rows of the weight, and the first term of the chain in each.
    pub weights: &'a [*const f32; CHANNELS],
    pub first: usize,
    /// What is read after the rows of the weight: as many bytes of it are asked for.
    pub ahead: *const f32,
}

/// The tiles of an instruction set.
#[derive(Clone, Copy)]
pub(super) struct Form {
    /// Output channels.
    pub channels: usize,
    /// Positions of a vector.
    pub lanes: usize,
    /// The loops for 1, 2 and 3 vectors.
    pub loops: [unsafe fn(&Tile<'_>, *mut f32, usize, bool); VECTORS],
}

#[cfg(target_arch = "x86_64")]
pub(super) fn form() -> Option<Form> {
    match Isa::host() {
        Isa::Avx512 => Some(Form {
            channels: 8,
            lanes: 16,
            loops: [avx512::tile::<1>, avx512::tile::<2>, avx512::tile::<3>],
        }),
        Isa::Avx2 => Some(Form {
            channels: 4,
            lanes: 8,
            loops: [avx2::tile::<1>, avx2::tile::<2>, avx2::tile::<3>],
        }),
        _ => None,
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn form() -> Option<Form> {
    let _ = Isa::host();
    None
}

/// The loop over input channels and taps, for an instruction set.
macro_rules! tiles {
    ($name:ident, $features:literal, $channels:literal, $lanes:literal, $zero:ident $load:ident $splat:ident $fma:ident $add:ident $store:ident) => {
        #[cfg(target_arch = "x86_64")]
        mod $name {
            use super::Tile;
            use std::arch::x86_64::*;

            /// Writes the sums of `N` vectors of positions, channels at distances of `step`, or adds them if there are
            /// `more` than these.
            ///
            /// # Safety
            /// The machine has the instruction set; what the tile describes may be read, and the tile written at `to`.
            #[target_feature(enable = $features)]
            pub(in crate::cpu) unsafe fn tile<const N: usize>(
                t: &Tile<'_>,
                to: *mut f32,
                step: usize,
                more: bool,
            ) {
                // SAFETY: as the caller promises.
                unsafe {
                    let mut acc = [[$zero(); N]; $channels];
                    let weights = t.weights.map(|w| w.add(t.first));
                    let ahead = t.ahead.wrapping_add($channels * t.first);
                    for (j, &offset) in t.offsets.iter().enumerate() {
                        _mm_prefetch::<_MM_HINT_T1>(ahead.wrapping_add($channels * j).cast());
                        let from = t.x.add(offset);
                        let mut x = [$zero(); N];
                        for (v, x) in x.iter_mut().enumerate() {
                            *x = $load(from.add(v * $lanes));
                        }
                        for (acc, w) in acc.iter_mut().zip(&weights) {
                            let factor = $splat(*w.add(j));
                            for (acc, x) in acc.iter_mut().zip(x) {
                                *acc = $fma(factor, x, *acc);
                            }
                        }
                    }
                    for (r, acc) in acc.iter().enumerate() {
                        for (v, acc) in acc.iter().enumerate() {
                            let to = to.add(r * step + v * $lanes);
                            $store(to, if more { $add($load(to), *acc) } else { *acc });
                        }
                    }
                }
            }
        }
    };
}

tiles!(avx512, "avx512f", 8, 16, _mm512_setzero_ps _mm512_loadu_ps _mm512_set1_ps _mm512_fmadd_ps _mm512_add_ps _mm512_storeu_ps);
tiles!(avx2, "avx2,fma", 4, 8, _mm256_setzero_ps _mm256_loadu_ps _mm256_set1_ps _mm256_fmadd_ps _mm256_add_ps _mm256_storeu_ps);

/// Elements of a vector of channels.
pub(super) const LANES: usize = 16;
/// The most vectors of channels of a tile.
pub(super) const PANELS: usize = 4;

/// How many terms ahead input and weight are asked for.
pub(super) const AHEAD: usize = 24;

/// A tile of positions by vectors of output channels: what its loop reads. Only x86-64 has loops.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) struct Across<'a> {
    /// What positions and terms lie in.
    pub x: *const f32,
    /// How far from there each position reads.
    pub positions: &'a [usize],
    /// How far from there each term is read, and [`AHEAD`] later ones, which are asked for.
    pub offsets: &'a [usize],
    /// The first panel's elements of the first term.
    pub weights: *const f32,
    /// The distance of panels.
    pub panel: usize,
    /// What later tiles read of the weight, which is asked for: as many lines of the cache as there are terms.
    pub next: *const f32,
}

/// The loop over the terms of some positions: writes a row of sums for each, or adds them.
type Loops = [unsafe fn(&Across<'_>, *mut f32, bool); 8];

/// The most positions of a tile of 1 to 4 vectors, whose sums fit in registers, and the loops for 1 to 8 of them.
#[cfg(target_arch = "x86_64")]
pub(super) const ACROSS: [(usize, Loops); PANELS] = [
    (8, loops::<1>()),
    (8, loops::<2>()),
    (8, loops::<3>()),
    (6, loops::<4>()),
];

#[cfg(not(target_arch = "x86_64"))]
pub(super) const ACROSS: [(usize, Loops); PANELS] = [(8, [nothing; 8]); PANELS];

#[cfg(not(target_arch = "x86_64"))]
unsafe fn nothing(_: &Across<'_>, _: *mut f32, _: bool) {}

#[cfg(target_arch = "x86_64")]
const fn loops<const V: usize>() -> Loops {
    [
        across::<V, 1>,
        across::<V, 2>,
        across::<V, 3>,
        across::<V, 4>,
        across::<V, 5>,
        across::<V, 6>,
        across::<V, 7>,
        across::<V, 8>,
    ]
}

/// Writes the sums of `V` vectors of channels at `P` positions, or adds them if there are `more` than these.
///
/// # Safety
/// The machine has AVX-512; what the tile describes may be read, and its rows written at `to`, one after another.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[allow(clippy::needless_range_loop)]
unsafe fn across<const V: usize, const P: usize>(t: &Across<'_>, to: *mut f32, more: bool) {
    use std::arch::x86_64::*;
    // SAFETY: as the caller promises; addresses that are only asked for may be any.
    unsafe {
        let mut sums = [[_mm512_setzero_ps(); V]; P];
        let (mut x, mut w) = ([t.x; P], [t.weights; V]);
        for p in 0..P {
            x[p] = t.x.add(t.positions[p]);
        }
        for v in 0..V {
            w[v] = t.weights.add(v * t.panel);
        }
        for j in 0..t.offsets.len() - AHEAD {
            let later = *t.offsets.get_unchecked(j + AHEAD);
            _mm_prefetch::<_MM_HINT_T0>(x[0].wrapping_add(later).cast());
            _mm_prefetch::<_MM_HINT_T1>(t.next.wrapping_add(j * LANES).cast());
            let offset = *t.offsets.get_unchecked(j);
            let mut columns = [_mm512_setzero_ps(); V];
            for v in 0..V {
                columns[v] = _mm512_loadu_ps(w[v].add(j * LANES));
                let later = w[v].wrapping_add((j + AHEAD) * LANES);
                _mm_prefetch::<_MM_HINT_T0>(later.cast());
            }
            for p in 0..P {
                let factor = _mm512_set1_ps(*x[p].add(offset));
                for v in 0..V {
                    sums[p][v] = _mm512_fmadd_ps(factor, columns[v], sums[p][v]);
                }
            }
        }
        for p in 0..P {
            for v in 0..V {
                let (to, sum) = (to.add((p * V + v) * LANES), sums[p][v]);
                let sum = if more {
                    _mm512_add_ps(_mm512_loadu_ps(to), sum)
                } else {
                    sum
                };
                _mm512_storeu_ps(to, sum);
            }
        }
    }
}
