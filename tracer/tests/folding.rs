//! What a `jit` function computes of captured tensors alone: when it is computed once, and what that takes.

use ferrotrace_runtime::{Config, Stats, stats_scope};
use ferrotrace_tracer::prelude::*;
use ferrotrace_tracer::{Generator, eval};
use std::process::Command;

/// Numbers in [−1, 1), the same each time.
fn numbers(n: usize, seed: usize) -> Vec<f32> {
    let of = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f32 / 1001.5 - 1.0;
    (0..n).map(of).collect()
}

fn tensor(shape: &[usize], seed: usize) -> Tensor {
    let data = numbers(shape.iter().product(), seed);
    Tensor::from_vec(data, shape, &Device::cpu())
}

fn read(x: &Tensor) -> Vec<f32> {
    x.to_vec().expect("readable")
}

fn compiled<R>(f: impl FnOnce() -> R) -> (R, Stats) {
    with_mode(Mode::Compiled, || stats_scope(f))
}

fn eager<R>(f: impl FnOnce() -> R) -> (R, Stats) {
    with_mode(Mode::Eager, || stats_scope(f))
}

/// x·w of row-major `[m, k]` and `[k, n]`, in binary64.
fn product(x: &[f32], w: &[f32], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let mut out = vec![0.0; m * n];
    for (i, out) in out.iter_mut().enumerate() {
        let (row, column) = (i / n, i % n);
        *out = (0..k)
            .map(|l| x[row * k + l] as f64 * w[l * n + column] as f64)
            .sum();
    }
    out
}

fn close(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (a, b) in got.iter().zip(want) {
        assert!((*a as f64 - b).abs() <= 1e-5 * (1.0 + b.abs()), "{a} {b}");
    }
}

/// What of a result's function is kept: bytes of each value, and the operator.
fn kept(result: &Tensor) -> Vec<(&'static str, usize)> {
    let explanation = ferrotrace_tracer::explain(&[result]);
    let kept = explanation.folded().iter().filter(|value| value.kept);
    kept.map(|value| (value.op, value.bytes)).collect()
}

#[test]
fn a_transposed_weight_is_copied_once() {
    let (w, x) = (tensor(&[48, 64], 1), tensor(&[8, 64], 2));
    let scaled: Vec<f32> = numbers(48 * 64, 1).iter().map(|w| w * 0.5).collect();
    let transposed: Vec<f32> = (0..64 * 48).map(|i| scaled[i % 48 * 64 + i / 48]).collect();
    let want = product(&numbers(8 * 64, 2), &transposed, [8, 64, 48]);
    let f = jit(move |x: &Tensor| x.matmul(&(&w * 0.5).t().contiguous()));
    let (first, s) = compiled(|| f.call(&x));
    close(&read(&first), &want);
    assert_eq!(kept(&first), [("contiguous", 48 * 64 * 4)]);
    let (second, again) = compiled(|| f.call(&x));
    close(&read(&second), &want);
    assert_eq!((again.kernels_launched, again.library_calls), (0, 1));
    assert!(s.traces == 1 && again.traces == 0 && again.plans_built == 0);
    let text = ferrotrace_tracer::explain(&[&second]).to_string();
    assert!(
        text.contains("computed once: contiguous f32[64, 48]"),
        "{text}"
    );
    assert!(text.contains("folding.rs:"), "{text}");
}

#[test]
fn a_write_to_the_captured_tensor_is_not_seen() {
    let mut w = tensor(&[32, 16], 3);
    let x = tensor(&[4, 16], 4);
    let captured = w.clone();
    let f = jit(move |x: &Tensor| x.matmul(&captured.exp().t().contiguous()));
    let give = jit(|(w, g): (Tensor, &Tensor)| w - g * 0.5);
    let ((), _) = compiled(|| {
        let first = read(&f.call(&x));
        w += 1.0;
        eval([&w]).expect("runs");
        assert_eq!(read(&f.call(&x)), first);
        // Neither by a function that the tensor is given to.
        let g = tensor(&[32, 16], 5);
        let old = read(&w);
        w = give.call((w.clone(), &g));
        let held = w.clone();
        w = give.call((w, &g));
        let stepped: Vec<f32> = old.iter().zip(read(&g)).map(|(w, g)| w - g).collect();
        assert!(
            w.allclose(
                &Tensor::from_vec(stepped, [32, 16], &Device::cpu()),
                1e-6,
                1e-6
            )
            .expect("fits")
        );
        assert_eq!(read(&f.call(&x)), first);
        drop(held);
        let exp: Vec<f32> = numbers(32 * 16, 3).iter().map(|w| w.exp()).collect();
        let exp: Vec<f32> = (0..16 * 32).map(|i| exp[i % 32 * 16 + i / 32]).collect();
        close(&first, &product(&numbers(4 * 16, 4), &exp, [4, 16, 32]));
    });
}

