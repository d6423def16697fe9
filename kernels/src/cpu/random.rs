//! Random numbers by counter (`support::philox`): element i depends on key, offset and i alone.

use super::create::generate;
use super::isa::{Loop, dispatch};
use crate::Array;
use crate::support::philox;
use ferrotrace_runtime::{DType, Device, Result, Shape};

/// What to draw: the generator's key, the counter of element 0, and the result's form.
#[derive(Debug)]
pub struct Draw<'a> {
    /// The key.
    pub key: u64,
    /// The counter.
    pub offset: u64,
    /// The device.
    pub device: &'a Device,
    /// The shape.
    pub shape: &'a Shape,
    /// The dtype.
    pub dtype: DType,
}

/// Words of four blocks at a time become elements by `f`.
struct Words32<'a, T, F: Each<u32, T>> {
    key: u64,
    offset: u64,
    first: usize,
    out: &'a mut [T],
    f: F,
}

/// The function that makes an element of random bits.
trait Each<B, T>: Copy + Sync {
    fn value(self, bits: B) -> T;
}

impl<T: Copy, F: Each<u32, T>> Loop for Words32<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Words32 {
            key,
            offset,
            first,
            out,
            f,
        } = self;
        // Blocks of elements start at multiples of four: `generate` promises it.
        let block = offset.wrapping_add(first as u64 / 4);
        let mut words = [[0u32; 4]; 16];
        for (i, out) in out.chunks_mut(64).enumerate() {
            for (j, four) in words.iter_mut().enumerate() {
                *four = philox::philox(key, block.wrapping_add((i * 16 + j) as u64));
            }
            for (x, &bits) in out.iter_mut().zip(words.as_flattened()) {
                *x = f.value(bits);
            }
        }
    }
}

struct Words64<'a, T, F: Each<u64, T>> {
    key: u64,
    offset: u64,
    first: usize,
    out: &'a mut [T],
    f: F,
}

impl<T: Copy, F: Each<u64, T>> Loop for Words64<'_, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Words64 {
            key,
            offset,
            first,
            out,
            f,
        } = self;
        let block = offset.wrapping_add(first as u64 / 2);
        let mut words = [[0u32; 4]; 16];
        for (i, out) in out.chunks_mut(32).enumerate() {
            for (j, four) in words.iter_mut().enumerate() {
                *four = philox::philox(key, block.wrapping_add((i * 16 + j) as u64));
            }
            for (x, pair) in out.iter_mut().zip(words.as_flattened().as_chunks::<2>().0) {
                *x = f.value(pair[0] as u64 | (pair[1] as u64) << 32);
            }
        }
    }
}

/// A unit struct that turns bits to an element.
macro_rules! each {
    ($name:ident { $($field:ident: $t:ty),* } $bits:ident: $B:ty => $T:ty, $e:expr) => {
        #[derive(Clone, Copy)]
        struct $name { $($field: $t),* }
        impl Each<$B, $T> for $name {
            #[inline(always)]
            fn value(self, $bits: $B) -> $T {
                $(let $field = self.$field;)*
                $e
            }
        }
    };
}

each!(Uniform32 { shift: u32, unit: f32 } bits: u32 => f32, (bits >> shift) as i32 as f32 * unit);
each!(Uniform64 {} bits: u64 => f64, (bits >> 11) as i64 as f64 * 1.1102230246251565e-16);
each!(Bits63 {} bits: u64 => i64, (bits >> 1) as i64);
each!(Event { below: f64 } bits: u32 => u8, ((bits as f64) < below) as u8);
each!(Narrow { low: i64, range: u64 } bits: u64 => i64, low.wrapping_add((((bits >> 32) * range) >> 32) as i64));
each!(Modulus { low: i64, range: u64 } bits: u64 => i64, low.wrapping_add((bits % range) as i64));

impl Draw<'_> {
    fn words32<T: Copy + Default>(&self, made: DType, f: impl Each<u32, T>) -> Result<Array> {
        let (key, offset) = (self.key, self.offset);
        generate(
            self.device,
            self.shape,
            made,
            self.dtype,
            |first, out: &mut [T]| {
                dispatch(Words32 {
                    key,
                    offset,
                    first,
                    out,
                    f,
                });
            },
        )
    }

    fn words64<T: Copy + Default>(&self, made: DType, f: impl Each<u64, T>) -> Result<Array> {
        let (key, offset) = (self.key, self.offset);
        generate(
            self.device,
            self.shape,
            made,
            self.dtype,
            |first, out: &mut [T]| {
                dispatch(Words64 {
                    key,
                    offset,
                    first,
                    out,
                    f,
                });
            },
        )
    }
}

