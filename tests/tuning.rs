//! Measured choices from outside: off unless asked for, measured once, no trace in data, numbers or counts.
//!
//! The environment is read once in a process, and failures are of the whole process, so programs run in children.

use ferrotrace::prelude::*;
use ferrotrace::{Precision, cache, manual_seed, stats_scope, with_precision, with_tuning};
use ferrotrace_runtime::inject::{Site, fail};
use std::path::Path;
use std::process::Command;

/// Runs the test `child` with `PROGRAM` and more variables; what it printed.
fn in_a_child(program: &str, folder: &Path, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "child", "--nocapture"])
        .env("PROGRAM", program)
        .env("FERROTRACE_CACHE_DIR", folder)
        .env_remove("FERROTRACE_MODE")
        .env_remove("FERROTRACE_TUNE")
        .env_remove("FERROTRACE_STRICT");
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaints}");
    said
}

/// What runs in a child; nothing otherwise.
#[test]
fn child() {
    match std::env::var("PROGRAM").as_deref() {
        Ok("once") => once(),
        Ok("failures") => failures(),
        _ => {}
    }
}

const ROWS: usize = 70;
const COLUMNS: usize = 130;

fn input() -> Tensor {
    let x: Vec<f32> = (0..ROWS * COLUMNS)
        .map(|i| ((i * 37) % 101) as f32 / 50.0 - 1.0)
        .collect();
    Tensor::from_slice(&x, [ROWS, COLUMNS], &Device::cpu())
}

/// Several fusions to doubt, and a value of several kernels.
fn program(x: &Tensor) -> [Tensor; 2] {
    let y = (x * 1.5 + 0.25).softmax(-1);
    let scaled = &y / (&y + 1.0).sum_keepdim(-1);
    [scaled.sum(0), (scaled - x).relu()]
}

/// The program's results by loops in binary64, as the reference.
fn reference() -> [Vec<f64>; 2] {
    let (mut columns, mut rest) = (vec![0.0; COLUMNS], Vec::new());
    for i in 0..ROWS {
        let at = |j: usize| (((i * COLUMNS + j) * 37) % 101) as f64 / 50.0 - 1.0;
        let exp: Vec<f64> = (0..COLUMNS).map(|j| (at(j) * 1.5 + 0.25).exp()).collect();
        let sum: f64 = exp.iter().sum();
        let soft: Vec<f64> = exp.iter().map(|e| e / sum).collect();
        let total: f64 = soft.iter().map(|y| y + 1.0).sum();
        for (j, y) in soft.iter().enumerate() {
            columns[j] += y / total;
            rest.push((y / total - at(j)).max(0.0));
        }
    }
    [columns, rest]
}

#[track_caller]
fn right(results: &[Tensor; 2]) {
    for (got, want) in results.iter().zip(reference()) {
        let got = got.to_vec::<f32>().expect("it runs");
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(&want) {
            assert!((*g as f64 - w).abs() <= 1e-5, "{g} for {w}");
        }
    }
}

/// Prints how many candidates were measured, what was chosen, and how many kernels were made and are on disk.
fn once() {
    let results = program(&input());
    let (done, stats) = stats_scope(|| eval([&results[0], &results[1]]));
    done.expect("it runs");
    right(&results);
    let explanation = explain(&[&results[0]]);
    let choice = explanation.tuning().map(|m| m.choice.to_string());
    let folder = cache::dir().join("kernels-1");
    let kept = std::fs::read_dir(folder).expect("a folder").flatten();
    let names: Vec<String> = kept
        .map(|f| f.file_name().to_string_lossy().into_owned())
        .collect();
    let count = |prefix: &str| names.iter().filter(|name| name.starts_with(prefix)).count();
    let mut sources = explanation.sources().to_vec();
    sources.sort();
    sources.dedup();
    println!(
        "candidates {} choice {choice:?} launched {} compiled {} sources {} kept {} notes {}",
        stats.candidates_measured,
        stats.kernels_launched,
        stats.kernels_compiled,
        sources.len(),
        count("k-"),
        count("n-"),
    );
    assert_eq!(
        stats.kernels_launched as usize,
        explanation.fused_nodes().len()
    );
}

fn field<'a>(said: &'a str, name: &str) -> &'a str {
    let line = said
        .lines()
        .find(|l| l.contains("candidates "))
        .unwrap_or_else(|| panic!("{said}"));
    let at = line.find(name).unwrap_or_else(|| panic!("{line}"));
    &line[at + name.len()..]
}

fn number(said: &str, name: &str) -> u64 {
    let digits: String = field(said, &format!("{name} "))
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap_or_else(|_| panic!("{said}"))
}

// scheduler Q-01: nothing is measured unless asked for.
#[test]
fn nothing_is_measured_unless_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = in_a_child("once", folder.path(), &[]);
    assert_eq!(
        (number(&said, "candidates"), number(&said, "notes")),
        (0, 0)
    );
    assert!(field(&said, "choice ").starts_with("None"));
    let on = in_a_child("once", folder.path(), &[("FERROTRACE_TUNE", "0")]);
    assert_eq!(number(&on, "candidates"), 0);
}

