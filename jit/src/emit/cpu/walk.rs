//! What memory a kernel goes through from its first unit of work to its last: kernels that go through one tensor in the
//! same order may do so together, slice by slice (scheduler X2-01).

use crate::body::{BodyOp, Source};
use crate::emit::cpu::kernel::Writer;
use crate::emit::cpu::pieces::Cut;

impl Writer<'_> {
    /// The variable that grows along the units, if their order is that of one variable's values.
    fn leading(&self, cut: &Cut) -> Option<usize> {
        if self.tile.is_some() || self.node.product.is_some() || self.node.feeds {
            return None;
        }
        let row = self.row_vars().into_iter().find(|&v| self.extents[v] > 1);
        if row.is_some() {
            return row;
        }
        let walked = self.walked_vars().first().copied();
        match (self.outer, self.is_chunked()) {
            (true, true) if cut.pieces == 1 => walked,
            (true, _) => None,
            (false, _) => walked.or_else(|| self.vector_var().map(|v| v.0 as usize)),
        }
    }

    /// The tensors that the kernel reads once from end to end, in the order of its units, and how many bytes each is.
    pub(super) fn walks(&self, cut: &Cut) -> Vec<(Source, usize)> {
        let Some(lead) = self.leading(cut) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for (v, value) in self.node.body.values().iter().enumerate() {
            let BodyOp::Load {
                source,
                index,
                mask: None,
                dtype,
            } = &value.op
            else {
                continue;
            };
            if !index.is_affine() || !self.indices.contains_key(&(v as u32)) {
                continue;
            }
            let coefficient = |v: usize| index.coefficient(crate::expr::Var(v as u32));
            let step = coefficient(lead);
            let others = (0..self.extents.len()).filter(|&v| v != lead);
            // The elements of one value of the variable lie between those of the values around it, and fill what is there.
            let reach = others
                .map(|v| (coefficient(v), self.extents[v] as i64 - 1))
                .try_fold(0i64, |reach, (c, last)| (c >= 0).then(|| reach + c * last));
            let fills = reach.is_some_and(|reach| reach < step && reach + 1 > step / 2);
            if fills {
                let bytes = step.unsigned_abs() as usize * self.extents[lead] * dtype.size();
                found.push((*source, bytes));
            }
        }
        found.dedup();
        found
    }
}
