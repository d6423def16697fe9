//! What the tests of this folder share: arrays, comparisons, random graphs.
#![allow(dead_code, unreachable_pub)]

pub mod campaign;
pub mod device_forms;
pub mod device_kernels;
pub mod differentiate;
pub mod generate;
pub mod ready_made;
pub mod rng;
pub mod rounding;
pub mod track;
pub mod wide;

use ferrotrace_jit::{Graph, PlanInput};
use ferrotrace_kernels::{Array, ValueId, copy};
use ferrotrace_runtime::{Buffer, DType, Device, Element, Layout, Shape, Strides};
use half::{bf16, f16};
pub use rng::Rng;

/// A dense array of these elements.
pub fn dense<T: Element>(shape: &[usize], data: &[T]) -> Array {
    let buffer = Buffer::from_slice(&Device::cpu(), data).expect("memory");
    Array {
        buffer,
        layout: Layout::contiguous(Shape::new(shape)),
        dtype: T::DTYPE,
    }
}

/// A dense array of `f` of each position.
pub fn filled<T: Element>(shape: &[usize], f: impl Fn(usize) -> T) -> Array {
    let n: usize = shape.iter().product();
    dense(shape, &(0..n).map(f).collect::<Vec<T>>())
}

/// Binary32 numbers in -2..2.
pub fn noise(shape: &[usize], seed: u64) -> Array {
    let mut rng = Rng::new(seed);
    let n: usize = shape.iter().product();
    dense(
        shape,
        &(0..n)
            .map(|_| rng.uniform(-2.0, 2.0) as f32)
            .collect::<Vec<f32>>(),
    )
}

/// A buffer of these numbers rounded to a dtype.
pub fn buffer_of(values: &[f64], dtype: DType) -> Buffer {
    let cpu = Device::cpu();
    macro_rules! all {
        ($t:ty, $f:expr) => {
            Buffer::from_vec::<$t>(&cpu, values.iter().map($f).collect())
        };
    }
    let made = match dtype {
        DType::Bool => all!(bool, |x| *x != 0.0),
        DType::U8 => all!(u8, |x| *x as i64 as u8),
        DType::I8 => all!(i8, |x| *x as i8),
        DType::I16 => all!(i16, |x| *x as i16),
        DType::I32 => all!(i32, |x| *x as i32),
        DType::I64 => all!(i64, |x| *x as i64),
        DType::F16 => all!(f16, |x| f16::from_f64(*x)),
        DType::BF16 => all!(bf16, |x| bf16::from_f64(*x)),
        DType::F32 => all!(f32, |x| *x as f32),
        DType::F64 => all!(f64, |x| *x),
    };
    made.expect("memory")
}

/// An array of a shape on a random window: dense, permuted, spread, flipped, moved.
pub fn window(
    rng: &mut Rng,
    shape: &[usize],
    dtype: DType,
    strided: bool,
    value: &mut dyn FnMut(&mut Rng) -> f64,
) -> Array {
    let rank = shape.len();
    // A tensor without elements may have dimensions that are large together.
    let most = shape.iter().map(|&n| n.max(1) as u64).product::<u64>();
    let strided = strided && most <= 1 << 20;
    let mut strides = Strides::from_elem(0, rank);
    let mut order: Vec<usize> = (0..rank).collect();
    let (mut offset, mut size) = (0isize, 1isize);
    if strided {
        rng.shuffle(&mut order);
        for &d in order.iter().rev() {
            if shape[d] > 1 && rng.chance(10) {
                continue;
            }
            let step = if rng.chance(25) { 2 } else { 1 };
            let flip = rng.chance(20);
            strides[d] = if flip { -step * size } else { step * size };
            if flip {
                offset += (shape[d] as isize - 1).max(0) * step * size;
            }
            size *= step * shape[d].max(1) as isize;
        }
        let lead = if rng.chance(30) {
            rng.below(5) as isize
        } else {
            0
        };
        offset += lead;
        size += lead + if rng.chance(30) { 3 } else { 0 };
    } else {
        strides = Shape::new(shape).strides();
        size = shape.iter().product::<usize>() as isize;
    }
    let values: Vec<f64> = (0..size).map(|_| value(rng)).collect();
    let layout = Layout::new(
        Shape::new(shape),
        strides,
        if size == 0 { 0 } else { offset as usize },
    );
    Array {
        buffer: buffer_of(&values, dtype),
        layout,
        dtype,
    }
}

