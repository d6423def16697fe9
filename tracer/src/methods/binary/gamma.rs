//! The incomplete Γ functions.

use super::super::attempt;
use crate::Tensor;
use crate::args::Operand;
use crate::grad::custom_grad;
use ferrotrace_runtime::DType;
use std::f64::consts::PI;

/// Places of the integral, and the first and the last of them: beyond them nothing is left that binary64 has.
const PLACES: usize = 128;
const ENDS: [f64; 2] = [-3.5, 4.4];

/// Euler's constant.
const EULER: f64 = 0.577_215_664_901_532_9;

/// (−1)ᵏ·(ζ(k) − 1)/k from k = 2 on.
const ZETAS: [f64; 26] = [
    0.3224670334241132,
    -0.0673523010531981,
    0.020580808427784546,
    -0.007385551028673986,
    0.0028905103307415234,
    -0.001192753911703261,
    0.0005096695247430425,
    -0.00022315475845357939,
    9.945751278180853e-05,
    -4.492623673813314e-05,
    2.050721277567069e-05,
    -9.439488275268397e-06,
    4.374866789907488e-06,
    -2.039215753801366e-06,
    9.55141213040742e-07,
    -4.492469198764566e-07,
    2.1207184805554665e-07,
    -1.0043224823968099e-07,
    4.7698101693639804e-08,
    -2.2711094608943164e-08,
    1.0838659214896955e-08,
    -5.183475041970047e-09,
    2.4836745438024785e-09,
    -1.1921401405860912e-09,
    5.731367241678862e-10,
    -2.7595228851242334e-10,
];

/// Stirling's series, ln Γ(a + 1) beyond (a + 1/2)·ln a − a + ln √2π, in powers of 1/a².
const STIRLING: [f64; 6] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
];

/// A polynomial, the highest coefficient last.
#[track_caller]
fn polynomial(terms: impl DoubleEndedIterator<Item = f64>, x: &Tensor) -> Tensor {
    let start = x.zeros_like();
    terms.rev().fold(start, |sum, term| sum * x + term)
}

/// eˣ − 1 − x.
#[track_caller]
fn beyond_linear(x: &Tensor) -> Tensor {
    let near = x.abs().lt(0.5);
    let small = near.where_cond(x, 0.0);
    let mut series = small.ones_like();
    for k in (3..=15).rev() {
        series = series * &small * (1.0 / f64::from(k)) + 1.0;
    }
    let series = small.square() * 0.5 * series;
    near.where_cond(&series, &(x.expm1() - x))
}

/// ln Γ(1 + a) of a up to 1/2, with all digits near 0.
#[track_caller]
fn log_gamma_of_one_more(a: &Tensor) -> Tensor {
    let series = polynomial(ZETAS.into_iter(), a);
    series * a.square() + a * (1.0 - EULER) - a.log1p()
}

/// The deviance a·ln(a/x) + x − a (Loader, Fast and Accurate Computation of Binomial Probabilities, 2000), with all
/// digits where x is near a: ln(xᵃ·e⁻ˣ) is a·ln(a) − a less that.
#[track_caller]
fn deviance(a: &Tensor, x: &Tensor) -> Tensor {
    let off = (x - a) / a;
    let near = off.abs().lt(0.4);
    let small = near.where_cond(&off, 0.0);
    // The series of the logarithm of a quotient.
    let s = &small / (&small + 2.0);
    let square = s.square();
    let series = polynomial((1..=13).map(|k| 1.0 / f64::from(2 * k + 1)), &square) * &square;
    let close = &square * 2.0 / (1.0 - &s) - s * 2.0 * series;
    let far = off - (x / a).log();
    near.where_cond(&close, &far) * a
}

/// ln Γ(a + 1) − (a + 1/2)·ln(a) + a − ln √2π of a from 8 on, by Stirling's series.
#[track_caller]
fn stirling_error(a: &Tensor) -> Tensor {
    let inverse = a.recip();
    polynomial(STIRLING.into_iter(), &inverse.square()) * inverse
}

/// ln(μᵏ·e^(−μ) / k!) of counts k ≥ 0 and a mean μ ≥ 1: the logarithm of a Poisson probability, from that of k + 8, for which
/// Stirling's series holds, and the eight factors between. The deviance is taken without its series, which would be most of
/// the work: the error grows with the distance of k from μ, to 10⁻⁵ one standard deviation from a mean of 10²².
#[track_caller]
pub fn log_poisson(k: &Tensor, mean: &Tensor) -> Tensor {
    let more = k + 8.0;
    let last = &more / mean;
    let factors = (1..8).fold(last, |product, i| product * ((k + f64::from(i)) / mean));
    let scale = factors / (&more * (2.0 * PI)).sqrt();
    let off = &more - mean;
    let deviance = &more * (&off / mean).log1p() - off;
    scale.log() - deviance - stirling_error(&more)
}

