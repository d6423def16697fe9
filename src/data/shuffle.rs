//! Orders of samples.

/// Numbers by SplitMix64 ([Steele et al. 2014](https://doi.org/10.1145/2660193.2660195)), the same on every machine.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, by multiplication: the bias is below n / 2^64.
    fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

/// The order of an epoch: by Fisher and Yates's method, from a seed and the epoch's number.
pub(super) fn order(len: usize, seed: Option<u64>, epoch: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    if let Some(seed) = seed {
        let mut random = SplitMix(seed);
        // Epochs draw from sequences that begin far apart.
        random.0 = random.next() ^ epoch.wrapping_mul(0xd134_2543_de82_ef95);
        for i in (1..len).rev() {
            order.swap(i, random.below(i + 1));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_every_sample_once_and_depends_on_seed_and_epoch() {
        let of = |seed, epoch| order(100, Some(seed), epoch);
        let mut sorted = of(1, 0);
        sorted.sort_unstable();
        assert_eq!(sorted, order(100, None, 5));
        assert_eq!(of(1, 0), of(1, 0));
        assert_ne!(of(1, 0), of(1, 1));
        assert_ne!(of(1, 0), of(2, 0));
        assert_eq!(order(0, Some(1), 0), Vec::<usize>::new());
    }

    #[test]
    fn every_sample_comes_first_about_equally_often() {
        let mut counts = [0; 8];
        for epoch in 0..8000 {
            counts[order(8, Some(3), epoch)[0]] += 1;
        }
        assert!(
            counts.iter().all(|&n| (850..1150).contains(&n)),
            "{counts:?}"
        );
    }
}
