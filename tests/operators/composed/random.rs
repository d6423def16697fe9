//! Positions drawn in proportion to weights, and numbers of distributions.

use super::refused;
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::Generator;
use ferrotrace::prelude::*;

/// How often each of `m` positions was drawn.
fn counts(drawn: &Tensor, m: usize) -> Vec<f64> {
    let mut counts = vec![0.0; m];
    for at in drawn.to_vec::<i64>().unwrap() {
        counts[at as usize] += 1.0;
    }
    counts
}

#[test]
fn draws_with_replacement_follow_the_weights() {
    let weights = [0.0, 1.0, 3.0, 0.0, 4.0, 0.0];
    let n = 20_000;
    both(|| {
        for (seed, dtype) in FLOATS.into_iter().enumerate() {
            let g = Generator::new(seed as u64);
            let x = dense(&[6], dtype, &weights);
            let drawn = g.multinomial(&x, n, true);
            assert_eq!((drawn.dims(), drawn.dtype()), (&[n][..], I64));
            let counts = counts(&drawn, 6);
            for (count, weight) in counts.iter().zip(weights) {
                let p = weight / 8.0;
                // Five standard deviations.
                let bound = 5.0 * (n as f64 * p * (1.0 - p)).sqrt();
                assert!((count - n as f64 * p).abs() <= bound, "{counts:?}");
            }
        }
        // Each row by its own weights, wherever they lie in memory.
        for x in forms(&[2, 3], F32, &[0.0, 5.0, 0.0, 1.0, 0.0, 1.0]) {
            let drawn = Generator::new(3).multinomial(&x, 400, true);
            equal(&drawn.select(0, 0), &[400], &[1.0; 400]);
            let found = counts(&drawn.select(0, 1), 3);
            assert!(
                found[1] == 0.0 && found[0] > 120.0 && found[2] > 120.0,
                "{found:?}"
            );
        }
    });
}

#[test]
fn draws_without_replacement_are_distinct_and_follow_the_weights() {
    both(|| {
        let x = dense(&[4], F32, &[1.0, 0.0, 2.0, 5.0]);
        let rows = x.expand([8000, 4]);
        let drawn = Generator::new(11).multinomial(&rows, 3, false);
        assert_eq!((drawn.dims(), drawn.dtype()), (&[8000, 3][..], I64));
        let sorted = drawn.sort(1, false).0;
        equal(&sorted, &[8000, 3], &[0.0, 2.0, 3.0].repeat(8000));
        // The first is drawn with probabilities 1/8, 2/8 and 5/8; of what is left behind a 3, the second with 1/3 and 2/3.
        let first = counts(&drawn.select(1, 0), 4);
        for (count, p) in first.iter().zip([0.125, 0.0, 0.25, 0.625]) {
            assert!(
                (count - 8000.0 * p).abs() <= 5.0 * (8000.0 * p * (1.0 - p)).sqrt(),
                "{first:?}"
            );
        }
        let behind = drawn
            .select(1, 0)
            .eq(3)
            .logical_and(&drawn.select(1, 1).eq(2));
        let p = 0.625 * 2.0 / 3.0;
        let both = behind.sum(..).item::<i64>().unwrap() as f64;
        assert!(
            (both - 8000.0 * p).abs() <= 5.0 * (8000.0 * p * (1.0 - p)).sqrt(),
            "{both}"
        );
        // What has no weight comes last, also beside a weight that is infinitely smaller.
        let x = dense(&[3], F64, &[0.0, 1e-300, 1e300]);
        equal(
            &Generator::new(1).multinomial(&x, 3, false),
            &[3],
            &[2.0, 1.0, 0.0],
        );
    });
}

