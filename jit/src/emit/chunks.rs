//! Outer reductions over many columns into few blocks of rows: columns are cut into chunks too, so that every thread
//! has work and memory is read in long runs. A unit's accumulators, one for each of up to [`PANEL`] rows, lie in its
//! part of the scratch; `finish` combines those of a panel in the order of the chunks. Sums about a mean share the pass
//! of the mean: see [`super::moments`].

use super::kernel::Writer;
use super::pieces::{BLOCK, Pieces};
use super::reduce::Reduction;
use super::stage::Loop;
use super::value::lane_type;
use crate::body::BodyOp;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// Most rows of a unit: their accumulators stay in the first cache.
pub(super) const PANEL: usize = 4096;
/// The same where the rows of a chunk are walked twice, which then stays in the second cache.
pub(super) const TWICE: usize = 1024;
/// Bytes of one operand in such a chunk.
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
            let place = if r.has_position() { 8 } else { 0 };
            panel * (lane_bytes(r.dtype) + place)
        });
        (count > 1).then(|| Chunks {
            length,
            count,
            panel,
            bytes: bytes.sum(),
        })
    }

    /// Declares a reduction's accumulators as arrays, and starts them.
    pub(super) fn array_accumulators(&mut self, out: &mut String, r: &Reduction, vectors: &str) {
        let (id, most) = (r.id, self.most());
        let mut arrays = vec![("a", r.dtype, self.identity(r))];
        if r.has_position() {
            arrays.push(("q", DType::I64, self.call("set", DType::I64, &["-1"])));
        }
        for (name, dtype, start) in arrays {
            let _ = writeln!(
                out,
                "    {} {name}{id}[{most}];\n    for (int c = 0; c < {vectors}; c++) {name}{id}[c] = {start};",
                self.vector(dtype)
            );
        }
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
        let width = self.lanes;
        let vectors = format!("(hi - lo + {width} - 1) / {width}");
        let reductions: Vec<Reduction> = match self.moments.is_empty() {
            true => self.all_reductions(),
            false => {
                let first = self.stages.loops[0].reduces.clone();
                first.into_iter().map(|r| self.reduction(r)).collect()
            }
        };
        let from = if self.moments.is_empty() {
            self.chunk_accumulators(&mut body, ("a", "q"), &format!("first * {count}"));
            1
        } else {
            // The chunks' sums are needed once more.
            reductions
                .iter()
                .for_each(|r| self.array_accumulators(&mut body, r, &vectors));
            0
        };
        for r in reductions.iter().filter(|r| r.is_rounded_sum()) {
            self.declare_low(&mut body, r, &vectors);
        }
        let _ = writeln!(body, "    for (long long c = {from}; c < {count}; c++) {{");
        self.chunk_accumulators(&mut body, ("e", "f"), &format!("first * {count} + c"));
        let _ = writeln!(body, "    for (long long k = 0; k < {vectors}; k++) {{");
        for r in &reductions {
            // A later chunk is taken in as one more value.
            let (id, value, ty) = (r.id, r.value, self.vector(r.dtype));
            let (acc, place) = (format!("a{id}[k]"), format!("q{id}[k]"));
            if r.is_rounded_sum() {
                // The place in the scratch has no alignment of its own.
                let both = self.two_sum(r, &format!("e{id}[k]"), "s", &format!("low{id}[k]"));
                let _ = writeln!(body, "      {{ {ty} s = {acc}; {both} {acc} = s; }}");
                continue;
            }
            let update = self.update(r, &acc, &place, &format!("f{id}[k]"), None);
            let _ = writeln!(body, "      {{ const {ty} v{value} = e{id}[k]; {update} }}");
        }
        body.push_str("    } }\n");
        for r in reductions.iter().filter(|r| r.is_rounded_sum()) {
            self.add_low(&mut body, r, &vectors);
        }
        for s in 1..self.stages.row.len() {
            self.outer_row(&mut body, s, true);
            if s == 1 && !self.moments.is_empty() {
                self.merge_chunk_moments(&mut body, &count, &vectors);
            }
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
