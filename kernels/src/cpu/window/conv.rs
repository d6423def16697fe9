//! Convolutions over up to three spatial dimensions.
//!
//! Columns of input windows are gathered for a tile of output positions small enough to stay in the second-level cache,
//! and multiplied by the weight. Transposed, the product comes first and its columns are added up, by output channel.

use crate::cpu::dense::{Plain, Shared, ranges_on, rows, scratch};
use crate::cpu::depthwise;
use crate::cpu::isa::{Loop, dispatch};
use crate::cpu::long::{CHAIN, join};
use crate::cpu::matmul::{self, multiply, multiply_shared};
use crate::cpu::number::Wide;
use crate::cpu::vector::Real;
use crate::cpu::view::{Sizes, View};
use ferrotrace_runtime::Result;
use std::ops::Range;
use std::sync::Mutex;

/// Bytes of a tile of columns.
const TILE: usize = 448 << 10;
/// Output positions of a tile at least.
const POSITIONS: usize = 128;
/// Terms of a result from which they are added in chains, and these in totals.
const LONG: usize = 256;

/// One spatial dimension of a window operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Input size.
    pub input: usize,
    /// Output size.
    pub output: usize,
    /// Window taps.
    pub kernel: usize,
    /// Step of the window.
    pub stride: usize,
    /// Zeros before the input.
    pub padding: usize,
    /// Spacing of taps.
    pub dilation: usize,
}

impl Axis {
    /// The axis of a dimension that is not there.
    pub const UNIT: Axis = Axis {
        input: 1,
        output: 1,
        kernel: 1,
        stride: 1,
        padding: 0,
        dilation: 1,
    };

    /// The input position that tap `t` of output position `o` reads.
    #[inline(always)]
    pub fn source(&self, o: usize, t: usize) -> Option<usize> {
        let at = (o * self.stride + t * self.dilation).wrapping_sub(self.padding);
        (at < self.input).then_some(at)
    }

    /// The output positions, within `of`, whose tap `t` is inside the input.
    #[inline]
    pub fn inside(&self, t: usize, of: Range<usize>) -> Range<usize> {
        let shift = t * self.dilation;
        let first = self.padding.saturating_sub(shift).div_ceil(self.stride);
        let end = match (self.input + self.padding).checked_sub(shift + 1) {
            Some(last) => last / self.stride + 1,
            None => 0,
        };
        let start = first.clamp(of.start, of.end);
        start..end.clamp(start, of.end)
    }
}

/// What runs over each part of a result once it is complete, on the thread that computed it: rows (the planes of images
/// and channels), which piece of their columns, and the thread.
pub type Done<'a> = dyn Fn(Range<usize>, usize, usize) + Sync + 'a;

/// The pieces in which the columns of a result's planes are completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Columns of a piece; the last has what is left.
    pub piece: usize,
    /// The number of pieces.
    pub count: usize,
}

/// A convolution. For a transposed one, the axes are those of the convolution it is the adjoint of: `input` is the
/// size of the transposed result.
#[derive(Clone, Copy, Debug)]
pub struct Geometry {
    /// Images.
    pub batch: usize,
    /// Channel groups.
    pub groups: usize,
    /// Channels of `x` in a group.
    pub cin: usize,
    /// Channels of the result in a group.
    pub cout: usize,
    /// Spatial dimensions, outermost first; missing ones in front are [`Axis::UNIT`].
    pub axes: [Axis; 3],
}

impl Geometry {
    /// Elements of an input plane.
    pub fn inputs(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    /// Elements of an output plane.
    pub fn outputs(&self) -> usize {
        self.axes.iter().map(|a| a.output).product()
    }

    pub(in crate::cpu) fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.kernel).product()
    }

    fn tap(&self, t: usize) -> [usize; 3] {
        let [_, b, c] = self.axes;
        [
            t / (b.kernel * c.kernel),
            t / c.kernel % b.kernel,
            t % c.kernel,
        ]
    }

    /// Positions that meet, at most, in one element of a transposed convolution's result.
    fn meeting(&self) -> usize {
        self.axes.iter().map(|a| a.kernel.min(a.output)).product()
    }

    fn is_pointwise(&self) -> bool {
        self.axes
            .iter()
            .all(|a| a.kernel == 1 && a.stride == 1 && a.padding == 0)
    }
}

