//! What a size costs that has not been met yet: a transformer called with one prompt length after another, and small
//! programs whose sizes change at every step, compiled and in eager mode.
//!
//! ```text
//! cargo bench --bench lengths [-- --rounds N] [-- --smoke] [-- jit lazy steps held] [-- --cuda]
//! ```
//!
//! A row says what the first call of a length takes and what a further one takes, medians of `3 * N` lengths, and of the
//! first call the time that goes into planning, its plans and its compiled kernels. Lengths before these warm it up.
//! Of the small programs it says what the first 50 steps take together, with what they compile (`FERROTRACE_CACHE=0`: all of
//! it), and what a later step takes, the median of 150. Of loops that hold what they compute, all steps together.

#[path = "loops/held.rs"]
mod held;
mod measure;

use ferrotrace::prelude::*;
use ferrotrace::{Activity, Profile, Span, Stats, profile, stats_scope};
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

/// The next step of a program; it reads a number.
type Step<'a> = Box<dyn FnMut(usize) -> Outcome<f64> + 'a>;

fn read(x: &Tensor) -> Outcome<f64> {
    Ok(f64::from(x.sum(..).to_scalar::<f32>()?))
}

/// A list of rows that grows.
fn list(device: &Device) -> Step<'_> {
    let row = Tensor::ones((1, 8), DType::F32, device);
    let mut rows = row.clone();
    Box::new(move |_| {
        rows = Tensor::cat(&[&rows, &row], 0);
        read(&rows)
    })
}

/// Rows of which each step drops one.
fn shrinking(device: &Device) -> Step<'_> {
    let mut rows = Tensor::ones((300, 8), DType::F32, device);
    Box::new(move |step| {
        rows = rows.narrow(0, 0, 299 - step) * 0.99;
        read(&rows)
    })
}

/// A layer of batches of any size.
fn batches(device: &Device) -> Step<'_> {
    let w = Tensor::randn((64, 64), DType::F32, device) * 0.1;
    Box::new(move |step| {
        let x = Tensor::ones((10 + step, 64), DType::F32, device);
        read(&(x.matmul(&w).gelu() + &x).softmax(1))
    })
}

/// Three layers of a transformer whose keys and values grow by those of a token.
fn tokens(device: &Device) -> Step<'_> {
    const ALL: usize = 128;
    let weight = |to: usize| Tensor::randn((ALL, to), DType::F32, device) * 0.05;
    let weights: Vec<Vec<Tensor>> = (0..3).map(|_| [ALL; 5].map(weight).to_vec()).collect();
    let none = Tensor::zeros((1, HEADS, 0, ALL / HEADS), DType::F32, device);
    let mut caches = vec![(none.clone(), none); weights.len()];
    let mut x = Tensor::ones((1, 1, ALL), DType::F32, device);
    Box::new(move |_| {
        for (w, (keys, values)) in weights.iter().zip(&mut caches) {
            let h = x.layer_norm(2, None, None, 1e-5);
            let heads = |w: &Tensor| {
                let y = h.matmul(w).reshape((1, 1, HEADS, ALL / HEADS));
                y.transpose(1, 2)
            };
            *keys = Tensor::cat(&[&*keys, &heads(&w[1])], 2);
            *values = Tensor::cat(&[&*values, &heads(&w[2])], 2);
            let weights = (heads(&w[0]).matmul(&keys.transpose(2, 3)) * 0.2).softmax(-1);
            let y = weights.matmul(values).transpose(1, 2);
            x = &x + y.reshape((1, 1, ALL)).matmul(&w[3]);
            x = &x + x.layer_norm(2, None, None, 1e-5).matmul(&w[4]).gelu();
        }
        x = &x * 0.5;
        read(&x)
    })
}

/// A square of an image, whose size changes: how much of its mask of edges is set.
fn masks(device: &Device) -> Step<'_> {
    let image = Tensor::rand((640, 640), DType::F32, device);
    Box::new(move |step| {
        let size = 400 + step;
        let part = image.narrow(0, 0, size).narrow(1, 0, size);
        let edge = part.gt(0.2).logical_and(&part.lt(0.8)).logical_not();
        Ok(edge.sum(..).to_scalar::<i64>()? as f64)
    })
}

/// Columns of a table of which each step has more rows, normalised by their variance.
fn tables(device: &Device) -> Step<'_> {
    let table = Tensor::randn((640, 300), DType::F32, device);
    Box::new(move |step| {
        let rows = table.narrow(0, 0, 400 + step);
        let spread = rows.var_keepdim(0, 1) + 1e-5;
        read(&((&rows - rows.mean_keepdim(0)) / spread.sqrt()))
    })
}

/// Costly functions of numbers: 40,000 and more.
fn waves(device: &Device) -> Step<'_> {
    let all = Tensor::rand(50_000, DType::F32, device);
    Box::new(move |step| {
        let x = all.narrow(0, 0, 40_000 + 8 * step);
        read(&(x.sin() * x.exp()).sigmoid())
    })
}

/// Standard scores of numbers: 100,000 and more.
fn scores(device: &Device) -> Step<'_> {
    let all = Tensor::rand(110_000, DType::F32, device);
    Box::new(move |step| {
        let x = all.narrow(0, 0, 100_000 + 8 * step);
        let spread = x.var_keepdim(0, 1) + 1e-5;
        read(&((&x - x.mean_keepdim(0)) / spread.sqrt()))
    })
}

