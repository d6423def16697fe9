//! Kernels from source to launch.

use super::toolchain::Toolchain;
use super::*;
use crate::store::Store;
use crate::{
    Binding, Buffer, CCompiler, Device, ErrorKind, Fault, Grid, Isa, Launch, Pool, Stats, launch,
    stats_scope, with_threads,
};
use std::sync::Barrier;
use tempfile::TempDir;

/// `y[i] = twice(x[i]) + c`, 1000 elements a chunk.
fn scale(constant: u32) -> KernelSource {
    let body = format!(
        "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {{\n\
         const float *x = a->ptr[0]; float *y = a->ptr[1];\n\
         for (long long c = begin; c < end; c++)\n\
         for (long long i = c * 1000; i < c * 1000 + 1000 && i < a->param[0]; i++)\n\
         y[i] = twice(x[i]) + {constant}.0f; }}\n"
    );
    let text = "static float twice(float x) { return 2.0f * x; }";
    KernelSource {
        parts: vec![Part {
            order: 1,
            text: text.into(),
        }],
        body: body.into(),
        finish: false,
        name: "".into(),
    }
}

/// Sums of chunks of 100 in scratch, then their sum in order, scaled by a scalar.
fn sum() -> KernelSource {
    let body = "
void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {
  const double *x = a->ptr[0]; double *partial = (double *)a->scratch;
  for (long long c = begin; c < end; c++) {
    double *s = (double *)local; *s = 0;
    for (long long i = c * 100; i < c * 100 + 100 && i < a->param[0]; i++) *s += x[i];
    partial[c] = *s;
  }
}
void FT_SYMBOL_finish(const ft_args *a, char *local) {
  double s = 0, k; __builtin_memcpy(&k, a->scalar, 8);
  for (long long c = 0; c < a->param[1]; c++) s += ((double *)a->scratch)[c];
  *(double *)a->ptr[1] = s * k;
}
";
    KernelSource {
        parts: Vec::new(),
        body: body.into(),
        finish: true,
        name: "".into(),
    }
}

fn broken() -> KernelSource {
    KernelSource {
        parts: Vec::new(),
        body: "void FT_SYMBOL(missing_type x) {}\n".into(),
        finish: false,
        name: "".into(),
    }
}

/// A store of the test's own.
fn folder() -> (TempDir, &'static Store) {
    let dir = tempfile::tempdir().expect("a folder");
    let store = Store::at(dir.path(), 1 << 30).expect("usable");
    (dir, Box::leak(Box::new(store)))
}

fn bind(buffer: &Buffer) -> Binding<'_> {
    Binding {
        buffer,
        offset: 0,
        span: buffer.bytes(),
    }
}

fn of(kernel: &Kernel) -> Launch<'_> {
    Launch {
        kernel,
        buffers: &[],
        params: &[],
        scalars: &[],
        chunks: 1,
        scratch: 0,
        local: 0,
        grid: Grid::default(),
    }
}

fn run_scale(kernel: &Kernel, n: usize) -> Vec<f32> {
    let device = Device::cpu();
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let x = Buffer::from_vec(&device, x).expect("memory");
    let y = Buffer::allocate(&device, n * 4).expect("memory");
    let (buffers, params) = ([bind(&x), bind(&y)], [n as i64]);
    let chunks = n.div_ceil(1000);
    let run = Launch {
        buffers: &buffers,
        params: &params,
        chunks,
        ..of(kernel)
    };
    assert!(launch(&run).expect("runs").is_empty());
    y.as_slice().to_vec()
}

fn check_scale(kernel: &Kernel, constant: u32) {
    for n in [0, 1, 999, 1001, 12_345] {
        let y = run_scale(kernel, n);
        let right = |(i, y): (usize, &f32)| *y == 2.0 * i as f32 + constant as f32;
        assert!(y.len() == n && y.iter().enumerate().all(right));
    }
}

fn counts(s: &Stats) -> (u64, u64, u64) {
    (s.kernels_compiled, s.kernel_cache_hits, s.disk_cache_hits)
}

fn no_compiler() -> bool {
    CCompiler::get().is_err()
}

