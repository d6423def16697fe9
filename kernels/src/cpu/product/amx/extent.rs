//! How large and how small factors of binary32 are, of which depends whether products of their parts are exact.

/// The exponents of the smallest factor of some lines that is not zero, and of the largest, as binary32 holds them: from 0, of
/// numbers that are not normal, to 255, of infinities and NaNs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Extent {
    pub least: u16,
    pub most: u16,
}

/// The exponent of 1.
const ONE: u32 = 127;

impl Extent {
    /// The extent of zeros.
    pub const NONE: Extent = Extent {
        least: 256,
        most: 0,
    };

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
