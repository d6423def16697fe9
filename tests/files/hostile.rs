//! Damaged files give an error or tensors, and nothing else: no panic, no overflow of the stack, no memory for what they
//! merely claim.
//!
//! `FERROTRACE_FUZZ_SEED` and `FERROTRACE_FUZZ_COUNT` say from which seed on and how many files of each kind are tried.

use crate::common::*;
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

/// A file with one to eight places of it changed.
fn damaged(whole: &[u8], rng: &mut Rng) -> Vec<u8> {
    const TELLING: [u8; 16] = [
        0, 1, 0x7f, 0x80, 0xff, b'(', b')', b'[', b'{', b'"', b'.', b'R', b'9', b'-', b'q', b'c',
    ];
    let mut bytes = whole.to_vec();
    for _ in 0..rng.between(1, 8) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len());
        match rng.below(9) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.below(256) as u8,
            2 | 3 => bytes[at] = TELLING[rng.below(16)],
            4 => {
                let wide = [u64::MAX, 1 << 63, 1 << 40, u32::MAX as u64, 0][rng.below(5)];
                let len = (bytes.len() - at).min([1, 2, 4, 8][rng.below(4)]);
                bytes[at..at + len].copy_from_slice(&wide.to_le_bytes()[..len]);
            }
            5 => bytes.truncate(at),
            6 => bytes.insert(at, TELLING[rng.below(16)]),
            7 => {
                let end = (at + rng.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let from = rng.below(bytes.len());
                let end = (from + rng.below(64)).min(bytes.len());
                let copy = bytes[from..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().unwrap())
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
