//! From sources to kernels: found in memory, found on disk, or compiled.

use super::toolchain::{Image, Place, Toolchain};
use super::{Kernel, KernelSource, Missing, Pack, source};
use crate::error::warn;
use crate::observe::counters::{Counter, count};
use crate::store::digest;
use crate::store::folder::Folder;
use crate::store::locks::Locks;
use crate::store::{Artifact, Store};
use crate::{Channel, Config, Device, Error, Result, log};
use lru::LruCache;
use once_cell::sync::Lazy;
use parking_lot::{Condvar, Mutex};
use std::cell::OnceCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Kernels kept in memory, by count and by bytes of code and source.
const COUNT_LIMIT: usize = 4096;
const BYTE_LIMIT: usize = 256 << 20;

/// A kernel that is being compiled: other callers that need it wait here.
#[derive(Default)]
struct Pending {
    result: Mutex<Option<Result<Arc<Kernel>>>>,
    made: Condvar,
}

impl Pending {
    fn wait(&self) -> Result<Arc<Kernel>> {
        let mut result = self.result.lock();
        loop {
            match &*result {
                Some(result) => return result.clone(),
                None => self.made.wait(&mut result),
            }
        }
    }
}

/// A kernel's key, and where it is loaded.
type Loaded = (Place, u128);

struct Memory {
    kernels: LruCache<Loaded, Arc<Kernel>>,
    bytes: usize,
    pending: HashMap<Loaded, Arc<Pending>>,
}

/// The kernels of a process, and where they are kept on disk.
pub(crate) struct Kernels {
    memory: Mutex<Memory>,
    store: Option<&'static Store>,
    /// Whether kernels that are compiled are written to disk too.
    keeps: bool,
}

static GLOBAL: Lazy<Kernels> = Lazy::new(|| Kernels::new(Store::global()));

/// Kernels of these sources, in their order, each found in memory, found on disk or compiled; at most as many runs of
/// the compiler at a time as there are threads.
///
/// Equal kernels are made once, also by several callers at a time. One that fails does not keep others from being made.
///
/// # Errors
/// Per kernel: `NoCompiler`, `Compile` or `Load`.
pub fn compile_kernels(sources: &[KernelSource]) -> Vec<Result<Arc<Kernel>>> {
    compile_kernels_with(sources, Config::get().threads)
}

/// As [`compile_kernels`], with at most `jobs` runs of the compiler at a time.
pub fn compile_kernels_with(sources: &[KernelSource], jobs: usize) -> Vec<Result<Arc<Kernel>>> {
    Kernels::global().get(&Toolchain::Host, sources, jobs)
}

/// Threads that NVRTC gains from at most.
const NVRTC_JOBS: usize = 8;

/// As [`compile_kernels`], for a device: sources are C for the CPU, CUDA C++ for a CUDA device.
///
/// # Errors
/// As [`compile_kernels`]; `Device` for a device that is not there.
pub fn compile_kernels_on(device: &Device, sources: &[KernelSource]) -> Vec<Result<Arc<Kernel>>> {
    let threads = Config::get().threads;
    match Toolchain::of(device) {
        Ok(Toolchain::Host) => compile_kernels(sources),
        Ok(toolchain) => Kernels::global().get(&toolchain, sources, threads.min(NVRTC_JOBS)),
        Err(error) => sources.iter().map(|_| Err(error.clone())).collect(),
    }
}

/// As [`compile_kernels_on`], but nothing of it is kept, in memory or on disk: for kernels that may never run again
/// (codegen B11.4: nothing is kept while deciding). A kernel that is on disk already is loaded.
///
/// # Errors
/// As [`compile_kernels_on`].
pub fn compile_unkept(device: &Device, sources: &[KernelSource]) -> Vec<Result<Arc<Kernel>>> {
    let threads = Config::get().threads;
    let (toolchain, jobs) = match Toolchain::of(device) {
        Ok(Toolchain::Host) => (Toolchain::Host, threads),
        Ok(toolchain) => (toolchain, threads.min(NVRTC_JOBS)),
        Err(error) => return sources.iter().map(|_| Err(error.clone())).collect(),
    };
    let kernels = Kernels {
        keeps: false,
        ..Kernels::new(Store::global())
    };
    kernels.get(&toolchain, sources, jobs)
}

