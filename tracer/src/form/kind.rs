//! What an operation and its result are, apart from the values: inferred once for each place in a program.

use super::hash::{node_hash, operand_kinds};
use crate::backend::Precision;
use crate::mode;
use ferrotrace_kernels::op::gradient::Reads;
use ferrotrace_kernels::{ArgMeta, Array, Op};
use ferrotrace_runtime::{Category, DType, Device, Error, Shape};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

/// An operation with what is inferred of its result.
#[derive(Debug)]
pub(crate) struct Kind {
    /// The operation; none for data that came from outside.
    pub op: Option<Op>,
    /// What the program called to record it, where that is not the operator's name.
    pub name: Option<&'static str>,
    /// Shape of the result; `[0]` for an operation that failed when recorded.
    pub shape: Shape,
    /// Element type of the result.
    pub dtype: DType,
    /// Where the result lies.
    pub device: Device,
    /// The precision in force when recorded.
    pub precision: Precision,
    /// Hash of the operation, its precision and result type, and the kinds of its operands, not of what they are.
    pub hash: u64,
    /// What the operator's gradient rule reads, where the gradients of the operands of these bits are asked for.
    pub reads: Mutex<Option<(u64, Arc<Reads>)>>,
}

/// What inference looks at of an operand: of a number its category alone.
#[derive(Debug, PartialEq)]
enum Operand {
    Tensor(Shape, DType),
    Number(Category),
}

impl Operand {
    fn of(arg: &ArgMeta<'_>) -> Operand {
        match arg {
            ArgMeta::Tensor(shape, dtype) => Operand::Tensor((*shape).clone(), *dtype),
            ArgMeta::Scalar(scalar) => Operand::Number(scalar.category()),
        }
    }

    #[inline]
    fn is_of(&self, arg: &ArgMeta<'_>) -> bool {
        match (self, arg) {
            (Operand::Tensor(shape, dtype), ArgMeta::Tensor(other, of)) => {
                dtype == of && shape == *other
            }
            (Operand::Number(category), ArgMeta::Scalar(scalar)) => *category == scalar.category(),
            _ => false,
        }
    }
}

/// The last operation recorded at a place, with operands of sizes that share it.
struct Known {
    operands: SmallVec<[Operand; 2]>,
    kind: Arc<Kind>,
}

impl Known {
    #[inline]
    fn is(
        &self,
        (op, name): (&Op, Option<&'static str>),
        args: &[ArgMeta<'_>],
        device: &Device,
        precision: Precision,
    ) -> bool {
        self.kind.op.as_ref() == Some(op)
            && self.kind.name.map(str::as_ptr) == name.map(str::as_ptr)
            && self.kind.precision == precision
            && self.kind.device == *device
            && self.operands.len() == args.len()
            && self.operands.iter().zip(args).all(|(a, b)| a.is_of(b))
    }
}

/// Places kept, in each thread, by the user's line, the operator and the operands' sizes: a line in a loop over a list of
/// tensors has as many kinds as the list has sizes.
const PLACES: usize = 1024;

thread_local! {
    static KNOWN: RefCell<Vec<Option<Known>>> = const { RefCell::new(Vec::new()) };
}

#[inline]
fn place(location: &'static Location<'static>, op: &Op, args: &[ArgMeta<'_>]) -> usize {
    let mut mixed = std::ptr::from_ref(location) as u64 >> 3 ^ u64::from(op.salt()) << 40;
    for arg in args {
        if let ArgMeta::Tensor(shape, _) = arg {
            for &size in shape.iter() {
                mixed = mixed.rotate_left(23) ^ size as u64;
            }
        }
    }
    // The high bits of a product depend on all of its factor (Knuth, 1973).
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PLACES.trailing_zeros())) as usize
}

impl Kind {
    /// The kind of data from outside, in the precision in force.
    pub fn of_data(shape: &Shape, dtype: DType, device: &Device) -> Kind {
        Kind {
            op: None,
            name: None,
            shape: shape.clone(),
            dtype,
            device: device.clone(),
            precision: mode::precision(),
            hash: 0,
            reads: Mutex::default(),
        }
    }

