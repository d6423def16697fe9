//! What PyTorch computes, from `torch.json`, which `reference.py` writes.

use ferrotrace::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Tensors of a layer's state, what it is given, and what it gives.
pub struct Case {
    pub name: String,
    state: BTreeMap<String, Tensor>,
    inputs: BTreeMap<String, Tensor>,
    outputs: BTreeMap<String, Tensor>,
}

fn numbers<T>(value: &Value, number: impl Fn(&Value) -> Option<T>) -> Vec<T> {
    let list = value.as_array().expect("a list");
    list.iter().map(|v| number(v).expect("a number")).collect()
}

/// JSON has no NaN, and Python writes none here.
fn tensor(value: &Value) -> Tensor {
    let shape = numbers(&value["shape"], |v| v.as_u64().map(|n| n as usize));
    let (data, cpu) = (&value["data"], Device::cpu());
    match value["integer"].as_bool() {
        Some(true) => Tensor::from_vec(numbers(data, Value::as_i64), shape, &cpu),
        _ => Tensor::from_vec(numbers(data, Value::as_f64), shape, &cpu),
    }
}

pub fn case(name: &str) -> Case {
    static ALL: OnceLock<Value> = OnceLock::new();
    let all = ALL.get_or_init(|| serde_json::from_str(include_str!("torch.json")).expect("JSON"));
    let part = |part: &str| {
        let tensors = all[name][part].as_object();
        let tensors = tensors.unwrap_or_else(|| panic!("no {part} of {name}"));
        let named = |(name, value): (&String, &Value)| (name.clone(), tensor(value));
        tensors.iter().map(named).collect()
    };
    Case {
        name: name.to_owned(),
        state: part("state"),
        inputs: part("inputs"),
        outputs: part("outputs"),
    }
}

fn of_dtype(tensor: &Tensor, dtype: DType) -> Tensor {
    match tensor.dtype().is_float() {
        true => tensor.to_dtype(dtype),
        false => tensor.clone(),
    }
}

impl Case {
    /// A model with PyTorch's state: both have the same names and shapes.
    pub fn load<M: TensorStruct>(&self, mut model: M, dtype: DType) -> M {
        let mut left = self.state.clone();
        model.for_each_mut(|name, tensor| {
            let found = left.remove(name);
            let found = found.unwrap_or_else(|| panic!("{}: no {name}", self.name));
            assert_eq!(found.dims(), tensor.dims(), "{}: {name}", self.name);
            *tensor = of_dtype(&found, dtype);
        });
        let left: Vec<String> = left.into_keys().collect();
        assert_eq!(left, Vec::<String>::new(), "{}", self.name);
        model
    }

    pub fn input(&self, name: &str, dtype: DType) -> Tensor {
        of_dtype(&self.inputs[name], dtype)
    }

    /// The names of what is given.
    pub fn outputs(&self) -> impl Iterator<Item = &String> {
        self.outputs.keys()
    }

    pub fn output(&self, name: &str) -> &Tensor {
        &self.outputs[name]
    }

    /// Compares with an output, errors relative to 1 or the greatest expected number.
    #[track_caller]
    pub fn near(&self, name: &str, got: &Tensor, tolerance: f64) {
        let want = self.outputs.get(name);
        let want = want.unwrap_or_else(|| panic!("{}: no {name}", self.name));
        let got_values = got.to_dtype(DType::F64).to_vec::<f64>();
        let got_values = got_values.unwrap_or_else(|e| panic!("{} {name}: {e}", self.name));
        assert_eq!(got.dims(), want.dims(), "{} {name}", self.name);
        let want = want.to_vec::<f64>().expect("data");
        let size = want.iter().fold(1.0f64, |m, x| m.max(x.abs()));
        for (i, (a, b)) in got_values.iter().zip(&want).enumerate() {
            let close = (a - b).abs() <= tolerance * size;
            assert!(close, "{} {name} {i}: {a} for {b} ({tolerance})", self.name);
        }
    }
}

/// Each mode with each of three dtypes and its tolerance.
pub fn each(body: impl Fn(DType, f64)) {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            body(DType::F64, 1e-8);
            body(DType::F32, 1e-5);
            body(DType::BF16, 4e-2);
        });
    }
}
