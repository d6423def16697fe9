//! Groups of lines, a lane each: numbers come from where they lie, are transformed by passes, and go where they belong.

use super::lanes::{Lanes, Number, Pair, WIDEST, width};
use super::passes::Passes;
use crate::cpu::dense::Shared;
use pulp::{Simd, WithSimd};
use std::ops::Range;

/// Where lines of complex numbers lie: `inner` lines beside each other, then others; distances in numbers.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The first number of line 0.
    pub start: usize,
    /// From a number of a line to the next.
    pub element: usize,
    /// Lines that are `step` apart.
    pub inner: usize,
    /// From a line to the next.
    pub step: usize,
    /// From so many lines to the next ones.
    pub outer: usize,
}

impl Place {
    /// Lines that are the rows of a matrix with rows of `row` numbers.
    pub fn rows(row: usize) -> Place {
        Place {
            start: 0,
            element: 1,
            inner: 1,
            step: 0,
            outer: row,
        }
    }

    /// Lines that are the columns of a matrix with rows of `row` numbers.
    pub fn columns(row: usize) -> Place {
        Place {
            start: 0,
            element: row,
            inner: row,
            step: 1,
            outer: 0,
        }
    }

    /// The lines of a dimension of `n` numbers, of which `inner` lie beside each other.
    pub fn along(n: usize, inner: usize) -> Place {
        Place {
            start: 0,
            element: inner,
            inner,
            step: 1,
            outer: n * inner,
        }
    }

    /// The first number of a line.
    #[inline(always)]
    pub fn first(&self, line: usize) -> usize {
        self.start + line / self.inner * self.outer + line % self.inner * self.step
    }

    /// The lines of every number of line `line` that is `apart` numbers behind another: each begins a number later.
    pub fn strands(&self, line: usize, apart: usize) -> Place {
        Place {
            start: self.first(line),
            element: self.element * apart,
            inner: apart,
            step: self.element,
            outer: 0,
        }
    }
}

/// What is transformed, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a, T> {
    /// Numbers.
    pub from: &'a [Pair<T>],
    /// Where their lines lie.
    pub read: Place,
    /// Results.
    pub to: Shared<'a, Pair<T>>,
    /// Where their lines lie.
    pub write: Place,
    /// The signs of the exponents are positive: parts are exchanged as they are read and as they are written.
    pub inverse: bool,
    /// A factor of the results.
    pub scale: T,
}

impl<T: Number> Job<'_, T> {
    /// Writes a result, which is a number of a line of this thread.
    #[inline(always)]
    pub fn put(&self, at: usize, number: Pair<T>) {
        // SAFETY: lines have no numbers in common, and a line is one thread's.
        let place = unsafe { self.to.part(at..at + 1) };
        place[0] = number;
    }
}

/// Factors of the numbers of lines, powers of a root: number k of line j has the power j·k. Lines stand in groups as wide as
/// vectors.
#[derive(Debug)]
pub struct Twiddles<T> {
    /// For each k, the powers of the lines of a group over that of its first line.
    within: Vec<Pair<T>>,
    /// For each group, those of its first line for each k.
    first: Vec<Pair<T>>,
}

impl<T: Number> Twiddles<T> {
    /// Of `lines` lines of `n` numbers, powers of the root of order n·`lines`.
    pub fn new(n: usize, lines: usize, width: usize) -> Twiddles<T> {
        let power = |at: usize| super::passes::root(at, n * lines);
        let within = (0..n).flat_map(|k| (0..width).map(move |line| power(k * line)));
        let groups = lines.div_ceil(width);
        let first = (0..groups).flat_map(|g| (0..n).map(move |k| power(g * width * k)));
        Twiddles {
            within: within.collect(),
            first: first.collect(),
        }
    }

    /// Multiplies the numbers of a group by their factors, of which the first is 1.
    #[inline(always)]
    fn multiply<S: Simd>(&self, simd: S, x: &mut [[T::Vector<S>; 2]], group: usize) {
        let within = T::vectors::<S>(self.within.as_flattened());
        let within = within.as_chunks::<2>().0;
        let first = &self.first[group * x.len()..][..x.len()];
        for ((x, &within), &first) in x.iter_mut().zip(within).zip(first).skip(1) {
            let within = Lanes::<T, S>::new(simd, T::parts(simd, within));
            let factor = within.times(Lanes::splat(simd, first));
            let number = Lanes::new(simd, *x).times(factor);
            *x = [number.re, number.im];
        }
    }
}

