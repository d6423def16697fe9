//! Kernels on a CUDA device: microseconds a call of 20 queued ones between two events, over buffers that no cache holds,
//! beside what a kernel written by hand reaches on an H200 on the same shape. Says what is missing where there is no
//! device. Words after `--` choose rows by parts of their names; one that begins with `-` leaves out.

use ferrotrace::prelude::*;
use ferrotrace_runtime::compile_for;
use std::time::{Duration, Instant};

const CALLS: usize = 20;
const ROUNDS: usize = 7;
/// Buffers of a workload together, at least: several times what the last cache holds.
const ROTATED: usize = 512 << 20;

struct Bench {
    device: Device,
    words: Vec<String>,
}

impl Bench {
    fn wants(&self, name: &str) -> bool {
        let has = |word: &String| name.contains(word.trim_start_matches('-'));
        let (leave, take): (Vec<&String>, Vec<&String>) =
            self.words.iter().partition(|w| w.starts_with('-'));
        !leave.into_iter().any(has) && (take.is_empty() || take.into_iter().any(has))
    }

    /// Sets of buffers to go through by turns; `bytes` of each.
    fn sets<T>(&self, bytes: usize, make: impl Fn() -> T) -> Vec<T> {
        let count = ROTATED.div_ceil(bytes.max(1)).clamp(1, 4);
        (0..count).map(|_| make()).collect()
    }

    fn randn<const N: usize>(&self, shape: [usize; N], dtype: DType) -> Tensor {
        let x = Tensor::randn(shape, dtype, &self.device);
        x.eval().expect("memory");
        x
    }

    /// Times a function of the number of the call; `limit` is in microseconds, 0 where nothing is known.
    fn time(&self, name: &str, limit: f64, bytes: usize, mut f: impl FnMut(usize) -> Vec<Tensor>) {
        let mut at = 0;
        let mut run = || {
            let results = f(at);
            at += 1;
            eval(&results)
        };
        for _ in 0..4 {
            run().expect("runs");
        }
        let mut round = || {
            let queued = || {
                let start = Instant::now();
                for _ in 0..CALLS {
                    run()?;
                }
                Ok(start.elapsed())
            };
            let (host, took) = self.device.time(queued).expect("runs");
            (took, host)
        };
        let mut times: Vec<(Duration, Duration)> = (0..ROUNDS).map(|_| round()).collect();
        times.sort();
        let micros = |t: Duration| t.as_secs_f64() * 1e6 / CALLS as f64;
        let (took, host) = times[ROUNDS / 2];
        let took = micros(took);
        let against = match limit > 0.0 {
            true => format!("{limit:7.0} us {:5.2}", took / limit),
            false => String::new(),
        };
        println!(
            "{name:36} {took:9.1} us {:6.0} GB/s  host {:7.1} us  {against}",
            bytes as f64 / took / 1e3,
            micros(host),
        );
    }

    /// Times a function of one tensor.
    fn unary(
        &self,
        name: &str,
        limit: f64,
        (shape, dtype): ([usize; 2], DType),
        streams: usize,
        f: impl Fn(&Tensor) -> Vec<Tensor>,
    ) {
        if !self.wants(name) {
            return;
        }
        let bytes = shape[0] * shape[1] * dtype.size();
        let sets = self.sets(bytes, || self.randn(shape, dtype));
        self.time(name, limit, streams * bytes, |i| f(&sets[i % sets.len()]));
    }
}

