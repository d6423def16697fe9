//! Memory of runs: reuse, donation, lifetimes.

use crate::common::{copied, dense, difference, filled, kept, noise, values};
use crate::{plan, read, run};
use ferrotrace_jit::body::Source;
use ferrotrace_jit::emit::Pointer;
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::schedule::Refusal;
use ferrotrace_jit::{Draft, Plan, PlanInput, Step, run_each, run_eagerly};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{stats_scope, with_threads};
use std::collections::HashSet;

pub(crate) fn donated(array: Array) -> Vec<PlanInput> {
    vec![PlanInput {
        array,
        donated: true,
    }]
}

const INCREMENT: &str = "
    %0: f32[1000] = input 0 [1]
    %1: f32[1000] = add(%0, 1.0)
    return %1";

// ir T45, codegen D T60
#[test]
fn a_donated_input_is_written_in_place() {
    let plan = plan(INCREMENT);
    let x = noise(&[1000], 1);
    let want: Vec<f64> = values(&x)
        .iter()
        .map(|v| (*v as f32 + 1.0) as f64)
        .collect();
    let (place, mut inputs) = (x.buffer.as_ptr(), donated(x));
    let (y, stats) = stats_scope(|| plan.run(&mut inputs, &[]).expect("it runs"));
    assert_eq!((y[0].buffer.as_ptr(), stats.in_place_writes), (place, 1));
    assert_eq!(values(&y[0]), want);
}

#[test]
fn a_shared_or_kept_input_is_never_written() {
    let plan = plan(INCREMENT);
    let x = noise(&[1000], 2);
    let before = values(&x);
    let (y, stats) = stats_scope(|| {
        plan.run(&mut kept(std::slice::from_ref(&x)), &[])
            .expect("it runs")
    });
    assert!(!y[0].buffer.same(&x.buffer) && stats.in_place_writes == 0);
    // Donated, but another handle holds the buffer.
    let y = plan.run(&mut donated(x.clone()), &[]).expect("it runs");
    assert!(!y[0].buffer.same(&x.buffer));
    assert_eq!(values(&x), before);
}

/// Where a NaN comes first is searched for after the loop: what it is computed from is still there.
#[test]
fn the_operand_of_a_position_is_not_overwritten_before_a_nan_is_found() {
    let text = "
        %0: f64[17] = input 0 [1]
        %1: f64[17] = log(%0)
        %2: f64[17] = abs(%0)
        %3: i64[] = argmax(%1) {dims: [0], keepdim: false}
        return %2 %3";
    let mut data = [2.0; 17];
    (data[0], data[3]) = (-1.0, 3.0);
    let y = plan(text)
        .run(&mut donated(dense(&[17], &data)), &[])
        .expect("it runs");
    assert_eq!(values(&y[1]), [0.0]);
    assert_eq!(values(&y[0])[0], 1.0);
}

// scheduler §21.21, §21.22; codegen D T40
#[test]
fn other_elements_sizes_and_dtypes_rule_out_writing_in_place() {
    for text in [
        // Another element is read later.
        "%0: f32[1000] = input 0 [1]
         %1: f32[1000] = roll(%0) {shift: 1, dim: 0}
         %2: f32[1000] = add(%0, %1)
         return %2",
        "%0: f32[20, 50] = input 0 [50, 1]
         %1: f32[50] = select(%0) {dim: 0, index: 0}
         %2: f32[20, 50] = add(%0, %1)
         return %2",
        // Reduced before it is written: the loop that stores reads it again.
        "%0: f32[400, 400] = input 0 [400, 1]
         %1: f32[400, 400] = permute(%0) {order: [1, 0]}
         %2: f32[400, 400] = add(%0, %1)
         return %2",
        // Another size of element.
        "%0: f32[1000] = input 0 [1]
         %1: f64[1000] = to_dtype(%0)
         return %1",
    ] {
        let plan = plan(text);
        let shape = plan.draft().graph.inputs()[0].layout.shape().to_vec();
        let x = noise(&shape, 3);
        let want = run(text, &[copied(&x)], 0.0);
        let got = plan.run(&mut donated(x), &[]).expect("it runs");
        assert_eq!(values(&got[0]), values(&want[0]), "{text}");
    }
}

