//! Long programs: linear time, little stack, bounded kernels.

use super::run;
use crate::common::{kept, noise, values};
use ferrotrace_jit::lower::Limits;
use ferrotrace_jit::{Graph, compile, draft, run_eagerly};
use ferrotrace_kernels::{OpBuilderExt, ValueId};
use ferrotrace_runtime::{DType, Device, Layout, Shape};

fn chain(n: usize) -> Graph {
    let mut graph = Graph::new();
    let layout = Layout::contiguous(Shape::from([3]));
    let x = graph.input(&layout, DType::F32, &Device::cpu());
    let mut y = x;
    for _ in 0..n {
        y = graph.add(y, x).expect("shapes agree");
    }
    graph.set_outputs(vec![y]);
    graph
}

// scheduler §21.46; DESIGN: a chain of 100,000 operations works on a 2 MiB stack.
#[test]
fn a_chain_of_100_000_operations_needs_little_stack() {
    let work = || {
        let graph = chain(100_000);
        let x = noise(&[3], 1);
        let plan = draft(graph.clone(), &Limits::default()).expect("the chain lowers");
        // codegen B2.7: a kernel holds a bounded number of operations.
        assert!(
            plan.steps.len() >= 100_000 / 200,
            "{} kernels",
            plan.steps.len()
        );
        let got = ferrotrace_jit::interp::interpret(&plan, std::slice::from_ref(&x), &[])
            .expect("it runs");
        let want = run_eagerly(&graph, std::slice::from_ref(&x), &[]).expect("it runs");
        assert_eq!(values(&got[0]), values(&want[0]));
    };
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .expect("a thread");
    thread
        .join()
        .expect("the chain is compiled on a small stack");
}

// codegen D T78
#[test]
fn a_chain_of_2000_operations_compiles_to_few_sources() {
    let graph = chain(2000);
    let x = noise(&[3], 2);
    let plan = compile(graph.clone()).expect("it compiles");
    let mut sources = plan.explain().sources().to_vec();
    sources.sort();
    sources.dedup();
    assert!(sources.len() <= 3, "{} sources", sources.len());
    let got = plan
        .run(&mut kept(std::slice::from_ref(&x)), &[])
        .expect("it runs");
    let want = run_eagerly(&graph, &[x], &[]).expect("it runs");
    assert_eq!(values(&got[0]), values(&want[0]));
}

// scheduler §21.45
#[test]
fn a_thousand_readers_of_one_tensor_are_scheduled() {
    let mut graph = Graph::new();
    let x = graph.input(
        &Layout::contiguous(Shape::from([5])),
        DType::F32,
        &Device::cpu(),
    );
    let outputs: Vec<ValueId> = (0..1000)
        .map(|i| graph.add(x, i as f64).expect("a number"))
        .collect();
    graph.set_outputs(outputs);
    let draft = draft(graph, &Limits::default()).expect("it lowers");
    assert!(
        (16..=400).contains(&draft.steps.len()),
        "{}",
        draft.steps.len()
    );
}

// ir T54, codegen D T80
#[test]
fn the_sum_of_forty_tensors_takes_few_kernels() {
    let mut text: String = (0..40)
        .map(|i| format!("%{i}: f32[20] = input {i} [1]\n"))
        .collect();
    text += "%40: f32[20] = add(%0, %1)\n";
    for i in 2..40 {
        text += &format!("%{}: f32[20] = add(%{}, %{i})\n", i + 39, i + 38);
    }
    text += "return %78";
    let arrays: Vec<_> = (0..40).map(|i| noise(&[20], i)).collect();
    run(&text, &arrays, 0.0);
    assert!(super::kernels(&text) <= 6);
}
