//! Pools as loops: what is before and behind them is part of their kernel.

use super::{plan, run};
use crate::common::{noise, values};
use ferrotrace_kernels::Array;

/// Windows of the last two dimensions.
#[derive(Clone, Copy)]
struct Windows {
    kernel: usize,
    stride: usize,
    padding: usize,
}

impl Windows {
    fn output(self, n: usize) -> usize {
        (n + 2 * self.padding - self.kernel) / self.stride + 1
    }

    fn text(self) -> String {
        let Windows {
            kernel,
            stride,
            padding,
        } = self;
        format!(
            "{{kernel: [{kernel}, {kernel}], stride: [{stride}, {stride}], padding: [{padding}, {padding}]}}"
        )
    }

    /// Of planes of `h` by `w`, what `fold` makes of the elements in each window.
    fn of(self, x: &[f64], (h, w): (usize, usize), fold: fn(&[f64], usize) -> f64) -> Vec<f64> {
        let mut all = Vec::new();
        for plane in x.chunks(h * w) {
            for i in 0..self.output(h) {
                for j in 0..self.output(w) {
                    let mut inside = Vec::new();
                    for a in 0..self.kernel {
                        for b in 0..self.kernel {
                            let y = (i * self.stride + a).wrapping_sub(self.padding);
                            let x = (j * self.stride + b).wrapping_sub(self.padding);
                            if y < h && x < w {
                                inside.push(plane[y * w + x]);
                            }
                        }
                    }
                    all.push(fold(&inside, self.kernel * self.kernel));
                }
            }
        }
        all
    }
}

fn greatest(x: &[f64], _: usize) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn mean(x: &[f64], taps: usize) -> f64 {
    x.iter().sum::<f64>() / taps as f64
}

fn near(got: &Array, want: &[f64]) {
    let got = values(got);
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 1e-5 * w.abs().max(1.0), "{i}: {g} for {w}");
    }
}

const FORMS: [(usize, usize, usize); 7] = [
    (2, 2, 0),
    (3, 3, 0),
    (3, 2, 1),
    (3, 1, 1),
    (2, 1, 0),
    (1, 2, 0),
    (2, 3, 1),
];

#[test]
fn pointwise_work_joins_pools() {
    for (kind, fold) in [("max", greatest as fn(&[f64], usize) -> f64), ("avg", mean)] {
        for (kernel, stride, padding) in FORMS {
            let windows = Windows {
                kernel,
                stride,
                padding,
            };
            // Rows shorter and longer than a vector, and of several with something left.
            for (h, w) in [(9, 7), (11, 33), (40, 70)] {
                let (a, b) = (windows.output(h), windows.output(w));
                let text = format!(
                    "%0: f32[2, 3, {h}, {w}] = input 0 [{}, {}, {w}, 1]
                     %1: f32[2, 3, {h}, {w}] = relu(%0)
                     %2: f32[2, 3, {a}, {b}] = {kind}_pool2d(%1) {}
                     %3: f32[2, 3, {a}, {b}] = neg(%2)
                     return %3",
                    3 * h * w,
                    h * w,
                    windows.text()
                );
                let explanation = plan(&text).explain();
                assert_eq!(explanation.fused_nodes().len(), 1, "{explanation}");
                assert_eq!(explanation.calls(), [""; 0]);
                let traffic = explanation.traffic();
                assert_eq!(traffic.written, 4 * 6 * (a * b) as u64);
                assert!(traffic.read <= 4 * 6 * (h * w) as u64);
                let x = noise(&[2, 3, h, w], 5);
                let positive: Vec<f64> = values(&x).iter().map(|x| x.max(0.0)).collect();
                let want = windows.of(&positive, (h, w), fold);
                let want: Vec<f64> = want.iter().map(|y| -y).collect();
                near(&run(&text, &[x], 1e-6)[0], &want);
            }
        }
    }
}

