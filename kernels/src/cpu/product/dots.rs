//! Products of dense rows and dense columns: dot products, of a tile of rows and columns at a time.
//!
//! So a layer's weight of dense rows lies in the product by its transpose. The library would have to turn it for each product;
//! here nothing is moved. A sum runs over lanes, which are added up at its end: its bits depend neither on the tile nor on what
//! else is computed.

use super::long::WORTH;
use super::vector::{Real, each_row_dot};
use super::view::View;
use ferrotrace_runtime::Isa;
use std::marker::PhantomData;
use std::ops::{Range, RangeInclusive};

/// Terms of a dot product, at least, from which adding up its lanes pays.
const SHORT: usize = 64;
/// And for each row, with tiles and without: turning a matrix of dense columns takes half a cycle for each element, adding up
/// the lanes of a sum of a tile two, of another 14.
const LONG: (usize, usize) = (4, 14);
/// Most rows of such a product: of more, turning the matrix pays.
const FEW: usize = 64;
/// Terms of which more rows are dot products as well: their sums would be cut by the library's kernel, which takes a third
/// longer, and columns of more terms leave the first-level cache.
pub(super) const CUT: RangeInclusive<usize> = WORTH + 1..=2048;
/// Bytes of a block of rows, which stay in the second-level cache while columns go by.
const BLOCK: usize = 1 << 20;
/// Rows up to which tiles are as high as they can be. Of more, tiles of more columns read the rows less often.
const LOW: usize = 16;
/// Terms of a piece: pieces of long sums are added up in binary64.
const PIECE: usize = 1024;
/// Bytes of the lanes of a sum.
const LANES: usize = 64;
/// The most lanes.
const MOST: usize = LANES / size_of::<f32>();

/// Whether `m` rows of `k` elements by a matrix of dense columns are dot products.
pub fn by_dots<T>(m: usize, k: usize, a: &View<'_, T>, b: &View<'_, T>) -> bool {
    let dense = a.col == 1 && b.row == 1 && b.col >= k as isize;
    let tiles = matches!(Isa::host(), Isa::Avx512 | Isa::Avx2);
    let long = if tiles { LONG.0 } else { LONG.1 };
    let few = m <= FEW && k >= SHORT.max(long * m);
    dense && (few || tiles && size_of::<T>() == 4 && CUT.contains(&k))
}

/// Calls `put` with the product of each row and each column, for which [`by_dots`] holds, and their numbers. A product's bits
/// do not depend on which others are computed.
pub fn row_dots<T: Real>(
    sizes: (usize, usize, usize),
    a: View<'_, T>,
    b: View<'_, T>,
    put: impl FnMut(usize, usize, T),
) {
    match Isa::host() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if sizes.0 <= LOW => Product::<T, Avx512>::of(sizes, a, b).each::<8, 3>(put),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => Product::<T, Avx512>::of(sizes, a, b).each::<4, 6>(put),
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => Product::<T, Avx2>::of(sizes, a, b).each::<2, 3>(put),
        _ => each_row_dot(sizes, a, b, put),
    }
}

/// What computes tiles.
trait Tiles {
    /// The products of `R` rows and `C` columns of `k` elements, a multiple of the lanes of a sum. Elements `ahead` of the columns
    /// are asked for, unless that is 0.
    ///
    /// # Safety
    /// The machine has the instruction set; `k` elements may be read at each pointer.
    unsafe fn tile<T: Real, const R: usize, const C: usize>(
        rows: [*const T; R],
        columns: [*const T; C],
        k: usize,
        ahead: usize,
    ) -> [[T; C]; R];
}

/// A product of `m` rows and `n` columns of `k` elements, by tiles of an instruction set.
struct Product<'a, T, I> {
    m: usize,
    n: usize,
    k: usize,
    a: View<'a, T>,
    b: View<'a, T>,
    tiles: PhantomData<I>,
}

