//! One function in both modes: the same values, and what each mode did to get them.

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use std::time::Instant;

/// Each row shifted and scaled to mean 0 and deviation 1, then bent by GELU.
fn normalised_gelu(x: &Tensor) -> Tensor {
    ((x - x.mean_keepdim(-1)) / (x.std_keepdim(-1, 1) + 1e-5)).gelu()
}

fn main() -> Result<()> {
    let x = Tensor::randn([2048, 1024], DType::F32, &Device::best());
    x.eval()?;
    println!("{}", explain(&[&normalised_gelu(&x)]).summary());

    let mut results = Vec::new();
    for mode in [Mode::Compiled, Mode::Eager] {
        // The first call also compiles, unless the kernel is on disk already.
        for call in ["first", "second"] {
            let start = Instant::now();
            let (result, stats) = stats_scope(|| {
                with_mode(mode, || {
                    let y = normalised_gelu(&x);
                    y.eval().map(|()| y)
                })
            });
            println!(
                "{:9} {call:7} {:8.2} ms   kernels run {}, compiled {}, found on disk {}   bytes allocated {} MiB",
                format!("{mode:?}"),
                1e3 * start.elapsed().as_secs_f64(),
                stats.kernels_launched,
                stats.kernels_compiled,
                stats.disk_cache_hits,
                stats.bytes_allocated >> 20,
            );
            results.push(result?);
        }
    }
    println!(
        "equal within 1e-5: {}",
        results[0].allclose(&results[2], 1e-5, 1e-5)?
    );
    Ok(())
}
