//! What writing slices costs: what is written, in the memory of what dies.

use super::{read, run};
use crate::common::{copied, dense, noise, values};
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::simplify::simplify;
use ferrotrace_jit::{Draft, Plan, PlanInput, Step};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{DType, Stats, stats_scope};
use std::collections::HashSet;
use std::fmt::Write;

fn drafted(text: &str) -> Draft {
    Draft::of(read(text), &Policy::default()).unwrap_or_else(|e| panic!("{e}"))
}

/// Different kernels of a draft, by their texts.
fn texts(draft: &Draft) -> usize {
    let kernels = draft.steps.iter().filter_map(Step::kernel);
    let texts: HashSet<String> = kernels.map(|k| k.source.body.to_string()).collect();
    texts.len()
}

/// Results, checked against ready-made kernels, and counts of a run that may overwrite the first input or none.
fn counted(text: &str, arrays: &[Array], donated: bool) -> (Vec<Array>, Stats) {
    let want = run(text, arrays, 1e-5);
    let plan = Plan::of(read(text)).unwrap_or_else(|e| panic!("{e}"));
    let inputs = arrays.iter().enumerate();
    let mut inputs: Vec<PlanInput> = inputs
        .map(|(i, array)| PlanInput {
            array: copied(array),
            donated: donated && i == 0,
        })
        .collect();
    let (got, stats) = stats_scope(|| plan.run(&mut inputs, &[]));
    let got = got.unwrap_or_else(|e| panic!("{e}"));
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(values(got), values(want), "{text}");
    }
    let estimate = plan.draft().peak(&|input| donated && input == 0);
    assert_eq!(stats.peak_bytes, estimate, "{text}");
    (got, stats)
}

/// Fifty writes of rows, columns and parts to a matrix of 300 x 500.
fn chain() -> String {
    let mut text = String::from(
        "%0: f32[300, 500] = input 0 [500, 1]
         %1: f32[1, 500] = input 1 [500, 1]
         %2: f32[300, 1] = input 2 [1, 1]\n",
    );
    let mut x = 0;
    let mut next = 3;
    for i in 0..50 {
        let (row, column) = (5 * i, 7 * i);
        let _ = match i % 3 {
            0 => writeln!(
                text,
                "%{next}: f32[300, 500] = slice_assign(%{x}, %1) {{dim: 0, start: {row}, end: {}, step: 1}}",
                row + 1
            ),
            1 => writeln!(
                text,
                "%{next}: f32[300, 500] = slice_assign(%{x}, %2) {{dim: 1, start: {column}, end: {}, step: 1}}",
                column + 1
            ),
            _ => {
                let (part, cut, inner) = (next, next + 1, next + 2);
                next += 3;
                writeln!(
                    text,
                    "%{part}: f32[10, 500] = slice(%{x}) {{dim: 0, start: {row}, end: {end}, step: 1}}
                     %{cut}: f32[10, 1] = slice(%2) {{dim: 0, start: {row}, end: {end}, step: 1}}
                     %{inner}: f32[10, 500] = slice_assign(%{part}, %{cut}) {{dim: 1, start: {column}, end: {}, step: 1}}
                     %{next}: f32[300, 500] = slice_assign(%{x}, %{inner}) {{dim: 0, start: {row}, end: {end}, step: 1}}",
                    column + 20,
                    end = row + 10
                )
            }
        };
        x = next;
        next += 1;
    }
    let _ = writeln!(text, "return %{x}");
    text
}

// A chain of writes costs what is written, and one copy where the tensor lives on.
#[test]
fn a_chain_of_writes_writes_in_one_buffer() {
    let text = chain();
    let arrays = [
        noise(&[300, 500], 1),
        noise(&[1, 500], 2),
        noise(&[300, 1], 3),
    ];
    let whole = 300 * 500 * 4;
    for donated in [true, false] {
        let (_, stats) = counted(&text, &arrays, donated);
        assert_eq!(stats.kernels_launched, 50);
        assert_eq!(stats.in_place_writes, if donated { 50 } else { 49 });
        assert_eq!(stats.bytes_allocated, if donated { 0 } else { whole });
    }
    let draft = drafted(&text);
    // Rows, columns and parts; what begins at the first element has a text of its own.
    assert!(texts(&draft) <= 4, "{}", texts(&draft));
    for kernel in draft.steps.iter().filter_map(Step::kernel) {
        let rows = kernel.node.rows() * kernel.node.cols();
        assert!(rows <= 500, "{rows} elements");
    }
}

