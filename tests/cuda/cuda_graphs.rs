//! Graphs of a CUDA device: replayed plans launched at once give what their launches one by one give, whatever happens
//! to arguments and results. Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::device;
use ferrotrace::prelude::*;
use ferrotrace::{
    ErrorKind, GraphDecision, Mode, ReduceOp, Stats, Uncaptured, eval, grad, manual_seed, scan,
    stats_scope, while_loop, with_mode,
};
use std::sync::Mutex;

/// Runs before a plan is captured, and the one that captures it.
const WARM: usize = 3;

fn noise(shape: &[usize], seed: usize, device: &Device) -> Tensor {
    let n: usize = shape.iter().product();
    let value = |i: usize| ((i * 7919 + seed * 101 + 13) % 4001) as f32 / 1000.0 - 2.0;
    let data: Vec<f32> = (0..n).map(value).collect();
    Tensor::from_slice(&data, shape, device)
}

fn numbers(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().unwrap_or_else(|e| panic!("{e}"))
}

/// Sums over rows and columns by turns: several kernels, whose intermediate values take each other's memory.
fn turns(x: &Tensor, n: usize) -> Tensor {
    let mut z = x.clone();
    for _ in 0..n {
        z = &z - z.mean_keepdim(0);
        z = (&z - z.mean_keepdim(1)) * 1.5;
    }
    z
}

/// The rotations by loops in binary64, as the reference.
fn turns_of(data: &[f32], rows: usize, n: usize) -> Vec<f64> {
    let mut z: Vec<f64> = data.iter().map(|&v| v as f64).collect();
    let columns = z.len() / rows;
    for _ in 0..n {
        for j in 0..columns {
            let mean = (0..rows).map(|i| z[i * columns + j]).sum::<f64>() / rows as f64;
            (0..rows).for_each(|i| z[i * columns + j] -= mean);
        }
        for row in z.chunks_mut(columns) {
            let mean = row.iter().sum::<f64>() / columns as f64;
            row.iter_mut().for_each(|v| *v = (*v - mean) * 1.5);
        }
    }
    z
}

#[track_caller]
fn close(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!(
            (*a as f64 - b).abs() <= 1e-3 * b.abs().max(1.0),
            "element {i}: {a} for {b}"
        );
    }
}

fn counted(f: impl FnOnce() -> Tensor) -> (Vec<f32>, Stats) {
    let (result, stats) = stats_scope(|| {
        let y = f();
        y.eval().unwrap_or_else(|e| panic!("{e}"));
        y
    });
    (numbers(&result), stats)
}

#[test]
fn replays_are_one_launch_with_the_same_bits() {
    let Some(d) = device() else { return };
    let f = jit(|x: &Tensor| turns(x, 5));
    let mut first = Vec::new();
    for round in 0..8 {
        let x = noise(&[33, 40], 1, &d);
        let (got, stats) = counted(|| f.call(&x));
        close(&got, &turns_of(&numbers(&x), 33, 5));
        match round {
            0 => first = got,
            _ => assert_eq!(got, first, "round {round}"),
        }
        let (graphs, captured) = (stats.graph_launches, stats.graphs_captured);
        let expected = match round + 1 {
            n if n < WARM => (0, 0),
            WARM => (1, 1),
            _ => (1, 0),
        };
        assert_eq!((graphs, captured), expected, "round {round}");
        assert!(stats.kernels_launched >= 5, "{stats:?}");
    }
    // Other data, in other memory.
    let others: Vec<Tensor> = (2..6).map(|seed| noise(&[33, 40], seed, &d)).collect();
    for x in &others {
        let (got, stats) = counted(|| f.call(x));
        close(&got, &turns_of(&numbers(x), 33, 5));
        assert_eq!((stats.graph_launches, stats.graphs_captured), (1, 0));
    }
}