#[test]
fn a_generator_draws_again_what_it_drew() {
    let x = dense(&[2, 5], F32, &whole(10, 7));
    for replacement in [false, true] {
        let draw = |mode, seed| {
            with_mode(mode, || {
                let g = Generator::new(seed);
                let drawn = [0, 1].map(|_| g.multinomial(&x, 4, replacement));
                drawn.map(|d| d.to_vec::<i64>().unwrap())
            })
        };
        let first = draw(Mode::Eager, 5);
        assert_eq!(first, draw(Mode::Eager, 5));
        assert_eq!(first, draw(Mode::Compiled, 5));
        assert_ne!(first[0], first[1]);
        assert_ne!(first, draw(Mode::Eager, 6));
    }
    // A compiled function draws anew at each call, what the calls one by one would draw.
    for replacement in [false, true] {
        let (own, other) = (Generator::new(9), Generator::new(9));
        let f = jit(move |x: &Tensor| own.multinomial(x, 3, replacement));
        for _ in 0..3 {
            let want = other.multinomial(&x, 3, replacement);
            equal(&f.call(&x), &[2, 3], &values(&want));
        }
    }
}

#[test]
fn what_cannot_be_drawn() {
    both(|| {
        let g = Generator::new(1);
        let x = Tensor::ones((2, 3), F32, &cpu());
        let before = g.state();
        assert_eq!(g.multinomial(&x, 3, false).dims(), [2, 3]);
        assert_ne!(g.state(), before);
        let before = g.state();
        refused(
            &g.multinomial(&x, 4, false),
            "multinomial",
            &["4 of 3", "without"],
        );
        assert_eq!(g.multinomial(&x, 4, true).dims(), [2, 4]);
        refused(&g.multinomial(&x, 0, true), "multinomial", &["0 of 3"]);
        refused(&x.multinomial(0, false), "multinomial", &["0 of 3"]);
        refused(
            &x.select(1, 0).sum(..).multinomial(1, true),
            "multinomial",
            &["vector"],
        );
        refused(
            &x.unsqueeze(0).multinomial(1, true),
            "multinomial",
            &["[1, 2, 3]"],
        );
        refused(&ints(&[1, 2]).multinomial(1, true), "multinomial", &["i64"]);
        let none = Tensor::zeros((2, 0), F32, &cpu());
        refused(&none.multinomial(1, true), "multinomial", &["1 of 0"]);
        refused(&x.matmul(&x).multinomial(0, true), "matmul", &[]);
        for replacement in [false, true] {
            let no_rows = Tensor::zeros((0, 3), F32, &cpu());
            equal(&no_rows.multinomial(2, replacement), &[0, 2], &[]);
        }
        assert_ne!(g.state(), before);
        // Weights that require a gradient are read without.
        assert!(!x.requires_grad().multinomial(2, false).has_grad());
    });
}

#[test]
fn draws_that_are_only_moved() {
    let drawn = |count: usize, before: isize| -> Vec<Vec<f64>> {
        let (device, number) = (Device::cpu(), Generator::new(41));
        if count > 0 {
            number.rand([count], F32, &device).eval().unwrap();
        }
        let n = 70;
        let moved = [
            number.rand([n], F32, &device).pad(&[(before, 3)], 2),
            number.randn([n], F32, &device).pad(&[(before, 3)], 2),
            number.rand([n], F64, &device).pad(&[(before, 3)], 2),
            number.randn([n], F64, &device).pad(&[(before, 3)], 2),
            number
                .bernoulli(0.4, [n], F32, &device)
                .pad(&[(before, 3)], 2),
            number
                .randint(0, 100, [n], I64, &device)
                .pad(&[(before, 3)], 2),
            number.rand([n], F32, &device).roll(before, 0),
            number.randn([3, n], F32, &device).narrow(1, before, 20),
        ];
        let read = |x: &Tensor| x.to_dtype(F64).to_vec::<f64>().unwrap();
        moved.iter().map(read).collect()
    };
    for count in [0, 5, 6, 7, 8] {
        for before in 1..9 {
            let eager = with_mode(Mode::Eager, || drawn(count, before));
            let compiled = with_mode(Mode::Compiled, || drawn(count, before));
            assert_eq!(compiled, eager, "{count} {before}");
        }
    }
}

