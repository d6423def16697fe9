//! The workloads, f32 throughout: what `peers/` computes with other libraries, by the same names and inputs.
#![allow(dead_code)] // Each benchmark uses a part.

mod dense;
mod learning;
mod models;
pub mod names;
pub mod operators;
mod pointwise;
mod rows;
mod training;

use crate::measure::Outcome;
use crate::measure::input::{below, normal};
use ferrotrace::prelude::*;
use ferrotrace::{Stats, stats_scope};

/// A workload: each call computes it once and gives its outputs.
pub type Workload = Box<dyn FnMut() -> Vec<Tensor>>;

/// The counts of one call in a mode, after two others.
pub fn counted(mode: Mode, name: &str) -> Outcome<Stats> {
    let mut workload = open(name).ok_or("a workload of the list")?;
    let mut call = || -> Result<()> { with_mode(mode, || eval(&workload())) };
    call()?;
    call()?;
    let (result, stats) = stats_scope(call);
    result?;
    Ok(stats)
}

/// What bounds a workload from below.
#[derive(Clone, Copy, Debug)]
pub enum Floor {
    /// Bytes read and written.
    Bytes(usize),
    /// Floating-point operations.
    Operations(usize),
    /// Neither bound applies: the workload is small or irregular.
    None,
}

/// Names, in the order of the table.
pub const NAMES: &[&str] = &[
    "pwarith12_4096",
    "pwarith12_256x1024",
    "pw12_4096",
    "pw12_256x1024",
    "gelu_4096",
    "gelu_256x1024",
    "softmax_4096",
    "softmax_256x1024",
    "layernorm_4096x1024",
    "layernorm_256x1024",
    "rmsnorm_res_4096x1024",
    "sum_all",
    "sum_all_256x1024",
    "sum_ax0",
    "sum_ax1",
    "meanvar_ax1",
    "meanvar_all",
    "xpyT_4096",
    "mm_512",
    "mm_1024",
    "mm_2048",
    "gemv_4096",
    "mm_bias_gelu",
    "mlp_step",
    "train_mlp",
    "train_digits",
    "train_cnn",
    "train_gpt_block",
    "train_lstm",
    "tblock",
    "minilm",
    "lstm_b1",
    "lstm_b8",
    "small_chain1000",
    "adamw100",
    "conv3x3",
    "cumsum_4096",
    "embsum",
    "sort_1024x4096",
    "attention_4x8x1024x64",
    "attention_causal_4x8x1024x64",
];

/// The workload of this name.
pub fn open(name: &str) -> Option<Workload> {
    pointwise::open(name)
        .or_else(|| rows::open(name))
        .or_else(|| dense::open(name))
        .or_else(|| training::open(name))
        .or_else(|| learning::open(name))
        .or_else(|| models::open(name))
        .or_else(|| operators::workload(name))
}

/// What bounds the workload of this name.
pub fn floor(name: &str) -> Floor {
    const BIG: usize = 4 * 4096 * 4096;
    const WIDE: usize = 4 * 4096 * 1024;
    const SMALL: usize = 4 * 256 * 1024;
    match name {
        "layernorm_4096x1024" => Floor::Bytes(2 * WIDE),
        "rmsnorm_res_4096x1024" => Floor::Bytes(4 * WIDE),
        "sum_all_256x1024" => Floor::Bytes(SMALL),
        "sum_all" | "sum_ax0" | "sum_ax1" | "meanvar_ax1" | "meanvar_all" | "gemv_4096" => {
            Floor::Bytes(BIG)
        }
        "xpyT_4096" => Floor::Bytes(3 * BIG),
        "mm_512" => Floor::Operations(2 * 512 * 512 * 512),
        "mm_1024" => Floor::Operations(2 * 1024 * 1024 * 1024),
        "mm_2048" => Floor::Operations(2 * 2048 * 2048 * 2048),
        "mm_bias_gelu" => Floor::Operations(2 * 1024 * 1024 * 4096),
        "conv3x3" => Floor::Operations(2 * 8 * 64 * 56 * 56 * 64 * 9),
        "attention_4x8x1024x64" => Floor::Operations(4 * 32 * 1024 * 1024 * 64),
        "attention_causal_4x8x1024x64" => Floor::Operations(2 * 32 * 1024 * 1025 * 64),
        "cumsum_4096" => Floor::Bytes(2 * BIG),
        "sort_1024x4096" | "mlp_step" | "tblock" | "small_chain1000" | "adamw100" | "embsum" => {
            Floor::None
        }
        name if name.ends_with("_256x1024") => Floor::Bytes(2 * SMALL),
        name if name.ends_with("_4096") => Floor::Bytes(2 * BIG),
        _ => Floor::None,
    }
}

/// The mean magnitude of a tensor, in f64: equal inputs give equal ones, up to rounding, in every library.
///
/// # Errors
/// What the tensor carries.
pub fn magnitude(tensor: &Tensor) -> Result<f64> {
    let values = tensor.to_dtype(DType::F64).to_vec::<f64>()?;
    Ok(values.iter().map(|x| x.abs()).sum::<f64>() / values.len().max(1) as f64)
}

/// An input: about normal, from a seed. It lies in memory of the library, at multiples of cache lines and in huge pages;
/// so do the peers' inputs, by their allocator and NumPy's advice. A vector's own memory would lie as malloc put it.
fn randn(shape: impl Into<Shape>, seed: u64, scale: f32) -> Tensor {
    let shape = shape.into();
    Tensor::from_slice(&normal(shape.numel(), seed, scale), shape, &Device::cpu())
}

/// An input of i64 below a bound.
fn randint(shape: impl Into<Shape>, seed: u64, bound: u64) -> Tensor {
    let shape = shape.into();
    Tensor::from_slice(&below(shape.numel(), seed, bound), shape, &Device::cpu())
}

/// A workload of one tensor and one output.
fn of_one<F>(x: Tensor, f: F) -> Workload
where
    F: Fn(&Tensor) -> Tensor + Send + Sync + 'static,
{
    let f = jit(move |x: &Tensor| f(x));
    Box::new(move || vec![f.call(&x)])
}

/// A workload of several tensors and several outputs.
fn of_many<F, const N: usize>(inputs: [Tensor; N], f: F) -> Workload
where
    F: Fn([&Tensor; N]) -> Vec<Tensor> + Send + Sync + 'static,
{
    let f = jit(move |inputs: [&Tensor; N]| f(inputs));
    Box::new(move || f.call(inputs.each_ref()))
}
