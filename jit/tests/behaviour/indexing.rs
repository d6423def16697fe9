//! Indexed reads: wrapping, bounds, faults.

use super::{plan, read, run};
use crate::common::{dense, difference, kept, noise, values};
use ferrotrace_jit::policy::Policy;
use ferrotrace_runtime::ErrorKind;

const GATHER: &str = "
    %0: f32[5, 6] = input 0 [6, 1]
    %1: i64[5, 2] = input 1 [2, 1]
    %2: f32[5, 2] = gather(%0, %1) {dim: 1}
    %3: f32[5, 2] = mul(%2, 2.0)
    return %3";

// ir T65
#[test]
fn negative_indices_count_from_the_end() {
    let x = noise(&[5, 6], 1);
    let index = dense::<i64>(&[5, 2], &[-1, 0, -6, 5, 2, 2, -3, 1, 0, -1]);
    let y = run(GATHER, &[x.clone(), index], 0.0);
    assert_eq!(values(&y[0])[0], 2.0 * values(&x)[5]);
}

// ir T66, codegen D T30
#[test]
fn an_index_out_of_range_names_the_dimension_and_nothing_breaks() {
    let plan = plan(GATHER);
    let x = noise(&[5, 6], 2);
    for bad in [6i64, -7, i64::MAX, i64::MIN] {
        let mut at = vec![0i64; 10];
        at[7] = bad;
        let inputs = [x.clone(), dense(&[5, 2], &at)];
        let error = plan
            .run(&mut kept(&inputs), &[])
            .expect_err("an index out of range");
        match error.kind() {
            ErrorKind::Index { index, dim, size } => assert_eq!((*index, *dim, *size), (bad, 1, 6)),
            other => panic!("{other:?}"),
        }
        assert!(error.to_string().contains("gather"), "{error}");
        let fine = [x.clone(), dense(&[5, 2], &[1i64; 10])];
        assert!(plan.run(&mut kept(&fine), &[]).is_ok());
    }
}

// ir T70: what lies outside the mask of a padding is not read, so its indices do not count either.
#[test]
fn indices_outside_a_mask_are_not_checked() {
    let text = "
        %0: f32[4] = input 0 [1]
        %1: i64[6] = input 1 [1]
        %2: f32[6] = index(%0, %1) {axes: [0], at: 0}
        %3: f32[2] = slice(%2) {dim: 0, start: 2, end: 4, step: 1}
        %4: f32[5] = pad(%3, 9.0) {pads: [[2, 1]]}
        return %4";
    let x = dense::<f32>(&[4], &[1.0, 2.0, 3.0, 4.0]);
    let plan = plan(text);
    let index = dense::<i64>(&[6], &[77, -99, 3, -4, 50, 60]);
    match plan.run(&mut kept(&[x, index]), &[]) {
        Ok(y) => assert_eq!(values(&y[0]), [9.0, 9.0, 4.0, 1.0, 9.0]),
        // Storing the indexed tensor first is allowed to find the fault.
        Err(e) => assert!(matches!(e.kind(), ErrorKind::Index { .. })),
    }
}

// ir T60, T64
#[test]
fn empty_and_0d_tensors() {
    let text = "
        %0: f32[0, 3] = input 0 [3, 1]
        %1: f32[0, 3] = exp(%0)
        %2: f32[3, 0] = permute(%1) {order: [1, 0]}
        %3: f32[] = sum(%2) {dims: [0, 1], keepdim: false}
        %4: f32[] = add(%3, 1.5)
        %5: f32[5] = expand(%4) {to: [5]}
        return %2 %4 %5";
    let y = run(text, &[dense::<f32>(&[0, 3], &[])], 0.0);
    assert_eq!(
        (values(&y[0]).len(), values(&y[1]), values(&y[2])),
        (0, vec![1.5], vec![1.5; 5])
    );
}

fn bags(rows: usize, bag: usize, width: usize, index: &str) -> String {
    bags_of(50, rows, bag, width, index)
}

/// Sums of the rows of a table that indices name.
fn bags_of(table: usize, rows: usize, bag: usize, width: usize, index: &str) -> String {
    format!(
        "%0: f32[{table}, {width}] = input 0 [{width}, 1]
         %1: {index}[{rows}, {bag}] = input 1 [{bag}, 1]
         %2: f32[{rows}, {bag}, {width}] = index(%0, %1) {{axes: [0], at: 0}}
         %3: f32[{rows}, {width}] = sum(%2) {{dims: [1], keepdim: false}}
         return %3"
    )
}

