//! Attention with warp specialisation (Hopper), for many queries of half precision: one warp loads operands by the copy
//! engine, while groups of four warps take turns at the matrix units.

use super::kernel::{Kernel, argument, arguments, indices};
use super::score::{self, Score};
use super::{Form, emitted};
use crate::emit::cuda::{ENGINE, Emitted, PANELS};
use crate::lower::{Attention, Matrices};
use crate::policy::Policy;
use crate::schedule::FusedNode;
use ferrotrace_kernels::cuda::tiles::{GROUP, HALF, TILES};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

const SPECIALIZED: &str = include_str!("specialized.cu");

/// Keys of a block.
const KEYS: usize = 128;
/// Elements of a chunk of 16 bytes, at multiples of which rows and matrices begin.
const CHUNK: i64 = 8;
/// Most dimensions of a batch that the copy engine takes besides those of a matrix.
const BATCH: usize = 3;
/// Bytes of a block's three tensor maps.
const MAPS: usize = 384;

/// How the work is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Specialized {
    /// Groups of four warps that multiply, of 64 queries each.
    groups: usize,
    /// Stages of keys and of values.
    stages: usize,
    /// Padded widths of keys and values.
    widths: [usize; 2],
    /// Tiles of queries of a matrix.
    blocks: usize,
    /// How many matrices' tiles are interleaved, so that tiles computed at once share keys in the cache.
    near: usize,
    /// Blocks of threads.
    chunks: usize,
}

impl Specialized {
    /// How the work is cut. `None` where this form does not apply: the copy engine needs aligned rows, and there must be
    /// tiles for most multiprocessors.
    pub fn of(attention: &Attention, policy: &Policy) -> Option<Specialized> {
        let [rows, keys, width, values] = attention.sizes;
        let batch = attention.matrices();
        if policy.target.capability != 90 || !attention.nest.dtype.is_half() || rows <= 64 {
            return None;
        }
        let widths = [width, values].map(|n| n.next_multiple_of(64));
        // Panels of 64 columns, of which at most a quarter is padding; results are stored four at a time.
        let full = [width, values]
            .iter()
            .zip(widths)
            .all(|(&n, m)| 4 * n >= 3 * m);
        let known = widths.iter().all(|&n| n <= 128) && values % 4 == 0;
        let [q, k, v] = &attention.operands;
        let aligned = lines(q, q.row, q.column, width)
            && lines(k, k.column, k.row, width)
            && lines(v, v.row, v.column, values);
        if !full || !known || !aligned || q.batch.len() > BATCH {
            return None;
        }
        let processors = policy.target.multiprocessors.max(1);
        let tiles = |groups: usize| batch.checked_mul(rows.div_ceil(64 * groups));
        let fills = |groups: usize| tiles(groups).is_some_and(|n| 4 * n >= 3 * processors);
        let (groups, stages) = match widths {
            [64, 64] if rows > 128 && fills(3) => (3, 4),
            [64, 64] => (2, 4),
            _ => (2, 2),
        };
        let blocks = rows.div_ceil(64 * groups);
        let enough = fills(groups) && keys >= KEYS;
        let tiles = tiles(groups).filter(|&n| n < 1 << 30)?;
        let work = Specialized {
            groups,
            stages,
            widths,
            blocks,
            near: (processors / blocks).max(1),
            chunks: tiles.min(processors),
        };
        (enough && work.shared() <= policy.target.shared_memory).then_some(work)
    }

    /// Bytes of shared memory of a block, in the layout `ft_shared_layout` of the template.
    fn shared(&self) -> usize {
        let [d, e] = self.widths;
        let tiles = 2 * 64 * self.groups * d + self.stages * KEYS * (d + e);
        tiles * DType::F16.size() + MAPS + 16 + 8 * (4 + 4 * self.stages)
    }
}

/// Whether an operand's rows are contiguous and, as far as its offset and strides tell, begin at multiples of 16 bytes.
fn lines(m: &Matrices, row: isize, column: isize, columns: usize) -> bool {
    let aligned = |n: i64| n >= 0 && n % CHUNK == 0;
    let steps = m.batch.iter().all(|&step| aligned(step as i64));
    column == 1
        && row >= columns as isize
        && aligned(row as i64)
        && aligned(m.offset as i64)
        && steps
}

