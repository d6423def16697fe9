//! Calls of cuDNN: the algorithm of each form of a convolution, asked for once.
//!
//! A form is described as a graph of operations. The library names engines that compute it, by its own estimate the
//! fastest first; the first that keeps this crate's promises is taken. Nothing is timed: the same form gives the same bits
//! in every process.

use super::super::{Activation, Context};
use super::descriptor::{Address, Descriptor, Link, check};
use super::{Convolution, ConvolutionPart, api};
use crate::{Channel, Config, DType, Error, Result, log};
use cudarc::cudnn::sys::{
    self, cudnnBackendAttributeName_t as Name, cudnnBackendAttributeType_t as Type,
    cudnnBackendDescriptorType_t as Kind, cudnnBackendHeurMode_t as Mode,
    cudnnBackendNumericalNote_t as Note, cudnnPointwiseMode_t as Pointwise,
};
use cudarc::driver;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::ptr;

/// Most bytes that an algorithm may use for partial results.
const WORKSPACE: i64 = 1 << 30;
/// Forms remembered.
const FORMS: usize = 4096;
/// Most engines tried for a form.
const ENGINES: usize = 32;
/// Bytes at whose multiples tensors start.
const ALIGNMENT: i64 = 16;
/// Numbers of tensors that are not the three of a convolution: the bias, and what has no memory.
const BIAS: i64 = 3;
const PASSED: i64 = 4;

/// A form's algorithm, and what it is made of.
struct Planned {
    plan: Descriptor,
    workspace: usize,
    /// Plans may refer to them.
    _parts: Vec<Descriptor>,
}

/// The library's handle, and what it said.
pub(in crate::cuda) struct Library {
    handle: sys::cudnnHandle_t,
    forms: HashMap<Convolution, Option<Planned>>,
}

// SAFETY: handle and descriptors may be used by any thread, by one at a time.
unsafe impl Send for Library {}

impl Library {
    pub fn new(context: &Context) -> Result<Library> {
        context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is to a live variable; the handle is never destroyed.
        check(unsafe { (api()?.cudnnCreate)(&mut handle) })?;
        let forms = HashMap::new();
        Ok(Library { handle, forms })
    }

    /// Asks for an algorithm, once: the bytes that it needs besides the tensors, `None` if there is no algorithm.
    pub fn prepare(&mut self, form: &Convolution) -> Result<Option<usize>> {
        if let Some(known) = self.forms.get(form) {
            return Ok(known.as_ref().map(|planned| planned.workspace));
        }
        if self.forms.len() >= FORMS {
            self.forms.clear();
        }
        let planned = self.plan(form)?;
        let workspace = planned.as_ref().map(|planned| planned.workspace);
        self.forms.insert(form.clone(), planned);
        Ok(workspace)
    }

    /// Puts a convolution on a stream. `words` are the addresses of both operands, the result, the workspace and, if
    /// there is one, the bias.
    pub fn run(
        &mut self,
        context: &Context,
        form: &Convolution,
        words: &[u64],
        stream: driver::sys::CUstream,
    ) -> Result<()> {
        context.bind()?;
        self.prepare(form)?;
        let planned = self.forms.get(form).and_then(Option::as_ref);
        let (Some(planned), &[a, b, out, workspace, ref bias @ ..]) = (planned, words) else {
            return Err(Error::internal("a convolution without its operands"));
        };
        let mut names: SmallVec<[i64; 4]> =
            form.order().iter().map(|&tensor| tensor as i64).collect();
        let mut places: SmallVec<[Address; 4]> = [a, b, out].map(Address).into_iter().collect();
        if let [bias] = bias {
            names.push(BIAS);
            places.push(Address(*bias));
        }
        let pack = Descriptor::new(Kind::CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, &names)?
            .set(Name::CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, &places)?
            .set(
                Name::CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                &[Address(workspace)],
            )?
            .finish()?
            .ok_or_else(|| Error::internal("cuDNN takes no such memory"))?;
        // SAFETY: handle and stream are alive; the driver's and the runtime's streams are the same.
        check(unsafe { (api()?.cudnnSetStream)(self.handle, stream.cast()) })?;
        // The caller checked that operands and result lie in memory of this device as far as the form says.
        planned.plan.execute(self.handle, &pack)
    }

