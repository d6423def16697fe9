//! One fused node, point by point.

use super::Memory;
use super::datum::Datum;
use crate::body::{Body, BodyOp, MaskId, Value};
use crate::expr::{Expr, Term};
use crate::nest::Update;
use crate::schedule::{FusedNode, Store, roots};
use ferrotrace_kernels::support::philox;
use ferrotrace_kernels::{Array, BinaryOp, Distribution, ReduceKind, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Scalar};

/// The interpretation of one fused node.
pub(super) struct Frame<'m, 'a> {
    memory: &'m Memory<'a>,
    node: &'m FusedNode,
    /// Loop variables.
    vars: Vec<i64>,
    /// Values at the current point.
    values: Vec<Option<Datum>>,
    /// Finished reductions of the row.
    reduced: Vec<Option<Datum>>,
    /// Finished scans of the row, by column.
    scanned: Vec<Vec<Datum>>,
    /// The current column.
    column: usize,
}

impl<'m, 'a> Frame<'m, 'a> {
    pub fn new(memory: &'m Memory<'a>, node: &'m FusedNode) -> Frame<'m, 'a> {
        let n = node.body.values().len();
        let vars = vec![0; node.iter.len() + node.red.len()];
        Frame {
            memory,
            node,
            vars,
            values: vec![None; n],
            reduced: vec![None; n],
            scanned: vec![Vec::new(); n],
            column: 0,
        }
    }

