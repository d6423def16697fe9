//! Loops of a known number of steps.

use super::{Call, RUN, check, filled, like};
use crate::Tensor;
use crate::grad::flow::{Closure, Inherited, Like, stacked};
use crate::program::Control;
use crate::structs::TensorStruct;
use ferrotrace_runtime::Result;
use std::panic::Location;

/// Goes through the rows of `xs`, tensors that have as many along their first dimensions: `f` makes of the carried value,
/// at first `init`, and of a row the next carried value and a row of results. Gives the last carried value, and the rows of
/// results stacked along a new first dimension.
///
/// `f` runs once to be recorded. Each step then runs one compiled program; carried values that nothing else holds are updated
/// in place. The carried value keeps its structure, shapes and dtypes. Random operations draw at each step what an unrolled
/// loop would.
///
/// Gradients go back step by step. Where one may be asked for, the value that each step was given is kept, and what the step
/// computes of it is computed again.
///
/// It is `jax.lax.scan` and PyTorch's `scan`.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::scan;
///
/// let device = Device::cpu();
/// let xs = Tensor::from_slice(&[1.0, 2.0, 3.0], 3, &device);
/// let decay = |state: &Tensor, x: &Tensor| {
///     let state = state * 0.5 + x;
///     (state.clone(), state * 10.0)
/// };
/// let (last, all) = scan(decay, &Tensor::scalar(0.0, DType::F64, &device), &xs);
/// assert_eq!(last.item::<f64>()?, 4.25);
/// assert_eq!(all.to_vec::<f64>()?, [10.0, 25.0, 42.5]);
/// # Ok::<(), Error>(())
/// ```
///
/// All results carry an error if there is nothing to go through, if numbers of rows differ, if a carried value changes in
/// shape or dtype, or if `f` reads a value.
#[track_caller]
pub fn scan<C: TensorStruct, X: TensorStruct, Y: TensorStruct>(
    f: impl FnOnce(&C, &X) -> (C, Y),
    init: &C,
    xs: &X,
) -> (C, Y) {
    let call = Call {
        name: "scan",
        location: Location::caller(),
    };
    scanned(call, false, f, init, xs)
}

/// A [`scan`] from the last row to the first. Rows of results stand where the rows that they were made of do.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::scan_reversed;
///
/// let device = Device::cpu();
/// let xs = Tensor::from_slice(&[1.0, 2.0, 3.0], 3, &device);
/// let sum = |state: &Tensor, x: &Tensor| (state + x, state + x);
/// let (last, all) = scan_reversed(sum, &Tensor::scalar(0.0, DType::F64, &device), &xs);
/// assert_eq!(last.item::<f64>()?, 6.0);
/// assert_eq!(all.to_vec::<f64>()?, [6.0, 5.0, 3.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn scan_reversed<C: TensorStruct, X: TensorStruct, Y: TensorStruct>(
    f: impl FnOnce(&C, &X) -> (C, Y),
    init: &C,
    xs: &X,
) -> (C, Y) {
    let call = Call {
        name: "scan",
        location: Location::caller(),
    };
    scanned(call, true, f, init, xs)
}

/// What `f` makes of each row of `xs`, tensors that have as many along their first dimensions, stacked along a new first
/// dimension.
///
/// `f` runs once to be recorded, and its program row by row: memory is that of one row beside the results. It is
/// `jax.lax.map` and PyTorch's `map`. Gradients, random numbers and errors are as in [`scan`].
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::map;
///
/// let xs = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
/// let y = map(|x: &Tensor| x.sum(..) * x, &xs);
/// assert_eq!(y.to_vec::<f64>()?, [3.0, 6.0, 21.0, 28.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn map<X: TensorStruct, Y: TensorStruct>(f: impl FnOnce(&X) -> Y, xs: &X) -> Y {
    let call = Call {
        name: "map",
        location: Location::caller(),
    };
    let nothing: [Tensor; 0] = [];
    let none = nothing.clone();
    scanned(call, false, |_, x| (none, f(x)), &nothing, xs).1
}

