//! Switches for debugging: checks for NaNs after every step, and a limit of fusions.
//!
//! Both are read once in a process, so each program runs in a child of its own.

use ferrotrace::prelude::*;
use ferrotrace::{ErrorKind, with_mode};
use std::process::Command;

/// Runs the test `child` with `PROGRAM` and more variables; what it printed.
fn in_a_child(program: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "child", "--nocapture"])
        .env("PROGRAM", program)
        .env_remove("FERROTRACE_MODE");
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaints}");
    format!("{said}{complaints}")
}

/// What runs in a child; nothing otherwise.
#[test]
fn child() {
    match std::env::var("PROGRAM").as_deref() {
        Ok("nans") => nans(),
        Ok("given") => given(),
        Ok("fusions") => println!("{} fusions", fusions()),
        Ok("plans") => {
            fusions();
            numbers(40).exp().sum(-1).eval().expect("it runs");
        }
        _ => {}
    }
}

fn numbers(n: usize) -> Tensor {
    let x: Vec<f32> = (0..n).map(|i| i as f32 / 8.0 - 1.0).collect();
    Tensor::from_slice(&x, [n], &Device::cpu())
}

#[track_caller]
fn refused(result: Result<Vec<f32>>, op: &str, line: u32, is_nan: bool, step: &str) {
    let error = result.expect_err("not finite");
    let context = error.context().expect("it names the operation");
    assert_eq!(context.op, op, "{error}");
    assert_eq!(context.location.map(|l| l.line()), Some(line), "{error}");
    assert!(
        matches!(error.kind(), ErrorKind::NotFinite { nan, step: s } if *nan == is_nan && s.contains(step)),
        "{error}"
    );
}

fn nans() {
    let of = |mode: Mode, step: &str| {
        with_mode(mode, || {
            let x = numbers(40);
            // Within one kernel: the logarithm of negative numbers, though others follow.
            let (log, line) = ((&x * 2.0).log(), line!());
            refused((log.exp() + 1.0).to_vec::<f32>(), "log", line, true, step);
            // An infinity, which a later kernel reads.
            let (inverse, line) = (x.recip(), line!());
            let sorted = inverse.sort(-1, false).0 * 0.5;
            refused(sorted.to_vec::<f32>(), "recip", line, false, step);
            // A ready-made kernel.
            let large = &x * 0.0 + 3e38;
            let column = large.reshape([40, 1]);
            let (product, line) = (large.reshape([1, 40]).matmul(&column), line!());
            refused(product.to_vec::<f32>(), "matmul", line, false, step);
            // Inputs that are not finite, and what is computed from them, are no error.
            let given = Tensor::from_slice(&[1.0f32, f32::NAN], [2], &Device::cpu());
            assert!((given + 1.0).to_vec::<f32>().expect("it runs")[1].is_nan());
            let hidden = x.masked_fill(&x.lt(0.0), f32::NEG_INFINITY).softmax(-1);
            let hidden = hidden.to_vec::<f32>().expect("finite numbers");
            assert!(hidden[0] == 0.0 && hidden[39] > 0.0);
        });
    };
    of(Mode::Compiled, "in the step [");
    of(Mode::Eager, "");
    // A donated argument is not overwritten before the operations can be run again.
    let f = ferrotrace::jit(|x: Tensor| (x - 1.0).sqrt());
    let result = f.call(numbers(40) + 0.5).to_vec::<f32>();
    let error = result.expect_err("a root of a negative number");
    assert_eq!(error.context().map(|c| c.op), Some("sqrt"), "{error}");
    // Where compiled code chooses between values, the one that is not chosen does no harm.
    let x = numbers(40);
    let chosen = x.gt(0.0).where_cond(x.log(), &(&x * 0.0));
    assert_eq!(chosen.to_vec::<f32>().expect("finite numbers")[0], 0.0);
}

#[test]
fn the_operation_that_made_a_nan_is_named() {
    in_a_child("nans", &[("FERROTRACE_NANS", "1")]);
}

/// A matrix of one number.
fn matrix(rows: usize, columns: usize, number: f32) -> Tensor {
    let data = vec![number; rows * columns];
    Tensor::from_slice(&data, [rows, columns], &Device::cpu())
}

