//! Long programs: linear time, little stack, bounded kernels.

use super::run;
use crate::common::{buffer_of, filled, kept, noise, values};
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::{Draft, Graph, Plan, run_eagerly};
use ferrotrace_kernels::{Array, OpBuilderExt, ValueId};
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
        let plan = Draft::of(graph.clone(), &Policy::default()).expect("the chain lowers");
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
    let plan = Plan::of(graph.clone()).expect("it compiles");
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
    let draft = Draft::of(graph, &Policy::default()).expect("it lowers");
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

/// A chain of `n` pairs: a function of one operand, then one of that and a number.
fn pairs(n: usize, shape: &str, dtype: &str, [one, two]: [&str; 2], number: f64) -> String {
    let strides = shape.replace("100", "1");
    let mut text = format!("%0: {dtype}{shape} = input 0 {strides}\n");
    for i in 0..n {
        let (a, b, c) = (2 * i, 2 * i + 1, 2 * i + 2);
        text += &format!("%{b}: {dtype}{shape} = {one}(%{a})\n");
        text += &format!("%{c}: {dtype}{shape} = {two}(%{b}, {number})\n");
    }
    text + &format!("return %{}", 2 * n)
}

// A compiler's time grows with what it inlines.
#[test]
fn costly_functions_called_often_are_not_inlined() {
    let x = filled::<f32>(&[100], |i| 0.5 + i as f32 / 300.0);
    for functions in [["sigmoid", "pow"], ["tanh", "atan2"], ["exp2", "fmod"]] {
        let text = pairs(20, "[100]", "f32", functions, 1.5);
        for source in super::plan(&text).explain().sources() {
            for function in functions {
                let call = format!(" = ft_{function}_f32x");
                let of_value = |line: &&str| line.contains(" v") && line.contains(&call);
                let inlined = source.lines().filter(of_value).count();
                let called = source
                    .matches(&format!("return ft_{function}_f32x"))
                    .count();
                // Each is written in the loop of whole vectors and in that of the rest.
                assert!(inlined < 2 * 8 && called <= 1, "{function}: {source}");
                assert!(inlined == 0 || called == 0, "{function}: {source}");
            }
        }
        run(&text, std::slice::from_ref(&x), 1e-4);
    }
    let few = pairs(3, "[100]", "f32", ["sin", "mul"], 1.5);
    assert!(super::plan(&few).explain().sources()[0].contains(" = ft_sin_f32x"));
}

// Code for a single element has no vectors.
#[test]
fn single_elements_are_computed_by_scalar_code() {
    let kinds = [DType::I64, DType::I32, DType::U8, DType::F32, DType::F64];
    for (dtype, shape) in kinds
        .iter()
        .flat_map(|d| ["[]", "[1]", "[1, 1]"].map(|s| (*d, s)))
    {
        let text = pairs(12, shape, dtype.name(), ["square", "floor_divide"], 3.0);
        for source in super::plan(&text).explain().sources() {
            let body = source.split("void FT_SYMBOL").nth(1).unwrap_or_default();
            for lanes in ["x4", "x8", "x16", "x32"] {
                assert!(!body.contains(lanes), "{dtype}{shape}: {body}");
            }
        }
        let x = Array {
            buffer: buffer_of(&[7.0], dtype),
            layout: Layout::contiguous(Shape::new(&vec![1; shape.matches('1').count()])),
            dtype,
        };
        run(&text, &[x], 0.0);
    }
}
