//! What the environment asks for, read once.

mod channels;
mod variables;

pub use channels::{Channel, Channels};

use crate::error::warn;
use once_cell::sync::Lazy;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use variables::{Variables, is_off, is_switch};

/// The settings of this process, taken from the environment when first asked for.
#[derive(Clone, Debug)]
pub struct Config {
    /// `FERROTRACE_MODE`: `compiled`, `eager` or `tiered`; empty when unset.
    pub mode: &'static str,
    /// `FERROTRACE_CACHE_DIR`, else `$XDG_CACHE_HOME/ferrotrace`, else `~/.cache/ferrotrace`, else a folder of the
    /// temporary directory.
    pub cache_dir: PathBuf,
    /// Whether artifacts are kept on disk: false with `FERROTRACE_CACHE=0`.
    pub disk_cache: bool,
    /// `FERROTRACE_THREADS`, else the available parallelism; at least 1.
    pub threads: usize,
    /// `FERROTRACE_LOG`, a list of channels, and those of the level `FERROTRACE_DEBUG`, 0 to 5.
    pub log: Channels,
    /// What was not understood, a sentence each. They are printed when the process first asks for its settings.
    pub complaints: Vec<String>,
    /// `FERROTRACE_DUMP`: where every source, explanation and log is written.
    pub dump: Option<PathBuf>,
    /// Whether verifiers run between passes: `FERROTRACE_VERIFY`, else with debug assertions.
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
    /// Whether compiled functions copy the tensors that they capture in the order that kernels read, wherever memory is plenty:
    /// false with `FERROTRACE_PACK=0`.
    pub pack: bool,
    /// Whether runs of launches on a device are captured in graphs: false with `FERROTRACE_GRAPHS=0`.
    pub graphs: bool,
    /// `FERROTRACE_TF32=1`: matrix products of binary32 on a device shorten their operands' fractions to 10 bits.
    pub tf32: bool,
    /// `FERROTRACE_TUNE=1`: doubtful decisions of a plan are measured where no mode of the program says otherwise.
    pub tune: bool,
    /// `FERROTRACE_ATOMICS=1`: scatters on a device add floats as they come, so that sums may differ from run to run.
    pub atomics: bool,
    /// `CC`: a program, perhaps with arguments, in the shell's quotes where they hold blanks.
    pub cc: Option<OsString>,
    /// `FERROTRACE_COMPILE_TIMEOUT`, in seconds, else 60: a run of the C compiler that lasts longer is ended. `None`, by
    /// `0` or `off`: never.
    pub compile_timeout: Option<Duration>,
    /// `FERROTRACE_ISA`: a lesser instruction set than the machine has; empty when unset.
    pub isa: &'static str,
    /// `FERROTRACE_NVRTC`: the folder that NVRTC's libraries are loaded from, whatever the loader would find.
    pub nvrtc: Option<PathBuf>,
    /// Whether convolutions on a device may be cuDNN's: false with `FERROTRACE_CUDNN=0`.
    pub cudnn: bool,
    /// `FERROTRACE_CUDNN`: the folder that cuDNN's libraries are loaded from, whatever the loader would find.
    pub cudnn_folder: Option<PathBuf>,
}

/// The most threads a job is spread over.
pub const MAX_THREADS: usize = 256;

/// Seconds that a run of the C compiler may last, unless the environment says otherwise: the slowest files take ten.
const COMPILE_SECONDS: f64 = 60.0;

static CONFIG: Lazy<Config> = Lazy::new(|| {
    let config = Config::from_lookup(|name| std::env::var_os(name));
    config.complaints.iter().for_each(|c| warn(c));
    config
});

impl Config {
    /// The settings of this process.
    pub fn get() -> &'static Config {
        &CONFIG
    }

    /// The settings that variables looked up through `lookup` ask for. An empty variable counts as unset, and so does
    /// one that is not understood, beside its complaint.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<OsString>) -> Config {
        let vars = Variables::new(lookup);
        let set = |name| vars.switch(name, false);
        let kept = |name| vars.switch(name, true);
        let level = vars.number("FERROTRACE_DEBUG", "a number from 0 to 5", |_: &u8| true);
        let list = vars.word("FERROTRACE_LOG").filter(|list| !is_off(list));
        let (named, unknown) = Channels::named(&list.unwrap_or_default());
        for name in &unknown {
            vars.complain("FERROTRACE_LOG", format!("there is no channel {name:?}"));
        }
        let cores = || std::thread::available_parallelism().map_or(1, |n| n.get());
        let threads = vars.number("FERROTRACE_THREADS", "a number from 1 on", |&n: &usize| {
            n > 0
        });
        let any = |_: &u64| true;
        let seconds = "a number of seconds";
        let timeout = vars.number("FERROTRACE_COMPILE_TIMEOUT", seconds, |&s: &f64| {
            (0.0..1e9).contains(&s)
        });
        let unlimited = vars
            .raw("FERROTRACE_COMPILE_TIMEOUT")
            .is_some_and(|v| v.to_str().is_some_and(|v| is_off(v.trim())));
        let timeout = timeout.unwrap_or(if unlimited { 0.0 } else { COMPILE_SECONDS });
        let cudnn = vars.raw("FERROTRACE_CUDNN");
        let cudnn_is_path = cudnn.as_ref().is_some_and(|value| !is_switch(value));
        let mut config = Config {
            mode: vars
                .one_of("FERROTRACE_MODE", &["compiled", "eager", "tiered"])
                .unwrap_or_default(),
            cache_dir: vars
                .path("FERROTRACE_CACHE_DIR")
                .or_else(|| vars.path("XDG_CACHE_HOME").map(|d| d.join("ferrotrace")))
                .or_else(|| vars.path("HOME").map(|d| d.join(".cache/ferrotrace")))
                .unwrap_or_else(temporary_cache_dir),
            disk_cache: kept("FERROTRACE_CACHE"),
            threads: threads.unwrap_or_else(cores).min(MAX_THREADS),
            log: named.and(Channels::of_level(level.unwrap_or(0))),
            complaints: Vec::new(),
            dump: vars.path("FERROTRACE_DUMP"),
            verify: vars.switch("FERROTRACE_VERIFY", cfg!(debug_assertions)),
            check: set("FERROTRACE_CHECK"),
            plain_memory: set("FERROTRACE_PLAIN_MEMORY"),
            strict: set("FERROTRACE_STRICT"),
            nans: set("FERROTRACE_NANS"),
            fuse_limit: vars.number("FERROTRACE_FUSE_LIMIT", "a number", any),
            combine: kept("FERROTRACE_COMBINE"),
            pack: kept("FERROTRACE_PACK"),
            graphs: kept("FERROTRACE_GRAPHS"),
            tf32: set("FERROTRACE_TF32"),
            tune: set("FERROTRACE_TUNE"),
            atomics: set("FERROTRACE_ATOMICS"),
            cc: vars.raw("CC"),
            compile_timeout: (timeout > 0.0).then(|| Duration::from_secs_f64(timeout)),
            isa: vars
                .one_of(
                    "FERROTRACE_ISA",
                    &["sse2", "avx2", "avx512", "avx512bf16", "amx"],
                )
                .unwrap_or_default(),
            nvrtc: vars.path("FERROTRACE_NVRTC"),
            cudnn: cudnn_is_path || kept("FERROTRACE_CUDNN"),
            cudnn_folder: cudnn.filter(|_| cudnn_is_path).map(PathBuf::from),
        };
        config.complaints = vars.complaints();
        config
    }
}

