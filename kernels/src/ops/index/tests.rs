//! Gathers, selections, scatters: shapes, values, errors.

use super::*;
use crate::cpu::fixture::{flat, index_of, integers, metas, of, read, strided};
use ferrotrace_runtime::{Scalar, with_threads};

type Ran = Result<(Shape, Vec<f64>)>;

fn bits(x: &Array) -> Vec<u64> {
    read(x).into_iter().map(f64::to_bits).collect()
}

fn finish(out: Array, shape: Shape, dtype: DType) -> Ran {
    assert_eq!((out.shape(), out.dtype), (&shape, dtype));
    Ok((shape, read(&out)))
}

fn gathered(dim: usize, x: &Array, index: &Array) -> Ran {
    let args = [Arg::Array(x.clone()), Arg::Array(index.clone())];
    let (shape, dtype) = infer_gather(dim, &metas(&args))?;
    finish(run_gather(dim, &args, &shape, dtype)?, shape, dtype)
}

fn indexed(axes: &[u8], at: usize, x: &Array, index: &[&Array]) -> Ran {
    let mut args = vec![Arg::Array(x.clone())];
    args.extend(index.iter().map(|&i| Arg::Array(i.clone())));
    let (shape, dtype) = infer_index(axes, at, &metas(&args))?;
    finish(run_index(axes, at, &args, &shape, dtype)?, shape, dtype)
}

fn put_at(axes: &[u8], at: usize, add: bool, x: &Array, src: Arg, index: &[&Array]) -> Ran {
    let mut args = vec![Arg::Array(x.clone()), src];
    args.extend(index.iter().map(|&i| Arg::Array(i.clone())));
    let (shape, dtype) = infer_index_put(axes, at, &metas(&args))?;
    let before = bits(x);
    let out = run_index_put(axes, at, add, &args, &shape, dtype)?;
    assert_eq!(bits(x), before);
    finish(out, shape, dtype)
}

fn scattered(
    dim: usize,
    mode: ScatterMode,
    include: bool,
    x: &Array,
    index: &Array,
    src: Arg,
) -> Ran {
    let args = [Arg::Array(x.clone()), Arg::Array(index.clone()), src];
    let (shape, dtype) = infer_scatter(dim, mode, &metas(&args))?;
    let before = bits(x);
    let out = run_scatter(dim, mode, include, &args, &shape, dtype)?;
    assert_eq!(bits(x), before);
    finish(out, shape, dtype)
}

fn wrapped(index: f64, size: usize) -> usize {
    if index < 0.0 {
        (index + size as f64) as usize
    } else {
        index as usize
    }
}

#[test]
fn gather_every_dtype_dim_and_stride() {
    let (dims, part) = ([3, 4, 5], [2, 3, 4]);
    for (n, dtype) in DType::ALL.into_iter().enumerate() {
        let values = integers(60, 1, 0, if dtype == DType::Bool { 1 } else { 100 });
        for dim in 0..3 {
            let mut shape = part;
            shape[dim] = 7;
            let size = dims[dim] as i64;
            let unsigned = n % 5 == 1;
            let index_dtype = [DType::I64, DType::U8, DType::I8, DType::I16, DType::I32][n % 5];
            let count = shape.iter().product();
            let index = integers(count, 2, if unsigned { 0 } else { -size }, size - 1);
            let want: Vec<f64> = (0..count)
                .map(|i| {
                    let mut at = index_of(i, &shape);
                    at[dim] = wrapped(index[i], dims[dim]);
                    values[flat(&at, &dims)]
                })
                .collect();
            let dense = (of(dtype, &dims, &values), of(index_dtype, &shape, &index));
            let other = (
                strided(dtype, &dims, &values),
                strided(index_dtype, &shape, &index),
            );
            for (x, index) in [dense, other] {
                assert_eq!(
                    gathered(dim, &x, &index).expect("gathered").1,
                    want,
                    "{dtype} {dim}"
                );
            }
        }
    }
}

