//! Single operations in eager mode beside ndarray doing the same: none may take more than twice its time.
//!
//! ```text
//! cargo bench --bench eager [-- --rounds N] [-- --smoke] [names]
//! ```
//!
//! `peers/run.py --only operations` compares the same operations with candle.

mod measure;
mod rival;
mod workload;

use ferrotrace::prelude::*;
use measure::table::{Table, verdict};
use measure::{Options, Outcome, interleaved, median, ratio, time, whole};

fn main() -> Outcome {
    let options = Options::from_args();
    let heads = [
        "operation",
        "ours, eager",
        "ndarray",
        "ours / ndarray",
        "≤ 2",
        "values",
    ];
    let mut table = Table::new("Operations in eager mode, and ndarray", &heads);
    for name in workload::names::NAMES
        .iter()
        .filter(|name| options.wants(name))
    {
        let Some(rival) = rival::open(name) else {
            continue;
        };
        let mut ours = workload::operators::open(name).ok_or("there is no such operation")?;
        let output = with_mode(Mode::Eager, &mut ours);
        let (value, expected) = (workload::magnitude(&output)?, rival.value);
        drop(output);
        let same = value == expected || (value - expected).abs() <= 1e-4 * expected.abs().max(1e-6);
        let mut run = whole(|| drop(ours()));
        let eager = Box::new(move |n| with_mode(Mode::Eager, || run(n)));
        let samples = interleaved(&mut [eager, whole(rival.run)], &options);
        let ratio = ratio(&samples[0], &samples[1]);
        table.row([
            (*name).to_owned(),
            time(median(&samples[0])),
            time(median(&samples[1])),
            ratio.to_string(),
            verdict(ratio.median <= 2.0),
            if same {
                "equal".into()
            } else {
                format!("**{value} and {expected}**")
            },
        ]);
    }
    table.print();
    Ok(())
}
