//! Programs that take many like steps: the statements of a kernel that repeat are a loop, and its results those of eager mode.

use super::{plan, read, run, scalars};
use crate::common::campaign::{each, seeds};
use crate::common::rng::Rng;
use crate::common::{buffer_of, copied, difference, filled, noise, values};
use ferrotrace_jit::policy::{Policy, Thresholds};
use ferrotrace_jit::{Plan, PlanInput, run_eagerly};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A program as text, and its inputs.
struct Steps {
    text: String,
    nodes: usize,
    slots: usize,
    suffix: &'static str,
}

impl Steps {
    fn new(inputs: &[(DType, [usize; 2])], exact: bool) -> Steps {
        let mut steps = Steps {
            text: String::new(),
            nodes: 0,
            slots: 0,
            suffix: if exact { " exact" } else { "" },
        };
        for (i, (dtype, [rows, columns])) in inputs.iter().enumerate() {
            let _ = writeln!(
                steps.text,
                "%{i}: {}[{rows}, {columns}] = input {i} [{columns}, 1]",
                dtype.name()
            );
            steps.nodes += 1;
        }
        steps
    }

    /// Adds a node and gives its number.
    fn push(&mut self, ty: &str, what: &str) -> usize {
        let _ = writeln!(self.text, "%{}: {ty} = {what}{}", self.nodes, self.suffix);
        self.nodes += 1;
        self.nodes - 1
    }

    /// A number of its own.
    fn slot(&mut self, number: f64, dtype: DType) -> String {
        self.slots += 1;
        match dtype.is_float() {
            true => format!("${}={number:.3}", self.slots - 1),
            false => format!("${}={}", self.slots - 1, number as i64),
        }
    }

    fn returning(mut self, outputs: &[usize]) -> String {
        self.text.push_str("return");
        for v in outputs {
            let _ = write!(self.text, " %{v}");
        }
        self.text.push('\n');
        self.text
    }
}

