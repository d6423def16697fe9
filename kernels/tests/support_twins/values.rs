//! Conversions, selections, sums over lanes and random numbers.

use super::harness::*;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_kernels::support::cast::{Cast, cast};
use ferrotrace_kernels::support::{maximum, minimum, need, philox, tree};
use ferrotrace_runtime::DType;
use half::{bf16, f16};

#[test]
fn casts() {
    fn one<A: Bits + Cast<B>, B: Bits>(libraries: &[Library], x: &[A]) {
        let want: Vec<B> = x.iter().map(|x| cast::<A, B>(*x)).collect();
        for library in libraries {
            let got: Vec<B> = library.run(&format!("{}_{}", A::DTYPE, B::DTYPE), x, x);
            compare(
                &format!("cast to {} {:?}", B::DTYPE, library.setup),
                x,
                x,
                &want,
                &got,
            );
        }
    }
    let source = |dtypes: &[DType], lanes| {
        let mut source = Source::default();
        for &from in dtypes {
            for &to in dtypes {
                let f = need(&format!("ft_cast_{from}_{to}"), lanes);
                source.needs.insert(f);
                source.pointwise(
                    lanes,
                    &format!("{from}_{to}"),
                    &[from],
                    to,
                    &format!("{}x{lanes}(a)", f.name),
                );
            }
        }
        source
    };
    macro_rules! each {
        ($libraries:expr, $($a:ty)*; $b:tt) => {$({
            let x = samples::<$a>(20_003, 3);
            each!(@to $libraries, $a, &x, $b);
        })*};
        (@to $libraries:expr, $a:ty, $x:expr, [$($b:ty)*]) => {$( one::<$a, $b>(&$libraries, $x); )*};
    }
    let all = libraries(|lanes| source(&DType::ALL, lanes));
    each!(all, u8 i8 i16 i32 i64 bool f16 bf16 f32 f64; [u8 i8 i16 i32 i64 bool f16 bf16 f32 f64]);
    // Vectors whose lanes all fit into 32 bits, and some with one lane that does not.
    let fits: Vec<f64> = (0..4096)
        .map(|i| (f64::from(i * 7919 % 4001) - 2000.0) * 1_073_000.25)
        .chain([2147483647.9, -2147483648.0, -2147483648.9, 2147483648.0])
        .chain((0..60).map(|i| -2147483647.0 + f64::from(i)))
        .collect();
    let single: Vec<f32> = fits.iter().map(|&x| x as f32).collect();
    one::<f64, i64>(&all, &fits);
    one::<f32, i64>(&all, &single);
    let bytes = libraries_of(1, |lanes| {
        source(&[DType::U8, DType::I8, DType::Bool], lanes)
    });
    each!(bytes, u8 i8 bool; [u8 i8 bool]);
    let narrow = [DType::U8, DType::I8, DType::Bool, DType::I16];
    let words = libraries_of(2, |lanes| source(&narrow, lanes));
    each!(words, u8 i8 i16 bool; [u8 i8 i16 bool]);
}

#[test]
fn half_types_round_as_the_half_crate_does() {
    use ferrotrace_kernels::support::cast::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
    for i in 0..=u16::MAX {
        assert_eq!(
            f16_to_f32(f16::from_bits(i)).bits(),
            f16::from_bits(i).to_f32().bits()
        );
        assert_eq!(
            bf16_to_f32(bf16::from_bits(i)).bits(),
            bf16::from_bits(i).to_f32().bits()
        );
    }
    for i in (0..=u32::MAX).step_by(1021) {
        let x = f32::from_bits(i);
        assert_eq!(f32_to_f16(x).bits(), f16::from_f32(x).bits(), "{x:e}");
        assert_eq!(f32_to_bf16(x).bits(), bf16::from_f32(x).bits(), "{x:e}");
    }
}

/// The better of two elements of eight bytes by a mask as wide: NaN over all, of the one held.
#[test]
fn better_elements_of_eight_bytes() {
    fn check<T: Bits + PartialOrd>(all: &[Setup]) {
        for setup in all.iter().filter(|s| s.lanes * 8 <= 64) {
            let (d, lanes) = (T::DTYPE, setup.lanes);
            let mut source = Source::default();
            let pick = need(&format!("ft_pick_{d}"), lanes);
            for stem in ["above", "below"] {
                let better = need(&format!("ft_{stem}_{d}"), lanes);
                source.needs.extend([better, pick]);
                let name = |n: &str| format!("{n}x{lanes}");
                let text = format!("{}({}(a, b), a, b)", name(pick.name), name(better.name));
                source.pointwise(lanes, stem, &[d, d], d, &text);
            }
            let library = source.compile(*setup);
            let (x, y) = (samples::<T>(8000, 9), samples::<T>(8000, 11));
            for (stem, worse) in [
                ("above", (|x, y| x <= y) as fn(&T, &T) -> bool),
                ("below", |x, y| x >= y),
            ] {
                let got: Vec<T> = library.run(stem, &x, &y);
                let is_nan = |x: &T| x.partial_cmp(x).is_none();
                let better = |(x, y): (&T, &T)| match worse(x, y) || is_nan(y) {
                    true => *y,
                    false => *x,
                };
                let want: Vec<T> = x.iter().zip(&y).map(better).collect();
                compare(&format!("{stem} {setup:?}"), &x, &y, &want, &got);
            }
        }
    }
    let all = setups();
    check::<f64>(&all);
    check::<i64>(&all);
}

