//! Gaussian elimination, and equations by its factors.

use super::build::{
    minus, on_diagonal, product_turned, rows, solved, solved_behind, triangle, turned_product,
};
use super::triangular::{SolveTriangular, broadcast, matched, substitution, widened};
use super::{
    check_dtype, cubic, factorised, failed, matrices, solutions, spread, square, with_float,
};
use crate::arg::{Arg, array};
use crate::copy::{Dense, contiguous};
use crate::cpu::dense::{elements, elements_mut};
use crate::cpu::linalg::{
    Fault, Float, PACKED_HEAD as HEAD, SMALL, SmallEquations, SmallForm, Triangular, each, lu,
    lu_small, solve,
};
use crate::cuda;
use crate::op::gradient::{Adjoint, Gradients, expanded, transposed};
use crate::op::operator::{Inferred, OnDevice, Operator, facts, text};
use crate::op::{ArgSort, Gather, Select, Unsqueeze};
use crate::{ArgMeta, Array, BinaryOp, Class, Op, OpBuilder, OpBuilderExt, ValueId};
use ferrotrace_runtime::{DType, Device, Error, Result, Shape};

/// The factors of square matrices with rows exchanged: P·A = L·U. `[.., n, n]` gives `[.., 2 + n, n]`: first which row of A
/// each row is, and with which row each step exchanged its own, as numbers; then U, with L below it, whose diagonal is 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lu {}

impl Operator for Lu {
    text!("lu_factor");
    facts! { class: Class::Library, light: false, jumps: true, work: |_, of| cubic(of, 1) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = square(self.name(), args, 0)?;
        Ok((of.sized(HEAD + of.rows, of.rows), of.dtype))
    }

    /// Pᵀ·L⁻ᵀ·(tril₋₁(Lᵀ·g) + triu(g·Uᵀ))·U⁻ᵀ. A pivot of 0 is taken to be the least step from 1, so that what is asked of a
    /// determinant of 0 exists.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let shape = b.shape(of.gradient).clone();
        let rank = shape.rank();
        let n = shape[rank - 1];
        let (gradient, factors) = (rows(b, of.gradient, HEAD, n)?, rows(b, of.result, HEAD, n)?);
        let (lower, upper) = (
            triangle(b, gradient, -1, false)?,
            triangle(b, gradient, 0, true)?,
        );
        let below = triangle(b, factors, -1, false)?;
        let own = turned_product(b, below, lower)?;
        let own = b.add(own, lower)?;
        let own = triangle(b, own, -1, false)?;
        let pivots = nonzero(b, factors, n)?;
        let above = triangle(b, pivots, 0, true)?;
        let other = product_turned(b, upper, above)?;
        let other = triangle(b, other, 0, true)?;
        let inner = b.add(own, other)?;
        let unit = SolveTriangular {
            upper: true,
            unit: true,
        };
        let turned = transposed(b, factors)?;
        let inner = solved(b, unit, turned, inner)?;
        let inner = solved_behind(b, SolveTriangular::UPPER, pivots, inner)?;
        put_back(b, of.result, inner).map(|found| of.first(found))
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let (x, n) = (array(args, 0)?, shape.last().copied().unwrap_or(0));
        with_float!(self.name(), dtype, T => {
            if n <= SMALL {
                let x = contiguous(x)?;
                let mut out = Array::empty(x.buffer.device(), shape.clone(), dtype)?;
                lu_small(elements::<T>(&x)?, elements_mut::<T>(&mut out)?, n);
                return Ok(out);
            }
            factorised::<T>(x, shape, (n * n, (HEAD + n) * n), n * n * n, |x, out| {
                let (head, factors) = out.split_at_mut(HEAD * n);
                factors.copy_from_slice(x);
                let mut rows = vec![0; HEAD * n];
                let (order, exchanged) = rows.split_at_mut(n);
                lu(factors, n, order, exchanged);
                head.iter_mut().zip(rows).for_each(|(to, row)| *to = row as T);
                Ok(())
            })
        })
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for Lu {
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        shape: &Shape,
        dtype: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        check_dtype(self.name(), dtype)?;
        let n = shape.last().copied().unwrap_or(0);
        cuda::linalg::lu::lu(&dense(array(args, 0)?)?, n, shape)
    }
}

/// The factors, with a step of the numbers in place of pivots that are 0.
fn nonzero(b: &mut dyn OpBuilder, factors: ValueId, n: usize) -> Result<ValueId> {
    let step = match b.dtype(factors) {
        DType::F32 => f64::from(f32::EPSILON),
        _ => f64::EPSILON,
    };
    let diagonal = on_diagonal(b, n)?;
    let zero = b.binary(BinaryOp::Eq, factors, 0.0)?;
    let pivot = b.binary(BinaryOp::LogicalAnd, zero, diagonal)?;
    b.select(pivot, step, factors)
}

