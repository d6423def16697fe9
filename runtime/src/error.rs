//! The one error type of the library: a kind, and where in the user's program it arose.

use crate::{DType, Shape};
use smallvec::SmallVec;
use std::fmt;
use std::panic::Location;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// `std::result::Result` with this crate's [`Error`] as the default error.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes that do not fit the operation or each other.
    #[error("{0}")]
    Shape(String),
    /// A dtype that the operation does not take, or a read of another dtype than the tensor's.
    #[error("{0}")]
    DType(String),
    /// A dimension out of range, or given twice.
    #[error("dimension {dim} is out of range for a tensor of rank {rank}")]
    Dim {
        /// The dimension as given.
        dim: isize,
        /// The rank of the tensor.
        rank: usize,
    },
    /// An index out of range.
    #[error("index {index} is out of range for dimension {dim} of size {size}")]
    Index {
        /// The index as given.
        index: i64,
        /// The dimension indexed.
        dim: usize,
        /// The size of that dimension.
        size: usize,
    },
    /// An argument outside its domain.
    #[error("{0}")]
    Argument(String),
    /// Tensors of different devices, or a device that is not there.
    #[error("{0}")]
    Device(String),
    /// Memory could not be had.
    #[error("out of memory: {bytes} bytes on {device}")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// The device.
        device: String,
    },
    /// No C compiler (or no NVRTC) was found.
    #[error("no compiler: {0}")]
    NoCompiler(String),
    /// A compiler failed on a generated source.
    #[error("the compiler failed{}:\n{log}", saved(source_path, log_path))]
    Compile {
        /// Where the source was saved; empty if it was not.
        source_path: PathBuf,
        /// Where the compiler's whole output was saved; empty if it was not.
        log_path: PathBuf,
        /// The first lines of the compiler's output.
        log: String,
    },
    /// A compiled artifact could not be loaded.
    #[error("could not load a kernel: {0}")]
    Load(String),
    /// Kernels were compiled ahead, and one that is needed is not among them.
    #[error("{0}")]
    NoKernel(String),
    /// A file could not be read or written.
    #[error("{path:?}: {message}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        message: String,
    },
    /// Under `FERROTRACE_NANS=1`: a NaN or an infinity came of finite operands.
    #[error("{} came of finite operands{}{step}", if *.nan { "a NaN" } else { "an infinity" }, if .step.is_empty() { "" } else { ", " })]
    NotFinite {
        /// Whether a NaN is among the elements.
        nan: bool,
        /// What computed it, where that is more than the operation.
        step: String,
    },
    /// A combination of operands or options that the library does not support.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// A broken invariant of the library itself.
    #[error("internal error: {0}")]
    Internal(String),
}

/// The operation of the user's program that an error belongs to.
#[derive(Clone, Debug)]
pub struct Context {
    /// The operation's name.
    pub op: &'static str,
    /// Shapes and dtypes of its tensor operands.
    pub operands: Vec<(Shape, DType)>,
    /// The line of the user's program that recorded it.
    pub location: Option<&'static Location<'static>>,
}

struct Inner {
    kind: ErrorKind,
    context: Option<Context>,
    /// The operation's number in the graph that ran.
    node: Option<u32>,
}

/// An error: what went wrong, and the operation, shapes, dtypes and source line it belongs to. Cheap to clone, since
/// it travels with every tensor computed from the failed one. `Debug` writes what `Display` does: `unwrap`, and a `main` that
/// returns the error, show it so.
#[derive(Clone)]
pub struct Error(Arc<Inner>);

/// Where the files of a failed compilation are, if they were kept.
fn saved(source: &Path, log: &Path) -> String {
    match source.as_os_str().is_empty() {
        true => String::new(),
        false => format!("; source {source:?}, log {log:?}"),
    }
}

impl Error {
    /// An error of this kind, not yet tied to an operation.
    pub fn new(kind: ErrorKind) -> Error {
        Error(Arc::new(Inner {
            kind,
            context: None,
            node: None,
        }))
    }

