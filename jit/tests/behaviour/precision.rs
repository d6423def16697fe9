//! Where half-precision values round.

use super::run;
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