/// Some groups of a job.
pub struct Groups<'a, T: Number> {
    pub passes: &'a Passes<T>,
    pub job: &'a Job<'a, T>,
    pub twiddles: Option<&'a Twiddles<T>>,
    /// Groups, as wide as a vector.
    pub groups: Range<usize>,
    /// How many lines the job has.
    pub lines: usize,
    /// See [`Slots`](super::lanes::Slots).
    pub slots: &'a [usize; WIDEST],
    /// Memory for [`Groups::memory`] numbers.
    pub memory: &'a mut [T],
}

impl<T: Number> Groups<'_, T> {
    /// The numbers of memory that lines of `n` take: real and imaginary parts, twice.
    pub fn memory(n: usize) -> usize {
        4 * (n + 1) * WIDEST
    }
}

/// Slices of real and imaginary parts.
#[inline(always)]
fn rows<T: Number, S: Simd>(x: &mut [T]) -> &mut [[T::Vector<S>; 2]] {
    T::vectors_mut::<S>(x).as_chunks_mut::<2>().0
}

/// The lines of a group.
struct Lines {
    /// The first number of each.
    first: [usize; WIDEST],
    count: usize,
    /// All lanes have lines, and their numbers lie side by side.
    dense: bool,
}

impl Lines {
    #[inline(always)]
    fn of(place: &Place, lines: Range<usize>, width: usize) -> Lines {
        let (count, inner) = (lines.len(), place.inner);
        let mut first = [0; WIDEST];
        let mut at = (lines.start / inner, lines.start % inner);
        for first in &mut first[..count] {
            *first = place.start + at.0 * place.outer + at.1 * place.step;
            at = match at.1 + 1 == inner {
                true => (at.0 + 1, 0),
                false => (at.0, at.1 + 1),
            };
        }
        let beside = |l: usize| first[l] == first[0] + l;
        Lines {
            first,
            count,
            dense: count == width && (0..width).all(beside),
        }
    }
}

impl<T: Number> WithSimd for Groups<'_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Groups {
            passes,
            job,
            twiddles,
            groups,
            lines,
            slots,
            memory,
        } = self;
        let (n, width) = (passes.n, width::<T, S>());
        let half = 2 * (n + 1) * width;
        let (a, b) = memory[..2 * half].split_at_mut(half);
        for group in groups {
            let lines = group * width..lines.min((group + 1) * width);
            let from = Lines::of(&job.read, lines.clone(), width);
            gather::<T, S>(simd, job, &from, (n, slots), a, b);
            let moved = passes.run(simd, rows::<T, S>(a), rows::<T, S>(b));
            let (found, other) = match moved {
                true => (&mut *b, &mut *a),
                false => (&mut *a, &mut *b),
            };
            if let Some(twiddles) = twiddles {
                twiddles.multiply::<S>(simd, &mut rows::<T, S>(found)[..n], group);
            }
            let to = Lines::of(&job.write, lines, width);
            scatter::<T, S>(simd, job, &to, (n, slots), found, other);
        }
    }
}

/// Numbers of a line that are moved at a time.
const BLOCK: usize = 8;

