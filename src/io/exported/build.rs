//! From what a file says to a program that runs: names become slots, graphs within graphs are written out, and writes
//! into memory become new values (every view of a tensor that is written is taken again of the new one).

use super::call::{Arg, Run, Slot};
use super::control::{Control, Inner, Kind};
use super::ops::{self, Alias};
use super::program::{Action, Output, Program, Step};
use super::schema::{self, Graph, Meta, Node};
use crate::Place;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

type Result<T, E = String> = std::result::Result<T, E>;

/// The number of a thing that has a name.
type Id = usize;

/// A value that names stand for. Tensors that share memory have one root.
#[derive(Clone)]
struct Entity {
    slot: Slot,
    root: Id,
    /// The number of writes to the root that `slot` has seen.
    seen: u64,
    /// The number of writes, of a root.
    writes: u64,
    /// What this is a view of, and by which step.
    view: Option<View>,
}

/// How a view was made.
#[derive(Clone)]
struct View {
    of: Id,
    /// Which result of the step it is.
    which: usize,
    step: Arc<ViewStep>,
}

/// An operator that makes views of its first argument.
struct ViewStep {
    target: Arc<str>,
    run: Run,
    args: Vec<(Arc<str>, Arg)>,
    results: usize,
}

/// The names of one graph.
pub(super) type Names = HashMap<String, Id>;

/// What becomes a program.
#[derive(Default)]
pub(super) struct Builder {
    entities: Vec<Entity>,
    pub slots: usize,
    pub steps: Vec<Step>,
    /// Of the node whose steps are made.
    origin: Arc<str>,
    /// Operators that are not known.
    pub unknown: BTreeSet<String>,
}

/// What an argument of an operator is, before names are slots.
enum Given {
    Arg(Arg),
    Graph(Box<Graph>),
}

/// The tensor that an operator takes first.
fn first_tensor(node: &Node, names: &Names) -> Option<Id> {
    match node.inputs.first() {
        Some((_, schema::Arg::Name(name))) => names.get(name).copied(),
        _ => None,
    }
}

impl Builder {
    fn slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    /// Something new under a slot.
    pub fn entity(&mut self) -> Id {
        let slot = self.slot();
        self.entity_at(slot, None)
    }

    fn entity_at(&mut self, slot: Slot, view: Option<View>) -> Id {
        let id = self.entities.len();
        let root = view.as_ref().map_or(id, |view| self.entities[view.of].root);
        let seen = match view {
            Some(_) => self.entities[root].writes,
            None => 0,
        };
        self.entities.push(Entity {
            slot,
            root,
            seen,
            writes: 0,
            view,
        });
        id
    }

    /// Whether something was written since it was made.
    pub fn is_written(&self, id: Id) -> bool {
        self.entities[self.entities[id].root].writes > 0
    }

    /// Gives a name to something; no name is given twice in a graph.
    pub fn name(names: &mut Names, name: &str, id: Id) -> Result<()> {
        match names.insert(name.to_owned(), id) {
            None => Ok(()),
            Some(_) => Err(format!("gives the name {name:?} twice")),
        }
    }

    /// Where the value of something is now. Views of what was written meanwhile are taken again.
    pub fn fresh(&mut self, id: Id) -> Slot {
        let writes = self.entities[self.entities[id].root].writes;
        let mut stale = Vec::new();
        let mut at = id;
        while self.entities[at].seen != writes {
            stale.push(at);
            match &self.entities[at].view {
                Some(view) => at = view.of,
                None => break,
            }
        }
        while let Some(id) = stale.pop() {
            if let Some(View { of, which, step }) = self.entities[id].view.clone() {
                let mut args = step.args.clone();
                if let Some(first) = args.first_mut() {
                    first.1 = Arg::Slot(self.entities[of].slot);
                }
                let slot = self.slot();
                let mut results = vec![None; step.results];
                results[which] = Some(slot);
                self.step(&step.target, Action::Run(step.run), args, results);
                self.entities[id].slot = slot;
            }
            self.entities[id].seen = writes;
        }
        self.entities[id].slot
    }

