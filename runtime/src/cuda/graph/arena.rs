//! One block for all memory that lives within a recording.

use crate::cuda::record::Symbol;

/// Blocks of a graph's own memory start at multiples of this.
const ALIGN: usize = 256;

/// Where symbols lie in one block, those that are alive at the same time apart, and the block's bytes: each in the first
/// gap that is wide enough.
pub(super) fn arena<'a>(symbols: impl Iterator<Item = &'a Symbol>) -> (Vec<usize>, usize) {
    let mut placed: Vec<(usize, usize, usize)> = Vec::new();
    let (mut offsets, mut end) = (Vec::new(), 0);
    for symbol in symbols {
        let size = symbol.bytes.next_multiple_of(ALIGN);
        // In the order of offsets; who died before this was born is of no account.
        placed.retain(|p| p.2 > symbol.born);
        let mut at = 0;
        let mut position = placed.len();
        for (i, (start, bytes, _)) in placed.iter().enumerate() {
            if start - at >= size {
                position = i;
                break;
            }
            at = start + bytes;
        }
        placed.insert(position, (at, size, symbol.died.unwrap_or(usize::MAX)));
        offsets.push(at);
        end = end.max(at + size);
    }
    (offsets, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(bytes: usize, born: usize, died: usize) -> Symbol {
        Symbol {
            bytes,
            born,
            died: Some(died),
        }
    }

    #[test]
    fn memory_of_one_time_is_apart_and_reused_later() {
        let symbols = [
            symbol(1000, 0, 2),
            symbol(300, 0, 1),
            symbol(200, 1, 3),
            symbol(2000, 2, 4),
            symbol(1000, 2, 3),
        ];
        let (offsets, bytes) = arena(symbols.iter());
        // The third takes the place of the second, the fifth that of the first.
        assert_eq!(offsets, [0, 1024, 1024, 1280, 0]);
        assert_eq!(bytes, 1280 + 2048);
    }

    #[test]
    fn random_lives_never_overlap() {
        let mut state = 1u64;
        let mut next = |n: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        for _ in 0..50 {
            let mut born = 0;
            let symbols: Vec<Symbol> = (0..60)
                .map(|_| {
                    born += next(2);
                    symbol(1 + next(3000), born, born + 1 + next(9))
                })
                .collect();
            let (offsets, bytes) = arena(symbols.iter());
            for (i, a) in symbols.iter().enumerate() {
                assert!(offsets[i] + a.bytes <= bytes && offsets[i] % ALIGN == 0);
                for (j, b) in symbols.iter().enumerate().take(i) {
                    let together = b.died > Some(a.born) && a.died > Some(b.born);
                    let apart =
                        offsets[i] + a.bytes <= offsets[j] || offsets[j] + b.bytes <= offsets[i];
                    assert!(apart || !together, "{a:?} {b:?}");
                }
            }
        }
    }
}
