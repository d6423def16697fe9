//! Files of tensors: NumPy's arrays, safetensors, PyTorch's state dictionaries, checkpoints.
//!
//! | file | one tensor | several, by name |
//! |---|---|---|
//! | NumPy | [`save_npy`], [`load_npy`] | [`save_npz`], [`save_npz_compressed`], [`load_npz`] |
//! | safetensors | | [`save_safetensors`], [`load_safetensors`], [`SafeTensors`] |
//! | PyTorch | | [`load_pt`], [`load_pt_tree`] |
//! | a program of PyTorch's | | [`ExportedProgram`] |
//! | a program with its kernels | | [`Bundle`] |
//! | a run to be resumed | | [`Checkpoint`] |
//!
//! ```
//! use ferrotrace::prelude::*;
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("model.safetensors");
//!
//! let (w, b) = (Tensor::randn([3, 2], DType::F32, &Device::cpu()), Tensor::ones(3, DType::BF16, &Device::cpu()));
//! io::save_safetensors(&path, &[("layer.weight", &w), ("layer.bias", &b)])?;
//!
//! let loaded = io::load_safetensors(&path, &Device::cpu())?;
//! assert_eq!(loaded.len(), 2);
//! assert!(loaded["layer.weight"].allclose(&w, 0.0, 0.0)?);
//! # Ok::<(), Error>(())
//! ```
//!
//! [`state_dict`] gives the tensors of a [struct](crate::TensorStruct) by their names, and [`load_state_dict`] puts loaded
//! ones in their place.
//!
//! **Saving is atomic.** A file is written beside its place under a temporary name, flushed to the disk and renamed. A
//! save that fails, or is killed, leaves the file that was there as it was. A tensor that carries an error makes no
//! file: saving it is that error.
//!
//! **No file but a [bundle](Bundle) is trusted.** A truncated, damaged or hostile file gives an error. Nothing in a file is
//! run, and no memory is taken for what a file merely claims to hold. A bundle holds machine code, which opening it loads.

mod archive;
mod bundle;
mod checkpoint;
mod exported;
mod file;
mod json;
mod npy;
mod pytorch;
mod safetensors;
mod state;
mod tensor_map;

pub use bundle::{Bundle, BundleOptions, Fallback, save_bundle};
pub use checkpoint::{Checkpoint, Value};
pub use exported::{ExportedProgram, Port};
pub use npy::archive::{load_npz, load_npz_in_order, save_npz, save_npz_compressed};
pub use npy::{load_npy, save_npy};
pub use pytorch::{PtTree, load_pt, load_pt_tree};
pub use safetensors::{
    SafeTensors, load_safetensors, save_safetensors, save_safetensors_in_parts,
    save_safetensors_with,
};
pub use state::{Differences, load_state_dict, load_state_dict_partly, state_dict};
pub use tensor_map::TensorMap;

// Mapped bytes are used as they are, and the formats' integers and floats are little-endian.
const _: () = assert!(cfg!(target_endian = "little"));
