//! Networks of sequences, graphs and tables, forward: recurrences written out as loops, gathers and scatters.

use super::{Program, ids, wave};
use ferrotrace::DType::{F32, I64};
use ferrotrace::ReduceOp;
use ferrotrace::prelude::*;

pub const PROGRAMS: &[Program] = &[
    Program::f32(
        "lstm_loop",
        |d| {
            vec![
                wave(d, [64, 64, 256], 1, 1.0),
                wave(d, [1024, 256], 2, 0.06),
                wave(d, [1024, 256], 3, 0.06),
                wave(d, 1024, 4, 0.1),
            ]
        },
        lstm_loop,
    ),
    Program::f32(
        "mamba_loop",
        |d| {
            vec![
                wave(d, [8, 64, 256], 1, 1.0),
                wave(d, [256, 16], 2, 1.0),
                wave(d, [8, 64, 16], 3, 1.0),
                wave(d, [8, 64, 16], 4, 1.0),
                wave(d, [8, 64, 256], 5, 1.0),
            ]
        },
        mamba_loop,
    ),
    Program::f32(
        "wavenet",
        |d| {
            let mut inputs = vec![wave(d, [8, 64, 8192], 1, 1.0)];
            for i in 0..8 {
                inputs.push(wave(d, [128, 64, 2], 10 + i, 0.08));
                inputs.push(wave(d, [64, 64, 1], 20 + i, 0.1));
            }
            inputs
        },
        wavenet,
    ),
    Program::f32(
        "gat",
        |d| {
            vec![
                wave(d, [20000, 128], 1, 1.0),
                wave(d, [64, 128], 2, 0.1),
                wave(d, [4, 16], 3, 1.0),
                wave(d, [4, 16], 4, 1.0),
                ids(d, 200_000, 1, 20000),
                ids(d, 200_000, 2, 19997),
            ]
        },
        gat,
    ),
    Program::f32(
        "dlrm",
        |d| {
            vec![
                wave(d, [4096, 13], 1, 1.0),
                ids(d, [4096, 26], 3, 100_000),
                wave(d, [64, 13], 4, 0.2),
                wave(d, [32, 64], 5, 0.1),
                wave(d, [128, 383], 6, 0.1),
                wave(d, [1, 128], 7, 0.1),
                wave(d, [26 * 100_000, 32], 8, 0.1),
            ]
        },
        dlrm,
    ),
    Program::f32(
        "tridiagonal",
        |d| {
            let mut inputs: Vec<Tensor> = (1..5).map(|i| wave(d, [64, 100], i, 1.0)).collect();
            // The diagonal outweighs the rest of its row.
            inputs[1] = &inputs[1] + 3.5;
            inputs
        },
        tridiagonal,
    ),
    Program::f32(
        "moving_average",
        |d| vec![wave(d, [16, 500], 1, 1.0)],
        moving_average,
    ),
    Program::f32("biquads", |d| vec![wave(d, [8, 300], 1, 1.0)], biquads),
    Program::f32("fft_1000", |d| vec![wave(d, [64, 1000, 2], 1, 1.0)], fft),
    Program::f32("fft_1024", |d| vec![wave(d, [64, 1024, 2], 1, 1.0)], fft),
    Program::f32("fft_4096", |d| vec![wave(d, [16, 4096, 2], 1, 1.0)], fft),
    Program::f32("fft_prime", |d| vec![wave(d, [1, 10007, 2], 1, 1.0)], fft),
    Program::f32("fft_long", |d| vec![wave(d, [1, 1 << 20, 2], 1, 1.0)], fft),
    Program::f32("rfft_1024", |d| vec![wave(d, [64, 1024], 1, 1.0)], rfft),
    Program::f32("irfft_1024", |d| vec![wave(d, [64, 513, 2], 1, 1.0)], irfft),
];

/// Transforms of rows of complex numbers.
fn fft(x: &[&Tensor]) -> Vec<Tensor> {
    vec![x[0].fft(1)]
}

fn rfft(x: &[&Tensor]) -> Vec<Tensor> {
    vec![x[0].rfft(1)]
}

fn irfft(x: &[&Tensor]) -> Vec<Tensor> {
    vec![x[0].irfft(1024, 1)]
}

/// 64 tridiagonal systems of 100 equations, by elimination and substitution.
fn tridiagonal(x: &[&Tensor]) -> Vec<Tensor> {
    let at = |input: usize, i: isize| x[input].select(1, i);
    let mut upper = vec![at(2, 0) / at(1, 0)];
    let mut right = vec![at(3, 0) / at(1, 0)];
    for i in 1..100 {
        let before = i as usize - 1;
        let pivot = at(1, i) - at(0, i) * &upper[before];
        right.push((at(3, i) - at(0, i) * &right[before]) / &pivot);
        upper.push(at(2, i) / pivot);
    }
    let mut solution = vec![right[99].clone()];
    for i in (0..99).rev() {
        let next = &right[i] - &upper[i] * &solution[98 - i];
        solution.push(next);
    }
    solution.reverse();
    vec![Tensor::stack(&solution, 1)]
}

/// Exponential moving averages of 16 series over 500 steps.
fn moving_average(x: &[&Tensor]) -> Vec<Tensor> {
    let mut average = x[0].select(1, 0);
    let mut all = vec![average.clone()];
    for t in 1..500 {
        average = &average * 0.9 + x[0].select(1, t) * 0.1;
        all.push(average.clone());
    }
    vec![Tensor::stack(&all, 1)]
}

