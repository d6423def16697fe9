//! Saving is at once or not at all.

use crate::common::*;
use ferrotrace::io::{load_npy, load_npz, load_safetensors, save_npy, save_npz, save_safetensors};
use ferrotrace::prelude::*;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn save_each(path: &Path, x: &Tensor) -> [Result<()>; 3] {
    [
        save_npy(path, x),
        save_npz(path, &[("x", x)]),
        save_safetensors(path, &[("x", x)]),
    ]
}

#[test]
fn a_tensor_that_carries_an_error_makes_no_file() {
    both(|| {
        let folder = folder();
        let path = folder.path().join("x");
        let bad = sample(DType::F32).matmul(&sample(DType::I64));
        let out_of_range = Tensor::from_slice(&[9i64], 1, &cpu());
        let late = sample(DType::F32).index_select(0, &out_of_range);
        for x in [&bad, &late] {
            for result in save_each(&path, x) {
                let error = result.unwrap_err();
                assert!(error.context().is_some(), "{error}");
            }
            assert!(names(folder.path()).is_empty());
        }
        fs::write(&path, "before").unwrap();
        assert!(save_each(&path, &bad).iter().all(Result::is_err));
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(names(folder.path()), ["x"]);
    });
}

#[test]
fn places_that_cannot_be_written() {
    let folder = folder();
    let x = sample(DType::F32);
    for path in [
        folder.path().join("no/folder"),
        folder.path().to_owned(),
        "".into(),
    ] {
        for result in save_each(&path, &x) {
            assert!(matches!(
                result.unwrap_err().kind(),
                ferrotrace::ErrorKind::Io { .. }
            ));
        }
    }
    assert!(names(folder.path()).is_empty());
}

#[cfg(unix)]
#[test]
fn links_and_permissions_stay() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    let x = sample(DType::F32);
    save_npy(&file, &x).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::write(folder.path().join("plain"), "").unwrap();
    assert_eq!(mode(&file), mode(&folder.path().join("plain")));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    save_npy(&link, &(&x * 2.0)).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(mode(&file), 0o640);
    assert!(
        load_npy(&file, &cpu())
            .unwrap()
            .allclose(&(x * 2.0), 0.0, 0.0)
            .unwrap()
    );
}

#[test]
fn a_mapped_file_may_be_saved_over() {
    let folder = folder();
    let path = folder.path().join("x.safetensors");
    let mut x = Tensor::arange(0, 100_000, 1, DType::F32, &cpu());
    save_safetensors(&path, &[("x", &x)]).unwrap();
    for step in 1..4 {
        x = load_safetensors(&path, &cpu())
            .unwrap()
            .remove("x")
            .unwrap();
        save_safetensors(&path, &[("x", &(&x + 1.0))]).unwrap();
        assert_eq!(
            x.select(0, 0).to_scalar::<f32>().unwrap(),
            step as f32 - 1.0
        );
    }
    assert_eq!(x.select(0, 99_999).to_scalar::<f32>().unwrap(), 100_001.0);
}

/// Where the process that is killed writes; set in that process alone.
const VICTIM: &str = "FERROTRACE_TEST_SAVES_TO";

/// Saves one generation after another, for as long as it lives, in the process that
/// [`a_save_killed_at_any_moment_leaves_a_whole_file`] starts; does nothing elsewhere.
#[test]
fn victim() {
    let Some(path) = std::env::var_os(VICTIM) else {
        return;
    };
    for generation in 1.. {
        let x = Tensor::full([300, 1000], generation, DType::I32, &cpu());
        save_npz(&path, &[("a", &x), ("b", &x)]).unwrap();
        println!("saved");
    }
}

#[test]
fn a_save_killed_at_any_moment_leaves_a_whole_file() {
    use std::io::{BufRead, BufReader};
    let folder = folder();
    let path = folder.path().join("x.npz");
    let mut last = 0;
    for round in 0..12u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "saving::victim", "--nocapture"])
            .env(VICTIM, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let saved = lines
            .map_while(std::io::Result::ok)
            .find(|line| line.ends_with("saved"));
        assert!(saved.is_some(), "the process that saves ended");
        std::thread::sleep(Duration::from_micros(round * 1709 % 9000));
        child.kill().unwrap();
        child.wait().unwrap();
        let whole = load_npz(&path, &cpu()).unwrap();
        let (a, b) = (&whole["a"], &whole["b"]);
        same(a, b);
        let all = a.to_vec::<i32>().unwrap();
        assert!(all.len() == 300_000 && all.iter().all(|&x| x == all[0] && x > 0));
        last = last.max(all[0]);
    }
    assert!(last > 0);
}
