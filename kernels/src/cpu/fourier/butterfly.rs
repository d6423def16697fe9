//! Transforms of few numbers, those of each line at the same time.

use super::lanes::{Lanes, Number, Pair};
use pulp::Simd;
use std::f64::consts::FRAC_1_SQRT_2;

/// The greatest prime length that is computed by its definition.
pub const MOST: usize = 61;

#[inline(always)]
pub fn two<T: Number, S: Simd>([a, b]: [Lanes<T, S>; 2]) -> [Lanes<T, S>; 2] {
    [a.plus(b), a.minus(b)]
}

#[inline(always)]
pub fn three<T: Number, S: Simd>([a, b, c]: [Lanes<T, S>; 3]) -> [Lanes<T, S>; 3] {
    const SIN: f64 = 0.866_025_403_784_438_6;
    let (sum, difference) = (b.plus(c), b.minus(c).scaled(T::of(SIN)));
    let rest = a.minus(sum.scaled(T::of(0.5)));
    [
        a.plus(sum),
        rest.plus_turned(difference),
        rest.minus_turned(difference),
    ]
}

#[inline(always)]
pub fn four<T: Number, S: Simd>([a, b, c, d]: [Lanes<T, S>; 4]) -> [Lanes<T, S>; 4] {
    let (even, minus) = (a.plus(c), a.minus(c));
    let (odd, turned) = (b.plus(d), b.minus(d));
    [
        even.plus(odd),
        minus.plus_turned(turned),
        even.minus(odd),
        minus.minus_turned(turned),
    ]
}

#[inline(always)]
pub fn five<T: Number, S: Simd>([a, b, c, d, e]: [Lanes<T, S>; 5]) -> [Lanes<T, S>; 5] {
    const COS: [f64; 2] = [0.309_016_994_374_947_45, -0.809_016_994_374_947_5];
    const SIN: [f64; 2] = [0.951_056_516_295_153_5, 0.587_785_252_292_473_1];
    let [cos, sin] = [COS, SIN].map(|two| two.map(T::of));
    let (p, m) = (b.plus(e), b.minus(e));
    let (q, n) = (c.plus(d), c.minus(d));
    let x = a.plus(p.scaled(cos[0])).plus(q.scaled(cos[1]));
    let y = a.plus(p.scaled(cos[1])).plus(q.scaled(cos[0]));
    let u = m.scaled(sin[0]).plus(n.scaled(sin[1]));
    let v = m.scaled(sin[1]).minus(n.scaled(sin[0]));
    [
        a.plus(p).plus(q),
        x.plus_turned(u),
        y.plus_turned(v),
        y.minus_turned(v),
        x.minus_turned(u),
    ]
}

#[inline(always)]
pub fn eight<T: Number, S: Simd>(x: [Lanes<T, S>; 8]) -> [Lanes<T, S>; 8] {
    let [a, b, c, d] = four([x[0], x[2], x[4], x[6]]);
    let [e, f, g, h] = four([x[1], x[3], x[5], x[7]]);
    let root = T::of(FRAC_1_SQRT_2);
    // exp(−πi/4)·f, and −exp(−3πi/4)·h.
    let f = f.plus_turned(f).scaled(root);
    let h = h.minus_turned(h).scaled(root);
    [
        a.plus(e),
        b.plus(f),
        c.plus_turned(g),
        d.minus(h),
        a.minus(e),
        b.minus(f),
        c.minus_turned(g),
        d.plus(h),
    ]
}

/// The transform of an odd number of lanes by its definition, in place; `roots` are the powers of the root of that order, real
/// parts and magnitudes of the imaginary ones: exp(−2πij/p) is `[cos, sin]` with −sin.
#[inline(always)]
pub fn odd<T: Number, S: Simd>(x: &mut [Lanes<T, S>], roots: &[Pair<T>]) {
    let p = x.len();
    let half = p / 2;
    for j in 1..=half {
        let (a, b) = (x[j], x[p - j]);
        (x[j], x[p - j]) = (a.plus(b), a.minus(b));
    }
    let mut found = [x[0]; MOST];
    for k in 1..=half {
        let mut even = x[0];
        let mut turned = x[0];
        for j in 1..=half {
            let [cos, sin] = roots[j * k % p];
            even = even.plus(x[j].scaled(cos));
            let part = x[p - j].scaled(sin);
            turned = if j == 1 { part } else { turned.plus(part) };
        }
        found[k] = even.plus_turned(turned);
        found[p - k] = even.minus_turned(turned);
    }
    for &sum in &x[1..=half] {
        found[0] = found[0].plus(sum);
    }
    x.copy_from_slice(&found[..p]);
}
