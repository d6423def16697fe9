//! Loaded shared objects.

use super::elf;
use crate::observe::inject::{self, Site};
use crate::store::workdir::WorkDir;
use crate::{Error, ErrorKind, Result};
use libloading::os::unix::{Library as Handle, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::Once;

/// A shared object in this process, unloaded when its last kernel is dropped.
#[derive(Debug)]
pub(crate) struct Library {
    handle: Handle,
    /// What is mapped of it, from where it was put.
    mapped: Vec<Range<usize>>,
    touched: Once,
}

fn failed(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Load(what.to_string()))
}

/// What the loader says: its error names the call that failed, and its source the reason.
pub(crate) fn loader_says(error: libloading::Error) -> String {
    let source = std::error::Error::source(&error).map(|reason| reason.to_string());
    source.unwrap_or_else(|| error.to_string())
}

impl Library {
    /// Loads the shared object that these bytes are, from anonymous memory: nobody can change them between their check
    /// and their use, and no file system that allows execution is needed.
    ///
    /// # Errors
    /// `Load`, with the loader's words.
    pub(crate) fn load(elf: &[u8]) -> Result<Library> {
        if inject::fails(Site::Load) {
            return Err(failed("a failure was injected"));
        }
        elf::check(elf).map_err(failed)?;
        #[cfg(target_os = "linux")]
        if let Ok(library) = load_from_memory(elf) {
            return Ok(library);
        }
        load_from_file(elf)
    }

    /// The address of a function.
    ///
    /// # Errors
    /// `Load` if there is no such symbol.
    pub(crate) fn symbol(&self, name: &CStr) -> Result<*const ()> {
        // SAFETY: the symbol is taken as an address alone; whoever calls it answers for its type.
        let symbol = unsafe { self.handle.get::<*const ()>(name) };
        let address = symbol.map(|s| s.as_raw_ptr().cast_const().cast());
        let address = address.map_err(failed)?;
        self.touched.call_once(|| self.touch(address));
        Ok(address)
    }

    /// Reads a byte of every page. A vector instruction that loads a constant under a mask which holds for no lane never
    /// brings the constant's page in, and a processor takes thirty times as long to pass over a page that is not there: an
    /// index check that fails for no lane is such an instruction.
    fn touch(&self, function: *const ()) {
        /// No processor has smaller ones.
        const PAGE: usize = 4096;
        let mut info = MaybeUninit::<libc::Dl_info>::uninit();
        // SAFETY: the address is of a loaded function, and there is room for what is said of it.
        if unsafe { libc::dladdr(function.cast(), info.as_mut_ptr()) } == 0 {
            return;
        }
        // SAFETY: the call succeeded, and so it wrote all of it.
        let base = unsafe { info.assume_init() }.dli_fbase.cast::<u8>();
        for range in &self.mapped {
            let pages = (range.start..range.end).step_by(PAGE);
            for at in pages.chain(range.end.checked_sub(1)) {
                // SAFETY: the loader mapped these bytes, readable, from its base on.
                unsafe { std::ptr::read_volatile(base.add(at)) };
            }
        }
    }
}

fn open(elf: &[u8], path: impl AsRef<OsStr>) -> Result<Library> {
    // SAFETY: generated objects have no initialisers; their code runs only through the symbols asked for.
    let handle = unsafe { Handle::open(Some(path.as_ref()), RTLD_NOW | RTLD_LOCAL) };
    let handle = handle.map_err(|e| failed(loader_says(e)))?;
    Ok(Library {
        handle,
        mapped: elf::mapped(elf),
        touched: Once::new(),
    })
}

#[cfg(target_os = "linux")]
fn load_from_memory(elf: &[u8]) -> Result<Library> {
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    /// Since Linux 6.3 a file that is to be executable should say so; earlier ones refuse the flag.
    const MFD_EXEC: libc::c_uint = 0x10;
    let create = |flags| {
        // SAFETY: the name is a string that ends in zero.
        unsafe { libc::memfd_create(c"ferrotrace".as_ptr(), libc::MFD_CLOEXEC | flags) }
    };
    let fd = match create(MFD_EXEC) {
        -1 => create(0),
        fd => fd,
    };
    if fd < 0 {
        return Err(failed(std::io::Error::last_os_error()));
    }
    // SAFETY: the descriptor was just made, and belongs to nobody else.
    let mut file = unsafe { std::fs::File::from_raw_fd(fd) };
    file.write_all(elf).map_err(failed)?;
    // The loader takes a path it has seen for the library it loaded then, and the number of a closed descriptor comes
    // back. So each path is spelt another way: the bits of a counter, as `/` or `./`.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut spelling = String::from("/proc/self/fd/");
    let n = NEXT.fetch_add(1, Relaxed);
    (0..32 - n.leading_zeros())
        .for_each(|bit| spelling += if n >> bit & 1 == 0 { "/" } else { "./" });
    open(elf, format!("{spelling}{}", file.as_raw_fd()))
}

fn load_from_file(elf: &[u8]) -> Result<Library> {
    use std::io::Write;
    let folder = WorkDir::new()?;
    let path = folder.file("kernel.so");
    let written = folder
        .create("kernel.so")
        .and_then(|mut file| file.write_all(elf));
    written.map_err(|e| Error::io(&path, &e))?;
    open(elf, &path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CCompiler;

    fn call(library: &Library) -> i32 {
        let f = library.symbol(c"ft_0").expect("a symbol");
        // SAFETY: `ft_0` of these sources takes nothing and returns an int.
        let f: extern "C" fn() -> i32 = unsafe { std::mem::transmute(f) };
        f()
    }

    #[test]
    fn libraries_of_reused_descriptors_are_distinct() {
        let Ok(cc) = CCompiler::get() else { return };
        let elfs: Vec<Vec<u8>> = (0..3)
            .map(|i| {
                cc.compile(&format!("int ft_0(void) {{ return {i}; }}"))
                    .expect("compiles")
            })
            .collect();
        let mut kept = Vec::new();
        for round in 0..30 {
            let library = Library::load(&elfs[round % 3]).expect("loads");
            assert_eq!(call(&library), (round % 3) as i32);
            kept.push(library);
        }
        for (i, library) in kept.iter().enumerate() {
            assert_eq!(call(library), (i % 3) as i32);
        }
        assert_eq!(call(&load_from_file(&elfs[2]).expect("loads")), 2);
    }

    #[test]
    fn failures_are_errors() {
        let error = Library::load(b"not a shared object").expect_err("not one");
        assert!(matches!(error.kind(), ErrorKind::Load(_)), "{error}");
        let Ok(cc) = CCompiler::get() else { return };
        let unresolved = cc.compile(
            "int ft_no_such_function(void); int ft_0(void) { return ft_no_such_function(); }",
        );
        let error = Library::load(&unresolved.expect("compiles")).expect_err("unresolved");
        assert!(error.to_string().contains("ft_no_such_function"), "{error}");
        let fine = Library::load(
            &cc.compile("int ft_0(void) { return 0; }")
                .expect("compiles"),
        );
        assert!(fine.expect("loads").symbol(c"ft_1").is_err());
    }
}
