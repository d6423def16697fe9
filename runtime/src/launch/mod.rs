//! Launches: a kernel run over its chunks.

mod faults;
mod table;
mod together;

pub use together::{Member, launch_together};

use crate::cuda::{self, Verdict};
use crate::host::alloc;
use crate::kernel::{Args, Code, Entry, Finish};
use crate::observe::counters::{Counter, count};
use crate::observe::inject::{self, Site};
use crate::threads::clear_upper_halves;
use crate::{Buffer, Error, ErrorKind, Faults, FloatEnvironment, Grid, Kernel, Pool, Result};
use faults::Reports;
use smallvec::SmallVec;
use std::os::raw::c_char;

/// A part of a buffer that a kernel reads or writes.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    /// The buffer.
    pub buffer: &'a Buffer,
    /// The byte of the buffer that the kernel's pointer is at.
    pub offset: usize,
    /// Bytes touched, from the offset on.
    pub span: usize,
}

/// A run of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel.
    pub kernel: &'a Kernel,
    /// What `a->ptr[i]` points to.
    pub buffers: &'a [Binding<'a>],
    /// `a->param`: sizes, strides and other integers.
    pub params: &'a [i64],
    /// `a->scalar`: operands by their bits.
    pub scalars: &'a [u64],
    /// The number of chunks, on a CUDA device blocks. None: nothing runs, `finish` neither.
    pub chunks: usize,
    /// Bytes of `a->scratch`, shared by the threads, with arbitrary contents.
    pub scratch: usize,
    /// Bytes of `local`, one for each thread, with arbitrary contents.
    pub local: usize,
    /// For a CUDA device.
    pub grid: Grid,
}

/// What a kernel of the CPU is given.
#[inline]
fn args(
    launch: &Launch<'_>,
    pointers: *const *mut u8,
    workspace: &Workspace,
    reports: &Reports,
) -> Args {
    Args {
        ptr: pointers,
        param: launch.params.as_ptr(),
        scalar: launch.scalars.as_ptr(),
        scratch: workspace.start(),
        fault: reports.address(),
    }
}

/// Parts of a workspace start at multiples of this: two cache lines, which some processors fetch in pairs.
const PART: usize = 128;

/// Memory of a launch, from the allocator's cache: a part that the threads share, then one for each of them.
#[derive(Debug)]
struct Workspace {
    block: Option<alloc::Block>,
    locals: Locals,
}

/// The threads' parts of a workspace: where they start, and how far apart they are.
#[derive(Clone, Copy, Debug)]
struct Locals {
    start: usize,
    stride: usize,
}

impl Locals {
    /// The part of a thread.
    #[inline]
    fn of(self, thread: usize) -> *mut c_char {
        (self.start + thread * self.stride) as *mut c_char
    }
}

impl Workspace {
    /// What kernels need that share `shared` bytes, on `threads` threads with `local` bytes each.
    #[inline]
    fn new(shared: usize, local: usize, threads: usize) -> Result<Workspace> {
        let threads = if local == 0 { 0 } else { threads };
        let (shared, stride) = (part(shared), part(local));
        let bytes = stride.saturating_mul(threads).saturating_add(shared);
        let block = match bytes {
            0 => None,
            bytes => Some(alloc::take(bytes)?),
        };
        let start = block
            .as_ref()
            .map_or(0, |block| block.ptr.as_ptr() as usize);
        let start = start.wrapping_add(shared);
        Ok(Workspace {
            block,
            locals: Locals { start, stride },
        })
    }

    /// The part that the threads share.
    fn start(&self) -> *mut c_char {
        let block = self.block.as_ref();
        block.map_or(std::ptr::null_mut(), |block| block.ptr.as_ptr().cast())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Some(block) = &self.block {
            alloc::give(block.ptr, block.class);
        }
    }
}

/// Bytes of a part of the workspace.
fn part(bytes: usize) -> usize {
    bytes.checked_next_multiple_of(PART).unwrap_or(usize::MAX)
}