    /// The operation of a node that is not data from outside.
    #[inline]
    pub fn op(&self) -> &Op {
        self.op
            .as_ref()
            .expect("only kinds of operations are asked for one")
    }

    /// What errors call the operation.
    pub fn called(&self) -> &'static str {
        self.name.unwrap_or_else(|| self.op().name())
    }

    /// Whether gradients go through it: floats, and the results of a program in one block.
    #[inline]
    pub fn has_gradient(&self) -> bool {
        self.dtype.is_float() || self.op.as_ref().is_some_and(|op| op.as_program().is_some())
    }

    /// The address of a kind, which identifies it for as long as it is held.
    #[inline]
    pub fn address(kind: &Arc<Kind>) -> usize {
        Arc::as_ptr(kind) as usize
    }

    /// Whether both are the same, wherever they were recorded, and whatever was called.
    #[inline]
    pub fn same(a: &Arc<Kind>, b: &Arc<Kind>) -> bool {
        Arc::ptr_eq(a, b)
            || (a.op == b.op
                && a.precision == b.precision
                && a.dtype == b.dtype
                && a.shape == b.shape
                && a.device == b.device)
    }

    /// What a view of this kind shows of data, unless it needs a copy.
    pub fn view(&self, array: &Array) -> Option<Array> {
        let (op, shape) = (self.op(), &self.shape);
        let layout = op.as_view()?.layout(&array.layout, shape)?;
        Some(array.with_layout(layout))
    }

    /// The kind of the operation on operands that give another shape; `kinds` is their [`operand_kinds`].
    pub fn with_shape(&self, shape: Shape, kinds: u64) -> Kind {
        let (precision, dtype) = (self.precision, self.dtype);
        Kind {
            hash: node_hash(self.op(), precision, dtype, &shape, kinds),
            op: self.op.clone(),
            name: self.name,
            shape,
            dtype,
            device: self.device.clone(),
            precision,
            reads: Mutex::default(),
        }
    }

    /// The kind of the operation, or of another that gives the same result, on a device.
    pub fn on(&self, device: &Device, op: Option<Op>) -> Kind {
        Kind {
            op: op.or_else(|| self.op.clone()),
            shape: self.shape.clone(),
            device: device.clone(),
            reads: Mutex::default(),
            ..*self
        }
    }

