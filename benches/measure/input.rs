//! Inputs that every language makes alike: integers mixed by SplitMix64, exact up to one multiplication in f32.

/// One step of SplitMix64's mixing (Steele, Lea, Flood, 2014).
pub fn mix(x: u64) -> u64 {
    let mut z = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn word(seed: u64, i: u64) -> u64 {
    mix((seed << 32) ^ i)
}

/// `n` numbers, about normal with mean 0 and deviation `scale`: sums of four uniform ones.
pub fn normal(n: usize, seed: u64, scale: f32) -> Vec<f32> {
    let factor = (1.0 / 37837.2) * scale;
    (0..n as u64)
        .map(|i| {
            let w = word(seed, i);
            let sum: i64 = (0..4)
                .map(|field| (w >> (16 * field) & 0xffff) as i64)
                .sum();
            (sum - 131_070) as f32 * factor
        })
        .collect()
}

/// `n` integers below `bound`.
pub fn below(n: usize, seed: u64, bound: u64) -> Vec<i64> {
    (0..n as u64)
        .map(|i| (word(seed, i) % bound) as i64)
        .collect()
}

/// The operation that a name `op_OPERATION_SIZE` stands for, and the side of its square operands; of other names, what
/// follows `op_`, and the side they would have.
pub fn operation(name: &str) -> Option<(&str, usize)> {
    let name = name.strip_prefix("op_")?;
    let sizes = [("_1k", 32), ("_64k", 256), ("_1m", 1024)];
    let sized = sizes
        .into_iter()
        .find_map(|(suffix, side)| Some((name.strip_suffix(suffix)?, side)));
    Some(sized.unwrap_or((name, 1024)))
}
