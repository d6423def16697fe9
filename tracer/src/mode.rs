//! When operations run, and how exactly: modes and precisions, by scope, thread and process.

use crate::backend::Precision;
use ferrotrace_runtime::Config;
use once_cell::sync::Lazy;
use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::thread::LocalKey;

/// When operations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Mode {
    /// Recorded, and compiled together when a value is needed. Where sizes change from flush to flush, those of little
    /// work run on ready-made kernels until they have come back often enough to gain from a plan. With it their sums may be
    /// rounded otherwise.
    #[default]
    Compiled,
    /// Each operation runs at once, on ready-made kernels.
    Eager,
    /// Recorded; a flush whose plan is not compiled yet runs on ready-made kernels while it compiles in the
    /// background.
    Tiered,
}

thread_local! {
    static SCOPE: Cell<Option<Mode>> = const { Cell::new(None) };
    static THREAD: Cell<Option<Mode>> = const { Cell::new(None) };
    static PRECISION: Cell<Option<Precision>> = const { Cell::new(None) };
    static GRADIENTS: Cell<bool> = const { Cell::new(true) };
    static WHOLE: Cell<bool> = const { Cell::new(false) };
    static NANS: Cell<bool> = const { Cell::new(false) };
}

/// 0 when not set; else 1 + the mode.
static PROCESS: AtomicU8 = AtomicU8::new(0);

/// What `FERROTRACE_MODE` asks for; anything unknown is `Compiled`.
static ENVIRONMENT: Lazy<Mode> = Lazy::new(|| match Config::get().mode {
    "eager" => Mode::Eager,
    "tiered" => Mode::Tiered,
    _ => Mode::Compiled,
});

/// The mode in force: of the innermost scope, else of the thread, else of the process, else of the environment.
pub fn current() -> Mode {
    if let Some(mode) = own() {
        return mode;
    }
    match PROCESS.load(Relaxed) {
        1 => Mode::Compiled,
        2 => Mode::Eager,
        3 => Mode::Tiered,
        _ => *ENVIRONMENT,
    }
}

/// The mode of the innermost scope, else of the thread, if either is set.
#[inline]
pub(crate) fn own() -> Option<Mode> {
    SCOPE.get().or(THREAD.get())
}

/// The precision in force on this thread.
#[inline]
pub(crate) fn precision() -> Precision {
    own_precision().unwrap_or(Precision::Fast)
}

/// The precision of the innermost scope, if there is one.
#[inline]
pub(crate) fn own_precision() -> Option<Precision> {
    PRECISION.get()
}

/// Sets the mode of the process: of every thread and scope that has none of its own.
pub fn set_mode(mode: Mode) {
    let code = match mode {
        Mode::Compiled => 1,
        Mode::Eager => 2,
        Mode::Tiered => 3,
    };
    PROCESS.store(code, Relaxed);
}

/// Sets the mode of this thread, or with `None` leaves it to the process.
pub fn set_thread_mode(mode: Option<Mode>) {
    THREAD.set(mode);
}

/// Restores a thread-local value, also when the scope unwinds.
pub(crate) struct Restore<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);

impl<T: Copy + 'static> Drop for Restore<T> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// Sets a thread-local value until what is returned goes.
#[inline]
pub(crate) fn set_for_scope<T: Copy>(key: &'static LocalKey<Cell<T>>, value: T) -> Restore<T> {
    Restore(key, key.replace(value))
}

/// A mode and a precision of this thread, until it goes.
pub(crate) struct Scope {
    _mode: Restore<Option<Mode>>,
    _precision: Restore<Option<Precision>>,
}

/// Sets both for this thread.
pub(crate) fn enter(mode: Mode, precision: Precision) -> Scope {
    Scope {
        _mode: set_for_scope(&SCOPE, Some(mode)),
        _precision: set_for_scope(&PRECISION, Some(precision)),
    }
}

/// Runs `f` with operations recorded (or run) in `mode` on this thread. Scopes nest; the innermost counts.
pub fn with_mode<R>(mode: Mode, f: impl FnOnce() -> R) -> R {
    let _restore = set_for_scope(&SCOPE, Some(mode));
    f()
}

/// Runs `f` with operations recorded in `precision` on this thread.
pub fn with_precision<R>(precision: Precision, f: impl FnOnce() -> R) -> R {
    let _restore = set_for_scope(&PRECISION, Some(precision));
    f()
}

/// Whether operations of this thread keep what their gradients need.
#[inline]
pub(crate) fn keeps_history() -> bool {
    GRADIENTS.get()
}

/// Runs `f` with operations of this thread that keep what their gradients need, or do not.
pub(crate) fn with_history<R>(keep: bool, f: impl FnOnce() -> R) -> R {
    let _restore = set_for_scope(&GRADIENTS, keep);
    f()
}

/// Whether operations of this thread keep all their operands, whether their gradients need them or not.
#[inline]
pub(crate) fn keeps_all() -> bool {
    WHOLE.get()
}

/// Runs `f` with operations of this thread that keep all their operands.
pub(crate) fn keeping_all<R>(f: impl FnOnce() -> R) -> R {
    let _restore = set_for_scope(&WHOLE, true);
    f()
}

/// Whether operations that run at once fail where they make a NaN or an infinity of numbers that are none.
#[inline]
pub(crate) fn checks_nans() -> bool {
    Config::get().nans || NANS.get()
}

/// Runs `f` operation by operation, and fails the first that makes a NaN or an infinity of numbers that are none: what it
/// computes, and what is computed of it, carries an error with the operation's name and line. For the operations of a
/// gradient, the line is that of the operation that is differentiated.
///
/// ```
/// # use ferrotrace_tracer::prelude::*;
/// let x = Tensor::from_slice(&[0.0, 1.0], 2, &Device::cpu()).requires_grad();
/// let gradient = detect_anomaly(|| grad(&x.sqrt().sum(..), &[&x]).remove(0));
/// assert!(gradient.error().is_some_and(|error| error.to_string().contains("sqrt")));
/// # Ok::<(), Error>(())
/// ```
pub fn detect_anomaly<R>(f: impl FnOnce() -> R) -> R {
    let _restore = set_for_scope(&NANS, true);
    with_mode(Mode::Eager, f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_before_thread() {
        std::thread::spawn(|| {
            set_thread_mode(Some(Mode::Eager));
            assert_eq!(current(), Mode::Eager);
            let inner = with_mode(Mode::Tiered, || {
                assert_eq!(current(), Mode::Tiered);
                with_mode(Mode::Compiled, current)
            });
            assert_eq!((inner, current()), (Mode::Compiled, Mode::Eager));
            let unwound =
                std::panic::catch_unwind(|| with_mode(Mode::Tiered, || panic!("unwinds")));
            assert!(unwound.is_err());
            assert_eq!(current(), Mode::Eager);
        })
        .join()
        .expect("asserts");
    }

    #[test]
    fn precision_is_scoped() {
        assert_eq!(
            with_precision(Precision::EagerExact, precision),
            Precision::EagerExact
        );
        assert_eq!(precision(), Precision::Fast);
    }
}
