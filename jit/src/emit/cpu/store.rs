//! Stores, past the cache where the run asks for it.

use crate::body::{BodyOp, Source};
use crate::emit::Pointer;
use crate::emit::cpu::index::{Index, Step};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::value::{At, element_array};
use crate::expr::Var;
use crate::kernel::ir::{Block, Expr, Infix, Local, Name, Stmt, Type, ValueType};
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support::INTERLEAVE;
use ferrotrace_runtime::DType;
use std::collections::HashMap;

impl Writer<'_> {
    /// Stores values at a position: those whose elements alternate in memory together.
    pub(super) fn store_all(&mut self, out: &mut Block, stores: &[usize], at: At<'_>) {
        let mut done: Vec<usize> = Vec::new();
        for &s in stores {
            if done.contains(&s) {
                continue;
            }
            match self.alternating(s, stores).filter(|_| at.lanes.is_none()) {
                Some(group) => {
                    self.interleave(out, &group, at);
                    done.extend(group);
                }
                None => self.store(out, s, at),
            }
        }
    }

    /// The stores that together write all elements of a run of memory, if these are such, by place.
    fn alternating(&self, s: usize, stores: &[usize]) -> Option<Vec<usize>> {
        let Step::Every(count) = self.store_indices[&s].step else {
            return None;
        };
        let first = &self.node.stores[s];
        let distance = |other: &usize| {
            let store = &self.node.stores[*other];
            let same = store.node == first.node && store.update.is_none();
            let apart = store.index.sub(&first.index);
            same.then(|| apart.as_const())
                .flatten()
                .map(|d| (d, *other))
        };
        let mut group: Vec<(i64, usize)> = stores.iter().filter_map(distance).collect();
        group.sort_unstable();
        let least = group.first()?.0;
        let whole = group.len() == count as usize
            && (least..).zip(&group).all(|(place, (d, _))| place == *d);
        whole.then(|| group.into_iter().map(|(_, s)| s).collect())
    }

    /// Stores vectors whose elements alternate in memory.
    fn interleave(&mut self, out: &mut Block, group: &[usize], at: At<'_>) {
        let store = &self.node.stores[group[0]];
        let place =
            Expr::from(self.written(store.node)) + self.store_indices[&group[0]].at(at.position);
        let values = group
            .iter()
            .map(|&s| Expr::from(Name::value(self.node.stores[s].value)));
        let args: Vec<Expr> = std::iter::once(place).chain(values).collect();
        let stem = INTERLEAVE[group.len() - 2];
        out.push(Stmt::Call(self.support(stem, store.dtype, args)));
    }

    /// The pointer to a result.
    fn written(&self, id: ValueId) -> Name {
        let written = Pointer::Write(id);
        let number = self.pointers.iter().position(|p| *p == written);
        // A kernel has far fewer pointers than 2³².
        Name::Pointer(number.unwrap_or_default() as u32)
    }

    /// Stores a value at a position.
    pub(super) fn store(&mut self, out: &mut Block, s: usize, at: At<'_>) {
        let store = &self.node.stores[s];
        let (dtype, value, id) = (store.dtype, store.value, store.node);
        let number = self
            .pointers
            .iter()
            .position(|p| *p == Pointer::Write(id))
            .unwrap_or_default();
        // A kernel has far fewer pointers than 2³².
        let pointer = Name::Pointer(number as u32);
        if let Some(update) = store.update.as_ref().filter(|u| u.at().is_some()) {
            return self.update_store(out, s, update.combine, pointer, at);
        }
        let index = self.store_indices[&s].clone();
        let place = Expr::from(pointer) + index.at(at.position);
        let v = Expr::from(self.name(value));
        let one = Expr::Integer(1);
        out.push(match (index.step, at.lanes) {
            (Step::Unit, None) => {
                let plain = self.support("store", dtype, [place.clone(), v.clone()]);
                let plain = Stmt::Call(plain);
                if !matches!(dtype, DType::F32 | DType::F64) {
                    return out.push(plain);
                }
                let flag = self.stream_flag(number, id, &index);
                if let Some(tests) = &mut self.usual {
                    tests.insert(flag);
                    return out.push(plain);
                }
                let stream = self.support("stream", dtype, [place, v]);
                Stmt::either(flag.into(), Stmt::Call(stream), plain)
            }
            (Step::Unit, Some(m)) => {
                Stmt::Call(self.support("storen", dtype, [place, v, m.clone()]))
            }
            // All lanes have one place and one value.
            (Step::Uniform, _) => Stmt::Call(self.support("storen", dtype, [place, v, one])),
            _ => {
                let all = self.support("store", dtype, [Local::Elements.into(), v]);
                let to = Expr::from(pointer).element(index.at(&at.lane()));
                Stmt::Scope(Block::from([
                    element_array(ValueType::Memory(dtype), self.lanes, false),
                    Stmt::Call(all),
                    self.each_lane(at, Stmt::assign(to, Self::element())),
                ]))
            }
        });
    }

    /// The bytes that loads at places known in advance read, each buffer counted once.
    pub(super) fn read_bytes(&self) -> usize {
        let mut sources: HashMap<Source, usize> = HashMap::new();
        for value in self.node.body.values() {
            let BodyOp::Load {
                source,
                index,
                dtype,
                ..
            } = &value.op
            else {
                continue;
            };
            if !index.is_affine() {
                continue;
            }
            let walked = (0..self.extents.len()).filter(|&v| index.coefficient(Var(v as u32)) != 0);
            let elements: usize = walked.map(|v| self.extents[v]).product();
            let bytes = sources.entry(*source).or_default();
            *bytes = elements.saturating_mul(dtype.size()).max(*bytes);
        }
        sources.values().fold(0, |sum, b| sum.saturating_add(*b))
    }

    /// The name of a row's flag that a store bypasses the cache: asked for by the run, and its address aligned.
    fn stream_flag(&mut self, pointer: usize, id: ValueId, index: &Index) -> Name {
        let name = Name::Streams(pointer as u32);
        if self.streams.iter().all(|s| s.1 != id) {
            let wanted = self.param(0);
            self.streams.push((self.params.len() - 1, id, false));
            // Only a row that is one run keeps its alignment.
            let value = if self.walked_vars().is_empty() && !self.outer {
                let bytes = self.lanes * self.pointer_types[pointer].size();
                let start =
                    Expr::from(Name::Pointer(pointer as u32)) + index.at(&Local::Low.into());
                let low = start.cast(ValueType::LongWord) & (bytes as i64 - 1);
                Expr::from(wanted).and(Expr::infix(Infix::Equal, low, 0))
            } else {
                Expr::Integer(0)
            };
            self.preamble.push(Stmt::constant(name, Type::INT, value));
        }
        name
    }
}
