//! Training loops: flat work, memory and plans, however many steps they take.

use ferrotrace::prelude::*;
use ferrotrace::{Stats, reset_stats, stats_scope};

/// A small network and its data.
struct Net {
    weights: Vec<Tensor>,
}

fn noise(shape: &[usize], seed: f64) -> Tensor {
    let n: usize = shape.iter().product();
    let data: Vec<f32> = (0..n)
        .map(|i| ((i as f64 * 12.9898 + seed).sin() * 43758.5453).fract() as f32)
        .collect();
    Tensor::from_vec(data, shape, &Device::cpu())
}

impl Net {
    fn new() -> Net {
        let weights = vec![
            noise(&[32, 16], 1.0) * 0.3,
            noise(&[32], 2.0) * 0.1,
            noise(&[4, 32], 3.0) * 0.3,
            noise(&[4], 4.0) * 0.1,
        ];
        eval(&weights).unwrap();
        Net { weights }
    }

    fn loss(weights: &[Tensor], x: &Tensor, t: &Tensor) -> Tensor {
        let hidden = x.linear(&weights[0], Some(&weights[1])).tanh();
        let out = hidden.linear(&weights[2], Some(&weights[3]));
        out.cross_entropy(t)
    }
}

fn batch() -> (Tensor, Tensor) {
    let x = noise(&[64, 16], 5.0);
    let t = x.narrow(1, 0, 4).argmax(1).one_hot(4).to_dtype(DType::F32);
    eval([&x, &t]).unwrap();
    (x, t)
}

/// Runs 12 steps to warm up, then two equally long stretches, and compares their work.
fn flat(mut step: impl FnMut() -> f32) {
    let first: Vec<f32> = (0..12).map(|_| step()).collect();
    reset_stats();
    let mut stretch = || -> (Stats, f32) {
        let (last, stats) = stats_scope(|| (0..40).map(|_| step()).last().unwrap());
        (stats, last)
    };
    let (a, _) = stretch();
    let (b, last) = stretch();
    assert!(last < first[0] * 0.7, "{first:?} then {last}");
    assert_eq!(a.kernels_launched, b.kernels_launched);
    assert_eq!(b.plans_built, 0);
    assert!(
        b.live_bytes <= a.live_bytes + 4096,
        "{} then {}",
        a.live_bytes,
        b.live_bytes
    );
    println!(
        "{} kernels and {} library calls a step, {} bytes",
        b.kernels_launched / 40,
        b.library_calls / 40,
        b.live_bytes
    );
}

#[test]
fn backward_and_losses_kept() {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let (x, t) = batch();
            let mut weights: Vec<Tensor> = Net::new().weights;
            let mut losses = Vec::new();
            flat(|| {
                let leaves: Vec<Tensor> = weights.iter().map(Tensor::requires_grad).collect();
                let loss = Net::loss(&leaves, &x, &t);
                loss.backward();
                weights = leaves.iter().map(|w| w.detach() - w.grad() * 0.5).collect();
                losses.push(loss);
                losses.last().unwrap().to_scalar().unwrap()
            });
        });
    }
}

#[test]
fn gradients_of_detached_weights() {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let (x, t) = batch();
            let mut weights: Vec<Tensor> = Net::new().weights;
            flat(|| {
                let leaves: Vec<Tensor> = weights.iter().map(Tensor::requires_grad).collect();
                let loss = Net::loss(&leaves, &x, &t);
                let gradients = grad(&loss, &leaves);
                let update = |(w, g): (&Tensor, Tensor)| w.detach() - g.detach() * 0.5;
                weights = leaves.iter().zip(gradients).map(update).collect();
                loss.to_scalar().unwrap()
            });
        });
    }
}

#[test]
fn the_loss_is_read_before_the_gradient_is_taken() {
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let (x, t) = batch();
            let mut weights: Vec<Tensor> = Net::new().weights;
            flat(|| {
                let leaves: Vec<Tensor> = weights.iter().map(Tensor::requires_grad).collect();
                let loss = Net::loss(&leaves, &x, &t);
                let value = loss.to_scalar().unwrap();
                loss.backward();
                weights = leaves.iter().map(|w| w.detach() - w.grad() * 0.5).collect();
                eval(&weights).unwrap();
                value
            });
        });
    }
}

#[test]
fn a_compiled_step() {
    let (x, t) = batch();
    let mut weights: Vec<Tensor> = Net::new().weights;
    let step = jit(|(weights, x, t): (Vec<Tensor>, &Tensor, &Tensor)| {
        let leaves: Vec<Tensor> = weights.iter().map(Tensor::requires_grad).collect();
        let loss = Net::loss(&leaves, x, t);
        let gradients = grad(&loss, &leaves);
        let update = |(w, g): (&Tensor, &Tensor)| w.detach() - g * 0.5;
        let weights: Vec<Tensor> = leaves.iter().zip(&gradients).map(update).collect();
        (weights, loss)
    });
    flat(|| {
        let (next, loss) = step.call((std::mem::take(&mut weights), &x, &t));
        weights = next;
        loss.to_scalar().unwrap()
    });
}

/// A step of a recurrence: the new states of an input and of the last ones, by the weights of both.
type Cell = fn(&Tensor, &[Tensor], &[Tensor]) -> Vec<Tensor>;

/// The library calls of the gradients of a recurrence's weights, `gates` times as many as its units, which are those that
/// eager mode finds.
fn recurrence(gates: usize, cell: Cell) -> u64 {
    let (steps, batch, width) = (64, 32, 48);
    let x = noise(&[steps, batch, 24], 1.0);
    let weights = [
        noise(&[gates * width, 24], 2.0) * 0.3,
        noise(&[gates * width, width], 3.0) * 0.2,
    ];
    let gradients = || {
        let leaves: Vec<Tensor> = weights.iter().map(Tensor::requires_grad).collect();
        let zero = || Tensor::zeros([batch, width], DType::F32, &Device::cpu());
        let mut state = vec![zero(), zero()];
        for t in 0..steps as isize {
            state = cell(&x.select(0, t), &leaves, &state);
        }
        let found = grad(&state[0].square().mean(..), &leaves);
        eval(&found).unwrap();
        found
    };
    gradients();
    let (compiled, stats) = stats_scope(gradients);
    let eager = with_mode(Mode::Eager, gradients);
    for (a, b) in compiled.iter().zip(&eager) {
        assert!(a.allclose(b, 1e-4, 1e-7).unwrap());
    }
    println!("{} calls", stats.library_calls);
    stats.library_calls
}

/// The gradient of a weight that every step of a recurrence uses is a product for many steps: two products a step are left
/// forwards, and one backwards.
#[test]
fn weights_used_again_and_again() {
    let calls = recurrence(1, |x, weights, state| {
        let h = x.linear(&weights[0], None) + state[0].linear(&weights[1], None);
        vec![h.tanh()]
    });
    let most = 3 * 64 + 64 / 4;
    assert!(calls <= most, "{calls} calls");
}

/// The gradients of the weights of a recurrence with gates, whose steps keep a state besides their result, are products for
/// many steps, too.
#[test]
fn weights_of_gates_used_again_and_again() {
    let calls = recurrence(4, |x, weights, state| {
        let gates = x.linear(&weights[0], None) + state[0].linear(&weights[1], None);
        let gates = gates.chunk(4, 1);
        let c = gates[1].sigmoid() * &state[1] + gates[0].sigmoid() * gates[2].tanh();
        vec![gates[3].sigmoid() * c.tanh(), c]
    });
    let most = 3 * 64 + 64 / 4;
    assert!(calls <= most, "{calls} calls");
}
