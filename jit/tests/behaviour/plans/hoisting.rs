//! Products of few rows by one matrix, as one product of many.

use super::super::{read, run};
use crate::common::{filled, noise};
use ferrotrace_jit::Draft;
use ferrotrace_jit::policy::Policy;
use ferrotrace_kernels::{Array, Op};

/// How many products a plan has.
fn products(text: &str) -> usize {
    let draft = Draft::of(read(text), &Policy::default()).expect("it is planned");
    let calls = draft.steps.iter().filter_map(|step| step.call());
    let products = calls.filter(|call| draft.graph.node(call.node).is(Op::is_matmul));
    products.count()
}

/// A recurrence hₜ = tanh(xₜ·w + hₜ₋₁·u) whose states are the result; `input` records xₜ of node 0.
fn recurrence(shape: &str, strides: &str, input: impl Fn(usize) -> String, steps: usize) -> String {
    let mut text = format!(
        "%0: f32{shape} = input 0 {strides}
         %1: f32[32, 64] = input 1 [64, 1]
         %2: f32[64, 64] = input 2 [64, 1]
         %3: f32[2, 64] = input 3 [64, 1]\n"
    );
    let (mut state, mut states) = (3, Vec::new());
    for step in 0..steps {
        let [x, a, b, c, d, e] = [0, 1, 2, 3, 4, 5].map(|i| 4 + 6 * step + i);
        text.push_str(&format!(
            "%{x}: f32[2, 32] = {}
             %{a}: f32[2, 64] = matmul(%{x}, %1)
             %{b}: f32[2, 64] = matmul(%{state}, %2)
             %{c}: f32[2, 64] = add(%{a}, %{b})
             %{d}: f32[2, 64] = tanh(%{c})
             %{e}: f32[1, 2, 64] = unsqueeze(%{d}) {{dim: 0}}\n",
            input(step)
        ));
        state = d;
        states.push(format!("%{e}"));
    }
    let last = 4 + 6 * steps;
    let states = states.join(", ");
    text.push_str(&format!(
        "%{last}: f32[{steps}, 2, 64] = cat({states}) {{dim: 0}}
         return %{last}"
    ));
    text
}

/// Numbers so small that a recurrence does not enlarge what products round away.
fn small(shape: &[usize], seed: usize) -> Array {
    filled(shape, |i| ((i * 37 + seed * 11) % 101) as f32 / 500.0 - 0.1)
}

fn arrays(shape: &[usize]) -> [Array; 4] {
    let sizes = [shape, &[32, 64], &[64, 64], &[2, 64]];
    [0, 1, 2, 3].map(|i| small(sizes[i], i))
}

// The states fill the memory that the operations one by one take: the products of the last steps stay apart.
#[test]
fn inputs_of_steps_are_multiplied_together() {
    let steps = 24;
    let forwards = |step: usize| format!("select(%0) {{dim: 0, index: {step}}}");
    let backwards = |step: usize| format!("select(%0) {{dim: 0, index: -{}}}", step + 1);
    for input in [&forwards as &dyn Fn(usize) -> String, &backwards] {
        let text = recurrence("[24, 2, 32]", "[64, 32, 1]", input, steps);
        assert!(products(&text) <= steps + 8, "{}", products(&text));
        run(&text, &arrays(&[24, 2, 32]), 1e-4);
    }
    let within = |step: usize| format!("select(%0) {{dim: 1, index: {step}}}");
    let text = recurrence("[2, 24, 32]", "[768, 32, 1]", within, steps);
    assert!(products(&text) <= steps + 8, "{}", products(&text));
    run(&text, &arrays(&[2, 24, 32]), 1e-4);
}

// Rows that are no neighbours are copied one below the other.
#[test]
fn inputs_from_anywhere_are_multiplied_together() {
    let steps = 24;
    let every_second = |step: usize| format!("select(%0) {{dim: 0, index: {}}}", 2 * step);
    let slices = |step: usize| format!("narrow(%0) {{dim: 0, start: {}, len: 2}}", 2 * step);
    let text = recurrence("[48, 2, 32]", "[64, 32, 1]", every_second, steps);
    assert!(products(&text) <= steps + 10, "{}", products(&text));
    run(&text, &arrays(&[48, 2, 32]), 1e-4);
    let text = recurrence("[48, 32]", "[32, 1]", slices, steps);
    assert!(products(&text) <= steps + 10, "{}", products(&text));
    run(&text, &arrays(&[48, 32]), 1e-4);
}

