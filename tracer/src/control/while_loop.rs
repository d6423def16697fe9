//! Loops that go on as long as a function says so.

use super::cond::chosen;
use super::scan::repeated;
use super::{Call, RUN, check, filled, like};
use crate::Tensor;
use crate::grad::flow::{Closure, Inherited, Like};
use crate::program::Control;
use crate::structs::TensorStruct;
use ferrotrace_runtime::Result;
use std::panic::Location;

/// What `body` makes of `init`, applied again and again as long as `condition` of the value is true.
///
/// Both functions run once to be recorded. Each step then runs two compiled programs and reads one truth value; memory does
/// not grow with the steps, and carried values that nothing else holds are updated in place. `condition` gives one element
/// of `Bool`; `body` gives a value of the structure, shapes and dtypes of `init`. Random operations of a step draw from a
/// stream that belongs to this loop, other numbers at each step.
///
/// It is `jax.lax.while_loop` and PyTorch's `while_loop`. [`jvp`](crate::jvp) goes along the loop, by a loop that carries tangents beside
/// the values. There is no gradient in reverse, since nobody knows how many steps to keep: see [`bounded_while_loop`].
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::while_loop;
///
/// // Newton's method for the square root of 2.
/// let x = Tensor::scalar(1.0, DType::F64, &Device::cpu());
/// let root = while_loop(|x| (x * x - 2.0).abs().gt(1e-12), |x| (x + x.recip() * 2.0) * 0.5, &x);
/// assert!((root.item::<f64>()? - 2f64.sqrt()).abs() < 1e-12);
/// # Ok::<(), Error>(())
/// ```
///
/// All results carry an error if the condition is no bool or has several elements, if a carried value changes in shape or
/// dtype, or if a function reads a value.
#[track_caller]
pub fn while_loop<C: TensorStruct>(
    condition: impl FnOnce(&C) -> Tensor,
    body: impl FnOnce(&C) -> C,
    init: &C,
) -> C {
    let call = Call {
        name: "while_loop",
        location: Location::caller(),
    };
    let all = init.tensors();
    let (mut goes_on, mut next) = (None, None);
    let lent = |given: &[Tensor]| filled(init, &mut given.iter().cloned());
    let closures: Vec<Closure<'_>> = vec![
        Box::new(|given| vec![goes_on.insert(condition(&lent(given))).clone()]),
        Box::new(|given| next.insert(body(&lent(given))).tensors()),
    ];
    let likes: Vec<Like> = all.iter().map(like).collect();
    let inherited = Inherited::default();
    let control = Control::While { carried: all.len() };
    let recipe = call.recipe(control, &all, &likes, &inherited);
    let recorded = recipe.bodies(closures);
    let (goes_on, next) = (goes_on.expect(RUN), next.expect(RUN));
    let found = || -> Result<Vec<Tensor>> {
        all.iter().try_for_each(Tensor::check)?;
        let bodies = recorded?;
        check::predicate(&like(&goes_on))?;
        check::carried(init, &next)?;
        recipe.apply(bodies, likes.clone())
    };
    match found() {
        Ok(found) => filled(init, &mut found.into_iter()),
        Err(error) => call.failed(&error, &all, init),
    }
}

/// What [`while_loop`] gives, after `bound` steps at most, with gradients in reverse.
///
/// It is a [`scan`](crate::scan) of `bound` steps, each a [`cond`](crate::cond) of whether to go on: a gradient keeps `bound`
/// carried values, and steps behind the end cost a truth value each. Random operations draw at each step what a loop of
/// `bound` steps draws.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::bounded_while_loop;
///
/// let x = Tensor::scalar(1.5, DType::F64, &Device::cpu()).requires_grad();
/// let y = bounded_while_loop(10, |y| y.lt(10.0), |y| y * &x, &Tensor::scalar(1.0, DType::F64, &Device::cpu()));
/// let slope = grad(&y, &[&x]).remove(0);
/// assert_eq!(y.item::<f64>()?, 1.5f64.powi(6)); // six steps
/// assert_eq!(slope.item::<f64>()?, 6.0 * 1.5f64.powi(5));
/// # Ok::<(), Error>(())
/// ```
///
/// Errors are those of [`while_loop`].
#[track_caller]
pub fn bounded_while_loop<C: TensorStruct>(
    bound: usize,
    condition: impl FnOnce(&C) -> Tensor,
    body: impl FnOnce(&C) -> C,
    init: &C,
) -> C {
    let call = Call {
        name: "while_loop",
        location: Location::caller(),
    };
    let same = |value: &C| value.rebuild(&mut Tensor::clone);
    let step = |value: &C| chosen(call, &condition(value), (body, same), value);
    repeated(call, bound, step, init)
}
