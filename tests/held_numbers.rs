//! Random loops over small states that hold numbers of their steps, read some of them, drop some, and go on in another
//! thread: compiled mode beside eager mode, in f64. `FERROTRACE_FUZZ_SEED` and `FERROTRACE_FUZZ_COUNT` choose the loops.

#[path = "common/rng.rs"]
#[allow(dead_code, missing_docs)]
mod rng;

use ferrotrace::prelude::*;
use rng::Rng;

/// What one line of a step does: state `to` from states `a` and `b`, and what is held of it.
#[derive(Clone, Copy, Debug)]
struct Line {
    update: usize,
    to: usize,
    a: usize,
    b: usize,
    held: usize,
}

const UPDATES: usize = 11;

/// The next state: bounded, whatever the states are.
fn update(line: Line, x: &Tensor, y: &Tensor, matrix: &Tensor, step: usize) -> Tensor {
    let n = x.numel();
    match line.update {
        0 => x * 0.7 + 0.1,
        1 => x.sin() * 0.9,
        2 => (x + y) * 0.45,
        3 => x.roll(1, 0) * 0.95,
        4 => (x - x.mean(..)) * 0.9,
        5 => x / (1.5 + x.norm(2.0, ..)),
        6 => {
            let at = (step % n) as isize;
            let part = y.narrow(0, at, 1) * 0.5;
            x.slice_assign(0, at, at + 1, 1, &part)
        }
        7 => matrix.matmul(x) * 0.05 + y * 0.3,
        8 => {
            let v = x.requires_grad();
            let loss = (v.square() * 0.3 + (&v * y).sin() * 0.2).sum(..);
            (x - &grad(&loss, &[&v])[0] * 0.3).detach()
        }
        9 => x.cumsum(0) * (0.5 / n as f64),
        _ => x.gt(y).where_cond(&(x * 0.8), &(y * 0.7)),
    }
}

/// A number of two states.
fn number(kind: usize, x: &Tensor, y: &Tensor) -> Tensor {
    match kind {
        0 => x.sum(..),
        1 => x.max(..),
        2 => x.square().mean(..),
        3 => x.norm(2.0, ..),
        4 => x.select(0, 0),
        5 => x.dot(y),
        _ => (x - y).abs().mean(..) * 0.5 + 1.0,
    }
}

const NUMBERS: usize = 7;

/// A loop.
#[derive(Clone, Debug)]
struct Program {
    elements: usize,
    states: usize,
    lines: Vec<Line>,
    steps: usize,
    /// Of a thousand steps, how many read a number, and how many drop what is held.
    reads: usize,
    drops: usize,
    changes_thread: bool,
    seed: u64,
}

impl Program {
    fn of(seed: u64) -> Program {
        let mut draws = Rng::new(seed);
        let elements = draws.pick(&[1, 5, 64, 700]);
        let states = 1 + draws.below(3);
        let updates = if elements > 64 { 7 } else { UPDATES };
        let lines = (0..1 + draws.below(4)).map(|_| Line {
            update: draws.below(updates),
            to: draws.below(states),
            a: draws.below(states),
            b: draws.below(states),
            held: draws.below(2 * NUMBERS),
        });
        Program {
            elements,
            states,
            lines: lines.collect(),
            steps: 50 + draws.below(500),
            reads: draws.pick(&[0, 0, 5, 100]),
            drops: draws.pick(&[0, 3, 30]),
            changes_thread: draws.below(5) == 0,
            seed,
        }
    }

    /// Runs it in this thread's mode, `mode`.
    fn run(&self, mode: Mode) -> Result<Vec<f64>> {
        let device = Device::cpu();
        let tensor = |count: usize, seed: usize| {
            let value = |i: usize| ((i * 7919 + seed * 104_729 + 13) % 4001) as f64 / 4000.0 - 0.5;
            Tensor::from_vec((0..count).map(value).collect::<Vec<f64>>(), count, &device)
        };
        let n = self.elements.min(64);
        let mut run = Run {
            states: (0..self.states).map(|i| tensor(self.elements, i)).collect(),
            matrix: tensor(n * n, 9).reshape([n, n]),
            held: Vec::new(),
            total: Tensor::zeros((), DType::F64, &device),
            read: Vec::new(),
        };
        let half = self.steps / 2;
        run.steps(self, 0..half)?;
        if self.changes_thread {
            let program = self.clone();
            let rest = move || {
                with_mode(mode, || run.steps(&program, half..program.steps))?;
                Ok(run)
            };
            let joined = std::thread::spawn(rest).join();
            run = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        } else {
            run.steps(self, half..self.steps)?;
        }
        let mut numbers = run.read;
        for state in &run.states {
            numbers.push(state.sum(..).item::<f64>()?);
            numbers.push(state.abs().max(..).item::<f64>()?);
        }
        for number in run.held.iter().chain([&run.total]) {
            numbers.push(number.item::<f64>()?);
        }
        Ok(numbers)
    }
}

/// What a loop has.
struct Run {
    states: Vec<Tensor>,
    matrix: Tensor,
    held: Vec<Tensor>,
    total: Tensor,
    read: Vec<f64>,
}

impl Run {
    fn steps(&mut self, program: &Program, steps: std::ops::Range<usize>) -> Result<()> {
        for step in steps {
            let mut draws = Rng::new(program.seed ^ (step as u64) << 32);
            for &line in &program.lines {
                let (x, y) = (self.states[line.a].clone(), self.states[line.b].clone());
                let next = update(line, &x, &y, &self.matrix, step);
                match line.held {
                    kind if kind < NUMBERS => self.held.push(number(kind, &next, &x)),
                    NUMBERS => self.total = &self.total * 0.9 + number(step % 4, &next, &x),
                    _ => {}
                }
                self.states[line.to] = next;
            }
            if draws.below(1000) < program.reads {
                let state = draws.below(program.states);
                let held = self.held.last().filter(|_| draws.below(2) == 0);
                let read = held.cloned().unwrap_or_else(|| self.states[state].sum(..));
                self.read.push(read.item()?);
            }
            if draws.below(1000) < program.drops {
                self.held.clear();
            }
        }
        Ok(())
    }
}

fn run_in(mode: Mode, program: &Program) -> Vec<f64> {
    let numbers = with_mode(mode, || program.run(mode));
    numbers.unwrap_or_else(|e| panic!("{mode:?} {program:?}: {e}"))
}

fn setting(name: &str, otherwise: u64) -> u64 {
    let set = std::env::var(name).ok().and_then(|set| set.parse().ok());
    set.unwrap_or(otherwise)
}

#[test]
fn random_loops_that_hold_numbers_are_those_of_eager_mode() {
    let first = setting("FERROTRACE_FUZZ_SEED", 0);
    for seed in first..first + setting("FERROTRACE_FUZZ_COUNT", 40) {
        let program = Program::of(seed);
        let eager = run_in(Mode::Eager, &program);
        let compiled = run_in(Mode::Compiled, &program);
        assert_eq!(compiled.len(), eager.len(), "{program:?}");
        for (i, (got, want)) in compiled.iter().zip(&eager).enumerate() {
            let close = (got - want).abs() <= 1e-9 * want.abs().max(1.0);
            assert!(close, "{program:?}: number {i} is {got} for {want}");
        }
    }
}
