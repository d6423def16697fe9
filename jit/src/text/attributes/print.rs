//! What is printed of an operator beside its name, operands and result.

use super::composite::REDUCTIONS;
use super::{Attribute, PARTS, SCATTERS};
use ferrotrace_kernels::{Composite, ConvSpec, Extent, Op, Reduction, ScanKind};
use ferrotrace_runtime::ConvolutionPart;

fn int<T: TryInto<i64>>(n: T) -> Attribute {
    // Attributes come from shapes and slices, which fit 64 bits.
    Attribute::Int(n.try_into().unwrap_or(i64::MAX))
}

fn ints<T: Copy + TryInto<i64>>(list: &[T]) -> Attribute {
    Attribute::List(list.iter().map(|&n| int(n)).collect())
}

fn bits(mask: u64) -> Attribute {
    Attribute::List((0..64u8).filter(|d| mask >> d & 1 == 1).map(int).collect())
}

fn extents(list: &[Extent]) -> Attribute {
    let each = |e: &Extent| {
        if let Extent::Size(n) = e {
            int(*n)
        } else {
            int(-1)
        }
    };
    Attribute::List(list.iter().map(each).collect())
}

fn word(name: &str) -> Attribute {
    Attribute::Word(name.to_owned())
}

/// What an operator's name, operands and result do not say.
pub fn of(op: &Op) -> Vec<(&'static str, Attribute)> {
    use Attribute::Bool;
    match op {
        Op::Iota { dim, .. } | Op::Unsqueeze { dim } | Op::Cat { dim } | Op::Gather { dim } => {
            vec![("dim", int(*dim))]
        }
        Op::Reshape(to) | Op::Expand(to) => vec![("to", extents(to))],
        Op::Permute(order) => vec![("order", ints(order))],
        Op::Squeeze { mask } | Op::Flip { mask } => vec![("dims", bits(*mask))],
        Op::Flatten { start, end } => vec![("start", int(*start)), ("end", int(*end))],
        Op::Slice {
            dim,
            start,
            end,
            step,
        }
        | Op::SliceAssign {
            dim,
            start,
            end,
            step,
        } => {
            vec![
                ("dim", int(*dim)),
                ("start", int(*start)),
                ("end", int(*end)),
                ("step", int(*step)),
            ]
        }
        Op::Narrow { dim, start, len } => vec![
            ("dim", int(*dim)),
            ("start", int(*start)),
            ("len", int(*len)),
        ],
        Op::Select { dim, index } => vec![("dim", int(*dim)), ("index", int(*index))],
        Op::Diagonal { offset, a, b } => {
            vec![("offset", int(*offset)), ("a", int(*a)), ("b", int(*b))]
        }
        Op::Unfold { dim, size, step } => vec![
            ("dim", int(*dim)),
            ("size", int(*size)),
            ("step", int(*step)),
        ],
        Op::Repeat(counts) => vec![("counts", ints(counts))],
        Op::Pad(pads) => {
            let each = |&(a, b): &(isize, isize)| Attribute::List(vec![int(a), int(b)]);
            vec![("pads", Attribute::List(pads.iter().map(each).collect()))]
        }
        Op::Reduce { mask, keepdim, .. } => {
            vec![("dims", bits(*mask)), ("keepdim", Bool(*keepdim))]
        }
        Op::Scan { kind, dim } => {
            let indices = matches!(kind, ScanKind::ArgMax | ScanKind::ArgMin);
            let mut list = vec![("dim", int(*dim))];
            list.extend(indices.then_some(("indices", Bool(true))));
            list
        }
        Op::Sort { dim, descending } | Op::ArgSort { dim, descending } => {
            vec![("dim", int(*dim)), ("descending", Bool(*descending))]
        }
        Op::TopK { k, dim, largest } | Op::ArgTopK { k, dim, largest } => vec![
            ("k", int(*k)),
            ("dim", int(*dim)),
            ("largest", Bool(*largest)),
        ],
        Op::Index { axes, at } => vec![("axes", ints(axes)), ("at", int(*at))],
        Op::IndexPut {
            axes,
            at,
            accumulate,
        } => {
            vec![
                ("axes", ints(axes)),
                ("at", int(*at)),
                ("accumulate", Bool(*accumulate)),
            ]
        }
        Op::Scatter {
            dim,
            mode,
            include_self,
        } => {
            let name = SCATTERS.iter().find(|s| s.1 == *mode).map_or("", |s| s.0);
            vec![
                ("dim", int(*dim)),
                ("mode", word(name)),
                ("include_self", Bool(*include_self)),
            ]
        }
        Op::Conv(spec) => conv(spec),
        Op::Correlate(op) => vec![
            ("part", word(part_name(op.part))),
            ("channels_last", Bool(op.channels_last)),
            ("stride", ints(&op.stride)),
            ("padding", ints(&op.padding)),
            ("dilation", ints(&op.dilation)),
            ("wide", Bool(op.wide)),
        ],
        Op::Pool(spec) => {
            vec![
                ("kernel", ints(&spec.kernel)),
                ("stride", ints(&spec.stride)),
                ("padding", ints(&spec.padding)),
            ]
        }
        Op::AdaptiveAvgPool { size } => vec![("size", ints(size))],
        Op::Interpolate {
            size,
            order,
            align_corners,
        } => {
            vec![
                ("size", ints(size)),
                ("order", int(*order)),
                ("align_corners", Bool(*align_corners)),
            ]
        }
        Op::Composite(composite) => of_composite(composite),
        Op::Full { .. } | Op::Arange { .. } | Op::Random { .. } | Op::Unary(_) | Op::Binary(_) => {
            Vec::new()
        }
        Op::Unrounded(op) => of(op),
        Op::Where | Op::Cast(_) | Op::Barrier | Op::Matmul => Vec::new(),
    }
}

