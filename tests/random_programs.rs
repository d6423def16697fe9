//! Random programs, written as users write them: steps of a loop over a state, recorded lazily and flushed at random, or in
//! `jit` functions that are lent their state or given it. Each gives eager mode's numbers, those of what adds nothing up to the
//! bit where every operation rounds, and what a caller keeps does not change. `FERROTRACE_FUZZ_SEED` and `FERROTRACE_FUZZ_COUNT` choose others.

#[path = "common/rng.rs"]
#[allow(dead_code, missing_docs)]
mod rng;

use ferrotrace::prelude::*;
use ferrotrace::{Precision, cond, scan, value_and_grad, while_loop, with_precision};
use rng::Rng;

/// Elements of a value at most.
const LARGEST: usize = 4000;
const STEPS: usize = 5;

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Eager,
    /// Flushed where it ends.
    Lazy,
    /// Flushed and read at random places.
    Flushed,
    Lent,
    /// A `jit` function is given the state, which is kept beside it now and then.
    Given,
}

/// What programs are drawn.
#[derive(Clone, Copy, Debug)]
struct Family {
    dtype: DType,
    /// Whether there are operations whose sums depend on their order.
    sums: bool,
}

/// What an operation is drawn from.
struct Draw<'a> {
    family: Family,
    rng: &'a mut Rng,
    values: &'a [Tensor],
    /// The number of the step, of no dimensions.
    step: &'a Tensor,
}

impl Draw<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n)
    }

    /// A dimension of a value, and its size.
    fn dim(&mut self, x: &Tensor) -> (usize, usize) {
        let dim = self.below(x.rank());
        (dim, x.dims()[dim])
    }

    /// A value that broadcasts with another.
    fn partner(&mut self, x: &Tensor) -> Tensor {
        let fits = |y: &Tensor| {
            let mut sizes = x.dims().iter().rev().zip(y.dims().iter().rev());
            sizes.all(|(a, b)| a == b || *a == 1 || *b == 1)
        };
        let start = self.below(self.values.len());
        let (late, early) = (&self.values[start..], &self.values[..start]);
        let found = late.iter().chain(early).find(|y| fits(y));
        found.unwrap_or(x).to_dtype(x.dtype())
    }
}

/// Functions that do not enlarge differences, so that rounding does not grow from step to step.
fn function(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    match d.below(20) {
        0 => x.sin(),
        1 => x.tanh(),
        2 => x.sigmoid(),
        3 => x.abs(),
        4 => x.relu(),
        5 => x * 0.5 + 0.25,
        6 => (x.abs() + 1.0).sqrt(),
        7 => (-(x * x)).exp(),
        8 => -x,
        9 => x.clamp(-0.5, 0.7),
        10 => (x.abs() + 0.5).log(),
        11 => (x * x + 1.0).recip(),
        12 => x.gelu(),
        13 => x.softplus(),
        14 => x.erf(),
        15 => x.atan(),
        16 => 1.0 - x,
        17 => x.contiguous(),
        18 => x.detach(),
        _ => x.clone(),
    }
}

fn pair(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let y = d.partner(x);
    match d.below(6) {
        0 => x * 0.5 + &y * 0.5,
        1 => (x * &y).clamp(-3.0, 3.0),
        2 => x.maximum(&y),
        3 => x.gt(&y).where_cond(x, &y * 0.5),
        4 => x - &y,
        _ => x / (y.abs() + 1.0),
    }
}

fn reduction(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let (dim, n) = d.dim(x);
    let part = 1.0 / n as f64;
    match d.below(10) {
        0 => x.sum(dim) * part,
        1 => x.max(dim),
        2 => x.logsumexp(dim) * 0.5,
        3 => x.softmax(dim),
        4 => x.cumsum(dim) * part,
        5 => x - x.mean_keepdim(dim),
        6 => x.var_keepdim(dim, 0) + x * 0.5,
        7 => x.log_softmax(dim) * 0.3,
        8 => x.min_keepdim(dim),
        _ => x.mean(..),
    }
}

