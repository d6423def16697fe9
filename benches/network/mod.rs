//! Whole networks in f32, forward, with the weights that a compiled function captures: what `peers/cpu_models.py` computes
//! with other libraries, by the same names and the same numbers.

mod convolutional;
mod transformers;

use crate::measure::input::{below, normal};
use crate::workload::{self, Workload};
use ferrotrace::prelude::*;
use std::cell::Cell;

/// Names with their batch, in the order of the table.
pub const NAMES: &[&str] = &[
    "resnet50_b1",
    "resnet50_b8",
    "mobilenet_b1",
    "mobilenet_b8",
    "bert_b1",
    "bert_b8",
    "gpt2_b1",
    "gpt2_b4",
    "vit_b1",
    "vit_b8",
    "lstm_b1",
    "lstm_b8",
];

/// The network of this name: each call computes it once.
pub fn open(name: &str) -> Option<Workload> {
    let (network, batch) = name.rsplit_once("_b")?;
    let batch = batch.parse().ok()?;
    match network {
        "resnet50" => Some(convolutional::resnet50(batch)),
        "mobilenet" => Some(convolutional::mobilenet(batch)),
        "bert" => Some(transformers::bert(batch)),
        "gpt2" => Some(transformers::gpt2(batch)),
        "vit" => Some(transformers::vit(batch)),
        _ => workload::open(name),
    }
}

/// Makes weights one after another, each of the next seed; inputs have seed 0.
struct Weights(Cell<u64>);

impl Weights {
    fn new() -> Weights {
        Weights(Cell::new(0))
    }

    /// About normal, of deviation `scale`.
    fn normal(&self, shape: &[usize], scale: f64) -> Tensor {
        self.0.set(self.0.get() + 1);
        let values = normal(shape.iter().product(), self.0.get(), scale as f32);
        Tensor::from_slice(&values, shape, &Device::cpu())
    }

    /// A weight of so many terms for each result: results are of the size of what it is applied to.
    fn scaled(&self, shape: &[usize], terms: usize) -> Tensor {
        self.normal(shape, (1.0 / terms as f64).sqrt())
    }
}

/// A workload that calls a function of one tensor.
fn of_one(x: Tensor, f: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) -> Workload {
    let f = jit(move |x: &Tensor| f(x));
    Box::new(move || vec![f.call(&x)])
}

fn images(batch: usize) -> Tensor {
    let shape = [batch, 3, 224, 224];
    let values = normal(shape.iter().product(), 0, 1.0);
    Tensor::from_slice(&values, shape, &Device::cpu())
}

fn tokens(batch: usize, length: usize, vocabulary: usize) -> Tensor {
    let ids = below(batch * length, 0, vocabulary as u64);
    Tensor::from_slice(&ids, [batch, length], &Device::cpu())
}
