//! Graphs evaluated in binary64, each half-precision value rounded where the rule for recorded values says so.
//!
//! A value counts if every operation up to it is exact in binary32, so that no order of a sum and no library changes it,
//! and if the rule says whether it is rounded: what one continuous operator alone reads may be either, and counts only
//! where its type holds it. What counts must be bit for bit what a plan gives, decisions too.

use super::super::{buffer_of, difference, values};
use super::Program;
use ferrotrace_jit::{Graph, NodeOp};
use ferrotrace_kernels::op::{ArgSort, Cast, Cat, Linear, Reduce, Scan, Sort};
use ferrotrace_kernels::ops::view::view_map;
use ferrotrace_kernels::{
    Array, BinaryOp, Composite, Op, Operand, ReduceKind, ScanKind, UnaryOp, ValueId,
};
use ferrotrace_runtime::{DType, Layout, Shape};
use half::{bf16, f16};

/// Where half-precision values are rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What is used more than once, a result, cast, compared or otherwise decided by.
    Recorded,
    /// Everywhere, as in eager mode.
    Everywhere,
}

/// A value in row-major order, and whether it counts.
#[derive(Clone, Debug)]
pub struct Known {
    pub values: Vec<f64>,
    pub counts: bool,
}

pub fn round(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => bf16::from_f32(x as f32).to_f64(),
        DType::F16 => f16::from_f32(x as f32).to_f64(),
        DType::F32 => x as f32 as f64,
        _ => x,
    }
}

/// How many results of a program count; an error where one that does is not bit for bit, zeros' signs apart, what was
/// `got`.
pub fn compared(p: &Program, rule: Rule, got: &[Array]) -> Result<usize, String> {
    let known = evaluate(&p.graph, &p.arrays, rule);
    let mut compared = 0;
    for (v, got) in p.graph.outputs().iter().zip(got) {
        let (node, want) = (p.graph.node(*v), &known[v.0 as usize]);
        if !want.counts {
            continue;
        }
        compared += 1;
        let want = Array {
            buffer: buffer_of(&want.values, node.dtype),
            layout: Layout::contiguous(node.shape.clone()),
            dtype: node.dtype,
        };
        if let Some(why) = difference(got, &want, 0.0, true) {
            return Err(format!("output %{}: {why}", v.0));
        }
    }
    Ok(compared)
}

/// Every node of a graph for these inputs.
pub fn evaluate(graph: &Graph, inputs: &[Array], rule: Rule) -> Vec<Known> {
    let rounds = rounding(graph);
    let mut all: Vec<Known> = Vec::new();
    for (v, node) in graph.nodes().iter().enumerate() {
        let mut known = match &node.op {
            NodeOp::Input(n) => Known {
                values: values(&inputs[*n as usize]),
                counts: true,
            },
            NodeOp::Op(op) => operator(graph, ValueId(v as u32), op, &all),
        };
        let operands = graph.operands(ValueId(v as u32));
        known.counts &= operands.into_iter().all(|x| all[x.0 as usize].counts);
        let single = |x: &f64| x.is_finite() && round(*x, DType::F32) == *x;
        known.counts &= !node.dtype.is_float() || known.values.iter().all(single);
        if node.dtype.is_half() {
            let rounded: Vec<f64> = known.values.iter().map(|&x| round(x, node.dtype)).collect();
            let same = rounded == known.values;
            known.counts &= same || rule == Rule::Everywhere || rounds[v];
            known.counts &= rounded.iter().all(|x| x.is_finite());
            known.values = rounded;
        }
        all.push(known);
    }
    all
}

