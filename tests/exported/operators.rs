//! The operators that programs may hold, against PyTorch's list of its core operators.

use ferrotrace::io::ExportedProgram;
use std::collections::BTreeSet;

/// Core operators that are not taken: transforms of signals, and backward passes, which exported programs for inference do
/// not hold.
const LEFT: [&str; 10] = [
    "aten._adaptive_avg_pool2d_backward.default",
    "aten._fft_c2r.default",
    "aten._fft_r2c.default",
    "aten.atan2.out",
    "aten.avg_pool2d_backward.default",
    "aten.convolution_backward.default",
    "aten.embedding_dense_backward.default",
    "aten.max_pool2d_with_indices_backward.default",
    "aten.native_group_norm_backward.default",
    "aten.native_layer_norm_backward.default",
];

/// Every core operator of PyTorch (those with `torch.Tag.core`) is known, but for those that are listed as left out.
#[test]
fn core_operators_are_known() {
    let known: BTreeSet<&str> = ExportedProgram::known_operators().into_iter().collect();
    let copies = |name: &str| known.contains(&*name.replace("_copy.", "."));
    let core = include_str!("core_operators.txt").lines();
    let unknown: Vec<&str> = core
        .filter(|name| !known.contains(name) && !copies(name))
        .collect();
    assert_eq!(unknown, LEFT);
}
