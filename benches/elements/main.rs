//! Elements other than binary32 in a row: casts of bytes and truth values, comparisons of 64-bit integers, checked indices,
//! reshapes of transposed tensors, and what is arranged in other ways (`arranged.rs`). `peers/elements.py` runs the same programs in PyTorch.
//!
//! ```text
//! cargo bench --bench elements [-- --rounds N] [-- --smoke] [names]
//! cargo bench --bench elements -- random [--cuda] [--lengths] FIRST COUNT
//! ```
//!
//! The second form times [random programs](random).

mod arranged;
#[path = "../measure/mod.rs"]
mod measure;
mod random;

use ferrotrace::prelude::*;
use measure::Outcome;
use measure::modes::beside_eager;

/// An input.
#[derive(Clone, Copy)]
enum Input {
    /// Binary32 numbers.
    Floats(&'static [usize]),
    /// Numbers below 250, of this type.
    Small(DType, &'static [usize]),
    /// Positions below a length.
    Below(i64, &'static [usize]),
    /// Truth values.
    Truths(&'static [usize]),
}

use Input::{Below, Floats, Small, Truths};

impl Input {
    fn tensor(self) -> Tensor {
        let cpu = Device::cpu();
        match self {
            Floats(shape) => Tensor::randn(shape, DType::F32, &cpu),
            Small(dtype, shape) => Tensor::randint(0, 250, shape, DType::I64, &cpu).to_dtype(dtype),
            Below(n, shape) => Tensor::randint(0, n, shape, DType::I64, &cpu),
            Truths(shape) => Tensor::randn(shape, DType::F32, &cpu).gt(0.0),
        }
    }
}

/// A program, its inputs, and what it makes of them.
type Case = (&'static str, &'static [Input], fn(&[Tensor]) -> Tensor);

const BYTES: Input = Small(DType::U8, &[400, 500]);
const MANY_BYTES: Input = Small(DType::U8, &[1024, 1024]);
const FLOATS: Input = Floats(&[400, 500]);

const CASES: &[Case] = &[
    (
        "gather_rows",
        &[Floats(&[1000, 63]), Below(63, &[1000, 200])],
        |v| v[0].gather(1, &v[1]),
    ),
    (
        "pick_and_double",
        &[Floats(&[1000]), Below(1000, &[200_000])],
        |v| v[0].index_select(0, &v[1]) * 2.0,
    ),
    (
        "sum_of_logs",
        &[Floats(&[2000]), Below(2000, &[100_000])],
        |v| (v[0].abs() + 0.1).log().index_select(0, &v[1]).sum(..),
    ),
    ("bytes_to_floats", &[BYTES], |v| v[0].to_dtype(DType::F32)),
    ("bytes_to_means", &[BYTES], |v| {
        v[0].to_dtype(DType::F32).mean(1)
    }),
    ("ratios_of_bytes", &[BYTES, BYTES], |v| {
        v[0].to_dtype(DType::F32) / (v[1].to_dtype(DType::F32) + 1.0)
    }),
    ("truths_by_rows", &[Truths(&[400, 500])], |v| v[0].sum(1)),
    ("any_by_columns", &[Truths(&[400, 500])], |v| v[0].any(0)),
    ("kept_where_true", &[Truths(&[400, 500]), FLOATS], |v| {
        v[0].where_cond(&v[1], 0.0)
    }),
    ("sum_of_bytes", &[MANY_BYTES], |v| v[0].sum(1)),
    ("count_of_truths", &[Truths(&[1024, 1024])], |v| {
        v[0].sum(..)
    }),
    ("places_in_columns", &[Floats(&[1024, 1024])], |v| {
        v[0].argmax(0)
    }),
    ("greatest_in_columns", &[MANY_BYTES], |v| v[0].max(0)),
    ("remainders_of_bytes", &[MANY_BYTES], |v| v[0].remainder(7)),
    (
        "quotients_of_shorts",
        &[
            Small(DType::I16, &[1024, 1024]),
            Small(DType::I16, &[1024, 1024]),
        ],
        |v| v[0].floor_divide(&(&v[1] + 1i16)),
    ),
    (
        "integers_below",
        &[Below(100, &[400, 500]), Below(100, &[400, 500])],
        |v| v[0].lt(&v[1]),
    ),
    (
        "classes_summed",
        &[Below(40, &[5000]), Floats(&[5000, 40])],
        |v| {
            let classes = Tensor::arange(0, 40, 1, DType::I64, &Device::cpu());
            let chosen = v[0].unsqueeze(1).eq(&classes);
            chosen.where_cond(&v[1], 0.0).sum(1)
        },
    ),
    ("turned_and_doubled", &[FLOATS], |v| {
        v[0].t().reshape([400, 500]) * 2.0
    }),
];

fn main() -> Outcome {
    if let Some(options) = random::Options::from_args() {
        return random::run(&options?);
    }
    let cases = CASES
        .iter()
        .chain(arranged::CASES)
        .map(|(name, inputs, program)| {
            let inputs = move || inputs.iter().map(|input| input.tensor()).collect();
            (*name, inputs, *program)
        });
    beside_eager("Elements of other types, or arranged otherwise", cases)
}
