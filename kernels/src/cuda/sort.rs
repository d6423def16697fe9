//! The positions that sort rows, and the first of them.

use super::library::{Run, bits, source};
use crate::Array;
use ferrotrace_runtime::{DType, Device, Error, KernelSource, Layout, Result, Shape};

const KEYS: &str = include_str!("sort.cu");
const NETWORK: &str = include_str!("network.cu");
const SHORT: &str = include_str!("sort_short.cu");
const ROWS: &str = include_str!("sort_rows.cu");
const CLEAR: &str = include_str!("sort_clear.cu");
const COUNT: &str = include_str!("sort_count.cu");
const SWEEP: &str = include_str!("sort_sweep.cu");
const TOP: &str = include_str!("top.cu");

/// Longest rows of the network in shared memory.
const NETWORK_ROW: usize = 64;
/// Elements of a thread that sorts a row in registers, and the sizes of blocks.
const EACH: usize = 8;
const THREADS: [u32; 5] = [32, 64, 128, 256, 512];
/// Threads of a block that sorts a tile by a digit.
const TILE_THREADS: u32 = 384;
/// Elements of a row that a block counts.
const SPAN: usize = 16384;
/// Bits of a digit, and digits.
const DIGIT: u32 = 8;
const DIGITS: usize = 1 << DIGIT;
/// Most elements that are selected; more are sorted.
const MOST: usize = 1000;
/// Blocks that rows are cut into for a selection, if they are long enough: pieces have as many elements, and as many times
/// those that are selected.
const BLOCKS: usize = 256;
const PIECE: usize = 16384;
const TIMES: usize = 16;

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
         #define INFINITE {infinite}\n"
    )
}

/// The integer type of as many bits as a key takes.
fn key_type(dtype: DType) -> DType {
    match dtype.size() {
        8 => DType::I64,
        _ => DType::I32,
    }
}

fn text(dtype: DType, of: &[&str]) -> KernelSource {
    source(&[&[&definitions(dtype), KEYS], of].concat())
}

/// The text of a block of so many threads, each with so many elements, of which so many run beside each other.
fn blocked(dtype: DType, (threads, each, blocks): (u32, usize, u32), of: &str) -> KernelSource {
    let sizes =
        format!("#define THREADS {threads}\n#define EACH {each}\n#define BLOCKS {blocks}\n");
    text(dtype, &[&sizes, of])
}

fn rows_text(dtype: DType, threads: u32) -> KernelSource {
    blocked(dtype, (threads, EACH, 1024 / threads), ROWS)
}

fn count_text(dtype: DType) -> KernelSource {
    text(dtype, &[&format!("#define SPAN {SPAN}\n"), COUNT])
}

/// Elements of a thread of a tile: the keys of a tile take the same memory for every type.
fn tile_each(dtype: DType) -> usize {
    64 / key_type(dtype).size()
}

fn sweep_text(dtype: DType) -> KernelSource {
    blocked(dtype, (TILE_THREADS, tile_each(dtype), 3), SWEEP)
}

/// The longest rows that registers and shared memory of a block hold.
fn longest(dtype: DType) -> usize {
    let threads = THREADS[if key_type(dtype).size() > 4 { 3 } else { 4 }];
    threads as usize * EACH
}

/// Every source for every type.
pub(super) fn sources() -> Vec<KernelSource> {
    let texts = |dtype: DType| {
        let threads = THREADS.into_iter();
        let held = threads.filter(move |&n| n as usize * EACH <= longest(dtype));
        let rows = held.map(move |threads| rows_text(dtype, threads));
        rows.chain([
            text(dtype, &[NETWORK, SHORT]),
            count_text(dtype),
            sweep_text(dtype),
            text(dtype, &[NETWORK, TOP]),
        ])
    };
    let mut all: Vec<KernelSource> = DType::ALL.into_iter().flat_map(texts).collect();
    all.push(source(&[CLEAR]));
    all
}

/// What sorting gives: the positions (`I64`), and, where they are kept, the keys in their order and what went with them.
pub(crate) struct Sorted {
    pub positions: Array,
    pub keys: Array,
    pub payload: Array,
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    pub descending: bool,
    /// The lowest bits of a key that tell.
    pub width: u32,
    /// Whether the keys are kept.
    pub keep: bool,
    /// Words of 4 bytes that go with the elements in place of their positions, where the rows are longer than a block holds.
    pub payload: Option<&'a Array>,
}

