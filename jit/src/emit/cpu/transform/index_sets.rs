//! Index-set splitting: the loop over a row's vectors, parted where conditions on columns change.
//!
//! Joined, padded and shifted tensors are read under conditions that are linear in the column, so each changes at one place of
//! a row. Tested for each vector, they cost a kernel that only moves data up to half of its time, and keep the functions of
//! several vectors from being computed in turns. Between two such places every condition is the same for all columns. A loop
//! of little text is written once for each combination of conditions that most columns have, without tests (loop
//! unswitching); one with costly functions once, with tests of what all its lanes share. A vector that contains such a
//! place tests its lanes.

use crate::body::{BodyOp, MaskId, Value};
use crate::emit::cpu::index::Step;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::{At, COLUMN, holds};
use crate::expr;
use crate::kernel::ir::{Block, Expr, Infix, Local, Name, Stmt, Type};
use smallvec::SmallVec;

mod combinations;

use combinations::combinations;

/// What is known of a mask in a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::emit::cpu) enum Truth {
    /// Whether it holds.
    Known(bool),
    /// The variable that says whether it holds for all lanes or for none.
    Shared(Name),
}

/// The most masks of a loop that is parted.
const MASKS: usize = 16;
/// The most values in all copies of a loop together, and how many others a costly function counts as.
const TEXT: usize = 160;
const FUNCTION: usize = 32;

/// A loop's masks whose conditions part a row, and their combinations that are written.
pub(in crate::emit::cpu) struct IndexSets {
    masks: Vec<MaskId>,
    /// For each, which masks hold. Empty if one loop is written for all.
    combinations: Vec<Vec<bool>>,
}

