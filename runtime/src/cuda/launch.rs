//! Launches on a device: arguments packed into one block of memory.

use super::context::failed;
use super::memory::Scratch;
use super::record::{self, Command, Numbers, Uncaptured, Work};
use super::{Context, Function, Verdict};
use crate::observe::counters::{Counter, count};
use crate::{Error, Result};
use cudarc::driver::{result, sys};
use smallvec::{SmallVec, smallvec};
use std::ffi::c_void;
use std::ptr;

/// How a kernel of a CUDA device is launched, besides the number of blocks. The CPU needs none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of `finish`.
    pub finish_blocks: usize,
    /// Threads of a block of `finish`.
    pub finish_threads: u32,
    /// Bytes of memory that the threads of a block share, beyond what the source declares.
    pub shared: u32,
    /// Whether the kernel checks indices that no kernel before it has checked: its verdict is waited for.
    pub reports: bool,
    /// Whether the kernel, and its `finish`, wait for the kernel before by themselves, ahead of any access to memory: in a
    /// graph they may then begin while that one ends (programmatic dependent launch).
    pub waits: bool,
    /// Launches that one of the kernel takes: it reads its arguments from a table. 0: they are its arguments.
    pub table: u32,
}

/// What a launch gives a kernel.
pub(crate) struct Call<'a> {
    /// Addresses of the bindings.
    pub pointers: &'a [u64],
    pub params: &'a [i64],
    pub scalars: &'a [u64],
    /// Blocks of the kernel.
    pub blocks: usize,
    /// Bytes of memory that the blocks share, with arbitrary contents.
    pub scratch: usize,
    pub grid: Grid,
    /// Its position among launches that are put on the stream together.
    pub member: usize,
}

/// Launches a kernel, and its `finish` after it, on the device's stream. What it reports is part of the verdict.
pub(crate) fn launch(
    context: &'static Context,
    (entry, finish): (Function, Option<Function>),
    call: &Call<'_>,
    verdict: &mut Option<Verdict>,
) -> Result<()> {
    if call.grid.reports {
        record::refuse(Uncaptured::ChecksIndices)?;
    }
    let scratch = Scratch::new(context, call.scratch)?;
    context.bind()?;
    let faults = match (call.grid.reports, &mut *verdict) {
        (false, _) => context.nowhere(),
        (true, Some(verdict)) => verdict.address(),
        (true, none) => none.insert(Verdict::new(context)?).address(),
    };
    // Every member of the kernel's argument structure is 8 bytes wide.
    let mut args: SmallVec<[u64; 64]> = SmallVec::from_slice(call.pointers);
    args.extend(call.params.iter().map(|&p| p as u64));
    args.extend_from_slice(call.scalars);
    args.push(scratch.address());
    args.push(faults);
    let grid = &call.grid;
    allow_shared(context, entry, grid.shared)?;
    let first = call.pointers.len() + call.params.len();
    let scalars = || smallvec![(call.member, first..first + call.scalars.len())];
    let start = |function, blocks, block, args: &mut SmallVec<[u64; 64]>| match record::is_on() {
        true => note(function, blocks, block, grid.waits, args, scalars()),
        false => start(context, function, blocks, block, args),
    };
    if !record::is_on() {
        count(Counter::KernelsLaunched, 1);
    }
    start(entry, call.blocks, (grid.threads, grid.shared), &mut args)?;
    if let Some(finish) = finish {
        let block = (grid.finish_threads, 0);
        start(finish, grid.finish_blocks, block, &mut args)?;
    }
    match verdict {
        Some(verdict) if call.grid.reports => verdict.record(),
        _ => Ok(()),
    }
}

/// Shared memory of a block that needs no permission.
const SHARED: u32 = 48 << 10;

/// Allows blocks of a kernel so many bytes of shared memory.
fn allow_shared(context: &Context, function: Function, bytes: u32) -> Result<()> {
    use sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as MOST;
    if bytes <= SHARED {
        return Ok(());
    }
    // SAFETY: the function's module is loaded.
    unsafe { sys::cuFuncSetAttribute(function.0, MOST, bytes as i32) }
        .result()
        .map_err(failed(context.index(), "asking for shared memory"))
}

/// A grid's size, as the driver takes it.
fn blocks_of(blocks: usize) -> Option<u32> {
    u32::try_from(blocks).ok().filter(|&b| b <= i32::MAX as u32)
}

/// Notes a launch for a graph.
fn note(
    function: Function,
    blocks: usize,
    (threads, shared): (u32, u32),
    waits: bool,
    args: &[u64],
    scalars: Numbers,
) -> Result<()> {
    let blocks = blocks_of(blocks).ok_or_else(|| Error::internal("a grid of too many blocks"))?;
    record::add(Command {
        work: Work::Kernel {
            function,
            blocks,
            threads,
            shared,
            waits,
        },
        words: args.to_vec(),
        scalars,
    });
    Ok(())
}

/// The most blocks of a recorded table: two first blocks below it, one beside the other, are no address of a recording.
const MOST_BLOCKS: usize = 1 << 30;

/// Launches a kernel that takes a table, its one argument, in blocks of so many threads. `numbers` gives the positions of
/// the launches' numbers in the table.
pub(crate) fn launch_table(
    context: &Context,
    entry: Function,
    (blocks, threads): (usize, u32),
    mut table: Vec<u64>,
    numbers: impl FnOnce() -> Numbers,
) -> Result<()> {
    if record::is_on() {
        if blocks > MOST_BLOCKS {
            record::refuse(Uncaptured::Refused("a grid of too many blocks".to_owned()))?;
        }
        return note(entry, blocks, (threads, 0), false, &table, numbers());
    }
    context.bind()?;
    count(Counter::KernelsLaunched, 1);
    start(context, entry, blocks, (threads, 0), &mut table)
}

fn start(
    context: &Context,
    function: Function,
    blocks: usize,
    (threads, shared): (u32, u32),
    args: &mut [u64],
) -> Result<()> {
    let error = || failed(context.index(), "a launch");
    let mut size = size_of_val(args);
    let mut extra: [*mut c_void; 5] = [
        sys::CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT as usize as *mut c_void,
        args.as_mut_ptr().cast(),
        sys::CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT as usize as *mut c_void,
        ptr::from_mut(&mut size).cast(),
        sys::CU_LAUNCH_PARAM_END_AS_INT as usize as *mut c_void,
    ];
    let too_many = || result::DriverError(sys::CUresult::CUDA_ERROR_INVALID_VALUE);
    let blocks = blocks_of(blocks).ok_or_else(too_many).map_err(error())?;
    // SAFETY: the arguments are laid out as the kernel's structure, which the driver copies before it returns; every
    // pointer among them reaches as far as the caller's bindings say, on this device and in this stream's order.
    unsafe {
        sys::cuLaunchKernel(
            function.0,
            blocks,
            1,
            1,
            threads,
            1,
            1,
            shared,
            context.stream(),
            ptr::null_mut(),
            extra.as_mut_ptr(),
        )
    }
    .result()
    .map_err(error())
}