// Softmax reads its input in three loops and may still be written over it.
#[test]
fn normalisations_in_place_are_right() {
    for name in ["softmax(%0) {dim: 1}", "softmax(%0) {dim: 0}"] {
        let text =
            format!("%0: f32[40, 300] = input 0 [300, 1]\n%1: f32[40, 300] = {name}\nreturn %1");
        let x = noise(&[40, 300], 4);
        let want = run(&text, &[copied(&x)], 1e-6);
        let got = plan(&text).run(&mut donated(x), &[]).expect("it runs");
        assert_eq!(values(&got[0]), values(&want[0]), "{name}");
    }
}

#[test]
fn an_offset_window_is_not_taken_over() {
    let base = noise(&[1001], 5);
    let layout = ferrotrace_runtime::Layout::new([1000].into(), [1isize].into_iter().collect(), 1);
    let x = base.with_layout(layout);
    let want: Vec<f64> = values(&x)
        .iter()
        .map(|v| (*v as f32 + 1.0) as f64)
        .collect();
    drop(base);
    let y = plan(INCREMENT).run(&mut donated(x), &[]).expect("it runs");
    assert_eq!(values(&y[0]), want);
}

/// Most nodes whose memory is held at once.
fn most_held(text: &str) -> usize {
    let plan = plan(text);
    let draft = plan.draft();
    let mut held: HashSet<Source> = HashSet::new();
    let mut most = 0;
    for (step, frees) in draft.steps.iter().zip(&draft.frees) {
        match step {
            Step::Call(call) => {
                held.insert(Source::Node(call.node));
            }
            Step::Template(t) if t.stored => {
                held.insert(Source::Node(t.call.node));
            }
            _ => {}
        }
        if let Some(kernel) = step.kernel() {
            held.extend(kernel.pointers.iter().filter_map(|p| match p {
                Pointer::Write(v) => Some(Source::Node(*v)),
                Pointer::Read(_) => None,
            }));
        }
        most = most.max(held.len());
        for source in frees {
            held.remove(source);
        }
    }
    most
}

// codegen D T41, scheduler §21.20
#[test]
fn a_chain_of_calls_holds_two_temporaries() {
    let mut text = String::from("%0: f32[16, 16] = input 0 [16, 1]\n");
    for i in (1..50).step_by(2) {
        text += &format!("%{i}: f32[16, 16] = matmul(%{}, %0)\n", i - 1);
        text += &format!("%{}: f32[16, 16] = tanh(%{i})\n", i + 1);
    }
    text += "return %50";
    assert!(most_held(&text) <= 2);
    run(
        &text,
        &[filled::<f32>(&[16, 16], |i| (i % 7) as f32 / 20.0)],
        1e-4,
    );
}

// scheduler §21.18
#[test]
fn outputs_that_nobody_wants_have_no_memory() {
    let text = "
        %0: f32[16, 16] = input 0 [16, 1]
        %1: f32[16, 16] = exp(%0)
        %2: f32[16] = sum(%1) {dims: [1], keepdim: false}
        %3: f32[16] = max(%1) {dims: [1], keepdim: false}
        return %2";
    assert_eq!(most_held(text), 1);
}

// codegen D T57
#[test]
fn an_output_may_be_an_input_or_come_twice() {
    let text = "
        %0: f32[3] = input 0 [1]
        %1: f32[3] = neg(%0)
        return %0 %1 %1 %0";
    let x = dense::<f32>(&[3], &[1.0, -2.0, 3.0]);
    let y = run(text, std::slice::from_ref(&x), 0.0);
    assert!(
        y[0].buffer.same(&x.buffer)
            && y[3].buffer.same(&x.buffer)
            && y[1].buffer.same(&y[2].buffer)
    );
}

