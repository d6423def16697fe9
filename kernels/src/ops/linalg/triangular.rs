//! Equations of triangular matrices.

use super::build::{minus, product_turned, solved, triangle};
use super::{check_dtype, solutions, spread, square, with_float};
use crate::arg::{Arg, array};
use crate::copy::{Dense, contiguous, copied, copied_on};
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::linalg::{SMALL, SmallEquations, SmallForm, Triangular, each, solve};
use crate::cuda;
use crate::op::gradient::{Adjoint, Gradients, transposed};
use crate::op::operator::{Inferred, OnDevice, Operator, facts, text};
use crate::{ArgMeta, Array, Class, OpBuilder, Sizes};
use ferrotrace_runtime::{DType, Device, Error, Result, Shape};

/// The solution x of a·x = b, where a is triangular: only its triangle is read. Batches broadcast. A diagonal element of 0
/// gives infinities or NaN.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SolveTriangular {
    /// The upper triangle instead of the lower one.
    pub upper: bool,
    /// The diagonal is taken to be 1, and not read.
    pub unit: bool,
}

impl SolveTriangular {
    /// Of the upper triangle with its diagonal.
    pub const UPPER: SolveTriangular = SolveTriangular {
        upper: true,
        unit: false,
    };

    /// Of the lower triangle with its diagonal.
    pub const LOWER: SolveTriangular = SolveTriangular {
        upper: false,
        unit: false,
    };

    /// Of a matrix with rows and columns exchanged.
    pub fn turned(self) -> SolveTriangular {
        SolveTriangular {
            upper: !self.upper,
            ..self
        }
    }
}

impl Operator for SolveTriangular {
    text!("solve_triangular" { upper, unit });
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| substitution(of) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = square(self.name(), args, 0)?;
        Ok((solutions(self.name(), args, 1, &of)?, of.dtype))
    }

    /// h = a⁻ᵀ·g for b, and the triangle of −h·xᵀ for a.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let mut gradients = of.none();
        let turned = transposed(b, of.value(0)?)?;
        let right = solved(b, self.turned(), turned, of.gradient)?;
        if of.wants(0) {
            let product = product_turned(b, right, of.result)?;
            let product = minus(b, product)?;
            let k = match (self.unit, self.upper) {
                (false, _) => 0,
                (true, false) => -1,
                (true, true) => 1,
            };
            gradients[0] = Some(triangle(b, product, k, self.upper)?);
        }
        gradients[1] = of.wants(1).then_some(right);
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let (a, b) = (contiguous(array(args, 0)?)?, array(args, 1)?);
        let mut out = broadcast(b, shape)?;
        let (rank, from) = (shape.rank(), a.shape().rank());
        let (n, k) = (shape[rank - 2], shape[rank - 1]);
        let of = spread(&a.shape()[..from - 2], &shape[..rank - 2]);
        let form = Triangular {
            upper: self.upper,
            unit: self.unit,
        };
        with_float!(self.name(), dtype, T => {
            let a = elements::<T>(&a)?;
            if n <= SMALL {
                let form = SmallForm::Triangle(form);
                let equations = SmallEquations { elements: a, of: &of, n, form };
                let found = equations.solve(elements_mut::<T>(&mut out)?, k);
                return found.map(|()| out).map_err(|_| Error::internal("no fault"));
            }
            let one = |i: usize, x: &mut [T]| {
                solve(&a[of[i] * n * n..(of[i] + 1) * n * n], n, x, k, form);
                Ok(())
            };
            each(elements_mut::<T>(&mut out)?, n * k, n * n * k, one).map_err(|_| Error::internal("no fault"))
        })?;
        Ok(out)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for SolveTriangular {
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        shape: &Shape,
        dtype: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        check_dtype(self.name(), dtype)?;
        let rank = shape.rank();
        let a = matched(array(args, 0)?, &shape[..rank - 2], dense)?;
        let out = copied_on(&widened(array(args, 1)?, shape)?, dense)?;
        let form = Triangular {
            upper: self.upper,
            unit: self.unit,
        };
        cuda::linalg::triangular::solve(&a, &out, (shape[rank - 2], shape[rank - 1]), form)?;
        Ok(Some(out))
    }
}

/// One matrix, or a matrix for each of a batch: where that has several dimensions, dense.
pub(super) fn matched(a: &Array, batch: &[usize], dense: Dense<'_>) -> Result<Array> {
    let rank = a.shape().rank();
    let (own, matrix) = a.shape().split_at(rank - 2);
    let count: usize = own.iter().product();
    if count == 1 || own == batch && rank <= 3 {
        return Ok(a.clone());
    }
    if own == batch {
        return dense(a);
    }
    dense(&widened(a, &Shape::new(&[batch, matrix].concat()))?)
}

/// An operand as a view that is broadcast to a shape.
pub(super) fn widened(x: &Array, shape: &Shape) -> Result<Array> {
    let layout = x.layout.broadcast_to(shape);
    let layout = layout.ok_or_else(|| Error::internal("batches do not broadcast"))?;
    Ok(x.with_layout(layout))
}

/// A dense copy of an operand, broadcast to a shape.
pub(super) fn broadcast(x: &Array, shape: &Shape) -> Result<Array> {
    copied(&widened(x, shape)?)
}

/// A multiplication for each element of a matrix and each right-hand side.
pub(super) fn substitution(of: &Sizes<'_>) -> u64 {
    of.result().saturating_mul(of.last(0, 1))
}
