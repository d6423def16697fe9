//! Random values as C: Philox by (key, offset, element), the same numbers as the ready-made kernels draw.

use super::kernel::Writer;
use crate::body::{BodyOp, Value};
use ferrotrace_kernels::{Distribution, support};
use ferrotrace_runtime::DType;

/// The expression of a vector of random values; `index` is a vector of row-major positions.
pub(super) fn expression(
    w: &mut Writer<'_>,
    dist: Distribution,
    dtype: DType,
    args: &[Value],
    index: &str,
) -> String {
    let number = |w: &Writer<'_>, v: Value| match w.node.body.value(v).op {
        BodyOp::Number(n) => format!("a->scalar[{n}]"),
        _ => format!("v{v}[0]"),
    };
    let key = format!("(unsigned long){}", number(w, args[0]));
    let offset = format!("(unsigned long){}", number(w, args[1]));
    let common = [key.as_str(), offset.as_str(), index];
    match dist {
        Distribution::Uniform => w.call("uniform", dtype, &common),
        Distribution::Normal => w.call("normal", dtype, &common),
        Distribution::Int => {
            let (low, high) = (number(w, args[2]), number(w, args[3]));
            let low = format!("(long){low}");
            let range = format!("(unsigned long)({high} - {low})");
            let draw = w.call(
                "randint",
                DType::I64,
                &[common[0], common[1], common[2], &low, &range],
            );
            cast(w, DType::I64, dtype, draw)
        }
        Distribution::Bernoulli => {
            w.needs.insert(support::need("ft_bernoulli", w.lanes));
            let p = format!("*(const double *)&{}", number(w, args[2]));
            let draw = format!(
                "ft_bernoullix{}({}, {}, {}, {p})",
                w.lanes, common[0], common[1], common[2]
            );
            cast(w, DType::Bool, dtype, draw)
        }
        Distribution::Bits => {
            let draw = w.call("bits63", DType::I64, &common);
            cast(w, DType::I64, dtype, draw)
        }
    }
}

fn cast(w: &mut Writer<'_>, from: DType, to: DType, expr: String) -> String {
    if from == to.compute() {
        return expr;
    }
    let value = w.call(&format!("cast_{}", from.name()), to.compute(), &[&expr]);
    if to.is_half() {
        w.call("round", to, &[&value])
    } else {
        value
    }
}