    fn plan(&self, form: &Convolution) -> Result<Option<Planned>> {
        let mut parts = Vec::new();
        let Some(graph) = self.graph(form, &mut parts)? else {
            return Ok(None);
        };
        for mode in [Mode::CUDNN_HEUR_MODE_A, Mode::CUDNN_HEUR_MODE_FALLBACK] {
            let asked = Descriptor::new(Kind::CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)?
                .set(Name::CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, &[graph.link()])?
                .set(Name::CUDNN_ATTR_ENGINEHEUR_MODE, &[mode])?
                .finish()?;
            let Some(asked) = asked else { continue };
            let results = Name::CUDNN_ATTR_ENGINEHEUR_RESULTS;
            let count = asked.count(results, Type::CUDNN_TYPE_BACKEND_DESCRIPTOR)?;
            let kind = Kind::CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
            let engines = asked.parts(results, kind, count.min(ENGINES))?;
            for (rank, engine) in engines.into_iter().enumerate() {
                let Some((plan, workspace, notes)) = self.try_engine(form, &engine)? else {
                    continue;
                };
                log(Channel::Plans, || {
                    let of = form.part;
                    format!(
                        "cuDNN computes the {of:?} of {:?} {:?} by its choice {rank} of {mode:?}, notes {notes:?}, \
                         workspace {workspace}",
                        form.dtype, form.sizes
                    )
                });
                parts.extend([graph, asked, engine]);
                let _parts = parts;
                return Ok(Some(Planned {
                    plan,
                    workspace,
                    _parts,
                }));
            }
        }
        Ok(None)
    }

    /// The plan of an engine that keeps what is promised, with its workspace and the library's remarks on its numbers.
    fn try_engine(
        &self,
        form: &Convolution,
        config: &Descriptor,
    ) -> Result<Option<(Descriptor, usize, Vec<u32>)>> {
        let kind = Kind::CUDNN_BACKEND_ENGINE_DESCRIPTOR;
        let engines = config.parts(Name::CUDNN_ATTR_ENGINECFG_ENGINE, kind, 1)?;
        let Some(engine) = engines.first() else {
            return Ok(None);
        };
        let notes = Name::CUDNN_ATTR_ENGINE_NUMERICAL_NOTE;
        let notes = engine.notes(notes, Type::CUDNN_TYPE_NUMERICAL_NOTE)?;
        let barred = [
            Note::CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC,
            Note::CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION,
            Note::CUDNN_NUMERICAL_NOTE_FFT,
            Note::CUDNN_NUMERICAL_NOTE_WINOGRAD,
        ];
        // Binary32 shortened to TF32.
        let shortens = [
            Note::CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS,
            Note::CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
        ];
        let ieee = form.dtype == DType::F32 && !Config::get().tf32;
        let shortens = shortens.iter().filter(|_| ieee);
        let mut barred = barred.iter().chain(shortens);
        if barred.any(|note| notes.contains(&(*note as u32))) {
            return Ok(None);
        }
        let plan = Descriptor::new(Kind::CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_EXECUTION_PLAN_HANDLE, &[self.handle])?
            .set(
                Name::CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                &[config.link()],
            )?
            .finish()?;
        let Some(plan) = plan else { return Ok(None) };
        let workspace = plan.number(Name::CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)?;
        let fits = (0..=WORKSPACE).contains(&workspace);
        Ok(fits.then_some((plan, workspace as usize, notes)))
    }

    /// The graph of the operation and what follows; what it refers to is added to `parts`.
    fn graph(&self, form: &Convolution, parts: &mut Vec<Descriptor>) -> Result<Option<Descriptor>> {
        let Some(operations) = operations(form, parts)? else {
            return Ok(None);
        };
        let links: Vec<Link> = operations.iter().map(Descriptor::link).collect();
        parts.extend(operations);
        Descriptor::new(Kind::CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)?
            .set(Name::CUDNN_ATTR_OPERATIONGRAPH_HANDLE, &[self.handle])?
            .set(Name::CUDNN_ATTR_OPERATIONGRAPH_OPS, &links)?
            .finish()
    }
}

/// What sums are computed in.
fn compute(form: &Convolution) -> sys::cudnnDataType_t {
    match form.dtype {
        DType::F64 => sys::cudnnDataType_t::CUDNN_DATA_DOUBLE,
        _ => sys::cudnnDataType_t::CUDNN_DATA_FLOAT,
    }
}

