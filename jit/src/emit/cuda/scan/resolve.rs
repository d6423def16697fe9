//! The scan of a tile's elements: folds of what a thread, a warp or a group holds, and what lies before them.

use super::super::chunk::over_held;
use super::super::kernel::Writer;
use super::super::reduce::Reduction;
use super::super::shape::Form;
use super::held_element;
use crate::kernel::ir::{
    Axis, Block, Expr, Extent, Function, Local, Loop, Meeting, OnDevice, Operation, Part, Stmt,
    Type, ValueType,
};
use ferrotrace_runtime::DType;

impl Writer<'_> {
    /// Scans the elements of a tile; the scans of a phase share a barrier.
    pub(super) fn resolve(&mut self, out: &mut Block, now: &[Reduction], form: Form) {
        for r in now {
            self.define_operations(out, r);
            match form {
                Form::Inner { threads } => self.fold_warps(out, r, threads as usize / 32),
                Form::Outer { groups: 1, .. } => out.push(self.carry_through(r)),
                Form::Outer { width, groups } => {
                    self.fold_groups(out, r, [groups as usize, width as usize]);
                }
                Form::Pointwise | Form::Tiled => {}
            }
        }
        match form {
            Form::Inner { threads: 32 } | Form::Outer { groups: 1, .. } => {}
            _ => out.push(Stmt::Barrier(Meeting::Block)),
        }
        for r in now {
            match form {
                Form::Inner { threads } => out.push(self.behind_warps(r, threads / 32)),
                Form::Outer { groups, .. } if groups > 1 => out.push(self.behind_groups(r, groups)),
                _ => {}
            }
        }
    }

    /// Defines what a scan folds by, and what its carry takes a value by.
    fn define_operations(&self, out: &mut Block, r: &Reduction) {
        let operation = |part: Part, left: Type, value: Expr| {
            Stmt::Define(Box::new(Operation {
                name: r.part(part),
                operands: (left, r.ty()),
                value,
            }))
        };
        let carried = self.carried(r);
        let (x, y) = (
            || Expr::from(OnDevice::Left),
            || Expr::from(OnDevice::Right),
        );
        let fold = self.combine(r, x(), y()).cast(r.ty());
        let on_carry = match carried == r.ty() {
            true => fold.clone(),
            false => x() + y(),
        };
        out.push(operation(Part::Fold, r.ty(), fold));
        out.push(operation(Part::CarryFold, carried, on_carry));
    }

    /// What a scan carries behind one more value.
    fn carry_on(&self, r: &Reduction, value: Expr) -> Stmt {
        let carry = || Expr::from(r.part(Part::Carry));
        let apply = Function::Apply(match self.carried(r) == r.ty() {
            true => r.dtype,
            false => DType::F64,
        });
        let operation = Expr::from(r.part(Part::CarryFold));
        Stmt::assign(carry(), Expr::call(apply, [operation, carry(), value]))
    }

    /// The folds of a thread's chunks, and of its warp's; a block's warps share theirs.
    fn fold_warps(&self, out: &mut Block, r: &Reduction, warps: usize) {
        let held = self.held();
        let folds = r.part(Part::WarpFolds);
        out.push(Stmt::array(folds, r.ty(), Extent::array(held)));
        let all = [r.part(Part::Partial), folds, r.part(Part::Fold)].map(Expr::from);
        out.push(Stmt::Call(Expr::call(Function::Prefix, all)));
        if warps == 1 {
            return;
        }
        let shared = r.part(Part::BlockFolds);
        let extent = Extent::array([2, held * warps]);
        out.push(Stmt::shared(shared, r.ty(), extent));
        let warp = Expr::from(Local::Thread) >> 5;
        let at = Expr::from(Local::Held) * warps as i64 + warp;
        let place = Expr::from(shared).element(OnDevice::Copy).element(at);
        let last = (Expr::from(Local::Thread) & 31).equals(31);
        let fold = Expr::from(folds).element(Local::Held);
        let store = Stmt::when(last, Stmt::assign(place, fold));
        out.push(over_held(held, store));
    }

    /// Joins what lies before a warp's elements to them.
    fn behind_warps(&self, r: &Reduction, warps: u32) -> Stmt {
        let shared = match warps {
            1 => Expr::Integer(0).cast(Type::read(ValueType::Scalar(r.dtype))),
            _ => Expr::from(r.part(Part::BlockFolds)).element(OnDevice::Copy),
        };
        let of = |part: Part| Expr::from(r.part(part));
        let arguments = [
            of(Part::Partial),
            of(Part::WarpFolds),
            of(Part::Carry),
            shared,
            r.identity(),
            of(Part::Fold),
            of(Part::CarryFold),
        ];
        Stmt::Call(Expr::call(Function::Behind(warps), arguments))
    }

    /// The scan of columns that one thread walks.
    fn carry_through(&self, r: &Reduction) -> Stmt {
        let carry = || Expr::from(r.part(Part::Carry));
        let element = || held_element(r, Local::Held.into(), 0.into());
        let each = [
            self.carry_on(r, element()),
            Stmt::assign(element(), carry().cast(r.ty())),
        ];
        over_held(self.held(), each)
    }

    /// The folds of a thread's columns, which the groups of a block share.
    fn fold_groups(&self, out: &mut Block, r: &Reduction, [groups, width]: [usize; 2]) {
        let k = || Expr::from(Local::Held);
        let element = |at: Expr| held_element(r, at, 0.into());
        let fold = Stmt::assign(element(k()), fold(r, element(k() - 1), element(k())));
        let held = self.held();
        out.push(turns_from(1, held).each(fold));
        let shared = r.part(Part::BlockFolds);
        out.push(Stmt::shared(
            shared,
            r.ty(),
            Extent::array([2, groups, width]),
        ));
        let at = [OnDevice::Copy, OnDevice::Group, OnDevice::Across].map(Expr::from);
        let place = at.into_iter().fold(Expr::from(shared), Expr::element);
        out.push(Stmt::assign(place, element((held as i64 - 1).into())));
    }

    /// Joins what lies before a group's columns to them.
    fn behind_groups(&self, r: &Reduction, groups: u32) -> Stmt {
        let combine = |a: Expr, b: Expr| fold(r, a, b);
        let (all, x) = (|| Expr::from(OnDevice::All), || Expr::from(Local::Element));
        let carry = || Expr::from(r.part(Part::Carry));
        let of_group = Expr::from(r.part(Part::BlockFolds)).element(OnDevice::Copy);
        let of_group = of_group.element(Local::Other).element(OnDevice::Across);
        let own = Expr::from(Local::Other).equals(OnDevice::Group);
        let join = Loop::over(Local::Other, 0, i64::from(groups));
        let join = join.of_type(ValueType::Scalar(DType::I32)).unrolled();
        let join = join.along(Axis::Accumulator).each([
            Stmt::when(own, Stmt::assign(x(), all())),
            Stmt::assign(all(), combine(all(), of_group)),
        ]);
        let element = || held_element(r, Local::Held.into(), 0.into());
        let each = Stmt::assign(element(), combine(x(), element()));
        Stmt::Scope(Block::from([
            Stmt::variable(OnDevice::All, r.ty(), r.identity()),
            Stmt::variable(Local::Element, r.ty(), OnDevice::All),
            join,
            Stmt::assign(x(), combine(carry().cast(r.ty()), x())),
            self.carry_on(r, all()),
            over_held(self.held(), each),
        ]))
    }
}

/// Two values of a scan folded.
pub(in crate::emit::cuda) fn fold(r: &Reduction, left: Expr, right: Expr) -> Expr {
    let operation = Expr::from(r.part(Part::Fold));
    Expr::call(Function::Apply(r.dtype), [operation, left, right])
}

/// A loop over the chunks that a thread holds from one on, unrolled.
fn turns_from(from: i64, held: usize) -> Loop {
    Loop::over(Local::Held, from, held as i64)
        .of_type(ValueType::Scalar(DType::I32))
        .along(Axis::Chunk)
        .unrolled()
}