// Sums of gathered rows: lanes run along the row, indices are looked at once, and rows of a table that no cache holds are
// asked for ahead.
#[test]
fn gathered_rows_are_summed_row_by_row() {
    for (rows, bag, width) in [(7, 9, 256), (3, 40, 33), (1, 200, 16), (20, 8, 2000)] {
        let sources = |text: &str| plan(text).explain().sources().join("");
        let small = sources(&bags(rows, bag, width, "i64"));
        assert!(!small.contains("__builtin_prefetch"), "{small}");
        let table = (32 << 20) / 4 / width + 1;
        let text = bags_of(table, rows, bag, width, "i64");
        let sources = sources(&text);
        assert!(sources.contains("__builtin_prefetch"), "{sources}");
        assert!(!sources.contains("v1[l]"), "{sources}");
        let at: Vec<i64> = (0..rows * bag)
            .map(|i| (i * 7919 % (2 * table)) as i64 - table as i64)
            .collect();
        let x = noise(&[table, width], 3);
        run(&text, &[x.clone(), dense(&[rows, bag], &at)], 1e-3);
        let narrow: Vec<i32> = at.iter().map(|&i| i as i32).collect();
        let index = dense(&[rows, bag], &narrow);
        run(&bags_of(table, rows, bag, width, "i32"), &[x, index], 1e-3);
    }
}

// A row that two indices name, of which one is the same for all: nothing is asked for ahead by a value that is not there yet.
#[test]
fn rows_that_two_indices_name_are_summed() {
    let (table, width) = ((32 << 20) / 4 / 2 / 64, 64);
    for axis in ["sum", "cumsum"] {
        let text = format!(
            "%0: f32[2, {table}, {width}] = input 0 [{}, {width}, 1]
             %1: i64[1] = input 1 [1]
             %2: i64[40] = input 2 [1]
             %3: i64[40] = expand(%1) {{to: [40]}}
             %4: f32[40, {width}] = index(%0, %3, %2) {{axes: [0, 1], at: 0}}
             %5: {} = {axis}(%4) {{{}}}
             return %5",
            table * width,
            if axis == "sum" {
                "f32[64]"
            } else {
                "f32[40, 64]"
            },
            if axis == "sum" {
                "dims: [0], keepdim: false"
            } else {
                "dim: 0"
            },
        );
        let at: Vec<i64> = (0..40).map(|i| i * 7919 % table as i64).collect();
        let x = noise(&[2, table, width], 3);
        run(&text, &[x, dense(&[1], &[1i64]), dense(&[40], &at)], 1e-3);
    }
}

// Rows of more vectors than are reduced in registers at once, and what is left of them.
#[test]
fn accumulators_of_gathered_rows_are_variables() {
    for (width, reduce) in [
        (256, "sum(%2) {dims: [1], keepdim: false}"),
        (607, "sum(%2) {dims: [1], keepdim: false}"),
        (300, "max(%2) {dims: [1], keepdim: false}"),
        (1100, "argmax(%2) {dims: [1], keepdim: false}"),
    ] {
        let text = bags(6, 11, width, "i64").replace("sum(%2) {dims: [1], keepdim: false}", reduce);
        let text = if reduce.starts_with("argmax") {
            text.replace("%3: f32", "%3: i64")
        } else {
            text
        };
        let sources = plan(&text).explain().sources().join("");
        assert!(
            sources.contains("a3_1") && sources.contains("a3_0 ="),
            "{sources}"
        );
        let at: Vec<i64> = (0..66).map(|i| i * 23 % 100 - 50).collect();
        let x = noise(&[50, width], 9);
        let got = run(&text, &[x.clone(), dense(&[6, 11], &at)], 1e-4);
        if reduce.starts_with("sum") {
            let (x, got) = (values(&x), values(&got[0]));
            for (place, got) in got.iter().enumerate() {
                let rows = at[place / width * 11..][..11].iter();
                let want: f64 = rows
                    .map(|i| x[i.rem_euclid(50) as usize * width + place % width])
                    .sum();
                assert!((*got - want).abs() < 1e-4, "{place}: {got}, not {want}");
            }
        }
    }
}