#[test]
fn flushes_of_one_plan_are_captured_and_numbers_are_patched() {
    let Some(d) = device() else { return };
    let x = noise(&[20, 70], 3, &d);
    let base = turns_of(&numbers(&x), 20, 2);
    for round in 0..8 {
        let factor = 1.0 + round as f64;
        let (got, stats) = counted(|| turns(&x, 2) * factor + 0.25 * factor);
        let want: Vec<f64> = base.iter().map(|v| v * factor + 0.25 * factor).collect();
        close(&got, &want);
        assert_eq!(
            stats.graph_launches,
            u64::from(round + 1 >= WARM),
            "round {round}"
        );
        assert_eq!(
            stats.graphs_captured,
            u64::from(round + 1 == WARM),
            "round {round}"
        );
    }
}

#[test]
fn held_results_stay_as_they_are() {
    let Some(d) = device() else { return };
    let f = jit(|x: &Tensor| (turns(x, 3), turns(x, 2) + 1.0));
    let inputs: Vec<Tensor> = (0..12).map(|seed| noise(&[30, 31], seed, &d)).collect();
    // All results are held while later replays run.
    let results: Vec<(Tensor, Tensor)> = inputs.iter().map(|x| f.call(x)).collect();
    for (x, (a, b)) in inputs.iter().zip(&results) {
        let data = numbers(x);
        close(&numbers(a), &turns_of(&data, 30, 3));
        let want: Vec<f64> = turns_of(&data, 30, 2).iter().map(|v| v + 1.0).collect();
        close(&numbers(b), &want);
    }
    // Views of results, too.
    let view = results[3].0.narrow(0, 5, 2);
    drop(results);
    (0..6).for_each(|i| drop(f.call(&inputs[i])));
    close(
        &numbers(&view),
        &turns_of(&numbers(&inputs[3]), 30, 3)[5 * 31..7 * 31],
    );
}

#[test]
fn arguments_given_away_are_overwritten_and_others_are_not() {
    let Some(d) = device() else { return };
    // Every kernel may write over what it reads last.
    let step = jit(|x: Tensor| turns(&x, 2));
    let mut x = noise(&[16, 64], 7, &d);
    x.eval().unwrap();
    let data = numbers(&x);
    for _ in 0..10 {
        x = step.call(x);
    }
    close(&numbers(&x), &turns_of(&data, 16, 20));
    // The same function with an argument that is held by others stays away from it.
    let kept = noise(&[16, 64], 8, &d);
    let before = numbers(&kept);
    for _ in 0..6 {
        let got = step.call(kept.clone());
        close(&numbers(&got), &turns_of(&before, 16, 2));
        assert_eq!(numbers(&kept), before);
    }
    // And again with ones given away, which now is another graph of the same plan.
    let given = noise(&[16, 64], 9, &d);
    given.eval().unwrap();
    let data = numbers(&given);
    let got = step.call(step.call(given));
    close(&numbers(&got), &turns_of(&data, 16, 4));
}

#[test]
fn the_same_tensor_twice_and_views_of_one() {
    let Some(d) = device() else { return };
    let f = jit(|(a, b): (&Tensor, &Tensor)| turns(&(a + b), 2));
    let base = noise(&[40, 24], 4, &d);
    let data = numbers(&base);
    let both = |a: usize, b: usize| {
        let part = |at: usize| &data[at * 24..(at + 20) * 24];
        let sum: Vec<f32> = part(a).iter().zip(part(b)).map(|(x, y)| x + y).collect();
        turns_of(&sum, 20, 2)
    };
    for _ in 0..5 {
        for (a, b) in [(0, 20), (3, 3), (20, 0), (7, 9)] {
            let (x, y) = (base.narrow(0, a, 20), base.narrow(0, b, 20));
            close(&numbers(&f.call((&x, &y))), &both(a as usize, b as usize));
        }
    }
}

#[test]
fn other_sizes_are_other_graphs() {
    let Some(d) = device() else { return };
    let f = jit(|x: &Tensor| turns(x, 3));
    for round in 0..6 {
        for rows in [5, 64, 5, 17] {
            let x = noise(&[rows, 33], round, &d);
            close(&numbers(&f.call(&x)), &turns_of(&numbers(&x), rows, 3));
        }
    }
}

