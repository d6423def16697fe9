//! What is told of inputs and outputs: strings that live as long as the bundle.

use crate::{Opened, text};
use ferrotrace::io::Port;
use std::ffi::{CString, c_char};
use std::ptr;

#[derive(Debug)]
struct Entry {
    name: CString,
    dtype: Option<CString>,
    sizes: Vec<CString>,
}

/// The inputs or the outputs of a bundle.
#[derive(Debug)]
pub(crate) struct Ports(Vec<Entry>);

impl Ports {
    pub fn of(ports: &[Port]) -> Ports {
        let entry = |port: &Port| Entry {
            name: text(&port.name),
            dtype: port.dtype.map(|dtype| text(dtype.name())),
            sizes: port.sizes.iter().map(|size| text(size)).collect(),
        };
        Ports(ports.iter().map(entry).collect())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    fn get(&self, at: i64) -> Option<&Entry> {
        self.0.get(usize::try_from(at).ok()?)
    }
}

fn pointer(text: Option<&CString>) -> *const c_char {
    text.map_or(ptr::null(), |text| text.as_ptr())
}

/// The ports of a bundle.
///
/// # Safety
/// `bundle` is null or open, and stays so while the result is used.
unsafe fn ports<'a>(bundle: *const Opened, of: fn(&Opened) -> &Ports) -> Option<&'a Ports> {
    // SAFETY: as the caller promises.
    unsafe { bundle.as_ref() }.map(of)
}

fn inputs(bundle: &Opened) -> &Ports {
    &bundle.inputs
}

fn outputs(bundle: &Opened) -> &Ports {
    &bundle.outputs
}

/// The number of inputs; 0 of null.
///
/// # Safety
/// `bundle` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_inputs(bundle: *const Opened) -> i64 {
    // SAFETY: as the caller promises.
    unsafe { ports(bundle, inputs) }.map_or(0, |ports| ports.len() as i64)
}

/// The number of outputs; 0 of null.
///
/// # Safety
/// `bundle` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_outputs(bundle: *const Opened) -> i64 {
    // SAFETY: as the caller promises.
    unsafe { ports(bundle, outputs) }.map_or(0, |ports| ports.len() as i64)
}

/// The name of an input, or null.
///
/// # Safety
/// `bundle` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_input_name(bundle: *const Opened, input: i64) -> *const c_char {
    // SAFETY: as the caller promises.
    let entry = unsafe { ports(bundle, inputs) }.and_then(|ports| ports.get(input));
    pointer(entry.map(|entry| &entry.name))
}

/// The name of an output, or null.
///
/// # Safety
/// `bundle` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_output_name(bundle: *const Opened, output: i64) -> *const c_char {
    // SAFETY: as the caller promises.
    let entry = unsafe { ports(bundle, outputs) }.and_then(|ports| ports.get(output));
    pointer(entry.map(|entry| &entry.name))
}

/// The dtype of an input, or null.
///
/// # Safety
/// `bundle` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_input_dtype(bundle: *const Opened, input: i64) -> *const c_char {
    // SAFETY: as the caller promises.
    let entry = unsafe { ports(bundle, inputs) }.and_then(|ports| ports.get(input));
    pointer(entry.and_then(|entry| entry.dtype.as_ref()))
}

/// The number of an input's dimensions, or -1.
///
/// # Safety
/// `bundle` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_input_rank(bundle: *const Opened, input: i64) -> i64 {
    // SAFETY: as the caller promises.
    let entry = unsafe { ports(bundle, inputs) }.and_then(|ports| ports.get(input));
    entry.map_or(-1, |entry| entry.sizes.len() as i64)
}

/// A size of an input, or null.
///
/// # Safety
/// `bundle` is null or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ft_input_size(
    bundle: *const Opened,
    input: i64,
    dimension: i64,
) -> *const c_char {
    // SAFETY: as the caller promises.
    let entry = unsafe { ports(bundle, inputs) }.and_then(|ports| ports.get(input));
    let at = usize::try_from(dimension).unwrap_or(usize::MAX);
    pointer(entry.and_then(|entry| entry.sizes.get(at)))
}
