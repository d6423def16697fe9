//! Products of dense rows and dense columns: dot products, of a tile of rows and columns at a time.
//!
//! So a layer's weight of dense rows lies in the product by its transpose. The library would have to turn it for each product;
//! here nothing is moved. A sum runs over lanes, which are added up at its end: its bits depend neither on the tile nor on what
//! else is computed.

use super::long::WORTH;
use super::vector::{Real, each_row_dot};
use super::view::View;
use ferrotrace_runtime::Isa;
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
    (m, n, k): (usize, usize, usize),
    a: View<'_, T>,
    b: View<'_, T>,
    put: impl FnMut(usize, usize, T),
) {
    let (high, wide) = match Isa::host() {
        Isa::Avx512 if m <= LOW => (8, 3),
        Isa::Avx512 => (4, 6),
        Isa::Avx2 => (2, 3),
        _ => return each_row_dot((m, n, k), a, b, put),
    };
    Product { m, n, k, a, b }.each(high, wide, put);
}

/// The most rows and columns of a tile.
const ROWS: usize = 8;
const COLUMNS: usize = 6;

/// Rows or columns of a tile; of fewer, the last are not used.
type Pointers<T, const N: usize> = [*const T; N];

/// The sums of a tile.
type Sums<T> = [[T; COLUMNS]; ROWS];

/// Writes the products of a tile's rows and columns of `k` elements, a multiple of the lanes of a sum. Elements `ahead` of the
/// columns are asked for, unless that is 0.
///
/// # Safety
/// The machine has the instruction set; `k` elements may be read at each pointer.
type Tile<T> =
    unsafe fn(&Pointers<T, ROWS>, &Pointers<T, COLUMNS>, k: usize, ahead: usize, &mut Sums<T>);

/// An element type that has tiles.
pub trait Tiled: Sized {
    /// The function for a tile of so many rows and columns, which [`row_dots`] asks for by the host's instruction set.
    fn tile(rows: usize, columns: usize) -> Tile<Self>;
}

/// A product of `m` rows and `n` columns of `k` elements, by tiles. Tiles alone are compiled for each size: all else takes less
/// time than they do.
struct Product<'a, T> {
    m: usize,
    n: usize,
    k: usize,
    a: View<'a, T>,
    b: View<'a, T>,
}

impl<T: Real> Product<'_, T> {
    /// All products, in tiles of at most so many rows and columns.
    fn each(&self, high: usize, wide: usize, mut put: impl FnMut(usize, usize, T)) {
        let whole = self.n / wide * wide;
        let block = (BLOCK / size_of::<T>() / self.k).max(high);
        let block = block.next_multiple_of(high);
        for first in (0..self.m).step_by(block) {
            let rows = first..self.m.min(first + block);
            for j in (0..whole).step_by(wide) {
                self.columns(rows.clone(), high, j..j + wide, &mut put);
            }
            for j in whole..self.n {
                self.columns(rows.clone(), high, j..j + 1, &mut put);
            }
        }
    }

    /// The products of some rows and a tile's columns, which stay in the first-level cache.
    fn columns(
        &self,
        rows: Range<usize>,
        high: usize,
        columns: Range<usize>,
        put: &mut impl FnMut(usize, usize, T),
    ) {
        let (mut x, mut y): Lines<'_, T> = ([&[]; ROWS], [&[]; COLUMNS]);
        for (y, j) in y.iter_mut().zip(columns.clone()) {
            *y = &self.b.data[self.b.from(0, j).start..][..self.k];
        }
        let wide = columns.len();
        let next = wide * self.b.col.unsigned_abs();
        let (mut height, mut tile) = (high, T::tile(high, wide));
        let mut sums = [[T::ZERO; COLUMNS]; ROWS];
        let mut i = rows.start;
        while i < rows.end {
            let left = rows.end - i;
            let now = match left {
                _ if left >= high => high,
                4.. if high > 4 => 4,
                _ => left.min(2),
            };
            if now != height {
                (height, tile) = (now, T::tile(now, wide));
            }
            for (x, i) in x.iter_mut().zip(i..i + height) {
                *x = &self.a.data[self.a.from(i, 0).start..][..self.k];
            }
            let lines = (&x[..height], &y[..wide]);
            let ahead = if i == 0 { next } else { 0 };
            match self.k <= PIECE {
                true => part(tile, lines, 0..self.k, ahead, &mut sums),
                false => pieces(tile, lines, self.k, ahead, &mut sums),
            }
            for (r, sums) in sums[..height].iter().enumerate() {
                for (c, &sum) in sums[..wide].iter().enumerate() {
                    put(i + r, columns.start + c, sum);
                }
            }
            i += height;
        }
    }
}

