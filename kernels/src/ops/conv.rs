//! Convolutions, plain and transposed.

mod gradient;

use super::tensor;
use crate::arg::{Arg, array};
use crate::copy::{cast, contiguous};
use crate::cpu::conv::{
    Axis, Done, Geometry, Pieces, convolve, convolve_transposed, direct, direct_transposed,
    is_direct, pieces,
};
use crate::cpu::dense::{Plain, elements, elements_mut};
use crate::cpu::panels::{Epilogue, planes_then};
use crate::cpu::vector::Real;
use crate::cpu::weight::{self, Planes};
use crate::cpu::window::turned;
use crate::cpu::{depthwise, shifted};
use crate::op::gradient::{Adjoint, Gradients};
use crate::op::operator::{Inferred, Operator, attributes, facts, question};
use crate::text::Line;
use crate::{ArgMeta, Array, Class, OpBuilder};
use ferrotrace_runtime::{Category, DType, Element, Error, Faults, Result, Shape};
use smallvec::SmallVec;

/// A convolution over 1, 2 or 3 spatial dimensions: operands x `[n, c, ...]`, weight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ConvSpec {
    /// Step of the window (or spread of the input, transposed).
    pub stride: SmallVec<[usize; 3]>,
    /// Zeros added on both sides (or cropped, transposed).
    pub padding: SmallVec<[usize; 3]>,
    /// Spacing of the weight's taps.
    pub dilation: SmallVec<[usize; 3]>,
    /// Sizes added at the end of a transposed result; zeros otherwise.
    pub output_padding: SmallVec<[usize; 3]>,
    /// Channel groups.
    pub groups: usize,
    /// Whether the convolution is transposed (weight `[in, out / groups, ...]`).
    pub transposed: bool,
}

impl ConvSpec {
    /// Reads the attributes of the convolution of this name; `None` if none is called so.
    pub(super) fn named(name: &str, line: &Line<'_>) -> Result<Option<ConvSpec>> {
        let plain = ["conv1d", "conv2d", "conv3d"];
        let transposed = ["conv_transpose1d", "conv_transpose2d", "conv_transpose3d"];
        if !plain.contains(&name) && !transposed.contains(&name) {
            return Ok(None);
        }
        Ok(Some(ConvSpec {
            stride: line.value("stride")?,
            padding: line.value("padding")?,
            dilation: line.value("dilation")?,
            output_padding: line.value("output_padding")?,
            groups: line.value("groups")?,
            transposed: transposed.contains(&name),
        }))
    }
}

question! {
    /// The convolution that it is.
    as_conv: Conv(ConvSpec)
}

impl Operator for ConvSpec {
    fn name(&self) -> &'static str {
        name(self)
    }

    attributes!(
        stride = stride,
        padding = padding,
        dilation = dilation,
        output_padding = output_padding,
        groups = groups,
    );

    fn read(name: &str, line: &Line<'_>) -> Result<Option<ConvSpec>> {
        match line.has("bias") {
            // A composite of this name.
            true => Ok(None),
            false => ConvSpec::named(name, line),
        }
    }

    facts! {
        class: Class::Library,
        light: false,
        jumps: false,
        // A weight is [out, in / groups, ..]; transposed [in, out / groups, ..], and every input meets its row.
        work: |op, of| {
            let row = of.numel(1) / of.size(1, 0).max(1);
            2 * row * if op.transposed { of.numel(0) } else { of.result() }
        }
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        infer(self, args)
    }

    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients> {
        gradient::vjp(self, b, of)
    }

    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
        run(self, args, shape, dtype)
    }
}

/// The name, by spatial rank.
pub(super) fn name(spec: &ConvSpec) -> &'static str {
    match (spec.transposed, spec.stride.len()) {
        (false, 1) => "conv1d",
        (false, 2) => "conv2d",
        (false, _) => "conv3d",
        (true, 1) => "conv_transpose1d",
        (true, 2) => "conv_transpose2d",
        (true, _) => "conv_transpose3d",
    }
}

