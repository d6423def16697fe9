//! Kernels for a device run without one: interpreted thread by thread, every form and random graphs, against
//! operator-by-operator execution on the CPU. No two threads race, all come to barriers, and nothing decides that was never
//! written.

use super::parsed;
use crate::common::campaign::{each, seeds};
use crate::common::device_kernels::{capable, device};
use crate::common::generate::{Limits, program};
use crate::common::ready_made::{KINDS, draw};
use crate::common::rounding::oracle::{Rule, compared};
use crate::common::rounding::{self, Sizes};
use crate::common::{Rng, buffer_of, difference, values};
use ferrotrace_jit::body::Source;
use ferrotrace_jit::emit::Emitted;
use ferrotrace_jit::interp::interpret_threads;
use ferrotrace_jit::policy::Policy;
use ferrotrace_jit::target::{Library, Target};
use ferrotrace_jit::{Draft, Explanation, Graph, NodeOp, Precision, Step, run_eagerly};
use ferrotrace_kernels::{Array, ValueId};
use ferrotrace_runtime::{DType, Device, Layout, Scalar};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// What differs between a draft's kernels and its graph's operators one by one.
pub fn mismatch(
    draft: &Draft,
    (arrays, donated): (&[Array], bool),
    scalars: &[Scalar],
    allowed: &dyn Fn(usize) -> (f64, bool),
) -> Option<String> {
    let graph = &draft.recorded;
    let want = run_eagerly(graph, arrays, scalars);
    let got = interpret_threads(draft, arrays, donated, scalars);
    let (want, got) = match (want, got) {
        (Ok(want), Ok(got)) => (want, got),
        (Err(want), Err(got)) if want.to_string() == got.to_string() => return None,
        (want, got) => return Some(format!("{:?} and {:?}\n{graph}", want.err(), got.err())),
    };
    let outputs = graph.outputs().iter().zip(got.iter().zip(&want));
    outputs.enumerate().find_map(|(at, (v, (g, w)))| {
        let (error, any_zero) = allowed(at);
        difference(g, w, error, any_zero).map(|why| format!("%{}: {why}\n{graph}", v.0))
    })
}

/// As for a device without matrix units, whose library has products alone.
pub fn policy() -> Policy {
    let mut policy = Policy {
        target: Target {
            library: Library::Partial(|_, _| Ok(false)),
            ..Target::cuda(0, 132, 227 << 10)
        },
        ..Policy::default()
    };
    // Indices that are inputs are checked ahead, of small plans too.
    policy.thresholds.checked_ahead = 0;
    policy.thresholds.checked_share = 1;
    policy
}

pub fn draft(text: &str, policy: &Policy) -> Draft {
    Draft::of(parsed(text), policy).unwrap_or_else(|e| panic!("{text}: {e}"))
}

pub fn kernels(draft: &Draft) -> impl Iterator<Item = &Emitted> {
    draft.steps.iter().filter_map(|step| match step {
        Step::Launch(kernel) => Some(&**kernel),
        _ => None,
    })
}

/// Arrays for a graph's inputs, as they lie: numbers in -2..2, and of integers in 0..5.
pub fn arrays(graph: &Graph, seed: u64) -> Vec<Array> {
    let mut rng = Rng::new(seed);
    let inputs = graph.nodes().iter().filter_map(|node| match node.op {
        NodeOp::Input(n) => Some((&graph.inputs()[n as usize].layout, node.dtype)),
        NodeOp::Op(_) => None,
    });
    let mut array = |(layout, dtype): (&Layout, DType)| {
        let number = |rng: &mut Rng| match dtype.is_float() {
            true => rng.uniform(-2.0, 2.0),
            false => rng.below(5) as f64,
        };
        let numbers: Vec<f64> = (0..layout.span().end).map(|_| number(&mut rng)).collect();
        Array {
            buffer: buffer_of(&numbers, dtype),
            layout: layout.clone(),
            dtype,
        }
    };
    inputs.map(&mut array).collect()
}

