//! The protocol by which `peers/run.py` drives a contender as a child process: lines in, lines out.
//!
//! `open NAME` → `ok VALUE` (the mean magnitude of the first output) or `none REASON`; `run N` → nanoseconds of `N`
//! runs of what is open, after one untimed eighth of them; `close` → `closed`; `quit`.

use std::io::{BufRead, Write};
use std::time::Instant;

/// A workload: each call computes it once.
pub type Run = Box<dyn FnMut() -> Result<(), String>>;

/// Answers the requests on standard input until it ends. `open` gives a workload and the mean magnitude of its first
/// output.
pub fn serve(mut open: impl FnMut(&str) -> Result<(f64, Run), String>) -> std::io::Result<()> {
    let mut current: Option<Run> = None;
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (verb, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let answer = match verb {
            "open" => match open(rest) {
                Ok((value, run)) => {
                    current = Some(run);
                    format!("ok {value:e}")
                }
                Err(reason) => format!("none {}", reason.replace('\n', " ")),
            },
            "run" => match (&mut current, rest.parse()) {
                (Some(run), Ok(n)) => timed(run, n),
                _ => "none nothing is open".into(),
            },
            "close" => {
                current = None;
                "closed".into()
            }
            "quit" => return Ok(()),
            _ => "none unknown request".into(),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}

fn timed(run: &mut Run, n: u64) -> String {
    let mut result = (0..n / 8 + 1).try_for_each(|_| run());
    let start = Instant::now();
    if result.is_ok() {
        result = (0..n).try_for_each(|_| run());
    }
    let elapsed = start.elapsed().as_nanos();
    match result {
        Ok(()) => elapsed.to_string(),
        Err(error) => format!("none {}", error.replace('\n', " ")),
    }
}
