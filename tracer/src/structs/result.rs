//! What a `jit` function can give.

use super::TensorStruct;
use super::containers::sorted;
use super::visit::Visit;
use crate::Tensor;
use ferrotrace_runtime::{DType, Device, Error, Result};
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::panic::Location;
use std::sync::{Arc, OnceLock};

/// A type that a `jit` function can give: `Tensor`, structs with `#[derive(TensorStruct)]`, numbers, and tuples, arrays,
/// vectors, options, maps and `Result`s of such types. Numbers are those of the run that was traced.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no result of a compiled function",
    note = "a result is `Tensor`, a struct with `#[derive(TensorStruct)]`, or a tuple, an array, a vector or a `Result` of them"
)]
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

impl<T: JitResult> JitResult for Box<T> {
    type Form = T::Form;

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<T::Form> {
        (**self).flatten(tensors)
    }

    fn unflatten(form: &T::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Box<T> {
        Box::new(T::unflatten(form, tensors))
    }
}

impl<T: JitResult> JitResult for BTreeMap<String, T> {
    type Form = BTreeMap<String, T::Form>;

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
        let entry = |(key, value): (&String, &T)| Some((key.clone(), value.flatten(tensors)?));
        self.iter().map(entry).collect()
    }

    fn unflatten(form: &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self {
        let entry = |(key, form): (&String, &T::Form)| (key.clone(), T::unflatten(form, tensors));
        form.iter().map(entry).collect()
    }
}

impl<T, S> JitResult for HashMap<String, T, S>
where
    T: JitResult,
    S: BuildHasher + Clone + Send + Sync + 'static,
{
    /// The entries in the order of their keys, and what hashes them.
    type Form = (Vec<(String, T::Form)>, S);

    fn flatten(&self, tensors: &mut Vec<Tensor>) -> Option<Self::Form> {
        let entry = |(key, value): (&String, &T)| Some((key.clone(), value.flatten(tensors)?));
        let entries: Option<Vec<_>> = sorted(self).into_iter().map(entry).collect();
        Some((entries?, self.hasher().clone()))
    }

    fn unflatten((form, hasher): &Self::Form, tensors: &mut dyn Iterator<Item = Tensor>) -> Self {
        let mut map = HashMap::with_capacity_and_hasher(form.len(), hasher.clone());
        for (key, form) in form {
            map.insert(key.clone(), T::unflatten(form, tensors));
        }
        map
    }
}

/// What there is to a struct beside its tensors: a struct like it on tensors of no meaning.
#[derive(Debug)]
#[doc(hidden)]
pub struct Template<T>(Arc<T>);

impl<T> Clone for Template<T> {
    fn clone(&self) -> Template<T> {
        Template(self.0.clone())
    }
}

/// A tensor that takes no memory and that nothing reads.
fn placeholder() -> Tensor {
    static PLACEHOLDER: OnceLock<Tensor> = OnceLock::new();
    let make = || {
        let error = Error::internal("a place for a tensor was read");
        Tensor::of_error(error, DType::F32, &Device::cpu(), Location::caller())
    };
    PLACEHOLDER.get_or_init(make).clone()
}

impl<T: TensorStruct> Template<T> {
    /// The template of `value`, whose tensors are appended to `tensors`.
    pub fn flatten(value: &T, tensors: &mut Vec<Tensor>) -> Template<T> {
        let found = Visit::of(value).tensors.into_iter();
        tensors.extend(found.map(|found| found.tensor.into_owned()));
        Template(Arc::new(value.rebuild(&mut |_| placeholder())))
    }

    /// A struct of this form with the next of `tensors`.
    pub fn unflatten(&self, tensors: &mut dyn Iterator<Item = Tensor>) -> T {
        self.0.rebuild(&mut |_| {
            tensors
                .next()
                .expect("there are as many tensors as were flattened")
        })
    }
}
