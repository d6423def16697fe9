//! Tuples of what a `jit` function can take and give, up to twelve. Their parts are named by position.

use super::TensorStruct;
use super::arg::{ArgKind, JitArg, Lender};
use super::result::JitResult;
use super::visit::Visit;
use crate::Tensor;

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: ArgKind),+> ArgKind for ($($name,)+) {
            type Of<'a> = ($($name::Of<'a>,)+);

            fn lend<'p>(like: &'p Self::Of<'_>, lender: &mut Lender<'p>) -> Self::Of<'p> {
                ($($name::lend(&like.$index, lender),)+)
            }
        }

        impl<$($name: JitArg),+> JitArg for ($($name,)+) {
            type Kind = ($($name::Kind,)+);

            #[inline]
            fn visit<'v>(&'v self, visit: &mut Visit<'v>) {
                $(visit.item($index, &self.$index);)+
            }
        }

        impl<$($name: TensorStruct),+> TensorStruct for ($($name,)+) {
            fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor)) {
                $(self.$index.visit_mut(visit);)+
            }

            fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> Self {
                ($(self.$index.rebuild(tensor),)+)
            }
        }

        impl<$($name: JitResult),+> JitResult for ($($name,)+) {
            type Form = ($($name::Form,)+);

            fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
                Some(($(self.$index.flatten(tensors)?,)+))
            }

            fn unflatten(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self {
                ($($name::unflatten(&form.$index, tensors),)+)
            }
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
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
}
