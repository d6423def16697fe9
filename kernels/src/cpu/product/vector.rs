//! Products of a vector and a matrix, at the speed of memory.

#[cfg(target_arch = "x86_64")]
use super::dot_lanes;
use super::dots::Tiled;
use crate::cpu::dense::{Plain, Shared, ranges};
use crate::cpu::number::Wide;
use crate::cpu::view::View;
use crate::support::cast::Cast;
use ferrotrace_runtime::{DType, Isa, Pool};
use gemm_common::Parallelism;

/// A floating-point type in which products are computed.
pub trait Real: Wide<Total = f64> + Plain + Cast<Self> + Tiled {
    /// self · a + b, rounded once where the machine has the instruction.
    fn fused(self, a: Self, b: Self) -> Self;
    /// self − other.
    fn minus(self, other: Self) -> Self;
    /// self / other.
    fn per(self, other: Self) -> Self;
    /// The library's product.
    fn product() -> Product<Self>;
}

/// The signature of the library's products: m, n, k; the result, the left and the right matrix, each with the distances
/// of its columns and of its rows, none of them negative along k and in the result; whether the result is added to;
/// factors of it and of the product; three conjugations; threads.
pub type Product<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

impl Real for f32 {
    #[inline(always)]
    fn fused(self, a: f32, b: f32) -> f32 {
        self.mul_add(a, b)
    }
    #[inline(always)]
    fn minus(self, other: f32) -> f32 {
        self - other
    }
    #[inline(always)]
    fn per(self, other: f32) -> f32 {
        self / other
    }

    fn product() -> Product<f32> {
        gemm_f32::gemm::f32::get_gemm_fn()
    }
}

impl Real for f64 {
    #[inline(always)]
    fn fused(self, a: f64, b: f64) -> f64 {
        self.mul_add(a, b)
    }
    #[inline(always)]
    fn minus(self, other: f64) -> f64 {
        self - other
    }
    #[inline(always)]
    fn per(self, other: f64) -> f64 {
        self / other
    }

    fn product() -> Product<f64> {
        gemm_f64::gemm::f64::get_gemm_fn()
    }
}

/// Columns of one task at most: long runs of memory, whose running sums alone fit the first-level cache.
const COLUMNS: usize = 4096;
/// Tasks for each thread, below which tasks have fewer columns: one that comes late does not hold up the others then.
const TASKS: usize = 4;
/// Elements of the matrix that such a task has at least.
const TASK: usize = 1 << 18;
/// Rows of one task at least.
const CHUNK: usize = 256;
/// Chunks of rows at most: so many partial sums are kept.
const CHUNKS: usize = 16;
/// Bytes of a matrix that are read in the time of an elementary operation.
const READ: usize = 4;
/// Elements of a piece of a long dot product, whose pieces are added in binary64.
const PIECE: usize = 2048;
/// Rows whose sum joins a total in binary64, where there are more than twice as many.
const RUN: usize = 64;
/// Running sums of a dot product: four vectors of the widest registers.
pub(super) const LANES: usize = 64;
/// Rows added to the running sums in one pass over these. The rows drive the sums out of the first-level cache, so that
/// passes are dear.
const ROWS: usize = 8;
/// Dot products at once, whose running sums are half of the widest registers: of `f32`, and half as many of `f64`.
const DOTS: usize = 4;

/// An element of a matrix that is multiplied in type `T`.
pub trait Weight<T>: Cast<T> + Copy + Send + Sync {}
impl<T, W: Cast<T> + Copy + Send + Sync> Weight<T> for W {}

