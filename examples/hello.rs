//! The smallest program: record, read, and see an error come out where data is read.

use ferrotrace::prelude::*;

fn main() -> Result<()> {
    let device = Device::best();
    let x = Tensor::arange(0, 6, 1, DType::F32, &device).reshape([2, 3]);

    // Three operations, one kernel: nothing runs before the value is printed.
    let y = (&x * 2.0).exp().sum(-1);
    println!("{y:?}");
    println!("{y}");

    // A mistake stays in the tensor until somebody reads it.
    let wrong = x.matmul(&x) + 1.0;
    match wrong.to_vec::<f32>() {
        Ok(_) => println!("a [2, 3] times a [2, 3] matrix has a product?"),
        Err(error) => println!("as expected: {error}"),
    }
    Ok(())
}
