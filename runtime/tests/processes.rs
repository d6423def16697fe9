//! The cache of kernels seen from one process after another: this test runs its own program as child processes.

use ferrotrace_runtime::{ErrorKind, Grid, KernelSource, Launch, compile_kernels, launch, stats};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn source(n: u32) -> KernelSource {
    let body = format!(
        "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {{\n\
         __atomic_store_n(&a->fault[0], {n}, __ATOMIC_RELAXED); }}\n"
    );
    KernelSource {
        parts: Vec::new(),
        body: body.into(),
        finish: false,
        name: "".into(),
    }
}

/// What a child does: makes the kernel that a variable names, runs it and tells how it came by it.
#[test]
fn child() {
    let Ok(n) = std::env::var("FT_TEST_KERNEL") else {
        return;
    };
    let n = n.parse().expect("a number");
    let told = match &compile_kernels(&[source(n)])[0] {
        Ok(kernel) => {
            let run = Launch {
                kernel,
                buffers: &[],
                params: &[],
                scalars: &[],
                chunks: 1,
                scratch: 0,
                local: 0,
                grid: Grid::default(),
            };
            let fault = launch(&run).expect("runs")[0];
            assert_eq!(fault.site, n as i64);
            let s = stats();
            format!(
                "compiled {} found {}",
                s.kernels_compiled, s.disk_cache_hits
            )
        }
        Err(error) => match error.kind() {
            ErrorKind::NoCompiler(_) => "no compiler".to_owned(),
            _ => error.to_string(),
        },
    };
    println!("told: {told}.");
}

fn run(dir: &Path, n: u32, cache: &str) -> String {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "child", "--nocapture"])
        .env("FT_TEST_KERNEL", n.to_string())
        .env("FERROTRACE_CACHE_DIR", dir.join("cache"))
        .env("FERROTRACE_CACHE", cache)
        .env("CC", dir.join("mycc"))
        .output()
        .expect("runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told = text
        .split_once("told: ")
        .and_then(|(_, rest)| rest.split_once('.'));
    told.map_or(
        format!("{text}{}", String::from_utf8_lossy(&output.stderr)),
        |(t, _)| t.to_owned(),
    )
}

#[test]
fn a_second_process_compiles_nothing_and_needs_no_compiler() {
    if Command::new("gcc").arg("--version").output().is_err() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (compiler, log) = (dir.path().join("mycc"), dir.path().join("runs"));
    let script = format!(
        "#!/bin/sh\necho run >> {}\nexec gcc \"$@\"\n",
        log.display()
    );
    std::fs::write(&compiler, script).expect("written");
    std::fs::set_permissions(&compiler, PermissionsExt::from_mode(0o755)).expect("allowed");
    let runs = || std::fs::read_to_string(&log).map_or(0, |text| text.lines().count());

    assert_eq!(run(dir.path(), 1, "1"), "compiled 1 found 0");
    let cold = runs();
    assert_eq!(run(dir.path(), 1, "1"), "compiled 0 found 1");
    assert_eq!(runs(), cold, "a warm start ran the compiler's driver");
    assert_eq!(run(dir.path(), 1, "0"), "compiled 1 found 0");

    std::fs::remove_file(&compiler).expect("removed");
    assert_eq!(run(dir.path(), 1, "1"), "compiled 0 found 1");
    assert_eq!(run(dir.path(), 2, "1"), "no compiler");
    assert_eq!(run(dir.path(), 1, "0"), "no compiler");
}
