//! Draws of elements that follow one another: each block of words is computed once, for all elements that take their words
//! from it. A vector of other elements computes a block for each lane.

use super::super::{Definition, Entry, need};

/// A draw in vectors, from the words of whole blocks where the elements follow one another from the first of a block on.
struct Run {
    /// The function's name without its lanes, and of the one that computes a block for each lane.
    names: [&'static str; 2],
    /// The type of a lane of its result.
    result: &'static str,
    /// Elements that share a block.
    sharing: usize,
    /// What is used beside the blocks.
    uses: &'static [&'static str],
    /// Statements that give the result, of `a` and `b`: the first and the last two words of each block as 64 bits. By the
    /// lanes of the result and the number of blocks.
    rest: fn(usize, usize) -> String,
}

/// Elements of the two halves of each block, in turns, each `times` in a row.
fn in_turns(blocks: usize, times: usize) -> String {
    let halves = (0..blocks).flat_map(|i| [format!("a[{i}]"), format!("b[{i}]")]);
    let each: Vec<String> = halves.flat_map(|half| vec![half; times]).collect();
    each.join(", ")
}

/// The halves of blocks as they follow in memory, as lanes of the result.
fn words(result: &str, lanes: usize, blocks: usize) -> String {
    format!(
        "  const union {{ unsigned long w[{}]; {result}x{lanes} v; }} r = {{{{{}}}}};\n  return r.v;\n",
        2 * blocks,
        in_turns(blocks, 1)
    )
}

/// Each half of a block gives two neighbours the uniform numbers in its words, which they share.
fn pairs(lanes: usize, blocks: usize) -> String {
    format!(
        "  const union {{ unsigned long w[{n}]; u64x{n} v; }} r = {{{{{}}}}};\n  \
         const u64x{n} u = (r.v & 0xffffffffUL) | (r.v << 32), v = (r.v >> 32) | (r.v & ~0xffffffffUL);\n  \
         return ft_box_muller_f32x{lanes}((i32x{lanes})((u32x{lanes})u >> 8), (i32x{lanes})((u32x{lanes})v >> 8), \
         ft_iota_i32x{lanes}() & 1);\n",
        in_turns(blocks, 1),
        n = 2 * blocks
    )
}

/// Both halves of a block are the uniform numbers that its two elements share.
fn blocks_of_two(lanes: usize, blocks: usize) -> String {
    let twice = |half: &str| -> String {
        let each: Vec<String> = (0..blocks)
            .flat_map(|i| vec![format!("{half}[{i}]"); 2])
            .collect();
        each.join(", ")
    };
    format!(
        "  const u64x{lanes} u = {{{}}}, v = {{{}}};\n  \
         return ft_box_muller_f64x{lanes}((i64x{lanes})(u >> 11), (i64x{lanes})(v >> 11), ft_iota_i64x{lanes}() & 1);\n",
        twice("a"),
        twice("b")
    )
}

const RUNS: [Run; 4] = [
    Run {
        names: ["ft_rand_u32", "ft_scattered_u32"],
        result: "u32",
        sharing: 4,
        uses: &[],
        rest: |lanes, blocks| words("u32", lanes, blocks),
    },
    Run {
        names: ["ft_rand_u64", "ft_scattered_u64"],
        result: "u64",
        sharing: 2,
        uses: &[],
        rest: |lanes, blocks| words("u64", lanes, blocks),
    },
    Run {
        names: ["ft_normal_f32", "ft_scattered_normal_f32"],
        result: "f32",
        sharing: 4,
        uses: &["ft_box_muller_f32", "ft_iota_i32"],
        rest: pairs,
    },
    Run {
        names: ["ft_normal_f64", "ft_scattered_normal_f64"],
        result: "f64",
        sharing: 2,
        uses: &["ft_box_muller_f64"],
        rest: blocks_of_two,
    },
];

impl Run {
    fn define(&self, name: &str, lanes: usize) -> Definition {
        let [_, scattered] = self.names;
        let (result, blocks) = (self.result, lanes / self.sharing);
        let mut deps = vec![need("types", lanes), need(scattered, lanes)];
        let head = format!(
            "FT_INLINE {result}x{lanes} {name}x{lanes}(unsigned long key, unsigned long offset, i64x{lanes} index) {{\n"
        );
        let each = format!("return {scattered}x{lanes}(key, offset, index);\n");
        // One block is no vector.
        if blocks < 2 {
            let text = format!("{head}  {each}}}\n");
            return Definition { deps, text };
        }
        deps.extend([
            need("types", blocks),
            need("types", 2 * blocks),
            need("ft_philox", blocks),
            need("ft_iota_i64", blocks),
            need("ft_iota_i64", lanes),
            need("ft_any_i64", lanes),
        ]);
        deps.extend(self.uses.iter().map(|part| need(part, lanes)));
        let (last, shift) = (self.sharing - 1, self.sharing.ilog2());
        let text = format!(
            "{head}  \
             if ((index[0] & {last}) != 0 || ft_any_i64x{lanes}(index - index[0] - ft_iota_i64x{lanes}())) {each}  \
             u64x{blocks} c[4];\n  \
             ft_philoxx{blocks}(key, (u64x{blocks})ft_iota_i64x{blocks}() + (((unsigned long)index[0] >> {shift}) + offset), c);\n  \
             const u64x{blocks} a = (c[0] & 0xffffffffUL) | (c[1] << 32), b = (c[2] & 0xffffffffUL) | (c[3] << 32);\n\
             {}}}\n",
            (self.rest)(lanes, blocks)
        );
        Definition { deps, text }
    }
}

pub(super) fn entries() -> impl Iterator<Item = Entry> {
    RUNS.iter()
        .map(|run| Entry::new(run.names[0], |name, lanes| run.define(name, lanes)))
}
