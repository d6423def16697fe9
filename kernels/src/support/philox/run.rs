//! Draws of elements that follow one another (`ft_run_*`, by the first one's number): each block of words is computed once,
//! for all elements that take their words from it. A vector of any elements (`ft_*`, by a vector of numbers) computes a
//! block for each lane.

use super::super::{Definition, Entry, Need, need};

/// A draw in vectors from the words of whole blocks.
struct Run {
    /// The function's name without its lanes, and of the one by a vector of numbers.
    names: [&'static str; 2],
    /// The type of the result, without its lanes, and its bytes.
    result: &'static str,
    bytes: usize,
    /// What makes the result of the words `w`; none if they are the result.
    transform: Option<&'static str>,
}

const RUNS: [Run; 4] = [
    Run {
        names: ["ft_run_rand_u32", "ft_rand_u32"],
        result: "u32",
        bytes: 4,
        transform: None,
    },
    Run {
        names: ["ft_run_rand_u64", "ft_rand_u64"],
        result: "u64",
        bytes: 8,
        transform: None,
    },
    Run {
        names: ["ft_run_normal_f32", "ft_normal_f32"],
        result: "f32",
        bytes: 4,
        transform: Some("ft_pairs_f32"),
    },
    Run {
        names: ["ft_run_normal_f64", "ft_normal_f64"],
        result: "f64",
        bytes: 8,
        transform: Some("ft_pairs_f64"),
    },
];

/// A list of so many numbers.
pub(super) fn list(n: usize, number: impl Fn(usize) -> usize) -> String {
    let all: Vec<String> = (0..n).map(|i| number(i).to_string()).collect();
    all.join(", ")
}

/// Whether a register holds so many bytes: a test of the preprocessor. Compilers keep larger vectors in memory, and their
/// halves are drawn apart.
pub(super) fn fits(bytes: usize) -> &'static str {
    match bytes {
        16 => "1",
        32 => "defined(FT_AVX512) || defined(FT_AVX2)",
        64 => "defined(FT_AVX512)",
        _ => "0",
    }
}

/// `ft_blocks_u32xW(key, block, w)`: the words of `count` · W / 4 blocks that follow one another, as they lie in memory. A
/// round multiplies the even words, turns the words of each block around, and adds the odd ones and the key.
fn blocks(name: &str, lanes: usize, count: usize) -> Definition {
    // A block has four words.
    if lanes < 4 {
        return Definition {
            deps: Vec::new(),
            text: String::new(),
        };
    }
    let half = lanes / 2;
    let each = |even: &str, odd: &str| [even, odd].repeat(half / 2).join(", ");
    let vectors = |text: &dyn Fn(usize) -> String| (0..count).map(text).collect::<String>();
    let begun = vectors(&|i| {
        format!(
            "  u64x{half} s{i} = ((block + {}UL) + (u64x{half}){{{}}}) & (even | even << 32);\n",
            i * lanes / 4,
            list(half, |i| i / 2)
        )
    });
    let round = vectors(&|i| {
        format!(
            "    p = (u32x{lanes})ft_mul32_u64x{half}(s{i}, factors);\n    \
             s{i} = (u64x{half})FT_SHUFFLE(u32x{lanes}, p, p, {}) ^ s{i} >> 32 ^ (u64x{half})k;\n",
            list(lanes, |i| i ^ 3)
        )
    });
    let given = vectors(&|i| format!("  w[{i}] = (u32x{lanes})s{i};\n"));
    let text = format!(
        "FT_INLINE void {name}x{lanes}(unsigned long key, unsigned long block, u32x{lanes} *w) {{\n  \
         const u64x{half} even = {{{}}}, odd = {{{}}}, factors = {{{}}};\n  \
         const u64x{half} both = key - (u64x{half}){{}};\n{begun}  \
         u32x{lanes} p, k = (u32x{lanes})((both & even) | (both >> 32 & odd));\n  \
         for (int i = 0; i < 10; i++) {{\n{round}    k += (u32x{lanes})(u64x{half}){{{}}};\n  }}\n{given}}}\n",
        each("0xffffffffUL", "0"),
        each("0", "0xffffffffUL"),
        each("0xD2511F53UL", "0xCD9E8D57UL"),
        each("0x9E3779B9UL", "0xBB67AE85UL"),
    );
    let deps = vec![
        need("types", lanes),
        need("types", half),
        need("ft_mul32_u64", half),
    ];
    Definition { deps, text }
}

/// `ft_pairs_f32xW` and `ft_pairs_f64xW`: normal numbers from words of that width, two from the two words of each pair.
/// The distance, which a pair shares, is computed once for it where half as many lanes fill a register.
fn pairs(name: &str, lanes: usize, wide: bool) -> Definition {
    let (bits, bytes, shift) = if wide { (64, 8, 11) } else { (32, 4, 8) };
    if lanes < 2 {
        return Definition {
            deps: Vec::new(),
            text: String::new(),
        };
    }
    let ty = |kind: char, lanes: usize| format!("{kind}{bits}x{lanes}");
    let (float, int, word) = (ty('f', lanes), ty('i', lanes), ty('u', lanes));
    let mut deps = vec![
        need("types", lanes),
        need(&format!("ft_wave_f{bits}"), lanes),
        need(&format!("ft_iota_i{bits}"), lanes),
    ];
    let radius = format!("ft_radius_f{bits}");
    let shuffled = |of: &str, n: usize, number: fn(usize) -> usize| {
        format!("FT_SHUFFLE({word}, {of}, {of}, {})", list(n, number))
    };
    let distances = if lanes / 2 * bytes < 16 {
        deps.push(need(&radius, lanes));
        let words = shuffled("w", lanes, |i| i & !1);
        format!("  const {float} d = {radius}x{lanes}(({int}){words});\n")
    } else {
        let half = lanes / 2;
        deps.extend([need("types", half), need(&radius, half)]);
        // The even words are brought to the lower half.
        let first = list(lanes, |i| 2 * i % lanes);
        let (h, i) = (ty('f', half), ty('i', half));
        format!(
            "  const union {{ {word} v; {i} h[2]; }} u = {{FT_SHUFFLE({word}, w, w, {first})}};\n  \
             const union {{ {h} h[2]; {float} v; }} n = {{{{{radius}x{half}(u.h[0])}}}};\n  \
             const {float} d = FT_SHUFFLE({int}, n.v, n.v, {});\n",
            list(lanes, |i| i / 2)
        )
    };
    let text = format!(
        "FT_INLINE {float} {name}x{lanes}({word} w) {{\n  w >>= {shift};\n{distances}  \
         return d * ft_wave_f{bits}x{lanes}(({int}){}, ft_iota_i{bits}x{lanes}() & 1);\n}}\n",
        shuffled("w", lanes, |i| i | 1),
    );
    Definition { deps, text }
}

