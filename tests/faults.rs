//! An operation that fails when it runs fails what depends on it, in every mode; all else that was computed with it has its
//! value.

use ferrotrace::prelude::*;
use ferrotrace::{ErrorKind, cond};

const MODES: [Mode; 3] = [Mode::Compiled, Mode::Tiered, Mode::Eager];

fn vector(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, values.len(), &Device::cpu())
}

fn indices(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, values.len(), &Device::cpu())
}

fn read(x: &Tensor) -> Vec<f32> {
    x.to_vec().expect("a value")
}

/// The error of reading, which is of an index of this file.
#[track_caller]
fn fault(x: &Tensor, op: &str, index: i64) -> String {
    let error = x.to_vec::<f32>().expect_err("an index is out of range");
    let found = matches!(error.kind(), ErrorKind::Index { index: i, .. } if *i == index);
    let text = error.to_string();
    assert!(
        found && text.contains(op) && text.contains(file!()),
        "{text}"
    );
    text
}

/// Runs a check in every mode, in compiled ones also a second time, by the plan of the first.
fn in_every_mode(check: impl Fn()) {
    for mode in MODES {
        with_mode(mode, || (0..2).for_each(|_| check()));
    }
}

#[test]
fn of_several_tensors_one_fails() {
    in_every_mode(|| {
        let x = vector(&[1.0, 2.0, 3.0]);
        let (good, bad) = (indices(&[2, 0]), indices(&[0, 9]));
        let tensors = [
            x.index_select(0, &good),
            x.index_select(0, &bad) * 2.0,
            x.exp().log(),
            x.sum(0),
            x.index_select(0, &(&bad - 9)),
        ];
        assert!(eval(&tensors).is_err());
        assert_eq!(read(&tensors[0]), [3.0, 1.0]);
        fault(&tensors[1], "index_select", 9);
        assert!((read(&tensors[2])[2] - 3.0).abs() < 1e-5);
        assert_eq!(read(&tensors[3]), [6.0]);
        fault(&tensors[4], "index_select", -9);
    });
}

#[test]
fn each_failure_has_its_own_message() {
    in_every_mode(|| {
        let x = vector(&[1.0, 2.0, 3.0]);
        let many: Vec<Tensor> = (0..12)
            .map(|n| x.index_select(0, &indices(&[0, n])) + n as f64)
            .collect();
        assert!(eval(&many).is_err());
        for (n, y) in many.iter().enumerate() {
            match n {
                0..3 => assert_eq!(read(y), [1.0 + n as f32, 1.0 + 2.0 * n as f32]),
                _ => assert!(y.to_vec::<f32>().is_err(), "{n}"),
            }
        }
        let (a, b) = (
            x.index_select(0, &indices(&[7])),
            x.gather(0, &indices(&[-8])),
        );
        let both = &a + &b;
        assert!(eval([&a, &b, &both]).is_err());
        fault(&a, "index_select", 7);
        fault(&b, "gather", -8);
        fault(&both, "index_select", 7);
    });
}

#[test]
fn pending_ancestors_and_siblings_keep_their_values() {
    in_every_mode(|| {
        let x = vector(&[1.0, 2.0, 3.0]) * 2.0;
        let mean = x.mean(0);
        let deep = (&x - &mean).square().sum(0);
        let chosen = (&x * &mean).index_select(0, &indices(&[3]));
        let after = (&chosen + &deep).relu().cumsum(0);
        fault(&after, "index_select", 3);
        fault(&chosen, "index_select", 3);
        assert_eq!(read(&x), [2.0, 4.0, 6.0]);
        assert_eq!((read(&mean), read(&deep)), (vec![4.0], vec![8.0]));
        assert_eq!(read(&(&x + &mean)), [6.0, 8.0, 10.0]);
    });
}

