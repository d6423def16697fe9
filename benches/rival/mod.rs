//! Operations as a user of ndarray writes them.

use crate::measure::input::{below, normal, operation};
use half::bf16;
use ndarray::{Array, Array1, Array2, Axis, Dimension, Zip, concatenate, s};
use std::hint::black_box;

/// An operation: its run, and the mean magnitude of its output.
pub struct Rival {
    /// Computes it once.
    pub run: Box<dyn FnMut()>,
    /// The mean magnitude of its output.
    pub value: f64,
}

impl std::fmt::Debug for Rival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rival({})", self.value)
    }
}

/// A number's magnitude.
trait Magnitude {
    fn magnitude(&self) -> f64;
}

macro_rules! numbers {
    ($($t:ty: $f:expr;)*) => {$(
        impl Magnitude for $t {
            fn magnitude(&self) -> f64 {
                let f: fn($t) -> f64 = $f;
                f(*self).abs()
            }
        }
    )*};
}

numbers! {
    f32: |x| x as f64;
    f64: |x| x;
    i64: |x| x as f64;
    usize: |x| x as f64;
    bool: |x| x as u8 as f64;
    bf16: |x| x.to_f64();
}

impl<T: Magnitude, D: Dimension> Magnitude for Array<T, D> {
    fn magnitude(&self) -> f64 {
        self.iter().map(Magnitude::magnitude).sum::<f64>() / self.len().max(1) as f64
    }
}

fn of<T: Magnitude>(mut f: impl FnMut() -> T + 'static) -> Option<Rival> {
    let value = f().magnitude();
    Some(Rival {
        run: Box::new(move || drop(black_box(f()))),
        value,
    })
}

fn matrix(rows: usize, columns: usize, seed: u64) -> Array2<f32> {
    let data = normal(rows * columns, seed, 1.0);
    Array2::from_shape_vec((rows, columns), data).unwrap_or_default()
}

fn vector(n: usize, seed: u64) -> Array1<f32> {
    Array1::from_vec(normal(n, seed, 1.0))
}

fn positions(n: usize, bound: u64) -> Vec<usize> {
    below(n, 2, bound).into_iter().map(|i| i as usize).collect()
}

/// The operation of this name, if ndarray has it in a line or two.
pub fn open(name: &str) -> Option<Rival> {
    match name {
        "op_add_16" => {
            let (x, y) = (vector(16, 0), vector(16, 1));
            return of(move || &x + &y);
        }
        "op_exp_16" => {
            let x = vector(16, 0);
            return of(move || x.mapv(f32::exp));
        }
        "op_sum_16" => {
            let x = vector(16, 0);
            return of(move || x.sum());
        }
        "op_matmul_16" => return product(16),
        "op_matmul_64" => return product(64),
        "op_matmul_256" => return product(256),
        "op_matmul_1024" => return product(1024),
        "op_matmul_transposed_512" => {
            let (x, y) = (matrix(512, 512, 0), matrix(512, 512, 1));
            return of(move || x.dot(&y.t()));
        }
        "op_matvec_1024" => {
            let (x, y) = (matrix(1024, 1024, 0), matrix(1024, 1, 1));
            return of(move || x.dot(&y));
        }
        "op_embedding" => {
            let (table, rows) = (matrix(10_000, 256, 0), positions(4096, 10_000));
            return of(move || table.select(Axis(0), &rows));
        }
        "op_zeros_1m" => return of(|| Array2::<f32>::zeros((1024, 1024))),
        "op_arange_1m" => return of(|| Array1::<f32>::from_iter((0..1 << 20).map(|i| i as f32))),
        _ => {}
    }
    let (name, n) = operation(name)?;
    let x = matrix(n, n, 0);
    elementwise(name, &x)
        .or_else(|| reduction(name, &x))
        .or_else(|| movement(name, x))
}

fn product(n: usize) -> Option<Rival> {
    let (x, y) = (matrix(n, n, 0), matrix(n, n, 1));
    of(move || x.dot(&y))
}

