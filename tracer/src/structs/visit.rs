//! What a struct consists of: its tensors with their names, and the values that are part of a signature.

use super::arg::JitArg;
use super::buffer::Buffer;
use crate::Tensor;
use crate::history::History;
use crate::node::{Node, NodeArc};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt::{Display, Write};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// A number, length, size, truth value or piece of text of an argument, which is part of the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct ArgValue {
    pub(crate) kind: u8,
    pub(crate) bits: u64,
}

impl ArgValue {
    /// A number of elements.
    const LENGTH: u8 = 0;
    /// Which variant of an enum it is, or whether there is anything in an option.
    const VARIANT: u8 = 64;
    /// Eight bytes of a text, or of what a value hashes to.
    const BYTES: u8 = 65;
    /// The place of an earlier tensor that a tensor is another handle of.
    const TIE: u8 = 66;
    /// Whether a gradient can be asked of a tensor.
    const REQUIRED: u8 = 67;

    /// Whether it is a number that a program may compute with, and no length, size or truth value.
    pub(crate) fn is_number(&self) -> bool {
        (1..=6).contains(&self.kind)
    }
}

/// A tensor in a struct.
#[derive(Debug)]
pub(crate) struct Found<'v> {
    /// The tensor: a handle of it where it lies in a cell.
    pub tensor: Cow<'v, Tensor>,
    /// Whether it is there by value, and not behind a reference.
    pub given: bool,
    /// The buffer that it lies in.
    pub buffer: Option<&'v Buffer>,
}

/// The names of tensors, in one text.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Names {
    /// The path to what is being visited.
    path: String,
    /// The names met so far, one after another.
    text: String,
    /// Where in `text` each ends.
    ends: Vec<usize>,
}

impl Names {
    fn push(&mut self) {
        self.text.push_str(&self.path);
        self.ends.push(self.text.len());
    }

    /// The first name that stands in one of the two and not at the same place of the other.
    pub fn first_other<'n>(&'n self, other: &'n Names) -> Option<&'n str> {
        let len = self.ends.len().max(other.ends.len());
        let name = |names: &'n Names, place| (place < names.ends.len()).then(|| names.get(place));
        (0..len).find_map(|place| match (name(self, place), name(other, place)) {
            (Some(one), Some(other)) if one == other => None,
            (one, other) => one.or(other),
        })
    }

    /// The name of a tensor by its place.
    pub fn get(&self, place: usize) -> &str {
        let start = place.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..self.ends[place]]
    }
}

/// Collects what a struct consists of, in the order of its fields.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Visit<'v> {
    pub(crate) tensors: SmallVec<[Found<'v>; 6]>,
    pub(crate) values: SmallVec<[ArgValue; 6]>,
    /// How many references to owned structs there are.
    pub(crate) borrows: usize,
    /// References that lead to what is being visited.
    depth: usize,
    names: Option<Box<Names>>,
}

