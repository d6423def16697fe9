//! The order of a device's steps.

use crate::common::device_kernels::device;
use ferrotrace_jit::{Draft, Graph};

/// Arnoldi's iteration: vectors that are each a matrix by the last one without its parts along those before. The lengths of
/// the parts lie beside each other in a concatenation, and are read on the way.
fn arnoldi(count: usize) -> Graph {
    let mut text = String::from(
        "%0: f32[200, 200] = input 0 [200, 1]
         %1: f32[200] = input 1 [1]\n",
    );
    let mut next = 2;
    let mut node = |operation: String| {
        text += &format!("%{next}: f32{operation}\n");
        next += 1;
        next - 1
    };
    let (mut vectors, mut lengths) = (vec![1], Vec::new());
    for k in 0..count {
        let column = node(format!("[200, 1] = unsqueeze(%{}) {{dim: 1}}", vectors[k]));
        let product = node(format!("[200, 1] = matmul(%0, %{column})"));
        let mut rest = node(format!("[200] = squeeze(%{product}) {{dims: [1]}}"));
        for vector in &vectors {
            let length = node(format!("[] = matmul(%{vector}, %{rest})"));
            lengths.push(node(format!("[1] = unsqueeze(%{length}) {{dim: 0}}")));
            let along = node(format!("[200] = mul(%{length}, %{vector})"));
            rest = node(format!("[200] = sub(%{rest}, %{along})"));
        }
        let square = node(format!("[200] = square(%{rest})"));
        let sum = node(format!("[] = sum(%{square}) {{dims: [0], keepdim: false}}"));
        let norm = node(format!("[] = sqrt(%{sum})"));
        lengths.push(node(format!("[1] = unsqueeze(%{norm}) {{dim: 0}}")));
        vectors.push(node(format!("[200] = div(%{rest}, %{norm})")));
    }
    let rows = vectors
        .iter()
        .map(|v| format!("[1, 200] = unsqueeze(%{v}) {{dim: 0}}"));
    let rows: Vec<usize> = rows.map(&mut node).collect();
    let list = |of: &[usize]| {
        let names: Vec<String> = of.iter().map(|part| format!("%{part}")).collect();
        names.join(", ")
    };
    let (n, m) = (lengths.len(), rows.len());
    let lengths = node(format!("[{n}] = cat({}) {{dim: 0}}", list(&lengths)));
    let vectors = node(format!("[{m}, 200] = cat({}) {{dim: 0}}", list(&rows)));
    let graph = format!("{text}return %{lengths} %{vectors}");
    graph.parse().expect("a graph")
}

// A step that reads one part waits for that part alone: the others may follow from it.
#[test]
fn parts_of_a_concatenation_may_follow_from_each_other() {
    for count in [4, 20] {
        let draft = Draft::of(arnoldi(count), &device()).expect("a draft");
        assert!(!draft.pieces.is_empty(), "{count} vectors");
        // At least the product of each vector.
        let steps = draft.steps.len();
        assert!(steps > count, "{count} vectors, {steps} steps");
    }
}
