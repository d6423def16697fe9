//! Structs as arguments and results of compiled functions.

use super::{Linear, Model, both, holds, v};
use ferrotrace::prelude::*;
use ferrotrace::{Stats, stats_scope};
use std::collections::{BTreeMap, HashMap};

fn compiled<R>(body: impl FnOnce() -> R) -> (R, Stats) {
    stats_scope(|| with_mode(Mode::Compiled, body))
}

#[derive(TensorStruct)]
struct Momentum {
    velocity: Model,
    rate: f64,
    steps: Tensor,
}

impl Momentum {
    fn of(model: &Model) -> Momentum {
        Momentum {
            velocity: model.map(|_, tensor| tensor.zeros_like()),
            rate: 0.5,
            steps: Tensor::scalar(0, DType::I64, &Device::cpu()),
        }
    }

    /// One step along gradients of the model's structure.
    fn step(&mut self, model: &mut Model, gradients: &Model) -> Result<()> {
        let rate = self.rate;
        self.steps += 1;
        let add = |_: &str, v: &mut Tensor, g: &Tensor| *v = &*v * 0.5 + g;
        self.velocity.zip_mut(gradients, add)?;
        model.zip_mut(&self.velocity, |_, w, v| *w -= v * rate)
    }
}

#[test]
fn by_reference() {
    both(|| {
        let f = jit(|(model, x): (&Model, &Tensor)| model.forward(x));
        let model = Model::of(2);
        for _ in 0..2 {
            holds(&f.call((&model, &v(&[1.0, 2.0]))), &[5.0, 19.0]);
        }
    });
}

#[test]
fn a_training_step_replays_in_place() {
    let step = |(mut model, mut state, x): (Model, Momentum, &Tensor)| {
        let loss = model.forward(x).sum(..);
        let gradients = model.map(|_, w| w * 0.25);
        let stepped = state.step(&mut model, &gradients);
        stepped.map(|()| (model, state, loss))
    };
    let run = |mode| {
        with_mode(mode, || {
            let model = Model::of(3);
            let (mut model, mut state) = (model.map(|_, w| w * 1.0), Momentum::of(&model));
            let x = v(&[1.0, -1.0]);
            let step = jit(step);
            let mut losses = Vec::new();
            let ((model, state), stats) = stats_scope(|| {
                for _ in 0..20 {
                    let loss;
                    (model, state, loss) = step.call((model, state, &x)).unwrap();
                    losses.push(loss.to_scalar::<f32>().unwrap());
                }
                (model, state)
            });
            assert_eq!(state.steps.to_scalar::<i64>().unwrap(), 20);
            let weights = model.tensors().into_iter();
            let weights: Vec<Vec<f32>> = weights.map(|w| w.to_vec().unwrap()).collect();
            (losses, weights, stats)
        })
    };
    let (eager, compiled) = (run(Mode::Eager), run(Mode::Compiled));
    for (a, b) in eager.0.iter().zip(&compiled.0) {
        assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{a} {b}");
    }
    for (a, b) in eager.1.iter().flatten().zip(compiled.1.iter().flatten()) {
        assert!((a - b).abs() <= 1e-5 * a.abs().max(1.0), "{a} {b}");
    }
    let stats = compiled.2;
    assert_eq!((stats.traces, stats.fallbacks), (1, 0), "{stats:?}");
    // Five velocities at each of 20 calls, and the weights' memory goes round: a call takes less than half of what model
    // and state occupy (five weights and velocities of eight bytes, a count of eight).
    assert!(stats.in_place_writes >= 20 * 5, "{stats:?}");
    assert!(stats.peak_bytes < 3 * 88 / 2 + 8, "{stats:?}");
}

#[test]
fn a_struct_that_the_caller_keeps_is_not_overwritten() {
    both(|| {
        let double = jit(|mut model: Model| {
            model.for_each_mut(|_, w| *w *= 2.0);
            model
        });
        let model = Model::of(2);
        for _ in 0..2 {
            let doubled = double.call(model.clone());
            holds(&doubled.layers[1].weight, &[4.0, 4.0]);
            holds(&model.layers[1].weight, &[2.0, 2.0]);
        }
    });
}

