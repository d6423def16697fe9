//! What a program does to scores between the product and the softmax: the causal mask, limits and the scale, which
//! templates apply themselves, and a function of one score for the rest.

use super::super::index::{Position, fits_32_bits};
use super::super::kernel::Writer;
use super::super::shape;
use super::super::stage::stages;
use super::super::text;
use super::super::value::At;
use crate::body::{Body, BodyOp, Source, Value};
use crate::emit::Pointer;
use crate::expr::{Expr, Var};
use crate::lower::Attention;
use crate::schedule::FusedNode;
use ferrotrace_kernels::BinaryOp;
use ferrotrace_kernels::support::Need;
use ferrotrace_runtime::DType;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The computation of a score, taken apart for the templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    /// The `n` and the number `x` of a causal mask: query `i` sees keys up to `i + n`, and those behind have the score `x`.
    pub causal: Option<(i64, Value)>,
    /// A bound on the keys that a query sees, from a value that does not depend on the key.
    pub limit: Option<Limit>,
    /// The number by which products are multiplied, or (`true`) divided.
    pub scale: Option<(Value, bool)>,
    /// The score of a key that `causal` and `limit` do not hide.
    pub rest: Value,
    /// Whether `rest` is more than a product with a scale, so that the kernel calls a function of its own.
    pub changed: bool,
}

/// A bound on the keys that a query sees: none behind `value` plus `more`, whose scores are the number `fill`. If `alone`,
/// it sees all keys up to there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub value: Value,
    pub more: i64,
    pub fill: Value,
    alone: bool,
}

impl Score {
    /// Takes the computation of `result` apart. The last of the body's `loops` loops is that of keys; the one before it is
    /// that of queries if `rows`.
    pub fn of(body: &Body, result: Value, product: Source, loops: usize, rows: bool) -> Score {
        let mut score = Score {
            causal: None,
            limit: None,
            scale: None,
            rest: result,
            changed: true,
        };
        if let BodyOp::Select(condition, a, b) = body.value(result).op {
            let number = |v: Value| matches!(body.value(v).op, BodyOp::Number(_));
            let form = match (number(a), number(b)) {
                (_, true) => Some((true, b, a)),
                (true, _) => Some((false, a, b)),
                _ => None,
            };
            if let Some((seen, fill, rest)) = form {
                let key = Var(loops as u32 - 1);
                if let Some(n) = diagonal(body, condition, seen, loops, rows) {
                    (score.causal, score.rest) = (Some((n, fill)), rest);
                } else if let Some(limit) = limit(body, condition, seen, fill, key) {
                    score.limit = Some(limit);
                    score.rest = if limit.alone { rest } else { result };
                }
            }
        }
        let own =
            |v: Value| matches!(body.value(v).op, BodyOp::Load { source, .. } if source == product);
        let number = |v: Value| matches!(body.value(v).op, BodyOp::Number(_));
        score.scale = match body.value(score.rest).op {
            BodyOp::Binary(BinaryOp::Mul, a, b) if own(a) && number(b) => Some((b, false)),
            BodyOp::Binary(BinaryOp::Mul, a, b) if own(b) && number(a) => Some((a, false)),
            BodyOp::Binary(BinaryOp::Div, a, b) if own(a) && number(b) => Some((b, true)),
            _ => None,
        };
        score.changed = score.scale.is_none() && !own(score.rest);
        score
    }

    /// Whether the template computes scores without functions of the kernel's own.
    pub fn is_known(&self) -> bool {
        !self.changed && self.limit.is_none()
    }
}

