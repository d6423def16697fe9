//! The vector axis: which variable lanes run along, how many there are, and which values differ between them.

use crate::body::{BodyOp, Value};
use crate::emit::cpu::stage::Stages;
use crate::expr::{Expr, Term, Var};
use crate::policy::Thresholds;
use crate::schedule::{FusedNode, roots};
use ferrotrace_kernels::BinaryOp::{Atan2, Div, FloorDiv, Fmod, Gcd, Mod, Pow, Shl, Shr};
use ferrotrace_kernels::UnaryOp::{Abs, BitwiseNot, LogicalNot, Neg, Sign};
use ferrotrace_kernels::support::BYTE_LANES;
use ferrotrace_kernels::{Distribution, ReduceKind};
use ferrotrace_runtime::DType;
use std::collections::BTreeSet;

/// What reading a vector lane by lane costs, in whole loads.
const GATHER: usize = 8;

/// Lanes over fewer columns are mostly empty.
const FEW: usize = 8;

/// For each value, whether it differs along a variable. A reduction differs along every row variable and no column.
pub(super) fn differ(node: &FusedNode, along: Var) -> Vec<bool> {
    let body = &node.body;
    let is_row = (along.0 as usize) < node.iter.len();
    let mut all: Vec<bool> = Vec::with_capacity(body.values().len());
    for v in 0..body.values().len() as Value {
        all.push(match body.value(v).op {
            BodyOp::Reduce { .. } => is_row,
            // Its accumulator is a vector, whatever its operand is.
            BodyOp::Scan { .. } => true,
            _ => {
                body.operands(v).iter().any(|&o| all[o as usize])
                    || body.exprs(v).iter().any(|e| e.uses(along))
            }
        });
    }
    all
}

/// Whether an index moves with a variable other than by its coefficient: inside a division, or through a value.
pub(super) fn moves_irregularly(e: &Expr, along: Var, differ: &[bool]) -> bool {
    e.terms().iter().any(|(term, _)| {
        !matches!(term, Term::Var(_))
            && Expr::from(term.clone()).any(&mut |t| match t {
                Term::Value(v) => differ[*v as usize],
                Term::Var(v) => *v == along,
                _ => false,
            })
    })
}

/// What an access of a vector costs whose lanes run along a variable, in whole loads.
fn access(index: &Expr, along: Var, differ: &[bool]) -> usize {
    match index.coefficient(along).abs() {
        _ if moves_irregularly(index, along, differ) => GATHER,
        0 => 0,
        1 => 1,
        _ => GATHER,
    }
}

/// What loads, and stores of every column, cost with lanes along a variable, and what loads alone cost.
fn accesses(node: &FusedNode, along: Var) -> [usize; 2] {
    let differ = differ(node, along);
    let of = |index: &Expr| access(index, along, &differ);
    let columns = node.iter.len()..node.extents().len();
    let each = |place: &Expr| columns.clone().any(|v| place.uses(Var(v as u32)));
    // What no column moves is read before the loop over them; a value may differ by column.
    let is_row = (along.0 as usize) < node.iter.len();
    let many = node.extents()[columns.clone()].iter().product::<usize>() >= 2 * GATHER;
    let again = |index: &&Expr| !is_row || !many || each(index) || index.follows_from_values();
    let loads = node.loads().map(|(_, _, index)| index);
    let loads: usize = loads.filter(again).map(of).sum();
    let places = node.stores.iter().map(|s| node.place(s));
    // A scan stores every column, and a scatter, wherever that is.
    let counts = |place: &&Expr| node.is_ordered() || each(place);
    let stores: usize = places.filter(counts).map(of).sum();
    [loads + stores, loads]
}

/// Whether a node reduces windows that slide along its rows, and are not long: they lie along rows as they do along columns, but
/// vectors of rows are whole, and nothing of their lanes is brought together.
pub(super) fn slides(node: &FusedNode, thresholds: &Thresholds) -> bool {
    let columns = &node.extents()[node.iter.len()..];
    let (Some(&last), Some(&rows), true) = (
        columns.last(),
        node.iter.last(),
        node.reduces() && !node.is_ordered(),
    ) else {
        return false;
    };
    let wide = node.loads().any(|(_, dtype, _)| dtype.size() == 8);
    let most = match wide {
        true => thresholds.sliding_wide,
        false => thresholds.sliding,
    };
    if last >= most || rows < 2 * FEW {
        return false;
    }
    let (row, column) = (node.iter.len() - 1, node.extents().len() - 1);
    let [outer, _] = accesses(node, Var(row as u32));
    let [inner, _] = accesses(node, Var(column as u32));
    outer == inner && (1..GATHER).contains(&outer) && columns.iter().product::<usize>() > 2 * FEW
}

