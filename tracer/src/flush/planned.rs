//! From a collection to what runs for it: a plan met before, a new one, or ready-made kernels.

use super::carried;
use super::collected::Collected;
use crate::backend::PlanInput;
use crate::mode::{self, Mode};
use crate::plans::{self, PlanEntry, Planned, RecordedBy};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Result, Scalar};
use std::sync::Arc;

/// The entry of a collection whose leaves have this data, if there is one.
pub(crate) fn known(collected: &Collected, leaves: &[Array]) -> Option<Arc<PlanEntry>> {
    plans::peek(collected.hash, |form| {
        collected.has_form(form, leaves.iter())
    })
}

/// What to run for a collection whose leaves have this data, and may be overwritten or not, with these numbers.
pub(crate) fn plan(
    collected: &Collected,
    leaves: &[(Array, bool)],
    scalars: &[Scalar],
    by: RecordedBy,
) -> Result<Planned> {
    let mode = mode::current();
    let arrays = || leaves.iter().map(|leaf| &leaf.0);
    if collected.only_assigns() {
        return Ok(one_by_one(collected, leaves));
    }
    let staged = |stages| Ok(Planned::Staged(stages, collected.lines()));
    let known = plans::find(collected.hash, |form| collected.has_form(form, arrays()));
    carried::note_plan(known.is_some());
    let entry = match known {
        Some(entry) => match entry.stages(mode) {
            Some(stages) => return staged(stages),
            None => entry,
        },
        None => {
            let form = collected.form(arrays());
            if mode == Mode::Compiled
                && let Some(stages) = plans::stages_of(&form)
            {
                return staged(stages);
            }
            plans::insert(collected.hash, form)
        }
    };
    let example = || {
        let input = |(array, donated): &(Array, bool)| PlanInput {
            array: array.clone(),
            donated: *donated,
        };
        let inputs = leaves.iter().map(input).collect();
        (inputs, scalars.to_vec())
    };
    entry.planned(mode, &example, scalars, by, || collected.lines())
}

/// To run a collection by ready-made kernels, one operation after another.
pub(crate) fn one_by_one(collected: &Collected, leaves: &[(Array, bool)]) -> Planned {
    let form = collected.form(leaves.iter().map(|leaf| &leaf.0));
    Planned::OneByOne(Arc::new(form), collected.lines())
}
