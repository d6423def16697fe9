//! The second kernel of a split reduction.

use super::kernel::Writer;
use super::reduce::Reduction;
use super::shape::Form;
use std::fmt::Write as _;

impl Writer<'_> {
    /// Its statements: each row's partial results in order, then what follows for it.
    pub(super) fn finish_text(&mut self, reductions: &[Reduction]) -> String {
        self.finishing = true;
        let (rows, pieces) = (self.node.rows(), self.shape.pieces());
        let (rows, pieces) = (self.param(rows as i64), self.param(pieces as i64));
        let (per_row, threads) = (self.shape.finish_per_row, self.shape.finish_threads);
        let mut out = String::new();
        let _ = writeln!(
            out,
            "  const ft_int pieces = {pieces}, row = (ft_int)ft_block * {} + (ft_int)threadIdx.x / {per_row};\n  \
             if (row >= {rows}) return;\n  const int t = threadIdx.x % {per_row};",
            threads / per_row
        );
        self.decode_row(&mut out);
        let mut body = String::new();
        self.row_stage(&mut body, 0, Some("t == 0"));
        for r in reductions {
            self.declare_accumulators(&mut body, r, 1);
        }
        let _ = writeln!(body, "  for (ft_int c = t; c < pieces; c += {per_row}) {{");
        let (moments, plain) = self.parted(reductions);
        for r in &plain {
            self.take(&mut body, r);
        }
        body.push_str("  }\n");
        let form = Form::Inner { threads: per_row };
        self.gather(&mut body, &plain, 1, &form);
        for r in &plain {
            self.finished(&mut body, r);
        }
        let mut next = 1;
        if !moments.is_empty() {
            self.row_stage(&mut body, 1, Some("t == 0"));
            let _ = writeln!(body, "  for (ft_int c = t; c < pieces; c += {per_row}) {{");
            self.take_moments(&mut body);
            body.push_str("  }\n");
            self.gather(&mut body, &moments, 1, &form);
            for r in &moments {
                self.finished(&mut body, r);
            }
            next = 2;
        }
        for s in next..self.stages.row.len() {
            self.row_stage(&mut body, s, Some("t == 0"));
        }
        out.push_str(&self.preamble_text());
        out.push_str(&body);
        out
    }
}
