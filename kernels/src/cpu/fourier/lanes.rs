//! Complex numbers side by side: a vector has the real parts of a number of each of several lines, another the imaginary ones.

use crate::cpu::linalg::Float;
use ferrotrace_runtime::Isa;
use pulp::{Simd, WithSimd};
use std::marker::PhantomData;

/// The most numbers of a vector.
pub const WIDEST: usize = 16;

/// A complex number.
pub type Pair<T> = [T; 2];

/// A number that is transformed, and what vectors of it do.
pub trait Number: Float {
    /// A vector of an instruction set.
    type Vector<S: Simd>: Copy;
    /// The nearest number to one of binary64.
    fn of(x: f64) -> Self;
    /// The whole vectors of numbers.
    fn vectors<S: Simd>(x: &[Self]) -> &[Self::Vector<S>];
    /// The whole vectors of numbers, to be changed.
    fn vectors_mut<S: Simd>(x: &mut [Self]) -> &mut [Self::Vector<S>];
    /// `x` everywhere.
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    /// a + b.
    fn sum<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// a − b.
    fn difference<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// a · b.
    fn multiplied<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// Real and imaginary parts of pairs that lie in two vectors, each in an order of the instruction set's own.
    fn parts<S: Simd>(simd: S, pairs: [Self::Vector<S>; 2]) -> [Self::Vector<S>; 2];
    /// The inverse of [`parts`](Number::parts).
    fn pairs<S: Simd>(simd: S, parts: [Self::Vector<S>; 2]) -> [Self::Vector<S>; 2];
    /// The four fields of records that lie in four vectors, each in an order of the instruction set's own.
    fn fields<S: Simd>(simd: S, records: [Self::Vector<S>; 4]) -> [Self::Vector<S>; 4];
    /// The inverse of [`fields`](Number::fields).
    fn records<S: Simd>(simd: S, fields: [Self::Vector<S>; 4]) -> [Self::Vector<S>; 4];
    /// A whole number as an index.
    fn index(self) -> usize;
}