/// Graphs at sizes just large enough for a form, and what the text of its kernels has that no other has.
const FORMS: &[(&str, &str, &str)] = &[
    (
        "a thread a chunk, two half values a word",
        "ft_pack_f16(",
        "%0: f16[7, 33] = input 0 [33, 1]
         %1: f16[7, 33] = gelu(%0)
         return %1",
    ),
    (
        "a warp a row, in registers",
        "int t = threadIdx.x & 31",
        "%0: f32[37, 50] = input 0 [50, 1]
         %1: f32[37, 50] = softmax(%0) {dim: 1}
         return %1",
    ),
    (
        "a block a row, with edges",
        "const int h = ",
        "%0: f32[3, 5001] = input 0 [5001, 1]
         %1: f32[3, 5001] = softmax(%0) {dim: 1}
         return %1",
    ),
    (
        "sums of exponentials about their maximum in one pass",
        "ft_term_exp",
        "%0: f32[4, 33000] = input 0 [33000, 1]
         %1: f32[4, 33000] = softmax(%0) {dim: 1}
         return %1",
    ),
    (
        "pieces of rows, and their combination",
        "_finish(",
        "%0: f32[2, 40000] = input 0 [40000, 1]
         %1: f32[2] = var(%0) {dims: [1], keepdim: false, correction: 0}
         %2: i64[2] = argmin(%0) {dims: [1], keepdim: false}
         return %1 %2",
    ),
    (
        "strided columns by groups of threads",
        "int tx = threadIdx.x % 32",
        "%0: f32[2000, 9] = input 0 [9, 1]
         %1: f32[9] = sum(%0) {dims: [0], keepdim: false}
         %2: i64[9] = argmax(%0) {dims: [0], keepdim: false}
         return %1 %2",
    ),
    (
        "strided columns of rows side by side",
        "w1[ty][l][tx]",
        "%0: f32[4096, 64] = input 0 [64, 1]
         %1: f32[64] = sum(%0) {dims: [0], keepdim: false}
         return %1",
    ),
    (
        "a tile in shared memory",
        "__shared__ float w1[4160]",
        "%0: f32[70, 130] = input 0 [130, 1]
         %1: f32[130, 70] = input 1 [70, 1]
         %2: f32[70, 130] = permute(%1) {order: [1, 0]}
         %3: f32[70, 130] = add(%0, %2)
         return %3",
    ),
    (
        "a tile of half values",
        "__shared__ unsigned short w1[",
        "%0: bf16[3, 41, 70] = input 0 [2870, 70, 1]
         %1: bf16[3, 41, 70] = input 1 [2870, 1, 41]
         %2: bf16[3, 41, 70] = add(%0, %1)
         return %2",
    ),
    (
        "scans of rows",
        "ft_prefix(",
        "%0: f32[5, 700] = input 0 [700, 1]
         %1: f32[5, 700] = cumsum(%0) {dim: 1}
         %2: f32[5, 700] = cummax(%0) {dim: 1}
         return %1 %2",
    ),
    (
        "scans of strided columns",
        "ft_prefix(",
        "%0: f32[300, 20] = input 0 [20, 1]
         %1: f32[300, 20] = cumsum(%0) {dim: 0}
         return %1",
    ),
    (
        "a scan that looks back",
        "ft_before<",
        "%0: f32[1, 40001] = input 0 [40001, 1]
         %1: f32[1, 40001] = cumsum(%0) {dim: 1}
         return %1",
    ),
    (
        "a scan of strided columns in pieces",
        "_finish(",
        "%0: f32[9000, 2] = input 0 [2, 1]
         %1: f32[9000, 2] = cumsum(%0) {dim: 0}
         return %1",
    ),
    (
        "indices that are checked where they are used",
        "ft_index(",
        "%0: f32[50, 60] = input 0 [60, 1]
         %1: i64[50, 30] = input 1 [30, 1]
         %2: i64[50, 30] = add(%1, %1)
         %3: f32[50, 30] = gather(%0, %2) {dim: 1}
         %4: i64[30] = sum(%2) {dims: [0], keepdim: false}
         return %3 %2 %4",
    ),
    (
        "indices that were checked before",
        "ft_within(",
        "%0: bf16[50, 64] = input 0 [64, 1]
         %1: i64[30] = input 1 [1]
         %2: bf16[30, 64] = index(%0, %1) {axes: [0], at: 0}
         %3: bf16[30, 64] = mul(%2, $0=2.0)
         return %3",
    ),
    (
        "random numbers",
        "ft_normal_f32(",
        "%0: f32[500] = randn($0=1, $1=2)
         %1: f32[500] = input 0 [1]
         %2: f32[500] = add(%1, %0)
         return %2",
    ),
];

