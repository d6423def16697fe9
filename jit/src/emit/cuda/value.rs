//! Values as statements of the kernel IR, one element each.

use super::index::Position;
use super::kernel::Writer;
use crate::body::{BodyOp, MaskId, Source, Value};
use crate::kernel::ir::{Expr, Function, Infix, Local, Name, Part, Stmt, Type, ValueType};
use crate::lower::PROVED;
use crate::schedule::FusedNode;
use ferrotrace_kernels::{BinaryOp, Distribution, UnaryOp};
use ferrotrace_runtime::DType;

/// Where a statement stands.
#[derive(Clone, Debug)]
pub(super) struct At {
    /// The position along the vector axis.
    pub position: Position,
    /// A condition without which no memory is touched.
    pub guard: Option<Expr>,
}

/// A value that is computed before.
fn of(value: Value) -> Expr {
    Name::value(value).into()
}

/// A support function of one element.
fn support(stem: &'static str, dtype: DType, arguments: impl IntoIterator<Item = Expr>) -> Expr {
    Expr::call(Function::Support(stem, dtype, 0), arguments)
}

/// The support function of fewer instructions that serves for a function of binary32, where precision allows.
fn fast(op: UnaryOp) -> Option<&'static str> {
    match op {
        UnaryOp::Exp => Some("fast_exp"),
        UnaryOp::Log => Some("fast_log"),
        UnaryOp::Log1p => Some("fast_log1p"),
        UnaryOp::Erf => Some("fast_erf"),
        UnaryOp::Tanh => Some("fast_tanh"),
        UnaryOp::Sigmoid => Some("fast_sigmoid"),
        _ => None,
    }
}

/// A value of one computed dtype as another.
fn cast(from: DType, to: DType, value: Expr) -> Expr {
    Expr::call(Function::Cast(from, to, 0), [value])
}

/// By value, whether it is of binary32 and nothing but products and sums, themselves rounded to half types, is made of it.
pub(super) fn coarse(node: &FusedNode) -> Vec<bool> {
    let body = &node.body;
    let is_f32 = |v: usize| body.value(v as Value).dtype == DType::F32;
    let mut coarse: Vec<bool> = (0..body.values().len()).map(is_f32).collect();
    for store in node.stores.iter().filter(|s| !s.dtype.is_half()) {
        coarse[store.value as usize] = false;
    }
    for user in (0..coarse.len()).rev() {
        let keeps = match body.value(user as Value).op {
            BodyOp::Round(..) => true,
            BodyOp::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, ..) => coarse[user],
            _ => false,
        };
        for operand in body.operands(user as Value) {
            coarse[operand as usize] &= keeps;
        }
    }
    coarse
}