/// Runs a kernel's chunks over the threads of the pool, then its `finish`, and returns when all is done. The buffers
/// bound must not be read or written by others meanwhile, save that several may read.
///
/// On a CUDA device the kernel is put on the device's stream, where it runs after what was put there before; the host
/// waits for it only if it reports faults: see [`launch_noting`].
///
/// # Errors
/// `Internal` for a binding beyond its buffer, `Device` for memory of another device than the kernel's, `OutOfMemory`
/// for the workspace. Nothing has run then. `Device` too for what the driver answers, also of earlier launches.
pub fn launch(launch: &Launch<'_>) -> Result<Faults> {
    let mut verdict = None;
    let faults = launch_noting(launch, &mut verdict)?;
    verdict.map_or(Ok(faults), Verdict::wait)
}

/// As [`launch`], but the host does not wait: what a kernel of a CUDA device reports becomes part of `verdict`, which is
/// made where there is none. Only faults of the CPU are returned.
///
/// # Errors
/// As of [`launch`].
pub fn launch_noting(launch: &Launch<'_>, verdict: &mut Option<Verdict>) -> Result<Faults> {
    launch_member(0, launch, verdict)
}

/// As [`launch_noting`], of the launch at this position among those of a group.
fn launch_member(
    member: usize,
    launch: &Launch<'_>,
    verdict: &mut Option<Verdict>,
) -> Result<Faults> {
    if launch.chunks == 0 {
        return Ok(Faults::new());
    }
    match launch.kernel.code() {
        Code::Host { entry, finish, .. } => on_host(launch, *entry, *finish),
        Code::Cuda {
            entry,
            finish,
            module,
        } => {
            let context = module.context();
            let pointers = pointers(Some(context.index()), launch)?;
            if launch.grid.table > 0 {
                return table::launch_tables(&[(member, launch)]).map(|()| Faults::new());
            }
            let addresses: SmallVec<[u64; 16]> = pointers.iter().map(|p| *p as u64).collect();
            let kernels = (*entry, *finish);
            let call = cuda::Call {
                pointers: &addresses,
                params: launch.params,
                scalars: launch.scalars,
                blocks: launch.chunks,
                scratch: launch.scratch,
                grid: launch.grid,
                member,
            };
            cuda::launch(context, kernels, &call, verdict).map(|()| Faults::new())
        }
    }
}

/// Runs all of a launch of the CPU. What the kernel is given is written where it is read: moving what was just written
/// takes longer than writing it.
fn on_host(launch: &Launch<'_>, entry: Entry, finish: Option<Finish>) -> Result<Faults> {
    inject_launch()?;
    let _environment = FloatEnvironment::standard();
    let mut pointers: SmallVec<[*mut u8; 16]> = SmallVec::new();
    resolve(None, launch.buffers, |pointer| pointers.push(pointer))?;
    let pool = Pool::global();
    let threads = pool.threads().min(launch.chunks);
    let workspace = Workspace::new(launch.scratch, launch.local, threads)?;
    count(Counter::KernelsLaunched, 1);
    let reports = Reports::default();
    let args = args(launch, pointers.as_ptr(), &workspace, &reports);
    let locals = workspace.locals;
    pool.run(launch.chunks, &|begin, end, thread| {
        // SAFETY: as in `Prepared::run`; the pool gives out each chunk once, and no two threads of one index at a time.
        unsafe { entry(&args, begin as i64, end as i64, locals.of(thread)) };
        clear_upper_halves();
    });
    if let Some(finish) = finish {
        // SAFETY: the arguments are those of the chunks, all of which have run; `finish` runs once, on this thread.
        unsafe { finish(&args, workspace.locals.of(0)) };
        clear_upper_halves();
    }
    Ok(reports.faults())
}

/// A launch on the CPU whose chunks the caller runs, among other work.
#[derive(Debug)]
pub struct Prepared<'a> {
    launch: Launch<'a>,
    entry: Entry,
    finish: Option<Finish>,
    pointers: SmallVec<[*mut u8; 16]>,
    workspace: Workspace,
    reports: Reports,
}

// SAFETY: as of `Args`, which the fields become; what is not a pointer is plain data.
unsafe impl Sync for Prepared<'_> {}

