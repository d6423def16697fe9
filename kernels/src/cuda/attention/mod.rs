//! The gradients of attention by blocks: no matrix of scores lies in memory.
//!
//! After Dao, FlashAttention-2 (2023), with a pass over keys for the gradient of queries in place of additions into memory,
//! so that the bits are the same in every run. One kernel finds for each query what its weights sum to and Σ g∘o, and the
//! gradient of the query (`rows.cu`); a second one the gradients of keys and values (`keys.cu`). Matrices that several of
//! the batch share have the sum of their gradients, in order.

use super::library::Run;
use super::tiles::{self, GROUP, HALF, SINGLE, TILES};
use crate::support::{self, SCALAR, need};
use crate::{ArgMeta, Array};
use ferrotrace_runtime::{DType, KernelSource, Result, Shape};
use std::collections::BTreeSet;

const GRADIENT: &str = include_str!("gradient.cu");
const ROWS: &str = include_str!("rows.cu");
const KEYS: &str = include_str!("keys.cu");

/// Queries, or keys, of a block.
const BLOCK: usize = 64;
/// The widest keys and values: their gradients lie in registers.
const WIDEST: usize = 128;
/// Most dimensions of a batch.
const BATCH: usize = 4;

/// What of a score is not the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hides {
    Nothing,
    Later,
    Truth,
    Added,
}

/// What a kernel's text depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    dtype: DType,
    /// Padded widths of keys and values.
    widths: [usize; 2],
    /// Keys, or queries, of a step.
    step: usize,
    /// Blocks that a multiprocessor holds at once.
    resident: usize,
    /// Whether groups of warps multiply where the device has that.
    groups: bool,
    hides: Hides,
}

impl Form {
    /// `None` for types and widths that the kernels do not have.
    fn of(dtype: DType, widths: [usize; 2], hides: Hides) -> Option<Form> {
        let known = matches!(dtype, DType::F16 | DType::BF16 | DType::F32);
        let widest = widths[0].max(widths[1]);
        if !known || widest > WIDEST || widths.contains(&0) {
            return None;
        }
        let padded = |unit: usize| widths.map(|n| n.next_multiple_of(unit));
        // Panels of 64 columns, of which at most a quarter is padding.
        let panels = padded(64);
        let full = widths.iter().zip(panels).all(|(&n, m)| 4 * n >= 3 * m);
        let groups = dtype.is_half() && full;
        let (step, resident) = match (dtype, widest) {
            (DType::F32, 0..=64) => (32, 2),
            (DType::F32, _) => (32, 1),
            (_, 0..=64) => (64, 2),
            _ if groups => (64, 2),
            _ => (32, 2),
        };
        Some(Form {
            dtype,
            widths: if groups { panels } else { padded(16) },
            step,
            resident,
            groups,
            hides,
        })
    }

    /// Bytes that a block shares: a tile of either side's two operands, and two stages of the other's.
    fn shared(&self) -> usize {
        let size = self.dtype.size();
        let row: usize = self.widths.iter().map(|n| n * size + 16).sum();
        (BLOCK + 2 * self.step) * row
    }

    /// The number of the form among those of a type.
    fn number(&self) -> u32 {
        let [d, e] = self.widths.map(|n| n as u32 / 16);
        (d * 16 + e) * 8 + self.hides as u32 * 2 + u32::from(self.groups)
    }

    fn text(&self, kernel: &str) -> KernelSource {
        let (products, templates): (_, &[&'static str]) = match (self.dtype, self.groups) {
            (DType::F32, _) => ("ft_single", &[TILES, SINGLE]),
            (DType::F16, true) => ("ft_group<false>", &[TILES, HALF, GROUP]),
            (DType::F16, false) => ("ft_half<false>", &[TILES, HALF]),
            (_, true) => ("ft_group<true>", &[TILES, HALF, GROUP]),
            (_, false) => ("ft_half<true>", &[TILES, HALF]),
        };
        let mut needs = BTreeSet::from([need("types", SCALAR)]);
        if self.dtype.is_half() {
            needs.extend(tiles::needs());
        }
        let mut parts = support::parts(&needs);
        parts.extend(tiles::parts(templates));
        let ([d, e], step, resident) = (self.widths, self.step, self.resident);
        let causal = self.hides == Hides::Later;
        let mask = match self.hides {
            Hides::Nothing | Hides::Later => 0,
            Hides::Truth => 1,
            Hides::Added => 2,
        };
        let constants = format!(
            "typedef {products} P;\nconstexpr int D = {d}, E = {e}, N = {step}, RESIDENT = {resident}, MASK = {mask};\n\
             constexpr bool CAUSAL = {causal};\n"
        );
        KernelSource {
            parts,
            body: [&constants, GRADIENT, kernel].concat().into(),
            finish: false,
            name: "".into(),
        }
    }
}

/// Every source for every type, of a few widths.
pub(super) fn sources() -> Vec<KernelSource> {
    let mut all = Vec::new();
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        for (widths, hides) in [
            ([64, 64], Hides::Later),
            ([64, 64], Hides::Truth),
            ([128, 128], Hides::Nothing),
            ([16, 80], Hides::Added),
            ([112, 32], Hides::Later),
        ] {
            let form = Form::of(dtype, widths, hides);
            all.extend(
                form.iter()
                    .flat_map(|form| [form.text(ROWS), form.text(KEYS)]),
            );
        }
    }
    all
}

