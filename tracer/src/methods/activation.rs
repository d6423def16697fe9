//! Activations of neural networks. Each keeps the dtype of floats.

mod gates;

use super::unary_methods;
use crate::Tensor;
use ferrotrace_kernels::{Composite, Op, UnaryOp};
use ferrotrace_runtime::Scalar;

unary_methods! {
    /// 1 / (1 + e⁻ˣ).
    sigmoid => Op::Unary(UnaryOp::Sigmoid), [0.0, 2.0] => [0.5, 0.8807971];
    /// max(x, 0); NaN stays.
    relu => Op::Unary(UnaryOp::Relu), [-1.0, 2.0] => [0.0, 2.0];
    /// min(max(x, 0), 6).
    relu6 => Op::Composite(Composite::Relu6), [-1.0, 8.0] => [0.0, 6.0];
    /// The self-normalising elu: 1.0507·x, or 1.0507·1.6733·(eˣ − 1) below 0
    /// ([Klambauer et al. 2017](https://arxiv.org/abs/1706.02515)).
    selu => Op::Composite(Composite::Selu), [-1.0, 2.0] => [-1.1113307, 2.1014020];
    /// x·Φ(x), Φ the normal distribution function
    /// ([Hendrycks & Gimpel 2016](https://arxiv.org/abs/1606.08415)).
    gelu => Op::Composite(Composite::Gelu), [-1.0, 2.0] => [-0.1586553, 1.9544997];
    /// gelu by its tanh approximation, x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
    gelu_tanh => Op::Composite(Composite::GeluTanh), [-1.0, 2.0] => [-0.1588080, 1.9545977];
    /// x·sigmoid(x), also called swish.
    silu => Op::Composite(Composite::Silu), [-1.0, 2.0] => [-0.2689414, 1.7615942];
    /// x·tanh(softplus(x)).
    mish => Op::Composite(Composite::Mish), [-1.0, 2.0] => [-0.3034015, 1.9439590];
    /// ln(1 + eˣ), x itself beyond 20.
    softplus => Op::Composite(Composite::Softplus), [0.0, 2.0] => [0.6931472, 2.1269280];
    /// x / (1 + |x|).
    softsign => Op::Composite(Composite::Softsign), [-1.0, 3.0] => [-0.5, 0.75];
    /// min(max(x, −1), 1).
    hardtanh => Op::Composite(Composite::Hardtanh), [-2.0, 0.5] => [-1.0, 0.5];
    /// x·min(max(x + 3, 0), 6) / 6.
    hardswish => Op::Composite(Composite::Hardswish), [-4.0, 3.0] => [0.0, 3.0];
    /// min(max(x + 3, 0), 6) / 6.
    hardsigmoid => Op::Composite(Composite::Hardsigmoid), [0.0, 4.0] => [0.5, 1.0];
    /// ln(sigmoid(x)), without overflow.
    logsigmoid => Op::Composite(Composite::LogSigmoid), [0.0, 2.0] => [-0.6931472, -0.1269280];
}

impl Tensor {
    /// x, or a·x below 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[-4.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.leaky_relu(0.25).to_vec::<f64>()?, [-1.0, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn leaky_relu(&self, a: impl Into<Scalar>) -> Tensor {
        self.composite(Composite::LeakyRelu, &[a.into()])
    }

    /// x, or a·(eˣ − 1) below 0.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[f64::NEG_INFINITY, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.elu(1.5).to_vec::<f64>()?, [-1.5, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn elu(&self, a: impl Into<Scalar>) -> Tensor {
        self.composite(Composite::Elu, &[a.into()])
    }

    /// max(x, 0) + min(a·(e^(x/a) − 1), 0): an elu whose slope is continuous for every a.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[f64::NEG_INFINITY, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.celu(1.5).to_vec::<f64>()?, [-1.5, 2.0]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn celu(&self, a: impl Into<Scalar>) -> Tensor {
        self.composite(Composite::Celu, &[a.into()])
    }
}
