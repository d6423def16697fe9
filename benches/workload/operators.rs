//! Single operations, for the comparison of eager mode with candle and ndarray.

use super::{Workload, of_many, of_one, randint, randn};
use ferrotrace::prelude::*;

/// Names, in the order of the table. `1m` is `[1024, 1024]`, `16` is `[16]`.
pub const NAMES: &[&str] = &[
    "op_add_16",
    "op_exp_16",
    "op_sum_16",
    "op_matmul_16",
    "op_add_1m",
    "op_sub_1m",
    "op_mul_1m",
    "op_div_1m",
    "op_add_number_1m",
    "op_add_row_1m",
    "op_add_column_1m",
    "op_add_transposed_1m",
    "op_maximum_1m",
    "op_gt_1m",
    "op_where_1m",
    "op_neg_1m",
    "op_abs_1m",
    "op_square_1m",
    "op_sqrt_1m",
    "op_recip_1m",
    "op_exp_1m",
    "op_log_1m",
    "op_sin_1m",
    "op_cos_1m",
    "op_tanh_1m",
    "op_erf_1m",
    "op_relu_1m",
    "op_sigmoid_1m",
    "op_silu_1m",
    "op_gelu_1m",
    "op_gelu_tanh_1m",
    "op_powf_1m",
    "op_floor_1m",
    "op_round_1m",
    "op_clamp_1m",
    "op_to_f64_1m",
    "op_to_bf16_1m",
    "op_to_i64_1m",
    "op_sum_1m",
    "op_sum_ax0_1m",
    "op_sum_ax1_1m",
    "op_mean_ax1_1m",
    "op_max_ax0_1m",
    "op_max_ax1_1m",
    "op_argmax_ax1_1m",
    "op_var_ax1_1m",
    "op_softmax_1m",
    "op_log_softmax_1m",
    "op_layer_norm_1m",
    "op_rms_norm_1m",
    "op_cumsum_1m",
    "op_sort_1m",
    "op_argsort_1m",
    "op_transpose_copy_1m",
    "op_narrow_copy_1m",
    "op_cat_ax0_1m",
    "op_cat_ax1_1m",
    "op_pad_1m",
    "op_repeat_1m",
    "op_flip_1m",
    "op_index_select_ax0_1m",
    "op_index_select_ax1_1m",
    "op_gather_1m",
    "op_scatter_add_1m",
    "op_embedding",
    "op_matmul_64",
    "op_matmul_256",
    "op_matmul_1024",
    "op_matmul_transposed_512",
    "op_matmul_batched",
    "op_matvec_1024",
    "op_conv1d",
    "op_conv2d",
    "op_conv2d_1x1",
    "op_max_pool2d",
    "op_avg_pool2d",
    "op_upsample",
    "op_zeros_1m",
    "op_arange_1m",
];

