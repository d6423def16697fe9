//! Kernels that compute an operand of a product panel by panel.

use super::{plan, run};
use crate::common::{filled, kept, noise};
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::schedule::Refusal;
use ferrotrace_jit::{Plan, Step};
use ferrotrace_kernels::ops::matmul::is_by_tiles;
use ferrotrace_kernels::{ArgMeta, Array};
use ferrotrace_runtime::{DType, Shape, stats_scope, with_threads};

/// `x · w` with the right operand made by `before`, as `%4`, of `%1: f32[k, n]` and `%2: f32[n]`; `tail` follows `%5`.
fn right(m: usize, k: usize, n: usize, before: &str, tail: &str) -> String {
    format!(
        "%0: f32[{m}, {k}] = input 0 [{k}, 1]
         %1: f32[{k}, {n}] = input 1 [{n}, 1]
         %2: f32[{n}] = input 2 [1]
         %3: f32[{k}, {n}] = {before}
         %4: f32[{m}, {n}] = matmul(%0, %3)
         {tail}"
    )
}

fn data(m: usize, k: usize, n: usize) -> [Array; 3] {
    [noise(&[m, k], 1), noise(&[k, n], 2), noise(&[n], 3)]
}

/// Products with a kernel before them.
fn fed(text: &str) -> usize {
    let plan = plan(text);
    let of = |step: &&Step| matches!(step, Step::Template(t) if t.before.is_some());
    plan.draft().steps.iter().filter(of).count()
}

// scheduler T-02: a scale of a weight is computed as the product reads it, with or without a kernel behind.
#[test]
fn an_operand_is_computed_as_it_is_read() {
    for (m, k, n) in [
        (2, 40, 300),
        (17, 333, 1000),
        (100, 64, 200),
        (5, 4000, 999),
    ] {
        let tails = [
            "return %4".to_owned(),
            format!("%5: f32[{m}, {n}] = tanh(%4)\n return %5"),
            format!("%5: f32[{m}, {n}] = tanh(%4)\n return %4 %5"),
        ];
        for tail in tails {
            let text = right(m, k, n, "mul(%1, %2)", &tail);
            assert_eq!(fed(&text), 1, "{m} {k} {n}");
            run(&text, &data(m, k, n), 1e-3);
        }
    }
}

// A kernel that follows one product panel by panel is not computed panel by panel for the next.
#[test]
fn a_kernel_between_products_belongs_to_one() {
    let (m, k, n, last) = (3000, 20, 30, 40);
    let text = format!(
        "%0: f32[{m}, {k}] = input 0 [{k}, 1]
         %1: f32[{k}, {n}] = input 1 [{n}, 1]
         %2: f32[{n}, {last}] = input 2 [{last}, 1]
         %3: f32[{m}, {n}] = matmul(%0, %1)
         %4: f32[{m}, {n}] = tanh(%3)
         %5: f32[{m}, {last}] = matmul(%4, %2)
         return %5"
    );
    let inputs = [noise(&[m, k], 1), noise(&[k, n], 2), noise(&[n, last], 3)];
    let refusals = plan(&text).draft().refusals.clone();
    assert_eq!((fed(&text), refusals.len()), (0, 1), "{refusals:?}");
    run(&text, &inputs, 1e-3);
}

// A transposed weight, as of a layer: its rows are the product's columns.
#[test]
fn transposed_weights_are_computed_row_by_row() {
    for (m, k, n) in [(3, 70, 400), (31, 500, 1111), (120, 33, 193)] {
        let text = format!(
            "%0: f32[{m}, {k}] = input 0 [{k}, 1]
             %1: bf16[{n}, {k}] = input 1 [{k}, 1]
             %2: f32[{n}] = input 2 [1]
             %3: f32[{n}, {k}] = to_dtype(%1)
             %4: f32[{k}, {n}] = permute(%3) {{order: [1, 0]}}
             %5: f32[{m}, {n}] = matmul(%0, %4)
             %6: f32[{m}, {n}] = add(%5, %2)
             return %6"
        );
        assert_eq!(fed(&text), 1, "{m} {k} {n}");
        let half = filled(&[n, k], |i| {
            half::bf16::from_f32((i * 7 % 23) as f32 / 8.0 - 1.0)
        });
        run(&text, &[noise(&[m, k], 1), half, noise(&[n], 3)], 1e-3);
    }
}

