//! Runs calls that `tests/peers/cases.py` wrote, in eager mode, compiled, and compiled with eager mode's bits, and tells
//! where a result is another than PyTorch's. Reads lines of JSON from standard input.

use ferrotrace::prelude::*;
use ferrotrace::{ReduceOp, with_precision};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::BufRead;

fn dtype(name: &str) -> Option<DType> {
    DType::ALL
        .into_iter()
        .find(|dtype| dtype.to_string() == name)
}

/// A number as the script spells it: what is not finite is text.
fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::String(text) => text.parse().ok(),
        number => number.as_f64(),
    }
}

fn number(value: &Value) -> Option<Scalar> {
    match value {
        Value::Bool(truth) => Some(Scalar::from(*truth)),
        number if number.is_i64() => number.as_i64().map(Scalar::from),
        other => float(other).map(Scalar::from),
    }
}

fn sizes(value: &Value) -> Option<Vec<usize>> {
    let sizes = value.as_array()?.iter();
    sizes
        .map(|size| size.as_u64().map(|size| size as usize))
        .collect()
}

/// The tensor that a case gives, and its elements.
fn tensor(value: &Value) -> Option<Tensor> {
    let dtype = dtype(value["dtype"].as_str()?)?;
    let shape = sizes(&value["shape"])?;
    let data = value["data"].as_array()?.iter();
    let cpu = Device::cpu();
    with_mode(Mode::Eager, || {
        let dense = if dtype.is_int() {
            Tensor::from_vec(
                data.map(Value::as_i64).collect::<Option<Vec<i64>>>()?,
                shape,
                &cpu,
            )
        } else {
            Tensor::from_vec(data.map(float).collect::<Option<Vec<f64>>>()?, shape, &cpu)
        };
        Some(dense.to_dtype(dtype))
    })
}

/// The call of a case; none if this program does not know it.
fn call(op: &str, t: &[Tensor], a: &[Value]) -> Option<Tensor> {
    let cpu = Device::cpu();
    let int = |i: usize| a.get(i).and_then(Value::as_i64);
    let dim = |i: usize| int(i).map(|dim| dim as isize);
    let num = |i: usize| a.get(i).and_then(number);
    let of = |i: usize| a.get(i).and_then(Value::as_str).and_then(dtype);
    let x = t.first();
    macro_rules! unary {
        ($($name:ident)*) => {
            match op { $(stringify!($name) => return Some(x?.$name()),)* _ => {} }
        };
    }
    macro_rules! binary {
        ($($name:ident)*) => {
            match op { $(stringify!($name) => return Some(x?.$name(t.get(1)?)),)* _ => {} }
        };
    }
    macro_rules! along {
        ($($name:ident)*) => {
            match op { $(stringify!($name) => return Some(x?.$name(dim(0)?)),)* _ => {} }
        };
    }
    unary! { abs neg sign sqrt exp log floor ceil round trunc square logical_not bitwise_not isnan isinf isfinite relu
    sigmoid tanh recip frac }
    binary! { maximum minimum eq ne lt le gt ge logical_and logical_or bitwise_and bitwise_xor floor_divide remainder fmod
    pow nll_loss cross_entropy }
    along! { sum prod max min any all argmax argmin mean logsumexp count_nonzero cumsum cumprod softmax log_softmax flip
    squeeze unsqueeze }
    let y = t.get(1);
    Some(match op {
        "add" => x? + y?,
        "sub" => x? - y?,
        "mul" => x? * y?,
        "add_number" => x? + num(0)?,
        "sub_number" => x? - num(0)?,
        "mul_number" => x? * num(0)?,
        "eq_number" => x?.eq(num(0)?),
        "lt_number" => x?.lt(num(0)?),
        "floor_divide_number" => x?.floor_divide(num(0)?),
        "remainder_number" => x?.remainder(num(0)?),
        "fmod_number" => x?.fmod(num(0)?),
        "pow_number" => x?.pow(num(0)?),
        "sort" => x?.sort(dim(0)?, false).0,
        "cummax" => x?.cummax(dim(0)?).0,
        "topk" => x?.topk(int(0)? as usize, dim(1)?, true).0,
        "roll" => x?.roll(dim(0)?, dim(1)?),
        "full" => Tensor::full(sizes(a.first()?)?, num(1)?, of(2)?, &cpu),
        "masked_fill" => x?.masked_fill(y?, num(0)?),
        "where_cond" => y?.where_cond(x?, num(0)?),
        "clamp_min" => x?.clamp_min(num(0)?),
        "clamp_max" => x?.clamp_max(num(0)?),
        "clamp" => x?.clamp(num(0)?, num(1)?),
        "pad" => {
            let pair =
                |pair: &Value| Some((pair[0].as_i64()? as isize, pair[1].as_i64()? as isize));
            let pads: Option<Vec<_>> = a.first()?.as_array()?.iter().map(pair).collect();
            x?.pad(&pads?, num(1)?)
        }
        "arange" => Tensor::arange(num(0)?, num(1)?, num(2)?, of(3)?, &cpu),
        "linspace" => Tensor::linspace(num(0)?, num(1)?, int(2)? as usize, of(3)?, &cpu),
        "index_select" => x?.index_select(dim(0)?, y?),
        "gather" => x?.gather(dim(0)?, y?),
        "scatter_add" => x?.scatter_add(dim(0)?, y?, t.get(2)?),
        "scatter_amax" => x?.scatter_reduce(dim(0)?, y?, t.get(2)?, ReduceOp::Amax, true),
        "scatter_amin" => x?.scatter_reduce(dim(0)?, y?, t.get(2)?, ReduceOp::Amin, true),
        "one_hot" => x?.one_hot(int(0)? as usize),
        "einsum" => Tensor::einsum(a.first()?.as_str()?, &t.iter().collect::<Vec<_>>()),
        "unfold" => x?.unfold(dim(0)?, int(1)? as usize, int(2)? as usize),
        "narrow" => x?.narrow(dim(0)?, dim(1)?, int(2)? as usize),
        "cat" => Tensor::cat(&[x?, y?], dim(0)?),
        "stack" => Tensor::stack(&[x?, y?], dim(0)?),
        _ => return None,
    })
}