/// Writes `x[1, k] · b[k, n]` to `out`; `false` where the strides suit neither kernel. Sums are cut by sizes alone.
///
/// The matrix may be of half precision: each element is converted where it is multiplied.
pub fn vector_matrix<T: Real, W: Weight<T>>(
    k: usize,
    n: usize,
    x: View<'_, T>,
    b: View<'_, W>,
    out: &mut [T],
) -> bool {
    let rows = b.col == 1 && (b.row >= n as isize || k == 1);
    let columns = b.row == 1 && (b.col >= k as isize || n == 1);
    if k == 0 || n == 0 || !(rows || columns) {
        return false;
    }
    let copied: Vec<T>;
    let x = match x.col {
        1 => &x.data[x.start..][..k],
        step => {
            let at = |i: usize| x.data[(x.start as isize + i as isize * step) as usize];
            copied = (0..k).map(at).collect();
            &copied
        }
    };
    if rows {
        sum_of_rows(x, &b.data[b.start..], b.row as usize, out);
    } else {
        let out = Shared::new(out);
        let (data, stride) = (&b.data[b.start..], b.col as usize);
        ranges(n, k * size_of::<W>() / READ, |range| {
            // SAFETY: ranges are disjoint.
            let out = unsafe { out.part(range.clone()) };
            let column = |j: usize| &data[(range.start + j) * stride..][..k];
            if size_of::<T>() == 4 {
                each_dot::<T, W, DOTS>(x, column, out);
            } else {
                each_dot::<T, W, { DOTS / 2 }>(x, column, out);
            }
        });
    }
    true
}

/// out[j] = Σ x[i] · column(j)[i], `R` columns at a time.
fn each_dot<'a, T: Real, W: Weight<T> + 'a, const R: usize>(
    x: &[T],
    column: impl Fn(usize) -> &'a [W],
    out: &mut [T],
) {
    let whole = out.len() / R * R;
    for j in (0..whole).step_by(R) {
        let columns = std::array::from_fn::<_, R, _>(|r| column(j + r));
        out[j..j + R].copy_from_slice(&dots(x, columns));
    }
    for (j, out) in out.iter_mut().enumerate().skip(whole) {
        [*out] = dots(x, [column(j)]);
    }
}

/// Calls `put` with the product of each of some dense rows and dense columns, and their numbers.
pub(super) fn each_row_dot<T: Real>(
    sizes: (usize, usize, usize),
    a: View<'_, T>,
    b: View<'_, T>,
    put: impl FnMut(usize, usize, T),
) {
    if size_of::<T>() == 4 {
        row_dots::<T, DOTS>(sizes, a, b, put);
    } else {
        row_dots::<T, { DOTS / 2 }>(sizes, a, b, put);
    }
}

/// `R` columns at a time, which stay in the cache for all rows.
fn row_dots<T: Real, const R: usize>(
    (rows, columns, k): (usize, usize, usize),
    a: View<'_, T>,
    b: View<'_, T>,
    mut put: impl FnMut(usize, usize, T),
) {
    let row = |i: usize| &a.data[a.from(i, 0).start..][..k];
    let column = |j: usize| &b.data[b.from(0, j).start..][..k];
    let whole = columns / R * R;
    for j in (0..whole).step_by(R) {
        let group = std::array::from_fn::<_, R, _>(|r| column(j + r));
        for i in 0..rows {
            let sums: [T; R] = dots(row(i), group);
            for (r, sum) in sums.into_iter().enumerate() {
                put(i, j + r, sum);
            }
        }
    }
    for j in whole..columns {
        for i in 0..rows {
            let [sum] = dots(row(i), [column(j)]);
            put(i, j, sum);
        }
    }
}

