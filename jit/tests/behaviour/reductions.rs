//! Values of reductions: empty, tied, NaN, long, strided.

use super::{kernels, plan, read, run};
use crate::common::{Rng, dense, filled, noise, values, window};
use ferrotrace_jit::Plan;
use ferrotrace_runtime::DType;
use half::f16;

pub(super) fn reduce(
    name: &str,
    shape: &[usize],
    strides: &[isize],
    from: &str,
    to: &str,
) -> String {
    let dims: Vec<usize> = (0..shape.len()).collect();
    format!(
        "%0: {from}{shape:?} = input 0 {strides:?}
         %1: {to}[] = {name}(%0) {{dims: {dims:?}, keepdim: false}}
         return %1"
    )
}

// ir T1, codegen D T21
#[test]
fn reductions_of_nothing() {
    for (name, from, to, want) in [
        ("sum", "f32", "f32", 0.0),
        ("sum", "i32", "i64", 0.0),
        ("prod", "f32", "f32", 1.0),
        ("prod", "i8", "i64", 1.0),
        ("any", "f32", "bool", 0.0),
        ("all", "f32", "bool", 1.0),
        ("mean", "f32", "f32", f64::NAN),
    ] {
        let x = crate::common::buffer_of(&[], DType::from_name(from).expect("a dtype"));
        let layout = ferrotrace_runtime::Layout::contiguous([0].into());
        let x = ferrotrace_kernels::Array {
            buffer: x,
            layout,
            dtype: DType::from_name(from).expect("a dtype"),
        };
        let y = values(&run(&reduce(name, &[0], &[1], from, to), &[x], 0.0)[0])[0];
        assert!(
            y == want || (y.is_nan() && want.is_nan()),
            "{name} of {from}: {y}"
        );
    }
    for name in ["max", "min", "argmax", "argmin"] {
        assert!(
            reduce(name, &[0], &[1], "f32", "f32")
                .parse::<ferrotrace_jit::Graph>()
                .is_err()
        );
    }
    let rows = "
        %0: f32[0, 3] = input 0 [3, 1]
        %1: f32[0] = max(%0) {dims: [1], keepdim: false}
        return %1";
    assert_eq!(
        values(&run(rows, &[dense::<f32>(&[0, 3], &[])], 0.0)[0]),
        []
    );
}

// ir T2
#[test]
fn reductions_of_one_element_are_copies() {
    for name in ["sum", "prod", "max", "min", "mean"] {
        let text = format!(
            "%0: f32[5, 1] = input 0 [1, 1]
             %1: f32[5] = {name}(%0) {{dims: [1], keepdim: false}}
             return %1"
        );
        let x = dense::<f32>(&[5, 1], &[1.0, -2.0, f32::NAN, f32::INFINITY, 0.5]);
        run(&text, &[x], 0.0);
        assert!(
            !Plan::of(read(&text))
                .expect("it compiles")
                .explain()
                .sources()
                .iter()
                .any(|s| s.contains("a1_0"))
        );
    }
    let truth = "
        %0: f32[3, 1] = input 0 [1, 1]
        %1: bool[3] = any(%0) {dims: [1], keepdim: false}
        %2: i64[3] = argmax(%0) {dims: [1], keepdim: false}
        return %1 %2";
    let y = run(truth, &[dense::<f32>(&[3, 1], &[f32::NAN, 0.0, 2.0])], 0.0);
    assert_eq!(
        (values(&y[0]), values(&y[1])),
        (vec![1.0, 0.0, 1.0], vec![0.0; 3])
    );
}

