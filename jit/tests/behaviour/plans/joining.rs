//! Concatenations: parts written in place, copied, or computed in one kernel.

use crate::common::{dense, kept, noise, values};
use crate::{plan, run};
use ferrotrace_jit::Plan;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Stats, stats_scope};
use std::sync::Arc;

/// A plan, and the counts of a run of it that gave the results of eager mode.
fn counted(text: &str, arrays: &[Array], error: f64) -> (Arc<Plan>, Stats) {
    run(text, arrays, error);
    let plan = plan(text);
    let (result, stats) = stats_scope(|| plan.run(&mut kept(arrays), &[]));
    result.expect("it runs");
    assert_eq!(plan.draft().peak(&|_| false), stats.peak_bytes, "{text}");
    (plan, stats)
}

// ir N1, T46: sums, which would be stored, are stored in the result.
#[test]
fn stored_parts_are_written_in_place() {
    for dim in [0, 1] {
        let shape = if dim == 0 { "[600, 300]" } else { "[300, 600]" };
        let text = format!(
            "%0: f32[300, 300, 9] = input 0 [2700, 9, 1]
             %1: f32[300, 300] = sum(%0) {{dims: [2], keepdim: false}}
             %2: f32[300, 300] = max(%0) {{dims: [2], keepdim: false}}
             %3: f32{shape} = cat(%1, %2) {{dim: {dim}}}
             return %3"
        );
        let (plan, stats) = counted(&text, &[noise(&[300, 300, 9], dim)], 1e-4);
        assert_eq!((stats.peak_bytes, stats.library_calls), (600 * 300 * 4, 0));
        let explanation = plan.explain();
        assert!(explanation.calls().is_empty());
        // The input once, the result once.
        assert_eq!(
            explanation.traffic().total(),
            (300 * 300 * 9 + 600 * 300) * 4
        );
    }
}

// ir T48: what is given is copied, once; the same part again too.
#[test]
fn given_and_repeated_parts_are_copied() {
    let text = "
        %0: f32[300, 300, 9] = input 0 [2700, 9, 1]
        %1: f32[300, 300] = input 1 [300, 1]
        %2: f32[300, 300] = sum(%0) {dims: [2], keepdim: false}
        %3: f32[300, 900] = cat(%2, %1, %2) {dim: 1}
        return %3";
    let arrays = [noise(&[300, 300, 9], 1), noise(&[300, 300], 2)];
    let (plan, stats) = counted(text, &arrays, 1e-4);
    assert_eq!((stats.peak_bytes, stats.library_calls), (900 * 300 * 4, 1));
    assert_eq!(plan.explain().calls(), ["cat"]);
}

// Stacking is concatenation of what has one more dimension.
#[test]
fn stacked_parts_are_written_in_place() {
    let text = "
        %0: f32[300, 300, 9] = input 0 [2700, 9, 1]
        %1: f32[300, 300] = sum(%0) {dims: [2], keepdim: false}
        %2: f32[300, 300] = max(%0) {dims: [2], keepdim: false}
        %3: f32[300, 300, 1] = unsqueeze(%1) {dim: 2}
        %4: f32[300, 300, 1] = unsqueeze(%2) {dim: 2}
        %5: f32[300, 300, 2] = cat(%3, %4) {dim: 2}
        return %5";
    let (_, stats) = counted(text, &[noise(&[300, 300, 9], 1)], 1e-4);
    assert_eq!((stats.peak_bytes, stats.library_calls), (600 * 300 * 4, 0));
}

// Many parts are no kernel of their own; each is computed in its window.
#[test]
fn many_computed_parts_are_written_in_place() {
    let mut text = String::from("%0: f32[20, 500] = input 0 [500, 1]\n");
    for i in 1..=12 {
        text += &format!("%{i}: f32[20, 500] = mul(%0, {i}.0)\n");
    }
    let parts: Vec<String> = (1..=12).map(|i| format!("%{i}")).collect();
    text += &format!(
        "%13: f32[240, 500] = cat({}) {{dim: 0}}\nreturn %13",
        parts.join(", ")
    );
    let (_, stats) = counted(&text, &[noise(&[20, 500], 1)], 0.0);
    assert_eq!((stats.peak_bytes, stats.library_calls), (240 * 500 * 4, 0));
}

// A part that is wanted for itself, or read elsewhere, has memory of its own (ir N3).
#[test]
fn parts_with_other_users_are_copied() {
    let text = "
        %0: f32[300, 300, 9] = input 0 [2700, 9, 1]
        %1: f32[300, 300] = sum(%0) {dims: [2], keepdim: false}
        %2: f32[300, 300] = max(%0) {dims: [2], keepdim: false}
        %3: f32[600, 300] = cat(%1, %2) {dim: 0}
        return %3 %1";
    counted(text, &[noise(&[300, 300, 9], 1)], 1e-4);
}

// Cheap parts of small results stay in one kernel.
#[test]
fn small_and_pointwise_parts_are_computed_in_one_kernel() {
    for n in [8, 1000] {
        let text = format!(
            "%0: f32[{n}, 3] = input 0 [3, 1]
             %1: f32[{n}, 3] = mul(%0, 2.0)
             %2: f32[{n}, 3] = add(%0, 1.0)
             %3: f32[{n}, 6] = cat(%1, %2) {{dim: 1}}
             return %3"
        );
        let (plan, _) = counted(&text, &[noise(&[n, 3], 1)], 0.0);
        assert_eq!(plan.explain().fused_nodes().len(), 1);
        assert!(plan.explain().calls().is_empty());
    }
}

