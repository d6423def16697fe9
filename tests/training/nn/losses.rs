//! Losses with every reduction.

use crate::reference::{Case, case, each};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;

const REDUCTIONS: [(&str, Reduction); 3] = [
    ("none", Reduction::None),
    ("sum", Reduction::Sum),
    ("mean", Reduction::Mean),
];

/// Checks each output of a case once.
struct Checked<'a> {
    case: &'a Case,
    left: std::cell::RefCell<Vec<String>>,
    tolerance: f64,
}

impl<'a> Checked<'a> {
    fn new(case: &'a Case, tolerance: f64) -> Checked<'a> {
        let left = std::cell::RefCell::new(case.outputs().cloned().collect());
        Checked {
            case,
            left,
            tolerance,
        }
    }

    fn near(&self, name: &str, got: &Tensor) {
        self.left.borrow_mut().retain(|left| left != name);
        // Sums have terms of either sign.
        self.case.near(name, got, 4.0 * self.tolerance);
    }
}

impl Drop for Checked<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(*self.left.borrow(), Vec::<String>::new());
        }
    }
}

#[test]
fn of_classes() {
    let case = case("classes");
    each(|dtype, tolerance| {
        let input = |name| case.input(name, dtype);
        let (logits, weight) = (input("logits"), input("weight"));
        let (classes, probabilities) = (input("classes"), input("probabilities"));
        let checked = Checked::new(&case, tolerance);
        for (name, reduction) in REDUCTIONS {
            let of = || CrossEntropyLoss::new().reduction(reduction);
            let weighted = || of().weight(weight.clone());
            let near = |which: &str, loss: CrossEntropyLoss, target: &Tensor| {
                checked.near(&format!("{which}_{name}"), &loss.forward(&logits, target));
            };
            near("weighted", weighted(), &classes);
            near("ignored", of().ignore_index(1), &classes);
            near("smooth", of().label_smoothing(0.2), &classes);
            near(
                "all",
                weighted().ignore_index(2).label_smoothing(0.1),
                &classes,
            );
            near(
                "probabilities",
                weighted().label_smoothing(0.1),
                &probabilities,
            );
            let nll = NllLoss::new().weight(weight.clone()).ignore_index(0);
            let loss = nll.reduction(reduction).forward(&logits, &classes);
            checked.near(&format!("nll_{name}"), &loss);
        }
    });
}

#[test]
fn of_pairs() {
    let case = case("pairs");
    each(|dtype, tolerance| {
        let i = |name| case.input(name, dtype);
        let (x, t, n, sign) = (i("x"), i("t"), i("n"), i("sign"));
        let (p, q, w, pos, var) = (i("p"), i("q"), i("w"), i("pos"), i("var"));
        let checked = Checked::new(&case, tolerance);
        for (name, r) in REDUCTIONS {
            let near = |which: &str, loss: Tensor| checked.near(&format!("{which}_{name}"), &loss);
            near("l1", L1Loss::new().reduction(r).forward(&x, &t));
            near("mse", MseLoss::new().reduction(r).forward(&x, &t));
            near(
                "smooth_l1",
                SmoothL1Loss::new(0.5).reduction(r).forward(&x, &t),
            );
            near("huber", HuberLoss::new(0.5).reduction(r).forward(&x, &t));
            near(
                "kl",
                KlDivLoss::new().log_target().reduction(r).forward(&x, &t),
            );
            near(
                "bce",
                BceLoss::new()
                    .weight(w.clone())
                    .reduction(r)
                    .forward(&p, &q),
            );
            let logits = BceWithLogitsLoss::new()
                .weight(w.clone())
                .pos_weight(pos.clone());
            near("bce_logits", logits.reduction(r).forward(&x, &q));
            let gaussian = GaussianNllLoss {
                full: true,
                ..GaussianNllLoss::new()
            };
            near("gaussian", gaussian.reduction(r).forward(&x, &t, &var));
            near(
                "poisson",
                PoissonNllLoss::new().reduction(r).forward(&x, &var),
            );
            let rate = PoissonNllLoss {
                log_input: false,
                ..PoissonNllLoss::new()
            };
            near("poisson_rate", rate.reduction(r).forward(&p, &var));
            near(
                "cosine",
                CosineEmbeddingLoss::new(0.1)
                    .reduction(r)
                    .forward(&x, &t, &sign),
            );
            let (first, second) = (x.select(1, 0), t.select(1, 0));
            near(
                "hinge",
                HingeEmbeddingLoss::new(0.5)
                    .reduction(r)
                    .forward(&first, &sign),
            );
            near(
                "ranking",
                MarginRankingLoss::new(0.25)
                    .reduction(r)
                    .forward(&first, &second, &sign),
            );
            near(
                "triplet",
                TripletMarginLoss::new(0.5).reduction(r).forward(&x, &t, &n),
            );
        }
        checked.near("kl_batch", &KlDivLoss::new().batch_mean().forward(&x, &p));
    });
}

#[test]
fn refusals() {
    let cpu = Device::cpu();
    let logits = Tensor::zeros([2, 3], DType::F32, &cpu);
    let classes = Tensor::from_slice(&[0i64, 3], 2, &cpu);
    let weighted = CrossEntropyLoss::new().weight(Tensor::ones(3, DType::F32, &cpu));
    assert!(weighted.forward(&logits, &classes).item::<f32>().is_err());
    let wrong = CrossEntropyLoss::new().weight(Tensor::ones(2, DType::F32, &cpu));
    assert!(wrong.forward(&logits, &classes).error().is_some());
    let beyond = CrossEntropyLoss::new().label_smoothing(1.5);
    assert!(beyond.forward(&logits, &classes).error().is_some());
    let short = Tensor::from_slice(&[0i64], 1, &cpu);
    assert!(weighted.forward(&logits, &short).error().is_some());
    // All samples ignored: PyTorch gives 0 / 0.
    let ignored = CrossEntropyLoss::new().ignore_index(1);
    let ones = Tensor::from_slice(&[1i64, 1], 2, &cpu);
    assert!(
        ignored
            .forward(&logits, &ones)
            .item::<f32>()
            .unwrap()
            .is_nan()
    );
}
