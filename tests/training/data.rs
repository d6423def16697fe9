//! Batches and measures.

use ferrotrace::data::*;
use ferrotrace::metrics::*;
use ferrotrace::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn rows(n: usize) -> Tensors {
    let x = Tensor::arange(0, n, 1, DType::I64, &Device::cpu());
    Tensors::new([x.unsqueeze(1), &x * 10])
}

fn taken(epoch: Epoch<'_, Tensors>) -> Vec<Vec<i64>> {
    epoch
        .map(|batch| {
            let first: Vec<i64> = batch[0].to_vec().unwrap();
            let tens: Vec<i64> = batch[1].to_vec().unwrap();
            assert!(first.iter().zip(&tens).all(|(a, b)| a * 10 == *b));
            first
        })
        .collect()
}

#[test]
fn batches_in_order() {
    let mut loader = Loader::new(rows(7), 3);
    assert_eq!(
        taken(loader.epoch()),
        [vec![0, 1, 2], vec![3, 4, 5], vec![6]]
    );
    let mut loader = Loader::new(rows(7), 3).drop_last();
    assert_eq!((loader.batches(), taken(loader.epoch()).len()), (2, 2));
    assert_eq!(taken(Loader::new(rows(0), 3).epoch()).len(), 0);
    assert_eq!(loader.epoch().len(), 2);
}

#[test]
fn epochs_are_shuffled_alike_on_every_run() {
    let of = |ahead| {
        let mut loader = Loader::new(rows(20), 6).shuffle(3).prefetch(ahead);
        let epochs: Vec<Vec<Vec<i64>>> = (0..3).map(|_| taken(loader.epoch())).collect();
        epochs
    };
    let epochs = of(0);
    for epoch in &epochs {
        let mut all: Vec<i64> = epoch.concat();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<i64>>());
    }
    assert_ne!(epochs[0], epochs[1]);
    assert_eq!(epochs, of(1));
    assert_eq!(epochs, of(4));
}

#[test]
fn a_position_continues_an_epoch() {
    for ahead in [0, 3] {
        let new = || Loader::new(rows(20), 3).shuffle(9).prefetch(ahead);
        let mut whole = new();
        let want: Vec<Vec<i64>> = (0..2).flat_map(|_| taken(whole.epoch())).collect();
        for cut in 0..=14 {
            let mut loader = new();
            let mut got = Vec::new();
            while got.len() < cut {
                let left = cut - got.len();
                let epoch = loader.epoch();
                got.extend(epoch.take(left).map(|b| b[0].to_vec::<i64>().unwrap()));
            }
            let mut resumed = new();
            resumed.restore(loader.position());
            while got.len() < want.len() {
                got.extend(taken(resumed.epoch()));
            }
            assert_eq!(got, want, "{ahead} {cut}");
        }
    }
}

#[test]
fn a_thread_makes_batches_ahead_and_ends_with_its_epoch() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let sample = move |i| {
        count.fetch_add(1, Ordering::SeqCst);
        i
    };
    let mut loader = Loader::new(Samples::new(100, sample, |batch: Vec<usize>| batch), 10);
    loader = loader.prefetch(2);
    assert_eq!(loader.epoch().next(), Some((0..10).collect()));
    // Dropping an epoch joins its thread: at most three batches were made beside the one taken.
    let so_far = made.load(Ordering::SeqCst);
    assert!((10..=40).contains(&so_far), "{so_far}");
    assert_eq!(loader.position().batch, 1);
    assert_eq!(loader.epoch().map(|batch| batch.len()).sum::<usize>(), 90);
}

#[test]
fn a_panic_of_a_dataset_reaches_the_caller() {
    let sample = |i: usize| {
        assert!(i < 5, "a bad sample");
        i
    };
    let mut loader =
        Loader::new(Samples::new(10, sample, |batch: Vec<usize>| batch), 2).prefetch(1);
    let all = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| loader.epoch().count()));
    assert!(all.is_err());
    assert_eq!(loader.position().batch, 2);
}

