//! 128-bit digests: names of kernels and checksums of files. They guard against accidents, not adversaries: the
//! folder's owner is checked for that.

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// The digest of bytes that come in pieces.
pub(crate) type Stream = Xxh3;

/// The digest of some bytes.
pub(crate) fn of(bytes: &[u8]) -> u128 {
    xxh3_128(bytes)
}

/// A digest of several fields, each told apart from the next by its length.
#[derive(Default)]
pub(crate) struct Fields(Xxh3);

impl Fields {
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// One field in pieces.
    pub(crate) fn add_joined(&mut self, pieces: &[&str]) {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.0.update(&(bytes as u64).to_le_bytes());
        for piece in pieces {
            self.0.update(piece.as_bytes());
        }
    }

    pub(crate) fn finish(&self) -> u128 {
        self.0.digest128()
    }
}

/// 32 hexadecimal digits.
pub(crate) fn hex(digest: u128) -> String {
    format!("{digest:032x}")
}
