//! The bytes of a pickle, read with a bound.

use crate::io::file::read_exactly;
use std::io::Read;

/// A stream of which at most so many bytes are read.
pub(super) struct Bounded<'a> {
    from: &'a mut dyn Read,
    most: usize,
    left: usize,
}

impl<'a> Bounded<'a> {
    pub fn new(from: &'a mut dyn Read, most: usize) -> Bounded<'a> {
        Bounded {
            from,
            most,
            left: most,
        }
    }

    /// How many bytes were read.
    pub fn taken(&self) -> usize {
        self.most - self.left
    }

    /// So many bytes, for which memory is taken as they come.
    pub fn bytes(&mut self, len: u64) -> Result<Vec<u8>, String> {
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        self.spend(len)?;
        read_exactly(&mut self.from, len, 0).map_err(|error| error.to_string())
    }

    fn spend(&mut self, len: usize) -> Result<(), String> {
        let left = self.left.checked_sub(len);
        self.left = left.ok_or("a pickle is longer than any of tensors' names")?;
        Ok(())
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.spend(N)?;
        let mut bytes = [0; N];
        let read = self.from.read_exact(&mut bytes);
        read.map_err(|_| "the pickle ends before its last instruction")?;
        Ok(bytes)
    }

    pub fn byte(&mut self) -> Result<u8, String> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A length of `N` bytes.
    pub fn len<const N: usize>(&mut self) -> Result<u64, String> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.array::<N>()?);
        Ok(u64::from_le_bytes(wide))
    }

    pub fn text(&mut self, len: u64) -> Result<String, String> {
        let text = String::from_utf8(self.bytes(len)?);
        text.map_err(|_| "a text is not UTF-8".to_owned())
    }

    /// The text up to the end of the line.
    pub fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        loop {
            match self.byte()? {
                b'\n' => break,
                byte => line.push(byte),
            }
        }
        String::from_utf8(line).map_err(|_| "a text is not UTF-8".to_owned())
    }
}
