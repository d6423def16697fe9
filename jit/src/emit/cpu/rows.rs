//! Loads of all columns of adjoining rows, along which lanes run: whole vectors are read and transposed in registers.

use crate::body::{BodyOp, Source, Value};
use crate::emit::cpu::index::Step;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::At;
use crate::expr;
use crate::kernel::ir::{Block, Expr, Extent, Name, Part, Stmt};
use ferrotrace_kernels::support::{ROWS, cost_by_rows};

/// Operations that take a vector of every `step`-th element, which is read alone.
pub(super) fn cost_alone(step: usize, lanes: usize) -> usize {
    match step {
        0 | 1 => 1,
        2..=8 => 2 * step - 1,
        _ => 2 * lanes,
    }
}

/// Whether the columns of rows of so many are cheaper read together.
pub(super) fn pays_together(columns: usize, lanes: usize) -> bool {
    columns > 2
        && columns - 2 < ROWS.len()
        && cost_by_rows(columns, lanes) < cost_alone(columns, lanes)
}

/// What is read at a place that moves by a number of elements from lane to lane.
pub(super) struct Strided<'a> {
    pub value: Value,
    pub source: Source,
    pub index: &'a expr::Expr,
    pub step: usize,
}

/// Groups of loads that together read all elements of rows, by place, where reading them together is cheaper.
pub(super) fn groups(loads: &[Strided<'_>], lanes: usize) -> Vec<Vec<Value>> {
    let mut found: Vec<Vec<Value>> = Vec::new();
    for first in loads {
        let done = |value: &Value| found.iter().any(|group| group.contains(value));
        if done(&first.value) || !pays_together(first.step, lanes) {
            continue;
        }
        let near = loads.iter().filter_map(|load| {
            let same = load.source == first.source && load.step == first.step;
            let same = same && !done(&load.value);
            let apart = same.then(|| load.index.sub(first.index).as_const())??;
            (apart.unsigned_abs() < first.step as u64).then_some((apart, load.value))
        });
        let mut near: Vec<(i64, Value)> = near.collect();
        near.sort_unstable();
        near.dedup_by_key(|(apart, _)| *apart);
        // Of several rows within reach, the one that starts first.
        let whole = near.windows(first.step).find(|run| {
            let least = run[0].0;
            (least..)
                .zip(*run)
                .all(|(place, (apart, _))| place == *apart)
        });
        if let Some(run) = whole {
            found.push(run.iter().map(|(_, value)| *value).collect());
        }
    }
    found
}

impl Writer<'_> {
    /// The loads of a loop that are read together, by place.
    fn loads_of_rows(&self, l: &Loop) -> Vec<Vec<Value>> {
        let strided = |&value: &Value| {
            let BodyOp::Load {
                source,
                index,
                mask,
                ..
            } = &self.node.body.value(value).op
            else {
                return None;
            };
            let Step::Every(step) = self.indices.get(&value)?.step else {
                return None;
            };
            let plain =
                self.always_holds(*mask) && index.is_affine() && !self.staged.contains_key(&value);
            plain.then_some(Strided {
                value,
                source: *source,
                index,
                step: usize::from(step),
            })
        };
        let loads: Vec<Strided<'_>> = l.compute.iter().filter_map(strided).collect();
        groups(&loads, self.lanes)
    }

    /// The values that a loop computes at a position; `keep` puts a value where later loops find it.
    pub(super) fn compute_all(
        &mut self,
        out: &mut Block,
        l: &Loop,
        at: At<'_>,
        keep: impl Fn(&mut Self, &mut Block, Value),
    ) {
        let groups = match at.lanes {
            None => self.loads_of_rows(l),
            Some(_) => Vec::new(),
        };
        let mut read = vec![false; groups.len()];
        for &v in &l.compute {
            match groups.iter().position(|group| group.contains(&v)) {
                Some(group) if !std::mem::replace(&mut read[group], true) => {
                    self.load_rows(out, &groups[group], at);
                }
                Some(_) => {}
                None => self.statement(out, v, at),
            }
            if l.save.contains(&v) {
                keep(self, out, v);
            }
        }
    }

    /// Declares the columns of rows.
    fn load_rows(&mut self, out: &mut Block, group: &[Value], at: At<'_>) {
        let BodyOp::Load {
            source,
            dtype: memory,
            ..
        } = self.node.body.value(group[0]).op
        else {
            return;
        };
        let place = Expr::from(self.pointer(source)) + self.indices[&group[0]].at(at.position);
        let columns = Name::of(Part::Staged, group[0]);
        let ty = self.vector_type(memory);
        let extent = Extent::Array(group.len().into());
        out.push(Stmt::array(columns, ty, extent));
        let stem = ROWS[group.len() - 2];
        let load = self.support(stem, memory, [place, columns.into()]);
        out.push(Stmt::Call(load));
        for (k, &v) in group.iter().enumerate() {
            let column = Expr::from(columns).element(k as i64);
            out.push(Stmt::constant(self.name(v), ty, column));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Strided, groups};
    use crate::body::{Source, Value};
    use crate::expr::{Expr, Var};

    #[test]
    fn rows_above_each_other_are_groups_of_their_own() {
        let row = Expr::from(Var(0)).scale(9);
        // Two whole rows, then all but one element of a third.
        let places: Vec<Expr> = (0..26).map(|place| row.offset(place)).collect();
        let strided = |(value, index)| Strided {
            value,
            source: Source::Input(0),
            index,
            step: 9,
        };
        let loads: Vec<Strided<'_>> = (0..).zip(&places).map(strided).collect();
        let [a, b]: [Vec<Value>; 2] = [(0..9).collect(), (9..18).collect()];
        assert_eq!(groups(&loads, 16), [a, b]);
    }
}
