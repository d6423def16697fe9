//! The public names of gradients, training and files, as outside programs use them.
//! Each body runs in compiled and in eager mode.

use ferrotrace::prelude::*;

fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

#[track_caller]
fn close(a: &Tensor, expected: &[f64]) {
    let got = a.to_dtype(DType::F64).to_vec::<f64>().unwrap();
    let same = |(x, y): (&f64, &f64)| (x - y).abs() <= 2e-6 * (1.0 + y.abs());
    assert!(
        got.len() == expected.len() && got.iter().zip(expected).all(same),
        "got {got:?}, expected {expected:?}"
    );
}

mod gradients {
    use super::*;

    #[test]
    fn grad_of_several() {
        both(|| {
            let (w, b) = (
                v(&[1.0, 2.0]).requires_grad(),
                v(&[3.0, 4.0]).requires_grad(),
            );
            let loss = (&w * &w * &b).sum(..);
            let gradients: Vec<Tensor> = grad(&loss, &[&w, &b]);
            close(&gradients[0], &[6.0, 16.0]);
            close(&gradients[1], &[1.0, 4.0]);
        });
    }

    #[test]
    fn backward_accumulates_on_the_leaf() {
        both(|| {
            let w = v(&[1.0, 2.0]).requires_grad();
            w.square().sum(..).backward();
            close(&w.grad(), &[2.0, 4.0]);
            (&w * 3.0).sum(..).backward();
            close(&w.grad(), &[5.0, 7.0]);
        });
    }

    #[test]
    fn no_grad_and_detach_cut_the_graph() {
        both(|| {
            let w = v(&[1.0, 2.0]).requires_grad();
            let constant = no_grad(|| w.square());
            close(&grad(&(&w * &constant).sum(..), &[&w])[0], &[1.0, 4.0]);
            close(&grad(&(&w * w.detach()).sum(..), &[&w])[0], &[1.0, 2.0]);
        });
    }

    #[test]
    fn second_order() {
        both(|| {
            let w = v(&[2.0]).requires_grad();
            let first = grad(&w.pow(3).sum(..), &[&w]);
            close(&first[0], &[12.0]);
            close(&grad(&first[0].sum(..), &[&w])[0], &[12.0]);
        });
    }

    #[test]
    fn a_jit_training_step() {
        both(|| {
            let step = jit(|(w, x, lr): (Tensor, &Tensor, f64)| {
                let w = w.requires_grad();
                let loss = (&w * x).square().sum(..);
                let gradient = grad(&loss, &[&w]).remove(0);
                (w.detach() - gradient * lr, loss)
            });
            let (w, loss) = step.call((v(&[1.0]), &v(&[2.0]), 0.125));
            close(&loss, &[4.0]);
            close(&w, &[0.0]);
        });
    }
}