fn memory_bound(b: &Bench) {
    use DType::{BF16, F32};
    let flat = ([16384, 8192], F32);
    b.unary("copy f32", 252.0, flat, 2, |x| vec![x + 1.0]);
    b.unary("pointwise 12 f32", 252.0, flat, 2, |x| {
        let y = (x * 1.1 + 0.3).tanh() * x.sigmoid() + (x * 0.5).exp() * 0.1;
        vec![(y - x * 0.2).abs() * 1.5 + 2.0]
    });
    b.unary("gelu tanh bf16", 129.0, ([16384, 8192], BF16), 2, |x| {
        vec![x.gelu_tanh()]
    });
    b.unary("sum all f32", 123.0, flat, 1, |x| vec![x.sum(..)]);
    b.unary("sum axis 0 f32", 125.0, flat, 1, |x| vec![x.sum(0)]);
    b.unary("sum axis 1 f32", 121.0, flat, 1, |x| vec![x.sum(1)]);
    b.unary("var_mean all f32", 126.0, flat, 1, |x| {
        let (v, m) = x.var_mean(.., 1);
        vec![v, m]
    });
    b.unary("softmax f32 16384x8192", 256.0, flat, 2, |x| {
        vec![x.softmax(1)]
    });
    b.unary(
        "softmax f32 2048x65536",
        267.0,
        ([2048, 65536], F32),
        2,
        |x| vec![x.softmax(1)],
    );
    b.unary(
        "softmax bf16 131072x1024",
        129.0,
        ([131_072, 1024], BF16),
        2,
        |x| vec![x.softmax(1)],
    );
    b.unary(
        "softmax bf16 65536x2047",
        0.0,
        ([65536, 2047], BF16),
        2,
        |x| vec![x.softmax(1)],
    );
    b.unary("layer norm f32 16384x8192", 0.0, flat, 2, |x| {
        vec![x.layer_norm(1, None, None, 1e-5)]
    });
    let weight = |dtype| Tensor::ones(4096, dtype, &b.device);
    let w = weight(BF16);
    let rows = ([32768, 4096], BF16);
    b.unary("layer norm bf16 32768x4096", 132.0, rows, 2, |x| {
        vec![x.layer_norm(1, Some(&w), Some(&w), 1e-5)]
    });
    if b.wants("residual + rms norm bf16") {
        let n = rows.0[0] * rows.0[1];
        let sets = b.sets(4 * n, || [b.randn(rows.0, BF16), b.randn(rows.0, BF16)]);
        b.time("residual + rms norm bf16", 259.0, 8 * n, |i| {
            let [x, r] = &sets[i % sets.len()];
            let s = x + r;
            vec![s.rms_norm(1, Some(&w), 1e-5), s]
        });
    }
    if b.wants("(x + y.T) * 2 f32 8192") {
        let n = 8192 * 8192;
        let [x, y] = [(); 2].map(|()| b.randn([8192, 8192], F32));
        b.time("(x + y.T) * 2 f32 8192", 189.0, 12 * n, |_| {
            vec![(&x + y.t()) * 2.0]
        });
    }
    b.unary("cumsum f32 rows of 8192", 256.0, flat, 2, |x| {
        vec![x.cumsum(1)]
    });
    b.unary("cumsum f32 columns of 16384", 0.0, flat, 2, |x| {
        vec![x.cumsum(0)]
    });
    b.unary("cumsum f32 one row of 2^27", 319.0, flat, 2, |x| {
        vec![x.reshape(-1).cumsum(0)]
    });
}

fn indexed(b: &Bench) {
    let d = &b.device;
    if b.wants("cross entropy bf16 8192x50257") {
        let (rows, columns) = (8192, 50257);
        let x = b.randn([rows, columns], DType::BF16);
        let classes: Vec<i64> = (0..rows).map(|r| (r * 7919 % columns) as i64).collect();
        let t = Tensor::from_slice(&classes, rows, d);
        b.time(
            "cross entropy bf16 8192x50257",
            196.0,
            2 * rows * columns,
            |_| vec![x.cross_entropy(&t)],
        );
    }
    if b.wants("embedding bf16 262144x1024") {
        let (rows, columns, n) = (50257, 1024, 262_144usize);
        let table = b.randn([rows, columns], DType::BF16);
        // As the limit was measured, some of the rows that are asked for again are still in the cache.
        let mix = |h: u32, by: u32, shift: u32| (h ^ (h >> shift)).wrapping_mul(by);
        let bits = |i: usize| mix((i as u32).wrapping_mul(0x9e37_79b1), 0x846c_a68b, 15);
        let place = |i: usize| i64::from(mix(bits(i), 1, 13) % rows as u32);
        let places: Vec<i64> = (0..n).map(place).collect();
        let index = Tensor::from_slice(&places, n, d);
        b.time("embedding bf16 262144x1024", 242.0, 4 * n * columns, |_| {
            vec![table.embedding(&index) * 2.0]
        });
    }
}

