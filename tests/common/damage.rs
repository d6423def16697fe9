//! Files that are damaged at random.

use super::rng::Rng;

/// A file with one to eight places of it changed.
pub fn damaged(whole: &[u8], rng: &mut Rng) -> Vec<u8> {
    const TELLING: [u8; 16] = [
        0, 1, 0x7f, 0x80, 0xff, b'(', b')', b'[', b'{', b'"', b'.', b'R', b'9', b'-', b'q', b'c',
    ];
    let mut bytes = whole.to_vec();
    for _ in 0..rng.between(1, 8) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.below(bytes.len());
        match rng.below(9) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = rng.below(256) as u8,
            2 | 3 => bytes[at] = TELLING[rng.below(16)],
            4 => {
                let wide = [u64::MAX, 1 << 63, 1 << 40, u32::MAX as u64, 0][rng.below(5)];
                let len = (bytes.len() - at).min([1, 2, 4, 8][rng.below(4)]);
                bytes[at..at + len].copy_from_slice(&wide.to_le_bytes()[..len]);
            }
            5 => bytes.truncate(at),
            6 => bytes.insert(at, TELLING[rng.below(16)]),
            7 => {
                let end = (at + rng.below(16)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let from = rng.below(bytes.len());
                let end = (from + rng.below(64)).min(bytes.len());
                let copy = bytes[from..end].to_vec();
                bytes.splice(at..at, copy);
            }
        }
    }
    bytes
}

/// What an environment variable says, or a number.
pub fn number(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok();
    set.map_or(default, |text| text.parse().expect("a number"))
}
