//! Sampled functions: convolved, interpolated, and as polynomials.

mod convolve;
mod interp;
mod polynomial;

use super::attempt;
pub use convolve::Overlap;
