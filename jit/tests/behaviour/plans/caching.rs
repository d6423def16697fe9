//! One source for many programs, one compile for each source.

use crate::common::noise;
use crate::{plan, run};
use ferrotrace_runtime::stats_scope;

fn sources(text: &str) -> Vec<String> {
    plan(text).explain().sources().to_vec()
}

// DESIGN: sizes and scalars are arguments of a kernel, not text in it.
#[test]
fn sizes_and_numbers_are_no_part_of_a_source() {
    let pointwise = |n: usize, number: f64| {
        sources(&format!(
            "%0: f32[{n}] = input 0 [1]
             %1: f32[{n}] = mul(%0, $0={number:?})
             %2: f32[{n}] = relu(%1)
             return %2"
        ))
    };
    assert_eq!(pointwise(100, 0.1), pointwise(100, 0.2));
    for n in [2, 17, 1000, 70_000, 10_000_000] {
        assert_eq!(pointwise(n, 0.1), pointwise(100, 0.1), "{n}");
    }
    let softmax = |rows: usize, cols: usize| {
        sources(&format!(
            "%0: f32[{rows}, {cols}] = input 0 [{cols}, 1]
             %1: f32[{rows}, {cols}] = softmax(%0) {{dim: 1}}
             return %1"
        ))
    };
    // Rows of few columns have a form of their own where there are vectors of them.
    for (rows, cols) in [(64, 1000), (5, 17), (300, 300), (3, 5)] {
        assert_eq!(softmax(rows, cols), softmax(20, 30), "{rows}x{cols}");
    }
    let columns = |rows: usize, cols: usize| {
        sources(&format!(
            "%0: f32[{rows}, {cols}] = input 0 [{cols}, 1]
             %1: f32[{cols}] = sum(%0) {{dims: [0], keepdim: false}}
             return %1"
        ))
    };
    // Sums of more terms than an accumulator takes in keep totals.
    assert_eq!(columns(30, 1000), columns(17, 40));
    assert_eq!(columns(64, 1000), columns(90, 40));
}

// ir T57, codegen D T09
#[test]
fn contiguous_shapes_of_one_size_class_share_a_source() {
    let add = |shape: &str, strides: &str| {
        sources(&format!(
            "%0: f32[{shape}] = input 0 [{strides}]
             %1: f32[{shape}] = input 1 [{strides}]
             %2: f32[{shape}] = add(%0, %1)
             return %2"
        ))
    };
    let flat = add("24", "1");
    for (shape, strides) in [
        ("6, 4", "4, 1"),
        ("2, 3, 4", "12, 4, 1"),
        ("1, 24, 1", "77, 1, 9"),
        ("24, 1", "1, 5"),
    ] {
        assert_eq!(add(shape, strides), flat, "{shape}");
    }
}

// scheduler §21.40, codegen D T70
#[test]
fn a_program_gives_the_same_source_each_time() {
    let text = "
        %0: f32[30, 70] = input 0 [70, 1]
        %1: f32[30, 70] = input 1 [70, 1]
        %2: f32[30, 70] = mul(%0, %1)
        %3: f32[30] = sum(%2) {dims: [1], keepdim: false}
        %4: f32[30, 70] = softmax(%2) {dim: 1}
        %5: f32[70, 30] = permute(%4) {order: [1, 0]}
        %6: f32[70, 30] = add(%5, %3)
        %7: f32[70] = max(%6) {dims: [1], keepdim: false}
        return %3 %6 %7";
    let first = sources(text);
    for _ in 0..20 {
        assert_eq!(sources(text), first);
    }
}

// codegen D T42, scheduler §21.40
#[test]
fn a_source_is_compiled_once() {
    let text = "
        %0: f64[33] = input 0 [1]
        %1: f64[33] = asinh(%0)
        %2: f64[33] = mul(%1, $0=3.5)
        return %2";
    let x = crate::common::filled::<f64>(&[33], |i| i as f64);
    run(text, std::slice::from_ref(&x), 0.0);
    let (_, stats) = stats_scope(|| run(text, &[x], 0.0));
    assert_eq!(stats.kernels_compiled, 0);
}

// codegen D T42
#[test]
fn equal_programs_on_different_tensors_share_a_kernel() {
    let text = "
        %0: f32[40] = input 0 [1]
        %1: f32[40] = input 1 [1]
        %2: f32[40] = cosh(%0)
        %3: f32[40] = cosh(%1)
        return %2 %3";
    let (_, stats) = stats_scope(|| run(text, &[noise(&[40], 1), noise(&[40], 2)], 0.0));
    assert_eq!(stats.kernels_launched, 2);
    let mut found = sources(text);
    found.dedup();
    assert_eq!(found.len(), 1);
}