/// The first error of tasks that run in parallel.
struct Failure(Mutex<Result<()>>);

impl Failure {
    fn new() -> Failure {
        Failure(Mutex::new(Ok(())))
    }

    fn keep(&self, result: Result<()>) {
        if result.is_err()
            && let Ok(mut kept) = self.0.lock()
        {
            *kept = result;
        }
    }

    fn take(self) -> Result<()> {
        self.0.into_inner().unwrap_or(Ok(()))
    }
}

/// Whether [`convolve`] computes it plane by plane.
pub(crate) fn is_direct(g: &Geometry) -> bool {
    g.cin == 1 && g.cout <= 2
}

/// A convolution of one tap as products of the weight and images: their sizes, and where operands start.
fn products(g: &Geometry) -> Option<(Sizes, Vec<(usize, usize)>)> {
    if is_direct(g) || !g.is_pointwise() {
        return None;
    }
    let (n, k) = (g.outputs(), g.cin);
    let start = |i: usize| (i % g.groups * g.cout * k, i * k * n);
    let starts = (0..g.batch * g.groups).map(start).collect();
    Some((Sizes { m: g.cout, n, k }, starts))
}

/// The pieces in which [`convolve`] completes planes, if it does so piece by piece.
pub fn pieces<T>(g: &Geometry) -> Option<Pieces> {
    let positions = g.outputs();
    if is_direct(g) {
        return Some(Pieces {
            piece: positions,
            count: 1,
        });
    }
    if g.is_pointwise() || positions < POSITIONS {
        return None;
    }
    let piece = tile_width(g.cin * g.taps() * size_of::<T>());
    Some(Pieces {
        piece,
        count: positions.div_ceil(piece),
    })
}

/// A floating-point convolution. `done` runs over what is complete, if [`pieces`] says in which pieces.
///
/// # Errors
/// `Internal`: an operand is smaller than the geometry says.
pub fn convolve<T: Real + Plain>(
    g: &Geometry,
    x: &[T],
    w: &[T],
    out: &mut [T],
    done: Option<&Done<'_>>,
) -> Result<()> {
    let (taps, positions) = (g.taps(), g.outputs());
    if out.is_empty() {
        return Ok(());
    }
    if is_direct(g) {
        match done {
            _ if depthwise::suits(g) => depthwise::convolve(g, x, w, out, done),
            None => direct(g, x, w, out),
            Some(done) => direct_planes(g, x, w, out, done),
        }
        return Ok(());
    }
    let k = g.cin * taps;
    if let Some((s, starts)) = products(g) {
        let (w, x) = (View::dense(w, s.k), View::dense(x, s.n));
        return matmul::products(s, w, x, &starts, out);
    }
    let width = tile_width(k * size_of::<T>());
    let columns = g.batch * positions;
    // Tiles end with an image, unless images are smaller than tiles.
    let (per_image, tiles) = if positions >= POSITIONS {
        let per_image = positions.div_ceil(width);
        (per_image, g.batch * per_image)
    } else {
        (0, columns.div_ceil(width))
    };
    let tile = |i: usize| {
        if per_image == 0 {
            return i * width..((i + 1) * width).min(columns);
        }
        let (image, i) = (i / per_image * positions, i % per_image);
        image + i * width..image + ((i + 1) * width).min(positions)
    };
    let failure = Failure::new();
    let out = Shared::new(out);
    ranges_on(g.groups * tiles, g.cout * k * width / 8, |tasks, thread| {
        for task in tasks {
            let (group, i) = (task / tiles, task % tiles);
            failure.keep(convolve_tile(g, x, w, &out, group, tile(i)));
            if let Some(done) = done.filter(|_| per_image > 0) {
                let first = (i / per_image * g.groups + group) * g.cout;
                done(first..first + g.cout, i % per_image, thread);
            }
        }
    });
    failure.take()
}

