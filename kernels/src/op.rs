//! The operators by name and attributes.

use crate::{BinaryOp, UnaryOp};
use ferrotrace_runtime::{Category, ConvolutionPart, DType, Scalar, Shape};
use smallvec::SmallVec;

/// One size of a target shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// This many.
    Size(usize),
    /// Given as −1: inferred from the element count (reshape) or kept (expand).
    Auto,
}

/// What a reduction computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// Σ; integers and bools give `I64`.
    Sum,
    /// Π; integers and bools give `I64`.
    Prod,
    /// Σ / n, of floats.
    Mean,
    /// The greatest; NaN propagates.
    Max,
    /// The least; NaN propagates.
    Min,
    /// Whether any element is not zero (NaN counts).
    Any,
    /// Whether no element is zero.
    All,
    /// Row-major position, in the reduced dimensions, of the first greatest element (the first NaN if any): `I64`.
    ArgMax,
    /// The same of the least.
    ArgMin,
}

/// What a scan computes along a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScanKind {
    /// Running sum; integers and bools give `I64`.
    Sum,
    /// Running product; integers and bools give `I64`.
    Prod,
    /// Running log Σ exp, of floats.
    LogSumExp,
    /// Running maximum; NaN propagates.
    Max,
    /// Running minimum; NaN propagates.
    Min,
    /// Index of the running maximum, the last among equals: `I64`.
    ArgMax,
    /// Index of the running minimum, the last among equals: `I64`.
    ArgMin,
}

/// How scattered values meet the value already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScatterMode {
    /// The last in row-major order of the source stays.
    Assign,
    /// Added.
    Sum,
    /// Multiplied.
    Prod,
    /// The greater stays.
    Amax,
    /// The lesser stays.
    Amin,
    /// The mean of all, of the old value too if included.
    Mean,
}

/// A random distribution, drawn from Philox-4x32-10 by (key, offset + element index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Distribution {
    /// Uniform in [0, 1).
    Uniform,
    /// Standard normal.
    Normal,
    /// Uniform integers in [lo, hi): operands lo, hi.
    Int,
    /// 1 with probability p, else 0: operand p.
    Bernoulli,
    /// Uniform 63-bit integers: sort keys of a permutation.
    Bits,
}

/// Attributes of a convolution over 1, 2 or 3 spatial dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvSpec {
    /// Step of the window (or spread of the input, transposed).
    pub stride: SmallVec<[usize; 3]>,
    /// Zeros added on both sides (or cropped, transposed).
    pub padding: SmallVec<[usize; 3]>,
    /// Spacing of the weight's taps.
    pub dilation: SmallVec<[usize; 3]>,
    /// Sizes added at the end of a transposed result; zeros otherwise.
    pub output_padding: SmallVec<[usize; 3]>,
    /// Channel groups.
    pub groups: usize,
    /// Whether the convolution is transposed (weight `[in, out / groups, ...]`).
    pub transposed: bool,
}

/// Attributes of a convolution as a library of devices has it: the result or a gradient, in one of two orders of
/// dimensions, over 2 or 3 spatial ones. Programs do not record it; plans for devices do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Correlation {
    /// Which of input, weight and result is computed of the two others, which are the operands in this order, but for
    /// the input's gradient, whose operands are the result's gradient and the weight.
    pub part: ConvolutionPart,
    /// Whether dimensions are `[n, .., channels]` and the weight's `[out, .., in / groups]`, instead of
    /// `[n, channels, ..]` and `[out, in / groups, ..]`.
    pub channels_last: bool,
    /// Step of the window over the input.
    pub stride: SmallVec<[usize; 3]>,
    /// Zeros added on both sides of the input.
    pub padding: SmallVec<[usize; 3]>,
    /// Spacing of the weight's taps.
    pub dilation: SmallVec<[usize; 3]>,
    /// Whether what is computed of half-precision operands is binary32, as its sums are.
    pub wide: bool,
    /// Of what is computed.
    pub shape: Shape,
}

/// What a pooling window computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PoolKind {
    /// The greatest; padding never wins.
    Max,
    /// The mean, padding counted.
    Avg,
}

/// Attributes of a pooling over the trailing spatial dimensions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PoolSpec {
    /// What a window computes.
    pub kind: PoolKind,
    /// Window sizes, one a spatial dimension.
    pub kernel: SmallVec<[usize; 3]>,
    /// Steps.
    pub stride: SmallVec<[usize; 3]>,
    /// Padding on both sides, at most half the window.
    pub padding: SmallVec<[usize; 3]>,
}