/// The n for which a condition (or, unless `seen`, its opposite) says that the key is at most the query plus n.
fn diagonal(body: &Body, condition: Value, seen: bool, loops: usize, rows: bool) -> Option<i64> {
    let BodyOp::Binary(op, a, b) = body.value(condition).op else {
        return None;
    };
    let index = |v: Value| match &body.value(v).op {
        BodyOp::Index(e) => Some(e.clone()),
        _ => None,
    };
    let difference = index(a)?.sub(&index(b)?);
    // In the form `difference >= least` of what is seen.
    use BinaryOp::{Ge, Gt, Le, Lt};
    let (sign, least) = match (op, seen) {
        (Ge, true) | (Lt, false) => (1, 0),
        (Gt, true) | (Le, false) => (1, 1),
        (Le, true) | (Gt, false) => (-1, 0),
        (Lt, true) | (Ge, false) => (-1, 1),
        _ => return None,
    };
    let difference = difference.scale(sign);
    let mut expected = Expr::from(difference.constant()).sub(&Expr::var(loops - 1));
    if rows {
        expected = expected.add(&Expr::var(loops - 2));
    }
    (difference == expected).then(|| difference.constant() - least)
}

/// The bound on keys that a condition (or, unless `seen`, its opposite) sets, if it compares the key with a value that does
/// not depend on the key, or is a conjunction with such a comparison.
fn limit(body: &Body, condition: Value, seen: bool, fill: Value, key: Var) -> Option<Limit> {
    use BinaryOp::{BitwiseAnd, BitwiseOr, Ge, Gt, Le, LogicalAnd, LogicalOr, Lt};
    let BodyOp::Binary(op, a, b) = body.value(condition).op else {
        return None;
    };
    // The side with the key plus a number, the side that bounds it, and whether (1) the bound itself is excluded.
    let (position, value, strict) = match (op, seen) {
        (Le, true) | (Gt, false) => (a, b, 0),
        (Lt, true) | (Ge, false) => (a, b, 1),
        (Ge, true) | (Lt, false) => (b, a, 0),
        (Gt, true) | (Le, false) => (b, a, 1),
        (LogicalAnd | BitwiseAnd, true) | (LogicalOr | BitwiseOr, false) => {
            let bound = |condition| limit(body, condition, seen, fill, key);
            let found = bound(a).or_else(|| bound(b))?;
            return Some(Limit {
                alone: false,
                ..found
            });
        }
        _ => return None,
    };
    let BodyOp::Index(e) = &body.value(position).op else {
        return None;
    };
    let offset = e.constant();
    let is_key = e.offset(-offset) == Expr::from(key);
    let whole = !body.value(value).dtype.is_float();
    let same = used(body, value)
        .into_iter()
        .all(|v| body.exprs(v).iter().all(|e| !e.uses(key)));
    (is_key && whole && same).then_some(Limit {
        value,
        more: -offset - strict,
        fill,
        alone: true,
    })
}

/// The functions of scores and the arguments of the kernel that calls them.
pub(super) struct Written {
    /// Helpers, the structure of the arguments, and the functions `FT_SYMBOL_score` where scores are changed, and
    /// `FT_SYMBOL_last` where queries see keys up to a limit.
    pub text: String,
    /// The pointers: queries, keys and values, what the function reads, the result.
    pub pointers: Vec<Pointer>,
    /// The integers: those of the template, then those of the functions.
    pub params: Vec<i64>,
    /// The support text that the function uses.
    pub needs: BTreeSet<Need>,
}

