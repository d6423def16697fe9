//! Matrix products by cuBLASLt, where it can be loaded.

mod library;

pub(super) use library::{Library, Request};

use super::libraries::{self, Wanted, functions};
use super::record::{self, Command, Work};
use super::{Context, context};
use crate::{Buffer, Config, DType, Error, ErrorKind, Result};
use cudarc::cublaslt::sys::{self, cublasLtMatrixLayout_t as Layout, cublasStatus_t as Status};
use once_cell::sync::Lazy;
use parking_lot::{Mutex, MutexGuard};
use std::ffi::{c_int, c_void};
use std::path::PathBuf;

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

/// What is done with each element of a product before it is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// max(x, 0).
    Relu,
    /// x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))/2.
    GeluTanh,
}

/// c = f(a·b + bias) for each matrix of a batch: m×k by k×n into dense row-major m×n, one after the other.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// Of the operands: a float. Half types are summed in binary32; binary32 is IEEE's, unless `FERROTRACE_TF32=1` asks
    /// for 10 bits of the operands' fractions.
    pub dtype: DType,
    /// Of the result and the bias: that of the operands, or, of half types without a bias, binary32.
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
    /// What follows.
    pub activation: Activation,
    /// The result's memory, and its first element there.
    pub out: (&'a Buffer, usize),
}

/// The library for a device.
pub(super) struct Blas(Mutex<Library>);

functions! {
    /// The functions that are called.
    Api of sys:
    cublasLtGetVersion() -> usize;
    cublasLtCreate(*mut sys::cublasLtHandle_t) -> Status;
    cublasLtMatmul(
        sys::cublasLtHandle_t, sys::cublasLtMatmulDesc_t, *const c_void, *const c_void, Layout, *const c_void, Layout,
        *const c_void, *const c_void, Layout, *mut c_void, Layout, *const sys::cublasLtMatmulAlgo_t, *mut c_void,
        usize, sys::cudaStream_t,
    ) -> Status;
    cublasLtMatmulAlgoGetHeuristic(
        sys::cublasLtHandle_t, sys::cublasLtMatmulDesc_t, Layout, Layout, Layout, Layout,
        sys::cublasLtMatmulPreference_t, c_int, *mut sys::cublasLtMatmulHeuristicResult_t, *mut c_int,
    ) -> Status;
    cublasLtMatmulDescCreate(
        *mut sys::cublasLtMatmulDesc_t, sys::cublasComputeType_t, sys::cudaDataType_t,
    ) -> Status;
    cublasLtMatmulDescDestroy(sys::cublasLtMatmulDesc_t) -> Status;
    cublasLtMatmulDescSetAttribute(
        sys::cublasLtMatmulDesc_t, sys::cublasLtMatmulDescAttributes_t, *const c_void, usize,
    ) -> Status;
    cublasLtMatmulPreferenceCreate(*mut sys::cublasLtMatmulPreference_t) -> Status;
    cublasLtMatmulPreferenceDestroy(sys::cublasLtMatmulPreference_t) -> Status;
    cublasLtMatmulPreferenceSetAttribute(
        sys::cublasLtMatmulPreference_t, sys::cublasLtMatmulPreferenceAttributes_t, *const c_void, usize,
    ) -> Status;
    cublasLtMatrixLayoutCreate(*mut Layout, sys::cudaDataType, u64, u64, i64) -> Status;
    cublasLtMatrixLayoutDestroy(Layout) -> Status;
    cublasLtMatrixLayoutSetAttribute(
        Layout, sys::cublasLtMatrixLayoutAttribute_t, *const c_void, usize,
    ) -> Status;
}

/// The library that was loaded.
struct Found {
    api: Api,
    file: PathBuf,
}

const WANTED: Wanted<'_> = Wanted {
    stem: "libcublasLt",
    versions: &["", ".13", ".12", ".11"],
    parts: &[],
};

static FOUND: Lazy<Result<Found, String>> = Lazy::new(|| {
    let library = libraries::find(&libraries::of_toolkit(false), WANTED)?;
    let file = library.file("cublasLtGetVersion");
    let api = Api::of(&library).map_err(|why| format!(" from {}: {why}", file.display()))?;
    std::mem::forget(library);
    Ok(Found { api, file })
});

/// The library's functions.
///
/// # Errors
/// `Device` where there is no library.
fn api() -> Result<&'static Api> {
    let api = FOUND.as_ref().map(|found| &found.api);
    api.map_err(|why| Error::new(ErrorKind::Device(format!("there is no cuBLASLt{why}"))))
}

/// The library's version and file, or that there is none.
pub(crate) fn describe() -> String {
    match &*FOUND {
        Ok(found) => {
            // SAFETY: the call has no preconditions.
            let version = unsafe { (found.api.cublasLtGetVersion)() };
            let (major, minor) = (version / 10_000, version / 100 % 100);
            format!("{major}.{minor}, {}", found.file.display())
        }
        Err(why) => format!("none that is used{why}"),
    }
}

impl Blas {
    pub(super) fn new(context: &Context) -> Result<Blas> {
        Ok(Blas(Mutex::new(Library::new(context)?)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Library> {
        self.0.lock()
    }
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
    let Some(index) = index.filter(|_| m * n * k * p.count > 0 && FOUND.is_ok()) else {
        return Ok(false);
    };
    let wide = p.dtype.is_half() && p.result == DType::F32 && p.bias.is_none();
    if !p.dtype.is_float() || !(wide || p.result == p.dtype) || i32::try_from(p.count).is_err() {
        return Ok(false);
    }
    // Of rows that are no multiples of 16 bytes, the library may round sums before it adds a bias.
    let ragged = !(n * p.result.size()).is_multiple_of(16);
    if p.bias.is_some() && p.dtype.is_half() && ragged {
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
    let fits = p.out.1 + m * n * p.count <= room(p.out.0);
    let out = address(p.out.0, index, fits, p.out.1, p.result)?;
    let bias = match p.bias {
        Some((buffer, start)) => address(buffer, index, start + n <= held(buffer), start, p.dtype)?,
        None => 0,
    };
    let words = [right, left, out, bias];
    let request = Request {
        dtype: p.dtype,
        result: p.result,
        short: p.dtype == DType::F32 && Config::get().tf32,
        sizes: [n as u64, m as u64, k as u64],
        count: p.count as i32,
        transposed: [b.0, a.0],
        lines: [b.1, a.1],
        batches: [p.b.batch as i64, p.a.batch as i64],
        bias: p.bias.is_some(),
        activation: p.activation,
        // Device memory starts at multiples of 256; more than 16 makes no difference.
        alignments: words.map(|address| 1 << (address | 16).trailing_zeros()),
    };
    let context = context(index)?;
    context.bind()?;
    let mut library = context.blas()?.lock();
    if !library.prepare(&request)? {
        return Ok(false);
    }
    if record::is_on() {
        record::add(Command {
            work: Work::Product(request),
            words: words.to_vec(),
            scalars: 0..0,
        });
        return Ok(true);
    }
    library.run(context, &request, &words, context.stream())?;
    Ok(true)
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
