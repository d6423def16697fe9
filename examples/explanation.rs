//! What the compiler makes of a small network, as a page and a picture: which kernel computes which operation, what each
//! moves and how long that takes. Writes `explanation.html` and `explanation.svg` into the folder that is its argument,
//! else the current one.

use ferrotrace::prelude::*;
use ferrotrace::profile;
use std::path::PathBuf;

/// A layer with a residual connection, and the distribution over what it gives.
fn network(x: &Tensor, weight: &Tensor, bias: &Tensor) -> Tensor {
    let normed = x * (x.square().mean_keepdim(-1) + 1e-5).rsqrt();
    let hidden = (normed.matmul(weight) + bias).silu();
    (x + hidden).softmax(-1)
}

fn main() -> Result<()> {
    let device = Device::best();
    let x = Tensor::randn([16384, 512], DType::F32, &device);
    let weight = Tensor::randn([512, 512], DType::F32, &device) * 0.05;
    let bias = Tensor::zeros(512, DType::F32, &device);
    eval([&x, &weight, &bias])?;

    // The explanation of what was profiled holds its times.
    let (result, _) = profile(|| (0..20).try_for_each(|_| network(&x, &weight, &bias).eval()));
    result?;
    let explanation = explain(&[&network(&x, &weight, &bias)]);
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    for (name, text) in [
        ("explanation.html", explanation.to_html()),
        ("explanation.svg", explanation.to_svg()),
    ] {
        let path = folder.join(name);
        match std::fs::write(&path, text) {
            Ok(()) => println!("wrote {}", path.display()),
            Err(error) => eprintln!("{}: {error}", path.display()),
        }
    }
    Ok(())
}