// Two stages, each with accumulators of its own.
#[test]
fn gathered_rows_are_reduced_twice() {
    let width = 700;
    let text = format!(
        "%0: f32[50, {width}] = input 0 [{width}, 1]
         %1: i64[6, 11] = input 1 [11, 1]
         %2: f32[6, 11, {width}] = index(%0, %1) {{axes: [0], at: 0}}
         %3: f32[6, 1, {width}] = max(%2) {{dims: [1], keepdim: true}}
         %4: f32[40, {width}] = input 2 [{width}, 1]
         %5: i64[6, 11] = input 3 [11, 1]
         %6: f32[6, 11, {width}] = index(%4, %5) {{axes: [0], at: 0}}
         %7: f32[6, 11, {width}] = sub(%6, %3)
         %8: f32[6, {width}] = sum(%7) {{dims: [1], keepdim: false}}
         return %8"
    );
    let sources = plan(&text).explain().sources().join("");
    assert!(sources.contains("left1"), "{sources}");
    let at: Vec<i64> = (0..66).map(|i| i * 29 % 100 - 50).collect();
    let small: Vec<i64> = at.iter().map(|i| i % 40).collect();
    let (x, y) = (noise(&[50, width], 11), noise(&[40, width], 12));
    let (at, small) = (dense(&[6, 11], &at), dense(&[6, 11], &small));
    run(&text, &[x, at, y, small], 1e-4);
}

#[test]
fn faults_of_gathered_rows_are_found() {
    for width in [64, 600] {
        faults_of_bags(width);
    }
}

