//! A C library that runs bundles: `include/ferrotrace.h` says what each function takes, gives and owns.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod ports;

use ferrotrace::io::{Bundle, Fallback};
use ferrotrace::{Device, DlTensor, Error, Result, Tensor};
use ports::Ports;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// An open bundle, `ft_bundle` in C.
#[derive(Debug)]
pub struct Opened {
    bundle: Mutex<Bundle>,
    inputs: Ports,
    outputs: Ports,
}

thread_local! {
    static FAILURE: RefCell<CString> = RefCell::default();
}

/// Text for C, without the zeros that would end it.
fn text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Runs `f`; its error, or that it panicked, is what `ft_error` tells from then on.
fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(f));
    let result = result.unwrap_or_else(|_| Err(Error::internal("the library panicked")));
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            // A thread that ends may have no place for it any more.
            let _ = FAILURE.try_with(|failure| failure.replace(text(&error.to_string())));
            None
        }
    }
}

/// What the last call of this thread that failed has to say.
#[unsafe(no_mangle)]
pub extern "C" fn ft_error() -> *const c_char {
    let told = FAILURE.try_with(|failure| failure.borrow().as_ptr());
    told.unwrap_or(c"the thread ends".as_ptr())
}

/// Opens a bundle onto the CPU.
///
/// # Safety
/// `path` is null or a string that ends in zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_open(path: *const c_char, fallback: i32) -> *mut Opened {
    // SAFETY: as the caller promises.
    unsafe { open(path, fallback, || Ok(Device::cpu())) }
}

/// Opens a bundle onto a CUDA device.
///
/// # Safety
/// `path` is null or a string that ends in zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_open_cuda(
    path: *const c_char,
    fallback: i32,
    index: i32,
) -> *mut Opened {
    let device = || {
        let index = usize::try_from(index);
        Device::cuda_without_compiler(index.unwrap_or(usize::MAX))
    };
    // SAFETY: as the caller promises.
    unsafe { open(path, fallback, device) }
}

/// # Safety
/// `path` is null or a string that ends in zero.
unsafe fn open(
    path: *const c_char,
    fallback: i32,
    device: impl FnOnce() -> Result<Device>,
) -> *mut Opened {
    let open = || {
        if path.is_null() {
            return Err(Error::argument("the path is null"));
        }
        // SAFETY: as the caller promises.
        let path = unsafe { CStr::from_ptr(path) };
        let path = path
            .to_str()
            .map_err(|_| Error::argument("the path is not UTF-8"))?;
        let fallback = match fallback {
            0 => Fallback::Compile,
            1 => Fallback::ReadyMade,
            2 => Fallback::Error,
            other => return Err(Error::argument(format!("there is no fallback {other}"))),
        };
        let device = device()?;
        let bundle = Bundle::open_on(path, fallback, &device)?;
        Ok(Opened {
            inputs: Ports::of(&bundle.inputs()),
            outputs: Ports::of(&bundle.outputs()),
            bundle: Mutex::new(bundle),
        })
    };
    guarded(open).map_or(std::ptr::null_mut(), |opened| {
        Box::into_raw(Box::new(opened))
    })
}

/// Closes a bundle.
///
/// # Safety
/// `bundle` is null, or comes from `ft_open` and is closed once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_close(bundle: *mut Opened) {
    if !bundle.is_null() {
        // SAFETY: as the caller promises.
        let bundle = unsafe { Box::from_raw(bundle) };
        guarded(|| {
            drop(bundle);
            Ok(())
        });
    }
}

/// Runs a program on tensors of DLPack's first form.
///
/// # Safety
/// `bundle` is open, or null. `inputs` has `n_inputs` tensors, each null or one that [`DlTensor::from_raw`] takes;
/// `outputs` has room for `n_outputs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_run(
    bundle: *mut Opened,
    inputs: *const *mut c_void,
    n_inputs: i64,
    outputs: *mut *mut c_void,
    n_outputs: i64,
) -> i32 {
    let forms = (
        DlTensor::from_raw as unsafe fn(*mut c_void) -> _,
        DlTensor::into_raw as fn(_) -> _,
    );
    // SAFETY: as the caller promises.
    unsafe { run(bundle, (inputs, n_inputs), (outputs, n_outputs), forms) }
}

/// Runs a program on tensors of DLPack 1.0.
///
/// # Safety
/// As of [`ft_run`], with [`DlTensor::from_raw_versioned`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_run_versioned(
    bundle: *mut Opened,
    inputs: *const *mut c_void,
    n_inputs: i64,
    outputs: *mut *mut c_void,
    n_outputs: i64,
) -> i32 {
    let forms = (
        DlTensor::from_raw_versioned as unsafe fn(*mut c_void) -> _,
        DlTensor::into_raw_versioned as fn(_) -> _,
    );
    // SAFETY: as the caller promises.
    unsafe { run(bundle, (inputs, n_inputs), (outputs, n_outputs), forms) }
}

/// How tensors are taken over and handed on.
type Forms = (
    unsafe fn(*mut c_void) -> Option<DlTensor>,
    fn(DlTensor) -> *mut c_void,
);

/// # Safety
/// As of [`ft_run`], with tensors of one form.
unsafe fn run(
    bundle: *mut Opened,
    (inputs, n_inputs): (*const *mut c_void, i64),
    (outputs, n_outputs): (*mut *mut c_void, i64),
    (take, hand): Forms,
) -> i32 {
    let run = || {
        let count = |n: i64, at: bool, what: &str| match usize::try_from(n) {
            Ok(n) if n == 0 || at => Ok(n),
            _ => Err(Error::argument(format!("there are no {n} {what}"))),
        };
        let n_inputs = count(n_inputs, !inputs.is_null(), "inputs")?;
        // All become the library's before anything can fail.
        let given: Vec<Option<DlTensor>> = (0..n_inputs)
            // SAFETY: as the caller promises.
            .map(|i| unsafe { take(*inputs.add(i)) })
            .collect();
        let n_outputs = count(n_outputs, !outputs.is_null(), "outputs")?;
        for i in 0..n_outputs {
            // SAFETY: as the caller promises.
            unsafe { *outputs.add(i) = std::ptr::null_mut() };
        }
        // SAFETY: as the caller promises.
        let bundle = unsafe { bundle.as_ref() };
        let bundle = bundle.ok_or_else(|| Error::argument("the bundle is null"))?;
        if n_outputs != bundle.outputs.len() {
            let has = bundle.outputs.len();
            return Err(Error::argument(format!(
                "there is room for {n_outputs} outputs, where the bundle has {has}"
            )));
        }
        let mut tensors = Vec::with_capacity(given.len());
        for (i, tensor) in given.into_iter().enumerate() {
            let tensor = tensor.ok_or_else(|| Error::argument(format!("input {i} is null")))?;
            let tensor = Tensor::from_dlpack(tensor);
            match tensor.error() {
                Some(error) => return Err(Error::argument(format!("input {i}: {error}"))),
                None => tensors.push(tensor),
            }
        }
        let mut locked = bundle
            .bundle
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let results = locked.run(&tensors.iter().collect::<Vec<_>>())?;
        drop(locked);
        if results.len() != n_outputs {
            let n = results.len();
            return Err(Error::internal(format!("there are {n} results")));
        }
        let handed: Result<Vec<DlTensor>> = results.iter().map(Tensor::to_dlpack).collect();
        for (i, tensor) in handed?.into_iter().enumerate() {
            // SAFETY: as the caller promises.
            unsafe { *outputs.add(i) = hand(tensor) };
        }
        Ok(())
    };
    match guarded(run) {
        Some(()) => 0,
        None => -1,
    }
}
