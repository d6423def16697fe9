//! Simulations on grids and of particles.

use crate::check::{Program, noise};
use crate::expected::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, F64, &Device::cpu())
}

fn step_of_life(s: Vec<Tensor>) -> Vec<Tensor> {
    let board = &s[0];
    let n = board.dims()[0] as isize - 1;
    let mut around = board.at((1..n, 1..n)).zeros_like();
    for (dy, dx) in (-1..=1).flat_map(|dy| (-1..=1).map(move |dx| (dy, dx))) {
        if (dy, dx) != (0, 0) {
            around += board.at((1 + dy..n + dy, 1 + dx..n + dx));
        }
    }
    let stays = board.at((1..n, 1..n)).eq(1).logical_and(&around.eq(2));
    let alive = around.eq(3).logical_or(&stays);
    vec![board.assign((1..n, 1..n), &alive.to_dtype(U8))]
}

#[test]
fn game_of_life() {
    Program {
        state: || vec![noise(&[34, 34], 0).gt(0.7).to_dtype(U8)],
        step: step_of_life,
        steps: 24,
        expected: LIFE,
        tolerance: 1e-12,
    }
    .check();
}

/// Gauss and Seidel's iteration by colours, in place.
fn red_black(s: Vec<Tensor>) -> Vec<Tensor> {
    let [mut u, f] = <[Tensor; 2]>::try_from(s).expect("two tensors");
    let n = u.dims()[0] as isize;
    for (row, column) in [(1, 1), (2, 2), (1, 2), (2, 1)] {
        let every = |first: isize, by: isize| (first + by..n - 1 + by).by(2);
        let at = |dy, dx| u.at((every(row, dy), every(column, dx)));
        let around = at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1);
        let source = f.at((every(row, 0), every(column, 0)));
        let new = (around + source) * 0.25;
        u = u.assign((every(row, 0), every(column, 0)), &new);
    }
    vec![u, f]
}

#[test]
fn gauss_seidel_by_colours() {
    Program {
        state: || vec![noise(&[30, 30], 0), noise(&[30, 30], 3)],
        step: red_black,
        steps: 24,
        expected: RED_BLACK,
        tolerance: 1e-12,
    }
    .check();
}

/// Yee's scheme for a transverse wave, with a source in the middle.
fn yee(s: Vec<Tensor>) -> Vec<Tensor> {
    let [ez, hx, hy, time] = <[Tensor; 4]>::try_from(s).expect("four tensors");
    let n = ez.dims()[0] as isize;
    let hx = hx - (ez.at((.., 1..n)) - ez.at((.., 0..n - 1))) * 0.5;
    let hy = hy + (ez.at((1..n, ..)) - ez.at((0..n - 1, ..))) * 0.5;
    let inner = (1..n - 1, 1..n - 1);
    let curl = hy.at(inner.clone()) - hy.at((0..n - 2, 1..n - 1)) - hx.at(inner.clone())
        + hx.at((1..n - 1, 0..n - 2));
    let ez = ez.assign(inner.clone(), &(ez.at(inner) + curl * 0.5));
    let source = (&time * 0.3).sin();
    let ez = ez.assign((n / 2, n / 2), &(ez.at((n / 2, n / 2)) + source));
    vec![ez, hx, hy, time + 1.0]
}

#[test]
fn electromagnetic_wave() {
    Program {
        state: || {
            let time = Tensor::scalar(0.0, F64, &Device::cpu());
            vec![zeros(&[41, 41]), zeros(&[41, 40]), zeros(&[40, 41]), time]
        },
        step: yee,
        steps: 24,
        expected: YEE,
        tolerance: 1e-12,
    }
    .check();
}

/// Lattice Boltzmann's method with nine velocities (Bhatnagar, Gross and Krook, 1954).
fn lattice_boltzmann(s: Vec<Tensor>) -> Vec<Tensor> {
    const X: [isize; 9] = [0, 1, 0, -1, 0, 1, -1, -1, 1];
    const Y: [isize; 9] = [0, 0, 1, 0, -1, 1, 1, -1, -1];
    const WEIGHTS: [f64; 9] = [16., 4., 4., 4., 4., 1., 1., 1., 1.];
    let column = |of: [f64; 9]| Tensor::from_slice(&of, [9, 1, 1], &Device::cpu());
    let (x, y) = (column(X.map(|c| c as f64)), column(Y.map(|c| c as f64)));
    let weights = column(WEIGHTS) / 36.0;
    let moved = (0..9).map(|k| s[0].select(0, k as isize).roll(X[k], 1).roll(Y[k], 0));
    let f = Tensor::stack(moved.collect::<Vec<_>>(), 0);
    let density = f.sum_keepdim(0);
    let (u, v) = (
        (&f * &x).sum_keepdim(0) / &density,
        (&f * &y).sum_keepdim(0) / &density,
    );
    let along = (x * &u + y * &v) * 3.0;
    let energy = (u.square() + v.square()) * 1.5;
    let rest = density * weights * (&along + 1.0 + along.square() * 0.5 - energy);
    vec![&f + (rest - &f) * 0.6]
}