/// The operation of this name.
pub(super) fn open(name: &str) -> Option<Workload> {
    if let Some(unary) = unary(name) {
        return Some(unary);
    }
    let x = || randn([1024, 1024], 0, 1.0);
    let y = || randn([1024, 1024], 1, 1.0);
    let two = |f: fn(&Tensor, &Tensor) -> Tensor| of_many([x(), y()], move |[x, y]| vec![f(x, y)]);
    let vectors = || [randn(16, 0, 1.0), randn(16, 1, 1.0)];
    let product = |a: &[usize], b: &[usize]| {
        of_many([randn(a, 0, 1.0), randn(b, 1, 1.0)], |[a, b]| {
            vec![a.matmul(b)]
        })
    };
    Some(match name {
        "op_add_16" => of_many(vectors(), |[x, y]| vec![x + y]),
        "op_exp_16" => of_one(randn(16, 0, 1.0), Tensor::exp),
        "op_sum_16" => of_one(randn(16, 0, 1.0), |x| x.sum(..)),
        "op_matmul_16" => product(&[16, 16], &[16, 16]),
        "op_add_1m" => two(|x, y| x + y),
        "op_sub_1m" => two(|x, y| x - y),
        "op_mul_1m" => two(|x, y| x * y),
        "op_div_1m" => two(|x, y| x / y),
        "op_add_transposed_1m" => two(|x, y| x + y.t()),
        "op_maximum_1m" => two(|x, y| x.maximum(y)),
        "op_gt_1m" => two(|x, y| x.gt(y)),
        "op_where_1m" => {
            let mask = x().gt(0.0);
            of_many([mask, x(), y()], |[mask, x, y]| vec![mask.where_cond(x, y)])
        }
        "op_add_row_1m" => of_many([x(), randn(1024, 1, 1.0)], |[x, y]| vec![x + y]),
        "op_add_column_1m" => of_many([x(), randn([1024, 1], 1, 1.0)], |[x, y]| vec![x + y]),
        "op_layer_norm_1m" => {
            let inputs = [x(), randn(1024, 1, 1.0), randn(1024, 2, 1.0)];
            of_many(inputs, |[x, w, b]| {
                vec![x.layer_norm(1, Some(w), Some(b), 1e-5)]
            })
        }
        "op_rms_norm_1m" => of_many([x(), randn(1024, 1, 1.0)], |[x, w]| {
            vec![x.rms_norm(1, Some(w), 1e-5)]
        }),
        "op_cat_ax0_1m" => two(|x, y| Tensor::cat(&[x, y], 0)),
        "op_cat_ax1_1m" => two(|x, y| Tensor::cat(&[x, y], 1)),
        "op_index_select_ax0_1m" => of_many([x(), randint(1024, 2, 1024)], |[x, i]| {
            vec![x.index_select(0, i)]
        }),
        "op_index_select_ax1_1m" => of_many([x(), randint(1024, 2, 1024)], |[x, i]| {
            vec![x.index_select(1, i)]
        }),
        "op_gather_1m" => of_many([x(), randint([1024, 1024], 2, 1024)], |[x, i]| {
            vec![x.gather(1, i)]
        }),
        "op_scatter_add_1m" => {
            let inputs = [x(), randint([1024, 1024], 2, 1024), y()];
            of_many(inputs, |[x, i, y]| vec![x.scatter_add(1, i, y)])
        }
        "op_embedding" => {
            let inputs = [randn([10_000, 256], 0, 1.0), randint(4096, 2, 10_000)];
            of_many(inputs, |[table, i]| vec![table.embedding(i)])
        }
        "op_matmul_64" => product(&[64, 64], &[64, 64]),
        "op_matmul_256" => product(&[256, 256], &[256, 256]),
        "op_matmul_1024" => product(&[1024, 1024], &[1024, 1024]),
        "op_matmul_batched" => product(&[64, 128, 64], &[64, 64, 128]),
        "op_matvec_1024" => product(&[1024, 1024], &[1024, 1]),
        "op_matmul_transposed_512" => {
            let factors = [randn([512, 512], 0, 1.0), randn([512, 512], 1, 1.0)];
            of_many(factors, |[a, b]| vec![a.matmul(&b.t())])
        }
        "op_conv1d" => {
            let inputs = [randn([8, 64, 512], 0, 1.0), randn([64, 64, 3], 1, 0.05)];
            of_many(inputs, |[x, w]| vec![x.conv1d(w, None, 1, 1, 1, 1)])
        }
        "op_conv2d" => {
            let inputs = [
                randn([4, 32, 32, 32], 0, 1.0),
                randn([32, 32, 3, 3], 1, 0.05),
            ];
            of_many(inputs, |[x, w]| vec![x.conv2d(w, None, 1, 1, 1, 1)])
        }
        "op_conv2d_1x1" => {
            let inputs = [
                randn([4, 64, 32, 32], 0, 1.0),
                randn([64, 64, 1, 1], 1, 0.05),
            ];
            of_many(inputs, |[x, w]| vec![x.conv2d(w, None, 1, 0, 1, 1)])
        }
        "op_max_pool2d" => of_one(images(), |x| x.max_pool2d(2, 2, 0)),
        "op_avg_pool2d" => of_one(images(), |x| x.avg_pool2d(2, 2, 0)),
        "op_upsample" => of_one(images(), |x| {
            x.interpolate([128, 128], ferrotrace::Interpolation::Nearest, false)
        }),
        "op_zeros_1m" => Box::new(|| vec![Tensor::zeros([1024, 1024], DType::F32, &Device::cpu())]),
        "op_arange_1m" => {
            Box::new(|| vec![Tensor::arange(0, 1 << 20, 1, DType::F32, &Device::cpu())])
        }
        _ => return None,
    })
}

fn images() -> Tensor {
    randn([8, 32, 64, 64], 0, 1.0)
}

/// Operations of one tensor of a million numbers.
fn unary(name: &str) -> Option<Workload> {
    let f: fn(&Tensor) -> Tensor = match name.strip_prefix("op_")?.strip_suffix("_1m")? {
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
        "narrow_copy" => |x| x.narrow(1, 128, 768).contiguous(),
        "pad" => |x| x.pad(&[(1, 1), (1, 1)], 0.0),
        "repeat" => |x| x.repeat(&[2, 1]),
        "flip" => |x| x.flip(1),
        _ => return None,
    };
    // Of a positive number where the function wants one.
    let positive = matches!(name, "op_sqrt_1m" | "op_log_1m" | "op_powf_1m");
    let x = randn([1024, 1024], 0, 1.0);
    let x = if positive { x.abs() + 0.5 } else { x };
    Some(of_one(x, f))
}
