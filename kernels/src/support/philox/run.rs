//! Draws of elements that follow one another (`ft_run_*`, by the first one's number): each block of words is computed once,
//! for all elements that take their words from it. A vector of any elements (`ft_*`, by a vector of numbers) computes a
//! block for each lane.

use super::super::{Definition, Entry, need};

/// A draw in vectors from the words of whole blocks.
struct Run {
    /// The function's name without its lanes, and of the one by a vector of numbers.
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
        names: ["ft_run_rand_u32", "ft_rand_u32"],
        result: "u32",
        sharing: 4,
        uses: &[],
        rest: |lanes, blocks| words("u32", lanes, blocks),
    },
    Run {
        names: ["ft_run_rand_u64", "ft_rand_u64"],
        result: "u64",
        sharing: 2,
        uses: &[],
        rest: |lanes, blocks| words("u64", lanes, blocks),
    },
    Run {
        names: ["ft_run_normal_f32", "ft_normal_f32"],
        result: "f32",
        sharing: 4,
        uses: &["ft_box_muller_f32", "ft_iota_i32"],
        rest: pairs,
    },
    Run {
        names: ["ft_run_normal_f64", "ft_normal_f64"],
        result: "f64",
        sharing: 2,
        uses: &["ft_box_muller_f64", "ft_iota_i64"],
        rest: blocks_of_two,
    },
];

impl Run {
    fn define(&self, name: &str, lanes: usize) -> Definition {
        let [_, any] = self.names;
        let (result, blocks) = (self.result, lanes / self.sharing);
        let mut deps = vec![need("types", lanes)];
        let of = |name: &str, first: &str| {
            format!(
                "FT_INLINE {result}x{lanes} {name}x{lanes}(unsigned long key, unsigned long offset, long {first}) {{\n"
            )
        };
        // One block is no vector.
        if blocks < 2 {
            deps.extend([need(any, lanes), need("ft_iota_i64", lanes)]);
            let text = format!(
                "{}  return {any}x{lanes}(key, offset, first + ft_iota_i64x{lanes}());\n}}\n",
                of(name, "first")
            );
            return Definition { deps, text };
        }
        deps.extend([
            need("types", blocks),
            need("types", 2 * blocks),
            need("ft_philox", blocks),
            need("ft_iota_i64", blocks),
        ]);
        deps.extend(self.uses.iter().map(|part| need(part, lanes)));
        let (last, whole) = (self.sharing - 1, format!("{name}_of_blocks"));
        // A run that begins within a block lies in two that begin with one.
        let text = format!(
            "{}  u64x{blocks} c[4];\n  \
             ft_philoxx{blocks}(key, (u64x{blocks})ft_iota_i64x{blocks}() + (offset + (unsigned long)block), c);\n  \
             const u64x{blocks} a = (c[0] & 0xffffffffUL) | (c[1] << 32), b = (c[2] & 0xffffffffUL) | (c[3] << 32);\n\
             {}}}\n\
             {}  const unsigned long block = (unsigned long)first >> {};\n  \
             if ((first & {last}) == 0) return {whole}x{lanes}(key, offset, block);\n  \
             {result}x{lanes} r[2] = {{ {whole}x{lanes}(key, offset, block), {whole}x{lanes}(key, offset, block + {blocks}) }}, v;\n  \
             __builtin_memcpy(&v, (const char *)r + (first & {last}) * (sizeof v / {lanes}), sizeof v);\n  \
             return v;\n}}\n",
            of(&whole, "block"),
            (self.rest)(lanes, blocks),
            of(name, "first"),
            self.sharing.ilog2()
        );
        Definition { deps, text }
    }
}

pub(super) fn entries() -> impl Iterator<Item = Entry> {
    RUNS.iter()
        .map(|run| Entry::new(run.names[0], |name, lanes| run.define(name, lanes)))
}

/// The twin by the first element's number of a draw by a vector of numbers.
pub(super) fn along(name: &str, deps: &[&str], text: &str) -> Entry {
    let of_run = |part: &str| match part.strip_prefix("ft_") {
        Some(rest) if rest.starts_with("rand_") || rest.starts_with("normal_f32") => {
            format!("ft_run_{rest}")
        }
        _ => part.to_owned(),
    };
    let deps: Vec<String> = deps.iter().map(|part| of_run(part)).collect();
    let deps: Vec<&str> = deps.iter().map(String::as_str).collect();
    let run = name.replacen("ft_", "ft_run_", 1);
    let mut text = text
        .replace("i64x@ index", "long index")
        .replace(&format!("{name}x@"), &format!("{run}x@"));
    for part in ["rand_u32", "rand_u64", "normal_f32"] {
        text = text.replace(&format!("ft_{part}x@("), &format!("ft_run_{part}x@("));
    }
    Entry::text(run, &deps, text)
}
