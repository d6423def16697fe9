//! Rows of a few elements that adjoin in memory, as the vectors of their columns and back, by transposition in registers:
//! log₂ W steps, each exchanging halves of the vectors whose numbers differ in one bit.

use super::strided::{integers, shuffle};
use super::transpose::exchange;
use std::fmt::Write;

/// The stems of loads of the two, three, .. columns of adjoining rows.
pub const ROWS: [&str; 15] = [
    "rows2", "rows3", "rows4", "rows5", "rows6", "rows7", "rows8", "rows9", "rows10", "rows11",
    "rows12", "rows13", "rows14", "rows15", "rows16",
];

/// What moving a column of rows of so many costs by transposition, about, in operations on vectors of so many lanes.
pub fn cost_by_rows(columns: usize, lanes: usize) -> usize {
    let block = columns.min(lanes).max(1);
    lanes.max(1).ilog2() as usize + lanes.div_ceil(block) + 1
}

/// Exchanges the vectors of a square, one bit of their numbers after another. A vector that is not known has no lane
/// that counts. Gives the names of all, which `name` makes unlike those of other squares.
fn exchanged(
    text: &mut String,
    ty: &str,
    (lanes, name): (usize, &str),
    mut known: Vec<Option<String>>,
    bits: impl Iterator<Item = usize>,
) -> Vec<Option<String>> {
    for bit in bits {
        for k in (0..lanes).filter(|k| k & bit == 0) {
            let pair = k | bit;
            let (a, b) = match (&known[k], &known[pair]) {
                (Some(a), Some(b)) => (a.clone(), b.clone()),
                (Some(a), None) | (None, Some(a)) => (a.clone(), a.clone()),
                (None, None) => continue,
            };
            for (at, second) in [(k, false), (pair, true)] {
                let to = format!("{name}_{bit}_{at}");
                let order = exchange(lanes, bit, second);
                let _ = writeln!(text, "  {ty} {to} = FT_SHUFFLE({ty}, {a}, {b}, {order});");
                known[at] = Some(to);
            }
        }
    }
    known
}

/// Reads W adjoining rows of `count` elements from `p`, no element beyond them, and stores the vector of each column in
/// the array `q`; `read` gives the value of what memory holds in `v`. Scalars, which have no lanes, have no such text.
pub(super) fn columns(
    lanes: usize,
    (value, memory): (&str, &str),
    count: usize,
    read: &str,
) -> String {
    let (ty, scalar) = integers(memory, lanes);
    let mut text = String::new();
    let all = lanes * count;
    for first in (0..count).step_by(lanes.max(1)) {
        let wide = lanes.min(count - first);
        let rows = (0..lanes).map(|k| {
            let start = k * count + first;
            let from = start.min(all - lanes);
            let name = format!("r{first}_{k}");
            let whole = format!("*(const {ty}u *)((const {scalar} *)p + {from})");
            let _ = writeln!(text, "  {ty} {name} = {whole};");
            // The last lanes that are read, moved to where the row starts.
            if from < start {
                let order = (0..lanes).map(|lane| (lane + start - from).min(lanes - 1));
                let moved = shuffle(&ty, [&name, &name], order);
                let _ = writeln!(text, "  {name} = {moved};");
            }
            Some(name)
        });
        let rows: Vec<Option<String>> = rows.collect();
        let bits = std::iter::successors(Some(lanes / 2), |bit| Some(bit / 2));
        let bits = bits.take_while(|&bit| bit > 0);
        let columns = exchanged(&mut text, &ty, (lanes, &format!("c{first}")), rows, bits);
        for (k, column) in columns.into_iter().take(wide).enumerate() {
            let Some(column) = column else { continue };
            let at = first + k;
            let _ = writeln!(
                text,
                "  {{ {memory}x{lanes} v = ({memory}x{lanes}){column}; (({value}x{lanes} *)q)[{at}] = {read}; }}"
            );
        }
    }
    text
}

/// Stores vectors `a0`, `a1`, .. of memory's integers as the columns of W adjoining rows.
pub(super) fn stored(lanes: usize, memory: &str, count: usize) -> String {
    let (ty, scalar) = integers(memory, lanes);
    let mut text = String::new();
    let mut blocks = Vec::new();
    for first in (0..count).step_by(lanes.max(1)) {
        let known = |k: usize| (first + k < count).then(|| format!("a{}", first + k));
        let known: Vec<Option<String>> = (0..lanes).map(known).collect();
        let bits = std::iter::successors(Some(1), |bit| Some(bit * 2));
        let bits = bits.take_while(|&bit| bit < lanes);
        let rows = exchanged(&mut text, &ty, (lanes, &format!("r{first}")), known, bits);
        blocks.push((first, rows));
    }
    // In order: what a row's vector writes beyond the row is written again by those behind it.
    for k in 0..lanes {
        for (first, rows) in &blocks {
            let Some(row) = &rows[k] else { continue };
            let start = k * count + first;
            let place = format!("(({scalar} *)p + {start})");
            if start + lanes <= lanes * count {
                let _ = writeln!(text, "  *({ty}u *){place} = {row};");
            } else {
                let wide = lanes.min(count - first);
                let _ = writeln!(
                    text,
                    "  __builtin_memcpy({place}, &{row}, {wide} * sizeof({scalar}));"
                );
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{columns, stored};

    /// Every element lies in some statement, and no place beyond the rows is named.
    #[test]
    fn places_stay_within_the_rows() {
        let starts = |text: &str| -> Vec<usize> {
            let parts = text.split("*)p + ").skip(1);
            parts
                .map(|part| {
                    let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
                    digits.parse().unwrap()
                })
                .collect()
        };
        for lanes in [2, 4, 8, 16] {
            for count in 2..=16 {
                let loads = columns(lanes, ("f32", "f32"), count, "v");
                assert!(starts(&loads).iter().all(|s| s + lanes <= lanes * count));
                let stores = stored(lanes, "f32", count);
                let starts = starts(&stores);
                assert!(starts.is_sorted() && starts.len() == lanes * count.div_ceil(lanes));
            }
        }
    }
}
