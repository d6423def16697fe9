//! Files of tensors: what is written is read again, by this library and by those whose formats they are; what is damaged
//! or hostile gives an error.

#[path = "../common/damage.rs"]
mod damage;
#[allow(dead_code)]
#[path = "../common/rng.rs"]
mod rng;

mod checkpoints;
mod common;
mod device;
mod hostile;
mod npy;
mod pytorch;
mod safetensors;
mod saving;
mod states;
