//! The cache of compiled kernels, in memory and on disk.

use crate::store::{Store, notes};
use crate::{Config, Result, kernel};
use std::path::PathBuf;

/// Forgets every compiled kernel: those in memory (kernels in use stay loaded until their last user is gone), and those
/// on disk, with the compiler's record, saved failures and the choices of measuring.
///
/// # Errors
/// `Io` for a file that could not be deleted.
pub fn clear() -> Result<()> {
    clear_memory();
    Store::global().map_or(Ok(()), Store::clear)
}

/// Forgets the kernels, and the choices of measuring, in memory alone, as a new process would have done.
pub fn clear_memory() {
    kernel::Kernels::global().clear();
    notes::forget();
}

/// The folder of kernels on disk.
pub fn dir() -> PathBuf {
    Config::get().cache_dir.clone()
}
