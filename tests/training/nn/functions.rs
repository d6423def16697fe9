//! Methods that others express, and layers of them, against numbers of PyTorch, values and gradients, in both modes and several
//! dtypes, of dense and strided tensors.

use super::cpu;
use crate::reference::{Case, case, each};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;

/// The inputs of the functions.
struct Inputs {
    case: Case,
    dtype: DType,
    strided: bool,
    tolerance: f64,
}

impl Inputs {
    fn get(&self, name: &str) -> Tensor {
        let x = self.case.input(name, self.dtype);
        if !self.strided {
            return x;
        }
        // Every second element of memory.
        let both = Tensor::stack(&[&x, &x.zeros_like()], -1).contiguous();
        both.eval().unwrap();
        both.select(-1, 0)
    }

    /// Functions of some inputs, and their gradients by these.
    #[track_caller]
    fn all<const N: usize>(&self, of: [&Tensor; N], functions: &[(&str, Tensor)]) {
        let mut found = Vec::new();
        for (name, y) in functions {
            assert_eq!(y.dtype(), self.dtype, "{name}: {:?}", y.error());
            found.push(((*name).to_owned(), y.clone()));
            let slopes = grad(&y.square().sum(..), &of).into_iter().enumerate();
            found.extend(slopes.map(|(i, slope)| (format!("{name}_d{i}"), slope)));
        }
        eval(found.iter().map(|(_, y)| y)).unwrap();
        for (name, y) in &found {
            self.case.near(name, y, self.tolerance);
        }
    }
}

fn every(body: impl Fn(&Inputs)) {
    each(|dtype, tolerance| {
        for strided in [false, true] {
            if strided && dtype != DType::F32 {
                continue;
            }
            body(&Inputs {
                case: case("functions"),
                dtype,
                strided,
                tolerance,
            });
        }
    });
}

#[test]
fn functions_of_elements() {
    every(|inputs| {
        let [x, z, v] = ["x", "z", "v"].map(|name| inputs.get(name).requires_grad());
        inputs.all(
            [&x],
            &[
                ("glu", x.glu(1)),
                ("softmin", x.softmin(0)),
                ("tanhshrink", x.tanhshrink()),
                ("hardshrink", x.hardshrink(0.3)),
                ("softshrink", x.softshrink(0.3)),
                ("threshold", x.threshold(0.1, -2.0)),
                ("lgamma", (x.abs() * 3.0 + 0.25).lgamma()),
                ("digamma", (x.abs() * 9.0 + 0.25).digamma()),
                ("erfinv", x.erfinv()),
                ("sinc", (&x * 2.0).sinc()),
                ("deg2rad", x.deg2rad()),
                ("rad2deg", x.rad2deg()),
                ("logit", (&x * 0.5 + 0.5).logit(None)),
                ("logit_eps", x.logit(0.2)),
            ],
        );
        inputs.all([&x, &v], &[("prelu", x.prelu(&v))]);
        inputs.all(
            [&x, &z],
            &[
                ("fmax", x.fmax(&z)),
                ("fmin", x.fmin(&z)),
                ("copysign", x.copysign(&z)),
                ("xlogy", x.xlogy(z.abs() + 0.1)),
                ("logaddexp2", (&x * 4.0).logaddexp2(&z)),
            ],
        );
    });
}

#[test]
fn reductions_and_moments() {
    every(|inputs| {
        let [x, v] = ["x", "v"].map(|name| inputs.get(name).requires_grad());
        let holes = x.gt(0.5).where_cond(f64::NAN, &x);
        let row = x.select(0, 0);
        inputs.all(
            [&x],
            &[
                ("nansum", holes.nansum(1)),
                ("nansum_all", holes.nansum(..)),
                ("nanmean", holes.nanmean_keepdim(0)),
                ("trapezoid", x.trapezoid(0.5, 0)),
                ("cumulative_trapezoid", x.cumulative_trapezoid(2.0, 1)),
                ("cov", x.cov(1, None, None)),
                ("cov_of_row", row.cov(0, None, None)),
                ("corrcoef", x.corrcoef()),
                ("corrcoef_of_row", row.corrcoef()),
                ("kthvalue", x.kthvalue(2, 1).0),
                ("kthvalue_first", x.kthvalue_keepdim(4, 0).0),
            ],
        );
        let (counts, weights) = (inputs.get("counts"), v.abs() + 0.5);
        let places = v.cumsum(0);
        inputs.all(
            [&x, &v],
            &[
                ("trapezoid_at", x.trapezoid(&places, 1)),
                (
                    "cumulative_trapezoid_at",
                    x.cumulative_trapezoid(&places, -1),
                ),
                ("cov_weighted", x.cov(1, Some(&counts), Some(&weights))),
                ("cov_aweighted", x.cov(0, None, Some(&weights))),
            ],
        );
    });
}

