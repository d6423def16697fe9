//! Statements of several turns as those of one: what is the same in all stays, what differs is named by a rule.

use crate::kernel::ir::{Block, Call, Expr, Local, Loop, Name, Part, Stmt, Variable};

/// What stands for parts that may differ from turn to turn.
pub(super) trait Rule {
    /// What stands for these variables, one of each turn.
    fn names(&mut self, names: &[Name]) -> Option<Expr>;

    /// What stands for these positions in a table, one of each turn.
    fn positions(&mut self, positions: &[i64]) -> Option<Expr>;
}

/// One statement for those of all turns; none where their forms differ.
pub(super) fn statement(all: &[&Stmt], rule: &mut dyn Rule) -> Option<Stmt> {
    let first = *all.first()?;
    Some(match first {
        Stmt::Declare(variable) => {
            let others = parts(all, |stmt| match stmt {
                Stmt::Declare(other) => Some(&**other),
                _ => None,
            })?;
            Stmt::Declare(Box::new(declaration(variable, &others, rule)?))
        }
        Stmt::Assign(_, op, _) => {
            let sides = |stmt| match stmt {
                &&Stmt::Assign(ref to, other, ref value) if other == *op => Some((to, value)),
                _ => None,
            };
            let (to, values): (Vec<&Expr>, Vec<&Expr>) = all
                .iter()
                .map(sides)
                .collect::<Option<Vec<_>>>()?
                .into_iter()
                .unzip();
            Stmt::Assign(expression(&to, rule)?, *op, expression(&values, rule)?)
        }
        Stmt::Call(_) => Stmt::Call(expression(&single(all)?, rule)?),
        Stmt::If(..) => {
            let test = expression(&single(all)?, rule)?;
            let blocks = |at: usize| parts(all, |stmt| stmt.blocks().get(at).copied());
            let (then, otherwise) = (blocks(0)?, blocks(1)?);
            if !all.iter().all(|stmt| matches!(stmt, Stmt::If(..))) {
                return None;
            }
            Stmt::If(test, block(&then, rule)?, block(&otherwise, rule)?)
        }
        Stmt::Scope(_) => {
            let blocks = parts(all, |stmt| match stmt {
                Stmt::Scope(block) => Some(block),
                _ => None,
            })?;
            Stmt::Scope(block(&blocks, rule)?)
        }
        Stmt::For(_) => {
            let loops = parts(all, |stmt| match stmt {
                Stmt::For(l) => Some(&**l),
                _ => None,
            })?;
            Stmt::For(Box::new(range(&loops, rule)?))
        }
        _ => return None,
    })
}

/// A part of every statement, where all have it.
fn parts<'a, T>(all: &[&'a Stmt], part: impl Fn(&'a Stmt) -> Option<T>) -> Option<Vec<T>> {
    all.iter().map(|stmt| part(stmt)).collect()
}

/// The only expression of every statement.
fn single<'a>(all: &[&'a Stmt]) -> Option<Vec<&'a Expr>> {
    let kind = std::mem::discriminant(*all.first()?);
    parts(all, |stmt| match stmt {
        Stmt::Call(e) | Stmt::If(e, ..) if std::mem::discriminant(stmt) == kind => Some(e),
        _ => None,
    })
}

fn declaration(first: &Variable, all: &[&Variable], rule: &mut dyn Rule) -> Option<Variable> {
    let same = |other: &&Variable| {
        let form = |v: &Variable| (v.ty, v.constant, v.extent, v.space, v.value.is_some());
        form(first) == form(other)
    };
    if !all.iter().all(same) {
        return None;
    }
    let values: Vec<&Expr> = all.iter().filter_map(|v| v.value.as_ref()).collect();
    let value = match values.is_empty() {
        true => None,
        false => Some(expression(&values, rule)?),
    };
    Some(Variable {
        value,
        ..first.clone()
    })
}

fn range(all: &[&Loop], rule: &mut dyn Rule) -> Option<Loop> {
    let first = *all.first()?;
    let form = |l: &Loop| {
        (
            l.variable,
            l.ty,
            l.step,
            l.whole,
            l.axis,
            l.unroll,
            l.from.is_some(),
        )
    };
    if !all.iter().all(|l| form(l) == form(first)) {
        return None;
    }
    let from: Vec<&Expr> = all.iter().filter_map(|l| l.from.as_ref()).collect();
    let to: Vec<&Expr> = all.iter().map(|l| &l.to).collect();
    let bodies: Vec<&Block> = all.iter().map(|l| &l.body).collect();
    Some(Loop {
        from: match from.is_empty() {
            true => None,
            false => Some(expression(&from, rule)?),
        },
        to: expression(&to, rule)?,
        body: block(&bodies, rule)?,
        ..first.clone()
    })
}

