//! What a CUDA device computes in place of the CPU's ready-made kernels: microseconds a call, of 20 queued ones by the
//! host's clock; of rows whose names begin as the first argument, if there is one. Says what is missing where there is
//! no device.

use ferrotrace::prelude::*;
use std::time::Instant;

const CALLS: usize = 20;

fn time(name: &str, device: &Device, f: impl Fn() -> Tensor) {
    let mut arguments = std::env::args().skip(1).filter(|a| !a.starts_with('-'));
    if arguments
        .next()
        .is_some_and(|wanted| !name.starts_with(&wanted))
    {
        return;
    }
    let run = || {
        let result = f();
        result.eval().expect("runs");
        result
    };
    drop((run(), run()));
    let mut times: Vec<f64> = (0..7)
        .map(|_| {
            device.synchronize().expect("runs");
            let start = Instant::now();
            for _ in 0..CALLS {
                drop(run());
            }
            device.synchronize().expect("runs");
            start.elapsed().as_secs_f64() / CALLS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:52} {:9.1} us", times[times.len() / 2] * 1e6);
}

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    println!("{}", device.report());
    let d = &device;
    let normal = |shape: &[usize], dtype: DType| {
        let x = Tensor::randn(shape, dtype, d);
        x.eval().expect("memory");
        x
    };
    // Products with what follows: by one kernel, where that is what the scheduler chooses, and by the library and a kernel.
    for (m, n, k) in [
        (8192, 8192, 8192),
        (8192, 4096, 4096),
        (8192, 16384, 4096),
        (8192, 4096, 16384),
        (4096, 4096, 4096),
        (4096, 4096, 1024),
        (2048, 2048, 2048),
        (1024, 1024, 1024),
        (512, 512, 512),
    ] {
        let (a, b) = (normal(&[m, k], DType::BF16), normal(&[k, n], DType::BF16));
        let (r, bias) = (normal(&[m, n], DType::BF16), normal(&[n], DType::BF16));
        let size = format!("bf16 {m}x{n}x{k}");
        time(&format!("product {size}"), d, || a.matmul(&b));
        time(&format!("product {size}, * 0.5"), d, || a.matmul(&b) * 0.5);
        time(&format!("product {size}, silu, residual"), d, || {
            a.matmul(&b).silu() + &r
        });
        time(&format!("product {size}; silu, residual"), d, || {
            let p = a.matmul(&b);
            p.eval().expect("runs");
            p.silu() + &r
        });
        time(&format!("product {size}, bias, gelu"), d, || {
            (a.matmul(&b) + &bias).gelu_tanh()
        });
        time(&format!("product {size}, bias, gelu by erf"), d, || {
            (a.matmul(&b) + &bias).gelu()
        });
    }
    let small = normal(&[64, 64], DType::F32);
    with_mode(Mode::Eager, || {
        time("eager: x + 1, 64x64", d, || &small + 1.0);
        time("eager: softmax, 64x64", d, || small.softmax(1));
        time("eager: matmul, 64x64", d, || small.matmul(&small));
        time("eager: x.t() * x, 64x64", d, || small.t() * &small);
    });
    let row = normal(&[1 << 24], DType::F32);
    time("argsort f32, one row of 2^24", d, || row.argsort(0, false));
    time("sort f32, one row of 2^24", d, || row.sort(0, false).0);
    let rows = normal(&[16384, 1024], DType::F32);
    time("sort f32, 16384 rows of 1024", d, || rows.sort(1, false).0);
    let rows = normal(&[256, 65536], DType::F32);
    time("sort f32, 256 rows of 65536", d, || rows.sort(1, false).0);
    time("top 10 f32, 256 rows of 65536", d, || {
        rows.topk(10, 1, true).0
    });
    time("logcumsumexp f32, 256 rows of 65536", d, || {
        rows.logcumsumexp(1)
    });
    drop((row, rows));
    let index = |n: usize, size: i64| {
        let at = Tensor::randint(0, size, [n], DType::I64, d);
        at.eval().expect("memory");
        at
    };
    let (at, src) = (index(1 << 18, 50257), normal(&[1 << 18, 1024], DType::F32));
    let table = normal(&[50257, 1024], DType::F32);
    time("index_put add f32, 2^18 rows of 1024 into 50257", d, || {
        table.index_put(&[Some(&at)], &src, true)
    });
    drop((at, src, table));
    let (at, src) = (index(1 << 24, 1 << 20), normal(&[1 << 24], DType::F32));
    let sums = normal(&[1 << 20], DType::F32);
    time("scatter_add f32, 2^24 into 2^20", d, || {
        sums.scatter_add(0, &at, &src)
    });
    let few = index(1 << 24, 64);
    let sums = normal(&[64], DType::F32);
    time("scatter_add f32, 2^24 into 64", d, || {
        sums.scatter_add(0, &few, &src)
    });
    drop((at, src, few));
    let image = normal(&[64, 256, 56, 56], DType::F16);
    let weight = normal(&[256, 256, 3, 3], DType::F16);
    // Input and result with batch and channels exchanged.
    let gradient = [0, 1].map(|_| {
        let x = normal(&[64, 56, 56, 256], DType::BF16);
        x.permute([3, 0, 1, 2])
    });
    time("conv 3x3 f16, 64x256x56x56", d, || {
        image.conv2d(&weight, None, 1, 1, 1, 1)
    });
    // The tensors with channels innermost in memory.
    let last = |x: &Tensor| {
        let x = x.permute([0, 2, 3, 1]).contiguous();
        x.eval().expect("memory");
        x.permute([0, 3, 1, 2])
    };
    let (turned, turned_weight) = (last(&image), last(&weight));
    time("conv 3x3 f16, channels last, + relu", d, || {
        turned.conv2d(&turned_weight, None, 1, 1, 1, 1).relu()
    });
    time("conv 3x3 f16, channels last, + relu, result too", d, || {
        let y = turned.conv2d(&turned_weight, None, 1, 1, 1, 1).relu();
        y.permute([0, 2, 3, 1]).contiguous()
    });
    let bias = normal(&[256], DType::F16);
    time(
        "two of conv 3x3 f16 + bias + relu, channels last",
        d,
        || {
            let y = turned
                .conv2d(&turned_weight, Some(&bias), 1, 1, 1, 1)
                .relu();
            let y = y.conv2d(&turned_weight, Some(&bias), 1, 1, 1, 1).relu();
            y.permute([0, 2, 3, 1]).contiguous()
        },
    );
    time("conv 3x3 bf16, gradient of the weight", d, || {
        let (x, dy) = (&gradient[0], &gradient[1]);
        x.conv2d(dy, None, 1, 1, 1, 1)
    });
    drop((turned, turned_weight));
    let point = normal(&[256, 256, 1, 1], DType::F16);
    time("conv 1x1 f16, 64x256x56x56", d, || {
        image.conv2d(&point, None, 1, 0, 1, 1)
    });
    let each = normal(&[256, 1, 3, 3], DType::F16);
    time("conv 3x3 depthwise f16, 64x256x56x56", d, || {
        image.conv2d(&each, None, 1, 1, 1, 256)
    });
    time("max_pool 3x3 by 2 f16, 64x256x56x56", d, || {
        image.max_pool2d(3, 2, 1)
    });
    time("max_pool 2x2 f16, 64x256x56x56", d, || {
        image.max_pool2d(2, 2, 0)
    });
    time("bilinear to 112x112 f16, 64x256x56x56", d, || {
        image.interpolate([112, 112], ferrotrace::Interpolation::Bilinear, false)
    });
}
