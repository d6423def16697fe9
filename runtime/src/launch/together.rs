//! Combined launches: independent kernels that share one hand-off to the pool.

use super::{Args, Launch, Reports, Workspace, inject_launch, launch_member, part, resolve, table};
use crate::cuda::Verdict;
use crate::kernel::{Code, Entry, Finish};
use crate::observe::counters::{Counter, count};
use crate::threads::clear_upper_halves;
use crate::{Error, Faults, Pool, Result};

/// Tasks for each thread: enough that the pool balances members of unequal weight.
const TASKS: usize = 16;
/// Least work of a task: a microsecond or so, beside which taking it is little.
const TASK: u64 = 16 << 10;
/// Members of one chunk that are less work than this together run on the caller: a hand-off would cost as much.
const INLINE: u64 = 64 << 10;

/// One kernel of a combined launch.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// The kernel and its arguments.
    pub launch: Launch<'a>,
    /// What all its chunks together cost, about: bytes, or as many of what takes as long as moving a byte.
    pub work: u64,
}

/// A member as it runs.
struct Running {
    entry: Entry,
    finish: Option<Finish>,
    args: Args,
    /// The number of its first chunk among those of all members.
    first: usize,
    chunks: usize,
    work: u64,
}

/// Runs several kernels of the CPU as one job of the pool, and returns when all is done; on a CUDA device those of one
/// kernel that takes a table are put on the stream as one launch. None may read or write what another writes. Each
/// member's chunks and results are those of a [`launch`](super::launch) of its own, so results do not depend on what is
/// combined (scheduler C-14: one launch goes over all members' chunks). Faults are returned
/// with the position of their member; what kernels of a device report becomes part of `verdict`, as of
/// [`launch_noting`](super::launch_noting).
///
/// With `slices` above 0 the members run **abreast**: each one's chunks are cut into so many runs in order, and a task is
/// one run of every member, in the order of the members. Where all go through one tensor, only the first reads it from
/// memory.
///
/// # Errors
/// As of a launch; nothing has run then. `Internal` for a kernel of another device.
pub fn launch_together(
    members: &[Member<'_>],
    slices: usize,
    verdict: &mut Option<Verdict>,
) -> Result<Vec<(usize, Faults)>> {
    let is_host = |m: &Member<'_>| matches!(m.launch.kernel.code(), Code::Host { .. });
    if !members.iter().any(is_host) {
        return on_device(members, verdict).map(|()| Vec::new());
    }
    inject_launch()?;
    let mut addresses: Vec<*mut u8> = Vec::with_capacity(4 * members.len());
    let (mut local, mut shared) = (0, 0usize);
    for Member { launch, .. } in members {
        if !matches!(launch.kernel.code(), Code::Host { .. }) {
            return Err(Error::internal("a kernel of a device cannot be combined"));
        }
        resolve(None, launch.buffers, |pointer| addresses.push(pointer))?;
        local = local.max(launch.local);
        shared = shared.saturating_add(part(launch.scratch));
    }
    let pool = Pool::global();
    let workspace = Workspace::new(shared, local, pool.threads())?;
    let locals = workspace.locals;
    let reports: Vec<Reports> = members.iter().map(|_| Reports::default()).collect();
    let mut running: Vec<Running> = Vec::with_capacity(members.len());
    let (mut first, mut pointer, mut scratch) = (0, 0, 0);
    for (Member { launch, work }, reports) in members.iter().zip(&reports) {
        let Code::Host { entry, finish, .. } = *launch.kernel.code() else {
            continue;
        };
        running.push(Running {
            entry,
            finish: finish.filter(|_| launch.chunks > 0),
            args: Args {
                ptr: addresses[pointer..].as_ptr(),
                param: launch.params.as_ptr(),
                scalar: launch.scalars.as_ptr(),
                scratch: workspace.start().wrapping_add(scratch),
                fault: reports.address(),
            },
            first,
            chunks: launch.chunks,
            work: *work,
        });
        first += launch.chunks;
        pointer += launch.buffers.len();
        scratch += part(launch.scratch);
    }
    count(Counter::KernelsLaunched, running.len() as u64);
    count(Counter::CombinedLaunches, 1);

    // Runs the chunks `begin..end` of all, those of each member in one call.
    let run = |begin: usize, end: usize, thread: usize| {
        let local = locals.of(thread);
        let mut at = running.partition_point(|m| m.first + m.chunks <= begin);
        let mut from = begin;
        while from < end {
            let m = &running[at];
            let to = end.min(m.first + m.chunks);
            if from < to {
                let (from, to) = ((from - m.first) as i64, (to - m.first) as i64);
                // SAFETY: the arguments are what the kernel was generated for: every pointer reaches as far as its
                // binding says, the workspace is as large as asked for, and each thread has a local part of its own.
                // Members are independent, as the caller promises, and so are chunks.
                unsafe { (m.entry)(&m.args, from, to, local) };
                clear_upper_halves();
            }
            (from, at) = (to, at + 1);
        }
    };
    if slices > 0 {
        pool.run(slices, &|begin, end, thread| {
            for slice in begin..end {
                for m in &running {
                    let to = |slice: usize| m.first + share(m.chunks, slice, slices);
                    if to(slice) < to(slice + 1) {
                        run(to(slice), to(slice + 1), thread);
                    }
                }
            }
        });
    } else {
        match cuts(&running, pool.threads()) {
            Some(cuts) => pool.run(cuts.len() - 1, &|begin, end, thread| {
                run(cuts[begin], cuts[end], thread);
            }),
            None => run(0, first, 0),
        }
    }
    let finishing: Vec<&Running> = running.iter().filter(|m| m.finish.is_some()).collect();
    pool.run(finishing.len(), &|begin, end, thread| {
        for m in &finishing[begin..end] {
            if let Some(finish) = m.finish {
                // SAFETY: the arguments are those of the member's chunks, all of which have run; each `finish` runs once, with the local part
                // of its thread.
                unsafe { finish(&m.args, locals.of(thread)) };
                clear_upper_halves();
            }
        }
    });
    let noted = reports.iter().map(Reports::faults).enumerate();
    Ok(noted.filter(|(_, faults)| !faults.is_empty()).collect())
}

/// Members on a CUDA device: those of a kernel that takes a table together, others alone, in the order of their first.
fn on_device(members: &[Member<'_>], verdict: &mut Option<Verdict>) -> Result<()> {
    let mut launched = vec![false; members.len()];
    for (i, Member { launch: first, .. }) in members.iter().enumerate() {
        if std::mem::replace(&mut launched[i], true) {
            continue;
        }
        if first.grid.table == 0 {
            launch_member(i, first, verdict)?;
            continue;
        }
        let mut same = vec![(i, first)];
        for (j, Member { launch, .. }) in members.iter().enumerate().skip(i + 1) {
            if !launched[j] && std::ptr::eq(launch.kernel, first.kernel) {
                launched[j] = true;
                same.push((j, launch));
            }
        }
        table::launch_tables(&same)?;
    }
    Ok(())
}

/// How many of `chunks` chunks the first `slice` of `slices` slices have.
fn share(chunks: usize, slice: usize, slices: usize) -> usize {
    chunks / slices * slice + chunks % slices * slice / slices
}

/// Where to cut the chunks of all members into tasks of about equal work: small members together, large ones apart
/// (scheduler C-13: work is divided evenly). None: all of it is too little to hand off.
fn cuts(members: &[Running], threads: usize) -> Option<Vec<usize>> {
    let total: u64 = members.iter().map(|m| m.work).sum();
    if threads <= 1 || total < INLINE && members.iter().all(|m| m.chunks <= 1) {
        return None;
    }
    let task = (total / (threads * TASKS) as u64).max(TASK);
    let mut cuts = vec![0];
    let mut filled = 0;
    for m in members.iter().filter(|m| m.chunks > 0) {
        let chunk = (m.work / m.chunks as u64).max(1);
        let mut done = 0;
        while done < m.chunks {
            let take = ((task - filled).div_ceil(chunk) as usize).min(m.chunks - done);
            done += take;
            filled += take as u64 * chunk;
            if filled >= task {
                cuts.push(m.first + done);
                filled = 0;
            }
        }
    }
    let end = members.last().map_or(0, |m| m.first + m.chunks);
    if cuts.last() != Some(&end) {
        cuts.push(end);
    }
    Some(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn nothing(_: *const Args, _: i64, _: i64, _: *mut std::os::raw::c_char) {}

    fn running(members: &[(usize, u64)]) -> Vec<Running> {
        let mut first = 0;
        let of = |&(chunks, work): &(usize, u64)| {
            first += chunks;
            Running {
                entry: nothing,
                finish: None,
                args: Args {
                    ptr: std::ptr::null(),
                    param: std::ptr::null(),
                    scalar: std::ptr::null(),
                    scratch: std::ptr::null_mut(),
                    fault: std::ptr::null_mut(),
                },
                first: first - chunks,
                chunks,
                work,
            }
        };
        members.iter().map(of).collect()
    }

    // scheduler C-13: work is divided evenly over the threads.
    #[test]
    fn tasks_are_balanced_and_cover_every_chunk() {
        let mut members = vec![(1, 4096); 500];
        members.extend([(0, 0), (1000, 64 << 20), (7, 100), (1, 1 << 20)]);
        let chunks: usize = members.iter().map(|m| m.0).sum();
        let all = running(&members);
        let cuts = cuts(&all, 4).expect("enough work");
        assert_eq!((cuts[0], cuts[cuts.len() - 1]), (0, chunks));
        assert!(cuts.windows(2).all(|c| c[0] < c[1]));
        assert!((4 * TASKS / 2..=4 * TASKS + 1).contains(&(cuts.len() - 1)));
        // Small members are together, the large one is spread.
        assert!(cuts[1] > 100, "{cuts:?}");
        assert!(cuts.iter().filter(|&&c| c > 500 && c < 1500).count() > 30);
    }

    #[test]
    fn slices_cover_the_chunks_in_order() {
        for (chunks, slices) in [(0, 3), (1, 7), (5, 7), (7, 7), (4096, 64), (4095, 61)] {
            let ends: Vec<usize> = (0..=slices).map(|s| share(chunks, s, slices)).collect();
            assert!(
                ends[0] == 0 && ends[slices] == chunks && ends.is_sorted(),
                "{ends:?}"
            );
            let most = ends.windows(2).map(|e| e[1] - e[0]).max();
            assert!(most <= Some(chunks.div_ceil(slices)), "{ends:?}");
        }
    }

    #[test]
    fn little_work_is_not_handed_off() {
        assert!(cuts(&running(&[(1, 4096); 3]), 4).is_none());
        assert!(cuts(&running(&[(1, 1 << 20); 3]), 1).is_none());
        // So much work was handed off to the pool already with fewer members.
        assert!(cuts(&running(&[(8, 4096); 3]), 4).is_some());
    }
}
