//! Sources of products with what follows them, and of those that are left to the library.

use super::*;
use ferrotrace_jit::{Draft, Step};
use ferrotrace_kernels::op::{Linear, Permute, Reshape, Softmax};

/// A product of `[batch.., m, k]` and `[batch.., k, n]`, whose matrices lie row by row or, where it says so, column by
/// column, and what follows it.
fn product_of(
    precision: Precision,
    dtype: DType,
    batch: &[usize],
    [m, n, k]: [usize; 3],
    turned: [bool; 2],
    tail: impl Fn(&mut Graph, ValueId) -> Vec<ValueId>,
) -> Graph {
    let mut g = Graph::new();
    g.set_origin(None, precision);
    let mut operand = |rows: usize, columns: usize, turned: bool| {
        let sizes = if turned {
            [columns, rows]
        } else {
            [rows, columns]
        };
        let shape = Shape::new(&[batch, &sizes[..]].concat());
        let x = g.input(&Layout::contiguous(shape), dtype, &Device::cpu());
        if !turned {
            return x;
        }
        let mut order: SmallVec<[usize; 6]> = (0..batch.len() + 2).collect();
        order.swap(batch.len(), batch.len() + 1);
        let order = order.iter().map(|&d| d as _).collect();
        g.push(Op::Permute(Permute(order)), &[x.into()])
            .expect("a view")
    };
    let (a, b) = (operand(m, k, turned[0]), operand(k, n, turned[1]));
    let product = g.push(Op::Matmul, &[a.into(), b.into()]).expect("fits");
    let outputs = tail(&mut g, product);
    g.set_outputs(outputs);
    g
}

fn input_like(g: &mut Graph, of: ValueId, dtype: DType) -> ValueId {
    let layout = Layout::contiguous(g.shape(of).clone());
    g.input(&layout, dtype, &Device::cpu())
}

/// silu(product) + residual.
fn gated(g: &mut Graph, product: ValueId) -> ValueId {
    let residual = input_like(g, product, g.dtype(product));
    let silu = Op::Composite(Composite::Silu);
    let y = g.push(silu, &[product.into()]).expect("fits");
    g.add(y, residual).expect("fits")
}

/// A product and the pointwise kernel behind it are one kernel, for devices with groups of warps and without.
#[test]
fn products_take_what_follows() {
    let mut texts = [BTreeSet::new(), BTreeSet::new()];
    let mut one = |graph: &Graph| {
        for (at, capability) in [80, 90].into_iter().enumerate() {
            let found = kernels_with(graph, &capable(capability));
            assert_eq!(found.len(), 1, "{graph}");
            assert!(found[0].node.product.is_some());
            let groups = found[0].source.text().contains("ft_by_groups<");
            assert_eq!(groups, capability == 90);
            texts[at].insert(found[0].source.text());
        }
    };
    let fast = Precision::Fast;
    for (dtype, batch, sizes, turned) in [
        (DType::BF16, &[][..], [512, 768, 256], [false, false]),
        (DType::BF16, &[], [136, 72, 1000], [false, false]),
        (DType::BF16, &[2, 3], [136, 200, 264], [false, false]),
        (DType::F16, &[3], [200, 136, 264], [false, true]),
        (DType::BF16, &[], [136, 1000, 328], [true, false]),
        (DType::F16, &[2, 3], [128, 264, 256], [true, true]),
    ] {
        one(&product_of(fast, dtype, batch, sizes, turned, |g, p| {
            vec![gated(g, p)]
        }));
    }
    let sizes = [256, 256, 256];
    let square = [false, false];
    let exact = Precision::EagerExact;
    one(&product_of(
        exact,
        DType::BF16,
        &[],
        sizes,
        square,
        |g, p| vec![gated(g, p)],
    ));
    // The product itself, a cast of it, and a sum with a column of numbers.
    one(&product_of(fast, DType::F16, &[], sizes, square, |g, p| {
        let layout = Layout::contiguous(Shape::from([256, 1]));
        let column = g.input(&layout, DType::F16, &Device::cpu());
        let wide = g.cast(p, DType::F32).expect("a cast");
        let sum = g.sub(p, column).expect("fits");
        vec![p, wide, sum]
    }));
    // Rows of a batch by one matrix are the rows of one product, single rows too.
    for (lead, m) in [(2, 256), (512, 1)] {
        let mut g = Graph::new();
        let layout = |sizes: &[usize]| Layout::contiguous(Shape::new(sizes));
        let x = g.input(&layout(&[lead, m, 256]), DType::BF16, &Device::cpu());
        let w = g.input(&layout(&[256, 768]), DType::BF16, &Device::cpu());
        let product = g.push(Op::Matmul, &[x.into(), w.into()]).expect("fits");
        let result = gated(&mut g, product);
        g.set_outputs(vec![result]);
        one(&g);
    }
    if available() {
        let [warps, groups] = texts;
        compile_all_for("sm_80", warps);
        compile_all_for(HOPPER, groups);
    }
}

