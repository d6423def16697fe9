//! Where CUDA's libraries are loaded from: the folders that `FERROTRACE_NVRTC` and `FERROTRACE_CUDNN` name, then by the
//! loader, then from those of toolkits. A library is called through the handle that was found, so that another of the
//! same name on the loader's path is never called in its place.

use crate::Config;
use crate::compiler::library::loader_says;
use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, CString, OsStr};
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 2] = [
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
];

/// A folder to look in first.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    /// Whether the folder was named for this library: then no other is searched.
    pub(super) decides: bool,
}

/// A library, of several files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    /// The library's name without a version, such as `libnvrtc`.
    pub(super) stem: &'a str,
    /// Versions of the name that the loader is asked for, the first first; empty for none.
    pub(super) versions: &'a [&'a str],
    /// Libraries that it asks the loader for by name, in the order in which they need each other. They are loaded
    /// first, from its own folder where they lie there: the loader then finds them by name.
    pub(super) parts: &'a [&'a str],
}

/// A library that stays loaded.
#[derive(Debug)]
pub(super) struct Loaded(Library);

impl Loaded {
    /// A function of the library.
    ///
    /// # Errors
    /// That there is none of this name.
    ///
    /// # Safety
    /// `F` is the function's type.
    pub(super) unsafe fn function<F: Copy>(&self, name: &str) -> Result<F, String> {
        let symbol = CString::new(name).map_err(|e| e.to_string())?;
        // SAFETY: the caller answers for the type.
        let found = unsafe { self.0.get::<F>(&symbol) };
        found.map(|f| *f).map_err(loader_says)
    }

    /// The file that holds a function of the library.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        // SAFETY: the symbol is taken as an address alone.
        let Ok(address) = (unsafe { self.function::<*const libc::c_void>(name) }) else {
            return PathBuf::new();
        };
        // SAFETY: the structure is of pointers, for which zero is a value.
        let mut about: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: the structure lives through the call.
        let known = unsafe { libc::dladdr(address, &mut about) };
        if known == 0 || about.dli_fname.is_null() {
            return PathBuf::new();
        }
        // SAFETY: the loader's string ends in zero and lives as long as the library, which is never unloaded.
        let path = unsafe { CStr::from_ptr(about.dli_fname) };
        PathBuf::from(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(
            path.to_bytes(),
        ))
    }
}

/// Loads a library for good.
///
/// # Errors
/// Why it could not be loaded from the folder that decides; or nothing to say.
pub(super) fn find(places: &[Place], wanted: Wanted<'_>) -> Result<Loaded, String> {
    for place in places {
        match load(&place.folder, wanted) {
            Ok(library) => return Ok(library),
            Err(why) if place.decides => {
                return Err(format!(" from {}: {why}", place.folder.display()));
            }
            Err(_) => {}
        }
    }
    let by_name = wanted.versions.iter().find_map(|version| {
        let name = format!("{}.so{version}", wanted.stem);
        open(Path::new(&name), RTLD_LAZY).ok()
    });
    let of_toolkit = || {
        let mut folders = FOLDERS.iter();
        folders.find_map(|folder| load(Path::new(folder), wanted).ok())
    };
    by_name.or_else(of_toolkit).ok_or_else(String::new)
}

/// The folder that `FERROTRACE_NVRTC` names, for NVRTC itself or for what lies beside it.
pub(super) fn of_toolkit(decides: bool) -> Vec<Place> {
    let folder = Config::get().nvrtc.iter().cloned();
    folder.map(|folder| Place { folder, decides }).collect()
}

/// Where cuDNN lies: the folder that `FERROTRACE_CUDNN` names, else where packages of Python put it beside the toolkit
/// that is configured.
pub(super) fn of_cudnn() -> Vec<Place> {
    let config = Config::get();
    if let Some(folder) = &config.cudnn_folder {
        let folder = folder.clone();
        return vec![Place {
            folder,
            decides: true,
        }];
    }
    let beside = config
        .nvrtc
        .iter()
        .map(|folder| folder.join("../../cudnn/lib"));
    let place = |folder| Place {
        folder,
        decides: false,
    };
    beside.filter(|folder| folder.is_dir()).map(place).collect()
}

fn open(path: &Path, when: std::ffi::c_int) -> Result<Loaded, String> {
    // SAFETY: loading these libraries runs their initialisers, which have no preconditions.
    let library = unsafe { Library::open(Some(path), when | RTLD_LOCAL) };
    library.map(Loaded).map_err(loader_says)
}

/// Loads the library, and its parts before it, from a folder.
fn load(folder: &Path, wanted: Wanted<'_>) -> Result<Loaded, String> {
    let files = std::fs::read_dir(folder).map_err(|e| e.to_string())?;
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    let is = |path: &PathBuf, stem: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(stem);
        rest.is_some_and(|rest| rest.starts_with(".so"))
    };
    let of = |stem: &str| paths.iter().find(|path| is(path, stem));
    let main = of(wanted.stem).ok_or_else(|| format!("no {}.so there", wanted.stem))?;
    for part in wanted.parts.iter().filter_map(|part| of(part)) {
        // One that does not load by itself may load with the library, or say then why not.
        if let Ok(library) = open(part, RTLD_LAZY) {
            std::mem::forget(library);
        }
    }
    open(main, RTLD_NOW)
}

/// A table of a library's functions, with the types that the bindings `$sys` state.
macro_rules! functions {
    ($(#[$about:meta])* $name:ident of $sys:ident: $($f:ident($($t:ty),* $(,)?) -> $r:ty;)*) => {
        $(#[$about])*
        #[allow(non_snake_case)]
        #[derive(Debug)]
        pub(in crate::cuda) struct $name {
            $(pub(in crate::cuda) $f: unsafe extern "C" fn($($t),*) -> $r,)*
        }

        impl $name {
            fn of(library: &libraries::Loaded) -> Result<$name, String> {
                $(const _: unsafe fn($($t),*) -> $r = $sys::$f;)*
                Ok($name {
                    // SAFETY: the type is that of the bindings, as the constant above says.
                    $($f: unsafe { library.function(stringify!($f)) }?,)*
                })
            }
        }
    };
}
pub(super) use functions;