/// out[j] = Σ x[i] · rows[i · stride + j].
fn sum_of_rows<T: Real, W: Weight<T>>(x: &[T], rows: &[W], stride: usize, out: &mut [T]) {
    let (k, n) = (x.len(), out.len());
    let panels = n.div_ceil(COLUMNS);
    let chunks = if panels >= CHUNKS {
        1
    } else {
        (k / CHUNK).clamp(1, CHUNKS)
    };
    // A column's sum is that of its chunks, whichever other columns are in the task.
    let mut width = COLUMNS.min(n);
    let tasks = TASKS * Pool::global().threads();
    while n.div_ceil(width) * chunks < tasks && k / chunks * width >= 2 * TASK {
        width /= 2;
    }
    let panels = n.div_ceil(width);
    let mut partial = vec![T::ZERO; if chunks > 1 { (chunks - 1) * n } else { 0 }];
    let (first, rest) = (Shared::new(out), Shared::new(&mut partial));
    let cost = k / chunks * width * size_of::<W>() / READ;
    ranges(panels * chunks, cost, |range| {
        for task in range {
            let (panel, chunk) = (task % panels, task / panels);
            let columns = panel * width..((panel + 1) * width).min(n);
            // SAFETY: each task has its own columns of its own chunk.
            let sums = unsafe {
                match chunk {
                    0 => first.part(columns.clone()),
                    c => rest.part((c - 1) * n + columns.start..(c - 1) * n + columns.end),
                }
            };
            sums.fill(T::ZERO);
            let (from, to) = (k * chunk / chunks, k * (chunk + 1) / chunks);
            let add = |from: usize, to: usize, sums: &mut [T]| {
                let part = Part {
                    x: &x[from..to],
                    rows: &rows[from * stride + columns.start..],
                    stride,
                };
                let done = part.add::<ROWS>(0, sums);
                let done = part.add::<4>(done, sums);
                part.add::<1>(done, sums);
            };
            if to - from <= 2 * RUN {
                add(from, to, sums);
                continue;
            }
            let mut totals = vec![T::ZERO.total(); sums.len()];
            for first in (from..to).step_by(RUN) {
                add(first, to.min(first + RUN), sums);
                for (total, sum) in totals.iter_mut().zip(sums.iter_mut()) {
                    *total = T::both(*total, std::mem::replace(sum, T::ZERO).total());
                }
            }
            for (sum, &total) in sums.iter_mut().zip(&totals) {
                *sum = T::of_total(total);
            }
        }
    });
    for partial in partial.chunks_exact(n) {
        for (out, p) in out.iter_mut().zip(partial) {
            *out = out.plus(*p);
        }
    }
}

/// Rows of a chunk, from its first column on, and their factors.
struct Part<'a, T, W> {
    x: &'a [T],
    rows: &'a [W],
    stride: usize,
}

impl<T: Real, W: Weight<T>> Part<'_, T, W> {
    /// Adds rows from `from` on to the sums, `R` at a time as long as there are so many; the first row left.
    fn add<const R: usize>(&self, from: usize, sums: &mut [T]) -> usize {
        let width = sums.len();
        let mut i = from;
        while i + R <= self.x.len() {
            let row = |r: usize| &self.rows[(i + r) * self.stride..][..width];
            let factor = |r: usize| self.x[i + r];
            add_rows::<T, W, R>(sums, std::array::from_fn(row), std::array::from_fn(factor));
            i += R;
        }
        i
    }
}

#[inline(always)]
fn term<T: Real, const FUSED: bool>(a: T, b: T, sum: T) -> T {
    if FUSED {
        a.fused(b, sum)
    } else {
        a.times(b).plus(sum)
    }
}

#[inline(always)]
fn add_rows_body<T: Real, W: Weight<T>, const R: usize, const FUSED: bool>(
    sums: &mut [T],
    rows: [&[W]; R],
    x: [T; R],
) {
    let n = sums.len();
    let rows = rows.map(|row| &row[..n]);
    for (j, out) in sums.iter_mut().enumerate() {
        let mut sum = *out;
        for r in 0..R {
            sum = term::<T, FUSED>(x[r], rows[r][j].cast(), sum);
        }
        *out = sum;
    }
}

/// The sums of a vector's halves.
#[inline(always)]
fn halves<T: Real, const N: usize, const H: usize>(x: [T; N]) -> [T; H] {
    let mut sums = [T::ZERO; H];
    for l in 0..H {
        sums[l] = x[l].plus(x[l + H]);
    }
    sums
}

