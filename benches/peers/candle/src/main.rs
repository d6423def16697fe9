//! candle's side of the comparison: the same workloads and single operations, by the same names and inputs.

#[path = "../../../measure/input.rs"]
mod input;
mod operators;
#[path = "../../../measure/serve.rs"]
mod serve;
mod workloads;

use candle_core::{DType, Device, Result, Tensor};
use gemm as _;
use serve::Run;

/// A workload: each call computes it once and gives its first output.
pub(crate) type Workload = Box<dyn FnMut() -> Result<Tensor>>;

pub(crate) fn randn(shape: &[usize], seed: u64, scale: f32) -> Result<Tensor> {
    let data = input::normal(shape.iter().product(), seed, scale);
    Tensor::from_vec(data, shape, &Device::Cpu)
}

pub(crate) fn randint(shape: &[usize], seed: u64, bound: u64) -> Result<Tensor> {
    let data = input::below(shape.iter().product(), seed, bound);
    let data: Vec<u32> = data.into_iter().map(|i| i as u32).collect();
    Tensor::from_vec(data, shape, &Device::Cpu)
}

fn open(name: &str) -> std::result::Result<(f64, Run), String> {
    let opened = if name.starts_with("op_") {
        operators::open(name)
    } else {
        workloads::open(name)
    };
    let mut workload = opened.map_err(|e| e.to_string())?.ok_or("not offered")?;
    let value = workload()
        .and_then(|out| magnitude(&out))
        .map_err(|e| e.to_string())?;
    let run = move || workload().map(drop).map_err(|e| e.to_string());
    Ok((value, Box::new(run)))
}

fn magnitude(out: &Tensor) -> Result<f64> {
    out.to_dtype(DType::F64)?.abs()?.mean_all()?.to_scalar()
}

fn main() -> std::io::Result<()> {
    serve::serve(open)
}
