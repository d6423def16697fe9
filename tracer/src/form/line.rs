//! How a program recorded the operations of a form: for errors and explanations.

use crate::place;
use ferrotrace_runtime::Error;
use smallvec::SmallVec;
use std::panic::Location;

/// How a program recorded an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    /// The name of the method or operator that was called.
    pub called: &'static str,
    /// The line that called it.
    pub location: &'static Location<'static>,
}

/// How the operations of a form were recorded.
pub(crate) type Lines = SmallVec<[Line; 4]>;

/// An error of a plan, which may have been made for another part of the program, as one of the operations that were
/// recorded on these lines. `leaves` come before them in a graph.
pub(crate) fn told(error: Error, leaves: usize, lines: &[Line]) -> Error {
    let mut location = None;
    let error = error.as_recorded(|node| {
        let line = lines.get((node as usize).checked_sub(leaves)?)?;
        location = Some(line.location);
        Some((line.called, line.location))
    });
    match location {
        Some(location) => place::told(error, location),
        None => error,
    }
}
