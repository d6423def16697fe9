//! Scans along a dimension.

mod gradient;

use super::tensor;
use crate::arg::{Arg, array};
use crate::copy::{Dense, cast, contiguous};
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::scan::{ArgMax, ArgMin, Extent, LogSumExp, Max, Min, Prod, Sum, scan};
use crate::cuda;
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, OnDevice, Operator, facts, question};
use crate::text::{Line, Named, Value};
use crate::{ArgMeta, Array, Class, OpBuilder};
use ferrotrace_runtime::{DType, Device, Element, Error, ErrorKind, Result, Shape};

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

const KINDS: [ScanKind; 7] = [
    ScanKind::Sum,
    ScanKind::Prod,
    ScanKind::LogSumExp,
    ScanKind::Max,
    ScanKind::Min,
    ScanKind::ArgMax,
    ScanKind::ArgMin,
];

/// A scan along a dimension.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scan {
    /// What is computed.
    pub kind: ScanKind,
    /// The dimension.
    pub dim: usize,
}

impl Scan {
    /// Whether the result is positions.
    fn is_of_indices(&self) -> bool {
        matches!(self.kind, ScanKind::ArgMax | ScanKind::ArgMin)
    }
}

question! {
    /// The scan that it is.
    as_scan: Scan(Scan)
}

impl Operator for Scan {
    fn name(&self) -> &'static str {
        name(self.kind)
    }

    fn attributes(&self) -> Vec<Named> {
        let mut list = vec![("dim", self.dim.write())];
        list.extend(self.is_of_indices().then(|| ("indices", true.write())));
        list
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Scan>> {
        let of_kind = |kind| Scan { kind, dim: 0 };
        let named = KINDS.map(of_kind).into_iter();
        let mut named = named.filter(|op| op.name() == name);
        let Some(op) = named.find(|op| op.is_of_indices() == line.has("indices")) else {
            return Ok(None);
        };
        let dim = line.value("dim")?;
        Ok(Some(Scan { dim, ..op }))
    }

    facts! { class: Class::Scan, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self.kind, self.dim, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        self.pull(b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run(self.kind, self.dim, args, shape, dtype)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for Scan {
    /// Running log Σ exp along the last dimension, in binary32 or binary64.
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        shape: &Shape,
        dtype: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        let floats = matches!(dtype, DType::F32 | DType::F64);
        if self.kind != ScanKind::LogSumExp || self.dim + 1 < shape.rank() || !floats {
            return Ok(None);
        }
        cuda::scan::logcumsumexp(&dense(array(args, 0)?)?).map(Some)
    }
}

/// The name of the scan.
pub(super) fn name(kind: ScanKind) -> &'static str {
    match kind {
        ScanKind::Sum => "cumsum",
        ScanKind::Prod => "cumprod",
        ScanKind::LogSumExp => "logcumsumexp",
        ScanKind::Max | ScanKind::ArgMax => "cummax",
        ScanKind::Min | ScanKind::ArgMin => "cummin",
    }
}

/// `dim` exists; dimension 0 of a 0-d tensor does, with one element.
pub(super) fn check_dim(dim: usize, shape: &Shape) -> Result<()> {
    if dim < shape.rank().max(1) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Dim {
        dim: dim as isize,
        rank: shape.rank(),
    }))
}

/// `shape` as (elements before `dim`, size of `dim`, elements after it).
pub(super) fn extent(shape: &Shape, dim: usize) -> Extent {
    if shape.rank() == 0 {
        return Extent {
            outer: 1,
            len: 1,
            inner: 1,
        };
    }
    Extent {
        outer: shape[..dim].iter().product(),
        len: shape[dim],
        inner: shape[dim + 1..].iter().product(),
    }
}

