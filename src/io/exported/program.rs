//! The program that runs: steps in order, every name a numbered slot, every operator found.

use super::call::{Arg, Run, Slot};
use super::control::Control;
use super::schema::{self, Size};
use super::symbols::Expr;
use crate::{DType, Place};
use std::sync::Arc;

/// A validated program.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub slots: usize,
    pub steps: Vec<Step>,
    pub inputs: Vec<Input>,
    pub state: Vec<State>,
    pub outputs: Vec<Output>,
    pub ranges: Vec<Range>,
    pub guards: Vec<Guard>,
}

/// One operator, applied.
#[derive(Clone)]
pub(super) struct Step {
    pub target: Arc<str>,
    /// The node of the graph, and the line of the Python program that it comes from, as errors name them.
    pub origin: Arc<str>,
    /// Target and origin, as errors of what is computed tell them.
    pub place: Place,
    pub action: Action,
    pub args: Vec<(Arc<str>, Arg)>,
    /// Where results go; those that nothing reads go nowhere.
    pub results: Vec<Option<Slot>>,
    /// Values that nothing reads after this step.
    pub drops: Vec<Slot>,
}

/// What a step does.
#[derive(Clone)]
pub(super) enum Action {
    Run(Run),
    /// The argument `src` as what an operator wrote into the argument `self`.
    Write,
    /// Runs the graphs within a node.
    Control(Arc<Control>),
    /// Writes what an operator that makes views gave back into what it was given: the argument `%new` is result `which`
    /// of `view` as it is to be.
    WriteBack {
        view: Run,
        which: usize,
    },
}

impl std::fmt::Debug for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Step {
            target,
            args,
            results,
            ..
        } = self;
        write!(f, "{results:?} = {target} {args:?}")
    }
}

/// What a caller gives.
#[derive(Clone, Debug)]
pub(super) struct Input {
    pub name: String,
    /// Its place in the arguments of the Python program, where that is known.
    pub path: String,
    pub slot: Option<Slot>,
    pub kind: Kind,
    /// Where what the program makes of it is, if it changes it.
    pub changed: Option<Slot>,
}

/// What an input is.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Complex numbers are pairs, whose last size is 2.
    Tensor {
        dtype: DType,
        sizes: Vec<Dim>,
        is_complex: bool,
    },
    /// A number, and the symbol that stands for it.
    Int(Option<String>),
    Float,
}

/// A size of an input.
#[derive(Clone, Debug)]
pub(super) enum Dim {
    Is(usize),
    Expr(String, Option<Expr>),
}

impl Dim {
    pub fn of(size: &Size) -> Dim {
        match size {
            Size::Is(size) => Dim::Is(usize::try_from(*size).unwrap_or(0)),
            Size::Expr(text, _) => {
                let expr = Expr::parse(text);
                let shown = match &expr {
                    Some(Expr::Symbol(name)) => name.clone(),
                    _ => text.clone(),
                };
                Dim::Expr(shown, expr)
            }
        }
    }
}

/// A parameter, buffer or constant.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Its qualified name.
    pub name: String,
    pub slot: Option<Slot>,
    pub kind: StateKind,
    /// Where what the program makes of it is, if it changes it.
    pub changed: Option<Slot>,
    pub is_complex: bool,
}

/// What a tensor of the state is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateKind {
    Parameter,
    Buffer,
    Constant,
}

/// What a caller gets.
#[derive(Clone, Debug)]
pub(super) struct Output {
    pub name: String,
    /// Its place in what the Python program returns, where that is known.
    pub path: String,
    /// A slot or a number.
    pub value: Arg,
}

/// The least and the greatest value of a symbol.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub symbol: String,
    pub min: Option<i64>,
    pub max: Option<i64>,
}

/// What has to hold of inputs.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub text: String,
    pub expr: Expr,
}

impl Program {
    /// The program with a half-precision dtype in the place of `F32`: in its inputs, and where operators are told one.
    pub fn narrowed(&self, dtype: DType) -> Program {
        let mut program = self.clone();
        let number = match dtype {
            DType::BF16 => schema::BFLOAT16,
            _ => schema::HALF,
        };
        for (_, arg) in program.steps.iter_mut().flat_map(|step| &mut step.args) {
            if let Arg::DType(old) = arg
                && *old == schema::FLOAT
            {
                *old = number;
            }
        }
        for input in &mut program.inputs {
            if let Kind::Tensor {
                dtype: old,
                is_complex: false,
                ..
            } = &mut input.kind
                && *old == DType::F32
            {
                *old = dtype;
            }
        }
        program
    }

    /// Leaves out steps whose results nothing reads, and notes for each of the others which values nothing reads after it.
    pub fn find_drops(&mut self, is_kept: impl Fn(&str) -> bool) {
        let mut kept = vec![false; self.slots];
        let changed = self.state.iter().filter_map(|state| state.changed);
        let changed = changed.chain(self.inputs.iter().filter_map(|input| input.changed));
        for slot in changed {
            kept[slot] = true;
        }
        for output in &self.outputs {
            if let Arg::Slot(slot) = output.value {
                kept[slot] = true;
            }
        }
        let mut steps = std::mem::take(&mut self.steps);
        steps.reverse();
        steps.retain_mut(|step| {
            let is_read = step.results.iter().flatten().any(|&slot| kept[slot]);
            if !is_read && !is_kept(&step.target) {
                return false;
            }
            let mut drops = Vec::new();
            for (_, arg) in &step.args {
                arg.each_slot(&mut |slot| {
                    if !std::mem::replace(&mut kept[slot], true) {
                        drops.push(slot);
                    }
                });
            }
            for result in &mut step.results {
                // What nothing reads is not kept at all.
                if result.is_some_and(|slot| !kept[slot]) {
                    *result = None;
                }
            }
            step.drops = drops;
            true
        });
        steps.reverse();
        self.steps = steps;
    }
}

impl Arg {
    /// Shows every slot within to a function.
    pub fn each_slot(&self, see: &mut dyn FnMut(Slot)) {
        match self {
            Arg::Slot(slot) => see(*slot),
            Arg::List(items) => items.iter().for_each(|item| item.each_slot(see)),
            _ => {}
        }
    }
}
