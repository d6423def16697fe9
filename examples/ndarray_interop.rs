//! To and from `ndarray`: the memory of a contiguous array is taken over, not copied.

use ferrotrace::prelude::*;
use ndarray::{Array2, Axis};

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu();
    let array = Array2::from_shape_fn((4, 3), |(row, column)| (row * 3 + column) as f64);

    let x = Tensor::from_ndarray(array.clone().into_dyn(), &device);
    let softmax = x.softmax(-1).to_ndarray::<f64>()?;
    println!("{softmax:.3}");

    // The same computation with ndarray alone, as the reference.
    let mut expected = array.mapv(f64::exp);
    for mut row in expected.axis_iter_mut(Axis(0)) {
        let sum = row.sum();
        row /= sum;
    }
    let difference = (&softmax - &expected.into_dyn())
        .mapv(f64::abs)
        .fold(0.0, |a: f64, &b| a.max(b));
    println!("largest difference to ndarray: {difference:.1e}");
    assert!(difference < 1e-12);

    // A transposed view is taken in its own order.
    let turned = Tensor::from_ndarray(array.t().to_owned().into_dyn(), &device);
    assert_eq!(turned.to_vec::<f64>()?, x.t().to_vec::<f64>()?);
    Ok(())
}
