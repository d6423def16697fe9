//! Generated scans: values, what fuses with them, what does not and why.

use super::{kernels, plan, read, run};
use crate::common::{Rng, difference};
use crate::common::{dense, filled, kept, noise, values, window};
use ferrotrace_jit::schedule::Refusal;
use ferrotrace_jit::{Plan, PlanInput, Step, run_eagerly};
use ferrotrace_runtime::DType;

fn scan(name: &str, shape: &[usize], strides: &[isize], dim: usize, exact: &str) -> String {
    format!(
        "%0: f32{shape:?} = input 0 {strides:?}{exact}
         %1: f32{shape:?} = {name}(%0) {{dim: {dim}}}{exact}
         return %1"
    )
}

fn calls(text: &str) -> usize {
    let draft = ferrotrace_jit::Draft::of(read(text), &Default::default()).expect("a draft");
    let is_call = |s: &&Step| matches!(s, Step::Call(_));
    draft.steps.iter().filter(is_call).count()
}

/// Running sums against binary64, along each dimension, of every length about a vector's and the tail's.
#[test]
fn sums_are_those_of_binary64() {
    for n in [1, 2, 3, 7, 15, 16, 17, 31, 33, 64, 100, 1000] {
        for (shape, dim) in [([5, n], 1), ([n, 5], 0), ([n, 40], 0), ([40, n], 1)] {
            let x = noise(&shape, 3);
            let text = scan("cumsum", &shape, &[shape[1] as isize, 1], dim, "");
            assert_eq!(calls(&text), 0);
            let (given, got) = (values(&x), values(&run(&text, &[x], 1e-3)[0]));
            let stride = if dim == 0 { shape[1] } else { 1 };
            let mut want = given.clone();
            for i in 0..want.len() {
                if (i / stride) % shape[dim] > 0 {
                    want[i] += want[i - stride];
                }
            }
            for (i, (g, w)) in got.iter().zip(&want).enumerate() {
                assert!(
                    (g - w).abs() < 1e-4,
                    "{shape:?} along {dim} at {i}: {g} {w}"
                );
            }
        }
    }
}

// ir C1
#[test]
fn every_kind_of_every_dtype() {
    let mut rng = Rng::new(8);
    for from in DType::ALL {
        for kind in [
            "cumsum",
            "cumprod",
            "cummax",
            "cummin",
            "cummax_indices",
            "cummin_indices",
        ] {
            for dim in [1, 2] {
                let out = match kind {
                    "cumsum" | "cumprod" if !from.is_float() => DType::I64,
                    "cummax_indices" | "cummin_indices" => DType::I64,
                    _ => from,
                };
                let mut small = |r: &mut Rng| r.between(0, 2) as f64;
                let x = window(&mut rng, &[4, 19, 3], from, true, &mut small);
                let strides = x.layout.strides().to_vec();
                let (name, indices) = match kind.strip_suffix("_indices") {
                    Some(name) => (name, ", indices: true"),
                    None => (kind, ""),
                };
                let text = format!(
                    "%0: {from}[4, 19, 3] = input 0 {strides:?}
                     %1: {out}[4, 19, 3] = {name}(%0) {{dim: {dim}{indices}}}
                     return %1"
                );
                assert_eq!(calls(&text), 0, "{kind}");
                // Small whole numbers: no rounding whatever the order.
                run(&text, &[x], 0.0);
            }
        }
    }
}