#[test]
fn every_form_runs_without_a_device() {
    let mut wrong = Vec::new();
    for (form, mark, text) in FORMS {
        let draft = draft(text, &policy());
        let texts: Vec<String> = kernels(&draft).map(|kernel| kernel.source.text()).collect();
        if !texts.iter().any(|text| text.contains(mark)) {
            let bodies: Vec<&str> = kernels(&draft).map(|k| &*k.source.body).collect();
            wrong.push(format!("{form}: no {mark} in\n{}", bodies.join("\n")));
        }
        let arrays = arrays(&draft.recorded, 1);
        let scalars = match text.contains("$1=2") {
            true => vec![Scalar::Int(1), Scalar::Int(2)],
            false => vec![Scalar::Float(2.0)],
        };
        for donated in [false, true] {
            // Sums of a few thousand numbers of about 1.
            let why = mismatch(&draft, (&arrays, donated), &scalars, &|_| (2e-2, true));
            wrong.extend(why.map(|why| format!("{form}: {why}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Rows of few columns have a part of a warp each, or one thread, where there are many: numbers of rows that fill no
/// block, rows that begin anywhere, rows that are stored, positions.
#[test]
fn many_short_rows_run_without_a_device() {
    let texts = [
        (
            "int t = threadIdx.x & 1;",
            "%0: f32[70001, 9] = input 0 [9, 1]
         %1: f32[70001] = sum(%0) {dims: [1], keepdim: false}
         return %1",
        ),
        (
            "int t = threadIdx.x & 3;",
            "%0: f32[40001, 10] = input 0 [10, 1]
         %1: f32[40001, 10] = softmax(%0) {dim: 1}
         return %1",
        ),
        (
            "int t = threadIdx.x & 0;",
            "%0: f32[131073, 12] = input 0 [12, 1]
         %1: i64[131073] = argmax(%0) {dims: [1], keepdim: false}
         %2: f32[131073] = max(%0) {dims: [1], keepdim: false}
         return %1 %2",
        ),
        (
            "int t = threadIdx.x & 7;",
            "%0: bf16[17001, 33] = input 0 [33, 1]
         %1: bf16[17001] = mean(%0) {dims: [1], keepdim: false}
         return %1",
        ),
    ];
    for (mark, text) in texts {
        let draft = draft(text, &policy());
        let found: Vec<String> = kernels(&draft).map(|kernel| kernel.source.text()).collect();
        assert!(
            found.iter().any(|text| text.contains(mark)),
            "no {mark}: {found:?}"
        );
        let arrays = arrays(&draft.recorded, 1);
        let why = mismatch(&draft, (&arrays, false), &[], &|_| (2e-2, true));
        assert_eq!(why, None, "{text}");
    }
}

/// Half values that eager mode stores are read as stored: what is drawn, and what is scattered.
#[test]
fn half_values_are_read_rounded_without_a_device() {
    let texts = [
        "%0: f16[33] = randn($0=1, $1=2)
         %1: f32[33] = input 0 [1]
         %2: f32[33] = mul(%1, %0)
         return %2",
        "%0: bf16[4, 2] = input 0 [2, 1]
         %1: i64[4, 2] = input 1 [2, 1]
         %2: f32[4, 2] = input 2 [2, 1]
         %3: i64[4, 2] = remainder(%1, 2)
         %4: bf16[4, 2] = scatter(%0, %3, %0) {dim: 1, mode: \"mean\", include_self: true}
         %5: f32[4, 2] = mul(%2, %4)
         return %5",
    ];
    for text in texts {
        let draft = draft(text, &policy());
        let arrays = arrays(&draft.recorded, 6);
        let numbers = [Scalar::Int(1), Scalar::Int(2)];
        let why = mismatch(&draft, (&arrays, false), &numbers, &|_| (0.0, true));
        assert_eq!(why, None);
    }
}

/// Rows at positions, slices, and elements at places are written over a tensor: in its memory, or in a copy.
#[test]
fn windows_are_written_in_place_without_a_device() {
    let scatter = |mode: &str| {
        format!(
            "%0: f32[30, 40] = input 0 [40, 1]
             %1: f32[30, 1] = input 1 [1, 1]
             %2: i64[30, 1] = input 2 [1, 1]
             %3: f32[30, 40] = scatter(%0, %2, %1) {{dim: 1, mode: \"{mode}\", include_self: true}}
             return %3"
        )
    };
    let mut texts: Vec<String> = ["sum", "prod", "amax", "amin", "assign"]
        .map(scatter)
        .into();
    texts.push(
        "%0: bf16[8, 24, 64] = input 0 [1536, 64, 1]
         %1: bf16[8, 1, 64] = input 1 [64, 64, 1]
         %2: i64[1] = input 2 [1]
         %3: bf16[8, 1, 64] = neg(%1)
         %4: bf16[8, 24, 64] = index_put(%0, %3, %2) {axes: [1], at: 1, accumulate: false}
         return %4"
            .to_owned(),
    );
    texts.push(
        "%0: f32[100, 40] = input 0 [40, 1]
         %1: f32[7, 40] = input 1 [40, 1]
         %2: f32[7, 40] = abs(%1)
         %3: f32[100, 40] = slice_assign(%0, %2) {dim: 0, start: 5, end: 12, step: 1}
         return %3"
            .to_owned(),
    );
    for text in texts {
        let draft = draft(&text, &policy());
        let updates = kernels(&draft).any(|kernel| !kernel.updates.is_empty());
        assert!(updates, "{text}");
        let arrays = arrays(&draft.recorded, 2);
        for donated in [false, true] {
            let why = mismatch(&draft, (&arrays, donated), &[], &|_| (0.0, false));
            assert_eq!(why, None, "{text}");
        }
    }
}

/// Kernels of one text share a launch: nothing orders their blocks.
#[test]
fn kernels_of_a_table_run_without_a_device() {
    let mut text = String::new();
    let sizes = [32, 64, 500, 8];
    for (k, n) in sizes.iter().enumerate() {
        let (w, g) = (2 * k, 2 * k + 1);
        text += &format!("%{w}: f32[{n}] = input {w} [1]\n%{g}: f32[{n}] = input {g} [1]\n");
    }
    for (k, n) in sizes.iter().enumerate() {
        let (w, g, at) = (2 * k, 2 * k + 1, 8 + 2 * k);
        text += &format!("%{at}: f32[{n}] = mul(%{g}, $0=0.5)\n");
        text += &format!("%{}: f32[{n}] = sub(%{w}, %{at})\n", at + 1);
    }
    text += "return %9 %11 %13 %15";
    let draft = draft(&text, &policy());
    let groups = draft.launches.groups.iter().map(|group| group.len());
    assert_eq!(groups.max(), Some(4), "{:?}", draft.launches.groups);
    let arrays = arrays(&draft.recorded, 3);
    let numbers = [Scalar::Float(0.5)];
    for donated in [false, true] {
        let why = mismatch(&draft, (&arrays, donated), &numbers, &|_| (1e-6, false));
        assert_eq!(why, None);
    }
}

/// What a kernel reads elsewhere than where it writes may not be its result's memory.
#[test]
fn memory_is_not_shared_with_what_others_still_read() {
    let text = "%0: f32[300] = input 0 [1]
                %1: f32[300] = flip(%0) {dims: [0]}
                %2: f32[300] = neg(%1)
                return %2";
    let mut draft = draft(text, &policy());
    let arrays = arrays(&draft.recorded, 4);
    let run = |draft: &Draft, donated| interpret_threads(draft, &arrays, donated, &[]);
    assert!(run(&draft, true).is_ok());
    let Some(Step::Launch(kernel)) = draft.steps.first_mut() else {
        panic!("one kernel")
    };
    kernel.in_place.push((ValueId(2), Source::Input(0)));
    assert!(run(&draft, false).is_ok());
    let error = run(&draft, true).expect_err("they race").to_string();
    assert!(error.contains("two threads race for element"), "{error}");
}

/// A faulty index is the same error as in eager mode, whether it is checked ahead or where it is used.
#[test]
fn faulty_indices_are_errors_without_a_device() {
    let text = "%0: f32[5, 8] = input 0 [8, 1]
                %1: i64[6] = input 1 [1]
                %2: f32[6, 8] = index(%0, %1) {axes: [0], at: 0}
                %3: f32[6, 8] = neg(%2)
                return %3";
    for ahead in [true, false] {
        let mut policy = policy();
        policy.thresholds.checked_ahead = if ahead { 0 } else { u64::MAX };
        let draft = draft(text, &policy);
        assert_eq!(!draft.checks.is_empty(), ahead);
        let mut arrays = arrays(&draft.recorded, 5);
        let exact = |_| (0.0, false);
        assert_eq!(mismatch(&draft, (&arrays, false), &[], &exact), None);
        arrays[1].buffer = buffer_of(&[0.0, 1.0, -5.0, 4.0, 5.0, 2.0], DType::I64);
        assert_eq!(mismatch(&draft, (&arrays, false), &[], &exact), None);
        let error = interpret_threads(&draft, &arrays, false, &[]).expect_err("5 of 5");
        assert!(error.to_string().contains("index 5"), "{error}");
    }
}

/// Calls `test` with random graphs, every other one with inputs that may be written over.
fn random(limits: &Limits, default: u64) {
    let policies = [policy(), device()];
    each(seeds(default), |seed| {
        let p = program(seed, limits);
        let policy = &policies[(seed / 2 % 2) as usize];
        let draft = Draft::of(p.graph.clone(), policy).expect("a draft");
        let allowed = |at: usize| {
            let track = p.tracks[p.graph.outputs()[at].0 as usize];
            (4.0 * track.error, track.any_zero)
        };
        let why = mismatch(&draft, (&p.arrays, seed % 2 == 1), &p.scalars, &allowed);
        assert_eq!(why, None, "seed {seed}");
    });
}

const FEW: Limits = Limits {
    ops: 16,
    numel: 400,
    sizes: &[0, 1, 2, 3, 4, 5, 17, 33, 70],
    dtypes: &DType::ALL,
    pointwise: false,
    precision: Precision::Fast,
    approximate: true,
    slices: false,
    long: false,
};

#[test]
fn random_graphs_run_without_a_device() {
    random(&FEW, 2000);
}

#[test]
fn random_graphs_that_round_as_eager_mode_run_without_a_device() {
    let exact = Limits {
        precision: Precision::EagerExact,
        approximate: false,
        ..FEW
    };
    random(&exact, 1000);
}

/// Slices of a tensor are written one after another.
#[test]
fn random_slices_run_without_a_device() {
    let slices = Limits {
        slices: true,
        ..FEW
    };
    random(&slices, 600);
}

/// Rows of several warps, blocks and tiles of several rows.
#[test]
fn random_graphs_of_middle_sizes_run_without_a_device() {
    let middle = Limits {
        numel: 6000,
        sizes: &[1, 2, 3, 7, 16, 33, 70, 130, 600],
        ..FEW
    };
    random(&middle, 150);
}

/// Pieces of rows and scans that look back.
#[test]
fn random_long_rows_run_without_a_device() {
    let long = Limits {
        ops: 6,
        numel: 50_000,
        sizes: &[1, 2, 3, 600, 1100, 20_000, 40_000],
        long: true,
        ..FEW
    };
    random(&long, 8);
}

/// Sorting, scatters, windows and what else the CPU has ready-made kernels for.
#[test]
fn ready_made_operators_run_without_a_device() {
    let policy = policy();
    each(seeds(8 * KINDS), |seed| {
        let of = draw(seed, &Device::cpu());
        let want = run_eagerly(&of.graph, &of.arrays, &[]).expect("eager mode runs it");
        let greatest = values(&want[0]).into_iter().filter(|x| x.is_finite());
        let greatest = greatest.fold(1.0, |most: f64, x| most.max(x.abs()));
        let draft = Draft::of(of.graph.clone(), &policy).expect("a draft");
        let allowed = (of.tolerance * greatest, true);
        let why = mismatch(&draft, (&of.arrays, seed % 2 == 1), &[], &|_| allowed);
        assert_eq!(why, None, "seed {seed}");
    });
}

/// All uses of a recorded half-precision value read one number; under `EagerExact` every operation rounds, and the sums of a
/// product are rounded once, with their bias.
#[test]
fn half_values_read_one_number_without_a_device() {
    let sizes = Sizes {
        rows: &[1, 2, 8, 33],
        columns: &[1, 4, 16, 33, 64],
        ops: 12,
    };
    let rules = [
        (Precision::Fast, Rule::Recorded),
        (Precision::EagerExact, Rule::Everywhere),
    ];
    let counted = AtomicUsize::new(0);
    let policies = [policy(), device(), capable(90)];
    each(seeds(400), |seed| {
        for (precision, rule) in rules {
            let p = rounding::program(seed, sizes, precision);
            for policy in &policies {
                let draft = Draft::of(p.graph.clone(), policy).expect("a draft");
                let got = interpret_threads(&draft, &p.arrays, false, &p.scalars);
                let got = got.map_err(|error| error.to_string());
                let count = got.and_then(|got| compared(&p, rule, &got));
                let count = count.unwrap_or_else(|why| {
                    let text = Explanation::of(&draft);
                    panic!("seed {seed}: {why}\n{}\n{text}", p.graph)
                });
                counted.fetch_add(count, Relaxed);
            }
        }
    });
    assert!(counted.into_inner() > 0, "no result counts");
}
