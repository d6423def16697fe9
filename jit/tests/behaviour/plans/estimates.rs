//! Bytes, operations and times of plans, against figures by hand.

use crate::plan;
use ferrotrace_jit::{Machine, Nanoseconds, WEIGHTS, Work};
use ferrotrace_runtime::Device;

/// 1 byte and 10 operations a nanosecond.
const MACHINE: Machine = Machine {
    bandwidth: 1e9,
    peak: 1e10,
};

#[track_caller]
fn costs(text: &str, bytes: u64, operations: u64) {
    let explanation = plan(text).explain();
    assert_eq!(
        explanation.work(),
        Work { bytes, operations },
        "{explanation}"
    );
}

// codegen D T76: 2 m n k, and one operation an element behind it
#[test]
fn a_product_of_512_with_relu() {
    let text = "
        %0: f32[512, 512] = input 0 [512, 1]
        %1: f32[512, 512] = input 1 [512, 1]
        %2: f32[512, 512] = matmul(%0, %1)
        %3: f32[512, 512] = relu(%2)
        return %3";
    let cells = 512 * 512;
    let operations = 2 * 512 * cells + cells;
    // The product passes from panel to panel: two operands and one result.
    costs(text, 3 * 4 * cells, operations);
    let Nanoseconds(time) = plan(text).explain().estimate(&MACHINE);
    assert_eq!(time, operations as f64 / 10.0);
}

// Of a batch: 2 b m n k.
#[test]
fn a_batch_of_products() {
    let text = "
        %0: f32[3, 20, 40] = input 0 [800, 40, 1]
        %1: f32[3, 40, 50] = input 1 [2000, 50, 1]
        %2: f32[3, 20, 50] = matmul(%0, %1)
        return %2";
    let bytes = 4 * (3 * 20 * 40 + 3 * 40 * 50 + 3 * 20 * 50);
    costs(text, bytes, 2 * 3 * 20 * 40 * 50);
}

#[test]
fn a_softmax() {
    let text = "
        %0: f32[64, 1000] = input 0 [1000, 1]
        %1: f32[64, 1000] = softmax(%0) {dim: 1}
        return %1";
    let cells = 64 * 1000;
    // A maximum, a difference, exp, a sum, a division of every element.
    let explanation = plan(text).explain();
    let operations = explanation.work().operations;
    let division = [1, WEIGHTS.division];
    let each = division.map(|division| cells * (3 + WEIGHTS.function + division));
    let reciprocals = 64 * WEIGHTS.division;
    assert!(
        each.iter()
            .any(|all| (*all..=all + reciprocals).contains(&operations)),
        "{operations} operations\n{explanation}"
    );
    assert_eq!(explanation.work().bytes, 2 * 4 * cells);
    let Nanoseconds(time) = explanation.estimate(&MACHINE);
    assert_eq!(time, 8.0 * cells as f64, "memory bounds it");
}

// Of a table the rows that are looked up are read; of a small one at most the table.
#[test]
fn rows_of_a_table() {
    for (rows, looked_up) in [(100_000, 10), (7, 7)] {
        let text = format!(
            "
            %0: f32[{rows}, 64] = input 0 [64, 1]
            %1: i64[10] = input 1 [1]
            %2: f32[10, 64] = index(%0, %1) {{axes: [0], at: 0}}
            %3: f32[10, 64] = relu(%2)
            return %3"
        );
        let bytes = 4 * 64 * looked_up + 8 * 10 + 4 * 64 * 10;
        assert_eq!(plan(&text).explain().work().bytes, bytes);
    }
}

// codegen B14.2
#[test]
fn convolutions() {
    let text = "
        %0: f32[2, 6, 10, 12] = input 0 [720, 120, 12, 1]
        %1: f32[8, 3, 3, 5] = input 1 [45, 15, 5, 1]
        %2: f32[2, 8, 4, 8] = conv2d(%0, %1) {stride: [2, 1], padding: [0, 0], dilation: [1, 1], output_padding: [0, 0], groups: 2, transposed: false}
        return %2";
    // 2 images of 8 channels of 4 by 8, each of 3 channels of 3 by 5 taps.
    let results = 2 * 8 * 4 * 8;
    let bytes = 4 * (2 * 6 * 10 * 12 + 8 * 3 * 3 * 5 + results);
    costs(text, bytes, 2 * results * 3 * 3 * 5);
}

// codegen D T44
#[test]
fn operations_are_those_of_results_and_broadcast_vectors_are_read_once() {
    let text = "
        %0: f32[1000000] = input 0 [1]
        %1: f32[10] = slice(%0) {dim: 0, start: 0, end: 10, step: 1}
        %2: f32[10] = add(%1, 1.0)
        return %2";
    costs(text, 4 * (10 + 10), 10);
    // Two windows that overlap: no more than there is.
    let text = "
        %0: f32[1000] = input 0 [1]
        %1: f32[999] = slice(%0) {dim: 0, start: 1, end: 1000, step: 1}
        %2: f32[999] = slice(%0) {dim: 0, start: 0, end: 999, step: 1}
        %3: f32[999] = sub(%1, %2)
        return %3";
    costs(text, 4 * (1000 + 999), 999);
    let text = "
        %0: f32[40, 50] = input 0 [50, 1]
        %1: f32[50] = input 1 [1]
        %2: f32[40, 50] = add(%0, %1)
        return %2";
    costs(text, 4 * (40 * 50 + 50 + 40 * 50), 40 * 50);
}

// scheduler N-04
#[test]
fn devices_that_were_not_measured_have_no_figures() {
    assert_eq!(Machine::measured(1, None), None);
    assert_eq!(Machine::measured(1, Some(0)), None);
    assert_eq!(Machine::measured(0, Some(1)), None);
    assert_eq!(
        Machine::measured(1_000_000_000, Some(10_000_000_000)),
        Some(MACHINE)
    );
    if let Some(machine) = Machine::of(&Device::cpu()) {
        assert!(machine.bandwidth > 0.0 && machine.peak > 0.0);
    }
}
