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

use super::kernel::Writer;
use super::reduce::Reduction;
use super::shape::Form;
use super::stage::{Loop, Stages};
use crate::body::{BodyOp, Value};
use crate::schedule::FusedNode;
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

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

    /// A loop over the chunks of a tile that a thread holds: `c`, and whether it is `on` the row.
    pub(super) fn scan_turns(&self, chunk: &str) -> String {
        let start = match self.shape.form {
            Form::Inner { threads } if self.shape.turns > 0 => format!("lo + t + k * {threads}"),
            Form::Inner { threads } => format!("base + k * {threads}"),
            _ => format!("base + ty * {} + k", self.held()),
        };
        let live = match self.shape.form {
            Form::Outer { .. } => "live && ",
            _ => "",
        };
        let c = match self.full_tiles() {
            true => format!("const ft_int c = {start};"),
            false => format!(
                "const bool on = {live}{start} < hi; const ft_int c = {start} < hi ? {start} : hi - 1;"
            ),
        };
        format!(
            "  #pragma unroll\n  for (int k = 0; k < {}; k++) {{\n    {c}\n{chunk}  }}\n",
            self.held()
        )
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
    pub(super) fn scan_text(&mut self, form: Form, pass: Pass) -> String {
        let mut out = String::new();
        self.place(&mut out, form, pass != Pass::Whole);
        self.decode_row(&mut out);
        let mut body = String::new();
        let writes = match (form, pass) {
            (Form::Outer { .. }, Pass::Whole) => "live && ty == 0",
            (Form::Outer { .. }, _) => "live && ty == 0 && piece == 0",
            (_, Pass::Whole) => "t == 0",
            _ => "t == 0 && piece == 0",
        };
        if let (Form::Inner { threads }, 1..) = (form, self.shape.turns) {
            let loads = self.shape.kept.clone();
            self.keep(&mut body, threads, &loads);
        }
        for s in 0..self.stages.loops.len() {
            self.row_stage(&mut body, s, (pass != Pass::Folds).then_some(writes));
            let l = self.stages.loops[s].clone();
            if l.reduces.is_empty() && l.stores.is_empty() {
                continue;
            }
            let folds = self.folds(&l);
            if pass == Pass::Folds {
                self.folds_text(&mut body, &l, &folds, form);
                break;
            }
            let reductions: Vec<Reduction> = l.reduces.iter().map(|&r| self.reduction(r)).collect();
            for r in &reductions {
                self.declare_accumulators(&mut body, r, self.shape.lanes);
            }
            body.push_str("  {\n");
            for r in &folds {
                self.carry(&mut body, r, form, pass);
            }
            let tile = self.tile_of_scans(s, &l, &folds, &reductions, form);
            self.walk_tiles(&mut body, &l, &tile, form);
            body.push_str("  }\n");
            self.gather(&mut body, &reductions, self.shape.lanes, &form);
            for r in &reductions {
                self.finished(&mut body, r);
            }
        }
        out.push_str(&self.preamble_text());
        out.push_str(&body);
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
    fn folds_text(&mut self, out: &mut String, l: &Loop, folds: &[Reduction], form: Form) {
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
        let chunk = self.chunk_of(0, &plain, folds);
        let long = self.long(folds);
        if !long.is_empty() {
            out.push_str("  int taken = 0;\n");
        }
        let tile = self.scan_turns(&chunk) + &self.after_chunks(&long, self.held());
        self.walk_tiles(out, &plain, &tile, form);
        self.gather(out, folds, lanes, &form);
        self.folding = false;
        let writes = match form {
            Form::Outer { .. } => "live && ty == 0",
            _ => "t == 0",
        };
        for r in folds {
            self.put(out, r, writes);
        }
    }

    /// The type of what a scan carries from tile to tile.
    fn carried(&self, r: &Reduction) -> &'static str {
        let several_tiles = self.shape.turns == 0;
        match several_tiles && r.kind == ReduceKind::Sum && r.dtype == DType::F32 {
            true => "double",
            false => r.ty(),
        }
    }

    /// Declares what a scan carries from tile to tile: at first nothing, or what the pieces before give.
    fn carry(&mut self, out: &mut String, r: &Reduction, form: Form, pass: Pass) {
        let (id, carried) = (r.id, self.carried(r));
        if pass != Pass::Pieces {
            let _ = writeln!(out, "  {carried} c{id} = {};", r.identity());
            return;
        }
        self.declare_accumulators(out, r, 1);
        let (start, step) = match form {
            Form::Inner { threads } => ("t", threads),
            Form::Outer { groups, .. } => ("ty", groups),
            Form::Pointwise | Form::Tiled => ("0", 1),
        };
        let each = format!("  for (ft_int c = {start}; c < piece; c += {step}) {{\n");
        if carried == r.ty() {
            out.push_str(&each);
            self.take(out, r);
            out.push_str("  }\n");
        } else {
            let (slot, ty) = (self.slot("row * pieces + c", r), r.ty());
            let _ = writeln!(
                out,
                "  {carried} before{id} = 0;\n{each}    before{id} += *(const {ty} *)({slot});\n  }}\n  a{id}[0] = ({ty})before{id};"
            );
        }
        self.gather(out, std::slice::from_ref(r), 1, &form);
        let _ = writeln!(out, "  {carried} c{id} = a{id}[0];");
    }

    /// The loop over a row's tiles, if there are several; all threads of a block stay in it.
    fn walk_tiles(&mut self, out: &mut String, l: &Loop, tile: &str, form: Form) {
        let _ = match form {
            Form::Inner { .. } if self.shape.turns > 0 => {
                out.push_str("  constexpr int turn = 0;\n");
                out.push_str(tile);
                return;
            }
            Form::Inner { threads } => writeln!(
                out,
                "  int turn = 0;\n  for (ft_int first = lo; first < hi; first += {}, turn ^= 1) {{\n  const ft_int base = first + t;",
                self.held() * threads as usize
            ),
            Form::Outer { groups, .. } => writeln!(
                out,
                "  int turn = 0;\n  for (ft_int base = lo; base < hi; base += {}, turn ^= 1) {{",
                self.held() * groups as usize
            ),
            Form::Pointwise | Form::Tiled => Ok(()),
        };
        if let Form::Inner { threads } = form {
            self.keep(out, threads, &l.compute);
        }
        out.push_str(tile);
        out.push_str("  }\n");
    }

    /// A tile of a loop: phase by phase its scans, then what is stored and reduced of them.
    fn tile_of_scans(
        &mut self,
        s: usize,
        l: &Loop,
        folds: &[Reduction],
        reductions: &[Reduction],
        form: Form,
    ) -> String {
        let mut out = String::new();
        let phases = phases(self.node);
        let (held, lanes) = (self.held(), self.shape.lanes);
        let last = folds.iter().map(|r| phases[r.value as usize]).max();
        for phase in 0..last.map_or(0, |p| p + 1) {
            let of = |r: &&Reduction| phases[r.value as usize] == phase;
            let now: Vec<Reduction> = folds.iter().filter(of).copied().collect();
            let roots: Vec<Value> = now.iter().map(|r| r.value).collect();
            let plain = Loop {
                compute: self.needs_of(l, &roots),
                ..Loop::default()
            };
            for r in &now {
                let _ = writeln!(out, "  {} e{}[{held}][{lanes}];", r.ty(), r.id);
            }
            let mut place = self.decode_chunk();
            self.load_chunk(&mut place, &plain);
            let mut chunk = self.lines(&place, 4);
            let _ = writeln!(
                chunk,
                "    #pragma unroll\n    for (int l = 0; l < {lanes}; l++) {{"
            );
            for &v in &plain.compute {
                let statement = self.statement(v, &self.in_chunk());
                chunk += &self.lines(&statement.into(), 6);
            }
            for r in &now {
                let _ = writeln!(
                    chunk,
                    "      e{}[k][l] = l < m ? v{} : {};",
                    r.id,
                    r.value,
                    r.identity()
                );
            }
            chunk.push_str("    }\n");
            out.push_str(&self.scan_turns(&chunk));
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
        let chunk = self.chunk_of(s, &rest, reductions);
        out.push_str(&self.scan_turns(&chunk));
        out
    }

    /// Scans the elements of a tile; the scans of a phase share a barrier.
    fn resolve(&mut self, out: &mut String, now: &[Reduction], form: Form) {
        let held = self.held();
        for r in now {
            let (id, ty, carried) = (r.id, r.ty(), self.carried(r));
            let both = self.combine(r, "x", "y");
            let _ = writeln!(
                out,
                "  const auto f{id} = []({ty} x, {ty} y) {{ return ({ty})({both}); }};"
            );
            if carried == ty {
                let _ = writeln!(out, "  const auto g{id} = f{id};");
            } else {
                let _ = writeln!(
                    out,
                    "  const auto g{id} = []({carried} x, {ty} y) {{ return x + y; }};"
                );
            }
            let _ = match form {
                Form::Inner { threads } => {
                    let _ = writeln!(
                        out,
                        "  {ty} s{id}_[{held}]; ft_prefix(e{id}, s{id}_, f{id});"
                    );
                    let warps = threads / 32;
                    if warps == 1 {
                        continue;
                    }
                    writeln!(
                        out,
                        "  __shared__ {ty} z{id}[2][{}];\n  #pragma unroll\n  for (int k = 0; k < {held}; k++) \
                         if ((threadIdx.x & 31) == 31) z{id}[turn][k * {warps} + (threadIdx.x >> 5)] = s{id}_[k];",
                        held * warps as usize
                    )
                }
                Form::Outer { groups: 1, .. } => writeln!(
                    out,
                    "  #pragma unroll\n  for (int k = 0; k < {held}; k++) {{ c{id} = g{id}(c{id}, e{id}[k][0]); e{id}[k][0] = ({ty})c{id}; }}"
                ),
                Form::Outer { width, groups } => writeln!(
                    out,
                    "  #pragma unroll\n  for (int k = 1; k < {held}; k++) e{id}[k][0] = f{id}(e{id}[k - 1][0], e{id}[k][0]);\n  \
                     __shared__ {ty} z{id}[2][{groups}][{width}]; z{id}[turn][ty][tx] = e{id}[{held} - 1][0];"
                ),
                Form::Pointwise | Form::Tiled => Ok(()),
            };
        }
        match form {
            Form::Inner { threads: 32 } | Form::Outer { groups: 1, .. } => {}
            _ => out.push_str("  __syncthreads();\n"),
        }
        for r in now {
            let (id, ty, none) = (r.id, r.ty(), r.identity());
            let _ = match form {
                Form::Inner { threads } => {
                    let shared = match threads {
                        32 => format!("(const {ty} *)0"),
                        _ => format!("z{id}[turn]"),
                    };
                    let warps = threads / 32;
                    writeln!(
                        out,
                        "  ft_behind<{warps}>(e{id}, s{id}_, c{id}, {shared}, {none}, f{id}, g{id});"
                    )
                }
                Form::Outer { groups, .. } if groups > 1 => writeln!(
                    out,
                    "  {{\n    {ty} all = {none}, x = all;\n    #pragma unroll\n    for (int g = 0; g < {groups}; g++) {{ if (g == ty) x = all; \
                     all = f{id}(all, z{id}[turn][g][tx]); }}\n    x = f{id}(({ty})c{id}, x); c{id} = g{id}(c{id}, all);\n    #pragma unroll\n    \
                     for (int k = 0; k < {held}; k++) e{id}[k][0] = f{id}(x, e{id}[k][0]);\n  }}"
                ),
                _ => Ok(()),
            };
        }
    }
}
