//! From fused nodes to C (DESIGN: the CPU back end). Sizes, strides, divisors and numbers are arguments of the text,
//! never part of it: kernels of one structure share one source, whatever their shapes.

mod alike;
mod cpu;
pub mod cuda;
mod finished;
mod label;
mod moved;
mod narrowed;
mod reciprocal;
mod unroll;
mod update;

use crate::body::{Number, Source};
use crate::schedule::FusedNode;
use ferrotrace_kernels::ValueId;
use ferrotrace_runtime::{Grid, KernelSource, Layout};

pub(crate) use alike::Alike;
pub use cpu::{emit, kernel};

/// What one pointer of a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// Memory that is read.
    Read(Source),
    /// The node's memory, written.
    Write(ValueId),
}

/// A node that is written over other data.
#[derive(Clone, Debug)]
pub struct Overwrite {
    /// The node.
    pub node: ValueId,
    /// The data before, in the node's shape.
    pub base: (Source, Layout),
    /// The window of the node's memory that the kernel writes all of, if it is known beforehand.
    pub window: Option<Layout>,
}

/// A kernel and how it is launched.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The source.
    pub source: KernelSource,
    /// Its pointers, in order.
    pub pointers: Vec<Pointer>,
    /// Its integer arguments. Those of `streams` are set by the run.
    pub params: Vec<i64>,
    /// Arguments that say whether a store may bypass the cache: (position in `params`, node, wanted).
    pub streams: Vec<(usize, ValueId, bool)>,
    /// Pairs (node written, buffer read) that may share memory.
    pub in_place: Vec<(ValueId, Source)>,
    /// Nodes that are written over other data, and what lies in their memory before.
    pub updates: Vec<Overwrite>,
    /// Its numbers, in order.
    pub numbers: Vec<Number>,
    /// Chunks of work.
    pub chunks: usize,
    /// Bytes shared by the chunks of one launch.
    pub scratch: usize,
    /// Bytes of each thread.
    pub local: usize,
    /// How it is launched on a CUDA device, besides the number of blocks, which are its chunks.
    pub grid: Grid,
    /// The loops, for explanations and the interpreter: halves that the kernel moves as bits are halves here.
    pub node: FusedNode,
    /// Loops over the columns of a row.
    pub loops: usize,
    /// Operations of the matrix products within it.
    pub products: u64,
    /// How it takes up a product, or computes an operand of one, if it does.
    pub panels: Option<Panels>,
    /// What computes operands of its product, of a generated one: none of it is stored.
    pub before: Vec<FusedNode>,
    /// The tensors that it goes through from end to end in the order of its chunks, and their bytes.
    pub walks: Vec<(Source, usize)>,
}

/// How a kernel takes up a matrix product, or computes an operand of one, panel by panel. Its units are (piece of the columns, row), pieces outermost;
/// the run says how the product is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Panels {
    /// The position of the product, or the operand, among the pointers.
    pub pointer: usize,
    /// The position among `params` of the distance of its rows.
    pub pitch: usize,
    /// The position among `params` of the columns of a piece.
    pub piece: usize,
    /// The position among `params` of the number of pieces.
    pub pieces: usize,
}
