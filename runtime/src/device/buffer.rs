//! Memory that tensors live in.

use super::copies::{Copies, Order};
use super::dlpack::DlTensor;
use crate::host::alloc;
use crate::observe::counters::{Counter, add_live, count, sub_live};
use crate::{DType, Device, Element, Error, FileMap, Result, cuda};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};

/// Shared memory of a device. Clones are handles of the same bytes; the last one releases them.
///
/// A buffer is written through raw pointers by kernels whose plan shows that nothing reads it meanwhile, or through
/// [`get_mut`](Buffer::get_mut) by its only owner.
#[derive(Clone)]
pub struct Buffer(Arc<Storage>);

/// Tells whether a buffer is a certain one, without keeping its memory.
#[derive(Clone)]
pub struct BufferId(Weak<Storage>);

impl BufferId {
    /// Whether it is the buffer's. No other buffer is ever taken for it: the address stays reserved.
    pub fn is_of(&self, buffer: &Buffer) -> bool {
        self.0.as_ptr() == Arc::as_ptr(buffer.base())
    }
}

impl fmt::Debug for BufferId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferId({:p})", self.0.as_ptr())
    }
}

struct Storage {
    ptr: NonNull<u8>,
    bytes: usize,
    device: Device,
    origin: Origin,
}

