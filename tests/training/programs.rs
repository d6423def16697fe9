//! Training as programs do it, eagerly, recorded, and compiled as one function: all agree.

use ferrotrace::data::{Loader, Position, Tensors};
use ferrotrace::nn::{Dropout, Embedding, Linear, Module, Relu};
use ferrotrace::optim::{AdamW, Schedule, add_gradients, clip_norm};
use ferrotrace::prelude::*;
use ferrotrace::{Generator, GeneratorState, manual_seed, stats_scope};

fn cpu() -> Device {
    Device::cpu()
}

/// How a step runs: operation by operation, recorded anew each time, or as a compiled function.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Eager,
    Recorded,
    Compiled,
}

const WAYS: [Way; 3] = [Way::Eager, Way::Recorded, Way::Compiled];

impl Way {
    fn run<R>(self, body: impl FnOnce() -> R) -> R {
        let mode = match self {
            Way::Eager => Mode::Eager,
            _ => Mode::Compiled,
        };
        with_mode(mode, body)
    }
}

type Model = (Linear, Relu, Dropout, Linear);

fn model(dropout: f64) -> Model {
    let layers = (Linear::new(6, 16, &cpu()), Linear::new(16, 3, &cpu()));
    (layers.0, Relu, Dropout::new(dropout), layers.1)
}

fn data(rows: usize) -> (Tensor, Tensor) {
    let x = Tensor::randn([rows, 6], DType::F32, &cpu());
    let t = x.narrow(1, 0, 3).argmax(1);
    eval([&x, &t]).unwrap();
    (x, t)
}

fn numbers<M: TensorStruct>(of: &M) -> Vec<f64> {
    let wide = |x: Tensor| x.to_dtype(DType::F64).to_vec::<f64>().unwrap();
    of.tensors().into_iter().flat_map(wide).collect()
}

#[track_caller]
fn near(a: &[f64], b: &[f64], what: &str) {
    assert_eq!(a.len(), b.len(), "{what}");
    for (a, b) in a.iter().zip(b) {
        assert!(
            (a - b).abs() <= 1e-4 * b.abs().max(1.0),
            "{what}: {a} for {b}"
        );
    }
}

type State<'a> = (Model, AdamW, &'a Tensor, &'a Tensor);

/// A step on four parts of a batch whose gradients are added up, and clipped.
fn in_parts((mut model, mut opt, x, t): State<'_>) -> (Model, AdamW, Tensor) {
    let mut total = TensorStruct::map(&model, |_, w| w.zeros_like());
    let mut losses = Tensor::zeros((), DType::F32, &cpu());
    for (x, t) in x.chunk(4, 0).iter().zip(&t.chunk(4, 0)) {
        let (loss, found) = value_and_grad(&model, |m| m.forward(x).cross_entropy(t));
        losses += loss / 4.0;
        if let Err(error) = add_gradients(&mut total, &found, 0.25) {
            losses = Tensor::failed("in_parts", error, &[]);
        }
    }
    clip_norm(&mut total, 0.1);
    opt.step(&mut model, &total);
    (model, opt, losses)
}

fn at_once((mut model, mut opt, x, t): State<'_>) -> (Model, AdamW, Tensor) {
    let (loss, mut found) = value_and_grad(&model, |m| m.forward(x).cross_entropy(t));
    clip_norm(&mut found, 0.1);
    opt.step(&mut model, &found);
    (model, opt, loss)
}

#[test]
fn gradients_of_parts_of_a_batch_add_up_to_those_of_the_batch() {
    manual_seed(1);
    let (start, (x, t)) = (model(0.0), data(32));
    let opt = AdamW::new(&start, 0.02).schedule(Schedule::cosine(20).warmup(4));
    let whole = Way::Eager.run(|| {
        let mut state = (start.clone(), opt.clone());
        for _ in 0..20 {
            let (model, opt, _) = at_once((state.0, state.1, &x, &t));
            state = (model, opt);
        }
        numbers(&state.0)
    });
    for way in WAYS {
        let (weights, stats) = way.run(|| {
            let compiled = jit(in_parts);
            let mut state = (start.clone(), opt.clone());
            let (_, stats) = stats_scope(|| {
                for _ in 0..20 {
                    let given = (state.0.clone(), state.1.clone(), &x, &t);
                    let (model, opt, loss) = match way {
                        Way::Compiled => compiled.call(given),
                        _ => in_parts(given),
                    };
                    loss.eval().unwrap();
                    state = (model, opt);
                }
            });
            (numbers(&state.0), stats)
        });
        near(&weights, &whole, &format!("{way:?}"));
        if way == Way::Compiled {
            assert_eq!((stats.traces, stats.flushes), (1, 20), "{stats:?}");
        }
    }
}

