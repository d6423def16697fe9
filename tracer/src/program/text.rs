//! Programs as text, in the file of a function's trace.
//!
//! ```text
//! program 1f03.. while_loop
//! control while 1
//! takes f64[]; number int; number int
//! results f64[]
//! draws key 0, first 1, before 0, all 4, stream true
//! body
//! leaves 0
//! slots key 0; offset 0
//! outputs value 0
//! %0: f64[] = input 0 []
//! ..
//! return %2
//! end
//! ```
//!
//! The line of an operation that runs a program names it by the word behind `program`; programs stand behind those that
//! their bodies run.

use super::body::{Body, Output, Slot};
use super::{Control, Draw, Flow};
use crate::backend::Graph;
use crate::form::{Edge, Form, FormLeaf, FormNode, Kind, Line};
use ferrotrace_jit::NodeOp;
use ferrotrace_kernels::op::{Program, check_size};
use ferrotrace_kernels::ops::program::{Procedure, Results, Taken};
use ferrotrace_kernels::{Op, Operand, ValueId};
use ferrotrace_runtime::{Category, DType, Error, Layout, Result, Scalar, Shape};
use std::cell::Cell;
use std::fmt::{Display, Formatter, Write as _};
use std::panic::Location;
use std::str::Lines;
use std::sync::Arc;

/// The operations that run programs.
const NAMES: [&str; 5] = ["cond", "while_loop", "scan", "map", "associative_scan"];

/// The most programs that may lie one within another. Each takes some calls where it runs, and texts come from files.
const DEEPEST: usize = 64;

/// The programs that operations run, each behind those that it runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs(Vec<Named>);

#[derive(Clone, Debug)]
struct Named {
    /// What stands for it in a text.
    word: String,
    op: Op,
    /// How many programs lie one within another.
    depth: usize,
}

impl Programs {
    /// The programs that a graph's operations run.
    ///
    /// # Errors
    /// Two programs cannot be told apart by what stands for them in a text.
    pub fn of(graph: &Graph) -> Result<Programs> {
        let mut programs = Programs::default();
        let mut run = graph.nodes().iter().filter_map(|node| node.operator());
        run.try_for_each(|op| programs.add(op))?;
        Ok(programs)
    }

    fn add(&mut self, op: &Op) -> Result<()> {
        let Some(flow) = Flow::of(op) else {
            return Ok(());
        };
        let word = word(flow);
        match self.named(&word) {
            Some(known) if known.op == *op => return Ok(()),
            Some(_) => return Err(Error::internal("two programs have one digest")),
            None => {}
        }
        for body in &flow.bodies {
            let mut run = body.form.nodes.iter().map(|node| node.kind.op());
            run.try_for_each(|op| self.add(op))?;
        }
        let op = op.clone();
        // Nesting is looked at where a text is read.
        self.0.push(Named { word, op, depth: 0 });
        Ok(())
    }

    /// The operation that runs the program which a word stands for.
    fn named(&self, word: &str) -> Option<&Named> {
        self.0.iter().find(|named| named.word == word)
    }

    /// Reads the programs that stand next.
    ///
    /// # Errors
    /// A line that cannot be read; a program whose bodies do not fit together.
    pub fn read(lines: &mut Lines<'_>) -> Result<Programs> {
        let mut programs = Programs::default();
        let is_program = |line: &str| line.starts_with("program ");
        while lines.clone().next().is_some_and(is_program) {
            let head = line(lines, "program", " ")?;
            let (&[word, name], taken) = (&head[..], head.first()) else {
                return Err(Error::argument("a program has a word and a name"));
            };
            if taken.is_some_and(|word| programs.named(word).is_some()) {
                return Err(Error::argument(format!("two programs are {word:?}")));
            }
            let depth = Cell::new(0);
            let flow = programs.flow(name, lines, &depth)?;
            let (op, depth) = (Op::from(Program(Arc::new(flow))), depth.get() + 1);
            if depth > DEEPEST {
                let why = format!("programs are nested more than {DEEPEST} deep");
                return Err(Error::argument(why));
            }
            let word = word.to_owned();
            programs.0.push(Named { word, op, depth });
        }
        Ok(programs)
    }

    /// The graph of a text whose operations run these programs.
    ///
    /// # Errors
    /// As for a text without programs; a program that is not there.
    pub fn graph(&self, text: &str) -> Result<Graph> {
        self.graph_of(text, &Cell::new(0))
    }

