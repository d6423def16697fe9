//! Matrix products of a device's library.

use super::Buffer;
use crate::cuda::{self, Activation};
use crate::{Config, DType, Error, Result};

/// A matrix in a buffer: the element it starts at, and the distances of its rows and columns, in elements.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    /// The memory.
    pub buffer: &'a Buffer,
    /// The first element.
    pub start: usize,
    /// From a row to the next.
    pub row: isize,
    /// From a column to the next.
    pub column: isize,
    /// From a matrix of a batch to the next.
    pub batch: isize,
}

/// c = f(a·b + bias) for each matrix of a batch: m×k by k×n into dense row-major m×n.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// The dtype of the operands, a float. Half types are summed in binary32; binary32 is IEEE's, unless
    /// `FERROTRACE_TF32=1` asks for 10 bits of the operands' fractions.
    pub dtype: DType,
    /// The dtype of the result and the bias: the operands' own, or binary32 for half types without a bias.
    pub result: DType,
    /// Rows of `a`, columns of `b`, what is summed over.
    pub sizes: [usize; 3],
    /// Matrices.
    pub count: usize,
    /// The left operand.
    pub a: Matrix<'a>,
    /// The right operand.
    pub b: Matrix<'a>,
    /// Dense numbers to add, one for each column: their memory, and the first element there.
    pub bias: Option<(&'a Buffer, usize)>,
    /// The activation that is applied to the result.
    pub activation: Activation,
    /// The result's memory, and its first element there.
    pub out: (&'a Buffer, usize),
    /// From a result to the next, in elements.
    pub out_batch: usize,
}

/// How the library is to read a matrix of this many rows and columns, as the transpose of what it calls one: whether
/// transposed, and the distance of its long lines. `None` for strides it does not take.
fn orientation(matrix: &Matrix<'_>, rows: usize, columns: usize) -> Option<(bool, u64)> {
    let long = |unit: isize, line: isize, length: usize, lines: usize| {
        let dense = unit == 1 || length == 1;
        // Where there is one line only, its distance is of no account, but must be allowed.
        let line = if lines == 1 { length as isize } else { line };
        (dense && line >= length.max(1) as isize).then_some(line as u64)
    };
    if let Some(line) = long(matrix.column, matrix.row, columns, rows) {
        return Some((false, line));
    }
    let line = long(matrix.row, matrix.column, rows, columns)?;
    Some((true, line))
}

/// Puts a product on the stream of the operands' device. `false`, and nothing done, where the library is missing or
/// does not take the operands: then another way must be found.
///
/// # Errors
/// `Internal` for operands beyond their buffers or of several devices; `Device` for what the library answers.
pub fn product(p: &Product<'_>) -> Result<bool> {
    let [m, n, k] = p.sizes;
    let index = p.out.0.device().cuda_index();
    let Some(index) = index.filter(|_| m * n * k * p.count > 0 && cuda::multiplies()) else {
        return Ok(false);
    };
    let wide = p.dtype.is_half() && p.result == DType::F32 && p.bias.is_none();
    if !p.dtype.is_float() || !(wide || p.result == p.dtype) || i32::try_from(p.count).is_err() {
        return Ok(false);
    }
    if p.bias.is_some() && !cuda::adds_bias(p.result, n) {
        return Ok(false);
    }
    // Row-major matrices are the transposes of the library's: cᵀ = bᵀ·aᵀ.
    let (Some(a), Some(b)) = (orientation(&p.a, m, k), orientation(&p.b, k, n)) else {
        return Ok(false);
    };
    let held = |buffer: &Buffer| buffer.bytes() / p.dtype.size();
    let room = |buffer: &Buffer| buffer.bytes() / p.result.size();
    let at = |x: &Matrix<'_>, rows: usize, columns: usize| {
        let reach = |n: usize, stride: isize| (n as isize - 1) * stride;
        let all = [
            reach(rows, x.row),
            reach(columns, x.column),
            reach(p.count, x.batch),
        ];
        let low = x.start as isize + all.iter().map(|r| (*r).min(0)).sum::<isize>();
        let high = x.start as isize + all.iter().map(|r| (*r).max(0)).sum::<isize>();
        let fits = low >= 0 && (high as usize) < held(x.buffer);
        address(x.buffer, index, fits, x.start, p.dtype)
    };
    let (left, right) = (at(&p.a, m, k)?, at(&p.b, k, n)?);
    let fits = p.out.1 + (p.count - 1) * p.out_batch + m * n <= room(p.out.0);
    let out = address(p.out.0, index, fits, p.out.1, p.result)?;
    let bias = match p.bias {
        Some((buffer, start)) => address(buffer, index, start + n <= held(buffer), start, p.dtype)?,
        None => 0,
    };
    let words = [right, left, out, bias];
    let request = cuda::Request {
        dtype: p.dtype,
        result: p.result,
        short: p.dtype == DType::F32 && Config::get().tf32,
        sizes: [n as u64, m as u64, k as u64],
        count: p.count as i32,
        transposed: [b.0, a.0],
        lines: [b.1, a.1],
        batches: [p.b.batch as i64, p.a.batch as i64, p.out_batch as i64],
        bias: p.bias.is_some(),
        activation: p.activation,
        // Device memory starts at multiples of 256; more than 16 makes no difference.
        alignments: words.map(|address| 1 << (address | 16).trailing_zeros()),
    };
    cuda::multiply(index, request, words)
}

/// The address of an element of a buffer that must lie on the device.
fn address(buffer: &Buffer, index: u32, fits: bool, start: usize, dtype: DType) -> Result<u64> {
    if !fits || buffer.device().cuda_index() != Some(index) {
        return Err(Error::internal(
            "a matrix lies outside its buffer, or on another device",
        ));
    }
    Ok(buffer.as_ptr() as u64 + (start * dtype.size()) as u64)
}
