//! Gradients at kinks, ties and singular points, as PyTorch 2.15 gives them in binary64.

use super::check::{ints, of};
use ferrotrace::ReduceOp;
use ferrotrace::prelude::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// The gradients of the sum of `f`, each element of which `seed` weighs, by all inputs are those given.
#[track_caller]
fn table(
    inputs: &[Tensor],
    seed: Option<&[f64]>,
    f: impl Fn(&[Tensor]) -> Tensor,
    want: &[&[f64]],
) {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let leaves: Vec<Tensor> = inputs.iter().map(|x| x.requires_grad()).collect();
            let y = f(&leaves);
            let y = match seed {
                Some(seed) => y * of(&[seed.len()], seed),
                None => y,
            };
            let found = grad(&y.sum(..), &leaves);
            for (i, (found, want)) in found.iter().zip(want).enumerate() {
                let got = found.to_vec::<f64>().unwrap_or_else(|e| panic!("{e}"));
                let same = |(a, b): (&f64, &f64)| {
                    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6
                };
                assert!(
                    got.len() == want.len() && got.iter().zip(*want).all(same),
                    "{mode:?}, operand {i}: {got:?}, not {want:?}"
                );
            }
        });
    }
}

fn v(values: &[f64]) -> Tensor {
    of(&[values.len()], values)
}

fn rows(columns: usize, values: &[f64]) -> Tensor {
    of(&[values.len() / columns, columns], values)
}

type Unary = fn(&Tensor) -> Tensor;