/// Writes the functions of scores over the loops of `node`. `params` are the integer arguments of the template.
pub(super) fn write(
    attention: &Attention,
    node: &FusedNode,
    score: &Score,
    params: Vec<i64>,
) -> Written {
    let own = Source::Node(attention.product);
    let is_own = |v: Value| load_of(&node.body, v).is_some_and(|load| load.0 == own);
    let needed = [0];
    let stages = stages(node, &needed);
    let shape = shape::of(node, &stages, &needed, false);
    let mut writer = Writer::new(node, stages, shape);
    writer.shape.tile = None;
    writer.params = params;
    let result = &node.stores[0];
    let roots = [
        score.changed.then_some(score.rest),
        score.limit.map(|limit| limit.value),
    ];
    let mut values: Vec<Value> = roots
        .into_iter()
        .flatten()
        .flat_map(|v| used(&node.body, v))
        .collect();
    values.sort_unstable();
    values.dedup();
    let operands = attention.operands.iter().map(|m| (m.source, result.dtype));
    let loads = values.iter().filter_map(|&v| load_of(&node.body, v));
    for (source, dtype) in operands.chain(loads.filter(|load| load.0 != own)) {
        writer.pointers.push(Pointer::Read(source));
        writer.pointer_types.push(dtype);
    }
    writer.pointers.push(Pointer::Write(result.node));
    writer.pointer_types.push(result.dtype);
    let extents = node.extents();
    let fits = |v: &Value| {
        let mut exprs = node.body.exprs(*v).into_iter();
        exprs.all(|e| fits_32_bits(e, &extents, &node.body))
    };
    let narrow = values.iter().filter(|&&v| !is_own(v)).all(fits);
    let functions = match score.is_known() {
        true => String::new(),
        false => functions(&mut writer, node, score, own),
    };
    let mut text = text::helpers(narrow);
    writer.structure(&mut text);
    Written {
        text: text + &functions,
        pointers: writer.pointers,
        params: writer.params,
        needs: writer.needs,
    }
}

/// The function of a score, of these values over the loops of `node`, and that of a query's last key.
fn functions(writer: &mut Writer, node: &FusedNode, score: &Score, own: Source) -> String {
    writer.print_indices(&[0]);
    writer.whole.clear();
    let at = At {
        position: Position::Chunk,
        guard: None,
    };
    let mut statements = |values: &[Value]| -> String {
        let statement = |&v: &Value| match load_of(&node.body, v) {
            Some((source, _)) if source == own => format!("  const float v{v} = score;\n"),
            _ => {
                let statement = writer.statement(v, &at);
                writer.lines(&statement.into(), 2)
            }
        };
        values.iter().map(statement).collect()
    };
    let changed = score
        .changed
        .then(|| statements(&used(&node.body, score.rest)));
    let limit = score.limit.map(|limit| {
        // The result fits 32 bits: −1 where no key is seen, and 2³⁰ for all bounds behind the last key.
        let bounded = format!(
            "  const long long last = (long long)v{} + ({});\n  return last < 0 ? -1 : last < 1 << 30 ? (int)last : 1 << 30;\n",
            limit.value, limit.more
        );
        statements(&used(&node.body, limit.value)) + &bounded
    });
    let preamble = writer.preamble_text();
    let rows = 0..node.extents().len() - 1;
    let loops: String = rows.map(|v| format!("ft_int i{v}, ")).collect();
    let head = writer.head(&[]);
    let mut out = String::new();
    if let Some(changed) = changed {
        let _ = write!(
            out,
            "FT_INLINE float FT_SYMBOL_score(const FT_SYMBOL_args &a, {loops}ft_int j, float score) {{\n{head}{preamble}{changed}  \
             return v{};\n}}\n",
            score.rest
        );
    }
    if let Some(limit) = limit {
        let _ = write!(
            out,
            "FT_INLINE int FT_SYMBOL_last(const FT_SYMBOL_args &a, {loops}ft_int j) {{\n{head}{preamble}{limit}}}\n"
        );
    }
    out
}

/// The buffer and the type of a load.
fn load_of(body: &Body, value: Value) -> Option<(Source, DType)> {
    match body.value(value).op {
        BodyOp::Load { source, dtype, .. } => Some((source, dtype)),
        _ => None,
    }
}

/// A value and what it needs, operands first.
fn used(body: &Body, value: Value) -> Vec<Value> {
    let mut marked = vec![false; value as usize + 1];
    marked[value as usize] = true;
    for v in (0..=value).rev() {
        if marked[v as usize] {
            for operand in body.operands(v) {
                marked[operand as usize] = true;
            }
        }
    }
    (0..=value).filter(|&v| marked[v as usize]).collect()
}
