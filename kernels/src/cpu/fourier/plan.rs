//! How a length is transformed.
//!
//! Short lengths without a large prime factor are passes over groups of lines. A long line of n₁·n₂ numbers is split as Cooley and
//! Tukey do: n₂ lines of n₁ numbers that are n₂ apart, factors, and n₁ lines of n₂ numbers, all of which have lanes. A length with a large prime factor
//! becomes a convolution (Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970).

use super::group::{Groups, Job, Place, Twiddles};
use super::lanes::{Number, Pair, WIDEST, dispatch, width};
use super::passes::{Passes, root, taken};
use crate::cpu::dense::{Shared, ranges, scratch};
use ferrotrace_runtime::Pool;
use pulp::{Simd, WithSimd};
use smallvec::SmallVec;
use std::marker::PhantomData;
use std::ops::Range;

/// The greatest length that is not split.
const WHOLE: usize = 256;
/// Numbers of convolutions that are computed at a time, about.
const SIDE: usize = 1 << 12;
/// Numbers of lines that are copied to rows at a time, about.
const STAGED: usize = 1 << 15;
/// Lines of those at least.
const LEAST_STAGED: usize = 4;

/// How lines of a length are transformed.
#[derive(Debug)]
pub enum Plan<T> {
    /// Passes over groups of lines.
    Whole(Passes<T>),
    /// Lines within each line.
    Split(Box<Split<T>>),
    /// A convolution.
    Convolution(Box<Convolution<T>>),
}

/// A length as a product.
#[derive(Debug)]
pub struct Split<T> {
    first: Passes<T>,
    twiddles: Twiddles<T>,
    second: Plan<T>,
    n: usize,
}

/// A convolution with a chirp: jk = (j² + k² − (k − j)²) / 2.
#[derive(Debug)]
pub struct Convolution<T> {
    /// exp(−πij²/n).
    chirp: Vec<Pair<T>>,
    /// The transform of what is convolved with, over its length.
    kernel: Vec<Pair<T>>,
    plan: Plan<T>,
}

/// Asks for the numbers of a vector.
struct Width<T>(PhantomData<T>);

impl<T: Number> WithSimd for Width<T> {
    type Output = usize;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> usize {
        width::<T, S>()
    }
}

/// The numbers of a vector of this machine.
fn vector<T: Number>() -> usize {
    dispatch(Width::<T>(PhantomData))
}

/// The first length that a long one is split into: the divisor that leaves parts as equal as divisors are.
fn first_length(n: usize) -> usize {
    let (size, most) = ((n as f64).ln(), (WHOLE as f64).ln());
    let target = size / (size / most).ceil();
    let distance = |divisor: usize| ((divisor as f64).ln() - target).abs();
    let divisors = (2..=WHOLE).filter(|divisor| n.is_multiple_of(*divisor));
    divisors
        .min_by(|&a, &b| distance(a).total_cmp(&distance(b)))
        .unwrap_or(n)
}

/// The least length of at least `n` that is a power of two, or that times 3, 5, 9 or 15.
fn convolution_length(n: usize) -> usize {
    let least = |odd: usize| odd * n.div_ceil(odd).next_power_of_two();
    [1, 3, 5, 9, 15].map(least).into_iter().min().unwrap_or(n)
}

/// Operations of a transform of `n` numbers, about.
fn cost(n: usize) -> usize {
    2 * n * (n.max(2).ilog2() as usize + 2)
}

impl<T: Number> Plan<T> {
    /// The plan of a length.
    pub fn new(n: usize) -> Plan<T> {
        if !taken(n) {
            return Plan::Convolution(Box::new(Convolution::new(n)));
        }
        if n <= WHOLE {
            return Plan::Whole(Passes::new(n));
        }
        let first = first_length(n);
        Plan::Split(Box::new(Split {
            first: Passes::new(first),
            twiddles: Twiddles::new(first, n / first, vector::<T>()),
            second: Plan::new(n / first),
            n,
        }))
    }

    /// Numbers that it keeps, about.
    pub fn size(&self) -> usize {
        match self {
            Plan::Whole(passes) => 2 * passes.n,
            Plan::Split(split) => split.n / 4 + split.second.size(),
            Plan::Convolution(of) => of.chirp.len() + of.kernel.len() + of.plan.size(),
        }
    }

