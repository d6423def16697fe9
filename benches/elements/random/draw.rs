//! Draws programs: operations over matrices, images and whole numbers, sometimes with a gradient.

use super::rng::Rng;
use ferrotrace::prelude::*;
use ferrotrace::{Generator, Interpolation, PadMode, value_and_grad};

/// Elements of a value up to which operations enlarge it.
const LARGE: usize = 150_000;
/// What programs compute on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Matrices,
    Images,
}

/// An operation of a family, of this number, on a value.
type Operation = fn(&mut Draw, &Tensor, usize) -> Tensor;

/// A program being drawn: the values so far, and what made them.
struct Draw {
    rng: Rng,
    values: Vec<Tensor>,
    text: Vec<String>,
}

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.rng.below(n)
    }

    /// A drawn dimension.
    fn dim(&mut self, x: &Tensor) -> isize {
        self.below(x.rank()) as isize
    }

    /// A value that broadcasts with another: of its shape, or a mean.
    fn partner(&mut self, x: &Tensor) -> Tensor {
        let at = self.below(self.values.len());
        let y = &self.values[at];
        if y.dims() == x.dims() {
            return y.clone();
        }
        let mean = |y: &Tensor, d: usize| match y.dims()[d] == x.dims()[d] {
            true => y.clone(),
            false => y.mean_keepdim(d),
        };
        match y.rank() == x.rank() {
            true => (0..x.rank()).fold(y.clone(), |y, d| mean(&y, d)),
            false => y.mean(..),
        }
    }

    /// The first elements of a value, repeated, in another shape.
    fn filled(&mut self, shape: &[usize]) -> Tensor {
        let at = self.below(self.values.len());
        filled(&self.values[at], shape)
    }

    fn draw(&mut self, kind: Kind) {
        let last = self.values.len() - 1;
        let at = match self.rng.chance(65) {
            true => last,
            false => self.below(last + 1),
        };
        let x = self.values[at].clone();
        let (family, operation): (&str, Operation) = match (self.below(10), kind) {
            (0..=1, _) => ("pointwise", pointwise),
            (2..=3, _) => ("reduction", reduction),
            (4, _) => ("integers", integers),
            (5..=6, _) => ("arrangement", arrangement),
            (_, Kind::Matrices) => ("matrices", matrices),
            (_, Kind::Images) => ("images", images),
        };
        let number = self.below(16);
        let y = operation(self, &x, number);
        if y.numel() > 0 && y.rank() == x.rank() {
            let shape = y.dims().to_vec();
            self.text.push(format!(
                "v{} = {family} {number} (v{at}): {shape:?}",
                last + 1
            ));
            self.values.push(y);
        }
    }
}

/// The first elements of a value, repeated, in another shape.
fn filled(x: &Tensor, shape: &[usize]) -> Tensor {
    let flat = x.ravel();
    let (n, count) = (flat.numel(), shape.iter().product());
    let flat = match n < count {
        true => flat.repeat(&[count / n + 1]),
        false => flat,
    };
    flat.narrow(0, 0, count).reshape(shape)
}

fn pointwise(d: &mut Draw, x: &Tensor, number: usize) -> Tensor {
    let y = d.partner(x);
    match number {
        0 => x + &y,
        1 => (x * &y).clamp(-9.0, 9.0),
        2 => (x - &y).abs(),
        3 => x.maximum(&y),
        4 => x / (y.abs() + 1.0),
        5 => x.gt(0.0).where_cond(x, &y.expand(x.dims())),
        6 => x.exp().log1p(),
        7 => x.tanh(),
        8 => x.sigmoid() * 2.0,
        9 => x.square().clamp(-3.0, 3.0),
        10 => x.gelu(),
        11 => x.relu(),
        12 => x.silu(),
        13 => (x.abs() + 0.5).sqrt(),
        14 => x.sin() + x.cos(),
        _ => 1.0 - x * 0.5,
    }
}

fn reduction(d: &mut Draw, x: &Tensor, number: usize) -> Tensor {
    let dim = d.dim(x);
    match number {
        0 => x.softmax(dim),
        1 => x - x.mean_keepdim(dim),
        2 => x / (x.abs().amax_keepdim(dim) + 1.0),
        3 => x.cumsum(dim) * 0.1,
        4 => x.layer_norm(1, None, None, 1e-5),
        5 => x.var_keepdim(dim, 0) + x,
        6 => x.logsumexp_keepdim(dim) - x,
        7 => x.argmax_keepdim(dim).to_dtype(x.dtype()) * 0.01 + x,
        8 => x.sum_keepdim(dim) * 0.1,
        9 => x.amax_keepdim(dim),
        10 => x.cummax(dim).0,
        11 => x.unfold(dim, 3.min(x.dims()[dim as usize]), 1).mean(-1),
        12 => x.unfold(dim, 2.min(x.dims()[dim as usize]), 2).amax(-1),
        13 => x * x.square().mean_keepdim(dim).rsqrt().clamp(0.0, 9.0),
        14 => x.log_softmax(dim),
        _ => x.mean(..) + x,
    }
}