#[test]
fn selections_and_lane_sums() {
    fn check<
        T: Bits + std::ops::Add<Output = T> + std::ops::Mul<Output = T> + PartialOrd,
        const W: usize,
    >(
        add: fn(T, T) -> T,
        mul: fn(T, T) -> T,
        all: &[Setup],
    ) {
        for setup in all.iter().filter(|s| s.lanes == W) {
            let lanes = W;
            let mut source = Source::default();
            let d = T::DTYPE;
            let sel = need(&format!("ft_sel_{d}"), lanes);
            let less = BinaryOp::Lt.c_expr(d, lanes, &["a", "b"], &mut source.needs);
            source.needs.insert(sel);
            source.pointwise(
                lanes,
                "sel",
                &[d, d],
                d,
                &format!("{}x{lanes}({less}, a, b)", sel.name),
            );
            for kind in ["sum", "prod", "max", "min"] {
                let f = need(&format!("ft_h{kind}_{d}"), lanes);
                let set = need(&format!("ft_set_{d}"), lanes);
                source.needs.extend([f, set]);
                let e = format!("{}x{lanes}({}x{lanes}(a))", set.name, f.name);
                source.pointwise(lanes, kind, &[d], d, &e);
            }
            let library = source.compile(*setup);
            let x = samples::<T>(W * 2000, 9);
            let y = samples::<T>(W * 2000, 11);
            let got: Vec<T> = library.run("sel", &x, &y);
            let want: Vec<T> = x
                .iter()
                .zip(&y)
                .map(|(x, y)| if x < y { *x } else { *y })
                .collect();
            compare(&format!("sel {setup:?}"), &x, &y, &want, &got);
            let folds: [(&str, fn(T, T) -> T); 4] = [
                ("sum", add),
                ("prod", mul),
                ("max", maximum),
                ("min", minimum),
            ];
            for (kind, f) in folds {
                let got: Vec<T> = library.run(kind, &x, &x);
                for (x, got) in x.as_chunks::<W>().0.iter().zip(got.as_chunks::<W>().0) {
                    let want = tree(*x, f);
                    assert_eq!(want.bits(), got[0].bits(), "{kind} {setup:?} {x:?}");
                }
            }
        }
    }
    let setups = setups();
    macro_rules! each {
        ($($w:literal)*) => {$(
            check::<f32, $w>(|a, b| a + b, |a, b| a * b, &setups);
            check::<f64, $w>(|a, b| a + b, |a, b| a * b, &setups);
            check::<i64, $w>(i64::wrapping_add, i64::wrapping_mul, &setups);
            check::<i32, $w>(i32::wrapping_add, i32::wrapping_mul, &setups);
            check::<i8, $w>(i8::wrapping_add, i8::wrapping_mul, &setups);
        )*};
    }
    each!(1 2 4 8 16);
    let mut setups = setups_of(1);
    setups.extend(setups_of(2));
    macro_rules! bytes {
        ($($t:ident $w:literal)*) => {$( check::<$t, $w>($t::wrapping_add, $t::wrapping_mul, &setups); )*};
    }
    bytes!(i8 32 i8 64 u8 32 u8 64 i16 32);
}

/// Names of cases, functions, and what they give.
const DRAWS: [(&str, &str, DType); 13] = [
    ("bits", "ft_bits63_i64", DType::I64),
    ("uniform_f32", "ft_uniform_f32", DType::F32),
    ("uniform_f64", "ft_uniform_f64", DType::F64),
    ("uniform_f16", "ft_uniform_f16", DType::F16),
    ("uniform_bf16", "ft_uniform_bf16", DType::BF16),
    ("normal_f32", "ft_normal_f32", DType::F32),
    ("normal_f64", "ft_normal_f64", DType::F64),
    ("randint", "ft_randint_i64", DType::I64),
    ("randint_wide", "ft_randint_i64", DType::I64),
    ("bernoulli", "ft_bernoulli_bool", DType::Bool),
    ("always", "ft_bernoulli_bool", DType::Bool),
    ("never", "ft_bernoulli_bool", DType::Bool),
    ("seldom", "ft_bernoulli_bool", DType::Bool),
];