    /// The graph of a text; `depth` becomes that of the deepest program that it runs.
    fn graph_of(&self, text: &str, depth: &Cell<usize>) -> Result<Graph> {
        Graph::of_text(text, &|word| {
            let named = self.named(word)?;
            depth.set(depth.get().max(named.depth));
            Some(named.op.clone())
        })
    }

    fn flow(&self, name: &str, lines: &mut Lines<'_>, depth: &Cell<usize>) -> Result<Flow> {
        let name = NAMES.into_iter().find(|known| *known == name);
        let name = name.ok_or_else(|| Error::argument("a program of no known operation"))?;
        let control = control(&line(lines, "control", " ")?)?;
        let takes = line(lines, "takes", ";")?.into_iter().map(taken);
        let takes: Vec<Taken> = takes.collect::<Result<_>>()?;
        let results = line(lines, "results", ";")?.into_iter().map(tensor);
        let results = results.map(|found| found.map(|(dtype, shape)| (shape, dtype)));
        let results = Results::new(results.collect::<Result<_>>()?)?;
        let draws = line(lines, "draws", ";")?.into_iter().map(draw);
        let draws: Vec<Draw> = draws.collect::<Result<_>>()?;
        let mut bodies = Vec::new();
        let is_body = |line: &str| line == "body";
        while lines.clone().next().is_some_and(is_body) {
            lines.next();
            bodies.push(self.body(lines, depth)?);
        }
        let flow = Flow::new(name, control, bodies, draws, takes, results);
        flow.verify().map(|()| flow)
    }

    fn body(&self, lines: &mut Lines<'_>, depth: &Cell<usize>) -> Result<Body> {
        let number = |text: &str| {
            text.parse()
                .map_err(|_| Error::argument(format!("{text:?} is no number")))
        };
        let leaves = line(lines, "leaves", ",")?.into_iter().map(number);
        let leaves: Vec<u32> = leaves.collect::<Result<_>>()?;
        let slots = line(lines, "slots", ";")?.into_iter().map(slot);
        let slots: Vec<Slot> = slots.collect::<Result<_>>()?;
        let outputs = line(lines, "outputs", ",")?;
        let text: Vec<&str> = lines.take_while(|line| *line != "end").collect();
        let graph = self.graph_of(&text.join("\n"), depth)?;
        let form = form(&graph)?;
        if form.leaves.len() != leaves.len() {
            return Err(Error::argument("a body names an operand for each input"));
        }
        let output = |text: &str| {
            let is_not = || Error::argument(format!("{text:?} is no result of a body"));
            match numbered(text)? {
                ("operand", number) => u32::try_from(number).map(Output::Operand).ok(),
                ("value", number) => form.outputs.get(number).copied().map(Output::Node),
                _ => None,
            }
            .ok_or_else(is_not)
        };
        let outputs = outputs.into_iter().map(output).collect::<Result<_>>()?;
        let line = |node: &FormNode| Line {
            called: node.kind.called(),
            location: Location::caller(),
        };
        let lines = form.nodes.iter().map(line).collect();
        Ok(Body::new(form, lines, leaves, slots, outputs))
    }
}

impl Display for Programs {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let mut flows = self.0.iter();
        flows.try_for_each(|named| match Flow::of(&named.op) {
            Some(flow) => write_flow(f, &named.word, flow),
            None => Ok(()),
        })
    }
}

fn word(flow: &Flow) -> String {
    format!("{:016x}", flow.digest())
}

fn write_flow(f: &mut Formatter<'_>, word: &str, flow: &Flow) -> std::fmt::Result {
    writeln!(f, "program {word} {}", flow.name)?;
    match flow.control {
        Control::Cond => writeln!(f, "control cond")?,
        Control::While { carried } => writeln!(f, "control while {carried}")?,
        Control::Transposed { carried } => writeln!(f, "control transposed {carried}")?,
        Control::Scan {
            carried,
            sliced,
            steps,
            reverse,
        } => writeln!(f, "control scan {carried} {sliced} {steps} {reverse}")?,
    }
    let kind = |(shape, dtype): &(Shape, DType)| format!("{dtype}{shape}");
    let take = |taken: &Taken| match taken {
        Taken::Tensor(shape, dtype) => format!("{dtype}{shape}"),
        Taken::Number(Category::Bool) => "number bool".to_owned(),
        Taken::Number(Category::Int) => "number int".to_owned(),
        Taken::Number(Category::Float) => "number float".to_owned(),
    };
    let draw = |draw: &Draw| {
        let Draw {
            key,
            first,
            before,
            all,
            stream,
        } = draw;
        format!("key {key}, first {first}, before {before}, all {all}, stream {stream}")
    };
    writeln!(f, "takes {}", listed(flow.takes().iter().map(take), "; "))?;
    let results = flow.results().kinds().iter().map(kind);
    writeln!(f, "results {}", listed(results, "; "))?;
    writeln!(f, "draws {}", listed(flow.draws.iter().map(draw), "; "))?;
    flow.bodies.iter().try_for_each(|body| write_body(f, body))
}

