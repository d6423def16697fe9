//! The host: its memory, its caches, and the allocator of host buffers.

pub(crate) mod alloc;
mod amx;
mod arithmetic;
mod bandwidth;
mod isa;
mod machine;
mod map;
mod plain;
pub(crate) mod size_class;

pub use alloc::{cached_bytes, trim};
pub use amx::has_amx;
pub use arithmetic::peak;
pub use bandwidth::bandwidth;
pub use isa::Isa;
pub use machine::{
    available_bytes, cache_bytes, exceeds_caches, last_cache_bytes, lower_priority, memory_bytes,
    model_name,
};
pub use map::FileMap;
