//! Values read as indices: wrapped, checked where they may be out of range, written as expressions where they are
//! arithmetic on positions.

use super::{Expansion, broadcast_index};
use crate::body::{BodyOp, MaskId, Number, Value};
use crate::expr::{Expr, Term};
use crate::graph::{Graph, Node, NodeOp};
use crate::lower::Site;
use crate::lower::windowed::reduced_count;
use ferrotrace_kernels::{BinaryOp, Operand, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Scalar};
use rustc_hash::FxHashSet;

/// The site of a check that cannot fail.
pub(crate) const PROVED: u32 = 0;

impl Expansion<'_> {
    /// An index tensor's element, checked and wrapped, as an index expression.
    pub(in crate::lower) fn checked(
        &mut self,
        id: ValueId,
        indices: ValueId,
        at: &[Expr],
        (dim, size): (usize, usize),
        mask: Option<MaskId>,
    ) -> Result<Expr> {
        // An index that may be read everywhere is read whatever the mask, whose lanes it may not depend on.
        let full = self.domain.under(&[]);
        let shape = &self.graph.node(indices).shape;
        let readable = |(e, &n): (&Expr, &usize)| {
            let range = e.range(&full);
            range.low >= 0 && range.high < n as i64
        };
        let known = at.len() == shape.rank() && at.iter().zip(shape.iter()).all(readable);
        let mask = mask.filter(|_| !known);
        self.under(mask, |this| {
            this.checked_under(id, indices, at, (dim, size), mask)
        })
    }

    fn checked_under(
        &mut self,
        id: ValueId,
        indices: ValueId,
        at: &[Expr],
        (dim, size): (usize, usize),
        mask: Option<MaskId>,
    ) -> Result<Expr> {
        let value = self.value(indices, at, mask)?;
        let index = self.cast(value, DType::I64);
        // ir G7: what is in range by its definition needs no check.
        if let Some(known) = self.as_expr(index)
            && self.within(&known, 0, size as i64).is_empty()
        {
            return Ok(known);
        }
        let proved = self
            .bounds(index)
            .is_some_and(|(low, high)| low >= 0 && high < size as i64)
            || positions(self.graph, indices).is_some_and(|n| n <= size);
        if proved {
            let check = BodyOp::Check {
                index,
                size: size as i64,
                mask,
                site: PROVED,
            };
            let value = self.body.push(check, DType::I64);
            return Ok(Expr::from(Term::Value(value)));
        }
        let known = self.sites.iter().position(|s| s.node == id && s.dim == dim);
        let site = known.unwrap_or_else(|| {
            self.sites.push(Site {
                node: id,
                dim,
                size,
            });
            self.sites.len() - 1
        }) as u32
            + 1;
        let check = BodyOp::Check {
            index,
            size: size as i64,
            mask,
            site,
        };
        let value = self.body.push(check, DType::I64);
        Ok(Expr::from(Term::Value(value)))
    }

    /// The constant that a value is by an operator's definition.
    fn constant(&self, value: Value) -> Option<i64> {
        let BodyOp::Number(n) = self.body.value(value).op else {
            return None;
        };
        match self.body.numbers().get(n as usize)?.operand {
            Operand::Const(Scalar::Int(number)) => Some(number),
            _ => None,
        }
    }

    /// An `I64` value as an index expression, where it is integer arithmetic on positions and constants.
    fn as_expr(&self, value: Value) -> Option<Expr> {
        let BodyOp::Binary(op, a, b) = self.body.value(value).op else {
            return match &self.body.value(value).op {
                BodyOp::Index(e) => Some(e.clone()),
                _ => self.constant(value).map(Expr::from),
            };
        };
        let (x, y) = (self.as_expr(a)?, self.as_expr(b)?);
        let most = 1i64 << 62;
        let ranges = self.ranges();
        let result = match op {
            BinaryOp::Add => x.add(&y),
            BinaryOp::Sub => x.sub(&y),
            BinaryOp::Mul => match (x.as_const(), y.as_const()) {
                (_, Some(by)) => x.scale(by),
                (Some(by), _) => y.scale(by),
                _ => return None,
            },
            BinaryOp::FloorDiv => x.floor_div(y.as_const().filter(|&by| by > 0)?, ranges),
            BinaryOp::Minimum => x.minimum(&y, ranges),
            BinaryOp::Maximum => x.maximum(&y, ranges),
            _ => return None,
        };
        // Integers of the program wrap, index expressions may not.
        let range = result.range(ranges);
        (-most < range.low && range.high < most).then_some(result)
    }

    /// Inclusive bounds of an `I64` value that is cut off at constants, or of a type of few values.
    fn bounds(&self, value: Value) -> Option<(i64, i64)> {
        match self.body.value(value).op {
            BodyOp::Cast(a) => match self.body.value(a).dtype {
                DType::Bool => return Some((0, 1)),
                DType::U8 => return Some((0, 255)),
                _ => return None,
            },
            BodyOp::Select(_, a, b) => {
                let ((a, b), (c, d)) = (self.bounds(a)?, self.bounds(b)?);
                return Some((a.min(c), b.max(d)));
            }
            _ => {}
        }
        let BodyOp::Binary(op, a, b) = self.body.value(value).op else {
            let range = self.as_expr(value)?.range(self.ranges());
            return Some((range.low, range.high));
        };
        let any = (i64::MIN, i64::MAX);
        let (x, y) = (self.bounds(a), self.bounds(b));
        match op {
            BinaryOp::Minimum | BinaryOp::Maximum => {
                let (x, y) = (x.unwrap_or(any), y.unwrap_or(any));
                Some(match op {
                    BinaryOp::Minimum => (x.0.min(y.0), x.1.min(y.1)),
                    _ => (x.0.max(y.0), x.1.max(y.1)),
                })
            }
            BinaryOp::Add => {
                let (x, y) = (x?, y?);
                Some((x.0.checked_add(y.0)?, x.1.checked_add(y.1)?))
            }
            _ => None,
        }
    }

    pub(super) fn index(
        &mut self,
        id: ValueId,
        node: &Node,
        axes: &[u8],
        at: usize,
        index: &[Expr],
        mask: Option<MaskId>,
    ) -> Result<Value> {
        let (x, shape) = self.tensor(node, 0)?;
        let block = node.shape.rank() - (shape.rank() - axes.len());
        let block_index = &index[at..at + block];
        let mut kept = index[..at].iter().chain(&index[at + block..]);
        let mut inner = Vec::with_capacity(shape.rank());
        let mut checks = Vec::with_capacity(axes.len());
        for d in 0..shape.rank() {
            match axes.iter().position(|&a| a as usize == d) {
                Some(which) => {
                    let (idx, idx_shape) = self.tensor(node, 1 + which)?;
                    let position = broadcast_index(&idx_shape, block_index);
                    let at = self.checked(id, idx, &position, (d, shape[d]), mask)?;
                    checks.push(at.clone());
                    inner.push(at);
                }
                None => inner.push(
                    kept.next()
                        .cloned()
                        .ok_or_else(|| Error::internal("too few kept axes"))?,
                ),
            }
        }
        let value = self.value(x, &inner, mask)?;
        Ok(self.guarded(value, &checks))
    }

    /// The value read at checked indices, with the checks among its operands: where a dimension has one element, or the
    /// same is everywhere along it, the position read says nothing of the index, which is to be in range all the same.
    pub(super) fn guarded(&mut self, mut value: Value, indices: &[Expr]) -> Value {
        for index in indices {
            let mut check = None;
            index.any(&mut |term| {
                if let Term::Value(v) = term {
                    check = Some(*v);
                }
                false
            });
            let Some(check) = check.filter(|&v| self.may_fail(v) && !self.depends(value, v)) else {
                continue;
            };
            let zero = self
                .body
                .push_number(Number::new(Operand::Const(Scalar::Int(0)), DType::I64));
            let compared = BodyOp::Binary(BinaryOp::Ge, check, zero);
            let passed = self.body.push(compared, DType::Bool);
            let dtype = self.body.value(value).dtype;
            value = self.body.push(BodyOp::Select(passed, value, value), dtype);
        }
        value
    }

    fn may_fail(&self, value: Value) -> bool {
        matches!(self.body.value(value).op, BodyOp::Check { site, .. } if site != PROVED)
    }

    /// Whether a value is computed from another.
    fn depends(&self, value: Value, on: Value) -> bool {
        let (mut open, mut seen) = (vec![value], FxHashSet::default());
        while let Some(v) = open.pop() {
            if v == on {
                return true;
            }
            // Operands stand before their users.
            if v > on && seen.insert(v) {
                open.extend(self.body.operands(v));
            }
        }
        false
    }
}

/// Where a value is positions along dimensions, of what sorts them or is extreme, or a part of such: how many there are,
/// which none reaches.
fn positions(graph: &Graph, mut id: ValueId) -> Option<usize> {
    loop {
        let node = graph.node(id);
        let NodeOp::Op(op) = &node.op else {
            return None;
        };
        let Some(Operand::Value(x)) = node.args.first() else {
            return None;
        };
        if let Some(mask) = op.positions_in() {
            return Some(reduced_count(graph, id, mask));
        }
        if !op.is_view() {
            return None;
        }
        id = *x;
    }
}