/// Whether lanes run over rows: loads, and stores of every column, then cost less than with lanes over columns (codegen A3.12).
pub(super) fn prefers_outer(node: &FusedNode) -> bool {
    let (Some(row), true) = (
        node.iter.len().checked_sub(1),
        node.reduces() || node.is_ordered(),
    ) else {
        return false;
    };
    let last = Var(node.extents().len() as u32 - 1);
    let (outer, inner) = (accesses(node, Var(row as u32)), accesses(node, last));
    // Windows: a vector of few columns takes as long as one that is read lane by lane, and where a row has few in all, it
    // takes as long again to bring the lanes of a reduction together.
    let columns = &node.extents()[node.iter.len()..];
    let few = columns.last().is_some_and(|&n| n < FEW) && node.iter[row] >= FEW;
    // Elements of a few tensors that lie as the rows do, joined in front of a reduction.
    let joined = || {
        let along = Var(row as u32);
        let of_rows = differ(node, along);
        node.loads()
            .all(|(_, _, index)| access(index, along, &of_rows) <= 1)
    };
    if few && columns.len() == 1 && outer[0] < GATHER * columns[0] && joined() {
        return true;
    }
    let few = few && columns.len() > 1;
    match few && columns.iter().product::<usize>() <= 2 * FEW {
        true => {
            let values = node.body.values().iter();
            let reductions = values.filter(|v| matches!(v.op, BodyOp::Reduce { .. }));
            outer[0] < GATHER * (inner[0] + reductions.count())
        }
        false => outer < inner,
    }
}

/// Rows from which on a kernel may have a source of its own for their length: of fewer rows, one source serves all lengths.
pub(super) const MANY_ROWS: usize = 64;

/// Fewest rows and columns that are worth a tile.
pub(super) const TILED: usize = 16;

/// Lanes of every vector: as many of the widest type as a register of `vector` bytes holds; of many rows, as many as a row has
/// elements along the vector axis, where those fill a smaller register. Indices that all lanes share do not
/// count, nor do numbers of draws, nor what is converted alone beside costly functions of narrower types. A kernel of single
/// elements has one lane, whose code is shorter and as fast. Lanes run along `along`.
pub(super) fn lanes(
    node: &FusedNode,
    stages: &Stages,
    (differ, along): (&[bool], Var),
    vector: usize,
) -> usize {
    if node.extents().iter().all(|&n| n == 1) {
        return 1;
    }
    let in_loops = stages.loops.iter().flat_map(|l| &l.compute);
    let computed = || stages.row.iter().flatten().chain(in_loops.clone()).copied();
    let vectors = |&v: &Value| differ[v as usize] || node.body.value(v).dtype != DType::I64;
    let as_vectors = read_as_vectors(node);
    let is_row = (along.0 as usize) < node.iter.len();
    let size = |v: &Value| {
        let value = node.body.value(*v);
        match (&value.op, value.dtype) {
            (BodyOp::Number(_), _) if !as_vectors.contains(v) => 4,
            // Elements that follow one another are drawn by the number of the first, others by a vector of numbers.
            (
                BodyOp::Random {
                    dist, dtype, index, ..
                },
                _,
            ) => {
                let run = index.coefficient(along) == 1 && !moves_irregularly(index, along, differ);
                match dist {
                    Distribution::Int | Distribution::Bits => 8,
                    _ if !run => 8,
                    Distribution::Bernoulli => 4,
                    Distribution::Uniform | Distribution::Normal => dtype.compute().size(),
                }
            }
            (BodyOp::Check { .. }, _) => 8,
            // Its accumulators are narrow; its results alone are not.
            (BodyOp::Reduce { .. }, DType::I64) if is_row && short_positions(node, *v) => 4,
            (_, DType::Bool) => 4,
            (_, dtype) => dtype.compute().size().max(4),
        }
    };
    let extents = node.extents();
    let few = extents[along.0 as usize];
    if let Some(lanes) = narrow_lanes(node, computed(), (differ, along), vector) {
        return lanes;
    }
    let widest = computed().filter(vectors).map(|v| size(&v)).max();
    let widest = match widest.unwrap_or(4) {
        8 if moves_wide(node, computed().filter(vectors)) => vector / 4,
        widest => vector / widest,
    };
    let rows = extents.iter().product::<usize>() / few.max(1);
    let fills = few > 1 && few < widest && few.is_power_of_two();
    if fills && rows >= MANY_ROWS {
        few
    } else {
        widest
    }
}

