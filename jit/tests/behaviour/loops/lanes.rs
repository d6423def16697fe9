//! The loop that lanes run along, and how many vectors are computed in turns.

use super::super::{plan, run};
use crate::common::{dense, noise};

fn sources(text: &str) -> String {
    plan(text).explain().sources().join("")
}

// Columns are stored as well as loaded: both are to lie along the lanes.
#[test]
fn lanes_run_along_what_is_stored() {
    // Rows that are repeated, less the mean of their columns, and columns that are looked up.
    let repeated = "%0: f32[40, 1, 70] = input 0 [70, 70, 1]
        %1: f32[40, 3, 70] = expand(%0) {to: [40, 3, 70]}
        %2: f32[120, 70] = flatten(%1) {start: 0, end: 1}
        %3: f32[1, 70] = sum(%2) {dims: [0], keepdim: true}
        %4: f32[120, 70] = sub(%2, %3)
        return %4";
    let looked_up = "%0: f32[40, 70] = input 0 [70, 1]
        %1: i64[90] = input 1 [1]
        %2: f32[40, 90] = index(%0, %1) {axes: [1], at: 1}
        %3: f32[1, 90] = max(%2) {dims: [0], keepdim: true}
        %4: f32[40, 90] = sub(%2, %3)
        return %4";
    let rows = "%0: f32[40, 70] = input 0 [70, 1]
        %1: i64[90] = input 1 [1]
        %2: f32[40, 90] = index(%0, %1) {axes: [1], at: 1}
        %3: f32[40, 1] = max(%2) {dims: [1], keepdim: true}
        %4: f32[40, 90] = sub(%2, %3)
        return %4";
    let x = noise(&[40, 70], 1);
    let index: Vec<i64> = (0..90).map(|i| (i * 37) % 70).collect();
    let index = dense(&[90], &index);
    run(repeated, &[noise(&[40, 1, 70], 2)], 1e-5);
    run(looked_up, &[x.clone(), index.clone()], 0.0);
    run(rows, &[x, index], 0.0);
    // No lane is stored by itself.
    for text in [repeated, looked_up, rows] {
        let source = sources(text);
        assert!(!source.contains("= g[l]"), "{source}");
    }
}

// A reduction over few tensors that are joined has lanes along the rows.
#[test]
fn few_joined_tensors_are_reduced_side_by_side() {
    let text = "%0: f32[1, 8, 25] = input 0 [200, 25, 1]
        %1: f32[1, 8, 25] = input 1 [200, 25, 1]
        %2: f32[1, 8, 25] = input 2 [200, 25, 1]
        %3: f32[3, 8, 25] = cat(%0, %1, %2) {dim: 0}
        %4: f32[1, 8, 25] = max(%3) {dims: [0], keepdim: true}
        %5: f32[3, 8, 25] = sub(%3, %4)
        %6: f32[3, 8, 25] = exp(%5)
        %7: f32[1, 8, 25] = sum(%6) {dims: [0], keepdim: true}
        %8: f32[1, 8, 25] = log(%7)
        %9: f32[1, 8, 25] = add(%8, %4)
        return %9";
    let x = |seed| noise(&[1, 8, 25], seed);
    run(text, &[x(1), x(2), x(3)], 1e-6);
    let source = sources(text);
    assert!(!source.contains("ft_hmax_f32"), "{source}");
}

// Functions of which each waits for the one before are computed for several vectors in turns, whole ones and what is left.
#[test]
fn chains_of_functions_are_computed_in_turns() {
    for n in [100, 128, 131, 500] {
        let text = format!(
            "%0: f32[3, {n}] = input 0 [{n}, 1]
             %1: f32[3, {n}] = sin(%0)
             %2: f32[3, {n}] = add(%1, 0.5)
             %3: f32[3, {n}] = exp(%2)
             %4: f32[3, {n}] = tanh(%3)
             %5: f32[3, {n}] = mul(%4, %0)
             return %5 %2"
        );
        run(&text, &[noise(&[3, n], 4)], 1e-6);
    }
    let wide = "%0: f32[4096] = input 0 [1]\n %1: f32[4096] = sin(%0)\n %2: f32[4096] = cos(%0)\n
        %3: f32[4096] = tanh(%0)\n %4: f32[4096] = add(%1, %2)\n %5: f32[4096] = add(%3, %4)\n return %5";
    run(wide, &[noise(&[4096], 5)], 1e-6);
    // Functions side by side overlap anyway.
    assert!(!sources(wide).contains("v1_1"), "{}", sources(wide));
}

