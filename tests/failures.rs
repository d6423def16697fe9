//! Each compile, load, allocation and launch of a program made to fail in turn, until none is left: whoever reads gets
//! the documented error, or the right numbers where a fallback is documented; no memory stays behind; and the process
//! computes the right numbers afterwards.
//!
//! What is made to fail is of the whole process, and so is `FERROTRACE_STRICT`, so each mode runs in a child of its own.

use ferrotrace::prelude::*;
use ferrotrace::{ErrorKind, Stats, cache};
use ferrotrace_runtime::inject::{Site, fail};
use std::process::Command;
use std::time::{Duration, Instant};

const ROWS: usize = 12;
const COLUMNS: usize = 37;
const BINS: usize = 5;
/// No program here has as many events; a search that gets there would not end.
const MOST: u32 = 1000;
/// How long background compilation may take.
const PATIENCE: Duration = Duration::from_secs(60);

fn input(i: usize, j: usize) -> f64 {
    ((i * 31 + j * 17) % 23) as f64 / 8.0 - 1.25
}

fn bin(i: usize, j: usize) -> usize {
    (i * 7 + j * 3) % BINS
}

/// Pointwise operations, a softmax, a product, a scan, a scatter, and a compiled function of what they give.
fn program(standardise: &(dyn Fn(&Tensor) -> Tensor + Sync)) -> Result<Vec<f64>> {
    let device = Device::cpu();
    let cells = |columns: usize| (0..ROWS * columns).map(move |n| (n / columns, n % columns));
    let x: Vec<f32> = cells(COLUMNS).map(|(i, j)| input(i, j) as f32).collect();
    let bins: Vec<i64> = cells(ROWS).map(|(i, j)| bin(i, j) as i64).collect();
    let x = Tensor::from_slice(&x, [ROWS, COLUMNS], &device);
    let bins = Tensor::from_slice(&bins, [ROWS, ROWS], &device);
    let weights = ((&x * 2.0).exp() + 1.0).log().softmax(-1);
    let sums = weights.matmul(&x.t()).cumsum(0);
    let table = Tensor::ones([BINS, ROWS], DType::F32, &device).scatter_add(0, &bins, &sums);
    let result = standardise(&table);
    let mut numbers = result.to_dtype(DType::F64).to_vec::<f64>()?;
    numbers.extend(weights.max(0).to_dtype(DType::F64).to_vec::<f64>()?);
    Ok(numbers)
}

/// What `program` gives, by loops.
fn reference() -> Vec<f64> {
    let mut weights = vec![vec![0.0; COLUMNS]; ROWS];
    for (i, row) in weights.iter_mut().enumerate() {
        // exp(log(exp(2 x) + 1)) is exp(2 x) + 1.
        for (j, weight) in row.iter_mut().enumerate() {
            *weight = (2.0 * input(i, j)).exp() + 1.0;
        }
        let sum: f64 = row.iter().sum();
        row.iter_mut().for_each(|weight| *weight /= sum);
    }
    let mut table = vec![vec![1.0; ROWS]; BINS];
    for column in 0..ROWS {
        let mut sum = 0.0;
        for (i, row) in weights.iter().enumerate() {
            let terms = row.iter().enumerate().map(|(j, w)| w * input(column, j));
            sum += terms.sum::<f64>();
            table[bin(i, column)][column] += sum;
        }
    }
    let mut numbers = Vec::new();
    for row in table {
        let mean = row.iter().sum::<f64>() / ROWS as f64;
        numbers.extend(row.iter().map(|x| (x - mean) * 0.5 + 1.0));
    }
    let most = |j: usize| weights.iter().map(|row| row[j]).fold(f64::MIN, f64::max);
    numbers.extend((0..COLUMNS).map(most));
    numbers
}

#[track_caller]
fn right(numbers: &[f64]) {
    let wanted = reference();
    assert_eq!(numbers.len(), wanted.len());
    for (got, want) in numbers.iter().zip(&wanted) {
        assert!(
            (got - want).abs() <= 1e-4 * want.abs().max(1.0),
            "{got} for {want}"
        );
    }
}

/// The mode of a child, and how many of its threads run the program at a time.
#[derive(Clone, Copy)]
struct Setting {
    mode: Mode,
    strict: bool,
    threads: usize,
}

/// The program on every thread, with a function compiled anew.
struct Attempt<F> {
    setting: Setting,
    standardise: F,
}