/// By node, whether all that reads it reads it rounded.
fn rounding(graph: &Graph) -> Vec<bool> {
    let n = graph.nodes().len();
    let (mut live, mut rounds, mut uses) = (vec![false; n], vec![false; n], vec![0; n]);
    for output in graph.outputs() {
        live[output.0 as usize] = true;
        rounds[output.0 as usize] = true;
    }
    for v in (0..n)
        .rev()
        .filter(|&v| matches!(graph.nodes()[v].op, NodeOp::Op(_)))
    {
        let node = &graph.nodes()[v];
        let NodeOp::Op(op) = &node.op else { continue };
        if !live[v] {
            continue;
        }
        let decides = match op {
            Op::Unary(op) => {
                use UnaryOp::*;
                matches!(
                    op,
                    Floor | Ceil | Round | Trunc | Sign | LogicalNot | IsInf | IsFinite
                )
            }
            Op::Binary(op) => {
                use BinaryOp::*;
                let compares = matches!(op, Eq | Ne | Lt | Le | Gt | Ge);
                compares || matches!(op, FloorDiv | Mod | Fmod | LogicalAnd | LogicalOr)
            }
            Op::Cast(_) | Op::Sort(_) | Op::ArgSort(_) => true,
            Op::Reduce(Reduce { kind, .. }) => {
                use ReduceKind::*;
                matches!(kind, ArgMax | ArgMin | Any | All)
            }
            Op::Scan(Scan { kind, .. }) => matches!(kind, ScanKind::ArgMax | ScanKind::ArgMin),
            Op::Composite(op) => matches!(op, Composite::Frac | Composite::CountNonzero(_)),
            _ => false,
        };
        rounds[v] |= matches!(op, Op::Cast(_));
        for x in graph.operands(ValueId(v as u32)) {
            let at = x.0 as usize;
            live[at] = true;
            uses[at] += 1;
            rounds[at] |= decides || uses[at] > 1;
        }
    }
    rounds
}

/// Row-major indices of a shape.
fn indices(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + '_ {
    let numel: usize = shape.iter().product();
    (0..numel).map(move |flat| {
        let mut rest = flat;
        let mut index = vec![0; shape.len()];
        for d in (0..shape.len()).rev() {
            index[d] = rest % shape[d];
            rest /= shape[d];
        }
        index
    })
}

/// The position of an index, right-aligned, in a shape that broadcasts.
fn position(shape: &[usize], index: &[usize]) -> usize {
    let lead = index.len() - shape.len();
    let at = |(d, &n): (usize, &usize)| if n == 1 { 0 } else { index[lead + d] };
    let each = shape.iter().enumerate().map(|pair| (at(pair), *pair.1));
    each.fold(0, |flat, (i, n)| flat * n + i)
}

/// Whether numbers can be added in any order in binary32 without rounding.
fn adds_exactly(terms: &[f64]) -> bool {
    let quantum = terms.iter().filter(|x| **x != 0.0).map(|x| {
        let bits = x.to_bits();
        let fraction = bits & ((1 << 52) - 1) | 1 << 52;
        (bits >> 52 & 0x7ff) as i32 - 1075 + fraction.trailing_zeros() as i32
    });
    let Some(quantum) = quantum.min() else {
        return true;
    };
    let sum: f64 = terms.iter().map(|x| x.abs()).sum();
    sum * f64::from(-quantum).exp2() < f64::from(1 << 24)
}

fn unary(op: UnaryOp, x: f64) -> f64 {
    match op {
        UnaryOp::Abs => x.abs(),
        UnaryOp::Neg => -x,
        UnaryOp::Relu => x.max(0.0),
        UnaryOp::Square => x * x,
        UnaryOp::Floor => x.floor(),
        UnaryOp::Ceil => x.ceil(),
        UnaryOp::Round => x.round_ties_even(),
        UnaryOp::Trunc => x.trunc(),
        UnaryOp::Sign => x.signum() * f64::from(x != 0.0),
        UnaryOp::LogicalNot => f64::from(x == 0.0),
        UnaryOp::IsInf => f64::from(x.is_infinite()),
        UnaryOp::IsFinite => f64::from(x.is_finite()),
        other => panic!("{} is not drawn", other.name()),
    }
}

