//! A fused node as one CUDA kernel.
//!
//! Columns are counted in chunks: as many consecutive elements along the last column variable as a thread works on at
//! once, which is what one 16-byte access holds. Three forms. **Pointwise**: a thread a chunk. **Inner**: a part of a warp, a
//! warp or a block a row; its threads take chunks by turns, stage by stage, and combine what they reduced. **Outer**, for strided
//! columns of contiguous rows: a block works on rows side by side, its groups of threads take columns by turns.
//! Reductions of few rows are split into pieces of their columns, whose results a second kernel combines.

use super::Emitted;
use super::check;
use super::index::{Anchor, Index};
use super::look_back;
use super::name::{Divisor, Param, Place, magic};
use super::online::{self, Online};
use super::reduce::{Reduction, SLOT};
use super::scan::{self, Pass};
use super::shape::{self, Form, Shape};
use super::stage::{Loop, Stages, stages};
use super::table::Table;
use super::text;
use super::unroll::unroll_short;
use super::value;
use crate::body::{MaskId, Source, Value};
use crate::emit::label::label;
use crate::emit::reciprocal::use_reciprocals;
use crate::emit::{Pointer, update};
use crate::expr::Var;
use crate::kernel::ir::{Block, Kernel, Role};
use crate::schedule::merge_loops;
use crate::schedule::{FusedNode, Moment};
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support::{self, Need, SCALAR};
use ferrotrace_runtime::{DType, Grid, KernelSource, Part};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A kernel's name before it has one.
pub(super) const NAME: &str = "FT_SYMBOL";
/// What a kernel of one set of arguments begins with.
const ENTRY: &str =
    "const __grid_constant__ FT_SYMBOL_args a) {\n  const unsigned ft_block = blockIdx.x;\n";
/// Most chunks of a row that a thread holds in registers, of rows whose sum about a maximum could be found in one pass.
const FEW_TURNS: usize = 4;

/// How a kernel is run, as far as its text depends on that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Setting {
    /// Other kernels check its indices before it runs: it wraps them and reports none.
    pub checked: bool,
    /// It runs for many launches, whose arguments are in a table.
    pub table: Option<Table>,
}

/// The state of writing one kernel.
pub(super) struct Writer<'a> {
    pub node: &'a FusedNode,
    pub setting: Setting,
    pub extents: Vec<usize>,
    pub stages: Stages,
    pub shape: Shape,
    /// Reductions about a mean that share the pass of the mean itself.
    pub moments: Vec<Moment>,
    /// Maxima and sums about them that share a pass.
    pub online: Vec<Online>,
    /// Whether anything is scanned.
    pub scans: bool,
    /// Whether the chunks between the first and the last of a row are written: these two alone may not be whole.
    pub middle: bool,
    /// By value, whether it is rounded to a half type before anything but sums and products uses it: a function with less than
    /// the precision of binary32 is enough.
    pub coarse: Vec<bool>,
    /// By value, whether it varies within a row.
    pub inner: Vec<bool>,
    pub needs: BTreeSet<Need>,
    /// Printed indices of loads, index values and random values.
    pub indices: FxHashMap<Value, Index>,
    pub masks: FxHashMap<MaskId, Vec<Index>>,
    pub store_indices: FxHashMap<usize, Index>,
    /// Loads of a whole chunk by one access.
    pub whole: FxHashSet<Value>,
    /// The product whose sums a template hands to its epilogue, as `given`, not yet rounded to their type.
    pub given: Option<Source>,
    /// Whether it is a prologue: each element of its one store is handed to a template, as `out`.
    pub gives: bool,
    /// How many numbers of other functions come before its own among the kernel's arguments.
    pub first_number: usize,
    /// Whether an index is checked.
    pub reports: bool,
    /// Whether the kernel that combines pieces is written.
    pub finishing: bool,
    /// Whether the folds of a scan's pieces are written, which are reductions.
    pub folding: bool,
    /// Whether nothing is stored: only indices are checked.
    pub silent: bool,
    pub params: Vec<i64>,
    /// Arguments by which something is divided.
    pub divisors: Vec<Divisor>,
    pub pointers: Vec<Pointer>,
    pub pointer_types: Vec<DType>,
    /// What is computed of indices once a row.
    pub preamble: Block,
    pub bases: usize,
    /// Rows' parts of indices that others are near to.
    pub anchors: Vec<Anchor>,
}

/// Writes the kernel of a fused node. `stored` are the nodes whose values must be written.
pub fn emit(fused: &FusedNode, stored: &FxHashSet<ValueId>) -> Emitted {
    let mut node = unroll_short(merge_loops(fused.clone()));
    if node.red.is_empty() {
        // Without columns the last row variable is walked by chunks.
        node.red = vec![node.iter.pop().unwrap_or(1)];
    }
    let node = use_reciprocals(node);
    write(&node, |store| stored.contains(&store), Setting::default())
}