#[test]
fn a_result_that_shares_kept_memory_is_not_overwritten() {
    let w = tensor(&[64], 6);
    let f = jit(move |x: &Tensor| (x * w.exp(), w.exp().expand([2, 64])));
    let ((), _) = compiled(|| {
        let x = tensor(&[64], 7);
        let (first, spread) = f.call(&x);
        let (first, shown) = (read(&first), read(&spread));
        // The only handle: what is computed of it may take its memory.
        let changed = spread - 5.0;
        eval([&changed]).expect("runs");
        let (second, spread) = f.call(&x);
        assert_eq!((read(&second), read(&spread)), (first, shown));
    });
}

#[test]
fn kept_memory_goes_with_the_function() {
    let bytes = 64 * 64 * 4;
    let ((), s) = compiled(|| {
        let (x, w) = (tensor(&[2, 64], 1), tensor(&[64, 64], 2));
        let f = jit(move |x: &Tensor| x.matmul(&w.tanh()));
        let ((), while_it_lives) = stats_scope(|| {
            for _ in 0..3 {
                read(&f.call(&x));
            }
        });
        assert_eq!(while_it_lives.live_bytes, bytes);
        drop((f, x));
    });
    assert_eq!(s.live_bytes, 0);
}

/// Ten layers, each of a weight scaled and transposed.
fn layers(weights: &[Tensor], x: &Tensor) -> Tensor {
    let layer = |x: Tensor, w: &Tensor| x.matmul(&(w * 0.2).tanh().t().contiguous());
    weights.iter().fold(x.clone(), layer)
}

#[test]
fn by_default_no_call_needs_more_memory_than_eagerly() {
    let weights: Vec<Tensor> = (0..10).map(|i| tensor(&[64, 64], i)).collect();
    let bytes = 64 * 64 * 4;
    let (x, captured, frozen) = (tensor(&[2, 64], 11), weights.clone(), weights.clone());
    let ((want, ()), alone) = eager(|| (read(&layers(&weights, &x)), ()));
    let f = jit(move |x: &Tensor| layers(&captured, x));
    let run = || {
        let y = f.call(&x);
        (
            read(&y),
            kept(&y).len(),
            ferrotrace_tracer::explain(&[&y]).folded().len(),
        )
    };
    let ((), s) = compiled(|| {
        for _ in 0..3 {
            let (got, kept, all) = run();
            // Eager mode holds one such value at a time, so keeping a second one would need more memory.
            assert_eq!((kept, all), (0, 10));
            close(&got, &want.iter().map(|x| *x as f64).collect::<Vec<_>>());
        }
    });
    assert!(
        s.peak_bytes <= alone.peak_bytes,
        "{} {}",
        s.peak_bytes,
        alone.peak_bytes
    );
    assert_eq!(s.live_bytes, 0);
    // Beside large intermediate values there is room for all.
    let (captured, many) = (weights.clone(), tensor(&[1, 64], 11));
    let spread = move |x: &Tensor| layers(&captured, &(x.expand([4096, 64]) * 2.0).mean_keepdim(0));
    let (spread_eagerly, alone) = eager(|| read(&spread(&many)));
    let f = jit(spread);
    let ((), s) = compiled(|| {
        for _ in 0..2 {
            let y = f.call(&many);
            assert_eq!(kept(&y).len(), 10);
            close(
                &read(&y),
                &spread_eagerly.iter().map(|x| *x as f64).collect::<Vec<_>>(),
            );
        }
    });
    assert!(s.peak_bytes <= alone.peak_bytes && s.live_bytes == 10 * bytes);
    // Frozen, all are kept, and take as much as the weights.
    let f = jit(move |x: &Tensor| layers(&frozen, x)).freeze();
    let ((), s) = compiled(|| {
        for _ in 0..2 {
            let y = f.call(&x);
            assert_eq!(kept(&y), [("contiguous", bytes as usize); 10]);
            close(
                &read(&y),
                &want.iter().map(|x| *x as f64).collect::<Vec<_>>(),
            );
        }
    });
    assert_eq!(s.live_bytes, 10 * bytes);
    let (_, again) = compiled(|| read(&f.call(&x)));
    assert_eq!((again.kernels_launched, again.library_calls), (0, 10));
}

