//! Whole programs as users write them: simulations, algorithms on matrices and integers, signals, models, and what goes down gradients.
//!
//! Each runs in eager mode, lazily with every step evaluated, lazily as one trace, with a number read at each step, and
//! as a compiled function whose arguments are given away or lent. Results are those of NumPy, which `expected.py`
//! prints; the later half of the steps makes no plans, compiles nothing, and launches and allocates what the half before
//! it did.

// Ranges of `at` count from the end where they are negative.
#![allow(clippy::reversed_empty_ranges)]

mod algebra;
mod check;
mod expected;
mod gradients;
mod integers;
mod matrices;
mod models;
mod signals;
mod simulations;