#[test]
fn products_are_captured_in_other_memory_too() {
    let Some(d) = device() else { return };
    let f = jit(|(x, w): (&Tensor, &Tensor)| {
        let h = (x.matmul(w) * 0.1).tanh();
        let h = (h.matmul(w) * 0.1).tanh();
        h.matmul(&w.t()) + x
    });
    let reference = |x: &[f32], w: &[f32]| {
        let n = 24;
        let product = |a: &[f64], w: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            let at = |i: usize| (0..n).map(|k| a[i / n * n + k] * w(k, i % n)).sum();
            (0..a.len()).map(at).collect()
        };
        let plain = |k: usize, j: usize| w[k * n + j] as f64;
        let turned = |k: usize, j: usize| w[j * n + k] as f64;
        let squash = |a: Vec<f64>| -> Vec<f64> { a.iter().map(|v| (v * 0.1).tanh()).collect() };
        let x: Vec<f64> = x.iter().map(|&v| v as f64).collect();
        let h = squash(product(&x, &plain));
        let h = squash(product(&h, &plain));
        product(&h, &turned)
            .iter()
            .zip(&x)
            .map(|(a, b)| a + b)
            .collect::<Vec<f64>>()
    };
    let mut captured = 0;
    for round in 0..8 {
        let (x, w) = (
            noise(&[10, 24], round, &d),
            noise(&[24, 24], round + 50, &d),
        );
        let (got, stats) = counted(|| f.call((&x, &w)));
        close(&got, &reference(&numbers(&x), &numbers(&w)));
        captured += stats.graph_launches;
        assert_eq!(stats.library_calls, 3, "round {round}");
    }
    assert!(captured > 0, "products by the library are captured");
}

#[test]
fn checks_of_indices_stay_outside_and_still_fail() {
    let Some(d) = device() else { return };
    let f = jit(|(x, at): (&Tensor, &Tensor)| turns(&turns(x, 3).index_select(0, at), 3));
    let x = noise(&[12, 30], 1, &d);
    let good = Tensor::from_slice(&[3i64, 0, 11, -1, 5], 5, &d);
    let bad = Tensor::from_slice(&[3i64, 0, 12, -1, 5], 5, &d);
    let rows = turns_of(&numbers(&x), 12, 3);
    let picked: Vec<f32> = [3, 0, 11, 11, 5]
        .iter()
        .flat_map(|&i| rows[i * 30..(i + 1) * 30].iter().map(|&v| v as f32))
        .collect();
    for round in 0..8 {
        let (got, stats) = counted(|| f.call((&x, &good)));
        close(&got, &turns_of(&picked, 5, 3));
        if round + 1 >= WARM {
            assert!(
                stats.graph_launches >= 1,
                "the parts around the check are captured"
            );
            assert!(stats.host_syncs >= 1, "the check is waited for");
        }
        if round % 2 == 1 {
            let error = f.call((&x, &bad)).eval().expect_err("12 of 12 rows");
            let at = matches!(
                error.kind(),
                ErrorKind::Index {
                    index: 12,
                    size: 12,
                    ..
                }
            );
            assert!(at, "{error}");
        }
    }
}

