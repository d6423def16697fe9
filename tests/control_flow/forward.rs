//! Values, against the same loops in Rust.

use super::{check, cpu, of, scalar};
use ferrotrace::prelude::*;
use ferrotrace::{associative_scan, cond, jit, map, scan, scan_reversed, while_loop};

#[test]
fn a_predicate_chooses() {
    let x = of(&[1.0, 2.0]);
    for (limit, want) in [(2.0, [2.0, 4.0]), (4.0, [0.0, 1.0])] {
        check(
            || cond(&x.sum(..).gt(limit), |x| x * 2.0, |x| x - 1.0, &x),
            &want,
        );
    }
    // Several results of several dtypes, and one that is the operand itself.
    let both = |chosen: bool| {
        let predicate = Tensor::scalar(chosen, DType::Bool, &cpu());
        let (same, sum) = cond(
            &predicate,
            |x| (x.clone(), x.sum(..).to_dtype(DType::I32)),
            |x| (x * 0.0, x.argmax(0).to_dtype(DType::I32)),
            &x,
        );
        Tensor::cat(&[same, sum.reshape([1]).to_dtype(DType::F64)], 0)
    };
    check(|| both(true), &[1.0, 2.0, 3.0]);
    check(|| both(false), &[0.0, 0.0, 1.0]);
    // A predicate of shape [1, 1].
    let one = Tensor::from_slice(&[true], [1, 1], &cpu());
    check(|| cond(&one, |x| x + 1.0, |x| x - 1.0, &x), &[2.0, 3.0]);
}

#[test]
fn the_branch_that_is_not_taken_does_not_run() {
    let x = of(&[1.0, 2.0]);
    let index = Tensor::from_slice(&[7i64], 1, &cpu());
    let choose = |limit: f64| {
        cond(
            &x.sum(..).gt(limit),
            |x| x.index_select(0, &index),
            |x| x.narrow(0, 0, 1),
            &x,
        )
    };
    check(|| choose(10.0), &[1.0]);
    for mode in super::MODES {
        let error = with_mode(mode, || choose(0.0).to_vec::<f64>()).expect_err("out of range");
        assert!(error.to_string().contains("forward.rs"), "{error}");
    }
}

/// The largest power of `base` that is not above `limit`, and how often it was multiplied.
fn power(base: &Tensor, limit: &Tensor) -> (Tensor, Tensor) {
    let start = (scalar(1.0), Tensor::scalar(0i64, DType::I64, &cpu()));
    while_loop(
        |(x, _)| (x * base).le(limit),
        |(x, n)| (x * base, n + 1),
        &start,
    )
}

#[test]
fn a_loop_goes_on_while_its_condition_holds() {
    for (limit, want) in [(100.0, [81.0, 4.0]), (3.0, [3.0, 1.0]), (2.0, [1.0, 0.0])] {
        let run = || {
            let (x, n) = power(&scalar(3.0), &scalar(limit));
            Tensor::stack(&[x, n.to_dtype(DType::F64)], 0)
        };
        check(run, &want);
    }
}

#[test]
fn carried_values_of_all_kinds() {
    // No element, no dimension, halves and truth values.
    let start = (
        Tensor::zeros([0, 3], DType::F32, &cpu()),
        Tensor::scalar(true, DType::Bool, &cpu()),
        Tensor::from_slice(&[1.0f32, 2.0], 2, &cpu()).to_dtype(DType::BF16),
        Tensor::scalar(0u8, DType::U8, &cpu()),
    );
    let run = || {
        let (empty, flag, x, n) = while_loop(
            |(_, _, _, n)| n.lt(5),
            |(empty, flag, x, n)| (empty * 2.0, flag.logical_not(), x * 2.0, n + 1),
            &start,
        );
        assert_eq!((empty.dims(), empty.dtype()), (&[0, 3][..], DType::F32));
        assert_eq!((x.dtype(), n.dtype()), (DType::BF16, DType::U8));
        let as_f64 = |x: Tensor| x.to_dtype(DType::F64).reshape([-1]);
        Tensor::cat(&[as_f64(flag), as_f64(x), as_f64(n)], 0)
    };
    check(run, &[0.0, 32.0, 64.0, 5.0]);
}