// codegen D T57: a donated input that is also an output is not overwritten.
#[test]
fn a_donated_input_that_is_wanted_survives() {
    let text = "
        %0: f32[3] = input 0 [1]
        %1: f32[3] = neg(%0)
        return %1 %0";
    let x = dense::<f32>(&[3], &[1.0, -2.0, 3.0]);
    let y = plan(text).run(&mut donated(x), &[]).expect("it runs");
    assert_eq!(
        (values(&y[0]), values(&y[1])),
        (vec![-1.0, 2.0, -3.0], vec![1.0, -2.0, 3.0])
    );
}

// Scores of 2,048 by 2,048 for each of four heads would take 64 MiB.
#[test]
fn attention_never_holds_the_scores() {
    let text = "%0: f32[4, 2048, 16] = input 0 [32768, 16, 1]
        %1: f32[4, 2048, 16] = scaled_dot_product_attention(%0, %0, %0) {mask: false, causal: true, scale: NaN}
        return %1";
    let plan = plan(text);
    let explanation = plan.explain();
    assert_eq!(
        (explanation.fused_nodes().len(), explanation.calls().len()),
        (0, 1)
    );
    let x = noise(&[4, 2048, 16], 3);
    let (result, stats) = stats_scope(|| plan.run(&mut kept(std::slice::from_ref(&x)), &[]));
    result.expect("it runs");
    assert!(stats.peak_bytes <= 1 << 20, "{}", stats.peak_bytes);
}

/// The peak that a run measures, which must be the estimated one.
fn peak(text: &str, arrays: &[Array]) -> u64 {
    let plan = plan(text);
    let (result, stats) = stats_scope(|| plan.run(&mut kept(arrays), &[]));
    result.expect("it runs");
    assert_eq!(plan.draft().peak(&|_| false), stats.peak_bytes, "{text}");
    stats.peak_bytes
}

// scheduler B-15: four products recorded before the sums that read them.
#[test]
fn wide_branches_run_one_after_another() {
    let mut text = String::from("%0: f32[128, 128] = input 0 [128, 1]\n");
    for i in 1..5 {
        text += &format!("%{i}: f32[128, 128] = matmul(%{}, %0)\n", i - 1);
    }
    for i in 5..9 {
        text += &format!(
            "%{i}: f32[128] = sum(%{}) {{dims: [1], keepdim: false}}\n",
            i - 4
        );
    }
    text += "return %5 %6 %7 %8";
    let x = filled::<f32>(&[128, 128], |i| (i % 7) as f32 / 64.0);
    let (wide, narrow) = (4 * 128 * 128, 4 * 128);
    let held = peak(&text, std::slice::from_ref(&x));
    assert!(held <= 2 * wide + 4 * narrow, "{held}");
    run(&text, &[x], 1e-2);
}

#[test]
fn the_estimate_is_what_runs_hold() {
    let x = noise(&[64, 64], 6);
    for (text, buffers) in [
        // One result, written in place of the product.
        (
            "%0: f32[64, 64] = input 0 [64, 1]
          %1: f32[64, 64] = matmul(%0, %0)
          %2: f32[64, 64] = tanh(%1)
          return %2",
            1,
        ),
        // The product is read again at other elements.
        (
            "%0: f32[64, 64] = input 0 [64, 1]
          %1: f32[64, 64] = matmul(%0, %0)
          %2: f32[64, 64] = permute(%1) {order: [1, 0]}
          %3: f32[64, 64] = add(%1, %2)
          return %3",
            2,
        ),
        // Both are wanted.
        (
            "%0: f32[64, 64] = input 0 [64, 1]
          %1: f32[64, 64] = matmul(%0, %0)
          %2: f32[64, 64] = tanh(%1)
          return %1 %2",
            2,
        ),
    ] {
        assert_eq!(peak(text, std::slice::from_ref(&x)), buffers * 4 * 64 * 64);
    }
}

