//! Whole networks on a CUDA device, bf16: a Llama of 1.24 billion parameters that generates and reads a prompt, and GPT-2 of
//! 124 million. `peers/cuda_networks.py` runs the same by PyTorch. Says what is missing where there is no device. Words after
//! `--` choose rows by parts of their names; `--profile` prints the time of each step too.

use ferrotrace::prelude::*;
use ferrotrace::{Profile, profile, reset_stats};
use ferrotrace_runtime::live_bytes;
use std::time::Instant;

const BF16: DType = DType::BF16;
const VOCABULARY: usize = 128_256;
const LAYERS: usize = 16;
const WIDTH: usize = 2048;
const HEADS: usize = 32;
/// Heads of keys and values.
const KEY_HEADS: usize = 8;
const HEAD: usize = WIDTH / HEADS;
const INNER: usize = 8192;
/// Positions that a cache holds.
const CACHE: usize = 1024;
/// The first position that is generated.
const PROMPT: usize = 511;
/// Steps between two reads of the clock.
const STEPS: usize = 64;
const ROUNDS: usize = 7;

fn main() -> Result<()> {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            println!("skipped: {error}");
            return Ok(());
        }
    };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let profiled = arguments.iter().any(|a| a == "--profile");
    let wanted: Vec<&String> = arguments.iter().filter(|a| !a.starts_with("--")).collect();
    let wants =
        |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part.as_str()));
    for batch in [1, 8, 32] {
        let name = format!("llama_decode_b{batch}");
        if wants(&name) {
            decode(&name, batch, &device, profiled)?;
        }
    }
    if wants("llama_prefill_512") {
        prefill("llama_prefill_512", &device, profiled)?;
    }
    if wants("gpt2_forward") {
        gpt2("gpt2_forward", &device, profiled)?;
    }
    Ok(())
}

fn randn(shape: impl Into<Shape>, device: &Device) -> Tensor {
    (Tensor::randn(shape, DType::F32, device) * 0.02).to_dtype(BF16)
}

/// Runs a call: the first alone, then the median of rounds of `calls`; prints milliseconds, counts of a call and memory.
fn measure(
    name: &str,
    calls: usize,
    device: &Device,
    profiled: bool,
    mut call: impl FnMut() -> Result<()>,
) -> Result<()> {
    let before = live_bytes();
    let start = Instant::now();
    call()?;
    device.synchronize()?;
    let cold = start.elapsed().as_secs_f64();
    for _ in 0..5 {
        call()?;
    }
    reset_stats();
    call()?;
    device.synchronize()?;
    let counts = stats();
    let mut rounds: Vec<f64> = Vec::new();
    for _ in 0..ROUNDS {
        let ((), took) = device.time(|| {
            for _ in 0..calls {
                call()?;
            }
            Ok(())
        })?;
        rounds.push(took.as_secs_f64() * 1e3 / calls as f64);
    }
    rounds.sort_by(f64::total_cmp);
    println!(
        "row {name} {:.4} ms, first {cold:.3} s, {} plans, {} kernels, {} library calls, {} graphs, {} host reads, {} MiB beyond {} MiB",
        rounds[ROUNDS / 2],
        counts.plans_built,
        counts.kernels_launched,
        counts.library_calls,
        counts.graph_launches,
        counts.host_syncs,
        counts.peak_bytes.saturating_sub(before) >> 20,
        before >> 20,
    );
    if profiled {
        let (result, profile): (Result<()>, Profile) = profile(&mut call);
        result?;
        println!("{profile}");
    }
    Ok(())
}