/// What the time of a kernel on a device depends on besides its source and arguments: the compiler, the processor.
///
/// # Errors
/// `NoCompiler`, or `Device`.
pub fn identity(device: &Device) -> Result<String> {
    let compiler = Toolchain::of(device)?.identity()?;
    Ok(match device.cuda_index() {
        Some(index) => format!("{compiler} {}", crate::cuda::context(index)?.name()),
        None => format!("{compiler} {}", crate::host::model_name()),
    })
}

/// A source to be made a kernel, claimed by this call. Whoever waits for it gets an error if the call gives up.
struct Claim<'a> {
    kernels: &'a Kernels,
    key: u128,
    place: Place,
    source: &'a KernelSource,
    pending: Arc<Pending>,
    settled: bool,
}

impl Claim<'_> {
    fn settle(mut self, result: Result<Arc<Kernel>>) {
        self.publish(result);
    }

    fn publish(&mut self, result: Result<Arc<Kernel>>) {
        self.settled = true;
        {
            let mut memory = self.kernels.memory.lock();
            memory.pending.remove(&(self.place, self.key));
            if let Ok(kernel) = &result {
                memory.insert(self.place, kernel.clone());
            }
        }
        *self.pending.result.lock() = Some(result);
        self.pending.made.notify_all();
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.settled {
            self.publish(Err(Error::internal("the making of a kernel was given up")));
        }
    }
}

impl Memory {
    fn insert(&mut self, place: Place, kernel: Arc<Kernel>) {
        self.bytes += kernel.cost();
        if let Some((_, old)) = self.kernels.push((place, kernel.key()), kernel) {
            self.bytes -= old.cost();
        }
        while self.bytes > BYTE_LIMIT && self.kernels.len() > 1 {
            let Some((_, old)) = self.kernels.pop_lru() else {
                break;
            };
            self.bytes -= old.cost();
        }
    }
}