impl Order<'_> {
    /// The positions by whole keys.
    pub fn positions(dtype: DType, descending: bool) -> Self {
        Order {
            descending,
            width: dtype.size() as u32 * 8,
            keep: false,
            payload: None,
        }
    }

    /// All bits turned round put the greatest first.
    fn flip(&self) -> i64 {
        -i64::from(self.descending)
    }
}

fn empty(device: &Device, elements: usize, dtype: DType) -> Result<Array> {
    Array::empty(device, Shape::from(elements), dtype)
}

fn check(n: usize) -> Result<()> {
    match u32::try_from(n) {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::unsupported(format!(
            "sorting a dimension of {n} elements"
        ))),
    }
}

/// Whether rows of such elements are sorted by one block each.
pub(super) fn is_short(dtype: DType, n: usize) -> bool {
    n <= longest(dtype)
}

/// Sorts the rows of `n` elements of a dense array; stable, NaN the greatest.
///
/// # Errors
/// Out of memory; what the driver answers; rows of 2³² elements or more.
pub(crate) fn argsort(x: &Array, n: usize, order: Order<'_>) -> Result<Sorted> {
    check(n)?;
    let rows = x.numel().checked_div(n).unwrap_or(0);
    if rows == 0 || is_short(x.dtype, n) {
        return sort_rows(x, (rows, n), n, order, x.shape());
    }
    sort_tiles(x, (rows, n), order)
}

/// The first `most` positions of rows that a block holds, as an array of this shape.
fn sort_rows(
    x: &Array,
    (rows, n): (usize, usize),
    most: usize,
    order: Order<'_>,
    shape: &Shape,
) -> Result<Sorted> {
    let (device, dtype) = (x.buffer.device(), x.dtype);
    let out = Array::empty(device, shape.clone(), DType::I64)?;
    let keys = empty(
        device,
        if order.keep { x.numel() } else { 0 },
        key_type(dtype),
    )?;
    let keep = order.keep.into();
    let network = n <= NETWORK_ROW;
    let padded = n.next_power_of_two();
    let class = THREADS.iter().position(|&t| n <= t as usize * EACH);
    let class = class.unwrap_or(THREADS.len() - 1);
    let run = Run {
        name: match network {
            true => ("sort_short", dtype, 0),
            false => ("sort_rows", dtype, class as u32),
        },
        device,
        arrays: &[x, &out, &keys],
        params: &[
            n as i64,
            most as i64,
            keep,
            match network {
                true => padded as i64,
                false => order.width.into(),
            },
            order.flip(),
        ],
        blocks: rows,
        threads: match network {
            true => 32,
            false => THREADS[class],
        },
        shared: 0,
    };
    if rows > 0 {
        run.start(|| match network {
            true => text(dtype, &[NETWORK, SHORT]),
            false => rows_text(dtype, THREADS[class]),
        })?;
    }
    Ok(Sorted {
        positions: out,
        keys,
        payload: empty(device, 0, DType::I32)?,
    })
}