/// Where a run stands: all that a checkpoint of it holds.
struct Run {
    model: Model,
    opt: AdamW,
    loader: Loader<Tensors>,
}

impl Run {
    fn new() -> Run {
        manual_seed(5);
        let (x, t) = data(50);
        let model = model(0.3);
        Run {
            opt: AdamW::new(&model, 0.01).schedule(Schedule::cosine(30)),
            loader: Loader::new(Tensors::new([x, t]), 8).shuffle(11).prefetch(2),
            model,
        }
    }

    /// Goes on for so many batches, across epochs.
    fn go_on(mut self, way: Way, batches: usize) -> Run {
        let compiled = jit(at_once);
        let mut left = batches;
        while left > 0 {
            for batch in self.loader.epoch().take(left) {
                left -= 1;
                let given = (self.model, self.opt, &batch[0], &batch[1]);
                let (model, opt, loss) = match way {
                    Way::Compiled => compiled.call(given),
                    _ => at_once(given),
                };
                loss.eval().unwrap();
                (self.model, self.opt) = (model, opt);
            }
        }
        self
    }

    fn save(&self, path: &std::path::Path) {
        let mut saved = io::Checkpoint::new();
        saved.set_struct("model", &self.model);
        saved.set_struct("optimiser", &self.opt);
        saved.set("generator", &Generator::process());
        let Position { seed, epoch, batch } = self.loader.position();
        saved.set("seed", seed.unwrap() as i64);
        saved.set("epoch", epoch as i64);
        saved.set("batch", batch as i64);
        saved.save(path).unwrap();
    }

    fn resumed(path: &std::path::Path) -> Run {
        let mut run = Run::new();
        manual_seed(99);
        let saved = io::Checkpoint::load(path, &cpu()).unwrap();
        saved.load_struct("model", &mut run.model).unwrap();
        saved.load_struct("optimiser", &mut run.opt).unwrap();
        let state: GeneratorState = saved.generator("generator").unwrap();
        Generator::process().set_state(state);
        run.loader.restore(Position {
            seed: Some(saved.integer("seed").unwrap() as u64),
            epoch: saved.integer("epoch").unwrap() as u64,
            batch: saved.integer("batch").unwrap() as u64,
        });
        run
    }
}

/// One of the process's own, so that other tests draw nothing between.
#[test]
fn a_resumed_run_ends_with_the_same_bits() {
    const ALONE: &str = "FERROTRACE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let test = "programs::a_resumed_run_ends_with_the_same_bits";
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(ALONE, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        way.run(|| {
            let path = folder.path().join(format!("{way:?}.safetensors"));
            let run = Run::new().go_on(way, 10);
            run.save(&path);
            let whole = run.go_on(way, 10);
            let other = Run::resumed(&path).go_on(way, 10);
            assert_eq!(whole.loader.position(), other.loader.position());
            assert_eq!(numbers(&whole.model), numbers(&other.model), "{way:?}");
            assert_eq!(numbers(&whole.opt), numbers(&other.opt), "{way:?}");
        });
    }
}

/// A head that shares its weights with the table of tokens.
#[derive(Clone, TensorStruct)]
struct Tied {
    tokens: Embedding,
    head: Linear,
}

fn tied() -> Tied {
    let tokens = Embedding::new(12, 8, &cpu());
    let head = Linear {
        weight: tokens.weight.clone(),
        bias: Some(Tensor::zeros(12, DType::F32, &cpu())),
    };
    Tied { tokens, head }
}

type TiedState<'a> = (Tied, AdamW, &'a Tensor, &'a Tensor);

