//! Outer reductions over many columns into few blocks of rows: columns are cut into chunks too, so that every thread
//! has work and memory is read in long runs. A unit's accumulators, one for each of up to [`PANEL`] rows, lie in its
//! part of the scratch; `finish` combines those of a panel in the order of the chunks. Sums about a mean share the pass
//! of the mean: see [`crate::emit::cpu::reduce::moments`].

use crate::body::BodyOp;
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::pieces::{BLOCK, Pieces};
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::stage::Loop;
use crate::emit::cpu::value::lane_type;
use crate::kernel::ir::{
    self, Access, Axis, Block, Expr, Local, Name, Part, PointerType, Stmt, Type, ValueType,
};
use ferrotrace_runtime::DType;

/// Most rows of a unit: their accumulators stay in the first cache.
pub(super) const PANEL: usize = 4096;
/// Most rows of a unit whose chunks are walked twice: a chunk stays in the second cache between its walks.
pub(super) const TWICE: usize = 1024;
/// Bytes of one operand in a chunk that is walked twice.
const BYTES: usize = 1 << 19;
/// Units there are to be, if the columns suffice.
const UNITS: usize = 64;
/// Fewest columns of a chunk: combining the chunks is then little work.
const COLUMNS: usize = 128;
/// Fewest elements that are worth a second phase.
const ELEMENTS: usize = 1 << 17;
/// Most elements of row values, which are arrays of a panel on the stack.
const ON_STACK: usize = 8 * PANEL;

/// How columns are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    /// Values of the outermost walked variable in a chunk.
    pub length: usize,
    /// Chunks.
    pub count: usize,
    /// Most rows of a unit.
    pub panel: usize,
    /// Bytes of a unit's accumulators.
    pub bytes: usize,
}

