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
/// Most and least elements of a row that a block counts, and blocks that all rows are cut into if there are as many.
const SPANS: (usize, usize) = (16384, 1024);
const COUNTERS: usize = 256;
/// Tiles of all rows up to which tiles are of a quarter of their size, and up to twice as many of half: so that more
/// multiprocessors have one.
const FEW_TILES: usize = 33;
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
    text(dtype, &[COUNT])
}

/// Elements of a thread of a tile: those of a whole one, whose keys take the same memory for every type, a half and a quarter.
fn tile_sizes(dtype: DType) -> [usize; 3] {
    let whole = 64 / key_type(dtype).size();
    [whole, whole / 2, whole / 4]
}

/// Which of them rows of `n` elements are cut by.
fn tiling(dtype: DType, rows: usize, n: usize) -> usize {
    let whole = TILE_THREADS as usize * tile_sizes(dtype)[0];
    match rows.saturating_mul(n.div_ceil(whole)) {
        tiles if tiles <= FEW_TILES => 2,
        tiles if tiles <= 2 * FEW_TILES => 1,
        _ => 0,
    }
}

fn sweep_text(dtype: DType, each: usize) -> KernelSource {
    blocked(dtype, (TILE_THREADS, each, 3), SWEEP)
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
            text(dtype, &[NETWORK, TOP]),
        ])
        .chain(tile_sizes(dtype).map(|each| sweep_text(dtype, each)))
    };
    let mut all: Vec<KernelSource> = DType::ALL.into_iter().flat_map(texts).collect();
    all.push(source(&[CLEAR]));
    all
}

/// What sorting gives: the positions, or what went with the elements.
pub(crate) struct Sorted {
    /// `I64`, or of the elements' type where those are kept.
    pub positions: Array,
    pub payload: Array,
}

/// How rows are sorted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order<'a> {
    pub descending: bool,
    /// The lowest bits of a key that tell.
    pub width: u32,
    /// Where the elements in their order and their positions are kept, if they are: integers of 4 or 8 bytes, ascending.
    pub kept: Option<[&'a Array; 2]>,
    /// Words of 4 bytes that go with the elements in place of their positions, where the rows are longer than a block holds.
    pub payload: Option<&'a Array>,
}

impl Order<'_> {
    /// The positions by whole keys.
    pub fn positions(dtype: DType, descending: bool) -> Self {
        Order {
            descending,
            width: dtype.size() as u32 * 8,
            kept: None,
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
    let none = empty(device, 0, DType::I32)?;
    let out = match order.kept {
        Some(_) => empty(device, 0, DType::I64)?,
        None => Array::empty(device, shape.clone(), DType::I64)?,
    };
    let [elements, at] = order.kept.unwrap_or([&none; 2]);
    let keep = order.kept.is_some().into();
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
        arrays: &[x, &out, elements, at],
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
        positions: order.kept.map_or(out, |[_, at]| at.clone()),
        payload: none,
    })
}

/// A sort of longer rows, digit by digit.
struct Passes<'a> {
    x: &'a Array,
    rows: usize,
    n: usize,
    order: Order<'a>,
    /// Which size tiles have.
    tiling: usize,
    tiles: usize,
    passes: usize,
    /// Bits of a digit.
    digit: u32,
}

/// What the passes share: what tiles make known, counts of the rows, and a number of tiles taken for each pass.
struct Counts([Array; 3]);

fn sort_tiles(x: &Array, (rows, n): (usize, usize), order: Order<'_>) -> Result<Sorted> {
    let tiling = tiling(x.dtype, rows, n);
    let tile = TILE_THREADS as usize * tile_sizes(x.dtype)[tiling];
    let passes = order.width.div_ceil(DIGIT).max(1) as usize;
    let sort = Passes {
        x,
        rows,
        n,
        order,
        tiling,
        tiles: n.div_ceil(tile),
        passes,
        digit: order.width.div_ceil(passes as u32).max(1),
    };
    sort.run(&sort.counts()?)
}

