//! Initial values of parameters.

use crate::{DType, Device, Error, Generator, Result, Shape, Tensor};

/// The number of a weight's connections that its initial values are scaled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fan {
    /// Connections of one output: values keep their variance on the way forward.
    In,
    /// Connections of one input: gradients keep their variance on the way back.
    Out,
}

/// How the initial values of a parameter are drawn.
///
/// Kinds that depend on the number of connections take a weight `[out, in, ..]` of two dimensions at least, and an error
/// for fewer. Half-precision values are drawn in binary32 and rounded.
///
/// ```
/// use ferrotrace::nn::Init;
/// use ferrotrace::prelude::*;
///
/// let w = Init::xavier_uniform().tensor([4, 2], DType::F32, &Device::cpu());
/// assert!(w.to_vec::<f32>()?.iter().all(|w| w.abs() <= 1.0)); // √(6 / (4 + 2))
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// 0.
    Zeros,
    /// 1.
    Ones,
    /// One number.
    Constant(f64),
    /// Uniform in [lo, hi).
    Uniform {
        /// The least value.
        lo: f64,
        /// What all values are below.
        hi: f64,
    },
    /// Normal.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        std: f64,
    },
    /// Normal, given that it lies in [lo, hi].
    TruncNormal {
        /// The mean before truncation.
        mean: f64,
        /// The standard deviation before truncation.
        std: f64,
        /// The least value.
        lo: f64,
        /// The greatest value.
        hi: f64,
    },
    /// Uniform in ±gain·√(6 / (fan in + fan out))
    /// ([Glorot & Bengio 2010](https://proceedings.mlr.press/v9/glorot10a.html)).
    XavierUniform {
        /// A factor for the activation that follows.
        gain: f64,
    },
    /// Normal of standard deviation gain·√(2 / (fan in + fan out)).
    XavierNormal {
        /// A factor for the activation that follows.
        gain: f64,
    },
    /// Uniform in ±gain·√(3 / fan) ([He et al. 2015](https://arxiv.org/abs/1502.01852)).
    KaimingUniform {
        /// What is counted.
        fan: Fan,
        /// A factor for the activation that follows.
        gain: f64,
    },
    /// Normal of standard deviation gain / √fan.
    KaimingNormal {
        /// What is counted.
        fan: Fan,
        /// A factor for the activation that follows.
        gain: f64,
    },
    /// Rows (or columns, if they are fewer) of length gain, each at a right angle to all others, uniform among such
    /// matrices; all dimensions but the first are columns. It reads random numbers at the call.
    Orthogonal {
        /// The length of a row.
        gain: f64,
    },
}

impl Init {
    /// [`XavierUniform`](Init::XavierUniform) of gain 1.
    pub fn xavier_uniform() -> Init {
        Init::XavierUniform { gain: 1.0 }
    }

    /// [`XavierNormal`](Init::XavierNormal) of gain 1.
    pub fn xavier_normal() -> Init {
        Init::XavierNormal { gain: 1.0 }
    }

    /// [`KaimingUniform`](Init::KaimingUniform) by fan in, for a ReLU that follows: gain √2.
    pub fn kaiming_uniform() -> Init {
        Init::KaimingUniform {
            fan: Fan::In,
            gain: 2f64.sqrt(),
        }
    }

    /// [`KaimingNormal`](Init::KaimingNormal) by fan in, for a ReLU that follows: gain √2.
    pub fn kaiming_normal() -> Init {
        Init::KaimingNormal {
            fan: Fan::In,
            gain: 2f64.sqrt(),
        }
    }

    /// [`TruncNormal`](Init::TruncNormal) of mean 0 within two standard deviations of it.
    pub fn trunc_normal(std: f64) -> Init {
        Init::TruncNormal {
            mean: 0.0,
            std,
            lo: -2.0 * std,
            hi: 2.0 * std,
        }
    }

    /// [`Uniform`](Init::Uniform) in ±bound.
    pub fn within(bound: f64) -> Init {
        Init::Uniform {
            lo: -bound,
            hi: bound,
        }
    }

    /// A tensor of such values, of a floating-point dtype, drawn from the process-wide generator
    /// ([`manual_seed`](crate::manual_seed)).
    #[track_caller]
    pub fn tensor(&self, shape: impl Into<Shape>, dtype: DType, device: &Device) -> Tensor {
        let source = Source {
            generator: None,
            device,
        };
        self.drawn(shape.into(), dtype, source)
    }

    /// A tensor of such values, drawn from a generator of one's own.
    #[track_caller]
    pub fn tensor_by(
        &self,
        generator: &Generator,
        shape: impl Into<Shape>,
        dtype: DType,
        device: &Device,
    ) -> Tensor {
        let source = Source {
            generator: Some(generator),
            device,
        };
        self.drawn(shape.into(), dtype, source)
    }

