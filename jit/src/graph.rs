//! The typed operator graph of one flush: what a recorded trace becomes, before anything is lowered.

use ferrotrace_kernels::{ArgMeta, Class, Op, OpBuilder, Operand, ValueId};
use ferrotrace_runtime::{Context, DType, Device, Error, ErrorKind, Layout, Result, Shape};
use smallvec::SmallVec;
use std::panic::Location;

/// How faithful compiled arithmetic is to operator-by-operator execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Half-precision intermediates stay in binary32 where one continuous operator alone reads them. What is used more than
    /// once, stored, cast or decided by is rounded once, and all that use it read the rounded number.
    #[default]
    Fast,
    /// Every recorded operation rounds to its dtype: pointwise results are bit for bit those of eager mode.
    EagerExact,
}

/// How a value of a half type, which is computed in binary32, is read; [`simplify`](crate::simplify::simplify) decides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// The value is unrounded where a kernel computes it, and rounded where it lies in memory.
    #[default]
    Stored,
    /// Rounded, in memory or not.
    Always,
    /// The sums of a product or convolution, as computed: where they lie in memory for kernels to read, in binary32.
    Never,
}

/// What a node computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NodeOp {
    /// Input number `.0` of the graph.
    Input(u32),
    /// An operator.
    Op(Op),
}

/// A node: an operator on earlier nodes and numbers.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it computes.
    pub op: NodeOp,
    /// Operands, in the operator's order.
    pub args: SmallVec<[Operand; 3]>,
    /// Shape of the result.
    pub shape: Shape,
    /// Element type of the result.
    pub dtype: DType,
    /// The user's line.
    pub location: Option<&'static Location<'static>>,
    /// The precision it was recorded under.
    pub precision: Precision,
    /// How all that use it read it, if it is of a half type.
    pub rounding: Rounding,
    /// Of a scatter: whether elements of the source that have one place are equal, so that they may be stored in any order.
    pub commutes: bool,
    /// What the program called, where that is not the operator.
    pub name: Option<&'static str>,
    /// In a simplified graph, the node of the recorded one that it comes from.
    pub recorded: Option<ValueId>,
}

impl Node {
    /// The operator; `None` of an input.
    pub fn operator(&self) -> Option<&Op> {
        match &self.op {
            NodeOp::Op(op) => Some(op),
            NodeOp::Input(_) => None,
        }
    }

    /// Whether it is an operator of which this holds.
    pub fn is(&self, of: impl FnOnce(&Op) -> bool) -> bool {
        self.operator().is_some_and(of)
    }

    /// Whether it is an operator of this class.
    pub fn is_of(&self, class: Class) -> bool {
        self.is(|op| op.class() == class)
    }

    /// Whether all that use it read it rounded to its half type.
    pub fn rounds(&self) -> bool {
        self.rounding == Rounding::Always
    }
}

/// An input: a stored tensor's window (its offset is not part of the graph).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpec {
    /// The window; the offset is zero.
    pub layout: Layout,
    /// The element type.
    pub dtype: DType,
    /// The device that holds it.
    pub device: Device,
}