/// The mean, the variance and the part at or below each bound are these, within five standard deviations.
#[track_caller]
fn distributed(x: &Tensor, mean: f64, variance: f64, parts: &[(f64, f64)]) {
    let n = x.numel() as f64;
    let x = values(x);
    let found = x.iter().sum::<f64>() / n;
    assert!(
        (found - mean).abs() < 5.0 * (variance / n).sqrt() + 0.01,
        "{found}"
    );
    let spread = x.iter().map(|x| (x - found).powi(2)).sum::<f64>() / n;
    assert!((spread / variance - 1.0).abs() < 0.1, "{spread}");
    for &(bound, p) in parts {
        let below = x.iter().filter(|&&x| x <= bound).count() as f64 / n;
        assert!(
            (below - p).abs() < 5.0 * (p * (1.0 - p) / n).sqrt() + 0.01,
            "{below} {p}"
        );
    }
}

#[test]
fn numbers_of_distributions() {
    let n = 20_000;
    both(|| {
        for (seed, dtype) in FLOATS.into_iter().enumerate() {
            let g = Generator::new(seed as u64);
            let x = g.normal(-1.0, 0.5, n, dtype, &cpu());
            distributed(
                &x,
                -1.0,
                0.25,
                &[(-1.0, 0.5), (-0.5, 0.8413), (-2.0, 0.02275)],
            );
            assert_eq!((x.dims(), x.dtype()), (&[n][..], dtype));
            let x = g.exponential(4.0, (n / 2, 2), dtype, &cpu());
            distributed(&x, 0.25, 0.0625, &[(0.25, 0.6321), (0.0173, 0.0669)]);
            assert_eq!((x.dims(), x.dtype()), (&[n / 2, 2][..], dtype));
            assert!(values(&x).iter().all(|x| x.is_finite() && *x >= 0.0));
        }
        equal(
            &Generator::new(1).normal(2.5, 0.0, 3, F32, &cpu()),
            &[3],
            &[2.5; 3],
        );
        equal(&Tensor::exponential(1.0, (2, 0), F32, &cpu()), &[2, 0], &[]);
    });
    // Both modes draw alike, and a replayed function goes on.
    let draw = || {
        let g = Generator::new(5);
        values(&Tensor::cat(
            [
                g.normal(0.0, 1.0, 9, F64, &cpu()),
                g.exponential(1.0, 9, F64, &cpu()),
            ],
            0,
        ))
    };
    let (eager, compiled) = (
        with_mode(Mode::Eager, draw),
        with_mode(Mode::Compiled, draw),
    );
    let alike = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-12;
    assert!(eager.iter().zip(&compiled).all(alike));
    let noisy = jit(|x: &Tensor| x + Tensor::exponential(1.0, 4, F32, &cpu()));
    let x = Tensor::zeros(4, F32, &cpu());
    assert_ne!(values(&noisy.call(&x)), values(&noisy.call(&x)));
}

#[test]
fn distributions_refuse() {
    both(|| {
        refused(
            &Tensor::normal(0.0, -1.0, 2, F32, &cpu()),
            "normal",
            &["-1"],
        );
        refused(
            &Tensor::normal(f64::NAN, 1.0, 2, F32, &cpu()),
            "normal",
            &["NaN"],
        );
        refused(
            &Tensor::normal(0.0, 1.0, 2, I64, &cpu()),
            "normal",
            &["i64"],
        );
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let x = Tensor::exponential(rate, 2, F32, &cpu());
            refused(&x, "exponential", &["positive"]);
        }
        refused(
            &Tensor::exponential(1.0, 2, Bool, &cpu()),
            "exponential",
            &["bool"],
        );
    });
}

/// Mean and variance of many draws are the distribution's, as far as five standard deviations of either go.
#[track_caller]
fn moments(drawn: &Tensor, mean: f64, variance: f64, fourth: f64) {
    let n = drawn.numel() as f64;
    let x = values(drawn);
    let found = x.iter().sum::<f64>() / n;
    assert!(
        (found - mean).abs() <= 5.0 * (variance / n).sqrt() + 1e-9,
        "{found} for {mean}"
    );
    let squares = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let bound = 5.0 * ((fourth - variance * variance) / n).sqrt() + 1e-9;
    assert!(
        (squares - variance).abs() <= bound,
        "{squares} for {variance}"
    );
}