// A product whose operand depends on one by the same matrix stays behind it.
#[test]
fn products_of_products_stay_apart() {
    let text = "%0: f32[4, 64] = input 0 [64, 1]
        %1: f32[64, 64] = input 1 [64, 1]
        %2: f32[4, 64] = matmul(%0, %1)
        %3: f32[4, 64] = tanh(%2)
        %4: f32[4, 64] = matmul(%3, %1)
        %5: f32[4, 64] = tanh(%4)
        %6: f32[4, 64] = matmul(%5, %1)
        return %6";
    assert_eq!(products(text), 3);
    run(text, &[noise(&[4, 64], 1), noise(&[64, 64], 2)], 1e-3);
}

// A result that is a part of a product would keep all of it alive.
#[test]
fn results_have_memory_of_their_own() {
    let text = "%0: f32[4, 2, 64] = input 0 [128, 64, 1]
        %1: f32[64, 64] = input 1 [64, 1]
        %2: f32[2, 64] = select(%0) {dim: 0, index: 0}
        %3: f32[2, 64] = matmul(%2, %1)
        %4: f32[2, 64] = select(%0) {dim: 0, index: 1}
        %5: f32[2, 64] = matmul(%4, %1)
        %6: f32[128] = reshape(%5) {to: [128]}
        return %3 %6";
    assert_eq!(products(text), 2);
    run(text, &[small(&[4, 2, 64], 1), small(&[64, 64], 2)], 1e-4);
}

// Layers of a recurrence that are recorded step by step: the second's inputs are states of the first.
#[test]
fn inputs_that_other_steps_compute_are_multiplied_together() {
    let (steps, mut next) = (16, 5);
    let mut text = "%0: f32[16, 2, 64] = input 0 [128, 64, 1]
        %1: f32[64, 64] = input 1 [64, 1]
        %2: f32[64, 64] = input 2 [64, 1]
        %3: f32[64, 64] = input 3 [64, 1]
        %4: f32[64, 64] = input 4 [64, 1]\n"
        .to_owned();
    let mut push = |line: String| {
        text.push_str(&format!("%{next}: {line}\n"));
        next += 1;
        next - 1
    };
    let mut states = [None; 2];
    let mut results = Vec::new();
    for step in 0..steps {
        let mut x = push(format!("f32[2, 64] = select(%0) {{dim: 0, index: {step}}}"));
        for (layer, state) in states.iter_mut().enumerate() {
            let mut sum = push(format!("f32[2, 64] = matmul(%{x}, %{})", 1 + 2 * layer));
            if let Some(state) = state {
                let more = push(format!("f32[2, 64] = matmul(%{state}, %{})", 2 + 2 * layer));
                sum = push(format!("f32[2, 64] = add(%{sum}, %{more})"));
            }
            x = push(format!("f32[2, 64] = tanh(%{sum})"));
            *state = Some(x);
        }
        results.push(push(format!("f32[1, 2, 64] = unsqueeze(%{x}) {{dim: 0}}")));
    }
    let all: Vec<String> = results.iter().map(|x| format!("%{x}")).collect();
    let last = push(format!(
        "f32[16, 2, 64] = cat({}) {{dim: 0}}",
        all.join(", ")
    ));
    text.push_str(&format!("return %{last}"));
    // One by one: 2 · 16 of inputs and 2 · 15 of states.
    assert!(products(&text) <= 2 * 15 + 16, "{}", products(&text));
    let weights = |seed| small(&[64, 64], seed);
    let arrays = [
        small(&[16, 2, 64], 1),
        weights(2),
        weights(3),
        weights(4),
        weights(5),
    ];
    run(&text, &arrays, 1e-3);
}
