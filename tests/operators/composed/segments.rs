//! Segments of a dimension against loops.

use super::{differentiable, refused};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::ReduceOp;
use ferrotrace::prelude::*;

const OPS: [ReduceOp; 5] = [
    ReduceOp::Sum,
    ReduceOp::Prod,
    ReduceOp::Amax,
    ReduceOp::Amin,
    ReduceOp::Mean,
];

/// What PyTorch documents for the numbers of one segment.
fn reduced(op: ReduceOp, x: &[f64], initial: Option<f64>) -> f64 {
    let from = |none: f64| initial.unwrap_or(none);
    match op {
        ReduceOp::Sum => x.iter().sum::<f64>() + from(0.0),
        ReduceOp::Prod => x.iter().product::<f64>() * from(1.0),
        ReduceOp::Amax => x.iter().copied().fold(from(f64::NEG_INFINITY), f64::max),
        ReduceOp::Amin => x.iter().copied().fold(from(f64::INFINITY), f64::min),
        ReduceOp::Mean if x.is_empty() => from(f64::NAN),
        ReduceOp::Mean => (x.iter().sum::<f64>() + from(0.0)) / x.len() as f64,
    }
}

#[test]
fn segments_of_every_dimension() {
    // Lengths of two batches; the second one leaves an element out.
    let lengths = [[2usize, 0, 3], [1, 3, 0]];
    let x = eighths(2 * 5 * 3);
    both(|| {
        for dtype in [F32, F64, BF16] {
            for op in OPS {
                for initial in [None, Some(0.5)] {
                    let rows = dense(&[2, 5, 3], dtype, &x);
                    let at = Tensor::from_slice(
                        &lengths
                            .as_flattened()
                            .iter()
                            .map(|n| *n as i64)
                            .collect::<Vec<_>>(),
                        [2, 3],
                        &cpu(),
                    );
                    let found = rows.segment_reduce(op, &at, 1, initial);
                    assert_eq!(found.dtype(), dtype);
                    let mut want = Vec::new();
                    for (batch, lengths) in lengths.iter().enumerate() {
                        let mut start = 0;
                        for length in lengths {
                            for column in 0..3 {
                                let part: Vec<f64> = (start..start + length)
                                    .map(|row| x[(batch * 5 + row) * 3 + column])
                                    .collect();
                                want.push(reduced(op, &part, initial));
                            }
                            start += length;
                        }
                    }
                    near(&found, &[2, 3, 3], &want, unit(dtype));
                    // The first dimension, with lengths of another dtype.
                    let line = dense(&[10, 3], dtype, &x);
                    let at = ints(&[4, 0, 6]).to_dtype(I32);
                    let found = line.segment_reduce(op, &at, 0, initial);
                    let mut want = Vec::new();
                    for (from, to) in [(0, 4), (4, 4), (4, 10)] {
                        for column in 0..3 {
                            let part: Vec<f64> =
                                (from..to).map(|row| x[row * 3 + column]).collect();
                            want.push(reduced(op, &part, initial));
                        }
                    }
                    near(&found, &[3, 3], &want, 4.0 * unit(dtype));
                }
            }
        }
        let none = Tensor::zeros([0, 2], F32, &cpu());
        let found = none.segment_reduce(ReduceOp::Sum, &ints(&[0, 0]), 0, None);
        equal(&found, &[2, 2], &[0.0; 4]);
        let found = none.segment_reduce(ReduceOp::Amax, &ints(&[]), 0, None);
        assert_eq!(found.dims(), [0, 2]);
    });
}

#[test]
fn gradients_of_segments() {
    let x = dense(&[6, 2], F64, &super::apart(12));
    for op in OPS {
        for initial in [None, Some(-0.7)] {
            differentiable(std::slice::from_ref(&x), &|of| {
                of[0].segment_reduce(op, &ints(&[2, 3]), 0, initial)
            });
        }
    }
}

#[test]
fn segments_that_do_not_fit() {
    both(|| {
        let x = Tensor::ones([2, 3], F32, &cpu());
        let (one, sum) = (ints(&[1]), ReduceOp::Sum);
        let found = [
            x.segment_reduce(sum, &ints(&[1, 1]), 1, None),
            x.segment_reduce(sum, &x, 0, None),
            x.segment_reduce(sum, &ints(&[2]), 2, None),
            one.segment_reduce(sum, &one, 0, None),
            dense(&[], F32, &[1.0]).segment_reduce(sum, &one, 0, None),
        ];
        for (found, part) in found.iter().zip(["[2]", "lengths", "2", "i64", "rank 0"]) {
            refused(found, "segment_reduce", &[part]);
        }
    });
}