/// Whether costly functions of 4 bytes run beside values of 8 bytes that are only read, converted and stored: a vector of
/// those takes two registers, whereas the functions would fill half of theirs.
fn moves_wide(node: &FusedNode, computed: impl Iterator<Item = Value>) -> bool {
    let body = &node.body;
    let is_wide = |dtype: DType| dtype.compute().size() == 8;
    let mut is_costly = false;
    for v in computed {
        let value = body.value(v);
        let moves = match &value.op {
            BodyOp::Load { .. } | BodyOp::Number(_) | BodyOp::Cast(_) | BodyOp::Mask(_) => true,
            BodyOp::Unary(op, a) => {
                is_costly |= op.heavy();
                !is_wide(value.dtype) && !is_wide(body.value(*a).dtype)
            }
            BodyOp::Binary(op, a, _) => {
                is_costly |= op.heavy();
                !is_wide(value.dtype) && !is_wide(body.value(*a).dtype)
            }
            BodyOp::Select(..) | BodyOp::Divide(..) | BodyOp::Round(..) => !is_wide(value.dtype),
            _ => false,
        };
        if !moves {
            return false;
        }
    }
    is_costly
}

/// Whether a value is the position of an extreme, and all positions fit into 32 bits.
pub(super) fn short_positions(node: &FusedNode, v: Value) -> bool {
    match &node.body.value(v).op {
        BodyOp::Reduce {
            kind: ReduceKind::ArgMax | ReduceKind::ArgMin,
            position: Some(position),
            ..
        } => {
            let range = position.range(&node.extents()[..]);
            range.low >= 0 && range.high <= i64::from(i32::MAX)
        }
        _ => false,
    }
}

/// As many lanes as a register holds of the widest type, where a kernel computes integers of at most 16 bits and truth values
/// alone, by operators that are instructions for them, along elements that follow one another in rows that are long enough.
fn narrow_lanes(
    node: &FusedNode,
    computed: impl Iterator<Item = Value>,
    (differ, along): (&[bool], Var),
    vector: usize,
) -> Option<usize> {
    let body = &node.body;
    let follows = |index: &Expr| {
        matches!(index.coefficient(along), 0 | 1) && !moves_irregularly(index, along, differ)
    };
    let size = |v: Value| match body.value(v).dtype {
        DType::Bool | DType::I8 | DType::U8 => Some(1),
        DType::I16 => Some(2),
        _ => None,
    };
    let is_row = (along.0 as usize) < node.iter.len();
    let takes = |v: Value| match &body.value(v).op {
        BodyOp::Load { index, .. } => follows(index),
        BodyOp::Number(_) | BodyOp::Mask(_) | BodyOp::Select(..) => true,
        BodyOp::Cast(from) => size(*from).is_some(),
        BodyOp::Unary(op, _) => matches!(op, Neg | BitwiseNot | LogicalNot | Abs | Sign),
        BodyOp::Binary(op, ..) => !matches!(
            op,
            Div | FloorDiv | Mod | Fmod | Pow | Atan2 | Shl | Shr | Gcd
        ),
        BodyOp::Reduce { .. } => true,
        _ => false,
    };
    // Sums of integers have wider accumulators, and positions are wider.
    let is_narrow = |op: &BodyOp| match op {
        BodyOp::Reduce { kind, .. } => match kind {
            ReduceKind::Any | ReduceKind::All => true,
            ReduceKind::Max | ReduceKind::Min => is_row,
            _ => false,
        },
        _ => true,
    };
    let stored = node.stores.iter().all(|s| follows(node.place(s)));
    let narrow = body.values().iter().all(|value| is_narrow(&value.op));
    if !narrow || !stored || node.is_ordered() {
        return None;
    }
    let (mut widest, mut has_tests) = (1, false);
    for v in computed {
        widest = size(v).filter(|_| takes(v))?.max(widest);
        has_tests |= body.value(v).dtype == DType::Bool;
    }
    let lanes = vector / widest;
    // A vector of fewer lanes has truth values that are wider than the elements.
    let fits = lanes >= BYTE_LANES || !has_tests;
    // What is left at a row's end is moved at once by AVX-512's masks, and without them one by one.
    let least = match vector {
        64.. => lanes,
        _ => 4 * lanes,
    };
    (fits && node.extents()[along.0 as usize] >= least).then_some(lanes)
}

