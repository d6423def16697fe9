//! Generated scatters: what is computed on the way, in place, in order, and what a faulty index does.

use super::{kernels, plan, read, run};
use crate::common::{dense, filled, kept, noise, values};
use ferrotrace_jit::schedule::Refusal;
use ferrotrace_jit::{PlanInput, Step};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{ErrorKind, stats_scope};

fn calls(text: &str) -> usize {
    let draft = ferrotrace_jit::Draft::of(read(text), &Default::default()).expect("a draft");
    let is_call = |s: &&Step| matches!(s, Step::Call(_));
    draft.steps.iter().filter(is_call).count()
}

fn indices(n: usize, size: usize) -> Array {
    filled(&[n], |i| ((i * 7919 + i / 3) % size) as i64)
}

const GRADIENT: &str = "
    %0: f32[50, 70] = input 0 [70, 1]
    %1: i64[300] = input 1 [1]
    %2: f32[300, 70] = input 2 [70, 1]
    %3: f32[300, 70] = input 3 [70, 1]
    %4: f32[300, 70] = mul(%2, %3)
    %5: f32[50, 70] = index_put(%0, %4, %1) {axes: [0], at: 0, accumulate: true}
    return %5";

/// An embedding's gradient: the product is computed where it is added, and duplicates add in order.
#[test]
fn a_source_is_computed_where_it_is_added() {
    assert_eq!((kernels(GRADIENT), calls(GRADIENT)), (1, 0));
    let (a, b, idx) = (noise(&[300, 70], 1), noise(&[300, 70], 2), indices(300, 50));
    let inputs = [noise(&[50, 70], 3), idx.clone(), a.clone(), b.clone()];
    let got = run(GRADIENT, &inputs, 0.0);
    let mut want = values(&inputs[0]);
    let (a, b, idx) = (values(&a), values(&b), values(&idx));
    for (n, row) in idx.iter().enumerate() {
        for d in 0..70 {
            want[*row as usize * 70 + d] += a[n * 70 + d] * b[n * 70 + d];
        }
    }
    for (g, w) in values(&got[0]).iter().zip(&want) {
        assert!((g - w).abs() < 1e-4, "{g} {w}");
    }
}

/// Memory that dies with the scatter takes its result; what is kept is copied.
#[test]
fn a_destination_is_overwritten_where_it_dies() {
    let inputs = |donated| -> Vec<PlanInput> {
        let arrays = [
            noise(&[50, 70], 3),
            indices(300, 50),
            noise(&[300, 70], 1),
            noise(&[300, 70], 2),
        ];
        let arrays = arrays.into_iter().map(|array| PlanInput { array, donated });
        arrays.collect()
    };
    let plan = plan(GRADIENT);
    let mut given = inputs(true);
    let place = given[0].array.buffer.as_ptr();
    let (got, stats) = stats_scope(|| plan.run(&mut given, &[]).expect("it runs"));
    assert_eq!((got[0].buffer.as_ptr(), stats.in_place_writes), (place, 1));
    let mut shared = inputs(false);
    let before = shared[0].array.clone();
    let old = values(&before);
    let copied = plan.run(&mut shared, &[]).expect("it runs");
    assert_eq!(values(&before), old);
    assert_eq!(values(&copied[0]), values(&got[0]));
}

