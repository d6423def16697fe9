//! Running a program in every way, and what must be the same.

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

/// A program: what it starts from, and what a step makes of it.
pub struct Program {
    pub state: fn() -> Vec<Tensor>,
    pub step: fn(Vec<Tensor>) -> Vec<Tensor>,
    pub steps: usize,
    /// For each tensor of the last state, its sum and that weighted by position (see [`summary`]).
    pub expected: &'static [[f64; 2]],
    /// The tolerance, relative to the largest sum of magnitudes.
    pub tolerance: f64,
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Eager,
    Evaluated,
    OneTrace,
    Read,
    GivenAway,
    Lent,
}

/// Numbers from −2 to 2 in thousandths.
pub fn noise(shape: &[usize], seed: usize) -> Tensor {
    let n: usize = shape.iter().product();
    let number = |i: usize| ((i * 7919 + 13 + seed * 104_729) % 4001) as f64 / 1000.0 - 2.0;
    Tensor::from_vec(
        (0..n).map(number).collect::<Vec<f64>>(),
        shape,
        &Device::cpu(),
    )
}

/// The sum of a tensor's elements; that with the weights 0, 37/101, 74/101, 10/101, .. ; and the sum of magnitudes.
fn summary(x: &Tensor) -> Result<[f64; 3]> {
    let x = with_mode(Mode::Eager, || x.to_dtype(DType::F64)).to_vec::<f64>()?;
    let mut sums = [0.0; 3];
    for (i, x) in x.into_iter().enumerate() {
        sums[0] += x;
        sums[1] += x * ((i * 37 % 101) as f64 / 101.0);
        sums[2] += x.abs();
    }
    Ok(sums)
}

/// Work of some steps: kernels, bytes, plans, kernels compiled.
type Work = [u64; 4];

/// Steps of one period of work: buffers and plans may take turns.
const PERIOD: usize = 4;

impl Program {
    /// Runs it in every way.
    #[track_caller]
    pub fn check(&self) {
        let ways = [
            Way::Eager,
            Way::Evaluated,
            Way::OneTrace,
            Way::Read,
            Way::GivenAway,
            Way::Lent,
        ];
        let mut evaluated = 0;
        for way in ways {
            let (state, work) = self.run(way).unwrap_or_else(|e| panic!("{way:?}: {e}"));
            let state: Result<Vec<_>> = state.iter().map(summary).collect();
            let state = state.unwrap_or_else(|e| panic!("{way:?}: {e}"));
            assert_eq!(state.len(), self.expected.len(), "{way:?}: {state:?}");
            for (got, want) in state.iter().zip(self.expected) {
                let close = |i: usize| (got[i] - want[i]).abs() <= self.tolerance * got[2].max(1.0);
                assert!(close(0) && close(1), "{way:?}: {state:?}");
            }
            if way == Way::OneTrace {
                // A long trace is computed up to some step now and then, by a plan that serves again.
                let total = |what: usize| work.iter().map(|work| work[what]).sum::<u64>();
                let (kernels, plans) = (total(0), total(2));
                let most = evaluated * work.len() as u64;
                assert!(plans <= 3, "{plans} plans");
                assert!(kernels <= most + most / 4, "{kernels} kernels for {most}");
                continue;
            }
            // The first period may begin from less.
            if let [_, .., before, last] = &work[..] {
                assert_eq!(before[..2], last[..2], "{way:?}: kernels, bytes");
            }
            let last = work.last().copied().unwrap_or_default();
            assert_eq!(last[2..], [0, 0], "{way:?}: plans, compiled");
            match way {
                Way::Evaluated => evaluated = last[0],
                // What is read takes a kernel at each step, what is pending at most a quarter more.
                Way::Read => {
                    let most = evaluated + evaluated / 4 + PERIOD as u64;
                    assert!(last[0] <= most, "{} kernels for {evaluated}", last[0]);
                }
                _ => {}
            }
        }
    }

    /// The last state, and the work of each period.
    fn run(&self, way: Way) -> Result<(Vec<Tensor>, Vec<Work>)> {
        let step = self.step;
        let given = jit(move |s: Vec<Tensor>| step(s));
        let lent = jit(move |s: Vec<&Tensor>| step(s.into_iter().cloned().collect()));
        let mut state = (self.state)();
        eval(&state)?;
        let mut periods = Vec::new();
        for _ in 0..self.steps / PERIOD {
            let (done, stats) = stats_scope(|| {
                for _ in 0..PERIOD {
                    state = match way {
                        Way::Eager => with_mode(Mode::Eager, || step(std::mem::take(&mut state))),
                        Way::GivenAway => given.call(std::mem::take(&mut state)),
                        Way::Lent => lent.call(state.iter().collect()),
                        _ => step(std::mem::take(&mut state)),
                    };
                    match way {
                        Way::OneTrace => {}
                        Way::Read => {
                            let first = state[0].to_dtype(DType::F64);
                            first.sum(..).to_scalar::<f64>()?;
                        }
                        _ => eval(&state)?,
                    }
                }
                Ok(())
            });
            done?;
            let kernels = stats.kernels_launched + stats.library_calls;
            periods.push([
                kernels,
                stats.bytes_allocated,
                stats.plans_built,
                stats.kernels_compiled,
            ]);
        }
        eval(&state)?;
        Ok((state, periods))
    }
}
