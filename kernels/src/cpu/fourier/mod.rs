//! Discrete Fourier transforms of dense arrays along a dimension. Lines of numbers are transformed side by side, a lane of vectors
//! each; a line's result does not depend on how many there are, nor on the number of threads.

mod butterfly;
mod group;
mod lanes;
mod passes;
mod plan;
mod real;

pub use lanes::{Number, Pair};

use crate::cpu::dense::Shared;
use group::{Job, Place};
use lru::LruCache;
use plan::Plan;
use real::Real;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// The most numbers that plans which are kept have together, of each dtype.
const KEPT: usize = 1 << 22;

/// What transforms of a length need.
#[derive(Debug)]
enum Prepared<T> {
    Complex(Plan<T>),
    Real(Real<T>),
}

/// Plans by length, and whether they are of real numbers; those asked for last.
#[derive(Debug)]
pub struct Plans<T> {
    kept: LruCache<(usize, bool), Arc<Prepared<T>>>,
    numbers: usize,
}

impl<T: Number> Prepared<T> {
    fn size(&self) -> usize {
        match self {
            Prepared::Complex(plan) => plan.size(),
            Prepared::Real(real) => real.size(),
        }
    }
}

impl<T: Number> Plans<T> {
    fn new() -> Plans<T> {
        Plans {
            kept: LruCache::unbounded(),
            numbers: 0,
        }
    }

    /// Keeps a plan in the place of those that were not asked for longest.
    fn put(&mut self, key: (usize, bool), plan: &Arc<Prepared<T>>) {
        if plan.size() > KEPT {
            return;
        }
        let before = self.kept.put(key, Arc::clone(plan));
        self.numbers += plan.size() - before.map_or(0, |before| before.size());
        while self.numbers > KEPT
            && let Some((_, oldest)) = self.kept.pop_lru()
        {
            self.numbers -= oldest.size();
        }
    }
}

/// A number type with its plans.
pub trait Planned: Number {
    /// The plans of its transforms.
    fn plans() -> MutexGuard<'static, Plans<Self>>;
}

macro_rules! planned {
    ($($t:ident)*) => {$(
        impl Planned for $t {
            fn plans() -> MutexGuard<'static, Plans<$t>> {
                static PLANS: LazyLock<Mutex<Plans<$t>>> = LazyLock::new(|| Mutex::new(Plans::new()));
                PLANS.lock().unwrap_or_else(|e| e.into_inner())
            }
        }
    )*};
}
planned!(f32 f64);

/// The plan of a length. It is made outside of the lock: two threads may make the same.
fn prepared<T: Planned>(n: usize, real: bool) -> Arc<Prepared<T>> {
    let kept = T::plans().kept.get(&(n, real)).cloned();
    kept.unwrap_or_else(|| {
        let plan = Arc::new(match real {
            true => Prepared::Real(Real::new(n)),
            false => Prepared::Complex(Plan::new(n)),
        });
        T::plans().put((n, real), &plan);
        plan
    })
}

/// The transforms along n of `[.., n, inner]`: Σⱼ `x[j]`·exp(∓2πijk/n), the signs those of the inverse where that is asked for, times a
/// factor.
pub fn complex<T: Planned>(
    x: &[Pair<T>],
    out: &mut [Pair<T>],
    [n, inner]: [usize; 2],
    inverse: bool,
    scale: f64,
) {
    if x.is_empty() {
        return;
    }
    let lines = x.len() / n;
    let job = Job {
        from: x,
        read: Place::along(n, inner),
        to: Shared::new(out),
        write: Place::along(n, inner),
        inverse,
        scale: T::of(scale),
    };
    if let Prepared::Complex(plan) = &*prepared(n, false) {
        plan.run(&job, lines);
    }
}

/// The transforms of rows of `n` real numbers, of which rows of n / 2 + 1 complex ones are not conjugates of others.
pub fn real_to_half<T: Planned>(x: &[T], out: &mut [Pair<T>], n: usize) {
    if let Prepared::Real(real) = &*prepared(n, true) {
        real.forward(x, out);
    }
}

/// The inverse of [`real_to_half`], over n: the imaginary parts of the frequency 0, and of n / 2 for an even n, are not read.
pub fn half_to_real<T: Planned>(x: &[Pair<T>], out: &mut [T], n: usize) {
    if let Prepared::Real(real) = &*prepared(n, true) {
        real.inverse(x, out);
    }
}

#[cfg(test)]
mod tests;
