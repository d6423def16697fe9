//! Gaussian elimination with partial pivoting by blocks, and equations by its factors.

use super::triangular::Triangles;
use super::update::{After, Step};
use super::{BLOCK, Faults, Lines, THREADS, blocks, moving, text};
use crate::Array;
use crate::copy::{Dense, copied_on};
use crate::cpu::linalg::{PACKED_HEAD as HEAD, Triangular};
use crate::cuda::library::Run;
use ferrotrace_runtime::{DType, Error, KernelSource, Result, Shape};

const BEGIN: &str = include_str!("lu_begin.cu");
const PANEL: &str = include_str!("lu_panel.cu");
const ROWS: &str = include_str!("lu_rows.cu");
const ORDER: &str = include_str!("lu_order.cu");
const ZEROS: &str = include_str!("lu_zeros.cu");

/// Most threads of a panel's block.
const PANEL_THREADS: usize = 1024;
/// Most bytes of a panel that a block shares; devices have at least 3 KiB more.
const PANEL_SHARED: usize = 95 << 10;
/// Threads that exchange rows, each of a column.
const ROW_THREADS: usize = 128;

fn order_text(dtype: DType, back: bool) -> KernelSource {
    text(dtype, &format!("constexpr bool BACK = {back};\n"), ORDER)
}

/// How a panel is eliminated: so many columns at a time, by threads with so many rows.
#[derive(Clone, Copy)]
struct Panel {
    columns: usize,
    rows: usize,
}

/// The forms of panels, those of most columns first. A thread's elements lie in its registers, of which a block of
/// [`PANEL_THREADS`] has 64 a thread.
fn panels(dtype: DType) -> Vec<Panel> {
    let of = |(columns, rows)| Panel { columns, rows };
    let single = [(8, 2), (8, 4), (4, 8), (2, 16)];
    let double = [(8, 2), (4, 4), (2, 8), (1, 16)];
    match dtype {
        DType::F32 => single.map(of).to_vec(),
        _ => double.map(of).to_vec(),
    }
}

impl Panel {
    /// The form for so many rows; `None` where they are too many.
    fn of(dtype: DType, rows: usize) -> Option<Panel> {
        let fits =
            |of: &Panel| rows <= of.rows * PANEL_THREADS && of.bytes(dtype, rows) <= PANEL_SHARED;
        panels(dtype).into_iter().find(fits)
    }

    /// Bytes of shared memory, as the kernel has them.
    fn bytes(self, dtype: DType, rows: usize) -> usize {
        self.columns * (rows.next_multiple_of(32) + 32 / self.columns) * dtype.size()
    }

    fn text(self, dtype: DType) -> KernelSource {
        let Panel { columns, rows } = self;
        let constants = format!("constexpr int SUB = {columns}, ROWS = {rows};\n");
        moving(dtype, &constants, PANEL)
    }

    /// The number of the form among those of a type.
    fn number(self) -> u32 {
        (self.columns * 64 + self.rows) as u32
    }
}

/// Every source for a type.
pub(super) fn sources(dtype: DType) -> Vec<KernelSource> {
    let mut all = vec![
        text(dtype, "", BEGIN),
        text(dtype, "", ROWS),
        text(dtype, "", ZEROS),
        order_text(dtype, false),
        order_text(dtype, true),
    ];
    all.extend(panels(dtype).into_iter().map(|of| of.text(dtype)));
    all
}

/// Where the factors of matrices of `n` rows lie in packed ones.
fn factors(n: usize) -> Lines {
    Lines::dense(HEAD + n, n).at(HEAD, 0)
}

/// Eliminates columns `start` to `end`, and exchanges rows of the others.
fn eliminate(
    [out, moves]: [&Array; 2],
    (n, start, end): (usize, usize, usize),
    count: usize,
) -> Result<()> {
    let (device, dtype, rows) = (out.buffer.device(), out.dtype, n - start);
    let panel = Panel::of(dtype, rows).ok_or_else(|| Error::internal("a panel is too long"))?;
    Run {
        name: ("lu_panel", dtype, panel.number()),
        device,
        arrays: &[out, moves],
        params: &[n, start, end].map(|n| n as i64),
        blocks: count,
        threads: rows.next_multiple_of(32).min(PANEL_THREADS) as u32,
        shared: panel.bytes(dtype, rows) as u32,
    }
    .start(|| panel.text(dtype))?;
    if n <= BLOCK {
        return Ok(());
    }
    let across = n.div_ceil(ROW_THREADS);
    Run {
        name: ("lu_rows", dtype, 0),
        device,
        arrays: &[out, moves],
        params: &[n, start, end, across].map(|n| n as i64),
        blocks: across * count,
        threads: ROW_THREADS as u32,
        shared: 0,
    }
    .start(|| text(dtype, "", ROWS))
}

