//! Batches of small matrices: their products are sums, whose short axes are written out behind the batch.

use crate::common::{Rng, window};
use crate::{plan, run};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{DType, Isa};

/// Factors of 0 and 1: sums of eight products of three are exact in every type.
fn drawn(rng: &mut Rng, shape: &[usize], dtype: DType) -> Array {
    window(rng, shape, dtype, false, &mut |r| r.between(0, 1) as f64)
}

/// f·p·fᵀ + q of a batch of matrices p of `n` rows, whose columns follow one another where they are `turned`.
fn congruence(name: &str, batch: usize, n: usize, turned: bool) -> String {
    let square = n * n;
    let strides = match turned {
        true => format!("{square}, 1, {n}"),
        false => format!("{square}, {n}, 1"),
    };
    format!(
        "%0: {name}[{n}, {n}] = input 0 [{n}, 1]
         %1: {name}[{batch}, {n}, {n}] = input 1 [{strides}]
         %2: {name}[{n}, {n}] = input 2 [{n}, 1]
         %3: {name}[{batch}, {n}, {n}] = matmul(%0, %1)
         %4: {name}[{n}, {n}] = permute(%0) {{order: [1, 0]}}
         %5: {name}[{batch}, {n}, {n}] = matmul(%3, %4)
         %6: {name}[{batch}, {n}, {n}] = add(%5, %2)
         return %6"
    )
}

#[test]
fn batches_of_every_size_and_type() {
    let mut rng = Rng::new(71);
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::F16] {
        for n in [1, 2, 3, 4, 5, 8, 9] {
            for batch in [0, 1, 7, 33, 70] {
                let shapes: [&[usize]; 3] = [&[n, n], &[batch, n, n], &[n, n]];
                let mut arrays = shapes.map(|shape| drawn(&mut rng, shape, dtype));
                run(&congruence(dtype.name(), batch, n, false), &arrays, 0.0);
                let turned = arrays[1].layout.permute(&[0, 2, 1]);
                arrays[1] = arrays[1].clone().with_layout(turned);
                run(&congruence(dtype.name(), batch, n, true), &arrays, 0.0);
            }
        }
    }
}

/// Matrices that share one right matrix, or have one each; single rows; no terms; operands that broadcast.
#[test]
fn products_of_other_shapes() {
    let mut rng = Rng::new(72);
    for (left, right, result) in [
        ("[50, 4]", "[4, 3]", "[50, 3]"),
        ("[1, 8]", "[8, 8]", "[1, 8]"),
        ("[2, 0]", "[0, 3]", "[2, 3]"),
        ("[40, 1, 4]", "[40, 4, 4]", "[40, 1, 4]"),
        ("[40, 4, 4]", "[4, 1]", "[40, 4, 1]"),
        ("[5, 1, 20, 2]", "[1, 7, 2, 6]", "[5, 7, 20, 6]"),
        ("[3, 4]", "[65, 4, 2]", "[65, 3, 2]"),
    ] {
        let dims = |text: &str| -> Vec<usize> {
            let inner = text.trim_matches(['[', ']']).split(", ");
            inner.map(|n| n.parse().expect("a number")).collect()
        };
        let strides = |shape: &[usize]| -> String {
            let of = |i: usize| shape[i + 1..].iter().product::<usize>().to_string();
            (0..shape.len()).map(of).collect::<Vec<_>>().join(", ")
        };
        let shapes = [dims(left), dims(right)];
        let text = format!(
            "%0: f32{left} = input 0 [{}]
             %1: f32{right} = input 1 [{}]
             %2: f32{result} = matmul(%0, %1)
             %3: f32{result} = exp(%2)
             return %3",
            strides(&shapes[0]),
            strides(&shapes[1]),
        );
        let arrays = shapes.map(|shape| drawn(&mut rng, &shape, DType::F32));
        run(&text, &arrays, 1e-6);
    }
}

/// No call of the library is left, no product of elements is stored, and lanes go along the batch.
#[test]
fn lanes_go_along_the_batch() {
    let explained = plan(&congruence("f32", 256, 4, false)).explain();
    assert!(explained.calls().is_empty(), "{explained}");
    assert_eq!(explained.peak_bytes(), 4 * 4 * 4 * 256, "{explained}");
    for source in explained.sources() {
        if Isa::host() == Isa::Avx512 {
            assert!(source.contains("ft_interleave16_f32x16"), "{source}");
        }
    }
}

/// What reduces over a batch of small matrices, or over points, adds up their elements in each lane.
#[test]
fn reductions_over_a_batch() {
    let mut rng = Rng::new(74);
    for outputs in ["%6", "%6 %2", "%7", "%6 %7"] {
        for points in [0, 1, 31, 64, 500, 70_000] {
            let greatest = match outputs.contains("%7") {
                // No numbers have no greatest.
                true if points == 0 => continue,
                true => "%7: f32[] = max(%4) {dims: [0, 1], keepdim: false}",
                false => "",
            };
            let text = format!(
                "%0: f32[{points}, 3] = input 0 [3, 1]
                 %1: f32[3, 3] = input 1 [3, 1]
                 %2: f32[{points}, 3] = matmul(%0, %1)
                 %3: f32[{points}, 3] = input 2 [3, 1]
                 %4: f32[{points}, 3] = sub(%2, %3)
                 %5: f32[{points}, 3] = square(%4)
                 %6: f32[] = sum(%5) {{dims: [0, 1], keepdim: false}}
                 {greatest}
                 return {outputs}"
            );
            let shapes: [&[usize]; 3] = [&[points, 3], &[3, 3], &[points, 3]];
            let arrays = shapes.map(|shape| drawn(&mut rng, shape, DType::F32));
            run(&text, &arrays, 0.0);
        }
    }
}

/// The sum of a batch's elements is of the kernel that stores them, and its lanes go along the batch too.
#[test]
fn a_sum_of_a_batch_keeps_its_lanes() {
    let text = congruence("f32", 512, 4, false);
    let text = text.replace(
        "return %6",
        "%7: f32[] = sum(%6) {dims: [0, 1, 2], keepdim: false}
         return %6 %7",
    );
    let explained = plan(&text).explain();
    let sources = explained.sources();
    if Isa::host() == Isa::Avx512 {
        let along = |source: &&String| source.contains("ft_rows16_f32x16");
        assert_eq!(sources.iter().filter(along).count(), 2, "{sources:?}");
    }
    let mut rng = Rng::new(75);
    let shapes: [&[usize]; 3] = [&[4, 4], &[512, 4, 4], &[4, 4]];
    run(
        &text,
        &shapes.map(|shape| drawn(&mut rng, shape, DType::F32)),
        0.0,
    );
}

/// A matrix that reads its neighbours through a concatenation, as an adjugate does, has no branch left.
#[test]
fn concatenations_of_small_parts_are_written_out() {
    let text = "%0: f32[64, 2, 2] = input 0 [4, 2, 1]
         %1: f32[64, 1, 2] = narrow(%0) {dim: 1, start: 0, len: 1}
         %2: f32[64, 1, 2] = narrow(%0) {dim: 1, start: 1, len: 1}
         %3: f32[64, 1, 2] = neg(%2)
         %4: f32[64, 2, 2] = cat(%3, %1) {dim: 1}
         %5: f32[64, 2, 2] = matmul(%4, %0)
         return %5";
    let mut rng = Rng::new(73);
    run(text, &[drawn(&mut rng, &[64, 2, 2], DType::F32)], 0.0);
    let sources = plan(text).explain().sources().join("");
    let body = sources.split("void ft_").last().unwrap_or_default();
    assert!(!body.contains(">= 0)"), "{body}");
}