impl Writer<'_> {
    /// The chunks of an outer kernel whose one loop only reduces, if they give more units of work.
    pub(super) fn find_chunks(&self, rows: usize, vector: usize) -> Option<Chunks> {
        let (first, rest) = self.stages.loops.split_first()?;
        let idle = |l: &Loop| l.compute.is_empty() && l.reduces.is_empty() && l.stores.is_empty();
        let only_reduces = |l: &Loop| l.stores.is_empty() && !l.reduces.is_empty();
        // Of two loops the second sums about means of the first.
        let twice = match rest.split_first() {
            Some((second, rest)) if !self.moments.is_empty() => {
                only_reduces(second) && rest.iter().all(idle) && self.stages.saved.is_empty()
            }
            _ => false,
        };
        let single = only_reduces(first) && (twice || rest.iter().all(idle));
        let values = self.stages.row.iter().flatten();
        let kept = values
            .filter(|&&v| !matches!(self.node.body.value(v).op, BodyOp::Number(_)))
            .count();
        let panel = if twice { TWICE } else { PANEL };
        let (cols, units) = (self.node.cols(), rows * vector.div_ceil(panel));
        let enough = rows.saturating_mul(vector).saturating_mul(cols) >= ELEMENTS;
        if !self.outer || self.ordered || !single || kept * panel > ON_STACK || !enough {
            return None;
        }
        let extent = self.extents[*self.walked_vars().first()?];
        let per = cols / extent.max(1);
        let panel = vector.min(panel).next_multiple_of(self.lanes);
        let spread = extent
            .div_ceil(UNITS.div_ceil(units.max(1)))
            .max(COLUMNS.div_ceil(per.max(1)));
        let length = match twice {
            // Blocks of rows that stay in the cache as a whole need no chunks.
            true if cols * BLOCK.min(panel) * 4 <= BYTES => return None,
            true => spread.min(BYTES / (panel * 4) / per.max(1)).max(1),
            false if units >= UNITS => return None,
            false => spread,
        };
        let count = extent.div_ceil(length);
        let bytes = self.all_reductions().into_iter().map(|r| {
            let place = r.has_position().then(|| lane_bytes(self.place_dtype(&r)));
            panel * (lane_bytes(r.dtype) + place.unwrap_or(0))
        });
        (count > 1).then(|| Chunks {
            length,
            count,
            panel,
            bytes: bytes.sum(),
        })
    }

    /// Declares a reduction's accumulators as arrays, and starts those of `vectors` vectors.
    pub(super) fn array_accumulators(&self, out: &mut Block, r: &Reduction, vectors: Expr) {
        for (name, dtype, start) in self.array_starts(r) {
            self.block_array(out, name, dtype);
            let start = Stmt::assign(Self::of_accumulator(name), start);
            out.push(Self::each_accumulator(vectors.clone(), start));
        }
    }

    /// The arrays of a reduction's accumulators, and how they start.
    pub(super) fn array_starts(&self, r: &Reduction) -> Vec<(Name, DType, Expr)> {
        let mut arrays = vec![(r.part(Part::Accumulator), r.dtype, self.identity(r))];
        if r.has_position() {
            let dtype = self.place_dtype(r);
            let start = if self.begins_at_first(r) { 0 } else { -1 };
            arrays.push((r.part(Part::Places), dtype, self.set(dtype, start)));
        }
        arrays
    }

    /// Declares the accumulators of a unit as pointers to its part of the scratch.
    pub(super) fn chunk_accumulators(&mut self, out: &mut Block, parts: (Part, Part), unit: Expr) {
        let Some(chunks) = self.chunks else { return };
        let bytes = self.param(chunks.bytes as i64);
        let (value, place) = parts;
        let mut at = 0;
        for r in self.all_reductions() {
            let places = r.has_position().then(|| (place, self.place_dtype(&r)));
            for (part, dtype) in [(value, r.dtype)].into_iter().chain(places) {
                let offset = self.param(at as i64);
                let ty = Type::Pointer(PointerType {
                    unaligned: true,
                    ..PointerType::global(ValueType::vector(dtype, self.lanes), Access::Write)
                });
                let start = Expr::from(Local::Scratch) + unit.clone() * bytes + offset;
                out.push(Stmt::variable(r.part(part), ty, start.cast(ty)));
                at += self.block * lane_bytes(dtype);
            }
        }
    }

    /// The loop over units: (row, panel of rows, chunk of columns).
    pub(super) fn chunk_loop(&mut self, body: Block, cut: &Pieces) -> Block {
        let Some(chunks) = self.chunks else {
            return Block::new();
        };
        let first = self.extents[self.walked_vars()[0]];
        let (count, length, extent) = (
            self.param(chunks.count as i64),
            self.param(chunks.length as i64),
            self.param(first as i64),
        );
        let unit = || Expr::from(Local::Unit);
        let low = Expr::from(Local::ChunkLow);
        let mut each = Block::from([
            Stmt::constant(Local::ChunkLow, Type::INDEX, unit() % count * length),
            Stmt::constant(Local::ChunkHigh, Type::INDEX, (low + length).least(extent)),
            Stmt::variable(Local::Row, Type::INDEX, unit() / count),
        ]);
        self.decode_panel(&mut each, cut);
        each.append(body);
        Self::each_unit(each).into()
    }

    /// The panel of a unit, and its row.
    fn decode_panel(&mut self, out: &mut Block, cut: &Pieces) {
        let row = || Expr::from(Local::Row);
        let high = (Expr::from(Local::Low) + cut.piece).least(cut.extent);
        out.push(Stmt::constant(
            Local::Low,
            Type::INDEX,
            row() % cut.pieces * cut.piece,
        ));
        out.push(Stmt::constant(Local::High, Type::INDEX, high));
        out.push(Stmt::assign(row(), row() / cut.pieces));
        out.push(Stmt::Unused(Local::Row.into()));
        self.decode_row(out, Stmt::constant);
        out.append(self.preamble.clone());
    }

    /// The unit of a panel's chunk with the number that a loop over chunks is at.
    pub(super) fn unit_of_chunk(count: Name) -> Expr {
        Expr::from(Local::First) * count + Local::Index
    }

    /// A loop over the vectors of a panel.
    pub(super) fn each_vector_of_panel(&self, body: Block) -> Stmt {
        ir::Loop::over(Local::Other, 0, self.vectors())
            .along(Axis::Accumulator)
            .each(body)
    }

    /// The vector of an array over a panel that a loop over its vectors is at.
    pub(super) fn of_panel(name: Name) -> Expr {
        Expr::from(name).element(Local::Other)
    }

    /// The chunks of each panel combined in order, then what follows for its rows.
    pub(super) fn chunk_finish(&mut self, rows: Name, cut: &Pieces) -> Block {
        let Some(chunks) = self.chunks else {
            return Block::new();
        };
        let count = self.param(chunks.count as i64);
        // The stores add to the preamble.
        let mut body = Block::new();
        self.row_arrays(&mut body);
        self.outer_row(&mut body, 0, true);
        self.combine_chunks(&mut body, count);
        for s in 1..self.stages.row.len() {
            self.outer_row(&mut body, s, true);
            if s == 1 && !self.moments.is_empty() {
                self.merge_chunk_moments(&mut body, count);
            }
        }
        let mut each = Block::from(Stmt::variable(Local::Row, Type::INDEX, Local::First));
        self.decode_panel(&mut each, cut);
        each.append(body);
        let panels = ir::Loop::over(Local::First, 0, Expr::from(rows) * cut.pieces);
        panels.along(Axis::Row).each(each).into()
    }

    /// Combines the accumulators of a panel's chunks in order in those of its first, or, where the chunks' sums are needed
    /// once more, in arrays.
    fn combine_chunks(&mut self, body: &mut Block, count: Name) {
        let reductions: Vec<Reduction> = match self.moments.is_empty() {
            true => self.all_reductions(),
            false => {
                let first = self.stages.loops[0].reduces.clone();
                first.into_iter().map(|r| self.reduction(r)).collect()
            }
        };
        let from = if self.moments.is_empty() {
            let first = Expr::from(Local::First) * count;
            self.chunk_accumulators(body, (Part::Accumulator, Part::Places), first);
            1
        } else {
            for r in &reductions {
                self.array_accumulators(body, r, self.vectors());
            }
            0
        };
        for r in reductions.iter().filter(|r| r.is_rounded_sum()) {
            self.declare_low(body, r);
        }
        let mut chunk = Block::new();
        let unit = Self::unit_of_chunk(count);
        self.chunk_accumulators(&mut chunk, (Part::Partial, Part::PartialPlaces), unit);
        let each = reductions.iter().map(|r| self.take_partial(r)).collect();
        chunk.push(self.each_vector_of_panel(each));
        body.push(
            ir::Loop::over(Local::Index, from, count)
                .along(Axis::Accumulator)
                .each(chunk),
        );
        for r in reductions.iter().filter(|r| r.is_rounded_sum()) {
            self.add_low(body, r);
        }
    }

    /// Takes a chunk's accumulator in as one more value.
    fn take_partial(&self, r: &Reduction) -> Stmt {
        let of = |part| Self::of_panel(r.part(part));
        let (acc, places) = (of(Part::Accumulator), of(Part::Places));
        let ty = self.vector_type(r.dtype);
        Stmt::Scope(if r.is_rounded_sum() {
            // The place in the scratch has no alignment of its own.
            let sum = Expr::from(Local::Sum);
            Block::from([
                Stmt::variable(Local::Sum, ty, acc.clone()),
                self.two_sum(r, of(Part::Partial), sum.clone(), of(Part::Low)),
                Stmt::assign(acc, sum),
            ])
        } else {
            let position = r.has_position().then(|| of(Part::PartialPlaces));
            Block::from([
                Stmt::constant(Name::value(r.value), ty, of(Part::Partial)),
                self.update(r, (acc, places), position, None),
            ])
        })
    }
}

/// Bytes of one lane of an accumulator.
fn lane_bytes(dtype: DType) -> usize {
    match lane_type(dtype) {
        "double" | "long" => 8,
        "short" => 2,
        "signed char" | "unsigned char" => 1,
        _ => 4,
    }
}
