//! Where CUDA's libraries are looked for: by the loader, then in the folder that `FERROTRACE_NVRTC` names and in those
//! of toolkits.

use crate::Config;
use crate::library::loader_says;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 2] = [
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
];

/// Loads libraries of these stems for good, each before those that need it, so that the loader finds them by their
/// names: from the folder that is configured first of all, else only where `present` says that they are missing.
///
/// # Errors
/// Why they could not be loaded from the folder that is configured; or nothing to say.
pub(super) fn find(stems: &[&str], present: impl Fn() -> bool) -> Result<(), String> {
    let configured = Config::get().nvrtc.as_deref();
    let loaded = configured.map(|folder| {
        preload(folder, stems).map_err(|why| format!(" from {}: {why}", folder.display()))
    });
    if present() {
        return Ok(());
    }
    if let Some(Err(why)) = loaded {
        return Err(why);
    }
    let found = |folder: &str| preload(Path::new(folder), stems).is_ok() && present();
    match FOLDERS.iter().any(|folder| found(folder)) {
        true => Ok(()),
        false => Err(String::new()),
    }
}

fn preload(folder: &Path, stems: &[&str]) -> Result<(), String> {
    let files = std::fs::read_dir(folder).map_err(|e| e.to_string())?;
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    let is = |path: &PathBuf, stem: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(stem);
        rest.is_some_and(|rest| rest.starts_with(".so"))
    };
    for stem in stems {
        let path = paths.iter().find(|path| is(path, stem));
        let path = path.ok_or_else(|| format!("no {stem}.so there"))?;
        // SAFETY: loading these libraries runs their initialisers, which have no preconditions.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) };
        std::mem::forget(library.map_err(loader_says)?);
    }
    Ok(())
}