/// Writes the kernel.
pub(super) fn emit(
    attention: &Attention,
    node: FusedNode,
    score: &Score,
    work: &Specialized,
) -> Emitted {
    let params = arguments(attention, score, [work.blocks, work.near, 0]);
    let written = score::write(attention, &node, score, params);
    let kernel = Kernel::new(attention, &node, score, &written);
    let form = Form {
        template: &[TILES, HALF, GROUP, ENGINE, PANELS, SPECIALIZED],
        text: kernel.specialized(work),
        split: false,
        blocks: work.chunks,
        threads: 128 * (work.groups as u32 + 1),
        shared: work.shared(),
        scratch: work.chunks * MAPS,
    };
    emitted(attention, node, written, form)
}

impl Kernel<'_> {
    /// The functions of scores, the counter of tiles, and the kernel, which gives the template its arguments.
    fn specialized(&self, work: &Specialized) -> String {
        let mut out = String::new();
        let dims = self.dimensions();
        let one = self.change(&mut out);
        let found = match self.score.is_known() {
            true => String::new(),
            false => format!("  unsigned b = head;\n{}", indices(dims, "int")),
        };
        let Specialized {
            groups,
            stages,
            widths: [d, e],
            ..
        } = *work;
        let threads = 128 * (groups + 1);
        let _ = write!(
            out,
            "struct FT_SYMBOL_scores {{\n  const FT_SYMBOL_args &a;\n  __device__ __forceinline__ FT_SYMBOL_change \
             operator()(int head) const {{\n{found}  return {one};\n  }}\n}};\n__device__ unsigned FT_SYMBOL_tiles;\nextern \"C\" \
             __global__ void __launch_bounds__({threads}, 1) FT_SYMBOL(const __grid_constant__ FT_SYMBOL_args a) {{\n  \
             FT_AFTER;\n  ft_heads<{dims}> t;\n"
        );
        fields(&mut out, dims);
        let [scale, fill] = self.factors();
        let bf16 = self.attention.nest.dtype == DType::BF16;
        let (causal, limited) = (self.score.causal.is_some(), self.score.limit.is_some());
        let (changed, zeros) = (self.score.changed, self.attention.zeros);
        let _ = write!(
            out,
            "  t.out = (unsigned short *)a.p{};\n  t.fill = {fill};\n  t.scale = {scale};\n  \
             ft_attend_specialized<{bf16}, {groups}, {KEYS}, {d}, {e}, {stages}, {causal}, {limited}, {changed}, {zeros}, {dims}>(t, \
             &FT_SYMBOL_tiles, a.scratch, FT_SYMBOL_scores{{a}});\n}}\n",
            self.result
        );
        out
    }
}

/// Gives the template's structure `t` its operands, sizes and batch of `dims` dimensions.
fn fields(out: &mut String, dims: usize) {
    for (i, name) in ["q", "k", "v"].into_iter().enumerate() {
        let at = argument::OPERANDS + 3 * i;
        // The distance of keys is that of the operand's columns, which `arguments` put in the place of rows.
        let _ = writeln!(
            out,
            "  t.{name} = (const unsigned short *)a.p{i} + a.P{at};\n  t.{name}_row = a.P{};",
            at + 1
        );
    }
    let sizes = ["rows", "keys", "width", "values"];
    let sizes = sizes.into_iter().zip(argument::SIZES..);
    let others = [
        ("blocks", argument::BLOCKS),
        ("near", argument::PIECES),
        ("ahead", argument::DIAGONAL),
    ];
    for (name, at) in sizes.chain(others) {
        let _ = writeln!(out, "  t.{name} = (int)a.P{at};");
    }
    let mut heads = "1".to_owned();
    for i in 0..dims {
        let at = argument::BATCH + 4 * i;
        let _ = write!(heads, " * t.batch[{i}]");
        let _ = writeln!(out, "  t.batch[{i}] = (int)a.P{at};");
        for (name, at) in ["q", "k", "v"].into_iter().zip(at + 1..) {
            let _ = writeln!(out, "  t.{name}_step[{i}] = a.P{at};");
        }
    }
    let _ = writeln!(out, "  t.heads = {heads};");
}
