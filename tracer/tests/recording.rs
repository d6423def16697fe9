//! Recording: errors that travel, handles, views, and what a flush stores.

use ferrotrace_runtime::{ErrorKind, Stats, stats_scope};
use ferrotrace_tracer::prelude::*;

fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

fn read(x: &Tensor) -> Vec<f32> {
    x.to_vec().expect("readable")
}

/// The test's body in compiled mode, whatever the environment says, and what it did.
fn compiled<R>(f: impl FnOnce() -> R) -> (R, Stats) {
    with_mode(Mode::Compiled, || stats_scope(f))
}

#[test]
fn errors_travel_and_name_their_origin() {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let bad = v(&[1.0, 2.0, 3.0]) + v(&[1.0, 2.0]);
            let line = line!() - 1;
            let later = (&bad * 2.0).exp() - v(&[1.0]).reshape(7);
            assert_eq!((later.dims(), later.numel()), (&[0][..], 0));
            let error = later.to_vec::<f32>().expect_err("carries an error");
            let text = error.to_string();
            for part in ["add", "f32[3]", "f32[2]", &format!("{}:{line}:", file!())] {
                assert!(text.contains(part), "{part} in {text}");
            }
            assert!(matches!(error.kind(), ErrorKind::Shape(_)));
            assert_eq!(bad.error().map(|e| e.to_string()), Some(text));
            assert!(later.dim(0).is_err() && later.dims3().is_err() && later.eval().is_err());
            assert!(eval([&v(&[1.0]), &later]).is_err());
        });
    }
}

#[test]
fn nothing_runs_before_it_is_read() {
    let ((), s) = compiled(|| {
        let y = (v(&[1.0, 2.0]) * 2.0 + 1.0).sum(0);
        let _ = format!("{y:?}");
        assert_eq!(y.rank(), 0);
    });
    assert_eq!((s.flushes, s.plans_built, s.ops_recorded), (0, 0, 3));
    let ((), s) = compiled(|| {
        let y = v(&[1.0, 2.0]) * 2.0 + 1.0;
        assert_eq!(read(&y), [3.0, 5.0]);
        assert_eq!(read(&y), [3.0, 5.0]);
    });
    assert_eq!(s.flushes, 1);
}