#[test]
fn advanced_indexing_places_its_block() {
    let dims = [3, 4, 5, 2];
    let values = integers(120, 1, 0, 1000);
    let (rows, columns) = ([2.0, -1.0, 0.0], [1.0, 4.0]);
    let i = of(DType::I64, &[3, 1], &rows);
    let j = of(DType::I32, &[2], &columns);
    for x in [
        of(DType::F32, &dims, &values),
        strided(DType::F32, &dims, &values),
    ] {
        // x[:, [..], [..], :] keeps the block in place; x[[..], :, [..], :] puts it first.
        for (axes, at, shape) in [
            ([1u8, 2], 1, [3, 3, 2, 2]),
            ([0, 2], 0, [3, 2, 4, 2]),
            ([0, 2], 2, [4, 2, 3, 2]),
        ] {
            let (got_shape, got) = indexed(&axes, at, &x, &[&i, &j]).expect("indexed");
            assert_eq!(got_shape, Shape::from(shape));
            let kept: Vec<usize> = (0..4).filter(|d| !axes.contains(&(*d as u8))).collect();
            for (n, got) in got.iter().enumerate() {
                let out = index_of(n, &shape);
                let mut from = [0; 4];
                from[axes[0] as usize] = wrapped(rows[out[at]], dims[axes[0] as usize]);
                from[axes[1] as usize] = wrapped(columns[out[at + 1]], dims[axes[1] as usize]);
                for (k, &d) in kept.iter().enumerate() {
                    from[d] = out[if k < at { k } else { k + 2 }];
                }
                assert_eq!(*got, values[flat(&from, &dims)]);
            }
        }
    }
}

#[test]
fn rows_of_a_table() {
    let values = integers(5 * 300, 1, 0, 1000);
    let index = of(DType::I64, &[2, 2], &[4.0, 0.0, -1.0, 3.0]);
    for table in [
        of(DType::F64, &[5, 300], &values),
        strided(DType::F64, &[5, 300], &values),
    ] {
        let (shape, got) = indexed(&[0], 0, &table, &[&index]).expect("rows");
        assert_eq!(shape, Shape::from([2, 2, 300]));
        for (n, row) in [4, 0, 4, 3].into_iter().enumerate() {
            assert_eq!(got[n * 300..][..300], values[row * 300..][..300]);
        }
    }
    let (_, got) =
        indexed(&[1], 1, &of(DType::F64, &[5, 300], &values), &[&index]).expect("columns");
    assert_eq!(got[4..8], [304, 300, 599, 303].map(|i: usize| values[i]));
}

#[test]
fn writes_in_order_and_adds_duplicates() {
    let index = of(DType::I64, &[4], &[1.0, 1.0, -1.0, 1.0]);
    for dtype in DType::ALL {
        let zeros = strided(dtype, &[3, 2], &[0.0; 6]);
        let src = if dtype == DType::Bool {
            vec![1.0; 8]
        } else {
            integers(8, 3, 1, 9)
        };
        let arg = || Arg::Array(strided(dtype, &[4, 2], &src));
        let (_, got) = put_at(&[0], 0, false, &zeros, arg(), &[&index]).expect("put");
        assert_eq!(got, [0.0, 0.0, src[6], src[7], src[4], src[5]], "{dtype}");
        let (_, got) = put_at(&[0], 0, true, &zeros, arg(), &[&index]).expect("put");
        let mut sum = [
            0.0,
            0.0,
            src[0] + src[2] + src[6],
            src[1] + src[3] + src[7],
            src[4],
            src[5],
        ];
        if dtype == DType::Bool {
            sum = sum.map(|v| f64::from(v > 0.0));
        }
        assert_eq!(got, sum, "{dtype}");
    }
    let x = of(DType::I32, &[2, 3], &[0.0; 6]);
    let (i, j) = (
        of(DType::I64, &[2], &[0.0, 1.0]),
        of(DType::I64, &[2], &[2.0, 0.0]),
    );
    let (_, got) = put_at(
        &[0, 1],
        0,
        false,
        &x,
        Arg::Scalar(Scalar::Int(7)),
        &[&i, &j],
    )
    .expect("put");
    assert_eq!(got, [0.0, 0.0, 7.0, 7.0, 0.0, 0.0]);
    let row = Arg::Array(of(DType::Bool, &[3], &[1.0, 0.0, 1.0]));
    let (_, got) = put_at(&[0], 0, true, &x, row, &[&i]).expect("put");
    assert_eq!(got, [1.0, 0.0, 1.0, 1.0, 0.0, 1.0]);
}

#[test]
fn many_duplicates_add_in_order() {
    let (n, width) = (3000, 200);
    let index = integers(n, 4, 0, 3);
    let src = integers(n * width, 5, -3, 3);
    let x = of(DType::F16, &[4, width], &vec![0.0; 4 * width]);
    let arg = Arg::Array(of(DType::F16, &[n, width], &src));
    let (_, got) = put_at(&[0], 0, true, &x, arg, &[&of(DType::I64, &[n], &index)]).expect("put");
    let mut want = vec![0.0; 4 * width];
    for (at, v) in src.iter().enumerate() {
        want[index[at / width] as usize * width + at % width] += v;
    }
    assert_eq!(got, want);
}

