//! Single operations, for the comparison of eager mode with candle and ndarray.

use super::{Workload, randint, randn};
use crate::measure::input::operation;
use ferrotrace::prelude::*;

/// An operation: each call records it, or in eager mode computes it, once.
pub type Operation = Box<dyn FnMut() -> Tensor>;

/// The operation of this name as a workload.
pub(super) fn workload(name: &str) -> Option<Workload> {
    let mut run = open(name)?;
    Some(Box::new(move || vec![run()]))
}

fn of_one(x: Tensor, f: impl Fn(&Tensor) -> Tensor + 'static) -> Operation {
    Box::new(move || f(&x))
}

fn of_many<const N: usize>(
    inputs: [Tensor; N],
    f: impl Fn([&Tensor; N]) -> Tensor + 'static,
) -> Operation {
    Box::new(move || f(inputs.each_ref()))
}

/// The operation of this name.
pub fn open(name: &str) -> Option<Operation> {
    let (name, n) = operation(name)?;
    if let Some(unary) = unary(name, n) {
        return Some(unary);
    }
    let x = || randn([n, n], 0, 1.0);
    let y = || randn([n, n], 1, 1.0);
    let two = |f: fn(&Tensor, &Tensor) -> Tensor| of_many([x(), y()], move |[x, y]| f(x, y));
    let vectors = || [randn(16, 0, 1.0), randn(16, 1, 1.0)];
    let product = |a: &[usize], b: &[usize]| {
        of_many([randn(a, 0, 1.0), randn(b, 1, 1.0)], |[a, b]| a.matmul(b))
    };
    Some(match name {
        "add_16" => of_many(vectors(), |[x, y]| x + y),
        "exp_16" => of_one(randn(16, 0, 1.0), Tensor::exp),
        "sum_16" => of_one(randn(16, 0, 1.0), |x| x.sum(..)),
        "matmul_16" => product(&[16, 16], &[16, 16]),
        "add" => two(|x, y| x + y),
        "sub" => two(|x, y| x - y),
        "mul" => two(|x, y| x * y),
        "div" => two(|x, y| x / y),
        "add_transposed" => two(|x, y| x + y.t()),
        "maximum" => two(|x, y| x.maximum(y)),
        "gt" => two(|x, y| x.gt(y)),
        "where" => {
            let mask = x().gt(0.0);
            of_many([mask, x(), y()], |[mask, x, y]| mask.where_cond(x, y))
        }
        "add_row" => of_many([x(), randn(n, 1, 1.0)], |[x, y]| x + y),
        "add_column" => of_many([x(), randn([n, 1], 1, 1.0)], |[x, y]| x + y),
        "layer_norm" => {
            let inputs = [x(), randn(n, 1, 1.0), randn(n, 2, 1.0)];
            of_many(inputs, |[x, w, b]| x.layer_norm(1, Some(w), Some(b), 1e-5))
        }
        "rms_norm" => of_many([x(), randn(n, 1, 1.0)], |[x, w]| {
            x.rms_norm(1, Some(w), 1e-5)
        }),
        "cat_ax0" => two(|x, y| Tensor::cat(&[x, y], 0)),
        "cat_ax1" => two(|x, y| Tensor::cat(&[x, y], 1)),
        "index_select_ax0" => of_many([x(), randint(n, 2, n as u64)], |[x, i]| {
            x.index_select(0, i)
        }),
        "index_select_ax1" => of_many([x(), randint(n, 2, n as u64)], |[x, i]| {
            x.index_select(1, i)
        }),
        "gather" => of_many([x(), randint([n, n], 2, n as u64)], |[x, i]| x.gather(1, i)),
        "scatter_add" => {
            let inputs = [x(), randint([n, n], 2, n as u64), y()];
            of_many(inputs, |[x, i, y]| x.scatter_add(1, i, y))
        }
        "embedding" => {
            let inputs = [randn([10_000, 256], 0, 1.0), randint(4096, 2, 10_000)];
            of_many(inputs, |[table, i]| table.embedding(i))
        }
        "matmul_64" => product(&[64, 64], &[64, 64]),
        "matmul_256" => product(&[256, 256], &[256, 256]),
        "matmul_1024" => product(&[1024, 1024], &[1024, 1024]),
        "matmul_batched" => product(&[64, 128, 64], &[64, 64, 128]),
        "matvec_1024" => product(&[1024, 1024], &[1024, 1]),
        "matmul_transposed_512" => {
            let factors = [randn([512, 512], 0, 1.0), randn([512, 512], 1, 1.0)];
            of_many(factors, |[a, b]| a.matmul(&b.t()))
        }
        "conv1d" => {
            let inputs = [randn([8, 64, 512], 0, 1.0), randn([64, 64, 3], 1, 0.05)];
            of_many(inputs, |[x, w]| x.conv1d(w, None, 1, 1, 1, 1))
        }
        "conv2d" => {
            let inputs = [
                randn([4, 32, 32, 32], 0, 1.0),
                randn([32, 32, 3, 3], 1, 0.05),
            ];
            of_many(inputs, |[x, w]| x.conv2d(w, None, 1, 1, 1, 1))
        }
        "conv2d_1x1" => {
            let inputs = [
                randn([4, 64, 32, 32], 0, 1.0),
                randn([64, 64, 1, 1], 1, 0.05),
            ];
            of_many(inputs, |[x, w]| x.conv2d(w, None, 1, 0, 1, 1))
        }
        "max_pool2d" => of_one(images(), |x| x.max_pool2d(2, 2, 0)),
        "avg_pool2d" => of_one(images(), |x| x.avg_pool2d(2, 2, 0)),
        "upsample" => of_one(images(), |x| {
            x.interpolate([128, 128], ferrotrace::Interpolation::Nearest, false)
        }),
        "zeros" => Box::new(|| Tensor::zeros([1024, 1024], DType::F32, &Device::cpu())),
        "arange" => Box::new(|| Tensor::arange(0, 1 << 20, 1, DType::F32, &Device::cpu())),
        _ => return None,
    })
}

