//! The header of a safetensors file: its length in 8 bytes, then a JSON object that says of each tensor its dtype, its
//! shape, and where its elements lie in what follows (<https://github.com/huggingface/safetensors#format>).

use crate::io::json::{Json, quoted};
use crate::{DType, Tensor};
use std::collections::BTreeMap;

/// The name under which a header holds texts instead of a tensor.
pub(super) const METADATA: &str = "__metadata__";

/// Bytes of a header: as many as the format allows.
const LONGEST: u64 = 100_000_000;

/// The names of dtypes.
const DTYPES: [(&str, DType); 10] = [
    ("BOOL", DType::Bool),
    ("U8", DType::U8),
    ("I8", DType::I8),
    ("I16", DType::I16),
    ("I32", DType::I32),
    ("I64", DType::I64),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("F32", DType::F32),
    ("F64", DType::F64),
];

/// What a header says of one tensor.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// The dtype, by its name in the format.
    pub dtype: String,
    pub dims: Vec<usize>,
    /// The first byte, and the one behind the last, from the header's end.
    pub start: usize,
    pub end: usize,
}

impl Entry {
    /// The dtype, if tensors have it here.
    pub fn dtype(&self) -> Option<DType> {
        let known = DTYPES.iter().find(|(name, _)| *name == self.dtype);
        known.map(|(_, dtype)| *dtype)
    }
}

/// A header that was read.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub entries: BTreeMap<String, Entry>,
    pub metadata: BTreeMap<String, String>,
    /// The first byte behind the header.
    pub end: usize,
}

/// Reads the header of a whole file, or says what is wrong with it. The tensors' bytes follow each other without gaps and
/// end where the file does.
pub(super) fn read(file: &[u8]) -> Result<Header, String> {
    let start = file.first_chunk::<8>();
    let len = u64::from_le_bytes(*start.ok_or("it has fewer than 8 bytes")?);
    if len > LONGEST {
        return Err(format!("its header claims {len} bytes"));
    }
    let end = 8 + len as usize;
    let text = file.get(8..end).ok_or("it ends within its header")?;
    let text = std::str::from_utf8(text).map_err(|_| "its header is not UTF-8")?;
    let mut header = Header {
        end,
        ..Header::default()
    };
    Json::read(text, |json| {
        json.object(|json, name| match &*name {
            METADATA => json.object(|json, name| {
                header.metadata.insert(name, json.string()?);
                Ok(())
            }),
            _ => {
                let entry = entry(json)?;
                let twice = header.entries.insert(name, entry).is_some();
                (!twice)
                    .then_some(())
                    .ok_or("two of its tensors have one name".to_owned())
            }
        })
    })?;
    check(&header.entries, file.len() - end)?;
    Ok(header)
}

fn entry(json: &mut Json<'_>) -> Result<Entry, String> {
    let (mut dtype, mut dims, mut place) = (None, None, None);
    json.object(|json, name| {
        match &*name {
            "dtype" => dtype = Some(json.string()?),
            "shape" => dims = Some(json.sizes()?),
            "data_offsets" => place = Some(json.sizes()?),
            _ => json.skip()?,
        }
        Ok(())
    })?;
    match (dtype, dims, place.as_deref()) {
        (Some(dtype), Some(dims), Some(&[start, end])) => Ok(Entry {
            dtype,
            dims,
            start,
            end,
        }),
        _ => Err("a tensor has no dtype, shape or place".to_owned()),
    }
}

/// Checks that the tensors fill `len` bytes one after the other, each as many as its shape takes.
fn check(entries: &BTreeMap<String, Entry>, len: usize) -> Result<(), String> {
    let mut all: Vec<(&String, &Entry)> = entries.iter().collect();
    all.sort_by_key(|(_, entry)| (entry.start, entry.end));
    let mut next = 0;
    for (name, entry) in all {
        if entry.start != next || entry.end < entry.start {
            return Err(format!(
                "tensor {name:?} does not begin where the one before it ends"
            ));
        }
        next = entry.end;
        let Some(dtype) = entry.dtype() else {
            continue;
        };
        let mut sizes = entry.dims.iter();
        let bytes = sizes.try_fold(dtype.size(), |bytes, &size| bytes.checked_mul(size));
        if bytes != Some(entry.end - entry.start) {
            let (dims, bytes) = (&entry.dims, entry.end - entry.start);
            return Err(format!(
                "tensor {name:?} of {dtype}{dims:?} has {bytes} bytes"
            ));
        }
    }
    match next == len {
        true => Ok(()),
        false => Err(format!("its tensors take {next} bytes, where {len} are")),
    }
}

/// The header of a file that holds these tensors, in this order, with its length before it and padded to a multiple of 8
/// bytes. Names are different.
pub(super) fn write(tensors: &[(&str, &Tensor)], metadata: &BTreeMap<&str, &str>) -> Vec<u8> {
    let mut entries = Vec::new();
    if !metadata.is_empty() {
        let texts = metadata.iter();
        let texts: Vec<String> = texts
            .map(|(name, text)| format!("{}:{}", quoted(name), quoted(text)))
            .collect();
        entries.push(format!("\"{METADATA}\":{{{}}}", texts.join(",")));
    }
    let mut start = 0;
    for (name, tensor) in tensors {
        let (dtype, dims) = (tensor.dtype(), tensor.dims());
        let end = start + tensor.numel() * dtype.size();
        let known = DTYPES.iter().find(|(_, ours)| *ours == dtype);
        let of = known.map_or(dtype.name(), |(name, _)| name);
        entries.push(format!(
            "{}:{{\"dtype\":\"{of}\",\"shape\":{dims:?},\"data_offsets\":[{start},{end}]}}",
            quoted(name)
        ));
        start = end;
    }
    let mut text = format!("{{{}}}", entries.join(",")).into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.append(&mut text);
    header
}
