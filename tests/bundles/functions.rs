//! Compiled functions bundled: constants, sizes, numbers, random numbers, several results and several signatures.

use ferrotrace::io::{Bundle, BundleOptions, Fallback, save_bundle};
use ferrotrace::prelude::*;
use ferrotrace::{Generator, manual_seed};

const CPU: Device = Device::cpu();

fn range(shape: &[usize]) -> Tensor {
    let n: usize = shape.iter().product();
    Tensor::from_vec((0..n).map(|i| i as f32 / 7.0).collect(), shape, &CPU)
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.dtype() == b.dtype() && a.dims() == b.dims() && a.allclose(b, 0.0, 0.0).expect("computed")
}

/// A file in a folder that lives as long as it.
fn file() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    (folder, path)
}

#[test]
fn constants_and_several_results() {
    let (_folder, path) = file();
    // Captured tensors: a window that is not dense, and one that is a result as it is.
    let (w, kept) = (range(&[5, 6]).t().narrow(0, 1, 4), range(&[2]));
    let captured = kept.clone();
    let f = jit(move |(x, b): (&Tensor, &Tensor)| {
        let y = x.matmul(&w);
        ((&y + b).gelu(), y.argmax(-1), x.clone(), captured.clone())
    });
    let (x, b) = (range(&[3, 4]), range(&[5]));
    save_bundle(&path, &f, [(&x, &b)], &BundleOptions::new()).expect("saved");
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    let names: Vec<String> = bundle.inputs().into_iter().map(|port| port.name).collect();
    assert_eq!(names, ["input_0", "input_1"]);
    assert_eq!(
        (bundle.outputs().len(), bundle.made_for()),
        (4, &[vec![vec![3, 4], vec![5]]][..])
    );
    for rows in [3, 5] {
        let x = range(&[rows, 4]);
        let (y, at, passed, constant) = f.call((&x, &b));
        let results = bundle.run(&[&x, &b]).expect("run");
        for (is, expected) in results.iter().zip([y, at, passed, constant]) {
            assert!(same(is, &expected));
        }
    }
    // Eager mode runs the same program on ready-made kernels.
    let eager = with_mode(Mode::Eager, || bundle.run(&[&x, &b])).expect("run");
    assert!(
        eager[0]
            .allclose(&f.call((&x, &b)).0, 1e-6, 1e-6)
            .expect("computed")
    );
    assert!(same(&eager[3], &kept));
}

#[test]
fn numbers_are_fixed_and_sizes_that_were_asked_for_too() {
    let (_folder, path) = file();
    let f = jit(|(x, scale): (&Tensor, f64)| x * scale / x.dims()[0] as f64);
    let (two, four) = (range(&[2, 3]), range(&[4, 3]));
    save_bundle(
        &path,
        &f,
        [(&two, 3.0), (&four, 3.0)],
        &BundleOptions::new(),
    )
    .expect("saved");
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    for x in [&two, &four] {
        assert!(same(&bundle.run(&[x]).expect("run")[0], &f.call((x, 3.0))));
    }
    for wrong in [range(&[3, 3]), two.to_dtype(DType::F64), range(&[6])] {
        let error = bundle.run(&[&wrong]).expect_err("no trace").to_string();
        assert!(
            error.contains("the bundle takes (f32[2, 3]), (f32[4, 3])"),
            "{error}"
        );
    }
    assert!(bundle.run(&[]).is_err() && bundle.run(&[&two, &two]).is_err());
}

#[test]
fn random_numbers_are_drawn_from_the_process_generator() {
    let _drawing = super::drawing();
    let (_folder, path) = file();
    let f = jit(|x: &Tensor| {
        let noise = Tensor::randn([4, 5], DType::F32, &CPU);
        (x + noise).dropout(0.5) + Tensor::rand(5, DType::F32, &CPU)
    });
    let x = range(&[4, 5]);
    save_bundle(&path, &f, [&x], &BundleOptions::new()).expect("saved");
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    let draw = |call: &mut dyn FnMut() -> Tensor| {
        manual_seed(11);
        [call(), call()].map(|x| x.to_vec::<f32>().expect("computed"))
    };
    let expected = draw(&mut || f.call(&x));
    assert_ne!(expected[0], expected[1]);
    assert_eq!(
        draw(&mut || bundle.run(&[&x]).expect("run").remove(0)),
        expected
    );
    let own = Generator::new(3);
    let f = jit(move |x: &Tensor| x + own.randn([4, 5], DType::F32, &CPU));
    let error = save_bundle(&path, &f, [&x], &BundleOptions::new()).expect_err("its own");
    assert!(
        error.to_string().contains("generator of its own"),
        "{error}"
    );
}

#[test]
fn dtypes_layouts_and_empty_tensors() {
    let (_folder, path) = file();
    let f = jit(|(a, b): (&Tensor, &Tensor)| {
        let wide = a.to_dtype(DType::F64) + b.to_dtype(DType::F64);
        (
            wide.to_dtype(DType::BF16),
            wide.gt(3.0),
            wide.sum(()),
            b * 2,
        )
    });
    for (a, b) in [
        (
            range(&[3, 4]).to_dtype(DType::F16),
            range(&[3, 1]).to_dtype(DType::I32),
        ),
        (range(&[4, 3]).t(), range(&[]).to_dtype(DType::I64)),
        (range(&[0, 4]), range(&[4]).to_dtype(DType::U8)),
    ] {
        save_bundle(&path, &f, [(&a, &b)], &BundleOptions::new()).expect("saved");
        let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
        let (w, x, y, z) = f.call((&a, &b));
        let results = bundle.run(&[&a, &b]).expect("run");
        for (is, expected) in results.iter().zip([w, x, y, z]) {
            assert!(same(is, &expected), "{is} {expected}");
        }
    }
}

#[test]
fn functions_that_cannot_be_kept() {
    let (_folder, path) = file();
    let x = range(&[3]);
    let reads = jit(|x: &Tensor| match x.sum(()).to_scalar::<f32>() {
        Ok(sum) if sum > 0.0 => x.exp(),
        _ => x.clone(),
    });
    let fails = jit(|x: &Tensor| x.reshape([7]));
    for error in [
        save_bundle(&path, &reads, [&x], &BundleOptions::new()),
        save_bundle(&path, &fails, [&x], &BundleOptions::new()),
    ] {
        let error = error.expect_err("no trace").to_string();
        assert!(error.contains("cannot be kept"), "{error}");
    }
    assert!(!path.exists());
}

#[test]
fn frozen_functions_and_weights_that_require_gradients() {
    let (_folder, path) = file();
    let w = range(&[64, 64]).requires_grad();
    let f = jit(move |x: &Tensor| x.matmul(&(&w * 2.0).t())).freeze();
    let x = range(&[16, 64]);
    save_bundle(&path, &f, [&x], &BundleOptions::new()).expect("saved");
    let mut bundle = Bundle::open_with(&path, Fallback::Error).expect("opens");
    let expected = no_grad(|| f.call(&x));
    for _ in 0..2 {
        let y = bundle.run(&[&x]).expect("run").remove(0);
        assert!(y.allclose(&expected, 1e-5, 1e-4).expect("computed"));
    }
}
