//! Files of tensors: what is written is read again, by this library and by those whose formats they are; what is damaged
//! or hostile gives an error.

mod common;
mod names;
mod npy;
mod safetensors;
mod saving;
