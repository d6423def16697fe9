//! A stage for faults and attacks: child processes that make kernels and run them, a compiler that misbehaves when it is
//! asked to, and a cache folder that tests tamper with.
#![allow(dead_code)]

use ferrotrace_runtime::{ErrorKind, Grid, KernelSource, Launch, compile_kernels, launch, stats};
use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A user that is neither root nor whoever runs the tests.
pub const STRANGER: u32 = 54_321;
/// What a tampered kernel gives.
pub const TAMPERED: i64 = 666_666;

/// A kernel that stores its number.
fn source(n: u32) -> KernelSource {
    let body = format!(
        "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {{\n\
         __atomic_store_n(&a->fault[0], {n}, __ATOMIC_RELAXED); }}\n"
    );
    KernelSource {
        parts: Vec::new(),
        body: body.into(),
        finish: false,
        name: "".into(),
    }
}

/// A source that no compiler takes.
fn broken() -> KernelSource {
    KernelSource {
        parts: Vec::new(),
        body: "void FT_SYMBOL(missing_type x) {}\n".into(),
        finish: false,
        name: "".into(),
    }
}

fn make(sources: &[KernelSource]) -> String {
    let mut numbers = Vec::new();
    for result in compile_kernels(sources) {
        let kernel = match &result {
            Ok(kernel) => kernel,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::NoCompiler(why) => format!("no compiler: {why}"),
                    ErrorKind::Compile { source_path, .. } => {
                        format!("failed [{}] {error}", source_path.display())
                    }
                    _ => format!("{error}"),
                };
            }
        };
        let run = Launch {
            kernel,
            buffers: &[],
            params: &[],
            scalars: &[],
            chunks: 1,
            scratch: 0,
            local: 0,
            grid: Grid::default(),
        };
        let faults = launch(&run).expect("runs");
        let fault = faults.first().expect("the number it stores");
        numbers.push(fault.site.to_string());
    }
    let s = stats();
    format!(
        "ran {} compiled {} found {}",
        numbers.join(" "),
        s.kernels_compiled,
        s.disk_cache_hits
    )
}

/// What a child does: makes the kernels that `SCENE` names, once for each part between semicolons, runs them and tells.
/// Between two parts it waits for the file that `SCENE_GO` names. Nothing happens in a process that is no child.
pub fn child() {
    let Ok(parts) = std::env::var("SCENE") else {
        return;
    };
    for (i, part) in parts.split(';').enumerate() {
        if i > 0 {
            let go = std::env::var_os("SCENE_GO").expect("a file");
            while !Path::new(&go).exists() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
        }
        let of = |word: &str| match word.parse() {
            Ok(n) => source(n),
            Err(_) => broken(),
        };
        let sources: Vec<_> = part.split(',').map(of).collect();
        let told = make(&sources);
        println!("told<{told}>");
    }
}

/// What a child told, a string a part, and what it wrote to standard error.
#[derive(Debug)]
pub struct Told {
    pub parts: Vec<String>,
    pub errors: String,
    pub success: bool,
}

impl Told {
    #[track_caller]
    pub fn one(&self) -> &str {
        assert!(self.success && self.parts.len() == 1, "{self:#?}");
        &self.parts[0]
    }

    pub fn of(output: &std::process::Output) -> Told {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let parts = text.split("told<").skip(1);
        Told {
            parts: parts
                .map(|p| p.rsplit_once('>').map_or(p, |(told, _)| told).to_owned())
                .collect(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
            success: output.status.success(),
        }
    }
}

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0)
}

/// Says that a test was left out.
pub fn skip(why: &str) {
    eprintln!("skipped: {why}");
}

pub struct Scene(TempDir);

/// The compiler of all scenes, with `#` for its folder: what it is asked by variables of the environment it does to one
/// call; else it is gcc. Its argument keeps the library from running gcc's stages without it.
const COMPILER: &str = r##"#!/bin/sh
case "$*" in
*-###*)
    echo asked >> '#/asked'
    [ -n "$MUTE" ] && { echo $$ > '#/mute'; sleep 600; }
    exec gcc "$@" ;;
esac
echo run >> '#/runs'
[ -n "$HANG" ] && { sleep 600 & echo $! > '#/hung'; sleep 600; }
[ -n "$LEAVE" ] && { sleep 300 & echo $! > '#/left'; }
[ -n "$TAMPER" ] && { sed 's/fault\[0\], [0-9]*/fault[0], 666666/' | gcc "$@"; exit $?; }
if [ -n "$CUT" ]; then
    gcc "$@" || exit $?
    for out; do :; done
    size=$(stat -c %s "$out")
    truncate -s $((size * CUT / 100)) "$out"
    exit 0