// ir T49: parts without elements, and what is concatenated being read by more.
#[test]
fn the_whole_is_read_by_kernels_and_calls() {
    let text = "
        %0: f32[90, 90, 9] = input 0 [810, 9, 1]
        %1: f32[90, 90] = sum(%0) {dims: [2], keepdim: false}
        %2: f32[90, 90] = max(%0) {dims: [2], keepdim: false}
        %3: f32[0, 90] = input 1 [90, 1]
        %4: f32[180, 90] = cat(%1, %3, %2) {dim: 0}
        %5: f32[180, 90] = matmul(%4, %1)
        %6: f32[180, 90] = tanh(%4)
        return %4 %5 %6";
    let empty = dense::<f32>(&[0, 90], &[]);
    let results = run(text, &[noise(&[90, 90, 9], 1), empty], 1e-2);
    assert_eq!(values(&results[0]).len(), 180 * 90);
}

// A table of sums with a border of zeros, and a padded product: only what surrounds them is written beside them.
#[test]
fn what_is_stored_is_written_in_its_padding() {
    for (text, shapes, calls) in [
        (
            "%0: f32[300, 200] = input 0 [200, 1]
             %1: f32[300, 200] = cumsum(%0) {dim: 1}
             %2: f32[301, 203] = pad(%1, 0.5) {pads: [[1, 0], [1, 2]]}
             return %2",
            vec![vec![300, 200]],
            1,
        ),
        (
            "%0: f32[300, 200] = input 0 [200, 1]
             %1: f32[200, 200] = input 1 [200, 1]
             %2: f32[300, 200] = matmul(%0, %1)
             %3: f32[301, 203] = pad(%2, 0.5) {pads: [[1, 0], [1, 2]]}
             return %3",
            vec![vec![300, 200], vec![200, 200]],
            2,
        ),
    ] {
        let arrays: Vec<Array> = (1..).zip(&shapes).map(|(i, s)| noise(s, i)).collect();
        run(text, &arrays, 1e-3);
        let plan = plan(text);
        let (_, stats) = stats_scope(|| plan.run(&mut kept(&arrays), &[]));
        // The result, and the padding's number.
        assert_eq!(
            (stats.peak_bytes, stats.library_calls),
            (301 * 203 * 4 + 4, calls)
        );
        let border = (301 * 203 - 300 * 200) * 4;
        let read: usize = shapes.iter().map(|s| s.iter().product::<usize>()).sum();
        let moved = 4 * (read + 300 * 200) + border;
        assert_eq!(plan.explain().traffic().total(), moved as u64);
    }
}

// Cropped, wanted for itself, padded by a tensor: all as before.
#[test]
fn what_cannot_lie_in_its_padding_is_copied() {
    for (pads, shape, outputs) in [
        ("[[1, 0], [1, 2]]", "301, 203", "%2 %1"),
        ("[[-1, 0], [1, 2]]", "299, 203", "%2"),
        ("[[0, 5]]", "305, 200", "%2"),
    ] {
        let text = format!(
            "%0: f32[300, 200] = input 0 [200, 1]
             %1: f32[300, 200] = cumsum(%0) {{dim: 1}}
             %2: f32[{shape}] = pad(%1, 0.5) {{pads: {pads}}}
             return {outputs}"
        );
        run(&text, &[noise(&[300, 200], 1)], 1e-3);
    }
}

#[test]
fn results_of_rows_are_written_in_place_whatever_their_size() {
    let text = "%0: f32[40, 30] = input 0 [30, 1]
        %1: f32[40, 1] = mean(%0) {dims: [1], keepdim: true}
        %2: f32[40, 1] = max(%0) {dims: [1], keepdim: true}
        %3: f32[40, 1] = min(%0) {dims: [1], keepdim: true}
        %4: f32[40, 3] = cat(%1, %2, %3) {dim: 1}
        return %4";
    let explanation = plan(text).explain();
    assert_eq!(explanation.fused_nodes().len(), 1, "{explanation}");
    assert_eq!(explanation.calls(), [""; 0]);
    assert_eq!(explanation.traffic().written, 4 * 40 * 3);
    run(text, &[noise(&[40, 30], 11)], 1e-5);
    // Columns' results beside each other, and parts that are no rows' results.
    let columns = "%0: f32[40, 30] = input 0 [30, 1]
        %1: f32[30] = mean(%0) {dims: [0], keepdim: false}
        %2: f32[30] = min(%0) {dims: [0], keepdim: false}
        %3: f32[60] = cat(%1, %2) {dim: 0}
        return %3";
    assert_eq!(plan(columns).explain().fused_nodes().len(), 1);
    run(columns, &[noise(&[40, 30], 12)], 1e-5);
    let mixed = "%0: f32[40, 30] = input 0 [30, 1]
        %1: f32[40, 1] = mean(%0) {dims: [1], keepdim: true}
        %2: f32[40, 31] = cat(%0, %1) {dim: 1}
        return %2";
    run(mixed, &[noise(&[40, 30], 13)], 1e-5);
}
