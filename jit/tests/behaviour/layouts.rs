//! The order in which intermediate values lie in memory.

use super::{read, run};
use crate::common::{kept, noise};
use ferrotrace_jit::lower::{Lowered, lower};
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::run_eagerly;
use ferrotrace_jit::simplify::simplify;
use ferrotrace_kernels::Array;

/// The loops of each generated nest over its result, in the order in which it is stored.
fn orders(text: &str) -> Vec<Vec<usize>> {
    let lowering = lower(&read(text), &Policy::default()).unwrap_or_else(|e| panic!("{e}"));
    let extents = |step: &Lowered| match step {
        Lowered::Nest(nest) => Some(nest.iter.clone()),
        Lowered::Call(_) | Lowered::Attention(_) => None,
    };
    lowering.steps.iter().filter_map(extents).collect()
}

// ir L9, L11 to L14
#[test]
fn an_intermediate_lies_as_what_it_reads() {
    let text = "
        %0: f32[90, 70] = input 0 [70, 1]
        %1: f32[90] = input 1 [1]
        %2: f32[70, 90] = permute(%0) {order: [1, 0]}
        %3: f32[70, 90] = add(%2, %1)
        %4: f32[70, 90] = exp(%3)
        %5: f32[70] = sum(%4) {dims: [1], keepdim: false}
        %6: f32[90] = max(%4) {dims: [0], keepdim: false}
        return %5 %6";
    assert_eq!(orders(text), [vec![90, 70], vec![70], vec![90]]);
    run(text, &[noise(&[90, 70], 1), noise(&[90], 2)], 1e-3);
}

// ir L12, L13: three dimensions, one of size 1, and a reduction whose result is turned.
#[test]
fn orders_of_more_dimensions() {
    let text = "
        %0: f32[30, 1, 40, 20] = input 0 [800, 800, 20, 1]
        %1: f32[20, 1, 30, 40] = permute(%0) {order: [3, 1, 0, 2]}
        %2: f32[20, 1, 30, 40] = sin(%1)
        %3: f32[1, 30, 40] = sum(%2) {dims: [0], keepdim: false}
        %4: f32[20, 1, 30, 1] = max(%2) {dims: [3], keepdim: true}
        %5: f32[20, 1, 30, 1] = exp(%4)
        %6: f32[20, 1] = sum(%5) {dims: [2, 3], keepdim: false}
        return %3 %6";
    let all = orders(text);
    assert_eq!(all[0], [30, 40, 20]);
    assert_eq!(all[1], [30, 40]);
    run(text, &[noise(&[30, 1, 40, 20], 3)], 1e-3);
}

// codegen B4.5, ir L15: results, what is read through views of them, and operands of ready-made kernels are row-major.
#[test]
fn what_others_read_is_row_major() {
    let text = "
        %0: f32[90, 70] = input 0 [70, 1]
        %1: f32[70, 90] = permute(%0) {order: [1, 0]}
        %2: f32[70, 90] = exp(%1)
        %3: f32[70, 90] = sort(%2) {dim: 1, descending: false}
        %4: f32[70, 90] = tanh(%1)
        %5: f32[6300] = reshape(%4) {to: [6300]}
        %6: f32[70] = sum(%4) {dims: [1], keepdim: false}
        return %3 %5 %6";
    for order in orders(text).iter().filter(|order| order.len() == 2) {
        assert_eq!(order, &[70, 90]);
    }
    run(text, &[noise(&[90, 70], 4)], 1e-3);
}

// ir L15: what is turned, computed and turned back is one pass over memory as it lies, the value a result or not.
#[test]
fn a_turned_result_lies_as_what_it_reads() {
    let text = |results: &str| {
        format!(
            "%0: f32[5, 30, 40] = input 0 [1200, 40, 1]
             %1: f32[5, 40, 30] = permute(%0) {{order: [0, 2, 1]}}
             %2: f32[5, 40, 30] = exp(%1)
             %3: f32[5, 30, 40] = permute(%2) {{order: [0, 2, 1]}}
             return {results}"
        )
    };
    let input = [noise(&[5, 30, 40], 5)];
    assert_eq!(orders(&text("%3")), [vec![5, 30, 40]]);
    run(&text("%3"), &input, 1e-3);
    assert_eq!(orders(&text("%3 %2")), [vec![5, 30, 40]]);
    run(&text("%3 %2"), &input, 1e-3);
}