#[test]
fn compiled_then_in_memory_then_on_disk() {
    if no_compiler() {
        return;
    }
    let (dir, store) = folder();
    let kernels = Kernels::new(Some(store));
    let sources = [scale(1), sum(), scale(2), scale(1)];
    let get = |kernels: &Kernels| {
        let (made, s) = stats_scope(|| kernels.get(&Toolchain::Host, &sources, 2));
        let made: Vec<_> = made.into_iter().map(|k| k.expect("compiles")).collect();
        check_scale(&made[0], 1);
        check_scale(&made[2], 2);
        assert!(Arc::ptr_eq(&made[0], &made[3]));
        assert!(made[0].source().contains("static float twice"));
        counts(&s)
    };
    assert_eq!(get(&kernels), (3, 1, 0));
    assert_eq!(get(&kernels), (0, 4, 0));
    kernels.clear();
    assert_eq!(get(&kernels), (0, 1, 3));
    // Another process: another memory, the same folder.
    let other = Box::leak(Box::new(Store::at(dir.path(), 1 << 30).expect("usable")));
    assert_eq!(get(&Kernels::new(Some(other))), (0, 1, 3));
    assert_eq!(get(&Kernels::new(None)), (3, 1, 0));
}

#[test]
fn damaged_artifacts_are_compiled_again() {
    if no_compiler() {
        return;
    }
    let (dir, store) = folder();
    let kernels = Kernels::new(Some(store));
    check_scale(
        kernels.get(&Toolchain::Host, &[scale(3)], 1)[0]
            .as_ref()
            .expect("compiles"),
        3,
    );
    for entry in std::fs::read_dir(dir.path().join("kernels-1"))
        .expect("a folder")
        .flatten()
    {
        if entry.path().is_file() && !entry.path().is_symlink() {
            let mut bytes = std::fs::read(entry.path()).expect("an artifact");
            let middle = bytes.len() / 2;
            bytes[middle] ^= 0xff;
            std::fs::write(entry.path(), bytes).expect("written");
        }
    }
    kernels.clear();
    let (made, s) = stats_scope(|| kernels.get(&Toolchain::Host, &[scale(3)], 1));
    check_scale(made[0].as_ref().expect("compiles"), 3);
    assert_eq!(counts(&s), (1, 0, 0));
}

#[test]
fn only_the_bad_kernel_fails() {
    if no_compiler() {
        return;
    }
    let kernels = Kernels::new(None);
    let (made, s) =
        stats_scope(|| kernels.get(&Toolchain::Host, &[scale(4), broken(), scale(5), sum()], 1));
    check_scale(made[0].as_ref().expect("compiles"), 4);
    check_scale(made[2].as_ref().expect("compiles"), 5);
    assert!(made[3].is_ok());
    let error = made[1].as_ref().expect_err("is broken");
    assert!(matches!(error.kind(), ErrorKind::Compile { log, .. } if log.contains("missing_type")));
    assert_eq!(s.kernels_compiled, 3);
    let body = "void ft_nowhere(void);\n\
                void FT_SYMBOL(const ft_args *a, long long b, long long e, char *l) { ft_nowhere(); }";
    let unresolved = KernelSource {
        parts: Vec::new(),
        body: body.into(),
        finish: false,
        name: "".into(),
    };
    let made = kernels.get(&Toolchain::Host, &[unresolved, scale(8)], 1);
    let error = made[0].as_ref().expect_err("is unresolved");
    assert!(
        matches!(error.kind(), ErrorKind::Load(text) if text.contains("ft_nowhere")),
        "{error}"
    );
    check_scale(made[1].as_ref().expect("compiles"), 8);
}

#[test]
fn sixteen_threads_compile_one_key_once() {
    if no_compiler() {
        return;
    }
    let (_dir, store) = folder();
    let kernels = Kernels::new(Some(store));
    let start = Barrier::new(16);
    let made: Vec<(Arc<Kernel>, Stats)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let (mut made, s) =
                        stats_scope(|| kernels.get(&Toolchain::Host, &[scale(6)], 1));
                    (made.remove(0).expect("compiles"), s)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no panic"))
            .collect()
    });
    assert!(
        made.iter()
            .all(|(kernel, _)| Arc::ptr_eq(kernel, &made[0].0))
    );
    assert_eq!(made.iter().map(|(_, s)| s.kernels_compiled).sum::<u64>(), 1);
    assert_eq!(
        made.iter().map(|(_, s)| s.kernel_cache_hits).sum::<u64>(),
        15
    );
}

