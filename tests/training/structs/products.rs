//! Products of vectors with Jacobian matrices, from both sides, against derivatives written by hand.

use super::{Linear, both, v};
use ferrotrace::prelude::*;
use ferrotrace::{jvp, vjp};

fn wide(data: &[f64], shape: &[usize]) -> Tensor {
    Tensor::from_slice(data, shape, &Device::cpu())
}

#[track_caller]
fn close(got: &Tensor, expected: &[f64]) {
    let got = got.to_dtype(DType::F64).to_vec::<f64>();
    let got = got.unwrap_or_else(|e| panic!("{e}"));
    let same = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs().max(1.0);
    assert_eq!(got.len(), expected.len());
    assert!(got.iter().zip(expected).all(same), "{got:?} {expected:?}");
}

/// A matrix and a vector; the function is their product, squared.
#[derive(TensorStruct)]
struct Pair {
    a: Tensor,
    x: Tensor,
    count: Tensor,
}

fn pair() -> Pair {
    Pair {
        a: wide(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]),
        x: wide(&[1.0, -1.0, 2.0], &[3]),
        count: Tensor::scalar(3, DType::I64, &Device::cpu()),
    }
}

fn squared(pair: &Pair) -> Tensor {
    let column = pair.x.reshape([3, 1]);
    pair.a.matmul(&column).reshape(2).square()
}

// With y = (a x)², a x = (5, 11): dy = 2 (a x) · (da x + a dx).
const PRODUCT: [f64; 2] = [5.0, 11.0];

#[test]
fn from_the_left() {
    both(|| {
        let (value, found) = vjp(squared, &pair(), &wide(&[1.0, 10.0], &[2]));
        close(&value, &[25.0, 121.0]);
        let weights = [2.0 * PRODUCT[0], 20.0 * PRODUCT[1]];
        let x = [1.0, -1.0, 2.0];
        let by_a: Vec<f64> = weights.iter().flat_map(|w| x.map(|x| w * x)).collect();
        close(&found.a, &by_a);
        let rows = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]];
        let by_x: Vec<f64> = (0..3)
            .map(|i| weights[0] * rows[0][i] + weights[1] * rows[1][i])
            .collect();
        close(&found.x, &by_x);
        assert_eq!(found.count.dtype(), DType::I64);
        close(&found.count, &[0.0]);
        assert!(!value.has_grad() && !found.a.has_grad());
    });
}

#[test]
fn from_the_right() {
    let direction = Pair {
        a: wide(&[0.5, 0.0, 0.0, 0.0, 0.0, 1.0], &[2, 3]),
        x: wide(&[0.0, 1.0, -1.0], &[3]),
        count: Tensor::scalar(0, DType::I64, &Device::cpu()),
    };
    // da x = (0.5, 2), a dx = (2 - 3, 5 - 6).
    let expected = [2.0 * PRODUCT[0] * -0.5, 2.0 * PRODUCT[1] * 1.0];
    both(|| {
        let (value, found) = jvp(squared, &pair(), &direction);
        close(&value, &[25.0, 121.0]);
        close(&found, &expected);
        assert!(!value.has_grad() && !found.has_grad());
        let along = jit(|(pair, direction): (&Pair, &Pair)| jvp(squared, pair, direction).1);
        for _ in 0..2 {
            close(&along.call((&pair(), &direction)), &expected);
        }
    });
}

#[test]
fn only_the_argument_counts() {
    both(|| {
        let x = v(&[3.0]);
        let (_, found) = vjp(|y: &Tensor| y * &x, &x, &v(&[1.0]));
        close(&found, &[3.0]);
        let required = x.requires_grad();
        let (_, found) = vjp(|y: &Tensor| y * &required * y, &required, &v(&[1.0]));
        close(&found, &[18.0]);
        // The product can be differentiated by what required a gradient before: 2 x y at y = x.
        close(&grad(&found.sum(..), &[&required])[0], &[12.0]);
        let (_, found) = no_grad(|| vjp(|y: &Tensor| y.square(), &x, &v(&[1.0])));
        close(&found, &[6.0]);
        let (_, unused) = vjp(|_: &Tensor| v(&[1.0, 2.0]), &x, &v(&[1.0, 1.0]));
        close(&unused, &[0.0]);
        let (_, unused) = jvp(|_: &Tensor| v(&[1.0, 2.0]), &x, &x);
        close(&unused, &[0.0, 0.0]);
    });
}

