//! The format of PyTorch 1.6 and later: a ZIP archive of a pickle (`data.pkl`) and an entry for each storage.

use super::longest_pickle;
use super::machine::unpickle;
use super::storages::{Elements, Storages};
use super::tree::{PtTree, tree};
use super::value::StorageRef;
use crate::io::archive::Archive;
use crate::io::file::broken;
use crate::{Device, Error, Result};
use ferrotrace_runtime::FileMap;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

const PICKLE: &str = "data.pkl";

pub(super) fn load(path: &Path, len: u64, device: &Device) -> Result<PtTree> {
    read(Archive::open(path)?, path, len, None, device)
}

/// Reads an archive of `len` bytes. Where it lies in a mapped file, `map` says which and from where on: storages are
/// views of the map then.
pub(super) fn read<R: Read + Seek>(
    mut archive: Archive<R>,
    path: &Path,
    len: u64,
    map: Option<(&FileMap, usize)>,
    device: &Device,
) -> Result<PtTree> {
    let names = archive.names();
    // All lies in a folder, whose name is that of the file as it was saved.
    let mut folders = names.iter().filter_map(|name| name.strip_suffix(PICKLE));
    let folder = folders.find(|folder| folder.is_empty() || folder.ends_with('/'));
    let Some(folder) = folder else {
        return Err(broken(
            path,
            "is a ZIP archive, but none of PyTorch's: it has no data.pkl",
        ));
    };
    let pickle = archive.read(&format!("{folder}{PICKLE}"), |stream, _| {
        let mut stream = BufReader::new(stream);
        let result = unpickle(&mut stream, longest_pickle(len));
        result.map_err(|message| broken(path, format!("its pickle: {message}")))
    })?;
    let order = format!("{folder}byteorder");
    let is_big_endian = names.contains(&order)
        && archive.read(&order, |stream, _| {
            let mut text = Vec::new();
            let read = stream.take(16).read_to_end(&mut text);
            read.map_err(|error| Error::io(path, &error))?;
            Ok(text == b"big")
        })?;
    let mut read = |storage: &StorageRef| {
        let name = format!("{folder}data/{}", storage.key);
        let said = |error: Error| error.kind().to_string();
        if let Some((map, start)) = map
            && let Some(place) = archive.stored(&name).map_err(said)?
        {
            return Ok(Elements::Mapped(
                map.clone(),
                start + place.start,
                place.len(),
            ));
        }
        archive.read_all(&name).map(Elements::Read).map_err(said)
    };
    let mut storages = Storages::new(path, device, &mut read).big_endian(is_big_endian);
    tree(&pickle, &mut storages).map_err(|message| broken(path, message))
}
