//! Matrix products by cuBLASLt, where it can be loaded.

mod library;

pub(super) use library::Library;
pub(crate) use library::Request;

use super::libraries::{self, Wanted, functions};
use super::record::{self, Work};
use super::{Context, context};
use crate::{DType, Error, ErrorKind, Result};
use cudarc::cublaslt::sys::{self, cublasLtMatrixLayout_t as Layout, cublasStatus_t as Status};
use once_cell::sync::Lazy;
use parking_lot::{Mutex, MutexGuard};
use std::ffi::{c_int, c_void};
use std::path::PathBuf;

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

/// Whether the library was found.
pub(crate) fn is_present() -> bool {
    FOUND.is_ok()
}

/// Whether the library adds a bias to the sums of a product before it rounds them to `result`. Of half precision it may not,
/// where rows of so many columns are no multiples of 16 bytes.
pub fn adds_bias(result: DType, columns: usize) -> bool {
    !result.is_half() || (columns * result.size()).is_multiple_of(16)
}

/// Puts a product on the device's stream; `words` are the addresses of the right and left operand, as the library orders
/// them, of the result and the bias. `false`, and nothing done, where the library has no algorithm for it.
///
/// # Errors
/// `Device` for what the library answers.
pub(crate) fn multiply(index: u32, request: Request, words: [u64; 4]) -> Result<bool> {
    let context = context(index)?;
    context.bind()?;
    let mut library = context.blas()?.lock();
    if !library.prepare(&request)? {
        return Ok(false);
    }
    if record::noted(Work::Product(request), &words) {
        return Ok(true);
    }
    library.run(context, &request, &words, context.stream())?;
    Ok(true)
}
