//! The library from C and from Python, against numbers that this test knows.

use ferrotrace::prelude::*;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The library, which lies where the tests do, or in the folder above.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    let name = if cfg!(target_os = "macos") {
        "libferrotrace_c.dylib"
    } else {
        "libferrotrace_c.so"
    };
    let folders = test.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join(name))
        .find(|path| path.exists());
    found.expect("the library is built with its tests")
}

/// A bundle: x + b, and the sums of its rows.
fn bundle(folder: &Path) -> PathBuf {
    let path = folder.join("f.ftb");
    let f = jit(|(x, b): (&Tensor, &Tensor)| {
        let y = x + b;
        (y.clone(), y.sum(-1))
    });
    let cpu = Device::cpu();
    let x = Tensor::zeros([2, 3], DType::F32, &cpu);
    let turned = Tensor::zeros([3, 2], DType::F32, &cpu).t();
    let b = Tensor::zeros(3, DType::F32, &cpu);
    let examples = [(&x, &b), (&turned, &b)];
    io::save_bundle(&path, &f, examples, &io::BundleOptions::new()).expect("saved");
    path
}

/// Where no compiler and no kernel of an earlier run is found.
fn bare(program: impl AsRef<std::ffi::OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .env_clear()
        .env("PATH", "/nonexistent")
        .env("CC", "/nonexistent/cc")
        .env("FERROTRACE_CACHE_DIR", folder.join("cache"))
        .env("FERROTRACE_STRICT", "1");
    command
}

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    format!("{}\n{}", output.status, String::from_utf8_lossy(&all))
}

fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.exists())
}

#[test]
fn from_c() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, library) = (folder.path().join("run"), library());
    let place = library.parent().expect("a folder");
    let mut compile = Command::new("cc");
    compile
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg(here("tests/run.c"))
        .arg("-I")
        .arg(here("include"))
        .arg("-L")
        .arg(place)
        .arg(format!("-Wl,-rpath,{}", place.display()))
        .args(["-lferrotrace_c", "-o"])
        .arg(&program);
    let compiled = compile.output().expect("a C compiler");
    assert!(compiled.status.success(), "{}", text(&compiled));
    let bundle = bundle(folder.path());
    let output = bare(&program, folder.path()).arg(bundle).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", text(&output));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = said.lines().map(str::trim).collect();
    assert_eq!(
        lines[0],
        "2 inputs, 2 outputs, input_0: f32[s0_0, s0_1] of rank 2"
    );
    // Rows 1 2 3 and 4 5 6 with 10 20 30 added, three times; then the last sums.
    let (rows, sums) = ("11 22 33 14 25 36", "66 75");
    assert_eq!(lines[1..], [rows, sums, rows, sums, rows, sums, sums]);
}

/// Python itself, which may stand behind a script.
fn python() -> Option<PathBuf> {
    let mut ask = Command::new(find("python3")?);
    let output = ask
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let said = String::from_utf8(output.ok()?.stdout).ok()?;
    Some(PathBuf::from(said.trim()))
}

#[test]
fn from_python() {
    let Some(python) = python() else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let bundle = bundle(folder.path());
    let mut command = bare(python, folder.path());
    command.arg(here("tests/run.py")).arg(library()).arg(bundle);
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("done"));
}

#[test]
fn the_header_is_cxx_too() {
    let Some(compiler) = find("c++") else {
        eprintln!("skipped: there is no c++");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let source = folder.path().join("x.cpp");
    let program =
        "#include \"ferrotrace.h\"\n#include \"ferrotrace.h\"\nint main() { return 0; }\n";
    std::fs::write(&source, program).expect("written");
    let mut compile = Command::new(compiler);
    compile.args(["-Wall", "-Werror", "-fsyntax-only", "-I"]);
    let output = compile.arg(here("include")).arg(&source).output();
    let output = output.expect("a compiler");
    assert!(output.status.success(), "{}", text(&output));
}
