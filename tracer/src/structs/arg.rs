//! What a `jit` function can take, and how it is rebuilt on stand-ins while the function is traced.

use super::TensorStruct;
use super::visit::Visit;
use crate::Tensor;
use std::any::Any;
use std::cell::OnceCell;
use std::fmt;
use std::marker::PhantomData;
use std::slice;

/// A family of argument types that differ in lifetimes alone. Implemented by markers; users name argument types.
pub trait ArgKind: Sized + 'static {
    /// The argument type of this lifetime.
    type Of<'a>: JitArg;

    /// An argument like `like` on the tensors of `lender`.
    #[doc(hidden)]
    fn lend<'p>(like: &'p Self::Of<'_>, lender: &mut Lender<'p>) -> Self::Of<'p>;
}

/// A type that a `jit` function can take: `&Tensor`, `Tensor` (given away), numbers, truth values, texts, structs with
/// `#[derive(TensorStruct)]`, by value (given away) and by reference, and arrays, vectors, options, maps and tuples of
/// them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument of a compiled function",
    note = "an argument is `&Tensor`, `Tensor`, a number, a struct with `#[derive(TensorStruct)]`, or a tuple of them"
)]
pub trait JitArg {
    /// The family it belongs to.
    type Kind: ArgKind;

    /// Shows its tensors and values to `visit`, in order.
    #[doc(hidden)]
    fn visit<'v>(&'v self, visit: &mut Visit<'v>);
}

/// Tensors that stand for an argument's while its function is traced, and a place for structs that it refers to.
#[doc(hidden)]
pub struct Lender<'p> {
    tensors: slice::Iter<'p, Tensor>,
    kept: slice::Iter<'p, Kept>,
}

/// A struct that an argument refers to.
pub(crate) type Kept = OnceCell<Box<dyn Any>>;

impl fmt::Debug for Lender<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lender")
            .field("tensors", &self.tensors.len())
            .field("kept", &self.kept.len())
            .finish()
    }
}

impl<'p> Lender<'p> {
    /// `tensors` has one for each tensor of the argument, `kept` one for each reference to an owned struct.
    pub(crate) fn new(tensors: &'p [Tensor], kept: &'p [Kept]) -> Lender<'p> {
        Lender {
            tensors: tensors.iter(),
            kept: kept.iter(),
        }
    }

    /// A struct like `like` on the next tensors.
    fn rebuild<T: TensorStruct>(&mut self, like: &T) -> T {
        like.rebuild(&mut |_| {
            let next = self.tensors.next();
            next.expect("there are as many tensors as the argument has")
                .clone()
        })
    }

    /// Keeps what an argument refers to. An argument that is lent again refers to what it did before.
    fn keep<T: Any>(&mut self, value: T) -> &'p T {
        let place = self.kept.next();
        let place = place.expect("there are as many places as the argument has references");
        let kept = place.get_or_init(|| Box::new(value)).downcast_ref();
        kept.expect("a place is of one type")
    }
}

/// The family of a type without lifetimes, taken by value.
#[derive(Debug)]
#[doc(hidden)]
pub struct Owned<T>(PhantomData<fn() -> T>);

impl<T: TensorStruct> ArgKind for Owned<T> {
    type Of<'a> = T;

    fn lend<'p>(like: &'p T, lender: &mut Lender<'p>) -> T {
        lender.rebuild(like)
    }
}

/// The family of references to a type without lifetimes.
#[derive(Debug)]
#[doc(hidden)]
pub struct Borrowed<T>(PhantomData<fn() -> T>);

impl<T: TensorStruct> ArgKind for Borrowed<T> {
    type Of<'a> = &'a T;

    fn lend<'p>(like: &'p &T, lender: &mut Lender<'p>) -> &'p T {
        let rebuilt = lender.rebuild(*like);
        lender.keep(rebuilt)
    }
}

impl<T: TensorStruct> JitArg for &T {
    type Kind = Borrowed<T>;

    #[inline]
    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.borrowed(*self);
    }
}

impl JitArg for Tensor {
    type Kind = Owned<Tensor>;

    #[inline]
    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.tensor(self);
    }
}

impl TensorStruct for Tensor {
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
        visit(self);
    }

    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> Tensor {
        tensor(self)
    }
}

/// The family of texts.
#[derive(Debug)]
#[doc(hidden)]
pub struct Text;

impl ArgKind for Text {
    type Of<'a> = &'a str;

    fn lend<'p>(like: &'p &str, _: &mut Lender<'p>) -> &'p str {
        like
    }
}

impl JitArg for &str {
    type Kind = Text;

    fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
        visit.bytes(self.as_bytes());
    }
}
