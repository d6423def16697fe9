//! Recordings: what a thread would put on a device's stream, noted instead of done.
//!
//! While a thread records, memory of the device that it allocates is a *symbol*, an address that no device has, and
//! launches are commands whose arguments hold symbols. A recording is made into a graph that is launched with real
//! memory in place of symbols ([`Capture`](super::Capture)).

use super::module::Function;
use crate::{Error, Result};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::sync::Arc;

/// Set in every symbol's address, and in none of a device's.
const SYMBOL: u64 = 1 << 62;
/// Bits of a byte's place in a symbol.
const PLACE: u32 = 44;

/// A kernel that must stay loaded.
pub(super) type Held = Arc<dyn Any + Send + Sync>;

/// Why work is not captured in a graph (codegen B9.5: what was not captured says why).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncaptured {
    /// The host waits for a kernel's verdict on indices.
    #[error("the host waits for a check of indices")]
    ChecksIndices,
    /// An operation runs on the host, or reads what is on the device.
    #[error("data is copied to or from the host")]
    HostCopy,
    /// Data is copied from a device to another.
    #[error("data is copied from a device to another")]
    PeerCopy,
    /// The host waits for the device.
    #[error("the host waits for the device")]
    Waits,
    /// Too few kernels in a row to be worth a graph.
    #[error("{0} launches in a row are too few")]
    TooFew(usize),
    /// More launches than a graph is worth: it is made, kept and changed launch by launch.
    #[error("more than {0} launches are too many")]
    TooMany(usize),
    /// Operands' sizes, sharing or numbers differ from run to run more often than graphs are kept.
    #[error("operands' memory or numbers change in ways that need another graph each time")]
    Changing,
    /// The driver or a library refused.
    #[error("{0}")]
    Refused(String),
}

/// Positions of numbers among the words of a command, by launch.
pub(crate) type Numbers = SmallVec<[(usize, Range<usize>); 1]>;

/// One command of a recording.
#[derive(Clone, Debug)]
pub(super) struct Command {
    pub work: Work,
    /// A kernel's arguments, or the addresses that a library's call names.
    pub words: Vec<u64>,
    /// Which of them are numbers of a launch, by the position of the launch among those put on the stream together.
    pub scalars: Numbers,
}

#[derive(Clone)]
pub(super) enum Work {
    Kernel {
        function: Function,
        blocks: u32,
        threads: u32,
        /// Bytes of shared memory that a block asks for besides its own.
        shared: u32,
        /// Whether it waits for the kernel before by itself.
        waits: bool,
    },
    /// A copy of so many bytes; its words are the addresses to and from.
    Copy(usize),
    /// So many bytes are set to zero; its word is their address.
    Clear(usize),
    Product(super::blas::Request),
    Convolution(Box<super::dnn::Convolution>),
}

impl Command {
    /// Whether it is a kernel that waits for the one before by itself.
    pub fn waits(&self) -> bool {
        matches!(self.work, Work::Kernel { waits: true, .. })
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Work::Kernel {
                blocks, threads, ..
            } => write!(f, "kernel of {blocks} x {threads}"),
            Work::Copy(bytes) => write!(f, "copy of {bytes}"),
            Work::Clear(bytes) => write!(f, "clearing of {bytes}"),
            Work::Product(_) => f.write_str("product"),
            Work::Convolution(_) => f.write_str("convolution"),
        }
    }
}

/// Memory that a recording allocated: its bytes, and the commands between which it lived.
#[derive(Clone, Debug)]
pub(super) struct Symbol {
    pub bytes: usize,
    pub born: usize,
    pub died: Option<usize>,
}

/// What a thread recorded.
#[derive(Debug, Default)]
pub struct Recording {
    device: u32,
    pub(super) commands: Vec<Command>,
    pub(super) symbols: Vec<Symbol>,
    /// What keeps the code of its launches loaded, where others may drop it.
    pub(super) held: Vec<Held>,
    refused: Option<Uncaptured>,
}

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    /// Empty where the thread does not record. It is never dropped, so that threads can record while they end.
    static RECORDING: ManuallyDrop<RefCell<Recording>> = ManuallyDrop::new(RefCell::default());
}

/// Calls `f` with what this thread has recorded.
fn with_recording<R>(f: impl FnOnce(&mut Recording) -> R) -> R {
    RECORDING.with(|recording| f(&mut recording.borrow_mut()))
}

/// Runs `f` while this thread records for a device, and returns the recording. All memory that `f` allocates on the
/// device must be dropped by then, but what its result holds, which must be dropped without being used for more than
/// [`symbol`](crate::Buffer::symbol).
pub fn record<R>(device: &crate::Device, f: impl FnOnce() -> R) -> (R, Recording) {
    /// Ends the recording also when `f` unwinds.
    struct Until;
    impl Drop for Until {
        fn drop(&mut self) {
            ON.set(false);
        }
    }
    with_recording(|recording| {
        *recording = Recording {
            device: device.cuda_index().unwrap_or(u32::MAX),
            ..Recording::default()
        }
    });
    ON.set(device.cuda_index().is_some());
    let until = Until;
    let result = f();
    drop(until);
    (result, with_recording(std::mem::take))
}