/// What is read other than by draws, which take numbers as they are.
fn read_as_vectors(node: &FusedNode) -> BTreeSet<Value> {
    let body = &node.body;
    let draws = |v: &Value| matches!(body.value(*v).op, BodyOp::Random { .. });
    let others = (0..body.values().len() as Value).filter(|v| !draws(v));
    let read = others.flat_map(|v| body.operands(v));
    read.chain(roots(&node.stores)).collect()
}

/// By value, whether it is an index that all lanes share, used by such indices and in places alone: a number instead of a
/// vector, where vectors of as many indices exceed a register, which compilers keep in memory.
pub(super) fn scalars(node: &FusedNode, differ: &[bool], lanes: usize, vector: usize) -> Vec<bool> {
    let body = &node.body;
    let n = body.values().len();
    if lanes * DType::I64.size() <= vector {
        return vec![false; n];
    }
    let mut scalar: Vec<bool> = (0..n as Value)
        .map(|v| {
            let index = match &body.value(v).op {
                BodyOp::Load { mask, .. } | BodyOp::Check { mask, .. } => mask.is_none(),
                BodyOp::Index(_) => true,
                BodyOp::Unary(..) | BodyOp::Binary(..) => {
                    let whole = |&o: &Value| body.value(o).dtype == DType::I64;
                    body.operands(v).iter().all(whole)
                }
                _ => false,
            };
            index && body.value(v).dtype == DType::I64 && !differ[v as usize]
        })
        .collect();
    for v in roots(&node.stores) {
        scalar[v as usize] = false;
    }
    for user in (0..n).rev() {
        // Places take a number from any vector.
        let op = &body.value(user as Value).op;
        let in_places = matches!(op, BodyOp::Load { .. } | BodyOp::Index(_) | BodyOp::Mask(_));
        if !scalar[user] && !in_places {
            body.operands(user as Value)
                .iter()
                .for_each(|&o| scalar[o as usize] = false);
        }
    }
    scalar
}

#[cfg(test)]
mod tests {
    use crate::emit::cpu::unroll::tests::emitted;
    use crate::policy::Policy;

    /// The text of the only kernel of a graph for vectors of so many bytes, in so many registers.
    fn text(graph: &str, vector: usize, registers: usize) -> String {
        let mut policy = Policy::default();
        policy.target.vector = vector;
        policy.target.registers = registers;
        emitted(graph, &policy).source.body.to_string()
    }

    #[test]
    fn what_is_only_converted_leaves_vectors_whole() {
        let of = |to: &str| {
            format!(
                "%0: f32[1000] = input 0 [1]
                 %1: f32[1000] = sigmoid(%0)
                 %2: {to}[1000] = to_dtype(%1)"
            )
        };
        for to in ["f64", "i64"] {
            let graph = format!("{}\nreturn %2", of(to));
            for (vector, lanes) in [(32, 8), (64, 16)] {
                let text = text(&graph, vector, 32);
                assert!(text.contains(&format!("ft_sigmoid_f32x{lanes}")), "{text}");
            }
        }
        // Conditions are no values of 8 bytes.
        let padded = "%0: f32[1000] = input 0 [1]
             %1: f32[1003] = pad(%0, 0.5) {pads: [[1, 2]]}
             %2: f32[1003] = sigmoid(%1)
             %3: i64[1003] = to_dtype(%2)
             return %3";
        let text_of_padded = text(padded, 32, 16);
        assert!(
            text_of_padded.contains("ft_sigmoid_f32x8"),
            "{text_of_padded}"
        );
        // Arithmetic on vectors of two registers would go through memory.
        let graph = format!("{}\n%3: f64[1000] = mul(%2, %2)\nreturn %3", of("f64"));
        let text = text(&graph, 32, 16);
        assert!(text.contains("ft_sigmoid_f32x4"), "{text}");
    }

    #[test]
    fn few_registers_take_shorter_chains_in_turns() {
        let graph = "%0: f32[1000] = input 0 [1]
             %1: f32[1000] = exp(%0)
             %2: f32[1000] = sigmoid(%1)
             return %2";
        assert!(text(graph, 32, 16).contains("v2_3"));
        assert!(!text(graph, 64, 32).contains("v2_3"));
    }
}
