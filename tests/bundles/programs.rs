//! Programs of `torch.export` bundled by the tool, and run without a compiler, against what PyTorch computed.

use super::{bare_tool, fixture, said, text};
use ferrotrace::io::{Bundle, BundleOptions, ExportedProgram, Fallback};
use ferrotrace::prelude::*;
use std::path::{Path, PathBuf};
use std::process::Command;

fn calls(folder: &Path) -> Vec<PathBuf> {
    let folders = (0..).map(|i| folder.join(format!("call{i}")));
    folders.take_while(|folder| folder.exists()).collect()
}

/// Bundles a fixture for its calls.
fn bundled(name: &str, path: &Path, more: &[&str]) {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_ferrotrace"));
    tool.arg("bundle").arg(fixture(name).join("model.pt2"));
    tool.arg("-o").arg(path).args(more);
    for call in calls(&fixture(name)) {
        tool.arg("--call").arg(call);
    }
    said(tool);
}

/// Runs a bundle's calls without a compiler, on a number of threads.
pub fn checked(name: &str, path: &Path, threads: &str) {
    let cache = tempfile::tempdir().expect("a folder");
    let mut tool = bare_tool(cache.path());
    tool.env("FERROTRACE_THREADS", threads);
    tool.arg("run").arg(path).args(["--missing", "error"]);
    for call in calls(&fixture(name)) {
        tool.arg("--call").arg(call);
    }
    let text = said(tool);
    assert!(text.contains("tensors equal"), "{text}");
}

#[test]
fn programs_run_without_a_compiler() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in [
        "nested",
        "dynamic",
        "model_mlp",
        "model_gpt",
        "complex",
        "model_training",
    ] {
        let path = folder.path().join(format!("{name}.ftb"));
        bundled(name, &path, &[]);
        checked(name, &path, "2");
        checked(name, &path, "1");
    }
}

/// What has no calls to be bundled for is run on inputs that the tool makes, matrices that have inverses among them.
#[test]
fn programs_that_invert_matrices_need_no_calls() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["matrices", "matrices_core"] {
        let path = folder.path().join(format!("{name}.ftb"));
        let mut tool = Command::new(env!("CARGO_BIN_EXE_ferrotrace"));
        tool.arg("bundle").arg(fixture(name).join("model.pt2"));
        said({
            tool.arg("-o").arg(&path);
            tool
        });
        checked(name, &path, "2");
    }
}

#[test]
fn weights_lie_beside() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, weights) = (
        folder.path().join("m.ftb"),
        folder.path().join("w.safetensors"),
    );
    bundled(
        "model_mlp",
        &path,
        &["--weights", weights.to_str().expect("a path")],
    );
    checked("model_mlp", &path, "2");
    // The archive of the program itself.
    let model = folder.path().join("model.pt2");
    std::fs::copy(fixture("model_mlp").join("model.pt2"), &model).expect("copied");
    let by_model = folder.path().join("by_model.ftb");
    bundled(
        "model_mlp",
        &by_model,
        &["--weights", model.to_str().expect("a path")],
    );
    checked("model_mlp", &by_model, "2");
    let mut bytes = std::fs::read(&weights).expect("written");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&weights, bytes).expect("written");
    let error = Bundle::open(&path).expect_err("changed").to_string();
    assert!(error.contains("is not the file that"), "{error}");
    std::fs::remove_file(&weights).expect("removed");
    let error = Bundle::open(&path).expect_err("gone").to_string();
    assert!(error.contains("w.safetensors"), "{error}");
}

/// Kernels of every level of x86-64 that this machine runs, each by itself.
#[cfg(target_arch = "x86_64")]
#[test]
fn lower_levels_run_on_higher_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = ferrotrace_runtime::Architecture::host().name();
    let mut levels = vec!["x86-64-v2", "x86-64-v3", "x86-64-v4"];
    for level in levels.clone() {
        let path = folder.path().join(format!("{level}.ftb"));
        bundled("model_mlp", &path, &["--target", level]);
        match Bundle::open_with(&path, Fallback::Error) {
            Ok(bundle) => {
                assert_eq!(bundle.target().as_deref(), Some(level));
                checked("model_mlp", &path, "2");
            }
            Err(error) => {
                assert!(*level > *here, "{level} on {here}: {error}");
                let error = error.to_string();
                assert!(error.contains(level) && error.contains(&here), "{error}");
                levels.retain(|other| *other != level);
            }
        }
    }
    let all = folder.path().join("all.ftb");
    bundled(
        "model_mlp",
        &all,
        &["--target", "x86-64-v2,x86-64-v3,x86-64-v4"],
    );
    let bundle = Bundle::open(&all).expect("opens");
    assert_eq!(bundle.target().as_deref(), levels.last().copied());
    assert_eq!(bundle.targets(), ["x86-64-v2", "x86-64-v3", "x86-64-v4"]);
}

