//! Loops of steps without `jit`: the second step already runs the plan of all later ones, and a loop that reads nothing
//! records a few steps at most.

use super::cpu;
use ferrotrace::nn::{Dropout, Linear, Module};
use ferrotrace::optim::*;
use ferrotrace::prelude::*;
use ferrotrace::{Generator, Stats, TensorStruct, stats_scope, value_and_grad};

#[derive(Clone, TensorStruct)]
struct Net {
    first: Linear,
    dropout: Dropout,
    second: Linear,
}

impl Net {
    /// Weights of this generator, not of the one that all tests share.
    fn new(dtype: DType, dropout: f64, generator: &Generator) -> Net {
        let net = Net {
            first: Linear::new(12, 40, &cpu()),
            dropout: Dropout::new(dropout),
            second: Linear::new(40, 5, &cpu()),
        };
        let drawn = |t: &Tensor| generator.randn(t.dims(), DType::F32, &cpu()) * 0.2;
        net.map(|_, t| drawn(t).to_dtype(dtype))
    }

    fn loss(&self, x: &Tensor, classes: &Tensor) -> Tensor {
        let hidden = self.dropout.forward(&self.first.forward(x).gelu());
        let scores = self.second.forward(&hidden).to_dtype(DType::F32);
        scores.cross_entropy(classes)
    }
}

/// When a loop reads its loss.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    BeforeStep,
    AfterStep,
    Never,
}

/// What each step of a loop did.
fn steps<R: Rule>(
    dtype: DType,
    reads: Reads,
    count: usize,
    dropout: f64,
    make: impl Fn(&Net) -> Optimizer<R>,
) -> (Vec<Stats>, Net) {
    let generator = Generator::new(3);
    let mut net = Net::new(dtype, dropout, &generator);
    let mut opt = make(&net);
    let mut step = || {
        let x = generator.randn([16, 12], dtype, &cpu());
        let classes = generator.randint(0, 5, [16], DType::I64, &cpu());
        let (loss, gradients) = value_and_grad(&net, |net| net.loss(&x, &classes));
        let read = || assert!(loss.to_scalar::<f32>().unwrap().is_finite());
        if reads == Reads::BeforeStep {
            read();
        }
        opt.step(&mut net, &gradients);
        if reads == Reads::AfterStep {
            read();
        }
    };
    let stats = (0..count).map(|_| stats_scope(&mut step).1).collect();
    (stats, net)
}

/// From step `first` on, counted from 0, all steps run one plan, however the loop reads its loss.
fn steps_are_alike<R: Rule>(
    first: usize,
    name: &str,
    dtype: DType,
    make: impl Fn(&Net) -> Optimizer<R>,
) {
    for reads in [Reads::BeforeStep, Reads::AfterStep] {
        let (stats, _) = steps(dtype, reads, 8, 0.1, &make);
        let built = |s: &Stats| (s.plans_built, s.kernels_compiled);
        let done: Vec<_> = stats
            .iter()
            .map(|s| (built(s), s.kernels_launched, s.library_calls))
            .collect();
        for (step, later) in done.iter().enumerate().skip(first + 1) {
            // A count of steps that no update reads is computed apart, by ready-made kernels.
            assert_eq!(later.0.1, 0, "{name}, {reads:?}, {step}: {done:?}");
            assert!(later.0.0 <= 1, "{name}, {reads:?}, {step}: {done:?}");
            assert_eq!(later.2, done[first].2, "{name}, {reads:?}: {done:?}");
            let launched = later.1.abs_diff(done[first].1);
            assert!(launched <= 3, "{name}, {reads:?}, {step}: {done:?}");
        }
        let plans: u64 = done[first + 1..].iter().map(|step| step.0.0).sum();
        assert!(plans <= 1, "{name}, {reads:?}: {done:?}");
    }
}

#[test]
fn the_second_step_is_like_all_later() {
    with_mode(Mode::Compiled, || {
        steps_are_alike(1, "sgd", DType::F32, |net| Sgd::new(net, 0.1));
        steps_are_alike(1, "momentum", DType::F32, |net| {
            Sgd::with_momentum(net, 0.1, 0.9).weight_decay(1e-4)
        });
        steps_are_alike(1, "adam", DType::F32, |net| Adam::new(net, 1e-3));
        steps_are_alike(1, "adamw", DType::F32, |net| {
            let schedule = Schedule::cosine(900).warmup(100);
            AdamW::new(net, 1e-3).schedule(schedule).clip_norm(1.0)
        });
        steps_are_alike(1, "rmsprop", DType::F32, |net| RmsProp::new(net, 1e-3));
        steps_are_alike(1, "adagrad", DType::F32, |net| Adagrad::new(net, 1e-3));
        steps_are_alike(1, "adafactor", DType::F32, |net| Adafactor::new(net, 1e-2));
        steps_are_alike(1, "rprop", DType::F32, |net| Rprop::new(net, 1e-3));
        steps_are_alike(1, "muon", DType::F32, |net| Muon::new(net, 1e-3));
        steps_are_alike(1, "masters", DType::BF16, |net| {
            AdamW::new(net, 1e-3).masters(net)
        });
        // A parameter is moved by the mean before the one that the step keeps, so that a flush leaves that to the next.
        steps_are_alike(2, "lion", DType::F32, |net| Lion::new(net, 1e-3));
    });
}

