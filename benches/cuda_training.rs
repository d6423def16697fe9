//! Training steps on a CUDA device: a perceptron, and GPT-2 of 124 million parameters with AdamW, bf16 arithmetic over f32
//! parameters and moments. `peers/cuda_training.py` runs the same by `torch.compile`. Says what is missing where there is no
//! device. Words after `--` choose rows by parts of their names.

use ferrotrace::prelude::*;
use ferrotrace::reset_stats;
use ferrotrace_runtime::live_bytes;
use std::time::Instant;

/// Batch and length.
const BATCH: (usize, usize) = (8, 1024);
const VOCABULARY: usize = 50304;
const WIDTH: usize = 768;
const HEADS: usize = 12;
const LAYERS: usize = 12;

fn main() -> Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with("--"))
        .collect();
    let wants =
        |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    if wants("mlp") {
        perceptron(&device)?;
    }
    if wants("gpt2") {
        gpt2(&device)?;
    }
    Ok(())
}

fn randn(shape: impl Into<Shape>, scale: f64, device: &Device) -> Tensor {
    Tensor::randn(shape, DType::F32, device) * scale
}

/// Runs steps: the first alone, then the median of rounds of 20; prints milliseconds, the loss and the peak of memory.
fn measure(name: &str, device: &Device, mut step: impl FnMut() -> Result<Tensor>) -> Result<()> {
    let before = live_bytes();
    let start = Instant::now();
    let first = step()?.to_dtype(DType::F32).to_scalar::<f32>()?;
    device.synchronize()?;
    let cold = start.elapsed().as_secs_f64();
    for _ in 0..5 {
        step()?;
    }
    reset_stats();
    let mut last = step()?;
    device.synchronize()?;
    let counts = stats();
    let mut rounds: Vec<f64> = Vec::new();
    for _ in 0..7 {
        let ((), took) = device.time(|| {
            for _ in 0..20 {
                last = step()?;
            }
            Ok(())
        })?;
        rounds.push(took.as_secs_f64() * 1e3 / 20.0);
    }
    rounds.sort_by(f64::total_cmp);
    let loss = last.to_dtype(DType::F32).to_scalar::<f32>()?;
    println!(
        "row {name} {:.4} ms, first {cold:.3} s, loss {first:.4} to {loss:.4}, {} kernels, {} library calls, {} graphs, {} MiB beyond {} MiB",
        rounds[3],
        counts.kernels_launched,
        counts.library_calls,
        counts.graph_launches,
        counts.peak_bytes.saturating_sub(before) >> 20,
        before >> 20,
    );
    Ok(())
}

/// 784 to 512 to 512 to 10, batch 256, gradient descent.
fn perceptron(device: &Device) -> Result<()> {
    let shapes: [&[usize]; 6] = [&[512, 784], &[512], &[512, 512], &[512], &[10, 512], &[10]];
    let mut weights: Vec<Tensor> = shapes.iter().map(|s| randn(*s, 0.03, device)).collect();
    let x = randn([256, 784], 1.0, device);
    let y = Tensor::randint(0, 10, 256, DType::I64, device);
    eval(&weights)?;
    eval([&x, &y])?;
    let step = jit(|(weights, x, y): (Vec<Tensor>, &Tensor, &Tensor)| {
        let leaves: Vec<Tensor> = weights.iter().map(Tensor::requires_grad).collect();
        let hidden = x.linear(&leaves[0], Some(&leaves[1])).relu();
        let hidden = hidden.linear(&leaves[2], Some(&leaves[3])).relu();
        let loss = hidden.linear(&leaves[4], Some(&leaves[5])).cross_entropy(y);
        let gradients = grad(&loss, &leaves);
        let updated = |(w, g): (&Tensor, &Tensor)| w.detach() - g * 0.01;
        let weights: Vec<Tensor> = leaves.iter().zip(&gradients).map(updated).collect();
        (weights, loss)
    });
    measure("mlp", device, || {
        let (next, loss) = step.call((std::mem::take(&mut weights), &x, &y));
        weights = next;
        Ok(loss)
    })
}

