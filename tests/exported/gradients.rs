//! Gradients through drawn programs equal PyTorch's, in both modes.

use ferrotrace::io::{ExportedProgram, load_npy};
use ferrotrace::prelude::*;
use std::path::{Path, PathBuf};

/// The drawn programs, those of the folder that `FERROTRACE_DRAWN_PROGRAMS` names if it does.
fn programs() -> Vec<PathBuf> {
    let data = || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exported/data");
    let folder = std::env::var_os("FERROTRACE_DRAWN_PROGRAMS").map_or_else(data, PathBuf::from);
    let entries = std::fs::read_dir(folder).expect("programs");
    let paths = entries.map(|entry| entry.expect("a folder").path());
    let mut drawn: Vec<PathBuf> = paths.filter(|path| inputs(path).next().is_some()).collect();
    drawn.sort();
    drawn
}

/// The inputs of a program that have a gradient, in order.
fn inputs(program: &Path) -> impl Iterator<Item = String> {
    let call = program.join("call0");
    let names = (0..).map(|i| format!("x{i}"));
    names.take_while(move |name| call.join(format!("gradient_{name}.npy")).exists())
}

/// The sum over all results of their elements, the element i of each weighed by cos(0.7 i + 0.3).
fn loss(results: &[Tensor]) -> Tensor {
    let floats = results.iter().filter(|result| result.dtype().is_float());
    let sum = |result: &Tensor| {
        let row = result.reshape([-1]).to_dtype(DType::F64);
        let at = Tensor::arange(0, row.numel(), 1, DType::F64, &Device::cpu());
        (row * (at * 0.7 + 0.3).cos()).sum(..)
    };
    floats.map(sum).reduce(|a, b| a + b).expect("a float")
}

/// What differs from PyTorch's gradients.
fn differences(program: &Path) -> Result<Vec<String>> {
    let call = program.join("call0");
    let load =
        |kind: &str, name: &str| load_npy(call.join(format!("{kind}_{name}.npy")), &Device::cpu());
    let names: Vec<String> = inputs(program).collect();
    let given = names
        .iter()
        .map(|name| Ok(load("in", name)?.requires_grad()));
    let given: Vec<Tensor> = given.collect::<Result<_>>()?;
    let borrowed: Vec<&Tensor> = given.iter().collect();
    let exported = ExportedProgram::load(program.join("model.pt2"))?;
    let results = exported.run_pure(&exported.state_dict(), &borrowed)?;
    let mut found = Vec::new();
    for (name, gradient) in names.iter().zip(grad(&loss(&results), &borrowed)) {
        let want = load("gradient", name)?.to_dtype(DType::F64);
        let bound = match gradient.dtype() {
            DType::F64 => 1e-7,
            _ => 2e-3,
        };
        let scale = want.abs().max(..).to_scalar::<f64>()?.max(1.0);
        if !gradient
            .to_dtype(DType::F64)
            .allclose(&want, 0.0, bound * scale)?
        {
            found.push(name.clone());
        }
    }
    Ok(found)
}

#[test]
fn gradients_equal_those_of_pytorch() {
    let programs = programs();
    assert!(programs.len() >= 10);
    let mut wrong = Vec::new();
    for program in &programs {
        for mode in [Mode::Eager, Mode::Compiled] {
            match with_mode(mode, || differences(program)) {
                Ok(names) if names.is_empty() => {}
                other => wrong.push(format!("{} {mode:?}: {other:?}", program.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Numbers rounded as integers would be have the slope of what is rounded, but where it is clamped.
#[test]
fn gradients_pass_rounding() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exported/data/quantized");
    let names = [0, 1, 2].map(|i| folder.join(format!("call0/in_a_{i}.npy")));
    let [x, w, scales] = names.map(|name| load_npy(name, &Device::cpu()).expect("an input"));
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let program = ExportedProgram::load(folder.join("model.pt2")).expect("a program");
            let (x, w) = (x.requires_grad(), w.requires_grad());
            let results = program.run_pure(&program.state_dict(), &[&x, &w, &scales]);
            let results = results.expect("results");
            // fake_quantize_per_tensor_affine(x, 0.1, 2, -8, 7) and that of the channels of w.
            let of = |at: usize, x: &Tensor| grad(&results[at].sum(..), &[x]).remove(0);
            let inside = |at: Tensor| at.ge(-8.0).logical_and(&at.le(7.0)).to_dtype(DType::F32);
            let found = inside((x.detach() * 10.0).round() + 2.0);
            assert!(of(20, &x).allclose(&found, 0.0, 0.0).expect("numbers"));
            let zero = Tensor::from_slice(&[1.0f32, -2.0, 0.0], (3, 1), &Device::cpu());
            let found = inside((w.detach() * scales.recip().unsqueeze(1)).round() + zero);
            assert!(of(22, &w).allclose(&found, 0.0, 0.0).expect("numbers"));
            let clamped = found.mean(..).item::<f32>().expect("a number");
            assert!(clamped > 0.0 && clamped < 1.0);
        });
    }
}