/// Operators defined by a decomposition into others (`ops::composite`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Composite {
    /// x·Φ(x).
    Gelu,
    /// The tanh form of gelu.
    GeluTanh,
    /// x·σ(x).
    Silu,
    /// x·tanh(softplus(x)).
    Mish,
    /// log(1 + eˣ), linear beyond 20.
    Softplus,
    /// x / (1 + |x|).
    Softsign,
    /// clamp(x, −1, 1).
    Hardtanh,
    /// x·clamp(x + 3, 0, 6) / 6.
    Hardswish,
    /// clamp(x + 3, 0, 6) / 6.
    Hardsigmoid,
    /// log σ(x).
    LogSigmoid,
    /// min(max(x, 0), 6).
    Relu6,
    /// x or a·x: operands x, a.
    LeakyRelu,
    /// x or a(eˣ − 1): operands x, a.
    Elu,
    /// The self-normalising elu.
    Selu,
    /// max(0, x) + min(0, a(e^(x/a) − 1)): operands x, a.
    Celu,
    /// x·sign-preserving fraction x − trunc(x).
    Frac,
    /// min(max(x, lo), hi): operands x, lo, hi.
    Clamp,
    /// start + w(end − start): operands start, end, w.
    Lerp,
    /// x + v·a·b: operands x, a, b, v.
    Addcmul,
    /// x + v·a/b: operands x, a, b, v.
    Addcdiv,
    /// NaN, ∞, −∞ replaced: operands x, nan, posinf, neginf.
    NanToNum,
    /// Zeroed with probability p, else scaled by 1/(1 − p): operands x, key, offset; p by its bits.
    Dropout {
        /// Bits of the probability (binary64).
        p: u64,
    },
    /// eˣ / Σ eˣ along a dimension.
    Softmax {
        /// The dimension.
        dim: usize,
    },
    /// x − log Σ eˣ along a dimension.
    LogSoftmax {
        /// The dimension.
        dim: usize,
    },
    /// log Σ eˣ over dimensions.
    LogSumExp {
        /// Bit per reduced dimension.
        mask: u64,
        /// Whether they stay as 1.
        keepdim: bool,
    },
    /// Variance over dimensions, divided by max(0, n − correction).
    Var {
        /// Bit per reduced dimension.
        mask: u64,
        /// Whether they stay as 1.
        keepdim: bool,
        /// Taken from the count.
        correction: usize,
        /// Whether the square root is taken.
        root: bool,
    },
    /// (Σ |x|ᵖ)^(1/p) over dimensions; p by its bits, infinities as max and min.
    Norm {
        /// Bits of the order (binary64).
        p: u64,
        /// Bit per reduced dimension.
        mask: u64,
        /// Whether they stay as 1.
        keepdim: bool,
    },
    /// How many are not zero, over dimensions: `I64`.
    CountNonzero {
        /// Bit per reduced dimension.
        mask: u64,
        /// Whether they stay as 1.
        keepdim: bool,
    },
    /// Layer norm over the last `n` dimensions: operands x, then weight and bias if present, then eps.
    LayerNorm {
        /// How many trailing dimensions.
        n: usize,
        /// Whether a weight is among the operands.
        weight: bool,
        /// Whether a bias is.
        bias: bool,
    },
    /// Root-mean-square norm over the last `n` dimensions: operands x, weight if present, eps.
    RmsNorm {
        /// How many trailing dimensions.
        n: usize,
        /// Whether a weight is among the operands.
        weight: bool,
    },
    /// Group norm over channel groups of dimension 1: operands x, weight and bias if present, eps.
    GroupNorm {
        /// How many groups.
        groups: usize,
        /// Whether a weight is among the operands.
        weight: bool,
        /// Whether a bias is.
        bias: bool,
    },
    /// Batch norm with given statistics: operands x, mean, var, weight and bias if present, eps.
    BatchNorm {
        /// Whether a weight is among the operands.
        weight: bool,
        /// Whether a bias is.
        bias: bool,
    },
    /// x·wᵀ (+ b).
    Linear {
        /// Whether a bias is among the operands.
        bias: bool,
    },
    /// Convolution with bias: operands x, weight, bias.
    ConvBias(Box<ConvSpec>),
    /// An Einstein sum; explicit or implicit output, repeated labels, ellipsis.
    Einsum {
        /// The equation, without blanks.
        equation: Box<str>,
    },
    /// Attention: operands q, k, v, mask if present; scale by its bits (NaN: 1/√d).
    Attention {
        /// Whether a mask is among the operands.
        mask: bool,
        /// Whether later keys are hidden.
        causal: bool,
        /// Bits of the scale (binary64).
        scale: u64,
    },
    /// The lower (or upper) triangle of the last two dimensions.
    Triangle {
        /// Offset of the diagonal.
        k: isize,
        /// Upper instead of lower.
        upper: bool,
    },
    /// Elements moved along a dimension, those past the end to the front.
    Roll {
        /// By how many.
        shift: isize,
        /// The dimension.
        dim: usize,
    },
    /// A new last dimension of `n`, 1 at the index.
    OneHot {
        /// Its size.
        n: usize,
    },
    /// A loss of x and t, and what becomes of those of elements or samples.
    Loss(Loss, Reduction),
}

