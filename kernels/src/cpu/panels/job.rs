//! The panels of a product, computed and handed on by all threads.

use super::cut::Cut;
use super::operand::Fed;
use crate::cpu::dense::Shared;
use crate::cpu::matmul::{Right, multiply_to};
use crate::cpu::product::tiles;
use crate::cpu::vector::Real;
use crate::cpu::view::{Sizes, View};
use ferrotrace_runtime::{Element, Error, Pool, Prepared, Result};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Where a panel goes.
pub(super) enum To<'a, T> {
    /// To its place in memory: where each matrix begins.
    Memory(Shared<'a, T>, &'a [usize]),
    /// To a kernel.
    Kernel {
        prepared: &'a Prepared<'a>,
        pointer: usize,
        /// Memory of all threads, and the elements of each; none where the product lies in the kernel's own buffer.
        scratch: Option<(Shared<'a, T>, usize)>,
    },
}

/// What is multiplied.
pub(super) enum Operands<'a, T> {
    /// Matrices of the product's type.
    Wide(View<'a, T>, Right<'a, T>),
    /// Matrices of bf16, by tiles; the product is of `f32`.
    Tiles(&'a tiles::Products<'a>),
}

/// What the threads share.
pub(super) struct Job<'a, T> {
    pub cut: Cut,
    pub operands: Operands<'a, T>,
    pub starts: &'a [(usize, usize)],
    /// The distance of the product's rows.
    pub pitch: usize,
    pub fed: Option<&'a Fed<'a, T>>,
    pub to: To<'a, T>,
}

impl<T: Real + Element> Job<'_, T> {
    /// All panels, spread over the pool.
    pub fn run(&self) -> Result<()> {
        let failed = AtomicBool::new(false);
        Pool::global().run(self.cut.panels(), &|begin, end, thread| {
            for i in begin..end {
                if self.panel(i, thread).is_err() {
                    failed.store(true, Relaxed);
                }
            }
        });
        match failed.into_inner() {
            true => Err(Error::internal("a matrix leaves its memory")),
            false => Ok(()),
        }
    }

    /// Computes panel `i` and runs the kernels before and after it.
    fn panel(&self, i: usize, thread: usize) -> Result<()> {
        let (matrices, rows, columns) = self.cut.panel(i);
        let m = self.cut.sizes.m;
        let first = matrices.start * m + rows.start;
        // Where the first row of the first matrix would start.
        let base = match &self.to {
            To::Memory(out, _) => out.as_mut_ptr(),
            To::Kernel {
                prepared,
                pointer,
                scratch: None,
            } => prepared.pointer(*pointer).cast::<T>(),
            To::Kernel {
                scratch: Some((memory, each)),
                ..
            } => (memory.as_mut_ptr().wrapping_add(thread * each))
                .wrapping_sub(first * self.pitch + columns.start),
        };
        for i in matrices.clone() {
            let start = match &self.to {
                To::Memory(_, places) => places[i],
                To::Kernel { .. } => i * m * self.pitch,
            };
            let to = base.wrapping_add(start + rows.start * self.pitch + columns.start);
            // SAFETY: `to` is the panel's place in the product, which is as large as the launch says, or in this
            // thread's scratch memory, which holds the largest panel at this pitch. Panels are disjoint.
            unsafe { self.multiply(i, (&rows, &columns), to, thread)? };
        }
        let To::Kernel {
            prepared, pointer, ..
        } = &self.to
        else {
            return Ok(());
        };
        let last = (matrices.end - 1) * m + rows.end;
        let before = columns.start / self.cut.piece * m * self.cut.count;
        // SAFETY: the units of this panel, which nobody else runs; the product of them is complete.
        unsafe {
            let moved = Some((*pointer, base.cast()));
            prepared.run(before + first, before + last, thread, moved);
        }
        Ok(())
    }

    /// Computes the panel of matrix `i`.
    ///
    /// # Safety
    /// `to` has room for it, and no other thread touches it meanwhile.
    unsafe fn multiply(
        &self,
        i: usize,
        (rows, columns): (&Range<usize>, &Range<usize>),
        to: *mut T,
        thread: usize,
    ) -> Result<()> {
        let (mut a, mut b) = match self.operands {
            Operands::Wide(a, b) => (a, b),
            Operands::Tiles(products) => {
                let panel = (rows.clone(), columns.clone());
                // SAFETY: as the caller promises; the product is of `f32`.
                unsafe { products.panel(self.starts[i], panel, (to.cast(), self.pitch)) };
                return Ok(());
            }
        };
        let starts = self.starts[i];
        a = View {
            start: starts.0,
            ..a
        }
        .from(rows.start, 0);
        b = b.at(starts.1).from_column(columns.start);
        match self.fed {
            Some(fed) if fed.prologue.right => {
                b = fed
                    .part(columns, columns.start / self.cut.piece, thread)
                    .into();
            }
            Some(fed) => a = fed.part(rows, 0, thread),
            None => {}
        }
        let sizes = Sizes {
            m: rows.len(),
            n: columns.len(),
            k: self.cut.sizes.k,
        };
        // SAFETY: as the caller promises.
        unsafe { multiply_to(sizes, a, b, (to, self.pitch), (0..sizes.m, 0..sizes.n)) }
    }
}