/// Updates of many parameters share launches, whose arguments are a table: addresses and numbers of it are those of each run.
#[test]
fn launches_that_share_a_table_are_captured() {
    let Some(d) = device() else { return };
    let sizes = [300usize, 40, 1700, 300, 64, 1, 2048, 17];
    let parameters = |seed: usize| -> Vec<Tensor> {
        let each = sizes.iter().enumerate();
        let all: Vec<Tensor> = each.map(|(i, &n)| noise(&[n], seed + i, &d)).collect();
        eval(&all).expect("memory");
        all
    };
    let x = noise(&[24, 20], 3, &d);
    let turned = turns_of(&numbers(&x), 24, 4);
    let mean = turned.iter().sum::<f64>() / turned.len() as f64;
    let last = turns_of(&numbers(&x), 24, 8);
    for round in 0..8 {
        let (w, g) = (parameters(10 * round), parameters(100 + 10 * round));
        let (rate, decay) = (0.5 / (round + 1) as f64, 1.0 - 0.125 * round as f64);
        let (mut all, stats) = stats_scope(|| {
            let y = turns(&x, 4);
            let shift = y.mean(..);
            let update = |(w, g): (&Tensor, &Tensor)| w * decay - (g.tanh() + &shift) * rate;
            let mut all: Vec<Tensor> = w.iter().zip(&g).map(update).collect();
            all.push(turns(&y, 4));
            eval(&all).expect("runs");
            all
        });
        close(&numbers(&all.pop().expect("a result")), &last);
        for ((w, g), updated) in w.iter().zip(&g).zip(&all) {
            let step =
                |(w, g): (&f32, &f32)| *w as f64 * decay - ((*g as f64).tanh() + mean) * rate;
            let want: Vec<f64> = numbers(w).iter().zip(&numbers(g)).map(step).collect();
            close(&numbers(updated), &want);
        }
        if round >= WARM {
            assert_eq!(stats.graph_launches, 1, "round {round}: {stats:?}");
        }
    }
    let train = jit(|(w, x): (Vec<Tensor>, &Tensor)| {
        let x = turns(x, 4);
        let update = |w: &Tensor| w * 0.5 - (w + x.mean(..)) * 0.25;
        let w: Vec<Tensor> = w.iter().map(update).collect();
        (w, turns(&x, 4))
    });
    let mut w = parameters(7);
    let mut want: Vec<Vec<f64>> = w
        .iter()
        .map(|w| numbers(w).iter().map(|&v| v as f64).collect())
        .collect();
    for round in 0..7 {
        let ((next, y), stats) = stats_scope(|| {
            let (next, y) = train.call((w, &x));
            eval(&next).expect("runs");
            (next, y)
        });
        w = next;
        close(&numbers(&y), &last);
        for (w, want) in w.iter().zip(&mut want) {
            want.iter_mut()
                .for_each(|v| *v = *v * 0.5 - (*v + mean) * 0.25);
            close(&numbers(w), want);
        }
        if round >= WARM {
            assert_eq!(stats.graph_launches, 1, "round {round}: {stats:?}");
        }
    }
}

/// Copies and clearings that scatters begin with are part of graphs: also of what somebody else holds, in other memory.
#[test]
fn scatters_are_captured() {
    let Some(d) = device() else { return };
    let at = [3i64, 0, 7, 3, 3, 11, 0];
    let index = Tensor::from_slice(&at, [7, 1], &d).expand([-1, 30]);
    let f = jit(|(x, index, rows): (&Tensor, &Tensor, &Tensor)| {
        let sums = turns(x, 1).scatter_add(0, index, &turns(rows, 1));
        let most = turns(&sums, 1).scatter_reduce(0, index, rows, ReduceOp::Amax, false);
        turns(&(&most + x.scatter_add(0, index, rows)), 1)
    });
    let mut held = Vec::new();
    for round in 0..8 {
        let (x, rows) = (noise(&[12, 30], round, &d), noise(&[7, 30], 50 + round, &d));
        let (x_data, rows_data) = (numbers(&x), numbers(&rows));
        let (got, stats) = counted(|| f.call((&x, &index, &rows)));
        let mut sums = turns_of(&x_data, 12, 1);
        let mut both: Vec<f64> = x_data.iter().map(|&v| v as f64).collect();
        let moved = turns_of(&rows_data, 7, 1);
        for (i, &place) in at.iter().enumerate() {
            for j in 0..30 {
                sums[place as usize * 30 + j] += moved[i * 30 + j];
                both[place as usize * 30 + j] += rows_data[i * 30 + j] as f64;
            }
        }
        let sums: Vec<f32> = sums.iter().map(|&v| v as f32).collect();
        let mut most = turns_of(&sums, 12, 1);
        for place in 0..12 {
            let to = (0..7).filter(|&i| at[i] as usize == place);
            for j in 0..30 {
                let met = to
                    .clone()
                    .map(|i| rows_data[i * 30 + j] as f64)
                    .reduce(f64::max);
                most[place * 30 + j] = met.unwrap_or(most[place * 30 + j]) + both[place * 30 + j];
            }
        }
        let most: Vec<f32> = most.iter().map(|&v| v as f32).collect();
        let want = turns_of(&most, 12, 1);
        close(&got, &want);
        // Checks of the indices stand between graphs.
        if round + 1 >= WARM {
            assert!(stats.graph_launches >= 1, "round {round}: {stats:?}");
        }
        assert_eq!(stats.host_runs, 0);
        assert_eq!((numbers(&x), numbers(&rows)), (x_data, rows_data));
        held.push((x, rows, want));
    }
    for (x, rows, want) in &held {
        let (got, stats) = counted(|| f.call((x, &index, rows)));
        close(&got, want);
        assert!(stats.graph_launches >= 1 && stats.graphs_captured == 0);
    }
    let made = || {
        let (x, rows, _) = &held[0];
        turns(&turns(x, 1).scatter_add(0, &index, rows), 1)
    };
    (0..4).for_each(|_| made().eval().expect("runs"));
    let y = made();
    y.eval().expect("runs");
    let graphs = explain(&[&y]).graphs().to_vec();
    let is_captured = |why: &GraphDecision| matches!(why, GraphDecision::Captured(_));
    let fits = |why: &GraphDecision| match why {
        GraphDecision::Skipped(Uncaptured::ChecksIndices | Uncaptured::TooFew(_)) => true,
        other => is_captured(other),
    };
    assert!(graphs.iter().all(|(_, why)| fits(why)), "{graphs:?}");
    assert!(graphs.iter().any(|(_, why)| is_captured(why)), "{graphs:?}");
}