/// The operations, one after another; what they refer to is added to `parts`.
fn operations(form: &Convolution, parts: &mut Vec<Descriptor>) -> Result<Option<Vec<Descriptor>>> {
    let first = parts.len();
    for of in 0..3 {
        let Some(tensor) = tensor(form, of)? else {
            return Ok(None);
        };
        parts.push(tensor);
    }
    let mut links: [Link; 3] = std::array::from_fn(|of| parts[first + of].link());
    let result = links[2];
    let bias = form.bias.then_some(Pointwise::CUDNN_POINTWISE_ADD);
    let relu = form.activation == Activation::Relu;
    let relu = relu.then_some(Pointwise::CUDNN_POINTWISE_RELU_FWD);
    let modes: Vec<Pointwise> = bias.into_iter().chain(relu).collect();
    // What passes from operation to operation has no memory.
    let mut passed = Vec::new();
    for at in 0..modes.len() {
        let name = PASSED + at as i64;
        let tensor = described(form, name, compute(form), &form.sizes[2])?
            .set(Name::CUDNN_ATTR_TENSOR_IS_VIRTUAL, &[true])?
            .finish()?;
        let Some(tensor) = tensor else {
            return Ok(None);
        };
        passed.push(tensor.link());
        parts.push(tensor);
    }
    if let Some(first) = passed.first() {
        links[2] = *first;
    }
    let Some(operation) = operation(form, links, parts)? else {
        return Ok(None);
    };
    let mut operations = vec![operation];
    for (at, mode) in modes.into_iter().enumerate() {
        let out = passed.get(at + 1).copied().unwrap_or(result);
        let Some(next) = pointwise(form, mode, [passed[at], out], parts)? else {
            return Ok(None);
        };
        operations.push(next);
    }
    Ok(Some(operations))
}

/// An operation on each element; what it refers to is added to `parts`.
fn pointwise(
    form: &Convolution,
    mode: Pointwise,
    [from, to]: [Link; 2],
    parts: &mut Vec<Descriptor>,
) -> Result<Option<Descriptor>> {
    let adds = mode == Pointwise::CUDNN_POINTWISE_ADD;
    let mut of = Descriptor::new(Kind::CUDNN_BACKEND_POINTWISE_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_POINTWISE_MODE, &[mode])?
        .set(Name::CUDNN_ATTR_POINTWISE_MATH_PREC, &[compute(form)])?;
    if !adds {
        let keep = sys::cudnnNanPropagation_t::CUDNN_PROPAGATE_NAN;
        of = of.set(Name::CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, &[keep])?;
    }
    let Some(of) = of.finish()? else {
        return Ok(None);
    };
    let mut operation = Descriptor::new(Kind::CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)?
        .set(
            Name::CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
            &[of.link()],
        )?
        .set(Name::CUDNN_ATTR_OPERATION_POINTWISE_XDESC, &[from])?
        .set(Name::CUDNN_ATTR_OPERATION_POINTWISE_YDESC, &[to])?;
    parts.push(of);
    if adds {
        let mut sizes = SmallVec::from_elem(1, form.sizes[2].len());
        sizes[1] = form.sizes[2][1];
        let Some(bias) = described(form, BIAS, data(form.dtype)?, &sizes)?.finish()? else {
            return Ok(None);
        };
        let name = Name::CUDNN_ATTR_OPERATION_POINTWISE_BDESC;
        operation = operation.set(name, &[bias.link()])?;
        parts.push(bias);
    }
    operation.finish()
}

/// The convolution of tensors, input, weight and result; what it refers to is added to `parts`.
fn operation(
    form: &Convolution,
    tensors: [Link; 3],
    parts: &mut Vec<Descriptor>,
) -> Result<Option<Descriptor>> {
    let mode = sys::cudnnConvolutionMode_t::CUDNN_CROSS_CORRELATION;
    let geometry = Descriptor::new(Kind::CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_COMP_TYPE, &[compute(form)])?
        .set(Name::CUDNN_ATTR_CONVOLUTION_CONV_MODE, &[mode])?
        .set(
            Name::CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS,
            &[form.stride.len() as i64],
        )?
        .set(Name::CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, &form.padding)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, &form.padding)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_DILATIONS, &form.dilation)?
        .set(Name::CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, &form.stride)?
        .finish()?;
    let Some(geometry) = geometry else {
        return Ok(None);
    };
    // The descriptor's kind, then its attributes: input, weight, result, geometry, and both factors.
    let (kind, names) = match form.part {
        ConvolutionPart::Result => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
            ],
        ),
        ConvolutionPart::Input => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
            ],
        ),
        ConvolutionPart::Weight => (
            Kind::CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
            [
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                Name::CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA,
            ],
        ),
    };
    let [x, w, y, by, alpha, beta] = names;
    let mut operation = Descriptor::new(kind)?;
    for (name, tensor) in [x, w, y].into_iter().zip(tensors) {
        operation = operation.set(name, &[tensor])?;
    }
    let operation = operation.set(by, &[geometry.link()])?;
    // Factors are of the type of the sums.
    let operation = match form.dtype {
        DType::F64 => operation.set(alpha, &[1.0f64])?.set(beta, &[0.0f64])?,
        _ => operation.set(alpha, &[1.0f32])?.set(beta, &[0.0f32])?,
    };
    let operation = operation.finish();
    parts.push(geometry);
    operation
}

