//! Sums of matrix products as one operator.

use super::{Arg, Array, array};
use crate::cpu::dense::{Plain, in_the_making};
use crate::cpu::sum::{Term, sum_of_products};
use crate::cpu::vector::Real;
use crate::cpu::view::View;
use crate::op::gradient::{Adjoint, Gradients, transposed};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::ops::tensor;
use crate::{ArgMeta, Class, OpBuilder, OpBuilderExt};
use ferrotrace_runtime::{DType, Element, Error, Result, Shape};

/// A sum of matrix products, a₁·b₁ + a₂·b₂ + ..: of operands a₁, b₁, a₂, b₂, .. of shapes `[m, kᵢ]` and `[kᵢ, n]`, all of
/// binary32 or all of binary64, the matrix `[m, n]`. Programs do not record it; plans for the CPU do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SumOfProducts;

impl Operator for SumOfProducts {
    text!("sum_of_products");
    facts! {
        class: Class::Library,
        light: false,
        jumps: false,
        // 2 m n k for each product.
        work: |_, of| {
            let inner = |i: usize| of.size(2 * i, 1);
            2 * of.result() * (0..of.operands.len() / 2).map(inner).sum::<u64>()
        }
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (first, dtype) = tensor(args, 0)?;
        let (second, _) = tensor(args, 1)?;
        let (&[m, _], &[_, n]) = (&first[..], &second[..]) else {
            return Err(Error::shape("a sum of products of what are not matrices"));
        };
        if !matches!(dtype, DType::F32 | DType::F64) {
            return Err(Error::untaken("sum_of_products", dtype, DType::F32));
        }
        for i in (0..args.len()).step_by(2) {
            let ((a, a_dtype), (b, b_dtype)) = (tensor(args, i)?, tensor(args, i + 1)?);
            let fits = a.rank() == 2 && b.rank() == 2 && (a[0], a[1], b[1]) == (m, b[0], n);
            if !fits || a_dtype != dtype || b_dtype != dtype {
                return Err(Error::shape(format!(
                    "a product of {a_dtype} {a} and {b_dtype} {b} in a sum of {dtype} [{m}, {n}]"
                )));
            }
        }
        Ok((Shape::from([m, n]), dtype))
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let mut gradients = of.none();
        for i in (0..gradients.len()).filter(|&i| of.wants(i)) {
            let other = transposed(b, of.value(i ^ 1)?)?;
            gradients[i] = Some(match i % 2 {
                0 => b.matmul(of.gradient, other)?,
                _ => b.matmul(other, of.gradient)?,
            });
        }
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let mut out = Array::empty(array(args, 0)?.buffer.device(), shape.clone(), dtype)?;
        match dtype {
            DType::F64 => run::<f64>(args, &mut out)?,
            DType::F32 => run::<f32>(args, &mut out)?,
            other => return Err(Error::internal(format!("a sum of products of {other}"))),
        }
        Ok(out)
    }
}

fn run<T: Element + Real + Plain>(args: &[Arg], out: &mut Array) -> Result<()> {
    let mut terms = Vec::with_capacity(args.len() / 2);
    for i in (0..args.len()).step_by(2) {
        let (a, b) = (array(args, i)?, array(args, i + 1)?);
        terms.push(Term {
            a: matrix::<T>(a),
            b: matrix::<T>(b),
            k: a.shape()[1],
        });
    }
    let (m, n) = (out.shape()[0], out.shape()[1]);
    sum_of_products((m, n), &terms, &in_the_making(out)?)
}

/// A matrix where it lies.
fn matrix<T: Element>(x: &Array) -> View<'_, T> {
    let strides = x.layout.strides();
    View {
        data: x.buffer.as_slice::<T>(),
        start: x.layout.offset(),
        row: strides[0],
        col: strides[1],
    }
}