/// Two recursive filters of second order, one behind the other, over 300 samples of 8 signals.
fn biquads(x: &[&Tensor]) -> Vec<Tensor> {
    let mut signal = x[0].clone();
    for [b0, b1, b2, a1, a2] in [[0.2, 0.3, 0.2, -0.5, 0.2], [0.5, -0.1, 0.1, 0.3, 0.1]] {
        let mut z1 = Tensor::zeros([8], F32, &signal.device());
        let mut z2 = z1.clone();
        let mut filtered = Vec::new();
        for t in 0..300 {
            let v = signal.select(1, t);
            let y = &v * b0 + &z1;
            z1 = &v * b1 - &y * a1 + &z2;
            z2 = &v * b2 - &y * a2;
            filtered.push(y);
        }
        signal = Tensor::stack(&filtered, 1);
    }
    vec![signal]
}

/// A long short-term memory of 256 units: 64 steps of a batch of 64.
fn lstm_loop(x: &[&Tensor]) -> Vec<Tensor> {
    let mut h = Tensor::zeros([64, 256], F32, &x[0].device());
    let mut c = h.clone();
    let mut rows = Vec::new();
    for t in 0..64 {
        let z = x[0].select(0, t).linear(x[1], Some(x[3])) + h.linear(x[2], None);
        let gates = z.chunk(4, 1);
        c = gates[1].sigmoid() * &c + gates[0].sigmoid() * gates[2].tanh();
        h = gates[3].sigmoid() * c.tanh();
        rows.push(h.clone());
    }
    vec![Tensor::stack(&rows, 0)]
}

/// A selective state space (Mamba): 64 steps, 256 channels of 16 states, whose decay depends on the step.
fn mamba_loop(x: &[&Tensor]) -> Vec<Tensor> {
    let decay = -x[1].exp();
    let width = x[4].softplus();
    let mut h = Tensor::zeros([8, 256, 16], F32, &x[0].device());
    let mut rows = Vec::new();
    for t in 0..64 {
        let dt = width.select(1, t).unsqueeze(-1);
        let [into, out] = [x[2], x[3]].map(|w| w.select(1, t).unsqueeze(1));
        h = (&dt * &decay).exp() * h + (&dt * into) * x[0].select(1, t).unsqueeze(-1);
        rows.push((&h * out).sum(-1));
    }
    vec![Tensor::stack(&rows, 1)]
}

/// Eight gated convolutions of audio, each dilated twice as far as the one before it, with residuals and skips.
fn wavenet(x: &[&Tensor]) -> Vec<Tensor> {
    let mut h = x[0].clone();
    let mut skip = h.zeros_like();
    for (i, layer) in x[1..].chunks(2).enumerate() {
        let dilation = 1usize << i;
        let padded = h.pad(&[(0, 0), (0, 0), (dilation as isize, 0)], 0.0);
        let z = padded.conv1d(layer[0], None, 1, 0, dilation, 1).chunk(2, 1);
        let out = (z[0].tanh() * z[1].sigmoid()).conv1d(layer[1], None, 1, 0, 1, 1);
        skip += &out;
        h += out;
    }
    vec![skip.relu().mean(-1)]
}

/// Attention over the edges of a graph: four heads, 20,000 nodes, 200,000 edges.
fn gat(x: &[&Tensor]) -> Vec<Tensor> {
    let device = x[0].device();
    let zeros = |shape: &[usize]| Tensor::zeros(shape, F32, &device);
    let (from, to) = (x[4], x[5]);
    let h = x[0].linear(x[1], None).reshape([20000, 4, 16]);
    let (s, t) = ((&h * x[2]).sum(-1), (&h * x[3]).sum(-1));
    let e = (s.index_select(0, from) + t.index_select(0, to)).leaky_relu(0.2);
    let index = to.unsqueeze(1).expand([200_000, 4]);
    let lowest = Tensor::full([20000, 4], -1e9, F32, &device);
    let greatest = lowest.scatter_reduce(0, &index, &e, ReduceOp::Amax, true);
    let a = (e - greatest.index_select(0, to)).exp();
    let total = zeros(&[20000, 4]).index_add(0, to, &a);
    let weight = a / total.index_select(0, to);
    let messages = h.index_select(0, from) * weight.unsqueeze(-1);
    vec![zeros(&[20000, 4, 16]).index_add(0, to, &messages).elu(1.0)]
}

/// A model of recommendation: rows of 26 tables, their products with each other and with dense features, 4,096 rows.
fn dlrm(x: &[&Tensor]) -> Vec<Tensor> {
    let device = x[0].device();
    let dense = x[0].linear(x[2], None).relu().linear(x[3], None).relu();
    let offsets = Tensor::arange(0, 26, 1, I64, &device) * 100_000;
    let rows = x[6].embedding(&(x[1] + offsets));
    let all = Tensor::cat(&[&dense.unsqueeze(1), &rows], 1);
    let products = all.matmul(&all.transpose(1, 2)).reshape([4096, 729]);
    let below: Vec<i64> = (0..27)
        .flat_map(|i| (0..i).map(move |j| i * 27 + j))
        .collect();
    let below = Tensor::from_vec(below, 351, &device);
    let features = Tensor::cat(&[&dense, &products.index_select(1, &below)], 1);
    let hidden = features.linear(x[4], None).relu();
    vec![hidden.linear(x[5], None).sigmoid()]
}
