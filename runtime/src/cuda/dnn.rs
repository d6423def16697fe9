//! Convolutions by cuDNN, where it can be loaded.

mod descriptor;
mod library;

pub(super) use library::Library;

use super::libraries::{self, Wanted, functions};
use super::record::{self, Work};
use super::{Activation, Context, context};
use crate::error::warn;
use crate::{Config, DType, Device, Error, ErrorKind, Result};
use cudarc::cudnn::sys::{self, cudnnBackendDescriptor_t as Raw, cudnnStatus_t as Status};
use once_cell::sync::{Lazy, OnceCell};
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;
use std::ffi::c_void;
use std::path::PathBuf;

/// The oldest version that is used: of it, and newer ones, the bindings know the numbers of attributes.
const OLDEST: usize = 90_000;

/// Which of a convolution's three tensors is computed of the two others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConvolutionPart {
    /// The result, of input and weight.
    Result,
    /// The input's gradient, of that of the result and the weight.
    Input,
    /// The weight's gradient, of the input and the result's gradient.
    Weight,
}

/// A convolution over 2 or 3 spatial dimensions, whose tensors are dense.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Convolution {
    /// The dtype of all tensors, a float. Half types are summed in binary32; binary32 is IEEE's, unless
    /// `FERROTRACE_TF32=1` asks for 10 bits of the operands' fractions.
    pub dtype: DType,
    /// Whether what is computed of half types is stored in binary32.
    pub wide: bool,
    /// What is computed.
    pub part: ConvolutionPart,
    /// Whether channels lie innermost in memory: else tensors are row-major.
    pub channels_last: bool,
    /// Input `[n, channels, ..]`, weight `[out, channels / groups, ..]`, result `[n, out, ..]`: wherever dimensions lie.
    pub sizes: [SmallVec<[i64; 5]>; 3],
    /// Step of the window.
    pub stride: SmallVec<[i64; 3]>,
    /// Zeros on both sides.
    pub padding: SmallVec<[i64; 3]>,
    /// Spacing of the weight's taps.
    pub dilation: SmallVec<[i64; 3]>,
    /// Whether a number a channel is added to a result.
    pub bias: bool,
    /// What follows a result: nothing or [`Activation::Relu`].
    pub activation: Activation,
}

impl Convolution {
    /// The positions, among input, weight and result, of both operands and of what is computed.
    pub(crate) fn order(&self) -> [usize; 3] {
        match self.part {
            ConvolutionPart::Result => [0, 1, 2],
            ConvolutionPart::Input => [2, 1, 0],
            ConvolutionPart::Weight => [0, 2, 1],
        }
    }

    /// Whether something is done with each element of the result before it is stored.
    fn goes_on(&self) -> bool {
        self.bias || self.activation != Activation::None
    }

    pub(crate) fn bytes(&self, tensor: usize) -> usize {
        let elements: i64 = self.sizes[tensor].iter().product();
        elements as usize * self.dtype_of(tensor).size()
    }

    /// The type of one of input, weight and result.
    pub(super) fn dtype_of(&self, tensor: usize) -> DType {
        match self.wide && tensor == self.order()[2] {
            true => self.dtype.compute(),
            false => self.dtype,
        }
    }

    /// Whether the sizes are those of one convolution, of at least an element and none beyond what 32 bits count.
    pub fn is_sound(&self) -> bool {
        let [x, w, y] = &self.sizes;
        let spatial = self.stride.len();
        let ranks = [x.len(), w.len(), y.len()] == [spatial + 2; 3]
            && [self.padding.len(), self.dilation.len()] == [spatial; 2];
        let fits = |size: &SmallVec<[i64; 5]>| {
            let all = size.iter().try_fold(1i64, |all, &n| all.checked_mul(n));
            all.is_some_and(|all| all > 0 && all < i64::from(i32::MAX))
        };
        let plain = !self.goes_on()
            || self.part == ConvolutionPart::Result && self.activation != Activation::GeluTanh;
        let plain = plain && !(self.wide && (self.goes_on() || !self.dtype.is_half()));
        if !plain || !self.dtype.is_float() || !(2..=3).contains(&spatial) || !ranks {
            return false;
        }
        let windows = (0..spatial).all(|i| {
            let reach = (w[2 + i] - 1) * self.dilation[i] + 1;
            let room = x[2 + i] + 2 * self.padding[i] - reach;
            room >= 0 && y[2 + i] == room / self.stride[i] + 1
        });
        let groups = x[1] / w[1].max(1);
        windows
            && self.sizes.iter().all(fits)
            && (x[0], w[0]) == (y[0], y[1])
            && groups * w[1] == x[1]
            && w[0] % groups.max(1) == 0
    }
}