/// Few rows by a matrix whose lines are columns are read by lines, alone too; the right operand is read before the kernel
/// waits where it is an input.
#[test]
fn products_of_few_rows_by_lines() {
    let mut texts = BTreeSet::new();
    let mut one = |graph: &Graph, early: bool| {
        let found = kernels_with(graph, &capable(90));
        assert_eq!(found.len(), 1, "{graph}");
        let text = found[0].source.text();
        assert!(text.contains("ft_by_lines<"), "{text}");
        assert_eq!(!text.contains("args a) {\n  FT_AFTER;\n"), early, "{text}");
        texts.insert(text);
    };
    for (dtype, precision) in [
        (DType::BF16, Precision::Fast),
        (DType::F16, Precision::EagerExact),
    ] {
        for sizes in [
            [2, 2048, 2048],
            [8, 8192, 2048],
            [8, 2048, 8192],
            [12, 2048, 2048],
            [32, 2048, 2048],
            [32, 512, 2048],
            [3, 515, 200],
        ] {
            let of = |tail: fn(&mut Graph, ValueId) -> Vec<ValueId>| {
                product_of(precision, dtype, &[], sizes, [false, true], tail)
            };
            one(&of(|_, p| vec![p]), true);
            one(&of(|g, p| vec![gated(g, p)]), true);
        }
    }
    if available() {
        compile_all_for(HOPPER, texts);
    }
}

/// The half-precision product of `[m, k]` and `[n, k]ᵀ` with a bias, and an activation that no library has.
fn biased(precision: Precision, [m, n, k]: [usize; 3]) -> Graph {
    let mut g = Graph::new();
    g.set_origin(None, precision);
    let mut input = |sizes: &[usize]| {
        let layout = Layout::contiguous(Shape::new(sizes));
        g.input(&layout, DType::BF16, &Device::cpu())
    };
    let (x, w, b) = (input(&[m, k]), input(&[n, k]), input(&[n]));
    let linear = Op::Composite(Composite::Linear(Linear { bias: true }));
    let y = g
        .push(linear, &[x.into(), w.into(), b.into()])
        .expect("fits");
    let silu = Op::Composite(Composite::Silu);
    let y = g.push(silu, &[y.into()]).expect("fits");
    g.set_outputs(vec![y]);
    g
}

/// A bias is added to the sums of a product before they are rounded, also where every operation rounds.
#[test]
fn biases_are_added_to_sums() {
    let mut texts = BTreeSet::new();
    for precision in [Precision::Fast, Precision::EagerExact] {
        // Few ragged rows: the product and what follows are one kernel, whose function of sums is given them in binary32.
        let few = kernels_with(&biased(precision, [8, 3, 64]), &capable(90));
        let [kernel] = &few[..] else {
            panic!("{} kernels", few.len());
        };
        let text = kernel.source.text();
        let sum = text.split_once("= given[l];").map(|(_, after)| after);
        let sum = sum.expect("the sum as it is given");
        assert!(sum.contains(" + "), "{text}");
        texts.insert(text);
        // Tiles of groups of warps are rounded before what follows them sees them.
        let large = biased(precision, [512, 768, 256]);
        for capability in [80, 90] {
            for kernel in kernels_with(&large, &capable(capability)) {
                let text = kernel.source.text();
                assert!(!text.contains("ft_by_groups<"), "{text}");
                texts.insert(text);
            }
        }
    }
    if available() {
        compile_all_for(HOPPER, texts);
    }
}

