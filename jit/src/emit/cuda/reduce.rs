//! Reductions as CUDA C++: a thread's accumulators, and their combination over the threads of a row, in an order that
//! depends on sizes alone (DESIGN: determinism).

use super::kernel::Writer;
use super::shape::Form;
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::support::scalar_type;
use ferrotrace_kernels::{BinaryOp, ReduceKind};
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// A reduction of a fused node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduction {
    /// Its value number.
    pub id: Value,
    /// What is reduced.
    pub value: Value,
    /// What is computed.
    pub kind: ReduceKind,
    /// The accumulator's type: that of the values.
    pub dtype: DType,
    /// Whether it is the fold of a scan.
    pub scan: bool,
}

impl Reduction {
    /// Whether a position is kept beside the value.
    pub fn has_position(&self) -> bool {
        matches!(self.kind, ReduceKind::ArgMax | ReduceKind::ArgMin)
    }

    /// The value no element changes (ir R5).
    pub fn identity(&self) -> String {
        let (least, greatest) = match self.dtype {
            DType::F32 => ("__int_as_float(0xff800000)", "__int_as_float(0x7f800000)"),
            DType::F64 => (
                "__longlong_as_double(0xfff0000000000000LL)",
                "__longlong_as_double(0x7ff0000000000000LL)",
            ),
            DType::I64 => ("(-0x7fffffffffffffffLL - 1)", "0x7fffffffffffffffLL"),
            DType::I32 => ("(-0x7fffffff - 1)", "0x7fffffff"),
            DType::I16 => ("-32768", "32767"),
            DType::I8 => ("-128", "127"),
            DType::U8 => ("0", "255"),
            DType::Bool | DType::F16 | DType::BF16 => ("0", "1"),
        };
        let value = match self.kind {
            // The first element of a scan stays −0.
            ReduceKind::Sum if self.scan && self.dtype.is_float() => "-0.0",
            ReduceKind::Sum | ReduceKind::Mean | ReduceKind::Any => "0",
            ReduceKind::Prod | ReduceKind::All => "1",
            ReduceKind::Max | ReduceKind::ArgMax => least,
            ReduceKind::Min | ReduceKind::ArgMin => greatest,
        };
        format!("({})({value})", self.ty())
    }

    fn operator(&self) -> BinaryOp {
        match self.kind {
            ReduceKind::Sum | ReduceKind::Mean => BinaryOp::Add,
            ReduceKind::Prod => BinaryOp::Mul,
            ReduceKind::Any => BinaryOp::LogicalOr,
            ReduceKind::All => BinaryOp::LogicalAnd,
            ReduceKind::Max | ReduceKind::ArgMax => BinaryOp::Maximum,
            ReduceKind::Min | ReduceKind::ArgMin => BinaryOp::Minimum,
        }
    }

    /// The C++ type of its values.
    pub fn ty(&self) -> &'static str {
        scalar_type(self.dtype)
    }

    /// Whether (x, i) is to replace (best, place): a greater value wins, NaN over all, the first of equals stays; no
    /// place is negative but that of nothing (ir R3).
    fn better(&self, x: &str, i: &str, best: &str, place: &str) -> String {
        let wins = match self.kind {
            ReduceKind::ArgMax => ">",
            _ => "<",
        };
        format!(
            "({i} >= 0 && ({place} < 0 || {x} {wins} {best} || ({x} != {x} && {best} == {best}) || \
             (({x} == {best} || ({x} != {x} && {best} != {best})) && {i} < {place})))"
        )
    }
}

/// Chunks of which a thread's accumulators take in the elements before they are moved to a total, where a thread has more:
/// an accumulator that is large beside its terms rounds all of them alike.
const RUN: usize = 32;

/// Bytes of a partial result of a split reduction: the value, then its position.
pub(super) const SLOT: usize = 16;

