use crate::copy::contiguous;
use crate::cpu::fixture::{flat, index_of, integers, of, read, strided};
use crate::op::{
    Arange, Cast, Cat, Expand, Flatten, Flip, Full, Iota, Pad, Permute, Random, Repeat, Reshape,
    Slice, SliceAssign,
};
use crate::{Arg, ArgMeta, Array, BinaryOp, Distribution, Extent, Op, UnaryOp};
use ferrotrace_runtime::{DType, Device, Layout, Scalar, Shape, with_threads};
use smallvec::{SmallVec, smallvec};

/// Runs an operator with the rules' shape and dtype.
fn go(op: &Op, args: &[Arg]) -> Array {
    let metas: Vec<ArgMeta<'_>> = args.iter().map(Arg::meta).collect();
    let (shape, dtype) = op.infer(&metas).expect("valid operands");
    let result = op.run(args, &shape, dtype).expect("memory");
    assert_eq!((result.shape(), result.dtype), (&shape, dtype), "{op:?}");
    result
}

fn of_array(x: &Array) -> Arg {
    Arg::Array(x.clone())
}

/// These elements behind strides of every kind: dense, permuted, mirrored, every other element of a larger array.
fn forms(dtype: DType, dims: &[usize], values: &[f64]) -> Vec<Array> {
    let dense = of(dtype, dims, values);
    let mut forms = vec![dense.clone(), strided(dtype, dims, values)];
    let all: u64 = (1 << dims.len()) - 1;
    let mirrored: Vec<f64> = values.iter().rev().copied().collect();
    forms.push(go(
        &Op::Flip(Flip { mask: all }),
        &[Arg::Array(of(dtype, dims, &mirrored))],
    ));
    if let Some(&last) = dims.last() {
        let sparse: Vec<f64> = values.iter().flat_map(|&v| [0.0, v]).collect();
        let mut wide = dims.to_vec();
        *wide.last_mut().expect("a dimension") = 2 * last;
        let op = Op::Slice(Slice {
            dim: dims.len() - 1,
            start: 1,
            end: isize::MAX,
            step: 2,
        });
        let sliced = go(&op, &[Arg::Array(of(dtype, &wide, &sparse))]);
        forms.push(sliced);
    }
    forms
}

fn small(dtype: DType, n: usize, seed: u64) -> Vec<f64> {
    match dtype {
        DType::Bool => integers(n, seed, 0, 1),
        DType::U8 => integers(n, seed, 1, 11),
        DType::I8 => integers(n, seed, -11, 11),
        _ => integers(n, seed, -50, 50),
    }
}

/// Values as an array of `dtype` would hold them.
fn rounded(dtype: DType, values: &[f64]) -> Vec<f64> {
    read(&of(dtype, &[values.len()], values))
}

fn assert_same(got: &[f64], expected: &[f64], what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (i, (g, e)) in got.iter().zip(expected).enumerate() {
        assert!(
            g == e || (g.is_nan() && e.is_nan()),
            "{what}: element {i} is {g}, not {e}"
        );
    }
}

const F: BinaryOp = BinaryOp::Add;

/// The position in an array of `dims` that broadcasts to `index`.
fn broadcast(index: &[usize], dims: &[usize]) -> usize {
    let lead = index.len() - dims.len();
    let own: Vec<usize> = dims
        .iter()
        .enumerate()
        .map(|(d, &n)| if n == 1 { 0 } else { index[lead + d] })
        .collect();
    flat(&own, dims)
}

