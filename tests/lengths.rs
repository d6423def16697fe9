//! Programs that meet thousands of lengths, again and again, and loops whose steps record any number of operations.

mod common;

use ferrotrace::prelude::*;
use ferrotrace::{Precision, stats_scope, with_precision};

const LENGTHS: usize = 3_000;

/// Plans made for forms that the same lines record, if they are of little work.
const FEW: u64 = 8;

/// Runs a program once for each length, twice; the plans that each pass built.
fn passes(f: impl Fn(&Tensor) -> Tensor) -> [u64; 2] {
    let data: Vec<f32> = (0..LENGTHS + 2).map(|i| (i % 97) as f32 * 0.01).collect();
    let data = Tensor::from_vec(data, LENGTHS + 2, &Device::cpu());
    [(); 2].map(|()| {
        let pass = || {
            for n in 2..LENGTHS + 2 {
                let y = f(&data.narrow(0, 0, n)).to_scalar::<f32>().expect("runs");
                let terms = (0..n).map(|i| ((i % 97) as f64 * 0.01 * 2.0 + 1.0).sqrt());
                let want: f64 = terms.sum();
                assert!(
                    (f64::from(y) - want).abs() <= 1e-5 * want,
                    "{n}: {y} for {want}"
                );
            }
        };
        with_mode(Mode::Compiled, || stats_scope(pass))
            .1
            .plans_built
    })
}

#[test]
fn lengths_met_before_find_their_plans() {
    let [first, second] = passes(|x| (x * 2.0 + 1.0).sqrt().sum(..));
    assert_eq!([first, second], [FEW, 0]);
    ferrotrace_tracer::clear_plans();
    let f = jit(|x: &Tensor| (1.0 + 2.0 * x).sqrt().sum(..));
    // The first pass forgets, beyond a number of lengths, what the function recorded; no plan is made again.
    let [first, second] = passes(|x| f.call(x));
    assert!(first > 0);
    assert_eq!(second, 0);
}

fn ramp(len: usize) -> Vec<f64> {
    (0..len).map(|i| (i * 7 % 23) as f64 * 0.1 - 1.0).collect()
}

fn close(got: f64, want: f64, tolerance: f64) {
    let error = (got - want).abs();
    assert!(error <= tolerance * want.abs().max(1.0), "{got} for {want}");
}

/// A sequence that grows at every step, as a cache of keys does.
#[test]
fn what_grows_at_every_step_makes_few_plans() {
    let (query, values) = (ramp(8), ramp(8 * 64));
    let grow = |device: Device| {
        let q = Tensor::from_slice(&query, [1, 8], &device);
        let mut keys = Tensor::zeros([0, 8], DType::F64, &device);
        let mut seen: Vec<f64> = Vec::new();
        for step in 0..120 {
            let key: Vec<f64> = (0..8)
                .map(|i| values[(step * 5 + i) % values.len()])
                .collect();
            keys = Tensor::cat(&[&keys, &Tensor::from_slice(&key, [1, 8], &device)], 0);
            let scores = (q.matmul(&keys.t()) * 0.5).softmax(1);
            let mixed = scores.matmul(&keys).sum(..);
            seen.extend(&key);
            // The definition, of the numbers themselves.
            let dot = |row: &[f64]| row.iter().zip(&query).map(|(k, q)| k * q).sum::<f64>();
            let weights: Vec<f64> = seen.chunks(8).map(|k| (0.5 * dot(k)).exp()).collect();
            let all: f64 = weights.iter().sum();
            let rows = seen.chunks(8).zip(&weights);
            let want: f64 = rows.map(|(k, w)| k.iter().sum::<f64>() * w / all).sum();
            close(mixed.to_scalar::<f64>().expect("runs"), want, 1e-12);
        }
    };
    let ((), stats) = with_mode(Mode::Compiled, || stats_scope(|| grow(Device::cpu())));
    assert!(stats.plans_built <= 2 * FEW, "{stats:?}");
    // A device plans each operator of a size that it has not met.
    if let Some(device) = common::device() {
        with_mode(Mode::Compiled, || grow(device));
    }
}

/// Operations that wait for a read, a different number each time, and sequences of any length, step by step.
#[test]
fn any_number_of_operations_of_the_same_lines_makes_few_plans() {
    let device = Device::cpu();
    let counts = || (0..240usize).map(|i| 1 + i * 7 % 24);
    let waits = || {
        let mut state = Tensor::from_slice(&[0.5, -0.25], 2, &device);
        let mut want = [0.5, -0.25];
        for count in counts() {
            for _ in 0..count {
                state = (&state * 0.75 + 0.5).sin();
                want = want.map(|x: f64| (x * 0.75 + 0.5).sin());
            }
            let got = state.sum(..).to_scalar::<f64>().expect("runs");
            close(got, want[0] + want[1], 1e-13);
        }
    };
    let ((), stats) = with_mode(Mode::Compiled, || stats_scope(waits));
    assert!(stats.plans_built <= FEW, "{stats:?}");

    let weights = Tensor::from_vec(ramp(16), [4, 4], &device);
    let unrolled = || {
        for length in counts() {
            let xs = Tensor::from_vec(ramp(4 * length), [length, 1, 4], &device);
            let mut h = Tensor::zeros([1, 4], DType::F64, &device);
            let mut want = [0.0f64; 4];
            for t in 0..length {
                h = (h.matmul(&weights) * 0.25 + xs.select(0, t as isize)).tanh();
                let row = |j: usize| (0..4).map(|i| want[i] * ramp(16)[4 * i + j]).sum::<f64>();
                let next = |j: usize| (row(j) * 0.25 + ramp(4 * length)[4 * t + j]).tanh();
                want = std::array::from_fn(next);
            }
            let got = h.to_vec::<f64>().expect("runs");
            got.iter()
                .zip(want)
                .for_each(|(got, want)| close(*got, want, 1e-13));
        }
    };
    let ((), stats) = with_mode(Mode::Compiled, || stats_scope(unrolled));
    assert!(stats.plans_built <= 3 * FEW, "{stats:?}");
}

