//! Kernels that write a part of a tensor: over what is there, in the same memory where nothing else needs it.

use super::*;
use ferrotrace_jit::target::Target;

/// As for a device, with its own bound of what is written in place.
fn hopper() -> Policy {
    let mut policy = capable(90);
    policy.target.window_part = Target::cuda(90, 132, 0).window_part;
    policy
}

/// The kernels of a graph that update its first input, each of which may do so in place.
fn in_place(text: &str) -> Vec<Emitted> {
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
    let found = kernels_with(&graph, &hopper());
    for kernel in &found {
        let written = kernel.updates.iter().map(|update| update.node);
        let may = |node| kernel.in_place.contains(&(node, Source::Input(0)));
        assert!(written.clone().all(may), "{text}");
        assert_eq!(written.count(), 1, "{text}: {}", kernel.source.body);
    }
    found
}

/// A row at a position that is a tensor, of every combination and several types; a column; what computes the row joins
/// the kernel; a number for each row at a place of its own.
#[test]
fn rows_at_positions_are_written_in_place() {
    let mut texts = BTreeSet::new();
    let mut one = |text: &str| {
        let found = in_place(text);
        assert_eq!(found.len(), 1, "{text}");
        texts.insert(found[0].source.text());
        let checks = checks_of(&found[0]).expect("the position is an input").0;
        texts.extend(checks.iter().map(|kernel| kernel.source.text()));
    };
    one("%0: bf16[8, 1024, 64] = input 0 [65536, 64, 1]
         %1: bf16[8, 1, 64] = input 1 [64, 64, 1]
         %2: i64[1] = input 2 [1]
         %3: bf16[8, 1, 64] = gelu(%1)
         %4: bf16[8, 1024, 64] = index_put(%0, %3, %2) {axes: [1], at: 1, accumulate: false}
         return %4");
    for dtype in ["f32", "f64", "i32", "u8"] {
        one(&format!(
            "%0: {dtype}[100, 33] = input 0 [33, 1]
             %1: {dtype}[33] = input 1 [1]
             %2: i64[] = input 2 []
             %3: {dtype}[100, 33] = index_put(%0, %1, %2) {{axes: [0], at: 0, accumulate: true}}
             return %3"
        ));
    }
    for mode in ["sum", "prod", "amax", "amin", "assign"] {
        one(&format!(
            "%0: f32[300, 40] = input 0 [40, 1]
             %1: f32[300, 1] = input 1 [1, 1]
             %2: i64[300, 1] = input 2 [1, 1]
             %3: f32[300, 40] = scatter(%0, %2, %1) {{dim: 1, mode: \"{mode}\", include_self: true}}
             return %3"
        ));
    }
    if available() {
        compile_all_for(HOPPER, texts);
    }
}

/// A slice that is a small part of its tensor; one that is most of it is written with the rest.
#[test]
fn small_slices_are_written_in_place() {
    let slice = |end: usize| {
        format!(
            "%0: f32[100, 40] = input 0 [40, 1]
             %1: f32[{end}, 40] = input 1 [40, 1]
             %2: f32[{end}, 40] = exp(%1)
             %3: f32[100, 40] = slice_assign(%0, %2) {{dim: 0, start: 0, end: {end}, step: 1}}
             return %3"
        )
    };
    let found = in_place(&slice(7));
    assert_eq!(found.len(), 1);
    let graph: Graph = slice(60).parse().expect("it is right");
    let whole = kernels_with(&graph, &hopper());
    assert!(whole.iter().all(|kernel| kernel.updates.is_empty()));
    if available() {
        let texts = found.iter().chain(&whole).map(|k| k.source.text());
        compile_all_for(HOPPER, texts.collect());
    }
}