#[test]
fn binary_in_every_dtype_and_form() {
    for dtype in DType::ALL {
        let shapes: [(&[usize], &[usize]); 9] = [
            (&[7, 5], &[7, 5]),
            (&[7, 5], &[5]),
            (&[7, 5], &[7, 1]),
            (&[7, 1], &[1, 5]),
            (&[3, 4, 5], &[4, 1]),
            (&[], &[7, 5]),
            (&[], &[]),
            (&[0, 5], &[5]),
            (&[70, 3, 40], &[70, 1, 40]),
        ];
        for (a_dims, b_dims) in shapes {
            let (a, b) = (Shape::new(a_dims), Shape::new(b_dims));
            let (va, vb) = (small(dtype, a.numel(), 1), small(dtype, b.numel(), 2));
            let to = a.broadcast(&b).expect("shapes broadcast");
            let at: Vec<(f64, f64)> = (0..to.numel())
                .map(|i| index_of(i, &to))
                .map(|i| (va[broadcast(&i, a_dims)], vb[broadcast(&i, b_dims)]))
                .collect();
            let sum = |x: f64, y: f64| {
                if dtype == DType::Bool {
                    x.max(y)
                } else {
                    x + y
                }
            };
            let add = rounded(
                dtype,
                &at.iter().map(|&(x, y)| sum(x, y)).collect::<Vec<_>>(),
            );
            let less: Vec<f64> = at.iter().map(|&(x, y)| (x < y) as u8 as f64).collect();
            for x in forms(dtype, a_dims, &va) {
                for y in forms(dtype, b_dims, &vb) {
                    let args = [of_array(&x), of_array(&y)];
                    let what = format!(
                        "{dtype} {a_dims:?} {b_dims:?} {:?} {:?}",
                        x.layout, y.layout
                    );
                    assert_same(&read(&go(&Op::Binary(F), &args)), &add, &what);
                    assert_same(&read(&go(&Op::Binary(BinaryOp::Lt), &args)), &less, &what);
                }
            }
        }
    }
}

#[test]
fn large_and_transposed() {
    for (rows, cols) in [
        (1, 1_000_003),
        (509, 491),
        (3, 40_000),
        (40_000, 3),
        (130, 2050),
    ] {
        let (n, dims) = (rows * cols, [rows, cols]);
        let (va, vb) = (integers(n, 3, -99, 99), integers(n, 4, -99, 99));
        let expected: Vec<f64> = va.iter().zip(&vb).map(|(a, b)| a - b).collect();
        for (from, other) in [
            (DType::F32, DType::F32),
            (DType::I8, DType::F64),
            (DType::BF16, DType::BF16),
        ] {
            let (x, y) = (of(from, &dims, &va), strided(other, &dims, &vb));
            for (sign, args) in [
                (1.0, [of_array(&x), of_array(&y)]),
                (-1.0, [of_array(&y), of_array(&x)]),
            ] {
                let got = go(&Op::Binary(BinaryOp::Sub), &args);
                let expected: Vec<f64> = expected.iter().map(|e| sign * e).collect();
                assert_same(
                    &read(&got),
                    &rounded(got.dtype, &expected),
                    &format!("{rows} {cols} {from} {other}"),
                );
            }
        }
    }
}

#[test]
fn numbers_are_rounded_to_the_compute_dtype() {
    let x = of(DType::F16, &[3], &[1.0, 2.0, -3.0]);
    let got = go(
        &Op::Binary(BinaryOp::Mul),
        &[of_array(&x), Arg::Scalar(Scalar::Float(0.1))],
    );
    let tenth = half::f16::from_f64(0.1).to_f32();
    let expected = [1.0, 2.0, -3.0].map(|v: f32| half::f16::from_f32(v * tenth).to_f64());
    assert_same(&read(&got), &expected, "f16 · 0.1");
    let bytes = of(DType::U8, &[2], &[250.0, 3.0]);
    let got = go(
        &Op::Binary(BinaryOp::Add),
        &[Arg::Scalar(Scalar::Int(300)), of_array(&bytes)],
    );
    assert_same(&read(&got), &[38.0, 47.0], "300 wraps to 44");
    // A binary64 tensor of no dimensions is rounded to binary16 before it takes part.
    let third = of(DType::F64, &[], &[1.0 / 3.0]);
    let got = go(
        &Op::Binary(BinaryOp::Mul),
        &[of_array(&x), of_array(&third)],
    );
    let third = half::f16::from_f64(1.0 / 3.0).to_f32();
    let expected = [1.0, 2.0, -3.0].map(|v: f32| half::f16::from_f32(v * third).to_f64());
    assert_same(&read(&got), &expected, "f16 · f64[]");
}

