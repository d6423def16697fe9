//! How many kernels programs become.

use super::{kernels, plan, run};
use crate::common::{filled, noise};
use ferrotrace_jit::Hint;
use ferrotrace_jit::schedule::{Mismatch, Refusal};
use ferrotrace_runtime::{DType, stats_scope};

// scheduler §21.1
#[test]
fn a_pointwise_expression_is_one_kernel() {
    let text = "
        %0: f32[1000] = input 0 [1]
        %1: f32[1000] = input 1 [1]
        %2: f32[1000] = input 2 [1]
        %3: f32[1000] = mul(%0, %1)
        %4: f32[1000] = add(%3, %2)
        %5: f32[1000] = relu(%4)
        return %5";
    assert_eq!(kernels(text), 1);
    run(
        text,
        &[noise(&[1000], 1), noise(&[1000], 2), noise(&[1000], 3)],
        0.0,
    );
}

// scheduler §21.2, codegen D T13
#[test]
fn softmax_is_one_kernel_of_any_row_length() {
    for (rows, cols) in [
        (3, 7),
        (40, 64),
        (64, 1000),
        (5, 1024),
        (3, 1025),
        (5, 100_000),
    ] {
        for dim in [0, 1] {
            let text = format!(
                "%0: f32[{rows}, {cols}] = input 0 [{cols}, 1]
                 %1: f32[{rows}, {cols}] = softmax(%0) {{dim: {dim}}}
                 %2: f32[{rows}, {cols}] = log_softmax(%0) {{dim: {dim}}}
                 return %1"
            );
            assert_eq!(kernels(&text), 1, "{rows}x{cols} along {dim}");
            run(&text, &[noise(&[rows, cols], 4)], 1e-6);
        }
    }
}

// codegen D T14
#[test]
fn layer_norm_is_one_kernel_without_intermediates() {
    for (rows, cols) in [(3, 7), (64, 1000), (40, 64)] {
        let text = format!(
            "%0: f32[{rows}, {cols}] = input 0 [{cols}, 1]
             %1: f32[{cols}] = input 1 [1]
             %2: f32[{rows}, {cols}] = layer_norm(%0, %1, %1, $0=1e-5) {{n: 1, weight: true, bias: true}}
             return %2"
        );
        let explanation = plan(&text).explain();
        assert_eq!(explanation.fused_nodes().len(), 1);
        assert!(explanation.fused_nodes()[0].loops <= 3);
        run(&text, &[noise(&[rows, cols], 5), noise(&[cols], 6)], 1e-4);
    }
}

// scheduler §21.4
#[test]
fn a_sum_and_a_maximum_of_one_input_share_a_kernel() {
    let text = "
        %0: f32[64, 100] = input 0 [100, 1]
        %1: f32[64] = sum(%0) {dims: [1], keepdim: false}
        %2: f32[64] = max(%0) {dims: [1], keepdim: false}
        return %1 %2";
    assert_eq!(kernels(text), 1);
    run(text, &[noise(&[64, 100], 7)], 1e-3);
}

// scheduler §21.8
#[test]
fn nothing_is_fused_around_a_library_call() {
    let text = "
        %0: f32[32, 32] = input 0 [32, 1]
        %1: f32[32, 32] = input 1 [32, 1]
        %2: f32[32, 32] = add(%0, 1.0)
        %3: f32[32, 32] = sort(%2) {dim: 0, descending: false}
        %4: f32[32, 32] = mul(%2, %3)
        %5: f32[32, 32] = mul(%4, %1)
        return %5";
    let explanation = plan(text).explain();
    assert_eq!(
        (explanation.fused_nodes().len(), explanation.calls()),
        (2, ["sort"].as_slice())
    );
    assert!(
        explanation
            .refusals()
            .iter()
            .any(|r| r.2 == Refusal::NodeBetween)
    );
    run(text, &[noise(&[32, 32], 8), noise(&[32, 32], 9)], 1e-3);
}

