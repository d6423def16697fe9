//! What a kernel is given: pointers, integers and numbers, the thread's memory, and which pointers may share memory.

use crate::body::{BodyOp, Source, Value};
use crate::emit::cpu::kernel::Writer;
use crate::emit::{Pointer, update};
use crate::expr::Expr as Index;
use crate::kernel::ir::{Access, Arguments, Expr, Local, PointerType, Type, ValueType};
use ferrotrace_kernels::{ReduceKind, ValueId};
use ferrotrace_runtime::DType;

impl Writer<'_> {
    pub(super) fn computed(&self) -> Vec<Value> {
        let mut all: Vec<Value> = self.stages.row.iter().flatten().copied().collect();
        all.extend(self.stages.loops.iter().flat_map(|l| &l.compute));
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn collect_pointers(&mut self, needed: &[usize]) {
        for v in self.computed() {
            if let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op
                && !self.pointers.contains(&Pointer::Read(source))
            {
                self.pointers.push(Pointer::Read(source));
                self.pointer_types.push(dtype);
            }
        }
        for &s in needed {
            let written = Pointer::Write(self.node.stores[s].node);
            // A loop that was unrolled has several stores of one result.
            if !self.pointers.contains(&written) {
                self.pointers.push(written);
                self.pointer_types.push(self.node.stores[s].dtype);
            }
        }
    }

    pub(super) fn print_indices(&mut self, needed: &[usize]) {
        for v in self.computed() {
            let node = self.node;
            let (index, mask) = match &node.body.value(v).op {
                BodyOp::Load { index, mask, .. } => (Some(index), *mask),
                BodyOp::Index(e) => (Some(e), None),
                BodyOp::Random { index, .. } => (Some(index), None),
                BodyOp::Mask(m) => (None, Some(*m)),
                BodyOp::Check { mask, .. } => (None, *mask),
                _ => (None, None),
            };
            let taken_up =
                |source: &Source| (node.product).is_some_and(|p| *source == Source::Node(p.node));
            if let BodyOp::Load { source, .. } = &node.body.value(v).op
                && taken_up(source)
            {
                let printed = self.place_in_panel();
                self.indices.insert(v, printed);
            } else if let Some(e) = index {
                let printed = self.index(e);
                self.indices.insert(v, printed);
            }
            if let Some(m) = mask
                && !self.masks.contains_key(&m)
            {
                let printed = node.body.mask(m).iter().map(|e| self.index(e)).collect();
                self.masks.insert(m, printed);
            }
        }
        for &s in needed {
            let node = self.node;
            let printed = match node.feeds {
                true => self.place_in_panel(),
                false => self.index(node.place(&node.stores[s])),
            };
            self.store_indices.insert(s, printed);
        }
    }

    /// Places of scratch rows (and, outer, of accumulators and row values) in a thread's memory; its size.
    pub(super) fn local_layout(&mut self, cols: usize, width: usize) -> usize {
        let mut at = 0usize;
        let lane = |d: DType| {
            if d == DType::Bool {
                4
            } else {
                d.compute().size()
            }
        };
        for v in self.stages.saved.clone() {
            let elements = (cols * width).next_multiple_of(self.lanes) + self.lanes;
            let place = self.param(at as i64);
            self.scratch_rows.push((v, place));
            at += (elements * lane(self.node.body.value(v).dtype)).next_multiple_of(64);
        }
        at
    }

    /// Where a value's scratch row begins, and the dtype it has there.
    pub(super) fn scratch_row(&self, v: Value) -> (Expr, DType) {
        let dtype = match self.node.body.value(v).dtype {
            DType::Bool => DType::I32,
            other => other,
        };
        let row = self.scratch_rows.iter().find(|r| r.0 == v);
        let offset = row.map_or(Expr::Integer(0), |r| r.1.into());
        let start = Expr::from(Local::Memory) + offset;
        let ty = Type::write(ValueType::Scalar(dtype));
        (start.cast(ty), dtype)
    }

    /// What the functions of the kernel are given.
    pub(super) fn arguments(&self) -> Arguments {
        let pointer = |(pointer, dtype): (&Pointer, &DType)| {
            let access = match pointer {
                Pointer::Read(_) => Access::Read,
                Pointer::Write(_) => Access::Write,
            };
            PointerType::global(ValueType::Memory(*dtype), access)
        };
        let pointers = self.pointers.iter().zip(&self.pointer_types);
        let numbers = self.node.body.numbers().iter();
        Arguments {
            // A kernel has far fewer arguments than 2³².
            params: self.params.len() as u32,
            pointers: pointers.map(pointer).collect(),
            numbers: numbers.map(|number| number.held()).collect(),
        }
    }

    /// Pairs (node written, buffer read) that may share memory: every load of the buffer is of the very element that
    /// is stored, and none comes in a later loop (scheduler B-08, B-10, B-11).
    pub(super) fn in_place(&self, needed: &[usize]) -> Vec<(ValueId, Source)> {
        let mut pairs = Vec::new();
        for &s in needed {
            let store = &self.node.stores[s];
            if let Some(update) = &store.update {
                let loops = (self.node, self.stages.loops.len() == 1);
                pairs.extend(update::in_place(loops, &self.pointers, store, update));
                continue;
            }
            let Some(at) = self.stages.loops.iter().position(|l| l.stores.contains(&s)) else {
                continue;
            };
            if !self.node.stores_once(store) {
                continue;
            }
            // A first NaN is searched for after the loop, which computes its values again.
            let again = self.stages.loops[at].reduces.iter().any(|&r| {
                let value = self.node.body.value(r);
                matches!(&value.op, BodyOp::Reduce { kind: ReduceKind::ArgMax | ReduceKind::ArgMin, value: of, .. }
                    if self.node.body.value(*of).dtype.is_float())
            });
            // All that an iteration reads is read before it stores anything.
            let is_stored = |index: &Index| {
                let mut stores = needed.iter().map(|&s| &self.node.stores[s]);
                stores.any(|s| s.node == store.node && s.index == *index)
            };
            for pointer in &self.pointers {
                let Pointer::Read(source) = *pointer else {
                    continue;
                };
                if pairs.contains(&(store.node, source)) {
                    continue;
                }
                let fits = self
                    .computed()
                    .iter()
                    .all(|&v| match &self.node.body.value(v).op {
                        BodyOp::Load {
                            source: from,
                            dtype,
                            index,
                            mask,
                        } if *from == source => {
                            let late = self.stages.loops[at + 1..]
                                .iter()
                                .any(|l| l.compute.contains(&v));
                            let searched = again && self.stages.loops[at].compute.contains(&v);
                            let in_row = self.stages.row.iter().flatten().any(|&x| x == v);
                            is_stored(index)
                                && mask.is_none()
                                && dtype.size() == store.dtype.size()
                                && !late
                                && !searched
                                && !in_row
                        }
                        _ => true,
                    });
                if fits {
                    pairs.push((store.node, source));
                }
            }
        }
        pairs
    }
}
