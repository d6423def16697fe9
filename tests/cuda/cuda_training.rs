//! Training on a CUDA device: gradients and steps of models of several kinds beside the CPU's, nothing through the host.
//! Where there is no device, every test says so and passes.

#[path = "../common/mod.rs"]
mod common;

use common::device;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

/// A model: the shapes of its parameters, what it is given beside them (integers below the bound, or floats), its loss.
struct Model {
    name: &'static str,
    parameters: &'static [&'static [usize]],
    data: &'static [(&'static [usize], Option<i64>)],
    loss: fn(&[Tensor], &[Tensor]) -> Tensor,
}

const MODELS: &[Model] = &[
    Model {
        name: "perceptron",
        parameters: &[&[96, 50], &[96], &[10, 96], &[10]],
        data: &[(&[64, 50], None), (&[64], Some(10))],
        loss: |p, d| {
            let hidden = d[0].linear(&p[0], Some(&p[1])).relu();
            hidden.linear(&p[2], Some(&p[3])).cross_entropy(&d[1])
        },
    },
    Model {
        name: "convolutions",
        parameters: &[
            &[8, 3, 3, 3],
            &[8],
            &[8],
            &[8],
            &[16, 8, 3, 3],
            &[16],
            &[10, 256],
            &[10],
        ],
        data: &[(&[4, 3, 16, 16], None), (&[4], Some(10))],
        loss: |p, d| {
            let x = d[0].conv2d(&p[0], Some(&p[1]), 1, 1, 1, 1);
            let x = x
                .group_norm(2, Some(&p[2]), Some(&p[3]), 1e-5)
                .silu()
                .max_pool2d(2, 2, 0);
            let x = x
                .conv2d(&p[4], Some(&p[5]), 1, 1, 1, 1)
                .relu()
                .avg_pool2d(2, 2, 0);
            x.flatten(1, -1)
                .linear(&p[6], Some(&p[7]))
                .cross_entropy(&d[1])
        },
    },
    Model {
        name: "transformer block",
        parameters: &[
            &[50, 64],
            &[64],
            &[64],
            &[192, 64],
            &[64, 64],
            &[64],
            &[128, 64],
            &[64, 128],
        ],
        data: &[(&[3, 40], Some(50)), (&[3, 40], Some(50))],
        loss: |p, d| {
            let (b, t, heads) = (3, 40, 4);
            let x = p[0].embedding(&d[0]);
            let normed = x.layer_norm(1, Some(&p[1]), Some(&p[2]), 1e-5);
            let qkv = normed
                .linear(&p[3], None)
                .reshape([b, t, 3, heads, 16])
                .permute([2, 0, 3, 1, 4]);
            let (q, k, v) = (qkv.select(0, 0), qkv.select(0, 1), qkv.select(0, 2));
            let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
            let x = x + y
                .permute([0, 2, 1, 3])
                .reshape([b, t, 64])
                .linear(&p[4], None);
            let hidden = x
                .rms_norm(1, Some(&p[5]), 1e-5)
                .linear(&p[6], None)
                .gelu_tanh();
            let x = x + hidden.linear(&p[7], None);
            // The embedding is the last layer too.
            x.linear(&p[0], None)
                .reshape([b * t, 50])
                .cross_entropy(&d[1].reshape([b * t]))
        },
    },
    Model {
        name: "recurrence",
        parameters: &[&[128, 24], &[128, 32], &[128]],
        data: &[(&[12, 5, 24], None), (&[5, 32], None)],
        loss: |p, d| {
            let device = d[0].device();
            let zero = || Tensor::zeros([5, 32], DType::F32, &device);
            let (mut h, mut c) = (zero(), zero());
            for t in 0..12 {
                let gates = d[0].select(0, t).linear(&p[0], Some(&p[2])) + h.linear(&p[1], None);
                let gates = gates.chunk(4, 1);
                c = gates[1].sigmoid() * &c + gates[0].sigmoid() * gates[2].tanh();
                h = gates[3].sigmoid() * c.tanh();
            }
            h.mse_loss(&d[1])
        },
    },
    Model {
        name: "sorts, scans and scatters",
        parameters: &[&[20, 33]],
        data: &[(&[20, 33], Some(33)), (&[20, 33], None)],
        loss: |p, d| {
            let x = &p[0];
            let sorted = x.sort(1, true).0.cumsum(1) * &d[1];
            let top = x.topk(5, 1, true).0.square().sum(..);
            let moved = x.scatter_add(1, &d[0], &x.gather(1, &d[0])).tanh();
            sorted.mean(..) + top + moved.var(1, 1).mean(..) + x.logsumexp(0).norm(2.0, ..)
        },
    },
];

/// A number from −1 to 1 for a position, without a pattern: none of a window's are equal.
fn noise(i: usize, shift: usize) -> f32 {
    let wave = (i as f64 * 12.9898 + shift as f64 * 78.233).sin() * 43758.5453;
    (2.0 * wave.fract().abs() - 1.0) as f32
}