/// A step of heat in two dimensions, written to the inner elements of %0, of what %1 is.
fn heat(of: u32) -> String {
    format!(
        "%0: f32[64, 80] = input 0 [80, 1]
         %1: f32[64, 80] = input 1 [80, 1]
         %2: f32[62, 80] = narrow(%{of}) {{dim: 0, start: 1, len: 62}}
         %3: f32[62, 78] = narrow(%2) {{dim: 1, start: 0, len: 78}}
         %4: f32[62, 78] = narrow(%2) {{dim: 1, start: 2, len: 78}}
         %5: f32[62, 80] = narrow(%{of}) {{dim: 0, start: 0, len: 62}}
         %6: f32[62, 78] = narrow(%5) {{dim: 1, start: 1, len: 78}}
         %7: f32[62, 78] = add(%3, %4)
         %8: f32[62, 78] = add(%7, %6)
         %9: f32[62, 80] = slice(%0) {{dim: 0, start: 1, end: -1, step: 1}}
         %10: f32[62, 80] = slice_assign(%9, %8) {{dim: 1, start: 1, end: -1, step: 1}}
         %11: f32[64, 80] = slice_assign(%0, %10) {{dim: 0, start: 1, end: -1, step: 1}}
         return %11"
    )
}

// One kernel over the inner elements, without conditions; edges are copied where the tensor is not written over.
#[test]
fn stencils_go_through_inner_elements_alone() {
    let arrays = [noise(&[64, 80], 1), noise(&[64, 80], 2)];
    for (of, donated, in_place) in [(1, true, 1), (1, false, 0), (0, true, 0)] {
        let text = heat(of);
        let (_, stats) = counted(&text, &arrays, donated);
        assert_eq!((stats.kernels_launched, stats.library_calls), (1, 0));
        assert_eq!(stats.in_place_writes, in_place, "{of} {donated}");
        let draft = drafted(&text);
        let kernel = draft.steps[0].kernel().expect("a kernel");
        assert_eq!(kernel.node.rows() * kernel.node.cols(), 62 * 78);
        assert!(kernel.node.body.masks().is_empty(), "{}", kernel.node);
    }
}

// What is written to a part of given data, and that to another tensor, goes there in one kernel.
#[test]
fn an_assignment_of_an_assignment_is_one_kernel() {
    let text = "
        %0: f32[64, 80] = input 0 [80, 1]
        %1: f32[62, 80] = input 1 [80, 1]
        %2: f32[62, 78] = input 2 [78, 1]
        %3: f32[62, 78] = tanh(%2)
        %4: f32[62, 80] = slice_assign(%1, %3) {dim: 1, start: 1, end: -1, step: 1}
        %5: f32[64, 80] = slice_assign(%0, %4) {dim: 0, start: 1, end: -1, step: 1}
        return %5";
    let arrays = [
        noise(&[64, 80], 1),
        noise(&[62, 80], 2),
        noise(&[62, 78], 3),
    ];
    let (_, stats) = counted(text, &arrays, true);
    assert_eq!((stats.kernels_launched, stats.bytes_allocated), (1, 0));
}

// A step reads the row before and writes its own: steps differ in positions, which are arguments.
#[test]
fn steps_along_a_dimension_share_a_kernel() {
    for steps in [50usize, 200] {
        let mut text = format!(
            "%0: f32[{n}, 64] = input 0 [64, 1]
             %1: f32[{n}, 64] = input 1 [64, 1]\n",
            n = steps + 1
        );
        let mut y = 0;
        for i in 0..steps {
            let at = 2 + 4 * i;
            let _ = writeln!(
                text,
                "%{at}: f32[1, 64] = narrow(%{y}) {{dim: 0, start: {i}, len: 1}}
                 %{a}: f32[1, 64] = narrow(%1) {{dim: 0, start: {next}, len: 1}}
                 %{b}: f32[1, 64] = add(%{at}, %{a})
                 %{c}: f32[{n}, 64] = slice_assign(%{y}, %{b}) {{dim: 0, start: {next}, end: {end}, step: 1}}",
                a = at + 1,
                b = at + 2,
                c = at + 3,
                n = steps + 1,
                next = i + 1,
                end = i + 2,
            );
            y = at + 3;
        }
        let _ = writeln!(text, "return %{y}");
        let arrays = [noise(&[steps + 1, 64], 1), noise(&[steps + 1, 64], 2)];
        let (_, stats) = counted(&text, &arrays, true);
        assert_eq!(stats.kernels_launched, steps as u64);
        assert_eq!(stats.in_place_writes, steps as u64);
        assert_eq!(stats.bytes_allocated, 0);
        // The first row begins at the first element.
        assert_eq!(texts(&drafted(&text)), 2);
    }
}

