//! Biases of products and convolutions whose sums are wanted as computed, where a device's library does not compute all
//! that follows: it adds the bias before it rounds, and the kernel reads the result.

use super::epilogue::reference;
use super::{Epilogue, FusedNode, Fusion, Product, moved, roots};
use crate::bisect::may_fuse;
use crate::body::{Body, BodyOp, Source, Value};
use crate::expr::Expr;
use crate::graph::{Graph, Rounding};
use crate::lower::{Lowering, takes_bias};
use ferrotrace_kernels::{BinaryOp, ValueId};
use ferrotrace_runtime::Activation;
use petgraph::algo::has_path_connecting;
use petgraph::stable_graph::NodeIndex;
use std::sync::Arc;

/// A kernel that reads the sum of a product and a bias: the value that is the sum, where its element lies, and the bias.
struct Sum {
    value: Value,
    index: Expr,
    bias: Source,
}

impl Fusion<'_> {
    /// Gives libraries the biases of products that only one kernel reads.
    pub(super) fn take_up_biases(&mut self, graph: &Graph, lowering: &Lowering) {
        let products = self.products(graph, lowering).into_iter();
        let all: Vec<(NodeIndex, Product)> =
            products.chain(self.correlations(graph, lowering)).collect();
        for (call, product) in all {
            let node = graph.node(product.node);
            let own = Source::Node(product.node);
            let output = lowering.outputs.iter().any(|output| output.0 == own);
            let never = node.dtype.is_half() && node.rounding == Rounding::Never;
            let taken = never && takes_bias(node);
            let mut readers = self.graph.neighbors(call);
            let (Some(reader), None) = (readers.next(), readers.next()) else {
                continue;
            };
            if !taken || output || lowering.pieces.contains_key(&product.node) {
                continue;
            }
            let split = self.graph[reader]
                .as_ref()
                .and_then(|kernel| self.split(graph, lowering, kernel, product));
            let Some((head, tail)) = split.filter(|_| may_fuse()) else {
                continue;
            };
            let bias = head.product.and_then(|product| product.epilogue?.bias);
            if !self.wait_for_bias(call, bias) {
                continue;
            }
            if tail.stores.is_empty() {
                self.join(call, reader, head);
                continue;
            }
            self.graph[call] = Some(head);
            self.graph[reader] = Some(tail);
            self.accesses[call.index()] = None;
            self.accesses[reader.index()] = None;
        }
    }

    /// Makes a product run after what computes its bias. `false`, and nothing done, where the bias follows from the product.
    fn wait_for_bias(&mut self, call: NodeIndex, bias: Option<Source>) -> bool {
        let Some(Source::Node(bias)) = bias else {
            return true;
        };
        let Some(from) = self.made.get(&bias).map(|&step| self.owner[step]) else {
            return false;
        };
        let may_wait = from != call && !has_path_connecting(&self.graph, call, from, None);
        if may_wait {
            self.graph.update_edge(from, call, ());
        }
        may_wait
    }

    /// The product with its bias, and the kernel without it, which stores nothing if the bias was all.
    fn split(
        &self,
        graph: &Graph,
        lowering: &Lowering,
        kernel: &FusedNode,
        product: Product,
    ) -> Option<(FusedNode, FusedNode)> {
        let node = graph.node(product.node);
        let result = result_of(graph, product.node)?;
        let sum = sum_of(graph, lowering, kernel, product.node)?;
        let stored = kernel.store(result);
        if stored.is_some_and(|store| store.index != sum.index) {
            return None;
        }
        let mut head =
            reference(&node.shape, node.dtype, true, Activation::None, self.policy).ok()??;
        let rename = |source: Source| match source {
            Source::Input(0) => Source::Node(product.node),
            _ => sum.bias,
        };
        head.body = Arc::new(head.body.renamed(&rename, &|number| *number));
        head.stores[0].node = result;
        head.steps = vec![product.step];
        head.exact = kernel.exact;
        head.product = Some(Product {
            epilogue: Some(Epilogue {
                bias: Some(sum.bias),
                activation: Activation::None,
            }),
            ..product
        });
        let mut tail = kernel.clone();
        tail.stores.retain(|store| store.node != result);
        if tail.stores.is_empty() {
            head.steps.extend(&kernel.steps);
            head.steps.sort_unstable();
            return Some((head, tail));
        }
        let read = |_: &mut Body, old: Value, op: BodyOp| match old == sum.value {
            true => BodyOp::Load {
                source: Source::Node(result),
                dtype: node.dtype,
                index: sum.index.clone(),
                mask: None,
            },
            false => op,
        };
        let (mut body, extents) = (Body::default(), tail.extents());
        let copies = body.rewrite(&tail.body, &roots(&tail.stores), &read, extents.as_slice());
        // What the sum was made of is not needed any more.
        let mut needed = Body::default();
        let of = roots(&moved(&tail.stores, copies, &Expr::clone));
        let kept = needed.rewrite(&body, &of, &|_, _, op| op, extents.as_slice());
        tail.stores = moved(&tail.stores, kept, &Expr::clone);
        tail.body = Arc::new(needed);
        let again = tail.loads().any(|l| l.0 == Source::Node(product.node));
        (!again).then_some((head, tail))
    }
}

