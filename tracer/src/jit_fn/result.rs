//! What a `jit` function can give.

use crate::Tensor;
use ferrotrace_runtime::Result;

/// A type that a `jit` function can give: `Tensor`, and tuples, arrays, vectors and `Result`s of such types.
pub trait JitResult: Sized {
    /// What there is to it beside the tensors.
    type Form: Clone + Send + Sync + 'static;

    /// Appends the tensors; `None` if there is an error among the values: such a result is not replayed.
    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form>;

    /// The result of this form with the next of `tensors`, of which there are enough.
    fn unflatten(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self;
}

impl JitResult for Tensor {
    type Form = ();

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<()> {
        tensors.push(self.clone());
        Some(())
    }

    fn unflatten(_: &(), tensors: &mut dyn Iterator<Item = Tensor>) -> Tensor {
        tensors
            .next()
            .expect("there are as many tensors as were flattened")
    }
}

impl JitResult for () {
    type Form = ();

    fn flatten(&self, _: &mut Vec<Tensor>) -> Option<()> {
        Some(())
    }

    fn unflatten(_: &(), _: &mut dyn Iterator<Item = Tensor>) {}
}

impl<T: JitResult> JitResult for Result<T> {
    type Form = T::Form;

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<T::Form> {
        self.as_ref().ok()?.flatten(tensors)
    }

    fn unflatten(form: &T::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Result<T> {
        Ok(T::unflatten(form, tensors))
    }
}

impl<T: JitResult> JitResult for Option<T> {
    type Form = Option<T::Form>;

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Option<T::Form>> {
        match self {
            Some(value) => value.flatten(tensors).map(Some),
            None => Some(None),
        }
    }

    fn unflatten(form: &Option<T::Form>, tensors: &mut dyn Iterator<Item = Tensor>) -> Option<T> {
        form.as_ref().map(|form| T::unflatten(form, tensors))
    }
}

impl<T: JitResult> JitResult for Vec<T> {
    type Form = Vec<T::Form>;

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Vec<T::Form>> {
        self.iter().map(|item| item.flatten(tensors)).collect()
    }

    fn unflatten(form: &Vec<T::Form>, tensors: &mut dyn Iterator<Item = Tensor>) -> Vec<T> {
        form.iter()
            .map(|item| T::unflatten(item, tensors))
            .collect()
    }
}

impl<T: JitResult, const N: usize> JitResult for [T; N] {
    type Form = Vec<T::Form>;

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Vec<T::Form>> {
        self.iter().map(|item| item.flatten(tensors)).collect()
    }

    fn unflatten(form: &Vec<T::Form>, tensors: &mut dyn Iterator<Item = Tensor>) -> [T; N] {
        std::array::from_fn(|i| T::unflatten(&form[i], tensors))
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: JitResult),+> JitResult for ($($name,)+) {
            type Form = ($($name::Form,)+);

            fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
                Some(($(self.$index.flatten(tensors)?,)+))
            }

            fn unflatten(
                form: &Self::Form,
                tensors: &mut dyn Iterator<Item = Tensor>,
            ) -> Self {
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
}
