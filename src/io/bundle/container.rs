//! The file of a bundle: a ZIP archive whose entries are stored as they are, each with a checksum in the manifest.

use super::content::Content;
use super::manifest::{self, Kind, Manifest, Part};
use crate::io::archive::Archive;
use crate::io::exported::ExportedProgram;
use crate::io::file::{broken, write_atomically};
use crate::io::safetensors::{self, SafeTensors};
use crate::{Device, Error, Result, Tensor};
use ferrotrace_runtime::{Architecture, Checksum, FileMap};
use std::collections::BTreeMap;
use std::io::{Cursor, Seek, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The entry of the tensors.
const WEIGHTS: &str = "weights.safetensors";

/// Entries begin at multiples of so many bytes, so that tensors are used where they are mapped.
const ALIGNMENT: u16 = 64;

/// A bundle's file, whole.
pub(super) struct Container {
    map: FileMap,
    pub manifest: Manifest,
    places: BTreeMap<String, Range<usize>>,
}

/// The entry of a program's text, or of a trace's.
fn text_name(kind: &Kind, at: usize) -> String {
    match kind {
        Kind::Program { .. } => "program.json".to_owned(),
        Kind::Function { .. } => format!("trace-{at}.txt"),
    }
}

fn kernel_prefix(target: Architecture) -> String {
    format!("kernels/{}/", target.name())
}

/// The path of a file beside a bundle, by its name alone.
fn beside(path: &Path, name: &str) -> Result<PathBuf> {
    let is_name = Path::new(name).file_name().is_some_and(|last| last == name);
    if !is_name {
        let message =
            format!("names a file {name:?} elsewhere: only one beside it may hold its weights");
        return Err(broken(path, message));
    }
    Ok(path.with_file_name(name))
}

impl Container {
    /// Opens a bundle and compares every part with its checksum.
    pub fn open(path: &Path) -> Result<Container> {
        let map = FileMap::open(path)?;
        let bytes = map.bytes()?;
        if !bytes.starts_with(b"PK\x03\x04") {
            return Err(broken(path, "is no bundle: it begins otherwise"));
        }
        let mut archive = Archive::of(path, Cursor::new(bytes), bytes.len() as u64)?;
        let names = archive.names();
        if !names.iter().any(|name| name == manifest::NAME) {
            return Err(broken(
                path,
                "is a ZIP archive, but no bundle: it has no manifest",
            ));
        }
        let text = String::from_utf8(archive.read_all(manifest::NAME)?)
            .map_err(|_| broken(path, "has a manifest that is not UTF-8"))?;
        let manifest = Manifest::read(&text)
            .map_err(|message| broken(path, format!("its manifest {message}")))?;
        let mut places = BTreeMap::new();
        for part in &manifest.parts {
            let name = &part.name;
            let damaged = || {
                broken(
                    path,
                    format!("is damaged: its part {name:?} is another one"),
                )
            };
            if !names.contains(name) {
                return Err(broken(path, format!("lacks its part {name:?}")));
            }
            let place = archive.stored(name)?.ok_or_else(damaged)?;
            let found = bytes.get(place.clone()).ok_or_else(damaged)?;
            if found.len() as u64 != part.bytes || Checksum::of(found) != part.checksum {
                return Err(damaged());
            }
            places.insert(name.clone(), place);
        }
        let known = |name: &&String| *name != manifest::NAME && !places.contains_key(*name);
        if let Some(name) = names.iter().find(known) {
            return Err(broken(
                path,
                format!("has an entry {name:?} that its manifest does not name"),
            ));
        }
        Ok(Container {
            map,
            manifest,
            places,
        })
    }

    fn bytes(&self, name: &str) -> Result<&[u8]> {
        let place = self.places.get(name).cloned();
        let bytes = place.and_then(|place| self.map.bytes().ok()?.get(place));
        bytes.ok_or_else(|| broken(self.map.path(), format!("lacks its part {name:?}")))
    }

    /// The program or the traces that the bundle runs.
    pub fn content(&self) -> Result<Content> {
        let path = self.map.path();
        let kind = self.manifest.kind.clone();
        let count = match kind {
            Kind::Program { .. } => 1,
            Kind::Function { traces } => traces,
        };
        let mut texts = Vec::new();
        for at in 0..count {
            let name = text_name(&kind, at);
            let text = String::from_utf8(self.bytes(&name)?.to_vec());
            texts.push(text.map_err(|_| broken(path, format!("its part {name:?} is not UTF-8")))?);
        }
        let tensors = match (&self.manifest.beside, self.places.get(WEIGHTS)) {
            (Some(part), _) => self.tensors_beside(part)?,
            (None, Some(place)) => all(&SafeTensors::within(&self.map, place.clone())?)?,
            (None, None) => BTreeMap::new(),
        };
        Ok(Content {
            kind,
            texts,
            tensors,
        })
    }

    fn tensors_beside(&self, part: &Part) -> Result<BTreeMap<String, Tensor>> {
        let path = beside(self.map.path(), &part.name)?;
        let map = FileMap::open(&path)?;
        let bytes = map.bytes()?;
        if bytes.len() as u64 != part.bytes || Checksum::of(bytes) != part.checksum {
            let bundle = self.map.path().display();
            return Err(broken(
                &path,
                format!("is not the file that {bundle} was made with"),
            ));
        }
        tensors_of(&path)
    }

    /// The files of kernels for a target.
    pub fn kernels(&self, target: Architecture) -> Vec<Vec<u8>> {
        let prefix = kernel_prefix(target);
        let names = self.places.keys().filter(|name| name.starts_with(&prefix));
        names
            .filter_map(|name| self.bytes(name).ok().map(<[u8]>::to_vec))
            .collect()
    }
}

fn all(file: &SafeTensors) -> Result<BTreeMap<String, Tensor>> {
    let tensor = |name: &str| Ok((name.to_owned(), file.tensor(name, &Device::cpu())?));
    file.names().map(tensor).collect()
}

/// The tensors of a safetensors file or of an archive of `torch.export`.
fn tensors_of(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    match path.extension().is_some_and(|extension| extension == "pt2") {
        true => ExportedProgram::tensors_of(path),
        false => all(&SafeTensors::open(path)?),
    }
}

/// A file beside a bundle that has these tensors: one that is there, or a new safetensors file.
fn weights_beside(path: &Path, file: &Path, tensors: &BTreeMap<String, Tensor>) -> Result<Part> {
    let name = file
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or("");
    let of = |path: &Path| {
        path.parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .map(PathBuf::from)
    };
    if of(path) != of(file) || beside(path, name).is_err() {
        let (path, file) = (path.display(), file.display());
        return Err(Error::argument(format!(
            "the weights of {path} must lie in its folder, where {file} does not"
        )));
    }
    if file.exists() {
        let there = tensors_of(file)?;
        for (name, tensor) in tensors {
            let found = there
                .get(name)
                .ok_or_else(|| broken(file, format!("lacks {name:?}")))?;
            let same = found.dtype() == tensor.dtype()
                && found.shape() == tensor.shape()
                && found.to_bytes()? == tensor.to_bytes()?;
            if !same {
                return Err(broken(
                    file,
                    format!("holds another {name:?} than the program"),
                ));
            }
        }
    } else {
        let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(name, x)| (&**name, x)).collect();
        crate::io::save_safetensors(file, &named)?;
    }
    let map = FileMap::open(file)?;
    Ok(Part {
        name: name.to_owned(),
        bytes: map.len() as u64,
        checksum: Checksum::of(map.bytes()?),
    })
}

