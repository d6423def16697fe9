//! Running a form in stages: plans, and between them slices that ready-made kernels take and write.

use crate::backend::PlanInput;
use crate::form::{Edge, Form, FormLeaf, FormNode, Line, told};
use crate::plans;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Device, Error, Layout, Result, Scalar};
use std::collections::HashMap;

/// A form cut at some of its slices: plans compute the stages of odd numbers, those of even numbers are slices.
#[derive(Debug)]
pub(crate) struct Stages {
    form: Form,
    /// The stage of each node.
    of: Vec<u32>,
}

/// What is handed from stage to stage.
#[derive(Debug, Default)]
struct Value {
    /// Data, or the error of what should have computed it.
    input: Option<Result<PlanInput>>,
    /// The last stage that reads it; [`RESULT`] for what the form stores.
    last: u32,
}

/// The number of a stage after all others, for what the form stores.
const RESULT: u32 = u32::MAX;

impl Value {
    /// The value for a stage, given away at the last.
    fn hand_to(&mut self, stage: u32) -> Result<PlanInput> {
        let input = match self.last == stage {
            true => self.input.take(),
            false => self.input.as_ref().map(|input| match input {
                Ok(input) => Ok(PlanInput {
                    array: input.array.clone(),
                    donated: false,
                }),
                Err(error) => Err(error.clone()),
            }),
        };
        let missing = "an operand of a stage was not computed, or freed too early";
        input.unwrap_or_else(|| Err(Error::internal(missing)))
    }
}

/// Values by what edges call them.
struct Values {
    leaves: Vec<Value>,
    nodes: Vec<Value>,
}

impl Values {
    fn get(&mut self, edge: Edge) -> Option<&mut Value> {
        match edge {
            Edge::Leaf(n) => self.leaves.get_mut(n as usize),
            Edge::Node(n) => self.nodes.get_mut(n as usize),
            Edge::Slot(_) => None,
        }
    }
}

/// A stage.
struct Part {
    /// Its nodes in the whole form.
    nodes: Vec<u32>,
    /// The stage as a form of its own; its leaves are set when it runs.
    form: Form,
    /// What it reads of other stages: its leaves.
    reads: Vec<Edge>,
    scalars: Vec<Scalar>,
    lines: Vec<Line>,
}

impl Part {
    fn on(device: &Device) -> Part {
        let form = Form {
            nodes: Vec::new(),
            edges: Vec::new(),
            leaves: Vec::new(),
            outputs: Vec::new(),
            device: device.clone(),
        };
        Part {
            nodes: Vec::new(),
            form,
            reads: Vec::new(),
            scalars: Vec::new(),
            lines: Vec::new(),
        }
    }
}

impl Stages {
    /// Cuts `form` at the slices that `cuts` marks.
    pub fn new(form: &Form, cuts: impl Iterator<Item = bool>) -> Stages {
        let mut of: Vec<u32> = Vec::with_capacity(form.nodes.len());
        for ((node, edges), cut) in form.operands().zip(cuts) {
            let stage = |edge: &Edge| match *edge {
                Edge::Node(n) => of[n as usize],
                _ => 0,
            };
            let before = edges.iter().map(stage).max().unwrap_or(0);
            // Data is written over once the first plan has read what was there.
            let writes = node.kind.op().as_slice_assign().is_some();
            of.push(match cut {
                true => before.next_multiple_of(2).max(2 * u32::from(writes)),
                false => before | 1,
            });
        }
        Stages {
            form: form.clone(),
            of,
        }
    }

    /// Runs them, one after another; `lines` say how the form's nodes were recorded.
    ///
    /// # Errors
    /// For each result, what a plan or a ready-made kernel met that it depends on.
    pub fn run(
        self,
        inputs: Vec<PlanInput>,
        scalars: &[Scalar],
        lines: &[Line],
    ) -> Vec<Result<Array>> {
        let mut values = self.values(inputs);
        let parts = self.parts(&values, scalars, lines);
        for (stage, part) in parts.into_iter().enumerate() {
            if !part.nodes.is_empty() {
                part.run(stage as u32, &self.form, &mut values);
            }
        }
        let result = |&n: &u32| {
            values.nodes[n as usize]
                .hand_to(RESULT)
                .map(|input| input.array)
        };
        self.form.outputs.iter().map(result).collect()
    }

