//! The tensor handle, and what can be asked of it without running anything.

use crate::form::Kind;
use crate::history::{Held, History, Value};
use crate::mode;
use crate::node::handle::Handle;
use crate::node::{Facts, Node, NodeArc, NodeInput, Status};
use crate::{place, trace};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{DType, Device, Error, Result, Scalar, Shape};

use std::panic::Location;
use std::sync::Arc;

/// A tensor: a value that may not be computed yet.
///
/// Every operation records what to compute and returns at once; nothing runs until data is read or [`eval`](crate::eval)
/// is called. Tensors are values: writing to one never changes what another handle sees. A clone is another handle of
/// the same value, and costs a few nanoseconds.
///
/// An invalid operation returns a tensor that carries the error and has shape `[0]`; so does everything computed from
/// it, and whatever reads it returns the error.
///
/// What fails only when it runs, such as an index out of range or memory that cannot be had, is like that: what was
/// computed of it carries its error for good, and all else that ran with it has its value. An error is not tried again:
/// record the operation anew. A value that replaced its only operand (`x = x.gather(..)`) takes its place as an error too:
/// keep a clone of what is to outlive a step that may fail.
#[derive(Clone)]
pub struct Tensor {
    value: Value,
}

/// An operand of [`Tensor::record`].
#[derive(Clone, Debug)]
pub(crate) enum Input<'a> {
    /// A tensor.
    Tensor(&'a Tensor),
    /// A number.
    Scalar(Scalar),
    /// The key or offset that a generator gave: see [`Generator::take`](crate::Generator::take).
    Draw(crate::node::Draw),
}

impl<'a> From<&'a Tensor> for Input<'a> {
    fn from(tensor: &'a Tensor) -> Input<'a> {
        Input::Tensor(tensor)
    }
}

impl NodeInput {
    /// A number as an operand again.
    pub(crate) fn input(&self) -> Input<'static> {
        match self {
            NodeInput::Draw(draw) => Input::Draw(*draw),
            number => Input::Scalar(number.scalar().unwrap_or(Scalar::Int(0))),
        }
    }
}

impl Input<'_> {
    #[inline]
    pub(crate) fn to_node_input(&self) -> NodeInput {
        match self {
            Input::Tensor(tensor) => NodeInput::Tensor(tensor.node().clone()),
            Input::Scalar(scalar) => NodeInput::Scalar(*scalar),
            Input::Draw(draw) => NodeInput::Draw(*draw),
        }
    }
}

impl Tensor {
    /// The handle that a fresh node counts already.
    #[inline(always)]
    pub(crate) fn of_fresh(node: Node) -> Tensor {
        Tensor {
            value: Value {
                handle: Handle::of_fresh(node),
                history: None,
            },
        }
    }

    /// The tensor of a value.
    pub(crate) fn of_value(value: Value) -> Tensor {
        Tensor { value }
    }

    /// The tensor of a value without a history.
    pub(crate) fn of_handle(handle: Handle) -> Tensor {
        let history = None;
        Tensor::of_value(Value { handle, history })
    }

    /// Its value, with the history.
    #[inline]
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// The value with another history.
    pub(crate) fn with_history(&self, history: Option<Arc<History>>) -> Tensor {
        let handle = self.value.handle.clone();
        let history = history.map(Held::new);
        Tensor::of_value(Value { handle, history })
    }

    /// How it was computed from what requires a gradient.
    #[inline]
    pub(crate) fn history(&self) -> Option<&Arc<History>> {
        self.value.history.as_deref()
    }

    /// The node.
    #[inline]
    pub(crate) fn node(&self) -> &NodeArc {
        self.value.handle.node()
    }

    /// Whether both are handles of one value.
    pub(crate) fn is_same(&self, other: &Tensor) -> bool {
        NodeArc::as_ptr(self.node()) == NodeArc::as_ptr(other.node())
    }

    /// A tensor of data that exists.
    #[track_caller]
    pub(crate) fn from_array(array: Array) -> Tensor {
        let facts = Facts::of_data(&array, Location::caller());
        Tensor::of_fresh(Node::stored(facts, array))
    }

    /// A tensor that carries `error`, tied to the operation `op` on `operands` and to the caller's line; the first error
    /// that an operand carries comes before it. For functions over tensors that refuse their operands.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::ones(3, DType::F32, &Device::cpu());
    /// let y = Tensor::failed("halve", Error::shape("an odd size"), &[&x]);
    /// assert!((y + 1.0).to_vec::<f32>().unwrap_err().to_string().contains("an odd size"));
    /// ```
    #[track_caller]
    pub fn failed(op: &'static str, error: Error, operands: &[&Tensor]) -> Tensor {
        let location = place::here(Location::caller());
        trace::observe_refusal(operands.iter().map(|tensor| &**tensor.node()));
        let earlier = operands.iter().find_map(|t| t.node().error());
        let error = earlier.unwrap_or_else(|| {
            let operands = operands
                .iter()
                .map(|t| (t.sizes().clone(), t.dtype()))
                .collect();
            error.at(place::context(op, operands, location))
        });
        let device = operands.first().map_or(Device::cpu(), |t| t.device());
        let dtype = operands.first().map_or(DType::F32, |t| t.dtype());
        Tensor::of_error(error, dtype, &device, location)
    }

