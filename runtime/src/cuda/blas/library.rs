//! Calls of cuBLASLt: descriptors and the algorithm of each kind of product, asked for once.

use super::super::Context;
use super::{Activation, api};
use crate::{DType, Error, ErrorKind, Result};
use cudarc::cublaslt::sys;
use cudarc::driver;
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;

/// Bytes that an algorithm may use for partial results: what the vendor asks for on this family.
const WORKSPACE: usize = 32 << 20;
/// Kinds of products remembered.
const KINDS: usize = 4096;

/// What the library is to compute, in its own terms (columns first): all but the addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    /// The dtype of both operands.
    pub dtype: DType,
    pub result: DType,
    /// Whether binary32 may be shortened to TF32.
    pub short: bool,
    /// Rows, columns, depth.
    pub sizes: [u64; 3],
    pub count: i32,
    /// For each operand: whether it is transposed, and the distance of its lines.
    pub transposed: [bool; 2],
    pub lines: [u64; 2],
    /// For each operand and the result: the distance of the matrices of a batch.
    pub batches: [i64; 3],
    pub bias: bool,
    pub activation: Activation,
    /// What the addresses of operands, result and bias are multiples of, at most 16.
    pub alignments: [u32; 4],
}

/// A request's descriptors, and the algorithm.
struct Kind {
    operation: sys::cublasLtMatmulDesc_t,
    /// Layouts of both operands and of the result.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
    /// None: the library has no algorithm for it.
    algorithm: Option<sys::cublasLtMatmulAlgo_t>,
}

/// The library's handle, and what it said.
pub(in crate::cuda) struct Library {
    handle: sys::cublasLtHandle_t,
    /// For calls on the device's stream.
    workspace: u64,
    /// For calls within graphs, once there are some. A call is several kernels where its rows are long, and another thread's
    /// graph may come between them on the stream: it must leave their partial sums alone.
    graph_workspace: Option<u64>,
    kinds: HashMap<Request, Kind>,
}

// SAFETY: handle and descriptors may be used by any thread, by one at a time.
unsafe impl Send for Library {}

fn check(status: sys::cublasStatus_t) -> Result<()> {
    match status {
        sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        other => Err(Error::new(ErrorKind::Device(format!(
            "cuBLAS answers {other:?}"
        )))),
    }
}

impl Library {
    pub fn new(context: &Context) -> Result<Library> {
        context.bind()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is to a live variable; the handle is never destroyed.
        check(unsafe { (api()?.cublasLtCreate)(&mut handle) })?;
        Ok(Library {
            handle,
            workspace: context.fixed(WORKSPACE)?,
            graph_workspace: None,
            kinds: HashMap::new(),
        })
    }

    /// Asks for an algorithm, once; `false` if there is none.
    pub fn prepare(&mut self, request: &Request) -> Result<bool> {
        if let Some(kind) = self.kinds.get(request) {
            return Ok(kind.algorithm.is_some());
        }
        if self.kinds.len() >= KINDS {
            self.kinds.clear();
        }
        let kind = Kind::of(request, self.handle)?;
        let found = kind.algorithm.is_some();
        self.kinds.insert(*request, kind);
        Ok(found)
    }

    /// The workspace of calls on a stream: on another than the device's, calls are captured.
    fn workspace_on(&mut self, context: &Context, stream: driver::sys::CUstream) -> Result<u64> {
        if stream == context.stream() {
            return Ok(self.workspace);
        }
        match self.graph_workspace {
            Some(workspace) => Ok(workspace),
            None => Ok(*self.graph_workspace.insert(context.fixed(WORKSPACE)?)),
        }
    }

