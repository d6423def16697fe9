//! Texts that kernels of attention and of products share: tiles of matrices in shared memory, and products of them on the
//! matrix units. Each may use those before it; all use `FT_INLINE`.

use crate::support::{Need, SCALAR, need};
use ferrotrace_runtime::Part;

/// Copies into shared memory and from there into registers.
pub const TILES: &str = include_str!("tiles.cu");
/// Products of 16-bit floats by warps.
pub const HALF: &str = include_str!("half.cu");
/// Products of 16-bit floats by groups of four warps, where the device has them.
pub const GROUP: &str = include_str!("group.cu");
/// Products of binary32.
pub const SINGLE: &str = include_str!("single.cu");

/// The support text that [`HALF`] uses.
pub fn needs() -> [Need; 4] {
    ["ft_from_f16", "ft_from_bf16", "ft_to_f16", "ft_to_bf16"].map(|name| need(name, SCALAR))
}

/// Where the texts of a template stand: behind the support text, which they use, and before what a file has one of.
const TEMPLATE: u32 = Part::BASE - 7;

/// The texts of a template, each of which may use those before it.
pub fn parts(texts: &[&'static str]) -> impl Iterator<Item = Part> {
    let part = |(&text, order): (&&'static str, u32)| Part {
        order,
        text: text.into(),
    };
    texts.iter().zip(TEMPLATE..).map(part)
}
