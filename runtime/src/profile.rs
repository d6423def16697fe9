//! What ran and when: spans of flushes, compilations, kernels and calls, noted while somebody profiles.

use crate::{Device, cuda, host};
use parking_lot::Mutex;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// What a span of time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Activity {
    /// A flush: all of it, what it compiles and runs included.
    Flush,
    /// Passes from a trace to a plan, without the compiler.
    Planning,
    /// Kernels found in the caches, or compiled.
    Compiling,
    /// A generated kernel.
    Kernel,
    /// A ready-made kernel.
    Call,
}

impl Activity {
    fn name(self) -> &'static str {
        match self {
            Activity::Flush => "flush",
            Activity::Planning => "plan",
            Activity::Compiling => "compile",
            Activity::Kernel => "kernel",
            Activity::Call => "call",
        }
    }
}

/// A span of time.
#[derive(Clone, Debug)]
pub struct Span {
    /// What the time was spent on.
    pub activity: Activity,
    /// The operators that a kernel computes; the operator of a call.
    pub name: String,
    /// The calling thread, numbered in the order in which threads were first met.
    pub thread: u64,
    /// When it began, since the profile did.
    pub start: Duration,
    /// How long it took.
    pub time: Duration,
    /// Bytes that it must at least read and write; 0 where that is not known.
    pub bytes: u64,
    /// The lines of the program that recorded the operations of a kernel or call, separated by commas. A plan that
    /// several places of a program share keeps the lines of the first. Empty where none is known (codegen B12.3:
    /// kernels name the user's lines).
    pub lines: String,
    /// Where it took its time.
    pub device: Device,
}

/// What is known of a span: its name, bytes and lines.
#[derive(Clone, Debug, Default)]
pub struct Label {
    /// See [`Span::name`].
    pub name: String,
    /// See [`Span::bytes`].
    pub bytes: u64,
    /// See [`Span::lines`].
    pub lines: String,
}

impl From<(String, u64)> for Label {
    fn from((name, bytes): (String, u64)) -> Label {
        Label {
            name,
            bytes,
            ..Label::default()
        }
    }
}

struct Recorder {
    open: usize,
    spans: Vec<(Instant, Span)>,
}

static ON: AtomicBool = AtomicBool::new(false);
static RECORDER: Mutex<Recorder> = Mutex::new(Recorder {
    open: 0,
    spans: Vec::new(),
});

static THREADS: AtomicU64 = AtomicU64::new(0);
thread_local! {
    static THREAD: u64 = THREADS.fetch_add(1, Relaxed);
}

/// Whether anybody profiles.
#[inline]
pub fn is_profiling() -> bool {
    ON.load(Relaxed)
}

/// The beginning of a span; nothing is noted unless somebody profiled then.
#[derive(Debug)]
#[must_use]
pub struct Timer(Option<Instant>, Option<cuda::Stopwatch>);

impl Timer {
    /// Begins a span.
    #[inline]
    pub fn start() -> Timer {
        Timer(is_profiling().then(Instant::now), None)
    }

    /// Begins a span of what is launched on a device from now on: it ends when that is done, and takes the time that it
    /// took there.
    #[inline]
    pub fn start_on(device: &Device) -> Timer {
        let mut timer = Timer::start();
        if timer.0.is_some()
            && let Some(index) = device.cuda_index()
        {
            timer.1 = cuda::context(index).ok().and_then(cuda::Stopwatch::start);
        }
        timer
    }

    /// Ends the span; `what` gives its label, or a name and bytes. Returns how long it took.
    #[inline]
    pub fn stop<L: Into<Label>>(
        self,
        activity: Activity,
        what: impl FnOnce() -> L,
    ) -> Option<Duration> {
        let start = self.0?;
        // A device that does not answer has an error for whoever asks next.
        let device = self
            .1
            .as_ref()
            .map_or(Device::cpu(), cuda::Stopwatch::device);
        let on_device = self.1.and_then(cuda::Stopwatch::stop);
        let time = on_device.unwrap_or_else(|| start.elapsed());
        let Label { name, bytes, lines } = what().into();
        let span = Span {
            activity,
            name,
            thread: THREAD.with(|thread| *thread),
            start: Duration::ZERO,
            time,
            bytes,
            lines,
            device,
        };
        RECORDER.lock().spans.push((start, span));
        Some(time)
    }
}