// scheduler §21.9
#[test]
fn fusions_never_make_a_cycle_through_two_calls() {
    let text = "
        %0: f32[8, 8] = input 0 [8, 1]
        %1: f32[8, 8] = input 1 [8, 1]
        %2: f32[8, 8] = add(%0, 1.0)
        %3: f32[8, 8] = mul(%1, 2.0)
        %4: f32[8, 8] = matmul(%2, %0)
        %5: f32[8, 8] = matmul(%3, %1)
        %6: f32[8, 8] = add(%4, %3)
        %7: f32[8, 8] = sub(%5, %2)
        return %6 %7";
    run(text, &[noise(&[8, 8], 10), noise(&[8, 8], 11)], 1e-3);
}

// scheduler §21.30
#[test]
fn sharing_a_number_is_no_reason_to_fuse() {
    let pair = |n: usize| {
        format!(
            "%0: f32[{n}] = input 0 [1]
             %1: f32[50, {n}] = input 1 [{n}, 1]
             %2: f32[50, {n}] = input 2 [{n}, 1]
             %3: f32[50, {n}] = add(%1, %0)
             %4: f32[50, {n}] = add(%2, %0)
             return %3 %4"
        )
    };
    assert_eq!(kernels(&pair(2)), 2);
    assert!(
        plan(&pair(2))
            .explain()
            .refusals()
            .iter()
            .any(|r| r.2 == Refusal::NoSharedData)
    );
    assert_eq!(kernels(&pair(3)), 1);
    let vertical = "
        %0: f32[100] = input 0 [1]
        %1: f32[] = sum(%0) {dims: [0], keepdim: false}
        %2: f32[] = mul(%1, 2.0)
        return %2";
    assert_eq!(kernels(vertical), 1);
}

// scheduler §21.29
#[test]
fn groups_have_at_most_64_members() {
    let mut text = String::from("%0: f32[100] = input 0 [1]\n");
    let mut outputs = String::from("return");
    for i in 1..=100 {
        text += &format!("%{i}: f32[100] = add(%0, {i}.0)\n");
        outputs += &format!(" %{i}");
    }
    let explanation = plan(&(text.clone() + &outputs)).explain();
    assert!(explanation.fused_nodes().len() >= 2);
    assert!(
        explanation
            .fused_nodes()
            .iter()
            .all(|f| f.nodes.len() <= 64)
    );
    run(&(text + &outputs), &[noise(&[100], 12)], 0.0);
}

// codegen D T01
#[test]
fn reshapes_between_pointwise_operators_leave_one_kernel() {
    let text = "
        %0: f32[24] = input 0 [1]
        %1: f32[4, 3, 2] = input 1 [6, 2, 1]
        %2: f32[4, 6] = input 2 [6, 1]
        %3: f32[24] = add(%0, 1.0)
        %4: f32[4, 3, 2] = reshape(%3) {to: [4, 3, 2]}
        %5: f32[4, 3, 2] = mul(%4, %1)
        %6: f32[4, 6] = reshape(%5) {to: [4, 6]}
        %7: f32[4, 6] = sub(%6, %2)
        return %7";
    assert_eq!(kernels(text), 1);
    run(
        text,
        &[noise(&[24], 13), noise(&[4, 3, 2], 14), noise(&[4, 6], 15)],
        0.0,
    );
}

// ir T18
#[test]
fn short_reductions_need_no_second_pass() {
    let text = "
        %0: f32[1000, 4] = input 0 [4, 1]
        %1: f32[1000] = sum(%0) {dims: [1], keepdim: false}
        %2: f32[1000] = add(%1, 1.0)
        return %2";
    assert_eq!(kernels(text), 1);
    run(text, &[noise(&[1000, 4], 16)], 1e-5);
    let channels = "
        %0: f32[1000, 3] = input 0 [3, 1]
        %1: i64[1000] = argmax(%0) {dims: [1], keepdim: false}
        %2: i64[1000] = add(%1, 1)
        return %2";
    assert_eq!(kernels(channels), 1);
    run(channels, &[noise(&[1000, 3], 17)], 0.0);
}

