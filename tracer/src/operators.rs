//! The operators of `std::ops`: `+ - * / % & | ^ << >>`, unary `-` and `!`, and the assigning forms; sums of iterators.

use crate::args::Operand;
use crate::{Input, Tensor};
use ferrotrace_kernels::{BinaryOp, Op, UnaryOp};
use ferrotrace_runtime::{DType, Device, Error, Scalar};
use std::iter::Sum;
use std::ops::{
    Add, AddAssign, BitAnd, BitAndAssign, BitOr, BitOrAssign, BitXor, BitXorAssign, Div, DivAssign,
    Mul, MulAssign, Neg, Not, Rem, RemAssign, Shl, ShlAssign, Shr, ShrAssign, Sub, SubAssign,
};

macro_rules! left_numbers {
    ($Trait:ident, $method:ident, $op:ident, [$($number:ty),*]) => {$(
        impl $Trait<&Tensor> for $number {
            type Output = Tensor;

            #[track_caller]
            fn $method(self, rhs: &Tensor) -> Tensor {
                let inputs = [Input::Scalar(Scalar::from(self)), Input::Tensor(rhs)];
                Tensor::record(Op::Binary(BinaryOp::$op), &inputs)
            }
        }

        impl $Trait<Tensor> for $number {
            type Output = Tensor;

            #[track_caller]
            fn $method(self, rhs: Tensor) -> Tensor {
                let inputs = [Input::Scalar(Scalar::from(self)), Input::Tensor(&rhs)];
                Tensor::record(Op::Binary(BinaryOp::$op), &inputs)
            }
        }
    )*};
}

// One implementation for every type of right operand, so that the type of `&x * 4` is inferred before the literal's.
macro_rules! binary_operators {
    ($numbers:tt; $($Trait:ident $method:ident, $Assign:ident $assign:ident => $op:ident;)*) => {$(
        impl<'a, R: Into<Operand<'a>>> $Trait<R> for &Tensor {
            type Output = Tensor;

            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                self.binary(BinaryOp::$op, rhs)
            }
        }

        impl<'a, R: Into<Operand<'a>>> $Trait<R> for Tensor {
            type Output = Tensor;

            #[track_caller]
            fn $method(self, rhs: R) -> Tensor {
                self.binary(BinaryOp::$op, rhs)
            }
        }

        left_numbers!($Trait, $method, $op, $numbers);

        /// Replaces the left tensor by a new value of the same shape and dtype, or by one that carries an error where
        /// the result would have another shape or a higher category of dtype. Other handles keep the old value.
        impl<'a, R: Into<Operand<'a>>> $Assign<R> for Tensor {
            #[track_caller]
            fn $assign(&mut self, rhs: R) {
                let result = self.binary(BinaryOp::$op, rhs);
                *self = keep_type(self, result, BinaryOp::$op);
            }
        }
    )*};
}

binary_operators! {
    [f64, i64, Scalar];
    Add add, AddAssign add_assign => Add;
    Sub sub, SubAssign sub_assign => Sub;
    Mul mul, MulAssign mul_assign => Mul;
    Div div, DivAssign div_assign => Div;
    Rem rem, RemAssign rem_assign => Mod;
}

// These work on each bit of integers, and are logic on truth values.
binary_operators! {
    [bool, i64, Scalar];
    BitAnd bitand, BitAndAssign bitand_assign => BitwiseAnd;
    BitOr bitor, BitOrAssign bitor_assign => BitwiseOr;
    BitXor bitxor, BitXorAssign bitxor_assign => BitwiseXor;
    Shl shl, ShlAssign shl_assign => Shl;
    Shr shr, ShrAssign shr_assign => Shr;
}

/// The result of an assigning operator as a value of the left operand's dtype.
#[track_caller]
fn keep_type(left: &Tensor, result: Tensor, op: BinaryOp) -> Tensor {
    if result.node().error().is_some() {
        return result;
    }
    let (from, to) = (result.dtype(), left.dtype());
    if from.category() > to.category() {
        let why = format!("a result of dtype {from} cannot be stored in a tensor of dtype {to}");
        return Tensor::failed(op.name(), Error::dtype(why), &[left]);
    }
    if result.sizes() != left.sizes() {
        let (from, to) = (result.sizes(), left.sizes());
        let why = format!("a result of shape {from} cannot be stored in a tensor of shape {to}");
        return Tensor::failed(op.name(), Error::shape(why), &[left]);
    }
    result.to_dtype(to)
}

impl Neg for &Tensor {
    type Output = Tensor;

    #[track_caller]
    fn neg(self) -> Tensor {
        self.unary(UnaryOp::Neg)
    }
}

impl Neg for Tensor {
    type Output = Tensor;

    #[track_caller]
    fn neg(self) -> Tensor {
        self.unary(UnaryOp::Neg)
    }
}

/// Negation of truth values; of integers, every bit inverted.
impl Not for &Tensor {
    type Output = Tensor;

    #[track_caller]
    fn not(self) -> Tensor {
        match self.dtype() {
            DType::Bool => self.unary(UnaryOp::LogicalNot),
            _ => self.unary(UnaryOp::BitwiseNot),
        }
    }
}

impl Not for Tensor {
    type Output = Tensor;

    #[track_caller]
    fn not(self) -> Tensor {
        !&self
    }
}

/// The sum of tensors that broadcast: one after the other is added, as `+` does. Of none it is a 0-d zero of `F32` on the
/// CPU.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// let losses: Vec<Tensor> = (0..3).map(|i| Tensor::scalar(i, DType::F32, &Device::cpu())).collect();
/// assert_eq!(losses.iter().sum::<Tensor>().item::<f32>()?, 3.0);
/// assert_eq!(losses.into_iter().sum::<Tensor>().item::<f32>()?, 3.0);
/// # Ok::<(), Error>(())
/// ```
impl Sum for Tensor {
    #[track_caller]
    fn sum<I: Iterator<Item = Tensor>>(tensors: I) -> Tensor {
        let mut sum: Option<Tensor> = None;
        for tensor in tensors {
            sum = Some(match sum {
                Some(sum) => sum + tensor,
                None => tensor,
            });
        }
        sum.unwrap_or_else(|| Tensor::zeros((), DType::F32, &Device::cpu()))
    }
}

impl<'a> Sum<&'a Tensor> for Tensor {
    #[track_caller]
    fn sum<I: Iterator<Item = &'a Tensor>>(tensors: I) -> Tensor {
        tensors.cloned().sum()
    }
}