macro_rules! numbers {
    ($($t:ident: $vector:ident $vectors:ident $vectors_mut:ident $splat:ident $add:ident $sub:ident $mul:ident $parts:ident $pairs:ident;)*) => {$(
        impl Number for $t {
            type Vector<S: Simd> = S::$vector;
            #[inline(always)]
            fn of(x: f64) -> $t {
                x as $t
            }
            #[inline(always)]
            fn vectors<S: Simd>(x: &[$t]) -> &[S::$vector] {
                S::$vectors(x).0
            }
            #[inline(always)]
            fn vectors_mut<S: Simd>(x: &mut [$t]) -> &mut [S::$vector] {
                S::$vectors_mut(x).0
            }
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: $t) -> S::$vector {
                simd.$splat(x)
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn difference<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$sub(a, b)
            }
            #[inline(always)]
            fn multiplied<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$mul(a, b)
            }
            #[inline(always)]
            fn parts<S: Simd>(simd: S, pairs: [S::$vector; 2]) -> [S::$vector; 2] {
                simd.$parts(pairs)
            }
            #[inline(always)]
            fn pairs<S: Simd>(simd: S, parts: [S::$vector; 2]) -> [S::$vector; 2] {
                simd.$pairs(parts)
            }
            #[inline(always)]
            fn fields<S: Simd>(simd: S, records: [S::$vector; 4]) -> [S::$vector; 4] {
                simd.$parts(records)
            }
            #[inline(always)]
            fn records<S: Simd>(simd: S, fields: [S::$vector; 4]) -> [S::$vector; 4] {
                simd.$pairs(fields)
            }
            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}
numbers! {
    f32: f32s as_simd_f32s as_mut_simd_f32s splat_f32s add_f32s sub_f32s mul_f32s deinterleave_shfl_f32s interleave_shfl_f32s;
    f64: f64s as_simd_f64s as_mut_simd_f64s splat_f64s add_f64s sub_f64s mul_f64s deinterleave_shfl_f64s interleave_shfl_f64s;
}

/// The numbers of a vector.
#[inline(always)]
pub fn width<T: Number, S: Simd>() -> usize {
    size_of::<T::Vector<S>>() / size_of::<T>()
}

/// A complex number of each line.
pub struct Lanes<T: Number, S: Simd> {
    pub simd: S,
    pub re: T::Vector<S>,
    pub im: T::Vector<S>,
}

impl<T: Number, S: Simd> Clone for Lanes<T, S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Number, S: Simd> Copy for Lanes<T, S> {}

impl<T: Number, S: Simd> Lanes<T, S> {
    #[inline(always)]
    pub fn new(simd: S, [re, im]: [T::Vector<S>; 2]) -> Self {
        Lanes { simd, re, im }
    }

    /// One number in all lines.
    #[inline(always)]
    pub fn splat(simd: S, w: Pair<T>) -> Self {
        Lanes::new(simd, [T::splat(simd, w[0]), T::splat(simd, w[1])])
    }

    #[inline(always)]
    pub fn plus(self, b: Self) -> Self {
        let (re, im) = (
            T::sum(self.simd, self.re, b.re),
            T::sum(self.simd, self.im, b.im),
        );
        Lanes { re, im, ..self }
    }

    #[inline(always)]
    pub fn minus(self, b: Self) -> Self {
        let (re, im) = (
            T::difference(self.simd, self.re, b.re),
            T::difference(self.simd, self.im, b.im),
        );
        Lanes { re, im, ..self }
    }

    /// self − i·b.
    #[inline(always)]
    pub fn plus_turned(self, b: Self) -> Self {
        let (re, im) = (
            T::sum(self.simd, self.re, b.im),
            T::difference(self.simd, self.im, b.re),
        );
        Lanes { re, im, ..self }
    }

    /// self + i·b.
    #[inline(always)]
    pub fn minus_turned(self, b: Self) -> Self {
        let (re, im) = (
            T::difference(self.simd, self.re, b.im),
            T::sum(self.simd, self.im, b.re),
        );
        Lanes { re, im, ..self }
    }

    /// Both parts times a real number.
    #[inline(always)]
    pub fn scaled(self, factor: T) -> Self {
        let factor = T::splat(self.simd, factor);
        let (re, im) = (
            T::multiplied(self.simd, self.re, factor),
            T::multiplied(self.simd, self.im, factor),
        );
        Lanes { re, im, ..self }
    }

    /// The product of complex numbers.
    #[inline(always)]
    pub fn times(self, w: Self) -> Self {
        let simd = self.simd;
        let (a, b) = (
            T::multiplied(simd, self.re, w.re),
            T::multiplied(simd, self.im, w.im),
        );
        let (c, d) = (
            T::multiplied(simd, self.im, w.re),
            T::multiplied(simd, self.re, w.im),
        );
        Lanes::new(simd, [T::difference(simd, a, b), T::sum(simd, c, d)])
    }
}

/// Asks for the record that [`Number::fields`] takes to the lane that [`Number::parts`] takes each pair to.
pub struct Slots<T>(pub PhantomData<T>);

impl<T: Number> WithSimd for Slots<T> {
    type Output = [usize; WIDEST];

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) -> [usize; WIDEST] {
        let width = width::<T, S>();
        let mut numbers = [T::of(0.0); 4 * WIDEST];
        let mut lanes = [T::of(0.0); WIDEST];
        for (i, pair) in numbers.chunks_exact_mut(2).enumerate() {
            pair.fill(T::of(i as f64));
        }
        let vectors = T::vectors::<S>(&numbers);
        T::vectors_mut::<S>(&mut lanes)[0] = T::parts(simd, [vectors[0], vectors[1]])[0];
        let pairs = lanes;
        for (i, record) in numbers.chunks_exact_mut(4).enumerate() {
            record.fill(T::of(i as f64));
        }
        let vectors = T::vectors::<S>(&numbers);
        let records = [vectors[0], vectors[1], vectors[2], vectors[3]];
        T::vectors_mut::<S>(&mut lanes)[0] = T::fields(simd, records)[0];
        let mut slots = [0; WIDEST];
        for (pair, record) in pairs.into_iter().zip(lanes).take(width) {
            slots[pair.index()] = record.index();
        }
        slots
    }
}

/// Runs a loop as compiled for [`Isa::host`].
pub fn dispatch<L: WithSimd>(body: L) -> L::Output {
    #[cfg(target_arch = "x86_64")]
    {
        use pulp::x86::{V3, V4};
        let isa = Isa::host();
        if let (Isa::Avx512, Some(simd)) = (isa, V4::try_new()) {
            return Simd::vectorize(simd, body);
        }
        if let (Isa::Avx512 | Isa::Avx2, Some(simd)) = (isa, V3::try_new()) {
            return Simd::vectorize(simd, body);
        }
    }
    #[cfg(target_arch = "aarch64")]
    if let (Isa::Neon, Some(simd)) = (Isa::host(), pulp::aarch64::Neon::try_new()) {
        return Simd::vectorize(simd, body);
    }
    Simd::vectorize(pulp::Scalar128b, body)
}
