use super::*;
use crate::cpu::fixture::{integers, of, read, strided};
use crate::{ArgMeta, ops};
use ferrotrace_runtime::with_threads;

const KINDS: [ReduceKind; 9] = [
    ReduceKind::Sum,
    ReduceKind::Prod,
    ReduceKind::Mean,
    ReduceKind::Max,
    ReduceKind::Min,
    ReduceKind::Any,
    ReduceKind::All,
    ReduceKind::ArgMax,
    ReduceKind::ArgMin,
];

fn go(kind: ReduceKind, mask: u64, x: &Array) -> Array {
    let metas = [ArgMeta::Tensor(x.shape(), x.dtype)];
    let (shape, dtype) = ops::reduce::infer(kind, mask, false, &metas).expect("valid reduction");
    reduce(kind, mask, x, &shape, dtype).expect("memory")
}

/// The reduction by its definition, of values in row-major order.
fn by_definition(kind: ReduceKind, v: &[f64]) -> f64 {
    let best = |better: fn(f64, f64) -> bool| {
        let mut at = 0;
        for (i, &x) in v.iter().enumerate() {
            if !v[at].is_nan() && (x.is_nan() || better(x, v[at])) {
                at = i;
            }
        }
        at
    };
    match kind {
        ReduceKind::Sum => v.iter().sum(),
        ReduceKind::Prod => v.iter().product(),
        ReduceKind::Mean => v.iter().sum::<f64>() / v.len() as f64,
        ReduceKind::Max => v[best(|a, b| a > b)],
        ReduceKind::Min => v[best(|a, b| a < b)],
        ReduceKind::Any => v.iter().any(|&x| x != 0.0) as u8 as f64,
        ReduceKind::All => v.iter().all(|&x| x != 0.0) as u8 as f64,
        ReduceKind::ArgMax => best(|a, b| a > b) as f64,
        ReduceKind::ArgMin => best(|a, b| a < b) as f64,
    }
}

fn expected(kind: ReduceKind, mask: u64, dims: &[usize], values: &[f64]) -> Vec<f64> {
    let to = Shape::new(dims).reduced(mask, false);
    let mut groups = vec![Vec::new(); to.numel()];
    for (mut i, &v) in values.iter().enumerate() {
        let (mut group, mut step) = (0, 1);
        for (d, &size) in dims.iter().enumerate().rev() {
            if mask >> d & 1 == 0 {
                group += i % size * step;
                step *= size;
            }
            i /= size;
        }
        groups[group].push(v);
    }
    groups.iter().map(|g| by_definition(kind, g)).collect()
}

fn check(kind: ReduceKind, mask: u64, dims: &[usize], values: &[f64], x: &Array) {
    let got = go(kind, mask, x);
    let right = read(&of(
        got.dtype,
        got.shape(),
        &expected(kind, mask, dims, values),
    ));
    let what = format!("{kind:?} over {mask:b} of {} {:?}", x.dtype, x.layout);
    for (i, (g, e)) in read(&got).into_iter().zip(right).enumerate() {
        let close = (g - e).abs() <= 1e-6 * e.abs() || (g.is_nan() && e.is_nan());
        assert!(g == e || close, "{what}: result {i} is {g}, not {e}");
    }
}

/// Small integers: sums are exact in binary32, ties are frequent.
fn values(kind: ReduceKind, dtype: DType, n: usize, seed: u64) -> Vec<f64> {
    match (kind, dtype) {
        (_, DType::Bool) => integers(n, seed, 0, 1),
        (ReduceKind::Prod, DType::U8) => integers(n, seed, 0, 2),
        (ReduceKind::Prod, _) => integers(n, seed, 0, 1)
            .iter()
            .map(|v| 2.0 * v - 1.0)
            .collect(),
        (_, DType::U8) => integers(n, seed, 0, 5),
        _ => integers(n, seed, -3, 3),
    }
}

#[test]
fn every_mask_dtype_and_form() {
    for kind in KINDS {
        for dtype in DType::ALL {
            if ops::reduce::result_dtype(kind, dtype).is_none() {
                continue;
            }
            for dims in [[4, 5, 6], [3, 1, 70], [40, 20, 2], [2, 33, 3]] {
                let v = values(kind, dtype, dims.iter().product(), 7);
                for mask in 0..8 {
                    check(kind, mask, &dims, &v, &of(dtype, &dims, &v));
                    check(kind, mask, &dims, &v, &strided(dtype, &dims, &v));
                    let flipped: Vec<f64> = v.iter().rev().copied().collect();
                    let x = of(dtype, &dims, &flipped);
                    let strides = x.layout.strides().iter().map(|s| -s).collect();
                    let mirror =
                        ferrotrace_runtime::Layout::new(x.shape().clone(), strides, v.len() - 1);
                    check(kind, mask, &dims, &v, &x.with_layout(mirror));
                }
            }
        }
    }
}

#[test]
fn scalars_and_single_elements() {
    for kind in KINDS {
        check(kind, 0, &[], &[3.0], &of(DType::F32, &[], &[3.0]));
        check(
            kind,
            0b10,
            &[4, 1],
            &[1.0, f64::NAN, 0.0, -2.0],
            &of(DType::F32, &[4, 1], &[1.0, f64::NAN, 0.0, -2.0]),
        );
    }
}