/// The sizes of a batch of matrices along four dimensions, behind which stand rows and columns; `None` for more.
fn lead(shape: &Shape) -> Option<[usize; BATCH]> {
    let n = shape.rank().checked_sub(2).filter(|&n| n <= BATCH)?;
    let mut sizes = [1; BATCH];
    sizes[BATCH - n..].copy_from_slice(&shape[..n]);
    Some(sizes)
}

/// What the operands' shapes and types say.
struct Call {
    form: Form,
    /// The batch, and of how many matrices of queries and of keys it consists along its dimensions.
    batch: [[usize; BATCH]; 3],
    /// Queries, keys, their width and that of values.
    sizes: [usize; 4],
}

impl Call {
    /// Of query, key, value, result, its gradient and the mask; `None` where the kernels have no such form.
    fn of(args: &[ArgMeta<'_>], causal: bool) -> Option<Call> {
        let tensors: Option<Vec<(&Shape, DType)>> = args.iter().map(ArgMeta::tensor).collect();
        let tensors = tensors?;
        let [(q, dtype), (k, _), (v, _), (o, _), (g, _), mask @ ..] = &tensors[..] else {
            return None;
        };
        let last = |x: &Shape, back: usize| x.rank().checked_sub(back).map(|d| x[d]);
        let sizes = [last(q, 2)?, last(k, 2)?, last(q, 1)?, last(v, 1)?];
        let batch = [lead(g)?, lead(q)?, lead(k)?];
        let hides = match mask {
            [] if causal => Hides::Later,
            [] => Hides::Nothing,
            [(_, DType::Bool)] => Hides::Truth,
            [(_, DType::F32)] => Hides::Added,
            _ => return None,
        };
        let alike = tensors[..5].iter().all(|(_, of)| of == dtype);
        let whole = o == g && lead(v)? == batch[2];
        let small = sizes.iter().all(|&n| n > 0 && n < 1 << 30);
        let form = Form::of(*dtype, [sizes[2], sizes[3]], hides)?;
        (alike && whole && small && g.numel() > 0).then_some(Call { form, batch, sizes })
    }

    /// Blocks of one of the kernels: those of so many lines of each matrix.
    fn blocks(&self, of: [usize; BATCH], lines: usize) -> usize {
        of.iter().product::<usize>() * lines.div_ceil(BLOCK)
    }
}

/// Whether the kernels take such operands on a device whose blocks share that many bytes.
pub(crate) fn takes(args: &[ArgMeta<'_>], causal: bool, shared: usize) -> bool {
    Call::of(args, causal).is_some_and(|call| call.form.shared() <= shared)
}

/// The gradients of query, key and value, one behind the other, from these, the result, its gradient and the mask, if any;
/// `None` where the kernels have no such form.
///
/// # Errors
/// Out of memory; what the driver answers.
pub(crate) fn gradients(args: &[&Array], causal: bool, scale: f64) -> Result<Option<Array>> {
    let metas: Vec<ArgMeta<'_>> = args
        .iter()
        .map(|x| ArgMeta::Tensor(x.shape(), x.dtype))
        .collect();
    let (Some(call), [q, k, v, o, g, ..]) = (Call::of(&metas, causal), args) else {
        return Ok(None);
    };
    let ([batch, queries, keys], [rows, columns, width, values]) = (call.batch, call.sizes);
    let device = q.buffer.device();
    let out = Shape::from(q.numel() + k.numel() + v.numel());
    let out = Array::empty(device, out, q.dtype)?;
    let lines = batch.iter().product::<usize>() * rows;
    let known = Array::empty(device, Shape::from(2 * lines), DType::F32)?;
    let mask = args.get(5).copied();
    let mut params: Vec<i64> = Vec::new();
    for x in [*q, *k, *v, *o, *g, mask.unwrap_or(q)] {
        params.extend(steps(x));
    }
    for sizes in [&batch[..], &queries, &keys, &[rows, columns, width, values]] {
        params.extend(sizes.iter().map(|&n| n as i64));
    }
    let scale = match scale.is_nan() {
        true => 1.0 / (width as f64).sqrt(),
        false => scale,
    };
    params.push(scale.to_bits() as i64);
    let arrays = [*q, *k, *v, *o, *g, mask.unwrap_or(q), &out, &known];
    let kernels = [
        ("attention_rows", ROWS, call.blocks(queries, rows)),
        ("attention_keys", KEYS, call.blocks(keys, columns)),
    ];
    for (name, text, blocks) in kernels {
        Run {
            name: (name, q.dtype, call.form.number()),
            device,
            arrays: &arrays,
            params: &params,
            blocks,
            threads: 128,
            shared: call.form.shared() as u32,
        }
        .start(|| call.form.text(text))?;
    }
    Ok(Some(out))
}

/// The distances of an operand's rows and columns, and of its matrices along the batch: 0 along what has one place.
fn steps(x: &Array) -> [i64; BATCH + 2] {
    let (shape, strides) = (x.shape(), x.layout.strides());
    let of = |back: usize| match shape.rank().checked_sub(back) {
        Some(d) if shape[d] != 1 => strides[d] as i64,
        _ => 0,
    };
    [2, 1, 6, 5, 4, 3].map(of)
}
