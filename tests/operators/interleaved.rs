//! Parts that a program interleaves, level by level, as wavelets, transforms by halves and sorting networks do: random ones,
//! of whole numbers that every dtype holds, against the same steps on a list.

use crate::rng::Rng;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// Programs for each dtype.
const PROGRAMS: u64 = 24;

/// What a level makes of a matrix.
#[derive(Clone, Debug)]
struct Level {
    /// What each part computes of the matrix and the other input.
    parts: Vec<usize>,
    /// The dimension along which parts take turns.
    dim: usize,
    turned: bool,
    /// The greatest number of each row is taken away.
    lowered: bool,
}

impl Level {
    fn drawn(rng: &mut Rng) -> Level {
        Level {
            parts: (0..2 + rng.below(2)).map(|_| rng.below(5)).collect(),
            dim: rng.below(2),
            turned: rng.chance(25),
            lowered: rng.chance(25),
        }
    }
}

/// A matrix as a list.
#[derive(Clone, Debug)]
struct Matrix {
    shape: [usize; 2],
    data: Vec<f64>,
}

impl Matrix {
    fn of(shape: [usize; 2], f: impl Fn(usize, usize) -> f64) -> Matrix {
        let row = |i| (0..shape[1]).map(move |j| (i, j));
        let data = (0..shape[0]).flat_map(row).map(|(i, j)| f(i, j)).collect();
        Matrix { shape, data }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        self.data[i * self.shape[1] + j]
    }

    fn part(&self, part: usize, other: &[f64]) -> Matrix {
        let [_, columns] = self.shape;
        let other = |i: usize, j: usize| other[(i * columns + j) % other.len()];
        Matrix::of(self.shape, |i, j| match part {
            0 => self.at(i, j) + other(i, j),
            1 => self.at(i, j) - other(i, j),
            2 => -self.at(i, j),
            3 => other(i, j) + self.at(i, columns - 1 - j),
            _ => self.at(i, j).max(other(i, j)),
        })
    }

    fn level(&self, level: &Level, other: &[f64]) -> Matrix {
        let parts = level.parts.iter().map(|&part| self.part(part, other));
        let (parts, n): (Vec<Matrix>, usize) = (parts.collect(), level.parts.len());
        let [rows, columns] = self.shape;
        let mut made = match level.dim {
            0 => Matrix::of([rows * n, columns], |i, j| parts[i % n].at(i / n, j)),
            _ => Matrix::of([rows, columns * n], |i, j| parts[j % n].at(i, j / n)),
        };
        if level.turned {
            made = Matrix::of([made.shape[1], made.shape[0]], |i, j| made.at(j, i));
        }
        if level.lowered {
            let most = |i: usize| (0..made.shape[1]).fold(f64::MIN, |m, j| m.max(made.at(i, j)));
            let most: Vec<f64> = (0..made.shape[0]).map(most).collect();
            made = Matrix::of(made.shape, |i, j| made.at(i, j) - most[i]);
        }
        made
    }
}

/// What [`Matrix::level`] does to a list.
fn level(x: &Tensor, level: &Level, other: &Tensor, shape: [usize; 2]) -> Tensor {
    let [rows, columns] = shape;
    let times = rows * columns / other.numel() + 1;
    let other = other.repeat(&[times]).narrow(0, 0, rows * columns);
    let other = other.reshape(shape);
    let part = |&part: &usize| match part {
        0 => x + &other,
        1 => x - &other,
        2 => -x,
        3 => &other + x.flip(1),
        _ => x.maximum(&other),
    };
    let parts: Vec<Tensor> = level.parts.iter().map(part).collect();
    let beside = Tensor::stack(&parts, level.dim as isize + 1);
    let mut made = match level.dim {
        0 => beside.reshape([rows * parts.len(), columns]),
        _ => beside.reshape([rows, columns * parts.len()]),
    };
    if level.turned {
        made = made.t();
    }
    if level.lowered {
        made = &made - made.amax_keepdim(1);
    }
    made
}

#[test]
fn parts_that_take_turns_lie_where_their_turn_is() {
    for (number, dtype) in (0..).zip([F32, F64, BF16, I64, I16]) {
        for program in 0..PROGRAMS {
            let mut rng = Rng::new(100 * number + program);
            let shape = [1 + rng.below(30), 1 + rng.below(70)];
            let mut drawn = |n: usize| (0..n).map(|_| rng.between(-2, 2) as f64).collect();
            let (data, other): (Vec<f64>, Vec<f64>) = (drawn(shape[0] * shape[1]), drawn(37));
            let levels: Vec<Level> = (0..1 + rng.below(4))
                .map(|_| Level::drawn(&mut rng))
                .collect();
            let tensor = |data: &[f64], shape: &[usize]| {
                Tensor::from_slice(data, shape, &Device::cpu()).to_dtype(dtype)
            };
            let (x, y) = (tensor(&data, &shape), tensor(&other, &[37]));
            let mut want = Matrix { shape, data };
            let mut shapes = vec![shape];
            for of in &levels {
                want = want.level(of, &other);
                shapes.push(want.shape);
            }
            for mode in [Mode::Eager, Mode::Compiled] {
                let made = with_mode(mode, || {
                    let steps = levels.iter().zip(&shapes);
                    let last = steps.fold(x.clone(), |x, (of, &shape)| level(&x, of, &y, shape));
                    last.to_dtype(F64).to_vec::<f64>()
                });
                let made = made.unwrap_or_else(|e| panic!("{e}"));
                assert!(
                    made == want.data,
                    "program {program}, {dtype}, {mode:?}: {levels:?}"
                );
            }
        }
    }
}
