//! `ferrotrace cache`.

use clap::Subcommand;
use ferrotrace::prelude::*;
use std::fs;
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

fn entries(folder: &Path, found: &mut Vec<Entry>) -> Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let failed = |error: std::io::Error| Error::io(folder, &error);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let about = entry.metadata().map_err(failed)?;
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