// ir T4, codegen D T20
#[test]
fn ties_go_to_the_first_and_nan_wins() {
    let arg = |data: &[f32]| {
        let n = data.len();
        let text = format!(
            "%0: f32[{n}] = input 0 [1]
             %1: i64[] = argmax(%0) {{dims: [0], keepdim: false}}
             %2: i64[] = argmin(%0) {{dims: [0], keepdim: false}}
             return %1 %2"
        );
        let y = run(&text, &[dense(&[n], data)], 0.0);
        (values(&y[0])[0], values(&y[1])[0])
    };
    assert_eq!(arg(&[1.0, f32::NAN, 3.0, f32::NAN]), (1.0, 1.0));
    assert_eq!(arg(&[2.0, 5.0, 5.0, 2.0, 5.0]), (1.0, 0.0));
    assert_eq!(arg(&[f32::NEG_INFINITY; 40]), (0.0, 0.0));
    let mut long = vec![0.5f32; 1_000_000];
    long[700_000] = 2.0;
    long[700_001] = 2.0;
    long[300_000] = -2.0;
    assert_eq!(arg(&long), (700_000.0, 300_000.0));
    long[900_000] = f32::NAN;
    long[123_456] = f32::NAN;
    assert_eq!(arg(&long), (123_456.0, 123_456.0));
}

// codegen D T18, T24; ir T9
#[test]
fn sums_of_ones_are_their_count() {
    for n in [1usize, 7, 1009, 65_537, 1_000_003] {
        let x = filled::<f32>(&[n], |_| 1.0);
        assert_eq!(
            values(&run(&reduce("sum", &[n], &[1], "f32", "f32"), &[x], 0.0)[0]),
            [n as f64]
        );
        let x = filled::<i8>(&[n], |_| 1);
        assert_eq!(
            values(&run(&reduce("sum", &[n], &[1], "i8", "i64"), &[x], 0.0)[0]),
            [n as f64]
        );
    }
    let broadcast = "
        %0: f32[] = input 0 []
        %1: f32[1000] = expand(%0) {to: [1000]}
        %2: f32[] = sum(%1) {dims: [0], keepdim: false}
        return %2";
    assert_eq!(
        values(&run(broadcast, &[dense::<f32>(&[], &[3.0])], 0.0)[0]),
        [3000.0]
    );
    // Half-precision sums are accumulated in binary32.
    let n = 1 << 17;
    let x = filled::<f16>(&[n], |i| {
        f16::from_f32(if i < n / 2 { 64.0 } else { -64.0 })
    });
    assert_eq!(
        values(&run(&reduce("sum", &[n], &[1], "f16", "f16"), &[x], 0.0)[0]),
        [0.0]
    );
    let x = filled::<half::bf16>(&[100_000], |_| half::bf16::ONE);
    let y = values(&run(&reduce("sum", &[100_000], &[1], "bf16", "bf16"), &[x], 0.0)[0]);
    assert_eq!(y, [half::bf16::from_f32(100_000.0).to_f64()]);
}

// ir T13
#[test]
fn strided_inputs_reduce_over_every_set_of_dimensions() {
    let mut rng = Rng::new(11);
    for shape in [[3usize, 7, 5], [16, 33, 64]] {
        for mask in 1..8usize {
            let x = window(&mut rng, &shape, DType::F32, true, &mut |r| {
                r.uniform(-2.0, 2.0)
            });
            let dims: Vec<usize> = (0..3).filter(|d| mask >> d & 1 == 1).collect();
            let kept: Vec<usize> = (0..3)
                .filter(|d| mask >> d & 1 == 0)
                .map(|d| shape[d])
                .collect();
            let strides = x.layout.strides();
            let text = format!(
                "%0: f32{shape:?} = input 0 {strides:?}
                 %1: f32{shape:?} = mul(%0, 2.0)
                 %2: f32{kept:?} = sum(%1) {{dims: {dims:?}, keepdim: false}}
                 %3: f32{kept:?} = max(%1) {{dims: {dims:?}, keepdim: false}}
                 %4: i64{kept:?} = argmin(%1) {{dims: {dims:?}, keepdim: false}}
                 return %2 %3 %4"
            );
            run(&text, &[x], 0.02);
        }
    }
}

// ir T10
#[test]
fn the_variance_of_large_numbers_keeps_its_digits() {
    for n in [1 << 10, 1 << 20] {
        let x = filled::<f32>(&[n], |i| 1e6 + (i % 2) as f32);
        let text = format!(
            "%0: f32[{n}] = input 0 [1]
             %1: f32[] = var(%0) {{dims: [0], keepdim: false, correction: 0}}
             return %1"
        );
        let y = values(&run(&text, &[x], 1e-2)[0])[0];
        assert!((y - 0.25).abs() < 1e-3, "{y} for {n}");
    }
}