// Two rows change places: what is needed of the old tensor later is kept, not all of it.
#[test]
fn a_row_that_is_read_later_is_kept_alone() {
    let text = "
        %0: f32[200, 100] = input 0 [100, 1]
        %1: f32[1, 100] = narrow(%0) {dim: 0, start: 5, len: 1}
        %2: f32[1, 100] = narrow(%0) {dim: 0, start: 9, len: 1}
        %3: f32[200, 100] = slice_assign(%0, %2) {dim: 0, start: 5, end: 6, step: 1}
        %4: f32[200, 100] = slice_assign(%3, %1) {dim: 0, start: 9, end: 10, step: 1}
        return %4";
    let (_, stats) = counted(text, &[noise(&[200, 100], 1)], true);
    assert_eq!(stats.in_place_writes, 2);
    assert_eq!(stats.bytes_allocated, 400);
}

// What is written is read shifted by the same kernel: it is computed apart where that is less than the whole.
#[test]
fn an_overlapping_source_is_computed_apart() {
    for (rows, allocated) in [(20, 20 * 100 * 4), (180, 200 * 100 * 4)] {
        let text = format!(
            "%0: f32[200, 100] = input 0 [100, 1]
             %1: f32[{rows}, 100] = narrow(%0) {{dim: 0, start: 5, len: {rows}}}
             %2: f32[{rows}, 100] = add(%1, %1)
             %3: f32[200, 100] = slice_assign(%0, %2) {{dim: 0, start: 7, end: {}, step: 1}}
             return %3",
            7 + rows
        );
        let (_, stats) = counted(&text, &[noise(&[200, 100], 1)], true);
        assert_eq!(stats.bytes_allocated, allocated, "{rows}");
    }
}

// Every other row of those between: neither meets the other.
#[test]
fn interleaved_rows_are_written_in_place() {
    let text = "
        %0: f32[200, 100] = input 0 [100, 1]
        %1: f32[100, 100] = slice(%0) {dim: 0, start: 0, end: 200, step: 2}
        %2: f32[100, 100] = slice(%0) {dim: 0, start: 1, end: 200, step: 2}
        %3: f32[100, 100] = add(%1, %2)
        %4: f32[200, 100] = slice_assign(%0, %3) {dim: 0, start: 1, end: 200, step: 2}
        return %4";
    let (_, stats) = counted(text, &[noise(&[200, 100], 1)], true);
    assert_eq!((stats.in_place_writes, stats.bytes_allocated), (1, 0));
}

