//! The public names of files, as outside programs use them.

use ferrotrace::io::{load_npy, load_safetensors, save_npy, save_safetensors};
use ferrotrace::prelude::*;

fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

#[track_caller]
fn close(a: &Tensor, expected: &[f64]) {
    let got = a.to_dtype(DType::F64).to_vec::<f64>().unwrap();
    assert_eq!(got, expected);
}

fn path(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("ferrotrace-api-uses-{}-{name}", std::process::id()))
}

#[test]
fn npy() -> Result<()> {
    let file = path("x.npy");
    let x = v(&[1.0, 2.0, 3.0, 4.0]).reshape([2, 2]).t();
    save_npy(&file, &x)?;
    let y = load_npy(&file, &Device::cpu())?;
    assert_eq!((y.dims(), y.dtype()), (&[2, 2][..], DType::F32));
    close(&y, &[1.0, 3.0, 2.0, 4.0]);
    std::fs::remove_file(&file).unwrap();
    assert!(load_npy(&file, &Device::cpu()).is_err());
    Ok(())
}

#[test]
fn safetensors() -> Result<()> {
    let file = path("x.safetensors");
    let (w, b) = (v(&[1.0, 2.0]), v(&[3.0]).to_dtype(DType::BF16));
    save_safetensors(&file, &[("w", &w), ("b", &b)])?;
    let loaded = load_safetensors(&file, &Device::cpu())?;
    close(&loaded["w"], &[1.0, 2.0]);
    close(&loaded["b"], &[3.0]);
    assert_eq!((loaded.len(), loaded["b"].dtype()), (2, DType::BF16));
    std::fs::remove_file(&file).unwrap();
    let bad = w.matmul(&v(&[1.0, 2.0, 3.0]));
    assert!(save_npy(&file, &bad).is_err() && !file.exists());
    Ok(())
}
