//! Memory that threads share, with who wrote and read each element last.

use super::super::datum::Datum;
use super::{Fault, WARP};
use rustc_hash::FxHashMap;

/// A thread at a time: two accesses of one element by different threads are in order if a barrier that both passed lies
/// between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::interp) struct Access {
    pub block: u32,
    pub thread: u32,
    /// Barriers of the block before it.
    pub barriers: u32,
    /// Barriers of the thread's warp before it.
    pub warp_barriers: u32,
}

impl Access {
    /// Whether nothing orders it and another access.
    fn races(self, other: Access, one_block: bool) -> bool {
        let warps = [self, other].map(|access| access.thread as usize / WARP);
        let met = warps[0] == warps[1] && self.warp_barriers != other.warp_barriers;
        match self.block == other.block {
            true => self.thread != other.thread && self.barriers == other.barriers && !met,
            false => !one_block,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Cell {
    value: Option<Datum>,
    written: Option<Access>,
    /// Who read it last since it was written; the last other thread of that block; the last thread of another block.
    read: [Option<Access>; 3],
    /// Whether atomic operations alone touched it in this launch.
    atomic: bool,
}

impl Cell {
    fn note_read(&mut self, who: Access) {
        let [last, same, other] = self.read;
        self.read = match last {
            Some(last) if last.block != who.block => [Some(who), None, Some(last)],
            Some(last) if last.thread != who.thread => [Some(who), Some(last), other],
            _ => [Some(who), same, other],
        };
    }
}

/// Elements that threads share: a tensor's, an array's, or those of scratch memory, which is counted in bytes.
#[derive(Clone, Debug)]
pub(in crate::interp) struct Shared {
    name: String,
    /// How many there are.
    length: i64,
    cells: FxHashMap<i64, Cell>,
}

impl Shared {
    /// Elements that nothing was written to.
    pub fn new(name: String, length: usize) -> Shared {
        Shared::filled(name, length, std::iter::empty())
    }

    /// Elements of which some have values from before the launch.
    pub fn filled(
        name: String,
        length: usize,
        values: impl IntoIterator<Item = (i64, Datum)>,
    ) -> Shared {
        let cell = |(at, value)| {
            let value = Some(value);
            (
                at,
                Cell {
                    value,
                    ..Cell::default()
                },
            )
        };
        Shared {
            name,
            length: length as i64,
            cells: values.into_iter().map(cell).collect(),
        }
    }

    /// What it is, for reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many elements there are.
    pub fn length(&self) -> i64 {
        self.length
    }

    /// Begins another launch: all before it is done.
    pub fn settle(&mut self) {
        for cell in self.cells.values_mut() {
            (cell.written, cell.read, cell.atomic) = (None, [None; 3], false);
        }
    }

    /// What was written there.
    pub fn value(&self, at: i64) -> Option<Datum> {
        self.cells.get(&at)?.value
    }

    fn cell(&mut self, at: i64) -> Result<&mut Cell, Fault> {
        match (0..self.length).contains(&at) {
            true => Ok(self.cells.entry(at).or_default()),
            false => Err(Fault::Outside(self.name.clone(), at)),
        }
    }

    fn race(&self, at: i64) -> Fault {
        Fault::Race(self.name.clone(), at)
    }

    /// What lies there, if anything was written. `one_block`: it is memory of one block.
    pub fn read(&mut self, at: i64, who: Access, one_block: bool) -> Result<Option<Datum>, Fault> {
        let cell = self.cell(at)?;
        if cell.atomic || cell.written.is_some_and(|w| who.races(w, one_block)) {
            return Err(self.race(at));
        }
        cell.note_read(who);
        Ok(cell.value)
    }

    /// Puts a value there, or one that was never written. Threads that write the same value do not race.
    pub fn write(
        &mut self,
        at: i64,
        value: Option<Datum>,
        who: Access,
        one_block: bool,
    ) -> Result<(), Fault> {
        let cell = self.cell(at)?;
        let races = |before: &Option<Access>| before.is_some_and(|b| who.races(b, one_block));
        let overwrites = races(&cell.written) && !is_same(cell.value, value);
        if cell.atomic || overwrites || cell.read.iter().any(races) {
            return Err(self.race(at));
        }
        (cell.value, cell.written, cell.read) = (value, Some(who), [None; 3]);
        Ok(())
    }

    /// What atomic operations left there in this launch.
    pub fn posted(&self, at: i64) -> Option<Datum> {
        self.cells.get(&at).filter(|cell| cell.atomic)?.value
    }

    /// An access in one step, which other such accesses do not race with; gives what was there before.
    pub fn atomic(
        &mut self,
        at: i64,
        change: impl FnOnce(Option<Datum>) -> Option<Datum>,
    ) -> Result<Option<Datum>, Fault> {
        let cell = self.cell(at)?;
        let plain = cell.written.is_some() || cell.read.iter().any(Option::is_some);
        if plain && !cell.atomic {
            return Err(self.race(at));
        }
        let before = cell.value;
        (cell.value, cell.atomic) = (change(before), true);
        Ok(before)
    }
}

/// Whether two values have the same bits; NaN may differ in theirs.
fn is_same(a: Option<Datum>, b: Option<Datum>) -> bool {
    let nans = |a: Datum, b: Datum| a.dtype() == b.dtype() && a.is_nan() && b.is_nan();
    match (a, b) {
        (Some(a), Some(b)) => a == b || nans(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}
