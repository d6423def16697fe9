//! The shape of the sources: which way imports run, and how large folders, files and functions are. Comments are for
//! readers to judge, but for a few phrases that make sense beside their neighbours alone.

mod graph;
mod source;

use graph::{Graph, cycles, declared};
use source::{Source, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// The crates, in the order of their dependencies.
const CRATES: [&str; 6] = [
    "runtime",
    "kernels",
    "jit",
    "tracer/derive",
    "tracer",
    "capi",
];

/// Crates whose root declares its modules in the order of their dependencies.
const ORDERED: [&str; 4] = ["runtime", "kernels", "jit", "tracer"];

/// Folders of more files than [`MOST_FILES`], with how many. One that shrinks must be corrected here.
const KNOWN_FOLDERS: [(&str, usize); 0] = [];

/// Files longer than [`MOST_FILE_LINES`]: lists, an entry a line.
const LISTS: [&str; 1] = ["tests/api_uses.rs"];

/// Files in a folder, its subfolders apart.
const MOST_FILES: usize = 20;

const MOST_FILE_LINES: usize = 800;

/// Lines of a function, its signature included.
const MOST_FUNCTION_LINES: usize = 80;

/// Beginnings that no comment may have, and why: a comment must be understood without those beside it.
const BANNED: [(&str, &str); 13] = [
    ("As there", "says where, not what: say it here"),
    ("See there", "says where, not what: say it here"),
    ("The same of", "name what is meant"),
    ("The same, ", "name what is meant"),
    ("The same for", "name what is meant"),
    ("The same as ones", "name what is meant"),
    ("Those", "name the things"),
    ("The same operator", "say what it does"),
    ("That of", "name the thing"),
    ("That which", "name the thing"),
    ("The same where", "name what is meant"),
    ("The same as another", "name what is meant"),
    ("So do", "name the things, and say what they do"),
];

/// Where unsafe code may stand, besides tests.
const UNSAFE: [&str; 3] = ["runtime/src", "kernels/src/cpu", "capi/src"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust source of the workspace, read once.
fn all() -> &'static [Source] {
    static ALL: OnceLock<Vec<Source>> = OnceLock::new();
    ALL.get_or_init(read_all)
}

fn read_all() -> Vec<Source> {
    let mut folders = ["src", "tests", "benches", "examples"]
        .map(PathBuf::from)
        .to_vec();
    for name in CRATES {
        folders.extend(["src", "tests", "examples"].map(|part| Path::new(name).join(part)));
    }
    let all = folders.iter().flat_map(|folder| sources(&root(), folder));
    let found: Vec<Source> = all.collect();
    assert!(found.len() > 400, "only {} sources were found", found.len());
    found
}

fn of_crate(name: &str) -> Vec<&'static Source> {
    let folder = Path::new(name).join("src");
    let within = |source: &&Source| source.path.starts_with(&folder);
    all().iter().filter(within).collect()
}

/// Fails with a complaint a line, if there are any.
fn expect_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn modules_import_each_other_in_no_circle() {
    let mut complaints = Vec::new();
    for name in CRATES {
        let graph = Graph::of(&of_crate(name));
        for cycle in cycles(&graph) {
            complaints.push(format!("{name}: {}", cycle.join(", ")));
            complaints.extend(graph.edges_within(&cycle));
        }
    }
    expect_none(complaints);
}

#[test]
fn modules_import_what_is_declared_before_them() {
    let mut complaints = Vec::new();
    for name in ORDERED {
        let sources = of_crate(name);
        let order = declared(&sources);
        assert!(order.len() > 5, "{name} declares {order:?}");
        let place = |module: &str| order.iter().position(|other| other == module);
        for (from, to, file) in Graph::of(&sources).edges() {
            if place(from) < place(to) {
                complaints.push(format!(
                    "{name}: {file} imports {to}, declared after {from}"
                ));
            }
        }
    }
    expect_none(complaints);
}

#[test]
fn folders_hold_few_files() {
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for source in all() {
        let folder = source.path.parent().expect("every source lies in a folder");
        *folders.entry(folder.to_path_buf()).or_default() += 1;
    }
    let mut complaints = Vec::new();
    for (folder, files) in &folders {
        let known = KNOWN_FOLDERS.iter().find(|(of, _)| Path::new(of) == folder);
        let most = known.map_or(MOST_FILES, |(_, files)| *files);
        if *files > most || known.is_some() && *files < most {
            let folder = folder.display();
            complaints.push(format!("{folder}: {files} files, {most} expected"));
        }
    }
    expect_none(complaints);
}