#[test]
fn reductions_combine_through_scratch_whatever_the_threads() {
    if no_compiler() {
        return;
    }
    let made = Kernels::new(None).get(&Toolchain::Host, &[sum()], 1);
    let kernel = made[0].as_ref().expect("compiles");
    let device = Device::cpu();
    let n = 12_345;
    let x: Vec<f64> = (0..n).map(|i| (i as f64).sqrt()).collect();
    let ordered: f64 = x
        .chunks(100)
        .map(|c| c.iter().fold(0.0, |s, v| s + v))
        .fold(0.0, |s, v| s + v);
    let x = Buffer::from_vec(&device, x).expect("memory");
    let chunks = usize::div_ceil(n, 100);
    for threads in [1, 2, 3, 7] {
        let y = Buffer::zeroed(&device, 8).expect("memory");
        let (buffers, params) = ([bind(&x), bind(&y)], [n as i64, chunks as i64]);
        let scalars = [0.5f64.to_bits()];
        let run = Launch {
            buffers: &buffers,
            params: &params,
            scalars: &scalars,
            chunks,
            scratch: chunks * 8,
            local: 8,
            ..of(kernel)
        };
        let (result, s) = stats_scope(|| with_threads(threads, || launch(&run)));
        assert!(result.expect("runs").is_empty());
        assert_eq!(y.as_slice::<f64>(), [ordered * 0.5], "{threads} threads");
        assert_eq!((s.kernels_launched, s.bytes_allocated), (1, 0));
    }
}

#[test]
fn faults_and_bad_bindings() {
    if no_compiler() {
        return;
    }
    let body = "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {\n\
                for (long long c = begin; c < end; c++) if (c == a->param[0]) {\n\
                __atomic_store_n(&a->fault[7], c, __ATOMIC_RELAXED);\n\
                __atomic_store_n(&a->fault[6], 3, __ATOMIC_RELAXED); } }";
    let source = KernelSource {
        parts: Vec::new(),
        body: body.into(),
        finish: false,
        name: "".into(),
    };
    let made = Kernels::new(None).get(&Toolchain::Host, &[source], 1);
    let kernel = made[0].as_ref().expect("compiles");
    let run = Launch {
        params: &[17],
        chunks: 40,
        ..of(kernel)
    };
    assert_eq!(
        launch(&run).expect("runs")[..],
        [Fault { site: 3, index: 17 }]
    );
    let other = Launch {
        params: &[40],
        ..run
    };
    assert!(launch(&other).expect("runs").is_empty());
    let (nothing, s) = stats_scope(|| launch(&Launch { chunks: 0, ..run }));
    assert!(nothing.expect("nothing runs").is_empty() && s.kernels_launched == 0);
    let buffer = Buffer::zeroed(&Device::cpu(), 64).expect("memory");
    for (offset, span, fits) in [
        (0, 64, true),
        (64, 0, true),
        (60, 5, false),
        (1, usize::MAX, false),
    ] {
        let buffers = [Binding {
            buffer: &buffer,
            offset,
            span,
        }];
        let result = launch(&Launch {
            buffers: &buffers,
            ..run
        });
        assert_eq!(result.is_ok(), fits, "{offset} {span}");
    }
    let absurd = launch(&Launch {
        scratch: usize::MAX - 5,
        ..run
    })
    .expect_err("no such memory");
    assert!(matches!(absurd.kind(), ErrorKind::OutOfMemory { .. }));
}

#[test]
fn launches_from_many_threads() {
    if no_compiler() {
        return;
    }
    let made = Kernels::new(None).get(&Toolchain::Host, &[scale(7)], 1);
    let kernel = made[0].as_ref().expect("compiles");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..20).for_each(|_| check_scale(kernel, 7)));
        }
    });
    assert!(Pool::global().threads() >= 1);
}

