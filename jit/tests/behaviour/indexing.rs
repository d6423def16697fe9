//! Indexed reads: wrapping, bounds, faults.

use super::{plan, run};
use crate::common::{dense, kept, noise, values};
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