/// Running results of an associative function: row `i` is rows `0..=i` of `xs` joined by `combine`, from left to right.
///
/// It is `jax.lax.associative_scan` and PyTorch's `associative_scan`, here by a [`scan`]; sums, products and maxima have
/// faster operations of their own ([`cumsum`](Tensor::cumsum)). `combine` gives rows of the structure, shapes and dtypes that
/// it is given. Gradients, random numbers and errors are as in [`scan`].
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::associative_scan;
///
/// let xs = Tensor::from_slice(&[1.0, 2.0, 3.0], 3, &Device::cpu());
/// let y = associative_scan(|a: &Tensor, b: &Tensor| a * b, &xs);
/// assert_eq!(y.to_vec::<f64>()?, [1.0, 2.0, 6.0]);
/// # Ok::<(), Error>(())
/// ```
#[track_caller]
pub fn associative_scan<X: TensorStruct>(combine: impl FnOnce(&X, &X) -> X, xs: &X) -> X {
    let call = Call {
        name: "associative_scan",
        location: Location::caller(),
    };
    let all = xs.tensors();
    match check::rows(&all) {
        Err(error) => return call.failed(&error, &all, xs),
        Ok(0) => return xs.rebuild(&mut Tensor::clone),
        Ok(_) => {}
    }
    let first = xs.rebuild(&mut |x| x.select(0, 0));
    let rest = xs.rebuild(&mut |x| x.slice(0, 1, isize::MAX, 1));
    let step = |sum: &X, x: &X| {
        let next = combine(sum, x);
        let same = next.rebuild(&mut Tensor::clone);
        (next, same)
    };
    let (_, rows) = scanned(call, false, step, &first, &rest);
    let mut rows = rows.tensors().into_iter().zip(first.tensors());
    xs.rebuild(&mut |x| match rows.next() {
        Some((rows, first)) => Tensor::cat(&[first.unsqueeze(0), rows], 0),
        None => x.clone(),
    })
}

/// The result of applying `f` to `init` `steps` times.
pub(super) fn repeated<C: TensorStruct>(
    call: Call,
    steps: usize,
    f: impl FnOnce(&C) -> C,
    init: &C,
) -> C {
    let nothing: [Tensor; 0] = [];
    let none: [Tensor; 0] = [];
    let f = |value: &C, _: &[Tensor; 0]| (f(value), none);
    let steps = Steps {
        number: Some(steps),
        reverse: false,
    };
    over(call, steps, f, init, &nothing).0
}

fn scanned<C: TensorStruct, X: TensorStruct, Y: TensorStruct>(
    call: Call,
    reverse: bool,
    f: impl FnOnce(&C, &X) -> (C, Y),
    init: &C,
    xs: &X,
) -> (C, Y) {
    let steps = Steps {
        number: None,
        reverse,
    };
    over(call, steps, f, init, xs)
}

/// The steps of a scan.
struct Steps {
    /// How many, if not as many as there are rows.
    number: Option<usize>,
    /// Whether they go from the last row to the first.
    reverse: bool,
}

/// Records a scan of the rows of `xs`.
fn over<C: TensorStruct, X: TensorStruct, Y: TensorStruct>(
    call: Call,
    Steps { number, reverse }: Steps,
    f: impl FnOnce(&C, &X) -> (C, Y),
    init: &C,
    xs: &X,
) -> (C, Y) {
    let mut all = init.tensors();
    let carried = all.len();
    all.extend(xs.tensors());
    let steps = number.map_or_else(|| check::rows(&all[carried..]), Ok);
    let likes = all
        .iter()
        .enumerate()
        .map(|(place, x)| match place < carried {
            true => like(x),
            false => (x.sizes().get(1..).unwrap_or_default().into(), x.dtype()),
        });
    let likes: Vec<Like> = likes.collect();
    let mut next = None;
    let closure: Closure<'_> = Box::new(|given| {
        let mut given = given.iter().cloned();
        let (value, row) = (filled(init, &mut given), filled(xs, &mut given));
        let (value, row) = next.insert(f(&value, &row));
        [value.tensors(), row.tensors()].concat()
    });
    let control = Control::Scan {
        carried,
        sliced: all.len() - carried,
        steps: *steps.as_ref().unwrap_or(&0),
        reverse,
    };
    let inherited = Inherited::default();
    let recipe = call.recipe(control, &all, &likes, &inherited);
    let recorded = recipe.bodies(vec![closure]);
    let (value, rows) = next.expect(RUN);
    let found = || -> Result<Vec<Tensor>> {
        all.iter().try_for_each(Tensor::check)?;
        let steps = steps?;
        let bodies = recorded?;
        check::carried(init, &value)?;
        let rows = bodies.results[0][carried..].iter();
        let rows = rows.map(|like| stacked(like, steps));
        let results = likes[..carried].iter().cloned().chain(rows).collect();
        recipe.apply(bodies, results)
    };
    match found() {
        Ok(found) => {
            let mut found = found.into_iter();
            (filled(init, &mut found), filled(&rows, &mut found))
        }
        Err(error) => (
            call.failed(&error, &all, init),
            call.failed(&error, &all, &rows),
        ),
    }
}