/// The convolution by its definition, a plane at a time.
fn direct_planes<T: Wide>(g: &Geometry, x: &[T], w: &[T], out: &mut [T], done: &Done<'_>) {
    let plane = g.outputs();
    let lines = plane / g.axes[2].output;
    let out = Shared::new(out);
    let cost = plane * g.cin * g.taps() / 4;
    ranges_on(g.batch * g.groups * g.cout, cost, |planes, thread| {
        for i in planes {
            dispatch(Direct {
                g,
                x,
                w,
                first: i * lines,
                // SAFETY: planes are disjoint.
                out: unsafe { out.part(i * plane..(i + 1) * plane) },
            });
            done(i..i + 1, 0, thread);
        }
    });
}

fn tile_width(column_bytes: usize) -> usize {
    // Whole widths of the library's widest kernel.
    (TILE / column_bytes.max(1)).clamp(POSITIONS, 8 * POSITIONS) / 64 * 64
}

fn convolve_tile<T: Real + Plain>(
    g: &Geometry,
    x: &[T],
    w: &[T],
    out: &Shared<'_, T>,
    group: usize,
    tile: Range<usize>,
) -> Result<()> {
    let (k, positions, width) = (g.cin * g.taps(), g.outputs(), tile.len());
    let first = tile.start / positions;
    let one = (tile.end - 1) / positions == first;
    let size = if one { 0 } else { g.cout * width };
    scratch(k * width + size, |memory| {
        let (columns, product) = memory.split_at_mut(k * width);
        let mut at = tile.start;
        while at < tile.end {
            let image = at / positions;
            let end = tile.end.min((image + 1) * positions);
            let from = (image * g.groups + group) * g.cin * g.inputs();
            let planes = (&x[from..from + g.cin * g.inputs()], g.inputs());
            let part = at - image * positions..end - image * positions;
            gather_columns(g, planes, columns, width, at - tile.start, part);
            at = end;
        }
        let s = Sizes {
            m: g.cout,
            n: width,
            k,
        };
        let weight = View::dense(&w[group * g.cout * k..(group + 1) * g.cout * k], k);
        let columns = View::dense(columns, width);
        let plane = |image: usize, c: usize| ((image * g.groups + group) * g.cout + c) * positions;
        if one {
            let from = plane(first, 0) + tile.start - first * positions;
            // SAFETY: tiles have disjoint columns of the result.
            return unsafe { multiply_shared(s, weight, columns, out, from, positions) };
        }
        multiply(s, weight, columns, product, width, false)?;
        for (c, row) in product.chunks_exact(width).enumerate() {
            let mut at = tile.start;
            while at < tile.end {
                let image = at / positions;
                let end = tile.end.min((image + 1) * positions);
                let to = plane(image, c) + at - image * positions;
                // SAFETY: tiles are disjoint.
                let out = unsafe { out.part(to..to + end - at) };
                out.copy_from_slice(&row[at - tile.start..end - tile.start]);
                at = end;
            }
        }
        Ok(())
    })
}

/// A stretch of a row of columns that comes from one input row: zeros, elements, zeros.
struct Stretch {
    /// Where the run starts in the row of columns.
    to: usize,
    /// Zeros before the elements, elements, and zeros after.
    parts: [usize; 3],
    /// Where the elements start in an input plane.
    from: usize,
}

/// The stretches that tap `t` reads for output positions `part`, the first of which goes to column `to`.
fn stretches(g: &Geometry, t: usize, mut to: usize, part: Range<usize>) -> Vec<Stretch> {
    let [depth, height, row] = g.axes;
    let [td, th, tw] = g.tap(t);
    let mut found = Vec::new();
    let mut at = part.start;
    while at < part.end {
        let (line, first) = (at / row.output, at % row.output);
        let end = row.output.min(first + part.end - at);
        let source = depth
            .source(line / height.output, td)
            .zip(height.source(line % height.output, th));
        let inside = row.inside(tw, first..end);
        let stretch = match source.zip(row.source(inside.start, tw)) {
            Some(((d, h), w)) if !inside.is_empty() => Stretch {
                to,
                parts: [inside.start - first, inside.len(), end - inside.end],
                from: (d * height.input + h) * row.input + w,
            },
            _ => Stretch {
                to,
                parts: [end - first, 0, 0],
                from: 0,
            },
        };
        found.push(stretch);
        at += end - first;
        to += end - first;
    }
    found
}

