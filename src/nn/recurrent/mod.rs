//! Recurrent layers: simple, gated and long short-term memory.
//!
//! A sequence is recorded step by step and nothing is read, so that all its steps are one plan.

mod cell;
mod single;

use super::linear::bound;
use super::{Init, Module};
use crate::{DType, Device, Error, Result, Tensor, TensorStruct};
use cell::{Cell, State, Weights};
pub use single::{GruCell, LstmCell, RnnCell};
use std::collections::BTreeMap;

/// Options of recurrent layers, beside sizes. Without any: one layer, one direction, `[length, batch, in]`, with biases.
#[derive(Clone, Copy, Debug, TensorStruct)]
pub struct Recurrent {
    /// Layers, each of which reads the one before.
    pub layers: usize,
    /// Whether each layer goes through the sequence in both directions.
    pub bidirectional: bool,
    /// Whether sequences are `[batch, length, ..]`.
    pub batch_first: bool,
    /// Whether there are biases.
    pub bias: bool,
    /// The probability that a number between two layers is dropped in training.
    pub dropout: f64,
    /// Whether numbers are dropped.
    pub training: bool,
}

impl Default for Recurrent {
    fn default() -> Recurrent {
        Recurrent {
            layers: 1,
            bidirectional: false,
            batch_first: false,
            bias: true,
            dropout: 0.0,
            training: true,
        }
    }
}

impl Recurrent {
    /// The options that say nothing.
    pub fn new() -> Recurrent {
        Recurrent::default()
    }

    /// Layers, each of which reads the one before.
    pub fn layers(mut self, layers: usize) -> Recurrent {
        self.layers = layers;
        self
    }

    /// Both directions through the sequence.
    pub fn bidirectional(mut self) -> Recurrent {
        self.bidirectional = true;
        self
    }

    /// Sequences `[batch, length, ..]`.
    pub fn batch_first(mut self) -> Recurrent {
        self.batch_first = true;
        self
    }

    /// No biases.
    pub fn without_bias(mut self) -> Recurrent {
        self.bias = false;
        self
    }

    /// Numbers between layers dropped in training.
    pub fn dropout(mut self, p: f64) -> Recurrent {
        self.dropout = p;
        self
    }

    fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }
}

/// Names of a layer's weights, as PyTorch has them.
fn suffix(layer: usize, backwards: bool) -> String {
    let direction = if backwards { "_reverse" } else { "" };
    format!("_l{layer}{direction}")
}

/// Weights and biases of all layers, uniform in ±1/√hidden, in F32.
#[track_caller]
fn drawn(
    cell: Cell,
    (inputs, hidden): (usize, usize),
    options: &Recurrent,
    device: &Device,
) -> BTreeMap<String, Tensor> {
    let init = Init::within(bound(hidden));
    let rows = cell.gates() * hidden;
    let mut parameters = BTreeMap::new();
    for layer in 0..options.layers {
        let columns = match layer {
            0 => inputs,
            _ => hidden * options.directions(),
        };
        for backwards in [false, true].into_iter().take(options.directions()) {
            let end = suffix(layer, backwards);
            let mut put = |name: &str, dims: &[usize]| {
                let tensor = init.tensor(dims, DType::F32, device);
                parameters.insert(format!("{name}{end}"), tensor);
            };
            put("weight_ih", &[rows, columns]);
            put("weight_hh", &[rows, hidden]);
            if options.bias {
                put("bias_ih", &[rows]);
                put("bias_hh", &[rows]);
            }
        }
    }
    parameters
}

/// A stack of recurrent layers of one kind, with borrowed parameters.
struct Stack<'a> {
    cell: Cell,
    parameters: &'a BTreeMap<String, Tensor>,
    options: &'a Recurrent,
    hidden: usize,
}

