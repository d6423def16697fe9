//! Where data enters and leaves the library.

use crate::flush::{flush_tensors, stored_array};
use crate::history::{self, Of, Rule};
use crate::{Input, Mode, Tensor, mode, trace};
use ferrotrace_kernels::copy::contiguous;
use ferrotrace_kernels::op::Cast;
use ferrotrace_kernels::{Array, Op};
use ferrotrace_runtime::{
    Buffer, Counter, DType, Device, Element, Error, FloatEnvironment, Layout, Result, Shape, count,
    host,
};
use half::{bf16, f16};
use ndarray::ArrayD;
use std::panic::Location;

impl Tensor {
    /// A tensor of these elements in row-major order. The vector's memory becomes the tensor's where it can.
    ///
    /// The tensor carries an error if the shape has another number of elements.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_vec(vec![1.0f32, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.dims(), [2, 2]);
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(data: Vec<T>, shape: impl Into<Shape>, device: &Device) -> Tensor {
        let shape = shape.into();
        let len = data.len();
        match matching(len, &shape).and_then(|()| Buffer::from_vec(device, data)) {
            Ok(buffer) => Tensor::of_buffer::<T>(buffer, shape),
            Err(error) => Tensor::failed("from_vec", error, &[]),
        }
    }

    /// A tensor with a copy of a slice's elements, in row-major order.
    #[track_caller]
    pub fn from_slice<T: Element>(data: &[T], shape: impl Into<Shape>, device: &Device) -> Tensor {
        let shape = shape.into();
        match matching(data.len(), &shape).and_then(|()| Buffer::from_slice(device, data)) {
            Ok(buffer) => Tensor::of_buffer::<T>(buffer, shape),
            Err(error) => Tensor::failed("from_slice", error, &[]),
        }
    }

    #[track_caller]
    fn of_buffer<T: Element>(buffer: Buffer, shape: Shape) -> Tensor {
        let layout = Layout::contiguous(shape);
        Tensor::from_array(Array {
            buffer,
            layout,
            dtype: T::DTYPE,
        })
    }

    /// A tensor of an `ndarray` array's shape and elements.
    #[track_caller]
    pub fn from_ndarray<T: Element>(array: ArrayD<T>, device: &Device) -> Tensor {
        let shape = Shape::new(array.shape());
        let data = if array.is_standard_layout() {
            let (data, first) = array.into_raw_vec_and_offset();
            match first {
                None | Some(0) if data.len() == shape.numel() => data,
                first => {
                    let first = first.unwrap_or(0);
                    data[first..first + shape.numel()].to_vec()
                }
            }
        } else {
            array.iter().copied().collect()
        };
        Tensor::from_vec(data, shape, device)
    }

    /// Computes and stores the tensor, if it is not yet.
    ///
    /// # Errors
    /// What the tensor carries, or what computing it met.
    pub fn eval(&self) -> Result<()> {
        flush_tensors(std::iter::once(self));
        self.check()
    }