// Values of 8 bytes that are only converted take two registers beside costly functions of 4 bytes, in whole vectors, in what is
// left, and where stores bypass the cache.
#[test]
fn converted_values_take_two_registers() {
    for n in [1, 7, 16, 37, 1000, 3_000_001] {
        let text = format!(
            "%0: f64[{n}] = input 0 [1]
             %1: f32[{n}] = to_dtype(%0)
             %2: f32[{n}] = sigmoid(%1)
             %3: f64[{n}] = to_dtype(%2)
             %4: f32[{n}] = mul(%2, 1000.0)
             %5: i64[{n}] = to_dtype(%4)
             return %3 %5"
        );
        let x: Vec<f64> = (0..n).map(|i| f64::from(i % 4001) * 0.01 - 20.0).collect();
        run(&text, &[dense(&[n as usize], &x)], 1e-6);
    }
}

// Rows of few columns that are joined or padded are one loop: lanes run along the rows' elements as they lie in memory.
#[test]
fn few_columns_under_conditions_are_one_loop() {
    for columns in [2, 3, 5, 8] {
        let (rows, both) = (301, 301 + 77);
        let joined = format!(
            "%0: f32[{rows}, {columns}] = input 0 [{columns}, 1]
             %1: f32[77, {columns}] = input 1 [{columns}, 1]
             %2: f32[{rows}, {columns}] = mul(%0, 2.0)
             %3: f32[{both}, {columns}] = cat(%2, %1) {{dim: 0}}
             return %3"
        );
        let padded = format!(
            "%0: f32[3, {rows}, {columns}] = input 0 [{0}, {columns}, 1]
             %1: f32[3, {1}, {columns}] = pad(%0, 0.5) {{pads: [[0, 0], [2, 1], [0, 0]]}}
             %2: f32[3, {1}, {columns}] = add(%1, 1.0)
             return %2",
            rows * columns,
            rows + 3
        );
        run(
            &joined,
            &[noise(&[rows, columns], 1), noise(&[77, columns], 2)],
            0.0,
        );
        run(&padded, &[noise(&[3, rows, columns], 3)], 0.0);
        for source in [sources(&joined), sources(&padded)] {
            assert!(!source.contains("distantn"), "{source}");
        }
    }
}

// Columns that become rows are written out: they are read together, in the order of memory.
#[test]
fn few_columns_that_become_rows_are_written_out() {
    for rows in [1000, 1003] {
        let turned = format!(
            "%0: f32[8, {rows}] = input 0 [{rows}, 1]
             %1: f32[{rows}, 8] = input 1 [8, 1]
             %2: f32[8, {rows}] = permute(%1) {{order: [1, 0]}}
             %3: f32[8, {rows}] = add(%0, %2)
             return %3"
        );
        let batches = format!(
            "%0: f32[5, 4, {rows}] = input 0 [{0}, {rows}, 1]
             %1: f32[5, {rows}, 4] = input 1 [{0}, 4, 1]
             %2: f32[5, 4, {rows}] = permute(%1) {{order: [0, 2, 1]}}
             %3: f32[5, 4, {rows}] = sub(%0, %2)
             return %3",
            4 * rows
        );
        let x = [noise(&[8, rows], 1), noise(&[rows, 8], 2)];
        let y = [noise(&[5, 4, rows], 3), noise(&[5, rows, 4], 4)];
        for (text, inputs) in [(turned, x), (batches, y)] {
            run(&text, &inputs, 0.0);
            // The axis of eight or four is no loop.
            let explained = plan(&text).explain().to_string();
            let is_loop = ["8] columns", "4] columns"]
                .iter()
                .any(|of| explained.contains(of));
            assert!(!is_loop, "{explained}");
        }
    }
}

// An element of windows that overlap is computed once, where it costs a function.
#[test]
fn costly_elements_of_windows_are_stored() {
    let text = |n: usize| {
        let windows = n - 15;
        format!(
            "%0: f32[{n}] = input 0 [1]
             %1: f32[{n}] = exp(%0)
             %2: f32[{windows}, 16] = unfold(%1) {{dim: 0, size: 16, step: 1}}
             %3: f32[{windows}] = sum(%2) {{dims: [1], keepdim: false}}
             return %3"
        )
    };
    for (n, kernels) in [(40, 1), (2000, 2)] {
        run(&text(n), &[noise(&[n], 6)], 1e-5);
        assert_eq!(super::super::kernels(&text(n)), kernels, "{n}");
    }
}
