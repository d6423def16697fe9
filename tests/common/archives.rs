//! Zip archives that tests read and change.

use std::io::{Cursor, Read, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The name and the bytes of every entry of an archive, in order.
pub fn entries(archive: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut zip = ZipArchive::new(Cursor::new(archive)).expect("an archive");
    let mut entries = Vec::new();
    for i in 0..zip.len() {
        let mut entry = zip.by_index(i).expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("its bytes");
        entries.push((entry.name().to_owned(), bytes));
    }
    entries
}

/// The archive with its entries changed by a function. Entries are stored uncompressed, their bytes at multiples of
/// `alignment` in the file.
pub fn rewritten(
    archive: &[u8],
    alignment: u16,
    change: impl FnOnce(&mut Vec<(String, Vec<u8>)>),
) -> Vec<u8> {
    let mut entries = entries(archive);
    change(&mut entries);
    let mut to = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(alignment);
    for (name, bytes) in entries {
        to.start_file(name, options).expect("an entry");
        to.write_all(&bytes).expect("its bytes");
    }
    to.finish().expect("an archive").into_inner()
}
