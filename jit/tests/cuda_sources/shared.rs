//! Memory that the threads of a block share: at most 48 KiB, what every device lets them.

use super::parts::checked;
use super::threads::{draft, kernels, policy};
use std::fmt::Write as _;

/// Bytes of the arrays that a kernel's threads share.
fn shared_bytes(text: &str) -> usize {
    let array = |line: &str| {
        let (kind, rest) = line.trim().strip_prefix("__shared__ ")?.split_once(' ')?;
        let size = if kind == "float" { 4 } else { 8 };
        let extents = rest
            .split(['[', ']'])
            .filter_map(|n| n.parse::<usize>().ok());
        Some(size * extents.product::<usize>())
    };
    text.lines().filter_map(array).sum()
}

/// The sum of the columns of many matrices, as the gradient of what all of them are scaled by.
fn sums(count: usize, [rows, columns]: [usize; 2], dtype: &str) -> String {
    let mut text = String::new();
    for at in 0..count {
        let shape = format!("{dtype}[{rows}, {columns}]");
        let _ = writeln!(text, "%{at}: {shape} = input {at} [{columns}, 1]");
    }
    let mut next = count;
    let mut node = |operation: String| {
        let _ = writeln!(text, "%{next}: {dtype}[{columns}] = {operation}");
        next += 1;
        next - 1
    };
    let sum = |at| node(format!("sum(%{at}) {{dims: [0], keepdim: false}}"));
    let sums: Vec<usize> = (0..count).map(sum).collect();
    let mut all = sums[0];
    for sum in &sums[1..] {
        all = node(format!("add(%{all}, %{sum})"));
    }
    let _ = write!(text, "return %{all}");
    text
}

#[test]
fn sums_of_columns_share_what_a_block_may() {
    for (count, shape, dtype) in [
        (60, [32, 20], "f32"),
        (30, [33, 1100], "f32"),
        (60, [33, 20], "f64"),
        (14, [2048, 256], "f32"),
    ] {
        let graph = sums(count, shape, dtype);
        // Interpreting takes half a minute for more.
        let texts: Vec<String> = match shape[0] < 100 {
            true => checked(&graph, 1e-3),
            false => {
                let draft = draft(&graph, &policy());
                let texts = kernels(&draft).map(|kernel| kernel.source.body.to_string());
                texts.collect()
            }
        };
        let bytes: Vec<usize> = texts.iter().map(|text| shared_bytes(text)).collect();
        assert!(
            bytes.iter().all(|&b| b <= 48 << 10),
            "{shape:?} {dtype}: {bytes:?}"
        );
        assert!(
            bytes.iter().any(|&b| b > 0),
            "{shape:?} {dtype}: columns are strided"
        );
        // As many sums a kernel as there is room for.
        assert!(
            texts.len() <= 8,
            "{shape:?} {dtype}: {} kernels",
            texts.len()
        );
    }
}