/// Sorts longer rows digit by digit.
fn sort_tiles(x: &Array, (rows, n): (usize, usize), order: Order<'_>) -> Result<Sorted> {
    let (device, dtype) = (x.buffer.device(), x.dtype);
    let tiles = n.div_ceil(TILE_THREADS as usize * tile_each(dtype));
    let passes = order.width.div_ceil(DIGIT).max(1) as usize;
    let digit = order.width.div_ceil(passes as u32).max(1);
    let carried = order.payload.is_some();
    // Pass by pass from one to the other; the last keeps no keys unless it is asked to.
    let held = |of: usize, last: bool| match passes > of + 1 || (last && passes > of) {
        true => x.numel(),
        false => 0,
    };
    let mut keys = [
        empty(device, held(0, order.keep), key_type(dtype))?,
        empty(device, held(1, order.keep), key_type(dtype))?,
    ];
    let mut words = [
        empty(device, held(0, carried), DType::I32)?,
        empty(device, held(1, carried), DType::I32)?,
    ];
    let out = match carried {
        true => empty(device, 0, DType::I64)?,
        false => Array::empty(device, x.shape().clone(), DType::I64)?,
    };
    let counts = rows * passes * DIGITS;
    let known = rows * tiles * DIGITS;
    // Counts of the rows, what tiles make known, and a number of tiles taken for each pass.
    let cleared = counts + 2 * known + passes;
    let all = empty(device, cleared, DType::I32)?;
    let part = |from: usize| {
        let shape = Shape::from(cleared - from);
        all.with_layout(Layout::new(shape, [1][..].into(), from))
    };
    let (counted, tickets) = (part(2 * known), part(2 * known + counts));
    Run {
        name: ("sort_clear", DType::I32, 0),
        device,
        arrays: &[&all],
        params: &[cleared as i64],
        blocks: cleared.div_ceil(1024),
        threads: 256,
        shared: 0,
    }
    .start(|| source(&[CLEAR]))?;
    let spans = n.div_ceil(SPAN);
    let (of_passes, of_digit) = (passes as i64, i64::from(digit));
    Run {
        name: ("sort_count", dtype, 0),
        device,
        arrays: &[x, &counted],
        params: &[n as i64, spans as i64, of_passes, of_digit, order.flip()],
        blocks: rows * spans,
        threads: 512,
        shared: 0,
    }
    .start(|| count_text(dtype))?;
    for pass in 0..passes {
        let (first, here, there) = (pass == 0, (pass + 1) % 2, pass % 2);
        let from = match order.payload {
            Some(payload) if first => payload,
            _ => &words[here],
        };
        Run {
            name: ("sort_sweep", dtype, 0),
            device,
            arrays: &[
                if first { x } else { &keys[here] },
                from,
                &keys[there],
                &words[there],
                &out,
                &counted,
                &all,
                &tickets,
            ],
            params: &[
                n as i64,
                tiles as i64,
                pass as i64,
                of_passes,
                of_digit,
                carried.into(),
                order.keep.into(),
                order.flip(),
            ],
            blocks: rows * tiles,
            threads: TILE_THREADS,
            shared: 0,
        }
        .start(|| sweep_text(dtype))?;
    }
    let last = (passes + 1) % 2;
    let none = empty(device, 0, DType::I32)?;
    Ok(Sorted {
        positions: out,
        keys: std::mem::replace(&mut keys[last], none.clone()),
        payload: std::mem::replace(&mut words[last], none),
    })
}

/// Whether so many of a row are selected, rather than all sorted.
pub fn selects(k: usize) -> bool {
    (1..=MOST).contains(&k)
}

/// The positions of the first `k` of the rows of `n` elements of a dense array in their order, as an array of this
/// shape; where elements are equal, the first ones.
///
/// # Errors
/// As [`argsort`].
pub(crate) fn top(
    x: &Array,
    (n, k): (usize, usize),
    descending: bool,
    shape: &Shape,
) -> Result<Array> {
    check(n)?;
    let rows = x.numel().checked_div(n).unwrap_or(0);
    let (device, dtype) = (x.buffer.device(), x.dtype);
    let order = Order::positions(dtype, descending);
    if rows == 0 || is_short(dtype, n) {
        return Ok(sort_rows(x, (rows, n), k, order, shape)?.positions);
    }
    let out = Array::empty(device, shape.clone(), DType::I64)?;
    // Bits of a position in a row.
    let width = usize::BITS - (n - 1).leading_zeros();
    let none = empty(device, 0, DType::I32)?;
    let (mut chosen, mut at) = (none.clone(), none.clone());
    let mut length = n;
    loop {
        let pieces = (length / PIECE.max(TIMES * k)).min(BLOCKS / rows).max(1);
        let last = pieces == 1;
        let left = if last { 0 } else { rows * pieces * k };
        let next = (
            empty(device, left, key_type(dtype))?,
            empty(device, left, DType::I32)?,
        );
        Run {
            name: ("top", dtype, 0),
            device,
            arrays: &[x, &chosen, &at, &next.0, &next.1, &out],
            params: &[
                length as i64,
                k as i64,
                pieces as i64,
                (length == n).into(),
                last.into(),
                width.into(),
                order.flip(),
            ],
            blocks: rows * pieces,
            threads: if length / pieces > PIECE { 1024 } else { 512 },
            shared: 0,
        }
        .start(|| text(dtype, &[NETWORK, TOP]))?;
        if last {
            return Ok(out);
        }
        (chosen, at) = next;
        length = pieces * k;
    }
}
