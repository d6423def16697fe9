//! Structs of tensors: names, ties, visiting, mapping; arguments and results of compiled functions.

mod compiled;
mod forms;
mod products;
mod visiting;

use ferrotrace::prelude::*;

/// A vector of f32.
fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

fn both(body: impl Fn()) {
    with_mode(Mode::Compiled, &body);
    with_mode(Mode::Eager, &body);
}

#[track_caller]
fn holds(tensor: &Tensor, expected: &[f32]) {
    let got = tensor.to_vec::<f32>().unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(got, expected);
}

fn names<T: TensorStruct>(of: &T) -> Vec<String> {
    of.named_tensors()
        .into_iter()
        .map(|(name, _)| name)
        .collect()
}

#[derive(TensorStruct, Clone, Debug)]
struct Linear {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    fn of(weight: &[f32], bias: Option<&[f32]>) -> Linear {
        Linear {
            weight: v(weight),
            bias: bias.map(v),
        }
    }

    /// The weight times `x`, elementwise, and the bias.
    fn forward(&self, x: &Tensor) -> Tensor {
        let y = x * &self.weight;
        self.bias.iter().fold(y, |y, bias| y + bias)
    }
}

#[derive(TensorStruct, Clone, Debug)]
struct Model {
    layers: Vec<Linear>,
    scale: f64,
}

impl Model {
    fn of(layers: usize) -> Model {
        let layer = |n: usize| Linear::of(&[n as f32 + 1.0, 2.0], (n > 0).then_some(&[0.5, 1.5]));
        Model {
            layers: (0..layers).map(layer).collect(),
            scale: 2.0,
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let y = self.layers.iter().fold(x.clone(), |x, l| l.forward(&x));
        y * self.scale
    }
}