#[test]
fn tied_tensors_have_one_product_the_sum() {
    both(|| {
        let weight = v(&[2.0, 3.0]);
        let tied = [weight.clone(), weight];
        let (_, found) = vjp(|[a, b]: &[Tensor; 2]| a * a * b, &tied, &v(&[1.0, 1.0]));
        close(&found[0], &[12.0, 27.0]);
        close(&found[1], &[12.0, 27.0]);
        assert_eq!(found.leaves().len(), 1);
    });
}

#[test]
fn what_does_not_fit_is_an_error() {
    both(|| {
        let x = v(&[1.0, 2.0]);
        let (value, found) = vjp(|x: &Tensor| x.square(), &x, &v(&[1.0]));
        assert!(value.eval().is_ok());
        let error = found.eval().unwrap_err().to_string();
        assert!(error.contains("shape [2] with one of [1]"), "{error}");
        assert!(
            error.contains("vjp") && error.contains("products.rs"),
            "{error}"
        );
        let (_, found) = vjp(|x: &Tensor| x.to_dtype(DType::I64), &x, &x);
        let error = found.eval().unwrap_err().to_string();
        assert!(error.contains("floats"), "{error}");
        let (_, found) = vjp(|x: &Tensor| x.square(), &x, &x.to_dtype(DType::I64));
        let error = found.eval().unwrap_err().to_string();
        assert!(error.contains("floats"), "{error}");
        let (_, found) = jvp(|x: &Tensor| x.square(), &x, &v(&[1.0]));
        let error = found.eval().unwrap_err().to_string();
        assert!(error.contains("shape [2] with one of [1]"), "{error}");
        let bad = x.matmul(&v(&[1.0, 2.0, 3.0]));
        let (_, found) = jvp(|x: &Tensor| x * &bad, &x, &x);
        let error = found.eval().unwrap_err().to_string();
        assert!(error.contains("matmul"), "{error}");
        let (one, two) = (Linear::of(&[1.0], None), Linear::of(&[1.0], Some(&[1.0])));
        let (_, found) = jvp(|l: &Linear| l.forward(&v(&[1.0])), &one, &two);
        let error = found.eval().unwrap_err().to_string();
        assert!(error.contains("structure"), "{error}");
    });
}

#[test]
fn values_may_be_structs() {
    both(|| {
        let x = v(&[2.0, 3.0]);
        let f = |x: &Tensor| (x.square(), vec![x.sum(..), x.prod(..)], x.argmax(0));
        let none = || Tensor::scalar(0, DType::I64, &Device::cpu());
        let weights = [1.0, 10.0].map(|w| Tensor::scalar(w, DType::F32, &Device::cpu()));
        let vector = (v(&[1.0, 2.0]), weights.to_vec(), none());
        let (_, found) = vjp(f, &x, &vector);
        close(&found, &[4.0 + 1.0 + 30.0, 12.0 + 1.0 + 20.0]);
        let ((squares, _, at), along) = jvp(f, &x, &v(&[1.0, -1.0]));
        close(&squares, &[4.0, 9.0]);
        close(&along.0, &[4.0, -6.0]);
        close(&along.1[0], &[0.0]);
        close(&along.1[1], &[1.0]);
        assert_eq!((at.dtype(), along.2.dtype()), (DType::I64, DType::I64));
        close(&along.2, &[0.0]);
    });
}

#[test]
fn a_value_in_two_places_counts_once_along_a_direction() {
    both(|| {
        let x = v(&[2.0]);
        let twice = |x: &Tensor| {
            let y = x.square();
            (y.clone(), y)
        };
        let (_, along) = jvp(twice, &x, &v(&[3.0]));
        close(&along.0, &[12.0]);
        close(&along.1, &[12.0]);
        let (_, found) = vjp(twice, &x, &(v(&[1.0]), v(&[10.0])));
        close(&found, &[44.0]);
        // A tied weight is one variable, whichever way it is moved.
        let weight = v(&[2.0]);
        let tied = [weight.clone(), weight];
        let step = v(&[5.0]);
        let direction = [step.clone(), step];
        let (_, along) = jvp(|[a, b]: &[Tensor; 2]| a * b, &tied, &direction);
        close(&along, &[20.0]);
        // Two variables whose products happen to be one tensor are two.
        let (a, b) = (v(&[2.0]), v(&[7.0]));
        let (_, along) = jvp(
            |[a, b]: &[Tensor; 2]| a + b,
            &[a, b],
            &[v(&[1.0]), v(&[10.0])],
        );
        close(&along, &[11.0]);
    });
}