/// Positions of equal extremes, of NaN and of both zeros, and what a NaN does to what follows.
#[test]
fn extremes_keep_nan_and_the_last_of_equals() {
    let nan = f32::NAN;
    let row = [
        1., 3., 3., -2., 3., 5., 5., nan, 7., nan, 1., 9., 0., -0., 2., 8., 8., 1., 0.,
    ];
    let text = "
        %0: f32[2, 19] = input 0 [19, 1]
        %1: f32[2, 19] = cummax(%0) {dim: 1}
        %2: i64[2, 19] = cummax(%0) {dim: 1, indices: true}
        %3: i64[2, 19] = cummin(%0) {dim: 1, indices: true}
        return %1 %2 %3";
    let data: Vec<f32> = row
        .iter()
        .chain(&row[10..])
        .chain(&row[..10])
        .copied()
        .collect();
    let got = run(text, &[dense(&[2, 19], &data)], 0.0);
    assert_eq!(kernels(text), 1, "one pass over the rows");
    let max = values(&got[0]);
    assert!(max[..7] == [1., 3., 3., 3., 3., 5., 5.] && max[7..19].iter().all(|x| x.is_nan()));
    let want = [0., 1., 2., 2., 4., 5., 6., 7., 7., 9., 9., 9.];
    assert_eq!(values(&got[1])[..12], want);
    assert_eq!(values(&got[2])[..8], [0., 0., 0., 3., 3., 3., 3., 7.]);
    assert_eq!(values(&got[1])[19..24], [0., 1., 1., 1., 1.]);
}

/// DESIGN: with `EagerExact`, compiled scans are bit for bit the eager result.
#[test]
fn exact_scans_add_in_the_order_of_eager_mode() {
    for (shape, strides, dim) in [
        ([37, 50], [50, 1], 0),
        ([37, 50], [50, 1], 1),
        ([37, 50], [1, 37], 0),
        ([37, 50], [1, 37], 1),
    ] {
        for name in ["cumsum", "cumprod", "cummax"] {
            let text = scan(name, &shape, &strides, dim, " exact");
            let x = noise(&[shape[0] * shape[1]], 9);
            let layout =
                ferrotrace_runtime::Layout::new(shape.into(), strides.iter().copied().collect(), 0);
            let x = x.with_layout(layout);
            let graph = read(&text);
            let want = run_eagerly(&graph, std::slice::from_ref(&x), &[]).expect("eager");
            let got = Plan::of(graph)
                .expect("it compiles")
                .run(&mut kept(&[x]), &[]);
            // In row-major order, however they lie.
            let bits = |a: &ferrotrace_kernels::Array| -> Vec<u64> {
                values(a).into_iter().map(f64::to_bits).collect()
            };
            assert_eq!(bits(&got.expect("it runs")[0]), bits(&want[0]), "{text}");
        }
    }
}

// codegen A5.6: what comes before and after a scan is in its loop.
#[test]
fn producers_and_consumers_join_the_loop() {
    let text = "
        %0: f32[64, 100] = input 0 [100, 1]
        %1: f32[64, 100] = input 1 [100, 1]
        %2: f32[64, 100] = mul(%0, %1)
        %3: f32[64, 100] = cumsum(%2) {dim: 1}
        %4: f32[64, 100] = tanh(%3)
        %5: f32[64] = max(%4) {dims: [1], keepdim: false}
        return %4 %5";
    let found = plan(text).explain();
    assert_eq!(found.fused_nodes().len(), 1);
    assert_eq!(found.fused_nodes()[0].loops, 1);
    run(text, &[noise(&[64, 100], 1), noise(&[64, 100], 2)], 1e-4);
}

/// Softmax, then the running sum of its row: the sum is in the last loop.
#[test]
fn a_scan_of_what_a_reduction_makes_is_in_the_same_kernel() {
    for (rows, cols) in [(5, 40), (64, 1000)] {
        let text = format!(
            "%0: f32[{rows}, {cols}] = input 0 [{cols}, 1]
             %1: f32[{rows}, {cols}] = softmax(%0) {{dim: 1}}
             %2: f32[{rows}, {cols}] = cumsum(%1) {{dim: 1}}
             %3: bool[{rows}, {cols}] = lt(%2, $0=2.0)
             %4: i64[{rows}] = sum(%3) {{dims: [1], keepdim: false}}
             return %2 %4"
        );
        assert_eq!(kernels(&text), 1);
        let got = run(&text, &[noise(&[rows, cols], 4)], 1e-5);
        assert!(values(&got[1]).iter().all(|&n| n == cols as f64));
        for row in values(&got[0]).chunks(cols) {
            assert!((row[cols - 1] - 1.0).abs() < 1e-5 && row.is_sorted());
        }
    }
}

