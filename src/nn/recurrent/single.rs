//! Single steps of recurrent layers, for loops that programs write themselves.

use super::cell::{Cell, State, Weights};
use crate::nn::Init;
use crate::nn::linear::bound;
use crate::{DType, Device, Error, Result, Tensor, TensorStruct};

/// The state behind a step, from a state or from 0.
///
/// # Errors
/// The input or the state has another shape than the cell takes.
#[track_caller]
fn stepped(
    cell: Cell,
    x: &Tensor,
    state: Option<&[Tensor]>,
    weights: &Weights<'_>,
) -> Result<State> {
    for tensor in [x, weights.input, weights.hidden] {
        if let Some(error) = tensor.error() {
            return Err(error);
        }
    }
    let (inputs, hidden) = (weights.input.dim(-1)?, weights.hidden.dim(-1)?);
    let (1 | 2, Some(&last)) = (x.rank(), x.dims().last()) else {
        let why = format!("an input of 1 or 2 dimensions, not {}", x.rank());
        return Err(Error::shape(why));
    };
    if last != inputs {
        return Err(Error::shape(format!("an input of {last}, not {inputs}")));
    }
    let mut shape = x.dims().to_vec();
    shape[x.rank() - 1] = hidden;
    let state = match state {
        None => vec![Tensor::zeros(shape, x.dtype(), &x.device()); cell.states()],
        Some(state) => {
            for state in state {
                if let Some(error) = state.error() {
                    return Err(error);
                }
                if state.dims() != shape {
                    let why = format!("a state of shape {:?}, not {shape:?}", state.dims());
                    return Err(Error::shape(why));
                }
            }
            state.to_vec()
        }
    };
    Ok(cell.once(x, &state, weights))
}

macro_rules! cells {
    ($($(#[doc = $doc:literal])* $name:ident $cell:expr, $label:literal;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// `[gates · hidden, inputs]`.
            pub weight_ih: Tensor,
            /// `[gates · hidden, hidden]`.
            pub weight_hh: Tensor,
            /// `[gates · hidden]`, behind the product of the input.
            pub bias_ih: Option<Tensor>,
            /// `[gates · hidden]`, behind the product of the state.
            pub bias_hh: Option<Tensor>,
        }

        impl $name {
            /// A cell of `hidden` numbers; parameters uniform in ±1/√hidden, in F32.
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize, device: &Device) -> $name {
                let (init, rows) = (Init::within(bound(hidden)), $cell.gates() * hidden);
                $name {
                    weight_ih: init.tensor([rows, inputs], DType::F32, device),
                    weight_hh: init.tensor([rows, hidden], DType::F32, device),
                    bias_ih: Some(init.tensor(rows, DType::F32, device)),
                    bias_hh: Some(init.tensor(rows, DType::F32, device)),
                }
            }

            /// The cell without its biases.
            pub fn without_bias(mut self) -> $name {
                (self.bias_ih, self.bias_hh) = (None, None);
                self
            }

            #[track_caller]
            fn step(&self, x: &Tensor, state: Option<&[Tensor]>) -> State {
                let weights = Weights {
                    input: &self.weight_ih,
                    hidden: &self.weight_hh,
                    biases: self.bias_ih.as_ref().zip(self.bias_hh.as_ref()),
                };
                stepped($cell, x, state, &weights).unwrap_or_else(|error| {
                    vec![Tensor::failed($label, error, &[x]); $cell.states()]
                })
            }
        }
    )*};
}

cells! {
    /// One step of [`Rnn`](super::Rnn), as PyTorch's `nn.RNNCell`.
    RnnCell Cell::Tanh, "rnn_cell";

    /// One step of [`Gru`](super::Gru), as PyTorch's `nn.GRUCell`.
    GruCell Cell::Gru, "gru_cell";

    /// One step of [`Lstm`](super::Lstm), as PyTorch's `nn.LSTMCell`.
    ///
    /// ```
    /// use ferrotrace::nn::LstmCell;
    /// use ferrotrace::prelude::*;
    ///
    /// let device = Device::cpu();
    /// let cell = LstmCell::new(3, 8, &device);
    /// let x = Tensor::randn([4, 3], DType::F32, &device);
    /// let (h, c) = cell.forward(&x, None);
    /// let (h, c) = cell.forward(&x, Some((&h, &c)));
    /// assert_eq!((h.dims(), c.dims()), (&[4, 8][..], &[4, 8][..]));
    /// ```
    LstmCell Cell::Lstm, "lstm_cell";
}

macro_rules! from_one_state {
    ($($name:ident)*) => {$(
        impl $name {
            /// The next state, `[batch, hidden]` or `[hidden]`, from an input `[batch, inputs]` or `[inputs]` and a state of
            /// the result's shape, or 0.
            #[track_caller]
            pub fn forward(&self, x: &Tensor, state: Option<&Tensor>) -> Tensor {
                self.step(x, state.map(std::slice::from_ref)).remove(0)
            }
        }
    )*};
}

from_one_state!(RnnCell GruCell);

impl LstmCell {
    /// The next state and memory, `[batch, hidden]` or `[hidden]`, from an input `[batch, inputs]` or `[inputs]` and a state
    /// and a memory of the results' shape, or 0.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, state: Option<(&Tensor, &Tensor)>) -> (Tensor, Tensor) {
        let state = state.map(|(h, c)| [h.clone(), c.clone()]);
        let mut next = self.step(x, state.as_ref().map(|state| &state[..]));
        let h = next.remove(0);
        (h, next.remove(0))
    }
}
