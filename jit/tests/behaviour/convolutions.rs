//! Convolutions whose result a generated kernel takes up piece by piece (ir X3 to X6).

use super::run;
use crate::common::{kept, noise, values};
use ferrotrace_jit::{Graph, Plan, PlanInput, Step};
use ferrotrace_kernels::copy::cast;
use ferrotrace_kernels::op::{Cast, Flip};
use ferrotrace_kernels::{Array, BinaryOp, ConvSpec, Op, OpBuilder, UnaryOp};
use ferrotrace_runtime::{DType, Device, Layout, Shape, stats_scope, with_threads};
use smallvec::SmallVec;

/// Sizes of an input and a weight, stride, padding, dilation, groups, and whether it is transposed.
struct Case(&'static [usize], &'static [usize], [usize; 3], usize, bool);

/// One of each way in which convolutions are computed: shifted planes in one band and in several, with steps, and of
/// several images, gathered columns of one tile, of several, and of several images, products, planes by rows and by bands,
/// groups, and transposed ones.
const CASES: [Case; 22] = [
    Case(&[2, 8, 12, 14], &[16, 8, 3, 3], [1, 1, 1], 1, false),
    Case(&[1, 64, 40, 40], &[12, 64, 3, 3], [1, 1, 1], 1, false),
    Case(&[2, 64, 40, 40], &[20, 64, 3, 3], [1, 1, 1], 1, false),
    Case(&[1, 16, 30, 31], &[8, 8, 3, 3], [1, 1, 1], 2, false),
    Case(&[2, 6, 41, 43], &[10, 6, 3, 3], [2, 1, 1], 1, false),
    Case(&[1, 64, 66, 66], &[6, 64, 4, 4], [2, 0, 1], 1, false),
    Case(&[5, 6, 9, 8], &[10, 6, 3, 3], [2, 1, 1], 1, false),
    Case(&[2, 12, 40, 40], &[12, 4, 3, 3], [2, 2, 2], 3, false),
    Case(&[3, 24, 20, 20], &[40, 24, 1, 1], [1, 0, 1], 1, false),
    Case(&[1, 160, 40, 40], &[200, 160, 1, 1], [1, 0, 1], 1, false),
    Case(&[2, 24, 20, 20], &[24, 12, 1, 1], [1, 0, 1], 2, false),
    Case(&[9, 200, 7, 7], &[40, 200, 1, 1], [1, 0, 1], 1, false),
    Case(&[3, 24, 20, 22], &[40, 24, 1, 1], [2, 0, 1], 1, false),
    Case(&[1, 3, 61, 62], &[32, 3, 7, 7], [2, 3, 1], 1, false),
    Case(&[5, 9, 2, 2], &[10, 9, 1, 1], [1, 0, 1], 1, false),
    Case(&[2, 20, 17, 19], &[20, 1, 3, 3], [1, 1, 1], 20, false),
    Case(&[2, 20, 17, 19], &[40, 1, 5, 5], [2, 2, 1], 20, false),
    Case(&[2, 20, 17, 19], &[20, 1, 3, 3], [1, 2, 2], 20, false),
    Case(&[2, 6, 300], &[8, 6, 5], [2, 2, 1], 1, false),
    Case(&[1, 3, 9, 10, 11], &[8, 3, 2, 3, 2], [1, 1, 1], 1, false),
    Case(&[2, 6, 11, 12], &[6, 10, 3, 3], [2, 1, 1], 1, true),
    Case(&[2, 6, 40, 41], &[6, 10, 4, 4], [2, 1, 1], 2, true),
];

impl Case {
    fn graph(&self, tail: impl FnOnce(&mut Graph, &Shape, [Operand; 3]) -> Operand) -> Graph {
        self.graph_of(DType::F32, tail)
    }