/// The system may refuse a thread: batches are then made on the caller's. A stack of 64 TiB is refused everywhere.
#[test]
fn batches_without_a_thread() {
    const ALONE: &str = "FERROTRACE_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let run = std::process::Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "data::batches_without_a_thread"])
            .args(["--test-threads", "1"])
            .env("RUST_MIN_STACK", (1u64 << 46).to_string())
            .env(ALONE, "1")
            .output()
            .expect("the program runs");
        let text = [run.stdout, run.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        assert!(run.status.success() && text.contains("1 passed"), "{text}");
        return;
    }
    let refused = std::thread::Builder::new().spawn(|| ()).is_err();
    assert!(refused, "a thread was started");
    let mut loader = Loader::new(rows(7), 3).prefetch(2);
    let here = taken(Loader::new(rows(7), 3).epoch());
    assert_eq!(taken(loader.epoch()), here);
}

/// Capacities and positions that no program means: neither takes memory for what there is not, or panics.
#[test]
fn prefetching_without_bounds() {
    let mut loader = Loader::new(rows(7), 3).prefetch(usize::MAX);
    assert_eq!(
        taken(loader.epoch()),
        taken(Loader::new(rows(7), 3).epoch())
    );
    let mut none = Loader::new(rows(2), 3).drop_last().prefetch(usize::MAX);
    assert_eq!(taken(none.epoch()), Vec::<Vec<i64>>::new());
    let (seed, epoch, batch) = (Some(3), u64::MAX, u64::MAX);
    loader.restore(Position { seed, epoch, batch });
    assert_eq!(taken(loader.epoch()).len(), 3);
}

#[test]
fn measures() {
    let device = Device::cpu();
    let scores = Tensor::from_slice(
        &[0.9f32, 0.1, 0.5, 0.2, 0.8, 0.1, 0.3, 0.4, 0.6],
        [3, 3],
        &device,
    );
    let classes = Tensor::from_slice(&[0i64, 2, 2], 3, &device);
    let item = |t: Tensor| t.item::<f64>().unwrap();
    assert_eq!(item(accuracy(&scores, &classes)), 2.0 / 3.0);
    assert_eq!(item(top_k(&scores, &classes, 1)), 2.0 / 3.0);
    assert_eq!(item(top_k(&scores, &classes, 2)), 2.0 / 3.0);
    assert_eq!(item(top_k(&scores, &classes, 3)), 1.0);
    let of = |v: &[f64]| Tensor::from_slice(v, v.len(), &device);
    assert_eq!(
        item(mean_absolute_error(&of(&[1.0, 4.0]), &of(&[2.0, 2.0]))),
        1.5
    );
    assert_eq!(
        item(mean_squared_error(&of(&[1.0, 4.0]), &of(&[2.0, 2.0]))),
        2.5
    );
    assert!((item(perplexity(&of(&[1.0, 3.0]))) - 2f64.exp()).abs() < 1e-12);
}

/// Values of scikit-learn's `precision_recall_fscore_support` with `zero_division=0`, by hand.
#[test]
fn a_matrix_of_confusions() {
    let device = Device::cpu();
    let of = |v: &[i64]| Tensor::from_slice(v, v.len(), &device);
    let mut confusion = ConfusionMatrix::new(3, &device);
    confusion.add(&of(&[0, 1, 1, 0]), &of(&[0, 1, 0, 0]));
    confusion.add(&of(&[1, 0]), &of(&[1, 1]));
    assert_eq!(
        confusion.counts.to_vec::<i64>().unwrap(),
        [2, 1, 0, 1, 2, 0, 0, 0, 0]
    );
    let near = |t: Tensor, want: [f64; 3]| {
        let got = t.to_vec::<f64>().unwrap();
        assert!(
            got.iter().zip(want).all(|(a, b)| (a - b).abs() < 1e-12),
            "{got:?}"
        );
    };
    let part = 2.0 / 3.0;
    near(confusion.precision(), [part, part, 0.0]);
    near(confusion.recall(), [part, part, 0.0]);
    near(confusion.f1(), [part, part, 0.0]);
    assert!((confusion.accuracy().item::<f64>().unwrap() - part).abs() < 1e-12);
    confusion.add(&of(&[3]), &of(&[0]));
    assert!(confusion.counts.to_vec::<i64>().is_err());
}
