//! Places in programs that are not Rust's.

use crate::mode;
use ferrotrace_runtime::{Context, DType, Error, Shape};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A place in a program that is not Rust's, such as a node of an imported graph. Errors of what is recorded
/// [within](Place::within) it tell its name, and no method and no line of Rust.
///
/// Places of one name are one place, which is kept until the process ends.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// use ferrotrace_tracer::Place;
///
/// let x = Tensor::ones(3, DType::F32, &Device::cpu());
/// let at = Tensor::from_slice(&[5i64], 1, &Device::cpu());
/// let y = Place::named("lookup (line 7)").within(|| x.index_select(0, &at));
/// let error = y.to_vec::<f32>().expect_err("out of range").to_string();
/// assert!(error.contains("lookup (line 7)") && !error.contains(".rs:"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Place(&'static Location<'static>);

/// All places, by name and by address.
#[derive(Default)]
struct Places {
    by_name: FxHashMap<&'static str, Place>,
    names: FxHashMap<usize, &'static str>,
}

static PLACES: RwLock<Option<Places>> = RwLock::new(None);
static ANY: AtomicBool = AtomicBool::new(false);

thread_local! {
    static HERE: Cell<Option<Place>> = const { Cell::new(None) };
}

fn address(location: &'static Location<'static>) -> usize {
    std::ptr::from_ref(location) as usize
}

impl Place {
    /// The place of a name.
    pub fn named(name: &str) -> Place {
        let mut places = PLACES.write();
        let places = places.get_or_insert_with(Places::default);
        if let Some(place) = places.by_name.get(name) {
            return *place;
        }
        // What is recorded has a line: a copy of one, which nothing else points to, stands for the place.
        let place = Place(Box::leak(Box::new(*Location::caller())));
        let name: &'static str = Box::leak(name.into());
        places.by_name.insert(name, place);
        places.names.insert(address(place.0), name);
        ANY.store(true, Relaxed);
        place
    }

    /// Runs `f` with what this thread records recorded here. Places nest; the innermost counts.
    pub fn within<R>(self, f: impl FnOnce() -> R) -> R {
        let _restore = mode::set_for_scope(&HERE, Some(self));
        f()
    }
}

/// The line under which an operation is recorded that was called on `location`.
#[inline]
pub(crate) fn here(location: &'static Location<'static>) -> &'static Location<'static> {
    HERE.get().map_or(location, |place| place.0)
}

/// The name of a place that is not Rust's.
pub(crate) fn name(location: &'static Location<'static>) -> Option<&'static str> {
    if !ANY.load(Relaxed) {
        return None;
    }
    let places = PLACES.read();
    places.as_ref()?.names.get(&address(location)).copied()
}

/// What errors tell of an operation that was recorded on a line.
pub(crate) fn context(
    op: &'static str,
    operands: Vec<(Shape, DType)>,
    location: &'static Location<'static>,
) -> Context {
    let name = name(location);
    Context {
        op: name.unwrap_or(op),
        operands,
        location: name.is_none().then_some(location),
    }
}

/// An error of an operation that was recorded on a line, which it names.
pub(crate) fn told(error: Error, location: &'static Location<'static>) -> Error {
    match (name(location), error.context()) {
        (Some(op), Some(found)) => {
            let operands = found.operands.clone();
            Error::new(error.kind().clone()).at(context(op, operands, location))
        }
        _ => error,
    }
}