#[test]
fn large_lengths() {
    for (dims, mask) in [
        (&[1_000_003][..], 1),
        (&[509, 491], 0b01),
        (&[509, 491], 0b10),
        (&[20_011, 7], 0b01),
        (&[20_011, 7], 0b10),
        (&[3, 70_001], 0b01),
        (&[3, 70_001], 0b10),
        (&[2, 2, 70_001], 0b101),
        (&[3000, 10, 20], 0b101),
    ] {
        for kind in KINDS {
            for dtype in [DType::F32, DType::BF16] {
                if ops::reduce::result_dtype(kind, dtype).is_none() {
                    continue;
                }
                let v = values(kind, dtype, dims.iter().product(), 11);
                check(kind, mask, dims, &v, &of(dtype, dims, &v));
            }
            let v = values(kind, DType::F32, dims.iter().product(), 12);
            check(kind, mask, dims, &v, &strided(DType::F32, dims, &v));
        }
    }
}

#[test]
fn nan_and_ties() {
    let v = [1.0, f64::NAN, 3.0, f64::NAN];
    let x = of(DType::F32, &[4], &v);
    assert_eq!(read(&go(ReduceKind::ArgMax, 1, &x)), [1.0]);
    assert_eq!(read(&go(ReduceKind::ArgMin, 1, &x)), [1.0]);
    assert!(
        read(&go(ReduceKind::Max, 1, &x))[0].is_nan()
            && read(&go(ReduceKind::Min, 1, &x))[0].is_nan()
    );
    assert_eq!(read(&go(ReduceKind::Any, 1, &x)), [1.0]);
    let mut long = integers(1_000_000, 3, -9, 9);
    (long[123_456], long[900_000]) = (f64::NAN, f64::NAN);
    let dims = [1000, 1000];
    for x in [
        of(DType::F32, &dims, &long),
        strided(DType::F32, &dims, &long),
    ] {
        for kind in [ReduceKind::ArgMax, ReduceKind::ArgMin, ReduceKind::Max] {
            (0..4).for_each(|mask| check(kind, mask, &dims, &long, &x));
        }
        assert_eq!(read(&go(ReduceKind::ArgMax, 0b11, &x)), [123_456.0]);
    }
    let low = of(DType::F32, &[3], &[f64::NEG_INFINITY; 3]);
    assert_eq!(read(&go(ReduceKind::ArgMax, 1, &low)), [0.0]);
    assert_eq!(read(&go(ReduceKind::Max, 1, &low)), [f64::NEG_INFINITY]);
}

#[test]
fn no_elements() {
    let x = of(DType::F32, &[0, 3], &[]);
    for (kind, value) in [
        (ReduceKind::Sum, 0.0),
        (ReduceKind::Prod, 1.0),
        (ReduceKind::Any, 0.0),
        (ReduceKind::All, 1.0),
    ] {
        assert_eq!(read(&go(kind, 0b01, &x)), [value; 3]);
        assert!(read(&go(kind, 0b10, &x)).is_empty());
    }
    assert!(read(&go(ReduceKind::Mean, 0b11, &x))[0].is_nan());
    assert!(read(&go(ReduceKind::ArgMax, 0b10, &x)).is_empty());
    let ints = of(DType::I32, &[0], &[]);
    assert_eq!(go(ReduceKind::Sum, 1, &ints).dtype, DType::I64);
}

#[test]
fn broadcast_elements_count() {
    let x = of(DType::F32, &[3], &[1.0, 2.0, 3.0]);
    let wide = x
        .layout
        .broadcast_to(&Shape::from([1000, 3]))
        .expect("a broadcast");
    let x = x.with_layout(wide);
    assert_eq!(read(&go(ReduceKind::Sum, 0b11, &x)), [6000.0]);
    assert_eq!(
        read(&go(ReduceKind::Sum, 0b01, &x)),
        [1000.0, 2000.0, 3000.0]
    );
    assert_eq!(read(&go(ReduceKind::ArgMax, 0b11, &x)), [2.0]);
}

#[test]
fn bits_do_not_depend_on_threads() {
    let n = 1_000_003;
    let v: Vec<f64> = integers(n, 21, -1000, 1000)
        .iter()
        .map(|x| x / 7.0)
        .collect();
    let flat = of(DType::F32, &[n], &v);
    let square = of(DType::F32, &[1000, 1000], &v[..1_000_000]);
    for kind in [ReduceKind::Sum, ReduceKind::Mean, ReduceKind::ArgMax] {
        for (x, mask) in [
            (&flat, 1),
            (&square, 0b01),
            (&square, 0b10),
            (&square, 0b11),
        ] {
            let one = with_threads(1, || read(&go(kind, mask, x)));
            for threads in [2, 3, 7] {
                assert_eq!(with_threads(threads, || read(&go(kind, mask, x))), one);
            }
        }
    }
}

#[test]
fn sums_are_accurate() {
    let n = 1 << 20;
    let v: Vec<f64> = (0..n).map(|i| 0.1 + (i % 10) as f64).collect();
    let held: Vec<f64> = v.iter().map(|&x| x as f32 as f64).collect();
    let exact: f64 = held.iter().sum();
    for (dims, mask) in [([n, 1], 0b01), ([1, n], 0b10), ([1024, 1024], 0b11)] {
        let got = read(&go(ReduceKind::Sum, mask, &of(DType::F32, &dims, &v)))[0];
        assert!((got - exact).abs() < 1e-6 * exact, "{got} {exact}");
    }
    let x = of(DType::F32, &[n / 4, 4], &v);
    let got: f64 = read(&go(ReduceKind::Sum, 0b01, &x)).iter().sum();
    assert!((got - exact).abs() < 2e-6 * exact, "{got} {exact}");
}
