//! Whole programs: generation by one call, and training through a scan.

use super::{MODES, cpu};
use ferrotrace::prelude::*;
use ferrotrace::{jit, scan, value_and_grad, while_loop};

fn matrix(rows: usize, columns: usize, seed: usize) -> Tensor {
    let value = |i: usize| ((i * 61 + seed * 37 + 5) % 89) as f32 / 89.0 - 0.5;
    let values: Vec<f32> = (0..rows * columns).map(value).collect();
    Tensor::from_slice(&values, [rows, columns], &cpu())
}

/// A model of one layer of attention over a cache, in plain Rust: the tokens that it generates greedily behind `first`.
fn greedy(
    first: usize,
    length: usize,
    [embed, query, out]: [&[f32]; 3],
    (vocab, d): (usize, usize),
) -> Vec<i64> {
    let product = |x: &[f64], w: &[f32], columns: usize| -> Vec<f64> {
        let column = |j: usize| (0..x.len()).map(|i| x[i] * w[i * columns + j] as f64).sum();
        (0..columns).map(column).collect()
    };
    let (mut cache, mut tokens): (Vec<Vec<f64>>, Vec<i64>) = (Vec::new(), vec![first as i64]);
    while tokens.len() < length {
        let token = tokens[tokens.len() - 1] as usize;
        let x: Vec<f64> = embed[token * d..][..d].iter().map(|&x| x as f64).collect();
        cache.push(x.clone());
        let q = product(&x, query, d);
        let scores: Vec<f64> = cache
            .iter()
            .map(|k| (0..d).map(|i| k[i] * q[i]).sum::<f64>().exp())
            .collect();
        let total: f64 = scores.iter().sum();
        let y = (0..d).map(|i| {
            x[i] + cache
                .iter()
                .zip(&scores)
                .map(|(k, s)| k[i] * s / total)
                .sum::<f64>()
        });
        let logits = product(&y.collect::<Vec<f64>>(), out, vocab);
        let best = (0..vocab)
            .max_by(|&a, &b| logits[a].total_cmp(&logits[b]))
            .expect("a token");
        tokens.push(best as i64);
        if best == 0 {
            break;
        }
    }
    tokens.resize(length, 0);
    tokens
}

#[test]
fn a_whole_sequence_is_generated_by_one_call() {
    let (vocab, d, length) = (13, 8, 24);
    let (embed, query, out) = (matrix(vocab, d, 1), matrix(d, d, 2), matrix(d, vocab, 3));
    let [e, q, o] = [&embed, &query, &out].map(|w| w.to_vec::<f32>().expect("numbers"));
    let generate = jit(move |first: &Tensor| {
        let positions = Tensor::arange(0, length as i64, 1, DType::I64, &cpu());
        let tokens = Tensor::zeros(length, DType::I64, &cpu()).index_put(
            &[Some(&positions.narrow(0, 0, 1))],
            first,
            false,
        );
        let cache = Tensor::zeros([length, d], DType::F32, &cpu());
        let start = (
            Tensor::zeros(1, DType::I64, &cpu()),
            first.clone(),
            tokens,
            cache,
        );
        let goes_on = |(at, token, ..): &(Tensor, Tensor, Tensor, Tensor)| {
            at.lt(length as i64 - 1).logical_and(token.ne(0)).all(..)
        };
        let step = |(at, token, tokens, cache): &(Tensor, Tensor, Tensor, Tensor)| {
            let x = embed.index_select(0, token);
            let cache = cache.index_put(&[Some(at)], &x, false);
            let scores = x.matmul(&query).matmul(&cache.t());
            let hidden = positions.gt(at).reshape([1, length]);
            let scores = scores.masked_fill(&hidden, f64::NEG_INFINITY).softmax(-1);
            let next = (&x + scores.matmul(&cache)).matmul(&out).argmax(-1);
            let at = at + 1;
            (
                at.clone(),
                next.clone(),
                tokens.index_put(&[Some(&at)], &next, false),
                cache,
            )
        };
        while_loop(goes_on, step, &start).2
    });
    for mode in MODES {
        for first in [1usize, 5, 9] {
            let want = greedy(first, length, [&e, &q, &o], (vocab, d));
            let first = Tensor::from_slice(&[first as i64], 1, &cpu());
            let found = with_mode(mode, || generate.call(&first).to_vec::<i64>());
            assert_eq!(found.expect("tokens"), want, "{mode:?}");
        }
    }
}

#[derive(TensorStruct)]
struct Rnn {
    w: Tensor,
    u: Tensor,
    out: Tensor,
}

/// The loss of a network that tells the running sum of a sequence.
fn loss(model: &Rnn, xs: &Tensor) -> Tensor {
    let step = |h: &Tensor, x: &Tensor| {
        let h = (h.matmul(&model.w) + x.unsqueeze(1).matmul(&model.u)).tanh();
        let y = h.matmul(&model.out).squeeze(1);
        (h, y)
    };
    let hidden = Tensor::zeros([xs.dims()[1], model.w.dims()[0]], DType::F32, &cpu());
    let (_, found) = scan(step, &hidden, xs);
    (found - xs.cumsum(0)).square().mean(..)
}

#[test]
fn a_network_is_trained_through_a_scan() {
    let values: Vec<f32> = (0..6 * 16)
        .map(|i| ((i * 29 + 3) % 31) as f32 / 31.0 - 0.5)
        .collect();
    let xs = Tensor::from_slice(&values, [6, 16], &cpu());
    let mut last = Vec::new();
    for mode in MODES {
        let mut model = Rnn {
            w: matrix(12, 12, 5),
            u: matrix(1, 12, 6),
            out: matrix(12, 1, 7),
        };
        let step = jit(|(mut model, xs): (Rnn, &Tensor)| {
            let (loss, gradients) = value_and_grad(&model, |model| loss(model, xs));
            let moved = model.zip_mut(&gradients, |_, x, gradient| *x = &*x - gradient * 0.2);
            (model, moved.map(|()| loss))
        });
        let mut losses = Vec::new();
        with_mode(mode, || {
            for _ in 0..60 {
                let (next, loss) = step.call((model, &xs));
                losses.push(loss.and_then(|loss| loss.item::<f32>()).expect("a loss"));
                model = next;
            }
        });
        assert!(losses[59] < 0.2 * losses[0], "{mode:?}: {losses:?}");
        last.push(losses[59]);
    }
    assert!(
        (last[0] - last[1]).abs() < 1e-4 * last[0].max(1e-3),
        "{last:?}"
    );
}
