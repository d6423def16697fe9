//! Σ exp(x − max x) in the pass that finds the maximum (Milakov and Gimelshein, 2018): a thread sums about the greatest
//! value so far, and scales its sum when it meets a greater one. Long rows are read once less for it.

use super::kernel::Writer;
use super::reduce::{Reduction, tree};
use super::shape::Form;
use super::stage::Stages;
use crate::body::{BodyOp, Value};
use crate::kernel::ir::{
    Axis, Block, Expr, Extent, Function, Infix, Local, Loop, Name, OnDevice, Part, Stmt, Type,
    ValueType,
};
use crate::schedule::FusedNode;
use ferrotrace_kernels::{BinaryOp, ReduceKind, UnaryOp};
use ferrotrace_runtime::DType;

/// A sum of exponentials about a maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Online {
    /// max x
    pub max: Value,
    /// Σ exp(x − max x)
    pub sum: Value,
    /// x
    pub of: Value,
}

/// The sums of exponentials that the second loop runs, if it does nothing else. Summed in the first pass, they round
/// otherwise.
pub(super) fn find(node: &FusedNode, stages: &Stages) -> Option<Vec<Online>> {
    let body = &node.body;
    let second = stages.loops.get(1)?;
    if node.exact || second.reduces.is_empty() || !second.stores.is_empty() {
        return None;
    }
    let dependence = node.dependence();
    let of = |&sum: &Value| {
        let BodyOp::Reduce {
            kind: ReduceKind::Sum,
            value,
            ..
        } = body.value(sum).op
        else {
            return None;
        };
        let BodyOp::Unary(UnaryOp::Exp, d) = body.value(value).op else {
            return None;
        };
        let BodyOp::Binary(BinaryOp::Sub, of, max) = body.value(d).op else {
            return None;
        };
        let is_max = matches!(
            body.value(max).op,
            BodyOp::Reduce { kind: ReduceKind::Max, value, .. } if value == of
        );
        // What is the same in every column is no element of the loop.
        let fits = is_max && dependence[of as usize].inner && body.value(sum).dtype == DType::F32;
        (fits && stages.loops[0].reduces.contains(&max)).then_some(Online { max, sum, of })
    };
    second.reduces.iter().map(of).collect()
}