#[test]
fn values_are_part_of_the_signature() {
    let f = jit(|model: &Model| &model.layers[0].weight * model.scale);
    let (_, stats) = compiled(|| {
        let mut model = Model::of(1);
        for (scale, traces) in [(2.0, 1), (3.0, 2), (2.0, 2)] {
            model.scale = scale;
            holds(&f.call(&model), &[scale as f32, 2.0 * scale as f32]);
            let _ = traces;
        }
    });
    assert_eq!(stats.traces, 2);
    // Two numbers, one plan and one kernel.
    assert!(stats.kernels_compiled <= 1, "{stats:?}");
    let lengths = jit(|model: &Model| model.forward(&v(&[1.0, 1.0])));
    let (_, stats) = compiled(|| {
        holds(&lengths.call(&Model::of(1)), &[2.0, 4.0]);
        holds(&lengths.call(&Model::of(2)), &[5.0, 11.0]);
        holds(&lengths.call(&Model::of(1)), &[2.0, 4.0]);
    });
    assert_eq!(stats.traces, 2);
}

#[derive(Clone, Hash)]
enum Activation {
    Relu,
    Power(u32),
}

#[derive(TensorStruct)]
struct Settings {
    weight: Tensor,
    #[tensor_struct(value)]
    activation: Activation,
    name: String,
    #[tensor_struct(skip)]
    calls: u64,
}

#[test]
fn texts_and_hashed_values_are_part_of_the_signature() {
    let f = jit(|settings: &Settings| {
        let y = match settings.activation {
            Activation::Relu => settings.weight.relu(),
            Activation::Power(n) => settings.weight.pow(n),
        };
        if settings.name == "negated" { -y } else { y }
    });
    let of = |activation: &Activation, name: &str, calls| Settings {
        weight: v(&[-2.0, 3.0]),
        activation: activation.clone(),
        name: name.to_owned(),
        calls,
    };
    let (_, stats) = compiled(|| {
        for calls in 0..3 {
            holds(&f.call(&of(&Activation::Relu, "plain", calls)), &[0.0, 3.0]);
            holds(
                &f.call(&of(&Activation::Power(2), "plain", calls)),
                &[4.0, 9.0],
            );
            holds(
                &f.call(&of(&Activation::Power(3), "plain", calls)),
                &[-8.0, 27.0],
            );
            holds(
                &f.call(&of(&Activation::Power(3), "negated", calls)),
                &[8.0, -27.0],
            );
        }
    });
    assert_eq!(stats.traces, 4);
    let kept = jit(|mut settings: Settings| {
        settings.weight += 1.0;
        settings
    });
    both(|| {
        for _ in 0..2 {
            let settings = kept.call(of(&Activation::Power(5), "kept", 7));
            assert!(matches!(settings.activation, Activation::Power(5)));
            assert_eq!((&*settings.name, settings.calls), ("kept", 7));
            holds(&settings.weight, &[-1.0, 4.0]);
        }
    });
}