/// Writes the windows of output positions `part` of one image to columns `to..` of a `k · width` matrix. Planes of channels
/// are given with their distance.
pub(super) fn gather_columns<T: Wide>(
    g: &Geometry,
    (planes, apart): (&[T], usize),
    columns: &mut [T],
    width: usize,
    to: usize,
    part: Range<usize>,
) {
    let taps = g.taps();
    let step = g.axes[2].stride;
    let by_tap: Vec<Vec<Stretch>> = (0..taps)
        .map(|t| stretches(g, t, to, part.clone()))
        .collect();
    dispatch(Gather {
        planes,
        apart,
        columns,
        width,
        size: g.inputs(),
        by_tap: &by_tap,
        step,
    });
}

struct Gather<'a, T> {
    planes: &'a [T],
    /// The distance of planes.
    apart: usize,
    columns: &'a mut [T],
    width: usize,
    size: usize,
    by_tap: &'a [Vec<Stretch>],
    step: usize,
}

impl<T: Wide> Loop for Gather<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let rows = self
            .columns
            .chunks_exact_mut(self.width * self.by_tap.len());
        for (i, rows) in rows.enumerate() {
            let plane = &self.planes[i * self.apart..][..self.size];
            for (row, stretches) in rows.chunks_exact_mut(self.width).zip(self.by_tap) {
                for s in stretches {
                    let [before, inside, after] = s.parts;
                    let out = &mut row[s.to..s.to + before + inside + after];
                    let (zeros, out) = out.split_at_mut(before);
                    let (out, more) = out.split_at_mut(inside);
                    zeros.iter_mut().for_each(|z| *z = T::ZERO);
                    more.iter_mut().for_each(|z| *z = T::ZERO);
                    if inside == 0 {
                        continue;
                    }
                    let source = &plane[s.from..s.from + (inside - 1) * self.step + 1];
                    match self.step {
                        1 => copy_short(source, out),
                        2 => copy_every_second(source, out),
                        step => {
                            for (i, out) in out.iter_mut().enumerate() {
                                *out = source[i * step];
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Copies every second element.
#[inline(always)]
pub(super) fn copy_every_second<T: Copy>(x: &[T], out: &mut [T]) {
    match out.len() {
        16.. => pieces_of_every_second::<16, T>(x, out),
        8.. => pieces_of_every_second::<8, T>(x, out),
        4.. => pieces_of_every_second::<4, T>(x, out),
        _ => {
            for (out, x) in out.iter_mut().zip(x.iter().step_by(2)) {
                *out = *x;
            }
        }
    }
}

/// Copies every second element in pieces of constant length, which become shuffles of vectors. The last piece ends with
/// the slice, and may overlap the one before it.
#[inline(always)]
fn pieces_of_every_second<const N: usize, T: Copy>(x: &[T], out: &mut [T]) {
    let n = out.len();
    for start in (0..n / N).map(|i| i * N).chain([n - N]) {
        let x = &x[2 * start..][..2 * N - 1];
        let out = &mut out[start..][..N];
        for i in 0..N {
            out[i] = x[2 * i];
        }
    }
}

/// Copies a slice of a few vectors without a call.
#[inline(always)]
pub(super) fn copy_short<T: Copy>(x: &[T], out: &mut [T]) {
    const N: usize = 16;
    let n = out.len();
    if n < N {
        for (out, x) in out.iter_mut().zip(x) {
            *out = *x;
        }
        return;
    }
    // The last vector ends with the slice, and may overlap the one before it.
    let starts = (0..n / N).map(|i| i * N).chain([n - N]);
    for start in starts {
        if let (Some(x), Some(out)) = (
            x[start..].first_chunk::<N>(),
            out[start..].first_chunk_mut::<N>(),
        ) {
            *out = *x;
        }
    }
}

/// A convolution by its definition, one output row at a time: for few channels a group, and for integers.
pub fn direct<T: Wide>(g: &Geometry, x: &[T], w: &[T], out: &mut [T]) {
    let row = g.axes[2];
    let cost = row.output * g.cin * g.taps() / 4;
    rows(out, row.output, cost, |first, out| {
        dispatch(Direct {
            g,
            x,
            w,
            first,
            out,
        })
    });
}

struct Direct<'a, T> {
    g: &'a Geometry,
    x: &'a [T],
    w: &'a [T],
    first: usize,
    out: &'a mut [T],
}

impl<T: Wide> Loop for Direct<'_, T> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Direct {
            g,
            x,
            w,
            first,
            out,
        } = self;
        let [depth, height, row] = g.axes;
        let (taps, lines) = (g.taps(), depth.output * height.output);
        let long = g.cin * taps > LONG;
        let mut totals = vec![T::Total::default(); if long { row.output } else { 0 }];
        for (i, out) in out.chunks_exact_mut(row.output).enumerate() {
            let (channel, line) = ((first + i) / lines, (first + i) % lines);
            let (image, channel) = (channel / (g.groups * g.cout), channel % (g.groups * g.cout));
            let group = channel / g.cout;
            out.fill(T::ZERO);
            totals.fill(T::Total::default());
            let mut chain = 0;
            for c in 0..g.cin {
                let plane = ((image * g.groups + group) * g.cin + c) * g.inputs();
                let weight = &w[(channel * g.cin + c) * taps..][..taps];
                for (t, &factor) in weight.iter().enumerate() {
                    let [td, th, tw] = g.tap(t);
                    let lines = depth
                        .source(line / height.output, td)
                        .zip(height.source(line % height.output, th));
                    let inside = row.inside(tw, 0..row.output);
                    if let Some((d, h)) = lines
                        && let Some(from) = row.source(inside.start, tw)
                        && !inside.is_empty()
                    {
                        let source = &x[plane + (d * height.input + h) * row.input + from..];
                        add_scaled(&mut out[inside], source, row.stride, factor);
                    }
                    chain += 1;
                    if long && chain == CHAIN {
                        join(out, &mut totals);
                        chain = 0;
                    }
                }
            }
            if long {
                finish(out, &mut totals);
            }
        }
    }
}

/// Writes the totals, with the last sums.
fn finish<T: Wide>(out: &mut [T], totals: &mut [T::Total]) {
    join(out, totals);
    for (out, &total) in out.iter_mut().zip(&*totals) {
        *out = T::of_total(total);
    }
}

/// out[i] += factor · x[i · stride].
#[inline(always)]
fn add_scaled<T: Wide>(out: &mut [T], x: &[T], stride: usize, factor: T) {
    if stride == 1 {
        for (out, x) in out.iter_mut().zip(x) {
            *out = out.plus(factor.times(*x));
        }
    } else {
        for (out, x) in out.iter_mut().zip(x.iter().step_by(stride)) {
            *out = out.plus(factor.times(*x));
        }
    }
}

/// A floating-point transposed convolution; `w` is `[groups · cin, cout, taps]`. `done` runs over whole planes.
///
/// # Errors
/// `Internal`: an operand is smaller than the geometry says.
pub fn convolve_transposed<T: Real + Plain>(
    g: &Geometry,
    x: &[T],
    w: &[T],
    out: &mut [T],
    done: Option<&Done<'_>>,
) -> Result<()> {
    let (taps, size, positions) = (g.taps(), g.inputs(), g.outputs());
    if out.is_empty() {
        return Ok(());
    }
    // Output channels of a task: their columns stay in cache.
    let block = (TILE / (taps * positions * size_of::<T>()).max(1)).clamp(1, g.cout);
    let blocks = g.cout.div_ceil(block);
    let long = size_of::<T>() == 4 && g.meeting() > LONG;
    let failure = Failure::new();
    let out = Shared::new(out);
    let cost = block * taps * positions * g.cin / 8;
    ranges_on(g.batch * g.groups * blocks, cost, |tasks, thread| {
        for task in tasks {
            let (image_group, first) = (task / blocks, task % blocks * block);
            let channels = first..(first + block).min(g.cout);
            let group = image_group % g.groups;
            let rows = image_group * g.cout + channels.start..image_group * g.cout + channels.end;
            // SAFETY: blocks of channels are disjoint.
            let out = unsafe { out.part(rows.start * size..rows.end * size) };
            let s = Sizes {
                m: channels.len() * taps,
                n: positions,
                k: g.cin,
            };
            let weight = View {
                data: w,
                start: (group * g.cin * g.cout + channels.start) * taps,
                row: 1,
                col: (g.cout * taps) as isize,
            };
            let from = image_group * g.cin * positions;
            let image = View::dense(&x[from..from + g.cin * positions], positions);
            let mut totals = vec![0.0; if long { size } else { 0 }];
            failure.keep(scratch(s.m * s.n, |columns: &mut [T]| {
                multiply(s, weight, image, columns, positions, false)?;
                for (out, columns) in out
                    .chunks_exact_mut(size)
                    .zip(columns.chunks_exact(taps * positions))
                {
                    out.fill(T::ZERO);
                    totals.fill(0.0);
                    for (t, column) in columns.chunks_exact(positions).enumerate() {
                        spread(g, t, T::ONE, column, out);
                        if long && t % CHAIN == CHAIN - 1 {
                            join(out, &mut totals);
                        }
                    }
                    if long {
                        finish(out, &mut totals);
                    }
                }
                Ok(())
            }));
            if let Some(done) = done {
                done(rows, 0, thread);
            }
        }
    });
    failure.take()
}

/// Adds `factor · x`, one plane of positions, to the plane that tap `t` spreads it over.
fn spread<T: Wide>(g: &Geometry, t: usize, factor: T, x: &[T], plane: &mut [T]) {
    let [depth, height, row] = g.axes;
    let [td, th, tw] = g.tap(t);
    let inside = row.inside(tw, 0..row.output);
    let Some(first) = row.source(inside.start, tw).filter(|_| !inside.is_empty()) else {
        return;
    };
    for (line, x) in x.chunks_exact(row.output).enumerate() {
        let target = depth
            .source(line / height.output, td)
            .zip(height.source(line % height.output, th));
        let Some((d, h)) = target else { continue };
        let out = &mut plane[(d * height.input + h) * row.input..][..row.input];
        let x = &x[inside.clone()];
        if row.stride == 1 {
            for (out, x) in out[first..].iter_mut().zip(x) {
                *out = out.plus(factor.times(*x));
            }
        } else {
            for (out, x) in out[first..].iter_mut().step_by(row.stride).zip(x) {
                *out = out.plus(factor.times(*x));
            }
        }
    }
}

/// A transposed convolution by its definition, one output channel at a time: for integers.
pub fn direct_transposed<T: Wide>(g: &Geometry, x: &[T], w: &[T], out: &mut [T]) {
    let (taps, size, positions) = (g.taps(), g.inputs(), g.outputs());
    rows(out, size, g.cin * taps * positions, |first, out| {
        for (i, out) in out.chunks_exact_mut(size).enumerate() {
            let (image_group, channel) = ((first + i) / g.cout, (first + i) % g.cout);
            let group = image_group % g.groups;
            out.fill(T::ZERO);
            for c in 0..g.cin {
                let x = &x[(image_group * g.cin + c) * positions..][..positions];
                let weight = &w[((group * g.cin + c) * g.cout + channel) * taps..][..taps];
                for (t, &factor) in weight.iter().enumerate() {
                    spread(g, t, factor, x, out);
                }
            }
        }
    });
}
