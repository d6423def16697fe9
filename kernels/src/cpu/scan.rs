//! Scans along the middle dimension of `[outer, len, inner]` arrays.

use super::dense::{Shared, ranges};
use super::isa::{Loop, dispatch};
use super::number::{Number, Wide};
use std::marker::PhantomData;
use std::ops::Range;

/// Rows scanned side by side, so that one addition need not wait for the one before it.
const ROWS: usize = 4;
/// Columns scanned side by side: their running values stay in the first-level cache.
const COLUMNS: usize = 2048;
/// A dimension of at least [`LONG`] blocks is scanned by blocks, if there are few lanes.
const BLOCK: usize = 1 << 14;
/// Blocks of a long dimension.
const LONG: usize = 4;
/// The greatest `inner` that counts as few lanes.
const LANES: usize = 16;

/// A row-major array seen from one of its dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Elements before the dimension.
    pub outer: usize,
    /// The size of the dimension.
    pub len: usize,
    /// Elements after it.
    pub inner: usize,
}

/// What is scanned: a running value, and how an element joins it.
pub trait Scan: 'static {
    /// Element of the input.
    type In: Copy + Sync;
    /// Element of the result.
    type Out: Copy + Send;
    /// The running value.
    type State: Copy + Send + Sync;
    /// The running value of element 0, which is at position `i`.
    fn first(x: Self::In, i: usize) -> Self::State;
    /// The running value after element `x` at position `i`.
    fn step(state: Self::State, x: Self::In, i: usize) -> Self::State;
    /// The running value of two adjacent stretches.
    fn join(before: Self::State, after: Self::State) -> Self::State;
    /// The result's element.
    fn value(state: Self::State) -> Self::Out;
}

macro_rules! fold {
    ($name:ident, $doc:literal, $combine:ident) => {
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name<T>(PhantomData<T>);

        impl<T: Number> Scan for $name<T> {
            type In = T;
            type Out = T;
            type State = T::Wide;
            #[inline(always)]
            fn first(x: T, _: usize) -> T::Wide {
                x.wide()
            }
            #[inline(always)]
            fn step(state: T::Wide, x: T, _: usize) -> T::Wide {
                state.$combine(x.wide())
            }
            #[inline(always)]
            fn join(before: T::Wide, after: T::Wide) -> T::Wide {
                before.$combine(after)
            }
            #[inline(always)]
            fn value(state: T::Wide) -> T {
                T::narrow(state)
            }
        }
    };
}

/// Running sum, of floats in binary64.
#[derive(Debug)]
pub struct Sum<T>(PhantomData<T>);

impl<T: Number> Scan for Sum<T> {
    type In = T;
    type Out = T;
    type State = <T::Wide as Wide>::Total;
    #[inline(always)]
    fn first(x: T, _: usize) -> Self::State {
        x.wide().total()
    }
    #[inline(always)]
    fn step(state: Self::State, x: T, _: usize) -> Self::State {
        T::Wide::both(state, x.wide().total())
    }
    #[inline(always)]
    fn join(before: Self::State, after: Self::State) -> Self::State {
        T::Wide::both(before, after)
    }
    #[inline(always)]
    fn value(state: Self::State) -> T {
        T::narrow(T::Wide::of_total(state))
    }
}

fold!(Prod, "Running product.", times);
fold!(Max, "Running maximum; NaN propagates.", greater);
fold!(Min, "Running minimum; NaN propagates.", lesser);

macro_rules! arg {
    ($name:ident, $doc:literal, $compare:tt) => {
        #[doc = $doc]
        #[derive(Debug)]
        pub struct $name<T>(PhantomData<T>);

        impl<T: Number> Scan for $name<T> {
            type In = T;
            type Out = i64;
            type State = (T::Wide, i64);
            #[inline(always)]
            fn first(x: T, i: usize) -> (T::Wide, i64) {
                (x.wide(), i as i64)
            }
            #[inline(always)]
            fn step(state: (T::Wide, i64), x: T, i: usize) -> (T::Wide, i64) {
                Self::join(state, (x.wide(), i as i64))
            }
            #[inline(always)]
            fn join(before: (T::Wide, i64), after: (T::Wide, i64)) -> (T::Wide, i64) {
                // Every NaN takes over, and nothing but a NaN takes over from one: PyTorch's rule.
                let takes = after.0.is_nan() || (!before.0.is_nan() && after.0 $compare before.0);
                if takes { after } else { before }
            }
            #[inline(always)]
            fn value(state: (T::Wide, i64)) -> i64 {
                state.1
            }
        }
    };
}
arg!(ArgMax, "Index of the running maximum, the last among equals; of the last NaN once there is one.", >=);
arg!(ArgMin, "Index of the running minimum, the last among equals; of the last NaN once there is one.", <=);