/// A scan of a strided dimension and reductions over the same one share the loop over rows.
#[test]
fn strided_scans_fuse_too() {
    let text = "
        %0: f32[90, 70] = input 0 [70, 1]
        %1: f32[90, 70] = exp(%0)
        %2: f32[90, 70] = cumsum(%1) {dim: 0}
        %3: f32[90, 70] = log(%2)
        %4: f32[70] = sum(%1) {dims: [0], keepdim: false}
        return %3 %4";
    assert_eq!(kernels(text), 1);
    run(text, &[noise(&[90, 70], 6)], 1e-2);
}

// scheduler L-30: a sum over the other dimension needs rows that other threads compute.
#[test]
fn a_reduction_across_the_rows_is_another_kernel() {
    let text = "
        %0: f32[64, 100] = input 0 [100, 1]
        %1: f32[64, 100] = cumsum(%0) {dim: 1}
        %2: f32[100] = sum(%1) {dims: [0], keepdim: false}
        return %2";
    assert_eq!(kernels(text), 2);
    run(text, &[noise(&[64, 100], 1)], 1e-2);
}

// scheduler L-34
#[test]
fn a_scan_and_a_split_reduction_are_two_kernels() {
    let text = "
        %0: f32[2, 60000] = input 0 [60000, 1]
        %1: f32[2, 60000] = cumsum(%0) {dim: 1}
        %2: f32[2] = sum(%0) {dims: [1], keepdim: false}
        return %1 %2";
    let refused = plan(text).explain();
    assert_eq!(refused.fused_nodes().len(), 2);
    assert!(refused.refusals().iter().any(|r| r.2 == Refusal::SplitScan));
    run(text, &[noise(&[2, 60000], 5)], 1.0);
}

/// Columns in another order: sums do not mind, scans do.
#[test]
fn columns_keep_their_order() {
    let text = "
        %0: f32[8, 6, 20] = input 0 [120, 20, 1]
        %1: f32[8, 20, 6] = permute(%0) {order: [0, 2, 1]}
        %2: f32[8, 120] = reshape(%1) {to: [8, 120]}
        %3: f32[8, 120] = cumsum(%2) {dim: 1}
        %4: f32[8, 120] = reshape(%0) {to: [8, 120]}
        %5: f32[8, 120] = cumsum(%4) {dim: 1}
        %6: f32[8] = sum(%0) {dims: [1, 2], keepdim: false}
        return %3 %5 %6";
    let refused = plan(text).explain();
    assert!(refused.refusals().iter().any(|r| r.2 == Refusal::ScanOrder));
    run(text, &[noise(&[8, 6, 20], 5)], 1e-3);
}

/// A position found by a running count, then read: compaction.
#[test]
fn a_running_count_is_an_index() {
    let text = "
        %0: bool[6, 50] = input 0 [50, 1]
        %1: f32[6, 51] = input 1 [51, 1]
        %2: i64[6, 50] = cumsum(%0) {dim: 1}
        %3: f32[6, 50] = gather(%1, %2) {dim: 1}
        return %3";
    assert_eq!(kernels(text), 1);
    let flags = filled(&[6, 50], |i| i % 3 != 1);
    run(text, &[flags, noise(&[6, 51], 2)], 0.0);
}

// ir C3, C4: what loops are not made for.
#[test]
fn long_rows_and_single_elements() {
    assert_eq!(calls(&scan("cumsum", &[70_000], &[1], 0, "")), 1);
    assert_eq!(
        calls(&scan("cumsum", &[16, 70_000], &[70_000, 1], 1, "")),
        0
    );
    assert_eq!(calls(&scan("logcumsumexp", &[16, 70], &[70, 1], 1, "")), 1);
    for shape in [&[][..], &[1], &[4, 1]] {
        let strides = vec![1; shape.len()];
        let text = scan("cumsum", shape, &strides, shape.len().saturating_sub(1), "");
        assert_eq!(calls(&text), 0);
        run(&text, &[noise(shape, 3)], 0.0);
    }
    run(
        &scan("cummax", &[3, 0], &[1, 1], 1, ""),
        &[noise(&[3, 0], 3)],
        0.0,
    );
}

