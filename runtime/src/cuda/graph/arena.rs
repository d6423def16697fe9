//! Places for the memory that lives within a recording: one block of the graph's own, and results before they are begun.

use crate::cuda::record::Symbol;

/// Symbols start at multiples of this.
pub(super) const ALIGN: usize = 256;
/// Results serve for what dies before they are begun where that saves this many bytes: an argument that points there is
/// patched, at a microsecond of the host's time, whenever the result lies elsewhere than at the last launch.
const LEAST: usize = 1 << 20;

/// Where a recording's own symbols lie.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// For each the result that it lies in, by its position among `results`, else `None`: the block; and its offset.
    pub of: Vec<(Option<usize>, usize)>,
    /// Bytes of the block.
    pub bytes: usize,
}

/// Places for symbols of which none is a result.
pub(super) fn places(own: &[&Symbol], results: &[&Symbol]) -> Places {
    let (offsets, bytes) = arena(own.iter().copied());
    let lent = lent(own, results);
    let rest = own.iter().zip(&lent).filter(|(_, place)| place.is_none());
    let (fewer, least) = arena(rest.map(|(&symbol, _)| symbol));
    if bytes < least + LEAST {
        let of = offsets.into_iter().map(|at| (None, at)).collect();
        return Places { of, bytes };
    }
    let mut fewer = fewer.into_iter();
    let of = lent.into_iter().map(|place| match place {
        Some((result, at)) => (Some(result), at),
        None => (None, fewer.next().unwrap_or_default()),
    });
    Places {
        of: of.collect(),
        bytes: least,
    }
}

/// The symbols that lie within results: those that are dead when a result is begun, in the smallest that has room.
fn lent<'a>(own: &[&'a Symbol], results: &[&Symbol]) -> Vec<Option<(usize, usize)>> {
    let mut order: Vec<usize> = (0..results.len()).collect();
    order.sort_by_key(|&at| results[at].bytes);
    let mut placed = vec![Vec::<(usize, usize, &'a Symbol)>::new(); results.len()];
    let place = |symbol: &'a Symbol| {
        let died = symbol.died?;
        order.iter().find_map(|&at| {
            let result = results[at];
            if died > result.born {
                return None;
            }
            let together = |other: &Symbol| other.died > Some(symbol.born) && died > other.born;
            let mut start = 0;
            // In the order of offsets.
            for (from, bytes, _) in placed[at].iter().filter(|p| together(p.2)) {
                if *from >= start + symbol.bytes {
                    break;
                }
                start = start.max((from + bytes).next_multiple_of(ALIGN));
            }
            if start + symbol.bytes > result.bytes {
                return None;
            }
            let others = &mut placed[at];
            let position = others.partition_point(|p| p.0 < start);
            others.insert(position, (start, symbol.bytes, symbol));
            Some((at, start))
        })
    };
    own.iter().copied().map(place).collect()
}

/// Where symbols lie in one block, those that are alive at the same time apart, and the block's bytes: each in the first
/// gap that is wide enough.
fn arena<'a>(symbols: impl Iterator<Item = &'a Symbol>) -> (Vec<usize>, usize) {
    let mut placed: Vec<(usize, usize, usize)> = Vec::new();
    let (mut offsets, mut end) = (Vec::new(), 0);
    for symbol in symbols {
        let size = symbol.bytes.next_multiple_of(ALIGN);
        // In the order of offsets, without the symbols that died before this one was born.
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

    #[test]
    fn results_lend_their_memory_until_they_are_begun() {
        const MB: usize = 1 << 20;
        let own = [
            symbol(3 * MB, 0, 2),
            symbol(2 * MB, 1, 3),
            symbol(8 * MB, 2, 4),
            symbol(3 * MB, 3, 4),
        ];
        let own: Vec<&Symbol> = own.iter().collect();
        let result = |bytes, born| Symbol {
            bytes,
            born,
            died: None,
        };
        let results = [result(5 * MB, 3), result(4 * MB, 5)];
        let results: Vec<&Symbol> = results.iter().collect();
        let places = places(&own, &results);
        // The second result is the smaller one, and has room for the last when the first is dead.
        let of = [(Some(1), 0), (Some(0), 0), (None, 0), (Some(1), 0)];
        assert_eq!((&places.of[..], places.bytes), (&of[..], 8 * MB));
        // What saves little is not worth patches.
        let small = [symbol(1000, 0, 2)];
        let alone = super::places(&[&small[0]], &results);
        assert_eq!((&alone.of[..], alone.bytes), (&[(None, 0)][..], 1024));
    }

    #[test]
    fn what_results_lend_is_never_used_twice() {
        let mut state = 7u64;
        let mut next = |n: usize| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) as usize % n
        };
        let mut lent = 0;
        for _ in 0..50 {
            let mut born = 0;
            let mut symbols = |count: usize| -> Vec<Symbol> {
                born = 0;
                (0..count)
                    .map(|_| {
                        born += next(2);
                        symbol(1 + next(3 << 20), born, born + 1 + next(9))
                    })
                    .collect()
            };
            let (own, mut results) = (symbols(60), symbols(20));
            results.iter_mut().for_each(|result| result.died = None);
            let own: Vec<&Symbol> = own.iter().collect();
            let results: Vec<&Symbol> = results.iter().collect();
            let places = places(&own, &results);
            for (i, a) in own.iter().enumerate() {
                let (block, at) = places.of[i];
                assert_eq!(at % ALIGN, 0);
                match block {
                    Some(r) => {
                        lent += 1;
                        assert!(
                            at + a.bytes <= results[r].bytes && a.died <= Some(results[r].born)
                        );
                    }
                    None => assert!(at + a.bytes <= places.bytes),
                }
                for (j, b) in own.iter().enumerate().take(i) {
                    let (other, from) = places.of[j];
                    let together = b.died > Some(a.born) && a.died > Some(b.born);
                    let apart = at + a.bytes <= from || from + b.bytes <= at;
                    assert!(apart || !together || block != other, "{a:?} {b:?}");
                }
            }
        }
        assert!(lent > 100, "{lent}");
    }
}
