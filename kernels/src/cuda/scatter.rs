//! Scatters of rows.

use super::library::{Run, bits, source};
use super::sort::{Order, Sorted, argsort, is_short};
use crate::arg::{Arg, array};
use crate::copy::{Dense, copied_on};
use crate::support::scalar_type;
use crate::{Array, ScatterMode};
use ferrotrace_runtime::{Config, DType, KernelSource, Layout, Result, Shape};
use std::fmt::Write as _;

const MEET: &str = include_str!("scatter/meet.cu");
const ROWS: &str = include_str!("scatter/rows.cu");
const VALUES: &str = include_str!("scatter/values.cu");
const FINISH: &str = include_str!("scatter/finish.cu");
const LAST: &str = include_str!("scatter/last.cu");
const ATOMIC: &str = include_str!("scatter/atomic.cu");
/// Rows a place, on average, from which what a place is given depends on more than the order of its rows: parts meet.
const MANY: usize = 1024;
/// Elements of a place up to which they meet one after the other where that makes a difference.
const IN_ORDER: usize = 4096;
/// Columns from which atomic operations are slower.
const WIDE: usize = 32;
/// Bytes that a thread takes of a row, and most elements.
const BYTES: usize = 16;
const ELEMENTS: usize = 4;
/// Single values of a tile.
const TILE: usize = 2048;
/// Rows of a piece: usually the least, half of that where few threads would be left, and the most. Pieces grow while
/// [`THREADS`] are left, beyond [`USUAL`] only where places have [`PARTS`] pieces on average.
const PIECE: usize = 16;
const LONGEST: usize = 512;
const USUAL: usize = 64;
const THREADS: usize = 1 << 16;
const PARTS: usize = 64;
/// Pieces that a block looks through for places that are cut: as few as give no more than so many blocks.
const SPANS: [usize; 3] = [8, 32, 256];
const BLOCKS: usize = 2048;
/// Columns that a block takes of what pieces put aside: a line of memory, so that many blocks share a place of many pieces.
const COLUMNS: usize = 8;
const MODES: [ScatterMode; 6] = [
    ScatterMode::Assign,
    ScatterMode::Sum,
    ScatterMode::Prod,
    ScatterMode::Amax,
    ScatterMode::Amin,
    ScatterMode::Mean,
];

/// The text of a form for places of 8 bytes or of 4, with a definition of its own.
fn text(
    dtype: DType,
    mode: ScatterMode,
    wide: bool,
    (of, define): (&str, Option<(&str, usize)>),
) -> KernelSource {
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
         #define HIGHEST {highest}\ntypedef {size} P;\n",
        if meets_in(dtype, mode) == dtype {
            element
        } else {
            "double"
        },
        bits(dtype)
    );
    if let Some((name, value)) = define {
        let _ = writeln!(definitions, "#define {name} {value}");
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
                let mut add = |of: &str, define| {
                    all.push(text(dtype, mode, wide, (of, define)));
                };
                let vectors = [1, vector(dtype)];
                for v in &vectors[..if vectors[1] > 1 { 2 } else { 1 }] {
                    add(if meets { ROWS } else { LAST }, Some(("V", *v)));
                }
                for on in [0, 1].into_iter().filter(|_| meets) {
                    add(VALUES, Some(("CARRIED", on)));
                }
                if meets {
                    add(FINISH, None);
                }
                for on in [0, 1].into_iter().filter(|_| is_atomic(dtype, mode)) {
                    add(ATOMIC, Some(("CLEAR", on)));
                }
            }
        }
    }
    all
}

/// Most elements that a thread takes of a row.
fn vector(dtype: DType) -> usize {
    (BYTES / dtype.size()).min(ELEMENTS)
}

/// How rows are to be scattered.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// The type of both matrices.
    pub dtype: DType,
    /// How they meet.
    pub mode: ScatterMode,
    /// Rows of the source.
    pub rows: usize,
    /// Columns.
    pub width: usize,
    /// Rows of what they meet.
    pub places: usize,
}