fn binary(op: BinaryOp, a: f64, b: f64) -> f64 {
    let truth = f64::from;
    match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Maximum => a.max(b),
        BinaryOp::Minimum => a.min(b),
        BinaryOp::FloorDiv => (a / b).floor(),
        BinaryOp::Mod => a - b * (a / b).floor(),
        BinaryOp::Fmod => a % b,
        BinaryOp::Eq => truth(a == b),
        BinaryOp::Ne => truth(a != b),
        BinaryOp::Lt => truth(a < b),
        BinaryOp::Le => truth(a <= b),
        BinaryOp::Gt => truth(a > b),
        BinaryOp::Ge => truth(a >= b),
        BinaryOp::LogicalAnd => truth(a != 0.0 && b != 0.0),
        BinaryOp::LogicalOr => truth(a != 0.0 || b != 0.0),
        other => panic!("{} is not drawn", other.name()),
    }
}

fn operator(graph: &Graph, id: ValueId, op: &Op, all: &[Known]) -> Known {
    let node = graph.node(id);
    let of = |which: usize| match node.args[which] {
        Operand::Value(x) => (graph.node(x).shape.clone(), &all[x.0 as usize].values[..]),
        Operand::Slot(..) | Operand::Const(_) => (Shape::scalar(), &[][..]),
    };
    let number = |which: usize| match node.args[which] {
        Operand::Slot(_, number) | Operand::Const(number) => Some(number.to_f64()),
        Operand::Value(_) => None,
    };
    // The operand's element at an index of the result.
    let element = |which: usize, index: &[usize]| {
        number(which).unwrap_or_else(|| {
            let (shape, data) = of(which);
            data[position(&shape, index)]
        })
    };
    let each = |f: &dyn Fn(&[usize]) -> f64| Known {
        values: indices(&node.shape).map(|index| f(&index)).collect(),
        counts: true,
    };
    match op {
        Op::Unary(op) => each(&|i| unary(*op, element(0, i))),
        Op::Binary(op) => each(&|i| binary(*op, element(0, i), element(1, i))),
        Op::Where => each(&|i| element(if element(0, i) != 0.0 { 1 } else { 2 }, i)),
        Op::Cast(Cast(to)) => each(&|i| match element(0, i) {
            x if *to == DType::Bool => f64::from(x != 0.0),
            x if to.is_int() => x.trunc(),
            x => x,
        }),
        Op::Composite(Composite::Frac) => each(&|i| element(0, i).fract()),
        Op::Composite(Composite::Linear(Linear { bias: true })) => {
            let ((_, x), (w, weights), (_, bias)) = (of(0), of(1), of(2));
            let k = w[1];
            let mut exact = true;
            let sums = indices(&node.shape).map(|i| {
                let product = |j| x[i[0] * k + j] * weights[i[1] * k + j];
                let mut terms: Vec<f64> = (0..k).map(product).collect();
                terms.push(bias[i[1]]);
                exact &= adds_exactly(&terms);
                terms.iter().sum()
            });
            let values = sums.collect();
            Known {
                values,
                counts: exact,
            }
        }
        Op::Reduce(Reduce { kind, mask, .. }) => lines(of(0), *mask, node.shape.numel(), &|line| {
            reduced(*kind, line)
        }),
        Op::Scan(Scan { kind, dim }) => scanned(of(0), *kind, *dim),
        Op::Sort(Sort { dim, descending }) => sorted(of(0), (*dim, *descending), false),
        Op::ArgSort(ArgSort { dim, descending }) => sorted(of(0), (*dim, *descending), true),
        Op::Cat(Cat { dim }) => each(&|i| {
            let mut inner = i.to_vec();
            for which in 0..node.args.len() {
                let (shape, data) = of(which);
                if inner[*dim] < shape[*dim] {
                    return data[position(&shape, &inner)];
                }
                inner[*dim] -= shape[*dim];
            }
            unreachable!("an index of the whole")
        }),
        view => {
            let (from, data) = of(0);
            let values = match view_map(view, &from, &node.shape) {
                Some(map) => {
                    let layout = ferrotrace_runtime::Layout::contiguous(from);
                    let offsets = map.apply(&layout, &node.shape);
                    offsets.offsets().map(|at| data[at]).collect()
                }
                None => data.to_vec(),
            };
            Known {
                values,
                counts: true,
            }
        }
    }
}

