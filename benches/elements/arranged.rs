//! What is computed along rows, columns and windows, or looked up, and then repeated, joined, shifted or reduced.

use super::Case;
use super::Input::{Below, Floats, Small};
use ferrotrace::prelude::*;

pub const CASES: &[Case] = &[
    (
        "rows_of_functions",
        &[Floats(&[1024, 1024]), Floats(&[1024])],
        |v| &v[0] + v[1].exp(),
    ),
    (
        "columns_of_functions",
        &[Floats(&[2000, 64]), Floats(&[2000, 1])],
        |v| &v[0] * v[1].abs().pow(2.5),
    ),
    ("windows_of_functions", &[Floats(&[2000])], |v| {
        v[0].abs().pow(2.5).unfold(0, 16, 1).sum(1)
    }),
    (
        "searched_rows",
        &[Floats(&[5000, 64]), Floats(&[2560])],
        |v| {
            let table = Tensor::linspace(-2.0, 2.0, 4999, DType::F32, &Device::cpu());
            v[0].embedding(&table.searchsorted(&v[1], false))
        },
    ),
    (
        "rolled_rows",
        &[Floats(&[384, 512]), Below(384, &[384])],
        |v| v[0].index_select(0, &v[1]).roll(3, 1),
    ),
    (
        "columns_less_mean",
        &[Floats(&[384, 512]), Below(512, &[512])],
        |v| {
            let columns = v[0].index_select(1, &v[1]);
            &columns - columns.mean_keepdim(0)
        },
    ),
    (
        "softmax_of_columns",
        &[Floats(&[384, 512]), Below(512, &[512])],
        |v| v[0].index_select(1, &v[1]).softmax(1),
    ),
    ("repeated_less_mean", &[Floats(&[384, 512])], |v| {
        let repeated = v[0].repeat_interleave(2, 0);
        &repeated - repeated.mean_keepdim(0)
    }),
    ("folded_gradient", &[Floats(&[384, 512])], |v| {
        let loss = |x: &Tensor| x.diff(1, 1).reshape([511, 384]).square().sum(..);
        value_and_grad(&v[0], loss).1
    }),
    ("padded_across", &[Floats(&[384, 512])], |v| {
        v[0].t().pad(&[(0, 0), (1, 1)], 0.0)
    }),
    ("joined_across", &[Floats(&[384, 512])], |v| {
        Tensor::cat([v[0].t(), v[0].t()], 0)
    }),
    ("joined_logsumexp", &[Floats(&[32, 25])], |v| {
        let shifted = |by: isize| v[0].pad(&[(0, 0), (by, -by)], -1e9);
        Tensor::stack([&v[0], &shifted(1), &shifted(2)], 0).logsumexp(0)
    }),
    ("chain_of_sines", &[Floats(&[10_000])], |v| {
        (0..8).fold(v[0].clone(), |x, _| (x * 1.1).sin() + 0.3)
    }),
    ("reversed_bits", &[Floats(&[1 << 16])], |v| {
        let bits = v[0].reshape(vec![2usize; 16]);
        bits.flip(0).reshape(1usize << 16)
    }),
    ("frames", &[Floats(&[20_000, 3, 3])], |v| {
        let unit = |x: &Tensor| x / x.norm_keepdim(2.0, 1);
        let (a, b) = (unit(&v[0].select(2, 0)), v[0].select(2, 1));
        let b = unit(&(&b - (&a * &b).sum_keepdim(1) * &a));
        Tensor::stack([&a, &b, &a.cross(&b, -1)], 2)
    }),
    ("sums_both_ways", &[Floats(&[1000, 1000])], |v| {
        v[0].sum(0) + v[0].sum(1)
    }),
    ("symmetric_sums", &[Floats(&[1000, 1000])], |v| {
        (&v[0] + v[0].t()).abs().sum(1)
    }),
    (
        "dilated_and_counted",
        &[Small(DType::U8, &[512, 512])],
        |v| {
            let padded = v[0].pad(&[(1, 1), (1, 1)], 0);
            let at = |i: isize| padded.narrow(0, i / 3, 512).narrow(1, i % 3, 512);
            (0..9).fold(v[0].clone(), |x, i| x.maximum(at(i))).sum(..)
        },
    ),
    ("running_sums_turned", &[Floats(&[1000, 1000])], |v| {
        v[0].t().cumsum(0)
    }),
    ("running_sums_f64", &[Floats(&[1000, 1000])], |v| {
        v[0].to_dtype(DType::F64).cumsum(1)
    }),
    ("places_over_two", &[Floats(&[64, 32, 64, 16])], |v| {
        let turned = v[0].permute([0, 2, 1, 3]);
        turned.reshape([64, 64, 512]).argmax(2)
    }),
    // Scores by relative position, moved to their places by a padding and a reshape.
    ("skewed_scores", &[Floats(&[8, 256, 256])], |v| {
        let padded = v[0].pad(&[(0, 0), (0, 0), (1, 0)], 0.0);
        let skewed = padded.reshape([8, 257, 256]).narrow(1, 1, 256);
        ((&v[0] + skewed) * 0.1).softmax(2)
    }),
    ("diagonal_sums", &[Floats(&[8, 256, 256])], |v| {
        let padded = v[0].pad(&[(0, 0), (0, 0), (0, 1)], 0.0);
        let shifted = padded.reshape([8usize, 256 * 257]);
        shifted
            .narrow(1, 0, 256 * 256)
            .reshape([8, 256, 256])
            .sum(1)
    }),
    ("scan_of_pairs", &[Floats(&[256, 256])], |v| {
        let pairs = Tensor::stack([&v[0], &(&v[0] * 2.0)], 2);
        pairs.reshape([256, 512]).cumsum(0).tanh()
    }),
    ("scan_of_repeated", &[Floats(&[256, 256])], |v| {
        v[0].repeat_interleave(2, 1).cumsum(0).tanh()
    }),
    ("scan_of_joined", &[Floats(&[256, 256])], |v| {
        Tensor::cat([&v[0], &(&v[0] * 2.0)], 1).cumsum(0).tanh()
    }),
    ("part_of_joined_rows", &[Floats(&[256, 256])], |v| {
        let rows = v[0].pad(&[(0, 0), (0, 1)], 0.0).reshape([128, 514]);
        rows.narrow(1, 2, 509).tanh()
    }),
    // Costly functions of 30,000 positions: too few for many units of work by their number alone.
    ("waves_of_one_row", &[Floats(&[30_000])], |v| {
        (v[0].sin() * v[0].exp()).sigmoid()
    }),
    (
        "waves_of_four_columns",
        &[Floats(&[30_000, 4]), Floats(&[4])],
        |v| ((&v[0] + &v[1]).sin() * v[0].exp()).sigmoid(),
    ),
    // Functions of binary32 whose results are converted to 8 bytes.
    ("quantised", &[Floats(&[200_000])], |v| {
        (v[0].sigmoid() * 15.0).to_dtype(DType::I64)
    }),
    (
        "joined_points",
        &[Floats(&[25_000, 8]), Floats(&[25_000, 8])],
        |v| Tensor::cat([&(&v[0] + 1.0), &(&v[1] * 2.0)], 0),
    ),
    ("points_as_columns", &[Floats(&[25_000, 8])], |v| {
        v[0].t().contiguous()
    }),
    // Rows under conditions on columns: shifted around, joined before functions, padded.
    ("neighbours_around", &[Floats(&[1000, 500])], |v| {
        let shifted = |by: isize, dim: usize| v[0].roll(by, dim);
        let all = shifted(1, 0) + shifted(-1, 0) + shifted(1, 1) + shifted(-1, 1);
        all - &v[0] * 4.0
    }),
    (
        "joined_functions",
        &[Floats(&[20_000]), Floats(&[20_000])],
        |v| Tensor::cat([&v[0], &v[1]], 0).sin().sigmoid().tanh(),
    ),
    ("padded_numbers", &[Floats(&[500_000])], |v| {
        v[0].pad(&[(3, 5)], 0.5).relu()
    }),
    // Rows that fill no whole number of vectors.
    ("thirteen_columns", &[Floats(&[10_000, 40])], |v| {
        v[0].narrow(1, 1, 13).relu()
    }),
    ("softmax_of_39", &[Floats(&[10_000, 40])], |v| {
        v[0].narrow(1, 1, 39).softmax(1)
    }),
    // Functions of one operand, and powers.
    ("sines", &[Floats(&[200_000])], |v| v[0].sin()),
    ("far_sines", &[Floats(&[200_000])], |v| (&v[0] * 1e5).sin()),
    ("powers", &[Floats(&[200_000])], |v| v[0].abs().pow(1.7)),
    // Transposed operands whose tiles have edges.
    ("forty_columns_as_rows", &[Floats(&[1000, 40])], |v| {
        v[0].t().contiguous()
    }),
    (
        "bytes_as_columns",
        &[Small(DType::U8, &[1000, 1000])],
        |v| v[0].t().contiguous(),
    ),
    // Short rows that meet short rows.
    (
        "layer_of_eight",
        &[Floats(&[10_000, 8]), Floats(&[8, 8])],
        |v| v[0].linear(&v[1], None).relu(),
    ),
    (
        "logsumexp_of_pairs",
        &[Floats(&[1001, 6]), Floats(&[6, 6])],
        |v| (v[0].unsqueeze(1) + &v[1]).logsumexp(-1),
    ),
    // Edges of images, and parts of rows of another length.
    ("replicated_edges", &[Floats(&[4, 16, 33, 35])], |v| {
        v[0].pad_with(&[(0, 0), (0, 0), (1, 1), (1, 1)], PadMode::Replicate)
    }),
    ("part_of_reshaped_rows", &[Floats(&[300, 256])], |v| {
        let part = v[0].diff(1, 1).reshape(&[150, 510]).t().narrow(0, 3, 505);
        part * 2.0
    }),
    (
        "dot_product",
        &[Floats(&[100_000]), Floats(&[100_000])],
        |v| v[0].dot(&v[1]),
    ),
    // Gathers that stencils read, and windows that slide.
    (
        "neighbours_of_gathered",
        &[Floats(&[18]), Below(18, &[500, 400])],
        |v| {
            let cells = v[0].take(&v[1]);
            let shifts = (0..9isize).map(|k| cells.roll((k / 3 - 1, k % 3 - 1), (0, 1)));
            shifts.reduce(|a, b| a + b).unwrap_or_else(|| cells.clone())
        },
    ),
    ("places_in_windows", &[Floats(&[4, 16, 64, 64])], |v| {
        let windows = v[0].unfold(2, 5, 1).unfold(3, 5, 1);
        windows.flatten(4, 5).argmax(4)
    }),
    ("gradient_of_max_pool", &[Floats(&[4, 16, 64, 64])], |v| {
        let x = v[0].detach().requires_grad();
        let loss = x.max_pool2d(5, 1, 2).square().sum(..);
        ferrotrace::grad(&loss, [&x]).remove(0)
    }),
    ("singular_vectors", &[Floats(&[512, 512])], |v| {
        let (u, s, vh) = v[0].svd();
        (u * s).matmul(&vh)
    }),
    ("singular_values", &[Floats(&[512, 512])], |v| {
        v[0].svdvals()
    }),
    ("principal_components", &[Floats(&[2000, 256])], |v| {
        let x = &v[0] - v[0].mean_keepdim(0);
        x.matmul(&x.t().matmul(&x).eigh().1.narrow(1, 246, 10))
    }),
    ("orthonormal_columns", &[Floats(&[2048, 512])], |v| {
        v[0].qr().0
    }),
    ("gamma_numbers", &[Floats(&[512, 512])], |v| {
        (v[0].abs() + 0.5).standard_gamma()
    }),
    ("poisson_counts", &[Floats(&[512, 512])], |v| {
        (v[0].abs() * 8.0).poisson()
    }),
    // Reductions of what does not lie row-major, and of long columns of few rows.
    ("sum_of_transposed", &[Floats(&[1000, 1000])], |v| {
        v[0].t().sum(..)
    }),
    ("sums_of_permuted", &[Floats(&[1000, 30, 100])], |v| {
        v[0].permute([0, 2, 1]).sum(0)
    }),
    ("places_of_permuted", &[Floats(&[1000, 30, 100])], |v| {
        v[0].permute([2, 0, 1]).argmax(2)
    }),
    ("columns_less_means", &[Floats(&[100_000, 10])], |v| {
        &v[0] - v[0].mean_keepdim(0)
    }),
    ("softmax_over_points", &[Floats(&[100_000, 10])], |v| {
        v[0].softmax(0)
    }),
];
