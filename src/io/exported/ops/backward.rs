//! Gradients that programs of training steps hold as operators.

use super::Table;
use super::convolve::{self, Asked};
use super::pool;
use crate::io::exported::call::{Call, Results, Value, one};
use crate::{DType, Result, Tensor, vjp};

/// The gradient of a function of one tensor.
fn gradient(f: impl FnOnce(&Tensor) -> Tensor, x: &Tensor, of: &Tensor) -> Results {
    one(vjp(f, x, of).1)
}

/// Results that the call asks for; `None` for others.
fn masked<const N: usize>(c: &Call<'_>, results: [Option<Tensor>; N]) -> Results {
    let mask = c.ints("output_mask")?.unwrap_or_else(|| vec![1; N]);
    let value = |(x, wanted): (Option<Tensor>, &i64)| match x {
        Some(x) if *wanted != 0 => Value::Tensor(x),
        _ => Value::None,
    };
    Ok(results.into_iter().zip(&mask).map(value).collect())
}

/// A gradient and the result that it is of, as wide as sums are kept, and the dtype of the input.
fn outcome(c: &Call<'_>) -> Result<([Tensor; 2], DType)> {
    let (of, y) = (c.tensor("grad_output")?, c.tensor("output")?);
    let dtype = c.dtype("input_dtype")?.unwrap_or(y.dtype());
    let wide = y.dtype().compute();
    Ok(([of, y].map(|x| x.to_dtype(wide)), dtype))
}

fn convolution(c: &Call<'_>) -> Results {
    let (asked, n) = convolve::asked(c)?;
    let transposed = c.bool_or("transposed", false)?;
    let of = c.tensor("grad_output")?;
    let operands = vec![asked.x.clone(), asked.weight.clone()];
    // A bias is added along all dimensions but the channels'.
    let others: Vec<isize> = (0..of.rank() as isize).filter(|&d| d != 1).collect();
    let bias = of.sum(&others[..]).to_dtype(of.dtype());
    let f = |both: &Vec<Tensor>| {
        let asked = Asked {
            x: &both[0],
            weight: &both[1],
            bias: None,
            ..asked.clone()
        };
        convolve::convolution(asked, n, transposed)
    };
    let gradients = vjp(f, &operands, of).1;
    let [x, weight] = [0, 1].map(|i| gradients.get(i).cloned());
    masked(c, [x, weight, Some(bias)])
}

/// The gradient of (x − mean)·rate in x, over rows that `dims` are, and that value itself: `of` is the result's.
fn of_normed(of: &Tensor, x: &Tensor, [mean, rate]: [&Tensor; 2], dims: &[isize]) -> [Tensor; 2] {
    let normed = (x.to_dtype(mean.dtype()) - mean) * rate;
    let along = (of * &normed).mean_keepdim(dims);
    let gradient = (of - of.mean_keepdim(dims) - &normed * along) * rate;
    [gradient, normed]
}

fn layer_norm(c: &Call<'_>) -> Results {
    let (of, x) = (c.tensor("grad_out")?, c.tensor("input")?);
    let (mean, rate) = (c.tensor("mean")?, c.tensor("rstd")?);
    let n = c.sizes("normalized_shape")?.len() as isize;
    let dims: Vec<isize> = (-n..0).collect();
    let wide = of.to_dtype(mean.dtype());
    let weighted = match c.tensor_opt("weight")? {
        Some(weight) => &wide * weight,
        None => wide.clone(),
    };
    let [gradient, normed] = of_normed(&weighted, x, [mean, rate], &dims);
    let rows: Vec<isize> = (0..x.rank() as isize - n).collect();
    let all = |x: Tensor| if rows.is_empty() { x } else { x.sum(&rows[..]) };
    let narrow = |y: Tensor| y.to_dtype(x.dtype());
    let weight = c.has("weight").then(|| narrow(all(&wide * normed)));
    let bias = c.has("bias").then(|| narrow(all(wide.clone())));
    masked(c, [Some(narrow(gradient)), weight, bias])
}