fn view(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let (dim, n) = d.dim(x);
    let start = d.below(n);
    match d.below(11) {
        0 => x.transpose(0, -1),
        1 => x.flip(dim),
        2 => x.narrow(dim, start as isize, 1 + d.below(n - start)),
        3 => x.slice(dim, start as isize, n as isize, 1 + d.below(3)),
        4 => x.reshape([-1]),
        5 => x.unsqueeze(dim),
        6 => x.select(dim, start as isize),
        7 => x.roll(start as isize - 2, dim),
        8 if x.numel() < LARGEST => Tensor::cat([x, &(x * 0.5)], dim),
        9 => {
            let windows = x.unfold(dim, n.min(3), 1 + d.below(2));
            match d.family.sums {
                true => windows.mean(-1),
                false => windows.max(-1),
            }
        }
        10 => x.permute((0..x.rank()).rev().collect::<Vec<_>>()),
        _ => x.clone(),
    }
}

fn join(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let y = d.partner(x);
    match d.below(3) {
        _ if x.dims() != y.dims() || x.numel() > LARGEST / 2 => x + y * 0.25,
        0 => Tensor::cat([x, &y], d.dim(x).0),
        1 => Tensor::stack([&y, x], d.dim(x).0),
        _ => {
            let mut pads = vec![(0, 0); x.rank()];
            pads[d.dim(x).0] = (d.below(3) as isize, 1);
            x.pad(&pads, 0.5)
        }
    }
}

fn product(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let x = if x.rank() == 1 {
        x.unsqueeze(0)
    } else {
        x.clone()
    };
    let n = x.dims()[x.rank() - 1];
    let right = d.values.iter().rev().find_map(|y| match y.dims()[..] {
        [rows] if rows == n => Some(y.clone()),
        [rows, _] if rows == n => Some(y.clone()),
        [_, columns] if columns == n => Some(y.t()),
        _ => None,
    });
    let right = right.map_or_else(|| x.transpose(-2, -1), |y| y.to_dtype(x.dtype()));
    match x.numel() / n * right.dims()[right.rank() - 1] > LARGEST {
        true => x,
        false => x.matmul(&right) * (1.0 / n as f64),
    }
}

/// Parts written, at places that are known or that the step says.
fn write(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let (dim, n) = d.dim(x);
    let start = d.below(n);
    let end = start + 1 + d.below(n - start);
    let (from, to) = (start as isize, end as isize);
    let place = d.step.remainder(n as i64).reshape([1]);
    match d.below(6) {
        0 => x.slice_assign(dim, from, to, 1, &(x.slice(dim, from, to, 1) * 0.5 + 0.1)),
        1 => x.select_assign(dim, from, &x.select(dim, to - 1).tanh()),
        2 => x.slice_assign(dim, 0, n as isize, 2, &x.slice(dim, 0, n as isize, 2).sin()),
        // What is written is read a place before.
        3 => x.slice_assign(dim, 1, n as isize, 1, &x.slice(dim, 0, n as isize - 1, 1)),
        4 => x.index_select(dim, &place),
        _ => x
            .index_add(dim, &place, &(x.narrow(dim, 0, 1) * 0.5))
            .clamp(-3.0, 3.0),
    }
}

fn order(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let (dim, n) = d.dim(x);
    let sorted = x.argsort(dim, d.rng.chance(50));
    match d.below(7) {
        0 => x.gather(dim, &sorted),
        1 => x.sort(dim, true).0,
        2 => x.topk(1 + d.below(n), dim, true).0,
        3 => x.scatter_add(dim, &sorted, &(x * 0.25)).clamp(-3.0, 3.0),
        4 => x.cummax(dim).0,
        5 => x.argmax(dim).to_dtype(x.dtype()) * (1.0 / n as f64),
        _ => sorted.to_dtype(x.dtype()) * (1.0 / n as f64) - x,
    }
}

/// Integers, truth values and bytes on the way.
fn integers(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let (dim, n) = d.dim(x);
    let whole = (x * 7.0).floor().to_dtype(DType::I64);
    let made = match d.below(9) {
        0 => whole.remainder(5) - whole.floor_divide(3),
        1 => whole.cumsum(dim),
        2 => (&whole & 6) ^ (whole.clone() << 1),
        3 => whole.gt(0).logical_and(&x.lt(0.5)).to_dtype(DType::U8) * 3,
        4 => x.gt(0.1).any_keepdim(dim).to_dtype(DType::I32) + whole.to_dtype(DType::I32),
        5 => whole
            .eq(&d.partner(x).floor().to_dtype(DType::I64))
            .sum(dim),
        6 => whole
            .clamp(0, n as i64 - 1)
            .gather(dim, &whole.clamp(0, n as i64 - 1)),
        7 => whole.remainder(4).one_hot(4).sum(dim),
        _ => x.gt(0.0).logical_not().to_dtype(DType::U8) + whole.to_dtype(DType::U8),
    };
    (made.to_dtype(x.dtype()) * 0.2).clamp(-3.0, 3.0)
}

