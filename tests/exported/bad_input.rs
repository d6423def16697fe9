//! Archives that are damaged or hostile, and a shell's errors: each an error that says what is wrong.

use super::damage::{damaged, number};
use super::rng::Rng;
use super::{archive, archives};
use ferrotrace::io::ExportedProgram;
use ferrotrace::{Mode, with_mode};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A fixture with its entries changed by a function, which gets names and bytes.
fn rewritten(fixture: &str, change: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> Vec<u8> {
    let bytes = std::fs::read(archive(fixture)).expect("a fixture");
    archives::rewritten(&bytes, 1, change)
}

/// The program's text with one part replaced by another.
fn with_text(fixture: &str, from: &str, to: &str) -> Vec<u8> {
    rewritten(fixture, |entries| {
        for (name, bytes) in entries.iter_mut() {
            if name.ends_with(".json") {
                let text = String::from_utf8(std::mem::take(bytes)).expect("a text");
                *bytes = text.replacen(from, to, 1).into_bytes();
            }
        }
    })
}

fn loaded(bytes: &[u8]) -> Result<ExportedProgram, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path: PathBuf = folder.path().join("model.pt2");
    std::fs::write(&path, bytes).expect("written");
    ExportedProgram::load(&path).map_err(|error| error.to_string())
}

fn refused(bytes: &[u8], part: &str) {
    let error = loaded(bytes).expect_err(part);
    assert!(error.contains(part), "{error}");
}

#[test]
fn an_archive_rewritten_loads() {
    for fixture in ["nested", "nested_torch26", "nested_torch28"] {
        loaded(&rewritten(fixture, |_| {})).expect(fixture);
    }
}

#[test]
fn truncated_files() {
    let bytes = std::fs::read(archive("nested")).expect("a fixture");
    for keep in [0, 1, 100, bytes.len() / 2, bytes.len() - 1] {
        assert!(loaded(&bytes[..keep]).is_err(), "{keep}");
    }
    refused(b"no archive", "begins otherwise");
}

#[test]
fn other_versions() {
    refused(
        &with_text("nested", "\"major\": 8", "\"major\": 9"),
        "newer than 8",
    );
    refused(
        &with_text("nested", "\"major\": 8", "\"major\": 7"),
        "older than 8",
    );
    // A newer minor version, and a field that is not known.
    let newer = with_text("nested", "\"minor\": ", "\"of\": [1], \"minor\": 9");
    loaded(&newer).expect("a newer minor version");
}

#[test]
fn missing_and_misplaced_entries() {
    let without = |end: &str| {
        rewritten("nested", |entries| {
            entries.retain(|(name, _)| !name.ends_with(end))
        })
    };
    refused(&without("weight_0"), "lacks the entry");
    refused(&without("model_weights_config.json"), "needs \"l.weight\"");
    refused(&without("models/model.json"), "has no program");
    refused(
        &with_text("nested", "\"weight_0\"", "\"../weight_0\""),
        "leaves the archive",
    );
    let outside = rewritten("nested", |entries| {
        entries.push(("../x".to_owned(), Vec::new()))
    });
    refused(&outside, "leaves the archive");
}

#[test]
fn sizes_that_do_not_fit() {
    let large = with_text(
        "nested",
        "\"sizes\": [{\"as_int\": 8}",
        "\"sizes\": [{\"as_int\": 9223372036854775807}",
    );
    refused(&large, "more than any memory");
    let cut = rewritten("nested", |entries| {
        for (_, bytes) in entries
            .iter_mut()
            .filter(|(name, _)| name.ends_with("weight_0"))
        {
            bytes.truncate(8);
        }
    });
    refused(&cut, "no window on its entry");
}

#[test]
fn graphs_that_are_none() {
    let swap = |from: &str, to: &str| with_text("nested", from, to);
    refused(
        &swap("torch.ops.aten.relu.default", "torch.ops.mine.relu.default"),
        "mine.relu.default",
    );
    refused(
        &swap(
            "\"outputs\": [{\"as_tensor\": {\"name\": \"relu\"}}]",
            "\"outputs\": [{\"as_tensor\": {\"name\": \"linear\"}}]",
        ),
        "twice",
    );
    // A value that only a later operator gives.
    refused(
        &swap(
            "{\"name\": \"input\", \"arg\": {\"as_tensor\": {\"name\": \"x\"}}",
            "{\"name\": \"input\", \"arg\": {\"as_tensor\": {\"name\": \"add_1\"}}",
        ),
        "cycle",
    );
    refused(
        &swap("\"graph_module\"", "\"graph\""),
        "has no \"graph_module\"",
    );
    refused(&swap("{", "{{"), "expected");
}

/// A window on the memory of every other element would read what lies between them.
#[test]
fn a_window_on_a_part_of_memory() {
    let swap = |from: &str, to: &str| with_text("memory", from, to);
    let turned = "\"strides\": [{\"as_int\": 1}, {\"as_int\": 5}]";
    let apart = "\"strides\": [{\"as_int\": 2}, {\"as_int\": 10}]";
    refused(&swap(turned, apart), "not all of its memory");
    let shared = "\"strides\": [{\"as_int\": 1}, {\"as_int\": 0}]";
    refused(&swap(turned, shared), "elements that share it");
}