/// Results in memory that the plan gives: parts of a concatenation and of a padding, and over what dies.
fn given() {
    let step = "in the step [";
    let (a, b) = (matrix(96, 64, 2e19), matrix(64, 80, 2e19));
    let small = matrix(64, 80, 0.5);
    let (whole, line) = ((a.matmul(&small), a.matmul(&b)), line!());
    let whole = Tensor::cat(&[&whole.0, &whole.1], 1);
    refused(whole.to_vec::<f32>(), "matmul", line, false, step);
    let (product, line) = (a.matmul(&b), line!());
    let padded = product.pad(&[(1, 0), (1, 2)], 0.5);
    refused(padded.to_vec::<f32>(), "matmul", line, false, step);

    // A source that is too large for one thread to compute is scattered by a ready-made kernel.
    let (row, columns) = (matrix(1, 64, 2e19), matrix(64, 8000, 0.5));
    let row = || row.matmul(&columns).reshape([8000]);
    let places = Tensor::from_slice(&[3i64; 20_000], [20_000], &Device::cpu());
    let source = |number| matrix(1, 20_000, number).reshape([20_000]);
    let (sums, line) = (row().scatter_add(0, &places, &source(3e38)), line!());
    refused(sums.to_vec::<f32>(), "scatter_add", line, false, step);
    let before = stats().in_place_writes;
    let sums = row().scatter_add(0, &places, &source(1e17));
    let calls = ferrotrace::explain(&[&sums]);
    assert!(calls.calls().contains(&"scatter"));
    let sums = sums.to_vec::<f32>().expect("finite numbers");
    assert_eq!(stats().in_place_writes, before + 1);
    let sum = 64.0 * 2e19 * 0.5;
    let near = |got: f32, want: f64| (f64::from(got) / want - 1.0).abs() < 1e-3;
    assert!(near(sums[0], sum) && near(sums[3], sum + 2e21));

    // What lies around a part before the whole is written is not looked at.
    let joined = Tensor::cat(&[&a.matmul(&small), &a.matmul(&(&small * 2.0))], 1);
    let joined = joined.to_vec::<f32>().expect("finite numbers");
    assert!(near(joined[79], sum) && near(joined[80], 2.0 * sum));
    let padded = a.matmul(&small).pad(&[(1, 0), (1, 2)], 0.5);
    let padded = padded.to_vec::<f32>().expect("finite numbers");
    assert!(padded[83] == 0.5 && near(padded[84], sum) && padded[164] == 0.5);
    // The infinity of a padding's number is the program's own.
    let padded = a.matmul(&small).pad(&[(1, 0), (1, 2)], f32::INFINITY);
    assert_eq!(padded.to_vec::<f32>().expect("it runs")[0], f32::INFINITY);
}

#[test]
fn results_in_given_memory_are_looked_at() {
    in_a_child("given", &[("FERROTRACE_NANS", "1")]);
}

const ROWS: usize = 12;
const COLUMNS: usize = 20;

/// A softmax, a product with what follows it, a transposition and a scan, against loops; the fusions done.
fn fusions() -> u64 {
    let input = |i: usize, j: usize| ((i * 7 + j * 3) % 11) as f64 / 4.0 - 1.0;
    let data: Vec<f32> = (0..ROWS * COLUMNS)
        .map(|n| input(n / COLUMNS, n % COLUMNS) as f32)
        .collect();
    let x = Tensor::from_slice(&data, [ROWS, COLUMNS], &Device::cpu());
    let weights = (&x * 2.0).softmax(-1);
    let product = (weights.matmul(&x.t()) + 1.0) * 0.5;
    let result = (product.t() - product.mean_keepdim(-1)).cumsum(-1);
    let got = result.to_vec::<f32>().expect("it runs");

    let mut product = [[0.0f64; ROWS]; ROWS];
    for (i, row) in product.iter_mut().enumerate() {
        let exp: Vec<f64> = (0..COLUMNS).map(|j| (2.0 * input(i, j)).exp()).collect();
        let sum: f64 = exp.iter().sum();
        for (k, cell) in row.iter_mut().enumerate() {
            let dot: f64 = (0..COLUMNS).map(|j| exp[j] / sum * input(k, j)).sum();
            *cell = (dot + 1.0) * 0.5;
        }
    }
    for (i, row) in product.iter().enumerate() {
        let mean = row.iter().sum::<f64>() / ROWS as f64;
        let mut running = 0.0;
        for k in 0..ROWS {
            running += product[k][i] - mean;
            let got = f64::from(got[i * ROWS + k]);
            assert!((got - running).abs() < 1e-4, "{i} {k}: {got} for {running}");
        }
    }
    stats().fusions
}