    /// Puts a product on a stream. `words` are the addresses of both operands, the result and the bias.
    pub fn run(
        &mut self,
        context: &Context,
        request: &Request,
        words: &[u64],
        stream: driver::sys::CUstream,
    ) -> Result<()> {
        context.bind()?;
        if !self.prepare(request)? {
            return Err(Error::internal("a product without an algorithm"));
        }
        let workspace = self.workspace_on(context, stream)?;
        let (Some(kind), &[a, b, out, bias]) = (self.kinds.get(request), words) else {
            return Err(Error::internal("a product without its operands"));
        };
        let (one, zero) = ([1.0f32, 0.0], [1.0f64, 0.0]);
        let (one, zero): (*const c_void, *const c_void) = match request.dtype {
            DType::F64 => (
                ptr::from_ref(&zero[0]).cast(),
                ptr::from_ref(&zero[1]).cast(),
            ),
            _ => (ptr::from_ref(&one[0]).cast(), ptr::from_ref(&one[1]).cast()),
        };
        if request.bias {
            use sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER as BIAS;
            kind.set(BIAS, &bias)?;
        }
        let algorithm = kind.algorithm.as_ref().map_or(ptr::null(), ptr::from_ref);
        let [first, second, result] = kind.layouts;
        // SAFETY: descriptors are alive, and factors are live numbers of the scale's type; the caller checked that the
        // operands, the bias and the result lie in memory of this device as far as the descriptors reach. The workspace
        // is that of calls on the stream, put there under one lock, or that of graphs, which the stream runs as a whole.
        check(unsafe {
            (api()?.cublasLtMatmul)(
                self.handle,
                kind.operation,
                one,
                a as *const c_void,
                first,
                b as *const c_void,
                second,
                zero,
                out as *const c_void,
                result,
                out as *mut c_void,
                result,
                algorithm,
                workspace as *mut c_void,
                WORKSPACE,
                stream.cast(),
            )
        })
    }
}

impl Kind {
    fn of(request: &Request, handle: sys::cublasLtHandle_t) -> Result<Kind> {
        use sys::cublasComputeType_t as Compute;
        use sys::cublasLtMatmulDescAttributes_t as Of;
        use sys::cudaDataType_t as Type;
        let wide = request.result != request.dtype;
        let (ty, compute, scale) = match request.dtype {
            DType::F64 => (
                Type::CUDA_R_64F,
                Compute::CUBLAS_COMPUTE_64F,
                Type::CUDA_R_64F,
            ),
            DType::F16 => (
                Type::CUDA_R_16F,
                Compute::CUBLAS_COMPUTE_32F,
                Type::CUDA_R_32F,
            ),
            DType::BF16 => (
                Type::CUDA_R_16BF,
                Compute::CUBLAS_COMPUTE_32F,
                Type::CUDA_R_32F,
            ),
            DType::F32 if request.short => (
                Type::CUDA_R_32F,
                Compute::CUBLAS_COMPUTE_32F_FAST_TF32,
                Type::CUDA_R_32F,
            ),
            DType::F32 => (
                Type::CUDA_R_32F,
                Compute::CUBLAS_COMPUTE_32F,
                Type::CUDA_R_32F,
            ),
            _ => return Err(Error::internal("a product of no float")),
        };
        let mut kind = Kind {
            operation: ptr::null_mut(),
            layouts: [ptr::null_mut(); 3],
            algorithm: None,
        };
        // SAFETY: the pointer is to a live variable; `kind` destroys what is made.
        check(unsafe { (api()?.cublasLtMatmulDescCreate)(&mut kind.operation, compute, scale) })?;
        kind.set(
            Of::CUBLASLT_MATMUL_DESC_TRANSA,
            &i32::from(request.transposed[0]),
        )?;
        kind.set(
            Of::CUBLASLT_MATMUL_DESC_TRANSB,
            &i32::from(request.transposed[1]),
        )?;
        use sys::cublasLtEpilogue_t as Epilogue;
        let epilogue = match (request.activation, request.bias) {
            (Activation::None, false) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
            (Activation::None, true) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
            (Activation::Relu, false) => Epilogue::CUBLASLT_EPILOGUE_RELU,
            (Activation::Relu, true) => Epilogue::CUBLASLT_EPILOGUE_RELU_BIAS,
            (Activation::GeluTanh, false) => Epilogue::CUBLASLT_EPILOGUE_GELU,
            (Activation::GeluTanh, true) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
        };
        kind.set(Of::CUBLASLT_MATMUL_DESC_EPILOGUE, &(epilogue as u32))?;
        let [m, n, k] = request.sizes;
        let turned = |at: usize, rows, columns| match request.transposed[at] {
            false => (rows, columns),
            true => (columns, rows),
        };
        let shapes = [turned(0, m, k), turned(1, k, n), (m, n)];
        let lines = [request.lines[0], request.lines[1], m];
        let result = if wide { Type::CUDA_R_32F } else { ty };
        for i in 0..3 {
            let ty = if i == 2 { result } else { ty };
            let (rows, columns) = shapes[i];
            let layout = &mut kind.layouts[i];
            // SAFETY: the pointer is to a live variable; `kind` destroys what is made.
            check(unsafe {
                (api()?.cublasLtMatrixLayoutCreate)(layout, ty, rows, columns, lines[i] as i64)
            })?;
            use sys::cublasLtMatrixLayoutAttribute_t as Of;
            let set = |what: Of, value: *const c_void, bytes: usize| {
                // SAFETY: the value is alive, of as many bytes as the attribute has.
                check(unsafe {
                    (api()?.cublasLtMatrixLayoutSetAttribute)(*layout, what, value, bytes)
                })
            };
            let count = ptr::from_ref(&request.count).cast();
            set(Of::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count, 4)?;
            let distance = ptr::from_ref(&request.batches[i]).cast();
            set(Of::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, distance, 8)?;
        }
        kind.algorithm = kind.ask(request, handle)?;
        Ok(kind)
    }