    /// The elements in row-major order.
    ///
    /// # Errors
    /// The tensor has another dtype than `T` stands for, or carries an error, or computing it fails.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.told("to_vec", self.all_elements())
    }

    fn all_elements<T: Element>(&self) -> Result<Vec<T>> {
        self.check()?;
        let dtype = self.dtype();
        if dtype != T::DTYPE {
            let want = T::DTYPE;
            return Err(Error::dtype(format!(
                "a tensor of {dtype} was read as {want}: to_dtype(DType::{want:?}) first"
            )));
        }
        elements(&on_host(stored_array(self.node())?)?)
    }

    /// The element of a tensor that has one.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec), or the tensor has another number of elements.
    #[track_caller]
    pub fn to_scalar<T: Element>(&self) -> Result<T> {
        self.told("to_scalar", self.only_element())
    }

    fn only_element<T: Element>(&self) -> Result<T> {
        self.check()?;
        if self.numel() != 1 {
            let shape = self.sizes();
            return Err(Error::shape(format!(
                "a tensor of shape {shape} is not one number"
            )));
        }
        let all = self.all_elements::<T>()?;
        all.first()
            .copied()
            .ok_or_else(|| Error::internal("an element was lost"))
    }

    /// The element of a tensor that has one, converted to `T` as [`to_dtype`](Tensor::to_dtype) does.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let count = Tensor::ones(3, DType::Bool, &Device::cpu()).sum(..);
    /// assert_eq!(count.item::<f64>()?, 3.0);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The tensor has another number of elements, carries an error, or computing it fails.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        self.check()?;
        self.told("item", self.converted_element())
    }

    /// The only element, converted on the host: reading it as another type computes nothing else.
    fn converted_element<T: Element>(&self) -> Result<T> {
        if self.dtype() == T::DTYPE || self.numel() != 1 {
            return self.only_element();
        }
        let here = Tensor::from_array(on_host(stored_array(self.node())?)?);
        mode::with_mode(Mode::Eager, || here.to_dtype(T::DTYPE)).only_element()
    }

    /// The distance of neighbours in each dimension, in elements of memory. A tensor that is not computed yet is computed
    /// first: how a result lies in memory is the compiler's choice.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3], &Device::cpu());
    /// assert_eq!(x.strides()?, [3, 1]);
    /// assert_eq!(x.t().strides()?, [1, 3]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// What the tensor carries, or what computing it met.
    pub fn strides(&self) -> Result<Vec<isize>> {
        self.check()?;
        Ok(stored_array(self.node())?.layout.strides().to_vec())
    }

    /// Whether the elements lie in memory in row-major order without gaps; false of a tensor that carries an error. As
    /// [`strides`](Tensor::strides), it computes a tensor that is not computed yet.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3], &Device::cpu());
    /// assert!(x.is_contiguous() && !x.t().is_contiguous());
    /// ```
    pub fn is_contiguous(&self) -> bool {
        stored_array(self.node()).is_ok_and(|array| array.layout.is_contiguous())
    }

    /// The tensor as an `ndarray` array.
    ///
    /// # Errors
    /// As [`to_vec`](Self::to_vec).
    #[track_caller]
    pub fn to_ndarray<T: Element>(&self) -> Result<ArrayD<T>> {
        let data = self.told("to_ndarray", self.all_elements::<T>())?;
        ArrayD::from_shape_vec(self.dims(), data).map_err(|error| Error::shape(error.to_string()))
    }

    /// Whether both have one shape and all elements are equal, after promotion. NaN equals nothing.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert!(x.equal(&x.clone())? && !x.equal(&(&x + 1.0))? && !x.equal(&x.unsqueeze(0))?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// One of the tensors cannot be computed, or they lie on different devices.
    #[track_caller]
    pub fn equal(&self, u: &Tensor) -> Result<bool> {
        self.check()?;
        u.check()?;
        match self.shape() == u.shape() {
            true => self.told("equal", self.eq(u).all(..).only_element()),
            false => Ok(false),
        }
    }

    /// Whether every pair of elements (after broadcasting) is equal or differs by at most `atol + rtol·|u|`. NaN is
    /// close to nothing.
    ///
    /// # Errors
    /// The shapes do not broadcast, or one of the tensors cannot be computed.
    #[track_caller]
    pub fn allclose(&self, u: &Tensor, rtol: f64, atol: f64) -> Result<bool> {
        self.told("allclose", self.all_near(u, rtol, atol, false))
    }

    /// Whether all elements are close as [`allclose`](Tensor::allclose) says, with NaN close to NaN (PyTorch's
    /// `equal_nan=True`).
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, f64::NAN], 2, &Device::cpu());
    /// assert!(x.allclose_equal_nan(&x, 0.0, 0.0)? && !x.allclose(&x, 0.0, 0.0)?);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`allclose`](Tensor::allclose).
    #[track_caller]
    pub fn allclose_equal_nan(&self, u: &Tensor, rtol: f64, atol: f64) -> Result<bool> {
        self.told("allclose_equal_nan", self.all_near(u, rtol, atol, true))
    }

    fn all_near(&self, u: &Tensor, rtol: f64, atol: f64, equal_nan: bool) -> Result<bool> {
        crate::eval([self, u])?;
        let _environment = FloatEnvironment::standard();
        let a = on_host(stored_array(self.node())?)?;
        let b = on_host(stored_array(u.node())?)?;
        let (from, to) = (a.shape(), b.shape());
        let error = || Error::shape(format!("shapes {from} and {to} do not broadcast"));
        let shape = from.broadcast(to).ok_or_else(error)?;
        let spread = |array: &Array| {
            let layout = array.layout.broadcast_to(&shape).ok_or_else(error)?;
            numbers(&array.with_layout(layout))
        };
        let (a, b) = (spread(&a)?, spread(&b)?);
        let close = |(a, b): (&f64, &f64)| {
            // Infinities are close to themselves alone.
            a == b
                || (b.is_finite() && (a - b).abs() <= atol + rtol * b.abs())
                || (equal_nan && a.is_nan() && b.is_nan())
        };
        Ok(a.iter().zip(&b).all(close))
    }

    /// The same values on a device: the tensor itself if it lies there. Copying computes the tensor first.
    #[track_caller]
    pub fn to_device(&self, device: &Device) -> Tensor {
        if *device == self.device() || self.node().error().is_some() {
            return self.clone();
        }
        match stored_array(self.node()).and_then(|array| array.to_device(device)) {
            Ok(array) => self.moved(Tensor::from_array(array)),
            Err(error) => Tensor::failed("to_device", error, &[self]),
        }
    }

    /// This tensor's copy on another device, with its gradient.
    #[track_caller]
    fn moved(&self, copy: Tensor) -> Tensor {
        if self.history().is_none() || !mode::keeps_history() {
            return copy;
        }
        let (handle, location) = (&copy.value().handle, Location::caller());
        let of = [Of::Value(self.value())];
        let history =
            history::of_rule((Rule::Same, false), handle, &of, location, trace::current());
        copy.with_history(history)
    }

    /// This tensor's values in dense row-major order. A tensor that is stored in that order is returned as it is. A tensor that
    /// is stored in another order is copied, and so is one that is not computed yet, since its elements may be computed in
    /// another order. The copy costs nothing unless it is a result of the computation, or a result is a view of it.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1, 2, 3, 4, 5, 6], [2, 3], &Device::cpu());
    /// let dense = jit(|x: &Tensor| x.t().contiguous());
    /// assert_eq!(dense.call(&x).strides()?, [2, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    #[track_caller]
    pub fn contiguous(&self) -> Tensor {
        let stored = self.node().array();
        let dense = stored.is_some_and(|array| array.layout.is_contiguous());
        let failed = self.node().error().is_some();
        if dense || failed {
            self.clone()
        } else {
            self.copied()
        }
    }

    /// The same values, computed anew.
    #[track_caller]
    fn copied(&self) -> Tensor {
        Tensor::record(Op::Cast(Cast(self.dtype())), &[Input::Tensor(self)])
    }
}