const DRAWS: usize = 20_000;

#[test]
fn counts_of_events() {
    both(|| {
        for (seed, rate) in [0.0, 0.3, 4.0, 9.5, 10.0, 31.0, 1000.0, 1e15, 1e20]
            .into_iter()
            .enumerate()
        {
            let x = dense(&[1], F64, &[rate]).expand(DRAWS);
            let drawn = Generator::new(seed as u64).poisson(&x);
            moments(&drawn, rate, rate, rate * (1.0 + 3.0 * rate));
            let is_count = |k: &f64| *k >= 0.0 && k.fract() == 0.0;
            assert!(values(&drawn).iter().all(is_count));
        }
        // The probabilities of single counts, on both sides of where the method changes.
        for rate in [3.0, 12.0] {
            let x = dense(&[1], F32, &[rate]).expand(DRAWS);
            let drawn = values(&Generator::new(8).poisson(&x));
            let mut p = (-rate).exp();
            for k in 0..20 {
                let found = drawn.iter().filter(|x| **x == k as f64).count() as f64;
                let bound = 5.0 * (DRAWS as f64 * p * (1.0 - p)).sqrt() + 1.0;
                assert!(
                    (found - DRAWS as f64 * p).abs() <= bound,
                    "{rate} {k} {found}"
                );
                p *= rate / (k + 1) as f64;
            }
        }
        let x = dense(&[4], BF16, &[-1.0, f64::NAN, f64::INFINITY, 2.0]);
        let drawn = x.poisson();
        assert_eq!(drawn.dtype(), BF16);
        assert_eq!(values(&drawn.isnan()), [1.0, 1.0, 1.0, 0.0]);
    });
}

#[test]
fn counts_of_successes() {
    let cases = [
        (0.0, 0.5),
        (1.0, 0.25),
        (30.0, 0.1),
        (30.0, 0.9),
        (40.0, 0.5),
        (1e5, 1e-5),
        (1e5, 0.75),
        (1e20, 0.4),
        (7.0, 0.0),
        (7.0, 1.0),
    ];
    both(|| {
        for (seed, (n, p)) in cases.into_iter().enumerate() {
            let trials = dense(&[1], F64, &[n]).expand(DRAWS);
            let drawn = Generator::new(seed as u64).binomial(&trials, p);
            let variance = n * p * (1.0 - p);
            let fourth = variance * (1.0 + 3.0 * variance * (1.0 - 2.0 / n.max(1.0)));
            moments(&drawn, n * p, variance, fourth.max(variance * variance));
            let fits = |k: &f64| (0.0..=n).contains(k) && k.fract() == 0.0;
            assert!(values(&drawn).iter().all(fits), "{n} {p}");
        }
        let n = dense(&[2, 1], F32, &[5.0, -1.0]);
        let p = dense(&[4], F32, &[0.5, -0.1, 1.1, f64::NAN]);
        let drawn = n.binomial(&p);
        let want = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        equal(&drawn.isnan(), &[2, 4], &want);
    });
}

#[test]
fn numbers_of_gamma_distributions() {
    both(|| {
        for (seed, a) in [0.05, 0.5, 1.0, 2.5, 80.0].into_iter().enumerate() {
            let x = dense(&[1], F64, &[a]).expand(DRAWS);
            let drawn = Generator::new(seed as u64).standard_gamma(&x);
            moments(&drawn, a, a, 3.0 * a * a + 6.0 * a);
            // The distribution function makes them uniform.
            let uniform = values(&x.gammainc(&drawn));
            for q in [0.1, 0.5, 0.9] {
                let below = uniform.iter().filter(|u| **u < q).count() as f64;
                let n = DRAWS as f64;
                let bound = 5.0 * (n * q * (1.0 - q)).sqrt();
                assert!((below - n * q).abs() <= bound, "{a} {q} {below}");
            }
        }
        let x = dense(&[4], F16, &[0.0, -1.0, f64::NAN, 2.0]);
        let drawn = x.standard_gamma();
        assert_eq!(drawn.dtype(), F16);
        assert_eq!(values(&drawn.isnan()), [1.0, 1.0, 1.0, 0.0]);
    });
}

