//! What was measured and chosen: as values, as the table of an explanation (scheduler Q-09), and as the note in which it is
//! remembered.

use super::Choice;
use std::fmt;
use std::time::Duration;

/// What became of a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The times of the launches in which it differs: those of the plan as it would be by itself, and its own.
    Timed {
        /// As planned.
        planned: Vec<Duration>,
        /// With the changes.
        changed: Vec<Duration>,
    },
    /// It was not to be had, and why (scheduler ).
    Refused(String),
}

/// A candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it does otherwise.
    pub choice: Choice,
    /// What became of it.
    pub outcome: Outcome,
}

/// What was measured for a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// What the plan does otherwise than it would by itself.
    pub choice: Choice,
    /// The time of all launches as planned, and with what was chosen.
    pub times: [Duration; 2],
    /// How long measuring took; none where an earlier process, or plan, did it.
    pub took: Option<Duration>,
    /// The candidates.
    pub rows: Vec<Row>,
}

impl Outcome {
    /// Times as planned and with the changes, each in all.
    pub fn totals(&self) -> Option<[Duration; 2]> {
        match self {
            Outcome::Timed { planned, changed } => {
                Some([planned, changed].map(|times| times.iter().sum()))
            }
            Outcome::Refused(_) => None,
        }
    }
}

/// Microseconds.
struct Micros(Duration);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} µs", self.0.as_secs_f64() * 1e6)
    }
}

/// Each of some times, and their sum.
fn sum(times: &[Duration]) -> String {
    let each: Vec<String> = times.iter().map(|time| Micros(*time).to_string()).collect();
    match &each[..] {
        [] => Micros(Duration::ZERO).to_string(),
        [one] => one.clone(),
        all => format!("{} = {}", all.join(" + "), Micros(times.iter().sum())),
    }
}

/// A line for the choice, and one for each candidate: the latencies of the launches that differ, and their ratio.
impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [planned, chosen] = self.times.map(Micros);
        match self.took {
            Some(took) => write!(f, "measured in {:.1} ms", took.as_secs_f64() * 1e3)?,
            None => f.write_str("measured before")?,
        }
        match self.choice.changes() {
            [] => writeln!(f, ": as planned, {planned}")?,
            _ => writeln!(f, ": {}, {chosen}; as planned {planned}", self.choice)?,
        }
        for Row { choice, outcome } in &self.rows {
            match outcome {
                Outcome::Refused(why) => writeln!(f, "  {choice}: refused: {why}")?,
                Outcome::Timed { planned, changed } => {
                    let total = |times: &[Duration]| times.iter().sum::<Duration>().as_secs_f64();
                    let ratio = total(planned) / total(changed).max(1e-12);
                    let (planned, changed) = (sum(planned), sum(changed));
                    writeln!(
                        f,
                        "  {choice}: {changed}; as planned {planned}; {ratio:.2} times as fast"
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// The first line of a note, which says how to read it.
const FORM: &str = "measured 1";

fn nanoseconds(times: &[Duration]) -> String {
    let each: Vec<String> = times.iter().map(|t| t.as_nanos().to_string()).collect();
    each.join(",")
}

fn durations(text: &str) -> Option<Vec<Duration>> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    parts
        .map(|n| n.parse().ok().map(Duration::from_nanos))
        .collect()
}

impl Measured {
    /// The note: without what was refused, which is refused for this process's reasons.
    pub(crate) fn to_note(&self) -> String {
        let mut text = format!("{FORM}\n{}\n{}\n", self.choice, nanoseconds(&self.times));
        for Row { choice, outcome } in &self.rows {
            if let Outcome::Timed { planned, changed } = outcome {
                text += &format!(
                    "{}|{}|{choice}\n",
                    nanoseconds(planned),
                    nanoseconds(changed)
                );
            }
        }
        text
    }

    /// What a note says; `None` for one of another form.
    pub(crate) fn of_note(text: &str) -> Option<Measured> {
        let mut lines = text.lines();
        if lines.next()? != FORM {
            return None;
        }
        let choice = lines.next()?.parse().ok()?;
        let times = durations(lines.next()?)?.try_into().ok()?;
        let row = |line: &str| {
            let (planned, rest) = line.split_once('|')?;
            let (changed, choice) = rest.split_once('|')?;
            let outcome = Outcome::Timed {
                planned: durations(planned)?,
                changed: durations(changed)?,
            };
            let choice = choice.parse().ok()?;
            Some(Row { choice, outcome })
        };
        Some(Measured {
            choice,
            times,
            took: None,
            rows: lines.map(row).collect::<Option<_>>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured() -> Measured {
        let micros = |n: &[u64]| n.iter().copied().map(Duration::from_micros).collect();
        let choice = |text: &str| text.parse().expect("a choice");
        let rows = vec![
            Row {
                choice: choice("apart %1 | %2 %3"),
                outcome: Outcome::Timed {
                    planned: micros(&[30]),
                    changed: micros(&[7, 8]),
                },
            },
            Row {
                choice: choice("stored %4; alone"),
                outcome: Outcome::Refused("it spills 8 B a thread".into()),
            },
        ];
        Measured {
            choice: choice("apart %1 | %2 %3"),
            times: [Duration::from_micros(40), Duration::from_micros(25)],
            took: Some(Duration::from_millis(3)),
            rows,
        }
    }

    // scheduler Q-09
    #[test]
    fn the_table_shows_three_latencies_and_their_ratio() {
        let text = measured().to_string();
        for part in [
            "measured in 3.0 ms: apart %1 | %2 %3, 25.0 µs; as planned 40.0 µs",
            "7.0 µs + 8.0 µs = 15.0 µs; as planned 30.0 µs; 2.00 times as fast",
            "stored %4; alone: refused: it spills 8 B a thread",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn notes_are_read_as_they_are_written() {
        let all = measured();
        let read = Measured::of_note(&all.to_note()).expect("a note");
        assert_eq!(
            (&read.choice, read.times, read.took),
            (&all.choice, all.times, None)
        );
        assert_eq!(read.rows, all.rows[..1]);
        let none = Measured::default();
        assert_eq!(Measured::of_note(&none.to_note()), Some(none));
        for text in [
            "",
            "measured 0\n\n1,2\n",
            "measured 1\nfaster\n1,2\n",
            "measured 1\n\n1\n",
        ] {
            assert_eq!(Measured::of_note(text), None, "{text}");
        }
    }
}
