//! Programs that meet thousands of lengths, again and again.

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

const LENGTHS: usize = 3_000;

/// Runs a program once for each length, twice; the plans that each pass built.
fn passes(f: impl Fn(&Tensor) -> Tensor) -> [u64; 2] {
    let data: Vec<f32> = (0..LENGTHS + 2).map(|i| (i % 97) as f32 * 0.01).collect();
    let data = Tensor::from_vec(data, LENGTHS + 2, &Device::cpu());
    [(); 2].map(|()| {
        let pass = || {
            for n in 2..LENGTHS + 2 {
                let y = f(&data.narrow(0, 0, n)).to_scalar::<f32>().expect("runs");
                let terms = (0..n).map(|i| ((i % 97) as f64 * 0.01 * 2.0 + 1.0).sqrt());
                let want: f64 = terms.sum();
                assert!(
                    (f64::from(y) - want).abs() <= 1e-5 * want,
                    "{n}: {y} for {want}"
                );
            }
        };
        with_mode(Mode::Compiled, || stats_scope(pass))
            .1
            .plans_built
    })
}

#[test]
fn lengths_met_before_find_their_plans() {
    let [first, second] = passes(|x| (x * 2.0 + 1.0).sqrt().sum(..));
    assert!(first > 0);
    assert_eq!(second, 0);
    ferrotrace_tracer::clear_plans();
    let f = jit(|x: &Tensor| (1.0 + 2.0 * x).sqrt().sum(..));
    // The first pass forgets, beyond a number of lengths, what the function recorded; no plan is made again.
    let [first, second] = passes(|x| f.call(x));
    assert!(first > 0);
    assert_eq!(second, 0);
}
