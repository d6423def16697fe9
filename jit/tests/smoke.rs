//! Graphs compiled and run, against ready-made kernels.
#![allow(missing_docs)]
use ferrotrace_jit::{Graph, PlanInput, compile, run_eagerly};
use ferrotrace_kernels::*;
use ferrotrace_runtime::*;

fn array(shape: &[usize], seed: u64) -> Array {
    let n: usize = shape.iter().product();
    let mut s = seed.wrapping_mul(0x9E3779B97F4A7C15) | 1;
    let data: Vec<f32> = (0..n)
        .map(|_| {
            s ^= s << 13;
            s ^= s >> 7;
            s ^= s << 17;
            (s >> 40) as f32 / (1u64 << 24) as f32 * 4.0 - 2.0
        })
        .collect();
    let buffer = Buffer::from_slice(&Device::cpu(), &data).unwrap();
    Array {
        buffer,
        layout: Layout::contiguous(Shape::new(shape)),
        dtype: DType::F32,
    }
}

fn values(a: &Array) -> Vec<f32> {
    let data = a.buffer.as_slice::<f32>();
    a.layout.offsets().map(|i| data[i]).collect()
}

fn check(name: &str, shapes: &[&[usize]], build: impl Fn(&mut Graph, &[ValueId]) -> Vec<ValueId>) -> usize {
    let arrays: Vec<Array> = shapes.iter().enumerate().map(|(i, s)| array(s, i as u64 + 1)).collect();
    let mut graph = Graph::new();
    let ids: Vec<ValueId> = arrays
        .iter()
        .map(|a| graph.input(&a.layout, a.dtype, &Device::cpu()))
        .collect();
    let outputs = build(&mut graph, &ids);
    graph.set_outputs(outputs);
    let truth = run_eagerly(&graph, &arrays, &[]).unwrap();
    let plan = compile(graph).unwrap();
    if std::env::var("SHOW").is_ok() {
        println!("{}", plan.explain());
    }
    let mut inputs: Vec<PlanInput> = arrays
        .iter()
        .map(|a| PlanInput {
            array: a.clone(),
            donated: false,
        })
        .collect();
    let got = plan.run(&mut inputs, &[]).unwrap();
    for (g, t) in got.iter().zip(&truth) {
        assert_eq!(g.shape(), t.shape(), "{name}");
        for (i, (a, b)) in values(g).iter().zip(values(t)).enumerate() {
            assert!(
                (a - b).abs() <= 1e-4 * (1.0 + b.abs()),
                "{name}[{i}]: {a} against {b}\n{}",
                plan.explain()
            );
        }
    }
    println!("{name}: {} kernels", plan.explain().fused_nodes().len());
    plan.explain().fused_nodes().len()
}

#[test]
fn pointwise() {
    for n in [1usize, 5, 16, 100, 40000] {
        let k = check("chain", &[&[n], &[n]], |g, x| {
            let a = g.mul(x[0], x[1]).unwrap();
            let b = g.add(a, 0.5).unwrap();
            vec![g.unary(UnaryOp::Exp, b).unwrap()]
        });
        assert_eq!(k, 1);
    }
}

#[test]
fn softmax_is_one_kernel() {
    for shape in [[3usize, 7], [64, 1000], [5, 17], [40, 64]] {
        let k = check("softmax", &[&shape], |g, x| {
            vec![
                g.push(Op::Composite(Composite::Softmax { dim: 1 }), &[x[0].into()])
                    .unwrap(),
            ]
        });
        assert_eq!(k, 1);
        let k = check("softmax0", &[&shape], |g, x| {
            vec![
                g.push(Op::Composite(Composite::Softmax { dim: 0 }), &[x[0].into()])
                    .unwrap(),
            ]
        });
        assert_eq!(k, 1);
        let k = check("log_softmax", &[&shape], |g, x| {
            vec![
                g.push(Op::Composite(Composite::LogSoftmax { dim: 1 }), &[x[0].into()])
                    .unwrap(),
            ]
        });
        assert_eq!(k, 1);
    }
}

#[test]
fn norms_are_one_kernel() {
    for shape in [[3usize, 7], [64, 1000], [40, 64]] {
        let c: &[usize] = &[shape[1]];
        let k = check("layer_norm", &[&shape, c, c], |g, x| {
            let op = Op::Composite(Composite::LayerNorm {
                n: 1,
                weight: true,
                bias: true,
            });
            vec![
                g.push(op, &[x[0].into(), x[1].into(), x[2].into(), 1e-5.into()])
                    .unwrap(),
            ]
        });
        assert_eq!(k, 1);
        let k = check("var", &[&shape], |g, x| {
            let op = Op::Composite(Composite::Var {
                mask: 2,
                keepdim: false,
                correction: 1,
                root: false,
            });
            vec![g.push(op, &[x[0].into()]).unwrap()]
        });
        assert_eq!(k, 1);
        let k = check("x - mean0", &[&shape], |g, x| {
            let m = g.reduce(ReduceKind::Mean, x[0], 1, true).unwrap();
            vec![g.sub(x[0], m).unwrap()]
        });
        assert_eq!(k, 1);
    }
}

#[test]
fn reductions() {
    for shape in [[3usize, 7, 5], [16, 33, 64], [2, 300, 700]] {
        for mask in 1..8u64 {
            for kind in [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min] {
                check(&format!("{kind:?} {mask}"), &[&shape], |g, x| {
                    let y = g.mul(x[0], 2.0).unwrap();
                    vec![g.reduce(kind, y, mask, false).unwrap()]
                });
            }
        }
    }
    let k = check("sum and max", &[&[64, 100]], |g, x| {
        vec![
            g.reduce(ReduceKind::Sum, x[0], 2, false).unwrap(),
            g.reduce(ReduceKind::Max, x[0], 2, false).unwrap(),
        ]
    });
    assert_eq!(k, 1);
}

#[test]
fn views() {
    let k = check("cat", &[&[3, 4], &[3, 5]], |g, x| {
        let a = g.add(x[0], 1.0).unwrap();
        let c = g.push(Op::Cat { dim: 1 }, &[a.into(), x[1].into()]).unwrap();
        vec![g.mul(c, 2.0).unwrap()]
    });
    assert_eq!(k, 1);
    check("pad", &[&[3, 40]], |g, x| {
        let pads = smallvec::smallvec![(1, 2), (3, -1)];
        vec![g.push(Op::Pad(pads), &[x[0].into(), 7.0.into()]).unwrap()]
    });
    let k = check("reshape", &[&[24], &[4, 3, 2], &[4, 6]], |g, x| {
        let a = g.add(x[0], 1.0).unwrap();
        let e = |l: &[usize]| Op::Reshape(l.iter().map(|&n| Extent::Size(n)).collect());
        let a = g.push(e(&[4, 3, 2]), &[a.into()]).unwrap();
        let b = g.mul(a, x[1]).unwrap();
        let b = g.push(e(&[4, 6]), &[b.into()]).unwrap();
        vec![g.sub(b, x[2]).unwrap()]
    });
    assert_eq!(k, 1);
    check("transpose", &[&[33, 65], &[65, 33]], |g, x| {
        let t = g.push(Op::Permute(smallvec::smallvec![1, 0]), &[x[1].into()]).unwrap();
        vec![g.add(x[0], t).unwrap()]
    });
}