enum Origin {
    /// No memory: zero bytes.
    Empty,
    /// A block of the host allocator, of this class.
    Host(u16),
    /// Memory of a CUDA device; the pointer is an address there.
    Cuda(&'static cuda::Context),
    /// Memory of a device that a recording thread asked for: there is none.
    Symbol,
    /// The memory of a vector of this capacity, given back by the function.
    Vec(usize, unsafe fn(NonNull<u8>, usize)),
    /// Bytes of a mapped file, which nobody may write, and the file, mapped for as long.
    Map(#[expect(dead_code, reason = "it is dropped with the memory")] FileMap),
    /// Memory that somebody else gave, of this context's device or of the host, which nobody may write, and what gives it
    /// back.
    Foreign(
        Option<&'static cuda::Context>,
        #[expect(dead_code, reason = "it is dropped with the memory")] DlTensor,
    ),
    /// The memory of another buffer, whose own origin is not a twin, and copies of it in other orders.
    Twin(Buffer, Option<Arc<Copies>>),
}

// SAFETY: a storage owns its memory, which any thread may read or release; writes go through raw pointers, whose users
// answer for the absence of concurrent access.
unsafe impl Send for Storage {}
// SAFETY: shared storage gives its address alone; accesses go through raw pointers, whose users answer for the absence
// of concurrent writes.
unsafe impl Sync for Storage {}

impl Drop for Storage {
    fn drop(&mut self) {
        match self.origin {
            Origin::Empty | Origin::Twin(..) | Origin::Map(_) | Origin::Foreign(None, _) => return,
            Origin::Foreign(Some(context), _) => {
                // What was launched may still read it; where that fails, nothing runs any more.
                let _ = context.synchronize();
                return;
            }
            Origin::Host(class) => alloc::give(self.ptr, class),
            Origin::Cuda(context) => context.release(self.ptr.as_ptr() as u64, self.bytes),
            Origin::Symbol => {
                cuda::record_release(self.ptr.as_ptr() as u64);
                return;
            }
            // SAFETY: pointer and capacity are those of the vector that `from_vec` took apart for this function.
            Origin::Vec(capacity, release) => unsafe { release(self.ptr, capacity) },
        }
        sub_live(self.bytes as u64);
    }
}

/// A multiple of every element type's alignment; every buffer's address is a multiple of it.
const ELEMENT_ALIGN: usize = 8;

unsafe fn release_vec<T>(ptr: NonNull<u8>, capacity: usize) {
    // SAFETY: the caller passes the pointer and capacity of a `Vec<T>` of plain elements that was taken apart.
    drop(unsafe { Vec::<T>::from_raw_parts(ptr.as_ptr().cast(), 0, capacity) });
}

impl Buffer {
    /// A buffer of `bytes` with arbitrary contents, at a multiple of 64 bytes.
    ///
    /// # Errors
    /// `OutOfMemory`, or `Device` for what a driver answers.
    #[inline]
    pub fn allocate(device: &Device, bytes: usize) -> Result<Buffer> {
        Buffer::allocate_with(device, bytes, false)
    }

    /// A buffer of `bytes` zero bytes.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn zeroed(device: &Device, bytes: usize) -> Result<Buffer> {
        Buffer::allocate_with(device, bytes, true)
    }

    #[inline]
    fn allocate_with(device: &Device, bytes: usize, zero: bool) -> Result<Buffer> {
        if bytes == 0 {
            return Ok(Buffer::empty(device));
        }
        if let Some(index) = device.cuda_index() {
            return Buffer::allocate_cuda(device, index, bytes, zero);
        }
        let block = alloc::take(bytes)?;
        if zero && !block.fresh {
            // SAFETY: the block has at least `bytes` bytes and no other owner.
            unsafe { block.ptr.as_ptr().write_bytes(0, bytes) };
        }
        if !block.fresh {
            count(Counter::BuffersReused, 1);
        }
        count(Counter::BytesAllocated, bytes as u64);
        add_live(bytes as u64);
        let origin = Origin::Host(block.class);
        Ok(Buffer(Arc::new(Storage {
            ptr: block.ptr,
            bytes,
            device: device.clone(),
            origin,
        })))
    }

    fn allocate_cuda(device: &Device, index: u32, bytes: usize, zero: bool) -> Result<Buffer> {
        let symbol = cuda::record_allocation(index, bytes);
        let context = cuda::context(index)?;
        let at = match symbol {
            Some(symbol) => symbol,
            None => context.allocate(bytes)?,
        };
        let Some(ptr) = NonNull::new(at as *mut u8) else {
            return Err(Error::internal("the driver gave memory at address 0"));
        };
        if symbol.is_some() {
            let buffer = Buffer(Arc::new(Storage {
                ptr,
                bytes,
                device: device.clone(),
                origin: Origin::Symbol,
            }));
            if zero {
                context.zero(at, bytes)?;
            }
            return Ok(buffer);
        }
        count(Counter::BytesAllocated, bytes as u64);
        add_live(bytes as u64);
        let buffer = Buffer(Arc::new(Storage {
            ptr,
            bytes,
            device: device.clone(),
            origin: Origin::Cuda(context),
        }));
        if zero {
            context.zero(at, bytes)?;
        }
        Ok(buffer)
    }

    fn empty(device: &Device) -> Buffer {
        // Aligned as a block would be, though nothing is behind it.
        let ptr = NonNull::<Line>::dangling().cast();
        Buffer(Arc::new(Storage {
            ptr,
            bytes: 0,
            device: device.clone(),
            origin: Origin::Empty,
        }))
    }

    /// A buffer with a copy of `data`.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn from_slice<T: Element>(device: &Device, data: &[T]) -> Result<Buffer> {
        let bytes = std::mem::size_of_val(data);
        let buffer = Buffer::allocate(device, bytes)?;
        // SAFETY: the fresh buffer has `bytes` bytes, and no other owner; elements are plain bytes.
        unsafe { buffer.fill(data.as_ptr().cast(), bytes)? };
        Ok(buffer)
    }

    /// Copies host memory to the start of a buffer of any device.
    ///
    /// # Safety
    /// `source` is readable for `bytes` bytes, and nobody else uses the buffer, which has as many.
    unsafe fn fill(&self, source: *const u8, bytes: usize) -> Result<()> {
        match self.0.origin {
            Origin::Symbol => cuda::refuse_copy(),
            Origin::Cuda(context) => {
                // SAFETY: as the caller promises; the buffer is memory of this context's device.
                unsafe { cuda::host_to_device(context, self.as_ptr() as u64, source, bytes) }
            }
            // SAFETY: as the caller promises.
            _ => unsafe {
                self.as_mut_ptr().copy_from_nonoverlapping(source, bytes);
                Ok(())
            },
        }
    }