#[test]
fn products_and_distances() {
    every(|inputs| {
        let names = ["x", "z", "v", "square", "image"];
        let [x, z, v, square, image] = names.map(|name| inputs.get(name).requires_grad());
        let row = x.select(0, 0);
        inputs.all(
            [&x],
            &[
                ("vander", row.vander(6, false)),
                ("vander_up", row.vander(4, true)),
                ("pdist", x.pdist(2.0)),
                ("pdist_1", x.pdist(1.0)),
                ("renorm", x.renorm(2.0, 1, 0.75)),
                ("renorm_1", x.renorm(1.0, 0, 1.5)),
            ],
        );
        inputs.all(
            [&x, &v],
            &[
                ("tensordot", x.tensordot(&v, 1, 0)),
                (
                    "pairwise_distance_one",
                    x.pairwise_distance(&v, 3.0, 1e-6, true),
                ),
            ],
        );
        let (two, one) = (x.narrow(0, 0, 2), z.narrow(0, 0, 1));
        inputs.all(
            [&x, &z],
            &[
                (
                    "pairwise_distance",
                    PairwiseDistance::default().forward(&x, &z),
                ),
                (
                    "pairwise_distance_1",
                    x.pairwise_distance(&z, 1.0, 1e-6, false),
                ),
                ("dist", x.dist(&z, 3.0)),
                ("tensordot_both", x.tensordot(&z, [0, 1], [0, 1])),
                ("tensordot_none", two.tensordot(&one, (), ())),
            ],
        );
        inputs.all(
            [&square],
            &[
                ("matrix_power", square.matrix_power(5)),
                ("matrix_power_0", square.matrix_power(0)),
            ],
        );
        let start = v.narrow(0, 0, 4);
        inputs.all(
            [&v, &x, &z],
            &[("addmm", start.addmm(&x, &z.t(), 0.5, 2.0))],
        );
        let part = |i| image.select(1, i).narrow(1, 0, 3);
        let first = square.narrow(1, 0, 1);
        let y = first.baddbmm(&part(0), &part(1).transpose(1, 2), -1.0, 0.5);
        inputs.all([&square, &image], &[("baddbmm", y)]);
    });
}

#[test]
fn shapes_and_written_parts() {
    every(|inputs| {
        let [x, z] = ["x", "z"].map(|name| inputs.get(name).requires_grad());
        let places = inputs.get("places");
        let mask = inputs.get("mask").ne(0);
        inputs.all(
            [&x],
            &[
                ("unflatten", x.unflatten(1, [2, -1])),
                ("rot90", x.rot90(1, [0, 1])),
                ("rot270", x.rot90(-1, [0, 1])),
                ("diag_embed", x.diag_embed(0, -2, -1)),
                ("diag_embed_off", x.diag_embed(-2, 0, 2)),
                ("diag_embed_across", x.diag_embed(1, 2, 0)),
                ("tensor_split", x.tensor_split(4, 1).swap_remove(1)),
                ("index_fill", x.index_fill(0, &places, 2.5)),
            ],
        );
        let number = z.select(0, 0).select(0, 0);
        inputs.all(
            [&x, &z],
            &[
                (
                    "block_diag",
                    Tensor::block_diag([&x, &z.select(0, 0), &number]),
                ),
                ("index_copy", x.index_copy(0, &places, &z.narrow(0, 0, 3))),
                ("masked_scatter", x.masked_scatter(&mask, &z)),
            ],
        );
    });
}

#[test]
fn windows_and_channels_of_images() {
    every(|inputs| {
        let names = ["image", "volume", "columns"];
        let [image, volume, columns] = names.map(|name| inputs.get(name).requires_grad());
        let one = image.select(0, 0);
        let lines = LpPool1d::new(2.0, Pool::new(4).stride(3).ceil_mode(true));
        inputs.all(
            [&image],
            &[
                (
                    "local_response_norm",
                    image.local_response_norm(3, 2.0, 0.75, 1.5),
                ),
                (
                    "local_response_norm_2",
                    LocalResponseNorm::new(2).forward(&image),
                ),
                ("channel_shuffle", ChannelShuffle::new(2).forward(&image)),
                ("im2col", Unfold::new([2, 3]).forward(&image)),
                ("im2col_wide", image.im2col(2, [1, 2], [1, 0], [2, 1])),
                (
                    "im2col_one",
                    Unfold::new(2).padding(1).stride(3).forward(&one),
                ),
                (
                    "lp_pool1d",
                    one.abs().lp_pool1d(3.0, Pool::new(2).stride(2)),
                ),
                ("lp_pool1d_ceil", lines.forward(&one)),
                (
                    "lp_pool2d",
                    image.lp_pool2d(2.0, Pool::new([2, 3]).stride(2)),
                ),
            ],
        );
        inputs.all([&volume], &[("lp_pool3d", volume.lp_pool3d(2.0, 2))]);
        inputs.all(
            [&columns],
            &[
                ("col2im", Fold::new([5, 7], [2, 3]).forward(&columns)),
                (
                    "col2im_tiles",
                    Fold::new([8, 30], [4, 3]).stride([4, 3]).forward(&columns),
                ),
                ("col2im_wide", columns.col2im([8, 9], 2, [1, 2], [1, 0], 2)),
            ],
        );
    });
}

#[test]
fn losses_of_labels() {
    every(|inputs| {
        let [x, z] = ["x", "z"].map(|name| inputs.get(name).requires_grad());
        let scores = &x * &z;
        let get = |name| inputs.get(name);
        let weight = Tensor::arange(1, 7, 1, inputs.dtype, &cpu());
        let mut squares = MultiMarginLoss::new().weight(weight.clone());
        (squares.p, squares.margin) = (2.0, 0.5);
        let several = MultiLabelMarginLoss::new().reduction(Reduction::None);
        let float = |x: Tensor| x.to_dtype(inputs.dtype);
        inputs.all(
            [&x, &z],
            &[
                (
                    "soft_margin_loss",
                    SoftMarginLoss::new().forward(&scores, &get("signs")),
                ),
                (
                    "multi_margin_loss",
                    MultiMarginLoss::new()
                        .reduction(Reduction::None)
                        .forward(&scores, &get("class")),
                ),
                (
                    "multi_margin_loss_2",
                    squares.forward(&scores, &get("class")),
                ),
                (
                    "multilabel_margin_loss",
                    several.forward(&scores, &get("classes")),
                ),
                (
                    "multilabel_soft_margin_loss",
                    MultiLabelSoftMarginLoss::new()
                        .weight(weight)
                        .forward(&scores, &float(get("mask"))),
                ),
            ],
        );
    });
}