/// `f` of the elements along the reduced dimensions, for each place of the others; `None` from it: it does not count.
fn lines(
    (shape, data): (Shape, &[f64]),
    mask: u64,
    count: usize,
    f: &dyn Fn(&[f64]) -> Option<f64>,
) -> Known {
    let mut groups: Vec<Vec<f64>> = vec![Vec::new(); count];
    for (index, &x) in indices(&shape).zip(data) {
        let kept = (0..shape.rank()).filter(|d| mask >> d & 1 == 0);
        let at = kept.fold(0, |flat, d| flat * shape[d] + index[d]);
        groups[at].push(x);
    }
    let found: Vec<Option<f64>> = groups.iter().map(|line| f(line)).collect();
    Known {
        counts: found.iter().all(Option::is_some),
        values: found.into_iter().map(Option::unwrap_or_default).collect(),
    }
}

fn reduced(kind: ReduceKind, line: &[f64]) -> Option<f64> {
    let extreme = |better: &dyn Fn(f64, f64) -> bool| {
        let mut best = 0;
        for i in 1..line.len() {
            if better(line[i], line[best]) {
                best = i;
            }
        }
        best
    };
    let sum = || adds_exactly(line).then(|| line.iter().sum::<f64>());
    match kind {
        ReduceKind::Sum => sum(),
        ReduceKind::Mean => Some(sum()? / line.len() as f64),
        ReduceKind::Max => Some(line[extreme(&|a, b| a > b)]),
        ReduceKind::Min => Some(line[extreme(&|a, b| a < b)]),
        ReduceKind::ArgMax => Some(extreme(&|a, b| a > b) as f64),
        ReduceKind::ArgMin => Some(extreme(&|a, b| a < b) as f64),
        ReduceKind::Any => Some(f64::from(line.iter().any(|x| *x != 0.0))),
        ReduceKind::All => Some(f64::from(line.iter().all(|x| *x != 0.0))),
        ReduceKind::Prod => panic!("products are not drawn"),
    }
}

/// `f` of each line along a dimension, which gives a line as long.
fn along(
    (shape, data): (Shape, &[f64]),
    dim: usize,
    f: &dyn Fn(&[f64]) -> Option<Vec<f64>>,
) -> Known {
    let inner: usize = shape[dim + 1..].iter().product();
    let n = shape[dim];
    let mut out = Known {
        values: vec![0.0; data.len()],
        counts: true,
    };
    for start in (0..data.len()).filter(|at| (at / inner).is_multiple_of(n)) {
        let line: Vec<f64> = (0..n).map(|j| data[start + j * inner]).collect();
        match f(&line) {
            Some(line) => {
                for (j, x) in line.into_iter().enumerate() {
                    out.values[start + j * inner] = x;
                }
            }
            None => out.counts = false,
        }
    }
    out
}

fn scanned(of: (Shape, &[f64]), kind: ScanKind, dim: usize) -> Known {
    along(of, dim, &|line| {
        if kind == ScanKind::Sum && !adds_exactly(line) {
            return None;
        }
        let (mut sum, mut best) = (0.0, 0);
        let step = |(i, &x): (usize, &f64)| {
            sum += x;
            let better = match kind {
                ScanKind::Max | ScanKind::ArgMax => x >= line[best],
                _ => x <= line[best],
            };
            if better {
                best = i;
            }
            match kind {
                ScanKind::Sum => sum,
                ScanKind::Max | ScanKind::Min => line[best],
                _ => best as f64,
            }
        };
        Some(line.iter().enumerate().map(step).collect())
    })
}

fn sorted(of: (Shape, &[f64]), (dim, descending): (usize, bool), positions: bool) -> Known {
    along(of, dim, &|line| {
        let mut order: Vec<usize> = (0..line.len()).collect();
        order.sort_by(|&a, &b| match descending {
            true => line[b].total_cmp(&line[a]),
            false => line[a].total_cmp(&line[b]),
        });
        let value = |i: usize| if positions { i as f64 } else { line[i] };
        // Zeros of either sign are equal, which this order does not know.
        (!line.iter().any(|x| *x == 0.0 && x.is_sign_negative()))
            .then(|| order.into_iter().map(value).collect())
    })
}
