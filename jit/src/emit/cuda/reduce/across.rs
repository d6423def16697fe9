//! The sums of rows side by side, of a piece of their columns.

use super::super::kernel::Writer;
use super::super::shape::Form;
use super::Reduction;
use crate::kernel::ir::{
    Axis, Block, Expr, Extent, Local, Loop, Meeting, OnDevice, Part, Stmt, ValueType,
};
use ferrotrace_runtime::DType;

impl Writer<'_> {
    /// Combines what the groups of a block reduced of each row of their chunks, in order, and leaves it as the piece's
    /// partial results.
    pub(in crate::emit::cuda) fn put_across(
        &self,
        out: &mut Block,
        reductions: &[Reduction],
        form: Form,
    ) {
        let Form::Outer { width, groups } = form else {
            return;
        };
        let of = |r: &Reduction, group: Expr| {
            let shared = Expr::from(r.part(Part::Shared)).element(group);
            shared.element(Local::Lane).element(OnDevice::Across)
        };
        for r in reductions {
            let sizes = [groups as usize, self.shape.lanes, width as usize];
            let extent = Extent::array(sizes);
            out.push(Stmt::shared(r.part(Part::Shared), r.ty(), extent));
            let share = Stmt::assign(of(r, OnDevice::Group.into()), r.lane(Local::Lane));
            out.push(self.each_element(1, share));
        }
        out.push(Stmt::Barrier(Meeting::Block));
        for r in reductions {
            let element = || Expr::from(Local::Element);
            let next = self.combine(r, element(), of(r, Local::Other.into()));
            let others = Loop::over(Local::Other, 1, i64::from(groups));
            let others = others.of_type(ValueType::Scalar(DType::I32));
            let mut each = Block::from([
                Stmt::variable(Local::Element, r.ty(), of(r, Expr::Integer(0))),
                others
                    .along(Axis::Accumulator)
                    .each(Stmt::assign(element(), next)),
            ]);
            self.put_lane(&mut each, r, element());
            // A group of threads for each row of a chunk.
            let lanes = Loop::over(Local::Lane, OnDevice::Group, self.shape.lanes as i64)
                .of_type(ValueType::Scalar(DType::I32))
                .along(Axis::Lane)
                .by(groups as usize);
            out.push(Stmt::when(OnDevice::Live.into(), lanes.each(each)));
        }
    }
}
