//! What steps cost: memory, plans and work do not grow with their number.

use super::{cpu, of, scalar};
use ferrotrace::prelude::*;
use ferrotrace::{Stats, grad, jit, map, scan, stats_scope, while_loop};

const N: usize = 10_000;

fn large(value: f32) -> Tensor {
    Tensor::from_slice(&vec![value; N], N, &cpu())
}

fn counter() -> Tensor {
    Tensor::scalar(0i64, DType::I64, &cpu())
}

/// `steps` steps over a state of 40,000 bytes.
fn stepped(steps: i64) -> Stats {
    let start = (counter(), large(1.0));
    let run = || {
        let next = |(n, x): &(Tensor, Tensor)| (n + 1, (x * 0.5 + 1.0).sqrt());
        let (n, x) = while_loop(|(n, _)| n.lt(steps), next, &start);
        assert_eq!(n.item::<i64>().ok(), Some(steps));
        assert!((x.to_vec::<f32>().expect("numbers")[7] - 1.2807764).abs() < 1e-5);
    };
    run();
    stats_scope(run).1
}

#[test]
fn a_loop_of_many_steps_is_flat() {
    let (few, many) = (stepped(50), stepped(1050));
    assert_eq!(few.plans_built, 0);
    assert_eq!(many.plans_built, 0);
    assert_eq!(few.peak_bytes, many.peak_bytes);
    // A state, the next one, and what is given back.
    assert!(many.peak_bytes < 4 * 40_000, "{} bytes", many.peak_bytes);
    // The condition, the counter and the state.
    assert_eq!(many.kernels_launched - few.kernels_launched, 3000);
}

#[test]
fn carried_values_are_updated_in_place() {
    let cache = Tensor::zeros([256, 100], DType::F32, &cpu());
    let run = || {
        let write = |(n, cache): &(Tensor, Tensor)| {
            let row = Tensor::ones([1, 100], DType::F32, &cpu());
            let at = n.reshape([1]);
            (n + 1, cache.index_put(&[Some(&at)], &row, false))
        };
        let (_, cache) = while_loop(|(n, _)| n.lt(200), write, &(counter(), cache.clone()));
        assert_eq!(cache.sum(..).item::<f32>().ok(), Some(20_000.0));
    };
    run();
    let stats = stats_scope(run).1;
    assert!(
        stats.in_place_writes >= 199,
        "{} writes in place",
        stats.in_place_writes
    );
    assert!(stats.peak_bytes < 4 * 102_400, "{} bytes", stats.peak_bytes);
}

#[test]
fn rows_of_results_are_written_where_they_stay() {
    let xs = Tensor::ones([1000, 100], DType::F32, &cpu());
    assert!(xs.eval().is_ok());
    let run = || {
        let (last, rows) = scan(|c, x| (c + x, c * x), &xs.select(0, 0), &xs);
        let sum = rows.sum(..).item::<f32>().expect("a number");
        assert!((sum - 50_050_000.0).abs() < 50.0, "{sum}");
        assert_eq!(last.to_vec::<f32>().expect("numbers")[3], 1001.0);
    };
    run();
    let stats = stats_scope(run).1;
    assert_eq!(stats.plans_built, 0);
    // The rows are 400,000 bytes.
    assert!(stats.peak_bytes < 420_000, "{} bytes", stats.peak_bytes);
}

#[test]
fn a_body_of_another_number_is_no_other_plan() {
    let run = |factor: f64| {
        let xs = of(&[1.0, 2.0]);
        map(|x: &Tensor| x * factor + 1.0, &xs).to_vec::<f64>()
    };
    assert_eq!(run(2.0).ok(), Some(vec![3.0, 5.0]));
    let (found, stats) = stats_scope(|| run(3.0));
    assert_eq!(found.ok(), Some(vec![4.0, 7.0]));
    assert_eq!(stats.plans_built, 0);
}

#[test]
fn a_gradient_is_two_programs() {
    let step = |x: &Tensor| {
        let w = scalar(0.9).requires_grad();
        let y = scan(|c, x| ((c * &w + x).tanh(), ()), &scalar(0.0), x).0;
        grad(&y, &[&w]).remove(0)
    };
    let compiled = jit(step);
    let xs = |n: usize| Tensor::ones(n, DType::F64, &cpu());
    assert!(compiled.call(&xs(100)).item::<f64>().is_ok());
    let (_, stats) = stats_scope(|| compiled.call(&xs(100)).item::<f64>());
    assert_eq!((stats.plans_built, stats.traces), (0, 0));
    // Without `jit` the same plans are found too.
    assert!(step(&xs(100)).item::<f64>().is_ok());
    let (_, stats) = stats_scope(|| step(&xs(100)).item::<f64>());
    assert_eq!(stats.plans_built, 0);
}

#[test]
fn memory_of_a_gradient_is_the_carried_values() {
    let run = |steps: usize| {
        let start = large(0.5).requires_grad();
        let xs = Tensor::zeros(steps, DType::F32, &cpu());
        let step = |c: &Tensor, x: &Tensor| ((c.sin().cos() * 2.0).sin().exp() * 0.1 + x, ());
        let y = scan(step, &start, &xs).0;
        assert!(grad(&y.sum(..), &[&start]).remove(0).eval().is_ok());
    };
    run(20);
    let peak = |steps| {
        run(steps);
        stats_scope(|| run(steps)).1.peak_bytes
    };
    let each = (peak(60) - peak(20)) / 40;
    assert!(each < 41_000, "{each} bytes a step");
}