/// A product of few rows that another kernel adds a bias to leaves its sums in memory in binary32.
#[test]
fn sums_that_are_read_are_not_rounded() {
    let mut texts = BTreeSet::new();
    for exact in ["", " exact"] {
        let text = format!(
            "%0: bf16[2, 64] = input 0 [64, 1]
             %1: bf16[3, 64] = input 1 [64, 1]
             %2: bf16[3] = input 2 [1]
             %3: bf16[2, 3] = linear(%0, %1, %2) {{bias: true}}{exact}
             %4: bf16[1, 3] = max(%3) {{dims: [0], keepdim: true}}{exact}
             return %4"
        );
        let draft = Draft::of(parsed(&text), &capable(90)).expect("a draft");
        let kernels = draft.steps.iter().map(|step| match step {
            Step::Launch(kernel) => kernel,
            _ => panic!("a kernel is expected: {text}"),
        });
        let kernels: Vec<_> = kernels.collect();
        let [product, after] = &kernels[..] else {
            panic!("{} kernels", kernels.len());
        };
        assert!(product.products > 0);
        assert_eq!(product.node.stores[0].dtype, DType::F32);
        let mut loads = after.node.loads();
        assert!(loads.any(|(source, ..)| source == Source::Node(product.node.stores[0].node)));
        texts.insert(product.source.text());
    }
    if available() {
        compile_all_for(HOPPER, texts);
    }
}

/// What a generated product does not take stays the library's, and why is known.
#[test]
fn products_of_the_library() {
    let policy = capable(90);
    let none = |graph: &Graph| {
        let found = kernels_with(graph, &policy);
        assert!(
            found
                .iter()
                .all(|kernel| kernel.node.product.is_none_or(|p| p.tiles.is_none()))
        );
    };
    let of = |dtype, sizes| {
        let tail = |g: &mut Graph, p| vec![gated(g, p)];
        product_of(Precision::Fast, dtype, &[], sizes, [false, false], tail)
    };
    // Single precision; lines that begin anywhere; few rows of so many terms that a launch is nothing; nothing to sum over.
    none(&of(DType::F32, [256, 256, 256]));
    none(&of(DType::F16, [256, 256, 100]));
    none(&of(DType::F16, [256, 100, 256]));
    none(&of(DType::F16, [16, 8192, 8192]));
    // Where the product takes so long that reading it again is nothing, or so little that one launch is no less.
    none(&of(DType::F16, [8192, 8192, 8192]));
    none(&of(DType::F16, [256, 256, 64]));
    none(&of(DType::F16, [256, 256, 0]));
    // Bias and relu are the library's; a sum over rows, a turned result are kernels of their own.
    let tail = |f: &dyn Fn(&mut Graph, ValueId) -> ValueId| {
        let sizes = [256, 256, 256];
        product_of(
            Precision::Fast,
            DType::BF16,
            &[],
            sizes,
            [false, false],
            |g, p| vec![f(g, p)],
        )
    };
    none(&tail(&|g, p| g.unary(UnaryOp::Relu, p).expect("fits")));
    none(&tail(&|g, p| {
        let y = g.unary(UnaryOp::Exp, p).expect("fits");
        let sum = Op::Composite(Composite::Softmax(Softmax { dim: 1 }));
        g.push(sum, &[y.into()]).expect("fits")
    }));
    none(&tail(&|g, p| {
        let turned = Op::Permute(Permute(SmallVec::from_slice(&[1, 0])));
        let turned = g.push(turned, &[p.into()]).expect("a view");
        g.add(p, turned).expect("fits")
    }));
}

/// Sizes of a product whose operands are computed.
const FEW: [usize; 3] = [16, 4096, 4096];