    /// The convolution of inputs 0 and 1; the tail is given its shape, itself, a bias of its channels (input 2) and a
    /// tensor of its shape (input 3).
    fn graph_of(
        &self,
        dtype: DType,
        tail: impl FnOnce(&mut Graph, &Shape, [Operand; 3]) -> Operand,
    ) -> Graph {
        let Case(x, w, [stride, padding, dilation], groups, transposed) = *self;
        let spatial = x.len() - 2;
        let all = |n: usize| SmallVec::from_elem(n, spatial);
        let spec = ConvSpec {
            stride: all(stride),
            padding: all(padding),
            dilation: all(dilation),
            output_padding: all(0),
            groups,
            transposed,
        };
        let mut graph = Graph::new();
        let mut input = |shape: &Shape| {
            let layout = Layout::contiguous(shape.clone());
            graph.input(&layout, dtype, &Device::cpu())
        };
        let (x, w) = (input(&Shape::new(x)), input(&Shape::new(w)));
        let y = graph.push(Op::Conv(Box::new(spec)), &[x.into(), w.into()]);
        let y = y.expect("fits");
        let shape = graph.node(y).shape.clone();
        let mut of_bias = vec![shape[1]];
        of_bias.resize(1 + spatial, 1);
        let mut input = |shape: &Shape| {
            let layout = Layout::contiguous(shape.clone());
            graph.input(&layout, dtype, &Device::cpu())
        };
        let (bias, other) = (input(&Shape::new(&of_bias)), input(&shape));
        let result = tail(&mut graph, &shape, [y, bias, other].map(Operand));
        graph.set_outputs(vec![result.0]);
        graph
    }
}

/// A value of a graph.
#[derive(Clone, Copy)]
struct Operand(ferrotrace_kernels::ValueId);

fn add(graph: &mut Graph, a: Operand, b: Operand) -> Operand {
    let sum = graph.push(Op::Binary(BinaryOp::Add), &[a.0.into(), b.0.into()]);
    Operand(sum.expect("fits"))
}

fn relu(graph: &mut Graph, a: Operand) -> Operand {
    let result = graph.push(Op::Unary(UnaryOp::Relu), &[a.0.into()]);
    Operand(result.expect("fits"))
}

/// relu(conv + bias + other).
fn block(case: &Case) -> Graph {
    case.graph(|graph, _, [y, bias, other]| {
        let y = add(graph, y, bias);
        let y = add(graph, y, other);
        relu(graph, y)
    })
}

fn inputs(graph: &Graph) -> Vec<Array> {
    let of = graph.inputs().iter().enumerate();
    of.map(|(i, input)| noise(input.layout.shape(), i as u64))
        .collect()
}

fn is_one_step(plan: &Plan) -> bool {
    matches!(&plan.draft().steps[..], [Step::Template(t)] if !t.stored)
}

fn outcome(plan: &Plan, arrays: &[Array]) -> Vec<f64> {
    let results = plan.run(&mut kept(arrays), &[]);
    values(&results.expect("it runs")[0])
}

#[test]
fn a_kernel_takes_up_a_convolution() {
    for (i, case) in CASES.iter().enumerate() {
        let graph = block(case);
        let arrays = inputs(&graph);
        let text = graph.to_string();
        let plan = Plan::of(graph).expect("compiles");
        assert!(is_one_step(&plan), "case {i}: {}", plan.explain());
        // What the bare convolution gives, which has tests of its own, in the order of the definition.
        let bare = Plan::of(case.graph(|_, _, [y, _, _]| y)).expect("compiles");
        let [bias, other] = [2, 3].map(|n| values(&arrays[n]));
        let plane = other.len() / case.0[0] / bias.len();
        let want: Vec<f64> = outcome(&bare, &arrays)
            .iter()
            .enumerate()
            .map(|(at, y)| {
                let y = *y as f32 + bias[at / plane % bias.len()] as f32;
                (y + other[at] as f32).max(0.0) as f64
            })
            .collect();
        for threads in [1, 2, 3] {
            let got = with_threads(threads, || outcome(&plan, &arrays));
            assert!(got == want, "case {i} on {threads} threads");
        }
        run(&text, &arrays, 1e-3);
    }
}

// ir X5
#[test]
fn the_other_operand_is_overwritten_where_it_dies() {
    for (i, case) in CASES.iter().enumerate() {
        let graph = block(case);
        let arrays = inputs(&graph);
        let plan = Plan::of(graph).expect("compiles");
        let want = outcome(&plan, &arrays);
        for threads in [1, 2] {
            let mut given = kept(&arrays);
            let copy = crate::common::copied(&arrays[3]);
            given[3] = PlanInput {
                array: copy,
                donated: true,
            };
            let (got, stats) = with_threads(threads, || stats_scope(|| plan.run(&mut given, &[])));
            assert_eq!(values(&got.expect("it runs")[0]), want, "case {i}");
            assert_eq!(stats.in_place_writes, 1, "case {i}");
            let expected = with_threads(threads, || plan.draft().peak(&|input| input == 3));
            assert_eq!(stats.peak_bytes, expected, "case {i} on {threads} threads");
        }
        // Not where it lives on.
        let before = values(&arrays[3]);
        outcome(&plan, &arrays);
        assert_eq!(values(&arrays[3]), before);
    }
}

