//! Ready-made kernels that write to memory which the plan gives them.

use crate::common::{copied, dense, filled, kept, noise, values};
use crate::{read, run};
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::target::Target;
use ferrotrace_jit::{Plan, PlanInput};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Stats, stats_scope};
use std::sync::Arc;

/// A plan whose scatters are ready-made.
fn plan(text: &str) -> Arc<Plan> {
    let limits = Policy::from(Target {
        scatters: false,
        ..Target::default()
    });
    Plan::by(read(text), &limits).unwrap_or_else(|e| panic!("{e}"))
}

/// Results and counts of a run that may overwrite those of its inputs, copied first, that are marked.
fn given(text: &str, arrays: &[Array], donated: &[bool]) -> (Vec<Array>, Stats) {
    let plan = plan(text);
    let inputs = arrays.iter().zip(donated);
    let mut inputs: Vec<PlanInput> = inputs
        .map(|(array, &donated)| PlanInput {
            array: copied(array),
            donated,
        })
        .collect();
    let (results, stats) = stats_scope(|| plan.run(&mut inputs, &[]));
    let results = results.unwrap_or_else(|e| panic!("{e}"));
    let estimate = plan.draft().peak(&|input| donated[input as usize]);
    assert!(stats.peak_bytes >= estimate, "{text}");
    (results, stats)
}

// ir E2, N3; spec T48 of concatenated products: rows apart, batches apart, vectors.
#[test]
fn products_are_written_in_their_part_of_a_concatenation() {
    for (left, right, result, whole, dim) in [
        ("96, 64", "64, 80", "96, 80", "96, 160", 1),
        ("96, 64", "64, 80", "96, 80", "192, 80", 0),
        // A batch whose matrices share the right one, and one whose do not.
        ("3, 96, 64", "64, 80", "3, 96, 80", "3, 192, 80", 1),
        ("3, 96, 64", "64, 80", "3, 96, 80", "3, 96, 160", 2),
        ("3, 96, 64", "3, 64, 80", "3, 96, 80", "3, 96, 160", 2),
        ("64", "64, 8000", "8000", "16000", 0),
        ("8000, 64", "64", "8000", "16000", 0),
        ("8, 1, 64", "64, 2000", "8, 1, 2000", "8, 2, 2000", 1),
    ] {
        let shape = |dims: &str| -> Vec<usize> {
            let sizes = dims.split(", ").map(|n| n.parse().expect("a size"));
            sizes.collect()
        };
        let strides = |dims: &str| {
            let shape: ferrotrace_runtime::Shape = shape(dims).into_iter().collect();
            format!("{:?}", shape.strides().as_slice())
        };
        let text = format!(
            "%0: f32[{left}] = input 0 {}
             %1: f32[{right}] = input 1 {}
             %2: f32[{right}] = input 2 {}
             %3: f32[{result}] = matmul(%0, %1)
             %4: f32[{result}] = matmul(%0, %2)
             %5: f32[{whole}] = cat(%3, %4) {{dim: {dim}}}
             return %5",
            strides(left),
            strides(right),
            strides(right),
        );
        let arrays = [
            noise(&shape(left), 1),
            noise(&shape(right), 2),
            noise(&shape(right), 3),
        ];
        run(&text, &arrays, 1e-4);
        let (_, stats) = stats_scope(|| plan(&text).run(&mut kept(&arrays), &[]));
        let bytes = 4 * shape(whole).iter().product::<usize>() as u64;
        // Two products and no copy.
        assert_eq!(
            (stats.library_calls, stats.peak_bytes),
            (2, bytes),
            "{text}"
        );
    }
}

// Columns that are not dense in the result are computed apart and copied, and so are half-precision products.
#[test]
fn products_that_no_window_takes_are_copied() {
    for (dtype, columns) in [("f32", 1), ("bf16", 80)] {
        let n = 8000;
        let text = format!(
            "%0: {dtype}[{n}, 4] = input 0 [4, 1]
             %1: {dtype}[4, {columns}] = input 1 [{columns}, 1]
             %2: {dtype}[{n}, {columns}] = matmul(%0, %1)
             %3: {dtype}[4, {columns}] = mul(%1, 2.0)
             %4: {dtype}[{n}, {columns}] = matmul(%0, %3)
             %5: {dtype}[{n}, {}] = cat(%2, %4) {{dim: 1}}
             return %5",
            2 * columns
        );
        let small = |i: usize| (i % 7) as f32;
        let arrays = match dtype {
            "f32" => [filled(&[n, 4], small), filled(&[4, columns], small)],
            _ => {
                let half = |i: usize| half::bf16::from_f32(small(i));
                [filled(&[n, 4], half), filled(&[4, columns], half)]
            }
        };
        run(&text, &arrays, 1e-2);
    }
}