#[test]
fn what_is_captured_can_be_differentiated_again() {
    both(|| {
        let (x, w) = (v(&[3.0]), v(&[2.0]).requires_grad());
        let f = |x: &Tensor| &w * x.square();
        let (value, found) = vjp(f, &x, &v(&[1.0]));
        close(&grad(&value.sum(..), &[&w])[0], &[9.0]);
        close(&grad(&found.sum(..), &[&w])[0], &[6.0]);
        let (_, along) = jvp(f, &x, &v(&[10.0]));
        close(&grad(&along.sum(..), &[&w])[0], &[60.0]);
        // Linear in the direction.
        let direction = v(&[10.0]).requires_grad();
        let (_, along) = jvp(f, &x, &direction);
        close(&grad(&along.sum(..), &[&direction])[0], &[12.0]);
        let (value, found) = no_grad(|| vjp(f, &x, &v(&[1.0])));
        assert!(!value.has_grad() && !found.has_grad());
    });
}

/// The Hessian matrix times a vector: forward over reverse, and reverse over forward.
#[test]
fn second_derivatives_along_a_direction() {
    both(|| {
        let x = wide(&[1.0, 2.0, -1.0], &[3]);
        let loss = |x: &Tensor| ((x * x * x) * x.cumsum(0)).sum(..);
        let direction = wide(&[1.0, 0.5, -2.0], &[3]);
        let gradient = |x: &Tensor| ferrotrace::value_and_grad(x, loss).1;
        let (_, over_reverse) = jvp(gradient, &x, &direction);
        let slope = |x: &Tensor| jvp(loss, x, &direction).1;
        let (_, over_forward) = ferrotrace::value_and_grad(&x, slope);
        let at = |moved: f64| {
            gradient(&(&x + &direction * moved))
                .to_vec::<f64>()
                .unwrap()
        };
        let (ahead, behind) = (at(1e-5), at(-1e-5));
        let slopes = ahead.iter().zip(&behind).map(|(a, b)| (a - b) / 2e-5);
        let expected: Vec<f64> = slopes.collect();
        close(&over_reverse, &expected);
        close(&over_forward, &expected);
    });
}

#[test]
fn buffers_have_no_product_and_are_written() {
    both(|| {
        let model = (v(&[2.0]), ferrotrace::Buffer::new(v(&[0.0])));
        let f = |(w, seen): &(Tensor, ferrotrace::Buffer)| {
            let y = w.square();
            match seen.set(y.detach()) {
                Ok(()) => y,
                Err(error) => Tensor::failed("f", error, &[&y]),
            }
        };
        let (_, found) = vjp(f, &model, &v(&[1.0]));
        close(&found.0, &[4.0]);
        close(&found.1.get(), &[0.0]);
        close(&model.1.get(), &[4.0]);
    });
}

/// Of a layer with a norm, a softmax and a scan: what `torch.func.jvp` and `torch.func.vjp` of PyTorch 2.15 give.
#[test]
fn as_pytorch() {
    let f = |(x, w): &(Tensor, Tensor)| {
        let q = x.matmul(&w.t());
        let y = q.tanh().layer_norm(1, None, None, 1e-5);
        (y.softmax(-1), (q * x).logcumsumexp(1))
    };
    let at = (
        wide(&[0.5, -1.0, 2.0, 1.5, 0.25, -0.75], &[2, 3]),
        wide(&[1.0, 0.5, -0.25, -0.5, 2.0, 0.75, 0.3, -0.2, 0.1], &[3, 3]),
    );
    let direction = (
        wide(&[1.0, -0.5, 0.25, 0.0, 2.0, -1.0], &[2, 3]),
        wide(&[0.5, 0.0, 1.0, -1.0, 0.25, 0.0, 2.0, -2.0, 0.5], &[3, 3]),
    );
    let probabilities = [
        0.410405608988485,
        -0.20850711755434462,
        -0.20189849143414043,
        -0.28952677242621444,
        -0.012756013369333387,
        0.3022827857955478,
    ];
    let sums = [
        0.9687499999996265,
        2.0424922873626077,
        5.578775936074992,
        1.8749999999998126,
        1.7193572858338175,
        1.5667882200614356,
    ];
    let by_x = [
        0.102279343937981,
        0.8352015625686133,
        0.09429883947825499,
        3.1900766011650297,
        0.9320896500119041,
        -0.3557540071308221,
    ];
    let by_w = [
        2.553941548559482,
        -0.19991514737995758,
        0.02229429862614546,
        0.22287989843911715,
        -0.1723714781314948,
        0.3237130855901635,
        -0.2736906268411702,
        -0.3012587642327452,
        0.667797529843574,
    ];
    both(|| {
        let (_, along) = jvp(f, &at, &direction);
        close(&along.0, &probabilities);
        close(&along.1, &sums);
        let vector = (direction.0.clone(), direction.0.clone());
        let (_, found) = vjp(f, &at, &vector);
        close(&found.0, &by_x);
        close(&found.1, &by_w);
    });
}
