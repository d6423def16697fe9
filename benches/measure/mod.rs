//! Measuring: interleaved rounds, medians, bootstrap intervals, tables.
//!
//! Contenders take turns, round after round, so that what slows the machine slows them alike; a ratio is taken within a
//! round, and its median stands with an interval that a bootstrap over the rounds gives (Efron, 1979).
#![allow(dead_code)] // Each benchmark uses a part.

pub mod child;
pub mod input;
pub mod modes;
pub mod serve;
pub mod table;

use std::time::{Duration, Instant};

/// A result of a benchmark, or why there is none.
pub type Outcome<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// What the command line asks for: `--rounds N`, `--callers N`, `--smoke`, names of rows. Others start with `--` and are
/// passed on.
#[derive(Clone, Debug)]
pub struct Options {
    /// Rounds of each comparison.
    pub rounds: usize,
    /// How long a sample lasts at least.
    pub sample: Duration,
    /// The most threads that call at the same time: all cores, if nothing is said.
    pub callers: usize,
    /// Rows wanted, all if empty; a row is wanted if its name contains one of these.
    pub names: Vec<String>,
}

impl Options {
    /// The options that the command line gives.
    pub fn from_args() -> Options {
        let mut options = Options {
            rounds: 21,
            sample: Duration::from_millis(20),
            callers: std::thread::available_parallelism().map_or(1, |n| n.get()),
            names: Vec::new(),
        };
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--smoke" => {
                    options.rounds = 1;
                    options.sample = Duration::from_micros(100);
                }
                "--rounds" => {
                    let rounds = args.next().and_then(|n| n.parse().ok());
                    options.rounds = rounds.unwrap_or(options.rounds).max(1);
                }
                "--callers" => {
                    let callers = args.next().and_then(|n| n.parse().ok());
                    options.callers = callers.unwrap_or(options.callers).max(1);
                }
                name if !name.starts_with("--") => options.names.push(name.to_owned()),
                _ => {}
            }
        }
        options
    }

    /// Whether a row is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|wanted| name.contains(wanted))
    }
}

/// What is measured: runs `n` times and gives the time that counts.
pub type Contender<'a> = Box<dyn FnMut(u32) -> Duration + 'a>;

/// A contender all of whose time counts.
pub fn whole<'a>(mut f: impl FnMut() + 'a) -> Contender<'a> {
    Box::new(move |n| {
        let start = Instant::now();
        for _ in 0..n {
            f();
        }
        start.elapsed()
    })
}

/// Nanoseconds a run, by contender and round. A sample is as many runs as last [`Options::sample`], after one untimed
/// eighth of them.
pub fn interleaved(contenders: &mut [Contender<'_>], options: &Options) -> Vec<Vec<f64>> {
    let runs: Vec<u32> = contenders
        .iter_mut()
        .map(|c| calibrate(c, options.sample))
        .collect();
    let mut samples = vec![Vec::with_capacity(options.rounds); contenders.len()];
    for round in 0..options.rounds {
        for turn in 0..contenders.len() {
            // Every contender comes first as often as the others.
            let i = (turn + round) % contenders.len();
            contenders[i](runs[i] / 8 + 1);
            let time = contenders[i](runs[i]);
            samples[i].push(time.as_nanos() as f64 / runs[i] as f64);
        }
    }
    samples
}

/// How many runs last about `sample`.
fn calibrate(contender: &mut Contender<'_>, sample: Duration) -> u32 {
    contender(1);
    let mut n = 1u32;
    loop {
        let start = Instant::now();
        contender(n);
        let time = start.elapsed();
        if time >= sample / 4 || n > 1 << 24 {
            let wanted = n as f64 * sample.as_secs_f64() / time.as_secs_f64().max(1e-9);
            return wanted.clamp(1.0, 1e8) as u32;
        }
        n *= 4;
    }
}

/// The middle value; the mean of the two in the middle of an even number.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// A median ratio and its 95 % interval.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// The median over the rounds.
    pub median: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The ratio of two contenders' times, paired by round. The bootstrap's seed is fixed.
pub fn ratio(ours: &[f64], theirs: &[f64]) -> Ratio {
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a / b).collect();
    let (median, low, high) = with_interval(&ratios);
    Ratio { median, low, high }
}

/// A median with the 2.5 and 97.5 percentiles of the medians of 2,000 resamples.
pub fn with_interval(values: &[f64]) -> (f64, f64, f64) {
    const RESAMPLES: usize = 2000;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let resample: Vec<f64> = values
                .iter()
                .map(|_| {
                    state = input::mix(state);
                    values[(state % values.len() as u64) as usize]
                })
                .collect();
            median(&resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (
        median(values),
        medians[RESAMPLES / 40],
        medians[RESAMPLES - 1 - RESAMPLES / 40],
    )
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} [{:.3}, {:.3}]", self.median, self.low, self.high)
    }
}

/// Nanoseconds in a unit that suits them.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds {
        t if t < 1e3 => format!("{t:.1} ns"),
        t if t < 1e6 => format!("{:.2} µs", t / 1e3),
        t if t < 1e9 => format!("{:.3} ms", t / 1e6),
        t => format!("{:.2} s", t / 1e9),
    }
}
