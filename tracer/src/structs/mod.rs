//! Structs of tensors: models, states of optimisers, batches. A derive gives their tensors names, and makes them
//! arguments and results of compiled functions.

mod arg;
mod buffer;
mod containers;
mod result;
mod tuples;
mod values;
mod visit;

use crate::Tensor;
use crate::flush::flush_tensors;
pub use arg::{ArgKind, JitArg};
pub(crate) use arg::{Kept, Lender};
pub use buffer::Buffer;
use ferrotrace_runtime::{Error, Result};
pub use result::JitResult;
use visit::Found;
pub(crate) use visit::{ArgValue, Visit};

/// What derived code names.
#[doc(hidden)]
pub mod derived {
    pub use super::TensorStruct;
    pub use super::arg::{ArgKind, JitArg, Lender, Owned};
    pub use super::result::{JitResult, Template};
    pub use super::visit::Visit;
    pub use crate::Tensor;
}

/// A tensor of a struct, with all the names that it has there: several where the struct holds handles of one value in
/// several places (tied weights).
#[derive(Clone, Debug)]
pub struct Leaf {
    /// The tensor.
    pub tensor: Tensor,
    /// Its names, in the order of the fields; there is at least one.
    pub names: Vec<String>,
}

/// A struct of tensors that owns what it holds: a model, its gradients, the state of an optimiser, a state dictionary.
///
/// `#[derive(TensorStruct)]` implements it for structs and enums, with fields of any of these types:
///
/// - `Tensor`, and other structs that derive it;
/// - numbers, `bool`, `char`, `String`, `DType`, `Device`, `Shape`, `()`;
/// - `Vec`, arrays, `Option`, `Box`, tuples, `BTreeMap<String, _>` and `HashMap<String, _>` of them;
/// - with `#[tensor_struct(value)]` any type that is `Clone + Hash`: a value that is part of the signature of a compiled
///   function, as numbers are;
/// - with `#[tensor_struct(skip)]` any type that is `Clone`: no signature knows of it, so a compiled function sees what it
///   was when the function was traced, and gives that back. `PhantomData` needs no attribute.
///
/// All fields must be `Send + Sync + 'static`. A struct with lifetimes (`struct Batch<'a> { x: &'a Tensor }`) may derive
/// it too, and hold references to tensors, to structs that own what they hold, and texts: it is then a [`JitArg`], by
/// value, and no `TensorStruct`, because nothing can be written through it.
///
/// # Names
///
/// A tensor's name is the path to it: fields by name, parts of tuples, items of vectors and arrays by position, entries of
/// maps by key, joined by dots: `layers.0.weight`. `Option`, `Box`, tuple structs of one field and variants of enums add
/// nothing. `#[tensor_struct(name = "kernel")]` gives a field another name, `#[tensor_struct(flatten)]` none.
///
/// # Ties
///
/// A tensor that a struct holds in several places, as clones of one handle, is one [leaf](Leaf): [`for_each`](Self::for_each),
/// [`for_each_mut`](Self::for_each_mut) and [`map`](Self::map) meet it once, under its first name, and all its places get
/// what it becomes.
///
/// # Compiled functions
///
/// A struct is an argument of [`jit`](crate::jit), by value (given away: its tensors may be overwritten in place) or by
/// reference, and a result. Its values, the lengths of its vectors, keys of its maps, variants of its enums, and which of
/// its tensors are tied, are part of the signature.
///
/// ```
/// # use ferrotrace_tracer as ferrotrace;
/// use ferrotrace::prelude::*;
///
/// #[derive(TensorStruct)]
/// # #[tensor_struct(crate = ferrotrace_tracer)]
/// struct Linear {
///     weight: Tensor,
///     bias: Option<Tensor>,
/// }
///
/// #[derive(TensorStruct)]
/// # #[tensor_struct(crate = ferrotrace_tracer)]
/// struct Model {
///     layers: Vec<Linear>,
///     scale: f64,
/// }
///
/// let weight = Tensor::ones([2, 2], DType::F32, &Device::cpu());
/// let layer = |bias| Linear { weight: &weight + 0.0, bias };
/// let bias = Some(Tensor::zeros(2, DType::F32, &Device::cpu()));
/// let model = Model { layers: vec![layer(bias), layer(None)], scale: 0.5 };
/// let names: Vec<String> = model.named_tensors().into_iter().map(|(name, _)| name).collect();
/// assert_eq!(names, ["layers.0.weight", "layers.0.bias", "layers.1.weight"]);
///
/// let halve = jit(|mut model: Model| {
///     let scale = model.scale;
///     model.for_each_mut(|_, tensor| *tensor *= scale);
///     model
/// });
/// let model = halve.call(model);
/// assert_eq!(model.layers[1].weight.to_vec::<f32>()?, [0.5; 4]);
/// # Ok::<(), Error>(())
/// ```
///
/// A struct of references is a bundle of references already, and is taken by value:
///
/// ```
/// # use ferrotrace_tracer as ferrotrace;
/// use ferrotrace::prelude::*;
///
/// #[derive(TensorStruct)]
/// # #[tensor_struct(crate = ferrotrace_tracer)]
/// struct Batch<'a> {
///     x: &'a Tensor,
///     weight: Option<&'a Tensor>,
/// }
///
/// let f = jit(|batch: Batch| batch.weight.map_or(batch.x.clone(), |weight| batch.x * weight));
/// let x = Tensor::ones(2, DType::F32, &Device::cpu());
/// assert_eq!(f.call(Batch { x: &x, weight: None }).to_vec::<f32>()?, [1.0; 2]);
/// # Ok::<(), Error>(())
/// ```
///
/// ```compile_fail
/// # use ferrotrace_tracer as ferrotrace;
/// # use ferrotrace::prelude::*;
/// # #[derive(TensorStruct)]
/// # #[tensor_struct(crate = ferrotrace_tracer)]
/// # struct Batch<'a> {
/// #     x: &'a Tensor,
/// # }
/// jit(|batch: &Batch| batch.x + 1.0); // an error that says so
/// ```
///
/// A field that is none of these is refused by the compiler:
///
/// ```compile_fail
/// # use ferrotrace_tracer as ferrotrace;
/// use ferrotrace::prelude::*;
///
/// #[derive(TensorStruct)]
/// # #[tensor_struct(crate = ferrotrace_tracer)]
/// struct Model {
///     weight: Tensor,
///     lock: std::sync::Mutex<u32>, // an error: it is no tensor and no value
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no struct of tensors that owns what it holds",
    note = "`#[derive(TensorStruct)]` makes one of a struct without lifetimes",
    note = "a struct of references is taken by value: `jit(|batch: Batch| ..)`",
    note = "a field of another type is a value with `#[tensor_struct(value)]`, and left out with `#[tensor_struct(skip)]`"
)]
pub trait TensorStruct: JitArg + JitResult + Send + Sync + 'static {
    /// Shows its tensors to `visit`, in the order of [`JitArg::visit`].
    #[doc(hidden)]
    fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut Tensor));

    /// A struct with the same values, and with what `tensor` gives for each of its tensors, in the order of
    /// [`JitArg::visit`].
    #[doc(hidden)]
    fn rebuild(&self, tensor: &mut dyn FnMut(&Tensor) -> Tensor) -> Self
    where
        Self: Sized;

    /// Its tensors, in the order of the fields, a tied one in each of its places.
    fn tensors(&self) -> Vec<Tensor>
    where
        Self: Sized,
    {
        let found = Visit::of(self).tensors.into_iter();
        found.map(|found| found.tensor.into_owned()).collect()
    }

    /// Its tensors with their names, in the order of the fields, a tied one under each of its names.
    fn named_tensors(&self) -> Vec<(String, Tensor)>
    where
        Self: Sized,
    {
        let (visit, names) = Visit::named(self);
        let found = visit.tensors.into_iter().enumerate();
        found
            .map(|(place, found)| (names.get(place).to_owned(), found.tensor.into_owned()))
            .collect()
    }

    /// Its tensors, each once with all of its names, in the order of their first names.
    fn leaves(&self) -> Vec<Leaf>
    where
        Self: Sized,
    {
        let (visit, names) = Visit::named(self);
        let ties = visit.ties();
        let mut leaves: Vec<Leaf> = Vec::with_capacity(visit.tensors.len());
        let mut leaf_of = Vec::with_capacity(visit.tensors.len());
        for (place, found) in visit.tensors.into_iter().enumerate() {
            let first = first_of(ties.as_deref(), place);
            let name = names.get(place).to_owned();
            let leaf = if first == place {
                leaves.len()
            } else {
                leaf_of[first]
            };
            leaf_of.push(leaf);
            match leaves.get_mut(leaf) {
                Some(leaf) => leaf.names.push(name),
                None => leaves.push(Leaf {
                    tensor: found.tensor.into_owned(),
                    names: vec![name],
                }),
            }
        }
        leaves
    }

    /// What a model learns: its tensors of a floating-point dtype outside [buffers](Buffer), each once, with their first
    /// names.
    fn parameters(&self) -> Vec<(String, Tensor)>
    where
        Self: Sized,
    {
        let (visit, names) = Visit::named(self);
        let ties = visit.ties();
        let places = visit.tensors.into_iter().enumerate();
        let parameter = |(place, found): (usize, Found<'_>)| {
            let first = first_of(ties.as_deref(), place) == place;
            let learnt = found.buffer.is_none() && found.tensor.dtype().is_float();
            (first && learnt).then(|| (names.get(place).to_owned(), found.tensor.into_owned()))
        };
        places.filter_map(parameter).collect()
    }

    /// Gives the buffers of `other`, which has the same structure, the values of these.
    ///
    /// # Errors
    /// A buffer that a compiled function may not write: see [`Buffer::set`].
    #[doc(hidden)]
    fn copy_buffers(&self, other: &Self) -> Result<()>
    where
        Self: Sized,
    {
        let (from, to) = (Visit::of(self).tensors, Visit::of(other).tensors);
        for (from, to) in from.iter().zip(&to) {
            if let (Some(_), Some(to)) = (from.buffer, to.buffer)
                && !from.tensor.is_same(&to.get())
            {
                to.set(from.tensor.as_ref().clone())?;
            }
        }
        Ok(())
    }

    /// Calls `f` with each tensor once, and its first name.
    fn for_each(&self, mut f: impl FnMut(&str, &Tensor))
    where
        Self: Sized,
    {
        let (visit, names) = Visit::named(self);
        let ties = visit.ties();
        for (place, found) in visit.tensors.iter().enumerate() {
            if first_of(ties.as_deref(), place) == place {
                f(names.get(place), &found.tensor);
            }
        }
    }

    /// Calls `f` with each tensor once, and its first name; a tied tensor becomes what `f` makes of it in all its places.
    fn for_each_mut(&mut self, mut f: impl FnMut(&str, &mut Tensor))
    where
        Self: Sized,
    {
        let (visit, names) = Visit::named(self);
        let ties = visit.ties();
        drop(visit);
        let mut written = Written::new(ties);
        let mut place = 0;
        self.visit_mut(&mut |tensor| {
            match written.earlier(place) {
                Some(earlier) => *tensor = earlier,
                None => {
                    f(names.get(place), tensor);
                    written.note(place, tensor);
                }
            }
            place += 1;
        });
    }

    /// Calls `f` with each tensor once, its first name, and the tensor of `other` in that place: a parameter and its
    /// gradient.
    ///
    /// # Errors
    /// `other` has another structure: see [`same_structure`](Self::same_structure). Nothing is changed.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let mut pair = [1.0, 2.0].map(|v| Tensor::scalar(v, DType::F32, &Device::cpu()));
    /// let steps = TensorStruct::map(&pair, |_, tensor| tensor * 0.5);
    /// pair.zip_mut(&steps, |_, tensor, step| *tensor -= step)?;
    /// assert_eq!(pair[1].to_scalar::<f32>()?, 1.0);
    /// # Ok::<(), Error>(())
    /// ```
    fn zip_mut(&mut self, other: &Self, mut f: impl FnMut(&str, &mut Tensor, &Tensor)) -> Result<()>
    where
        Self: Sized,
    {
        let (visit, names) = Visit::named(self);
        let ties = visit.ties();
        drop(visit);
        let (others, other_names) = Visit::named(other);
        if let Some(name) = names.first_other(&other_names) {
            return Err(Error::argument(format!(
                "two structs of tensors differ in structure, from {name:?} on"
            )));
        }
        let others = others.tensors;
        let mut place = 0;
        let mut written = Written::new(ties);
        self.visit_mut(&mut |tensor| {
            match written.earlier(place) {
                Some(earlier) => *tensor = earlier,
                None => {
                    f(names.get(place), tensor, &others[place].tensor);
                    written.note(place, tensor);
                }
            }
            place += 1;
        });
        Ok(())
    }

    /// A struct of the same structure and values, with what `f` gives for each tensor and its first name; what is tied
    /// stays tied.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let pair = [Tensor::ones(2, DType::F32, &Device::cpu()), Tensor::ones(3, DType::F32, &Device::cpu())];
    /// let zeros = TensorStruct::map(&pair, |_, tensor| tensor.zeros_like());
    /// assert_eq!(zeros[1].to_vec::<f32>()?, [0.0; 3]);
    /// # Ok::<(), Error>(())
    /// ```
    fn map(&self, mut f: impl FnMut(&str, &Tensor) -> Tensor) -> Self
    where
        Self: Sized,
    {
        let (visit, names) = Visit::named(self);
        let mut written = Written::new(visit.ties());
        drop(visit);
        let mut place = 0;
        self.rebuild(&mut |tensor| {
            let mapped = written.earlier(place).unwrap_or_else(|| {
                let mapped = f(names.get(place), tensor);
                written.note(place, &mapped);
                mapped
            });
            place += 1;
            mapped
        })
    }

    /// Whether both have tensors of the same names in the same order; values, shapes and dtypes may differ.
    fn same_structure(&self, other: &Self) -> bool
    where
        Self: Sized,
    {
        Visit::named(self).1 == Visit::named(other).1
    }

    /// Computes and stores all of its tensors, in one go.
    ///
    /// # Errors
    /// The first error that one of them carries, or that computing them met.
    fn eval(&self) -> Result<()>
    where
        Self: Sized,
    {
        let found = Visit::of(self).tensors;
        flush_tensors(found.iter().map(|found| &*found.tensor));
        found.iter().try_for_each(|found| found.tensor.check())
    }
}