#[test]
fn views_of_data_are_no_operations() {
    let ((), s) = compiled(|| {
        let x = v(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).reshape([2, 3]);
        assert_eq!(read(&x.t()), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
        assert_eq!(read(&x.flip([1]).select(0, 1)), [6.0, 5.0, 4.0]);
        assert_eq!(
            read(&x.narrow(1, 1, 2).unsqueeze(0).expand([2, 2, 2])).len(),
            8
        );
        assert_eq!(read(&x.t().unfold(0, 2, 1)).len(), 8);
    });
    assert_eq!((s.flushes, s.plans_built), (0, 0));
}

#[test]
fn the_same_form_is_one_plan_whatever_the_numbers() {
    let step = |k: f32| read(&((v(&[1.0, 2.0, 3.0]) * k + 0.25) * k));
    let (first, s) = compiled(|| step(2.0));
    assert_eq!(first, [4.5, 8.5, 12.5]);
    assert!(s.plans_built <= 1);
    let (second, s) = compiled(|| step(4.0));
    assert_eq!(second, [17.0, 33.0, 49.0]);
    assert_eq!((s.flushes, s.plans_built, s.plan_cache_hits), (1, 0, 1));
}

#[test]
fn a_dropped_value_is_overwritten_and_a_held_one_is_not() {
    let update = |hold: bool| {
        let mut x = v(&[1.0, 2.0]);
        let held = hold.then(|| x.clone());
        let view = x.narrow(0, 0, 1);
        let view = hold.then_some(view);
        x = &x * 2.0 + 1.0;
        assert_eq!(read(&x), [3.0, 5.0]);
        x += &x.clone();
        assert_eq!(read(&x), [6.0, 10.0]);
        if let (Some(held), Some(view)) = (held, view) {
            assert_eq!((read(&held), read(&view)), (vec![1.0, 2.0], vec![1.0]));
        }
    };
    let ((), s) = compiled(|| update(false));
    assert_eq!(s.in_place_writes, 2);
    let ((), s) = compiled(|| update(true));
    assert_eq!(s.in_place_writes, 1);
}

#[test]
fn data_that_a_lazy_value_needs_is_kept() {
    let flushes = |x: Tensor| {
        let ((), s) = compiled(|| {
            let lazy = x * 2.0;
            let sum = lazy.sum(0);
            assert_eq!(read(&sum.reshape(1)), [6.0]);
            let twice = read(&lazy);
            assert_eq!((twice.len(), twice.iter().sum()), (2, 6.0));
        });
        s.flushes
    };
    // A value that is larger than what it keeps stays recorded.
    assert_eq!(flushes(v(&[1.5]).expand([2])), 2);
    // One that is as large is stored in the place of that data.
    assert_eq!(flushes(v(&[1.0, 2.0])), 1);
}

#[test]
fn costly_and_small_values_with_a_handle_are_stored() {
    let ((), s) = compiled(|| {
        let x = v(&[1.0, 2.0]);
        let sum = x.sum(0);
        assert_eq!(read(&(&x / &sum)), [1.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(sum.to_scalar::<f32>().expect("stored"), 3.0);
    });
    assert_eq!(s.flushes, 1);
    let ((), s) = compiled(|| {
        // Staying recorded would keep three vectors for one.
        let (a, b, c) = (v(&[1.0, 2.0]), v(&[3.0, 4.0]), v(&[5.0, 6.0]));
        let product = a * b * c;
        assert_eq!(read(&(&product + 1.0)), [16.0, 49.0]);
        assert_eq!(read(&product), [15.0, 48.0]);
    });
    assert_eq!(s.flushes, 1);
}

#[test]
fn several_tensors_in_one_flush() {
    let ((), s) = compiled(|| {
        let x = v(&[1.0, 2.0]);
        let (a, b) = (&x + 1.0, &x * 3.0);
        eval([&a, &b, &a]).expect("evaluates");
        assert_eq!((read(&a), read(&b)), (vec![2.0, 3.0], vec![3.0, 6.0]));
    });
    assert_eq!(s.flushes, 1);
}

#[test]
fn operands_of_other_modes_meet() {
    let x = with_mode(Mode::Compiled, || v(&[1.0, 2.0]) * 2.0);
    let (y, s) = with_mode(Mode::Eager, || stats_scope(|| &x + 1.0));
    assert_eq!(s.flushes, 1);
    let z = with_mode(Mode::Compiled, || &y * &x);
    assert_eq!(read(&z), [6.0, 20.0]);
    let (tiered, s) = with_mode(Mode::Tiered, || {
        stats_scope(|| read(&(v(&[1.0; 5]) * 7.0 - 2.0)))
    });
    assert_eq!((tiered, s.flushes), (vec![5.0; 5], 1));
}

#[test]
fn host_interchange() {
    let cpu = Device::cpu();
    assert!(
        Tensor::from_vec(vec![1.0f32; 3], [2, 2], &cpu)
            .error()
            .is_some()
    );
    let x = Tensor::from_vec(vec![1i64, 2, 3, 4, 5, 6], [2, 3], &cpu);
    let message = x.to_vec::<f32>().expect_err("another dtype").to_string();
    assert!(
        message.contains("i64") && message.contains("f32"),
        "{message}"
    );
    assert_eq!(x.t().to_ndarray::<i64>().expect("readable")[[2, 1]], 6);
    let strided = Tensor::from_ndarray(x.t().to_ndarray::<i64>().expect("readable"), &cpu);
    assert_eq!(
        strided.to_vec::<i64>().expect("readable"),
        [1, 4, 2, 5, 3, 6]
    );
    let empty = Tensor::from_vec(Vec::<f64>::new(), [0, 3], &cpu);
    assert_eq!(empty.to_vec::<f64>().expect("readable"), Vec::<f64>::new());
    assert!(x.to_scalar::<i64>().is_err());
    assert_eq!(
        x.select(0, 1)
            .select(0, 2)
            .to_scalar::<i64>()
            .expect("one number"),
        6
    );
    let inf = f32::INFINITY;
    assert!(
        v(&[inf, 1.0])
            .allclose(&v(&[inf, 1.0]), 0.0, 0.0)
            .expect("comparable")
    );
    assert!(
        !v(&[inf])
            .allclose(&v(&[-inf]), 1e9, 1e9)
            .expect("comparable")
    );
    assert!(
        !v(&[f32::NAN])
            .allclose(&v(&[f32::NAN]), 1.0, 1.0)
            .expect("comparable")
    );
    assert!(
        v(&[1.0, 1.0])
            .allclose(&v(&[1.0]), 0.0, 0.0)
            .expect("broadcasts")
    );
    assert!(v(&[1.0, 1.0]).allclose(&v(&[1.0; 3]), 0.0, 0.0).is_err());
    assert_eq!(read(&v(&[1.0, 2.0]).flip([0]).contiguous()), [2.0, 1.0]);
}