fn faults_of_bags(width: usize) {
    let plan = plan(&bags(4, 10, width, "i64"));
    let x = noise(&[50, width], 4);
    for bad in [50i64, -51] {
        for place in [0, 39] {
            let mut at = vec![1i64; 40];
            at[place] = bad;
            let inputs = [x.clone(), dense(&[4, 10], &at)];
            let error = plan.run(&mut kept(&inputs), &[]).expect_err("a fault");
            match error.kind() {
                ErrorKind::Index { index, dim, size } => {
                    assert_eq!((*index, *dim, *size), (bad, 0, 50));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

// The index of a row is the same for all its lanes: rows are copied by whole vectors.
#[test]
fn rows_are_gathered_by_whole_vectors() {
    let text = "
        %0: f32[50, 40] = input 0 [40, 1]
        %1: i64[30] = input 1 [1]
        %2: f32[30, 40] = index(%0, %1) {axes: [0], at: 0}
        %3: f32[30, 40] = exp(%2)
        return %3";
    let sources = plan(text).explain().sources().join("");
    assert!(!sources.contains("v1[l]"), "{sources}");
    let at: Vec<i64> = (0..30).map(|i| i * 17 % 100 - 50).collect();
    run(text, &[noise(&[50, 40], 5), dense(&[30], &at)], 1e-6);
}

// A table for each row, and an index of the reduced dimension itself.
#[test]
fn gathers_that_move_with_rows_and_columns() {
    let of_rows = "
        %0: f32[6, 50, 40] = input 0 [2000, 40, 1]
        %1: i64[6, 9, 40] = input 1 [9, 1, 0]
        %2: f32[6, 9, 40] = gather(%0, %1) {dim: 1}
        %3: f32[6, 40] = sum(%2) {dims: [1], keepdim: false}
        return %3";
    let at: Vec<i64> = (0..54).map(|i| i * 7 % 50).collect();
    let index = dense::<i64>(&[6, 9], &at);
    let layout = ferrotrace_runtime::Layout::new([6, 9, 40].into(), [9, 1, 0][..].into(), 0);
    run(
        of_rows,
        &[noise(&[6, 50, 40], 6), index.with_layout(layout)],
        1e-4,
    );
    let of_columns = "
        %0: f32[30, 50] = input 0 [50, 1]
        %1: i64[40] = input 1 [1]
        %2: f32[30, 40] = index(%0, %1) {axes: [1], at: 1}
        %3: f32[30] = sum(%2) {dims: [1], keepdim: false}
        return %3";
    run(
        of_columns,
        &[noise(&[30, 50], 7), dense(&[40], &at[..40])],
        1e-4,
    );
}

#[test]
fn a_sort_whose_positions_nobody_reads_moves_values_alone() {
    let text = |outputs: &str| {
        format!(
            "%0: f32[3, 400] = input 0 [400, 1]
             %1: i64[3, 400] = argsort(%0) {{dim: 1, descending: true}}
             %2: f32[3, 400] = gather(%0, %1) {{dim: 1}}
             return {outputs}"
        )
    };
    let x = noise(&[3, 400], 8);
    assert_eq!(plan(&text("%2")).explain().calls(), ["sort"]);
    run(&text("%2"), std::slice::from_ref(&x), 0.0);
    assert_eq!(plan(&text("%2 %1")).explain().calls(), ["argsort"]);
    run(&text("%2 %1"), std::slice::from_ref(&x), 0.0);
    // Positions of another tensor are positions.
    let other = "%0: f32[5] = input 0 [1]
        %1: i64[5] = argsort(%0) {dim: 0, descending: false}
        %2: f32[5] = exp(%0)
        %3: f32[5] = gather(%2, %1) {dim: 0}
        return %3";
    assert_eq!(plan(other).explain().calls(), ["argsort"]);
    run(other, &[noise(&[5], 9)], 1e-6);
}

#[test]
fn the_first_of_an_order_whose_positions_nobody_reads_move_values_alone() {
    for (dtype, largest) in [("f32", true), ("i16", false)] {
        let text = |outputs: &str| {
            format!(
                "%0: f32[3, 400] = input 0 [400, 1]
                 %1: f32[3, 400] = mul(%0, 100.0)
                 %2: {dtype}[3, 400] = to_dtype(%1) {{dtype: {dtype}}}
                 %3: i64[3, 7] = topk(%2) {{k: 7, dim: 1, largest: {largest}}}
                 %4: {dtype}[3, 7] = gather(%2, %3) {{dim: 1}}
                 return {outputs}"
            )
        };
        let x = noise(&[3, 400], 8);
        let explanation = plan(&text("%4")).explain();
        assert_eq!(explanation.calls(), ["topk_values"]);
        let size = if dtype == "f32" { 4 } else { 2 };
        assert_eq!(explanation.peak_bytes(), size * 3 * (400 + 7));
        let values = run(&text("%4"), std::slice::from_ref(&x), 0.0);
        assert_eq!(plan(&text("%4 %3")).explain().calls(), ["topk"]);
        let both = run(&text("%4 %3"), std::slice::from_ref(&x), 0.0);
        assert_eq!(difference(&values[0], &both[0], 0.0, false), None);
        assert_eq!(plan(&text("%3")).explain().calls(), ["topk"]);
    }
    // All of them, and along another dimension.
    for (k, dim, shape) in [(5, 0, "5, 6"), (6, 1, "5, 6"), (2, 0, "2, 6")] {
        let text = format!(
            "%0: f32[5, 6] = input 0 [6, 1]
             %1: i64[{shape}] = topk(%0) {{k: {k}, dim: {dim}, largest: false}}
             %2: f32[{shape}] = gather(%0, %1) {{dim: {dim}}}
             return %2"
        );
        // A gather takes whole rows along its other dimensions.
        run(&text, &[noise(&[5, 6], 10)], 0.0);
    }
}

#[test]
fn positions_along_a_dimension_need_no_check_there() {
    let text = |indices: &str, rows: usize| {
        format!(
            "%0: f32[30, 50] = input 0 [50, 1]
             %1: f32[{rows}, 8] = input 1 [8, 1]
             {indices}
             %3: f32[30, 8] = index(%1, %2) {{axes: [0], at: 0}}
             return %3"
        )
    };
    let greatest = "%2: i64[30] = argmax(%0) {dims: [1], keepdim: false}";
    let checks = |text: &str| {
        let draft = ferrotrace_jit::Draft::of(read(text), &Policy::default());
        draft.unwrap_or_else(|e| panic!("{e}")).sites.len()
    };
    for (rows, count) in [(50, 0), (60, 0), (49, 1)] {
        assert_eq!(checks(&text(greatest, rows)), count, "{rows}");
    }
    run(
        &text(greatest, 50),
        &[noise(&[30, 50], 21), noise(&[50, 8], 22)],
        0.0,
    );
}

#[test]
fn truth_values_as_indices_need_no_check() {
    let text = |rows: usize| {
        format!(
            "%0: f32[30] = input 0 [1]
             %1: f32[{rows}, 8] = input 1 [8, 1]
             %2: bool[30] = gt(%0, 0.0)
             %3: i64[30] = to_dtype(%2) {{dtype: i64}}
             %4: f32[30, 8] = index(%1, %3) {{axes: [0], at: 0}}
             return %4"
        )
    };
    for (rows, count) in [(2, 0), (1, 1)] {
        let draft = ferrotrace_jit::Draft::of(read(&text(rows)), &Policy::default());
        let sites = draft.unwrap_or_else(|e| panic!("{e}")).sites.len();
        assert_eq!(sites, count, "{rows}");
    }
    run(&text(2), &[noise(&[30], 23), noise(&[2, 8], 24)], 0.0);
}
