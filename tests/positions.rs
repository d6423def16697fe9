//! Loops that read and write slices whose positions vary from step to step: the numbers are eager mode's, no other handle
//! sees a write, and after some steps no plan is made any more.

use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::{Generator, ReduceOp, stats_scope};

/// A loop over these tensors: what a step makes of them, and reads.
struct Loop {
    name: &'static str,
    state: fn() -> Vec<Tensor>,
    step: fn(Vec<Tensor>, usize) -> Vec<Tensor>,
}

const ROWS: usize = 64;

fn noise(shape: [usize; 2], seed: u64) -> Tensor {
    with_mode(Mode::Eager, || {
        let generator = Generator::new(seed);
        generator.rand(shape, F64, &Device::cpu()) - 0.5
    })
}

fn filter(s: Vec<Tensor>, step: usize) -> Vec<Tensor> {
    let [x, y] = <[Tensor; 2]>::try_from(s).expect("two tensors");
    let i = 2 + step as isize;
    let next = x.at(i) * 0.2 + x.at(i - 1) * 0.1 + y.at(i - 1) * 0.8 - y.at(i - 2) * 0.3;
    let y = y.assign(i, &next);
    vec![x, y]
}

fn ring(s: Vec<Tensor>, step: usize) -> Vec<Tensor> {
    let [buffer, x] = <[Tensor; 2]>::try_from(s).expect("two tensors");
    let buffer = buffer.assign((5 * step % ROWS) as isize, &x);
    let x = (x * 0.5 + buffer.mean(0) * 0.5).tanh();
    vec![buffer, x]
}

/// One element of a table, from a row of it.
fn table(s: Vec<Tensor>, step: usize) -> Vec<Tensor> {
    let (row, column) = ((step * 7 % ROWS) as isize, (step * 3 % 5) as isize);
    let q = &s[0];
    let target = q.at((row + 1) % ROWS as isize).max(0) * 0.9 + 0.1;
    let new = q.at((row, column)) * 0.5 + target * 0.5;
    vec![q.assign((row, column), &new)]
}

/// Slices of what the same flush computes.
fn shortest_paths(s: Vec<Tensor>, step: usize) -> Vec<Tensor> {
    let mut d = s[0].abs();
    for k in [step as isize, (step as isize + 11) % 40] {
        d = d.minimum(&(d.narrow(1, k, 1) + d.narrow(0, k, 1)));
    }
    vec![d]
}

fn elimination(s: Vec<Tensor>, k: usize) -> Vec<Tensor> {
    let (a, k) = (&s[0], k as isize);
    let row = a.at(k) / a.at((k, k));
    let factors = a.at((.., k)).assign(k, 0.0);
    let a = a - factors.unsqueeze(1) * row.unsqueeze(0);
    vec![a.assign(k, &row)]
}

/// Slices from the end, with steps, of two sizes, one of which stays where it is.
fn mixed(s: Vec<Tensor>, step: usize) -> Vec<Tensor> {
    let [a, b] = <[Tensor; 2]>::try_from(s).expect("two tensors");
    let i = step as isize;
    let part = a.slice(0, -2 - i, -1 - i, 1) + a.narrow(0, i, 1).flip(1);
    let whole = b.slice_assign(0, i, i + 9, 3, &part);
    let b = whole.slice_assign(1, 1, 3, 1, &(whole.slice(1, 0, 2, 1) * 0.5));
    let a = a.roll(1, 0) * 0.9 + b.sum_keepdim(1).sin() * 0.1;
    vec![a, b]
}

fn half(s: Vec<Tensor>, step: usize) -> Vec<Tensor> {
    let i = step as isize;
    let x = s[0].to_dtype(BF16);
    let x = x.assign(i, &(x.at(i + 1) * 0.5 + 1.0)) + 0.25;
    vec![x.to_dtype(F32).to_dtype(F64) * 0.5]
}

fn counts(s: Vec<Tensor>, step: usize) -> Vec<Tensor> {
    let i = step as isize;
    let keys = (s[0].at(i) * 100.0).to_dtype(I64).remainder(ROWS as i64);
    let ones = Tensor::ones([keys.numel()], F64, &Device::cpu());
    let hist = s[1].at((.., 0));
    let hist = hist.scatter_reduce(0, &keys, &ones, ReduceOp::Sum, true);
    vec![s[0].clone(), s[1].assign((.., 0), &hist)]
}

const LOOPS: &[Loop] = &[
    Loop {
        name: "recursive filter",
        state: || vec![noise([ROWS, 8], 1), noise([ROWS, 8], 2)],
        step: filter,
    },
    Loop {
        name: "ring buffer",
        state: || vec![noise([ROWS, 8], 3), noise([1, 8], 4).reshape(8)],
        step: ring,
    },
    Loop {
        name: "table",
        state: || vec![noise([ROWS, 5], 5)],
        step: table,
    },
    Loop {
        name: "shortest paths",
        state: || vec![noise([50, 50], 6)],
        step: shortest_paths,
    },
    Loop {
        name: "elimination",
        state: || vec![noise([ROWS, ROWS], 7) + Tensor::eye(ROWS, F64, &Device::cpu()) * 40.0],
        step: elimination,
    },
    Loop {
        name: "mixed",
        state: || vec![noise([ROWS, 6], 8), noise([ROWS, 6], 9)],
        step: mixed,
    },
    Loop {
        name: "half precision",
        state: || vec![noise([ROWS, 6], 10)],
        step: half,
    },
    Loop {
        name: "counts",
        state: || vec![noise([ROWS, 6], 11), noise([ROWS, 6], 12)],
        step: counts,
    },
];