fn block(all: &[&Block], rule: &mut dyn Rule) -> Option<Block> {
    let first = *all.first()?;
    if all.iter().any(|block| block.0.len() != first.0.len()) {
        return None;
    }
    let at = |i: usize| all.iter().map(|block| &block.0[i]).collect::<Vec<_>>();
    (0..first.0.len())
        .map(|i| statement(&at(i), rule))
        .collect()
}

/// One expression for those of all turns.
pub(super) fn expression(all: &[&Expr], rule: &mut dyn Rule) -> Option<Expr> {
    let first = *all.first()?;
    let each = |part: &dyn Fn(&Expr) -> Option<Expr>| {
        all.iter().map(|e| part(e)).collect::<Option<Vec<_>>>()
    };
    Some(match first {
        Expr::Name(_) => {
            let names = all.iter().map(|e| match e {
                Expr::Name(name) => Some(*name),
                _ => None,
            });
            return rule.names(&names.collect::<Option<Vec<_>>>()?);
        }
        Expr::Prefix(op, _) => {
            let same = |e: &&Expr| matches!(e, Expr::Prefix(other, _) if other == op);
            let [of] = operands(all, same, rule)?.try_into().ok()?;
            Expr::Prefix(*op, Box::new(of))
        }
        Expr::Infix(op, _) => {
            let same = |e: &&Expr| matches!(e, Expr::Infix(other, _) if other == op);
            let [left, right] = operands(all, same, rule)?.try_into().ok()?;
            Expr::infix(*op, left, right)
        }
        Expr::Conditional(_) => {
            let same = |e: &&Expr| matches!(e, Expr::Conditional(_));
            let [test, then, otherwise] = operands(all, same, rule)?.try_into().ok()?;
            test.choose(then, otherwise)
        }
        Expr::Call(call) => {
            let same = |e: &&Expr| {
                matches!(e, Expr::Call(other)
                    if other.function == call.function && other.arguments.len() == call.arguments.len())
            };
            Expr::Call(Box::new(Call {
                function: call.function,
                arguments: operands(all, same, rule)?.into(),
            }))
        }
        Expr::Element(both) if is_table(&both.0) => {
            let table = &both.0;
            let place = |e: &Expr| match e {
                Expr::Element(other) if other.0 == *table => Some(other.1.clone()),
                _ => None,
            };
            let places = each(&place)?;
            let numbers = places.iter().map(|e| match e {
                Expr::Integer(n) => Some(*n),
                _ => None,
            });
            let place = match numbers.collect::<Option<Vec<_>>>() {
                Some(numbers) => rule.positions(&numbers)?,
                None => expression(&places.iter().collect::<Vec<_>>(), rule)?,
            };
            table.clone().element(place)
        }
        Expr::Element(_) => {
            let same = |e: &&Expr| matches!(e, Expr::Element(_));
            let [of, at] = operands(all, same, rule)?.try_into().ok()?;
            of.element(at)
        }
        Expr::Cast(cast) => {
            let same = |e: &&Expr| matches!(e, Expr::Cast(other) if other.0 == cast.0);
            let [of] = operands(all, same, rule)?.try_into().ok()?;
            of.cast(cast.0)
        }
        Expr::Each(_) => {
            let same = |e: &&Expr| matches!(e, Expr::Each(_));
            let [of] = operands(all, same, rule)?.try_into().ok()?;
            Expr::Each(Box::new(of))
        }
        Expr::Integer(_) | Expr::Float(..) | Expr::Zeros if all.iter().all(|e| *e == first) => {
            first.clone()
        }
        _ => return None,
    })
}

/// Whether positions in it may differ: the numbers of a run, or what a loop before kept of each turn.
fn is_table(of: &Expr) -> bool {
    matches!(
        of,
        Expr::Name(Name::Local(Local::Numbers) | Name::Of(Part::History, ..))
    )
}

/// The operands of all turns, of expressions that are of one form.
fn operands(
    all: &[&Expr],
    same: impl Fn(&&Expr) -> bool,
    rule: &mut dyn Rule,
) -> Option<Vec<Expr>> {
    if !all.iter().all(same) {
        return None;
    }
    let parts: Vec<_> = all.iter().map(|e| e.parts()).collect();
    let count = parts.first()?.len();
    let at = |i: usize| parts.iter().map(|p| p[i]).collect::<Vec<_>>();
    (0..count).map(|i| expression(&at(i), rule)).collect()
}