/// Held by tests that draw from the process's generator.
static DRAWS: Mutex<()> = Mutex::new(());

#[test]
fn random_draws_differ_from_replay_to_replay() {
    let Some(d) = device() else { return };
    let _alone = DRAWS.lock();
    let draw = |g: &ferrotrace::Generator, x: &Tensor| {
        turns(&(x + g.rand([15, 22], DType::F32, &x.device())), 2)
    };
    let (f, g) = (jit(draw_of), ferrotrace::Generator::new(5));
    fn draw_of(x: &Tensor) -> Tensor {
        turns(&(x + Tensor::rand([15, 22], DType::F32, &x.device())), 2)
    }
    let x = noise(&[15, 22], 1, &d);
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(numbers(&f.call(&x)));
    }
    for i in 1..seen.len() {
        assert_ne!(seen[i], seen[i - 1], "replay {i} draws anew");
    }
    // The same draws, replayed or not.
    let want: Vec<Vec<f32>> = {
        let g = ferrotrace::Generator::new(5);
        (0..6)
            .map(|_| numbers(&draw(&g, &x.to_device(&Device::cpu()))))
            .collect()
    };
    for want in want {
        let got = numbers(&draw(&g, &x));
        let want: Vec<f64> = want.iter().map(|&v| v as f64).collect();
        close(&got, &want);
    }
}

#[test]
fn threads_replay_one_function() {
    let Some(d) = device() else { return };
    let f = jit(|x: &Tensor| turns(x, 4));
    std::thread::scope(|scope| {
        for k in 0..6 {
            let (f, d) = (&f, &d);
            scope.spawn(move || {
                for round in 0..12 {
                    let x = noise(&[25, 26], k * 100 + round, d);
                    let y = f.call(&x);
                    let other = (&x * 2.0).sum(0);
                    close(&numbers(&y), &turns_of(&numbers(&x), 25, 4));
                    assert_eq!(other.dims(), [26]);
                    drop(other.to_vec::<f32>().expect("sums"));
                }
            });
        }
    });
}

