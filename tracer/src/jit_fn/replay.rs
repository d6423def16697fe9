//! What is kept of a traced function, and how it runs again.

use crate::Tensor;
use crate::backend::{Folded, PlanInput};
use crate::flush::collect::{Outcome, Stores, collect};
use crate::flush::collected::Collected;
use crate::flush::{execute, flush_nodes, told_each};
use crate::form::{Edge, Form, FormLeaf, FormNode, Kind, Line, Lines, operand_kinds};
use crate::mode::Mode;
use crate::node::{Draw, Facts, Node, NodeArc, NodeInput, Origin, Status};
use crate::plans::{self, OwnEntry, Planned, RecordedBy};
use crate::trace::{self, Drawn, Recording};
use ferrotrace_kernels::{ArgMeta, Array};
use ferrotrace_runtime::{Counter, Error, Result, Scalar, count};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::panic::Location;
use std::sync::{Arc, Weak};

/// Where the data of a leaf comes from.
#[derive(Clone, Debug)]
pub(super) enum Source {
    /// The tensor argument of this number.
    Argument(usize),
    /// A tensor met while tracing: a constant of the function.
    Constant(Array),
}

impl Source {
    /// What it is as a result.
    pub fn place(&self) -> Option<Place> {
        match self {
            Source::Argument(number) => Some(Place::Argument(*number)),
            Source::Constant(array) => Some(Place::Constant(Tensor::from_array(array.clone()))),
        }
    }

    /// The data, if it is a constant's.
    pub fn constant(&self) -> Option<&Array> {
        match self {
            Source::Constant(array) => Some(array),
            Source::Argument(_) => None,
        }
    }
}

/// Where a number comes from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// The number recorded, at every replay.
    Fixed(Scalar),
    /// The key, or else the offset, of the draw of this number.
    Draw { index: u32, offset: bool },
}

/// Where a tensor of the result comes from.
#[derive(Clone, Debug)]
pub(super) enum Output {
    /// The value of this number that the plan stores.
    Value(usize),
    /// The tensor argument of this number, as it is.
    Argument(usize),
    /// A constant.
    Constant(Tensor),
}

/// Key and first offset of each draw.
pub(crate) type Draws = SmallVec<[(u64, u64); 1]>;

/// The data of a call's tensor arguments.
pub(crate) type Arrays = SmallVec<[Array; 4]>;

/// Tensors of a result.
pub(crate) type Tensors = SmallVec<[Tensor; 4]>;

/// A traced function for one tuple of argument sizes.
#[derive(Clone, Debug)]
pub(crate) struct Replay {
    pub(super) plan: Arc<OwnEntry>,
    /// What the values that the plan stores are.
    kinds: Arc<[Arc<Kind>]>,
    /// How the operations of the plan were recorded.
    pub(super) lines: Arc<[Line]>,
    pub(super) sources: Arc<[Source]>,
    pub(super) slots: Arc<[Slot]>,
    pub(super) outputs: Arc<[Output]>,
    /// The places of the argument's tensors that are buffers which a call writes: their values are the last outputs.
    pub(super) written: Arc<[usize]>,
    /// Draws, in order.
    pub(super) draws: Vec<Drawn>,
    /// Whether the trace holds for other sizes.
    pub generic: bool,
    /// What it computes, or computed, of constants alone; none where that is nothing.
    pub(super) folded: Option<Arc<[Folded]>>,
    /// The trace before that was taken out, where replays are checked.
    pub(super) unfolded: Option<Arc<Replay>>,
}

/// The nodes of a trace's results, without those recorded before it: these are constants, and are stored first.
fn collect_trace(results: &[Tensor], recording: &Recording) -> Option<(Collected, Vec<Array>)> {
    let trace = recording.id();
    loop {
        let pending = results.iter().filter(|result| result.is_pending());
        let roots: crate::node::Inputs = pending
            .map(|result| NodeInput::Tensor(result.node().clone()))
            .collect();
        if roots.is_empty() {
            return None;
        }
        let (collected, leaves) = match collect(roots, Stores::Trace) {
            Outcome::Run(collected, leaves, _) => (*collected, leaves),
            Outcome::Nothing => return None,
            Outcome::Wait(flight) => {
                flight.wait();
                continue;
            }
        };
        let earlier: Vec<NodeArc> = constants(&collected, trace);
        if earlier.is_empty() {
            return Some((
                collected,
                leaves.into_iter().map(|(array, _)| array).collect(),
            ));
        }
        if collected.scalars.iter().any(NodeInput::is_drawn_elsewhere) {
            // Random numbers that another thread drew for the function: a replay cannot draw them anew.
            recording.note_values();
        }
        drop(collected);
        flush_nodes(earlier, Stores::Rule);
    }
}

