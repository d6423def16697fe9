//! Kernels with scans.
//!
//! Rows are walked in tiles, each held in registers: the threads of a row take whole chunks by turns, so that accesses
//! stay coalesced. A thread folds the elements of its chunks, a warp the chunks of its threads by shuffles, a block its
//! warps through shared memory behind one barrier; the carry from tile to tile is in every thread's registers, in binary64
//! for sums of binary32, so that its error does not grow with the row. Scans of
//! strided columns fold some columns of a row in a thread, and the groups of a block in order. A scan of another scan's
//! results is a later **phase** of the tile. Few long rows have a tile a block (see `look_back`); of strided columns they
//! take two kernels: the fold of each piece, then the scan of each piece behind the fold of those before it. Every order
//! depends on sizes alone.

mod resolve;

pub(super) use resolve::fold;

use super::chunk::over_held;
use super::kernel::Writer;
use super::loops::writes;
use super::reduce::Reduction;
use super::shape::Form;
use super::stage::{Loop, Stages};
use crate::body::{BodyOp, Value};
use crate::kernel::ir::{
    self, Axis, Block, Expr, Extent, Infix, Local, Name, OnDevice, Part, Stmt, Type,
};
use crate::schedule::FusedNode;
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;

/// Which part of a node's scans a kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    /// All of them.
    Whole,
    /// The folds of the pieces.
    Folds,
    /// The scans of the pieces, behind what the folds before them give.
    Pieces,
    /// The scans of pieces of one tile each, which look back at the folds that the tiles before them leave.
    LookBack,
}

/// Functions over the elements `e` of a thread's K chunks of V, whose folds over a warp are in `s`; W warps share `z`.
/// `ft_prefix` folds within a warp by `f`, `ft_behind` joins what lies before it, the carry first, to which `g` adds.
pub(super) const HELPERS: &str = include_str!("scan.cu");

/// For each value, the number of scans, one after another, that its column waits for.
pub(super) fn phases(node: &FusedNode) -> Vec<usize> {
    let body = &node.body;
    let mut all: Vec<usize> = Vec::with_capacity(body.values().len());
    for (v, value) in body.values().iter().enumerate() {
        let operands = body.operands(v as Value);
        let of = operands.iter().map(|&o| all[o as usize]).max().unwrap_or(0);
        all.push(match value.op {
            BodyOp::Reduce { .. } => 0,
            BodyOp::Scan { .. } => of + 1,
            _ => of,
        });
    }
    all
}

impl Stages {
    /// Every scan computed.
    pub fn scans(&self, node: &FusedNode) -> Vec<Value> {
        let mut all = self.computed();
        all.retain(|&v| matches!(node.body.value(v).op, BodyOp::Scan { .. }));
        all
    }
}

