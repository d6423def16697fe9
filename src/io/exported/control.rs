//! Branches and loops of exported programs: graphs within a node, each a program of its own.

use super::call::{Arg, Call, Results, Slot, Value, all};
use super::program::Program;
use crate::{Device, Error, Result, Tensor, cond, map, scan, scan_reversed, while_loop};

/// A graph within a node.
#[derive(Debug)]
pub(super) struct Inner {
    pub program: Program,
    /// Where its inputs go.
    pub inputs: Vec<Slot>,
}

/// What a node does with the graphs within it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Cond,
    WhileLoop,
    Scan,
    Map,
}

impl Kind {
    /// By the operator's name, without what stands before it.
    pub fn of(name: &str) -> Option<Kind> {
        Some(match name {
            "cond" => Kind::Cond,
            "while_loop" => Kind::WhileLoop,
            "scan" => Kind::Scan,
            "map_impl" | "map" => Kind::Map,
            _ => return None,
        })
    }

    /// How many graphs it has.
    pub fn graphs(self) -> usize {
        match self {
            Kind::Cond | Kind::WhileLoop => 2,
            Kind::Scan | Kind::Map => 1,
        }
    }
}

/// A node that has graphs.
#[derive(Debug)]
pub(super) struct Control {
    pub kind: Kind,
    pub graphs: Vec<Inner>,
}

impl Inner {
    /// Runs it. Where it fails, every result carries the error.
    fn run(&self, given: impl Iterator<Item = Value>, device: &Device) -> Vec<Tensor> {
        let mut values = vec![Value::None; self.program.slots];
        for (&slot, value) in self.inputs.iter().zip(given) {
            values[slot] = value;
        }
        let wanted = self.program.outputs.len();
        let found = self.program.steps(values, device).and_then(|found| {
            let fewer = || Error::unsupported("a graph within a node gives what is no tensor");
            (found.len() == wanted).then_some(found).ok_or_else(fewer)
        });
        let failed = |error: Error| Tensor::failed("graph", error, &[]);
        found.unwrap_or_else(|error| vec![failed(error); wanted])
    }
}

/// Operands: tensors, and in the places between them numbers, which do not change.
struct Operands(Vec<Value>);

impl Operands {
    fn tensors(&self) -> Vec<Tensor> {
        let tensor = |value: &Value| match value {
            Value::Tensor(tensor) => Some(tensor.clone()),
            _ => None,
        };
        self.0.iter().filter_map(tensor).collect()
    }

    /// The operands with other tensors.
    fn with(&self, tensors: &[Tensor]) -> impl Iterator<Item = Value> {
        let mut tensors = tensors.iter();
        self.0
            .iter()
            .map(move |value| match (value, tensors.clone().next()) {
                (Value::Tensor(_), Some(tensor)) => {
                    tensors.next();
                    Value::Tensor(tensor.clone())
                }
                (other, _) => other.clone(),
            })
    }

    /// The tensors, where no operand is anything else.
    fn only_tensors(&self, what: &str) -> Result<Vec<Tensor>> {
        let tensors = self.tensors();
        let others = || Error::unsupported(format!("{what} that are no tensors"));
        (tensors.len() == self.0.len())
            .then_some(tensors)
            .ok_or_else(others)
    }
}

impl Control {
    /// Runs the node.
    ///
    /// # Errors
    /// Operands that are missing, or of another kind than they must be.
    pub fn run(&self, call: &Call<'_>) -> Results {
        match self.kind {
            Kind::Cond => self.cond(call),
            Kind::WhileLoop => {
                let (carried, rest) = (self.list(call, 0)?, self.list(call, 1)?);
                let run = |graph: usize, carried: &[Tensor]| {
                    let carried = carried.iter().cloned().map(Value::Tensor);
                    let given = carried.chain(rest.0.iter().cloned());
                    self.graphs[graph].run(given, call.device)
                };
                let goes_on = |carried: &Vec<Tensor>| {
                    let mut found = run(0, carried);
                    found.truncate(1);
                    let none =
                        || Tensor::failed("while_loop", Error::argument("no condition"), &[]);
                    found.pop().unwrap_or_else(none)
                };
                let body = |carried: &Vec<Tensor>| run(1, carried);
                all(while_loop(
                    goes_on,
                    body,
                    &carried.only_tensors("carried values")?,
                ))
            }
            Kind::Scan => self.scan(call),
            Kind::Map => {
                let (rows, rest) = (self.list(call, 0)?, self.list(call, 1)?);
                let body = |rows: &Vec<Tensor>| {
                    let rows = rows.iter().cloned().map(Value::Tensor);
                    self.graphs[0].run(rows.chain(rest.0.iter().cloned()), call.device)
                };
                all(map(body, &rows.only_tensors("rows")?))
            }
        }
    }

    /// The operands of the list of this number.
    fn list(&self, call: &Call<'_>, number: usize) -> Result<Operands> {
        let lists = call.args.iter().filter_map(|(_, arg)| match arg {
            Arg::List(items) => Some(items),
            _ => None,
        });
        let items = lists.into_iter().nth(number).map_or(&[][..], Vec::as_slice);
        let value = |item: &Arg| {
            let missing = || Error::argument("an operand is neither a tensor nor a number");
            call.value_of(item).ok_or_else(missing)
        };
        items.iter().map(value).collect::<Result<_>>().map(Operands)
    }

    fn cond(&self, call: &Call<'_>) -> Results {
        let operands = self.list(call, 0)?;
        let branch = |which: usize, tensors: &[Tensor]| {
            self.graphs[which].run(operands.with(tensors), call.device)
        };
        let tensors = operands.tensors();
        match call.at(0)? {
            Value::Tensor(predicate) => all(cond(
                &predicate,
                |tensors: &Vec<Tensor>| branch(0, tensors),
                |tensors| branch(1, tensors),
                &tensors,
            )),
            // A condition on sizes.
            Value::Bool(true) => all(branch(0, &tensors)),
            Value::Bool(false) => all(branch(1, &tensors)),
            _ => Err(Error::argument("the predicate is no truth value")),
        }
    }

    fn scan(&self, call: &Call<'_>) -> Results {
        let lists = [0, 1, 2].map(|number| self.list(call, number));
        let [init, rows, rest] = lists;
        let (init, rows, rest) = (init?, rows?, rest?);
        let init = init.only_tensors("carried values")?;
        let step = |carried: &Vec<Tensor>, rows: &Vec<Tensor>| {
            let tensors = carried.iter().chain(rows).cloned().map(Value::Tensor);
            let given = tensors.chain(rest.0.iter().cloned());
            let mut carried = self.graphs[0].run(given, call.device);
            let rows = carried.split_off(init.len().min(carried.len()));
            (carried, rows)
        };
        // PyTorch 2.6 says the dimension and the direction; later versions turn the tensors before.
        let mut reverse = false;
        for (_, arg) in call.args {
            match arg {
                Arg::Int(0) => {}
                Arg::Int(dim) => {
                    return Err(Error::unsupported(format!("a scan along dimension {dim}")));
                }
                Arg::Bool(value) => reverse = *value,
                _ => {}
            }
        }
        let rows = rows.only_tensors("rows")?;
        let (mut last, found) = match reverse {
            true => scan_reversed(step, &init, &rows),
            false => scan(step, &init, &rows),
        };
        last.extend(found);
        all(last)
    }
}
