//! Rows in the order of an elimination.

use super::triangular::broadcast;
use super::{Matrices, check_dtype, matrices, spread, with_float};
use crate::arg::{Arg, array};
use crate::copy::contiguous;
use crate::cpu::dense::{elements, elements_mut};
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, Operator, facts, text};
use crate::ops::tensor;
use crate::{ArgMeta, Array, Class, Op, OpBuilder};
use ferrotrace_runtime::{DType, Error, Result, Shape};

/// Matrices whose rows are exchanged step by step: step j exchanges row j with the row that the second operand, of `I32`, says,
/// counted from 1 as LAPACK does. `[.., m, k]` and `[.., p]`, p ≤ m, give `[.., m, k]`; batches broadcast.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ExchangeRows {
    /// The last step first, which undoes the exchanges.
    pub back: bool,
}

impl Operator for ExchangeRows {
    text!("exchange_rows" { back });
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| of.result() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let of = matrices(self.name(), args, 0)?;
        let (places, dtype) = tensor(args, 1)?;
        if dtype != DType::I32 {
            return Err(Error::untaken(self.name(), dtype, DType::I32));
        }
        let &[ref batch @ .., steps] = places.dims() else {
            return Err(Error::shape("pivots are one number, not a row of them"));
        };
        if steps > of.rows {
            let why = format!("{steps} pivots of {} rows", of.rows);
            return Err(Error::shape(why));
        }
        let Some(batch) = of.batch.broadcast(&Shape::new(batch)) else {
            let why = format!("matrices {} and pivots {places} do not broadcast", of.batch);
            return Err(Error::shape(why));
        };
        let dtype = of.dtype;
        let of = Matrices { batch, ..of };
        Ok((of.sized(of.rows, of.columns), dtype))
    }

    /// The gradient's rows, exchanged back.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        let mut gradients = of.none();
        let op = ExchangeRows { back: !self.back };
        let operands = [of.gradient.into(), of.args[1]];
        gradients[0] = Some(b.push(Op::Factorisation(op.into()), &operands)?);
        Ok(gradients)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        check_dtype(self.name(), dtype)?;
        let mut out = broadcast(array(args, 0)?, shape)?;
        let places = contiguous(array(args, 1)?)?;
        let (rank, own) = (shape.rank(), places.shape().rank());
        let (m, k) = (shape[rank - 2], shape[rank - 1]);
        let steps = places.shape()[own - 1];
        let of = spread(&places.shape()[..own - 1], &shape[..rank - 2]);
        let places = elements::<i32>(&places)?;
        if let Some(row) = places.iter().find(|&&row| row < 1 || row as usize > m) {
            let why = format!("pivot {row} is none of {m} rows, which are counted from 1");
            return Err(Error::argument(why));
        }
        with_float!(self.name(), dtype, T => {
            let matrices = elements_mut::<T>(&mut out)?.chunks_exact_mut((m * k).max(1));
            for (x, of) in matrices.zip(of) {
                let places = &places[of * steps..(of + 1) * steps];
                let exchange = |(j, &row): (usize, &i32)| {
                    let (j, row) = (j * k, (row as usize - 1) * k);
                    for c in 0..k {
                        x.swap(j + c, row + c);
                    }
                };
                match self.back {
                    false => places.iter().enumerate().for_each(exchange),
                    true => places.iter().enumerate().rev().for_each(exchange),
                }
            }
            Ok(())
        })?;
        Ok(out)
    }
}