impl Stack<'_> {
    fn weights(&self, layer: usize, backwards: bool) -> Result<Weights<'_>> {
        let end = suffix(layer, backwards);
        let get = |name: &str| {
            let name = format!("{name}{end}");
            let missing = || Error::argument(format!("there is no parameter {name}"));
            self.parameters.get(&name).ok_or_else(missing)
        };
        Ok(Weights {
            input: get("weight_ih")?,
            hidden: get("weight_hh")?,
            biases: match self.options.bias {
                true => Some((get("bias_ih")?, get("bias_hh")?)),
                false => None,
            },
        })
    }

    /// The sequence of the last layer's states, and the last states of all layers and directions.
    ///
    /// # Errors
    /// The input or the first state has another shape than the layer takes.
    #[track_caller]
    fn run(&self, x: &Tensor, start: Option<&[Tensor]>) -> Result<(Tensor, Vec<Tensor>)> {
        if let Some(error) = x.error() {
            return Err(error);
        }
        let batched = x.rank() == 3;
        let mut x = match (x.rank(), self.options.batch_first) {
            (3, false) => x.clone(),
            (3, true) => x.transpose(0, 1),
            (2, _) => x.unsqueeze(1),
            (rank, _) => {
                let why = format!("a sequence of 2 or 3 dimensions, not {rank}");
                return Err(Error::shape(why));
            }
        };
        let (length, batch) = (x.dims()[0], x.dims()[1]);
        if length == 0 || self.options.layers == 0 {
            return Err(Error::shape("no steps, or no layers"));
        }
        let directions = self.options.directions();
        let shape = [self.options.layers * directions, batch, self.hidden];
        let start = match start {
            None => None,
            Some(start) => Some(started(start, batched, &shape)?),
        };
        let mut ends: Vec<State> = Vec::new();
        for layer in 0..self.options.layers {
            if layer > 0 && self.options.training {
                x = x.dropout(self.options.dropout);
            }
            let mut sides = Vec::new();
            for backwards in [false, true].into_iter().take(directions) {
                let first = match &start {
                    Some(start) => start
                        .iter()
                        .map(|s| s.select(0, ends.len() as isize))
                        .collect(),
                    None => self.cell.zeros(&x, batch, self.hidden),
                };
                let weights = self.weights(layer, backwards)?;
                let (states, end) = self.cell.through(&x, first, &weights, backwards);
                sides.push(states);
                ends.push(end);
            }
            x = match &sides[..] {
                [one] => one.clone(),
                both => Tensor::cat(both, -1),
            };
        }
        let y = match (batched, self.options.batch_first) {
            (false, _) => x.squeeze(1),
            (true, true) => x.transpose(0, 1),
            (true, false) => x,
        };
        let last = (0..self.cell.states()).map(|i| {
            let states: Vec<&Tensor> = ends.iter().map(|end| &end[i]).collect();
            let all = Tensor::stack(&states, 0);
            if batched { all } else { all.squeeze(1) }
        });
        Ok((y, last.collect()))
    }
}

/// First states as `[layers · directions, batch, hidden]`.
#[track_caller]
fn started(start: &[Tensor], batched: bool, shape: &[usize; 3]) -> Result<Vec<Tensor>> {
    let start = start.iter().map(|state| {
        let state = match batched {
            true => state.clone(),
            false => state.unsqueeze(1),
        };
        match state.error() {
            Some(error) => Err(error),
            None if state.dims() == shape => Ok(state),
            None => {
                let why = format!("a first state of shape {:?}, not {shape:?}", state.dims());
                Err(Error::shape(why))
            }
        }
    });
    start.collect()
}

