//! What goes wrong on a CUDA device gives an error, and the process works on. Where there is no device, every test says
//! so and passes. What is of the whole process happens in children.

#[path = "../common/mod.rs"]
mod common;

use common::device;
use ferrotrace::prelude::*;
use ferrotrace::{ErrorKind, stats_scope};
use ferrotrace_runtime::inject::{Site, fail};
use ferrotrace_runtime::{Grid, KernelSource, Launch, compile_kernels_on, launch};
use std::process::Command;

const CHILD: &str = "FERROTRACE_TEST_CHILD";

/// Whether this process is the child that runs the test of this name; if not, runs one, which must succeed.
fn in_child(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var(CHILD).is_ok_and(|name| name == test) {
        return true;
    }
    let child = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, test)
        .envs(variables.iter().copied())
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{test}: {}\n{said}", child.status);
    false
}

fn host(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().unwrap_or_else(|e| panic!("{e}"))
}

/// A gigabyte, in bytes of its own.
fn gigabyte(d: &Device) -> Result<Tensor> {
    let x = Tensor::full([1 << 30], 3, DType::U8, d);
    x.eval().map(|()| x)
}

#[test]
fn memory_runs_out_and_comes_back() {
    let Some(d) = device() else { return };
    if !in_child("memory_runs_out_and_comes_back", &[]) {
        return;
    }
    let fill = || {
        let mut held = Vec::new();
        loop {
            match gigabyte(&d) {
                Ok(x) => held.push(x),
                Err(error) => {
                    let short = matches!(error.kind(), ErrorKind::OutOfMemory { .. });
                    assert!(short, "{error}");
                    return held;
                }
            }
        }
    };
    let held = fill();
    let n = held.len();
    println!("{n} GiB");
    // What is held has its data, and small work has memory as soon as some comes back.
    let last = held[n - 1].narrow(0, (1 << 30) - 2, 2);
    assert_eq!(last.to_vec::<u8>().expect("data"), [3, 3]);
    drop((held, last));
    let x = Tensor::from_slice(&[1.0f32, 2.0], 2, &d);
    assert_eq!(host(&(&x * 2.0)), [2.0, 4.0]);
    // Blocks kept for other sizes are given back when a request finds no memory.
    let blocks: Vec<Tensor> = (0..60)
        .map(|_| Tensor::full([30 << 20], 1, DType::U8, &d))
        .collect();
    eval(&blocks).expect("memory");
    drop(blocks);
    assert!(fill().len() >= n, "what was kept came back");
    d.trim().expect("works on");
}

#[test]
fn an_allocation_fails_in_a_replay() {
    let Some(d) = device() else { return };
    if !in_child("an_allocation_fails_in_a_replay", &[]) {
        return;
    }
    let f = jit(|x: &Tensor| {
        let mut z = x.clone();
        for _ in 0..3 {
            z = &z - z.mean_keepdim(0);
            z = &z - z.mean_keepdim(1);
        }
        z
    });
    let x = Tensor::from_slice(&[1.0f32, 2.0, 4.0, 9.0, -3.0, 0.5], [2, 3], &d);
    let want = host(&f.call(&x));
    (0..4).for_each(|_| assert_eq!(host(&f.call(&x)), want));
    for n in 1..20 {
        fail(Site::Allocate, n);
        let result = f.call(&x).eval();
        let left = fail(Site::Allocate, 0);
        match result {
            Ok(()) if left > 0 => {
                assert!(n > 2, "a replay allocates its result and its own memory");
                return assert_eq!(host(&f.call(&x)), want);
            }
            Ok(()) => panic!("allocation {n} failed without an error"),
            Err(error) => {
                let short = matches!(error.kind(), ErrorKind::OutOfMemory { .. });
                assert!(short, "{error}");
                assert_eq!(host(&f.call(&x)), want, "the next replay");
            }
        }
    }
    panic!("a replay allocates without end");
}