fn check_spec(spec: &ConvSpec) -> Result<usize> {
    let spatial = spec.stride.len();
    let lists = [&spec.padding, &spec.dilation, &spec.output_padding];
    let wrong = |list: &&&smallvec::SmallVec<[usize; 3]>| list.len() != spatial;
    if !(1..=3).contains(&spatial) || lists[..2].iter().any(|l| wrong(&l)) {
        return Err(Error::argument(format!(
            "stride, padding and dilation need one number for each of 1 to 3 spatial dimensions, \
             not {:?}, {:?} and {:?}",
            spec.stride, spec.padding, spec.dilation
        )));
    }
    if spec.transposed && lists[2..].iter().any(|l| wrong(&l)) {
        return Err(Error::argument(format!(
            "output padding {:?} for {spatial} spatial dimensions",
            spec.output_padding
        )));
    }
    if spec.stride.contains(&0) || spec.dilation.contains(&0) || spec.groups == 0 {
        return Err(Error::argument(
            "stride, dilation and groups must be at least 1",
        ));
    }
    Ok(spatial)
}

/// The geometry for operands of these shapes, and the shape of the result.
fn geometry(spec: &ConvSpec, x: &Shape, w: &Shape) -> Result<(Geometry, Shape)> {
    let spatial = check_spec(spec)?;
    let unbatched = x.rank() == spatial + 1;
    if (!unbatched && x.rank() != spatial + 2) || w.rank() != spatial + 2 {
        return Err(Error::shape(format!(
            "{} takes an input of rank {} (or {} without a batch) and a weight of rank {}, not {x} \
             and {w}",
            name(spec),
            spatial + 2,
            spatial + 1,
            spatial + 2
        )));
    }
    let lead = x.rank() - spatial;
    let (batch, channels) = (if unbatched { 1 } else { x[0] }, x[lead - 1]);
    let groups = spec.groups;
    let takes = if spec.transposed {
        w[0]
    } else {
        w[1].saturating_mul(groups)
    };
    if channels != takes {
        return Err(Error::shape(format!(
            "the input has {channels} channels, the weight {w} with {groups} groups takes {takes}"
        )));
    }
    if !w[0].is_multiple_of(groups) {
        return Err(Error::shape(format!(
            "{} channels do not form {groups} groups",
            w[0]
        )));
    }
    let cout = if spec.transposed { w[1] } else { w[0] / groups };
    let mut axes = [Axis::UNIT; 3];
    for i in 0..spatial {
        let (size, kernel) = (x[lead + i], w[2 + i]);
        axes[3 - spatial + i] = axis(spec, i, size, kernel)?;
    }
    let g = Geometry {
        batch,
        groups,
        cin: channels / groups,
        cout,
        axes,
    };
    let mut dims: Vec<usize> = if unbatched { vec![] } else { vec![batch] };
    dims.push(cout * groups);
    let size = |a: &Axis| if spec.transposed { a.input } else { a.output };
    dims.extend(axes[3 - spatial..].iter().map(size));
    Ok((g, Shape::from(dims)))
}

fn axis(spec: &ConvSpec, i: usize, size: usize, kernel: usize) -> Result<Axis> {
    let (stride, padding, dilation) = (spec.stride[i], spec.padding[i], spec.dilation[i]);
    if kernel == 0 {
        return Err(Error::shape("a kernel of size 0"));
    }
    let reach = (kernel - 1).saturating_mul(dilation).saturating_add(1);
    if !spec.transposed {
        let padded = padding.saturating_mul(2).saturating_add(size);
        if reach > padded {
            return Err(Error::shape(format!(
                "a kernel of {kernel} taps reaches over {reach}, the padded input has {padded}"
            )));
        }
        let output = (padded - reach) / stride + 1;
        return Ok(Axis {
            input: size,
            output,
            kernel,
            stride,
            padding,
            dilation,
        });
    }
    let extra = spec.output_padding[i];
    if extra > 0 && extra >= stride.max(dilation) {
        return Err(Error::argument(format!(
            "an output padding of {extra} is not less than stride {stride} or dilation {dilation}"
        )));
    }
    let full = size
        .checked_sub(1)
        .map(|n| n.saturating_mul(stride).saturating_add(reach + extra));
    let input = full
        .and_then(|n| n.checked_sub(padding.saturating_mul(2)))
        .filter(|&n| n > 0);
    let Some(input) = input else {
        return Err(Error::shape(format!(
            "an input of size {size} gives a transposed result of no size"
        )));
    };
    Ok(Axis {
        input,
        output: size,
        kernel,
        stride,
        padding,
        dilation,
    })
}