impl Writer<'_> {
    /// The reduction, or scan, of a value number.
    pub(super) fn reduction(&self, id: Value) -> Reduction {
        let op = &self.node.body.value(id).op;
        match *op {
            BodyOp::Reduce { kind, value, .. } | BodyOp::Scan { kind, value } => Reduction {
                id,
                value,
                kind,
                dtype: self.node.body.value(value).dtype,
                scan: matches!(op, BodyOp::Scan { .. }),
            },
            _ => unreachable!("only reductions are asked for"),
        }
    }

    pub(super) fn combine(&mut self, r: &Reduction, a: &str, b: &str) -> String {
        // One instruction, which differs in the sign of zeros alone.
        if r.dtype == DType::F32 && !self.node.exact && !r.has_position() {
            match r.kind {
                ReduceKind::Max => return format!("ft_greatest({a}, {b})"),
                ReduceKind::Min => return format!("ft_smallest({a}, {b})"),
                _ => {}
            }
        }
        r.operator().scalar_expr(r.dtype, a, b, &mut self.needs)
    }

    /// Whether a sum's accumulators are moved to a total, which keeps what its own additions round away (two-sum, Knuth).
    pub(super) fn is_long(&self, r: &Reduction) -> bool {
        let at_once = match self.shape.form {
            Form::Inner { threads } => threads as usize,
            Form::Outer { groups, .. } => groups as usize,
            Form::Pointwise | Form::Tiled => return false,
        };
        let is_sum = matches!(r.kind, ReduceKind::Sum | ReduceKind::Mean);
        let walked = !self.finishing && (self.folding || !(r.scan || self.scans));
        walked && is_sum && r.dtype == DType::F32 && self.shape.per_piece().div_ceil(at_once) > RUN
    }

    /// Those of the sums that are long, each with the lanes of its accumulators.
    pub(super) fn long(&self, reductions: &[Reduction]) -> Vec<(Reduction, usize)> {
        let lanes = |r: &Reduction| match self.online.iter().any(|o| o.sum == r.id) {
            true => 1,
            false => self.shape.lanes,
        };
        let long = reductions.iter().filter(|r| self.is_long(r));
        long.map(|r| (*r, lanes(r))).collect()
    }

    /// A loop over the chunks `c` from `start` to `hi`, of which every [`RUN`] the accumulators of long sums are moved.
    pub(super) fn in_runs(
        &self,
        long: &[(Reduction, usize)],
        (start, step): (&str, usize),
        (unroll, chunk): (&str, &str),
    ) -> String {
        let loops = |from: &str, to: &str| {
            format!("{unroll}  for (ft_int c = {from}; c < {to}; c += {step}) {{\n{chunk}  }}\n")
        };
        if long.is_empty() {
            return loops(start, "hi");
        }
        let (each, moved) = (loops("run", "stop"), Self::moves(long));
        let run = step * RUN;
        format!(
            "  for (ft_int run = {start}; run < hi; run += {run}) {{\n  const ft_int stop = ft_least(run + {run}, hi);\n{each}{moved}  }}\n"
        )
    }

    /// After some chunks of a loop that counts them in `taken`: moves the accumulators of long sums, if it is time.
    pub(super) fn after_chunks(&self, long: &[(Reduction, usize)], chunks: usize) -> String {
        match long.is_empty() {
            true => String::new(),
            false => format!(
                "  if ((taken += {chunks}) >= {RUN}) {{\n  taken = 0;\n{}  }}\n",
                Self::moves(long)
            ),
        }
    }

    fn moves(long: &[(Reduction, usize)]) -> String {
        let all = long.iter();
        all.map(|(r, lanes)| format!("  {}\n", Self::moved(r, *lanes)))
            .collect()
    }

    /// Leaves the total of a long sum in its first accumulator.
    pub(super) fn settle(&self, out: &mut String, r: &Reduction, lanes: usize) {
        if self.is_long(r) {
            let (id, moved) = (r.id, Self::moved(r, lanes));
            let _ = writeln!(
                out,
                "  {moved}\n  a{id}[0] = ft_both_parts(sum{id}, low{id}); sum{id} = low{id} = 0;"
            );
        }
    }

    /// Adds the lanes of a long sum's accumulators to its total, and begins them anew.
    fn moved(r: &Reduction, lanes: usize) -> String {
        let id = r.id;
        let lanes_of = tree(&format!("a{id}"), 0, lanes);
        let anew: String = (0..lanes).map(|l| format!("a{id}[{l}] = ")).collect();
        format!("ft_two_sum(sum{id}, low{id}, {lanes_of}); {anew}0;")
    }

    /// Declares a thread's accumulators: one a lane, or one with its place.
    pub(super) fn declare_accumulators(&self, out: &mut String, r: &Reduction, lanes: usize) {
        let (id, ty, identity) = (r.id, r.ty(), r.identity());
        if r.has_position() {
            let _ = writeln!(out, "  {ty} a{id} = {identity}; long long q{id} = -1;");
        } else {
            let each = vec![identity; lanes].join(", ");
            let _ = writeln!(out, "  {ty} a{id}[{lanes}] = {{{each}}};");
        }
        if self.is_long(r) {
            let _ = writeln!(out, "  {ty} sum{id} = 0, low{id} = 0; int turn{id} = 0;");
        }
    }

    /// Takes lane `l`'s value into the accumulators, if it counts.
    pub(super) fn accumulate(
        &mut self,
        out: &mut String,
        r: &Reduction,
        position: &str,
        pad: &str,
    ) {
        let (id, v, guard) = (r.id, format!("v{}", r.value), self.guard());
        if r.has_position() {
            let (best, place) = (format!("a{id}"), format!("q{id}"));
            let better = r.better(&v, &format!("x{id}"), &best, &place);
            let _ = writeln!(
                out,
                "{pad}{{ const long long x{id} = {position}; if ({guard} && {better}) {{ {best} = {v}; {place} = x{id}; }} }}"
            );
        } else {
            let next = self.combine(r, &format!("a{id}[l]"), &v);
            let _ = writeln!(out, "{pad}if ({guard}) a{id}[l] = {next};");
        }
    }

    /// The lanes of a thread's accumulators as one, `a{id}[0]`, by halves.
    pub(super) fn fold_lanes(&mut self, out: &mut String, r: &Reduction, lanes: usize) {
        self.settle(out, r, lanes);
        let mut width = lanes;
        while width > 1 && !r.has_position() {
            width /= 2;
            for l in 0..width {
                let (a, b) = (
                    format!("a{}[{l}]", r.id),
                    format!("a{}[{}]", r.id, l + width),
                );
                let sum = self.combine(r, &a, &b);
                let _ = writeln!(out, "  {a} = {sum};");
            }
        }
    }

    /// Combines the accumulators of a row's threads: `a{id}` (and `q{id}`) are then the row's in every one of them. The
    /// reductions of a loop share a barrier.
    pub(super) fn gather(
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

    fn name(r: &Reduction) -> String {
        match r.has_position() {
            true => format!("a{}", r.id),
            false => format!("a{}[0]", r.id),
        }
    }

    /// Takes another value `{other}` (and place `{place}`) into the accumulator.
    fn merge(&mut self, r: &Reduction, other: &str, place: &str) -> String {
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

    /// Declares the finished value.
    pub(super) fn finished(&self, out: &mut String, r: &Reduction) {
        let (id, ty) = (r.id, r.ty());
        let _ = match r.has_position() {
            true => writeln!(out, "  const long long r{id} = q{id};"),
            false => writeln!(out, "  const {ty} r{id} = a{id}[0];"),
        };
    }

    /// What pieces leave partial results of: the reductions, or the folds of the scans.
    pub(super) fn put_in_slots(&self) -> Vec<Value> {
        match self.stages.reductions() {
            none if none.is_empty() => self.stages.scans(self.node),
            all => all,
        }
    }

    /// The address of a partial result: `unit` counts the pieces of all rows.
    pub(super) fn slot(&self, unit: &str, r: &Reduction) -> String {
        let all = self.put_in_slots();
        let at = all.iter().position(|&id| id == r.id).unwrap_or_default();
        format!(
            "a.scratch + ((long long)({unit}) * {} + {at}) * {SLOT}",
            all.len()
        )
    }

    /// Writes the partial result of a piece.
    pub(super) fn put(&self, out: &mut String, r: &Reduction, writes: &str) {
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
    pub(super) fn take(&mut self, out: &mut String, r: &Reduction) {
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

/// The sum of elements `from` to `to` of an array, by halves.
pub(super) fn tree(name: &str, from: usize, to: usize) -> String {
    match to - from {
        1 => format!("{name}[{from}]"),
        n => {
            let middle = from + n / 2;
            format!(
                "({} + {})",
                tree(name, from, middle),
                tree(name, middle, to)
            )
        }
    }
}
