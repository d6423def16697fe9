//! What keeps a trace from sharing the plan of another: for explanations.

use crate::form::Form;
use crate::plans;
use std::fmt::Debug;

/// The key of a form, and in what the nearest other form with a plan differs from it.
pub(crate) fn describe(form: &Form, hash: u64) -> String {
    let others = plans::forms();
    let differences = others
        .iter()
        .filter(|entry| *entry.form != *form)
        .map(|entry| differences(form, &entry.form));
    match differences.min_by_key(|(weight, _)| *weight) {
        None => format!("{hash:016x}, no other plan is known"),
        Some((_, parts)) => format!("{hash:016x}; the nearest other plan: {}", parts.join("; ")),
    }
}

/// What differs, in words, and how much it weighs: operations before all else.
fn differences(form: &Form, other: &Form) -> (usize, Vec<String>) {
    let same = |i: &usize| {
        let (a, b) = (&form.nodes[*i], &other.nodes[*i]);
        a.kind.op == b.kind.op && a.edges_end == b.edges_end
    };
    let length = form.nodes.len().min(other.nodes.len());
    let common = (0..length).take_while(same).count();
    if common < form.nodes.len().max(other.nodes.len()) || form.edges != other.edges {
        let left = form.nodes.len() + other.nodes.len() - 2 * common;
        let text = format!(
            "other operations ({common} of {} agree from the start)",
            form.nodes.len()
        );
        return (1000 + left, vec![text]);
    }
    let mut parts = Vec::new();
    let nodes = || {
        form.nodes
            .iter()
            .zip(&other.nodes)
            .map(|(a, b)| (&a.kind, &b.kind))
    };
    let leaves = || form.leaves.iter().zip(&other.leaves);
    note(
        &mut parts,
        "shape of operation",
        nodes().map(|(a, b)| (&a.shape, &b.shape)),
    );
    note(
        &mut parts,
        "dtype of operation",
        nodes().map(|(a, b)| (a.dtype, b.dtype)),
    );
    note(
        &mut parts,
        "precision of operation",
        nodes().map(|(a, b)| (a.precision, b.precision)),
    );
    note(
        &mut parts,
        "device of operation",
        nodes().map(|(a, b)| (&a.device, &b.device)),
    );
    note(
        &mut parts,
        "shape of input",
        leaves().map(|(a, b)| (a.layout.shape(), b.layout.shape())),
    );
    note(
        &mut parts,
        "strides of input",
        leaves().map(|(a, b)| (a.layout.strides(), b.layout.strides())),
    );
    note(
        &mut parts,
        "dtype of input",
        leaves().map(|(a, b)| (a.dtype, b.dtype)),
    );
    if form.leaves.len() != other.leaves.len() {
        parts.push("the number of inputs".to_owned());
    }
    if form.outputs != other.outputs {
        parts.push(format!(
            "the operations stored: {:?}, there {:?}",
            form.outputs, other.outputs
        ));
    }
    (parts.len(), parts)
}

/// Notes the first pair that is not equal, and how many are not.
fn note<T: PartialEq + Debug>(
    parts: &mut Vec<String>,
    what: &str,
    pairs: impl Iterator<Item = (T, T)>,
) {
    let mut unequal = pairs.enumerate().filter(|(_, (a, b))| a != b);
    let Some((i, (a, b))) = unequal.next() else {
        return;
    };
    let more = match unequal.count() {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    parts.push(format!("{what} {i}{more}: {a:?}, there {b:?}"));
}
