//! The body of a loop nest: a hash-consed SSA list of value operations over symbolic indices.
//!
//! Values are in their compute type (binary32 for the half types); memory dtypes belong to loads and stores alone.

use crate::expr::{Expr, Ranges, Term};
use ferrotrace_kernels::{BinaryOp, Distribution, Operand, ReduceKind, UnaryOp, ValueId};
use ferrotrace_runtime::{Category, DType, Scalar};
use half::{bf16, f16};
use hashbrown::hash_table::{Entry, HashTable};
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use std::hash::BuildHasher;

/// Memory that a loop reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An input of the graph.
    Input(u32),
    /// The stored value of a node, row-major.
    Node(ValueId),
}

/// A value's position in its [`Body`].
pub type Value = u32;

/// A mask's position in its [`Body`].
pub type MaskId = u32;

/// One operation on values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BodyOp {
    /// The element of a buffer; lanes outside the mask give 0 and touch no memory (codegen A6.3).
    Load {
        /// The buffer.
        source: Source,
        /// Element type in memory.
        dtype: DType,
        /// Position, in elements.
        index: Expr,
        /// Lanes that load.
        mask: Option<MaskId>,
    },
    /// A number of the body's table.
    Number(u32),
    /// An index, as `I64` (ir K2).
    Index(Expr),
    /// Whether a mask holds.
    Mask(MaskId),
    /// A function of one value.
    Unary(UnaryOp, Value),
    /// A function of two values of equal type.
    Binary(BinaryOp, Value, Value),
    /// The first divided by the second, uniform over the lanes, whose reciprocal the third is: by multiplication where
    /// both are normal numbers.
    Divide(Value, Value, Value),
    /// `a` where the first is true, else `b`.
    Select(Value, Value, Value),
    /// Conversion to the value's own type.
    Cast(Value),
    /// Rounding to a half type, kept in binary32.
    Round(Value, DType),
    /// An index value wrapped once if negative and checked against `size`; 0 where masked off or out of range, which
    /// is reported under `site`. Its number is what `Term::Value` names (ir G7).
    Check {
        /// The `I64` value.
        index: Value,
        /// The size of the dimension indexed.
        size: i64,
        /// Lanes that are checked.
        mask: Option<MaskId>,
        /// The fault's number, from 1.
        site: u32,
    },
    /// A random number of the distribution at a position; operands are the values key, offset and the distribution's.
    Random {
        /// The distribution.
        dist: Distribution,
        /// Element type drawn for.
        dtype: DType,
        /// Key, offset, parameters.
        args: SmallVec<[Value; 4]>,
        /// The element's row-major position.
        index: Expr,
    },
    /// The reduction of a value over the reduction variables.
    Reduce {
        /// What is computed.
        kind: ReduceKind,
        /// The value reduced.
        value: Value,
        /// For argument reductions: the row-major position in the reduced dimensions.
        position: Option<Expr>,
    },
    /// The fold of a value over the reduction variables up to and with the column it stands at, in row-major order
    /// (ir C1).
    Scan {
        /// How a value joins those before it: [`Sum`](ReduceKind::Sum), [`Prod`](ReduceKind::Prod), an extreme of
        /// numbers, or [`Any`](ReduceKind::Any) and [`All`](ReduceKind::All) of truth values.
        kind: ReduceKind,
        /// The value folded.
        value: Value,
    },
}

/// A value: its operation and type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BodyValue {
    /// What it is.
    pub op: BodyOp,
    /// Its compute type.
    pub dtype: DType,
}

/// A number a body uses: where it comes from, and the dtype it is rounded to.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// A slot of the trace's numbers, or a constant of an operator's definition.
    pub operand: Operand,
    /// The dtype.
    pub dtype: DType,
    /// Whether a kernel is given the bits of its half type, as an integer of 16 bits, not the number in binary32.
    pub as_bits: bool,
}

impl Number {
    /// A number that a kernel computes with.
    pub(crate) fn new(operand: Operand, dtype: DType) -> Number {
        Number {
            operand,
            dtype,
            as_bits: false,
        }
    }

    /// The dtype in which a kernel holds it.
    pub(crate) fn held(&self) -> DType {
        match self.as_bits {
            true => DType::I16,
            false => self.dtype,
        }
    }