impl Kernels {
    pub(crate) fn global() -> &'static Kernels {
        &GLOBAL
    }

    pub(super) fn new(store: Option<&'static Store>) -> Kernels {
        let limit = std::num::NonZeroUsize::new(COUNT_LIMIT).unwrap_or(std::num::NonZeroUsize::MIN);
        let (kernels, pending) = (LruCache::new(limit), HashMap::new());
        Kernels {
            memory: Mutex::new(Memory {
                kernels,
                bytes: 0,
                pending,
            }),
            store,
            keeps: true,
        }
    }

    /// Forgets every kernel.
    pub(crate) fn clear(&self) {
        let mut memory = self.memory.lock();
        memory.bytes = 0;
        let kernels = std::mem::replace(&mut memory.kernels, LruCache::unbounded());
        memory.kernels.resize(kernels.cap());
        drop(memory);
        // Unloading takes the loader's lock, so it comes after ours is released.
        drop(kernels);
    }

    pub(super) fn get(
        &self,
        toolchain: &Toolchain,
        sources: &[KernelSource],
        jobs: usize,
    ) -> Vec<Result<Arc<Kernel>>> {
        let pack = Pack::current();
        let keys = keys(toolchain, pack.as_ref(), sources);
        let place = toolchain.place();
        let mut results: HashMap<u128, Result<Arc<Kernel>>> = HashMap::new();
        let mut claims = Vec::new();
        let mut others = Vec::new();
        {
            let mut memory = self.memory.lock();
            for (source, key) in sources.iter().zip(&keys) {
                let Ok(key) = *key else { continue };
                if let Some(kernel) = memory.kernels.get(&(place, key)) {
                    count(Counter::KernelCacheHits, 1);
                    results.insert(key, Ok(kernel.clone()));
                } else if let Some(pending) = memory.pending.get(&(place, key)) {
                    // Another thread compiles it, or the source was given twice.
                    count(Counter::KernelCacheHits, 1);
                    others.push((key, pending.clone()));
                } else {
                    let pending = Arc::new(Pending::default());
                    memory.pending.insert((place, key), pending.clone());
                    claims.push(Claim {
                        kernels: self,
                        key,
                        place,
                        source,
                        pending,
                        settled: false,
                    });
                }
            }
        }
        if !claims.is_empty() {
            let mine: Vec<_> = claims.iter().map(|c| (c.key, c.pending.clone())).collect();
            self.make(toolchain, pack.as_ref(), claims, jobs);
            others.extend(mine);
        }
        for (key, pending) in others {
            results.insert(key, pending.wait());
        }
        let missing = || Err(Error::internal("a kernel was not made"));
        keys.into_iter()
            .map(|key| results.get(&key?).cloned().unwrap_or_else(missing))
            .collect()
    }

    /// Settles every claim: from the pack in whose scope this thread is, from disk, else by compiling, each kernel in one
    /// process at a time.
    fn make<'a>(
        &'a self,
        toolchain: &Toolchain,
        pack: Option<&(Pack, Missing)>,
        claims: Vec<Claim<'a>>,
        jobs: usize,
    ) {
        let store = self.store;
        for claim in &claims {
            dump(claim);
        }
        let claims = match pack {
            Some((pack, _)) => from_pack(toolchain, pack, claims),
            None => claims,
        };
        let mut claims = match store {
            Some(store) => from_disk(toolchain, store, claims),
            None => claims,
        };
        if claims.is_empty() {
            return;
        }
        if let Err(error) = toolchain.ready() {
            return claims
                .into_iter()
                .for_each(|c| c.settle(Err(error.clone())));
        }
        let Some(store) = store.filter(|_| self.keeps) else {
            return compile(toolchain, None, claims, jobs);
        };
        let locks = store.locks();
        let (begun, patience) = (Instant::now(), patience());
        let mut pause = Duration::from_millis(1);
        loop {
            let late = begun.elapsed() >= patience;
            let mine = claims.extract_if(.., |claim| locks.take(claim.key) || late);
            let mut mine: Vec<_> = mine.collect();
            let keys: Vec<u128> = mine.iter().map(|claim| claim.key).collect();
            if locks.are_kept() {
                // The process that held the locks before may have compiled these meanwhile.
                mine = from_disk(toolchain, store, mine);
            }
            compile(toolchain, Some((store, &locks)), mine, jobs);
            keys.into_iter().for_each(|key| locks.release(key));
            if claims.is_empty() {
                return;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// How long another process is waited for that compiles the same kernels, and between two looks at it.
const PATIENCE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

/// [`PATIENCE`], but no longer than a run of the compiler may last.
fn patience() -> Duration {
    let limit = Config::get().compile_timeout;
    limit.map_or(PATIENCE, |limit| limit.min(PATIENCE))
}

/// Where kernels are kept, and what holds others off meanwhile.
type Kept<'a> = Option<(&'a Store, &'a Locks)>;

/// Settles claims by compiling.
fn compile<'a>(toolchain: &Toolchain, kept: Kept<'_>, claims: Vec<Claim<'a>>, jobs: usize) {
    let run = |files: Vec<Vec<Claim<'a>>>| -> Vec<Claim<'a>> {
        let made = parallel(files, jobs, |file| compile_file(toolchain, kept, file));
        let mut alone = Vec::new();
        for (claims, result) in made {
            match result {
                Ok(kernels) => {
                    for (claim, kernel) in claims.into_iter().zip(kernels) {
                        count(Counter::KernelsCompiled, kernel.is_ok() as u64);
                        claim.settle(kernel);
                    }
                }
                Err(error) if claims.len() == 1 => {
                    claims
                        .into_iter()
                        .for_each(|c| c.settle(Err(error.clone())));
                }
                Err(_) => alone.extend(claims),
            }
        }
        alone
    };
    // Of a file that fails as a whole each kernel is tried by itself, so that only the bad one fails.
    let files = match toolchain.has_bases() {
        true => split_by_base(claims, jobs.max(1)),
        false => split(claims, jobs.max(1)),
    };
    let alone = run(files);
    let left = run(alone.into_iter().map(|claim| vec![claim]).collect());
    debug_assert!(left.is_empty(), "a file of one kernel settles its claim");
}

/// Writes the sources out where the environment asks for it.
fn dump(claim: &Claim<'_>) {
    let config = Config::get();
    let name = digest::hex(claim.key);
    log(Channel::Sources, || {
        format!("kernel {name}:\n{}", claim.source.text())
    });
    if let Some(dir) = &config.dump {
        let write = || {
            let (file, text) = (format!("{name}.c"), claim.source.text());
            Folder::named(dir)?.write(&file, text.as_bytes())
        };
        if let Err(e) = write() {
            warn(&format!(
                "a source could not be written to {}: {e}",
                dir.display()
            ));
        }
    }
}

/// The key of each source: that of the pack which has its kernel, or one that states the compiler, if that is known.
fn keys(
    toolchain: &Toolchain,
    pack: Option<&(Pack, Missing)>,
    sources: &[KernelSource],
) -> Vec<Result<u128>> {
    // Without a pack the compiler is asked for at once, and with one where a kernel is not there.
    let identity = OnceCell::new();
    let identity = || identity.get_or_init(|| toolchain.identity()).as_ref();
    let key = |source: &KernelSource| {
        let packed = pack.and_then(|(pack, _)| pack.key(toolchain, source));
        match (packed, pack) {
            (Some(key), _) => Ok(key),
            (None, Some((pack, Missing::Refuse))) => Err(pack.lacks(source)),
            _ => match identity() {
                Ok(identity) => Ok(source.key(identity)),
                Err(error) => Err(error.clone()),
            },
        }
    };
    sources.iter().map(key).collect()
}

/// Settles the claims whose kernels a pack has, and returns the others.
fn from_pack<'a>(toolchain: &Toolchain, pack: &Pack, claims: Vec<Claim<'a>>) -> Vec<Claim<'a>> {
    let mut missing = Vec::new();
    for claim in claims {
        let Some((image, artifact)) = pack.image(toolchain, claim.key) else {
            missing.push(claim);
            continue;
        };
        let kernel = image.and_then(|image| load(&image, artifact, claim.key, claim.source));
        count(Counter::DiskCacheHits, u64::from(kernel.is_ok()));
        claim.settle(kernel.map(Arc::new));
    }
    missing
}

