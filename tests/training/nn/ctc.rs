//! Losses of sequences without an alignment.

use super::cpu;
use crate::reference::{case, each};
use ferrotrace::nn::CtcLoss;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

const REDUCTIONS: [(&str, Reduction); 3] = [
    ("none", Reduction::None),
    ("sum", Reduction::Sum),
    ("mean", Reduction::Mean),
];

#[test]
fn losses_and_gradients() {
    let case = case("ctc");
    each(|dtype, tolerance| {
        // Gradients of losses of several units are rounded to fewer bits.
        let tolerance = if dtype == DType::BF16 { 0.1 } else { tolerance };
        let of = |name| case.input(name, dtype);
        let logits = of("logits").requires_grad();
        let (padded, joined) = (of("padded"), of("joined"));
        let (steps, lengths) = (of("steps"), of("lengths"));
        for blank in [0, 3] {
            let own = |x: &Tensor| x.eq(blank).where_cond(4, x);
            for (name, reduction) in REDUCTIONS {
                for (labels, kind) in [(own(&padded), DType::I64), (own(&joined), DType::I32)] {
                    let [steps, lengths] = [&steps, &lengths].map(|x| x.to_dtype(kind));
                    let logs = logits.log_softmax(-1);
                    let loss = CtcLoss::new()
                        .blank(blank as usize)
                        .reduction(reduction)
                        .zero_infinity(true)
                        .forward(&logs, &labels, &steps, &lengths);
                    assert_eq!(loss.dtype(), dtype);
                    let name = format!("{name}_{blank}");
                    case.near(&name, &loss, tolerance);
                    let by = grad(&loss.square().sum(..), &[&logs, &logits]);
                    case.near(&format!("{name}_dlogs"), &by[0], tolerance);
                    case.near(&format!("{name}_dlogits"), &by[1], tolerance);
                }
            }
        }
        let [step, length] = [&steps, &lengths].map(|x| x.select(0, 0));
        let logs = logits.select(1, 0).log_softmax(-1);
        for labels in [joined.narrow(0, 0, 3), padded.narrow(0, 0, 1)] {
            let loss = logs.ctc_loss(&labels, &step, &length, 0, Reduction::Mean, false);
            case.near("one", &loss, tolerance);
            let by = grad(&loss, &[&logits]);
            case.near("one_dlogits", &by[0], tolerance);
        }
    });
}

fn numbers(x: &Tensor) -> Vec<f64> {
    x.to_vec().unwrap()
}

#[test]
fn sequences_of_nothing() {
    let log_p = Tensor::full([3, 2, 2], 0.5f64.ln(), DType::F64, &cpu()).requires_grad();
    let of = |numbers: &[i64]| Tensor::from_slice(numbers, numbers.len(), &cpu());
    let labels = of(&[1, 1]).reshape([2, 1]);
    let none = Reduction::None;
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            // No steps say nothing, and nothing else.
            let loss = log_p.ctc_loss(&labels, &of(&[0, 0]), &of(&[0, 1]), 0, none, false);
            assert_eq!(numbers(&loss), [0.0, f64::INFINITY]);
            let loss = log_p.ctc_loss(&labels, &of(&[0, 0]), &of(&[0, 1]), 0, none, true);
            assert_eq!(numbers(&loss), [0.0, 0.0]);
            assert_eq!(numbers(&grad(&loss.sum(..), &[&log_p])[0]), [0.0; 12]);
            // Without labels there is one path, of blanks.
            let line = of(&[]);
            for labels in [&line, &line.reshape([2, 0])] {
                let loss = log_p.ctc_loss(labels, &of(&[3, 2]), &of(&[0, 0]), 0, none, false);
                let want = [3.0 * 2f64.ln(), 2.0 * 2f64.ln()];
                let got = numbers(&loss);
                assert!((got[0] - want[0]).abs() + (got[1] - want[1]).abs() < 1e-12);
            }
            // A class of probability 0 is in no path.
            let never = Tensor::from_slice(&[f64::NEG_INFINITY, 0.0], [1, 1, 2], &cpu());
            let loss = never.ctc_loss(&of(&[1]), &of(&[1]), &of(&[1]), 0, none, false);
            assert_eq!(numbers(&loss), [0.0]);
            let loss = never.ctc_loss(&of(&[0]), &of(&[1]), &of(&[1]), 1, none, false);
            assert_eq!(numbers(&loss), [f64::INFINITY]);
        });
    }
}

#[test]
fn sequences_that_do_not_fit_are_errors() {
    let log_p = Tensor::zeros([3, 2, 4], DType::F32, &cpu());
    let of = |numbers: &[i64]| Tensor::from_slice(numbers, numbers.len(), &cpu());
    let loss = |x: &Tensor, labels: &Tensor, steps: &Tensor, lengths: &Tensor, blank| {
        x.ctc_loss(labels, steps, lengths, blank, Reduction::Mean, false)
    };
    let (labels, steps) = (of(&[1, 2, 1, 3]).reshape([2, 2]), of(&[3, 3]));
    for y in [
        loss(&log_p, &labels, &steps, &of(&[2, 2]), 4),
        loss(&log_p, &labels, &of(&[3]), &of(&[2, 2]), 0),
        loss(&log_p, &labels, &steps, &of(&[2, 2, 2]), 0),
        loss(&log_p, &of(&[1, 2, 1, 3]), &steps, &of(&[2, 1]), 0),
        loss(&log_p, &of(&[1, 2, 1, 3]), &steps, &of(&[5, -1]), 0),
        loss(&log_p, &labels.unsqueeze(0), &steps, &of(&[2, 2]), 0),
        loss(
            &log_p,
            &labels.to_dtype(DType::F32),
            &steps,
            &of(&[2, 2]),
            0,
        ),
        loss(
            &log_p.to_dtype(DType::I64),
            &labels,
            &steps,
            &of(&[2, 2]),
            0,
        ),
        loss(
            &log_p.select(0, 0).select(0, 0),
            &labels,
            &steps,
            &of(&[2, 2]),
            0,
        ),
    ] {
        let error = y.error().unwrap_or_else(|| panic!("no error but {y:?}"));
        assert!(error.to_string().starts_with("ctc_loss: "), "{error}");
    }
    // What only the numbers tell is told when they are known.
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            for (i, y) in [
                loss(&log_p, &labels, &of(&[4, 3]), &of(&[2, 2]), 0),
                loss(&log_p, &labels, &of(&[-1, 3]), &of(&[2, 2]), 0),
                loss(&log_p, &labels, &steps, &of(&[3, 2]), 0),
                loss(&log_p, &(&labels + 2), &steps, &of(&[2, 2]), 0),
            ]
            .iter()
            .enumerate()
            {
                assert!(y.eval().is_err(), "{mode:?} {i}");
            }
        });
    }
}

/// What is compiled of a loss and its gradient does not grow with the number of steps.
#[test]
fn kernels_do_not_grow_with_steps() {
    let kernels = |steps: usize| {
        let x = Tensor::randn([steps, 2, 5], DType::F32, &cpu()).requires_grad();
        let labels = Tensor::randint(1, 5, [2, 3], DType::I64, &cpu());
        let of = |n: usize| Tensor::full(2, n, DType::I64, &cpu());
        let ((), stats) = stats_scope(|| {
            let loss = CtcLoss::new().forward(&x.log_softmax(-1), &labels, &of(steps), &of(3));
            let by = grad(&loss, &[&x]).remove(0);
            eval([&loss, &by]).unwrap();
        });
        stats.plans_built
    };
    with_mode(Mode::Compiled, || {
        assert!(kernels(300) <= kernels(20) + 2);
    });
}