pub(super) fn infer(kind: ScanKind, dim: usize, args: &[ArgMeta<'_>]) -> Inferred {
    let (shape, dtype) = tensor(args, 0)?;
    check_dim(dim, shape)?;
    let dtype = match kind {
        ScanKind::Sum | ScanKind::Prod if !dtype.is_float() => DType::I64,
        ScanKind::LogSumExp if !dtype.is_float() => {
            return Err(Error::untaken("logcumsumexp", dtype, DType::F32));
        }
        ScanKind::ArgMax | ScanKind::ArgMin => DType::I64,
        _ => dtype,
    };
    Ok((shape.clone(), dtype))
}

/// Runs the scan: each element of the result is the combination of those up to it, rounded once from a running value
/// kept in binary32 for the half types, in binary64 for `LogSumExp`, and in the element type otherwise.
///
/// # Errors
/// Out of memory.
pub fn run(kind: ScanKind, dim: usize, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let x = array(args, 0)?;
    // Loops exist for the widest type of each kind, which holds every running value of the narrower ones.
    let wide = |dtype: DType| match dtype {
        DType::F64 => DType::F64,
        other if other.is_float() => DType::F32,
        _ => DType::I64,
    };
    let x = contiguous(&cast(x, wide(x.dtype))?)?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), wide(dtype))?;
    let e = extent(shape, dim);
    macro_rules! over {
        ($($t:ty),*; $scan:ident) => {
            match x.dtype {
                $(<$t as Element>::DTYPE => scan::<$scan<$t>>(elements(&x)?, elements_mut(&mut out)?, e),)*
                other => return Err(Error::internal(format!("a scan of {other}"))),
            }
        };
    }
    match kind {
        ScanKind::LogSumExp => over!(f32, f64; LogSumExp),
        ScanKind::Sum => over!(f32, f64, i64; Sum),
        ScanKind::Prod => over!(f32, f64, i64; Prod),
        ScanKind::Max => over!(f32, f64, i64; Max),
        ScanKind::Min => over!(f32, f64, i64; Min),
        ScanKind::ArgMax => over!(f32, f64, i64; ArgMax),
        ScanKind::ArgMin => over!(f32, f64, i64; ArgMin),
    }
    cast(&out, dtype)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fixture::{integers, metas, of, read, strided};
    use ferrotrace_runtime::ErrorKind;

    fn apply(kind: ScanKind, dim: usize, x: Array) -> Result<(DType, Vec<f64>)> {
        let args = [Arg::Array(x)];
        let (shape, dtype) = infer(kind, dim, &metas(&args))?;
        let out = run(kind, dim, &args, &shape, dtype)?;
        assert_eq!((out.shape(), out.dtype), (&shape, dtype));
        Ok((dtype, read(&out)))
    }

    fn reference(kind: ScanKind, e: Extent, x: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; x.len()];
        for o in 0..e.outer {
            for c in 0..e.inner {
                let at = |i: usize| (o * e.len + i) * e.inner + c;
                for i in 0..e.len {
                    let upto: Vec<f64> = (0..=i).map(|j| x[at(j)]).collect();
                    let best = |better: fn(f64, f64) -> bool| {
                        (0..=i).fold(0, |b, j| if better(upto[j], upto[b]) { j } else { b })
                    };
                    out[at(i)] = match kind {
                        ScanKind::Sum => upto.iter().sum(),
                        ScanKind::Prod => upto.iter().product(),
                        ScanKind::LogSumExp => upto.iter().map(|v| v.exp()).sum::<f64>().ln(),
                        ScanKind::Max => upto.iter().copied().fold(f64::MIN, f64::max),
                        ScanKind::Min => upto.iter().copied().fold(f64::MAX, f64::min),
                        ScanKind::ArgMax => best(|a, b| a >= b) as f64,
                        ScanKind::ArgMin => best(|a, b| a <= b) as f64,
                    };
                }
            }
        }
        out
    }

    #[test]
    fn every_dtype_along_every_dim() {
        use ScanKind::*;
        let dims = [3, 5, 6];
        for dtype in DType::ALL {
            let top = if dtype == DType::Bool { 1 } else { 2 };
            let low = if dtype.is_float() { -2 } else { 0 };
            let x = integers(90, 7, low, top);
            for kind in [Sum, Prod, LogSumExp, Max, Min, ArgMax, ArgMin] {
                for dim in 0..3 {
                    let shape = Shape::from(dims);
                    let want = reference(kind, extent(&shape, dim), &x);
                    for x in [of(dtype, &dims, &x), strided(dtype, &dims, &x)] {
                        let got = apply(kind, dim, x);
                        if kind == LogSumExp && !dtype.is_float() {
                            assert!(got.is_err());
                            continue;
                        }
                        let (out, got) = got.expect("a scan");
                        let within = |(a, b): (&f64, &f64)| {
                            let places = match (kind, out) {
                                (LogSumExp, DType::F16) => 2e-3,
                                (LogSumExp, DType::BF16) => 1.6e-2,
                                (LogSumExp, _) => 1e-6,
                                _ => 0.0,
                            };
                            (a - b).abs() <= places * (1.0 + b.abs())
                        };
                        assert!(got.iter().zip(&want).all(within), "{kind:?} {dtype} {dim}");
                    }
                }
            }
        }
    }

    #[test]
    fn halves_round_each_sum_once() {
        // A running sum kept in binary16 would stay at 2048.
        let (_, got) = apply(ScanKind::Sum, 0, of(DType::F16, &[2100], &[1.0; 2100])).expect("sum");
        assert_eq!(got[2099], 2100.0);
    }

    #[test]
    fn scalars_empties_and_errors() {
        assert_eq!(
            apply(ScanKind::Sum, 0, of(DType::Bool, &[], &[1.0]))
                .expect("0-d")
                .1,
            [1.0]
        );
        assert_eq!(
            apply(ScanKind::ArgMax, 0, of(DType::F32, &[], &[3.0]))
                .expect("0-d")
                .1,
            [0.0]
        );
        for (dims, dim) in [([0, 3], 0), ([3, 0], 0), ([3, 0], 1)] {
            assert!(
                apply(ScanKind::Max, dim, of(DType::F32, &dims, &[]))
                    .expect("empty")
                    .1
                    .is_empty()
            );
        }
        let error = apply(ScanKind::Sum, 2, of(DType::F32, &[1, 1], &[0.0])).expect_err("no dim");
        assert!(matches!(error.kind(), ErrorKind::Dim { dim: 2, rank: 2 }));
    }
}
