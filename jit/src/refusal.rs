//! Why two nodes are not one kernel (scheduler V-01, V-02).

use std::fmt;

/// A reason not to fuse a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// One of the two nodes is a ready-made kernel (L-04).
    Opaque,
    /// As many fusions were done as `FERROTRACE_FUSE_LIMIT` says (codegen B1.5).
    Limit,
    /// One node is to be a kernel of its own: a barrier follows it (L-08); or one is recorded before a barrier that the
    /// other depends on.
    Barrier,
    /// The two nodes run on different devices (L-09).
    Device,
    /// Their loops cover different extents, and no reordering or splitting makes them agree (L-30 to L-32, L-40); how
    /// they differ on a buffer that both touch.
    Extents(Mismatch),
    /// One reads what the other stores at another element (L-22); how that differs.
    IndexMismatch(Mismatch),
    /// Another node lies between them (L-21), or fusing would make a cycle through fused nodes (L-28).
    NodeBetween,
    /// Nothing is saved: they share no data, or too few bytes (L-13, L-17).
    NoSharedData,
    /// The two nodes lie too far apart in the trace (L-16).
    Distance,
    /// Too many nests in one kernel (L-14).
    TooManyNests,
    /// Too many operations in one kernel (codegen B2.7).
    TooManyOps,
    /// The kernel would read and write too many buffers (L-18).
    TooManyBuffers,
    /// The threads of a block would share more than it may, one place a reduction and thread.
    SharedMemory,
    /// Each alone reads large buffers that would have to exist at once (L-15).
    PeakMemory,
    /// Apart they hold less: with them in one kernel, the plan would hold more than a sixteenth above what the operations
    /// one by one do (B-19).
    HoldsMore,
    /// The reduction is split over threads: its result exists only after the kernel (ir S3).
    SplitReduction,
    /// One scatters, or writes a slice: its result is complete only after the kernel (L-26, L-27, D-29).
    Scatter,
    /// The rows take costly functions, which have no lanes where the columns of a row share them.
    ScalarRows,
    /// One computes bytes alone, with a lane for each byte, and the other does not.
    ByteLanes,
    /// A scan, or the search for the first position of an extreme, would meet its columns in another order (ir C1).
    ScanOrder,
    /// A scan walks whole rows, and the reduction is split over threads (L-34).
    SplitScan,
    /// The position of a NaN is searched for in a second walk over the row, which has no running values of a scan.
    ScannedSearch,
    /// The kernel reduces, reads or stores across the rows and columns of the product before it (codegen A10.2).
    AcrossPanels,
    /// A product of integers, of half-precision numbers, or with a vector: none is computed by panels.
    NoPanels,
    /// The processor's registers of tiles multiply the operands, which are packed for them from memory.
    Tiles,
    /// The product's sums are wanted as computed, with a bias, and the kernel would hand them on rounded.
    RoundedTiles,
    /// The product is taken up by another kernel already, or the kernel takes up another product.
    TakenUp,
    /// Something other than the softmax needs the scores of attention (T-03).
    ScoresNeeded,
    /// Attention of other types, of vectors, or with more than pointwise changes of its scores.
    NoTemplate,
    /// Attention over more than its kernels hold in registers.
    TooWide,
    /// The kernel before a product has other readers than the product, or other results (T-03).
    SeveralUses,
    /// The kernel before a product reads more than it stores (T-04).
    ReadsMore,
    /// The product is so large that its operand's traffic does not weigh, or too small to be cut.
    NotWorthwhile,
    /// Apart they were measured to be no slower.
    Measured,
    /// The loop over which the smaller node would be repeated leaves too few rows to run in parallel.
    TooFewRows,
    /// Lanes run along fewer rows than a vector has, and would store columns that are longer than a cache part by part.
    NarrowRows,
}

impl Refusal {
    /// How the two differ on a buffer, where that is the reason.
    pub fn mismatch(self) -> Option<Mismatch> {
        match self {
            Refusal::Extents(how) | Refusal::IndexMismatch(how) => Some(how),
            _ => None,
        }
    }

