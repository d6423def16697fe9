//! Matrix products that are replaced. Those by small matrices become sums of products, which fuse with what is around them.
//!
//! On the CPU, products by tiles become their sums, and products whose operands the library would copy to another type become
//! casts and a product. On a device, products of a matrix and a vector become sums of products, which a generated reduction
//! reads at the speed of memory.

use super::Simplifier;
use crate::graph::{Graph, NodeOp, Precision};
use ferrotrace_kernels::op::operator::Operator;
use ferrotrace_kernels::op::{Matmul, Permute, Unrounded, Unsqueeze};
use ferrotrace_kernels::ops::matmul;
use ferrotrace_kernels::{ArgMeta, Op, OpBuilder, OpBuilderExt, Operand, ReduceKind, ValueId};
use ferrotrace_runtime::{DType, Error, Result, Shape};
use smallvec::SmallVec;

impl Simplifier<'_> {
    /// Whether a matrix product on a device is bound by the reading of one operand, each of whose elements it needs
    /// once: that of a matrix and a vector. A generated reduction reads it at the speed of memory.
    pub(super) fn is_read_once(&self, operands: &[Operand]) -> bool {
        let [Operand::Value(a), Operand::Value(b)] = *operands else {
            return false;
        };
        let (left, right) = (self.shape(a), self.shape(b));
        let floats = self.dtype(a).is_float() && self.dtype(b).is_float();
        if !floats || self.precision == Precision::EagerExact {
            return false;
        }
        let metas = [
            ArgMeta::Tensor(left, self.dtype(a)),
            ArgMeta::Tensor(right, self.dtype(b)),
        ];
        let Ok((out, _)) = Matmul.infer(&metas) else {
            return false;
        };
        let inner = left.last().copied().unwrap_or(1);
        let products = out.numel().saturating_mul(inner);
        let (matrix, dim) = match left.numel() == products {
            true => (a, left.rank() - 1),
            false => (b, right.rank().saturating_sub(2)),
        };
        let once = products > 0 && products == self.shape(matrix).numel();
        // A product of stacks of matrices may be a part of attention, whose kernel needs it as a product.
        let lead = |s: &Shape| s[..s.rank().saturating_sub(2)].iter().product::<usize>();
        let alone = lead(left) == 1 && lead(right) == 1;
        inner > 1 && once && alone && is_unit_stride(&self.graph, matrix, dim)
    }

    /// Whether the right matrix of a product is of few terms and columns, as rotations and covariances are. Such a product moves
    /// more than it multiplies, and as a sum it joins the kernels around it.
    pub(super) fn is_small(&self, operands: &[Operand]) -> bool {
        let [Operand::Value(a), Operand::Value(b)] = *operands else {
            return false;
        };
        let floats = self.dtype(a).is_float() && self.dtype(b).is_float();
        if !floats || self.precision == Precision::EagerExact || self.shape(a).rank() < 2 {
            return false;
        }
        match **self.shape(b) {
            [.., k, n] => k.max(n) <= self.policy.thresholds.small_matrix,
            _ => false,
        }
    }

    /// Whether the library multiplies the operands of a matrix product, of bf16, as they are.
    pub(super) fn is_by_tiles(&self, operands: &[Operand]) -> Result<bool> {
        let [Operand::Value(a), Operand::Value(b)] = *operands else {
            return Ok(false);
        };
        if self.dtype(a) != DType::BF16 {
            return Ok(false);
        }
        let meta = |x| ArgMeta::Tensor(self.shape(x), self.dtype(x));
        matmul::is_by_tiles(&[meta(a), meta(b)])
    }

    /// A matrix product of bf16 as it is summed, in binary32, and rounded: kernels that follow it take the sums.
    pub(super) fn product_by_tiles(&mut self, op: Op, operands: &[Operand]) -> Result<ValueId> {
        let unrounded = std::mem::replace(&mut self.unrounded, false);
        let sum = self.keep(Op::from(Unrounded(Box::new(op))), operands)?;
        self.unrounded = unrounded;
        match unrounded {
            true => Ok(sum),
            false => self.cast(sum, DType::BF16),
        }
    }

    /// The type to which the library would copy operands of a matrix product that have another.
    pub(super) fn copied_to(&self, operands: &[Operand]) -> Result<Option<DType>> {
        let [Operand::Value(a), Operand::Value(b)] = *operands else {
            return Ok(None);
        };
        let meta = |x| ArgMeta::Tensor(self.shape(x), self.dtype(x));
        matmul::copied_to(&[meta(a), meta(b)])
    }

    /// A matrix product whose operands are cast to the type that it computes in. Casts have memory that is planned, join
    /// the kernels that compute the operands, and are shared by products of one operand.
    pub(super) fn product_of_casts(
        &mut self,
        operands: &[Operand],
        compute: DType,
    ) -> Result<ValueId> {
        let [Operand::Value(a), Operand::Value(b)] = *operands else {
            return Err(Error::argument("a matrix product needs two tensors"));
        };
        let dtype = self.dtype(a).promote(self.dtype(b));
        // The sum is not of a half type: a definition that wants it as summed has it.
        let unrounded = std::mem::replace(&mut self.unrounded, false);
        let (a, b) = (self.cast(a, compute)?, self.cast(b, compute)?);
        let sum = self.matmul(a, b)?;
        self.unrounded = unrounded;
        if unrounded {
            return Ok(sum);
        }
        self.cast(sum, dtype)
    }

    /// A matrix product as products and their sums, in the accumulator's type, rounded once.
    pub(super) fn sum_of_products(&mut self, operands: &[Operand]) -> Result<ValueId> {
        let [Operand::Value(a), Operand::Value(b)] = *operands else {
            return Err(Error::argument("a matrix product needs two tensors"));
        };
        let dtype = self.dtype(a).promote(self.dtype(b));
        let (mut rows, mut columns) = (
            self.cast(a, dtype.compute())?,
            self.cast(b, dtype.compute())?,
        );
        // [.., m, 1, k] by [.., 1, n, k], where there are m and n.
        let (m, n) = (self.shape(a).rank() > 1, self.shape(b).rank() > 1);
        if n {
            let rank = self.shape(columns).rank();
            let mut order: SmallVec<[u8; 6]> = (0..rank as u8).collect();
            order.swap(rank - 2, rank - 1);
            columns = self.push(Op::from(Permute(order)), &[columns.into()])?;
        }
        if m && n {
            for (x, from_end) in [(&mut rows, 1), (&mut columns, 2)] {
                let dim = self.shape(*x).rank() - from_end;
                *x = self.push(Op::from(Unsqueeze { dim }), &[(*x).into()])?;
            }
        }
        let products = self.mul(rows, columns)?;
        let last = self.shape(products).rank() - 1;
        let sum = self.reduce(ReduceKind::Sum, products, 1 << last, false)?;
        self.cast(sum, dtype)
    }
}

/// Whether elements along a dimension are neighbours in memory, as far as can be told; results are row-major.
pub(super) fn is_unit_stride(graph: &Graph, value: ValueId, dim: usize) -> bool {
    let (mut at, mut dim) = (value, dim);
    loop {
        let node = graph.node(at);
        let op = match &node.op {
            NodeOp::Input(n) => {
                return graph.inputs()[*n as usize].layout.strides()[dim] == 1;
            }
            NodeOp::Op(op) => op,
        };
        dim = match (op.as_permute(), op.as_unsqueeze()) {
            (Some(Permute(order)), _) => order[dim] as usize,
            (_, Some(new)) if dim != new.dim => dim - usize::from(dim > new.dim),
            _ if op.as_cast().is_some() => dim,
            _ => return dim + 1 == graph.shape(at).rank(),
        };
        match node.args.first() {
            Some(Operand::Value(from)) => at = *from,
            _ => return false,
        }
    }
}
