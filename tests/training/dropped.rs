//! Random programs that drop their tensors: gradients by those that are left are as where all are kept.
//! `FERROTRACE_FUZZ_SEED` and `FERROTRACE_FUZZ_COUNT` choose other programs.

#[path = "../common/rng.rs"]
#[allow(dead_code, missing_docs)]
mod rng;

use ferrotrace::prelude::*;
use ferrotrace::{checkpoint, value_and_grad};
use rng::Rng;

/// Variables of a program, each a vector of three numbers.
const VARIABLES: usize = 6;

/// A statement that gives the first variable another value.
#[derive(Clone, Copy, Debug)]
enum Make {
    Leaf(usize, usize),
    Detached(usize, usize),
    Product(usize, usize, usize),
    Mean(usize, usize, usize),
    Sine(usize, usize),
    Rolled(usize, usize),
    Again(usize, usize, usize),
    Called(usize, usize, usize),
    /// The gradient of the second by the third.
    Gradient(usize, usize, usize),
    /// The gradient of a model of the second with the third in its loss.
    Model(usize, usize, usize),
    /// The variable is computed here.
    Computed(usize),
    /// The gradients of the first by all are noted.
    Asked(usize),
}

fn program(seed: u64) -> Vec<Make> {
    let mut rng = Rng::new(seed);
    let (mut made, mut gradients) = (Vec::new(), 0);
    for _ in 0..12 + rng.below(30) {
        let [to, a, b] = [0; 3].map(|_: u32| rng.below(VARIABLES));
        // Each gradient repeats what it goes through.
        let kind = match rng.below(24) {
            10..=15 if gradients == 4 => rng.below(10),
            kind => kind,
        };
        gradients += usize::from((10..=15).contains(&kind));
        made.push(match kind {
            0 | 1 => Make::Leaf(to, a),
            2 => Make::Detached(to, a),
            3 | 4 | 16 => Make::Product(to, a, b),
            5 | 6 | 17 => Make::Mean(to, a, b),
            7 | 18 => Make::Sine(to, a),
            8 => Make::Rolled(to, a),
            9 => Make::Again(to, a, b),
            10..=13 => Make::Gradient(to, a, b),
            14 | 15 => Make::Model(to, a, b),
            19 | 20 => Make::Called(to, a, b),
            21 => Make::Computed(a),
            _ => Make::Asked(a),
        });
    }
    made.extend((0..VARIABLES).map(Make::Asked));
    made
}

/// The gradients that a program notes. Where `keep`, all values live to its end.
fn noted(program: &[Make], keep: bool) -> Vec<f64> {
    let called = jit(|(x, y): (&Tensor, &Tensor)| (x * y).sin());
    let leaf = |i: usize| {
        let numbers = [0.3, -0.7, 1.1].map(|x| x + 0.17 * i as f64);
        Tensor::from_slice(&numbers, 3, &Device::cpu()).requires_grad()
    };
    let mut all: Vec<Tensor> = (0..VARIABLES).map(leaf).collect();
    let (mut kept, mut found) = (Vec::new(), Vec::new());
    for &make in program {
        let at = |i: usize| &all[i];
        let (to, value) = match make {
            Make::Leaf(to, a) => (to, at(a).detach().requires_grad()),
            Make::Detached(to, a) => (to, at(a).detach()),
            Make::Product(to, a, b) => (to, (at(a) * at(b)).tanh()),
            Make::Mean(to, a, b) => (to, (at(a) + at(b)) * 0.5),
            Make::Sine(to, a) => (to, at(a).sin()),
            Make::Rolled(to, a) => (to, at(a).roll(1, 0)),
            Make::Again(to, a, b) => (to, checkpoint(|| (at(a) * at(b)).sin() * at(b))),
            Make::Called(to, a, b) => (to, called.call((at(a), at(b)))),
            Make::Gradient(to, a, b) => {
                let loss = at(a).square().sum(..);
                (to, grad(&loss, &[at(b)]).remove(0).tanh())
            }
            Make::Model(to, a, b) => {
                let model = [at(a).clone()];
                let (_, of) = value_and_grad(&model, |m| (&m[0] * &m[0] * at(b)).sum(..));
                (to, of[0].tanh())
            }
            Make::Computed(a) => {
                at(a).eval().unwrap();
                continue;
            }
            Make::Asked(a) => {
                let loss = at(a).square().sum(..);
                for gradient in grad(&loss, &all.iter().collect::<Vec<_>>()) {
                    found.extend(gradient.to_vec::<f64>().unwrap());
                }
                continue;
            }
        };
        let before = std::mem::replace(&mut all[to], value);
        if keep {
            kept.push(before);
        }
    }
    found
}

#[test]
fn what_is_dropped_changes_no_gradient() {
    let of = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let first = of("FERROTRACE_FUZZ_SEED").unwrap_or(0);
    let count = of("FERROTRACE_FUZZ_COUNT").unwrap_or(12);
    let mut some = 0;
    for seed in first..first + count {
        let program = program(seed);
        for mode in [Mode::Eager, Mode::Compiled] {
            let [dropped, kept] =
                [false, true].map(|keep| with_mode(mode, || noted(&program, keep)));
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * (1.0 + b.abs());
            assert!(
                dropped.len() == kept.len() && dropped.iter().zip(&kept).all(near),
                "seed {seed}, {mode:?}: {program:?}\n{dropped:?}\n{kept:?}"
            );
            some += kept.iter().filter(|x| **x != 0.0).count();
        }
    }
    assert!(some as u64 > 20 * count, "{some} gradients are not 0");
}
