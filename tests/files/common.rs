//! What the suites of files share.

use ferrotrace::prelude::*;
use std::path::{Path, PathBuf};

/// A file of the test data.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A folder of the test's own.
pub fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub fn cpu() -> Device {
    Device::cpu()
}

/// Runs a test in compiled and in eager mode.
pub fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

/// 24 different elements of a dtype in `[2, 3, 4]`, those of `Bool` apart.
pub fn sample(dtype: DType) -> Tensor {
    let x = Tensor::arange(0, 24, 1, DType::I64, &cpu()).reshape([2, 3, 4]);
    match dtype {
        DType::Bool => (&x % 3).eq(1),
        DType::U8 => x.to_dtype(dtype),
        _ => (x - 7).to_dtype(dtype),
    }
}

/// The same dtype, shape and bits.
#[track_caller]
pub fn same(a: &Tensor, b: &Tensor) {
    assert_eq!((a.dtype(), a.dims()), (b.dtype(), b.dims()));
    assert_eq!(a.to_bytes().unwrap(), b.to_bytes().unwrap());
}

/// That a call failed with a message of this part.
#[track_caller]
pub fn refused<T>(result: Result<T>, part: &str) {
    let Err(error) = result else {
        panic!("taken, where {part:?} is expected");
    };
    let text = error.to_string();
    assert!(text.contains(part), "{text}, where {part:?} is expected");
}

/// The names in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let all = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = all
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
