//! What tests of devices share.

use ferrotrace::prelude::*;

/// The CUDA device, or what is missing, printed.
pub fn device() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}
