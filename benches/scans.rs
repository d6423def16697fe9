//! Recurrences as `scan` beside the same steps written out by a loop of Rust, both in one `jit` function, with and without
//! a gradient.
//!
//! ```text
//! cargo bench --bench scans [-- --rounds N] [-- --smoke] [-- names] [-- --cuda]
//! ```
//!
//! Under `FERROTRACE_MODE=tiered` a device's graphs hold a step each, not the loop.

mod measure;

use ferrotrace::prelude::*;
use ferrotrace::{scan, stats_scope};
use measure::table::Table;
use measure::{Options, Outcome, interleaved, median, time, whole};

/// Hidden units of the recurrent network.
const HIDDEN: usize = 256;
/// Its rows in a batch.
const BATCH: usize = 8;
/// Its steps.
const STEPS: usize = 64;

/// How a recurrence is written.
#[derive(Clone, Copy)]
enum Form {
    Scan,
    Loop,
}

/// A recurrence over rows of `xs`, from zeros: the rows of results.
fn recurrence<const N: usize>(
    form: Form,
    step: impl Fn(&[Tensor; N], &Tensor) -> ([Tensor; N], Tensor),
    start: &[Tensor; N],
    xs: &Tensor,
) -> Tensor {
    match form {
        Form::Scan => scan(step, start, xs).1,
        Form::Loop => {
            let (mut state, mut rows) = (start.clone(), Vec::new());
            for i in 0..xs.dims()[0] as isize {
                let (next, row) = step(&state, &xs.select(0, i));
                state = next;
                rows.push(row);
            }
            Tensor::stack(&rows, 0)
        }
    }
}

/// Gates of a long short-term memory.
fn lstm(form: Form, xs: &Tensor, w: &Tensor) -> Tensor {
    let zeros = Tensor::zeros([BATCH, HIDDEN], DType::F32, &xs.device());
    let step = |[h, c]: &[Tensor; 2], x: &Tensor| {
        let gates = (x + h.matmul(w)).chunk(4, 1);
        let c = gates[0].sigmoid() * c + gates[1].sigmoid() * gates[2].tanh();
        let h = gates[3].sigmoid() * c.tanh();
        ([h.clone(), c], h)
    };
    recurrence(form, step, &[zeros.clone(), zeros], xs)
}

/// A state space whose decay depends on the step: rows hold decay and input.
fn state_space(form: Form, xs: &Tensor, scale: &Tensor) -> Tensor {
    let zeros = Tensor::zeros([2, 64, 16], DType::F32, &xs.device());
    let step = |[h]: &[Tensor; 1], x: &Tensor| {
        let h = h * x.select(0, 0).sigmoid() + x.select(0, 1) * scale;
        ([h.clone()], h.sum(-1))
    };
    recurrence(form, step, &[zeros], xs)
}

/// A name, the shapes of the rows and of the weight, and what is computed of them.
type Case = (
    &'static str,
    &'static [usize],
    &'static [usize],
    fn(Form, &Tensor, &Tensor) -> Tensor,
);

const CASES: &[Case] = &[
    (
        "lstm",
        &[STEPS, BATCH, 4 * HIDDEN],
        &[HIDDEN, 4 * HIDDEN],
        lstm,
    ),
    ("state_space", &[24, 2, 2, 64, 16], &[16], state_space),
];

fn main() -> Outcome {
    let options = Options::from_args();
    let device = match std::env::args().any(|arg| arg == "--cuda") {
        true => Device::cuda(0)?,
        false => Device::cpu(),
    };
    let heads = ["program", "scan", "written out", "kernels", "graphs"];
    let mut table = Table::new("Recurrences", &heads);
    for (name, rows, weight, program) in CASES {
        for gradient in [false, true] {
            let name = format!("{name}{}", if gradient { "_gradient" } else { "" });
            if !options.wants(&name) {
                continue;
            }
            let of = |shape: &[usize]| Tensor::randn(shape, DType::F32, &device) * 0.05;
            let (xs, w) = (of(rows), of(weight));
            eval([&xs, &w])?;
            let [scanned, written] = [Form::Scan, Form::Loop].map(|form| {
                jit(move |(xs, w): (&Tensor, &Tensor)| {
                    if !gradient {
                        return program(form, xs, w);
                    }
                    let w = w.detach().requires_grad();
                    grad(&program(form, xs, &w).square().mean(..), &[&w]).remove(0)
                })
            });
            let run = |f: &dyn Fn() -> Tensor| {
                f().eval().expect("a result");
                device.synchronize().expect("a device");
            };
            let scanned = || run(&|| scanned.call((&xs, &w)));
            let written = || run(&|| written.call((&xs, &w)));
            (0..4).for_each(|_| scanned());
            let ((), counts) = stats_scope(scanned);
            let times = interleaved(&mut [whole(scanned), whole(written)], &options);
            let [kernels, graphs] = [counts.kernels_launched, counts.graph_launches];
            let of = |i: usize| time(median(&times[i]));
            table.row([name, of(0), of(1), kernels.to_string(), graphs.to_string()]);
        }
    }
    table.print();
    Ok(())
}
