//! Files read to a CUDA device and written from one, where there is one.

use crate::common::*;
use ferrotrace::io::{Checkpoint, load_npz, load_pt, load_safetensors, save_npz, save_safetensors};
use ferrotrace::prelude::*;

/// The first CUDA device, or what is missing, printed.
fn device() -> Option<Device> {
    let device = Device::cuda(0);
    device
        .inspect_err(|error| eprintln!("skipped: {error}"))
        .ok()
}

#[test]
fn every_dtype_comes_back() {
    let Some(device) = device() else { return };
    both(|| {
        let folder = folder();
        let path = folder.path().join("x");
        for dtype in DType::ALL {
            let (host, odd) = (sample(dtype), sample(dtype).reshape(24).narrow(0, 3, 7));
            let there = [&host, &odd].map(|x| x.to_device(&device));
            save_safetensors(&path, &[("host", &there[0]), ("odd", &there[1])]).unwrap();
            for to in [&device, &cpu()] {
                let loaded = load_safetensors(&path, to).unwrap();
                assert_eq!(
                    (loaded["host"].device(), loaded["odd"].device()),
                    (to.clone(), to.clone())
                );
                same(&loaded["host"], &host);
                same(&loaded["odd"], &odd);
            }
            save_npz(&path, &[("turned", &there[0].permute([2, 0, 1]))]).unwrap();
            let loaded = load_npz(&path, &device).unwrap();
            same(&loaded["turned"], &host.permute([2, 0, 1]));
        }
    });
}

#[test]
fn windows_lie_on_the_device() {
    let Some(device) = device() else { return };
    let path = data("pytorch/state2.pt");
    let (there, host) = (
        load_pt(&path, &device).unwrap(),
        load_pt(&path, &cpu()).unwrap(),
    );
    for (name, x) in &host {
        assert_eq!(there[name.as_str()].device(), device, "{name}");
        same(&there[name.as_str()], x);
    }
    let sum = (&there["turned"] * 2.0).sum(..).to_scalar::<f32>().unwrap();
    assert_eq!(sum, 2.0 * 276.0);
}

#[test]
fn checkpoints_move_between_devices() {
    let Some(device) = device() else { return };
    let folder = folder();
    let path = folder.path().join("x");
    let mut checkpoint = Checkpoint::new();
    checkpoint.set_tensor("x", &sample(DType::F32).to_device(&device));
    checkpoint.save(&path).unwrap();
    same(
        Checkpoint::load(&path, &cpu())
            .unwrap()
            .tensor("x")
            .unwrap(),
        &sample(DType::F32),
    );
}
