//! Matrix products and convolutions with what surrounds them.

use super::build::{float, promoted, reshape, transpose, value};
use super::softmax;
use crate::{BinaryOp, ConvSpec, Op, OpBuilder, OpBuilderExt, Operand, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Scalar, Shape};

/// `y + bias`, which must not change `y`'s shape.
fn biased(b: &mut dyn OpBuilder, y: ValueId, bias: ValueId) -> Result<ValueId> {
    let (shape, added) = (b.shape(y), b.shape(bias));
    if shape.broadcast(added).as_ref() != Some(shape) {
        return Err(Error::shape(format!(
            "a bias of shape {added} does not fit a result of shape {shape}"
        )));
    }
    b.add(y, bias)
}

/// x·wᵀ (+ bias): x `[.., in]`, w `[out, in]` (or `[in]`, for one output without a dimension), bias `[out]`.
pub(super) fn linear(b: &mut dyn OpBuilder, args: &[Operand], bias: bool) -> Result<ValueId> {
    let (x, w) = (value(args, 0)?, value(args, 1)?);
    let w = match b.shape(w).rank() {
        1 => w,
        2 => transpose(b, w)?,
        _ => {
            return Err(Error::shape(format!(
                "a linear weight of shape {}",
                b.shape(w)
            )));
        }
    };
    let y = b.push(Op::Matmul, &[x.into(), w.into()])?;
    if bias {
        biased(b, y, value(args, 2)?)
    } else {
        Ok(y)
    }
}

/// Convolution + one number a channel of the result.
pub(super) fn conv_bias(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    spec: &ConvSpec,
) -> Result<ValueId> {
    let (x, w, bias) = (value(args, 0)?, value(args, 1)?, value(args, 2)?);
    let y = b.push(Op::Conv(Box::new(spec.clone())), &[x.into(), w.into()])?;
    let spatial = spec.stride.len();
    let shape = b.shape(y);
    let channels = shape[shape.rank() - spatial - 1];
    if b.shape(bias).dims() != [channels] {
        return Err(Error::shape(format!(
            "a bias of shape {} for {channels} channels",
            b.shape(bias)
        )));
    }
    let mut column = Shape::from(channels);
    column.dims_mut().resize(spatial + 1, 1);
    let bias = reshape(b, bias, &column)?;
    b.add(y, bias)
}

/// softmax(q·kᵀ·scale + mask)·v over `[.., l, e]`, `[.., s, e]` and `[.., s, d]` (Vaswani et al., Attention Is All You
/// Need, 2017).
///
/// Where a truth mask is false, a number mask is −∞, or (causal) the key's position is greater than the query's, the
/// key is not seen. A query that sees no key gives zeros. Scores and softmax are in F32 for the half types; the
/// probabilities are rounded to the operands' dtype before the second product.
pub(super) fn attention(
    b: &mut dyn OpBuilder,
    args: &[Operand],
    mask: bool,
    causal: bool,
    scale: f64,
) -> Result<ValueId> {
    let (q, k, v) = (value(args, 0)?, value(args, 1)?, value(args, 2)?);
    for (what, x) in [("query", q), ("key", k), ("value", v)] {
        if b.shape(x).rank() < 2 {
            return Err(Error::shape(format!(
                "a {what} of shape {} has no rows",
                b.shape(x)
            )));
        }
    }
    if mask && causal {
        return Err(Error::argument(
            "attention is causal or takes a mask, not both",
        ));
    }
    let dtype = float(promoted(b, &[q.into(), k.into(), v.into()]));
    let wide = dtype.compute();
    let width = *b.shape(q).last().unwrap_or(&1);
    let scale = if scale.is_nan() {
        1.0 / (width as f64).sqrt()
    } else {
        scale
    };
    let q = b.cast(q, wide)?;
    let k = b.cast(k, wide)?;
    let k = transpose(b, k)?;
    let products = b.push(Op::Matmul, &[q.into(), k.into()])?;
    let scores = b.mul(products, scale)?;
    let keys = 1 << (b.shape(scores).rank() - 1);
    let probabilities = if mask {
        let scores = masked(b, scores, value(args, 3)?)?;
        softmax::over_masked(b, scores, keys)?
    } else if causal {
        // The first key is seen from everywhere.
        let scores = causally_masked(b, scores)?;
        softmax::over(b, scores, keys)?
    } else {
        softmax::over(b, scores, keys)?
    };
    let probabilities = b.cast(probabilities, dtype)?;
    let v = b.cast(v, dtype)?;
    b.push(Op::Matmul, &[probabilities.into(), v.into()])
}

