//! Methods made of several operators on a CUDA device, in both modes, beside the CPU's eager mode, whose values the suite of
//! operators compares with PyTorch's and NumPy's. Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::{agree, epsilon, index, noise};
use ferrotrace::DType::*;
use ferrotrace::optim::{Adafactor, Average, Lbfgs, Rprop, Search};
use ferrotrace::prelude::*;
use ferrotrace::{Generator, Pool, ReduceOp, hessian, jacobian};

/// Numbers some of which are NaN.
fn holes(shape: &[usize], dtype: DType, d: &Device) -> Tensor {
    let x = noise(shape, dtype, d);
    x.gt(1.4).where_cond(f64::NAN, &x)
}

/// Numbers of which many are equal.
fn ties(shape: &[usize], d: &Device) -> Tensor {
    (noise(shape, F32, d) * 2.0).round()
}

#[test]
fn extremes_and_moments_without_nan() {
    for dtype in [F32, F64, BF16] {
        agree(epsilon(dtype), |d| {
            let x = holes(&[37, 130], dtype, d);
            vec![
                x.nanmax(1),
                x.nanmin(0),
                x.nansum(..),
                x.nanmean(1),
                x.nanvar(1, 1),
                x.nanstd(0, 0),
                x.narrow(1, 0, 0).nansum(1),
            ]
        });
    }
}

#[test]
fn medians_modes_and_percentiles() {
    agree(1e-6, |d| {
        let (x, t) = (holes(&[19, 65], F32, d), ties(&[23, 41], d));
        let (nanmedian, at) = x.nanmedian(1);
        let (median, _) = x.median(0);
        let (mode, last) = t.mode(1);
        let plain = noise(&[12, 33], F32, d);
        vec![
            nanmedian,
            at,
            median,
            mode,
            last,
            plain.percentile([0.0, 12.5, 50.0, 99.0], 1),
            plain.quantile(0.3, 0),
            x.nanquantile(0.3, 0),
        ]
    });
}

#[test]
fn elements_by_number() {
    agree(0.0, |d| {
        let x = noise(&[9, 14], F32, d);
        let idx = index(&[0, 125, -1, 17, 17, -126], d);
        let src = noise(&[6], F32, d);
        let rows = index(&[3, 0, 3], d);
        let slices = noise(&[3, 14], F32, d);
        vec![
            x.take(&idx),
            x.put(&index(&[4, -2, 60], d), &src.narrow(0, 0, 3), false),
            x.argwhere(),
            x.gt(0.5).flatnonzero(),
            x.index_reduce(0, &rows, &slices, ReduceOp::Amax, true),
            x.index_reduce(0, &rows, &slices, ReduceOp::Amin, false),
            x.index_copy(0, &rows.narrow(0, 0, 2), &slices.narrow(0, 0, 2)),
            x.index_fill(1, &rows, 7.0),
            x.select_scatter(&src.narrow(0, 0, 1).expand([9]), 1, -3),
            x.diagonal_scatter(&noise(&[9], F32, d), 2, 0, 1),
            x.fill_diagonal(5.0, true),
            x.t().fill_diagonal(5.0, true),
            index(&[0, 5, 61], d).unravel_index([4, 16])[1].clone(),
        ]
    });
    agree(1e-6, |d| {
        let x = noise(&[9, 14], F32, d);
        let (idx, src) = (index(&[4, -2, 4], d), noise(&[3], F32, d));
        vec![
            x.put(&idx, &src, true),
            x.index_reduce(0, &idx, &noise(&[3, 14], F32, d), ReduceOp::Mean, true),
        ]
    });
}

#[test]
fn integers() {
    for dtype in [U8, I8, I16, I32, I64] {
        agree(0.0, |d| {
            let line = |step: i64| Tensor::arange(0, 500, 1, I64, d) * step % 120;
            let [x, y] = [line(7), line(36)].map(|x| (x - 20).abs().to_dtype(dtype));
            vec![
                x.gcd(&y),
                x.to_dtype(I64).lcm(&y.to_dtype(I64)),
                x.clip(3, 40),
                x.clamp(&y, 60),
            ]
        });
    }
}

#[test]
fn norms_and_products() {
    for dtype in [F32, F64] {
        agree(epsilon(dtype) * 8.0, |d| {
            let a = noise(&[3, 20, 33], dtype, d);
            let [b, c] = [[33, 7], [7, 40]].map(|shape| noise(&shape, dtype, d));
            let (v, w) = (noise(&[33], dtype, d), noise(&[20], dtype, d));
            let m = a.select(0, 1);
            vec![
                a.matrix_norm("fro", (-2, -1)),
                a.matrix_norm(1, (-2, -1)),
                a.matrix_norm(f64::NEG_INFINITY, (1, 2)),
                a.vector_norm(3.0, [0, 2]),
                a.vecdot(&v.expand([3, 20, 33]), -1),
                w.addmv(&m, &v, 0.5, 2.0),
                m.addr(&w, &v, 1.0, -1.0),
                Tensor::multi_dot([&m, &b, &c]),
                Tensor::multi_dot([&w, &m, &b]),
            ]
        });
    }
}