impl Writer<'_> {
    /// The reductions of a loop but maxima and the sums of exponentials about them, which are computed together.
    pub(super) fn single(&self, all: &[Reduction]) -> Vec<Reduction> {
        let paired = |id: Value| self.online.iter().any(|o| o.max == id || o.sum == id);
        all.iter().filter(|r| !paired(r.id)).copied().collect()
    }

    /// The sums of exponentials about a maximum among the reductions of a loop.
    pub(super) fn paired(&self, all: &[Reduction]) -> Vec<Reduction> {
        let paired = |id: Value| self.online.iter().any(|o| o.sum == id);
        all.iter().filter(|r| paired(r.id)).copied().collect()
    }

    /// Declares a thread's maxima, what it sums about, and its sums.
    pub(super) fn declare_pairs(&self, out: &mut Block) {
        let ty = Type::scalar(DType::F32);
        for Online { max, sum, .. } in &self.online {
            let (most, all) = (
                Name::of(Part::Accumulator, *max),
                Name::of(Part::Accumulator, *sum),
            );
            out.push(Stmt::filled(most, ty, 1, nothing()));
            out.push(Stmt::variable(Name::of(Part::Exponent, *max), ty, 0));
            out.push(Stmt::zeros(all, ty, Extent::array(1)));
            let sum = self.reduction(*sum);
            if self.is_long(&sum) {
                self.declare_total(out, &sum);
            }
        }
    }

    /// Declares the array that keeps a chunk's elements until their maximum is known.
    pub(super) fn declare_elements(&self, out: &mut Block) {
        for o in &self.online {
            let elements = Name::of(Part::Chunk, o.max);
            let extent = Extent::array(self.shape.lanes);
            out.push(Stmt::array(elements, Type::scalar(DType::F32), extent));
        }
    }

    /// Keeps element `l` of a chunk, −∞ where it does not count.
    pub(super) fn keep_element(&self, out: &mut Block, value: Value) {
        for o in self.online.iter().filter(|o| o.of == value) {
            let element = Expr::from(Name::of(Part::Chunk, o.max)).element(Local::Lane);
            let kept = self.counts().choose(Name::value(value), nothing());
            out.push(Stmt::assign(element, kept));
        }
    }

    /// Takes the elements of a chunk into a thread's maxima and sums. Where all are −∞, 0 is summed about instead.
    pub(super) fn take_pairs(&self, out: &mut Block) {
        for o in &self.online {
            self.take_pair(out, *o);
        }
    }

    fn take_pair(&self, out: &mut Block, Online { max, sum, .. }: Online) {
        let (lanes, ty) = (self.shape.lanes, Type::scalar(DType::F32));
        let elements = Name::of(Part::Chunk, max);
        let element = || Expr::from(elements).element(Local::Lane);
        let greatest = || Expr::from(Name::of(Part::Greatest, max));
        let before = || Expr::from(Name::of(Part::Accumulator, max)).element(0);
        let about = || Expr::from(Name::of(Part::Exponent, max));
        let first = Expr::from(elements).element(0);
        out.push(Stmt::variable(Name::of(Part::Greatest, max), ty, first));
        let greater = Expr::call(Function::Maximum, [greatest(), element()]);
        let each = |from: i64, body: Stmt| {
            Loop::over(Local::Lane, from, lanes as i64)
                .of_type(ValueType::Scalar(DType::I32))
                .along(Axis::Lane)
                .unrolled()
                .each(body)
        };
        out.push(each(1, Stmt::assign(greatest(), greater)));
        let most = Expr::call(Function::Maximum, [before(), greatest()]);
        let around = Expr::from(OnDevice::Most).equals(nothing());
        let around = around.choose(Expr::float(DType::F32, 0.0), OnDevice::Most);
        let scale = support("fast_exp", before() - OnDevice::Around);
        let mut raise = Block::from([
            Stmt::constant(OnDevice::Most, ty, most),
            Stmt::constant(OnDevice::Around, ty, around),
            Stmt::constant(OnDevice::Scale, ty, scale),
        ]);
        let sum = self.reduction(sum);
        let totals = [Part::Total, Part::Low].map(|part| Expr::from(sum.part(part)));
        let totals = totals.into_iter().filter(|_| self.is_long(&sum));
        for part in [sum.lane(0)].into_iter().chain(totals) {
            raise.push(Stmt::update(part, Infix::Multiply, OnDevice::Scale));
        }
        raise.push(Stmt::assign(before(), OnDevice::Most));
        raise.push(Stmt::assign(about(), OnDevice::Around));
        out.push(Stmt::when(!greatest().at_most(before()), raise));
        // No sum of such terms, the greatest of which is 1, sees the rounding of exponents far below 0.
        let term = support("term_exp", element() - about());
        out.push(each(0, Stmt::assign(element(), term)));
        out.push(Stmt::update(
            sum.lane(0),
            Infix::Add,
            tree(elements, 0, lanes),
        ));
    }

    /// Combines the maxima of a row's threads, then their sums, each scaled to the row's maximum.
    pub(super) fn gather_pairs(&self, out: &mut Block, form: &Form) {
        let all = self.online.iter();
        let (maxima, sums): (Vec<_>, Vec<_>) = all
            .map(|o| (self.reduction(o.max), self.reduction(o.sum)))
            .unzip();
        for max in &maxima {
            out.push(Stmt::constant(max.part(Part::Own), max.ty(), max.lane(0)));
        }
        self.gather(out, &maxima, 1, form);
        for sum in &sums {
            self.settle(out, sum, 1);
        }
        for (max, sum) in maxima.iter().zip(&sums) {
            let scale = support("fast_exp", Expr::from(max.part(Part::Own)) - max.lane(0));
            out.push(Stmt::update(sum.lane(0), Infix::Multiply, scale));
        }
        self.gather(out, &sums, 1, form);
    }
}

/// The maximum of no element.
fn nothing() -> Expr {
    Expr::float(DType::F32, f64::NEG_INFINITY)
}

/// A support function of one number of binary32.
fn support(stem: &'static str, value: Expr) -> Expr {
    Expr::call(Function::Support(stem, DType::F32, 0), [value])
}