/// Two sums over the rows of products that share a vector: one needs `n` rows at once, both twice as many.
fn two_sums(n: usize) -> String {
    format!(
        "%0: f32[{n}, 256] = input 0 [256, 1]
         %1: f32[256, 256] = input 1 [256, 1]
         %2: f32[256, 256] = input 2 [256, 1]
         %3: f32[256] = input 3 [1]
         %4: f32[{n}, 256] = matmul(%0, %1)
         %5: f32[{n}, 256] = mul(%4, %3)
         %6: f32[{n}] = sum(%5) {{dims: [1], keepdim: false}}
         %7: f32[{n}, 256] = matmul(%0, %2)
         %8: f32[{n}, 256] = mul(%7, %3)
         %9: f32[{n}] = max(%8) {{dims: [1], keepdim: false}}
         return %6 %9"
    )
}

// scheduler §21.33, L-15, B-12
#[test]
fn kernels_that_would_hold_twice_as_much_stay_apart() {
    let willing = Policy::from(Thresholds {
        veto_factor: u64::MAX,
        ..Thresholds::default()
    });
    // Fusing saves one reading of the vector, 1 KiB; each product has 32 times as much at 32 rows, just allowed.
    let refused = |n: usize| {
        let apart = Draft::of(read(&two_sums(n)), &Policy::default()).expect("a draft");
        let one = Draft::of(read(&two_sums(n)), &willing).expect("a draft");
        assert_eq!(one.steps.len(), 3);
        let why: Vec<Refusal> = apart.refusals.iter().map(|pair| pair.2).collect();
        let vetoed = why.contains(&Refusal::PeakMemory);
        assert_eq!(apart.steps.len(), 3 + usize::from(vetoed));
        let (apart, one) = (apart.peak(&|_| false), one.peak(&|_| false));
        if vetoed {
            // One product and the two sums.
            assert_eq!(apart, 4 * 256 * n as u64 + 8 * n as u64);
            assert!(one >= 2 * 4 * 256 * n as u64);
        }
        vetoed
    };
    assert_eq!([32, 64, 65, 512].map(refused), [false, false, true, true]);
    run(
        &two_sums(65),
        &[
            noise(&[65, 256], 1),
            noise(&[256, 256], 2),
            noise(&[256, 256], 3),
            noise(&[256], 4),
        ],
        1e-1,
    );
}

// The sums of what four products give are added: not all four exist at once.
#[test]
fn sums_of_large_values_are_not_one_kernel() {
    let n = 256;
    let mut text = String::new();
    for i in 0..4 {
        text += &format!("%{i}: f32[{n}, {n}] = input {i} [{n}, 1]\n");
    }
    for i in 4..8 {
        text += &format!("%{i}: f32[{n}, {n}] = matmul(%{}, %0)\n", i - 4);
    }
    for i in 8..12 {
        text += &format!(
            "%{i}: f32[{n}] = sum(%{}) {{dims: [1], keepdim: false}}\n",
            i - 4
        );
    }
    text += &format!("%12: f32[{n}] = sub(%8, %9)\n%13: f32[{n}] = sub(%10, %11)\n");
    text += &format!("%14: f32[{n}] = sub(%12, %13)\nreturn %14");
    let inputs = [1, 2, 3, 4].map(|seed| noise(&[n, n], seed));
    let held = peak(&text, &inputs);
    assert!(held <= (n * n + 5 * n) as u64 * 4, "{held}");
    run(&text, &inputs, 1e-1);
}

