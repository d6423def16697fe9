//! How large and how small factors of binary32 are, of which depends whether products of their parts are exact.

use crate::cpu::isa::{Loop, dispatch};
use half::bf16;

/// The exponents of the smallest factor of some lines that is not zero, and of the largest, as binary32 holds them: from 0, of
/// numbers that are not normal, to 255, of infinities and NaNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cpu) struct Extent {
    least: u16,
    most: u16,
}

/// The exponent of 1.
const ONE: u32 = 127;

impl Extent {
    /// The extent of zeros.
    pub const NONE: Extent = Extent {
        least: 256,
        most: 0,
    };

    /// The extent of numbers whose magnitudes are at most `most`, as patterns of bits, and beyond zero greater than `below`.
    pub(super) fn of_magnitudes(below: u32, most: u32) -> Extent {
        let exponent = |magnitude: u32| (magnitude >> 23) as u16;
        Extent {
            least: below.checked_add(1).map_or(Extent::NONE.least, exponent),
            most: exponent(most),
        }
    }

    /// The extent of some numbers.
    pub fn of(numbers: &[f32]) -> Extent {
        struct Walk<'a>(&'a [f32]);
        impl Loop for Walk<'_> {
            type Output = (u32, u32);

            #[inline(always)]
            fn run(self) -> (u32, u32) {
                let (mut below, mut most) = (u32::MAX, 0);
                for x in self.0 {
                    let magnitude = x.to_bits() & 0x7fff_ffff;
                    most = most.max(magnitude);
                    // Zero is the largest.
                    below = below.min(magnitude.wrapping_sub(1));
                }
                (below, most)
            }
        }
        let (below, most) = dispatch(Walk(numbers));
        Extent::of_magnitudes(below, most)
    }

    /// The extent as two elements of memory that holds tiles.
    pub fn to_elements(self) -> [bf16; 2] {
        [self.least, self.most].map(bf16::from_bits)
    }

    pub fn from_elements([least, most]: [bf16; 2]) -> Extent {
        Extent {
            least: least.to_bits(),
            most: most.to_bits(),
        }
    }

    pub fn and(self, other: Extent) -> Extent {
        Extent {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
        }
    }

    /// Whether sums of `k` products of such factors are exact but for rounding: no part of a factor or of a product is less than
    /// 2⁻¹²⁶, which tiles take for zero, and no sum exceeds the largest number.
    pub fn suits(self, other: Extent, k: usize) -> bool {
        /// The least exponent of a factor, and of a product's factors together: their last bits are 2⁻²³ of them.
        const LEAST: u32 = ONE - 100;
        let least = u32::from(self.least.min(other.least)) >= LEAST
            && u32::from(self.least) + u32::from(other.least) >= LEAST + ONE;
        let most = u32::from(self.most.max(other.most)) < 2 * ONE
            && u32::from(self.most) + u32::from(other.most) + k.max(1).ilog2() + 4 <= 3 * ONE;
        least && most
    }
}