/// Products of long rows, whose partial sums the library keeps in a workspace: graphs and calls one by one, launched by
/// several threads in turns, give the numbers that they give alone.
#[test]
fn graphs_and_calls_of_threads_keep_their_sums_apart() {
    let Some(d) = device() else { return };
    let product = |a: &Tensor, b: &Tensor| a.matmul(&b.t());
    std::thread::scope(|scope| {
        for k in 0..16usize {
            let d = &d;
            scope.spawn(move || {
                // Sizes differ from thread to thread, and so do the library's algorithms.
                let shape = [[2, 3, 9][k % 3], [1000, 9001, 33_333][k / 2 % 3]];
                let (a, b) = (noise(&shape, k, d), noise(&shape, k + 50, d));
                let f = jit(move |(a, b): (&Tensor, &Tensor)| product(&(a * 1.5), &(b * 0.5)));
                let (wide, high) = (&a * 1.5, &b * 0.5);
                let call = || match k % 2 {
                    0 => f.call((&a, &b)),
                    _ => with_mode(Mode::Eager, || product(&wide, &high)),
                };
                let first = numbers(&call());
                for round in 0..100 {
                    // Nothing is read meanwhile, so that launches of all threads follow each other.
                    let all: Vec<Tensor> = (0..20).map(|_| call()).collect();
                    eval(&all.iter().collect::<Vec<_>>()).unwrap_or_else(|e| panic!("{e}"));
                    for got in &all {
                        assert_eq!(numbers(got), first, "thread {k}, round {round}");
                    }
                }
            });
        }
    });
}

#[test]
fn memory_of_replays_is_counted_and_given_back() {
    let Some(d) = device() else { return };
    let f = jit(|x: &Tensor| turns(x, 3));
    let x = noise(&[256, 256], 1, &d);
    (0..5).for_each(|_| f.call(&x).eval().unwrap());
    let ((), stats) = stats_scope(|| {
        for _ in 0..10 {
            f.call(&x).eval().unwrap();
        }
    });
    let one = 256 * 256 * 4;
    assert_eq!(stats.live_bytes, 0);
    assert!(
        stats.peak_bytes >= one && stats.peak_bytes <= 4 * one,
        "{stats:?}"
    );
}

/// Results lend their memory to what dies before they are begun: a replay holds no more than a call without a graph.
#[test]
fn replays_hold_no_more_than_first_calls() {
    let Some(d) = device() else { return };
    let layers = |x: &Tensor, w: [&Tensor; 2]| {
        let first = x.matmul(w[0]).tanh();
        let second = first.matmul(w[1]).softmax(1);
        let third = second.matmul(w[0]).softmax(0);
        [third.matmul(w[1]).tanh(), third.sum(1)]
    };
    let f = jit(move |(x, v, w): (&Tensor, &Tensor, &Tensor)| layers(x, [v, w]));
    let (x, v, w) = (
        noise(&[1024, 512], 1, &d),
        noise(&[512, 768], 2, &d),
        noise(&[768, 512], 3, &d),
    );
    let call = || {
        let (results, stats) = stats_scope(|| {
            let results = f.call((&x, &v, &w));
            eval(&results).map(|()| results)
        });
        (results.unwrap_or_else(|e| panic!("{e}")), stats)
    };
    // Results are held, so that the next ones lie elsewhere.
    let calls: Vec<([Tensor; 2], Stats)> = (0..8).map(|_| call()).collect();
    let (first, once) = &calls[0];
    let want = first.clone().map(|y| numbers(&y));
    assert_eq!(calls[7].1.graph_launches, 1);
    for (results, stats) in &calls[1..] {
        assert!(
            stats.peak_bytes <= once.peak_bytes,
            "{stats:?} for {once:?}"
        );
        assert_eq!(results.clone().map(|y| numbers(&y)), want);
    }
}

#[test]
fn decisions_are_told() {
    let Some(d) = device() else { return };
    let x = noise(&[9, 9], 1, &d);
    let of = |make: &dyn Fn() -> Tensor| {
        (0..4).for_each(|_| make().eval().unwrap());
        let y = make();
        y.eval().unwrap();
        explain(&[&y]).graphs().to_vec()
    };
    let graphs = of(&|| turns(&x, 4));
    assert!(
        matches!(graphs[..], [(_, GraphDecision::Captured(1))]),
        "{graphs:?}"
    );
    let graphs = of(&|| &x + 1.0);
    let few = GraphDecision::Skipped(Uncaptured::TooFew(1));
    assert!(
        matches!(&graphs[..], [(_, why)] if *why == few),
        "{graphs:?}"
    );
}