fn part_name(part: ConvolutionPart) -> &'static str {
    let of = PARTS.iter().find(|(_, known)| *known == part);
    of.map_or("", |(name, _)| name)
}

fn conv(spec: &ConvSpec) -> Vec<(&'static str, Attribute)> {
    vec![
        ("stride", ints(&spec.stride)),
        ("padding", ints(&spec.padding)),
        ("dilation", ints(&spec.dilation)),
        ("output_padding", ints(&spec.output_padding)),
        ("groups", int(spec.groups)),
    ]
}

fn of_composite(op: &Composite) -> Vec<(&'static str, Attribute)> {
    use Attribute::{Bool, Float};
    let over = |mask: u64, keepdim: bool| vec![("dims", bits(mask)), ("keepdim", Bool(keepdim))];
    match op {
        Composite::Dropout { p } => vec![("p", Float(f64::from_bits(*p)))],
        Composite::Softmax { dim } | Composite::LogSoftmax { dim } => vec![("dim", int(*dim))],
        Composite::LogSumExp { mask, keepdim } | Composite::CountNonzero { mask, keepdim } => {
            over(*mask, *keepdim)
        }
        Composite::Var {
            mask,
            keepdim,
            correction,
            ..
        } => {
            let mut list = over(*mask, *keepdim);
            list.push(("correction", int(*correction)));
            list
        }
        Composite::Norm { p, mask, keepdim } => {
            let mut list = over(*mask, *keepdim);
            list.push(("p", Float(f64::from_bits(*p))));
            list
        }
        Composite::LayerNorm { n, weight, bias } => {
            vec![
                ("n", int(*n)),
                ("weight", Bool(*weight)),
                ("bias", Bool(*bias)),
            ]
        }
        Composite::RmsNorm { n, weight } => vec![("n", int(*n)), ("weight", Bool(*weight))],
        Composite::GroupNorm {
            groups,
            weight,
            bias,
        } => {
            vec![
                ("groups", int(*groups)),
                ("weight", Bool(*weight)),
                ("bias", Bool(*bias)),
            ]
        }
        Composite::BatchNorm { weight, bias } => {
            vec![("weight", Bool(*weight)), ("bias", Bool(*bias))]
        }
        Composite::Linear { bias } => vec![("bias", Bool(*bias))],
        Composite::ConvBias(spec) => {
            let mut list = conv(spec);
            list.push(("bias", Bool(true)));
            list
        }
        Composite::Einsum { equation } => vec![("equation", word(equation))],
        Composite::Attention {
            mask,
            causal,
            scale,
        } => {
            vec![
                ("mask", Bool(*mask)),
                ("causal", Bool(*causal)),
                ("scale", Float(f64::from_bits(*scale))),
            ]
        }
        Composite::Triangle { k, .. } => vec![("k", int(*k))],
        Composite::Roll { shift, dim } => vec![("shift", int(*shift)), ("dim", int(*dim))],
        Composite::OneHot { n } => vec![("n", int(*n))],
        Composite::Loss(_, Reduction::Mean) => Vec::new(),
        Composite::Loss(_, reduction) => {
            let named = REDUCTIONS.iter().find(|(_, of)| of == reduction);
            vec![("reduction", word(named.map_or("", |(name, _)| name)))]
        }
        _ => Vec::new(),
    }
}