impl Form {
    /// Whether rows meet in any order, by atomic operations: these wait for each other at few places, and rows of a warp's
    /// width and more are faster in order.
    fn is_any_order(&self) -> bool {
        let any = !self.dtype.is_float() || Config::get().atomics;
        let crowded = self.rows / self.places.max(1) >= MANY;
        any && is_atomic(self.dtype, self.mode) && !crowded && self.width < WIDE
    }

    /// Whether the source's elements are sorted with their places.
    fn is_carried(&self, index: DType) -> bool {
        let single = self.width == 1 && self.dtype.size() == 4 && !self.is_in_order();
        single && self.mode != ScatterMode::Assign && !is_short(index, self.rows)
    }

    /// Whether the elements of a place meet one after the other, up to [`IN_ORDER`]: where they are rounded each time.
    fn is_in_order(&self) -> bool {
        let rounds = self.dtype.is_float() && meets_in(self.dtype, self.mode) == self.dtype;
        let sums = !matches!(
            self.mode,
            ScatterMode::Amax | ScatterMode::Amin | ScatterMode::Assign
        );
        rounds && sums && self.rows / self.places.max(1) < MANY
    }

    /// Whether it takes an order of its places that other scatters can share; `shared` says whether others do.
    pub fn takes_order(&self, index: DType, shared: bool) -> bool {
        !self.is_any_order() && (shared || !self.is_carried(index))
    }
}

/// The stable order of places, integers of 4 or 8 bytes: `[2, n]`, the places and then the positions of the rows that they
/// are of.
///
/// # Errors
/// Out of memory; what the driver answers; 2³² rows or more.
pub(crate) fn order(index: &Array, places: usize) -> Result<Array> {
    let n = index.numel();
    let all = Array::empty(index.buffer.device(), Shape::from([2, n]), index.dtype)?;
    let [keys, positions] = halves(&all);
    sorted(index, places, (Some([&keys, &positions]), None))?;
    Ok(all)
}

/// The places of an order, and the positions.
fn halves(order: &Array) -> [Array; 2] {
    let n = order.numel() / 2;
    [0, n].map(|from| {
        let from = order.layout.offset() + from;
        order.with_layout(Layout::new(Shape::from(n), [1][..].into(), from))
    })
}

/// Sorts places. Those are not negative: their lowest bits tell them apart.
fn sorted(
    index: &Array,
    places: usize,
    (kept, payload): (Option<[&Array; 2]>, Option<&Array>),
) -> Result<Sorted> {
    let width = (usize::BITS - places.saturating_sub(1).leading_zeros()).max(1);
    let order = Order {
        descending: false,
        width,
        kept,
        payload,
    };
    argsort(index, index.numel(), order)
}

/// A scatter of rows.
struct Scatter {
    /// The result, which holds the destination's elements.
    out: Array,
    src: Array,
    form: Form,
    include_self: bool,
    /// Whether places take 8 bytes.
    wide: bool,
}

/// Where the elements of sorted rows lie.
struct Sides<'a> {
    keys: &'a Array,
    positions: &'a Array,
    /// The source in the order of the keys, if it was sorted with them.
    carried: Option<&'a Array>,
}

impl Scatter {
    /// A scatter over a matrix: its own memory where nothing else holds that, else a copy.
    fn new(
        (x, src): (&Array, &Array),
        (mode, include_self): (ScatterMode, bool),
        wide: bool,
        dense: Dense<'_>,
    ) -> Result<Scatter> {
        let out = match x.layout.is_contiguous() && x.buffer.is_unique() {
            true => x.clone(),
            false => copied_on(x, dense)?,
        };
        Ok(Scatter {
            form: Form {
                dtype: x.dtype,
                mode,
                rows: src.shape()[0],
                width: x.shape()[1],
                places: x.shape()[0],
            },
            src: dense(src)?,
            out,
            include_self,
            wide,
        })
    }

