//! A transform of several lines at once, a lane each, by passes over their numbers: Stockham's algorithm, which needs no
//! reordering (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1.7).

use super::butterfly::{MOST, eight, five, four, odd, three, two};
use super::lanes::{Lanes, Number, Pair, Slots, WIDEST, dispatch};
use pulp::Simd;
use std::f64::consts::PI;
use std::marker::PhantomData;

/// exp(−2πi·`at`/`n`).
pub fn root<T: Number>(at: usize, n: usize) -> Pair<T> {
    let angle = -2.0 * PI * (at % n) as f64 / n as f64;
    [T::of(angle.cos()), T::of(angle.sin())]
}

/// Transforms of `radix` numbers, and factors behind them. What passes before made are blocks of `before` numbers.
#[derive(Debug)]
struct Pass<T> {
    radix: usize,
    before: usize,
    rest: usize,
    /// Of each of the rest, the factors of the results but the first.
    twiddles: Vec<Pair<T>>,
    /// The powers of the root of order `radix`, where that is computed by the definition.
    roots: Vec<Pair<T>>,
}

/// The passes of a length.
#[derive(Debug)]
pub struct Passes<T> {
    /// The length.
    pub n: usize,
    /// The slots of records of this machine.
    pub slots: [usize; WIDEST],
    passes: Vec<Pass<T>>,
}

/// The lengths of the passes of `n`: eights, at most two fours or a two, then odd primes. `None` where a prime is greater than
/// passes take.
fn radices(mut n: usize) -> Option<Vec<usize>> {
    let mut list = Vec::new();
    let mut twos = n.trailing_zeros();
    n >>= twos;
    while !twos.is_multiple_of(3) && twos > 1 {
        list.push(4);
        twos -= 2;
    }
    list.resize(list.len() + twos as usize / 3, 8);
    if !twos.is_multiple_of(3) {
        list.push(2);
    }
    for prime in (3..=MOST).step_by(2) {
        while n.is_multiple_of(prime) {
            list.push(prime);
            n /= prime;
        }
    }
    (n == 1).then_some(list)
}

/// Whether passes take the length `n`.
pub fn taken(n: usize) -> bool {
    radices(n).is_some()
}

impl<T: Number> Passes<T> {
    /// Of a length that is [`taken`].
    pub fn new(n: usize) -> Passes<T> {
        let (mut passes, mut before) = (Vec::new(), 1);
        for radix in radices(n).unwrap_or_default() {
            let rest = n / before / radix;
            let factor = |i: usize| root(i / (radix - 1) * (i % (radix - 1) + 1), rest * radix);
            let by_definition = |at: usize| root(radix - at, radix);
            passes.push(Pass {
                radix,
                before,
                rest,
                twiddles: (0..rest * (radix - 1)).map(factor).collect(),
                roots: match radix {
                    2..=5 | 8 => Vec::new(),
                    _ => (0..radix).map(by_definition).collect(),
                },
            });
            before *= radix;
        }
        let slots = dispatch(Slots::<T>(PhantomData));
        Passes { n, slots, passes }
    }

    /// Transforms the numbers of `x`, a vector of each part; whether they lie in `y` then.
    #[inline(always)]
    pub fn run<'a, S: Simd>(
        &self,
        simd: S,
        mut x: &'a mut [[T::Vector<S>; 2]],
        mut y: &'a mut [[T::Vector<S>; 2]],
    ) -> bool {
        for pass in &self.passes {
            pass.run(simd, x, y);
            (x, y) = (y, x);
        }
        self.passes.len() % 2 == 1
    }
}

/// A pass of a radix known when it is compiled.
macro_rules! pass {
    ($pass:expr, $simd:expr, $x:expr, $y:expr, $radix:literal, $butterfly:ident) => {{
        let (pass, simd, x, y) = ($pass, $simd, $x, $y);
        let (before, rest) = (pass.before, pass.rest);
        for i in 0..rest {
            let twiddles = &pass.twiddles[i * ($radix - 1)..][..$radix - 1];
            for q in 0..before {
                let mut numbers = [Lanes::<T, S>::new(simd, x[q + before * i]); $radix];
                for k in 1..$radix {
                    numbers[k] = Lanes::new(simd, x[q + before * (i + rest * k)]);
                }
                let found = $butterfly(numbers);
                let first = q + before * $radix * i;
                y[first] = [found[0].re, found[0].im];
                for k in 1..$radix {
                    let number = match i {
                        0 => found[k],
                        _ => found[k].times(Lanes::splat(simd, twiddles[k - 1])),
                    };
                    y[first + before * k] = [number.re, number.im];
                }
            }
        }
    }};
}

impl<T: Number> Pass<T> {
    #[inline(always)]
    fn run<S: Simd>(&self, simd: S, x: &mut [[T::Vector<S>; 2]], y: &mut [[T::Vector<S>; 2]]) {
        match self.radix {
            2 => pass!(self, simd, x, y, 2, two),
            3 => pass!(self, simd, x, y, 3, three),
            4 => pass!(self, simd, x, y, 4, four),
            5 => pass!(self, simd, x, y, 5, five),
            8 => pass!(self, simd, x, y, 8, eight),
            _ => self.by_definition(simd, x, y),
        }
    }

    #[inline(always)]
    fn by_definition<S: Simd>(
        &self,
        simd: S,
        x: &mut [[T::Vector<S>; 2]],
        y: &mut [[T::Vector<S>; 2]],
    ) {
        let (radix, before, rest) = (self.radix, self.before, self.rest);
        for i in 0..rest {
            let twiddles = &self.twiddles[i * (radix - 1)..][..radix - 1];
            for q in 0..before {
                let mut numbers = [Lanes::<T, S>::new(simd, x[q + before * i]); MOST];
                for k in 1..radix {
                    numbers[k] = Lanes::new(simd, x[q + before * (i + rest * k)]);
                }
                odd(&mut numbers[..radix], &self.roots);
                let first = q + before * radix * i;
                y[first] = [numbers[0].re, numbers[0].im];
                for k in 1..radix {
                    let number = match i {
                        0 => numbers[k],
                        _ => numbers[k].times(Lanes::splat(simd, twiddles[k - 1])),
                    };
                    y[first + before * k] = [number.re, number.im];
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_few_passes() {
        assert_eq!(radices(1), Some(vec![]));
        assert_eq!(radices(32), Some(vec![4, 8]));
        assert_eq!(radices(256), Some(vec![4, 8, 8]));
        assert_eq!(radices(16), Some(vec![4, 4]));
        assert_eq!(radices(128), Some(vec![4, 4, 8]));
        assert_eq!(radices(2 * 3 * 3 * 61), Some(vec![2, 3, 3, 61]));
        assert_eq!(radices(2 * 67), None);
    }
}