// An elimination's steps: a column is scaled, then the rest is changed by it and a row.
#[test]
fn eliminations_run_in_one_buffer() {
    let n = 24;
    let mut text = format!("%0: f32[{n}, {n}] = input 0 [{n}, 1]\n");
    let (mut a, mut next) = (0, 1);
    for k in 0..n - 1 {
        let rest = n - k - 1;
        let all = [
            format!(
                "f32[{rest}, {n}] = slice(%{a}) {{dim: 0, start: {}, end: {n}, step: 1}}",
                k + 1
            ),
            format!("f32[{rest}, 1] = narrow(%{next}) {{dim: 1, start: {k}, len: 1}}"),
            format!("f32[1, {n}] = narrow(%{a}) {{dim: 0, start: {k}, len: 1}}"),
            format!(
                "f32[1, 1] = narrow(%{}) {{dim: 1, start: {k}, len: 1}}",
                next + 2
            ),
            format!("f32[{rest}, 1] = div(%{}, %{})", next + 1, next + 3),
            format!(
                "f32[{rest}, {n}] = slice_assign(%{next}, %{}) {{dim: 1, start: {k}, end: {}, step: 1}}",
                next + 4,
                k + 1
            ),
            format!(
                "f32[{n}, {n}] = slice_assign(%{a}, %{}) {{dim: 0, start: {}, end: {n}, step: 1}}",
                next + 5,
                k + 1
            ),
            format!(
                "f32[{rest}, {n}] = slice(%{}) {{dim: 0, start: {}, end: {n}, step: 1}}",
                next + 6,
                k + 1
            ),
            format!(
                "f32[{rest}, 1] = narrow(%{}) {{dim: 1, start: {k}, len: 1}}",
                next + 7
            ),
            format!(
                "f32[1, {n}] = narrow(%{}) {{dim: 0, start: {k}, len: 1}}",
                next + 6
            ),
            format!(
                "f32[1, {rest}] = narrow(%{}) {{dim: 1, start: {}, len: {rest}}}",
                next + 9,
                k + 1
            ),
            format!("f32[{rest}, {rest}] = mul(%{}, %{})", next + 8, next + 10),
            format!(
                "f32[{rest}, {rest}] = narrow(%{}) {{dim: 1, start: {}, len: {rest}}}",
                next + 7,
                k + 1
            ),
            format!("f32[{rest}, {rest}] = sub(%{}, %{})", next + 12, next + 11),
            format!(
                "f32[{rest}, {n}] = slice_assign(%{}, %{}) {{dim: 1, start: {}, end: {n}, step: 1}}",
                next + 7,
                next + 13,
                k + 1
            ),
            format!(
                "f32[{n}, {n}] = slice_assign(%{}, %{}) {{dim: 0, start: {}, end: {n}, step: 1}}",
                next + 6,
                next + 14,
                k + 1
            ),
        ];
        for line in all {
            let _ = writeln!(text, "%{next}: {line}");
            next += 1;
        }
        a = next - 1;
    }
    let _ = writeln!(text, "return %{a}");
    let mut matrix = values(&noise(&[n, n], 1));
    (0..n).for_each(|i| matrix[i * n + i] += 40.0);
    let x = crate::common::filled(&[n, n], |i| matrix[i] as f32);
    let (_, stats) = counted(&text, &[x], true);
    assert_eq!(stats.kernels_launched, 2 * (n as u64 - 1));
    assert_eq!(stats.bytes_allocated, 0);
    assert_eq!(stats.in_place_writes, stats.kernels_launched);
}

// An assignment of all elements is a copy of what is assigned, which reads nothing of the tensor and has a kernel as any
// value has.
#[test]
fn an_assignment_of_all_elements_is_a_copy() {
    let interleaved = |end: usize| {
        format!(
            "%0: f32[40, 128] = input 0 [128, 1]
             %1: f32[40, 64] = input 1 [64, 1]
             %2: f32[40, 64] = exp(%1)
             %3: f32[40, 64, 1] = unsqueeze(%1) {{dim: 2}}
             %4: f32[40, 64, 1] = unsqueeze(%2) {{dim: 2}}
             %5: f32[40, 64, 2] = cat(%3, %4) {{dim: 2}}
             %6: f32[40, 128] = flatten(%5) {{start: 1, end: 2}}
             %7: f32[40, 128] = slice_assign(%0, %6) {{dim: 1, start: 0, end: {end}, step: 1}}
             return %7"
        )
    };
    let arrays = [noise(&[40, 128], 0), noise(&[40, 64], 1)];
    for end in [128, 1000] {
        let text = interleaved(end);
        let simplified = simplify(&read(&text)).unwrap_or_else(|e| panic!("{e}"));
        assert!(
            !simplified.to_string().contains("slice_assign"),
            "{simplified}"
        );
        assert_eq!(counted(&text, &arrays, false).1.kernels_launched, 1);
    }
    // The result has the dtype of the tensor that is assigned to and is row-major as it is; the source may be an input that
    // lies otherwise.
    let turned = "%0: f64[6, 4] = input 0 [4, 1]
        %1: f32[6, 4] = input 1 [1, 6]
        %2: f32[6, 4] = neg(%1)
        %3: f64[6, 4] = slice_assign(%0, %2) {dim: 0, start: 0, end: 6, step: 1}
        %4: f64[6, 4] = slice_assign(%3, %1) {dim: 1, start: -4, end: 4, step: 1}
        return %3 %4";
    let x = noise(&[4, 6], 1);
    let layout = x.layout.permute(&[1, 0]);
    let arrays = [dense(&[6, 4], &[0f64; 24]), x.with_layout(layout)];
    for result in run(turned, &arrays, 0.0) {
        assert_eq!(result.dtype, DType::F64);
        assert!(result.layout.is_contiguous(), "{:?}", result.layout);
    }
}
