//! What describes a tensor's data: element types, sizes, strides and the device.

mod device;
mod dtype;
mod element;
mod layout;
mod scalar;
mod shape;

pub use device::Device;
pub use dtype::{Category, DType};
pub use element::Element;
pub use layout::{Layout, Offsets, Strides};
pub use scalar::Scalar;
pub use shape::Shape;
