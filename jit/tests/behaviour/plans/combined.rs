//! Combined launches: what is launched at once, and that it changes neither results nor memory.

use crate::common::{copied, filled, kept, noise, values};
use crate::{plan, read, run};
use ferrotrace_jit::{Plan, PlanInput, Step};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{ErrorKind, stats_scope, with_threads};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// `%n..` = `op` of each of `n` inputs of `size(i)` elements, all returned.
fn list(n: usize, size: impl Fn(usize) -> usize, op: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for i in 0..n {
        let size = size(i);
        let _ = writeln!(text, "%{i}: f32[{size}] = input {i} [1]");
    }
    for i in 0..n {
        let (size, at, op) = (size(i), n + i, op(i));
        let _ = writeln!(text, "%{at}: f32[{size}] = {op}");
    }
    let outputs: Vec<String> = (n..2 * n).map(|i| format!("%{i}")).collect();
    text + "return " + &outputs.join(" ")
}

/// How many steps each launch or call holds, in order.
fn groups(plan: &Plan) -> Vec<usize> {
    let groups = plan.draft().launches.groups.iter();
    groups.map(ExactSizeIterator::len).collect()
}

fn inputs(n: usize, size: impl Fn(usize) -> usize) -> Vec<Array> {
    (0..n).map(|i| noise(&[size(i)], i as u64)).collect()
}

// scheduler C-05, C-12, §21.28: distinct operations of distinct sizes
#[test]
fn independent_kernels_are_launched_at_once() {
    let size = |i: usize| 1 + 1777 * i;
    let text = list(20, size, |i| match i % 4 {
        0 => format!("add(%{i}, 1.5)"),
        1 => format!("mul(%{i}, %{i})"),
        2 => format!("neg(%{i})"),
        _ => format!("relu(%{i})"),
    });
    let plan = plan(&text);
    assert_eq!(groups(&plan), [20]);
    let arrays = inputs(20, size);
    let numbers = crate::scalars(&read(&text));
    for threads in [1, 2, 7] {
        let (got, stats) = with_threads(threads, || {
            stats_scope(|| plan.run(&mut kept(&arrays), &numbers).expect("it runs"))
        });
        assert_eq!((stats.kernels_launched, stats.combined_launches), (20, 1));
        for (i, (x, y)) in arrays.iter().zip(&got).enumerate() {
            let want = values(x).into_iter().map(|x| match i % 4 {
                0 => (x as f32 + 1.5) as f64,
                1 => (x as f32 * x as f32) as f64,
                2 => -x,
                _ => x.max(0.0),
            });
            assert_eq!(values(y), want.collect::<Vec<f64>>(), "member {i}");
        }
    }
}

// scheduler C-01, C-02; codegen A10.7: a list of tensors costs no compile for each
#[test]
fn a_list_of_tensors_is_one_source_and_one_launch() {
    let count = |n: usize| {
        let plan = plan(&list(n, |i| 9000 + i % 7, |i| format!("exp(%{i})")));
        let sources = plan.draft().steps.iter().map(|step| match step {
            Step::Launch(kernel) => kernel.source.text(),
            _ => String::new(),
        });
        let sources: BTreeSet<String> = sources.collect();
        (sources.len(), plan.draft().launches.groups.len())
    };
    // 64 members a launch.
    assert_eq!((count(10), count(500)), ((1, 1), (1, 8)));
}

// codegen D T48: large and small members, reductions that finish, and calls between them
#[test]
fn members_of_all_kinds_and_sizes_keep_their_results() {
    let text = "
        %0: f32[400000] = input 0 [1]
        %1: f32[300, 700] = input 1 [700, 1]
        %2: f32[5] = input 2 [1]
        %3: f32[3, 200000] = input 3 [200000, 1]
        %4: f32[1] = sum(%0) {dims: [0], keepdim: true}
        %5: f32[300, 700] = softmax(%1) {dim: 1}
        %6: f32[5] = exp(%2)
        %7: f32[3] = mean(%3) {dims: [1], keepdim: false}
        return %4 %5 %6 %7";
    let arrays = [
        noise(&[400_000], 1),
        noise(&[300, 700], 2),
        noise(&[5], 3),
        noise(&[3, 200_000], 4),
    ];
    let plan = plan(text);
    assert_eq!(groups(&plan), [4]);
    let run = || plan.run(&mut kept(&arrays), &[]).expect("it runs");
    let once = run();
    let near =
        |got: f64, want: f64, error: f64| assert!((got - want).abs() < error, "{got} {want}");
    near(values(&once[0])[0], values(&arrays[0]).iter().sum(), 1e-1);
    for (row, got) in values(&arrays[1])
        .chunks(700)
        .zip(values(&once[1]).chunks(700))
    {
        let sum: f64 = row.iter().map(|x| x.exp()).sum();
        row.iter()
            .zip(got)
            .for_each(|(x, y)| near(*y, x.exp() / sum, 1e-6));
    }
    for (x, y) in values(&arrays[2]).iter().zip(values(&once[2])) {
        near(y, x.exp(), 1e-5);
    }
    for (row, y) in values(&arrays[3]).chunks(200_000).zip(values(&once[3])) {
        near(y, row.iter().sum::<f64>() / 2e5, 1e-6);
    }
    for threads in [1, 3, 8] {
        for (a, b) in once.iter().zip(&with_threads(threads, run)) {
            assert_eq!(values(a), values(b), "{threads} threads");
        }
    }
}

