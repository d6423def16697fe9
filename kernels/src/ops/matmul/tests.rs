//! Products beside sums by hand.

use super::*;
use crate::cpu::fixture::{flat, index_of, integers, metas, of, read, strided};
use ferrotrace_runtime::{Context, stats_scope, with_threads};

fn apply(a: &Array, b: &Array) -> Result<Array> {
    let args = [Arg::Array(a.clone()), Arg::Array(b.clone())];
    let (shape, dtype) = infer(&metas(&args))?;
    let out = run(&args, &shape, dtype)?;
    assert_eq!((out.shape(), out.dtype), (&shape, dtype));
    Ok(out)
}

/// The product by its definition, of shapes with at least two dimensions.
fn reference(a: (&[usize], &[f64]), b: (&[usize], &[f64]), out: &[usize]) -> Vec<f64> {
    let pick = |(dims, values): (&[usize], &[f64]), index: &[usize], i: usize, j: usize| {
        let lead = index.len() - dims.len();
        let mut at: Vec<usize> = (0..dims.len() - 2)
            .map(|d| if dims[d] == 1 { 0 } else { index[lead + d] })
            .collect();
        at.extend([i, j]);
        values[flat(&at, dims)]
    };
    let k = a.0[a.0.len() - 1];
    (0..out.iter().product())
        .map(|at| {
            let index = index_of(at, out);
            let (i, j) = (index[out.len() - 2], index[out.len() - 1]);
            (0..k)
                .map(|k| pick(a, &index, i, k) * pick(b, &index, k, j))
                .sum()
        })
        .collect()
}

#[test]
fn every_dtype_and_stride() {
    let shapes: [(&[usize], &[usize]); 7] = [
        (&[3, 4], &[4, 5]),
        (&[1, 40], &[40, 70]),
        (&[70, 40], &[40, 1]),
        (&[2, 3, 4], &[4, 5]),
        (&[2, 1, 3, 4], &[3, 4, 2]),
        (&[17, 2], &[2, 19]),
        (&[2, 1, 6], &[2, 6, 1]),
    ];
    for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
        for (sa, sb) in shapes {
            let low = if dtype == DType::U8 { 0 } else { -1 };
            let a = integers(sa.iter().product(), 1, low, 2);
            let b = integers(sb.iter().product(), 2, low, 1);
            for (x, y) in [
                (of(dtype, sa, &a), of(dtype, sb, &b)),
                (strided(dtype, sa, &a), strided(dtype, sb, &b)),
            ] {
                let out = apply(&x, &y).expect("a product");
                let want = reference((sa, &a), (sb, &b), out.shape());
                assert_eq!(read(&out), want, "{dtype} {sa:?} {sb:?}");
            }
        }
    }
}