const STEPS: usize = 36;

/// Runs a loop; `after` evaluates or reads what it likes. The last states, and the plans made in the second half.
fn run(
    of: &Loop,
    step: impl Fn(Vec<Tensor>, usize) -> Vec<Tensor>,
    after: impl Fn(&[Tensor]) -> Result<()>,
) -> Result<(Vec<Vec<f64>>, u64)> {
    let mut state = (of.state)();
    eval(&state)?;
    let mut plans = 0;
    for i in 0..STEPS {
        let (done, stats) = stats_scope(|| {
            state = step(std::mem::take(&mut state), i);
            after(&state)
        });
        done?;
        if i >= STEPS / 2 {
            plans += stats.plans_built;
        }
    }
    let numbers: Result<Vec<_>> = state.iter().map(Tensor::to_vec).collect();
    Ok((numbers?, plans))
}

#[track_caller]
fn check(of: &Loop, how: &str, got: Result<(Vec<Vec<f64>>, u64)>) {
    let fail = |e: Error| panic!("{}, {how}: {e}", of.name);
    let want = with_mode(Mode::Eager, || run(of, of.step, |_| Ok(())));
    let ((got, plans), (want, _)) = (got.unwrap_or_else(fail), want.unwrap_or_else(fail));
    assert_eq!(got.len(), want.len());
    for (got, want) in got.iter().zip(&want) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-10 * b.abs().max(1.0);
        assert_eq!(got.len(), want.len());
        assert!(
            got.iter().zip(want).all(near),
            "{}, {how}: {got:?} for {want:?}",
            of.name
        );
    }
    assert_eq!(plans, 0, "{}, {how}: plans", of.name);
}

#[test]
fn evaluated_steps_make_no_plans() {
    for of in LOOPS {
        check(of, "evaluated", run(of, of.step, |s| eval(s)));
    }
}

#[test]
fn steps_that_read_a_number_make_no_plans() {
    for of in LOOPS.iter().filter(|of| of.name != "half precision") {
        let read = |s: &[Tensor]| s[0].sum(..).to_scalar::<f64>().map(drop);
        check(of, "read", run(of, of.step, read));
    }
}

#[test]
fn compiled_functions_of_a_position_make_no_plans() {
    for of in LOOPS {
        let step = of.step;
        let given = jit(move |(s, i): (Vec<Tensor>, usize)| step(s, i));
        let run_given = run(of, |s, i| given.call((s, i)), |s| eval(s));
        check(of, "given away", run_given);
        let lent =
            jit(move |(s, i): (Vec<&Tensor>, usize)| step(s.into_iter().cloned().collect(), i));
        let run_lent = run(of, |s, i| lent.call((s.iter().collect(), i)), |s| eval(s));
        check(of, "lent", run_lent);
    }
}

#[test]
fn no_write_is_seen_through_another_handle() -> Result<()> {
    for of in LOOPS {
        let mut state = (of.state)();
        eval(&state)?;
        for i in 0..24 {
            let before = state.clone();
            let want: Vec<Vec<f64>> = before.iter().map(Tensor::to_vec).collect::<Result<_>>()?;
            state = (of.step)(state, i);
            eval(&state)?;
            for (x, want) in before.iter().zip(&want) {
                assert_eq!(&x.to_vec::<f64>()?, want, "{}, step {i}", of.name);
            }
        }
    }
    Ok(())
}

// Forty loops that draw are one loop: the numbers drawn do not depend on how a step is run.
#[test]
fn random_numbers_are_those_of_eager_mode() -> Result<()> {
    let draw = || -> Result<Vec<f64>> {
        ferrotrace::manual_seed(5);
        let mut x = Tensor::zeros([ROWS, 16], F64, &Device::cpu());
        for i in 0..STEPS as isize {
            let next = x.at(i) + Tensor::randn([16], F64, &Device::cpu());
            x = x.assign(i + 1, &next.dropout(0.25));
            x.eval()?;
        }
        x.to_vec()
    };
    let (got, want) = (draw()?, with_mode(Mode::Eager, draw)?);
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12));
    assert!(want.iter().any(|x| *x != 0.0));
    Ok(())
}

#[test]
fn a_faulty_index_is_an_error_with_its_line() -> Result<()> {
    let x = noise([ROWS, 4], 3);
    let mut y = noise([ROWS, 4], 4);
    let mut line = 0;
    for i in 0..20 {
        let bad = if i == 19 { ROWS as i64 } else { i };
        let key = Tensor::from_slice(&[bad], 1, &Device::cpu());
        line = line!() + 1;
        let row = x.index_select(0, &key);
        y = y.slice_assign(0, i as isize, i as isize + 1, 1, &(row * 2.0));
        if i < 19 {
            y.eval()?;
        }
    }
    let error = y.eval().expect_err("an index is out of range").to_string();
    assert!(error.contains("index_select"), "{error}");
    assert!(error.contains(&format!("positions.rs:{line}")), "{error}");
    Ok(())
}