/// The packed factors of dense matrices of `n` rows, as an array of this shape; `None` for more rows than a panel has.
///
/// # Errors
/// Out of memory; what the driver answers.
pub(crate) fn lu(x: &Array, n: usize, shape: &Shape) -> Result<Option<Array>> {
    let (device, dtype) = (x.buffer.device(), x.dtype);
    let out = Array::empty(device, shape.clone(), dtype)?;
    if x.numel() == 0 {
        return Ok(Some(out));
    }
    if Panel::of(dtype, n).is_none() {
        return Ok(None);
    }
    let count = x.numel() / (n * n);
    let moves = Array::empty(device, Shape::from(count * 3 * BLOCK), DType::I32)?;
    Run {
        name: ("lu_begin", dtype, 0),
        device,
        arrays: &[x, &out],
        params: &[n as i64, out.numel() as i64],
        blocks: blocks(out.numel()),
        threads: THREADS,
        shared: 0,
    }
    .start(|| text(dtype, "", BEGIN))?;
    let lines = factors(n);
    for start in (0..n).step_by(BLOCK) {
        let end = (start + BLOCK).min(n);
        eliminate([&out, &moves], (n, start, end), count)?;
        if end == n {
            break;
        }
        let step = |product, to, sizes, after| {
            Step {
                arrays: [&out; 4],
                faults: None,
                product,
                out: to,
                sizes,
                lower: false,
                after,
                count,
            }
            .start()
        };
        let (right, corner) = (lines.at(start, end), lines.at(end, end));
        let after = After::Solve {
            factors: lines.at(start, start),
            unit: true,
        };
        step(None, right, [BLOCK, n - end], after)?;
        let product = Some([lines.at(end, start), right]);
        step(product, corner, [n - end; 2], After::Nothing)?;
    }
    Ok(Some(out))
}

/// The solutions of a·x = b, or of aᵀ·x = b where `transposed`, by the packed factors of `a`, of one matrix or of each of the
/// batch; or the first matrix that has none, and its first pivot that is 0. `b` is dense, of `n` rows and `k` columns.
///
/// # Errors
/// Out of memory; what the driver answers.
pub(crate) fn solve(
    packed: &Array,
    b: &Array,
    (n, k): (usize, usize),
    transposed: bool,
    dense: Dense<'_>,
) -> Result<Result<Array, (usize, usize)>> {
    let (device, dtype) = (b.buffer.device(), b.dtype);
    if b.numel() == 0 {
        return Array::empty(device, b.shape().clone(), dtype).map(Ok);
    }
    let size = (HEAD + n) * n;
    let (matrices, count) = (packed.numel() / size, b.numel() / (n * k));
    let faults = Faults::empty(device, matrices)?;
    Run {
        name: ("lu_zeros", dtype, 0),
        device,
        arrays: &[packed, &faults.0],
        params: &[n as i64],
        blocks: matrices,
        threads: 32,
        shared: 0,
    }
    .start(|| text(dtype, "", ZEROS))?;
    let step = if matrices == count { size } else { 0 };
    let order = |x: &Array| {
        let out = Array::empty(device, b.shape().clone(), dtype)?;
        Run {
            name: ("lu_order", dtype, transposed.into()),
            device,
            arrays: &[packed, x, &out],
            params: &[n, k, step, x.numel()].map(|n| n as i64),
            blocks: blocks(x.numel()),
            threads: THREADS,
            shared: 0,
        }
        .start(|| order_text(dtype, transposed))?;
        Ok(out)
    };
    let lines = Lines {
        matrix: step as i64,
        ..factors(n)
    };
    let lines = if transposed { lines.turned() } else { lines };
    let solve = |x: &Array, upper, unit| {
        let form = Triangular { upper, unit };
        Triangles {
            array: packed,
            lines,
            form,
        }
        .solve(x, (n, k))
    };
    let out = if transposed {
        let x = copied_on(b, dense)?;
        solve(&x, false, false)?;
        solve(&x, true, true)?;
        order(&x)?
    } else {
        let x = order(b)?;
        solve(&x, false, true)?;
        solve(&x, true, false)?;
        x
    };
    Ok(faults.first()?.map_or(Ok(out), Err))
}