// codegen D T36
#[test]
fn equal_subexpressions_are_computed_once() {
    let text = "
        %0: f32[1000] = input 0 [1]
        %1: f32[1000] = exp(%0)
        %2: f32[1000] = add(%1, 1.0)
        %3: f32[1000] = exp(%0)
        %4: f32[1000] = add(%3, 2.0)
        %5: f32[1000] = mul(%2, %4)
        return %5";
    let plan = plan(text);
    let loads = plan.explain().fused_nodes()[0].text.matches("load").count();
    let exps = plan.explain().fused_nodes()[0]
        .text
        .matches("exp v")
        .count();
    assert_eq!((loads, exps), (1, 1));
}

// ir T40: pure unused compute launches nothing.
#[test]
fn unused_nodes_are_never_computed() {
    let text = "
        %0: f32[1000] = input 0 [1]
        %1: f32[1000] = exp(%0)
        %2: f32[] = sum(%1) {dims: [0], keepdim: false}
        %3: f32[1000] = add(%0, 1.0)
        return %3";
    let explanation = plan(text).explain();
    assert_eq!(explanation.fused_nodes().len(), 1);
    assert!(!explanation.fused_nodes()[0].text.contains("exp"));
}

// ir T21, T25, T46, T50, T52, T92
#[test]
fn views_generated_operands_and_parts_fuse() {
    let one = |text: &str, shapes: &[&[usize]]| {
        assert_eq!(kernels(text), 1, "{text}");
        let arrays: Vec<_> = shapes
            .iter()
            .enumerate()
            .map(|(i, s)| noise(s, i as u64))
            .collect();
        run(text, &arrays, 1e-5);
    };
    one(
        "%0: f32[1000] = input 0 [1]
         %1: f32[1000] = add(%0, 1.0)
         %2: f32[500] = slice(%1) {dim: 0, start: 0, end: 1000, step: 2}
         %3: f32[500] = mul(%2, 3.0)
         return %3",
        &[&[1000]],
    );
    one(
        "%0: f32[70] = input 0 [1]
         %1: f32[70] = input 1 [1]
         %2: f32[70] = flip(%0) {dims: [0]}
         %3: f32[70] = add(%2, %1)
         return %3",
        &[&[70], &[70]],
    );
    one(
        "%0: f32[70] = input 0 [1]
         %1: f32[30] = input 1 [1]
         %2: f32[20] = input 2 [1]
         %3: f32[70] = mul(%0, 2.0)
         %4: f32[30] = add(%1, 1.0)
         %5: f32[120] = cat(%3, %4, %2) {dim: 0}
         return %5",
        &[&[70], &[30], &[20]],
    );
    one(
        "%0: f32[30, 70] = input 0 [70, 1]
         %1: f32[70] = arange(0.0, 1.0)
         %2: f32[30, 70] = add(%0, %1)
         %3: f32[30, 70] = tril(%2) {k: 0}
         return %3",
        &[&[30, 70]],
    );
    one(
        "%0: f32[30, 70] = input 0 [70, 1]
         %1: f32[30, 1] = mean(%0) {dims: [1], keepdim: true}
         %2: f32[30, 70] = sub(%0, %1)
         return %2",
        &[&[30, 70]],
    );
    one(
        "%0: f32[50, 20] = input 0 [20, 1]
         %1: f32[1, 20] = mean(%0) {dims: [0], keepdim: true}
         %2: f32[50, 20] = sub(%0, %1)
         return %2",
        &[&[50, 20]],
    );
    let mut chain = String::from(
        "%0: f32[70] = input 0 [1]\n%1: f32[70] = input 1 [1]\n%2: f32[70] = add(%0, %1)\n",
    );
    for i in 3..23 {
        chain += &format!(
            "%{i}: f32[70] = {}(%{})\n",
            ["sin", "abs", "neg"][i % 3],
            i - 1
        );
    }
    one(&(chain + "return %22"), &[&[70], &[70]]);
}

