//! Memory of a device, ordered on its stream.
//!
//! All work of a device is on one stream, so memory may be handed on as soon as the host lets go of it: who gets it next
//! is later on the stream. Blocks up to [`LARGEST`] are kept by size class on shelves of ours, which costs a lock where
//! the driver's pool takes a microsecond; larger ones, and what the shelves have no room for, are the pool's, which
//! keeps all memory it ever had until it is trimmed.

use super::Context;
use super::context::failed;
use super::record::{self, Work};
use crate::host::size_class::{CLASSES, class_of, size_of};
use crate::observe::counters::{Counter, count};
use crate::observe::inject::{self, Site};
use crate::{Error, ErrorKind, Result};
use cudarc::driver::{DriverError, sys};
use std::mem::MaybeUninit;
use std::ptr;

/// Larger blocks are the driver's: their kernels take longer than an allocation, and classes would waste more.
const LARGEST: usize = 32 << 20;
/// Most bytes on the shelves.
const KEPT: usize = 2 << 30;

/// Released blocks by size class, last in first out.
#[derive(Default)]
pub(super) struct Shelves {
    blocks: Vec<Vec<u64>>,
    kept: usize,
}

impl Shelves {
    fn take(&mut self, class: usize) -> Option<u64> {
        let at = self.blocks.get_mut(class)?.pop()?;
        self.kept -= size_of(class);
        Some(at)
    }

    /// Whether there was room for the block.
    fn put(&mut self, at: u64, class: usize) -> bool {
        if self.kept + size_of(class) > KEPT || class >= CLASSES {
            return false;
        }
        if self.blocks.len() <= class {
            self.blocks.resize_with(class + 1, Vec::new);
        }
        self.blocks[class].push(at);
        self.kept += size_of(class);
        true
    }

    fn empty(&mut self) -> Vec<u64> {
        self.kept = 0;
        std::mem::take(&mut self.blocks).concat()
    }
}

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
        // Sizes beyond the classes are beyond any device, too.
        let class = (bytes <= LARGEST).then(|| class_of(bytes));
        if let Some((class, _)) = class
            && let Some(at) = self.shelves.lock().take(class)
        {
            count(Counter::BuffersReused, 1);
            return Ok(at);
        }
        let size = class.map_or(bytes, |(_, size)| size);
        self.bind()?;
        match self.obtain(size) {
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {}
            result => return result.map_err(failed(self.index(), "an allocation")),
        }
        self.trim()?;
        match self.obtain(size) {
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

    /// Memory for as long as the process lives.
    pub(super) fn fixed(&self, bytes: usize) -> Result<u64> {
        self.bind()?;
        self.obtain(bytes)
            .map_err(failed(self.index(), "an allocation"))
    }

    /// Takes back the `bytes` of [`allocate`](Self::allocate), once what is on the stream now has run.
    pub(crate) fn release(&self, at: u64, bytes: usize) {
        if bytes > LARGEST || !self.shelves.lock().put(at, class_of(bytes).0) {
            self.give_back(at);
        }
    }

    /// Gives memory back to the driver.
    fn give_back(&self, at: u64) {
        // A failure here means that the context is lost, or the process ending: the memory is gone either way.
        if self.bind().is_err() {
            return;
        }
        // SAFETY: the memory comes from `obtain`, and its last user let go of it; the stream orders its reuse, and
        // without a pool the driver waits for the device.
        let _ = unsafe {
            match self.pool {
                Some(_) => sys::cuMemFreeAsync(at, self.stream()),
                None => sys::cuMemFree_v2(at),
            }
        };
    }

    /// Gives everything that shelves and pool keep for reuse back to the device.
    pub(crate) fn trim(&self) -> Result<()> {
        let blocks = self.shelves.lock().empty();
        blocks.into_iter().for_each(|at| self.give_back(at));
        self.synchronize()?;
        let Some(pool) = self.pool else { return Ok(()) };
        // SAFETY: the pool is the device's.
        unsafe { sys::cuMemPoolTrimTo(pool, 0) }
            .result()
            .map_err(failed(self.index(), "trimming memory"))
    }

    /// Sets bytes to zero, in the stream's order.
    pub(crate) fn zero(&self, at: u64, bytes: usize) -> Result<()> {
        if bytes == 0 || record::noted(Work::Clear(bytes), &[at]) {
            return Ok(());
        }
        self.bind()?;
        // SAFETY: the caller owns `bytes` bytes there, ordered on the stream.
        unsafe { sys::cuMemsetD8Async(at, 0, bytes, self.stream()) }
            .result()
            .map_err(failed(self.index(), "clearing memory"))
    }
}

/// A block of memory for one task, which goes back in the stream's order: none of 0 bytes.
pub(super) struct Scratch<'a> {
    context: &'a Context,
    address: u64,
    bytes: usize,
}

impl Scratch<'_> {
    /// A block of so many bytes, with arbitrary contents; a symbol while this thread records for the device.
    pub fn new(context: &Context, bytes: usize) -> Result<Scratch<'_>> {
        let address = match bytes {
            0 => 0,
            bytes => match record::allocate(context.index(), bytes) {
                Some(symbol) => symbol,
                None => context.allocate(bytes)?,
            },
        };
        Ok(Scratch {
            context,
            address,
            bytes,
        })
    }

    /// Where it starts; 0 for none.
    pub fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if self.address != 0 && !record::release(self.address) {
            self.context.release(self.address, self.bytes);
        }
    }
}
