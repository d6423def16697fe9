//! Convolutions over up to three spatial dimensions.
//!
//! Columns of input windows are gathered for a tile of output positions small enough to stay in the second-level cache,
//! and multiplied by the weight. Transposed, the product comes first and its columns are added up, by output channel.

use super::dense::{Plain, Shared, ranges, rows, scratch};
use super::matmul::{Sizes, View, multiply, multiply_shared, products};
use super::number::Wide;
use super::vector::Real;
use ferrotrace_runtime::Result;
use std::ops::Range;
use std::sync::Mutex;

/// Bytes of a tile of columns.
const TILE: usize = 448 << 10;
/// Output positions of a tile at least.
const POSITIONS: usize = 96;

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
    pub const UNIT: Axis =
        Axis { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };

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
    fn inputs(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    fn outputs(&self) -> usize {
        self.axes.iter().map(|a| a.output).product()
    }

    fn taps(&self) -> usize {
        self.axes.iter().map(|a| a.kernel).product()
    }

    fn tap(&self, t: usize) -> [usize; 3] {
        let [_, b, c] = self.axes;
        [t / (b.kernel * c.kernel), t / c.kernel % b.kernel, t % c.kernel]
    }

    fn is_pointwise(&self) -> bool {
        self.axes.iter().all(|a| a.kernel == 1 && a.stride == 1 && a.padding == 0)
    }
}

/// The first error of tasks that run in parallel.
struct Failure(Mutex<Result<()>>);

impl Failure {
    fn new() -> Failure {
        Failure(Mutex::new(Ok(())))
    }

    fn keep(&self, result: Result<()>) {
        if result.is_err() && let Ok(mut kept) = self.0.lock() {
            *kept = result;
        }
    }

    fn take(self) -> Result<()> {
        self.0.into_inner().unwrap_or(Ok(()))
    }
}

/// A floating-point convolution.
///
/// # Errors
/// `Internal`: an operand is smaller than the geometry says.
pub fn convolve<T: Real + Plain>(g: &Geometry, x: &[T], w: &[T], out: &mut [T]) -> Result<()> {
    let (taps, positions) = (g.taps(), g.outputs());
    if out.is_empty() {
        return Ok(());
    }
    if g.cin == 1 && g.cout <= 2 {
        direct(g, x, w, out);
        return Ok(());
    }
    let k = g.cin * taps;
    if g.is_pointwise() {
        let s = Sizes { m: g.cout, n: positions, k };
        let start = |i: usize| (i % g.groups * g.cout * k, i * k * positions);
        let starts: Vec<_> = (0..g.batch * g.groups).map(start).collect();
        return products(s, View::dense(w, k), View::dense(x, positions), &starts, out);
    }
    let width = tile_width(g, k * size_of::<T>());
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
    ranges(g.groups * tiles, g.cout * k * width / 8, |tasks| {
        for task in tasks {
            let (group, tile) = (task / tiles, tile(task % tiles));
            failure.keep(convolve_tile(g, x, w, &out, group, tile));
        }
    });
    failure.take()
}

fn tile_width(g: &Geometry, column_bytes: usize) -> usize {
    let width = (TILE / column_bytes.max(1)).max(POSITIONS);
    let row = g.axes[2].output;
    // Whole rows where they fit, so that rows are copied whole.
    if row <= width { width / row * row } else { width / 16 * 16 }
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
            let planes = &x[from..from + g.cin * g.inputs()];
            let part = at - image * positions..end - image * positions;
            gather_columns(g, planes, columns, width, at - tile.start, part);
            at = end;
        }
        let s = Sizes { m: g.cout, n: width, k };
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

