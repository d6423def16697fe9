//! Functions and programs with branches and loops, bundled: sub-programs and their kernels are inside.

use super::{bare_tool, fixture, said};
use ferrotrace::io::{
    Bundle, BundleOptions, ExportedProgram, Fallback, save_bundle, save_npy, save_npz,
};
use ferrotrace::prelude::*;
use ferrotrace::{bounded_while_loop, cond, manual_seed, map, scan, scan_reversed, while_loop};
use std::path::Path;

const CPU: Device = Device::cpu();

fn of(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, values.len(), &CPU)
}

fn numbers(tensors: &[Tensor]) -> Vec<Vec<f64>> {
    let values = |x: &Tensor| x.to_dtype(DType::F64).to_vec().expect("computed");
    tensors.iter().map(values).collect()
}

/// Runs a bundle's call where no compiler is: its results are these.
fn runs_bare(path: &Path, inputs: &[&Tensor], expected: &[Tensor]) {
    let folder = tempfile::tempdir().expect("a folder");
    for (at, input) in inputs.iter().enumerate() {
        let file = folder.path().join(format!("in_input_{at}.npy"));
        save_npy(file, input).expect("written");
    }
    let names: Vec<String> = (0..expected.len()).map(|i| format!("output_{i}")).collect();
    let named = names.iter().map(String::as_str).zip(expected);
    save_npz(
        folder.path().join("expected.npz"),
        &named.collect::<Vec<_>>(),
    )
    .expect("written");
    let cache = tempfile::tempdir().expect("a folder");
    let mut tool = bare_tool(cache.path());
    tool.arg("run").arg(path).args(["--missing", "error"]);
    tool.args(["--rtol", "0", "--atol", "0", "--call"])
        .arg(folder.path());
    let text = said(tool);
    assert!(text.contains("tensors equal"), "{text}");
}

/// Doubles until the sum is above a limit, by another branch where it is negative.
fn until(x: &Tensor, limit: f64) -> (Tensor, Tensor) {
    let count = Tensor::scalar(0i64, DType::I64, &CPU);
    let step = |(x, n): &(Tensor, Tensor)| {
        let next = cond(
            &x.sum(..).lt(0.0),
            |x| x.neg() + 0.5,
            |x| (x * 2.0).tanh() + x,
            x,
        );
        (next, n + 1)
    };
    let goes_on = |(x, _): &(Tensor, Tensor)| x.sum(..).lt(limit);
    while_loop(goes_on, step, &(x.clone(), count))
}

/// Examples that take one branch and no step stand for calls that take the other, and many.
#[test]
fn what_examples_do_not_reach_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    let f = jit(|x: &Tensor| until(x, 3.0));
    let (done, positive, negative) = (
        of(&[4.0, 1.0, 1.0]),
        of(&[0.1, 0.2, 0.1]),
        of(&[-1.0, 0.5, -0.2]),
    );
    save_bundle(&path, &f, [&done], &BundleOptions::new()).expect("saved");
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    for (x, steps) in [(&done, 0), (&positive, 2), (&negative, 2)] {
        let (y, n) = f.call(x);
        let expected = [y, n];
        let results = bundle.run(&[x]).expect("run");
        assert_eq!(numbers(&results), numbers(&expected));
        assert!(numbers(&results)[1][0] >= f64::from(steps));
        runs_bare(&path, &[x], &expected);
    }
}