    fn step(
        &mut self,
        target: &Arc<str>,
        action: Action,
        args: Vec<(Arc<str>, Arg)>,
        results: Vec<Option<Slot>>,
    ) {
        let place = match self.origin.is_empty() {
            true => Place::named(target),
            false => Place::named(&format!("{target} ({})", self.origin)),
        };
        self.steps.push(Step {
            target: target.clone(),
            place,
            origin: self.origin.clone(),
            action,
            args,
            results,
            drops: Vec::new(),
        });
    }

    /// Writes a new value of something, and of all that it is a view of.
    fn write(&mut self, id: Id, slot: Slot) {
        let root = self.entities[id].root;
        let writes = self.entities[root].writes + 1;
        let (mut at, mut new) = (id, slot);
        loop {
            let Some(View { of, which, step }) = self.entities[at].view.clone() else {
                self.entities[at].slot = new;
                self.entities[at].seen = writes;
                break;
            };
            let whole = self.fresh(of);
            let mut args = step.args.clone();
            if let Some(first) = args.first_mut() {
                first.1 = Arg::Slot(whole);
            }
            args.push((Arc::from("%new"), Arg::Slot(new)));
            self.entities[at].slot = new;
            self.entities[at].seen = writes;
            new = self.slot();
            let action = Action::WriteBack {
                view: step.run,
                which,
            };
            self.step(&step.target, action, args, vec![Some(new)]);
            at = of;
        }
        self.entities[root].writes = writes;
    }

    /// The nodes of a graph, in their order.
    pub fn graph(&mut self, graph: &Graph, names: &mut Names) -> Result<()> {
        graph
            .nodes
            .iter()
            .try_for_each(|node| self.node(node, graph, names))
    }

    fn node(&mut self, node: &Node, graph: &Graph, names: &mut Names) -> Result<()> {
        let said = |message: String| format!("in {:?}: {message}", node.target);
        self.origin = node.origin().into();
        let mut args = Vec::new();
        for (name, arg) in &node.inputs {
            match self.given(arg, names).map_err(said)? {
                Given::Arg(arg) => args.push((Arc::from(&**name), arg)),
                Given::Graph(inner) => {
                    return self.inline(node, &inner, names).map_err(said);
                }
            }
        }
        let target: Arc<str> = node
            .target
            .strip_prefix("torch.ops.")
            .unwrap_or(&node.target)
            .into();
        if &*target == "higher_order.with_effects" {
            return self.in_order(node, names).map_err(said);
        }
        if ops::reads_memory(&target) {
            args.extend(in_memory(node, graph).map_err(said)?);
        }
        let Some(found) = ops::find(&target) else {
            self.unknown.insert(target.to_string());
            // Its results are named all the same, so that every unknown operator is found.
            return self.results(node, names).map(drop);
        };
        if found.writes {
            return self
                .written(node, (&target, found.run), args, names)
                .map_err(said);
        }
        let results = match ops::alias(&target, &args) {
            Alias::View | Alias::Maybe if self.is_view(&target, node, graph, &args) => {
                return self
                    .view(node, (&target, found.run), args, names)
                    .map_err(said);
            }
            _ => self.results(node, names)?,
        };
        let mutated = ops::mutated(&target, &args);
        let mut slots: Vec<Option<Slot>> = results
            .iter()
            .map(|&id| Some(self.entities[id].slot))
            .collect();
        let mut written = Vec::new();
        for name in mutated {
            let input = node.inputs.iter().find(|(key, _)| key == name);
            let id = match input {
                Some((_, schema::Arg::Name(name))) => names.get(name).copied(),
                _ => None,
            };
            let slot = self.slot();
            slots.push(Some(slot));
            written.extend(id.map(|id| (id, slot)));
        }
        self.step(&target, Action::Run(found.run), args, slots);
        for (id, slot) in written {
            self.write(id, slot);
        }
        Ok(())
    }

