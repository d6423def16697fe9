//! Sources of products with what follows them, and of those that are left to the library.

use super::*;

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
        g.push(Op::Permute(order), &[x.into()]).expect("a view")
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
    let hopper = |products: u32| Thresholds {
        products,
        ..thresholds()
    };
    let mut one = |graph: &Graph| {
        for (at, capability) in [80, 90].into_iter().enumerate() {
            let found = kernels_with(graph, &hopper(capability));
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
    if available() {
        let [warps, groups] = texts;
        compile_all_for("sm_80", warps);
        compile_all_for(HOPPER, groups);
    }
}

/// What a generated product does not take stays the library's, and why is known.
#[test]
fn products_of_the_library() {
    let limits = Thresholds {
        products: 90,
        ..thresholds()
    };
    let none = |graph: &Graph| {
        let found = kernels_with(graph, &limits);
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
    // Single precision; lines that begin anywhere; few rows; nothing to sum over.
    none(&of(DType::F32, [256, 256, 256]));
    none(&of(DType::F16, [256, 256, 100]));
    none(&of(DType::F16, [256, 100, 256]));
    none(&of(DType::F16, [16, 256, 256]));
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
        let sum = Op::Composite(Composite::Softmax { dim: 1 });
        g.push(sum, &[y.into()]).expect("fits")
    }));
    none(&tail(&|g, p| {
        let turned = Op::Permute(SmallVec::from_slice(&[1, 0]));
        let turned = g.push(turned, &[p.into()]).expect("a view");
        g.add(p, turned).expect("fits")
    }));
}
