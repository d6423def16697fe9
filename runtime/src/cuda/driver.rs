//! The presence of a CUDA driver.

use crate::compiler::library::loader_says;
use crate::{Error, ErrorKind, Result};
use once_cell::sync::Lazy;

/// What the CUDA driver says of itself.
#[derive(Clone, Debug)]
pub(crate) struct Driver {
    version: i32,
    pub(crate) devices: usize,
}

impl Driver {
    /// Most bytes of a kernel's arguments: more since CUDA 12.1.
    pub(crate) fn argument_bytes(&self) -> usize {
        match self.version {
            12010.. => 32_764,
            _ => 4096,
        }
    }

    /// The newest CUDA version it serves, as `13.0`.
    pub(crate) fn version(&self) -> String {
        format!("{}.{}", self.version / 1000, self.version % 1000 / 10)
    }

    /// Whether graphs may start a kernel while the one before it ends.
    pub(crate) fn overlaps_kernels(&self) -> bool {
        self.version >= 12030
    }
}

#[cfg(target_os = "windows")]
const LIBRARY: &str = "nvcuda.dll";
#[cfg(not(target_os = "windows"))]
const LIBRARY: &str = "libcuda.so.1";

static PROBE: Lazy<Result<Driver>> = Lazy::new(|| {
    let error = |message: String| Error::new(ErrorKind::Device(message));
    // The bindings panic where the library is missing, so it is looked for first.
    // SAFETY: loading the driver's library runs its initialisers, which have no preconditions.
    if let Err(e) = unsafe { libloading::Library::new(LIBRARY) } {
        let why = loader_says(e);
        return Err(error(format!(
            "no CUDA: {LIBRARY} could not be loaded ({why})"
        )));
    }
    use cudarc::driver::{result, sys};
    // SAFETY: asks only which of the names the bindings know can be loaded.
    if !unsafe { sys::is_culib_present() } {
        return Err(error(format!(
            "no CUDA: {LIBRARY} loads, but not by the bindings' names"
        )));
    }
    let mut version = 0;
    // SAFETY: the pointer is to a live integer, the only requirement of this call.
    let status = unsafe { sys::cuDriverGetVersion(&mut version) }.result();
    let failed = |e: result::DriverError| error(format!("no CUDA: the driver answers {e:?}"));
    status.map_err(failed)?;
    result::init().map_err(failed)?;
    let devices = result::device::get_count().map_err(failed)?;
    Ok(Driver {
        version,
        devices: usize::try_from(devices).unwrap_or(0),
    })
});

/// The driver, asked once a process.
///
/// # Errors
/// `Device`, naming the library that is missing or what the driver answered.
pub(crate) fn probe() -> Result<Driver> {
    PROBE.clone()
}
