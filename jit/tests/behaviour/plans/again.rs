//! Values that the kernel which reads them computes again: they are not stored.

use crate::common::{noise, values};
use crate::{plan, read, run};
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::{Draft, Explanation};

/// A row softmax whose columns are summed.
fn summed_softmax(rows: usize, cols: usize) -> String {
    format!(
        "%0: f32[{rows}, {cols}] = input 0 [{cols}, 1]
         %1: f32[{rows}, {cols}] = softmax(%0) {{dim: 1}}
         %2: f32[{cols}] = sum(%1) {{dims: [0], keepdim: false}}
         return %2"
    )
}

fn written(text: &str, again_bytes: u64) -> u64 {
    let limits = Policy::from(Thresholds {
        again_bytes,
        ..Thresholds::default()
    });
    let draft = Draft::of(read(text), &limits).unwrap_or_else(|e| panic!("{e}"));
    Explanation::of(&draft).traffic().written
}

#[test]
fn the_sum_of_a_large_softmax_stores_results_of_rows_alone() {
    let (rows, cols) = (2048, 1024);
    let text = summed_softmax(rows, cols);
    let explanation = plan(&text).explain();
    // Maxima and sums of the rows, and the result.
    assert_eq!(explanation.traffic().written, 4 * (2 * rows + cols) as u64);
    assert_eq!(explanation.peak_bytes(), 4 * (2 * rows + cols) as u64);
    let x = noise(&[rows, cols], 1);
    let got = run(&text, std::slice::from_ref(&x), 1e-4);
    let mut want = vec![0.0; cols];
    for row in values(&x).chunks(cols) {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
        for (w, x) in want.iter_mut().zip(row) {
            *w += (x - most).exp() / sum;
        }
    }
    for (got, want) in values(&got[0]).iter().zip(&want) {
        assert!((got - want).abs() <= 1e-5 * want, "{got} for {want}");
    }
}

#[test]
fn costly_functions_of_what_stays_in_the_cache_are_called_once() {
    let text = summed_softmax(64, 96);
    let stored = 4 * 64 * 96;
    assert_eq!(written(&text, 0), 4 * (64 + 64 + 96));
    assert!(written(&text, 8 << 20) > stored);
    run(&text, &[noise(&[64, 96], 2)], 1e-5);
}

#[test]
fn what_is_summed_along_the_rows_of_a_softmax_is_one_kernel() {
    let softmax = "%0: f32[300, 200] = input 0 [200, 1]
        %1: f32[200] = input 1 [1]
        %2: f32[300, 200] = softmax(%0) {dim: 1}\n";
    let product = "%3: f32[300, 200] = mul(%2, %1)
        %4: f32[300] = sum(%3) {dims: [1], keepdim: false}
        return %4";
    let entropy = "%3: f32[300, 200] = log(%2)
        %4: f32[300, 200] = mul(%2, %3)
        %5: f32[300] = sum(%4) {dims: [1], keepdim: false}
        %6: f32[300] = neg(%5)
        return %6";
    for tail in [product, entropy] {
        let text = format!("{softmax}{tail}");
        let explanation = plan(&text).explain();
        assert_eq!(explanation.fused_nodes().len(), 1, "{explanation}");
        assert_eq!(explanation.traffic().written, 4 * 300);
        run(&text, &[noise(&[300, 200], 3), noise(&[200], 4)], 1e-5);
    }
}

#[test]
fn norms_store_no_centred_values() {
    let norm = |shape: &str, strides: &str, groups: usize| {
        format!(
            "%0: f32[{shape}] = input 0 [{strides}]
             %1: f32[{shape}] = group_norm(%0, 1e-5) {{groups: {groups}, weight: false, bias: false}}
             return %1"
        )
    };
    let small = norm("4, 16, 12, 20", "3840, 240, 20, 1", 4);
    // Groups so long that they are split into pieces.
    let large = norm("1, 8, 96, 128", "98304, 12288, 128, 1", 2);
    for (text, shape, statistics) in [(small, [4, 16, 12, 20], 0), (large, [1, 8, 96, 128], 8)] {
        let n: usize = shape.iter().product();
        let traffic = plan(&text).explain().traffic();
        let most = 4 * (n + statistics) as u64;
        assert!(traffic.written <= most, "{} of {most}", traffic.written);
        run(&text, &[noise(&shape, 5)], 1e-4);
    }
    let statistics = "%0: f32[6, 16, 12, 20] = input 0 [3840, 240, 20, 1]
        %1: f32[16] = mean(%0) {dims: [0, 2, 3], keepdim: false}
        %2: f32[16] = var(%0) {dims: [0, 2, 3], correction: 0, keepdim: false}
        return %1 %2";
    assert_eq!(plan(statistics).explain().traffic().written, 4 * 32);
    run(statistics, &[noise(&[6, 16, 12, 20], 6)], 1e-4);
}

/// What a later step writes over cannot be read after it.
#[test]
fn operands_that_are_written_over_are_not_read_again() {
    let text = "%0: f32[64, 96] = input 0 [96, 1]
        %1: f32[64, 96] = exp(%0)
        %2: f32[64, 96] = softmax(%1) {dim: 1}
        %3: f32[96] = sum(%2) {dims: [0], keepdim: false}
        %4: f32[6, 96] = input 1 [96, 1]
        %5: f32[64, 96] = slice_assign(%1, %4) {dim: 0, start: 3, end: 9, step: 1}
        return %3 %5";
    let arrays = [noise(&[64, 96], 7), noise(&[6, 96], 8)];
    run(text, &arrays, 1e-5);
    let limits = Policy::from(Thresholds {
        again_bytes: 0,
        ..Thresholds::default()
    });
    let graph = read(text);
    let want = ferrotrace_jit::run_eagerly(&graph, &arrays, &[]).unwrap_or_else(|e| panic!("{e}"));
    let plan = ferrotrace_jit::Plan::by(graph, &limits).unwrap_or_else(|e| panic!("{e}"));
    let mut inputs = crate::common::kept(&arrays);
    let got = plan.run(&mut inputs, &[]).unwrap_or_else(|e| panic!("{e}"));
    for (g, w) in got.iter().zip(&want) {
        assert_eq!(crate::common::difference(g, w, 1e-5, true), None);
    }
}
