//! Functions with a gradient of the program's own.

use super::at;
use crate::history::{self, Of, Pullback, Rule, Value};
use crate::{Tensor, mode, trace};
use ferrotrace_runtime::{Error, Result};
use std::panic::Location;
use std::sync::Arc;

/// A function whose gradient is another function: `backward` is given the operands, the result and the gradient of the
/// result, and returns the gradient of each operand, of its shape. What `forward` records is not differentiated; what
/// `backward` records is, where a gradient is differentiated again.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// // The sign, with the gradient of the identity: a straight-through estimator (Bengio et al., 2013).
/// let sign = custom_grad(|x: &[&Tensor]| x[0].sign(), |_, _, gradient| vec![gradient.clone()]);
/// let x = Tensor::from_slice(&[-3.0, 2.0], 2, &Device::cpu()).requires_grad();
/// let gradient = grad(&(sign(&[&x]) * 5.0).sum(..), &[&x]).remove(0);
/// assert_eq!(gradient.to_vec::<f64>()?, [5.0, 5.0]);
/// # Ok::<(), Error>(())
/// ```
pub fn custom_grad<F, B>(
    forward: F,
    backward: B,
) -> impl Fn(&[&Tensor]) -> Tensor + Send + Sync + 'static
where
    F: Fn(&[&Tensor]) -> Tensor + Send + Sync + 'static,
    B: Fn(&[&Tensor], &Tensor, &Tensor) -> Vec<Tensor> + Send + Sync + 'static,
{
    let backward = Arc::new(backward);
    #[track_caller]
    fn call(
        forward: &dyn Fn(&[&Tensor]) -> Tensor,
        operands: &[&Tensor],
        rule: Arc<dyn Pullback>,
    ) -> Tensor {
        let result = mode::with_history(false, || forward(operands)).detach();
        let differentiable = operands.iter().any(|operand| operand.history().is_some());
        if !differentiable || !mode::keeps_history() || result.node().error().is_some() {
            return result;
        }
        let of: Vec<Of<'_>> = operands.iter().map(|x| Of::Value(x.value())).collect();
        let rule = Rule::Custom(rule);
        let handle = &result.value().handle;
        let history = history::of_rule(
            (rule, true),
            handle,
            &of,
            Location::caller(),
            trace::current(),
        );
        result.with_history(history)
    }
    move |operands| {
        let rule = Custom {
            backward: backward.clone(),
            location: Location::caller(),
        };
        call(&forward, operands, Arc::new(rule))
    }
}

struct Custom<B> {
    backward: Arc<B>,
    location: &'static Location<'static>,
}

impl<B> Pullback for Custom<B>
where
    B: Fn(&[&Tensor], &Tensor, &Tensor) -> Vec<Tensor> + Send + Sync,
{
    fn pull(
        &self,
        operands: &[Value],
        result: Option<&Value>,
        gradient: &Value,
    ) -> Result<Vec<Option<Value>>> {
        let operands: Vec<Tensor> = operands.iter().cloned().map(Tensor::of_value).collect();
        let operands: Vec<&Tensor> = operands.iter().collect();
        let result = result.ok_or_else(|| Error::internal("a result was not kept"))?;
        let (result, gradient) = (
            Tensor::of_value(result.clone()),
            Tensor::of_value(gradient.clone()),
        );
        let gradients = (self.backward)(&operands, &result, &gradient);
        let wrong = |why: String| at(Error::shape(why), "custom_grad", &operands, self.location);
        if gradients.len() != operands.len() {
            let (have, want) = (gradients.len(), operands.len());
            return Err(wrong(format!("{have} gradients of {want} operands")));
        }
        let fitted = |(gradient, operand): (Tensor, &&Tensor)| {
            if let Some(error) = gradient.node().error() {
                return Err(error);
            }
            let (have, want) = (gradient.sizes(), operand.sizes());
            match have == want {
                true => Ok(Some(gradient.to_dtype(operand.dtype()).value().clone())),
                false => Err(wrong(format!(
                    "a gradient of shape {have} of an operand of {want}"
                ))),
            }
        };
        gradients.into_iter().zip(&operands).map(fitted).collect()
    }
}