    fn body(&self) -> &'m Body {
        &self.node.body
    }

    pub fn run(mut self, stored: &[ValueId]) -> Result<Vec<(ValueId, Array)>> {
        let node = self.node;
        let dependence = node.dependence();
        let rows = node.iter.len() as u32;
        let of_column = |t: &Term| matches!(t, Term::Var(v) if v.0 >= rows);
        let (mut per_row, mut per_column) = (Vec::new(), Vec::new());
        let mut results = Vec::new();
        for id in stored {
            let store = node.store(*id);
            let store =
                store.ok_or_else(|| Error::internal(format!("%{} is not computed here", id.0)))?;
            // A loop that was unrolled has several stores of one result.
            for store in node.stores.iter().filter(|s| s.node == *id) {
                let inner = dependence[store.value as usize].inner
                    || store.index.any(&mut { of_column })
                    || store.update.is_some();
                if inner { &mut per_column } else { &mut per_row }.push((results.len(), store));
            }
            let span = self.memory.layout(*id).span().len();
            let before = match &store.update {
                None => vec![None; span],
                Some(update) => self.memory.data(&update.base, store.dtype)?,
            };
            results.push((*id, store.dtype, before));
        }
        let is_fold = |v: &Value| is_fold(&self.body().value(*v).op);
        let all: Vec<Value> = per_row
            .iter()
            .chain(&per_column)
            .flat_map(|(_, s)| roots(std::slice::from_ref(*s)))
            .collect();
        let wanted = self.closure(&all, false);
        let folds: Vec<Value> = wanted.into_iter().filter(is_fold).collect();
        for row in 0..node.rows() {
            decode(row, &node.iter, &mut self.vars[..node.iter.len()]);
            self.reduced.fill(None);
            for &v in &folds {
                if matches!(self.body().value(v).op, BodyOp::Scan { .. }) {
                    self.scanned[v as usize] = self.scan(v)?;
                } else {
                    self.reduced[v as usize] = Some(self.reduce(v)?);
                }
            }
            for (list, columns) in [(&per_row, 1), (&per_column, node.cols())] {
                let of = |(_, s): &(usize, &Store)| roots(std::slice::from_ref(*s));
                let wanted: Vec<Value> = list.iter().flat_map(of).collect();
                let order = self.closure(&wanted, true);
                for column in 0..columns {
                    self.enter(column);
                    self.point(&order)?;
                    for (at, store) in list {
                        self.put(store, &mut results[*at])?;
                    }
                }
            }
        }
        let array = |(id, dtype, elements): (ValueId, DType, Vec<Option<Datum>>)| {
            Ok((id, self.memory.written(id, dtype, elements)?))
        };
        results.into_iter().map(array).collect()
    }

    /// Writes the element that a store has at the current point.
    fn put(
        &mut self,
        store: &Store,
        (id, dtype, elements): &mut (ValueId, DType, Vec<Option<Datum>>),
    ) -> Result<()> {
        let value = self.value(store.value)?;
        if value.dtype() != dtype.compute() {
            return Err(Error::internal(format!(
                "%{} gets a {}",
                id.0,
                value.dtype()
            )));
        }
        let place = match store.update.as_ref().and_then(Update::at) {
            None => self.index(&store.index)?,
            Some(at) => self.value(at)?.to_i64(),
        };
        let cell = elements.get_mut(place as usize);
        let outside = || Error::internal(format!("%{} is written at {place}", id.0));
        let cell = cell.ok_or_else(outside)?;
        let combine = store.update.as_ref().and_then(|u| u.combine);
        *cell = Some(match (combine, *cell) {
            (Some(op), Some(old)) => Datum::binary(op, old, value)?,
            _ => value,
        });
        Ok(())
    }

    /// Goes to a column of the current row.
    fn enter(&mut self, column: usize) {
        self.column = column;
        decode(
            column,
            &self.node.red,
            &mut self.vars[self.node.iter.len()..],
        );
    }

    /// The roots and what they need, in order; with `stop`, what finished reductions and scans need is left out.
    fn closure(&self, roots: &[Value], stop: bool) -> Vec<Value> {
        let body = self.body();
        let mut needed = vec![false; body.values().len()];
        for &root in roots {
            needed[root as usize] = true;
        }
        for v in (0..needed.len()).rev() {
            let finished = stop && is_fold(&body.values()[v].op);
            if needed[v] && !finished {
                for operand in body.operands(v as Value) {
                    needed[operand as usize] = true;
                }
            }
        }
        (0..needed.len())
            .filter(|&v| needed[v])
            .map(|v| v as Value)
            .collect()
    }

    /// The left fold of a reduction over the columns of the current row.
    fn reduce(&mut self, r: Value) -> Result<Datum> {
        let BodyOp::Reduce {
            kind,
            value,
            position,
        } = &self.body().value(r).op
        else {
            return Err(Error::internal("not a reduction"));
        };
        let order = self.closure(&[*value], true);
        let dtype = self.body().value(*value).dtype;
        let mut best: Option<(Datum, i64)> = None;
        for column in 0..self.node.cols() {
            self.enter(column);
            self.point(&order)?;
            let x = self.value(*value)?;
            let at = position.as_ref().map_or(Ok(0), |e| self.index(e))?;
            best = Some(match best {
                None => (x, at),
                Some((held, place)) => match kind {
                    ReduceKind::ArgMax | ReduceKind::ArgMin => {
                        let greater = if *kind == ReduceKind::ArgMax {
                            BinaryOp::Gt
                        } else {
                            BinaryOp::Lt
                        };
                        let wins = Datum::binary(greater, x, held)? == Datum::Bool(true);
                        // ir R3: NaN over all, the first of equals stays.
                        if wins || (x.is_nan() && !held.is_nan()) {
                            (x, at)
                        } else {
                            (held, place)
                        }
                    }
                    _ => (Datum::binary(fold(*kind), held, x)?, 0),
                },
            });
        }
        match (best, kind) {
            (Some((_, place)), ReduceKind::ArgMax | ReduceKind::ArgMin) => Ok(Datum::I64(place)),
            (Some((value, _)), _) => Ok(value),
            (None, ReduceKind::Prod | ReduceKind::All) => Ok(Datum::of(Scalar::Int(1), dtype)),
            (None, ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Any) => {
                Ok(Datum::of(Scalar::Int(0), dtype))
            }
            (None, _) => Err(Error::internal("an extreme of no elements")),
        }
    }

    /// The left folds of a scan, up to and with each column of the current row.
    fn scan(&mut self, scan: Value) -> Result<Vec<Datum>> {
        let BodyOp::Scan { kind, value } = &self.body().value(scan).op else {
            return Err(Error::internal("not a scan"));
        };
        let order = self.closure(&[*value], true);
        let mut found: Vec<Datum> = Vec::with_capacity(self.node.cols());
        let mut running: Option<Datum> = None;
        for column in 0..self.node.cols() {
            self.enter(column);
            self.point(&order)?;
            let x = self.value(*value)?;
            // Ready-made kernels keep running sums of binary32 in binary64.
            let wide = match (kind, x.dtype()) {
                (ReduceKind::Sum, DType::F32) => x.cast(DType::F64),
                _ => x,
            };
            let total = match running {
                Some(before) => Datum::binary(fold(*kind), before, wide)?,
                None => wide,
            };
            running = Some(total);
            found.push(total.cast(x.dtype()));
        }
        Ok(found)
    }

    /// Computes the values of `order` at the current point.
    fn point(&mut self, order: &[Value]) -> Result<()> {
        self.values.fill(None);
        for &v in order {
            let value = self.compute(v)?;
            let declared = self.body().value(v).dtype;
            if value.dtype() != declared {
                return Err(Error::internal(format!(
                    "v{v} is a {}, not a {declared}",
                    value.dtype()
                )));
            }
            self.values[v as usize] = Some(value);
        }
        Ok(())
    }

    fn value(&self, v: Value) -> Result<Datum> {
        self.values[v as usize]
            .ok_or_else(|| Error::internal(format!("v{v} is used before it is computed")))
    }

    /// An index expression at the current point.
    fn index(&self, e: &Expr) -> Result<i64> {
        let mut bad = false;
        e.any(&mut |t| {
            bad |= match t {
                Term::Var(v) => v.0 as usize >= self.vars.len(),
                Term::Value(v) => !matches!(self.values[*v as usize], Some(Datum::I64(_))),
                _ => false,
            };
            false
        });
        if bad {
            return Err(Error::internal(format!("{e} has no value")));
        }
        Ok(e.evaluate(&|t| match t {
            Term::Var(v) => self.vars[v.0 as usize],
            Term::Value(v) => self.values[*v as usize].map_or(0, Datum::to_i64),
            _ => 0,
        }))
    }

    fn holds(&self, mask: Option<MaskId>) -> Result<bool> {
        let Some(mask) = mask else { return Ok(true) };
        for condition in self.body().mask(mask) {
            if self.index(condition)? < 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn compute(&self, v: Value) -> Result<Datum> {
        let body = self.body();
        let value = body.value(v);
        Ok(match &value.op {
            BodyOp::Load {
                source,
                dtype,
                index,
                mask,
            } => {
                if self.holds(*mask)? {
                    self.memory.element(*source, *dtype, self.index(index)?)?
                } else {
                    Datum::of(Scalar::Int(0), dtype.compute())
                }
            }
            BodyOp::Number(n) => {
                let number = body.numbers()[*n as usize];
                Datum::of(
                    self.memory.number(&number.operand)?.cast(number.dtype),
                    number.dtype.compute(),
                )
            }
            BodyOp::Index(e) => Datum::I64(self.index(e)?),
            BodyOp::Mask(m) => Datum::Bool(self.holds(Some(*m))?),
            BodyOp::Unary(op, a) => Datum::unary(*op, self.value(*a)?)?,
            BodyOp::Binary(op, a, b) => Datum::binary(*op, self.value(*a)?, self.value(*b)?)?,
            BodyOp::Divide(a, b, _) => Datum::binary(
                ferrotrace_kernels::BinaryOp::Div,
                self.value(*a)?,
                self.value(*b)?,
            )?,
            BodyOp::Select(m, a, b) => match self.value(*m)? {
                Datum::Bool(true) => self.value(*a)?,
                Datum::Bool(false) => self.value(*b)?,
                other => return Err(Error::internal(format!("{other:?} is no condition"))),
            },
            BodyOp::Cast(a) => self.value(*a)?.cast(value.dtype),
            BodyOp::Round(a, half) => self.value(*a)?.round(*half)?,
            BodyOp::Check {
                index,
                size,
                mask,
                site,
            } => {
                let Datum::I64(i) = self.value(*index)? else {
                    return Err(Error::internal("an index is no i64"));
                };
                if !self.holds(*mask)? {
                    return Ok(Datum::I64(0));
                }
                let wrapped = if i < 0 { i + size } else { i };
                if !(0..*size).contains(&wrapped) {
                    return Err(self.memory.fault(*site, i));
                }
                Datum::I64(wrapped)
            }
            BodyOp::Random {
                dist,
                dtype,
                args,
                index,
            } => self.random(*dist, *dtype, args, self.index(index)?)?,
            BodyOp::Reduce { .. } => {
                let unfinished = || Error::internal(format!("v{v} is used before it is reduced"));
                self.reduced[v as usize].ok_or_else(unfinished)?
            }
            BodyOp::Scan { .. } => {
                let unfinished = || Error::internal(format!("v{v} is used before it is scanned"));
                let found = self.scanned[v as usize].get(self.column);
                *found.ok_or_else(unfinished)?
            }
        })
    }

    fn random(&self, dist: Distribution, dtype: DType, args: &[Value], i: i64) -> Result<Datum> {
        let int = |k: usize| self.value(args[k]).map(Datum::to_i64);
        let (key, offset, i) = (int(0)? as u64, int(1)? as u64, i as u64);
        let uniform = |dtype| match dtype {
            DType::F16 => Datum::F32(philox::uniform_f16(key, offset, i)),
            DType::BF16 => Datum::F32(philox::uniform_bf16(key, offset, i)),
            DType::F64 => Datum::F64(philox::uniform_f64(key, offset, i)),
            _ => Datum::F32(philox::uniform_f32(key, offset, i)),
        };
        let drawn = match dist {
            Distribution::Uniform => return Ok(uniform(dtype)),
            Distribution::Normal if dtype == DType::F64 => {
                Datum::F64(philox::normal_f64(key, offset, i))
            }
            Distribution::Normal => Datum::F32(philox::normal_f32(key, offset, i)),
            Distribution::Int => {
                let (low, high) = (int(2)?, int(3)?);
                let range = (high.wrapping_sub(low) as u64).max(1);
                Datum::I64(philox::randint(key, offset, i, low, range))
            }
            Distribution::Bernoulli => {
                let Datum::F64(p) = self.value(args[2])? else {
                    return Err(Error::internal("a probability is no f64"));
                };
                Datum::Bool(philox::bernoulli(key, offset, i, p))
            }
            Distribution::Bits => Datum::I64((philox::bits64(key, offset, i) >> 1) as i64),
        };
        let drawn = drawn.cast(dtype.compute());
        if dtype.is_half() {
            drawn.round(dtype)
        } else {
            Ok(drawn)
        }
    }
}

/// Whether the operation folds the columns of a row.
fn is_fold(op: &BodyOp) -> bool {
    matches!(op, BodyOp::Reduce { .. } | BodyOp::Scan { .. })
}

fn fold(kind: ReduceKind) -> BinaryOp {
    match kind {
        ReduceKind::Sum | ReduceKind::Mean => BinaryOp::Add,
        ReduceKind::Prod => BinaryOp::Mul,
        ReduceKind::Any => BinaryOp::LogicalOr,
        ReduceKind::All => BinaryOp::LogicalAnd,
        ReduceKind::Max | ReduceKind::ArgMax => BinaryOp::Maximum,
        ReduceKind::Min | ReduceKind::ArgMin => BinaryOp::Minimum,
    }
}

/// The row-major digits of `flat` in `extents`.
fn decode(flat: usize, extents: &[usize], into: &mut [i64]) {
    let mut rest = flat;
    for (slot, &n) in into.iter_mut().zip(extents).rev() {
        *slot = (rest % n.max(1)) as i64;
        rest /= n.max(1);
    }
}