/// A type of a form's tensors.
fn data(dtype: DType) -> Result<sys::cudnnDataType_t> {
    use sys::cudnnDataType_t as Data;
    Ok(match dtype {
        DType::F64 => Data::CUDNN_DATA_DOUBLE,
        DType::F16 => Data::CUDNN_DATA_HALF,
        DType::BF16 => Data::CUDNN_DATA_BFLOAT16,
        DType::F32 => Data::CUDNN_DATA_FLOAT,
        _ => return Err(Error::internal("a convolution of no float")),
    })
}

/// A tensor of a form; its number is its name.
fn tensor(form: &Convolution, of: usize) -> Result<Option<Descriptor>> {
    described(form, of as i64, data(form.dtype_of(of))?, &form.sizes[of])?.finish()
}

/// A tensor as dense as the form says, not finished.
fn described(
    form: &Convolution,
    name: i64,
    data: sys::cudnnDataType_t,
    sizes: &SmallVec<[i64; 5]>,
) -> Result<Descriptor> {
    Descriptor::new(Kind::CUDNN_BACKEND_TENSOR_DESCRIPTOR)?
        .set(Name::CUDNN_ATTR_TENSOR_UNIQUE_ID, &[name])?
        .set(Name::CUDNN_ATTR_TENSOR_DATA_TYPE, &[data])?
        .set(Name::CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, &[ALIGNMENT])?
        .set(Name::CUDNN_ATTR_TENSOR_DIMENSIONS, sizes)?
        .set(
            Name::CUDNN_ATTR_TENSOR_STRIDES,
            &strides(sizes, form.channels_last),
        )
}

/// The distances of a dense tensor's elements, `[n, channels, ..]`.
fn strides(sizes: &[i64], channels_last: bool) -> SmallVec<[i64; 5]> {
    let mut strides = SmallVec::from_elem(1, sizes.len());
    let mut next = 1;
    if channels_last {
        next = sizes[1];
    }
    for d in (0..sizes.len()).rev().filter(|d| !channels_last || *d != 1) {
        strides[d] = next;
        next *= sizes[d];
    }
    strides
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_dense() {
        assert_eq!(strides(&[2, 3, 4, 5], false)[..], [60, 20, 5, 1]);
        assert_eq!(strides(&[2, 3, 4, 5], true)[..], [60, 1, 15, 3]);
        assert_eq!(strides(&[2, 3, 4, 5, 6], true)[..], [360, 1, 90, 18, 3]);
    }

    /// What needs no device: the library takes every descriptor up to the operation.
    #[test]
    fn operations_are_described_as_the_library_wants() {
        if !super::super::is_present() {
            return eprintln!("skipped: no cuDNN");
        }
        use ConvolutionPart::{Input, Result as Whole, Weight};
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            for (part, channels_last) in [(Whole, true), (Input, false), (Weight, true)] {
                let mut form = super::super::tests::form();
                (form.dtype, form.part, form.channels_last) = (dtype, part, channels_last);
                let mut parts = Vec::new();
                let made = operations(&form, &mut parts).expect("the library answers");
                assert!(made.is_some(), "{form:?}");
                if part != Whole {
                    continue;
                }
                for (bias, activation) in [
                    (true, Activation::Relu),
                    (true, Activation::None),
                    (false, Activation::Relu),
                ] {
                    (form.bias, form.activation) = (bias, activation);
                    let made = operations(&form, &mut parts).expect("the library answers");
                    assert_eq!(
                        made.map(|all| all.len()),
                        Some(1 + bias as usize + (activation == Activation::Relu) as usize)
                    );
                }
            }
        }
        let mut form = super::super::tests::form();
        form.dilation[0] = 0;
        let mut parts = Vec::new();
        let made = operations(&form, &mut parts).expect("the library answers");
        assert!(made.is_none(), "it sees what is wrong");
    }
}
