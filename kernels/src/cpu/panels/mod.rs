//! Products whose result a generated kernel takes up panel by panel, or one of whose operands a generated kernel
//! computes so (scheduler T-01, T-02, T-08: a pointwise kernel before or behind a product works panel by panel).
//!
//! A panel is computed, then the kernel runs over it while it is in the second cache, on the same thread. The kernel's
//! units are (piece of the columns, row), so that those of a panel follow each other. Results do not depend on how a
//! product is cut, so these do not either.

mod cut;
mod job;
mod operand;
mod planes;

use super::dense::Shared;
use super::matmul::{Right, Starts, products, products_into};
use super::par;
use super::product::tiles;
use super::vector::Real;
use super::view::{Sizes, View};
use cut::Scratch;
pub(crate) use cut::{scratch_elements, scratch_elements_of_tiles};
use ferrotrace_runtime::{
    Buffer, DType, Device, Element, Error, Faults, Launch, Pool, Prepared, Result, prepare,
};
use job::{Job, Operands, To};
use operand::{Fed, Feeding};
pub(crate) use planes::planes_then;
use smallvec::SmallVec;

/// Columns of a unit of the kernel where the product is not cut.
const PIECE: usize = 1 << 14;

/// A generated kernel that takes up a product. Its units are (piece of the columns, row), pieces outermost.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue<'a> {
    /// The kernel's launch; its number of chunks is not used.
    pub launch: Launch<'a>,
    /// Which of the launch's buffers the product is.
    pub pointer: usize,
    /// Whether that buffer is the product's whole memory. If not, the product lies in scratch memory.
    pub whole: bool,
    /// The argument that is the distance of the product's rows.
    pub pitch: usize,
    /// The argument that is the number of columns of a piece.
    pub piece: usize,
    /// The argument that is the number of pieces.
    pub pieces: usize,
}

/// A generated kernel that computes an operand of a product. Its units are (piece of the columns, row), pieces outermost,
/// over the rows and columns of the operand's matrix as it would lie in memory.
#[derive(Clone, Copy, Debug)]
pub struct Prologue<'a> {
    /// The kernel's launch; its number of chunks is not used.
    pub launch: Launch<'a>,
    /// Which of the launch's buffers the operand is.
    pub pointer: usize,
    /// The argument that is the distance of the matrix's rows.
    pub pitch: usize,
    /// The argument that is the number of columns of a piece.
    pub piece: usize,
    /// The argument that is the number of pieces.
    pub pieces: usize,
    /// Bytes of an element.
    pub size: usize,
    /// Whether it is the right operand.
    pub right: bool,
    /// Whether the matrix's rows are those of the left operand, or the columns of the right.
    pub by_rows: bool,
}

/// Where products go.
#[derive(Clone, Copy, Debug)]
pub enum Then<'a, T> {
    /// To a kernel that runs over every panel.
    Kernel(&'a Epilogue<'a>),
    /// To memory: dense matrices one after another.
    Store(Shared<'a, T>),
}

/// What is multiplied.
#[derive(Clone, Copy, Debug)]
pub enum Factors<'a, T> {
    /// Matrices of the product's type.
    Wide(View<'a, T>, Right<'a, T>),
    /// Matrices by tiles ([`tiles::takes`]); the product is of `f32`.
    Tiles(tiles::Source<'a>, tiles::Right<'a>),
}

