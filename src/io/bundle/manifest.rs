//! The description of a bundle, `manifest.json`.

use crate::io::json::{Tree, quoted};
use crate::{DType, Result};
use ferrotrace_runtime::Architecture;
use std::collections::BTreeSet;

/// The version of the format. Another one is an error.
pub(super) const VERSION: i64 = 1;

/// The name of the manifest in a bundle.
pub(super) const NAME: &str = "manifest.json";

/// An entry of the bundle, or a file beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub name: String,
    pub bytes: u64,
    pub checksum: u128,
}

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A program of PyTorch's: the dtype in the place of `F32`, and the names of complex tensors.
    Program {
        narrowed: Option<DType>,
        complex: BTreeSet<String>,
    },
    /// So many traces of a function.
    Function { traces: usize },
}

/// What a bundle holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    /// The version of this library that wrote it.
    pub library: String,
    pub kind: Kind,
    pub targets: Vec<Architecture>,
    /// The shapes of the tensor inputs of each call that kernels were made for.
    pub made_for: Vec<Vec<Vec<usize>>>,
    /// The file of the weights, if they lie beside the bundle.
    pub beside: Option<Part>,
    /// Every entry but the manifest.
    pub parts: Vec<Part>,
}

impl Part {
    fn to_json(&self) -> String {
        let Part {
            name,
            bytes,
            checksum,
        } = self;
        format!(
            "{{\"name\":{},\"bytes\":{bytes},\"checksum\":\"{checksum:032x}\"}}",
            quoted(name)
        )
    }

    fn read(tree: &Tree) -> Result<Part, String> {
        let checksum = tree.field("checksum")?.text()?;
        Ok(Part {
            name: tree.field("name")?.text()?.to_owned(),
            bytes: u64::try_from(tree.field("bytes")?.int()?)
                .map_err(|_| "has a length below 0")?,
            checksum: u128::from_str_radix(checksum, 16)
                .map_err(|_| format!("has a checksum {checksum:?}"))?,
        })
    }
}

impl Manifest {
    /// Its text.
    pub fn to_json(&self) -> String {
        let kind = match &self.kind {
            Kind::Program { narrowed, complex } => {
                let narrowed = narrowed.map_or("null".to_owned(), |dtype| quoted(dtype.name()));
                let complex = listed(complex.iter().map(|name| quoted(name)));
                format!("\"kind\":\"program\",\"narrowed\":{narrowed},\"complex\":{complex}")
            }
            Kind::Function { traces } => format!("\"kind\":\"function\",\"traces\":{traces}"),
        };
        let targets = self.targets.iter().map(|target| quoted(&target.name()));
        let shapes = |call: &Vec<Vec<usize>>| listed(call.iter().map(|dims| format!("{dims:?}")));
        let beside = self
            .beside
            .as_ref()
            .map_or("null".to_owned(), Part::to_json);
        format!(
            "{{\"bundle\":{VERSION},\"library\":{},{kind},\n\"targets\":{},\n\"made_for\":{},\n\"beside\":{beside},\n\"parts\":{}}}\n",
            quoted(&self.library),
            listed(targets),
            listed(self.made_for.iter().map(shapes)),
            listed(self.parts.iter().map(Part::to_json)),
        )
    }

    /// Reads its text, or says what is wrong with it.
    pub fn read(text: &str) -> Result<Manifest, String> {
        let tree = Tree::read(text)?;
        let version = tree.field("bundle")?.int()?;
        if version != VERSION {
            return Err(format!(
                "is of version {version} of the format, where version {VERSION} is read"
            ));
        }
        let kind = match tree.field("kind")?.text()? {
            "program" => Kind::Program {
                narrowed: narrowed(&tree)?,
                complex: texts(tree.field("complex")?)?.into_iter().collect(),
            },
            "function" => Kind::Function {
                traces: usize::try_from(tree.field("traces")?.int()?)
                    .map_err(|_| "has fewer than no traces")?,
            },
            other => return Err(format!("is of a kind {other:?} that is not known here")),
        };
        let targets = texts(tree.field("targets")?)?;
        let made_for = tree.field("made_for")?.items()?;
        Ok(Manifest {
            library: tree.field("library")?.text()?.to_owned(),
            kind,
            // Targets that are not known here are of no use here.
            targets: targets
                .iter()
                .filter_map(|name| Architecture::of_name(name))
                .collect(),
            made_for: made_for.iter().map(shapes).collect::<Result<_, _>>()?,
            beside: match tree.get("beside") {
                None => None,
                Some(part) => Some(Part::read(part)?),
            },
            parts: tree
                .field("parts")?
                .items()?
                .iter()
                .map(Part::read)
                .collect::<Result<_, _>>()?,
        })
    }
}

fn listed(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

fn texts(tree: &Tree) -> Result<Vec<String>, String> {
    let text = |item: &Tree| item.text().map(str::to_owned);
    tree.items()?.iter().map(text).collect()
}

fn narrowed(tree: &Tree) -> Result<Option<DType>, String> {
    match tree.get("narrowed") {
        None => Ok(None),
        Some(name) => match DType::from_name(name.text()?) {
            Some(dtype @ (DType::F16 | DType::BF16)) => Ok(Some(dtype)),
            _ => Err("is of a precision that is not known here".to_owned()),
        },
    }
}

fn shapes(call: &Tree) -> Result<Vec<Vec<usize>>, String> {
    let size = |size: &Tree| usize::try_from(size.int()?).map_err(|_| "has a size below 0".into());
    let dims = |dims: &Tree| dims.items()?.iter().map(size).collect();
    call.items()?.iter().map(dims).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_runtime::Isa;

    fn example() -> Manifest {
        Manifest {
            library: "0.1.0".to_owned(),
            kind: Kind::Program {
                narrowed: Some(DType::BF16),
                complex: BTreeSet::from(["a \"name\"".to_owned()]),
            },
            targets: vec![Architecture::Cpu(Isa::Avx2), Architecture::Cuda(90)],
            made_for: vec![vec![vec![2, 3], vec![]], vec![]],
            beside: Some(Part {
                name: "w.safetensors".to_owned(),
                bytes: 7,
                checksum: u128::MAX,
            }),
            parts: Vec::new(),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut manifest = example();
        assert_eq!(Manifest::read(&manifest.to_json()), Ok(manifest.clone()));
        manifest.kind = Kind::Function { traces: 3 };
        manifest.parts = manifest.beside.take().into_iter().collect();
        assert_eq!(Manifest::read(&manifest.to_json()), Ok(manifest));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let text = example().to_json();
        for (from, to, part) in [
            ("\"bundle\":1", "\"bundle\":2", "version 2"),
            ("\"program\"", "\"poem\"", "poem"),
            ("\"bf16\"", "\"f64\"", "precision"),
            ("[2, 3]", "[-2, 3]", "below 0"),
            ("ffff", "xfff", "checksum"),
            ("\"parts\"", "\"arts\"", "parts"),
        ] {
            let error = Manifest::read(&text.replacen(from, to, 1)).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
