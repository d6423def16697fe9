//! Results compared with arrays of files.

use ferrotrace::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// How far floating-point numbers may be apart: by `atol + rtol·|expected|`.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Of each type its own where there is none.
    pub rtol: Option<f64>,
    pub atol: f64,
}

impl Tolerance {
    /// What is asked for, else 1e-4, or the last digit of half precision.
    fn relative(self, dtype: DType) -> f64 {
        let own = match dtype {
            DType::F16 => 2f64.powi(-10),
            DType::BF16 => 2f64.powi(-7),
            _ => 1e-4,
        };
        self.rtol.unwrap_or(own)
    }
}

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Found {
    /// What differs, a line each.
    pub differences: Vec<String>,
    pub compared: usize,
    /// The greatest difference of two numbers.
    pub most: f64,
}

impl Found {
    /// Adds what another comparison found.
    pub fn add(&mut self, other: Found) {
        self.differences.extend(other.differences);
        self.compared += other.compared;
        self.most = self.most.max(other.most);
    }

    fn tensors(
        &mut self,
        name: &str,
        is: &Tensor,
        expected: &Tensor,
        tolerance: Tolerance,
    ) -> Result<()> {
        self.compared += 1;
        if let Some(difference) = differing(is, expected, tolerance, &mut self.most)? {
            self.differences.push(format!("{name}: {difference}"));
        }
        Ok(())
    }
}

/// Results against the arrays of a file: by their names where all arrays are named so, else in order.
pub fn outputs(path: &Path, results: &[(String, Tensor)], tolerance: Tolerance) -> Result<Found> {
    let expected = io::load_npz_in_order(path, &Device::cpu())?;
    let mut found = Found::default();
    let names: BTreeSet<&str> = results.iter().map(|(name, _)| &**name).collect();
    let by_name =
        names.len() == results.len() && expected.iter().all(|(name, _)| names.contains(&**name));
    if by_name {
        let mut left: BTreeMap<&str, &Tensor> =
            results.iter().map(|(name, x)| (&**name, x)).collect();
        for (name, expected) in &expected {
            match left.remove(&**name) {
                Some(is) => found.tensors(name, is, expected, tolerance)?,
                None => found
                    .differences
                    .push(format!("{name}: there is no such output")),
            }
        }
        let extra = left.keys().map(|name| format!("{name}: is not expected"));
        found.differences.extend(extra);
        return Ok(found);
    }
    if results.len() != expected.len() {
        let (is, file) = (results.len(), expected.len());
        found
            .differences
            .push(format!("{is} outputs, where {file} are expected"));
    }
    for ((name, is), (_, expected)) in results.iter().zip(&expected) {
        found.tensors(name, is, expected, tolerance)?;
    }
    Ok(found)
}

/// State after a call against the arrays of a file, by qualified name.
pub fn state(path: &Path, state: &BTreeMap<String, Tensor>, tolerance: Tolerance) -> Result<Found> {
    let mut found = Found::default();
    for (name, expected) in io::load_npz_in_order(path, &Device::cpu())? {
        match state.get(&name) {
            Some(is) => found.tensors(&name, is, &expected, tolerance)?,
            None => found
                .differences
                .push(format!("{name}: the program has no such state")),
        }
    }
    Ok(found)
}

/// The way in which a tensor is not the expected one, if it is not. NaN equals NaN.
fn differing(
    is: &Tensor,
    expected: &Tensor,
    tolerance: Tolerance,
    most: &mut f64,
) -> Result<Option<String>> {
    if is.shape() != expected.shape() {
        let (is, expected) = (is.shape(), expected.shape());
        return Ok(Some(format!("has the shape {is}, not {expected}")));
    }
    // NumPy has no bfloat16: such numbers are kept in 32 bits.
    let widened = is.dtype() == DType::BF16 && expected.dtype() == DType::F32;
    if is.dtype() != expected.dtype() && !widened {
        let (is, expected) = (is.dtype(), expected.dtype());
        return Ok(Some(format!("is of dtype {is}, not {expected}")));
    }
    if !is.dtype().is_float() {
        let (a, b) = (is.to_bytes()?, expected.to_bytes()?);
        let size = is.dtype().size();
        let wrong = a
            .chunks(size)
            .zip(b.chunks(size))
            .filter(|(a, b)| a != b)
            .count();
        let of = is.numel();
        return Ok((wrong > 0).then(|| format!("{wrong} of {of} elements differ")));
    }
    let rtol = tolerance.relative(is.dtype());
    let wide = |x: &Tensor| {
        x.to_device(&Device::cpu())
            .to_dtype(DType::F64)
            .to_vec::<f64>()
    };
    let (a, b) = (wide(is)?, wide(expected)?);
    let (mut wrong, mut worst) = (0usize, (0.0f64, 0usize));
    for (i, (&a, &b)) in a.iter().zip(&b).enumerate() {
        if a == b || (a.is_nan() && b.is_nan()) {
            continue;
        }
        let apart = (a - b).abs();
        if apart.is_finite() {
            *most = most.max(apart);
        }
        if !(apart.is_finite() && apart <= tolerance.atol + rtol * b.abs()) {
            wrong += 1;
            if wrong == 1 || apart > worst.0 {
                worst = (apart, i);
            }
        }
    }
    let said = || {
        let (of, (_, i)) = (is.numel(), worst);
        let (got, wanted) = (a[i], b[i]);
        format!("{wrong} of {of} elements differ, most at {i}: {got} where {wanted} is expected")
    };
    Ok((wrong > 0).then(said))
}