fn write_body(f: &mut Formatter<'_>, body: &Body) -> std::fmt::Result {
    let form = &body.form;
    let slot = |slot: &Slot| match slot {
        Slot::Number(number) => format!("number {number}"),
        Slot::Draw { draw, offset } if *offset => format!("offset {draw}"),
        Slot::Draw { draw, .. } => format!("key {draw}"),
    };
    let place = |node: u32| form.outputs.partition_point(|&other| other < node);
    let output = |output: &Output| match *output {
        Output::Node(node) => format!("value {}", place(node)),
        Output::Operand(number) => format!("operand {number}"),
    };
    let leaves = body.leaves.iter().map(u32::to_string);
    writeln!(f, "body\nleaves {}", listed(leaves, ", "))?;
    writeln!(f, "slots {}", listed(body.slots.iter().map(slot), "; "))?;
    let outputs = body.outputs.iter().map(output);
    writeln!(f, "outputs {}", listed(outputs, ", "))?;
    let scalars = form.edges.iter().filter_map(|edge| match edge {
        Edge::Slot(Category::Bool) => Some(Scalar::Bool(false)),
        Edge::Slot(Category::Int) => Some(Scalar::Int(0)),
        Edge::Slot(Category::Float) => Some(Scalar::Float(0.0)),
        Edge::Node(_) | Edge::Leaf(_) => None,
    });
    // What was recorded once fits.
    let graph = form.graph(&scalars.collect::<Vec<_>>(), &[]);
    let mut text = String::new();
    write!(text, "{}", graph.map_err(|_| std::fmt::Error)?)?;
    writeln!(f, "{}\nend", text.trim_end())
}

/// The form of a graph whose inputs come first, with the numbers in order.
fn form(graph: &Graph) -> Result<Form> {
    let leaves = graph.inputs().iter().map(|input| FormLeaf {
        layout: Layout::contiguous(input.layout.shape().clone()),
        dtype: input.dtype,
        device: input.device.clone(),
    });
    let mut form = Form {
        nodes: Vec::new(),
        edges: Vec::new(),
        leaves: leaves.collect(),
        outputs: Vec::new(),
        device: graph.device(),
    };
    let mut edges: Vec<Edge> = Vec::with_capacity(graph.nodes().len());
    let mut slots = 0;
    for node in graph.nodes() {
        let op = match &node.op {
            NodeOp::Input(number) => {
                edges.push(Edge::Leaf(*number));
                continue;
            }
            NodeOp::Op(op) => op,
        };
        for arg in &node.args {
            form.edges.push(match *arg {
                Operand::Value(ValueId(value)) => edges[value as usize],
                Operand::Slot(slot, number) if slot == slots => {
                    slots += 1;
                    Edge::Slot(number.category())
                }
                Operand::Slot(..) | Operand::Const(_) => {
                    return Err(Error::argument("the numbers of a body are slots in order"));
                }
            });
        }
        let (metas, device) = (graph.metas(&node.args), graph.device());
        let named = (op.clone(), None);
        let kind = Kind::of(named, &metas, &device, node.precision, Location::caller());
        edges.push(Edge::Node(form.nodes.len() as u32));
        form.nodes.push(FormNode {
            kind: kind.map_err(|(_, error)| error)?,
            edges_end: form.edges.len() as u32,
        });
    }
    for &ValueId(output) in graph.outputs() {
        match edges[output as usize] {
            Edge::Node(node) => form.outputs.push(node),
            Edge::Leaf(_) | Edge::Slot(_) => {
                return Err(Error::argument("a body computes what it returns"));
            }
        }
    }
    match form.outputs.is_sorted_by(|a, b| a < b) {
        true => Ok(form),
        false => Err(Error::argument("a body returns each value once, in order")),
    }
}

