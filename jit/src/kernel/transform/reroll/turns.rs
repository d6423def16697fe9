//! Repeated statements as the body of a loop.

use super::find::{Run, places};
use super::merge::{Rule, expression, statement};
use super::nodes::{Defined, Node};
use super::{Around, MEMORY};
use crate::kernel::ir::{
    Axis, Block, Expr, Extent, Function, Local, Loop, Name, Part, Stmt, Type, ValueType,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// How a value of a turn reaches what uses it elsewhere, by the number of its node within the turn.
#[derive(Default)]
struct Kept {
    /// In a variable, for the next turn or for what is behind the loop.
    carried: FxHashSet<usize>,
    /// In an array with an element for each turn, and so many for turns before the first.
    history: FxHashMap<usize, usize>,
}

/// A loop in the place of repeated nodes, behind what it needs declared, and what stands for variables of turns behind it.
/// `None` where the turns differ by more than a loop can tell.
pub(super) fn rolled(
    nodes: &[Node],
    run: Run,
    around: &mut Around<'_>,
) -> Option<(Vec<Stmt>, Replaced)> {
    let params = around.params.len();
    let rolled = Turns::of(nodes, run, around).and_then(Turns::build);
    if rolled.is_none() {
        around.params.truncate(params);
    }
    rolled
}

/// What stands for variables of turns behind their loop.
pub(super) type Replaced = FxHashMap<Name, Expr>;

struct Turns<'a, 'b> {
    nodes: &'a [Node],
    run: Run,
    around: &'a mut Around<'b>,
    at: FxHashMap<Name, usize>,
    kept: Kept,
    /// The number of the first name of those that are kept.
    first_name: u32,
    /// What a turn reads of the tables of arguments, and its name.
    read: Vec<(Name, Type, Expr)>,
}

impl<'a, 'b> Turns<'a, 'b> {
    fn of(nodes: &'a [Node], run: Run, around: &'a mut Around<'b>) -> Option<Turns<'a, 'b>> {
        let first_name = around.names;
        around.names += run.period as u32;
        let mut turns = Turns {
            nodes,
            run,
            at: places(nodes),
            kept: Kept::default(),
            first_name,
            around,
            read: Vec::new(),
        };
        turns.uses_behind();
        // The first time through finds what turns take from turns before them.
        let params = turns.around.params.len();
        turns.body()?;
        turns.around.params.truncate(params);
        turns.read.clear();
        Some(turns)
    }

    /// The turn and the number of a node that repeats.
    fn turn_of(&self, node: usize) -> Option<(usize, usize)> {
        let Run {
            first,
            period,
            turns,
        } = self.run;
        let place = node.checked_sub(first)?;
        (place < period * turns).then_some((place / period, place % period))
    }

    /// Notes what is used behind the loop.
    fn uses_behind(&mut self) {
        let Run {
            first,
            period,
            turns,
        } = self.run;
        let behind = self.nodes[first + period * turns..]
            .iter()
            .map(|n| &n.stmts);
        let mut uses: Vec<Name> = Vec::new();
        for stmts in behind.chain([&self.around.tail]) {
            let mut see = |name| uses.push(name);
            stmts.iter().for_each(|stmt| stmt.visit_names(&mut see));
        }
        for name in uses {
            let node = self.at.get(&name).and_then(|&n| self.turn_of(n));
            match node {
                Some((turn, slot)) if turn + 1 == turns => {
                    self.kept.carried.insert(slot);
                }
                Some((_, slot)) => {
                    self.kept.history.entry(slot).or_default();
                }
                None => {}
            }
        }
    }

    fn name(&self, part: Part, slot: usize) -> Name {
        Name::of(part, self.first_name + slot as u32)
    }

    /// The statements of one turn.
    fn body(&mut self) -> Option<Vec<Stmt>> {
        let Run {
            first,
            period,
            turns,
        } = self.run;
        let mut body = Vec::new();
        for slot in 0..period {
            let node = |turn: usize| &self.nodes[first + turn * period + slot];
            let all: Vec<&'a Node> = (0..turns).map(node).collect();
            for s in 0..all[0].stmts.len() {
                let of_turns: Vec<&Stmt> =
                    all.iter().map(|n| n.stmts.get(s)).collect::<Option<_>>()?;
                body.push(statement(&of_turns, self)?);
            }
        }
        Some(body)
    }

    /// What a node of a turn defines.
    fn defined(&self, slot: usize) -> Option<Defined> {
        self.nodes[self.run.first + slot].defines
    }

    fn build(mut self) -> Option<(Vec<Stmt>, Replaced)> {
        let mut body = self.body()?;
        let history = &self.kept.history;
        self.kept.carried.retain(|slot| !history.contains_key(slot));
        let Run {
            first,
            period,
            turns,
        } = self.run;
        let mut out = Vec::new();
        let mut bytes = 0;
        let mut slots: Vec<usize> = self.kept.history.keys().copied().collect();
        slots.sort_unstable();
        for slot in slots {
            let lead = self.kept.history[&slot];
            let Defined { name, ty, extent } = self.defined(slot)?;
            let array = self.name(Part::History, slot);
            // Like numbers of steps have one text.
            let elements = (turns + lead).next_power_of_two();
            bytes += elements * size(ty)?;
            if extent != Extent::One || bytes > MEMORY {
                return None;
            }
            out.push(Stmt::array(array, ty, Extent::array(elements)));
            for turn in 0..lead {
                // The value of a turn before the first.
                let before = self.before(slot, lead - turn, ty)?;
                let element = Expr::from(array).element(turn as i64);
                out.push(Stmt::assign(element, before));
            }
            let element = Expr::from(array).element(step(lead as i64));
            body.push(Stmt::assign(element, name));
        }
        let mut slots: Vec<usize> = self.kept.carried.iter().copied().collect();
        slots.sort_unstable();
        for slot in slots {
            let Defined { name, ty, extent } = self.defined(slot)?;
            if extent != Extent::One {
                return None;
            }
            let carried = self.name(Part::Carried, slot);
            let before = self.before(slot, 1, ty);
            out.push(match before {
                Some(before) => Stmt::variable(carried, ty, before),
                None => Stmt::unset(carried, ty),
            });
            body.push(Stmt::assign(carried, name));
        }
        let count = self.around.param(turns as i64);
        let read = self.read.drain(..);
        body.splice(
            ..0,
            read.map(|(name, ty, value)| Stmt::constant(name, ty, value)),
        );
        let each = Loop::over(Local::Step, 0, count).along(Axis::Step);
        out.push(each.each(Block(body)));
        let mut replaced = Replaced::default();
        for node in first..first + period * turns {
            let Some(defined) = self.nodes[node].defines else {
                continue;
            };
            let (turn, slot) = ((node - first) / period, (node - first) % period);
            let value = match self.kept.history.get(&slot) {
                Some(lead) => {
                    let array = Expr::from(self.name(Part::History, slot));
                    array.element((turn + lead) as i64)
                }
                None if turn + 1 == turns && self.kept.carried.contains(&slot) => {
                    self.name(Part::Carried, slot).into()
                }
                None => continue,
            };
            replaced.insert(defined.name, value);
        }
        Some((out, replaced))
    }

    /// The variable that is to a turn's node what that is to the node so many turns later.
    fn before(&self, slot: usize, turns: usize, ty: Type) -> Option<Name> {
        let node = (self.run.first + slot).checked_sub(turns * self.run.period)?;
        let defined = self.nodes[node].defines?;
        (defined.ty == ty && defined.extent == Extent::One).then_some(defined.name)
    }

    /// What names variables of this sequence, one of each turn.
    fn values(&mut self, names: &[Name]) -> Option<Expr> {
        let Run { first, period, .. } = self.run;
        let places: Vec<usize> = names
            .iter()
            .map(|n| self.at.get(n).copied())
            .collect::<Option<_>>()?;
        let start = places[0];
        if places.iter().all(|&place| place == start) {
            return (start < first).then(|| names[0].into());
        }
        if !places
            .iter()
            .enumerate()
            .all(|(turn, &place)| place == start + turn * period)
        {
            return None;
        }
        if start >= first {
            return Some(names[0].into());
        }
        let turns = (first - start).div_ceil(period);
        let slot = start + turns * period - first;
        // All turns but the first few find it in another turn; those find it where the nodes before were.
        let of = |turn: usize| {
            self.nodes[start + turn * period]
                .defines
                .map(|d| (d.ty, d.extent))
        };
        if (0..=turns).any(|turn| of(turn) != of(0)) {
            return None;
        }
        if turns == 1 && !self.kept.history.contains_key(&slot) {
            self.kept.carried.insert(slot);
            return Some(self.name(Part::Carried, slot).into());
        }
        let lead = self.kept.history.entry(slot).or_default();
        *lead = turns.max(*lead);
        let back = (*lead - turns) as i64;
        Some(Expr::from(self.name(Part::History, slot)).element(step(back)))
    }

    /// A position of a table that grows by as much in each turn, or is told by an argument.
    fn position(&mut self, positions: &[i64]) -> Expr {
        let (start, by) = (positions[0], positions[1] - positions[0]);
        let expected = |(turn, &position): (usize, &i64)| position == start + turn as i64 * by;
        if positions.iter().enumerate().all(expected) {
            return match by {
                1 => step(start),
                _ => Expr::from(Local::Step) * by + start,
            };
        }
        let table = self.around.table(positions);
        Expr::from(Local::Params).element(step(table))
    }
}

impl Turns<'_, '_> {
    /// The name of what a turn reads of the tables of arguments.
    fn reads(&mut self, ty: Type, value: Expr) -> Expr {
        if let Some((name, ..)) = self.read.iter().find(|read| read.2 == value) {
            return (*name).into();
        }
        let name = Name::of(Part::Stepped, self.around.names);
        self.around.names += 1;
        self.read.push((name, ty, value));
        name.into()
    }
}

/// The number of the turn, from this one on.
fn step(first: i64) -> Expr {
    match first {
        0 => Local::Step.into(),
        _ => Expr::from(Local::Step) + first,
    }
}

/// The bytes of a value.
fn size(ty: Type) -> Option<usize> {
    match ty {
        Type::Value(ValueType::Vector(dtype, lanes)) => {
            Some(ValueType::representation(dtype, lanes).size() * usize::from(lanes))
        }
        Type::Value(_) => Some(8),
        _ => None,
    }
}

impl Rule for Turns<'_, '_> {
    fn names(&mut self, names: &[Name]) -> Option<Expr> {
        let same = names.iter().all(|name| *name == names[0]);
        if names.iter().any(|name| self.at.contains_key(name)) {
            return self.values(names);
        }
        if same || self.around.of_one_value(names) {
            return Some(names[0].into());
        }
        if !self.around.in_one_table(names) {
            let all = names.iter().map(|n| self.around.definition(*n).cloned());
            let all: Vec<Expr> = all.collect::<Option<_>>()?;
            return expression(&all.iter().collect::<Vec<_>>(), self);
        }
        let positions: Option<Vec<i64>> = names.iter().map(position_of).collect();
        let position = self.position(&positions?);
        let arguments = self.around.arguments;
        Some(match names[0] {
            Name::Param(_) => {
                let value = Expr::from(Local::Params).element(position);
                self.reads(Type::INDEX, value)
            }
            Name::Pointer(i) => {
                let ty = Type::Pointer(*arguments.pointers.get(i as usize)?);
                let value = Expr::from(Local::Pointers).element(position).cast(ty);
                self.reads(ty, value)
            }
            Name::Number(i) => {
                let dtype = arguments.numbers.get(i as usize)?.compute();
                let place = Expr::from(Local::Numbers).element(position).address();
                let number = place
                    .cast(Type::read(ValueType::Scalar(dtype)))
                    .dereference();
                let set = Function::Support("set", dtype, self.around.lanes);
                let ty = Type::vector(dtype, self.around.lanes.into());
                self.reads(ty, Expr::call(set, [number]))
            }
            _ => return None,
        })
    }

    fn positions(&mut self, positions: &[i64]) -> Option<Expr> {
        Some(match positions.iter().all(|p| *p == positions[0]) {
            true => positions[0].into(),
            false => self.position(positions),
        })
    }
}

/// The number of an argument.
fn position_of(name: &Name) -> Option<i64> {
    match name {
        Name::Param(i) | Name::Pointer(i) | Name::Number(i) => Some(i64::from(*i)),
        _ => None,
    }
}
