//! Values as statements.

use crate::body::{BodyOp, MaskId, Source, Value};
use crate::emit::cpu::index::{Index, Step};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::random::{self, Positions};
use crate::emit::cpu::transform::index_sets::Truth;
use crate::kernel::ir::{
    Axis, Block, Expr, Extent, Function, Local, Loop, Name, Part, Prefix, Stmt, Type, ValueType,
};
pub(super) use crate::print::c::lane_type;
use ferrotrace_kernels::support::{EVERY, mask_dtype};
use ferrotrace_runtime::DType;

/// Where a statement stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    /// The vector position of lane 0.
    pub position: &'a Expr,
    /// How many lanes count, where not all do.
    pub lanes: Option<&'a Expr>,
}

impl At<'_> {
    /// The position of the lane that a loop over lanes is at.
    pub fn lane(&self) -> Expr {
        self.position.clone() + Local::Lane
    }
}

/// The position along the vector axis, as a variable.
pub(super) const COLUMN: Expr = Expr::Name(Name::Local(Local::Column));
/// How many lanes count, as a variable.
pub(super) const COUNT: Expr = Expr::Name(Name::Local(Local::Count));

/// Most parts of an expression that is written once for each lane.
const LANE_PARTS: usize = 12;

/// Whether an expression is the lane that a loop over lanes is at.
fn is_lane(e: &Expr) -> bool {
    matches!(e, Expr::Name(Name::Local(Local::Lane)))
}

/// The array that a loop over lanes fills or empties.
pub(super) fn element_array(ty: ValueType, lanes: usize, zeroed: bool) -> Stmt {
    let extent = Extent::Array(lanes.into());
    match zeroed {
        true => Stmt::zeros(Local::Elements, ty, extent),
        false => Stmt::array(Local::Elements, ty, extent),
    }
}