impl<'v> Visit<'v> {
    /// Collects the tensors and values of `whole`.
    pub(crate) fn of<T: JitArg>(whole: &'v T) -> Visit<'v> {
        let mut visit = Visit::default();
        whole.visit(&mut visit);
        visit
    }

    /// Collects tensors, values and names.
    pub(crate) fn named<T: JitArg>(whole: &'v T) -> (Visit<'v>, Names) {
        let mut visit = Visit {
            names: Some(Box::default()),
            ..Visit::default()
        };
        whole.visit(&mut visit);
        let names = visit.names.take().unwrap_or_default();
        (visit, *names)
    }

    /// A tensor.
    #[inline]
    pub fn tensor(&mut self, tensor: &'v Tensor) {
        self.push(Cow::Borrowed(tensor), None);
    }

    /// The tensor of a buffer.
    pub(super) fn buffer(&mut self, buffer: &'v Buffer) {
        self.push(Cow::Owned(buffer.get()), Some(buffer));
    }

    #[inline]
    fn push(&mut self, tensor: Cow<'v, Tensor>, buffer: Option<&'v Buffer>) {
        if let Some(names) = &mut self.names {
            names.push();
        }
        let given = self.depth == 0;
        self.tensors.push(Found {
            tensor,
            given,
            buffer,
        });
    }

    /// What a field holds.
    #[inline]
    pub fn field<T: JitArg>(&mut self, name: &str, value: &'v T) {
        match &self.names {
            None => value.visit(self),
            Some(_) => self.below(name, value),
        }
    }

    /// What lies at a position.
    #[inline]
    pub fn item<T: JitArg>(&mut self, position: usize, value: &'v T) {
        match &self.names {
            None => value.visit(self),
            Some(_) => self.below(position, value),
        }
    }

    fn below<T: JitArg>(&mut self, name: impl Display, value: &'v T) {
        let length = |visit: &Visit<'_>| visit.names.as_ref().map_or(0, |names| names.path.len());
        let before = length(self);
        if let Some(names) = &mut self.names {
            let dot = if before == 0 { "" } else { "." };
            // Writing to a text cannot fail.
            let _ = write!(names.path, "{dot}{name}");
        }
        value.visit(self);
        if let Some(names) = &mut self.names {
            names.path.truncate(before);
        }
    }

    /// What a reference to an owned struct leads to.
    #[inline]
    pub(super) fn borrowed<T: JitArg>(&mut self, value: &'v T) {
        self.borrows += 1;
        self.depth += 1;
        value.visit(self);
        self.depth -= 1;
    }

    /// A value of 64 bits.
    #[inline]
    pub(super) fn value(&mut self, kind: u8, bits: u64) {
        self.values.push(ArgValue { kind, bits });
    }

    /// The number of what follows.
    #[inline]
    pub(super) fn length(&mut self, length: usize) {
        self.value(ArgValue::LENGTH, length as u64);
    }

    /// Which variant of an enum follows.
    #[inline]
    pub fn variant(&mut self, index: usize) {
        self.value(ArgValue::VARIANT, index as u64);
    }

    /// A value of any type whose hash tells values apart.
    pub fn hashed<T: Hash>(&mut self, value: &T) {
        let mut bytes = Bytes::default();
        value.hash(&mut bytes);
        self.bytes(&bytes.0);
    }

    /// A text.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        for piece in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            self.value(ArgValue::BYTES, u64::from_le_bytes(word));
        }
    }

    /// For each tensor the first place that holds a handle of the same value, its own as a rule; none where no two do.
    pub(crate) fn ties(&self) -> Option<Vec<u32>> {
        let handle = |found: &Found<'_>| found.tensor.node().handles() > 1;
        if self.tensors.iter().filter(|found| handle(found)).count() < 2 {
            return None;
        }
        let mut seen: FxHashMap<Identity, u32> = FxHashMap::default();
        let mut tied = false;
        let first = |(place, found): (usize, &Found<'_>)| {
            let place = place as u32;
            if !handle(found) {
                return place;
            }
            let first = *seen.entry(identity(&found.tensor)).or_insert(place);
            tied |= first != place;
            first
        };
        let firsts = self.tensors.iter().enumerate().map(first).collect();
        tied.then_some(firsts)
    }

    /// Makes it a part of the signature of which tensors a gradient can be asked, if it can of any.
    pub(crate) fn note_required(&mut self) {
        let required = self.tensors.iter().map(|found| found.tensor.has_grad());
        if required.clone().any(|required| required) {
            self.values.extend(required.map(|required| ArgValue {
                kind: ArgValue::REQUIRED,
                bits: u64::from(required),
            }));
        }
    }

    /// Makes these ties a part of the signature.
    pub(crate) fn note_ties(&mut self, firsts: &[u32]) {
        for (place, &first) in firsts.iter().enumerate() {
            if first as usize != place {
                self.value(ArgValue::TIE, (place as u64) << 32 | u64::from(first));
            }
        }
    }
}

/// What two tensors have in common that are handles of one value: the value, and what it was computed from.
type Identity = (*const Node, Option<*const History>);

fn identity(tensor: &Tensor) -> Identity {
    let history = tensor.history().map(Arc::as_ptr);
    (NodeArc::as_ptr(tensor.node()), history)
}

/// What is hashed, as it is.
#[derive(Default)]
struct Bytes(SmallVec<[u8; 64]>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}
