//! Devices: their memory, and what is asked of them. Which device a [`Device`] is stands in `types`; what each backend
//! does, in [`host`] and `cuda`.

mod buffer;
mod convolution;
mod copies;
mod dlpack;
mod graph;
mod product;

pub use buffer::{Buffer, BufferId};
pub use convolution::convolve;
pub use copies::{Copies, Order, Room};
pub use dlpack::DlTensor;
pub use product::{Matrix, Product, product};

use crate::compiler::CCompiler;
use crate::{Config, Device, Error, Isa, Result, cuda, host};
use std::time::{Duration, Instant};

impl Device {
    /// The CUDA device of this index.
    ///
    /// # Errors
    /// `Device` or `NoCompiler`, naming what is missing: the driver's library, a device of this index, or NVRTC.
    pub fn cuda(index: usize) -> Result<Device> {
        let device = Device::cuda_without_compiler(index)?;
        cuda::Nvrtc::get()?;
        Ok(device)
    }

    /// The CUDA device of this index, on a machine that may lack NVRTC: for programs whose kernels were compiled ahead. What
    /// needs another kernel there is an error.
    ///
    /// # Errors
    /// `Device`, naming what is missing: the driver's library, or a device of this index.
    pub fn cuda_without_compiler(index: usize) -> Result<Device> {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        cuda::context(index).map(|_| Device::of_cuda(index))
    }

    /// The fastest device of this machine that this build can use.
    pub fn best() -> Device {
        Device::cuda(0).unwrap_or(Device::cpu())
    }

    /// Most bytes of a kernel's arguments on a CUDA device; 0 for the CPU, and for a device that is not there.
    pub fn argument_bytes(&self) -> usize {
        let context = self.cuda_index().map(cuda::context);
        context.map_or(0, |c| c.map_or(0, cuda::Context::argument_bytes))
    }

    /// Waits until everything launched on the device has run.
    ///
    /// # Errors
    /// The first failure of what was launched. The CPU runs launches at once and has nothing to wait for.
    pub fn synchronize(&self) -> Result<()> {
        match self.cuda_index() {
            None => Ok(()),
            Some(index) => cuda::context(index)?.synchronize(),
        }
    }

    /// The bytes a second that a large copy within the device's memory reads and writes: measured at the first call.
    ///
    /// # Errors
    /// Out of memory; what the device's driver answers.
    pub fn bandwidth(&self) -> Result<u64> {
        match self.cuda_index() {
            None => Ok(host::bandwidth()),
            Some(index) => cuda::context(index)?.bandwidth(),
        }
    }

    /// Additions and multiplications of binary32 a second that the device does at most, measured at the first call; `None`
    /// where that is not measured.
    pub fn peak(&self) -> Option<u64> {
        match self.cuda_index() {
            None => host::peak(),
            Some(_) => None,
        }
    }

