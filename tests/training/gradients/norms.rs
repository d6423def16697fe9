use super::differences::{check, read, second, smooth, tensor};
use ferrotrace::prelude::*;

const EPS: f64 = 1e-3;

#[test]
fn over_the_last_dimensions() {
    let full = [
        tensor(&[3, 2, 4], 1),
        tensor(&[2, 4], 2),
        tensor(&[2, 4], 3),
    ];
    check(&full, |t| t[0].layer_norm(2, Some(&t[1]), Some(&t[2]), EPS));
    check(&full[..2], |t| t[0].rms_norm(2, Some(&t[1]), EPS));
    let row = [tensor(&[2, 3, 5], 1), tensor(&[5], 2)];
    check(&row, |t| t[0].layer_norm(1, None, Some(&t[1]), EPS));
    check(&row, |t| t[0].layer_norm(1, Some(&t[1]), None, EPS));
    smooth(&row[..1], &|t| t[0].layer_norm(1, None, None, EPS));
    smooth(&row[..1], &|t| t[0].rms_norm(3, None, EPS));
}

#[test]
fn of_channels() {
    let image = [tensor(&[2, 4, 3, 2], 1), tensor(&[4], 2), tensor(&[4], 3)];
    check(&image, |t| {
        t[0].group_norm(2, Some(&t[1]), Some(&t[2]), EPS)
    });
    smooth(&image[..1], &|t| t[0].group_norm(4, None, None, EPS));
    check(&image, |t| {
        t[0].instance_norm(Some(&t[1]), Some(&t[2]), EPS)
    });
    check(&image, |t| {
        t[0].batch_norm_training(Some(&t[1]), Some(&t[2]), EPS).0
    });
    smooth(&image[..1], &|t| {
        let (y, mean, var) = t[0].batch_norm_training(None, None, EPS);
        y.sum((0, 2, 3)) * &var + mean.square()
    });
}

#[test]
fn by_given_statistics() {
    let operands = [
        tensor(&[3, 2, 4], 1),
        tensor(&[2], 2),
        tensor(&[2], 3).square() + 0.5,
        tensor(&[2], 4),
        tensor(&[2], 5),
    ];
    check(&operands, |t| {
        t[0].batch_norm(&t[1], &t[2], Some(&t[3]), Some(&t[4]), EPS)
    });
}

// Numbers far from zero: nothing is lost by cancellation.
#[test]
fn about_a_large_mean() {
    let x = tensor(&[4, 64], 1);
    let far = (&x.to_dtype(DType::F32) * 0.5 + 1000.0).contiguous();
    let gradient = |x: &Tensor| {
        let x = x.requires_grad();
        let y = x.layer_norm(1, None, None, 1e-5);
        let weights = tensor(&[4, 64], 2).to_dtype(x.dtype());
        read(&grad(&(&y * &weights).sum(..), &[&x])[0])
    };
    let want = gradient(&far.to_dtype(DType::F64));
    for mode in [Mode::Eager, Mode::Compiled] {
        let got = with_mode(mode, || gradient(&far));
        for (got, want) in got.iter().zip(&want) {
            assert!((got - want).abs() < 1e-3, "{mode:?}: {got}, not {want}");
        }
    }
}

#[test]
fn of_gradients() {
    let row = [tensor(&[2, 4], 1), tensor(&[4], 2), tensor(&[4], 3)];
    second(&row, |t| {
        t[0].layer_norm(1, Some(&t[1]), Some(&t[2]), EPS).square()
    });
    second(&row[..2], |t| t[0].rms_norm(1, Some(&t[1]), EPS));
    let image = [tensor(&[2, 4, 3], 1), tensor(&[4], 2)];
    second(&image, |t| t[0].group_norm(2, Some(&t[1]), None, EPS));
    second(&image, |t| {
        t[0].batch_norm_training(Some(&t[1]), None, EPS).0
    });
}

#[test]
fn without_elements() {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let x = tensor(&[0, 4], 1).requires_grad();
            let w = tensor(&[4], 2).requires_grad();
            let y = x.layer_norm(1, Some(&w), None, EPS);
            let found = grad(&y.sum(..), &[&x, &w]);
            assert_eq!(found[0].shape().dims(), [0, 4]);
            assert_eq!(read(&found[1]), [0.0; 4]);
        });
    }
}
