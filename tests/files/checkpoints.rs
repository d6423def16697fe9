//! Checkpoints: a run that was stopped goes on to the same bits.

use crate::common::*;
use ferrotrace::io::{Checkpoint, Value, save_safetensors};
use ferrotrace::prelude::*;
use ferrotrace::{Generator, GeneratorState};

#[test]
fn values_come_back_to_the_bit() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let nan = f64::from_bits(0x7ff8_0000_dead_beef);
    let mut checkpoint = Checkpoint::new();
    for (name, value) in [
        ("least", Value::from(i64::MIN)),
        ("tenth", Value::from(0.1)),
        ("zero", Value::from(-0.0)),
        ("infinite", Value::from(f64::NEG_INFINITY)),
        ("text", Value::from("two words\nand \"more\" \u{1f980}")),
        ("", Value::from(String::new())),
        (
            "generator",
            Value::from(GeneratorState {
                key: u64::MAX,
                offset: 1 << 63,
            }),
        ),
    ] {
        checkpoint.set(name, value);
    }
    checkpoint.set("nan", nan);
    checkpoint.set_tensor("x", &sample(DType::BF16));
    checkpoint.save(&path).unwrap();
    let loaded = Checkpoint::load(&path, &cpu()).unwrap();
    assert_eq!(loaded.float("nan").unwrap().to_bits(), nan.to_bits());
    assert_eq!(loaded.float("zero").unwrap().to_bits(), (-0.0f64).to_bits());
    let values = |checkpoint: &Checkpoint| {
        let all = checkpoint.values().filter(|(name, _)| *name != "nan");
        all.map(|(name, value)| (name.to_owned(), value.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(values(&loaded), values(&checkpoint));
    same(loaded.tensor("x").unwrap(), &sample(DType::BF16));
    refused(loaded.integer("step"), "no value \"step\"");
    refused(loaded.integer("text"), "is a text, not an integer");
    refused(loaded.tensor("y"), "no tensor \"y\"");
}

#[test]
fn files_that_are_no_checkpoint() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    save_safetensors(&path, &[("x", &sample(DType::F32))]).unwrap();
    refused(Checkpoint::load(&path, &cpu()), "no checkpoint");
    refused(
        Checkpoint::load(folder.path().join("absent"), &cpu()),
        "absent",
    );
    let texts = [("ferrotrace.checkpoint", "1"), ("value.step", "integer 1x")];
    ferrotrace::io::save_safetensors_with(&path, &[], &texts).unwrap();
    refused(Checkpoint::load(&path, &cpu()), "integer 1x");
}

/// A run that draws, in a compiled function and outside of one, and keeps a state beside its weights.
struct Run {
    w: Tensor,
    velocity: Tensor,
    generator: Generator,
    step: i64,
}

impl Run {
    fn new() -> Run {
        let generator = Generator::new(3);
        Run {
            w: generator.randn([8, 4], DType::F32, &cpu()),
            velocity: Tensor::zeros([8, 4], DType::F32, &cpu()),
            generator,
            step: 0,
        }
    }

    fn advance(&mut self, steps: usize) {
        let generator = self.generator.clone();
        let update = jit(move |(w, velocity): (Tensor, Tensor)| {
            let noise = generator.randn([8, 4], DType::F32, &cpu());
            let velocity = velocity * 0.9 + (&w * 0.1 + noise);
            (w - &velocity * 0.01, velocity)
        });
        for _ in 0..steps {
            let x = self.generator.rand([8, 4], DType::F32, &cpu());
            let w = &self.w + x * 0.001;
            (self.w, self.velocity) = update.call((w, self.velocity.clone()));
            self.step += 1;
        }
    }

    fn save(&self, path: &std::path::Path) {
        let mut checkpoint = Checkpoint::new();
        checkpoint.set_tensor("model.w", &self.w);
        checkpoint.set_tensor("optimiser.velocity", &self.velocity);
        checkpoint.set("generator", &self.generator);
        checkpoint.set("step", self.step);
        checkpoint.save(path).unwrap();
    }

    fn resume(path: &std::path::Path) -> Run {
        let loaded = Checkpoint::load(path, &cpu()).unwrap();
        let generator = Generator::new(0);
        generator.set_state(loaded.generator("generator").unwrap());
        Run {
            w: loaded.tensors_under("model")["w"].clone(),
            velocity: loaded.tensor("optimiser.velocity").unwrap().clone(),
            generator,
            step: loaded.integer("step").unwrap(),
        }
    }
}

#[test]
fn a_run_goes_on_to_the_same_bits() {
    both(|| {
        let folder = folder();
        let path = folder.path().join("run.safetensors");
        let mut whole = Run::new();
        whole.advance(20);
        let mut first = Run::new();
        first.advance(7);
        first.save(&path);
        let mut second = Run::resume(&path);
        second.advance(5);
        second.save(&path);
        let mut third = Run::resume(&path);
        third.advance(8);
        assert_eq!(
            (third.step, third.generator.state()),
            (20, whole.generator.state())
        );
        same(&third.w, &whole.w);
        same(&third.velocity, &whole.velocity);
    });
}
