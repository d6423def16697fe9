//! A fused node as one C function: rows in parallel, and for each row its stages.
//!
//! Two shapes. **Inner**: the vector axis is the last column variable; a row's reductions keep vector accumulators,
//! combined at the end of the row. **Outer**: the vector axis is the last row variable, a block of which is worked on
//! at once while the columns (there a strided reduction) are walked; accumulators and row values are arrays of vectors.

use crate::body::{MaskId, Number, Source, Value};
use crate::emit::cpu::chunks::Chunks;
use crate::emit::cpu::index::Index;
use crate::emit::cpu::lanes::{differ, lanes, prefers_outer, scalars, slides};
use crate::emit::cpu::outline::outlined;
use crate::emit::cpu::pieces::{Cut, Pieces};
use crate::emit::cpu::reduce::Reduction;
use crate::emit::cpu::stage::{Loop, Stages, stages};
use crate::emit::cpu::transform::index_sets::Truth;
use crate::emit::cpu::transform::pipelined::Pipelined;
use crate::emit::cpu::transform::tile::Tile;
use crate::emit::cpu::unroll::unroll_short;
use crate::emit::finished::{self, Built, Known, Text};
use crate::emit::label::label;
use crate::emit::moved::as_bits;
use crate::emit::narrowed::narrow_sums;
use crate::emit::reciprocal::use_reciprocals;
use crate::emit::{Emitted, Panels, Pointer, update};
use crate::expr::{self, Var};
use crate::kernel::ir::{self, Block, Expr, Kernel, Launch, Name, Role};
use crate::kernel::transform::{
    Arranged, Rerolled, apply, arrange, draw_ahead, fence, outline, reroll,
};
use crate::policy::Policy;
use crate::print::c::{Printed, print};
use crate::schedule::{FusedNode, Moment, merge_loops, rows_along_memory};
use crate::target::Target;
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support;
use ferrotrace_runtime::{DType, KernelSource};
use rustc_hash::{FxHashMap, FxHashSet};
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Accumulators of a light reduction loop.
pub(super) const UNROLL: usize = 4;
/// The state of writing one kernel.
pub(super) struct Writer<'a> {
    pub node: &'a FusedNode,
    pub lanes: usize,
    /// Vector registers of the machine.
    pub registers: usize,
    /// Bytes of a vector register.
    pub vector: usize,
    /// Bytes of a table whose gathered rows are asked for ahead, at least.
    pub prefetched_table: usize,
    /// Outputs of more bytes, or tiles' operands, are more than the caches hold.
    pub stream: usize,
    /// Vectors of a row whose loop is split where conditions change, at least.
    pub index_set_vectors: usize,
    /// Which values are numbers instead of vectors.
    pub scalars: Vec<bool>,
    /// Which values differ between the lanes.
    pub differ: Vec<bool>,
    /// Indices of loads, index values and random values.
    pub indices: FxHashMap<Value, Index>,
    pub masks: FxHashMap<MaskId, Vec<Index>>,
    pub stages: Stages,
    pub extents: Vec<usize>,
    pub outer: bool,
    pub split: bool,
    /// Whether the columns of a row are walked in order by one thread.
    pub ordered: bool,
    /// The chunks of an outer kernel's columns.
    pub chunks: Option<Chunks>,
    /// Reductions about a mean of a split row, or of rows whose columns are cut into chunks.
    pub moments: Vec<Moment>,
    pub store_indices: FxHashMap<usize, Index>,
    pub params: Vec<i64>,
    pub pointers: Vec<Pointer>,
    pub pointer_types: Vec<DType>,
    pub numbers: Vec<Number>,
    /// What is computed of a row's indices.
    pub preamble: Block,
    pub bases: u32,
    /// The names of the parts of indices that a row computes once.
    pub row_parts: FxHashMap<expr::Expr, Name>,
    /// What is divided in indices, and the arguments by which.
    pub divided: FxHashMap<(expr::Expr, i64), (Expr, Name)>,
    pub streams: Vec<(usize, ValueId, bool)>,
    pub scratch_rows: Vec<(Value, Name)>,
    pub block: usize,
    /// Whether positions in the loop being written are kept as numbers of vectors.
    pub counting: bool,
    /// The copy of the loop's body that is being written, of several written in turns.
    pub copy: Option<usize>,
    /// The values of which every copy has its own.
    pub stepped: FxHashSet<Value>,
    /// While a loop's usual case is written: the flags that it depends on.
    pub usual: Option<BTreeSet<Name>>,
    /// What is known of masks in the loop being written.
    pub truths: FxHashMap<MaskId, Truth>,
    /// The loop that the next row takes along.
    pub pipelined: Option<Pipelined>,
    /// Scans whose carry is declared: a later loop that computes one again starts it anew.
    pub carried: FxHashSet<Value>,
    /// Divisions of which it is declared whether they may be multiplications.
    pub normals: FxHashSet<Value>,
    /// Addresses to prefetch in the loop being written.
    pub ahead: Vec<Expr>,
    /// Loads that read a staging array, and its name.
    pub staged: FxHashMap<Value, Name>,
    /// The tile the rows are walked in.
    pub tile: Option<Tile>,
    /// The argument that is the distance of the rows of the product that is taken up, or of the operand computed.
    pub pitch: Option<Name>,
}

