//! Pooling.

use super::Table;
use crate::io::exported::call::{Call, Results, all, one};
use crate::{DType, Error, Pool, Result, Tensor};

/// A pooling of the last `n` dimensions, as it is asked for.
fn pool(c: &Call<'_>, n: usize) -> Result<Pool> {
    let each = |name, default: &[usize]| -> Result<Vec<usize>> {
        let sizes = c.sizes_or(name, default)?;
        Ok(if sizes.len() == 1 {
            vec![sizes[0]; n]
        } else {
            sizes
        })
    };
    let kernel = each("kernel_size", &[1])?;
    let stride = each("stride", &kernel)?;
    Ok(Pool::new(&kernel[..])
        .stride(&stride[..])
        .padding(&each("padding", &[0])?[..])
        .dilation(&each("dilation", &[1])?[..])
        .ceil_mode(c.bool_or("ceil_mode", false)?)
        .count_include_pad(c.bool_or("count_include_pad", true)?))
}

/// Runs a function on samples; one sample by itself is given and gets no first dimension.
fn batched(x: &Tensor, n: usize, f: impl Fn(&Tensor) -> Vec<Tensor>) -> Results {
    if x.rank() != n + 1 {
        return all(f(x));
    }
    let results = f(&x.unsqueeze(0)).into_iter();
    all(results.map(|y| y.squeeze(0)))
}

fn greatest(c: &Call<'_>, n: usize, with_places: bool) -> Results {
    let pool = pool(c, n)?;
    batched(c.tensor("self")?, n, |x| {
        let both = match (n, with_places) {
            (1, false) => return vec![x.max_pool1d_with(&pool)],
            (2, false) => return vec![x.max_pool2d_with(&pool)],
            (_, false) => return vec![x.max_pool3d_with(&pool)],
            (1, true) => x.max_pool1d_with_indices(&pool),
            (2, true) => x.max_pool2d_with_indices(&pool),
            (_, true) => x.max_pool3d_with_indices(&pool),
        };
        vec![both.0, both.1]
    })
}

fn averaged(x: &Tensor, n: usize, pool: &Pool) -> Tensor {
    match n {
        1 => x.avg_pool1d_with(pool),
        2 => x.avg_pool2d_with(pool),
        _ => x.avg_pool3d_with(pool),
    }
}

/// Windows over the last dimensions whose elements are summed.
struct Windows {
    kernel: Vec<usize>,
    stride: Vec<usize>,
    padding: Vec<usize>,
    ceil: bool,
}

impl Windows {
    fn of(c: &Call<'_>, n: usize) -> Result<Windows> {
        let each = |name, default: &[usize]| -> Result<Vec<usize>> {
            let sizes = c.sizes_or(name, default)?;
            Ok(if sizes.len() == 1 {
                vec![sizes[0]; n]
            } else {
                sizes
            })
        };
        let kernel = each("kernel_size", &[1])?;
        Ok(Windows {
            stride: each("stride", &kernel)?,
            padding: each("padding", &[0])?,
            ceil: c.bool_or("ceil_mode", false)?,
            kernel,
        })
    }

    /// The sum of each window, of which what lies outside the padding counts for nothing. Padding is of `value`.
    fn sums(&self, x: &Tensor, value: f64) -> Tensor {
        let n = self.kernel.len();
        let front = x.rank() - n;
        let mut around = vec![(0, 0); x.rank()];
        let mut behind = around.clone();
        for d in 0..n {
            let (size, kernel, pad) = (x.dims()[front + d], self.kernel[d], self.padding[d]);
            let (padded, step) = (size + 2 * pad, self.stride[d].max(1));
            let room = padded.saturating_sub(kernel);
            let mut count = room / step + 1;
            // The last window begins within the input or the padding before it.
            if self.ceil && !room.is_multiple_of(step) && count * step < size + pad {
                count += 1;
            }
            let end = (count - 1) * step + kernel;
            around[front + d] = (pad as isize, pad as isize);
            behind[front + d].1 = end.saturating_sub(padded) as isize;
        }
        let x = x.pad(&around, value).pad(&behind, 0.0);
        let pool = Pool::new(&self.kernel[..]).stride(&self.stride[..]);
        averaged(&x, n, &pool) * self.kernel.iter().product::<usize>() as f64
    }
}

/// Sums of windows over what is asked for: a divisor, or their elements. Integers lose the part after the point.
fn divided(c: &Call<'_>, x: &Tensor, n: usize) -> Result<Tensor> {
    let windows = Windows::of(c, n)?;
    let float = x.dtype().is_float();
    let wide = if float {
        x.dtype().compute()
    } else {
        DType::F64
    };
    let sums = windows.sums(&x.to_dtype(wide), 0.0);
    let y = match c.int("divisor_override")? {
        Some(divisor) => sums / divisor as f64,
        None => {
            let counted = c.bool_or("count_include_pad", true)?;
            let ones = Tensor::ones(x.dims(), wide, c.device);
            sums / windows.sums(&ones, f64::from(u8::from(counted)))
        }
    };
    Ok(match float {
        true => y.to_dtype(x.dtype()),
        false => y.trunc().to_dtype(x.dtype()),
    })
}