/// An operator of each step: its name, two of the values before it in its step, and a number that says more.
type Operator = (&'static str, usize, usize, u64);

/// A random recurrence: some states, values of up to seven steps before, a row of each input at every step, a number at some, and
/// at times a second recurrence that walks the first one's values backwards.
struct Recurrence {
    p: Steps,
    dtype: DType,
    rows: usize,
    steps: usize,
    inputs: usize,
    /// Whether a step's row is strided.
    strided: bool,
}

impl Recurrence {
    fn of(rng: &mut Rng) -> Recurrence {
        use DType::{BF16, F16, F32, F64, I32, I64, U8};
        let dtype = rng.pick(&[F32, F32, F64, I64, I32, U8, BF16, F16]);
        let rows = rng.pick(&[1, 3, 8, 16, 37, 100]);
        let steps = 6 + rng.below(24);
        let strided = rng.chance(50);
        let inputs = 1 + rng.below(3);
        let shape = if strided {
            [rows, steps]
        } else {
            [steps, rows]
        };
        Recurrence {
            p: Steps::new(&vec![(dtype, shape); inputs], dtype.is_half()),
            dtype,
            rows,
            steps,
            inputs,
            strided,
        }
    }

    fn arrays(&self, rng: &mut Rng) -> Vec<Array> {
        let shape = match self.strided {
            true => [self.rows, self.steps],
            false => [self.steps, self.rows],
        };
        let scaled = |x: f64| match self.dtype.is_float() {
            true => x * 0.5,
            false => (x * 40.0).abs(),
        };
        let array = |_| {
            let plain = noise(&shape, rng.next());
            let numbers: Vec<f64> = values(&plain).into_iter().map(scaled).collect();
            Array {
                buffer: buffer_of(&numbers, self.dtype),
                dtype: self.dtype,
                ..plain
            }
        };
        (0..self.inputs).map(array).collect()
    }

    fn push(&mut self, what: &str) -> usize {
        let ty = format!("{}[{}]", self.dtype.name(), self.rows);
        self.p.push(&ty, what)
    }

    fn row(&mut self, input: usize, step: usize) -> usize {
        let dim = usize::from(self.strided);
        self.push(&format!("select(%{input}) {{dim: {dim}, index: {step}}}"))
    }

    /// One operator of a step on `a` and `b`; `history` holds a state of the steps before, `earlier` those of another sweep.
    fn operator(
        &mut self,
        (op, a, b, seed): Operator,
        step: usize,
        (history, earlier): (&[usize], &[usize]),
    ) -> usize {
        let text = match op {
            "neg" => format!("neg(%{a})"),
            "number" => {
                let number = 0.5 + (seed % 5) as f64 * 0.125 + step as f64 / 64.0;
                format!("mul(%{a}, {})", self.p.slot(number, self.dtype))
            }
            "row" if seed % 2 == 0 && !earlier.is_empty() => {
                let value = earlier[earlier.len() - 1 - step % earlier.len()];
                format!("sub(%{a}, %{value})")
            }
            "row" => format!(
                "add(%{a}, %{})",
                self.row(seed as usize % self.inputs, step)
            ),
            "before" => {
                let back = history.len().checked_sub(1 + seed as usize % 7);
                format!("maximum(%{a}, %{})", back.map_or(b, |at| history[at]))
            }
            op => format!("{op}(%{a}, %{b})"),
        };
        self.push(&text)
    }

    /// All steps; adds to the outputs, and gives a state of each step.
    fn sweep(&mut self, rng: &mut Rng, earlier: &[usize], outputs: &mut Vec<usize>) -> Vec<usize> {
        let states = 1 + rng.below(3);
        let names = [
            "add", "sub", "mul", "maximum", "minimum", "neg", "number", "row", "before",
        ];
        let count = 3 + rng.below(8);
        let operator = |at| {
            let known = states + at;
            (
                rng.pick(&names),
                rng.below(known),
                rng.below(known),
                rng.next(),
            )
        };
        let ops: Vec<Operator> = (0..count).map(operator).collect();
        let ends: Vec<usize> = (0..states).map(|_| rng.below(ops.len().min(4))).collect();
        let each = rng.chance(40);
        let mut state: Vec<usize> = (0..states).map(|s| self.row(s % self.inputs, 0)).collect();
        let mut history: Vec<usize> = Vec::new();
        for step in 0..self.steps {
            let mut known = state.clone();
            for &(op, a, b, seed) in &ops {
                let op = (op, known[a], known[b], seed);
                known.push(self.operator(op, step, (&history, earlier)));
            }
            let last = known.len() - 1;
            for (s, end) in ends.iter().enumerate() {
                // Values stay in range.
                let text = format!("minimum(%{}, %{})", known[last - end], known[s]);
                state[s] = self.push(&text);
            }
            history.push(state[0]);
            if each {
                outputs.push(known[last]);
            }
        }
        outputs.extend(&state);
        history
    }
}

/// The text of a random recurrence, and its inputs.
fn random(rng: &mut Rng) -> (String, Vec<Array>) {
    let mut recurrence = Recurrence::of(rng);
    let arrays = recurrence.arrays(rng);
    let mut outputs = Vec::new();
    let first = recurrence.sweep(rng, &[], &mut outputs);
    if rng.chance(50) {
        recurrence.sweep(rng, &first, &mut outputs);
    }
    (recurrence.p.returning(&outputs), arrays)
}

/// Repetition of anything is a loop.
fn eager_to_roll() -> Policy {
    Policy::from(Thresholds {
        rerolled: 30,
        ..Thresholds::default()
    })
}

fn loops(plan: &Plan) -> usize {
    plan.explain().sources().concat().matches("step < ").count()
}

/// Runs a program of a seed twice, once with inputs that may be overwritten; gives how many of its plans have loops.
fn rolled(seed: u64) -> usize {
    let (text, arrays) = random(&mut Rng::new(seed));
    let graph = read(&text);
    let numbers = scalars(&graph);
    let want = run_eagerly(&graph, &arrays, &numbers).unwrap_or_else(|e| panic!("{seed}: {e}"));
    let compared = |donated: bool| {
        let plan = Plan::by(read(&text), &eager_to_roll());
        let plan = plan.unwrap_or_else(|e| panic!("{seed}: {e}"));
        let input = |array| PlanInput {
            array: copied(array),
            donated,
        };
        let mut inputs: Vec<PlanInput> = arrays.iter().map(input).collect();
        let got = plan.run(&mut inputs, &numbers);
        let got = got.unwrap_or_else(|e| panic!("{seed}: {e}"));
        for (k, (g, w)) in got.iter().zip(&want).enumerate() {
            if let Some(why) = difference(g, w, 0.0, true) {
                panic!("seed {seed}, result {k}, donated {donated}: {why}\n{text}");
            }
        }
        usize::from(loops(&plan) > 0)
    };
    compared(false) + compared(true)
}

#[test]
fn random_recurrences_are_those_of_eager_mode() {
    let (plans, loops) = (AtomicUsize::new(0), AtomicUsize::new(0));
    each(seeds(40), |seed| {
        loops.fetch_add(rolled(seed), Relaxed);
        plans.fetch_add(2, Relaxed);
    });
    let (plans, loops) = (plans.into_inner(), loops.into_inner());
    assert!(
        plans < 20 || loops * 4 > plans,
        "{loops} of {plans} plans have loops"
    );
}

/// The solution of `systems` tridiagonal systems of `n` equations: a recurrence, and one that walks its values backwards.
fn tridiagonal(systems: usize, n: usize) -> String {
    let f32 = DType::F32;
    let mut p = Steps::new(&[(f32, [n, systems]); 4], false);
    let ty = format!("f32[{systems}]");
    let row = |p: &mut Steps, input: usize, i: usize| {
        p.push(&ty, &format!("select(%{input}) {{dim: 0, index: {i}}}"))
    };
    let (mut upper, mut right): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for i in 0..n {
        let [a, b, c, d] = [0, 1, 2, 3].map(|input| row(&mut p, input, i));
        let (mut pivot, mut rest) = (b, d);
        if i > 0 {
            let product = p.push(&ty, &format!("mul(%{a}, %{})", upper[i - 1]));
            pivot = p.push(&ty, &format!("sub(%{b}, %{product})"));
            let product = p.push(&ty, &format!("mul(%{a}, %{})", right[i - 1]));
            rest = p.push(&ty, &format!("sub(%{d}, %{product})"));
        }
        upper.push(p.push(&ty, &format!("div(%{c}, %{pivot})")));
        right.push(p.push(&ty, &format!("div(%{rest}, %{pivot})")));
    }
    let mut x = vec![right[n - 1]];
    for i in (0..n - 1).rev() {
        let product = p.push(&ty, &format!("mul(%{}, %{})", upper[i], x[x.len() - 1]));
        x.push(p.push(&ty, &format!("sub(%{}, %{product})", right[i])));
    }
    p.returning(&x)
}

// Text, and with it the compiler's time, does not grow with the steps that one kernel takes.
#[test]
fn text_does_not_grow_with_steps() {
    let text = |n: usize| {
        let plan = plan(&tridiagonal(8, n));
        let explained = plan.explain();
        let sources = explained.sources();
        let rolled = sources.iter().map(|text| text.matches("step < ").count());
        assert!(n < 12 || rolled.sum::<usize>() > 0, "{n}: {sources:?}");
        sources.iter().map(String::len).max().unwrap_or(0)
    };
    let (short, long) = (text(24), text(96));
    assert!(long < short * 3 / 2, "{long} bytes for {short}");
    for (systems, n) in [(1, 30), (8, 30), (21, 40)] {
        let shape = [n, systems];
        // The diagonal outweighs the rest of its row.
        let diagonal = filled(&shape, |i| 5.0 + (i % 7) as f32);
        let arrays = [
            noise(&shape, 1),
            diagonal,
            noise(&shape, 2),
            noise(&shape, 3),
        ];
        run(&tridiagonal(systems, n), &arrays, 0.0);
    }
}

/// A recurrence over rows, each scaled by a number of its own, and a walk back through its states if so asked.
fn scaled_rows(n: usize, back: bool) -> String {
    let ty = "f32[40]";
    let mut p = Steps::new(&[(DType::F32, [n, 40])], false);
    let mut states = vec![p.push(ty, "select(%0) {dim: 0, index: 0}")];
    for i in 1..n {
        let number = p.slot(0.5 + i as f64 / 64.0, DType::F32);
        let scaled = p.push(ty, &format!("mul(%{}, {number})", states[i - 1]));
        let row = p.push(ty, &format!("select(%0) {{dim: 0, index: {i}}}"));
        states.push(p.push(ty, &format!("add(%{scaled}, %{row})")));
    }
    let mut sum = states[n - 1];
    for state in states[..n - 1].iter().rev().filter(|_| back) {
        let number = p.slot(0.25, DType::F32);
        let scaled = p.push(ty, &format!("mul(%{sum}, {number})"));
        sum = p.push(ty, &format!("sub(%{state}, %{scaled})"));
    }
    p.returning(&[sum])
}

/// One text for programs that differ in the number of their steps alone.
#[test]
fn numbers_of_steps_share_a_text() {
    let texts = |n: usize| plan(&scaled_rows(n, false)).explain().sources().to_vec();
    let first = texts(30);
    assert!(first[0].contains("step < "), "{first:?}");
    for n in [31, 38, 60, 77] {
        let other = texts(n);
        let lines = first.iter().zip(&other);
        let mut lines = lines.flat_map(|(a, b)| a.lines().zip(b.lines()));
        assert_eq!(lines.find(|(a, b)| a != b), None, "{n} steps");
        assert_eq!(first, other, "{n} steps");
    }
    for (n, back) in [(30, false), (77, false), (30, true), (61, true)] {
        let rows = noise(&[n, 40], n as u64);
        run(&scaled_rows(n, back), &[rows], 0.0);
    }
}