/// A fused node as its kernel walks it.
struct Walked {
    node: FusedNode,
    /// The node before its halves were moved as bits, if they are.
    plain: Option<FusedNode>,
    /// Whether the vector axis is the last row variable.
    outer: bool,
    split: bool,
    ordered: bool,
}

impl Walked {
    /// Joins loops, exchanges rows, unrolls a short one, sums narrow integers in 32 bits, chooses the vector axis, divides by
    /// reciprocals, and moves halves as bits.
    fn of(fused: &FusedNode, policy: &Policy) -> Walked {
        let node = rows_along_memory(merge_loops(fused.clone()), policy.thresholds.turned_rows);
        let mut node = narrow_sums(unroll_short(node, policy));
        let ordered = node.is_ordered();
        if node.red.is_empty() {
            // Without columns the last row variable is the vector axis.
            node.red = vec![node.iter.pop().unwrap_or(1)];
        }
        let split = node.is_split(policy);
        let slides = slides(&node, &policy.thresholds);
        let outer = !split && !node.feeds && (prefers_outer(&node) || slides);
        if !outer {
            node = use_reciprocals(node);
        }
        let moved = as_bits(&node);
        let plain = moved.map(|moved| std::mem::replace(&mut node, moved));
        Walked {
            node,
            plain,
            outer,
            split,
            ordered,
        }
    }
}

/// Writes the kernel of a fused node. `stored` are the nodes whose values must be written.
pub fn emit(fused: &FusedNode, stored: &FxHashSet<ValueId>, policy: &Policy) -> Emitted {
    let walked = Walked::of(fused, policy);
    let (mut writer, needed) = planned(&walked, stored, policy);
    let (built, mut work) = writer.build(&needed, policy);
    let text = writer.text(built, &mut work);
    let emitted = writer.emitted(&needed, &policy.target, (text, work));
    match &walked.plain {
        Some(plain) => Emitted {
            node: plain.clone(),
            ..emitted
        },
        None => emitted,
    }
}

/// The kernel IR of what [`emit`] writes.
pub fn kernel(fused: &FusedNode, stored: &FxHashSet<ValueId>, policy: &Policy) -> Kernel {
    let walked = Walked::of(fused, policy);
    let (mut writer, needed) = planned(&walked, stored, policy);
    let built = writer.build(&needed, policy).0;
    writer.transformed(built).0
}