    /// The algorithm that the library thinks the fastest, if it has one.
    fn ask(
        &self,
        request: &Request,
        handle: sys::cublasLtHandle_t,
    ) -> Result<Option<sys::cublasLtMatmulAlgo_t>> {
        use sys::cublasLtMatmulPreferenceAttributes_t as Of;
        let mut preference = Preference(ptr::null_mut());
        // SAFETY: the pointer is to a live variable, and `preference` destroys what is made.
        check(unsafe { (api()?.cublasLtMatmulPreferenceCreate)(&mut preference.0) })?;
        let set = |what: Of, value: *const c_void, bytes: usize| {
            // SAFETY: the value is alive, of as many bytes as the attribute has.
            check(unsafe {
                (api()?.cublasLtMatmulPreferenceSetAttribute)(preference.0, what, value, bytes)
            })
        };
        let workspace = WORKSPACE as u64;
        let bytes = ptr::from_ref(&workspace).cast();
        set(Of::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, bytes, 8)?;
        // Partial results keep the accumulator's precision, and are added in one order.
        use sys::cublasLtReductionScheme_t::CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE as SCHEME;
        let schemes = SCHEME as u32;
        let schemes = ptr::from_ref(&schemes).cast();
        set(Of::CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes, 4)?;
        let [a, b, out, _] = &request.alignments;
        for (what, alignment) in [
            (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, a),
            (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, b),
            (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out),
            (Of::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out),
        ] {
            set(what, ptr::from_ref(alignment).cast(), 4)?;
        }
        // SAFETY: plain data, for which zero is a value.
        let mut found: sys::cublasLtMatmulHeuristicResult_t = unsafe { std::mem::zeroed() };
        let mut count = 0;
        let [first, second, result] = self.layouts;
        // SAFETY: all descriptors are alive, and there is room for the one result asked for.
        let status = unsafe {
            (api()?.cublasLtMatmulAlgoGetHeuristic)(
                handle,
                self.operation,
                first,
                second,
                result,
                result,
                preference.0,
                1,
                &mut found,
                &mut count,
            )
        };
        use sys::cublasStatus_t as Status;
        match status {
            Status::CUBLAS_STATUS_NOT_SUPPORTED | Status::CUBLAS_STATUS_INVALID_VALUE => Ok(None),
            _ => {
                check(status)?;
                let good = count > 0 && found.state == Status::CUBLAS_STATUS_SUCCESS;
                Ok(good.then_some(found.algo))
            }
        }
    }

    fn set<T>(&self, what: sys::cublasLtMatmulDescAttributes_t, value: &T) -> Result<()> {
        let value: *const T = value;
        // SAFETY: the descriptor and the value are alive; each attribute is set with a value of its own type.
        check(unsafe {
            (api()?.cublasLtMatmulDescSetAttribute)(
                self.operation,
                what,
                value.cast(),
                size_of::<T>(),
            )
        })
    }
}

impl Drop for Kind {
    fn drop(&mut self) {
        let Ok(api) = api() else { return };
        // SAFETY: what was made is ours; calls took copies.
        unsafe {
            if !self.operation.is_null() {
                let _ = (api.cublasLtMatmulDescDestroy)(self.operation);
            }
            for layout in self.layouts.into_iter().filter(|l| !l.is_null()) {
                let _ = (api.cublasLtMatrixLayoutDestroy)(layout);
            }
        }
    }
}

struct Preference(sys::cublasLtMatmulPreference_t);

impl Drop for Preference {
    fn drop(&mut self) {
        if let (Ok(api), false) = (api(), self.0.is_null()) {
            // SAFETY: it is ours.
            let _ = unsafe { (api.cublasLtMatmulPreferenceDestroy)(self.0) };
        }
    }
}