/// Checks a launch on the CPU and takes memory for `threads` threads; no chunk has run yet.
///
/// # Errors
/// As [`launch`]; `Internal` for a kernel of another device.
pub fn prepare<'a>(launch: &Launch<'a>, threads: usize) -> Result<Prepared<'a>> {
    let Code::Host { entry, finish, .. } = launch.kernel.code() else {
        return Err(Error::internal("a kernel of another device"));
    };
    let pointers = pointers(None, launch)?;
    let workspace = Workspace::new(launch.scratch, launch.local, threads)?;
    count(Counter::KernelsLaunched, 1);
    Ok(Prepared {
        launch: *launch,
        entry: *entry,
        finish: *finish,
        pointers,
        workspace,
        reports: Reports::default(),
    })
}

impl Prepared<'_> {
    /// The memory that pointer `i` of the kernel points to.
    pub fn pointer(&self, i: usize) -> *mut u8 {
        self.pointers[i]
    }

    fn args(&self, pointers: &[*mut u8]) -> Args {
        args(
            &self.launch,
            pointers.as_ptr(),
            &self.workspace,
            &self.reports,
        )
    }

    /// Runs chunks `begin..end` on this thread, with another address for one of the pointers if `moved` names one.
    ///
    /// # Safety
    /// No chunk runs twice, no two calls with one thread index at a time, thread indices are below the number of
    /// threads prepared for. A moved pointer leads to all memory that the chunks read or write through it, which
    /// nobody else writes meanwhile.
    pub unsafe fn run(
        &self,
        begin: usize,
        end: usize,
        thread: usize,
        moved: Option<(usize, *mut u8)>,
    ) {
        let local = self.workspace.locals.of(thread);
        let mut pointers: SmallVec<[*mut u8; 16]> = SmallVec::new();
        let args = match moved {
            None => self.args(&self.pointers),
            Some((at, to)) => {
                pointers.extend_from_slice(&self.pointers);
                pointers[at] = to;
                self.args(&pointers)
            }
        };
        // SAFETY: the arguments are what the kernel was generated for: every pointer reaches as far as its binding
        // says, the workspace is as large as asked for, and each thread has a local part of its own.
        unsafe { (self.entry)(&args, begin as i64, end as i64, local) };
        clear_upper_halves();
    }

    /// Runs what follows the chunks, all of which must have run; the faults that they reported.
    pub fn finish(self) -> Faults {
        if let Some(finish) = self.finish {
            // SAFETY: as in `run`; all chunks have run.
            unsafe { finish(&self.args(&self.pointers), self.workspace.locals.of(0)) };
            clear_upper_halves();
        }
        self.reports.faults()
    }
}

/// Fails where a test asks for it.
#[inline]
fn inject_launch() -> Result<()> {
    match inject::fails(Site::Launch) {
        true => Err(Error::internal("a launch failed: a failure was injected")),
        false => Ok(()),
    }
}

/// What the kernel's pointers point to, in memory of the device of this index (None: the CPU).
fn pointers(device: Option<u32>, launch: &Launch<'_>) -> Result<SmallVec<[*mut u8; 16]>> {
    inject_launch()?;
    let mut pointers = SmallVec::new();
    resolve(device, launch.buffers, |pointer| pointers.push(pointer))?;
    Ok(pointers)
}

/// The addresses of bindings, which must lie in memory of the device of this index (None: the CPU) and within their
/// buffers.
#[inline]
fn resolve(
    device: Option<u32>,
    buffers: &[Binding<'_>],
    mut to: impl FnMut(*mut u8),
) -> Result<()> {
    for (i, binding) in buffers.iter().enumerate() {
        if binding.buffer.device().cuda_index() != device {
            return Err(other_device(binding));
        }
        let end = binding.offset.checked_add(binding.span);
        if end.is_none_or(|end| end > binding.buffer.bytes()) {
            return Err(beyond(i, binding));
        }
        to(binding.buffer.as_mut_ptr().wrapping_add(binding.offset));
    }
    Ok(())
}

#[cold]
fn other_device(binding: &Binding<'_>) -> Error {
    let device = binding.buffer.device();
    Error::new(ErrorKind::Device(format!(
        "a kernel was given memory of {device}, which is not its device"
    )))
}

#[cold]
fn beyond(i: usize, binding: &Binding<'_>) -> Error {
    let Binding {
        buffer,
        offset,
        span,
    } = binding;
    let bytes = buffer.bytes();
    Error::internal(format!(
        "binding {i} is {span} bytes at {offset} of a buffer of {bytes}"
    ))
}
