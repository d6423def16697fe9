//! Programs outside of `jit` beside eager mode.

use super::table::Table;
use super::{Options, Outcome, interleaved, median, ratio, time, whole};
use ferrotrace::prelude::*;

/// A table with a row for each wanted program: its name, what makes its inputs, and the program.
///
/// # Errors
/// Inputs that cannot be computed.
pub fn beside_eager<'a, I: FnOnce() -> Vec<Tensor>>(
    title: &str,
    cases: impl Iterator<Item = (&'a str, I, fn(&[Tensor]) -> Tensor)>,
) -> Outcome {
    let options = Options::from_args();
    let heads = ["program", "lazy", "eager", "lazy / eager"];
    let mut table = Table::new(title, &heads);
    for (name, inputs, program) in cases.filter(|case| options.wants(case.0)) {
        let inputs = inputs();
        eval(&inputs)?;
        let run = || eval([&program(&inputs)]).expect("a result");
        let mut contenders = [whole(run), whole(|| with_mode(Mode::Eager, run))];
        let times = interleaved(&mut contenders, &options);
        let of = |i: usize| time(median(&times[i]));
        let slower = ratio(&times[0], &times[1]).to_string();
        table.row([name.to_owned(), of(0), of(1), slower]);
    }
    table.print();
    Ok(())
}
