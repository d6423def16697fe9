//! Losses reduced as asked, norms by the batch's statistics, and convolutions by options, against binary64, in both modes.

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// A loss of a prediction and a target, in binary64.
type Reference<'a> = &'a dyn Fn(f64, f64) -> f64;

type Loss = fn(&Tensor, &Tensor, Reduction) -> Tensor;

fn all_reductions(
    dtype: DType,
    loss: impl Fn(Reduction) -> Tensor,
    dims: &[usize],
    losses: &[f64],
) {
    let sum: f64 = losses.iter().sum();
    let scale = losses.len() as f64;
    near(&loss(Reduction::None), dims, losses, 2.0 * unit(dtype));
    near(&loss(Reduction::Sum), &[], &[sum], scale * unit(dtype));
    near(
        &loss(Reduction::Mean),
        &[],
        &[sum / scale],
        2.0 * unit(dtype),
    );
    for reduction in [Reduction::None, Reduction::Sum, Reduction::Mean] {
        assert_eq!(loss(reduction).dtype(), dtype);
    }
}

#[test]
fn losses_of_pairs() {
    let (x, t) = (eighths(12), eighths(24)[12..].to_vec());
    let p: Vec<f64> = whole(12, 9).iter().map(|v| v / 8.0).collect();
    let l1 = |d: f64| if d < 0.5 { d * d } else { d - 0.25 };
    let cases: [(Loss, &[f64], Reference<'_>); 4] = [
        (|x, t, r| x.mse_loss_reduced(t, r), &t, &|x, t| {
            (x - t).powi(2)
        }),
        (
            |x, t, r| x.smooth_l1_loss_reduced(t, 0.5, r),
            &t,
            &|x, t| l1((x - t).abs()),
        ),
        (|x, t, r| x.kl_div_reduced(t, r), &p, &|x, t| {
            if t == 0.0 { 0.0 } else { t * (t.ln() - x) }
        }),
        (
            |x, t, r| x.binary_cross_entropy_with_logits_reduced(t, r),
            &p,
            &|x, t| x.max(0.0) - x * t + (-x.abs()).exp().ln_1p(),
        ),
    ];
    for (loss, targets, formula) in cases {
        let losses: Vec<f64> = x
            .iter()
            .zip(targets)
            .map(|(&x, &t)| formula(x, t))
            .collect();
        both(|| {
            for dtype in FLOATS {
                for x in forms(&[3, 4], dtype, &x) {
                    for t in forms(&[3, 4], dtype, targets) {
                        all_reductions(dtype, |r| loss(&x, &t, r), &[3, 4], &losses);
                    }
                }
            }
            let none = Tensor::zeros((0, 2), F32, &cpu());
            equal(&loss(&none, &none, Reduction::None), &[0, 2], &[]);
            equal(&loss(&none, &none, Reduction::Sum), &[], &[0.0]);
            equal(&loss(&none, &none, Reduction::Mean), &[], &[f64::NAN]);
            let number = Tensor::scalar(1.0, F32, &cpu());
            assert_eq!(loss(&number, &number, Reduction::None).rank(), 0);
            let (a, b) = (Tensor::ones(2, F32, &cpu()), Tensor::ones(3, F32, &cpu()));
            assert!(loss(&a, &b, Reduction::Sum).error().is_some());
        });
    }
    both(|| {
        let (a, b) = (
            dense(&[2, 1], F32, &[1.0, 2.0]),
            dense(&[2], F32, &[0.0, 4.0]),
        );
        equal(
            &a.mse_loss_reduced(&b, Reduction::None),
            &[2, 2],
            &[1.0, 9.0, 4.0, 4.0],
        );
        equal(
            &a.smooth_l1_loss_reduced(&a, 0.0, Reduction::None),
            &[2, 1],
            &[0.0, 0.0],
        );
        fails(
            &a.mse_loss_reduced(
                &dense(&[3], F32, &[0.0; 3])
                    .unsqueeze(0)
                    .unsqueeze(0)
                    .expand((1, 3, 3)),
                Reduction::Sum,
            ),
            &["mse_loss"],
        );
        fails(
            &a.binary_cross_entropy_with_logits_reduced(&b, Reduction::None),
            &["binary_cross_entropy_with_logits", "[2, 1]"],
        );
        equal(
            &ints(&[1, 2]).mse_loss_reduced(&ints(&[3, 2]), Reduction::Sum),
            &[],
            &[4.0],
        );
    });
}

#[test]
fn losses_of_classes() {
    let dims = [2, 3, 4];
    let x = eighths(24);
    let classes = [0i64, 2, 1, 1, 2, 0, 0, 1];
    let score = |n: usize, c: usize, k: usize| x[(n * 3 + c) * 4 + k];
    let log_sum = |n, k| (0..3).map(|c| score(n, c, k).exp()).sum::<f64>().ln();
    let at = |i: usize| (i / 4, classes[i] as usize, i % 4);
    let nll: Vec<f64> = (0..8).map(|i| -score(at(i).0, at(i).1, at(i).2)).collect();
    let entropy: Vec<f64> = (0..8).map(|i| nll[i] + log_sum(i / 4, i % 4)).collect();
    let p: Vec<f64> = whole(24, 9).iter().map(|v| v / 8.0).collect();
    let spread = |i: usize| {
        let (n, k) = (i / 4, i % 4);
        (0..3)
            .map(|c| p[(n * 3 + c) * 4 + k] * (log_sum(n, k) - score(n, c, k)))
            .sum::<f64>()
    };
    let of_p: Vec<f64> = (0..8).map(spread).collect();
    both(|| {
        for dtype in FLOATS {
            for x in forms(&dims, dtype, &x) {
                for index in INTS.into_iter().filter(|&i| i == I64 || dtype == F32) {
                    let t = ints(&classes).reshape((2, 4)).to_dtype(index);
                    all_reductions(dtype, |r| x.nll_loss_reduced(&t, r), &[2, 4], &nll);
                    all_reductions(dtype, |r| x.cross_entropy_reduced(&t, r), &[2, 4], &entropy);
                }
                for p in forms(&dims, dtype, &p) {
                    all_reductions(dtype, |r| x.cross_entropy_reduced(&p, r), &[2, 4], &of_p);
                }
            }
        }
        let x = dense(&[2, 3], F32, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let t = ints(&[2, -100]);
        equal(&x.nll_loss_reduced(&t, Reduction::None), &[2], &[-3.0, 0.0]);
        equal(&x.nll_loss_reduced(&t, Reduction::Sum), &[], &[-3.0]);
        let single = dense(&[3], F32, &[1.0, 2.0, 3.0]);
        let class = Tensor::scalar(1, I64, &cpu());
        equal(
            &single.nll_loss_reduced(&class, Reduction::None),
            &[],
            &[-2.0],
        );
        for outside in [-1, 3, -3] {
            let bad = x.nll_loss_reduced(&ints(&[0, outside]), Reduction::None);
            assert!(bad.eval().is_err(), "{outside}");
        }
        fails(
            &x.nll_loss_reduced(&ints(&[0]), Reduction::Sum),
            &["nll_loss", "[1]", "[2, 3]"],
        );
        fails(
            &x.cross_entropy_reduced(&ints(&[0]), Reduction::Sum),
            &["cross_entropy", "[1]"],
        );
        fails(
            &x.nll_loss_reduced(&x, Reduction::Sum),
            &["nll_loss", "to_dtype(DType::I64)"],
        );
        fails(
            &x.cross_entropy_reduced(&single, Reduction::Sum),
            &["cross_entropy", "neither"],
        );
        let number = Tensor::scalar(1.0, F32, &cpu());
        fails(
            &number.cross_entropy_reduced(&class, Reduction::Sum),
            &["cross_entropy", "0-d"],
        );
    });
}

#[test]
fn norms_of_instances_and_batches() {
    let (dims, x) = ([3, 2, 4], eighths(24));
    let (w, b) = ([2.0, -1.0], [0.5, 1.0]);
    let eps = 1e-3;
    let moments = |places: &[usize]| {
        let n = places.len() as f64;
        let mean = places.iter().map(|&i| x[i]).sum::<f64>() / n;
        (
            mean,
            places.iter().map(|&i| (x[i] - mean).powi(2)).sum::<f64>() / n,
        )
    };
    let channel = |i: usize| i / 4 % 2;
    let same = |i: usize| (0..24).filter(|&j| j / 4 == i / 4).collect::<Vec<_>>();
    let over_batch = |c: usize| (0..24).filter(|&j| channel(j) == c).collect::<Vec<_>>();
    let normal = |i: usize, (mean, var): (f64, f64)| {
        (x[i] - mean) / (var + eps).sqrt() * w[channel(i)] + b[channel(i)]
    };
    let instance: Vec<f64> = (0..24).map(|i| normal(i, moments(&same(i)))).collect();
    let batch: Vec<f64> = (0..24)
        .map(|i| normal(i, moments(&over_batch(channel(i)))))
        .collect();
    let [first, second] = [0, 1].map(|c| moments(&over_batch(c)));
    both(|| {
        for dtype in FLOATS {
            let (w, b) = (dense(&[2], dtype, &w), dense(&[2], dtype, &b));
            for x in forms(&dims, dtype, &x) {
                let y = x.instance_norm(Some(&w), Some(&b), eps);
                assert_eq!(y.dtype(), dtype);
                near(&y, &dims, &instance, 4.0 * unit(dtype));
                let (y, mean, var) = x.batch_norm_training(Some(&w), Some(&b), eps);
                assert_eq!(y.dtype(), dtype);
                near(&y, &dims, &batch, 4.0 * unit(dtype));
                assert_eq!(mean.dtype(), if dtype == F64 { F64 } else { F32 });
                near(&mean, &[2], &[first.0, second.0], 1e-6);
                near(&var, &[2], &[first.1, second.1], 1e-6);
            }
        }
        let x = Tensor::zeros((0, 2, 3), F32, &cpu());
        equal(&x.instance_norm(None, None, 1e-5), &[0, 2, 3], &[]);
        equal(&x.batch_norm_training(None, None, 1e-5).0, &[0, 2, 3], &[]);
        fails(
            &x.at((.., 0)).instance_norm(None, None, 0.0),
            &["instance_norm", "[0, 3]"],
        );
        let wide = Tensor::ones(3, F32, &cpu());
        fails(
            &x.instance_norm(Some(&wide), None, 0.0),
            &["instance_norm", "[3]"],
        );
        fails(
            &x.batch_norm_training(None, Some(&wide), 0.0).0,
            &["batch_norm_training", "[3]"],
        );
        let counts = Tensor::ones((2, 2, 2), I64, &cpu());
        fails(
            &counts.instance_norm(None, None, 0.0),
            &["instance_norm", "F32"],
        );
        fails(
            &counts.batch_norm_training(None, None, 0.0).1,
            &["batch_norm_training", "F32"],
        );
        fails(
            &wide.batch_norm_training(None, None, 0.0).2,
            &["batch_norm_training", "[3]"],
        );
    });
}

#[test]
fn convolutions_by_options() {
    both(|| {
        for dtype in NUMBERS {
            let x = dense(&[1, 2, 5, 6], dtype, &whole(60, 3));
            let w = dense(&[4, 1, 3, 2], dtype, &whole(24, 3));
            let bias = dense(&[4], dtype, &[1.0, 2.0, 3.0, 0.0]);
            let options = Conv::new()
                .stride([2, 1])
                .padding((1, 2))
                .dilation(2)
                .groups(2);
            let y = x.conv2d_with(&w, Some(&bias), options);
            let positional = x.conv2d(&w, Some(&bias), [2, 1], [1, 2], 2, 2);
            equal(&y, positional.dims(), &values(&positional));
            // The window reaches one further down than up, and one further right than left.
            let same = x.conv2d_with(&w, None, Conv::new().padding("same").groups(2));
            let padded = x.pad(&[(0, 0), (0, 0), (1, 1), (0, 1)], 0);
            equal(
                &same,
                &[1, 4, 5, 6],
                &values(&padded.conv2d(&w, None, 1, 0, 1, 2)),
            );
            let valid = x.conv2d_with(&w, None, Conv::new().padding("valid").groups(2));
            equal(
                &valid,
                &[1, 4, 3, 5],
                &values(&x.conv2d(&w, None, 1, 0, 1, 2)),
            );
        }
        let line = dense(&[1, 1, 4], F32, &[1.0, 2.0, 3.0, 4.0]);
        let tap = dense(&[1, 1, 2], F32, &[1.0, 10.0]);
        equal(
            &line.conv1d_with(&tap, None, Conv::new().padding("same")),
            &[1, 1, 4],
            &[21.0, 32.0, 43.0, 4.0],
        );
        equal(
            &line.conv1d_with(&tap, None, Conv::new().padding("same").dilation(3)),
            &[1, 1, 4],
            &[30.0, 41.0, 2.0, 3.0],
        );
        equal(
            &line.conv1d_with(&tap, None, Conv::default()),
            &[1, 1, 3],
            &[21.0, 32.0, 43.0],
        );
        let options = Conv::new().stride(2).output_padding(1);
        let spread = line.conv_transpose1d_with(&tap, None, options.clone());
        equal(
            &spread,
            &[1, 1, 9],
            &values(&line.conv_transpose1d(&tap, None, 2, 0, 1, 1, 1)),
        );
        let cube = Tensor::ones((1, 1, 2, 2, 2), F32, &cpu());
        equal(&cube.conv3d_with(&cube, None, Conv::new()), &[1; 5], &[8.0]);
        assert_eq!(
            cube.conv_transpose3d_with(&cube, None, Conv::new()).dims(),
            [1, 1, 3, 3, 3]
        );
        let face = Tensor::ones((1, 1, 2, 2), F32, &cpu());
        assert_eq!(
            face.conv_transpose2d_with(&face, None, Conv::new().padding(1))
                .dims(),
            [1; 4]
        );
        let same = || Conv::new().padding("same");
        fails(
            &line.conv1d_with(&tap, None, same().stride(2)),
            &["conv1d", "same", "stride"],
        );
        fails(
            &line.conv_transpose1d_with(&tap, None, same()),
            &["conv_transpose1d", "same"],
        );
        fails(
            &line.conv1d_with(&tap, None, Conv::new().padding("full")),
            &["conv1d", "full"],
        );
        fails(
            &line.conv1d_with(&tap, None, Conv::new().stride([1, 1])),
            &["conv1d", "[1, 1]"],
        );
        fails(
            &line.conv1d_with(&tap, None, options),
            &["conv1d", "output_padding"],
        );
        fails(
            &line.conv1d_with(&face, None, same()),
            &["conv1d", "[1, 1, 2, 2]"],
        );
    });
}

#[test]
fn messages_name_what_helps() {
    both(|| {
        let (i, f) = (ints(&[1]), dense(&[1], F32, &[1.0]));
        fails(
            &i.mean(..),
            &["mean does not take i64: to_dtype(DType::F32) first"],
        );
        fails(
            &i.gt(0).neg(),
            &["neg does not take bool: to_dtype(DType::I64) first"],
        );
        fails(
            &f.bitwise_and(1),
            &["bitwise_and does not take f32: to_dtype(DType::I64) first"],
        );
        fails(&i.var(0, 1), &["to_dtype(DType::F32) first"]);
        fails(
            &i.layer_norm(1, None, None, 1e-5),
            &["to_dtype(DType::F32) first"],
        );
        fails(&f.index_select(0, &f), &["to_dtype(DType::I64) first"]);
        fails(&f.where_cond(&f, &f), &["to_dtype(DType::Bool) first"]);
        let error = i.to_vec::<f32>().unwrap_err().to_string();
        assert!(error.contains("to_dtype(DType::F32) first"), "{error}");
    });
}
