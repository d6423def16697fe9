//! Transposed convolutions as plain ones (sub-pixel convolution: Shi et al., Is the Deconvolution Layer the Same as a
//! Convolutional Layer?, 2016).
//!
//! Results whose positions leave the same remainder by the stride, a *phase*, are a convolution of step 1 by every so many
//! of the taps: nothing is multiplied by zeros that a stride would put between the elements. Phases are the channels of one
//! convolution, or one each, and become neighbours by a permutation.

mod apart;
mod together;

use super::Simplifier;
use super::shaping::{dims, pad};
use apart::apart;
use ferrotrace_kernels::{ConvSpec, Op, OpBuilder, ValueId};
use ferrotrace_runtime::{DType, Result, Scalar};
use smallvec::SmallVec;
use together::together;

/// The transposed convolution of `[n, channels, ..]` by `[channels, out / groups, ..]`.
pub(super) fn define(
    spec: &ConvSpec,
    b: &mut Simplifier<'_>,
    (x, w): (ValueId, ValueId),
) -> Result<ValueId> {
    let of = Sizes::of(spec, &dims(b, x), &dims(b, w));
    let total: usize = spec.stride.iter().product();
    let dense = spec.dilation.iter().all(|&d| d == 1);
    // Phases without a tap are zeros: putting them between the others takes longer than writing them beside.
    let gaps = (0..of.taps.len()).any(|i| of.taps[i] < spec.stride[i]);
    let thresholds = &b.policy.thresholds;
    let most = match gaps {
        true => thresholds.phases,
        false => thresholds.cat_parts,
    };
    match dense && (total > most || !gaps && of.waste(spec) <= thresholds.phases_waste) {
        true => together(spec, b, (x, w), &of),
        false => apart(spec, b, (x, w), &of),
    }
}

/// Sizes along the dimensions of space.
struct Sizes {
    input: Vec<usize>,
    taps: Vec<usize>,
    output: Vec<usize>,
}

impl Sizes {
    fn of(spec: &ConvSpec, x: &[usize], w: &[usize]) -> Sizes {
        let output = |i: usize| {
            let full = (x[2 + i] - 1) * spec.stride[i] + (w[2 + i] - 1) * spec.dilation[i] + 1;
            full + spec.output_padding[i] - 2 * spec.padding[i]
        };
        Sizes {
            input: x[2..].to_vec(),
            taps: w[2..].to_vec(),
            output: (0..spec.stride.len()).map(output).collect(),
        }
    }

    /// Remainders by the stride that taps have, and taps of each, as many as the first has.
    fn remainders(&self, spec: &ConvSpec, i: usize) -> (usize, usize) {
        let (kernel, stride) = (self.taps[i], spec.stride[i]);
        (kernel.min(stride), kernel.div_ceil(stride))
    }

    /// Results of each remainder, those included that padding crops.
    fn positions(&self, spec: &ConvSpec, i: usize) -> usize {
        (self.output[i] + spec.padding[i]).div_ceil(spec.stride[i])
    }

    /// How much more one convolution for all phases computes than they do one by one.
    fn waste(&self, spec: &ConvSpec) -> f64 {
        let along = |i: usize| {
            let (remainders, taps) = self.remainders(spec, i);
            let positions = self.positions(spec, i) * spec.stride[i];
            (remainders * taps * positions) as f64 / (self.taps[i] * self.output[i]) as f64
        };
        (0..self.taps.len()).map(along).product()
    }
}

/// A convolution of step 1 with so many zeros before and after the input; fewer than none crop it.
fn convolve(
    b: &mut Simplifier<'_>,
    (x, w): (ValueId, ValueId),
    pads: &[(isize, isize)],
    (groups, dilation): (usize, &[usize]),
) -> Result<ValueId> {
    let spatial = pads.len();
    // A convolution has as many zeros on both sides.
    let both: SmallVec<[isize; 3]> = pads.iter().map(|p| p.0.min(p.1).max(0)).collect();
    let mut rest = vec![(0, 0); 2];
    rest.extend(
        pads.iter()
            .zip(&both)
            .map(|(p, both)| (p.0 - both, p.1 - both)),
    );
    let zero = zero(b.dtype(x));
    let x = pad(b, x, &rest, zero)?;
    let plain = ConvSpec {
        stride: SmallVec::from_elem(1, spatial),
        padding: both.iter().map(|&n| n as usize).collect(),
        dilation: SmallVec::from_slice(dilation),
        output_padding: SmallVec::from_elem(0, spatial),
        groups,
        transposed: false,
    };
    b.push(Op::from(plain), &[x.into(), w.into()])
}

/// What lies around an input of this type.
fn zero(dtype: DType) -> Scalar {
    match dtype.is_float() {
        true => Scalar::Float(0.0),
        false => Scalar::Int(0),
    }
}
