//! Products whose following kernel a device's library computes by itself: a bias for each column, relu, gelu in its
//! tanh form (scheduler T-08, codegen A10.1). Convolutions of half precision with channels innermost are such products, but
//! for gelu (ir X3).
//!
//! What the library computes is written as a graph, lowered like any other, and compared with the kernel: there is one
//! definition of each activation, and no list of patterns.

use super::{FusedNode, Fusion, Product, Store, moved, roots};
use crate::bisect::may_fuse;
use crate::body::{Body, BodyOp, Number, Source, Value};
use crate::expr::Expr;
use crate::graph::Graph;
use crate::lower::{Lowered, Lowering, lower, takes_bias};
use crate::policy::Policy;
use crate::simplify::simplify;
use ferrotrace_kernels::{BinaryOp, Op, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{Activation, DType, Device, Layout, Result, Shape};
use petgraph::stable_graph::NodeIndex;
use std::sync::Arc;

/// What a library does with each element of a product before it stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epilogue {
    /// Dense numbers that are added, one for each column.
    pub bias: Option<Source>,
    /// What follows.
    pub activation: Activation,
}

impl Fusion<'_> {
    /// Joins every product with the one kernel that reads it, where a library computes both.
    pub(super) fn take_up_epilogues(&mut self, graph: &Graph, lowering: &Lowering) {
        let products = self.products(graph, lowering);
        for (call, product) in products
            .into_iter()
            .chain(self.correlations(graph, lowering))
        {
            let node = product.node;
            let source = Source::Node(node);
            let output = lowering.outputs.iter().any(|o| o.0 == source);
            let mut readers = self.graph.neighbors(call);
            let (Some(reader), None) = (readers.next(), readers.next()) else {
                continue;
            };
            if output || lowering.pieces.contains_key(&node) {
                continue;
            }
            let Some(kernel) = &self.graph[reader] else {
                continue;
            };
            if let Some(why) = self.product_kept_apart(product, kernel) {
                self.refusals.insert((node, kernel.stores[0].node), why);
                continue;
            }
            let mut fused = self.without_stores_between(reader, kernel);
            let Some(epilogue) = epilogue(graph, &fused, node, self.policy) else {
                continue;
            };
            if lowering.pieces.contains_key(&fused.stores[0].node) || !may_fuse() {
                continue;
            }
            fused.steps.push(product.step);
            fused.steps.sort_unstable();
            fused.product = Some(Product {
                epilogue: Some(epilogue),
                ..product
            });
            self.join(call, reader, fused);
        }
    }
}

impl Fusion<'_> {
    /// A kernel without what it stores for itself alone, as a sum with a bias whose readers it took up. Such a value is not rounded.
    fn without_stores_between(&self, at: NodeIndex, kernel: &FusedNode) -> FusedNode {
        let mut left = kernel.clone();
        left.stores.retain(|store| self.is_needed(at, store.node));
        if left.stores.len() == kernel.stores.len() || left.exact {
            return left;
        }
        let between = |value: Value| {
            let is = |store: &Store| store.value == value;
            kernel.stores.iter().any(is) && !left.stores.iter().any(is)
        };
        // What is stored in half precision is read rounded.
        let rounds = |value: Value| match kernel.body.value(value).op {
            BodyOp::Round(of, _) => between(of) || between(value),
            _ => false,
        };
        let unrounded = |body: &mut Body, old: Value, op: BodyOp| match op {
            BodyOp::Round(value, _) if rounds(old) => body.value(value).op.clone(),
            op => op,
        };
        let (mut body, extents) = (Body::default(), kernel.extents());
        let wanted = roots(&left.stores);
        let copies = body.rewrite(&kernel.body, &wanted, &unrounded, extents.as_slice());
        left.stores = moved(&left.stores, copies, &Expr::clone);
        left.body = Arc::new(body);
        left
    }
}

