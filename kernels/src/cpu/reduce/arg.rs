//! Positions of extremes.

use super::fold::{Fold, Join, LANES, Lanes, Max, Min, folded};
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::number::Wide;
use std::marker::PhantomData;

/// A join that keeps one of the two.
pub trait Extreme: Join {
    /// Whether `new`, which comes later, takes the place of `old`.
    fn beats(new: Self::T, old: Self::T) -> bool;
}

impl<T: Wide> Extreme for Max<T> {
    #[inline(always)]
    fn beats(new: T, old: T) -> bool {
        new > old || (new.is_nan() && !old.is_nan())
    }
}

impl<T: Wide> Extreme for Min<T> {
    #[inline(always)]
    fn beats(new: T, old: T) -> bool {
        new < old || (new.is_nan() && !old.is_nan())
    }
}

/// Elements that are still in the first-level cache when they are searched.
const PIECE: usize = 2048;

/// The position of the first extreme (the first NaN if there is one).
#[derive(Debug)]
pub struct Arg<J>(PhantomData<J>);

/// An extreme and its position; none yet if the position is negative.
#[derive(Clone, Copy, Debug)]
pub struct Place<T> {
    value: T,
    position: i64,
}

#[inline(always)]
fn same<T: Wide>(a: T, b: T) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

impl<J: Extreme> Fold for Arg<J> {
    type T = J::T;
    type State = Place<J::T>;
    type Out = i64;
    const START: Place<J::T> = Place {
        value: J::START,
        position: -1,
    };

    #[inline(always)]
    fn join(before: Self::State, after: Self::State) -> Self::State {
        let later = before.position < 0 || J::beats(after.value, before.value);
        if after.position >= 0 && later {
            after
        } else {
            before
        }
    }

    unsafe fn run(mut state: Self::State, n: usize, x: *const J::T, at: usize) -> Self::State {
        // SAFETY: as the caller promises.
        let x = unsafe { std::slice::from_raw_parts(x, n) };
        for (i, piece) in x.chunks(PIECE).enumerate() {
            let value = dispatch(Lanes::<J>(piece));
            if state.position < 0 || J::beats(value, state.value) {
                let first = dispatch(Find(piece, value));
                state = Place {
                    value,
                    position: (at + i * PIECE + first) as i64,
                };
            }
        }
        state
    }

    unsafe fn columns(
        states: *mut Self::State,
        rows: usize,
        cols: usize,
        x: *const J::T,
        pitch: usize,
        at: usize,
    ) {
        let (mut values, mut found) = ([J::START; STRIP], [0u32; STRIP]);
        for first in (0..cols).step_by(STRIP) {
            // Positions within so many rows fit 32 bits.
            for begin in (0..rows).step_by(1 << 30) {
                let cols = STRIP.min(cols - first);
                dispatch(Strip::<J> {
                    rows: (rows - begin).min(1 << 30),
                    values: &mut values[..cols],
                    found: &mut found[..cols],
                    x: x.wrapping_add(begin * pitch + first),
                    pitch,
                });
                for j in 0..cols {
                    // SAFETY: the caller gives as many states as columns.
                    unsafe {
                        let state = &mut *states.add(first + j);
                        let position = (at + begin + found[j] as usize) as i64;
                        *state = Self::join(
                            *state,
                            Place {
                                value: values[j],
                                position,
                            },
                        );
                    }
                }
            }
        }
    }

    unsafe fn short(
        states: *mut Self::State,
        rows: usize,
        n: usize,
        x: *const J::T,
        pitch: isize,
        at: usize,
    ) {
        for r in 0..rows {
            // SAFETY: the caller gives `n` elements in each row, and a state.
            unsafe {
                let row = std::slice::from_raw_parts(x.wrapping_offset(r as isize * pitch), n);
                let mut best = 0;
                for i in 1..n {
                    best = if J::beats(row[i], row[best]) { i } else { best };
                }
                let place = Place {
                    value: row[best],
                    position: (at + best) as i64,
                };
                states.add(r).write(Self::join(*states.add(r), place));
            }
        }
    }

    #[inline(always)]
    fn value(state: Self::State) -> i64 {
        state.position
    }

    unsafe fn each(rows: usize, n: usize, x: *const J::T, pitch: isize, out: *mut i64) {
        if n <= PIECE {
            return dispatch(Each::<J> {
                rows,
                n,
                x,
                pitch,
                out,
            });
        }
        for r in 0..rows {
            // SAFETY: as the caller promises.
            unsafe {
                let x = x.wrapping_offset(r as isize * pitch);
                out.add(r).write(Self::run(Self::START, n, x, 0).position);
            }
        }
    }
}

/// Rows of at most a piece.
struct Each<J: Extreme> {
    rows: usize,
    n: usize,
    x: *const J::T,
    pitch: isize,
    out: *mut i64,
}

impl<J: Extreme> Loop for Each<J> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for r in 0..self.rows {
            let row = self.x.wrapping_offset(r as isize * self.pitch);
            // SAFETY: the caller gives `n` elements in each row, and a result.
            unsafe {
                let row = std::slice::from_raw_parts(row, self.n);
                let first = Find(row, folded::<J>(row)).run();
                self.out.add(r).write(first as i64);
            }
        }
    }
}

/// Columns whose extremes and positions are kept in the first-level cache.
const STRIP: usize = 2048;

struct Strip<'a, J: Extreme> {
    rows: usize,
    values: &'a mut [J::T],
    found: &'a mut [u32],
    x: *const J::T,
    pitch: usize,
}

impl<J: Extreme> Loop for Strip<'_, J> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Strip {
            rows,
            values,
            found,
            x,
            pitch,
        } = self;
        for r in 0..rows {
            // SAFETY: the caller gives as many elements in each row as there are values.
            let row =
                unsafe { std::slice::from_raw_parts(x.wrapping_add(r * pitch), values.len()) };
            if r == 0 {
                values.copy_from_slice(row);
                found.fill(0);
                continue;
            }
            for ((value, found), &new) in values.iter_mut().zip(found.iter_mut()).zip(row) {
                let beats = J::beats(new, *value);
                *value = if beats { new } else { *value };
                *found = if beats { r as u32 } else { *found };
            }
        }
    }
}

/// The first position of a value that is there.
struct Find<'a, T>(&'a [T], T);

impl<T: Wide> Loop for Find<'_, T> {
    type Output = usize;

    #[inline(always)]
    fn run(self) -> usize {
        let Find(x, value) = self;
        for (i, block) in x.chunks(LANES).enumerate() {
            if block.iter().fold(false, |any, &x| any | same(x, value)) {
                let within = block.iter().position(|&x| same(x, value));
                return i * LANES + within.unwrap_or(0);
            }
        }
        0
    }
}
