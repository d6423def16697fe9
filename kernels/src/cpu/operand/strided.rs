//! Copies of two-dimensional windows of memory into dense rows.

#[cfg(target_arch = "x86_64")]
use ferrotrace_runtime::Isa;

/// A window of elements: element (r, c) is `r·row + c·col` elements after the first.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Distance of rows, in elements; may be zero or negative.
    pub row: isize,
    /// Elements from a column to the next.
    pub col: isize,
}

impl Window {
    /// Whether the elements lie one after the other.
    #[inline]
    pub fn is_dense(&self) -> bool {
        (self.col == 1 || self.cols == 1) && (self.rows == 1 || self.row == self.cols as isize)
    }
}

/// Copies a window of elements of `size` bytes (1, 2, 4 or 8) at `src` to rows at `dst`, `pitch` elements apart.
///
/// # Safety
/// Every element of the window may be read; `dst` has room for the rows; all is aligned to `size`; the two do not
/// overlap.
pub unsafe fn gather(size: usize, window: Window, src: *const u8, dst: *mut u8, pitch: usize) {
    // SAFETY: as the caller promises.
    unsafe {
        match size {
            1 => rows::<u8>(window, src, dst, pitch),
            2 => rows::<u16>(window, src.cast(), dst.cast(), pitch),
            4 => rows::<u32>(window, src.cast(), dst.cast(), pitch),
            _ => rows::<u64>(window, src.cast(), dst.cast(), pitch),
        }
    }
}

unsafe fn rows<T: Copy>(w: Window, src: *const T, dst: *mut T, pitch: usize) {
    let Window {
        rows,
        cols,
        row,
        col,
    } = w;
    // SAFETY: every access is to an element of the window, or of the rows at `dst`, which the caller promises.
    unsafe {
        if pitch == cols && w.is_dense() {
            return dst.copy_from_nonoverlapping(src, rows * cols);
        }
        if row == 0 && rows > 1 {
            // All rows are equal: one is copied, and repeated by doubling where rows adjoin.
            self::rows(Window { rows: 1, ..w }, src, dst, pitch);
            if pitch == cols {
                let mut done = 1;
                while done < rows {
                    let more = done.min(rows - done);
                    dst.add(done * cols)
                        .copy_from_nonoverlapping(dst, more * cols);
                    done += more;
                }
                return;
            }
            for r in 1..rows {
                dst.add(r * pitch).copy_from_nonoverlapping(dst, cols);
            }
            return;
        }
        match col {
            1 => {
                for r in 0..rows {
                    copy_row(src.offset(r as isize * row), dst.add(r * pitch), cols);
                }
            }
            0 => {
                for r in 0..rows {
                    let value = *src.offset(r as isize * row);
                    let to = dst.add(r * pitch);
                    for c in 0..cols {
                        to.add(c).write(value);
                    }
                }
            }
            _ if row.abs() < col.abs() && rows > 1 => transpose(w, src, dst, pitch),
            _ => {
                for r in 0..rows {
                    let mut from = src.offset(r as isize * row);
                    let to = dst.add(r * pitch);
                    for c in 0..cols {
                        to.add(c).write(*from);
                        from = from.wrapping_offset(col);
                    }
                }
            }
        }
    }
}

/// A row of adjacent elements; short ones without a call.
#[inline(always)]
unsafe fn copy_row<T: Copy>(src: *const T, dst: *mut T, n: usize) {
    // SAFETY: the caller gives `n` elements on both sides, apart from each other.
    unsafe {
        if n < 8 {
            for i in 0..n {
                dst.add(i).write(*src.add(i));
            }
        } else {
            dst.copy_from_nonoverlapping(src, n);
        }
    }
}