    /// A copy of a range of bytes in a buffer of its own on `device`, in the order of what was launched.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate); `Internal` for a range beyond the buffer; `Device` for what the driver answers.
    pub fn copy_to(&self, range: std::ops::Range<usize>, device: &Device) -> Result<Buffer> {
        if range.start > range.end || range.end > self.bytes() {
            let bytes = self.bytes();
            return Err(Error::internal(format!(
                "a copy of {range:?} of {bytes} bytes"
            )));
        }
        let bytes = range.len();
        let copy = Buffer::allocate(device, bytes)?;
        self.transfer(range.start, &copy, 0, bytes)?;
        Ok(copy)
    }

    /// Copies a range of bytes to another buffer, `at` bytes from its start, in the order of what was launched.
    ///
    /// # Errors
    /// `Internal` for bytes beyond either buffer, or for a target that has other handles; `Device` for what the driver
    /// answers.
    pub fn copy_into(
        &self,
        range: std::ops::Range<usize>,
        target: &mut Buffer,
        at: usize,
    ) -> Result<()> {
        let fits = |start: usize, buffer: &Buffer| {
            let end = start.checked_add(range.len());
            end.is_some_and(|end| end <= buffer.bytes())
        };
        if range.start > range.end || !fits(range.start, self) || !fits(at, target) {
            let (from, to) = (self.bytes(), target.bytes());
            return Err(Error::internal(format!(
                "a copy of {range:?} of {from} bytes to {at} of {to}"
            )));
        }
        if !target.is_unique() {
            return Err(Error::internal("a copy to memory that others read"));
        }
        self.transfer(range.start, target, at, range.len())
    }

