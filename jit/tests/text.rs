//! The text form of graphs: what is printed is read back as the same graph.
#![allow(missing_docs)]

mod common;

use common::generate::{Limits, program};
use ferrotrace_jit::{Graph, Precision};
use ferrotrace_runtime::DType;

fn read(text: &str) -> Graph {
    text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn comes_back(text: &str) {
    let graph = read(text);
    let body: String = text
        .trim()
        .lines()
        .map(|l| format!("{}\n", l.trim()))
        .collect();
    assert_eq!(graph.to_string(), body);
    graph.verify().expect("a graph that was read is valid");
}

#[test]
fn random_graphs_come_back() {
    for precision in [Precision::Fast, Precision::EagerExact] {
        let limits = Limits {
            ops: 40,
            numel: 200,
            sizes: &[0, 1, 2, 3, 5],
            dtypes: &DType::ALL,
            pointwise: false,
            precision,
            approximate: false,
            slices: false,
            long: false,
        };
        for seed in 0..300 {
            let graph = program(seed, &limits).graph;
            let again = read(&graph.to_string());
            assert_eq!(again.to_string(), graph.to_string());
            assert_eq!(again.inputs(), graph.inputs());
            assert_eq!(again.outputs(), graph.outputs());
            for (a, b) in again.nodes().iter().zip(graph.nodes()) {
                assert_eq!(
                    (&a.op, &a.shape, a.dtype, a.precision),
                    (&b.op, &b.shape, b.dtype, b.precision)
                );
            }
        }
    }
}

#[test]
fn library_operators_come_back() {
    comes_back(
        r#"
        %0: f32[2, 4, 8, 8] = input 0 [256, 64, 8, 1]
        %1: f32[6, 2, 3, 3] = input 1 [18, 9, 3, 1]
        %2: f32[2, 6, 8, 8] = conv2d(%0, %1) {stride: [1, 1], padding: [1, 1], dilation: [1, 1], output_padding: [0, 0], groups: 2}
        %3: f32[6] = input 2 [1]
        %4: f32[2, 6, 8, 8] = conv2d(%0, %1, %3) {stride: [1, 1], padding: [1, 1], dilation: [1, 1], output_padding: [0, 0], groups: 2, bias: true}
        %5: f32[2, 4, 4, 4] = max_pool2d(%0) {kernel: [2, 2], stride: [2, 2], padding: [0, 0]}
        %6: f32[2, 4, 4, 4] = avg_pool2d(%0) {kernel: [2, 2], stride: [2, 2], padding: [0, 0]}
        %7: f32[2, 4, 3, 3] = adaptive_avg_pool2d(%0) {size: [3, 3]}
        %8: f32[2, 4, 5, 5] = interpolate(%0) {size: [5, 5], order: 1, align_corners: false}
        %9: f32[8, 8] = input 3 [8, 1]
        %10: i64[8, 8] = argsort(%9) {dim: 1, descending: true}
        %11: i64[8, 3] = topk(%9) {k: 3, dim: 1, largest: true}
        %12: i64[8, 8] = cummax(%9) {dim: 0, indices: true}
        %13: f32[8, 8] = cummin(%9) {dim: 0}
        %14: f32[8, 8] = cumsum(%9) {dim: 0}
        %15: f32[8, 8] = scatter(%9, %10, %9) {dim: 0, mode: "amax", include_self: false}
        %16: f32[8, 8] = index_put(%9, $0=1.5, %11) {axes: [0], at: 0, accumulate: true}
        return %16
        "#,
    );
}

#[test]
fn composites_come_back() {
    comes_back(
        r#"
        %0: f32[2, 4, 8] = input 0 [32, 8, 1]
        %1: f32[8] = input 1 [1]
        %2: f32[2, 4, 8] = softmax(%0) {dim: 2}
        %3: f32[2, 4, 8] = log_softmax(%0) {dim: 1}
        %4: f32[2, 4] = logsumexp(%0) {dims: [2], keepdim: false}
        %5: f32[2, 4, 1] = var(%0) {dims: [2], keepdim: true, correction: 1}
        %6: f32[2, 4, 1] = std(%0) {dims: [2], keepdim: true, correction: 0}
        %7: f32[2] = norm(%0) {dims: [1, 2], keepdim: false, p: 2.0}
        %8: f32[2] = norm(%0) {dims: [1, 2], keepdim: false, p: inf}
        %9: i64[2] = count_nonzero(%0) {dims: [1, 2], keepdim: false}
        %10: f32[2, 4, 8] = layer_norm(%0, %1, %1, 1e-5) {n: 1, weight: true, bias: true}
        %11: f32[2, 4, 8] = rms_norm(%0, %1, 1e-5) {n: 1, weight: true}
        %12: f32[2, 4, 8] = gelu(%0)
        %13: f32[2, 4, 8] = clamp(%0, $0=-1.0, $1=1.0)
        %14: f32[2, 4, 8] = dropout(%0, 1, 2) {p: 0.25}
        %15: f32[2, 4, 4] = einsum(%0, %0) {equation: "bij,bkj->bik"}
        %16: f32[2, 4, 8] = scaled_dot_product_attention(%0, %0, %0) {mask: false, causal: true, scale: NaN}
        %17: f32[2, 4, 8] = tril(%0) {k: -1}
        %18: f32[2, 4, 8] = roll(%0) {shift: -3, dim: 2}
        return %18 %2
        "#,
    );
}

#[test]
fn what_cannot_be_read_says_where_and_why() {
    let head = "%0: f32[2, 3] = input 0 [3, 1]\n";
    for (line, why) in [
        (
            "%1: f32[2, 3] = frobnicate(%0)",
            "no operator \"frobnicate\"",
        ),
        ("%1: f32[2, 3] = exp(%7)", "%7 is not defined"),
        ("%1: f64[2, 3] = exp(%0)", "gives f32[2, 3]"),
        ("%1: q8[2, 3] = exp(%0)", "no dtype"),
        ("%2: f32[2, 3] = exp(%0)", "stands at position 1"),
        ("%1: f32[2] = sum(%0) {dims: [1]}", "keepdim is missing"),
        ("%1: f32[2] = sum(%0) {dims: [9], keepdim: false}", "line 2"),
        ("%1: f32[2, 3] = exp(%0) nearly", "left over"),
        ("%1: f32[2, 3] = add(%0, $0=x)", "no number"),
        ("return %4", "there is no %4"),
    ] {
        let error = format!("{head}{line}")
            .parse::<Graph>()
            .expect_err(line)
            .to_string();
        assert!(
            error.contains(why) && error.contains("line 2"),
            "{line}: {error}"
        );
    }
}

/// A text from a file may hold anything: reading it takes no more of the stack for longer ones.
#[test]
fn lists_are_nested_so_deep() {
    let head = "%0: f32[2, 3] = input 0 [3, 1]\n";
    for depth in [17, 1_000_000] {
        let line = format!("%1: f32[2] = sum(%0) {{dims: {}", "[".repeat(depth));
        let error = format!("{head}{line}").parse::<Graph>().expect_err("deep");
        assert!(error.to_string().contains("nested more than 16"), "{depth}");
    }
}