/// Rows in the order of the matrix that was factorised.
fn put_back(b: &mut dyn OpBuilder, packed: ValueId, x: ValueId) -> Result<ValueId> {
    let shape = b.shape(x).clone();
    let dim = shape.rank() - 2;
    let order = b.push(Op::Select(Select { dim, index: 0 }), &[packed.into()])?;
    let descending = false;
    let places = b.push(Op::ArgSort(ArgSort { dim, descending }), &[order.into()])?;
    let places = b.push(Op::Unsqueeze(Unsqueeze { dim: dim + 1 }), &[places.into()])?;
    let places = expanded(b, places, &shape)?;
    b.push(Op::Gather(Gather { dim }), &[x.into(), places.into()])
}

/// The solution x of a·x = b by the factors of a, which are the second operand; a itself is what the gradient goes to. Batches
/// broadcast.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LuSolve {
    /// Of aᵀ·x = b instead.
    pub transposed: bool,
}

impl Operator for LuSolve {
    text!("lu_solve" { transposed });
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| 2 * substitution(of) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = square(self.name(), args, 0)?;
        let factors = matrices(self.name(), args, 1)?;
        let fit = factors.batch == of.batch && factors.columns == of.columns;
        if !fit || factors.rows != of.rows + HEAD || factors.dtype != of.dtype {
            return Err(Error::shape("the factors are those of another matrix"));
        }
        Ok((solutions(self.name(), args, 2, &of)?, of.dtype))
    }

    /// h = a⁻ᵀ·g for b, and −h·xᵀ for a; none for the factors, which the matrix has told already.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let mut gradients = of.none();
        let turned = LuSolve {
            transposed: !self.transposed,
        };
        let operands = [of.args[0], of.args[1], of.gradient.into()];
        let right = b.push(Op::Factorisation(turned.into()), &operands)?;
        if of.wants(0) {
            let product = match self.transposed {
                false => product_turned(b, right, of.result)?,
                true => product_turned(b, of.result, right)?,
            };
            gradients[0] = Some(minus(b, product)?);
        }
        gradients[2] = of.wants(2).then_some(right);
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let factors = contiguous(array(args, 1)?)?;
        let mut out = broadcast(array(args, 2)?, shape)?;
        let (rank, from) = (shape.rank(), factors.shape().rank());
        let (n, k) = (shape[rank - 2], shape[rank - 1]);
        let of = spread(&factors.shape()[..from - 2], &shape[..rank - 2]);
        with_float!(self.name(), dtype, T => {
            let (factors, size) = (elements::<T>(&factors)?, (HEAD + n) * n);
            if n <= SMALL {
                let form = SmallForm::Packed {
                    transposed: self.transposed,
                };
                let equations = SmallEquations { elements: factors, of: &of, n, form };
                let found = equations.solve(elements_mut::<T>(&mut out)?, k);
                return found.map(|()| out).map_err(|e| failed(of.len(), e));
            }
            let one = |i: usize, x: &mut [T]| {
                equations(&factors[of[i] * size..(of[i] + 1) * size], n, x, k, self.transposed)
            };
            let all = elements_mut::<T>(&mut out)?;
            each(all, n * k, 2 * n * n * k, one).map_err(|e| failed(of.len(), e))
        })?;
        Ok(out)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for LuSolve {
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
        let (batch, sizes) = (&shape[..rank - 2], (shape[rank - 2], shape[rank - 1]));
        let packed = dense(&matched(array(args, 1)?, batch, dense)?)?;
        let b = dense(&widened(array(args, 2)?, shape)?)?;
        let found = cuda::linalg::lu::solve(&packed, &b, sizes, self.transposed, dense)?;
        found.map(Some).map_err(|(at, row)| {
            let count = batch.iter().product();
            failed(count, (at, Fault::Singular(row)))
        })
    }
}

/// Solves in place by packed factors.
fn equations<T: Float>(
    packed: &[T],
    n: usize,
    x: &mut [T],
    k: usize,
    transposed: bool,
) -> Result<(), Fault> {
    let (order, factors) = (&packed[..n], &packed[HEAD * n..]);
    if let Some(j) = (0..n).find(|&j| factors[j * n + j] == T::ZERO) {
        return Err(Fault::Singular(j + 1));
    }
    let form = |upper, unit| Triangular { upper, unit };
    let row = |i: usize| {
        let from = order[i].to_f64() as usize;
        from * k..(from + 1) * k
    };
    if transposed {
        let turned = crate::cpu::linalg::transposed(factors, n, n);
        solve(&turned, n, x, k, form(false, false));
        solve(&turned, n, x, k, form(true, true));
        let found = x.to_vec();
        for (i, found) in found.chunks_exact(k).enumerate() {
            x[row(i)].copy_from_slice(found);
        }
    } else {
        let given = x.to_vec();
        for (i, x) in x.chunks_exact_mut(k).enumerate() {
            x.copy_from_slice(&given[row(i)]);
        }
        solve(factors, n, x, k, form(false, true));
        solve(factors, n, x, k, form(true, false));
    }
    Ok(())
}
