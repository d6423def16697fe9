//! Orthogonal polynomials by their recurrences, and Bessel functions.

use super::floats;
use crate::io::exported::call::{Call, Results, one, wide};
use crate::io::exported::ops::Table;
use crate::{Error, Tensor};

/// The most terms of a recurrence, each of which is recorded.
const MOST: i64 = 1 << 12;

/// A family: the polynomial of degree 1, and from degrees k and k − 1 that of degree k + 1.
struct Family {
    first: fn(&Tensor) -> Tensor,
    next: fn(&Tensor, f64, &Tensor, &Tensor) -> Tensor,
}

/// The polynomial of a degree that is a number; one below 0 is 0.
fn polynomial(c: &Call<'_>, shifted: bool, of: &Family) -> Results {
    let degree = c.int_or("n", 0)?;
    if degree > MOST {
        return Err(Error::unsupported(format!(
            "a polynomial of degree {degree}"
        )));
    }
    one(wide(&floats(c.tensor("x")?), |x| {
        let x = match shifted {
            true => x * 2.0 - 1.0,
            false => x.clone(),
        };
        if degree < 0 {
            return x.zeros_like();
        }
        let (mut last, mut own) = (x.ones_like(), (of.first)(&x));
        for k in 1..=degree {
            let next = (of.next)(&x, k as f64, &own, &last);
            last = std::mem::replace(&mut own, next);
        }
        last
    }))
}

/// 2·x·p − q, the recurrence of Chebyshev's polynomials.
fn chebyshev(x: &Tensor, _: f64, p: &Tensor, q: &Tensor) -> Tensor {
    x * 2.0 * p - q
}

const T: Family = Family {
    first: Tensor::clone,
    next: chebyshev,
};
const U: Family = Family {
    first: |x| x * 2.0,
    next: chebyshev,
};
const V: Family = Family {
    first: |x| x * 2.0 - 1.0,
    next: chebyshev,
};
const W: Family = Family {
    first: |x| x * 2.0 + 1.0,
    next: chebyshev,
};
const HERMITE: Family = Family {
    first: |x| x * 2.0,
    next: |x, k, p, q| x * 2.0 * p - q * (2.0 * k),
};
const HERMITE_OF_PROBABILITY: Family = Family {
    first: Tensor::clone,
    next: |x, k, p, q| x * p - q * k,
};
const LAGUERRE: Family = Family {
    first: |x| 1.0 - x,
    next: |x, k, p, q| ((2.0 * k + 1.0 - x) * p - q * k) / (k + 1.0),
};
const LEGENDRE: Family = Family {
    first: Tensor::clone,
    next: |x, k, p, q| (x * (2.0 * k + 1.0) * p - q * k) / (k + 1.0),
};

pub(in crate::io::exported::ops) const TABLE: Table = &[
    ("special_chebyshev_polynomial_t", "n_scalar", |c| {
        polynomial(c, false, &T)
    }),
    ("special_chebyshev_polynomial_u", "n_scalar", |c| {
        polynomial(c, false, &U)
    }),
    ("special_chebyshev_polynomial_v", "n_scalar", |c| {
        polynomial(c, false, &V)
    }),
    ("special_chebyshev_polynomial_w", "n_scalar", |c| {
        polynomial(c, false, &W)
    }),
    ("special_shifted_chebyshev_polynomial_t", "n_scalar", |c| {
        polynomial(c, true, &T)
    }),
    ("special_shifted_chebyshev_polynomial_u", "n_scalar", |c| {
        polynomial(c, true, &U)
    }),
    ("special_shifted_chebyshev_polynomial_v", "n_scalar", |c| {
        polynomial(c, true, &V)
    }),
    ("special_shifted_chebyshev_polynomial_w", "n_scalar", |c| {
        polynomial(c, true, &W)
    }),
    ("special_hermite_polynomial_h", "n_scalar", |c| {
        polynomial(c, false, &HERMITE)
    }),
    ("special_hermite_polynomial_he", "n_scalar", |c| {
        polynomial(c, false, &HERMITE_OF_PROBABILITY)
    }),
    ("special_laguerre_polynomial_l", "n_scalar", |c| {
        polynomial(c, false, &LAGUERRE)
    }),
    ("special_legendre_polynomial_p", "n_scalar", |c| {
        polynomial(c, false, &LEGENDRE)
    }),
    ("i0", "default", |c| one(c.tensor("self")?.i0())),
    ("special_i0", "default", |c| one(c.tensor("self")?.i0())),
    ("special_modified_bessel_i0", "default", |c| {
        one(c.tensor("self")?.i0())
    }),
    ("special_modified_bessel_i1", "default", |c| {
        one(c.tensor("self")?.i1())
    }),
    ("special_i0e", "default", |c| one(c.tensor("self")?.i0e())),
    ("special_i1", "default", |c| one(c.tensor("self")?.i1())),
    ("special_i1e", "default", |c| one(c.tensor("self")?.i1e())),
];