/// Rows and columns of a tile.
type Lines<'a, T> = ([&'a [T]; ROWS], [&'a [T]; COLUMNS]);

/// The sums of `k` terms, of which pieces are added up in binary64.
fn pieces<T: Real>(
    tile: Tile<T>,
    lines: (&[&[T]], &[&[T]]),
    k: usize,
    ahead: usize,
    sums: &mut Sums<T>,
) {
    let mut totals = [[T::ZERO.total(); COLUMNS]; ROWS];
    for from in (0..k).step_by(PIECE) {
        part(tile, lines, from..k.min(from + PIECE), ahead, sums);
        for r in 0..lines.0.len() {
            for c in 0..lines.1.len() {
                totals[r][c] = T::both(totals[r][c], sums[r][c].total());
            }
        }
    }
    for (total, sum) in totals.iter().flatten().zip(sums.iter_mut().flatten()) {
        *sum = T::of_total(*total);
    }
}

/// The sums of a piece of the terms. Elements behind whole lanes are summed apart.
#[inline(always)]
fn part<T: Real>(
    tile: Tile<T>,
    (rows, columns): (&[&[T]], &[&[T]]),
    terms: Range<usize>,
    ahead: usize,
    sums: &mut Sums<T>,
) {
    let rest = terms.len() % (LANES / size_of::<T>());
    let whole = terms.end - rest;
    let (mut x, mut y) = ([std::ptr::null(); ROWS], [std::ptr::null(); COLUMNS]);
    for (x, row) in x.iter_mut().zip(rows) {
        *x = row[terms.start..terms.end].as_ptr();
    }
    for (y, column) in y.iter_mut().zip(columns) {
        *y = column[terms.start..terms.end].as_ptr();
    }
    // SAFETY: slices of that many elements; the host's instruction set chose the tiles.
    unsafe { tile(&x, &y, terms.len() - rest, ahead, sums) };
    if rest > 0 {
        add_last(tile, (rows, columns), whole..terms.end, sums);
    }
}

/// Adds the sums of the last terms, fewer than lanes.
fn add_last<T: Real>(
    tile: Tile<T>,
    (rows, columns): (&[&[T]], &[&[T]]),
    terms: Range<usize>,
    sums: &mut Sums<T>,
) {
    // Zeros add nothing: no sum is -0.
    let mut last = [[T::ZERO; MOST]; ROWS + COLUMNS];
    let (mut x, mut y) = ([std::ptr::null(); ROWS], [std::ptr::null(); COLUMNS]);
    let (last_rows, last_columns) = last.split_at_mut(ROWS);
    for ((x, last), row) in x.iter_mut().zip(last_rows).zip(rows) {
        last[..terms.len()].copy_from_slice(&row[terms.clone()]);
        *x = last.as_ptr();
    }
    for ((y, last), column) in y.iter_mut().zip(last_columns).zip(columns) {
        last[..terms.len()].copy_from_slice(&column[terms.clone()]);
        *y = last.as_ptr();
    }
    let mut more = [[T::ZERO; COLUMNS]; ROWS];
    // SAFETY: arrays of as many elements as lanes.
    unsafe { tile(&x, &y, LANES / size_of::<T>(), 0, &mut more) };
    for (sum, more) in sums.iter_mut().flatten().zip(more.iter().flatten()) {
        *sum = sum.plus(*more);
    }
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
            rows: &Pointers<$type, ROWS>,
            columns: &Pointers<$type, COLUMNS>,
            k: usize,
            ahead: usize,
            all: &mut Sums<$type>,
        ) {
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
            for r in 0..R {
                for c in 0..C {
                    all[r][c] = halves::$sum(sums[r][c]);
                }
            }
        }
    };
}

tiles!(avx512_f32, "avx512f,avx512dq,avx512vl,avx2,fma", f32, 16, _mm512_setzero_ps _mm512_loadu_ps _mm512_fmadd_ps of_sixteen);
tiles!(avx512_f64, "avx512f,avx512dq,avx512vl,avx2,fma", f64, 8, _mm512_setzero_pd _mm512_loadu_pd _mm512_fmadd_pd of_both);
tiles!(avx2_f32, "avx2,fma", f32, 8, _mm256_setzero_ps _mm256_loadu_ps _mm256_fmadd_ps of_eight);
tiles!(avx2_f64, "avx2,fma", f64, 4, _mm256_setzero_pd _mm256_loadu_pd _mm256_fmadd_pd of_four);

/// Tiles of an element type by instruction sets.
macro_rules! tiled {
    ($type:ty, $avx512:ident, $avx2:ident) => {
        impl Tiled for $type {
            fn tile(rows: usize, columns: usize) -> Tile<$type> {
                #[cfg(target_arch = "x86_64")]
                match (Isa::host(), rows, columns) {
                    (Isa::Avx512, 8, 3) => return $avx512::<8, 3>,
                    (Isa::Avx512, 8, 1) => return $avx512::<8, 1>,
                    (Isa::Avx512, 4, 6) => return $avx512::<4, 6>,
                    (Isa::Avx512, 4, 3) => return $avx512::<4, 3>,
                    (Isa::Avx512, 4, 1) => return $avx512::<4, 1>,
                    (Isa::Avx512, 2, 6) => return $avx512::<2, 6>,
                    (Isa::Avx512, 2, 3) => return $avx512::<2, 3>,
                    (Isa::Avx512, 2, 1) => return $avx512::<2, 1>,
                    (Isa::Avx512, 1, 6) => return $avx512::<1, 6>,
                    (Isa::Avx512, 1, 3) => return $avx512::<1, 3>,
                    (Isa::Avx512, 1, 1) => return $avx512::<1, 1>,
                    (Isa::Avx2, 2, 3) => return $avx2::<2, 3>,
                    (Isa::Avx2, 2, 1) => return $avx2::<2, 1>,
                    (Isa::Avx2, 1, 3) => return $avx2::<1, 3>,
                    (Isa::Avx2, 1, 1) => return $avx2::<1, 1>,
                    _ => {}
                }
                unreachable!("a tile of {rows} rows and {columns} columns")
            }
        }
    };
}

tiled!(f32, avx512_f32, avx2_f32);
tiled!(f64, avx512_f64, avx2_f64);

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
            (7, 4, 130),
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