fn integers(d: &mut Draw, x: &Tensor, number: usize) -> Tensor {
    let dim = d.dim(x);
    let n = x.dims()[dim as usize];
    let whole = (x * 7.0).round().to_dtype(DType::I64);
    let made = match number {
        0 => whole.remainder(5) - whole.floor_divide(3),
        1 => whole.to_dtype(DType::I32).cumsum(dim),
        2 => (&whole & 6) ^ (whole.clone() << 1),
        3 => whole.gt(0).to_dtype(DType::U8).sum_keepdim(dim),
        4 => whole.to_dtype(DType::U8) * 3 + whole.eq(2).to_dtype(DType::U8),
        5 => whole.to_dtype(DType::I32).amax_keepdim(dim),
        6 => x.gt(0.1).any_keepdim(dim).to_dtype(DType::I32) + whole.to_dtype(DType::I32),
        7 => return x.gather(dim, &whole.clamp(0, n as i64 - 1)),
        8 => return (x * 0.0).scatter_add(dim, &whole.clamp(0, n as i64 - 1), x),
        9 => return x.sort(dim, true).0,
        10 => x.argsort(dim, false),
        11 => return x.topk(1 + n / 3, dim, true).0,
        12 => whole.to_dtype(DType::I16).abs().to_dtype(DType::U8),
        13 => return x.index_select(dim, &permuted(x, n)),
        14 => whole.ne(0).cumsum(dim),
        _ => return x.to_dtype(DType::BF16).to_dtype(x.dtype()) * 2.0,
    };
    made.to_dtype(x.dtype()).clamp(-30.0, 30.0) * 0.1
}

/// Positions below `n` in another order, some of them twice.
fn permuted(x: &Tensor, n: usize) -> Tensor {
    Tensor::arange(0, n as i64, 1, DType::I64, &x.device()) * 7i64 % n as i64
}

fn arrangement(d: &mut Draw, x: &Tensor, number: usize) -> Tensor {
    let dim = d.dim(x);
    let (at, n) = (dim as usize, x.dims()[dim as usize]);
    let (small, long) = (x.numel() < LARGE, n >= 8);
    match number {
        0 => x.transpose(-1, -2),
        1 => x.flip(dim),
        2 => x.roll(1 + d.below(5) as i64, dim),
        3 | 4 if long => x.narrow(dim, 1 + d.below(3) as isize, n - 5),
        5 | 6 if long => x.slice(dim, d.below(2) as isize, n as isize, 2),
        7 if small => {
            let other = d.filled(x.dims());
            Tensor::cat([x, &other], dim)
        }
        8 if small => x.repeat_interleave(2, dim),
        9 => x.diff(1, dim),
        10 => {
            let mut pads = vec![(0, 0); x.rank()];
            pads[at] = (d.below(3) as isize, 1);
            x.pad(&pads, 0.0)
        }
        11 if long => {
            let mut pads = vec![(0, 0); x.rank()];
            pads[at] = (2, 1);
            x.pad_with(&pads, PadMode::Reflect)
        }
        12 if long => x.slice_assign(dim, 1, n as isize - 1, 1, &x.narrow(dim, 0, n - 2)),
        13 => x.contiguous(),
        14 if small => x.repeat(&[2]),
        _ => x.tril(d.below(9) as isize - 4),
    }
}

fn matrices(d: &mut Draw, x: &Tensor, number: usize) -> Tensor {
    let [r, c] = x.dims()[..] else {
        return x.clone();
    };
    match number {
        0 | 1 if r % 2 == 0 => x.reshape([r / 2, c * 2]),
        2 if c % 4 == 0 => x.reshape([r, c / 4, 4]).sum(2),
        3 if r % 2 == 0 => x
            .reshape([r / 2, 2, c])
            .permute([0, 2, 1])
            .reshape([r / 2, c * 2]),
        4 if r % 4 == 0 => x.reshape([4, r / 4, c]).softmax(0).amax(1),
        5 | 6 => x.matmul(&x.t()) * (1.0 / c as f64),
        7 => x.linear(&d.filled(&[32, c]), Some(&d.filled(&[32]))) * 0.1,
        8 => {
            let v = x.unsqueeze(0).unsqueeze(0);
            Tensor::scaled_dot_product_attention(&v, &v, &v, None, true, None).reshape([r, c])
        }
        9 => x.t() + d.filled(&[c, r]) * 0.5,
        10 if r * c < 20_000 => (x.unsqueeze(1) - x.unsqueeze(0)).abs().mean(2),
        11 if c % 2 == 0 => {
            let (a, b) = (x.slice(1, 0, c as isize, 2), x.slice(1, 1, c as isize, 2));
            Tensor::stack([&a * 0.8 - &b * 0.6, a * 0.6 + b * 0.8], 2).reshape([r, c])
        }
        12 => x.mean(1).unsqueeze(1) * x.mean(0).unsqueeze(0) + x,
        13 => x.square().sum_keepdim(1).sqrt().maximum(&x.mean_keepdim(0)),
        14 if c > 8 => Tensor::cat(
            [
                &x.narrow(1, 0, c / 2),
                &x.narrow(1, (c / 2) as isize, c - c / 2).tanh(),
            ],
            1,
        ),
        _ => x.cumsum(0).cumsum(1) * 1e-3,
    }
}

