//! `ferrotrace doctor`.

use ferrotrace::prelude::*;
use std::time::Instant;

/// Bytes that are copied to measure how fast memory is: more than any cache holds.
const COPIED: usize = 1 << 28;

/// Says what is found and measured.
pub fn doctor() -> Result<()> {
    let cpu = Device::cpu();
    say!("{}", cpu.report());
    say!("memory: {:.1} GB/s copied", bandwidth(&cpu)?);
    match Device::cuda(0) {
        Ok(device) => {
            say!("\n{}", device.report());
            say!("memory: {:.1} GB/s copied", bandwidth(&device)?);
        }
        Err(error) => say!("\nno CUDA device: {}", error.kind()),
    }
    say!("");
    for advice in advice(&cpu) {
        say!("faster: {advice}");
    }
    Ok(())
}

/// Bytes read and written a nanosecond.
fn bandwidth(device: &Device) -> Result<f64> {
    let x = Tensor::ones(COPIED / 4, DType::F32, device);
    x.eval()?;
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        let y = &x + 1.0;
        device.synchronize()?;
        let start = Instant::now();
        y.eval()?;
        device.synchronize()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(2.0 * COPIED as f64 / best / 1e9)
}

/// What the surroundings lack.
fn advice(cpu: &Device) -> Vec<String> {
    let mut all = Vec::new();
    let x = Tensor::ones(4, DType::F32, cpu);
    let before = ferrotrace::stats().fallbacks;
    if (&x * 3.0).exp().eval().is_err() || ferrotrace::stats().fallbacks > before {
        all.push("install a C compiler (gcc 9 or clang 12, or later): kernels are not compiled without one".to_owned());
    }
    if std::env::var("FERROTRACE_CACHE").is_ok_and(|value| value == "0") {
        all.push("unset FERROTRACE_CACHE: kernels are compiled anew by every process".to_owned());
    }
    if std::env::var("FERROTRACE_MODE").is_ok_and(|value| value == "eager") {
        all.push("unset FERROTRACE_MODE: operations run one by one".to_owned());
    }
    if std::env::var_os("FERROTRACE_VERIFY").is_some()
        || std::env::var_os("FERROTRACE_CHECK").is_some()
    {
        all.push(
            "unset FERROTRACE_VERIFY and FERROTRACE_CHECK: every pass and replay is checked"
                .to_owned(),
        );
    }
    if cfg!(debug_assertions) {
        all.push("build with --release: this program checks itself while it runs".to_owned());
    }
    all
}
