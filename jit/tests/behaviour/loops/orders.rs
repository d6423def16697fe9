//! What one kernel would read along memory and across it, with lanes for some of it alone.

use crate::common::{filled, noise, values};
use crate::{kernels, plan, run};

/// Kernels of a graph, whose values are compared with eager mode's on random operands.
fn kernels_of(text: &str, shape: &[usize]) -> usize {
    run(text, &[noise(shape, 7)], 1e-5);
    kernels(text)
}

fn sums(shape: [usize; 2], first: usize, second: usize) -> String {
    let [rows, columns] = shape;
    let n = shape[1 - first];
    format!(
        "%0: f32[{rows}, {columns}] = input 0 [{columns}, 1]
         %1: f32[{n}] = sum(%0) {{dims: [{first}], keepdim: false}}
         %2: f32[{n}] = sum(%0) {{dims: [{second}], keepdim: false}}
         %3: f32[{n}] = add(%1, %2)
         return %3"
    )
}

#[test]
fn sums_along_both_dimensions_are_two_kernels() {
    assert_eq!(kernels_of(&sums([70, 70], 0, 1), &[70, 70]), 2);
    assert_eq!(kernels_of(&sums([70, 70], 1, 0), &[70, 70]), 2);
    // Along one dimension, and where there is little to read, one kernel does it.
    assert_eq!(kernels_of(&sums([70, 90], 1, 1), &[70, 90]), 1);
    assert_eq!(kernels_of(&sums([9, 9], 0, 1), &[9, 9]), 1);
}

#[test]
fn a_matrix_and_its_transpose_are_stored_before_a_reduction() {
    for (reduction, dim) in [("sum", 1), ("max", 0), ("mean", 1)] {
        let text = format!(
            "%0: f32[80, 80] = input 0 [80, 1]
             %1: f32[80, 80] = permute(%0) {{order: [1, 0]}}
             %2: f32[80, 80] = add(%0, %1)
             %3: f32[80, 80] = abs(%2)
             %4: f32[80] = {reduction}(%3) {{dims: [{dim}], keepdim: false}}
             return %4"
        );
        assert_eq!(kernels_of(&text, &[80, 80]), 2, "{reduction}");
    }
}

/// A dilation by 3x3 of bytes, then their sum.
fn dilated(n: usize) -> String {
    let padded = n + 2;
    let mut text = format!(
        "%0: u8[{n}, {n}] = input 0 [{n}, 1]
         %1: u8[{padded}, {padded}] = pad(%0, $0=0) {{pads: [[1, 1], [1, 1]]}}\n"
    );
    let (mut last, mut next) = (0, 2);
    for i in 0..9 {
        let (down, right) = (i / 3, i % 3);
        text += &format!(
            "%{next}: u8[{n}, {padded}] = narrow(%1) {{dim: 0, start: {down}, len: {n}}}
             %{}: u8[{n}, {n}] = narrow(%{next}) {{dim: 1, start: {right}, len: {n}}}
             %{}: u8[{n}, {n}] = maximum(%{last}, %{})\n",
            next + 1,
            next + 2,
            next + 1
        );
        (last, next) = (next + 2, next + 3);
    }
    text + &format!(
        "%{next}: i64[] = sum(%{last}) {{dims: [0, 1], keepdim: false}}
         return %{next}"
    )
}

#[test]
fn many_operations_on_bytes_have_a_kernel_of_their_own() {
    let of = |n: usize| {
        let x = filled::<u8>(&[n, n], |i| (i * 7919 % 251) as u8);
        let sum = values(&run(&dilated(n), std::slice::from_ref(&x), 0.0)[0])[0];
        let x = values(&x);
        let at = |i: usize, j: usize| x.get(i * n + j).copied().unwrap_or(0.0);
        let around = |k: usize| k.saturating_sub(1)..=(k + 1).min(n - 1);
        let greatest = |i: usize, j: usize| {
            let places = around(i).flat_map(|r| around(j).map(move |c| (r, c)));
            places.map(|(r, c)| at(r, c)).fold(0.0, f64::max)
        };
        let expected: f64 = (0..n * n).map(|p| greatest(p / n, p % n)).sum();
        assert_eq!(sum, expected);
        kernels(&dilated(n))
    };
    assert_eq!(of(100), 2);
    // A few are computed with what is behind them.
    assert_eq!(of(20), 1);
}