#[test]
fn scatter_every_mode() {
    use ScatterMode::*;
    let (dims, part) = ([3, 4, 5], [2, 3, 4]);
    for dtype in DType::ALL {
        let bool = dtype == DType::Bool;
        let (low, high) = if bool { (0, 1) } else { (1, 3) };
        let x = integers(60, 1, low, high);
        for dim in 0..3 {
            let index = integers(24, 2, -(dims[dim] as i64), dims[dim] as i64 - 1);
            let src = integers(60, 3, low, high);
            for mode in [Assign, Sum, Prod, Amax, Amin, Mean] {
                for include in [true, false] {
                    let mut want = x.clone();
                    let mut met = vec![Vec::new(); 60];
                    for (i, &to) in index.iter().enumerate() {
                        let mut at = index_of(i, &part);
                        let value = src[flat(&at, &dims)];
                        at[dim] = wrapped(to, dims[dim]);
                        met[flat(&at, &dims)].push(value);
                    }
                    for (want, met) in want.iter_mut().zip(&mut met).filter(|(_, m)| !m.is_empty())
                    {
                        if include && mode != Assign {
                            met.push(*want);
                        }
                        let sum: f64 = met.iter().sum();
                        *want = match mode {
                            Assign => met[met.len() - 1],
                            Sum if bool => f64::from(sum > 0.0),
                            Sum => sum,
                            Prod => met.iter().product(),
                            Amax => met.iter().copied().fold(0.0, f64::max),
                            Amin => met.iter().copied().fold(9.0, f64::min),
                            Mean if dtype.is_float() => sum / met.len() as f64,
                            Mean => (sum / met.len() as f64).floor(),
                        };
                    }
                    let x = strided(dtype, &dims, &x);
                    let index = of(DType::I32, &part, &index);
                    let src = Arg::Array(strided(dtype, &dims, &src));
                    let got = scattered(dim, mode, include, &x, &index, src);
                    if bool && mode == Mean {
                        assert!(got.is_err());
                        continue;
                    }
                    let got = got.expect("scattered").1;
                    let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 4e-3 * b.abs();
                    assert!(
                        got.iter().zip(&want).all(near),
                        "{dtype} {dim} {mode:?} {include}"
                    );
                }
            }
        }
    }
}

#[test]
fn scatter_of_numbers_and_nan() {
    let index = of(DType::I64, &[2], &[1.0, 1.0]);
    let x = of(DType::F32, &[2], &[1.0, f64::NAN]);
    let number = || Arg::Scalar(Scalar::Float(2.0));
    let (_, got) = scattered(0, ScatterMode::Amax, true, &x, &index, number()).expect("scattered");
    assert!(got[1].is_nan());
    let (_, got) = scattered(0, ScatterMode::Sum, false, &x, &index, number()).expect("scattered");
    assert_eq!(got, [1.0, 4.0]);
    let zero = of(DType::I64, &[], &[0.0]);
    let one = of(DType::F32, &[], &[5.0]);
    assert_eq!(
        scattered(0, ScatterMode::Sum, true, &one, &zero, number())
            .expect("0-d")
            .1,
        [7.0]
    );
    assert_eq!(gathered(0, &one, &zero).expect("0-d").1, [5.0]);
}

#[test]
fn indices_out_of_range_are_named() {
    let x = of(DType::F32, &[2, 3], &[0.0; 6]);
    let index = of(DType::I64, &[1, 3], &[0.0, -4.0, 3.0]);
    let kind = |r: Ran| r.expect_err("out of range").kind().clone();
    let wrong = ErrorKind::Index {
        index: -4,
        dim: 1,
        size: 3,
    };
    assert_eq!(kind(gathered(1, &x, &index)), wrong);
    assert_eq!(kind(indexed(&[1], 1, &x, &[&index])), wrong);
    let number = || Arg::Scalar(Scalar::Float(2.0));
    assert_eq!(kind(put_at(&[1], 1, false, &x, number(), &[&index])), wrong);
    assert_eq!(
        kind(scattered(1, ScatterMode::Sum, true, &x, &index, number())),
        wrong
    );
    let empty = of(DType::F32, &[0], &[]);
    let zero = of(DType::I64, &[1], &[0.0]);
    // No index fits an empty dimension: an error before any is read.
    let misfit = kind(indexed(&[0], 0, &empty, &[&zero]));
    assert!(matches!(misfit, ErrorKind::Shape(_)), "{misfit:?}");
    let none = of(DType::I64, &[0], &[]);
    assert_eq!(
        indexed(&[0], 0, &empty, &[&none]).expect("empty").0,
        Shape::from([0])
    );
    let none = of(DType::I64, &[0, 3], &[]);
    assert_eq!(
        gathered(0, &x, &none).expect("empty").0,
        Shape::from([0, 3])
    );
    assert_eq!(
        scattered(0, ScatterMode::Sum, true, &x, &none, number())
            .expect("same")
            .1,
        [0.0; 6]
    );
}

