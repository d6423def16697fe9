//! Where half-precision values round.

use super::{kernels, run};
use crate::common::{filled, values};
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
