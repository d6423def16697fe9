//! Outer reductions over many columns into few blocks of rows: columns are cut into chunks too, so that every thread
//! has work and memory is read in long runs. A unit's accumulators, one for each of up to [`PANEL`] rows, lie in its
//! part of the scratch; `finish` combines those of a panel in the order of the chunks.

use super::kernel::Writer;
use super::pieces::Pieces;
use super::value::lane_type;
use crate::body::BodyOp;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// Most rows of a unit: their accumulators stay in the first cache.
pub(super) const PANEL: usize = 4096;
/// Units there are to be, if the columns suffice.
const UNITS: usize = 64;
/// Fewest columns of a chunk: combining the chunks is then little work.
const COLUMNS: usize = 128;
/// Fewest elements that are worth a second phase.
const ELEMENTS: usize = 1 << 17;
/// Most row values, which are arrays of [`PANEL`] elements on the stack.
const VALUES: usize = 8;

/// How columns are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    /// Values of the outermost walked variable in a chunk.
    pub length: usize,
    /// Chunks.
    pub count: usize,
    /// Bytes of a unit's accumulators.
    pub bytes: usize,
}

impl Writer<'_> {
    /// The chunks of an outer kernel whose one loop only reduces, if they give more units of work.
    pub(super) fn find_chunks(&self, rows: usize, vector: usize) -> Option<Chunks> {
        let (first, rest) = self.stages.loops.split_first()?;
        let idle = |l: &super::stage::Loop| {
            l.compute.is_empty() && l.reduces.is_empty() && l.stores.is_empty()
        };
        let single = first.stores.is_empty() && !first.reduces.is_empty() && rest.iter().all(idle);
        let values = self.stages.row.iter().flatten();
        let kept = values
            .filter(|&&v| !matches!(self.node.body.value(v).op, BodyOp::Number(_)))
            .count();
        let (cols, units) = (self.node.cols(), rows * vector.div_ceil(PANEL));
        let enough = rows.saturating_mul(vector).saturating_mul(cols) >= ELEMENTS;
        if !self.outer || self.ordered || !single || kept > VALUES || !enough || units >= UNITS {
            return None;
        }
        let extent = self.extents[*self.walked_vars().first()?];
        let per = cols / extent.max(1);
        let length = extent
            .div_ceil(UNITS.div_ceil(units))
            .max(COLUMNS.div_ceil(per.max(1)));
        let count = extent.div_ceil(length);
        let panel = vector.min(PANEL).next_multiple_of(self.lanes);
        let bytes = self.all_reductions().into_iter().map(|r| {
            let place = if r.has_position() { 8 } else { 0 };
            panel * (lane_bytes(r.dtype) + place)
        });
        (count > 1).then(|| Chunks {
            length,
            count,
            bytes: bytes.sum(),
        })
    }

    /// Declares the accumulators of a unit as pointers to its part of the scratch.
    pub(super) fn chunk_accumulators(&mut self, out: &mut String, names: (&str, &str), unit: &str) {
        let Some(chunks) = self.chunks else { return };
        let bytes = self.param(chunks.bytes as i64);
        let (value, place) = names;
        let mut at = 0;
        for r in self.all_reductions() {
            let mut declare = |w: &mut Self, name: &str, dtype: DType| {
                let (ty, offset) = (w.vector(dtype), w.param(at as i64));
                let id = r.id;
                let _ = writeln!(
                    out,
                    "    {ty}u *{name}{id} = ({ty}u *)(a->scratch + ({unit}) * {bytes} + {offset});"
                );
                at += w.block * lane_bytes(dtype);
            };
            declare(self, value, r.dtype);
            if r.has_position() {
                declare(self, place, DType::I64);
            }
        }
    }

    /// The loop over units: (row, panel of rows, chunk of columns).
    pub(super) fn chunk_loop(&mut self, out: &mut String, body: &str, cut: &Pieces) {
        let Some(chunks) = self.chunks else { return };
        let first = self.extents[self.walked_vars()[0]];
        let (count, length, extent) = (
            self.param(chunks.count as i64),
            self.param(chunks.length as i64),
            self.param(first as i64),
        );
        let _ = writeln!(
            out,
            "  for (long long u = begin; u < end; u++) {{\n    \
             const long long c0 = u % {count} * {length}, c1 = ft_min(c0 + {length}, {extent});\n    \
             long long row = u / {count};"
        );
        self.decode_panel(out, cut);
        out.push_str(body);
        out.push_str("  }\n");
    }

    /// The panel of a unit, and its row.
    fn decode_panel(&mut self, out: &mut String, cut: &Pieces) {
        let Pieces {
            piece,
            pieces,
            extent,
        } = cut;
        let _ = writeln!(
            out,
            "    const long long lo = row % {pieces} * {piece}, hi = ft_min(lo + {piece}, {extent}); row /= {pieces}; (void)row;"
        );
        self.decode_row(out);
        out.push_str(&self.preamble);
    }

    /// The chunks of each panel combined in order, then what follows for its rows.
    pub(super) fn chunk_finish(&mut self, out: &mut String, rows: &str, cut: &Pieces) {
        let Some(chunks) = self.chunks else { return };
        let count = self.param(chunks.count as i64);
        let _ = writeln!(
            out,
            "  for (long long first = 0; first < {rows} * {}; first++) {{\n    long long row = first;",
            cut.pieces
        );
        // Printing the stores adds to the preamble.
        let mut body = String::new();
        self.row_arrays(&mut body);
        self.outer_row(&mut body, 0, true);
        self.chunk_accumulators(&mut body, ("a", "q"), &format!("first * {count}"));
        let _ = writeln!(body, "    for (long long c = 1; c < {count}; c++) {{");
        self.chunk_accumulators(&mut body, ("e", "f"), &format!("first * {count} + c"));
        let width = self.lanes;
        let _ = writeln!(
            body,
            "    for (long long k = 0; k < (hi - lo + {width} - 1) / {width}; k++) {{"
        );
        for r in self.all_reductions() {
            // A later chunk is taken in as one more value.
            let (id, value, ty) = (r.id, r.value, self.vector(r.dtype));
            let (acc, place) = (format!("a{id}[k]"), format!("q{id}[k]"));
            let update = self.update(&r, &acc, &place, &format!("f{id}[k]"), None);
            let _ = writeln!(body, "      {{ const {ty} v{value} = e{id}[k]; {update} }}");
        }
        body.push_str("    } }\n");
        for s in 1..self.stages.row.len() {
            self.outer_row(&mut body, s, true);
        }
        self.decode_panel(out, cut);
        out.push_str(&body);
        out.push_str("  }\n");
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