/// A buffer that dies with the scan takes its result: every element is read before it is written.
#[test]
fn a_scan_overwrites_its_operand() {
    let text = scan("cumsum", &[64, 100], &[100, 1], 1, "");
    let x = noise(&[64, 100], 2);
    let want = run_eagerly(&read(&text), std::slice::from_ref(&x), &[]).expect("eager");
    let place = x.buffer.as_slice::<f32>().as_ptr();
    let mut inputs = vec![PlanInput {
        array: x,
        donated: true,
    }];
    let got = plan(&text).run(&mut inputs, &[]).expect("it runs");
    assert_eq!(got[0].buffer.as_slice::<f32>().as_ptr(), place);
    assert_eq!(difference(&got[0], &want[0], 1e-4, true), None);
}

/// A scan that a later loop needs too is started anew there.
#[test]
fn a_scan_runs_again_in_a_later_loop() {
    for dim in [0, 1] {
        let text = format!(
            "%0: f32[40, 50] = input 0 [50, 1]
             %1: f32[40, 50] = cumsum(%0) {{dim: {dim}}}
             %2: f32[40, 50] = softmax(%1) {{dim: {dim}}}
             %3: f32[40, 50] = sub(%2, %1)
             return %3"
        );
        assert_eq!(kernels(&text), 1);
        run(&text, &[noise(&[40, 50], 7)], 1e-4);
    }
}

/// Parts of a concatenation that are scans are written where they belong.
#[test]
fn a_scan_is_written_into_a_concatenation() {
    for dim in [0, 1] {
        let text = format!(
            "%0: f32[300, 200] = input 0 [200, 1]
             %1: f32[300, 200] = cumsum(%0) {{dim: {dim}}}
             %2: f32[300, 200] = cummax(%0) {{dim: {dim}}}
             %3: f32[300, 400] = cat(%1, %2) {{dim: 1}}
             %4: f32[600, 200] = cat(%1, %0) {{dim: 0}}
             return %3"
        );
        run(&text, &[noise(&[300, 200], 7)], 1e-2);
    }
}

// The search for a NaN walks the row again, where a scan's values do not exist.
#[test]
fn the_first_nan_of_running_values_is_found() {
    let text = "
        %0: i16[16, 33] = input 0 [33, 1]
        %1: i64[16, 33] = cumsum(%0) {dim: 1}
        %2: f32[16, 33] = log(%1)
        %3: i64[16] = argmin(%2) {dims: [1], keepdim: false}
        return %3";
    let x = filled::<i16>(&[16, 33], |i| if i % 33 == i / 33 { -9 } else { 1 });
    assert_eq!(kernels(text), 2);
    let found = values(&run(text, &[x], 0.0)[0]);
    // The first running sum below zero, whose logarithm is a NaN, is that of the -9 in the first nine rows.
    for (row, &at) in found.iter().enumerate().take(9) {
        assert_eq!(at, row as f64);
    }
}

// A product's panels are rows and columns of it; a scan goes through all of them in order.
#[test]
fn a_scan_of_a_product_is_no_part_of_its_panels() {
    for (m, n) in [(3, 5), (130, 70)] {
        let text = format!(
            "%0: f32[{m}, 8] = input 0 [8, 1]
             %1: f32[8, {n}] = input 1 [{n}, 1]
             %2: f32[{m}, {n}] = matmul(%0, %1)
             %3: f32[{m}, {n}] = tanh(%2)
             %4: f32[{all}] = reshape(%3) {{to: [{all}]}}
             %5: f32[{all}] = cummax(%4) {{dim: 0}}
             %6: f32[{m}, {n}] = cumsum(%3) {{dim: 1}}
             return %5 %6",
            all = m * n
        );
        run(&text, &[noise(&[m, 8], 1), noise(&[8, n], 2)], 1e-3);
    }
}
