//! Where half-precision values round.

use super::{kernels, plan, run};
use crate::common::{filled, kept, values};
use ferrotrace_jit::NodeOp;
use ferrotrace_kernels::{Op, Operand, ValueId};
use ferrotrace_runtime::stats_scope;
use half::{bf16, f16};

// ir T81: the 0-d tensor becomes what the other one is before anything is computed with it.
#[test]
fn a_half_operand_of_another_half_type_is_rounded_to_it() {
    let x = filled::<bf16>(&[3], |i| bf16::from_f32(1.0 + i as f32));
    let one = 1.0 + 1.0 / 512.0;
    let y = filled::<f16>(&[], |_| f16::from_f32(one));
    for exact in ["", " exact"] {
        let text = format!(
            "%0: bf16[3] = input 0 [1]{exact}
             %1: f16[] = input 1 []{exact}
             %2: bf16[3] = mul(%0, %1){exact}
             return %2"
        );
        let got = values(&run(&text, &[x.clone(), y.clone()], 0.0)[0]);
        assert_ne!(f16::from_f32(one), f16::ONE, "binary16 holds it");
        assert_eq!(got, [1.0, 2.0, 3.0], "bfloat16 does not");
    }

    // What bfloat16 holds and binary16 does not overflows.
    let x = filled::<f16>(&[2], |_| f16::ONE);
    let y = filled::<bf16>(&[], |_| bf16::from_f32(1e6));
    let text = "%0: f16[2] = input 0 [1]
                %1: bf16[] = input 1 []
                %2: f16[2] = minimum(%0, %1)
                %3: f16[2] = div(%0, %1)
                return %2 %3";
    let got = run(text, &[x, y], 0.0);
    assert_eq!(
        (values(&got[0]), values(&got[1])),
        (vec![1.0, 1.0], vec![0.0, 0.0])
    );
}

// What is stored and what decides by it are one kernel, which reads the number that it stores.
#[test]
fn a_decision_in_the_kernel_that_stores_reads_what_is_stored() {
    let x = filled::<bf16>(&[4, 2], |i| bf16::from_f32(256.0 - (i % 2) as f32));
    let text = "%0: bf16[4, 2] = input 0 [2, 1]
                %1: bf16[4, 2] = add(%0, 0.4)
                %2: bool[4, 2] = eq(%1, 256.0)
                %3: bf16[4, 1] = max(%1) {dims: [1], keepdim: true}
                %4: bool[4, 2] = eq(%1, %3)
                return %1 %2 %4";
    let got = run(text, std::slice::from_ref(&x), 0.0);
    assert_eq!(values(&got[1]), [1.0, 0.0].repeat(4));
    assert_eq!(values(&got[2]), [1.0, 0.0].repeat(4));
    assert_eq!(kernels(text), 1);
}

// What one continuous operator reads is not rounded: 1 / 512 is lost in bfloat16.
#[test]
fn a_chain_of_continuous_operators_stays_in_binary32() {
    let x = filled::<bf16>(&[2], |_| bf16::ONE);
    let text = "%0: bf16[2] = input 0 [1]
                %1: bf16[2] = add(%0, 0.001953125)
                %2: bf16[2] = sub(%1, 1.0)
                return %2";
    let small = 1.0 / 512.0;
    assert_eq!(
        values(&run(text, std::slice::from_ref(&x), small)[0]),
        [small; 2]
    );
    let exact: Vec<String> = text.lines().map(|l| format!("{l} exact")).collect();
    let exact = exact.join("\n").replace("return %2 exact", "return %2");
    assert_eq!(values(&run(&exact, &[x], 0.0)[0]), [0.0; 2]);
}

