//! Loop nests: what lowering makes of a stored node.

use crate::body::{Body, Source, Value};
use crate::expr::Expr;
use ferrotrace_kernels::{BinaryOp, ValueId};
use ferrotrace_runtime::{DType, Layout};
use std::fmt;
use std::sync::Arc;

/// Where an update stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// At positions that depend on values: an [`Index`](crate::body::BodyOp::Index) value (ir P3). The positions of two
    /// rows are never equal, those of two columns may be: columns are walked in order, on one thread.
    At(Value),
    /// At the store's own positions, which are this window of the result's memory, each once.
    Window(Layout),
}

/// A store into memory that holds other data before.
#[derive(Clone, Debug)]
pub struct Update {
    /// Where.
    pub target: Destination,
    /// How the value joins what is there; it takes its place where this is none.
    pub combine: Option<BinaryOp>,
    /// The data before, in the node's shape.
    pub base: (Source, Layout),
}

/// The loops and the body that compute one stored node. Variables `0..iter.len()` run over the result, the following
/// ones over what is reduced; sizes of 1 have no loop.
#[derive(Clone, Debug)]
pub struct LoopNest {
    /// The node computed.
    pub node: ValueId,
    /// Its element type in memory.
    pub dtype: DType,
    /// Extents over the result, outermost first.
    pub iter: Vec<usize>,
    /// Extents reduced or scanned, outermost first; empty for a pointwise nest.
    pub red: Vec<usize>,
    /// The values.
    pub body: Arc<Body>,
    /// The value stored.
    pub result: Value,
    /// Where the result is stored, over the iteration variables and, for a scan, the columns.
    pub place: Expr,
    /// For what is written over other data, how; a scatter's takes the place of `place`.
    pub update: Option<Update>,
    /// Whether it was recorded under [`Precision::EagerExact`](crate::Precision).
    pub exact: bool,
}

impl Update {
    /// The value that says where, if one does.
    pub fn at(&self) -> Option<Value> {
        match self.target {
            Destination::At(value) => Some(value),
            Destination::Window(_) => None,
        }
    }

    /// The window that is written, if all of it is known beforehand.
    pub fn window(&self) -> Option<&Layout> {
        match &self.target {
            Destination::At(_) => None,
            Destination::Window(window) => Some(window),
        }
    }
}

impl LoopNest {
    /// Extents of all variables.
    pub fn extents(&self) -> Vec<usize> {
        self.iter.iter().chain(&self.red).copied().collect()
    }

    /// Elements of the result.
    pub fn rows(&self) -> usize {
        self.iter.iter().product()
    }

    /// Elements reduced into one of the result.
    pub fn cols(&self) -> usize {
        self.red.iter().product()
    }
}

/// The row-major position in `extents` of the variables from `first` on.
pub fn flat_index(extents: &[usize], first: usize) -> Expr {
    let mut index = Expr::default();
    let mut stride = 1i64;
    for (d, &n) in extents.iter().enumerate().rev() {
        index = index.add(&Expr::var(first + d).scale(stride));
        stride *= n as i64;
    }
    index
}

/// `%4: f32 [16, 8 | 32]`, then a line a value.
impl fmt::Display for LoopNest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let join = |list: &[usize]| {
            list.iter()
                .map(usize::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        writeln!(
            f,
            "%{}: {} [{} | {}] = v{}{}",
            self.node.0,
            self.dtype,
            join(&self.iter),
            join(&self.red),
            self.result,
            update_text(self.update.as_ref())
        )?;
        write!(f, "{}", self.body)
    }
}

/// ` add at v7 of in0`.
pub(crate) fn update_text(update: Option<&Update>) -> String {
    let Some(update) = update else {
        return String::new();
    };
    let base = match update.base.0 {
        Source::Input(n) => format!("in{n}"),
        Source::Node(v) => format!("%{}", v.0),
    };
    let combine = update.combine.map_or("write", BinaryOp::name);
    match &update.target {
        Destination::At(at) => format!(" {combine} at v{at} of {base}"),
        Destination::Window(window) => {
            let (offset, sizes, strides) = (window.offset(), window.shape(), window.strides());
            format!(" {combine} {offset} {sizes} {strides:?} of {base}")
        }
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use crate::body::BodyOp;
        let mask = |m: &Option<u32>| m.map_or(String::new(), |m| format!(" if m{m}"));
        for (i, value) in self.values().iter().enumerate() {
            write!(f, "  v{i}: {} = ", value.dtype)?;
            match &value.op {
                BodyOp::Load {
                    source,
                    dtype,
                    index,
                    mask: m,
                } => {
                    let name = match source {
                        Source::Input(n) => format!("in{n}"),
                        Source::Node(v) => format!("%{}", v.0),
                    };
                    writeln!(f, "load {dtype} {name}[{index}]{}", mask(m))?
                }
                BodyOp::Number(n) => writeln!(f, "number {n}")?,
                BodyOp::Index(e) => writeln!(f, "index {e}")?,
                BodyOp::Mask(m) => writeln!(f, "mask m{m}")?,
                BodyOp::Unary(op, a) => writeln!(f, "{} v{a}", op.name())?,
                BodyOp::Binary(op, a, b) => writeln!(f, "{} v{a} v{b}", op.name())?,
                BodyOp::Divide(a, b, r) => writeln!(f, "divide v{a} v{b} by v{r}")?,
                BodyOp::Select(m, a, b) => writeln!(f, "select v{m} v{a} v{b}")?,
                BodyOp::Cast(a) => writeln!(f, "cast v{a}")?,
                BodyOp::Round(a, d) => writeln!(f, "round_{d} v{a}")?,
                BodyOp::Check {
                    index,
                    size,
                    mask: m,
                    site,
                } => writeln!(f, "check v{index} < {size} site {site}{}", mask(m))?,
                BodyOp::Random {
                    dist, args, index, ..
                } => writeln!(f, "random {dist:?} {args:?} [{index}]")?,
                BodyOp::Reduce { kind, value, .. } => writeln!(f, "reduce {kind:?} v{value}")?,
                BodyOp::Scan { kind, value } => writeln!(f, "scan {kind:?} v{value}")?,
            }
        }
        for m in 0.. {
            let Some(conditions) = self.mask_at(m) else {
                break;
            };
            let all: Vec<String> = conditions.iter().map(|e| format!("{e} >= 0")).collect();
            writeln!(f, "  m{m} = {}", all.join(" and "))?;
        }
        Ok(())
    }
}
