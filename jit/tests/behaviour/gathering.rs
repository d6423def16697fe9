//! Elements and rows at indices that are computed, of values that are: what is stored, and how indices are looked at.

use super::{kernels, plan, run};
use crate::common::{dense, kept, noise};
use ferrotrace_runtime::{ErrorKind, Isa};

fn sources(text: &str) -> String {
    plan(text).explain().sources().join("")
}

/// Indices that count from either end of a dimension of so many elements.
fn either_end(n: usize, size: i64) -> Vec<i64> {
    let index = |i: usize| (i as i64 * 7919).rem_euclid(2 * size) - size;
    (0..n).map(index).collect()
}

// A position in a reshape is one in the memory: there is nothing to divide, unless the memory lies otherwise.
#[test]
fn indices_of_a_reshape_are_not_divided() {
    for (view, divides) in [
        ("reshape(%0) {to: [40, 7, 9]}", false),
        ("permute(%0) {order: [0, 2, 1]}", true),
    ] {
        let sizes = if divides { "40, 9, 7" } else { "40, 63" };
        let strides = if divides { "63, 7, 1" } else { "63, 1" };
        let text = format!(
            "%0: f32[{sizes}] = input 0 [{strides}]
             %1: i64[100] = input 1 [1]
             %2: f32[40, 7, 9] = {view}
             %3: f32[40, 63] = reshape(%2) {{to: [40, 63]}}
             %4: f32[40, 100] = index(%3, %1) {{axes: [1], at: 1}}
             return %4"
        );
        let text_of = sources(&text);
        let divided = text_of.contains("v1[0] /") || text_of.contains("v1[l] /");
        assert_eq!(divided, divides, "{text_of}");
        let x = if divides {
            noise(&[40, 9, 7], 1)
        } else {
            noise(&[40, 63], 1)
        };
        run(&text, &[x, dense(&[100], &either_end(100, 63))], 0.0);
    }
}

// Vectors of elements are checked at once; an index out of range is named wherever it stands in its vector.
#[test]
fn elements_are_gathered_by_vectors() {
    let text = |n: usize| {
        format!(
            "%0: f32[1000] = input 0 [1]
             %1: i64[{n}] = input 1 [1]
             %2: f32[{n}] = index(%0, %1) {{axes: [0], at: 0}}
             %3: f32[{n}] = mul(%2, 2.0)
             return %3"
        )
    };
    let text_of = sources(&text(64));
    for part in ["ft_outside_i64", "ft_lanes_f32"] {
        assert!(text_of.contains(part), "{text_of}");
    }
    let x = noise(&[1000], 2);
    for n in [1, 5, 8, 37, 64, 1003] {
        let index = either_end(n, 1000);
        run(&text(n), &[x.clone(), dense(&[n], &index)], 0.0);
        let plan = plan(&text(n));
        for (at, bad) in [
            (0, 1000i64),
            (n / 2, -1001),
            (n - 1, i64::MIN),
            (n - 1, i64::MAX),
        ] {
            let mut index = index.clone();
            index[at] = bad;
            let inputs = [x.clone(), dense(&[n], &index)];
            let error = plan.run(&mut kept(&inputs), &[]).expect_err("out of range");
            assert!(
                matches!(error.kind(), ErrorKind::Index { index, .. } if *index == bad),
                "{n} {at}: {error}"
            );
        }
    }
}

// The index of a row is a number, not a vector wider than a register.
#[test]
fn indices_of_rows_are_numbers() {
    let text = "%0: f32[500, 40] = input 0 [40, 1]
        %1: i64[30, 6] = input 1 [6, 1]
        %2: i64[6] = input 2 [1]
        %3: i64[30, 6] = add(%1, %2)
        %4: f32[30, 6, 40] = index(%0, %3) {axes: [0], at: 0}
        %5: f32[30, 6, 40] = mul(%4, 0.5)
        return %5";
    let text_of = sources(text);
    if Isa::host() == Isa::Avx512 {
        let loops = &text_of[text_of.find("long long u = begin").expect("a loop")..];
        assert!(!loops.contains("i64x16"), "{text_of}");
    }
    let first = dense(&[30, 6], &either_end(180, 200));
    let more = dense::<i64>(&[6], &[0, -50, 100, 299, -300, 7]);
    run(text, &[noise(&[500, 40], 3), first, more], 0.0);
}

