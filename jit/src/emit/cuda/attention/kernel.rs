//! The text of a kernel of attention: the function that changes scores, the kernel that gives the template its arguments,
//! and the kernel that combines pieces.

use super::score::{Score, Written};
use super::{Attention, THREADS};
use crate::body::BodyOp;
use crate::schedule::FusedNode;
use crate::template::attention::Tiling;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// Integer arguments by their positions.
pub mod argument {
    /// For queries, keys and values in turn: the first element, the distance of rows, the distance of columns.
    pub const OPERANDS: usize = 0;
    /// The numbers of queries and of keys, the width of both, the width of values.
    pub const SIZES: usize = 9;
    /// Blocks of queries.
    pub const BLOCKS: usize = 13;
    /// The number of pieces of the keys, and the keys of each. The specialised kernel has no pieces: the first is the number
    /// of matrices whose tiles are interleaved.
    pub const PIECES: usize = 14;
    /// The n of a causal mask that lets query i see keys up to i + n.
    pub const DIAGONAL: usize = 16;
    /// For each dimension of the batch its size, and the strides of queries, keys and values.
    pub const BATCH: usize = 17;
}

/// The integer arguments: operands, sizes, blocks, pieces, the causal mask's diagonal, the batch.
pub fn arguments(
    attention: &Attention,
    score: &Score,
    [blocks, pieces, piece]: [usize; 3],
) -> Vec<i64> {
    let [q, k, v] = &attention.operands;
    let mut all = Vec::new();
    // The template reads a key as a row: rows and columns of that operand are exchanged.
    for (m, row, column) in [
        (q, q.row, q.column),
        (k, k.column, k.row),
        (v, v.row, v.column),
    ] {
        all.extend([m.offset as i64, row as i64, column as i64]);
    }
    all.extend(attention.sizes.map(|n| n as i64));
    all.extend([blocks, pieces, piece].map(|n| n as i64));
    // Kernels add it to positions of 32 bits; beyond all keys a greater one changes nothing.
    let far = 1 << 30;
    all.push(
        score
            .causal
            .map_or(0, |(diagonal, _)| diagonal.clamp(-far, far)),
    );
    for (d, &n) in attention.nest.iter.iter().take(q.batch.len()).enumerate() {
        let strides = [q, k, v].map(|m| m.batch[d] as i64);
        all.push(n as i64);
        all.extend(strides);
    }
    all
}

/// What the texts of all kernels of attention are made of.
pub struct Kernel<'a> {
    pub attention: &'a Attention,
    /// The loops over scores.
    pub node: &'a FusedNode,
    pub score: &'a Score,
    /// The position of the result's pointer.
    pub result: usize,
}

