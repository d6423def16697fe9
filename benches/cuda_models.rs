//! Workloads on a CUDA device as `jit` functions: time and memory of a call, one line each, which
//! `benches/peers/cuda_models.py` sets beside those of `torch.compile`. Says what is missing where there is no device.
//! Words after `--` choose rows by parts of their names.

use ferrotrace::prelude::*;
use ferrotrace::reset_stats;
use ferrotrace_runtime::live_bytes;
use std::thread::sleep;
use std::time::Duration;

const CALLS: usize = 20;
const ROUNDS: usize = 9;

/// A function of tensors and what it is called with.
type Row = (&'static str, Vec<Tensor>, fn(&[&Tensor]) -> Vec<Tensor>);

/// Microseconds a call of `CALLS` queued ones: the median of `ROUNDS`, after five calls.
fn timed(device: &Device, mut run: impl FnMut()) -> f64 {
    for _ in 0..5 {
        run();
    }
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let calls = || {
                for _ in 0..CALLS {
                    run();
                }
                Ok(())
            };
            let ((), took) = device.time(calls).expect("runs");
            took.as_secs_f64() * 1e6 / CALLS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

/// Bytes alive in a call beyond those alive before it: results and intermediate ones.
fn extra(device: &Device, mut run: impl FnMut()) -> u64 {
    let before = live_bytes();
    reset_stats();
    run();
    device.synchronize().expect("runs");
    stats().peak_bytes - before
}

fn measure(device: &Device, name: &str, mut run: impl FnMut()) {
    run();
    // The peer's rows begin from rest too: it compiles meanwhile.
    sleep(Duration::from_millis(500));
    device.synchronize().expect("runs");
    let first = extra(device, &mut run);
    let took = timed(device, &mut run);
    // A replayed plan may hold more than a fresh one.
    let bytes = first.max(extra(device, &mut run));
    println!("row {name} {took:.2} {bytes}");
}

fn randn<const N: usize>(device: &Device, shape: [usize; N], dtype: DType) -> Tensor {
    let x = Tensor::randn(shape, dtype, device);
    x.eval().expect("memory");
    x
}

fn rows(device: &Device) -> Vec<Row> {
    use DType::{BF16, F16, F32};
    let r2 = |n: usize, m: usize, dtype| randn(device, [n, m], dtype);
    let large = || vec![r2(16384, 8192, F32)];
    let ids = |n: usize, below: i64| {
        let ids = Tensor::randint(0, below, [n], DType::I64, device);
        ids.eval().expect("memory");
        ids
    };
    let heads = |shape: [usize; 4]| (0..3).map(|_| randn(device, shape, BF16)).collect();
    vec![
        ("pointwise12_f32", large(), |x| {
            let x = x[0];
            let y = (x * 1.5 + 0.3).tanh() * x.sigmoid() + (-(x * x)).exp() * 0.5;
            vec![y + x.gt(0.0).where_cond(x, x * 0.1)]
        }),
        ("gelu_tanh_bf16", vec![r2(16384, 8192, BF16)], |x| {
            vec![x[0].gelu_tanh()]
        }),
        ("softmax_f32_8192", large(), |x| vec![x[0].softmax(-1)]),
        ("softmax_bf16_1024", vec![r2(131072, 1024, BF16)], |x| {
            vec![x[0].softmax(-1)]
        }),
        ("softmax_f32_65536", vec![r2(2048, 65536, F32)], |x| {
            vec![x[0].softmax(-1)]
        }),
        (
            "layernorm_bf16",
            vec![
                r2(32768, 4096, BF16),
                randn(device, [4096], BF16),
                randn(device, [4096], BF16),
            ],
            |x| vec![x[0].layer_norm(1, Some(x[1]), Some(x[2]), 1e-5)],
        ),
        (
            "rmsnorm_residual_bf16",
            vec![
                r2(32768, 4096, BF16),
                r2(32768, 4096, BF16),
                randn(device, [4096], BF16),
            ],
            |x| {
                let sum = x[0] + x[1];
                vec![sum.rms_norm(1, Some(x[2]), 1e-5), sum]
            },
        ),
        ("sum_all_f32", large(), |x| vec![x[0].sum(..)]),
        ("sum_axis0_f32", large(), |x| vec![x[0].sum(0)]),
        ("sum_axis1_f32", large(), |x| vec![x[0].sum(1)]),
        ("var_mean_all_f32", large(), |x| {
            let (var, mean) = x[0].var_mean(.., 1);
            vec![var, mean]
        }),
        (
            "transpose_add_f32",
            vec![r2(8192, 8192, F32), r2(8192, 8192, F32)],
            |x| vec![(x[0] + x[1].t()) * 2.0],
        ),
        ("cumsum_f32", large(), |x| vec![x[0].cumsum(-1)]),
        ("sort_f32", vec![r2(4096, 4096, F32)], |x| {
            let (values, indices) = x[0].sort(-1, false);
            vec![values, indices]
        }),
        (
            "cross_entropy_bf16_50257",
            vec![r2(8192, 50257, BF16), ids(8192, 50257)],
            |x| vec![x[0].to_dtype(F32).cross_entropy(x[1])],
        ),
        (
            "gather_embed_bf16",
            vec![r2(50304, 1024, BF16), ids(262144, 50304)],
            |x| vec![x[0].embedding(x[1]) * 2.0],
        ),
        (
            "matmul_bf16_8192",
            vec![r2(8192, 8192, BF16), r2(8192, 8192, BF16)],
            |x| vec![x[0].matmul(x[1])],
        ),
        (
            "matmul_bf16_4096",
            vec![r2(4096, 4096, BF16), r2(4096, 4096, BF16)],
            |x| vec![x[0].matmul(x[1])],
        ),
        (
            "matmul_bias_gelu_bf16",
            vec![
                r2(8192, 4096, BF16),
                r2(4096, 16384, BF16),
                randn(device, [16384], BF16),
            ],
            |x| vec![(x[0].matmul(x[1]) + x[2]).gelu_tanh()],
        ),
        (
            "matmul_f32_ieee_4096",
            vec![r2(4096, 4096, F32), r2(4096, 4096, F32)],
            |x| vec![x[0].matmul(x[1])],
        ),
        ("sdpa_causal_bf16", heads([4, 32, 4096, 128]), |x| {
            let y = Tensor::scaled_dot_product_attention(x[0], x[1], x[2], None, true, None);
            vec![y]
        }),
        ("attn_naive_bf16", heads([4, 16, 2048, 64]), |x| {
            let scores = x[0].matmul(&x[1].transpose(2, 3)) * 0.125;
            vec![scores.softmax(-1).matmul(x[2])]
        }),
        ("small_ops_chain200", vec![randn(device, [16], F32)], |x| {
            vec![(0..200).fold(x[0].clone(), |y, _| y * 1.0001 + 0.001)]
        }),
        ("block_fwd_bf16", block_inputs(device), block),
        ("mlp_train_f32", perceptron(device), step),
        (
            "conv3x3_f16",
            vec![
                randn(device, [64, 56, 56, 256], F16).permute([0, 3, 1, 2]),
                randn(device, [256, 3, 3, 256], F16).permute([0, 3, 1, 2]),
            ],
            |x| {
                // The result too has its channels innermost.
                let y = x[0].conv2d(x[1], None, 1, 1, 1, 1).relu();
                vec![y.permute([0, 2, 3, 1])]
            },
        ),
        (
            "gemv_decode_bf16",
            vec![r2(1, 4096, BF16), r2(16384, 4096, BF16)],
            |x| vec![x[0].matmul(&x[1].t())],
        ),
    ]
}

const WIDTH: usize = 2048;
const HEADS: usize = 16;

/// 8 sequences of 1,024 and the weights of a transformer's block, whose products are x·wᵀ.
fn block_inputs(device: &Device) -> Vec<Tensor> {
    let d = WIDTH;
    let vector = |n: usize| randn(device, [n], DType::BF16) * 0.02;
    let matrix = |n: usize, m: usize| randn(device, [n, m], DType::BF16) * 0.02;
    let mut all = vec![randn(device, [8, 1024, d], DType::BF16)];
    all.extend([vector(d), vector(d), matrix(3 * d, d), vector(3 * d)]);
    all.extend([matrix(d, d), vector(d), vector(d), vector(d)]);
    all.extend([matrix(4 * d, d), vector(4 * d), matrix(d, 4 * d), vector(d)]);
    eval(&all).expect("memory");
    all
}

fn block(inputs: &[&Tensor]) -> Vec<Tensor> {
    let &[
        x,
        g1,
        s1,
        qkv,
        b_qkv,
        o,
        b_o,
        g2,
        s2,
        up,
        b_up,
        down,
        b_down,
    ] = inputs
    else {
        unreachable!("a block has thirteen inputs")
    };
    let all = x
        .layer_norm(1, Some(g1), Some(s1), 1e-5)
        .linear(qkv, Some(b_qkv))
        .reshape([8, 1024, 3, HEADS, WIDTH / HEADS])
        .permute([2, 0, 3, 1, 4]);
    let [q, k, v] = [0, 1, 2].map(|i: isize| all.select(0, i));
    let attended = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
    let attended = attended.transpose(1, 2).reshape([8, 1024, WIDTH]);
    let x = x + attended.linear(o, Some(b_o));
    let hidden = x.layer_norm(1, Some(g2), Some(s2), 1e-5);
    let hidden = hidden.linear(up, Some(b_up)).gelu_tanh();
    vec![&x + hidden.linear(down, Some(b_down))]
}

/// A batch of 256, its labels, and three layers: 784 to 512 to 512 to 10.
fn perceptron(device: &Device) -> Vec<Tensor> {
    let labels = Tensor::randint(0, 10, [256], DType::I64, device);
    let mut all = vec![randn(device, [256, 784], DType::F32), labels];
    for (n, m) in [(512, 784), (512, 512), (10, 512)] {
        all.push(randn(device, [n, m], DType::F32) * 0.03);
        all.push(randn(device, [n], DType::F32) * 0.03);
    }
    eval(&all).expect("memory");
    all
}

/// The loss and its six gradients, written out.
fn step(inputs: &[&Tensor]) -> Vec<Tensor> {
    let &[images, labels, w1, b1, w2, b2, w3, b3] = inputs else {
        unreachable!("a step has eight inputs")
    };
    let first = images.linear(w1, Some(b1)).relu();
    let second = first.linear(w2, Some(b2)).relu();
    let scores = second.linear(w3, Some(b3)).log_softmax(-1);
    let truth = labels.one_hot(10).to_dtype(DType::F32);
    let loss = -(&scores * &truth).sum(-1).mean(0);
    let d_scores = (scores.exp() - truth) / 256.0;
    let d_second = d_scores.matmul(w3) * second.gt(0.0);
    let d_first = d_second.matmul(w2) * first.gt(0.0);
    vec![
        loss,
        d_first.t().matmul(images),
        d_first.sum(0),
        d_second.t().matmul(&first),
        d_second.sum(0),
        d_scores.t().matmul(&second),
        d_scores.sum(0),
    ]
}

/// AdamW over the parameters of GPT-2 of 124 M, in place.
fn adamw(device: &Device) {
    let mut shapes = vec![vec![50257, 768], vec![1024, 768]];
    let kinds: [&[usize]; 8] = [
        &[768, 2304],
        &[2304],
        &[768, 768],
        &[768],
        &[768, 3072],
        &[3072],
        &[3072, 768],
        &[768],
    ];
    for _ in 0..12 {
        shapes.extend(kinds.map(<[usize]>::to_vec));
    }
    let set = |scale: f64| -> Vec<Tensor> {
        let of = |s: &Vec<usize>| Tensor::randn(s.as_slice(), DType::F32, device) * scale;
        let all: Vec<Tensor> = shapes.iter().map(of).collect();
        eval(&all).expect("memory");
        all
    };
    let zeros = || -> Vec<Tensor> {
        let all: Vec<Tensor> = shapes
            .iter()
            .map(|s| Tensor::zeros(s.as_slice(), DType::F32, device))
            .collect();
        eval(&all).expect("memory");
        all
    };
    type List = Vec<Tensor>;
    let update = jit(|(p, m, v, g): (List, List, List, Vec<&Tensor>)| {
        let all = p.into_iter().zip(m).zip(v).zip(g);
        let of = |(((p, m), v), g): (((Tensor, Tensor), Tensor), &Tensor)| {
            let m = m * 0.9 + g * 0.1;
            let v = v * 0.999 + g * g * 0.001;
            let p = p * (1.0 - 1e-4) - &m / (v.sqrt() + 1e-8) * 1e-3;
            [p, m, v]
        };
        all.map(of).collect::<Vec<[Tensor; 3]>>()
    });
    let gradients = set(0.01);
    let mut state = Some((set(1.0), zeros(), zeros()));
    measure(device, "adamw_foreach_124M_f32", || {
        let (p, m, v) = state.take().expect("put back");
        let new = update.call((p, m, v, gradients.iter().collect()));
        let (mut p, mut m, mut v) = (Vec::new(), Vec::new(), Vec::new());
        for [a, b, c] in new {
            p.push(a);
            m.push(b);
            v.push(c);
        }
        state = Some((p, m, v));
    });
}

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let wants = |name: &str| words.is_empty() || words.iter().any(|w| name.contains(w.as_str()));
    for (name, inputs, f) in rows(&device) {
        if wants(name) {
            let function = jit(move |inputs: Vec<&Tensor>| f(&inputs));
            measure(&device, name, || {
                let results = function.call(inputs.iter().collect());
                eval(&results).expect("runs");
            });
        }
    }
    if wants("adamw") {
        adamw(&device);
    }
}
