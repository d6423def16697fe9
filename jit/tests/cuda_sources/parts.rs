//! Concatenations on a device: parts that are written in place, and those that one kernel selects among. Windows whose
//! operand takes a function.

use super::threads::{arrays, draft, kernels, mismatch, policy};
use ferrotrace_jit::Explanation;
use ferrotrace_jit::body::BodyOp;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A draft's kernels; their results equal those of the operators one by one.
#[track_caller]
pub fn checked(text: &str, error: f64) -> Vec<String> {
    let draft = draft(text, &policy());
    let arrays = arrays(&draft.recorded, 3);
    for donated in [false, true] {
        let why = mismatch(&draft, (&arrays, donated), &[], &|_| (error, true));
        assert_eq!(why, None, "{text}");
    }
    let texts = kernels(&draft).map(|kernel| kernel.source.body.to_string());
    texts.collect()
}

/// `n` functions of one tensor, joined along a dimension, with the tensor itself in front.
fn encoding(n: usize, dim: usize) -> String {
    let mut text = "%0: f32[50, 3] = input 0 [3, 1]\n".to_owned();
    for i in 0..n {
        let (product, function) = (2 * i + 1, 2 * i + 2);
        let _ = writeln!(text, "%{product}: f32[50, 3] = mul(%0, {}.5)", i + 1);
        let _ = writeln!(text, "%{function}: f32[50, 3] = sin(%{product})");
    }
    let parts: Vec<String> = (0..n).map(|i| format!("%{}", 2 * i + 2)).collect();
    let (cat, mut shape) = (2 * n + 1, [50, 3]);
    shape[dim] *= n + 1;
    let parts = parts.join(", ");
    let _ = write!(
        text,
        "%{cat}: f32[{}, {}] = cat(%0, {parts}) {{dim: {dim}}}\nreturn %{cat}",
        shape[0], shape[1]
    );
    text
}

#[test]
fn functions_that_are_joined_are_computed_once() {
    for dim in [0, 1] {
        for n in [3, 7, 20] {
            let texts = checked(&encoding(n, dim), 2e-6);
            let sines: usize = texts.iter().map(|t| t.matches("ft_sin_f32(").count()).sum();
            assert_eq!((texts.len(), sines), (1, n), "{texts:?}");
            // Each part is stored where it lies in the whole; nothing is selected.
            assert!(!texts[0].contains(" ? ft_sin"), "{}", texts[0]);
        }
    }
}

#[test]
fn parts_of_few_operations_are_selected() {
    let text = "%0: f32[50, 8] = input 0 [8, 1]
        %1: f32[50, 8] = input 1 [8, 1]
        %2: f32[50, 8] = mul(%0, %1)
        %3: f32[50, 8] = sub(%0, %1)
        %4: f32[50, 16] = cat(%2, %3) {dim: 1}
        %5: f32[50, 16] = exp(%4)
        return %5";
    assert_eq!(checked(text, 2e-6).len(), 1);
}

#[test]
fn many_parts_with_memory_of_their_own_are_copied_by_one_kernel() {
    let mut text = String::new();
    for i in 0..30 {
        let _ = writeln!(text, "%{i}: bf16[4, 6] = input {i} [6, 1]");
    }
    let parts: Vec<String> = (0..30).map(|i| format!("%{i}")).collect();
    let parts = parts.join(", ");
    let _ = write!(
        text,
        "%30: bf16[4, 180] = cat({parts}) {{dim: 1}}\nreturn %30 %3"
    );
    let texts: BTreeSet<String> = checked(&text, 0.0).into_iter().collect();
    assert_eq!(texts.len(), 1);
    // Kernels of one text share launches, and the concatenation itself is none.
    let launches = draft(&text, &policy()).launches.groups.len();
    assert!(launches <= 4, "{launches} launches");
}

/// Some parts end reductions, some are used elsewhere too, some come twice.
#[test]
fn parts_of_every_kind_are_joined() {
    let text = "%0: f32[20, 64] = input 0 [64, 1]
        %1: f32[20, 64] = exp(%0)
        %2: f32[20] = sum(%1) {dims: [1], keepdim: false}
        %3: f32[20, 1] = unsqueeze(%2) {dim: 1}
        %4: f32[20, 64] = div(%1, %3)
        %5: f32[20, 64] = tanh(%0)
        %6: f32[20, 64] = sin(%5)
        %7: f32[20, 30] = narrow(%6) {dim: 1, start: 5, len: 30}
        %8: f32[20, 0] = narrow(%0) {dim: 1, start: 0, len: 0}
        %9: f32[20, 288] = cat(%4, %6, %6, %8, %5, %7, %3, %3) {dim: 1}
        return %9 %5";
    checked(text, 2e-5);
}

