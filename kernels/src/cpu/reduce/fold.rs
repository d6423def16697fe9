//! What is reduced: a state, and how elements join it.

use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::number::Wide;
use std::marker::PhantomData;

/// Lanes of a fold: independent states, so that one join need not wait for the one before it.
const LANES: usize = 64;
/// Elements that a lane joins before they are joined to the lane's others.
const DEPTH: usize = 64;

/// A reduction's state and its three ways to grow. Joining is associative but for rounding; `START` changes nothing.
pub trait Fold: 'static {
    /// The element type.
    type T: Wide;
    /// The running value.
    type State: Copy + Send + Sync;
    /// What the result holds.
    type Out: Copy;
    /// The state of no elements.
    const START: Self::State;
    /// The state of two stretches, the first before the second.
    fn join(before: Self::State, after: Self::State) -> Self::State;
    /// The state after the `n` elements at `x`, of which the first has position `at`.
    ///
    /// # Safety
    /// `n` elements may be read at `x`.
    unsafe fn run(state: Self::State, n: usize, x: *const Self::T, at: usize) -> Self::State;
    /// Joins each of `rows` rows, `pitch` elements apart, to the states of `cols` columns; row 0 has position `at`.
    ///
    /// # Safety
    /// `cols` elements may be read in every row, and as many states written.
    unsafe fn columns(
        states: *mut Self::State,
        rows: usize,
        cols: usize,
        x: *const Self::T,
        pitch: usize,
        at: usize,
    );
    /// Joins each of `rows` short rows of `n` elements, `pitch` elements apart, to its state; the first element of a
    /// row has position `at`.
    ///
    /// # Safety
    /// `n` elements may be read in every row, and as many states as rows written.
    unsafe fn short(states: *mut Self::State, rows: usize, n: usize, x: *const Self::T, pitch: isize, at: usize);
    /// The result.
    fn value(state: Self::State) -> Self::Out;
}

/// The join of states in order, as a tree over neighbours. The states are overwritten; there is at least one.
pub fn tree<F: Fold>(states: &mut [F::State]) -> F::State {
    let mut n = states.len();
    while n > 1 {
        for i in 0..n / 2 {
            states[i] = F::join(states[2 * i], states[2 * i + 1]);
        }
        if n % 2 == 1 {
            states[n / 2] = states[n - 1];
        }
        n = n.div_ceil(2);
    }
    states[0]
}

/// An associative operation on values.
pub trait Join: 'static {
    /// The type of values.
    type T: Wide;
    /// Changes nothing it is joined to.
    const START: Self::T;
    /// The operation.
    fn join(a: Self::T, b: Self::T) -> Self::T;
}

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

macro_rules! joins {
    ($($name:ident $start:ident $join:ident $doc:literal),*) => {$(
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name<T>(PhantomData<T>);

        impl<T: Wide> Join for $name<T> {
            type T = T;
            const START: T = T::$start;
            #[inline(always)]
            fn join(a: T, b: T) -> T {
                a.$join(b)
            }
        }

        impl<T: Wide> Fold for $name<T> {
            type T = T;
            type State = T;
            type Out = T;
            const START: T = T::$start;
            #[inline(always)]
            fn join(a: T, b: T) -> T {
                a.$join(b)
            }
            unsafe fn run(state: T, n: usize, x: *const T, _: usize) -> T {
                // SAFETY: as the caller promises.
                let x = unsafe { std::slice::from_raw_parts(x, n) };
                state.$join(dispatch(Lanes::<Self>(x)))
            }
            unsafe fn columns(states: *mut T, rows: usize, cols: usize, x: *const T, pitch: usize, _: usize) {
                dispatch(Columns::<Self> { states, rows, cols, x, pitch });
            }
            unsafe fn short(states: *mut T, rows: usize, n: usize, x: *const T, pitch: isize, _: usize) {
                dispatch(Short::<Self> { states, rows, n, x, pitch });
            }
            #[inline(always)]
            fn value(state: T) -> T {
                state
            }
        }
    )*};
}

joins! {
    Sum ZERO plus "Σ.",
    Prod ONE times "Π.",
    Max LOWEST greater "The greatest; NaN propagates.",
    Min HIGHEST lesser "The least; NaN propagates."
}

/// A fold of a dense run: element i in lane i mod 64, every 64 elements of a lane for themselves so that errors stay
/// small, then a tree over the lanes.
struct Lanes<'a, J: Join>(&'a [J::T]);

impl<J: Join> Loop for Lanes<'_, J> {
    type Output = J::T;

    #[inline(always)]
    fn run(self) -> J::T {
        if self.0.len() < 16 {
            return self.0.iter().fold(J::START, |a, &b| J::join(a, b));
        }
        let mut total = [J::START; LANES];
        let (blocks, rest) = self.0.as_chunks::<LANES>();
        for deep in blocks.chunks(DEPTH) {
            let mut lanes = [J::START; LANES];
            for block in deep {
                for j in 0..LANES {
                    lanes[j] = J::join(lanes[j], block[j]);
                }
            }
            for j in 0..LANES {
                total[j] = J::join(total[j], lanes[j]);
            }
        }
        let mut lanes = total;
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = J::join(*lane, x);
        }
        let mut half = LANES / 2;
        while half > 0 {
            for j in 0..half {
                lanes[j] = J::join(lanes[j], lanes[j + half]);
            }
            half /= 2;
        }
        lanes[0]
    }
}