/// An open profile; closed also when the function unwinds.
struct Scope {
    since: Instant,
}

impl Scope {
    fn open() -> Scope {
        RECORDER.lock().open += 1;
        ON.store(true, Relaxed);
        Scope {
            since: Instant::now(),
        }
    }

    fn spans(&self) -> Vec<Span> {
        let recorder = RECORDER.lock();
        let mine = recorder.spans.iter().filter(|(at, _)| *at >= self.since);
        let mut spans: Vec<Span> = mine
            .map(|(at, span)| Span {
                start: *at - self.since,
                ..span.clone()
            })
            .collect();
        // A flush ends, and is noted, after the kernels in it: by their beginnings it comes first.
        spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.time)));
        spans
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        let mut recorder = RECORDER.lock();
        recorder.open -= 1;
        if recorder.open == 0 {
            ON.store(false, Relaxed);
            recorder.spans = Vec::new();
        }
    }
}

/// Runs `f` and notes what every thread of the process flushes, compiles and runs meanwhile.
///
/// ```
/// use ferrotrace_runtime::profile;
/// let (sum, profile) = profile(|| 1 + 1);
/// assert_eq!((sum, profile.spans().len()), (2, 0));
/// ```
pub fn profile<R>(f: impl FnOnce() -> R) -> (R, Profile) {
    let scope = Scope::open();
    let result = f();
    let profile = Profile {
        time: scope.since.elapsed(),
        spans: scope.spans(),
    };
    (result, profile)
}

/// What ran and when. `Display` gives a table with a row for each kernel and call: those of one name that differ in their
/// lines of the program or in what they must move have rows of their own.
#[derive(Clone, Debug)]
pub struct Profile {
    time: Duration,
    spans: Vec<Span>,
}

/// What the spans of a row have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Kind<'a> {
    activity: Activity,
    name: &'a str,
    lines: &'a str,
    /// Bytes of each.
    bytes: u64,
    device: &'a Device,
}

/// Times of the spans of a row.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    runs: u64,
    time: Duration,
}

impl Profile {
    /// The spans, by their beginning; one that holds others comes before them.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How long the profiled function took.
    pub fn time(&self) -> Duration {
        self.time
    }

    /// The run as Chrome's trace events (JSON), for `chrome://tracing` and Perfetto.
    pub fn to_trace(&self) -> String {
        let mut text = String::from("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        for (i, span) in self.spans.iter().enumerate() {
            let comma = if i > 0 { "," } else { "" };
            let micros = |time: Duration| time.as_nanos() as f64 / 1e3;
            let _ = write!(
                text,
                "{comma}\n{{\"ph\":\"X\",\"pid\":1,\"tid\":{},\"ts\":{:.3},\"dur\":{:.3},\"cat\":\"{}\",\"name\":{},\"args\":{{\"bytes\":{},\"lines\":{}}}}}",
                span.thread,
                micros(span.start),
                micros(span.time),
                span.activity.name(),
                quoted(&span.name),
                span.bytes,
                quoted(&span.lines)
            );
        }
        text.push_str("\n]}\n");
        text
    }

