//! Channels of diagnostics: what a process may tell of on standard error, each switched on by itself.

/// An area of diagnostics. `FERROTRACE_LOG` names those wanted, separated by commas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Channel {
    /// `flush`: flushes, with what each computes.
    Flush = 1,
    /// `plans`: a line a plan: operations, nests, kernels, calls, bytes.
    Plans = 1 << 1,
    /// `explain`: the explanation of every plan, without sources.
    Explain = 1 << 2,
    /// `fusion`: every pair that became one kernel or did not, with the reason.
    Fusion = 1 << 3,
    /// `rounds`: how many nodes each round of fusion left.
    Rounds = 1 << 4,
    /// `loops`: loop nests before fusion, fused nodes after it.
    Loops = 1 << 5,
    /// `hints`: what would make a program faster.
    Hints = 1 << 6,
    /// `sources`: the text of kernels.
    Sources = 1 << 7,
    /// `commands`: what is run to compile them.
    Commands = 1 << 8,
}

/// Every channel with its name.
const NAMES: [(&str, Channel); 9] = [
    ("flush", Channel::Flush),
    ("plans", Channel::Plans),
    ("explain", Channel::Explain),
    ("fusion", Channel::Fusion),
    ("rounds", Channel::Rounds),
    ("loops", Channel::Loops),
    ("hints", Channel::Hints),
    ("sources", Channel::Sources),
    ("commands", Channel::Commands),
];

impl Channel {
    /// Its name in `FERROTRACE_LOG`.
    pub fn name(self) -> &'static str {
        let of = NAMES.iter().find(|(_, channel)| *channel == self);
        of.map_or("", |(name, _)| name)
    }
}

/// A set of channels.
///
/// ```
/// use ferrotrace_runtime::{Channel, Channels};
/// let (some, unknown) = Channels::named("fusion, rounds, colour");
/// assert!(some.has(Channel::Fusion) && !some.has(Channel::Flush));
/// assert_eq!(unknown, ["colour"]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Channels(u16);

impl Channels {
    /// The channels that a list names (`all`: every one), and the names that no channel has.
    pub fn named(list: &str) -> (Channels, Vec<String>) {
        let (mut set, mut unknown) = (Channels::default(), Vec::new());
        let names = list.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty()) {
            match NAMES.iter().find(|(known, _)| *known == name) {
                Some((_, channel)) => set.0 |= *channel as u16,
                None if name == "all" => set.0 = u16::MAX,
                None => unknown.push(name.to_owned()),
            }
        }
        (set, unknown)
    }

    /// The channels of a level of `FERROTRACE_DEBUG`: `1` flushes, `2` plans too, `4` sources too, `5` commands too.
    pub fn of_level(level: u8) -> Channels {
        let from = |least: u8, channels: &[Channel]| match level >= least {
            true => channels.iter().fold(0, |set, c| set | *c as u16),
            false => 0,
        };
        let plans = [Channel::Plans, Channel::Explain, Channel::Hints];
        Channels(
            from(1, &[Channel::Flush])
                | from(2, &plans)
                | from(4, &[Channel::Sources])
                | from(5, &[Channel::Commands]),
        )
    }

    /// The channels of both sets.
    pub fn and(self, other: Channels) -> Channels {
        Channels(self.0 | other.0)
    }

    /// Whether a channel is in the set.
    pub fn has(self, channel: Channel) -> bool {
        self.0 & channel as u16 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_names_give_sets() {
        let of = |list| Channels::named(list).0;
        assert_eq!(Channels::of_level(0), of(""));
        assert_eq!(Channels::of_level(1), of("flush"));
        assert_eq!(Channels::of_level(3), of("flush,plans,explain,hints"));
        let all = of("all");
        assert!(NAMES.iter().all(|(_, channel)| all.has(*channel)));
        let both = of("rounds").and(of("loops"));
        assert_eq!(both, of(" loops ,rounds,"));
        assert_eq!(Channels::named("x,all").1, ["x"]);
        for (name, channel) in NAMES {
            assert_eq!((channel.name(), of(name).has(channel)), (name, true));
        }
    }
}