/// Lane `i % 64` of each sum first, then halves of the lanes. All lengths are constants, which keeps sums in registers: with
/// loops over halves their ends took longer than a thousand terms.
#[inline(always)]
fn dots_body<T: Real, W: Weight<T>, const R: usize, const FUSED: bool>(
    x: &[T],
    columns: [&[W]; R],
) -> [T; R] {
    let (passes, rest) = x.as_chunks::<LANES>();
    let columns = columns.map(|column| column[..x.len()].as_chunks::<LANES>());
    let mut sums = [[T::ZERO; LANES]; R];
    for (i, a) in passes.iter().enumerate() {
        for r in 0..R {
            let b = &columns[r].0[i];
            for l in 0..LANES {
                sums[r][l] = term::<T, FUSED>(a[l], b[l].cast(), sums[r][l]);
            }
        }
    }
    if !rest.is_empty() {
        // Zeros add nothing: no lane is -0.
        let mut a = [T::ZERO; LANES];
        a[..rest.len()].copy_from_slice(rest);
        for r in 0..R {
            let mut b = [T::ZERO; LANES];
            for (b, w) in b.iter_mut().zip(columns[r].1) {
                *b = w.cast();
            }
            for l in 0..LANES {
                sums[r][l] = term::<T, FUSED>(a[l], b[l], sums[r][l]);
            }
        }
    }
    // Indexed by a constant, so that sums stay in registers: `map` may become a call, compiled without this function's
    // instruction set.
    let mut all = [T::ZERO; R];
    for r in 0..R {
        let sums: [T; 32] = halves(sums[r]);
        let sums: [T; 16] = halves(sums);
        let sums: [T; 8] = halves(sums);
        let sums: [T; 4] = halves(sums);
        let [a, b] = halves(sums);
        all[r] = a.plus(b);
    }
    all
}

/// The two kernels as compiled for an instruction set.
macro_rules! compiled {
    ($add_rows:ident, $dots:ident, $features:literal) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $add_rows<T: Real, W: Weight<T>, const R: usize>(
            sums: &mut [T],
            rows: [&[W]; R],
            x: [T; R],
        ) {
            add_rows_body::<T, W, R, true>(sums, rows, x);
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        fn $dots<T: Real, W: Weight<T>, const R: usize>(x: &[T], columns: [&[W]; R]) -> [T; R] {
            dots_body::<T, W, R, true>(x, columns)
        }
    };
}

compiled!(add_rows_avx2, dots_avx2, "avx2,fma,f16c");
compiled!(
    add_rows_avx512,
    dots_avx512,
    "avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c"
);

fn add_rows<T: Real, W: Weight<T>, const R: usize>(sums: &mut [T], rows: [&[W]; R], x: [T; R]) {
    match Isa::host() {
        // SAFETY: the machine has these features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { add_rows_avx512(sums, rows, x) },
        // SAFETY: the machine has these features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { add_rows_avx2(sums, rows, x) },
        _ => add_rows_body::<T, W, R, { cfg!(target_arch = "aarch64") }>(sums, rows, x),
    }
}

/// `Σ x[i] · column[i]` of each column. A sum's bits do not depend on how many are computed at once. Long ones are cut.
#[inline(always)]
fn dots<T: Real, W: Weight<T>, const R: usize>(x: &[T], columns: [&[W]; R]) -> [T; R] {
    match x.len() <= 2 * PIECE {
        true => dots_of_piece(x, columns),
        false => long_dots(x, columns),
    }
}

#[inline(never)]
fn long_dots<T: Real, W: Weight<T>, const R: usize>(x: &[T], columns: [&[W]; R]) -> [T; R] {
    let mut sums = [T::ZERO.total(); R];
    for (i, piece) in x.chunks(PIECE).enumerate() {
        let of = columns.map(|column| &column[i * PIECE..][..piece.len()]);
        let part = dots_of_piece(piece, of);
        sums = std::array::from_fn(|r| T::both(sums[r], part[r].total()));
    }
    sums.map(T::of_total)
}