/// Writes the windows of output positions `part` of one image to columns `to..` of a `k · width` matrix.
fn gather_columns<T: Wide>(
    g: &Geometry,
    planes: &[T],
    columns: &mut [T],
    width: usize,
    to: usize,
    part: Range<usize>,
) {
    let [depth, height, row] = g.axes;
    let taps = g.taps();
    for (r, column_row) in columns.chunks_exact_mut(width).enumerate() {
        let plane = &planes[r / taps * g.inputs()..][..g.inputs()];
        let [td, th, tw] = g.tap(r % taps);
        let (mut at, mut to) = (part.start, to);
        while at < part.end {
            let (line, from) = (at / row.output, at % row.output);
            let end = row.output.min(from + part.end - at);
            let out = &mut column_row[to..to + end - from];
            let source = depth
                .source(line / height.output, td)
                .zip(height.source(line % height.output, th));
            match source {
                None => out.fill(T::ZERO),
                Some((d, h)) => {
                    let source = &plane[(d * height.input + h) * row.input..][..row.input];
                    let inside = row.inside(tw, from..end);
                    out[..inside.start - from].fill(T::ZERO);
                    out[inside.end - from..].fill(T::ZERO);
                    if let Some(first) = row.source(inside.start, tw).filter(|_| !inside.is_empty()) {
                        let out = &mut out[inside.start - from..inside.end - from];
                        if row.stride == 1 {
                            out.copy_from_slice(&source[first..first + out.len()]);
                        } else {
                            let source = source[first..].iter().step_by(row.stride);
                            out.iter_mut().zip(source).for_each(|(out, x)| *out = *x);
                        }
                    }
                }
            }
            at += end - from;
            to += end - from;
        }
    }
}

/// A convolution by its definition, one output row at a time: for few channels a group, and for integers.
pub fn direct<T: Wide>(g: &Geometry, x: &[T], w: &[T], out: &mut [T]) {
    let [depth, height, row] = g.axes;
    let (taps, lines) = (g.taps(), depth.output * height.output);
    let cost = row.output * g.cin * taps / 4;
    rows(out, row.output, cost, |first, out| {
        for (i, out) in out.chunks_exact_mut(row.output).enumerate() {
            let (channel, line) = ((first + i) / lines, (first + i) % lines);
            let (image, channel) = (channel / (g.groups * g.cout), channel % (g.groups * g.cout));
            let group = channel / g.cout;
            out.fill(T::ZERO);
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
                }
            }
        }
    });
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

/// A floating-point transposed convolution; `w` is `[groups · cin, cout, taps]`.
///
/// # Errors
/// `Internal`: an operand is smaller than the geometry says.
pub fn convolve_transposed<T: Real + Plain>(
    g: &Geometry,
    x: &[T],
    w: &[T],
    out: &mut [T],
) -> Result<()> {
    let (taps, size, positions) = (g.taps(), g.inputs(), g.outputs());
    if out.is_empty() {
        return Ok(());
    }
    // Output channels of a task: their columns stay in cache.
    let block = (TILE / (taps * positions * size_of::<T>()).max(1)).clamp(1, g.cout);
    let blocks = g.cout.div_ceil(block);
    let failure = Failure::new();
    let out = Shared::new(out);
    let cost = block * taps * positions * g.cin / 8;
    ranges(g.batch * g.groups * blocks, cost, |tasks| {
        for task in tasks {
            let (image_group, first) = (task / blocks, task % blocks * block);
            let channels = first..(first + block).min(g.cout);
            let group = image_group % g.groups;
            let from = (image_group * g.cout + channels.start) * size;
            // SAFETY: blocks of channels are disjoint.
            let out = unsafe { out.part(from..from + channels.len() * size) };
            let s = Sizes { m: channels.len() * taps, n: positions, k: g.cin };
            let weight = View {
                data: w,
                start: (group * g.cin * g.cout + channels.start) * taps,
                row: 1,
                col: (g.cout * taps) as isize,
            };
            let from = image_group * g.cin * positions;
            let image = View::dense(&x[from..from + g.cin * positions], positions);
            failure.keep(scratch(s.m * s.n, |columns: &mut [T]| {
                multiply(s, weight, image, columns, positions, false)?;
                for (out, columns) in
                    out.chunks_exact_mut(size).zip(columns.chunks_exact(taps * positions))
                {
                    out.fill(T::ZERO);
                    for (t, column) in columns.chunks_exact(positions).enumerate() {
                        spread(g, t, T::ONE, column, out);
                    }
                }
                Ok(())
            }));
        }
    });
    failure.take()
}

/// Adds `factor · x`, one plane of positions, to the plane that tap `t` spreads it over.
fn spread<T: Wide>(g: &Geometry, t: usize, factor: T, x: &[T], plane: &mut [T]) {
    let [depth, height, row] = g.axes;
    let [td, th, tw] = g.tap(t);
    let inside = row.inside(tw, 0..row.output);
    let Some(first) = row.source(inside.start, tw).filter(|_| !inside.is_empty()) else { return };
    for (line, x) in x.chunks_exact(row.output).enumerate() {
        let target =
            depth.source(line / height.output, td).zip(height.source(line % height.output, th));
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