impl Passes<'_> {
    /// Counts the digits of the rows.
    fn counts(&self) -> Result<Counts> {
        let (x, n) = (self.x, self.n);
        let device = x.buffer.device();
        let counts = self.rows * self.passes * DIGITS;
        let known = 2 * self.rows * self.tiles * DIGITS;
        let cleared = counts + known + self.passes;
        let all = empty(device, cleared, DType::I32)?;
        let part = |from: usize| {
            let shape = Shape::from(cleared - from);
            all.with_layout(Layout::new(shape, [1][..].into(), from))
        };
        let (counted, tickets) = (part(known), part(known + counts));
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
        let span = (x.numel() / COUNTERS).next_multiple_of(SPANS.1);
        let span = span.clamp(SPANS.1, SPANS.0);
        let spans = n.div_ceil(span);
        Run {
            name: ("sort_count", x.dtype, 0),
            device,
            arrays: &[x, &counted],
            params: &[
                n as i64,
                span as i64,
                spans as i64,
                self.passes as i64,
                self.digit.into(),
                self.order.flip(),
            ],
            blocks: self.rows * spans,
            threads: 512,
            shared: 0,
        }
        .start(|| count_text(x.dtype))?;
        Ok(Counts([all, counted, tickets]))
    }

    /// Pass by pass from one memory to the other, the last to what is kept.
    fn run(&self, counts: &Counts) -> Result<Sorted> {
        let (x, order, passes) = (self.x, self.order, self.passes);
        let device = x.buffer.device();
        let carried = order.payload.is_some();
        let memory = |of: usize, last: bool, dtype| {
            let used = passes > of + 1 || (last && passes > of);
            empty(device, if used { x.numel() } else { 0 }, dtype)
        };
        let key = key_type(x.dtype);
        let keys = [memory(0, false, key)?, memory(1, false, key)?];
        let words = [
            memory(0, carried, DType::I32)?,
            memory(1, carried, DType::I32)?,
        ];
        let none = empty(device, 0, DType::I32)?;
        let out = match (order.kept, carried) {
            (_, true) => none.clone(),
            (Some([_, at]), _) => at.clone(),
            _ => Array::empty(device, x.shape().clone(), DType::I64)?,
        };
        let wide = !carried && out.dtype.size() == 8;
        for pass in 0..passes {
            let (here, there) = ((pass + 1) % 2, pass % 2);
            let ends = pass + 1 == passes;
            let from = match order.payload {
                Some(payload) if pass == 0 => [x, payload],
                _ if pass == 0 => [x, &words[here]],
                _ => [&keys[here], &words[here]],
            };
            let elements = match order.kept {
                Some([elements, _]) if ends => elements,
                _ => &keys[there],
            };
            let to = match ends && !carried && !wide {
                true => &out,
                false => &words[there],
            };
            self.sweep(pass, (from, [elements, to, &out]), (counts, wide))?;
        }
        let [even, odd] = words;
        Ok(Sorted {
            positions: out,
            payload: if passes % 2 == 1 { even } else { odd },
        })
    }

    /// One pass.
    fn sweep(
        &self,
        pass: usize,
        (from, to): ([&Array; 2], [&Array; 3]),
        (Counts([known, counted, tickets]), wide): (&Counts, bool),
    ) -> Result<()> {
        let (dtype, order) = (self.x.dtype, self.order);
        let ([keys, words], [elements, at, out]) = (from, to);
        Run {
            name: ("sort_sweep", dtype, self.tiling as u32),
            device: self.x.buffer.device(),
            arrays: &[keys, words, elements, at, out, counted, known, tickets],
            params: &[
                self.n as i64,
                self.tiles as i64,
                pass as i64,
                self.passes as i64,
                self.digit.into(),
                order.payload.is_some().into(),
                order.kept.is_some().into(),
                wide.into(),
                order.flip(),
            ],
            blocks: self.rows * self.tiles,
            threads: TILE_THREADS,
            shared: 0,
        }
        .start(|| sweep_text(dtype, tile_sizes(dtype)[self.tiling]))
    }
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
