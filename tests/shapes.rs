//! Distinct shapes without end: caches are bounded, and few kernels serve all shapes.
//!
//! `FERROTRACE_SHAPES` changes how many shapes are run.

use ferrotrace::prelude::*;

/// Shapes after which caches are full and memory is what it stays: more than the cache of plans keeps.
const WARM: usize = 4_608;
/// How far memory may grow afterwards. Resident memory moves by a few MiB with what the C library's allocator keeps; a
/// leak of 200 bytes a shape passes this bound in a run of a hundred thousand, one of 4 KiB in a run of six thousand.
const GROWTH: usize = 16 << 20;

fn count() -> usize {
    let asked = std::env::var("FERROTRACE_SHAPES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(6_000)
}

/// Resident bytes of this process.
#[cfg(target_os = "linux")]
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system tells");
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .expect("it says so");
    let kib = line
        .split_whitespace()
        .nth(1)
        .and_then(|n| n.parse::<usize>().ok());
    kib.expect("a number of KiB") << 10
}

/// Where resident memory cannot be read, the library's own counters are checked alone.
#[cfg(not(target_os = "linux"))]
fn resident() -> usize {
    0
}

/// The shape of this number: no two are equal, none is large, no size is 0 or 1.
fn shape(n: usize) -> [usize; 2] {
    // Pairs in the order of Cantor's diagonals.
    let diagonal = ((8.0 * n as f64 + 1.0).sqrt() as usize).saturating_sub(1) / 2;
    let diagonal = (diagonal.saturating_sub(1)..)
        .find(|d| (d + 1) * (d + 2) / 2 > n)
        .expect("one is");
    let row = n - diagonal * (diagonal + 1) / 2;
    [2 + row, 2 + diagonal - row]
}

#[test]
fn shapes_are_distinct() {
    let shapes: std::collections::HashSet<_> = (0..100_000).map(shape).collect();
    assert_eq!(shapes.len(), 100_000);
    assert!(
        shapes
            .iter()
            .flatten()
            .all(|&size| (2..=450).contains(&size))
    );
}

/// Runs `step` on many shapes: memory and the kernels made.
fn flat(name: &str, step: impl Fn(&Tensor) -> Tensor) {
    let run = |numbers: std::ops::Range<usize>| {
        for n in numbers {
            let [rows, columns] = shape(n);
            let x = Tensor::full([rows, columns], 2.0, DType::F32, &Device::cpu());
            // Each row of 2 gives 2 / (2 columns) and 2 + 1.
            let y = step(&x);
            let values = y.to_vec::<f32>().expect("it runs");
            let want = 3.0 / columns as f32;
            assert_eq!(values.len(), rows);
            assert!(
                values.iter().all(|v| (v - want).abs() <= 1e-5 * want),
                "{name} of {rows}x{columns}: {values:?}"
            );
        }
    };
    // The largest shapes first, so that what is kept for reuse is kept from the start.
    let total = count().max(2 * WARM);
    run(total - WARM..total);
    let (before, memory) = (stats(), resident());
    run(0..total - WARM);
    let (after, grown) = (stats(), resident().saturating_sub(memory));
    let compiled = after.kernels_compiled - before.kernels_compiled;
    println!(
        "{name}: {total} shapes, {compiled} kernels after the first {WARM}, {} KiB more",
        grown >> 10
    );
    assert_eq!(after.live_bytes, before.live_bytes);
    assert!(compiled <= 24, "{name}: {compiled} kernels");
    assert!(grown <= GROWTH, "{name}: {} KiB more", grown >> 10);
}

/// Lazy code, compiled functions that hold for any size, and one that is traced for each: one test, since resident
/// memory is the whole process's.
#[test]
fn memory_is_flat_over_shapes() {
    flat("lazy", |x| {
        ((x * 0.5).exp().log() * 2.0 + 1.0).softmax(-1).sum(-1) * 3.0 / x.dims()[1] as f64
    });
    let generic = jit(|x: &Tensor| (x + 1.0) / x.sum_keepdim(-1) * 2.0);
    flat("jit", |x| generic.call(x).min(-1));
    let sized = jit(|x: &Tensor| (x + 1.0).sum(-1) / (x.dims()[1] * x.dims()[1]) as f64);
    flat("jit that asks for sizes", |x| sized.call(x));
    flat("eager", |x| {
        with_mode(Mode::Eager, || (x + 1.0).mean(-1) / x.dims()[1] as f64)
    });
}