/// A loop that reads nothing ends with the parameters of one that reads each loss, and its plans are few.
#[test]
fn a_loop_that_reads_nothing_records_few_steps() {
    with_mode(Mode::Compiled, || {
        let make = |net: &Net| AdamW::new(net, 1e-3);
        let (read, expected) = steps(DType::F32, Reads::AfterStep, 61, 0.0, make);
        let (stats, net) = steps(DType::F32, Reads::Never, 61, 0.0, make);
        let plans: u64 = stats.iter().map(|s| s.plans_built).sum();
        let late: u64 = stats[20..].iter().map(|s| s.plans_built).sum();
        let flushes: u64 = stats[20..].iter().map(|s| s.flushes).sum();
        assert!(
            plans <= 6 && late == 0,
            "{plans} plans, {late} of them late"
        );
        assert_eq!(flushes, 41);
        let calls = |stats: &[Stats]| stats[20..].iter().map(|s| s.library_calls).sum::<u64>();
        assert!(
            calls(&stats) <= calls(&read),
            "{} {}",
            calls(&stats),
            calls(&read)
        );
        for (a, b) in [
            (&net.first.weight, &expected.first.weight),
            (&net.second.weight, &expected.second.weight),
        ] {
            assert!(a.allclose(b, 1e-5, 1e-6).unwrap());
        }
    });
}

/// A recurrence of 4 to 11 steps over an input, with a plan for each number of steps rather than for each pair of numbers that
/// follow one another.
#[test]
fn lengths_that_change_have_a_plan_each() {
    let lengths = |i: usize| 4 + ((i * 2_654_435_761) >> 7) % 8;
    let recurrence = |w: &Tensor, x: &Tensor| {
        let mut h = Tensor::zeros([3, 6], DType::F64, &cpu());
        for k in 0..x.dims()[1] {
            h = (x.select(1, k as isize) + h.matmul(w)).tanh();
        }
        h.square().mean(..)
    };
    let generator = Generator::new(5);
    let inputs: Vec<Tensor> = (4..12)
        .map(|n| generator.randn([3, n, 6], DType::F64, &cpu()))
        .collect();
    let start = generator.randn([6, 6], DType::F64, &cpu()) * 0.3;
    eval(inputs.iter().chain([&start])).unwrap();
    let by_hand = || {
        let (mut w, mut losses, mut late) = (start.clone(), Vec::new(), 0);
        for i in 0..220 {
            let (_, stats) = stats_scope(|| {
                let p = w.requires_grad();
                let loss = recurrence(&p, &inputs[lengths(i) - 4]);
                w = p.detach() - grad(&loss, &[&p]).remove(0) * 0.1;
                losses.push(loss.item::<f64>().unwrap());
            });
            late += if i >= 100 { stats.plans_built } else { 0 };
        }
        (losses, late)
    };
    let by_optimiser = || {
        let (mut w, mut losses, mut late) = (start.clone(), Vec::new(), 0);
        let mut opt = Adam::new(&w, 0.01);
        for i in 0..220 {
            let (_, stats) = stats_scope(|| {
                let x = &inputs[lengths(i) - 4];
                let (loss, g) = value_and_grad(&w, |w| recurrence(w, x));
                opt.step(&mut w, &g);
                losses.push(loss.item::<f64>().unwrap());
            });
            late += if i >= 100 { stats.plans_built } else { 0 };
        }
        (losses, late)
    };
    for run in [&by_hand as &dyn Fn() -> (Vec<f64>, u64), &by_optimiser] {
        let (expected, _) = with_mode(Mode::Eager, run);
        let (losses, late) = with_mode(Mode::Compiled, run);
        for (a, b) in losses.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-9, "{a} {b}");
        }
        // Pairs of lengths would go on to bring plans.
        assert!(late <= 8, "{late} plans behind the first hundred steps");
    }
}