// ir S15: a split variance and its mean read memory once, whatever lies before them.
#[test]
fn split_variances_are_one_kernel() {
    let text = |shape: &str, strides: &str, dims: &str, result: &str| {
        format!(
            "%0: f32[{shape}] = input 0 [{strides}]
             %1: f32[{shape}] = mul(%0, 2.0)
             %2: f32[{shape}] = add(%1, 1.0)
             %3: f32[{result}] = var(%2) {{dims: [{dims}], keepdim: false, correction: 1}}
             %4: f32[{result}] = mean(%2) {{dims: [{dims}], keepdim: false}}
             return %3 %4"
        )
    };
    let dense = text("300, 1000", "1000, 1", "0, 1", "");
    assert_eq!(kernels(&dense), 1);
    run(&dense, &[noise(&[300, 1000], 5)], 1e-4);
    // Columns that are walked, of several rows, broadcast, flipped.
    let spread = text("300, 500", "1000, 2", "0, 1", "");
    assert_eq!(kernels(&spread), 1);
    let x = noise(&[300, 1000], 6);
    let half = |strides: [isize; 2], offset| {
        let layout = ferrotrace_runtime::Layout::new([300, 500].into(), strides[..].into(), offset);
        x.with_layout(layout)
    };
    run(&spread, &[half([1000, 2], 0)], 1e-4);
    let flipped = text("300, 500", "-1000, -1", "0, 1", "");
    run(&flipped, &[half([-1000, -1], 299_999)], 1e-4);
    let repeated = text("300, 500", "0, 1", "0, 1", "");
    run(&repeated, &[half([0, 1], 0)], 1e-4);
    let rows = text("3, 70001", "70001, 1", "1", "3");
    assert_eq!(kernels(&rows), 1);
    run(&rows, &[noise(&[3, 70001], 7)], 1e-4);
}

#[test]
fn split_variances_of_every_dtype() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let n = 100_000usize;
        let name = dtype.name();
        let text = format!(
            "%0: {name}[{n}] = input 0 [1]
             %1: {name}[] = var(%0) {{dims: [0], keepdim: false, correction: 0}}
             %2: {name}[] = std(%0) {{dims: [0], keepdim: false, correction: 1}}
             return %1 %2"
        );
        let data: Vec<f64> = (0..n).map(|i| 3.0 + (i % 5) as f64 / 4.0).collect();
        let x = ferrotrace_kernels::Array {
            buffer: crate::common::buffer_of(&data, dtype),
            layout: ferrotrace_runtime::Layout::contiguous([n].into()),
            dtype,
        };
        let error = if dtype.is_half() { 1e-3 } else { 1e-5 };
        run(&text, &[x], error);
    }
}

// What is not finite reaches the result; pieces of very different means are merged without loss.
#[test]
fn split_variances_of_uneven_pieces() {
    let n = 200_000usize;
    let text = format!(
        "%0: f32[{n}] = input 0 [1]
         %1: f32[] = var(%0) {{dims: [0], keepdim: false, correction: 0}}
         return %1"
    );
    let of =
        |f: &dyn Fn(usize) -> f32| values(&run(&text, &[filled::<f32>(&[n], f)], f64::MAX)[0])[0];
    let steps = of(&|i| (i / 20_000) as f32 * 1000.0);
    assert!((steps / 8.25e6 - 1.0).abs() < 1e-5, "{steps}");
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX] {
        let y = of(&|i| if i % 90_001 == 90_000 { bad } else { 1.0 });
        assert!(!y.is_finite(), "{y} of {bad}");
    }
    // Deviations about a mean that is not finite, without the correction for it.
    let text = format!(
        "%0: f32[{n}] = input 0 [1]
         %1: f32[1] = mean(%0) {{dims: [0], keepdim: true}}
         %2: f32[{n}] = sub(%0, %1)
         %3: f32[] = sum(%2) {{dims: [0], keepdim: false}}
         %4: f32[{n}] = mul(%2, %2)
         %5: f32[] = sum(%4) {{dims: [0], keepdim: false}}
         return %3 %5"
    );
    assert_eq!(kernels(&text), 1);
    let x = filled::<f32>(&[n], |i| if i % 60_000 == 7 { f32::MAX } else { 0.0 });
    run(&text, &[x], 0.0);
}

