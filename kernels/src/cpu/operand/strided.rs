//! Copies of two-dimensional windows of memory into dense rows.

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

/// Columns whose elements are nearer to each other than those of rows: read along columns, in blocks of four columns.
unsafe fn transpose<T: Copy>(w: Window, src: *const T, dst: *mut T, pitch: usize) {
    let Window {
        rows,
        cols,
        row,
        col,
    } = w;
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