fi
exec gcc "$@"
"##;

impl Scene {
    /// `None`, visibly, where there is no gcc.
    pub fn new() -> Option<Scene> {
        if Command::new("gcc").arg("--version").output().is_err() {
            skip("no gcc");
            return None;
        }
        let scene = Scene(tempfile::tempdir().expect("a folder"));
        allow(scene.0.path(), 0o755);
        let compiler = scene.path("my tools");
        std::fs::create_dir(&compiler).expect("made");
        let compiler = compiler.join("cc");
        let folder = scene.0.path().display().to_string();
        std::fs::write(&compiler, COMPILER.replace("'#/", &format!("'{folder}/")))
            .expect("written");
        allow(&compiler, 0o755);
        Some(scene)
    }

    pub fn path(&self, name: impl AsRef<OsStr>) -> PathBuf {
        self.0.path().join(name.as_ref())
    }

    /// Lines of a file that the compiler keeps.
    pub fn lines(&self, name: &str) -> usize {
        let text = std::fs::read_to_string(self.path(name));
        text.map_or(0, |text| text.lines().count())
    }

    /// A child that makes these kernels with this cache folder.
    pub fn child(&self, cache: &Path, kernels: &str) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        self.prepare(&mut command, cache, kernels);
        command.args(ARGUMENTS);
        command
    }

    pub fn prepare(&self, command: &mut Command, cache: &Path, kernels: &str) {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("FERROTRACE_") {
                command.env_remove(name);
            }
        }
        let compiler = self.path("my tools").join("cc");
        command
            .env("SCENE", kernels)
            .env("FERROTRACE_CACHE_DIR", cache)
            .env("FERROTRACE_THREADS", "2")
            .env("CC", format!("'{}' -g0", compiler.display()));
    }

    /// What a child of these settings tells.
    pub fn run(&self, cache: &Path, kernels: &str, settings: &[(&str, &OsStr)]) -> Told {
        let mut command = self.child(cache, kernels);
        command.envs(settings.iter().copied());
        Told::of(&command.output().expect("runs"))
    }

    /// A cache folder whose kernels give other numbers under the right keys.
    pub fn tampered(&self, name: &str, kernels: &str) -> PathBuf {
        let cache = self.path(name);
        let told = self.run(&cache, kernels, &[("TAMPER", "1".as_ref())]);
        assert!(told.one().contains(&TAMPERED.to_string()), "{told:?}");
        // The library finds it where nothing speaks against it, or the attacks would prove nothing.
        let told = self.run(&cache, kernels, &[]);
        assert!(told.one().contains(&TAMPERED.to_string()), "{told:?}");
        cache
    }
}

/// The arguments of a child.
pub const ARGUMENTS: [&str; 4] = ["--exact", "child", "--nocapture", "--test-threads=1"];

/// Runs a command as a stranger.
pub fn as_stranger(command: &mut Command) {
    command.uid(STRANGER).gid(STRANGER);
}

pub fn allow(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("allowed");
}

/// Everything below a folder, itself first; links are not followed.
pub fn all(folder: &Path) -> Vec<PathBuf> {
    let mut found = vec![folder.to_owned()];
    let mut at = 0;
    while at < found.len() {
        let path = found[at].clone();
        at += 1;
        if path.is_dir() && !path.is_symlink() {
            let entries = std::fs::read_dir(&path).expect("a folder").flatten();
            found.extend(entries.map(|entry| entry.path()));
        }
    }
    found
}

/// Makes files and links below a folder, and perhaps folders, a stranger's.
pub fn estrange(folder: &Path, folders_too: bool) {
    for path in all(folder) {
        if path.is_symlink() {
            lchown(&path, Some(STRANGER), Some(STRANGER)).expect("given away");
        } else if folders_too || !path.is_dir() {
            chown(&path, Some(STRANGER), Some(STRANGER)).expect("given away");
        }
    }
}

/// The folder of artifacts in a cache folder.
pub fn kernels(cache: &Path) -> PathBuf {
    cache.join("kernels-1")
}

/// The artifacts in a cache folder.
pub fn artifacts(cache: &Path) -> Vec<PathBuf> {
    let mut found = all(&kernels(cache));
    found.retain(|path| path.extension().is_some_and(|x| x == "ftk"));
    found
}
