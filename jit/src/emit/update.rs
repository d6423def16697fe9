//! Scatters: stores at positions that depend on values, joined to what is there. Lanes whose places follow each other
//! are written at once; all others one by one, in order, since two of them may have one place.

use super::index::Step;
use super::kernel::Writer;
use super::value::{At, element_array};
use super::{Overwrite, Pointer};
use crate::body::{BodyOp, Source, Value};
use crate::expr::Expr;
use crate::kernel::ir::{self, Block, Infix, Local, Name, Stmt, Type, ValueType};
use crate::nest::{Target, Update};
use crate::schedule::Store;
use ferrotrace_kernels::{BinaryOp, ValueId};
use ferrotrace_runtime::{DType, Layout};
use smallvec::SmallVec;

impl Writer<'_> {
    /// The nodes written over other data, and that data.
    pub(super) fn updates(&self, needed: &[usize]) -> Vec<Overwrite> {
        let of = |&s: &usize| {
            let store = &self.node.stores[s];
            let update = store.update.as_ref()?;
            Some(Overwrite {
                node: store.node,
                base: update.base.clone(),
                window: update.window().cloned(),
            })
        };
        needed.iter().filter_map(of).collect()
    }

    /// The data before and the node may share memory if that is all of the data's, and nothing else reads it
    /// (scheduler L-26), but for elements of a window that are not written, and each written one where it is.
    pub(super) fn in_place_update(
        &self,
        store: &Store,
        update: &Update,
    ) -> Option<(ValueId, Source)> {
        let (source, layout) = &update.base;
        let whole = layout.is_contiguous() && layout.offset() == 0;
        let is_read = self.pointers.contains(&Pointer::Read(*source));
        let fits = match update.target {
            Target::At(_) => !is_read,
            Target::Window(_) => !is_read || self.reads_around(*source, layout, store),
        };
        (whole && fits).then_some((store.node, *source))
    }

    /// Whether what the kernel reads of a buffer is not what it writes there, or each element where it is written.
    fn reads_around(&self, source: Source, layout: &Layout, store: &Store) -> bool {
        self.node.body.values().iter().all(|value| match &value.op {
            BodyOp::Load {
                source: from,
                dtype,
                index,
                ..
            } if *from == source => {
                // Read before it is written: in the same iteration, of the only loop.
                let same = *index == store.index && self.stages.loops.len() == 1;
                dtype.size() == store.dtype.size()
                    && (same || are_apart(index, &store.index, layout, &self.extents))
            }
            _ => true,
        })
    }

    /// The values that the place of a scatter's store depends on.
    pub(super) fn place_operands(&self, s: usize) -> SmallVec<[Value; 4]> {
        let at = self.node.stores[s].update.as_ref().and_then(Update::at);
        at.map_or_else(SmallVec::new, |at| self.node.body.operands(at))
    }

    /// The store of a scatter at a position.
    pub(super) fn update_store(
        &mut self,
        out: &mut Block,
        s: usize,
        combine: Option<BinaryOp>,
        pointer: Name,
        at: At<'_>,
    ) {
        let store = &self.node.stores[s];
        let (dtype, v) = (store.dtype, ir::Expr::from(Name::value(store.value)));
        let index = self.store_indices[&s].clone();
        if index.step == Step::Unit {
            let place = || ir::Expr::from(pointer) + index.at(at.position);
            let (load, store) = match at.lanes {
                None => ("load", "store"),
                Some(_) => ("loadn", "storen"),
            };
            let count = || at.lanes.cloned();
            let value = match combine {
                None => v,
                Some(op) => {
                    let old = self.support(load, dtype, [place()].into_iter().chain(count()));
                    self.binary(op, dtype.compute(), old, v)
                }
            };
            let args = [place(), value].into_iter().chain(count());
            return out.push(Stmt::Call(self.support(store, dtype, args)));
        }
        let memory = ValueType::Memory(dtype);
        let all = self.support("store", dtype, [Local::Elements.into(), v]);
        let place = ir::Expr::from(pointer) + index.at(&at.lane());
        let there = || ir::Expr::from(Local::Place).dereference();
        let each = Block::from([
            Stmt::variable(Local::Place, Type::write(memory), place),
            Stmt::assign(there(), joined(combine, dtype, there(), Self::element())),
        ]);
        out.push(Stmt::Scope(Block::from([
            element_array(memory, self.lanes, false),
            Stmt::Call(all),
            self.each_lane(at, each),
        ])));
    }
}

/// An element in memory joined with another.
fn joined(combine: Option<BinaryOp>, dtype: DType, there: ir::Expr, element: ir::Expr) -> ir::Expr {
    let op = match (combine, dtype == DType::Bool) {
        (None, _) => return element,
        (Some(BinaryOp::Maximum | BinaryOp::Minimum), _) => {
            let op = match combine {
                Some(BinaryOp::Maximum) => Infix::Greater,
                _ => Infix::Less,
            };
            let nan = ir::Expr::infix(Infix::Unequal, there.clone(), there.clone());
            let stays = ir::Expr::infix(op, there.clone(), element.clone()).or(nan);
            return stays.choose(there, element);
        }
        (Some(BinaryOp::Mul), true) => Infix::BitAnd,
        (Some(BinaryOp::Mul), false) => Infix::Multiply,
        (_, true) => Infix::BitOr,
        (_, false) => Infix::Add,
    };
    ir::Expr::infix(op, there, element)
}

