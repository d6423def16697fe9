//! Transposition of a square of W by W elements of memory in registers: log₂ W steps. In vectors of 16 bytes each step
//! interleaves the vectors of the first half with those of the second; in larger ones, of which processors interleave
//! parts alone, each exchanges halves of the vectors whose numbers differ in one bit.

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

/// The lanes of the lower or the upper halves of two vectors, one of each in turn.
fn interleave(lanes: usize, upper: bool) -> String {
    let first = if upper { lanes / 2 } else { 0 };
    let pair = |i: usize| format!("{},{}", first + i, lanes + first + i);
    let list: Vec<String> = (0..lanes / 2).map(pair).collect();
    list.join(",")
}

/// Transposes the vectors `a0`, `a1`, .., and gives the names of the results.
fn interleaved(text: &mut String, vector: &str, lanes: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..lanes).map(|k| format!("a{k}")).collect();
    for step in 0..lanes.ilog2() {
        let half = lanes / 2;
        let name = |k: usize| format!("b{step}_{k}");
        for k in 0..lanes {
            let (a, b) = (&names[k / 2], &names[k / 2 + half]);
            let order = interleave(lanes, k % 2 == 1);
            let _ = writeln!(
                text,
                "  {vector} {} = FT_SHUFFLE({vector}, {a}, {b}, {order});",
                name(k)
            );
        }
        names = (0..lanes).map(name).collect();
    }
    names
}

/// Transposes the vectors `a0`, `a1`, .. in place, and gives their names.
fn exchanged(text: &mut String, vector: &str, lanes: usize) -> Vec<String> {
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
    (0..lanes).map(|k| format!("a{k}")).collect()
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
    let names = match lanes * super::memory::size(ty) {
        16 => interleaved(&mut text, &vector, lanes),
        _ => exchanged(&mut text, &vector, lanes),
    };
    for (k, row) in names.iter().enumerate() {
        let _ = writeln!(text, "  *({memory} *)(({scalar} *)q + {k} * to) = {row};");
    }
    text.push_str("}\n");
    Definition {
        deps: vec![need("types", lanes)],
        text,
    }
}

/// `name(p, stride, q, to, n, m)` transposes the first `n` elements of the rows `p + k·stride`, k < `m`, and stores W whole vectors
/// at `q + i·to`; strides are in elements. It reads no other element.
fn transpose_edge(name: &str, ty: &str, scalar: &str, lanes: usize) -> Definition {
    let load = need(&format!("ft_loadn_{ty}"), lanes);
    let whole = need(&format!("ft_transpose_{ty}"), lanes);
    let text = format!(
        "static __attribute__((noinline, unused)) void {name}x{lanes}(const void *p, long long stride, void *q, \
         long long to, long long n, long long m) {{\n  {ty}x{lanes} a[{rows}] = {{}};\n  \
         for (long long k = 0; k < m && k < {lanes}; k++) {{\n    \
         const {scalar} *from = (const {scalar} *)p + k * stride;\n    \
         if (n < {lanes}) a[k] = {}x{lanes}(from, n);\n    else a[k] = *(const {ty}x{lanes}u *)from;\n  }}\n  \
         {}x{lanes}(a, {lanes}, q, to);\n}}\n",
        load.name,
        whole.name,
        rows = lanes.max(1),
    );
    Definition {
        deps: vec![need("types", lanes), load, whole],
        text,
    }
}

pub(super) fn entries() -> Vec<Entry> {
    let types = [
        ("i8", "signed char"),
        ("i16", "short"),
        ("i32", "int"),
        ("i64", "long"),
    ];
    let whole = types.map(|(ty, scalar)| {
        Entry::new(format!("ft_transpose_{ty}"), move |name, lanes| {
            transpose(name, ty, scalar, lanes)
        })
    });
    let edge = types.map(|(ty, scalar)| {
        Entry::new(format!("ft_transpose_edge_{ty}"), move |name, lanes| {
            transpose_edge(name, ty, scalar, lanes)
        })
    });
    whole.into_iter().chain(edge).collect()
}

#[cfg(test)]
mod tests {
    use super::{exchange, interleave};

    fn order(list: String) -> Vec<usize> {
        list.split(',').map(|i| i.parse().unwrap()).collect()
    }

    #[test]
    fn interleaving_transposes() {
        for lanes in [2usize, 4, 8, 16] {
            let mut rows: Vec<Vec<usize>> = (0..lanes)
                .map(|k| (0..lanes).map(|l| k * lanes + l).collect())
                .collect();
            for _ in 0..lanes.ilog2() {
                let pair =
                    |k: usize| [rows[k / 2].clone(), rows[k / 2 + lanes / 2].clone()].concat();
                let row = |k: usize| {
                    let both = pair(k);
                    let from = order(interleave(lanes, k % 2 == 1));
                    from.iter().map(|&i| both[i]).collect()
                };
                rows = (0..lanes).map(row).collect();
            }
            for (k, row) in rows.iter().enumerate() {
                let want: Vec<usize> = (0..lanes).map(|l| l * lanes + k).collect();
                assert_eq!(*row, want);
            }
        }
    }

    /// The steps on numbers: element (k, l) is k·W + l.
    #[test]
    fn the_steps_transpose() {
        for lanes in [2usize, 4, 8, 16, 32] {
            let mut rows: Vec<Vec<usize>> = (0..lanes)
                .map(|k| (0..lanes).map(|l| k * lanes + l).collect())
                .collect();
            let mut bit = 1;
            while bit < lanes {
                let lists = [false, true].map(|second| order(exchange(lanes, bit, second)));
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