impl Writer<'_> {
    /// What is known of a mask in the loop that is being written.
    pub(in crate::emit::cpu) fn truth(&self, mask: Option<MaskId>) -> Option<Truth> {
        self.truths.get(&mask?).copied()
    }

    /// Whether a load is made for all lanes in the loop that is being written.
    pub(in crate::emit::cpu) fn always_holds(&self, mask: Option<MaskId>) -> bool {
        mask.is_none() || self.truth(mask) == Some(Truth::Known(true))
    }

    /// Whether a mask is tested for each lane in the loop that is being written.
    pub(in crate::emit::cpu) fn is_tested(&self, mask: Option<MaskId>) -> bool {
        mask.is_some() && self.truth(mask).is_none()
    }

    /// What is known of a condition's value in the loop that is being written.
    pub(in crate::emit::cpu) fn truth_of(&self, v: Value) -> Option<Truth> {
        match self.node.body.value(v).op {
            BodyOp::Mask(mask) => self.truth(Some(mask)),
            _ => None,
        }
    }

    /// The index sets of a loop that stores columns of a long row, if it reads under conditions that are linear in the column.
    pub(in crate::emit::cpu) fn index_sets(&mut self, l: &Loop) -> Option<IndexSets> {
        let node = self.node;
        let moves = l.reduces.is_empty()
            && l.save.is_empty()
            && self.carried.is_empty()
            && !l.stores.is_empty()
            && l.stores.iter().all(|&s| node.stores[s].update.is_none());
        let long = self
            .extents
            .last()
            .is_some_and(|&n| n >= self.index_set_vectors * self.lanes);
        let conditional = !node.body.masks().is_empty();
        let parts = conditional && moves && long && self.lanes > 1;
        if !parts || self.tile.is_some() || node.feeds {
            return None;
        }
        let masks = self.linear_masks(l);
        if masks.is_empty() || masks.len() > MASKS {
            return None;
        }
        let combinations = self.unswitched(l, &masks);
        Some(IndexSets {
            masks,
            combinations,
        })
    }

    /// The combinations of masks for which a loop is written of its own, if their text is short.
    fn unswitched(&mut self, l: &Loop, masks: &[MaskId]) -> Vec<Vec<bool>> {
        let of = |&mask: &MaskId| self.node.body.mask(mask);
        let conditions: Vec<&[expr::Expr]> = masks.iter().map(of).collect();
        let kept = combinations(&conditions, &self.extents);
        let mut text = 0;
        let is_short = kept.iter().all(|combination| {
            self.know(masks, combination);
            let known = self.simplified(l);
            let costly = known.compute.iter().filter(|&&v| self.is_heavy(v)).count();
            text += known.compute.len() + costly * FUNCTION;
            text <= TEXT && (kept.len() == 1 || !self.is_chain(&known))
        });
        self.truths.clear();
        if is_short { kept } else { Vec::new() }
    }

    /// The masks of a loop, and of the values of its row that it reads, whose conditions are linear in the column.
    fn linear_masks(&self, l: &Loop) -> Vec<MaskId> {
        let body = &self.node.body;
        let operands = l.compute.iter().flat_map(|&v| body.operands(v));
        let mut masks: Vec<MaskId> = Vec::new();
        for v in l.compute.iter().copied().chain(operands) {
            let mask = match &body.value(v).op {
                BodyOp::Load { mask, .. } | BodyOp::Check { mask, .. } => *mask,
                BodyOp::Mask(mask) => Some(*mask),
                _ => None,
            };
            masks.extend(mask.filter(|m| !masks.contains(m) && self.is_linear(*m)));
        }
        masks.sort_unstable();
        masks
    }

    /// Whether the conditions of a mask are linear in the column, and known before the row's loop.
    fn is_linear(&self, mask: MaskId) -> bool {
        let linear = |step: Step| matches!(step, Step::Uniform | Step::Unit | Step::Back);
        let known = |e: &expr::Expr| !e.follows_from_values();
        let printed = self.masks.get(&mask);
        printed.is_some_and(|all| all.iter().all(|c| linear(c.step)))
            && self.node.body.mask(mask).iter().all(known)
    }

    /// Takes masks for known until another loop is written.
    fn know(&mut self, masks: &[MaskId], combination: &[bool]) {
        let truths = combination.iter().map(|&holds| Truth::Known(holds));
        self.truths = masks.iter().copied().zip(truths).collect();
    }

    /// The loop over whole vectors up to a column, part by part.
    pub(in crate::emit::cpu) fn over_index_sets(
        &mut self,
        l: &Loop,
        sets: &IndexSets,
        end: &Expr,
    ) -> Block {
        let lanes = self.lanes as i64;
        let mut out = Block::new();
        let mut stop = end.clone();
        for bound in self.bounds(sets) {
            let name = Name::Base(self.next_base());
            out.push(Stmt::constant(name, Type::INDEX, bound));
            let ahead = Expr::from(name).greater(COLUMN);
            stop = stop.least(ahead.choose(name, end.clone()));
        }
        let mut part = Block::from(Stmt::constant(Local::Stop, Type::INDEX, stop));
        part.append(self.known_loops(l, sets));
        let at = At {
            position: &COLUMN,
            lanes: None,
        };
        let mut mixed = Block::new();
        self.inner_step(&mut mixed, l, at, 0);
        mixed.push(Stmt::update(Local::Column, Infix::Add, lanes));
        let whole = || (COLUMN + lanes).at_most(end.clone());
        part.push(Stmt::While(COLUMN.less(Local::Stop).and(whole()), mixed));
        out.push(Stmt::While(whole(), part));
        out
    }

    /// The places of a row where a condition begins or ceases to hold, each once.
    fn bounds(&self, sets: &IndexSets) -> Vec<Expr> {
        let column = self
            .vector_var()
            .map_or_else(expr::Expr::default, expr::Expr::from);
        let mut places: Vec<expr::Expr> = Vec::new();
        let mut bounds = Vec::new();
        for mask in &sets.masks {
            let conditions = self.node.body.mask(*mask);
            for (condition, printed) in conditions.iter().zip(&self.masks[mask]) {
                let first = printed.at(&Expr::Integer(0));
                let (place, bound) = match printed.step {
                    Step::Unit => (column.sub(condition), -first),
                    Step::Back => (condition.add(&column).offset(1), first + 1),
                    _ => continue,
                };
                if !places.contains(&place) {
                    places.push(place);
                    bounds.push(bound);
                }
            }
        }
        bounds
    }

    /// The loops up to the next bound.
    fn known_loops(&mut self, l: &Loop, sets: &IndexSets) -> Block {
        let mut out = Block::new();
        let mut shared: Vec<Name> = Vec::new();
        for mask in &sets.masks {
            let name = Name::Base(self.next_base());
            let test = holds(&self.masks[mask], &COLUMN).unwrap_or(Expr::Integer(1));
            out.push(Stmt::constant(name, Type::INDEX, test));
            shared.push(name);
        }
        let mut chosen = Block::new();
        if sets.combinations.is_empty() {
            let truths = shared.iter().map(|&name| Truth::Shared(name));
            self.truths = sets.masks.iter().copied().zip(truths).collect();
            chosen = self.known_loop(&self.simplified(l));
        }
        for combination in sets.combinations.iter().rev() {
            self.know(&sets.masks, combination);
            let loops = self.known_loop(&self.simplified(l));
            let tests = shared.iter().zip(combination);
            let tests = tests.map(|(&name, &holds)| match holds {
                true => name.into(),
                false => !Expr::from(name),
            });
            if let Some(test) = Expr::all(tests) {
                chosen = Stmt::either(test, loops, chosen).into();
            }
        }
        self.truths.clear();
        out.append(chosen);
        out
    }

    /// The loop over the vectors up to the next bound: several in turns where that gains, and left to the loop that tests
    /// lanes what is left of long functions.
    fn known_loop(&mut self, l: &Loop) -> Block {
        let chain = self.is_chain(l);
        let mut loops = Block::new();
        if chain || self.moves_runs(l) {
            loops.append(self.jammed_loop(l, Local::Stop.into()));
        }
        if !chain {
            loops.push(self.vector_loop(l, Local::Stop.into()));
        }
        loops
    }

    /// A loop with the values alone that its stores need under what is known.
    fn simplified(&self, l: &Loop) -> Loop {
        let mut needed = vec![false; self.node.body.values().len()];
        for &s in &l.stores {
            needed[self.node.stores[s].value as usize] = true;
        }
        // Operands come before what is computed of them.
        for &v in l.compute.iter().rev() {
            if needed[v as usize] {
                for operand in self.operands_known(v) {
                    needed[operand as usize] = true;
                }
            }
        }
        let used = |v: &Value| needed[*v as usize];
        Loop {
            compute: l.compute.iter().copied().filter(used).collect(),
            restore: l.restore.iter().copied().filter(used).collect(),
            ..l.clone()
        }
    }

    /// The operands that a value is computed of under what is known.
    fn operands_known(&self, v: Value) -> SmallVec<[Value; 4]> {
        let body = &self.node.body;
        match &body.value(v).op {
            BodyOp::Select(m, a, b) => match self.truth_of(*m) {
                Some(Truth::Known(true)) => SmallVec::from_slice(&[*a]),
                Some(Truth::Known(false)) => SmallVec::from_slice(&[*b]),
                Some(Truth::Shared(_)) => SmallVec::from_slice(&[*a, *b]),
                None => body.operands(v),
            },
            BodyOp::Load { mask, .. } | BodyOp::Check { mask, .. }
                if self.truth(*mask) == Some(Truth::Known(false)) =>
            {
                SmallVec::new()
            }
            _ => body.operands(v),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::emit::cpu::unroll::tests::emitted;
    use crate::policy::Policy;

    /// The text of a graph's only kernel, for vectors of so many bytes.
    fn body(graph: &str, vector: usize) -> String {
        let mut policy = Policy::default();
        policy.target.vector = vector;
        emitted(graph, &policy).source.body.to_string()
    }

    /// Two rows that are joined, plus one.
    fn joined(n: usize) -> String {
        format!(
            "%0: f32[{n}] = input 0 [1]
             %1: f32[{n}] = input 1 [1]
             %2: f32[{all}] = cat(%0, %1) {{dim: 0}}
             %3: f32[{all}] = add(%2, %2)
             return %3",
            all = 2 * n
        )
    }

    #[test]
    fn a_joined_row_has_loops_for_each_part() {
        for vector in [16, 32, 64] {
            let text = body(&joined(1000), vector);
            let loops = text.matches("<= stop; j +=").count();
            // For each part one of four vectors at a time, and one of what is left.
            assert_eq!(loops, 4, "{text}");
        }
    }

    #[test]
    fn a_short_row_tests_its_vectors() {
        assert!(!body(&joined(40), 64).contains("stop"));
        assert!(body(&joined(40), 16).contains("stop"));
    }

    #[test]
    fn of_many_shifts_the_inside_has_a_loop() {
        let text = body(
            "%0: f32[500, 600] = input 0 [600, 1]
             %1: f32[502, 602] = pad(%0, 0.0) {pads: [[1, 1], [1, 1]]}
             %2: f32[502, 602] = relu(%1)
             return %2",
            64,
        );
        assert_eq!(text.matches("<= stop; j +=").count(), 2, "{text}");
    }
}