/// Columns whose elements are nearer to each other than those of rows: read along columns, in blocks of sixteen columns
/// where vectors are that wide, else of four.
unsafe fn transpose<T: Copy>(w: Window, src: *const T, dst: *mut T, pitch: usize) {
    let Window {
        rows,
        cols,
        row,
        col,
    } = w;
    #[cfg(target_arch = "x86_64")]
    if row == 1 && size_of::<T>() == 4 && rows >= 8 && cols >= LINE && has_avx() {
        let (high, wide) = (rows / 8 * 8, cols / LINE * LINE);
        let blocks = Window {
            rows: high,
            cols: wide,
            ..w
        };
        let right = Window {
            cols: cols - wide,
            ..w
        };
        let below = Window {
            rows: rows - high,
            cols: wide,
            ..w
        };
        // SAFETY: the three windows are parts of this one, and the processor has AVX.
        unsafe {
            transpose_blocks(blocks, src.cast(), dst.cast(), pitch);
            transpose(right, src.offset(wide as isize * col), dst.add(wide), pitch);
            transpose(below, src.add(high), dst.add(high * pitch), pitch);
        }
        return;
    }
    // SAFETY: as in `rows`.
    unsafe {
        let mut c = 0;
        while c + 4 <= cols {
            let from = src.offset(c as isize * col);
            let mut r = 0;
            #[cfg(target_arch = "x86_64")]
            if row == 1 && size_of::<T>() == 4 {
                while r + 4 <= rows {
                    transpose_4x4(
                        from.add(r).cast(),
                        col,
                        dst.add(r * pitch + c).cast(),
                        pitch,
                    );
                    r += 4;
                }
            }
            while r < rows {
                let at = from.offset(r as isize * row);
                let four = [
                    *at,
                    *at.offset(col),
                    *at.offset(2 * col),
                    *at.offset(3 * col),
                ];
                dst.add(r * pitch + c)
                    .cast::<[T; 4]>()
                    .write_unaligned(four);
                r += 1;
            }
            c += 4;
        }
        for c in c..cols {
            let from = src.offset(c as isize * col);
            for r in 0..rows {
                dst.add(r * pitch + c).write(*from.offset(r as isize * row));
            }
        }
    }
}

/// Whether vectors of 32 bytes may be used.
#[cfg(target_arch = "x86_64")]
fn has_avx() -> bool {
    matches!(Isa::host(), Isa::Avx2 | Isa::Avx512)
}

/// Elements of four bytes in a line of the cache.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 16;

/// [`transpose`] of a window of a multiple of eight rows and sixteen columns, each of adjacent elements. A line of the
/// result is written at once: rows that are a power of two apart share few places of the first-level cache, and would have
/// left it before the next part of the line.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn transpose_blocks(w: Window, src: *const f32, dst: *mut f32, pitch: usize) {
    for c in (0..w.cols).step_by(LINE) {
        for r in (0..w.rows).step_by(8) {
            for c in [c, c + 8] {
                // SAFETY: the eight columns and rows are inside the window.
                unsafe {
                    let from = src.offset(c as isize * w.col).add(r);
                    transpose_8x8(from, w.col, dst.add(r * pitch + c), pitch);
                }
            }
        }
    }
}

/// Eight columns of eight adjacent elements, `col` apart, to eight rows, `pitch` apart.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn transpose_8x8(src: *const f32, col: isize, dst: *mut f32, pitch: usize) {
    use std::arch::x86_64::{
        _mm256_loadu_ps, _mm256_permute2f128_ps, _mm256_shuffle_ps, _mm256_storeu_ps,
        _mm256_unpackhi_ps, _mm256_unpacklo_ps,
    };
    // SAFETY: the caller gives the 64 elements on both sides.
    let [a, b, c, d, e, f, g, h] = unsafe {
        [
            _mm256_loadu_ps(src),
            _mm256_loadu_ps(src.offset(col)),
            _mm256_loadu_ps(src.offset(2 * col)),
            _mm256_loadu_ps(src.offset(3 * col)),
            _mm256_loadu_ps(src.offset(4 * col)),
            _mm256_loadu_ps(src.offset(5 * col)),
            _mm256_loadu_ps(src.offset(6 * col)),
            _mm256_loadu_ps(src.offset(7 * col)),
        ]
    };
    // Pairs of columns, then fours, within each half of a vector; then the halves.
    let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
    let (ef, gh) = (_mm256_unpacklo_ps(e, f), _mm256_unpacklo_ps(g, h));
    let (first, second) = (
        [
            _mm256_shuffle_ps::<0x44>(ab, cd),
            _mm256_shuffle_ps::<0xee>(ab, cd),
        ],
        [
            _mm256_shuffle_ps::<0x44>(ef, gh),
            _mm256_shuffle_ps::<0xee>(ef, gh),
        ],
    );
    let (ab, cd) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
    let (ef, gh) = (_mm256_unpackhi_ps(e, f), _mm256_unpackhi_ps(g, h));
    let (third, fourth) = (
        [
            _mm256_shuffle_ps::<0x44>(ab, cd),
            _mm256_shuffle_ps::<0xee>(ab, cd),
        ],
        [
            _mm256_shuffle_ps::<0x44>(ef, gh),
            _mm256_shuffle_ps::<0xee>(ef, gh),
        ],
    );
    let rows = [
        _mm256_permute2f128_ps::<0x20>(first[0], second[0]),
        _mm256_permute2f128_ps::<0x20>(first[1], second[1]),
        _mm256_permute2f128_ps::<0x20>(third[0], fourth[0]),
        _mm256_permute2f128_ps::<0x20>(third[1], fourth[1]),
        _mm256_permute2f128_ps::<0x31>(first[0], second[0]),
        _mm256_permute2f128_ps::<0x31>(first[1], second[1]),
        _mm256_permute2f128_ps::<0x31>(third[0], fourth[0]),
        _mm256_permute2f128_ps::<0x31>(third[1], fourth[1]),
    ];
    for (i, row) in rows.into_iter().enumerate() {
        // SAFETY: the caller gives the 64 elements on both sides.
        unsafe { _mm256_storeu_ps(dst.add(i * pitch), row) };
    }
}