fn tied_step((mut model, mut opt, x, t): TiedState<'_>) -> (Tied, AdamW, Tensor) {
    let loss = |m: &Tied| m.head.forward(&m.tokens.forward(x)).cross_entropy(t);
    let (loss, found) = value_and_grad(&model, loss);
    opt.step(&mut model, &found);
    (model, opt, loss)
}

#[test]
fn tied_weights_are_loaded_and_learnt_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tied.safetensors");
    let saved = tied();
    io::save_safetensors(&path, &io::state_dict(&saved).as_pairs()).unwrap();
    let x = Tensor::arange(0, 12, 1, DType::I64, &cpu());
    let t = (&x + 1) % 12;
    let mut ends = Vec::new();
    for way in WAYS {
        way.run(|| {
            let mut model = tied();
            let loaded = io::load_safetensors(&path, &cpu()).unwrap();
            assert_eq!(loaded.len(), 2);
            io::load_state_dict(&mut model, &loaded).unwrap();
            assert_eq!(model.leaves().len(), 2);
            let mut opt = AdamW::new(&model, 0.05);
            assert_eq!(opt.state.len(), 2);
            let compiled = jit(tied_step);
            let mut losses = Vec::new();
            for _ in 0..30 {
                let loss;
                (model, opt, loss) = match way {
                    Way::Compiled => compiled.call((model, opt, &x, &t)),
                    _ => tied_step((model, opt, &x, &t)),
                };
                losses.push(loss.item::<f32>().unwrap());
            }
            assert!(losses[29] < 0.5 * losses[0], "{losses:?}");
            assert_eq!(model.leaves().len(), 2);
            let (table, head) = (numbers(&model.tokens.weight), numbers(&model.head.weight));
            assert_eq!(table, head);
            ends.push(table);
        });
    }
    near(&ends[1], &ends[0], "recorded");
    near(&ends[2], &ends[0], "compiled");
}

/// Batches of changing sizes, losses kept and read now and then, slices of predictions: without a compiled function, work,
/// plans and memory stay what they are.
#[test]
fn three_hundred_recorded_steps_are_flat() {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            manual_seed(2);
            let (x, t) = data(64);
            let mut model = model(0.1);
            let mut opt = AdamW::new(&model, 0.01);
            let (mut losses, mut seen) = (Vec::new(), 0.0f32);
            let sizes = [32, 17, 32, 8, 64];
            let mut step = |i: usize| {
                let rows = sizes[i % sizes.len()];
                let (x, t) = (x.narrow(0, 0, rows), t.narrow(0, 0, rows));
                let scores = std::cell::Cell::new(None);
                let (loss, found) = value_and_grad(&model, |m| {
                    let y = m.forward(&x);
                    scores.set(Some(y.detach()));
                    y.cross_entropy(&t)
                });
                opt.step(&mut model, &found);
                if i.is_multiple_of(7) {
                    seen = loss.item().unwrap();
                }
                if i % 10 == 3 {
                    let part = scores.take().unwrap().slice(0, 1, 5, 2);
                    assert_eq!(part.to_vec::<f32>().unwrap().len(), 6);
                }
                model.eval().unwrap();
                losses.push(loss);
            };
            (0..140).for_each(&mut step);
            let (_, first) = stats_scope(|| (140..210).for_each(&mut step));
            let (_, second) = stats_scope(|| (210..280).for_each(&mut step));
            assert_eq!(second.plans_built, 0, "{second:?}");
            assert_eq!(second.kernels_compiled, 0);
            assert_eq!(first.kernels_launched, second.kernels_launched);
            assert_eq!(first.library_calls, second.library_calls);
            // The losses are kept: a small block each.
            let kept = second.live_bytes.saturating_sub(first.live_bytes);
            assert!(
                kept <= 70 * 64 + 4096,
                "{} then {}",
                first.live_bytes,
                second.live_bytes
            );
            (280..300).for_each(&mut step);
            let first: f32 = losses[..10].iter().map(|l| l.item::<f32>().unwrap()).sum();
            let last: f32 = losses[290..].iter().map(|l| l.item::<f32>().unwrap()).sum();
            assert!(last < 0.5 * first && seen > 0.0, "{first} then {last}");
        });
    }
}