impl Run {
    fn define(&self, name: &str, lanes: usize) -> Definition {
        let [_, any] = self.names;
        let Run { result, bytes, .. } = self;
        let mut deps = vec![need("types", lanes)];
        let head = format!(
            "FT_INLINE {result}x{lanes} {name}x{lanes}(unsigned long key, unsigned long offset, long first) {{\n"
        );
        // Less than a block.
        if lanes * bytes < 16 {
            deps.extend([need(any, lanes), need("ft_iota_i64", lanes)]);
            let text = format!(
                "{head}  return {any}x{lanes}(key, offset, first + ft_iota_i64x{lanes}());\n}}\n"
            );
            return Definition { deps, text };
        }
        let fits = fits(lanes * bytes);
        let mut text = String::new();
        if fits != "0" {
            let (whole, needs) = self.whole(&head, lanes);
            deps.extend(needs);
            text = format!("#if {fits}\n{whole}");
        }
        if fits != "1" {
            let half = lanes / 2;
            deps.extend([need("types", half), need(self.names[0], half)]);
            let word = if fits == "0" { "#if 1" } else { "#else" };
            text.push_str(&format!(
                "{word}\n{head}  union {{ {result}x{half} h[2]; {result}x{lanes} v; }} r;\n  \
                 r.h[0] = {name}x{half}(key, offset, first);\n  \
                 r.h[1] = {name}x{half}(key, offset, first + {half});\n  return r.v;\n}}\n"
            ));
        }
        text.push_str("#endif\n");
        Definition { deps, text }
    }

    /// The function for a vector that a register holds, and what it uses.
    fn whole(&self, head: &str, lanes: usize) -> (String, Vec<Need>) {
        let Run { result, bytes, .. } = self;
        let (words, count) = (lanes * bytes / 4, lanes * bytes / 16);
        let within = 16 / bytes - 1;
        let mut deps = vec![need("types", words), need("ft_blocks_u32", words)];
        let mut value = format!("(u{}x{lanes})w", 8 * bytes);
        if let Some(transform) = self.transform {
            deps.push(need(transform, lanes));
            value = format!("{transform}x{lanes}({value})");
        }
        // A run that begins within a block lies in two that begin with one.
        let text = format!(
            "{head}  const unsigned long block = offset + ((unsigned long)(first >> {shift}));\n  \
             const int n = 1 + ((first & {within}) != 0);\n  {result}x{lanes} r[2], v;\n  \
             for (int i = 0; i < n; i++) {{\n    \
             u32x{words} w;\n    ft_blocks_u32x{words}(key, block + i * {count}, &w);\n    r[i] = v = {value};\n  }}\n  \
             if (n == 2) __builtin_memcpy(&v, (const char *)r + (first & {within}) * {bytes}, sizeof v);\n  return v;\n}}\n",
            shift = (16 / bytes).ilog2(),
        );
        (text, deps)
    }
}

pub(super) fn entries() -> impl Iterator<Item = Entry> {
    let parts = [
        Entry::new("ft_blocks_u32", |name, lanes| blocks(name, lanes, 1)),
        Entry::new("ft_four_blocks_u32", |name, lanes| blocks(name, lanes, 4)),
        Entry::new("ft_pairs_f32", |name, lanes| pairs(name, lanes, false)),
        Entry::new("ft_pairs_f64", |name, lanes| pairs(name, lanes, true)),
    ];
    let runs = RUNS.iter();
    parts
        .into_iter()
        .chain(runs.map(|run| Entry::new(run.names[0], |name, lanes| run.define(name, lanes))))
}

/// The twins by the first element's number of a draw by a vector of numbers: for that vector alone, and with an array that
/// is filled ahead.
pub(super) fn along(name: &str, deps: &[&str], text: &str) -> [Entry; 2] {
    const BASES: [&str; 3] = ["rand_u32", "rand_u64", "normal_f32"];
    [("run", "", ""), ("ahead", "void *drawn, ", "drawn, ")].map(|(kind, parameter, argument)| {
        let (mut text, mut deps) = (text.to_owned(), deps.join(" "));
        for base in BASES {
            let (any, of) = (format!("ft_{base}"), format!("ft_{kind}_{base}"));
            deps = deps.replace(&any, &of);
            text = text.replace(&format!("{any}x@("), &format!("{of}x@({argument}"));
        }
        let twin = name.replacen("ft_", &format!("ft_{kind}_"), 1);
        let text = text
            .replace("i64x@ index", "long index")
            .replace(&format!("{name}x@("), &format!("{twin}x@({parameter}"));
        let deps: Vec<&str> = deps.split(' ').collect();
        Entry::text(twin, &deps, text)
    })
}