#[test]
fn left_operands_are_computed_by_rows() {
    for (m, k, n) in [(300, 40, 2), (1000, 129, 64), (700, 1000, 90)] {
        let text = format!(
            "%0: f32[{m}, {k}] = input 0 [{k}, 1]
             %1: f32[{k}, {n}] = input 1 [{n}, 1]
             %2: f32[{k}] = input 2 [1]
             %3: f32[{m}, {k}] = sub(%0, %2)
             %4: f32[{m}, {k}] = relu(%3)
             %5: f32[{m}, {n}] = matmul(%4, %1)
             %6: f32[{m}, {n}] = tanh(%5)
             return %6"
        );
        assert_eq!(fed(&text), 1, "{m} {k} {n}");
        run(
            &text,
            &[noise(&[m, k], 1), noise(&[k, n], 2), noise(&[k], 3)],
            1e-3,
        );
    }
}

// A batch on the left is more rows where it lies so; else the operand is computed once, for all of it.
#[test]
fn batches_share_a_computed_operand() {
    let (b, m, k, n) = (6, 20, 48, 300);
    let text = |strides: &str| {
        format!(
            "%0: f32[{b}, {m}, {k}] = input 0 {strides}
             %1: f32[{k}, {n}] = input 1 [{n}, 1]
             %2: f32[{n}] = input 2 [1]
             %3: f32[{k}, {n}] = mul(%1, %2)
             %4: f32[{b}, {m}, {n}] = matmul(%0, %3)
             return %4"
        )
    };
    let x = noise(&[b, m, k], 1);
    let rest = [noise(&[k, n], 2), noise(&[n], 3)];
    let dense = text(&format!("[{}, {k}, 1]", m * k));
    assert_eq!(fed(&dense), 1);
    run(&dense, &[x.clone(), rest[0].clone(), rest[1].clone()], 1e-3);
    let turned = noise(&[m, b, k], 1);
    let turned = turned.with_layout(turned.layout.permute(&[1, 0, 2]));
    let text = text(&format!("[{k}, {}, 1]", b * k));
    assert_eq!(fed(&text), 1);
    run(&text, &[turned, rest[0].clone(), rest[1].clone()], 1e-3);
}

// The same bits whatever the threads, and as if the operand were stored.
#[test]
fn bits_are_those_of_a_stored_operand() {
    let (m, k, n) = (9, 700, 1500);
    let text = right(
        m,
        k,
        n,
        "mul(%1, %2)",
        &format!("%5: f32[{m}, {n}] = exp(%4)\n return %5"),
    );
    let bits = |limits: &Policy, threads: usize| {
        let graph = super::read(&text);
        let plan = Plan::by(graph, limits).expect("a plan");
        with_threads(threads, || {
            let out = plan.run(&mut kept(&data(m, k, n)), &[]).expect("it runs");
            out[0].buffer.as_slice::<f32>().to_vec()
        })
    };
    let stored = Policy::from(Thresholds {
        prologue_short: 0,
        ..Thresholds::default()
    });
    let want = bits(&stored, 1);
    for threads in [1, 2, 3, 8] {
        assert!(
            bits(&Policy::default(), threads) == want,
            "{threads} threads"
        );
    }
}

