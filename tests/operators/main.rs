//! Operators and methods in both modes, against references that the tests compute by themselves or that NumPy and PyTorch
//! gave. One program for all: nothing here sets what the whole process has, or counts what other threads do.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/rng.rs"]
#[allow(dead_code, missing_docs)]
mod rng;

mod forms;

mod bytes;
mod coming_from;
mod composed;
mod formulas;
mod fourier;
mod half;
mod indexing;
mod interleaved;
mod linalg;
mod methods;
mod numbers;
mod pooling;
mod products;
mod refusals;
mod slices;
mod sums;
mod training;
mod values;
