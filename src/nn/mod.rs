//! Layers, losses and initial values.
//!
//! A layer is a struct of tensors with [`Module::forward`]; its fields are named as the entries of PyTorch's state
//! dictionaries, and its first values are drawn as PyTorch draws them. A layer that behaves differently in training says
//! so in its field `training`.
//!
//! ```
//! use ferrotrace::nn::{Linear, Module, Relu};
//! use ferrotrace::prelude::*;
//!
//! let device = Device::cpu();
//! let model = (Linear::new(4, 8, &device), Relu, Linear::new(8, 2, &device));
//! let x = Tensor::ones([3, 4], DType::F32, &device);
//! assert_eq!(model.forward(&x).dims(), [3, 2]);
//! ```

mod activation;
mod attention;
mod batch_norm;
mod conv;
mod distance;
mod dropout;
mod embedding;
mod init;
mod linear;
mod loss;
mod norm;
mod pool;
mod recurrent;
mod sequential;
mod shape;
mod transformer;

pub use activation::{
    Celu, Elu, Flatten, Gelu, GeluTanh, Glu, HardSigmoid, HardSwish, HardTanh, Hardshrink,
    Identity, LeakyRelu, LogSigmoid, LogSoftmax, Mish, PRelu, RRelu, Relu, Relu6, Selu, Sigmoid,
    Silu, Softmax, Softmin, Softplus, Softshrink, Softsign, Tanh, Tanhshrink, Threshold,
};
pub use attention::{KvCache, MultiHeadAttention, Rotary};
pub use batch_norm::{BatchNorm, BatchNorm1d, BatchNorm2d, BatchNorm3d};
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use distance::{CosineSimilarity, PairwiseDistance};
pub use dropout::{AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout};
pub use embedding::{Embedding, EmbeddingBag};
pub use init::{Fan, Init};
pub use linear::{Bilinear, Linear};
pub use loss::{
    BceLoss, BceWithLogitsLoss, CosineEmbeddingLoss, CrossEntropyLoss, CtcLoss, GaussianNllLoss,
    HingeEmbeddingLoss, HuberLoss, KlDivLoss, L1Loss, MarginRankingLoss, MseLoss,
    MultiLabelMarginLoss, MultiLabelSoftMarginLoss, MultiMarginLoss, NllLoss, PoissonNllLoss,
    SmoothL1Loss, SoftMarginLoss, TripletMarginLoss,
};
pub use norm::{GroupNorm, InstanceNorm, LayerNorm, LocalResponseNorm, RmsNorm};
pub use pool::{
    AdaptiveAvgPool1d, AdaptiveAvgPool2d, AdaptiveAvgPool3d, AdaptiveMaxPool1d, AdaptiveMaxPool2d,
    AdaptiveMaxPool3d, AvgPool1d, AvgPool2d, AvgPool3d, LpPool1d, LpPool2d, LpPool3d, MaxPool1d,
    MaxPool2d, MaxPool3d,
};
pub use recurrent::{Gru, GruCell, Lstm, LstmCell, Recurrent, Rnn, RnnCell};
pub use sequential::{Apply, Sequential};
pub use shape::{
    ChannelShuffle, Fold, Pad, PixelShuffle, PixelUnshuffle, Unflatten, Unfold, Upsample,
};
pub use transformer::{
    Activation, Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder,
    TransformerEncoderLayer, TransformerOptions,
};

use crate::Tensor;

/// Something that makes one tensor of another.
///
/// ```
/// use ferrotrace::nn::Module;
/// use ferrotrace::prelude::*;
///
/// struct Double;
///
/// impl Module for Double {
///     fn forward(&self, x: &Tensor) -> Tensor {
///         x * 2.0
///     }
/// }
///
/// let x = Tensor::ones(2, DType::F32, &Device::cpu());
/// assert_eq!(Double.forward(&x).to_vec::<f32>()?, [2.0, 2.0]);
/// # Ok::<(), Error>(())
/// ```
pub trait Module {
    /// The result for `x`; an error of the operands is carried by it.
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor;
}
