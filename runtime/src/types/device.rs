//! Which device: the CPU, or a CUDA device by its index.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Cpu,
    Cuda(u32),
}

/// A device: the CPU, or a CUDA device by its index.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Device(Kind);

impl Device {
    /// The CPU.
    #[inline]
    pub const fn cpu() -> Device {
        Device(Kind::Cpu)
    }

    /// The index of a CUDA device.
    #[inline]
    pub(crate) fn cuda_index(&self) -> Option<u32> {
        match self.0 {
            Kind::Cpu => None,
            Kind::Cuda(index) => Some(index),
        }
    }

    /// Whether this is the CPU.
    #[inline]
    pub fn is_cpu(&self) -> bool {
        self.0 == Kind::Cpu
    }

    /// Device number `index` of CUDA's, which is known to be there.
    pub(crate) fn of_cuda(index: u32) -> Device {
        Device(Kind::Cuda(index))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Kind::Cpu => f.write_str("cpu"),
            Kind::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Device::cpu().to_string(), "cpu");
        assert_eq!(Device(Kind::Cuda(1)).to_string(), "cuda:1");
        assert!(Device::cpu().is_cpu() && !Device(Kind::Cuda(0)).is_cpu());
    }
}