/// Pending operations recorded before the trace whose values it uses or gives.
fn constants(collected: &Collected, trace: u64) -> Vec<NodeArc> {
    let earlier = |number: u32| collected.entry_node(number).facts.trace != trace;
    let mut wanted: Vec<u32> = collected
        .outputs
        .iter()
        .copied()
        .filter(|&number| earlier(number))
        .collect();
    for number in 0..collected.entries.len() {
        if earlier(number as u32) {
            continue;
        }
        wanted.extend(
            collected
                .entry_edges(number)
                .iter()
                .filter_map(|edge| match *edge {
                    Edge::Node(n) if earlier(n) => Some(n),
                    _ => None,
                }),
        );
    }
    wanted.sort_unstable();
    wanted.dedup();
    wanted
        .into_iter()
        .map(|number| collected.entry_node(number).clone())
        .collect()
}

/// What the values that a plan of this form stores are, as data.
fn kinds(form: &Form) -> Arc<[Arc<Kind>]> {
    let kind = |&number: &u32| {
        let kind = &form.nodes[number as usize].kind;
        Arc::new(Kind::of_data(&kind.shape, kind.dtype, &form.device))
    };
    form.outputs.iter().map(kind).collect()
}

/// Where a value of a trace is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// The node of this number.
    Node(u32),
    /// The tensor argument of this number, as it is.
    Argument(usize),
    /// A constant.
    Constant(Tensor),
}

/// A trace: its operations, and where what they read comes from.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub form: Form,
    pub lines: Vec<Line>,
    pub sources: Vec<Source>,
    pub slots: Vec<Slot>,
    /// What it gives.
    pub outputs: Vec<Place>,
    /// Draws, in order.
    pub draws: Vec<Drawn>,
    /// Whether it holds for other sizes.
    pub generic: bool,
}

/// The nodes and leaves of a trace, by the nodes that were recorded.
pub(super) type Numbers = FxHashMap<*const Node, Edge>;

fn numbers(collected: &Collected) -> Numbers {
    let entries = collected.entries.iter().map(|entry| entry.place);
    let nodes = entries.zip(0..).map(|(place, n)| (place, Edge::Node(n)));
    let leaves = collected.leaves.iter().map(|leaf| leaf.place);
    let leaves = leaves.zip(0..).map(|(place, n)| (place, Edge::Leaf(n)));
    let address = |(place, edge)| (NodeArc::as_ptr(collected.node(place)), edge);
    nodes.chain(leaves).map(address).collect()
}