/// A right operand of whole numbers of 8 bits, scaled along columns (of lines that are columns or rows), or by a number for
/// each 128 terms.
fn scaled(g: &mut Graph, [k, n]: [usize; 2], turned: bool, groups: bool) -> ValueId {
    let sizes = if turned { [n, k] } else { [k, n] };
    let mut input = |sizes: &[usize], dtype| {
        g.input(
            &Layout::contiguous(Shape::new(sizes)),
            dtype,
            &Device::cpu(),
        )
    };
    let w = input(&sizes, DType::I8);
    let scale = match (groups, turned) {
        (true, _) => input(&[n, k / 128, 1], DType::BF16),
        (false, true) => input(&[n, 1], DType::BF16),
        (false, false) => input(&[n], DType::BF16),
    };
    let w = g.cast(w, DType::BF16).expect("a cast");
    let shape = |sizes: &[usize]| {
        let all = sizes.iter().map(|&n| Extent::Size(n));
        Op::Reshape(Reshape(all.collect()))
    };
    let w = match groups {
        true => g
            .push(shape(&[n, k / 128, 128]), &[w.into()])
            .expect("fits"),
        false => w,
    };
    let mut w = g.mul(w, scale).expect("fits");
    if groups {
        w = g.push(shape(&[n, k]), &[w.into()]).expect("fits");
    }
    match turned {
        true => g
            .push(
                Op::Permute(Permute(SmallVec::from_slice(&[1, 0]))),
                &[w.into()],
            )
            .expect("a view"),
        false => w,
    }
}

/// x @ w with what computes w, x and what follows.
fn fed_product(
    [m, n, k]: [usize; 3],
    precision: Precision,
    right: impl Fn(&mut Graph) -> ValueId,
    left: impl Fn(&mut Graph, ValueId) -> ValueId,
    tail: impl Fn(&mut Graph, ValueId) -> ValueId,
) -> Graph {
    let mut g = Graph::new();
    g.set_origin(None, precision);
    let x = g.input(
        &Layout::contiguous(Shape::from([m, k])),
        DType::BF16,
        &Device::cpu(),
    );
    let (x, w) = (left(&mut g, x), right(&mut g));
    assert_eq!(*g.shape(w), Shape::from([k, n]));
    let p = g.push(Op::Matmul, &[x.into(), w.into()]).expect("fits");
    let y = tail(&mut g, p);
    g.set_outputs(vec![y]);
    g
}

/// What computes an operand of a product of few rows is part of its kernel, with what follows (scheduler T-19): one
/// kernel, which reads what the program gave it, for devices with clusters and without.
#[test]
fn products_take_what_computes_their_operands() {
    let mut texts = [BTreeSet::new(), BTreeSet::new()];
    let mut one = |graph: &Graph, operands: usize| {
        for (at, capability) in [80, 90].into_iter().enumerate() {
            let found = kernels_with(graph, &capable(capability));
            assert_eq!(found.len(), 1, "{graph}");
            assert_eq!(found[0].before.len(), operands, "{graph}");
            let text = found[0].source.text();
            assert!(text.contains("ft_by_streams<"), "{text}");
            assert_eq!(text.contains("__cluster_dims__("), capability == 90);
            texts[at].insert(text);
        }
    };
    let fast = Precision::Fast;
    let relu = |g: &mut Graph, x: ValueId| g.unary(UnaryOp::Relu, x).expect("fits");
    let same = |_: &mut Graph, x: ValueId| x;
    let [_, n, k] = FEW;
    for turned in [false, true] {
        let w = |g: &mut Graph| scaled(g, [k, n], turned, false);
        one(&fed_product(FEW, fast, w, same, same), 1);
        one(&fed_product(FEW, fast, w, same, gated), 1);
        one(&fed_product(FEW, fast, w, relu, relu), 2);
        one(&fed_product([24, n, k], fast, w, relu, gated), 2);
        one(&fed_product(FEW, Precision::EagerExact, w, relu, gated), 2);
    }
    let grouped = |g: &mut Graph| scaled(g, [k, n], true, true);
    one(&fed_product([32, n, k], fast, grouped, same, same), 1);
    // Numbers of both functions, of a slot and of the operators.
    let drops = |g: &mut Graph, x: ValueId| {
        let y = g
            .mul(x, Operand::Slot(0, Scalar::Float(2.0)))
            .expect("fits");
        g.push(Op::Composite(Composite::Gelu), &[y.into()])
            .expect("fits")
    };
    let w = |g: &mut Graph| scaled(g, [k, n], true, false);
    one(&fed_product(FEW, fast, w, drops, drops), 2);
    if available() {
        let [warps, clusters] = texts;
        compile_all_for("sm_80", warps);
        compile_all_for(HOPPER, clusters);
    }
}

