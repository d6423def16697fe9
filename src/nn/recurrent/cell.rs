//! One step of a recurrent layer, and one direction through a sequence.

use crate::Tensor;

/// What a step computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Tanh,
    Gru,
    Lstm,
}

/// The tensors `[batch, hidden]` that a step hands on, the state that is seen first.
pub(super) type State = Vec<Tensor>;

/// Parameters of one layer in one direction.
pub(super) struct Weights<'a> {
    /// `[gates · hidden, in]`.
    pub input: &'a Tensor,
    /// `[gates · hidden, hidden]`.
    pub hidden: &'a Tensor,
    /// Behind each of them, `[gates · hidden]`.
    pub biases: Option<(&'a Tensor, &'a Tensor)>,
}

impl Cell {
    pub fn name(self) -> &'static str {
        match self {
            Cell::Tanh => "rnn",
            Cell::Gru => "gru",
            Cell::Lstm => "lstm",
        }
    }

    pub fn gates(self) -> usize {
        match self {
            Cell::Tanh => 1,
            Cell::Gru => 3,
            Cell::Lstm => 4,
        }
    }

    pub fn states(self) -> usize {
        match self {
            Cell::Tanh | Cell::Gru => 1,
            Cell::Lstm => 2,
        }
    }

    #[track_caller]
    pub fn zeros(self, x: &Tensor, batch: usize, hidden: usize) -> State {
        let zero = Tensor::zeros([batch, hidden], x.dtype(), &x.device());
        vec![zero; self.states()]
    }

    /// All states `[length, batch, hidden]` of one direction through `[length, batch, in]`, in the order of the sequence,
    /// and the last.
    #[track_caller]
    pub fn through(
        self,
        x: &Tensor,
        mut state: State,
        weights: &Weights<'_>,
        backwards: bool,
    ) -> (Tensor, State) {
        // One product for all steps.
        let (before, within) = self.biases(weights);
        let parts = x.linear(weights.input, before.as_ref());
        if parts.error().is_some() {
            return (parts.clone(), vec![parts; self.states()]);
        }
        let length = parts.dims().first().copied().unwrap_or(0);
        let mut states = Vec::with_capacity(length);
        for i in 0..length {
            let at = if backwards { length - 1 - i } else { i };
            let recurrent = state[0].linear(weights.hidden, within);
            state = self.step(&parts.select(0, at as isize), &recurrent, &state);
            states.push(state[0].clone());
        }
        if backwards {
            states.reverse();
        }
        (Tensor::stack(&states, 0), state)
    }

    /// What is added behind the product of the input and of the state. Biases that are only added are added at once.
    #[track_caller]
    fn biases<'a>(self, weights: &Weights<'a>) -> (Option<Tensor>, Option<&'a Tensor>) {
        match weights.biases {
            None => (None, None),
            Some((a, b)) if self == Cell::Gru => (Some(a.clone()), Some(b)),
            Some((a, b)) => (Some(a + b), None),
        }
    }

    /// The state behind one step, from an input `[.., in]` and a state `[.., hidden]`.
    #[track_caller]
    pub fn once(self, x: &Tensor, state: &[Tensor], weights: &Weights<'_>) -> State {
        let (before, within) = self.biases(weights);
        let input = x.linear(weights.input, before.as_ref());
        let recurrent = state[0].linear(weights.hidden, within);
        self.step(&input, &recurrent, state)
    }

    /// The next state, from what the input and the state give to the gates.
    #[track_caller]
    fn step(self, input: &Tensor, recurrent: &Tensor, state: &[Tensor]) -> State {
        match self {
            Cell::Tanh => vec![(input + recurrent).tanh()],
            Cell::Gru => {
                let (x, h) = (input.chunk(3, -1), recurrent.chunk(3, -1));
                let reset = (&x[0] + &h[0]).sigmoid();
                let update = (&x[1] + &h[1]).sigmoid();
                let new = (&x[2] + reset * &h[2]).tanh();
                vec![&new + update * (&state[0] - &new)]
            }
            Cell::Lstm => {
                let gates = (input + recurrent).chunk(4, -1);
                let (input, forget) = (gates[0].sigmoid(), gates[1].sigmoid());
                let (new, output) = (gates[2].tanh(), gates[3].sigmoid());
                let memory = forget * &state[1] + input * new;
                vec![output * memory.tanh(), memory]
            }
        }
    }
}
