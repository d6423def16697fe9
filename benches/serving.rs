//! Threads that serve requests: how calls a second grow with the number of callers.
//!
//! ```text
//! cargo bench --bench serving [-- --callers N] [--rounds N] [--smoke] [names]
//! ```
//!
//! Every caller has an input of its own, and all call the same functions of the same weights. A row says how many calls a
//! second all callers together made, how many times those of one caller that is, and how long a call took: the middle
//! value, and what one in a hundred exceeded. Numbers of callers take turns, round after round; the best round counts.

mod measure;

use ferrotrace::prelude::*;
use measure::table::Table;
use measure::{Options, Outcome, time};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Answers a request, of this number, with this input.
type Service = Box<dyn Fn(usize, &Tensor) -> Tensor + Send + Sync>;

/// A model that is served.
struct Case {
    name: &'static str,
    service: fn() -> Service,
    input: [usize; 2],
}

const CASES: [Case; 5] = [
    Case {
        name: "32x32 product, relu, sum: jit",
        service: || {
            let w = random([32, 32]);
            let f = jit(move |x: &Tensor| x.matmul(&w).relu().sum(..));
            Box::new(move |_, x| f.call(x))
        },
        input: [32, 32],
    },
    Case {
        name: "32x32 product, relu, sum: lazy",
        service: || {
            let w = random([32, 32]);
            Box::new(move |_, x| x.matmul(&w).relu().sum(..))
        },
        input: [32, 32],
    },
    Case {
        name: "3 layers of 256, batch 1: jit",
        service: || {
            let f = layers();
            let f = jit(move |x: &Tensor| f(x));
            Box::new(move |_, x| f.call(x))
        },
        input: [1, 256],
    },
    Case {
        name: "3 layers of 256, batch 1: lazy",
        service: || {
            let f = layers();
            Box::new(move |_, x| f(x))
        },
        input: [1, 256],
    },
    Case {
        name: "8 functions in turn: jit",
        service: || {
            let services = functions();
            Box::new(move |request, x| services[request % services.len()](request, x))
        },
        input: [16, 64],
    },
];

fn random<const N: usize>(shape: [usize; N]) -> Tensor {
    let random = Tensor::rand(shape, DType::F32, &Device::cpu()) - 0.5;
    // An error comes up where it is used.
    let _ = random.eval();
    random
}

fn layers() -> impl Fn(&Tensor) -> Tensor + Send + Sync + 'static {
    let weights: Vec<(Tensor, Tensor)> = (0..3)
        .map(|_| (random([256, 256]), random([256])))
        .collect();
    move |x| {
        let layer = |x: Tensor, (w, b): &(Tensor, Tensor)| (x.matmul(w) + b).relu();
        weights.iter().fold(x.clone(), layer)
    }
}

fn functions() -> Vec<Service> {
    fn service(f: impl Fn(&Tensor) -> Tensor + Send + Sync + 'static) -> Service {
        let f = jit(move |x: &Tensor| f(x));
        Box::new(move |_, x| f.call(x))
    }
    let (w, b) = (random([64, 64]), random([64]));
    let (v, c) = (w.clone(), b.clone());
    vec![
        service(|x| x.softmax(-1)),
        service(|x| (x * 2.0 + 1.0).tanh()),
        service(|x| x.layer_norm(1, None, None, 1e-5)),
        service(move |x| x.matmul(&w) + &b),
        service(move |x| (x.matmul(&v) + &c).gelu().mean(-1)),
        service(|x| x.t().contiguous()),
        service(|x| (x - x.mean_keepdim(0)).square().sum(0)),
        service(|x| x.argmax(-1)),
    ]
}

/// What callers did: calls a second, and how long calls took, in nanoseconds.
#[derive(Clone, Default)]
struct Served {
    rate: f64,
    latencies: Vec<u32>,
}

/// Has so many callers make requests for the length of a sample.
fn serve(service: &Service, inputs: &[Tensor], options: &Options) -> Outcome<Served> {
    let (start, stop) = (Barrier::new(inputs.len() + 1), AtomicBool::new(false));
    let call = |x: &Tensor| -> Result<Vec<u32>, Error> {
        let warm = (0..64).try_for_each(|request| service(request, x).eval());
        let mut latencies = Vec::with_capacity(1 << 16);
        start.wait();
        warm?;
        let mut before = Instant::now();
        for request in 0.. {
            service(request, x).eval()?;
            let now = Instant::now();
            latencies.push((now - before).as_nanos() as u32);
            before = now;
            if stop.load(Relaxed) {
                break;
            }
        }
        Ok(latencies)
    };
    std::thread::scope(|scope| {
        let callers: Vec<_> = inputs.iter().map(|x| scope.spawn(|| call(x))).collect();
        start.wait();
        std::thread::sleep(options.sample);
        stop.store(true, Relaxed);
        let mut served = Served::default();
        for caller in callers {
            let latencies = caller.join().map_err(|_| "a caller panicked")??;
            // By its own clock: this thread may wake late, while callers have every core.
            let time: f64 = latencies.iter().map(|t| f64::from(*t) * 1e-9).sum();
            served.rate += latencies.len() as f64 / time;
            served.latencies.extend(latencies);
        }
        Ok(served)
    })
}

/// 1, 2, 4, .. and the most callers.
fn numbers_of_callers(most: usize) -> Vec<usize> {
    let powers = std::iter::successors(Some(1), |n| Some(2 * n));
    powers.take_while(|n| *n < most).chain([most]).collect()
}

fn rows(case: &Case, options: &Options, table: &mut Table) -> Outcome {
    let numbers = numbers_of_callers(options.callers);
    let service = (case.service)();
    let most = numbers.last().copied().unwrap_or(1);
    let inputs: Vec<Tensor> = (0..most).map(|_| random(case.input)).collect();
    let mut best = vec![Served::default(); numbers.len()];
    for round in 0..options.rounds {
        for turn in 0..numbers.len() {
            let i = (turn + round) % numbers.len();
            let served = serve(&service, &inputs[..numbers[i]], options)?;
            if served.rate > best[i].rate {
                best[i] = served;
            }
        }
    }
    let one = best[0].rate;
    for (callers, mut served) in numbers.into_iter().zip(best) {
        served.latencies.sort_unstable();
        let at = |part: usize| {
            let place = served.latencies.len() * part / 100;
            served.latencies.get(place).map_or(f64::NAN, |&t| t.into())
        };
        table.row([
            case.name.to_owned(),
            callers.to_string(),
            format!("{:.0}", served.rate),
            format!("{:.2}", served.rate / one),
            time(at(50)),
            time(at(99)),
        ]);
    }
    Ok(())
}

fn main() -> Outcome {
    let options = Options::from_args();
    let heads = [
        "function",
        "callers",
        "calls a second",
        "times one caller's",
        "middle call",
        "one in 100 above",
    ];
    let mut table = Table::new("Threads that serve requests", &heads);
    for case in CASES.iter().filter(|case| options.wants(case.name)) {
        rows(case, &options, &mut table)?;
    }
    table.print();
    Ok(())
}