/// Running log Σ exp: the greatest so far and Σ exp(x − greatest), in binary64.
#[derive(Debug)]
pub struct LogSumExp<T>(PhantomData<T>);

impl<T: Number> Scan for LogSumExp<T> {
    type In = T;
    type Out = T;
    type State = (f64, f64);
    #[inline(always)]
    fn first(x: T, _: usize) -> (f64, f64) {
        (x.wide().to_f64(), 1.0)
    }
    #[inline]
    fn step(state: (f64, f64), x: T, i: usize) -> (f64, f64) {
        Self::join(state, Self::first(x, i))
    }
    #[inline]
    fn join(before: (f64, f64), after: (f64, f64)) -> (f64, f64) {
        // Equal infinities add their counts: their difference would be NaN.
        let (a, b) = (before, after);
        if a.0 == b.0 {
            (a.0, a.1 + b.1)
        } else if b.0 > a.0 {
            (b.0, a.1 * (a.0 - b.0).exp() + b.1)
        } else {
            // This arm also takes NaN on either side: the sum is NaN from here on.
            (a.0, a.1 + b.1 * (b.0 - a.0).exp())
        }
    }
    #[inline]
    fn value(state: (f64, f64)) -> T {
        T::narrow(T::Wide::from_f64(state.0 + state.1.ln()))
    }
}

/// Scans `x` into `out`, both `outer · len · inner` elements.
pub fn scan<S: Scan>(x: &[S::In], out: &mut [S::Out], e: Extent) {
    if x.is_empty() || x.len() != out.len() {
        return;
    }
    let out = Shared::new(out);
    // The choice depends on sizes alone, so that results do not depend on the number of threads.
    if e.len >= LONG * BLOCK && e.outer * e.inner < LANES {
        return blocked::<S>(x, out, e);
    }
    if e.inner == 1 {
        let groups = e.outer.div_ceil(ROWS);
        ranges(groups, ROWS * e.len, |range| {
            let rows = range.start * ROWS..(range.end * ROWS).min(e.outer);
            let lane = |r: usize| Lane {
                span: r * e.len..(r + 1) * e.len,
                carry: None,
                at: 0,
            };
            scan_lanes::<S>(x, &out, rows, lane);
        });
    } else {
        let pieces = e.inner.div_ceil(COLUMNS);
        ranges(e.outer * pieces, COLUMNS.min(e.inner) * e.len, |range| {
            for task in range {
                let (o, piece) = (task / pieces, task % pieces);
                let columns = piece * COLUMNS..((piece + 1) * COLUMNS).min(e.inner);
                dispatch(Columns::<S> {
                    x,
                    out,
                    e,
                    outer: o,
                    columns,
                    span: 0..e.len,
                    carry: &[],
                });
            }
        });
    }
}

/// A stretch of adjacent elements to scan.
struct Lane<S: Scan> {
    /// The range of the dimension that the block covers.
    span: Range<usize>,
    /// The running value before them.
    carry: Option<S::State>,
    /// The position of the first one along the dimension.
    at: usize,
}