/// A writer that has built nothing, and the stores of the kernel.
fn planned<'a>(
    walked: &'a Walked,
    stored: &FxHashSet<ValueId>,
    policy: &Policy,
) -> (Writer<'a>, Vec<usize>) {
    let node = &walked.node;
    let (outer, split, ordered) = (walked.outer, walked.split, walked.ordered);
    let needed: Vec<usize> = (0..node.stores.len())
        .filter(|&s| stored.contains(&node.stores[s].node))
        .collect();
    let stages = stages(node, &needed);
    let columns = if outer { 0 } else { node.red.len() };
    let vector = node.iter.len() + columns;
    let along = Var(vector as u32 - 1);
    let differ = differ(node, along);
    let lanes = lanes(node, &stages, (&differ, along), policy.target.vector);
    // Blocks of rows keep what their columns share in arrays of vectors.
    let scalars = match outer {
        true => vec![false; node.body.values().len()],
        false => scalars(node, &differ, lanes, policy.target.vector),
    };
    let moments = if split || outer {
        node.moments().unwrap_or_default()
    } else {
        Vec::new()
    };
    let extents = node.extents();
    let writer = Writer {
        node,
        lanes,
        registers: policy.target.registers,
        stream: policy.target.stream,
        vector: policy.target.vector,
        prefetched_table: policy.thresholds.prefetched_table,
        index_set_vectors: policy.thresholds.index_set_vectors,
        scalars,
        differ,
        indices: FxHashMap::default(),
        masks: FxHashMap::default(),
        stages,
        extents,
        outer,
        split,
        ordered,
        chunks: None,
        moments,
        store_indices: FxHashMap::default(),
        params: Vec::new(),
        pointers: Vec::new(),
        pointer_types: Vec::new(),
        numbers: node.body.numbers().to_vec(),
        preamble: Block::new(),
        bases: 0,
        row_parts: FxHashMap::default(),
        divided: FxHashMap::default(),
        streams: Vec::new(),
        scratch_rows: Vec::new(),
        block: 1,
        counting: false,
        copy: None,
        stepped: FxHashSet::default(),
        usual: None,
        truths: FxHashMap::default(),
        pipelined: None,
        carried: FxHashSet::default(),
        normals: FxHashSet::default(),
        ahead: Vec::new(),
        staged: FxHashMap::default(),
        tile: None,
        pitch: None,
    };
    (writer, needed)
}

/// What a kernel does in all, and how that is cut.
struct Work {
    rows: usize,
    /// Elements of a row along the vector axis, and of all other columns.
    vector: usize,
    walked: usize,
    /// Rows or tiles of rows, and the pieces of each.
    units: usize,
    pieces: usize,
    /// Elements of a piece.
    piece: usize,
    /// The arguments that say how rows are cut.
    cut: Pieces,
    walks: Vec<(Source, usize)>,
    /// Bytes of each thread.
    local: usize,
    /// Whether memory is written before all of an iteration is read.
    stores_early: bool,
}

