//! Single operators on a device: eager mode there. Each is a plan of one operator under [`Precision::EagerExact`], kept by
//! operator and operands' shapes, strides and dtypes. Kernels' texts hold no size: those of one operator and class of
//! layouts are one kernel, compiled once and kept on disk.

use crate::graph::{Graph, Precision};
use crate::plan::{Plan, PlanInput};
use crate::policy::Policy;
use crate::target::Target;
use ferrotrace_kernels::op::Cast;
use ferrotrace_kernels::{Arg, eager};
use ferrotrace_kernels::{Array, Op, OpBuilder, Operand};
use ferrotrace_runtime::{
    Category, Counter, DType, Device, Error, FloatEnvironment, Layout, Result, Scalar, Shape, count,
};
use lru::LruCache;
use parking_lot::Mutex;
use rustc_hash::FxHasher;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

/// Plans kept, by hash; the least recently used goes first.
const CAPACITY: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// What a plan depends on of an operand: of a number its category.
#[derive(Debug)]
enum Class {
    Array(Layout, DType),
    Number(Category),
}

impl Class {
    fn of(arg: &Arg) -> Class {
        match arg {
            Arg::Array(x) => Class::Array(x.layout.clone(), x.dtype),
            Arg::Scalar(number) => Class::Number(number.category()),
        }
    }

    fn is_of(&self, arg: &Arg) -> bool {
        match (self, arg) {
            (Class::Array(layout, dtype), Arg::Array(x)) => {
                *dtype == x.dtype
                    && layout.shape() == x.shape()
                    && layout.strides() == x.layout.strides()
            }
            (Class::Number(category), Arg::Scalar(number)) => *category == number.category(),
            _ => false,
        }
    }
}

#[derive(Debug)]
struct Known {
    op: Op,
    operands: SmallVec<[Class; 3]>,
    device: Device,
    plan: Arc<Plan>,
}

type Plans = LruCache<u64, SmallVec<[Arc<Known>; 1]>>;

static PLANS: LazyLock<Mutex<Plans>> = LazyLock::new(|| Mutex::new(LruCache::new(CAPACITY)));

fn hash(device: &Device, op: &Op, args: &[Arg]) -> u64 {
    let mut state = FxHasher::default();
    (device, op).hash(&mut state);
    for arg in args {
        match arg {
            Arg::Array(x) => {
                x.shape()[..].hash(&mut state);
                x.layout.strides().hash(&mut state);
                (x.dtype as u8).hash(&mut state);
            }
            Arg::Scalar(number) => (number.category() as u8).hash(&mut state),
        }
    }
    state.finish()
}

/// Runs one operator on a device, the CPU or another; `shape` and `dtype` are what [`Op::infer`] gave for the operands,
/// which lie there.
///
/// # Errors
/// Out of memory; an index out of range; what the device's driver or compiler answers.
pub fn run_operator(
    device: &Device,
    op: &Op,
    args: &[Arg],
    shape: &Shape,
    dtype: DType,
) -> Result<Array> {
    let _environment = FloatEnvironment::standard();
    if Target::of(device).library.is_complete() {
        return op.run(args, shape, dtype);
    }
    if shape.numel() == 0 {
        return Array::empty(device, shape.clone(), dtype);
    }
    if let Some(view) = eager::as_view(op, args, shape) {
        return Ok(view);
    }
    let plan = plan(device, op, args)?;
    let (mut inputs, mut scalars) = (
        Vec::with_capacity(args.len()),
        SmallVec::<[Scalar; 4]>::new(),
    );
    for arg in args {
        match arg {
            Arg::Array(array) => inputs.push(PlanInput {
                array: array.clone(),
                donated: false,
            }),
            Arg::Scalar(number) => scalars.push(*number),
        }
    }
    // The caller knows the user's line.
    let bare = |e: Error| Error::new(e.kind().clone());
    let mut results = plan.run(&mut inputs, &scalars).map_err(bare)?;
    results
        .pop()
        .ok_or_else(|| Error::internal("a plan without results"))
}

/// The array itself if it is dense and row-major, else a copy that is.
///
/// # Errors
/// The errors of [`run_operator`].
pub(crate) fn dense(x: &Array) -> Result<Array> {
    if x.layout.is_contiguous() {
        return Ok(x.clone());
    }
    let (device, arg) = (x.buffer.device().clone(), Arg::Array(x.clone()));
    run_operator(
        &device,
        &Op::from(Cast(x.dtype)),
        &[arg],
        x.shape(),
        x.dtype,
    )
}

/// The plan of one operator on such operands.
fn plan(device: &Device, op: &Op, args: &[Arg]) -> Result<Arc<Plan>> {
    let key = hash(device, op, args);
    let is_it = |known: &&Arc<Known>| {
        known.op == *op
            && known.device == *device
            && known.operands.len() == args.len()
            && known.operands.iter().zip(args).all(|(a, b)| a.is_of(b))
    };
    if let Some(known) = PLANS
        .lock()
        .get(&key)
        .and_then(|all| all.iter().find(is_it))
    {
        count(Counter::PlanCacheHits, 1);
        return Ok(known.plan.clone());
    }
    let graph = graph(device, op, args)?;
    let plan = Plan::compile(graph, &Policy::of(device), None, dense)?;
    let made = Arc::new(Known {
        op: op.clone(),
        operands: args.iter().map(Class::of).collect(),
        device: device.clone(),
        plan: plan.clone(),
    });
    let mut plans = PLANS.lock();
    let all = plans.get_or_insert_mut(key, SmallVec::new);
    if !all.iter().any(|known| is_it(&known)) {
        all.push(made);
    }
    Ok(plan)
}

/// The graph of one operator.
fn graph(device: &Device, op: &Op, args: &[Arg]) -> Result<Graph> {
    let mut graph = Graph::new();
    graph.set_device(device);
    let mut operands: SmallVec<[Operand; 3]> = SmallVec::new();
    let mut slots = 0;
    for arg in args {
        operands.push(match arg {
            Arg::Array(x) => graph.input(&x.layout, x.dtype, device).into(),
            Arg::Scalar(number) => {
                slots += 1;
                Operand::Slot(slots - 1, *number)
            }
        });
    }
    // Eager mode promises no order of running sums, and theirs would be one thread's.
    let precision = match op.as_scan() {
        Some(_) => Precision::Fast,
        None => Precision::EagerExact,
    };
    graph.set_origin(None, precision);
    let result = graph.push(op.clone(), &operands)?;
    graph.set_outputs(vec![result]);
    Ok(graph)
}
