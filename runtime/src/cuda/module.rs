//! Loaded cubins.

use super::Context;
use super::context::failed;
use crate::compiler::elf;
use crate::observe::inject::{self, Site};
use crate::{Error, ErrorKind, Result};
use cudarc::driver::{DriverError, result, sys};
use std::ffi::CString;

/// Machine code in a context, unloaded when its last kernel is dropped.
pub(crate) struct Module {
    module: sys::CUmodule,
    context: &'static Context,
}

/// A kernel of a module, which must outlive it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(pub(super) sys::CUfunction);

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Module {}
// SAFETY: the driver's handles may be used from several threads at once.
unsafe impl Sync for Module {}
// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Function {}
// SAFETY: the driver's handles may be used from several threads at once.
unsafe impl Sync for Function {}

impl Function {
    /// Bytes of local memory of each thread; 0 where the driver does not say.
    pub(crate) fn local_bytes(&self) -> usize {
        use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES as LOCAL;
        // SAFETY: who has the function keeps its module loaded.
        let bytes = unsafe { result::function::get_function_attribute(self.0, LOCAL) };
        bytes.map_or(0, |bytes| bytes.max(0) as usize)
    }
}

impl Module {
    /// Loads a cubin, or PTX.
    ///
    /// # Errors
    /// `Load`, with the driver's words.
    pub(crate) fn load(context: &'static Context, cubin: &[u8]) -> Result<Module> {
        if inject::fails(Site::Load) {
            return Err(Error::new(ErrorKind::Load("a failure was injected".into())));
        }
        // PTX is text that ends in zero.
        if !(cubin.starts_with(b"//") && cubin.ends_with(&[0])) {
            elf::check(cubin).map_err(|why| Error::new(ErrorKind::Load(why.into())))?;
        }
        context.bind()?;
        // SAFETY: the bytes are a cubin, whose headers speak of nothing beyond its end, or a text that ends in zero.
        let module = unsafe { result::module::load_data(cubin.as_ptr().cast()) };
        let module = module.map_err(|e| load_error(context, e))?;
        Ok(Module { module, context })
    }

    /// A kernel by its name.
    ///
    /// # Errors
    /// `Load` if there is none.
    pub(crate) fn function(&self, name: &str) -> Result<Function> {
        self.context.bind()?;
        let name = CString::new(name).map_err(|e| Error::internal(e.to_string()))?;
        // SAFETY: the module is loaded.
        let function = unsafe { result::module::get_function(self.module, name) };
        function
            .map(Function)
            .map_err(|e| load_error(self.context, e))
    }

    pub(crate) fn context(&self) -> &'static Context {
        self.context
    }
}

/// A failure to load code that the driver blames on the code; others are the device's.
fn load_error(context: &Context, e: DriverError) -> Error {
    use sys::CUresult as Of;
    let error = failed(context.index(), "loading")(e);
    match e.0 {
        Of::CUDA_ERROR_INVALID_IMAGE
        | Of::CUDA_ERROR_INVALID_SOURCE
        | Of::CUDA_ERROR_INVALID_VALUE
        | Of::CUDA_ERROR_NO_BINARY_FOR_GPU
        | Of::CUDA_ERROR_NOT_FOUND
        | Of::CUDA_ERROR_UNSUPPORTED_PTX_VERSION => Error::new(ErrorKind::Load(error.to_string())),
        _ => error,
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // Its kernels may still be running; a failure means that the context is lost, and the module with it.
        if self.context.synchronize().is_ok() {
            // SAFETY: the module is loaded, and nothing of it runs or will be launched.
            let _ = unsafe { result::module::unload(self.module) };
        }
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({:?})", self.context)
    }
}