impl<'a, T: Real, I: Tiles> Product<'a, T, I> {
    fn of((m, n, k): (usize, usize, usize), a: View<'a, T>, b: View<'a, T>) -> Product<'a, T, I> {
        let tiles = PhantomData;
        Product {
            m,
            n,
            k,
            a,
            b,
            tiles,
        }
    }

    /// All products, in tiles of at most `R` rows and `C` columns.
    fn each<const R: usize, const C: usize>(&self, mut put: impl FnMut(usize, usize, T)) {
        let whole = self.n / C * C;
        let block = (BLOCK / size_of::<T>() / self.k).max(R).next_multiple_of(R);
        for first in (0..self.m).step_by(block) {
            let rows = first..self.m.min(first + block);
            for j in (0..whole).step_by(C) {
                self.columns::<R, C>(rows.clone(), j, &mut put);
            }
            for j in whole..self.n {
                self.columns::<R, 1>(rows.clone(), j, &mut put);
            }
        }
    }

    /// The products of some rows and the `C` columns from number `j` on, which stay in the first-level cache.
    fn columns<const R: usize, const C: usize>(
        &self,
        rows: Range<usize>,
        j: usize,
        put: &mut impl FnMut(usize, usize, T),
    ) {
        let mut i = rows.start;
        while i + R <= rows.end {
            self.tile::<R, C>((i, j), put);
            i += R;
        }
        while i + 2 <= rows.end {
            self.tile::<2, C>((i, j), put);
            i += 2;
        }
        if i < rows.end {
            self.tile::<1, C>((i, j), put);
        }
    }

    fn tile<const R: usize, const C: usize>(
        &self,
        (i, j): (usize, usize),
        put: &mut impl FnMut(usize, usize, T),
    ) {
        let row = |r: usize| &self.a.data[self.a.from(i + r, 0).start..][..self.k];
        let column = |c: usize| &self.b.data[self.b.from(0, j + c).start..][..self.k];
        let (rows, columns) = (std::array::from_fn(row), std::array::from_fn(column));
        let next = C * self.b.col.unsigned_abs();
        let ahead = if i == 0 { next } else { 0 };
        let mut sums = part::<T, I, R, C>(rows, columns, 0, ahead);
        if self.k > PIECE {
            let mut totals = sums.map(|row| row.map(T::total));
            for from in (PIECE..self.k).step_by(PIECE) {
                let more = part::<T, I, R, C>(rows, columns, from, ahead);
                for (totals, more) in totals.iter_mut().zip(&more) {
                    for (total, sum) in totals.iter_mut().zip(more) {
                        *total = T::both(*total, sum.total());
                    }
                }
            }
            sums = totals.map(|row| row.map(T::of_total));
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                put(i + r, j + c, sum);
            }
        }
    }
}

/// The sums of the piece that starts at `from`. Elements behind whole lanes are summed apart.
#[inline(always)]
fn part<T: Real, I: Tiles, const R: usize, const C: usize>(
    rows: [&[T]; R],
    columns: [&[T]; C],
    from: usize,
    ahead: usize,
) -> [[T; C]; R] {
    let k = PIECE.min(rows[0].len() - from);
    let rest = k % (LANES / size_of::<T>());
    let (whole, end) = (k - rest, from + k);
    let (x, y) = (rows.map(|x| &x[from..end]), columns.map(|y| &y[from..end]));
    // SAFETY: slices of that many elements; the host's instruction set chose the tiles.
    let mut sums = unsafe { I::tile(x.map(|x| x.as_ptr()), y.map(|y| y.as_ptr()), whole, ahead) };
    if rest > 0 {
        // Zeros add nothing: no sum is -0.
        let last = |of: &[T]| {
            let mut all = [T::ZERO; MOST];
            all[..rest].copy_from_slice(&of[whole..]);
            all
        };
        let (x, y) = (x.map(last), y.map(last));
        let (x, y) = (
            x.each_ref().map(|x| x.as_ptr()),
            y.each_ref().map(|y| y.as_ptr()),
        );
        // SAFETY: arrays that are as long.
        let more = unsafe { I::tile(x, y, LANES / size_of::<T>(), 0) };
        for (sums, more) in sums.iter_mut().zip(&more) {
            for (sum, more) in sums.iter_mut().zip(more) {
                *sum = sum.plus(*more);
            }
        }
    }
    sums
}

