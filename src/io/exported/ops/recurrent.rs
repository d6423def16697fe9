//! Recurrent networks whole, step by step.

use super::Table;
use crate::io::exported::call::{Call, Results, all};
use crate::{Error, Result, Tensor};

/// How a state follows from the one before.
#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
}

/// Weights of one direction of one layer.
struct Weights<'a> {
    input: &'a Tensor,
    hidden: &'a Tensor,
    biases: Option<[&'a Tensor; 2]>,
    projection: Option<&'a Tensor>,
}

impl Cell {
    /// The next states from what the input's product gives, and the states before: h, and c of an LSTM.
    fn step(self, given: &Tensor, states: &[Tensor], weights: &Weights<'_>) -> Vec<Tensor> {
        let h = &states[0];
        let own = h.linear(weights.hidden, weights.biases.map(|[_, hidden]| hidden));
        match self {
            Cell::Tanh => vec![(given + own).tanh()],
            Cell::Relu => vec![(given + own).relu()],
            Cell::Lstm => {
                let gates = (given + own).chunk(4, -1);
                let [i, f, g, o] = &gates[..] else {
                    return states.to_vec();
                };
                let c = f.sigmoid() * &states[1] + i.sigmoid() * g.tanh();
                let h = o.sigmoid() * c.tanh();
                let h = match weights.projection {
                    Some(projection) => h.linear(projection, None),
                    None => h,
                };
                vec![h, c]
            }
            Cell::Gru => {
                let (given, own) = (given.chunk(3, -1), own.chunk(3, -1));
                let ([r, z, n], [hr, hz, hn]) = (&given[..], &own[..]) else {
                    return states.to_vec();
                };
                let reset = (r + hr).sigmoid();
                let keep = (z + hz).sigmoid();
                let new = (n + reset * hn).tanh();
                vec![(1.0 - &keep) * new + keep * h]
            }
        }
    }
}

/// The outputs of one direction of one layer, `[length, batch, hidden]`, and its last states.
fn layer(
    cell: Cell,
    x: &Tensor,
    states: Vec<Tensor>,
    weights: &Weights<'_>,
    back: bool,
) -> Result<(Tensor, Vec<Tensor>)> {
    let n = x.dim(0)?;
    let given = x.linear(weights.input, weights.biases.map(|[input, _]| input));
    let (mut states, mut outputs) = (states, Vec::with_capacity(n));
    for i in 0..n {
        let at = if back { n - 1 - i } else { i };
        states = cell.step(&given.select(0, at as isize), &states, weights);
        outputs.push(states[0].clone());
    }
    if back {
        outputs.reverse();
    }
    Ok((Tensor::stack(&outputs, 0), states))
}

fn network(c: &Call<'_>, cell: Cell) -> Results {
    let first = c.bool_or("batch_first", false)?;
    let starts = match cell {
        Cell::Lstm => c.tensors("hx")?,
        _ => vec![c.tensor("hx")?],
    };
    let mut x = c.tensor("input")?.clone();
    // One sequence by itself.
    let single = x.rank() == 2;
    let starts: Vec<Tensor> = starts
        .into_iter()
        .map(|s| if single { s.unsqueeze(1) } else { s.clone() })
        .collect();
    if single {
        x = x.unsqueeze(1);
    } else if first {
        x = x.transpose(0, 1);
    }
    let params = c.tensors("params")?;
    let directions = 1 + usize::from(c.bool_or("bidirectional", false)?);
    let layers = c.size_or("num_layers", 1)?;
    let biases = c.bool_or("has_biases", true)?;
    let dropout = if c.bool_or("train", false)? {
        c.float_or("dropout", 0.0)?
    } else {
        0.0
    };
    let each = params.len() / (layers * directions).max(1);
    let plain = if biases { 4 } else { 2 };
    if each < plain || (each > plain && each != plain + 1) {
        return Err(Error::argument(format!(
            "{} weights for {layers} layers",
            params.len()
        )));
    }
    let mut last = vec![Vec::new(); starts.len()];
    for index in 0..layers {
        let mut outputs = Vec::new();
        for direction in 0..directions {
            let at = index * directions + direction;
            let own = &params[at * each..(at + 1) * each];
            let weights = Weights {
                input: own[0],
                hidden: own[1],
                biases: biases.then(|| [own[2], own[3]]),
                projection: own.get(plain).copied(),
            };
            let states = starts
                .iter()
                .map(|start| start.select(0, at as isize))
                .collect();
            let (y, states) = layer(cell, &x, states, &weights, direction == 1)?;
            outputs.push(y);
            for (last, state) in last.iter_mut().zip(states) {
                last.push(state);
            }
        }
        x = if directions == 2 {
            Tensor::cat(&outputs, -1)
        } else {
            outputs.swap_remove(0)
        };
        if dropout > 0.0 && index + 1 < layers {
            x = x.dropout(dropout);
        }
    }
    let y = match (single, first) {
        (true, _) => x.squeeze(1),
        (false, true) => x.transpose(0, 1),
        (false, false) => x,
    };
    let last = last.into_iter().map(|states| {
        let all = Tensor::stack(&states, 0);
        if single { all.squeeze(1) } else { all }
    });
    all([y].into_iter().chain(last))
}

/// One step.
fn cell(c: &Call<'_>, cell: Cell) -> Results {
    let states: Vec<Tensor> = match cell {
        Cell::Lstm => c.tensors("hx")?.into_iter().cloned().collect(),
        _ => vec![c.tensor("hx")?.clone()],
    };
    let biases = match (c.tensor_opt("b_ih")?, c.tensor_opt("b_hh")?) {
        (Some(input), Some(hidden)) => Some([input, hidden]),
        _ => None,
    };
    let weights = Weights {
        input: c.tensor("w_ih")?,
        hidden: c.tensor("w_hh")?,
        biases,
        projection: None,
    };
    let given = c
        .tensor("input")?
        .linear(weights.input, biases.map(|[input, _]| input));
    all(cell.step(&given, &states, &weights))
}

pub(super) const TABLE: Table = &[
    ("lstm", "input", |c| network(c, Cell::Lstm)),
    ("gru", "input", |c| network(c, Cell::Gru)),
    ("rnn_tanh", "input", |c| network(c, Cell::Tanh)),
    ("rnn_relu", "input", |c| network(c, Cell::Relu)),
    ("lstm_cell", "default", |c| cell(c, Cell::Lstm)),
    ("gru_cell", "default", |c| cell(c, Cell::Gru)),
    ("rnn_tanh_cell", "default", |c| cell(c, Cell::Tanh)),
    ("rnn_relu_cell", "default", |c| cell(c, Cell::Relu)),
];
