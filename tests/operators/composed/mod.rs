//! Methods that others express, with PyTorch's meaning, against binary64 and numbers that PyTorch gave, in both modes.

mod chains;
mod conditions;
mod counts;
mod edges;
mod flat;
mod joins;
mod losses;
mod names;
mod operators;
mod order;
mod picked;
mod random;
mod sampled;
mod segments;
mod series;
mod shapes;
mod special;
mod tiles;
mod vectors;

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// The tensor carries an error of the operator of this name, whose text has these parts, at a line of this file near the caller's.
#[track_caller]
fn refused(x: &Tensor, name: &str, parts: &[&str]) {
    let caller = std::panic::Location::caller();
    let error = x.error().unwrap_or_else(|| panic!("no error but {x:?}"));
    let told = error.to_string();
    assert!(told.starts_with(&format!("{name}: ")), "{told}");
    for part in parts {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    let at = error.context().and_then(|context| context.location);
    let near =
        at.is_some_and(|at| at.file() == caller.file() && at.line().abs_diff(caller.line()) < 10);
    assert!(near, "line {}: {told}", caller.line());
}

/// Factors that tell elements apart.
fn factors(n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 11 + 3) % 13) as f64 / 8.0 + 0.25)
        .collect()
}

/// The sum of the elements, each times its factor.
fn weighed(y: &Tensor) -> Tensor {
    (y * dense(y.dims(), y.dtype(), &factors(y.numel()))).sum(..)
}

type Function<'a> = &'a dyn Fn(&[Tensor]) -> Tensor;

fn gradients(inputs: &[Tensor], f: Function<'_>) -> Vec<Tensor> {
    let leaves: Vec<Tensor> = inputs.iter().map(|x| x.requires_grad()).collect();
    grad(&weighed(&f(&leaves)), &leaves)
}

/// The gradients of the elements of `f`, each times its factor, by tensors of F64 are these, in both modes and of a compiled
/// function.
#[track_caller]
fn slopes<F>(inputs: &[Tensor], f: F, want: &[&[f64]])
where
    F: Fn(&[Tensor]) -> Tensor + Copy + Send + Sync + 'static,
{
    both(|| {
        let compiled = jit(move |x: Vec<&Tensor>| {
            let x: Vec<Tensor> = x.into_iter().cloned().collect();
            f(&x)
        });
        let call = |x: &[Tensor]| compiled.call(x.iter().collect());
        for found in [gradients(inputs, &f), gradients(inputs, &call)] {
            for ((got, want), x) in found.iter().zip(want).zip(inputs) {
                near(got, x.dims(), want, 1e-6);
            }
        }
    });
}

/// The gradients of the elements of `f`, each times its factor, agree with central differences, in both modes; those of narrower
/// dtypes agree with them as far as these hold numbers.
#[track_caller]
fn differentiable(inputs: &[Tensor], f: Function<'_>) {
    let step = 1e-5;
    let mut want = Vec::new();
    for (i, x) in inputs.iter().enumerate() {
        let numbers = values(x);
        let at = |k: usize, by: f64| {
            let mut moved = numbers.clone();
            moved[k] += by;
            let mut inputs = inputs.to_vec();
            inputs[i] = dense(x.dims(), F64, &moved);
            with_mode(Mode::Eager, || values(&weighed(&f(&inputs)))[0])
        };
        let slope = |k| (at(k, step) - at(k, -step)) / (2.0 * step);
        want.push((0..numbers.len()).map(slope).collect::<Vec<f64>>());
    }
    both(|| {
        for (dtype, tolerance) in [(F64, 1e-7), (F32, 2e-5), (BF16, 0.06)] {
            let narrow: Vec<Tensor> = inputs.iter().map(|x| x.to_dtype(dtype)).collect();
            for ((got, want), x) in gradients(&narrow, f).iter().zip(&want).zip(&narrow) {
                assert_eq!(got.dtype(), dtype);
                let most = want.iter().fold(1f64, |most, w| most.max(w.abs()));
                near(
                    &(got.to_dtype(F64) / most),
                    x.dims(),
                    &scaled(want, most),
                    tolerance,
                );
            }
        }
    });
}

fn scaled(numbers: &[f64], by: f64) -> Vec<f64> {
    numbers.iter().map(|x| x / by).collect()
}

/// Numbers between −2 and 2 without order, no two equal.
fn apart(n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 89 + 37) % 257) as f64 / 64.0 - 2.0)
        .collect()
}