    /// Its length.
    fn length(&self) -> usize {
        match self {
            Plan::Whole(passes) => passes.n,
            Plan::Split(split) => split.n,
            Plan::Convolution(of) => of.chirp.len(),
        }
    }

    /// Transforms the first `lines` lines of a job, on the pool's threads where it is worth it.
    pub fn run(&self, job: &Job<'_, T>, lines: usize) {
        match self {
            Plan::Whole(passes) => whole(passes, job, None, lines),
            _ if lines > 1 && (job.read.element, job.write.element) != (1, 1) => {
                self.in_rows(job, lines);
            }
            Plan::Split(split) => each(lines, 1, split.n, &|lines, memory| {
                split.run(job, lines.start, memory);
            }),
            Plan::Convolution(of) => each(
                lines,
                of.side_by_side(),
                2 * of.kernel.len(),
                &|lines, memory| of.run(job, lines, memory),
            ),
        }
    }

    /// Transforms lines that are copied to rows and back, a few at a time: those that lie side by side share lines of the cache.
    fn in_rows(&self, job: &Job<'_, T>, lines: usize) {
        let n = self.length();
        let most = (STAGED / n).clamp(LEAST_STAGED, WIDEST).min(lines);
        // Rows that begin at different places of the first cache.
        let pitch = n + 8;
        each(lines, most, 2 * pitch, &|lines, memory| {
            let (x, y) = memory.split_at_mut(pitch * most);
            let first: SmallVec<[usize; WIDEST]> =
                lines.clone().map(|line| job.read.first(line)).collect();
            for j in 0..n {
                for (row, first) in first.iter().enumerate() {
                    x[row * pitch + j] = job.from[first + j * job.read.element];
                }
            }
            let rows = Job {
                from: x,
                read: Place::rows(pitch),
                to: Shared::new(y),
                write: Place::rows(pitch),
                ..*job
            };
            self.run(&rows, lines.len());
            let first: SmallVec<[usize; WIDEST]> =
                lines.map(|line| job.write.first(line)).collect();
            for k in 0..n {
                for (row, first) in first.iter().enumerate() {
                    job.put(first + k * job.write.element, y[row * pitch + k]);
                }
            }
        });
    }
}

/// Lines a lane each.
fn whole<T: Number>(
    passes: &Passes<T>,
    job: &Job<'_, T>,
    twiddles: Option<&Twiddles<T>>,
    lines: usize,
) {
    let width = vector::<T>();
    ranges(lines.div_ceil(width), cost(passes.n) * width, |groups| {
        scratch(Groups::<T>::memory(passes.n), |memory| {
            dispatch(Groups {
                passes,
                job,
                twiddles,
                groups,
                lines,
                slots: &passes.slots,
                memory,
            });
        });
    });
}

/// What is done to lines, with memory.
type OnLines<'a, T> = dyn Fn(Range<usize>, &mut [Pair<T>]) + Sync + 'a;

/// Calls `f(lines, memory)` on at most `most` lines at a time, with memory of `numbers` complex numbers for each. A few long lines
/// have all threads in turns.
fn each<T: Number>(lines: usize, most: usize, numbers: usize, f: &OnLines<'_, T>) {
    let parts = lines.div_ceil(most);
    let some = |parts: Range<usize>| {
        let mut memory = vec![[T::of(0.0); 2]; numbers * most.min(lines)];
        for part in parts {
            f(part * most..lines.min((part + 1) * most), &mut memory);
        }
    };
    match parts < Pool::global().threads() {
        true => some(0..parts),
        false => ranges(parts, cost(numbers) * most, some),
    }
}

impl<T: Number> Split<T> {
    fn run(&self, job: &Job<'_, T>, line: usize, memory: &mut [Pair<T>]) {
        let (first, second) = (self.first.n, self.n / self.first.n);
        // Number j of strand i is number j·second + i of the line.
        let strands = Job {
            read: job.read.strands(line, second),
            to: Shared::new(memory),
            write: Place::columns(second),
            scale: T::of(1.0),
            ..*job
        };
        whole(&self.first, &strands, Some(&self.twiddles), second);
        let rest = Job {
            from: memory,
            read: Place::rows(second),
            write: job.write.strands(line, first),
            ..*job
        };
        self.second.run(&rest, first);
    }
}