fn group_norm(c: &Call<'_>) -> Results {
    let (of, x) = (c.tensor("grad_out")?, c.tensor("input")?);
    let (samples, groups) = (x.dim(0)?, c.size_or("group", 1)?);
    let rows = |x: &Tensor| x.reshape([samples as i64, groups as i64, -1]);
    let each = |x: &Tensor| x.reshape([samples, groups, 1]);
    let (mean, rate) = (each(c.tensor("mean")?), each(c.tensor("rstd")?));
    let wide = of.to_dtype(mean.dtype());
    let mut channels = vec![1; x.rank()];
    channels[1] = x.dim(1)?;
    let weight = c.tensor_opt("weight")?;
    let weighted = match weight {
        Some(weight) => &wide * weight.reshape(&channels[..]),
        None => wide.clone(),
    };
    let [gradient, normed] = of_normed(&rows(&weighted), &rows(x), [&mean, &rate], &[-1]);
    let others: Vec<isize> = (0..x.rank() as isize).filter(|&d| d != 1).collect();
    let narrow = |y: Tensor| y.to_dtype(x.dtype());
    let scales = (&wide * normed.reshape(x.dims())).sum(&others[..]);
    let results = [gradient.reshape(x.dims()), scales, wide.sum(&others[..])];
    masked(c, results.map(|y| Some(narrow(y))))
}

/// What goes to the elements that were the greatest of their windows.
fn greatest(c: &Call<'_>) -> Results {
    let (x, of, at) = (
        c.tensor("self")?,
        c.tensor("grad_output")?,
        c.tensor("indices")?,
    );
    let plane = x.dim(-1)? * x.dim(-2)?;
    let front = &x.dims()[..x.rank() - 2];
    let rows: usize = front.iter().product();
    let flat = |x: &Tensor| x.reshape([rows as i64, -1]);
    let zeros = Tensor::zeros([rows, plane], of.dtype(), c.device);
    one(zeros.scatter_add(1, &flat(at), &flat(of)).reshape(x.dims()))
}

fn embedding(c: &Call<'_>) -> Results {
    let (of, at) = (c.tensor("grad_output")?, c.tensor("indices")?);
    let (rows, width) = (c.size_or("num_weights", 0)?, of.dim(-1)?);
    let (of, at) = (of.reshape([-1, width as i64]), at.reshape([-1i64]));
    let padding = at.eq(c.int_or("padding_idx", -1)?).unsqueeze(-1);
    let mut of = of.masked_fill(&padding, 0.0);
    if c.bool_or("scale_grad_by_freq", false)? {
        let none = Tensor::zeros([rows], DType::I64, c.device);
        let counts = none.scatter_add(0, &at, &at.ones_like());
        let each = counts.index_select(0, &at).unsqueeze(-1);
        of = &of / each.to_dtype(of.dtype());
    }
    let zeros = Tensor::zeros([rows, width], of.dtype(), c.device);
    one(zeros.index_put(&[Some(&at)], &of, true))
}

fn means(c: &Call<'_>) -> Results {
    let (x, of) = (c.tensor("self")?, c.tensor("grad_output")?);
    // What does not fit is an error of the pooling itself.
    pool::mean_of(c, x, 2)?;
    let f = |x: &Tensor| pool::mean_of(c, x, 2).unwrap_or_else(|_| x.clone());
    gradient(f, x, of)
}

fn adaptive_means(c: &Call<'_>) -> Results {
    let (x, of) = (c.tensor("self")?, c.tensor("grad_output")?);
    let size = [of.dim(-2)?, of.dim(-1)?];
    let f = |x: &Tensor| match x.rank() {
        3 => x.unsqueeze(0).adaptive_avg_pool2d(size).squeeze(0),
        _ => x.adaptive_avg_pool2d(size),
    };
    gradient(f, x, of)
}

pub(super) const TABLE: Table = &[
    ("_softmax_backward_data", "default", |c| {
        let ([of, y], dtype) = outcome(c)?;
        let product = of * &y;
        let sum = product.sum_keepdim(c.dim_or("dim", -1)?);
        one((product - y * sum).to_dtype(dtype))
    }),
    ("_log_softmax_backward_data", "default", |c| {
        let ([of, y], dtype) = outcome(c)?;
        let sum = of.sum_keepdim(c.dim_or("dim", -1)?);
        one((of - y.exp() * sum).to_dtype(dtype))
    }),
    ("convolution_backward", "default", convolution),
    ("native_layer_norm_backward", "default", layer_norm),
    ("native_group_norm_backward", "default", group_norm),
    ("avg_pool2d_backward", "default", means),
    ("_adaptive_avg_pool2d_backward", "default", adaptive_means),
    ("max_pool2d_with_indices_backward", "default", greatest),
    ("embedding_dense_backward", "default", embedding),
];