/// Whether two positions in a dense buffer of this layout never meet, whatever the variables are in each: in some
/// dimension they keep to different ranges, or to different residues.
pub(crate) fn are_apart(a: &Expr, b: &Expr, layout: &Layout, extents: &[usize]) -> bool {
    let (of_a, of_b) = (a.range(extents), b.range(extents));
    if of_a.high < of_b.low || of_b.high < of_a.low {
        return true;
    }
    let (Some(a), Some(b)) = (
        by_dimension(a, layout, extents),
        by_dimension(b, layout, extents),
    ) else {
        return false;
    };
    a.iter().zip(&b).any(|(a, b)| {
        let (of_a, of_b) = (a.range(extents), b.range(extents));
        let steps = a.terms().iter().chain(b.terms()).map(|term| term.1);
        let common = steps.fold(0, gcd);
        let differ = a.constant() - b.constant();
        of_a.high < of_b.low
            || of_b.high < of_a.low
            || (common > 1 && differ.rem_euclid(common) != 0)
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    match b {
        0 => a.abs(),
        _ => gcd(b, a % b),
    }
}

/// An affine position as an index of each dimension of a dense layout, where its variables allow no carry.
fn by_dimension(at: &Expr, layout: &Layout, extents: &[usize]) -> Option<SmallVec<[Expr; 4]>> {
    if !at.is_affine() {
        return None;
    }
    let mut rest = at.clone();
    let mut all = SmallVec::new();
    for (&stride, &size) in layout.strides().iter().zip(layout.shape().iter()) {
        if size == 1 {
            all.push(Expr::default());
            continue;
        }
        let stride = stride as i64;
        if stride <= 0 {
            return None;
        }
        let mut here = Expr::default();
        for (term, by) in rest.terms().to_vec() {
            if by % stride == 0 && by.abs() < stride.saturating_mul(size as i64) {
                here = here.add(&Expr::from(term).scale(by / stride));
            }
        }
        rest = rest.sub(&here.scale(stride));
        let low = rest.range(extents).low.div_euclid(stride);
        here = here.offset(low);
        rest = rest.offset(-low * stride);
        let range = rest.range(extents);
        if range.low < 0 || range.high >= stride {
            return None;
        }
        all.push(here);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_runtime::Shape;

    fn position(offset: i64, coefficients: &[i64]) -> Expr {
        let terms = coefficients.iter().enumerate();
        terms.fold(Expr::from(offset), |e, (v, &c)| {
            e.add(&Expr::var(v).scale(c))
        })
    }

    #[test]
    fn positions_apart_are_told_by_dimension() {
        let layout = Layout::contiguous(Shape::from(&[200, 100][..]));
        let apart = |a: Expr, b: Expr, extents: &[usize]| {
            assert_eq!(
                are_apart(&a, &b, &layout, extents),
                are_apart(&b, &a, &layout, extents)
            );
            are_apart(&a, &b, &layout, extents)
        };
        // Columns 10 to 19 of rows 5 and on, and column 9, 20, or one between.
        let part = || position(510, &[100, 1]);
        assert!(apart(part(), position(509, &[100, 0]), &[30, 10]));
        assert!(apart(part(), position(520, &[100, 0]), &[30, 10]));
        assert!(!apart(part(), position(519, &[100, 0]), &[30, 10]));
        // Rows 5 to 34, and row 4, or 5.
        assert!(apart(part(), position(410, &[0, 1]), &[30, 10]));
        assert!(!apart(part(), position(510, &[0, 1]), &[30, 10]));
        // A row that is written while it is walked the other way.
        assert!(!apart(position(510, &[1]), position(529, &[-1]), &[20]));
        // Columns that cross into the next row, if there were any.
        assert!(!apart(
            position(590, &[100, 1]),
            position(600, &[100, 0]),
            &[3, 20]
        ));
        // Even and odd rows, even and odd columns.
        assert!(apart(
            position(0, &[200, 1]),
            position(100, &[200, 1]),
            &[90, 90]
        ));
        assert!(apart(
            position(0, &[100, 2]),
            position(1, &[100, 2]),
            &[90, 40]
        ));
        assert!(!apart(
            position(0, &[100, 2]),
            position(1, &[100, 3]),
            &[90, 30]
        ));
    }

    #[test]
    fn positions_past_32_bits_are_compared() {
        let n = 1usize << 32;
        let layout = Layout::contiguous(Shape::from(&[4, n][..]));
        let row = |r: i64| position(r << 32, &[1]);
        assert!(are_apart(&row(1), &row(3), &layout, &[n]));
        assert!(!are_apart(&row(3), &row(3), &layout, &[n]));
        let half = |r: i64, from: i64| position((r << 32) + from, &[1 << 32, 1]);
        assert!(are_apart(
            &half(0, 0),
            &half(0, 1 << 31),
            &layout,
            &[4, n / 2]
        ));
        assert!(!are_apart(
            &half(0, 1),
            &half(0, 1 << 31),
            &layout,
            &[4, n / 2]
        ));
    }
}