/// A program that no other test compiles.
fn program(d: &Device) -> Tensor {
    let x = Tensor::from_slice(&[0.25f32, -1.5, 3.0], 3, d);
    ((&x * 3.25).tanh() - x.sum(0)).abs() * 0.125
}

#[test]
fn a_compiler_that_fails_is_an_error_under_strict() {
    if device().is_none() {
        return;
    }
    let variables = [("FERROTRACE_STRICT", "1"), ("FERROTRACE_CACHE", "0")];
    if !in_child("a_compiler_that_fails_is_an_error_under_strict", &variables) {
        return;
    }
    let Some(d) = device() else { return };
    fail(Site::Compile, 1);
    let error = program(&d).eval().expect_err("the compiler failed");
    assert!(matches!(error.kind(), ErrorKind::Compile { .. }), "{error}");
    assert_eq!(fail(Site::Compile, 0), 0);
    compare(&d);
}

#[test]
fn a_compiler_that_fails_is_replaced_otherwise() {
    if device().is_none() {
        return;
    }
    let variables = [("FERROTRACE_STRICT", "0"), ("FERROTRACE_CACHE", "0")];
    if !in_child("a_compiler_that_fails_is_replaced_otherwise", &variables) {
        return;
    }
    let Some(d) = device() else { return };
    fail(Site::Compile, 1);
    let ((), stats) = stats_scope(|| compare(&d));
    assert_eq!((fail(Site::Compile, 0), stats.fallbacks), (0, 1));
    compare(&d);
}

/// The program's numbers are the CPU's.
fn compare(d: &Device) {
    let want = with_mode(Mode::Eager, || host(&program(&Device::cpu())));
    for (a, b) in host(&program(d)).iter().zip(want) {
        assert!((a - b).abs() < 1e-5, "{a} for {b}");
    }
}

/// A kernel that traps takes the context with it: everything on the device is an error from then on, and the CPU works.
#[test]
fn a_lost_context_is_an_error() {
    if device().is_none() || !in_child("a_lost_context_is_an_error", &[]) {
        return;
    }
    let Some(d) = device() else { return };
    let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &d);
    let f = jit(|x: &Tensor| (x - x.sum(0)).cumsum(0) * x.max(0));
    (0..5).for_each(|_| drop(host(&f.call(&x))));
    let body = "\
struct FT_SYMBOL_args { unsigned long long scratch, fault; };
extern \"C\" __global__ void FT_SYMBOL(const FT_SYMBOL_args a) { asm volatile(\"trap;\"); }
";
    let source = KernelSource {
        parts: Vec::new(),
        body: body.into(),
        finish: false,
        name: "".into(),
    };
    let kernel = compile_kernels_on(&d, &[source])
        .remove(0)
        .expect("compiles");
    let trap = Launch {
        kernel: &kernel,
        buffers: &[],
        params: &[],
        scalars: &[],
        chunks: 1,
        scratch: 0,
        local: 0,
        grid: Grid {
            threads: 32,
            ..Grid::default()
        },
    };
    assert!(launch(&trap).is_ok(), "launches do not wait");
    let lost = |error: Error| {
        assert!(matches!(error.kind(), ErrorKind::Device(_)), "{error}");
        println!("{error}");
    };
    lost(d.synchronize().expect_err("the kernel trapped"));
    lost((&x + 1.0).to_vec::<f32>().expect_err("no context"));
    lost(x.to_vec::<f32>().expect_err("no context"));
    lost(f.call(&x).to_vec::<f32>().expect_err("no context"));
    lost(
        Tensor::zeros([1 << 20], DType::F32, &d)
            .to_vec::<f32>()
            .expect_err("no context"),
    );
    lost(d.trim().expect_err("no context"));
    drop((x, f, kernel));
    let y = Tensor::from_slice(&[1.0f32, 2.0, 3.0], 3, &Device::cpu());
    assert_eq!(host(&((&y + 1.0) * y.sum(0))), [12.0, 18.0, 24.0]);
}
