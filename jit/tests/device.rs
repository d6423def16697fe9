//! What a device computes in place of ready-made kernels: the definitions agree with those kernels, on the CPU.
#![allow(missing_docs)]

mod common;

use common::ready_made::{KINDS, draw};
use common::{buffer_of, difference, kept, values};
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::simplify::{aligned, simplify_for};
use ferrotrace_jit::target::{Library, Target};
use ferrotrace_jit::{Graph, Node, NodeOp, Plan, run_eagerly};
use ferrotrace_kernels::op::{ArgSort, ArgTopK, Scan, Scatter};
use ferrotrace_kernels::{Array, Op, Operand, ScanKind, ValueId};
use ferrotrace_runtime::{Convolution, DType, Device, Layout};

/// Whether no two elements of a scatter's source have one place, by sizes: a device has loops for these.
fn is_apart(graph: &Graph, node: &Node, op: &Op) -> bool {
    let sizes = |arg: &Operand| match arg {
        Operand::Value(v) => graph.node(*v).shape.to_vec(),
        _ => Vec::new(),
    };
    match op {
        Op::Scatter(Scatter { dim, .. }) => sizes(&node.args[1]).get(*dim).is_none_or(|&n| n == 1),
        Op::IndexPut(_) => {
            let one = |i: &Operand| sizes(i).iter().all(|&n| n == 1);
            node.commutes || node.args[2..].iter().all(one)
        }
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

/// Rows and single values scattered by one index, by that index stretched along rows, and by it from its end.
const SCATTERED: &str = "%0: f32[100, 8] = input 0 [8, 1]\n%1: f32[3000, 8] = input 1 [8, 1]\n\
    %2: i64[3000] = input 2 [1]\n%3: f32[100] = input 3 [1]\n%4: f32[3000] = input 4 [1]\n\
    %5: f32[100, 8] = index_put(%0, %1, %2) {axes: [0], at: 0, accumulate: true}\n\
    %6: f32[100] = index_put(%3, %4, %2) {axes: [0], at: 0, accumulate: true}\n\
    %7: i64[3000, 1] = unsqueeze(%2) {dim: 1}\n%8: i64[3000, 8] = expand(%7) {to: [3000, 8]}\n\
    %9: f32[100, 8] = scatter(%0, %8, %1) {dim: 0, mode: \"amax\", include_self: true}\n\
    %10: f32[100] = scatter(%3, %2, %4) {dim: 0, mode: \"prod\", include_self: false}\n\
    %11: i64[3000] = flip(%2) {dims: [0]}\n%12: i64[3000, 1] = reshape(%11) {to: [3000, 1]}\n\
    %13: i64[3000, 8] = expand(%12) {to: [3000, 8]}\n\
    %14: f32[100] = scatter(%3, %11, %4) {dim: 0, mode: \"prod\", include_self: true}\n\
    %15: f32[100, 8] = scatter(%0, %13, %1) {dim: 0, mode: \"amin\", include_self: true}\n\
    return %5 %6 %9 %10 %14 %15\n";

/// The order of places is computed once for all scatters by an index; the same numbers in another order are another index.
#[test]
fn scatters_by_one_index_share_its_order() {
    let partial = Policy::from(Target {
        library: Library::Partial(|_, _| Ok(false)),
        ..Target::default()
    });
    let graph: Graph = SCATTERED.parse().expect("a graph");
    let simple = simplify_for(&graph, &partial).expect("it simplifies");
    let orders = |op: &Op| matches!(op, Op::PlaceOrder(_));
    let places = |op: &Op| matches!(op, Op::PlaceRows(_));
    let count = |is: fn(&Op) -> bool| simple.nodes().iter().filter(|n| n.is(is)).count();
    assert_eq!((count(orders), count(places)), (2, 6), "{simple}");
}

/// Graphs of products, and how many operands are padded.
const MISALIGNED: [(&str, usize); 5] = [
    // Rows by columns, as a linear layer's weight lies.
    (
        "%0: bf16[5, 24] = input 0 [24, 1]\n%1: bf16[13, 24] = input 1 [24, 1]\n\
             %2: bf16[24, 13] = permute(%1) {order: [1, 0]}\n%3: bf16[5, 13] = matmul(%0, %2)\nreturn %3\n",
        1,
    ),
    // Its two gradients share a copy of the gradient of the result.
    (
        "%0: bf16[5, 13] = input 0 [13, 1]\n%1: bf16[13, 24] = input 1 [24, 1]\n\
             %2: bf16[5, 24] = matmul(%0, %1)\n%3: bf16[13, 5] = permute(%0) {order: [1, 0]}\n\
             %4: bf16[13, 24] = matmul(%3, %2)\nreturn %2 %4\n",
        2,
    ),
    // Stacks of matrices, of odd sizes everywhere.
    (
        "%0: f16[3, 5, 7] = input 0 [35, 7, 1]\n%1: f16[3, 7, 9] = input 1 [63, 9, 1]\n\
             %2: f16[3, 5, 9] = matmul(%0, %1)\nreturn %2\n",
        2,
    ),
    // Nothing to do: lines are aligned, or single precision.
    (
        "%0: bf16[5, 24] = input 0 [24, 1]\n%1: bf16[24, 16] = input 1 [16, 1]\n\
             %2: bf16[5, 16] = matmul(%0, %1)\nreturn %2\n",
        0,
    ),
    (
        "%0: f32[5, 7] = input 0 [7, 1]\n%1: f32[7, 9] = input 1 [9, 1]\n\
             %2: f32[5, 9] = matmul(%0, %1)\nreturn %2\n",
        0,
    ),
];

/// Products of misaligned lines, in each orientation, by longer lines: the same numbers, of products whose lines begin at
/// multiples of 16 bytes.
#[test]
fn products_of_misaligned_lines() {
    let bounds = Thresholds {
        unaligned_cost: u64::MAX,
        product_launch: 0,
        ..Thresholds::default()
    };
    for (text, pads) in MISALIGNED {
        let graph: Graph = text.parse().expect("a graph");
        let longer = aligned(graph.clone(), &bounds, |_| Default::default()).expect("it holds");
        longer.verify().expect("it holds");
        let count = longer
            .nodes()
            .iter()
            .filter(|n| n.is(|op| op.as_pad().is_some()));
        assert_eq!(count.count(), pads, "{longer}");
        for node in longer.nodes().iter().filter(|n| n.is(Op::is_matmul)) {
            assert!(node.dtype == DType::F32 || node.shape[node.shape.rank() - 1] % 8 == 0);
        }
        // Sums of small whole numbers are exact, in any order.
        let array = |layout: &Layout, dtype| {
            let numbers: Vec<f64> = (0..layout.span().end)
                .map(|i| (i * 7 % 5) as f64 - 2.0)
                .collect();
            Array {
                buffer: buffer_of(&numbers, dtype),
                layout: layout.clone(),
                dtype,
            }
        };
        let inputs = graph.inputs().iter();
        let arrays: Vec<Array> = inputs.map(|of| array(&of.layout, of.dtype)).collect();
        let want = run_eagerly(&graph, &arrays, &[]).expect("it runs");
        let got = run_eagerly(&longer, &arrays, &[]).expect("it runs");
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(difference(got, want, 0.0, true), None, "{longer}");
        }
        let kept = aligned(graph.clone(), &bounds, |graph| {
            (0..graph.nodes().len())
                .map(|i| ValueId(i as u32))
                .collect()
        });
        assert_eq!(kept.expect("it holds").to_string(), graph.to_string());
        let priced = Thresholds {
            unaligned_cost: 4,
            ..Thresholds::default()
        };
        let small = aligned(graph.clone(), &priced, |_| Default::default()).expect("it holds");
        assert_eq!(small.to_string(), graph.to_string(), "copies cost more");
    }
}

/// Every factorisation, and equations of factors.
const FACTORS: &str = "%0: f64[2, 3, 3] = input 0 [9, 3, 1]\n%1: f64[3, 2] = input 1 [2, 1]\n\
    %2: f64[2, 5, 3] = lu_factor(%0)\n%3: f64[2, 3, 2] = lu_solve(%0, %2, %1) {transposed: true}\n\
    %4: f64[2, 3, 2] = solve_triangular(%0, %1) {upper: true, unit: false}\n\
    %5: f64[2, 6, 3] = qr(%0)\n%6: f64[2, 7, 3] = svd(%0) {rows: 3}\n%7: f64[2, 3, 3] = cholesky(%0)\n\
    %8: f64[2, 4, 3] = eigh(%0)\nreturn %2 %3 %4 %5 %6 %7 %8\n";

/// Plans for a device leave them as calls, which run on the host.
#[test]
fn factorisations_stay_calls() {
    let partial = Policy::from(Target {
        library: Library::Partial(|_, _| Ok(false)),
        ..Target::default()
    });
    let graph: Graph = FACTORS.parse().expect("a graph");
    let text = graph.to_string();
    assert_eq!(text.parse::<Graph>().expect("a graph").to_string(), text);
    let simple = simplify_for(&graph, &partial).expect("it simplifies");
    let factors = simple.nodes().iter();
    let factors = factors.filter(|n| n.is(|op| matches!(op, Op::Factorisation(_))));
    assert_eq!(factors.count(), 7, "{simple}");
    let array = |dims: &[usize], numbers: &[f64]| Array {
        buffer: buffer_of(numbers, DType::F64),
        layout: Layout::contiguous(dims.into()),
        dtype: DType::F64,
    };
    let one = [4.0, 1.0, 0.0, 1.0, 5.0, 2.0, 0.0, 2.0, 6.0];
    let matrices = [one, one.map(|x| x * 2.0)].concat();
    let arrays = [array(&[2, 3, 3], &matrices), array(&[3, 2], &one[..6])];
    let want = run_eagerly(&graph, &arrays, &[]).expect("it runs");
    let plan = Plan::by(simple, &Policy::default()).expect("a plan");
    let got = plan.run(&mut kept(&arrays), &[]).expect("it runs");
    for (got, want) in got.iter().zip(&want) {
        assert_eq!(difference(got, want, 0.0, false), None);
    }
    // The solutions of the transposed equations, whose matrices are symmetric.
    let x = values(&got[1]);
    let row: f64 = (0..3).map(|j| one[3 + j] * x[2 * j]).sum();
    assert!((row - one[2]).abs() < 1e-12, "{x:?}");
}
