//! Scans along the middle dimension of `[outer, len, inner]` arrays.

use super::dense::{Shared, ranges};
use super::number::{Number, Wide};
use std::marker::PhantomData;
use std::ops::Range;

/// Rows scanned side by side, so that one addition need not wait for the one before it.
const ROWS: usize = 4;
/// Columns scanned side by side: their running values stay in the first-level cache.
const COLUMNS: usize = 512;
/// A dimension of at least two blocks is scanned by blocks, if there are few lanes.
const BLOCK: usize = 1 << 16;
/// What "few lanes" means.
const LANES: usize = 64;

/// A row-major array seen from one of its dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// Elements before the dimension.
    pub outer: usize,
    /// Its size.
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
fold!(Sum, "Running sum.", plus);
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
    #[inline]
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
            // Also where either is NaN: the sum is NaN from here on.
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
    if e.len >= 2 * BLOCK && e.outer * e.inner < LANES {
        return blocked::<S>(x, out, e);
    }
    if e.inner == 1 {
        let groups = e.outer.div_ceil(ROWS);
        ranges(groups, ROWS * e.len, |range| {
            let rows = range.start * ROWS..(range.end * ROWS).min(e.outer);
            scan_rows::<S>(x, &out, rows, e.len);
        });
    } else {
        let pieces = e.inner.div_ceil(COLUMNS);
        ranges(e.outer * pieces, COLUMNS.min(e.inner) * e.len, |range| {
            for task in range {
                let (o, piece) = (task / pieces, task % pieces);
                let columns = piece * COLUMNS..((piece + 1) * COLUMNS).min(e.inner);
                let mut running = Vec::with_capacity(columns.len());
                scan_columns::<S>(x, &out, e, o, columns, 0..e.len, &mut running);
            }
        });
    }
}

fn scan_rows<S: Scan>(x: &[S::In], out: &Shared<'_, S::Out>, rows: Range<usize>, len: usize) {
    let mut r = rows.start;
    while r + ROWS <= rows.end {
        let span = r * len..(r + ROWS) * len;
        // SAFETY: each row belongs to one range of one task.
        let out = unsafe { out.part(span.clone()) };
        scan_side_by_side::<S>(&x[span], out, len);
        r += ROWS;
    }
    for r in r..rows.end {
        let span = r * len..(r + 1) * len;
        // SAFETY: as above.
        let out = unsafe { out.part(span.clone()) };
        scan_lane::<S>(&x[span], out, None, 0);
    }
}

fn scan_side_by_side<S: Scan>(x: &[S::In], out: &mut [S::Out], len: usize) {
    let (x0, rest) = x.split_at(len);
    let (x1, rest) = rest.split_at(len);
    let (x2, x3) = rest.split_at(len);
    let (y0, rest) = out.split_at_mut(len);
    let (y1, rest) = rest.split_at_mut(len);
    let (y2, y3) = rest.split_at_mut(len);
    // Cut to one length, of which the compiler knows that it bounds the index.
    let (x1, x2, x3) = (&x1[..len], &x2[..len], &x3[..len]);
    let (y1, y2, y3) = (&mut y1[..len], &mut y2[..len], &mut y3[..len]);
    let mut s = [S::first(x0[0], 0), S::first(x1[0], 0), S::first(x2[0], 0), S::first(x3[0], 0)];
    for (y, s) in [&mut y0[0], &mut y1[0], &mut y2[0], &mut y3[0]].into_iter().zip(s) {
        *y = S::value(s);
    }
    for i in 1..len {
        s = [
            S::step(s[0], x0[i], i),
            S::step(s[1], x1[i], i),
            S::step(s[2], x2[i], i),
            S::step(s[3], x3[i], i),
        ];
        y0[i] = S::value(s[0]);
        y1[i] = S::value(s[1]);
        y2[i] = S::value(s[2]);
        y3[i] = S::value(s[3]);
    }
}

/// Scans one lane that starts at position `at` after elements whose running value is `carry`.
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