/// Products whose operands are computed: weights of 8 bits with a scale for each column, which lie column by column or row
/// by row, and relu of the left matrix.
fn computed_operands(b: &Bench) {
    const N: usize = 4096;
    for rows in [16, 64, 256, N] {
        for turned in [true, false] {
            let name = format!(
                "bytes times scales, {rows}x{N}x{N}, by {}",
                if turned { "columns" } else { "rows" }
            );
            if !b.wants(&name) {
                continue;
            }
            let sets: Vec<[Tensor; 3]> = (0..12)
                .map(|_| {
                    let w = (b.randn([N, N], DType::F32) * 40.0).to_dtype(DType::I8);
                    w.eval().expect("memory");
                    let sizes = if turned { [N, 1] } else { [1, N] };
                    [
                        b.randn([rows, N], DType::BF16),
                        w,
                        b.randn(sizes, DType::BF16),
                    ]
                })
                .collect();
            b.time(&name, 0.0, N * N + 4 * rows * N, |i| {
                let [x, w, scale] = &sets[i % sets.len()];
                let w = w.to_dtype(DType::BF16) * scale;
                vec![x.matmul(&if turned { w.t() } else { w })]
            });
        }
        let tail = |name: &str, f: &dyn Fn(&Tensor, &Tensor) -> Tensor| {
            let name = format!("{name}, {rows}x{N}x{N}");
            if !b.wants(&name) {
                return;
            }
            let sets: Vec<[Tensor; 2]> = (0..8)
                .map(|_| {
                    [
                        b.randn([rows, N], DType::BF16),
                        b.randn([N, N], DType::BF16),
                    ]
                })
                .collect();
            b.time(&name, 0.0, 2 * N * N + 4 * rows * N, |i| {
                let [x, w] = &sets[i % sets.len()];
                vec![f(x, w)]
            });
        };
        tail("x @ w", &|x, w| x.matmul(w));
        tail("relu(x) @ w", &|x, w| x.relu().matmul(w));
        tail("silu(x @ w)", &|x, w| x.matmul(w).silu());
    }
}

fn products(b: &Bench) {
    for (name, limit, dtype, n) in [
        ("gemv bf16 16384x4096", 34.0, DType::BF16, [16384, 4096]),
        ("gemv f32 16384x4096", 0.0, DType::F32, [16384, 4096]),
        (
            "vector by matrix bf16 4096x16384",
            34.0,
            DType::BF16,
            [4096, 16384],
        ),
    ] {
        if !b.wants(name) {
            continue;
        }
        let bytes = n[0] * n[1] * dtype.size();
        let by_rows = name.starts_with("gemv");
        let length = if by_rows { n[1] } else { n[0] };
        let sets = b.sets(bytes, || (b.randn(n, dtype), b.randn([length], dtype)));
        b.time(name, limit, bytes, |i| {
            let (a, x) = &sets[i % sets.len()];
            vec![if by_rows { a.matmul(x) } else { x.matmul(a) }]
        });
    }
    for rows in [2usize, 4, 8] {
        let name = format!("{rows} rows by bf16 (16384x4096).T");
        if b.wants(&name) {
            let sets = b.sets(2 * 16384 * 4096, || {
                (
                    b.randn([16384, 4096], DType::BF16),
                    b.randn([rows, 4096], DType::BF16),
                )
            });
            b.time(&name, 0.0, 2 * 16384 * 4096, |i| {
                let (w, x) = &sets[i % sets.len()];
                vec![x.matmul(&w.t())]
            });
        }
    }
    for (name, dtype, n) in [
        ("matmul bf16 8192", DType::BF16, 8192usize),
        ("matmul bf16 4096", DType::BF16, 4096),
        ("matmul f32 4096", DType::F32, 4096),
    ] {
        if b.wants(name) {
            let bytes = 2 * n * n * dtype.size();
            let sets = b.sets(bytes, || [(); 2].map(|()| b.randn([n, n], dtype)));
            b.time(name, 0.0, bytes, |i| {
                let [x, y] = &sets[i % sets.len()];
                vec![x.matmul(y)]
            });
        }
    }
}

