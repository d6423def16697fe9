//! What a `jit` function can take.

use crate::Tensor;
use smallvec::SmallVec;

/// A family of argument types that differ in a lifetime alone. Implemented by markers; users name argument types.
pub trait ArgKind: Sized + 'static {
    /// The argument type of this lifetime.
    type Of<'a>;

    /// Shows the tensors and numbers in `arg` to `visit`, in order.
    #[doc(hidden)]
    fn visit<'v>(arg: &'v Self::Of<'_>, visit: &mut ArgVisit<'v>);

    /// An argument like `like` with its tensors replaced by the next of `tensors`.
    #[doc(hidden)]
    fn rebuild<'p>(like: &Self::Of<'_>, tensors: &mut std::slice::Iter<'p, Tensor>)
    -> Self::Of<'p>;
}

/// A type that a `jit` function can take: `&Tensor`, `Tensor` (given away), numbers, `usize`, `bool`, and arrays,
/// vectors and tuples of them.
pub trait JitArg {
    /// The family it belongs to.
    type Kind: ArgKind;
}

/// A number, length, size or truth value of an argument, which is part of the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct ArgValue {
    pub(crate) kind: u8,
    pub(crate) bits: u64,
}

impl ArgValue {
    /// Whether a gradient can be asked of a tensor.
    pub(crate) fn of_required(required: bool) -> ArgValue {
        ArgValue {
            kind: 11,
            bits: u64::from(required),
        }
    }

    /// Whether it is a number, and no length, size or truth value.
    pub(crate) fn is_number(&self) -> bool {
        (1..=6).contains(&self.kind)
    }
}

/// What an argument consists of.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct ArgVisit<'v> {
    /// Tensors, and whether they are given away.
    pub(crate) tensors: SmallVec<[(&'v Tensor, bool); 6]>,
    pub(crate) values: SmallVec<[ArgValue; 6]>,
}

/// The family of `&Tensor`.
#[derive(Debug)]
#[doc(hidden)]
pub struct Borrowed;

impl ArgKind for Borrowed {
    type Of<'a> = &'a Tensor;

    fn visit<'v>(arg: &'v &Tensor, visit: &mut ArgVisit<'v>) {
        visit.tensors.push((*arg, false));
    }

    fn rebuild<'p>(_: &&Tensor, tensors: &mut std::slice::Iter<'p, Tensor>) -> &'p Tensor {
        tensors
            .next()
            .expect("there are as many tensors as the argument has")
    }
}

impl JitArg for &Tensor {
    type Kind = Borrowed;
}

/// The family of `Tensor`.
#[derive(Debug)]
#[doc(hidden)]
pub struct Given;

impl ArgKind for Given {
    type Of<'a> = Tensor;

    fn visit<'v>(arg: &'v Tensor, visit: &mut ArgVisit<'v>) {
        visit.tensors.push((arg, true));
    }

    fn rebuild<'p>(_: &Tensor, tensors: &mut std::slice::Iter<'p, Tensor>) -> Tensor {
        tensors
            .next()
            .expect("there are as many tensors as the argument has")
            .clone()
    }
}

impl JitArg for Tensor {
    type Kind = Given;
}

/// The family of arrays.
#[derive(Debug)]
#[doc(hidden)]
pub struct ArrayOf<K, const N: usize>(std::marker::PhantomData<K>);

impl<K: ArgKind, const N: usize> ArgKind for ArrayOf<K, N> {
    type Of<'a> = [K::Of<'a>; N];

    fn visit<'v>(arg: &'v [K::Of<'_>; N], visit: &mut ArgVisit<'v>) {
        arg.iter().for_each(|item| K::visit(item, visit));
    }

    fn rebuild<'p>(
        like: &[K::Of<'_>; N],
        tensors: &mut std::slice::Iter<'p, Tensor>,
    ) -> [K::Of<'p>; N] {
        std::array::from_fn(|i| K::rebuild(&like[i], tensors))
    }
}

impl<T: JitArg, const N: usize> JitArg for [T; N] {
    type Kind = ArrayOf<T::Kind, N>;
}

/// The family of vectors.
#[derive(Debug)]
#[doc(hidden)]
pub struct VecOf<K>(std::marker::PhantomData<K>);

impl<K: ArgKind> ArgKind for VecOf<K> {
    type Of<'a> = Vec<K::Of<'a>>;

    fn visit<'v>(arg: &'v Vec<K::Of<'_>>, visit: &mut ArgVisit<'v>) {
        visit.values.push(ArgValue {
            kind: 0,
            bits: arg.len() as u64,
        });
        arg.iter().for_each(|item| K::visit(item, visit));
    }

    fn rebuild<'p>(
        like: &Vec<K::Of<'_>>,
        tensors: &mut std::slice::Iter<'p, Tensor>,
    ) -> Vec<K::Of<'p>> {
        like.iter().map(|item| K::rebuild(item, tensors)).collect()
    }
}

impl<T: JitArg> JitArg for Vec<T> {
    type Kind = VecOf<T::Kind>;
}

/// The family of a type without lifetime that is no tensor.
#[derive(Debug)]
#[doc(hidden)]
pub struct Plain<T>(std::marker::PhantomData<T>);

macro_rules! plain {
    ($($t:ty => $kind:literal, $bits:expr;)*) => {$(
        impl ArgKind for Plain<$t> {
            type Of<'a> = $t;

            fn visit<'v>(arg: &'v $t, visit: &mut ArgVisit<'v>) {
                let bits: fn($t) -> u64 = $bits;
                visit.values.push(ArgValue { kind: $kind, bits: bits(*arg) });
            }

            fn rebuild<'p>(like: &$t, _: &mut std::slice::Iter<'p, Tensor>) -> $t {
                *like
            }
        }

        impl JitArg for $t {
            type Kind = Plain<$t>;
        }
    )*};
}

plain! {
    f64 => 1, f64::to_bits;
    f32 => 2, |x| x.to_bits() as u64;
    i64 => 3, |x| x as u64;
    i32 => 4, |x| x as u64;
    u64 => 5, |x| x;
    u32 => 6, |x| x as u64;
    usize => 7, |x| x as u64;
    isize => 8, |x| x as u64;
    bool => 9, |x| x as u64;
    () => 10, |()| 0;
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: ArgKind),+> ArgKind for ($($name,)+) {
            type Of<'a> = ($($name::Of<'a>,)+);

            fn visit<'v>(arg: &'v Self::Of<'_>, visit: &mut ArgVisit<'v>) {
                $($name::visit(&arg.$index, visit);)+
            }

            fn rebuild<'p>(
                like: &Self::Of<'_>,
                tensors: &mut std::slice::Iter<'p, Tensor>,
            ) -> Self::Of<'p> {
                ($($name::rebuild(&like.$index, tensors),)+)
            }
        }

        impl<$($name: JitArg),+> JitArg for ($($name,)+) {
            type Kind = ($($name::Kind,)+);
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}