/// Scans lanes of equal length, but for the last of all, side by side.
fn scan_lanes<S: Scan>(
    x: &[S::In],
    out: &Shared<'_, S::Out>,
    lanes: Range<usize>,
    lane: impl Fn(usize) -> Lane<S>,
) {
    let mut l = lanes.start;
    while l < lanes.end {
        let here = lane(l);
        let len = here.span.len();
        let together = l + ROWS <= lanes.end && lane(l + ROWS - 1).span.len() == len;
        if together {
            let group = [here, lane(l + 1), lane(l + 2), lane(l + 3)];
            // SAFETY: each lane belongs to one range of one task.
            let part = |i: usize| unsafe { out.part(group[i].span.clone()) };
            let outs = [part(0), part(1), part(2), part(3)];
            scan_side_by_side::<S>(x, outs, group, len);
            l += ROWS;
        } else {
            // SAFETY: each lane belongs to one range of one task.
            let out = unsafe { out.part(here.span.clone()) };
            scan_lane::<S>(&x[here.span], out, here.carry, here.at);
            l += 1;
        }
    }
}

fn scan_side_by_side<S: Scan>(
    x: &[S::In],
    [y0, y1, y2, y3]: [&mut [S::Out]; ROWS],
    lanes: [Lane<S>; ROWS],
    len: usize,
) {
    if len == 0 {
        return;
    }
    // Cut to one length, of which the compiler knows that it bounds the index.
    let row = |i: usize| &x[lanes[i].span.clone()][..len];
    let (x0, x1, x2, x3) = (row(0), row(1), row(2), row(3));
    let (y0, y1, y2, y3) = (
        &mut y0[..len],
        &mut y1[..len],
        &mut y2[..len],
        &mut y3[..len],
    );
    let (a0, a1, a2, a3) = (lanes[0].at, lanes[1].at, lanes[2].at, lanes[3].at);
    let start = |lane: &Lane<S>, x: S::In| match lane.carry {
        Some(state) => S::step(state, x, lane.at),
        None => S::first(x, lane.at),
    };
    let mut s = [
        start(&lanes[0], x0[0]),
        start(&lanes[1], x1[0]),
        start(&lanes[2], x2[0]),
        start(&lanes[3], x3[0]),
    ];
    y0[0] = S::value(s[0]);
    y1[0] = S::value(s[1]);
    y2[0] = S::value(s[2]);
    y3[0] = S::value(s[3]);
    for i in 1..len {
        s = [
            S::step(s[0], x0[i], a0 + i),
            S::step(s[1], x1[i], a1 + i),
            S::step(s[2], x2[i], a2 + i),
            S::step(s[3], x3[i], a3 + i),
        ];
        y0[i] = S::value(s[0]);
        y1[i] = S::value(s[1]);
        y2[i] = S::value(s[2]);
        y3[i] = S::value(s[3]);
    }
}

fn scan_lane<S: Scan>(x: &[S::In], out: &mut [S::Out], carry: Option<S::State>, at: usize) {
    let mut state = carry;
    for (i, (&x, out)) in x.iter().zip(out).enumerate() {
        let next = match state {
            Some(state) => S::step(state, x, at + i),
            None => S::first(x, at + i),
        };
        *out = S::value(next);
        state = Some(next);
    }
}

/// Scans positions `span` of some columns, after elements whose running values are `carry` (none if empty).
struct Columns<'a, S: Scan> {
    x: &'a [S::In],
    out: Shared<'a, S::Out>,
    e: Extent,
    outer: usize,
    columns: Range<usize>,
    span: Range<usize>,
    carry: &'a [S::State],
}

impl<S: Scan> Loop for Columns<'_, S> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let mut running = self.carry.to_vec();
        for i in self.span {
            let from = (self.outer * self.e.len + i) * self.e.inner;
            let part = from + self.columns.start..from + self.columns.end;
            let x = &self.x[part.clone()];
            // SAFETY: the columns belong to one task, or these positions of them do.
            let out = unsafe { self.out.part(part) };
            if running.is_empty() {
                for (&x, out) in x.iter().zip(out) {
                    let state = S::first(x, i);
                    running.push(state);
                    *out = S::value(state);
                }
            } else {
                for ((state, &x), out) in running.iter_mut().zip(x).zip(out) {
                    *state = S::step(*state, x, i);
                    *out = S::value(*state);
                }
            }
        }
    }
}

