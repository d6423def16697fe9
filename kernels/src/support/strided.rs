//! Vectors of every k-th element of memory, by whole vectors and shuffles.

use super::memory::size;
use super::rows::{cost_by_rows, stored};

/// The stems of loads of every second, third, .. element.
pub const EVERY: [&str; 7] = [
    "evens", "thirds", "fourths", "fifths", "sixths", "sevenths", "eighths",
];

/// The stems of stores of two, three, .. vectors whose elements alternate in memory.
pub const INTERLEAVE: [&str; 15] = [
    "interleave2",
    "interleave3",
    "interleave4",
    "interleave5",
    "interleave6",
    "interleave7",
    "interleave8",
    "interleave9",
    "interleave10",
    "interleave11",
    "interleave12",
    "interleave13",
    "interleave14",
    "interleave15",
    "interleave16",
];

/// The integer vectors of a memory type's size, and their element type in C.
pub(super) fn integers(memory: &str, lanes: usize) -> (String, &'static str) {
    let (int, scalar) = match size(memory) {
        1 => ("i8", "signed char"),
        2 => ("i16", "short"),
        4 => ("i32", "int"),
        _ => ("i64", "long"),
    };
    (format!("{int}x{lanes}"), scalar)
}

/// Lanes of two vectors by their numbers in both.
pub(super) fn shuffle(ty: &str, [a, b]: [&str; 2], order: impl Iterator<Item = usize>) -> String {
    let order: Vec<String> = order.map(|lane| lane.to_string()).collect();
    format!("FT_SHUFFLE({ty}, {a}, {b}, {})", order.join(","))
}

/// Loads lanes that lie backwards from `p`, or at every `stride`-th element from it. Nothing outside the first and the last of
/// the lanes is read.
pub(super) fn strided(lanes: usize, memory: &str, stride: i64) -> String {
    let (ty, scalar) = integers(memory, lanes);
    let whole = |name: &str, offset: i64| {
        format!("  {ty} {name} = *(const {ty}u *)((const {scalar} *)p + {offset});\n")
    };
    let done = |text: String, all: &str| {
        format!("{text}  {memory}x{lanes} v = ({memory}x{lanes}){all};\n")
    };
    let Ok(stride) = usize::try_from(stride) else {
        let reversed = shuffle(&ty, ["a", "a"], (0..lanes).rev());
        return done(whole("a", 1 - lanes as i64), &reversed);
    };
    // Vector after vector; the last one ends with the last lane.
    let last = (stride - 1) * lanes.saturating_sub(1);
    let mut text = whole("a0", 0);
    let mut all = "a0".to_owned();
    for i in 1..stride {
        let start = (i * lanes).min(last);
        // Lanes that are in the vectors before stay.
        let known = if i == 1 { stride } else { 1 };
        let lane = |lane: usize| match lane * stride < i * lanes {
            true => (lane * known).min(lanes - 1),
            false => lanes + (lane * stride - start).min(lanes - 1),
        };
        let (from, to) = (format!("a{i}"), format!("b{i}"));
        text += &whole(&from, start as i64);
        let chosen = shuffle(&ty, [&all, &from], (0..lanes).map(lane));
        text += &format!("  {ty} {to} = {chosen};\n");
        all = to;
    }
    done(text, &all)
}

/// Stores vectors `v0`, `v1`, .. so that their elements alternate; `write` gives what memory holds of a vector `v`.
pub(super) fn interleaved(
    lanes: usize,
    (value, memory): (&str, &str),
    count: usize,
    write: &str,
) -> String {
    let (ty, scalar) = integers(memory, lanes);
    let mut text = String::new();
    for k in 0..count {
        text += &format!("  {ty} a{k}; {{ {value}x{lanes} v = v{k}; a{k} = ({ty})({write}); }}\n");
    }
    if cost_by_rows(count, lanes) < count {
        return text + &stored(lanes, memory, count);
    }
    for out in 0..count {
        let source = |lane: usize| ((out * lanes + lane) % count, (out * lanes + lane) / count);
        let mut all = String::new();
        for k in 0..count {
            let of_this = (0..lanes).any(|lane| source(lane).0 == k);
            if !of_this {
                continue;
            }
            let from = format!("a{k}");
            let lane = |lane: usize| match (source(lane), all.is_empty()) {
                ((of, at), _) if of == k => lanes + at,
                ((of, _), false) if of < k => lane,
                _ => 0,
            };
            let before = if all.is_empty() { &from } else { &all };
            let chosen = shuffle(&ty, [before, &from], (0..lanes).map(lane));
            let to = format!("b{out}_{k}");
            text += &format!("  {ty} {to} = {chosen};\n");
            all = to;
        }
        let place = format!("*({ty}u *)(({scalar} *)p + {})", out * lanes);
        text += &format!("  {place} = {all};\n");
    }
    text
}