/// One folder a user, so that two users of one machine do not meet in it.
fn temporary_cache_dir() -> PathBuf {
    let user = rustix::process::geteuid();
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
                .map(|(_, v)| OsString::from(v))
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
                && c.pack
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
        assert_eq!(
            c.complaints,
            ["FERROTRACE_LOG: there is no channel \"colour\""]
        );
        assert!(c.plain_memory && c.nans && !c.graphs && c.tf32 && c.tune && c.atomics);
        assert_eq!(c.fuse_limit, Some(17));
        assert_eq!((c.mode, c.cc), ("eager", None));
        assert!(of(&[("FERROTRACE_THREADS", "0")]).threads >= 1);
        let off = of(&[("FERROTRACE_CUDNN", "0")]);
        assert_eq!((off.cudnn, off.cudnn_folder), (false, None));
        let there = of(&[("FERROTRACE_CUDNN", "/d")]);
        assert_eq!(
            (there.cudnn, there.cudnn_folder),
            (true, Some(PathBuf::from("/d")))
        );
    }
    #[test]
    fn off_is_said_in_four_words_to_every_switch() {
        for word in ["0", "false", "off", "no"] {
            let c = Config::from_lookup(|name| (name != "CC").then(|| OsString::from(word)));
            assert!(
                !c.disk_cache && !c.verify && !c.check && !c.plain_memory,
                "{word}"
            );
            assert!(
                !c.strict && !c.nans && !c.combine && !c.pack && !c.graphs && !c.tf32,
                "{word}"
            );
            assert!(!c.tune && !c.atomics && !c.cudnn, "{word}");
            assert_eq!((c.cudnn_folder, c.compile_timeout), (None, None), "{word}");
            assert_eq!(c.log, Channels::default(), "{word}");
        }
        let on = of(&[("FERROTRACE_CUDNN", "1"), ("FERROTRACE_CACHE", "yes")]);
        assert!(on.cudnn && on.cudnn_folder.is_none() && on.disk_cache);
    }

    #[test]
    fn what_is_not_understood_is_told_and_left_out() {
        let c = of(&[
            ("FERROTRACE_MODE", "egar"),
            ("FERROTRACE_THREADS", "abc"),
            ("FERROTRACE_STRICT", "maybe"),
            ("FERROTRACE_ISA", "mmx"),
            ("FERROTRACE_DEBUG", "loud"),
            ("FERROTRACE_FUSE_LIMIT", "few"),
            ("FERROTRACE_COMPILE_TIMEOUT", "soon"),
        ]);
        let names: Vec<&str> = c
            .complaints
            .iter()
            .filter_map(|c| c.split(':').next())
            .collect();
        for name in [
            "MODE",
            "THREADS",
            "STRICT",
            "ISA",
            "DEBUG",
            "FUSE_LIMIT",
            "COMPILE_TIMEOUT",
        ] {
            let told = names.iter().filter(|n| n[11..] == *name).count();
            assert_eq!(told, 1, "{name}: {names:?}");
        }
        assert_eq!(names.len(), 7);
        assert_eq!((c.mode, c.isa, c.strict), ("", "", false));
        assert!(c.threads >= 1 && c.compile_timeout == Some(Duration::from_secs(60)));
        let short = of(&[("FERROTRACE_COMPILE_TIMEOUT", "0.5")]);
        assert_eq!(short.compile_timeout, Some(Duration::from_millis(500)));
        assert!(short.complaints.is_empty());
    }

    #[test]
    fn paths_are_any_bytes() {
        use std::os::unix::ffi::OsStringExt;
        let odd = OsString::from_vec(b"/c/\xff".to_vec());
        let c = Config::from_lookup(|_| Some(odd.clone()));
        let paths = [Some(c.cache_dir), c.dump, c.nvrtc, c.cudnn_folder];
        assert!(paths.iter().all(|path| *path == Some(PathBuf::from(&odd))));
        assert_eq!(c.cc, Some(odd));
    }
}
