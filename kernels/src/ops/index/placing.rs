//! Scatters by the order of their places, as a device's library has them: the order is a value of its own, which scatters with
//! one index share.

use super::{infer_scatter, scatter_over, scatter_type, tensor};
use crate::arg::{Arg, array};
use crate::copy::{Dense, cast, contiguous};
use crate::cpu::copy::copy;
use crate::cpu::dense::{elements, elements_mut};
use crate::cuda;
use crate::op::operator::{Inferred, OnDevice, Operator, facts, no_gradient, text};
use crate::{ArgMeta, Array, Class, ScatterMode};
use ferrotrace_runtime::{DType, Device, Error, Layout, Result, Shape};

/// The stable order of places: of a vector of `n` numbers in `0..places`, `I32` or `I64`, a matrix `[2, n]` of their dtype,
/// the numbers in ascending order and behind them the position that each had.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaceOrder {
    /// How many places there are.
    pub places: usize,
}

impl Operator for PlaceOrder {
    text!("place_order" { places });
    facts! { class: Class::Library, light: false, jumps: true, work: |_, of| of.sort(0) }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (index, dtype) = tensor(args, 0)?;
        match (index.rank(), dtype) {
            (1, DType::I32 | DType::I64) => Ok((Shape::from([2, index[0]]), dtype)),
            _ => Err(Error::argument(format!("places {dtype}{index}"))),
        }
    }

    no_gradient!();

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        let index = contiguous(&cast(array(args, 0)?, DType::I64)?)?;
        let places = elements::<i64>(&index)?;
        let mut positions: Vec<i64> = (0..places.len() as i64).collect();
        positions.sort_by_key(|&at| places[at as usize]);
        let keys = positions.iter().map(|&at| places[at as usize]);
        let both: Vec<i64> = keys.chain(positions.iter().copied()).collect();
        let mut out = Array::empty(index.buffer.device(), shape.clone(), DType::I64)?;
        elements_mut::<i64>(&mut out)?.copy_from_slice(&both);
        cast(&out, dtype)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for PlaceOrder {
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        _: &Shape,
        _: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        let index = dense(array(args, 0)?)?;
        cuda::scatter::order(&index, self.places).map(Some)
    }
}

/// `x` with the rows of a source met at places, those of one place in the order of the source: operands x
/// `[places, width]`, the [order](PlaceOrder) of `n` places, a source `[n, width]` of x's dtype.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PlaceRows {
    /// How values meet.
    pub mode: ScatterMode,
    /// Whether the value already in `x` takes part.
    pub include_self: bool,
}

impl Operator for PlaceRows {
    text!("place_rows" { mode, include_self });
    facts! { class: Class::Library, light: false, jumps: false, work: |_, of| of.elements() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (order, dtype) = tensor(args, 1)?;
        let (src, _) = tensor(args, 2)?;
        let fits = order.rank() == 2 && src.rank() == 2 && order[..] == [2, src[0]];
        if !fits {
            return Err(Error::shape(format!(
                "an order of shape {order} for a source of shape {src}"
            )));
        }
        let index = ArgMeta::Tensor(src, dtype);
        infer_scatter(0, self.mode, &[args[0], index, args[2]])
    }

    no_gradient!();

    fn run(&self, args: &[Arg], _: &Shape, dtype: DType) -> Result<Array> {
        let (x, order, src) = (array(args, 0)?, array(args, 1)?, array(args, 2)?);
        let order = contiguous(&cast(order, DType::I64)?)?;
        let (n, both) = (src.shape()[0], elements::<i64>(&order)?);
        let mut index = Array::empty(x.buffer.device(), Shape::from([n, 1]), DType::I64)?;
        let at = elements_mut::<i64>(&mut index)?;
        for (place, position) in both[..n].iter().zip(&both[n..]) {
            at[*position as usize] = *place;
        }
        let spread = Layout::new(src.shape().clone(), [1, 0][..].into(), 0);
        let index = Arg::Array(index.with_layout(spread));
        let mut out = copy(x, x.shape(), scatter_type(dtype, self.mode))?;
        let args = [args[0].clone(), index, args[2].clone()];
        scatter_over(&mut out, 0, self.mode, self.include_self, &args)?;
        cast(&out, dtype)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for PlaceRows {
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        _: &Shape,
        _: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        cuda::scatter::ordered(args, (self.mode, self.include_self), dense)
    }

    fn writes_over(&self) -> bool {
        true
    }
}
