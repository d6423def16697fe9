//! Single operations.

use crate::input::operation;
use crate::{Workload, randint, randn};
use candle_core::{D, DType, Device, Result, Tensor};
use candle_nn::ops;

pub(crate) fn open(name: &str) -> Result<Option<Workload>> {
    let Some((name, n)) = operation(name) else {
        return Ok(None);
    };
    if let Some(unary) = unary(name, n)? {
        return Ok(Some(unary));
    }
    let square = [n, n];
    let x = || randn(&square, 0, 1.0);
    let y = || randn(&square, 1, 1.0);
    let two = |f: fn(&Tensor, &Tensor) -> Result<Tensor>| -> Result<Option<Workload>> {
        let (x, y) = (x()?, y()?);
        Ok(Some(Box::new(move || f(&x, &y))))
    };
    let with =
        |other: Tensor, f: fn(&Tensor, &Tensor) -> Result<Tensor>| -> Result<Option<Workload>> {
            let x = x()?;
            Ok(Some(Box::new(move || f(&x, &other))))
        };
    let of = |a: &[usize],
              b: Tensor,
              f: fn(&Tensor, &Tensor) -> Result<Tensor>|
     -> Result<Option<Workload>> {
        let a = randn(a, 0, 1.0)?;
        Ok(Some(Box::new(move || f(&a, &b))))
    };
    let product = |a: &[usize], b: &[usize]| of(a, randn(b, 1, 1.0)?, |a, b| a.matmul(b));
    match name {
        "add_16" => of(&[16], randn(&[16], 1, 1.0)?, |x, y| x + y),
        "exp_16" => of(&[16], randn(&[1], 1, 1.0)?, |x, _| x.exp()),
        "sum_16" => of(&[16], randn(&[1], 1, 1.0)?, |x, _| x.sum_all()),
        "matmul_16" => product(&[16, 16], &[16, 16]),
        "add" => two(|x, y| x + y),
        "sub" => two(|x, y| x - y),
        "mul" => two(|x, y| x * y),
        "div" => two(|x, y| x / y),
        "add_transposed" => two(|x, y| x + y.t()?),
        "maximum" => two(|x, y| x.maximum(y)),
        "gt" => two(|x, y| x.gt(y)),
        "where" => {
            let (x, y) = (x()?, y()?);
            let mask = x.gt(0.0)?;
            Ok(Some(Box::new(move || mask.where_cond(&x, &y))))
        }
        "add_row" => with(randn(&[n], 1, 1.0)?, Tensor::broadcast_add),
        "add_column" => with(randn(&[n, 1], 1, 1.0)?, Tensor::broadcast_add),
        "layer_norm" => {
            let (x, w, b) = (x()?, randn(&[n], 1, 1.0)?, randn(&[n], 2, 1.0)?);
            Ok(Some(Box::new(move || ops::layer_norm(&x, &w, &b, 1e-5))))
        }
        "rms_norm" => with(randn(&[n], 1, 1.0)?, |x, w| ops::rms_norm(x, w, 1e-5)),
        "cat_ax0" => two(|x, y| Tensor::cat(&[x, y], 0)),
        "cat_ax1" => two(|x, y| Tensor::cat(&[x, y], 1)),
        "index_select_ax0" => with(randint(&[n], 2, n as u64)?, |x, i| x.index_select(i, 0)),
        "index_select_ax1" => with(randint(&[n], 2, n as u64)?, |x, i| x.index_select(i, 1)),
        "gather" => with(randint(&square, 2, n as u64)?, |x, i| x.gather(i, 1)),
        "scatter_add" => {
            let (x, i, y) = (x()?, randint(&square, 2, n as u64)?, y()?);
            Ok(Some(Box::new(move || x.scatter_add(&i, &y, 1))))
        }
        "embedding" => of(
            &[10_000, 256],
            randint(&[4096], 2, 10_000)?,
            Tensor::embedding,
        ),
        "matmul_64" => product(&[64, 64], &[64, 64]),
        "matmul_256" => product(&[256, 256], &[256, 256]),
        "matmul_1024" => product(&[1024, 1024], &[1024, 1024]),
        "matmul_batched" => product(&[64, 128, 64], &[64, 64, 128]),
        "matvec_1024" => product(&[1024, 1024], &[1024, 1]),
        "matmul_transposed_512" => of(&[512, 512], randn(&[512, 512], 1, 1.0)?, |a, b| {
            a.matmul(&b.t()?)
        }),
        "conv1d" => of(&[8, 64, 512], randn(&[64, 64, 3], 1, 0.05)?, |x, w| {
            x.conv1d(w, 1, 1, 1, 1)
        }),
        "conv2d" => of(
            &[4, 32, 32, 32],
            randn(&[32, 32, 3, 3], 1, 0.05)?,
            |x, w| x.conv2d(w, 1, 1, 1, 1),
        ),
        "conv2d_1x1" => of(
            &[4, 64, 32, 32],
            randn(&[64, 64, 1, 1], 1, 0.05)?,
            |x, w| x.conv2d(w, 0, 1, 1, 1),
        ),
        "max_pool2d" => images(|x| x.max_pool2d(2)),
        "avg_pool2d" => images(|x| x.avg_pool2d(2)),
        "upsample" => images(|x| x.upsample_nearest2d(128, 128)),
        "zeros" => Ok(Some(Box::new(|| {
            Tensor::zeros(&[1024, 1024], DType::F32, &Device::Cpu)
        }))),
        "arange" => Ok(Some(Box::new(|| {
            Tensor::arange(0f32, 1048576f32, &Device::Cpu)
        }))),
        _ => Ok(None),
    }
}