#[test]
fn every_limit_of_fusions_gives_the_same_numbers() {
    let all = |limit: u64| -> u64 {
        let said = in_a_child("fusions", &[("FERROTRACE_FUSE_LIMIT", &limit.to_string())]);
        let line = said.lines().find(|line| line.ends_with(" fusions"));
        let count = line.and_then(|line| line.split(' ').next()?.parse().ok());
        count.expect("a number of fusions")
    };
    let most = all(u64::MAX);
    assert!(most >= 5, "{most}");
    for limit in 0..most {
        assert_eq!(all(limit), limit);
    }
}

// scheduler V-04, V-05, V-08, V-10: logs have channels; codegen B14.7: lines carry times and numbers.
#[test]
fn channels_tell_of_plans_by_number() {
    let folder = std::env::temp_dir().join(format!("ferrotrace-channels-{}", std::process::id()));
    let said = in_a_child(
        "plans",
        &[
            ("FERROTRACE_LOG", "plans,fusion,rounds,loops,colour"),
            ("FERROTRACE_DUMP", folder.to_str().expect("a path")),
        ],
    );
    let lines = |what: &str| said.lines().filter(|line| line.contains(what)).count();
    assert!(said.contains("there is no channel \"colour\""), "{said}");
    assert!(
        lines(" s, plan 1, plans: ") == 1 && lines(", plan 2, plans: ") == 1,
        "{said}"
    );
    assert!(lines(", rounds: round 1 of at most 10: ") >= 2, "{said}");
    assert!(
        lines(", loops: before fusion") >= 2 && lines("after fusion") >= 2,
        "{said}"
    );
    assert!(
        lines(", fusion: ") >= 1 && said.contains(": fused, for "),
        "{said}"
    );
    assert_eq!(
        lines(", flush: ") + lines(", sources: ") + lines(", commands: "),
        0,
        "{said}"
    );
    // The table holds a row a plan, each with a number for every column.
    let files: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let table = files
        .iter()
        .find(|path| path.extension().is_some_and(|e| e == "csv"));
    let table = std::fs::read_to_string(table.expect("a table")).expect("it is read");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    assert_eq!(rows.len() - 1, lines(", plans: "), "{table}");
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{table}");
    assert_eq!((rows[0][0], rows[1][0], rows[2][0]), ("plan", "1", "2"));
    for number in ["1", "2"] {
        let name = format!("-{number}.txt");
        assert!(
            files
                .iter()
                .any(|path| path.to_string_lossy().ends_with(&name)),
            "{files:?}"
        );
    }
    let alone = |path: &&std::path::PathBuf| path.to_string_lossy().contains("alone-");
    let programs: Vec<_> = files.iter().filter(alone).collect();
    assert!(programs.len() >= 2, "{files:?}");
    programs.into_iter().for_each(|path| timed_alone(path));
    std::fs::remove_dir_all(folder).expect("it is removed");
}

/// Compiles a kernel that stands alone as its first line says, and runs it (codegen A11.2: a dumped source times
/// itself).
#[track_caller]
fn timed_alone(path: &std::path::Path) {
    let text = std::fs::read_to_string(path).expect("it is read");
    let first = text.lines().next().expect("a line");
    let flags = first
        .strip_prefix("// cc ")
        .and_then(|f| f.split_once(" THIS.c"));
    let program = path.with_extension("program");
    let compiled = Command::new("cc")
        .args(flags.expect("flags").0.split_whitespace())
        .arg(path)
        .arg("-o")
        .arg(&program)
        .output()
        .expect("there is a compiler");
    let complaints = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{complaints}\n{text}");
    let ran = Command::new(program).output().expect("it starts");
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{said}");
    let numbers: Vec<f64> = said
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(
        numbers.len() == 3 && numbers[2] > 0.0 && said.contains("GB/s on one thread"),
        "{said}"
    );
    assert!(!said.contains("out of range"), "{said}");
    // Below it, what it computes (scheduler K-12: sources show the lines that they compute).
    let second = text.lines().nth(1).expect("a line");
    assert!(
        second.starts_with("// %") && second.contains("tests/debugging.rs:"),
        "{second}"
    );
}