/// How far apart results may be: some units of the last place, relative to the greater.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 | DType::F32 => 2e-5,
        DType::F16 => 4e-3,
        DType::BF16 => 3e-2,
        _ => 0.0,
    }
}

/// In which way a result is another than what is wanted; nothing if in none.
fn difference(result: &Tensor, case: &Value) -> Option<String> {
    let got = result.eval();
    if let Some(why) = case["refused"].as_str() {
        return got
            .is_ok()
            .then(|| format!("PyTorch refuses: {why}; here {result:?}"));
    }
    if let Err(error) = got {
        return Some(format!("PyTorch gives {}; here {error}", case["want"]));
    }
    let want = &case["want"];
    let (shape, of) = (sizes(&want["shape"])?, dtype(want["dtype"].as_str()?)?);
    if result.dims() != shape || result.dtype() != of {
        return Some(format!(
            "PyTorch gives {of}{shape:?}; here {}{:?}",
            result.dtype(),
            result.dims()
        ));
    }
    let values: Option<Vec<f64>> = want["data"].as_array()?.iter().map(float).collect();
    let values = values?;
    let got = with_mode(Mode::Eager, || result.to_dtype(DType::F64).to_vec::<f64>()).ok()?;
    let close = |(a, b): (&f64, &f64)| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance(of) * b.abs().max(1e-3)
    };
    let same = got.iter().zip(&values).all(close);
    (!same).then(|| format!("PyTorch gives {values:?}; here {got:?}"))
}

fn main() {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let (mut cases, mut different) = (0, 0);
    for line in std::io::stdin()
        .lock()
        .lines()
        .map_while(std::io::Result::ok)
    {
        let Ok(case) = serde_json::from_str::<Value>(&line) else {
            eprintln!("no case: {line}");
            continue;
        };
        let tensors: Option<Vec<Tensor>> = case["tensors"]
            .as_array()
            .and_then(|all| all.iter().map(tensor).collect());
        let (Some(tensors), Some(op), Some(arguments)) =
            (tensors, case["op"].as_str(), case["arguments"].as_array())
        else {
            eprintln!("no case: {line}");
            continue;
        };
        cases += 1;
        let run = || {
            call(op, &tensors, arguments).map_or(Some("unknown".into()), |y| difference(&y, &case))
        };
        let modes = [
            ("eager", with_mode(Mode::Eager, run)),
            ("compiled", with_mode(Mode::Compiled, run)),
            (
                "exact",
                with_mode(Mode::Compiled, || {
                    with_precision(Precision::EagerExact, run)
                }),
            ),
        ];
        for (mode, what) in modes {
            if let Some(what) = what {
                different += 1;
                let inputs: Vec<String> = tensors
                    .iter()
                    .map(|t| format!("{}{:?}", t.dtype(), t.dims()))
                    .collect();
                let text = format!(
                    "case {} {mode} of {inputs:?} {arguments:?}: {what}",
                    case["case"]
                );
                found.entry(op.to_owned()).or_default().push(text);
            }
        }
    }
    for (op, texts) in &found {
        println!("{op}: {} differences", texts.len());
        for text in texts.iter().take(6) {
            println!("    {text}");
        }
    }
    println!("{cases} cases in 3 modes, {different} differences");
}
