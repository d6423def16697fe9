//! Sampling at the positions of grids, values and gradients.

use super::cpu;
use crate::reference::{case, each};
use ferrotrace::prelude::*;
use ferrotrace::{GridPadding, Interpolation};

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