// A row of a product, scaled, is cheap to compute again, but the product would be held until then.
#[test]
fn plans_hold_no_more_than_operations_one_by_one() {
    let n = 256;
    let text = format!(
        "%0: f32[{n}, {n}] = input 0 [{n}, 1]
         %1: f32[{n}, {n}] = matmul(%0, %0)
         %2: f32[1, {n}] = narrow(%1) {{dim: 0, start: 3, len: 1}}
         %3: f32[1, {n}] = mul(%2, 2.0)
         %4: f32[{n}, {n}] = add(%0, %3)
         %5: f32[{n}, {n}] = matmul(%4, %4)
         %6: f32[{n}, {n}] = matmul(%5, %5)
         %7: f32[{n}, {n}] = sort(%6) {{dim: 0, descending: false}}
         %8: f32[{n}, {n}] = add(%7, %3)
         return %8"
    );
    let x = filled::<f32>(&[n, n], |i| (i * 7 % 13) as f32 / 64.0);
    let matrix = (4 * n * n) as u64;
    let free = Draft::of(read(&text), &unlimited()).expect("a draft");
    let bound = Draft::of(read(&text), &Policy::default()).expect("a draft");
    // A product, what is computed of it, and the first product: one by one two matrices and a row.
    assert_eq!(free.peak(&|_| false), 3 * matrix);
    let row = 4 * n as u64;
    assert_eq!(bound.peak(&|_| false), 2 * matrix + row);
    run(&text, &[x], 1e-3);
}

// Where nothing holds less than the fused plan it stays.
#[test]
fn plans_that_hold_less_stay_fused() {
    let text = "%0: f32[512, 512] = input 0 [512, 1]
         %1: f32[512, 512] = exp(%0)
         %2: f32[512, 512] = add(%1, %0)
         %3: f32[512] = sum(%2) {dims: [1], keepdim: false}
         return %3";
    let draft = Draft::of(read(text), &Policy::default()).expect("a draft");
    assert_eq!((draft.steps.len(), draft.peak(&|_| false)), (1, 4 * 512));
}

// A value stored once for each column of a wider kernel is not written over what that kernel reads at every column.
#[test]
fn a_store_that_a_loop_repeats_is_not_in_place() {
    let text = "
        %0: f32[40, 1] = input 0 [1, 1]
        %1: f32[40, 52] = input 1 [52, 1]
        %2: f32[40, 1] = tanh(%0)
        %3: f32[40, 52] = mul(%2, %1)
        %4: f32[] = sum(%3) {dims: [0, 1], keepdim: false}
        return %2 %4";
    let graph = read(text);
    let (x, y) = (noise(&[40, 1], 1), noise(&[40, 52], 2));
    let want = run_eagerly(&graph, &[x.clone(), y.clone()], &[]).expect("it runs eagerly");
    let plan = Plan::of(graph).expect("it compiles");
    let mut inputs: Vec<PlanInput> = [&x, &y]
        .into_iter()
        .flat_map(|a| donated(copied(a)))
        .collect();
    let got = plan.run(&mut inputs, &[]).expect("it runs");
    for (g, w) in got.iter().zip(&want) {
        assert_eq!(difference(g, w, 1e-4, false), None, "{}", plan.explain());
    }
}

// ir B9: each layer adds its product to a running sum. Computed again for every later user, it would keep all products;
// stored where it ends two results, it keeps none, and no layer needs more than its kernel and its product.
#[test]
fn a_running_sum_of_products_is_stored() {
    let layers = 6;
    let mut text = "%0: f32[64, 512] = input 0 [512, 1]
        %1: f32[512, 512] = input 1 [512, 1]\n"
        .to_owned();
    let mut x = 0;
    for layer in 0..layers {
        let [a, b, c, d] = [2, 3, 4, 5].map(|i| i + 4 * layer);
        text.push_str(&format!(
            "%{a}: f32[64, 1] = mean(%{x}) {{dims: [1], keepdim: true}}
             %{b}: f32[64, 512] = sub(%{x}, %{a})
             %{c}: f32[64, 512] = matmul(%{b}, %1)
             %{d}: f32[64, 512] = add(%{x}, %{c})\n"
        ));
        x = d;
    }
    text.push_str(&format!("return %{x}"));
    let draft = Draft::of(read(&text), &Policy::default()).expect("it is planned");
    let calls = draft.steps.iter().filter(|step| step.call().is_some());
    assert_eq!((calls.count(), draft.steps.len()), (layers, 2 * layers));
    // The sum so far, its normalised form and the product. Every thread has panels of its own.
    let peak = with_threads(2, || draft.peak(&|_| false));
    assert!(peak <= 3 * 64 * 512 * 4, "{peak}");
    let weights = filled::<f32>(&[512, 512], |i| ((i * 37 % 101) as f32 - 50.0) / 2000.0);
    run(&text, &[noise(&[64, 512], 1), weights], 1e-3);
}