/// Checks that so many elements make up a shape.
fn matching(len: usize, shape: &Shape) -> Result<()> {
    if len == shape.numel() {
        return Ok(());
    }
    Err(Error::shape(format!(
        "{len} elements do not make up the shape {shape}"
    )))
}

/// The array in host memory.
pub(crate) fn on_host(array: Array) -> Result<Array> {
    if array.buffer.device().is_cpu() {
        return Ok(array);
    }
    count(Counter::HostSyncs, 1);
    array.to_device(&Device::cpu())
}

/// Elements that are copied at a time out of an array that does not lie row by row.
const PIECE: usize = 1 << 20;

/// The elements of an array in host memory, in row-major order.
pub(crate) fn elements<T: Element>(array: &Array) -> Result<Vec<T>> {
    let count = array.numel();
    let mut all = host::vector(count)?;
    if count == 0 {
        return Ok(all);
    }
    let mut append = |array: &Array| {
        let first = array.layout.offset();
        let dense = array.buffer.as_slice::<T>();
        let dense = dense.get(first..first + array.numel());
        all.extend_from_slice(dense.ok_or_else(|| Error::internal("an array exceeds its buffer"))?);
        Ok(())
    };
    if array.layout.is_contiguous() {
        append(array)?;
        return Ok(all);
    }
    let layout = &array.layout;
    let (shape, strides) = (layout.shape(), layout.strides());
    let step = (PIECE / (count / shape[0])).max(1);
    for start in (0..shape[0]).step_by(step) {
        let mut part = shape.clone();
        part.dims_mut()[0] = step.min(shape[0] - start);
        let offset = layout.offset() as isize + start as isize * strides[0];
        let part = Layout::new(part, strides.into(), offset as usize);
        append(&contiguous(&array.with_layout(part))?)?;
    }
    Ok(all)
}

/// The elements of an array in host memory as binary64.
fn numbers(array: &Array) -> Result<Vec<f64>> {
    fn of<T: Element>(array: &Array, f: impl Fn(T) -> f64) -> Result<Vec<f64>> {
        Ok(elements::<T>(array)?.into_iter().map(f).collect())
    }
    match array.dtype {
        DType::Bool => of(array, |x: bool| x as u8 as f64),
        DType::U8 => of(array, |x: u8| x as f64),
        DType::I8 => of(array, |x: i8| x as f64),
        DType::I16 => of(array, |x: i16| x as f64),
        DType::I32 => of(array, |x: i32| x as f64),
        DType::I64 => of(array, |x: i64| x as f64),
        DType::F16 => of(array, f16::to_f64),
        DType::BF16 => of(array, bf16::to_f64),
        DType::F32 => of(array, |x: f32| x as f64),
        DType::F64 => of(array, |x: f64| x),
    }
}
