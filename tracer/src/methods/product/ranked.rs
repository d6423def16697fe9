//! Products of operands of given numbers of dimensions.

use super::super::attempt;
use crate::{Input, Tensor};
use ferrotrace_kernels::Op;
use ferrotrace_runtime::{Error, Result};

/// Whether the operands have these numbers of dimensions, and as many matrices.
///
/// # Errors
/// They do not, or one carries an error.
fn ranks(a: &Tensor, b: &Tensor, expected: [usize; 2]) -> Result<()> {
    a.check()?;
    b.check()?;
    let (own, other) = (a.sizes(), b.sizes());
    if [own.rank(), other.rank()] != expected {
        let why = format!("operands of {expected:?} dimensions, not {own} and {other}");
        return Err(Error::shape(why));
    }
    match expected == [3, 3] && own[0] != other[0] {
        true => Err(Error::shape(format!("batches {own} and {other}"))),
        false => Ok(()),
    }
}

/// Methods that are [`matmul`](Tensor::matmul) of operands of given ranks.
macro_rules! products {
    ($($(#[doc = $doc:literal])* $name:ident $text:literal $ranks:expr;)*) => {
        impl Tensor {$(
            $(#[doc = $doc])*
            #[track_caller]
            pub fn $name(&self, b: &Tensor) -> Tensor {
                attempt!($text, ranks(self, b, $ranks), self, b);
                Tensor::record_as($text, Op::Matmul, &[Input::Tensor(self), Input::Tensor(b)])
            }
        )*}
    };
}

products! {
    /// The product of two matrices, `[n, k]` and `[k, m]`: [`matmul`](Tensor::matmul), which refuses other ranks.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// assert_eq!(x.mm(&x).to_vec::<f64>()?, [7.0, 10.0, 15.0, 22.0]);
    /// # Ok::<(), Error>(())
    /// ```
    mm "mm" [2, 2];

    /// The products of as many matrices, `[b, n, k]` and `[b, k, m]`: [`matmul`](Tensor::matmul), which refuses other ranks
    /// and broadcasts nothing.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 1, 2], &Device::cpu());
    /// let y = Tensor::ones([2, 2, 1], DType::F64, &Device::cpu());
    /// assert_eq!(x.bmm(&y).to_vec::<f64>()?, [3.0, 7.0]);
    /// # Ok::<(), Error>(())
    /// ```
    bmm "bmm" [3, 3];

    /// The product of a matrix `[n, k]` and a vector `[k]`, a vector `[n]`.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0, 3.0, 4.0], [2, 2], &Device::cpu());
    /// let v = Tensor::from_slice(&[1.0, 10.0], 2, &Device::cpu());
    /// assert_eq!(x.mv(&v).to_vec::<f64>()?, [21.0, 43.0]);
    /// # Ok::<(), Error>(())
    /// ```
    mv "mv" [2, 1];

    /// Σ a·b of two vectors of one size, a 0-d tensor: [`dot`](Tensor::dot), since all numbers are real.
    ///
    /// ```
    /// # use ferrotrace_tracer::prelude::*;
    /// let x = Tensor::from_slice(&[1.0, 2.0], 2, &Device::cpu());
    /// assert_eq!(x.vdot(&x).to_scalar::<f64>()?, 5.0);
    /// # Ok::<(), Error>(())
    /// ```
    vdot "vdot" [1, 1];
}