struct Columns<J: Join> {
    states: *mut J::T,
    rows: usize,
    cols: usize,
    x: *const J::T,
    pitch: usize,
}

impl<J: Join> Loop for Columns<J> {
    type Output = ();

    /// Four rows are joined to each other first: fewer passes over the states, and smaller errors.
    #[inline(always)]
    fn run(self) {
        let Columns { states, rows, cols, x, pitch } = self;
        let fours = rows / 4;
        for four in 0..fours {
            let a = x.wrapping_add(four * 4 * pitch);
            let (b, c, d) = (a.wrapping_add(pitch), a.wrapping_add(2 * pitch), a.wrapping_add(3 * pitch));
            for j in 0..cols {
                // SAFETY: the four rows are below `rows`; the caller gives `cols` columns and states.
                unsafe {
                    let sum = J::join(J::join(*a.add(j), *b.add(j)), J::join(*c.add(j), *d.add(j)));
                    states.add(j).write(J::join(*states.add(j), sum));
                }
            }
        }
        for r in fours * 4..rows {
            let a = x.wrapping_add(r * pitch);
            for j in 0..cols {
                // SAFETY: as above.
                unsafe { states.add(j).write(J::join(*states.add(j), *a.add(j))) };
            }
        }
    }
}

struct Short<J: Join> {
    states: *mut J::T,
    rows: usize,
    n: usize,
    x: *const J::T,
    pitch: isize,
}

impl<J: Join> Loop for Short<J> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for r in 0..self.rows {
            let x = self.x.wrapping_offset(r as isize * self.pitch);
            // SAFETY: the caller gives `n` elements in each row, and a state.
            unsafe {
                let mut state = *x;
                for i in 1..self.n {
                    state = J::join(state, *x.add(i));
                }
                self.states.add(r).write(J::join(*self.states.add(r), state));
            }
        }
    }
}

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
    const START: Place<J::T> = Place { value: J::START, position: -1 };

    #[inline(always)]
    fn join(before: Self::State, after: Self::State) -> Self::State {
        let later = before.position < 0 || J::beats(after.value, before.value);
        if after.position >= 0 && later { after } else { before }
    }

    unsafe fn run(mut state: Self::State, n: usize, x: *const J::T, at: usize) -> Self::State {
        // Pieces that are still in the first-level cache when they are searched.
        const PIECE: usize = 2048;
        // SAFETY: as the caller promises.
        let x = unsafe { std::slice::from_raw_parts(x, n) };
        for (i, piece) in x.chunks(PIECE).enumerate() {
            let value = dispatch(Lanes::<J>(piece));
            if state.position < 0 || J::beats(value, state.value) {
                let first = piece.iter().position(|&x| same(x, value)).unwrap_or(0);
                state = Place { value, position: (at + i * PIECE + first) as i64 };
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
        for first in (0..cols).step_by(STRIP) {
            // Positions within so many rows fit 32 bits.
            for begin in (0..rows).step_by(1 << 30) {
                let strip = Strip::<J> {
                    rows: (rows - begin).min(1 << 30),
                    cols: STRIP.min(cols - first),
                    x: x.wrapping_add(begin * pitch + first),
                    pitch,
                };
                let cols = strip.cols;
                let (values, found) = dispatch(strip);
                for j in 0..cols {
                    // SAFETY: the caller gives as many states as columns.
                    unsafe {
                        let state = &mut *states.add(first + j);
                        let position = (at + begin + found[j] as usize) as i64;
                        *state = Self::join(*state, Place { value: values[j], position });
                    }
                }
            }
        }
    }

    unsafe fn short(states: *mut Self::State, rows: usize, n: usize, x: *const J::T, pitch: isize, at: usize) {
        for r in 0..rows {
            // SAFETY: the caller gives `n` elements in each row, and a state.
            unsafe {
                let row = std::slice::from_raw_parts(x.wrapping_offset(r as isize * pitch), n);
                let mut best = 0;
                for i in 1..n {
                    best = if J::beats(row[i], row[best]) { i } else { best };
                }
                let place = Place { value: row[best], position: (at + best) as i64 };
                states.add(r).write(Self::join(*states.add(r), place));
            }
        }
    }

    #[inline(always)]
    fn value(state: Self::State) -> i64 {
        state.position
    }
}

/// Columns whose extremes and positions are kept in the first-level cache.
const STRIP: usize = 256;

struct Strip<J: Extreme> {
    rows: usize,
    cols: usize,
    x: *const J::T,
    pitch: usize,
}

impl<J: Extreme> Loop for Strip<J> {
    type Output = ([J::T; STRIP], [u32; STRIP]);

    #[inline(always)]
    fn run(self) -> Self::Output {
        let (mut values, mut found) = ([J::START; STRIP], [0u32; STRIP]);
        for r in 0..self.rows {
            let row = self.x.wrapping_add(r * self.pitch);
            for j in 0..self.cols {
                // SAFETY: the caller gives `cols` elements in each row.
                let new = unsafe { *row.add(j) };
                let beats = r == 0 || J::beats(new, values[j]);
                values[j] = if beats { new } else { values[j] };
                found[j] = if beats { r as u32 } else { found[j] };
            }
        }
        (values, found)
    }
}
