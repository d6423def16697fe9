//! Tensors handed over by DLPack (<https://dmlc.github.io/dlpack>), without copies: memory, layout, dtype, and how the
//! memory is given back.

use super::Buffer;
use crate::{DType, Device, Error, Layout, Result, Shape, Strides};
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};

const CPU: i32 = 1;
const CUDA: i32 = 2;
/// Memory of the host that a CUDA device reaches too.
const CUDA_HOST: i32 = 3;
const CUDA_MANAGED: i32 = 13;

/// The version of the format that is written; of another major number nothing is read.
const VERSION: Version = Version { major: 1, minor: 0 };

/// The flag of memory that must not be written.
const READ_ONLY: u64 = 1;

/// Dimensions that are taken at most.
const MOST_DIMS: i32 = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct DlDevice {
    kind: i32,
    index: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct DlType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`.
#[repr(C)]
struct Window {
    data: *mut c_void,
    device: DlDevice,
    rank: i32,
    dtype: DlType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    window: Window,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    window: Window,
}

/// A tensor in the form of DLPack, owned: dropping it gives its memory back to whoever made it.
///
/// ```
/// use ferrotrace_runtime::{Buffer, DType, Device, DlTensor, Layout};
/// let buffer = Buffer::from_slice(&Device::cpu(), &[1.0f32, 2.0])?;
/// let layout = Layout::contiguous([2].into());
/// let handed = DlTensor::of(buffer.clone(), &layout, DType::F32);
/// // The pointer is what C programs take; here it comes back.
/// let pointer = handed.into_raw();
/// let back = unsafe { DlTensor::from_raw(pointer) }.expect("not null");
/// let (memory, layout, dtype) = back.take()?;
/// assert_eq!((memory.as_ptr(), layout.numel(), dtype), (buffer.as_ptr(), 2, DType::F32));
/// # Ok::<(), ferrotrace_runtime::Error>(())
/// ```
pub struct DlTensor(Form);

enum Form {
    Plain(NonNull<Managed>),
    Versioned(NonNull<Versioned>),
}

// SAFETY: it owns what it points to; who makes such tensors lets any thread give them back.
unsafe impl Send for DlTensor {}
// SAFETY: through a shared reference it is only read.
unsafe impl Sync for DlTensor {}

impl Drop for DlTensor {
    fn drop(&mut self) {
        match self.0 {
            // SAFETY: the pointer is owned, and given back once, by the function that came with it.
            Form::Plain(at) => unsafe {
                if let Some(deleter) = at.as_ref().deleter {
                    deleter(at.as_ptr());
                }
            },
            // SAFETY: the pointer is owned, and given back once, by the function that came with it.
            Form::Versioned(at) => unsafe {
                if let Some(deleter) = at.as_ref().deleter {
                    deleter(at.as_ptr());
                }
            },
        }
    }
}

impl fmt::Debug for DlTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let window = self.window();
        write!(f, "DlTensor(rank {} at {:p})", window.rank, window.data)
    }
}

