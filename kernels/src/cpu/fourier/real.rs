//! Transforms of real numbers: an even length is one of half as many complex numbers (Press et al., Numerical Recipes, 12.3).

use super::group::{Job, Place};
use super::lanes::{Number, Pair, dispatch};
use super::passes::root;
use super::plan::{Plan, product};
use crate::cpu::dense::{Shared, ranges};
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Transforms between `n` real numbers and the n / 2 + 1 complex ones that are not conjugates of others.
#[derive(Debug)]
pub struct Real<T> {
    n: usize,
    /// Of n / 2 complex numbers for an even n, else of n.
    plan: Plan<T>,
    /// exp(−2πik/n) for k up to n / 4.
    roots: Vec<Pair<T>>,
}

impl<T: Number> Real<T> {
    /// Of this length.
    pub fn new(n: usize) -> Real<T> {
        Real {
            n,
            plan: Plan::new(if n.is_multiple_of(2) { n / 2 } else { n }),
            roots: (0..=n / 4).map(|k| root(k, n)).collect(),
        }
    }

    /// Numbers that it keeps, about.
    pub fn size(&self) -> usize {
        self.plan.size() + self.roots.len()
    }

    /// The transforms of rows of real numbers.
    pub fn forward(&self, x: &[T], out: &mut [Pair<T>]) {
        let (n, half) = (self.n, self.n / 2 + 1);
        let shared = Shared::new(out);
        self.blocks(x.len() / n, |block| {
            // SAFETY: blocks of rows are disjoint.
            let out = unsafe { shared.part(block.start * half..block.end * half) };
            let x = &x[block.start * n..block.end * n];
            if n.is_multiple_of(2) {
                self.transform((x.as_chunks().0, n / 2), (out, half), false, T::of(1.0));
                out.chunks_exact_mut(half).for_each(|out| self.part(out));
                return;
            }
            let x: Vec<Pair<T>> = x.iter().map(|&x| [x, T::of(0.0)]).collect();
            let mut all = vec![[T::of(0.0); 2]; x.len()];
            self.transform((&x, n), (&mut all, n), false, T::of(1.0));
            for (out, all) in out.chunks_exact_mut(half).zip(all.chunks_exact(n)) {
                out.copy_from_slice(&all[..half]);
                out[0][1] = T::of(0.0);
            }
        });
    }

    /// The inverse transforms of rows of complex numbers, over the length.
    pub fn inverse(&self, x: &[Pair<T>], out: &mut [T]) {
        let (n, half, scale) = (self.n, self.n / 2 + 1, T::of(1.0 / self.n as f64));
        let shared = Shared::new(out);
        self.blocks(x.len() / half, |block| {
            // SAFETY: blocks of rows are disjoint.
            let out = unsafe { shared.part(block.start * n..block.end * n) };
            let x = &x[block.start * half..block.end * half];
            let length = if n.is_multiple_of(2) { n / 2 } else { n };
            let mut whole = vec![[T::of(0.0); 2]; length * block.len()];
            if n.is_multiple_of(2) {
                let rows = whole.chunks_exact_mut(length);
                for (x, whole) in x.chunks_exact(half).zip(rows) {
                    self.join(x, whole);
                }
                let out = out.as_chunks_mut().0;
                self.transform((&whole, length), (out, length), true, scale);
                return;
            }
            for (x, whole) in x.chunks_exact(half).zip(whole.chunks_exact_mut(n)) {
                mirror(x, whole);
            }
            let mut all = vec![[T::of(0.0); 2]; whole.len()];
            self.transform((&whole, n), (&mut all, n), true, scale);
            for (out, &[re, _]) in out.iter_mut().zip(&all) {
                *out = re;
            }
        });
    }

    /// Calls `f` on ranges of lines, in parallel where it is worth it.
    fn blocks(&self, lines: usize, f: impl Fn(Range<usize>) + Sync) {
        let most = ((1 << 14) / self.n).clamp(1, 64);
        match lines.div_ceil(most) {
            0 => {}
            1 => f(0..lines),
            parts => ranges(parts, 16 * self.n * most, |parts| {
                for part in parts {
                    f(part * most..lines.min((part + 1) * most));
                }
            }),
        }
    }