/// Zeros that only the scatter reads are filled once.
#[test]
fn zeros_are_filled_and_then_updated() {
    let text = "
        %0: f32[40, 30] = full($0=0.0)
        %1: i64[90, 30] = input 0 [30, 1]
        %2: f32[90, 30] = input 1 [30, 1]
        %3: f32[90, 30] = exp(%2)
        %4: f32[40, 30] = scatter(%0, %1, %3) {dim: 0, mode: \"sum\", include_self: true}
        return %4";
    let idx = filled(&[90, 30], |i| (i * 31 % 40) as i64);
    let x = noise(&[90, 30], 4);
    run(text, &[idx.clone(), x.clone()], 1e-4);
    let plan = plan(text);
    let numbers = [ferrotrace_runtime::Scalar::Float(0.0)];
    let (_, stats) = stats_scope(|| plan.run(&mut kept(&[idx, x]), &numbers).expect("it runs"));
    assert_eq!((stats.in_place_writes, stats.library_calls), (1, 0));
}

// scheduler §20.3, L-26: the source reads the destination's old data.
#[test]
fn a_source_made_of_the_destination_reads_the_old_data() {
    let text = "
        %0: f32[60, 33] = input 0 [33, 1]
        %1: i64[60] = input 1 [1]
        %2: f32[60, 33] = mul(%0, 2.0)
        %3: f32[60, 33] = index_put(%0, %2, %1) {axes: [0], at: 0, accumulate: true}
        return %3";
    let reversed = filled(&[60], |i| 59 - i as i64);
    let x = noise(&[60, 33], 5);
    let want = values(&run(text, &[x.clone(), reversed.clone()], 0.0)[0]);
    let mut given: Vec<PlanInput> = [crate::common::copied(&x), reversed]
        .into_iter()
        .map(|array| PlanInput {
            array,
            donated: true,
        })
        .collect();
    let got = plan(text).run(&mut given, &[]).expect("it runs");
    assert_eq!(values(&got[0]), want);
}

// scheduler L-27, §20.3, D-29
#[test]
fn a_result_is_read_after_the_kernel() {
    let text = "
        %0: f32[60, 33] = input 0 [33, 1]
        %1: i64[60, 33] = input 1 [33, 1]
        %2: f32[60, 33] = input 2 [33, 1]
        %3: f32[60, 33] = neg(%2)
        %4: f32[60, 33] = scatter(%0, %1, %3) {dim: 0, mode: \"sum\", include_self: true}
        %5: f32[60, 33] = gather(%4, %1) {dim: 0}
        %6: f32[60, 33] = add(%5, %4)
        return %6";
    let found = plan(text).explain();
    assert_eq!(found.fused_nodes().len(), 2);
    assert!(found.refusals().iter().any(|r| r.2 == Refusal::Scatter));
    let idx = filled(&[60, 33], |i| (i * i % 7) as i64);
    run(text, &[noise(&[60, 33], 1), idx, noise(&[60, 33], 2)], 0.0);
}

/// One row: places may be equal for any two lanes of a vector, or for all.
#[test]
fn lanes_that_meet_are_joined_in_order() {
    for mode in ["assign", "sum", "prod", "amax", "amin"] {
        for (size, spread) in [(1, 1), (3, 3), (1000, 1000)] {
            let text = format!(
                "%0: f32[{size}] = input 0 [1]
                 %1: i64[500] = input 1 [1]
                 %2: f32[500] = input 2 [1]
                 %3: f32[500] = neg(%2)
                 %4: f32[{size}] = scatter(%0, %1, %3) {{dim: 0, mode: \"{mode}\", include_self: true}}
                 return %4"
            );
            assert_eq!((kernels(&text), calls(&text)), (1, 0));
            let idx = filled(&[500], |i| {
                ((i * 37 % spread) as i64) - (i as i64 % 2) * size
            });
            let x = filled(&[500], |i| {
                if i % 90 == 89 {
                    f32::NAN
                } else {
                    1.0 + (i % 13) as f32 / 16.0
                }
            });
            let own = filled(&[size as usize], |i| i as f32);
            run(&text, &[own, idx, x], 0.0);
        }
    }
    // The same place for every lane, which the compiler sees.
    let text = "
        %0: i32[5, 1] = input 0 [1, 1]
        %1: i64[1] = input 1 [1]
        %2: i64[400] = expand(%1) {to: [400]}
        %3: i32[400, 1] = input 2 [1, 1]
        %4: i32[400, 1] = mul(%3, 2)
        %5: i32[5, 1] = index_put(%0, %4, %2) {axes: [0], at: 0, accumulate: true}
        return %5";
    let ones = filled(&[400, 1], |_| 1i32);
    let got = run(
        text,
        &[filled(&[5, 1], |_| 0i32), dense(&[1], &[3i64]), ones],
        0.0,
    );
    assert_eq!(values(&got[0]), [0., 0., 0., 800., 0.]);
}

#[test]
fn an_index_out_of_range_is_an_error_with_its_dimension() {
    let text = "
        %0: f32[6, 8] = input 0 [8, 1]
        %1: i64[20] = input 1 [1]
        %2: f32[6, 20] = input 2 [20, 1]
        %3: f32[6, 20] = mul(%2, %2)
        %4: f32[6, 8] = index_put(%0, %3, %1) {axes: [1], at: 1, accumulate: true}
        return %4";
    let run = |bad: i64| {
        let idx = filled(&[20], |i| if i == 13 { bad } else { i as i64 % 8 });
        plan(text).run(
            &mut kept(&[noise(&[6, 8], 1), idx, noise(&[6, 20], 2)]),
            &[],
        )
    };
    assert!(run(-8).is_ok());
    for bad in [8, -9] {
        let error = run(bad).expect_err("an index out of range");
        assert!(
            matches!(error.kind(), ErrorKind::Index { index, dim: 1, size: 8 } if *index == bad),
            "{error}"
        );
    }
}

// ir T69
#[test]
fn what_needs_more_than_one_store_is_a_ready_made_kernel() {
    for (mode, include) in [("mean", true), ("sum", false)] {
        let text = format!(
            "%0: f32[9] = input 0 [1]
             %1: i64[50] = input 1 [1]
             %2: f32[50] = input 2 [1]
             %3: f32[9] = scatter(%0, %1, %2) {{dim: 0, mode: \"{mode}\", include_self: {include}}}
             return %3"
        );
        assert_eq!(calls(&text), 1);
        run(
            &text,
            &[noise(&[9], 1), indices(50, 9), noise(&[50], 2)],
            0.0,
        );
    }
}

/// A part of a concatenation that is scattered is copied: its memory holds other data before.
#[test]
fn a_scatter_beside_another_part_of_a_concatenation() {
    let text = "
        %0: f32[100, 300] = input 0 [300, 1]
        %1: i64[50] = input 1 [1]
        %2: f32[50, 300] = input 2 [300, 1]
        %3: f32[100, 300] = index_put(%0, %2, %1) {axes: [0], at: 0, accumulate: true}
        %4: f32[100, 300] = cumsum(%0) {dim: 1}
        %5: f32[200, 300] = cat(%3, %4) {dim: 0}
        return %5";
    let inputs = [
        noise(&[100, 300], 1),
        indices(50, 100),
        noise(&[50, 300], 2),
    ];
    run(text, &inputs, 1e-3);
}

/// A large source that is written lane by lane and lies in memory is the ready-made kernel's; one written in runs, or
/// small beside what it is written to, is not.
#[test]
fn a_source_in_memory_is_written_in_runs_or_into_more() {
    let scatter = |n: usize| {
        format!(
            "%0: f32[40, 30] = input 0 [30, 1]
             %1: i64[40, {n}] = input 1 [{n}, 1]
             %2: f32[40, {n}] = input 2 [{n}, 1]
             %3: f32[40, 30] = scatter(%0, %1, %2) {{dim: 1, mode: \"sum\", include_self: true}}
             return %3"
        )
    };
    assert_eq!((calls(&scatter(30)), calls(&scatter(5))), (1, 0));
    let idx = filled(&[40, 5], |i| (i % 30) as i64);
    run(
        &scatter(5),
        &[noise(&[40, 30], 1), idx, noise(&[40, 5], 2)],
        0.0,
    );
    assert_eq!(
        calls(&GRADIENT.replace(
            "%5: f32[50, 70] = index_put(%0, %4",
            "%5: f32[50, 70] = index_put(%0, %2"
        )),
        0
    );
}

/// One thread writes all of a vector: a large source is computed before, by all threads.
#[test]
fn a_large_source_of_a_vector_is_computed_before_it_is_written() {
    let scatter = |n: usize| {
        format!(
            "%0: f32[1000] = input 0 [1]
             %1: i64[{n}] = input 1 [1]
             %2: f32[{n}] = input 2 [1]
             %3: f32[{n}] = mul(%2, 2.0)
             %4: f32[1000] = scatter(%0, %1, %3) {{dim: 0, mode: \"sum\", include_self: true}}
             return %4"
        )
    };
    assert_eq!((calls(&scatter(20_000)), calls(&scatter(2000))), (1, 0));
    for n in [2000, 20_000] {
        let inputs = [noise(&[1000], 1), indices(n, 1000), noise(&[n], 2)];
        run(&scatter(n), &inputs, 0.0);
    }
}
