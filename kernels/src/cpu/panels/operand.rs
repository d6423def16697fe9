//! Operands of products that a kernel computes, whole or panel by panel.

use super::cut::Scratch;
use super::{Prologue, with_params};
use crate::cpu::dense::Shared;
use crate::cpu::par;
use crate::cpu::vector::Real;
use crate::cpu::view::{Sizes, View};
use ferrotrace_runtime::{Buffer, Device, Element, Error, Launch, Pool, Prepared, Result, prepare};
use smallvec::SmallVec;
use std::ops::Range;

/// Memory and arguments of a kernel that computes an operand.
pub(super) struct Feeding {
    params: SmallVec<[i64; 32]>,
    memory: Buffer,
    /// Elements of scratch memory for each thread.
    each: usize,
    /// Distances of the operand's elements along what panels cut, and along k.
    strides: (isize, isize),
    /// Units of a piece, and of all.
    units: (usize, usize),
}

impl Feeding {
    pub fn of(prologue: &Prologue<'_>, scratch: &Scratch) -> Result<Feeding> {
        let Scratch {
            cut,
            at_once: whole,
            across,
            workers,
            ..
        } = *scratch;
        let Sizes { m, n, k } = cut.sizes;
        let all = if prologue.right { n } else { m };
        let (rows, pitch, piece, pieces) = match (prologue.by_rows, whole) {
            (true, _) => (all, k, k, 1),
            (false, true) => (k, all, all, 1),
            (false, false) => (k, across, cut.piece, cut.columns),
        };
        let each = across * k;
        // Every element has a size of its own: 4 or 8 bytes.
        let bytes = each * workers * prologue.size;
        let set = [
            (prologue.pitch, pitch),
            (prologue.piece, piece),
            (prologue.pieces, pieces),
        ];
        Ok(Feeding {
            params: with_params(&prologue.launch, set)?,
            memory: Buffer::allocate(&Device::cpu(), bytes)?,
            each,
            strides: match prologue.by_rows {
                true => (k as isize, 1),
                false => (1, pitch as isize),
            },
            units: (rows, rows * pieces),
        })
    }
}

/// An operand that a kernel computes.
pub(super) struct Fed<'a, T> {
    pub prologue: &'a Prologue<'a>,
    pub prepared: Prepared<'a>,
    memory: Shared<'a, T>,
    each: usize,
    strides: (isize, isize),
    units: (usize, usize),
}

impl<'a, T: Real + Element> Fed<'a, T> {
    pub fn new(
        prologue: &'a Prologue<'a>,
        feeding: &'a mut Feeding,
        threads: usize,
    ) -> Result<Fed<'a, T>> {
        let launch = Launch {
            params: &feeding.params,
            chunks: feeding.units.1,
            ..prologue.launch
        };
        if prologue.pointer >= launch.buffers.len() || prologue.size != size_of::<T>() {
            return Err(Error::internal("a prologue without its operand"));
        }
        let memory = feeding.memory.get_mut::<T>();
        let memory = memory.ok_or_else(|| Error::internal("scratch memory is shared"))?;
        Ok(Fed {
            prologue,
            prepared: prepare(&launch, threads)?,
            memory: Shared::new(memory),
            each: feeding.each,
            strides: feeding.strides,
            units: feeding.units,
        })
    }

    /// All of the operand, computed by all threads.
    pub fn all(&self) -> View<'a, T> {
        let whole = par::Shared::new(self.memory.as_mut_ptr().cast());
        Pool::global().run(self.units.1, &|begin, end, thread| {
            let moved = Some((self.prologue.pointer, whole.get()));
            // SAFETY: the pool gives out each chunk once; the memory holds the operand, and nobody else uses it.
            unsafe { self.prepared.run(begin, end, thread, moved) }
        });
        self.view(0)
    }

    /// The part of the operand that a panel needs: `range` of what is cut, in piece `piece` of that. `thread` is the
    /// caller's, in 0..workers.
    pub fn part(&self, range: &Range<usize>, piece: usize, thread: usize) -> View<'a, T> {
        let place = self.memory.as_mut_ptr().wrapping_add(thread * self.each);
        let base = place.wrapping_offset(-(range.start as isize * self.strides.0));
        let units = match self.prologue.by_rows {
            true => range.clone(),
            false => piece * self.units.0..(piece + 1) * self.units.0,
        };
        let moved = Some((self.prologue.pointer, base.cast()));
        // SAFETY: these units belong to this panel alone, and write the thread's own part of the memory, which holds
        // the largest panel.
        unsafe { self.prepared.run(units.start, units.end, thread, moved) };
        self.view(thread)
    }

    /// The operand in a thread's memory.
    fn view(&self, thread: usize) -> View<'a, T> {
        let place = self.memory.as_mut_ptr().wrapping_add(thread * self.each);
        let (across, along) = self.strides;
        let (row, col) = match self.prologue.right {
            true => (along, across),
            false => (across, along),
        };
        View {
            // SAFETY: this thread's part of the memory, which nobody writes while the product reads it.
            data: unsafe { std::slice::from_raw_parts(place, self.each) },
            start: 0,
            row,
            col,
        }
    }
}