/// The running values after positions `span` alone, which are not empty, of all columns.
fn totals<S: Scan>(
    x: &[S::In],
    e: Extent,
    outer: usize,
    span: Range<usize>,
    totals: &mut [Option<S::State>],
) {
    for i in span.clone() {
        let row = &x[(outer * e.len + i) * e.inner..][..e.inner];
        for (total, &x) in totals.iter_mut().zip(row) {
            *total = Some(match *total {
                Some(before) if i > span.start => S::step(before, x, i),
                _ => S::first(x, i),
            });
        }
    }
}

/// The running values after each of four equal stretches alone, of one column.
fn totals_side_by_side<S: Scan>(x: &[S::In], at: usize, len: usize) -> [S::State; ROWS] {
    let row = |i: usize| &x[i * len..][..len];
    let (x0, x1, x2, x3) = (row(0), row(1), row(2), row(3));
    let mut s = [
        S::first(x0[0], at),
        S::first(x1[0], at + len),
        S::first(x2[0], at + 2 * len),
        S::first(x3[0], at + 3 * len),
    ];
    for i in 1..len {
        s = [
            S::step(s[0], x0[i], at + i),
            S::step(s[1], x1[i], at + len + i),
            S::step(s[2], x2[i], at + 2 * len + i),
            S::step(s[3], x3[i], at + 3 * len + i),
        ];
    }
    s
}

