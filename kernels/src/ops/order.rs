//! In which order the elements of an elementwise operator's result lie in memory.
//!
//! As those of the first operand that has the result's shape and repeats no element, as in PyTorch's TensorIterator where
//! operands agree; row-major where there is none. The result is dense. Both modes follow this rule.

use crate::{Arg, Array, Op};
use ferrotrace_runtime::{DType, Layout, Result, Shape};
use smallvec::SmallVec;

/// Dimensions, outermost in memory first.
pub type Order = SmallVec<[usize; 6]>;

impl Op {
    /// Whether the operator computes each element of its result of those at the same place, and its result lies in memory
    /// as an operand does. A cast to the type that the operand has makes it dense and row-major; `from` is that type.
    pub fn keeps_order(&self, from: DType) -> bool {
        self.is_elementwise() && !self.is_copy(from)
    }

    /// Whether it converts its operand, of dtype `from`, to the dtype that it has: what is asked for is a copy.
    pub fn is_copy(&self, from: DType) -> bool {
        self.as_cast() == Some(from)
    }
}

/// The order of a layout's dimensions; `None` where elements repeat. Dimensions of size 1 stay before the next one.
pub fn of_layout(layout: &Layout) -> Option<Order> {
    let shape = layout.shape();
    let long = (0..shape.rank()).filter(|&d| shape[d] != 1);
    let mut order: Order = long.collect();
    if order.iter().any(|&d| layout.strides()[d] == 0) {
        return None;
    }
    order.sort_by_key(|&d| std::cmp::Reverse(layout.strides()[d].unsigned_abs()));
    for d in (0..shape.rank()).rev().filter(|&d| shape[d] == 1) {
        let next = (d + 1..shape.rank()).next();
        let at = next.and_then(|next| order.iter().position(|&k| k == next));
        order.insert(at.unwrap_or(order.len()), d);
    }
    Some(order)
}

/// Whether it is row-major, whatever the sizes.
pub fn is_row_major(order: &[usize]) -> bool {
    order.is_sorted()
}

/// Runs an elementwise operator so that its result lies as the rule says: `run` is given operands and the shape with
/// dimensions in the order of memory, and gives a row-major result.
pub(crate) fn kept(
    args: &[Arg],
    shape: &Shape,
    run: impl FnOnce(&[Arg], &Shape) -> Result<Array>,
) -> Result<Array> {
    let first = args.iter().find_map(|arg| match arg {
        Arg::Array(x) if x.shape() == shape => Some(x).filter(|x| of_layout(&x.layout).is_some()),
        _ => None,
    });
    let order = first
        .filter(|x| !x.layout.is_contiguous())
        .and_then(|x| of_layout(&x.layout))
        .filter(|order| !is_row_major(order));
    let Some(order) = order else {
        return run(args, shape);
    };
    let turned: Shape = order.iter().map(|&d| shape[d]).collect();
    let turn = |arg: &Arg| match arg {
        // A tensor without dimensions takes part in promotion as a number does.
        Arg::Array(x) if x.shape().rank() > 0 => {
            let spread = x.layout.broadcast_to(shape);
            spread.map(|layout| Arg::Array(x.with_layout(layout.permute(&order))))
        }
        arg => Some(arg.clone()),
    };
    let Some(operands) = args
        .iter()
        .map(turn)
        .collect::<Option<SmallVec<[Arg; 3]>>>()
    else {
        return run(args, shape);
    };
    let y = run(&operands, &turned)?;
    let mut back: Order = SmallVec::from_elem(0, order.len());
    for (at, &d) in order.iter().enumerate() {
        back[d] = at;
    }
    let layout = y.layout.permute(&back);
    Ok(y.with_layout(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(shape: &[usize], strides: &[isize]) -> Option<Vec<usize>> {
        let layout = Layout::new(Shape::new(shape), strides.into(), 0);
        of_layout(&layout).map(|order| order.to_vec())
    }

    #[test]
    fn orders_follow_strides() {
        assert_eq!(order(&[2, 3], &[3, 1]), Some(vec![0, 1]));
        assert_eq!(order(&[2, 3], &[1, 2]), Some(vec![1, 0]));
        // Channels last, and mirrored.
        assert_eq!(
            order(&[2, 3, 4, 5], &[60, 1, 15, 3]),
            Some(vec![0, 2, 3, 1])
        );
        assert_eq!(order(&[2, 3], &[1, -2]), Some(vec![1, 0]));
        // Elements that repeat have no order.
        assert_eq!(order(&[2, 3], &[0, 1]), None);
        // Dimensions of size 1 have no place of their own.
        let all = order(&[1, 3, 1, 4], &[7, 1, 9, 3]).unwrap_or_default();
        let long: Vec<usize> = all.iter().copied().filter(|d| d % 2 == 1).collect();
        assert_eq!((all.len(), long), (4, vec![3, 1]));
    }
}
