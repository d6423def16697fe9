//! NVRTC: CUDA C++ to machine code, in the process.

use super::libraries::{self, Wanted, functions};
use crate::compiler::saved_failure;
use crate::observe::inject::{self, Site};
use crate::{Error, ErrorKind, Result};
use cudarc::nvrtc::sys;
use once_cell::sync::Lazy;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;

/// The compiler, once it was found.
#[derive(Debug)]
pub(crate) struct Nvrtc {
    major: i32,
    minor: i32,
    api: Api,
    file: PathBuf,
}

/// Besides the architecture. No product and sum are contracted; division and roots are rounded correctly, subnormal
/// numbers kept, by default. 128-bit integers are a feature to be asked for.
const OPTIONS: [&CStr; 3] = [c"--fmad=false", c"--device-int128", c"--disable-warnings"];
/// Leaves out what sources do not use, textures and the runtime's functions and types: a third of the time that a source
/// takes at least. The first version that knows it.
const MINIMAL: (&CStr, (i32, i32)) = (c"--minimal", (12, 4));

functions! {
    /// The functions that are called.
    Api of sys:
    nvrtcVersion(*mut c_int, *mut c_int) -> sys::nvrtcResult;
    nvrtcCreateProgram(
        *mut sys::nvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
    ) -> sys::nvrtcResult;
    nvrtcDestroyProgram(*mut sys::nvrtcProgram) -> sys::nvrtcResult;
    nvrtcCompileProgram(sys::nvrtcProgram, c_int, *const *const c_char) -> sys::nvrtcResult;
    nvrtcGetCUBINSize(sys::nvrtcProgram, *mut usize) -> sys::nvrtcResult;
    nvrtcGetCUBIN(sys::nvrtcProgram, *mut c_char) -> sys::nvrtcResult;
    nvrtcGetPTXSize(sys::nvrtcProgram, *mut usize) -> sys::nvrtcResult;
    nvrtcGetPTX(sys::nvrtcProgram, *mut c_char) -> sys::nvrtcResult;
    nvrtcGetProgramLogSize(sys::nvrtcProgram, *mut usize) -> sys::nvrtcResult;
    nvrtcGetProgramLog(sys::nvrtcProgram, *mut c_char) -> sys::nvrtcResult;
}

/// The compiler asks for its built-in functions by name when it first runs.
const WANTED: Wanted<'_> = Wanted {
    stem: "libnvrtc",
    versions: &["", ".13", ".12", ".11.2"],
    parts: &["libnvrtc-builtins"],
};

static NVRTC: Lazy<Result<Nvrtc>> = Lazy::new(|| {
    let missing = |why: String| {
        Error::new(ErrorKind::NoCompiler(format!(
            "libnvrtc.so (NVRTC) could not be loaded{why}; it is part of the CUDA toolkit and of PyPI's \
             nvidia-cuda-nvrtc, and FERROTRACE_NVRTC may name its folder"
        )))
    };
    let library = libraries::find(&libraries::of_toolkit(true), WANTED).map_err(missing)?;
    let file = library.file("nvrtcVersion");
    let wrong = |why: String| missing(format!(" from {}: {why}", file.display()));
    let api = Api::of(&library).map_err(wrong)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the pointers are to live integers.
    let status = unsafe { (api.nvrtcVersion)(&mut major, &mut minor) };
    if status != sys::nvrtcResult::NVRTC_SUCCESS {
        return Err(wrong(format!("{status:?}")));
    }
    std::mem::forget(library);
    Ok(Nvrtc {
        major,
        minor,
        api,
        file,
    })
});

impl Nvrtc {
    /// The compiler, looked for once a process.
    ///
    /// # Errors
    /// `NoCompiler`, naming the library.
    pub(crate) fn get() -> Result<&'static Nvrtc> {
        NVRTC.as_ref().map_err(Clone::clone)
    }

    /// What a kernel's key states of how it is compiled for an architecture.
    pub(crate) fn identity(&self, arch: &str) -> String {
        format!("{} {arch} {OPTIONS:?}", self.describe())
    }

    fn minimal(&self) -> Option<&'static CStr> {
        (self.version() >= MINIMAL.1).then_some(MINIMAL.0)
    }

    pub(crate) fn version(&self) -> (i32, i32) {
        (self.major, self.minor)
    }

    /// Its name and version.
    pub(crate) fn describe(&self) -> String {
        format!("NVRTC {}.{}", self.major, self.minor)
    }

    /// The file that it was loaded from.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Compiles a source for an architecture: to a cubin for `sm_90a` and the like, to PTX, which ends in zero, for
    /// `compute_80` and the like.
    ///
    /// # Errors
    /// `Compile`, with the first lines of the log and the files in which source and log are saved.
    pub(crate) fn compile(&'static self, source: &str, arch: &str) -> Result<Vec<u8>> {
        if inject::fails(Site::Compile) {
            return Err(saved_failure(source, "a failure was injected"));
        }
        let text = |s: &str| CString::new(s).map_err(|e| Error::internal(e.to_string()));
        let (code, target) = (text(source)?, text(&format!("--gpu-architecture={arch}"))?);
        let mut options = vec![target.as_ptr()];
        options.extend(OPTIONS.map(CStr::as_ptr));
        options.extend(self.minimal().map(CStr::as_ptr));
        let program = Program::new(&self.api, &code).map_err(|why| saved_failure(source, &why))?;
        program
            .compile(&options, arch.starts_with("compute_"))
            .map_err(|why| saved_failure(source, &why))
    }
}