#[test]
fn overwritten_leaves_are_not_lost() {
    in_every_mode(|| {
        // The data dies with the flush, which may overwrite it.
        let mut x = vector(&[1.0; 64]) + 1.0;
        eval([&x]).unwrap();
        x *= 3.0;
        let bad = (&x + 1.0).index_select(0, &indices(&[64]));
        x += 1.0;
        assert!(eval([&x, &bad]).is_err());
        assert_eq!(read(&x), [7.0; 64]);
        fault(&bad, "index_select", 64);
    });
}

#[test]
fn writes_fail_apart_from_what_is_written() {
    in_every_mode(|| {
        let base = Tensor::zeros([4, 3], DType::F32, &Device::cpu()) + 1.0;
        let rows = Tensor::ones([2, 3], DType::F32, &Device::cpu());
        let assigned = base.slice_assign(0, 1, 3, 1, &(&rows * 5.0));
        let bad = assigned.index_add(0, &indices(&[0, 4]), &rows);
        let good = assigned.index_add(0, &indices(&[0, 3]), &rows);
        let worse = bad.slice_assign(0, 0, 2, 1, &rows);
        assert!(eval([&bad, &good, &worse]).is_err());
        fault(&bad, "index_add", 4);
        fault(&worse, "index_add", 4);
        let want = [2.0, 2.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0, 2.0, 2.0, 2.0];
        assert_eq!(read(&good.reshape(12)), want);
        assert_eq!(read(&base.reshape(12)), [1.0; 12]);
        assert_eq!(read(&assigned.narrow(0, 0, 1).reshape(3)), [1.0; 3]);
    });
}

#[test]
fn results_of_a_function_fail_one_by_one() {
    let f = jit(|(x, at): (Tensor, Tensor)| {
        let y = (&x * 2.0).exp();
        let chosen = x.index_select(0, &at).sum(0);
        (y.sum(0), &chosen + 1.0, x + 1.0)
    });
    for mode in MODES {
        with_mode(mode, || {
            for at in [1, 5, 0, -7, 2] {
                let x = vector(&[0.0, 1.0, 2.0]);
                let (sum, chosen, next) = f.call((x, indices(&[at, 0])));
                let want: f64 = (0..3).map(|n| f64::exp(2.0 * n as f64)).sum();
                assert!((f64::from(read(&sum)[0]) - want).abs() < 1e-4 * want);
                assert_eq!(read(&next), [1.0, 2.0, 3.0]);
                match at {
                    0..3 => assert_eq!(read(&chosen), [at as f32 + 1.0]),
                    _ => drop(fault(&chosen, "index_select", at)),
                }
            }
        });
    }
}

#[test]
fn a_loop_outlives_a_faulty_step() {
    in_every_mode(|| {
        let mut state = vector(&[1.0, 1.0, 1.0]);
        let mut failed = 0;
        for step in 0..200i64 {
            state = &state * 0.5 + 1.0;
            let at = indices(&[if step == 77 { 3 } else { step % 3 }]);
            match state.index_select(0, &at).to_vec::<f32>() {
                Ok(chosen) => assert!(chosen[0] <= 2.0),
                Err(_) => failed += 1,
            }
        }
        assert_eq!(failed, 1);
        assert_eq!(read(&state), [2.0; 3]);
    });
}

#[test]
fn a_chain_of_slices_at_many_positions_fails_in_part() {
    // Positions that change make a form run in stages.
    in_every_mode(|| {
        let mut table = Tensor::zeros([40], DType::F32, &Device::cpu());
        for step in 0..30 {
            let row = table.narrow(0, step, 2) + 1.0;
            let bad = row.index_select(0, &indices(&[if step % 10 == 9 { 2 } else { 1 }]));
            table = table.slice_assign(0, step, step + 2, 1, &row);
            let next = &bad * 2.0;
            let done = eval([&table, &next]);
            assert_eq!(done.is_err(), step % 10 == 9, "{step}");
            if done.is_err() {
                fault(&next, "index_select", 2);
            }
        }
        let want: Vec<f32> = (0..40)
            .map(|n| match n {
                0 | 30 => 1.0,
                1..30 => 2.0,
                _ => 0.0,
            })
            .collect();
        assert_eq!(read(&table), want);
    });
}

