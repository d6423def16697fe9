//! Scatters of rows.

use super::Dense;
use super::library::{Run, bits, source};
use super::sort::argsort;
use crate::eager::{Arg, array};
use crate::support::scalar_type;
use crate::{Array, ScatterMode};
use ferrotrace_runtime::{DType, KernelSource, Layout, Result, Shape};

const TEXT: &str = include_str!("scatter.cu");
/// Rows a place, on average, from which the rows of a place are cut into chunks, and the rows of a chunk.
const MANY: usize = 1024;
const CHUNK: usize = 512;
const MODES: [ScatterMode; 6] = [
    ScatterMode::Assign,
    ScatterMode::Sum,
    ScatterMode::Prod,
    ScatterMode::Amax,
    ScatterMode::Amin,
    ScatterMode::Mean,
];

fn text(dtype: DType, mode: ScatterMode, (wide, finish): (bool, bool)) -> KernelSource {
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
        // They are only moved.
        DType::F16 | DType::BF16 => "unsigned short",
        other => scalar_type(other),
    };
    let float = u8::from(matches!(dtype, DType::F32 | DType::F64));
    let number = MODES.iter().position(|m| *m == mode).unwrap_or_default();
    let size = if wide { "long long" } else { "int" };
    let definitions = format!(
        "typedef {element} T;\ntypedef {} U;\n#define MODE {number}\n#define FLOAT {float}\n#define LOWEST {lowest}\n\
         #define HIGHEST {highest}\ntypedef unsigned {size} K;\ntypedef {size} P;\n#define FINISH {}\n",
        bits(dtype),
        u8::from(finish)
    );
    source(&[&definitions, TEXT])
}

/// The modes that a type is met in.
fn takes(dtype: DType, mode: ScatterMode) -> bool {
    mode == ScatterMode::Assign || !(dtype.is_half() || dtype == DType::Bool)
}

/// Every source for every type and mode.
pub(super) fn sources() -> Vec<KernelSource> {
    let of = |dtype: DType| {
        let modes = MODES.into_iter().filter(move |mode| takes(dtype, *mode));
        let all = move |mode| {
            let kinds = [(false, false), (true, false), (false, true)];
            kinds.map(|kind| text(dtype, mode, kind))
        };
        modes.flat_map(all)
    };
    DType::ALL.into_iter().flat_map(of).collect()
}

/// `x` with the rows of a source met at places; `None` for operands of another form.
///
/// # Errors
/// Out of memory; what the driver answers.
pub(super) fn rows(
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
    let device = x.buffer.device();
    let x = dense(x)?;
    // Results are written over a copy.
    let size = x.dtype.size();
    let bytes = x.layout.offset() * size..(x.layout.offset() + x.numel()) * size;
    let out = Array {
        buffer: x.buffer.copy_to(bytes, device)?,
        layout: Layout::contiguous(x.shape().clone()),
        dtype: x.dtype,
    };
    if n * width == 0 {
        return Ok(Some(out));
    }
    let src = dense(src)?;
    let strides = [index.layout.strides()[0]];
    let column = Layout::new(Shape::from(n), strides[..].into(), index.layout.offset());
    let index = dense(&index.with_layout(column))?;
    // Places are not negative: their lowest bits tell them apart.
    let width_of_keys = (usize::BITS - places.saturating_sub(1).leading_zeros()).max(1);
    let sorted = argsort(&index, n, false, (width_of_keys, true))?;
    let dtype = x.dtype;
    let number = MODES.iter().position(|m| *m == mode).unwrap_or_default();
    // Few places that many rows meet are cut into chunks, by sizes alone; otherwise a place is one unit's.
    let chunk = match n / places >= MANY {
        true => CHUNK,
        false => n,
    };
    let chunks = n.div_ceil(chunk);
    let spare = if chunks > 1 { chunks } else { 0 };
    let aside = Array::empty(device, Shape::from(spare * width), dtype)?;
    let counts = Array::empty(device, Shape::from(spare), DType::I64)?;
    let threads = match width >= 32 {
        true => n * width.div_ceil(128) * 32,
        false => n * width,
    };
    let wide = index.dtype == DType::I64;
    let arrays = [&out, &src, &sorted.positions, &sorted.keys, &aside, &counts];
    let params = [n as i64, width as i64, include_self.into(), chunk as i64];
    let run = |name, choice, threads: usize| Run {
        name: (name, dtype, number as u8 * 2 + choice),
        device,
        arrays: &arrays,
        params: &params,
        blocks: threads.div_ceil(256),
        threads: 256,
    };
    run("scatter", u8::from(wide), threads).start(|| text(dtype, mode, (wide, false)))?;
    if chunks > 1 && mode != ScatterMode::Assign {
        let finish = run("scatter_finish", u8::from(wide), chunks * width);
        finish.start(|| text(dtype, mode, (wide, true)))?;
    }
    Ok(Some(out))
}
