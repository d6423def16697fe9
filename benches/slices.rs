//! Programs that write slices: rows of a large tensor, stencils that alternate two arrays, algorithms that go through an
//! array row by row. `peers/slices.py` runs the same programs in NumPy and JAX.
//!
//! ```text
//! cargo bench --bench slices [-- --rounds N] [-- --smoke] [names]
//! ```
//!
//! A program starts from the same data in every run. A row says what the run after the first takes, the kernels it
//! launches, the bytes it asks for, the plans that it makes, and what the first run took with kernels compiled.

mod measure;

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use measure::table::Table;
use measure::{Options, Outcome, time};
use std::time::Instant;

const END: isize = isize::MAX;

/// What a program makes of its tensors.
type Program = fn(Vec<Tensor>) -> Vec<Tensor>;

/// A program, its data, and how many steps of a program that is one step make a run.
struct Case {
    name: &'static str,
    data: fn() -> Vec<Tensor>,
    step: Program,
    steps: usize,
}

fn random(shape: &[usize], dtype: DType) -> Tensor {
    Tensor::rand(shape, dtype, &Device::cpu())
}

fn size(x: &Tensor, dim: isize) -> usize {
    x.dim(dim).expect("a dimension")
}

fn zeros(shape: &[usize]) -> Tensor {
    Tensor::zeros(shape, DType::F64, &Device::cpu())
}

/// A row, a column and a square part of a matrix of 16 MiB, twelve times.
fn writes(state: Vec<Tensor>) -> Vec<Tensor> {
    let [mut x, row, part] = <[Tensor; 3]>::try_from(state).expect("three tensors");
    let column = row.reshape([2048, 1]);
    for i in 0..4 {
        x = x.slice_assign(0, 100 * i, 100 * i + 1, 1, &row);
        x = x.slice_assign(1, 100 * i, 100 * i + 1, 1, &column);
        let (rows, columns) = ((100 * i, 100 * i + 256), (1000, 1256));
        let middle = x.slice(0, rows.0, rows.1, 1);
        let middle = middle.slice_assign(1, columns.0, columns.1, 1, &part);
        x = x.slice_assign(0, rows.0, rows.1, 1, &middle);
    }
    vec![x, row, part]
}

/// Writes one row of the result, computed in one operation.
fn write(state: Vec<Tensor>) -> Vec<Tensor> {
    let [x, row, part] = <[Tensor; 3]>::try_from(state).expect("three tensors");
    vec![x.slice_assign(0, 77, 78, 1, &row), row, part]
}

/// `to` with its inner elements replaced.
fn inner(to: &Tensor, dims: usize, source: &Tensor) -> Tensor {
    fn of(to: &Tensor, dim: usize, dims: usize, source: &Tensor) -> Tensor {
        if dim + 1 == dims {
            return to.slice_assign(dim, 1, -1, 1, source);
        }
        let part = of(&to.slice(dim, 1, -1, 1), dim + 1, dims, source);
        to.slice_assign(dim, 1, -1, 1, &part)
    }
    of(to, 0, dims, source)
}

/// The mean of each inner element and its neighbours.
fn smooth(a: &Tensor, dims: usize) -> Tensor {
    let at = |moved: usize, by: isize| {
        (0..dims).fold(a.clone(), |x, dim| {
            let start = 1 + if dim == moved { by } else { 0 };
            let len = size(&x, dim as isize) - 2;
            x.narrow(dim, start, len)
        })
    };
    let mut sum = at(dims, 0);
    for dim in 0..dims {
        sum = sum + at(dim, -1) + at(dim, 1);
    }
    sum * (1.0 / (2 * dims + 1) as f64)
}

fn heat(state: Vec<Tensor>, dims: usize) -> Vec<Tensor> {
    let [a, b] = <[Tensor; 2]>::try_from(state).expect("two tensors");
    let b = inner(&b, dims, &smooth(&a, dims));
    let a = inner(&a, dims, &smooth(&b, dims));
    vec![a, b]
}

/// A step in place of one array, with its edges set after it.
fn edges(state: Vec<Tensor>) -> Vec<Tensor> {
    let [a] = <[Tensor; 1]>::try_from(state).expect("one tensor");
    let mut a = inner(&a, 2, &smooth(&a, 2));
    a = a.slice_assign(0, 0, 1, 1, &a.slice(0, 1, 2, 1));
    a = a.slice_assign(0, -1, END, 1, &a.slice(0, -2, -1, 1));
    a = a.slice_assign(1, 0, 1, 1, &a.slice(1, 1, 2, 1));
    a = a.slice_assign(1, -1, END, 1, &a.slice(1, -2, -1, 1));
    vec![a]
}

