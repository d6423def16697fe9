//! Kernels for CUDA devices, compiled where NVRTC is; run where a device is.

use super::archives;
use ferrotrace::io::{Bundle, BundleOptions, Fallback, save_bundle};
use ferrotrace::prelude::*;

const CPU: Device = Device::cpu();

/// Whether NVRTC is there.
fn compiles() -> bool {
    let found = ferrotrace_runtime::compile_for("sm_80", "__global__ void f() {}").is_ok();
    if !found {
        eprintln!("skipped: no NVRTC");
    }
    found
}

fn network(x: &Tensor, w: &Tensor) -> Tensor {
    let half = x.to_dtype(DType::BF16).matmul(&w.to_dtype(DType::BF16));
    let y = half.gelu().to_dtype(DType::F32);
    let rows = y.softmax(-1) + x.matmul(w).tanh();
    Tensor::cat(&[&rows, &rows.cumsum(-1)], 1).sum(-1)
}

fn inputs() -> (Tensor, Tensor) {
    ferrotrace::manual_seed(5);
    (
        Tensor::randn([64, 128], DType::F32, &CPU),
        Tensor::randn([128, 64], DType::F32, &CPU) * 0.1,
    )
}

#[test]
fn cubins_and_ptx() {
    if !compiles() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    let (x, w) = inputs();
    let f = jit(|(x, w): (&Tensor, &Tensor)| network(x, w));
    let names = ["sm_80", "sm_90a", "sm_100", "compute_80"];
    let mut options = BundleOptions::new();
    for name in names {
        options = options.target(name).expect("a target");
    }
    save_bundle(&path, &f, [(&x, &w)], &options).expect("saved");
    let mut counts = [0; 4];
    for (name, bytes) in archives::entries(&std::fs::read(&path).expect("a file")) {
        for (target, count) in names.iter().zip(&mut counts) {
            if name.starts_with(&format!("kernels/{target}/")) {
                *count += 1;
                let start: &[u8] = if *target == "compute_80" {
                    b"//"
                } else {
                    b"\x7fELF"
                };
                assert!(bytes.starts_with(start), "{name}");
                if *target == "compute_80" {
                    let text = String::from_utf8_lossy(&bytes);
                    assert!(text.contains(".target sm_80"), "{name}");
                }
            }
        }
    }
    assert!(counts.iter().all(|&count| count >= 2), "{counts:?}");
    let error = Bundle::open_with(&path, Fallback::Error).expect_err("another machine");
    assert!(
        error
            .to_string()
            .contains("sm_80, sm_90a, sm_100, compute_80"),
        "{error}"
    );
    // Other machines' kernels do not keep it from running here.
    let mut bundle = Bundle::open(&path).expect("opens");
    assert_eq!(bundle.target(), None);
    let y = bundle.run(&[&x, &w]).expect("run").remove(0);
    assert!(y.allclose(&f.call((&x, &w)), 0.0, 0.0).expect("computed"));
}

#[test]
fn bundles_run_on_the_device() {
    let Ok(device) = Device::cuda_without_compiler(0) else {
        eprintln!("skipped: no CUDA device");
        return;
    };
    if !compiles() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f.ftb");
    let (x, w) = inputs();
    let f = jit(|(x, w): (&Tensor, &Tensor)| network(x, w));
    let (capability, _) = device.capability().expect("a device");
    let own = ferrotrace_runtime::Architecture::Cuda(capability).name();
    for target in [&*own, "compute_80"] {
        let Ok(options) = BundleOptions::new().target(target) else {
            eprintln!("skipped: no bundles for {target}");
            continue;
        };
        save_bundle(&path, &f, [(&x, &w)], &options).expect("saved");
        let bundle = Bundle::open_on(&path, Fallback::Error, &device);
        let mut bundle = bundle.expect("opens");
        assert_eq!(bundle.target().as_deref(), Some(target));
        let (x, w) = (x.to_device(&device), w.to_device(&device));
        for _ in 0..4 {
            let y = bundle.run(&[&x, &w]).expect("run").remove(0);
            let y = y.to_device(&CPU);
            let expected = with_mode(Mode::Eager, || {
                network(&x.to_device(&CPU), &w.to_device(&CPU))
            });
            assert!(
                y.allclose(&expected, 1e-2, 1e-2).expect("computed"),
                "{y} {expected}"
            );
        }
    }
}

/// Tensors of a device by DLPack, without copies.
#[test]
fn tensors_pass_by_dlpack_on_the_device() {
    let Ok(device) = Device::cuda(0) else {
        eprintln!("skipped: no CUDA device");
        return;
    };
    let x = Tensor::arange(0, 12, 1, DType::F32, &device).reshape([3, 4]);
    let handed = x.t().to_dlpack().expect("computed");
    // SAFETY: the pointer is of a tensor that was just made.
    let back = unsafe { ferrotrace::DlTensor::from_raw(handed.into_raw()) }.expect("not null");
    let y = Tensor::from_dlpack(back);
    assert_eq!((y.dims(), y.device()), (&[4, 3][..], device));
    drop(x);
    let sums = (y * 2.0).sum(0).to_vec::<f32>().expect("computed");
    assert_eq!(sums, [12.0, 44.0, 76.0]);
}