#[test]
fn a_failed_body_fails_its_results_alone() {
    in_every_mode(|| {
        let x = vector(&[1.0, 2.0, 3.0]);
        let branch = |x: &Tensor| x.index_select(0, &indices(&[4]));
        let bad = cond(
            &x.sum(0).gt(0.0),
            branch,
            |x: &Tensor| x.narrow(0, 0, 1),
            &x,
        );
        let good = x.sort(0, true).0;
        assert!(eval([&bad, &good]).is_err());
        assert!(bad.to_vec::<f32>().is_err());
        assert_eq!(read(&good), [3.0, 2.0, 1.0]);
    });
}

#[test]
fn an_empty_table_has_no_row_to_go_on_with() {
    in_every_mode(|| {
        let x = vector(&[1.0, 2.0, 3.0]) + 1.0;
        let at = indices(&[0, 1]);
        let table = Tensor::zeros([0, 3], DType::F32, &Device::cpu());
        let pending = &table * 2.0;
        let positions = at.reshape([2, 1]).expand([2, 3]);
        let rows = Tensor::ones([2, 3], DType::F32, &Device::cpu());
        let bad = [
            table.index_select(0, &at).sum(..),
            pending.index_select(0, &at) + 1.0,
            table.gather(0, &positions) * &x,
            table.index_add(0, &at, &rows),
            pending.scatter(0, &positions, &rows) + 1.0,
            table.index_put(&[Some(&at)], &rows, false),
        ];
        let good = [x.sum(0), x.index_select(0, &at), &pending + 1.0];
        assert!(eval(bad.iter().chain(&good)).is_err());
        for y in &bad {
            let error = y.to_vec::<f32>().expect_err("an empty table").to_string();
            assert!(error.contains(file!()), "{error}");
        }
        assert_eq!(read(&good[0]), [9.0]);
        assert_eq!(read(&good[1]), [2.0, 3.0]);
        assert_eq!(good[2].dims(), [0, 3]);
        // No index is out of range where there is none.
        let none = table.index_select(0, &indices(&[]));
        assert_eq!(read(&none.sum(..)), [0.0]);
    });
}

#[test]
fn writes_to_what_dies_with_the_flush_fail_alone() {
    in_every_mode(|| {
        let rows = Tensor::ones([2, 3], DType::F32, &Device::cpu());
        for bad in [[0, 4], [-5, 1]] {
            let base = || Tensor::zeros([4, 3], DType::F32, &Device::cpu()) + 1.0;
            let places = indices(&bad).reshape([2, 1]).expand([2, 3]);
            let written: [fn(Tensor, &Tensor, &Tensor) -> Tensor; 4] = [
                |x, at, rows| x.index_add(0, &at.narrow(1, 0, 1).reshape(2), rows),
                |x, at, rows| x.index_put(&[Some(&at.narrow(1, 0, 1).reshape(2))], rows, false),
                |x, at, rows| x.scatter(0, at, rows),
                |x, at, rows| x.scatter_add(0, at, rows),
            ];
            for write in written {
                let leaf = base();
                eval([&leaf]).unwrap();
                let kept = base();
                eval([&kept]).unwrap();
                let (y, z) = (
                    write(leaf, &places, &rows),
                    write(kept.clone(), &places, &rows),
                );
                let sum = kept.sum(..);
                assert!(eval([&y, &z, &sum]).is_err());
                let index = bad.into_iter().find(|&i| !(-4..4).contains(&i));
                fault(&y, "", index.unwrap_or_default());
                fault(&z, "", index.unwrap_or_default());
                assert_eq!(read(&sum), [12.0]);
                assert_eq!(read(&kept.reshape(12)), [1.0; 12]);
            }
        }
    });
}