/// The loss of GPT-2 for tokens and their successors, by parameters in bf16.
fn loss(p: &[Tensor], tokens: &Tensor, targets: &Tensor) -> Tensor {
    let (b, t) = BATCH;
    let mut x = p[0].embedding(tokens) + &p[1];
    for layer in p[4..].chunks(12) {
        let normed = x.layer_norm(1, Some(&layer[0]), Some(&layer[1]), 1e-5);
        let qkv =
            normed
                .linear(&layer[2], Some(&layer[3]))
                .reshape([b, t, 3, HEADS, WIDTH / HEADS]);
        let qkv = qkv.permute([2, 0, 3, 1, 4]);
        let (q, k, v) = (qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2));
        let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
        let y = y.permute([0, 2, 1, 3]).reshape([b, t, WIDTH]);
        x += y.linear(&layer[4], Some(&layer[5]));
        let normed = x.layer_norm(1, Some(&layer[6]), Some(&layer[7]), 1e-5);
        let hidden = normed.linear(&layer[8], Some(&layer[9])).gelu_tanh();
        x += hidden.linear(&layer[10], Some(&layer[11]));
    }
    let x = x.layer_norm(1, Some(&p[2]), Some(&p[3]), 1e-5);
    let logits = x.reshape([b * t, WIDTH]).linear(&p[0], None);
    logits
        .to_dtype(DType::F32)
        .cross_entropy(&targets.reshape([b * t]))
}

fn parameters(device: &Device) -> Vec<Tensor> {
    let ones = |n: usize| Tensor::ones(n, DType::F32, device);
    let zeros = |n: usize| Tensor::zeros(n, DType::F32, device);
    let d = WIDTH;
    let mut all = vec![
        randn([VOCABULARY, d], 0.02, device),
        randn([BATCH.1, d], 0.02, device),
        ones(d),
        zeros(d),
    ];
    for _ in 0..LAYERS {
        all.extend([
            ones(d),
            zeros(d),
            randn([3 * d, d], 0.02, device),
            zeros(3 * d),
        ]);
        all.extend([randn([d, d], 0.02, device), zeros(d), ones(d), zeros(d)]);
        all.extend([randn([4 * d, d], 0.02, device), zeros(4 * d)]);
        all.extend([randn([d, 4 * d], 0.02, device), zeros(d)]);
    }
    all
}

fn gpt2(device: &Device) -> Result<()> {
    type State = (Vec<Tensor>, Vec<Tensor>, Vec<Tensor>, Tensor);
    let masters = parameters(device);
    let zeros = |p: &Tensor| p.zeros_like();
    let (m, v): (Vec<Tensor>, Vec<Tensor>) = masters.iter().map(|p| (zeros(p), zeros(p))).unzip();
    for list in [&masters, &m, &v] {
        eval(list)?;
    }
    let (b, t) = BATCH;
    let tokens = Tensor::randint(0, VOCABULARY as i64, [b, t + 1], DType::I64, device);
    let (x, y) = (
        tokens.narrow(1, 0, t).contiguous(),
        tokens.narrow(1, 1, t).contiguous(),
    );
    eval([&x, &y])?;
    let step = jit(
        |((masters, m, v, steps), x, y): (State, &Tensor, &Tensor)| {
            let leaves: Vec<Tensor> = masters.iter().map(Tensor::requires_grad).collect();
            let halves: Vec<Tensor> = leaves.iter().map(|p| p.to_dtype(DType::BF16)).collect();
            let loss = loss(&halves, x, y);
            let gradients = grad(&loss, &leaves);
            let steps = steps + 1.0;
            let correction =
                |beta: f64| 1.0 - Tensor::full((), beta, DType::F32, &x.device()).pow(&steps);
            let (c1, c2) = (correction(0.9), correction(0.95));
            let mut next: State = (Vec::new(), Vec::new(), Vec::new(), steps);
            for (((p, g), m), v) in leaves.iter().zip(&gradients).zip(&m).zip(&v) {
                let m = m * 0.9 + g * 0.1;
                let v = v * 0.95 + g.square() * 0.05;
                let update = (&m / &c1) / ((&v / &c2).sqrt() + 1e-8);
                let p = p.detach();
                next.0.push(&p * (1.0 - 6e-4 * 0.1) - update * 6e-4);
                next.1.push(m);
                next.2.push(v);
            }
            (next, loss)
        },
    );
    let mut state = Some((masters, m, v, Tensor::zeros((), DType::F32, device)));
    measure("gpt2", device, || {
        let Some(given) = state.take() else {
            return Err(Error::argument("an earlier step failed"));
        };
        let (next, loss) = step.call((given, &x, &y));
        state = Some(next);
        Ok(loss)
    })
}