impl Recorded {
    /// The trace of `results`, and the numbers of what was recorded; `None` if a result carries an error.
    pub fn new(results: &[Tensor], recording: &Recording) -> Option<(Recorded, Numbers)> {
        let trace = recording.id();
        let collected = collect_trace(results, recording);
        if results.iter().any(|result| result.node().error().is_some()) {
            return None;
        }
        // A plan runs on one device.
        let device = |n: &Tensor| n.node().facts.device.clone();
        if results.windows(2).any(|r| device(&r[0]) != device(&r[1])) {
            return None;
        }
        let (collected, arrays) = collected.unwrap_or_default();
        let mut numbers = numbers(&collected);
        let mut outputs = Vec::with_capacity(results.len());
        for result in results {
            let node = result.node();
            outputs.push(match numbers.get(&NodeArc::as_ptr(node)) {
                Some(Edge::Node(number)) => Place::Node(*number),
                _ if node.facts.is_argument && node.facts.trace == trace => {
                    Place::Argument(node.facts.place as usize)
                }
                _ if node.status() == Status::Stored => Place::Constant(result.clone()),
                _ => return None,
            });
        }
        let mut sources = Vec::with_capacity(arrays.len());
        for (leaf, array) in collected.leaves.iter().zip(&arrays) {
            let facts = &collected.node(leaf.place).facts;
            sources.push(match facts.is_argument {
                false => Source::Constant(array.clone()),
                true if facts.trace == trace => Source::Argument(facts.place as usize),
                // An argument of a function that another thread records, which this one captured: it is read.
                _ if trace::observe_value(facts.trace) => Source::Constant(array.clone()),
                _ => return None,
            });
        }
        let slots = collected.scalars.iter().map(|number| match number {
            NodeInput::Draw(drawn) if drawn.index < Draw::ELSEWHERE => Slot::Draw {
                index: drawn.index,
                offset: drawn.offset,
            },
            other => Slot::Fixed(other.scalar().unwrap_or(Scalar::Int(0))),
        });
        let slots: Vec<Slot> = slots.collect();
        let used = |draw: usize| {
            slots
                .iter()
                .any(|slot| matches!(slot, Slot::Draw { index, .. } if *index as usize == draw))
        };
        // Without running the function, it is not known how many numbers an unused draw takes at another size.
        let draws = recording.draws();
        let generic = !recording.asked_sizes() && (0..draws.len()).all(used);
        let mut recorded = Recorded {
            form: collected.form(arrays.iter()),
            lines: collected.lines().to_vec(),
            sources,
            slots,
            outputs,
            draws,
            generic,
        };
        let places = collected.entries.iter();
        let places: Vec<u32> = places
            .map(|e| collected.node(e.place).facts.place)
            .collect();
        if let Some(new) = recorded.sort(&places) {
            for edge in numbers.values_mut() {
                if let Edge::Node(n) = edge {
                    *n = new[*n as usize];
                }
            }
        }
        Some((recorded, numbers))
    }
}

impl Replay {
    /// What is kept of a trace.
    pub fn of(recorded: Recorded) -> Replay {
        let Recorded { form, .. } = &recorded;
        let plan = plans::entry(form.hash(), |other| other == form, || form.clone());
        let output = |place: Place| match place {
            Place::Node(n) => Output::Value(plan.form.outputs.partition_point(|&m| m < n)),
            Place::Argument(number) => Output::Argument(number),
            Place::Constant(tensor) => Output::Constant(tensor),
        };
        Replay {
            sources: recorded.sources.into(),
            lines: recorded.lines.into(),
            outputs: recorded.outputs.into_iter().map(output).collect(),
            written: Arc::default(),
            draws: recorded.draws,
            kinds: kinds(&plan.form),
            slots: recorded.slots.into(),
            generic: recorded.generic,
            folded: None,
            unfolded: None,
            plan,
        }
    }

