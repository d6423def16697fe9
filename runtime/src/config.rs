//! What the environment asks for, read once.

use crate::log::Channels;
use once_cell::sync::Lazy;
use std::path::PathBuf;

/// The settings of this process, taken from the environment when first asked for.
#[derive(Clone, Debug)]
pub struct Config {
    /// `FERROTRACE_MODE`: `compiled`, `eager` or `tiered`; empty when unset.
    pub mode: String,
    /// `FERROTRACE_CACHE_DIR`, else `$XDG_CACHE_HOME/ferrotrace`, else `~/.cache/ferrotrace`, else a folder of the
    /// temporary directory.
    pub cache_dir: PathBuf,
    /// Whether artifacts are kept on disk: false with `FERROTRACE_CACHE=0`.
    pub disk_cache: bool,
    /// `FERROTRACE_THREADS`, else the available parallelism; at least 1.
    pub threads: usize,
    /// `FERROTRACE_LOG`, a list of channels, and those of the level `FERROTRACE_DEBUG`, 0 to 5.
    pub log: Channels,
    /// Names in `FERROTRACE_LOG` that are no channels.
    pub unknown_channels: Vec<String>,
    /// `FERROTRACE_DUMP`: where every source, explanation and log is written.
    pub dump: Option<PathBuf>,
    /// Whether verifiers run between passes: with debug assertions or `FERROTRACE_VERIFY=1`.
    pub verify: bool,
    /// `FERROTRACE_CHECK=1`: every replay is traced again and compared.
    pub check: bool,
    /// `FERROTRACE_PLAIN_MEMORY=1`: memory of the host comes from the C library, as large as asked for, and goes back at
    /// once. Slow; for tools that watch accesses to memory.
    pub plain_memory: bool,
    /// `FERROTRACE_STRICT=1`: no fallbacks.
    pub strict: bool,
    /// `FERROTRACE_NANS=1`: after every step its results are looked at, and a NaN or an infinity that came of finite
    /// operands is an error. Slow.
    pub nans: bool,
    /// `FERROTRACE_FUSE_LIMIT`: only so many fusions are done in this process.
    pub fuse_limit: Option<u64>,
    /// Whether independent kernels share launches: false with `FERROTRACE_COMBINE=0`.
    pub combine: bool,
    /// Whether runs of launches on a device are captured in graphs: false with `FERROTRACE_GRAPHS=0`.
    pub graphs: bool,
    /// `FERROTRACE_TF32=1`: matrix products of binary32 on a device shorten their operands' fractions to 10 bits.
    pub tf32: bool,
    /// `FERROTRACE_TUNE=1`: doubtful decisions of a plan are measured where no mode of the program says otherwise.
    pub tune: bool,
    /// `FERROTRACE_ATOMICS=1`: scatters on a device add floats as they come, so that sums may differ from run to run.
    pub atomics: bool,
    /// `CC`.
    pub cc: Option<String>,
    /// `FERROTRACE_NVRTC`: the folder of NVRTC's libraries, where the loader does not find them by itself.
    pub nvrtc: Option<PathBuf>,
    /// Whether convolutions on a device may be cuDNN's: false with `FERROTRACE_CUDNN=0`.
    pub cudnn: bool,
    /// `FERROTRACE_CUDNN`: the folder of cuDNN's libraries, where the loader does not find them by itself.
    pub cudnn_folder: Option<PathBuf>,
}

static CONFIG: Lazy<Config> = Lazy::new(|| {
    let config = Config::from_lookup(|name| std::env::var(name).ok());
    for name in &config.unknown_channels {
        crate::host::warn(&format!("FERROTRACE_LOG: there is no channel {name:?}"));
    }
    config
});