/// Whether this thread records, so that nothing it launches runs.
#[inline]
pub fn is_recording() -> bool {
    is_on()
}

/// Keeps kernels for as long as what this thread records is launched.
pub fn hold_recorded<'a, K: Any + Send + Sync>(kernels: impl Iterator<Item = &'a Arc<K>>) {
    if !is_on() {
        return;
    }
    with_recording(|r| {
        for kernel in kernels {
            let kernel: Held = kernel.clone();
            if !r.held.iter().any(|held| Arc::ptr_eq(held, &kernel)) {
                r.held.push(kernel);
            }
        }
    });
}

/// Gives up the recording under way, if there is one, because of what is to come.
///
/// # Errors
/// `Internal` while this thread records.
pub fn give_up_recording(why: Uncaptured) -> Result<()> {
    refuse(why)
}

/// Commands recorded so far on this thread.
pub fn recorded() -> usize {
    with_recording(|r| r.commands.len())
}

/// Why the recording under way is of no use, if it is not; the next is.
pub fn take_refusal() -> Option<Uncaptured> {
    with_recording(|r| r.refused.take())
}

/// Whether this thread records.
#[inline]
pub(super) fn is_on() -> bool {
    ON.get()
}

impl Recording {
    /// The device's index.
    pub(super) fn device(&self) -> u32 {
        self.device
    }

    /// Commands: kernels, copies and library calls.
    pub fn len(&self) -> usize {
        self.commands.len()
    }

    /// Whether nothing is to be done.
    pub fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// Bytes of a symbol.
    pub fn bytes(&self, symbol: u32) -> usize {
        self.symbols[symbol as usize].bytes
    }

    /// The positions of a command's numbers among its words: those of each launch that the command stands for, by the
    /// launch's position among those put on the stream together.
    pub fn scalars(&self, command: usize) -> &[(usize, Range<usize>)] {
        &self.commands[command].scalars
    }
}

/// A new symbol, while this thread records for the device.
pub(crate) fn allocate(device: u32, bytes: usize) -> Option<u64> {
    if !is_on() {
        return None;
    }
    with_recording(|r| {
        if r.device != device {
            return None;
        }
        let address = SYMBOL | (r.symbols.len() as u64) << PLACE;
        r.symbols.push(Symbol {
            bytes,
            born: r.commands.len(),
            died: None,
        });
        // Beyond this the parts of an address would run into each other.
        if bytes >= 1 << PLACE || r.symbols.len() >= 1 << (62 - PLACE) {
            r.refused = Some(Uncaptured::Refused("too much memory".to_owned()));
        }
        Some(address)
    })
}

/// Whether an address is a symbol's, whose end is noted then.
#[inline]
pub(crate) fn release(address: u64) -> bool {
    let Some((symbol, _)) = symbol_at(address) else {
        return false;
    };
    if is_on() {
        with_recording(|r| {
            let now = r.commands.len();
            if let Some(symbol) = r.symbols.get_mut(symbol as usize) {
                symbol.died = Some(now);
            }
        });
    }
    true
}

/// The symbol that an address lies in, and the place there.
#[inline]
pub(crate) fn symbol_at(address: u64) -> Option<(u32, u64)> {
    let own = address >> 62 == 1;
    own.then(|| {
        let symbol = (address & !SYMBOL) >> PLACE;
        (symbol as u32, address & ((1 << PLACE) - 1))
    })
}

/// Notes work of the driver's on memory at these addresses, where this thread records; whether it does.
pub(super) fn noted(work: Work, words: &[u64]) -> bool {
    let on = is_on();
    if on {
        add(Command {
            work,
            words: words.to_vec(),
            scalars: Numbers::new(),
        });
    }
    on
}

/// Notes a copy between memory of the recording, where this thread records; whether it does.
pub(crate) fn copy(to: u64, from: u64, bytes: usize) -> bool {
    noted(Work::Copy(bytes), &[to, from])
}

/// Notes a command.
pub(super) fn add(command: Command) {
    with_recording(|r| r.commands.push(command));
}

/// An error while this thread records: what is asked for cannot be recorded.
#[inline]
pub(super) fn refuse(why: Uncaptured) -> Result<()> {
    if !is_on() {
        return Ok(());
    }
    let error = Error::internal(format!("not recorded: {why}"));
    with_recording(|r| r.refused = Some(why));
    Err(error)
}

/// The error of a copy that cannot be recorded.
pub(crate) fn refuse_copy() -> Result<()> {
    refuse(Uncaptured::HostCopy)?;
    Err(Error::internal("memory of a recording is read after it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_told_from_addresses() {
        assert_eq!(symbol_at(0x7f00_1234_5678), None);
        assert_eq!(symbol_at(64), None);
        let address = SYMBOL | 5 << PLACE | 4096;
        assert_eq!(symbol_at(address), Some((5, 4096)));
    }

    #[test]
    fn nothing_is_recorded_for_the_host() {
        let ((), recording) = record(&crate::Device::cpu(), || {
            assert!(!is_on());
            assert_eq!(allocate(0, 64), None);
            assert!(refuse(Uncaptured::Waits).is_ok());
        });
        assert!(recording.is_empty());
    }
}