#[inline(always)]
fn dots_of_piece<T: Real, W: Weight<T>, const R: usize>(x: &[T], columns: [&[W]; R]) -> [T; R] {
    match Isa::host() {
        // SAFETY: the machine has these features; both types are `f32`, and slices with as many elements as `x` were checked.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 if size_of::<T>() == 4 && W::DTYPE == DType::F32 => unsafe {
            let x = std::slice::from_raw_parts(x.as_ptr().cast::<f32>(), x.len());
            let columns = columns.map(|column| column[..x.len()].as_ptr().cast::<f32>());
            dot_lanes::dots(x, columns).map(|sum| T::of_total(sum.into()))
        },
        // SAFETY: the machine has these features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => unsafe { dots_avx512(x, columns) },
        // SAFETY: the machine has these features.
        #[cfg(target_arch = "x86_64")]
        Isa::Avx2 => unsafe { dots_avx2(x, columns) },
        _ => dots_body::<T, W, R, { cfg!(target_arch = "aarch64") }>(x, columns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_products_have_the_same_bits_in_registers() {
        for k in (0..=3 * LANES + 1).chain([1000, 2 * PIECE]) {
            let x: Vec<f32> = (0..k)
                .map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0)
                .collect();
            let column = |r: usize| (0..k).map(move |i| ((i * (71 + r) % 89) as f32 - 44.0) / 3.0);
            let columns: [Vec<f32>; DOTS] = std::array::from_fn(|r| column(r).collect());
            let columns = columns.each_ref().map(Vec::as_slice);
            let got = dots_of_piece(&x, columns);
            for (r, got) in got.into_iter().enumerate() {
                let terms = x.iter().zip(columns[r]).map(|(a, b)| *a as f64 * *b as f64);
                let (want, most) =
                    terms.fold((0.0, 0.0), |(sum, most), t| (sum + t, most + t.abs()));
                assert!(
                    (got as f64 - want).abs() <= 1e-6 * most,
                    "{k} terms: {got}, not {want}"
                );
                assert_eq!(dots_of_piece(&x, [columns[r]]), [got]);
            }
            if Isa::host() == Isa::Avx512 {
                let in_memory = dots_body::<f32, f32, DOTS, true>(&x, columns);
                assert_eq!(
                    got.map(f32::to_bits),
                    in_memory.map(f32::to_bits),
                    "{k} terms"
                );
            }
        }
    }

    // Rows left over behind whole groups, columns behind whole vectors, and chunks of rows.
    #[test]
    fn vectors_times_matrices_of_every_height() {
        for k in (1..=2 * ROWS + 1).chain([300, 1031]) {
            for n in [1, 3, 16, 100, COLUMNS - 3, COLUMNS + 5] {
                let x: Vec<f64> = (0..k).map(|i| (i * 37 % 19) as f64 - 9.0).collect();
                let b: Vec<f64> = (0..k * n).map(|i| (i * 101 % 23) as f64 - 11.0).collect();
                let narrow = |v: &[f64]| v.iter().map(|&x| x as f32).collect::<Vec<f32>>();
                let (x32, b32) = (narrow(&x), narrow(&b));
                let mut out = vec![f32::NAN; n];
                let (left, right) = (View::dense(&x32, k), View::dense(&b32, n));
                assert!(vector_matrix(k, n, left, right, &mut out));
                for (j, &y) in out.iter().enumerate() {
                    let want: f64 = (0..k).map(|i| x[i] * b[i * n + j]).sum();
                    // Whole numbers below 2^24: every order of summation is exact.
                    assert_eq!(y as f64, want, "{k} rows, column {j} of {n}");
                }
            }
        }
    }
}