/// The bits of every element in row-major order, in the low bytes.
pub fn bits(array: &Array) -> Vec<u64> {
    macro_rules! all {
        ($t:ty, $f:expr) => {{
            let data = array.buffer.as_slice::<$t>();
            array.layout.offsets().map(|i| data[i]).map($f).collect()
        }};
    }
    match array.dtype {
        DType::Bool | DType::U8 => all!(u8, |x| x as u64),
        DType::I8 => all!(i8, |x| x as u8 as u64),
        DType::I16 => all!(i16, |x| x as u16 as u64),
        DType::I32 => all!(i32, |x| x as u32 as u64),
        DType::I64 => all!(i64, |x| x as u64),
        DType::F16 => all!(f16, |x: f16| x.to_bits() as u64),
        DType::BF16 => all!(bf16, |x: bf16| x.to_bits() as u64),
        DType::F32 => all!(f32, |x: f32| x.to_bits() as u64),
        DType::F64 => all!(f64, |x: f64| x.to_bits()),
    }
}

/// Every element in row-major order, as binary64.
pub fn values(array: &Array) -> Vec<f64> {
    let number = |b: u64| match array.dtype {
        DType::Bool | DType::U8 => b as u8 as f64,
        DType::I8 => b as u8 as i8 as f64,
        DType::I16 => b as u16 as i16 as f64,
        DType::I32 => b as u32 as i32 as f64,
        DType::I64 => b as i64 as f64,
        DType::F16 => f16::from_bits(b as u16).to_f64(),
        DType::BF16 => bf16::from_bits(b as u16).to_f64(),
        DType::F32 => f32::from_bits(b as u32) as f64,
        DType::F64 => f64::from_bits(b),
    };
    bits(array).into_iter().map(number).collect()
}

/// The first difference of two arrays of equal shape: bits must agree where `error` is 0 (the sign and payload of NaN
/// excepted, and the sign of zero with `any_zero`), else values within `error`.
pub fn difference(got: &Array, want: &Array, error: f64, any_zero: bool) -> Option<String> {
    if got.shape() != want.shape() || got.dtype != want.dtype {
        return Some(format!(
            "{}{} for {}{}",
            got.dtype,
            got.shape(),
            want.dtype,
            want.shape()
        ));
    }
    let (a, b) = (values(got), values(want));
    let (p, q) = (bits(got), bits(want));
    for i in 0..a.len() {
        let equal = p[i] == q[i]
            || (a[i].is_nan() && b[i].is_nan())
            || (any_zero && a[i] == 0.0 && b[i] == 0.0);
        let near = error > 0.0 && (a[i] - b[i]).abs() <= error;
        if !equal && !near {
            return Some(format!(
                "element {i}: {:?} for {:?} (within {error:e})",
                a[i], b[i]
            ));
        }
    }
    None
}

/// A graph's inputs for arrays, in order.
pub fn inputs_of(graph: &mut Graph, arrays: &[Array]) -> Vec<ValueId> {
    arrays
        .iter()
        .map(|a| graph.input(&a.layout, a.dtype, &Device::cpu()))
        .collect()
}

/// Plan inputs that keep their memory.
pub fn kept(arrays: &[Array]) -> Vec<PlanInput> {
    arrays
        .iter()
        .map(|a| PlanInput {
            array: a.clone(),
            donated: false,
        })
        .collect()
}

/// A dense copy in memory of its own.
pub fn copied(array: &Array) -> Array {
    copy::contiguous(&array.with_layout(array.layout.clone())).map_or_else(
        |e| panic!("{e}"),
        |a| Array {
            buffer: buffer_bits(&a),
            layout: Layout::contiguous(a.shape().clone()),
            dtype: a.dtype,
        },
    )
}

fn buffer_bits(array: &Array) -> Buffer {
    let b = bits(array);
    let cpu = Device::cpu();
    let made = match array.dtype.size() {
        1 => Buffer::from_vec::<u8>(&cpu, b.iter().map(|x| *x as u8).collect()),
        2 => Buffer::from_vec::<i16>(&cpu, b.iter().map(|x| *x as u16 as i16).collect()),
        4 => Buffer::from_vec::<i32>(&cpu, b.iter().map(|x| *x as u32 as i32).collect()),
        _ => Buffer::from_vec::<i64>(&cpu, b.iter().map(|x| *x as i64).collect()),
    };
    made.expect("memory")
}