/// What a step is given, without owning it.
#[derive(TensorStruct, Clone)]
struct Batch<'a, 'm, T: 'm>
where
    T: Clone + 'a,
{
    x: &'a Tensor,
    target: Option<&'a Tensor>,
    model: &'m Model,
    more: Vec<(&'a Tensor, f64)>,
    owned: T,
    name: &'a str,
    #[tensor_struct(skip)]
    note: &'m [u8],
}

#[test]
fn structs_of_references() {
    let f = jit(|batch: Batch<'_, '_, Tensor>| {
        let y = batch.model.forward(batch.x) + &batch.owned;
        let y = batch.target.iter().fold(y, |y, target| y - *target);
        let y = batch.more.iter().fold(y, |y, (x, scale)| y + *x * *scale);
        if batch.name == "negated" { -y } else { y }
    });
    let (model, x, ones) = (Model::of(2), v(&[1.0, 2.0]), v(&[1.0, 1.0]));
    let name = String::from("negated");
    both(|| {
        let batch = Batch {
            x: &x,
            target: Some(&ones),
            model: &model,
            more: vec![(&ones, 10.0), (&x, 100.0)],
            owned: ones.clone(),
            name: "plain",
            note: &[1, 2],
        };
        for _ in 0..2 {
            holds(&f.call(batch.clone()), &[115.0, 229.0]);
            let negated = Batch {
                name: &name,
                ..batch.clone()
            };
            holds(&f.call(negated), &[-115.0, -229.0]);
            let without = Batch {
                target: None,
                ..batch.clone()
            };
            holds(&f.call(without), &[116.0, 230.0]);
        }
    });
}

#[test]
fn tied_tensors_are_one_argument_and_one_buffer() {
    let step = |(mut model, x): (Model, &Tensor)| {
        let y = model.forward(x);
        let steps = model.map(|_, w| w * 0.5);
        let stepped = model.zip_mut(&steps, |_, w, step| *w -= step);
        stepped.map(|()| (model, y))
    };
    let tied = || {
        let mut model = Model::of(3).map(|_, w| w * 1.0);
        model.layers[2].weight = model.layers[0].weight.clone();
        model
    };
    both(|| {
        let step = jit(step);
        let (mut model, x) = (tied(), v(&[1.0, 1.0]));
        let (mut model, stats) = stats_scope(|| {
            for _ in 0..4 {
                (model, _) = step.call((model, &x)).unwrap();
                assert_eq!(model.leaves().len(), 4);
            }
            model
        });
        holds(&model.layers[0].weight, &[0.0625, 0.125]);
        holds(&model.layers[2].weight, &[0.0625, 0.125]);
        if stats.traces > 0 {
            assert_eq!(stats.traces, 1);
            // Four leaves of eight bytes: nothing more is held at any time.
            assert!(
                stats.in_place_writes + stats.buffers_reused >= 4 * 4,
                "{stats:?}"
            );
            assert!(stats.peak_bytes <= 4 * 8 + 8, "{stats:?}");
        }
        // Untied, it is another signature.
        model.layers[2].weight = v(&[1.0, 1.0]);
        let (model, _) = step.call((model, &x)).unwrap();
        assert_eq!(model.leaves().len(), 5);
        holds(&model.layers[2].weight, &[0.5, 0.5]);
    });
}

#[test]
fn containers_of_structs() {
    type Maps = (BTreeMap<String, Tensor>, HashMap<String, Linear>);
    let f = jit(
        |(layers, (sorted, hashed), last): (Vec<&Linear>, Maps, Option<&Linear>)| {
            let all = layers.iter().copied().chain(hashed.values()).chain(last);
            let y = all.fold(sorted["x"].clone(), |x, layer| layer.forward(&x));
            let sorted =
                BTreeMap::from([("y".to_owned(), y), ("z".to_owned(), &sorted["x"] - 1.0)]);
            (sorted, hashed, last.map(|last| last.weight.clone()))
        },
    );
    both(|| {
        let (a, b) = (Linear::of(&[2.0], None), Linear::of(&[3.0], Some(&[1.0])));
        for _ in 0..2 {
            let maps = || -> Maps {
                let sorted = [("x".to_owned(), v(&[1.0]))].into();
                (sorted, [("k".to_owned(), Linear::of(&[5.0], None))].into())
            };
            let (sorted, hashed, last) = f.call((vec![&a, &b], maps(), None));
            holds(&sorted["y"], &[35.0]);
            holds(&sorted["z"], &[0.0]);
            holds(&hashed["k"].weight, &[5.0]);
            assert!(last.is_none());
            let (sorted, _, last) = f.call((vec![&a], maps(), Some(&b)));
            holds(&sorted["y"], &[31.0]);
            holds(&last.unwrap(), &[3.0]);
        }
    });
}

#[test]
fn a_boxed_array_of_numbers_and_a_result_of_values() {
    both(|| {
        let f = jit(|(x, [a, b], label): (&Tensor, [f64; 2], String)| {
            (x * a + b, label.len(), a, label)
        });
        let (y, len, a, label) = f.call((&v(&[1.0]), [2.0, 3.0], "four".to_owned()));
        holds(&y, &[5.0]);
        assert_eq!((len, a, &*label), (4, 2.0, "four"));
    });
}

#[test]
fn an_error_within_a_struct_is_carried_on() {
    both(|| {
        let f = jit(|mut model: Model| {
            model.for_each_mut(|_, w| *w *= 2.0);
            model
        });
        let mut model = Model::of(2);
        model.layers[0].weight = v(&[1.0, 2.0]).reshape(7);
        for _ in 0..2 {
            let doubled = f.call(model.clone());
            assert!(doubled.layers[0].weight.eval().is_err());
            holds(&doubled.layers[1].weight, &[4.0, 4.0]);
            assert!(doubled.eval().is_err());
        }
    });
}

#[test]
fn generic_functions_take_structs_by_reference() {
    fn total<M: TensorStruct>(model: &M) -> f32 {
        let f = jit(|model: &M| {
            let tensors = model.tensors();
            tensors.iter().map(|x| x.sum(..)).reduce(|a, b| a + b)
        });
        f.call(model).map_or(0.0, |x| x.to_scalar().unwrap())
    }
    both(|| {
        assert_eq!(total(&Model::of(2)), 9.0);
        assert_eq!(total(&vec![v(&[1.0]), v(&[2.0])]), 3.0);
    });
}
