//! Models of convolutions.

use super::{cpu, like_pytorch, numbers, whole};
use ferrotrace::Interpolation;
use ferrotrace::nn::*;
use ferrotrace::prelude::*;
use std::f64::consts::PI;

fn padded(inputs: usize, outputs: usize) -> Conv2d {
    Conv2d::with(inputs, outputs, 3, Conv::new().padding(1), &cpu())
}

#[derive(Clone, Debug, TensorStruct)]
struct ConvNet {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    out: Linear,
}

#[test]
fn convolutions_with_batch_norm() {
    let model = || ConvNet {
        conv1: padded(2, 4),
        norm1: BatchNorm2d::new(4, &cpu()),
        conv2: Conv2d::with(4, 6, 3, Conv::new().stride(2), &cpu()),
        norm2: BatchNorm2d::new(6, &cpu()),
        out: Linear::new(6, 3, &cpu()),
    };
    like_pytorch("ConvNet", model, |m, dtype| {
        let x = numbers("x", &[3, 2, 9, 9], dtype);
        let x = m.norm1.forward(&m.conv1.forward(&x)).relu();
        let x = m.conv2.forward(&x.max_pool2d(2, 2, 0));
        let x = m.norm2.forward(&x).relu().mean((2, 3));
        m.out.forward(&x).cross_entropy(&whole("t", 3, &[3]))
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Residual {
    conv1: Conv2d,
    norm1: BatchNorm2d,
    conv2: Conv2d,
    norm2: BatchNorm2d,
    short: Conv2d,
    norm3: BatchNorm2d,
}

#[test]
fn residual_block() {
    let half = Conv::new().stride(2);
    let model = || Residual {
        conv1: Conv2d::with(4, 8, 3, half.clone().padding(1), &cpu()).without_bias(),
        norm1: BatchNorm2d::new(8, &cpu()),
        conv2: padded(8, 8).without_bias(),
        norm2: BatchNorm2d::new(8, &cpu()),
        short: Conv2d::with(4, 8, 1, half.clone(), &cpu()).without_bias(),
        norm3: BatchNorm2d::new(8, &cpu()),
    };
    like_pytorch("Residual", model, |m, dtype| {
        let x = numbers("x", &[2, 4, 6, 6], dtype);
        let y = m.norm1.forward(&m.conv1.forward(&x)).relu();
        let y = m.norm2.forward(&m.conv2.forward(&y));
        let y = (y + m.norm3.forward(&m.short.forward(&x))).relu();
        (y * numbers("t", &[2, 8, 3, 3], dtype)).mean(..)
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Depthwise {
    wide: Conv2d,
    depth: Conv2d,
    norm: GroupNorm,
    narrow: Conv2d,
}

#[test]
fn depthwise_convolutions() {
    let model = || Depthwise {
        wide: Conv2d::new(3, 9, 1, &cpu()),
        depth: Conv2d::with(9, 9, 3, Conv::new().padding(1).groups(9), &cpu()),
        norm: GroupNorm::new(3, 9, &cpu()),
        narrow: Conv2d::new(9, 3, 1, &cpu()),
    };
    like_pytorch("Depthwise", model, |m, dtype| {
        let x = numbers("x", &[2, 3, 5, 7], dtype);
        let y = m.depth.forward(&m.wide.forward(&x).silu());
        let y = m.narrow.forward(&m.norm.forward(&y).hardswish());
        (x + y).smooth_l1_loss(&numbers("t", &[2, 3, 5, 7], dtype), 1.0)
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct UNet {
    down: Conv2d,
    deep: Conv2d,
    up: ConvTranspose2d,
    out: Conv2d,
}

#[test]
fn u_net_with_dice() {
    let model = || UNet {
        down: padded(1, 3),
        deep: padded(3, 6),
        up: ConvTranspose2d::with(6, 3, 2, Conv::new().stride(2), &cpu()),
        out: padded(6, 1),
    };
    like_pytorch("UNet", model, |m, dtype| {
        let x = m.down.forward(&numbers("x", &[2, 1, 8, 8], dtype)).relu();
        let y = m.deep.forward(&x.avg_pool2d(2, 2, 0)).relu();
        let y = m.out.forward(&Tensor::cat(&[&x, &m.up.forward(&y)], 1));
        let t = numbers("t", &[2, 1, 8, 8], dtype).gt(0).to_dtype(dtype);
        let p = y.sigmoid();
        let (both, each) = ((&p * &t).sum(..), p.sum(..) + t.sum(..));
        let dice = 1.0 - (both * 2.0 + 1.0) / (each + 1.0);
        y.binary_cross_entropy_with_logits(&t) + dice
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Autoencoder {
    encode1: Conv1d,
    encode2: Conv1d,
    decode1: ConvTranspose1d,
    decode2: ConvTranspose1d,
}

#[test]
fn autoencoder_of_transposed_convolutions() {
    let half = Conv::new().stride(2).padding(1);
    let model = || Autoencoder {
        encode1: Conv1d::with(2, 4, 4, half.clone(), &cpu()),
        encode2: Conv1d::with(4, 6, 4, half.clone(), &cpu()),
        decode1: ConvTranspose1d::with(6, 4, 4, half.clone(), &cpu()),
        decode2: ConvTranspose1d::with(4, 2, 4, half.clone(), &cpu()),
    };
    like_pytorch("Autoencoder", model, |m, dtype| {
        let x = numbers("x", &[3, 2, 16], dtype);
        let y = m.encode2.forward(&m.encode1.forward(&x).leaky_relu(0.2));
        let y = m.decode1.forward(&y.elu(1.0)).leaky_relu(0.2);
        let y = m.decode2.forward(&y).tanh();
        let steps = y.narrow(2, 1, 15) - y.narrow(2, 0, 15);
        y.mse_loss(&x) + steps.abs().mean(..) * 0.01
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Vision {
    patches: Conv2d,
    class_token: Tensor,
    places: Tensor,
    layer: TransformerEncoderLayer,
    head: Linear,
}

#[test]
fn vision_transformer() {
    let options = TransformerOptions::new(8, 4).inner(16).dropout(0.0);
    let options = options.activation(Activation::Relu).norm_first();
    let model = || Vision {
        patches: Conv2d::with(3, 8, 4, Conv::new().stride(4), &cpu()),
        class_token: Tensor::zeros([1, 1, 8], DType::F32, &cpu()),
        places: Tensor::zeros([1, 5, 8], DType::F32, &cpu()),
        layer: TransformerEncoderLayer::new(options, &cpu()),
        head: Linear::new(8, 3, &cpu()),
    };
    like_pytorch("Vision", model, |m, dtype| {
        let x = m.patches.forward(&numbers("x", &[2, 3, 8, 8], dtype));
        let x = x.flatten(2, -1).transpose(1, 2);
        let first = m.class_token.expand([2, 1, 8]);
        let x = Tensor::cat(&[&first, &x], 1) + &m.places;
        let y = m.layer.forward(&x).select(1, 0);
        m.head.forward(&y).cross_entropy(&whole("t", 3, &[2]))
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Denoiser {
    time: (Linear, Silu, Linear),
    conv1: Conv2d,
    norm: GroupNorm,
    conv2: Conv2d,
}

#[test]
fn diffusion_denoiser() {
    let model = || Denoiser {
        time: (Linear::new(6, 8, &cpu()), Silu, Linear::new(8, 8, &cpu())),
        conv1: padded(1, 8),
        norm: GroupNorm::new(2, 8, &cpu()),
        conv2: padded(8, 1),
    };
    like_pytorch("Denoiser", model, |m, dtype| {
        let of = |name| numbers(name, &[3, 1, 6, 6], dtype);
        let given = |all: &[f64; 3]| Tensor::from_slice(all, 3, &cpu()).to_dtype(dtype);
        let t = given(&[0.1, 0.45, 0.8]);
        let alpha = (&t * (PI / 2.0)).cos().square().reshape([3, 1, 1, 1]);
        let angles = t.unsqueeze(1) * given(&[1.0, 3.0, 9.0]);
        let step = m
            .time
            .forward(&Tensor::cat(&[&angles.sin(), &angles.cos()], 1));
        let x = alpha.sqrt() * of("x") + (1.0 - alpha).sqrt() * of("noise");
        let y = m.norm.forward(&m.conv1.forward(&x));
        let y = (y * (step + 1.0).reshape([3, 8, 1, 1])).silu();
        let small = y.interpolate([3, 3], Interpolation::Bilinear, false);
        let y = small.interpolate([6, 6], Interpolation::Nearest, false) + y;
        m.conv2.forward(&y).mse_loss(&of("noise"))
    });
}