    /// An operator whose effects have an order: a token, the operator and its arguments. Those are known that check whether a
    /// matrix was factorised, which factorisations here report themselves.
    fn in_order(&mut self, node: &Node, names: &mut Names) -> Result<()> {
        let operator = match node.inputs.get(1) {
            Some((_, schema::Arg::Text(name))) => name.as_str(),
            _ => return Err("orders the effects of no operator".to_owned()),
        };
        let name = operator.strip_prefix("torch.ops.").unwrap_or(operator);
        if name != "aten._linalg_check_errors.default" {
            self.unknown.insert(name.to_owned());
        }
        self.results(node, names).map(drop)
    }

    /// An operator that writes its first argument: the same operator, and its result in the argument's place.
    fn written(
        &mut self,
        node: &Node,
        (target, run): (&Arc<str>, Run),
        args: Vec<(Arc<str>, Arg)>,
        names: &mut Names,
    ) -> Result<()> {
        let id = first_tensor(node, names).ok_or("writes what is no tensor")?;
        let whole = args
            .first()
            .map(|(_, arg)| arg.clone())
            .unwrap_or(Arg::None);
        let made = self.slot();
        self.step(target, Action::Run(run), args, vec![Some(made)]);
        let new = self.slot();
        let like = vec![
            (Arc::from("self"), whole),
            (Arc::from("src"), Arg::Slot(made)),
        ];
        self.step(target, Action::Write, like, vec![Some(new)]);
        self.write(id, new);
        for output in &node.outputs {
            for name in names_of(output)?.into_iter().flatten() {
                Builder::name(names, &name, id)?;
            }
        }
        Ok(())
    }

    /// Whether an operator that may copy gives a view, by what is known of the tensors.
    fn is_view(&self, target: &str, node: &Node, graph: &Graph, args: &[(Arc<str>, Arg)]) -> bool {
        let meta = |arg: Option<&schema::Arg>| -> Option<&Meta> {
            match arg? {
                schema::Arg::Name(name) => graph.metas.get(name),
                _ => None,
            }
        };
        let from = meta(node.inputs.first().map(|(_, arg)| arg));
        if ops::alias(target, args) == Alias::View {
            return from.is_some() || !node.inputs.is_empty();
        }
        let (Some(from), Some(to)) = (from, meta(node.outputs.first())) else {
            return false;
        };
        from.dtype == to.dtype && (from.is_contiguous() || !to.is_contiguous())
    }

    fn view(
        &mut self,
        node: &Node,
        (target, run): (&Arc<str>, Run),
        args: Vec<(Arc<str>, Arg)>,
        names: &mut Names,
    ) -> Result<()> {
        let of = first_tensor(node, names).ok_or("makes a view of what is no tensor")?;
        let mut outputs = Vec::new();
        for output in &node.outputs {
            outputs.extend(names_of(output)?);
        }
        let step = Arc::new(ViewStep {
            target: target.clone(),
            run,
            args: args.clone(),
            results: outputs.len(),
        });
        let mut results = Vec::new();
        for (which, name) in outputs.into_iter().enumerate() {
            let slot = self.slot();
            results.push(Some(slot));
            let step = step.clone();
            let id = self.entity_at(slot, Some(View { of, which, step }));
            if let Some(name) = name {
                Builder::name(names, &name, id)?;
            }
        }
        self.step(target, Action::Run(run), args, results);
        Ok(())
    }

    /// New things for the results of a node.
    fn results(&mut self, node: &Node, names: &mut Names) -> Result<Vec<Id>> {
        let mut results = Vec::new();
        for output in &node.outputs {
            for name in names_of(output)? {
                let id = self.entity();
                results.push(id);
                if let Some(name) = name {
                    Builder::name(names, &name, id)?;
                }
            }
        }
        Ok(results)
    }

    fn given(&mut self, arg: &schema::Arg, names: &Names) -> Result<Given> {
        Ok(Given::Arg(match arg {
            schema::Arg::Graph(graph) => return Ok(Given::Graph(graph.clone())),
            other => self.arg(other, names)?,
        }))
    }