    /// A shape error.
    pub fn shape(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Shape(message.into()))
    }

    /// A dtype error.
    pub fn dtype(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::DType(message.into()))
    }

    /// The error of an operation that does not take a dtype, with the cast that helps.
    pub fn untaken(op: &str, dtype: DType, cast: DType) -> Error {
        Error::dtype(format!(
            "{op} does not take {dtype}: to_dtype(DType::{cast:?}) first"
        ))
    }

    /// An argument error.
    pub fn argument(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Argument(message.into()))
    }

    /// An error of loading what was compiled.
    pub fn load(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Load(message.into()))
    }

    /// An internal error.
    pub fn internal(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Internal(message.into()))
    }

    /// An unsupported form.
    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Unsupported(message.into()))
    }

    /// An input or output error of the file at `path`.
    pub fn io(path: impl Into<PathBuf>, error: &std::io::Error) -> Error {
        Error::new(ErrorKind::Io {
            path: path.into(),
            message: error.to_string(),
        })
    }

    /// This error, tied to an operation; an error that is tied already keeps its operation.
    pub fn at(self, context: Context) -> Error {
        if self.0.context.is_some() {
            return self;
        }
        Error(Arc::new(Inner {
            kind: self.0.kind.clone(),
            context: Some(context),
            node: self.0.node,
        }))
    }

    /// This error, tied to operation number `node` of a graph, which may be another program's too.
    #[doc(hidden)]
    pub fn of_node(self, node: u32, context: Context) -> Error {
        if self.0.context.is_some() {
            return self;
        }
        Error(Arc::new(Inner {
            kind: self.0.kind.clone(),
            context: Some(context),
            node: Some(node),
        }))
    }

    /// This error of an operation of a graph, told by the name and line under which the program that ran the graph
    /// recorded it: `recorded` gives the name and the line of the operation of a number.
    #[doc(hidden)]
    pub fn as_recorded(
        self,
        recorded: impl FnOnce(u32) -> Option<(&'static str, &'static Location<'static>)>,
    ) -> Error {
        let (Some(context), Some(node)) = (&self.0.context, self.0.node) else {
            return self;
        };
        let Some((op, location)) = recorded(node) else {
            return self;
        };
        Error::new(self.0.kind.clone()).at(Context {
            op,
            operands: context.operands.clone(),
            location: Some(location),
        })
    }

    /// What went wrong.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The operation it belongs to, if known.
    pub fn context(&self) -> Option<&Context> {
        self.0.context.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(context) = &self.0.context else {
            return write!(f, "{}", self.0.kind);
        };
        write!(f, "{}: {}", context.op, self.0.kind)?;
        if !context.operands.is_empty() {
            f.write_str(" (operands:")?;
            for (i, (shape, dtype)) in context.operands.iter().enumerate() {
                write!(f, "{} {dtype}{shape}", if i == 0 { "" } else { "," })?;
            }
            f.write_str(")")?;
        }
        match context.location {
            Some(at) => write!(f, ", at {}:{}:{}", at.file(), at.line(), at.column()),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

/// A run-time fault that a kernel reported, such as an index out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The site in the kernel, not 0.
    pub site: i64,
    /// The offending index.
    pub index: i64,
}

/// How many faults of different sites one launch reports. A site has the slot of its number modulo this; of several faults
/// of one slot, one is kept.
pub const FAULT_SLOTS: usize = 32;

/// Faults of different slots, in the order of the slots.
pub type Faults = SmallVec<[Fault; 1]>;

/// The faults in words that `word` reads.
pub(crate) fn faults(word: impl Fn(usize) -> i64) -> Faults {
    let any = (0..FAULT_SLOTS).fold(0, |any, slot| any | word(2 * slot));
    if any == 0 {
        return Faults::new();
    }
    let slot = |slot: usize| {
        let fault = Fault {
            site: word(2 * slot),
            index: word(2 * slot + 1),
        };
        (fault.site != 0).then_some(fault)
    };
    (0..FAULT_SLOTS).filter_map(slot).collect()
}

/// Tells the user of something that does not stop the program.
pub(crate) fn warn(message: &str) {
    eprintln!("ferrotrace: warning: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_everything_once() {
        let context = |op| Context {
            op,
            operands: vec![(Shape::from([2, 3]), DType::F32)],
            location: Some(Location::caller()),
        };
        let error = Error::shape("inner sizes 3 and 2 differ")
            .at(context("matmul"))
            .at(context("exp"));
        let text = error.to_string();
        for part in ["matmul", "f32[2, 3]", "inner sizes", file!()] {
            assert!(text.contains(part), "{text}");
        }
        assert!(!text.contains("exp"));
    }
}