fn attempt(setting: Setting) -> Attempt<impl Fn(&Tensor) -> Tensor + Sync> {
    let compiled = jit(|x: &Tensor| (x - x.mean_keepdim(-1)) * 0.5 + 1.0);
    Attempt {
        setting,
        standardise: move |x: &Tensor| compiled.call(x),
    }
}

impl<F: Fn(&Tensor) -> Tensor + Sync> Attempt<F> {
    fn run(&self) -> Vec<Result<Vec<f64>>> {
        let one = || with_mode(self.setting.mode, || program(&self.standardise));
        if self.setting.threads == 1 {
            return vec![one()];
        }
        std::thread::scope(|scope| {
            let started: Vec<_> = (0..self.setting.threads)
                .map(|_| scope.spawn(one))
                .collect();
            let joined = started.into_iter().map(|thread| thread.join());
            joined.map(|result| result.expect("no panic")).collect()
        })
    }

    /// Runs until everything met is compiled; what came out of each run.
    fn run_until_compiled(&self, plans: u64) -> Vec<Result<Vec<f64>>> {
        let (start, before) = (Instant::now(), stats().plans_built);
        let mut results = Vec::new();
        loop {
            results.extend(self.run());
            if stats().plans_built - before >= plans {
                return results;
            }
            assert!(start.elapsed() < PATIENCE, "nothing was compiled");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// An error of `site` names the operation, its operands and the line of this file.
#[track_caller]
fn documented(site: Site, error: &Error) {
    let kind = error.kind();
    let typed = match site {
        Site::Compile => {
            matches!(kind, ErrorKind::Compile { source_path, .. } if source_path.exists())
        }
        Site::Load => matches!(kind, ErrorKind::Load(_)),
        Site::Allocate => matches!(kind, ErrorKind::OutOfMemory { bytes, .. } if *bytes > 0),
        Site::Launch => matches!(kind, ErrorKind::Internal(message) if message.contains("launch")),
    };
    assert!(typed, "{site:?}: {error}");
    let context = error.context();
    let context = context.unwrap_or_else(|| panic!("{site:?}, no operation is named: {error}"));
    let creates = ["from_slice", "full", "ones", "to_vec"].contains(&context.op);
    assert!(creates || !context.operands.is_empty(), "{site:?}: {error}");
    let line = context.location.map(|l| l.file());
    assert!(
        line.is_some_and(|file| file.ends_with("failures.rs")),
        "{site:?}: {error}"
    );
}

/// What may come of a failure at `site`: errors of these runs, and plans that run on ready-made kernels.
fn outcome(setting: Setting, site: Site, results: &[Result<Vec<f64>>], fallbacks: u64) {
    let Setting {
        strict, threads, ..
    } = setting;
    for result in results {
        match result {
            Ok(numbers) => right(numbers),
            Err(error) => documented(site, error),
        }
    }
    let errors = results.iter().filter(|result| result.is_err()).count();
    // Plans that compile in the background at the same time share the fate of a kernel that both have.
    let alone = threads == 1 && setting.mode != Mode::Tiered;
    let said = format!("{site:?}: {errors} errors, {fallbacks} fallbacks");
    match site {
        // The threads that wait for a kernel share its fate.
        Site::Compile | Site::Load if strict => {
            assert!((1..=threads).contains(&errors) && fallbacks == 0, "{said}");
        }
        Site::Compile | Site::Load => {
            assert!(
                errors == 0 && fallbacks >= 1 && (fallbacks == 1 || !alone),
                "{said}"
            );
        }
        Site::Allocate | Site::Launch => assert!(errors == 1 && fallbacks == 0, "{said}"),
    }
}

fn live() -> u64 {
    stats().live_bytes
}

fn forget() {
    ferrotrace_tracer::clear_plans();
    cache::clear_memory();
}

/// Makes the first, second, .. event of a site fail until there are no more. `cold`: nothing is compiled before.
fn every(setting: Setting, site: Site, cold: bool, base: u64, plans: u64) -> u32 {
    let background = setting.mode == Mode::Tiered && cold;
    for n in 1..MOST {
        if cold {
            forget();
        }
        let before: Stats = stats();
        {
            let attempt = attempt(setting);
            fail(site, n);
            let results = if background {
                attempt.run_until_compiled(plans)
            } else {
                attempt.run()
            };
            let happened = fail(site, 0) == 0;
            let fallbacks = stats().fallbacks - before.fallbacks;
            if !happened {
                results
                    .iter()
                    .for_each(|r| right(r.as_ref().expect("nothing failed")));
                assert_eq!(fallbacks, 0);
                return n - 1;
            }
            outcome(setting, site, &results, fallbacks);
            // The same function, the same forms: the process works on.
            for result in attempt.run() {
                right(&result.expect("the failure has passed"));
            }
        }
        assert_eq!(live(), base, "{site:?} {n} left memory behind");
    }
    panic!("{site:?} never ends");
}

/// What the children run.
#[test]
fn child() {
    let Ok(mode) = std::env::var("FAILURES_MODE") else {
        right(
            &attempt(Setting {
                mode: Mode::Compiled,
                strict: false,
                threads: 1,
            })
            .run()
            .remove(0)
            .expect("no failure"),
        );
        return;
    };
    let mode = match mode.as_str() {
        "eager" => Mode::Eager,
        "tiered" => Mode::Tiered,
        _ => Mode::Compiled,
    };
    let strict = std::env::var("FERROTRACE_STRICT").is_ok();
    let compiler = ferrotrace_runtime::CCompiler::get().is_ok();
    for threads in [1, 3] {
        let setting = Setting {
            mode,
            strict,
            threads,
        };
        forget();
        let before = stats();
        attempt(Setting {
            mode: Mode::Compiled,
            strict,
            threads: 1,
        })
        .run();
        let (base, plans) = (live(), stats().plans_built - before.plans_built);
        assert!(plans >= 2, "{plans}");
        let mut counts = Vec::new();
        for site in [Site::Allocate, Site::Launch] {
            counts.push(every(setting, site, false, base, plans));
        }
        // Compiled again for each failure, so on several threads in one mode alone.
        let cold = threads == 1 || (mode == Mode::Compiled && !strict);
        if compiler && mode != Mode::Eager && cold {
            for site in [Site::Compile, Site::Load] {
                counts.push(every(setting, site, true, base, plans));
            }
        }
        println!("{threads} threads: {counts:?} failures");
        // What was counted is real: several kernels beside inputs, a scan and a scatter.
        assert!(counts[0] >= 6 * threads as u32, "{counts:?}");
        if compiler && mode != Mode::Eager {
            assert!(
                counts[1] >= 2 * threads as u32 && counts[2..].iter().all(|&n| n >= 2),
                "{counts:?}"
            );
        }
    }
}

fn in_a_child(mode: &str, strict: bool) {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", "child", "--nocapture"])
        .env("FAILURES_MODE", mode)
        // Saved sources go there; no kernel is found on disk; each kernel of a plan is compiled in a file of its own.
        .env("FERROTRACE_DUMP", folder.path())
        .env("FERROTRACE_CACHE", "0")
        .env("FERROTRACE_THREADS", "8")
        .env_remove("FERROTRACE_STRICT");
    if strict {
        command.env("FERROTRACE_STRICT", "1");
    }
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complaints}");
    print!("{said}");
}

#[test]
fn compiled() {
    in_a_child("compiled", false);
}

#[test]
fn compiled_strictly() {
    in_a_child("compiled", true);
}

#[test]
fn eager() {
    in_a_child("eager", false);
}

#[test]
fn tiered() {
    in_a_child("tiered", false);
}

/// A compiler that never ends costs speed alone: it is ended, and ready-made kernels compute.
#[test]
fn a_compiler_that_hangs() {
    if std::env::var_os("FAILURES_HANG").is_some() {
        let setting = Setting {
            mode: Mode::Compiled,
            strict: false,
            threads: 1,
        };
        right(&attempt(setting).run().remove(0).expect("no failure"));
        assert!(stats().fallbacks >= 1 && stats().kernels_compiled == 0);
        return;
    }
    if Command::new("gcc").arg("--version").output().is_err() {
        eprintln!("skipped: no gcc");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let compiler = folder.path().join("cc");
    let script = "#!/bin/sh\ncase \"$*\" in *-###*) exec gcc \"$@\" ;; esac\nsleep 600\n";
    std::fs::write(&compiler, script).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&compiler, mode).expect("allowed");
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "a_compiler_that_hangs", "--nocapture"])
        .env("FAILURES_HANG", "1")
        .env("CC", format!("'{}' -g0", compiler.display()))
        .env("FERROTRACE_COMPILE_TIMEOUT", "0.3")
        .env("FERROTRACE_CACHE", "off")
        .env_remove("FERROTRACE_STRICT")
        .output()
        .expect("it starts");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaints}");
    assert!(
        complaints.contains("FERROTRACE_COMPILE_TIMEOUT"),
        "{complaints}"
    );
}