impl<'a> Kernel<'a> {
    pub fn new(
        attention: &'a Attention,
        node: &'a FusedNode,
        score: &'a Score,
        written: &Written,
    ) -> Kernel<'a> {
        Kernel {
            attention,
            node,
            score,
            result: written.pointers.len() - 1,
        }
    }

    /// The kernel over tiles, which gives the template its arguments, and the one that combines pieces if keys are `split`.
    pub fn tiled(&self, tiling: Tiling, split: bool) -> String {
        let products = match (self.attention.nest.dtype, tiling.groups) {
            (DType::F32, _) => "ft_single",
            (DType::F16, false) => "ft_half<false>",
            (DType::F16, true) => "ft_group<false>",
            (_, false) => "ft_half<true>",
            (_, true) => "ft_group<true>",
        };
        let mut out = String::new();
        let change = self.change(&mut out);
        let Tiling {
            queries,
            keys,
            widths: [d, e],
            resident,
            ..
        } = tiling;
        let flags = self.flags(split);
        let place = self.place(tiling.rows());
        let _ = write!(
            out,
            "extern \"C\" __global__ void __launch_bounds__({THREADS}, {resident}) FT_SYMBOL(const __grid_constant__ \
             FT_SYMBOL_args a) {{\n  FT_AFTER;\n  typedef {products} P;\n  typedef P::type T;\n{place}  ft_attend<P, {queries}, {keys}, \
             {d}, {e}, {flags}, FT_SYMBOL_change>(t, {change});\n}}\n"
        );
        if split {
            out += &self.finish(products);
        }
        out
    }

    /// The flags of the templates `ft_attend` and `ft_attend_few`: CAUSAL, LIMITED, CHANGED, ZEROS, SPLIT.
    pub fn flags(&self, split: bool) -> String {
        let score = self.score;
        let (causal, limited) = (score.causal.is_some(), score.limit.is_some());
        let (changed, zeros) = (score.changed, self.attention.zeros);
        format!("{causal}, {limited}, {changed}, {zeros}, {split}")
    }

    /// The kernel that combines the results of pieces of the keys. `products` is the template's type of products.
    pub fn finish(&self, products: &str) -> String {
        let (pieces, values) = (argument::PIECES, argument::SIZES + 3);
        let (zeros, result) = (self.attention.zeros, self.result);
        format!(
            "extern \"C\" __global__ void __launch_bounds__({THREADS}) FT_SYMBOL_finish(const __grid_constant__ FT_SYMBOL_args \
             a) {{\n  FT_AFTER;\n  typedef {products} P;\n  const long long row = blockIdx.x, values = a.P{values};\n  \
             ft_combine<P, {zeros}>((const float *)a.scratch + row * a.P{pieces} * (values + 2), (int)a.P{pieces}, \
             (int)values, (P::type *)a.p{result} + row * values);\n}}\n"
        )
    }

    /// The statements that give the template's structure `t` what a block works on, of `tile` queries.
    pub fn place(&self, tile: usize) -> String {
        let mut out = String::new();
        let (blocks, pieces, batch) = (argument::BLOCKS, argument::PIECES, argument::BATCH);
        let dims = self.dimensions();
        let _ = write!(
            out,
            "  unsigned b = blockIdx.x;\n  const unsigned pieces = a.P{pieces}, blocks = a.P{blocks};\n  \
             const int piece = b % pieces;\n  b /= pieces;\n  const int block = blocks - 1 - b % blocks;\n  b /= blocks;\n  \
             const long long matrix = b;\n"
        );
        out.push_str(&indices(dims, "long long"));
        out.push_str("  ft_attention<T> t;\n");
        for (i, name) in ["q", "k", "v"].into_iter().enumerate() {
            let at = argument::OPERANDS + 3 * i;
            let moved: String = (0..dims)
                .map(|d| format!(" + i{d} * a.P{}", batch + 4 * d + 1 + i))
                .collect();
            let _ = writeln!(
                out,
                "  t.{name} = {{(const T *)a.p{i} + a.P{at}{moved}, a.P{}, a.P{}}};",
                at + 1,
                at + 2
            );
        }
        for (i, name) in ["rows", "keys", "width", "values"].into_iter().enumerate() {
            let _ = writeln!(out, "  t.{name} = (int)a.P{};", argument::SIZES + i);
        }
        let [scale, fill] = self.factors();
        let (piece, diagonal, result) = (pieces + 1, argument::DIAGONAL, self.result);
        let _ = write!(
            out,
            "  t.out = (T *)a.p{result} + matrix * t.rows * t.values;\n  t.out_row = t.values;\n  \
             t.part = (float *)a.scratch + (matrix * t.rows * a.P{pieces} + piece) * (t.values + 2);\n  \
             t.part_row = a.P{pieces} * (t.values + 2);\n  t.first = block * {tile};\n  t.begin = piece * (int)a.P{piece};\n  \
             t.end = min(t.keys, t.begin + (int)a.P{piece});\n  t.ahead = (int)a.P{diagonal};\n  t.fill = {fill};\n  \
             t.scale = {scale};\n"
        );
        out
    }

    /// The number of dimensions of the batch.
    pub fn dimensions(&self) -> usize {
        self.attention.operands[0].batch.len()
    }

    /// The expressions of the factor of products, and of the score of hidden keys.
    pub fn factors(&self) -> [String; 2] {
        let number = |value| match self.node.body.value(value).op {
            BodyOp::Number(n) => format!("__int_as_float((int)a.s{n})"),
            _ => "0.0f".to_owned(),
        };
        let scale = match self.score.scale {
            None => "1.0f".to_owned(),
            Some((value, false)) => number(value),
            Some((value, true)) => format!("__fdiv_rn(1.0f, {})", number(value)),
        };
        let causal = self.score.causal.map(|(_, fill)| fill);
        let fill = causal.or(self.score.limit.map(|limit| limit.fill));
        let fill = fill.map_or("0.0f".to_owned(), number);
        [scale, fill]
    }

    /// Writes the type `FT_SYMBOL_change`, which changes scores. Returns the expression of its value for the matrix whose
    /// indices are the variables `i0`, `i1`, ..
    pub fn change(&self, out: &mut String) -> String {
        let dims = self.dimensions();
        let named =
            |before: &str| -> String { (0..dims).map(|d| format!("{before}i{d}, ")).collect() };
        if self.score.is_known() {
            out.push_str(
                "struct FT_SYMBOL_change { __device__ float operator()(int, int, float s) const { return s; } };\n",
            );
            return "FT_SYMBOL_change()".to_owned();
        }
        let row = if self.attention.sizes[0] > 1 {
            "i, "
        } else {
            ""
        };
        let members: String = (0..dims).map(|d| format!(" ft_int i{d};")).collect();
        let one = match self.score.changed {
            true => format!("FT_SYMBOL_score(a, {}{row}j, s)", named("")),
            false => "s".to_owned(),
        };
        let last = match self.score.limit {
            Some(_) => format!(
                "\n  __device__ __forceinline__ int last(int i) const {{ return FT_SYMBOL_last(a, {}{row}0); }}",
                named("")
            ),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "struct FT_SYMBOL_change {{\n  const FT_SYMBOL_args &a;{members}\n  __device__ __forceinline__ float \
             operator()(int i, int j, float s) const {{ return {one}; }}{last}\n}};"
        );
        format!("FT_SYMBOL_change{{a, {}}}", named("(ft_int)"))
    }
}

/// The statements that compute a matrix's indices `i0`, `i1`, .. in a batch of `dims` dimensions from its number `b`,
/// which is unsigned.
pub fn indices(dims: usize, ty: &str) -> String {
    let mut out = String::new();
    for d in (0..dims).rev() {
        let n = argument::BATCH + 4 * d;
        let _ = match d {
            0 => writeln!(out, "  const {ty} i0 = ({ty})b;"),
            _ => writeln!(
                out,
                "  const {ty} i{d} = ({ty})(b % (unsigned)a.P{n});\n  b /= (unsigned)a.P{n};"
            ),
        };
    }
    out
}