    /// The kind of `op` on these operands, recorded at `location`, by a method of another name if one is given.
    ///
    /// # Errors
    /// The operands do not fit; the operation comes back with the error.
    #[inline]
    pub fn of(
        (op, name): (Op, Option<&'static str>),
        args: &[ArgMeta<'_>],
        device: &Device,
        precision: Precision,
        location: &'static Location<'static>,
    ) -> Result<Arc<Kind>, (Op, Error)> {
        let place = place(location, &op, args);
        let known = KNOWN.try_with(|known| {
            let known = known.try_borrow().ok()?;
            let known = known.get(place)?.as_ref()?;
            let same = known.is((&op, name), args, device, precision);
            same.then(|| known.kind.clone())
        });
        match known {
            Ok(Some(kind)) => Ok(kind),
            _ => Kind::infer((op, name), args, device, precision, place),
        }
    }

    #[inline(never)]
    fn infer(
        (op, name): (Op, Option<&'static str>),
        args: &[ArgMeta<'_>],
        device: &Device,
        precision: Precision,
        place: usize,
    ) -> Result<Arc<Kind>, (Op, Error)> {
        let (shape, dtype) = match op.infer(args) {
            Ok(inferred) => inferred,
            Err(error) => return Err((op, error)),
        };
        let kinds = operand_kinds(args);
        let kind = Arc::new(Kind {
            hash: node_hash(&op, precision, dtype, &shape, kinds),
            op: Some(op),
            name,
            shape,
            dtype,
            device: device.clone(),
            precision,
            reads: Mutex::default(),
        });
        let known = Known {
            operands: args.iter().map(Operand::of).collect(),
            kind: kind.clone(),
        };
        // A thread that ends has no places any more.
        let _ = KNOWN.try_with(|places| {
            let Ok(mut places) = places.try_borrow_mut() else {
                return None;
            };
            if places.is_empty() {
                places.resize_with(PLACES, || None);
            }
            places[place].replace(known)
        });
        Ok(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_kernels::{BinaryOp, UnaryOp};
    use ferrotrace_runtime::Scalar;

    fn kind(op: Op, args: &[ArgMeta<'_>], precision: Precision) -> Arc<Kind> {
        let location = Location::caller();
        Kind::of((op, None), args, &Device::cpu(), precision, location).expect("the operands fit")
    }

    #[test]
    fn one_for_all_values_and_another_for_whatever_else_differs() {
        let (a, b) = (Shape::from([2, 3]), Shape::from([3]));
        let add = || Op::Binary(BinaryOp::Add);
        let number = |value| ArgMeta::Scalar(value);
        let of = |shape, value| {
            kind(
                add(),
                &[ArgMeta::Tensor(shape, DType::F32), number(value)],
                Precision::Fast,
            )
        };
        // Each twice: found, and made anew after another took the place.
        let first = of(&a, Scalar::Float(1.0));
        assert!(Arc::ptr_eq(&first, &of(&a, Scalar::Float(2.0))));
        assert_eq!(of(&b, Scalar::Float(1.0)).shape, b);
        assert_ne!(of(&a, Scalar::Int(1)).hash, first.hash);
        let again = of(&a, Scalar::Float(1.0));
        assert_eq!((again.hash, &again.shape), (first.hash, &a));

        let halves = [ArgMeta::Tensor(&a, DType::F16), number(Scalar::Int(1))];
        assert_eq!(kind(add(), &halves, Precision::Fast).dtype, DType::F16);
        let exact = kind(add(), &halves, Precision::EagerExact);
        assert_eq!(exact.precision, Precision::EagerExact);
        let other = kind(
            Op::Unary(UnaryOp::Exp),
            &[ArgMeta::Tensor(&b, DType::F32)],
            Precision::Fast,
        );
        assert_eq!(other.shape, b);
    }

    #[test]
    fn a_line_over_a_list_keeps_a_kind_for_each_size() {
        let shapes: Vec<Shape> = (1..=64).map(|n| Shape::from([n, 3])).collect();
        let of = |shape| {
            let args = [ArgMeta::Tensor(shape, DType::F32)];
            kind(Op::Unary(UnaryOp::Exp), &args, Precision::Fast)
        };
        let first: Vec<Arc<Kind>> = shapes.iter().map(of).collect();
        let again: Vec<Arc<Kind>> = shapes.iter().map(of).collect();
        let pairs = || first.iter().zip(&again);
        assert!(pairs().all(|(a, b)| a.shape == b.shape && a.hash == b.hash));
        // Two of them may share a place.
        assert!(pairs().filter(|(a, b)| Arc::ptr_eq(a, b)).count() > 32);
    }

    #[test]
    fn what_does_not_fit_is_not_kept() {
        let (a, b) = (Shape::from([2, 3]), Shape::from([4]));
        let args = [
            ArgMeta::Tensor(&a, DType::F32),
            ArgMeta::Tensor(&b, DType::F32),
        ];
        for _ in 0..2 {
            let refused = Kind::of(
                (Op::Binary(BinaryOp::Mul), None),
                &args,
                &Device::cpu(),
                Precision::Fast,
                Location::caller(),
            );
            assert!(refused.is_err());
        }
    }
}