// What is gathered more often than it has elements is computed once; a row that costs a function, once for all rows.
#[test]
fn what_is_read_many_times_is_stored() {
    let gathered = |n: usize| {
        format!(
            "%0: f32[300] = input 0 [1]
             %1: f32[300] = input 1 [1]
             %2: i64[{n}] = input 2 [1]
             %3: f32[300] = div(%0, %1)
             %4: f32[{n}] = index(%3, %2) {{axes: [0], at: 0}}
             return %4"
        )
    };
    assert_eq!(kernels(&gathered(100)), 1);
    assert_eq!(kernels(&gathered(3000)), 2);
    let expanded = |rows: usize, function: &str, shape: [&str; 2]| {
        let [from, to] = shape;
        format!(
            "%0: f32[{rows}, 32] = input 0 [32, 1]
             %1: f32{from} = input 1 {to}
             %2: f32{from} = {function}(%1)
             %3: f32[{rows}, 32] = add(%0, %2)
             %4: f32[{rows}] = max(%3) {{dims: [1], keepdim: false}}
             return %4"
        )
    };
    let columns = ["[1, 32]", "[32, 1]"];
    assert_eq!(kernels(&expanded(2000, "log", columns)), 2);
    assert_eq!(kernels(&expanded(2000, "neg", columns)), 1);
    assert_eq!(kernels(&expanded(20, "log", columns)), 1);
    // A number of a row is computed once for its columns; functions of many rows have lanes in a kernel of their own.
    assert_eq!(kernels(&expanded(100, "log", ["[100, 1]", "[1, 1]"])), 1);
    assert_eq!(kernels(&expanded(2000, "neg", ["[2000, 1]", "[1, 1]"])), 1);
    assert_eq!(kernels(&expanded(2000, "log", ["[2000, 1]", "[1, 1]"])), 2);
    // So has one whose elements the columns of a larger result are, which would else be written across memory.
    let repeated = |rows: usize, columns: usize| {
        format!(
            "%0: f32[{rows}, {columns}] = input 0 [{columns}, 1]
             %1: f32[{columns}] = input 1 [1]
             %2: f32[{columns}] = exp(%1)
             %3: f32[{rows}, {columns}] = add(%0, %2)
             return %2 %3"
        )
    };
    for (rows, columns) in [(40, 32), (300, 500)] {
        let arrays = [noise(&[rows, columns], 4), noise(&[columns], 5)];
        run(&repeated(rows, columns), &arrays, 1e-6);
        let text = super::plan(&repeated(rows, columns)).explain().to_string();
        let across = format!("rows [{columns}] columns [{rows}]");
        assert!(!text.contains(&across), "{text}");
    }
    // A function of positions is computed where it is used: stored, it would make the columns rows of a kernel that walks
    // memory across its lines.
    let angles = "%0: f32[2000, 32] = input 0 [32, 1]
        %1: i64[32] = iota() {dim: 0}
        %2: f32[32] = to_dtype(%1) {dtype: f32}
        %3: f32[32] = cos(%2)
        %4: f32[2000, 32] = mul(%0, %3)
        return %4";
    let text_of = super::plan(angles).explain().to_string();
    assert!(!text_of.contains("rows [32] columns [2000]"), "{text_of}");
}

// Lanes that select among parts read rows one by one: a part that gathers has a kernel of its own.
#[test]
fn parts_that_gather_are_placed() {
    let text = |rows: usize| {
        format!(
            "%0: f32[{rows}, 16] = input 0 [16, 1]
             %1: f32[{rows}, 100] = input 1 [100, 1]
             %2: i64[60] = input 2 [1]
             %3: f32[{rows}, 16] = relu(%0)
             %4: f32[{rows}, 60] = index(%1, %2) {{axes: [1], at: 1}}
             %5: f32[{rows}, 76] = cat(%3, %4) {{dim: 1}}
             return %5"
        )
    };
    assert_eq!(kernels(&text(10)), 1);
    assert_eq!(kernels(&text(400)), 2);
    for rows in [10, 400] {
        let index = dense(&[60], &either_end(60, 100));
        let arrays = [noise(&[rows, 16], 4), noise(&[rows, 100], 5), index];
        run(&text(rows), &arrays, 0.0);
    }
}

// What is joined or padded behind a gather reads whole rows: the row's index does not depend on the column.
#[test]
fn gathered_rows_that_are_shifted_have_whole_vectors() {
    let rolled = "%0: f32[30, 100] = input 0 [100, 1]
        %1: i64[40] = input 1 [1]
        %2: f32[40, 100] = index(%0, %1) {axes: [0], at: 0}
        %3: f32[40, 3] = narrow(%2) {dim: 1, start: 97, len: 3}
        %4: f32[40, 97] = narrow(%2) {dim: 1, start: 0, len: 97}
        %5: f32[40, 100] = cat(%3, %4) {dim: 1}
        return %5";
    let padded = "%0: f32[30, 100] = input 0 [100, 1]
        %1: i64[40] = input 1 [1]
        %2: f32[40, 100] = index(%0, %1) {axes: [0], at: 0}
        %3: f32[43, 103] = pad(%2, 0.5) {pads: [[2, 1], [1, 2]]}
        return %3";
    let index = dense(&[40], &either_end(40, 30));
    for text in [rolled, padded] {
        run(text, &[noise(&[30, 100], 6), index.clone()], 0.0);
    }
    let text = super::plan(rolled).explain().to_string();
    assert!(text.contains("= load i64 in1[i0]\n"), "{text}");
}

// Where a condition holds, a position has fewer values, and needs no division.
#[test]
fn conditions_say_where_positions_are() {
    let text = "%0: f32[12, 32] = input 0 [32, 1]
        %1: f32[12, 33] = input 1 [33, 1]
        %2: f32[12, 31] = narrow(%0) {dim: 1, start: 0, len: 31}
        %3: f32[31, 12] = reshape(%2) {to: [31, 12]}
        %4: f32[31, 12] = mul(%3, 2.0)
        %5: f32[12, 31] = reshape(%4) {to: [12, 31]}
        %6: f32[12, 33] = pad(%5, 0.0) {pads: [[0, 0], [1, 1]]}
        %7: f32[12, 33] = slice_assign(%1, %5) {dim: 1, start: 2, end: 33, step: 1}
        %8: f32[12, 33] = add(%6, %7)
        return %8";
    let wide = noise(&[12, 32], 7);
    run(text, &[wide, noise(&[12, 33], 8)], 0.0);
    let text = super::plan(text).explain().to_string();
    assert!(!text.contains(")/31") && !text.contains(")%31"), "{text}");
}
