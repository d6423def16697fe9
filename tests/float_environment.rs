//! Results do not depend on the floating-point environment of the thread that asks for them, or of any other, and the
//! environment of a thread stays its own.

use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace_runtime::{Control, with_control};

/// Environments that programs set: subnormal numbers flushed, in and out; every rounding but the nearest.
#[cfg(target_arch = "x86_64")]
const ENVIRONMENTS: [Control; 5] = {
    let (flush, masks) = (1 << 15 | 1 << 6, 0x1f80);
    [
        masks | flush,
        masks | 1 << 13,
        masks | 2 << 13,
        masks | 3 << 13,
        masks | flush | 3 << 13,
    ]
};
#[cfg(target_arch = "aarch64")]
const ENVIRONMENTS: [Control; 5] = [1 << 24, 1 << 22, 2 << 22, 3 << 22, 1 << 24 | 3 << 22];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ENVIRONMENTS: [Control; 0] = [];

const N: usize = 1 << 17;

/// Numbers of which many are subnormal, or make subnormal ones.
fn inputs() -> Vec<Tensor> {
    let cpu = Device::cpu();
    let bits = |i: usize| (i as u32).wrapping_mul(0x9e37_79b9);
    let mixed: Vec<f32> = (0..N)
        .map(|i| match i % 3 {
            0 => f32::from_bits(bits(i) & 0x807f_ffff),
            1 => f32::from_bits(bits(i) & 0x81ff_ffff | 0x0080_0000),
            _ => (bits(i) >> 8) as f32 / (1 << 22) as f32 - 2.0,
        })
        .collect();
    let wide: Vec<f64> = mixed
        .iter()
        .map(|&x| f64::from_bits((x.to_bits() as u64) << 29))
        .collect();
    vec![
        Tensor::from_vec(mixed, [N / 256, 256], &cpu),
        Tensor::from_vec(wide, [N / 256, 256], &cpu),
    ]
}

/// What a program computes, as bits.
fn program(inputs: &[Tensor], mode: Mode) -> Vec<Vec<u64>> {
    let (x, wide) = (&inputs[0], &inputs[1]);
    with_mode(mode, || {
        let cpu = Device::cpu();
        let small = x.narrow(0, 0, 8).narrow(1, 0, 8);
        let results = [
            x * 0.1f32 + f32::from_bits(3),
            x.exp() * 0.3 - x.sin(),
            (x / 3.0).softmax(1),
            x.sum(1) + x.mean(0).sum(0),
            x.cumsum(1),
            x.to_dtype(F16).to_dtype(F32) * 0.7,
            x.to_dtype(BF16) * 0.1,
            x.narrow(0, 0, 64).matmul(&x.narrow(0, 0, 64).t()),
            x.layer_norm(1, None, None, 1e-5),
            x.gt(0.0).to_dtype(F32) + x.eq(0.0),
            small.pow(1.7) + small.var(1, 1) + small.abs().sqrt(),
            wide * 0.1 + 1.0 / 3.0,
            wide.sum(1),
            x.to_dtype(F64) * 0.1,
            Tensor::linspace(0.1, 0.7, 11, F32, &cpu) * 0.3,
            Tensor::arange(0.1, 2.0, 0.1, F32, &cpu),
            x.unsqueeze(0)
                .unsqueeze(0)
                .narrow(2, 0, 16)
                .avg_pool2d(3, 1, 1),
        ];
        let bits = |result: &Tensor| match result.dtype() {
            F64 => result
                .to_vec::<f64>()
                .unwrap()
                .iter()
                .map(|x| x.to_bits())
                .collect(),
            BF16 => result
                .to_vec::<half::bf16>()
                .unwrap()
                .iter()
                .map(|x| x.to_bits() as u64)
                .collect(),
            _ => result
                .to_vec::<f32>()
                .unwrap()
                .iter()
                .map(|x| x.to_bits() as u64)
                .collect(),
        };
        results.iter().map(bits).collect()
    })
}

#[test]
fn results_do_not_depend_on_it() {
    let inputs = inputs();
    // The odd environments come first: threads of the library start, and kernels are planned, under one of them.
    let odd: Vec<_> = ENVIRONMENTS
        .iter()
        .map(|&control| {
            let (results, left) = with_control(control, || {
                [Mode::Compiled, Mode::Eager].map(|mode| program(&inputs, mode))
            });
            assert_eq!(left, control, "the environment was changed");
            results
        })
        .collect();
    let want = [Mode::Compiled, Mode::Eager].map(|mode| program(&inputs, mode));
    for (results, control) in odd.iter().zip(ENVIRONMENTS) {
        for (mode, (results, want)) in results.iter().zip(&want).enumerate() {
            for (at, (got, want)) in results.iter().zip(want).enumerate() {
                let differ = got.iter().zip(want).position(|(a, b)| a != b);
                assert_eq!(
                    differ, None,
                    "result {at} of mode {mode} under {control:#x}"
                );
            }
        }
    }
    // Subnormal numbers are among the results: the test can see them flushed.
    let subnormal = |bits: &&u64| **bits & 0x7f80_0000 == 0 && **bits & 0x007f_ffff != 0;
    assert!(want[0][0].iter().filter(subnormal).count() > N / 8);
}

#[test]
fn functions_and_close_comparisons_do_not_either() {
    let x = Tensor::from_vec(vec![f32::from_bits(77), 1.0, 0.3], 3, &Device::cpu());
    let f = jit(|x: &Tensor| x * 0.5 + f32::from_bits(1));
    let read = |y: Tensor| {
        y.to_vec::<f32>()
            .unwrap()
            .iter()
            .map(|x| x.to_bits())
            .collect::<Vec<_>>()
    };
    let want = read(with_mode(Mode::Eager, || f.call(&x)));
    for control in ENVIRONMENTS {
        let ((first, again, text, close), left) = with_control(control, || {
            let call = || read(with_mode(Mode::Compiled, || f.call(&x)));
            let tiny = Tensor::zeros(3, F32, &Device::cpu());
            let close = tiny.allclose(&x.narrow(0, 0, 1), 0.0, 0.0).unwrap();
            (call(), call(), x.to_string(), close)
        });
        assert_eq!((&first, &again, left), (&want, &want, control));
        assert_eq!((text, close), (x.to_string(), false));
    }
}
