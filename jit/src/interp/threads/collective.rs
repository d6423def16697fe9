//! What the threads of a warp do together: they meet, and scan.

use super::super::datum::Datum;
use super::value::{Held, Home, Place};
use super::{Fault, Threads, WARP};
use crate::kernel::ir::Expr;

impl<'k> Threads<'_, 'k> {
    /// Checks that all lanes of the warp that begins at this thread are here.
    pub(super) fn warp(&self, first: usize) -> Result<(), Fault> {
        let here = |t: usize| self.active.get(t) == Some(&true) && self.alive[t];
        match (first..first + WARP).all(here) {
            true => Ok(()),
            false => Err(Fault::Divergent("an exchange within a warp")),
        }
    }

    /// The warps that are here, by their first threads; all their lanes must be.
    pub(super) fn warps(&self, here: &[usize]) -> Result<Vec<usize>, Fault> {
        let mut firsts: Vec<usize> = here.iter().map(|t| t / WARP * WARP).collect();
        firsts.dedup();
        firsts.iter().try_for_each(|&first| self.warp(first))?;
        Ok(firsts)
    }

    fn at(&mut self, array: &'k Expr, index: &[i64], thread: usize) -> Result<Place, Fault> {
        let mut place = self.pointed(array, thread)?;
        for &i in index {
            place = self.element(place, i)?;
        }
        Ok(place)
    }

    fn get(&mut self, array: &'k Expr, index: &[i64], thread: usize) -> Result<Held, Fault> {
        let place = self.at(array, index, thread)?;
        self.read(thread, &place)
    }

    fn set(
        &mut self,
        array: &'k Expr,
        index: &[i64],
        thread: usize,
        value: Held,
    ) -> Result<(), Fault> {
        let place = self.at(array, index, thread)?;
        self.write(thread, &place, value)
    }

    /// The sizes of a thread's elements: chunks, and elements of each.
    fn sizes(&mut self, elements: &'k Expr, thread: usize) -> Result<[i64; 2], Fault> {
        match self.pointed(elements, thread)?.dims.all()[..] {
            [chunks, lanes] => Ok([chunks, lanes]),
            _ => Err(Fault::Wrong(elements.to_string())),
        }
    }

    /// Scans the elements of each chunk; a thread's fold of a chunk is that of all lanes up to it.
    pub(super) fn prefix(&mut self, arguments: &'k [Expr], here: &[usize]) -> Result<(), Fault> {
        let (elements, folds, fold) = (&arguments[0], &arguments[1], &arguments[2]);
        for first in self.warps(here)? {
            let [chunks, lanes] = self.sizes(elements, first)?;
            for k in 0..chunks {
                let mut all = None;
                for thread in first..first + WARP {
                    for l in 1..lanes {
                        let before = self.get(elements, &[k, l - 1], thread)?;
                        let this = self.get(elements, &[k, l], thread)?;
                        let both = self.join(fold, [before, this], thread)?;
                        self.set(elements, &[k, l], thread, both)?;
                    }
                    let own = self.get(elements, &[k, lanes - 1], thread)?;
                    let up_to = match all {
                        None => own,
                        Some(before) => self.join(fold, [before, own], thread)?,
                    };
                    all = Some(up_to);
                    self.set(folds, &[k], thread, up_to)?;
                }
            }
        }
        Ok(())
    }

    /// Joins what lies before the elements of every chunk to them: the carry, the chunks before, the warps before, the lanes
    /// before.
    pub(super) fn behind(
        &mut self,
        warps: usize,
        arguments: &'k [Expr],
        here: &[usize],
    ) -> Result<(), Fault> {
        let (elements, folds, carry) = (&arguments[0], &arguments[1], &arguments[2]);
        let (fold, on_carry) = (&arguments[5], &arguments[6]);
        for first in self.warps(here)? {
            let [chunks, lanes] = self.sizes(elements, first)?;
            // A row's chunks are its warps' by turns.
            let (warp, count) = ((first / WARP) as i64, chunks * warps as i64);
            let mut of_chunks = Vec::new();
            for i in 0..count {
                of_chunks.push(match warps {
                    1 => self.get(folds, &[i], first + WARP - 1)?,
                    _ => self.get(&arguments[3], &[i], first)?,
                });
            }
            let mut all = self.eval(carry, first)?;
            let mut before = Vec::new();
            for &of_chunk in &of_chunks {
                before.push(all);
                all = self.join(on_carry, [all, of_chunk], first)?;
            }
            for k in 0..chunks {
                let own = match warps {
                    1 => k,
                    _ => k * warps as i64 + warp,
                } as usize;
                let start = as_element(before[own], of_chunks[own]);
                for thread in (first..first + WARP).rev() {
                    let x = match thread > first {
                        true => {
                            let lanes = self.get(folds, &[k], thread - 1)?;
                            self.join(fold, [start, lanes], thread)?
                        }
                        false => start,
                    };
                    for l in 0..lanes {
                        let this = self.get(elements, &[k, l], thread)?;
                        let both = self.join(fold, [x, this], thread)?;
                        self.set(elements, &[k, l], thread, both)?;
                    }
                }
            }
            for thread in first..first + WARP {
                let place = self.place(carry, thread)?;
                self.write(thread, &place, all)?;
            }
        }
        Ok(())
    }

    /// Leaves the fold of a tile for the tiles behind it.
    pub(super) fn post(&mut self, arguments: &'k [Expr], thread: usize) -> Result<(), Fault> {
        let place = self.pointed(&arguments[0], thread)?;
        let value = self.number(&arguments[1], thread)?;
        let memory = self.folds(&place)?;
        // The line was cleared by an earlier launch: its zero is no fold.
        self.memory[memory].atomic(place.at, |_| Some(value))?;
        Ok(())
    }

    /// The folds of the tiles before one, which have run before it.
    pub(super) fn before(
        &mut self,
        step: i64,
        arguments: &'k [Expr],
        thread: usize,
    ) -> Result<Held, Fault> {
        self.warp(thread / WARP * WARP)?;
        let folds = self.pointed(&arguments[0], thread)?;
        let tile = self.integer(&arguments[1], thread)?;
        let mut all = self.eval(&arguments[4], thread)?;
        let memory = self.folds(&folds)?;
        for before in 0..tile {
            let at = folds.at + before * step;
            // A block waits for those before it alone, or for ever.
            let posted = self.memory[memory].posted(at);
            let posted = posted.ok_or_else(|| Fault::Unwritten("the folds".to_owned(), at))?;
            all = self.join(&arguments[5], [all, Held::Number(posted)], thread)?;
        }
        Ok(all)
    }

    /// The memory of folds: scratch memory.
    fn folds(&self, place: &Place) -> Result<usize, Fault> {
        match place.home {
            Home::Global(n) if place.bytes => Ok(n),
            _ => Err(Fault::Wrong("a fold outside of scratch memory".to_owned())),
        }
    }
}

/// What is carried, as the type that elements have.
fn as_element(carried: Held, element: Held) -> Held {
    match (carried, element) {
        (Held::Number(carried), Held::Number(element)) => {
            Held::Number(carried.cast(Datum::dtype(element)))
        }
        (carried, _) => carried,
    }
}