impl<T: Number> Convolution<T> {
    fn new(n: usize) -> Convolution<T> {
        let length = convolution_length(2 * n - 1);
        let plan = Plan::new(length);
        // Squares are taken modulo 2n: the chirp has that period.
        let square = |j: usize| (j as u128 * j as u128 % (2 * n as u128)) as usize;
        let chirp: Vec<Pair<T>> = (0..n).map(|j| root(square(j), 2 * n)).collect();
        let mut taps = vec![[T::of(0.0); 2]; length];
        for (j, &[re, im]) in chirp.iter().enumerate() {
            taps[j] = [re, -im];
            taps[(length - j) % length] = [re, -im];
        }
        let mut kernel = vec![[T::of(0.0); 2]; length];
        let job = Job {
            from: &taps,
            read: Place::rows(length),
            to: Shared::new(&mut kernel),
            write: Place::rows(length),
            inverse: false,
            scale: T::of(1.0 / length as f64),
        };
        plan.run(&job, 1);
        Convolution {
            chirp,
            kernel,
            plan,
        }
    }

    /// Lines that are transformed at a time.
    fn side_by_side(&self) -> usize {
        (SIDE / self.kernel.len()).clamp(1, WIDEST)
    }

    fn run(&self, job: &Job<'_, T>, lines: Range<usize>, memory: &mut [Pair<T>]) {
        let (n, length) = (self.chirp.len(), self.kernel.len());
        let exchanged = |[re, im]: Pair<T>| if job.inverse { [im, re] } else { [re, im] };
        let (x, y) = memory[..2 * length * lines.len()].split_at_mut(length * lines.len());
        for (x, line) in x.chunks_exact_mut(length).zip(lines.clone()) {
            let first = job.read.first(line);
            let numbers = job.from[first..].iter().step_by(job.read.element);
            for (x, &number) in x.iter_mut().zip(numbers).take(n) {
                *x = exchanged(number);
            }
            multiply(&mut x[..n], &self.chirp);
            x[n..].fill([T::of(0.0); 2]);
        }
        self.transformed(x, y, false);
        for y in y.chunks_exact_mut(length) {
            multiply(y, &self.kernel);
        }
        self.transformed(y, x, true);
        for (x, line) in x.chunks_exact_mut(length).zip(lines) {
            let (first, x) = (job.write.first(line), &mut x[..n]);
            multiply(x, &self.chirp);
            for (k, &x) in x.iter().enumerate() {
                let [re, im] = exchanged(x);
                job.put(
                    first + k * job.write.element,
                    [re * job.scale, im * job.scale],
                );
            }
        }
    }

    /// The transforms of rows.
    fn transformed(&self, from: &[Pair<T>], to: &mut [Pair<T>], inverse: bool) {
        let (length, lines) = (self.kernel.len(), from.len() / self.kernel.len());
        let job = Job {
            from,
            read: Place::rows(length),
            to: Shared::new(to),
            write: Place::rows(length),
            inverse,
            scale: T::of(1.0),
        };
        self.plan.run(&job, lines);
    }
}

/// The product of complex numbers.
#[inline(always)]
pub fn product<T: Number>([a, b]: Pair<T>, [c, d]: Pair<T>) -> Pair<T> {
    [a * c - b * d, a * d + b * c]
}

/// Multiplies numbers by others.
fn multiply<T: Number>(x: &mut [Pair<T>], by: &[Pair<T>]) {
    dispatch(Product { x, by });
}

struct Product<'a, T> {
    x: &'a mut [Pair<T>],
    by: &'a [Pair<T>],
}

impl<T: Number> WithSimd for Product<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        for (x, &by) in self.x.iter_mut().zip(self.by) {
            *x = product(*x, by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lengths_are_split_evenly() {
        let lengths = [1000, 1 << 20, 1 << 10, 2 * 61 * 61].map(first_length);
        assert_eq!(lengths, [25, 128, 32, 61]);
    }

    #[test]
    fn convolutions_are_little_longer_than_needed() {
        let lengths = [1, 133, 20_013, 17, 26].map(convolution_length);
        assert_eq!(lengths, [1, 144, 20_480, 18, 30]);
    }
}