#[test]
fn pools_of_pools_and_reductions_of_pools_are_one_kernel() {
    let input = "%0: f32[4, 8, 36, 52] = input 0 [14976, 1872, 52, 1]
        %1: f32[4, 8, 18, 26] = max_pool2d(%0) {kernel: [2, 2], stride: [2, 2], padding: [0, 0]}\n";
    let half = Windows {
        kernel: 2,
        stride: 2,
        padding: 0,
    };
    let x = noise(&[4, 8, 36, 52], 6);
    let first = half.of(&values(&x), (36, 52), greatest);
    let stacked = format!(
        "{input}%2: f32[4, 8, 9, 13] = avg_pool2d(%1) {}
         return %2",
        half.text()
    );
    let second = half.of(&first, (18, 26), mean);
    let reduced = format!(
        "{input}%2: f32[4, 8] = mean(%1) {{dims: [2, 3], keepdim: false}}
         return %2"
    );
    let means: Vec<f64> = first.chunks(18 * 26).map(|p| mean(p, p.len())).collect();
    for (text, want) in [(stacked, second), (reduced, means)] {
        let explanation = plan(&text).explain();
        assert_eq!(explanation.fused_nodes().len(), 1, "{explanation}");
        assert_eq!(explanation.traffic().written, 4 * want.len() as u64);
        near(&run(&text, std::slice::from_ref(&x), 1e-5)[0], &want);
    }
}

#[test]
fn the_operand_of_windows_that_overlap_is_computed_once() {
    let text = |stride: usize, rows: usize| {
        format!(
            "%0: f32[8, 32, 32] = input 0 [1024, 32, 1]
             %1: f32[8, 32, 32] = exp(%0)
             %2: f32[8, {rows}, {rows}] = max_pool2d(%1) {{kernel: [2, 2], stride: [{stride}, {stride}], padding: [0, 0]}}
             return %2"
        )
    };
    let written = |text: &str| plan(text).explain().traffic().written;
    assert_eq!(written(&text(1, 31)), 4 * 8 * (32 * 32 + 31 * 31));
    for (stride, rows) in [(1, 31), (2, 16)] {
        run(&text(stride, rows), &[noise(&[8, 32, 32], 7)], 1e-6);
    }
}

#[test]
fn large_windows_are_for_the_ready_made_kernel() {
    let text = "%0: f32[8, 32, 32] = input 0 [1024, 32, 1]
        %1: f32[8, 28, 28] = avg_pool2d(%0) {kernel: [5, 5], stride: [1, 1], padding: [0, 0]}
        return %1";
    assert_eq!(plan(text).explain().calls(), ["avg_pool2d"]);
    // But for whole planes.
    let text = "%0: f32[8, 32, 32] = input 0 [1024, 32, 1]
        %1: f32[8, 1, 1] = adaptive_avg_pool2d(%0) {size: [1, 1]}
        %2: f32[8, 1, 1] = relu(%1)
        return %2";
    let explanation = plan(text).explain();
    assert_eq!(explanation.fused_nodes().len(), 1);
    assert_eq!(explanation.traffic().written, 4 * 8);
    run(text, &[noise(&[8, 32, 32], 8)], 1e-6);
}

#[test]
fn integers_and_nan_are_pooled_as_in_eager_mode() {
    let text = "%0: f32[3, 9, 21] = input 0 [189, 21, 1]
        %1: f32[3, 9, 21] = log(%0)
        %2: f32[3, 5, 11] = max_pool2d(%1) {kernel: [3, 3], stride: [2, 2], padding: [1, 1]}
        %3: i16[3, 9, 21] = to_dtype(%0) {dtype: i16}
        %4: i16[3, 5, 11] = max_pool2d(%3) {kernel: [3, 3], stride: [2, 2], padding: [1, 1]}
        return %2 %4";
    run(text, &[noise(&[3, 9, 21], 9)], 1e-5);
}
