//! What a step of training holds at most: compiled no more than operation by operation.

use ferrotrace::nn::*;
use ferrotrace::prelude::*;
use ferrotrace::{checkpoint, manual_seed, stats_scope, value_and_grad};

fn cpu() -> Device {
    Device::cpu()
}

fn noise(shape: &[usize]) -> Tensor {
    let tensor = Tensor::randn(shape, DType::F32, &cpu());
    eval([&tensor]).unwrap();
    tensor
}

/// The most bytes that a step of training holds beside what it is given, compiled and operation by operation.
macro_rules! peaks {
    ($model:expr, $x:expr, |$m:ident: &$type:ty, $of:ident| $loss:expr) => {{
        let step = |(mut model, x): ($type, &Tensor)| {
            let loss = |$m: &$type, $of: &Tensor| $loss;
            let (loss, gradients) = value_and_grad(&model, |m| loss(m, x));
            let updated = model.zip_mut(&gradients, |_, w, g| *w = &*w - g * 0.01);
            updated.map(|()| (model, loss))
        };
        let (model, x) = ($model, $x);
        let compiled = jit(step);
        peaks_of(&model, |mode, model| match mode {
            Mode::Eager => step((model, &x)).unwrap(),
            _ => compiled.call((model, &x)).unwrap(),
        })
    }};
}

/// What the third step holds in both modes.
fn peaks_of<M: TensorStruct>(model: &M, step: impl Fn(Mode, M) -> (M, Tensor)) -> [u64; 2] {
    [Mode::Compiled, Mode::Eager].map(|mode| {
        with_mode(mode, || {
            let mut model = model.map(|_, tensor| tensor + 0.0);
            let mut peak = 0;
            for _ in 0..3 {
                eval(model.tensors()).unwrap();
                let ((next, loss), stats) = stats_scope(|| {
                    let (next, loss) = step(mode, model);
                    eval(next.tensors()).unwrap();
                    (next, loss)
                });
                assert!(loss.item::<f32>().unwrap().is_finite());
                (model, peak) = (next, stats.peak_bytes);
            }
            peak
        })
    })
}

#[derive(Clone, Debug, TensorStruct)]
struct Mlp(Linear, Linear, Linear);

#[test]
fn mlp() {
    manual_seed(1);
    let layer = |a, b| Linear::new(a, b, &cpu());
    let model = Mlp(layer(784, 512), layer(512, 512), layer(512, 10));
    let [compiled, eager] = peaks!(model, noise(&[256, 784]), |m: &Mlp, x| {
        let h = m.1.forward(&m.0.forward(x).relu()).relu();
        let target = x.narrow(1, 0, 10).argmax(1);
        m.2.forward(&h).cross_entropy(&target)
    });
    assert!(compiled <= eager, "{compiled} of {eager}");
}

#[derive(Clone, Debug, TensorStruct)]
struct Cnn(Conv2d, Conv2d, Linear);

#[test]
fn cnn() {
    manual_seed(1);
    let conv = |a, b| Conv2d::with(a, b, 3, Conv::new().padding(1), &cpu());
    let model = Cnn(conv(1, 16), conv(16, 32), Linear::new(32 * 49, 10, &cpu()));
    let [compiled, eager] = peaks!(model, noise(&[16, 1, 28, 28]), |m: &Cnn, x| {
        let h = m.0.forward(x).relu().max_pool2d(2, 2, 0);
        let h = m.1.forward(&h).relu().max_pool2d(2, 2, 0);
        let target = x.flatten(1, 3).narrow(1, 0, 10).argmax(1);
        m.2.forward(&h.flatten(1, 3)).cross_entropy(&target)
    });
    assert!(compiled <= eager, "{compiled} of {eager}");
}

#[derive(Clone, Debug, TensorStruct)]
struct Block {
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    wide: Linear,
    narrow: Linear,
}

impl Block {
    fn new(width: usize) -> Block {
        Block {
            norm1: LayerNorm::new(width, &cpu()),
            qkv: Linear::new(width, 3 * width, &cpu()),
            out: Linear::new(width, width, &cpu()),
            norm2: LayerNorm::new(width, &cpu()),
            wide: Linear::new(width, 4 * width, &cpu()),
            narrow: Linear::new(4 * width, width, &cpu()),
        }
    }

    fn forward(&self, x: &Tensor) -> Tensor {
        let [n, t, d] = x.dims3().map(|(n, t, d)| [n, t, d]).unwrap();
        let qkv = self.qkv.forward(&self.norm1.forward(x));
        let qkv = qkv.reshape([n, t, 3, 4, d / 4]).permute([2, 0, 3, 1, 4]);
        let [q, k, v] = [0, 1, 2].map(|i| qkv.select(0, i));
        let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
        let x = x + self.out.forward(&y.transpose(1, 2).reshape([n, t, d]));
        let y = self.wide.forward(&self.norm2.forward(&x)).gelu();
        x + self.narrow.forward(&y)
    }
}

fn blocks(count: usize) -> Vec<Block> {
    manual_seed(1);
    (0..count).map(|_| Block::new(64)).collect()
}

#[test]
fn transformer() {
    let [compiled, eager] = peaks!(blocks(4), noise(&[4, 128, 64]), |m: &Vec<Block>, x| {
        let y = m.iter().fold(x.clone(), |x, block| block.forward(&x));
        y.square().mean(..)
    });
    assert!(compiled <= eager, "{compiled} of {eager}");
}

#[test]
fn checkpoints() {
    let of = |count| {
        peaks!(blocks(count), noise(&[4, 128, 64]), |m: &Vec<Block>, x| {
            let block = |x: Tensor, block: &Block| checkpoint(|| block.forward(&x));
            m.iter().fold(x.clone(), block).square().mean(..)
        })
    };
    let (few, many) = (of(2), of(8));
    let more = |mode: usize| (many[mode] - few[mode]) / 6;
    // Each further block holds its input; operation by operation, the gradients of its parameters too.
    let input = 4 * (4 * 128 * 64);
    let parameters = 4 * blocks(1)[0]
        .tensors()
        .iter()
        .map(Tensor::numel)
        .sum::<usize>() as u64;
    assert!(more(0) <= input * 9 / 8, "{} for {input}", more(0));
    let both = input + parameters;
    assert!(more(1) <= both * 9 / 8, "{} for {both}", more(1));
    assert!(many[0] <= many[1], "{many:?}");
}

#[derive(Clone, Debug, TensorStruct)]
struct Words(Lstm, Linear);

#[test]
fn lstm() {
    manual_seed(1);
    let model = Words(Lstm::new(32, 64, &cpu()), Linear::new(64, 8, &cpu()));
    let [compiled, eager] = peaks!(model, noise(&[32, 16, 32]), |m: &Words, x| {
        let y = m.0.forward(x);
        m.1.forward(&y).square().mean(..)
    });
    assert!(compiled <= eager, "{compiled} of {eager}");
}