/// What a kernel is to a library that computes the product it reads.
fn epilogue(
    graph: &Graph,
    kernel: &FusedNode,
    product: ValueId,
    policy: &Policy,
) -> Option<Epilogue> {
    let node = graph.node(product);
    let [store] = &kernel.stores[..] else {
        return None;
    };
    let plain = !kernel.exact
        && !node.rounds()
        && kernel.product.is_none()
        && kernel.body.values().len() <= policy.thresholds.epilogue_values
        && store.update.is_none()
        && store.dtype == node.dtype
        && node.dtype.is_float()
        && node.shape.rank() >= 2
        && node.shape.numel() > 0;
    if !plain {
        return None;
    }
    let activations = [Activation::None, Activation::Relu, Activation::GeluTanh];
    // The library's tanh is an approximation that half precision does not show.
    let rough = node.dtype.compute() == node.dtype;
    let product_of = node.is(Op::is_matmul);
    let exact = |a: &Activation| !rough && product_of || *a != Activation::GeluTanh;
    activations
        .into_iter()
        .filter(exact)
        .find_map(|activation| {
            let mut biased = [true, false].into_iter().filter(|b| !b || takes_bias(node));
            let bias = biased.find_map(|biased| {
                let reference =
                    reference(&node.shape, node.dtype, biased, activation, policy).ok()??;
                matched(kernel, &reference, Source::Node(product))
            })?;
            (bias.is_some() || activation != Activation::None)
                .then_some(Epilogue { bias, activation })
        })
}

/// The loops of what the library computes, of a product (input 0) and a bias (input 1).
pub(super) fn reference(
    shape: &Shape,
    dtype: DType,
    biased: bool,
    activation: Activation,
    policy: &Policy,
) -> Result<Option<FusedNode>> {
    let (mut graph, host) = (Graph::new(), Device::cpu());
    let mut x = graph.input(&Layout::contiguous(shape.clone()), dtype, &host);
    if biased {
        let columns: Shape = shape.last().copied().into_iter().collect();
        let bias = graph.input(&Layout::contiguous(columns), dtype, &host);
        x = graph.add(x, bias)?;
    }
    let y = graph.activation(activation, x)?;
    graph.set_outputs(vec![y]);
    let lowering = lower(&simplify(&graph)?, policy)?;
    Ok(match &lowering.steps[..] {
        [Lowered::Nest(nest)] => Some(FusedNode::of(0, nest)),
        _ => None,
    })
}

