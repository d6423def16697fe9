//! Scans. With lanes over columns, the lanes of each vector are folded in registers and the value carried from the
//! vectors before is joined to all of them; with lanes over rows, an accumulator is stored at every column. Only the
//! carry makes one vector wait for another: one operation.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::reduce::totals::RUN;
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::At;
use crate::kernel::ir::{
    self, Axis, Block, Expr, Extent, Function, Infix, Local, Name, Part, Stmt, Type, ValueType,
};
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;

impl Writer<'_> {
    /// A scan as the fold it is.
    fn fold_of(&self, v: Value) -> Option<Reduction> {
        match self.node.body.value(v) {
            of @ crate::body::BodyValue {
                op: BodyOp::Scan { kind, value },
                ..
            } => Some(Reduction {
                id: v,
                value: *value,
                kind: *kind,
                dtype: of.dtype,
            }),
            _ => None,
        }
    }

    /// A vector of what no element changes; −0 for sums of floats, which +0 would turn into +0.
    fn scan_identity(&self, r: &Reduction) -> Expr {
        match r.kind == ReduceKind::Sum && r.dtype.is_float() {
            true => self.set(r.dtype, Expr::float(r.dtype, -0.0)),
            false => self.identity(r),
        }
    }

    /// Declares what each scan of a loop carries from column to column.
    pub(in crate::emit::cpu) fn declare_carries(&mut self, out: &mut Block, l: &Loop) {
        for &v in &l.compute {
            let Some(r) = self.fold_of(v) else { continue };
            let first = self.carried.insert(v);
            let (carry, owed) = (r.part(Part::Carry), r.part(Part::Owed));
            if self.scans_in_order(&r) || self.owes_wide(&r) {
                let zero = Expr::float(DType::F64, -0.0);
                let (ty, zero) = match self.outer {
                    true => (self.vector_type(DType::F64), self.set(DType::F64, zero)),
                    false => (Type::scalar(DType::F64), zero),
                };
                self.begin_carry(out, first, (carry, ty), zero);
                continue;
            }
            let ty = self.vector_type(r.dtype);
            self.begin_carry(out, first, (carry, ty), self.scan_identity(&r));
            if self.owes(&r) {
                self.begin_carry(out, first, (owed, ty), self.identity(&r));
            }
        }
    }

    /// Begins what is carried, of which a block of rows has an array; the `first` time it is declared too.
    fn begin_carry(&self, out: &mut Block, first: bool, (name, ty): (Name, Type), start: Expr) {
        let most = self.most();
        let extent = match self.outer {
            true => Extent::Array(most.into()),
            false => Extent::One,
        };
        if first {
            out.push(Stmt::array(name, ty, extent));
        }
        let index = Expr::from(Local::Index);
        out.push(match self.outer {
            true => ir::Loop::over(Local::Index, 0, most as i64)
                .of_type(ValueType::Scalar(DType::I32))
                .along(Axis::Accumulator)
                .each(Stmt::assign(Expr::from(name).element(index), start)),
            false => Stmt::assign(name, start),
        });
    }

    /// Whether sums of binary32 are those of eager mode: one element after the other, kept in binary64.
    fn scans_in_order(&self, r: &Reduction) -> bool {
        self.node.exact && r.kind == ReduceKind::Sum && r.dtype == DType::F32
    }

    /// Whether a running sum takes in so much that it keeps what its additions round.
    fn owes(&self, r: &Reduction) -> bool {
        let terms = match self.outer {
            true => self.walked(),
            false => self.node.cols() / self.lanes,
        };
        !self.node.exact && r.is_rounded_sum() && terms > RUN
    }

    /// Whether what it carries from one vector of columns to the next is kept in binary64: one addition then makes one
    /// vector wait for another, as without.
    fn owes_wide(&self, r: &Reduction) -> bool {
        !self.outer && self.owes(r) && r.dtype == DType::F32
    }

    /// Declares a scan's value at a position, and carries it on.
    pub(in crate::emit::cpu) fn scan(&mut self, out: &mut Block, v: Value, at: At<'_>) {
        let Some(r) = self.fold_of(v) else { return };
        match self.outer {
            true => self.scan_of_rows(out, &r),
            false => self.scan_of_columns(out, &r, at),
        }
    }

    /// Lanes over rows: an accumulator is stored at every column.
    fn scan_of_rows(&self, out: &mut Block, r: &Reduction) {
        let (value, ty) = (Name::value(r.id), self.vector_type(r.dtype));
        let x = Expr::from(Name::value(r.value));
        let block = self.vector_of_block();
        let of_block = |part| Expr::from(r.part(part)).element(block.clone());
        let carry = of_block(Part::Carry);
        if self.scans_in_order(r) {
            let convert = |e, dtype| {
                let function = Function::Convert(dtype, self.lanes as u16);
                Expr::call(function, [e])
            };
            let wide = convert(x, DType::F64);
            out.push(Stmt::update(carry.clone(), Infix::Add, wide));
            out.push(Stmt::constant(value, ty, convert(carry, r.dtype)));
        } else if self.owes(r) {
            let owed = of_block(Part::Owed);
            let now = [carry.clone(), owed.clone(), x.clone()];
            out.push(Stmt::constant(
                value,
                ty,
                self.support("behind", r.dtype, now),
            ));
            let next = [carry.address(), owed.address(), x];
            out.push(Stmt::Call(self.support("carry", r.dtype, next)));
        } else {
            let next = self.combine(r, carry.clone(), x);
            out.push(Stmt::constant(value, ty, next));
            out.push(Stmt::assign(carry, value));
        }
    }

    /// Lanes over columns: the lanes of a vector are folded, and what was before is joined to them.
    fn scan_of_columns(&self, out: &mut Block, r: &Reduction, at: At<'_>) {
        let (value, ty) = (Name::value(r.id), self.vector_type(r.dtype));
        let x = Expr::from(Name::value(r.value));
        let identity = self.scan_identity(r);
        // Lanes past the end must not reach the next run of columns.
        let x = match at.lanes {
            Some(m) => {
                let live = self.live_lanes(m);
                self.support("sel", r.dtype, [live, x, identity.clone()])
            }
            None => x,
        };
        let is_sum = matches!(r.kind, ReduceKind::Sum | ReduceKind::Prod);
        if self.scans_in_order(r) || (self.node.exact && is_sum && r.dtype.is_float()) {
            return self.scan_in_order(out, r, x);
        }
        let stem = match r.kind {
            ReduceKind::Prod => "prefix_prod",
            ReduceKind::Any => "prefix_any",
            ReduceKind::All => "prefix_all",
            ReduceKind::Max | ReduceKind::ArgMax => "prefix_max",
            ReduceKind::Min | ReduceKind::ArgMin => "prefix_min",
            ReduceKind::Sum | ReduceKind::Mean => "prefix_sum",
        };
        let (part, carry) = (r.part(Part::Prefix), Expr::from(r.part(Part::Carry)));
        let prefix = self.support(stem, r.dtype, [x, identity]);
        out.push(Stmt::constant(part, ty, prefix));
        if self.owes_wide(r) {
            let single = Type::scalar(DType::F32);
            let before = self.set(r.dtype, carry.clone().cast(single));
            out.push(Stmt::constant(value, ty, self.combine(r, before, part)));
            let last = Expr::from(part).element(self.lanes as i64 - 1);
            let last = last.cast(Type::scalar(DType::F64));
            return out.push(Stmt::update(carry, Infix::Add, last));
        }
        let last = self.support("last", r.dtype, [part.into()]);
        if self.owes(r) {
            let owed = Expr::from(r.part(Part::Owed));
            let now = [carry.clone(), owed.clone(), part.into()];
            out.push(Stmt::constant(
                value,
                ty,
                self.support("behind", r.dtype, now),
            ));
            let next = [carry.address(), owed.address(), last];
            return out.push(Stmt::Call(self.support("carry", r.dtype, next)));
        }
        out.push(Stmt::constant(
            value,
            ty,
            self.combine(r, carry.clone(), part),
        ));
        out.push(Stmt::assign(carry.clone(), self.combine(r, carry, last)));
    }

    /// One element after the other, as eager mode does it.
    fn scan_in_order(&self, out: &mut Block, r: &Reduction, x: Expr) {
        let (value, ty) = (Name::value(r.id), self.vector_type(r.dtype));
        let carry = Expr::from(r.part(Part::Carry));
        let lane = || Expr::from(value).element(Local::Lane);
        let scalar = Type::scalar(r.dtype);
        let each = |body: [Stmt; 2]| {
            ir::Loop::over(Local::Lane, 0, self.lanes as i64)
                .of_type(ValueType::Scalar(DType::I32))
                .along(Axis::Lane)
                .each(Block::from(body))
        };
        out.push(Stmt::variable(value, ty, x));
        if self.scans_in_order(r) {
            return out.push(each([
                Stmt::update(carry.clone(), Infix::Add, lane()),
                Stmt::assign(lane(), carry.cast(scalar)),
            ]));
        }
        let op = match r.kind {
            ReduceKind::Sum => Infix::Add,
            _ => Infix::Multiply,
        };
        let sum = || Expr::from(Local::Sum);
        out.push(Stmt::Scope(Block::from([
            Stmt::variable(Local::Sum, scalar, carry.clone().element(0)),
            each([
                Stmt::assign(sum(), Expr::infix(op, sum(), lane())),
                Stmt::assign(lane(), sum()),
            ]),
            Stmt::assign(carry, self.set(r.dtype, sum())),
        ])));
    }
}
