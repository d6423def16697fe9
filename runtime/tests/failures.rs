//! Injected failures, each seen by its caller as an error and by nobody afterwards. One test, since the injection is
//! of the whole process.

use ferrotrace_runtime::inject::{Site, fail};
use ferrotrace_runtime::{
    Buffer, CCompiler, Device, ErrorKind, Grid, KernelSource, Launch, compile_kernels, launch,
};

fn source(n: usize) -> KernelSource {
    let body = format!(
        "void FT_SYMBOL(const ft_args *a, long long begin, long long end, char *local) {{ int x{n}; }}"
    );
    KernelSource {
        parts: Vec::new(),
        body: body.into(),
        finish: false,
        name: "".into(),
    }
}

#[test]
fn failures_are_errors_and_pass() {
    let dir = tempfile::tempdir().expect("a folder");
    // SAFETY: this is the only test of the process, and no other thread runs yet.
    unsafe { std::env::set_var("FERROTRACE_CACHE_DIR", dir.path()) };

    fail(Site::Allocate, 2);
    let device = Device::cpu();
    assert!(Buffer::allocate(&device, 100).is_ok());
    let error = Buffer::allocate(&device, 100).expect_err("injected");
    assert!(matches!(
        error.kind(),
        ErrorKind::OutOfMemory { bytes: 100, .. }
    ));
    assert!(Buffer::allocate(&device, 100).is_ok());

    if CCompiler::get().is_err() {
        return;
    }
    fail(Site::Compile, 1);
    let error = compile_kernels(&[source(0)])
        .remove(0)
        .expect_err("injected");
    assert!(matches!(error.kind(), ErrorKind::Compile { .. }), "{error}");
    let kernel = compile_kernels(&[source(0)])
        .remove(0)
        .expect("compiles now");

    // A file of several kernels that fails is tried kernel by kernel.
    fail(Site::Compile, 1);
    let sources: Vec<_> = (1..6).map(source).collect();
    assert!(compile_kernels(&sources).iter().all(Result::is_ok));

    fail(Site::Load, 1);
    let error = compile_kernels(&[source(6)])
        .remove(0)
        .expect_err("injected");
    assert!(matches!(error.kind(), ErrorKind::Load(_)), "{error}");
    assert!(compile_kernels(&[source(6)])[0].is_ok());

    let run = Launch {
        kernel: &kernel,
        buffers: &[],
        params: &[],
        scalars: &[],
        chunks: 1,
        scratch: 0,
        local: 0,
        grid: Grid::default(),
    };
    fail(Site::Launch, 1);
    assert!(launch(&run).is_err());
    assert!(launch(&run).is_ok());
}