fn elementwise(name: &str, x: &Array2<f32>) -> Option<Rival> {
    let positive = matches!(name, "sqrt" | "log" | "powf");
    let x = if positive {
        x.mapv(|v| v.abs() + 0.5)
    } else {
        x.clone()
    };
    let n = x.nrows();
    let y = matrix(n, n, 1);
    let (row, column) = (vector(n, 1), matrix(n, 1, 1));
    let map = |f: fn(f32) -> f32, x: Array2<f32>| of(move || x.mapv(f));
    match name {
        "add" => of(move || &x + &y),
        "sub" => of(move || &x - &y),
        "mul" => of(move || &x * &y),
        "div" => of(move || &x / &y),
        "add_number" => of(move || &x + 1.5),
        "add_row" => of(move || &x + &row),
        "add_column" => of(move || &x + &column),
        "add_transposed" => of(move || &x + &y.t()),
        "maximum" => of(move || Zip::from(&x).and(&y).map_collect(|a, b| a.max(*b))),
        "gt" => of(move || Zip::from(&x).and(&y).map_collect(|a, b| a > b)),
        "where" => of(move || {
            Zip::from(&x)
                .and(&y)
                .map_collect(|&a, &b| if a > 0.0 { a } else { b })
        }),
        "neg" => of(move || -&x),
        "abs" => map(f32::abs, x),
        "square" => map(|v| v * v, x),
        "sqrt" => map(f32::sqrt, x),
        "recip" => map(f32::recip, x),
        "exp" => map(f32::exp, x),
        "log" => map(f32::ln, x),
        "sin" => map(f32::sin, x),
        "cos" => map(f32::cos, x),
        "tanh" => map(f32::tanh, x),
        "relu" => map(|v| v.max(0.0), x),
        "sigmoid" => map(|v| 1.0 / (1.0 + (-v).exp()), x),
        "silu" => map(|v| v / (1.0 + (-v).exp()), x),
        "gelu_tanh" => map(
            |v| 0.5 * v * (1.0 + (0.797_884_6 * (v + 0.044_715 * v * v * v)).tanh()),
            x,
        ),
        "powf" => map(|v| v.powf(2.5), x),
        "floor" => map(f32::floor, x),
        "round" => map(f32::round_ties_even, x),
        "clamp" => map(|v| v.clamp(-0.5, 0.5), x),
        "to_f64" => of(move || x.mapv(f64::from)),
        "to_bf16" => of(move || x.mapv(bf16::from_f32)),
        "to_i64" => of(move || x.mapv(|v| v as i64)),
        _ => None,
    }
}

fn reduction(name: &str, x: &Array2<f32>) -> Option<Rival> {
    let x = x.clone();
    let largest = |v: &f32, m: f32| if *v > m { *v } else { m };
    match name {
        "sum" => of(move || x.sum()),
        "sum_ax0" => of(move || x.sum_axis(Axis(0))),
        "sum_ax1" => of(move || x.sum_axis(Axis(1))),
        "mean_ax1" => of(move || x.mean_axis(Axis(1)).unwrap_or_default()),
        "var_ax1" => of(move || x.var_axis(Axis(1), 1.0)),
        "max_ax0" => of(move || x.fold_axis(Axis(0), f32::MIN, move |m, v| largest(v, *m))),
        "max_ax1" => of(move || x.fold_axis(Axis(1), f32::MIN, move |m, v| largest(v, *m))),
        "softmax" => of(move || {
            let mut out = x.clone();
            for mut row in out.rows_mut() {
                let top = row.fold(f32::MIN, |m, v| m.max(*v));
                row.mapv_inplace(|v| (v - top).exp());
                let sum = row.sum();
                row /= sum;
            }
            out
        }),
        "cumsum" => of(move || {
            let mut out = x.clone();
            out.accumulate_axis_inplace(Axis(1), |&before, v| *v += before);
            out
        }),
        _ => None,
    }
}

fn movement(name: &str, x: Array2<f32>) -> Option<Rival> {
    let n = x.nrows();
    let y = matrix(n, n, 1);
    let chosen = positions(n, n as u64);
    match name {
        "transpose_copy" => of(move || x.t().as_standard_layout().into_owned()),
        "narrow_copy" => of(move || x.slice(s![.., n / 8..n / 8 + n / 4 * 3]).to_owned()),
        "flip" => of(move || x.slice(s![.., ..;-1]).as_standard_layout().into_owned()),
        "cat_ax0" => of(move || concatenate![Axis(0), x, y]),
        "cat_ax1" => of(move || concatenate![Axis(1), x, y]),
        "repeat" => of(move || concatenate![Axis(0), x, x]),
        "pad" => of(move || {
            let mut out = Array2::<f32>::zeros((n + 2, n + 2));
            out.slice_mut(s![1..n + 1, 1..n + 1]).assign(&x);
            out
        }),
        "index_select_ax0" => of(move || x.select(Axis(0), &chosen)),
        "index_select_ax1" => of(move || x.select(Axis(1), &chosen)),
        "sort" => of(move || {
            let mut out = x.clone();
            for mut row in out.rows_mut() {
                if let Some(row) = row.as_slice_mut() {
                    row.sort_by(f32::total_cmp);
                }
            }
            out
        }),
        _ => None,
    }
}