#[test]
fn several_unknown_operators_are_listed() {
    let bytes = with_text(
        "nested",
        "torch.ops.aten.relu.default",
        "torch.ops.mine.b.default",
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.pt2");
    std::fs::write(&path, &bytes).expect("written");
    let error = ExportedProgram::load(&path)
        .expect_err("unknown")
        .to_string();
    assert!(error.contains("mine.b.default"), "{error}");
}

#[test]
fn an_error_names_the_node_and_its_line() {
    const NODE: &str = "}, \"kind\": 1}, {\"name\": \"dim\", \"arg\": {\"as_int\": -1}, \"kind\": 1}], \"outputs\": \
        [{\"as_tensors\": [{\"name\": \"getitem\"}, {\"name\": \"getitem_1\"}]}], \"metadata\": {";
    let stack = concat!(
        r#""stack_trace": "  File \"/home/me/net.py\", line 12, in forward\n    return self.split(y)\n"#,
        r#"  File \"/lib/torch/functional.py\", line 9, in split\n    return tensor.split(sizes)\n""#
    );
    let bytes = with_text(
        "nested",
        &format!("\"as_ints\": [3, 5]{NODE}"),
        &format!("\"as_ints\": [3, 6]{NODE}{stack}"),
    );
    let mut program = loaded(&bytes).expect("a program");
    let inputs = ["x", "d_a", "d_b_0"].map(|name| super::input("nested", 0, name));
    for mode in [Mode::Eager, Mode::Compiled] {
        let run = || program.run(&inputs.each_ref());
        let error = with_mode(mode, run).expect_err("parts of another size");
        let said = error.to_string();
        for part in [
            "aten.split_with_sizes.default",
            "\"split_with_sizes\"",
            "/home/me/net.py:12: return self.split(y)",
            "f32[5, 8]",
        ] {
            assert!(said.contains(part), "{part} in {said}");
        }
        assert!(
            !said.contains("src/io") && !said.contains("/lib/torch"),
            "{said}"
        );
    }
}

/// Archives with bytes changed, cut off or put in: of the file, or of one entry, most often of a text or a pickle. An error, or
/// a program: what counts is that loading ends, without a panic. `FERROTRACE_FUZZ_SEED` and `FERROTRACE_FUZZ_COUNT` say from
/// which seed on and how many.
#[test]
fn damaged_archives_give_errors_or_programs() {
    let mut fixtures: Vec<PathBuf> =
        std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/exported/data"))
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
            .expect("fixtures");
    fixtures.sort_unstable();
    let fixtures: Vec<Vec<u8>> = fixtures
        .iter()
        .filter_map(|folder| std::fs::read(folder.join("model.pt2")).ok())
        .collect();
    assert!(fixtures.len() >= 99);
    let (seed, count) = (
        number("FERROTRACE_FUZZ_SEED", 1),
        number("FERROTRACE_FUZZ_COUNT", 300),
    );
    let mut refused = 0;
    for n in seed..seed + count {
        let mut rng = Rng::new(n);
        let whole = &fixtures[rng.below(fixtures.len())];
        let bytes = match rng.below(4) {
            0 => damaged(whole, &mut rng),
            _ => archives::rewritten(whole, 1, |entries| {
                let told = |(name, _): &&mut (String, Vec<u8>)| {
                    name.ends_with(".json") || name.ends_with(".pt")
                };
                let mut told: Vec<_> = entries.iter_mut().filter(told).collect();
                let at = rng.below(told.len());
                let (_, entry) = told.swap_remove(at);
                *entry = damaged(entry, &mut rng);
            }),
        };
        let loaded = std::panic::catch_unwind(|| loaded(&bytes).is_err());
        refused += u64::from(loaded.unwrap_or_else(|_| panic!("seed {n}")));
    }
    assert!(refused * 5 > count, "{refused} of {count} are refused");
}

#[test]
fn a_shell_gets_exit_codes() {
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ferrotrace"));
        let output = command.args(args).output().expect("the program runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let model = archive("nested");
    let model = model.to_str().expect("a path");
    let (code, said) = run(&["run", "no such file"]);
    assert!(code == Some(2) && said.contains("no such file"), "{said}");
    let (code, said) = run(&["run", model]);
    assert!(
        code == Some(2) && said.contains("input \"x\" is missing"),
        "{said}"
    );
    // The results of another call differ, and nothing but that is wrong.
    let call = archive("nested").with_file_name("call0");
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["in_x.npy", "in_d_a.npy", "in_d_b_0.npy"] {
        std::fs::copy(call.join(name), folder.path().join(name)).expect("copied");
    }
    let other = archive("nested").with_file_name("call1/expected.npz");
    std::fs::copy(other, folder.path().join("expected.npz")).expect("copied");
    let folder = folder.path().to_str().expect("a path");
    assert_eq!(run(&["run", model, "--call", folder]).0, Some(1));
    let call = call.to_str().expect("a path");
    assert_eq!(
        run(&["run", model, "--call", call, "--bench", "3"]).0,
        Some(0)
    );
    assert_eq!(run(&["inspect", model, "--size", "s77=5"]).0, Some(0));
    assert_eq!(run(&["cache", "size"]).0, Some(0));
}

#[test]
fn a_shell_may_stop_reading() {
    let model = archive("nested");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ferrotrace"))
        .args([
            "inspect",
            model.to_str().expect("a path"),
            "--size",
            "s77=5",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("the program ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code().is_some() && !said.contains("panicked"),
        "{said}"
    );
}