// What lies between the value and the turned result may be no view of a value in another order.
#[test]
fn a_result_turned_after_a_reshape_is_a_view_of_a_row_major_value() {
    for (inner, to) in [
        ("[40, 30]", "[30, 40]"),
        ("[20, 60]", "[60, 20]"),
        ("[4, 300]", "[300, 4]"),
    ] {
        let text = format!(
            "%0: f32[5, 30, 40] = input 0 [1200, 40, 1]
             %1: f32[5, 40, 30] = permute(%0) {{order: [0, 2, 1]}}
             %2: f32[5, 40, 30] = exp(%1)
             %3: f32[5, {0}] = reshape(%2) {{to: [5, {0}]}}
             %4: f32[5, {1}] = permute(%3) {{order: [0, 2, 1]}}
             return %4",
            inner.trim_matches(['[', ']']),
            to.trim_matches(['[', ']'])
        );
        run(&text, &[noise(&[5, 30, 40], 6)], 1e-3);
    }
}

// ir L13: equal votes, and what is broadcast, leave the order; so do small values.
#[test]
fn ties_are_row_major() {
    let text = |rows: usize, cols: usize| {
        format!(
            "%0: f32[{cols}, {rows}] = input 0 [{rows}, 1]
             %1: f32[{rows}, {cols}] = input 1 [{cols}, 1]
             %2: f32[{rows}, {cols}] = permute(%0) {{order: [1, 0]}}
             %3: f32[{rows}, {cols}] = atan2(%1, %2)
             %4: f32[{rows}] = sum(%3) {{dims: [1], keepdim: false}}
             %5: f32[{cols}] = max(%3) {{dims: [0], keepdim: false}}
             return %4 %5"
        )
    };
    assert_eq!(orders(&text(70, 90))[0], [70, 90]);
    let column = "
        %0: f32[90, 1] = input 0 [1, 1]
        %1: f32[70] = input 1 [1]
        %2: f32[90, 70] = mul(%0, %1)
        %3: f32[90, 70] = exp(%2)
        %4: f32[90] = sum(%3) {dims: [1], keepdim: false}
        %5: f32[70] = max(%3) {dims: [0], keepdim: false}
        return %4 %5";
    assert_eq!(orders(column)[0], [90, 70]);
    let small = "
        %0: f32[9, 7] = input 0 [7, 1]
        %1: f32[7, 9] = permute(%0) {order: [1, 0]}
        %2: f32[7, 9] = exp(%1)
        %3: f32[7] = sum(%2) {dims: [1], keepdim: false}
        %4: f32[9] = max(%2) {dims: [0], keepdim: false}
        return %3 %4";
    assert_eq!(orders(small)[0], [7, 9]);
}

/// Strides of a plan's results, and of those of the operators one by one.
fn strides(text: &str, inputs: &[Array]) -> [Vec<Vec<isize>>; 2] {
    let of = |all: &[Array]| -> Vec<Vec<isize>> {
        all.iter().map(|x| x.layout.strides().to_vec()).collect()
    };
    let compiled = super::plan(text).run(&mut kept(inputs), &[]);
    let eager = run_eagerly(&read(text), inputs, &[]);
    [compiled, eager].map(|all| of(&all.expect("it runs")))
}

// ir L12, codegen B4.5: in both modes an elementwise result lies as its first operand of the same shape that repeats no
// element, however small it is; what is computed otherwise is row-major.
#[test]
fn elementwise_results_lie_as_their_operands() {
    let text = "
        %0: f32[3, 4] = input 0 [4, 1]
        %1: f32[4, 3] = permute(%0) {order: [1, 0]}
        %2: f32[4, 3] = add(%1, 1.0)
        %3: f32[4, 1] = input 1 [1, 1]
        %4: f32[4, 3] = mul(%3, %2)
        %5: bool[4, 3] = gt(%4, 0.5)
        %6: f32[4, 3] = input 2 [3, 1]
        %7: f32[4, 3] = sub(%6, %2)
        %8: f32[4, 3] = sub(%2, %6)
        %9: f16[4, 3] = to_dtype(%2)
        %10: f32[4, 3] = softmax(%1) {dim: 1}
        %11: f32[4] = sum(%1) {dims: [1], keepdim: false}
        %12: f32[4, 3] = to_dtype(%1)
        return %2 %4 %5 %7 %8 %9 %10 %11 %12";
    let inputs = [noise(&[3, 4], 1), noise(&[4, 1], 2), noise(&[4, 3], 3)];
    let [compiled, eager] = strides(text, &inputs);
    let (turned, plain) = (vec![1, 4], vec![3, 1]);
    let want: Vec<Vec<isize>> = [1, 1, 1, 0, 1, 1, 1, 2, 0]
        .map(|which| match which {
            0 => plain.clone(),
            1 => turned.clone(),
            _ => vec![1],
        })
        .to_vec();
    assert_eq!(eager, want);
    assert_eq!(compiled, want);
    run(text, &inputs, 1e-3);
}

