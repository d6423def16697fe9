//! `ferrotrace cache`.

use clap::Subcommand;
use ferrotrace::prelude::*;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is asked of the cache.
#[derive(Debug, Subcommand)]
pub enum What {
    /// Lists its files, the latest last.
    List,
    /// Says how large it is.
    Size,
    /// Empties it.
    Clear,
}

/// A file, its bytes, and when it was written.
type Entry = (PathBuf, u64, std::time::SystemTime);

/// What was found, or nothing where the file is gone.
fn if_there<T>(found: std::io::Result<T>) -> std::io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// The files below a folder. Other processes write and remove files meanwhile: one that is gone is no file of it.
fn entries(folder: &Path, found: &mut Vec<Entry>) -> Result<()> {
    let failed = |error: std::io::Error| Error::io(folder, &error);
    let Some(listed) = if_there(fs::read_dir(folder)).map_err(failed)? else {
        return Ok(());
    };
    for entry in listed {
        let entry = entry.map_err(failed)?;
        let Some(about) = if_there(entry.metadata()).map_err(failed)? else {
            continue;
        };
        if about.is_dir() {
            entries(&entry.path(), found)?;
        } else {
            found.push((entry.path(), about.len(), about.modified().map_err(failed)?));
        }
    }
    Ok(())
}

/// Lists, measures or empties the cache.
pub fn cache(what: &What) -> Result<()> {
    let folder = ferrotrace::cache::dir();
    let mut files = Vec::new();
    entries(&folder, &mut files)?;
    files.sort_by_key(|(_, _, written)| *written);
    let total: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    match what {
        What::List => {
            for (path, bytes, _) in &files {
                say!(
                    "{bytes:10} {}",
                    path.strip_prefix(&folder).unwrap_or(path).display()
                );
            }
        }
        What::Size => {}
        What::Clear => {
            ferrotrace::cache::clear()?;
            say!(
                "emptied {}: {} files, {total} bytes",
                folder.display(),
                files.len()
            );
            return Ok(());
        }
    }
    say!("{}: {} files, {total} bytes", folder.display(), files.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[test]
    fn files_that_go_meanwhile_are_no_error() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("stays"), [0; 10]).expect("written");
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Relaxed) {
                    let names: Vec<PathBuf> =
                        (0..50).map(|i| folder.path().join(i.to_string())).collect();
                    names.iter().for_each(|name| drop(fs::write(name, "goes")));
                    names.iter().for_each(|name| drop(fs::remove_file(name)));
                }
            });
            let listed: Vec<Result<Vec<Entry>>> = (0..2000)
                .map(|_| {
                    let mut found = Vec::new();
                    entries(folder.path(), &mut found).map(|()| found)
                })
                .collect();
            ended.store(true, Relaxed);
            for found in listed {
                let found = found.expect("a list");
                assert!(
                    found
                        .iter()
                        .any(|(path, bytes, _)| path.ends_with("stays") && *bytes == 10)
                );
            }
        });
        let mut found = Vec::new();
        entries(&folder.path().join("nowhere"), &mut found).expect("an empty list");
        assert!(found.is_empty());
    }
}
