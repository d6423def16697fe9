//! Reads and writes at positions given by index tensors.

pub mod gather;
pub mod scatter;