/// `FERROTRACE_GRAPHS=0` in a child: the same numbers, and no graph.
#[test]
fn switched_off() {
    const CHILD: &str = "FERROTRACE_TEST_CHILD";
    let Some(d) = device() else { return };
    if std::env::var(CHILD).is_ok() {
        let f = jit(|x: &Tensor| turns(x, 5));
        let x = noise(&[33, 40], 1, &d);
        for _ in 0..6 {
            let (got, stats) = counted(|| f.call(&x));
            close(&got, &turns_of(&numbers(&x), 33, 5));
            assert_eq!((stats.graph_launches, stats.graphs_captured), (0, 0));
        }
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let child = std::process::Command::new(program)
        .args(["switched_off", "--exact", "--nocapture"])
        .env(CHILD, "1")
        .env("FERROTRACE_GRAPHS", "0")
        .output()
        .expect("runs");
    assert!(
        child.status.success(),
        "{}",
        String::from_utf8_lossy(&child.stderr)
    );
}

/// A recurrence over rows, whose rows of results are stacked: in binary64, as the reference.
fn recurrence_of(xs: &[f32], w: &[f32], n: usize, factor: f64) -> Vec<f64> {
    let mut h = vec![0.0; n];
    let rows = xs.chunks(n).flat_map(|x| {
        let next = |j: usize| {
            let sum: f64 = (0..n).map(|i| h[i] * w[i * n + j] as f64).sum();
            (sum * 0.1 * factor + x[j] as f64).tanh()
        };
        h = (0..n).map(next).collect();
        h.clone()
    });
    rows.collect()
}

fn recurrence(xs: &Tensor, w: &Tensor, factor: f64) -> (Tensor, Tensor) {
    let n = w.dims()[0];
    let start = Tensor::zeros([1, n], DType::F32, &xs.device());
    let step = |h: &Tensor, x: &Tensor| {
        let h = (h.matmul(w) * 0.1 * factor + x.unsqueeze(0)).tanh();
        (h.clone(), h.squeeze(0))
    };
    scan(step, &start, xs)
}

#[test]
fn a_loop_is_one_graph_with_what_is_around_it() {
    let Some(d) = device() else { return };
    let f = jit(|(xs, w): (&Tensor, &Tensor)| {
        let (last, all) = recurrence(&(xs * 2.0), w, 1.0);
        (last, all.mean_keepdim(0) + all)
    });
    let w = noise(&[16, 16], 5, &d);
    let mut held = Vec::new();
    for round in 0..9 {
        let xs = noise(&[12, 16], round, &d);
        let ((last, all), stats) = stats_scope(|| {
            let (last, all) = f.call((&xs, &w));
            eval([&last, &all]).unwrap_or_else(|e| panic!("{e}"));
            (last, all)
        });
        if round + 1 >= WARM {
            let (graphs, captured) = (stats.graph_launches, stats.graphs_captured);
            assert_eq!(
                (graphs, captured),
                (1, u64::from(round + 1 == WARM)),
                "round {round}"
            );
        }
        held.push((xs, last, all));
    }
    for (xs, last, all) in &held {
        let doubled: Vec<f32> = numbers(xs).iter().map(|x| x * 2.0).collect();
        let rows = recurrence_of(&doubled, &numbers(&w), 16, 1.0);
        close(&numbers(last), &rows[11 * 16..]);
        let mean = |j: usize| rows.iter().skip(j).step_by(16).sum::<f64>() / 12.0;
        let want: Vec<f64> = rows
            .iter()
            .enumerate()
            .map(|(i, v)| v + mean(i % 16))
            .collect();
        close(&numbers(all), &want);
    }
}

#[test]
fn gradients_through_loops_are_graphs_too() {
    let Some(d) = device() else { return };
    let f = jit(|(xs, w): (&Tensor, &Tensor)| {
        let w = w.detach().requires_grad();
        let (_, all) = recurrence(xs, &w, 1.0);
        grad(&all.square().sum(..), &[&w]).remove(0)
    });
    let (xs, w) = (noise(&[9, 8], 1, &d), noise(&[8, 8], 2, &d));
    let on_host = f.call((&xs.to_device(&Device::cpu()), &w.to_device(&Device::cpu())));
    let want: Vec<f64> = numbers(&on_host).iter().map(|&v| v as f64).collect();
    for round in 0..6 {
        let (got, stats) = counted(|| f.call((&xs, &w)));
        close(&got, &want);
        assert!(
            round < WARM || stats.graph_launches == 1,
            "round {round}: {stats:?}"
        );
    }
}

#[test]
fn numbers_of_loops_may_change() {
    let Some(d) = device() else { return };
    let f =
        jit(|(xs, w, factor): (&Tensor, &Tensor, f64)| recurrence(&(xs + 1.0), w, factor).1 * 3.0);
    let (xs, w) = (noise(&[5, 8], 1, &d), noise(&[8, 8], 2, &d));
    let moved: Vec<f32> = numbers(&xs).iter().map(|x| x + 1.0).collect();
    for round in 0..12 {
        let factor = 1.0 + round as f64 / 8.0;
        let (got, _) = counted(|| f.call((&xs, &w, factor)));
        let want = recurrence_of(&moved, &numbers(&w), 8, factor);
        close(&got, &want.iter().map(|v| v * 3.0).collect::<Vec<f64>>());
    }
}

#[test]
fn loops_that_no_graph_holds_run_step_by_step() {
    let Some(d) = device() else { return };
    let host = Device::cpu();
    let xs = noise(&[6, 8], 1, &d);
    let same = |f: &dyn Fn(&Tensor) -> Tensor| {
        let want: Vec<f64> = numbers(&f(&xs.to_device(&host)))
            .iter()
            .map(|&v| v as f64)
            .collect();
        (0..6).for_each(|_| close(&numbers(&f(&xs)), &want));
    };
    // The host reads how often a loop within it goes on, checks indices, and would make too large a graph.
    let inner = jit(|xs: &Tensor| {
        let step = |h: &Tensor, x: &Tensor| {
            let h = while_loop(|h| h.max(..).gt(1.0), |h| h * 0.5, &(h + x + 2.0));
            (h.clone(), h)
        };
        scan(step, &xs.select(0, 0), &(xs * 1.0)).1 + 1.0
    });
    same(&|xs| inner.call(xs));
    let indexed = jit(|xs: &Tensor| {
        let step = |h: &Tensor, x: &Tensor| {
            let h = h.index_select(0, &(x.abs() * 3.0).floor().to_dtype(DType::I64)) * 0.5 + x;
            (h.clone(), h)
        };
        scan(step, &xs.select(0, 0), &(xs * 1.0)).1 + 1.0
    });
    same(&|xs| indexed.call(xs));
    let long = jit(|xs: &Tensor| {
        let step = |h: &Tensor, x: &Tensor| ((h * 0.5 + x).sin(), h.mean(..));
        scan(step, &xs.select(0, 0), &xs.repeat(&[1000, 1])).0 + 1.0
    });
    same(&|xs| long.call(xs));
}

#[test]
fn loops_draw_new_numbers_at_each_call() {
    let Some(d) = device() else { return };
    let _alone = DRAWS.lock();
    let f = jit(|xs: &Tensor| {
        let step = |h: &Tensor, x: &Tensor| {
            let h = h + x.rand_like();
            (h.clone(), h)
        };
        scan(step, &xs.select(0, 0), xs).1
    });
    let draws = |device: &Device| {
        manual_seed(7);
        let xs = Tensor::zeros([4, 8], DType::F32, device);
        (0..6).map(|_| numbers(&f.call(&xs))).collect::<Vec<_>>()
    };
    let (on, host) = (draws(&d), draws(&Device::cpu()));
    for (on, host) in on.iter().zip(&host) {
        close(on, &host.iter().map(|&v| v as f64).collect::<Vec<f64>>());
    }
    assert!((1..on.len()).all(|i| on[i] != on[0]));
}
