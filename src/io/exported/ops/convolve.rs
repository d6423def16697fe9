//! Convolutions.

use super::Table;
use crate::io::exported::call::{Call, Results, one};
use crate::{Conv, Error, Padding, Result, Tensor};

/// What a convolution is asked for.
#[derive(Clone)]
pub(super) struct Asked<'a> {
    pub x: &'a Tensor,
    pub weight: &'a Tensor,
    pub bias: Option<&'a Tensor>,
    pub stride: Vec<usize>,
    pub padding: Padding,
    pub dilation: Vec<usize>,
    pub output_padding: Vec<usize>,
    pub groups: usize,
}

/// One size for all dimensions, or one for each.
fn each(sizes: Vec<usize>, n: usize) -> Vec<usize> {
    match sizes[..] {
        [size] => vec![size; n],
        _ => sizes,
    }
}

pub(super) fn asked<'a>(c: &Call<'a>) -> Result<(Asked<'a>, usize)> {
    let (x, weight) = (c.tensor("input")?, c.tensor("weight")?);
    let n = weight.rank().saturating_sub(2);
    let padding = match c.text("padding") {
        Ok(Some(word)) => Padding::from(word),
        _ => Padding::from(&each(c.sizes_or("padding", &[0])?, n)[..]),
    };
    let asked = Asked {
        x,
        weight,
        bias: c.tensor_opt("bias")?,
        stride: each(c.sizes_or("stride", &[1])?, n),
        padding,
        dilation: each(c.sizes_or("dilation", &[1])?, n),
        output_padding: each(c.sizes_or("output_padding", &[0])?, n),
        groups: c.size_or("groups", 1)?,
    };
    Ok((asked, n))
}

/// The convolution of `n` dimensions; others are errors that the result carries.
pub(super) fn convolution(asked: Asked<'_>, n: usize, transposed: bool) -> Tensor {
    let Asked {
        x, weight, bias, ..
    } = asked;
    let mut options = Conv::new()
        .stride(&asked.stride[..])
        .padding(asked.padding)
        .dilation(&asked.dilation[..])
        .groups(asked.groups);
    if transposed {
        options = options.output_padding(&asked.output_padding[..]);
    }
    // One sample by itself.
    let single = x.rank() == n + 1;
    let x = if single { x.unsqueeze(0) } else { x.clone() };
    let y = match (n, transposed) {
        (1, false) => x.conv1d_with(weight, bias, options),
        (2, false) => x.conv2d_with(weight, bias, options),
        (_, false) => x.conv3d_with(weight, bias, options),
        (1, true) => x.conv_transpose1d_with(weight, bias, options),
        (2, true) => x.conv_transpose2d_with(weight, bias, options),
        (_, true) => x.conv_transpose3d_with(weight, bias, options),
    };
    if single { y.squeeze(0) } else { y }
}

fn convolved(c: &Call<'_>, transposed: bool) -> Results {
    let (asked, n) = asked(c)?;
    if !(1..=3).contains(&n) {
        let what = format!("a convolution of {n} dimensions");
        return Err(Error::unsupported(what));
    }
    one(convolution(asked, n, transposed))
}

fn either(c: &Call<'_>) -> Results {
    convolved(c, c.bool_or("transposed", false)?)
}

/// A convolution of sequences whose first dimension is time, and whose last one channels.
fn along_time(c: &Call<'_>) -> Results {
    let (x, weight) = (c.tensor("self")?, c.tensor("weight")?);
    let options = Conv::new().padding(c.size_or("pad", 0)?);
    let (x, weight) = (x.permute([1, 2, 0]), weight.permute([2, 1, 0]));
    let y = x.conv1d_with(&weight, c.tensor_opt("bias")?, options);
    one(y.permute([2, 0, 1]))
}

pub(super) const TABLE: Table = &[
    ("conv_tbc", "default", along_time),
    ("conv1d", "default padding", |c| convolved(c, false)),
    ("conv2d", "default padding", |c| convolved(c, false)),
    ("conv3d", "default padding", |c| convolved(c, false)),
    ("conv_transpose1d", "default", |c| convolved(c, true)),
    ("conv_transpose2d", "input", |c| convolved(c, true)),
    ("conv_transpose3d", "input", |c| convolved(c, true)),
    ("convolution", "default", either),
    ("_convolution", "default deprecated", either),
    ("mkldnn_convolution", "default", |c| convolved(c, false)),
    ("thnn_conv2d", "default", |c| convolved(c, false)),
    ("_slow_conv2d_forward", "default", |c| convolved(c, false)),
];