fn control(words: &[&str]) -> Result<Control> {
    let number = |word: &str| word.parse::<usize>().ok();
    let found = || match *words {
        ["cond"] => Some(Control::Cond),
        ["while", carried] => Some(Control::While {
            carried: number(carried)?,
        }),
        ["transposed", carried] => Some(Control::Transposed {
            carried: number(carried)?,
        }),
        ["scan", carried, sliced, steps, reverse] => Some(Control::Scan {
            carried: number(carried)?,
            sliced: number(sliced)?,
            steps: number(steps)?,
            reverse: reverse.parse().ok()?,
        }),
        _ => None,
    };
    found().ok_or_else(|| Error::argument(format!("{words:?} is no control flow")))
}

fn taken(text: &str) -> Result<Taken> {
    match text {
        "number bool" => Ok(Taken::Number(Category::Bool)),
        "number int" => Ok(Taken::Number(Category::Int)),
        "number float" => Ok(Taken::Number(Category::Float)),
        _ => tensor(text).map(|(dtype, shape)| Taken::Tensor(shape, dtype)),
    }
}

fn draw(text: &str) -> Result<Draw> {
    let words: Vec<&str> = text.split([' ', ',']).filter(|w| !w.is_empty()).collect();
    let found = || match words[..] {
        [
            "key",
            key,
            "first",
            first,
            "before",
            before,
            "all",
            all,
            "stream",
            stream,
        ] => Some(Draw {
            key: key.parse().ok()?,
            first: first.parse().ok()?,
            before: before.parse().ok()?,
            all: all.parse().ok()?,
            stream: stream.parse().ok()?,
        }),
        _ => None,
    };
    found().ok_or_else(|| Error::argument(format!("{text:?} is no draw")))
}

fn slot(text: &str) -> Result<Slot> {
    let (word, number) = numbered(text)?;
    let is_not = || Error::argument(format!("{text:?} is no number of a body"));
    let number = u32::try_from(number).map_err(|_| is_not())?;
    let draw = |offset| Slot::Draw {
        draw: number,
        offset,
    };
    match word {
        "number" => Ok(Slot::Number(number)),
        "key" => Ok(draw(false)),
        "offset" => Ok(draw(true)),
        _ => Err(is_not()),
    }
}

/// Items with a separator between them.
pub(crate) fn listed(items: impl Iterator<Item = String>, by: &str) -> String {
    items.collect::<Vec<_>>().join(by)
}

/// What follows the name of a line, cut where `by` stands.
///
/// # Errors
/// Another line stands next.
pub(crate) fn line<'a>(lines: &mut Lines<'a>, name: &str, by: &str) -> Result<Vec<&'a str>> {
    let line = lines.next().unwrap_or("");
    let rest = line
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(' '));
    let rest =
        rest.ok_or_else(|| Error::argument(format!("a line {name:?} is expected, not {line:?}")))?;
    Ok(match rest {
        "" => Vec::new(),
        rest => rest.split(by).map(str::trim).collect(),
    })
}

/// A word and a number.
///
/// # Errors
/// It is none.
pub(crate) fn numbered(text: &str) -> Result<(&str, usize)> {
    let pair = text.split_once(' ');
    pair.and_then(|(word, number)| Some((word, number.parse().ok()?)))
        .ok_or_else(|| Error::argument(format!("{text:?} is not a word and a number")))
}

/// A dtype with a shape.
///
/// # Errors
/// It is none, or greater than any memory.
pub(crate) fn tensor(text: &str) -> Result<(DType, Shape)> {
    let parsed = text.split_once('[').and_then(|(dtype, sizes)| {
        let sizes = sizes.strip_suffix(']')?.split(',').map(str::trim);
        let sizes: Option<Vec<usize>> = sizes
            .filter(|size| !size.is_empty())
            .map(|size| size.parse().ok())
            .collect();
        let (dtype, shape) = (DType::from_name(dtype)?, Shape::new(&sizes?));
        check_size(&shape, dtype).ok()?;
        Some((dtype, shape))
    });
    parsed.ok_or_else(|| Error::argument(format!("{text:?} is no dtype with a shape")))
}
