//! The index of a model in several files: a JSON object whose `weight_map` says which tensor lies in which file.

use crate::io::file::{broken, open};
use crate::io::json::Json;
use crate::{Error, Result};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Reads an index: the files, which lie in its folder, and the names of the tensors that each holds.
pub(super) fn read(path: &Path) -> Result<BTreeMap<PathBuf, Vec<String>>> {
    let (mut file, _) = open(path)?;
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    read.map_err(|error| Error::io(path, &error))?;
    let failed =
        |message: String| broken(path, format!("is no index of safetensors files: {message}"));
    let mut places = None;
    let read = Json::read(&text, |json| {
        json.object(|json, name| match &*name {
            "weight_map" => {
                let all = places.get_or_insert_with(BTreeMap::new);
                json.object(|json, name| {
                    all.insert(name, json.string()?);
                    Ok(())
                })
            }
            _ => json.skip(),
        })
    });
    read.map_err(failed)?;
    let places = places.ok_or_else(|| failed("it has no weight_map".to_owned()))?;
    let mut files: BTreeMap<PathBuf, Vec<String>> = BTreeMap::new();
    for (name, place) in places {
        let mut parts = Path::new(&place).components();
        let (Some(Component::Normal(file)), None) = (parts.next(), parts.next()) else {
            let message =
                format!("places tensor {name:?} in {place:?}, which is no file beside it");
            return Err(broken(path, message));
        };
        files
            .entry(path.with_file_name(file))
            .or_default()
            .push(name);
    }
    Ok(files)
}
