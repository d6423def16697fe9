//! Kernels on a CUDA device: microseconds a call of 20 queued ones, and the share of a bandwidth of 4.25 TB/s.
//! Says what is missing where there is no device.

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

/// Times work on tensors that are far larger than the last cache.
fn time(name: &str, device: &Device, bytes: usize, f: impl Fn() -> Vec<Tensor>) {
    let (median, _) = timed(device, f);
    let rate = bytes as f64 / median / 1e9;
    println!(
        "{name:44} {:9.1} us {rate:7.0} GB/s {:4.0} %",
        median * 1e6,
        rate / 42.5
    );
}

/// As [`time`], with the rate of arithmetic.
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

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    println!("{}", device.report());
    let d = &device;
    // With an argument, what the host spends on small work and products alone.
    if std::env::args().any(|a| a == "small") {
        return small(d);
    }
    let f32s = |shape: [usize; 2]| {
        let x = Tensor::randn(shape, DType::F32, d);
        x.eval().expect("memory");
        x
    };
    let half = |shape: [usize; 2]| {
        let x = Tensor::randn(shape, DType::BF16, d);
        x.eval().expect("memory");
        x
    };
    let n = 16384 * 8192;
    let x = f32s([16384, 8192]);
    time("copy f32", d, 8 * n, || vec![&x + 1.0]);
    time("pointwise 12 f32", d, 8 * n, || {
        let y = (&x * 1.1 + 0.3).tanh() * x.sigmoid() + (&x * 0.5).exp() * 0.1;
        vec![(y - &x * 0.2).abs() * 1.5 + 2.0]
    });
    time("sum all f32", d, 4 * n, || vec![x.sum(..)]);
    time("sum axis 0 f32", d, 4 * n, || vec![x.sum(0)]);
    time("sum axis 1 f32", d, 4 * n, || vec![x.sum(1)]);
    time("var_mean all f32", d, 4 * n, || {
        let (v, m) = x.var_mean(.., 1);
        vec![v, m]
    });
    time("softmax f32 16384x8192", d, 8 * n, || vec![x.softmax(1)]);
    let wide = f32s([2048, 65536]);
    time("softmax f32 2048x65536", d, 8 * n, || vec![wide.softmax(1)]);
    drop(wide);
    time("layer norm f32 16384x8192", d, 8 * n, || {
        vec![x.layer_norm(1, None, None, 1e-5)]
    });
    time("cumsum f32 rows of 8192", d, 8 * n, || vec![x.cumsum(1)]);
    time("cumsum f32 columns of 16384", d, 8 * n, || {
        vec![x.cumsum(0)]
    });
    let long = x.reshape(n);
    time("cumsum f32 one row of 2^27", d, 8 * n, || {
        vec![long.cumsum(0)]
    });
    drop((long, x));
    let y = half([16384, 8192]);
    time("gelu tanh bf16", d, 4 * n, || vec![y.gelu_tanh()]);
    let y = half([131072, 1024]);
    time("softmax bf16 131072x1024", d, 4 * n, || vec![y.softmax(1)]);
    let y = half([32768, 4096]);
    let w = Tensor::ones(4096, DType::BF16, d);
    time("layer norm bf16 32768x4096", d, 4 * n, || {
        vec![y.layer_norm(1, Some(&w), Some(&w), 1e-5)]
    });
    let r = half([32768, 4096]);
    time("residual + rms norm bf16", d, 8 * n, || {
        let s = &y + &r;
        vec![s.rms_norm(1, Some(&w), 1e-5), s]
    });
    drop((y, r));
    let (x, y) = (f32s([8192, 8192]), f32s([8192, 8192]));
    time("(x + y.T) * 2 f32 8192", d, 12 * 8192 * 8192, || {
        vec![(&x + y.t()) * 2.0]
    });
    drop((x, y));
    attention(d);
    small(d);
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

/// Attention of 4 sequences, and what is done to its scores. Bytes are those of queries, keys, values and the result.
fn attention(d: &Device) {
    let of = |shape: [usize; 4], dtype: DType| {
        let x = Tensor::randn(shape, dtype, d);
        x.eval().expect("memory");
        x
    };
    let long = [4, 32, 4096, 128];
    let bytes = 4 * 2 * long.iter().product::<usize>();
    let [q, k, v] = [0; 3].map(|_| of(long, DType::BF16));
    time("attention causal bf16 4x32x4096x128", d, bytes, || {
        let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
        vec![y]
    });
    let position = Tensor::arange(0.0, 4096.0, 1.0, DType::F32, d);
    let slopes = Tensor::rand([32, 1, 1], DType::F32, d);
    let distance = position.unsqueeze(0) - position.unsqueeze(1);
    eval(&[slopes.clone(), distance.clone()]).expect("memory");
    time("attention with slopes bf16 4x32x4096x128", d, bytes, || {
        let scores = q.matmul(&k.transpose(2, 3)).to_dtype(DType::F32) * 0.088;
        let biased = scores + &slopes * &distance;
        vec![biased.softmax(-1).to_dtype(DType::BF16).matmul(&v)]
    });
    drop((q, k, v));
    for (name, dtype) in [
        ("attention written out bf16 4x16x2048x64", DType::BF16),
        ("attention written out f16 4x16x2048x64", DType::F16),
        ("attention written out f32 4x16x2048x64", DType::F32),
    ] {
        let shape = [4, 16, 2048, 64];
        let [q, k, v] = [0; 3].map(|_| of(shape, dtype));
        let bytes = 4 * dtype.size() * shape.iter().product::<usize>();
        time(name, d, bytes, || {
            let scores = q.matmul(&k.transpose(2, 3)) * 0.125;
            vec![scores.softmax(-1).matmul(&v)]
        });
    }
    for (name, heads, shared, keys) in [
        ("attention of one query bf16 64x4x8192x128", 64, 4, 8192),
        ("attention of one query bf16 8x1x65536x128", 8, 1, 65536),
    ] {
        let q = of([heads, shared, 1, 128], DType::BF16);
        let [k, v] = [0; 2].map(|_| of([heads, 1, keys, 128], DType::BF16));
        time(name, d, 4 * heads * keys * 128, || {
            let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, false, None);
            vec![y]
        });
    }
}
