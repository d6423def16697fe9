//! The signatures that a compiled function has met.

use super::replay::Replay;
use crate::backend::Precision;
use crate::form::{FormLeaf, Mix};
use crate::structs::ArgValue;
use ferrotrace_kernels::Array;
use ferrotrace_runtime::{DType, Device};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

/// Signatures kept by one function; beyond, all are forgotten.
const CAPACITY: usize = 1024;

/// The signature of a call.
#[derive(Debug)]
pub(crate) struct Probe<'a> {
    values: &'a [ArgValue],
    arrays: &'a [Array],
    /// The precision in force, and whether histories are kept.
    scope: (Precision, bool),
    hash: u64,
}

/// What of a tensor argument matters to a trace that holds for any size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Class {
    rank: usize,
    /// A bit for each size of 1: what broadcasts does not change silently.
    ones: u64,
    dtype: DType,
    device: Device,
    dense: bool,
}

impl Class {
    fn of(array: &Array) -> Class {
        Class {
            rank: array.shape().rank(),
            ones: array
                .shape()
                .iter()
                .fold(0, |ones, &size| ones << 1 | (size == 1) as u64),
            dtype: array.dtype,
            device: array.buffer.device().clone(),
            dense: array.layout.is_contiguous(),
        }
    }
}

impl<'a> Probe<'a> {
    /// The signature of these numbers and tensors, in a precision, with histories kept or not.
    pub fn new(values: &'a [ArgValue], arrays: &'a [Array], scope: (Precision, bool)) -> Probe<'a> {
        let mut mix = Mix::default();
        mix.word((scope.0 as u64) << 1 | u64::from(scope.1));
        for value in values {
            mix.word(value.bits);
        }
        for array in arrays {
            mix.word(array.dtype as u64);
            for (&size, &stride) in array.shape().iter().zip(array.layout.strides()) {
                mix.word(size as u64);
                mix.word(stride as u64);
            }
        }
        Probe {
            values,
            arrays,
            scope,
            hash: mix.finish(),
        }
    }
}

impl Probe<'_> {
    /// The signature's hash.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Whether there are numbers in it that a program may change from call to call, and compute with.
    pub fn has_numbers(&self) -> bool {
        self.values.iter().any(ArgValue::is_number)
    }
}

#[derive(Debug)]
struct Exact<Form> {
    values: SmallVec<[ArgValue; 4]>,
    leaves: SmallVec<[FormLeaf; 2]>,
    scope: (Precision, bool),
    replay: Arc<Replay>,
    form: Form,
}

#[derive(Debug)]
struct Generic<Form> {
    values: SmallVec<[ArgValue; 4]>,
    classes: SmallVec<[Class; 2]>,
    scope: (Precision, bool),
    replay: Arc<Replay>,
    form: Form,
}

/// The traces of one function; `Form` is what there is to its result beside tensors.
#[derive(Debug)]
pub(crate) struct Traces<Form> {
    exact: HashMap<u64, Vec<Exact<Form>>, BuildHasherDefault<Mix>>,
    generic: Vec<Generic<Form>>,
    len: usize,
}

impl<Form> Default for Traces<Form> {
    fn default() -> Traces<Form> {
        Traces {
            exact: HashMap::default(),
            generic: Vec::new(),
            len: 0,
        }
    }
}

impl<Form: Clone> Traces<Form> {
    /// The trace of exactly this signature.
    pub fn exact(&self, probe: &Probe<'_>) -> Option<(Arc<Replay>, Form)> {
        let same = |known: &&Exact<Form>| {
            known.values[..] == *probe.values
                && known.scope == probe.scope
                && known.leaves.len() == probe.arrays.len()
                && known
                    .leaves
                    .iter()
                    .zip(probe.arrays)
                    .all(|(leaf, array)| leaf.is_of(array))
        };
        let found = self.exact.get(&probe.hash)?.iter().find(same)?;
        Some((found.replay.clone(), found.form.clone()))
    }

    /// A trace that may hold for this signature, being one that holds for any sizes.
    pub fn generic(&self, probe: &Probe<'_>) -> Option<(Arc<Replay>, Form)> {
        let same = |known: &&Generic<Form>| {
            known.values[..] == *probe.values
                && known.scope == probe.scope
                && known.classes.len() == probe.arrays.len()
                && known
                    .classes
                    .iter()
                    .zip(probe.arrays)
                    .all(|(c, array)| *c == Class::of(array))
        };
        let found = self.generic.iter().find(same)?;
        Some((found.replay.clone(), found.form.clone()))
    }

    /// Keeps a trace.
    pub fn insert(&mut self, probe: &Probe<'_>, replay: &Arc<Replay>, form: &Form) {
        if self.len >= CAPACITY {
            *self = Traces::default();
        }
        self.len += 1;
        if replay.generic && self.generic(probe).is_none() {
            self.generic.push(Generic {
                values: SmallVec::from_slice(probe.values),
                classes: probe.arrays.iter().map(Class::of).collect(),
                scope: probe.scope,
                replay: replay.clone(),
                form: form.clone(),
            });
        }
        self.exact.entry(probe.hash).or_default().push(Exact {
            values: SmallVec::from_slice(probe.values),
            leaves: probe.arrays.iter().map(FormLeaf::of).collect(),
            scope: probe.scope,
            replay: replay.clone(),
            form: form.clone(),
        });
    }

    /// How many signatures are kept.
    pub fn len(&self) -> usize {
        self.len
    }
}