/// A layer's parameters.
struct Layer {
    norm: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    norm_inner: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

/// A Llama whose embedding is its last matrix too.
struct Llama {
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    /// Cosines and sines of the rotary embedding, by position: `[CACHE, HEAD]`.
    cos: Tensor,
    sin: Tensor,
}

impl Llama {
    fn new(device: &Device) -> Result<Llama> {
        let ones = || Tensor::ones(WIDTH, BF16, device);
        let keys = KEY_HEADS * HEAD;
        let layer = |_| Layer {
            norm: ones(),
            q: randn([WIDTH, WIDTH], device),
            k: randn([keys, WIDTH], device),
            v: randn([keys, WIDTH], device),
            o: randn([WIDTH, WIDTH], device),
            norm_inner: ones(),
            gate: randn([INNER, WIDTH], device),
            up: randn([INNER, WIDTH], device),
            down: randn([WIDTH, INNER], device),
        };
        let half = Tensor::arange(0, HEAD as i64 / 2, 1, DType::F32, device);
        let frequencies = (half * (-2.0 * 500_000f64.ln() / HEAD as f64)).exp();
        let positions = Tensor::arange(0, CACHE as i64, 1, DType::F32, device);
        let angles = positions.unsqueeze(1) * frequencies;
        let angles = Tensor::cat(&[&angles, &angles], 1);
        let model = Llama {
            embedding: randn([VOCABULARY, WIDTH], device),
            layers: (0..LAYERS).map(layer).collect(),
            norm: ones(),
            cos: angles.cos().to_dtype(BF16),
            sin: angles.sin().to_dtype(BF16),
        };
        for l in &model.layers {
            eval([&l.norm, &l.q, &l.k, &l.v, &l.o])?;
            eval([&l.norm_inner, &l.gate, &l.up, &l.down])?;
        }
        eval([&model.embedding, &model.norm, &model.cos, &model.sin])?;
        Ok(model)
    }