/// The products of a batch, as [`products`] computes them. A kernel may compute one of their operands, of a batch of one
/// matrix panel by panel, just before it is read; none of products by tiles.
///
/// # Errors
/// Out of memory; `Internal`: a matrix leaves its memory, or a launch is not the product's.
pub fn products_then<'a, T: Real + Element>(
    s: Sizes,
    factors: Factors<'a, T>,
    starts: &[(usize, usize)],
    prologue: Option<&Prologue<'_>>,
    then: Then<'_, T>,
) -> Result<Faults> {
    let count = starts.len();
    if s.m * s.n * count == 0 {
        return Ok(Faults::new());
    }
    let threads = Pool::global().threads();
    let (a, b) = match factors {
        Factors::Wide(a, b) => (a, b),
        Factors::Tiles(a, b) if prologue.is_none() && T::DTYPE == DType::F32 => {
            let products = tiles::Products::new(s, a, b, starts)?;
            let scratch = Scratch::of_tiles(s, a.format(), count, threads);
            return by_panels(&scratch, Operands::Tiles(&products), starts, None, then);
        }
        Factors::Tiles(..) => return Err(Error::internal("tiles of another product")),
    };
    let right = prologue.map(|p| p.right);
    let scratch = Scratch::of(s, count, threads, size_of::<T>(), right);
    let feeding = prologue.map(|p| Feeding::of(p, &scratch));
    let mut feeding = feeding.transpose()?;
    let fed = match (prologue, &mut feeding) {
        (Some(prologue), Some(feeding)) => Some(Fed::new(prologue, feeding, threads)?),
        _ => None,
    };
    let faults = match scratch.at_once {
        true => at_once(s, a, b, starts, fed.as_ref(), then)?,
        false => by_panels(&scratch, Operands::Wide(a, b), starts, fed.as_ref(), then)?,
    };
    // A fault of the operand comes first.
    let mut all = fed.map_or_else(Faults::new, |fed| fed.prepared.finish());
    all.extend(faults);
    Ok(all)
}

/// Products of matrices by tiles: number `i` multiplies the matrices that start where the first two of its starts say, and
/// is written where its third start says, its rows dense and `row` apart. Matrices of the result have no element in common, and nobody
/// else uses them meanwhile.
///
/// # Errors
/// Out of memory; `Internal`: a matrix leaves its memory.
pub fn tiles_into(
    s: Sizes,
    a: tiles::Source<'_>,
    b: tiles::Right<'_>,
    starts: &[Starts],
    c: &Shared<'_, f32>,
    row: usize,
) -> Result<()> {
    if s.m * s.n * starts.len() == 0 {
        return Ok(());
    }
    let inside = |to: usize| to + (s.m - 1) * row + s.n <= c.len();
    if !starts.iter().all(|at| inside(at[2])) {
        return Err(Error::internal("a matrix leaves its memory"));
    }
    let (places, starts): (Vec<usize>, Vec<_>) =
        starts.iter().map(|at| (at[2], (at[0], at[1]))).unzip();
    let products = tiles::Products::new(s, a, b, &starts)?;
    let threads = Pool::global().threads();
    let job = Job {
        cut: Scratch::of_tiles(s, a.format(), places.len(), threads).cut,
        operands: Operands::Tiles(&products),
        starts: &starts,
        pitch: row,
        fed: None,
        to: To::Memory(*c, &places),
    };
    job.run()
}

/// Products that are computed whole before a kernel runs.
fn at_once<'a, T: Real + Element>(
    s: Sizes,
    mut a: View<'a, T>,
    mut b: Right<'a, T>,
    starts: &[(usize, usize)],
    fed: Option<&Fed<'a, T>>,
    then: Then<'_, T>,
) -> Result<Faults> {
    let mut starts = SmallVec::<[(usize, usize); 4]>::from_slice(starts);
    if let Some(fed) = fed {
        let whole = fed.all();
        match fed.prologue.right {
            true => b = whole.into(),
            false => a = whole,
        }
        for (a, b) in &mut starts {
            *(if fed.prologue.right { b } else { a }) = 0;
        }
    }
    let (size, count) = (s.m * s.n, starts.len());
    let epilogue = match then {
        Then::Kernel(epilogue) => epilogue,
        Then::Store(out) => {
            let starts = starts.iter().enumerate();
            let starts: Vec<Starts> = starts.map(|(i, of)| [of.0, of.1, i * size]).collect();
            products_into(s, a, b, &starts, &out, s.n)?;
            return Ok(Faults::new());
        }
    };
    let walk = Walk {
        rows: s.m * count,
        columns: s.n,
        pitch: s.n,
        piece: PIECE.min(s.n),
        pieces: s.n.div_ceil(PIECE),
    };
    take_up(epilogue, walk, size * count, |prepared, memory| {
        let whole = match memory {
            None => prepared.pointer(epilogue.pointer).cast::<T>(),
            Some(memory) => memory.as_mut_ptr(),
        };
        // SAFETY: the memory is as large as the products, which was checked, and nobody else uses it yet.
        products(s, a, b, &starts, unsafe {
            std::slice::from_raw_parts_mut(whole, size * count)
        })?;
        let whole = par::Shared::new(whole.cast());
        let chunks = walk.rows * walk.pieces;
        Pool::global().run(chunks, &|begin, end, thread| {
            // SAFETY: the pool gives out each chunk once; the product is complete.
            unsafe { prepared.run(begin, end, thread, Some((epilogue.pointer, whole.get()))) }
        });
        Ok(())
    })
}