/// Writes a kernel of this module for another setting.
pub(super) fn again(kernel: &Emitted, setting: Setting) -> Emitted {
    let written = |store| kernel.pointers.contains(&Pointer::Write(store));
    write(&kernel.node, written, setting)
}

/// The kernel IR of a kernel of this module.
pub fn kernel(emitted: &Emitted) -> Kernel {
    let written = |store| emitted.pointers.contains(&Pointer::Write(store));
    let setting = Setting {
        checked: !emitted.grid.reports,
        table: None,
    };
    let writes = |pointer: &Pointer| matches!(pointer, Pointer::Write(_));
    let (mut writer, needed) = match emitted.pointers.iter().any(writes) {
        true => planned(&emitted.node, written, setting),
        false => check::silent(&emitted.node),
    };
    let kernel = writer.build(&needed);
    debug_assert_eq!(writer.params, emitted.params);
    kernel
}

/// Writes the kernel of a node whose loops are final.
fn write(node: &FusedNode, is_stored: impl Fn(ValueId) -> bool, setting: Setting) -> Emitted {
    let (writer, needed) = planned(node, is_stored, setting);
    writer.kernel(&needed)
}

/// A writer that has decided on the form of a kernel, and which stores it has.
fn planned(
    node: &FusedNode,
    is_stored: impl Fn(ValueId) -> bool,
    setting: Setting,
) -> (Writer<'_>, Vec<usize>) {
    let needed: Vec<usize> = (0..node.stores.len())
        .filter(|&s| is_stored(node.stores[s].node))
        .collect();
    let mut stages = stages(node, &needed);
    let mut shape = shape::of(node, &stages, &needed, true);
    let mut moments = Vec::new();
    let scans = !stages.scans(node).is_empty();
    // Rows in registers can be looked at again.
    if !scans
        && shape.turns == 0
        && let Some(found) = movable(node, &stages, &needed)
    {
        stages.join();
        shape = shape::of(node, &stages, &needed, false);
        moments = found;
    }
    let mut online = Vec::new();
    if !scans
        && (shape.turns == 0 || shape.turns > FEW_TURNS && stages.stores_nothing())
        && matches!(shape.form, Form::Inner { .. })
        && let Some(found) = online::find(node, &stages)
    {
        stages.join_sums();
        shape = shape::of(node, &stages, &needed, true);
        online = found;
    }
    if shape.across {
        stages.loops[0].compute = stages.across(node);
    }
    stages.keep(node, &shape.saved);
    let mut writer = Writer::new(node, stages, shape);
    (writer.moments, writer.online, writer.scans) = (moments, online, scans);
    writer.setting = setting;
    writer.coarse = value::coarse(node);
    (writer, needed)
}

/// The sums about a mean of a node whose later loops compute nothing else, if all that moving them needs is computed.
fn movable(node: &FusedNode, stages: &Stages, needed: &[usize]) -> Option<Vec<Moment>> {
    let all = stages.reductions();
    let mut found = node.moments()?;
    found.retain(|m| all.contains(&m.reduce));
    let complete = |m: &Moment| all.contains(&m.sum) && all.contains(&m.plain);
    let may = !found.is_empty() && found.iter().all(complete);
    (may && (!node.exact || shape::is_split(node, stages, needed))).then_some(found)
}

impl<'a> Writer<'a> {
    /// A writer that has written nothing.
    pub(super) fn new(node: &'a FusedNode, stages: Stages, shape: Shape) -> Writer<'a> {
        Writer {
            node,
            setting: Setting::default(),
            extents: node.extents(),
            stages,
            shape,
            moments: Vec::new(),
            online: Vec::new(),
            scans: false,
            middle: false,
            coarse: vec![false; node.body.values().len()],
            inner: node.dependence().iter().map(|d| d.inner).collect(),
            needs: BTreeSet::from([support::need("types", SCALAR)]),
            indices: FxHashMap::default(),
            masks: FxHashMap::default(),
            store_indices: FxHashMap::default(),
            whole: FxHashSet::default(),
            given: None,
            gives: false,
            first_number: 0,
            reports: false,
            finishing: false,
            folding: false,
            silent: false,
            params: Vec::new(),
            divisors: Vec::new(),
            pointers: Vec::new(),
            pointer_types: Vec::new(),
            preamble: Block::new(),
            bases: 0,
            anchors: Vec::new(),
        }
    }
}

impl Writer<'_> {
    /// The variable along which a chunk's elements follow each other.
    pub(super) fn vector_var(&self) -> Var {
        match self.shape.across {
            true => Var(self.node.iter.len() as u32 - 1),
            false => Var(self.extents.len() as u32 - 1),
        }
    }

    /// An integer argument with this value.
    pub(super) fn param(&mut self, value: i64) -> Param {
        self.params.push(value);
        Param(self.params.len() - 1)
    }