impl Writer<'_> {
    /// Chunks of a tile that a thread holds.
    fn held(&self) -> usize {
        self.shape.turns.max(self.shape.batch)
    }

    /// Whether every tile is full.
    pub(super) fn full_tiles(&self) -> bool {
        let threads = match self.shape.form {
            Form::Inner { threads } => threads as usize,
            _ => return false,
        };
        let of_row = self.shape.split.is_none() || self.shape.looks_back;
        of_row && self.shape.chunks.is_multiple_of(self.held() * threads)
    }

    /// A loop over the chunks of a tile that a thread holds, each of which is on the row or not.
    pub(super) fn scan_turns(&self, chunk: Block) -> Stmt {
        let held = || Expr::from(Local::Held);
        let start = match self.shape.form {
            Form::Inner { threads } => {
                let start = match self.shape.turns {
                    0 => Expr::from(OnDevice::FirstHeld),
                    _ => Expr::from(Local::Low) + OnDevice::InRow,
                };
                start + held() * i64::from(threads)
            }
            _ => {
                let group = Expr::from(OnDevice::Group) * self.held() as i64;
                Expr::from(OnDevice::FirstHeld) + group + Local::Held
            }
        };
        let index = |value: Expr| Stmt::constant(Local::Index, Type::INDEX, value);
        let mut each = Block::new();
        if self.full_tiles() {
            each.push(index(start));
        } else {
            let on_row = start.clone().less(Local::High);
            let on = match self.shape.form {
                Form::Outer { .. } => Expr::from(OnDevice::Live).and(on_row.clone()),
                _ => on_row.clone(),
            };
            let last = Expr::from(Local::High) - 1;
            each.push(Stmt::constant(Local::OnRow, Type::scalar(DType::Bool), on));
            each.push(index(on_row.choose(start, last)));
        }
        each.append(chunk);
        over_held(self.held(), each)
    }

    /// The values of a loop that `roots` need, finished scans among them.
    fn needs_of(&self, l: &Loop, roots: &[Value]) -> Vec<Value> {
        let body = &self.node.body;
        let mut marked = vec![false; body.values().len()];
        for &v in roots {
            marked[v as usize] = true;
        }
        for &v in l.compute.iter().rev() {
            let scan = matches!(body.value(v).op, BodyOp::Scan { .. });
            if marked[v as usize] && !scan {
                for o in body.operands(v) {
                    marked[o as usize] = true;
                }
            }
        }
        let wanted = l.compute.iter().copied();
        wanted.filter(|&v| marked[v as usize]).collect()
    }

    /// The kernel: its place, then every stage tile by tile.
    pub(super) fn scan_block(&mut self, form: Form, pass: Pass) -> Block {
        let mut out = self.place(form, pass != Pass::Whole);
        out.append(self.row_variables());
        let writes = match pass {
            Pass::Whole => writes(form),
            _ => writes(form).and(Expr::from(Local::Piece).equals(0)),
        };
        let mut body = Block::new();
        if let (Form::Inner { threads }, 1..) = (form, self.shape.turns) {
            let loads = self.shape.kept.clone();
            self.keep(&mut body, threads, &loads);
        }
        for s in 0..self.stages.loops.len() {
            let writes = (pass != Pass::Folds).then(|| writes.clone());
            let values = self.row_values(s, writes);
            body.append(values);
            let l = self.stages.loops[s].clone();
            if l.reduces.is_empty() && l.stores.is_empty() {
                continue;
            }
            let folds = self.folds(&l);
            if pass == Pass::Folds {
                self.fold_piece(&mut body, &l, &folds, form);
                break;
            }
            let reductions: Vec<Reduction> = l.reduces.iter().map(|&r| self.reduction(r)).collect();
            for r in &reductions {
                self.declare_accumulators(&mut body, r, self.shape.lanes);
            }
            let mut scans = Block::new();
            for r in &folds {
                self.carry(&mut scans, r, form, pass);
            }
            let tile = self.tile_of_scans(s, &l, &folds, &reductions, form);
            self.walk_tiles(&mut scans, &l, tile, form);
            body.push(Stmt::Scope(scans));
            self.gather(&mut body, &reductions, self.shape.lanes, &form);
            for r in &reductions {
                self.finished(&mut body, r);
            }
        }
        out.append(self.preamble.clone());
        out.append(body);
        out
    }

    /// The scans of a loop as the folds they are.
    fn folds(&self, l: &Loop) -> Vec<Reduction> {
        let scans = l.compute.iter().copied();
        scans
            .filter(|&v| matches!(self.node.body.value(v).op, BodyOp::Scan { .. }))
            .map(|v| self.reduction(v))
            .collect()
    }

    /// The fold of a piece, for those behind it.
    fn fold_piece(&mut self, out: &mut Block, l: &Loop, folds: &[Reduction], form: Form) {
        let lanes = self.shape.lanes;
        let roots: Vec<Value> = folds.iter().map(|r| r.value).collect();
        let plain = Loop {
            compute: self.needs_of(l, &roots),
            ..Loop::default()
        };
        self.folding = true;
        for r in folds {
            self.declare_accumulators(out, r, lanes);
        }
        let chunk = self.chunk(0, &plain, folds);
        let long = self.long(folds);
        Self::declare_taken(out, &long);
        let mut tile = Block::from(self.scan_turns(chunk));
        self.after_chunks(&mut tile, &long, self.held());
        self.walk_tiles(out, &plain, tile, form);
        self.gather(out, folds, lanes, &form);
        self.folding = false;
        for r in folds {
            self.put(out, r, writes(form));
        }
    }

    /// The type of what a scan carries from tile to tile.
    fn carried(&self, r: &Reduction) -> Type {
        let several_tiles = self.shape.turns == 0;
        match several_tiles && r.kind == ReduceKind::Sum && r.dtype == DType::F32 {
            true => Type::scalar(DType::F64),
            false => r.ty(),
        }
    }

    /// Declares what a scan carries from tile to tile: at first nothing, or what the pieces before give.
    fn carry(&mut self, out: &mut Block, r: &Reduction, form: Form, pass: Pass) {
        let (carry, carried) = (r.part(Part::Carry), self.carried(r));
        if pass != Pass::Pieces {
            return out.push(Stmt::variable(carry, carried, r.identity()));
        }
        self.declare_accumulators(out, r, 1);
        let (start, step) = match form {
            Form::Inner { threads } => (Expr::from(OnDevice::InRow), threads),
            Form::Outer { groups, .. } => (Expr::from(OnDevice::Group), groups),
            Form::Pointwise | Form::Tiled => (Expr::Integer(0), 1),
        };
        let before = ir::Loop::over(Local::Index, start, Local::Piece);
        let before = before.along(Axis::Chunk).by(step as usize);
        if carried == r.ty() {
            let mut take = Block::new();
            self.take(&mut take, r);
            out.push(before.each(take));
        } else {
            let sum = r.part(Part::Before);
            out.push(Stmt::variable(sum, carried, 0));
            out.push(before.each(Stmt::update(sum, Infix::Add, self.in_slot(r))));
            out.push(Stmt::assign(r.lane(0), Expr::from(sum).cast(r.ty())));
        }
        self.gather(out, std::slice::from_ref(r), 1, &form);
        out.push(Stmt::variable(carry, carried, r.lane(0)));
    }

    /// The loop over a row's tiles, if there are several; all threads of a block stay in it.
    fn walk_tiles(&mut self, out: &mut Block, l: &Loop, tile: Block, form: Form) {
        let copy = |constant: bool| match constant {
            true => Stmt::constant(OnDevice::Copy, Type::INT, 0),
            false => Stmt::variable(OnDevice::Copy, Type::INT, 0),
        };
        let mut each = Block::new();
        let (first, step) = match form {
            Form::Inner { .. } if self.shape.turns > 0 => {
                out.push(copy(true));
                return out.append(tile);
            }
            Form::Inner { threads } => {
                let base = Expr::from(OnDevice::FirstOfTile) + OnDevice::InRow;
                each.push(Stmt::constant(OnDevice::FirstHeld, Type::INDEX, base));
                self.keep(&mut each, threads, &l.compute);
                (OnDevice::FirstOfTile, self.held() * threads as usize)
            }
            Form::Outer { groups, .. } => (OnDevice::FirstHeld, self.held() * groups as usize),
            Form::Pointwise | Form::Tiled => return,
        };
        each.append(tile);
        each.push(Stmt::update(OnDevice::Copy, Infix::BitXor, 1));
        out.push(copy(false));
        let tiles = ir::Loop::over(first, Local::Low, Local::High).by(step);
        out.push(tiles.along(Axis::Chunk).each(each));
    }

    /// A tile of a loop: phase by phase its scans, then what is stored and reduced of them.
    fn tile_of_scans(
        &mut self,
        s: usize,
        l: &Loop,
        folds: &[Reduction],
        reductions: &[Reduction],
        form: Form,
    ) -> Block {
        let mut out = Block::new();
        let phases = phases(self.node);
        let last = folds.iter().map(|r| phases[r.value as usize]).max();
        for phase in 0..last.map_or(0, |p| p + 1) {
            let of = |r: &&Reduction| phases[r.value as usize] == phase;
            let now: Vec<Reduction> = folds.iter().filter(of).copied().collect();
            self.take_elements(&mut out, l, &now);
            self.resolve(&mut out, &now, form);
            if self.shape.looks_back {
                self.look_back(&mut out, &now, form);
            }
        }
        let stored = l.stores.iter().map(|&s| self.node.stores[s].value);
        let roots: Vec<Value> = stored.chain(reductions.iter().map(|r| r.value)).collect();
        let rest = Loop {
            compute: self.needs_of(l, &roots),
            ..l.clone()
        };
        let chunk = self.chunk(s, &rest, reductions);
        out.push(self.scan_turns(chunk));
        out
    }

    /// Computes the elements of a tile that are scanned, and keeps them in registers.
    fn take_elements(&mut self, out: &mut Block, l: &Loop, now: &[Reduction]) {
        let roots: Vec<Value> = now.iter().map(|r| r.value).collect();
        let plain = Loop {
            compute: self.needs_of(l, &roots),
            restore: l.restore.clone(),
            save: l.save.clone(),
            ..Loop::default()
        };
        for r in now {
            let extent = Extent::array([self.held(), self.shape.lanes]);
            out.push(Stmt::array(r.part(Part::Partial), r.ty(), extent));
        }
        let mut chunk = self.decode_chunk();
        self.load_chunk(&mut chunk, &plain);
        let mut element = Block::new();
        element.extend(self.restored(&plain));
        for &v in &plain.compute {
            let statement = self.statement(v, &self.in_chunk());
            element.push(statement);
            element.extend(self.saved(&plain, v));
        }
        for r in now {
            let counts = Expr::from(Local::Lane).less(Local::Count);
            let scanned = counts.choose(Name::value(r.value), r.identity());
            let kept = held_element(r, Local::Held.into(), Local::Lane.into());
            element.push(Stmt::assign(kept, scanned));
        }
        chunk.push(self.each_element(1, element));
        out.push(self.scan_turns(chunk));
    }
}

/// An element of the chunks that a thread holds.
pub(in crate::emit::cuda) fn held_element(r: &Reduction, chunk: Expr, lane: Expr) -> Expr {
    let elements = Expr::from(r.part(Part::Partial));
    elements.element(chunk).element(lane)
}