#[test]
fn activations_at_their_kinks() {
    let x = [-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0, 20.0, 20.5];
    let cases: [(Unary, [f64; 9]); 16] = [
        (|x| x.relu(), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
        (|x| x.relu6(), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]),
        (
            |x| x.hardtanh(),
            [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        ),
        (
            |x| x.hardswish(),
            [0.0, 0.0, 1.0 / 6.0, 0.5, 5.0 / 6.0, 1.0, 1.0, 1.0, 1.0],
        ),
        (
            |x| x.hardsigmoid(),
            [
                0.0,
                0.0,
                1.0 / 6.0,
                1.0 / 6.0,
                1.0 / 6.0,
                0.0,
                0.0,
                0.0,
                0.0,
            ],
        ),
        (
            |x| x.leaky_relu(0.1),
            [0.1, 0.1, 0.1, 0.1, 1.0, 1.0, 1.0, 1.0, 1.0],
        ),
        (
            |x| x.elu(0.5),
            [
                0.00123938, 0.02489353, 0.18393972, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0,
            ],
        ),
        (
            |x| x.celu(0.5),
            [
                0.00000614, 0.00247875, 0.13533528, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0,
            ],
        ),
        (
            |x| x.clamp(-1, 3),
            [0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        ),
        (
            |x| x.clamp_min(-1),
            [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        ),
        (
            |x| x.clamp_max(3),
            [1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0],
        ),
        (|x| x.clamp(3, -1), [0.0; 9]),
        (
            |x| x.abs(),
            [-1.0, -1.0, -1.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        ),
        (|x| x.frac(), [1.0; 9]),
        (
            |x| x.sign() + x.round() + x.floor() + x.trunc() + x.ceil(),
            [0.0; 9],
        ),
        (
            |x| x.softsign(),
            [
                0.02040816, 0.0625, 0.25, 1.0, 0.25, 0.0625, 0.02040816, 0.00226757, 0.00216333,
            ],
        ),
    ];
    for (f, want) in cases {
        table(&[v(&x)], None, |t| f(&t[0]), &[&want]);
    }
}

#[test]
fn smooth_activations() {
    let x = [-6.0, -3.0, -1.0, 0.0, 1.0, 3.0, 6.0];
    let cases: [(Unary, [f64; 7]); 7] = [
        (
            |x| x.selu(),
            [
                0.004358, 0.087531, 0.646769, 1.758099, 1.050701, 1.050701, 1.050701,
            ],
        ),
        (
            |x| x.softplus(),
            [
                0.002473, 0.047426, 0.268941, 0.5, 0.731059, 0.952574, 0.997527,
            ],
        ),
        (
            |x| x.logsigmoid(),
            [
                0.997527, 0.952574, 0.731059, 0.5, 0.268941, 0.047426, 0.002473,
            ],
        ),
        (
            |x| x.mish(),
            [
                -0.01236, -0.093393, 0.059217, 0.6, 1.049036, 1.021107, 1.000134,
            ],
        ),
        (
            |x| x.silu(),
            [
                -0.012326, -0.088104, 0.072329, 0.5, 0.927671, 1.088104, 1.012326,
            ],
        ),
        (
            |x| x.gelu(),
            [0.0, -0.011946, -0.083315, 0.5, 1.083315, 1.011946, 1.0],
        ),
        (
            |x| x.gelu_tanh(),
            [0.0, -0.011584, -0.082964, 0.5, 1.082964, 1.011584, 1.0],
        ),
    ];
    for (f, want) in cases {
        // PyTorch's values are printed to six places.
        let want = want.map(|w| (w * 1e4).round() / 1e4);
        let rounded = |t: &[Tensor]| f(&t[0]);
        let leaf = v(&x).requires_grad();
        let found = grad(&rounded(std::slice::from_ref(&leaf)).sum(..), &[&leaf]).remove(0);
        let got: Vec<f64> = found.to_vec().unwrap();
        let got: Vec<f64> = got.iter().map(|g| (g * 1e4).round() / 1e4).collect();
        assert_eq!(got, want);
    }
}

#[test]
fn not_a_number() {
    let passes: [Unary; 5] = [
        |x| x.relu(),
        |x| x.relu6(),
        |x| x.hardtanh(),
        |x| x.hardswish(),
        |x| x.frac(),
    ];
    for f in passes {
        table(&[v(&[NAN])], None, |t| f(&t[0]), &[&[1.0]]);
    }
    let stops: [Unary; 5] = [
        |x| x.hardsigmoid(),
        |x| x.clamp(-1, 1),
        |x| x.clamp_min(0),
        |x| x.clamp_max(0),
        |x| x.nan_to_num(0.0, 1.0, -1.0),
    ];
    for f in stops {
        table(&[v(&[NAN])], None, |t| f(&t[0]), &[&[0.0]]);
    }
    let x = v(&[INF, -INF, NAN, 2.0]);
    table(
        &[x],
        None,
        |t| t[0].nan_to_num(0.0, 1.0, -1.0),
        &[&[0.0, 0.0, 0.0, 1.0]],
    );
}

#[test]
fn powers_and_roots_at_zero() {
    let x = [-2.0, 0.0, 2.0];
    for (p, want) in [
        (0.0, [0.0, 0.0, 0.0]),
        (1.0, [1.0, 1.0, 1.0]),
        (2.0, [-4.0, 0.0, 4.0]),
        (3.0, [12.0, 0.0, 12.0]),
        (0.5, [NAN, INF, 0.35355339]),
        (1.5, [NAN, 0.0, 2.12132034]),
        (-1.0, [-0.25, -INF, -0.25]),
    ] {
        table(&[v(&x)], None, |t| t[0].pow(p), &[&want]);
    }
    let (base, exponent) = (
        v(&[0.0, 0.0, 0.0, 0.0, 0.0, 2.0, -2.0]),
        v(&[0.0, 1.0, 2.0, 0.5, -1.0, 0.0, 2.0]),
    );
    let want: [&[f64]; 2] = [
        &[0.0, 1.0, 0.0, INF, -INF, 0.0, -4.0],
        &[0.0, 0.0, 0.0, 0.0, -INF, std::f64::consts::LN_2, NAN],
    ];
    table(&[base, exponent], None, |t| t[0].pow(&t[1]), &want);
    table(
        &[v(&[0.0, 4.0, -1.0])],
        None,
        |t| t[0].sqrt(),
        &[&[INF, 0.25, NAN]],
    );
    table(
        &[v(&[0.0, 4.0])],
        None,
        |t| t[0].rsqrt(),
        &[&[-INF, -0.0625]],
    );
    table(&[v(&[0.0, 2.0])], None, |t| t[0].log(), &[&[INF, 0.5]]);
    table(&[v(&[1.0, 0.0])], None, |t| t[0].asin(), &[&[INF, 1.0]]);
}

/// One place in the program differentiates powers by several numbers.
#[test]
fn exponents_in_a_loop() {
    let x = v(&[3.0]).requires_grad();
    let slopes: Vec<f64> = (0..4)
        .map(|p| grad(&x.pow(p).sum(..), &[&x])[0].item::<f64>().unwrap())
        .collect();
    assert_eq!(slopes, [0.0, 1.0, 6.0, 27.0]);
}

#[test]
fn products_with_zeros() {
    for (x, product, running) in [
        ([2.0, 3.0, 4.0], [12.0, 8.0, 6.0], [16.0, 10.0, 6.0]),
        ([0.0, 3.0, 4.0], [12.0, 0.0, 0.0], [16.0, 0.0, 0.0]),
        ([0.0, 3.0, 0.0], [0.0; 3], [4.0, 0.0, 0.0]),
        ([0.0; 3], [0.0; 3], [1.0, 0.0, 0.0]),
    ] {
        table(&[v(&x)], None, |t| t[0].prod(..), &[&product]);
        table(&[v(&x)], None, |t| t[0].cumprod(0), &[&running]);
    }
}

#[test]
fn norms_at_zero_and_at_ties() {
    let x = rows(3, &[0.0, 0.0, 0.0, 3.0, 0.0, -4.0, 2.0, -2.0, 1.0]);
    let third = 1.0 / 3.0;
    for (p, want) in [
        (0.0, [[0.0; 3], [0.0; 3]]),
        (1.0, [[1.0, 0.0, -1.0], [1.0, -1.0, 1.0]]),
        (2.0, [[0.6, 0.0, -0.8], [2.0 * third, -2.0 * third, third]]),
        (
            3.0,
            [
                [0.44485135, 0.0, -0.79084685],
                [0.60500743, -0.60500743, 0.15125186],
            ],
        ),
        (
            1.5,
            [
                [0.73295648, 0.0, -0.84634524],
                [0.7517821, -0.7517821, 0.53159022],
            ],
        ),
        (
            0.5,
            [
                [2.15470054, 0.0, -1.8660254],
                [2.70710678, -2.70710678, 3.82842712],
            ],
        ),
        (-1.0, [[0.0; 3], [0.0625, -0.0625, 0.25]]),
        (INF, [[0.0, 0.0, -1.0], [0.5, -0.5, 0.0]]),
        (-INF, [[0.0; 3], [0.0, 0.0, 1.0]]),
    ] {
        let want = [[0.0; 3], want[0], want[1]].concat();
        table(
            std::slice::from_ref(&x),
            None,
            |t| t[0].norm(p, 1),
            &[&want],
        );
    }
    table(
        &[v(&[0.0, 0.0])],
        None,
        |t| t[0].norm(2.0, ..),
        &[&[0.0, 0.0]],
    );
}

#[test]
fn moments_of_equal_numbers() {
    let x = rows(3, &[1.0, 1.0, 1.0, 1.0, 2.0, 4.0]);
    let var = [0.0, 0.0, 0.0, -4.0 / 3.0, -1.0 / 3.0, 5.0 / 3.0];
    table(std::slice::from_ref(&x), None, |t| t[0].var(1, 1), &[&var]);
    let std = [0.0, 0.0, 0.0, -0.43643578, -0.10910895, 0.54554473];
    table(&[x], None, |t| t[0].std(1, 1), &[&std]);
    table(&[v(&[1.0])], None, |t| t[0].var(0, 1), &[&[NAN]]);
    table(&[v(&[1.0])], None, |t| t[0].std(0, 1), &[&[NAN]]);
}

#[test]
fn rows_of_infinities() {
    let x = rows(2, &[-INF, -INF, -INF, 0.0, INF, 0.0, 0.0, 0.0]);
    let want = [NAN, NAN, 0.0, 1.0, NAN, 0.0, 0.5, 0.5];
    table(&[x], None, |t| t[0].logsumexp(1), &[&want]);
    let x = rows(2, &[-INF, -INF, -INF, 0.0, 0.0, 0.0]);
    let want = [NAN, NAN, 0.0, 0.0, 0.25, -0.25];
    table(
        std::slice::from_ref(&x),
        None,
        |t| t[0].softmax(1).select(1, 0),
        &[&want],
    );
    let want = [NAN, NAN, 0.0, 0.0, -0.5, 0.5];
    table(&[x], None, |t| t[0].log_softmax(1).select(1, 1), &[&want]);
}

#[test]
fn ties_of_extremes() {
    let x = rows(3, &[1.0, 3.0, 3.0, 2.0, 2.0, 2.0, NAN, 1.0, NAN]);
    let third = 1.0 / 3.0;
    let shared = [0.0, 0.5, 0.5, third, third, third, NAN, NAN, NAN];
    table(std::slice::from_ref(&x), None, |t| t[0].max(1), &[&shared]);
    let first = [0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    table(
        std::slice::from_ref(&x),
        None,
        |t| t[0].max_with_index(1).0,
        &[&first],
    );
    table(&[x], None, |t| t[0].max_with_index_keepdim(1).0, &[&first]);
    let x = rows(3, &[1.0, 3.0, 1.0, 2.0, 2.0, 2.0]);
    let first = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];
    table(&[x], None, |t| t[0].min_with_index(1).0, &[&first]);
    let x = v(&[1.0, 3.0, 3.0, 2.0, 4.0]);
    table(
        &[x],
        None,
        |t| t[0].cummax(0).0,
        &[&[1.0, 1.0, 2.0, 0.0, 1.0]],
    );
    let x = v(&[3.0, 1.0, 1.0, 2.0]);
    table(&[x], None, |t| t[0].cummin(0).0, &[&[1.0, 1.0, 2.0, 0.0]]);
}

#[test]
fn ties_of_two_and_of_sorts() {
    let (a, b) = (v(&[1.0, 2.0, 3.0, NAN, 1.0]), v(&[2.0, 2.0, 2.0, 1.0, NAN]));
    let pair = [a, b];
    let want: [&[f64]; 2] = [&[0.0, 0.5, 1.0, 1.0, 1.0], &[1.0, 0.5, 0.0, 1.0, 1.0]];
    table(&pair, None, |t| t[0].maximum(&t[1]), &want);
    let want: [&[f64]; 2] = [&[1.0, 0.5, 0.0, 1.0, 1.0], &[0.0, 0.5, 1.0, 1.0, 1.0]];
    table(&pair, None, |t| t[0].minimum(&t[1]), &want);
    let x = [v(&[2.0, 1.0, 2.0])];
    let seed: &[f64] = &[1.0, 2.0, 3.0];
    table(
        &x,
        Some(seed),
        |t| t[0].sort(0, false).0,
        &[&[2.0, 1.0, 3.0]],
    );
    table(
        &x,
        Some(seed),
        |t| t[0].sort(0, true).0,
        &[&[1.0, 3.0, 2.0]],
    );
    table(
        &x,
        Some(&[1.0, 2.0]),
        |t| t[0].topk(2, 0, true).0,
        &[&[1.0, 0.0, 2.0]],
    );
}

#[test]
fn functions_of_two() {
    let (a, b) = (v(&[5.0, -5.0, 6.0, 0.0]), v(&[3.0, 3.0, 3.0, 2.0]));
    let pair = [a, b];
    let fmod: [&[f64]; 2] = [&[1.0; 4], &[-1.0, 1.0, -2.0, 0.0]];
    table(&pair, None, |t| t[0].fmod(&t[1]), &fmod);
    let remainder: [&[f64]; 2] = [&[1.0; 4], &[-1.0, 2.0, -2.0, 0.0]];
    table(&pair, None, |t| t[0].remainder(&t[1]), &remainder);
    let (y, x) = (v(&[0.0, 1.0, 0.0]), v(&[0.0, 0.0, 1.0]));
    let angle: [&[f64]; 2] = [&[0.0, 0.0, 1.0], &[0.0, -1.0, 0.0]];
    table(&[y, x], None, |t| t[0].atan2(&t[1]), &angle);
    let line = [
        v(&[1.0, 2.0, 3.0]),
        v(&[4.0, 5.0, 6.0]),
        v(&[0.0, 0.5, 1.0]),
    ];
    let lerp: [&[f64]; 3] = [&[1.0, 0.5, 0.0], &[0.0, 0.5, 1.0], &[3.0, 3.0, 3.0]];
    table(&line, None, |t| t[0].lerp(&t[1], &t[2]), &lerp);
    let quotient = [v(&[1.0]), v(&[2.0]), v(&[4.0])];
    let want: [&[f64]; 3] = [&[1.0], &[0.125], &[-0.0625]];
    table(&quotient, None, |t| t[0].addcdiv(&t[1], &t[2], 0.5), &want);
}

/// Gradients of functions that are made of straight lines do not change: theirs is 0.
#[test]
fn second_derivatives_of_lines() {
    let lines: [Unary; 6] = [
        |x| x.relu(),
        |x| x.clamp(-1, 1),
        |x| x.cummax(0).0,
        |x| x.sort(0, false).0,
        |x| x.max_with_index(0).0,
        |x| x.index_select(0, &ints(&[1, 1])),
    ];
    for line in lines {
        let x = v(&[0.5, -2.0, 1.5]).requires_grad();
        let first = grad(&line(&x).sum(..), &[&x]).remove(0);
        let second = grad(&first.square().sum(..), &[&x]).remove(0);
        assert_eq!(second.to_vec::<f64>().unwrap(), [0.0; 3]);
    }
}

#[test]
fn a_branch_that_is_not_taken() {
    // As in PyTorch, 0 times the infinite slope of the other branch is NaN.
    let x = v(&[-1.0, 0.0, 4.0]);
    let root = |t: &[Tensor]| t[0].gt(0).where_cond(&t[0].sqrt(), 0.0);
    table(std::slice::from_ref(&x), None, root, &[&[NAN, NAN, 0.25]]);
    // The way around it.
    let root = |t: &[Tensor]| {
        let positive = t[0].gt(0);
        let safe = positive.where_cond(&t[0], 1.0);
        positive.where_cond(&safe.sqrt(), 0.0)
    };
    table(&[x], None, root, &[&[0.0, 0.0, 0.25]]);
}

#[test]
fn reductions_at_positions() {
    let index = ints(&[0, 0, 1, 2]);
    let seed: &[f64] = &[1.0, 2.0, 3.0, 4.0];
    let first = [v(&[2.0, 0.0, 3.0, 4.0]), v(&[2.0, 2.0, 0.0, 5.0])];
    let second = [v(&[2.0, 1.0, 3.0, 4.0]), v(&[0.0, 2.0, 0.0, 5.0])];
    let third = 1.0 / 3.0;
    type Pair = [[f64; 4]; 2];
    let cases: [(ReduceOp, bool, Pair, Pair); 8] = [
        (
            ReduceOp::Sum,
            false,
            [[0.0, 0.0, 0.0, 4.0], [1.0, 1.0, 2.0, 3.0]],
            [[0.0, 0.0, 0.0, 4.0], [1.0, 1.0, 2.0, 3.0]],
        ),
        (
            ReduceOp::Prod,
            true,
            [[4.0, 0.0, 15.0, 4.0], [4.0, 4.0, 0.0, 9.0]],
            [[0.0, 0.0, 15.0, 4.0], [4.0, 0.0, 2.0, 9.0]],
        ),
        (
            ReduceOp::Prod,
            false,
            [[0.0, 0.0, 0.0, 4.0], [2.0, 2.0, 2.0, 3.0]],
            [[0.0, 0.0, 0.0, 4.0], [2.0, 0.0, 2.0, 3.0]],
        ),
        (
            ReduceOp::Mean,
            true,
            [[third, 1.0, 1.5, 4.0], [third, third, 1.0, 1.5]],
            [[third, 1.0, 1.5, 4.0], [third, third, 1.0, 1.5]],
        ),
        (
            ReduceOp::Mean,
            false,
            [[0.0, 0.0, 0.0, 4.0], [0.5, 0.5, 2.0, 3.0]],
            [[0.0, 0.0, 0.0, 4.0], [0.5, 0.5, 2.0, 3.0]],
        ),
        (
            ReduceOp::Amax,
            true,
            [[third, 1.0, 0.0, 4.0], [third, third, 1.0, 3.0]],
            [[0.5, 2.0, 0.0, 4.0], [0.0, 0.5, 0.0, 3.0]],
        ),
        (
            ReduceOp::Amin,
            true,
            [[third, 1.0, 3.0, 4.0], [third, third, 1.0, 0.0]],
            [[0.0, 0.0, 3.0, 4.0], [1.0, 0.0, 2.0, 0.0]],
        ),
        // PyTorch counts the old value among the ties though it takes no part; here the gradient is shared by those that do.
        (
            ReduceOp::Amax,
            false,
            [[0.0, 0.0, 0.0, 4.0], [0.5, 0.5, 2.0, 3.0]],
            [[0.0, 0.0, 0.0, 4.0], [0.0, 1.0, 2.0, 3.0]],
        ),
    ];
    for (op, include, of_first, of_second) in cases {
        for (inputs, want) in [(&first, of_first), (&second, of_second)] {
            let f = |t: &[Tensor]| t[0].scatter_reduce(0, &index, &t[1], op, include);
            table(inputs, Some(seed), f, &[&want[0], &want[1]]);
        }
    }
}