pub(super) fn infer(spec: &ConvSpec, args: &[ArgMeta<'_>]) -> Inferred {
    let ((x, x_dtype), (w, w_dtype)) = (tensor(args, 0)?, tensor(args, 1)?);
    let (_, shape) = geometry(spec, x, w)?;
    let dtype = x_dtype.promote(w_dtype);
    if dtype.category() == Category::Bool {
        return Err(Error::untaken(name(spec), dtype, DType::F32));
    }
    Ok((shape, dtype))
}

/// The convolution (cross-correlation, as the field has it): binary32 sums for the half types, rounded once; integers
/// wrap.
///
/// # Errors
/// Out of memory.
pub fn run(spec: &ConvSpec, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array> {
    let compute = dtype.compute();
    if let Some(out) = of_long_windows(spec, args, shape, compute)? {
        return cast(&out, dtype);
    }
    let (x, w, g) = operands(spec, args, compute)?;
    let mut out = Array::empty(x.buffer.device(), shape.clone(), compute)?;
    macro_rules! float {
        ($t:ty) => {{
            let (x, w, out) = (elements::<$t>(&x)?, elements(&w)?, elements_mut(&mut out)?);
            match spec.transposed {
                false => convolve(&g, x, w, out, None)?,
                true => convolve_transposed(&g, x, w, out, None)?,
            }
        }};
    }
    macro_rules! integer {
        ($t:ty) => {{
            let (x, w, out) = (elements::<$t>(&x)?, elements(&w)?, elements_mut(&mut out)?);
            match spec.transposed {
                false => direct(&g, x, w, out),
                true => direct_transposed(&g, x, w, out),
            }
        }};
    }
    match compute {
        DType::F32 if spec.transposed => match turned::plain(&g) {
            Some(g) => turned::convolve(
                &g,
                elements(&x)?,
                elements(&w)?,
                elements_mut(&mut out)?,
                None,
            ),
            None => float!(f32),
        },
        DType::F32 => {
            single(&g, elements(&x)?, &w, elements_mut(&mut out)?, None)?;
        }
        DType::F64 => float!(f64),
        DType::I64 => integer!(i64),
        DType::I32 => integer!(i32),
        DType::I16 => integer!(i16),
        DType::I8 => integer!(i8),
        _ => integer!(u8),
    }
    cast(&out, dtype)
}

/// A convolution in binary32 by a dense weight. `done` runs over what is complete, if [`single_pieces`] says in which pieces.
///
/// # Errors
/// `Internal`: an operand is smaller than the geometry says.
fn single(
    g: &Geometry,
    x: &[f32],
    weight: &Array,
    out: &mut [f32],
    done: Option<&Done<'_>>,
) -> Result<()> {
    let w = elements(weight)?;
    if shifted::suits(g) {
        let weight = shifted::Weight {
            all: w,
            panels: shifted::channels(g, weight),
            tiles: shifted::weights(g, weight),
        };
        shifted::convolve(g, x, weight, out, done);
        return Ok(());
    }
    if is_direct(g) && depthwise::convolve_by_rows(g, x, w, out, done) {
        return Ok(());
    }
    convolve(g, x, w, out, done)
}

/// The pieces in which [`single`] completes planes, if it does so piece by piece.
fn single_pieces(g: &Geometry) -> Option<Pieces> {
    match shifted::suits(g) {
        true => Some(shifted::pieces(g)),
        false => pieces::<f32>(g),
    }
}

/// A convolution of floats by windows of many taps with few results, of operands that need be dense in each plane alone;
/// `None` for others.
fn of_long_windows(
    spec: &ConvSpec,
    args: &[Arg],
    shape: &Shape,
    compute: DType,
) -> Result<Option<Array>> {
    let (x, w) = (array(args, 0)?, array(args, 1)?);
    let (g, _) = geometry(spec, x.shape(), w.shape())?;
    if !of_weight(spec, x, &g) || !matches!(compute, DType::F32 | DType::F64) {
        return Ok(None);
    }
    let (x, w) = (dense_planes(x, compute)?, dense_planes(w, compute)?);
    let mut out = Array::empty(x.buffer.device(), shape.clone(), compute)?;
    match compute {
        DType::F32 => weight::convolve(&g, planes(&x), planes(&w), elements_mut::<f32>(&mut out)?)?,
        _ => weight::convolve(&g, planes(&x), planes(&w), elements_mut::<f64>(&mut out)?)?,
    }
    Ok(Some(out))
}

/// Whether a convolution has windows of many taps with few results.
fn of_weight(spec: &ConvSpec, x: &Array, g: &Geometry) -> bool {
    !spec.transposed && x.shape().rank() == spec.stride.len() + 2 && weight::suits(g)
}

/// `x`, of a batch of images, as a type, each of its planes dense.
fn dense_planes(x: &Array, dtype: DType) -> Result<Array> {
    let x = cast(x, dtype)?;
    let (shape, strides) = (x.shape(), x.layout.strides());
    let mut plane = 1;
    let is_dense = (2..shape.rank()).rev().all(|d| {
        let dense = shape[d] == 1 || strides[d] == plane;
        plane *= shape[d] as isize;
        dense
    });
    match is_dense && strides[0] >= 0 && strides[1] >= 0 {
        true => Ok(x),
        false => contiguous(&x),
    }
}

/// The planes of an array of [`dense_planes`].
fn planes<T: Element>(x: &Array) -> Planes<'_, T> {
    let strides = x.layout.strides();
    Planes {
        data: x
            .buffer
            .as_slice::<T>()
            .get(x.layout.offset()..)
            .unwrap_or(&[]),
        image: strides[0] as usize,
        channel: strides[1] as usize,
    }
}

/// The operands, dense and of the type that is computed in.
fn operands(spec: &ConvSpec, args: &[Arg], compute: DType) -> Result<(Array, Array, Geometry)> {
    let x = contiguous(&cast(array(args, 0)?, compute)?)?;
    let w = contiguous(&cast(array(args, 1)?, compute)?)?;
    let (g, _) = geometry(spec, x.shape(), w.shape())?;
    Ok((x, w, g))
}

/// The convolution of type `dtype`, `F32` or `F64`, which the kernel of `epilogue` takes up piece by piece of its planes,
/// while they are in the cache (ir X3 to X6). Without faults: all is done.
///
/// # Errors
/// Out of memory; an internal error where the kernel is not made for the convolution.
pub fn run_then(
    spec: &ConvSpec,
    args: &[Arg],
    dtype: DType,
    epilogue: &Epilogue<'_>,
) -> Result<Faults> {
    let (x, w, g) = operands(spec, args, dtype)?;
    if dtype == DType::F32 && !spec.transposed && !of_weight(spec, &x, &g) {
        let x = elements(&x)?;
        let planes = [g.batch * g.groups * g.cout, g.outputs()];
        return planes_then(epilogue, planes, single_pieces(&g), |out, done| {
            single(&g, x, &w, out, done)
        });
    }
    if dtype == DType::F32
        && spec.transposed
        && let Some(g) = turned::plain(&g)
    {
        let (x, w) = (elements(&x)?, elements(&w)?);
        let planes = [g.batch * g.groups * g.cout, g.outputs()];
        return planes_then(epilogue, planes, Some(shifted::pieces(&g)), |out, done| {
            turned::convolve(&g, x, w, out, done);
            Ok(())
        });
    }
    match dtype {
        DType::F32 => float_then::<f32>(spec, &g, &x, &w, epilogue),
        DType::F64 => float_then::<f64>(spec, &g, &x, &w, epilogue),
        other => Err(Error::internal(format!(
            "a kernel behind a convolution of {other}"
        ))),
    }
}

/// Bytes of scratch memory that [`run_then`] takes for a convolution of operands of these shapes, if its result has no
/// memory of its own.
///
/// # Errors
/// The shapes are not those of a convolution.
pub fn scratch(spec: &ConvSpec, x: &Shape, w: &Shape, dtype: DType) -> Result<usize> {
    let (_, shape) = geometry(spec, x, w)?;
    Ok(shape.numel() * dtype.size())
}

fn float_then<T: Element + Real + Plain>(
    spec: &ConvSpec,
    g: &Geometry,
    x: &Array,
    w: &Array,
    epilogue: &Epilogue<'_>,
) -> Result<Faults> {
    let rows = g.batch * g.groups * g.cout;
    if of_weight(spec, x, g) {
        let (x, w) = (planes::<T>(x), planes(w));
        return planes_then(epilogue, [rows, g.outputs()], None, |out, _| {
            weight::convolve(g, x, w, out)
        });
    }
    let (x, w) = (elements::<T>(x)?, elements::<T>(w)?);
    if spec.transposed {
        let whole = Pieces {
            piece: g.inputs(),
            count: 1,
        };
        return planes_then(epilogue, [rows, g.inputs()], Some(whole), |out, done| {
            convolve_transposed(g, x, w, out, done)
        });
    }
    // All inputs of one tap come at once: cut into panels, 256 channels of 64 take 2.1 ms instead of 1.7.
    planes_then(
        epilogue,
        [rows, g.outputs()],
        pieces::<T>(g),
        |out, done| convolve(g, x, w, out, done),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::fixture::{flat, index_of, integers, metas, of, read, strided};
    use smallvec::SmallVec;

    fn spec(spatial: usize, stride: usize, padding: usize, groups: usize) -> ConvSpec {
        ConvSpec {
            stride: SmallVec::from_elem(stride, spatial),
            padding: SmallVec::from_elem(padding, spatial),
            dilation: SmallVec::from_elem(1, spatial),
            output_padding: SmallVec::from_elem(0, spatial),
            groups,
            transposed: false,
        }
    }

    fn apply(spec: &ConvSpec, x: &Array, w: &Array) -> Result<Array> {
        let args = [Arg::Array(x.clone()), Arg::Array(w.clone())];
        let (shape, dtype) = infer(spec, &metas(&args))?;
        let out = run(spec, &args, &shape, dtype)?;
        assert_eq!((out.shape(), out.dtype), (&shape, dtype));
        Ok(out)
    }

    /// Every pair of an input element and a weight element adds its product where it belongs.
    fn reference(
        spec: &ConvSpec,
        (xs, x): (&[usize], &[f64]),
        (ws, w): (&[usize], &[f64]),
        out: &[usize],
    ) -> Vec<f64> {
        let mut sum = vec![0.0; out.iter().product()];
        let (spatial, per_group) = (spec.stride.len(), xs[1] / spec.groups);
        let cout = out[1] / spec.groups;
        let taps: usize = ws[2..].iter().product();
        for (i, x) in x.iter().enumerate() {
            let xi = index_of(i, xs);
            let group = xi[1] / per_group;
            for (o, t) in (0..cout * taps).map(|j| (j / taps, j % taps)) {
                let channel = group * cout + o;
                let row = match spec.transposed {
                    true => xi[1] * ws[1] + o,
                    false => channel * ws[1] + xi[1] % per_group,
                };
                let tap = index_of(t, &ws[2..]);
                let place = |d: usize| {
                    let t = (tap[d] * spec.dilation[d]) as isize;
                    let (s, pad) = (spec.stride[d] as isize, spec.padding[d] as isize);
                    let p = xi[2 + d] as isize;
                    let to = match spec.transposed {
                        true => p * s + t - pad,
                        false if (p + pad - t) % s != 0 => -1,
                        false => (p + pad - t) / s,
                    };
                    let inside = to >= 0 && (to as usize) < out[2 + d];
                    (inside && (spec.transposed || p + pad >= t)).then_some(to as usize)
                };
                let places: Option<Vec<usize>> = (0..spatial).map(place).collect();
                if let Some(places) = places {
                    let at: Vec<usize> = [xi[0], channel].into_iter().chain(places).collect();
                    sum[flat(&at, out)] += x * w[row * taps + t];
                }
            }
        }
        sum
    }

    fn check(spec: &ConvSpec, dtype: DType, xs: &[usize], ws: &[usize]) {
        let low = if dtype == DType::U8 { 0 } else { -1 };
        let x = integers(xs.iter().product(), 1, low, 1);
        let w = integers(ws.iter().product(), 2, low, 1);
        for (a, b) in [
            (of(dtype, xs, &x), of(dtype, ws, &w)),
            (strided(dtype, xs, &x), strided(dtype, ws, &w)),
        ] {
            let out = apply(spec, &a, &b).expect("a convolution");
            let want = reference(spec, (xs, &x), (ws, &w), out.shape());
            assert_eq!(read(&out), want, "{spec:?} {dtype} {xs:?} {ws:?}");
        }
    }

    #[test]
    fn every_dtype() {
        for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool) {
            check(&spec(2, 1, 1, 1), dtype, &[2, 3, 5, 6], &[4, 3, 3, 3]);
            let transposed = ConvSpec {
                transposed: true,
                ..spec(2, 2, 1, 1)
            };
            check(&transposed, dtype, &[2, 3, 3, 4], &[3, 2, 3, 3]);
        }
    }

    #[test]
    fn every_attribute() {
        for stride in [1, 2, 3] {
            for padding in [0, 1, 2] {
                for dilation in [1, 2] {
                    for groups in [1, 2] {
                        let mut s = spec(2, stride, padding, groups);
                        s.dilation = SmallVec::from_elem(dilation, 2);
                        s.padding[1] = 1;
                        check(&s, DType::F32, &[2, 4, 5, 7], &[6, 4 / groups, 2, 3]);
                        s.transposed = true;
                        check(&s, DType::F32, &[2, 4, 4, 5], &[4, 3, 2, 3]);
                        check(&s, DType::F32, &[2, 4, 6, 9], &[4, 9, 2, 3]);
                        s.output_padding[1] = stride.max(dilation) - 1;
                        check(&s, DType::F32, &[2, 4, 4, 5], &[4, 3, 2, 3]);
                    }
                }
            }
        }
    }

    #[test]
    fn every_path() {
        // Depthwise, pointwise, one and three dimensions, tiles over several images and inside one.
        check(&spec(2, 1, 1, 4), DType::F32, &[2, 4, 5, 20], &[4, 1, 3, 3]);
        check(&spec(2, 2, 1, 4), DType::F64, &[2, 4, 5, 20], &[8, 1, 3, 3]);
        check(&spec(2, 1, 0, 2), DType::F32, &[2, 4, 3, 5], &[6, 2, 1, 1]);
        check(&spec(1, 2, 3, 1), DType::F32, &[2, 3, 9], &[4, 3, 5]);
        check(
            &spec(3, 1, 1, 1),
            DType::F32,
            &[2, 2, 3, 4, 3],
            &[3, 2, 2, 2, 3],
        );
        let transposed = ConvSpec {
            transposed: true,
            ..spec(3, 2, 1, 1)
        };
        check(&transposed, DType::F32, &[1, 2, 2, 3, 2], &[2, 3, 2, 3, 3]);
        check(&spec(2, 1, 1, 1), DType::F32, &[30, 2, 3, 3], &[3, 2, 3, 3]);
        check(
            &spec(2, 1, 1, 1),
            DType::F32,
            &[1, 3, 11, 12],
            &[3, 3, 3, 3],
        );
        check(&spec(1, 1, 0, 1), DType::F64, &[1, 400, 300], &[2, 400, 1]);
        check(&spec(1, 1, 1, 1), DType::F64, &[1, 200, 500], &[3, 200, 3]);
    }

    #[test]
    fn unbatched_and_empty() {
        let w = of(DType::F32, &[2, 3, 2], &[1.0; 12]);
        let out = apply(&spec(1, 1, 0, 1), &of(DType::F32, &[3, 4], &[1.0; 12]), &w).expect("conv");
        assert_eq!(
            (out.shape(), read(&out)),
            (&Shape::from([2, 3]), vec![6.0; 6])
        );
        let none = of(DType::F32, &[0, 3, 4], &[]);
        assert_eq!(
            apply(&spec(1, 1, 0, 1), &none, &w).expect("conv").shape(),
            &[0, 2, 3].into()
        );
        let (none, w) = (
            of(DType::F32, &[1, 0, 4], &[]),
            of(DType::F32, &[2, 0, 2], &[]),
        );
        assert_eq!(
            read(&apply(&spec(1, 1, 0, 1), &none, &w).expect("conv")),
            [0.0; 6]
        );
    }

    #[test]
    fn errors_name_what_differs() {
        let of = |dims: &[usize]| of(DType::F32, dims, &vec![0.0; dims.iter().product()]);
        let error =
            apply(&spec(2, 1, 0, 2), &of(&[1, 6, 4, 4]), &of(&[4, 2, 3, 3])).expect_err("channels");
        let text = error.to_string();
        assert!(
            text.contains("6 channels") && text.contains("takes 4"),
            "{text}"
        );
        let refused = |s: &ConvSpec, x: &[usize], w: &[usize]| apply(s, &of(x), &of(w)).is_err();
        assert!(refused(&spec(2, 1, 0, 1), &[6, 4], &[4, 6, 3, 3]));
        assert!(refused(&spec(2, 1, 0, 1), &[1, 1, 2, 4], &[1, 1, 3, 3]));
        assert!(refused(&spec(1, 0, 0, 1), &[1, 1, 4], &[1, 1, 3]));
        assert!(refused(&spec(1, 1, 0, 2), &[1, 2, 4], &[3, 1, 3]));
        assert!(refused(
            &ConvSpec {
                transposed: true,
                ..spec(1, 1, 9, 1)
            },
            &[1, 1, 4],
            &[1, 1, 3]
        ));
        let mut extra = ConvSpec {
            transposed: true,
            ..spec(1, 2, 0, 1)
        };
        extra.output_padding[0] = 2;
        assert!(refused(&extra, &[1, 1, 4], &[1, 1, 3]));
        assert!(!refused(&spec(2, 1, 1, 1), &[1, 1, 2, 4], &[1, 1, 3, 3]));
    }
}