#[test]
fn rows_in_and_rows_out() {
    let xs = Tensor::arange(0, 12, 1, DType::F64, &cpu()).reshape([4, 3]);
    let step = |sum: &Tensor, x: &Tensor| (sum + x, (sum * x).sum(..));
    let (mut sum, mut all) = ([1.0, 2.0, 3.0], Vec::new());
    for row in 0..4 {
        let x: Vec<f64> = (0..3).map(|i| (3 * row + i) as f64).collect();
        all.push((0..3).map(|i| sum[i] * x[i]).sum::<f64>());
        (0..3).for_each(|i| sum[i] += x[i]);
    }
    let start = of(&[1.0, 2.0, 3.0]);
    check(|| scan(step, &start, &xs).0, &sum);
    check(|| scan(step, &start, &xs).1, &all);
    // Rows of a transposed and of a flipped tensor.
    let other = xs.reshape([3, 4]).t();
    let (mut sum, mut all) = (0.0, Vec::new());
    for row in (0..4).rev() {
        sum += (0..3).map(|i| (row + 4 * i) as f64).sum::<f64>();
        all.insert(0, sum);
    }
    let step = |sum: &Tensor, x: &Tensor| (sum + x.sum(..), sum + x.sum(..));
    check(|| scan_reversed(step, &scalar(0.0), &other).1, &all);
    check(
        || scan(step, &scalar(0.0), &other.flip(&[0])).1.flip(&[0]),
        &all,
    );
}

#[test]
fn no_rows() {
    let xs = Tensor::zeros([0, 2], DType::F64, &cpu());
    let run = || {
        let (last, rows) = scan(|a, x| (a + x, x.sum(..)), &of(&[1.0, 2.0]), &xs);
        assert_eq!((rows.dims(), rows.dtype()), (&[0][..], DType::F64));
        last
    };
    check(run, &[1.0, 2.0]);
    check(|| map(|x: &Tensor| x.exp(), &xs), &[]);
    check(
        || associative_scan(|a: &Tensor, b: &Tensor| a + b, &xs),
        &[],
    );
    // Rows without elements.
    let xs = Tensor::zeros([3, 0], DType::F64, &cpu());
    check(|| map(|x: &Tensor| x.sum(..) + 1.0, &xs), &[1.0; 3]);
    check(|| map(|x: &Tensor| x.exp(), &xs), &[]);
}

#[test]
fn a_map_captures_and_takes_structs() {
    let w = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &cpu());
    let xs = Tensor::from_slice(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2], &cpu());
    let scale = of(&[1.0, 10.0, 100.0]);
    let run = || {
        let lazy = &w * 1.0; // recorded before the map, and not computed yet
        let row = |(x, s): &(Tensor, Tensor)| lazy.matmul(x) * s;
        map(row, &(xs.clone(), scale.clone()))
    };
    check(run, &[1.0, 3.0, 20.0, 40.0, 300.0, 700.0]);
}

#[test]
fn joined_from_left_to_right() {
    // Products of matrices do not commute.
    let m = Tensor::from_slice(
        &[1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 2.0, 0.0, 0.0, 1.0],
        [3, 2, 2],
        &cpu(),
    );
    let run = || associative_scan(|a: &Tensor, b: &Tensor| a.matmul(b), &m);
    check(
        run,
        &[1.0, 1.0, 0.0, 1.0, 2.0, 1.0, 1.0, 1.0, 4.0, 1.0, 2.0, 1.0],
    );
}

#[test]
fn a_replay_decides_by_its_argument() {
    let choose = jit(|x: &Tensor| cond(&x.sum(..).gt(0.0), |x| x * 2.0, |x| x.neg(), x));
    let count = jit(|(base, limit): (&Tensor, &Tensor)| power(base, limit).1);
    let sums = jit(|(start, xs): (&Tensor, &Tensor)| scan(|a, x| (a + x, a * x), start, xs));
    for _ in 0..2 {
        for (x, want) in [([1.0, 2.0], [2.0, 4.0]), ([-1.0, -2.0], [1.0, 2.0])] {
            check(|| choose.call(&of(&x)), &want);
        }
        for (limit, want) in [(100.0, 4.0), (1000.0, 6.0), (1.0, 0.0)] {
            check(|| count.call((&scalar(3.0), &scalar(limit))), &[want]);
        }
        for start in [1.0, 5.0] {
            let xs = of(&[1.0, 2.0, 3.0]);
            let want = [start, (start + 1.0) * 2.0, (start + 3.0) * 3.0];
            check(|| sums.call((&scalar(start), &xs)).1, &want);
        }
    }
    assert_eq!(ferrotrace::stats().fallbacks, 0);
}