// A bias is added to sums in binary32: once by the definition, and in the memory between product and kernel.
#[test]
fn a_bias_is_added_to_sums_that_are_not_rounded() {
    let of = |data: [f32; 2]| filled::<bf16>(&[1, 2], |i| bf16::from_f32(data[i]));
    let bias = filled::<bf16>(&[1], |_| bf16::from_f32(-256.0));
    for exact in ["", " exact"] {
        let text = format!(
            "%0: bf16[1, 2] = input 0 [2, 1]
             %1: bf16[1, 2] = input 1 [2, 1]
             %2: bf16[1] = input 2 [1]
             %3: bf16[1, 1] = linear(%0, %1, %2) {{bias: true}}{exact}
             %4: bf16[1, 1] = exp(%3){exact}
             return %3 %4"
        );
        let inputs = [of([16.0, 1.0]), of([16.0, 0.5]), bias.clone()];
        assert_eq!(values(&run(&text, &inputs, 0.01)[0]), [0.5]);
    }
}

// The library would copy operands of other types while it runs: the copies are casts that are planned.
#[test]
fn products_of_other_types_hold_what_is_expected() {
    let (m, k, n) = (300, 33, 20);
    let input = |dtype: &str, shape: &[usize]| match dtype {
        "f16" => filled::<f16>(shape, |i| f16::from_f32((i * 7 % 23) as f32 / 8.0 - 1.0)),
        "bf16" => filled::<bf16>(shape, |i| bf16::from_f32((i * 7 % 23) as f32 / 8.0 - 1.0)),
        "f32" => filled(shape, |i| (i * 7 % 23) as f32 / 8.0 - 1.0),
        _ => filled(shape, |i| (i * 7 % 23) as f64 / 8.0 - 1.0),
    };
    for (left, right, result) in [
        ("f16", "f16", "f16"),
        ("f16", "bf16", "f32"),
        ("bf16", "f32", "f32"),
        ("bf16", "f64", "f64"),
        ("f32", "f64", "f64"),
    ] {
        for exact in ["", " exact"] {
            let text = format!(
                "%0: {left}[{m}, {k}] = input 0 [{k}, 1]
                 %1: {right}[{n}, {k}] = input 1 [{k}, 1]
                 %2: {right}[{n}] = input 2 [1]
                 %3: {left}[{m}, {k}] = add(%0, 0.5){exact}
                 %4: {result}[{m}, {n}] = linear(%3, %1, %2) {{bias: true}}{exact}
                 %5: {result}[{m}, {n}] = relu(%4){exact}
                 return %5"
            );
            let arrays = [
                input(left, &[m, k]),
                input(right, &[n, k]),
                input(right, &[n]),
            ];
            run(&text, &arrays, 1e-2);
            let plan = plan(&text);
            let (_, stats) = stats_scope(|| plan.run(&mut kept(&arrays), &[]).expect("it runs"));
            assert_eq!(
                stats.peak_bytes,
                plan.draft().peak(&|_| false),
                "{left} {right}"
            );
        }
    }
}

// Queries, keys and values of one half-precision tensor: it is converted once.
#[test]
fn products_of_one_operand_share_its_conversion() {
    let text = "%0: bf16[40, 32] = input 0 [32, 1]
                %1: bf16[32, 24] = input 1 [24, 1]
                %2: bf16[32, 24] = input 2 [24, 1]
                %3: bf16[40, 24] = matmul(%0, %1)
                %4: bf16[40, 24] = matmul(%0, %2)
                return %3 %4";
    let casts = |text: &str, of: u32| {
        let plan = plan(text);
        let graph = &plan.draft().graph;
        let operators = graph.nodes().iter().filter(|node| {
            let cast = matches!(node.op, NodeOp::Op(Op::Cast(_)));
            cast && matches!(node.args[..], [Operand::Value(ValueId(x))] if x == of)
        });
        operators.count()
    };
    assert_eq!(casts(text, 0), 1);
    let of = |shape: &[usize], by| filled(shape, |i| bf16::from_f32((i * by % 23) as f32 / 8.0));
    let arrays = [of(&[40, 32], 7), of(&[32, 24], 5), of(&[32, 24], 3)];
    run(text, &arrays, 1e-2);
    // A vector by a matrix: its elements are converted where they are multiplied.
    assert_eq!(casts(&text.replace("[40,", "[1,"), 1), 0);
}