// ir T22
#[test]
fn views_of_stored_data_launch_nothing() {
    let text = "
        %0: f32[6, 8] = input 0 [8, 1]
        %1: f32[8, 6] = permute(%0) {order: [1, 0]}
        %2: f32[4, 6] = slice(%1) {dim: 0, start: -4, end: 8, step: 1}
        %3: f32[3, 4, 6] = expand(%2) {to: [3, -1, -1]}
        return %3";
    assert_eq!(kernels(text), 0);
    let x = noise(&[6, 8], 18);
    let y = run(text, std::slice::from_ref(&x), 0.0);
    assert!(y[0].buffer.same(&x.buffer));
}

// codegen D T38
#[test]
fn a_wanted_intermediate_costs_no_kernel() {
    let text = "
        %0: f32[30, 7] = input 0 [7, 1]
        %1: f32[30, 7] = exp(%0)
        %2: f32[30, 7] = add(%1, 1.0)
        return %2 %1";
    assert_eq!(kernels(text), 1);
    run(text, &[noise(&[30, 7], 19)], 0.0);
}

// codegen D T16
#[test]
fn sums_of_two_inputs_and_a_function_of_both_are_one_kernel() {
    let text = "
        %0: f32[30, 70] = input 0 [70, 1]
        %1: f32[30, 70] = input 1 [70, 1]
        %2: f32[30] = sum(%0) {dims: [1], keepdim: false}
        %3: f32[30] = sum(%1) {dims: [1], keepdim: false}
        %4: f32[30] = mul(%2, %3)
        return %4";
    assert_eq!(kernels(text), 1);
    run(text, &[noise(&[30, 70], 20), noise(&[30, 70], 21)], 1e-2);
}

// codegen D T33
#[test]
fn nested_padding_keeps_each_ring() {
    let text = "
        %0: f32[2, 2] = input 0 [2, 1]
        %1: f32[4, 4] = pad(%0, 2.0) {pads: [[1, 1], [1, 1]]}
        %2: f32[6, 6] = pad(%1, 3.0) {pads: [[1, 1], [1, 1]]}
        return %2";
    assert_eq!(kernels(text), 1);
    let y = crate::common::values(&run(text, &[noise(&[2, 2], 22)], 0.0)[0]);
    assert_eq!((y[0], y[7], y[35]), (3.0, 2.0, 3.0));
}

// scheduler L-28: a path that enters a fused node at a late step and leaves it at an early one is a cycle all the same.
#[test]
fn no_cycle_goes_through_a_fused_node_backwards() {
    let text = "%0: i16[5] = input 0 [1]
        %1: i16[1] = input 1 [1]
        %2: i16[5] = slice_assign(%0, %1) {dim: 0, start: 0, end: 5, step: 2}
        %3: i16[3] = pad(%1, $0=-1.5) {pads: [[0, 2]]}
        %4: f32[3] = exp(%3)
        %5: f32[5] = acos(%2)
        %6: bool[3] = isinf(%4)
        %7: f32[15] = repeat(%5) {counts: [3]}
        %8: f32[15] = slice_assign(%7, %4) {dim: 0, start: 10, end: 15, step: 2}
        %9: f32[5] = atanh(%2)
        %10: f32[15] = cat(%2, %9, %9) {dim: 0}
        %11: bool[1] = all(%10) {dims: [0], keepdim: true}
        %12: f32[1] = exp(%11)
        %13: f32[1] = layer_norm(%12, 0.25) {n: 1, weight: false, bias: false}
        %14: f32[] = min(%13) {dims: [0], keepdim: false}
        %15: f32[3] = where_cond(%6, %14, %4)
        return %8 %14 %15";
    let x = filled::<i16>(&[5], |i| i as i16 - 2);
    run(text, &[x, filled::<i16>(&[1], |_| 1)], 1e-6);
}