impl Writer<'_> {
    /// The vector type of a value of this dtype.
    pub(super) fn vector_type(&self, dtype: DType) -> Type {
        Type::vector(dtype, self.lanes)
    }

    /// A call of a support function of vectors by its stem.
    pub(super) fn support(
        &self,
        stem: &'static str,
        dtype: DType,
        args: impl IntoIterator<Item = Expr>,
    ) -> Expr {
        let function = Function::Support(stem, dtype, self.lanes as u16);
        Expr::call(function, args)
    }

    /// A vector whose lanes are all one number.
    pub(super) fn set(&self, dtype: DType, number: impl Into<Expr>) -> Expr {
        self.support("set", dtype, [number.into()])
    }

    /// A vector of the numbers of the lanes.
    pub(super) fn iota(&self, dtype: DType) -> Expr {
        self.support("iota", dtype, [])
    }

    /// The number of lanes that count.
    pub(super) fn lane_count(&self, at: At<'_>) -> Expr {
        at.lanes
            .map_or_else(|| Expr::Integer(self.lanes as i64), Expr::clone)
    }

    /// A loop over the lanes that count.
    pub(super) fn each_lane(&self, at: At<'_>, body: impl Into<Block>) -> Stmt {
        Loop::over(Local::Lane, 0, self.lane_count(at))
            .of_type(ValueType::Scalar(DType::I64))
            .along(Axis::Lane)
            .each(body)
    }

    /// The lane of the array of elements that a loop over lanes is at.
    pub(super) fn element() -> Expr {
        Expr::from(Local::Elements).element(Local::Lane)
    }

    /// Declares a value.
    pub(super) fn statement(&mut self, out: &mut Block, value: Value, at: At<'_>) {
        if self.scalars[value as usize] {
            let lanes = std::mem::replace(&mut self.lanes, 1);
            self.vector(out, value, At { lanes: None, ..at });
            self.lanes = lanes;
        } else {
            self.vector(out, value, at);
        }
    }

    fn vector(&mut self, out: &mut Block, value: Value, at: At<'_>) {
        let node = self.node;
        let body = &node.body;
        let dtype = body.value(value).dtype;
        let lanes = self.lanes as u16;
        let of = |w: &Self, v: Value| Expr::from(w.name(v));
        let expr = match &body.value(value).op {
            BodyOp::Load {
                source,
                dtype: memory,
                mask,
                ..
            } => return self.load(out, value, (*source, *memory), *mask, at),
            BodyOp::Number(n) => Name::Number(*n).into(),
            BodyOp::Index(_) => return self.lane_index(out, value, at),
            BodyOp::Mask(mask) => return self.mask_value(out, value, *mask, at),
            BodyOp::Unary(..) | BodyOp::Binary(..) => self.operation(value),
            BodyOp::Divide(a, b, r) => {
                let multiplied = of(self, *a) * of(self, *r);
                let normal = Name::of(Part::Normal, value);
                match &mut self.usual {
                    Some(tests) => {
                        tests.insert(normal);
                        multiplied
                    }
                    None => Expr::from(normal).choose(multiplied, of(self, *a) / of(self, *b)),
                }
            }
            BodyOp::Select(m, a, b) => match self.truth_of(*m) {
                Some(Truth::Known(true)) => of(self, *a),
                Some(Truth::Known(false)) => of(self, *b),
                Some(Truth::Shared(flag)) => Expr::from(flag).choose(of(self, *a), of(self, *b)),
                None => {
                    let args = [of(self, *m), of(self, *a), of(self, *b)];
                    self.support("sel", dtype, args)
                }
            },
            BodyOp::Cast(a) => {
                let cast = Function::Cast(body.value(*a).dtype, dtype, lanes);
                Expr::call(cast, [of(self, *a)])
            }
            BodyOp::Round(a, half) => self.support("round", *half, [of(self, *a)]),
            BodyOp::Check { index, mask, .. } => {
                return self.check(out, value, *index, *mask, at);
            }
            BodyOp::Random { .. } => return self.random(out, value, at),
            BodyOp::Reduce { .. } => Name::of(Part::Result, value).into(),
            BodyOp::Scan { .. } => return self.scan(out, value, at),
        };
        self.declare_value(out, value, dtype, expr);
    }

    /// Declares a value that is known at once.
    fn declare_value(&self, out: &mut Block, value: Value, dtype: DType, expr: Expr) {
        let (name, ty) = (self.name(value), self.vector_type(dtype));
        out.push(Stmt::constant(name, ty, expr));
    }

    fn load(
        &mut self,
        out: &mut Block,
        value: Value,
        (source, memory): (Source, DType),
        mask: Option<MaskId>,
        at: At<'_>,
    ) {
        let staged = self.staged.get(&value).copied();
        let pointer = staged.unwrap_or_else(|| self.pointer(source));
        let index = self.indices[&value].clone();
        let whole = self.whole_load(pointer, memory, &index, at);
        let truth = self.truth(mask);
        if truth == Some(Truth::Known(false)) {
            let zeros = Expr::Zeros.cast(self.vector_type(memory));
            return self.declare_value(out, value, memory, zeros);
        }
        if let (Some(Truth::Shared(flag)), Some(load)) = (truth, &whole) {
            let (name, ty) = (self.name(value), self.vector_type(memory));
            out.push(Stmt::zeros(name, ty, Extent::One));
            return out.push(Stmt::when(flag.into(), Stmt::assign(name, load.clone())));
        }
        let tested = mask.filter(|_| !self.always_holds(mask));
        let Some(mask) = tested.map(|m| self.masks[&m].clone()) else {
            match whole {
                Some(load) => self.declare_value(out, value, memory, load),
                None => {
                    let element = Expr::from(pointer).element(index.at(&at.lane()));
                    if let Some(load) = self.of_lanes(memory, &element, at) {
                        return self.declare_value(out, value, memory, load);
                    }
                    let ty = self.vector_type(memory);
                    out.push(Stmt::zeros(Name::value(value), ty, Extent::One));
                    let lanes = self.lane_load(value, (pointer, memory), &index, None, at);
                    out.push(match self.load_of_run(pointer, memory, &index, at) {
                        Some((test, load)) => {
                            Stmt::either(test, Stmt::assign(Name::value(value), load), lanes)
                        }
                        None => Stmt::Scope(lanes),
                    });
                }
            }
            return;
        };
        let ty = self.vector_type(memory);
        out.push(Stmt::zeros(Name::value(value), ty, Extent::One));
        let part = self.part_load(value, (pointer, memory), &index, &mask, at);
        let lanes = part
            .unwrap_or_else(|| self.lane_load(value, (pointer, memory), &index, Some(&mask), at));
        let run = self.load_of_run(pointer, memory, &index, at);
        match (whole, self.all_lanes(&mask, at), run) {
            (None, Some((all, _)), Some((test, load))) => {
                let load = Stmt::assign(Name::value(value), load);
                out.push(Stmt::either(all.and(test), load, lanes));
            }
            (Some(load), Some((test, uniform)), _) => {
                let otherwise = if uniform { Block::new() } else { lanes };
                let all = Stmt::assign(Name::value(value), load);
                out.push(Stmt::either(test, all, otherwise));
            }
            _ => out.push(Stmt::Scope(lanes)),
        }
    }

    /// One vector access where the index allows it.
    fn whole_load(&self, pointer: Name, memory: DType, index: &Index, at: At<'_>) -> Option<Expr> {
        let here = index.at(at.position);
        let place = Expr::from(pointer) + here.clone();
        let count = at.lanes.cloned();
        Some(match (index.step, count) {
            (Step::Uniform, _) if memory.is_half() => {
                let one = self.support("loadn", memory, [place, Expr::Integer(1)]);
                self.set(DType::F32, one.element(0))
            }
            (Step::Uniform, _) => self.set(memory, Expr::from(pointer).element(here)),
            (Step::Unit, None) => self.support("load", memory, [place]),
            (Step::Unit, Some(m)) => self.support("loadn", memory, [place, m]),
            (Step::Back, None) => self.support("reversed", memory, [place]),
            (Step::Every(n), None) => match EVERY.get((n as usize).checked_sub(2)?) {
                Some(stem) => self.support(stem, memory, [place]),
                None => self.support("distant", memory, [place, index.distance?.into()]),
            },
            (Step::Every(2), Some(m)) => {
                self.support("evensr", memory, [place, Expr::Integer(0), m])
            }
            (Step::Strided, None) => {
                self.support("distant", memory, [place, index.distance?.into()])
            }
            (Step::Strided | Step::Every(_), Some(m)) => {
                self.support("distantn", memory, [place, index.distance?.into(), m])
            }
            _ => return None,
        })
    }

    /// A test that an irregular index is in one run of elements for all lanes, and the vector access to them.
    fn load_of_run(
        &self,
        pointer: Name,
        memory: DType,
        index: &Index,
        at: At<'_>,
    ) -> Option<(Expr, Expr)> {
        let run = index.run.as_ref()?;
        let load = self.whole_load(pointer, memory, &run.inside, at)?;
        let test = run.holds(at.position, &self.lane_count(at))?;
        Some((test, load))
    }

    /// One vector access to the lanes for which all conditions hold, which are linear in the position.
    fn part_load(
        &self,
        value: Value,
        (pointer, memory): (Name, DType),
        index: &Index,
        conditions: &[Index],
        at: At<'_>,
    ) -> Option<Block> {
        let mut block = self.lane_range(conditions, at)?;
        let (from, to) = (|| Expr::from(Local::From), || Expr::from(Local::To));
        let name = Name::value(value);
        block.push(match index.step {
            Step::Unit | Step::Every(2) => {
                let stem = if index.step == Step::Unit {
                    "loadr"
                } else {
                    "evensr"
                };
                let place = Expr::from(pointer) + index.at(at.position);
                Stmt::assign(name, self.support(stem, memory, [place, from(), to()]))
            }
            // One element, which is read if any lane is.
            Step::Uniform => {
                let all = self.whole_load(pointer, memory, index, at)?;
                let between = self.support("between", DType::Bool, [from(), to()]);
                let chosen = self.support("sel", memory.compute(), [between, all, name.into()]);
                Stmt::when(from().less(to()), Stmt::assign(name, chosen))
            }
            _ => return None,
        });
        Some(match self.some_lanes(conditions, at) {
            Some(some) => Stmt::when(some, block).into(),
            None => block,
        })
    }

    /// Declares the range of the lanes for which all conditions hold. Those that all lanes share are left to
    /// [`Writer::some_lanes`] where that has a test.
    fn lane_range(&self, conditions: &[Index], at: At<'_>) -> Option<Block> {
        let tested = self.some_lanes(conditions, at).is_some();
        let (from, to) = (|| Expr::from(Local::From), || Expr::from(Local::To));
        let mut block = Block::from([
            Stmt::variable(Local::From, Type::LONG, 0),
            Stmt::variable(Local::To, Type::LONG, self.lane_count(at)),
        ]);
        for condition in conditions {
            let c = condition.at(at.position);
            block.push(match condition.step {
                Step::Irregular => return None,
                Step::Uniform if tested => continue,
                Step::Uniform => Stmt::when(c.less(0), Stmt::assign(to(), 0)),
                Step::Unit => Stmt::assign(from(), from().greatest(-c)),
                Step::Back => Stmt::assign(to(), to().least(c + 1)),
                Step::Every(_) | Step::Strided => {
                    let next = condition.at(&(at.position.clone() + 1));
                    let (here, by) = (
                        || Expr::from(Local::Index),
                        || Expr::from(Local::Difference),
                    );
                    let quotient = |by| Expr::call(Function::FloorDiv, [here(), by]);
                    Stmt::Scope(Block::from([
                        Stmt::constant(Local::Index, Type::LONG, c),
                        Stmt::constant(Local::Difference, Type::LONG, next - here()),
                        Stmt::either(
                            by().greater(0),
                            Stmt::assign(from(), from().greatest(-quotient(by()))),
                            Stmt::assign(to(), to().least(quotient(-by()) + 1)),
                        ),
                    ]))
                }
            });
        }
        block.push(Stmt::assign(from(), from().least(self.lanes as i64)));
        block.push(Stmt::assign(to(), from().greatest(to())));
        Some(block)
    }

    /// A vector of all lanes, from an expression of the lane that has few parts.
    fn of_lanes(&self, dtype: DType, lane: &Expr, at: At<'_>) -> Option<Expr> {
        if at.lanes.is_some() || self.lanes < 2 || lane.part_count() > LANE_PARTS {
            return None;
        }
        let number = |l: usize| move |e: &Expr| is_lane(e).then_some(Expr::Integer(l as i64));
        let each = (0..self.lanes).map(|l| lane.map(&number(l)));
        Some(self.support("lanes", dtype, each))
    }

    /// Loads lane by lane, those inside the mask alone.
    fn lane_load(
        &self,
        value: Value,
        (pointer, memory): (Name, DType),
        index: &Index,
        mask: Option<&[Index]>,
        at: At<'_>,
    ) -> Block {
        let position = at.lane();
        let element = Expr::from(pointer).element(index.at(&position));
        let read = Stmt::assign(Self::element(), element);
        let guard = mask.and_then(|conditions| holds(conditions, &position));
        let read = match guard {
            Some(guard) => Stmt::when(guard, read),
            None => read,
        };
        let load = self.support("load", memory, [Local::Elements.into()]);
        Block::from([
            element_array(ValueType::Memory(memory), self.lanes, true),
            self.each_lane(at, read),
            Stmt::assign(Name::value(value), load),
        ])
    }

    /// A test that proves the mask for all lanes, and whether it decides it: conditions are linear in the position,
    /// so they hold between two positions where they hold at both.
    fn all_lanes(&self, conditions: &[Index], at: At<'_>) -> Option<(Expr, bool)> {
        let last = at.position.clone() + self.lane_count(at) - 1;
        let mut tests = Vec::new();
        let mut uniform = true;
        for condition in conditions {
            tests.push(condition.at(at.position).at_least(0));
            match condition.step {
                Step::Irregular => return None,
                Step::Uniform => {}
                Step::Unit | Step::Back | Step::Every(_) | Step::Strided => {
                    uniform = false;
                    tests.push(condition.at(&last).at_least(0));
                }
            }
        }
        Some((Expr::all(tests)?, uniform))
    }

    /// A test that fails where the mask holds for no lane, if conditions move by at most one from lane to lane: those that grow
    /// are tested at the last lane, and those that fall at the first.
    fn some_lanes(&self, conditions: &[Index], at: At<'_>) -> Option<Expr> {
        let last = at.position.clone() + self.lane_count(at) - 1;
        let test = |condition: &Index| {
            let place = match condition.step {
                Step::Uniform | Step::Back => at.position,
                Step::Unit => &last,
                _ => return None,
            };
            Some(condition.at(place).at_least(0))
        };
        let tests: Option<Vec<Expr>> = conditions.iter().map(test).collect();
        Expr::all(tests?)
    }

    fn lane_index(&mut self, out: &mut Block, value: Value, at: At<'_>) {
        let index = self.indices[&value].clone();
        let here = index.at(at.position);
        match index.step {
            Step::Uniform => {
                let set = self.set(DType::I64, here);
                self.declare_value(out, value, DType::I64, set);
            }
            Step::Unit => {
                let lanes = self.set(DType::I64, here) + self.iota(DType::I64);
                self.declare_value(out, value, DType::I64, lanes);
            }
            _ => {
                let position = index.at(&at.lane());
                self.fill_lanes(out, (value, DType::I64), None, position, at);
            }
        }
    }

    /// Declares a value of 64-bit integers that is computed lane by lane, where a condition holds.
    fn fill_lanes(
        &self,
        out: &mut Block,
        (value, dtype): (Value, DType),
        guard: Option<Expr>,
        lane: Expr,
        at: At<'_>,
    ) {
        let (name, long) = (Name::value(value), ValueType::Scalar(DType::I64));
        let fill = Stmt::assign(Self::element(), lane);
        let fill = match guard {
            Some(guard) => Stmt::when(guard, fill),
            None => fill,
        };
        let load = self.support("load", dtype, [Local::Elements.into()]);
        out.push(Stmt::unset(name, self.vector_type(dtype)));
        out.push(Stmt::Scope(Block::from([
            element_array(long, self.lanes, true),
            self.each_lane(at, fill),
            Stmt::assign(name, load),
        ])));
    }

    fn mask_value(&mut self, out: &mut Block, value: Value, mask: MaskId, at: At<'_>) {
        if let Some(truth) = self.truth(Some(mask)) {
            let holds = match truth {
                Truth::Known(holds) => Expr::Integer(holds.into()),
                Truth::Shared(flag) => flag.into(),
            };
            let set = self.set(DType::Bool, holds);
            return self.declare_value(out, value, DType::Bool, set);
        }
        let conditions = self.masks[&mask].clone();
        let (name, ty) = (Name::value(value), self.vector_type(DType::Bool));
        let all = self.all_lanes(&conditions, at);
        if let Some((test, true)) = all {
            let set = self.set(DType::Bool, test);
            return self.declare_value(out, value, DType::Bool, set);
        }
        out.push(Stmt::unset(name, ty));
        let zeros = || Expr::Zeros.cast(ty);
        let lanes = match self.lane_range(&conditions, at) {
            Some(mut block) => {
                let between = [Local::From.into(), Local::To.into()];
                let between = self.support("between", DType::Bool, between);
                block.push(Stmt::assign(name, between));
                match self.some_lanes(&conditions, at) {
                    Some(some) => Stmt::either(some, block, Stmt::assign(name, zeros())).into(),
                    None => block,
                }
            }
            None => {
                let each = holds(&conditions, &at.lane()).unwrap_or(Expr::Integer(1));
                let mask = mask_dtype(self.lanes);
                let load = self.support("load", mask, [Local::Elements.into()]);
                Block::from([
                    element_array(ValueType::Scalar(mask), self.lanes, true),
                    self.each_lane(at, Stmt::assign(Self::element(), -each)),
                    Stmt::assign(name, load),
                ])
            }
        };
        out.push(match all {
            Some((test, _)) => {
                let ones = Expr::Prefix(Prefix::Complement, Box::new(zeros()));
                Stmt::either(test, Stmt::assign(name, ones), lanes)
            }
            None => Stmt::Scope(lanes),
        });
    }

    /// ir G7, codegen A6.6: one wrap of a negative index, then the bounds, relaxed by the mask.
    fn check(
        &mut self,
        out: &mut Block,
        value: Value,
        index: Value,
        mask: Option<MaskId>,
        at: At<'_>,
    ) {
        let BodyOp::Check { size, site, .. } = self.node.body.value(value).op else {
            return;
        };
        let (size, site) = (self.param(size), self.param(site as i64));
        let truth = self.truth(mask);
        if truth == Some(Truth::Known(false)) {
            let zeros = Expr::Zeros.cast(self.vector_type(DType::I64));
            return self.declare_value(out, value, DType::I64, zeros);
        }
        let guard = match truth {
            Some(Truth::Known(_)) => None,
            Some(Truth::Shared(flag)) => Some(flag.into()),
            None => mask.and_then(|m| holds(&self.masks[&m], &at.lane())),
        };
        let lane = match self.differ[value as usize] {
            true => Local::Lane.into(),
            false => Expr::Integer(0),
        };
        let checked = Expr::from(Name::value(index)).element(lane);
        let checked = Expr::call(Function::Check, [checked, size.into(), site.into()]);
        if self.differ[value as usize] && guard.is_none() {
            return self.check_lanes(out, (value, index), checked, size.into(), at);
        }
        if self.differ[value as usize] {
            return self.fill_lanes(out, (value, DType::I64), guard, checked, at);
        }
        let (name, long) = (Name::value(value), Type::LONG);
        let set = self.set(DType::I64, Local::Elements);
        let check = Stmt::assign(Local::Elements, checked);
        let check = match guard {
            Some(guard) => Stmt::when(guard, check),
            None => check,
        };
        out.push(Stmt::unset(name, self.vector_type(DType::I64)));
        out.push(Stmt::Scope(Block::from([
            Stmt::variable(Local::Elements, long, 0),
            check,
            Stmt::assign(name, set),
        ])));
    }

    /// Checks a vector of indices at once, and lane by lane where one is out of range.
    fn check_lanes(
        &self,
        out: &mut Block,
        (value, index): (Value, Value),
        lane: Expr,
        size: Expr,
        at: At<'_>,
    ) {
        let (name, long) = (Name::value(value), ValueType::Scalar(DType::I64));
        let wrapped = self.support(
            "wrapped",
            DType::I64,
            [self.name(index).into(), size.clone()],
        );
        let outside = self.support("outside", DType::I64, [name.into(), size]);
        let load = self.support("load", DType::I64, [Local::Elements.into()]);
        out.push(Stmt::variable(name, self.vector_type(DType::I64), wrapped));
        let each = Stmt::assign(Self::element(), lane);
        let lanes = Stmt::Scope(Block::from([
            element_array(long, self.lanes, true),
            self.each_lane(at, each),
            Stmt::assign(name, load),
        ]));
        out.push(Stmt::when(outside, lanes));
    }

    fn random(&mut self, out: &mut Block, value: Value, at: At<'_>) {
        let BodyOp::Random {
            dist, dtype, args, ..
        } = &self.node.body.value(value).op
        else {
            return;
        };
        let (dist, dtype, args) = (*dist, *dtype, args.clone());
        let index = self.indices[&value].clone();
        let here = index.at(at.position);
        let positions = match index.step {
            Step::Unit => Positions::Run(here),
            Step::Uniform => Positions::Any(self.set(DType::I64, here)),
            _ => {
                let name = Name::of(Part::Positions, value);
                let ty = self.vector_type(DType::I64);
                let load = self.support("load", DType::I64, [Local::Elements.into()]);
                let position = index.at(&at.lane());
                let long = ValueType::Scalar(DType::I64);
                out.push(Stmt::unset(name, ty));
                out.push(Stmt::Scope(Block::from([
                    element_array(long, self.lanes, true),
                    self.each_lane(at, Stmt::assign(Self::element(), position)),
                    Stmt::assign(name, load),
                ])));
                Positions::Any(name.into())
            }
        };
        let drawn = random::expression(self, dist, dtype, &args, positions);
        self.declare_value(out, value, dtype, drawn);
    }
}

/// Whether all conditions hold at a position.
pub(super) fn holds(conditions: &[Index], position: &Expr) -> Option<Expr> {
    Expr::all(conditions.iter().map(|c| c.at(position).at_least(0)))
}
