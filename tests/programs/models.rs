//! Models and their training, by hand.

use crate::check::{Program, noise};
use crate::expected::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// A step of Adam for two layers: input, target, four weights, their first and second moments, the step's number.
fn adam(s: Vec<Tensor>) -> Vec<Tensor> {
    let (x, y, w, m, v) = (&s[0], &s[1], &s[2..6], &s[6..10], &s[10..14]);
    let step = &s[14] + 1.0;
    let hidden = x.matmul(&w[0]) + &w[1];
    let active = hidden.relu();
    let output = (active.matmul(&w[2]) + &w[3] - y) * (2.0 / y.numel() as f64);
    let back = output.matmul(&w[2].t()) * hidden.gt(0.0).to_dtype(F64);
    let gradients = [
        x.t().matmul(&back),
        back.sum(0),
        active.t().matmul(&output),
        output.sum(0),
    ];
    let mut next: [Vec<Tensor>; 3] = Default::default();
    for (i, g) in gradients.iter().enumerate() {
        let m = &m[i] * 0.9 + g * 0.1;
        let v = &v[i] * 0.999 + g.square() * 0.001;
        let first = &m / (1.0 - (&step * 0.9f64.ln()).exp());
        let second = &v / (1.0 - (&step * 0.999f64.ln()).exp());
        next[0].push(&w[i] - first / (second.sqrt() + 1e-6) * 0.01);
        next[1].push(m);
        next[2].push(v);
    }
    let ends = [vec![x.clone(), y.clone()], next.concat(), vec![step]];
    ends.concat()
}

#[test]
fn training_by_adam() {
    Program {
        state: || {
            let mut s = vec![noise(&[24, 6], 0), noise(&[24, 3], 1)];
            s.extend([noise(&[6, 16], 2) * 0.2, noise(&[16], 4) * 0.0]);
            s.extend([noise(&[16, 3], 3) * 0.2, noise(&[3], 4) * 0.0]);
            for i in 0..8 {
                s.push(s[2 + i % 4].zeros_like());
            }
            s.push(Tensor::scalar(0.0, F64, &Device::cpu()));
            s
        },
        step: adam,
        steps: 24,
        expected: ADAM,
        tolerance: 1e-9,
    }
    .check();
}

/// Attention to the last 8 places, less to those further away, in heads with slopes of their own.
fn windowed_attention(s: Vec<Tensor>) -> Vec<Tensor> {
    let [q, k, v] = <[Tensor; 3]>::try_from(s).expect("three tensors");
    let place = Tensor::arange(0, q.dims()[2] as i64, 1, I64, &Device::cpu());
    let back = place.unsqueeze(1) - place.unsqueeze(0);
    let hidden = back.lt(0).logical_or(&back.ge(8));
    let slopes = Tensor::from_slice(&[0.5, 0.25], [2, 1, 1], &Device::cpu());
    let scores = q.matmul(&k.transpose(-1, -2)) * 0.25 - back.to_dtype(F64) * slopes;
    let scores = scores.masked_fill(&hidden, f64::NEG_INFINITY);
    vec![scores.softmax(-1).matmul(&v), k, v]
}

#[test]
fn attention_through_a_window() {
    Program {
        state: || (0..3).map(|seed| noise(&[2, 2, 24, 8], seed)).collect(),
        step: windowed_attention,
        steps: 8,
        expected: ATTENTION,
        tolerance: 1e-12,
    }
    .check();
}

/// Experts of two layers, two for each token, weighted by what the router says.
fn experts(s: Vec<Tensor>) -> Vec<Tensor> {
    let [x, router, weights] = <[Tensor; 3]>::try_from(s).expect("three tensors");
    let (best, which) = x.matmul(&router).softmax(1).topk(2, 1, true);
    let shares = &best / best.sum_keepdim(1);
    let none = Tensor::zeros([x.dims()[0], weights.dims()[0]], F64, &Device::cpu());
    let shares = none.scatter(1, &which, &shares);
    let mut sum = &x * 0.5;
    for e in 0..weights.dims()[0] as isize {
        sum += x.matmul(&weights.select(0, e)).relu() * shares.at((.., e..e + 1));
    }
    vec![sum.tanh(), router, weights]
}

#[test]
fn mixture_of_experts() {
    Program {
        state: || {
            let (router, weights) = (noise(&[8, 5], 1), noise(&[5, 8, 8], 2) * 0.2);
            vec![noise(&[20, 8], 0), router, weights]
        },
        step: experts,
        steps: 8,
        expected: EXPERTS,
        tolerance: 1e-12,
    }
    .check();
}

