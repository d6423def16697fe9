//! Draws of elements that follow one another, by the first one's number, from an array of the caller (`ft_ahead_*`): four
//! vectors are drawn at once where a call goes on where the last ones ended. Their rounds fill the pipelines in turns, and
//! two vectors of normal numbers share a vector of distances and angles. A call that goes on elsewhere draws one vector.

use super::super::{Definition, Entry, need};
use super::run::{fits, list};

/// The vectors of the array, behind which its first element and the next call's are noted: all zero at first.
const VECTORS: usize = 4;

/// A kind of draw by what fills the array: its name, the type of its elements, and their bytes.
struct Ahead(&'static str, &'static str, usize);

const KINDS: [Ahead; 4] = [
    Ahead("rand_u32", "u32", 4),
    Ahead("rand_u64", "u64", 8),
    Ahead("normal_f32", "f32", 4),
    Ahead("normal_f64", "f64", 8),
];

impl Ahead {
    /// `ft_fill_*`: fills the array from a block on.
    fn fill(&self, name: &str, lanes: usize) -> Definition {
        let &Ahead(kind, ty, bytes) = self;
        let vector = format!("{ty}x{lanes}");
        let mut deps = vec![need("types", lanes)];
        // Less than a block is not drawn ahead.
        if lanes * bytes < 16 {
            return Definition {
                deps,
                text: String::new(),
            };
        }
        let fits = fits(lanes * bytes);
        let head = format!(
            "static __attribute__((noinline, unused)) void {name}x{lanes}({vector} *to, unsigned long key, \
             unsigned long block) {{\n"
        );
        let mut text = String::new();
        if fits != "0" {
            let words = lanes * bytes / 4;
            deps.extend([need("types", words), need("ft_four_blocks_u32", words)]);
            let body = match kind.starts_with("normal") {
                true => self.normal(lanes, &mut deps),
                false => format!("  ft_four_blocks_u32x{words}(key, block, (u32x{words} *)to);\n"),
            };
            text = format!("#if {fits}\n{head}{body}}}\n");
        }
        if fits != "1" {
            let half = lanes / 2;
            deps.push(need(name, half));
            let word = if fits == "0" { "#if 1" } else { "#else" };
            text.push_str(&format!(
                "{word}\n{head}  {name}x{half}(({ty}x{half} *)to, key, block);\n  \
                 {name}x{half}(({ty}x{half} *)to + {VECTORS}, key, block + {});\n}}\n",
                half * bytes / 16 * VECTORS
            ));
        }
        text.push_str("#endif\n");
        Definition { deps, text }
    }

    /// Normal numbers, two vectors from the words of two: the cosines of a vector of angles, and their sines, in turns.
    fn normal(&self, lanes: usize, deps: &mut Vec<super::super::Need>) -> String {
        let &Ahead(_, ty, bytes) = self;
        for part in [
            "radius",
            "nearest_turns",
            "angle",
            "sine",
            "cosine",
            "turned",
        ] {
            deps.push(need(&format!("ft_{part}_{ty}"), lanes));
        }
        let (words, shift) = (lanes * bytes / 4, if bytes == 8 { 11 } else { 8 });
        let (word, int) = (
            format!("u{}x{lanes}", 8 * bytes),
            format!("i{}x{lanes}", 8 * bytes),
        );
        let of_both = |odd: usize| list(lanes, |i| 2 * i + odd);
        let in_turns = |from: usize| list(lanes, |i| from + i / 2 + i % 2 * lanes);
        format!(
            "  {word} w[{VECTORS}];\n  ft_four_blocks_u32x{words}(key, block, (u32x{words} *)w);\n  \
             for (int i = 0; i < {VECTORS}; i += 2) {{\n    \
             const {int} u = ({int})(FT_SHUFFLE({word}, w[i], w[i + 1], {}) >> {shift});\n    \
             const {int} v = ({int})(FT_SHUFFLE({word}, w[i], w[i + 1], {}) >> {shift});\n    \
             const {ty}x{lanes} d = ft_radius_{ty}x{lanes}(u), r = ft_angle_{ty}x{lanes}(v);\n    \
             const {int} s = ({int})ft_sine_{ty}x{lanes}(r), c = ({int})ft_cosine_{ty}x{lanes}(r);\n    \
             const {int} k = ft_nearest_turns_{ty}x{lanes}(v);\n    \
             const {ty}x{lanes} x = d * ft_turned_{ty}x{lanes}(k, s, c), y = d * ft_turned_{ty}x{lanes}(k - 1, s, c);\n    \
             to[i] = FT_SHUFFLE({int}, x, y, {});\n    to[i + 1] = FT_SHUFFLE({int}, x, y, {});\n  }}\n",
            of_both(0),
            of_both(1),
            in_turns(0),
            in_turns(lanes / 2),
        )
    }

    /// `ft_ahead_*`: elements of the array, or the next ones.
    fn define(&self, name: &str, lanes: usize) -> Definition {
        let &Ahead(kind, ty, bytes) = self;
        let vector = format!("{ty}x{lanes}");
        let run = format!("ft_run_{kind}");
        let deps = vec![
            need("types", lanes),
            need(&run, lanes),
            need(&format!("ft_fill_{kind}"), lanes),
        ];
        let arguments = "unsigned long key, unsigned long offset, long first";
        if lanes * bytes < 16 {
            let text = format!(
                "FT_INLINE {vector} {name}x{lanes}(void *drawn, {arguments}) {{ return {run}x{lanes}(key, offset, first); }}\n"
            );
            return Definition { deps, text };
        }
        let block = 16 / bytes;
        let text = format!(
            "static __attribute__((noinline, unused)) {vector} ft_next_{kind}x{lanes}({vector} *drawn, {arguments}) {{\n  \
             long *noted = (long *)(drawn + {VECTORS});\n  \
             if (first != noted[1]) {{\n    noted[1] = first + {lanes};\n    \
             return {run}x{lanes}(key, offset, first);\n  }}\n  \
             const long within = first & {};\n  \
             ft_fill_{kind}x{lanes}(drawn, key, offset + ((unsigned long)(first >> {})));\n  \
             noted[0] = (first - within) ^ 1L << 63;\n  \
             noted[1] = first + (within ? {} : {});\n  \
             return *({vector}u *)((char *)drawn + within * {bytes});\n}}\n\
             FT_INLINE {vector} {name}x{lanes}(void *drawn, {arguments}) {{\n  \
             const unsigned long at = first - (*(long *)(({vector} *)drawn + {VECTORS}) ^ 1L << 63);\n  \
             if (at > {}) return ft_next_{kind}x{lanes}(drawn, key, offset, first);\n  \
             return *({vector}u *)((char *)drawn + at * {bytes});\n}}\n",
            block - 1,
            block.ilog2(),
            (VECTORS - 1) * lanes,
            VECTORS * lanes,
            (VECTORS - 1) * lanes,
        );
        Definition { deps, text }
    }
}

pub(super) fn entries() -> impl Iterator<Item = Entry> {
    KINDS.iter().flat_map(|kind| {
        [
            Entry::new(format!("ft_fill_{}", kind.0), |name, lanes| {
                kind.fill(name, lanes)
            }),
            Entry::new(format!("ft_ahead_{}", kind.0), |name, lanes| {
                kind.define(name, lanes)
            }),
        ]
    })
}