/// One step of AdamW in place over the parameters of GPT-2 of 124 M.
fn adamw(b: &Bench) {
    let name = "AdamW f32, 148 tensors";
    if !b.wants(name) {
        return;
    }
    let mut sizes = vec![50257 * 768, 1024 * 768];
    for _ in 0..12 {
        let (w, h) = (768usize, 3072usize);
        sizes.extend([w, w, 3 * w * w, 3 * w, w * w, w, w, w, h * w, h, h * w, w]);
    }
    sizes.extend([768, 768]);
    let total: usize = sizes.iter().sum();
    let set = || {
        let of = |n: &usize| [(); 4].map(|()| b.randn([*n], DType::F32).abs() * 0.01);
        let all: Vec<[Tensor; 4]> = sizes.iter().map(of).collect();
        eval(&all.iter().flatten().cloned().collect::<Vec<_>>()).expect("memory");
        Some(all)
    };
    let mut state = [set(), set()];
    let mut step = move |i: usize| {
        let (c1, c2) = (
            1.0 - 0.9f64.powi(i as i32 + 1),
            1.0 - 0.999f64.powi(i as i32 + 1),
        );
        let old = state[i % 2].take().expect("put back");
        let (lr, decay) = (1e-3, 0.01);
        let of = |[p, g, m, v]: [Tensor; 4]| {
            let m = m * 0.9 + &g * 0.1;
            let v = v * 0.999 + g.square() * 0.001;
            let p = p * (1.0 - lr * decay) - (&m / c1) / ((&v / c2).sqrt() + 1e-8) * lr;
            [p, g, m, v]
        };
        let new: Vec<[Tensor; 4]> = old.into_iter().map(of).collect();
        let results = new
            .iter()
            .flat_map(|[p, _, m, v]| [p, m, v])
            .cloned()
            .collect();
        state[i % 2] = Some(new);
        results
    };
    let (before, start) = (stats(), Instant::now());
    let first: Vec<Tensor> = step(0);
    eval(&first).expect("runs");
    b.device.synchronize().expect("runs");
    drop(first);
    let (took, after) = (start.elapsed(), stats());
    println!(
        "{name}: first step {:.3} s (limit 0.3), {} kernels compiled, {} launches",
        took.as_secs_f64(),
        after.kernels_compiled - before.kernels_compiled,
        after.kernels_launched - before.kernels_launched,
    );
    b.time(name, 822.0, 28 * total, |i| step(i + 1));
    drop(step);
    // The factors that change from step to step are tensors.
    let compiled = jit(|(all, c1, c2): (Vec<[Tensor; 4]>, &Tensor, &Tensor)| {
        let of = |[p, g, m, v]: [Tensor; 4]| {
            let m = m * 0.9 + &g * 0.1;
            let v = v * 0.999 + g.square() * 0.001;
            let p = p * (1.0 - 1e-3 * 0.01) - (&m / c1) / ((&v / c2).sqrt() + 1e-8) * 1e-3;
            [p, g, m, v]
        };
        all.into_iter().map(of).collect::<Vec<[Tensor; 4]>>()
    });
    let mut state = [set(), set()];
    b.time("AdamW f32, 148 tensors, compiled", 822.0, 28 * total, |i| {
        let [c1, c2] = [0.9f64, 0.999].map(|beta| {
            let c = 1.0 - beta.powi(i as i32 + 1);
            Tensor::full([], c, DType::F32, &b.device)
        });
        let old = state[i % 2].take().expect("put back");
        let new = compiled.call((old, &c1, &c2));
        state[i % 2] = Some(new);
        Vec::new()
    });
}

/// What a kernel costs when it is first needed.
fn first_calls(b: &Bench) {
    if !b.wants("first call") {
        return;
    }
    let d = &b.device;
    let x = b.randn([1024, 1024], DType::F32);
    // Programs of twelve operations, another structure each.
    let program = |number: usize| {
        (0..12).fold(x.clone(), |y, k| match (k % 3, number >> (k / 3 * 2) & 3) {
            (0, 0) => (y * 1.1).tanh(),
            (0, 1) => (y * 1.1).sin(),
            (0, 2) => y.square() * 0.5,
            (0, _) => y.abs().sqrt(),
            (1, n) => y * 0.5 + &x * n as f64,
            (_, n) if n % 2 == 0 => y.maximum(&x),
            _ => y.sigmoid() - 0.5,
        })
    };
    let seconds = |f: &mut dyn FnMut()| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    let run = |all: &[Tensor]| {
        eval(all).expect("runs");
        d.synchronize().expect("runs");
    };
    run(&[program(0)]);
    for number in [5, 6] {
        let y = program(number);
        let source = explain(&[&y]).sources()[0].clone();
        let ours = seconds(&mut || run(std::slice::from_ref(&y)));
        let theirs = seconds(&mut || drop(compile_for("sm_90a", &source)));
        println!(
            "first call, 12 operations: {:.1} ms; NVRTC alone {:.1} ms: ratio {:.2} (limit 1.15)",
            ours * 1e3,
            theirs * 1e3,
            ours / theirs
        );
        ferrotrace::cache::clear_memory();
        ferrotrace_tracer::clear_plans();
        let disk = seconds(&mut || run(&[program(number)]));
        println!(
            "first call, from the disk cache: {:.2} ms (limit 2)",
            disk * 1e3
        );
    }
    let all: Vec<Tensor> = (0..20).map(|k| program(16 + k)).collect();
    let together = seconds(&mut || run(&all));
    println!("first call, 20 kernels at once: {together:.3} s (limit 0.4)");
}