/// Rows and columns of a part, from `(row, column)` on.
fn below(a: &Tensor, row: isize, column: isize) -> Tensor {
    a.slice(0, row, END, 1).slice(1, column, END, 1)
}

fn assign(a: &Tensor, rows: (isize, isize), columns: (isize, isize), source: &Tensor) -> Tensor {
    let part = a.slice(0, rows.0, rows.1, 1);
    let part = part.slice_assign(1, columns.0, columns.1, 1, source);
    a.slice_assign(0, rows.0, rows.1, 1, &part)
}

/// Gaussian elimination without pivots.
fn lu(state: Vec<Tensor>) -> Vec<Tensor> {
    let [mut a] = <[Tensor; 1]>::try_from(state).expect("one tensor");
    for k in 0..size(&a, 0) as isize - 1 {
        let pivot = a.narrow(0, k, 1).narrow(1, k, 1);
        let column = below(&a, k + 1, k).narrow(1, 0, 1) / pivot;
        a = assign(&a, (k + 1, END), (k, k + 1), &column);
        let column = a.slice(0, k + 1, END, 1).narrow(1, k, 1);
        let row = a.narrow(0, k, 1).slice(1, k + 1, END, 1);
        let rest = below(&a, k + 1, k + 1) - column * row;
        a = assign(&a, (k + 1, END), (k + 1, END), &rest);
    }
    vec![a]
}

/// Modified Gram-Schmidt by columns.
fn gram_schmidt(state: Vec<Tensor>) -> Vec<Tensor> {
    let [mut a, mut q, mut r] = <[Tensor; 3]>::try_from(state).expect("three tensors");
    for k in 0..size(&a, 1) as isize {
        let column = a.narrow(1, k, 1);
        let norm = column.square().sum([0, 1]).sqrt().reshape([1, 1]);
        let unit = column / &norm;
        r = assign(&r, (k, k + 1), (k, k + 1), &norm);
        q = q.slice_assign(1, k, k + 1, 1, &unit);
        if k + 1 < size(&a, 1) as isize {
            let rest = a.slice(1, k + 1, END, 1);
            let products = unit.t().matmul(&rest);
            r = assign(&r, (k, k + 1), (k + 1, END), &products);
            a = a.slice_assign(1, k + 1, END, 1, &(rest - unit * products));
        }
    }
    vec![a, q, r]
}

/// Levinson's and Durbin's recursion, whose vectors grow.
fn levinson(state: Vec<Tensor>) -> Vec<Tensor> {
    let [r, mut y] = <[Tensor; 2]>::try_from(state).expect("two tensors");
    let mut alpha = -r.narrow(0, 0, 1);
    let mut beta = alpha.ones_like();
    y = y.slice_assign(0, 0, 1, 1, &alpha);
    for k in 1..size(&r, 0) {
        let at = k as isize;
        beta *= 1.0 - alpha.square();
        let known = y.narrow(0, 0, k);
        let dot = (r.narrow(0, 0, k).flip(0) * &known).sum(0).reshape(1);
        alpha = -(r.narrow(0, at, 1) + dot) / &beta;
        y = y.slice_assign(0, 0, at, 1, &(&known + &alpha * known.flip(0)));
        y = y.slice_assign(0, at, at + 1, 1, &alpha);
    }
    vec![r, y]
}

/// A recursive filter along the first dimension.
fn filter(state: Vec<Tensor>) -> Vec<Tensor> {
    let [x, mut y] = <[Tensor; 2]>::try_from(state).expect("two tensors");
    for i in 1..size(&x, 0) as isize {
        let next = x.narrow(0, i, 1) * 0.2 + y.narrow(0, i - 1, 1) * 0.8;
        y = y.slice_assign(0, i, i + 1, 1, &next);
    }
    vec![x, y]
}