// scheduler C-09: preparing a launch of a few costs more than it saves
#[test]
fn few_tiny_kernels_are_launched_alone_and_many_at_once() {
    let launches = |n: usize| {
        let plan = plan(&list(n, |i| 500 + i, |i| format!("neg(%{i})")));
        let explained = plan.explain().launches();
        assert_eq!(explained, plan.draft().launches.groups.len());
        explained
    };
    assert_eq!((launches(3), launches(30), launches(100)), (3, 1, 2));
}

/// `v = 0.9 v + g`, `w = w − 0.1 v` of `n` parameters of sizes and ranks of their own.
fn momentum(n: usize) -> (String, Vec<Array>) {
    let shape = |i: usize| match i % 3 {
        0 => (format!("{}", 2 + 49 * i), "1".to_owned(), vec![2 + 49 * i]),
        1 => (format!("{}, 7", 1 + i), "7, 1".to_owned(), vec![1 + i, 7]),
        _ => (
            format!("2, {}, 3", 3 + i),
            format!("{}, 3, 1", 3 * (3 + i)),
            vec![2, 3 + i, 3],
        ),
    };
    let mut text = String::new();
    for input in 0..3 * n {
        let (sizes, strides, _) = shape(input % n);
        let _ = writeln!(text, "%{input}: f32[{sizes}] = input {input} [{strides}]");
    }
    let mut outputs = Vec::new();
    for i in 0..n {
        let (sizes, (w, v, g), at) = (shape(i).0, (i, n + i, 2 * n + i), 3 * n + 4 * i);
        let _ = writeln!(text, "%{at}: f32[{sizes}] = mul(%{v}, 0.9)");
        let _ = writeln!(text, "%{}: f32[{sizes}] = add(%{at}, %{g})", at + 1);
        let _ = writeln!(text, "%{}: f32[{sizes}] = mul(%{}, 0.1)", at + 2, at + 1);
        let _ = writeln!(text, "%{}: f32[{sizes}] = sub(%{w}, %{})", at + 3, at + 2);
        outputs.push(format!("%{} %{}", at + 1, at + 3));
    }
    let arrays = (0..3 * n).map(|i| noise(&shape(i % n).2, i as u64));
    (text + "return " + &outputs.join(" "), arrays.collect())
}

// scheduler C-01, C-05: an optimiser's step
#[test]
fn a_hundred_small_updates_are_two_launches() {
    let n = 100;
    let (text, arrays) = momentum(n);
    let plan = plan(&text);
    assert_eq!(groups(&plan), [64, 36]);
    assert_eq!(
        (
            plan.explain().launches(),
            plan.explain().fused_nodes().len()
        ),
        (2, n)
    );
    let numbers = crate::scalars(&read(&text));
    for threads in [1, 4] {
        // Gradients die with the step: their memory waits for nothing, since every result is written over an operand.
        for mut given in [kept(&arrays), donated(&arrays)] {
            let alone = given.iter().any(|input| input.donated);
            let (got, stats) = with_threads(threads, || {
                stats_scope(|| plan.run(&mut given, &numbers).expect("it runs"))
            });
            let launched = (stats.kernels_launched, stats.combined_launches);
            assert_eq!(launched, (n as u64, 2));
            assert_eq!(stats.in_place_writes, if alone { 2 * n as u64 } else { 0 });
            for (i, pair) in got.chunks(2).enumerate() {
                let [w, v, g] = [i, n + i, 2 * n + i].map(|at| values(&arrays[at]));
                let [velocity, weight] = [values(&pair[0]), values(&pair[1])];
                for at in 0..w.len() {
                    let momentum = 0.9 * v[at] + g[at];
                    let near = |a: f64, b: f64| (a - b).abs() < 1e-6 * (1.0 + b.abs());
                    assert!(near(velocity[at], momentum));
                    assert!(near(weight[at], w[at] - 0.1 * momentum));
                }
            }
        }
    }
}