    /// The trace for arguments of other sizes.
    ///
    /// # Errors
    /// An operator refuses the sizes, or gives another dtype: the function has to run again.
    pub fn resized(&self, arguments: &[Array]) -> Result<Replay> {
        let old = &self.plan.form;
        let leaves = self.sources.iter().map(|source| match source {
            Source::Argument(number) => FormLeaf::of(&arguments[*number]),
            Source::Constant(array) => FormLeaf::of(array),
        });
        let mut form = Form {
            nodes: Vec::with_capacity(old.nodes.len()),
            edges: old.edges.clone(),
            leaves: leaves.collect(),
            outputs: old.outputs.clone(),
            device: old.device.clone(),
        };
        let mut draws = self.draws.clone();
        let mut slot = 0;
        for (node, edges) in old.operands() {
            let first_slot = slot;
            let mut metas: SmallVec<[ArgMeta<'_>; 4]> = SmallVec::new();
            for edge in edges {
                metas.push(match *edge {
                    Edge::Node(n) => {
                        let node = &form.nodes[n as usize];
                        ArgMeta::Tensor(&node.kind.shape, node.kind.dtype)
                    }
                    Edge::Leaf(n) => {
                        let leaf = &form.leaves[n as usize];
                        ArgMeta::Tensor(leaf.layout.shape(), leaf.dtype)
                    }
                    Edge::Slot(_) => {
                        slot += 1;
                        ArgMeta::Scalar(match self.slots[slot - 1] {
                            Slot::Fixed(scalar) => scalar,
                            Slot::Draw { .. } => Scalar::Int(0),
                        })
                    }
                });
            }
            let (shape, dtype) = node.kind.op().infer(&metas)?;
            let kinds = operand_kinds(&metas);
            drop(metas);
            if dtype != node.kind.dtype {
                return Err(Error::internal("a dtype depends on a size"));
            }
            for slot in &self.slots[first_slot..slot] {
                if let Slot::Draw { index, .. } = slot {
                    draws[*index as usize].numel = shape.numel();
                }
            }
            form.nodes.push(FormNode {
                kind: Arc::new(node.kind.with_shape(shape, kinds)),
                edges_end: node.edges_end,
            });
        }
        let plan = plans::entry(form.hash(), |other| *other == form, || form.clone());
        Ok(Replay {
            kinds: kinds(&plan.form),
            plan,
            draws,
            unfolded: self.resize_unfolded(arguments)?,
            ..self.clone()
        })
    }

    /// A replay that shares no reference count with this one, for other threads to run at the same time.
    pub fn apart(&self) -> Replay {
        let source = |source: &Source| match source {
            Source::Argument(number) => Source::Argument(*number),
            Source::Constant(array) => Source::Constant(Array {
                buffer: array.buffer.twin(),
                ..array.clone()
            }),
        };
        Replay {
            plan: self.plan.again(),
            kinds: kinds(&self.plan.form),
            sources: self.sources.iter().map(source).collect(),
            folded: self.folded.as_ref().map(|folded| folded.to_vec().into()),
            ..self.clone()
        }
    }

    fn resize_unfolded(&self, arguments: &[Array]) -> Result<Option<Arc<Replay>>> {
        let unfolded = self.unfolded.as_deref();
        let resized = unfolded.map(|replay| replay.resized(arguments));
        Ok(resized.transpose()?.map(Arc::new))
    }

    /// Whether both record the same operations on the same constants and numbers.
    pub fn same(&self, other: &Replay) -> bool {
        let constants = |(a, b): (&Source, &Source)| match (a, b) {
            (Source::Argument(a), Source::Argument(b)) => a == b,
            (Source::Constant(a), Source::Constant(b)) => a.buffer.same(&b.buffer),
            _ => false,
        };
        let numbers = |(a, b): (&Slot, &Slot)| match (a, b) {
            (Slot::Fixed(a), Slot::Fixed(b)) => {
                a.category() == b.category()
                    && (a.to_i64(), a.to_f64().to_bits()) == (b.to_i64(), b.to_f64().to_bits())
            }
            (Slot::Draw { index: a, .. }, Slot::Draw { index: b, .. }) => a == b,
            _ => false,
        };
        self.plan.form == other.plan.form
            && self.sources.len() == other.sources.len()
            && self.sources.iter().zip(&*other.sources).all(constants)
            && self.slots.iter().zip(&*other.slots).all(numbers)
            && self.outputs.len() == other.outputs.len()
    }

    /// The trace before anything was folded, which is kept where replays are checked; else itself.
    pub fn traced(&self) -> &Replay {
        self.unfolded.as_deref().unwrap_or(self)
    }

    /// How many tensors the result has.
    pub fn results(&self) -> usize {
        self.outputs.len()
    }

    /// The tensor arguments that are results as they are.
    pub fn passed_through(&self) -> impl Iterator<Item = usize> {
        self.outputs.iter().filter_map(|output| match output {
            Output::Argument(number) => Some(*number),
            _ => None,
        })
    }

    /// What the draws came to when it was traced.
    pub fn traced_draws(&self) -> Draws {
        self.draws.iter().map(|drawn| drawn.position).collect()
    }

    /// Takes new numbers from every generator that the function draws from.
    pub fn draw(&self) -> Draws {
        self.draws
            .iter()
            .map(|drawn| drawn.generator.advance(drawn.numel))
            .collect()
    }

    /// Runs it: the result's tensors. `passed` are those of [`passed_through`](Self::passed_through), in order; an
    /// argument's buffer is donated if it is given away and held by nobody else.
    #[track_caller]
    pub fn run(
        &self,
        arguments: &mut Arrays,
        given: &[bool],
        passed: Tensors,
        drawn: &Draws,
        mode: Mode,
    ) -> Tensors {
        let location = Location::caller();
        let failed = |error: &Error, kind: &Arc<Kind>| {
            let device = ferrotrace_runtime::Device::cpu();
            Tensor::of_error(error.clone(), kind.dtype, &device, location)
        };
        let computed: Tensors = match self.compute(arguments, given, drawn, mode) {
            Ok((arrays, plan)) => {
                let stored = |(array, kind): (Result<Array>, &Arc<Kind>)| {
                    let array = match array {
                        Ok(array) => array,
                        Err(error) => return failed(&error, kind),
                    };
                    let facts = Facts::of_kind(kind.clone(), location);
                    let origin = Origin {
                        plan: plan.clone(),
                        folded: self.folded.clone(),
                    };
                    Tensor::of_fresh(Node::computed(facts, array, origin))
                };
                arrays.into_iter().zip(&*self.kinds).map(stored).collect()
            }
            Err(error) => self.kinds.iter().map(|kind| failed(&error, kind)).collect(),
        };
        let own = |(at, output): (usize, &Output)| matches!(output, Output::Value(n) if *n == at);
        if computed.len() == self.outputs.len() && self.outputs.iter().enumerate().all(own) {
            return computed;
        }
        let mut passed = passed.into_iter();
        let result = |output: &Output| match output {
            Output::Value(number) => computed[*number].clone(),
            Output::Argument(_) => passed.next().expect("each passed tensor was kept"),
            Output::Constant(tensor) => tensor.clone(),
        };
        self.outputs.iter().map(result).collect()
    }

    fn compute(
        &self,
        arguments: &mut Arrays,
        given: &[bool],
        drawn: &Draws,
        mode: Mode,
    ) -> Result<(Vec<Result<Array>>, Weak<OwnEntry>)> {
        let scalars: SmallVec<[Scalar; 8]> = self
            .slots
            .iter()
            .map(|slot| match *slot {
                Slot::Fixed(scalar) => scalar,
                Slot::Draw { index, offset } => {
                    let (key, first) = drawn[index as usize];
                    Scalar::Int(if offset { first } else { key } as i64)
                }
            })
            .collect();
        if self.plan.form.nodes.is_empty() {
            return Ok((Vec::new(), Weak::new()));
        }
        count(Counter::Flushes, 1);
        let inputs = self.inputs(arguments, given)?;
        debug_assert!(
            inputs
                .iter()
                .zip(&self.plan.form.leaves)
                .all(|(input, leaf)| leaf.is_of(&input.array)),
            "a plan runs on data that lie in memory as it was made for"
        );
        let example = || {
            let input = |input: &PlanInput| PlanInput {
                array: input.array.clone(),
                donated: input.donated,
            };
            (inputs.iter().map(input).collect(), scalars.to_vec())
        };
        let lines = || Lines::from_slice(&self.lines);
        let planned = match self.plan.stages(mode) {
            Some(stages) => Planned::Staged(stages, lines()),
            None => self
                .plan
                .planned(mode, &example, &scalars, RecordedBy::Function, lines)?,
        };
        let leaves = inputs.len();
        let (arrays, plan) = execute(planned, inputs, &scalars);
        Ok((told_each(arrays, leaves, &self.lines)?, plan))
    }

    /// The plan's inputs. Takes the arguments, of which it drops those that the plan does not need.
    fn inputs(&self, arguments: &mut Arrays, given: &[bool]) -> Result<Vec<PlanInput>> {
        let of = |array: Array, given: bool| PlanInput {
            donated: given && array.buffer.is_unique(),
            array,
        };
        let own =
            |(at, source): (usize, &Source)| matches!(source, Source::Argument(n) if *n == at);
        if arguments.len() == self.sources.len() && self.sources.iter().enumerate().all(own) {
            let all = arguments.drain(..).zip(given);
            return Ok(all.map(|(array, &given)| of(array, given)).collect());
        }
        let mut arguments: SmallVec<[Option<Array>; 4]> = arguments.drain(..).map(Some).collect();
        let input = |source: &Source| match source {
            Source::Constant(array) => Ok(of(array.clone(), false)),
            Source::Argument(number) => {
                let array = arguments[*number].take();
                let twice = || Error::internal("an argument is two leaves");
                Ok(of(array.ok_or_else(twice)?, given[*number]))
            }
        };
        self.sources.iter().map(input).collect()
    }
}