fn control(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    match d.below(3) {
        0 => {
            let step = |c: &Tensor, x: &Tensor| {
                let c = c * 0.5 + x * 0.5;
                (c.clone(), c.tanh())
            };
            let (last, all) = scan(step, &x.select(0, 0).zeros_like(), x);
            if d.rng.chance(50) { all } else { last }
        }
        1 => cond(&x.mean(..).gt(0.1), Tensor::sin, |x: &Tensor| x * 0.5, x),
        _ => {
            let goes_on =
                |(x, i): &(Tensor, Tensor)| x.abs().mean(..).gt(0.2).logical_and(&i.lt(5));
            let body = |(x, i): &(Tensor, Tensor)| (x * 0.7, i + 1);
            while_loop(goes_on, body, &(x.clone(), d.step.zeros_like())).0
        }
    }
}

fn gradient(d: &mut Draw<'_>, x: &Tensor) -> Tensor {
    let (dim, _) = d.dim(x);
    if d.rng.chance(50) {
        let leaf = x.detach().requires_grad();
        let y = function(d, &leaf) + &leaf * 0.1;
        let loss = (y * x.detach()).mean(..) + leaf.cumsum(dim).tanh().mean(..);
        return grad(&loss, &[&leaf]).remove(0) * 3.0;
    }
    let (loss, slope) = value_and_grad(x, |x| {
        let y = x.softmax(dim);
        (&y * &y).sum(..) + (x * 0.5).sin().mean(..)
    });
    slope + loss.tanh()
}