// Run operator by operator, an input that nobody else holds goes after its last use.
#[test]
fn inputs_given_to_an_eager_run_go_after_their_last_use() {
    let text = "
        %0: f32[65536] = input 0 [1]
        %1: f32[65536] = input 1 [1]
        %2: f32[65536] = input 2 [1]
        %3: f32[65536] = input 3 [1]
        %4: f32[65536] = exp(%0)
        %5: f32[65536] = exp(%1)
        %6: f32[65536] = exp(%2)
        %7: f32[65536] = add(%0, %3)
        return %4 %5 %6 %7";
    let (graph, bytes) = (read(text), 4 * 65_536);
    let inputs: Vec<Array> = (0..4).map(|seed| noise(&[65_536], seed)).collect();
    let given = inputs.iter().map(copied).map(Ok).collect();
    let (got, released) = stats_scope(|| run_each(&graph, given, &[]));
    let (want, held) = stats_scope(|| run_eagerly(&graph, &inputs, &[]));
    // The first two results beside all inputs; those of the second and third go then.
    assert!(
        released.peak_bytes <= 2 * bytes,
        "{} bytes",
        released.peak_bytes
    );
    assert!(held.peak_bytes >= 4 * bytes, "{} bytes", held.peak_bytes);
    let want = want.expect("it runs");
    for (g, w) in got.into_iter().zip(&want) {
        let g = g.expect("it runs");
        assert_eq!(difference(&g, w, 0.0, false), None);
    }
}

/// Kernels of a plan, its peak, and that of the operations one by one as a run measures it.
fn kernels_and_peaks(text: &str, limits: &Policy) -> (usize, u64, u64) {
    let graph = read(text);
    let arrays: Vec<Array> = graph
        .inputs()
        .iter()
        .map(|input| noise(input.layout.shape(), 3))
        .collect();
    let (result, stats) = stats_scope(|| run_eagerly(&graph, &arrays, &[]));
    result.expect("it runs");
    let plan = Draft::of(graph, limits).expect("a draft");
    let kernels = plan.steps.iter().filter(|step| step.kernel().is_some());
    (kernels.count(), plan.peak(&|_| false), stats.peak_bytes)
}

// A normalised product holds, operator by operator, its distances from the mean, their squares and three numbers a group;
// layers before it are as they are without it.
#[test]
fn norms_of_small_groups_stay_fused() {
    let norm = |from: usize| {
        let [a, b, c, d] = [1, 2, 3, 4].map(|i| from + i);
        format!(
            "%{a}: f32[128, 512] = matmul(%{from}, %1)
             %{b}: f32[128, 512] = group_norm(%{a}, 1e-5) {{groups: 128, weight: false, bias: false}}
             %{c}: f32[128, 1] = min(%{b}) {{dims: [1], keepdim: true}}
             %{d}: f32[128, 512] = add(%{c}, %2)
             return %{d}"
        )
    };
    let inputs = "%0: f32[128, 512] = input 0 [512, 1]
        %1: f32[512, 512] = input 1 [512, 1]
        %2: f32[512] = input 2 [1]\n";
    let short = format!("{inputs}%3: f32[128, 512] = neg(%0)\n{}", norm(3));
    let (kernels, held, eager) = kernels_and_peaks(&short, &Policy::default());
    assert_eq!(kernels, 3, "one before, two behind the product");
    assert!(held <= eager + eager / 16, "{held} for {eager}");
    let mut long = format!("{inputs}%3: f32[128, 512] = neg(%0)\n");
    for layer in 0..10 {
        let [x, y, z] = [3, 4, 5].map(|i| i + 2 * layer);
        long += &format!(
            "%{y}: f32[128, 512] = layer_norm(%{x}, 1e-5) {{n: 1, weight: false, bias: false}}
             %{z}: f32[128, 512] = gelu(%{y})\n"
        );
    }
    long += &norm(23);
    let (kernels, held, eager) = kernels_and_peaks(&long, &Policy::default());
    assert_eq!(kernels, kernels_and_peaks(&long, &unlimited()).0);
    assert!(held <= eager + eager / 16, "{held} for {eager}");
}

