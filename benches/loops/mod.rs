//! Training loops as users write them at first: without `jit`, with or without a look at the loss.

use ferrotrace::nn::{Embedding, GeluTanh, LayerNorm, Linear, Module, MultiHeadAttention};
use ferrotrace::optim::{Adam, AdamW};
use ferrotrace::prelude::*;
use ferrotrace::{TensorStruct, manual_seed, value_and_grad};

/// Names of the loops.
pub const LOOPS: &[&str] = &["classifier", "transformer", "adversarial"];

/// Steps that a loop takes.
pub const STEPS: usize = 12;

/// Runs a loop, each step as a `jit` function or without. The adversarial one reads nothing before its end.
///
/// # Errors
/// A step failed, or no loop has this name.
pub fn run(name: &str, compiled: bool) -> Result<()> {
    manual_seed(1);
    match name {
        "classifier" => classifier(compiled),
        "transformer" => transformer(compiled),
        "adversarial" => adversarial(compiled),
        other => Err(Error::argument(format!("no loop is called {other}"))),
    }
}

#[derive(Clone, TensorStruct)]
struct Perceptron {
    layers: [Linear; 3],
}

impl Perceptron {
    fn new([inputs, hidden, outputs]: [usize; 3]) -> Perceptron {
        let sizes = [(inputs, hidden), (hidden, hidden), (hidden, outputs)];
        Perceptron {
            layers: sizes.map(|(from, to)| Linear::new(from, to, &Device::cpu())),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let [first, second, third] = &self.layers;
        third.forward(&second.forward(&first.forward(x).relu()).tanh())
    }
}

type Classifier = (Perceptron, AdamW);

fn classifier_step(
    ((mut model, mut opt), x, y): (Classifier, &Tensor, &Tensor),
) -> (Classifier, Tensor) {
    let (loss, gradients) = value_and_grad(&model, |model: &Perceptron| {
        model.forward(x).cross_entropy(y)
    });
    opt.step(&mut model, &gradients);
    ((model, opt), loss)
}

fn classifier(compiled: bool) -> Result<()> {
    let model = Perceptron::new([64, 128, 10]);
    let opt = AdamW::new(&model, 1e-3).clip_norm(1.0);
    let step = jit(classifier_step);
    let mut state = (model, opt);
    for _ in 0..STEPS {
        let x = Tensor::randn([32, 64], DType::F32, &Device::cpu());
        let y = Tensor::randint(0, 10, [32], DType::I64, &Device::cpu());
        let loss;
        (state, loss) = match compiled {
            true => step.call((state, &x, &y)),
            false => classifier_step((state, &x, &y)),
        };
        loss.to_scalar::<f32>()?;
    }
    Ok(())
}

#[derive(Clone, TensorStruct)]
struct Block {
    norm1: LayerNorm,
    attention: MultiHeadAttention,
    norm2: LayerNorm,
    up: Linear,
    down: Linear,
}

impl Module for Block {
    fn forward(&self, x: &Tensor) -> Tensor {
        let x = x + self.attention.forward(&self.norm1.forward(x));
        let hidden = GeluTanh.forward(&self.up.forward(&self.norm2.forward(&x)));
        x + self.down.forward(&hidden)
    }
}

#[derive(Clone, TensorStruct)]
struct Transformer {
    bytes: Embedding,
    positions: Tensor,
    blocks: Vec<Block>,
    norm: LayerNorm,
}

const WIDTH: usize = 64;
const LENGTH: usize = 32;

impl Transformer {
    fn new() -> Transformer {
        let device = Device::cpu();
        let block = |_| Block {
            norm1: LayerNorm::new(WIDTH, &device),
            attention: MultiHeadAttention::new(WIDTH, 4, &device).causal(),
            norm2: LayerNorm::new(WIDTH, &device),
            up: Linear::new(WIDTH, 4 * WIDTH, &device),
            down: Linear::new(4 * WIDTH, WIDTH, &device),
        };
        Transformer {
            bytes: Embedding {
                weight: Tensor::randn([256, WIDTH], DType::F32, &device) * 0.02,
                padding: None,
            },
            positions: Tensor::randn([LENGTH, WIDTH], DType::F32, &device) * 0.02,
            blocks: (0..2).map(block).collect(),
            norm: LayerNorm::new(WIDTH, &device),
        }
    }

    fn loss(&self, x: &Tensor, y: &Tensor) -> Tensor {
        let mut hidden = self.bytes.forward(x) + &self.positions;
        for block in &self.blocks {
            hidden = block.forward(&hidden);
        }
        let scores = self.norm.forward(&hidden).linear(&self.bytes.weight, None);
        scores.reshape([-1, 256]).cross_entropy(&y.reshape([-1]))
    }
}

type Language = (Transformer, AdamW);

fn transformer_step(
    ((mut model, mut opt), x, y): (Language, &Tensor, &Tensor),
) -> (Language, Tensor) {
    let (loss, gradients) = value_and_grad(&model, |model: &Transformer| model.loss(x, y));
    opt.step(&mut model, &gradients);
    ((model, opt), loss)
}

fn transformer(compiled: bool) -> Result<()> {
    let model = Transformer::new();
    let opt = AdamW::new(&model, 1e-3);
    let step = jit(transformer_step);
    let mut state = (model, opt);
    for _ in 0..STEPS {
        let drawn = || Tensor::randint(0, 256, [8, LENGTH], DType::I64, &Device::cpu());
        let (x, y) = (drawn(), drawn());
        let loss;
        (state, loss) = match compiled {
            true => step.call((state, &x, &y)),
            false => transformer_step((state, &x, &y)),
        };
        loss.to_scalar::<f32>()?;
    }
    Ok(())
}

/// A generator and a discriminator ([Goodfellow et al. 2014](https://arxiv.org/abs/1406.2661)), each with its optimiser.
type Adversaries = (Perceptron, Perceptron, Adam, Adam);

fn adversarial_step(
    ((mut makes, mut judges, mut opt_makes, mut opt_judges), real, noise): (
        Adversaries,
        &Tensor,
        &Tensor,
    ),
) -> Adversaries {
    let made = makes.forward(noise).detach();
    let (_, gradients) = value_and_grad(&judges, |judges: &Perceptron| {
        let of_real = (-judges.forward(real)).softplus().mean(..);
        of_real + judges.forward(&made).softplus().mean(..)
    });
    opt_judges.step(&mut judges, &gradients);
    let (_, gradients) = value_and_grad(&makes, |makes: &Perceptron| {
        (-judges.forward(&makes.forward(noise))).softplus().mean(..)
    });
    opt_makes.step(&mut makes, &gradients);
    (makes, judges, opt_makes, opt_judges)
}

fn adversarial(compiled: bool) -> Result<()> {
    let (makes, judges) = (Perceptron::new([16, 64, 2]), Perceptron::new([2, 64, 1]));
    let (opt_makes, opt_judges) = (Adam::new(&makes, 1e-3), Adam::new(&judges, 1e-3));
    let step = jit(adversarial_step);
    let mut state = (makes, judges, opt_makes, opt_judges);
    for _ in 0..STEPS {
        let real = Tensor::randn([64, 2], DType::F32, &Device::cpu()) * 0.5 + 1.0;
        let noise = Tensor::randn([64, 16], DType::F32, &Device::cpu());
        state = match compiled {
            true => step.call((state, &real, &noise)),
            false => adversarial_step((state, &real, &noise)),
        };
    }
    state.0.eval()
}