/// Settles the claims that the store can serve, and returns the others.
fn from_disk<'a>(toolchain: &Toolchain, store: &Store, claims: Vec<Claim<'a>>) -> Vec<Claim<'a>> {
    let mut missing = Vec::new();
    let mut left = claims;
    left.reverse();
    while let Some(claim) = left.pop() {
        let Some(artifact) = store.load(claim.key) else {
            missing.push(claim);
            continue;
        };
        let key = claim.key;
        let mut held = vec![claim];
        held.extend(left.extract_if(.., |claim| artifact.keys.contains(&claim.key)));
        let image = toolchain.load(&artifact.elf);
        let mut unusable = image.is_err();
        for claim in held {
            let kernel = image
                .clone()
                .and_then(|l| load(&l, &artifact, claim.key, claim.source));
            match kernel {
                Ok(kernel) => {
                    count(Counter::DiskCacheHits, 1);
                    claim.settle(Ok(Arc::new(kernel)));
                }
                Err(_) => {
                    unusable = true;
                    missing.push(claim);
                }
            }
        }
        if unusable {
            store.discard(key);
        }
    }
    missing
}

fn load(image: &Image, artifact: &Artifact, key: u128, source: &KernelSource) -> Result<Kernel> {
    let position = artifact.keys.iter().position(|&k| k == key);
    let position = position.ok_or_else(|| Error::internal("an artifact without its kernel"))?;
    let bytes = artifact.elf.len() / artifact.keys.len().max(1);
    Kernel::load(image, position, key, source, bytes)
}

