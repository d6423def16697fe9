//! Signals and images.

use crate::check::{Program, noise};
use crate::expected::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// The Fourier transform of a power of two of numbers, real and imaginary, by Stockham's radix 2, and a quarter of them.
fn fourier(s: Vec<Tensor>) -> Vec<Tensor> {
    let n = s[0].numel();
    let (mut re, mut im) = (s[0].reshape([n, 1]), s[1].reshape([n, 1]));
    let mut done = 1;
    while done < n {
        let half = n / done / 2;
        let halves = |x: &Tensor| (x.narrow(0, 0, half), x.narrow(0, half as isize, half));
        let ((er, or), (ei, oi)) = (halves(&re), halves(&im));
        let angle = Tensor::arange(0, done as i64, 1, F64, &Device::cpu());
        let angle = angle * (-std::f64::consts::PI / done as f64);
        let (cos, sin) = (angle.cos(), angle.sin());
        let (tr, ti) = (&or * &cos - &oi * &sin, &or * &sin + &oi * &cos);
        re = Tensor::cat([&er + &tr, &er - &tr], 1);
        im = Tensor::cat([&ei + &ti, &ei - &ti], 1);
        done *= 2;
    }
    let scale = 1.0 / (n as f64).sqrt();
    let mixed = |x: &Tensor, old: &Tensor| x.reshape(n) * scale + old * 0.25;
    vec![mixed(&re, &s[0]), mixed(&im, &s[1])]
}

#[test]
fn fourier_transform() {
    Program {
        state: || vec![noise(&[128], 0), noise(&[128], 1)],
        step: fourier,
        steps: 8,
        expected: FOURIER,
        tolerance: 1e-12,
    }
    .check();
}

/// The histogram of an image of bytes, made even; the image moves on.
fn equalise(s: Vec<Tensor>) -> Vec<Tensor> {
    let flat = s[0].flatten(0, 1).to_dtype(I64);
    let below = flat.one_hot(256).sum(0).cumsum(0);
    let least = below.gt(0).where_cond(&below, flat.numel() as i64).min(0);
    let spread = flat.numel() as i64 - &least;
    let table = ((below - &least) * 255).floor_divide(&spread).clamp(0, 255);
    let even = table.to_dtype(U8).index_select(0, &flat);
    let even = even.reshape([s[0].dims()[0], s[0].dims()[1]]).roll(3, 1);
    vec![(even.to_dtype(F32) * 0.75 + 20.0).floor().to_dtype(U8)]
}

#[test]
fn histogram_equalisation() {
    Program {
        state: || vec![(noise(&[24, 30], 0) * 20.0 + 100.0).floor().to_dtype(U8)],
        step: equalise,
        steps: 8,
        expected: EQUALISE,
        tolerance: 1e-14,
    }
    .check();
}

/// A recursive filter along the rows of a signal, forwards and backwards.
fn filter(s: Vec<Tensor>) -> Vec<Tensor> {
    let x = &s[0];
    let rows = x.dims()[0] as isize;
    let mut y = x.clone();
    for i in 1..rows {
        y = y.assign(i, &(x.at(i) * 0.3 + y.at(i - 1) * 0.7));
    }
    let mut z = y.clone();
    for i in (0..rows - 1).rev() {
        z = z.assign(i, &(y.at(i) * 0.3 + z.at(i + 1) * 0.7));
    }
    vec![z]
}

#[test]
fn recursive_filter() {
    Program {
        state: || vec![noise(&[20, 16], 0)],
        step: filter,
        steps: 8,
        expected: FILTER,
        tolerance: 1e-12,
    }
    .check();
}

/// Haar's wavelets of a square, level by level.
fn wavelets(s: Vec<Tensor>) -> Vec<Tensor> {
    let mut x = s[0].clone();
    let mut n = x.dims()[0] as isize;
    while n > 4 {
        let mut part = x.at((0..n, 0..n));
        for dim in [1, 0] {
            let (even, odd) = (
                part.slice(dim, 0, isize::MAX, 2),
                part.slice(dim, 1, isize::MAX, 2),
            );
            part = Tensor::cat([(&even + &odd) * 0.5, (&even - &odd) * 0.5], dim);
        }
        x = x.assign((0..n, 0..n), &part);
        n /= 2;
    }
    vec![x.t() + &s[0] * 0.5]
}

#[test]
fn wavelet_transform() {
    Program {
        state: || vec![noise(&[32, 32], 0)],
        step: wavelets,
        steps: 8,
        expected: WAVELETS,
        tolerance: 1e-12,
    }
    .check();
}