/// The gradient of a loss over classes whose number is no multiple of 8, which a product takes: zeros are put behind each of
/// its rows by the kernel that has their sums.
#[test]
fn rows_that_follow_their_sums_are_lengthened_in_place() {
    let text = "%0: bf16[4096, 2001] = input 0 [2001, 1]
        %1: bf16[2001, 512] = input 1 [512, 1]
        %2: bf16[4096, 2001] = softmax(%0) {dim: 1}
        %3: bf16[4096, 512] = matmul(%2, %1)
        %4: bf16[2001, 4096] = permute(%2) {order: [1, 0]}
        %5: bf16[2001, 512] = matmul(%4, %3)
        return %3 %5";
    let draft = draft(text, &policy());
    let kernels: Vec<_> = kernels(&draft).map(|kernel| &kernel.source.name).collect();
    // The softmax, the zeros behind it, and the matrix with its zero rows.
    assert_eq!(kernels.len(), 3, "{kernels:?}");
    let written = Explanation::of(&draft).traffic().written;
    let padded = 2 * (4096 * 2008 + 2 * 2008 * 512 + 4096 * 512);
    assert!(written <= padded, "{written} bytes for {padded}");
}

/// Taps of a small window are written out, whatever the windows are of: that is stored, and costs a read.
#[test]
fn windows_of_a_function_are_written_out() {
    let text = "%0: f32[2, 16, 14, 14] = input 0 [3136, 196, 14, 1]
        %1: f32[16, 1, 3, 3] = input 1 [9, 9, 3, 1]
        %2: f32[2, 16, 14, 14] = silu(%0)
        %3: f32[2, 16, 14, 14] = conv2d(%2, %1) {stride: [1, 1], padding: [1, 1], dilation: [1, 1], output_padding: [0, 0], groups: 16}
        %4: f32[2, 16, 14, 14] = silu(%3)
        return %4";
    let draft = draft(text, &policy());
    let all: Vec<_> = kernels(&draft).collect();
    let reduces = |op: &BodyOp| matches!(op, BodyOp::Reduce { .. });
    let loops = all.iter().flat_map(|k| k.node.body.values());
    assert_eq!(all.len(), 2);
    assert!(!loops.into_iter().any(|value| reduces(&value.op)));
    checked(text, 1e-5);
}

/// A chunk lies in one part, or in none: it is loaded whole, or is zeros.
#[test]
fn parts_of_a_sum_are_read_by_whole_chunks() {
    let texts = checked(
        "%0: bf16[300, 64] = input 0 [64, 1]
        %1: bf16[212, 64] = input 1 [64, 1]
        %2: bf16[512, 64] = cat(%0, %1) {dim: 0}
        %3: f32[512, 64] = to_dtype(%2)
        %4: f32[64] = sum(%3) {dims: [0], keepdim: false}
        %5: bf16[512, 64] = mul(%2, 2.0)
        return %4 %5",
        1e-6,
    );
    let text = texts.concat();
    assert_eq!(text.matches("ft_load(g").count(), 2, "{text}");
    assert_eq!(text.matches(" ? m : 0").count(), 2, "{text}");
}

/// Every group of threads adds up rows of a chunk, also where there are more groups than rows.
#[test]
fn groups_add_up_rows_side_by_side() {
    for (dtype, columns) in [("bf16", 64), ("f32", 64), ("f32", 512)] {
        let texts = checked(
            &format!(
                "%0: {dtype}[700, {columns}] = input 0 [{columns}, 1]
                %1: f32[700, {columns}] = to_dtype(%0)
                %2: f32[{columns}] = sum(%1) {{dims: [0], keepdim: false}}
                %3: f32[{columns}] = max(%1) {{dims: [0], keepdim: false}}
                return %2 %3"
            ),
            // 16·2⁻²⁴ of the sum of 700 absolute numbers.
            3e-4,
        );
        assert!(
            texts.concat().contains("for (int l = ty; l < "),
            "{texts:?}"
        );
    }
}
