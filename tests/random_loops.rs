//! Random loops that read parts of their state: compiled steps give eager mode's numbers, and do the same work over and
//! over. `FERROTRACE_FUZZ_SEED` and `FERROTRACE_FUZZ_COUNT` choose others.

#[path = "common/rng.rs"]
#[allow(dead_code, missing_docs)]
mod rng;

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use rng::Rng;

/// What an instruction makes of values made before it, named by their place. None enlarges a difference between two of
/// its operands, so that rounding does not grow from step to step.
#[derive(Clone, Copy, Debug)]
enum Make {
    Mean(usize, usize),
    Larger(usize, usize),
    Sine(usize),
    Tanh(usize),
    Scaled(usize, f64),
    Centred(usize),
    Flipped(usize),
    Rolled(usize),
    Product(usize),
    RowsOf(usize, usize),
    Softened(usize),
}

/// What a step reads of a value.
#[derive(Clone, Copy, Debug)]
enum Read {
    Sum(usize),
    Max(usize),
    Row(usize, isize),
    Part(usize, isize),
    /// Something of the state two steps ago.
    Older(usize),
}

#[derive(Debug)]
struct Program {
    shape: [usize; 2],
    states: usize,
    /// Whether the states are pending when the loop begins.
    pending: bool,
    body: Vec<Make>,
    /// Which values become the states.
    next: Vec<usize>,
    /// What is read at each step of a period.
    reads: Vec<Vec<Read>>,
}

impl Program {
    fn random(seed: u64) -> Program {
        let mut rng = Rng::new(seed);
        let shape = [2 + rng.below(6), 1 + rng.below(40)];
        let states = 1 + rng.below(3);
        let mut body = Vec::new();
        for _ in 0..1 + rng.below(8) {
            let values = states + body.len();
            let mut any = || rng.below(values);
            let (a, b) = (any(), any());
            body.push(match rng.below(13) {
                0 | 1 => Make::Mean(a, b),
                2 => Make::Larger(a, b),
                3 => Make::Sine(a),
                4 => Make::Tanh(a),
                5 | 6 => Make::Scaled(a, rng.uniform(-0.99, 0.99)),
                7 => Make::Centred(a),
                8 => Make::Flipped(a),
                9 => Make::Rolled(a),
                10 => Make::Product(a),
                11 => Make::RowsOf(a, b),
                _ => Make::Softened(a),
            });
        }
        let values = states + body.len();
        let next = (0..states).map(|_| values - 1 - rng.below(body.len()));
        let next = next.collect();
        let mut reads = Vec::new();
        for _ in 0..rng.pick(&[1, 1, 2, 3, 7]) {
            let mut at = Vec::new();
            for _ in 0..rng.pick(&[0, 1, 1, 1, 2, 3]) {
                let (value, row) = (rng.below(values), rng.below(shape[0]) as isize);
                at.push(match rng.below(6) {
                    0 | 1 => Read::Sum(value),
                    2 => Read::Max(value),
                    3 => Read::Row(value, row),
                    4 => Read::Part(value, row),
                    _ => Read::Older(rng.below(states)),
                });
            }
            reads.push(at);
        }
        Program {
            shape,
            states,
            pending: rng.chance(50),
            body,
            next,
            reads,
        }
    }