    /// An argument, its names read where they are now.
    pub fn arg(&mut self, arg: &schema::Arg, names: &Names) -> Result<Arg> {
        Ok(match arg {
            schema::Arg::None => Arg::None,
            schema::Arg::Name(name) => {
                let id = names.get(name);
                let id = id.ok_or_else(|| {
                    format!("reads {name:?} before anything gives it: the graph is not in order, or has a cycle")
                })?;
                Arg::Slot(self.fresh(*id))
            }
            schema::Arg::Int(number) => Arg::Int(*number),
            schema::Arg::Float(number) => Arg::Float(*number),
            schema::Arg::Complex(re, im) => Arg::Complex(*re, *im),
            schema::Arg::Bool(value) => Arg::Bool(*value),
            schema::Arg::Text(text) => Arg::Text(Arc::from(&**text)),
            schema::Arg::DType(number) => {
                if schema::dtype_of(*number).is_none() && schema::part_of(*number).is_none() {
                    return Err(format!(
                        "asks for PyTorch's dtype {number}, which no tensor has"
                    ));
                }
                Arg::DType(*number)
            }
            schema::Arg::Place => Arg::Place,
            schema::Arg::List(items) => {
                let items = items.iter().map(|item| self.arg(item, names));
                Arg::List(items.collect::<Result<_>>()?)
            }
            schema::Arg::Graph(_) => return Err("has a graph in a list".to_owned()),
            schema::Arg::Other(kind) => return Err(format!("has an argument {kind:?}")),
        })
    }

    /// A branch or loop: its graphs become programs of their own.
    fn control(&mut self, kind: Kind, node: &Node, names: &mut Names) -> Result<()> {
        let (mut graphs, mut args) = (Vec::new(), Vec::new());
        for (name, arg) in &node.inputs {
            match self.given(arg, names)? {
                Given::Graph(graph) => graphs.push(self.inner(&graph)?),
                Given::Arg(arg) => args.push((Arc::from(&**name), arg)),
            }
        }
        if graphs.len() != kind.graphs() {
            return Err(format!(
                "has {} graphs, not {}",
                graphs.len(),
                kind.graphs()
            ));
        }
        let results = self.results(node, names)?;
        let results = results.iter().map(|&id| Some(self.entities[id].slot));
        let target = node
            .target
            .strip_prefix("torch.ops.")
            .unwrap_or(&node.target);
        let action = Action::Control(Arc::new(Control { kind, graphs }));
        let results = results.collect();
        self.step(&Arc::from(target), action, args, results);
        Ok(())
    }

    /// A graph within a node as a program.
    fn inner(&mut self, graph: &Graph) -> Result<Inner> {
        let mut builder = Builder::default();
        let (mut names, mut inputs, mut ids) = (Names::new(), Vec::new(), Vec::new());
        for input in &graph.inputs {
            let id = builder.entity();
            if let schema::Arg::Name(name) = input {
                Builder::name(&mut names, name, id)?;
            }
            inputs.push(builder.entities[id].slot);
            ids.push(id);
        }
        builder.graph(graph, &mut names)?;
        self.unknown.append(&mut builder.unknown);
        if ids.iter().any(|&id| builder.is_written(id)) {
            return Err("has a graph that writes to an operand".to_owned());
        }
        let mut outputs = Vec::new();
        for output in &graph.outputs {
            let name = format!("output_{}", outputs.len());
            let value = match builder.unknown.is_empty() && self.unknown.is_empty() {
                true => builder.arg(output, &names)?,
                false => Arg::None,
            };
            let path = String::new();
            outputs.push(Output { name, path, value });
        }
        let mut program = Program {
            slots: builder.slots,
            steps: builder.steps,
            inputs: Vec::new(),
            state: Vec::new(),
            outputs,
            ranges: Vec::new(),
            guards: Vec::new(),
        };
        program.find_drops(ops::is_kept);
        Ok(Inner { program, inputs })
    }