const SCATTER: &str = "
    %0: f32[1000, 8] = input 0 [8, 1]
    %1: i64[3, 8] = input 1 [8, 1]
    %2: f32[3, 8] = input 2 [8, 1]
    %3: f32[1000, 8] = scatter(%0, %1, %2) {dim: 0, mode: \"sum\", include_self: true}
    return %3";

fn scattered() -> [Array; 3] {
    let rows = filled::<i64>(&[3, 8], |i| [7, 999, 7][i / 8]);
    [noise(&[1000, 8], 1), rows, noise(&[3, 8], 2)]
}

// scheduler B-22: a dying operand is changed where it lies.
#[test]
fn scatters_write_over_what_dies() {
    let arrays = scattered();
    let want = values(&run(SCATTER, &arrays, 0.0)[0]);
    let (got, stats) = given(SCATTER, &arrays, &[true, false, false]);
    assert_eq!(values(&got[0]), want);
    // Nothing is allocated but the places' few bytes.
    assert_eq!((stats.in_place_writes, stats.peak_bytes), (1, 0));
    let (got, stats) = given(SCATTER, &arrays, &[false, true, true]);
    assert_eq!(values(&got[0]), want);
    assert_eq!((stats.in_place_writes, stats.peak_bytes), (0, 32_000));
}

// scheduler B-08: every clause keeps an operand from being overwritten.
#[test]
fn operands_that_are_needed_are_not_written_over() {
    let arrays = scattered();
    // Donated, but held by another handle.
    let mut inputs: Vec<PlanInput> = arrays
        .iter()
        .map(|array| PlanInput {
            array: array.clone(),
            donated: true,
        })
        .collect();
    let before = values(&arrays[0]);
    let (result, stats) = stats_scope(|| plan(SCATTER).run(&mut inputs, &[]));
    result.expect("it runs");
    assert_eq!((stats.in_place_writes, values(&arrays[0])), (0, before));
    for text in [
        // Read later.
        "%0: f32[1000, 8] = input 0 [8, 1]
         %1: i64[3, 8] = input 1 [8, 1]
         %2: f32[3, 8] = input 2 [8, 1]
         %3: f32[1000, 8] = scatter(%0, %1, %2) {dim: 0, mode: \"sum\", include_self: true}
         return %3 %0",
        // Also the source.
        "%0: f32[1000, 8] = input 0 [8, 1]
         %1: i64[3, 8] = input 1 [8, 1]
         %2: f32[3, 8] = input 2 [8, 1]
         %3: f32[1000, 8] = scatter(%0, %1, %0) {dim: 0, mode: \"sum\", include_self: true}
         return %3",
        // A part of the buffer, and another order of its elements.
        "%0: f32[1000, 8] = input 0 [8, 1]
         %1: i64[3, 8] = input 1 [8, 1]
         %2: f32[3, 8] = input 2 [8, 1]
         %3: f32[999, 8] = narrow(%0) {dim: 0, start: 1, len: 999}
         %4: f32[999, 8] = flip(%3) {dims: [0]}
         %5: i64[3, 8] = mul(%1, 0)
         %6: f32[999, 8] = scatter(%4, %5, %2) {dim: 0, mode: \"sum\", include_self: true}
         return %6",
    ] {
        let want = run(text, &arrays, 0.0);
        let (got, stats) = given(text, &arrays, &[true; 3]);
        assert_eq!(
            stats.in_place_writes,
            u64::from(text.contains("mul")),
            "{text}"
        );
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(values(got), values(want), "{text}");
        }
    }
}

// Sums of half types are kept in binary32 until all are in, so there is no place for them in the operand.
#[test]
fn sums_of_halves_are_rounded_once() {
    let text = "
        %0: f16[4] = input 0 [1]
        %1: i64[3000] = input 1 [1]
        %2: f16[4] = scatter(%0, %1, 1.0) {dim: 0, mode: \"sum\", include_self: true}
        return %2";
    let arrays = [
        dense::<half::f16>(&[4], &[half::f16::ZERO; 4]),
        filled::<i64>(&[3000], |_| 2),
    ];
    let (got, stats) = given(text, &arrays, &[true, true]);
    assert_eq!((values(&got[0])[2], stats.in_place_writes), (3000.0, 0));
}

// A chain of updates of a product's result: each is written where the one before lies.
#[test]
fn a_chain_of_updates_stays_in_one_buffer() {
    let mut text = String::from(
        "%0: f32[64, 64] = input 0 [64, 1]
         %1: i64[2] = input 1 [1]
         %2: f32[64, 64] = matmul(%0, %0)\n",
    );
    for i in 3..9 {
        text += &format!(
            "%{i}: f32[64, 64] = index_put(%{}, {i}.0, %1) {{axes: [{}], at: {}, accumulate: {}}}\n",
            i - 1,
            i % 2,
            if i % 2 == 0 { 0 } else { 1 },
            i % 3 == 0
        );
    }
    text += "return %8";
    let arrays = [noise(&[64, 64], 1), filled::<i64>(&[2], |i| [5, 63][i])];
    run(&text, &arrays, 1e-4);
    let (_, stats) = given(&text, &arrays, &[false, false]);
    // One buffer, and the few elements of a source.
    assert_eq!(stats.in_place_writes, 6);
    assert!((64 * 64 * 4..65 * 64 * 4 + 512).contains(&stats.peak_bytes));
}

// An index out of range is an error all the same.
#[test]
fn faults_over_a_dying_operand_are_errors() {
    let mut arrays = scattered();
    arrays[1] = filled::<i64>(&[3, 8], |_| 1000);
    let mut inputs: Vec<PlanInput> = arrays
        .iter()
        .map(|array| PlanInput {
            array: copied(array),
            donated: true,
        })
        .collect();
    let error = plan(SCATTER).run(&mut inputs, &[]).expect_err("a fault");
    assert!(error.to_string().contains("1000"), "{error}");
}

/// An assignment of `rows` rows of 256 to a matrix of 1000, which a product reads beside the caller.
fn cache(rows: usize) -> String {
    format!(
        "%0: f32[1000, 256] = input 0 [256, 1]
         %1: f32[{rows}, 256] = input 1 [256, 1]
         %2: f32[256, 4] = input 2 [4, 1]
         %3: f32[{rows}, 256] = tanh(%1)
         %4: f32[1000, 256] = slice_assign(%0, %3) {{dim: 0, start: 7, end: {}, step: 1}}
         %5: f32[1000, 4] = matmul(%4, %2)
         return %4 %5",
        7 + rows
    )
}

// A few rows of a large tensor: where nothing else needs it they alone are written.
#[test]
fn slices_are_written_over_a_dying_tensor() {
    for rows in [1, 125, 126, 900] {
        let text = cache(rows);
        let arrays = [
            noise(&[1000, 256], 1),
            noise(&[rows, 256], 2),
            noise(&[256, 4], 3),
        ];
        let want = run(&text, &arrays, 1e-4);
        assert!(!plan(&text).explain().calls().contains(&"slice_assign"));
        // The product, and where it is not overwritten the whole.
        let (small, whole) = (4 * (1000 * 4) as u64, 1000 * 256 * 4);
        for donated in [true, false] {
            let (got, stats) = given(&text, &arrays, &[donated, false, false]);
            for (got, want) in got.iter().zip(&want) {
                assert_eq!(values(got), values(want), "{rows} {donated}");
            }
            assert_eq!(stats.in_place_writes, u64::from(donated));
            let held = small + if donated { 0 } else { whole };
            assert!(stats.peak_bytes <= held, "{} of {held}", stats.peak_bytes);
        }
    }
}

// The old value is read once more, by a kernel that runs later or by the assignment's own source.
#[test]
fn slices_are_not_written_over_what_is_needed() {
    for text in [
        "%0: f32[1000, 256] = input 0 [256, 1]
         %1: f32[1, 256] = input 1 [256, 1]
         %2: f32[1000, 256] = slice_assign(%0, %1) {dim: 0, start: 7, end: 8, step: 1}
         %3: f32[1000] = sum(%0) {dims: [1], keepdim: false}
         return %2 %3",
        "%0: f32[1000, 256] = input 0 [256, 1]
         %1: f32[1, 256] = input 1 [256, 1]
         %2: f32[1, 256] = narrow(%0) {dim: 0, start: 8, len: 1}
         %3: f32[1000, 256] = slice_assign(%0, %2) {dim: 0, start: 7, end: 8, step: 1}
         return %3",
        "%0: f32[1000, 256] = input 0 [256, 1]
         %1: f32[1, 256] = input 1 [256, 1]
         %2: f32[999, 256] = narrow(%0) {dim: 0, start: 1, len: 999}
         %3: f32[999, 256] = slice_assign(%2, %1) {dim: 0, start: 7, end: 8, step: 1}
         return %3",
    ] {
        let arrays = [noise(&[1000, 256], 1), noise(&[1, 256], 2)];
        let want = run(text, &arrays, 1e-4);
        let (got, _) = given(text, &arrays, &[true, true]);
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(values(got), values(want), "{text}");
        }
    }
}

// Rows written one by one to a product's result stay in its memory.
#[test]
fn a_chain_of_slices_stays_in_one_buffer() {
    let mut text = String::from(
        "%0: f32[256, 256] = input 0 [256, 1]
         %1: f32[1, 256] = input 1 [256, 1]
         %2: f32[256, 256] = matmul(%0, %0)
         %3: f32[256, 256] = slice_assign(%2, %1) {dim: 0, start: 3, end: 4, step: 1}\n",
    );
    for i in 4..20 {
        text += &format!(
            "%{i}: f32[256, 256] = slice_assign(%{}, %1) {{dim: 0, start: {i}, end: {}, step: 1}}\n",
            i - 1,
            i + 1
        );
    }
    text += "return %19";
    let arrays = [noise(&[256, 256], 1), noise(&[1, 256], 2)];
    let want = run(&text, &arrays, 1e-4);
    let (got, stats) = given(&text, &arrays, &[false, false]);
    assert_eq!(values(&got[0]), values(&want[0]));
    assert!(
        stats.peak_bytes <= 2 * 256 * 256 * 4,
        "{}",
        stats.peak_bytes
    );
}