/// Compiles a source to a cubin for an architecture, on a machine with NVRTC but perhaps without a device: what tests
/// of generated sources use.
///
/// # Errors
/// `NoCompiler` where NVRTC is missing; `Compile`.
pub fn compile_for(arch: &str, source: &str) -> Result<Vec<u8>> {
    Nvrtc::get()?.compile(source, arch)
}

/// Compiles a source to PTX for an architecture such as `compute_80`.
///
/// # Errors
/// As [`compile_for`].
pub(crate) fn compile_ptx(arch: &str, source: &str) -> Result<Vec<u8>> {
    Nvrtc::get()?.compile(source, arch)
}

/// A program being compiled.
struct Program(&'static Api, sys::nvrtcProgram);

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created, and is destroyed once.
        let _ = unsafe { (self.0.nvrtcDestroyProgram)(&mut self.1) };
    }
}

fn check(status: sys::nvrtcResult) -> Result<(), String> {
    match status {
        sys::nvrtcResult::NVRTC_SUCCESS => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

impl Program {
    fn new(api: &'static Api, source: &CStr) -> Result<Program, String> {
        let mut program = ptr::null_mut();
        let name = c"kernel.cu".as_ptr();
        // SAFETY: the strings end in zero and live through the call; there are no headers.
        check(unsafe {
            (api.nvrtcCreateProgram)(
                &mut program,
                source.as_ptr(),
                name,
                0,
                ptr::null(),
                ptr::null(),
            )
        })?;
        Ok(Program(api, program))
    }

    fn compile(
        &self,
        options: &[*const std::ffi::c_char],
        is_ptx: bool,
    ) -> Result<Vec<u8>, String> {
        // SAFETY: the options are strings that end in zero and live through the call.
        let status =
            unsafe { (self.0.nvrtcCompileProgram)(self.1, options.len() as i32, options.as_ptr()) };
        if let Err(why) = check(status) {
            return Err(format!("{why}\n{}", self.log()));
        }
        let mut size = 0;
        if is_ptx {
            return self.ptx();
        }
        // SAFETY: the pointer is to a live integer.
        check(unsafe { (self.0.nvrtcGetCUBINSize)(self.1, &mut size) })?;
        let mut cubin = vec![0u8; size];
        // SAFETY: the vector has room for as many bytes as the call above said.
        check(unsafe { (self.0.nvrtcGetCUBIN)(self.1, cubin.as_mut_ptr().cast()) })?;
        Ok(cubin)
    }

    /// The PTX of a program that was compiled to it.
    fn ptx(&self) -> Result<Vec<u8>, String> {
        let mut size = 0;
        // SAFETY: the pointer is to a live integer.
        check(unsafe { (self.0.nvrtcGetPTXSize)(self.1, &mut size) })?;
        let mut ptx = vec![0u8; size];
        // SAFETY: the vector has room for as many bytes as the call above said.
        check(unsafe { (self.0.nvrtcGetPTX)(self.1, ptx.as_mut_ptr().cast()) })?;
        Ok(ptx)
    }

    fn log(&self) -> String {
        let mut size = 0;
        // SAFETY: the pointer is to a live integer.
        if unsafe { (self.0.nvrtcGetProgramLogSize)(self.1, &mut size) }
            != sys::nvrtcResult::NVRTC_SUCCESS
        {
            return String::new();
        }
        let mut log = vec![0u8; size];
        // SAFETY: the vector has room for as many bytes as the call above said.
        let _ = unsafe { (self.0.nvrtcGetProgramLog)(self.1, log.as_mut_ptr().cast()) };
        String::from_utf8_lossy(&log)
            .trim_end_matches('\0')
            .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compiles_or_says_what_is_missing() {
        let source = "extern \"C\" __global__ void ft_0(float *p) { p[threadIdx.x] = 1.0f; }\n";
        let cubin = match compile_for("sm_90", source) {
            Ok(cubin) => cubin,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::NoCompiler(_)), "{error}");
                assert!(error.to_string().contains("libnvrtc.so"), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
        };
        assert_eq!(&cubin[..4], b"\x7fELF");
        let broken = source.replace("1.0f", "undeclared_thing");
        let error = compile_for("sm_90", &broken).expect_err("no such name");
        let ErrorKind::Compile { log, .. } = error.kind() else {
            panic!("{error}");
        };
        assert!(log.contains("undeclared_thing"), "{log}");
        assert!(compile_for("sm_1", source).is_err());
    }
}