    /// What a kernel is given for a scalar.
    pub(crate) fn bits(&self, scalar: Scalar) -> u64 {
        let bits = scalar.to_bits(self.dtype);
        if !self.as_bits {
            return bits;
        }
        // The number is one of the half type.
        let number = f32::from_bits(bits as u32);
        u64::from(match self.dtype {
            DType::F16 => f16::from_f32(number).to_bits(),
            _ => bf16::from_f32(number).to_bits(),
        })
    }

    /// What says which number it is: its dtype, and its slot, or a constant's category and bits.
    pub(crate) fn key(&self) -> (DType, Option<Category>, u64) {
        match self.operand {
            Operand::Const(number) => {
                let bits = number.to_bits(DType::F64);
                (self.dtype, Some(number.category()), bits)
            }
            Operand::Slot(slot, _) => (self.dtype, None, slot.into()),
            // Tensors are no numbers.
            Operand::Value(value) => (self.dtype, None, u64::MAX - u64::from(value.0)),
        }
    }

    /// Whether two are the same number: of one slot, or one constant.
    pub(crate) fn is(&self, other: &Number) -> bool {
        self.key() == other.key()
    }

    /// Whether loops treat two alike: two slots of one category, or one constant.
    pub(crate) fn is_like(&self, other: &Number) -> bool {
        self.dtype == other.dtype
            && match (self.operand, other.operand) {
                (Operand::Slot(_, x), Operand::Slot(_, y)) => x.category() == y.category(),
                (Operand::Const(x), Operand::Const(y)) => {
                    x.category() == y.category() && x.to_bits(DType::F64) == y.to_bits(DType::F64)
                }
                _ => false,
            }
    }
}

/// A hash-consed list of values, operands before users.
#[derive(Clone, Debug, Default)]
pub struct Body {
    values: Vec<BodyValue>,
    /// The values and their hashes: the first ones, up to all of them.
    memo: HashTable<(u64, Value)>,
    /// Conjunctions of `expression ≥ 0`.
    masks: Vec<Vec<Expr>>,
    numbers: Vec<Number>,
}

fn hash(value: &BodyValue) -> u64 {
    FxBuildHasher.hash_one(value)
}

/// What replaces a load of a source at an index: a value, and the dtype that it has in memory.
pub type Forward<'a> = dyn Fn(Source, &Expr) -> Option<(Value, DType)> + 'a;

impl BodyOp {
    /// Whether computing the operation again costs more than reading its result from the first cache.
    pub fn is_heavy(&self) -> bool {
        match self {
            BodyOp::Unary(op, _) => op.heavy(),
            BodyOp::Binary(op, _, _) => op.heavy(),
            BodyOp::Random { .. } => true,
            BodyOp::Load { index, .. } => !index.is_affine(),
            _ => false,
        }
    }
}

impl Body {
    /// The values, operands before users.
    pub fn values(&self) -> &[BodyValue] {
        &self.values
    }

    /// A value.
    pub fn value(&self, value: Value) -> &BodyValue {
        &self.values[value as usize]
    }

    /// The inequalities of a mask, each an expression that must not be negative.
    pub fn mask(&self, mask: MaskId) -> &[Expr] {
        &self.masks[mask as usize]
    }

    /// The inequalities of mask `at`, if there is one.
    pub fn mask_at(&self, at: MaskId) -> Option<&[Expr]> {
        self.masks.get(at as usize).map(Vec::as_slice)
    }

    /// The numbers, in order of first use.
    pub fn numbers(&self) -> &[Number] {
        &self.numbers
    }

    /// Every mask.
    pub fn masks(&self) -> &[Vec<Expr>] {
        &self.masks
    }

    /// This body with other buffers and numbers. Both maps are one to one: no two values become equal.
    pub(crate) fn renamed(
        &self,
        source: &dyn Fn(Source) -> Source,
        number: &dyn Fn(&Number) -> Number,
    ) -> Body {
        let mut values = self.values.clone();
        for value in &mut values {
            if let BodyOp::Load { source: from, .. } = &mut value.op {
                *from = source(*from);
            }
        }
        Body {
            values,
            // Most are read alone.
            memo: HashTable::new(),
            masks: self.masks.clone(),
            numbers: self.numbers.iter().map(number).collect(),
        }
    }

