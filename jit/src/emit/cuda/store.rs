//! The stores of a chunk: its elements are kept in registers, and written by one access where they lie together.

use super::index::Position;
use super::kernel::Writer;
use crate::body::{BodyOp, Value};
use crate::emit::Pointer;
use crate::emit::update::joined;
use crate::kernel::ir::{
    Access, Block, Cached, Expr, Extent, Function, Local, Name, Part, PointerType, Space, Stmt,
    Type, ValueType,
};
use ferrotrace_runtime::DType;

impl Writer<'_> {
    /// Declares the elements of a chunk that are stored.
    pub(super) fn declare_stored(&self, out: &mut Block, stores: &[usize]) {
        for &s in stores.iter().filter(|&&s| !self.is_placed(s)) {
            let ty = match self.packs(s) {
                true => ValueType::Scalar(DType::F32),
                false => ValueType::Memory(self.node.stores[s].dtype),
            };
            out.push(Stmt::array(stored(s), ty, self.extent()));
        }
    }

    /// The size of an array of a chunk's elements.
    fn extent(&self) -> Extent {
        Extent::Aligned(self.shape.lanes.into())
    }

    /// Whether a value says where the elements of a store go.
    fn is_placed(&self, store: usize) -> bool {
        let update = self.node.stores[store].update.as_ref();
        update.is_some_and(|u| u.at().is_some())
    }

    /// Joins element `l` to what is at its place.
    fn placed(&self, store: usize) -> Stmt {
        let of = &self.node.stores[store];
        let combine = of.update.as_ref().and_then(|u| u.combine);
        let place = self.stored_at(store, Position::Lane);
        let value = Name::value(of.value).into();
        let element = match combine {
            None => self.narrow(of.dtype, value),
            Some(_) => joined(combine, of.dtype, place.clone(), value),
        };
        Stmt::when(self.counts(), Stmt::assign(place, element))
    }

    /// Keeps element `l` of what is stored, or stores it where a value says where.
    pub(super) fn element_stored(&self, out: &mut Block, stores: &[usize]) {
        for &s in stores {
            let store = &self.node.stores[s];
            if self.is_placed(s) {
                out.push(self.placed(s));
                continue;
            }
            let element = match self.packs(s) {
                true => Name::value(self.unrounded(s)).into(),
                false => self.narrow(store.dtype, Name::value(store.value).into()),
            };
            out.push(Stmt::assign(
                Expr::from(stored(s)).element(Local::Lane),
                element,
            ));
        }
    }

    /// Writes the elements of a chunk.
    pub(super) fn store_chunk(&self, out: &mut Block, stores: &[usize]) {
        let stores = || stores.iter().filter(|&&s| !self.is_placed(s));
        for &s in stores().filter(|&&s| self.packs(s)) {
            self.pack(out, s);
        }
        for &s in stores() {
            let name = if self.packs(s) { packed(s) } else { stored(s) };
            if self.store_indices[&s].unit && self.shape.lanes > 1 {
                // What is read again, of a row or a table, is to stay in the cache; what is written is not.
                let cached = match self.shape.batch > 0 || self.gathers() {
                    true => Cached::Leaves,
                    false => Cached::Stays,
                };
                let place = self.stored_at(s, Position::Chunk).address();
                let arguments = [place, name.into()].into_iter().chain(self.span());
                out.push(Stmt::Call(Expr::call(
                    Function::StoreChunk(cached),
                    arguments,
                )));
            } else {
                let place = self.stored_at(s, Position::Lane);
                let store = Stmt::assign(place, Expr::from(name).element(Local::Lane));
                out.push(self.each_element(1, Stmt::when(self.counts(), store)));
            }
        }
    }

    /// Narrows the elements of a store, two by one instruction.
    fn pack(&self, out: &mut Block, s: usize) {
        let dtype = self.node.stores[s].dtype;
        out.push(Stmt::array(
            packed(s),
            ValueType::Memory(dtype),
            self.extent(),
        ));
        let words = Type::Pointer(PointerType {
            to: ValueType::Word,
            space: Space::Private,
            access: Access::Write,
            unaligned: false,
            nested: 0,
        });
        let lane = || Expr::from(Local::Lane);
        let pair = [lane(), lane() + 1].map(|l| Expr::from(stored(s)).element(l));
        let word = Expr::from(packed(s)).cast(words).element(lane() / 2);
        let packing = Stmt::assign(word, Expr::call(Function::Pack(dtype), pair));
        out.push(self.each_element(2, packing));
    }

    /// Whether whole chunks are read where a row's values say.
    fn gathers(&self) -> bool {
        let valued = |v: &Value| match &self.node.body.value(*v).op {
            BodyOp::Load { index, .. } => index.follows_from_values(),
            _ => false,
        };
        self.whole.iter().any(valued)
    }

    /// Whether a store narrows two elements by one instruction.
    fn packs(&self, store: usize) -> bool {
        self.node.stores[store].dtype.is_half() && self.shape.lanes.is_multiple_of(2)
    }

    /// The stored value before it was rounded to what the store rounds to.
    pub(super) fn unrounded(&self, store: usize) -> Value {
        let store = &self.node.stores[store];
        match self.node.body.value(store.value).op {
            BodyOp::Round(a, half) if half == store.dtype => a,
            _ => store.value,
        }
    }

    /// The element a store writes.
    pub(super) fn stored_at(&self, store: usize, position: Position) -> Expr {
        let pointer = self.place_of(Pointer::Write(self.node.stores[store].node));
        let index = self.store_indices[&store].at(position);
        Expr::from(pointer).element(index)
    }
}

/// The elements that a store writes.
fn stored(store: usize) -> Name {
    Name::of(Part::Stored, store as Value)
}

/// The elements that a store writes, as half values.
fn packed(store: usize) -> Name {
    Name::of(Part::Packed, store as Value)
}
