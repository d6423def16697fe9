//! What an operation refuses, it refuses where it is called, in both modes with the same words, under the name that the
//! program called; indices out of range, which only running can find, are told alike as well.

use ferrotrace::DType::{self, *};
use ferrotrace::ErrorKind;
use ferrotrace::prelude::*;
use ferrotrace::{Generator, Interpolation, ReduceOp};

fn cpu() -> Device {
    Device::cpu()
}

fn ints(values: &[i64], dtype: DType) -> Tensor {
    with_mode(Mode::Eager, || {
        Tensor::from_slice(values, values.len(), &cpu()).to_dtype(dtype)
    })
}

/// 0 .. n of a dtype.
fn filled(dims: &[usize], dtype: DType) -> Tensor {
    let n: usize = dims.iter().product();
    let values: Vec<i64> = (0..n as i64).map(|i| i % 5).collect();
    with_mode(Mode::Eager, || ints(&values, dtype).reshape(dims))
}

/// The error of a call when recorded, and when computed.
type Told = (Option<Error>, Option<Error>);

fn told(mode: Mode, call: &dyn Fn() -> Tensor) -> Told {
    with_mode(mode, || {
        let result = call();
        (result.error(), result.eval().err())
    })
}

/// What an error says.
fn text(error: &Option<Error>) -> Option<String> {
    error.as_ref().map(Error::to_string)
}

/// Whether both modes refuse a call, in the same words and under this name; what differs, if anything does.
fn alike(name: &str, call: &dyn Fn() -> Tensor) -> Result<bool, String> {
    let (refused, failed) = told(Mode::Eager, call);
    let same = |a: &Option<Error>, b: &Option<Error>| match text(a) == text(b) {
        true => Ok(()),
        false => Err(format!("{:?} and {:?}", text(a), text(b))),
    };
    same(&refused, &failed)?;
    let Some(error) = &refused else {
        // Only recording is tested here: other tests compile what was recorded.
        let recorded = with_mode(Mode::Compiled, || call().error());
        return same(&recorded, &None).map(|()| false);
    };
    let (recorded, computed) = told(Mode::Compiled, call);
    same(&computed, &refused)?;
    if !matches!(error.kind(), ErrorKind::Index { .. }) {
        same(&recorded, &refused)?;
    }
    let words = error.to_string();
    match words.starts_with(&format!("{name}: ")) && words.contains(file!()) {
        true => Ok(true),
        false => Err(words),
    }
}

