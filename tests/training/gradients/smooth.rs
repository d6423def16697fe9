//! Slopes of smooth functions where a definition of theirs goes by the greater number, by a magnitude or around a division by
//! zero: the first and the second one, by differences.

use super::check::{numbers, of};
use ferrotrace::prelude::*;
use ferrotrace::{DType::F64, Reduction};

type Function = fn(&Tensor) -> Tensor;

/// Both numbers as a vector, which a reduction is of.
fn both(x: &Tensor, y: Tensor) -> Tensor {
    Tensor::stack([x.clone(), y], 0)
}

const FUNCTIONS: [(&str, Function); 27] = [
    ("softplus", Tensor::softplus),
    ("logsigmoid", Tensor::logsigmoid),
    ("binary_cross_entropy_with_logits", |x| {
        x.binary_cross_entropy_with_logits_reduced(&x.full_like(0.3), Reduction::None)
    }),
    ("soft_margin_loss", |x| {
        x.soft_margin_loss_reduced(&x.ones_like(), Reduction::None)
    }),
    ("poisson_nll_loss", |x| {
        x.poisson_nll_loss_reduced(&x.full_like(0.3), Reduction::None)
    }),
    ("kl_div", |x| {
        (x - 1.0).kl_div_reduced(&x.full_like(0.3), Reduction::None)
    }),
    ("huber_loss", |x| {
        x.huber_loss_reduced(&x.full_like(0.25), 1.0, Reduction::None)
    }),
    ("logaddexp", |x| x.logaddexp(&x.zeros_like())),
    ("logaddexp2", |x| x.logaddexp2(&x.zeros_like())),
    ("logsumexp", |x| both(x, x.zeros_like()).logsumexp(0)),
    ("logcumsumexp", |x| {
        both(x, x.zeros_like()).logcumsumexp(0).select(0, 1)
    }),
    ("softmax", |x| {
        both(x, x.zeros_like()).softmax(0).select(0, 0)
    }),
    ("hypot with 0", |x| x.hypot(&x.ones_like())),
    ("hypot of equal numbers", |x| {
        (x + 1.0).hypot(&x.ones_like())
    }),
    ("norm", |x| both(x, x.ones_like()).norm(2.0, 0)),
    ("prod", |x| both(x, x + 2.0).prod(0)),
    ("prod of zeros", |x| both(x, x * 3.0).prod(0)),
    ("cumprod", |x| both(x, x * 3.0).cumprod(0).select(0, 1)),
    ("std", |x| both(x, x * 3.0 + 1.0).std(0, 1)),
    ("sinc", Tensor::sinc),
    ("i0", Tensor::i0),
    ("i1", Tensor::i1),
    ("gelu", Tensor::gelu),
    ("mish", Tensor::mish),
    ("silu", Tensor::silu),
    ("erfinv", Tensor::erfinv),
    ("pow", |x| x.pow(&x.full_like(2.0))),
];

#[test]
fn slopes_where_definitions_part() {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            for (name, f) in FUNCTIONS {
                let x = of(&[1], &[0.0]).requires_grad();
                let first = grad(&f(&x).sum(..), &[&x]).remove(0);
                let second = grad(&first.sum(..), &[&x]).remove(0);
                let at = |x: f64| numbers(&f(&Tensor::from_slice(&[x], 1, &Device::cpu())))[0];
                const STEP: f64 = 1e-3;
                let (low, high) = (at(-STEP), at(STEP));
                let expected = [
                    (high - low) / (2.0 * STEP),
                    (high - 2.0 * at(0.0) + low) / (STEP * STEP),
                ];
                for (found, expected) in [first, second].iter().zip(expected) {
                    assert_eq!(found.dtype(), F64);
                    let found = numbers(found)[0];
                    let bound = 1e-3 * expected.abs().max(1.0);
                    assert!(
                        (found - expected).abs() < bound,
                        "{name}: {found} for {expected}"
                    );
                }
            }
        });
    }
}
