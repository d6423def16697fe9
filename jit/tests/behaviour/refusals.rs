//! Why kernels are not one, as values: one case for each reason that a program meets (scheduler V-01, V-02).

use super::{kernels, plan, read, run};
use crate::common::noise;
use ferrotrace_jit::Draft;
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::schedule::Refusal;
use ferrotrace_kernels::ValueId;

/// Why two nodes are not one kernel, under these thresholds.
fn why_not(text: &str, pair: (u32, u32), limits: &Policy) -> Option<Refusal> {
    let draft = Draft::of(read(text), limits).unwrap_or_else(|e| panic!("{e}"));
    let pair = (ValueId(pair.0), ValueId(pair.1));
    let found = draft.refusals.iter().find(|r| (r.0, r.1) == pair);
    found.map(|r| r.2)
}

// scheduler §21.5: the same sizes of rows and columns are no reason to walk them together.
#[test]
fn sums_over_either_axis_differ_in_their_loops() {
    for (rows, cols) in [(128, 256), (256, 256)] {
        let text = format!(
            "%0: f32[{rows}, {cols}] = input 0 [{cols}, 1]
             %1: f32[{cols}] = sum(%0) {{dims: [0], keepdim: false}}
             %2: f32[{rows}] = sum(%0) {{dims: [1], keepdim: false}}
             return %1 %2"
        );
        let why = why_not(&text, (1, 2), &Policy::default());
        assert!(matches!(why, Some(Refusal::Extents(_))), "{why:?}");
        assert_eq!(kernels(&text), 2);
        run(&text, &[noise(&[rows, cols], 1)], 1e-3);
    }
}

// scheduler §21.9, §21.42: either pair may be one kernel, not both.
#[test]
fn of_two_pairs_around_two_calls_one_is_fused() {
    let text = "
        %0: f32[32, 32] = input 0 [32, 1]
        %1: f32[32, 32] = input 1 [32, 1]
        %2: f32[32, 32] = add(%0, 1.0)
        %3: f32[32, 32] = sort(%2) {dim: 0, descending: false}
        %4: f32[32, 32] = mul(%1, 2.0)
        %5: f32[32, 32] = sort(%4) {dim: 0, descending: false}
        %6: f32[32, 32] = mul(%3, %1)
        %7: f32[32, 32] = mul(%5, %0)
        return %6 %7";
    let explanation = plan(text).explain();
    assert_eq!(explanation.calls(), ["sort", "sort"]);
    assert_eq!(explanation.fused_nodes().len(), 3, "{explanation}");
    let between = explanation
        .refusals()
        .iter()
        .filter(|r| r.2 == Refusal::NodeBetween);
    assert!(between.count() > 0, "{explanation}");
    run(text, &[noise(&[32, 32], 2), noise(&[32, 32], 3)], 1e-3);
}

// scheduler L-16, §21.32: that far apart in the trace, what they share is in no cache any more.
#[test]
fn readers_of_one_tensor_far_apart_stay_apart() {
    // Two readers of one tensor, and between them other kernels of other sizes.
    let apart = |steps: usize| {
        let mut text = String::from("%0: f32[600] = input 0 [1]\n%1: f32[600] = exp(%0)\n");
        let mut outputs = String::from("return %1");
        for i in 0..steps {
            let (input, node, n) = (2 + 2 * i, 3 + 2 * i, 700 + i);
            text += &format!("%{input}: f32[{n}] = input {} [1]\n", i + 1);
            text += &format!("%{node}: f32[{n}] = exp(%{input})\n");
            outputs += &format!(" %{node}");
        }
        let last = 2 + 2 * steps;
        text += &format!("%{last}: f32[600] = sin(%0)\n");
        let explanation = plan(&format!("{text}{outputs} %{last}")).explain();
        let refused = explanation
            .refusals()
            .iter()
            .any(|r| r.2 == Refusal::Distance);
        (refused, explanation.fused_nodes().len() - steps)
    };
    assert_eq!(apart(60), (false, 1));
    assert_eq!(apart(70), (true, 2));
}

/// Sums of neighbours among `n` tensors, each needed by itself too.
fn sums(n: usize) -> String {
    let mut text = String::new();
    for i in 0..n {
        text += &format!("%{i}: f32[50] = input {i} [1]\n");
    }
    let mut last = 0;
    for i in 1..n {
        let sum = n + i - 1;
        text += &format!("%{sum}: f32[50] = add(%{last}, %{i})\n");
        last = sum;
    }
    text + &format!("return %{last}")
}

// scheduler L-18: a device takes so many arguments, and no more.
#[test]
fn a_kernel_touches_a_bounded_number_of_buffers() {
    let buffers = |limits: &Policy| {
        let draft = Draft::of(read(&sums(300)), limits).unwrap_or_else(|e| panic!("{e}"));
        let all = draft
            .steps
            .iter()
            .map(|step| step.kernel().map_or(0, |k| k.pointers.len()));
        (all.max().unwrap_or(0), draft.refusals)
    };
    let (most, _) = buffers(&Policy::default());
    assert!(most <= Thresholds::default().fusion_buffers, "{most}");
    let few = Policy::from(Thresholds {
        fusion_buffers: 24,
        ..Thresholds::default()
    });
    let (most, refusals) = buffers(&few);
    assert!(most > 12 && most <= 24, "{most}");
    assert!(refusals.iter().any(|r| r.2 == Refusal::TooManyBuffers));
    let arrays: Vec<_> = (0..300).map(|i| noise(&[50], i)).collect();
    run(&sums(300), &arrays, 1e-4);
}

// codegen B2.7
#[test]
fn a_kernel_holds_a_bounded_number_of_operations() {
    let mut text = String::from("%0: f32[50] = input 0 [1]\n");
    for i in 1..=400 {
        text += &format!("%{i}: f32[50] = add(%{}, {i}.0)\n", i - 1);
    }
    let text = text + "return %400";
    let explanation = plan(&text).explain();
    let refused = explanation
        .refusals()
        .iter()
        .any(|r| r.2 == Refusal::TooManyOps);
    assert!(
        refused && explanation.fused_nodes().len() > 1,
        "{explanation}"
    );
    assert!(
        explanation
            .fused_nodes()
            .iter()
            .all(|k| k.operations <= 160 * 50)
    );
}

// ir B7: what is shared is counted once in a kernel, and computed once.
#[test]
fn powers_by_squaring_are_one_kernel_of_as_many_products() {
    let mut text = String::from("%0: f32[1000] = input 0 [1]\n");
    for i in 1..=12 {
        text += &format!("%{i}: f32[1000] = mul(%{0}, %{0})\n", i - 1);
    }
    let text = text + "return %12";
    let explanation = plan(&text).explain();
    let kernels = explanation.fused_nodes();
    assert_eq!(
        (kernels.len(), kernels[0].operations),
        (1, 12 * 1000),
        "{explanation}"
    );
    assert_eq!(explanation.traffic().total(), 8 * 1000);
}

// scheduler V-01: what reads an input of a ready-made kernel is listed too.
#[test]
fn kernels_beside_a_ready_made_one_are_listed() {
    let text = "%0: f32[40, 30] = input 0 [30, 1]
        %1: f32[40, 30] = sort(%0) {dim: 1, descending: false}
        %2: f32[40, 30] = exp(%0)
        %3: f32[40] = sum(%1) {dims: [1], keepdim: false}
        return %1 %2 %3";
    assert_eq!(
        why_not(text, (1, 2), &Policy::default()),
        Some(Refusal::Opaque)
    );
    run(text, &[noise(&[40, 30], 14)], 1e-5);
}
