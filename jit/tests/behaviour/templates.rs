//! Products that a generated kernel takes up panel by panel.

use super::{kernels, plan, run};
use crate::common::{dense, filled, kept, noise, values};
use ferrotrace_jit::schedule::{Mismatch, Refusal};
use ferrotrace_jit::target::Target;
use ferrotrace_jit::{Plan, PlanInput, Step};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{DType, stats_scope, with_threads};

/// Products taken up, and calls and kernels of their own.
fn steps(plan: &Plan) -> (usize, usize) {
    let of = |s: &&Step| matches!(s, Step::Template(_));
    let all = &plan.draft().steps;
    let templates = all.iter().filter(of).count();
    (templates, all.len() - templates)
}

fn layer(m: usize, k: usize, n: usize, tail: &str) -> String {
    format!(
        "%0: f32[{m}, {k}] = input 0 [{k}, 1]
         %1: f32[{k}, {n}] = input 1 [{n}, 1]
         %2: f32[{n}] = input 2 [1]
         %3: f32[{m}, {n}] = matmul(%0, %1)
         {tail}"
    )
}

fn gelu(m: usize, k: usize, n: usize) -> String {
    let tail = format!(
        "%4: f32[{m}, {n}] = add(%3, %2)
         %5: f32[{m}, {n}] = tanh(%4)
         return %5"
    );
    layer(m, k, n, &tail)
}

fn operands(m: usize, k: usize, n: usize) -> Vec<Array> {
    vec![noise(&[m, k], 1), noise(&[k, n], 2), noise(&[n], 3)]
}

// scheduler T-01, §21.24
#[test]
fn bias_and_activation_take_up_a_product() {
    // One panel, several of columns, several of both, ends that divide nothing, few columns and many rows.
    for (m, k, n) in [
        (3, 5, 9),
        (40, 30, 500),
        (200, 64, 1000),
        (1100, 33, 777),
        (5000, 40, 90),
        (700, 1100, 300),
        (20, 300, 9000),
        (2, 0, 11),
        (2, 1, 300),
    ] {
        let text = gelu(m, k, n);
        assert_eq!(steps(&plan(&text)), (1, 0), "{m}x{k}x{n}");
        let got = run(&text, &operands(m, k, n), 1e-4);
        // Against a sum in binary64.
        let [a, b, c] = [noise(&[m, k], 1), noise(&[k, n], 2), noise(&[n], 3)].map(|x| values(&x));
        let got = values(&got[0]);
        for at in (0..m * n).step_by(97) {
            let (i, j) = (at / n, at % n);
            let sum: f64 = (0..k).map(|x| a[i * k + x] * b[x * n + j]).sum();
            assert!((got[at] - (sum + c[j]).tanh()).abs() < 1e-4);
        }
    }
}

#[test]
fn results_do_not_depend_on_threads() {
    for (m, k, n) in [
        (200, 300, 1000),
        (1100, 600, 777),
        (64, 700, 600),
        (30, 20, 4000),
    ] {
        let (plan, operands) = (plan(&gelu(m, k, n)), operands(m, k, n));
        let bits = |threads| {
            let run = || plan.run(&mut kept(&operands), &[]).expect("it runs");
            let out = with_threads(threads, run);
            values(&out[0])
                .into_iter()
                .map(f64::to_bits)
                .collect::<Vec<_>>()
        };
        let one = bits(1);
        for threads in [2, 3, 8] {
            assert!(bits(threads) == one, "{m}x{k}x{n} on {threads} threads");
        }
    }
}

// A product with a kernel behind it has the bits of the product alone.
#[test]
fn the_product_has_the_bits_of_a_bare_one() {
    for (m, k, n) in [(300, 700, 1000), (64, 64, 64), (40, 900, 300)] {
        let negated = layer(m, k, n, &format!("%4: f32[{m}, {n}] = neg(%3)\n return %4"));
        let bare = layer(m, k, n, "return %3");
        let operands = operands(m, k, n);
        let of = |text: &str| {
            let out = plan(text).run(&mut kept(&operands), &[]).expect("it runs");
            values(&out[0])
        };
        let negative: Vec<f64> = of(&negated).iter().map(|x| -x).collect();
        assert!(negative == of(&bare), "{m}x{k}x{n}");
    }
}

// ir T45, scheduler B-07, B-19: a large result needs the scratch panels besides, a small one nothing, and the estimate
// says so.
#[test]
fn the_product_has_no_memory_of_its_own() {
    for (n, more) in [(256, 0), (2048, 2 << 20)] {
        let (m, k) = (n, 16);
        let plan = plan(&gelu(m, k, n));
        let inputs = operands(m, k, n);
        let (expected, stats) = stats_scope(|| {
            with_threads(2, || {
                plan.run(&mut kept(&inputs), &[]).expect("it runs");
                plan.draft().peak(&|_| false)
            })
        });
        let most = (m * n * 4 + more) as u64;
        assert!(
            stats.bytes_allocated <= most,
            "{} of {most}",
            stats.bytes_allocated
        );
        assert_eq!(stats.peak_bytes, expected, "{n}");
    }
}