#[test]
fn unary_in_every_form() {
    for dtype in DType::ALL {
        for op in UnaryOp::ALL {
            let Some(compute) = op.compute_dtype(dtype) else {
                continue;
            };
            let values: Vec<f64> = small(dtype, 300, 9)
                .iter()
                .map(|v| if dtype.is_float() { v / 16.0 } else { *v })
                .collect();
            let all = forms(dtype, &[10, 30], &values);
            let first = read(&go(&Op::Unary(op), &[of_array(&all[0])]));
            for x in &all[1..] {
                assert_same(
                    &read(&go(&Op::Unary(op), &[of_array(x)])),
                    &first,
                    op.name(),
                );
            }
            let exact = match op {
                UnaryOp::Abs => f64::abs,
                UnaryOp::Sqrt => f64::sqrt,
                UnaryOp::Floor => f64::floor,
                UnaryOp::LogicalNot => |v: f64| (v == 0.0) as u8 as f64,
                UnaryOp::IsFinite => |_: f64| 1.0,
                UnaryOp::Exp => f64::exp,
                _ => continue,
            };
            let held = rounded(dtype, &values);
            let exact: Vec<f64> = held.iter().map(|&v| exact(v)).collect();
            let exact = rounded(op.result_dtype(compute), &exact);
            if op == UnaryOp::Exp {
                let tolerance = if dtype == DType::F64 {
                    1e-14
                } else if dtype.is_half() {
                    1e-2
                } else {
                    1e-6
                };
                assert!(
                    first
                        .iter()
                        .zip(&exact)
                        .all(|(a, b)| (a - b).abs() <= tolerance * b),
                    "{dtype}"
                );
            } else {
                assert_same(&first, &exact, &format!("{} {dtype}", op.name()));
            }
        }
    }
}

#[test]
fn casts_saturate_and_wrap() {
    let wild = [
        0.0,
        -0.0,
        1.5,
        -1.5,
        300.0,
        -300.0,
        1e10,
        -1e10,
        1e300,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
    ];
    for from in DType::ALL {
        let floats = from.is_float();
        let values: Vec<f64> = if floats {
            wild.to_vec()
        } else {
            small(from, 40, 5)
        };
        let x = of(from, &[values.len()], &values);
        let held = read(&x);
        for to in DType::ALL {
            let got = read(&go(&Op::Cast(Cast(to)), &[of_array(&x)]));
            let number = |v: f64| {
                if floats {
                    Scalar::Float(v)
                } else {
                    Scalar::Int(v as i64)
                }
            };
            let expected: Vec<f64> = held.iter().map(|&v| number(v).cast(to).to_f64()).collect();
            assert_same(&got, &expected, &format!("{from} to {to}"));
            for form in forms(from, &[4, values.len() / 4], &values) {
                assert_same(
                    &read(&go(&Op::Cast(Cast(to)), &[of_array(&form)])),
                    &expected,
                    "strided",
                );
            }
        }
    }
}

#[test]
fn select_keeps_bits() {
    let mask = of(DType::Bool, &[2, 1], &[1.0, 0.0]);
    for dtype in DType::ALL {
        let (a, b) = (small(dtype, 3, 6), small(dtype, 6, 7));
        let expected: Vec<f64> = (0..6).map(|i| if i < 3 { a[i] } else { b[i] }).collect();
        for y in forms(dtype, &[2, 3], &b) {
            let args = [
                of_array(&mask),
                Arg::Array(of(dtype, &[3], &a)),
                of_array(&y),
            ];
            assert_same(&read(&go(&Op::Where, &args)), &expected, "where");
        }
        let args = [
            of_array(&mask),
            Arg::Array(of(dtype, &[3], &a)),
            Arg::Scalar(Scalar::Bool(true)),
        ];
        let expected: Vec<f64> = (0..6).map(|i| if i < 3 { a[i] } else { 1.0 }).collect();
        assert_same(
            &read(&go(&Op::Where, &args)),
            &expected,
            "where with a number",
        );
    }
    let nan = f32::from_bits(0x7fc0_1234);
    let x = Array {
        buffer: ferrotrace_runtime::Buffer::from_slice(&Device::cpu(), &[nan, 1.0])
            .expect("memory"),
        layout: Layout::contiguous(Shape::from(2)),
        dtype: DType::F32,
    };
    let mask = of(DType::Bool, &[2], &[1.0, 1.0]);
    let got = go(
        &Op::Where,
        &[
            of_array(&mask),
            of_array(&x),
            Arg::Scalar(Scalar::Float(0.0)),
        ],
    );
    assert_eq!(got.buffer.as_slice::<f32>()[0].to_bits(), nan.to_bits());
}

