//! Positions as angles.

use crate::{DType, Tensor, TensorStruct};

/// Rotary position embedding ([Su et al. 2021](https://arxiv.org/abs/2104.09864)): each pair of a head's numbers is
/// turned by its position times base^(−2i/size), for the pair i.
///
/// ```
/// use ferrotrace::nn::Rotary;
/// use ferrotrace::prelude::*;
///
/// let x = Tensor::from_slice(&[1.0, 0.0, 1.0, 0.0], [2, 2], &Device::cpu());
/// let y = Rotary::new().turn(&x, None).to_vec::<f64>()?;
/// assert!((y[2] - 1f64.cos()).abs() < 1e-6 && (y[3] - 1f64.sin()).abs() < 1e-6);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct Rotary {
    /// The angle of the last pair is about 1/base of the first's.
    pub base: f64,
    /// Whether pairs are neighbours, as in GPT-J, and not the numbers half a head apart, as in GPT-NeoX and Llama.
    pub interleaved: bool,
}

impl Default for Rotary {
    fn default() -> Rotary {
        Rotary::new()
    }
}

impl Rotary {
    /// Base 10,000, pairs half a head apart.
    pub fn new() -> Rotary {
        Rotary {
            base: 10_000.0,
            interleaved: false,
        }
    }

    /// Another base.
    pub fn base(mut self, base: f64) -> Rotary {
        self.base = base;
        self
    }

    /// Pairs of neighbours.
    pub fn interleaved(mut self) -> Rotary {
        self.interleaved = true;
        self
    }

    /// `[.., length, size]` turned by positions that begin at `start`, a 0-d integer tensor, or at 0. An odd size is an
    /// error.
    #[track_caller]
    pub fn turn(&self, x: &Tensor, start: Option<&Tensor>) -> Tensor {
        let &[.., length, size] = x.dims() else {
            return Tensor::failed(
                "rotary",
                crate::Error::shape("an input of dimensions [.., length, size]"),
                &[x],
            );
        };
        if size % 2 == 1 {
            let why = crate::Error::shape(format!("pairs of {size} numbers"));
            return Tensor::failed("rotary", why, &[x]);
        }
        let (half, device) = (size / 2, x.device());
        let wide = match x.dtype() {
            DType::F64 => DType::F64,
            _ => DType::F32,
        };
        let positions = Tensor::arange(0, length, 1, DType::I64, &device);
        let positions = match start {
            Some(start) => positions + start,
            None => positions,
        };
        let exponents = Tensor::arange(0, half, 1, DType::F64, &device) * (-2.0 / size as f64);
        let speeds = (exponents * self.base.ln()).exp();
        let angles = positions.to_dtype(DType::F64).unsqueeze(-1) * speeds;
        let (cos, sin) = (angles.cos().to_dtype(wide), angles.sin().to_dtype(wide));
        let input = x.to_dtype(wide);
        let (first, second) = match self.interleaved {
            true => {
                let pair = |i| input.slice(-1, i, isize::MAX, 2);
                (pair(0), pair(1))
            }
            false => {
                let half = half as isize;
                (
                    input.slice(-1, 0, half, 1),
                    input.slice(-1, half, isize::MAX, 1),
                )
            }
        };
        let turned = [
            &first * &cos - &second * &sin,
            &second * &cos + &first * &sin,
        ];
        let y = match self.interleaved {
            true => Tensor::stack(&turned, -1).flatten(-2, -1),
            false => Tensor::cat(&turned, -1),
        };
        y.to_dtype(x.dtype())
    }
}
