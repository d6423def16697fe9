//! Images sampled at the positions of a grid.

use super::Table;
use crate::io::exported::call::{Call, Results, one};
use crate::{GridPadding, Interpolation, Sizes};

fn sampled(c: &Call<'_>) -> Results {
    let (x, grid) = (c.tensor("input")?, c.tensor("grid")?);
    let kind = match c.int_or("interpolation_mode", 0)? {
        1 => Interpolation::Nearest,
        2 => Interpolation::Bicubic,
        _ => Interpolation::Bilinear,
    };
    let padding = match c.int_or("padding_mode", 0)? {
        0 => GridPadding::Zeros,
        1 => GridPadding::Border,
        _ => GridPadding::Reflection,
    };
    one(x.grid_sample(grid, kind, padding, c.bool_or("align_corners", false)?))
}

/// The positions that affine maps give to the elements of images.
fn affine_grid(c: &Call<'_>) -> Results {
    let (theta, size) = (c.tensor("theta")?, c.sizes("size")?);
    one(theta.affine_grid(Sizes::from(&size[..]), c.bool_or("align_corners", false)?))
}

pub(in crate::io::exported::ops) const TABLE: Table = &[
    ("grid_sampler", "default", sampled),
    ("grid_sampler_2d", "default", sampled),
    ("grid_sampler_3d", "default", sampled),
    ("affine_grid_generator", "default", affine_grid),
];