// scheduler B-19: where every result is narrower than the product, or written over a dying residual, the product has
// panels of its own, of one thread or of several.
#[test]
fn panels_are_part_of_the_estimate() {
    let narrow = |m: usize, k: usize, n: usize| {
        let tail = format!(
            "%4: f32[{m}, {n}] = add(%3, %2)
             %5: bf16[{m}, {n}] = to_dtype(%4)
             return %5"
        );
        layer(m, k, n, &tail)
    };
    let residual = |m: usize, k: usize, n: usize| {
        let tail = format!(
            "%4: f32[{m}, {n}] = input 3 [{n}, 1]
             %5: f32[{m}, {n}] = add(%3, %4)
             return %5"
        );
        layer(m, k, n, &tail)
    };
    let batched = "%0: f32[6, 40, 30] = input 0 [1200, 30, 1]
        %1: f32[30, 50] = input 1 [50, 1]
        %2: f32[50] = input 2 [1]
        %3: f32[6, 40, 50] = matmul(%0, %1)
        %4: f32[6, 40, 50] = add(%3, %2)
        %5: bf16[6, 40, 50] = to_dtype(%4)
        return %5"
        .to_owned();
    let turned = "%0: f32[40, 6, 30] = input 0 [30, 1200, 1]
        %1: f32[30, 50] = input 1 [50, 1]
        %2: f32[50] = input 2 [1]
        %3: f32[40, 6, 50] = matmul(%0, %1)
        %4: f32[40, 6, 50] = add(%3, %2)
        %5: bf16[40, 6, 50] = to_dtype(%4)
        return %5"
        .to_owned();
    for (text, (m, n)) in [
        (narrow(8, 5, 9), (8, 9)),
        (narrow(700, 64, 900), (700, 900)),
        (residual(300, 64, 900), (300, 900)),
        (batched, (240, 50)),
        (turned, (240, 50)),
    ] {
        let plan = plan(&text);
        assert_eq!(steps(&plan), (1, 0), "{text}");
        for threads in [1, 2, 3] {
            let specs = plan.draft().graph.inputs().iter();
            let mut given: Vec<PlanInput> = specs
                .map(|input| PlanInput {
                    array: noise(&[input.layout.numel()], 1).with_layout(input.layout.clone()),
                    donated: false,
                })
                .collect();
            if let Some(residual) = given.get_mut(3) {
                residual.donated = true;
            }
            let (expected, stats) = stats_scope(|| {
                with_threads(threads, || {
                    let expected = plan.draft().peak(&|input| input == 3);
                    plan.run(&mut given, &[]).expect("it runs");
                    expected
                })
            });
            assert_eq!(stats.peak_bytes, expected, "{m}x{n} on {threads} threads");
            let result = if text.contains("bf16") { m * n * 2 } else { 0 };
            assert!(expected > result as u64, "{expected}");
        }
    }
}

/// A layer of bf16, as definitions record it.
fn layer_of_halves(m: usize, k: usize, n: usize) -> String {
    format!(
        "%0: bf16[{m}, {k}] = input 0 [{k}, 1]
         %1: bf16[{n}, {k}] = input 1 [{k}, 1]
         %2: bf16[{n}] = input 2 [1]
         %3: bf16[{m}, {n}] = linear(%0, %1, %2) {{bias: true}}
         %4: bf16[{m}, {n}] = silu(%3)
         return %4"
    )
}

/// Whole numbers over 64, so that sums are exact in any order.
fn halves(shape: &[usize], seed: usize) -> Array {
    let number = |i: usize| ((i * 7 + seed) % 23) as f32 - 11.0;
    filled(shape, |i| half::bf16::from_f32(number(i) / 64.0))
}

// By tiles where the machine has them, without copies of operands in binary32; else of casts.
#[test]
fn products_of_halves_are_taken_up() {
    for (m, k, n) in [
        (3, 40, 500),
        (40, 64, 1300),
        (1100, 100, 777),
        (600, 2100, 90),
    ] {
        let text = layer_of_halves(m, k, n);
        let arrays = [halves(&[m, k], 1), halves(&[n, k], 2), halves(&[n], 3)];
        let plan = plan(&text);
        let kernels = usize::from(!Target::host().tiles) * 2;
        assert!(
            steps(&plan).0 == 1 && steps(&plan).1 <= kernels,
            "{m} {k} {n}"
        );
        let of = |threads| with_threads(threads, || values(&run(&text, &arrays, 0.2)[0]));
        let got = of(1);
        assert_eq!(got, of(3), "{m} {k} {n}");
        let [a, b, c] = [0, 1, 2].map(|i: usize| values(&arrays[i]));
        for (i, j) in [(0, 0), (m / 2, n - 1), (m - 1, n / 2)] {
            let sum: f64 = (0..k).map(|l| a[i * k + l] * b[j * k + l]).sum();
            let x = sum + c[j];
            let want = x / (1.0 + (-x).exp());
            assert!(
                (got[i * n + j] - want).abs() <= want.abs() / 100.0 + 1e-3,
                "{m} {k} {n}"
            );
        }
    }
}