/// Whether a kernel computes what the reference does, with the product for its first input, and what it has for the
/// second.
fn matched(kernel: &FusedNode, reference: &FusedNode, product: Source) -> Option<Option<Source>> {
    let (ours, theirs) = (&kernel.stores[0], &reference.stores[0]);
    if kernel.extents() != reference.extents() || ours.index != theirs.index {
        return None;
    }
    let mut others = kernel.loads().map(|l| l.0).filter(|s| *s != product);
    let bias = others.next();
    if others.any(|other| Some(other) != bias) {
        return None;
    }
    let (a, b) = (&kernel.body, &reference.body);
    // Values whose operands are equal, either way round where they commute: operands stand before their users.
    let mut equal = vec![vec![false; b.values().len()]; a.values().len()];
    for (i, x) in a.values().iter().enumerate() {
        for (j, y) in b.values().iter().enumerate() {
            let same = |p: Value, q: Value| equal[p as usize][q as usize];
            let operators = match (&x.op, &y.op) {
                (
                    BodyOp::Load {
                        source,
                        dtype,
                        index,
                        mask: None,
                    },
                    BodyOp::Load {
                        source: input,
                        dtype: of,
                        index: at,
                        mask: None,
                    },
                ) => {
                    let is_product = *input == Source::Input(0);
                    dtype == of && index == at && is_product == (*source == product)
                }
                (BodyOp::Number(n), BodyOp::Number(m)) => {
                    let bits = |number: &Number| match number.operand {
                        Operand::Const(scalar) => {
                            Some((number.dtype, scalar.to_bits(number.dtype)))
                        }
                        _ => None,
                    };
                    let n = bits(&a.numbers()[*n as usize]);
                    n.is_some() && n == bits(&b.numbers()[*m as usize])
                }
                (BodyOp::Binary(f, p, q), BodyOp::Binary(g, r, s)) => {
                    let commutes = matches!(f, BinaryOp::Add | BinaryOp::Mul);
                    let turned = commutes && same(*p, *s) && same(*q, *r);
                    f == g && (turned || same(*p, *r) && same(*q, *s))
                }
                (BodyOp::Unary(f, p), BodyOp::Unary(g, q)) => f == g && same(*p, *q),
                (BodyOp::Cast(p), BodyOp::Cast(q)) => same(*p, *q),
                (BodyOp::Round(p, t), BodyOp::Round(q, u)) => t == u && same(*p, *q),
                _ => false,
            };
            equal[i][j] = operators && x.dtype == y.dtype;
        }
    }
    equal[ours.value as usize][theirs.value as usize].then_some(bias)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draft::{Draft, Step};
    use crate::simplify::simplify_for;
    use crate::target::Target;
    use ferrotrace_kernels::op::{Permute, Reshape};
    use ferrotrace_kernels::{Composite, Correlation, Extent, OpBuilder, UnaryOp};
    use ferrotrace_runtime::{ConvolutionPart, Scalar};

    type Tail = dyn Fn(&mut Graph, ValueId, ValueId) -> Result<ValueId>;

    /// What becomes of a product 6x5 by 5x8 and what follows it, of a bias of 8.
    fn found(dtype: DType, tail: &Tail) -> Option<Epilogue> {
        found_of(dtype, 8, tail)
    }

    /// What becomes of a product of so many columns and what follows it.
    fn found_of(dtype: DType, columns: usize, tail: &Tail) -> Option<Epilogue> {
        let mut graph = Graph::new();
        let host = Device::cpu();
        let mut input = |dims: &[usize]| {
            let layout = Layout::contiguous(dims.iter().copied().collect());
            graph.input(&layout, dtype, &host)
        };
        let (a, b, bias) = (input(&[6, 15]), input(&[15, columns]), input(&[columns]));
        let product = graph.matmul(a, b).expect("fits");
        let y = tail(&mut graph, product, bias).expect("fits");
        graph.set_outputs(vec![y]);
        first_epilogue(&graph)
    }

    /// What the first product of a graph is joined with.
    fn first_epilogue(graph: &Graph) -> Option<Epilogue> {
        // A device's library multiplies half precision as it is.
        let device = Policy::from(Target::cuda(90, 132, 227 << 10));
        let graph = simplify_for(graph, &device).expect("simplifies");
        let policy = Policy::default();
        let lowering = lower(&graph, &policy).expect("lowers");
        let mut fusion = Fusion::new(&graph, &lowering, &policy);
        while fusion.round() {}
        fusion.take_up_epilogues(&graph, &lowering);
        let schedule = fusion.finish(&lowering);
        schedule.steps.iter().find_map(|step| match step {
            super::super::Scheduled::Fused(fused) => fused.product?.epilogue,
            super::super::Scheduled::Call(_) => None,
        })
    }

    fn gelu(graph: &mut Graph, x: ValueId) -> Result<ValueId> {
        graph.push(Op::Composite(Composite::GeluTanh), &[x.into()])
    }

    #[test]
    fn bias_and_activations_are_recognised() {
        let bias = Some(Source::Input(2));
        for dtype in [DType::F32, DType::BF16] {
            let add = found(dtype, &|g, p, b| g.add(p, b)).expect("a bias");
            assert_eq!((add.bias, add.activation), (bias, Activation::None));
            let turned = found(dtype, &|g, p, b| g.add(b, p)).expect("a bias");
            assert_eq!(turned, add);
            let relu = found(dtype, &|g, p, b| {
                let x = g.add(p, b)?;
                g.unary(UnaryOp::Relu, x)
            });
            let relu = relu.expect("bias and relu");
            assert_eq!((relu.bias, relu.activation), (bias, Activation::Relu));
        }
        let both: &Tail = &|g, p, b| {
            let x = g.add(p, b)?;
            gelu(g, x)
        };
        let half = found(DType::BF16, both).expect("bias and gelu");
        assert_eq!((half.bias, half.activation), (bias, Activation::GeluTanh));
        let alone = found(DType::F16, &|g, p, _| gelu(g, p)).expect("gelu");
        assert_eq!((alone.bias, alone.activation), (None, Activation::GeluTanh));
        assert_eq!(
            found(DType::F32, both),
            None,
            "the library's tanh is too rough"
        );
    }

    /// A library may round the sums of such rows before it adds a bias.
    #[test]
    fn ragged_rows_of_half_precision_have_their_bias_from_a_kernel() {
        let add: &Tail = &|g, p, b| g.add(p, b);
        assert_eq!(found_of(DType::BF16, 12, add), None);
        assert!(found_of(DType::F32, 3, add).is_some());
        let relu = found_of(DType::BF16, 12, &|g, p, _| g.unary(UnaryOp::Relu, p));
        assert_eq!(relu.expect("relu").activation, Activation::Relu);
    }

    /// A convolution whose channels lie innermost, as programs say it: theirs are second.
    #[test]
    fn convolutions_are_such_products() {
        let found = |channels_last: bool, gelu_follows: bool| {
            let mut graph = Graph::new();
            let host = Device::cpu();
            let mut input = |dims: &[usize]| {
                let layout = Layout::contiguous(dims.iter().copied().collect());
                graph.input(&layout, DType::F16, &host)
            };
            let (x, w, bias) = match channels_last {
                true => (input(&[2, 6, 7, 8]), input(&[4, 3, 3, 8]), input(&[4])),
                false => (input(&[2, 8, 6, 7]), input(&[4, 8, 3, 3]), input(&[4])),
            };
            let op = Correlation {
                part: ConvolutionPart::Result,
                channels_last,
                stride: [1, 1].into_iter().collect(),
                padding: [0, 0].into_iter().collect(),
                dilation: [1, 1].into_iter().collect(),
                wide: false,
                shape: match channels_last {
                    true => Shape::from([2, 4, 5, 4]),
                    false => Shape::from([2, 4, 4, 5]),
                },
            };
            let order = |list: [u8; 4]| Op::from(Permute(list.into_iter().collect()));
            let mut y = graph
                .push(Op::from(op), &[x.into(), w.into()])
                .expect("fits");
            if channels_last {
                y = graph.push(order([0, 3, 1, 2]), &[y.into()]).expect("fits");
            }
            let column = Op::from(Reshape([4, 1, 1].map(Extent::Size).into_iter().collect()));
            let bias = graph.push(column, &[bias.into()]).expect("fits");
            y = graph.add(y, bias).expect("fits");
            y = match gelu_follows {
                true => gelu(&mut graph, y).expect("fits"),
                false => graph.unary(UnaryOp::Relu, y).expect("fits"),
            };
            if channels_last {
                y = graph.push(order([0, 2, 3, 1]), &[y.into()]).expect("fits");
            }
            // Another convolution wants its operand dense.
            let w = graph.input(
                &Layout::contiguous(match channels_last {
                    true => Shape::from([4, 1, 1, 4]),
                    false => Shape::from([4, 4, 1, 1]),
                }),
                DType::F16,
                &host,
            );
            let next = Correlation {
                part: ConvolutionPart::Result,
                channels_last,
                stride: [1, 1].into_iter().collect(),
                padding: [0, 0].into_iter().collect(),
                dilation: [1, 1].into_iter().collect(),
                wide: false,
                shape: graph.shape(y).clone(),
            };
            let y = graph
                .push(Op::from(next), &[y.into(), w.into()])
                .expect("fits");
            graph.set_outputs(vec![y]);
            first_epilogue(&graph)
        };
        let relu = found(true, false).expect("bias and relu");
        assert_eq!(
            (relu.bias, relu.activation),
            (Some(Source::Input(2)), Activation::Relu)
        );
        assert_eq!(found(true, true), None, "the library has no gelu there");
        assert_eq!(found(false, false), None, "columns are positions");
    }

    #[test]
    fn other_functions_are_not() {
        let others: [&Tail; 6] = [
            // Another form of gelu, another number, the product twice, a bias after, one for each row, a slot.
            &|g, p, b| {
                let x = g.add(p, b)?;
                g.push(Op::Composite(Composite::Gelu), &[x.into()])
            },
            &|g, p, _| g.add(p, Operand::Const(Scalar::Float(1.0))),
            &|g, p, _| g.add(p, p),
            &|g, p, b| {
                let x = gelu(g, p)?;
                g.add(x, b)
            },
            &|g, p, b| g.sub(b, p),
            &|g, p, _| g.mul(p, Operand::Slot(0, Scalar::Float(2.0))),
        ];
        for (i, tail) in others.iter().enumerate() {
            assert_eq!(found(DType::F32, tail), None, "{i}");
        }
    }

    /// On the CPU such products are taken up panel by panel.
    #[test]
    fn the_cpu_has_panels() {
        let mut graph = Graph::new();
        let layout = Layout::contiguous(Shape::from([64, 64]));
        let x = graph.input(&layout, DType::F32, &Device::cpu());
        let p = graph.matmul(x, x).expect("fits");
        let y = gelu(&mut graph, p).expect("fits");
        graph.set_outputs(vec![y]);
        let draft = Draft::of(graph, &Policy::default()).expect("plans");
        let [Step::Template(template)] = &draft.steps[..] else {
            panic!("{:?}", draft.steps);
        };
        assert_eq!(template.epilogue, None);
    }
}
