//! Transposed reads: tiles, their edges, every element size.

use crate::common::{Rng, noise, window};
use crate::{plan, run};
use ferrotrace_runtime::DType;

// codegen A2.1
#[test]
fn transposed_operands_of_every_size_and_dtype() {
    let mut rng = Rng::new(31);
    for (rows, columns) in [
        (16, 16),
        (64, 64),
        (70, 130),
        (129, 67),
        (17, 200),
        (200, 17),
    ] {
        for dtype in [
            DType::F32,
            DType::F64,
            DType::BF16,
            DType::F16,
            DType::I64,
            DType::I16,
            DType::U8,
            DType::Bool,
        ] {
            let name = dtype.name();
            let text = format!(
                "%0: {name}[{rows}, {columns}] = input 0 [{columns}, 1]
                 %1: {name}[{columns}, {rows}] = input 1 [{rows}, 1]
                 %2: {name}[{rows}, {columns}] = permute(%1) {{order: [1, 0]}}
                 %3: {name}[{rows}, {columns}] = maximum(%0, %2)
                 return %3"
            );
            assert!(
                plan(&text)
                    .explain()
                    .sources()
                    .join("")
                    .contains("r0 = row"),
                "no tile for {rows} by {columns}"
            );
            let mut value = |r: &mut Rng| r.between(0, 99) as f64;
            let x = window(&mut rng, &[rows, columns], dtype, false, &mut value);
            let y = window(&mut rng, &[columns, rows], dtype, false, &mut value);
            run(&text, &[x, y], 0.0);
        }
    }
}

#[test]
fn several_transposed_operands_of_a_stack_of_matrices() {
    let text = "
        %0: f32[3, 90, 75] = input 0 [6750, 75, 1]
        %1: f32[3, 75, 90] = input 1 [6750, 90, 1]
        %2: f64[75, 90] = input 2 [90, 1]
        %3: f32[3, 90, 75] = permute(%1) {order: [0, 2, 1]}
        %4: f64[90, 75] = permute(%2) {order: [1, 0]}
        %5: f32[3, 90, 75] = add(%0, %3)
        %6: f64[3, 90, 75] = mul(%5, %4)
        return %6";
    let mut rng = Rng::new(32);
    let wide = window(&mut rng, &[75, 90], DType::F64, false, &mut |r| {
        r.uniform(-1.0, 1.0)
    });
    run(
        text,
        &[noise(&[3, 90, 75], 1), noise(&[3, 75, 90], 2), wide],
        1e-6,
    );
}

// Backwards and at every second element: whole vectors and a shuffle, for every width of an element.
#[test]
fn strides_of_two_and_minus_one_are_shuffled() {
    let mut rng = Rng::new(33);
    for dtype in [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::F16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::U8,
        DType::Bool,
    ] {
        for n in [64, 101, 131] {
            let (name, half) = (dtype.name(), n / 2 + n % 2);
            let text = format!(
                "%0: {name}[3, {n}] = input 0 [{n}, 1]
                 %1: {name}[3, {n}] = flip(%0) {{dims: [1]}}
                 %2: {name}[3, {n}] = maximum(%1, %0)
                 %3: {name}[3, {half}] = slice(%0) {{dim: 1, start: 0, end: {n}, step: 2}}
                 %4: {name}[3, {half}] = maximum(%3, %3)
                 return %1 %2 %3 %4"
            );
            let sources = plan(&text).explain().sources().join("");
            for load in ["ft_reversed_", "ft_evens_"] {
                assert!(sources.contains(&format!("{load}{name}")), "{sources}");
            }
            let mut value = |r: &mut Rng| r.between(0, 99) as f64;
            let x = window(&mut rng, &[3, n], dtype, false, &mut value);
            run(&text, &[x], 0.0);
        }
    }
}

// codegen D T05: a column is broadcast, and nothing to turn.
#[test]
fn a_column_beside_a_matrix_takes_no_tile() {
    let text = "
        %0: f32[1024, 512] = input 0 [512, 1]
        %1: f32[1024, 1] = input 1 [1, 1]
        %2: f32[1024, 512] = add(%0, %1)
        return %2";
    let sources = plan(text).explain().sources().join("");
    assert!(!sources.contains("r0 = row"), "{sources}");
    run(text, &[noise(&[1024, 512], 5), noise(&[1024, 1], 6)], 0.0);
}

// scheduler §21.34: the loops of one are turned, so that both are one kernel.
#[test]
fn a_transposed_partner_is_the_same_kernel() {
    let text = "
        %0: f32[90, 70] = input 0 [70, 1]
        %1: f32[90, 70] = mul(%0, 2.0)
        %2: f32[70, 90] = permute(%1) {order: [1, 0]}
        %3: f32[70, 90] = add(%2, 1.0)
        return %1 %3";
    let explanation = plan(text).explain();
    assert_eq!(explanation.fused_nodes().len(), 1, "{explanation}");
    assert_eq!(explanation.traffic().read, 4 * 90 * 70);
    run(text, &[noise(&[90, 70], 7)], 0.0);
}

// codegen D T06: whatever the share of the transposed operand.
#[test]
fn a_transposed_operand_of_a_batch_of_any_size() {
    for batch in [1, 4, 5, 9] {
        let text = format!(
            "%0: f32[{batch}, 64, 64] = input 0 [4096, 64, 1]
             %1: f32[64, 64] = input 1 [64, 1]
             %2: f32[64, 64] = permute(%1) {{order: [1, 0]}}
             %3: f32[{batch}, 64, 64] = add(%0, %2)
             return %3"
        );
        let sources = plan(&text).explain().sources().join("");
        assert!(sources.contains("r0 = row"), "no tile for {batch}");
        run(
            &text,
            &[noise(&[batch, 64, 64], 8), noise(&[64, 64], 9)],
            0.0,
        );
    }
}

// codegen A2.3: the operand that matters is turned.
#[test]
fn the_tile_is_along_the_row_of_the_most_bytes() {
    let text = "
        %0: f32[40, 50, 60] = input 0 [3000, 60, 1]
        %1: f32[60, 50, 40] = input 1 [2000, 40, 1]
        %2: f32[60, 50] = input 2 [50, 1]
        %3: f32[60, 50] = input 3 [50, 1]
        %4: f32[40, 50, 60] = permute(%1) {order: [2, 1, 0]}
        %5: f32[50, 60] = permute(%2) {order: [1, 0]}
        %6: f32[50, 60] = permute(%3) {order: [1, 0]}
        %7: f32[40, 50, 60] = add(%0, %4)
        %8: f32[40, 50, 60] = mul(%7, %5)
        %9: f32[40, 50, 60] = sub(%8, %6)
        return %9";
    let sources = plan(text).explain().sources().join("");
    // One array, of the large operand; the two small ones, which are as many loads along another row, stay as they are.
    assert_eq!(
        sources
            .matches("[4096] __attribute__((aligned(64)))")
            .count(),
        1
    );
    let shapes: [&[usize]; 4] = [&[40, 50, 60], &[60, 50, 40], &[60, 50], &[60, 50]];
    let arrays: Vec<_> = shapes
        .iter()
        .zip(1..)
        .map(|(shape, seed)| noise(shape, seed))
        .collect();
    run(text, &arrays, 1e-5);
}
