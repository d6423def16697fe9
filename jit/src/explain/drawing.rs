//! The graph as SVG elements, which the page and the picture share.

use super::Explanation;
use crate::graph::NodeOp;
use ferrotrace_kernels::ValueId;
use std::fmt::Write as _;

/// Size of a node's box, and the distance of boxes, in pixels.
const BOX: (usize, usize) = (212, 34);
const STEP: (usize, usize) = (228, 52);
/// Characters that fit into a box.
const FITS: usize = 23;

/// The upper left corners of the nodes' boxes, in pixels, and the size of what holds them.
pub(super) struct Places {
    corners: Vec<(usize, usize)>,
    pub(super) width: usize,
    pub(super) height: usize,
}

/// Layers from top to bottom, each below those of its operands, and centred. An input stands right above its first
/// reader, not at the top, so that the top layer is not as wide as the graph has inputs.
pub(super) fn places(explanation: &Explanation) -> Places {
    let graph = &explanation.graph;
    let count = explanation.groups.len();
    let mut layers = vec![1usize; count];
    for node in 0..count {
        let operands = graph.operands(ValueId(node as u32));
        let above = operands.map(|operand| layers[operand.0 as usize]).max();
        layers[node] = above.map_or(1, |layer| layer + 1);
    }
    let mut first_reader = vec![usize::MAX; count];
    for (node, &layer) in layers.iter().enumerate() {
        for operand in graph.operands(ValueId(node as u32)) {
            let reader = &mut first_reader[operand.0 as usize];
            *reader = layer.min(*reader);
        }
    }
    for node in 0..count {
        let is_input = matches!(graph.nodes()[node].op, NodeOp::Input(_));
        if is_input && first_reader[node] != usize::MAX {
            layers[node] = first_reader[node] - 1;
        }
    }
    let top = layers.iter().min().copied().unwrap_or(0);
    let mut sizes: Vec<usize> = Vec::new();
    let of_layer: Vec<(usize, usize)> = layers
        .iter()
        .map(|layer| {
            let layer = layer - top;
            if sizes.len() <= layer {
                sizes.resize(layer + 1, 0);
            }
            sizes[layer] += 1;
            (layer, sizes[layer] - 1)
        })
        .collect();
    let widest = sizes.iter().copied().max().unwrap_or(0);
    let corner = |&(layer, at): &(usize, usize)| {
        let left = (widest - sizes[layer]) * STEP.0 / 2;
        (10 + left + at * STEP.0, 10 + layer * STEP.1)
    };
    Places {
        corners: of_layer.iter().map(corner).collect(),
        width: 4 + widest * STEP.0,
        height: 20 + sizes.len() * STEP.1,
    }
}

/// Curves from operands to their readers, then the boxes.
pub(super) fn elements(explanation: &Explanation, places: &Places, out: &mut String) {
    let corners = &places.corners;
    for (node, to) in corners.iter().enumerate() {
        for operand in explanation.graph.operands(ValueId(node as u32)) {
            let from = corners[operand.0 as usize];
            let (x1, y1) = (from.0 + BOX.0 / 2, from.1 + BOX.1);
            let (x2, y2) = (to.0 + BOX.0 / 2, to.1);
            let middle = (y1 + y2) / 2;
            let _ = write!(
                out,
                "<path d=\"M{x1} {y1}C{x1} {middle} {x2} {middle} {x2} {y2}\" fill=\"none\" stroke=\"#aaa\"/>"
            );
        }
    }
    for (node, (x, y)) in corners.iter().enumerate() {
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
            out,
            "<g{step}><title>%{node} {label}</title><rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\" rx=\"4\" fill=\"{}\" stroke=\"#777\"{dashes}/><text x=\"{}\" y=\"{}\">%{node} {}</text></g>",
            BOX.0,
            BOX.1,
            colour(groups.first()),
            x + 8,
            y + 21,
            escape(&shortened(&explanation.label(node), FITS)),
            label = escape(&explanation.label(node)),
        );
    }
}

/// The hue of a step's colour, from 0 to 1: neighbours differ by the golden angle.
pub(super) fn hue(step: usize) -> f64 {
    (step as f64 * 0.381_966).fract()
}

/// The colour of a step, or of no step: a pale one, as `#rrggbb`, which every viewer of SVG knows.
pub(super) fn colour(step: Option<&usize>) -> String {
    let Some(&step) = step else {
        return "#ffffff".to_owned();
    };
    const LIGHTNESS: f64 = 0.86;
    const CHROMA: f64 = 0.196; // a saturation of 0.7 at that lightness
    let channel = |offset: f64| {
        let share = ((hue(step) * 6.0 + offset) % 6.0 - 3.0).abs() - 1.0;
        let value = LIGHTNESS - CHROMA / 2.0 + CHROMA * share.clamp(0.0, 1.0);
        (255.0 * value).round() as u8
    };
    let (red, green, blue) = (channel(0.0), channel(4.0), channel(2.0));
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// What fits into so many characters.
pub(super) fn shortened(label: &str, fits: usize) -> String {
    if label.chars().count() <= fits {
        return label.to_owned();
    }
    let kept: String = label.chars().take(fits - 1).collect();
    format!("{kept}…")
}

/// Text as it stands in HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