/// The means of windows of a tensor, as a call asks for them.
pub(super) fn mean_of(c: &Call<'_>, x: &Tensor, n: usize) -> Result<Tensor> {
    let single = x.rank() == n + 1;
    let batch = if single { x.unsqueeze(0) } else { x.clone() };
    let y = match c.has("divisor_override") || !x.dtype().is_float() {
        true => divided(c, &batch, n)?,
        false => averaged(&batch, n, &pool(c, n)?),
    };
    Ok(if single { y.squeeze(0) } else { y })
}

fn means(c: &Call<'_>, n: usize) -> Results {
    one(mean_of(c, c.tensor("self")?, n)?)
}

/// The sizes that are asked for; a dimension whose size is `None` keeps its own.
fn target<const N: usize>(c: &Call<'_>) -> Result<[usize; N]> {
    let sizes = c.sizes("output_size")?;
    let sizes = if sizes.len() == 1 {
        vec![sizes[0]; N]
    } else {
        sizes
    };
    sizes
        .try_into()
        .map_err(|_| Error::argument(format!("sizes of other than {N} dimensions")))
}

fn adaptive_means(c: &Call<'_>, n: usize) -> Results {
    let x = c.tensor("self")?;
    let (one_d, two_d, three_d) = (target::<1>(c), target::<2>(c), target::<3>(c));
    match n {
        1 => {
            let size = one_d?;
            batched(x, 1, |x| vec![x.adaptive_avg_pool1d(size)])
        }
        2 => {
            let size = two_d?;
            batched(x, 2, |x| vec![x.adaptive_avg_pool2d(size)])
        }
        _ => {
            let size = three_d?;
            batched(x, 3, |x| vec![x.adaptive_avg_pool3d(size)])
        }
    }
}

fn adaptive_most(c: &Call<'_>, n: usize) -> Results {
    let x = c.tensor("self")?;
    let (one_d, two_d, three_d) = (target::<1>(c), target::<2>(c), target::<3>(c));
    let pair = |(most, at)| vec![most, at];
    match n {
        1 => {
            let size = one_d?;
            batched(x, 1, |x| pair(x.adaptive_max_pool1d_with_indices(size)))
        }
        2 => {
            let size = two_d?;
            batched(x, 2, |x| pair(x.adaptive_max_pool2d_with_indices(size)))
        }
        _ => {
            let size = three_d?;
            batched(x, 3, |x| pair(x.adaptive_max_pool3d_with_indices(size)))
        }
    }
}

/// Values put back at the places that they were pooled from.
fn unpooled(c: &Call<'_>, n: usize) -> Results {
    let (x, at) = (c.tensor("self")?, c.tensor("indices")?);
    let size = c.sizes("output_size")?;
    let size = &size[size.len().saturating_sub(n)..];
    let front = &x.dims()[..x.rank() - n];
    let rows: usize = front.iter().product();
    let plane: usize = size.iter().product();
    let zeros = Tensor::zeros([rows, plane], x.dtype(), c.device);
    let flat = |x: &Tensor| x.reshape([rows as i64, -1]);
    let y = zeros.scatter(1, &flat(at), &flat(x));
    one(y.reshape([front, size].concat()))
}

pub(super) const TABLE: Table = &[
    ("max_pool1d", "default", |c| greatest(c, 1, false)),
    ("max_pool2d", "default", |c| greatest(c, 2, false)),
    ("max_pool3d", "default", |c| greatest(c, 3, false)),
    ("max_pool1d_with_indices", "default", |c| {
        greatest(c, 1, true)
    }),
    ("max_pool2d_with_indices", "default", |c| {
        greatest(c, 2, true)
    }),
    ("max_pool3d_with_indices", "default", |c| {
        greatest(c, 3, true)
    }),
    ("avg_pool1d", "default", |c| means(c, 1)),
    ("avg_pool2d", "default", |c| means(c, 2)),
    ("avg_pool3d", "default", |c| means(c, 3)),
    ("adaptive_avg_pool1d", "default", |c| adaptive_means(c, 1)),
    ("adaptive_avg_pool2d", "default", |c| adaptive_means(c, 2)),
    ("adaptive_avg_pool3d", "default", |c| adaptive_means(c, 3)),
    ("_adaptive_avg_pool2d", "default", |c| adaptive_means(c, 2)),
    ("_adaptive_avg_pool3d", "default", |c| adaptive_means(c, 3)),
    ("adaptive_max_pool1d", "default", |c| adaptive_most(c, 1)),
    ("adaptive_max_pool2d", "default", |c| adaptive_most(c, 2)),
    ("adaptive_max_pool3d", "default", |c| adaptive_most(c, 3)),
    ("max_unpool2d", "default", |c| unpooled(c, 2)),
    ("max_unpool3d", "default", |c| unpooled(c, 3)),
];
