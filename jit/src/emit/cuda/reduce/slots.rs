//! Partial results of the pieces of split rows, in scratch memory.

use super::super::kernel::Writer;
use super::Reduction;
use crate::body::Value;
use std::fmt::Write as _;

/// Bytes of a partial result of a split reduction: the value, then its position.
pub(in crate::emit::cuda) const SLOT: usize = 16;

impl Writer<'_> {
    /// What pieces leave partial results of: the reductions, or the folds of the scans.
    pub(in crate::emit::cuda) fn put_in_slots(&self) -> Vec<Value> {
        match self.stages.reductions() {
            none if none.is_empty() => self.stages.scans(self.node),
            all => all,
        }
    }

    /// The address of a partial result: `unit` counts the pieces of all rows.
    pub(in crate::emit::cuda) fn slot(&self, unit: &str, r: &Reduction) -> String {
        let all = self.put_in_slots();
        let at = all.iter().position(|&id| id == r.id).unwrap_or_default();
        format!(
            "a.scratch + ((long long)({unit}) * {} + {at}) * {SLOT}",
            all.len()
        )
    }

    /// Writes the partial result of a piece.
    pub(in crate::emit::cuda) fn put(&self, out: &mut String, r: &Reduction, writes: &str) {
        let (id, ty, name) = (r.id, r.ty(), Self::name(r));
        let slot = self.slot("row * pieces + piece", r);
        let place = match r.has_position() {
            true => format!(" ((long long *)s)[1] = q{id};"),
            false => String::new(),
        };
        let _ = writeln!(
            out,
            "  if ({writes}) {{ char *s = {slot}; *({ty} *)s = {name};{place} }}"
        );
    }

    /// Takes partial result `c` into the accumulator.
    pub(in crate::emit::cuda) fn take(&mut self, out: &mut String, r: &Reduction) {
        let slot = self.slot("row * pieces + c", r);
        let merge = self.merge(r, "x", "i");
        let ty = r.ty();
        let place = match r.has_position() {
            true => "const long long i = ((const long long *)s)[1]; ",
            false => "",
        };
        let _ = writeln!(
            out,
            "    {{ const char *s = {slot}; const {ty} x = *(const {ty} *)s; {place}{merge} }}"
        );
    }
}