// What is reduced is the same at every column: rows of one number, and columns of one row.
#[test]
fn reductions_of_what_does_not_vary() {
    let numbers = [-1.5f32, 0.25, 3.0, 2.0, -0.5];
    for n in [2usize, 3, 40, 1000, 70_000] {
        let rows = numbers.len();
        for (shape, strides, to, dim) in [
            (format!("{rows}, 1"), "[1, 1]", format!("{rows}, {n}"), 1),
            (format!("1, {rows}"), "[5, 1]", format!("{n}, {rows}"), 0),
        ] {
            let graph = |op: &str, out: &str| {
                format!(
                    "%0: f32[{shape}] = input 0 {strides}
                     %1: f32[{to}] = expand(%0) {{to: [{to}]}}
                     %2: {out} = {op}
                     return %2"
                )
            };
            let reduce = |kind: &str, dtype: &str| {
                let op = format!("{kind}(%1) {{dims: [{dim}], keepdim: false}}");
                let x = dense::<f32>(&if dim == 1 { [rows, 1] } else { [1, rows] }, &numbers);
                values(&run(&graph(&op, &format!("{dtype}[{rows}]")), &[x], 1e-3)[0])
            };
            let sums = reduce("sum", "f32");
            let means = reduce("mean", "f32");
            for (r, &x) in numbers.iter().enumerate() {
                let x = f64::from(x);
                assert_eq!((sums[r], means[r]), (x * n as f64, x));
            }
            for kind in ["max", "min"] {
                assert_eq!(reduce(kind, "f32"), numbers.map(f64::from));
            }
            for kind in ["argmax", "argmin"] {
                assert_eq!(reduce(kind, "i64"), [0.0; 5]);
            }
            let x = dense::<f32>(&if dim == 1 { [rows, 1] } else { [1, rows] }, &numbers);
            let op = format!("softmax(%1) {{dim: {dim}}}");
            let shares = values(&run(&graph(&op, &format!("f32[{to}]")), &[x], 1e-5)[0]);
            let share = 1.0 / n as f64;
            assert!(shares.iter().all(|p| (p - share).abs() <= 1e-6 * share));
            let x = dense::<f32>(&if dim == 1 { [rows, 1] } else { [1, rows] }, &numbers);
            let op = format!("var(%1) {{dims: [{dim}], keepdim: false, correction: 1}}");
            let spread = values(&run(&graph(&op, &format!("f32[{rows}]")), &[x], 1e-5)[0]);
            assert!(spread.iter().all(|v| v.abs() <= 1e-6));
        }
    }
}

// A result of the whole row that is stored at each of its columns waits for the split reduction too.
#[test]
fn a_split_sum_spread_over_its_columns_is_another_kernel() {
    let text = "
        %0: f32[3, 70000] = input 0 [70000, 1]
        %1: f32[3, 1] = sum(%0) {dims: [1], keepdim: true}
        %2: f32[3, 70000] = repeat(%1) {counts: [1, 70000]}
        return %2";
    let x = filled::<f32>(&[3, 70_000], |i| (i / 70_000 + 1) as f32);
    assert_eq!(kernels(text), 2);
    let spread = values(&run(text, &[x], 0.0)[0]);
    for (row, of_row) in spread.chunks(70_000).enumerate() {
        assert!(of_row.iter().all(|&v| v == 70_000.0 * (row + 1) as f64));
    }
}

// What waits for a split reduction otherwise is another kernel.
#[test]
fn other_uses_of_a_split_mean_are_kernels_of_their_own() {
    let text = |then: &str| {
        format!(
            "%0: f32[200000] = input 0 [1]
             %1: f32[1] = mean(%0) {{dims: [0], keepdim: true}}
             %2: f32[200000] = sub(%0, %1)
             {then}"
        )
    };
    let absolute = text(
        "%3: f32[200000] = abs(%2)
         %4: f32[] = sum(%3) {dims: [0], keepdim: false}
         return %4",
    );
    let greatest = text(
        "%3: f32[] = max(%2) {dims: [0], keepdim: false}
         %4: f32[] = sum(%2) {dims: [0], keepdim: false}
         return %3 %4",
    );
    let stored = text(
        "%3: f32[] = sum(%2) {dims: [0], keepdim: false}
         return %2 %3",
    );
    for (text, n) in [(absolute, 2), (greatest, 2), (stored, 2)] {
        assert!(kernels(&text) >= n, "{text}");
        run(&text, &[noise(&[200_000], 8)], 0.05);
    }
}

