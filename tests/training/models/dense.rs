//! Models of linear layers, tables and graphs.

use super::{cpu, like_pytorch, numbers, whole};
use ferrotrace::ReduceOp;
use ferrotrace::nn::*;
use ferrotrace::prelude::*;

#[derive(Clone, Debug, TensorStruct)]
struct Layers<T> {
    layers: T,
}

#[test]
fn perceptron() {
    let model = || Layers {
        layers: (
            Linear::new(6, 16, &cpu()),
            Relu,
            Linear::new(16, 16, &cpu()),
            Relu,
            Linear::new(16, 4, &cpu()),
        ),
    };
    like_pytorch("Perceptron", model, |m, dtype| {
        let logits = m.layers.forward(&numbers("x", &[9, 6], dtype));
        let loss = CrossEntropyLoss::new().label_smoothing(0.1);
        loss.forward(&logits, &whole("t", 4, &[9]))
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Variational {
    encode: Linear,
    mean: Linear,
    log_var: Linear,
    decode: (Linear, Tanh, Linear),
}

#[test]
fn variational_autoencoder() {
    let model = || Variational {
        encode: Linear::new(8, 12, &cpu()),
        mean: Linear::new(12, 3, &cpu()),
        log_var: Linear::new(12, 3, &cpu()),
        decode: (Linear::new(3, 12, &cpu()), Tanh, Linear::new(12, 8, &cpu())),
    };
    like_pytorch("Variational", model, |m, dtype| {
        let x = numbers("x", &[5, 8], dtype);
        let h = m.encode.forward(&x).softplus();
        let (mean, log_var) = (m.mean.forward(&h), m.log_var.forward(&h));
        let z = &mean + (&log_var * 0.5).exp() * numbers("noise", &[5, 3], dtype);
        let divergence = (1.0 + &log_var - mean.square() - log_var.exp())
            .sum(1)
            .mean(..)
            * -0.5;
        let p = m.decode.forward(&z).sigmoid();
        BceLoss::new().forward(&p, &((x + 1.0) / 2.0)) + divergence * 0.1
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Factors {
    users: Tensor,
    items: Tensor,
    user_bias: Tensor,
    item_bias: Tensor,
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F32, &cpu())
}

#[test]
fn matrix_factorisation() {
    let model = || Factors {
        users: zeros(&[7, 4]),
        items: zeros(&[9, 4]),
        user_bias: zeros(&[7]),
        item_bias: zeros(&[9]),
    };
    like_pytorch("Factors", model, |m, dtype| {
        let (u, i) = (whole("u", 7, &[20]), whole("i", 9, &[20]));
        let biases = m.user_bias.index_select(0, &u) + m.item_bias.index_select(0, &i);
        let guess = (m.users.index_select(0, &u) * m.items.index_select(0, &i)).sum(1) + biases;
        let error = guess.mse_loss(&(numbers("ratings", &[20], dtype) * 2.0));
        error + (m.users.norm(2.0, ..) + m.items.norm(2.0, 1).sum(..)) * 0.02
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct GraphNet {
    first: Tensor,
    second: Tensor,
    bias: Tensor,
}

#[test]
fn graph_convolutions() {
    let model = || GraphNet {
        first: zeros(&[5, 8]),
        second: zeros(&[8, 3]),
        bias: zeros(&[8]),
    };
    like_pytorch("GraphNet", model, |m, dtype| {
        let (source, target) = (whole("source", 10, &[24]), whole("target", 10, &[24]));
        let zeros = |shape: &[usize]| Tensor::zeros(shape, dtype, &cpu());
        let ones = |n: usize| Tensor::ones(n, dtype, &cpu());
        let degree = ones(10).index_add(0, &target, &ones(24));
        let of = |ends: &Tensor| degree.index_select(0, ends);
        let norm = (of(&source) * of(&target)).rsqrt().unsqueeze(1);
        let spread = |x: Tensor| {
            let sent = x.index_select(0, &source) * &norm;
            let met = zeros(&[10, x.dims()[1]]).index_add(0, &target, &sent);
            &x / degree.unsqueeze(1) + met
        };
        let x = numbers("x", &[10, 5], dtype).matmul(&m.first);
        let x = spread((spread(x) + &m.bias).relu().matmul(&m.second));
        let to = target.unsqueeze(1).expand([24, 3]);
        let sent = x.index_select(0, &source);
        let largest = zeros(&[10, 3]).scatter_reduce(0, &to, &sent, ReduceOp::Amax, false);
        (x + largest * 0.5).cross_entropy(&whole("t", 3, &[10]))
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Experts {
    gate: Tensor,
    wide: Tensor,
    narrow: Tensor,
}

#[test]
fn mixture_of_experts() {
    let model = || Experts {
        gate: zeros(&[5, 4]),
        wide: zeros(&[4, 5, 7]),
        narrow: zeros(&[4, 7, 5]),
    };
    like_pytorch("Experts", model, |m, dtype| {
        let x = numbers("x", &[9, 5], dtype);
        let p = x.matmul(&m.gate).softmax(1);
        let (best, which) = p.topk(2, 1, true);
        let best = &best / best.sum_keepdim(1);
        let y = Tensor::einsum("ni,eio->neo", &[&x, &m.wide]).silu();
        let y = Tensor::einsum("neo,eoi->nei", &[&y, &m.narrow]);
        let at = which.unsqueeze(2).expand([9, 2, 5]);
        let y = (y.gather(1, &at) * best.unsqueeze(2)).sum(1);
        let ones = Tensor::ones([9, 2], dtype, &cpu());
        let used = Tensor::zeros([9, 4], dtype, &cpu()).scatter(1, &which, &ones);
        let balance = (used.mean(0) * p.mean(0)).sum(..) * 4.0;
        y.mse_loss(&numbers("t", &[9, 5], dtype)) + balance * 0.1
    });
}

#[test]
fn siamese_with_triplets_and_contrast() {
    let model = || Layers {
        layers: (Linear::new(5, 10, &cpu()), Gelu, Linear::new(10, 4, &cpu())),
    };
    like_pytorch("Siamese", model, |m, dtype| {
        let of = |name| m.layers.forward(&numbers(name, &[6, 5], dtype));
        let (a, b, c) = (of("a"), of("b"), of("c"));
        let sign = whole("sign", 2, &[6]).to_dtype(dtype) * 2.0 - 1.0;
        let triplet = TripletMarginLoss::new(1.0).forward(&a, &b, &c);
        let unit = |x: &Tensor| x / x.norm_keepdim(2.0, 1).clamp_min(1e-12);
        let scores = unit(&a).matmul(&unit(&b).t()) / 0.5;
        let own = Tensor::arange(0, 6, 1, DType::I64, &cpu());
        let contrast = scores.cross_entropy(&own) + scores.logsumexp(0).mean(..);
        triplet + CosineEmbeddingLoss::new(0.1).forward(&a, &c, &sign) + contrast * 0.5
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Physics {
    layers: (Linear, Tanh, Linear, Tanh, Linear),
    centres: Tensor,
    widths: Tensor,
    weights: Tensor,
}

impl Physics {
    fn u(&self, x: &Tensor) -> Tensor {
        let distance = (x - self.centres.t()).square();
        let radial = (-distance * self.widths.exp()).exp().matmul(&self.weights);
        self.layers.forward(x).select(1, 0) + radial
    }
}

#[test]
fn second_derivatives_of_a_network_for_an_equation() {
    let model = || Physics {
        layers: (
            Linear::new(1, 8, &cpu()),
            Tanh,
            Linear::new(8, 8, &cpu()),
            Tanh,
            Linear::new(8, 1, &cpu()),
        ),
        centres: zeros(&[5, 1]),
        widths: zeros(&[5]),
        weights: zeros(&[5]),
    };
    like_pytorch("Physics", model, |m, dtype| {
        let x = (numbers("x", &[12, 1], dtype) + 1.0).requires_grad();
        let zero = Tensor::zeros([1, 1], dtype, &cpu()).requires_grad();
        let slope = |y: &Tensor, x: &Tensor| grad(&y.sum(..), &[x])[0].clone();
        let (u, start) = (m.u(&x), m.u(&zero));
        let bend = slope(&slope(&u, &x), &x).select(1, 0);
        let residual = (bend + u).square().mean(..);
        residual + start.square().sum(..) + (slope(&start, &zero) - 1.0).square().sum(..)
    });
}