/// Thirty steps of a recurrent layer with forget, input and output gates.
fn recurrent(s: Vec<Tensor>) -> Vec<Tensor> {
    let [mut h, mut c, inputs, w, u] = <[Tensor; 5]>::try_from(s).expect("five tensors");
    for t in 0..inputs.dims()[0] as isize {
        let gates = inputs.at(t).linear(&w, None) + h.linear(&u, None);
        let gates = gates.chunk(4, 1);
        c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh();
        h = gates[3].sigmoid() * c.tanh();
    }
    vec![h, c, inputs, w, u]
}

#[test]
fn recurrent_layer() {
    Program {
        state: || {
            let state = Tensor::zeros([3, 8], F64, &Device::cpu());
            let (w, u) = (noise(&[32, 5], 1) * 0.2, noise(&[32, 8], 2) * 0.2);
            vec![state.clone(), state, noise(&[30, 3, 5], 0), w, u]
        },
        step: recurrent,
        steps: 8,
        expected: RECURRENT,
        tolerance: 1e-12,
    }
    .check();
}

/// A recurrent layer with update and reset gates, of which one half walks the inputs backwards.
fn both_ways(s: Vec<Tensor>) -> Vec<Tensor> {
    let [inputs, w, u, bias] = <[Tensor; 4]>::try_from(s).expect("four tensors");
    let length = inputs.dims()[0] as isize;
    let walk = |way: isize, order: Vec<isize>| {
        let (w, u, bias) = (w.at(way), u.at(way), bias.at(way));
        let mut h = Tensor::zeros([inputs.dims()[1], u.dims()[1]], F64, &Device::cpu());
        let mut states = Vec::new();
        for t in order {
            let x = inputs.at(t).linear(&w, Some(&bias)).chunk(3, 1);
            let from = h.linear(&u, None).chunk(3, 1);
            let (reset, update) = ((&x[0] + &from[0]).sigmoid(), (&x[1] + &from[1]).sigmoid());
            let new = (&x[2] + reset * &from[2]).tanh();
            h = (1.0 - &update) * new + update * &h;
            states.push(h.clone());
        }
        states
    };
    let forth = walk(0, (0..length).collect());
    let mut back = walk(1, (0..length).rev().collect());
    back.reverse();
    let states = Tensor::cat([Tensor::stack(forth, 0), Tensor::stack(back, 0)], 2);
    vec![states + &inputs * 0.5, w, u, bias]
}

#[test]
fn recurrent_layer_both_ways() {
    Program {
        state: || {
            let (w, u) = (noise(&[2, 12, 8], 1) * 0.2, noise(&[2, 12, 4], 2) * 0.2);
            vec![noise(&[15, 3, 8], 0), w, u, noise(&[2, 12], 3) * 0.1]
        },
        step: both_ways,
        steps: 8,
        expected: BOTH_WAYS,
        tolerance: 1e-12,
    }
    .check();
}

/// Attention as a recurrence of two sums whose terms decay, kept relative to the largest exponent so far.
fn decays(s: Vec<Tensor>) -> Vec<Tensor> {
    let [k, v, r, w, u] = <[Tensor; 5]>::try_from(s).expect("five tensors");
    let (mut over, decay) = (k.at(0).zeros_like(), -w.exp());
    let (mut under, mut most) = (over.clone(), over.full_like(-1e30));
    let mut out = Vec::new();
    for t in 0..k.dims()[0] as isize {
        let [k, v, r] = [&k, &v, &r].map(|x| x.at(t));
        let now = &u + &k;
        let top = most.maximum(&now);
        let (before, now) = ((&most - &top).exp(), (now - top).exp());
        let mixed = (&before * &over + &now * &v) / (before * &under + now);
        out.push(mixed * r.sigmoid());
        let later = most + &decay;
        most = later.maximum(&k);
        let (before, now) = ((later - &most).exp(), (k - &most).exp());
        over = &before * over + &now * v;
        under = before * under + now;
    }
    vec![k.roll(1, 0), Tensor::stack(out, 0) + v * 0.5, r, w, u]
}

#[test]
fn decaying_attention() {
    Program {
        state: || {
            let mut s: Vec<Tensor> = (1..4).map(|i| noise(&[10, 3, 6], i)).collect();
            s.extend([noise(&[6], 4) * 0.3, noise(&[6], 5) * 0.3]);
            s
        },
        step: decays,
        steps: 8,
        expected: DECAYS,
        tolerance: 1e-11,
    }
    .check();
}