/// The library for a device.
pub(super) struct Dnn(Mutex<Library>);

functions! {
    /// The functions that are called.
    Api of sys:
    cudnnGetVersion() -> usize;
    cudnnCreate(*mut sys::cudnnHandle_t) -> Status;
    cudnnSetStream(sys::cudnnHandle_t, sys::cudaStream_t) -> Status;
    cudnnBackendCreateDescriptor(sys::cudnnBackendDescriptorType_t, *mut Raw) -> Status;
    cudnnBackendDestroyDescriptor(Raw) -> Status;
    cudnnBackendExecute(sys::cudnnHandle_t, Raw, Raw) -> Status;
    cudnnBackendFinalize(Raw) -> Status;
    cudnnBackendGetAttribute(
        Raw, sys::cudnnBackendAttributeName_t, sys::cudnnBackendAttributeType_t, i64, *mut i64, *mut c_void,
    ) -> Status;
    cudnnBackendSetAttribute(
        Raw, sys::cudnnBackendAttributeName_t, sys::cudnnBackendAttributeType_t, i64, *const c_void,
    ) -> Status;
}

/// The library that was loaded.
struct Found {
    api: Api,
    version: usize,
    file: PathBuf,
}

/// The library's name, and the parts that it loads when they are needed, in the order in which they need each other.
const WANTED: Wanted<'_> = Wanted {
    stem: "libcudnn",
    versions: &["", ".9"],
    parts: &[
        "libcudnn_graph",
        "libcudnn_ops",
        "libcudnn_cnn",
        "libcudnn_adv",
        "libcudnn_heuristic",
        "libcudnn_engines_runtime_compiled",
        "libcudnn_engines_precompiled",
    ],
};

static FOUND: Lazy<Result<Found, String>> = Lazy::new(|| {
    let config = Config::get();
    if !config.cudnn {
        return Err(" (FERROTRACE_CUDNN)".to_owned());
    }
    let found = find();
    if let Err(why) = &found
        && config.cudnn_folder.is_some()
    {
        warn(&format!("FERROTRACE_CUDNN: cuDNN could not be loaded{why}"));
    }
    found
});

fn find() -> Result<Found, String> {
    let library = libraries::find(&libraries::of_cudnn(), WANTED)?;
    let file = library.file("cudnnGetVersion");
    let wrong = |why: String| format!(" from {}: {why}", file.display());
    let api = Api::of(&library).map_err(wrong)?;
    // SAFETY: the call has no preconditions.
    let version = unsafe { (api.cudnnGetVersion)() };
    if version < OLDEST {
        let why = format!("it is version {}, and 9.0 is needed", shown(version));
        return Err(wrong(why));
    }
    std::mem::forget(library);
    Ok(Found { api, version, file })
}

/// A version as people write it.
fn shown(version: usize) -> String {
    // Before 9 a thousand was a major version.
    let major = if version < 10_000 { 1000 } else { 10_000 };
    format!("{}.{}", version / major, version / 100 % (major / 100))
}

/// The library's functions.
///
/// # Errors
/// `Device` where there is no library.
fn api() -> Result<&'static Api> {
    let found = FOUND.as_ref();
    let api = found.map(|found| &found.api);
    api.map_err(|why| Error::new(ErrorKind::Device(format!("there is no cuDNN{why}"))))
}

pub(crate) fn is_present() -> bool {
    FOUND.is_ok()
}