    /// The logits of the last of `tokens`, `[B, T]`, which stand at `positions`, `[T]`; the caches gain what they add.
    fn forward(&self, tokens: &Tensor, positions: &Tensor, caches: &mut [Tensor]) -> Tensor {
        let device = tokens.device();
        let [batch, length] = [tokens.dims()[0], tokens.dims()[1]];
        let cos = self.cos.index_select(0, positions);
        let sin = self.sin.index_select(0, positions);
        let filled = Tensor::arange(0, CACHE as i64, 1, DType::I64, &device);
        let mask = filled.le(positions.unsqueeze(1));
        let heads = |x: Tensor, n: usize| x.reshape([batch, length, n, HEAD]).transpose(1, 2);
        let mut x = self.embedding.embedding(tokens);
        for (layer, cache) in self.layers.iter().zip(caches.chunks_mut(2)) {
            let normed = x.rms_norm(1, Some(&layer.norm), 1e-5);
            let q = rotate(&heads(normed.linear(&layer.q, None), HEADS), &cos, &sin);
            let k = rotate(&heads(normed.linear(&layer.k, None), KEY_HEADS), &cos, &sin);
            let v = heads(normed.linear(&layer.v, None), KEY_HEADS);
            for (old, new) in cache.iter_mut().zip([k, v]) {
                let empty = Tensor::empty(0, BF16, &device);
                let taken = std::mem::replace(old, empty);
                *old = taken.index_put(&[None, None, Some(positions)], &new, false);
            }
            let q = q.reshape([batch, KEY_HEADS, HEADS / KEY_HEADS, length, HEAD]);
            let (k, v) = (cache[0].unsqueeze(2), cache[1].unsqueeze(2));
            let y = Tensor::scaled_dot_product_attention(&q, &k, &v, Some(&mask), false, None);
            let y = y.reshape([batch, HEADS, length, HEAD]).transpose(1, 2);
            let y = y.reshape([batch, length, WIDTH]);
            x += y.linear(&layer.o, None);
            let normed = x.rms_norm(1, Some(&layer.norm_inner), 1e-5);
            let inner = normed.linear(&layer.gate, None).silu() * normed.linear(&layer.up, None);
            x += inner.linear(&layer.down, None);
        }
        let last = x.narrow(1, length as isize - 1, 1);
        last.rms_norm(1, Some(&self.norm), 1e-5)
            .linear(&self.embedding, None)
    }
}

/// Rotary embedding of `[B, heads, T, HEAD]`.
fn rotate(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Tensor {
    let halves = x.chunk(2, -1);
    x * cos + Tensor::cat(&[&-&halves[1], &halves[0]], -1) * sin
}

fn caches(batch: usize, device: &Device) -> Result<Vec<Tensor>> {
    let cache = |_| Tensor::zeros([batch, KEY_HEADS, CACHE, HEAD], BF16, device);
    let all: Vec<Tensor> = (0..2 * LAYERS).map(cache).collect();
    eval(&all)?;
    Ok(all)
}

/// Tokens of one sequence after another: the likeliest next one, chosen on the device.
fn decode(name: &str, batch: usize, device: &Device, profiled: bool) -> Result<()> {
    let model = Llama::new(device)?;
    let step = jit(
        move |(token, position, mut caches): (Tensor, Tensor, Vec<Tensor>)| {
            let logits = model.forward(&token, &position, &mut caches);
            (logits.argmax(-1), position + 1, caches)
        },
    );
    let start = |caches: Vec<Tensor>| -> Result<_> {
        let token = Tensor::randint(0, VOCABULARY as i64, [batch, 1], DType::I64, device);
        let position = Tensor::full([1], PROMPT as i64, DType::I64, device);
        eval([&token, &position])?;
        Ok((token, position, caches))
    };
    let mut state = Some(start(caches(batch, device)?)?);
    let mut at = PROMPT;
    measure(name, STEPS, device, profiled, || {
        let Some(mut taken) = state.take() else {
            return Ok(());
        };
        if at == CACHE {
            taken = start(taken.2)?;
            at = PROMPT;
        }
        at += 1;
        let next = step.call(taken);
        next.0.eval()?;
        state = Some(next);
        Ok(())
    })
}

/// A prompt of 512 tokens.
fn prefill(name: &str, device: &Device, profiled: bool) -> Result<()> {
    let model = Llama::new(device)?;
    let run = jit(
        move |(tokens, positions, mut caches): (&Tensor, &Tensor, Vec<Tensor>)| {
            let logits = model.forward(tokens, positions, &mut caches);
            (logits.argmax(-1), caches)
        },
    );
    let tokens = Tensor::randint(0, VOCABULARY as i64, [1, 512], DType::I64, device);
    let positions = Tensor::arange(0, 512, 1, DType::I64, device);
    eval([&tokens, &positions])?;
    let mut state = caches(1, device)?;
    measure(name, 10, device, profiled, || {
        let (token, next) = run.call((&tokens, &positions, std::mem::take(&mut state)));
        state = next;
        token.eval()
    })
}

/// The loss of GPT-2 for 8 sequences of 1024 tokens.
fn gpt2(name: &str, device: &Device, profiled: bool) -> Result<()> {
    let (b, t, d, heads) = (8, 1024, 768, 12);
    let ones = || Tensor::ones(d, BF16, device);
    let mut all = vec![
        randn([50257, d], device),
        randn([t, d], device),
        ones(),
        randn(d, device),
    ];
    for _ in 0..12 {
        all.extend([ones(), randn(d, device)]);
        all.extend([randn([3 * d, d], device), randn(3 * d, device)]);
        all.extend([randn([d, d], device), randn(d, device)]);
        all.extend([ones(), randn(d, device)]);
        all.extend([randn([4 * d, d], device), randn(4 * d, device)]);
        all.extend([randn([d, 4 * d], device), randn(d, device)]);
    }
    eval(&all)?;
    let run = jit(move |(tokens, targets): (&Tensor, &Tensor)| {
        let p = &all;
        let mut x = p[0].embedding(tokens) + &p[1];
        for layer in p[4..].chunks(12) {
            let normed = x.layer_norm(1, Some(&layer[0]), Some(&layer[1]), 1e-5);
            let qkv = normed.linear(&layer[2], Some(&layer[3]));
            let qkv = qkv
                .reshape([b, t, 3, heads, d / heads])
                .permute([2, 0, 3, 1, 4]);
            let (q, k, v) = (qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2));
            let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
            let y = y.transpose(1, 2).reshape([b, t, d]);
            x += y.linear(&layer[4], Some(&layer[5]));
            let normed = x.layer_norm(1, Some(&layer[6]), Some(&layer[7]), 1e-5);
            let inner = normed.linear(&layer[8], Some(&layer[9])).gelu_tanh();
            x += inner.linear(&layer[10], Some(&layer[11]));
        }
        let x = x.layer_norm(1, Some(&p[2]), Some(&p[3]), 1e-5);
        let logits = x.reshape([b * t, d]).linear(&p[0], None);
        logits
            .to_dtype(DType::F32)
            .cross_entropy(&targets.reshape([b * t]))
    });
    let ids = || Tensor::randint(0, 50257, [b, t], DType::I64, device);
    let (tokens, targets) = (ids(), ids());
    eval([&tokens, &targets])?;
    measure(name, 10, device, profiled, || {
        run.call((&tokens, &targets)).eval()
    })
}
