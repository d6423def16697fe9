//! The combination of what the threads of a row reduced: over a warp by shuffles, over the warps or groups of a block
//! through shared memory.

use super::super::kernel::Writer;
use super::super::shape::Form;
use super::Reduction;
use crate::kernel::ir::{
    Axis, Block, Expr, Extent, Function, Local, Loop, Meeting, Name, OnDevice, Part, Shuffle, Stmt,
    Type, ValueType,
};
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;

/// Lanes of a warp.
const WARP: i64 = 32;

impl Writer<'_> {
    /// Combines the accumulators of a row's threads: they are then the row's in every one of them. The reductions of a loop
    /// share a barrier.
    pub(in crate::emit::cuda) fn gather(
        &self,
        out: &mut Block,
        reductions: &[Reduction],
        lanes: usize,
        form: &Form,
    ) {
        for r in reductions {
            self.fold_lanes(out, r, lanes);
        }
        if reductions.is_empty() {
            return;
        }
        match *form {
            Form::Inner { threads: 1 } => {}
            Form::Inner { threads } => {
                for r in reductions {
                    self.over_warp(out, r, i64::from(threads).min(WARP));
                }
                if threads > 32 {
                    self.over_block(out, reductions, threads as usize / 32);
                }
            }
            Form::Outer { width, groups } => {
                let at = [OnDevice::Group, OnDevice::Across].map(Expr::from);
                for r in reductions {
                    let sizes = Extent::array([groups as usize, width as usize]);
                    self.share(out, r, None, (&at, sizes));
                }
                out.push(Stmt::Barrier(Meeting::Block));
                for r in reductions {
                    self.over_groups(out, r, i64::from(groups));
                }
            }
            Form::Pointwise | Form::Tiled => {}
        }
    }

    /// Over the warps of a block, the first lane of each giving its warp's result.
    fn over_block(&self, out: &mut Block, reductions: &[Reduction], warps: usize) {
        let at = [Expr::from(Local::Thread) >> 5];
        for r in reductions {
            let first = (Expr::from(Local::Thread) & (WARP - 1)).equals(0);
            self.share(out, r, Some(first), (&at, Extent::array(warps)));
        }
        out.push(Stmt::Barrier(Meeting::Block));
        for r in reductions {
            self.over_warps(out, r, warps as i64);
        }
    }

    /// Puts a thread's result into shared memory of this reduction alone, so that one barrier is enough.
    fn share(
        &self,
        out: &mut Block,
        r: &Reduction,
        when: Option<Expr>,
        (at, extent): (&[Expr], Extent),
    ) {
        let mut one = |part: Part, ty: Type, value: Expr| {
            let name = r.part(part);
            out.push(Stmt::shared(name, ty, extent));
            let place = at.iter().cloned().fold(Expr::from(name), Expr::element);
            let store = Stmt::assign(place, value);
            out.push(match &when {
                Some(when) => Stmt::when(when.clone(), store),
                None => store,
            });
        };
        one(Part::Shared, r.ty(), r.accumulator());
        if r.has_position() {
            one(Part::SharedPlaces, Type::LONG, r.place());
        }
    }

    /// Takes another value, and its position, into the accumulator.
    pub(super) fn merge(&self, r: &Reduction, other: Expr, place: Expr) -> Stmt {
        let best = r.accumulator();
        if r.has_position() {
            let better = r.better(&other, &place, &best, &r.place());
            let takes = [Stmt::assign(best, other), Stmt::assign(r.place(), place)];
            return Stmt::when(better, takes);
        }
        Stmt::assign(best.clone(), self.combine(r, best, other))
    }

    /// Whether both of two lanes that combine each other's values get the same bits.
    fn symmetric(&self, r: &Reduction) -> bool {
        use ReduceKind::{Max, Mean, Min, Prod, Sum};
        let one_instruction = r.dtype == DType::F32 && !self.node.exact;
        !r.has_position()
            && (matches!(r.kind, Sum | Prod | Mean)
                || one_instruction && matches!(r.kind, Max | Min))
    }

    /// By halves over neighbours of `lanes` lanes, into all of them.
    fn over_lanes(&self, out: &mut Block, r: &Reduction, lanes: i64) {
        let other = exchanged(Shuffle::Xor, r, OnDevice::Distance.into());
        let each = [
            Stmt::constant(Local::Element, r.ty(), other),
            self.merge(r, Local::Element.into(), Local::Position.into()),
        ];
        out.push(by_halves(lanes / 2).each(each));
    }

    /// By halves over neighbours of `lanes` lanes, then the first one's to all of them.
    fn over_warp(&self, out: &mut Block, r: &Reduction, lanes: i64) {
        if self.symmetric(r) {
            return self.over_lanes(out, r, lanes);
        }
        let place = |which, lane: Expr| {
            let function = Function::Shuffle(which, DType::I64);
            Expr::call(function, [r.place(), lane])
        };
        let distance = || Expr::from(OnDevice::Distance);
        let other = exchanged(Shuffle::Down, r, distance());
        let mut each = Block::from(Stmt::constant(Local::Element, r.ty(), other));
        if r.has_position() {
            let other = place(Shuffle::Down, distance());
            each.push(Stmt::constant(Local::Position, Type::LONG, other));
        }
        each.push(self.merge(r, Local::Element.into(), Local::Position.into()));
        out.push(by_halves(lanes / 2).each(each));
        let first_lane = || match lanes {
            WARP => Expr::Integer(0),
            _ => Expr::from(Local::Thread) & (WARP - lanes),
        };
        let first = exchanged(Shuffle::From, r, first_lane());
        out.push(Stmt::assign(r.accumulator(), first));
        if r.has_position() {
            let first = place(Shuffle::From, first_lane());
            out.push(Stmt::assign(r.place(), first));
        }
    }

    /// Over the warps of a block, whose results are shared: every warp combines them all.
    fn over_warps(&self, out: &mut Block, r: &Reduction, warps: i64) {
        let shared = |part: Part, at: Expr| Expr::from(r.part(part)).element(at);
        if self.symmetric(r) && (warps as u64).is_power_of_two() {
            let at = Expr::from(Local::Thread) & (warps - 1);
            out.push(Stmt::assign(r.accumulator(), shared(Part::Shared, at)));
            return self.over_lanes(out, r, warps);
        }
        let at = || Expr::from(Local::Thread) & (WARP - 1);
        let of = |part: Part, none: Expr| at().less(warps).choose(shared(part, at()), none);
        out.push(Stmt::assign(
            r.accumulator(),
            of(Part::Shared, r.identity()),
        ));
        if r.has_position() {
            let places = of(Part::SharedPlaces, Expr::Integer(-1));
            out.push(Stmt::assign(r.place(), places));
        }
        self.over_warp(out, r, WARP);
    }

    /// Over the groups of a block that share its rows, a thread each, in order.
    fn over_groups(&self, out: &mut Block, r: &Reduction, groups: i64) {
        let of = |part: Part, group: Expr| {
            let shared = Expr::from(r.part(part));
            shared.element(group).element(OnDevice::Across)
        };
        let first = || Expr::Integer(0);
        out.push(Stmt::assign(r.accumulator(), of(Part::Shared, first())));
        if r.has_position() {
            out.push(Stmt::assign(r.place(), of(Part::SharedPlaces, first())));
        }
        let k = || Expr::from(Local::Other);
        let merge = self.merge(r, of(Part::Shared, k()), of(Part::SharedPlaces, k()));
        let all = Loop::over(Local::Other, 1, groups).of_type(ValueType::Scalar(DType::I32));
        out.push(all.along(Axis::Accumulator).each(merge));
    }
}

/// What another lane has accumulated. Lanes exchange words of 32 bits or more.
fn exchanged(which: Shuffle, r: &Reduction, lane: Expr) -> Expr {
    let value = match r.dtype.size() < 4 {
        true => r.accumulator().cast(Type::INT),
        false => r.accumulator(),
    };
    Expr::call(Function::Shuffle(which, r.dtype), [value, lane])
}

/// A loop over distances between lanes, from this one to 1.
fn by_halves(from: i64) -> Loop {
    Loop::over(Name::from(OnDevice::Distance), from, 0)
        .of_type(ValueType::Scalar(DType::I32))
        .along(Axis::Distance)
        .halving()
}