    /// The body with the values of half types that `halves` names as bits: loads, numbers, and choices among them.
    pub(crate) fn with_bits(&self, halves: &[Option<DType>]) -> Body {
        let mut body = self.renamed(&|source| source, &|number| *number);
        for (value, half) in body.values.iter_mut().zip(halves) {
            let Some(half) = *half else { continue };
            value.dtype = DType::I16;
            match &mut value.op {
                BodyOp::Load { dtype, .. } => *dtype = DType::I16,
                BodyOp::Number(n) => {
                    let number = &mut body.numbers[*n as usize];
                    (number.dtype, number.as_bits) = (half, true);
                }
                _ => {}
            }
        }
        body
    }

    /// Puts values that have not been looked for among those found by hash.
    fn remember_all(&mut self) {
        for at in self.memo.len()..self.values.len() {
            let known = (hash(&self.values[at]), at as Value);
            self.memo.insert_unique(known.0, known, |known| known.0);
        }
    }

    /// Appends a value, or finds the equal one (codegen A7.1; the mask is part of the operation, A7.2).
    pub fn push(&mut self, op: BodyOp, dtype: DType) -> Value {
        self.remember_all();
        let value = BodyValue { op, dtype };
        let (values, hash) = (&self.values, hash(&value));
        let same = |known: &(u64, Value)| known.0 == hash && values[known.1 as usize] == value;
        match self.memo.entry(hash, same, |known| known.0) {
            Entry::Occupied(known) => known.get().1,
            Entry::Vacant(place) => {
                let id = values.len() as Value;
                place.insert((hash, id));
                self.values.push(value);
                id
            }
        }
    }

    /// A value as a half type holds it; as it is for other types, or if it is one of the half type already.
    pub fn push_rounded(&mut self, value: Value, to: DType) -> Value {
        if !to.is_half() || self.is_rounded(value, to, 6) {
            return value;
        }
        self.push(BodyOp::Round(value, to), DType::F32)
    }

