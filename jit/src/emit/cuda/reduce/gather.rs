//! The combination of what the threads of a row reduced: over a warp by shuffles, over the warps or groups of a block
//! through shared memory.

use super::super::kernel::Writer;
use super::super::shape::Form;
use super::Reduction;
use ferrotrace_kernels::ReduceKind;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

impl Writer<'_> {
    /// Combines the accumulators of a row's threads: `a{id}` (and `q{id}`) are then the row's in every one of them. The
    /// reductions of a loop share a barrier.
    pub(in crate::emit::cuda) fn gather(
        &mut self,
        out: &mut String,
        reductions: &[Reduction],
        lanes: usize,
        form: &Form,
    ) {
        for r in reductions {
            self.fold_lanes(out, r, lanes);
        }
        match *form {
            Form::Inner { threads } => {
                for r in reductions {
                    self.over_warp(out, r);
                }
                if threads > 32 && !reductions.is_empty() {
                    let warps = threads / 32;
                    for r in reductions {
                        let one = "if ((threadIdx.x & 31) == 0) ";
                        self.share(out, r, (one, "[threadIdx.x >> 5]"), &format!("[{warps}]"));
                    }
                    out.push_str("  __syncthreads();\n");
                    for r in reductions {
                        self.over_warps(out, r, warps);
                    }
                }
            }
            Form::Outer { width, groups } => {
                for r in reductions {
                    self.share(out, r, ("", "[ty][tx]"), &format!("[{groups}][{width}]"));
                }
                if !reductions.is_empty() {
                    out.push_str("  __syncthreads();\n");
                }
                for r in reductions {
                    self.over_groups(out, r, groups);
                }
            }
            Form::Pointwise | Form::Tiled => {}
        }
    }

    /// Puts a thread's result into shared memory of this reduction alone, so that one barrier is enough.
    fn share(&self, out: &mut String, r: &Reduction, (when, at): (&str, &str), size: &str) {
        let (id, ty, name) = (r.id, r.ty(), Self::name(r));
        let _ = writeln!(
            out,
            "  __shared__ {ty} w{id}{size};\n  {when}w{id}{at} = {name};"
        );
        if r.has_position() {
            let _ = writeln!(
                out,
                "  __shared__ long long y{id}{size};\n  {when}y{id}{at} = q{id};"
            );
        }
    }

    pub(super) fn name(r: &Reduction) -> String {
        match r.has_position() {
            true => format!("a{}", r.id),
            false => format!("a{}[0]", r.id),
        }
    }

    /// Takes another value `{other}` (and place `{place}`) into the accumulator.
    pub(super) fn merge(&mut self, r: &Reduction, other: &str, place: &str) -> String {
        let name = Self::name(r);
        if r.has_position() {
            let q = format!("q{}", r.id);
            let better = r.better(other, place, &name, &q);
            return format!("if ({better}) {{ {name} = {other}; {q} = {place}; }}");
        }
        let sum = self.combine(r, &name, other);
        format!("{name} = {sum};")
    }

    /// Whether both of two lanes that combine each other's values get the same bits.
    fn symmetric(&self, r: &Reduction) -> bool {
        use ReduceKind::{Max, Mean, Min, Prod, Sum};
        let one_instruction = r.dtype == DType::F32 && !self.node.exact;
        !r.has_position()
            && (matches!(r.kind, Sum | Prod | Mean)
                || one_instruction && matches!(r.kind, Max | Min))
    }

    /// By halves over neighbours of `lanes` lanes, into all of them.
    fn over_lanes(&mut self, out: &mut String, r: &Reduction, lanes: u32) {
        let (name, ty) = (Self::name(r), r.ty());
        let wide = if r.dtype.size() < 4 { "(int)" } else { "" };
        let merge = self.merge(r, "x", "i");
        let _ = writeln!(
            out,
            "  for (int o = {}; o > 0; o >>= 1) {{\n    const {ty} x = ({ty})__shfl_xor_sync(~0u, {wide}{name}, o);\n    \
             {merge}\n  }}",
            lanes / 2
        );
    }

    /// By halves over a warp, then the first lane's to all.
    fn over_warp(&mut self, out: &mut String, r: &Reduction) {
        if self.symmetric(r) {
            return self.over_lanes(out, r, 32);
        }
        let (name, pad) = (Self::name(r), "  ");
        let (ty, q) = (r.ty(), format!("q{}", r.id));
        let wide = if r.dtype.size() < 4 { "(int)" } else { "" };
        let down = |x: &str, ty: &str| format!("({ty})__shfl_down_sync(~0u, {x}, o)");
        let _ = writeln!(out, "{pad}for (int o = 16; o > 0; o >>= 1) {{");
        let _ = writeln!(
            out,
            "{pad}  const {ty} x = {};",
            down(&format!("{wide}{name}"), ty)
        );
        if r.has_position() {
            let _ = writeln!(out, "{pad}  const long long i = {};", down(&q, "long long"));
        }
        let merge = self.merge(r, "x", "i");
        let _ = writeln!(out, "{pad}  {merge}\n{pad}}}");
        let _ = writeln!(
            out,
            "{pad}{name} = ({ty})__shfl_sync(~0u, {wide}{name}, 0);"
        );
        if r.has_position() {
            let _ = writeln!(out, "{pad}{q} = __shfl_sync(~0u, {q}, 0);");
        }
    }

    /// Over the warps of a block, whose results are shared: every warp combines them all.
    fn over_warps(&mut self, out: &mut String, r: &Reduction, warps: u32) {
        let (id, name, identity) = (r.id, Self::name(r), r.identity());
        if self.symmetric(r) && warps.is_power_of_two() {
            let _ = writeln!(out, "  {name} = w{id}[threadIdx.x & {}];", warps - 1);
            return self.over_lanes(out, r, warps);
        }
        let at = "threadIdx.x & 31";
        let _ = writeln!(
            out,
            "  {name} = ({at}) < {warps} ? w{id}[{at}] : {identity};"
        );
        if r.has_position() {
            let _ = writeln!(out, "  q{id} = ({at}) < {warps} ? y{id}[{at}] : -1;");
        }
        self.over_warp(out, r);
    }

    /// Over the groups of a block that share its rows, a thread each, in order.
    fn over_groups(&mut self, out: &mut String, r: &Reduction, groups: u32) {
        let (id, name) = (r.id, Self::name(r));
        let _ = writeln!(out, "  {name} = w{id}[0][tx];");
        if r.has_position() {
            let _ = writeln!(out, "  q{id} = y{id}[0][tx];");
        }
        let merge = self.merge(r, &format!("w{id}[k][tx]"), &format!("y{id}[k][tx]"));
        let _ = writeln!(out, "  for (int k = 1; k < {groups}; k++) {{ {merge} }}");
    }
}