/// The node of the product's half type that is the product and a bias.
fn result_of(graph: &Graph, product: ValueId) -> Option<ValueId> {
    let dtype = graph.node(product).dtype;
    let (mut at, mut added) = (product, false);
    loop {
        let mut users = (at.0 + 1..graph.nodes().len() as u32)
            .map(ValueId)
            .filter(|v| graph.operands(*v).any(|x| x == at));
        let (Some(user), None) = (users.next(), users.next()) else {
            return None;
        };
        let op = graph.node(user).operator()?;
        match (op.as_cast(), op.as_binary()) {
            (Some(to), _) if to == dtype && added => return Some(user),
            (Some(to), _) if to == dtype.compute() && !added => {}
            (_, Some(BinaryOp::Add)) if !added => added = true,
            _ if op.is_view() && !added => {}
            _ => return None,
        }
        at = user;
    }
}

/// Where a kernel adds a bias, one number for each column, to the product.
fn sum_of(graph: &Graph, lowering: &Lowering, kernel: &FusedNode, product: ValueId) -> Option<Sum> {
    let (body, extents) = (&kernel.body, kernel.extents());
    let own = Source::Node(product);
    let mut loads = (0..body.values().len() as Value)
        .filter(|v| matches!(&body.value(*v).op, BodyOp::Load { source, .. } if *source == own));
    let (Some(load), None) = (loads.next(), loads.next()) else {
        return None;
    };
    let BodyOp::Load {
        index, mask: None, ..
    } = &body.value(load).op
    else {
        return None;
    };
    let mut users =
        (load + 1..body.values().len() as Value).filter(|v| body.operands(*v).contains(&load));
    let (Some(value), None) = (users.next(), users.next()) else {
        return None;
    };
    let BodyOp::Binary(BinaryOp::Add, a, b) = body.value(value).op else {
        return None;
    };
    let BodyOp::Load {
        source: bias,
        dtype,
        index: at,
        mask: None,
    } = &body.value(if a == load { b } else { a }).op
    else {
        return None;
    };
    let node = graph.node(product);
    let columns = *node.shape.last()?;
    let dense = match bias {
        Source::Input(n) => graph.inputs()[*n as usize].layout.is_contiguous(),
        Source::Node(v) => !lowering.pieces.contains_key(v),
    };
    let same = *at == index.modulo(columns as i64, extents.as_slice()) && *dtype == node.dtype;
    (dense && same && node.shape.rank() >= 2 && node.shape.numel() > 0).then(|| Sum {
        value,
        index: index.clone(),
        bias: *bias,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::lower;
    use crate::policy::Policy;
    use crate::schedule::Scheduled;
    use crate::simplify::simplify_for;
    use crate::target::Target;

    /// Of each step that is a kernel, its epilogue, the nodes that it stores and those that it reads.
    type Steps = Vec<(Option<Epilogue>, Vec<u32>, Vec<Source>)>;

    fn steps(columns: usize, results: &str, exact: &str) -> Steps {
        let text = format!(
            "%0: bf16[64, 32] = input 0 [32, 1]
             %1: bf16[{columns}, 32] = input 1 [32, 1]
             %2: bf16[{columns}] = input 2 [1]
             %3: bf16[64, {columns}] = linear(%0, %1, %2) {{bias: true}}{exact}
             %4: bf16[64, {columns}] = silu(%3){exact}
             return {results}"
        );
        steps_of(&text, &Policy::default())
    }

    fn device() -> Policy {
        Policy::from(Target::cuda(90, 132, 227 << 10))
    }

    fn steps_of(text: &str, policy: &Policy) -> Steps {
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        // A device's library adds biases to products of half precision.
        let graph = simplify_for(&graph, &device()).unwrap_or_else(|e| panic!("{e}"));
        let lowering = lower(&graph, policy).unwrap_or_else(|e| panic!("{e}"));
        let mut fusion = Fusion::new(&graph, &lowering, policy);
        while fusion.round() {}
        fusion.compute_again(&lowering);
        fusion.take_up_epilogues(&graph, &lowering);
        fusion.take_up_biases(&graph, &lowering);
        let schedule = fusion.finish(&lowering);
        let kernel = |step: &Scheduled| match step {
            Scheduled::Fused(fused) => Some((
                fused.product.and_then(|p| p.epilogue),
                fused.stores.iter().map(|s| s.node.0).collect(),
                fused.loads().map(|l| l.0).collect(),
            )),
            Scheduled::Call(_) => None,
        };
        schedule.steps.iter().filter_map(kernel).collect()
    }

    #[test]
    fn a_library_adds_the_bias_and_a_kernel_does_the_rest() {
        for exact in ["", " exact"] {
            for results in ["%4", "%3 %4"] {
                let steps = steps(48, results, exact);
                let [(Some(epilogue), head, reads), (None, tail, from)] = &steps[..] else {
                    panic!("{results}: {steps:?}");
                };
                assert_eq!(epilogue.bias, Some(Source::Input(2)));
                assert_eq!(epilogue.activation, Activation::None);
                assert_eq!((head.len(), tail.len(), reads.len()), (1, 1, 2));
                assert_eq!(from[..], [Source::Node(ValueId(head[0]))]);
                assert_ne!(head, tail);
            }
        }
    }

    /// A layer in training: its bias is a parameter rounded to half precision, and its sum is read again by the gradient.
    #[test]
    fn sums_with_computed_biases_are_stored_once() {
        let text = "%0: bf16[64, 32] = input 0 [32, 1]
             %1: bf16[48, 32] = input 1 [32, 1]
             %2: f32[48] = input 2 [1]
             %3: bf16[48, 48] = input 3 [48, 1]
             %4: bf16[48] = to_dtype(%2)
             %5: bf16[64, 48] = linear(%0, %1, %4) {bias: true}
             %6: bf16[64, 48] = silu(%5)
             %7: bf16[64, 48] = matmul(%6, %3)
             %8: bf16[64, 48] = mul(%7, %5)
             return %8";
        let steps = steps_of(text, &device());
        let [rounded, sum, function, last] = &steps[..] else {
            panic!("{steps:?}");
        };
        let Some(Source::Node(bias)) = sum.0.and_then(|epilogue| epilogue.bias) else {
            panic!("{steps:?}");
        };
        assert_eq!(rounded.1, [bias.0]);
        let stored = Source::Node(ValueId(sum.1[0]));
        assert_eq!((sum.1.len(), &function.2[..]), (1, &[stored][..]));
        assert!(last.2.contains(&stored), "{steps:?}");
    }

    #[test]
    fn what_the_library_computes_is_not_stored_between() {
        for (function, activation) in [
            ("gelu_tanh", Activation::GeluTanh),
            ("relu", Activation::Relu),
        ] {
            for (cast, [bias, sum]) in [("", [2, 3]), ("%3: bf16[48] = to_dtype(%2)", [3, 4])] {
                let (dtype, last) = (if cast.is_empty() { "bf16" } else { "f32" }, sum + 1);
                let text = format!(
                    "%0: bf16[64, 32] = input 0 [32, 1]
                     %1: bf16[48, 32] = input 1 [32, 1]
                     %2: {dtype}[48] = input 2 [1]
                     {cast}
                     %{sum}: bf16[64, 48] = linear(%0, %1, %{bias}) {{bias: true}}
                     %{last}: bf16[64, 48] = {function}(%{sum})
                     return %{last}"
                );
                let steps = steps_of(&text, &device());
                let last = steps.last().and_then(|step| step.0);
                assert_eq!(
                    last.map(|epilogue| epilogue.activation),
                    Some(activation),
                    "{text}: {steps:?}"
                );
                assert!(
                    last.is_some_and(|epilogue| epilogue.bias.is_some()),
                    "{steps:?}"
                );
            }
        }
    }

    #[test]
    fn what_the_library_does_as_a_whole_stays() {
        for exact in ["", " exact"] {
            let steps = steps(48, "%3", exact);
            let [(Some(_), _, _)] = &steps[..] else {
                panic!("{steps:?}");
            };
        }
    }
    /// A library may round the sums of such rows before it adds a bias.
    #[test]
    fn one_kernel_reads_the_sums_of_ragged_rows() {
        for exact in ["", " exact"] {
            for (results, stores) in [("%4", 1), ("%3 %4", 2)] {
                let steps = steps(50, results, exact);
                let [(None, stored, reads)] = &steps[..] else {
                    panic!("{results}: {steps:?}");
                };
                assert_eq!((stored.len(), reads.len()), (stores, 2));
            }
        }
    }
}