impl Writer<'_> {
    /// Whether rounding to a half type leaves a value of an operand as it is: it comes from memory of that type, or from integers of 8
    /// bits, and is at most taken with another sign, or for another such.
    fn is_rounded(&self, value: Value, half: DType) -> bool {
        let body = &self.node.body;
        let of = |v: Value| self.is_rounded(v, half);
        match body.value(value).op {
            BodyOp::Load { dtype, .. } => dtype == half,
            BodyOp::Cast(a) => matches!(body.value(a).dtype, DType::I8 | DType::U8 | DType::Bool),
            BodyOp::Round(_, to) => to == half,
            BodyOp::Unary(UnaryOp::Neg | UnaryOp::Abs, a) => of(a),
            BodyOp::Select(_, a, b) => of(a) && of(b),
            _ => false,
        }
    }

    /// Which elements `l` of a chunk count.
    pub(super) fn counts(&self) -> Expr {
        let before_end = Expr::from(Local::Lane).less(Local::Count);
        match self.has_heads() {
            true => Expr::from(Local::Lane)
                .at_least(Local::Head)
                .and(before_end),
            false => before_end,
        }
    }

    /// The loop over a chunk's elements.
    pub(super) fn in_chunk(&self) -> At {
        At {
            position: Position::Lane,
            guard: Some(self.counts()),
        }
    }

    /// An element of memory as a value.
    pub(super) fn widen(&self, memory: DType, element: Expr) -> Expr {
        match memory {
            DType::Bool => Expr::infix(Infix::Unequal, element, 0),
            DType::F16 | DType::BF16 => support("from", memory, [element]),
            _ => element,
        }
    }

    /// A value as an element of memory.
    pub(super) fn narrow(&self, memory: DType, value: Expr) -> Expr {
        match memory {
            DType::Bool => value.cast(ValueType::Memory(DType::Bool)),
            DType::F16 | DType::BF16 => support("to", memory, [value]),
            _ => value,
        }
    }

    /// The condition of a mask at a position, together with the guard.
    fn condition(&self, mask: Option<MaskId>, at: &At) -> Option<Expr> {
        let conditions = mask.map(|m| self.masks[&m].as_slice()).unwrap_or_default();
        let each = conditions.iter().map(|c| c.at(at.position).at_least(0));
        Expr::all(at.guard.clone().into_iter().chain(each))
    }

    /// The statement that declares a value.
    pub(super) fn statement(&mut self, value: Value, at: &At) -> Stmt {
        let dtype = self.node.body.value(value).dtype;
        let expr = self.value(value, at);
        Stmt::constant(Name::value(value), Type::scalar(dtype), expr)
    }

    /// What a value is.
    fn value(&mut self, value: Value, at: &At) -> Expr {
        let node = self.node;
        let body = &node.body;
        let dtype = body.value(value).dtype;
        let unary = |op: UnaryOp, a: Value| {
            Expr::call(Function::Unary(op, body.value(a).dtype, 0), [of(a)])
        };
        match &body.value(value).op {
            BodyOp::Load {
                source,
                dtype: memory,
                mask,
                ..
            } => self.load(value, *source, *memory, *mask, at),
            BodyOp::Number(n) => Name::Number(*n).into(),
            BodyOp::Index(_) => self.indices[&value].at(at.position).cast(Type::LONG),
            BodyOp::Mask(mask) => {
                let unguarded = At {
                    guard: None,
                    ..at.clone()
                };
                let condition = self.condition(Some(*mask), &unguarded);
                condition.unwrap_or(Expr::Integer(1))
            }
            BodyOp::Unary(UnaryOp::Tanh, a) if !node.exact && self.coarse[value as usize] => {
                support("half_tanh", dtype, [of(*a)])
            }
            BodyOp::Unary(op, a) => match fast(*op) {
                Some(stem) if !node.exact && dtype == DType::F32 => support(stem, dtype, [of(*a)]),
                _ => unary(*op, *a),
            },
            BodyOp::Binary(op, a, b) => {
                let function = Function::Binary(*op, body.value(*a).dtype, 0);
                Expr::call(function, [of(*a), of(*b)])
            }
            BodyOp::Divide(a, b, _) => Expr::call(Function::Divide, [of(*a), of(*b)]),
            BodyOp::Select(m, a, b) => of(*m).choose(of(*a), of(*b)),
            BodyOp::Cast(a) => cast(body.value(*a).dtype, dtype, of(*a)),
            BodyOp::Round(a, half) if self.gives && self.is_rounded(*a, *half) => of(*a),
            BodyOp::Round(a, half) => support("round", *half, [of(*a)]),
            BodyOp::Check {
                index,
                size,
                mask,
                site,
            } => self.check(*index, *size, (*mask, *site), at),
            BodyOp::Random {
                dist, dtype, args, ..
            } => {
                let index = self.indices[&value].at(at.position);
                self.random(*dist, *dtype, args, index)
            }
            BodyOp::Reduce { .. } => Name::of(Part::Result, value).into(),
            BodyOp::Scan { .. } => {
                let scanned = Expr::from(Name::of(Part::Partial, value));
                scanned.element(Local::Held).element(Local::Lane)
            }
        }
    }

    /// An index that is wrapped and in range, 0 where it is not used.
    fn check(
        &mut self,
        index: Value,
        size: i64,
        (mask, site): (Option<MaskId>, u32),
        at: &At,
    ) -> Expr {
        let checked = match site == PROVED {
            true => of(index),
            false => {
                self.reports |= !self.setting.checked;
                let function = match self.setting.checked {
                    true => Function::Within,
                    false => Function::Check,
                };
                let (size, site) = (self.param(size), self.param(i64::from(site)));
                Expr::call(function, [of(index), size.into(), site.into()])
            }
        };
        match self.condition(mask, at) {
            Some(condition) => condition.choose(checked, 0),
            None => checked,
        }
    }

    fn load(
        &mut self,
        value: Value,
        source: Source,
        memory: DType,
        mask: Option<MaskId>,
        at: &At,
    ) -> Expr {
        if self.given == Some(source) {
            // Where the sums are to be rounded before what follows, the body does it.
            return Expr::text("given[l]");
        }
        if let Some(element) = self.staged(value) {
            return self.widen(memory, element);
        }
        if self.whole.contains(&value) && at.guard.is_some() {
            let chunk = match self.shape.kept.contains(&value) {
                true => Expr::from(Name::of(Part::Kept, value)).element(Local::Held),
                false => Name::of(Part::Loaded, value).into(),
            };
            if memory == DType::BF16 {
                return Expr::call(Function::ElementOf, [chunk, Local::Lane.into()]);
            }
            return self.widen(memory, chunk.element(Local::Lane));
        }
        let place = Expr::from(self.pointer(source));
        let element = place.element(self.indices[&value].at(at.position));
        let element = self.widen(memory, element);
        match self.condition(mask, at) {
            Some(condition) => {
                let zero = Expr::Integer(0).cast(Type::scalar(memory));
                condition.choose(element, zero)
            }
            None => element,
        }
    }

    /// The same numbers as the ready-made kernels draw: Philox by (key, offset, element).
    fn random(&self, dist: Distribution, dtype: DType, args: &[Value], index: Expr) -> Expr {
        let (node, before) = (self.node, self.first_number as u32);
        let bits = |v: Value| match node.body.value(v).op {
            BodyOp::Number(n) => Expr::from(Name::Bits(before + n)),
            _ => of(v),
        };
        let word = |e: Expr| e.cast(ValueType::LongWord);
        let (key, offset) = (word(bits(args[0])), word(bits(args[1])));
        let common = [key, offset, index.cast(Type::LONG)];
        match dist {
            Distribution::Uniform => support("uniform", dtype, common),
            Distribution::Normal => support("normal", dtype, common),
            Distribution::Int => {
                let low = bits(args[2]).cast(Type::LONG);
                let range = word(bits(args[3])) - word(low.clone());
                let draw = support(
                    "randint",
                    DType::I64,
                    common.into_iter().chain([low, range]),
                );
                drawn(DType::I64, dtype, draw)
            }
            Distribution::Bernoulli => {
                let p = match node.body.value(args[2]).op {
                    BodyOp::Number(n) => {
                        let bits = Expr::from(Name::Bits(before + n)).cast(Type::LONG);
                        Expr::call(Function::OfBits(DType::F64), [bits])
                    }
                    _ => of(args[2]),
                };
                let draw = support("bernoulli", DType::Bool, common.into_iter().chain([p]));
                drawn(DType::Bool, dtype, draw)
            }
            Distribution::Bits => {
                let draw = support("bits63", DType::I64, common);
                drawn(DType::I64, dtype, draw)
            }
        }
    }
}

/// What is drawn, as the dtype that is asked for.
fn drawn(from: DType, to: DType, expr: Expr) -> Expr {
    if from == to.compute() {
        return expr;
    }
    let value = cast(from, to.compute(), expr);
    match to.is_half() {
        true => support("round", to, [value]),
        false => value,
    }
}