/// A typed operator graph in topological order; node ids are positions.
///
/// ```
/// use ferrotrace_jit::Graph;
/// use ferrotrace_kernels::{OpBuilderExt, UnaryOp};
/// use ferrotrace_runtime::{DType, Device, Layout, Shape};
///
/// let mut graph = Graph::new();
/// let x = graph.input(&Layout::contiguous(Shape::from([2, 3])), DType::F32, &Device::cpu());
/// let y = graph.unary(UnaryOp::Exp, x)?;
/// graph.set_outputs(vec![y]);
/// assert!(graph.to_string().contains("exp(%0)"));
/// # Ok::<(), ferrotrace_runtime::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    inputs: Vec<InputSpec>,
    outputs: Vec<ValueId>,
    device: Option<Device>,
    location: Option<&'static Location<'static>>,
    precision: Precision,
    name: Option<&'static str>,
    recorded: Option<ValueId>,
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }

    /// An empty graph with room for so many nodes.
    pub(crate) fn with_capacity(nodes: usize) -> Graph {
        Graph {
            nodes: Vec::with_capacity(nodes),
            ..Graph::default()
        }
    }

    /// Appends an input with this window.
    pub fn input(&mut self, layout: &Layout, dtype: DType, device: &Device) -> ValueId {
        let layout = Layout::new(
            layout.shape().clone(),
            SmallVec::from_slice(layout.strides()),
            0,
        );
        let number = self.inputs.len() as u32;
        self.inputs.push(InputSpec {
            layout: layout.clone(),
            dtype,
            device: device.clone(),
        });
        self.append(
            NodeOp::Input(number),
            SmallVec::new(),
            layout.shape().clone(),
            dtype,
        )
    }

    /// The user's line and precision of the nodes pushed from now on.
    pub fn set_origin(
        &mut self,
        location: Option<&'static Location<'static>>,
        precision: Precision,
    ) {
        self.location = location;
        self.precision = precision;
    }

    /// Sets how the node is read.
    pub(crate) fn set_rounding(&mut self, id: ValueId, rounding: Rounding) {
        self.nodes[id.0 as usize].rounding = rounding;
    }

    /// Says of a scatter that what has one place is equal.
    pub(crate) fn set_commutes(&mut self, id: ValueId) {
        self.nodes[id.0 as usize].commutes = true;
    }

    /// The node, a product or convolution, gives its sums as they are computed.
    pub(crate) fn widen(&mut self, id: ValueId) {
        let node = &mut self.nodes[id.0 as usize];
        node.dtype = node.dtype.compute();
    }

    /// What the program called to record the nodes pushed from now on, where that is not the operator.
    pub fn set_name(&mut self, name: Option<&'static str>) {
        self.name = name;
    }

    /// The node of the recorded graph that the nodes pushed from now on come from.
    pub fn set_recorded(&mut self, node: ValueId) {
        self.recorded = Some(node);
    }

    /// The nodes whose values are wanted, in order.
    pub fn set_outputs(&mut self, outputs: Vec<ValueId>) {
        self.outputs = outputs;
    }

    /// Every node, in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of an id.
    pub fn node(&self, id: ValueId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// The inputs, in order.
    pub fn inputs(&self) -> &[InputSpec] {
        &self.inputs
    }

    /// The wanted nodes.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The tensor operands of a node.
    pub fn operands(&self, id: ValueId) -> impl Iterator<Item = ValueId> + '_ {
        self.node(id).args.iter().filter_map(|arg| match arg {
            Operand::Value(v) => Some(*v),
            _ => None,
        })
    }

    /// The device the graph runs on: the one that was set, else that of its first input, the CPU if there is none.
    pub fn device(&self) -> Device {
        let input = || self.inputs.first().map(|input| input.device.clone());
        self.device.clone().or_else(input).unwrap_or(Device::cpu())
    }

    /// The devices that inputs lie on, in their order, each with the first operation that reads one there (codegen B9.1).
    pub fn devices(&self) -> Vec<(Device, Option<ValueId>)> {
        let of: Vec<&Device> = self.inputs.iter().map(|input| &input.device).collect();
        let first = self.first_readers(&of).into_iter();
        first.map(|(device, id)| (device.clone(), id)).collect()
    }

    /// For each different mark of an input, the first operation that reads an input of this mark.
    fn first_readers<M: Copy + PartialEq>(&self, marks: &[M]) -> Vec<(M, Option<ValueId>)> {
        let mut found: Vec<(M, Option<ValueId>)> = Vec::new();
        for &mark in marks {
            if found.iter().all(|(known, _)| *known != mark) {
                found.push((mark, None));
            }
        }
        // Most graphs run on one device.
        if found.len() < 2 {
            let reads = |i: &usize| self.operands(ValueId(*i as u32)).next().is_some();
            let first = (0..self.nodes.len()).find(reads);
            found
                .iter_mut()
                .for_each(|f| f.1 = first.map(|i| ValueId(i as u32)));
            return found;
        }
        for i in 0..self.nodes.len() {
            let id = ValueId(i as u32);
            for operand in self.operands(id) {
                let NodeOp::Input(n) = self.node(operand).op else {
                    continue;
                };
                let of = marks.get(n as usize);
                let entry = found.iter_mut().find(|f| Some(&f.0) == of);
                if let Some((_, first @ None)) = entry {
                    *first = Some(id);
                }
            }
        }
        found
    }

    /// Checks that the inputs lie on one device: no plan runs on two.
    ///
    /// # Errors
    /// `Device`, naming each device, and the first operation there with its line.
    pub(crate) fn on_one_device(&self) -> Result<()> {
        let devices = self.devices();
        if devices.len() < 2 {
            return Ok(());
        }
        let describe = |(device, first): &(Device, Option<ValueId>)| match first {
            Some(id) => format!("{device} (first read by {})", self.named(*id)),
            None => device.to_string(),
        };
        let all: Vec<String> = devices.iter().map(describe).collect();
        let text = format!("a graph runs on one device, this on {}", all.join(" and "));
        Err(Error::new(ErrorKind::Device(text)))
    }

    /// An operation and its line.
    fn named(&self, id: ValueId) -> String {
        let Context { op, location, .. } = self.context(id);
        location.map_or_else(|| op.to_owned(), |line| format!("{op} at {line}"))
    }

    /// Sets the device the graph runs on, which a graph without inputs does not say.
    pub fn set_device(&mut self, device: &Device) {
        self.device = Some(device.clone());
    }

    /// What errors say of a node.
    pub fn context(&self, id: ValueId) -> Context {
        let node = self.node(id);
        let name = match &node.op {
            NodeOp::Input(_) => "input",
            NodeOp::Op(op) => node.name.unwrap_or_else(|| op.name()),
        };
        let operands = self
            .operands(id)
            .map(|v| (self.node(v).shape.clone(), self.node(v).dtype))
            .collect();
        Context {
            op: name,
            operands,
            location: node.location,
        }
    }

    /// Shapes, dtypes and numbers of operands, as the operators' rules take them.
    pub fn metas<'a>(&'a self, operands: &'a [Operand]) -> SmallVec<[ArgMeta<'a>; 3]> {
        let meta = |operand: &Operand| match operand {
            Operand::Value(v) => ArgMeta::Tensor(&self.node(*v).shape, self.node(*v).dtype),
            Operand::Slot(_, scalar) | Operand::Const(scalar) => ArgMeta::Scalar(*scalar),
        };
        operands.iter().map(meta).collect()
    }

    fn append(
        &mut self,
        op: NodeOp,
        args: SmallVec<[Operand; 3]>,
        shape: Shape,
        dtype: DType,
    ) -> ValueId {
        let id = ValueId(self.nodes.len() as u32);
        let (location, precision) = (self.location, self.precision);
        let rounding = match precision {
            Precision::EagerExact if dtype.is_half() => Rounding::Always,
            _ => Rounding::Stored,
        };
        self.nodes.push(Node {
            op,
            args,
            shape,
            dtype,
            location,
            precision,
            rounding,
            commutes: false,
            name: self.name,
            recorded: self.recorded,
        });
        id
    }

    /// Checks the graph's invariants: operands come before their users, inputs and outputs exist, and every node has
    /// the shape and dtype its operator's rules give.
    ///
    /// # Errors
    /// The first violation, as an internal error.
    pub fn verify(&self) -> Result<()> {
        for (i, node) in self.nodes.iter().enumerate() {
            let id = ValueId(i as u32);
            if self.operands(id).any(|v| v >= id) {
                return Err(Error::internal(format!("node %{i} uses a later node")));
            }
            match &node.op {
                NodeOp::Input(n) => {
                    let spec = self.inputs.get(*n as usize);
                    if spec.is_none_or(|s| *s.layout.shape() != node.shape || s.dtype != node.dtype)
                    {
                        return Err(Error::internal(format!("node %{i} is no input {n}")));
                    }
                }
                NodeOp::Op(op) => {
                    let (shape, dtype) = op.infer(&self.metas(&node.args))?;
                    if (&shape, dtype) != (&node.shape, node.dtype) {
                        let have = format!("{}{}", node.dtype, node.shape);
                        return Err(Error::internal(format!(
                            "node %{i} is {have}, its rule gives {dtype}{shape}"
                        )));
                    }
                }
            }
        }
        match self
            .outputs
            .iter()
            .find(|v| v.0 as usize >= self.nodes.len())
        {
            Some(v) => Err(Error::internal(format!("output %{} does not exist", v.0))),
            None => Ok(()),
        }
    }
}