#[test]
fn generated_drawn_and_expanded_values_are_not_kept() {
    let cpu = Device::cpu();
    let (w, x) = (tensor(&[64], 1), tensor(&[64, 64], 2));
    let nothing = |name: &str, result: Tensor| {
        let folded = ferrotrace_tracer::explain(&[&result]).folded().len();
        assert_eq!(folded, 0, "{name}");
    };
    let ((), _) = compiled(|| {
        let (of, device) = (w.clone(), cpu.clone());
        let full = jit(move |x: &Tensor| {
            x * Tensor::full([64, 64], 2.0, DType::F32, &device).sqrt() + of.unsqueeze(0)
        })
        .freeze();
        nothing("full", full.call(&x));
        let device = cpu.clone();
        let eye =
            jit(move |x: &Tensor| x.matmul(&(Tensor::eye(64, DType::F32, &device) * 3.0))).freeze();
        let y = eye.call(&x);
        close(
            &read(&y),
            &read(&x).iter().map(|x| *x as f64 * 3.0).collect::<Vec<_>>(),
        );
        nothing("eye", y);
        let of = w.clone();
        let spread = jit(move |x: &Tensor| x.matmul(&(of.unsqueeze(0) - of.unsqueeze(1)))).freeze();
        nothing("outer difference", spread.call(&x));
        let of = w.clone();
        let repeated = jit(move |x: &Tensor| x + of.repeat(&[64, 1])).freeze();
        nothing("repeated", repeated.call(&x));
        // A cheap function of what a kernel reads anyway.
        let of = w.clone();
        let cheap = jit(move |x: &Tensor| x + &of * 2.0).freeze();
        nothing("cheap", cheap.call(&x));
        // Weights of 8 bits stay so, and are widened where they are used.
        let bytes: Vec<i8> = (0..64 * 64).map(|i| (i % 251) as i8).collect();
        let (small, scale) = (Tensor::from_vec(bytes.clone(), [64, 64], &cpu), w.clone());
        let wide =
            jit(move |x: &Tensor| x.matmul(&(small.to_dtype(DType::F32) * scale.unsqueeze(0))))
                .freeze();
        let y = wide.call(&x);
        let (w, n) = (read(&w), 64);
        let dense: Vec<f32> = (0..n * n).map(|i| bytes[i] as f32 * w[i % n]).collect();
        let want = product(&read(&x), &dense, [n, n, n]);
        let got = read(&y);
        assert!(
            got.iter()
                .zip(&want)
                .all(|(a, b)| (*a as f64 - b).abs() < 1e-2),
            "widened"
        );
        nothing("widened", y);
    });
}

#[test]
fn draws_are_anew_at_each_call() {
    let draw = |mode| {
        with_mode(mode, || {
            let (g, w) = (Generator::new(5), tensor(&[32, 32], 1));
            let inner = g.clone();
            let f = jit(move |x: &Tensor| {
                let noise = inner.rand([32, 32], DType::F32, &Device::cpu());
                x.matmul(&(w.exp() * noise))
            });
            let x = tensor(&[1, 32], 2);
            (0..3).map(|_| read(&f.call(&x))).collect::<Vec<_>>()
        })
    };
    let (got, want) = (draw(Mode::Compiled), draw(Mode::Eager));
    assert_ne!(got[0], got[1]);
    assert_ne!(got[1], got[2]);
    for (got, want) in got.iter().zip(&want) {
        close(got, &want.iter().map(|x| *x as f64).collect::<Vec<_>>());
    }
}

