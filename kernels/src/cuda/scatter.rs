//! Scatters of rows.

use super::Dense;
use super::library::{Run, bits, source};
use super::sort::argsort;
use crate::eager::{Arg, array};
use crate::support::scalar_type;
use crate::{Array, ScatterMode};
use ferrotrace_runtime::{DType, KernelSource, Layout, Result, Shape};

const TEXT: &str = include_str!("scatter.cu");
const MODES: [ScatterMode; 6] = [
    ScatterMode::Assign,
    ScatterMode::Sum,
    ScatterMode::Prod,
    ScatterMode::Amax,
    ScatterMode::Amin,
    ScatterMode::Mean,
];

fn text(dtype: DType, mode: ScatterMode) -> KernelSource {
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
    let definitions = format!(
        "typedef {element} T;\ntypedef {} U;\n#define MODE {number}\n#define FLOAT {float}\n#define LOWEST {lowest}\n\
         #define HIGHEST {highest}\n",
        bits(dtype)
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
        modes.map(move |mode| text(dtype, mode))
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
        && index.dtype == DType::I64
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
    let order = argsort(&index, n, false, width_of_keys)?;
    let dtype = x.dtype;
    let number = MODES.iter().position(|m| *m == mode).unwrap_or_default();
    Run {
        name: ("scatter", dtype, number as u8),
        device,
        arrays: &[&out, &src, &order, &index],
        params: &[n as i64, width as i64, include_self.into()],
        blocks: (n * width).div_ceil(256),
        threads: 256,
    }
    .start(|| text(dtype, mode))?;
    Ok(Some(out))
}
