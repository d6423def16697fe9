//! Memory from the C library without a cache in front, for tools that watch every access: AddressSanitizer, Valgrind.
//!
//! A block is exactly as large as asked for, so that the first byte beyond it belongs to nobody, and it goes back at
//! once, so that a use after its release is one. Its contents are neither zeroes nor what a program expects.

use std::ptr::NonNull;

/// What blocks are filled with: as floats tiny negative numbers, as indices far out of range, as a boolean neither.
const JUNK: u8 = 0xa5;

/// A block of `bytes`, at least 1, at a multiple of `align`.
pub(super) fn take(bytes: usize, align: usize) -> Option<NonNull<u8>> {
    let mut at = std::ptr::null_mut();
    // SAFETY: the result goes to a local, and of an alignment that is not allowed there is none.
    let status = unsafe { libc::posix_memalign(&mut at, align, bytes) };
    let block = NonNull::new(at.cast::<u8>()).filter(|_| status == 0)?;
    // SAFETY: the block has `bytes` bytes and no other owner.
    unsafe { block.as_ptr().write_bytes(JUNK, bytes) };
    Some(block)
}

/// Gives back a block of [`take`] that nobody uses any more.
pub(super) fn give(block: NonNull<u8>) {
    // SAFETY: the block comes from `posix_memalign`, and the caller was its only owner.
    unsafe { libc::free(block.as_ptr().cast()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALIGN: usize = 64;

    #[test]
    fn blocks_are_aligned_filled_and_apart() {
        for bytes in [1, 63, 64, 65, 1000, 3 << 20] {
            let (a, b) = (
                take(bytes, ALIGN).expect("memory"),
                take(bytes, ALIGN).expect("memory"),
            );
            assert!(a != b && (a.as_ptr() as usize).is_multiple_of(ALIGN));
            // SAFETY: `bytes` bytes from `a` are this test's alone, and written.
            let all = unsafe { std::slice::from_raw_parts(a.as_ptr(), bytes) };
            assert!(all.iter().all(|&byte| byte == JUNK));
            give(a);
            give(b);
        }
    }
}
