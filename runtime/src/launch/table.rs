//! Launches of one kernel of a CUDA device whose arguments travel in a table (scheduler C-12: members may have any
//! sizes).

use super::{Launch, resolve};
use crate::kernel::Code;
use crate::observe::counters::{Counter, count};
use crate::observe::inject::{self, Site};
use crate::{Error, Result, cuda};

/// A launch, and its position among those of a group.
type Member<'a, 'b> = (usize, &'a Launch<'b>);

/// Puts launches of one kernel on its device's stream, as many at a time as its table holds. None may read or write
/// what another writes.
pub(super) fn launch_tables(all: &[Member<'_, '_>]) -> Result<()> {
    if inject::fails(Site::Launch) {
        return Err(Error::internal("a launch failed: a failure was injected"));
    }
    let live: Vec<Member<'_, '_>> = all.iter().copied().filter(|(_, l)| l.chunks > 0).collect();
    let Some((_, first)) = live.first() else {
        return Ok(());
    };
    let Code::Cuda { entry, module, .. } = first.kernel.code() else {
        return Err(Error::internal("a table for a kernel of the CPU"));
    };
    let index = module.context().index();
    for part in live.chunks(first.grid.table as usize) {
        let table = table(index, part, first.grid.table as usize)?;
        if part.len() > 1 {
            count(Counter::CombinedLaunches, 1);
        }
        let blocks = part.iter().map(|(_, l)| l.chunks).sum();
        cuda::launch_table(
            module.context(),
            *entry,
            (blocks, first.grid.threads),
            table,
            || numbers(part, first.grid.table as usize),
        )?;
    }
    Ok(())
}

/// The first blocks that a table for so many launches holds: a power of two of them, at least two.
fn first_blocks(members: usize) -> usize {
    members.next_power_of_two().max(2)
}

/// The words of a launch's arguments: pointers, parameters, numbers, and neither scratch memory nor a place for faults.
fn words_of(launch: &Launch<'_>) -> usize {
    launch.buffers.len() + launch.params.len() + launch.scalars.len() + 2
}

/// Where the numbers of launches stand in their table, by the launches' positions in their group.
fn numbers(part: &[Member<'_, '_>], members: usize) -> cuda::Numbers {
    let mut end = first_blocks(members) / 2;
    let of = |(member, launch): &Member<'_, '_>| {
        end += words_of(launch);
        (*member, end - 2 - launch.scalars.len()..end - 2)
    };
    part.iter().map(of).collect()
}

/// The first block of each launch, padded with `u32::MAX`; then the arguments of each.
fn table(index: u32, part: &[Member<'_, '_>], members: usize) -> Result<Vec<u64>> {
    let firsts = first_blocks(members);
    let (mut first, mut next) = (vec![u32::MAX; firsts], 0usize);
    for ((_, launch), first) in part.iter().zip(&mut first) {
        *first = u32::try_from(next).unwrap_or(u32::MAX);
        next = next.saturating_add(launch.chunks);
    }
    let pair = |p: &[u32]| u64::from(p[0]) | u64::from(p[1]) << 32;
    let mut table: Vec<u64> = first.chunks_exact(2).map(pair).collect();
    for (_, launch) in part {
        resolve(Some(index), launch.buffers, |p| table.push(p as u64))?;
        table.extend(launch.params.iter().map(|&p| p as u64));
        table.extend_from_slice(launch.scalars);
        table.extend([0, 0]);
    }
    let words = part.first().map_or(0, |(_, launch)| words_of(launch));
    table.resize(firsts / 2 + members * words, 0);
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Grid;
    use crate::kernel::compile_kernels;

    fn launch<'a>(
        kernel: &'a crate::Kernel,
        chunks: usize,
        params: &'a [i64],
        scalars: &'a [u64],
    ) -> Launch<'a> {
        Launch {
            kernel,
            buffers: &[],
            params,
            scalars,
            chunks,
            scratch: 0,
            local: 0,
            grid: Grid::default(),
        }
    }

    // scheduler C-12: members may have any sizes.
    #[test]
    fn tables_hold_first_blocks_and_arguments() {
        let source = crate::KernelSource {
            parts: Vec::new(),
            body: "void FT_SYMBOL(const ft_args *a, long long b, long long e, char *l) {}\n".into(),
            finish: false,
            name: "".into(),
        };
        let kernel = compile_kernels(&[source]).remove(0).expect("compiles");
        let all = [
            launch(&kernel, 3, &[-1], &[7]),
            launch(&kernel, 5, &[2], &[8]),
            launch(&kernel, 1, &[3], &[9]),
        ];
        let all: Vec<Member<'_, '_>> = [4, 2, 7].into_iter().zip(&all).collect();
        let (got, numbers) = (table(0, &all, 5).expect("no buffers"), numbers(&all, 5));
        let none = u64::from(u32::MAX);
        let mut want = vec![
            3 << 32,
            8 | none << 32,
            none | none << 32,
            none | none << 32,
        ];
        want.extend([u64::MAX, 7, 0, 0, 2, 8, 0, 0, 3, 9, 0, 0]);
        want.resize(4 + 5 * 4, 0);
        assert_eq!(got, want);
        assert_eq!(numbers[..], [(4, 5..6), (2, 9..10), (7, 13..14)]);
        assert!(launch_tables(&all).is_err());
    }
}