/// Nothing reads the minimum: the gather has no elements. A kernel that stores nothing is none.
#[test]
fn what_only_empty_results_read_is_not_computed() {
    let text = "
        %0: f32[2, 3] = input 0 [3, 1]
        %1: i64[2, 0] = input 1 [1, 1]
        %2: f32[2, 3] = erf(%0)
        %3: f32[2, 3] = minimum(%2, %0)
        %4: f32[2, 0] = gather(%3, %1) {dim: 1}
        return %4";
    assert_eq!(kernels(text), 0);
    run(
        text,
        &[noise(&[2, 3], 1), filled::<i64>(&[2, 0], |_| 0)],
        0.0,
    );
    // A use of elements keeps it.
    let sum = "%5: f32[2] = sum(%3) {dims: [1], keepdim: false}";
    let text = text.replace("return %4", &format!("{sum}\nreturn %4 %5"));
    assert_eq!(kernels(&text), 1);
}

// scheduler R-15, V-09
#[test]
fn fusions_and_reorderings_are_counted() {
    let of = |read: &str| {
        let last = if read.contains("%4") { "%4" } else { "%3" };
        let text = format!(
            "%0: f32[64, 100] = input 0 [100, 1]
             %1: f32[64, 100] = exp(%0)
             {read}
             return %1 {last}"
        );
        let (kernels, stats) = stats_scope(|| kernels(&text));
        assert_eq!(kernels, 1);
        (stats.nests, stats.fusions, stats.loop_reorders)
    };
    let straight = of("%2: f32[64, 100] = add(%0, 1.0)\n%3: f32[64, 100] = neg(%2)");
    let turned = of("%2: f32[100, 64] = permute(%0) {order: [1, 0]}
                     %3: f32[100, 64] = input 1 [64, 1]
                     %4: f32[100, 64] = add(%3, %2)");
    assert_eq!((straight.2, turned.2), (0, 1));
    assert_eq!((straight.0, turned.0), (2, 2));
    // The sum is computed where its negation is; then the two kernels become one.
    assert_eq!((straight.1, turned.1), (2, 1));
}

// scheduler V-03
#[test]
fn a_refusal_says_how_two_nodes_differ_on_a_buffer() {
    // A reduction of each row, read by what sees the rows otherwise.
    let case = |read: &str, how: Mismatch| {
        let text = format!(
            "%0: f32[64, 96] = input 0 [96, 1]
             %1: i64[96] = input 1 [1]
             %2: f32[64] = sum(%0) {{dims: [1], keepdim: false}}
             {read}"
        );
        let explanation = plan(&text).explain();
        let found = explanation.refusals();
        assert!(
            found.iter().any(|r| r.2.mismatch() == Some(how)),
            "{how:?}: {explanation}"
        );
        let lines = explanation.summary();
        assert!(lines.contains(how.describe()), "{lines}");
    };
    case(
        "%3: f32[63] = narrow(%2) {dim: 0, start: 1, len: 63}
         %4: f32[63] = sin(%3)
         return %4",
        Mismatch::Elements,
    );
    case(
        "%3: f32[96] = gather(%2, %1) {dim: 0}
         %4: f32[96] = sin(%3)
         return %4",
        Mismatch::Indirect,
    );
    case(
        "%3: f32[64] = flip(%2) {dims: [0]}
         %4: f32[64] = sin(%3)
         return %4",
        Mismatch::Offset,
    );
}

// scheduler V-05
#[test]
fn rounds_are_counted() {
    let text = "
        %0: f32[64, 96] = input 0 [96, 1]
        %1: f32[64] = sum(%0) {dims: [1], keepdim: false}
        %2: f32[64] = max(%0) {dims: [1], keepdim: false}
        %3: f32[64] = add(%1, %2)
        return %3";
    let explanation = plan(text).explain();
    assert_eq!(explanation.rounds(), [3, 1]);
    assert!(
        explanation
            .summary()
            .contains("nodes: 3; after each round of fusion: 1")
    );
    let alone = "%0: f32[9] = input 0 [1]\n %1: f32[9] = sin(%0)\n return %1";
    assert_eq!(plan(alone).explain().rounds(), [1, 1]);
}

// scheduler L-08
#[test]
fn a_barrier_keeps_a_kernel_apart() {
    let text = |barrier: &str| {
        format!(
            "%0: f32[50, 70] = input 0 [70, 1]
             %1: f32[50, 70] = exp(%0)
             %2: f32[50, 70] = {barrier}
             %3: f32[50] = sum(%2) {{dims: [1], keepdim: false}}
             %4: f32[50] = sqrt(%3)
             return %4"
        )
    };
    assert_eq!(kernels(&text("neg(%1)")), 1);
    let explanation = plan(&text("barrier(%1)")).explain();
    assert_eq!(explanation.fused_nodes().len(), 2);
    assert_eq!(explanation.fused_nodes()[0].ops, ["exp"]);
    assert!(
        explanation
            .refusals()
            .iter()
            .any(|r| r.2 == Refusal::Barrier)
    );
    run(&text("barrier(%1)"), &[noise(&[50, 70], 3)], 1e-5);
    // Around a product: neither side is taken up.
    let layer = |barrier: &str| {
        format!(
            "%0: f32[64, 32] = input 0 [32, 1]
             %1: f32[32, 64] = input 1 [64, 1]
             %2: f32[64, 64] = matmul(%0, %1)
             %3: f32[64, 64] = {barrier}
             %4: f32[64, 64] = tanh(%3)
             return %4"
        )
    };
    assert!(plan(&layer("neg(%2)")).explain().calls().is_empty());
    assert_eq!(plan(&layer("barrier(%2)")).explain().calls(), ["matmul"]);
    run(
        &layer("barrier(%2)"),
        &[noise(&[64, 32], 4), noise(&[32, 64], 5)],
        1e-3,
    );
}

// codegen B14.9
#[test]
fn hints_name_what_costs_time() {
    let large = "
        %0: f32[1024, 1024] = input 0 [1024, 1]
        %1: f32[1024, 1024] = exp(%0)
        %2: f32[1024, 1024] = sort(%1) {dim: 1, descending: false}
        %3: f32[1024, 1024] = sub(%2, %1)
        return %3";
    let explanation = plan(large).explain();
    let apart = |h: &Hint| matches!(h, Hint::Apart { why: Refusal::NodeBetween, bytes, .. } if *bytes == 4 << 20);
    assert!(
        explanation.hints().iter().any(apart),
        "{:?}",
        explanation.hints()
    );
    assert!(explanation.summary().contains("hint: "));
    let small = large.replace("1024", "16");
    assert!(plan(&small).explain().hints().is_empty());
    let integers = "
        %0: i32[16, 16] = input 0 [16, 1]
        %1: i32[16, 16] = matmul(%0, %0)
        return %1";
    let hints = plan(integers).explain().hints().to_vec();
    assert!(
        matches!(hints[..], [Hint::IntegerProduct(_, DType::I32)]),
        "{hints:?}"
    );
}

// Few rows with long columns across memory share no kernel with what stores their columns; short columns and more rows do.
#[test]
fn long_columns_of_few_rows_are_stored_by_themselves() {
    for (columns, rows, apart) in [(20_000, 10, true), (1000, 10, false), (20_000, 32, false)] {
        let text = format!(
            "%0: f32[{columns}, {rows}] = input 0 [{rows}, 1]
             %1: f32[1, {rows}] = max(%0) {{dims: [0], keepdim: true}}
             %2: f32[{columns}, {rows}] = sub(%0, %1)
             return %2"
        );
        let explanation = plan(&text).explain();
        let narrow = |r: &(_, _, Refusal)| r.2 == Refusal::NarrowRows;
        assert_eq!(
            explanation.refusals().iter().any(narrow),
            apart,
            "{columns} {rows}"
        );
        assert_eq!(explanation.fused_nodes().len(), if apart { 2 } else { 1 });
        run(&text, &[noise(&[columns, rows], 3)], 1e-6);
    }
}