/// The parts of a bundle besides its content.
pub(super) struct Extras<'a> {
    /// The files of kernels for each target.
    pub kernels: Vec<(Architecture, Vec<Vec<u8>>)>,
    pub made_for: Vec<Vec<Vec<usize>>>,
    /// The file of the weights, if they lie beside the bundle.
    pub weights: Option<&'a Path>,
}

/// Writes a bundle.
pub(super) fn write(path: &Path, content: &Content, extras: Extras<'_>) -> Result<()> {
    let mut manifest = Manifest {
        library: env!("CARGO_PKG_VERSION").to_owned(),
        kind: content.kind.clone(),
        targets: extras.kernels.iter().map(|(target, _)| *target).collect(),
        made_for: extras.made_for,
        beside: None,
        parts: Vec::new(),
    };
    if let Some(file) = extras.weights {
        manifest.beside = Some(weights_beside(path, file, &content.tensors)?);
    }
    let named: Vec<(&str, &Tensor)> = content
        .tensors
        .iter()
        .map(|(name, x)| (&**name, x))
        .collect();
    let tensors = safetensors::in_order(&named, &[])?;
    write_atomically(path, |file| {
        let mut to = Entries {
            path,
            zip: ZipWriter::new(file),
            parts: Vec::new(),
        };
        for (at, text) in content.texts.iter().enumerate() {
            let name = text_name(&content.kind, at);
            to.entry(name, |write| write(text.as_bytes()))?;
        }
        for (target, files) in &extras.kernels {
            for (at, bytes) in files.iter().enumerate() {
                let name = format!("{}{at}.ftk", kernel_prefix(*target));
                to.entry(name, |write| write(bytes))?;
            }
        }
        if extras.weights.is_none() && !tensors.is_empty() {
            to.entry(WEIGHTS.to_owned(), |write| {
                safetensors::write_all(&tensors, &[], write)
            })?;
        }
        manifest.parts = std::mem::take(&mut to.parts);
        let text = manifest.to_json();
        to.entry(manifest::NAME.to_owned(), |write| write(text.as_bytes()))?;
        to.zip.finish().map(drop).map_err(|e| to_io(path, e))
    })
}

fn to_io(path: &Path, error: zip::result::ZipError) -> Error {
    match error {
        zip::result::ZipError::Io(error) => Error::io(path, &error),
        other => broken(path, other.to_string()),
    }
}

/// Entries while they are written.
struct Entries<'a, W: Write + Seek> {
    path: &'a Path,
    zip: ZipWriter<W>,
    parts: Vec<Part>,
}

impl<W: Write + Seek> Entries<'_, W> {
    fn entry(
        &mut self,
        name: String,
        write: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let path = self.path;
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .with_alignment(ALIGNMENT)
            .large_file(true);
        self.zip
            .start_file(&*name, options)
            .map_err(|error| to_io(path, error))?;
        let (mut checksum, mut bytes) = (Checksum::default(), 0);
        let zip = &mut self.zip;
        write(&mut |piece| {
            checksum.update(piece);
            bytes += piece.len() as u64;
            zip.write_all(piece)
                .map_err(|error| Error::io(path, &error))
        })?;
        self.parts.push(Part {
            name,
            bytes,
            checksum: checksum.finish(),
        });
        Ok(())
    }
}
