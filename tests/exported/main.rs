//! Programs of `torch.export`: fixtures that PyTorch wrote, with what it computed.

mod api;
#[path = "../common/archives.rs"]
mod archives;
mod bad_input;
#[path = "../common/damage.rs"]
mod damage;
mod fixtures;
mod gradients;
mod operators;
#[allow(dead_code)]
#[path = "../common/rng.rs"]
mod rng;

/// The archive of a fixture.
fn archive(name: &str) -> std::path::PathBuf {
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exported/data");
    data.join(name).join("model.pt2")
}

/// The arrays of a fixture's call.
fn expected(name: &str, call: usize) -> Vec<ferrotrace::Tensor> {
    let file = archive(name).with_file_name(format!("call{call}/expected.npz"));
    let arrays = ferrotrace::io::load_npz_in_order(file, &ferrotrace::Device::cpu());
    arrays
        .expect("arrays")
        .into_iter()
        .map(|(_, x)| x)
        .collect()
}

/// An input of a fixture's call.
fn input(name: &str, call: usize, input: &str) -> ferrotrace::Tensor {
    let file = archive(name).with_file_name(format!("call{call}/in_{input}.npy"));
    ferrotrace::io::load_npy(file, &ferrotrace::Device::cpu()).expect("an array")
}