fn nested_inputs() -> Vec<Tensor> {
    let file = |name: &str| fixture("nested").join(format!("call0/in_{name}.npy"));
    let load = |name| io::load_npy(file(name), &Device::cpu()).expect("an array");
    ["x", "d_a", "d_b_0"].map(load).to_vec()
}

#[test]
fn what_was_changed_and_narrowed_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nested.ftb");
    let inputs = nested_inputs();
    let inputs: Vec<&Tensor> = inputs.iter().collect();
    let mut program = ExportedProgram::load(fixture("nested").join("model.pt2")).expect("loaded");
    program.run(&inputs).expect("run");
    program
        .save_bundle(&path, &[&inputs], &BundleOptions::new())
        .expect("saved");
    // Making a bundle runs the program, and leaves its state alone.
    let cache = |state: io::TensorMap| state["cache"].to_vec::<f32>().expect("stored");
    assert_eq!(cache(program.state_dict()), [1.0; 16]);
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    let expected = program.run(&inputs).expect("run");
    let results = bundle.run(&inputs).expect("run");
    assert_eq!(results.len(), expected.len());
    for (is, expected) in results.iter().zip(&expected) {
        assert!(is.allclose(expected, 0.0, 0.0).expect("computed"));
    }
    assert_eq!(cache(bundle.state_dict()), [2.0; 16]);

    let narrow = ExportedProgram::load(fixture("mha_core").join("model.pt2")).expect("loaded");
    let mut narrow = narrow.bfloat16().expect("converted");
    let x = io::load_npy(fixture("mha_core").join("call0/in_a_0.npy"), &Device::cpu());
    let x = x.expect("an array").to_dtype(DType::BF16);
    narrow
        .save_bundle(&path, &[&[&x]], &BundleOptions::new())
        .expect("saved");
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    let (results, expected) = (bundle.run(&[&x]), narrow.run(&[&x]));
    for (is, expected) in results.expect("run").iter().zip(&expected.expect("run")) {
        assert_eq!((is.dtype(), is.dims()), (DType::BF16, expected.dims()));
        assert!(is.allclose(expected, 0.0, 0.0).expect("computed"));
    }
}

/// A program of any sizes, with the kernels of one: what becomes of sizes that need others.
#[test]
fn other_sizes_are_compiled_run_ready_made_or_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    let f = jit(|x: &Tensor| (x.exp() + 1.0).sum(-1));
    let (x, narrow) = (
        Tensor::ones([8, 300], DType::F32, &Device::cpu()),
        Tensor::ones([8, 1], DType::F32, &Device::cpu()),
    );
    io::save_bundle(&path, &f, [&x], &BundleOptions::new()).expect("saved");
    // A size of 1 has no loop, and so another trace.
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    let error = bundle
        .run(&[&narrow])
        .expect_err("another form")
        .to_string();
    assert!(error.contains("the bundle takes"), "{error}");
    // Few long rows are summed in pieces: another kernel.
    let columns = 1 << 21;
    let long = Tensor::ones([2, columns], DType::F32, &Device::cpu());
    let error = bundle.run(&[&long]).expect_err("another kernel");
    assert!(
        matches!(error.kind(), ferrotrace::ErrorKind::NoKernel(_)),
        "{error}"
    );
    for fallback in [Fallback::Compile, Fallback::ReadyMade] {
        let mut bundle = Bundle::open_with(&path, fallback).expect("opens");
        for _ in 0..2 {
            let y = bundle.run(&[&long]).expect("run")[0].to_vec::<f32>();
            for y in y.expect("computed") {
                let mean = f64::from(y) / columns as f64;
                assert!((mean - (1f64.exp() + 1.0)).abs() < 1e-5, "{mean}");
            }
        }
    }
}

#[test]
fn the_tool_says_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = fixture("model_mlp").join("model.pt2");
    let path = folder.path().join("m.ftb");
    for (arguments, part) in [
        (&["--target", "pdp-11"][..], "pdp-11"),
        (&["--sizes", "batch"], "SYMBOL=SIZE"),
        (
            &["--weights", "/elsewhere/w.safetensors"],
            "must lie in its folder",
        ),
    ] {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_ferrotrace"));
        tool.arg("bundle")
            .arg(&model)
            .arg("-o")
            .arg(&path)
            .args(arguments);
        let output = tool.output().expect("the program runs");
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output).contains(part), "{}", text(&output));
        assert!(!path.exists());
    }
}
