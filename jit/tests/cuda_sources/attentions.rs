//! Sources of attention.

use super::*;
use ferrotrace_kernels::op::{Iota, Permute, Softmax};

/// Attention written out over 4 heads of `[rows, width]` and `[keys, width]`: `change` makes scores in binary32 of the
/// product, and says what else is an output.
fn attention_of(
    dtype: DType,
    sizes: [usize; 3],
    change: impl Fn(&mut Graph, ValueId) -> (ValueId, Option<ValueId>),
) -> Graph {
    attention_under(Precision::Fast, dtype, sizes, change)
}

fn attention_under(
    precision: Precision,
    dtype: DType,
    [rows, keys, width]: [usize; 3],
    change: impl Fn(&mut Graph, ValueId) -> (ValueId, Option<ValueId>),
) -> Graph {
    let mut g = Graph::new();
    g.set_origin(None, precision);
    let mut input = |n: usize| {
        let layout = Layout::contiguous(Shape::from([4, n, width]));
        g.input(&layout, dtype, &Device::cpu())
    };
    let (q, k, v) = (input(rows), input(keys), input(keys));
    let mut push = |op: Op, args: &[ValueId]| {
        let args: Vec<Operand> = args.iter().map(|&x| x.into()).collect();
        g.push(op, &args).unwrap_or_else(|e| panic!("{e}"))
    };
    let turned = push(Op::Permute(Permute(SmallVec::from_slice(&[0, 2, 1]))), &[k]);
    let product = push(Op::Matmul, &[q, turned]);
    let (scores, other) = change(&mut g, product);
    let softmax = Op::Composite(Composite::Softmax(Softmax { dim: 2 }));
    let weights = g.push(softmax, &[scores.into()]).expect("a softmax");
    let weights = g.cast(weights, dtype).expect("a cast");
    let result = g.push(Op::Matmul, &[weights.into(), v.into()]);
    let result = result.expect("a product");
    g.set_outputs(std::iter::once(result).chain(other).collect());
    g
}

const SLOT: Operand = Operand::Slot(0, Scalar::Float(0.125));

fn scaled(g: &mut Graph, product: ValueId) -> ValueId {
    g.binary(BinaryOp::Mul, product, SLOT).expect("a product")
}

fn causal(g: &mut Graph, product: ValueId) -> ValueId {
    let (rows, keys) = (g.shape(product)[1], g.shape(product)[2]);
    let mut iota = |shape: [usize; 2], dim: usize| {
        let shape = Shape::from(shape);
        g.push(Op::Iota(Iota { shape, dim }), &[]).expect("numbers")
    };
    let (row, column) = (iota([rows, 1], 0), iota([1, keys], 1));
    let seen = g.binary(BinaryOp::Ge, row, column).expect("a mask");
    let scores = scaled(g, product);
    g.select(seen, scores, f64::NEG_INFINITY).expect("scores")
}

/// Keys up to positions that an input holds.
fn limited(g: &mut Graph, product: ValueId) -> ValueId {
    let (rows, keys) = (g.shape(product)[1], g.shape(product)[2]);
    let layout = Layout::contiguous(Shape::from([rows, 1]));
    let positions = g.input(&layout, DType::I64, &Device::cpu());
    let shape = Shape::from([1, keys]);
    let key = g
        .push(Op::Iota(Iota { shape, dim: 1 }), &[])
        .expect("numbers");
    let seen = g.binary(BinaryOp::Le, key, positions).expect("a mask");
    let scores = scaled(g, product);
    g.select(seen, scores, f64::NEG_INFINITY).expect("scores")
}

fn biased(g: &mut Graph, product: ValueId) -> ValueId {
    let keys = g.shape(product)[2];
    let layout = Layout::contiguous(Shape::from([4, 1, keys]));
    let bias = g.input(&layout, DType::F32, &Device::cpu());
    let capped = g.unary(UnaryOp::Tanh, product).expect("a function");
    g.binary(BinaryOp::Add, capped, bias).expect("a sum")
}