/// Numbers move with their shape so that the distribution function stays.
#[test]
fn gradients_of_gamma_distributions() {
    both(|| {
        for (seed, a) in [0.05, 0.7, 1.0, 3.5, 60.0].into_iter().enumerate() {
            let shapes = dense(&[1], F64, &[a])
                .expand(2000)
                .contiguous()
                .requires_grad();
            let drawn = Generator::new(seed as u64).standard_gamma(&shapes);
            let slopes = grad(&drawn.sum(..), &[&shapes]).remove(0);
            let (x, h) = (drawn.detach(), 1e-3 * a);
            let (more, less) = (&x + &slopes * h, &x - &slopes * h);
            let shapes = shapes.detach();
            let change = (&shapes + h).gammainc(&more) - (&shapes - h).gammainc(&less);
            // The derivative along the slope is 0, where the numbers are not so small that nothing is left of them.
            let change = x.gt(1e-6).where_cond(&change, 0.0) / (2.0 * h);
            let most = values(&change.abs().max(..))[0];
            assert!(most < 2e-3 / a.min(1.0), "{a}: {most}");
            // The mean is a, whose derivative is 1.
            let mean = values(&slopes.mean(..))[0];
            assert!((mean - 1.0).abs() < 0.25, "{a}: {mean}");
        }
        let x = dense(&[2], BF16, &[2.0, 5.0]).requires_grad();
        let slopes = grad(&x.standard_gamma().sum(..), &[&x]).remove(0);
        assert_eq!((slopes.dims(), slopes.dtype()), (&[2][..], BF16));
    });
}

type Draw = fn(&Generator, &Tensor) -> Tensor;

/// A generator draws the same numbers in eager mode, in compiled mode and in a compiled function; each call of that draws others.
#[test]
fn draws_of_distributions_are_those_of_the_seed() {
    let draws: [(&'static str, Draw); 3] = [
        ("poisson", Generator::poisson),
        ("binomial", |g, x| g.binomial(x, 0.4)),
        ("standard_gamma", Generator::standard_gamma),
    ];
    let x = dense(&[3, 40], F32, &whole(120, 50)) + 0.5;
    for (name, draw) in draws {
        let of = |mode| {
            with_mode(mode, || {
                let g = Generator::new(5);
                [0, 1].map(|_| draw(&g, &x).to_vec::<f32>().unwrap())
            })
        };
        let first = of(Mode::Eager);
        assert_ne!(first[0], first[1], "{name}");
        assert_eq!(first, of(Mode::Compiled), "{name}");
        let own = Generator::new(5);
        let f = jit(move |x: &Tensor| draw(&own, x));
        for want in first {
            assert_eq!(f.call(&x).to_vec::<f32>().unwrap(), want, "{name}");
        }
        both(|| {
            let g = Generator::new(1);
            refused(
                &draw(
                    &g,
                    &Tensor::failed("here", ferrotrace::Error::shape("it"), &[]),
                ),
                "here",
                &[],
            );
            assert_eq!(draw(&g, &x.narrow(0, 0, 0)).dims(), [0, 40]);
            assert_eq!(draw(&g, &dense(&[], F64, &[20.0])).rank(), 0);
            let drawn = draw(&g, &x.requires_grad());
            assert_eq!(drawn.has_grad(), name == "standard_gamma");
        });
    }
    refused(&ints(&[1]).poisson(), "poisson", &["i64"]);
    refused(&ints(&[1]).standard_gamma(), "standard_gamma", &["i64"]);
}