/// Scans positions `span` of some columns; `running` holds the running values before it, and after it, on return.
fn scan_columns<S: Scan>(
    x: &[S::In],
    out: &Shared<'_, S::Out>,
    e: Extent,
    outer: usize,
    columns: Range<usize>,
    span: Range<usize>,
    running: &mut Vec<S::State>,
) {
    for i in span {
        let from = (outer * e.len + i) * e.inner;
        let x = &x[from + columns.start..from + columns.end];
        // SAFETY: the columns belong to one task, or these positions of them do.
        let out = unsafe { out.part(from + columns.start..from + columns.end) };
        if running.is_empty() {
            running.extend(x.iter().map(|&x| S::first(x, i)));
        } else {
            for (state, &x) in running.iter_mut().zip(x) {
                *state = S::step(*state, x, i);
            }
        }
        for (out, state) in out.iter_mut().zip(running.iter()) {
            *out = S::value(*state);
        }
    }
}

/// Two passes over long lanes: the running value of each block alone, then each block from the joined values before.
fn blocked<S: Scan>(x: &[S::In], out: Shared<'_, S::Out>, e: Extent) {
    let blocks = e.len.div_ceil(BLOCK);
    let span = |b: usize| b * BLOCK..((b + 1) * BLOCK).min(e.len);
    let lane = |o: usize, i: usize| (o * e.len + i) * e.inner;
    let mut totals: Vec<Option<S::State>> = vec![None; e.outer * blocks * e.inner];
    let shared = Shared::new(&mut totals);
    ranges(e.outer * blocks, BLOCK * e.inner, |range| {
        for task in range {
            let (o, b) = (task / blocks, task % blocks);
            // SAFETY: each block is one task's.
            let totals = unsafe { shared.part(task * e.inner..(task + 1) * e.inner) };
            for i in span(b) {
                for (total, &x) in totals.iter_mut().zip(&x[lane(o, i)..]) {
                    *total = Some(match *total {
                        Some(state) => S::step(state, x, i),
                        None => S::first(x, i),
                    });
                }
            }
        }
    });
    // Each block's total becomes the running value before it.
    for o in 0..e.outer {
        let mut before: Vec<Option<S::State>> = vec![None; e.inner];
        for b in 0..blocks {
            let at = (o * blocks + b) * e.inner;
            for (before, total) in before.iter_mut().zip(&mut totals[at..at + e.inner]) {
                let here = std::mem::replace(total, *before);
                *before = match (*before, here) {
                    (Some(a), Some(b)) => Some(S::join(a, b)),
                    (a, b) => b.or(a),
                };
            }
        }
    }
    ranges(e.outer * blocks, BLOCK * e.inner, |range| {
        for task in range {
            let (o, b) = (task / blocks, task % blocks);
            let carry = &totals[task * e.inner..(task + 1) * e.inner];
            if e.inner == 1 {
                let at = lane(o, span(b).start)..lane(o, span(b).end);
                // SAFETY: each block is one task's.
                let out = unsafe { out.part(at.clone()) };
                scan_lane::<S>(&x[at], out, carry[0], span(b).start);
            } else {
                let mut running: Vec<S::State> = carry.iter().flatten().copied().collect();
                scan_columns::<S>(x, &out, e, o, 0..e.inner, span(b), &mut running);
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
        Extent { outer: 1, len, inner: 1 }
    }

    #[test]
    fn blocks_give_what_one_pass_gives() {
        let n = 3 * BLOCK + 17;
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
        let e = Extent { outer: 2, len: 2 * BLOCK, inner: 3 };
        let x: Vec<i64> = (0..(e.outer * e.len * e.inner) as i64).map(|i| i * 31 % 97).collect();
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
            Extent { outer: 7, len: 5, inner: 1 },
            Extent { outer: 2, len: 4, inner: 3 },
            Extent { outer: 1, len: 3, inner: COLUMNS + 1 },
            Extent { outer: 9, len: 1, inner: 1 },
        ] {
            let x: Vec<i32> = (0..(e.outer * e.len * e.inner) as i32).map(|i| i % 11 - 5).collect();
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
