//! The layers of `layers.txt` as `jit` functions: microseconds and bytes of a call, one line each, which
//! `benches/peers/layers.py` sets beside those of PyTorch. On a CUDA device where there is one, else on the CPU. Words after
//! `--` choose lines by parts of them; `--profile` adds the time of each step.

use ferrotrace::prelude::*;
use ferrotrace::{profile, reset_stats};
use ferrotrace_runtime::live_bytes;
use std::collections::HashMap;
use std::time::Instant;

/// Queued calls of a round, rounds, and seconds after which no further round begins.
const CALLS: usize = 10;
const ROUNDS: usize = 9;
const LONG: f64 = 0.5;

/// A line of the list.
struct Layer<'a> {
    op: &'a str,
    dtype: DType,
    attributes: HashMap<&'a str, &'a str>,
}

impl<'a> Layer<'a> {
    fn parse(line: &'a str) -> Layer<'a> {
        let mut words = line.split_whitespace().skip(1);
        let op = words.next().unwrap_or_default();
        let dtype = match words.next() {
            Some("bf16") => DType::BF16,
            Some("f16") => DType::F16,
            _ => DType::F32,
        };
        let attributes = words.filter_map(|word| word.split_once('=')).collect();
        Layer {
            op,
            dtype,
            attributes,
        }
    }

    /// Numbers of an attribute, separated by `x`.
    fn sizes(&self, name: &str) -> Vec<usize> {
        let text = self.attributes.get(name).copied().unwrap_or_default();
        text.split('x').filter_map(|n| n.parse().ok()).collect()
    }

    fn number(&self, name: &str, missing: usize) -> usize {
        self.sizes(name).first().copied().unwrap_or(missing)
    }

    /// What the layer is given: its input, weights, and targets of losses.
    fn operands(&self, device: &Device) -> Vec<Tensor> {
        let randn = |shape: &[usize]| Tensor::randn(shape, self.dtype, device);
        let (x, w) = (self.sizes("x"), self.sizes("w"));
        let mut all = vec![randn(&x)];
        match self.op {
            "cross_entropy" => {
                all.push(Tensor::randint(0, x[1] as i64, [x[0]], DType::I64, device));
            }
            "mse" | "hinge" | "smooth_l1" | "kl_div" => all.push(randn(&x)),
            "layer_norm" | "rms_norm" => all.extend([randn(&x[1..]), randn(&x[1..])]),
            "batch_norm" | "group_norm" => all.extend([randn(&x[1..2]), randn(&x[1..2])]),
            "linear" => all.extend([randn(&w) * 0.03, randn(&w[..1])]),
            "linear_batch_norm" | "linear_layer_norm" => {
                all.push(randn(&w) * 0.03);
                all.extend([randn(&w[..1]), randn(&w[..1])]);
            }
            _ if !w.is_empty() => all.push(randn(&w) * 0.03),
            _ => {}
        }
        all
    }

    fn run(&self, x: &[Tensor]) -> Tensor {
        let y = match self.op {
            op if op.starts_with("conv") => self.convolution(&x[0], &x[1]),
            op if op.contains("pool") => self.pooling(&x[0]),
            "linear" => x[0].linear(&x[1], Some(&x[2])),
            "linear_batch_norm" => {
                let y = x[0].matmul(&x[1].t());
                y.batch_norm_training(Some(&x[2]), Some(&x[3]), 1e-5).0
            }
            "linear_layer_norm" => {
                let y = x[0].matmul(&x[1].t());
                y.layer_norm(1, Some(&x[2]), Some(&x[3]), 1e-5)
            }
            _ => self.other(x),
        };
        match self.attributes.get("then").copied() {
            Some("relu") => y.relu(),
            Some("gelu") => y.gelu(),
            Some("silu") => y.silu(),
            Some("tanh") => y.tanh(),
            _ => y,
        }
    }

    fn convolution(&self, x: &Tensor, w: &Tensor) -> Tensor {
        let [s, p, d] =
            [("stride", 1), ("padding", 0), ("dilation", 1)].map(|(n, m)| self.number(n, m));
        let (o, g) = (self.number("output_padding", 0), self.number("groups", 1));
        match self.op {
            "conv1d" => x.conv1d(w, None, s, p, d, g),
            "conv2d" => x.conv2d(w, None, s, p, d, g),
            "conv3d" => x.conv3d(w, None, s, p, d, g),
            "conv_transpose1d" => x.conv_transpose1d(w, None, s, p, o, d, g),
            "conv_transpose2d" => x.conv_transpose2d(w, None, s, p, o, d, g),
            _ => x.conv_transpose3d(w, None, s, p, o, d, g),
        }
    }

    fn pooling(&self, x: &Tensor) -> Tensor {
        let [k, s, p] = ["window", "stride", "padding"].map(|name| self.number(name, 0));
        match self.op {
            "max_pool1d" => x.max_pool1d(k, s, p),
            "max_pool2d" => x.max_pool2d(k, s, p),
            "max_pool3d" => x.max_pool3d(k, s, p),
            "avg_pool1d" => x.avg_pool1d(k, s, p),
            "avg_pool2d" => x.avg_pool2d(k, s, p),
            _ => x.avg_pool3d(k, s, p),
        }
    }

    fn other(&self, x: &[Tensor]) -> Tensor {
        let dims: Vec<isize> = self.sizes("dim").iter().map(|&d| d as isize).collect();
        let first = dims.first().copied().unwrap_or(1);
        let a = &x[0];
        match self.op {
            "layer_norm" => a.layer_norm(1, Some(&x[1]), Some(&x[2]), 1e-5),
            "rms_norm" => a.rms_norm(1, Some(&x[1]), 1e-5),
            "batch_norm" => a.batch_norm_training(Some(&x[1]), Some(&x[2]), 1e-5).0,
            "group_norm" => {
                let groups = self.number("groups", 1);
                a.group_norm(groups, Some(&x[1]), Some(&x[2]), 1e-5)
            }
            "instance_norm" => a.instance_norm(None, None, 1e-5),
            "softmax" => a.softmax(1),
            "log_softmax" => a.log_softmax(1),
            "sum" => a.sum(&dims[..]),
            "mean" => a.mean(&dims[..]),
            "var" => a.var(&dims[..], 1),
            "argmax" => a.argmax(first),
            "norm" => a.norm(2.0, ..),
            "cumsum" => a.cumsum(first),
            "cumsum_exclusive" => {
                let n = a.dims()[1];
                let first = Tensor::zeros([a.dims()[0], 1], self.dtype, &a.device());
                Tensor::cat(&[&first, &a.cumsum(1).narrow(1, 0, n - 1)], 1)
            }
            "mse" => a.mse_loss(&x[1]),
            "hinge" => (1.0 - a * &x[1]).clamp_min(0.0).mean(..),
            "kl_div" => a.log_softmax(1).kl_div(&x[1].softmax(1)),
            "smooth_l1" => a.smooth_l1_loss(&x[1], 1.0),
            "cross_entropy" => a.cross_entropy(&x[1]),
            "softplus" => a.softplus(),
            "mish" => a.mish(),
            "erf" => a.erf(),
            "log1p" => a.abs().log1p(),
            _ => a.gelu(),
        }
    }
}

/// Milliseconds of a first call, microseconds of later ones (the median of rounds), and bytes that a call needs.
fn measure(device: &Device, line: &'static str, profiled: bool) -> Result<(f64, f64, u64)> {
    let layer = Layer::parse(line);
    let operands = layer.operands(device);
    eval(&operands)?;
    device.synchronize()?;
    let f = jit(move |x: Vec<Tensor>| layer.run(&x));
    let call = || f.call(operands.clone()).eval();
    let start = Instant::now();
    call()?;
    device.synchronize()?;
    let first = start.elapsed().as_secs_f64() * 1e3;
    for _ in 0..4 {
        call()?;
    }
    device.synchronize()?;
    let before = live_bytes();
    reset_stats();
    call()?;
    device.synchronize()?;
    let bytes = stats().peak_bytes.saturating_sub(before);
    let start = Instant::now();
    let mut times = Vec::new();
    while times.len() < ROUNDS && (times.is_empty() || start.elapsed().as_secs_f64() < LONG) {
        let ((), took) = device.time(|| (0..CALLS).try_for_each(|_| call()))?;
        times.push(took.as_secs_f64() * 1e6 / CALLS as f64);
    }
    times.sort_by(f64::total_cmp);
    if profiled {
        let (ran, profile) = profile(|| (0..CALLS).try_for_each(|_| call()));
        ran?;
        println!("{profile}");
    }
    Ok((first, times[times.len() / 2], bytes))
}

fn main() -> Result<()> {
    let device = Device::best();
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| !word.starts_with("--"))
        .collect();
    let profiled = std::env::args().any(|word| word == "--profile");
    let lines = include_str!("layers.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if wanted.is_empty() || wanted.iter().any(|part| line.contains(part.as_str())) {
            match measure(&device, line, profiled) {
                Ok((first, took, bytes)) => {
                    println!("{line} | {took:.2} us {bytes} bytes {first:.1} ms")
                }
                Err(error) => println!("{line} | {error}"),
            }
        }
    }
    Ok(())
}