#[test]
fn what_depends_on_a_member_is_launched_later() {
    // The mean is split over threads, so that what follows is a kernel of its own.
    let text = "
        %0: f32[200000] = input 0 [1]
        %1: f32[1000] = input 1 [1]
        %2: f32[1] = mean(%0) {dims: [0], keepdim: true}
        %3: f32[1000] = neg(%1)
        %4: f32[200000] = sub(%0, %2)
        return %3 %4";
    let plan = plan(text);
    let groups = groups(&plan);
    assert!(groups.len() > 1 && groups[0] == 2, "{groups:?}");
    run(text, &[noise(&[200_000], 5), noise(&[1000], 6)], 1e-5);
}

fn donated(arrays: &[Array]) -> Vec<PlanInput> {
    let given = |array: &Array| PlanInput {
        array: copied(array),
        donated: true,
    };
    arrays.iter().map(given).collect()
}

#[test]
fn nothing_is_written_over_what_another_member_reads() {
    // Both read %0; the last may be written over it.
    let text = "
        %0: f32[300000] = input 0 [1]
        %1: f32[1] = sum(%0) {dims: [0], keepdim: true}
        %2: f32[300000] = exp(%0)
        return %1 %2";
    let plan = plan(text);
    let kernels = plan.draft().steps.len();
    let x = noise(&[300_000], 7);
    let want: f64 = values(&x).iter().sum();
    for _ in 0..20 {
        let mut given = donated(std::slice::from_ref(&x));
        let got = with_threads(4, || plan.run(&mut given, &[]).expect("it runs"));
        assert!(
            (values(&got[0])[0] - want).abs() < 1e-2,
            "{kernels} kernels"
        );
    }
}

#[test]
fn large_buffers_are_not_kept_for_a_launch() {
    // Each reads another element than it writes, so that nothing is written in place.
    let (n, size) = (8, 1 << 18);
    let text = list(n, |_| size, |i| format!("roll(%{i}) {{shift: 1, dim: 0}}"));
    let plan = plan(&text);
    assert_eq!(groups(&plan), [n]);
    let arrays = inputs(n, |_| size);
    let mut given = donated(&arrays);
    let (got, stats) = stats_scope(|| plan.run(&mut given, &[]).expect("it runs"));
    let bytes = 4 * size as u64;
    assert!(
        stats.peak_bytes <= bytes,
        "{} beside {bytes}",
        stats.peak_bytes
    );
    for (x, y) in arrays.iter().zip(&got) {
        assert_eq!(values(y)[1..], values(x)[..size - 1]);
    }
    // What is kept anyway is launched at once.
    let ((), stats) = stats_scope(|| {
        plan.run(&mut kept(&arrays), &[]).expect("it runs");
    });
    assert_eq!(stats.combined_launches, 1);
}

#[test]
fn members_are_written_in_place() {
    let text = list(6, |_| 5000, |i| format!("neg(%{i})"));
    let plan = plan(&text);
    let arrays = inputs(6, |_| 5000);
    let mut given = donated(&arrays);
    let (got, stats) = stats_scope(|| plan.run(&mut given, &[]).expect("it runs"));
    assert_eq!((stats.in_place_writes, stats.bytes_allocated), (6, 0));
    assert_eq!(stats.combined_launches, 1);
    assert!(
        values(&got[5])
            .iter()
            .zip(values(&arrays[5]))
            .all(|(y, x)| *y == -x)
    );
}

#[test]
fn a_fault_names_its_member() {
    let text = "
        %0: f32[50, 4] = input 0 [4, 1]
        %1: i64[6000] = input 1 [1]
        %2: f32[70, 4] = input 2 [4, 1]
        %3: i64[4000] = input 3 [1]
        %4: f32[6000, 4] = index(%0, %1) {axes: [0], at: 0}
        %5: f32[4000, 4] = index(%2, %3) {axes: [0], at: 0}
        return %4 %5";
    let plan = plan(text);
    assert_eq!(groups(&plan), [2]);
    let given = |first: i64, second: i64| {
        let at =
            |n: usize, bad: i64| filled::<i64>(&[n], move |i| if i == n / 2 { bad } else { 3 });
        let arrays = [
            noise(&[50, 4], 1),
            at(6000, first),
            noise(&[70, 4], 2),
            at(4000, second),
        ];
        plan.run(&mut kept(&arrays), &[])
    };
    assert!(given(49, 69).is_ok());
    for (first, second, index, size) in [(49, 70, 70, 70), (50, 69, 50, 50), (51, 71, 51, 50)] {
        let error = given(first, second).expect_err("an index is out of range");
        let found = matches!(error.kind(), ErrorKind::Index { index: i, size: s, .. } if (*i, *s) == (index, size));
        assert!(found, "{error}");
    }
}