#[test]
fn sampled_functions() {
    agree(1e-5, |d| {
        let (x, v) = (noise(&[300], F32, d), noise(&[17], F32, d));
        let places = Tensor::linspace(-2.0, 2.0, 41, F32, d);
        let values = places.sin();
        let angles = (Tensor::arange(0, 200, 1, F32, d) * 1.1).remainder(6.25) - 3.125;
        vec![
            x.convolve(&v, "full"),
            v.convolve(&x, "same"),
            x.correlate(&v, "valid"),
            v.correlate(&x, "full"),
            x.interp(&places, &values),
            v.polyval(&(&x * 0.3)),
            angles.unwrap(0, 6.25),
            x.reshape([15, 20]).roll((2, -3), (0, 1)),
            x.reshape([15, 20]).roll(7, ..),
            x.reshape([3, 100]).tile((2, 1, 2)),
            Tensor::geomspace(1.0, 1000.0, 50, F32, d),
        ]
    });
    agree(0.0, |d| {
        let [x, y] = [3, 5].map(|by| noise(&[2000 * by], F32, d).slice(0, 0, isize::MAX, by));
        let ranges = Some([(-2.0, 2.0), (-1.0, 1.0)]);
        let (counts, rows, columns) = x.histogram2d(&y, [6, 9], ranges);
        vec![counts, rows, columns, x.histc(8, -2, 2)]
    });
}

#[test]
fn pools_undone_and_losses() {
    agree(1e-5, |d| {
        let image = noise(&[2, 3, 12, 16], F32, d);
        let (most, at) = image.max_pool2d_with_indices(&Pool::new(2));
        let scores = noise(&[11, 7], F32, d);
        let classes = index(&[0, 6, 2, 3, 3, 1, 5, 4, 2, 0, 6], d);
        let labels = noise(&[11, 7], F32, d).flip(0).gt(0.0).to_dtype(F32);
        vec![
            most.max_unpool2d(&at, [12, 16]),
            image.lp_pool2d(2.0, &Pool::new(3).stride(2)),
            scores.multi_margin_loss(&classes, 1, 1.0),
            scores.multi_margin_loss(&classes, 2, 0.5),
            scores.multilabel_soft_margin_loss(&labels),
            scores.clamp(&labels, 1.5),
            scores.renorm(2.0, 0, 1.0),
        ]
    });
}

#[test]
fn matrices_of_derivatives() {
    agree(1e-10, |d| {
        let x = noise(&[5], F64, d);
        let matrix = noise(&[4, 5], F64, d);
        let f = |x: &Tensor| matrix.matmul(&x.sin().unsqueeze(1)).squeeze(1).exp();
        vec![
            jacobian(f, &x),
            hessian(|x| x.square().sum(0).sqrt() + x.prod(0), &x),
        ]
    });
}

#[test]
fn functions_of_the_gamma_family() {
    for (dtype, bound) in [(F64, 1e-11), (F32, 1e-5), (BF16, 1e-2)] {
        agree(bound, |d| {
            let x = noise(&[7, 45], F32, d);
            let [a, b, more] = [x.abs() * 3.0 + 0.2, x.square() * 2.0 + 0.1, x.abs() + 1.5]
                .map(|x| x.to_dtype(dtype));
            vec![
                more.zeta(&b),
                b.polygamma(2),
                a.gammainc(&b),
                a.gammaincc(&b),
                a.frexp().0,
            ]
        });
    }
}

#[test]
fn neighbours_and_segments() {
    for dtype in [F32, F64, F16, BF16] {
        agree(0.0, |d| {
            let x = noise(&[6, 40], dtype, d);
            vec![x.nextafter(f64::INFINITY), x.nextafter(0.0), x.frexp().1]
        });
    }
    agree(1e-5, |d| {
        let x = noise(&[3, 20, 5], F32, d);
        let lengths = index(&[4, 0, 9, 6, 20, 0, 0, 0, 3, 3, 3, 3], d).reshape([3, 4]);
        let of = |op| x.segment_reduce(op, &lengths, 1, 0.5);
        vec![of(ReduceOp::Sum), of(ReduceOp::Mean), of(ReduceOp::Amax)]
    });
}

/// A generator draws the same counts and numbers on a device as on the CPU.
#[test]
fn draws_of_counts() {
    agree(1e-9, |d| {
        let generator = Generator::new(11);
        let rates = noise(&[50, 20], F64, d).square() * 30.0;
        vec![
            generator.poisson(&rates),
            generator.binomial(&rates.ceil(), 0.3),
            generator.standard_gamma(&(rates + 0.1)),
        ]
    });
}

#[test]
fn optimisers_that_are_not_adam() {
    type Model = [Tensor; 2];
    fn loss(model: &Model, x: &Tensor) -> Tensor {
        (x.matmul(&model[0]).tanh().matmul(&model[1]) - 0.3)
            .square()
            .mean(..)
    }
    agree(1e-4, |d| {
        let x = noise(&[16, 6], F32, d);
        let start: Model = [noise(&[6, 5], F32, d), noise(&[5, 1], F32, d)];
        let gradients = |model: &Model| value_and_grad(model, |model| loss(model, &x));
        let mut results = Vec::new();
        let (mut model, mut average) = (start.clone(), Average::ema(&start, 0.9));
        let mut opt = Adafactor::new(&model, 1e-2);
        for _ in 0..5 {
            let (_, gradients) = gradients(&model);
            opt.step(&mut model, &gradients);
            average.update(&model);
        }
        results.extend(model);
        results.extend(average.model);
        let mut model = start.clone();
        let mut opt = Rprop::new(&model, 1e-2);
        for _ in 0..5 {
            let (_, gradients) = gradients(&model);
            opt.step(&mut model, &gradients);
        }
        results.extend(model);
        let mut model = start;
        let mut opt = Lbfgs::new(0.5).search(Search::StrongWolfe);
        let first = opt.step(&mut model, gradients).expect("a loss");
        results.extend([first, loss(&model, &x)]);
        results
    });
}
