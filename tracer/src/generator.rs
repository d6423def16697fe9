//! Random generators: a key and a counter, from which random operations take their numbers when recorded.

use once_cell::sync::Lazy;
use parking_lot::Mutex;
use std::sync::Arc;

/// A counter-based random generator: Philox-4x32-10 by a key and an offset.
///
/// Every random operation takes as many offsets as it makes numbers, rounded up to a multiple of 4, when it is
/// recorded; so what it draws depends neither on when, where and how it runs, nor on what runs beside it. Clones share
/// one counter. Where several threads draw, give each a generator of its own.
#[derive(Clone, Debug)]
pub struct Generator(Arc<Mutex<GeneratorState>>);

/// Where a generator stands: what it draws from here on follows from this alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GeneratorState {
    /// What it was seeded with.
    pub key: u64,
    /// How many numbers it gave away, counted as it takes them: by the operation, rounded up to a multiple of 4.
    pub offset: u64,
}

static PROCESS: Lazy<Generator> = Lazy::new(|| Generator::new(0));

/// The process-wide generator, which the random functions of [`Tensor`] draw from.
pub(crate) fn process() -> &'static Generator {
    &PROCESS
}

/// Starts the process-wide generator anew from `seed`. It starts from 0 at first.
pub fn manual_seed(seed: u64) {
    PROCESS.seed(seed);
}

impl Generator {
    /// A generator started from `seed`.
    pub fn new(seed: u64) -> Generator {
        Generator(Arc::new(Mutex::new(GeneratorState {
            key: seed,
            offset: 0,
        })))
    }

    /// The process-wide generator, which [`Tensor::randn`](crate::Tensor::randn) and its like draw from.
    pub fn process() -> Generator {
        PROCESS.clone()
    }

    fn seed(&self, seed: u64) {
        self.set_state(GeneratorState {
            key: seed,
            offset: 0,
        });
    }

    /// Where it stands. Operations recorded before have drawn, whether they have run or not.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let generator = Generator::new(7);
    /// let state = generator.state();
    /// let x = generator.randn(3, DType::F32, &Device::cpu());
    /// generator.set_state(state);
    /// let y = generator.randn(3, DType::F32, &Device::cpu());
    /// assert_eq!(x.to_vec::<f32>()?, y.to_vec::<f32>()?);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn state(&self) -> GeneratorState {
        *self.0.lock()
    }

    /// Goes on from where a generator stood, this one or another; so do its clones.
    pub fn set_state(&self, state: GeneratorState) {
        *self.0.lock() = state;
    }

    /// Whether both share one counter.
    pub(crate) fn is_same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Key, and first of as many offsets as `numel` numbers take.
    pub(crate) fn advance(&self, numel: usize) -> (u64, u64) {
        let mut position = self.0.lock();
        let taken = (numel as u64)
            .checked_next_multiple_of(4)
            .unwrap_or(u64::MAX);
        let first = position.offset;
        position.offset = first.wrapping_add(taken);
        (position.key, first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_multiples_of_four() {
        let g = Generator::new(7);
        assert_eq!(g.advance(5), (7, 0));
        assert_eq!(g.clone().advance(0), (7, 8));
        assert_eq!(g.advance(4), (7, 8));
        assert_eq!(g.advance(1), (7, 12));
        g.seed(9);
        assert_eq!(g.advance(1), (9, 0));
        let state = g.state();
        assert_eq!((state.key, state.offset), (9, 4));
        let other = Generator::new(1);
        other.set_state(state);
        assert_eq!(other.advance(1), g.advance(1));
    }
}
