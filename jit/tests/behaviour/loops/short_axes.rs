//! Short axes written out as straight-line code: coordinates, colours, classes of a few.

use crate::common::{Rng, dense, noise, window};
use crate::{plan, run};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{DType, Isa};

/// Extents that are unrolled where vectors have so many lanes, and some that are not.
const EXTENTS: [usize; 13] = [2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16, 17];
/// Lengths of the axis that lanes go along: with and without lanes left over.
const LENGTHS: [usize; 4] = [32, 33, 64, 203];

fn sources(text: &str) -> String {
    plan(text).explain().sources().join("")
}

fn drawn(rng: &mut Rng, shape: &[usize], dtype: DType) -> Array {
    window(rng, shape, dtype, false, &mut |r| r.between(0, 9) as f64)
}

/// Each position of the axis is read and written by shuffles, in every width of an element.
#[test]
fn rows_beside_a_column_in_every_dtype() {
    let mut rng = Rng::new(51);
    for dtype in [
        DType::F32,
        DType::F64,
        DType::BF16,
        DType::F16,
        DType::I64,
        DType::I32,
        DType::I16,
        DType::I8,
        DType::U8,
    ] {
        let name = dtype.name();
        for c in EXTENTS {
            for n in LENGTHS {
                let text = format!(
                    "%0: {name}[{n}, {c}] = input 0 [{c}, 1]
                     %1: {name}[{n}, 1] = input 1 [1, 1]
                     %2: {name}[1, {c}] = input 2 [{c}, 1]
                     %3: {name}[{n}, {c}] = maximum(%0, %1)
                     %4: {name}[{n}, {c}] = add(%3, %2)
                     return %4"
                );
                let shapes = [[n, c], [n, 1], [1, c]];
                let arrays = shapes.map(|shape| drawn(&mut rng, &shape, dtype));
                run(&text, &arrays, 0.0);
            }
        }
        if Isa::host() == Isa::Avx512 && matches!(dtype, DType::F32 | DType::I32) {
            let text = format!(
                "%0: {name}[64, 9] = input 0 [9, 1]
                 %1: {name}[64, 1] = input 1 [1, 1]
                 %2: {name}[64, 9] = add(%0, %1)
                 return %2"
            );
            let text = sources(&text);
            for stem in ["ft_rows9_", "ft_interleave9_"] {
                assert!(text.contains(&format!("{stem}{name}")), "{text}");
            }
        }
        if Isa::host() == Isa::Avx512 {
            let text = format!(
                "%0: {name}[64, 3] = input 0 [3, 1]
                 %1: {name}[64, 1] = input 1 [1, 1]
                 %2: {name}[64, 3] = add(%0, %1)
                 return %2"
            );
            let text = sources(&text);
            for stem in ["ft_thirds_", "ft_interleave3_"] {
                assert!(text.contains(&format!("{stem}{name}")), "{text}");
            }
        }
    }
}

#[test]
fn reductions_over_few_columns() {
    let mut rng = Rng::new(52);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        let name = dtype.name();
        let total = if dtype.is_float() { name } else { "i64" };
        for c in EXTENTS {
            for n in LENGTHS {
                // Some equal elements, so that the first of several extremes matters; uses of the operand beside the
                // reductions keep these loops.
                let text = format!(
                    "%0: {name}[{n}, {c}] = input 0 [{c}, 1]
                     %1: {name}[{n}, 1] = max(%0) {{dims: [1], keepdim: true}}
                     %2: {name}[{n}, 1] = min(%0) {{dims: [1], keepdim: true}}
                     %3: {name}[{n}, {c}] = sub(%0, %1)
                     %4: {name}[{n}, {c}] = maximum(%3, %2)
                     %5: {total}[{n}] = sum(%4) {{dims: [1], keepdim: false}}
                     %6: {total}[{n}] = prod(%4) {{dims: [1], keepdim: false}}
                     %7: bool[{n}] = any(%4) {{dims: [1], keepdim: false}}
                     %8: bool[{n}] = all(%4) {{dims: [1], keepdim: false}}
                     %9: i64[{n}] = argmax(%4) {{dims: [1], keepdim: false}}
                     %10: i64[{n}] = argmin(%0) {{dims: [1], keepdim: false}}
                     return %4 %5 %6 %7 %8 %9 %10"
                );
                let x = window(&mut rng, &[n, c], dtype, false, &mut |r| {
                    r.between(-2, 2) as f64
                });
                run(&text, &[x], 0.0);
            }
        }
    }
}

