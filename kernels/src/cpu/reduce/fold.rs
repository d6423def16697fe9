//! What is reduced: a state, and how elements join it.

use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::number::Wide;
use std::marker::PhantomData;

/// Lanes of a fold: independent states, so that one join need not wait for the one before it.
pub(super) const LANES: usize = 64;
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
    unsafe fn short(
        states: *mut Self::State,
        rows: usize,
        n: usize,
        x: *const Self::T,
        pitch: isize,
        at: usize,
    );
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
pub(super) struct Lanes<'a, J: Join>(pub(super) &'a [J::T]);

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
        let Columns {
            states,
            rows,
            cols,
            x,
            pitch,
        } = self;
        let fours = rows / 4;
        for four in 0..fours {
            let a = x.wrapping_add(four * 4 * pitch);
            let (b, c, d) = (
                a.wrapping_add(pitch),
                a.wrapping_add(2 * pitch),
                a.wrapping_add(3 * pitch),
            );
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
                self.states
                    .add(r)
                    .write(J::join(*self.states.add(r), state));
            }
        }
    }
}