    /// A sentence for explanations, without what [`mismatch`](Refusal::mismatch) adds.
    pub fn describe(self) -> &'static str {
        match self {
            Refusal::Opaque => "one is a ready-made kernel",
            Refusal::Limit => "FERROTRACE_FUSE_LIMIT is reached",
            Refusal::Barrier => "a barrier keeps them apart",
            Refusal::Device => "they run on different devices",
            Refusal::Extents(_) => "their loops cover different extents",
            Refusal::IndexMismatch(_) => "one reads the other at a different element",
            Refusal::NodeBetween => "another node lies between them",
            Refusal::NoSharedData => "they share too little data",
            Refusal::Distance => "they lie too far apart",
            Refusal::TooManyNests => "the kernel would hold too many loop nests",
            Refusal::TooManyOps => "the kernel would hold too many operations",
            Refusal::TooManyBuffers => "the kernel would hold too many buffers",
            Refusal::SharedMemory => "the kernel's reductions would share too much memory",
            Refusal::SplitReduction => "the reduction is split over threads",
            Refusal::PeakMemory => "together they would hold more memory at once",
            Refusal::HoldsMore => "the plan would hold more memory than the operations one by one",
            Refusal::Scatter => "what is written over other data is complete only after its kernel",
            Refusal::ScalarRows => "costly functions of rows would be computed without lanes",
            Refusal::ByteLanes => {
                "operations on bytes would have as few lanes as those on wider numbers"
            }
            Refusal::ScanOrder => {
                "a scan, or a search for a position, would meet its columns in another order"
            }
            Refusal::SplitScan => "a scan walks whole rows, the reduction is split over threads",
            Refusal::ScannedSearch => "the position of a NaN cannot be searched for in a scan",
            Refusal::AcrossPanels => "it reads, reduces or stores across the panels of the product",
            Refusal::NoPanels => "the product is not computed by panels",
            Refusal::Tiles => "tiles of the processor are packed from the operand's memory",
            Refusal::RoundedTiles => "the product's tiles are rounded before a bias is added",
            Refusal::TakenUp => "one of them is fused with another product or kernel",
            Refusal::ScoresNeeded => "the scores are needed by more than the softmax",
            Refusal::NoTemplate => "no kernel computes attention of this form",
            Refusal::TooWide => "keys or values are too wide for a kernel of attention",
            Refusal::SeveralUses => "others need its result too",
            Refusal::ReadsMore => "it reads more than it stores",
            Refusal::NotWorthwhile => {
                "the product has its size, and the operand's traffic no weight"
            }
            Refusal::Measured => "apart they were measured to be no slower",
            Refusal::TooFewRows => "too few rows would run in parallel",
            Refusal::NarrowRows => {
                "lanes along few rows would store long columns in parts of vectors"
            }
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.describe())?;
        match self.mismatch().map(Mismatch::describe) {
            Some(how) if !how.is_empty() => write!(f, ": {how}"),
            _ => Ok(()),
        }
    }
}

/// How the accesses of two nodes to one buffer differ; the first that holds (scheduler V-03).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// An index is looked up, or divided: its positions are not known.
    Indirect,
    /// They touch different numbers of elements.
    Elements,
    /// One meets each element more often.
    Broadcast,
    /// They begin at different elements.
    Offset,
    /// They touch the same elements in different orders.
    Order,
    /// They touch elements at different distances.
    Strides,
    /// None of these: they share no buffer, or agree on all.
    Unknown,
}

impl Mismatch {
    /// A clause for explanations; empty where nothing is known.
    pub fn describe(self) -> &'static str {
        match self {
            Mismatch::Indirect => "an index is looked up or divided",
            Mismatch::Elements => "different numbers of elements",
            Mismatch::Broadcast => "one meets each element more often",
            Mismatch::Offset => "different first elements",
            Mismatch::Order => "the same elements in another order",
            Mismatch::Strides => "elements at different distances",
            Mismatch::Unknown => "",
        }
    }
}
