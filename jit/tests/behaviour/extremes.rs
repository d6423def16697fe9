//! Extremes and their positions: along each dimension, tied, beside NaN, of computed values.

use super::reductions::reduce;
use super::run;
use crate::common::{Rng, dense, filled, values};
use ferrotrace_runtime::DType;

// codegen D T20: rows, columns, and both.
#[test]
fn positions_along_each_dimension() {
    let mut rng = Rng::new(3);
    let x = filled::<f32>(&[37, 41], |_| 0.0);
    let data: Vec<f32> = (0..37 * 41).map(|_| rng.between(-3, 3) as f32).collect();
    let x = dense(x.shape(), &data);
    for (dims, shape) in [("0", "41"), ("1", "37"), ("0, 1", "")] {
        for name in ["argmax", "argmin"] {
            let text = format!(
                "%0: f32[37, 41] = input 0 [41, 1]
                 %1: i64[{shape}] = {name}(%0) {{dims: [{dims}], keepdim: false}}
                 return %1"
            );
            run(&text, std::slice::from_ref(&x), 0.0);
        }
    }
}

// ir T5, T6
#[test]
fn extremes_of_extremes() {
    for n in [5usize, 1000, 8193, 1_000_003] {
        let of = |name: &str, dtype: DType, value: f64| {
            let buffer = crate::common::buffer_of(&vec![value; n], dtype);
            let layout = ferrotrace_runtime::Layout::contiguous([n].into());
            let x = ferrotrace_kernels::Array {
                buffer,
                layout,
                dtype,
            };
            values(
                &run(
                    &reduce(name, &[n], &[1], dtype.name(), dtype.name()),
                    &[x],
                    0.0,
                )[0],
            )[0]
        };
        assert_eq!(of("max", DType::F32, f64::NEG_INFINITY), f64::NEG_INFINITY);
        assert_eq!(of("min", DType::F64, f64::INFINITY), f64::INFINITY);
        assert_eq!(of("max", DType::I8, -128.0), -128.0);
        assert_eq!(of("min", DType::U8, 255.0), 255.0);
        assert_eq!(of("max", DType::Bool, 0.0), 0.0);
        assert_eq!(of("max", DType::F32, -3.5), -3.5);
        assert_eq!(of("max", DType::BF16, -3.5), -3.5);
    }
}

#[test]
fn positions_of_extremes_over_chunks_of_columns() {
    let (n, width) = (3000usize, 50usize);
    let mut data = vec![0.0f32; n * width];
    for column in 0..width {
        data[(column * 59 + 7) * width + column] = 5.0;
        data[(n - 1) * width + column] = 5.0;
    }
    data[2500 * width + 3] = f32::NAN;
    data[900 * width + 3] = f32::NAN;
    let text = format!(
        "%0: f32[{n}, {width}] = input 0 [{width}, 1]
         %1: i64[{width}] = argmax(%0) {{dims: [0], keepdim: false}}
         return %1"
    );
    let y = values(&run(&text, &[dense(&[n, width], &data)], 0.0)[0]);
    for (column, &at) in y.iter().enumerate() {
        let want = if column == 3 { 900 } else { column * 59 + 7 };
        assert_eq!(at, want as f64, "column {column}");
    }
}

// NaN wins wherever it stands, before and after any other value.
#[test]
fn extremes_of_rows_with_one_nan() {
    for (n, dtype) in [(150usize, "f32"), (83, "f64"), (150, "bf16")] {
        let text = format!(
            "%0: {dtype}[{n}, {n}] = input 0 [{n}, 1]
             %1: {dtype}[{n}] = max(%0) {{dims: [1], keepdim: false}}
             %2: {dtype}[{n}] = min(%0) {{dims: [1], keepdim: false}}
             %3: {dtype}[{n}] = max(%0) {{dims: [0], keepdim: false}}
             %4: {dtype}[{n}, {n}] = softmax(%0) {{dim: 1}}
             return %1 %2 %3 %4"
        );
        let dtype = DType::from_name(dtype).expect("a dtype");
        let of = |i: usize| match (i / n, i % n) {
            (row, column) if row == column => f64::NAN,
            (row, 3) if row % 2 == 0 => f64::INFINITY,
            (_, column) => (column * 7 % 31) as f64 - 15.0,
        };
        let data: Vec<f64> = (0..n * n).map(of).collect();
        let x = ferrotrace_kernels::Array {
            buffer: crate::common::buffer_of(&data, dtype),
            layout: ferrotrace_runtime::Layout::contiguous([n, n].into()),
            dtype,
        };
        let y = run(&text, &[x], 0.0);
        for results in &y[..3] {
            assert!(values(results).iter().all(|v| v.is_nan()));
        }
    }
}

// ir R3 for every length about the vectors' and every dtype: ties, NaN at each place, nothing but the least value.
#[test]
fn positions_of_extremes_along_rows() {
    let mut rng = Rng::new(41);
    for dtype in [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I8,
        DType::U8,
        DType::Bool,
    ] {
        for n in [8usize, 15, 16, 17, 63, 64, 65, 150, 1000] {
            let name = dtype.name();
            let text = format!(
                "%0: {name}[40, {n}] = input 0 [{n}, 1]
                 %1: i64[40] = argmax(%0) {{dims: [1], keepdim: false}}
                 %2: i64[40] = argmin(%0) {{dims: [1], keepdim: false}}
                 return %1 %2"
            );
            let data: Vec<f64> = (0..40 * n)
                .map(|i| match i / n {
                    0 if dtype.is_float() => f64::NEG_INFINITY,
                    1 if dtype.is_float() => f64::INFINITY,
                    2 => 0.0,
                    row if row < 20 && dtype.is_float() && i % n == row * 13 % n => f64::NAN,
                    _ => rng.between(0, 9) as f64,
                })
                .collect();
            let x = ferrotrace_kernels::Array {
                buffer: crate::common::buffer_of(&data, dtype),
                layout: ferrotrace_runtime::Layout::contiguous([40, n].into()),
                dtype,
            };
            run(&text, &[x], 0.0);
        }
    }
}

