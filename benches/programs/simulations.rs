//! Simulations: steps of physics, a filter, random walks, an iteration.

use super::{Program, wave};
use ferrotrace::DType::{F32, I64};
use ferrotrace::prelude::*;

pub const PROGRAMS: &[Program] = &[
    Program::f32(
        "nbody",
        |d| {
            vec![
                wave(d, [4096, 3], 1, 1.0),
                wave(d, [4096, 3], 2, 0.1),
                wave(d, 4096, 3, 0.2) + 1.0,
            ]
        },
        nbody,
    ),
    Program::f32(
        "fdtd",
        |d| {
            vec![
                wave(d, [1024, 1024], 1, 1.0),
                wave(d, [1024, 1023], 2, 1.0),
                wave(d, [1023, 1024], 3, 1.0),
            ]
        },
        fdtd,
    ),
    Program::f32("heat3d", |d| vec![wave(d, [128, 128, 128], 1, 1.0)], heat3d),
    Program::f32(
        "lbm",
        |d| vec![wave(d, [9, 512, 512], 1, 0.01) + 1.0 / 9.0],
        lbm,
    ),
    Program::f32(
        "kalman",
        |d| {
            vec![
                wave(d, [20, 1024, 2, 1], 1, 1.0),
                wave(d, [4, 4], 2, 0.1) + Tensor::eye(4, F32, d),
                wave(d, [2, 4], 3, 1.0),
            ]
        },
        kalman,
    ),
    Program::random("mc_options", |d| vec![wave(d, 1, 1, 1.0)], mc_options),
    Program::f32(
        "mandelbrot",
        |d| vec![wave(d, [1024, 1], 1, 1.2), wave(d, [1, 1024], 2, 1.5)],
        mandelbrot,
    ),
    Program::random("ising", |d| vec![wave(d, [1024, 1024], 1, 1.0)], ising),
    Program::f32(
        "spectral_flow",
        |d| vec![wave(d, [4, 256, 256], 1, 10.0)],
        spectral_flow,
    ),
];

/// Five steps of 4,096 bodies that attract each other.
fn nbody(x: &[&Tensor]) -> Vec<Tensor> {
    let (mut p, mut v) = (x[0].clone(), x[1].clone());
    for _ in 0..5 {
        let r = p.unsqueeze(0) - p.unsqueeze(1);
        let inverse = (r.square().sum(-1) + 0.01).pow(-1.5);
        let a = (r * (inverse * x[2].unsqueeze(0)).unsqueeze(-1)).sum(1);
        v += a * 1e-4;
        p += &v * 0.01;
    }
    vec![p, v]
}

/// Differences between neighbours along a dimension.
fn differences(x: &Tensor, dim: isize) -> Tensor {
    x.slice(dim, 1, isize::MAX, 1) - x.slice(dim, 0, -1, 1)
}

/// Maxwell's equations in two dimensions by finite differences (Yee, 1966): 20 steps of a 1024x1024 grid.
fn fdtd(x: &[&Tensor]) -> Vec<Tensor> {
    let (mut e, mut hy, mut hx) = (x[0].clone(), x[1].clone(), x[2].clone());
    for _ in 0..20 {
        hy = &hy + differences(&e, 1) * 0.5;
        hx = &hx - differences(&e, 0) * 0.5;
        let inner = differences(&hy, 1).slice(0, 1, -1, 1);
        let curl = inner - differences(&hx, 0).slice(1, 1, -1, 1);
        e += (curl * 0.5).pad(&[(1, 1), (1, 1)], 0.0);
    }
    vec![e]
}

/// Diffusion of heat on a torus of 128x128x128 cells: 20 steps.
fn heat3d(x: &[&Tensor]) -> Vec<Tensor> {
    let mut u = x[0].clone();
    for _ in 0..20 {
        let around = u.roll(1, 0)
            + u.roll(-1, 0)
            + u.roll(1, 1)
            + u.roll(-1, 1)
            + u.roll(1, 2)
            + u.roll(-1, 2);
        u = &u + (around - &u * 6.0) * 0.1;
    }
    vec![u]
}

/// Directions in which particles of [`lbm`] move, and their weights.
const DIRECTIONS: [((isize, isize), f64); 9] = [
    ((0, 0), 4.0 / 9.0),
    ((1, 0), 1.0 / 9.0),
    ((0, 1), 1.0 / 9.0),
    ((-1, 0), 1.0 / 9.0),
    ((0, -1), 1.0 / 9.0),
    ((1, 1), 1.0 / 36.0),
    ((-1, 1), 1.0 / 36.0),
    ((-1, -1), 1.0 / 36.0),
    ((1, -1), 1.0 / 36.0),
];

/// A fluid by the lattice Boltzmann method in two dimensions: ten steps of 512x512 cells with nine directions each.
fn lbm(x: &[&Tensor]) -> Vec<Tensor> {
    let mut f = x[0].clone();
    for _ in 0..10 {
        let moved = |(i, &((dy, dx), _)): (usize, &((isize, isize), f64))| {
            f.select(0, i as isize).roll(dy, 0).roll(dx, 1)
        };
        let f9: Vec<Tensor> = DIRECTIONS.iter().enumerate().map(moved).collect();
        let rho = f9[1..].iter().fold(f9[0].clone(), |sum, g| sum + g);
        let ux = (&f9[1] + &f9[5] + &f9[8] - &f9[3] - &f9[6] - &f9[7]) / &rho;
        let uy = (&f9[2] + &f9[5] + &f9[6] - &f9[4] - &f9[7] - &f9[8]) / &rho;
        let energy = (ux.square() + uy.square()) * 1.5;
        let collided = |(g, &((dy, dx), w)): (&Tensor, &((isize, isize), f64))| {
            let along = (&ux * dy as f64 + &uy * dx as f64) * 3.0;
            let equilibrium = &rho * w * (&along + along.square() * 0.5 - &energy + 1.0);
            g + (equilibrium - g) * 0.6
        };
        let next: Vec<Tensor> = f9.iter().zip(&DIRECTIONS).map(collided).collect();
        f = Tensor::stack(&next, 0);
    }
    vec![f]
}