#[test]
fn positions_of_nans_among_few_columns() {
    for c in EXTENTS {
        let n = 70;
        let mut data: Vec<f32> = (0..n * c).map(|i| (i * 7 % 5) as f32).collect();
        for (row, columns) in data.chunks_mut(c).enumerate() {
            if row % 3 > 0 {
                columns[row % c] = f32::NAN;
                columns[row / 2 % c] = f32::NAN;
            }
            columns[row * 5 % c] = if row % 7 == 0 { f32::INFINITY } else { 4.0 };
        }
        let x = dense(&[n, c], &data);
        let text = |name: &str| {
            format!(
                "%0: f32[{n}, {c}] = input 0 [{c}, 1]
                 %1: i64[{n}] = {name}(%0) {{dims: [1], keepdim: false}}
                 return %1"
            )
        };
        for (name, better) in [
            ("argmax", f32::gt as fn(&f32, &f32) -> bool),
            ("argmin", f32::lt),
        ] {
            let got = run(&text(name), std::slice::from_ref(&x), 0.0);
            let got: Vec<f64> = crate::common::values(&got[0]);
            for (row, columns) in data.chunks(c).enumerate() {
                let nan = columns.iter().position(|x| x.is_nan());
                let first = (1..c).fold(0, |best, i| match better(&columns[i], &columns[best]) {
                    true => i,
                    false => best,
                });
                assert_eq!(
                    got[row],
                    nan.unwrap_or(first) as f64,
                    "{name} of {columns:?}"
                );
            }
        }
    }
}

/// Sums over a long axis beside a short one: forces between bodies, means of colours.
#[test]
fn long_sums_beside_few_rows() {
    for c in EXTENTS {
        for n in [32, 77, 130] {
            let text = format!(
                "%0: f32[1, {n}, {c}] = input 0 [0, {c}, 1]
                 %1: f32[{n}, 1, {c}] = input 1 [{c}, 0, 1]
                 %2: f32[1, {n}] = input 2 [0, 1]
                 %3: f32[{n}, {n}, {c}] = sub(%0, %1)
                 %4: f32[{n}, {n}, {c}] = square(%3)
                 %5: f32[{n}, {n}] = sum(%4) {{dims: [2], keepdim: false}}
                 %6: f32[{n}, {n}] = add(%5, 0.01)
                 %7: f32[{n}, {n}] = pow(%6, -1.5)
                 %8: f32[{n}, {n}] = mul(%7, %2)
                 %9: f32[{n}, {n}, 1] = unsqueeze(%8) {{dim: 2}}
                 %10: f32[{n}, {n}, {c}] = mul(%3, %9)
                 %11: f32[{n}, {c}] = sum(%10) {{dims: [1], keepdim: false}}
                 %12: f32[{c}] = sum(%10) {{dims: [0, 1], keepdim: false}}
                 return %11 %12"
            );
            let (x, m) = (noise(&[1, n, c], 1), noise(&[1, n], 2));
            let y = Array {
                layout: ferrotrace_runtime::Layout::new(
                    [n, 1, c].into(),
                    [c as isize, 0, 1].into_iter().collect(),
                    0,
                ),
                ..x.clone()
            };
            // Magnitudes of terms add up to less than 20 n.
            run(&text, &[x, y, m], 16.0 * 20.0 * n as f64 / (1 << 24) as f64);
        }
    }
}

/// Masks, flips and gathers along the axis become constants or stay conditions.
#[test]
fn positions_along_the_axis() {
    let mut rng = Rng::new(53);
    for c in EXTENTS {
        for n in LENGTHS {
            let wide = c + 2;
            let text = format!(
                "%0: f32[{n}, {c}] = input 0 [{c}, 1]
                 %1: f32[{n}, 1] = input 1 [1, 1]
                 %2: i64[{n}, {c}] = input 2 [{c}, 1]
                 %3: f32[{n}, {c}] = flip(%0) {{dims: [1]}}
                 %4: f32[{n}, {c}] = gather(%3, %2) {{dim: 1}}
                 %5: f32[{n}, {wide}] = pad(%4, 2.5) {{pads: [[0, 0], [1, 1]]}}
                 %6: f32[{n}, {wide}] = mul(%5, %1)
                 return %6"
            );
            let x = drawn(&mut rng, &[n, c], DType::F32);
            let s = drawn(&mut rng, &[n, 1], DType::F32);
            let at = window(&mut rng, &[n, c], DType::I64, false, &mut |r| {
                r.below(c) as f64
            });
            run(&text, &[x, s, at], 0.0);
        }
    }
}