const CASES: &[Case] = &[
    Case {
        name: "writes12_2048",
        data: || {
            vec![
                random(&[2048, 2048], DType::F32),
                random(&[2048], DType::F32),
                random(&[256, 256], DType::F32),
            ]
        },
        step: writes,
        steps: 1,
    },
    Case {
        name: "write1_x12_2048",
        data: || {
            vec![
                random(&[2048, 2048], DType::F32),
                random(&[2048], DType::F32),
                random(&[1], DType::F32),
            ]
        },
        step: write,
        steps: 12,
    },
    Case {
        name: "heat1d_20000",
        data: || vec![random(&[20_000], DType::F64), random(&[20_000], DType::F64)],
        step: |s| heat(s, 1),
        steps: 100,
    },
    Case {
        name: "heat1d_4M",
        data: || {
            vec![
                random(&[4 << 20], DType::F64),
                random(&[4 << 20], DType::F64),
            ]
        },
        step: |s| heat(s, 1),
        steps: 5,
    },
    Case {
        name: "heat2d_256",
        data: || {
            vec![
                random(&[256, 256], DType::F64),
                random(&[256, 256], DType::F64),
            ]
        },
        step: |s| heat(s, 2),
        steps: 50,
    },
    Case {
        name: "heat2d_2048",
        data: || {
            vec![
                random(&[2048, 2048], DType::F64),
                random(&[2048, 2048], DType::F64),
            ]
        },
        step: |s| heat(s, 2),
        steps: 5,
    },
    Case {
        name: "heat3d_40",
        data: || {
            vec![
                random(&[40, 40, 40], DType::F64),
                random(&[40, 40, 40], DType::F64),
            ]
        },
        step: |s| heat(s, 3),
        steps: 50,
    },
    Case {
        name: "heat3d_160",
        data: || {
            vec![
                random(&[160, 160, 160], DType::F64),
                random(&[160, 160, 160], DType::F64),
            ]
        },
        step: |s| heat(s, 3),
        steps: 5,
    },
    Case {
        name: "edges_1024",
        data: || vec![random(&[1024, 1024], DType::F64)],
        step: edges,
        steps: 10,
    },
    Case {
        name: "lu_200",
        data: || {
            let n = 200;
            vec![
                random(&[n, n], DType::F64) + Tensor::eye(n, DType::F64, &Device::cpu()) * n as f64,
            ]
        },
        step: lu,
        steps: 1,
    },
    Case {
        name: "gram_schmidt_200",
        data: || {
            vec![
                random(&[240, 200], DType::F64),
                zeros(&[240, 200]),
                zeros(&[200, 200]),
            ]
        },
        step: gram_schmidt,
        steps: 1,
    },
    Case {
        name: "levinson_400",
        data: || vec![random(&[400], DType::F64) * 0.01, zeros(&[400])],
        step: levinson,
        steps: 1,
    },
    Case {
        name: "filter_500x2000",
        data: || vec![random(&[500, 2000], DType::F64), zeros(&[500, 2000])],
        step: filter,
        steps: 1,
    },
];

fn main() -> Outcome {
    let options = Options::from_args();
    let heads = [
        "program",
        "run",
        "least time",
        "kernels",
        "bytes",
        "plans",
        "first run",
    ];
    let mut table = Table::new("Programs that write slices", &heads);
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        for mode in ["lazy", "jit", "eager"] {
            table.row(row(case, mode, &options)?);
        }
    }
    table.print();
    Ok(())
}

/// Times a program: lazily, each step evaluated; as a compiled function; in eager mode.
fn row(case: &Case, mode: &str, options: &Options) -> Outcome<[String; 7]> {
    let step = case.step;
    let compiled = jit(step);
    let run = |mut state: Vec<Tensor>| -> Outcome<Vec<Tensor>> {
        for _ in 0..case.steps {
            state = match mode {
                "jit" => compiled.call(state),
                "eager" => with_mode(Mode::Eager, || step(state)),
                _ => step(state),
            };
            eval(&state)?;
        }
        Ok(state)
    };
    let fresh = || -> Outcome<Vec<Tensor>> {
        // A copy of its own, which the run may overwrite.
        let state = (case.data)();
        eval(&state)?;
        Ok(state)
    };
    let start = Instant::now();
    run(fresh()?)?;
    let first = start.elapsed();
    run(fresh()?)?;
    let state = fresh()?;
    let (state, stats) = stats_scope(|| run(state));
    drop(state?);
    let mut least = f64::INFINITY;
    for _ in 0..options.rounds.min(9) {
        let state = fresh()?;
        let start = Instant::now();
        let state = run(state)?;
        least = least.min(start.elapsed().as_nanos() as f64);
        drop(state);
    }
    Ok([
        case.name.to_owned(),
        mode.to_owned(),
        time(least),
        (stats.kernels_launched + stats.library_calls).to_string(),
        stats.bytes_allocated.to_string(),
        stats.plans_built.to_string(),
        time(first.as_nanos() as f64),
    ])
}
