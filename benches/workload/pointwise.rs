//! Chains of elementwise operations, a transposed sum, a chain of tiny ones.

use super::{Workload, of_many, of_one, randn};
use ferrotrace::Tensor;

pub(super) fn open(name: &str) -> Option<Workload> {
    let small = || randn([256, 1024], 0, 1.0);
    let big = || randn([4096, 4096], 0, 1.0);
    Some(match name {
        "pw12_256x1024" => of_one(small(), transcendental),
        "pw12_4096" => of_one(big(), transcendental),
        "pwarith12_256x1024" => of_one(small(), arithmetic),
        "pwarith12_4096" => of_one(big(), arithmetic),
        "gelu_256x1024" => of_one(small(), Tensor::gelu_tanh),
        "gelu_4096" => of_one(big(), Tensor::gelu_tanh),
        "xpyT_4096" => of_many([big(), randn([4096, 4096], 1, 1.0)], |[x, y]| {
            vec![x + y.t()]
        }),
        "small_chain1000" => of_many([randn(16, 0, 1.0), randn(16, 1, 0.001)], |[x, y]| {
            vec![(0..1000).fold(x.clone(), |sum, _| sum + y)]
        }),
        _ => return None,
    })
}

/// Twelve operations, three of them transcendental.
fn transcendental(x: &Tensor) -> Tensor {
    let y = (x * 0.7 + 0.1).tanh() * x.sigmoid() + (-(x * x)).exp() * 0.5;
    y.relu() * x + &y
}

/// Twelve operations of arithmetic.
fn arithmetic(x: &Tensor) -> Tensor {
    let y = (x * 0.7 + 0.1) * x - 0.3;
    let z = (&y * 1.1 + x) * 0.5;
    z.relu() * &y + z.abs() * 0.25 - x
}