    #[track_caller]
    fn drawn(&self, shape: Shape, dtype: DType, source: Source<'_>) -> Tensor {
        let fans = match fans(&shape) {
            Ok(fans) => fans,
            Err(error) if self.counts() => return Tensor::failed("init", error, &[]),
            Err(_) => (1.0, 1.0),
        };
        let of = |fan| match fan {
            Fan::In => fans.0,
            Fan::Out => fans.1,
        };
        // A weight without connections has no values either.
        let over = |n: f64, m: f64| if m == 0.0 { 0.0 } else { (n / m).sqrt() };
        let wide = match dtype {
            DType::F16 | DType::BF16 => DType::F32,
            dtype => dtype,
        };
        let uniform = |lo: f64, hi: f64| source.rand(&shape, wide) * (hi - lo) + lo;
        let normal = |mean: f64, std: f64| source.randn(&shape, wide) * std + mean;
        let values = match *self {
            Init::Zeros => Tensor::zeros(shape, wide, source.device),
            Init::Ones => Tensor::ones(shape, wide, source.device),
            Init::Constant(value) => Tensor::full(shape, value, wide, source.device),
            Init::Uniform { lo, hi } => uniform(lo, hi),
            Init::Normal { mean, std } => normal(mean, std),
            Init::TruncNormal { mean, std, lo, hi } => {
                let u = source.rand(&shape, DType::F64);
                truncated(&u, (lo - mean) / std, (hi - mean) / std) * std + mean
            }
            Init::XavierUniform { gain } => {
                let bound = gain * over(6.0, fans.0 + fans.1);
                uniform(-bound, bound)
            }
            Init::XavierNormal { gain } => normal(0.0, gain * over(2.0, fans.0 + fans.1)),
            Init::KaimingUniform { fan, gain } => {
                let bound = gain * over(3.0, of(fan));
                uniform(-bound, bound)
            }
            Init::KaimingNormal { fan, gain } => normal(0.0, gain * over(1.0, of(fan))),
            Init::Orthogonal { gain } => {
                let normal = source.randn(&shape, DType::F64);
                match orthogonal(&normal, &shape, source.device) {
                    Ok(values) => values * gain,
                    Err(error) => Tensor::failed("init", error, &[]),
                }
            }
        };
        values.to_dtype(dtype)
    }

    /// Whether the values depend on the number of connections, or on rows and columns.
    fn counts(&self) -> bool {
        matches!(
            self,
            Init::XavierUniform { .. }
                | Init::XavierNormal { .. }
                | Init::KaimingUniform { .. }
                | Init::KaimingNormal { .. }
                | Init::Orthogonal { .. }
        )
    }
}

/// Where random numbers come from.
#[derive(Clone, Copy)]
struct Source<'a> {
    generator: Option<&'a Generator>,
    device: &'a Device,
}

impl Source<'_> {
    #[track_caller]
    fn rand(&self, shape: &Shape, dtype: DType) -> Tensor {
        match self.generator {
            Some(generator) => generator.rand(shape, dtype, self.device),
            None => Tensor::rand(shape, dtype, self.device),
        }
    }

    #[track_caller]
    fn randn(&self, shape: &Shape, dtype: DType) -> Tensor {
        match self.generator {
            Some(generator) => generator.randn(shape, dtype, self.device),
            None => Tensor::randn(shape, dtype, self.device),
        }
    }
}

/// Connections of one output and of one input of a weight `[out, in, ..]`.
///
/// # Errors
/// There are fewer than two dimensions.
fn fans(shape: &Shape) -> Result<(f64, f64)> {
    let [out, inputs, window @ ..] = shape.dims() else {
        let why = format!("a weight [out, in, ..] of two dimensions at least, not {shape}");
        return Err(Error::shape(why));
    };
    let window: f64 = window.iter().map(|&size| size as f64).product();
    Ok((*inputs as f64 * window, *out as f64 * window))
}

/// Standard normal numbers within [lo, hi] by the inverse of their distribution function, from uniform `u` (F64).
#[track_caller]
fn truncated(u: &Tensor, lo: f64, hi: f64) -> Tensor {
    let like = |x: f64| u.full_like(x / 2f64.sqrt()).erf();
    let (from, to) = (like(lo), like(hi));
    let x = from.lerp(&to, u);
    (erfinv(&x) * 2f64.sqrt()).clamp(lo, hi)
}

/// The inverse of the error function: Winitzki's formula (relative error 2e-3), then Newton's method.
#[track_caller]
fn erfinv(x: &Tensor) -> Tensor {
    const A: f64 = 0.147;
    let inside = x.clamp(-1.0 + 1e-15, 1.0 - 1e-15);
    let log = (1.0 - inside.square()).log();
    let half = 2.0 / (std::f64::consts::PI * A) + &log / 2.0;
    let root = ((half.square() - log / A).sqrt() - half).sqrt();
    let mut y = inside.lt(0.0).where_cond(-&root, root);
    for _ in 0..3 {
        let slope = (-y.square()).exp() * std::f64::consts::FRAC_2_SQRT_PI;
        y = &y - (y.erf() - &inside) / slope;
    }
    y
}

/// The orthogonal matrix that Gram and Schmidt's method makes of random numbers: twice, since once leaves errors that
/// grow with the matrix's condition.
#[track_caller]
fn orthogonal(normal: &Tensor, shape: &Shape, device: &Device) -> Result<Tensor> {
    let rows = shape.dims()[0];
    let columns = shape.dims()[1..].iter().product::<usize>();
    let (count, length) = (rows.min(columns), rows.max(columns));
    let mut q = normal.to_vec::<f64>()?;
    for _ in 0..2 {
        for i in 0..count {
            let (before, vector) = q.split_at_mut(i * length);
            let vector = &mut vector[..length];
            for other in before.chunks(length) {
                let along: f64 = other.iter().zip(&*vector).map(|(a, b)| a * b).sum();
                vector
                    .iter_mut()
                    .zip(other)
                    .for_each(|(v, o)| *v -= along * o);
            }
            let norm = vector.iter().map(|v| v * v).sum::<f64>().sqrt();
            vector.iter_mut().for_each(|v| *v /= norm);
        }
    }
    let q = Tensor::from_vec(q, [count, length], device);
    let q = if rows > columns { q.t() } else { q };
    Ok(q.reshape(shape))
}