    fn run(
        &self,
        (name, of, define): (&'static str, &str, Option<(&str, usize)>),
        (arrays, params): (&[&Array], &[usize]),
        blocks: usize,
    ) -> Result<()> {
        let Form { dtype, mode, .. } = self.form;
        let number = MODES.iter().position(|m| *m == mode).unwrap_or_default();
        let value = define.map_or(0, |(_, value)| value);
        let params: Vec<i64> = params.iter().map(|&n| n as i64).collect();
        Run {
            name: (
                name,
                dtype,
                ((number * 2 + usize::from(self.wide)) * 16 + value) as u32,
            ),
            device: self.out.buffer.device(),
            arrays,
            params: &params,
            blocks,
            threads: 256,
            shared: 0,
        }
        .start(|| text(dtype, mode, self.wide, (of, define)))
    }

    /// Runs it by atomic operations, in any order.
    fn at_once(&self, index: &Array) -> Result<()> {
        let arrays = [&self.out, &self.src, index];
        let params = [self.form.rows, self.form.width];
        let run = |clear| {
            let kernel = ("scatter_atomic", ATOMIC, Some(("CLEAR", clear)));
            let blocks = (params[0] * params[1]).div_ceil(256);
            self.run(kernel, (&arrays, &params), blocks)
        };
        if !self.include_self {
            run(1)?;
        }
        run(0)
    }

    /// Runs it by the order of the places.
    fn in_order(&self, sides: &Sides<'_>) -> Result<()> {
        let Form { rows, width, .. } = self.form;
        let aligned = |x: &Array| (x.layout.offset() * x.dtype.size()).is_multiple_of(BYTES);
        let v = vector(self.form.dtype);
        let v = match width.is_multiple_of(v) && aligned(&self.out) && aligned(&self.src) {
            true => v,
            false => 1,
        };
        let Sides {
            keys, positions, ..
        } = sides;
        if self.form.mode == ScatterMode::Assign {
            let arrays = [&self.out, &self.src, keys, positions];
            let kernel = ("scatter_last", LAST, Some(("V", v)));
            let blocks = (rows * (width / v)).div_ceil(256);
            return self.run(kernel, (&arrays, &[rows, width]), blocks);
        }
        let values = width == 1 && !self.form.is_in_order();
        let piece = match values {
            true => TILE,
            false => piece(rows, width / v, self.form.places),
        };
        let reach = match self.form.is_in_order() {
            true => IN_ORDER / piece,
            false => usize::from(!values),
        };
        let pieces = rows.div_ceil(piece);
        let cut = pieces > reach + 1;
        let spare = if cut { 2 * pieces * width } else { 0 };
        let met = meets_in(self.form.dtype, self.form.mode);
        let aside = Array::empty(self.out.buffer.device(), Shape::from(spare), met)?;
        let include = self.include_self.into();
        let src = sides.carried.unwrap_or(&self.src);
        let arrays = [&self.out, src, keys, positions, &aside];
        if values {
            let kernel = (
                "scatter_values",
                VALUES,
                Some(("CARRIED", sides.carried.is_some().into())),
            );
            self.run(kernel, (&arrays, &[rows, include]), pieces)?;
        } else {
            let params = [rows, width, include, piece, reach];
            let blocks = (pieces * (width / v)).div_ceil(256);
            self.run(
                ("scatter", ROWS, Some(("V", v))),
                (&arrays, &params),
                blocks,
            )?;
        }
        if !cut {
            return Ok(());
        }
        let columns = width.next_power_of_two().min(COLUMNS);
        let tiles = width.div_ceil(columns);
        let few = |span: &&usize| pieces.div_ceil(**span) * tiles <= BLOCKS;
        let span = *SPANS.iter().find(few).unwrap_or(&SPANS[2]);
        let arrays = [&self.out, keys, &aside];
        let params = [rows, width, include, piece, reach, span, columns];
        let blocks = pieces.div_ceil(span) * tiles;
        self.run(("scatter_finish", FINISH, None), (&arrays, &params), blocks)
    }
}

/// Rows of a piece where so many threads take one.
fn piece(rows: usize, threads: usize, places: usize) -> usize {
    let few = rows / PIECE * threads < THREADS / 4;
    let mut piece = if few { PIECE / 2 } else { PIECE };
    let crowded = |piece: usize| rows / places.max(1) >= PARTS * piece;
    while piece < LONGEST
        && rows / (2 * piece) * threads >= THREADS
        && (piece < USUAL || crowded(piece))
    {
        piece *= 2;
    }
    piece
}

/// Whether matrices are scattered as they are: rows of a source of the type that they meet in.
fn is_had(x: &Array, src: &Array, mode: ScatterMode) -> bool {
    let ranks = x.shape().rank() == 2 && src.shape().rank() == 2;
    ranks && x.shape()[1] == src.shape()[1] && src.dtype == x.dtype && takes(x.dtype, mode)
}

/// `x` with the rows of a source met at places, one for each: a column, or one that is stretched along the rows. `None` for
/// operands of another form.
///
/// # Errors
/// Out of memory; what the driver answers.
pub(crate) fn rows(
    args: &[Arg],
    (mode, include_self): (ScatterMode, bool),
    dense: Dense<'_>,
) -> Result<Option<Array>> {
    let (x, index, src) = (array(args, 0)?, array(args, 1)?, array(args, 2)?);
    let form = is_had(x, src, mode)
        && index.shape() == src.shape()
        && (index.shape()[1] == 1 || index.layout.strides()[1] == 0)
        && matches!(index.dtype, DType::I32 | DType::I64);
    if !form {
        return Ok(None);
    }
    let wide = index.dtype == DType::I64;
    let scatter = Scatter::new((x, src), (mode, include_self), wide, dense)?;
    let Form { rows, places, .. } = scatter.form;
    if rows * scatter.form.width == 0 {
        return Ok(Some(scatter.out));
    }
    let strides = [index.layout.strides()[0]];
    let column = Layout::new(Shape::from(rows), strides[..].into(), index.layout.offset());
    let index = dense(&index.with_layout(column))?;
    if scatter.form.is_any_order() {
        scatter.at_once(&index)?;
    } else if scatter.form.is_carried(index.dtype) {
        let keys = Array::empty(index.buffer.device(), Shape::from(rows), index.dtype)?;
        let kept = Some([&keys, &keys]);
        let sorted = sorted(&index, places, (kept, Some(&scatter.src)))?;
        scatter.in_order(&Sides {
            keys: &keys,
            positions: &keys,
            carried: Some(&sorted.payload),
        })?;
    } else {
        let order = order(&index, places)?;
        let [keys, positions] = &halves(&order);
        scatter.in_order(&Sides {
            keys,
            positions,
            carried: None,
        })?;
    }
    Ok(Some(scatter.out))
}

/// `x` with the rows of a source met at places, by the [`order`] of these. `None` for operands of another form.
///
/// # Errors
/// The errors of [`rows`].
pub(crate) fn ordered(
    args: &[Arg],
    (mode, include_self): (ScatterMode, bool),
    dense: Dense<'_>,
) -> Result<Option<Array>> {
    let (x, order, src) = (array(args, 0)?, array(args, 1)?, array(args, 2)?);
    if !is_had(x, src, mode) || !order.layout.is_contiguous() {
        return Ok(None);
    }
    let wide = order.dtype == DType::I64;
    let scatter = Scatter::new((x, src), (mode, include_self), wide, dense)?;
    if scatter.form.rows * scatter.form.width > 0 {
        let [keys, positions] = &halves(order);
        scatter.in_order(&Sides {
            keys,
            positions,
            carried: None,
        })?;
    }
    Ok(Some(scatter.out))
}
