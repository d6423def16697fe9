//! Rows whose last loop runs in the next row's: every number of rows and columns, rows that may not wait, and memory
//! that is written over.

use crate::common::{bits, copied, filled, values};
use crate::plans::memory::donated;
use crate::{plan, run};
use ferrotrace_kernels::Array;

/// Programs of `rows` rows; each result's rows depend on the same rows of the input alone.
fn programs(rows: usize, cols: usize) -> [String; 4] {
    let head = format!("%0: f32[{rows}, {cols}] = input 0 [{cols}, 1]");
    let wide = format!("f32[{rows}, {cols}]");
    [
        format!("{head}\n%1: {wide} = softmax(%0) {{dim: 1}}\nreturn %1"),
        format!("{head}\n%1: {wide} = log_softmax(%0) {{dim: 1}}\nreturn %1"),
        // The divisor of a row may be 0, infinite or subnormal.
        format!(
            "{head}
             %1: {wide} = exp(%0)
             %2: f32[{rows}, 1] = sum(%1) {{dims: [1], keepdim: true}}
             %3: {wide} = div(%1, %2)
             return %3"
        ),
        // Two results, one of them before the last loop.
        format!(
            "{head}
             %1: {wide} = softmax(%0) {{dim: 1}}
             %2: {wide} = sub(%1, %0)
             %3: f32[{rows}] = max(%0) {{dims: [1], keepdim: false}}
             return %1 %2 %3"
        ),
    ]
}

/// Rows of numbers, among them rows with an infinity, with NaN, and of numbers whose exponentials all vanish, are
/// subnormal or overflow.
fn element(row: usize, column: usize) -> f32 {
    match (row % 11, column) {
        (3, 5) => f32::INFINITY,
        (5, 0) => f32::NAN,
        (6, _) => f32::NEG_INFINITY,
        (7, _) => -100.0,
        (8, _) => 100.0,
        (9, _) => -200.0,
        _ => ((row * 31 + column * 17) % 97) as f32 / 9.0 - 5.0,
    }
}

fn rows_of(from: usize, rows: usize, cols: usize) -> Array {
    filled::<f32>(&[rows, cols], |i| element(from + i / cols, i % cols))
}

// codegen A5.5, A3.6: one row alone is never late
#[test]
fn rows_have_the_bits_that_they_have_alone() {
    for (rows, cols) in [
        (1, 100),
        (2, 64),
        (3, 1),
        (5, 15),
        (8, 16),
        (13, 65),
        (34, 127),
        (23, 1000),
        (12, 1024),
        (257, 144),
    ] {
        for (all, alone) in programs(rows, cols).iter().zip(programs(1, cols)) {
            let together = run(all, &[rows_of(0, rows, cols)], 1e-5);
            let one = plan(&alone);
            for row in 0..rows {
                let mut input = crate::common::kept(&[rows_of(row, 1, cols)]);
                let want = one.run(&mut input, &[]).expect("it runs");
                for (got, want) in together.iter().zip(&want) {
                    let (got, want) = (bits(got), bits(want));
                    let n = want.len();
                    assert_eq!(
                        got[row * n..][..n],
                        want,
                        "row {row} of {rows}x{cols}: {all}"
                    );
                }
            }
        }
    }
}

#[test]
fn rows_add_up_to_one() {
    for (rows, cols) in [(2, 1000), (19, 333)] {
        let [text, ..] = programs(rows, cols);
        let x = filled::<f32>(&[rows, cols], |i| element(0, i));
        let (x, y) = (values(&x), values(&run(&text, &[x], 1e-6)[0]));
        for (x, y) in x.chunks(cols).zip(y.chunks(cols)) {
            let sum: f64 = x.iter().map(|x| x.exp()).sum();
            for (x, y) in x.iter().zip(y) {
                assert!((y - x.exp() / sum).abs() <= 1e-6 * y, "{y} of {x}");
            }
        }
    }
}

#[test]
fn rows_written_over_what_they_read() {
    for (rows, cols) in [(2, 64), (37, 300)] {
        for text in &programs(rows, cols)[..3] {
            let x = rows_of(0, rows, cols);
            let want = run(text, &[copied(&x)], 1e-5);
            let got = plan(text).run(&mut donated(x), &[]).expect("it runs");
            assert_eq!(bits(&got[0]), bits(&want[0]), "{text}");
        }
    }
}

#[test]
fn no_rows() {
    for text in &programs(0, 64)[..3] {
        let x = filled::<f32>(&[0, 64], |_| 0.0);
        assert_eq!(values(&run(text, &[x], 0.0)[0]), []);
    }
}
