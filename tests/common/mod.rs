//! What tests of devices share.
#![allow(dead_code)]

use ferrotrace::prelude::*;

/// The CUDA device that `FERROTRACE_TEST_DEVICE` numbers, the first where it does not, or what is missing, printed.
pub fn device() -> Option<Device> {
    let number = std::env::var("FERROTRACE_TEST_DEVICE").ok();
    found(number.and_then(|n| n.parse().ok()).unwrap_or(0))
}

/// The first two CUDA devices, or what is missing, printed.
pub fn two_devices() -> Option<[Device; 2]> {
    Some([found(0)?, found(1)?])
}

fn found(number: usize) -> Option<Device> {
    match Device::cuda(number) {
        Ok(device) => Some(device),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}