#[test]
fn the_convolution_has_no_memory_beside_the_result() {
    for (i, case) in CASES.iter().enumerate() {
        let plan = Plan::of(block(case)).expect("compiles");
        let arrays = inputs(&plan.draft().graph);
        let (_, stats) = stats_scope(|| outcome(&plan, &arrays));
        let bytes = arrays[3].layout.numel() as u64 * 4;
        assert_eq!(stats.peak_bytes, bytes, "case {i}");
        assert_eq!(plan.draft().peak(&|_| false), bytes, "case {i}");
    }
}

#[test]
fn a_narrower_result_and_doubles() {
    for (i, case) in CASES.iter().enumerate() {
        let graph = case.graph(|graph, _, [y, bias, _]| {
            let y = add(graph, y, bias);
            let half = graph.push(Op::Cast(Cast(DType::BF16)), &[y.0.into()]);
            Operand(half.expect("fits"))
        });
        let arrays = inputs(&graph);
        let text = graph.to_string();
        let plan = Plan::of(graph).expect("compiles");
        // The cast is apart where the input, a narrower result and the convolution at once are more than eager mode has.
        let taken = |step: &Step| matches!(step, Step::Template(_));
        assert!(plan.draft().steps.iter().any(taken), "case {i}");
        run(&text, &arrays, 0.5);
        let graph = case.graph_of(DType::F64, |graph, _, [y, bias, _]| {
            let y = add(graph, y, bias);
            relu(graph, y)
        });
        let text = graph.to_string();
        assert!(is_one_step(&Plan::of(graph).expect("compiles")), "case {i}");
        let doubles: Vec<Array> = arrays
            .iter()
            .map(|x| crate::common::dense(x.shape(), &values(x)))
            .collect();
        run(&text, &doubles, 1e-9);
    }
}

// The convolution is stored where something else needs it, and no kernel takes it up that reads it elsewhere.
#[test]
fn others_may_read_the_convolution_too() {
    for (i, case) in CASES.iter().enumerate() {
        let mut graph = case.graph(|graph, _, [y, bias, _]| {
            let y = add(graph, y, bias);
            relu(graph, y)
        });
        let (result, y) = (graph.outputs()[0], ferrotrace_kernels::ValueId(2));
        graph.set_outputs(vec![result, y]);
        let arrays = inputs(&graph);
        run(&graph.to_string(), &arrays, 1e-3);
        let flipped = case.graph(|graph, shape, [y, _, other]| {
            let mask = 1 << (shape.rank() - 1);
            let turned = graph
                .push(Op::Flip(Flip { mask }), &[y.0.into()])
                .expect("fits");
            add(graph, Operand(turned), other)
        });
        let plan = Plan::of(flipped.clone()).expect("compiles");
        assert!(!is_one_step(&plan), "case {i}");
        run(&flipped.to_string(), &arrays, 1e-3);
    }
}

// Operands that are no dense array of the result's type.
#[test]
fn a_strided_input_and_a_weight_of_another_type() {
    let strides = SmallVec::from_slice(&[3360, 420, 1, 20]);
    let turned = Layout::new(Shape::from([2, 8, 20, 21]), strides, 0);
    let spec = ConvSpec {
        stride: SmallVec::from_elem(1, 2),
        padding: SmallVec::from_elem(1, 2),
        dilation: SmallVec::from_elem(1, 2),
        output_padding: SmallVec::from_elem(0, 2),
        groups: 1,
        transposed: false,
    };
    let mut graph = Graph::new();
    let x = graph.input(&turned, DType::F32, &Device::cpu());
    let weight = Layout::contiguous(Shape::from([12, 8, 3, 3]));
    let w = graph.input(&weight, DType::BF16, &Device::cpu());
    let y = graph.push(Op::Conv(Box::new(spec)), &[x.into(), w.into()]);
    let y = relu(&mut graph, Operand(y.expect("fits")));
    graph.set_outputs(vec![y.0]);
    let x = noise(&[2 * 8 * 20 * 21], 1).with_layout(turned);
    let w = cast(&noise(&[12, 8, 3, 3], 2), DType::BF16).expect("memory");
    run(&graph.to_string(), &[x, w], 1e-3);
}
