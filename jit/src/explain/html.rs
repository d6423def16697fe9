//! The explanation as one page that needs nothing else: a drawing of the graph, and panels that a click opens.

use super::Explanation;
use super::drawing::{colour, elements, escape, places};
use std::fmt::Write as _;

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

pub(super) fn page(explanation: &Explanation) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>ferrotrace</title><style>{STYLE}</style></head>\n<body><header><h1>{}</h1><div>{}</div>",
        explanation.counts(),
        explanation.moved()
    );
    if !explanation.key.is_empty() {
        let _ = write!(page, "<div>{}</div>", escape(&explanation.key));
    }
    page.push_str("</header>\n<main><div id=\"graph\">");
    let places = places(explanation);
    let _ = write!(
        page,
        "<svg width=\"{}\" height=\"{}\">",
        places.width, places.height
    );
    elements(explanation, &places, &mut page);
    page.push_str("</svg></div>\n<div id=\"side\">");
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

fn table(explanation: &Explanation, page: &mut String) {
    page.push_str("<h2>Steps</h2><table><tr><th></th><th>computes</th><th>cost</th></tr>");
    for (i, step) in explanation.steps.iter().enumerate() {
        let what = explanation.kind(step);
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
