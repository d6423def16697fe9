//! Sampling at the positions of grids, values and gradients.

use super::cpu;
use crate::reference::{case, each};
use ferrotrace::Interpolation;
use ferrotrace::prelude::*;

const KINDS: [(&str, Interpolation); 3] = [
    ("nearest", Interpolation::Nearest),
    ("bilinear", Interpolation::Bilinear),
    ("bicubic", Interpolation::Bicubic),
];
const PADDINGS: [(&str, GridPadding); 3] = [
    ("zeros", GridPadding::Zeros),
    ("border", GridPadding::Border),
    ("reflection", GridPadding::Reflection),
];

#[test]
fn samples_of_images_and_volumes() {
    let case = case("grids");
    each(|dtype, tolerance| {
        // Rounded to fewer bits, positions lie between other elements.
        if dtype == DType::BF16 {
            return;
        }
        for rank in [2, 3] {
            let x = case.input(&format!("x{rank}"), dtype).requires_grad();
            let grid = case.input(&format!("grid{rank}"), dtype).requires_grad();
            for align in [false, true] {
                for (kind, how) in &KINDS[..5 - rank] {
                    for (padding, beyond) in PADDINGS {
                        let name = format!("{rank}_{kind}_{padding}_{align}");
                        let y = x.grid_sample(&grid, *how, beyond, align);
                        assert_eq!(y.dtype(), dtype);
                        case.near(&name, &y, tolerance);
                        let by = grad(&y.square().sum(..), &[&x, &grid]);
                        case.near(&format!("{name}_dx"), &by[0], tolerance);
                        case.near(&format!("{name}_dgrid"), &by[1], tolerance);
                    }
                }
            }
        }
    });
}

#[test]
fn grids_of_affine_maps() {
    let case = case("grids");
    each(|dtype, tolerance| {
        for (rank, size) in [(2, &[2, 1, 3, 6][..]), (3, &[2, 1, 2, 3, 3])] {
            let theta = case.input(&format!("theta{rank}"), dtype).requires_grad();
            for align in [false, true] {
                let name = format!("affine{rank}_{align}");
                let y = theta.affine_grid(size, align);
                case.near(&name, &y, tolerance);
                let by = grad(&y.square().sum(..), &[&theta]);
                case.near(&format!("{name}_dtheta"), &by[0], tolerance);
            }
        }
    });
}

#[test]
fn grids_that_do_not_fit_are_errors() {
    let of = |shape: &[usize]| Tensor::ones(shape, DType::F32, &cpu());
    let (bilinear, zeros) = (Interpolation::Bilinear, GridPadding::Zeros);
    let x = of(&[2, 3, 4, 5]);
    for grid in [
        of(&[2, 3, 6, 3]),
        of(&[1, 3, 6, 2]),
        of(&[3, 6, 2]),
        of(&[2, 3, 6, 2]).to_dtype(DType::I64),
    ] {
        assert!(
            x.grid_sample(&grid, bilinear, zeros, false)
                .error()
                .is_some()
        );
    }
    let grid = of(&[2, 3, 6, 2]);
    let kind = Interpolation::Trilinear;
    assert!(x.grid_sample(&grid, kind, zeros, false).error().is_some());
    let volume = of(&[2, 3, 4, 5, 6]);
    let (grid, kind) = (of(&[2, 1, 1, 1, 3]), Interpolation::Bicubic);
    let sampled = volume.grid_sample(&grid, kind, zeros, false);
    assert!(sampled.error().is_some());
    assert!(
        of(&[2, 2, 3])
            .affine_grid([1, 1, 4, 5], false)
            .error()
            .is_some()
    );
    assert!(
        of(&[2, 2, 3])
            .affine_grid([2, 1, 4], false)
            .error()
            .is_some()
    );
}

/// Numbers of PyTorch on the CPU.
#[test]
fn positions_that_are_infinite_or_no_numbers() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let x = Tensor::arange(1, 13, 1, DType::F64, &cpu()).reshape([1, 1, 3, 4]) / 4.0;
    let points = [
        inf, 0.25, -inf, 0.25, nan, 0.25, 0.25, nan, 0.25, inf, nan, nan, 1e30, 0.25,
    ];
    let grid = Tensor::from_slice(&points, [1, 1, 7, 2], &cpu());
    let volume = Tensor::arange(1, 25, 1, DType::F64, &cpu()).reshape([1, 1, 2, 3, 4]) / 4.0;
    let points = [inf, 0.2, 0.2, nan, 0.2, 0.2, 0.2, nan, 0.2, -inf, inf, nan];
    let grid3 = Tensor::from_slice(&points, [1, 1, 1, 4, 3], &cpu());
    let (zeros, border) = (GridPadding::Zeros, GridPadding::Border);
    let (nearest, bilinear) = (Interpolation::Nearest, Interpolation::Bilinear);
    let equal = |y: Tensor, want: &[f64]| {
        let got = y.to_vec::<f64>().unwrap();
        let same = |(a, b): (&f64, &f64)| (a.is_nan() && b.is_nan()) || (a - b).abs() < 1e-9;
        assert!(got.iter().zip(want).all(same), "{got:?} for {want:?}");
    };
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let of = |kind, padding| x.grid_sample(&grid, kind, padding, false);
            equal(of(nearest, zeros), &[0.0; 7]);
            equal(
                of(nearest, border),
                &[2.0, 1.25, 1.25, 0.75, 2.75, 0.25, 2.0],
            );
            equal(of(bilinear, zeros), &[nan, nan, nan, nan, nan, nan, 0.0]);
            let want = [2.375, 1.625, 1.625, 0.75, 2.75, 0.25, 2.375];
            equal(of(bilinear, border), &want);
            let want = [1.625, 1.625, 1.625, 0.75, 0.75, 0.25];
            let reflected = of(bilinear, GridPadding::Reflection);
            equal(reflected.narrow(3, 0, 6), &want);
            equal(
                of(Interpolation::Bicubic, border),
                &[nan, nan, nan, nan, nan, nan, 2.47021484375],
            );
            let of = |kind, padding| volume.grid_sample(&grid3, kind, padding, false);
            equal(of(nearest, zeros), &[0.0; 4]);
            equal(of(bilinear, zeros), &[0.0; 4]);
            equal(of(bilinear, border), &[4.4, 4.4, 4.825, 5.25]);
            let want = [4.4, 4.4, 4.825, 6.0];
            equal(of(bilinear, GridPadding::Reflection), &want);
            // No gradient beyond a volume.
            let x = volume.requires_grad();
            let y = x.grid_sample(&grid3, bilinear, zeros, false).sum(..);
            equal(grad(&y, &[&x]).remove(0), &[0.0; 24]);
        });
    }
}