// Channels last in, channels last out, through one pass; a size of 1 and a batch of 1 are no hindrance.
#[test]
fn channels_last_stays() {
    for (n, c) in [(2, 5), (1, 5), (2, 1)] {
        let text = format!(
            "%0: f32[{n}, 6, 7, {c}] = input 0 [{}, {}, {c}, 1]
             %1: f32[{n}, {c}, 6, 7] = permute(%0) {{order: [0, 3, 1, 2]}}
             %2: f32[{c}, 1, 1] = input 1 [1, 1, 1]
             %3: f32[{n}, {c}, 6, 7] = mul(%1, %2)
             %4: f32[{n}, {c}, 6, 7] = gelu(%3)
             return %4",
            42 * c,
            7 * c
        );
        let inputs = [noise(&[n, 6, 7, c], 4), noise(&[c, 1, 1], 5)];
        let plan = super::plan(&text);
        assert_eq!(plan.draft().steps.len(), 1);
        let [compiled, eager] = strides(&text, &inputs);
        let long = |of: &[isize]| -> Vec<isize> {
            let sizes = [n, c, 6, 7];
            (0..4).filter(|&d| sizes[d] != 1).map(|d| of[d]).collect()
        };
        let want = [(42 * c) as isize, 1, (7 * c) as isize, c as isize];
        assert_eq!(long(&compiled[0]), long(&want));
        assert_eq!(long(&eager[0]), long(&want));
        run(&text, &inputs, 1e-3);
    }
}

// A result that turns dimensions is a view of what lies turned only where no view of it has to lie row-major.
#[test]
fn a_turned_result_that_is_reshaped_lies_row_major() {
    let text = "
        %0: f32[2, 5] = input 0 [5, 1]
        %1: f32[5, 2] = permute(%0) {order: [1, 0]}
        %2: f32[5, 2] = exp(%1)
        %3: f32[5, 2] = permute(%2) {order: [0, 1]}
        %4: f32[10] = reshape(%3) {to: [10]}
        return %3 %4";
    run(text, &[noise(&[2, 5], 1)], 1e-6);
}

// Many elements are reduced in the order in which they lie; results lie row-major in both modes. Positions of extremes count
// elements as they are written.
#[test]
fn reductions_walk_along_memory() {
    let text = "
        %0: f32[200, 6, 20] = input 0 [120, 20, 1]
        %1: f32[200, 20, 6] = permute(%0) {order: [0, 2, 1]}
        %2: f32[20, 6] = sum(%1) {dims: [0], keepdim: false}
        %3: f32[1, 20, 6] = max(%1) {dims: [0], keepdim: true}
        %4: i64[20, 6] = argmax(%1) {dims: [0], keepdim: false}
        %5: f32[20, 6, 200] = permute(%0) {order: [2, 1, 0]}
        %6: f32[] = sum(%5) {dims: [0, 1, 2], keepdim: false}
        %7: f32[1, 1, 200] = min(%5) {dims: [0, 1], keepdim: true}
        %8: i64[] = argmax(%5) {dims: [0, 1, 2], keepdim: false}
        %9: f32[20, 6] = mul(%2, 2.0)
        return %2 %3 %4 %6 %7 %8 %9";
    let inputs = [noise(&[200, 6, 20], 7)];
    let simplified = simplify(&read(text)).unwrap_or_else(|e| panic!("{e}"));
    let lowering = lower(&simplified, &Policy::default()).unwrap_or_else(|e| panic!("{e}"));
    let nests = lowering.steps.iter().filter_map(|step| match step {
        Lowered::Nest(nest) => Some((nest.iter.clone(), nest.red.clone())),
        Lowered::Call(_) | Lowered::Attention(_) => None,
    });
    let loops: Vec<_> = nests.filter(|(_, columns)| !columns.is_empty()).collect();
    let want = [
        (vec![20, 6], vec![200]),
        (vec![20, 6], vec![200]),
        (vec![20, 6], vec![200]),
        (vec![], vec![200, 6, 20]),
        (vec![200], vec![20, 6]),
        (vec![], vec![20, 6, 200]),
    ];
    assert_eq!(loops, want);
    let [compiled, eager] = strides(text, &inputs);
    assert_eq!(compiled, eager);
    run(text, &inputs, 1e-4);
}
