//! Tensors that are differentiated by apart from others of the same values.

use crate::history::{self, Of, Rule};
use crate::{Tensor, trace};
use std::panic::Location;

/// Another tensor of the same values, whose gradient is that of what is computed from it alone, and flows on to the first.
pub(super) fn apart(tensor: &Tensor, location: &'static Location<'static>) -> Tensor {
    if !tensor.has_grad() {
        return tensor.requires_grad();
    }
    let value = tensor.value();
    let rule = (Rule::Same, false);
    let of = [Of::Value(value)];
    let history = history::of_rule(rule, &value.handle, &of, location, trace::current());
    tensor.with_history(history)
}
