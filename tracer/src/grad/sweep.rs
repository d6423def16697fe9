//! Goes through histories backwards.

use super::like;
use super::pull::{added, pull, pull_several};
use super::windows::{Windows, looked_at};
use crate::history::{History, Operand as Kept, Operation, Rule, Source, Value};
use crate::node::{Node, NodeArc};
use crate::{Tensor, trace};
use ferrotrace_runtime::{Error, Result};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::panic::Location;
use std::sync::Arc;

type Address = *const History;

/// The gradients given so far. Each is a value of its own: of two tensors with the same gradient, as two biases of one sum
/// have, neither is tied to the other.
#[derive(Default)]
struct Apart(FxHashSet<*const Node>);

impl Apart {
    fn of(&mut self, gradient: &Tensor) -> Tensor {
        match self.0.insert(NodeArc::as_ptr(gradient.node())) {
            true => gradient.clone(),
            false => gradient.reshape(gradient.sizes().clone()),
        }
    }
}

/// The histories that some were computed from, themselves included, down to those of an order, in ascending order.
pub(super) fn reachable<'a>(
    from: impl IntoIterator<Item = &'a Arc<History>>,
    least: u64,
) -> Vec<Arc<History>> {
    let mut seen: FxHashSet<Address> = FxHashSet::default();
    let mut stack: Vec<Arc<History>> = from.into_iter().cloned().collect();
    let mut found = Vec::new();
    while let Some(history) = stack.pop() {
        if history.order < least || !seen.insert(Arc::as_ptr(&history)) {
            continue;
        }
        if let Some(operation) = history.computed_by() {
            stack.extend(operation.operands.iter().filter_map(Kept::live).cloned());
        }
        found.push(history);
    }
    found.sort_unstable_by_key(|history| history.order);
    found
}

/// The gradients of `tensors`, zeros for those that no value depends on. Each of `values` comes with its gradient, of its
/// shape and dtype.
pub(crate) fn gradients(
    values: Vec<(Tensor, Tensor)>,
    tensors: &[impl Borrow<Tensor>],
    location: &'static Location<'static>,
) -> Result<Vec<Tensor>> {
    let tensors = || tensors.iter().map(|tensor| tensor.borrow());
    for tensor in tensors() {
        if let Some(error) = tensor.node().error() {
            return Err(error);
        }
        if !tensor.dtype().is_float() {
            let why = format!(
                "the gradient by a tensor of {}: it needs floats",
                tensor.dtype()
            );
            return Err(Error::dtype(why));
        }
    }
    let mut found: FxHashMap<Address, Tensor> = FxHashMap::default();
    let seed = |(value, gradient): (Tensor, Tensor)| {
        let history = value.history().filter(|history| history.is_live())?;
        Some((history.clone(), gradient))
    };
    let seeds: Vec<_> = values.into_iter().filter_map(seed).collect();
    let asked = || tensors().filter_map(|tensor| tensor.history());
    let least = asked().map(|history| history.order).min();
    let roots = seeds.iter().map(|(history, _)| history);
    let histories = least.map_or_else(Vec::new, |least| reachable(roots, least));
    // The histories through which a gradient that is asked for flows.
    let mut through: FxHashSet<Address> = asked().map(Arc::as_ptr).collect();
    let targets = through.clone();
    for history in &histories {
        if let Some(operation) = history.computed_by() {
            let mut operands = operation.operands.iter().filter_map(Kept::live);
            if operands.any(|operand| through.contains(&Arc::as_ptr(operand))) {
                through.insert(Arc::as_ptr(history));
            }
        }
    }
    let mut apart = Apart::default();
    let mut note = |history: &Arc<History>, gradient: &Tensor| {
        let address = Arc::as_ptr(history);
        if targets.contains(&address) {
            found.insert(address, apart.of(gradient));
        }
        Ok(())
    };
    run(seeds, (&histories, &through), false, &mut note, location)?;
    let of = |tensor: &Tensor| {
        let gradient = tensor.history().and_then(|h| found.get(&Arc::as_ptr(h)));
        gradient
            .cloned()
            .unwrap_or_else(|| like(tensor, 0.0, location))
    };
    Ok(tensors().map(of).collect())
}