impl OpBuilder for Graph {
    fn shape(&self, value: ValueId) -> &Shape {
        &self.node(value).shape
    }

    fn dtype(&self, value: ValueId) -> DType {
        self.node(value).dtype
    }

    fn push(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let (shape, dtype) = op.infer(&self.metas(operands))?;
        Ok(self.append(NodeOp::Op(op), SmallVec::from_slice(operands), shape, dtype))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // codegen B9.1
    #[test]
    fn the_first_reader_on_each_device_is_found() {
        let text = "%0: f32[3] = input 0 [1]
            %1: f32[3] = input 1 [1]
            %2: f32[3] = input 2 [1]
            %3: f32[3] = exp(%0)
            %4: f32[3] = add(%3, %2)
            %5: f32[3] = mul(%1, %4)
            return %5";
        let graph: Graph = text.parse().unwrap_or_else(|e| panic!("{e}"));
        let at = |id: u32| Some(ValueId(id));
        let (a, b, c) = ('a', 'b', 'c');
        assert_eq!(graph.first_readers(&[a, b, b]), [(a, at(3)), (b, at(4))]);
        assert_eq!(graph.first_readers(&[a, b, a]), [(a, at(3)), (b, at(5))]);
        assert_eq!(graph.first_readers(&[c; 3]), [(c, at(3))]);
        let devices = graph.devices();
        assert_eq!(devices, [(Device::cpu(), at(3))]);
        assert!(graph.on_one_device().is_ok());
        assert_eq!(graph.named(ValueId(5)), "mul");
        assert_eq!(Graph::new().devices(), []);
    }
}
