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
use super::matmul::{Right, Sizes, Starts, View, products, products_into};
use super::par;
use super::vector::Real;
use cut::Scratch;
pub(crate) use cut::scratch_elements;
use ferrotrace_runtime::{Buffer, Device, Element, Error, Faults, Launch, Pool, Result, prepare};
use job::{Job, To};
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

/// The products of a batch, as [`products`] computes them. A kernel may compute one of their operands, of a batch of one
/// matrix panel by panel, just before it is read.
///
/// # Errors
/// Out of memory; `Internal`: a matrix leaves its memory, or a launch is not the product's.
pub fn products_then<'a, T: Real + Element>(
    s: Sizes,
    a: View<'a, T>,
    b: Right<'a, T>,
    starts: &[(usize, usize)],
    prologue: Option<&Prologue<'_>>,
    then: Then<'_, T>,
) -> Result<Faults> {
    let (size, count) = (s.m * s.n, starts.len());
    if size * count == 0 {
        return Ok(Faults::new());
    }
    let threads = Pool::global().threads();
    let Scratch {
        cut,
        at_once,
        panel,
        across,
        workers,
    } = Scratch::of(s, count, threads, size_of::<T>(), prologue.map(|p| p.right));
    let feeding = prologue.map(|p| Feeding::of(p, &cut, at_once, across, workers));
    let mut feeding = feeding.transpose()?;
    let fed = match (prologue, &mut feeding) {
        (Some(prologue), Some(feeding)) => Some(Fed::new(prologue, feeding, threads)?),
        _ => None,
    };
    let (mut a, mut b) = (a, b);
    let mut starts = SmallVec::<[(usize, usize); 4]>::from_slice(starts);
    if at_once && let Some(fed) = &fed {
        let whole = fed.all();
        match fed.prologue.right {
            true => b = whole.into(),
            false => a = whole,
        }
        for (a, b) in &mut starts {
            *(if fed.prologue.right { b } else { a }) = 0;
        }
    }
    let epilogue = match then {
        Then::Kernel(epilogue) => epilogue,
        Then::Store(out) if at_once => {
            let starts = starts.iter().enumerate();
            let starts: Vec<Starts> = starts.map(|(i, of)| [of.0, of.1, i * size]).collect();
            products_into(s, a, b, &starts, &out, s.n)?;
            return Ok(fed.map_or_else(Faults::new, |fed| fed.prepared.finish()));
        }
        Then::Store(out) => {
            let job = Job {
                cut,
                a,
                b,
                starts: &starts,
                pitch: s.n,
                fed: fed.as_ref(),
                to: To::Memory(out),
            };
            job.run()?;
            return Ok(fed.map_or_else(Faults::new, |fed| fed.prepared.finish()));
        }
    };
    let (_, widest) = cut.largest();
    let bytes = if epilogue.whole {
        0
    } else {
        panel * workers * size_of::<T>()
    };
    let mut memory = Buffer::allocate(&Device::cpu(), bytes)?;
    let memory = memory.get_mut::<T>();
    let memory = Shared::new(memory.ok_or_else(|| Error::internal("scratch memory is shared"))?);
    let (piece, pieces) = match at_once {
        true => (PIECE.min(s.n), s.n.div_ceil(PIECE)),
        false => (cut.piece, cut.columns),
    };
    let dense = epilogue.whole || at_once;
    let pitch = if dense { s.n } else { widest };
    let params = with_params(
        &epilogue.launch,
        [
            (epilogue.pitch, pitch),
            (epilogue.piece, piece),
            (epilogue.pieces, pieces),
        ],
    )?;
    let launch = Launch {
        params: &params,
        chunks: s.m * count * pieces,
        ..epilogue.launch
    };
    let buffer = launch.buffers.get(epilogue.pointer);
    if buffer.is_none_or(|b| epilogue.whole && b.span < size * count * size_of::<T>()) {
        return Err(Error::internal("an epilogue without its product"));
    }
    let prepared = prepare(&launch, threads)?;
    let (pointer, rows) = (epilogue.pointer, s.m * count);
    if at_once {
        let whole = match epilogue.whole {
            true => prepared.pointer(pointer).cast::<T>(),
            false => memory.as_mut_ptr(),
        };
        // SAFETY: the memory is as large as the products, which was checked, and nobody else uses it yet.
        products(s, a, b, &starts, unsafe {
            std::slice::from_raw_parts_mut(whole, size * count)
        })?;
        let whole = par::Shared::new(whole.cast());
        Pool::global().run(rows * pieces, &|begin, end, thread| {
            // SAFETY: the pool gives out each chunk once; the product is complete.
            unsafe { prepared.run(begin, end, thread, Some((pointer, whole.get()))) }
        });
    } else {
        let job = Job {
            cut,
            a,
            b,
            starts: &starts,
            pitch,
            fed: fed.as_ref(),
            to: To::Kernel {
                prepared: &prepared,
                pointer,
                scratch: (!epilogue.whole).then_some((memory, panel)),
            },
        };
        job.run()?;
    }
    // A fault of the operand comes first.
    let mut faults = fed.map_or_else(Faults::new, |fed| fed.prepared.finish());
    faults.extend(prepared.finish());
    Ok(faults)
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