/// Appends nodes of one shape to a graph's text.
struct Text {
    text: String,
    next: usize,
    shape: &'static str,
}

impl Text {
    fn node(&mut self, op: &str) -> usize {
        self.text += &format!("%{}: {} = {op}\n", self.next, self.shape);
        self.next += 1;
        self.next - 1
    }
}

/// `blocks` sums of eight products each, added as a tree, whose operands are one value rolled: one by one at most five
/// matrices exist at once; in one kernel for the operands and one for the sums, nine. Before each block a value is
/// normalised `layers` times.
fn trees(blocks: usize, layers: usize) -> String {
    let mut all = Text {
        text: "%0: f32[64, 64] = input 0 [64, 1]\n".to_owned(),
        next: 1,
        shape: "f32[64, 64]",
    };
    let mut x = 0;
    for _ in 0..blocks {
        for _ in 0..layers {
            x = all.node(&format!("softmax(%{x}) {{dim: 1}}"));
            x = all.node(&format!("softmax(%{x}) {{dim: 0}}"));
        }
        let mut sums: Vec<(usize, usize)> = Vec::new();
        for leaf in 0..8 {
            let turned = all.node(&format!("roll(%{x}) {{shift: {leaf}, dim: 1}}"));
            sums.push((0, all.node(&format!("matmul(%{turned}, %0)"))));
            while let [.., (a, left), (b, right)] = sums[..]
                && a == b
            {
                sums.truncate(sums.len() - 2);
                sums.push((a + 1, all.node(&format!("add(%{left}, %{right})"))));
            }
        }
        x = sums[0].1;
    }
    all.text + &format!("return %{x}")
}

fn unlimited() -> Policy {
    Policy::from(Thresholds {
        held_share: 0,
        ..Thresholds::default()
    })
}

// Operands are made when their products need them, sums when they can be; what lies between keeps its kernels.
#[test]
fn only_fusions_that_hold_too_much_are_given_up() {
    for (blocks, layers) in [(1, 0), (1, 10), (6, 3)] {
        let text = trees(blocks, layers);
        let (fused, wide, _) = kernels_and_peaks(&text, &unlimited());
        let (kernels, held, eager) = kernels_and_peaks(&text, &Policy::default());
        assert!(wide > eager + eager / 16, "{wide} is allowed by {eager}");
        assert!(held <= eager + eager / 16, "{held} for {eager}");
        let more = kernels - fused;
        assert!(more <= 8 * blocks, "{kernels} kernels for {fused}");
    }
    let plan = plan(&trees(2, 1));
    let explanation = plan.explain();
    let named = explanation.refusals().iter();
    let named = named.filter(|pair| pair.2 == Refusal::HoldsMore);
    assert!(named.count() >= 2, "{}", explanation.summary());
    let why = "than the operations one by one";
    assert!(explanation.summary().contains(why));
    run(&trees(2, 1), &[noise(&[64, 64], 1)], 1e-3);
}

// Rows of a table that may be overwritten are read again instead of stored: the table lives a step longer, which is little
// beside the table.
#[test]
fn inputs_that_may_be_overwritten_count_as_held() {
    let text = "%0: f32[65536, 64] = input 0 [64, 1]
        %1: i64[48, 64] = input 1 [64, 1]
        %2: f32[64, 64] = input 2 [64, 1]
        %3: f32[48, 64] = gather(%0, %1) {dim: 0}
        %4: f32[48, 64] = layer_norm(%3, 1e-5) {n: 1, weight: false, bias: false}
        %5: f32[48, 64] = matmul(%4, %2)
        %6: f32[48, 64] = add(%3, %5)
        return %6";
    let peaks = |policy: &Policy| {
        let draft = Draft::of(read(text), policy).expect("a draft");
        (draft.steps.len(), draft.peaks())
    };
    let (free, limited) = (peaks(&unlimited()), peaks(&Policy::default()));
    let one = 48 * 64 * 4;
    assert!(
        free.1[1] > one + one / 16 + 4096,
        "{free:?}: the case holds no more"
    );
    assert_eq!(free, limited);
}