// ir T10: the mean of such a row is off by more than the spread, and the norm takes that off again.
#[test]
fn the_norm_of_long_rows_of_large_numbers_keeps_its_digits() {
    let n = 1 << 20;
    let x = filled::<f32>(&[1, n], |i| 1e6 + (i % 2) as f32);
    let text = format!(
        "%0: f32[1, {n}] = input 0 [{n}, 1]
         %1: f32[1, {n}] = layer_norm(%0, $0=1e-5) {{n: 1, weight: false, bias: false}}
         return %1"
    );
    for (i, y) in values(&run(&text, &[x], 1e-2)[0]).iter().enumerate() {
        let want = if i % 2 == 0 { -1.0 } else { 1.0 };
        assert!((y - want).abs() < 2e-3, "{y} at {i}");
    }
}

// ir T16
#[test]
fn integer_products_wrap() {
    let x = filled::<i64>(&[70], |i| i as i64 + 3);
    run(&reduce("prod", &[70], &[1], "i64", "i64"), &[x], 0.0);
}

// DESIGN: same inputs, same bits, whatever the thread count.
#[test]
fn long_sums_have_the_same_bits_each_time() {
    let x = noise(&[300_000], 12);
    let sum = reduce("sum", &[300_000], &[1], "f32", "f32");
    let var = "
        %0: f32[300000] = input 0 [1]
        %1: f32[] = var(%0) {dims: [0], keepdim: false, correction: 1}
        return %1";
    for text in [sum.as_str(), var] {
        same_bits_each_time(text, &x);
    }
}

fn same_bits_each_time(text: &str, x: &ferrotrace_kernels::Array) {
    let plan = Plan::of(read(text)).expect("it compiles");
    let once = || {
        values(
            &plan
                .run(&mut crate::common::kept(std::slice::from_ref(x)), &[])
                .expect("it runs")[0],
        )[0]
    };
    let first = once().to_bits();
    for _ in 0..10 {
        assert_eq!(once().to_bits(), first);
    }
    let alone = ferrotrace_runtime::with_threads(1, once);
    assert_eq!(alone.to_bits(), first);
}

// codegen A3.18, ir S5: many columns of few rows are cut into chunks, whose partial results are combined in order.
#[test]
fn sums_over_long_leading_dimensions() {
    let mut rng = Rng::new(21);
    // One panel of rows and several, a last vector in part, further row variables and columns.
    for shape in [
        [1usize, 3000, 70],
        [1, 700, 4100],
        [1, 400, 9001],
        [5, 1000, 33],
        [2, 130, 1024],
    ] {
        let [a, b, c] = shape;
        let text = format!(
            "%0: f32[{a}, {b}, {c}] = input 0 [{}, {c}, 1]
             %1: f32[{a}, {b}, {c}] = mul(%0, 2.0)
             %2: f32[{a}, {c}] = sum(%1) {{dims: [1], keepdim: false}}
             %3: f32[{a}, {c}] = max(%1) {{dims: [1], keepdim: false}}
             %4: i64[{a}, {c}] = argmin(%0) {{dims: [1], keepdim: false}}
             %5: f32[{c}] = input 1 [1]
             %6: f32[{a}, {c}] = mul(%2, %5)
             return %6 %3 %4",
            b * c
        );
        let sources = super::plan(&text).explain().sources().join("");
        assert!(sources.contains("c0 = u %"), "{shape:?}");
        let data: Vec<f32> = (0..a * b * c).map(|_| rng.between(-9, 9) as f32).collect();
        run(&text, &[dense(&shape, &data), noise(&[c], 3)], 0.05);
    }
    let all = "
        %0: bool[2000, 90] = input 0 [90, 1]
        %1: bool[90] = all(%0) {dims: [0], keepdim: false}
        %2: bool[90] = any(%0) {dims: [0], keepdim: false}
        %3: i64[90] = sum(%0) {dims: [0], keepdim: false}
        return %1 %2 %3";
    let x = filled::<bool>(&[2000, 90], |i| i % 90 < 40 || (i % 90 < 60 && i % 13 == 5));
    run(all, &[x], 0.0);
}