/// What a product of few rows does not take is stored, and why is known.
#[test]
fn operands_that_are_stored() {
    let policy = capable(90);
    let refused = |graph: &Graph, why: Refusal| {
        let graph = simplify_for(graph, &policy).expect("simplifies");
        let lowering = lower(&graph, &policy).expect("lowers");
        let schedule = fuse(&graph, &lowering, &policy);
        assert!(schedule.prologues.values().all(Vec::is_empty), "{graph}");
        let all: Vec<Refusal> = schedule.refusals.iter().map(|r| r.2).collect();
        assert!(all.contains(&why), "{graph}\n{all:?}");
    };
    let fast = Precision::Fast;
    let same = |_: &mut Graph, x: ValueId| x;
    let [m, n, k] = FEW;
    let w = |g: &mut Graph| scaled(g, [k, n], true, false);
    // Many rows: the operand would be computed again for each tile of them.
    refused(
        &fed_product([4096, n, k], fast, w, same, same),
        Refusal::NoTemplate,
    );
    // A sum over the operand's row, as in a softmax.
    let softmax = |g: &mut Graph, x: ValueId| {
        g.push(
            Op::Composite(Composite::Softmax(Softmax { dim: 1 })),
            &[x.into()],
        )
        .expect("fits")
    };
    let stored = |g: &mut Graph| {
        let w = g.input(
            &Layout::contiguous(Shape::from([k, n])),
            DType::BF16,
            &Device::cpu(),
        );
        g.cast(w, DType::BF16).expect("fits")
    };
    refused(
        &fed_product(FEW, fast, stored, softmax, same),
        Refusal::AcrossPanels,
    );
    // The operand is a result too, by its use in what follows.
    let mut g = Graph::new();
    let x = g.input(
        &Layout::contiguous(Shape::from([m, k])),
        DType::BF16,
        &Device::cpu(),
    );
    let right = scaled(&mut g, [k, k], true, false);
    let x = g
        .push(Op::Composite(Composite::GeluTanh), &[x.into()])
        .expect("fits");
    let x = g.unary(UnaryOp::Exp, x).expect("fits");
    let p = g.push(Op::Matmul, &[x.into(), right.into()]).expect("fits");
    let y = g.unary(UnaryOp::Exp, p).expect("fits");
    g.set_outputs(vec![y, x]);
    let graph = simplify_for(&g, &policy).expect("simplifies");
    let lowering = lower(&graph, &policy).expect("lowers");
    let schedule = fuse(&graph, &lowering, &policy);
    let operands = schedule.prologues.values().flatten().map(|p| p.operand);
    assert_eq!(operands.collect::<Vec<_>>(), [1], "the left one is stored");
    // A left matrix whose columns are dense.
    let turned = |g: &mut Graph, x: ValueId| {
        let sizes = [k, m];
        let x2 = g.input(
            &Layout::contiguous(Shape::from(sizes)),
            DType::BF16,
            &Device::cpu(),
        );
        let _ = x;
        g.push(
            Op::Permute(Permute(SmallVec::from_slice(&[1, 0]))),
            &[x2.into()],
        )
        .expect("a view")
    };
    refused(
        &fed_product(FEW, fast, w, turned, same),
        Refusal::NoTemplate,
    );
}
