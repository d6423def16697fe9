//! The explanation as one page that needs nothing else: a drawing of the graph, and panels that a click opens.

use super::{Explanation, bytes};
use ferrotrace_kernels::ValueId;
use std::fmt::Write as _;

/// Size of a node's box, and the distance of boxes, in pixels.
const BOX: (usize, usize) = (190, 34);
const STEP: (usize, usize) = (210, 62);

const STYLE: &str = "
body{font:14px system-ui,sans-serif;margin:0;color:#222;background:#fafafa}
header{padding:12px 20px;background:#fff;border-bottom:1px solid #ddd}
h1{font-size:18px;margin:0 0 4px}
h2{font-size:15px;margin:18px 0 6px}
main{display:flex;align-items:flex-start}
#graph{overflow:auto;max-height:calc(100vh - 80px);flex:1 1 50%}
#side{flex:1 1 50%;padding:0 20px 20px;overflow:auto;max-height:calc(100vh - 80px);min-width:0}
table{border-collapse:collapse}
td,th{padding:3px 10px;border-bottom:1px solid #e4e4e4;text-align:left;vertical-align:top}
td.n{text-align:right;white-space:nowrap}
tr[data-step]{cursor:pointer}
.swatch{display:inline-block;width:11px;height:11px;border:1px solid #888}
pre{background:#fff;border:1px solid #ddd;padding:8px;overflow:auto;max-height:50vh;font-size:12px}
svg text{font:12px ui-monospace,monospace}
svg g{cursor:pointer}
svg rect{stroke:#777}
svg g.on rect{stroke:#000;stroke-width:3}
tr.on{background:#eee}
section[hidden]{display:none}
";

const SCRIPT: &str = "
function show(step){
  document.querySelectorAll('section[data-panel]').forEach(function(e){e.hidden=e.dataset.panel!==step});
  document.querySelectorAll('[data-step]').forEach(function(e){
    e.classList.toggle('on',e.dataset.step.split(' ').includes(step))});
}
document.querySelectorAll('[data-step]').forEach(function(e){
  e.addEventListener('click',function(){show(e.dataset.step.split(' ')[0])})});
";

/// The hue of a step's colour, from 0 to 1: neighbours differ by the golden angle.
pub(super) fn hue(step: usize) -> f64 {
    (step as f64 * 0.381_966).fract()
}

fn colour(step: Option<&usize>) -> String {
    match step {
        Some(&step) => format!("hsl({:.0} 70% 86%)", 360.0 * hue(step)),
        None => "#fff".to_owned(),
    }
}

pub(super) fn page(explanation: &Explanation) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>ferrotrace</title><style>{STYLE}</style></head>\n<body><header><h1>{} kernels, {} calls, {} operations</h1>",
        explanation.fused.len(),
        explanation.calls.len(),
        (0..explanation.groups.len())
            .filter(|&node| explanation.is_operation(node))
            .count()
    );
    let _ = write!(
        page,
        "<div>moved {}, saved against one by one {}</div>",
        bytes(explanation.traffic().total()),
        bytes(explanation.bytes_saved())
    );
    if !explanation.key.is_empty() {
        let _ = write!(page, "<div>{}</div>", escape(&explanation.key));
    }
    page.push_str("</header>\n<main><div id=\"graph\">");
    drawing(explanation, &mut page);
    page.push_str("</div>\n<div id=\"side\">");
    table(explanation, &mut page);
    for i in 0..explanation.steps.len() {
        panel(explanation, i, &mut page);
    }
    refusals(explanation, &mut page);
    let _ = write!(
        page,
        "<h2>Graph</h2><pre>{}</pre></div></main>\n<script>{SCRIPT}</script></body></html>\n",
        escape(&explanation.graph.to_string())
    );
    page
}

/// Nodes in layers by their distance from the inputs, edges as curves between them.
fn drawing(explanation: &Explanation, page: &mut String) {
    let count = explanation.groups.len();
    let mut layers = vec![0usize; count];
    let mut widths: Vec<usize> = Vec::new();
    let mut places = vec![(0usize, 0usize); count];
    for node in 0..count {
        let operands = explanation.graph.operands(ValueId(node as u32));
        layers[node] = operands
            .map(|operand| layers[operand.0 as usize] + 1)
            .max()
            .unwrap_or(0);
        let layer = layers[node];
        if widths.len() <= layer {
            widths.resize(layer + 1, 0);
        }
        places[node] = (10 + widths[layer] * STEP.0, 10 + layer * STEP.1);
        widths[layer] += 1;
    }
    let width = 20 + widths.iter().max().unwrap_or(&0) * STEP.0;
    let height = 20 + widths.len() * STEP.1;
    let _ = write!(page, "<svg width=\"{width}\" height=\"{height}\">");
    for node in 0..count {
        for operand in explanation.graph.operands(ValueId(node as u32)) {
            let from = places[operand.0 as usize];
            let (x1, y1) = (from.0 + BOX.0 / 2, from.1 + BOX.1);
            let (x2, y2) = (places[node].0 + BOX.0 / 2, places[node].1);
            let middle = (y1 + y2) / 2;
            let _ = write!(
                page,
                "<path d=\"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}\" fill=\"none\" stroke=\"#aaa\"/>"
            );
        }
    }
    for (node, (x, y)) in places.iter().enumerate() {
        let groups = &explanation.groups[node];
        let steps: Vec<String> = groups.iter().map(usize::to_string).collect();
        let step = match steps.is_empty() {
            true => String::new(),
            false => format!(" data-step=\"{}\"", steps.join(" ")),
        };
        let dashes = if groups.len() > 1 {
            " stroke-dasharray=\"5 3\""
        } else {
            ""
        };
        let _ = write!(
            page,
            "<g{step}><title>%{node} {label}</title><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\"{dashes}/><text x=\"{}\" y=\"{}\">%{node} {}</text></g>",
            BOX.0,
            BOX.1,
            colour(groups.first()),
            x + 8,
            y + 21,
            escape(&shortened(&explanation.label(node))),
            label = escape(&explanation.label(node)),
        );
    }
    page.push_str("</svg>");
}

/// What fits into a box.
fn shortened(label: &str) -> String {
    const FITS: usize = 20;
    if label.chars().count() <= FITS {
        return label.to_owned();
    }
    let kept: String = label.chars().take(FITS - 1).collect();
    format!("{kept}…")
}

fn table(explanation: &Explanation, page: &mut String) {
    page.push_str("<h2>Steps</h2><table><tr><th></th><th>computes</th><th>cost</th></tr>");
    for (i, step) in explanation.steps.iter().enumerate() {
        let what = match (step.kernel, step.combined) {
            (Some(_), Some(launch)) => format!("kernel of combined launch {launch}"),
            (Some(_), None) => "kernel".to_owned(),
            (None, _) => "call".to_owned(),
        };
        let _ = write!(
            page,
            "<tr data-step=\"{i}\"><td class=\"n\">{i} <span class=\"swatch\" style=\"background:{}\"></span></td><td>{what}: {}</td><td>{}</td></tr>",
            colour(Some(&i)),
            escape(&step.name),
            escape(&explanation.cost(step.traffic, step.operations, step.measured))
        );
    }
    page.push_str("</table>\n");
}

fn panel(explanation: &Explanation, i: usize, page: &mut String) {
    let _ = write!(page, "<section data-panel=\"{i}\" hidden>");
    match explanation.steps[i].kernel {
        Some(at) => {
            let info = &explanation.fused[at];
            let _ = write!(
                page,
                "<h2>Kernel {i}: rows {:?}, columns {:?}</h2><pre>{}</pre><pre>{}</pre><h2>Source</h2><pre>{}</pre>",
                info.rows,
                info.cols,
                escape(&info.origins),
                escape(&info.text),
                escape(&explanation.sources[at])
            );
        }
        None => {
            let _ = write!(
                page,
                "<h2>Call {i}: {}</h2><p>A ready-made kernel.</p>",
                escape(&explanation.steps[i].name)
            );
        }
    }
    page.push_str("</section>\n");
}

fn refusals(explanation: &Explanation, page: &mut String) {
    if explanation.refusals.is_empty() {
        return;
    }
    page.push_str("<h2>Not fused</h2><table>");
    for (reason, count) in explanation.reasons() {
        let of_reason = explanation
            .refusals
            .iter()
            .filter(|r| r.2.describe() == reason);
        let pairs: Vec<String> = of_reason
            .take(12)
            .map(|(a, b, _)| format!("%{} %{}", a.0, b.0))
            .collect();
        let more = if count > pairs.len() { ", .." } else { "" };
        let _ = write!(
            page,
            "<tr><td class=\"n\">{count}</td><td>{}</td><td>{}{more}</td></tr>",
            escape(reason),
            pairs.join(", ")
        );
    }
    page.push_str("</table>\n");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