#[test]
fn copies() {
    let dims = [3, 4, 5];
    for dtype in [DType::U8, DType::F16, DType::I32, DType::F64] {
        let values = small(dtype, 60, 8);
        for x in forms(dtype, &dims, &values) {
            let x = of_array(&x);
            let flat_op = Op::Reshape(Reshape(smallvec![Extent::Size(12), Extent::Auto]));
            assert_same(
                &read(&go(&flat_op, std::slice::from_ref(&x))),
                &values,
                "reshape",
            );
            let flatten = Op::Flatten(Flatten { start: 0, end: 1 });
            assert_same(
                &read(&go(&flatten, std::slice::from_ref(&x))),
                &values,
                "flatten",
            );
            let repeat = go(
                &Op::Repeat(Repeat(smallvec![2, 1, 3, 2])),
                std::slice::from_ref(&x),
            );
            let expected: Vec<f64> = (0..repeat.numel())
                .map(|i| index_of(i, repeat.shape()))
                .map(|i| values[flat(&[i[1] % 3, i[2] % 4, i[3] % 5], &dims)])
                .collect();
            assert_same(&read(&repeat), &expected, "repeat");
            let pads: SmallVec<[(isize, isize); 4]> = smallvec![(1, 0), (-1, 2), (2, -3)];
            let pad = go(
                &Op::Pad(Pad(pads)),
                &[x.clone(), Arg::Scalar(Scalar::Int(7))],
            );
            let inside = |i: &[usize]| i[0] >= 1 && i[1] < 3 && i[2] >= 2;
            let expected: Vec<f64> = (0..pad.numel())
                .map(|i| index_of(i, pad.shape()))
                .map(|i| {
                    if inside(&i) {
                        values[flat(&[i[0] - 1, i[1] + 1, i[2] - 2], &dims)]
                    } else {
                        7.0
                    }
                })
                .collect();
            assert_same(&read(&pad), &expected, "pad");
            for dim in 0..3 {
                let cat = go(&Op::Cat(Cat { dim }), &[x.clone(), x.clone()]);
                let expected: Vec<f64> = (0..120)
                    .map(|i| index_of(i, cat.shape()))
                    .map(|mut i| {
                        i[dim] %= dims[dim];
                        values[flat(&i, &dims)]
                    })
                    .collect();
                assert_same(&read(&cat), &expected, "cat");
                let assign = Op::SliceAssign(SliceAssign {
                    dim,
                    start: -2,
                    end: isize::MAX,
                    step: 1,
                });
                check_assign(&assign, &x, dim, &dims, &values, |i, n| i + 2 >= n);
                let assign = Op::SliceAssign(SliceAssign {
                    dim,
                    start: 0,
                    end: isize::MAX,
                    step: 2,
                });
                check_assign(&assign, &x, dim, &dims, &values, |i, _| i % 2 == 0);
            }
        }
    }
}

fn check_assign(
    op: &Op,
    x: &Arg,
    dim: usize,
    dims: &[usize],
    values: &[f64],
    hit: impl Fn(usize, usize) -> bool,
) {
    let got = go(op, &[x.clone(), Arg::Array(of(DType::U8, &[1], &[9.0]))]);
    let expected: Vec<f64> = (0..values.len())
        .map(|i| {
            if hit(index_of(i, dims)[dim], dims[dim]) {
                9.0
            } else {
                values[i]
            }
        })
        .collect();
    assert_same(&read(&got), &expected, "slice_assign");
}