/// Uniform in [0, 1), in multiples of what the dtype represents exactly below 1.
///
/// # Errors
/// Out of memory.
pub fn uniform(draw: &Draw<'_>) -> Result<Array> {
    match draw.dtype {
        DType::F64 => draw.words64(DType::F64, Uniform64 {}),
        DType::F16 => draw.words32(
            DType::F32,
            Uniform32 {
                shift: 21,
                unit: 0.00048828125,
            },
        ),
        DType::BF16 => draw.words32(
            DType::F32,
            Uniform32 {
                shift: 24,
                unit: 0.00390625,
            },
        ),
        _ => draw.words32(
            DType::F32,
            Uniform32 {
                shift: 8,
                unit: 5.960_464_5e-8,
            },
        ),
    }
}

/// Standard normal.
///
/// # Errors
/// Out of memory.
pub fn normal(draw: &Draw<'_>) -> Result<Array> {
    let (key, offset) = (draw.key, draw.offset);
    if draw.dtype == DType::F64 {
        return generate(
            draw.device,
            draw.shape,
            DType::F64,
            DType::F64,
            |first, out: &mut [f64]| {
                dispatch(Normal64 {
                    key,
                    offset,
                    first,
                    out,
                });
            },
        );
    }
    generate(
        draw.device,
        draw.shape,
        DType::F32,
        draw.dtype,
        |first, out: &mut [f32]| {
            dispatch(Normal32 {
                key,
                offset,
                first,
                out,
            });
        },
    )
}

struct Normal32<'a> {
    key: u64,
    offset: u64,
    first: usize,
    out: &'a mut [f32],
}

impl Loop for Normal32<'_> {
    type Output = ();

    /// Four elements share a block, which is computed once when they are made together.
    #[inline(always)]
    fn run(self) {
        let Normal32 {
            key,
            offset,
            first,
            out,
        } = self;
        let (fours, rest) = out.as_chunks_mut::<4>();
        let block = offset.wrapping_add(first as u64 / 4);
        for (i, four) in fours.iter_mut().enumerate() {
            let block = block.wrapping_add(i as u64);
            *four = [
                philox::normal_f32(key, block, 0),
                philox::normal_f32(key, block, 1),
                philox::normal_f32(key, block, 2),
                philox::normal_f32(key, block, 3),
            ];
        }
        let done = fours.len() * 4;
        for (k, x) in rest.iter_mut().enumerate() {
            *x = philox::normal_f32(key, offset, (first + done + k) as u64);
        }
    }
}

struct Normal64<'a> {
    key: u64,
    offset: u64,
    first: usize,
    out: &'a mut [f64],
}

impl Loop for Normal64<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Normal64 {
            key,
            offset,
            first,
            out,
        } = self;
        let (pairs, rest) = out.as_chunks_mut::<2>();
        let block = offset.wrapping_add(first as u64 / 2);
        for (i, pair) in pairs.iter_mut().enumerate() {
            let block = block.wrapping_add(i as u64);
            *pair = [
                philox::normal_f64(key, block, 0),
                philox::normal_f64(key, block, 1),
            ];
        }
        let done = pairs.len() * 2;
        for (k, x) in rest.iter_mut().enumerate() {
            *x = philox::normal_f64(key, offset, (first + done + k) as u64);
        }
    }
}

/// Uniform integers in [low, high); `low` everywhere if the range is empty.
///
/// # Errors
/// Out of memory.
pub fn integers(draw: &Draw<'_>, low: i64, high: i64) -> Result<Array> {
    let range = (high.wrapping_sub(low) as u64).max(1);
    if range <= 1 << 32 {
        draw.words64(DType::I64, Narrow { low, range })
    } else {
        draw.words64(DType::I64, Modulus { low, range })
    }
}

/// 1 with probability `p`, else 0.
///
/// # Errors
/// Out of memory.
pub fn bernoulli(draw: &Draw<'_>, p: f64) -> Result<Array> {
    draw.words32(
        DType::U8,
        Event {
            below: p * 4294967296.0,
        },
    )
}

/// Uniform integers of 63 bits.
///
/// # Errors
/// Out of memory.
pub fn bits(draw: &Draw<'_>) -> Result<Array> {
    draw.words64(DType::I64, Bits63 {})
}