#[test]
fn calls_of_other_sizes_share_what_is_kept() {
    let bytes = 64 * 64 * 4;
    for asks in [false, true] {
        let w = tensor(&[64, 64], 1);
        let copy = numbers(64 * 64, 1);
        let f = jit(move |x: &Tensor| {
            let y = x.matmul(&w.sin());
            if asks { y * x.dims()[0] as f64 } else { y }
        });
        let sin: Vec<f32> = copy.iter().map(|w| w.sin()).collect();
        let ((), s) = compiled(|| {
            for rows in [4, 5, 7, 5, 4] {
                let x = tensor(&[rows, 64], rows);
                let times = if asks { rows as f64 } else { 1.0 };
                let want = product(&numbers(rows * 64, rows), &sin, [rows, 64, 64]);
                let want: Vec<f64> = want.iter().map(|y| y * times).collect();
                let y = f.call(&x);
                close(&read(&y), &want);
                assert_eq!(kept(&y), [("sin", bytes as usize)]);
            }
        });
        assert_eq!((s.live_bytes, s.traces), (bytes, if asks { 3 } else { 1 }));
    }
}

#[test]
fn what_a_number_of_the_call_changes_is_computed_each_time() {
    let w = tensor(&[16, 16], 1);
    let f =
        jit(move |(x, scale): (&Tensor, f64)| x.matmul(&(&w * scale).t().contiguous())).freeze();
    let x = tensor(&[2, 16], 2);
    let ((), s) = compiled(|| {
        for scale in [0.5, 2.0, 3.0, 0.5] {
            let w: Vec<f32> = numbers(256, 1).iter().map(|w| w * scale as f32).collect();
            let w: Vec<f32> = (0..256).map(|i| w[i % 16 * 16 + i / 16]).collect();
            let want = product(&numbers(32, 2), &w, [2, 16, 16]);
            close(&read(&f.call((&x, scale))), &want);
        }
    });
    assert_eq!(s.live_bytes, 0);
}

#[test]
fn a_batch_norm_goes_into_the_weights_before_it() {
    let (x, w) = (tensor(&[1, 4, 9, 9], 1), tensor(&[8, 4, 3, 3], 2));
    let (mean, gamma) = (tensor(&[8], 3), tensor(&[8], 4));
    let var = tensor(&[8], 5).square() + 0.5;
    let network = move |x: &Tensor| {
        let scale = &gamma * (&var + 1e-5).rsqrt();
        let weight = &w * scale.reshape([8, 1, 1, 1]);
        let bias = -(&mean * &scale);
        x.conv2d(&weight, Some(&bias), 1, 1, 1, 1).relu()
    };
    let (want, _) = eager(|| read(&network(&x)));
    let f = jit(network).freeze();
    let ((), _) = compiled(|| {
        for _ in 0..2 {
            let y = f.call(&x);
            close(
                &read(&y),
                &want.iter().map(|x| *x as f64).collect::<Vec<_>>(),
            );
            assert!(kept(&y).contains(&("mul", 8 * 4 * 9 * 4)), "{:?}", kept(&y));
        }
    });
}

#[test]
fn weights_are_joined_once_and_the_parts_are_not_held() {
    let parts: Vec<Tensor> = (0..3).map(|i| tensor(&[16, 32], i)).collect();
    let all: Vec<f32> = (0..3).flat_map(|i| numbers(16 * 32, i)).collect();
    let all: Vec<f32> = (0..32 * 48).map(|i| all[i % 48 * 32 + i / 48]).collect();
    let want = product(&numbers(2 * 32, 9), &all, [2, 32, 48]);
    let f = jit(move |x: &Tensor| {
        let joined = Tensor::cat(&parts.iter().collect::<Vec<_>>(), 0);
        x.linear(&joined, None)
    });
    let x = tensor(&[2, 32], 9);
    let ((), _) = compiled(|| {
        for _ in 0..2 {
            let y = f.call(&x);
            close(&read(&y), &want);
            assert_eq!(kept(&y), [("cat", 48 * 32 * 4)]);
        }
    });
    let (_, again) = compiled(|| read(&f.call(&x)));
    assert_eq!((again.kernels_launched, again.library_calls), (0, 1));
}

#[test]
fn a_faulty_constant_index_is_reported_at_each_call() {
    let (table, index) = (
        tensor(&[4, 8], 1),
        Tensor::from_slice(&[1i64, 9], 2, &Device::cpu()),
    );
    let f = jit(move |x: &Tensor| x * table.index_select(0, &index).exp()).freeze();
    let x = tensor(&[2, 8], 2);
    let ((), _) = compiled(|| {
        for _ in 0..2 {
            let error = f
                .call(&x)
                .to_vec::<f32>()
                .expect_err("the index is out of range");
            assert!(error.to_string().contains('9'), "{error}");
        }
    });
}