    /// Whether rounding to a half type leaves a value as it is: one that was rounded to it, perhaps chosen among such, or
    /// taken with another sign, in at most `steps` operations.
    fn is_rounded(&self, value: Value, half: DType, steps: u32) -> bool {
        let Some(steps) = steps.checked_sub(1) else {
            return false;
        };
        let of = |v: Value| self.is_rounded(v, half, steps);
        match self.value(value).op {
            BodyOp::Load { dtype, .. } => dtype == half,
            BodyOp::Number(n) => self.numbers[n as usize].dtype == half,
            BodyOp::Round(_, to) => to == half,
            BodyOp::Cast(a) => matches!(self.value(a).dtype, DType::I8 | DType::U8 | DType::Bool),
            BodyOp::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Relu, a) => of(a),
            BodyOp::Binary(BinaryOp::Maximum | BinaryOp::Minimum, a, b) => of(a) && of(b),
            BodyOp::Select(_, a, b) => of(a) && of(b),
            BodyOp::Reduce {
                kind: ReduceKind::Max | ReduceKind::Min,
                value,
                ..
            }
            | BodyOp::Scan {
                kind: ReduceKind::Max | ReduceKind::Min,
                value,
            } => of(value),
            _ => false,
        }
    }

    /// Appends a mask, or finds the equal one. `None` for no inequality.
    pub fn push_mask(&mut self, mut conditions: Vec<Expr>) -> Option<MaskId> {
        conditions.sort();
        conditions.dedup();
        if conditions.is_empty() {
            return None;
        }
        let at = self
            .masks
            .iter()
            .position(|m| *m == conditions)
            .unwrap_or_else(|| {
                self.masks.push(conditions);
                self.masks.len() - 1
            });
        Some(at as MaskId)
    }

    /// Writes the conditions of every mask in another way. They have to hold for the same positions.
    pub(crate) fn set_masks(&mut self, mut masks: Vec<Vec<Expr>>) {
        debug_assert_eq!(masks.len(), self.masks.len(), "as many masks");
        masks.iter_mut().for_each(|conditions| conditions.sort());
        self.masks = masks;
    }

    /// The conjunction of a mask and further conditions.
    pub fn narrow_mask(&mut self, mask: Option<MaskId>, conditions: &[Expr]) -> Option<MaskId> {
        let mut all = mask.map_or_else(Vec::new, |m| self.mask(m).to_vec());
        all.extend_from_slice(conditions);
        self.push_mask(all)
    }

    /// A number, as a value of `dtype`'s compute type.
    pub fn push_number(&mut self, number: Number) -> Value {
        let same = |n: &Number| n.is(&number);
        let at = self.numbers.iter().position(same).unwrap_or_else(|| {
            self.numbers.push(number);
            self.numbers.len() - 1
        });
        self.push(BodyOp::Number(at as u32), number.held().compute())
    }

    /// The operands of a value, those inside index expressions too.
    pub fn operands(&self, value: Value) -> SmallVec<[Value; 4]> {
        let mut found: SmallVec<[Value; 4]> = SmallVec::new();
        let mut exprs: SmallVec<[&Expr; 2]> = SmallVec::new();
        let mut masks: SmallVec<[MaskId; 1]> = SmallVec::new();
        match &self.value(value).op {
            BodyOp::Load { index, mask, .. } => {
                exprs.push(index);
                masks.extend(*mask);
            }
            BodyOp::Number(_) => {}
            BodyOp::Index(e) => exprs.push(e),
            BodyOp::Mask(m) => masks.push(*m),
            BodyOp::Unary(_, a) | BodyOp::Cast(a) | BodyOp::Round(a, _) => found.push(*a),
            BodyOp::Binary(_, a, b) => found.extend([*a, *b]),
            BodyOp::Select(a, b, c) | BodyOp::Divide(a, b, c) => found.extend([*a, *b, *c]),
            BodyOp::Check { index, mask, .. } => {
                found.push(*index);
                masks.extend(*mask);
            }
            BodyOp::Random { args, index, .. } => {
                found.extend_from_slice(args);
                exprs.push(index);
            }
            BodyOp::Reduce { value, .. } | BodyOp::Scan { value, .. } => found.push(*value),
        }
        for mask in masks {
            exprs.extend(self.mask(mask));
        }
        for expr in exprs {
            expr.any(&mut |term| {
                if let Term::Value(v) = term {
                    found.push(*v);
                }
                false
            });
        }
        found
    }

    /// Every index expression of a value: its position, and its mask's inequalities.
    pub fn exprs(&self, value: Value) -> SmallVec<[&Expr; 4]> {
        let mask = |m: &Option<MaskId>| m.map_or(&[][..], |m| self.mask(m));
        match &self.value(value).op {
            BodyOp::Load { index, mask: m, .. } => std::iter::once(index).chain(mask(m)).collect(),
            BodyOp::Index(e) | BodyOp::Random { index: e, .. } => std::iter::once(e).collect(),
            BodyOp::Mask(m) => self.mask(*m).iter().collect(),
            BodyOp::Check { mask: m, .. } => mask(m).iter().collect(),
            BodyOp::Reduce {
                position: Some(e), ..
            } => std::iter::once(e).collect(),
            _ => SmallVec::new(),
        }
    }

    /// Copies `roots` and what they need of another body into this one, with variables replaced by `of` and loads
    /// of the nodes that `forward` knows replaced by values. Returns the copies of the roots.
    pub fn import<R: Ranges + ?Sized>(
        &mut self,
        from: &Body,
        roots: &[Value],
        of: &dyn Fn(&Term) -> Option<Expr>,
        forward: &Forward<'_>,
        ranges: &R,
    ) -> Vec<Value> {
        self.copy(from, roots, of, forward, &|_, _, op| op, ranges)
    }

    /// Copies `roots` and what they need of another body, each operation (its operands already copies) as `replace`
    /// gives it for its number there. Returns the copies of the roots.
    pub fn rewrite<R: Ranges + ?Sized>(
        &mut self,
        from: &Body,
        roots: &[Value],
        replace: &dyn Fn(&mut Body, Value, BodyOp) -> BodyOp,
        ranges: &R,
    ) -> Vec<Value> {
        self.copy(from, roots, &|_| None, &|_, _| None, replace, ranges)
    }

    /// Copies `roots` and what they need of another body: variables as `of` replaces them, loads as in
    /// [`import`](Self::import), operations as in [`rewrite`](Self::rewrite). Returns the copies of the roots.
    pub(crate) fn copy<R: Ranges + ?Sized>(
        &mut self,
        from: &Body,
        roots: &[Value],
        of: &dyn Fn(&Term) -> Option<Expr>,
        forward: &Forward<'_>,
        replace: &dyn Fn(&mut Body, Value, BodyOp) -> BodyOp,
        ranges: &R,
    ) -> Vec<Value> {
        let mut needed = vec![false; from.values.len()];
        for &root in roots {
            needed[root as usize] = true;
        }
        for v in (0..from.values.len()).rev() {
            if needed[v] {
                for operand in from.operands(v as Value) {
                    needed[operand as usize] = true;
                }
            }
        }
        let mut map: Vec<Value> = vec![Value::MAX; from.values.len()];
        for v in 0..from.values.len() {
            if !needed[v] {
                continue;
            }
            let rename = |term: &Term| match term {
                Term::Value(x) => Some(Expr::from(Term::Value(map[*x as usize]))),
                other => of(other),
            };
            let expr = |e: &Expr| e.substitute(&rename, ranges);
            let at = |x: &Value| map[*x as usize];
            let BodyValue { op, dtype } = from.value(v as Value);
            let mask = |body: &mut Body, m: &Option<MaskId>| {
                m.and_then(|m| {
                    let conditions = from.mask(m).iter().map(expr).collect();
                    body.push_mask(conditions)
                })
            };
            let copied = match op {
                BodyOp::Load {
                    source,
                    dtype: memory,
                    index,
                    mask: m,
                } => {
                    let index = expr(index);
                    if let Some((value, stored)) = forward(*source, &index) {
                        map[v] = self.push_rounded(value, stored);
                        continue;
                    }
                    let mask = mask(self, m);
                    BodyOp::Load {
                        source: *source,
                        dtype: *memory,
                        index,
                        mask,
                    }
                }
                BodyOp::Number(n) => {
                    map[v] = self.push_number(from.numbers[*n as usize]);
                    continue;
                }
                BodyOp::Index(e) => BodyOp::Index(expr(e)),
                BodyOp::Mask(m) => {
                    let conditions = from.mask(*m).iter().map(expr).collect();
                    let mask = self.push_mask(conditions).expect("a mask has conditions");
                    BodyOp::Mask(mask)
                }
                BodyOp::Unary(op, a) => BodyOp::Unary(*op, at(a)),
                BodyOp::Binary(op, a, b) => BodyOp::Binary(*op, at(a), at(b)),
                BodyOp::Select(m, a, b) => BodyOp::Select(at(m), at(a), at(b)),
                BodyOp::Divide(a, b, r) => BodyOp::Divide(at(a), at(b), at(r)),
                BodyOp::Cast(a) => BodyOp::Cast(at(a)),
                BodyOp::Round(a, d) => BodyOp::Round(at(a), *d),
                BodyOp::Check {
                    index,
                    size,
                    mask: m,
                    site,
                } => {
                    let mask = mask(self, m);
                    BodyOp::Check {
                        index: at(index),
                        size: *size,
                        mask,
                        site: *site,
                    }
                }
                BodyOp::Random {
                    dist,
                    dtype,
                    args,
                    index,
                } => BodyOp::Random {
                    dist: *dist,
                    dtype: *dtype,
                    args: args.iter().map(at).collect(),
                    index: expr(index),
                },
                BodyOp::Reduce {
                    kind,
                    value,
                    position,
                } => BodyOp::Reduce {
                    kind: *kind,
                    value: at(value),
                    position: position.as_ref().map(expr),
                },
                BodyOp::Scan { kind, value } => BodyOp::Scan {
                    kind: *kind,
                    value: at(value),
                },
            };
            let copied = replace(self, v as Value, copied);
            map[v] = self.push(copied, *dtype);
        }
        roots.iter().map(|&r| map[r as usize]).collect()
    }
}