fn masked(b: &mut dyn OpBuilder, scores: ValueId, mask: ValueId) -> Result<ValueId> {
    let (shape, hides) = (b.shape(scores), b.shape(mask));
    if shape.broadcast(hides).as_ref() != Some(shape) {
        return Err(Error::shape(format!(
            "a mask of shape {hides} for scores of shape {shape}"
        )));
    }
    match b.dtype(mask) {
        DType::Bool => b.select(mask, scores, f64::NEG_INFINITY),
        dtype if dtype.is_float() => {
            let mask = b.cast(mask, b.dtype(scores))?;
            b.add(scores, mask)
        }
        dtype => Err(Error::dtype(format!(
            "an attention mask is of truth values or floats, not {dtype}"
        ))),
    }
}

/// Row i sees columns 0 to i.
fn causally_masked(b: &mut dyn OpBuilder, scores: ValueId) -> Result<ValueId> {
    let shape = b.shape(scores);
    let (rows, columns) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    let row = b.push(
        Op::Iota {
            shape: Shape::from([rows, 1]),
            dim: 0,
        },
        &[],
    )?;
    let column = b.push(
        Op::Iota {
            shape: Shape::from([1, columns]),
            dim: 1,
        },
        &[],
    )?;
    let seen = b.binary(BinaryOp::Ge, row, column)?;
    b.select(
        seen,
        scores,
        Operand::Const(Scalar::Float(f64::NEG_INFINITY)),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use crate::{Composite, ConvSpec};
    use ferrotrace_runtime::DType::{self, *};
    use smallvec::smallvec;

    #[test]
    fn linears() {
        let (x, w, b) = (sample(24, 27), sample(20, 28), sample(5, 29));
        for dtype in FLOATS {
            for dims in [&[6usize, 4][..], &[2, 3, 4], &[24 / 4, 1, 4]] {
                let mut to = dims.to_vec();
                to[dims.len() - 1] = 5;
                let at = |i: usize| {
                    (0..4)
                        .map(|k| x[i / 5 * 4 + k] * w[i % 5 * 4 + k])
                        .sum::<f64>()
                };
                let plain: Vec<f64> = (0..30).map(at).collect();
                let moved: Vec<f64> = (0..30).map(|i| at(i) + b[i % 5]).collect();
                let (xt, wt, bt) = (
                    t(dims, dtype, &x),
                    t(&[5, 4], dtype, &w),
                    t(&[5], dtype, &b),
                );
                check(
                    Composite::Linear { bias: false },
                    &[xt.clone(), wt.clone()],
                    &to,
                    dtype,
                    &plain,
                );
                check(
                    Composite::Linear { bias: true },
                    &[xt, wt, bt],
                    &to,
                    dtype,
                    &moved,
                );
            }
            let row: Vec<f64> = (0..5)
                .map(|j| (0..4).map(|k| x[k] * w[j * 4 + k]).sum::<f64>() + b[j])
                .collect();
            let args = [
                t(&[4], dtype, &x[..4]),
                t(&[5, 4], dtype, &w),
                t(&[5], dtype, &b),
            ];
            check(Composite::Linear { bias: true }, &args, &[5], dtype, &row);
        }
        let z = |dims: &[usize]| t(dims, F32, &vec![0.0; dims.iter().product()]);
        check(
            Composite::Linear { bias: true },
            &[z(&[0, 4]), z(&[5, 4]), z(&[5])],
            &[0, 5],
            F32,
            &[],
        );
        check(
            Composite::Linear { bias: false },
            &[z(&[2, 4]), z(&[4])],
            &[2],
            F32,
            &[0.0; 2],
        );
        refused(
            &Composite::Linear { bias: false },
            &[z(&[2, 4]), z(&[5, 3])],
        );
        refused(
            &Composite::Linear { bias: false },
            &[z(&[2, 4]), z(&[1, 5, 4])],
        );
        refused(
            &Composite::Linear { bias: true },
            &[z(&[2, 4]), z(&[5, 4]), z(&[3])],
        );
        refused(
            &Composite::Linear { bias: true },
            &[z(&[2, 4]), z(&[5, 4]), z(&[3, 2, 5])],
        );
    }

    #[test]
    fn convolutions_with_bias() {
        let spec = |n: usize| {
            Box::new(ConvSpec {
                stride: smallvec![1; n],
                padding: smallvec![0; n],
                dilation: smallvec![1; n],
                output_padding: smallvec![0; n],
                groups: 1,
                transposed: false,
            })
        };
        let x = t(&[1, 1, 3], F32, &[1.0, 2.0, 3.0]);
        let (w, b) = (
            t(&[2, 1, 2], F32, &[1.0, 1.0, 1.0, -1.0]),
            t(&[2], F32, &[10.0, 20.0]),
        );
        let want = [13.0, 15.0, 19.0, 19.0];
        check(
            Composite::ConvBias(spec(1)),
            &[x.clone(), w.clone(), b],
            &[1, 2, 2],
            F32,
            &want,
        );
        refused(
            &Composite::ConvBias(spec(1)),
            &[x, w, t(&[3], F32, &[0.0; 3])],
        );
        let x = t(&[1, 1, 2, 2], F64, &[1.0, 2.0, 3.0, 4.0]);
        let (w, b) = (
            t(&[2, 1, 1, 2], F64, &[1.0, 1.0, 1.0, -1.0]),
            t(&[2], F64, &[10.0, 20.0]),
        );
        check(
            Composite::ConvBias(spec(2)),
            &[x, w, b],
            &[1, 2, 2, 1],
            F64,
            &[13.0, 17.0, 19.0, 19.0],
        );
    }

    /// Attention of one head by its definition: `seen(i, j)` is what is added to a score.
    fn reference(
        (q, k, v): (&[f64], &[f64], &[f64]),
        (l, s, e, d): (usize, usize, usize, usize),
        scale: f64,
        added: impl Fn(usize, usize) -> f64,
    ) -> Vec<f64> {
        let mut out = Vec::new();
        for i in 0..l {
            let score = |j: usize| {
                (0..e).map(|c| q[i * e + c] * k[j * e + c]).sum::<f64>() * scale + added(i, j)
            };
            let weights: Vec<f64> = (0..s).map(|j| score(j).exp()).collect();
            let sum: f64 = weights.iter().sum();
            for c in 0..d {
                let total: f64 = (0..s).map(|j| weights[j] * v[j * d + c]).sum();
                out.push(if sum == 0.0 { 0.0 } else { total / sum });
            }
        }
        out
    }

    fn attention(mask: bool, causal: bool, scale: f64) -> Composite {
        Composite::Attention {
            mask,
            causal,
            scale: scale.to_bits(),
        }
    }

    #[test]
    fn attentions() {
        const HIDDEN: f64 = f64::NEG_INFINITY;
        let (l, s, e, d) = (3, 5, 4, 2);
        let (q, k, v) = (
            sample(2 * l * e, 30),
            sample(2 * s * e, 31),
            sample(2 * s * d, 32),
        );
        // The second query sees nothing.
        let seen: Vec<f64> = (0..l * s)
            .map(|i| f64::from(u8::from(i / s != 1 && i % 3 != 1)))
            .collect();
        let bias: Vec<f64> = sample(l * s, 33);
        let head = |h: usize| {
            (
                &q[h * l * e..][..l * e],
                &k[h * s * e..][..s * e],
                &v[h * s * d..][..s * d],
            )
        };
        let want = |scale: f64, added: &dyn Fn(usize, usize) -> f64| -> Vec<f64> {
            (0..2)
                .flat_map(|h| reference(head(h), (l, s, e, d), scale, added))
                .collect()
        };
        for dtype in FLOATS {
            for lead in [&[2][..], &[2, 1], &[1, 2]] {
                let shape = |rest: [usize; 2]| [lead, &rest[..]].concat();
                let qkv = [
                    t(&shape([l, e]), dtype, &q),
                    t(&shape([s, e]), dtype, &k),
                    t(&shape([s, d]), dtype, &v),
                ];
                let to = shape([l, d]);
                let with = |mask| [&qkv[..], &[mask]].concat();
                check(
                    attention(false, false, f64::NAN),
                    &qkv,
                    &to,
                    dtype,
                    &want(0.5, &|_, _| 0.0),
                );
                check(
                    attention(false, false, 0.1),
                    &qkv,
                    &to,
                    dtype,
                    &want(0.1, &|_, _| 0.0),
                );
                let causal = want(0.5, &|i, j| if j <= i { 0.0 } else { HIDDEN });
                check(attention(false, true, f64::NAN), &qkv, &to, dtype, &causal);
                let masked = want(0.5, &|i, j| {
                    if seen[i * s + j] == 1.0 { 0.0 } else { HIDDEN }
                });
                let mask = with(t(&[l, s], Bool, &seen));
                check(attention(true, false, f64::NAN), &mask, &to, dtype, &masked);
                let added = want(0.5, &|i, j| bias[i * s + j]);
                let mask = with(t(&[l, s], dtype, &bias));
                check(attention(true, false, f64::NAN), &mask, &to, dtype, &added);
                let hidden = vec![HIDDEN; s];
                let mask = with(t(&[1, s], F32, &hidden));
                check(
                    attention(true, false, f64::NAN),
                    &mask,
                    &to,
                    dtype,
                    &vec![0.0; 2 * l * d],
                );
            }
        }
    }

    #[test]
    fn attention_at_the_edges() {
        let z = |dims: &[usize], dtype: DType| t(dims, dtype, &vec![0.0; dims.iter().product()]);
        let f = |q: &[usize], k: &[usize], v: &[usize]| [z(q, F32), z(k, F32), z(v, F32)];
        let plain = attention(false, false, f64::NAN);
        check(
            plain.clone(),
            &f(&[2, 3], &[0, 3], &[0, 4]),
            &[2, 4],
            F32,
            &[0.0; 8],
        );
        check(
            plain.clone(),
            &f(&[0, 3], &[2, 3], &[2, 4]),
            &[0, 4],
            F32,
            &[],
        );
        check(
            plain.clone(),
            &f(&[5, 1, 2, 3], &[4, 2, 3], &[4, 2, 1]),
            &[5, 4, 2, 1],
            F32,
            &[0.0; 40],
        );
        refused(&plain, &f(&[3], &[2, 3], &[2, 4]));
        refused(&plain, &f(&[2, 3], &[2, 4], &[2, 4]));
        refused(&plain, &f(&[2, 3], &[2, 3], &[3, 4]));
        let with = |mask| [&f(&[2, 3], &[2, 3], &[2, 4])[..], &[mask]].concat();
        refused(&attention(true, true, 1.0), &with(z(&[2, 2], F32)));
        refused(&attention(true, false, 1.0), &with(z(&[2, 2], I64)));
        refused(&attention(true, false, 1.0), &with(z(&[7, 2, 2], F32)));
    }
}