/// Averages of neighbours: 100,000 and more.
fn averages(device: &Device) -> Step<'_> {
    let all = Tensor::rand(110_000, DType::F32, device);
    Box::new(move |step| {
        let count = 100_000 + 8 * step;
        let [left, middle, right] = [0, 1, 2].map(|first| all.narrow(0, first, count));
        read(&((left + middle * 2.0 + right) / 4.0))
    })
}

/// A recurrent layer over sequences of any length, step by step.
fn sequences(device: &Device) -> Step<'_> {
    const ALL: usize = 32;
    let weight = || Tensor::randn((ALL, ALL), DType::F32, device) * 0.1;
    let [w, u, wz, uz] = std::array::from_fn(|_| weight());
    Box::new(move |step| {
        let xs = Tensor::ones((1 + step * 7 % 24, 4, ALL), DType::F32, device) * 0.3;
        let mut h = Tensor::zeros((4, ALL), DType::F32, device);
        for x in xs.unbind(0) {
            let z = (x.matmul(&wz) + h.matmul(&uz)).sigmoid();
            let new = (x.matmul(&w) + h.matmul(&u)).tanh();
            h = &h + z * (new - &h);
        }
        read(&h)
    })
}

/// A state of which a number is read after any number of steps, among rows written at the next place of a table.
fn waiting(device: &Device) -> Step<'_> {
    let mut state = Tensor::ones(8, DType::F32, device);
    let mut table = Tensor::zeros((64, 8), DType::F32, device);
    let mut at = 0;
    Box::new(move |step| {
        for _ in 0..1 + step * 7 % 12 {
            state = (&state * 0.9 + 0.1).sin();
            table = table.assign(at, &state);
            at = (at + 1) % 64;
        }
        read(&table.softmax(0))
    })
}

/// Nanoseconds of the first 50 steps together and of a later one, and the plans of the first 50 and of 150 later ones.
type Times = ([f64; 2], [u64; 2]);

/// What a step takes of programs whose steps differ in sizes or in how many operations they record.
fn steps(device: &Device) -> Outcome {
    type Program = fn(&Device) -> Step<'_>;
    let programs: [(&str, Program); 11] = [
        ("rows that grow by one", list),
        ("rows that shrink by one", shrinking),
        ("a layer of batches of any size", batches),
        ("a token of 3 layers, keys that grow", tokens),
        ("a mask of a square of any size", masks),
        ("columns of a table that grows", tables),
        ("costly functions of any number", waves),
        ("standard scores of any number", scores),
        ("averages of any number of neighbours", averages),
        ("a recurrent layer, any length", sequences),
        ("reads after any number of steps", waiting),
    ];
    let heads = [
        "program",
        "first 50",
        "plans",
        "a later step",
        "plans of 150",
        "eager: first 50",
        "a later step",
    ];
    let mut table = Table::new("Another size at every step", &heads);
    for (name, program) in programs {
        let run = |mode| -> Outcome<Times> {
            let mut step = program(device);
            with_mode(mode, || {
                let start = Instant::now();
                let (done, first) = stats_scope(|| (0..50).try_for_each(|n| step(n).map(drop)));
                done?;
                let all = start.elapsed().as_nanos() as f64;
                let mut times = Vec::new();
                let timed = || -> Outcome {
                    for n in 50..200 {
                        let start = Instant::now();
                        step(n)?;
                        times.push(start.elapsed().as_nanos() as f64);
                    }
                    Ok(())
                };
                let (done, later) = stats_scope(timed);
                done?;
                let plans = [first.plans_built, later.plans_built];
                Ok(([all, median(&times)], plans))
            })
        };
        let (compiled, plans) = run(Mode::Compiled)?;
        let (eager, _) = run(Mode::Eager)?;
        table.row(vec![
            name.to_owned(),
            time(compiled[0]),
            plans[0].to_string(),
            time(compiled[1]),
            plans[1].to_string(),
            time(eager[0]),
            time(eager[1]),
        ]);
    }
    table.print();
    Ok(())
}

/// Loops that hold numbers of their steps: the first run, which plans and compiles, and a later one.
fn held_numbers(device: &Device) -> Outcome {
    let heads = [
        "held", "first", "plans", "compiled", "later", "plans", "MiB", "eager", "MiB",
    ];
    let title = format!("{} steps whose numbers are read at the end", held::STEPS);
    let mut table = Table::new(&title, &heads);
    for (name, run) in held::LOOPS {
        let timed = |mode| -> Outcome<(f64, Stats)> {
            let start = Instant::now();
            let (done, stats) = stats_scope(|| with_mode(mode, || run(device)));
            done?;
            Ok((start.elapsed().as_nanos() as f64, stats))
        };
        let mib = |stats: &Stats| format!("{:.1}", stats.peak_bytes as f64 / f64::from(1 << 20));
        let (first, cold) = timed(Mode::Compiled)?;
        let (later, warm) = timed(Mode::Compiled)?;
        timed(Mode::Eager)?;
        let (eager, one_by_one) = timed(Mode::Eager)?;
        table.row(vec![
            name.to_owned(),
            time(first),
            cold.plans_built.to_string(),
            cold.kernels_compiled.to_string(),
            time(later),
            warm.plans_built.to_string(),
            mib(&warm),
            time(eager),
            mib(&one_by_one),
        ]);
    }
    table.print();
    Ok(())
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
    if options.wants("steps") {
        steps(&device)?;
    }
    if options.wants("held") {
        held_numbers(&device)?;
    }
    Ok(())
}