// scheduler T-03, T-04: why not.
#[test]
fn refusals_have_reasons() {
    let (m, k, n) = (10, 80, 400);
    let case = |text: &str, why: Refusal| {
        let plan = plan(text);
        let refusals = &plan.draft().refusals;
        assert_eq!(fed(text), 0, "{text}");
        assert!(refusals.iter().any(|r| r.2 == why), "{why:?}: {refusals:?}");
    };
    let plain = |before: &str| right(m, k, n, before, "return %4");
    assert_eq!(fed(&plain("mul(%1, %2)")), 1);
    case(
        &right(m, k, n, "mul(%1, %2)", "return %3 %4"),
        Refusal::SeveralUses,
    );
    let tail = format!("%5: f32[{k}] = sum(%3) {{dims: [1], keepdim: false}}\n return %4 %5");
    let others = plan(&right(m, k, n, "exp(%1)", &tail));
    assert!(
        others
            .draft()
            .steps
            .iter()
            .all(|step| step.before().is_none())
    );
    // Two matrices for one.
    let two = format!(
        "%0: f32[{m}, {k}] = input 0 [{k}, 1]
         %1: f32[{k}, {n}] = input 1 [{n}, 1]
         %2: f32[{k}, {n}] = input 2 [{n}, 1]
         %3: f32[{k}, {n}] = add(%1, %2)
         %4: f32[{m}, {n}] = matmul(%0, %3)
         return %4"
    );
    case(&two, Refusal::ReadsMore);
    case(
        &right(1000, k, n, "mul(%1, %2)", "return %4"),
        Refusal::NotWorthwhile,
    );
    let many = right(200, k, n, "mul(%1, %2)", "return %4");
    let sizes = [[200, k], [k, n]].map(Shape::from);
    let metas = [0, 1].map(|i| ArgMeta::Tensor(&sizes[i], DType::F32));
    match is_by_tiles(&metas).expect("a product") {
        true => case(&many, Refusal::Tiles),
        false => assert_eq!(fed(&many), 1),
    }
    case(
        &right(1, k, n, "mul(%1, %2)", "return %4"),
        Refusal::NotWorthwhile,
    );
    let reduced = format!(
        "%0: f32[{m}, {k}] = input 0 [{k}, 1]
         %1: f32[{k}, {n}] = input 1 [{n}, 1]
         %2: f32[{k}, {n}] = softmax(%1) {{dim: 1}}
         %3: f32[{m}, {n}] = matmul(%0, %2)
         return %3"
    );
    case(&reduced, Refusal::SeveralUses);
}

// What is computed panel by panel needs the memory of each thread's panel, and is counted where it runs.
#[test]
fn a_computed_operand_takes_the_memory_of_panels() {
    with_threads(2, computed_by_two_threads);
}

fn computed_by_two_threads() {
    let (m, k, n) = (8, 1024, 2048);
    let text = right(m, k, n, "mul(%1, %2)", "return %4");
    let plan = plan(&text);
    let arrays = data(m, k, n);
    let (_, stats) = stats_scope(|| plan.run(&mut kept(&arrays), &[]).expect("it runs"));
    assert_eq!((stats.kernels_launched, stats.library_calls), (1, 1));
    assert!(stats.peak_bytes < 5 << 20, "{}", stats.peak_bytes);
    let explanation = plan.explain();
    assert!(
        explanation.peak_bytes() < 5 << 20,
        "{}",
        explanation.peak_bytes()
    );
    assert!(
        explanation
            .summary()
            .contains("before matmul %4, panel by panel")
    );
    assert_eq!(explanation.sources().len(), 1);
}

// An index out of range in a kernel before a product is the operation's error.
#[test]
fn a_fault_in_an_operand_names_its_line() {
    let text = "
        %0: f32[8, 90] = input 0 [90, 1]
        %1: f32[50, 300] = input 1 [300, 1]
        %2: i64[90] = input 2 [1]
        %3: f32[90, 300] = index(%1, %2) {axes: [0], at: 0}
        %4: f32[8, 300] = matmul(%0, %3)
        return %4";
    assert_eq!(fed(text), 1);
    let inputs = |bad: i64| {
        let rows = filled(&[90], |i| if i == 77 { bad } else { (i * 3 % 50) as i64 });
        [noise(&[8, 90], 1), noise(&[50, 300], 2), rows]
    };
    run(text, &inputs(49), 1e-4);
    let error = plan(text)
        .run(&mut kept(&inputs(50)), &[])
        .expect_err("out of range");
    let text = error.to_string();
    assert!(text.contains("50") && text.contains("index"), "{text}");
}