type Operation = fn(&mut Draw<'_>, &Tensor) -> Tensor;

/// Operations: how often they are drawn, and whether sums in them depend on their order.
const OPERATIONS: [(usize, bool, Operation); 11] = [
    (18, false, function),
    (15, false, pair),
    (12, true, reduction),
    (14, false, view),
    (6, false, join),
    (8, true, product),
    (8, false, write),
    (7, false, order),
    (5, false, integers),
    (3, true, control),
    (4, true, gradient),
];

fn operation(d: &mut Draw<'_>) -> Tensor {
    let recent = d.values.len().min(3);
    let at = match d.rng.chance(60) {
        true => d.values.len() - 1 - d.below(recent),
        false => d.below(d.values.len()),
    };
    let x = d.values[at].clone();
    let sums = d.family.sums;
    let known = OPERATIONS.iter().filter(|(_, has, _)| sums || !has);
    let mut drawn = d.below(known.clone().map(|(weight, ..)| weight).sum());
    if x.rank() == 0 {
        return pair(d, &x);
    }
    for (weight, _, operation) in known {
        match drawn.checked_sub(*weight) {
            Some(rest) => drawn = rest,
            None => return operation(d, &x),
        }
    }
    x
}

/// One step of a program: the next state, and a value on the way.
fn step(
    family: Family,
    seed: u64,
    state: &[Tensor],
    held: &[Tensor],
    at: &Tensor,
    mut flush: Option<&mut Rng>,
) -> (Vec<Tensor>, Tensor) {
    let mut rng = Rng::new(seed);
    let mut values: Vec<Tensor> = held.iter().chain(state).cloned().collect();
    let given = values.len();
    for _ in 0..3 + rng.below(14) {
        let mut draw = Draw {
            family,
            rng: &mut rng,
            values: &values,
            step: at,
        };
        let next = operation(&mut draw);
        values.push(next);
        if let Some(flush) = flush.as_deref_mut() {
            if flush.chance(12) {
                values[flush.below(values.len())].eval().expect("evaluated");
            }
            if flush.chance(4) {
                numbers(&values[values.len() - 1]).expect("read");
            }
        }
    }
    let probe = values[values.len() - 1].clone();
    let next = state.iter().map(|old| {
        let alike = values[given..].iter().filter(|x| x.dims() == old.dims());
        let alike: Vec<&Tensor> = alike.collect();
        match alike.len() {
            0 if family.sums => old * 0.5 + probe.mean(..).tanh() * 0.5,
            0 => old * 0.5,
            n => (alike[rng.below(n)] * 0.9).clamp(-4.0, 4.0),
        }
    });
    (next.collect(), probe)
}

fn numbers(x: &Tensor) -> Result<Vec<f64>> {
    x.to_dtype(DType::F64).to_vec()
}

/// Tensors of few elements, some of them transposed.
fn tensors(rng: &mut Rng, count: usize, dtype: DType) -> Vec<Tensor> {
    let tensor = |_| {
        let rank = rng.pick(&[0, 1, 2, 2, 2, 2, 3, 3]);
        let shape: Vec<usize> = (0..rank)
            .map(|_| rng.pick(&[1, 2, 3, 4, 5, 8, 16, 17]))
            .collect();
        let data: Vec<f64> = (0..shape.iter().product())
            .map(|_| rng.uniform(-1.5, 1.5))
            .collect();
        let x = Tensor::from_vec(data, shape, &Device::cpu()).to_dtype(dtype);
        x.eval().expect("converted");
        if rank >= 2 && rng.chance(25) {
            x.transpose(0, 1)
        } else {
            x
        }
    };
    (0..count).map(tensor).collect()
}

/// What each step and the last state hold.
fn run(family: Family, seed: u64, way: Way) -> Result<Vec<Vec<f64>>> {
    let mut rng = Rng::new(seed + 1);
    let (states, others) = (1 + rng.below(3), 1 + rng.below(2));
    let (mut state, held) = (
        tensors(&mut rng, states, family.dtype),
        tensors(&mut rng, others, family.dtype),
    );
    let captured = held.clone();
    let lent = jit(move |(s, at): (Vec<&Tensor>, &Tensor)| {
        let s: Vec<Tensor> = s.into_iter().cloned().collect();
        step(family, seed, &s, &captured, at, None)
    });
    let captured = held.clone();
    let given =
        jit(move |(s, at): (Vec<Tensor>, &Tensor)| step(family, seed, &s, &captured, at, None));
    let mut probes = Vec::new();
    for i in 0..STEPS {
        let at = Tensor::scalar(i as i64, DType::I64, &Device::cpu());
        let kept = if rng.chance(40) {
            state.clone()
        } else {
            Vec::new()
        };
        let before: Vec<_> = kept.iter().map(numbers).collect::<Result<_>>()?;
        let (next, probe) = match way {
            Way::Lent => lent.call((state.iter().collect(), &at)),
            Way::Given => given.call((state, &at)),
            Way::Flushed => step(family, seed, &state, &held, &at, Some(&mut rng)),
            Way::Eager | Way::Lazy => step(family, seed, &state, &held, &at, None),
        };
        state = next;
        probes.push(probe);
        for (kept, before) in kept.iter().zip(before) {
            assert!(
                numbers(kept)? == before,
                "seed {seed}, {way:?}: what is kept changed"
            );
        }
    }
    probes.iter().chain(&state).map(numbers).collect()
}

/// Compares every way with eager mode; `same` says whether two numbers may stand for each other.
fn compare(family: Family, count: u64, same: fn(f64, f64) -> bool) {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let start = number("FERROTRACE_FUZZ_SEED").unwrap_or(0);
    let count: u64 = number("FERROTRACE_FUZZ_COUNT").unwrap_or(count);
    for seed in start..start + count {
        let fail = |way: Way, error: Error| -> ! { panic!("seed {seed}, {way:?}: {error}") };
        let want = with_mode(Mode::Eager, || run(family, seed, Way::Eager));
        let want = want.unwrap_or_else(|error| fail(Way::Eager, error));
        for way in [Way::Lazy, Way::Flushed, Way::Lent, Way::Given] {
            let got = with_mode(Mode::Compiled, || run(family, seed, way));
            let got = got.unwrap_or_else(|error| fail(way, error));
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let near = |(&a, &b): (&f64, &f64)| same(a, b) || a.is_nan() && b.is_nan();
                let all = got.len() == want.len() && got.iter().zip(want).all(near);
                assert!(
                    all,
                    "seed {seed}, {family:?}, {way:?}, value {i}: {got:?} for {want:?}"
                );
            }
        }
    }
}

#[test]
fn programs_give_eager_numbers() {
    let family = Family {
        dtype: DType::F64,
        sums: true,
    };
    compare(family, 12, |a, b| (a - b).abs() <= 1e-9 * b.abs().max(1.0));
}

#[test]
fn programs_that_round_everywhere_give_eager_bits() {
    for dtype in [DType::BF16, DType::F16, DType::F32] {
        let family = Family { dtype, sums: false };
        with_precision(Precision::EagerExact, || {
            compare(family, 5, |a, b| a.to_bits() == b.to_bits());
        });
    }
}