impl Config {
    /// The settings of this process.
    pub fn get() -> &'static Config {
        &CONFIG
    }

    /// The settings that variables looked up through `lookup` ask for. An empty variable counts as unset.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Config {
        let var = |name: &str| {
            lookup(name)
                .map(|v| v.trim().to_owned())
                .filter(|v| !v.is_empty())
        };
        let set = |name: &str| var(name).is_some_and(|v| v != "0");
        let level = var("FERROTRACE_DEBUG").and_then(|v| v.parse().ok());
        let (named, unknown_channels) = Channels::named(&var("FERROTRACE_LOG").unwrap_or_default());
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        Config {
            mode: var("FERROTRACE_MODE")
                .unwrap_or_default()
                .to_ascii_lowercase(),
            cache_dir: var("FERROTRACE_CACHE_DIR")
                .map(PathBuf::from)
                .or_else(|| var("XDG_CACHE_HOME").map(|d| PathBuf::from(d).join("ferrotrace")))
                .or_else(|| var("HOME").map(|d| PathBuf::from(d).join(".cache/ferrotrace")))
                .unwrap_or_else(temporary_cache_dir),
            disk_cache: var("FERROTRACE_CACHE").is_none_or(|v| v != "0"),
            threads: var("FERROTRACE_THREADS")
                .and_then(|v| v.parse().ok())
                .filter(|&n| n >= 1)
                .unwrap_or_else(cores)
                .min(crate::pool::MAX_THREADS),
            log: named.and(Channels::of_level(level.unwrap_or(0))),
            unknown_channels,
            dump: var("FERROTRACE_DUMP").map(PathBuf::from),
            verify: cfg!(debug_assertions) || set("FERROTRACE_VERIFY"),
            check: set("FERROTRACE_CHECK"),
            plain_memory: set("FERROTRACE_PLAIN_MEMORY"),
            strict: set("FERROTRACE_STRICT"),
            nans: set("FERROTRACE_NANS"),
            fuse_limit: var("FERROTRACE_FUSE_LIMIT").and_then(|v| v.parse().ok()),
            combine: var("FERROTRACE_COMBINE").is_none_or(|v| v != "0"),
            graphs: var("FERROTRACE_GRAPHS").is_none_or(|v| v != "0"),
            tf32: set("FERROTRACE_TF32"),
            tune: set("FERROTRACE_TUNE"),
            atomics: set("FERROTRACE_ATOMICS"),
            cc: var("CC"),
            nvrtc: var("FERROTRACE_NVRTC").map(PathBuf::from),
            cudnn: var("FERROTRACE_CUDNN").is_none_or(|v| v != "0"),
            cudnn_folder: var("FERROTRACE_CUDNN")
                .filter(|v| v != "0")
                .map(PathBuf::from),
        }
    }
}

/// One folder a user, so that two users of one machine do not meet in it.
fn temporary_cache_dir() -> PathBuf {
    // SAFETY: geteuid has no preconditions and cannot fail.
    let user = unsafe { libc::geteuid() };
    std::env::temp_dir().join(format!("ferrotrace-{user}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Config {
        Config::from_lookup(|name| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        })
    }

    #[test]
    fn defaults_and_precedence() {
        let c = of(&[]);
        assert!(
            c.disk_cache
                && !c.strict
                && !c.check
                && !c.plain_memory
                && !c.nans
                && c.graphs
                && !c.tf32
                && !c.tune
                && c.cudnn
                && c.cudnn_folder.is_none()
                && !c.atomics
                && c.fuse_limit.is_none()
                && c.log == Channels::default()
                && c.threads >= 1
        );
        assert_eq!(
            of(&[("HOME", "/h")]).cache_dir,
            PathBuf::from("/h/.cache/ferrotrace")
        );
        let xdg = [("HOME", "/h"), ("XDG_CACHE_HOME", "/x")];
        assert_eq!(of(&xdg).cache_dir, PathBuf::from("/x/ferrotrace"));
        let all = [
            ("HOME", "/h"),
            ("XDG_CACHE_HOME", "/x"),
            ("FERROTRACE_CACHE_DIR", "/c"),
        ];
        assert_eq!(of(&all).cache_dir, PathBuf::from("/c"));
    }

    #[test]
    fn values() {
        let c = of(&[
            ("FERROTRACE_CACHE", "0"),
            ("FERROTRACE_THREADS", "3"),
            ("FERROTRACE_DEBUG", "1"),
            ("FERROTRACE_LOG", "rounds,colour"),
            ("FERROTRACE_STRICT", "1"),
            ("FERROTRACE_PLAIN_MEMORY", "1"),
            ("FERROTRACE_MODE", "Eager"),
            ("FERROTRACE_NANS", "1"),
            ("FERROTRACE_FUSE_LIMIT", "17"),
            ("FERROTRACE_GRAPHS", "0"),
            ("FERROTRACE_TF32", "1"),
            ("FERROTRACE_TUNE", "1"),
            ("FERROTRACE_ATOMICS", "1"),
            ("CC", ""),
        ]);
        assert_eq!(
            (c.disk_cache, c.threads, c.log, c.strict),
            (false, 3, Channels::named("flush,rounds").0, true)
        );
        assert_eq!(c.unknown_channels, ["colour"]);
        assert!(c.plain_memory && c.nans && !c.graphs && c.tf32 && c.tune && c.atomics);
        assert_eq!(c.fuse_limit, Some(17));
        assert_eq!((c.mode.as_str(), c.cc), ("eager", None));
        assert!(of(&[("FERROTRACE_THREADS", "0")]).threads >= 1);
        let off = of(&[("FERROTRACE_CUDNN", "0")]);
        assert_eq!((off.cudnn, off.cudnn_folder), (false, None));
        let there = of(&[("FERROTRACE_CUDNN", "/d")]);
        assert_eq!(
            (there.cudnn, there.cudnn_folder),
            (true, Some(PathBuf::from("/d")))
        );
    }
}