    /// What each step reads and did: kernels, bytes and plans.
    fn run(&self, steps: usize) -> Result<Vec<(Vec<f64>, [u64; 3])>> {
        let [rows, columns] = self.shape;
        let cpu = Device::cpu();
        let data = |seed: usize, n: usize| -> Vec<f64> {
            let value = |i: usize| ((i * 7919 + seed * 104_729) % 2003) as f64 / 1001.5 - 1.0;
            (0..n).map(value).collect()
        };
        let weights = data(9, columns * columns);
        let weights = weights.into_iter().map(|w| w / columns as f64).collect();
        let weights = Tensor::from_vec(weights, [columns, columns], &cpu);
        let start = |i: usize| {
            let x = Tensor::from_vec(data(i, rows * columns), self.shape, &cpu);
            if self.pending { x * 0.5 } else { x }
        };
        let mut states: Vec<Tensor> = (0..self.states).map(start).collect();
        let mut older = [states.clone(), states.clone()];
        let mut outcome = Vec::new();
        for step in 0..steps {
            let (read, stats) = stats_scope(|| {
                let mut values = states.clone();
                for make in &self.body {
                    values.push(made(*make, &values, &weights));
                }
                older.rotate_right(1);
                older[0] = std::mem::take(&mut states);
                states = self.next.iter().map(|&n| values[n].clone()).collect();
                let at = &self.reads[step % self.reads.len()];
                let mut numbers = Vec::new();
                for read in at {
                    numbers.extend(read.of(&values, &older[1])?);
                }
                Ok::<_, Error>(numbers)
            });
            let kernels = stats.kernels_launched + stats.library_calls;
            let work = [kernels, stats.bytes_allocated, stats.plans_built];
            outcome.push((read?, work));
        }
        Ok(outcome)
    }
}

fn made(make: Make, values: &[Tensor], weights: &Tensor) -> Tensor {
    match make {
        Make::Mean(a, b) => &values[a] * 0.5 + &values[b] * 0.5,
        Make::Larger(a, b) => values[a].maximum(&values[b]),
        Make::Sine(a) => values[a].sin(),
        Make::Tanh(a) => values[a].tanh(),
        Make::Scaled(a, by) => &values[a] * by + 0.125,
        Make::Centred(a) => (&values[a] - values[a].mean_keepdim(1)) * 0.5,
        Make::Flipped(a) => values[a].flip([0]),
        Make::Rolled(a) => values[a].roll(1, 1),
        Make::Product(a) => values[a].matmul(weights),
        Make::RowsOf(a, b) => values[a].slice_assign(0, 1, 2, 1, &values[b].narrow(0, 0, 1)),
        Make::Softened(a) => values[a].softmax(1),
    }
}

impl Read {
    fn of(self, values: &[Tensor], older: &[Tensor]) -> Result<Vec<f64>> {
        match self {
            Read::Sum(n) => values[n].sum(..).to_vec(),
            Read::Max(n) => values[n].max(..).to_vec(),
            Read::Row(n, row) => values[n].narrow(0, row, 1).to_vec(),
            Read::Part(n, row) => (values[n].select(0, row) * 2.0).cos().to_vec(),
            Read::Older(n) => older[n].exp().mean(..).to_vec(),
        }
    }
}

fn check(seed: u64) {
    let program = Program::random(seed);
    // As many periods as lines of plans may take to repeat, twice over.
    let period = program.reads.len();
    let steps = 24 * period;
    let fail = |what: String| panic!("seed {seed}: {what}\n{program:?}");
    let run = |mode| with_mode(mode, || program.run(steps));
    let want = run(Mode::Eager).unwrap_or_else(|e| fail(e.to_string()));
    let got = run(Mode::Compiled).unwrap_or_else(|e| fail(e.to_string()));
    for (step, ((got, _), (want, _))) in got.iter().zip(&want).enumerate() {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-10 * b.abs().max(1.0);
        if got.len() != want.len() || !got.iter().zip(want).all(near) {
            fail(format!("step {step} reads {got:?}, eagerly {want:?}"));
        }
    }
    let work = |steps: &[(Vec<f64>, [u64; 3])]| {
        let add = |sum: [u64; 3], (_, work): &(_, [u64; 3])| [0, 1, 2].map(|i| sum[i] + work[i]);
        steps.iter().fold([0; 3], add)
    };
    let (before, after) = (
        work(&got[steps - 12 * period..steps - 6 * period]),
        work(&got[steps - 6 * period..]),
    );
    if before != after || after[2] > 0 {
        fail(format!(
            "kernels, bytes and plans: {before:?}, then {after:?}"
        ));
    }
}

#[test]
fn random_loops_are_flat_and_give_eager_numbers() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let start = number("FERROTRACE_FUZZ_SEED").unwrap_or(0);
    let count: u64 = number("FERROTRACE_FUZZ_COUNT").unwrap_or(16);
    (start..start + count).for_each(check);
}