#[test]
fn long_traces_of_constants_are_folded_in_linear_time() {
    let w = tensor(&[8, 8], 1);
    let f = jit(move |x: &Tensor| {
        let (mut power, mut sum) = (w.clone(), x.clone());
        for _ in 0..1000 {
            power = (&power * 0.5).tanh();
            sum += &power;
        }
        sum
    })
    .freeze();
    let x = tensor(&[8, 8], 2);
    let mut want: Vec<f64> = numbers(64, 2).iter().map(|x| *x as f64).collect();
    let mut power: Vec<f64> = numbers(64, 1).iter().map(|x| *x as f64).collect();
    for _ in 0..1000 {
        power.iter_mut().for_each(|p| *p = (*p * 0.5).tanh());
        want.iter_mut().zip(&power).for_each(|(w, p)| *w += p);
    }
    let ((), s) = compiled(|| {
        for _ in 0..2 {
            close(&read(&f.call(&x)), &want);
        }
    });
    assert!(s.live_bytes <= 8 * 8 * 4);
}

/// Whether products on this machine read matrices in another order than that of their elements.
fn packs() -> bool {
    use ferrotrace_runtime::Isa;
    matches!(Isa::host(), Isa::Avx512 | Isa::Avx2)
}

/// Bytes that a matrix of `k` rows and `n` columns takes when it is packed.
fn packed([k, n]: [usize; 2]) -> u64 {
    let bytes = (k * n + 16) * 4;
    if packs() { bytes as u64 } else { 0 }
}

#[test]
fn a_frozen_function_packs_the_weights_of_products_once() {
    // Small weights, so that sums are.
    let small = |shape: [usize; 2], seed: usize| {
        let data = numbers(shape[0] * shape[1], seed).into_iter();
        Tensor::from_vec(data.map(|x| x * 0.1).collect(), shape, &Device::cpu())
    };
    let (w, v) = (small([200, 100], 1), small([200, 150], 2));
    let (data, other) = (read(&w), read(&v));
    let across: Vec<f32> = (0..100 * 200)
        .map(|i| data[i % 200 * 100 + i / 200])
        .collect();
    let f = jit(move |x: &Tensor| x.linear(&w, None).relu().matmul(&v)).freeze();
    let ((), s) = compiled(|| {
        // Another number of rows is another plan, which finds the same copies.
        for rows in [1, 7, 90, 7] {
            let x = tensor(&[rows, 100], 3);
            let hidden = product(&read(&x), &across, [rows, 100, 200]);
            let hidden: Vec<f32> = hidden.iter().map(|x| x.max(0.0) as f32).collect();
            let want = product(&hidden, &other, [rows, 200, 150]);
            let got = read(&f.call(&x));
            close(&got, &want);
            assert_eq!(read(&f.call(&x)), got);
        }
    });
    assert_eq!(s.live_bytes, packed([100, 200]) + packed([200, 150]));
    let ((), gone) = stats_scope(|| drop(f));
    assert_eq!(gone.live_bytes, 0);
}

#[test]
fn threads_that_call_at_once_share_what_is_packed() {
    let w = tensor(&[160, 128], 1);
    let f = jit(move |x: &Tensor| x.linear(&w, None).tanh()).freeze();
    let x = tensor(&[70, 128], 2);
    let want = with_mode(Mode::Eager, || read(&f.call(&x)));
    let results: Vec<Vec<f32>> = std::thread::scope(|scope| {
        let call = || (0..5).map(|_| read(&f.call(&x))).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(call)).collect();
        threads
            .into_iter()
            .flat_map(|t| t.join().expect("ran"))
            .collect()
    });
    for got in &results {
        assert_eq!(got, &results[0]);
        let far = got.iter().zip(&want).any(|(a, b)| (a - b).abs() > 1e-5);
        assert!(!far);
    }
}