#[test]
fn reshapes_to_bits_and_back_divide_nothing() {
    let bits = vec![2usize; 14];
    let strides: Vec<isize> = (0..14).rev().map(|bit| 1 << bit).collect();
    let mut turned = strides.clone();
    turned[0] = -turned[0];
    let text = format!(
        "%0: f32{bits:?} = input 0 {strides:?}
         %1: f32{bits:?} = flip(%0) {{dims: [0]}}
         %2: f32[16384] = reshape(%1) {{to: [16384]}}
         return %2"
    );
    run(&text, &[noise(&bits, 3)], 0.0);
    let explained = plan(&text).explain().to_string();
    assert!(!explained.contains(")%2"), "{explained}");
}

/// A scan's results lie as what it reads: along a dimension whose elements are adjacent they would else be a row apart.
#[test]
fn a_scan_of_what_lies_turned_lies_turned() {
    for (scan, dim) in [("cumsum", 0), ("cumsum", 1), ("cumprod", 0), ("cummax", 1)] {
        let text = format!(
            "%0: f32[40, 50] = input 0 [1, 40]
             %1: f32[40, 50] = abs(%0)
             %2: f32[40, 50] = {scan}(%1) {{dim: {dim}}}
             return %2"
        );
        let x = noise(&[50, 40], 7);
        let x = x.with_layout(x.layout.permute(&[1, 0]));
        let y = run(&text, &[x], 1e-4);
        assert_eq!(y[0].layout.strides(), [1, 40], "{scan} {dim}");
        assert_eq!(kernels(&text), 1, "{scan} {dim}");
    }
}

/// Beside a value that lies row-major, or copied, a scan lies so too: joined with its reader, it stores in the reader's order.
#[test]
fn a_scan_that_is_read_row_major_is_not_turned() {
    for reader in ["add(%2, %1)", "to_dtype(%2)"] {
        let text = format!(
            "%0: f32[40, 50] = input 0 [1, 40]
             %1: f32[40, 50] = input 1 [50, 1]
             %2: f32[40, 50] = cumsum(%0) {{dim: 0}}
             %3: f32[40, 50] = {reader}
             return %3"
        );
        let x = noise(&[50, 40], 7);
        let x = x.with_layout(x.layout.permute(&[1, 0]));
        run(&text, &[x, noise(&[40, 50], 8)], 1e-4);
        let explained = plan(&text).explain().to_string();
        assert!(!explained.contains("= permute("), "{explained}");
    }
}

/// Positions of extremes over two dimensions that are not one in memory have lanes of 32 bits, as those over one.
#[test]
fn positions_over_two_dimensions_are_short() {
    for (kind, want) in [("argmax", 1), ("argmin", 1)] {
        let text = format!(
            "%0: f32[9, 6, 5, 37] = input 0 [1110, 37, 222, 1]
             %1: f32[9, 5, 6, 37] = permute(%0) {{order: [0, 2, 1, 3]}}
             %2: f32[9, 5, 222] = reshape(%1) {{to: [9, 5, 222]}}
             %3: i64[9, 5] = {kind}(%2) {{dims: [2], keepdim: false}}
             return %3"
        );
        let x = noise(&[9, 5, 6, 37], 7);
        let x = x.with_layout(x.layout.permute(&[0, 2, 1, 3]));
        run(&text, std::slice::from_ref(&x), 0.0);
        assert_eq!(kernels(&text), want, "{kind}");
    }
}
