//! What variables and elements hold, and where elements lie.

use super::super::datum::Datum;
use crate::kernel::ir::{Name, Sizes, ValueType};
use ferrotrace_runtime::DType;

/// What an expression gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Held {
    Number(Datum),
    Place(Place),
    /// Two half values in one word, or what one comes from that was never written.
    Pair([std::result::Result<Datum, Element>; 2]),
    /// 16 bytes of zeros.
    Cleared,
    /// What lies in this element, which was never written, or a value that was computed from it.
    Unwritten(Element),
}

impl Held {
    /// What an element holds before it is written.
    pub fn unwritten(home: Home, at: i64) -> Held {
        Held::Unwritten(Element { home, at })
    }
}

/// Memory that an element is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    /// Memory of tensors, counted in elements, or scratch memory, in bytes: by its number in the launch.
    Global(usize),
    /// An array of the block, by its slot.
    Block(usize),
    /// A variable of each thread, by its slot.
    Thread(usize, Name),
}

/// An element of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub home: Home,
    pub at: i64,
}

/// Where an element, or an array of elements, lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    pub home: Home,
    /// The position of the first element; of scratch memory, of its first byte.
    pub at: i64,
    /// What lies there.
    pub to: ValueType,
    /// The sizes of the array there, none of an element.
    pub dims: Dims,
    /// Whether positions count bytes.
    pub bytes: bool,
}

/// The sizes of an array's dimensions, at most three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Dims {
    sizes: [i64; 3],
    count: usize,
}

impl Dims {
    /// The sizes, from the outermost.
    pub fn all(&self) -> &[i64] {
        &self.sizes[..self.count]
    }

    /// The sizes of an element of an array of arrays.
    pub fn inner(&self) -> Dims {
        let [_, second, third] = self.sizes;
        Dims {
            sizes: [second, third, 0],
            count: self.count.saturating_sub(1),
        }
    }

    /// Elements in all.
    pub fn length(&self) -> i64 {
        self.all().iter().product()
    }

    /// Whether there is one element alone.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl From<Sizes> for Dims {
    fn from(sizes: Sizes) -> Dims {
        let mut dims = Dims::default();
        for (size, to) in sizes.iter().zip(&mut dims.sizes) {
            *to = i64::from(size);
            dims.count += 1;
        }
        dims
    }
}

impl Place {
    /// One element, of memory that is counted in elements.
    pub fn element(home: Home, at: i64, to: ValueType) -> Place {
        Place {
            home,
            at,
            to,
            dims: Dims::default(),
            bytes: false,
        }
    }

    /// The first of the elements that lie there, as one of its type.
    pub fn first(self) -> Place {
        Place {
            dims: Dims::default(),
            ..self
        }
    }

    /// So many steps on.
    pub fn moved(self, steps: i64) -> Place {
        let at = self.at + steps * self.step();
        Place { at, ..self }
    }

    /// How far apart two elements are.
    pub fn step(&self) -> i64 {
        match self.bytes {
            true => bytes(self.to),
            // Two half values are one word.
            false if self.to == ValueType::Word && self.dims.is_empty() => 2,
            false => self.dims.inner().length(),
        }
    }
}

impl ValueType {
    /// The type that elements of this type are computed in, if they are elements of tensors.
    pub(super) fn compute(self) -> Option<DType> {
        match self {
            ValueType::Memory(dtype) | ValueType::Scalar(dtype) => Some(dtype.compute()),
            _ => None,
        }
    }
}

/// Bytes of an element.
pub(super) fn bytes(ty: ValueType) -> i64 {
    match ty {
        ValueType::Byte => 1,
        ValueType::Word => 4,
        ValueType::Words => 16,
        ValueType::Memory(dtype) | ValueType::Scalar(dtype) | ValueType::Vector(dtype, _) => {
            dtype.size() as i64
        }
        ValueType::Index | ValueType::Divisor | ValueType::LongWord => 8,
    }
}

/// A number as a type holds it. Half values stay in binary32, rounded before they are stored.
pub(super) fn stored(number: Datum, to: ValueType) -> Datum {
    match to {
        ValueType::Memory(dtype) | ValueType::Scalar(dtype) => number.cast(dtype.compute()),
        ValueType::Word => Datum::I64(whole(number) & 0xffff_ffff),
        _ => Datum::I64(whole(number)),
    }
}

/// An integer of any type.
pub(super) fn whole(number: Datum) -> i64 {
    match number {
        Datum::I64(n) => n,
        other => other.cast(DType::I64).to_i64(),
    }
}

/// Whether a condition holds.
pub(super) fn holds(number: Datum) -> bool {
    number.cast(DType::Bool) == Datum::Bool(true)
}