    /// Writes a graph within a node out. What such nodes say beside it (whether gradients are kept) does not matter to
    /// what is computed.
    fn inline(&mut self, node: &Node, inner: &Graph, names: &mut Names) -> Result<()> {
        let name = node.target.rsplit('.').next().unwrap_or_default();
        if let Some(kind) = Kind::of(name) {
            return self.control(kind, node, names);
        }
        let at = node
            .inputs
            .iter()
            .position(|(_, arg)| matches!(arg, schema::Arg::Graph(_)));
        let at = at.unwrap_or(0);
        let known = match name {
            "wrap_with_set_grad_enabled" | "wrap" | "tag_activation_checkpoint" | "strict_mode" => {
                true
            }
            // Whether products are to be of less precision: the third argument.
            "wrap_with_autocast" => {
                matches!(node.inputs.get(2), Some((_, schema::Arg::Bool(false))))
            }
            _ => false,
        };
        if !known {
            let target = node
                .target
                .strip_prefix("torch.ops.")
                .unwrap_or(&node.target);
            self.unknown.insert(target.to_owned());
            return self.results(node, names).map(drop);
        }
        let mut operands = Vec::new();
        for (_, arg) in &node.inputs[at + 1..] {
            match arg {
                schema::Arg::List(items) => operands.extend(items.iter()),
                other => operands.push(other),
            }
        }
        let mut within = Names::new();
        for (input, operand) in inner.inputs.iter().zip(&operands) {
            let (schema::Arg::Name(input), schema::Arg::Name(operand)) = (input, operand) else {
                continue;
            };
            let id = names.get(operand);
            let id = *id.ok_or_else(|| format!("reads {operand:?} before anything gives it"))?;
            Builder::name(&mut within, input, id)?;
        }
        self.graph(inner, &mut within)?;
        let mut outputs = Vec::new();
        for output in &node.outputs {
            outputs.extend(names_of(output)?);
        }
        for (name, value) in outputs.into_iter().zip(&inner.outputs) {
            let Some(name) = name else {
                continue;
            };
            let schema::Arg::Name(value) = value else {
                return Err(format!("gives {name:?} a number"));
            };
            let id = within.get(value);
            let id = *id.ok_or_else(|| format!("returns {value:?}, which nothing gives"))?;
            Builder::name(names, &name, id)?;
        }
        Ok(())
    }
}

impl Node {
    /// How errors name it: its name or that of its first result, and its line.
    fn origin(&self) -> String {
        let first = || {
            names_of(self.outputs.first()?)
                .ok()?
                .into_iter()
                .flatten()
                .next()
        };
        let name = self.name.clone().or_else(first);
        let name = name.map(|name| format!("{name:?}"));
        let parts: Vec<String> = name.into_iter().chain(self.line.clone()).collect();
        parts.join(", ")
    }
}

/// How the first operand lies in memory: the argument `%order` has its dimensions from the outermost to the innermost, and
/// `%offset` the place of its first element.
fn in_memory(node: &Node, graph: &Graph) -> Result<[(Arc<str>, Arg); 2]> {
    let meta = match node.inputs.first() {
        Some((_, schema::Arg::Name(name))) => graph.metas.get(name),
        _ => None,
    };
    let meta = meta.ok_or("takes a window on memory of what is no tensor")?;
    let order = meta.memory_order().ok_or(
        "takes a window on the memory of a tensor that is not all of its memory, or has elements that share it",
    )?;
    let offset = meta.offset.hint().unwrap_or(0);
    let order = order.into_iter().map(|dim| Arg::Int(dim as i64)).collect();
    Ok([
        (Arc::from("%order"), Arg::List(order)),
        (Arc::from("%offset"), Arg::Int(offset)),
    ])
}

/// The names of an output; `None` for a result that has none.
fn names_of(output: &schema::Arg) -> Result<Vec<Option<String>>> {
    match output {
        schema::Arg::Name(name) => Ok(vec![Some(name.clone())]),
        schema::Arg::None => Ok(vec![None]),
        schema::Arg::List(items) => {
            let mut names = Vec::new();
            for item in items {
                names.extend(names_of(item)?);
            }
            Ok(names)
        }
        // A number that was known when the program was exported.
        _ => Ok(vec![None]),
    }
}
