//! What is reduced: a state, and how elements join it.

use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::number::Wide;
use std::marker::PhantomData;

/// Lanes of a fold: independent states, so that one join need not wait for the one before it.
pub(super) const LANES: usize = 64;
/// Elements of a run up to which it has half as many.
const HALF: usize = LANES / 2;
/// Elements that a lane joins into one run; then how many such runs are joined.
const DEPTH: usize = 16;
const RUNS: usize = 8;

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
    /// Writes what [`run`](Self::run) gives of each of `rows` rows of `n` elements, `pitch` elements apart.
    ///
    /// # Safety
    /// `n` elements may be read in every row, and as many results as rows written.
    unsafe fn each(rows: usize, n: usize, x: *const Self::T, pitch: isize, out: *mut Self::Out) {
        for r in 0..rows {
            // SAFETY: as the caller promises.
            unsafe {
                let state = Self::run(Self::START, n, x.wrapping_offset(r as isize * pitch), 0);
                out.add(r).write(Self::value(state));
            }
        }
    }
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

/// Levels of a tree over the stretches of a chunk.
const LEVELS: usize = 16;

/// Stretches joined in order: some neighbours one after another, those as a tree.
pub struct Cascade<F: Fold> {
    /// The state of the latest stretches, and how many they are.
    run: F::State,
    latest: usize,
    /// Trees of so many runs as the bits of their number say, the largest last.
    trees: [F::State; LEVELS],
    runs: usize,
}

impl<F: Fold> Cascade<F> {
    pub fn new() -> Cascade<F> {
        Cascade {
            run: F::START,
            latest: 0,
            trees: [F::START; LEVELS],
            runs: 0,
        }
    }

    /// The next stretch: `f` joins it to a state.
    #[inline(always)]
    pub fn add(&mut self, f: impl FnOnce(F::State) -> F::State) {
        self.run = f(self.run);
        self.latest += 1;
        if self.latest == DEPTH {
            self.close();
        }
    }

    fn close(&mut self) {
        let (mut state, mut level) = (std::mem::replace(&mut self.run, F::START), 0);
        while self.runs >> level & 1 == 1 {
            state = F::join(self.trees[level], state);
            level += 1;
        }
        self.trees[level] = state;
        self.runs += 1;
        self.latest = 0;
    }

    /// The state of everything joined so far.
    pub fn state(self) -> F::State {
        let mut state = self.run;
        for (level, &tree) in self.trees.iter().enumerate() {
            if self.runs >> level & 1 == 1 {
                state = F::join(tree, state);
            }
        }
        state
    }
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
            unsafe fn each(rows: usize, n: usize, x: *const T, pitch: isize, out: *mut T) {
                dispatch(Each::<Self> { rows, n, x, pitch, out });
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

/// A fold of a dense run: element i in lane i mod 64, every few elements of a lane for themselves so that errors stay
/// small, then a tree over the lanes.
pub(super) struct Lanes<'a, J: Join>(pub(super) &'a [J::T]);

impl<J: Join> Loop for Lanes<'_, J> {
    type Output = J::T;

    #[inline(always)]
    fn run(self) -> J::T {
        lanes::<J>(self.0)
    }
}

/// The fold of [`Lanes`]. What would join `START` to a lane is left out: it changes no lane that began with it.
#[inline(always)]
fn lanes<J: Join>(x: &[J::T]) -> J::T {
    if let Some(value) = short::<J>(x) {
        return value;
    }
    let (blocks, rest) = x.as_chunks::<LANES>();
    let mut total = [J::START; LANES];
    for (i, runs) in blocks.chunks(DEPTH * RUNS).enumerate() {
        let mut middle = [J::START; LANES];
        for (k, deep) in runs.chunks(DEPTH).enumerate() {
            let mut lanes = [J::START; LANES];
            for block in deep {
                for j in 0..LANES {
                    lanes[j] = J::join(lanes[j], block[j]);
                }
            }
            if k == 0 {
                middle = lanes;
                continue;
            }
            for j in 0..LANES {
                middle[j] = J::join(middle[j], lanes[j]);
            }
        }
        if i == 0 {
            total = middle;
            continue;
        }
        for j in 0..LANES {
            total[j] = J::join(total[j], middle[j]);
        }
    }
    across::<J, LANES>(total, rest)
}