/// Four columns of four adjacent elements, `col` apart, to four rows, `pitch` apart.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn transpose_4x4(src: *const f32, col: isize, dst: *mut f32, pitch: usize) {
    use std::arch::x86_64::{
        _mm_loadu_ps, _mm_movehl_ps, _mm_movelh_ps, _mm_storeu_ps, _mm_unpackhi_ps, _mm_unpacklo_ps,
    };
    // SAFETY: SSE is part of the architecture; the caller gives the sixteen elements on both sides.
    unsafe {
        let (a, b) = (_mm_loadu_ps(src), _mm_loadu_ps(src.offset(col)));
        let (c, d) = (
            _mm_loadu_ps(src.offset(2 * col)),
            _mm_loadu_ps(src.offset(3 * col)),
        );
        let (ab, cd) = (_mm_unpacklo_ps(a, b), _mm_unpacklo_ps(c, d));
        _mm_storeu_ps(dst, _mm_movelh_ps(ab, cd));
        _mm_storeu_ps(dst.add(pitch), _mm_movehl_ps(cd, ab));
        let (ab, cd) = (_mm_unpackhi_ps(a, b), _mm_unpackhi_ps(c, d));
        _mm_storeu_ps(dst.add(2 * pitch), _mm_movelh_ps(ab, cd));
        _mm_storeu_ps(dst.add(3 * pitch), _mm_movehl_ps(cd, ab));
    }
}

/// Copies bytes past the caches, for results that are larger than the last of them. Call [`fence`] after the last.
///
/// # Safety
/// `n` bytes may be read at `src` and written at `dst`, and the two do not overlap.
pub unsafe fn stream(src: *const u8, dst: *mut u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        // SAFETY: SSE2 is part of the architecture; the middle part starts at a multiple of 64 bytes.
        unsafe {
            let head = dst.align_offset(64).min(n);
            dst.copy_from_nonoverlapping(src, head);
            let lines = (n - head) / 64;
            for line in 0..lines {
                let at = head + line * 64;
                let from = src.add(at).cast::<__m128i>();
                let to = dst.add(at).cast::<__m128i>();
                let four = [0, 1, 2, 3].map(|i| _mm_loadu_si128(from.add(i)));
                for (i, &part) in four.iter().enumerate() {
                    _mm_stream_si128(to.add(i), part);
                }
            }
            let done = head + lines * 64;
            dst.add(done)
                .copy_from_nonoverlapping(src.add(done), n - done);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as the caller promises.
    unsafe {
        dst.copy_from_nonoverlapping(src, n);
    }
}

/// Orders what [`stream`] wrote before what the thread writes later.
#[inline]
pub fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of the architecture.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Asks for the cache line at an address that will be read soon; any address will do.
#[inline(always)]
pub fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch does not fault.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every element of a window, in rows further apart than they are long, and nothing beyond them.
    fn check<T: Copy + PartialEq + std::fmt::Debug>(
        (rows, cols): (usize, usize),
        gap: usize,
        of: impl Fn(usize) -> T,
    ) {
        let (col, pitch) = (rows + gap, cols + gap);
        let from: Vec<T> = (1..=col * cols.max(1)).map(&of).collect();
        let mut to = vec![of(0); pitch * rows];
        let window = Window {
            rows,
            cols,
            row: 1,
            col: col as isize,
        };
        // SAFETY: both vectors have room for the window.
        unsafe {
            gather(
                size_of::<T>(),
                window,
                from.as_ptr().cast(),
                to.as_mut_ptr().cast(),
                pitch,
            )
        };
        for r in 0..rows {
            for c in 0..pitch {
                let expected = if c < cols { from[c * col + r] } else { of(0) };
                assert_eq!(to[r * pitch + c], expected, "{rows} by {cols}: {r} {c}");
            }
        }
    }

    #[test]
    fn columns_become_rows() {
        for rows in [1, 2, 3, 7, 8, 9, 16, 31, 40] {
            for cols in [1, 2, 4, 5, 15, 16, 17, 32, 50, 64] {
                for gap in [0, 3] {
                    check((rows, cols), gap, |i| i as u32);
                    check((rows, cols), gap, |i| i as f64);
                    check((rows, cols), gap, |i| i as u16);
                    check((rows, cols), gap, |i| i as u8);
                }
            }
        }
    }
}
