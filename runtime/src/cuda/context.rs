//! Devices' contexts and streams.

use super::Stopwatch;
use super::blas::Blas;
use super::copy::Staging;
use super::dnn::Dnn;
use super::memory::{Scratch, Shelves};
use super::record::{self, Uncaptured};
use super::verdict::Slot;
use super::{Nvrtc, driver};
use crate::{Device, Error, ErrorKind, Result};
use cudarc::driver::{DriverError, result, sys};
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::Mutex;
use std::time::Duration;

/// A device's primary context, its stream, and what belongs to them. It lives until the process ends.
pub(crate) struct Context {
    index: u32,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// Where memory comes from, if the driver orders allocations on streams.
    pub(super) pool: Option<sys::CUmemoryPool>,
    /// Blocks kept for the next request.
    pub(super) shelves: Mutex<Shelves>,
    /// What NVRTC compiles for, such as `sm_90a`.
    arch: String,
    /// Most bytes of a kernel's arguments.
    argument_bytes: usize,
    name: String,
    /// Most bytes of memory that the threads of a block share.
    shared: usize,
    /// The compute capability, as 90 for 9.0, and the number of multiprocessors.
    capability: (u32, usize),
    pub(super) staging: Mutex<Staging>,
    blas: OnceCell<Result<Blas>>,
    dnn: OnceCell<Result<Dnn>>,
    /// A stream on which nothing runs: libraries' calls are captured on it, one at a time.
    pub(super) capture: Mutex<CaptureStream>,
    bandwidth: OnceCell<u64>,
    /// Places where kernels report faults, of those that no verdict uses now.
    pub(super) slots: Mutex<Vec<Slot>>,
    /// Where kernels report faults that an earlier kernel has reported already: nobody reads it.
    nowhere: Slot,
}

/// A stream of the device.
pub(super) struct CaptureStream(pub sys::CUstream);

// SAFETY: contexts and streams may be used from any thread; staging memory and verdicts are behind locks.
unsafe impl Send for Context {}
// SAFETY: the driver takes calls of several threads at once; staging memory and verdicts are behind locks.
unsafe impl Sync for Context {}

// A panic leaves none of the guarded values half changed.
impl std::panic::RefUnwindSafe for Context {}

static CONTEXTS: Lazy<Vec<OnceCell<Result<Context>>>> = Lazy::new(|| {
    let devices = driver::probe().map_or(0, |driver| driver.devices);
    (0..devices).map(|_| OnceCell::new()).collect()
});

/// The context of the device of this index, made at the first call.
///
/// # Errors
/// `Device`: there is no driver or no such device, or what the driver answered.
pub(crate) fn context(index: u32) -> Result<&'static Context> {
    let driver = driver::probe()?;
    let missing = || {
        Error::new(ErrorKind::Device(format!(
            "cuda:{index} is not there: the driver (CUDA {}) reports {} device(s)",
            driver.version(),
            driver.devices
        )))
    };
    let cell = CONTEXTS.get(index as usize).ok_or_else(missing)?;
    let made = cell.get_or_init(|| Context::new(index));
    made.as_ref().map_err(Clone::clone)
}

/// What the driver answered, as an error of the device.
pub(super) fn failed(index: u32, what: &str) -> impl Fn(DriverError) -> Error {
    move |e| {
        let words = e.error_string().map(|s| s.to_string_lossy().into_owned());
        let words = words.unwrap_or_else(|_| format!("{e:?}"));
        Error::new(ErrorKind::Device(format!(
            "cuda:{index}: {what} failed: {words} ({:?})",
            e.0
        )))
    }
}