#[test]
fn lattice_boltzmann_flow() {
    Program {
        state: || vec![noise(&[9, 14, 20], 0) * 0.01 + 1.0],
        step: lattice_boltzmann,
        steps: 16,
        expected: FLOW,
        tolerance: 1e-12,
    }
    .check();
}

/// Bodies that attract each other up to a distance.
fn bodies(s: Vec<Tensor>) -> Vec<Tensor> {
    let [at, speed] = <[Tensor; 2]>::try_from(s).expect("two tensors");
    let to = at.unsqueeze(0) - at.unsqueeze(1);
    let distance = to.square().sum(-1) + 0.05;
    let force = distance.lt(4.0).where_cond(&distance.pow(-1.5), 0.0);
    let pull = (force.unsqueeze(-1) * to).sum(1) / 48.0;
    let speed = speed + pull * 0.01;
    vec![at + &speed * 0.01, speed]
}

#[test]
fn bodies_with_a_cut_off() {
    Program {
        state: || vec![noise(&[48, 3], 0), noise(&[48, 3], 1) * 0.1],
        step: bodies,
        steps: 16,
        expected: BODIES,
        tolerance: 1e-12,
    }
    .check();
}

/// A point's neighbours, added up, of what is within the border.
fn around(u: &Tensor) -> Tensor {
    u.at((..-2, 1..-1)) + u.at((2.., 1..-1)) + u.at((1..-1, ..-2)) + u.at((1..-1, 2..))
}

fn smoothed(u: &Tensor, f: &Tensor, area: f64, times: usize) -> Tensor {
    let (mut u, inner) = (u.clone(), (1..-1, 1..-1));
    for _ in 0..times {
        let (old, source) = (u.at(inner.clone()), f.at(inner.clone()));
        let new = (around(&u) - source * area) / 4.0;
        u = u.assign(inner.clone(), &old + (new - &old) * 0.8);
    }
    u
}

/// A cycle of Poisson's equation through ever coarser grids.
fn cycle(u: &Tensor, f: &Tensor, area: f64) -> Tensor {
    let u = smoothed(u, f, area, 2);
    if u.dims()[0] <= 5 {
        return smoothed(&u, f, area, 8);
    }
    let inner = (1..-1, 1..-1);
    let bent = (around(&u) - u.at(inner.clone()) * 4.0) / area;
    let rest = (f.at(inner) - bent).pad(&[(1, 1), (1, 1)], 0.0);
    let [before, at, after] = [(1..-3).by(2), (2..-2).by(2), (3..-1).by(2)];
    let sides = rest.at((before, at)) + rest.at((after, at));
    let sides = sides + rest.at((at, before)) + rest.at((at, after));
    let coarse = (rest.at((at, at)) / 2.0 + sides / 8.0).pad(&[(1, 1), (1, 1)], 0.0);
    let coarse = cycle(&coarse.zeros_like(), &coarse, 4.0 * area);
    let (even, odd) = ((..).by(2), (1..).by(2));
    let fine = u.zeros_like().assign((even, even), &coarse);
    let fine = fine.assign((odd, even), (coarse.at(..-1) + coarse.at(1..)) / 2.0);
    let columns = fine.at((.., even));
    let between = (columns.at((.., ..-1)) + columns.at((.., 1..))) / 2.0;
    smoothed(&(u + fine.assign((.., odd), between)), f, area, 2)
}

#[test]
fn multigrid() {
    Program {
        state: || vec![zeros(&[17, 17]), noise(&[17, 17], 2)],
        step: |s| vec![cycle(&s[0], &s[1], 1.0 / 256.0), s[1].clone()],
        steps: 8,
        expected: GRIDS,
        tolerance: 1e-11,
    }
    .check();
}

/// Tridiagonal systems, a row each, by elimination forth and substitution back.
fn tridiagonal(s: Vec<Tensor>) -> Vec<Tensor> {
    let (u, k) = (&s[0], &s[1] + 2.5);
    let (beside, on) = (-&k, &k * 2.2);
    let (mut upper, mut right): (Vec<Tensor>, Vec<Tensor>) = (Vec::new(), Vec::new());
    for i in 0..u.dims()[1] as isize {
        let [a, b, d] = [&beside, &on, u].map(|x| x.at((.., i)));
        let (pivot, d) = match (upper.last(), right.last()) {
            (Some(c), Some(before)) => (b - &a * c, d - &a * before),
            _ => (b, d),
        };
        upper.push(a / &pivot);
        right.push(d / pivot);
    }
    let mut x = right.pop().expect("a row has elements");
    let mut solved = vec![x.clone()];
    while let Some(d) = right.pop() {
        x = d - &upper[right.len()] * x;
        solved.push(x.clone());
    }
    solved.reverse();
    vec![Tensor::stack(solved, 1) * 2.0, s[1].clone()]
}

#[test]
fn tridiagonal_systems() {
    Program {
        state: || vec![noise(&[5, 16], 1), noise(&[5, 16], 2)],
        step: tridiagonal,
        steps: 8,
        expected: TRIDIAGONAL,
        tolerance: 1e-11,
    }
    .check();
}
