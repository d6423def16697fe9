//! Gradients beside central differences of what they are the gradients of.

use ferrotrace::prelude::*;

/// Numbers between −1 and 1 that do not repeat.
pub fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// A tensor of F64 with such numbers.
pub fn tensor(shape: &[usize], seed: u64) -> Tensor {
    let count = shape.iter().product();
    Tensor::from_vec(numbers(count, seed), shape, &Device::cpu())
}

pub fn read(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec::<f64>().unwrap()
}

/// The elements of `y` weighted and added: their gradients differ.
fn loss(y: &Tensor) -> Tensor {
    let y = y.to_dtype(DType::F64);
    let weights = tensor(y.shape(), 77);
    (&y * &weights).sum(..)
}

/// The gradients by each of `inputs`.
fn gradients(f: &dyn Fn(&[Tensor]) -> Tensor, inputs: &[Tensor]) -> Vec<Vec<f64>> {
    let leaves: Vec<Tensor> = inputs.iter().map(|x| x.requires_grad()).collect();
    let loss = loss(&f(&leaves));
    let leaves: Vec<&Tensor> = leaves.iter().collect();
    let found = grad(&loss, &leaves);
    for (found, input) in found.iter().zip(inputs) {
        assert_eq!(
            (found.shape(), found.dtype()),
            (input.shape(), input.dtype())
        );
    }
    found.iter().map(read).collect()
}

/// Central differences by every element of each of `inputs`, which are of F64.
fn slopes(f: &dyn Fn(&[Tensor]) -> Tensor, inputs: &[Tensor]) -> Vec<Vec<f64>> {
    const STEP: f64 = 1e-5;
    let value = |inputs: &[Tensor]| read(&loss(&f(inputs)))[0];
    let of = |i: usize| {
        let around = read(&inputs[i]);
        let moved = |k: usize, by: f64| {
            let mut values = around.clone();
            values[k] += by;
            let mut inputs = inputs.to_vec();
            inputs[i] = Tensor::from_vec(values, inputs[i].shape().clone(), &Device::cpu());
            value(&inputs)
        };
        let slope = |k| (moved(k, STEP) - moved(k, -STEP)) / (2.0 * STEP);
        (0..around.len()).map(slope).collect()
    };
    with_mode(Mode::Eager, || (0..inputs.len()).map(of).collect())
}

#[track_caller]
fn near(got: &[f64], want: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let largest = want.iter().fold(0.1f64, |most, x| most.max(x.abs()));
    for (i, (got, want)) in got.iter().zip(want).enumerate() {
        let off = (got - want).abs();
        assert!(
            off <= tolerance * largest,
            "{what}, element {i}: {got}, not {want}"
        );
    }
}

/// Checks the gradients of `f` by each of `inputs`, of F64: beside central differences, in both modes; of inputs that lie
/// otherwise in memory; and in F32, BF16 and F16 beside those of the same numbers in F64.
#[track_caller]
pub fn check(inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Tensor) {
    smooth(inputs, &f);
    for (dtype, tolerance) in [(DType::F32, 1e-5), (DType::BF16, 6e-2), (DType::F16, 8e-3)] {
        let narrow: Vec<Tensor> = inputs.iter().map(|x| x.to_dtype(dtype)).collect();
        let wide: Vec<Tensor> = narrow.iter().map(|x| x.to_dtype(DType::F64)).collect();
        let want = with_mode(Mode::Eager, || gradients(&f, &wide));
        for mode in [Mode::Eager, Mode::Compiled] {
            let got = with_mode(mode, || gradients(&f, &narrow));
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                near(
                    got,
                    want,
                    tolerance,
                    &format!("{mode:?} {dtype} by operand {i}"),
                );
            }
        }
    }
}

/// As [`check`], in F64 alone.
#[track_caller]
pub fn smooth(inputs: &[Tensor], f: &dyn Fn(&[Tensor]) -> Tensor) {
    let want = slopes(f, inputs);
    let turned = |x: &Tensor| match x.rank() {
        0 | 1 => x.clone(),
        // The same elements with the last two dimensions of memory exchanged.
        _ => x.transpose(-1, -2).contiguous().transpose(-1, -2),
    };
    let strided: Vec<Tensor> = inputs.iter().map(turned).collect();
    for mode in [Mode::Eager, Mode::Compiled] {
        for (inputs, how) in [(inputs, "dense"), (&strided, "strided")] {
            let got = with_mode(mode, || gradients(f, inputs));
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                near(got, want, 1e-6, &format!("{mode:?} {how} by operand {i}"));
            }
        }
    }
}

/// Checks the gradients of the gradients of `f` by all its `inputs`, weighted and added.
#[track_caller]
pub fn second(inputs: &[Tensor], f: impl Fn(&[Tensor]) -> Tensor) {
    let slope = |inputs: &[Tensor]| {
        let inputs: Vec<Tensor> = inputs
            .iter()
            .map(|x| {
                if x.has_grad() {
                    x.clone()
                } else {
                    x.requires_grad()
                }
            })
            .collect();
        let leaves: Vec<&Tensor> = inputs.iter().collect();
        let found = grad(&loss(&f(&inputs)), &leaves);
        let parts: Vec<Tensor> = found
            .iter()
            .enumerate()
            .map(|(i, g)| (g * &tensor(g.shape(), 500 + i as u64)).sum(..))
            .collect();
        parts.into_iter().reduce(|a, b| &a + &b).unwrap()
    };
    smooth(inputs, &slope);
}
