//! File tests of lowering and fusion: a graph, the loop nests it becomes and the fused nodes those become.
//! `FERROTRACE_BLESS=1` writes what is found in place of what is expected.
#![allow(missing_docs)]

use ferrotrace_jit::Graph;
use ferrotrace_jit::lower::{Lowered, lower};
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::schedule::{Scheduled, fuse};
use ferrotrace_jit::simplify::simplify;
use std::fmt::Write as _;
use std::path::Path;

fn passes(graph: &Graph) -> String {
    let graph = simplify(graph).expect("the graph simplifies");
    let limits = Policy::default();
    let lowering = lower(&graph, &limits).expect("the graph lowers");
    let mut text = format!("==== simplified\n{graph}==== lowered\n");
    for step in &lowering.steps {
        let _ = match step {
            Lowered::Nest(nest) => write!(text, "{nest}"),
            Lowered::Attention(attention) => write!(text, "attention {}", attention.nest),
            Lowered::Call(call) => writeln!(
                text,
                "call %{} of {} operands",
                call.node.0,
                call.args.len()
            ),
        };
    }
    text.push_str("==== fused\n");
    let schedule = fuse(&graph, &lowering, &limits);
    for step in &schedule.steps {
        let _ = match step {
            Scheduled::Fused(fused) => write!(text, "{fused}"),
            Scheduled::Call(at) => writeln!(text, "call at step {at}"),
        };
    }
    for (a, b, why) in &schedule.refusals {
        let _ = writeln!(text, "not fused: %{} %{}: {why}", a.0, b.0);
    }
    text
}

fn check(path: &Path) {
    let text = std::fs::read_to_string(path).expect("a test file");
    let input = text.split("====").next().unwrap_or_default();
    let graph: Graph = input
        .parse()
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let found = format!("{input}{}", passes(&graph));
    if std::env::var_os("FERROTRACE_BLESS").is_some() {
        std::fs::write(path, found).expect("a test file is written");
        return;
    }
    assert_eq!(text, found, "{}", path.display());
}

#[test]
fn passes_give_what_the_files_expect() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files");
    let entries = std::fs::read_dir(folder).expect("the folder of test files");
    let mut paths: Vec<_> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.sort();
    assert!(paths.len() >= 11, "test files are missing");
    for path in paths {
        check(&path);
    }
}