/// Adds the gradients of all leaves to theirs, and ends the histories gone through.
pub(super) fn backward(
    loss: &Tensor,
    seed: Tensor,
    location: &'static Location<'static>,
) -> Result<()> {
    let Some(history) = loss.history() else {
        return Ok(());
    };
    let histories = reachable([history], 0);
    let outside = |history: &&Arc<History>| history.is_first() && history.trace != trace::current();
    if trace::current() != 0 && histories.iter().any(|history| outside(&history)) {
        // Nor would it leave this error in the leaves: the function runs at each call.
        trace::observe_value(trace::current());
        return Err(Error::argument(
            "a function given to jit goes backward to a leaf that was made outside of it, which a replay would not \
             do: return gradients from the function, `grad(&loss, &[&w])`",
        ));
    }
    let through = histories.iter().map(Arc::as_ptr).collect();
    let mut sums: Vec<(Arc<History>, Tensor)> = Vec::new();
    let mut apart = Apart::default();
    let mut note = |history: &Arc<History>, gradient: &Tensor| {
        if matches!(history.source, Source::Leaf(_)) {
            sums.push((history.clone(), apart.of(gradient)));
        }
        Ok(())
    };
    let seeds = vec![(history.clone(), seed)];
    run(seeds, (&histories, &through), true, &mut note, location)?;
    for (history, gradient) in sums {
        if let Source::Leaf(sum) = &history.source {
            let mut sum = sum.lock();
            let total = match sum.take() {
                Some(before) => added(&Tensor::of_handle(before), &gradient, location),
                None => gradient,
            };
            *sum = Some(total.value().handle.clone());
        }
    }
    histories.iter().for_each(|history| history.end());
    Ok(())
}

/// The error becomes the gradient of all leaves.
pub(super) fn fail_leaves(loss: &Tensor, error: &Error, location: &'static Location<'static>) {
    let Some(history) = loss.history() else {
        return;
    };
    for history in reachable([history], 0) {
        if let Source::Leaf(sum) = &history.source {
            let failed = Tensor::of_error(error.clone(), loss.dtype(), &loss.device(), location);
            let before = sum.lock().replace(failed.value().handle.clone());
            drop(before);
        }
    }
}

/// The gradients of `tensors` from those of `values`, back through `histories` alone, which stand in ascending order; none
/// for what no gradient comes to.
pub(crate) fn gradients_within(
    values: Vec<(Tensor, Tensor)>,
    histories: &[Arc<History>],
    tensors: &[Tensor],
    location: &'static Location<'static>,
) -> Result<Vec<Option<Tensor>>> {
    let seed = |(value, gradient): (Tensor, Tensor)| Some((value.history()?.clone(), gradient));
    let seeds = values.into_iter().filter_map(seed).collect();
    let mut through: FxHashSet<Address> = tensors
        .iter()
        .filter_map(|tensor| tensor.history().map(Arc::as_ptr))
        .collect();
    through.extend(histories.iter().map(Arc::as_ptr));
    let mut note = |_: &Arc<History>, _: &Tensor| Ok(());
    let found = run(seeds, (histories, &through), false, &mut note, location)?;
    let of = |tensor: &Tensor| found.get(&Arc::as_ptr(tensor.history()?)).cloned();
    Ok(tensors.iter().map(of).collect())
}

/// Gradients that have come to a history so far.
#[derive(Default)]
struct Sums {
    whole: FxHashMap<Address, Tensor>,
    /// Of operations of several results, by result.
    parts: FxHashMap<Address, Vec<Option<Value>>>,
    /// Of windows of a value, which are not part of its gradient yet.
    windows: FxHashMap<Address, Windows>,
}

impl Sums {
    /// The whole gradient of a history, which is not kept.
    fn take_whole(&mut self, of: &Address) -> Result<Option<Tensor>> {
        let whole = self.whole.remove(of);
        match self.windows.remove(of) {
            Some(windows) => windows.added_to(whole),
            None => Ok(whole),
        }
    }

    /// Notes the gradient of a window of a value.
    fn note_window(
        &mut self,
        of: Address,
        history: &Arc<History>,
        operation: &Arc<Operation>,
        gradient: &Tensor,
    ) -> Result<()> {
        let waiting = self.windows.entry(of).or_default();
        if waiting.push(history, operation, gradient)
            && let Some(whole) = self.take_whole(&of)?
        {
            self.whole.insert(of, whole);
        }
        Ok(())
    }

    /// The whole gradients that are left.
    fn joined(mut self) -> Result<FxHashMap<Address, Tensor>> {
        let mut left: Vec<(u64, Address)> = Vec::new();
        left.extend(
            self.windows
                .iter()
                .map(|(of, windows)| (windows.order(), *of)),
        );
        left.sort_unstable();
        for (_, of) in left {
            if let Some(whole) = self.take_whole(&of)? {
                self.whole.insert(of, whole);
            }
        }
        Ok(self.whole)
    }