// ir S15: a chunk of columns sums about its own mean, so that memory is read once.
#[test]
fn variances_over_long_leading_dimensions() {
    // One panel of rows and several, a last vector in part, further row variables and columns, a short last chunk.
    for shape in [[1usize, 3000, 70], [1, 1500, 2100], [3, 4001, 33]] {
        let [a, b, c] = shape;
        let text = format!(
            "%0: f32[{a}, {b}, {c}] = input 0 [{}, {c}, 1]
             %1: f32[{a}, {b}, {c}] = add(%0, 100.0)
             %2: f32[{a}, {c}] = var(%1) {{dims: [1], keepdim: false, correction: 1}}
             %3: f32[{a}, {c}] = mean(%1) {{dims: [1], keepdim: false}}
             %4: f32[{a}, {c}] = max(%0) {{dims: [1], keepdim: false}}
             %5: f32[{a}, {c}] = mul(%2, %4)
             return %5 %3 %2",
            b * c
        );
        let sources = super::plan(&text).explain().sources().join("");
        assert!(
            sources.contains("c0 = u %") && sources.contains("n_ = "),
            "{shape:?}"
        );
        let x = noise(&shape, 17);
        let got = run(&text, std::slice::from_ref(&x), 1e-3);
        // Against binary64.
        let (x, variances, means) = (values(&x), values(&got[2]), values(&got[1]));
        for (at, (&variance, &mean)) in variances.iter().zip(&means).enumerate().step_by(7) {
            let column = |i: usize| 100.0 + x[(at / c * b + i) * c + at % c];
            let want = (0..b).map(column).sum::<f64>() / b as f64;
            let square = |i: usize| (column(i) - want).powi(2);
            let spread = (0..b).map(square).sum::<f64>() / (b - 1) as f64;
            assert!((mean - want).abs() < 1e-4, "{mean} {want}");
            assert!(
                (variance / spread - 1.0).abs() < 1e-5,
                "{variance} {spread}"
            );
        }
    }
}

#[test]
fn variances_of_columns_of_every_dtype() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let (n, width) = (5000usize, 40usize);
        let name = dtype.name();
        let text = format!(
            "%0: {name}[{n}, {width}] = input 0 [{width}, 1]
             %1: {name}[{width}] = std(%0) {{dims: [0], keepdim: false, correction: 0}}
             return %1"
        );
        let sources = super::plan(&text).explain().sources().join("");
        assert!(sources.contains("n_ = "), "{name}");
        let data: Vec<f64> = (0..n * width).map(|i| 3.0 + (i % 5) as f64 / 4.0).collect();
        let x = ferrotrace_kernels::Array {
            buffer: crate::common::buffer_of(&data, dtype),
            layout: ferrotrace_runtime::Layout::contiguous([n, width].into()),
            dtype,
        };
        run(&text, &[x], if dtype.is_half() { 1e-3 } else { 1e-5 });
    }
}

// What is not finite reaches its column alone; chunks of very different means are merged without loss.
#[test]
fn variances_of_columns_of_uneven_chunks() {
    let (n, width) = (9000usize, 48usize);
    let text = format!(
        "%0: f32[{n}, {width}] = input 0 [{width}, 1]
         %1: f32[{width}] = var(%0) {{dims: [0], keepdim: false, correction: 0}}
         return %1"
    );
    let bad = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX];
    let x = filled::<f32>(&[n, width], |at| {
        let (i, j) = (at / width, at % width);
        match bad.get(j) {
            Some(&bad) if i == 7000 || i == 7001 => bad,
            _ => (i / 900) as f32 * 1000.0,
        }
    });
    let y = values(&run(&text, &[x], f64::MAX)[0]);
    for (j, &variance) in y.iter().enumerate() {
        match j < bad.len() {
            true => assert!(!variance.is_finite(), "{variance} of {}", bad[j]),
            false => assert!((variance / 8.25e6 - 1.0).abs() < 1e-5, "{variance}"),
        }
    }
    let large = filled::<f32>(&[n, width], |at| 1e6 + (at / width % 2) as f32);
    let y = values(&run(&text, &[large], 1e-2)[0]);
    assert!(y.iter().all(|y| (y - 0.25).abs() < 1e-3), "{y:?}");
}