fn images(f: fn(&Tensor) -> Result<Tensor>) -> Result<Option<Workload>> {
    let x = randn(&[8, 32, 64, 64], 0, 1.0)?;
    Ok(Some(Box::new(move || f(&x))))
}

fn unary(name: &str, n: usize) -> Result<Option<Workload>> {
    let f: fn(&Tensor) -> Result<Tensor> = match name {
        "add_number" => |x| x + 1.5,
        "neg" => Tensor::neg,
        "abs" => Tensor::abs,
        "square" => Tensor::sqr,
        "sqrt" => Tensor::sqrt,
        "recip" => Tensor::recip,
        "exp" => Tensor::exp,
        "log" => Tensor::log,
        "sin" => Tensor::sin,
        "cos" => Tensor::cos,
        "tanh" => Tensor::tanh,
        "erf" => Tensor::erf,
        "relu" => Tensor::relu,
        "sigmoid" => ops::sigmoid,
        "silu" => Tensor::silu,
        "gelu" => Tensor::gelu_erf,
        "gelu_tanh" => Tensor::gelu,
        "powf" => |x| x.powf(2.5),
        "floor" => Tensor::floor,
        "round" => Tensor::round,
        "clamp" => |x| x.clamp(-0.5f32, 0.5f32),
        "to_f64" => |x| x.to_dtype(DType::F64),
        "to_bf16" => |x| x.to_dtype(DType::BF16),
        "to_i64" => |x| x.to_dtype(DType::I64),
        "sum" => Tensor::sum_all,
        "sum_ax0" => |x| x.sum(0),
        "sum_ax1" => |x| x.sum(1),
        "mean_ax1" => |x| x.mean(1),
        "max_ax0" => |x| x.max(0),
        "max_ax1" => |x| x.max(1),
        "argmax_ax1" => |x| x.argmax(1),
        "var_ax1" => |x| x.var(1),
        "softmax" => ops::softmax_last_dim,
        "log_softmax" => |x| ops::log_softmax(x, D::Minus1),
        "cumsum" => |x| x.cumsum(1),
        "sort" => |x| Ok(x.sort_last_dim(true)?.0),
        "argsort" => |x| x.arg_sort_last_dim(true),
        "transpose_copy" => |x| x.t()?.contiguous(),
        "narrow_copy" => |x| {
            x.narrow(1, x.dims()[1] / 8, x.dims()[1] / 4 * 3)?
                .contiguous()
        },
        "pad" => |x| x.pad_with_zeros(0, 1, 1)?.pad_with_zeros(1, 1, 1),
        "repeat" => |x| x.repeat((2, 1)),
        "flip" => |x| x.flip(&[1]),
        _ => return Ok(None),
    };
    let positive = matches!(name, "sqrt" | "log" | "powf");
    let x = randn(&[n, n], 0, 1.0)?;
    let x = if positive { (x.abs()? + 0.5)? } else { x };
    Ok(Some(Box::new(move || f(&x))))
}
