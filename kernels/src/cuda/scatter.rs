//! Scatters of rows.

use super::Dense;
use super::library::{Run, bits, source};
use super::sort::{Order, Sorted, argsort, is_short};
use crate::eager::{Arg, array};
use crate::support::scalar_type;
use crate::{Array, ScatterMode};
use ferrotrace_runtime::{Config, DType, KernelSource, Layout, Result, Shape};
use std::fmt::Write as _;

const MEET: &str = include_str!("meet.cu");
const ROWS: &str = include_str!("scatter.cu");
const VALUES: &str = include_str!("scatter_values.cu");
const ATOMIC: &str = include_str!("scatter_atomic.cu");
/// Rows a place, on average, from which the rows of a place are cut into chunks, and the rows of a chunk.
const MANY: usize = 1024;
const CHUNK: usize = 512;
/// Columns from which a warp takes a row.
const WIDE: usize = 32;
/// Single values of a tile.
const TILE: usize = 2048;
const MODES: [ScatterMode; 6] = [
    ScatterMode::Assign,
    ScatterMode::Sum,
    ScatterMode::Prod,
    ScatterMode::Amax,
    ScatterMode::Amin,
    ScatterMode::Mean,
];

/// What selects a text besides its type and mode: whether places take 8 bytes, and its own definitions.
type Choice<'a> = (bool, &'a [(&'a str, bool)]);

fn text(dtype: DType, mode: ScatterMode, (wide, choice): Choice<'_>, of: &str) -> KernelSource {
    let (lowest, highest) = match dtype {
        DType::U8 | DType::Bool => ("0", "255"),
        DType::I8 => ("-128", "127"),
        DType::I16 => ("-32768", "32767"),
        DType::I32 => ("(-2147483647 - 1)", "2147483647"),
        DType::I64 => ("(-9223372036854775807ll - 1)", "9223372036854775807ll"),
        DType::F64 => (
            "-__longlong_as_double(0x7ff0000000000000ll)",
            "__longlong_as_double(0x7ff0000000000000ll)",
        ),
        _ => ("-__int_as_float(0x7f800000)", "__int_as_float(0x7f800000)"),
    };
    let element = match dtype {
        DType::Bool => "unsigned char",
        // Half types are only moved here: any type of two bytes serves.
        DType::F16 | DType::BF16 => "unsigned short",
        other => scalar_type(other),
    };
    let float = u8::from(matches!(dtype, DType::F32 | DType::F64));
    let number = MODES.iter().position(|m| *m == mode).unwrap_or_default();
    let size = if wide { "long long" } else { "int" };
    let mut definitions = format!(
        "typedef {element} T;\ntypedef {} A;\ntypedef {} U;\n#define MODE {number}\n#define FLOAT {float}\n#define LOWEST {lowest}\n\
         #define HIGHEST {highest}\ntypedef unsigned {size} K;\ntypedef {size} P;\n",
        if meets_in(dtype, mode) == dtype {
            element
        } else {
            "double"
        },
        bits(dtype)
    );
    for (name, value) in choice {
        let _ = writeln!(definitions, "#define {name} {}", u8::from(*value));
    }
    source(&[&definitions, MEET, of])
}

/// The type that values meet in, one after the other.
fn meets_in(dtype: DType, mode: ScatterMode) -> DType {
    match (dtype, mode) {
        (DType::F32, ScatterMode::Sum | ScatterMode::Mean) => DType::F64,
        _ => dtype,
    }
}

/// The modes that a type is met in.
fn takes(dtype: DType, mode: ScatterMode) -> bool {
    mode == ScatterMode::Assign || !(dtype.is_half() || dtype == DType::Bool)
}

/// Whether a device has an instruction by which values meet in any order. The result is that of any other order, but for
/// floats.
fn is_atomic(dtype: DType, mode: ScatterMode) -> bool {
    use ScatterMode::{Amax, Amin, Sum};
    match dtype {
        DType::I32 | DType::I64 => matches!(mode, Sum | Amax | Amin),
        DType::F32 | DType::F64 => mode == Sum,
        _ => false,
    }
}

/// Sources of every form for every type and mode, of wide places for one type.
pub(super) fn sources() -> Vec<KernelSource> {
    let mut all = Vec::new();
    for dtype in DType::ALL {
        for mode in MODES.into_iter().filter(|mode| takes(dtype, *mode)) {
            let meets = mode != ScatterMode::Assign;
            for wide in [false, true]
                .into_iter()
                .filter(|on| !on || dtype == DType::F32)
            {
                let mut add = |choice: &[(&str, bool)], of: &str| {
                    all.push(text(dtype, mode, (wide, choice), of));
                };
                for on in [false, meets] {
                    add(&[("FINISH", on)], ROWS);
                    add(&values_choice(false, meets && on, false), VALUES);
                    add(
                        &values_choice(dtype.size() == 4, meets, meets && on),
                        VALUES,
                    );
                    if is_atomic(dtype, mode) {
                        add(&[("CLEAR", on)], ATOMIC);
                    }
                }
            }
        }
    }
    all
}

fn values_choice(carried: bool, many: bool, finish: bool) -> [(&'static str, bool); 3] {
    [("CARRIED", carried), ("MANY", many), ("FINISH", finish)]
}

/// A scatter in its one form.
struct Scatter {
    /// The result, which holds the destination's elements.
    out: Array,
    src: Array,
    /// A place for each row of the source.
    index: Array,
    mode: ScatterMode,
    include_self: bool,
    rows: usize,
    width: usize,
    places: usize,
}

/// `x` with the rows of a source met at places; `None` for operands of another form.
///
/// # Errors
/// Out of memory; what the driver answers.
pub(crate) fn rows(
    args: &[Arg],
    (mode, include_self): (ScatterMode, bool),
    dense: Dense<'_>,
) -> Result<Option<Array>> {
    let (x, index, src) = (array(args, 0)?, array(args, 1)?, array(args, 2)?);
    let form = x.shape().rank() == 2
        && index.shape() == src.shape()
        && x.shape()[1] == src.shape()[1]
        && (index.shape()[1] == 1 || index.layout.strides()[1] == 0)
        && matches!(index.dtype, DType::I32 | DType::I64)
        && src.dtype == x.dtype
        && takes(x.dtype, mode);
    if !form {
        return Ok(None);
    }
    let (n, width, places) = (src.shape()[0], x.shape()[1], x.shape()[0]);
    let x = dense(x)?;
    // Results are written over a copy.
    let size = x.dtype.size();
    let bytes = x.layout.offset() * size..(x.layout.offset() + x.numel()) * size;
    let out = Array {
        buffer: x.buffer.copy_to(bytes, x.buffer.device())?,
        layout: Layout::contiguous(x.shape().clone()),
        dtype: x.dtype,
    };
    if n * width == 0 {
        return Ok(Some(out));
    }
    let strides = [index.layout.strides()[0]];
    let column = Layout::new(Shape::from(n), strides[..].into(), index.layout.offset());
    let scatter = Scatter {
        src: dense(src)?,
        index: dense(&index.with_layout(column))?,
        out,
        mode,
        include_self,
        rows: n,
        width,
        places,
    };
    // Atomic operations at few places wait for each other, and rows of a warp's width and more are faster in order.
    let any_order = !x.dtype.is_float() || Config::get().atomics;
    if any_order && is_atomic(x.dtype, mode) && n / places < MANY && width < WIDE {
        scatter.at_once()?;
    } else if width == 1 {
        scatter.values()?;
    } else {
        scatter.in_order()?;
    }
    Ok(Some(scatter.out))
}

impl Scatter {
    fn run(
        &self,
        (name, of, choice): (&'static str, &str, &[(&str, bool)]),
        (arrays, params): (&[&Array], &[i64]),
        threads: usize,
    ) -> Result<()> {
        let (dtype, mode) = (self.out.dtype, self.mode);
        let number = MODES.iter().position(|m| *m == mode).unwrap_or_default();
        let wide = self.index.dtype == DType::I64;
        let on = choice
            .iter()
            .fold(u32::from(wide), |all, (_, on)| all * 2 + u32::from(*on));
        Run {
            name: (name, dtype, number as u32 * 16 + on),
            device: self.out.buffer.device(),
            arrays,
            params,
            blocks: threads.div_ceil(256),
            threads: 256,
            shared: 0,
        }
        .start(|| text(dtype, mode, (wide, choice), of))
    }

    /// Runs the scatter by atomic operations, in any order.
    fn at_once(&self) -> Result<()> {
        let arrays = [&self.out, &self.src, &self.index];
        let params = [self.rows as i64, self.width as i64];
        let run = |clear| {
            let kernel = ("scatter_atomic", ATOMIC, &[("CLEAR", clear)][..]);
            self.run(kernel, (&arrays, &params), self.rows * self.width)
        };
        if !self.include_self {
            run(true)?;
        }
        run(false)
    }

    /// The stable order of the places. Those are not negative: their lowest bits tell them apart.
    fn sorted(&self, payload: Option<&Array>) -> Result<Sorted> {
        let width = (usize::BITS - self.places.saturating_sub(1).leading_zeros()).max(1);
        let order = Order {
            descending: false,
            width,
            keep: true,
            payload,
        };
        argsort(&self.index, self.rows, order)
    }

    /// Single values, in the order of their places.
    fn values(&self) -> Result<()> {
        let (dtype, n) = (self.out.dtype, self.rows);
        let device = self.out.buffer.device();
        let carried = dtype.size() == 4 && !is_short(self.index.dtype, n);
        let sorted = self.sorted(carried.then_some(&self.src))?;
        let many = n / self.places >= MANY && self.mode != ScatterMode::Assign;
        let tiles = n.div_ceil(TILE);
        let spare = if many { 2 * tiles } else { 0 };
        let met = meets_in(dtype, self.mode);
        let aside = Array::empty(device, Shape::from(spare), met)?;
        let counts = Array::empty(device, Shape::from(spare), DType::I64)?;
        let src = if carried { &sorted.payload } else { &self.src };
        let arrays = [
            &self.out,
            src,
            &sorted.positions,
            &sorted.keys,
            &aside,
            &counts,
        ];
        let params = [n as i64, self.include_self.into()];
        let run = |finish, threads| {
            let choice = values_choice(carried, many, finish);
            let kernel = ("scatter_values", VALUES, &choice[..]);
            self.run(kernel, (&arrays, &params), threads)
        };
        run(false, tiles * 256)?;
        match many {
            true => run(true, tiles * 32),
            false => Ok(()),
        }
    }

    /// Rows, each at the places of its first element in order.
    fn in_order(&self) -> Result<()> {
        let (n, width, dtype) = (self.rows, self.width, self.out.dtype);
        let device = self.out.buffer.device();
        let sorted = self.sorted(None)?;
        // Few places that many rows meet are cut into chunks, by sizes alone; otherwise a place is one unit's.
        let chunk = match n / self.places >= MANY {
            true => CHUNK,
            false => n,
        };
        let chunks = n.div_ceil(chunk);
        let spare = if chunks > 1 { chunks } else { 0 };
        let met = meets_in(dtype, self.mode);
        let aside = Array::empty(device, Shape::from(spare * width), met)?;
        let counts = Array::empty(device, Shape::from(spare), DType::I64)?;
        let threads = match width >= WIDE {
            true => n * width.div_ceil(128) * 32,
            false => n * width,
        };
        let arrays = [
            &self.out,
            &self.src,
            &sorted.positions,
            &sorted.keys,
            &aside,
            &counts,
        ];
        let params = [
            n as i64,
            width as i64,
            self.include_self.into(),
            chunk as i64,
        ];
        let run = |finish, threads| {
            let kernel = ("scatter", ROWS, &[("FINISH", finish)][..]);
            self.run(kernel, (&arrays, &params), threads)
        };
        run(false, threads)?;
        match chunks > 1 && self.mode != ScatterMode::Assign {
            true => run(true, chunks * width),
            false => Ok(()),
        }
    }
}
