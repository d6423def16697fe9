//! Models whose values go where other values say: to experts with room for a few, along edges, to cells of a grid, along
//! the ways of a text through time.

use super::{cpu, like_pytorch, numbers, whole};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;
use ferrotrace::{ReduceOp, jvp};

const NEVER: f64 = f64::NEG_INFINITY;

#[derive(Clone, Debug, TensorStruct)]
struct Transcriber {
    rnn: Gru,
    out: Linear,
}

/// The logarithms of the probabilities of all ways that a text of at most three words may go through six moments.
#[test]
fn transcription_whose_words_are_not_aligned() {
    let model = || Transcriber {
        rnn: Gru::new(4, 6, &cpu()),
        out: Linear::new(6, 6, &cpu()),
    };
    like_pytorch("Transcriber", model, |m, dtype| {
        let log_p = m.rnn.forward(&numbers("x", &[6, 3, 4], dtype));
        let log_p = m.out.forward(&log_p).log_softmax(2);
        let counts = |n: [i64; 3]| Tensor::from_slice(&n, 3, &cpu());
        let (lengths, words) = (counts([6, 5, 4]), counts([3, 2, 1]));
        let text = whole("t", 5, &[3, 3]) + 1;
        // A blank before, between and behind words.
        let text = Tensor::stack([&text.zeros_like(), &text], 2).reshape([3, 6]);
        let text = text.pad(&[(0, 0), (0, 1)], 0);
        let place = Tensor::arange(0, 7, 1, DType::I64, &cpu());
        let skips = (&place % 2).eq(1).logical_and(&place.ge(2));
        let skips = skips.logical_and(&text.ne(&text.roll(2, 1)));
        let said = |t: isize| log_p.select(0, t).gather(1, &text);
        let mut ways = place.lt(2).where_cond(&said(0), -1e30);
        for t in 1..6 {
            let one = ways.pad(&[(0, 0), (1, -1)], -1e30);
            let two = skips.where_cond(&ways.pad(&[(0, 0), (2, -2)], -1e30), -1e30);
            let next = Tensor::stack([&ways, &one, &two], 0).logsumexp(0) + said(t as isize);
            ways = lengths.gt(t as i64).unsqueeze(1).where_cond(&next, &ways);
        }
        let end = (&words * 2).unsqueeze(1);
        let last = ways.gather(1, &end).logaddexp(&ways.gather(1, &(end - 1)));
        (-last.squeeze(1) / words.to_dtype(dtype)).mean(0)
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Experts {
    wide: Tensor,
    narrow: Tensor,
}

#[derive(Clone, Debug, TensorStruct)]
struct Switch {
    gate: Linear,
    experts: Experts,
    out: Linear,
}

#[test]
fn experts_with_room_for_a_few() {
    let model = || Switch {
        gate: Linear::new(6, 4, &cpu()),
        experts: Experts {
            wide: Tensor::zeros([4, 6, 8], DType::F32, &cpu()),
            narrow: Tensor::zeros([4, 8, 6], DType::F32, &cpu()),
        },
        out: Linear::new(6, 3, &cpu()),
    };
    like_pytorch("Switch", model, |m, dtype| {
        let (n, count, room) = (20, 4, 8);
        let x = numbers("x", &[n, 6], dtype);
        let p = m.gate.forward(&x).softmax(1);
        let (top, which) = p.topk(2, 1, true);
        let chosen = which.one_hot(count);
        let turns = chosen.transpose(0, 1).reshape([2 * n, count]);
        let place = ((turns.cumsum(0) - 1) * &turns).sum(1).reshape([2, n]).t();
        let slot = &which * room + &place;
        let nowhere = (count * room) as i64;
        let slot = place
            .lt(room as i64)
            .where_cond(&slot, nowhere)
            .reshape([2 * n]);
        let twice = x.unsqueeze(1).expand([n, 2, 6]).reshape([2 * n, 6]);
        let given = Tensor::zeros([count * room + 1, 6], dtype, &cpu());
        let given = given.index_add(0, &slot, &twice).narrow(0, 0, count * room);
        let y = given.reshape([count, room, 6]).matmul(&m.experts.wide);
        let y = y
            .gelu()
            .matmul(&m.experts.narrow)
            .reshape([count * room, 6]);
        let back = y.pad(&[(0, 1), (0, 0)], 0.0).index_select(0, &slot);
        let shares = &top / top.sum_keepdim(1);
        let y = (back.reshape([n, 2, 6]) * shares.unsqueeze(2)).sum(1) + x;
        let first = chosen.select(1, 0).to_dtype(dtype).mean(0);
        let balance = (first * p.mean(0)).sum(0) * count;
        m.out.forward(&y).cross_entropy(&whole("t", 3, &[n])) + balance * 0.1
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Attending {
    w: Linear,
    a: Linear,
    out: Linear,
}

#[test]
fn attention_along_the_edges_of_a_graph() {
    let model = || Attending {
        w: Linear::new(5, 8, &cpu()),
        a: Linear::new(16, 2, &cpu()),
        out: Linear::new(8, 3, &cpu()),
    };
    like_pytorch("Attending", model, |m, dtype| {
        let (n, edges) = (12, 40);
        let [source, target] = ["source", "target"].map(|name| whole(name, n, &[edges]));
        let h = m.w.forward(&numbers("x", &[n, 5], dtype));
        let of = |nodes: &Tensor| h.index_select(0, nodes);
        let e = m.a.forward(&Tensor::cat([&of(&source), &of(&target)], 1));
        let e = e.leaky_relu(0.2);
        let at = target.unsqueeze(1).expand([edges, 2]);
        let none = Tensor::full([n, 2], NEVER, dtype, &cpu());
        let top = none.scatter_reduce(0, &at, &e.detach(), ReduceOp::Amax, true);
        let w = (e - top.index_select(0, &target)).exp();
        let all = Tensor::zeros([n, 2], dtype, &cpu()).index_add(0, &target, &w);
        let w = w / (all.index_select(0, &target) + 1e-16);
        let seen = of(&source).reshape([edges, 2, 4]) * w.unsqueeze(2);
        let y = Tensor::zeros([n, 2, 4], dtype, &cpu()).index_add(0, &target, &seen);
        let logits = m.out.forward(&y.reshape([n, 8]).elu(1.0));
        logits.cross_entropy(&whole("t", 3, &[n]))
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Detector {
    conv: Conv2d,
    norm: BatchNorm2d,
    head: Conv2d,
}

/// How much of two boxes is common, less what their hull has beside them.
fn overlap(a: &Tensor, b: &Tensor) -> Tensor {
    let corner = |x: &Tensor, half: f64| x.narrow(1, 0, 2) + x.narrow(1, 2, 2) * half;
    let ([a0, a1], [b0, b1]) = (
        [-0.5, 0.5].map(|h| corner(a, h)),
        [-0.5, 0.5].map(|h| corner(b, h)),
    );
    let common = (a1.minimum(&b1) - a0.maximum(&b0)).clamp_min(0.0).prod(1);
    let hull = (a1.maximum(&b1) - a0.minimum(&b0)).prod(1);
    let union = (a1 - a0).prod(1) + (b1 - b0).prod(1) - &common;
    common / (&union + 1e-9) - (&hull - &union) / (&hull + 1e-9)
}

#[test]
fn boxes_found_in_the_cells_of_a_grid() {
    let model = || Detector {
        conv: Conv2d::with(2, 6, 3, Conv::new().padding(1), &cpu()),
        norm: BatchNorm2d::new(6, &cpu()),
        head: Conv2d::new(6, 14, 1, &cpu()),
    };
    like_pytorch("Detector", model, |m, dtype| {
        let x = m.conv.forward(&numbers("x", &[2, 2, 4, 4], dtype));
        let x = m.norm.forward(&x).leaky_relu(0.1);
        let y = m.head.forward(&x).reshape([2, 2, 7, 4, 4]);
        let y = y.permute([0, 1, 3, 4, 2]);
        let [image, anchor, words] = ["image", "anchor", "t"].map(|name| whole(name, 2, &[7]));
        let middle = (numbers("middle", &[7, 2], DType::F64) + 1.0) * 2.0;
        let cell = middle.floor().clamp(0, 3).to_dtype(DType::I64);
        let (row, column) = (cell.select(1, 1), cell.select(1, 0));
        let place = [Some(&image), Some(&anchor), Some(&row), Some(&column)];
        let p = y.index(&place);
        let at = p.narrow(1, 0, 2).sigmoid() * 2.0 - 0.5 + cell.to_dtype(dtype);
        let size = (p.narrow(1, 2, 2).sigmoid() * 2.0).square();
        let wanted = numbers("size", &[7, 2], DType::F64) + 1.2;
        let wanted = Tensor::cat([&middle, &wanted], 1).to_dtype(dtype);
        let fit = overlap(&Tensor::cat([&at, &size], 1), &wanted);
        let goal = Tensor::zeros([2, 2, 4, 4], dtype, &cpu());
        let goal = goal.index_put(&place, &Tensor::ones(7, dtype, &cpu()), false);
        let o = y.select(4, 4);
        let costs = o.clamp_min(0.0) - &o * goal + (-o.abs()).exp().log1p();
        let focal = ((1.0 - (-&costs).exp()).pow(1.5) * costs).mean(..);
        let kinds = words.one_hot(2).to_dtype(dtype);
        let kind = p.narrow(1, 5, 2).binary_cross_entropy_with_logits(&kinds);
        (1.0 - fit).mean(0) + focal + kind * 0.5
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Slope {
    layers: (Linear, Softplus, Linear, Softplus, Linear),
}

/// The loss asks how a slope changes along a direction: a derivative in forward mode is differentiated.
#[test]
fn slopes_of_a_density_along_directions() {
    let model = || Slope {
        layers: (
            Linear::new(3, 10, &cpu()),
            Softplus,
            Linear::new(10, 10, &cpu()),
            Softplus,
            Linear::new(10, 3, &cpu()),
        ),
    };
    like_pytorch("Slope", model, |m, dtype| {
        let [x, v] = ["x", "v"].map(|name| numbers(name, &[11, 3], dtype));
        let (slope, product) = jvp(|x: &Tensor| m.layers.forward(x), &x, &v);
        ((product * &v).sum(1) + (slope * &v).sum(1).square() * 0.5).mean(0)
    });
}