/// xᵃ·e⁻ˣ / Γ(a + 1).
#[track_caller]
fn density(a: &Tensor, x: &Tensor) -> Tensor {
    let is_great = a.ge(10.0);
    let great = is_great.where_cond(a, 10.0);
    let by_distance =
        -deviance(&great, x) - stirling_error(&great) - (great * (2.0 * PI)).log() * 0.5;
    let small = is_great.where_cond(1.0, a);
    let plain = &small * x.log() - x - (small + 1.0).lgamma();
    is_great.where_cond(&by_distance, &plain).exp()
}

/// Of the lower part of Γ for x < a, and of the upper one else, by an integral of e^(−h(v)) over v ≥ 0, where h(v) =
/// |x − a|·v + x·(e^(±v) − 1 ∓ v): the trapezoidal rule behind v = c·e^(u − e⁻ᵘ), which ends it doubly exponentially.
#[track_caller]
fn lesser(a: &Tensor, x: &Tensor, is_lower: &Tensor) -> Tensor {
    let off = (x - a).abs();
    let width = 2.0 / (&off + (off.square() + x * 2.0).sqrt());
    let [start, end] = ENDS;
    let line = Tensor::linspace(start, end, PLACES, DType::F64, &a.device());
    let line = line.reshape([&[PLACES][..], &vec![1; off.rank()]].concat());
    let step = (end - start) / (PLACES - 1) as f64;
    let decay = (-&line).exp();
    let places = (&line - &decay).exp();
    let weights = &places * (decay + 1.0) * step;
    let v = &width * places;
    let signed = is_lower.where_cond(&-&v, &v).clamp_max(700.0);
    let height = off * &v + x * beyond_linear(&signed);
    let integral = ((-height).exp() * weights).sum(0);
    a * density(a, x) * width * integral
}

/// Of x < 1: the lower part by its series, and the upper one by what is left of 1, or, for small a, by a series of its own.
#[track_caller]
fn near_zero(a: &Tensor, x: &Tensor) -> [Tensor; 2] {
    let mut series = x.ones_like() + a * 0.0;
    for k in (1..=20).rev() {
        series = series * x / (a + f64::from(k)) + 1.0;
    }
    let lower = density(a, x) * series;
    let is_small = a.lt(0.5);
    let small = is_small.where_cond(a, 0.25);
    let power = &small * x.log() - log_gamma_of_one_more(&small);
    let mut series = x.zeros_like() + &small * 0.0;
    for k in (1..=20).rev() {
        let factorial: f64 = (1..=k).map(|i| -f64::from(i)).product();
        series = (series + &small / ((&small + f64::from(k)) * factorial)) * x;
    }
    let upper = -power.expm1() - power.exp() * series;
    let upper = is_small.where_cond(&upper, &(1.0 - &lower));
    let rest = is_small.logical_and(&upper.lt(0.5));
    [rest.where_cond(&(1.0 - &upper), &lower), upper]
}

/// Both parts of Γ(a), over Γ(a).
#[track_caller]
fn parts(a: &Tensor, x: &Tensor) -> [Tensor; 2] {
    let is_near = x.lt(1.0);
    let inside = a.gt(0.0).logical_and(&x.gt(0.0));
    let inside = inside.logical_and(&a.isfinite()).logical_and(&x.isfinite());
    let (safe_a, safe_x) = (inside.where_cond(a, 1.0), inside.where_cond(x, 1.0));
    let is_lower = safe_x.lt(&safe_a);
    let far = is_near.where_cond(1.0, &safe_x);
    let found = lesser(&safe_a, &far, &far.lt(&safe_a));
    let rest = 1.0 - &found;
    let near = near_zero(&safe_a, &is_near.where_cond(&safe_x, 0.5));
    let far = [
        is_lower.where_cond(&found, &rest),
        is_lower.where_cond(&rest, &found),
    ];
    // At the ends all is in one part: above where a is infinite or x is 0, below where a is 0 or x is infinite.
    let above = a.gt(x);
    let wrong = a.lt(0.0).logical_or(&x.lt(0.0)).logical_or(&a.isnan());
    let wrong = wrong.logical_or(&x.isnan()).logical_or(&a.eq(x));
    let [lower, upper] = [0, 1].map(|i| {
        let y = is_near.where_cond(&near[i], &far[i]);
        let at_end = above.where_cond(i as f64, &(y.zeros_like() + (1 - i) as f64));
        let at_end = wrong.where_cond(f64::NAN, &at_end);
        inside.where_cond(&y, &at_end)
    });
    [lower, upper]
}

