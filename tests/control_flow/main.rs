//! Branches and loops as operations of the trace: the numbers of plain Rust, eager and compiled, replayed and differentiated.

mod along;
mod device;
mod draws;
mod errors;
mod forward;
mod gradients;
mod models;
mod steps;

use ferrotrace::prelude::*;
use ferrotrace::with_mode;

const MODES: [Mode; 2] = [Mode::Eager, Mode::Compiled];

fn cpu() -> Device {
    Device::cpu()
}

fn of(values: &[f64]) -> Tensor {
    Tensor::from_slice(values, values.len(), &cpu())
}

fn scalar(value: f64) -> Tensor {
    Tensor::scalar(value, DType::F64, &cpu())
}

/// What `f` gives is what is expected, to 12 digits, in both modes.
#[track_caller]
fn check(f: impl Fn() -> Tensor, want: &[f64]) {
    for mode in MODES {
        let found = with_mode(mode, || f().to_dtype(DType::F64).to_vec::<f64>());
        near(
            &found.unwrap_or_else(|e| panic!("{mode:?}: {e}")),
            want,
            mode,
        );
    }
}

#[track_caller]
fn near(found: &[f64], want: &[f64], mode: Mode) {
    assert_eq!(found.len(), want.len(), "{mode:?}: {found:?}, not {want:?}");
    for (found, want) in found.iter().zip(want) {
        let same = found == want || (found - want).abs() <= 1e-12 * want.abs().max(1.0);
        assert!(
            same || found.is_nan() && want.is_nan(),
            "{mode:?}: {found}, not {want}"
        );
    }
}