/// A Kalman filter: 20 measurements of two numbers for 1,024 objects with four states each.
fn kalman(x: &[&Tensor]) -> Vec<Tensor> {
    let device = x[0].device();
    let eye = |n: usize| Tensor::eye(n, F32, &device);
    let (f, h) = (x[1], x[2]);
    let mut m = Tensor::zeros([1024, 4, 1], F32, &device);
    let mut p = eye(4).expand([1024, 4, 4]).contiguous();
    let (q, r) = (eye(4) * 0.01, eye(2) * 0.1);
    for t in 0..20 {
        m = f.matmul(&m);
        p = f.matmul(&p).matmul(&f.t()) + &q;
        let s = h.matmul(&p).matmul(&h.t()) + &r;
        let at = |i, j| s.narrow(1, i, 1).narrow(2, j, 1);
        let (a, b, c, d) = (at(0, 0), at(0, 1), at(1, 0), at(1, 1));
        let determinant = &a * &d - &b * &c;
        let upper = Tensor::cat(&[&d, &-&b], 2);
        let lower = Tensor::cat(&[&-&c, &a], 2);
        let inverse = Tensor::cat(&[&upper, &lower], 1) / determinant;
        let gain = p.matmul(&h.t()).matmul(&inverse);
        m = &m + gain.matmul(&(x[0].select(0, t) - h.matmul(&m)));
        p = &p - gain.matmul(h).matmul(&p);
    }
    vec![m, p]
}

/// The price of an Asian option by a million random walks of 16 steps.
fn mc_options(x: &[&Tensor]) -> Vec<Tensor> {
    let (device, paths) = (x[0].device(), 1usize << 20);
    let mut price = Tensor::full(paths, 100.0, F32, &device);
    let mut sum = Tensor::zeros(paths, F32, &device);
    for _ in 0..16 {
        let z = Tensor::randn(paths, F32, &device);
        price *= (z * 0.05 + 0.0001).exp();
        sum += &price;
    }
    vec![(sum / 16.0 - 100.0).relu().mean(0)]
}

/// How many of 50 steps of z² + c stay within 2, for a million c.
fn mandelbrot(x: &[&Tensor]) -> Vec<Tensor> {
    let [ci, cr] = [x[0], x[1]].map(|c| c.expand([1024, 1024]));
    let (mut zr, mut zi) = (cr.clone(), ci.clone());
    let mut steps = zr.zeros_like();
    for _ in 0..50 {
        let (a, b) = (zr.square(), zi.square());
        let within = (&a + &b).le(4.0);
        let next_i = &zr * &zi * 2.0 + &ci;
        let next_r = a - b + &cr;
        zr = within.where_cond(&next_r, &zr);
        zi = within.where_cond(&next_i, &zi);
        steps += within.to_dtype(F32);
    }
    vec![steps]
}

/// The Ising model: ten sweeps over 1024x1024 spins, black and white cells in turns (Metropolis et al., 1953).
fn ising(x: &[&Tensor]) -> Vec<Tensor> {
    let device = x[0].device();
    let mut s = x[0].gt(0.0).to_dtype(F32) * 2.0 - 1.0;
    let i = Tensor::arange(0, 1024, 1, I64, &device);
    let colour = (i.unsqueeze(0) + i.unsqueeze(1)) % 2;
    for half in 0..20 {
        let around = s.roll(1, 0) + s.roll(-1, 0) + s.roll(1, 1) + s.roll(-1, 1);
        let flips = Tensor::rand([1024, 1024], F32, &device)
            .lt(&(&s * around * -0.8).exp())
            .logical_and(&colour.eq(f64::from(half % 2)));
        s = flips.where_cond(&-&s, &s);
    }
    vec![s.mean([0, 1])]
}

/// Four steps of two-dimensional flow: vorticity carried along in space, diffused in its spectrum.
fn spectral_flow(x: &[&Tensor]) -> Vec<Tensor> {
    let (n, d) = (256, x[0].device());
    let kx = Tensor::fftfreq(n, 1.0 / n as f64, F32, &d).unsqueeze(1);
    let ky = Tensor::rfftfreq(n, 1.0 / n as f64, F32, &d);
    let k2 = kx.square() + ky.square();
    let inverse = k2.gt(0).where_cond(k2.recip(), 0.0).unsqueeze(-1);
    let kept = kx
        .abs()
        .lt(n as f64 / 3.0)
        .logical_and(&ky.lt(n as f64 / 3.0));
    let (carried, damped) = (kept.to_dtype(F32) * 1e-3, (&k2 * 1e-6 + 1.0).recip());
    // The derivative of a spectrum along a dimension, in space.
    let slope = |f: &Tensor, k: &Tensor| {
        let turned = Tensor::complex(&(-(f.select(-1, 1) * k)), &(f.select(-1, 0) * k));
        turned.irfft(n, [1, 2])
    };
    let mut w = x[0].clone();
    for _ in 0..4 {
        let f = w.rfft([1, 2]);
        let psi = &f * &inverse;
        let moved = slope(&psi, &ky) * slope(&f, &kx) - slope(&psi, &kx) * slope(&f, &ky);
        let f = f - moved.rfft([1, 2]) * carried.unsqueeze(-1);
        w = (f * damped.unsqueeze(-1)).irfft(n, [1, 2]);
    }
    vec![w]
}