/// The part of this number, with its gradient by x: ± xᵃ⁻¹e⁻ˣ / Γ(a).
#[track_caller]
fn part<const UPPER: bool>(a: &Tensor, x: &Tensor) -> Tensor {
    let f = custom_grad(
        |of: &[&Tensor]| {
            let [lower, upper] = parts(of[0], of[1]);
            if UPPER { upper } else { lower }
        },
        |of: &[&Tensor], _, gradient| {
            let (a, x) = (of[0], of[1]);
            let slope = ((a - 1.0).xlogy(x) - x - a.lgamma()).exp() * gradient;
            let slope = if UPPER { -slope } else { slope };
            vec![a.zeros_like(), slope]
        },
    );
    let both = a + x;
    f(&[&a.expand(both.dims()), &x.expand(both.dims())])
}

impl Tensor {
    /// The lower incomplete Γ function of this a and `x`, broadcast, over Γ(a): ∫ tᵃ⁻¹e⁻ᵗ dt / Γ(a) over t in [0, x];
    /// PyTorch's `special.gammainc`, `igamma`. NaN where one is negative or both are 0 or ∞. Computed in binary64, with
    /// some hundred numbers of each element at a time in eager mode; integers give `F32`. The gradient is that by `x`: none goes
    /// through a.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0, 100.0], 2, &Device::cpu());
    /// let x = Tensor::from_slice(&[2.0, 50.0], 2, &Device::cpu());
    /// let y = a.gammainc(&x).to_vec::<f64>()?;
    /// assert!((y[0] - 0.8646647167633873).abs() < 1e-13);
    /// assert!((y[1] / 3.2000653245851495e-10 - 1.0).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gammainc<'a>(&self, x: impl Into<Operand<'a>>) -> Tensor {
        let (a, x, dtype) = attempt!("gammainc", self.wide_pair(&x.into()), self);
        part::<false>(&a, &x)
            .to_dtype(dtype)
            .called("gammainc", &[self])
    }

    /// The upper incomplete Γ function, over Γ(a): 1 − [`gammainc`](Tensor::gammainc), with all digits where that is small;
    /// PyTorch's `special.gammaincc`, `igammac`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let a = Tensor::from_slice(&[1.0], 1, &Device::cpu());
    /// let y = a.gammaincc(50.0).to_vec::<f64>()?;
    /// assert!((y[0] / (-50f64).exp() - 1.0).abs() < 1e-12);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn gammaincc<'a>(&self, x: impl Into<Operand<'a>>) -> Tensor {
        let (a, x, dtype) = attempt!("gammaincc", self.wide_pair(&x.into()), self);
        part::<true>(&a, &x)
            .to_dtype(dtype)
            .called("gammaincc", &[self])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrotrace_runtime::Device;

    #[test]
    fn poisson_probabilities() {
        let k = Tensor::arange(0, 3001, 1, DType::F64, &Device::cpu());
        for mean in [1.0, 10.0, 2900.0] {
            let means = k.full_like(mean);
            let got = log_poisson(&k, &means).to_vec::<f64>().expect("numbers");
            let mut want = -mean;
            for (k, got) in got.iter().enumerate() {
                if k > 0 {
                    want += (mean / k as f64).ln();
                }
                let bound = 1e-12 * want.abs().max(10.0);
                assert!((got - want).abs() < bound, "{k}: {got} for {want}");
            }
        }
        // Of a great mean it is the normal distribution.
        for mean in [1e12, 1e18, 1e22] {
            for z in [-2.0, 0.0, 1.5] {
                let k = Tensor::full(1, mean + z * f64::sqrt(mean), DType::F64, &Device::cpu());
                let got = log_poisson(&k, &k.full_like(mean)).item::<f64>();
                let want = -0.5 * (z * z + (2.0 * PI * mean).ln());
                let got = got.expect("a number");
                assert!((got - want).abs() < 1e-4, "{mean}: {got} for {want}");
            }
        }
    }
}