/// A pack's kernels are found by text and target, before those on disk; what it lacks is refused or compiled.
#[test]
fn packs_serve_without_asking_for_a_compiler() {
    if no_compiler() {
        return;
    }
    let here = Architecture::host();
    let (known, other) = ([scale(41), sum(), scale(41)], scale(42));
    let files = compile_pack(here, &known).expect("compiles");
    let pack = Pack::new(here, files.clone()).expect("whole");
    assert_eq!((pack.len(), pack.architecture()), (2, here));
    let kernels = Kernels::new(None);
    let get = |sources: &[KernelSource]| kernels.get(&Toolchain::Host, sources, 1);
    let (made, stats) = stats_scope(|| pack.with(Missing::Refuse, || get(&known)));
    check_scale(made[0].as_ref().expect("packed"), 41);
    assert!(made.iter().all(Result::is_ok));
    assert_eq!(counts(&stats), (0, 1, 2));
    let refused = pack.with(Missing::Refuse, || {
        assert_eq!(planned_for(), Some(here));
        get(&[other.clone(), scale(41)])
    });
    let error = refused[0].as_ref().expect_err("not packed");
    assert!(matches!(error.kind(), ErrorKind::NoKernel(_)), "{error}");
    assert!(refused[1].is_ok() && planned_for().is_none());
    let compiled = pack.with(Missing::Compile, || get(std::slice::from_ref(&other)));
    check_scale(compiled[0].as_ref().expect("compiled"), 42);
    // Outside of the scope the same source has another key.
    let outside = get(&known[..1]);
    let outside = outside[0].as_ref().expect("compiled");
    assert_ne!(outside.key(), made[0].as_ref().expect("packed").key());
    for at in [0, files[0].len() / 2, files[0].len() - 1] {
        let mut damaged = files.clone();
        damaged[0][at] ^= 1;
        assert!(Pack::new(here, damaged).is_err());
    }
    let cut = files[0][..files[0].len() - 1].to_vec();
    assert!(Pack::new(here, vec![cut]).is_err());
    // Another architecture's kernels are not found here.
    let far = Pack::new(Architecture::Cuda(90), files).expect("whole");
    let refused = far.with(Missing::Refuse, || get(&known[..1]));
    assert!(refused[0].is_err());
}

#[test]
fn architectures_have_names_and_an_order() {
    for architecture in Architecture::ALL {
        let name = architecture.name();
        assert_eq!(Architecture::of_name(&name), Some(architecture));
    }
    assert_eq!(Architecture::of_name("pdp-11"), None);
    assert!(Architecture::host().runs_here() && !Architecture::Cuda(90).runs_here());
    assert!(Architecture::Cuda(90).runs_on(90) && !Architecture::Cuda(80).runs_on(90));
    assert!(Architecture::Ptx(80).runs_on(100) && !Architecture::Ptx(80).runs_on(75));
    #[cfg(target_arch = "x86_64")]
    assert!(Architecture::Cpu(Isa::Sse2).runs_here() && !Architecture::Cpu(Isa::Neon).runs_here());
}

/// Whether the upper halves of this thread's vector registers hold anything, if the processor tells.
#[cfg(target_arch = "x86_64")]
fn upper_halves_are_used() -> Option<bool> {
    let tells = std::arch::x86_64::__cpuid_count(0xd, 1).eax & 4 != 0;
    if !tells || !std::arch::is_x86_feature_detected!("avx") {
        return None;
    }
    let used: u32;
    // SAFETY: the processor has the instruction, which reads which parts of the registers are not in their first state.
    unsafe {
        std::arch::asm!("xgetbv", in("ecx") 1, out("eax") used, out("edx") _, options(nomem, nostack));
    }
    Some(used & 4 != 0)
}

/// Else all code behind that writes the lower halves alone waits for what the upper ones hold.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_kernel_leaves_no_upper_halves() {
    if upper_halves_are_used().is_none() || no_compiler() {
        return;
    }
    let body = "
void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {
  typedef float wide __attribute__((vector_size(32), aligned(4)));
  for (long long c = begin; c < end; c++) *(wide *)a->ptr[1] = *(wide *)a->ptr[0] + 1.0f;
}
void FT_SYMBOL_finish(const ft_args *a, char *local) {
  typedef float wide __attribute__((vector_size(32), aligned(4)));
  *(wide *)a->ptr[1] = *(wide *)a->ptr[1] * 2.0f;
}
";
    let source = KernelSource {
        parts: Vec::new(),
        body: body.into(),
        finish: true,
        name: "".into(),
    };
    let made = Kernels::new(None).get(&Toolchain::Host, &[source], 1);
    let kernel = made[0].as_ref().expect("compiles");
    let device = Device::cpu();
    let [x, y] = [1.0f32, 0.0].map(|v| Buffer::from_vec(&device, vec![v; 8]).expect("memory"));
    let buffers = [bind(&x), bind(&y)];
    let run = Launch {
        buffers: &buffers,
        ..of(kernel)
    };
    launch(&run).expect("runs");
    assert_eq!(upper_halves_are_used(), Some(false));
    assert_eq!(y.as_slice::<f32>(), [4.0; 8]);
}