/// A method's name and a call of it on tensors of a dtype.
type Call = (&'static str, fn(&Tensor, DType) -> Tensor);

macro_rules! unary_calls {
    ($($name:ident)*) => {vec![$((stringify!($name), |x, _| x.$name())),*]};
}

macro_rules! binary_calls {
    ($($name:ident)*) => {vec![$((stringify!($name), |x, _| x.$name(x))),*]};
}

macro_rules! reduction_calls {
    ($($name:ident)*) => {vec![$((stringify!($name), |x, _| x.$name(1))),*]};
}

/// Calls on `x` of shape [2, 3].
#[allow(clippy::eq_op)]
fn calls() -> Vec<Call> {
    let unary: Vec<Call> = unary_calls! {
        abs neg sign exp exp2 expm1 log log2 log10 log1p sqrt rsqrt recip square sin cos tan asin acos atan sinh cosh tanh
        asinh acosh atanh erf erfc floor ceil round trunc frac isnan isinf isfinite logical_not bitwise_not relu sigmoid
        gelu gelu_tanh silu mish softplus softsign hardtanh hardswish hardsigmoid logsigmoid relu6 selu nonzero
        rand_like randn_like zeros_like ones_like contiguous
    };
    let binary: Vec<Call> = binary_calls! {
        maximum minimum atan2 fmod remainder floor_divide eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and
        bitwise_or bitwise_xor shl shr pow mse_loss kl_div binary_cross_entropy_with_logits masked_select
    };
    let reductions: Vec<Call> = reduction_calls! {
        sum mean prod max min any all argmax argmin logsumexp count_nonzero softmax log_softmax cumsum cumprod logcumsumexp
    };
    let others: Vec<Call> = vec![
        ("add", |x, _| x + x),
        ("sub", |x, _| x - x),
        ("mul", |x, _| x * x),
        ("div", |x, _| x / x),
        ("remainder", |x, _| x % x),
        ("matmul", |x, _| x.matmul(&x.t())),
        ("linear", |x, _| x.linear(x, None)),
        ("einsum", |x, _| Tensor::einsum("ij,kj->ik", &[x, x])),
        ("einsum", |x, _| Tensor::einsum("ij->", &[x])),
        ("var", |x, _| x.var(1, 1)),
        ("std", |x, _| x.std(1, 1)),
        ("norm", |x, _| x.norm(2.0, 1)),
        ("clamp", |x, _| x.clamp(0, 1)),
        ("clamp", |x, _| x.clamp(0.5, 1.0)),
        ("clamp_min", |x, _| x.clamp_min(0.5)),
        ("nan_to_num", |x, _| x.nan_to_num(0.0, 1.0, 2.0)),
        ("lerp", |x, _| x.lerp(x, 0.5)),
        ("addcmul", |x, _| x.addcmul(x, x, 2)),
        ("addcmul", |x, _| x.addcmul(x, x, 0.5)),
        ("addcdiv", |x, _| x.addcdiv(x, x, 1)),
        ("where_cond", |x, _| x.where_cond(x, x)),
        ("masked_fill", |x, _| x.masked_fill(x, 1)),
        ("leaky_relu", |x, _| x.leaky_relu(0.1)),
        ("elu", |x, _| x.elu(1.0)),
        ("celu", |x, _| x.celu(1.0)),
        ("layer_norm", |x, _| x.layer_norm(1, None, None, 1e-5)),
        ("rms_norm", |x, _| x.rms_norm(1, None, 1e-5)),
        ("group_norm", |x, _| x.group_norm(3, None, None, 1e-5)),
        ("dropout", |x, _| x.dropout(0.5)),
        ("sort", |x, _| x.sort(1, false).0),
        ("sort", |x, _| x.sort(1, false).1),
        ("topk", |x, _| x.topk(1, 1, true).0),
        ("topk", |x, _| x.topk(9, 1, true).0),
        ("cummax", |x, _| x.cummax(1).1),
        ("max_with_index", |x, _| x.max_with_index(1).0),
        ("one_hot", |x, _| x.one_hot(5)),
        ("one_hot", |x, _| x.one_hot(2)),
        ("gather", |x, _| x.gather(1, x)),
        ("index_select", |x, _| x.index_select(1, &x.flatten(0, -1))),
        ("embedding", |x, _| x.embedding(x)),
        ("index", |x, _| x.index(&[None, Some(x)])),
        ("scatter", |x, _| x.scatter(1, x, x)),
        ("scatter_add", |x, d| {
            x.scatter_add(1, &filled(&[2, 3], I64).clamp_max(2), &filled(&[2, 3], d))
        }),
        ("scatter_reduce", |x, _| {
            x.scatter_reduce(1, x, x, ReduceOp::Mean, true)
        }),
        ("scatter_reduce", |x, _| {
            x.scatter_reduce(
                1,
                &ints(&[0, 1, 2], I64).expand([2, 3]),
                x,
                ReduceOp::Mean,
                true,
            )
        }),
        ("scatter_add", |x, _| {
            x.scatter_add(
                1,
                &ints(&[0, 1, 2], I64).expand([2, 3]),
                &filled(&[2, 3], F32),
            )
        }),
        ("index_put", |x, _| {
            x.index_put(&[Some(&ints(&[0], I64))], &filled(&[3], I64), false)
        }),
        ("slice_assign", |x, _| {
            x.slice_assign(1, 0, 1, 1, &filled(&[2, 1], F64))
        }),
        ("pad", |x, _| x.pad(&[(1, 1), (0, 0)], 300)),
        ("tril", |x, _| x.tril(0)),
        ("roll", |x, _| x.roll(1, 1)),
        ("repeat", |x, _| x.repeat(&[2, 2])),
        ("cat", |x, _| Tensor::cat(&[x, &filled(&[2, 3], F32)], 0)),
        ("stack", |x, _| {
            Tensor::stack(&[x, &filled(&[2, 3], F32)], 0)
        }),
        ("interpolate", |x, _| {
            x.unsqueeze(0)
                .interpolate([4, 4], Interpolation::Nearest, false)
        }),
        ("interpolate", |x, _| {
            x.unsqueeze(0)
                .interpolate([4, 4], Interpolation::Bilinear, false)
        }),
        ("interpolate", |x, _| {
            x.unsqueeze(0)
                .interpolate([4, 4], Interpolation::Bicubic, true)
        }),
        ("max_pool2d", |x, _| x.unsqueeze(0).max_pool2d(2, 1, 0)),
        ("avg_pool2d", |x, _| x.unsqueeze(0).avg_pool2d(2, 1, 0)),
        ("adaptive_avg_pool2d", |x, _| {
            x.unsqueeze(0).adaptive_avg_pool2d([1, 1])
        }),
        ("conv1d", |x, _| x.conv1d(&x.unsqueeze(2), None, 1, 0, 1, 1)),
        ("conv1d", |x, _| {
            x.t()
                .conv1d(&x.narrow(0, 0, 1).unsqueeze(2), None, 1, 0, 1, 1)
        }),
        ("smooth_l1_loss", |x, _| x.smooth_l1_loss(x, 1.0)),
        ("nll_loss", |x, _| x.nll_loss(&ints(&[0, 2], I64))),
        ("nll_loss", |x, _| x.nll_loss(&ints(&[0, 3], I64))),
        ("nll_loss", |x, _| x.nll_loss(&ints(&[-1, 0], I32))),
        ("nll_loss", |x, _| {
            filled(&[2, 3], F32).nll_loss(&x.select(1, 0))
        }),
        ("cross_entropy", |x, _| {
            x.cross_entropy(&ints(&[2, -100], I64))
        }),
        ("cross_entropy", |x, _| {
            x.cross_entropy(&ints(&[2, -1], I64))
        }),
        ("cross_entropy", |x, _| {
            x.cross_entropy(&ints(&[-3, -1], I8))
        }),
        ("cross_entropy", |x, _| x.cross_entropy(&ints(&[2, 3], U8))),
        ("cross_entropy", |x, _| x.cross_entropy(x)),
        ("scaled_dot_product_attention", |x, _| {
            let x = x.unsqueeze(0).unsqueeze(0);
            Tensor::scaled_dot_product_attention(&x, &x, &x, None, false, None)
        }),
        ("full", |_, d| Tensor::full(2, 300, d, &cpu())),
        ("full", |_, d| Tensor::full(2, -0.5, d, &cpu())),
        ("full_like", |x, _| x.full_like(1e39)),
        ("scalar", |_, d| Tensor::scalar(f64::NAN, d, &cpu())),
        ("arange", |_, d| Tensor::arange(0, 3.5, 1, d, &cpu())),
        ("linspace", |_, d| Tensor::linspace(-2.5, 3, 4, d, &cpu())),
        ("randint", |_, d| Tensor::randint(-200, 200, 4, d, &cpu())),
        ("rand", |_, d| Generator::new(1).rand(4, d, &cpu())),
        ("randn", |_, d| Generator::new(1).randn(4, d, &cpu())),
        ("bernoulli", |_, d| {
            Generator::new(1).bernoulli(0.5, 4, d, &cpu())
        }),
        ("to_dtype", |x, _| x.to_dtype(F16)),
        ("masked_fill", |x, _| x.masked_fill(&x.gt(1), 70_000)),
        ("where_cond", |x, _| x.gt(1).where_cond(x, 300)),
        ("pow", |x, _| x.pow(300)),
        ("pow", |x, _| x.pow(-1)),
        ("clamp_min", |x, _| x.clamp_min(300)),
        ("clamp_max", |x, _| x.clamp_max(-200)),
    ];
    [unary, binary, reductions, others].concat()
}

#[test]
fn both_modes_refuse_the_same_in_the_same_words() {
    let (mut refused, mut taken, mut different) = (0, 0, Vec::new());
    for dtype in DType::ALL {
        for (name, call) in calls() {
            let x = filled(&[2, 3], dtype);
            match alike(name, &|| call(&x, dtype)) {
                Ok(true) => refused += 1,
                Ok(false) => taken += 1,
                Err(why) => different.push(format!("{name} of {dtype}: {why}")),
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
    // Both happen: the test compares something.
    assert!(
        refused > 200 && taken > 500,
        "{refused} refused, {taken} not"
    );
}

#[test]
fn zero_dimensions_and_none_are_refused_alike() {
    for dims in [&[][..], &[0], &[2, 0]] {
        for dtype in [F32, I64, Bool] {
            for (name, call) in calls() {
                let x = filled(dims, dtype);
                let of = format!("{name} of {dtype}{dims:?}");
                let (refused, failed) = told(Mode::Eager, &|| call(&x, dtype));
                assert_eq!(text(&refused), text(&failed), "{of}");
                if !matches!(
                    refused.as_ref().map(Error::kind),
                    Some(ErrorKind::Index { .. })
                ) {
                    let recorded = with_mode(Mode::Compiled, || call(&x, dtype).error());
                    assert_eq!(text(&recorded), text(&refused), "{of}");
                }
            }
        }
    }
}

/// The index, dimension and size of an error.
fn index_of(result: &Tensor) -> (i64, usize, usize) {
    match *result.eval().expect_err("out of range").kind() {
        ErrorKind::Index { index, dim, size } => (index, dim, size),
        ref other => panic!("{other}"),
    }
}

#[test]
fn indices_out_of_range_are_told_as_they_were_given() {
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let x = filled(&[2, 3], F32);
            for dtype in [I64, I32, I8] {
                for class in [-1, -3, -4, 3, 100, -99, -101] {
                    let t = ints(&[0, class], dtype);
                    assert_eq!(index_of(&x.cross_entropy(&t)), (class, 1, 3), "{class}");
                    assert_eq!(index_of(&x.nll_loss(&t)), (class, 1, 3), "{class}");
                    assert_eq!(index_of(&t.one_hot(3)).0, class);
                }
            }
            let at = ints(&[0, 7], I64);
            assert_eq!(index_of(&x.index_select(1, &at)), (7, 1, 3));
            let jitted = jit(move |(x, t): (&Tensor, &Tensor)| x.cross_entropy(t) + 1.0);
            for _ in 0..2 {
                let bad = jitted.call((&x, &ints(&[-2, 0], I64)));
                assert_eq!(index_of(&bad), (-2, 1, 3));
                assert!(
                    bad.error()
                        .is_some_and(|e| e.to_string().starts_with("cross_entropy: "))
                );
            }
        });
    }
}

/// A call upon numbers `[4, 6]` and indices `[4, 2]`.
type Indexed = (&'static str, fn(&Tensor, &Tensor) -> Tensor);

/// Calls that take indices, by the name that is called, all of them on the line where this stands.
macro_rules! indexed_calls {
    () => {{
        let calls: Vec<Indexed> = vec![
            ("gather", |x, at| x.gather(1, at)),
            ("take_along_dim", |x, at| x.take_along_dim(at, 1)),
            ("take_along_dim", |x, at| {
                x.take_along_dim(&at.narrow(0, 1, 1), 1)
            }),
            ("index_select", |x, at| x.index_select(1, &at.select(1, 0))),
            ("index", |x, at| x.index(&[None, Some(&at.select(1, 0))])),
            ("embedding", |x, at| x.t().embedding(at)),
            ("take", |x, at| x.select(0, 1).take(at)),
            ("put", |x, at| {
                x.select(0, 1).put(&at.select(1, 0), &x.select(1, 0), false)
            }),
            ("index_copy", |x, at| {
                x.index_copy(1, &at.select(1, 0), &x.narrow(1, 1, 4))
            }),
            ("index_fill", |x, at| x.index_fill(1, &at.select(1, 0), 7.0)),
            ("index_reduce", |x, at| {
                let (at, src) = (at.select(1, 0), x.narrow(1, 1, 4));
                x.index_reduce(1, &at, &src, ReduceOp::Amax, true)
            }),
            ("one_hot", |_, at| at.one_hot(6)),
            ("cross_entropy", |x, at| x.cross_entropy(&at.select(1, 0))),
            ("nll_loss", |x, at| x.nll_loss(&at.select(1, 0))),
            ("cross_entropy", |x, at| {
                x.cross_entropy_reduced(&at.select(1, 0), Reduction::Sum)
            }),
            ("nll_loss", |x, at| {
                x.nll_loss_reduced(&at.select(1, 0), Reduction::None)
            }),
            ("index_add", |x, at| {
                x.index_add(1, &at.select(1, 0), &x.narrow(1, 1, 4))
            }),
            ("index_put", |x, at| {
                x.index_put(&[None, Some(&at.select(1, 0))], &x.narrow(1, 1, 4), true)
            }),
            ("scatter", |x, at| x.scatter(1, at, &x.narrow(1, 1, 2))),
            ("scatter_add", |x, at| {
                x.scatter_add(1, at, &x.narrow(1, 1, 2))
            }),
            ("scatter_reduce", |x, at| {
                x.scatter_reduce(1, at, &x.narrow(1, 1, 2), ReduceOp::Mean, true)
            }),
        ];
        (calls, line!())
    }};
}

#[track_caller]
fn told_of(result: &Tensor, name: &str, line: u32) {
    let error = result.eval().expect_err("out of range");
    let context = error.context().expect("it names the operation");
    assert!(
        matches!(error.kind(), ErrorKind::Index { index: 9, .. }),
        "{error}"
    );
    assert_eq!(context.op, name, "{error}");
    assert_eq!(
        context.location.map(|at| at.line()),
        Some(line),
        "{name}: {error}"
    );
}

/// Whatever made the plan: another line, another method that records the same, or a compiled function.
#[test]
fn bad_indices_are_told_with_the_name_and_the_line_of_their_call() {
    let x = filled(&[4, 6], F32);
    let good = ints(&[0, 1, 2, 3, 4, 5, 0, 1], I64).reshape([4, 2]);
    let bad = ints(&[0, 1, 9, 3, 4, 5, 0, 1], I64).reshape([4, 2]);
    for mode in [Mode::Compiled, Mode::Eager, Mode::Tiered] {
        with_mode(mode, || {
            let (here, first) = indexed_calls!();
            let (there, second) = indexed_calls!();
            for ((name, here), (_, there)) in here.into_iter().zip(there) {
                // The plan is made here.
                let fine = here(&x, &good);
                assert_eq!(fine.eval().err().map(|e| e.to_string()), None, "{name}");
                told_of(&there(&x, &bad), name, second);
                told_of(&here(&x, &bad), name, first);
                told_of(&(there(&x, &bad) * 2), name, second);
                told_of(&(here(&x, &bad) * 2), name, first);
                let jitted =
                    [here, there].map(|f| jit(move |(x, at): (&Tensor, &Tensor)| f(x, at)));
                for (function, line) in jitted.iter().zip([first, second]) {
                    assert!(function.call((&x, &good)).eval().is_ok(), "{name}");
                    told_of(&function.call((&x, &bad)), name, line);
                }
            }
        });
    }
}

/// Answers that are errors name the question, the tensor and the line that asked, in `Debug` as in `Display`: `unwrap` and a
/// `main` that returns an error show `Debug`.
#[test]
fn answers_that_are_errors_name_their_line() {
    type Asks = (&'static str, fn(&Tensor) -> Option<Error>);
    let questions: [Asks; 8] = [
        ("to_vec", |x| x.to_vec::<f32>().err()),
        ("to_scalar", |x| x.to_scalar::<i64>().err()),
        ("item", |x| x.item::<f64>().err()),
        ("to_ndarray", |x| x.to_ndarray::<f64>().err()),
        ("dim", |x| x.dim(2).err()),
        ("dims3", |x| x.dims3().err()),
        ("allclose", |x| {
            x.allclose(&x.narrow(0, 0, 1).t(), 0.0, 0.0).err()
        }),
        ("allclose_equal_nan", |x| {
            x.allclose_equal_nan(&x.narrow(0, 0, 1).t(), 0.0, 0.0).err()
        }),
    ];
    let x = filled(&[3, 2], I64);
    for (name, ask) in questions {
        let error = ask(&x).expect("no answer");
        let text = error.to_string();
        assert!(text.starts_with(&format!("{name}: ")), "{text}");
        let at = format!(", at {}:", file!());
        assert!(text.contains("i64[3, 2]") && text.contains(&at), "{text}");
        assert_eq!(format!("{error:?}"), text);
    }
}
