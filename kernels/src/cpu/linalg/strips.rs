//! Many rotations of neighbouring columns, applied together: columns lie in strips of a few rows, which stay in the cache
//! while all rotations pass over them (Van Zee, van de Geijn and Quintana-Ortí, Restructuring the tridiagonal and bidiagonal QR
//! algorithms for performance, 2014).

use super::Float;
use crate::cpu::dense::rows;
use crate::cpu::isa::{Loop, dispatch};

/// Rows of a strip.
const WIDTH: usize = 32;

/// A rotation of columns `at` and `at + 1` by an angle of cosine `c` and sine `s`: (c·x − s·y, s·x + c·y).
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn<T> {
    pub at: u32,
    pub c: T,
    pub s: T,
}

/// The columns of a matrix, with rotations that wait to be applied to them.
pub(super) struct Strips<T> {
    /// Strip by strip the columns' elements of [`WIDTH`] rows.
    data: Vec<T>,
    rows: usize,
    columns: usize,
    waiting: Vec<Turn<T>>,
}

impl<T: Float> Strips<T> {
    /// The columns of a dense matrix.
    pub fn new(a: &[T], rows: usize, columns: usize) -> Strips<T> {
        let mut data = vec![T::ZERO; rows.div_ceil(WIDTH) * WIDTH * columns];
        for (i, row) in a.chunks_exact(columns.max(1)).enumerate() {
            let strip = &mut data[i / WIDTH * WIDTH * columns..][..WIDTH * columns];
            for (place, &x) in strip.chunks_exact_mut(WIDTH).zip(row) {
                place[i % WIDTH] = x;
            }
        }
        Strips {
            data,
            rows,
            columns,
            waiting: Vec::new(),
        }
    }

    /// Rotates two columns, now or later.
    pub fn turn(&mut self, turn: Turn<T>) {
        self.waiting.push(turn);
        // Rotations of as many sweeps as make what threads cost, and what a strip's way to the cache costs, small.
        if self.waiting.len() >= 32 * self.columns {
            self.apply();
        }
    }

    fn apply(&mut self) {
        let turns = std::mem::take(&mut self.waiting);
        let size = WIDTH * self.columns;
        let cost = 6 * WIDTH * turns.len();
        rows(&mut self.data, size, cost, |_, strips| {
            for strip in strips.chunks_exact_mut(size) {
                dispatch(Apply {
                    strip,
                    turns: &turns,
                });
            }
        });
        self.waiting = turns;
        self.waiting.clear();
    }

    /// Calls `f(row, values)` with the elements of each row in an order of columns.
    pub fn each_row(mut self, order: &[usize], mut f: impl FnMut(usize, &[T])) {
        self.apply();
        let mut row = vec![T::ZERO; order.len()];
        for i in 0..self.rows {
            let strip = &self.data[i / WIDTH * WIDTH * self.columns..];
            for (to, &column) in row.iter_mut().zip(order) {
                *to = strip[column * WIDTH + i % WIDTH];
            }
            f(i, &row);
        }
    }
}

struct Apply<'a, T> {
    strip: &'a mut [T],
    turns: &'a [Turn<T>],
}

impl<T: Float> Loop for Apply<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Apply { strip, turns } = self;
        // A sweep's rotations go from column to column: the one that the next rotation needs, too, stays in registers.
        let mut rest = turns;
        while let Some((first, behind)) = rest.split_first() {
            let rises = behind.first().is_some_and(|next| next.at == first.at + 1);
            let mut last = first.at as usize;
            let mut kept = column(strip, last + usize::from(!rises));
            let mut taken = 0;
            for (i, turn) in rest.iter().enumerate() {
                let at = turn.at as usize;
                let follows = if rises {
                    at == last + 1
                } else {
                    at + 1 == last
                };
                if i > 0 && !follows {
                    break;
                }
                (last, taken) = (at, i + 1);
                if rises {
                    let (x, y) = turned(turn, kept, column(strip, at + 1));
                    strip[at * WIDTH..][..WIDTH].copy_from_slice(&x);
                    kept = y;
                } else {
                    let (x, y) = turned(turn, column(strip, at), kept);
                    strip[(at + 1) * WIDTH..][..WIDTH].copy_from_slice(&y);
                    kept = x;
                }
            }
            strip[(last + usize::from(rises)) * WIDTH..][..WIDTH].copy_from_slice(&kept);
            rest = &rest[taken..];
        }
    }
}

#[inline(always)]
fn column<T: Float>(strip: &[T], at: usize) -> [T; WIDTH] {
    let mut values = [T::ZERO; WIDTH];
    values.copy_from_slice(&strip[at * WIDTH..][..WIDTH]);
    values
}

#[inline(always)]
fn turned<T: Float>(turn: &Turn<T>, x: [T; WIDTH], y: [T; WIDTH]) -> ([T; WIDTH], [T; WIDTH]) {
    let (mut first, mut second) = ([T::ZERO; WIDTH], [T::ZERO; WIDTH]);
    for l in 0..WIDTH {
        first[l] = turn.c * x[l] - turn.s * y[l];
        second[l] = turn.s * x[l] + turn.c * y[l];
    }
    (first, second)
}