    /// Transforms rows, each of which lies in a row of so many numbers.
    fn transform(
        &self,
        (from, row): (&[Pair<T>], usize),
        (to, wide): (&mut [Pair<T>], usize),
        inverse: bool,
        scale: T,
    ) {
        let job = Job {
            from,
            read: Place::rows(row),
            to: Shared::new(to),
            write: Place::rows(wide),
            inverse,
            scale,
        };
        self.plan.run(&job, from.len() / row);
    }

    /// See [`Part`].
    fn part(&self, z: &mut [Pair<T>]) {
        let half = z.len() - 1;
        let [re, im] = z[0];
        (z[0], z[half]) = ([re + im, T::of(0.0)], [re - im, T::of(0.0)]);
        let (low, high) = ends(&mut z[..half]);
        let roots = self.roots.get(1..).unwrap_or_default();
        dispatch(Part { low, high, roots });
        if half.is_multiple_of(2) {
            // E and O are real there, and the root is −i.
            let [a, b] = z[half / 2];
            z[half / 2] = [a, -b];
        }
    }

    /// See [`Join`].
    fn join(&self, x: &[Pair<T>], z: &mut [Pair<T>]) {
        let half = z.len();
        z.copy_from_slice(&x[..half]);
        let (first, last) = (x[0][0], x[half][0]);
        z[0] = [first + last, first - last];
        let (low, high) = ends(z);
        let roots = self.roots.get(1..).unwrap_or_default();
        dispatch(Join { low, high, roots });
        if half.is_multiple_of(2) {
            let ([a, b], two) = (x[half / 2], T::of(2.0));
            z[half / 2] = [a * two, -b * two];
        }
    }
}

/// The transforms of n real numbers in place of those of n / 2 complex ones, whose parts they are. Those of the even and of the
/// odd numbers, E and O, are z[k] ± conj(z[n/2 − k]) over 2 and 2i, and number k of all is E[k] + exp(−2πik/n)·O[k].
struct Part<'a, T> {
    low: &'a mut [Pair<T>],
    high: &'a mut [Pair<T>],
    roots: &'a [Pair<T>],
}

impl<T: Number> WithSimd for Part<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let two = T::of(0.5);
        let pairs = self.low.iter_mut().zip(self.high.iter_mut().rev());
        for ((low, high), &root) in pairs.zip(self.roots) {
            let ([a, b], [c, d]) = (*low, *high);
            let even = [(a + c) * two, (b - d) * two];
            let odd = product(root, [(b + d) * two, (c - a) * two]);
            *low = [even[0] + odd[0], even[1] + odd[1]];
            *high = [even[0] - odd[0], odd[1] - even[1]];
        }
    }
}

/// What [`Part`] is given, times 2, from its result.
struct Join<'a, T> {
    low: &'a mut [Pair<T>],
    high: &'a mut [Pair<T>],
    roots: &'a [Pair<T>],
}

impl<T: Number> WithSimd for Join<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let pairs = self.low.iter_mut().zip(self.high.iter_mut().rev());
        for ((low, high), &[re, im]) in pairs.zip(self.roots) {
            let ([a, b], [c, d]) = (*low, *high);
            let even = [a + c, b - d];
            let odd = product([re, -im], [a - c, b + d]);
            *low = [even[0] - odd[1], even[1] + odd[0]];
            *high = [even[0] + odd[1], odd[0] - even[1]];
        }
    }
}

/// Numbers k and n − k for k from 1 on, but where both are the same: those at the start, and those at the end in reversed order.
#[inline(always)]
fn ends<T>(z: &mut [Pair<T>]) -> (&mut [Pair<T>], &mut [Pair<T>]) {
    let count = z.len().saturating_sub(1) / 2;
    let (low, high) = z.split_at_mut(z.len() - count);
    (low.get_mut(1..=count).unwrap_or_default(), high)
}

/// All numbers of an odd length from those that are not conjugates of others.
fn mirror<T: Number>(x: &[Pair<T>], all: &mut [Pair<T>]) {
    let n = all.len();
    all[0] = [x[0][0], T::of(0.0)];
    for (k, &[re, im]) in x.iter().enumerate().skip(1) {
        all[k] = [re, im];
        all[n - k] = [re, -im];
    }
}