fn images() -> Tensor {
    randn([8, 32, 64, 64], 0, 1.0)
}

/// Operations of one tensor of n by n numbers.
fn unary(name: &str, n: usize) -> Option<Operation> {
    let f: fn(&Tensor) -> Tensor = match name {
        "add_number" => |x| x + 1.5,
        "neg" => |x| -x,
        "abs" => Tensor::abs,
        "square" => Tensor::square,
        "sqrt" => Tensor::sqrt,
        "recip" => Tensor::recip,
        "exp" => Tensor::exp,
        "log" => Tensor::log,
        "sin" => Tensor::sin,
        "cos" => Tensor::cos,
        "tanh" => Tensor::tanh,
        "erf" => Tensor::erf,
        "relu" => Tensor::relu,
        "sigmoid" => Tensor::sigmoid,
        "silu" => Tensor::silu,
        "gelu" => Tensor::gelu,
        "gelu_tanh" => Tensor::gelu_tanh,
        "powf" => |x| x.pow(2.5),
        "floor" => Tensor::floor,
        "round" => Tensor::round,
        "clamp" => |x| x.clamp(-0.5, 0.5),
        "to_f64" => |x| x.to_dtype(DType::F64),
        "to_bf16" => |x| x.to_dtype(DType::BF16),
        "to_i64" => |x| x.to_dtype(DType::I64),
        "sum" => |x| x.sum(..),
        "sum_ax0" => |x| x.sum(0),
        "sum_ax1" => |x| x.sum(1),
        "mean_ax1" => |x| x.mean(1),
        "max_ax0" => |x| x.max(0),
        "max_ax1" => |x| x.max(1),
        "argmax_ax1" => |x| x.argmax(1),
        "var_ax1" => |x| x.var(1, 1),
        "softmax" => |x| x.softmax(-1),
        "log_softmax" => |x| x.log_softmax(-1),
        "cumsum" => |x| x.cumsum(-1),
        "sort" => |x| x.sort(-1, false).0,
        "argsort" => |x| x.argsort(-1, false),
        "transpose_copy" => |x| x.t().contiguous(),
        "narrow_copy" => |x| {
            x.narrow(1, x.dims()[1] as isize / 8, x.dims()[1] / 4 * 3)
                .contiguous()
        },
        "pad" => |x| x.pad(&[(1, 1), (1, 1)], 0.0),
        "repeat" => |x| x.repeat(&[2, 1]),
        "flip" => |x| x.flip(1),
        _ => return None,
    };
    // Of a positive number where the function wants one.
    let positive = matches!(name, "sqrt" | "log" | "powf");
    let x = randn([n, n], 0, 1.0);
    let x = if positive { x.abs() + 0.5 } else { x };
    Some(of_one(x, f))
}