#[test]
fn files_are_short() {
    let mut complaints = Vec::new();
    for source in all() {
        let (path, lines) = (source.path.to_string_lossy(), source.text.lines().count());
        if (lines > MOST_FILE_LINES) != LISTS.contains(&&*path) {
            complaints.push(format!("{path}: {lines} lines"));
        }
    }
    expect_none(complaints);
}

/// The names in `long_functions.txt`, by the crate or folder that they are in.
fn known_functions() -> BTreeSet<(String, String)> {
    let lines = include_str!("long_functions.txt").lines();
    let pair = |line: &str| {
        let (place, name) = line.split_once(' ')?;
        Some((place.to_owned(), name.to_owned()))
    };
    lines
        .filter(|line| !line.starts_with('#'))
        .filter_map(pair)
        .collect()
}

#[test]
fn functions_are_short() {
    let known = known_functions();
    let (mut complaints, mut met) = (Vec::new(), BTreeSet::new());
    for source in all() {
        let path = source.path.display();
        let place = source
            .path
            .iter()
            .next()
            .expect("every path has a beginning");
        for (name, line, lines) in source.functions() {
            if lines <= MOST_FUNCTION_LINES {
                continue;
            }
            let key = (place.to_string_lossy().into_owned(), name);
            if !known.contains(&key) {
                complaints.push(format!("{path}:{line}: `{}` has {lines} lines", key.1));
            }
            met.insert(key);
        }
    }
    for (place, name) in known.difference(&met) {
        complaints.push(format!("{place}: {name} is short now: long_functions.txt"));
    }
    expect_none(complaints);
}

#[test]
fn unsafe_code_stands_in_few_places() {
    let mut complaints = Vec::new();
    for source in all() {
        let path = &source.path;
        if !path.iter().any(|part| part == "src") || UNSAFE.iter().any(|at| path.starts_with(at)) {
            continue;
        }
        for (number, line) in source.code.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| word == "unsafe") {
                complaints.push(format!("{}:{}: unsafe code", path.display(), number + 1));
            }
        }
    }
    expect_none(complaints);
}

#[test]
fn comments_stand_by_themselves() {
    let mut complaints = Vec::new();
    for source in all() {
        let path = source.path.display();
        for (line, text) in &source.comments {
            let banned = BANNED.iter().find(|(phrase, _)| text.starts_with(phrase));
            let Some((_, why)) = banned else { continue };
            complaints.push(format!("{path}:{line}: {text:?}: {why}"));
        }
    }
    expect_none(complaints);
}

/// Files that name operators: those where an operator stands, where programs record one, and where the compiler says what
/// its loops compute and what a device makes of it. All others ask the operator.
const NAMING: [&str; 7] = [
    "kernels/src/ops",
    "kernels/src/eager/quick.rs",
    "jit/src/lower/expand.rs",
    "jit/src/simplify/device.rs",
    "tracer/src/methods",
    "tracer/src/operators.rs",
    "tracer/src/read.rs",
];

/// Whether a line of code names a variant of a list of operators.
fn names_operator(code: &str) -> bool {
    ["Op::", "Composite::"].into_iter().any(|list| {
        code.match_indices(list).any(|(at, _)| {
            let before = code[..at].chars().next_back();
            let after = code[at + list.len()..].chars().next();
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
                && after.is_some_and(char::is_uppercase)
        })
    })
}

#[test]
fn operators_are_named_in_their_own_place_alone() {
    assert!(names_operator("if matches!(op, Op::Matmul) {"));
    assert!(names_operator("Composite::Gelu => 1,"));
    assert!(!names_operator("BodyOp::Reduce { .. }"));
    assert!(!names_operator("Op::from(Flip { mask })"));
    let compiler = ["kernels/src", "jit/src", "tracer/src"];
    let mut complaints = Vec::new();
    for source in all() {
        let within = |folder: &str| source.path.starts_with(folder);
        let is_test = source.path.ends_with("tests.rs");
        if !compiler.iter().any(|f| within(f)) || NAMING.iter().any(|f| within(f)) || is_test {
            continue;
        }
        let tests = source.text.lines().position(|line| line == "#[cfg(test)]");
        let code = source.code.lines().take(tests.unwrap_or(usize::MAX));
        for (n, line) in code.enumerate().filter(|(_, line)| names_operator(line)) {
            let (path, line) = (source.path.display(), line.trim());
            complaints.push(format!("{path}:{}: ask the operator: {line}", n + 1));
        }
    }
    expect_none(complaints);
}
