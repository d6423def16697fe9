//! The explanation as one picture: the graph, and beside it the steps with what they cost, and the kernels' texts.

use super::Explanation;
use super::drawing::{colour, elements, escape, places, shortened};
use std::fmt::Write as _;

/// Pixels: the height of a line, of what stands above the graph, and the width of the list of steps.
const LINE: usize = 17;
const HEAD: usize = 62;
const LIST: usize = 610;
/// Characters of a line of that list.
const FITS: usize = 81;
/// Lines of a kernel's text; the page has all of it.
const LINES: usize = 24;

const STYLE: &str = "
text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#222}
.head{font:600 17px system-ui,'DejaVu Sans',sans-serif}
.plain{font:13px system-ui,'DejaVu Sans',sans-serif}
.part{font:600 14px system-ui,'DejaVu Sans',sans-serif}
.faint{fill:#666}
";

pub(super) fn picture(explanation: &Explanation) -> String {
    let places = places(explanation);
    let left = places.width + 24;
    let mut list = String::new();
    let bottom = steps(explanation, left, &mut list);
    let bottom = refusals(explanation, left, bottom, &mut list);
    let bottom = kernels(explanation, left, bottom, &mut list);
    let (width, height) = (left + LIST, bottom.max(HEAD + places.height) + 10);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n<style>{STYLE}</style>\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fafafa\"/>\n"
    );
    let _ = writeln!(
        out,
        "<text class=\"head\" x=\"14\" y=\"28\">{}</text>\n<text class=\"plain\" x=\"14\" y=\"50\">{}</text>\n<g transform=\"translate(4 {HEAD})\">",
        explanation.counts(),
        explanation.moved()
    );
    elements(explanation, &places, &mut out);
    let _ = writeln!(out, "</g>\n{list}</svg>");
    out
}

/// What each step computes and costs. Gives the first free line.
fn steps(explanation: &Explanation, left: usize, out: &mut String) -> usize {
    let mut y = HEAD + 24;
    let _ = writeln!(
        out,
        "<text class=\"part\" x=\"{left}\" y=\"{y}\">Steps</text>"
    );
    for (i, step) in explanation.steps.iter().enumerate() {
        y += LINE + 8;
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"{}\" width=\"11\" height=\"11\" fill=\"{}\" stroke=\"#777\"/>",
            y - 10,
            colour(Some(&i))
        );
        let text = format!("{i} {}: {}", explanation.kind(step), step.name);
        line(&text, "", left + 18, y, out);
        let cost = explanation.cost(step.traffic, step.operations, step.measured);
        for part in cost.split("; ") {
            y += LINE;
            line(part, " class=\"faint\"", left + 34, y, out);
        }
    }
    y + LINE
}

/// Reasons why pairs are not one kernel. Gives the first free line.
fn refusals(explanation: &Explanation, left: usize, y: usize, out: &mut String) -> usize {
    let reasons = explanation.reasons();
    if reasons.is_empty() {
        return y;
    }
    let mut y = y + LINE;
    let _ = writeln!(
        out,
        "<text class=\"part\" x=\"{left}\" y=\"{y}\">Not fused</text>"
    );
    for (reason, count) in reasons {
        y += LINE;
        line(&format!("{count} × {reason}"), "", left, y, out);
    }
    y + LINE
}

/// Each kernel's lines of the program, and its values. Gives the first free line.
fn kernels(explanation: &Explanation, left: usize, y: usize, out: &mut String) -> usize {
    let mut y = y;
    for (i, step) in explanation.steps.iter().enumerate() {
        let Some(info) = step.kernel.map(|at| &explanation.fused[at]) else {
            continue;
        };
        y += LINE;
        let _ = writeln!(
            out,
            "<rect x=\"{left}\" y=\"{}\" width=\"11\" height=\"11\" fill=\"{}\" stroke=\"#777\"/>\n<text class=\"part\" x=\"{}\" y=\"{y}\">Kernel {i}: rows {:?}, columns {:?}</text>",
            y - 10,
            colour(Some(&i)),
            left + 18,
            info.rows,
            info.cols
        );
        for text in info.origins.lines() {
            y += LINE;
            line(text, " class=\"faint\"", left + 18, y, out);
        }
        for text in info.text.lines().take(LINES) {
            y += LINE;
            let indent = 7 * (text.len() - text.trim_start().len());
            line(text.trim_start(), "", left + 18 + indent, y, out);
        }
        y += LINE;
    }
    y
}

fn line(text: &str, class: &str, x: usize, y: usize, out: &mut String) {
    let text = escape(&shortened(text, FITS));
    let _ = writeln!(out, "<text{class} x=\"{x}\" y=\"{y}\">{text}</text>");
}