/// Products that are computed panel by panel.
fn by_panels<T: Real + Element>(
    scratch: &Scratch,
    operands: Operands<'_, T>,
    starts: &[(usize, usize)],
    fed: Option<&Fed<'_, T>>,
    then: Then<'_, T>,
) -> Result<Faults> {
    let cut = scratch.cut;
    let s = cut.sizes;
    let epilogue = match then {
        Then::Kernel(epilogue) => epilogue,
        Then::Store(out) => {
            let places: Vec<usize> = (0..starts.len()).map(|i| i * s.m * s.n).collect();
            let job = Job {
                cut,
                operands,
                starts,
                pitch: s.n,
                fed,
                to: To::Memory(out, &places),
            };
            return job.run().map(|()| Faults::new());
        }
    };
    let walk = Walk {
        rows: s.m * starts.len(),
        columns: s.n,
        pitch: if epilogue.whole { s.n } else { cut.largest().1 },
        piece: cut.piece,
        pieces: cut.columns,
    };
    let elements = scratch.panel * scratch.workers;
    take_up(epilogue, walk, elements, |prepared, memory| {
        let job = Job {
            cut,
            operands,
            starts,
            pitch: walk.pitch,
            fed,
            to: To::Kernel {
                prepared,
                pointer: epilogue.pointer,
                scratch: memory.map(|memory| (memory, scratch.panel)),
            },
        };
        job.run()
    })
}

/// What a kernel behind a product walks through.
#[derive(Clone, Copy)]
struct Walk {
    rows: usize,
    columns: usize,
    /// The distance of the product's rows.
    pitch: usize,
    /// Columns of a piece, and how many pieces there are.
    piece: usize,
    pieces: usize,
}

/// Prepares the kernel behind a product, and has `run` compute the product and run the kernel. The product lies in so many
/// elements of scratch memory, or in the kernel's own buffer.
fn take_up<T: Real + Element>(
    epilogue: &Epilogue<'_>,
    walk: Walk,
    elements: usize,
    run: impl FnOnce(&Prepared<'_>, Option<Shared<'_, T>>) -> Result<()>,
) -> Result<Faults> {
    let elements = if epilogue.whole { 0 } else { elements };
    let mut memory = Buffer::allocate(&Device::cpu(), elements * size_of::<T>())?;
    let memory = memory.get_mut::<T>();
    let memory = Shared::new(memory.ok_or_else(|| Error::internal("scratch memory is shared"))?);
    let params = with_params(
        &epilogue.launch,
        [
            (epilogue.pitch, walk.pitch),
            (epilogue.piece, walk.piece),
            (epilogue.pieces, walk.pieces),
        ],
    )?;
    let launch = Launch {
        params: &params,
        chunks: walk.rows * walk.pieces,
        ..epilogue.launch
    };
    let bytes = walk.rows * walk.columns * size_of::<T>();
    let buffer = launch.buffers.get(epilogue.pointer);
    if buffer.is_none_or(|b| epilogue.whole && b.span < bytes) {
        return Err(Error::internal("an epilogue without its product"));
    }
    let prepared = prepare(&launch, Pool::global().threads())?;
    run(&prepared, (!epilogue.whole).then_some(memory))?;
    Ok(prepared.finish())
}

/// The integers of a launch with some of them set.
fn with_params(launch: &Launch<'_>, set: [(usize, usize); 3]) -> Result<SmallVec<[i64; 32]>> {
    let mut params: SmallVec<[i64; 32]> = SmallVec::from_slice(launch.params);
    for (at, value) in set {
        let param = params.get_mut(at);
        *param.ok_or_else(|| Error::internal("a kernel by panels without its arguments"))? =
            value as i64;
    }
    Ok(params)
}
