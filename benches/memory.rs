//! What is allocated and compiled: peaks in both modes, steady states, changing numbers and sizes.
//!
//! ```text
//! cargo bench --bench memory [names]
//! ```

mod measure;
mod workload;

use ferrotrace::prelude::*;
use ferrotrace::stats_scope;
use measure::table::{Table, mebibytes, verdict};
use measure::{Options, Outcome};

fn main() -> Outcome {
    let options = Options::from_args();
    peaks(&options)?;
    steady_states(&options)?;
    changing(&options)
}

fn peaks(options: &Options) -> Outcome {
    let heads = [
        "workload",
        "compiled, peak",
        "eager, peak",
        "kernels",
        "calls",
        "compiled ≤ eager",
    ];
    let mut table = Table::new("Peak of live bytes in one call", &heads);
    for name in workload::NAMES.iter().filter(|name| options.wants(name)) {
        let (compiled, eager) = (
            workload::counted(Mode::Compiled, name)?,
            workload::counted(Mode::Eager, name)?,
        );
        table.row([
            (*name).to_owned(),
            mebibytes(compiled.peak_bytes),
            mebibytes(eager.peak_bytes),
            compiled.kernels_launched.to_string(),
            compiled.library_calls.to_string(),
            verdict(compiled.peak_bytes <= eager.peak_bytes),
        ]);
    }
    table.print();
    Ok(())
}

/// A thousand updates `x = x * 2 + 1`: what the allocator took from the system in the second half.
fn steady_states(options: &Options) -> Outcome {
    if !options.wants("steady") {
        return Ok(());
    }
    let heads = [
        "loop",
        "buffers taken",
        "of them reused",
        "written in place",
        "peak",
        "nothing new",
    ];
    let mut table = Table::new("A thousand updates, the last 500 of them counted", &heads);
    for (name, through_jit) in [("x = x * 2 + 1", false), ("x = step(x)", true)] {
        let device = Device::cpu();
        let mut x = Tensor::ones([256, 1024], DType::F32, &device);
        let step = jit(|x: Tensor| x * 2.0 + 1.0);
        let mut advance = |times: usize| -> Result<()> {
            for _ in 0..times {
                let old = std::mem::replace(&mut x, Tensor::zeros((), DType::F32, &device));
                x = if through_jit {
                    step.call(old)
                } else {
                    old * 2.0 + 1.0
                };
                x.eval()?;
            }
            Ok(())
        };
        advance(500)?;
        let (result, stats) = stats_scope(|| advance(500));
        result?;
        let bytes = 4 * 256 * 1024;
        let taken = stats.bytes_allocated / bytes;
        table.row([
            name.to_owned(),
            taken.to_string(),
            stats.buffers_reused.to_string(),
            stats.in_place_writes.to_string(),
            mebibytes(stats.peak_bytes),
            verdict(taken <= stats.buffers_reused && stats.peak_bytes <= bytes),
        ]);
    }
    table.print();
    Ok(())
}

/// Loops in which a number, a counter or a size changes: at most two kernels of each kind.
fn changing(options: &Options) -> Outcome {
    if !options.wants("changing") {
        return Ok(());
    }
    let heads = [
        "loop of 20",
        "kernels compiled",
        "plans built",
        "traces",
        "≤ 2",
    ];
    let mut table = Table::new("Changing numbers and sizes", &heads);
    let device = Device::cpu();
    let x = Tensor::ones([64, 32], DType::F32, &device);
    x.eval()?;
    let of_rows = |rows: usize| Tensor::ones([rows, 32], DType::F32, &device);
    let scaled = jit(|(x, rate): (&Tensor, f64)| (x * rate).tanh());
    let counted = jit(|(x, n): (&Tensor, i64)| (x + n).cos());
    let softmax = jit(|x: &Tensor| (x * 3.0).softmax(-1));
    type Step<'a> = Box<dyn Fn(usize) -> Result<()> + 'a>;
    let loops: [(&str, Step<'_>); 7] = [
        (
            "x * number",
            Box::new(|i| (&x * (0.1 + i as f64)).sin().eval()),
        ),
        (
            "x + counter",
            Box::new(|i| ((&x + i as i64).exp() - 1.0).eval()),
        ),
        (
            "narrow(0, counter, 8)",
            Box::new(|i| x.narrow(0, i as isize, 8).sqrt().eval()),
        ),
        (
            "batch of rows",
            Box::new(|i| (of_rows(8 + i).log() * 2.0).softmax(-1).eval()),
        ),
        (
            "jit, number argument",
            Box::new(|i| scaled.call((&x, 0.1 + i as f64)).eval()),
        ),
        (
            "jit, counter argument",
            Box::new(|i| counted.call((&x, i as i64)).eval()),
        ),
        (
            "jit, batch of rows",
            Box::new(|i| softmax.call(&of_rows(8 + i)).eval()),
        ),
    ];
    for (name, step) in loops {
        // Programs of one kernel, and one that makes the batch.
        let made = if name.contains("batch") { 2 } else { 1 };
        of_rows(3).eval()?;
        let (result, stats) = stats_scope(|| (0..20).try_for_each(step));
        result?;
        let built = stats.kernels_compiled + stats.disk_cache_hits;
        table.row([
            name.to_owned(),
            built.to_string(),
            stats.plans_built.to_string(),
            stats.traces.to_string(),
            verdict(built <= 2 * made),
        ]);
    }
    table.print();
    Ok(())
}