    /// An integer argument to divide non-negative numbers by, and what 32-bit division by it takes.
    pub(super) fn divisor(&mut self, value: i64) -> Divisor {
        let at = Divisor(self.params.len());
        self.divisors.push(at);
        let (magic, shift) = magic(value);
        self.params.extend([value, magic, shift]);
        at
    }

    /// Where a buffer begins.
    pub(super) fn pointer(&self, source: Source) -> Place {
        self.place_of(Pointer::Read(source))
    }

    /// A pointer among the arguments.
    pub(super) fn place_of(&self, pointer: Pointer) -> Place {
        let at = self.pointers.iter().position(|p| *p == pointer);
        Place(at.unwrap_or_default())
    }

    /// Builds the kernel in the kernel IR.
    fn build(&mut self, needed: &[usize]) -> Kernel {
        self.collect_pointers(needed);
        self.print_indices(needed);
        let (main, finish) = self.functions();
        self.ir(main, finish)
    }

    pub(super) fn kernel(mut self, needed: &[usize]) -> Emitted {
        let kernel = self.build(needed);
        let in_place = self.in_place(needed);
        let body = self.body(&in_place, &kernel);
        let working = |l: &&Loop| !l.reduces.is_empty() || !l.stores.is_empty();
        Emitted {
            products: 0,
            source: KernelSource {
                parts: self.parts(),
                body: body.into(),
                finish: kernel.functions.len() > 1,
                name: label("", &self.node.body),
            },
            updates: update::overwrites(self.node, needed),
            in_place,
            scratch: self.scratch(),
            pointers: self.pointers,
            params: self.params,
            streams: Vec::new(),
            numbers: self.node.body.numbers().to_vec(),
            chunks: self.shape.blocks,
            local: 0,
            grid: Grid {
                threads: self.shape.threads,
                finish_blocks: self.shape.finish_blocks,
                finish_threads: self.shape.finish_threads,
                reports: self.reports,
                waits: true,
                ..Grid::default()
            },
            loops: self.stages.loops.iter().filter(working).count(),
            panels: None,
            walks: Vec::new(),
            before: Vec::new(),
            node: self.node.clone(),
        }
    }

    /// The functions of the kernel: a second one where rows are split.
    fn functions(&mut self) -> (Block, Option<Block>) {
        let Shape { form, split, .. } = self.shape;
        let all = self.stages.reductions();
        let reductions: Vec<Reduction> = all.iter().map(|&r| self.reduction(r)).collect();
        match (self.scans, split) {
            (true, None) => (self.scan_block(form, Pass::Whole), None),
            (true, Some(_)) if self.shape.looks_back => {
                let finish = self.scan_block(form, Pass::LookBack);
                (self.clear_block(), Some(finish))
            }
            (true, Some(_)) => {
                let main = self.scan_block(form, Pass::Folds);
                (main, Some(self.scan_block(form, Pass::Pieces)))
            }
            (false, None) if form == Form::Pointwise => (self.pointwise(), None),
            (false, _) => {
                let main = self.main_block(form, split.is_some());
                (main, split.map(|_| self.finish_block(&reductions)))
            }
        }
    }

    /// The types of its arguments, then the kernels.
    fn body(&mut self, in_place: &[(ValueId, Source)], kernel: &Kernel) -> String {
        let mut out = String::new();
        self.structure(&mut out);
        let entry = match &self.setting.table {
            Some(table) => {
                table.structure(&mut out);
                table.entry()
            }
            None => ENTRY.to_owned(),
        };
        let head = self.head(in_place);
        for function in &kernel.functions {
            let (suffix, threads) = match function.role {
                Role::Finish => ("_finish", kernel.launch.finish_threads),
                _ => ("", kernel.launch.threads),
            };
            let text = self.lines(&function.block, 2);
            let _ = writeln!(
                out,
                "extern \"C\" __global__ void __launch_bounds__({threads}) {NAME}{suffix}({entry}{head}{text}}}"
            );
        }
        out
    }

    /// The support text that it uses.
    fn parts(&self) -> Vec<Part> {
        let mut parts = support::parts(&self.needs);
        parts.push(Part {
            order: Part::BASE,
            text: text::helpers(self.narrow_indices()).into(),
        });
        let scans = [
            (self.scans, scan::HELPERS),
            (self.shape.looks_back, look_back::HELPERS),
        ];
        parts.extend(scans.into_iter().filter(|s| s.0).map(|(_, text)| Part {
            order: Part::LAST,
            text: text.into(),
        }));
        parts
    }

    /// Bytes of memory for the partial results of pieces.
    fn scratch(&self) -> usize {
        match self.shape.split {
            Some(_) if self.shape.looks_back => self.look_back_bytes(),
            Some((_, pieces)) => self.node.rows() * pieces * self.put_in_slots().len() * SLOT,
            None => 0,
        }
    }
}
