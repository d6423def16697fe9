//! Whether the bytes of an ELF file are all there.
//!
//! The loader maps what the headers say; a page beyond the end of the file kills the process by a signal when it is
//! touched, and a driver that is given an address alone reads past the end.

use std::ops::Range;

const IDENTITY: &[u8; 7] = b"\x7fELF\x02\x01\x01";
/// Bytes of the file header, of a program header, of a section header.
const HEADER: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
/// The type of a section without bytes in the file.
const NOBITS: u32 = 8;
/// The type of a segment that is mapped, and the flag of one that may be read.
const LOADED: u32 = 1;
const READABLE: u32 = 4;

/// The number of `N` bytes at an offset, the least significant first.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(N)?)?;
    Some(
        part.iter()
            .rev()
            .fold(0, |n, &byte| n << 8 | u64::from(byte)),
    )
}

/// Entries of a table: an offset, their size and how many there are.
fn table(bytes: &[u8], [offset, size, count]: [Option<u64>; 3]) -> Option<Vec<&[u8]>> {
    let (offset, size) = (usize::try_from(offset?).ok()?, usize::try_from(size?).ok()?);
    let count = usize::try_from(count?).ok()?;
    if count == 0 {
        return Some(Vec::new());
    }
    let end = offset.checked_add(size.checked_mul(count)?)?;
    let table = bytes.get(offset..end)?;
    (size > 0).then(|| table.chunks_exact(size).collect())
}

/// Whether `size` bytes from an offset are there.
fn lies_within(bytes: &[u8], offset: Option<u64>, size: Option<u64>) -> Option<()> {
    let end = offset?.checked_add(size?)?;
    (end <= bytes.len() as u64).then_some(())
}

fn headers(bytes: &[u8]) -> Option<()> {
    let half = |at| number::<2>(bytes, at);
    let long = |at| number::<8>(bytes, at);
    for segment in program_headers(bytes)? {
        lies_within(bytes, number::<8>(segment, 8), number::<8>(segment, 32))?;
    }
    let (start, mut count) = (long(40)?, half(60)?);
    if start != 0 && count == 0 {
        // More sections than two bytes count: the first one's size says how many.
        count = long(usize::try_from(start).ok()?.checked_add(32)?)?;
    }
    let sections = table(bytes, [Some(start), half(58), Some(count)])?;
    if !sections.is_empty() && half(58)? < SECTION as u64 {
        return None;
    }
    for section in sections {
        if number::<4>(section, 4)? != u64::from(NOBITS) {
            lies_within(bytes, number::<8>(section, 24), number::<8>(section, 32))?;
        }
    }
    Some(())
}

/// The program headers, if they are all there.
fn program_headers(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let half = |at| number::<2>(bytes, at);
    let segments = table(bytes, [number::<8>(bytes, 32), half(54), half(56)])?;
    (segments.is_empty() || half(54)? >= SEGMENT as u64).then_some(segments)
}

/// What the loader maps of a file so that it can be read: addresses from where it puts the file, of bytes that the file has.
pub(crate) fn mapped(bytes: &[u8]) -> Vec<Range<usize>> {
    let range = |segment: &[u8]| {
        let loaded = number::<4>(segment, 0)? == u64::from(LOADED);
        let readable = number::<4>(segment, 4)? & u64::from(READABLE) != 0;
        let start = usize::try_from(number::<8>(segment, 16)?).ok()?;
        let size = usize::try_from(number::<8>(segment, 32)?).ok()?;
        let end = start.checked_add(size)?;
        (loaded && readable).then_some(start..end)
    };
    let segments = program_headers(bytes).unwrap_or_default();
    segments.into_iter().filter_map(range).collect()
}

/// Checks that the headers of a 64-bit file speak of bytes that it has.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn check(bytes: &[u8]) -> Result<(), &'static str> {
    if bytes.is_empty() {
        return Err("the artifact is empty");
    }
    if bytes.len() < HEADER || !bytes.starts_with(IDENTITY) {
        return Err("the artifact is no 64-bit ELF file");
    }
    headers(bytes).ok_or("the artifact is cut short: its headers speak of bytes beyond its end")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CCompiler;

    fn library() -> Option<Vec<u8>> {
        let cc = CCompiler::get().ok()?;
        let source = "static int table[5000] = {1, 2, 3}; int zeros[9000];\n\
                      int ft_0(int i) { return table[i] + zeros[i]; }";
        Some(cc.compile(source).expect("compiles"))
    }

    #[test]
    fn every_shorter_file_is_refused() {
        let Some(whole) = library() else { return };
        assert_eq!(check(&whole), Ok(()));
        for length in (0..whole.len()).step_by(37).chain([whole.len() - 1]) {
            assert!(check(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn absurd_headers_are_refused_without_overflow() {
        let Some(whole) = library() else { return };
        // Offset, entry size and count of both tables; then offset and size of the first segment.
        let segments = number::<8>(&whole, 32).expect("a header") as usize;
        let fields = [(32, 8), (40, 8), (54, 2), (56, 2), (58, 2), (60, 2)];
        let sizes = [(segments + 8, 8), (segments + 32, 8)];
        for (at, width) in fields.into_iter().chain(sizes) {
            let mut wrong = whole.clone();
            wrong[at..at + width].fill(0xff);
            assert!(check(&wrong).is_err(), "{at}");
        }
        assert!(check(b"\x7fELF").is_err() && check(&[b'x'; 500]).is_err());
    }

    #[test]
    fn what_is_mapped_holds_the_tables() {
        let Some(whole) = library() else { return };
        let mapped = mapped(&whole);
        let bytes: usize = mapped.iter().map(|range| range.len()).sum();
        assert!(bytes >= 5000 * 4 && bytes <= whole.len(), "{mapped:?}");
        assert!(super::mapped(&whole[..200]).is_empty());
    }

    #[test]
    fn a_device_s_artifacts_are_whole() {
        let source = "extern \"C\" __global__ void ft_0(float *p) { p[threadIdx.x] = 1.0f; }\n";
        let Ok(cubin) = crate::cuda::compile_for("sm_90a", source) else {
            eprintln!("skipped: no NVRTC");
            return;
        };
        assert_eq!(check(&cubin), Ok(()));
        assert!(check(&cubin[..cubin.len() - 1]).is_err());
    }
}