/// Peak memory of fused programs, beside that of the same operations one by one.
fn memory(b: &Bench) {
    if !b.wants("memory") {
        return;
    }
    let x = b.randn([8192, 8192], DType::F32);
    let peak = |mode: Mode| {
        with_mode(mode, || {
            ferrotrace::reset_stats();
            let y = ((&x * 2.0).tanh() + x.exp())
                .softmax(1)
                .layer_norm(1, None, None, 1e-5);
            y.eval().expect("runs");
            b.device.synchronize().expect("runs");
            stats().peak_bytes >> 20
        })
    };
    println!(
        "memory: peak {} MiB fused, {} MiB one by one",
        peak(Mode::Compiled),
        peak(Mode::Eager)
    );
}

fn host(b: &Bench) {
    let name = "64 operations in one kernel, 64x64";
    if !b.wants(name) {
        return;
    }
    let small = b.randn([64, 64], DType::F32);
    b.time(name, 15.0, 8 * 64 * 64, |_| {
        vec![(0..32).fold(small.clone(), |z, _| z * 1.01 + 0.5)]
    });
}

fn main() {
    let device = match Device::cuda(0) {
        Ok(device) => device,
        Err(error) => return println!("skipped: {error}"),
    };
    println!("{}", device.report());
    let words = std::env::args().skip(1).filter(|a| !a.starts_with("--"));
    let b = Bench {
        device,
        words: words.collect(),
    };
    first_calls(&b);
    memory_bound(&b);
    indexed(&b);
    products(&b);
    computed_operands(&b);
    attention(&b);
    adamw(&b);
    host(&b);
    memory(&b);
}

/// Attention of 4 sequences, and what is done to its scores. Bytes are those of queries, keys, values and the result.
fn attention(b: &Bench) {
    let long = [4, 32, 4096, 128];
    let bytes = 4 * 2 * long.iter().product::<usize>();
    let causal = "attention causal bf16 4x32x4096x128";
    let slopes = "attention causal with slopes bf16 4x32x4096x128";
    let biased = "attention with a table of biases bf16 4x32x4096x128";
    if b.wants(causal) || b.wants(slopes) || b.wants(biased) {
        let [q, k, v] = [(); 3].map(|()| b.randn(long, DType::BF16));
        b.time(causal, 0.0, bytes, |_| {
            let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
            vec![y]
        });
        let by_head = Tensor::rand([32, 1, 1], DType::F32, &b.device);
        let distances = || {
            let position = Tensor::arange(0.0, 4096.0, 1.0, DType::F32, &b.device);
            position.unsqueeze(0) - position.unsqueeze(1)
        };
        let attend = |scores: Tensor| vec![scores.softmax(-1).to_dtype(DType::BF16).matmul(&v)];
        let scores = || q.matmul(&k.transpose(2, 3)).to_dtype(DType::F32) * 0.088;
        let table = distances();
        eval(&[by_head.clone(), table.clone()]).expect("memory");
        b.time(slopes, 0.0, bytes, |_| {
            let distance = distances();
            let scores = scores() + &by_head * &distance;
            attend(distance.gt(0.0).where_cond(f64::NEG_INFINITY, scores))
        });
        b.time(biased, 0.0, bytes, |_| attend(scores() + &by_head * &table));
    }
    for (name, limit, dtype) in [
        (
            "attention written out bf16 4x16x2048x64",
            200.0,
            DType::BF16,
        ),
        ("attention written out f16 4x16x2048x64", 0.0, DType::F16),
        ("attention written out f32 4x16x2048x64", 0.0, DType::F32),
    ] {
        if b.wants(name) {
            let shape = [4, 16, 2048, 64];
            let [q, k, v] = [(); 3].map(|()| b.randn(shape, dtype));
            let bytes = 4 * dtype.size() * shape.iter().product::<usize>();
            b.time(name, limit, bytes, |_| {
                let scores = q.matmul(&k.transpose(2, 3)) * 0.125;
                vec![scores.softmax(-1).matmul(&v)]
            });
        }
    }
    for (name, heads, shared, keys) in [
        ("attention of one query bf16 64x4x8192x128", 64, 4, 8192),
        ("attention of one query bf16 8x1x65536x128", 8, 1, 65536),
    ] {
        if b.wants(name) {
            let q = b.randn([heads, shared, 1, 128], DType::BF16);
            let [k, v] = [(); 2].map(|()| b.randn([heads, 1, keys, 128], DType::BF16));
            b.time(name, 0.0, 4 * heads * keys * 128, |_| {
                let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, false, None);
                vec![y]
            });
        }
    }
}
