//! The methods of [`Tensor`], by family. Nearly every one records a single operator; what an argument gets wrong
//! becomes a tensor that carries the error.

mod activation;
mod binary;
mod conv;
mod create;
mod elementwise;
mod fourier;
mod index;
mod join;
mod linalg;
mod loss;
mod mix;
mod norm;
mod numeric;
mod pool;
mod product;
mod random;
mod reduce;
mod scan;
mod scatter;
mod shape;
mod view;

pub use binary::Rounding;
pub use ferrotrace_kernels::Reduction;
pub use linalg::MatrixNorm;
pub use numeric::Overlap;
pub use pool::{GridPadding, Interpolation};
pub use scatter::{Bag, BagMode, ReduceOp};
pub use view::PadMode;

use crate::args::Operand;
use crate::{Input, Tensor};
use ferrotrace_kernels::{BinaryOp, Composite, Op, UnaryOp};
use ferrotrace_runtime::{DType, Error, Result, Scalar};

/// The value of a `Result`, or a return from the method with a tensor that carries the error.
macro_rules! attempt {
    ($name:expr, $result:expr $(, $tensor:expr)*) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Tensor::failed($name, error, &[$($tensor),*]),
        }
    };
}

/// [`attempt`] in a method with two results: both carry the error.
macro_rules! attempt_both {
    ($name:expr, $result:expr, $tensor:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => {
                let failed = Tensor::failed($name, error, &[$tensor]);
                return (failed.clone(), failed);
            }
        }
    };
}

/// Methods without arguments that record one operator, each with an example on two numbers.
macro_rules! unary_methods {
    ($($(#[doc = $doc:literal])* $name:ident => $op:expr, $x:tt => $y:tt;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            ///
            /// ```
            /// # use ferrotrace_tracer::prelude::*;
            #[doc = concat!("let x = Tensor::from_slice(&", stringify!($x), ", 2, &Device::cpu());")]
            #[doc = concat!("let y = Tensor::from_slice(&", stringify!($y), ", 2, &Device::cpu());")]
            #[doc = concat!("assert!(x.", stringify!($name), "().allclose(&y, 1e-6, 1e-6)?);")]
            /// # Ok::<(), Error>(())
            /// ```
            #[track_caller]
            pub fn $name(&self) -> Tensor {
                self.apply($op)
            }
        )*}
    };
}

pub(crate) use {attempt, attempt_both, unary_methods};

impl Tensor {
    /// Records an operator of this tensor alone.
    #[track_caller]
    pub(crate) fn apply(&self, op: Op) -> Tensor {
        Tensor::record(op, &[Input::Tensor(self)])
    }

    /// An error that recording this tensor met, within a method that has its own name: not tied to an operation yet.
    pub(crate) fn recorded(&self) -> Result<()> {
        match self.node().error() {
            None => Ok(()),
            Some(error) => Err(Error::new(error.kind().clone())),
        }
    }

    /// This result of the method `name` upon `operands`: an error that recording one of its operators met is told as the
    /// method's own.
    #[track_caller]
    pub(crate) fn called(self, name: &'static str, operands: &[&Tensor]) -> Tensor {
        match self.node().error() {
            None => self,
            Some(error) => Tensor::failed(name, Error::new(error.kind().clone()), operands),
        }
    }

    #[track_caller]
    pub(crate) fn unary(&self, op: UnaryOp) -> Tensor {
        self.apply(Op::Unary(op))
    }

    /// Applies `op` for a method of another name, which errors tell instead of the operator's.
    #[track_caller]
    pub(crate) fn apply_as(&self, name: &'static str, op: Op) -> Tensor {
        Tensor::record_as(name, op, &[Input::Tensor(self)])
    }

    /// Records an operator of two operands. A number that the integers of this tensor cannot hold is compared as it is;
    /// arithmetic takes it modulo their range.
    #[track_caller]
    pub(crate) fn binary<'a>(&self, op: BinaryOp, rhs: impl Into<Operand<'a>>) -> Tensor {
        use BinaryOp::{Eq, Ge, Gt, Le, Lt, Maximum, Minimum, Ne};
        let mut rhs = rhs.into();
        if let Operand::Scalar(number) = rhs {
            let limit = self.limit(number);
            match op {
                Maximum | Minimum => rhs = Operand::Scalar(limit),
                Eq | Ne | Lt | Le | Gt | Ge if limit.to_i64() != number.to_i64() => {
                    return self.to_dtype(DType::I64).binary(op, number);
                }
                _ => {}
            }
        }
        Tensor::record(Op::Binary(op), &[Input::Tensor(self), rhs.input()])
    }

    /// The value nearest to an integer among those that this tensor's integers can have; other numbers as they are.
    pub(crate) fn limit(&self, number: Scalar) -> Scalar {
        match (number, self.dtype().int_range()) {
            (Scalar::Int(n), Some((low, high))) => Scalar::Int(n.clamp(low, high)),
            _ => number,
        }
    }

    /// Records a composite of this tensor and numbers.
    #[track_caller]
    pub(crate) fn composite(&self, op: Composite, numbers: &[Scalar]) -> Tensor {
        self.with_tensors(op, &[], numbers)
    }

    /// Records a composite of this tensor, the tensors that are present, then numbers.
    #[track_caller]
    pub(crate) fn with_tensors(
        &self,
        op: Composite,
        tensors: &[Option<&Tensor>],
        numbers: &[Scalar],
    ) -> Tensor {
        let mut inputs = vec![Input::Tensor(self)];
        inputs.extend(
            tensors
                .iter()
                .flatten()
                .map(|&tensor| Input::Tensor(tensor)),
        );
        inputs.extend(numbers.iter().map(|&number| Input::Scalar(number)));
        Tensor::record(Op::Composite(op), &inputs)
    }
}

/// A number as an element of `dtype`.
///
/// # Errors
/// It does not [fit](Scalar::fits).
pub(crate) fn element(number: Scalar, dtype: DType) -> Result<Scalar> {
    match number.fits(dtype) {
        true => Ok(number.cast(dtype)),
        false => Err(Error::argument(format!("{number} does not fit {dtype}"))),
    }
}

/// The dtype that a number has to fit where it is one element of `dtype` by itself: half types round any to infinity.
pub(crate) fn made_as(dtype: DType) -> DType {
    if dtype.is_half() { DType::F64 } else { dtype }
}