#[test]
fn a_length_that_comes_back_gets_its_plan() {
    let f = |x: &Tensor| (x.tanh() * 0.5 + 0.25).max(..);
    let run = |len: usize| {
        let x = Tensor::from_vec(ramp(len), len, &Device::cpu());
        let got = f(&x).to_scalar::<f64>().expect("runs");
        let terms = ramp(len).into_iter().map(|x| x.tanh() * 0.5 + 0.25);
        close(got, terms.fold(f64::MIN, f64::max), 1e-14);
    };
    let plans = |lens: &[usize], times: usize| {
        let all = || (0..times).for_each(|_| lens.iter().for_each(|&len| run(len)));
        let ((), stats) = with_mode(Mode::Compiled, || stats_scope(all));
        (stats.plans_built, stats.kernels_launched)
    };
    let many: Vec<usize> = (100..160).collect();
    assert_eq!(plans(&many, 1), (FEW, FEW));
    assert_eq!(plans(&[300, 301], 2), (0, 0));
    // Each takes about as long operator by operator as a plan takes to make.
    let (built, launched) = plans(&[300, 301], 1_000);
    assert_eq!(built, 2);
    assert!((1_000..2_000).contains(&launched), "{launched}");
    // In a loop of its own a length waits for a few runs alone, which two tensors of each step do not make.
    assert_eq!(plans(&[302], 20), (1, 12));
    let twice: Vec<usize> = (400..440).flat_map(|len| [len, len]).collect();
    assert_eq!(plans(&twice, 1), (0, 0));
    // Much work is not done without a plan.
    let long: Vec<usize> = (0..12).map(|i| 2_000_000 + i).collect();
    assert_eq!(plans(&long, 1), (12, 12));
}

#[test]
fn a_function_called_with_many_lengths_makes_few_plans() {
    let f = jit(|x: &Tensor| (x.exp() - 3.0).cos().mean(1));
    let device = Device::cpu();
    let calls = || {
        for len in 1..60 {
            let x = Tensor::from_vec(ramp(2 * len), [2, len], &device);
            let got = f.call(&x).to_vec::<f64>().expect("runs");
            for (got, row) in got.iter().zip(ramp(2 * len).chunks(len)) {
                let terms = row.iter().map(|x| (x.exp() - 3.0).cos());
                close(*got, terms.sum::<f64>() / len as f64, 1e-14);
            }
        }
    };
    let ((), stats) = with_mode(Mode::Compiled, || stats_scope(calls));
    assert!(stats.plans_built <= 2 * FEW, "{stats:?}");
}

/// Operands of every kind: reversed, strided, broadcast, empty, of half precision, of integers. In `EagerExact` bits of
/// elementwise code do not depend on whether there is a plan.
#[test]
fn without_a_plan_bits_are_those_of_eager_mode() {
    let device = Device::cpu();
    let program = |len: usize| {
        let x = Tensor::from_vec(ramp(3 * len), [3, len], &device);
        let half = x.to_dtype(DType::BF16).flip(1) * 1.1 + 0.3;
        let column = Tensor::from_slice(&[0.5, -1.5, 3.0], [3, 1], &device).sin();
        let whole = Tensor::arange(0, len as i64, 1, DType::I64, &device) % 7;
        let parts = [
            half.to_dtype(DType::F64),
            column.expand([3, len]) + &x,
            whole.to_dtype(DType::F64) * &x,
        ];
        let every = x.slice(1, 0, isize::MAX, 2).exp();
        (Tensor::cat(&parts, 0), (every + 1.0).log())
    };
    let bits = |mode: Mode, len: usize| {
        let read = |x: &Tensor| x.to_vec::<f64>().expect("runs");
        let exact = || {
            let (a, b) = program(len);
            let all = read(&a).into_iter().chain(read(&b));
            all.map(f64::to_bits).collect::<Vec<u64>>()
        };
        with_mode(mode, || with_precision(Precision::EagerExact, exact))
    };
    for len in 0..40 {
        assert_eq!(
            bits(Mode::Compiled, len),
            bits(Mode::Eager, len),
            "{len} columns"
        );
    }
}

#[test]
fn an_error_names_its_line_without_a_plan() {
    let device = Device::cpu();
    for len in 4..40 {
        let x = Tensor::from_vec(ramp(len), len, &device);
        let at = Tensor::from_slice(&[0, len as i64], 2, &device);
        let line = line!() + 1;
        let y = with_mode(Mode::Compiled, || (&x * 2.0).index_select(0, &at).sum(..));
        // Operations that a line recorded before, recorded on another one.
        let again = with_mode(Mode::Compiled, || (&x * 2.0).index_select(0, &at).sum(..));
        for (y, line) in [(y, line), (again, line + 2)] {
            let error = y.to_scalar::<f64>().expect_err("an index is out of range");
            let error = error.to_string();
            assert!(error.contains("index_select"), "{error}");
            assert!(error.contains(&format!("lengths.rs:{line}")), "{error}");
        }
    }
}
