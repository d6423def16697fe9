//! The positions that sort rows.

use super::library::{Run, bits, source};
use crate::Array;
use ferrotrace_runtime::{DType, Error, KernelSource, Result, Shape};

const KEYS: &str = include_str!("sort.cu");
const ROWS: &str = include_str!("sort_rows.cu");
const COUNT: &str = include_str!("sort_count.cu");
const SCAN: &str = include_str!("sort_scan.cu");
const PLACE: &str = include_str!("sort_place.cu");

/// Rows of at most this many elements are sorted in shared memory.
const SHORT: usize = 2048;
/// Threads of a block that sorts by digits, a digit's counts each, and elements of a tile.
const THREADS: u32 = 256;
const TILE: usize = 4096;
/// Bits of a digit.
const DIGIT: u32 = 8;

/// What the texts need to know of a type.
fn definitions(dtype: DType) -> String {
    let (kind, infinite) = match dtype {
        DType::Bool | DType::U8 => (0, "0"),
        DType::F16 => (2, "0x7c00u"),
        DType::BF16 => (2, "0x7f80u"),
        DType::F32 => (2, "0x7f800000u"),
        DType::F64 => (2, "0x7ff0000000000000ull"),
        _ => (1, "0"),
    };
    let (element, key) = (bits(dtype), bits(key_type(dtype)));
    let width = dtype.size() * 8;
    format!(
        "typedef {element} E;\ntypedef {key} K;\n#define BITS {width}\n#define KIND {kind}\n\
         #define INFINITE {infinite}\n#define THREADS {THREADS}\n#define TILE {TILE}\n"
    )
}

/// The integer type of as many bits as a key takes.
fn key_type(dtype: DType) -> DType {
    match dtype.size() {
        8 => DType::I64,
        _ => DType::I32,
    }
}

fn text(dtype: DType, of: &str) -> KernelSource {
    source(&[&definitions(dtype), KEYS, of])
}

/// Every source for every type.
pub(super) fn sources() -> Vec<KernelSource> {
    let texts = |dtype| [ROWS, COUNT, PLACE].map(|of| text(dtype, of));
    let mut all: Vec<KernelSource> = DType::ALL.into_iter().flat_map(texts).collect();
    all.push(source(&[SCAN]));
    all
}

/// What sorting gives: the positions (`I64`), and, where they are kept, the keys in their order.
pub(super) struct Sorted {
    pub positions: Array,
    pub keys: Array,
}

/// Sorts the rows of `n` elements of a dense array by the lowest `width` bits of their keys; stable, NaN the greatest.
///
/// # Errors
/// Out of memory; what the driver answers; rows of 2³² elements or more.
pub(super) fn argsort(
    x: &Array,
    n: usize,
    descending: bool,
    (width, keep): (u32, bool),
) -> Result<Sorted> {
    if u32::try_from(n).is_err() {
        return Err(Error::unsupported(format!(
            "sorting a dimension of {n} elements"
        )));
    }
    let device = x.buffer.device();
    let out = Array::empty(device, x.shape().clone(), DType::I64)?;
    let rows = x.numel().checked_div(n).unwrap_or(0);
    let dtype = x.dtype;
    let scratch = |elements: usize, of| Array::empty(device, Shape::from(elements), of);
    if rows == 0 {
        return Ok(Sorted {
            positions: out,
            keys: scratch(0, key_type(dtype))?,
        });
    }
    // All bits turned round put the greatest first.
    let flip = -i64::from(descending);
    if n <= SHORT {
        let padded = n.next_power_of_two();
        let threads = (padded / 2).clamp(32, 512) as u32;
        let keys = scratch(if keep { x.numel() } else { 0 }, key_type(dtype))?;
        Run {
            name: ("sort_rows", dtype, 0),
            device,
            arrays: &[x, &out, &keys],
            params: &[n as i64, padded as i64, flip, keep.into()],
            blocks: rows,
            threads,
        }
        .start(|| text(dtype, ROWS))?;
        return Ok(Sorted {
            positions: out,
            keys,
        });
    }
    let tiles = n.div_ceil(TILE);
    let passes = width.div_ceil(DIGIT) as usize;
    // Pass by pass from one to the other; the last keeps no keys unless it is asked to.
    let held = |of: usize, last: bool| match passes > of + 1 || (last && passes > of) {
        true => x.numel(),
        false => 0,
    };
    let mut keys = [
        scratch(held(0, keep), key_type(dtype))?,
        scratch(held(1, keep), key_type(dtype))?,
    ];
    let positions = [
        scratch(held(0, false), DType::I32)?,
        scratch(held(1, false), DType::I32)?,
    ];
    let counts = scratch(rows * 256 * tiles, DType::I32)?;
    let totals = scratch(rows * 256, DType::I32)?;
    for pass in 0..passes {
        let (first, last) = (pass == 0, pass + 1 == passes);
        let (here, there) = ((pass + 1) % 2, pass % 2);
        let from = if first { x } else { &keys[here] };
        let shift = (pass as u32 * DIGIT).into();
        Run {
            name: ("sort_count", dtype, 0),
            device,
            arrays: &[from, &counts],
            params: &[n as i64, tiles as i64, shift, first.into(), flip],
            blocks: rows * tiles,
            threads: THREADS,
        }
        .start(|| text(dtype, COUNT))?;
        Run {
            name: ("sort_scan", DType::I32, 0),
            device,
            arrays: &[&counts, &totals],
            params: &[tiles as i64],
            blocks: rows * 256,
            threads: 256,
        }
        .start(|| source(&[SCAN]))?;
        Run {
            name: ("sort_place", dtype, 0),
            device,
            arrays: &[
                from,
                &positions[here],
                &keys[there],
                &positions[there],
                &out,
                &counts,
                &totals,
            ],
            params: &[
                n as i64,
                tiles as i64,
                shift,
                first.into(),
                last.into(),
                keep.into(),
                flip,
            ],
            blocks: rows * tiles,
            threads: THREADS,
        }
        .start(|| text(dtype, PLACE))?;
    }
    Ok(Sorted {
        positions: out,
        keys: std::mem::replace(&mut keys[(passes + 1) % 2], counts),
    })
}
