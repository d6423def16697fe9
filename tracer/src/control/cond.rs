//! A choice between two functions.

use super::{Call, RUN, check, filled, like};
use crate::Tensor;
use crate::grad::flow::{Closure, Inherited, Like};
use crate::program::Control;
use crate::structs::TensorStruct;
use ferrotrace_runtime::Result;
use std::panic::Location;

/// What `on_true` gives of `operands` where `predicate` is true, else what `on_false` gives.
///
/// Both functions run once to be recorded; when values are needed, the one that is chosen is computed and the other is
/// not. Within [`jit`](crate::jit) each call chooses. `predicate` is one element of `Bool`; both give results of the same
/// structure, shapes and dtypes. Operands and captured tensors have gradients: through the chosen function, and zeros of
/// what it does not use.
///
/// It is `jax.lax.cond` and `torch.cond`. [`where_cond`](Tensor::where_cond) chooses element by element.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::cond;
///
/// let halve = jit(|x: &Tensor| cond(&x.sum(..).gt(10.0), |x| x * 0.5, |x| x + 1.0, x));
/// let of = |values: &[f32]| Tensor::from_slice(values, values.len(), &Device::cpu());
/// assert_eq!(halve.call(&of(&[8.0, 4.0])).to_vec::<f32>()?, [4.0, 2.0]);
/// assert_eq!(halve.call(&of(&[1.0, 4.0])).to_vec::<f32>()?, [2.0, 5.0]);
/// # Ok::<(), Error>(())
/// ```
///
/// All results carry an error if the predicate is no bool or has several elements, if the results differ, or if a branch
/// reads a value.
#[track_caller]
pub fn cond<X: TensorStruct, Y: TensorStruct>(
    predicate: &Tensor,
    on_true: impl FnOnce(&X) -> Y,
    on_false: impl FnOnce(&X) -> Y,
    operands: &X,
) -> Y {
    let call = Call {
        name: "cond",
        location: Location::caller(),
    };
    chosen(call, predicate, (on_true, on_false), operands)
}

/// Records a [`cond`] whose errors carry the name and the line of `call`.
pub(super) fn chosen<X: TensorStruct, Y: TensorStruct>(
    call: Call,
    predicate: &Tensor,
    (on_true, on_false): (impl FnOnce(&X) -> Y, impl FnOnce(&X) -> Y),
    operands: &X,
) -> Y {
    let mut all = vec![predicate.clone()];
    all.extend(operands.tensors());
    let (mut when, mut otherwise) = (None, None);
    let lent = |given: &[Tensor]| filled(operands, &mut given[1..].iter().cloned());
    let closures: Vec<Closure<'_>> = vec![
        Box::new(|given| when.insert(on_true(&lent(given))).tensors()),
        Box::new(|given| otherwise.insert(on_false(&lent(given))).tensors()),
    ];
    let likes: Vec<Like> = all.iter().map(like).collect();
    let inherited = Inherited::default();
    let recipe = call.recipe(Control::Cond, &all, &likes, &inherited);
    let recorded = recipe.bodies(closures);
    let (shape, other) = (when.expect(RUN), otherwise.expect(RUN));
    let found = || -> Result<Vec<Tensor>> {
        all.iter().try_for_each(Tensor::check)?;
        check::predicate(&likes[0])?;
        let bodies = recorded?;
        check::branches(&shape, &other)?;
        let results = bodies.results[0].clone();
        recipe.apply(bodies, results)
    };
    match found() {
        Ok(found) => filled(&shape, &mut found.into_iter()),
        Err(error) => call.failed(&error, &all, &shape),
    }
}