    /// What leaves and nodes are, and until when they are needed.
    fn values(&self, inputs: Vec<PlanInput>) -> Values {
        let leaf = |input| Value {
            input: Some(Ok(input)),
            last: 0,
        };
        let mut values = Values {
            leaves: inputs.into_iter().map(leaf).collect(),
            nodes: self.of.iter().map(|_| Value::default()).collect(),
        };
        for ((_, edges), &stage) in self.form.operands().zip(&self.of) {
            for &edge in edges {
                if let Some(value) = values.get(edge) {
                    value.last = value.last.max(stage);
                }
            }
        }
        for &output in &self.form.outputs {
            values.nodes[output as usize].last = RESULT;
        }
        values
    }

    /// The stages, which store what others or the whole need.
    fn parts(&self, values: &Values, scalars: &[Scalar], lines: &[Line]) -> Vec<Part> {
        let count = self.of.iter().max().map_or(0, |last| last + 1);
        let mut parts: Vec<Part> = (0..count).map(|_| Part::on(&self.form.device)).collect();
        let mut leaves: HashMap<(u32, Edge), u32> = HashMap::new();
        // The number of each node in its part.
        let mut own: Vec<u32> = Vec::with_capacity(self.of.len());
        let mut scalars = scalars.iter().copied();
        for (number, (node, edges)) in self.form.operands().enumerate() {
            let stage = self.of[number];
            let part = &mut parts[stage as usize];
            for &edge in edges {
                part.form.edges.push(match edge {
                    Edge::Slot(_) => {
                        part.scalars.extend(scalars.next());
                        edge
                    }
                    Edge::Node(n) if self.of[n as usize] == stage => Edge::Node(own[n as usize]),
                    _ => Edge::Leaf(*leaves.entry((stage, edge)).or_insert_with(|| {
                        part.reads.push(edge);
                        part.reads.len() as u32 - 1
                    })),
                });
            }
            own.push(part.form.nodes.len() as u32);
            if values.nodes[number].last > stage {
                part.form.outputs.push(own[number]);
            }
            part.form.nodes.push(FormNode {
                kind: node.kind.clone(),
                edges_end: part.form.edges.len() as u32,
            });
            part.nodes.push(number as u32);
            part.lines.extend(lines.get(number));
        }
        parts
    }
}

impl Part {
    /// Computes the values that others need, or gives them the errors of what they depend on.
    fn run(mut self, stage: u32, whole: &Form, values: &mut Values) {
        let missing = || Err(Error::internal("a stage reads what is no value"));
        let mut inputs = Vec::with_capacity(self.reads.len());
        for &read in &self.reads {
            let value = values.get(read);
            inputs.push(value.map_or_else(missing, |value| value.hand_to(stage)));
        }
        let leaf = |(input, read): (&Result<PlanInput>, &Edge)| match (input, *read) {
            (Ok(input), _) => Some(FormLeaf::of(&input.array)),
            (Err(_), Edge::Node(n)) => {
                let kind = &whole.nodes[n as usize].kind;
                Some(FormLeaf {
                    layout: Layout::contiguous(kind.shape.clone()),
                    dtype: kind.dtype,
                    device: whole.device.clone(),
                })
            }
            (Err(_), _) => None,
        };
        self.form.leaves = inputs.iter().zip(&self.reads).filter_map(leaf).collect();
        let computed = self.compute(stage, inputs);
        let count = self.form.outputs.len();
        let arrays = computed.unwrap_or_else(|error| vec![Err(error); count]);
        for (&output, array) in self.form.outputs.iter().zip(arrays) {
            let number = self.nodes[output as usize] as usize;
            values.nodes[number].input = Some(array.map(|array| PlanInput {
                array,
                donated: true,
            }));
        }
    }

    /// By ready-made kernels where it slices, or an operand carries an error, which some of its values may not depend on.
    fn compute(&self, stage: u32, inputs: Vec<Result<PlanInput>>) -> Result<Vec<Result<Array>>> {
        let form = &self.form;
        let graph = || form.graph(&self.scalars, &self.lines);
        if stage.is_multiple_of(2) || inputs.iter().any(Result::is_err) {
            let arrays = inputs.into_iter().map(|x| x.map(|input| input.array));
            return Ok(form.run_each(arrays.collect(), &self.scalars, &self.lines));
        }
        let entry = plans::entry(form.hash(), |other| other == form, || form.clone());
        let plan = entry.make_plan(None, graph)?;
        let mut inputs = inputs.into_iter().collect::<Result<Vec<_>>>()?;
        let leaves = inputs.len();
        let told = |error| told(error, leaves, &self.lines);
        let arrays = plan.run_each(&mut inputs, &self.scalars).map_err(told)?;
        Ok(arrays.into_iter().map(|x| x.map_err(told)).collect())
    }
}