// What a product by tiles packs is told, and so are panels.
#[test]
fn packed_operands_are_part_of_the_estimate() {
    for (m, k, n) in [(200, 64, 300), (700, 64, 900)] {
        let product = format!(
            "%0: bf16[{m}, {k}] = input 0 [{k}, 1]
             %1: bf16[{k}, {n}] = input 1 [{n}, 1]
             %2: bf16[{m}, {n}] = matmul(%0, %1)
             return %2"
        );
        let single = product.replace("bf16", "f32");
        for text in [layer_of_halves(m, k, n), product, single] {
            let plan = plan(&text);
            if !Target::host().tiles {
                continue;
            }
            for threads in [1, 2, 3] {
                let specs = plan.draft().graph.inputs().iter();
                let mut given: Vec<PlanInput> = specs
                    .map(|input| PlanInput {
                        array: match input.dtype {
                            DType::BF16 => halves(input.layout.shape(), 1),
                            _ => filled(input.layout.shape(), |i| (i % 7) as f32),
                        },
                        donated: false,
                    })
                    .collect();
                let (expected, stats) = stats_scope(|| {
                    with_threads(threads, || {
                        let expected = plan.draft().peak(&|_| false);
                        plan.run(&mut given, &[]).expect("it runs");
                        expected
                    })
                });
                assert_eq!(
                    stats.peak_bytes, expected,
                    "{m} {k} {n} on {threads} threads"
                );
            }
        }
    }
}

#[test]
fn a_cast_and_several_results_take_up_a_product() {
    let text = layer(
        300,
        20,
        1000,
        "%4: f32[300, 1000] = add(%3, %2)
         %5: f32[300, 1000] = relu(%4)
         %6: bf16[300, 1000] = to_dtype(%5)
         return %6 %4",
    );
    assert_eq!(steps(&plan(&text)), (1, 0));
    run(&text, &operands(300, 20, 1000), 0.3);
}

// The product itself is asked for too: it is stored, and taken up from there.
#[test]
fn a_product_may_be_kept() {
    let text = layer(
        300,
        20,
        1000,
        "%4: f32[300, 1000] = tanh(%3)
         return %4 %3",
    );
    assert_eq!(steps(&plan(&text)), (1, 0));
    run(&text, &operands(300, 20, 1000), 1e-4);
}

// The residual is an operand of the product too: it must not be overwritten while panels need it.
#[test]
fn operands_live_until_the_last_panel() {
    let text = "
        %0: f32[600, 600] = input 0 [600, 1]
        %1: f32[600, 600] = input 1 [600, 1]
        %2: f32[600, 600] = matmul(%0, %1)
        %3: f32[600, 600] = add(%2, %0)
        %4: f32[600, 600] = mul(%3, %1)
        return %4";
    let plan = plan(text);
    assert_eq!(steps(&plan), (1, 0));
    let data = [noise(&[600, 600], 4), noise(&[600, 600], 5)];
    let want = run(text, &data, 1e-2);
    let mut given = kept(&data.map(|x| crate::common::copied(&x)));
    given.iter_mut().for_each(|i| i.donated = true);
    let got = plan.run(&mut given, &[]).expect("it runs");
    assert!(values(&got[0]) == values(&want[0]));
}

#[test]
fn a_dying_residual_is_overwritten() {
    let text = layer(
        300,
        20,
        3000,
        "%4: f32[300, 3000] = input 3 [3000, 1]
         %5: f32[300, 3000] = add(%3, %2)
         %6: f32[300, 3000] = add(%5, %4)
         return %6",
    );
    let mut data = operands(300, 20, 3000);
    data.push(noise(&[300, 3000], 9));
    let want = run(&text, &data, 1e-4);
    let mut given = kept(&data.iter().map(crate::common::copied).collect::<Vec<_>>());
    data.clear();
    given[3].donated = true;
    let plan = plan(&text);
    let (got, stats) = stats_scope(|| with_threads(2, || plan.run(&mut given, &[])));
    assert_eq!(stats.in_place_writes, 1);
    assert!(values(&got.expect("it runs")[0]) == values(&want[0]));
}

