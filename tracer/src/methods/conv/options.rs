//! Convolutions by [`Conv`], whose options have defaults.

use super::convolved;
use crate::Tensor;
use crate::args::{Conv, Padding, Sizes};
use ferrotrace_kernels::ConvSpec;
use ferrotrace_runtime::{Error, Result};
use smallvec::SmallVec;

/// A number for each dimension that a kernel moves along.
type PerDim = SmallVec<[usize; 3]>;

/// The zeros on both sides of `n` dimensions, and those that only their ends get, for a result of the input's sizes.
fn same(weight: &Tensor, options: &Conv, n: usize) -> Result<(PerDim, PerDim)> {
    if options.stride.of(n, "a stride of")?.iter().any(|&s| s != 1) {
        let why = "padding \"same\" is of a stride of 1: pad by numbers instead";
        return Err(Error::argument(why));
    }
    weight.check_rank(n + 2, "a weight")?;
    let dilation = options.dilation.of(n, "a dilation of")?;
    let total = |d: usize| {
        let reach = weight.shape()[2 + d].saturating_sub(1);
        reach.checked_mul(dilation[d])
    };
    let total: Option<PerDim> = (0..n).map(total).collect();
    let total = total.ok_or_else(|| Error::argument("a dilation beyond any memory"))?;
    Ok((
        total.iter().map(|t| t / 2).collect(),
        total.iter().map(|t| t % 2).collect(),
    ))
}

impl Tensor {
    #[track_caller]
    fn convolved_with(
        &self,
        name: &'static str,
        (weight, bias): (&Tensor, Option<&Tensor>),
        options: &Conv,
        (n, transposed): (usize, bool),
    ) -> Tensor {
        let operands: Vec<&Tensor> = [self, weight].into_iter().chain(bias).collect();
        let result = self.prepared(weight, options, n, transposed);
        match result {
            Ok((x, spec)) => convolved(&x, weight, bias, spec).called(name, &operands),
            Err(error) => Tensor::failed(name, error, &operands),
        }
    }

    /// The input, padded where only one side is, and the operator's attributes.
    #[track_caller]
    fn prepared(
        &self,
        weight: &Tensor,
        options: &Conv,
        n: usize,
        transposed: bool,
    ) -> Result<(Tensor, ConvSpec)> {
        let mut x = self.clone();
        let output_padding = options.output_padding.of(n, "an output padding of")?;
        if !transposed && output_padding.iter().any(|&p| p != 0) {
            let why = "output_padding is of transposed convolutions alone";
            return Err(Error::argument(why));
        }
        let padding = match &options.padding {
            Padding::By(sizes) => sizes.of(n, "a padding of")?,
            Padding::Valid => Sizes::from(0).of(n, "")?,
            Padding::Same if transposed => {
                let why = "a transposed convolution is padded by numbers, not by \"same\"";
                return Err(Error::argument(why));
            }
            Padding::Same => {
                let (both, end) = same(weight, options, n)?;
                if end.iter().any(|&p| p > 0) && x.rank() > n {
                    let mut pads = vec![(0, 0); x.rank() - n];
                    pads.extend(end.iter().map(|&p| (0, p as isize)));
                    x = x.pad(&pads, 0);
                }
                both
            }
            Padding::Unknown(word) => {
                let why = format!("padding {word:?}: numbers, \"same\" or \"valid\"");
                return Err(Error::argument(why));
            }
        };
        let spec = ConvSpec {
            stride: options.stride.of(n, "a stride of")?,
            padding,
            dilation: options.dilation.of(n, "a dilation of")?,
            output_padding,
            groups: options.groups,
            transposed,
        };
        Ok((x, spec))
    }
}

macro_rules! with_options {
    ($($name:ident $text:literal $n:literal $transposed:literal;)*) => {
        impl Tensor {$(
            #[doc = concat!("[`", $text, "`](Tensor::", $text, ") with options that have defaults: see [`Conv`].")]
            #[track_caller]
            pub fn $name(&self, weight: &Tensor, bias: Option<&Tensor>, options: Conv) -> Tensor {
                self.convolved_with($text, (weight, bias), &options, ($n, $transposed))
            }
        )*}
    };
}

with_options! {
    conv1d_with "conv1d" 1 false;
    conv2d_with "conv2d" 2 false;
    conv3d_with "conv3d" 3 false;
    conv_transpose1d_with "conv_transpose1d" 1 true;
    conv_transpose2d_with "conv_transpose2d" 2 true;
    conv_transpose3d_with "conv_transpose3d" 3 true;
}