impl Model {
    fn tensors(&self, device: &Device) -> (Vec<Tensor>, Vec<Tensor>) {
        let floats = |shape: &[usize], scale: f64, shift: usize| {
            let n = shape.iter().product::<usize>();
            let all: Vec<f32> = (0..n).map(|i| noise(i, shift)).collect();
            Tensor::from_vec(all, shape, device) * scale
        };
        let parameters = self.parameters.iter().enumerate();
        let parameters = parameters.map(|(i, shape)| floats(shape, 0.2, i)).collect();
        let given = |(shape, bound): &(&[usize], Option<i64>)| match bound {
            None => floats(shape, 1.0, 7),
            Some(bound) => {
                let n = shape.iter().product::<usize>() as i64;
                let all = (0..n).map(|i| (i * 7919 + i * i) % bound).collect();
                Tensor::from_vec(all, *shape, device)
            }
        };
        (parameters, self.data.iter().map(given).collect())
    }

    fn gradients(&self, device: &Device) -> Vec<Tensor> {
        let (parameters, data) = self.tensors(device);
        let leaves: Vec<Tensor> = parameters.iter().map(Tensor::requires_grad).collect();
        let loss = (self.loss)(&leaves, &data);
        let mut all = grad(&loss, &leaves);
        all.push(loss);
        eval(&all).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        all
    }
}

#[track_caller]
fn same(name: &str, a: &[Tensor], b: &[Tensor], bound: f64) {
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        let read = |t: &Tensor| t.to_dtype(DType::F64).to_vec::<f64>().expect("a gradient");
        let (a, b) = (read(a), read(b));
        let most = b.iter().fold(1e-3, |most: f64, x| most.max(x.abs()));
        let worst = a
            .iter()
            .zip(&b)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max);
        assert!(
            worst <= bound * most,
            "{name}, tensor {i}: {worst} of {most}"
        );
    }
}

/// The gradients of every model are the CPU's, compiled and operation by operation, in every dtype.
#[test]
fn gradients_are_the_cpus() {
    let Some(d) = device() else { return };
    for model in MODELS {
        let expected = with_mode(Mode::Eager, || model.gradients(&Device::cpu()));
        for mode in [Mode::Compiled, Mode::Eager] {
            let (found, stats) = stats_scope(|| with_mode(mode, || model.gradients(&d)));
            same(model.name, &found, &expected, 2e-4);
            assert_eq!(stats.host_runs, 0, "{}", model.name);
        }
    }
}

/// Steps of a compiled function give what the CPU's do; after the first few one graph is replayed, and nothing is planned.
#[test]
fn steps_are_the_cpus() {
    let Some(d) = device() else { return };
    for model in MODELS {
        let loss = model.loss;
        let run = |device: &Device| {
            let (mut parameters, data) = model.tensors(device);
            let step = jit(move |(parameters, data): (Vec<Tensor>, Vec<&Tensor>)| {
                let leaves: Vec<Tensor> = parameters.iter().map(Tensor::requires_grad).collect();
                let data: Vec<Tensor> = data.into_iter().cloned().collect();
                let gradients = grad(&loss(&leaves, &data), &leaves);
                let pairs = leaves.iter().zip(&gradients);
                let updated: Vec<Tensor> = pairs.map(|(p, g)| p.detach() - g * 0.05).collect();
                updated
            });
            let mut call = |times: usize| {
                for _ in 0..times {
                    let given = std::mem::take(&mut parameters);
                    parameters = step.call((given, data.iter().collect()));
                }
                eval(&parameters).unwrap_or_else(|e| panic!("{}: {e}", model.name));
            };
            call(5);
            let ((), stats) = stats_scope(|| call(3));
            assert_eq!((stats.plans_built, stats.traces), (0, 0), "{}", model.name);
            (parameters, stats)
        };
        let (expected, _) = run(&Device::cpu());
        let (found, stats) = run(&d);
        same(model.name, &found, &expected, 1e-3);
        assert_eq!(stats.host_runs, 0, "{}", model.name);
        println!(
            "{}: {} kernels, {} library calls and {} graphs in 3 steps",
            model.name, stats.kernels_launched, stats.library_calls, stats.graph_launches
        );
    }
}

/// Half precision: gradients of bf16 and f16 parameters are near those of binary32 for the same numbers. Rounding the numbers
/// themselves would move a relu's or a maximum's operand over its kink, and with it whole gradients. PyTorch's greatest
/// errors for these programs, of the greatest gradient, are 0.087 (bf16, convolutions; 0.018 elsewhere) and 0.003 (f16).
#[test]
fn half_precision() {
    let Some(d) = device() else { return };
    for (dtype, bound) in [(DType::BF16, 0.1), (DType::F16, 0.02)] {
        for model in MODELS {
            let run = |compute: DType| {
                let (parameters, data) = model.tensors(&d);
                let rounded = |x: &Tensor| x.to_dtype(dtype).to_dtype(compute);
                let leaves: Vec<Tensor> = parameters
                    .iter()
                    .map(|p| rounded(p).requires_grad())
                    .collect();
                let cast = |x: &Tensor| match x.dtype().is_float() {
                    true => rounded(x),
                    false => x.clone(),
                };
                let data: Vec<Tensor> = data.iter().map(cast).collect();
                let found = grad(&(model.loss)(&leaves, &data), &leaves);
                assert!(found.iter().all(|g| g.dtype() == compute), "{}", model.name);
                eval(&found).unwrap_or_else(|e| panic!("{}: {e}", model.name));
                found
            };
            let (found, expected) = (run(dtype), run(DType::F32));
            same(&format!("{dtype} {}", model.name), &found, &expected, bound);
        }
    }
}