/// All kinds of control flow, within another, with captured tensors and numbers.
#[test]
fn functions_with_all_control_flow() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    let w = of(&[0.5, -0.25, 1.5]);
    let f = jit(move |(x, rows, scale): (&Tensor, &Tensor, f64)| {
        let inner = |h: &Tensor, row: &Tensor| {
            let h = bounded_while_loop(4, |h| h.sum(..).lt(2.0), |h| h + row.abs() + scale, h);
            (h.clone() * 0.5, (h * &w).sum(..))
        };
        let (last, sums) = scan(inner, x, rows);
        let (back, all) = scan_reversed(|h: &Tensor, row: &Tensor| (h * row, h - row), x, rows);
        let mapped = map(
            |row: &Tensor| cond(&row.sum(..).gt(0.0), |r| r.exp(), |r| r * &w, row),
            rows,
        );
        (last, sums, (back, all, mapped))
    });
    let x = of(&[1.0, -2.0, 0.25]);
    let rows = Tensor::from_slice(
        &[
            0.1f32, 0.2, 0.3, -1.0, 0.5, 0.25, 2.0, 1.0, 0.125, -0.5, -0.5, 0.75,
        ],
        [4, 3],
        &CPU,
    );
    save_bundle(&path, &f, [(&x, &rows, 0.5)], &BundleOptions::new()).expect("saved");
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");

    for rows in [rows.clone(), rows.neg()] {
        let (last, sums, (back, all, mapped)) = f.call((&x, &rows, 0.5));
        let expected = [last, sums, back, all, mapped];
        let results = bundle.run(&[&x, &rows]).expect("run");
        assert_eq!(numbers(&results), numbers(&expected));
        runs_bare(&path, &[&x, &rows.contiguous()], &expected);
    }
    // Bodies that are given other layouts may need other kernels, which are compiled or refused.
    let strided = rows.t().contiguous().t();
    let mut compiling = Bundle::open(&path).expect("opens");
    let found = compiling.run(&[&x, &strided]).expect("run");
    let (last, sums, (back, all, mapped)) = f.call((&x, &strided, 0.5));
    let expected = [last, sums, back, all, mapped];
    assert_eq!(numbers(&found), numbers(&expected));
    // Eager mode runs the same sub-programs on ready-made kernels.
    let (last, ..) = f.call((&x, &rows, 0.5));
    let eager = with_mode(Mode::Eager, || bundle.run(&[&x, &rows])).expect("run");
    assert!(eager[0].allclose(&last, 1e-6, 1e-6).expect("computed"));
    // Sizes that bodies were recorded for are the only ones.
    let error = bundle
        .run(&[&x, &rows.narrow(0, 0, 3)])
        .expect_err("other sizes");
    assert!(error.to_string().contains("the bundle takes"), "{error}");
}

#[test]
fn gradients_and_random_numbers_of_loops() {
    let _drawing = super::drawing();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    let f = jit(|(x, rows): (&Tensor, &Tensor)| {
        let of = |x: &Tensor| {
            let step = |h: &Tensor, row: &Tensor| {
                let noise = Tensor::rand(2, DType::F32, &CPU);
                (h * row.sin() + noise, h.square().sum(..))
            };
            let (h, sums) = scan(step, x, rows);
            h.sum(..) + sums.sum(..)
        };
        let (value, gradient) = value_and_grad(x, of);
        let walk = while_loop(
            |x: &Tensor| x.sum(..).lt(8.0),
            |x| x + Tensor::rand(2, DType::F32, &CPU),
            x,
        );
        (value, gradient, walk)
    });
    let (x, rows) = (
        of(&[0.5, -1.0]),
        Tensor::from_slice(&[0.1f32, 0.2, 0.3, 0.4, 0.5, 0.6], [3, 2], &CPU),
    );
    save_bundle(&path, &f, [(&x, &rows)], &BundleOptions::new()).expect("saved");
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    manual_seed(5);
    let expected: Vec<_> = (0..2)
        .map(|_| {
            let (value, gradient, walk) = f.call((&x, &rows));
            numbers(&[value, gradient, walk])
        })
        .collect();
    assert_ne!(expected[0], expected[1]);
    manual_seed(5);
    let found: Vec<_> = (0..2)
        .map(|_| numbers(&bundle.run(&[&x, &rows]).expect("run")))
        .collect();
    assert_eq!(found, expected);
}

/// Exported operators of control flow; the bundle's example takes other branches than the call.
#[test]
fn exported_programs_with_control_flow() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["control_flow", "control_flow_core"] {
        let path = folder.path().join(format!("{name}.ftb"));
        let mut program = ExportedProgram::load(fixture(name).join("model.pt2")).expect("loaded");
        let call = fixture(name).join("call0");
        let ports = program.inputs();
        let load = |port: &io::Port| io::load_npy(call.join(format!("in_{}.npy", port.name)), &CPU);
        let inputs: Vec<Tensor> = ports
            .iter()
            .map(load)
            .collect::<Result<_>>()
            .expect("inputs");
        let negated: Vec<Tensor> = inputs.iter().map(Tensor::neg).collect();
        let (inputs, negated): (Vec<_>, Vec<_>) =
            (inputs.iter().collect(), negated.iter().collect());
        program
            .save_bundle(&path, &[&negated], &BundleOptions::new())
            .expect("saved");
        let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
        let (found, expected) = (bundle.run(&inputs), program.run(&inputs));
        assert_eq!(
            numbers(&found.expect("run")),
            numbers(&expected.expect("run"))
        );
        super::programs::checked(name, &path, "2");
    }
}
