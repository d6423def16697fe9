//! Room for copies of constants in the orders that kernels read: a product's kernel packs the weight that it meets, once.

use super::choose::Trace;
use super::{Bound, Folds, memory};
use crate::backend::Precision;
use crate::jit_fn::replay::{Replay, Source};
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{Buffer, BufferId, Config, Copies, Room, host};
use parking_lot::Mutex;
use std::sync::Arc;

/// Bytes by which kernels may pad a copy.
const PADDING: usize = 64;
/// The part of the memory that is available which the copies of one function may take unasked: its denominator.
const SHARE: usize = 4;

/// Whether memory is plenty for so many bytes of copies, and the environment allows them.
fn is_plenty(bytes: usize) -> bool {
    Config::get().pack && bytes <= host::available_bytes() / SHARE
}

/// The copies of a function's constants, for all of its traces.
#[derive(Debug, Default)]
pub(super) struct Packing {
    room: Arc<Room>,
    of: Mutex<Vec<(BufferId, Arc<Copies>)>>,
}

impl Packing {
    /// The copies of a buffer: tied weights, and traces for other sizes, share them.
    fn of(&self, buffer: &Buffer) -> Arc<Copies> {
        let mut all = self.of.lock();
        if let Some((_, copies)) = all.iter().find(|(id, _)| id.is_of(buffer)) {
            return copies.clone();
        }
        let copies = Arc::new(Copies::new(self.room.clone()));
        all.push((buffer.id(), copies.clone()));
        copies
    }
}

impl Folds {
    /// Lets kernels keep copies of the constants of a trace from which values were folded: as many bytes as the constants take,
    /// less the values that are kept, where the function is frozen or memory is plenty; else as many as a call then leaves below eager
    /// mode's. `before` is the trace as it was recorded. One that was recorded to round as eager mode does reads its constants as
    /// eager mode does, since a product of a packed matrix cuts its sums elsewhere.
    pub(super) fn let_copy(&self, mut replay: Replay, before: &Held, bound: Bound) -> Replay {
        let plan = replay.plan.clone();
        let mut nodes = plan.form.nodes.iter();
        let exact = nodes.any(|node| node.kind.precision == Precision::EagerExact);
        if exact || !plan.form.device.is_cpu() || before.constants == 0 {
            return replay;
        }
        let sources = replay.sources.clone();
        let constants = sources.iter().map(Source::constant).collect();
        let trace = Trace::new(&plan.form, constants, Vec::new(), Vec::new());
        let whole = before.constants + PADDING * before.count;
        let room = match bound {
            Bound::Constants => whole,
            Bound::Eager if is_plenty(whole) => whole,
            Bound::Eager => {
                let all = memory::peak(&trace, &vec![true; trace.len()], true);
                before.eager.saturating_sub(all)
            }
        };
        let kept = self
            .kept
            .lock()
            .iter()
            .map(|kept| kept.value.buffer.bytes())
            .sum();
        let room = room.saturating_sub(kept) as u64;
        if room == 0 {
            return replay;
        }
        self.packing.room.at_least(room);
        let source = |source: &Source| match source {
            Source::Constant(array) => Source::Constant(Array {
                buffer: array.buffer.with_copies(self.packing.of(&array.buffer)),
                ..array.clone()
            }),
            argument => argument.clone(),
        };
        replay.sources = sources.iter().map(source).collect();
        replay
    }
}

/// What a trace needs in eager mode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// Bytes of its constants, and how many there are.
    pub constants: usize,
    pub count: usize,
    /// The most bytes beside them and its arguments.
    pub eager: usize,
}

impl Held {
    pub fn by(trace: &Trace<'_>) -> Held {
        let leaves: Vec<usize> = (0..trace.constants.len()).collect();
        Held {
            constants: trace.constant_bytes(&leaves),
            count: trace.constants.iter().flatten().count(),
            eager: memory::peak(trace, &vec![true; trace.len()], false),
        }
    }
}
