//! Many threads record, flush and drop shared traces at once.

use ferrotrace_tracer::prelude::*;
use std::sync::Barrier;

fn v(data: &[f32]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

#[test]
fn threads_flush_one_node() {
    for round in 0..50 {
        let barrier = Barrier::new(4);
        // Its leaf has no handle: whoever comes first may write over it.
        let y = with_mode(Mode::Compiled, || v(&[round as f32, 1.0]) * 2.0 + 1.0);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (y, barrier) = (&y, &barrier);
                scope.spawn(move || {
                    with_mode(Mode::Compiled, || {
                        barrier.wait();
                        let z = y + thread as f64;
                        let add = thread as f32;
                        let want = vec![2.0 * round as f32 + 1.0 + add, 3.0 + add];
                        assert_eq!(z.to_vec::<f32>().expect("readable"), want);
                        assert_eq!(y.to_vec::<f32>().expect("readable")[1], 3.0);
                    });
                });
            }
        });
    }
}

#[test]
fn threads_drop_one_chain() {
    for _ in 0..20 {
        let mut x = with_mode(Mode::Compiled, || v(&[1.0]) + 1.0);
        let mut handles = Vec::new();
        for i in 0..400 {
            x = with_mode(Mode::Compiled, || &x + 1.0);
            if i % 50 == 0 {
                handles.push(x.clone());
            }
        }
        handles.push(x);
        std::thread::scope(|scope| {
            for handle in handles {
                scope.spawn(move || drop(handle));
            }
        });
    }
}