#[test]
fn chunks_of_columns_give_the_same_bits_each_time() {
    let text = "
        %0: f32[5000, 60] = input 0 [60, 1]
        %1: f32[60] = sum(%0) {dims: [0], keepdim: false}
        %2: f32[] = prod(%1) {dims: [0], keepdim: false}
        return %2";
    same_bits_each_time(text, &noise(&[5000, 60], 13));
    let text = "
        %0: f32[5000, 60] = input 0 [60, 1]
        %1: f32[60] = var(%0) {dims: [0], keepdim: false, correction: 1}
        %2: f32[] = prod(%1) {dims: [0], keepdim: false}
        return %2";
    same_bits_each_time(text, &noise(&[5000, 60], 14));
}

#[test]
fn a_reduction_of_a_reduction_is_one_where_it_gives_the_same() {
    let text = |first: &str, between: &str, second: &str| {
        format!(
            "%0: f32[6, 5, 8, 10] = input 0 [400, 80, 10, 1]
             %1: {first}
             {between}
             return %{second}"
        )
    };
    let pooled = "f32[6, 5, 1, 1] = adaptive_avg_pool2d(%0) {size: [1, 1]}";
    let flat = "%2: f32[6, 5] = flatten(%1) {start: 1, end: 3}
        %3: f32[6] = mean(%2) {dims: [1], keepdim: false}";
    let sums = "f32[6, 5, 1, 10] = sum(%0) {dims: [2], keepdim: true}";
    let more = "%2: f32[5, 1] = sum(%1) {dims: [0, 3], keepdim: false}
        %3: f32[] = sum(%2) {dims: [0, 1], keepdim: false}";
    let most = "f32[6, 5, 8] = max(%0) {dims: [3], keepdim: false}";
    let least = "%2: f32[6, 8] = max(%1) {dims: [1], keepdim: false}
        %3: f32[6, 1] = max(%2) {dims: [1], keepdim: true}";
    let x = noise(&[6, 5, 8, 10], 21);
    for (first, between) in [(pooled, flat), (sums, more), (most, least)] {
        let text = text(first, between, "3");
        let explanation = plan(&text).explain();
        assert_eq!(explanation.fused_nodes().len(), 1, "{explanation}");
        assert_eq!(explanation.traffic().read, 4 * 6 * 5 * 8 * 10);
        // Sums of 2,400 numbers in two orders.
        run(&text, std::slice::from_ref(&x), 1e-4);
    }
    // Others, and those that something else needs, stay.
    for (second, outputs, count) in [("max", "3", 2), ("sum", "3 %1", 2)] {
        let between = format!(
            "%2: f32[6, 5, 10] = squeeze(%1) {{dims: [2]}}\n%3: f32[10] = {second}(%2) {{dims: [0, 1], keepdim: false}}"
        );
        let text = text(sums, &between, outputs);
        assert_eq!(kernels(&text), count);
        run(&text, std::slice::from_ref(&x), 1e-5);
    }
}

// A quotient that two loops of a row compute is told once whether it may be a product.
#[test]
fn a_row_divided_by_its_sum_is_normalised_again() {
    let text = "
        %0: f32[9, 300] = input 0 [300, 1]
        %1: f32[9, 1] = sum(%0) {dims: [1], keepdim: true}
        %2: f32[9, 300] = div(%0, %1)
        %3: f32[9, 300] = add(%2, $0=0.5)
        %4: f32[9, 1] = sum(%3) {dims: [1], keepdim: true}
        %5: f32[9, 300] = div(%2, %4)
        return %5";
    assert_eq!(kernels(text), 1);
    run(text, &[noise(&[9, 300], 1)], 1e-5);
}