#[test]
fn tied_weights_and_writes_of_the_captured_tensor() {
    // A table that is looked up and multiplied by, as in language models.
    let mut table = tensor(&[300, 96], 1);
    let (captured, data) = (table.clone(), read(&table));
    let across: Vec<f32> = (0..96 * 300)
        .map(|i| data[i % 300 * 96 + i / 300])
        .collect();
    let f = jit(move |ids: &Tensor| {
        let rows = captured.embedding(ids);
        rows.linear(&captured, None) + rows.matmul(&captured.t())
    })
    .freeze();
    let ids = Tensor::from_vec(vec![5i64, 299, 0], [3], &Device::cpu());
    let rows: Vec<f32> = [5, 299, 0]
        .iter()
        .flat_map(|&i| data[i * 96..][..96].to_vec())
        .collect();
    let want: Vec<f64> = product(&rows, &across, [3, 96, 300])
        .iter()
        .map(|x| x * 2.0)
        .collect();
    let ((), s) = compiled(|| {
        close(&read(&f.call(&ids)), &want);
        close(&read(&f.call(&ids)), &want);
    });
    assert_eq!(s.live_bytes, packed([96, 300]));
    let ((), _) = compiled(|| {
        table += 1.0;
        eval([&table]).expect("runs");
        close(&read(&f.call(&ids)), &want);
    });
}

#[test]
fn what_is_no_constant_is_not_packed() {
    let (w, x) = (tensor(&[200, 100], 1), tensor(&[8, 100], 2));
    // Arguments, whether given away or not.
    let f = jit(|(x, w): (&Tensor, Tensor)| x.linear(&w, None)).freeze();
    let ((), s) = compiled(|| {
        read(&f.call((&x, w.clone())));
        read(&f.call((&x, tensor(&[200, 100], 3))));
    });
    assert_eq!(s.live_bytes, 0);
    // Recorded to round as eager mode does: the same bits.
    let captured = w.clone();
    let f = jit(move |x: &Tensor| x.linear(&captured, None)).freeze();
    let exact = || with_precision(Precision::EagerExact, || read(&f.call(&x)));
    let (got, s) = compiled(exact);
    assert_eq!((got, s.live_bytes), (eager(exact).0, 0));
}

#[test]
fn captured_weights_are_packed_where_memory_is_plenty() {
    let (w, x) = (tensor(&[200, 100], 1), tensor(&[8, 100], 2));
    let data = read(&w);
    let across: Vec<f32> = (0..100 * 200)
        .map(|i| data[i % 200 * 100 + i / 200])
        .collect();
    let want = product(&read(&x), &across, [8, 100, 200]);
    let f = jit(move |x: &Tensor| x.linear(&w, None));
    let ((), s) = compiled(|| (0..3).for_each(|_| close(&read(&f.call(&x)), &want)));
    assert_eq!(s.live_bytes, packed([100, 200]));
    let ((), gone) = stats_scope(|| drop(f));
    assert_eq!(gone.live_bytes, 0);
}

#[test]
fn packing_can_be_bounded_by_eager_mode() {
    if Config::get().pack {
        // The environment is read once in a process.
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "packing_can_be_bounded_by_eager_mode"]);
        let output = command.env("FERROTRACE_PACK", "0").output();
        let said = output.expect("it starts").stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("1 passed"), "{said}");
        return;
    }
    // As much as eager mode needs beyond the call's own, here nothing.
    let (w, x) = (tensor(&[200, 100], 1), tensor(&[8, 100], 2));
    let captured = w.clone();
    let f = jit(move |x: &Tensor| x.linear(&captured, None));
    let (_, alone) = eager(|| read(&f.call(&x)));
    let (_, s) = compiled(|| read(&f.call(&x)));
    assert!(s.live_bytes == 0 && s.peak_bytes <= alone.peak_bytes);
    // Beside large intermediate values there is room.
    let captured = w.clone();
    let wide = jit(move |x: &Tensor| {
        let spread = (x.expand([4096, 100]) * 2.0).exp().mean_keepdim(0);
        spread.linear(&captured, None)
    });
    let x = tensor(&[1, 100], 4);
    let (want, alone) = eager(|| read(&wide.call(&x)));
    let (got, s) = compiled(|| read(&wide.call(&x)));
    close(&got, &want.iter().map(|x| *x as f64).collect::<Vec<_>>());
    assert!(s.live_bytes == packed([100, 200]) && s.peak_bytes <= alone.peak_bytes);
}
