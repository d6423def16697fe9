//! What a device computes in place of ready-made kernels: the definitions agree with those kernels, on the CPU.
#![allow(missing_docs)]

mod common;

use common::ready_made::{KINDS, draw};
use common::{difference, kept, values};
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::simplify::simplify_for;
use ferrotrace_jit::target::{Library, Target};
use ferrotrace_jit::{Graph, Node, NodeOp, Plan, run_eagerly};
use ferrotrace_kernels::op::{ArgSort, ArgTopK, Scan, Scatter};
use ferrotrace_kernels::{Op, Operand, ScanKind};
use ferrotrace_runtime::{Convolution, Device};

/// Whether no two elements of a scatter's source have one place, by sizes: a device has loops for these.
fn is_apart(graph: &Graph, node: &Node, op: &Op) -> bool {
    let sizes = |arg: &Operand| match arg {
        Operand::Value(v) => graph.node(*v).shape.to_vec(),
        _ => Vec::new(),
    };
    match op {
        Op::Scatter(Scatter { dim, .. }) => sizes(&node.args[1]).get(*dim).is_none_or(|&n| n == 1),
        Op::IndexPut(_) => node.args[2..]
            .iter()
            .all(|i| sizes(i).iter().all(|&n| n == 1)),
        _ => false,
    }
}

/// Whether a device's library has the operator.
fn is_known(op: &Op, rank: usize) -> bool {
    match op {
        Op::ArgSort(ArgSort { dim, .. }) | Op::ArgTopK(ArgTopK { dim, .. }) => dim + 1 >= rank,
        Op::Scan(Scan {
            kind: ScanKind::LogSumExp,
            dim,
        }) => dim + 1 >= rank,
        Op::Scatter(Scatter { dim, .. }) => *dim == 0 && rank == 2,
        Op::Cat(_) | Op::Scan(_) | Op::Matmul => true,
        other => !matches!(
            other,
            Op::Sort(_)
                | Op::TopK(_)
                | Op::Conv(_)
                | Op::Pool(_)
                | Op::AdaptiveAvgPool(_)
                | Op::Interpolate(_)
                | Op::IndexPut(_)
                | Op::Composite(_)
        ),
    }
}

#[test]
fn definitions_agree_with_ready_made_kernels() {
    agree(|_, _| Ok(false));
}

/// A library that has every convolution: on the CPU, ready-made kernels stand for it.
#[test]
fn convolutions_of_a_library_agree_with_ready_made_kernels() {
    agree(|_, form| Ok(form.is_sound()));
}

fn agree(has: fn(&Device, &Convolution) -> ferrotrace_runtime::Result<bool>) {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<u64>().ok());
    let start = number("FERROTRACE_FUZZ_SEED").unwrap_or(0);
    let count = number("FERROTRACE_FUZZ_COUNT").unwrap_or(8 * KINDS);
    let mut drawn = 0;
    let partial = Policy::from(Target {
        library: Library::Partial(has),
        ..Target::default()
    });
    for seed in start..start + count {
        let case = draw(seed, &Device::cpu());
        let graph = simplify_for(&case.graph, &partial)
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", case.graph));
        graph.verify().expect("it holds");
        let text = graph.to_string();
        let again: Graph = text.parse().unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again.to_string(), text);
        for node in graph.nodes() {
            if let NodeOp::Op(op) = &node.op {
                let known = is_known(op, node.shape.rank()) || is_apart(&graph, node, op);
                assert!(known, "seed {seed}\n{graph}");
            }
        }
        drawn += u64::from(!case.arrays.is_empty());
        let want = run_eagerly(&case.graph, &case.arrays, &[])
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", case.graph));
        // As on a device: windows are straight-line code.
        let limits = Policy::from(Thresholds {
            window: 26,
            ..Thresholds::default()
        });
        let got = Plan::by(graph.clone(), &limits)
            .and_then(|plan| plan.run(&mut kept(&case.arrays), &[]))
            .unwrap_or_else(|e| panic!("seed {seed}: {e}\n{graph}"));
        let greatest = values(&want[0])
            .into_iter()
            .filter(|x| x.is_finite())
            .fold(1.0, |most: f64, x| most.max(x.abs()));
        if let Some(why) = difference(&got[0], &want[0], case.tolerance * greatest, true) {
            panic!("seed {seed}: {why}\n{}\n{graph}", case.graph);
        }
    }
    assert!(drawn * 4 > count * 3, "{drawn} of {count} fit");
}
