//! Products of positions and output channels of convolutions: what a window's tap reads of 16 positions is a tile, from where
//! they lie.

pub(in crate::cpu) use super::extent::Extent;
use super::pack::pack;
use super::packed::Found;
use super::pair::{PAIR, SUMS};
use super::source::{Format, Source};
#[cfg(target_arch = "x86_64")]
use super::split::parts_of_positions;
pub(in crate::cpu) use super::tile::{Configured, SIDE, TERMS};
use super::tile::{ELEMENTS, Factors};
#[cfg(target_arch = "x86_64")]
use super::vectors::turn;
use crate::cpu::isa::dispatch;
use crate::cpu::long::Join;
use crate::cpu::view::View;

/// Elements of a position: 32 channels in three parts.
pub(in crate::cpu) const POSITION: usize = 3 * TERMS;
/// Elements of 32 terms of 16 output channels.
pub(in crate::cpu) const STEP: usize = 3 * ELEMENTS;
/// Steps of a chain in binary32, of 1,024 terms; chains are added up in binary64.
const CHAIN: usize = 32;

/// Writes the tiles of some output channels' weights for `terms` input channels, [`STEP`] elements for every 32 of these: those of 16
/// output channels, `pitch` elements on those of the next. Gives the extent of the weights.
///
/// # Safety
/// This machine makes parts; the weight is inside its memory, and there is room for its tiles.
pub(in crate::cpu) unsafe fn pack_weight(
    weight: View<'_, f32>,
    (channels, terms): (usize, usize),
    to: *mut u16,
    pitch: usize,
) -> Extent {
    let mut found = Found::new(channels, Format::Single);
    let lines = Source::Single(weight).lines();
    let findings = &mut found.at(0, 0);
    // SAFETY: as the caller promises.
    unsafe { pack(lines, (channels, terms), true, to, pitch, findings) };
    found.extents.into_iter().fold(Extent::NONE, Extent::and)
}

/// Writes some channels, at most 32, of at most 16 positions that are next to each other to [`POSITION`] elements each.
///
/// # Safety
/// This machine makes parts; the channels, `plane` elements apart, may be read, and there is room for the positions.
pub(in crate::cpu) unsafe fn pack_positions(
    of: *const f32,
    size: (usize, usize),
    plane: usize,
    to: *mut u16,
) {
    // SAFETY: as the caller promises.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        parts_of_positions(of, size, plane, to);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (of, size, plane, to);
}

/// Sums of 32 positions by 32 output channels.
pub(in crate::cpu) struct Sums {
    sums: [f32; SUMS],
    turned: [f32; SUMS],
    totals: [f64; SUMS],
}

impl Sums {
    pub fn new() -> Sums {
        Sums {
            sums: [0.0; SUMS],
            turned: [0.0; SUMS],
            totals: [0.0; SUMS],
        }
    }

    /// The sums of 32 positions, `row` bytes apart, and of 32 channels: of each channel, the positions. `offsets` are bytes from `first`
    /// to what each step reads. The second 16 channels' tiles are `next` elements behind the first ones'.
    ///
    /// # Safety
    /// What is read was packed, of as many steps.
    pub unsafe fn of(
        &mut self,
        registers: &Configured,
        (first, row): (*const u16, usize),
        offsets: &[usize],
        (weights, next): (*const u16, usize),
    ) -> &[f32; SUMS] {
        let runs = offsets.len().div_ceil(CHAIN);
        for (run, offsets) in offsets.chunks(CHAIN).enumerate() {
            let columns = Factors {
                first: weights.wrapping_add(run * CHAIN * STEP),
                next,
            };
            let to = self.sums.as_mut_ptr();
            // SAFETY: as the caller promises; there is room for the sums.
            unsafe { registers.sums_of_rows((first, row), offsets, columns, to) };
            if runs > 1 {
                dispatch(Join {
                    totals: &mut self.totals[..],
                    sums: &self.sums[..],
                    begin: run == 0,
                });
            }
        }
        if runs > 1 {
            let all = self.sums.iter_mut().zip(&self.totals);
            all.for_each(|(sum, &total)| *sum = total as f32);
        }
        #[cfg(target_arch = "x86_64")]
        for (i, j) in [(0, 0), (0, SIDE), (SIDE, 0), (SIDE, SIDE)] {
            let from = self.sums[i * PAIR + j..].as_ptr();
            let to = self.turned[j * PAIR + i..].as_mut_ptr();
            // SAFETY: 16 rows of sums of which 16 are inside, of two arrays.
            unsafe { turn((from, PAIR), (to, PAIR)) };
        }
        &self.turned
    }
}