    /// Copies `bytes` bytes from `start` on to `at` in another buffer, which nobody else uses: both have as many.
    fn transfer(&self, start: usize, target: &Buffer, at: usize, bytes: usize) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let source = self.as_ptr().wrapping_add(start);
        let to = target.as_mut_ptr().wrapping_add(at);
        let is_symbol = |buffer: &Buffer| matches!(buffer.0.origin, Origin::Symbol);
        if is_symbol(self) || is_symbol(target) {
            let within = is_symbol(self) && is_symbol(target) && self.device() == target.device();
            let noted = within && cuda::record_copy(to as u64, source as u64, bytes);
            return match noted {
                true => Ok(()),
                false => cuda::refuse_copy(),
            };
        }
        match (self.context(), target.context()) {
            (Some(from), Some(on)) if ptr::eq(from, on) => {
                // SAFETY: both ranges are of buffers of this device, which differ.
                unsafe { cuda::device_to_device(from, to as u64, source as u64, bytes) }
            }
            (Some(from), Some(on)) => {
                // SAFETY: the ranges are of these buffers, of two devices.
                unsafe { cuda::device_to_peer((on, to as u64), (from, source as u64), bytes) }
            }
            (Some(from), None) => {
                // SAFETY: the ranges are of these buffers; the target's is memory of the host that nobody else uses.
                unsafe { cuda::device_to_host(from, to, source as u64, bytes) }
            }
            (None, Some(on)) => {
                // SAFETY: the ranges are of these buffers; the source's is memory of the host.
                unsafe { cuda::host_to_device(on, to as u64, source, bytes) }
            }
            // SAFETY: the ranges are of these buffers of the host, which differ, and nobody else uses the target.
            (None, None) => unsafe {
                to.copy_from_nonoverlapping(source, bytes);
                Ok(())
            },
        }
    }

    /// The device that has the memory, if it is not the host's.
    fn context(&self) -> Option<&'static cuda::Context> {
        match self.0.origin {
            Origin::Cuda(context) | Origin::Foreign(Some(context), _) => Some(context),
            _ => None,
        }
    }

    /// A buffer with the elements of `data`, in the vector's own memory where that is at a multiple of 8 bytes and
    /// not twice as large as needed; so kernels may not assume more than an element's alignment of their inputs.
    ///
    /// # Errors
    /// As [`allocate`](Self::allocate).
    pub fn from_vec<T: Element>(device: &Device, data: Vec<T>) -> Result<Buffer> {
        let bytes = std::mem::size_of_val(&data[..]);
        let wasteful = data.capacity() / 2 > data.len();
        let aligned = (data.as_ptr() as usize).is_multiple_of(ELEMENT_ALIGN);
        if bytes == 0 || wasteful || !aligned || !device.is_cpu() {
            return Buffer::from_slice(device, &data);
        }
        let mut data = ManuallyDrop::new(data);
        let ptr = NonNull::from(&mut data[..]).cast();
        let origin = Origin::Vec(data.capacity(), release_vec::<T>);
        add_live(bytes as u64);
        Ok(Buffer(Arc::new(Storage {
            ptr,
            bytes,
            device: device.clone(),
            origin,
        })))
    }

    /// A buffer of the host over a range of a mapped file's bytes, without a copy, so that nobody may write it: it is
    /// never the only handle. `None` where the range does not start at a multiple of 8 bytes.
    ///
    /// # Errors
    /// `Argument` for a range beyond the file; `Io` for a file that is shorter now than when it was mapped.
    pub fn of_map(map: &FileMap, range: std::ops::Range<usize>) -> Result<Option<Buffer>> {
        let whole = map.bytes()?;
        let beyond = || Error::argument(format!("bytes {range:?} of a file of {}", whole.len()));
        let bytes = whole.get(range.clone()).ok_or_else(beyond)?;
        if bytes.is_empty() {
            return Ok(Some(Buffer::empty(&Device::cpu())));
        }
        if !(bytes.as_ptr() as usize).is_multiple_of(ELEMENT_ALIGN) {
            return Ok(None);
        }
        Ok(Some(Buffer(Arc::new(Storage {
            ptr: NonNull::from(bytes).cast(),
            bytes: bytes.len(),
            device: Device::cpu(),
            origin: Origin::Map(map.clone()),
        }))))
    }

    /// A buffer of memory that another's tensor has, and that it gives back; nobody may write it. It is copied where it does
    /// not begin at a multiple of 8 bytes, or of 16 on a CUDA device, whose kernels load so many at once.
    ///
    /// # Errors
    /// Of a copy, as [`allocate`](Self::allocate).
    pub(super) fn of_foreign(
        device: &Device,
        first: *mut u8,
        bytes: usize,
        tensor: DlTensor,
    ) -> Result<Buffer> {
        let context = device.cuda_index().map(cuda::context).transpose()?;
        let origin = Origin::Foreign(context, tensor);
        let ptr = NonNull::new(first)
            .ok_or_else(|| Error::argument("a tensor's memory is at address 0"))?;
        let align = if device.is_cpu() { ELEMENT_ALIGN } else { 16 };
        let buffer = Buffer(Arc::new(Storage {
            ptr,
            bytes,
            device: device.clone(),
            origin,
        }));
        match (first as usize).is_multiple_of(align) {
            true => Ok(buffer),
            false => buffer.copy_to(0..bytes, device),
        }
    }

    /// The number of bytes.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// The device whose memory it is.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The first byte.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.0.ptr.as_ptr()
    }

    /// The first byte, to write through. Who writes answers for nobody reading or writing the same bytes meanwhile.
    #[inline]
    pub fn as_mut_ptr(&self) -> *mut u8 {
        self.0.ptr.as_ptr()
    }

    /// The storage that has the memory.
    #[inline]
    fn base(&self) -> &Arc<Storage> {
        match &self.0.origin {
            Origin::Twin(of, _) => &of.0,
            _ => &self.0,
        }
    }

    /// Whether others have a share in the memory: the buffer that this is a twin of, a file, or who gave it.
    #[inline]
    fn is_shared(&self) -> bool {
        matches!(
            self.0.origin,
            Origin::Twin(..) | Origin::Map(_) | Origin::Foreign(..)
        )
    }

    /// A handle of the same memory whose clones are counted apart, so that threads which copy and drop handles at the
    /// same time do not share a count. It is never the only handle, and no other is while it lives. For a device's
    /// memory it is a plain clone. A twin of a buffer with [copies](Self::with_copies) has them too.
    pub fn twin(&self) -> Buffer {
        let copies = match &self.0.origin {
            Origin::Twin(_, copies) => copies.clone(),
            _ => None,
        };
        self.twin_with(copies)
    }

    /// A [twin](Self::twin) whose readers may copy what they read to the order that they read it in, and find the copy again: for
    /// memory that is never written again.
    pub fn with_copies(&self, copies: Arc<Copies>) -> Buffer {
        self.twin_with(Some(copies))
    }

    /// Whether it may have [copies](Self::with_copies).
    #[inline]
    pub fn has_copies(&self) -> bool {
        matches!(self.0.origin, Origin::Twin(_, Some(_)))
    }

    /// The copy of this memory in an order, of `bytes` bytes, which `make` fills if there is none yet. `None` where the buffer has no
    /// [copies](Self::with_copies), or these no room.
    pub fn copy_in(
        &self,
        order: Order<'_>,
        bytes: usize,
        make: impl FnOnce(&mut Buffer) -> Result<()>,
    ) -> Option<&Buffer> {
        match &self.0.origin {
            Origin::Twin(_, Some(copies)) => copies.get(order, bytes, make),
            _ => None,
        }
    }

    fn twin_with(&self, copies: Option<Arc<Copies>>) -> Buffer {
        let base = self.base();
        if !matches!(
            base.origin,
            Origin::Host(_) | Origin::Vec(..) | Origin::Map(_) | Origin::Foreign(None, _)
        ) {
            return self.clone();
        }
        Buffer(Arc::new(Storage {
            ptr: base.ptr,
            bytes: base.bytes,
            device: base.device.clone(),
            origin: Origin::Twin(Buffer(base.clone()), copies),
        }))
    }

    /// Whether this is the only handle of memory that may be written.
    #[inline]
    pub fn is_unique(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && !self.is_shared()
    }

    /// An identity that no other buffer has. It keeps a few words alive, not the memory, and does not count as a handle
    /// for [`is_unique`](Self::is_unique).
    pub fn id(&self) -> BufferId {
        BufferId(Arc::downgrade(self.base()))
    }

    /// How many handles there are; a [twin](Self::twin) counts the buffer that it was made of too, a window of a
    /// [mapped file](Self::of_map) the file.
    #[inline]
    pub fn handles(&self) -> usize {
        Arc::strong_count(&self.0) + usize::from(self.is_shared())
    }

    /// The number of the symbol that stands for the memory in a [recording](crate::record), if one does.
    pub fn symbol(&self) -> Option<u32> {
        cuda::symbol_at(self.as_ptr() as u64).map(|(symbol, _)| symbol)
    }

    /// Whether both are handles of the same memory.
    #[inline]
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(self.base(), other.base())
    }

    /// The whole buffer as elements: as many whole ones as it holds; none for memory of another device than the CPU.
    /// As `bool`, it ends before the first byte that is neither 0 nor 1.
    pub fn as_slice<T: Element>(&self) -> &[T] {
        let n = self.elements::<T>();
        // SAFETY: the memory holds `n` elements from its start, which is aligned for every element type, and every
        // byte of it is initialised; `elements` admits no byte that is not a valid `bool`.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), n) }
    }

    /// As [`as_slice`](Self::as_slice), to write; `None` unless this is the only handle.
    pub fn get_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        let n = self.elements::<T>();
        if self.is_shared() {
            return None;
        }
        let storage = Arc::get_mut(&mut self.0)?;
        // SAFETY: as in `as_slice`, and this is the only handle, borrowed mutably.
        Some(unsafe { std::slice::from_raw_parts_mut(storage.ptr.as_ptr().cast(), n) })
    }

    fn elements<T: Element>(&self) -> usize {
        if !self.device().is_cpu() {
            return 0;
        }
        if T::DTYPE == DType::Bool {
            // SAFETY: the memory holds `bytes` initialised bytes.
            let bytes = unsafe { std::slice::from_raw_parts(self.as_ptr(), self.bytes()) };
            if bytes.iter().fold(0, |all, &b| all | b) > 1 {
                return bytes.iter().position(|&b| b > 1).unwrap_or(bytes.len());
            }
        }
        self.bytes() / size_of::<T>()
    }
}