/// The fold of [`Lanes`] of a short run.
#[inline(always)]
fn short<J: Join>(x: &[J::T]) -> Option<J::T> {
    match x.len() {
        0..16 => Some(x.iter().fold(J::START, |a, &b| J::join(a, b))),
        16..=HALF => Some(across::<J, HALF>([J::START; HALF], x)),
        _ => None,
    }
}

/// The fold of [`Lanes`] within a loop over rows. That of long runs is not inlined: its lanes stay in registers then.
#[inline(always)]
pub(super) fn folded<J: Join>(x: &[J::T]) -> J::T {
    match short::<J>(x) {
        Some(value) => value,
        None => dispatch(Lanes::<J>(x)),
    }
}

/// Joins at most `N` elements to as many lanes, and the lanes as a tree: the upper half to the lower.
#[inline(always)]
fn across<J: Join, const N: usize>(mut lanes: [J::T; N], rest: &[J::T]) -> J::T {
    if rest.len() == N {
        for j in 0..N {
            lanes[j] = J::join(lanes[j], rest[j]);
        }
    } else {
        for (lane, &x) in lanes.iter_mut().zip(rest) {
            *lane = J::join(*lane, x);
        }
    }
    let mut half = N / 2;
    while half > 0 {
        for j in 0..half {
            lanes[j] = J::join(lanes[j], lanes[j + half]);
        }
        half /= 2;
    }
    lanes[0]
}

struct Each<J: Join> {
    rows: usize,
    n: usize,
    x: *const J::T,
    pitch: isize,
    out: *mut J::T,
}

impl<J: Join> Loop for Each<J> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for r in 0..self.rows {
            let row = self.x.wrapping_offset(r as isize * self.pitch);
            // SAFETY: the caller gives `n` elements in each row, and a result.
            unsafe {
                let row = std::slice::from_raw_parts(row, self.n);
                self.out.add(r).write(folded::<J>(row));
            }
        }
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

    /// Eight rows are joined to each other first: fewer passes over the states, and smaller errors.
    #[inline(always)]
    fn run(self) {
        let Columns {
            states,
            rows,
            cols,
            x,
            pitch,
        } = self;
        let eights = rows / 8;
        for eight in 0..eights {
            let row = |r: usize| x.wrapping_add((eight * 8 + r) * pitch);
            let [a, b, c, d, e, f, g, h] = std::array::from_fn(row);
            for j in 0..cols {
                // SAFETY: the eight rows are below `rows`; the caller gives `cols` columns and states.
                unsafe {
                    let four = |a: *const J::T, b: *const J::T, c: *const J::T, d: *const J::T| {
                        J::join(J::join(*a.add(j), *b.add(j)), J::join(*c.add(j), *d.add(j)))
                    };
                    let sum = J::join(four(a, b, c, d), four(e, f, g, h));
                    states.add(j).write(J::join(*states.add(j), sum));
                }
            }
        }
        for r in eights * 8..rows {
            let a = x.wrapping_add(r * pitch);
            for j in 0..cols {
                // SAFETY: the rows are below `rows`, and the caller gives `cols` columns and states.
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
                let mut state = *self.states.add(r);
                for first in (0..self.n).step_by(DEPTH) {
                    let mut run = *x.add(first);
                    for i in first + 1..self.n.min(first + DEPTH) {
                        run = J::join(run, *x.add(i));
                    }
                    state = J::join(state, run);
                }
                self.states.add(r).write(state);
            }
        }
    }
}