// codegen B11.4: nothing is kept while deciding; B11.5, B11.6: choices are remembered.
#[test]
fn a_second_process_measures_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let on = [("FERROTRACE_TUNE", "1")];
    let first = in_a_child("once", folder.path(), &on);
    assert!(number(&first, "candidates") > 1, "{first}");
    assert_eq!(number(&first, "notes"), 1);
    // What was only tried is not there.
    assert_eq!(number(&first, "kept"), number(&first, "sources"));
    let second = in_a_child("once", folder.path(), &on);
    assert_eq!(
        (number(&second, "candidates"), number(&second, "compiled")),
        (0, 0),
        "{second}"
    );
    let choice = |said: &str| {
        field(said, "choice ")
            .split(" launched")
            .next()
            .map(str::to_owned)
    };
    assert_eq!(choice(&first), choice(&second));
    assert!(choice(&first).is_some_and(|choice| choice.starts_with("Some")));
    // Choices depend on the number of threads: another number measures again.
    let threads = in_a_child("once", folder.path(), &[on[0], ("FERROTRACE_THREADS", "3")]);
    assert!(number(&threads, "candidates") > 1, "{threads}");
    // A damaged note is measured again.
    let notes = std::fs::read_dir(folder.path().join("kernels-1"))
        .expect("a folder")
        .flatten();
    for note in notes.filter(|f| f.file_name().to_string_lossy().starts_with("n-")) {
        std::fs::write(note.path(), "faster").expect("written");
    }
    let again = in_a_child("once", folder.path(), &on);
    assert!(number(&again, "candidates") > 1, "{again}");
}

/// Few candidates: rows divided by their sums.
fn small(x: &Tensor) -> Tensor {
    (x + 2.0) / (x + 2.0).sum_keepdim(-1)
}

// scheduler Q-06: a candidate that fails is refused.
fn failures() {
    let x = input();
    let want = with_mode(Mode::Eager, || small(&x).to_vec::<f32>()).expect("it runs");
    for site in [Site::Compile, Site::Load, Site::Allocate, Site::Launch] {
        let mut n = 1;
        loop {
            ferrotrace_tracer::clear_plans();
            cache::clear_memory();
            let y = with_tuning(true, || {
                let y = small(&x);
                fail(site, n);
                drop(y.eval());
                y
            });
            let happened = fail(site, 0) == 0;
            let got = y.to_vec::<f32>();
            for (g, w) in got.iter().flatten().zip(&want) {
                assert!((g - w).abs() <= 1e-5, "{site:?} {n}: {g} for {w}");
            }
            if !happened {
                break;
            }
            // The program's own run fails as it does without measuring; what fails while measuring is nobody's error.
            assert!(
                got.is_ok() || matches!(site, Site::Allocate | Site::Launch),
                "{site:?} {n}"
            );
            n *= 2;
        }
        println!("{site:?}: up to {n}");
        assert!(n > 3, "{site:?}");
    }
    assert!(stats().plans_built > 8);
}

#[test]
fn what_fails_while_it_is_measured_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = in_a_child("failures", folder.path(), &[("FERROTRACE_CACHE", "0")]);
    print!("{said}");
}

// codegen B11.3: the user's data is never written to.
#[test]
fn programs_in_place_are_run_once() {
    let steps = |tuned: bool| {
        let device = Device::cpu();
        let mut w = Tensor::zeros([33, 64], DType::F32, &device);
        let step = jit(|(w, ones): (Tensor, &Tensor)| {
            let moved = &w - ones * 0.5;
            let mean = moved.mean_keepdim(-1);
            (moved + mean * 2.0) * 0.5
        });
        let ones = Tensor::ones([33, 64], DType::F32, &device);
        with_tuning(tuned, || {
            for _ in 0..3 {
                w = step.call((w, &ones));
                w = &w + 1.0;
            }
            w.to_vec::<f32>().expect("it runs")
        })
    };
    // w, then 1.5 (w - 0.5) + 1, in numbers without rounding.
    let mut want = 0.0f32;
    for _ in 0..3 {
        want = 1.5 * (want - 0.5) + 1.0;
    }
    for tuned in [false, true] {
        ferrotrace_tracer::clear_plans();
        let got = steps(tuned);
        assert!(
            got.iter().all(|x| *x == want),
            "{tuned}: {} for {want}",
            got[0]
        );
    }
}

#[test]
fn random_numbers_and_exact_programs_are_the_same() {
    let draws = |tuned: bool| {
        ferrotrace_tracer::clear_plans();
        manual_seed(7);
        with_tuning(tuned, || {
            with_precision(Precision::EagerExact, || {
                let x = Tensor::randn([41, 53], DType::F32, &Device::cpu());
                let a = (&x * 3.0).sin();
                let b = (&a + 1.0).exp() * &x;
                let c = a.tanh() + Tensor::rand([41, 53], DType::F32, &Device::cpu());
                eval([&b, &c]).expect("it runs");
                let next = Tensor::rand([5], DType::F32, &Device::cpu());
                [b, c, next].map(|t| t.to_vec::<f32>().expect("it runs"))
            })
        })
    };
    let bits =
        |all: [Vec<f32>; 3]| all.map(|v| v.into_iter().map(f32::to_bits).collect::<Vec<_>>());
    assert_eq!(bits(draws(true)), bits(draws(false)));
}
