//! Matrix products by cuBLAS, where it can be loaded.

use super::{Context, context, libraries};
use crate::{Buffer, DType, Error, ErrorKind, Result};
use cudarc::cublas::sys;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use std::ffi::c_void;
use std::ptr;

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

/// c = a·b for each matrix of a batch: m×k by k×n into dense row-major m×n, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// Of all three: a float. Half types are summed in binary32; binary32 is IEEE's, not a shorter format.
    pub dtype: DType,
    /// Rows of `a`, columns of `b`, what is summed over.
    pub sizes: [usize; 3],
    /// Matrices.
    pub count: usize,
    /// The left operand.
    pub a: Matrix<'a>,
    /// The right operand.
    pub b: Matrix<'a>,
    /// The result's memory, and its first element there.
    pub out: (&'a Buffer, usize),
}

/// A handle of the library, bound to a device's stream.
pub(super) struct Blas(Mutex<sys::cublasHandle_t>);

// SAFETY: a handle may be used by any thread, by one at a time, which the lock sees to.
unsafe impl Send for Blas {}
// SAFETY: as above.
unsafe impl Sync for Blas {}

static PRESENT: Lazy<bool> = Lazy::new(|| {
    // SAFETY: loading the library runs its initialisers, which have no preconditions.
    let present = || unsafe { sys::is_culib_present() };
    libraries::find(&["libcublasLt", "libcublas"], present).is_ok()
});

fn check(status: sys::cublasStatus_t) -> Result<()> {
    match status {
        sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(Error::new(ErrorKind::Device(format!(
            "cuBLAS answers {other:?}"
        )))),
    }
}

impl Blas {
    pub(super) fn new(context: &Context) -> Result<Blas> {
        context.bind()?;
        let mut handle = ptr::null_mut();
        // Sums of partial results keep the accumulator's precision.
        use sys::cublasMath_t::CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION as MODE;
        // SAFETY: the pointer is to a live variable; the handle is never destroyed, and the stream never either.
        unsafe {
            check(sys::cublasCreate_v2(&mut handle))?;
            check(sys::cublasSetStream_v2(handle, context.stream().cast()))?;
            check(sys::cublasSetMathMode(handle, MODE))?;
        }
        Ok(Blas(Mutex::new(handle)))
    }
}

/// How the library is to read a matrix of this many rows and columns, as the transpose of what it calls one: the
/// operation and the distance of its long lines. `None` for strides it does not take.
fn orientation(
    matrix: &Matrix<'_>,
    rows: usize,
    columns: usize,
) -> Option<(sys::cublasOperation_t, i32)> {
    use sys::cublasOperation_t::{CUBLAS_OP_N, CUBLAS_OP_T};
    let long = |unit: isize, line: isize, length: usize, lines: usize| {
        let dense = unit == 1 || length == 1;
        // Where there is one line only, its distance is of no account, but must be allowed.
        let line = if lines == 1 { length as isize } else { line };
        (dense && line >= length.max(1) as isize).then(|| i32::try_from(line).ok())?
    };
    if let Some(line) = long(matrix.column, matrix.row, columns, rows) {
        return Some((CUBLAS_OP_N, line));
    }
    let line = long(matrix.row, matrix.column, rows, columns)?;
    Some((CUBLAS_OP_T, line))
}

/// Puts a product on the stream of the operands' device. `false`, and nothing done, where the library is missing or
/// does not take the operands: then another way must be found.
///
/// # Errors
/// `Internal` for operands beyond their buffers or of several devices; `Device` for what the library answers.
pub fn product(p: &Product<'_>) -> Result<bool> {
    let [m, n, k] = p.sizes;
    let index = p.out.0.device().cuda_index();
    let Some(index) = index.filter(|_| m * n * k * p.count > 0 && *PRESENT) else {
        return Ok(false);
    };
    let small = [m, n, k, p.count].map(i32::try_from);
    let [Ok(rows), Ok(columns), Ok(depth), Ok(count)] = small else {
        return Ok(false);
    };
    // Row-major matrices are the transposes of the library's: cᵀ = bᵀ·aᵀ.
    let (Some(a), Some(b)) = (orientation(&p.a, m, k), orientation(&p.b, k, n)) else {
        return Ok(false);
    };
    use sys::cudaDataType_t as Type;
    let ty = match p.dtype {
        DType::F32 => Type::CUDA_R_32F,
        DType::F64 => Type::CUDA_R_64F,
        DType::F16 => Type::CUDA_R_16F,
        DType::BF16 => Type::CUDA_R_16BF,
        _ => return Ok(false),
    };
    let at = |x: &Matrix<'_>, rows: usize, columns: usize| {
        let reach = |n: usize, stride: isize| (n as isize - 1) * stride;
        let all = [
            reach(rows, x.row),
            reach(columns, x.column),
            reach(p.count, x.batch),
        ];
        let low = x.start as isize + all.iter().map(|r| (*r).min(0)).sum::<isize>();
        let high = x.start as isize + all.iter().map(|r| (*r).max(0)).sum::<isize>();
        let held = x.buffer.bytes() / p.dtype.size();
        address(
            x.buffer,
            index,
            low >= 0 && (high as usize) < held,
            x.start,
            p.dtype,
        )
    };
    let (left, right) = (at(&p.a, m, k)?, at(&p.b, k, n)?);
    let fits = p.out.1 + m * n * p.count <= p.out.0.bytes() / p.dtype.size();
    let out = address(p.out.0, index, fits, p.out.1, p.dtype)?;
    let context = context(index)?;
    let blas = context.blas()?.0.lock();
    context.bind()?;
    let (one, zero) = ([1.0f32, 0.0], [1.0f64, 0.0]);
    use sys::cublasComputeType_t as Compute;
    let (compute, one, zero): (_, *const c_void, *const c_void) = match p.dtype {
        DType::F64 => (
            Compute::CUBLAS_COMPUTE_64F,
            ptr::from_ref(&zero[0]).cast(),
            ptr::from_ref(&zero[1]).cast(),
        ),
        _ => (
            Compute::CUBLAS_COMPUTE_32F,
            ptr::from_ref(&one[0]).cast(),
            ptr::from_ref(&one[1]).cast(),
        ),
    };
    // SAFETY: the operands' and the result's elements lie in buffers of this device, as checked above, and the factors
    // are live numbers of the compute type.
    let status = unsafe {
        sys::cublasGemmStridedBatchedEx(
            *blas,
            b.0,
            a.0,
            columns,
            rows,
            depth,
            one,
            right,
            ty,
            b.1,
            p.b.batch as i64,
            left,
            ty,
            a.1,
            p.a.batch as i64,
            zero,
            out.cast_mut(),
            ty,
            columns,
            (m * n) as i64,
            count,
            compute,
            sys::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
        )
    };
    check(status).map(|()| true)
}

/// The address of an element of a buffer that must lie on the device.
fn address(
    buffer: &Buffer,
    index: u32,
    fits: bool,
    start: usize,
    dtype: DType,
) -> Result<*const c_void> {
    if !fits || buffer.device().cuda_index() != Some(index) {
        return Err(Error::internal(
            "a matrix lies outside its buffer, or on another device",
        ));
    }
    Ok(buffer.as_ptr().wrapping_add(start * dtype.size()).cast())
}