/// Attention is one kernel without a matrix of scores; its scale is folded into the exponential, its causal mask leaves
/// out blocks, other changes are a function of a score.
#[test]
fn attention_is_one_kernel() {
    let mut all = BTreeSet::new();
    let mut one = |graph: &Graph| {
        let found = sources(graph);
        assert_eq!(found.len(), 1, "{graph}");
        all.extend(found.iter().cloned());
        found.into_iter().next().unwrap_or_default()
    };
    for (dtype, sizes) in [
        (DType::BF16, [300, 400, 64]),
        (DType::F16, [1, 3000, 32]),
        (DType::F32, [40, 70, 16]),
    ] {
        let text = one(&attention_of(dtype, sizes, |g, p| (scaled(g, p), None)));
        assert!(!text.contains("FT_SYMBOL_score("), "{text}");
        assert_eq!(text.contains("FT_SYMBOL_finish("), sizes[0] == 1);
        let text = one(&attention_of(dtype, sizes, |g, p| (causal(g, p), None)));
        assert!(!text.contains("FT_SYMBOL_score("), "{text}");
        assert!(text.contains(", true, false, false, false, "), "{text}");
        let text = one(&attention_of(dtype, sizes, |g, p| (limited(g, p), None)));
        assert!(text.contains(", false, true, false, false, "), "{text}");
        assert!(text.contains("FT_SYMBOL_last("), "{text}");
        assert!(!text.contains("FT_SYMBOL_score("), "{text}");
        let text = one(&attention_of(dtype, sizes, |g, p| (biased(g, p), None)));
        assert!(text.contains("FT_SYMBOL_score("), "{text}");
    }
    if available() {
        let groups = all.iter().filter(|text| text.contains("ft_group<"));
        let groups: BTreeSet<String> = groups.cloned().collect();
        assert_eq!(groups.len(), 4);
        compile_all_for(HOPPER, groups);
        compile_all(all);
    }
}

/// On Hopper many queries of half precision are the work of groups of warps that the copy engine feeds, where rows are
/// aligned and there are enough of them.
#[test]
fn attention_by_groups_that_take_turns() {
    let hopper = capable(90);
    let mut all = BTreeSet::new();
    let mut one = |policy: &Policy, graph: &Graph, kernel: &str| {
        let found = kernels_with(graph, policy);
        let text = found[0].source.text();
        assert!(found.len() == 1 && text.contains(kernel), "{graph}{text}");
        all.insert(text);
    };
    let ahead = "  ft_attend_specialized<";
    for (dtype, width) in [(DType::BF16, 128), (DType::F16, 128), (DType::BF16, 64)] {
        let sizes = [5000, 5001, width];
        let graph = attention_of(dtype, sizes, |g, p| (scaled(g, p), None));
        one(&hopper, &graph, ahead);
        one(&device(), &graph, "  ft_attend<");
        for change in [causal, limited] {
            let graph = attention_of(dtype, sizes, |g, p| (change(g, p), None));
            one(&hopper, &graph, ahead);
        }
        let graph = attention_of(dtype, sizes, |g, p| (biased(g, p), None));
        one(&hopper, &graph, ahead);
    }
    // Few tiles, rows of an odd number of elements, panels that would be half empty, single precision.
    for (dtype, sizes) in [
        (DType::BF16, [500, 5000, 128]),
        (DType::BF16, [5000, 5000, 127]),
        (DType::BF16, [5000, 5000, 80]),
        (DType::F32, [5000, 5000, 128]),
    ] {
        let graph = attention_of(dtype, sizes, |g, p| (scaled(g, p), None));
        one(&hopper, &graph, "  ft_attend<");
    }
    if available() {
        compile_all_for(HOPPER, all);
    }
}

/// The keys of few queries are shared by the warps of a cluster, or cut into pieces where a cluster would take long.
#[test]
fn attention_of_few_queries() {
    let hopper = capable(90);
    let mut all = BTreeSet::new();
    for (dtype, width) in [(DType::BF16, 64), (DType::F16, 128)] {
        for (rows, keys, split) in [(1, 200, false), (16, 1024, false), (4, 200_000, true)] {
            for change in [scaled, causal, limited, biased] {
                let graph = attention_of(dtype, [rows, keys, width], |g, p| (change(g, p), None));
                let found = kernels_with(&graph, &hopper);
                let text = found[0].source.text();
                assert!(
                    found.len() == 1 && text.contains("  ft_attend_few<"),
                    "{graph}{text}"
                );
                assert_eq!(found[0].source.finish, split, "{graph}");
                assert_eq!(text.contains(" __cluster_dims__("), keys == 1024);
                all.insert(text);
            }
        }
    }
    // More queries, rows of no whole chunks, single precision.
    for (dtype, sizes) in [
        (DType::BF16, [17, 500, 64]),
        (DType::BF16, [4, 500, 80]),
        (DType::F32, [4, 500, 64]),
    ] {
        let graph = attention_of(dtype, sizes, |g, p| (scaled(g, p), None));
        let text = kernels_with(&graph, &hopper)[0].source.text();
        assert!(text.contains("  ft_attend<"), "{text}");
    }
    if available() {
        compile_all_for(HOPPER, all);
    }
}

/// Steps of attention, and why there are none.
fn attentions(graph: &Graph) -> (Vec<Emitted>, Vec<Refusal>) {
    let graph = simplify_for(graph, &device()).expect("the graph simplifies");
    let lowering = lower(&graph, &device()).expect("the graph lowers");
    let steps = lowering.steps.iter().enumerate();
    let steps = steps.filter_map(|(at, step)| match step {
        Lowered::Attention(step) => Some(attention::emit(step, at, &device())),
        _ => None,
    });
    let refusals = lowering.refusals.iter().map(|refusal| refusal.2);
    (steps.collect(), refusals.collect())
}

