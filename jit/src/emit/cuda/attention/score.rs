//! The change of a score: what of it is the causal mask and the scale, which the template knows, and the rest as a
//! function of one score.

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

/// A score as the template takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Score {
    /// Query `i` sees keys up to `i` plus this; others have this number for a score.
    pub causal: Option<(i64, Value)>,
    /// The last key that a query sees, where a value that depends on the query alone says so.
    pub limit: Option<Limit>,
    /// The number that products are multiplied by (`true`: divided).
    pub scale: Option<(Value, bool)>,
    /// The value that remains.
    pub rest: Value,
    /// Whether that is more than the product.
    pub changed: bool,
}

/// A query sees keys up to `value` plus `more` at most; the scores of others are the number `fill`. `alone` where it sees
/// all of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub value: Value,
    pub more: i64,
    pub fill: Value,
    alone: bool,
}

impl Score {
    /// Takes the value of a body over these loops apart. `rows` says whether queries have a loop, the last but one.
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

    /// Whether the template knows all of it, without functions of the kernel's own.
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

/// What a condition (or, unless `seen`, its opposite) says of the last key for which it may hold, if it compares the key
/// with something that is the same for all of them, or is such a comparison and others.
fn limit(body: &Body, condition: Value, seen: bool, fill: Value, key: Var) -> Option<Limit> {
    use BinaryOp::{BitwiseAnd, BitwiseOr, Ge, Gt, Le, LogicalAnd, LogicalOr, Lt};
    let BodyOp::Binary(op, a, b) = body.value(condition).op else {
        return None;
    };
    // The key plus a number, on one side, and how the other bounds it.
    let (position, value, strict) = match (op, seen) {
        (Le, true) | (Gt, false) => (a, b, 0),
        (Lt, true) | (Ge, false) => (a, b, 1),
        (Ge, true) | (Lt, false) => (b, a, 0),
        (Gt, true) | (Le, false) => (b, a, 1),
        (LogicalAnd | BitwiseAnd, true) | (LogicalOr | BitwiseOr, false) => {
            let of = |condition| limit(body, condition, seen, fill, key);
            let found = of(a).or_else(|| of(b))?;
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

/// What a kernel takes, and the function of a score.
pub(super) struct Written {
    /// Helpers, the structure of the arguments, and the functions `FT_SYMBOL_score` where scores are changed, and
    /// `FT_SYMBOL_last` where queries see keys up to a limit.
    pub text: String,
    /// The pointers: queries, keys and values, what the function reads, the result.
    pub pointers: Vec<Pointer>,
    /// The integers, those given first.
    pub params: Vec<i64>,
    /// The support text that the function uses.
    pub needs: BTreeSet<Need>,
}

/// Writes the function of a score over the loops of `node`. `params` are integers that the kernel takes besides.
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
    let limit = score.limit.map(|of| {
        // As far as any key, and not before the first.
        let bounded = format!(
            "  const long long last = (long long)v{} + ({});\n  return last < 0 ? -1 : last < 1 << 30 ? (int)last : 1 << 30;\n",
            of.value, of.more
        );
        statements(&used(&node.body, of.value)) + &bounded
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