    /// A tensor that carries an error as it is.
    pub(crate) fn of_error(
        error: Error,
        dtype: DType,
        device: &Device,
        location: &'static Location<'static>,
    ) -> Tensor {
        trace::observe_refusal(std::iter::empty());
        let kind = Kind {
            op: None,
            name: None,
            shape: Shape::from(0),
            dtype,
            device: device.clone(),
            precision: mode::precision(),
            hash: 0,
            reads: Default::default(),
        };
        let facts = Facts {
            kind: Arc::new(kind),
            location,
            trace: trace::current(),
            place: 0,
            is_argument: false,
            traced: false,
        };
        Tensor::of_fresh(Node::failed(facts, error))
    }

    /// The shape, for operators' own checks: a `jit` function that is being traced stays good for other sizes. Sizes
    /// that end up in an operator's attributes are read with [`shape`](Self::shape).
    #[inline]
    pub(crate) fn sizes(&self) -> &Shape {
        &self.node().facts.shape
    }

    /// The answer to a question about the tensor; an error of it tells the question, the tensor and the caller's line.
    #[track_caller]
    pub(crate) fn told<R>(&self, question: &'static str, answer: Result<R>) -> Result<R> {
        let location = Location::caller();
        answer.map_err(|error| {
            let of = vec![(self.sizes().clone(), self.dtype())];
            error.at(place::context(question, of, location))
        })
    }

    /// The error that the tensor carries, as a result.
    pub(crate) fn check(&self) -> Result<()> {
        self.node().error().map_or(Ok(()), Err)
    }

    /// The sizes of the dimensions; `[0]` where the tensor carries an error.
    #[inline]
    pub fn shape(&self) -> &Shape {
        trace::observe_sizes(self.node());
        self.sizes()
    }

    /// The sizes of the dimensions, outermost first; `[0]` where the tensor carries an error.
    pub fn dims(&self) -> &[usize] {
        self.shape().dims()
    }

    /// The number of dimensions.
    #[inline]
    pub fn rank(&self) -> usize {
        self.sizes().rank()
    }

    /// The number of elements; 0 where the tensor carries an error.
    pub fn numel(&self) -> usize {
        self.shape().numel()
    }

    /// The element type.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.node().facts.dtype
    }

    /// The device it lies on.
    pub fn device(&self) -> Device {
        self.node().facts.device.clone()
    }

    #[track_caller]
    fn exact_dims<const N: usize>(&self, question: &'static str) -> Result<[usize; N]> {
        self.check()?;
        let dims = <[usize; N]>::try_from(self.dims());
        let error = |_| Error::shape(format!("{} has not {N} dimensions", self.sizes()));
        self.told(question, dims.map_err(error))
    }

    /// The sizes of a tensor of two dimensions.
    ///
    /// # Errors
    /// The rank is not 2, or the tensor carries an error.
    #[track_caller]
    pub fn dims2(&self) -> Result<(usize, usize)> {
        self.exact_dims("dims2").map(|[a, b]| (a, b))
    }

    /// The sizes of a tensor of three dimensions.
    ///
    /// # Errors
    /// The rank is not 3, or the tensor carries an error.
    #[track_caller]
    pub fn dims3(&self) -> Result<(usize, usize, usize)> {
        self.exact_dims("dims3").map(|[a, b, c]| (a, b, c))
    }

    /// The sizes of a tensor of four dimensions.
    ///
    /// # Errors
    /// The rank is not 4, or the tensor carries an error.
    #[track_caller]
    pub fn dims4(&self) -> Result<(usize, usize, usize, usize)> {
        self.exact_dims("dims4").map(|[a, b, c, d]| (a, b, c, d))
    }

    /// The sizes of a tensor of five dimensions.
    ///
    /// # Errors
    /// The rank is not 5, or the tensor carries an error.
    #[track_caller]
    pub fn dims5(&self) -> Result<(usize, usize, usize, usize, usize)> {
        self.exact_dims("dims5")
            .map(|[a, b, c, d, e]| (a, b, c, d, e))
    }

    /// The error that the tensor carries: of an invalid operation, or of a flush that failed. Nothing runs to find out.
    pub fn error(&self) -> Option<Error> {
        // Whether operations on an argument of a `jit` function fit depends on its sizes.
        trace::observe_sizes(self.node());
        self.node().error()
    }

    /// Whether the operation has not run yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.node().status() == Status::Pending
    }
}