    /// Adds to the gradient of a result of an operation of several, which may have been found there several times.
    fn note_part(
        &mut self,
        of: &Arc<History>,
        part: usize,
        gradient: &Tensor,
        location: &'static Location<'static>,
    ) {
        let parts = self.parts.entry(Arc::as_ptr(of)).or_default();
        if parts.len() <= part {
            parts.resize_with(part + 1, || None);
        }
        let sum = match parts[part].take() {
            Some(before) => added(&Tensor::of_value(before), gradient, location),
            None => gradient.clone(),
        };
        parts[part] = Some(sum.value().clone());
    }
}

/// Carries the gradients of some values, `seeds`, back through histories, which stand in ascending order, as far as
/// the second of the pair goes; `note` is shown the whole gradient of each. The gradients of what is no history gone
/// through. `last`: what was kept for these gradients is not needed again.
fn run(
    seeds: Vec<(Arc<History>, Tensor)>,
    (histories, through): (&[Arc<History>], &FxHashSet<Address>),
    last: bool,
    note: &mut dyn FnMut(&Arc<History>, &Tensor) -> Result<()>,
    location: &'static Location<'static>,
) -> Result<FxHashMap<Address, Tensor>> {
    let mut sums = Sums::default();
    for (history, seed) in seeds {
        add_to(&mut sums.whole, &history, seed, location);
    }
    for history in histories.iter().rev() {
        let address = Arc::as_ptr(history);
        if !through.contains(&address) {
            continue;
        }
        let (whole, parts) = (sums.take_whole(&address)?, sums.parts.remove(&address));
        if whole.is_none() && parts.is_none() {
            continue;
        }
        if let Some(gradient) = &whole {
            note(history, gradient)?;
        }
        let Some(operation) = history.computed_by() else {
            if history.has_ended() {
                return Err(Error::argument(
                    "an earlier backward pass ended its history: ask `grad` for several gradients of one loss",
                ));
            }
            continue;
        };
        let flows = |operand: &Kept| {
            let live = operand.live();
            live.is_some_and(|history| through.contains(&Arc::as_ptr(history)))
        };
        let wanted: SmallVec<[bool; 4]> = operation.operands.iter().map(flows).collect();
        if !wanted.contains(&true) {
            continue;
        }
        let found = match (whole, parts) {
            (Some(gradient), _) => match carried(history, &operation, &gradient, &mut sums)? {
                true => continue,
                false => pull(history, &operation, &gradient, &wanted)?,
            },
            (None, parts) => {
                let parts = parts.unwrap_or_default();
                pull_several((history, &operation), parts, &wanted, last)?
            }
        };
        operation.take();
        for (operand, found) in operation.operands.iter().zip(found) {
            let (Some(history), Some(found)) = (operand.live(), found) else {
                continue;
            };
            add_to(&mut sums.whole, history, found, operation.location);
        }
    }
    sums.joined()
}

/// Whether the gradient needs no pull: it is noted as a part of that of an operation of several results, or as that of a
/// window of the operand.
fn carried(
    history: &Arc<History>,
    operation: &Arc<Operation>,
    gradient: &Tensor,
    sums: &mut Sums,
) -> Result<bool> {
    if let (Some(part), [operand]) = (part(operation), &operation.operands[..]) {
        if let Some(of) = operand.live() {
            sums.note_part(of, part, gradient, operation.location);
        }
        return Ok(true);
    }
    let Some(of) = looked_at(operation).map(Arc::as_ptr) else {
        return Ok(false);
    };
    sums.note_window(of, history, operation, gradient)?;
    Ok(true)
}

/// Which result of its operand the operation finds, if that has several.
fn part(operation: &Operation) -> Option<usize> {
    match &operation.rule {
        Rule::Part(part) => Some(*part),
        Rule::Operator => Some(operation.kind.op().as_part()?.number),
        _ => None,
    }
}

/// Adds to the gradient of a history.
fn add_to(
    gradients: &mut FxHashMap<Address, Tensor>,
    history: &Arc<History>,
    gradient: Tensor,
    location: &'static Location<'static>,
) {
    let address = Arc::as_ptr(history);
    let sum = match gradients.remove(&address) {
        Some(before) => added(&before, &gradient, location),
        None => gradient,
    };
    gradients.insert(address, sum);
}