impl Context {
    fn new(index: u32) -> Result<Context> {
        let error = failed(index, "making a context");
        let device = result::device::get(index as i32).map_err(&error)?;
        // SAFETY: the device is one that the driver just gave; the context is retained until the process ends.
        let context = unsafe { result::primary_ctx::retain(device) }.map_err(&error)?;
        // SAFETY: the context was just made.
        unsafe { result::ctx::set_current(context) }.map_err(&error)?;
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking);
        let stream = stream.map_err(&error)?;
        let capture = result::stream::create(result::stream::StreamKind::NonBlocking);
        let capture = capture.map_err(&error)?;
        let attribute = |attribute| {
            // SAFETY: the device is one that the driver gave.
            unsafe { result::device::get_attribute(device, attribute) }.map_err(&error)
        };
        use sys::CUdevice_attribute as A;
        let major = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        let shared = attribute(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let processors = attribute(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        let pools = attribute(A::CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED)?;
        // From Hopper on, a device's own instructions are those of its family's `a` target.
        let own = if major >= 9 { "a" } else { "" };
        let name = result::device::get_name(device).map_err(&error)?;
        let nowhere = Slot::new().map_err(&error)?;
        Ok(Context {
            index,
            context,
            stream,
            pool: if pools != 0 {
                Some(super::memory::pool(device).map_err(&error)?)
            } else {
                None
            },
            shelves: Mutex::default(),
            arch: format!("sm_{major}{minor}{own}"),
            // Devices before Volta, and compilers before 12.1, know the old limit.
            argument_bytes: match (major, Nvrtc::get().map(Nvrtc::version)) {
                (7.., Ok((12, 1..) | (13.., _))) => driver::probe()?.argument_bytes(),
                _ => 4096,
            },
            name,
            // Units for bfloat16 and TF32 begin with 8.0.
            shared: if major >= 8 { shared as usize } else { 0 },
            capability: ((10 * major + minor) as u32, processors as usize),
            staging: Mutex::default(),
            blas: OnceCell::new(),
            dnn: OnceCell::new(),
            capture: Mutex::new(CaptureStream(capture)),
            bandwidth: OnceCell::new(),
            slots: Mutex::default(),
            nowhere,
        })
    }

    /// Makes this the calling thread's context: before every other call of the driver.
    #[inline]
    pub(super) fn bind(&self) -> Result<()> {
        // SAFETY: the context lives until the process ends.
        unsafe { result::ctx::set_current(self.context) }
            .map_err(failed(self.index, "entering the context"))
    }

    pub(super) fn raw(&self) -> sys::CUcontext {
        self.context
    }

    pub(super) fn stream(&self) -> sys::CUstream {
        self.stream
    }

    /// The address for faults that nobody looks at.
    pub(super) fn nowhere(&self) -> u64 {
        self.nowhere.device
    }

    /// cuBLAS for this device, made at the first call.
    pub(super) fn blas(&self) -> Result<&Blas> {
        let blas = self.blas.get_or_init(|| Blas::new(self));
        blas.as_ref().map_err(Clone::clone)
    }

    /// cuDNN for this device, made at the first call.
    pub(super) fn dnn(&self) -> Result<&Dnn> {
        let dnn = self.dnn.get_or_init(|| Dnn::new(self));
        dnn.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn index(&self) -> u32 {
        self.index
    }

    pub(crate) fn arch(&self) -> &str {
        &self.arch
    }

    pub(crate) fn capability(&self) -> (u32, usize) {
        self.capability
    }

    pub(crate) fn shared(&self) -> usize {
        self.shared
    }

    pub(crate) fn argument_bytes(&self) -> usize {
        self.argument_bytes
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn device(&self) -> Device {
        Device::of_cuda(self.index)
    }

    /// Bytes a second that a large copy reads and writes, measured at the first call.
    pub(crate) fn bandwidth(&'static self) -> Result<u64> {
        let measured = self.bandwidth.get_or_try_init(|| {
            const BYTES: usize = 512 << 20;
            let (from, to) = (Scratch::new(self, BYTES)?, Scratch::new(self, BYTES)?);
            let mut least = Duration::MAX;
            for _ in 0..4 {
                let watch = Stopwatch::start(self);
                // SAFETY: both blocks are of this device, of so many bytes, and apart.
                unsafe { super::device_to_device(self, to.address(), from.address(), BYTES)? };
                let time = watch.and_then(Stopwatch::stop);
                least = least.min(time.unwrap_or(Duration::MAX));
            }
            Ok((2.0 * BYTES as f64 / least.as_secs_f64()) as u64)
        });
        measured.copied()
    }

    /// Waits until everything on the stream has run.
    pub(crate) fn synchronize(&self) -> Result<()> {
        record::refuse(Uncaptured::Waits)?;
        self.bind()?;
        // SAFETY: the stream lives until the process ends.
        unsafe { result::stream::synchronize(self.stream) }
            .map_err(failed(self.index, "what was launched"))
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Context(cuda:{} {} {})",
            self.index, self.name, self.arch
        )
    }
}