#[test]
fn batches_take_up_panels_of_matrices() {
    for (b, m, k, n) in [
        (100, 16, 16, 16),
        (3, 300, 20, 700),
        (7, 1, 9, 40),
        (5, 33, 2, 9),
    ] {
        let text = format!(
            "%0: f32[{b}, {m}, {k}] = input 0 [{}, {k}, 1]
             %1: f32[{b}, {n}, {k}] = input 1 [{}, {k}, 1]
             %2: f32[{b}, {k}, {n}] = permute(%1) {{order: [0, 2, 1]}}
             %3: f32[{b}, {m}, {n}] = matmul(%0, %2)
             %4: f32[{b}, 1, {n}] = input 2 [{n}, 0, 1]
             %5: f32[{b}, {m}, {n}] = add(%3, %4)
             %6: f32[{b}, {m}, {n}] = tanh(%5)
             return %6",
            m * k,
            n * k
        );
        assert_eq!(steps(&plan(&text)), (1, 0), "{b} of {m}x{k}x{n}");
        let data = [
            noise(&[b, m, k], 1),
            noise(&[b, n, k], 2),
            noise(&[b, 1, n], 3),
        ];
        run(&text, &data, 1e-4);
    }
}

// codegen A10.2: what reduces or reads across is no epilogue, with a reason.
#[test]
fn refusals_have_reasons() {
    let case = |tail: &str, why: Refusal| {
        let plan = plan(&layer(64, 32, 64, tail));
        assert_eq!(steps(&plan).0, 0, "{tail}");
        let refusals = plan.draft().refusals.clone();
        assert!(refusals.iter().any(|r| r.2 == why), "{why:?}: {refusals:?}");
    };
    case(
        "%4: f32[64] = sum(%3) {dims: [1], keepdim: false}\n return %4",
        Refusal::AcrossPanels,
    );
    case(
        "%4: f32[64, 64] = permute(%3) {order: [1, 0]}
         %5: f32[64, 64] = input 3 [64, 1]
         %6: f32[64, 64] = add(%5, %4)\n return %6",
        Refusal::IndexMismatch(Mismatch::Order),
    );
    let vector = "
        %0: f32[1, 32] = input 0 [32, 1]
        %1: f32[32, 64] = input 1 [64, 1]
        %2: f32[1, 64] = matmul(%0, %1)
        %3: f32[1, 64] = tanh(%2)
        return %3";
    assert!(
        plan(vector)
            .draft()
            .refusals
            .iter()
            .any(|r| r.2 == Refusal::NoPanels)
    );
}

// scheduler L-21: what lies between must run first.
#[test]
fn nothing_may_lie_between() {
    let text = "
        %0: f32[64, 64] = input 0 [64, 1]
        %1: f32[64, 64] = matmul(%0, %0)
        %2: f32[64, 64] = matmul(%1, %0)
        %3: f32[64, 64] = add(%1, %2)
        %4: f32[64, 64] = tanh(%3)
        return %4";
    let plan = plan(text);
    assert_eq!(steps(&plan), (1, 1));
    let between = |r: &(_, _, Refusal)| r.2 == Refusal::NodeBetween;
    assert!(plan.draft().refusals.iter().any(between));
    run(text, &[noise(&[64, 64], 1)], 0.2);
}

// scheduler V-14
#[test]
fn explanations_name_the_product() {
    let explanation = plan(&gelu(64, 32, 64)).explain();
    assert!(explanation.calls().is_empty());
    assert!(explanation.fused_nodes()[0].product.is_some());
    assert!(explanation.summary().contains("after matmul"));
}

#[test]
fn sizes_share_one_kernel() {
    let source = |m, n| plan(&gelu(m, 8, n)).explain().sources()[0].clone();
    assert_eq!(source(30, 70), source(3000, 700));
    assert_eq!(kernels(&gelu(30, 8, 70)), 1);
}

#[test]
fn a_fault_in_an_epilogue_names_its_line() {
    let text = "
        %0: f32[64, 8] = input 0 [8, 1]
        %1: f32[8, 64] = input 1 [64, 1]
        %2: i64[64, 64] = input 2 [64, 1]
        %3: f32[10] = input 3 [1]
        %4: f32[64, 64] = matmul(%0, %1)
        %5: f32[64, 64] = index(%3, %2) {axes: [0], at: 0}
        %6: f32[64, 64] = mul(%4, %5)
        return %6";
    let plan = plan(text);
    assert_eq!(steps(&plan), (1, 0));
    let indices: Array = filled::<i64>(&[64, 64], |i| if i == 3000 { 10 } else { (i % 10) as i64 });
    let table = dense(&[10], &[1.0f32; 10]);
    let data = [noise(&[64, 8], 1), noise(&[8, 64], 2), indices, table];
    let error = plan
        .run(&mut kept(&data), &[])
        .expect_err("an index out of range");
    assert!(error.to_string().contains("10"), "{error}");
}