/// Reads lines of `n` numbers as vectors of real and of imaginary parts.
#[inline(always)]
fn gather<T: Number, S: Simd>(
    simd: S,
    job: &Job<'_, T>,
    lines: &Lines,
    (n, slots): (usize, &[usize; WIDEST]),
    x: &mut [T],
    other: &mut [T],
) {
    let width = width::<T, S>();
    let element = job.read.element;
    let order = |[re, im]: [T::Vector<S>; 2]| if job.inverse { [im, re] } else { [re, im] };
    let x = &mut rows::<T, S>(x)[..n];
    if lines.dense {
        for (j, row) in x.iter_mut().enumerate() {
            let pairs = &job.from[lines.first[0] + j * element..][..width];
            let pairs = T::vectors::<S>(pairs.as_flattened());
            *row = order(T::parts(simd, [pairs[0], pairs[1]]));
        }
        return;
    }
    if lines.count < width {
        other.fill(T::of(0.0));
    }
    let firsts = &lines.first[..lines.count];
    if element == 1 {
        // Records of two numbers.
        let records = other.as_chunks_mut::<2>().0.as_chunks_mut::<2>().0;
        for (&first, &slot) in firsts.iter().zip(slots) {
            let (twos, last) = job.from[first..first + n].as_chunks::<2>();
            let mut rows = records.chunks_exact_mut(width);
            for (two, row) in twos.iter().zip(&mut rows) {
                row[slot] = *two;
            }
            if let (&[last], Some(row)) = (last, rows.next()) {
                row[slot] = [last; 2];
            }
        }
        let records = T::vectors::<S>(other).as_chunks::<4>().0;
        for (two, &records) in x.chunks_mut(2).zip(records) {
            let [a, b, c, d] = T::fields(simd, records);
            two[0] = order([a, b]);
            if let Some(second) = two.get_mut(1) {
                *second = order([c, d]);
            }
        }
        return;
    }
    let pairs = other.as_chunks_mut::<2>().0;
    for start in (0..n).step_by(BLOCK) {
        let end = n.min(start + BLOCK);
        for (lane, &first) in firsts.iter().enumerate() {
            let line = job.from[first + start * element..].iter().step_by(element);
            let to = pairs[start * width + lane..].iter_mut().step_by(width);
            for (to, &number) in to.zip(line).take(end - start) {
                *to = number;
            }
        }
    }
    let pairs = T::vectors::<S>(other).as_chunks::<2>().0;
    for (row, &pairs) in x.iter_mut().zip(pairs) {
        *row = order(T::parts(simd, pairs));
    }
}

/// Writes vectors of real and of imaginary parts to lines of `n` numbers.
#[inline(always)]
fn scatter<T: Number, S: Simd>(
    simd: S,
    job: &Job<'_, T>,
    lines: &Lines,
    (n, slots): (usize, &[usize; WIDEST]),
    found: &mut [T],
    other: &mut [T],
) {
    let (width, element) = (width::<T, S>(), job.write.element);
    let result = |found: [T::Vector<S>; 2]| {
        let found = Lanes::<T, S>::new(simd, found).scaled(job.scale);
        let (re, im) = (found.re, found.im);
        if job.inverse { [im, re] } else { [re, im] }
    };
    let found = &rows::<T, S>(found)[..n];
    if lines.dense {
        for (k, &found) in found.iter().enumerate() {
            let first = lines.first[0] + k * element;
            // SAFETY: lines of different groups have no numbers in common.
            let to = unsafe { job.to.part(first..first + width) };
            let to = T::vectors_mut::<S>(to.as_flattened_mut());
            [to[0], to[1]] = T::pairs(simd, result(found));
        }
        return;
    }
    let firsts = &lines.first[..lines.count];
    if element == 1 {
        let records = T::vectors_mut::<S>(other).as_chunks_mut::<4>().0;
        for (to, two) in records.iter_mut().zip(found.chunks(2)) {
            let [a, b] = result(two[0]);
            let [c, d] = two.get(1).map_or([a, b], |&second| result(second));
            *to = T::records(simd, [a, b, c, d]);
        }
        let records = other.as_chunks::<2>().0.as_chunks::<2>().0;
        for (&first, &slot) in firsts.iter().zip(slots) {
            // SAFETY: lines have no numbers in common, and a line is one thread's.
            let line = unsafe { job.to.part(first..first + n) };
            let (twos, last) = line.as_chunks_mut::<2>();
            let mut rows = records.chunks_exact(width);
            for (two, row) in twos.iter_mut().zip(&mut rows) {
                *two = row[slot];
            }
            if let ([last], Some(row)) = (last, rows.next()) {
                *last = row[slot][0];
            }
        }
        return;
    }
    for (row, &found) in rows::<T, S>(other).iter_mut().zip(found) {
        *row = T::pairs(simd, result(found));
    }
    let pairs = other.as_chunks::<2>().0;
    for start in (0..n).step_by(BLOCK) {
        let end = n.min(start + BLOCK);
        for (lane, &first) in firsts.iter().enumerate() {
            for k in start..end {
                job.put(first + k * element, pairs[k * width + lane]);
            }
        }
    }
}