// ir R3 for columns, of which the longest are cut into chunks: the first position stands until a better element.
#[test]
fn positions_of_extremes_along_columns() {
    let mut rng = Rng::new(43);
    for dtype in [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::I64,
        DType::I32,
        DType::I8,
        DType::U8,
        DType::Bool,
    ] {
        for (n, width) in [
            (1usize, 40usize),
            (8, 150),
            (65, 40),
            (1000, 67),
            (7001, 40),
        ] {
            let name = dtype.name();
            let text = format!(
                "%0: {name}[{n}, {width}] = input 0 [{width}, 1]
                 %1: i64[{width}] = argmax(%0) {{dims: [0], keepdim: false}}
                 %2: i64[{width}] = argmin(%0) {{dims: [0], keepdim: false}}
                 return %1 %2"
            );
            let least = match dtype {
                DType::I8 => -128.0,
                DType::I32 => i32::MIN.into(),
                _ => 0.0,
            };
            let greatest = match dtype {
                DType::U8 => 255.0,
                DType::I8 => 127.0,
                _ => 1.0,
            };
            let data: Vec<f64> = (0..n * width)
                .map(|i| match i % width {
                    0 if dtype.is_float() => f64::NEG_INFINITY,
                    1 if dtype.is_float() => f64::INFINITY,
                    0 => least,
                    1 => greatest,
                    2 => 0.0,
                    at if at < 20 && dtype.is_float() && i / width == at * 13 % n => f64::NAN,
                    _ => rng.between(0, 9) as f64,
                })
                .collect();
            let x = ferrotrace_kernels::Array {
                buffer: crate::common::buffer_of(&data, dtype),
                layout: ferrotrace_runtime::Layout::contiguous([n, width].into()),
                dtype,
            };
            let y = run(&text, &[x], 0.0);
            for positions in &y {
                assert_eq!(values(positions)[..3], [0.0; 3], "{name} {n}");
            }
        }
    }
}

// Lanes beyond the row do not count, whatever is computed there; positions start where the piece does.
#[test]
fn positions_of_computed_values() {
    for (shape, dims) in [
        ("20, 1003", "[1]"),
        ("20, 1003", "[0, 1]"),
        ("150, 1003", "[0, 1]"),
    ] {
        let result = if dims == "[1]" { "20" } else { "" };
        let text = format!(
            "%0: f32[{shape}] = input 0 [1003, 1]
             %1: f32[{shape}] = log(%0)
             %2: f32[{shape}] = div(0.0, %0)
             %3: i64[{result}] = argmin(%1) {{dims: {dims}, keepdim: false}}
             %4: i64[{result}] = argmax(%2) {{dims: {dims}, keepdim: false}}
             return %3 %4"
        );
        let rows = if shape.starts_with("20") { 20 } else { 150 };
        let positive = |i: usize| ((i * 7919) % 5003) as f32 + 0.5;
        run(&text, &[filled::<f32>(&[rows, 1003], positive)], 0.0);
        let negative = |i: usize| if i % 9001 == 900 { -1.0 } else { positive(i) };
        run(&text, &[filled::<f32>(&[rows, 1003], negative)], 0.0);
    }
}

// ir R3: several vectors are looked at together; NaN in any of their lanes is in the row's result
#[test]
fn nan_anywhere_in_a_row_is_its_extreme() {
    for (dtype, length) in [("f32", 203), ("f64", 203), ("f32", 64), ("f32", 1000)] {
        let rows = length;
        let at = |i: usize| match (i / length, i % length) {
            (row, column) if row == column && row % 3 != 0 => f64::NAN,
            (row, column) => ((row * 7 + column * 13) % 101) as f64 - 50.0,
        };
        let x = match dtype {
            "f32" => filled::<f32>(&[rows, length], |i| at(i) as f32),
            _ => filled::<f64>(&[rows, length], at),
        };
        let text = format!(
            "%0: {dtype}[{rows}, {length}] = input 0 [{length}, 1]
             %1: {dtype}[{rows}] = max(%0) {{dims: [1], keepdim: false}}
             %2: {dtype}[{rows}] = min(%0) {{dims: [1], keepdim: false}}
             %3: {dtype}[{rows}, {length}] = softmax(%0) {{dim: 1}}
             return %1 %2 %3"
        );
        let got = run(&text, &[x], 1e-6);
        let (max, min, parts) = (values(&got[0]), values(&got[1]), values(&got[2]));
        for row in 0..rows {
            let nan = row % 3 != 0;
            let sum: f64 = parts[row * length..][..length].iter().sum();
            assert!(max[row].is_nan() == nan && min[row].is_nan() == nan && sum.is_nan() == nan);
            assert!(
                nan || (sum - 1.0).abs() < 1e-5 && max[row] >= min[row],
                "row {row}"
            );
        }
    }
}