fn images(d: &mut Draw, x: &Tensor, number: usize) -> Tensor {
    let [n, c, h, w] = x.dims()[..] else {
        return x.clone();
    };
    let large = h >= 8 && w >= 8;
    match number {
        0 | 1 => x.conv2d(&(d.filled(&[8, c, 3, 3]) * 0.1), None, 1, 1, 1, 1),
        2 => x.conv2d(&(d.filled(&[c, 1, 3, 3]) * 0.3), None, 1, 1, 1, c),
        3 => x.conv2d(
            &(d.filled(&[12, c, 1, 1]) * 0.2),
            Some(&d.filled(&[12])),
            1,
            0,
            1,
            1,
        ),
        4 if large => x.max_pool2d(2, 2, 0),
        5 if large => x.avg_pool2d(3, 1, 1),
        6 => x.group_norm(1, None, None, 1e-5),
        7 if x.numel() < LARGE / 4 => x.interpolate([2 * h, 2 * w], Interpolation::Bilinear, false),
        8 if x.numel() < LARGE / 4 => x.interpolate([2 * h, 2 * w], Interpolation::Nearest, false),
        9 if c % 4 == 0 => x.pixel_shuffle(2),
        10 => x * x.mean_keepdim([2, 3]).sigmoid(),
        11 => x
            .permute([0, 2, 3, 1])
            .layer_norm(1, None, None, 1e-5)
            .permute([0, 3, 1, 2]),
        12 => x - x.mean_keepdim([0, 2, 3]),
        13 if large => {
            let half = x.slice(2, 0, h as isize, 2)
                + x.slice(2, 1, h as isize, 2)
                    .narrow(2, 0, h / 2)
                    .sum_keepdim(2);
            half.slice(3, 0, w as isize, 2)
        }
        14 => {
            let v = x.reshape([n, c, h * w]);
            let scores = v.matmul(&v.transpose(1, 2)) * (1.0 / (h * w) as f64);
            scores.softmax(2).matmul(&v).reshape([n, c, h, w])
        }
        _ => Tensor::cat([x, &x.relu()], 1).slice(1, 0, 2 * c as isize, 2),
    }
}

/// The result of a program on its inputs, and what it does.
fn program(seed: u64, kind: Kind, inputs: &[Tensor]) -> (Tensor, Vec<String>) {
    let mut draw = Draw {
        rng: Rng::new(seed),
        values: inputs.to_vec(),
        text: Vec::new(),
    };
    for _ in 0..3 + draw.below(9) {
        draw.draw(kind);
    }
    let last = draw.values[draw.values.len() - 1].clone();
    let result = match draw.below(3) {
        0 => last.sum(draw.dim(&last)),
        _ => last,
    };
    (result, draw.text)
}

/// A program, or a fourth of the time the gradients of its result's mean square.
pub fn results(seed: u64, kind: Kind, inputs: &[Tensor]) -> (Vec<Tensor>, Vec<String>) {
    if !seed.is_multiple_of(4) {
        let (result, text) = program(seed, kind, inputs);
        return (vec![result], text);
    }
    let mut text = vec!["gradients".to_owned()];
    let (loss, slopes) = value_and_grad(&inputs.to_vec(), |inputs: &Vec<Tensor>| {
        let (result, done) = program(seed, kind, inputs);
        text.extend(done);
        result.to_dtype(DType::F32).square().mean(..)
    });
    ([loss].into_iter().chain(slopes).collect(), text)
}

/// The next state of a loop over a program: its result in the shape of the state, which is the first input.
pub fn next(seed: u64, kind: Kind, inputs: &[Tensor]) -> Tensor {
    let (result, _) = program(seed, kind, inputs);
    let state = filled(&result, inputs[0].dims());
    (state * 0.5 + &inputs[0] * 0.5).tanh()
}

pub fn inputs(seed: u64, kind: Kind, device: &Device) -> Vec<Tensor> {
    let mut rng = Rng::new(seed + 1_000_000);
    let dtype = rng.pick(&[DType::F32, DType::F32, DType::F32, DType::F64]);
    let generator = Generator::new(seed);
    let shape = |rng: &mut Rng| match kind {
        Kind::Matrices => vec![
            rng.pick(&[64, 128, 200, 256, 300, 17]),
            rng.pick(&[64, 128, 256, 100, 333, 9]),
        ],
        Kind::Images => vec![
            rng.pick(&[1, 2, 4]),
            rng.pick(&[3, 4, 8, 16]),
            rng.pick(&[14, 28, 32, 40]),
            rng.pick(&[14, 28, 32, 33]),
        ],
    };
    let shapes: Vec<Vec<usize>> = (0..3).map(|_| shape(&mut rng)).collect();
    let drawn = shapes
        .into_iter()
        .map(|shape| generator.randn(shape, dtype, device));
    drawn.collect()
}