/// The first place of a tensor.
fn first_of(ties: Option<&[u32]>, place: usize) -> usize {
    ties.map_or(place, |firsts| firsts[place] as usize)
}

/// What tied tensors became in the first of their places.
struct Written {
    ties: Option<Vec<u32>>,
    /// By the first place; none for tensors that are not tied, so that no handle is held of them.
    tensors: Vec<Option<Tensor>>,
    /// Whether a later place has what is in this one.
    is_tied: Vec<bool>,
}

impl Written {
    fn new(ties: Option<Vec<u32>>) -> Written {
        let len = ties.as_ref().map_or(0, Vec::len);
        let mut is_tied = vec![false; len];
        for (place, &first) in ties.iter().flatten().enumerate() {
            is_tied[first as usize] |= first as usize != place;
        }
        Written {
            ties,
            tensors: vec![None; len],
            is_tied,
        }
    }

    /// What the tensor of this place became in an earlier one.
    fn earlier(&self, place: usize) -> Option<Tensor> {
        let first = first_of(self.ties.as_deref(), place);
        if first == place {
            None
        } else {
            self.tensors[first].clone()
        }
    }

    /// Notes what the tensor of this place became.
    fn note(&mut self, place: usize, tensor: &Tensor) {
        if self.is_tied.get(place) == Some(&true) {
            self.tensors[place] = Some(tensor.clone());
        }
    }
}