#[test]
fn one_trace_for_all_calls_of_a_signature() {
    let f = jit(|x: &Tensor| while_loop(|x| x.max(..).lt(100.0), |x| x * 2.0, x));
    let run = |value: f64| f.call(&of(&[value])).to_vec::<f64>();
    assert_eq!(run(1.0).ok(), Some(vec![128.0]));
    let (found, stats) = ferrotrace::stats_scope(|| (run(3.0), run(50.0), run(200.0)));
    assert_eq!(found.0.ok(), Some(vec![192.0]));
    assert_eq!(found.1.ok(), Some(vec![100.0]));
    assert_eq!(found.2.ok(), Some(vec![200.0]));
    assert_eq!((stats.traces, stats.plans_built), (0, 0));
}

#[test]
fn nested() {
    // Collatz: how many steps each number takes to reach 1.
    let steps = |n: &Tensor| {
        let zero = Tensor::scalar(0i64, DType::I64, &cpu());
        let next = |(n, steps): &(Tensor, Tensor)| {
            let even = (n % 2).eq(0);
            (
                cond(&even, |n| n.floor_divide(2), |n| n * 3 + 1, n),
                steps + 1,
            )
        };
        while_loop(|(n, _)| n.ne(1), next, &(n.clone(), zero)).1
    };
    let numbers = Tensor::from_slice(&[1i64, 2, 7, 27], 4, &cpu());
    check(|| map(steps, &numbers), &[0.0, 1.0, 16.0, 111.0]);
    let all = jit(move |numbers: &Tensor| map(steps, numbers));
    check(|| all.call(&numbers), &[0.0, 1.0, 16.0, 111.0]);
    check(|| all.call(&(&numbers + 1)), &[1.0, 7.0, 3.0, 18.0]);
    // A scan in a scan: running sums of rows, and of their sums.
    let xs = Tensor::arange(0, 6, 1, DType::F64, &cpu()).reshape([2, 3]);
    let outer = |total: &Tensor, row: &Tensor| {
        let (sum, sums) = scan(|a, x| (a + x, a + x), total, row);
        (sum, sums)
    };
    check(
        || scan(outer, &scalar(0.0), &xs).1,
        &[0.0, 1.0, 3.0, 6.0, 10.0, 15.0],
    );
}

#[test]
fn results_are_read_one_by_one() {
    let xs = of(&[1.0, 2.0, 3.0]);
    let (last, rows) = scan(|a, x| (a + x, a * x), &scalar(1.0), &xs);
    assert_eq!(last.item::<f64>().ok(), Some(7.0));
    let (found, stats) = ferrotrace::stats_scope(|| rows.to_vec::<f64>());
    assert_eq!(found.ok(), Some(vec![1.0, 4.0, 12.0]));
    // The loop has run.
    assert!(stats.kernels_launched <= 1, "{stats:?}");
}

#[test]
fn constant_bodies() {
    // Results that are operands, captured tensors, or made of nothing.
    let (x, w) = (of(&[1.0, 2.0]), of(&[5.0, 6.0]));
    check(
        || {
            while_loop(
                |(n, _)| n.lt(3),
                |(n, _)| (n + 1, w.clone()),
                &(Tensor::scalar(0, DType::I32, &cpu()), x.clone()),
            )
            .1
        },
        &[5.0, 6.0],
    );
    check(
        || {
            scan(
                |a: &Tensor, _: &Tensor| (a.clone(), w.clone()),
                &x,
                &scalar(0.0).expand([2]),
            )
            .1
        },
        &[5.0, 6.0, 5.0, 6.0],
    );
    check(
        || map(|_: &Tensor| Tensor::ones(2, DType::F64, &cpu()), &x),
        &[1.0; 4],
    );
    let swapped = |(a, b): &(Tensor, Tensor), _: &Tensor| ((b.clone(), a.clone()), ());
    check(
        || scan(swapped, &(x.clone(), w.clone()), &of(&[0.0; 3])).0.0,
        &[5.0, 6.0],
    );
}