/// What a loss is of one element, or of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Loss {
    /// (x − t)².
    Mse,
    /// The Huber-like loss: operands x, t, beta.
    SmoothL1,
    /// eᵗ-free KL terms: operands log-probabilities x, probabilities t.
    KlDiv,
    /// `−x[class]`: operands log-probabilities (classes in dimension 1), class indices.
    Nll,
    /// Cross entropy of logits with class indices or probabilities.
    CrossEntropy,
    /// Binary cross entropy of logits.
    BceWithLogits,
}

/// What becomes of the losses of the elements (or samples).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// They stay.
    None,
    /// Their sum.
    Sum,
    /// Their mean: the loss without `_reduced`.
    Mean,
}

/// An operator with its attributes. Tensor and number operands are listed beside it, never inside, so that two
/// programs that differ in numbers alone have equal operators.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// One number everywhere: a number operand.
    Full {
        /// The shape.
        shape: Shape,
        /// The dtype.
        dtype: DType,
    },
    /// start + i·step, computed in `I64` or `F64`: number operands start, step.
    Arange {
        /// How many.
        len: usize,
        /// The dtype.
        dtype: DType,
    },
    /// The position along a dimension, as `I64`.
    Iota {
        /// The shape.
        shape: Shape,
        /// The dimension counted.
        dim: usize,
    },
    /// Random numbers: number operands key, offset, then the distribution's own.
    Random {
        /// The distribution.
        dist: Distribution,
        /// The shape.
        shape: Shape,
        /// The dtype.
        dtype: DType,
    },
    /// A function of one element.
    Unary(UnaryOp),
    /// A function of two elements, broadcast.
    Binary(BinaryOp),
    /// Operands mask, a, b, broadcast: a where the mask is true.
    Where,
    /// The elements in another dtype, by Rust's `as` (saturating, NaN to 0) and `!= 0` for `Bool`.
    Cast(DType),
    /// The same elements in row-major order under another shape.
    Reshape(SmallVec<[Extent; 4]>),
    /// Sizes of 1 stretched, dimensions added in front.
    Expand(SmallVec<[Extent; 4]>),
    /// Dimension `i` of the result is dimension `order[i]`.
    Permute(SmallVec<[u8; 6]>),
    /// Dimensions of size 1 removed; a bit each (other sizes stay).
    Squeeze {
        /// Bit per dimension.
        mask: u64,
    },
    /// A dimension of size 1 added.
    Unsqueeze {
        /// Its position in the result.
        dim: usize,
    },
    /// Dimensions `start..=end` merged into one.
    Flatten {
        /// The first.
        start: usize,
        /// The last.
        end: usize,
    },
    /// Python's `start:end:step` of one dimension.
    Slice {
        /// The dimension.
        dim: usize,
        /// Start, negative from the end, clamped.
        start: isize,
        /// End, negative from the end, clamped.
        end: isize,
        /// Step, at least 1.
        step: usize,
    },
    /// `len` elements of one dimension from `start`, which must exist.
    Narrow {
        /// The dimension.
        dim: usize,
        /// Start, negative from the end.
        start: isize,
        /// Length.
        len: usize,
    },
    /// One index of a dimension, which goes away.
    Select {
        /// The dimension.
        dim: usize,
        /// The index, negative from the end.
        index: isize,
    },
    /// Dimensions in reverse; a bit each.
    Flip {
        /// Bit per dimension.
        mask: u64,
    },
    /// The operand, which compiled code stores, by a kernel that computes nothing else (scheduler L-08).
    Barrier,
    /// The diagonal of two dimensions, as a new last one.
    Diagonal {
        /// Offset: positive above the main diagonal.
        offset: isize,
        /// The row dimension.
        a: usize,
        /// The column dimension.
        b: usize,
    },
    /// Windows of one dimension, as a new last dimension of `size`.
    Unfold {
        /// The dimension.
        dim: usize,
        /// Window length.
        size: usize,
        /// Distance of windows.
        step: usize,
    },
    /// The whole repeated per dimension; extra counts add leading dimensions.
    Repeat(SmallVec<[usize; 4]>),
    /// Elements added (or, negative, cropped) before and after each dimension: operands x, the value.
    Pad(SmallVec<[(isize, isize); 4]>),
    /// Operands joined along a dimension.
    Cat {
        /// The dimension.
        dim: usize,
    },
    /// A reduction over dimensions.
    Reduce {
        /// What is computed.
        kind: ReduceKind,
        /// Bit per reduced dimension.
        mask: u64,
        /// Whether they stay as 1.
        keepdim: bool,
    },
    /// A scan along a dimension.
    Scan {
        /// What is computed.
        kind: ScanKind,
        /// The dimension.
        dim: usize,
    },
    /// A dimension in order, equal elements as they stood; NaN is the greatest.
    Sort {
        /// The dimension.
        dim: usize,
        /// Greatest first.
        descending: bool,
    },
    /// Positions (`I64`) that sort a dimension, stable; NaN sorts as the greatest.
    ArgSort {
        /// The dimension.
        dim: usize,
        /// Greatest first.
        descending: bool,
    },
    /// The k greatest (or least) of a dimension, in order, ties by position; NaN is the greatest.
    TopK {
        /// How many.
        k: usize,
        /// The dimension.
        dim: usize,
        /// Greatest instead of least.
        largest: bool,
    },
    /// Positions (`I64`) of the k greatest (or least) of a dimension, in order, ties by position.
    ArgTopK {
        /// How many.
        k: usize,
        /// The dimension.
        dim: usize,
        /// Greatest instead of least.
        largest: bool,
    },
    /// `out[i] = x[i with i[dim] replaced by index[i]]`: operands x, index (same rank).
    Gather {
        /// The dimension.
        dim: usize,
    },
    /// Advanced indexing: operands x, then one index tensor for each axis; they broadcast to a block of dimensions
    /// that stands at `at` in the result, with the axes not indexed around it in order.
    Index {
        /// Indexed axes, ascending.
        axes: SmallVec<[u8; 4]>,
        /// Position of the block of index dimensions among the kept axes.
        at: usize,
    },
    /// `x` with `src` written (or added) at advanced indices: operands x, src (broadcast to the indexed shape), indices.
    IndexPut {
        /// Indexed axes, ascending.
        axes: SmallVec<[u8; 4]>,
        /// As in [`Op::Index`].
        at: usize,
        /// Add instead of writing.
        accumulate: bool,
    },
    /// `x` with `src[i]` met at `i with i[dim] replaced by index[i]`: operands x, index, src.
    Scatter {
        /// The dimension.
        dim: usize,
        /// How values meet.
        mode: ScatterMode,
        /// Whether the value already in `x` takes part.
        include_self: bool,
    },
    /// `x` with a slice of one dimension replaced: operands x, src (broadcast to the slice).
    SliceAssign {
        /// The dimension.
        dim: usize,
        /// As in [`Op::Slice`].
        start: isize,
        /// As in [`Op::Slice`].
        end: isize,
        /// As in [`Op::Slice`].
        step: usize,
    },
    /// Matrix product, batched with broadcasting, 1-d operands as vectors (PyTorch's `matmul`).
    Matmul,
    /// Convolution: operands x `[n, c, ...]`, weight.
    Conv(Box<ConvSpec>),
    /// A convolution, or a gradient of one, as a device's library has it.
    Correlate(Box<Correlation>),
    /// Pooling of the trailing spatial dimensions.
    Pool(Box<PoolSpec>),
    /// Mean over adaptive windows of the last two dimensions.
    AdaptiveAvgPool {
        /// Result sizes.
        size: [usize; 2],
    },
    /// Resampling of the last two dimensions.
    Interpolate {
        /// Result sizes.
        size: [usize; 2],
        /// 0 nearest, 1 bilinear, 2 bicubic.
        order: u8,
        /// Whether corners map to corners.
        align_corners: bool,
    },
    /// A matrix product or convolution whose result of a half type is left as it was summed, in binary32: what a definition
    /// adds to it is rounded once with it. Programs do not record it.
    Unrounded(Box<Op>),
    /// Defined by its decomposition.
    Composite(Composite),
}

/// What an operator's rules know of an operand.
#[derive(Clone, Copy, Debug)]
pub enum ArgMeta<'a> {
    /// A tensor of this shape and dtype.
    Tensor(&'a Shape, DType),
    /// A number.
    Scalar(Scalar),
}

impl<'a> ArgMeta<'a> {
    /// The shape: that of a 0-d tensor for a number.
    pub fn shape(&self) -> Shape {
        match self {
            ArgMeta::Tensor(shape, _) => (*shape).clone(),
            ArgMeta::Scalar(_) => Shape::scalar(),
        }
    }

    /// The dtype: a number's default dtype.
    pub fn dtype(&self) -> DType {
        match self {
            ArgMeta::Tensor(_, dtype) => *dtype,
            ArgMeta::Scalar(scalar) => scalar.default_dtype(),
        }
    }

    /// The tensor's shape and dtype.
    pub fn tensor(&self) -> Option<(&'a Shape, DType)> {
        match self {
            ArgMeta::Tensor(shape, dtype) => Some((shape, *dtype)),
            ArgMeta::Scalar(_) => None,
        }
    }

    /// The promotion category.
    pub fn category(&self) -> Category {
        self.dtype().category()
    }
}