    fn rows(&self) -> Vec<(Kind<'_>, Row)> {
        let mut rows: HashMap<Kind<'_>, Row> = HashMap::new();
        for span in &self.spans {
            let kind = Kind {
                activity: span.activity,
                name: &span.name,
                lines: &span.lines,
                bytes: span.bytes,
                device: &span.device,
            };
            let row = rows.entry(kind).or_default();
            row.runs += 1;
            row.time += span.time;
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|(kind, row)| {
            let Kind {
                activity,
                name,
                lines,
                bytes,
                ..
            } = *kind;
            (Reverse(row.time), activity, name, lines, bytes)
        });
        rows
    }
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bandwidth = host::bandwidth() as f64;
        let mut others: HashMap<&Device, f64> = HashMap::new();
        writeln!(
            f,
            "{:>10} {:>6} {:>10} {:>9} {:>8}  what",
            "ms", "runs", "µs a run", "GB/s", "of copy"
        )?;
        for (kind, row) in self.rows() {
            let device = kind.device;
            let bandwidth = match device.is_cpu() {
                true => bandwidth,
                false => *others
                    .entry(device)
                    .or_insert_with(|| device.bandwidth().map_or(f64::INFINITY, |b| b as f64)),
            };
            let seconds = row.time.as_secs_f64();
            write!(
                f,
                "{:>10.3} {:>6} {:>10.1}",
                1e3 * seconds,
                row.runs,
                1e6 * seconds / row.runs as f64
            )?;
            match kind.bytes * row.runs {
                0 => write!(f, " {:>9} {:>8}", "–", "–")?,
                bytes => {
                    let speed = bytes as f64 / seconds;
                    write!(
                        f,
                        " {:>9.1} {:>6.0} %",
                        speed / 1e9,
                        100.0 * speed / bandwidth
                    )?;
                }
            }
            write!(f, "  {} {}", kind.activity.name(), kind.name)?;
            match kind.lines.split_once(", ") {
                Some((first, _)) => writeln!(f, " at {first} ..")?,
                None if kind.lines.is_empty() => writeln!(f)?,
                None => writeln!(f, " at {}", kind.lines)?,
            }
        }
        for (device, bandwidth) in others {
            writeln!(
                f,
                "{:>10} a copy on {device} moves {:.0} GB/s",
                "",
                bandwidth / 1e9
            )?;
        }
        writeln!(
            f,
            "{:>10.3} in all; a copy in memory moves {:.1} GB/s",
            1e3 * self.time.as_secs_f64(),
            bandwidth / 1e9
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &str, bytes: u64) {
        let timer = Timer::start();
        timer.stop(Activity::Kernel, || (name.to_owned(), bytes));
    }

    #[test]
    fn spans_are_noted_while_somebody_profiles() {
        note("before", 1);
        let ((), outer) = profile(|| {
            note("a \"quoted\" name", 8);
            let ((), inner) = profile(|| note("inner", 16));
            let of_mine = |span: &&Span| span.name == "inner" && span.bytes == 16;
            assert_eq!(inner.spans().iter().filter(of_mine).count(), 1);
            assert!(inner.spans().iter().all(|span| span.bytes != 8));
        });
        let names: Vec<&str> = outer.spans().iter().map(|span| &span.name[..]).collect();
        assert!(names.contains(&"inner") && !names.contains(&"before"));
        let trace = outer.to_trace();
        assert!(trace.contains(r#""name":"a \"quoted\" name","args":{"bytes":8,"lines":""}"#));
        let table = outer.to_string();
        assert!(
            table.contains("kernel inner") && table.contains("GB/s"),
            "{table}"
        );
    }

    #[test]
    fn launches_that_differ_have_rows_of_their_own() {
        let note = |bytes: u64, lines: &str| {
            Timer::start().stop(Activity::Call, || Label {
                name: "of its own row".into(),
                bytes,
                lines: lines.into(),
            });
        };
        let ((), profile) = profile(|| {
            for (bytes, lines) in [
                (8, "a.rs:1"),
                (8, "a.rs:1"),
                (8, "a.rs:1, b.rs:2"),
                (16, ""),
            ] {
                note(bytes, lines);
            }
        });
        let table = profile.to_string();
        let rows: Vec<&str> = table
            .lines()
            .filter(|l| l.contains("of its own row"))
            .collect();
        assert_eq!(rows.len(), 3, "{table}");
        let ends = |end: &str| rows.iter().filter(|row| row.ends_with(end)).count();
        assert_eq!(
            [ends("row at a.rs:1"), ends("row at a.rs:1 .."), ends("row")],
            [1, 1, 1],
            "{table}"
        );
    }

    #[test]
    fn a_profile_ends_when_its_function_unwinds() {
        let unwound = std::panic::catch_unwind(|| profile(|| panic!("unwinds")));
        assert!(unwound.is_err());
        let ((), profile) = profile(|| note("after", 4));
        assert!(profile.spans().iter().any(|span| span.name == "after"));
    }
}
