//! Every archive of `tests/exported/data`, called with its inputs, in both modes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders that hold an archive.
fn programs() -> Vec<PathBuf> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exported/data");
    let folders = std::fs::read_dir(data).expect("fixtures");
    let mut folders: Vec<PathBuf> = folders
        .map(|entry| entry.expect("a folder").path())
        .collect();
    folders.sort();
    folders
}

/// The folders of a program's calls, in order.
fn calls(program: &Path) -> Vec<PathBuf> {
    let folders = (0..).map(|i| program.join(format!("call{i}")));
    folders.take_while(|folder| folder.exists()).collect()
}

fn all_equal(mode: &str) {
    let mut failed = Vec::new();
    for program in programs() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrotrace"));
        command
            .arg("run")
            .arg(program.join("model.pt2"))
            .args(["--mode", mode]);
        for call in calls(&program) {
            command.arg("--call").arg(call);
        }
        let output = command.output().expect("the program runs");
        if !output.status.success() {
            let said = [output.stdout, output.stderr].concat();
            failed.push(format!(
                "{}:\n{}",
                program.display(),
                String::from_utf8_lossy(&said)
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn fixtures_equal_compiled() {
    all_equal("compiled");
}

#[test]
fn fixtures_equal_eager() {
    all_equal("eager");
}
