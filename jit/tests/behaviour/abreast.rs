//! Kernels that go through one large tensor together, slice by slice: when they do, and that it changes no result.

use super::{plan, run};
use crate::common::{copied, kept, noise, values};
use ferrotrace_jit::{Plan, PlanInput};
use ferrotrace_runtime::{stats_scope, with_threads};

/// The number of steps and of slices of each launch.
fn launches(plan: &Plan) -> Vec<(usize, usize)> {
    let launches = &plan.draft().launches;
    let slices = launches.slices.iter().copied();
    launches
        .groups
        .iter()
        .map(ExactSizeIterator::len)
        .zip(slices)
        .collect()
}

fn both_sums(rows: usize, cols: usize) -> String {
    format!(
        "
        %0: f32[{rows}, {cols}] = input 0 [{cols}, 1]
        %1: f32[{cols}] = sum(%0) {{dims: [0], keepdim: false}}
        %2: f32[{rows}] = sum(%0) {{dims: [1], keepdim: false}}
        return %1 %2"
    )
}

// scheduler X2-01, X2-02, X2-03, R-19
#[test]
fn sums_over_rows_and_columns_read_a_tensor_together() {
    let (rows, cols) = (4096, 1024);
    let both = plan(&both_sums(rows, cols));
    let [(2, slices)] = launches(&both)[..] else {
        panic!("{:?}", launches(&both));
    };
    assert!(slices > 8, "{slices}");
    let x = [noise(&[rows, cols], 3)];
    let once = both.run(&mut kept(&x), &[]).expect("it runs");
    let data = values(&x[0]);
    let near = |got: f64, want: f64| assert!((got - want).abs() < 1e-2, "{got} {want}");
    let (mut down, mut across) = (vec![0.0; cols], vec![0.0; rows]);
    for (at, x) in data.iter().enumerate() {
        down[at % cols] += x;
        across[at / cols] += x;
    }
    values(&once[0])
        .iter()
        .zip(&down)
        .for_each(|(g, w)| near(*g, *w));
    values(&once[1])
        .iter()
        .zip(&across)
        .for_each(|(g, w)| near(*g, *w));
    // The same bits with any number of threads, and as of kernels launched alone.
    for threads in [1, 2, 3, 8] {
        let again = with_threads(threads, || both.run(&mut kept(&x), &[]).expect("it runs"));
        assert!(
            once.iter().zip(&again).all(|(a, b)| values(a) == values(b)),
            "{threads} threads"
        );
    }
    for (at, output) in ["return %1", "return %2"].into_iter().enumerate() {
        let text = both_sums(rows, cols).replace("return %1 %2", output);
        let alone = plan(&text).run(&mut kept(&x), &[]).expect("it runs");
        assert_eq!(values(&alone[0]), values(&once[at]));
    }
}

// scheduler X2-04
#[test]
fn what_stays_in_the_cache_is_read_by_one_kernel_after_the_other() {
    // Equal sizes are not taken for equal loops.
    for (rows, cols, together) in [
        (4096, 1024, true),
        (2048, 2048, true),
        (4095, 1024, false),
        (256, 1024, false),
        (1024, 1024, false),
    ] {
        let plan = plan(&both_sums(rows, cols));
        assert_eq!(plan.draft().steps.len(), 2);
        let launches = launches(&plan);
        assert_eq!(
            launches.iter().any(|l| l.1 > 0),
            together,
            "{rows}x{cols}: {launches:?}"
        );
    }
}

// scheduler X2-05: the columns of a transposed operand are walked, not its rows
#[test]
fn kernels_that_go_through_memory_otherwise_do_not_go_together() {
    let text = "
        %0: f32[4096, 2048] = input 0 [2048, 1]
        %1: f32[2048, 4096] = permute(%0) {order: [1, 0]}
        %2: f32[2048, 4096] = cumsum(%1) {dim: 0}
        %3: f32[4096] = sum(%0) {dims: [1], keepdim: false}
        return %2 %3";
    let launches = launches(&plan(text));
    assert!(launches.iter().all(|l| l.1 == 0), "{launches:?}");
}

// scheduler X2-01: what of a layer norm's gradient goes over rows and over columns
#[test]
fn a_gradient_of_rows_and_of_columns_is_one_pass() {
    let text = "
        %0: f32[4096, 1024] = input 0 [1024, 1]
        %1: f32[4096, 1024] = input 1 [1024, 1]
        %2: f32[4096, 1024] = mul(%0, %1)
        %3: f32[4096, 1] = mean(%2) {dims: [1], keepdim: true}
        %4: f32[4096, 1024] = mul(%1, %3)
        %5: f32[4096, 1024] = sub(%0, %4)
        %6: f32[1024] = sum(%2) {dims: [0], keepdim: false}
        %7: f32[1024] = sum(%0) {dims: [0], keepdim: false}
        return %5 %6 %7";
    let plan = plan(text);
    assert!(
        launches(&plan).iter().any(|l| l.0 > 1 && l.1 > 0),
        "{:?}",
        launches(&plan)
    );
    let arrays = [noise(&[4096, 1024], 5), noise(&[4096, 1024], 6)];
    run(text, &arrays, 2e-2);
    // Operands that are given away: none is written over before all have read it.
    let want = plan.run(&mut kept(&arrays), &[]).expect("it runs");
    for threads in [1, 4] {
        let mut given: Vec<PlanInput> = arrays
            .iter()
            .map(|array| PlanInput {
                array: copied(array),
                donated: true,
            })
            .collect();
        let (got, _) =
            stats_scope(|| with_threads(threads, || plan.run(&mut given, &[]).expect("it runs")));
        assert!(want.iter().zip(&got).all(|(a, b)| values(a) == values(b)));
    }
}

// scheduler L-01: a later kernel that needs all of an earlier one's result is not beside it
#[test]
fn a_kernel_that_needs_the_other_waits_for_it() {
    let text = "
        %0: f32[4096, 1024] = input 0 [1024, 1]
        %1: f32[1024] = sum(%0) {dims: [0], keepdim: false}
        %2: f32[4096, 1024] = div(%0, %1)
        %3: f32[4096] = sum(%2) {dims: [1], keepdim: false}
        return %1 %3";
    let launches = launches(&plan(text));
    assert!(launches.iter().all(|l| l.0 == 1), "{launches:?}");
}
