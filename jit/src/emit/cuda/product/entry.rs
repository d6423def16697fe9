//! The text of a product's kernel, which gives the template its arguments.

use crate::body::Source;
use crate::schedule::{Prologue, Sides, Tiles, Units};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// Integer arguments by their positions.
pub mod argument {
    /// For each operand its first element and the distance of its lines.
    pub const OPERANDS: usize = 0;
    /// m, n, k.
    pub const SIZES: usize = 4;
    /// The numbers of rows of tiles, of columns of tiles, and of tiles.
    pub const TILES: usize = 7;
    /// For each dimension of the batch its size, and the strides of both operands.
    pub const BATCH: usize = 10;
}

/// Bytes that a thread may read of a right operand's 8 chunks where two blocks share a multiprocessor.
const STREAM: usize = 64;

/// An operand as the template reads it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operand {
    /// The position of its pointer, if it lies in memory.
    pub pointer: Option<usize>,
    /// Bytes read for a chunk of one row, and for a chunk of all rows together.
    pub bytes: [usize; 2],
}

/// What the kernel's text is made of.
#[derive(Debug)]
pub struct Entry<'a> {
    pub sides: &'a Sides,
    pub prologues: &'a [Prologue],
    pub tiles: Tiles,
    pub dtype: DType,
    pub operands: [Operand; 2],
    /// Chunks for which a thread of a group loads the epilogue's operands at once.
    pub ahead: usize,
}

impl Entry<'_> {
    /// The kernel.
    pub fn text(&self) -> String {
        // The right operand is read before the kernel waits.
        let few = matches!(self.tiles.by, Units::Streams { .. } | Units::Lines { .. });
        let early = few && is_given(self.sides, self.prologues);
        let mut out = String::new();
        let batch = self.sides.batch.len();
        let cluster = match self.tiles.by {
            Units::Streams { blocks } if blocks > 1 => {
                format!(" __cluster_dims__({blocks}, 1, 1)")
            }
            _ => String::new(),
        };
        let (threads, resident) = (self.tiles.stages().1, self.resident());
        let _ = write!(
            out,
            "extern \"C\" __global__ void __launch_bounds__({threads}, {resident}){cluster} FT_SYMBOL(const __grid_constant__ \
             FT_SYMBOL_args a) {{\n{}  ft_product<{batch}> t;\n",
            if early { "" } else { "  FT_AFTER;\n" }
        );
        fields(&mut out, batch, self.operands);
        if few {
            let wait = if early { "  FT_AFTER;\n" } else { "" };
            let _ = writeln!(out, "  const auto wait = [] {{\n{wait}  }};");
        }
        let _ = writeln!(out, "  {};\n}}", self.call());
        out
    }

    /// Blocks that a multiprocessor is to hold at once: two where registers allow it.
    fn resident(&self) -> usize {
        match self.tiles.by {
            Units::Streams { .. }
                if self.tiles.rows == 16 && 8 * self.operands[1].bytes[0] <= STREAM =>
            {
                2
            }
            Units::Lines { .. } if self.tiles.rows <= 16 => 2,
            _ => 1,
        }
    }

    /// The call of the template.
    fn call(&self) -> String {
        let (tiles, batch) = (self.tiles, self.sides.batch.len());
        let half = self.dtype == DType::BF16;
        let [left, right] = self.sides.sides.each_ref().map(|side| side.inner);
        match tiles.by {
            Units::Groups => format!(
                "ft_by_groups<{half}, {left}, {right}, {}, {}, {}, {batch}>(t, (int)a.P{}, a.scratch, FT_SYMBOL_after{{a}})",
                tiles.columns,
                tiles.stages().0,
                self.ahead,
                argument::TILES + 2
            ),
            Units::Warps => {
                format!("ft_by_warps<{half}, {left}, {right}, {batch}>(t, FT_SYMBOL_after{{a}})")
            }
            Units::Streams { blocks } => {
                let length = ["t.k", if right { "t.k" } else { "t.n" }];
                let lines = |i: usize, name: &str| match self.operands[i].pointer {
                    Some(_) => {
                        format!("ft_lines<{half}>{{t.{name}, t.{name}_line, {}}}", length[i])
                    }
                    None => format!("FT_SYMBOL_before{i}{{a}}"),
                };
                format!(
                    "ft_by_streams<{half}, {right}, {}, {blocks}>(t, {}, {}, FT_SYMBOL_after{{a}}, wait)",
                    tiles.rows / 16,
                    lines(0, "a"),
                    lines(1, "b")
                )
            }
            Units::Lines { steps, ahead } => format!(
                "ft_by_lines<{half}, {}, {}, {steps}, {ahead}>(t, FT_SYMBOL_after{{a}}, wait)",
                tiles.rows / 8,
                tiles.columns / 16
            ),
        }
    }
}

/// Gives the template its arguments, as fields of `t`.
fn fields(out: &mut String, batch: usize, operands: [Operand; 2]) {
    for (i, name) in ["a", "b"].into_iter().enumerate() {
        let at = argument::OPERANDS + 2 * i;
        let data = match operands[i].pointer {
            Some(p) => format!("(const unsigned short *)a.p{p} + a.P{at}"),
            None => "nullptr".to_owned(),
        };
        let _ = writeln!(
            out,
            "  t.{name} = {data};\n  t.{name}_line = a.P{};",
            at + 1
        );
    }
    let sizes = ["m", "n", "k"].into_iter().zip(argument::SIZES..);
    for (name, at) in sizes.chain(["rows", "columns"].into_iter().zip(argument::TILES..)) {
        let _ = writeln!(out, "  t.{name} = (int)a.P{at};");
    }
    for d in 0..batch {
        let at = argument::BATCH + 3 * d;
        let _ = writeln!(
            out,
            "  t.batch[{d}] = (int)a.P{at};\n  t.a_step[{d}] = a.P{};\n  t.b_step[{d}] = a.P{};",
            at + 1,
            at + 2
        );
    }
}

/// Whether the right operand is made of inputs of the plan alone: no kernel of the plan writes them before this one reads
/// them, so that it need not wait for any.
fn is_given(sides: &Sides, prologues: &[Prologue]) -> bool {
    let input = |source: &Source| matches!(source, Source::Input(_));
    match prologues.iter().find(|p| p.operand == 1) {
        Some(prologue) => prologue.kernel.loads().all(|load| input(&load.0)),
        None => input(&sides.sides[1].source),
    }
}
