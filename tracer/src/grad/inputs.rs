//! The argument of a function that is differentiated by it.

use super::apart::apart;
use super::{like, sweep};
use crate::history::History;
use crate::structs::TensorStruct;
use crate::{Tensor, mode};
use ferrotrace_runtime::Result;
use rustc_hash::{FxHashMap, FxHashSet};
use std::panic::Location;
use std::sync::Arc;

/// A struct whose parameters require a gradient of their own: only what is computed from this struct counts, not what is
/// computed from the same tensors elsewhere.
pub(super) struct Inputs<X> {
    pub x: X,
    /// The parameters, each once.
    pub required: Vec<Tensor>,
    /// The place of each in `required`.
    places: FxHashMap<String, usize>,
}

impl<X: TensorStruct> Inputs<X> {
    pub fn of(x: &X, location: &'static Location<'static>) -> Inputs<X> {
        let (mut required, mut places) = (Vec::new(), FxHashMap::default());
        for (name, tensor) in x.parameters() {
            places.insert(name, required.len());
            required.push(apart(&tensor, location));
        }
        let x = x.map(|name, tensor| match places.get(name) {
            Some(&place) => required[place].clone(),
            None => tensor.clone(),
        });
        Inputs {
            x,
            required,
            places,
        }
    }

    /// Whether `values` have a history beyond these inputs, so that they can be differentiated by something else too.
    pub fn reaches_beyond(&self, values: &[Tensor]) -> bool {
        if !mode::keeps_history() {
            return false;
        }
        let own = self.required.iter().filter_map(Tensor::history);
        let own: FxHashSet<*const History> = own.map(Arc::as_ptr).collect();
        let beyond =
            |history: &Arc<History>| history.is_first() && !own.contains(&Arc::as_ptr(history));
        let histories = values.iter().filter_map(Tensor::history);
        sweep::reachable(histories, 0).iter().any(beyond)
    }

    /// A struct like `x` with these gradients of its parameters, or their error, and with zeros for its other tensors.
    pub fn filled(
        &self,
        x: &X,
        gradients: Result<Vec<Tensor>>,
        location: &'static Location<'static>,
    ) -> X {
        x.map(|name, tensor| {
            if let Some(error) = tensor.node().error() {
                return Tensor::of_error(error, tensor.dtype(), &tensor.device(), location);
            }
            match (self.places.get(name), &gradients) {
                (Some(&place), Ok(gradients)) => gradients[place].clone(),
                (Some(_), Err(error)) => {
                    Tensor::of_error(error.clone(), tensor.dtype(), &tensor.device(), location)
                }
                (None, _) => like(tensor, 0.0, location),
            }
        })
    }
}
