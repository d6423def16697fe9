//! Programs that count, search and shift integers, and what reads rows by them.

use crate::check::{Program, noise};
use crate::expected::*;
use ferrotrace::DType::*;
use ferrotrace::ReduceOp;
use ferrotrace::prelude::*;

fn range(n: usize) -> Tensor {
    Tensor::arange(0, n as i64, 1, I64, &Device::cpu())
}

/// Whole numbers below a bound.
fn whole(shape: &[usize], seed: usize, bound: i64) -> Tensor {
    (noise(shape, seed) * 1000 + 2000)
        .round()
        .to_dtype(I64)
        .remainder(bound)
}

/// Runs of equal symbols: their lengths by counting, the longest of each symbol, and a histogram of lengths by bisection.
/// Symbols move on by the length of their run.
fn runs(s: Vec<Tensor>) -> Vec<Tensor> {
    let symbols = &s[0];
    let n = symbols.numel();
    let starts = symbols.at(1..).ne(&symbols.at(0..n as isize - 1));
    let run = Tensor::cat([s[1].at(0..1).zeros_like(), starts.to_dtype(I64)], 0).cumsum(0);
    let lengths = run.bincount(None, n);
    let own = lengths.gather(0, &run);
    let none = Tensor::zeros([3], I64, &Device::cpu());
    let longest = none.scatter_reduce(0, symbols, &own, ReduceOp::Amax, true);
    let edges = Tensor::from_slice(&[1i64, 2, 3, 5], [4], &Device::cpu());
    let spread = edges.searchsorted(&lengths, true).bincount(None, 5);
    let next = (symbols + own + range(n).remainder(5)).remainder(3);
    vec![next, Tensor::cat([longest, spread], 0)]
}

#[test]
fn lengths_of_runs() {
    Program {
        state: || vec![whole(&[150], 0, 3), range(8)],
        step: runs,
        steps: 24,
        expected: RUNS,
        tolerance: 1e-14,
    }
    .check();
}

/// Rule 110 on rings of thirty cells, a word each, and how many cells of each ring live.
fn rule_110(s: Vec<Tensor>) -> Vec<Tensor> {
    let x = &s[0];
    let all = (1i64 << 30) - 1;
    let left = x.shr(1).bitwise_or(&x.bitwise_and(1).shl(29));
    let right = x.shl(1).bitwise_and(all).bitwise_or(&x.shr(29));
    let both = left.bitwise_and(x).bitwise_and(&right);
    let x = x.bitwise_or(&right).bitwise_xor(&both);
    let pairs = &x - x.shr(1).bitwise_and(0x5555_5555i64);
    let fours = pairs.bitwise_and(0x3333_3333i64) + pairs.shr(2).bitwise_and(0x3333_3333i64);
    let bytes = (&fours + fours.shr(4)).bitwise_and(0x0f0f_0f0fi64);
    let count = (bytes * 0x0101_0101i64).shr(24).bitwise_and(63);
    vec![x, count]
}

#[test]
fn cellular_automaton_in_words() {
    Program {
        state: || vec![whole(&[70], 0, 4001).square() * 37, range(70)],
        step: rule_110,
        steps: 24,
        expected: RULE_110,
        tolerance: 1e-14,
    }
    .check();
}

/// Bayes' rule for independent features, whose classes are then guessed anew: counts by scatters, probabilities by rows.
fn bayes(s: Vec<Tensor>) -> Vec<Tensor> {
    let (features, class) = (&s[0], &s[1]);
    let (n, d) = (features.dims()[0], features.dims()[1]);
    let slot = range(d) * 5 + features;
    let at = (class.unsqueeze(1) * (d as i64 * 5) + &slot).flatten(0, 1);
    let one = Tensor::ones([n * d], F64, &Device::cpu());
    let counts = Tensor::zeros([4 * d * 5], F64, &Device::cpu()).scatter_add(0, &at, &one);
    let counts = counts.reshape([4, d, 5]);
    let chance = ((&counts + 1.0) / (counts.sum_keepdim(2) + 5.0)).log();
    let rows = chance.permute([1, 2, 0]).reshape([d * 5, 4]);
    let read = rows.index_select(0, &slot.flatten(0, 1)).reshape([n, d, 4]);
    let prior = (class.one_hot(4).to_dtype(F64).sum(0) + 1.0) / (n + 4) as f64;
    let score = read.sum(1) + prior.log();
    vec![features.roll(1, 0), score.argmax(1), score.softmax(1)]
}

#[test]
fn naive_bayes() {
    Program {
        state: || {
            vec![
                whole(&[90, 6], 0, 5),
                whole(&[90], 2, 4),
                noise(&[90, 4], 0),
            ]
        },
        step: bayes,
        steps: 8,
        expected: BAYES,
        tolerance: 1e-12,
    }
    .check();
}
