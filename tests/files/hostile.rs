//! Damaged files give an error or tensors, and nothing else: no panic, no overflow of the stack, no memory for what they
//! merely claim.
//!
//! `FERROTRACE_FUZZ_SEED` and `FERROTRACE_FUZZ_COUNT` say from which seed on and how many files of each kind are tried.

use crate::common::*;
use crate::damage::{damaged, number};
use crate::rng::Rng;
use ferrotrace::io::{
    Checkpoint, TensorMap, load_npy, load_npz, load_pt, load_safetensors, save_npz_compressed,
    save_safetensors, save_safetensors_in_parts,
};
use ferrotrace::prelude::*;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A way to read a file.
type Load = fn(&Path) -> Result<TensorMap>;

/// Whole files, and what reads them.
fn whole_files(folder: &Path) -> Vec<(&'static str, Vec<u8>, Load)> {
    let read = |name: &str| fs::read(data(name)).unwrap();
    let load_one: Load = |path| {
        let x = load_npy(path, &cpu())?;
        Ok(TensorMap::from_iter([("x", x)]))
    };
    let npz: Load = |path| load_npz(path, &cpu());
    let pt: Load = |path| load_pt(path, &cpu());
    let safetensors: Load = |path| load_safetensors(path, &cpu());
    let index: Load = |path| {
        let index = path.with_extension("json");
        fs::copy(path, &index).unwrap();
        load_safetensors(index, &cpu())
    };
    let checkpoint: Load = |path| Ok(Checkpoint::load(path, &cpu())?.tensors().clone());

    let path = folder.join("whole");
    let (x, flags) = (sample(DType::F32), sample(DType::Bool));
    save_npz_compressed(&path, &[("x", &x), ("flags", &flags)]).unwrap();
    let packed = fs::read(&path).unwrap();
    save_safetensors(
        &path,
        &[("x", &x), ("flags", &flags), ("n", &sample(DType::I64))],
    )
    .unwrap();
    let tensors = fs::read(&path).unwrap();
    let parts = folder.join("parts.json");
    save_safetensors_in_parts(&parts, &[("x", &x), ("flags", &flags)], 50).unwrap();
    let parts = fs::read(&parts).unwrap();
    let mut run = Checkpoint::new();
    run.set_tensor("x", &x);
    run.set("step", 3);
    run.set("lr", 0.1);
    run.save(&path).unwrap();
    let run = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    vec![
        ("npy", read("numpy/version1.npy"), load_one),
        ("npy 3", read("numpy/version3.npy"), load_one),
        ("npz", read("numpy/compressed.npz"), npz),
        ("deflated npz", packed, npz),
        ("safetensors", tensors, safetensors),
        ("index", parts, index),
        ("checkpoint", run, checkpoint),
        ("pt, protocol 2", read("pytorch/state2.pt"), pt),
        ("pt, protocol 5", read("pytorch/state5.pt"), pt),
        ("pt, nested", read("pytorch/checkpoint.pt"), pt),
        ("pt, legacy", read("pytorch/legacy.pt"), pt),
    ]
}

#[test]
fn damaged_files_give_errors_or_tensors() {
    let folder = folder();
    let path = folder.path().join("x");
    let (seed, count) = (
        number("FERROTRACE_FUZZ_SEED", 1),
        number("FERROTRACE_FUZZ_COUNT", 400),
    );
    for (kind, whole, load) in whole_files(folder.path()) {
        fs::write(&path, &whole).unwrap();
        assert!(!load(&path).unwrap().is_empty(), "{kind}");
        let mut refused = 0;
        for n in seed..seed + count {
            let bytes = damaged(&whole, &mut Rng::new(n));
            fs::write(&path, &bytes).unwrap();
            let Ok(tensors) = load(&path) else {
                refused += 1;
                continue;
            };
            for (name, x) in &tensors {
                // A window may repeat one element more often than memory has room for.
                if x.numel() <= 1 << 16 {
                    let read = x
                        .to_bytes()
                        .unwrap_or_else(|e| panic!("{kind}, seed {n}, {name}: {e}"));
                    assert_eq!(read.len(), x.numel() * x.dtype().size(), "{kind}, seed {n}");
                }
            }
        }
        assert!(
            refused * 5 > count,
            "{kind}: {refused} of {count} are refused"
        );
    }
}

/// The suite above once more, where no more than 3 GiB of addresses are to be had.
#[cfg(target_os = "linux")]
#[test]
fn claims_take_no_memory() {
    let run = Command::new("sh")
        .args(["-c", "ulimit -v 3145728 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::damaged_files_give_errors_or_tensors"])
        .env("FERROTRACE_THREADS", "2")
        .env("FERROTRACE_FUZZ_SEED", "1000000")
        .env("FERROTRACE_FUZZ_COUNT", "100")
        .output()
        .unwrap();
    let (out, error) = (
        String::from_utf8_lossy(&run.stdout),
        String::from_utf8_lossy(&run.stderr),
    );
    assert!(
        run.status.success() && out.contains("1 passed"),
        "{out}{error}"
    );
}
