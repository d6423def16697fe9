//! What the host spends on small work for a CUDA device, and products with what follows them. Says what is missing where
//! there is no device.

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use std::time::Instant;

const CALLS: usize = 20;

/// Seconds a call of 20 queued ones, and until a call returns: medians.
fn timed(device: &Device, f: impl Fn() -> Vec<Tensor>) -> (f64, f64) {
    let run = || {
        let results = f();
        eval(&results).expect("runs");
        results
    };
    drop((run(), run()));
    let mut times: Vec<(f64, f64)> = (0..7)
        .map(|_| {
            device.synchronize().expect("runs");
            let start = Instant::now();
            for _ in 0..CALLS {
                drop(run());
            }
            let host = start.elapsed();
            device.synchronize().expect("runs");
            let each = |time: std::time::Duration| time.as_secs_f64() / CALLS as f64;
            (each(start.elapsed()), each(host))
        })
        .collect();
    let middle = times.len() / 2;
    times.sort_by(|a, b| a.1.total_cmp(&b.1));
    let host = times[middle].1;
    times.sort_by(|a, b| a.0.total_cmp(&b.0));
    (times[middle].0, host)
}

/// Times products, with the rate of arithmetic.
fn products(device: &Device, name: &str, operations: f64, f: impl Fn() -> Vec<Tensor>) {
    let (median, _) = timed(device, f);
    let rate = operations / median / 1e12;
    println!("{name:44} {:9.1} us {rate:7.1} TFLOP/s", median * 1e6);
}

/// What the host spends on small work: microseconds until a call returns, and until all of 20 have run, for each.
fn host_costs(device: &Device) {
    let x = Tensor::randn([64, 64], DType::F32, device);
    x.eval().expect("memory");
    let small = |name: &str, f: &dyn Fn() -> Vec<Tensor>| {
        for _ in 0..5 {
            eval(&f()).expect("runs");
        }
        let ((), s) = stats_scope(|| drop(eval(&f())));
        let (whole, host) = timed(device, f);
        println!(
            "{name:44} {:9.1} us, the host {:6.1} us; {} kernels, {} graphs",
            whole * 1e6,
            host * 1e6,
            s.kernels_launched,
            s.graph_launches
        );
    };
    let chain = |x: &Tensor, pairs: usize| {
        let mut z = x.clone();
        for _ in 0..pairs {
            z = &z * 1.01 + 0.5;
        }
        z
    };
    // Sums over rows and columns by turns: no two are one kernel.
    let apart = |x: &Tensor, pairs: usize| {
        let mut z = x.clone();
        for _ in 0..pairs {
            z = &z - z.mean_keepdim(0);
            z = &z - z.mean_keepdim(1);
        }
        z
    };
    small("1 operation flushed", &|| vec![&x + 1.0]);
    small("64 operations flushed, one kernel", &|| vec![chain(&x, 32)]);
    small("128 operations flushed, one kernel", &|| {
        vec![chain(&x, 64)]
    });
    small("recorded alone: 64 operations", &|| {
        drop(chain(&x, 32));
        Vec::new()
    });
    for pairs in [10, 40] {
        let fused = jit(move |x: &Tensor| chain(x, pairs));
        let name = format!("{} operations replayed, one kernel", 2 * pairs);
        small(&name, &|| vec![fused.call(&x)]);
    }
    let fused = jit(move |x: &Tensor| chain(x, 100));
    small("200 operations replayed, one kernel", &|| {
        vec![fused.call(&x)]
    });
    let unfused = jit(move |x: &Tensor| apart(x, 50));
    small("200 operations replayed, not fused", &|| {
        vec![unfused.call(&x)]
    });
    small("200 operations flushed, not fused", &|| vec![apart(&x, 50)]);
    let weights = Tensor::randn([64, 64], DType::F32, device);
    let layers = jit(|(x, w): (&Tensor, &Tensor)| {
        let mut z = x.clone();
        for _ in 0..16 {
            z = (z.matmul(w) * 0.1).tanh();
        }
        z
    });
    small("16 products and tanh replayed, 64x64", &|| {
        vec![layers.call((&x, &weights))]
    });
}

/// What the host spends on small work, and matrix products.
fn small(d: &Device) {
    let half = |shape: [usize; 2]| {
        let x = Tensor::randn(shape, DType::BF16, d);
        x.eval().expect("memory");
        x
    };
    host_costs(d);
    let (x, w) = (half([8192, 4096]), half([4096, 16384]));
    let bias = half([1, 16384]).reshape(16384);
    let work = 2.0 * 8192.0 * 4096.0 * 16384.0;
    products(d, "matmul + bias + gelu bf16", work, || {
        vec![(x.matmul(&w) + &bias).gelu_tanh()]
    });
    products(d, "matmul bf16 of that shape", work, || vec![x.matmul(&w)]);
    drop((x, w));
    for (name, dtype, n) in [
        ("matmul bf16 8192", DType::BF16, 8192usize),
        ("matmul bf16 4096", DType::BF16, 4096),
        ("matmul f32 4096", DType::F32, 4096),
    ] {
        let x = Tensor::randn([n, n], dtype, d);
        x.eval().expect("memory");
        products(d, name, 2.0 * (n as f64).powi(3), || vec![x.matmul(&x)]);
    }
}

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    println!("{}", device.report());
    small(&device);
}
