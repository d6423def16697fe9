//! What a recording depends on, compared before each launch of its graph.

use super::Part;
use crate::draft::Step;
use crate::lower::CallArg;
use crate::plan::Plan;
use crate::plan::run::Run;
use ferrotrace_kernels::Operand;
use ferrotrace_runtime::{Buffer, Error, Layout, Result};
use smallvec::SmallVec;

/// The block of what has no bytes.
pub(super) const EMPTY: usize = usize::MAX;

/// The buffers that a graph is given, and the bytes of each before the part that it works on.
pub(super) type Blocks = SmallVec<[(Buffer, usize); 8]>;

/// Windows that differ in whole units of so many bytes are the same to a graph: no kernel asks for more alignment.
pub(super) const UNIT: usize = 256;

/// A layout without most of its offset, and how many bytes that is: what lies before a window is nothing to its users.
pub(super) fn window(layout: &Layout, size: usize) -> (Layout, usize) {
    let offset = layout.offset();
    let skipped = offset - offset % (UNIT / size);
    if skipped == 0 || layout.strides().iter().any(|&s| s < 0) {
        return (layout.clone(), 0);
    }
    (moved(layout, offset - skipped), skipped * size)
}

pub(super) fn moved(layout: &Layout, offset: usize) -> Layout {
    let strides = SmallVec::from_slice(layout.strides());
    Layout::new(layout.shape().clone(), strides, offset)
}

/// What a recording depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Form {
    /// By given source: its block and layout, and whether it may be overwritten; `None` without memory.
    pub sources: SmallVec<[Option<(usize, Layout, bool)>; 8]>,
    /// By block: bytes, and whether somebody else holds it.
    pub blocks: SmallVec<[(usize, bool); 8]>,
    /// Numbers that are no kernel's arguments, by their bits.
    pub numbers: SmallVec<[u64; 4]>,
}

impl Plan {
    /// What a recording of the part would depend on now, and the blocks that it is given.
    pub(super) fn form(&self, run: &Run<'_>, part: &Part) -> Result<(Form, Blocks)> {
        let mut blocks = Blocks::new();
        let mut found: SmallVec<[(usize, usize); 8]> = SmallVec::new();
        let mut sources = SmallVec::new();
        for &source in &part.given {
            let Ok(array) = run.array(source) else {
                sources.push(None);
                continue;
            };
            let owned = run.owns(source);
            if array.buffer.bytes() == 0 || array.numel() == 0 {
                sources.push(Some((EMPTY, moved(&array.layout, 0), owned)));
                continue;
            }
            let (layout, skipped) = window(&array.layout, array.dtype.size());
            let same = |b: &(Buffer, usize)| b.1 == skipped && b.0.same(&array.buffer);
            let block = match blocks.iter().position(same) {
                Some(block) => block,
                None => {
                    let bytes = match skipped {
                        0 => array.buffer.bytes(),
                        _ => layout.span().end * array.dtype.size(),
                    };
                    // One handle is the list's own.
                    found.push((bytes, 1));
                    blocks.push((array.buffer.clone(), skipped));
                    blocks.len() - 1
                }
            };
            if skipped != 0 {
                let bytes = layout.span().end * array.dtype.size();
                found[block].0 = found[block].0.max(bytes);
            }
            found[block].1 += 1;
            sources.push(Some((block, layout, owned)));
        }
        let shared = |(b, held): (&(Buffer, usize), usize)| b.1 != 0 || b.0.handles() > held;
        let each = blocks.iter().zip(&found);
        let form = Form {
            sources,
            blocks: each.map(|(b, &(n, held))| (n, shared((b, held)))).collect(),
            numbers: self.guarded(run, part)?,
        };
        Ok((form, blocks))
    }

    /// The numbers of calls and templates, by their bits: they are no arguments that are patched.
    fn guarded(&self, run: &Run<'_>, part: &Part) -> Result<SmallVec<[u64; 4]>> {
        let mut bits = SmallVec::new();
        let mut note = |operand: &Operand| {
            if let Operand::Slot(..) = operand {
                let number = run.number(operand)?;
                bits.push(number.to_f64().to_bits());
                bits.push(number.to_i64() as u64);
            }
            Ok::<(), Error>(())
        };
        for group in &self.draft.launches.groups[part.groups.clone()] {
            for step in &self.draft.steps[group.clone()] {
                if patched(step) {
                    continue;
                }
                for number in step.kernel().iter().flat_map(|k| &k.numbers) {
                    note(&number.operand)?;
                }
                for arg in step.call().iter().flat_map(|call| &call.args) {
                    if let CallArg::Number(operand) = arg {
                        note(operand)?;
                    }
                }
            }
        }
        Ok(bits)
    }
}

/// Whether a step is a kernel whose numbers are its arguments in order.
pub(super) fn patched(step: &Step) -> bool {
    matches!(step, Step::Launch(_))
}