#[test]
fn vectors() {
    let v = of(DType::F32, &[3], &[1.0, 2.0, 3.0]);
    let m = of(DType::F32, &[3, 2], &[1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    let shape = |a: &Array, b: &Array| apply(a, b).expect("a product").shape().clone();
    assert_eq!(read(&apply(&v, &v).expect("dot")), [14.0]);
    assert_eq!(shape(&v, &v), Shape::scalar());
    assert_eq!(read(&apply(&v, &m).expect("row")), [4.0, 5.0]);
    let t = m.with_layout(m.layout.permute(&[1, 0]));
    assert_eq!(read(&apply(&t, &v).expect("column")), [4.0, 5.0]);
    let batch = of(DType::F32, &[2, 2, 3], &integers(12, 1, 0, 3));
    assert_eq!(shape(&batch, &v), Shape::from([2, 2]));
    assert_eq!(
        shape(&v, &strided(DType::F32, &[2, 3, 2], &integers(12, 1, 0, 3))),
        [2, 2].into()
    );
}

#[test]
fn flipped_and_broadcast_operands() {
    let values = integers(12, 5, -3, 3);
    let x = of(DType::F64, &[3, 4], &values);
    let flip = Layout::new([3, 4].into(), Strides::from_slice(&[-4, -1]), 11);
    let flipped: Vec<f64> = values.iter().rev().copied().collect();
    let b = of(DType::F64, &[4, 3], &values);
    let got = apply(&x.with_layout(flip), &b).expect("a product");
    assert_eq!(
        read(&got),
        reference((&[3, 4], &flipped), (&[4, 3], &values), &[3, 3])
    );
    let same = Layout::new([3, 4].into(), Strides::from_slice(&[0, 1]), 4);
    let got = apply(&x.with_layout(same), &b).expect("a product");
    let rows: Vec<f64> = (0..12).map(|i| values[4 + i % 4]).collect();
    assert_eq!(
        read(&got),
        reference((&[3, 4], &rows), (&[4, 3], &values), &[3, 3])
    );
}

#[test]
fn empties_are_zeros() {
    let integers_of = |dims: &[usize]| of(DType::I64, dims, &vec![1.0; dims.iter().product()]);
    let of = |dims: &[usize]| of(DType::F32, dims, &vec![1.0; dims.iter().product()]);
    assert_eq!(
        read(&apply(&of(&[2, 0]), &of(&[0, 3])).expect("zeros")),
        [0.0; 6]
    );
    assert_eq!(
        read(&apply(&of(&[1, 0]), &of(&[0, 3])).expect("zeros")),
        [0.0; 3]
    );
    assert_eq!(read(&apply(&of(&[0]), &of(&[0])).expect("zero")), [0.0]);
    assert_eq!(
        apply(&of(&[0, 2]), &of(&[2, 3])).expect("none").shape(),
        &Shape::from([0, 3])
    );
    assert_eq!(
        apply(&of(&[0, 2, 2]), &of(&[2, 3])).expect("none").shape(),
        &[0, 2, 3].into()
    );
    // Reversed, each batch begins before the one of the batch ahead.
    let none = Array {
        layout: Layout::new([2, 0, 6].into(), Strides::from_slice(&[-2, 4, 4]), 5),
        ..integers_of(&[6])
    };
    let zeros = apply(&integers_of(&[0]), &none).expect("zeros");
    assert_eq!(read(&zeros), [0.0; 12]);
}

#[test]
fn integers_wrap_and_halves_round_once() {
    let x = of(DType::I8, &[1, 2], &[100.0, 100.0]);
    let y = of(DType::I8, &[2, 1], &[2.0, 1.0]);
    assert_eq!(read(&apply(&x, &y).expect("a product")), [44.0]);
    // 2048 + 1 is 2048 in binary16, and so it would stay.
    let row = of(DType::F16, &[1, 3], &[2048.0, 1.0, 1.0]);
    let ones = of(DType::F16, &[3, 1], &[1.0; 3]);
    assert_eq!(read(&apply(&row, &ones).expect("a product")), [2050.0]);
    let mixed = apply(&row, &of(DType::BF16, &[3, 1], &[1.0; 3])).expect("a product");
    assert_eq!(mixed.dtype, DType::F32);
}

// A matrix of half precision is converted where it is multiplied: the bits are those of a converted copy.
#[test]
fn half_matrices_are_converted_as_they_are_read() {
    for (m, n, k) in [
        (1, 700, 333),
        (1, 90, 4000),
        (531, 1, 200),
        (6, 1, 70),
        (1, 1, 65),
    ] {
        for dtype in [DType::BF16, DType::F16] {
            let x: Vec<f64> = integers(m * k, 1, -90, 90)
                .iter()
                .map(|v| v / 64.0)
                .collect();
            let y: Vec<f64> = integers(k * n, 2, -90, 90)
                .iter()
                .map(|v| v / 64.0)
                .collect();
            for other in [dtype, DType::F32] {
                let (left, right) = if m == 1 {
                    (other, dtype)
                } else {
                    (dtype, other)
                };
                let (a, b) = (of(left, &[m, k], &x), of(right, &[k, n], &y));
                let wide = |x: &Array| cast(x, DType::F32).expect("a cast");
                let want = apply(&wide(&a), &wide(&b)).expect("a product");
                let got = apply(&a, &b).expect("a product");
                let want = cast(&want, got.dtype).expect("a cast");
                assert_eq!(read(&got), read(&want), "{m} {n} {k} {left} {right}");
                // Along the other dimension of memory.
                let turned = |x: &Array| {
                    let dims = x.shape();
                    let strides = Strides::from_slice(&[1, dims[0] as isize]);
                    x.with_layout(Layout::new(dims.clone(), strides, 0))
                };
                let (a, b) = (turned(&a), turned(&b));
                let want = apply(&wide(&a), &wide(&b)).expect("a product");
                let got = apply(&a, &b).expect("a product");
                let (left, right) = (read(&a), read(&b));
                let exact: f64 = (0..k).map(|i| left[i] * right[i * n]).sum();
                assert!((read(&got)[0] - exact).abs() <= 1e-2 * exact.abs().max(1.0));
                let want = cast(&want, got.dtype).expect("a cast");
                assert_eq!(read(&got).len(), read(&want).len());
                for (got, want) in read(&got).iter().zip(read(&want)) {
                    assert!(
                        (got - want).abs() <= 1e-2 * want.abs().max(1.0),
                        "{m} {n} {k}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_product_holds_what_is_said() {
    use DType::{BF16, F16, F32, F64, I32, I64};
    for (left, right) in [
        (F32, F32),
        (F16, F16),
        (F16, BF16),
        (BF16, BF16),
        (BF16, F32),
        (F32, F64),
        (I32, I64),
    ] {
        for (m, n) in [(30, 40), (300, 2), (1, 90), (70, 1)] {
            let k = 64;
            let a = of(left, &[m, k], &integers(m * k, 1, -3, 3));
            let b = of(right, &[k, n], &integers(k * n, 2, -3, 3));
            let args = [Arg::Array(a.clone()), Arg::Array(b.clone())];
            let said = held(&metas(&args), true).expect("a product");
            let (_, stats) = stats_scope(|| apply(&a, &b).expect("a product"));
            // Of a vector and a matrix in half precision the copy of the vector is left out.
            let vector = u64::from(m == 1 || n == 1) * (k * 4) as u64;
            assert!(
                (said..=said + vector).contains(&stats.peak_bytes),
                "{left} {right} {m} {n}: {} for {said}",
                stats.peak_bytes
            );
        }
    }
}

// Plans for another machine ask what a product without tiles takes, on machines that have them too.
#[test]
fn memory_without_tiles_is_that_of_converted_operands() {
    for (m, k, n) in [(300, 64, 40), (256, 256, 256), (1100, 2100, 1300)] {
        let (a, b) = (Shape::from([m, k]), Shape::from([k, n]));
        let metas = [&a, &b].map(|shape| ArgMeta::Tensor(shape, DType::BF16));
        let converted = ((m * k + k * n + m * n) * 4) as u64;
        assert_eq!(held(&metas, false).expect("a product"), converted);
        let layouts = [a.clone(), b.clone()].map(Layout::contiguous);
        for passes in [false, true] {
            let of = |dtype| {
                let operands = [(&layouts[0], dtype), (&layouts[1], dtype)];
                scratch(operands, dtype, passes, None, false).expect("a product")
            };
            assert_eq!(of(DType::BF16), of(DType::F32));
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    let noise = |n, seed| -> Vec<f64> {
        integers(n, seed, -1000, 1000)
            .into_iter()
            .map(|v| v / 999.0)
            .collect()
    };
    let cases = [
        (200, 300, 170),
        (64, 700, 600),
        (3, 2000, 300),
        (700, 40, 600),
        (1, 5000, 700),
        (5000, 1, 700),
        (72, 1000, 2),
        (260, 3300, 40),
    ];
    for (m, n, k) in cases {
        for stride in [of, strided] {
            let a = stride(DType::F32, &[m, k], &noise(m * k, 1));
            let b = stride(DType::F32, &[k, n], &noise(k * n, 2));
            let bits = |threads| {
                let out = with_threads(threads, || apply(&a, &b)).expect("a product");
                read(&out)
            };
            let one = bits(1);
            let (left, right) = (read(&a), read(&b));
            let want: f64 = (0..k).map(|i| left[i] * right[i * n]).sum();
            assert!((one[0] - want).abs() < 1e-3, "{m} {n} {k}");
            for threads in [2, 3, 8] {
                assert!(bits(threads) == one, "{m} {n} {k} on {threads}");
            }
        }
    }
}

#[test]
fn errors_say_what_differs() {
    let of = |dtype, dims: &[usize]| of(dtype, dims, &vec![1.0; dims.iter().product()]);
    let error = apply(&of(DType::F32, &[2, 3]), &of(DType::F32, &[2, 4])).expect_err("sizes");
    let context = Context {
        op: "matmul",
        operands: vec![],
        location: None,
    };
    assert_eq!(
        error.at(context).to_string(),
        "matmul: inner sizes 3 and 2 differ"
    );
    assert!(apply(&of(DType::F32, &[]), &of(DType::F32, &[1])).is_err());
    assert!(apply(&of(DType::Bool, &[1]), &of(DType::Bool, &[1])).is_err());
    assert!(apply(&of(DType::F32, &[2, 1, 1]), &of(DType::F32, &[3, 1, 1])).is_err());
}

/// The sum of products of these operands.
fn summed(args: &[Array]) -> Result<Array> {
    let args: Vec<Arg> = args.iter().cloned().map(Arg::Array).collect();
    let (shape, dtype) = SumOfProducts.infer(&metas(&args))?;
    SumOfProducts.run(&args, &shape, dtype)
}

#[test]
fn sums_of_products_are_those_of_their_terms() {
    // Of one term and of many, of different lengths and of none, small and larger than a panel.
    let cases: [((usize, usize), &[usize]); 5] = [
        ((1, 1), &[1]),
        ((3, 5), &[4, 1, 7]),
        ((70, 33), &[16, 0, 40]),
        ((200, 130), &[32; 30]),
        ((4, 6), &[0]),
    ];
    for dtype in [DType::F32, DType::F64] {
        for ((m, n), inner) in cases {
            for turned in 0..4 {
                let mut operands = Vec::new();
                let mut want = vec![0.0; m * n];
                for (i, &k) in inner.iter().enumerate() {
                    let a = integers(m * k, 2 * i as u64 + 1, -3, 3);
                    let b = integers(k * n, 2 * i as u64 + 2, -3, 3);
                    for (at, want) in want.iter_mut().enumerate() {
                        let (r, c) = (at / n, at % n);
                        *want += (0..k).map(|l| a[r * k + l] * b[l * n + c]).sum::<f64>();
                    }
                    for (dims, values, turns) in
                        [([m, k], a, turned & 1 == 1), ([k, n], b, turned & 2 == 2)]
                    {
                        operands.push(match turns {
                            true => strided(dtype, &dims, &values),
                            false => of(dtype, &dims, &values),
                        });
                    }
                }
                let on = |threads| with_threads(threads, || summed(&operands));
                let (out, other) = (on(1).expect("a sum"), on(3).expect("a sum"));
                assert_eq!(read(&out), want, "{dtype} {m} {n} {inner:?}");
                assert_eq!(read(&other), want);
            }
        }
    }
}

#[test]
fn sums_of_products_that_do_not_fit() {
    let x = |dtype, dims: &[usize]| of(dtype, dims, &vec![1.0; dims.iter().product()]);
    let f = |dims: &[usize]| x(DType::F32, dims);
    for wrong in [
        vec![],
        vec![f(&[2, 3])],
        vec![f(&[2, 3]), f(&[2, 3])],
        vec![f(&[2, 3]), f(&[3, 2]), f(&[2, 3])],
        vec![f(&[2, 3]), f(&[3, 2]), f(&[2, 3]), f(&[3, 4])],
        vec![f(&[2, 3]), f(&[3])],
        vec![f(&[2, 3]), x(DType::F64, &[3, 2])],
        vec![x(DType::I64, &[2, 3]), x(DType::I64, &[3, 2])],
    ] {
        assert!(summed(&wrong).is_err());
    }
}

// By tiles where the machine has them, else by converted copies: sums of whole numbers are exact either way.
#[test]
fn products_of_bf16_of_enough_work() {
    let shapes: [(&[usize], &[usize]); 7] = [
        (&[40, 70], &[70, 50]),
        (&[300, 64], &[64, 530]),
        (&[3, 40, 33], &[33, 70]),
        (&[2, 1, 34, 47], &[3, 47, 35]),
        (&[2, 2000], &[2000, 30]),
        (&[33, 1030], &[1030, 2]),
        (&[40, 1, 64], &[64, 64]),
    ];
    for (sa, sb) in shapes {
        let a = integers(sa.iter().product(), 1, -4, 4);
        let b = integers(sb.iter().product(), 2, -4, 4);
        for (x, y) in [
            (of(DType::BF16, sa, &a), of(DType::BF16, sb, &b)),
            (strided(DType::BF16, sa, &a), strided(DType::BF16, sb, &b)),
        ] {
            let args = [Arg::Array(x), Arg::Array(y)];
            let (shape, _) = infer(&metas(&args)).expect("a product");
            let want = reference((sa, &a), (sb, &b), &shape);
            let of = |threads| {
                let sums = with_threads(threads, || run(&args, &shape, DType::F32));
                read(&sums.expect("a product"))
            };
            assert_eq!(of(1), want, "{sa:?} {sb:?}");
            assert_eq!(of(3), want, "{sa:?} {sb:?}");
        }
    }
}