macro_rules! layers {
    ($($(#[doc = $doc:literal])* $name:ident $cell:expr;)*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Debug, TensorStruct)]
        pub struct $name {
            /// By PyTorch's names: `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, `weight_ih_l0_reverse`, ..
            #[tensor_struct(flatten)]
            pub parameters: BTreeMap<String, Tensor>,
            /// Layers, directions and the order of dimensions.
            pub options: Recurrent,
            /// Numbers of a state.
            pub hidden: usize,
        }

        impl $name {
            /// One layer, one direction, sequences `[length, batch, inputs]`; parameters uniform in ±1/√hidden, in F32.
            #[track_caller]
            pub fn new(inputs: usize, hidden: usize, device: &Device) -> $name {
                $name::with(inputs, hidden, Recurrent::new(), device)
            }

            /// A layer with options.
            #[track_caller]
            pub fn with(
                inputs: usize,
                hidden: usize,
                options: Recurrent,
                device: &Device,
            ) -> $name {
                let parameters = drawn($cell, (inputs, hidden), &options, device);
                $name { parameters, options, hidden }
            }

            #[track_caller]
            fn run(&self, x: &Tensor, start: Option<&[Tensor]>) -> (Tensor, Vec<Tensor>) {
                let stack = Stack {
                    cell: $cell,
                    parameters: &self.parameters,
                    options: &self.options,
                    hidden: self.hidden,
                };
                stack.run(x, start).unwrap_or_else(|error| {
                    let failed = Tensor::failed($cell.name(), error, &[x]);
                    (failed.clone(), vec![failed; $cell.states()])
                })
            }
        }

        impl Module for $name {
            /// The last layer's state at every step.
            fn forward(&self, x: &Tensor) -> Tensor {
                self.run(x, None).0
            }
        }
    )*};
}

layers! {
    /// h' = tanh(w·x + u·h + b) ([Elman 1990](https://doi.org/10.1207/s15516709cog1402_1)), as PyTorch's `nn.RNN`.
    Rnn Cell::Tanh;

    /// The gated recurrent unit ([Cho et al. 2014](https://arxiv.org/abs/1406.1078)), as PyTorch's `nn.GRU`.
    Gru Cell::Gru;

    /// Long short-term memory ([Hochreiter & Schmidhuber 1997](https://doi.org/10.1162/neco.1997.9.8.1735)), as
    /// PyTorch's `nn.LSTM`.
    ///
    /// ```
    /// use ferrotrace::nn::{Lstm, Recurrent};
    /// use ferrotrace::prelude::*;
    ///
    /// let device = Device::cpu();
    /// let options = Recurrent::new().layers(2).bidirectional().batch_first();
    /// let layer = Lstm::with(3, 8, options, &device);
    /// let x = Tensor::randn([4, 5, 3], DType::F32, &device);
    /// let (y, (h, c)) = layer.forward_from(&x, None);
    /// assert_eq!((y.dims(), h.dims(), c.dims()), (&[4, 5, 16][..], &[4, 4, 8][..], &[4, 4, 8][..]));
    /// ```
    Lstm Cell::Lstm;
}

macro_rules! from_one_state {
    ($($name:ident)*) => {$(
        impl $name {
            /// The last layer's state at every step, and the last state of every layer and direction,
            /// `[layers · directions, batch, hidden]`, from a first state of that shape, or from 0.
            #[track_caller]
            pub fn forward_from(&self, x: &Tensor, start: Option<&Tensor>) -> (Tensor, Tensor) {
                let (y, mut end) = match start {
                    Some(start) => self.run(x, Some(std::slice::from_ref(start))),
                    None => self.run(x, None),
                };
                (y, end.remove(0))
            }
        }
    )*};
}

from_one_state!(Rnn Gru);

impl Lstm {
    /// The last layer's state at every step, and the last state and memory of every layer and direction,
    /// `[layers · directions, batch, hidden]`, from first ones of that shape, or from 0.
    #[track_caller]
    pub fn forward_from(
        &self,
        x: &Tensor,
        start: Option<(&Tensor, &Tensor)>,
    ) -> (Tensor, (Tensor, Tensor)) {
        let (y, mut end) = match start {
            Some((h, c)) => self.run(x, Some(&[h.clone(), c.clone()])),
            None => self.run(x, None),
        };
        let h = end.remove(0);
        (y, (h, end.remove(0)))
    }
}
