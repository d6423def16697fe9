//! An average of a model's parameters over steps.

use crate::{DType, Tensor, TensorStruct, no_grad};
use std::collections::BTreeSet;

/// The average of a model's [parameters](TensorStruct::parameters) over the steps that it was shown: their mean
/// ([Izmailov et al. 2018](https://arxiv.org/abs/1803.05407)), or one that forgets. All other tensors, running statistics
/// among them, are the last that it was shown. PyTorch's `swa_utils.AveragedModel`.
///
/// It is a struct of tensors, so that a compiled training step takes it by value beside model and optimiser.
///
/// ```
/// use ferrotrace::optim::Average;
/// use ferrotrace::prelude::*;
///
/// let of = |v: f64| [Tensor::full(2, v, DType::F32, &Device::cpu())];
/// let mut average = Average::ema(&of(0.0), 0.75);
/// average.update(&of(4.0));
/// average.update(&of(8.0));
/// assert_eq!(average.model[0].to_vec::<f32>()?, [5.0; 2]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug, TensorStruct)]
pub struct Average<M: TensorStruct> {
    /// The averaged model: its parameters require no gradient.
    pub model: M,
    /// How many models it was shown: 0-d, I64.
    pub count: Tensor,
    /// The part of the average that an update keeps; none for the mean of all.
    pub decay: Option<f64>,
}

impl<M: TensorStruct> Average<M> {
    /// The mean of the models that it is going to be shown; until then, this one. Averages have the dtypes of this model,
    /// which may be wider than those of the models to come: a mean in half precision soon stands still.
    ///
    /// ```
    /// use ferrotrace::optim::Average;
    /// use ferrotrace::prelude::*;
    ///
    /// let of = |v: f64, dtype| [Tensor::full(2, v, dtype, &Device::cpu())];
    /// let mut average = Average::new(&of(0.0, DType::F32));
    /// for v in [1.0, 2.0, 6.0] {
    ///     average.update(&of(v, DType::BF16));
    /// }
    /// assert_eq!(average.model[0].to_vec::<f32>()?, [3.0; 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn new(model: &M) -> Average<M> {
        let device = model.parameters().first().map(|(_, p)| p.device());
        let device = device.unwrap_or_else(crate::Device::cpu);
        Average {
            model: model.map(|_, tensor| tensor.detach()),
            count: Tensor::zeros((), DType::I64, &device),
            decay: None,
        }
    }

    /// The first model that it is shown, moved by 1 − `decay` of the way to each one behind it: `get_ema_multi_avg_fn`.
    #[track_caller]
    pub fn ema(model: &M, decay: f64) -> Average<M> {
        Average {
            decay: Some(decay),
            ..Average::new(model)
        }
    }

    /// Takes a model in, of the structure of the first. Where it has another, or a parameter another shape, the averages
    /// carry that error.
    #[track_caller]
    pub fn update(&mut self, model: &M) {
        no_grad(|| self.take(model));
    }

    #[track_caller]
    fn take(&mut self, model: &M) {
        let parameters: BTreeSet<String> = model.parameters().into_iter().map(|p| p.0).collect();
        let (count, decay) = (&self.count, self.decay);
        let is_first = count.eq(0);
        let part = match decay {
            Some(decay) => Tensor::full((), 1.0 - decay, DType::F64, &count.device()),
            None => (count.to_dtype(DType::F64) + 1.0).recip(),
        };
        let taken = self.model.zip_mut(model, |name, mean, tensor| {
            let tensor = tensor.detach().to_device(&mean.device());
            let tensor = tensor.to_dtype(mean.dtype());
            if !parameters.contains(name) {
                *mean = tensor;
                return;
            }
            if tensor.error().is_none() && tensor.dims() != mean.dims() {
                let (now, then) = (tensor.dims(), mean.dims());
                let why = format!("a parameter of shape {now:?}, not {then:?}");
                *mean = Tensor::failed("average", crate::Error::shape(why), &[mean, &tensor]);
                return;
            }
            let next = &*mean + (&tensor - &*mean) * &part;
            let next = next.to_dtype(mean.dtype());
            *mean = is_first.where_cond(&tensor, &next);
            mean.carry();
        });
        if let Err(error) = taken {
            let failed = Tensor::failed("average", error, &[]);
            self.model.for_each_mut(|_, mean| *mean = failed.clone());
        }
        self.count = count + 1;
        self.count.carry();
    }
}
