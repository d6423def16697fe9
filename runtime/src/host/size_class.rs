//! Size classes of the host allocator.
//!
//! Up to 256 bytes, every multiple of 64; up to 1 MiB, four classes a power of two (at most a fifth is wasted);
//! beyond, eight (at most a ninth). Every size is a multiple of 64.

const FINE: usize = 256;
/// Up to here a block comes from the system allocator; beyond, from a mapping of its own.
pub(super) const LARGE: usize = 1 << 20;
const FINE_CLASSES: usize = 4;
const FIRST_LARGE: usize = FINE_CLASSES + (20 - 8) * 4;

/// The number of classes: sizes up to `isize::MAX`.
pub(crate) const CLASSES: usize = FIRST_LARGE + (63 - 20) * 8;

/// The class of a request of `bytes`, and the bytes of its blocks. `bytes` is from 1 to `isize::MAX`.
#[inline]
pub(crate) fn class_of(bytes: usize) -> (usize, usize) {
    let last = bytes - 1;
    if bytes <= FINE {
        let class = last / 64;
        return (class, (class + 1) * 64);
    }
    let octave = last.ilog2() as usize;
    let (first, steps_log2) = if bytes <= LARGE {
        (FINE_CLASSES + (octave - 8) * 4, 2)
    } else {
        (FIRST_LARGE + (octave - 20) * 8, 3)
    };
    let step_log2 = octave - steps_log2;
    let step = (last - (1 << octave)) >> step_log2;
    (first + step, (1 << octave) + ((step + 1) << step_log2))
}

/// The bytes of a block of `class`.
pub(crate) fn size_of(class: usize) -> usize {
    if class < FINE_CLASSES {
        (class + 1) * 64
    } else if class < FIRST_LARGE {
        let (octave, step) = (8 + (class - FINE_CLASSES) / 4, (class - FINE_CLASSES) % 4);
        (1 << octave) + ((step + 1) << (octave - 2))
    } else {
        let (octave, step) = (20 + (class - FIRST_LARGE) / 8, (class - FIRST_LARGE) % 8);
        (1 << octave) + ((step + 1) << (octave - 3))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_tight_and_ordered() {
        let mut sizes: Vec<usize> = (1..5000).collect();
        for octave in 12..63 {
            for d in [0usize, 1, 63, 1 << (octave - 3), 1 << (octave - 1)] {
                sizes.extend([(1usize << octave) + d, (1usize << octave) - d]);
            }
        }
        sizes.push(isize::MAX as usize);
        sizes.sort_unstable();
        let mut before = 0;
        for bytes in sizes {
            let (class, size) = class_of(bytes);
            assert!(class >= before && class < CLASSES, "{bytes}");
            assert_eq!(size, size_of(class), "{bytes}");
            assert!(size >= bytes && size % 64 == 0, "{bytes}");
            assert!(bytes <= 256 || size - bytes <= bytes / 4, "{bytes} {size}");
            assert!(
                class == 0 || size_of(class - 1) < bytes,
                "{bytes}: not the smallest class"
            );
            before = class;
        }
    }
}
