//! Which operation first made a NaN or an infinity, under `FERROTRACE_NANS=1` (scheduler K-17, codegen A12.4).

use super::Plan;
use super::run::Run;
use crate::body::Source;
use crate::draft::{accesses, origins};
use crate::graph::{Graph, NodeOp};
use ferrotrace_kernels::{Arg, Array, Operand, ValueId, eager};
use ferrotrace_runtime::{Device, Error, Result, Scalar};
use rustc_hash::FxHashSet;

/// What is known of a run's buffers. It shares the inputs, so that none is overwritten: the operations behind a step
/// that made a NaN are run again one by one.
struct Watch {
    inputs: Vec<Array>,
    tainted: FxHashSet<Source>,
}

impl Plan {
    /// Step by step, with a look at what each stored (scheduler K-17).
    pub(super) fn run_watched(&self, run: &mut Run<'_>) -> Result<()> {
        let mut watch = Watch::of(run)?;
        for i in 0..self.draft.steps.len() {
            let done = run.has_operands(i).and_then(|()| self.step(run, i));
            if let Err(error) = done.and_then(|()| watch.check(run, i)) {
                run.spoil(i, &error);
            }
            run.release(i);
        }
        Ok(())
    }
}

impl Watch {
    /// Before the first step.
    pub fn of(run: &Run<'_>) -> Result<Watch> {
        let arrays = run.inputs.iter().flatten();
        let inputs: Vec<Array> = arrays.map(|input| input.array.clone()).collect();
        let mut tainted = FxHashSet::default();
        for (i, input) in inputs.iter().enumerate() {
            if !eager::is_finite(input)? {
                tainted.insert(Source::Input(i as u32));
            }
        }
        Ok(Watch { inputs, tainted })
    }

    /// Looks at what step `i` stored, before anything of it is released.
    ///
    /// # Errors
    /// [`NotFinite`](ferrotrace_runtime::ErrorKind::NotFinite), at the operation that made a NaN or an infinity of finite
    /// operands.
    pub fn check(&mut self, run: &Run<'_>, i: usize) -> Result<()> {
        let (reads, writes) = accesses(&run.draft.steps[i]);
        let fed = reads.iter().any(|source| self.tainted.contains(source));
        for node in writes {
            let source = Source::Node(node);
            if run.draft.graph.node(node).shape.numel() == 0 {
                continue;
            }
            let array = run.array(source)?;
            if eager::is_finite(array)? {
                continue;
            }
            if !fed && let Some(error) = self.diagnose(run, i, node, array)? {
                return Err(error);
            }
            self.tainted.insert(source);
        }
        Ok(())
    }

    /// The error of a step that read finite numbers and stored others; `None` where a number of the program is none.
    fn diagnose(
        &self,
        run: &Run<'_>,
        i: usize,
        node: ValueId,
        array: &Array,
    ) -> Result<Option<Error>> {
        let graph = &run.draft.graph;
        let step = format!("in the step [{}]", origins::name_of_step(run.draft, i));
        let values = one_by_one(graph, &self.inputs, run.scalars, node)?;
        let tainted = |v: ValueId| match &values[v.0 as usize] {
            Some(value) => eager::is_finite(value).map(|finite| !finite),
            None => Ok(false),
        };
        if !tainted(node)? {
            let step = format!("{step}, although one by one its operations give finite numbers");
            let error = eager::not_finite(array, step)?;
            return Ok(Some(run.draft.placed(error, node)));
        }
        // From what was stored back to the first operation whose operands are all finite.
        let mut at = node;
        'back: loop {
            for operand in graph.operands(at) {
                if tainted(operand)? {
                    at = operand;
                    continue 'back;
                }
            }
            break;
        }
        let finite = |operand: &Operand| match operand {
            Operand::Value(_) => true,
            number => !matches!(run.number(number), Ok(Scalar::Float(x)) if !x.is_finite()),
        };
        let Some(value) = &values[at.0 as usize] else {
            return Ok(None);
        };
        let made = matches!(graph.node(at).op, NodeOp::Op(_));
        if !made || !graph.node(at).args.iter().all(finite) {
            return Ok(None);
        }
        Ok(Some(run.draft.placed(eager::not_finite(value, step)?, at)))
    }
}

/// The values that a node is made of and its own, by ready-made kernels on the host.
fn one_by_one(
    graph: &Graph,
    inputs: &[Array],
    scalars: &[Scalar],
    node: ValueId,
) -> Result<Vec<Option<Array>>> {
    let mut needed = vec![false; node.0 as usize + 1];
    needed[node.0 as usize] = true;
    let mut values: Vec<Option<Array>> = Vec::with_capacity(needed.len());
    for i in (0..needed.len()).rev() {
        if needed[i] {
            graph
                .operands(ValueId(i as u32))
                .for_each(|v| needed[v.0 as usize] = true);
        }
    }
    for (i, node) in graph.nodes().iter().take(needed.len()).enumerate() {
        let missing = || Error::internal("an operand of a checked step is missing");
        let value = match &node.op {
            _ if !needed[i] => None,
            NodeOp::Input(n) => {
                let input = inputs.get(*n as usize).ok_or_else(missing)?;
                Some(input.to_device(&Device::cpu())?)
            }
            NodeOp::Op(op) => {
                let arg = |operand: &Operand| match operand {
                    Operand::Value(v) => values[v.0 as usize]
                        .clone()
                        .map(Arg::Array)
                        .ok_or_else(missing),
                    Operand::Slot(s, _) => scalars
                        .get(*s as usize)
                        .map(|s| Arg::Scalar(*s))
                        .ok_or_else(missing),
                    Operand::Const(s) => Ok(Arg::Scalar(*s)),
                };
                let args: Vec<Arg> = node.args.iter().map(arg).collect::<Result<_>>()?;
                Some(op.run(&args, &node.shape, node.dtype)?)
            }
        };
        values.push(value);
    }
    Ok(values)
}