/// The sum of a vector's elements, by halves.
#[cfg(target_arch = "x86_64")]
mod halves {
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn of_eight([low, high]: [__m256; 2]) -> f32 {
        let four = _mm256_add_ps(low, high);
        let two = _mm_add_ps(
            _mm256_castps256_ps128(four),
            _mm256_extractf128_ps::<1>(four),
        );
        let one = _mm_add_ps(two, _mm_movehl_ps(two, two));
        _mm_cvtss_f32(_mm_add_ss(one, _mm_movehdup_ps(one)))
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn of_four([low, high]: [__m256d; 2]) -> f64 {
        let two = _mm256_add_pd(low, high);
        let one = _mm_add_pd(_mm256_castpd256_pd128(two), _mm256_extractf128_pd::<1>(two));
        _mm_cvtsd_f64(_mm_add_sd(one, _mm_unpackhi_pd(one, one)))
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn of_sixteen([all]: [__m512; 1]) -> f32 {
        let (low, high) = (
            _mm512_castps512_ps256(all),
            _mm512_extractf32x8_ps::<1>(all),
        );
        of_eight([low, high])
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512vl")]
    #[inline]
    pub(super) fn of_both([all]: [__m512d; 1]) -> f64 {
        let (low, high) = (
            _mm512_castpd512_pd256(all),
            _mm512_extractf64x4_pd::<1>(all),
        );
        of_four([low, high])
    }
}

/// Tiles of an element type as compiled for an instruction set, whose vectors have so many elements.
macro_rules! tiles {
    ($name:ident, $features:literal, $type:ty, $width:literal, $zero:ident $load:ident $fma:ident $sum:ident) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<const R: usize, const C: usize>(
            rows: [*const $type; R],
            columns: [*const $type; C],
            k: usize,
            ahead: usize,
        ) -> [[$type; C]; R] {
            use std::arch::x86_64::*;
            const LANE: usize = LANES / size_of::<$type>();
            let mut sums = [[[$zero(); LANE / $width]; C]; R];
            for i in (0..k).step_by(LANE) {
                for v in 0..LANE / $width {
                    let at = i + v * $width;
                    let mut y = [$zero(); C];
                    for c in 0..C {
                        // SAFETY: the caller gives as many elements; a prefetch does not fault.
                        unsafe {
                            if v == 0 && ahead > 0 {
                                let next = columns[c].wrapping_add(i + ahead);
                                _mm_prefetch::<_MM_HINT_T0>(next.cast());
                            }
                            y[c] = $load(columns[c].add(at));
                        }
                    }
                    for r in 0..R {
                        // SAFETY: the caller gives as many elements.
                        let x = unsafe { $load(rows[r].add(at)) };
                        for c in 0..C {
                            sums[r][c][v] = $fma(x, y[c], sums[r][c][v]);
                        }
                    }
                }
            }
            let mut all = [[0.0; C]; R];
            for r in 0..R {
                for c in 0..C {
                    all[r][c] = halves::$sum(sums[r][c]);
                }
            }
            all
        }
    };
}

tiles!(avx512_f32, "avx512f,avx512dq,avx512vl,avx2,fma", f32, 16, _mm512_setzero_ps _mm512_loadu_ps _mm512_fmadd_ps of_sixteen);
tiles!(avx512_f64, "avx512f,avx512dq,avx512vl,avx2,fma", f64, 8, _mm512_setzero_pd _mm512_loadu_pd _mm512_fmadd_pd of_both);
tiles!(avx2_f32, "avx2,fma", f32, 8, _mm256_setzero_ps _mm256_loadu_ps _mm256_fmadd_ps of_eight);
tiles!(avx2_f64, "avx2,fma", f64, 4, _mm256_setzero_pd _mm256_loadu_pd _mm256_fmadd_pd of_four);

/// Tiles of both element types by an instruction set.
macro_rules! by {
    ($set:ident, $single:ident, $double:ident) => {
        #[cfg(target_arch = "x86_64")]
        struct $set;

        #[cfg(target_arch = "x86_64")]
        impl Tiles for $set {
            #[inline(always)]
            unsafe fn tile<T: Real, const R: usize, const C: usize>(
                rows: [*const T; R],
                columns: [*const T; C],
                k: usize,
                ahead: usize,
            ) -> [[T; C]; R] {
                // SAFETY: as the caller promises; of the two real types one has four bytes, the other eight.
                unsafe {
                    if size_of::<T>() == 4 {
                        let (x, y) = (rows.map(|x| x.cast()), columns.map(|y| y.cast()));
                        std::mem::transmute_copy(&$single::<R, C>(x, y, k, ahead))
                    } else {
                        let (x, y) = (rows.map(|x| x.cast()), columns.map(|y| y.cast()));
                        std::mem::transmute_copy(&$double::<R, C>(x, y, k, ahead))
                    }
                }
            }
        }
    };
}

by!(Avx512, avx512_f32, avx512_f64);
by!(Avx2, avx2_f32, avx2_f64);

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements of whole numbers: below 2^24 every order of summation is exact.
    fn whole(n: usize, by: usize, of: usize) -> Vec<f64> {
        (0..n)
            .map(|i| (i * by % of) as f64 - (of / 2) as f64)
            .collect()
    }

    fn check<T: Real>((m, n, k): (usize, usize, usize)) {
        let (a, b) = (whole(m * (k + 3), 37, 19), whole(n * (k + 1), 101, 23));
        let of = |v: &[f64]| v.iter().map(|&x| T::from_f64(x)).collect::<Vec<T>>();
        let (x, y) = (of(&a), of(&b));
        let left = View {
            row: k as isize + 3,
            ..View::dense(&x, k)
        };
        let right = View {
            row: k as isize + 1,
            ..View::dense(&y, k)
        };
        let right = right.transpose();
        assert!(by_dots(m, k, &left, &right), "{m} {n} {k}");
        let mut met = vec![false; m * n];
        row_dots((m, n, k), left, right, |i, j, sum| {
            let terms = (0..k).map(|l| a[i * (k + 3) + l] * b[j * (k + 1) + l]);
            assert_eq!(sum.to_f64(), terms.sum::<f64>(), "{m} {n} {k}: {i}, {j}");
            assert!(!std::mem::replace(&mut met[i * n + j], true));
        });
        assert!(met.iter().all(|&met| met));
    }

    // Whole tiles, rows and columns left over, terms behind whole lanes, one piece and several.
    #[test]
    fn rows_times_dense_columns() {
        for sizes in [
            (1, 1, 64),
            (3, 9, 65),
            (8, 30, 200),
            (16, 7, 79),
            (20, 7, 291),
            (64, 13, 256),
            (5, 8, 2500),
        ] {
            check::<f32>(sizes);
            check::<f64>(sizes);
        }
        check::<f32>((131, 20, 515));
        check::<f32>((150, 3, 2048));
    }

    #[test]
    fn other_products_are_no_dot_products() {
        let square = [0.0f32; 64 * 64];
        let dense = View::dense(&square, 64);
        // Columns apart; rows that are too short for so many, or too many.
        assert!(!by_dots(4, 64, &dense, &dense));
        assert!(!by_dots(32, 64, &dense, &dense.transpose()));
        assert!(!by_dots(100, 512, &dense, &dense.transpose()));
        assert!(!by_dots(100, 4096, &dense, &dense.transpose()));
    }

    // Equal terms lose most: 64 of a lane at most 16 units, and pieces nothing more.
    #[test]
    fn long_sums_are_kept_in_binary64() {
        let k = 100_003;
        let (x, y) = (vec![0.1f32; 2 * k], vec![1.0f32; 3 * k]);
        let (left, right) = (View::dense(&x, k), View::dense(&y, k).transpose());
        let want = f64::from(0.1f32) * k as f64;
        row_dots((2, 3, k), left, right, |_, _, sum| {
            let units = (f64::from(sum) - want).abs() / (want * f64::exp2(-24.0));
            assert!(units <= 16.0, "{sum} for {want}: {units} units");
        });
    }
}