impl Writer<'_> {
    pub(super) fn extents(&self) -> &[usize] {
        &self.extents
    }

    /// The variable along the vector axis.
    pub(super) fn vector_var(&self) -> Option<Var> {
        let v = if self.outer {
            self.node.iter.len() - 1
        } else {
            self.extents.len() - 1
        };
        Some(Var(v as u32))
    }

    /// Whether a variable changes within a row.
    pub(super) fn is_inner_var(&self, v: Var) -> bool {
        v.0 as usize >= self.node.iter.len() || Some(v) == self.vector_var()
    }

    /// An integer argument with this value.
    pub(super) fn param(&mut self, value: i64) -> Name {
        self.params.push(value);
        // A kernel has far fewer arguments than 2³².
        Name::Param(self.params.len() as u32 - 1)
    }

    pub(super) fn next_base(&mut self) -> u32 {
        self.bases += 1;
        self.bases - 1
    }

    /// The pointer to a buffer.
    pub(super) fn pointer(&self, source: Source) -> Name {
        let read = Pointer::Read(source);
        let at = self.pointers.iter().position(|p| *p == read);
        Name::Pointer(at.unwrap_or_default() as u32)
    }

    /// Whether an outer kernel's columns are cut into chunks.
    pub(super) fn is_chunked(&self) -> bool {
        self.chunks.is_some()
    }

    pub(super) fn row_vars(&self) -> Vec<usize> {
        let n = self.node.iter.len();
        (0..if self.outer { n - 1 } else { n }).collect()
    }

    /// Column variables walked one by one, outermost first.
    pub(super) fn walked_vars(&self) -> Vec<usize> {
        let (first, n) = (self.node.iter.len(), self.extents.len());
        (first..if self.outer { n } else { n - 1 }).collect()
    }

    /// Builds the kernel in the kernel IR, and says how much it does.
    fn build(&mut self, needed: &[usize], policy: &Policy) -> (Built, Work) {
        let node = self.node;
        self.collect_pointers(needed);
        self.print_indices(needed);
        let by_panels = node.product.is_some() || node.feeds;
        self.tile = match by_panels {
            false => self.find_tile(),
            true => None,
        };
        if let Some(tile) = self.tile.clone() {
            self.stage_loads(&tile);
        }
        let work = self.work(policy.target.l2);
        self.pipelined = self.find_pipelined();
        let mut body = Block::new();
        let Work { rows, cut, .. } = &work;
        self.stages_of_row(&mut body, work.piece, cut);
        let rows_of_piece = by_panels.then(|| self.param(*rows as i64));
        let main = if self.is_chunked() {
            self.chunk_loop(body, cut)
        } else if let Some(rows) = rows_of_piece {
            self.panel_loop(body, cut, rows)
        } else {
            self.row_loop(body, cut)
        };
        let two_phases = self.split || self.is_chunked();
        let finish = two_phases.then(|| {
            let rows = self.param(*rows as i64);
            match self.split {
                true => self.finish_rows(rows, cut),
                false => self.chunk_finish(rows, cut),
            }
        });
        let least = policy.thresholds.outlined_calls;
        let costly = outlined(node, &self.stages, least, self.lanes);
        let plain = !by_panels && node.stores.iter().all(|store| store.update.is_none());
        let built = Built {
            kernel: self.functions(main, finish),
            outlined: costly,
            set_later: self.streams.iter().map(|s| s.0).collect(),
            rerolled: plain.then_some(policy.thresholds.rerolled),
        };
        (built, work)
    }

    /// The text of a kernel that was built.
    fn text(&mut self, built: Built, work: &mut Work) -> Text {
        let again = match finished::known(&built) {
            Known::Text(kept) => {
                debug_assert_eq!(self.printed(built, work).0, kept.1);
                return kept.1.clone();
            }
            Known::Again(hash) => Some((hash, built.clone())),
            Known::New => None,
        };
        let (text, by_values) = self.printed(built, work);
        if let Some((hash, built)) = again.filter(|_| !by_values) {
            finished::keep(hash, built, text.clone());
        }
        text
    }

    /// Transforms and prints a kernel, and says whether the values of arguments had a part in its text.
    fn printed(&mut self, built: Built, work: &mut Work) -> (Text, bool) {
        let (kernel, rerolled) = self.transformed(built);
        work.stores_early = rerolled.stores;
        let Printed { text, needs } = print(&kernel);
        let text = Text {
            body: text.into(),
            parts: support::parts(&needs),
        };
        (text, rerolled.by_values)
    }

    /// Runs the transforms of a kernel that was built.
    fn transformed(&mut self, built: Built) -> (Kernel, Rerolled) {
        let Built {
            kernel,
            outlined,
            set_later,
            rerolled,
        } = built;
        let arranged = RefCell::new(None);
        let state = RefCell::new((std::mem::take(&mut self.params), Rerolled::default()));
        let kernel = apply(
            kernel,
            &[
                ("reroll", &|kernel| {
                    let (params, done) = &mut *state.borrow_mut();
                    if let Some(weight) = rerolled {
                        *done = reroll(kernel, params, &set_later, weight);
                    }
                }),
                ("draw ahead", &draw_ahead),
                ("outline", &|kernel| outline(kernel, &outlined)),
                ("fence", &fence),
                ("arrange", &|kernel| {
                    let (params, done) = &mut *state.borrow_mut();
                    if done.loops > 0 {
                        *arranged.borrow_mut() = arrange(kernel, params);
                    }
                }),
            ],
        );
        let (params, rerolled) = state.into_inner();
        self.params = params;
        if let Some(arranged) = arranged.into_inner() {
            self.arrange(arranged);
        }
        (kernel, rerolled)
    }

    /// Puts arguments in the order that the kernel was given.
    fn arrange(&mut self, arranged: Arranged) {
        let Arranged {
            pointers,
            numbers,
            params,
        } = arranged;
        self.pointers = pointers.iter().map(|&i| self.pointers[i]).collect();
        self.numbers = numbers.iter().map(|&i| self.numbers[i]).collect();
        for (at, ..) in &mut self.streams {
            let new = params.iter().position(|old| *old == Some(*at));
            *at = new.unwrap_or(*at);
        }
    }

    /// Cuts the rows into units of work.
    fn work(&mut self, l2: usize) -> Work {
        let vector = self.vector_var().map_or(1, |v| self.extents[v.0 as usize]);
        let rows: usize = self.row_vars().iter().map(|&v| self.extents[v]).product();
        let units = match &self.tile {
            Some(tile) => rows / self.extents[tile.row].max(1) * self.tiles(tile),
            None => rows,
        };
        self.chunks = self.find_chunks(rows, vector);
        if !self.split && self.chunks.is_none() {
            self.moments.clear();
        }
        let walked = self.walked();
        let cut = self.cut(rows, vector, l2);
        let walks = self.walks(&cut);
        let Cut {
            piece,
            pieces,
            extent,
        } = cut;
        let width = if self.outer { piece } else { 1 };
        self.block = width;
        let local = self.local_layout(self.node.cols(), width);
        let cut = Pieces {
            piece: self.param(piece as i64),
            pieces: self.param(pieces as i64),
            extent: self.param(extent as i64),
        };
        Work {
            rows,
            vector,
            walked,
            units,
            pieces,
            piece,
            cut,
            walks,
            local,
            stores_early: false,
        }
    }

    /// Says for each result that may bypass the caches whether it is large enough to.
    fn choose_streams(&mut self, needed: &[usize], target: &Target, work: &Work) {
        let node = self.node;
        let walked = work.walked.max(1);
        let out = |s: &usize| node.stores[*s].dtype.size() * work.rows * work.vector;
        // Where all that the kernel reads and writes is far more than the cache, little of a result is left of it there.
        let written: usize = needed.iter().map(out).sum();
        let crowded = self.read_bytes() + written * walked > target.crowd;
        let least = if crowded {
            target.stream / 4
        } else {
            target.stream
        };
        for (_, id, wanted) in &mut self.streams {
            let stores = needed.iter().filter(|&&s| node.stores[s].node == *id);
            let bytes = stores.map(out).max().unwrap_or(0);
            *wanted = bytes * walked > least && !node.feeds;
        }
    }

    /// How it takes up a product, or computes an operand of one, if it does.
    fn panels(&self, cut: &Pieces) -> Option<Panels> {
        let node = self.node;
        let pointer = match node.product {
            Some(product) => Pointer::Read(Source::Node(product.node)),
            None if node.feeds => Pointer::Write(node.stores[0].node),
            None => return None,
        };
        let position = |name: Name| match name {
            Name::Param(i) => Some(i as usize),
            _ => None,
        };
        Some(Panels {
            pointer: self.pointers.iter().position(|p| *p == pointer)?,
            pitch: position(self.pitch?)?,
            piece: position(cut.piece)?,
            pieces: position(cut.pieces)?,
        })
    }

    /// The kernel's text, and how it is launched.
    fn emitted(mut self, needed: &[usize], target: &Target, (text, work): (Text, Work)) -> Emitted {
        let node = self.node;
        self.choose_streams(needed, target, &work);
        let in_place = match work.stores_early {
            true => Vec::new(),
            false => self.in_place(needed),
        };
        let panels = self.panels(&work.cut);
        let Work {
            rows,
            vector,
            walked,
            units,
            pieces,
            ..
        } = work;
        let working = |l: &&Loop| !l.compute.is_empty() || !l.stores.is_empty();
        Emitted {
            products: 0,
            panels,
            before: Vec::new(),
            walks: work.walks,
            in_place,
            updates: update::overwrites(node, needed),
            source: KernelSource {
                parts: text.parts,
                body: text.body,
                finish: self.split || self.is_chunked(),
                name: label("", &node.body),
            },
            chunks: match rows * vector * walked {
                0 => 0,
                _ => units * pieces * self.chunks.map_or(1, |chunks| chunks.count),
            },
            scratch: match self.chunks {
                Some(chunks) => units * pieces * chunks.count * chunks.bytes,
                None if self.split => rows * pieces * self.all_reductions().len() * 16,
                None => 0,
            },
            local: work.local,
            grid: ferrotrace_runtime::Grid::default(),
            loops: self.stages.loops.iter().filter(working).count(),
            pointers: self.pointers,
            params: self.params,
            streams: self.streams,
            numbers: self.numbers,
            node: node.clone(),
        }
    }

    /// The functions of the kernel.
    fn functions(&mut self, main: Block, finish: Option<Block>) -> Kernel {
        let work = (Role::Work, main);
        let all = [work].into_iter().chain(finish.map(|f| (Role::Finish, f)));
        Kernel {
            launch: Launch::default(),
            arguments: self.arguments(),
            lanes: self.lanes as u16,
            functions: all.map(|(role, block)| ir::Body { role, block }).collect(),
        }
    }

    pub(super) fn all_reductions(&self) -> Vec<Reduction> {
        self.stages
            .loops
            .iter()
            .flat_map(|l| &l.reduces)
            .map(|&r| self.reduction(r))
            .collect()
    }
}