/// A type with the alignment of a block.
#[repr(align(64))]
struct Line;
const _: () = assert!(align_of::<Line>() == alloc::ALIGN);

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Buffer({} bytes on {} at {:p})",
            self.bytes(),
            self.device(),
            self.as_ptr()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ErrorKind, stats_scope};

    fn cpu() -> Device {
        Device::cpu()
    }

    #[test]
    fn counters_follow_buffers() {
        let ((), s) = stats_scope(|| {
            let a = Buffer::allocate(&cpu(), 1000).expect("memory");
            let b = a.clone();
            assert!(!a.is_unique() && a.same(&b));
            drop(a);
            assert!(b.is_unique());
            drop(b);
            let c = Buffer::allocate(&cpu(), 1000).expect("memory");
            drop(c);
        });
        assert_eq!(
            (s.bytes_allocated, s.live_bytes, s.peak_bytes),
            (2000, 0, 1000)
        );
        assert!(s.buffers_reused >= 1);
    }

    #[test]
    fn a_twin_is_the_same_memory_and_never_the_only_handle() {
        let ((), stats) = stats_scope(|| {
            let a = Buffer::from_slice(&cpu(), &[1.0f32, 2.0]).expect("memory");
            let id = a.id();
            let mut twin = a.twin().twin();
            assert!(twin.same(&a) && a.same(&twin) && id.is_of(&twin) && twin.id().is_of(&a));
            assert!(!a.is_unique() && !twin.is_unique() && twin.get_mut::<f32>().is_none());
            drop(a);
            assert!(!twin.is_unique() && twin.handles() == 2);
            assert_eq!(twin.as_slice::<f32>(), [1.0, 2.0]);
        });
        assert_eq!(stats.live_bytes, 0);
    }

    #[test]
    fn vectors_keep_their_memory() {
        let data: Vec<f32> = (0..100).map(|i| i as f32).collect();
        let at = data.as_ptr();
        let (buffer, s) = stats_scope(|| Buffer::from_vec(&cpu(), data).expect("memory"));
        assert_eq!(buffer.as_ptr(), at.cast());
        assert_eq!((s.live_bytes, s.bytes_allocated), (400, 0));
        assert_eq!(buffer.as_slice::<f32>()[99], 99.0);
        let mut sparse = Vec::with_capacity(1000);
        sparse.push(7i64);
        assert_eq!(
            Buffer::from_vec(&cpu(), sparse)
                .expect("memory")
                .as_slice::<i64>(),
            [7]
        );
    }

    #[test]
    fn slices_truncate_and_never_panic() {
        let b = Buffer::from_slice(&cpu(), &[1u8, 0, 2, 1, 1]).expect("memory");
        assert_eq!(b.as_slice::<bool>(), [true, false]);
        assert_eq!(b.as_slice::<i32>(), [i32::from_ne_bytes([1, 0, 2, 1])]);
        assert!(b.as_slice::<f64>().is_empty());
        let none = Buffer::from_vec(&cpu(), Vec::<f64>::new()).expect("memory");
        assert_eq!((none.bytes(), none.as_slice::<f64>().len()), (0, 0));
        assert_eq!(none.as_ptr() as usize % 64, 0);
    }

    #[test]
    fn copies_into_buffers_without_other_handles() {
        let source = Buffer::from_slice(&cpu(), &[1i32, 2, 3]).expect("memory");
        let mut target = Buffer::from_slice(&cpu(), &[7i32, 8, 9]).expect("memory");
        source.copy_into(4..12, &mut target, 0).expect("it fits");
        assert_eq!(target.as_slice::<i32>(), [2, 3, 9]);
        for (range, at) in [(4..13, 0), (4..12, 5), (0..4, usize::MAX)] {
            assert!(source.copy_into(range, &mut target, at).is_err());
        }
        let other = target.clone();
        assert!(source.copy_into(0..4, &mut target, 0).is_err());
        assert_eq!(other.as_slice::<i32>(), [2, 3, 9]);
    }

    #[test]
    fn zeroed_after_use() {
        for bytes in [100, 100_000, 3 << 20] {
            for _ in 0..2 {
                let mut b = Buffer::zeroed(&cpu(), bytes).expect("memory");
                assert!(b.as_slice::<u8>().iter().all(|&b| b == 0));
                b.get_mut::<u8>().expect("one owner").fill(9);
                let shared = b.clone();
                assert!(b.get_mut::<u8>().is_none());
                drop(shared);
            }
        }
    }

    #[test]
    fn absurd_sizes_are_errors() {
        let error = Buffer::allocate(&cpu(), usize::MAX - 3).expect_err("no such memory");
        assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }));
    }
}
