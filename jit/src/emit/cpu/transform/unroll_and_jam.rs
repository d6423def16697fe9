//! Several vectors of a row's loop computed together, statement by statement.
//!
//! A function such as exp is a chain in which each operation waits for the one before it. Written one after another,
//! the chains of several vectors overlap as far as the processor's window reaches: 6.5 cycles a vector of exp, summed.
//! Written in turns, they fill the pipelines at once: 5.6.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::index::Step;
use crate::emit::cpu::kernel::{UNROLL, Writer};
use crate::emit::cpu::outline::support_function;
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::{At, COLUMN};
use crate::kernel::ir::{Block, Expr, Name, Part, Stmt};
use ferrotrace_kernels::{ReduceKind, support};
use ferrotrace_runtime::DType;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// Costly functions in a row from which on several vectors are computed in turns: with 32 registers, and with fewer, on
/// processors whose window is shorter.
const CHAIN: usize = 3;
const SHORT_CHAIN: usize = 2;
/// The most costly functions of such a loop, whose text is five times as long.
const LONGEST: usize = 64;
/// The most values of a loop that only moves data.
const MOVED: usize = 4;

impl Writer<'_> {
    /// The name of a value in the copy of the loop's body that is being written.
    pub(in crate::emit::cpu) fn name(&self, v: Value) -> Name {
        match self.copy {
            Some(copy) if self.stepped.contains(&v) => Name::copy(Part::Value, v, copy),
            _ => Name::value(v),
        }
    }

    /// The function on four vectors that computes a value, if there is one, and its operand.
    fn function_of_four(&self, v: Value) -> Option<(&'static str, Value)> {
        let BodyOp::Unary(op, a) = self.node.body.value(v).op else {
            return None;
        };
        let single = self.node.body.value(a).dtype.compute() == DType::F32;
        let name = format!("ft_four_{}_f32", support_function(self.node, op, a));
        let known =
            (single && support::has(&name)).then(|| support::need(&name, self.lanes).name)?;
        let stem = known.strip_prefix("ft_")?.strip_suffix("_f32")?;
        Some((stem, a))
    }

    /// Whether NaN among the operands of a reduction is looked for in two vectors by one comparison.
    pub(in crate::emit::cpu) fn pairs(&self, r: &Reduction) -> bool {
        let extreme = matches!(r.kind, ReduceKind::Max | ReduceKind::Min);
        extreme && r.dtype.is_float() && r.dtype.size() * self.lanes == 64
    }

    /// Whether a value of a loop is one statement.
    fn is_simple(&self, l: &Loop, v: Value) -> bool {
        let body = &self.node.body;
        match &body.value(v).op {
            BodyOp::Load { mask, .. } => {
                let step = self.indices.get(&v).map(|i| i.step);
                !self.is_tested(*mask)
                    && matches!(step, Some(Step::Unit | Step::Uniform))
                    && body.operands(v).iter().all(|o| !l.compute.contains(o))
            }
            BodyOp::Mask(mask) => !self.is_tested(Some(*mask)),
            BodyOp::Number(_)
            | BodyOp::Unary(..)
            | BodyOp::Binary(..)
            | BodyOp::Divide(..)
            | BodyOp::Select(..)
            | BodyOp::Cast(_)
            | BodyOp::Round(..) => true,
            _ => false,
        }
    }

    /// Whether `UNROLL` copies of a loop's body are written in turns: where that gains, every operation is one
    /// statement, and the registers suffice.
    pub(in crate::emit::cpu) fn is_jammed(&self, l: &Loop) -> bool {
        let reductions = || l.reduces.iter().map(|&r| self.reduction(r));
        self.registers >= 32
            && l.stores.is_empty()
            && (l
                .compute
                .iter()
                .any(|&v| self.function_of_four(v).is_some())
                || reductions().any(|r| self.pairs(&r)))
            && l.compute.iter().all(|&v| self.is_simple(l, v))
            && reductions().all(|r| !r.has_position())
    }

    /// Whether a loop that stores columns is written for `UNROLL` vectors in turns first: where each waits for so many functions one
    /// after another that the processor's window does not reach the next vector's.
    pub(in crate::emit::cpu) fn is_chain(&self, l: &Loop) -> bool {
        let heavy = l.compute.iter().filter(|&&v| self.is_heavy(v)).count();
        let long = self
            .extents
            .last()
            .is_some_and(|&n| n >= 2 * UNROLL * self.lanes);
        // Without FMA and rounding, as SSE2 is, the text of a function is long: four copies compile for a second more.
        let least = match (self.registers, self.vector) {
            (32.., _) => CHAIN,
            (_, 32..) => SHORT_CHAIN,
            _ => return false,
        };
        (least..=LONGEST).contains(&heavy)
            && long
            && self.stores_runs(l)
            && self.functions_in_a_row(l) >= least
    }

    /// Whether a loop does nothing but store runs of what is one statement each.
    fn stores_runs(&self, l: &Loop) -> bool {
        let unit = |s: &usize| {
            let store = &self.node.stores[*s];
            store.update.is_none() && self.store_indices[s].step == Step::Unit
        };
        self.lanes > 1
            && l.reduces.is_empty()
            && l.save.is_empty()
            && l.restore.is_empty()
            && !l.stores.is_empty()
            && l.stores.iter().all(unit)
            && self.carried.is_empty()
            && l.compute.iter().all(|&v| self.is_simple(l, v))
    }

    /// Whether a loop stores runs of what it loads with little arithmetic. Where source and target begin a few elements apart in their
    /// pages, a load waits for the store before it, unless several loads come before the stores.
    pub(in crate::emit::cpu) fn moves_runs(&self, l: &Loop) -> bool {
        l.compute.len() <= MOVED && self.stores_runs(l)
    }

    /// The most costly functions of a loop of which each waits for the one before.
    fn functions_in_a_row(&self, l: &Loop) -> usize {
        let mut depth: FxHashMap<Value, usize> = FxHashMap::default();
        let mut most = 0;
        for &v in &l.compute {
            let operands = self.node.body.operands(v);
            let before = operands.iter().filter_map(|o| depth.get(o)).max();
            let own = before.copied().unwrap_or(0) + usize::from(self.is_heavy(v));
            depth.insert(v, own);
            most = most.max(own);
        }
        most
    }

    /// The loop over as many vectors at a time as there are copies, up to a column.
    pub(in crate::emit::cpu) fn jammed_loop(&mut self, l: &Loop, end: Expr) -> Block {
        self.stepped = l.compute.iter().chain(&l.restore).copied().collect();
        let positions: Vec<Expr> = (0..UNROLL)
            .map(|c| COLUMN + (c * self.lanes) as i64)
            .collect();
        let at = |copy: usize| At {
            position: &positions[copy],
            lanes: None,
        };
        let places: Vec<At<'_>> = (0..UNROLL).map(at).collect();
        let mut step = Block::new();
        self.pipelined_steps(&mut step, l, &places);
        for copy in 0..UNROLL {
            self.prefetches(&mut step, at(copy));
        }
        for &v in &l.restore {
            self.each_copy(|w, copy| w.restore(&mut step, v, at(copy)));
        }
        for &v in &l.compute {
            match self.function_of_four(v) {
                Some((stem, a)) => self.call_of_four(&mut step, v, (stem, a)),
                None => self.each_copy(|w, copy| w.statement(&mut step, v, at(copy))),
            }
            if l.save.contains(&v) {
                self.each_copy(|w, copy| w.save(&mut step, v, at(copy)));
            }
        }
        for &id in &l.reduces {
            let r = self.reduction(id);
            if self.pairs(&r) {
                self.update_pairs(&mut step, &r);
                continue;
            }
            self.each_copy(|w, copy| {
                let into = (r.accumulator(copy).into(), r.part(Part::Places).into());
                step.push(w.update(&r, into, None, None));
            });
        }
        if !l.stores.is_empty() {
            self.each_copy(|w, copy| w.store_all(&mut step, &l.stores, at(copy)));
        }
        self.stepped.clear();
        Self::along_vectors(end, UNROLL * self.lanes, step).into()
    }

    /// Computes the copies of a value by a function that overwrites its arguments.
    fn call_of_four(&mut self, step: &mut Block, v: Value, (stem, a): (&'static str, Value)) {
        let ty = self.vector_type(DType::F32);
        let mut places = Vec::new();
        self.each_copy(|w, _| {
            step.push(Stmt::variable(w.name(v), ty, w.name(a)));
            places.push(Expr::from(w.name(v)).address());
        });
        step.push(Stmt::Call(self.support(stem, DType::F32, places)));
    }

    /// Takes the copies of an extreme's operand in, and notes NaN among them, two vectors by one comparison.
    fn update_pairs(&mut self, step: &mut Block, r: &Reduction) {
        let mut values = Vec::new();
        self.each_copy(|w, copy| {
            let (acc, value) = (r.accumulator(copy), w.name(r.value));
            let best = w.support(r.extreme_of(), r.dtype, [value.into(), acc.into()]);
            step.push(Stmt::assign(acc, best));
            values.push(value);
        });
        let nans = r.part(Part::Nans);
        for pair in values.chunks(2) {
            let two = [nans.into(), pair[0].into(), pair[pair.len() - 1].into()];
            step.push(Stmt::assign(nans, self.support("nans", r.dtype, two)));
        }
    }

    fn each_copy(&mut self, mut write: impl FnMut(&mut Self, usize)) {
        for copy in 0..UNROLL {
            self.copy = Some(copy);
            write(self, copy);
        }
        self.copy = None;
    }

    /// Whether a loop that stores a row is written for the usual case first: a divisor whose reciprocal is taken, and
    /// results that stay in the cache. Tests in each step cost a short row a tenth of its time.
    pub(in crate::emit::cpu) fn has_usual_case(&self, l: &Loop) -> bool {
        let divides = |v: &Value| matches!(self.node.body.value(*v).op, BodyOp::Divide(..));
        let unit = |v: &Value| self.indices.get(v).is_none_or(|i| i.step == Step::Unit);
        l.reduces.is_empty()
            && l.compute.iter().any(divides)
            && l.compute.iter().all(unit)
            && l.compute.len() <= 6
            && self.carried.is_empty()
    }

    /// The loop of the usual case, over several vectors at a time; what is left is for the general one.
    pub(in crate::emit::cpu) fn usual_loop(&mut self, l: &Loop, end: Expr) -> Block {
        self.usual = Some(BTreeSet::new());
        let mut steps = Block::new();
        for copy in 0..UNROLL {
            let position = COLUMN + (copy * self.lanes) as i64;
            let at = At {
                position: &position,
                lanes: None,
            };
            let mut step = Block::new();
            self.inner_step(&mut step, l, at, 0);
            steps.push(Stmt::Scope(step));
        }
        let tests = self.usual.take().unwrap_or_default();
        let all = Self::along_vectors(end, UNROLL * self.lanes, steps);
        match Expr::all(usual_tests(&tests)) {
            Some(test) => Stmt::when(test, all).into(),
            None => all.into(),
        }
    }
}

/// The tests of the usual case: what is stored stays in the cache, what is divided by is normal.
pub(in crate::emit::cpu) fn usual_tests(flags: &BTreeSet<Name>) -> Vec<Expr> {
    let streams = |name: &&Name| matches!(name, Name::Streams(_));
    let stored = flags.iter().filter(streams).map(|&name| !Expr::from(name));
    let normal = flags.iter().filter(|name| !streams(name));
    stored.chain(normal.map(|&name| name.into())).collect()
}