#[test]
fn misfits_are_errors() {
    let of = |dtype, dims: &[usize]| of(dtype, dims, &vec![0.0; dims.iter().product()]);
    let x = of(DType::I32, &[2, 3]);
    assert!(gathered(0, &x, &of(DType::F32, &[1, 3])).is_err());
    assert!(gathered(0, &x, &of(DType::Bool, &[1, 3])).is_err());
    assert!(gathered(0, &x, &of(DType::I64, &[1, 4])).is_err());
    assert!(gathered(0, &x, &of(DType::I64, &[3])).is_err());
    let index = of(DType::I64, &[2, 3]);
    let src = |dtype, dims: &[usize]| Arg::Array(of(dtype, dims));
    let sum = |src| scattered(0, ScatterMode::Sum, true, &x, &index, src);
    assert!(sum(src(DType::F32, &[2, 3])).is_err());
    assert!(sum(src(DType::I64, &[1, 3])).is_err());
    assert!(sum(Arg::Scalar(Scalar::Float(1.0))).is_err());
    assert!(sum(src(DType::I64, &[2, 3])).is_ok());
    let i = of(DType::I64, &[2]);
    assert!(put_at(&[0], 0, false, &x, src(DType::I32, &[3, 3]), &[&i]).is_err());
    assert!(indexed(&[0, 1], 0, &x, &[&i]).is_err());
    assert!(indexed(&[1, 0], 0, &x, &[&i, &i]).is_err());
    assert!(indexed(&[2], 0, &x, &[&i]).is_err());
}

/// Sums at the indices of a long line, forwards and backwards, whatever the number of threads; and nothing where one
/// index is out of range.
#[test]
fn many_elements_are_added_to_a_line() {
    let (n, size) = (40_000, 700);
    let index: Vec<i64> = (0..n).map(|i| (i * 7919 % (2 * size)) - size).collect();
    let src: Vec<f32> = (0..n).map(|i| 0.1 + (i % 13) as f32).collect();
    let mut want: Vec<f64> = (0..size).map(|i| i as f64).collect();
    for (&i, &x) in index.iter().zip(&src) {
        want[wrapped(i as f64, size as usize)] += x as f64;
    }
    let one = |dtype: DType, values: Vec<f64>| of(dtype, &[values.len()], &values);
    let line = one(DType::F32, (0..size).map(|i| i as f64).collect());
    let added = |index: &[i64]| {
        let index = one(DType::I64, index.iter().map(|&i| i as f64).collect());
        let src = one(DType::F32, src.iter().map(|&x| x as f64).collect());
        put_at(&[0], 0, true, &line, Arg::Array(src), &[&index])
    };
    let on = |threads: usize| with_threads(threads, || added(&index)).expect("in range").1;
    let got = on(1);
    for (got, want) in got.iter().zip(&want) {
        assert!((got / want - 1.0).abs() < 1e-7, "{got} {want}");
    }
    assert_eq!(got, on(3));
    let mut bad = index.clone();
    bad[31_000] = size;
    bad[39_000] = -size - 1;
    let error = added(&bad).expect_err("an index out of range").to_string();
    assert!(error.contains("700"), "{error}");
}

/// Single elements at many indices: the last of one place stays, in whatever order threads share out the places.
#[test]
fn many_elements_are_written_to_a_line() {
    let (n, size) = (50_000i64, 20_001i64);
    let index: Vec<i64> = (0..n).map(|i| i * 31 % size).collect();
    let src: Vec<i64> = (0..n).collect();
    let mut want = vec![-1.0; size as usize];
    for (&i, &x) in index.iter().zip(&src) {
        want[i as usize] = x as f64;
    }
    let line = |values: &[f64]| of(DType::I64, &[values.len()], values);
    let numbers = |all: &[i64]| all.iter().map(|&i| i as f64).collect::<Vec<_>>();
    let (index, src) = (line(&numbers(&index)), line(&numbers(&src)));
    let before = line(&vec![-1.0; size as usize]);
    let put = || put_at(&[0], 0, false, &before, Arg::Array(src.clone()), &[&index]);
    for threads in [1, 3] {
        let got = with_threads(threads, put).expect("in range").1;
        assert_eq!(got, want);
    }
}
