//! Transposition of a square of W by W elements of memory in registers: log₂ W steps, each exchanging halves of the
//! vectors whose numbers differ in one bit.

use super::{Definition, Entry, need};
use std::fmt::Write;

/// The lanes of a pair of vectors, `bit` apart, that go to the first vector or the second.
pub(super) fn exchange(lanes: usize, bit: usize, second: bool) -> String {
    let from = |lane: usize| match (lane & bit != 0, second) {
        (false, false) => lane,
        (true, false) => lanes + (lane ^ bit),
        (false, true) => lane ^ bit,
        (true, true) => lanes + lane,
    };
    let list: Vec<String> = (0..lanes).map(|lane| from(lane).to_string()).collect();
    list.join(",")
}

/// `name(p, stride, q, to)`: row i of the result, at `q + i·to`, is column i of the rows at `p + k·stride`; strides are
/// in elements.
fn transpose(name: &str, ty: &str, scalar: &str, lanes: usize) -> Definition {
    let (vector, memory) = (format!("{ty}x{lanes}"), format!("{ty}x{lanes}u"));
    let mut text = format!(
        "FT_INLINE void {name}x{lanes}(const void *p, long long stride, void *q, long long to) {{\n"
    );
    for k in 0..lanes {
        let _ = writeln!(
            text,
            "  {vector} a{k} = *(const {memory} *)((const {scalar} *)p + {k} * stride);"
        );
    }
    let _ = writeln!(text, "  {vector} t;");
    let mut bit = 1;
    while bit < lanes {
        let (first, second) = (exchange(lanes, bit, false), exchange(lanes, bit, true));
        for k in (0..lanes).filter(|k| k & bit == 0) {
            let pair = k | bit;
            let _ = writeln!(
                text,
                "  t = FT_SHUFFLE({vector}, a{k}, a{pair}, {first}); \
                 a{pair} = FT_SHUFFLE({vector}, a{k}, a{pair}, {second}); a{k} = t;"
            );
        }
        bit *= 2;
    }
    for k in 0..lanes {
        let _ = writeln!(text, "  *({memory} *)(({scalar} *)q + {k} * to) = a{k};");
    }
    text.push_str("}\n");
    Definition {
        deps: vec![need("types", lanes)],
        text,
    }
}

pub(super) fn entries() -> Vec<Entry> {
    [("i16", "short"), ("i32", "int"), ("i64", "long")]
        .into_iter()
        .map(|(ty, scalar)| {
            Entry::new(format!("ft_transpose_{ty}"), move |name, lanes| {
                transpose(name, ty, scalar, lanes)
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::exchange;

    /// The steps on numbers: element (k, l) is k·W + l.
    #[test]
    fn the_steps_transpose() {
        for lanes in [2usize, 4, 8, 16, 32] {
            let mut rows: Vec<Vec<usize>> = (0..lanes)
                .map(|k| (0..lanes).map(|l| k * lanes + l).collect())
                .collect();
            let mut bit = 1;
            while bit < lanes {
                let lists = [false, true].map(|second| -> Vec<usize> {
                    let list = exchange(lanes, bit, second);
                    list.split(',').map(|i| i.parse().unwrap()).collect()
                });
                for k in (0..lanes).filter(|k| k & bit == 0) {
                    let both = [rows[k].clone(), rows[k | bit].clone()].concat();
                    for (row, list) in [k, k | bit].into_iter().zip(&lists) {
                        rows[row] = list.iter().map(|&i| both[i]).collect();
                    }
                }
                bit *= 2;
            }
            for (k, row) in rows.iter().enumerate() {
                let want: Vec<usize> = (0..lanes).map(|l| l * lanes + k).collect();
                assert_eq!(*row, want);
            }
        }
    }
}