#[test]
fn cat_of_columns_and_nothing() {
    let (a, b) = (
        of(DType::I32, &[3, 1], &[1.0, 2.0, 3.0]),
        of(DType::F32, &[3, 1], &[4.0, 5.0, 6.0]),
    );
    let none = of(DType::F32, &[3, 0], &[]);
    let got = go(
        &Op::Cat(Cat { dim: 1 }),
        &[of_array(&a), of_array(&none), of_array(&b)],
    );
    assert_eq!(
        (read(&got), got.dtype),
        (vec![1.0, 4.0, 2.0, 5.0, 3.0, 6.0], DType::F32)
    );
}

/// Parts of a few columns are written side by side, whatever they lie behind, with any number of threads.
#[test]
fn cat_of_many_narrow_parts() {
    let rows = 5000;
    for dtype in [DType::F64, DType::F32, DType::BF16, DType::U8, DType::Bool] {
        let widths = [1, 2, 1, 3, 5, 0, 1, 13, 1];
        let drawn: Vec<Vec<f64>> = (0..)
            .zip(widths)
            .map(|(i, w)| small(dtype, rows * w, i))
            .collect();
        let all: usize = widths.iter().sum();
        let mut expected = Vec::with_capacity(rows * all);
        for row in 0..rows {
            for (part, w) in drawn.iter().zip(widths) {
                expected.extend(&part[row * w..][..w]);
            }
        }
        let of_parts = drawn.iter().zip(widths).enumerate();
        let parts = of_parts.map(|(i, (part, w))| {
            let forms = forms(dtype, &[rows, w], part);
            of_array(&forms[i % forms.len()])
        });
        let parts: Vec<Arg> = parts.collect();
        let op = Op::Cat(Cat { dim: 1 });
        for threads in [1, 4] {
            let got = with_threads(threads, || go(&op, &parts));
            assert_same(&read(&got), &expected, dtype.name());
        }
    }
}

