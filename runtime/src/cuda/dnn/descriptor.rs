//! Descriptors of cuDNN's graphs: opaque objects with attributes, finished before they are used.

use super::api;
use crate::{Error, ErrorKind, Result};
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptor_t as Raw, cudnnBackendDescriptorType_t as Kind, cudnnStatus_t as Status,
};
use std::ptr;

/// What the library answered, as an error of the device.
pub(super) fn check(status: Status) -> Result<()> {
    match status {
        Status::CUDNN_STATUS_SUCCESS => Ok(()),
        other => Err(Error::new(ErrorKind::Device(format!(
            "cuDNN answers {other:?}"
        )))),
    }
}

/// A type of attributes, with what the library calls it.
pub(super) trait Value: Copy {
    const TYPE: Type;
}

macro_rules! values {
    ($($ty:ty: $name:ident),* $(,)?) => {
        $(impl Value for $ty {
            const TYPE: Type = Type::$name;
        })*
    };
}

values! {
    i64: CUDNN_TYPE_INT64,
    bool: CUDNN_TYPE_BOOLEAN,
    sys::cudnnPointwiseMode_t: CUDNN_TYPE_POINTWISE_MODE,
    sys::cudnnNanPropagation_t: CUDNN_TYPE_NAN_PROPOGATION,
    f32: CUDNN_TYPE_FLOAT,
    f64: CUDNN_TYPE_DOUBLE,
    sys::cudnnHandle_t: CUDNN_TYPE_HANDLE,
    sys::cudnnDataType_t: CUDNN_TYPE_DATA_TYPE,
    sys::cudnnConvolutionMode_t: CUDNN_TYPE_CONVOLUTION_MODE,
    sys::cudnnBackendHeurMode_t: CUDNN_TYPE_HEUR_MODE,
    Address: CUDNN_TYPE_VOID_PTR,
    Link: CUDNN_TYPE_BACKEND_DESCRIPTOR,
}

/// An address of the device's memory.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Address(pub u64);

/// Another descriptor.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Link(Raw);

/// A descriptor of ours.
pub(super) struct Descriptor(Raw);

// SAFETY: descriptors may be used by any thread, by one at a time, which the library's lock sees to.
unsafe impl Send for Descriptor {}

impl Descriptor {
    pub fn new(kind: Kind) -> Result<Descriptor> {
        let mut raw = ptr::null_mut();
        // SAFETY: the pointer is to a live variable.
        check(unsafe { (api()?.cudnnBackendCreateDescriptor)(kind, &mut raw) })?;
        Ok(Descriptor(raw))
    }

    pub fn link(&self) -> Link {
        Link(self.0)
    }

    pub fn set<T: Value>(self, name: Name, values: &[T]) -> Result<Descriptor> {
        let (count, from) = (values.len() as i64, values.as_ptr().cast());
        // SAFETY: the descriptor is alive, and so are the values, of the type that is named.
        check(unsafe { (api()?.cudnnBackendSetAttribute)(self.0, name, T::TYPE, count, from) })?;
        Ok(self)
    }

    /// Finished; `None` where the library does not support what it describes.
    pub fn finish(self) -> Result<Option<Descriptor>> {
        // SAFETY: the descriptor is alive.
        match unsafe { (api()?.cudnnBackendFinalize)(self.0) } {
            Status::CUDNN_STATUS_SUCCESS => Ok(Some(self)),
            Status::CUDNN_STATUS_ALLOC_FAILED | Status::CUDNN_STATUS_NOT_INITIALIZED => Err(
                Error::new(ErrorKind::Device("cuDNN has no memory".to_owned())),
            ),
            _ => Ok(None),
        }
    }

    /// How many values an attribute has.
    pub fn count(&self, name: Name, of: Type) -> Result<usize> {
        let mut count = 0;
        // SAFETY: the descriptor is alive, the pointer is to a live variable, and no values are asked for.
        check(unsafe {
            (api()?.cudnnBackendGetAttribute)(self.0, name, of, 0, &mut count, ptr::null_mut())
        })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// An attribute's integer.
    pub fn number(&self, name: Name) -> Result<i64> {
        let (mut number, mut count) = (0i64, 0);
        // SAFETY: the descriptor is alive, and the pointers are to live variables, with room for one value.
        check(unsafe {
            (api()?.cudnnBackendGetAttribute)(
                self.0,
                name,
                i64::TYPE,
                1,
                &mut count,
                ptr::from_mut(&mut number).cast(),
            )
        })?;
        Ok(number)
    }

    /// An attribute's remarks, by their numbers: the library may know more than the bindings.
    pub fn notes(&self, name: Name, of: Type) -> Result<Vec<u32>> {
        const MOST: usize = 64;
        let (mut notes, mut count) = ([0u32; MOST], 0);
        // SAFETY: the descriptor is alive, the pointers are to live variables, with room for so many values.
        check(unsafe {
            (api()?.cudnnBackendGetAttribute)(
                self.0,
                name,
                of,
                MOST as i64,
                &mut count,
                notes.as_mut_ptr().cast(),
            )
        })?;
        let count = usize::try_from(count).unwrap_or(0).min(MOST);
        Ok(notes[..count].to_vec())
    }

    /// An attribute's descriptors, at most so many, of a kind.
    pub fn parts(&self, name: Name, kind: Kind, most: usize) -> Result<Vec<Descriptor>> {
        let mut parts = (0..most)
            .map(|_| Descriptor::new(kind))
            .collect::<Result<Vec<_>>>()?;
        let mut links: Vec<Link> = parts.iter().map(Descriptor::link).collect();
        let mut count = 0;
        // SAFETY: the descriptors are alive, made to be filled; there are as many as are asked for.
        check(unsafe {
            (api()?.cudnnBackendGetAttribute)(
                self.0,
                name,
                Link::TYPE,
                most as i64,
                &mut count,
                links.as_mut_ptr().cast(),
            )
        })?;
        parts.truncate(usize::try_from(count).unwrap_or(0));
        Ok(parts)
    }

    /// Executes a plan.
    pub fn execute(&self, handle: sys::cudnnHandle_t, pack: &Descriptor) -> Result<()> {
        // SAFETY: handle and descriptors are alive; who made the pack answers for the memory that it names.
        check(unsafe { (api()?.cudnnBackendExecute)(handle, self.0, pack.0) })
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        let Ok(api) = api() else { return };
        // SAFETY: it is ours, and nothing that outlives it needs it.
        let _ = unsafe { (api.cudnnBackendDestroyDescriptor)(self.0) };
    }
}