/// Steps of the classical Runge-Kutta method for a field and its velocity under a wave equation with friction.
fn solver(steps: usize) -> String {
    let mut all = Text {
        text: "%0: f32[64, 64] = input 0 [64, 1]\n%1: f32[64, 64] = input 1 [64, 1]\n".to_owned(),
        next: 2,
        shape: "f32[64, 64]",
    };
    let (mut u, mut v) = (0, 1);
    for _ in 0..steps {
        let mut slopes: Vec<[usize; 2]> = Vec::new();
        for stage in 0..4 {
            let [mut a, mut b] = [u, v];
            if let Some([du, dv]) = slopes.last().copied() {
                let h = if stage == 3 { "0.1" } else { "0.05" };
                let moved = [du, dv].map(|d| all.node(&format!("mul(%{d}, {h})")));
                a = all.node(&format!("add(%{u}, %{})", moved[0]));
                b = all.node(&format!("add(%{v}, %{})", moved[1]));
            }
            let sides = [(1, 0), (-1, 0), (1, 1), (-1, 1)];
            let rolled =
                sides.map(|(by, dim)| all.node(&format!("roll(%{a}) {{shift: {by}, dim: {dim}}}")));
            let [n, s, e, w] = rolled;
            let rows = all.node(&format!("add(%{n}, %{s})"));
            let columns = all.node(&format!("add(%{e}, %{w})"));
            let around = all.node(&format!("add(%{rows}, %{columns})"));
            let four = all.node(&format!("mul(%{a}, 4.0)"));
            let laplace = all.node(&format!("sub(%{around}, %{four})"));
            let friction = all.node(&format!("mul(%{b}, 0.01)"));
            slopes.push([b, all.node(&format!("sub(%{laplace}, %{friction})"))]);
        }
        let mut next = [u, v];
        for (k, slope) in slopes.iter().enumerate() {
            let h = if k == 1 || k == 2 { "0.0333" } else { "0.0167" };
            for (x, d) in next.iter_mut().zip(slope) {
                let part = all.node(&format!("mul(%{d}, {h})"));
                *x = all.node(&format!("add(%{x}, %{part})"));
            }
        }
        [u, v] = next;
    }
    all.text + &format!("return %{u} %{v}")
}

// A program of hundreds of operations keeps most of its fusions.
#[test]
fn solvers_stay_fused() {
    let text = solver(16);
    let operations = text.lines().count() - 3;
    assert!(operations > 1000);
    let fused = kernels_and_peaks(&text, &unlimited()).0;
    let (kernels, held, eager) = kernels_and_peaks(&text, &Policy::default());
    assert!(held <= eager + eager / 16, "{held} for {eager}");
    assert!(kernels <= 2 * fused, "{kernels} kernels for {fused}");
    assert!(kernels <= operations / 8, "{kernels} of {operations}");
    run(
        &solver(1),
        &[noise(&[64, 64], 1), noise(&[64, 64], 2)],
        1e-4,
    );
}

// Nests that were lowered in all rounds together are a multiple of the operations.
#[test]
fn giving_fusions_up_takes_linear_work() {
    let nests = |blocks: usize| {
        let (result, stats) =
            stats_scope(|| Draft::of(read(&trees(blocks, 1)), &Policy::default()));
        result.expect("a draft");
        stats.nests as usize
    };
    let (few, many) = (nests(4), nests(64));
    assert!(few <= 13 * 4 * 25, "{few} nests of {} operations", 4 * 25);
    assert!(many <= 20 * few, "{many} nests for 16 times {few}");
}