/// Two passes over long lanes: the running value of each block alone, then each block from the joined values before.
fn blocked<S: Scan>(x: &[S::In], out: Shared<'_, S::Out>, e: Extent) {
    let blocks = e.len.div_ceil(BLOCK);
    let groups = blocks.div_ceil(ROWS);
    let span = |b: usize| b * BLOCK..((b + 1) * BLOCK).min(e.len);
    let mut carries: Vec<Option<S::State>> = vec![None; e.outer * blocks * e.inner];
    let shared = Shared::new(&mut carries);
    ranges(e.outer * groups, ROWS * BLOCK * e.inner, |range| {
        for task in range {
            let (o, group) = (task / groups, task % groups);
            let (first, end) = (group * ROWS, ((group + 1) * ROWS).min(blocks));
            let whole = first + ROWS == end && span(end - 1).len() == BLOCK;
            let at = (o * blocks + first) * e.inner;
            let n = (end - first) * e.inner;
            // SAFETY: each group of blocks is one task's.
            let carries = unsafe { shared.part(at..at + n) };
            if e.inner == 1 && whole {
                let x = &x[o * e.len..][span(first).start..span(end - 1).end];
                let found = totals_side_by_side::<S>(x, span(first).start, BLOCK);
                for i in 0..ROWS {
                    carries[i] = Some(found[i]);
                }
                continue;
            }
            for b in first..end {
                let carries = &mut carries[(b - first) * e.inner..][..e.inner];
                totals::<S>(x, e, o, span(b), carries);
            }
        }
    });
    // Each block's total is replaced by the running value before the block.
    for o in 0..e.outer {
        let mut before: Vec<Option<S::State>> = vec![None; e.inner];
        for b in 0..blocks {
            let at = (o * blocks + b) * e.inner;
            for (before, total) in before.iter_mut().zip(&mut carries[at..at + e.inner]) {
                let here = std::mem::replace(total, *before);
                *before = match (*before, here) {
                    (Some(a), Some(b)) => Some(S::join(a, b)),
                    (a, b) => b.or(a),
                };
            }
        }
    }
    ranges(e.outer * groups, ROWS * BLOCK * e.inner, |range| {
        for task in range {
            let (o, group) = (task / groups, task % groups);
            let lanes = group * ROWS..((group + 1) * ROWS).min(blocks);
            if e.inner == 1 {
                scan_lanes::<S>(x, &out, lanes, |b| Lane {
                    span: o * e.len + span(b).start..o * e.len + span(b).end,
                    carry: carries[o * blocks + b],
                    at: span(b).start,
                });
                continue;
            }
            for b in lanes {
                let carry = &carries[(o * blocks + b) * e.inner..][..e.inner];
                let carry: Vec<S::State> = carry.iter().filter_map(|&carry| carry).collect();
                let columns = 0..e.inner;
                dispatch(Columns::<S> {
                    x,
                    out,
                    e,
                    outer: o,
                    columns,
                    span: span(b),
                    carry: &carry,
                });
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<S: Scan>(x: &[S::In], e: Extent) -> Vec<S::Out>
    where
        S::Out: Default,
    {
        let mut out = vec![S::Out::default(); x.len()];
        scan::<S>(x, &mut out, e);
        out
    }

    fn row(len: usize) -> Extent {
        Extent {
            outer: 1,
            len,
            inner: 1,
        }
    }

    #[test]
    fn blocks_give_what_one_pass_gives() {
        let n = (LONG + 2) * BLOCK + 17;
        let x: Vec<i64> = (0..n as i64).map(|i| i * 7919 % 1000 - 500).collect();
        let mut total = 0;
        let want: Vec<i64> = x
            .iter()
            .map(|x| {
                total += x;
                total
            })
            .collect();
        assert_eq!(run::<Sum<i64>>(&x, row(n)), want);
        let mut best = 0;
        let want: Vec<i64> = (0..n)
            .map(|i| {
                if x[i] >= x[best] {
                    best = i;
                }
                best as i64
            })
            .collect();
        assert_eq!(run::<ArgMax<i64>>(&x, row(n)), want);
        let e = Extent {
            outer: 2,
            len: LONG * BLOCK + 5,
            inner: 3,
        };
        let x: Vec<i64> = (0..(e.outer * e.len * e.inner) as i64)
            .map(|i| i * 31 % 97)
            .collect();
        let got = run::<Sum<i64>>(&x, e);
        for (o, c) in [(0, 0), (1, 2)] {
            let mut total = 0;
            for i in 0..e.len {
                let at = (o * e.len + i) * e.inner + c;
                total += x[at];
                assert_eq!(got[at], total);
            }
        }
    }

    #[test]
    fn nan_and_ties_follow_pytorch() {
        let nan = f32::NAN;
        let x = [1.0, 3.0, 3.0, nan, 5.0, nan, 0.0];
        assert_eq!(run::<ArgMax<f32>>(&x, row(7)), [0, 1, 2, 3, 3, 5, 5]);
        assert_eq!(run::<ArgMin<f32>>(&x, row(7)), [0, 0, 0, 3, 3, 5, 5]);
        let max = run::<Max<f32>>(&x, row(7));
        assert_eq!(max[..3], [1.0, 3.0, 3.0]);
        assert!(max[3..].iter().all(|m| m.is_nan()));
    }

    #[test]
    fn log_sum_exp_meets_infinities() {
        let (inf, none) = (f64::INFINITY, f64::NEG_INFINITY);
        let got = run::<LogSumExp<f64>>(&[none, none, 0.0, 1000.0, inf, inf, none, 1.0], row(8));
        assert_eq!(got[..4], [none, (2f64).ln() + none, 0.0, 1000.0]);
        assert_eq!(got[4..], [inf; 4]);
        let got = run::<LogSumExp<f32>>(&[f32::NAN, 1.0, f32::INFINITY, 2.0], row(4));
        assert!(got.iter().all(|v| v.is_nan()));
        let got = run::<LogSumExp<f32>>(&[1.0, f32::INFINITY, f32::NAN, 2.0], row(4));
        assert!(got[1] == f32::INFINITY && got[2].is_nan() && got[3].is_nan());
    }

    #[test]
    fn rows_and_columns() {
        for e in [
            Extent {
                outer: 7,
                len: 5,
                inner: 1,
            },
            Extent {
                outer: 2,
                len: 4,
                inner: 3,
            },
            Extent {
                outer: 1,
                len: 3,
                inner: COLUMNS + 1,
            },
            Extent {
                outer: 9,
                len: 1,
                inner: 1,
            },
        ] {
            let x: Vec<i32> = (0..(e.outer * e.len * e.inner) as i32)
                .map(|i| i % 11 - 5)
                .collect();
            let got = run::<Sum<i32>>(&x, e);
            for o in 0..e.outer {
                for c in 0..e.inner {
                    let mut total = 0;
                    for i in 0..e.len {
                        let at = (o * e.len + i) * e.inner + c;
                        total += x[at];
                        assert_eq!(got[at], total, "{e:?}");
                    }
                }
            }
        }
    }
}
