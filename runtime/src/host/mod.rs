//! The host: its memory, its caches, and the allocator of host buffers.

pub(crate) mod alloc;
mod arithmetic;
mod bandwidth;
mod bf16;
mod isa;
mod machine;
mod map;
mod plain;
pub(crate) mod size_class;

pub use alloc::{cached_bytes, trim, vector};
pub use arithmetic::peak;
pub use bandwidth::bandwidth;
pub use bf16::{has_amx, has_bf16_dots};
pub use isa::Isa;
pub use machine::{
    available_bytes, cache_bytes, exceeds_caches, last_cache_bytes, lower_priority, memory_bytes,
    model_name,
};
pub use map::FileMap;