/// What a kernel computes is counted, and why there is none is said.
#[test]
fn attention_counts_its_products() {
    let of = |sizes: [usize; 3], needed: bool| {
        let change = |g: &mut Graph, p: ValueId| {
            let scores = scaled(g, p);
            (scores, needed.then_some(scores))
        };
        attentions(&attention_of(DType::F32, sizes, change))
    };
    let (steps, refusals) = of([30, 40, 16], false);
    assert_eq!((steps.len(), refusals.len()), (1, 0));
    assert_eq!(steps[0].products, 2 * 4 * 30 * 40 * (16 + 16));
    assert_eq!(of([30, 40, 16], true).1, [Refusal::ScoresNeeded]);
    assert_eq!(of([30, 40, 300], false).1, [Refusal::TooWide]);
    // Operations that are to be rounded one by one are.
    let exact = |precision: Precision| {
        let sizes = [30, 40, 16];
        let graph = attention_under(precision, DType::BF16, sizes, |_, p| (p, None));
        attentions(&graph).0.len()
    };
    assert_eq!([Precision::Fast, Precision::EagerExact].map(exact), [1, 0]);
}

/// Scores that something else needs are stored: the softmax is a kernel of its own.
#[test]
fn scores_that_are_needed_are_no_attention() {
    let of = |needed: bool| {
        let change = |g: &mut Graph, p: ValueId| {
            let scores = scaled(g, p);
            (scores, needed.then_some(scores))
        };
        sources(&attention_of(DType::F32, [30, 40, 16], change))
    };
    assert!(of(false)[0].contains("ft_attend"));
    let graph = attention_of(DType::F32, [30, 40, 300], |g, p| (scaled(g, p), None));
    assert!(
        sources(&graph)
            .iter()
            .all(|text| !text.contains("ft_attend"))
    );
    let apart = of(true);
    assert!(!apart.is_empty() && apart.iter().all(|text| !text.contains("ft_attend")));
}

/// Attention of few keys and narrow values is one kernel like any other, though products by small matrices are sums elsewhere:
/// its scores stay in binary32.
#[test]
fn attention_of_few_keys_is_one_kernel() {
    for ([rows, keys, width], causal) in [([1, 2, 1], false), ([2, 5, 4], true), ([8, 8, 8], true)]
    {
        let text = format!(
            "%0: bf16[4, {rows}, {width}] = input 0 [{}, {width}, 1]
             %1: bf16[4, {keys}, {width}] = input 1 [{}, {width}, 1]
             %2: bf16[4, {rows}, {width}] = scaled_dot_product_attention(%0, %1, %1) {{mask: false, causal: {causal}, scale: NaN}}
             return %2",
            rows * width,
            keys * width,
        );
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(attentions(&graph).0.len(), 1, "{rows} {keys} {width}");
    }
}

/// Queries, keys and values that one product with a bias computes are windows of its result: no kernel moves them.
#[test]
fn parts_of_a_product_are_windows() {
    let text = "%0: bf16[2, 256, 768] = input 0 [196608, 768, 1]
         %1: bf16[2304, 768] = input 1 [768, 1]
         %2: bf16[2304] = input 2 [1]
         %3: bf16[2, 256, 2304] = linear(%0, %1, %2) {bias: true}
         %4: bf16[2, 256, 3, 12, 64] = reshape(%3) {to: [2, 256, 3, 12, 64]}
         %5: bf16[3, 2, 12, 256, 64] = permute(%4) {order: [2, 0, 3, 1, 4]}
         %6: bf16[2, 12, 256, 64] = select(%5) {dim: 0, index: 0}
         %7: bf16[2, 12, 256, 64] = select(%5) {dim: 0, index: 1}
         %8: bf16[2, 12, 256, 64] = select(%5) {dim: 0, index: 2}
         %9: bf16[2, 12, 256, 64] = scaled_dot_product_attention(%6, %7, %8) {mask: false, causal: true, scale: NaN}
         return %9";
    let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
    let policy = Policy::from(ferrotrace_jit::target::Target::cuda(90, 132, 227 << 10));
    let found = kernels_with(&graph, &policy);
    let [product, attention] = &found[..] else {
        panic!("{} kernels", found.len());
    };
    let epilogue = product.node.product.and_then(|of| of.epilogue);
    assert_eq!(epilogue.and_then(|of| of.bias), Some(Source::Input(2)));
    let result = Pointer::Read(Source::Node(product.node.stores[0].node));
    assert_eq!(attention.pointers[..3], [result; 3]);
}