/// Compiles one file. An error of the whole is one of the compiler; an error of a kernel is one of loading.
fn compile_file(
    toolchain: &Toolchain,
    kept: Kept<'_>,
    claims: &[Claim<'_>],
) -> Result<Vec<Result<Arc<Kernel>>>> {
    let sources: Vec<&KernelSource> = claims.iter().map(|claim| claim.source).collect();
    let elf = toolchain.compile(&source::file(&sources))?;
    let artifact = Artifact {
        keys: claims.iter().map(|claim| claim.key).collect(),
        elf,
    };
    let image = toolchain.load(&artifact.elf)?;
    let kernels: Vec<_> = claims
        .iter()
        .map(|claim| load(&image, &artifact, claim.key, claim.source).map(Arc::new))
        .collect();
    if let Some((store, locks)) = kept
        && kernels.iter().all(Result::is_ok)
    {
        store.save(&artifact);
        artifact.keys.iter().for_each(|&key| locks.release(key));
    }
    Ok(kernels)
}

/// Deals claims to at most `files` files of about the same length of text, the longest first.
fn split<'a>(mut claims: Vec<Claim<'a>>, files: usize) -> Vec<Vec<Claim<'a>>> {
    claims.sort_by_key(|claim| std::cmp::Reverse(claim.source.body.len()));
    let mut dealt: Vec<(usize, Vec<Claim<'a>>)> = Vec::new();
    dealt.resize_with(files.min(claims.len()), Default::default);
    for claim in claims {
        let Some(least) = dealt.iter_mut().min_by_key(|(length, _)| *length) else {
            break;
        };
        least.0 += claim.source.body.len();
        least.1.push(claim);
    }
    dealt.into_iter().map(|(_, claims)| claims).collect()
}

/// Deals claims to about `files` files, each of kernels of one base; a file each where there are no more of them.
fn split_by_base(claims: Vec<Claim<'_>>, files: usize) -> Vec<Vec<Claim<'_>>> {
    let all = claims.len();
    if all <= files {
        return claims.into_iter().map(|claim| vec![claim]).collect();
    }
    let (mut dealt, mut classes) = (Vec::new(), Vec::<Vec<Claim<'_>>>::new());
    for claim in claims {
        let base = claim.source.base();
        let mut known = classes.iter_mut();
        match known.find(|class| class[0].source.base() == base) {
            _ if base.is_none() => dealt.push(vec![claim]),
            Some(class) => class.push(claim),
            None => classes.push(vec![claim]),
        }
    }
    for class in classes {
        let share = (files * class.len()).div_ceil(all);
        dealt.extend(split(class, share));
    }
    dealt
}

/// Applies `f` to each file, on this thread and up to `jobs - 1` others, which take one after another.
pub(super) fn parallel<F: Send + Sync, R: Send>(
    files: Vec<F>,
    jobs: usize,
    f: impl Fn(&F) -> R + Sync,
) -> Vec<(F, R)> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Relaxed);
            let Some(file) = files.get(at) else {
                return done;
            };
            done.push((at, f(file)));
        }
    };
    let mut results: Vec<(usize, R)> = std::thread::scope(|scope| {
        let others = jobs.min(files.len()).saturating_sub(1);
        // If the system has no more threads, there are fewer.
        let start = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let started: Vec<_> = (0..others).filter_map(start).collect();
        let mut results = work();
        for thread in started {
            let done = thread.join();
            results.extend(done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|(at, _)| *at);
    let results = results.into_iter().map(|(_, result)| result);
    files.into_iter().zip(results).collect()
}