/// What a tensor that was made here keeps alive.
struct Kept {
    _memory: Memory,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

enum Memory {
    Buffer {
        _buffer: Buffer,
    },
    /// A tensor of the other form.
    Other {
        _other: DlTensor,
    },
}

unsafe extern "C" fn delete_plain(at: *mut Managed) {
    // SAFETY: `at` and its context are boxes that were taken apart for this function, which is called once.
    unsafe {
        let managed = Box::from_raw(at);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

unsafe extern "C" fn delete_versioned(at: *mut Versioned) {
    // SAFETY: as of `delete_plain`.
    unsafe {
        let managed = Box::from_raw(at);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

/// Code, bits and dtype.
const TYPES: [(u8, u8, DType); 10] = [
    (6, 8, DType::Bool),
    (1, 8, DType::U8),
    (0, 8, DType::I8),
    (0, 16, DType::I16),
    (0, 32, DType::I32),
    (0, 64, DType::I64),
    (2, 16, DType::F16),
    (4, 16, DType::BF16),
    (2, 32, DType::F32),
    (2, 64, DType::F64),
];

fn dl_type(dtype: DType) -> DlType {
    let known = TYPES.iter().find(|(_, _, of)| *of == dtype);
    let (code, bits) = known.map_or((3, 64), |(code, bits, _)| (*code, *bits));
    DlType {
        code,
        bits,
        lanes: 1,
    }
}

impl DlTensor {
    /// The tensor of this layout in a buffer, which it keeps alive. Who takes it must not write the memory: other tensors
    /// may share it.
    pub fn of(buffer: Buffer, layout: &Layout, dtype: DType) -> DlTensor {
        let (kind, index) = match buffer.device().cuda_index() {
            None => (CPU, 0),
            Some(index) => (CUDA, index as i32),
        };
        let first = buffer.as_ptr().wrapping_add(layout.offset() * dtype.size());
        let window = Window {
            data: first.cast_mut().cast(),
            device: DlDevice { kind, index },
            rank: layout.shape().rank() as i32,
            dtype: dl_type(dtype),
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset: 0,
        };
        let kept = Kept {
            _memory: Memory::Buffer { _buffer: buffer },
            shape: layout.shape().iter().map(|&n| n as i64).collect(),
            strides: layout.strides().iter().map(|&n| n as i64).collect(),
        };
        DlTensor::versioned(window, kept, READ_ONLY)
    }

    fn versioned(mut window: Window, kept: Kept, flags: u64) -> DlTensor {
        let mut kept = Box::new(kept);
        (window.shape, window.strides) = (kept.shape.as_mut_ptr(), kept.strides.as_mut_ptr());
        let managed = Box::new(Versioned {
            version: VERSION,
            context: Box::into_raw(kept).cast(),
            deleter: Some(delete_versioned),
            flags,
            window,
        });
        DlTensor(Form::Versioned(NonNull::from(Box::leak(managed))))
    }

    /// Takes over a `DLManagedTensor`; `None` for a null pointer.
    ///
    /// # Safety
    /// `at` is null or a valid `DLManagedTensor` that nobody else gives back, whose memory lies where it says, is written by
    /// nobody while this tensor, or a buffer made of it, lives, and may be given back by any thread.
    pub unsafe fn from_raw(at: *mut c_void) -> Option<DlTensor> {
        NonNull::new(at.cast()).map(|at| DlTensor(Form::Plain(at)))
    }

    /// Takes over a `DLManagedTensorVersioned`; `None` for a null pointer.
    ///
    /// # Safety
    /// As of [`from_raw`](Self::from_raw).
    pub unsafe fn from_raw_versioned(at: *mut c_void) -> Option<DlTensor> {
        NonNull::new(at.cast()).map(|at| DlTensor(Form::Versioned(at)))
    }

    /// A `DLManagedTensor`, whose deleter is to be called once.
    pub fn into_raw(self) -> *mut c_void {
        if let Form::Plain(at) = self.0 {
            std::mem::forget(self);
            return at.as_ptr().cast();
        }
        let (window, kept) = self.into_kept();
        let mut kept = Box::new(kept);
        let managed = Box::new(Managed {
            window: Window {
                shape: kept.shape.as_mut_ptr(),
                strides: kept.strides.as_mut_ptr(),
                ..window
            },
            context: Box::into_raw(kept).cast(),
            deleter: Some(delete_plain),
        });
        Box::into_raw(managed).cast()
    }

    /// A `DLManagedTensorVersioned`, whose deleter is to be called once. What was made here has the flag of memory that must
    /// not be written.
    pub fn into_raw_versioned(self) -> *mut c_void {
        let whole = match self.0 {
            Form::Versioned(_) => self,
            Form::Plain(_) => {
                let (window, kept) = self.into_kept();
                DlTensor::versioned(window, kept, 0)
            }
        };
        let Form::Versioned(at) = whole.0 else {
            return ptr::null_mut();
        };
        std::mem::forget(whole);
        at.as_ptr().cast()
    }

    fn window(&self) -> &Window {
        match &self.0 {
            // SAFETY: the pointer is owned and valid.
            Form::Plain(at) => unsafe { &at.as_ref().window },
            // SAFETY: the pointer is owned and valid.
            Form::Versioned(at) => unsafe { &at.as_ref().window },
        }
    }

    /// The window, and what keeps it alive, for a tensor of the other form.
    fn into_kept(self) -> (Window, Kept) {
        let Window {
            data,
            device,
            rank,
            dtype,
            byte_offset,
            ..
        } = *self.window();
        let window = Window {
            data,
            device,
            rank,
            dtype,
            shape: ptr::null_mut(),
            strides: ptr::null_mut(),
            byte_offset,
        };
        let shape = self.sizes().to_vec();
        let strides = match self.strides() {
            Some(strides) => strides.to_vec(),
            None => dense(&shape),
        };
        let kept = Kept {
            _memory: Memory::Other { _other: self },
            shape,
            strides,
        };
        (window, kept)
    }

    fn numbers(&self, at: *const i64) -> &[i64] {
        let rank = self.window().rank.clamp(0, MOST_DIMS) as usize;
        match at.is_null() || rank == 0 {
            true => &[],
            // SAFETY: the arrays of a valid tensor have as many numbers as it has dimensions.
            false => unsafe { std::slice::from_raw_parts(at, rank) },
        }
    }

    fn sizes(&self) -> &[i64] {
        self.numbers(self.window().shape)
    }

    fn strides(&self) -> Option<&[i64]> {
        let at = self.window().strides;
        (!at.is_null()).then(|| self.numbers(at))
    }

    /// The device that the memory is of.
    fn device(&self) -> Result<Device> {
        let DlDevice { kind, index } = self.window().device;
        match kind {
            CPU | CUDA_HOST => Ok(Device::cpu()),
            CUDA | CUDA_MANAGED => {
                Device::cuda_without_compiler(usize::try_from(index).unwrap_or(usize::MAX))
            }
            _ => Err(Error::argument(format!(
                "a DLPack tensor is on a device of kind {kind}, which is neither the CPU nor CUDA"
            ))),
        }
    }

    /// The tensor as a buffer, and its layout and dtype. Nobody may write the buffer: its memory belongs to whoever made it,
    /// and is given back with the last handle. On a CUDA device what is to write it must have ended.
    ///
    /// Where it does not begin at a multiple of 8 bytes (16 on a CUDA device), it is copied.
    ///
    /// # Errors
    /// `Argument`: a version, device or dtype that is not known here, sizes below 0 or beyond any memory, a null pointer to
    /// elements, a byte of booleans that is neither 0 nor 1.
    pub fn take(self) -> Result<(Buffer, Layout, DType)> {
        let bad = |what: String| Err(Error::argument(format!("a DLPack tensor {what}")));
        if let Form::Versioned(at) = self.0 {
            // SAFETY: the pointer is owned and valid; the version comes first in every version.
            let major = unsafe { at.as_ref().version.major };
            if major != VERSION.major {
                // What gives it back stands where the version says, which is not known here.
                std::mem::forget(self);
                return bad(format!(
                    "is of version {major}, where {} is read",
                    VERSION.major
                ));
            }
        }
        let window = self.window();
        let DlType { code, bits, lanes } = window.dtype;
        let known = TYPES.iter().find(|(c, b, _)| (*c, *b) == (code, bits));
        let Some((_, _, dtype)) = known.filter(|_| lanes == 1).copied() else {
            return bad(format!(
                "has elements of code {code}, {bits} bits and {lanes} lanes, which no tensor has"
            ));
        };
        let rank = window.rank;
        if !(0..=MOST_DIMS).contains(&rank) || rank > 0 && window.shape.is_null() {
            return bad(format!("has {rank} dimensions"));
        }
        let device = self.device()?;
        let sizes: Option<Vec<usize>> = self
            .sizes()
            .iter()
            .map(|&n| usize::try_from(n).ok())
            .collect();
        let Some(sizes) = sizes else {
            return bad(format!("has sizes {:?}", self.sizes()));
        };
        let shape = Shape::new(&sizes);
        if sizes.contains(&0) {
            let buffer = Buffer::allocate(&device, 0)?;
            return Ok((buffer, Layout::contiguous(shape), dtype));
        }
        let strides = match self.strides() {
            Some(strides) => strides.to_vec(),
            None => dense(self.sizes()),
        };
        let Some((low, high)) = reach(&sizes, &strides, dtype) else {
            return bad(format!("of sizes {sizes:?} is larger than any memory"));
        };
        if window.data.is_null() {
            return bad("has no memory".to_owned());
        }
        let first = (window.data as usize)
            .wrapping_add(window.byte_offset as usize)
            .wrapping_add_signed(low * dtype.size() as isize);
        let bytes = (high - low + 1) as usize * dtype.size();
        let strides: Strides = strides.iter().map(|&n| n as isize).collect();
        let layout = Layout::new(shape, strides, low.unsigned_abs());
        let buffer = Buffer::of_foreign(&device, first as *mut u8, bytes, self)?;
        if dtype == DType::Bool && device.is_cpu() && buffer.as_slice::<bool>().len() < bytes {
            return bad("has a boolean that is neither 0 nor 1".to_owned());
        }
        Ok((buffer, layout, dtype))
    }
}

/// Strides of elements in row-major order.
fn dense(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1i64; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(sizes[d].max(1));
    }
    strides
}

/// The positions of the first and the last element in memory, from that at index 0; `None` where they are beyond any memory.
fn reach(sizes: &[usize], strides: &[i64], dtype: DType) -> Option<(isize, isize)> {
    let most = isize::MAX as i128 / (2 * dtype.size() as i128);
    let (mut low, mut high, mut numel) = (0i128, 0i128, 1i128);
    for (&size, &stride) in sizes.iter().zip(strides) {
        let end = (size as i128 - 1).checked_mul(i128::from(stride))?;
        low += end.min(0);
        high += end.max(0);
        numel = numel.checked_mul(size as i128)?;
        if -low > most || high > most || numel > most {
            return None;
        }
    }
    Some((low as isize, high as isize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    static GIVEN_BACK: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn give_back(at: *mut Managed) {
        // SAFETY: `foreign` made it so.
        unsafe {
            let managed = Box::from_raw(at);
            let rank = managed.window.rank.max(0) as usize;
            drop(Vec::from_raw_parts(managed.window.shape, rank, rank));
            if !managed.window.strides.is_null() {
                drop(Vec::from_raw_parts(managed.window.strides, rank, rank));
            }
        }
        GIVEN_BACK.fetch_add(1, Relaxed);
    }

    /// A tensor that somebody else made of memory that outlives it.
    fn foreign(
        data: *const u8,
        code: (u8, u8),
        shape: &[i64],
        strides: Option<&[i64]>,
    ) -> DlTensor {
        let leak = |numbers: &[i64]| Box::leak(numbers.to_vec().into_boxed_slice()).as_mut_ptr();
        let managed = Managed {
            window: Window {
                data: data.cast_mut().cast(),
                device: DlDevice {
                    kind: CPU,
                    index: 0,
                },
                rank: shape.len() as i32,
                dtype: DlType {
                    code: code.0,
                    bits: code.1,
                    lanes: 1,
                },
                shape: leak(shape),
                strides: strides.map_or(ptr::null_mut(), leak),
                byte_offset: 0,
            },
            context: ptr::null_mut(),
            deleter: Some(give_back),
        };
        // SAFETY: it is whole, and nobody else has it.
        unsafe { DlTensor::from_raw(Box::into_raw(Box::new(managed)).cast()) }.expect("not null")
    }

    #[test]
    fn memory_of_others_is_used_and_given_back() {
        let before = GIVEN_BACK.load(Relaxed);
        let data = [1i64, 2, 3, 4, 5, 6];
        let at = data.as_ptr().cast::<u8>();
        let (buffer, layout, dtype) = foreign(at, (0, 64), &[2, 3], None).take().expect("known");
        assert_eq!(
            (buffer.as_ptr(), dtype, layout.is_contiguous()),
            (at, DType::I64, true)
        );
        assert_eq!(buffer.as_slice::<i64>(), data);
        // Nobody may write it.
        let (mut twin, mut buffer) = (buffer.twin(), buffer);
        assert!(!buffer.is_unique() && buffer.get_mut::<i64>().is_none());
        assert!(twin.get_mut::<i64>().is_none());
        drop(buffer);
        assert_eq!(GIVEN_BACK.load(Relaxed), before);
        drop(twin);
        // Backwards: the buffer begins at the least address.
        let last = data[5..].as_ptr().cast();
        let (buffer, layout, _) = foreign(last, (0, 64), &[3], Some(&[-2]))
            .take()
            .expect("known");
        assert_eq!((layout.offset(), layout.strides()), (4, &[-2][..]));
        assert_eq!(buffer.as_slice::<i64>(), &data[1..]);
        // Not aligned: copied, and given back at once.
        let part = at.wrapping_add(4);
        let (copy, _, _) = foreign(part, (0, 32), &[3], None).take().expect("known");
        assert_eq!(copy.as_slice::<i32>(), [0, 2, 0]);
        assert!(copy.is_unique());
        let empty = foreign(ptr::null(), (2, 32), &[0, 3], None)
            .take()
            .expect("known");
        assert_eq!((empty.0.bytes(), empty.1.numel()), (0, 0));
    }

    #[test]
    fn what_is_made_here_comes_back() {
        let buffer = Buffer::from_slice(&Device::cpu(), &[1.5f32, 2.5, 3.5, 4.5]).expect("memory");
        let layout = Layout::new([2].into(), Strides::from_slice(&[2]), 1);
        for round in 0..3 {
            let handed = DlTensor::of(buffer.clone(), &layout, DType::F32);
            assert_eq!(buffer.handles(), 2);
            // SAFETY: the pointers come from here.
            let back = unsafe {
                match round {
                    0 => DlTensor::from_raw(handed.into_raw()),
                    1 => DlTensor::from_raw_versioned(handed.into_raw_versioned()),
                    _ => {
                        let plain = DlTensor::from_raw(handed.into_raw()).expect("not null");
                        DlTensor::from_raw_versioned(plain.into_raw_versioned())
                    }
                }
            };
            let (taken, window, dtype) = back.expect("not null").take().expect("known");
            let values = taken.as_slice::<u8>();
            assert_eq!((dtype, window.shape()), (DType::F32, layout.shape()));
            // Windows that begin at a multiple of 4 bytes are copied.
            assert_eq!(values[..4], 2.5f32.to_ne_bytes());
            assert_eq!(values[8..12], 4.5f32.to_ne_bytes());
            drop(taken);
            assert_eq!(buffer.handles(), 1);
        }
    }

    #[test]
    fn what_cannot_be_taken() {
        let data = [2u8; 64];
        let at = data.as_ptr();
        let refused = |tensor: DlTensor, part: &str| {
            let error = tensor.take().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(foreign(at, (5, 64), &[1], None), "code 5");
        refused(foreign(at, (2, 32), &[-1], None), "sizes [-1]");
        refused(
            foreign(at, (2, 32), &[1 << 40, 1 << 40], None),
            "larger than any memory",
        );
        refused(
            foreign(at, (2, 32), &[2], Some(&[i64::MIN])),
            "larger than any memory",
        );
        refused(foreign(ptr::null(), (2, 32), &[2], None), "no memory");
        refused(foreign(at, (6, 8), &[3], None), "neither 0 nor 1");
        refused(foreign(at, (2, 32), &[1; 65], None), "65 dimensions");
        let mut other = foreign(at, (2, 32), &[1], None);
        if let Form::Plain(managed) = &mut other.0 {
            // SAFETY: the pointer is owned.
            unsafe { managed.as_mut() }.window.device.kind = 7;
        }
        refused(other, "kind 7");
        let buffer = Buffer::zeroed(&Device::cpu(), 4).expect("memory");
        let newer = DlTensor::of(buffer, &Layout::contiguous([1].into()), DType::F32);
        let at = newer.into_raw_versioned();
        // SAFETY: the pointer comes from above.
        let newer = unsafe {
            (*at.cast::<Versioned>()).version.major = 2;
            DlTensor::from_raw_versioned(at)
        };
        refused(newer.expect("not null"), "version 2");
        // SAFETY: a null pointer is none.
        assert!(unsafe { DlTensor::from_raw(ptr::null_mut()) }.is_none());
    }
}