/// Further arguments of a case.
fn arguments(name: &str) -> &'static str {
    match name {
        "randint" => ", -7, 1000UL",
        "randint_wide" => ", -7, 1UL << 40",
        "bernoulli" => ", 0.3",
        "always" => ", 1.0",
        "never" => ", 0.0",
        "seldom" => ", 1e-3",
        _ => "",
    }
}

/// Each case by a vector of numbers, of runs, and ahead.
fn draws(lanes: usize) -> Source {
    let mut source = Source::default();
    for (name, call, to) in DRAWS {
        source.needs.insert(need(call, lanes));
        let more = arguments(name);
        let drawn = |call: &str, index: &str| {
            format!("{call}x{lanes}(0x123456789abcdef1UL, 0xfffffff0UL, {index}{more})")
        };
        source.pointwise(lanes, name, &[DType::I64], to, &drawn(call, "a"));
        // Runs are drawn of vectors that are runs, which is decided for each.
        let run = call.replacen("ft_", "ft_run_", 1);
        let ahead = call.replacen("ft_", "ft_ahead_", 1);
        let follow = [
            need(&run, lanes),
            need(&ahead, lanes),
            need("ft_any_i64", lanes),
            need("ft_iota_i64", lanes),
        ];
        source.needs.extend(follow);
        let apart = format!("ft_any_i64x{lanes}(a - a[0] - ft_iota_i64x{lanes}())");
        let e = format!("{apart} ? {} : {}", drawn(call, "a"), drawn(&run, "a[0]"));
        source.pointwise(lanes, &format!("run_{name}"), &[DType::I64], to, &e);
        // Calls share an array, each thread's own.
        let more = format!("0x123456789abcdef1UL, 0xfffffff0UL, a[0]{more}");
        let e = format!(
            "{apart} ? {} : ({{ static __thread i64x{lanes} drawn[5]; {ahead}x{lanes}(drawn, {more}); }})",
            drawn(call, "a")
        );
        source.pointwise(lanes, &format!("ahead_{name}"), &[DType::I64], to, &e);
    }
    source
}

#[test]
fn random_numbers() {
    let libraries = libraries(draws);
    // Neighbours from the first element of a block on, from others on, and elements apart.
    let x: Vec<i64> = (0..20_003)
        .chain(1..5_000)
        .chain((0..5_000).map(|i| i * 3))
        .chain((0..5_000).rev())
        .collect();
    let (key, offset) = (0x123456789abcdef1, 0xfffffff0);
    fn one<B: Bits>(libraries: &[Library], name: &str, x: &[i64], f: impl Fn(u64) -> B) {
        let want: Vec<B> = x.iter().map(|i| f(*i as u64)).collect();
        for library in libraries {
            for name in [name, &format!("run_{name}"), &format!("ahead_{name}")] {
                let got: Vec<B> = library.run(name, x, x);
                compare(&format!("{name} {:?}", library.setup), x, x, &want, &got);
            }
        }
    }
    one(&libraries, "bits", &x, |i| philox::bits63(key, offset, i));
    one(&libraries, "uniform_f32", &x, |i| {
        philox::uniform_f32(key, offset, i)
    });
    one(&libraries, "uniform_f64", &x, |i| {
        philox::uniform_f64(key, offset, i)
    });
    one(&libraries, "uniform_f16", &x, |i| {
        f16::from_f32(philox::uniform_f16(key, offset, i))
    });
    one(&libraries, "uniform_bf16", &x, |i| {
        bf16::from_f32(philox::uniform_bf16(key, offset, i))
    });
    one(&libraries, "normal_f32", &x, |i| {
        philox::normal_f32(key, offset, i)
    });
    one(&libraries, "normal_f64", &x, |i| {
        philox::normal_f64(key, offset, i)
    });
    one(&libraries, "randint", &x, |i| {
        philox::randint(key, offset, i, -7, 1000)
    });
    one(&libraries, "randint_wide", &x, |i| {
        philox::randint(key, offset, i, -7, 1 << 40)
    });
    one(&libraries, "bernoulli", &x, |i| {
        philox::bernoulli(key, offset, i, 0.3)
    });
    for (name, p) in [("always", 1.0), ("never", 0.0), ("seldom", 1e-3)] {
        one(&libraries, name, &x, |i| {
            philox::bernoulli(key, offset, i, p)
        });
    }
}
