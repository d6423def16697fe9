//! What is told of a plan that was made: on the channels that are switched on, and in the folder of `FERROTRACE_DUMP`
//! (scheduler V-04, V-08, V-10, codegen B14.6, B14.7).

use super::Plan;
use crate::draft::Draft;
use crate::explain::{self, Explanation};
use ferrotrace_runtime::{Channel, Config, is_logged, log};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

/// The columns of the table of plans.
const COLUMNS: &str = "plan,seconds to plan,seconds to compile,operations,nests and calls,nodes,rounds,kernels,\
    launches,calls,pairs refused,bytes moved,bytes one by one,bytes held at most";

/// One row of the table of plans.
fn row(draft: &Draft, e: &Explanation, times: [Duration; 2]) -> String {
    let rounds = e.rounds();
    let moved = e.traffic().total();
    let numbers = [
        draft.graph.nodes().len() as u64 - draft.graph.inputs().len() as u64,
        rounds.first().copied().unwrap_or(0) as u64,
        rounds.last().copied().unwrap_or(0) as u64,
        rounds.len().saturating_sub(1) as u64,
        e.fused_nodes().len() as u64,
        draft.launches.groups.len() as u64,
        e.calls().len() as u64,
        e.refusals().len() as u64,
        moved,
        moved + e.bytes_saved(),
        e.peak_bytes(),
    ];
    let [plan, compile] = times.map(|time| time.as_secs_f64());
    let mut text = format!("{},{plan:.6},{compile:.6}", draft.number);
    for number in numbers {
        let _ = write!(text, ",{number}");
    }
    text
}

/// Tells of a plan: its explanation and hints, a row of numbers, and both as files where they are asked for.
pub(super) fn report(plan: &Plan, times: [Duration; 2]) {
    let told = [Channel::Plans, Channel::Explain, Channel::Hints];
    let dump = Config::get().dump.as_deref();
    if dump.is_none() && !told.into_iter().any(is_logged) {
        return;
    }
    let explanation = plan.explain();
    log(Channel::Plans, || {
        let row = row(&plan.draft, &explanation, times);
        let pairs = COLUMNS.split(',').zip(row.split(',')).skip(1);
        let pairs: Vec<String> = pairs.map(|(name, n)| format!("{name} {n}")).collect();
        pairs.join(", ")
    });
    log(Channel::Explain, || match is_logged(Channel::Sources) {
        true => format!("\n{explanation}"),
        false => format!("\n{}", explanation.summary()),
    });
    for hint in explanation.hints() {
        log(Channel::Hints, || hint.text(&plan.draft.graph));
    }
    if let Some(folder) = dump
        && let Err(error) = dumped(folder, plan, &explanation, times)
    {
        eprintln!("ferrotrace: {}: {error}", folder.display());
    }
}

/// The explanation and each kernel as a program of its own as files, and a row of the process's table.
fn dumped(
    folder: &Path,
    plan: &Plan,
    e: &Explanation,
    times: [Duration; 2],
) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let (process, number) = (std::process::id(), plan.draft.number);
    std::fs::write(
        folder.join(format!("plan-{process}-{number}.txt")),
        e.to_string(),
    )?;
    for (i, program) in explain::programs(&plan.draft).into_iter().enumerate() {
        std::fs::write(
            folder.join(format!("alone-{process}-{number}-{i}.c")),
            program,
        )?;
    }
    let path = folder.join(format!("plans-{process}.csv"));
    let mut table = std::fs::File::options()
        .create(true)
        .append(true)
        .open(path)?;
    let mut text = row(&plan.draft, e, times) + "\n";
    if table.metadata()?.len() == 0 {
        text.insert_str(0, &format!("{COLUMNS}\n"));
    }
    table.write_all(text.as_bytes())
}