#[test]
fn views_share_memory() {
    let x = of(DType::F32, &[2, 3], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let got = go(&Op::Permute(Permute(smallvec![1, 0])), &[of_array(&x)]);
    assert!(got.buffer.same(&x.buffer));
    assert_eq!(read(&got), [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    let expand = Op::Expand(Expand(smallvec![
        Extent::Size(2),
        Extent::Auto,
        Extent::Auto
    ]));
    let sum = go(
        &Op::Binary(F),
        &[
            Arg::Array(go(&expand, &[of_array(&x)])),
            Arg::Scalar(Scalar::Int(1)),
        ],
    );
    assert_eq!(read(&sum)[6..], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(contiguous(&x).expect("memory").buffer.same(&x.buffer));
}

#[test]
fn created() {
    for dtype in DType::ALL {
        let full = go(
            &Op::Full(Full {
                shape: Shape::from([3, 2]),
                dtype,
            }),
            &[Arg::Scalar(Scalar::Float(1.0))],
        );
        assert_eq!(read(&full), [1.0; 6]);
        let full = go(
            &Op::Full(Full {
                shape: Shape::from([70_000]),
                dtype,
            }),
            &[Arg::Scalar(Scalar::Int(1))],
        );
        assert!(read(&full).iter().all(|&v| v == 1.0));
    }
    let int = |a: i64, b: i64| [Arg::Scalar(Scalar::Int(a)), Arg::Scalar(Scalar::Int(b))];
    let op = Op::Arange(Arange {
        len: 4,
        dtype: DType::I64,
    });
    assert_eq!(read(&go(&op, &int(5, -2))), [5.0, 3.0, 1.0, -1.0]);
    let op = Op::Arange(Arange {
        len: 50_001,
        dtype: DType::F32,
    });
    let got = read(&go(
        &op,
        &[
            Arg::Scalar(Scalar::Float(0.5)),
            Arg::Scalar(Scalar::Float(0.1)),
        ],
    ));
    assert!(
        got.iter()
            .enumerate()
            .all(|(i, &v)| v == (0.5 + i as f64 * 0.1) as f32 as f64)
    );
    let shape = Shape::from([7, 300, 11]);
    for dim in 0..3 {
        let got = read(&go(
            &Op::Iota(Iota {
                shape: shape.clone(),
                dim,
            }),
            &[],
        ));
        assert!(
            got.iter()
                .enumerate()
                .all(|(i, &v)| v == index_of(i, &shape)[dim] as f64)
        );
    }
    assert!(
        read(&go(
            &Op::Full(Full {
                shape: Shape::from([0, 3]),
                dtype: DType::F16
            }),
            &int(1, 1)[..1]
        ))
        .is_empty()
    );
}

#[test]
fn random_elements_depend_on_their_index_alone() {
    use crate::support::philox;
    let (key, offset) = (0x1234_5678_9abc_def0u64, 77u64);
    let n = 70_001;
    let draw = |dist: Distribution, dtype: DType, more: &[Scalar]| {
        let mut args = vec![
            Arg::Scalar(Scalar::Int(key as i64)),
            Arg::Scalar(Scalar::Int(offset as i64)),
        ];
        args.extend(more.iter().map(|&s| Arg::Scalar(s)));
        let op = Op::Random(Random {
            dist,
            shape: Shape::from([n]),
            dtype,
        });
        let one = with_threads(1, || read(&go(&op, &args)));
        assert_same(&with_threads(3, || read(&go(&op, &args))), &one, "threads");
        one
    };
    let check = |got: Vec<f64>, f: &dyn Fn(u64) -> f64| {
        assert!(got.iter().enumerate().all(|(i, &v)| v == f(i as u64)));
    };
    check(draw(Distribution::Uniform, DType::F32, &[]), &|i| {
        philox::uniform_f32(key, offset, i) as f64
    });
    check(draw(Distribution::Uniform, DType::F64, &[]), &|i| {
        philox::uniform_f64(key, offset, i)
    });
    check(draw(Distribution::Uniform, DType::F16, &[]), &|i| {
        philox::uniform_f16(key, offset, i) as f64
    });
    check(draw(Distribution::Uniform, DType::BF16, &[]), &|i| {
        philox::uniform_bf16(key, offset, i) as f64
    });
    check(draw(Distribution::Normal, DType::F32, &[]), &|i| {
        philox::normal_f32(key, offset, i) as f64
    });
    check(draw(Distribution::Normal, DType::F64, &[]), &|i| {
        philox::normal_f64(key, offset, i)
    });
    let half = |i| half::f16::from_f32(philox::normal_f32(key, offset, i)).to_f64();
    check(draw(Distribution::Normal, DType::F16, &[]), &half);
    let ints = [Scalar::Int(-7), Scalar::Int(12)];
    check(draw(Distribution::Int, DType::I32, &ints), &|i| {
        philox::randint(key, offset, i, -7, 19) as f64
    });
    let wide = [Scalar::Int(i64::MIN), Scalar::Int(i64::MAX)];
    let range = i64::MAX.wrapping_sub(i64::MIN) as u64;
    check(draw(Distribution::Int, DType::I64, &wide), &|i| {
        philox::randint(key, offset, i, i64::MIN, range) as f64
    });
    let p = [Scalar::Float(0.3)];
    check(draw(Distribution::Bernoulli, DType::Bool, &p), &|i| {
        philox::bernoulli(key, offset, i, 0.3) as u8 as f64
    });
    check(draw(Distribution::Bits, DType::I64, &[]), &|i| {
        philox::bits63(key, offset, i) as f64
    });
}

#[test]
fn a_cast_to_its_own_dtype_makes_a_copy_dense() {
    let x = crate::cpu::fixture::strided(DType::F32, &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    assert!(!x.layout.is_contiguous());
    let args = [Arg::Array(x.clone())];
    let out = Op::Cast(Cast(DType::F32))
        .run(&args, x.shape(), DType::F32)
        .expect("memory");
    assert!(out.layout.is_contiguous());
    assert_eq!(
        crate::cpu::fixture::read(&out),
        crate::cpu::fixture::read(&x)
    );
}