    /// Gives all memory that is kept for reuse back, after everything launched has run.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    pub fn trim(&self) -> Result<()> {
        match self.cuda_index() {
            None => {
                host::trim();
                Ok(())
            }
            Some(index) => cuda::context(index)?.trim(),
        }
    }

    /// Most bytes of shared memory of a block, on a CUDA device with matrix units for bfloat16 (compute capability
    /// 8.0); elsewhere 0.
    ///
    /// ```
    /// assert_eq!(ferrotrace_runtime::Device::cpu().shared_memory()?, 0);
    /// # Ok::<(), ferrotrace_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device cannot be opened, at its first use.
    pub fn shared_memory(&self) -> Result<usize> {
        match self.cuda_index() {
            Some(index) => cuda::context(index).map(|context| context.shared()),
            None => Ok(0),
        }
    }

    /// A CUDA device's compute capability, as 90 for 9.0, and its multiprocessors; of the CPU 0 and 0.
    ///
    /// ```
    /// assert_eq!(ferrotrace_runtime::Device::cpu().capability()?, (0, 0));
    /// # Ok::<(), ferrotrace_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The device cannot be opened, at its first use.
    pub fn capability(&self) -> Result<(u32, usize)> {
        match self.cuda_index() {
            Some(index) => cuda::context(index).map(|context| context.capability()),
            None => Ok((0, 0)),
        }
    }

    /// Runs `f`, and says what it took: on a CUDA device the time between two events, before and after what `f` puts on
    /// the device's stream, to whose end this waits; on the CPU the time by the clock.
    ///
    /// ```
    /// use ferrotrace_runtime::Device;
    ///
    /// let (four, took) = Device::cpu().time(|| Ok(2 + 2))?;
    /// assert!(four == 4 && took.as_secs() < 1);
    /// # Ok::<(), ferrotrace_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// `f` fails, or something launched before its end does: the first failure.
    pub fn time<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<(T, Duration)> {
        match self.cuda_index() {
            None => {
                let start = Instant::now();
                let result = f()?;
                Ok((result, start.elapsed()))
            }
            Some(index) => {
                let lost = || Error::internal("a device tells no time");
                let watch = cuda::Stopwatch::start(cuda::context(index)?).ok_or_else(lost)?;
                let result = f()?;
                Ok((result, watch.stop().ok_or_else(lost)?))
            }
        }
    }

    /// What the device is and what serves it, one fact a line: processor, cores, instruction set, caches, compiler,
    /// cache folder, CUDA driver, and versions and files of NVRTC, cuBLASLt and cuDNN.
    pub fn report(&self) -> String {
        let config = Config::get();
        let compiler = match CCompiler::get() {
            Ok(cc) => cc.describe(),
            Err(error) => error.to_string(),
        };
        let cuda = match cuda::probe() {
            Ok(driver) => {
                format!(
                    "driver for CUDA {}, {} device(s)",
                    driver.version(),
                    driver.devices
                )
            }
            Err(error) => error.to_string(),
        };
        let nvrtc = match cuda::Nvrtc::get() {
            Ok(nvrtc) => format!("{}, {}", nvrtc.describe(), nvrtc.file().display()),
            Err(error) => error.to_string(),
        };
        let (cublas, cudnn) = (cuda::describe_cublas(), cuda::describe_cudnn());
        let device = match self.cuda_index().map(cuda::context) {
            Some(Ok(context)) => format!("{self}, {} ({})", context.name(), context.arch()),
            _ => self.to_string(),
        };
        let kib = |level| host::cache_bytes(level) >> 10;
        let store = if config.disk_cache { "" } else { " (off)" };
        format!(
            "device: {device}\nprocessor: {}\nthreads: {}\ninstruction set: {:?}, {}-byte vectors\n\
             caches: L1d {} KiB, L2 {} KiB, L3 {} KiB\nmemory: {} MiB\ncompiler: {compiler}\n\
             cache folder: {}{store}\ncuda: {cuda}\nnvrtc: {nvrtc}\ncublas: {cublas}\ncudnn: {cudnn}\n",
            host::model_name(),
            config.threads,
            Isa::host(),
            Isa::host().vector_bytes(),
            kib(1),
            kib(2),
            kib(3),
            host::memory_bytes() >> 20,
            config.cache_dir.display(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn the_cpu_waits_for_nothing() {
        assert!(Device::cpu().synchronize().is_ok());
        assert!(Device::cpu().trim().is_ok());
        assert_eq!(Device::cpu().argument_bytes(), 0);
    }

    #[test]
    fn cuda_is_an_error_that_says_why() {
        let error = Device::cuda(usize::MAX).expect_err("no such device");
        assert!(matches!(error.kind(), ErrorKind::Device(_)), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("libcuda.so.1") || text.contains("cuda:"),
            "{text}"
        );
    }

    #[test]
    fn reports_name_what_matters() {
        let report = Device::cpu().report();
        for part in [
            "processor",
            "instruction set",
            "cublas",
            "compiler",
            "cache folder",
            "cuda",
        ] {
            assert!(report.contains(part), "{report}");
        }
    }
}
