//! Where CUDA's libraries are looked for: in the folders that `FERROTRACE_NVRTC` and `FERROTRACE_CUDNN` name, by the
//! loader, then in those of toolkits.

use crate::Config;
use crate::library::loader_says;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 2] = [
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
];

/// Loads libraries of these stems for good, each before those that need it, so that the loader finds them by their
/// names: from the folders that are configured first of all, else only where `present` says that they are missing.
///
/// # Errors
/// Why they could not be loaded from a folder that is configured; or nothing to say.
pub(super) fn find(
    configured: &[PathBuf],
    stems: &[&str],
    present: impl Fn() -> bool,
) -> Result<(), String> {
    let mut reason = None;
    for folder in configured {
        if let Err(why) = preload(folder, stems) {
            reason.get_or_insert(format!(" from {}: {why}", folder.display()));
        }
    }
    if present() {
        return Ok(());
    }
    if let Some(why) = reason {
        return Err(why);
    }
    let found = |folder: &str| preload(Path::new(folder), stems).is_ok() && present();
    match FOLDERS.iter().any(|folder| found(folder)) {
        true => Ok(()),
        false => Err(String::new()),
    }
}

/// The folder that `FERROTRACE_NVRTC` names.
pub(super) fn of_toolkit() -> Vec<PathBuf> {
    Config::get().nvrtc.iter().cloned().collect()
}

/// Where cuDNN lies: the folder that `FERROTRACE_CUDNN` names, else where packages of Python put it beside the toolkit
/// that is configured.
pub(super) fn of_cudnn() -> Vec<PathBuf> {
    let config = Config::get();
    if let Some(folder) = &config.cudnn_folder {
        return vec![folder.clone()];
    }
    let beside = config
        .nvrtc
        .iter()
        .map(|folder| folder.join("../../cudnn/lib"));
    beside.filter(|folder| folder.is_dir()).collect()
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
