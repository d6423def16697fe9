//! Memory of a device, ordered on its stream: the driver's pool keeps what is freed for the next request.

use super::Context;
use super::context::failed;
use crate::inject::{self, Site};
use crate::{Error, ErrorKind, Result};
use cudarc::driver::{DriverError, sys};
use std::mem::MaybeUninit;
use std::ptr;

/// The device's pool, told to keep all memory it ever had until it is trimmed.
pub(super) fn pool(device: sys::CUdevice) -> Result<sys::CUmemoryPool, DriverError> {
    let mut pool = MaybeUninit::uninit();
    let mut keep = u64::MAX;
    use sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD as THRESHOLD;
    // SAFETY: the pointers are to live variables of the types that the calls write and read.
    unsafe {
        sys::cuDeviceGetDefaultMemPool(pool.as_mut_ptr(), device).result()?;
        let pool = pool.assume_init();
        sys::cuMemPoolSetAttribute(pool, THRESHOLD, ptr::from_mut(&mut keep).cast()).result()?;
        Ok(pool)
    }
}

impl Context {
    /// Memory of `bytes` (not 0) with arbitrary contents, at a multiple of 256 bytes, usable on the stream.
    ///
    /// # Errors
    /// `OutOfMemory` when there is none even after the pool gave back all it kept; `Device`.
    pub(crate) fn allocate(&self, bytes: usize) -> Result<u64> {
        let out_of_memory = || {
            Error::new(ErrorKind::OutOfMemory {
                bytes,
                device: format!("cuda:{}", self.index()),
            })
        };
        if inject::fails(Site::Allocate) {
            return Err(out_of_memory());
        }
        self.bind()?;
        match self.obtain(bytes) {
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {}
            result => return result.map_err(failed(self.index(), "an allocation")),
        }
        self.trim()?;
        match self.obtain(bytes) {
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Err(out_of_memory()),
            result => result.map_err(failed(self.index(), "an allocation")),
        }
    }

    fn obtain(&self, bytes: usize) -> Result<u64, DriverError> {
        let mut at = 0;
        // SAFETY: the pointer is to a live variable, and the stream lives until the process ends.
        let status = unsafe {
            match self.pool {
                Some(_) => sys::cuMemAllocAsync(&mut at, bytes, self.stream()),
                None => sys::cuMemAlloc_v2(&mut at, bytes),
            }
        };
        status.result().map(|()| at)
    }

    /// Takes back memory of [`allocate`](Self::allocate), once what is on the stream now has run.
    pub(crate) fn release(&self, at: u64) {
        // A failure here means that the context is lost, or the process ending: the memory is gone either way.
        if self.bind().is_err() {
            return;
        }
        // SAFETY: the memory comes from `allocate`, and its last user lets go of it; the stream orders its reuse, and
        // without a pool the driver waits for the device.
        let _ = unsafe {
            match self.pool {
                Some(_) => sys::cuMemFreeAsync(at, self.stream()),
                None => sys::cuMemFree_v2(at),
            }
        };
    }

    /// Gives everything that the pool keeps for reuse back to the device.
    pub(crate) fn trim(&self) -> Result<()> {
        self.synchronize()?;
        let Some(pool) = self.pool else { return Ok(()) };
        // SAFETY: the pool is the device's.
        unsafe { sys::cuMemPoolTrimTo(pool, 0) }
            .result()
            .map_err(failed(self.index(), "trimming memory"))
    }

    /// Sets bytes to zero, in the stream's order.
    pub(crate) fn zero(&self, at: u64, bytes: usize) -> Result<()> {
        self.bind()?;
        // SAFETY: the caller owns `bytes` bytes there, ordered on the stream.
        unsafe { sys::cuMemsetD8Async(at, 0, bytes, self.stream()) }
            .result()
            .map_err(failed(self.index(), "clearing memory"))
    }
}