/// The library's version and file, or that there is none.
pub(crate) fn describe() -> String {
    match &*FOUND {
        Ok(found) => {
            let why = FAILED.get().map(|why| format!(", does not start: {why}"));
            let (version, file) = (shown(found.version), found.file.display());
            format!("{version}, {file}{}", why.unwrap_or_default())
        }
        Err(why) => format!("none that is used{why}"),
    }
}

/// Why it did not start for a device.
static FAILED: OnceCell<String> = OnceCell::new();

impl Dnn {
    pub(super) fn new(context: &Context) -> Result<Dnn> {
        let library = Library::new(context).inspect_err(|error| {
            let why = error.to_string();
            warn(&format!(
                "cuDNN does not start, and other kernels compute convolutions: {why} ({})",
                describe()
            ));
            let _ = FAILED.set(why);
        });
        Ok(Dnn(Mutex::new(library?)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Library> {
        self.0.lock()
    }
}

/// Whether the device's library computes such convolutions. Asked once a form: the answer, and the algorithm, which
/// gives the same bits every time, are remembered.
///
/// # Errors
/// `Device` for what the driver answers.
pub fn convolves(device: &Device, form: &Convolution) -> Result<bool> {
    let Some(index) = device
        .cuda_index()
        .filter(|_| is_present() && form.is_sound())
    else {
        return Ok(false);
    };
    let context = context(index)?;
    context.bind()?;
    // A library that finds no memory for itself is as good as none.
    let Ok(dnn) = context.dnn() else {
        return Ok(false);
    };
    Ok(dnn.lock().prepare(form)?.is_some())
}

/// Bytes of memory that a convolution's algorithm needs besides its tensors, none where there is no algorithm.
///
/// # Errors
/// `Device` for what the library answers.
pub(crate) fn workspace_bytes(index: u32, form: &Convolution) -> Result<Option<usize>> {
    let context = context(index)?;
    context.bind()?;
    context.dnn()?.lock().prepare(form)
}

/// Puts a convolution on the device's stream: `words` are the addresses of both operands, the result, the workspace and
/// the bias, if there is one.
///
/// # Errors
/// `Device` for what the library answers.
pub(crate) fn run(index: u32, form: &Convolution, words: Vec<u64>) -> Result<()> {
    let context = context(index)?;
    context.bind()?;
    if record::is_on() {
        record::noted(Work::Convolution(Box::new(form.clone())), &words);
        return Ok(());
    }
    let mut library = context.dnn()?.lock();
    library.run(context, form, &words, context.stream())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use smallvec::smallvec;

    pub(crate) fn form() -> Convolution {
        Convolution {
            dtype: DType::F16,
            wide: false,
            part: ConvolutionPart::Result,
            channels_last: true,
            sizes: [
                smallvec![2, 6, 9, 9],
                smallvec![4, 3, 3, 3],
                smallvec![2, 4, 5, 5],
            ],
            stride: smallvec![2, 2],
            padding: smallvec![1, 1],
            dilation: smallvec![1, 1],
            bias: false,
            activation: Activation::None,
        }
    }

    #[test]
    fn only_sizes_of_one_convolution_are_sound() {
        assert!(form().is_sound());
        let wrong: [fn(&mut Convolution); 9] = [
            |f| f.sizes[2][3] = 6,
            |f| f.sizes[1][0] = 5,
            |f| f.sizes[1][1] = 4,
            |f| f.sizes[0][0] = 0,
            |f| f.dtype = DType::I32,
            |f| f.stride[0] = 3,
            |f| f.padding.truncate(1),
            |f| f.activation = Activation::GeluTanh,
            |f| (f.bias, f.part) = (true, ConvolutionPart::Input),
        ];
        for (i, change) in wrong.iter().enumerate() {
            let mut form = form();
            change(&mut form);
            assert!(!form.is_sound(), "{i}: {form:?}");
        }
        let mut large = form();
        large.sizes[0] = smallvec![1 << 20, 64, 64, 64];
        large.sizes[2][0] = 1 << 20;
        assert!(!large.is_sound());
    }

    #[test]
    fn the_host_has_no_such_library() {
        assert_eq!(convolves(&Device::cpu(), &form()).ok(), Some(false));
    }
}
