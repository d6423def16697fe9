//! A transformer that is called with one prompt length after another: what a length costs that has not been met yet.
//!
//! ```text
//! cargo bench --bench lengths [-- --rounds N] [-- --smoke] [-- jit lazy] [-- --cuda]
//! ```
//!
//! A row says what the first call of a length takes and what a further one takes, medians of `3 * N` lengths, and of the
//! first call the time that goes into planning, its plans and its compiled kernels. Lengths before these warm it up.

mod measure;

use ferrotrace::prelude::*;
use ferrotrace::{Activity, Profile, Span, profile, stats_scope};
use measure::table::Table;
use measure::{Options, Outcome, median, time};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LAYERS: usize = 12;
const WIDTH: usize = 256;
const HEADS: usize = 4;
const WORDS: usize = 1000;
/// Lengths before those that are measured.
const WARM: usize = 10;

/// A way of calling the model.
type Call<'a> = &'a dyn Fn(&Tensor) -> Tensor;

/// The weights of a layer.
struct Layer {
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    up: Tensor,
    down: Tensor,
    norms: [Tensor; 2],
}

impl Layer {
    fn new(of: &impl Fn(&[usize]) -> Tensor) -> Layer {
        let square = || of(&[WIDTH, WIDTH]);
        Layer {
            query: square(),
            key: square(),
            value: square(),
            out: square(),
            up: of(&[WIDTH, 4 * WIDTH]),
            down: of(&[4 * WIDTH, WIDTH]),
            norms: [of(&[WIDTH]), of(&[WIDTH])],
        }
    }

    fn forward(&self, x: &Tensor, mask: &Tensor, length: usize) -> Tensor {
        let h = x.layer_norm(1, Some(&self.norms[0]), None, 1e-5);
        let heads = |w: &Tensor| {
            let y = h.matmul(w).reshape((1, length, HEADS, WIDTH / HEADS));
            y.transpose(1, 2)
        };
        let (q, k, v) = (heads(&self.query), heads(&self.key), heads(&self.value));
        let scores = q.matmul(&k.transpose(-1, -2)) / ((WIDTH / HEADS) as f64).sqrt();
        let weights = scores.masked_fill(mask, f64::NEG_INFINITY).softmax(-1);
        let y = weights.matmul(&v).transpose(1, 2);
        let x = x + y.reshape((1, length, WIDTH)).matmul(&self.out);
        let h = x.layer_norm(1, Some(&self.norms[1]), None, 1e-5);
        &x + h.matmul(&self.up).gelu().matmul(&self.down)
    }
}

/// The most likely next word of a prompt.
fn model(device: &Device) -> impl Fn(&Tensor) -> Tensor + Clone + Send + Sync + 'static {
    let dtype = match device == &Device::cpu() {
        true => DType::F32,
        false => DType::BF16,
    };
    let of = |shape: &[usize]| (Tensor::randn(shape, DType::F32, device) * 0.05).to_dtype(dtype);
    let layers: Vec<Layer> = (0..LAYERS).map(|_| Layer::new(&of)).collect();
    let embedding = of(&[WORDS, WIDTH]);
    let state = Arc::new((layers, embedding, device.clone()));
    move |ids: &Tensor| {
        let (layers, embedding, device) = &*state;
        let length = ids.numel();
        let mask = Tensor::ones((length, length), DType::Bool, device).triu(1);
        let x = embedding.index_select(0, ids).unsqueeze(0);
        let layer = |x: Tensor, layer: &Layer| layer.forward(&x, &mask, length);
        let x = layers.iter().fold(x, layer);
        x.narrow(1, -1, 1).matmul(&embedding.t()).argmax(-1)
    }
}

/// A prompt of a length.
fn prompt(length: usize, device: &Device) -> Tensor {
    let ids: Vec<i64> = (0..length as i64).map(|i| i * 7 % WORDS as i64).collect();
    Tensor::from_slice(&ids, length, device)
}

/// Nanoseconds within the spans of planning, some of which lie within others.
fn covered(profile: &Profile) -> f64 {
    let planning = |span: &&Span| span.activity == Activity::Planning;
    let mut spans: Vec<&Span> = profile.spans().iter().filter(planning).collect();
    spans.sort_by_key(|span| span.start);
    let (mut all, mut end) = (Duration::ZERO, Duration::ZERO);
    for span in spans {
        let to = span.start + span.time;
        all += to.saturating_sub(span.start.max(end));
        end = end.max(to);
    }
    all.as_nanos() as f64
}

/// Calls a model with each length several times.
fn row(name: &str, call: Call<'_>, device: &Device, count: usize) -> Outcome<Vec<String>> {
    let (mut first, mut further) = (Vec::new(), Vec::new());
    let (mut plans, mut compiled) = (0, 0);
    let mut lengths = 17..;
    for n in lengths.by_ref().take(WARM + count) {
        let ids = prompt(n, device);
        device.synchronize()?;
        let timed = || -> Outcome<f64> {
            let start = Instant::now();
            call(&ids).to_vec::<i64>()?;
            Ok(start.elapsed().as_nanos() as f64)
        };
        let (new, stats) = stats_scope(timed);
        let known = (0..5).map(|_| timed()).collect::<Outcome<Vec<f64>>>()?;
        if n >= 17 + WARM {
            first.push(new?);
            further.push(median(&known));
            plans += stats.plans_built;
            compiled += stats.kernels_compiled;
        }
    }
    // Spans are noted in further calls, so that noting them is not in the times above.
    let (done, report) = profile(|| -> Outcome {
        for n in lengths.take(count) {
            call(&prompt(n, device)).to_vec::<i64>()?;
        }
        Ok(())
    });
    done?;
    let planning = covered(&report) / count as f64;
    let mean = |n: f64| n / count as f64;
    Ok(vec![
        name.to_owned(),
        time(median(&first)),
        time(planning),
        time(median(&further)),
        format!("{:.1}", mean(plans as f64)),
        format!("{:.1}", mean(compiled as f64)),
    ])
}

fn main() -> Outcome {
    let options = Options::from_args();
    let device = match std::env::args().any(|arg| arg == "--cuda") {
        true => Device::cuda(0)?,
        false => Device::cpu(),
    };
    let model = model(&device);
    let compiled = jit(model.clone());
    let modes: [(&str, Call<'_>); 2] = [("jit", &|ids| compiled.call(ids)), ("lazy", &model)];
    let heads = [
        "mode",
        "new length",
        "planning",
        "known length",
        "plans",
        "compiled",
    ];
    let mut table = Table::new("One prompt length after another", &heads);
    for (name, call) in modes.into_iter().filter(|mode| options.wants(mode.0)) {
        table.row(row(name, call, &device, 3 * options.rounds)?);
    }
    table.print();
    Ok(())
}
