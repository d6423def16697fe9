//! The operators of PyTorch that programs may hold: one table, each with its overloads and what it is here.

mod activation;
mod backward;
mod complex;
mod convolve;
mod create;
mod index;
mod join;
mod linalg;
mod loss;
mod names;
mod norm;
mod number;
mod pointwise;
mod pool;
mod product;
mod quantized;
mod random;
mod recurrent;
mod reduce;
mod resample;
mod scatter;
mod sort;
mod view;

use super::call::{Arg, Call, Results, Run, Value};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// Operators: a name of `aten`, or a whole name where it has a dot; its overloads; what it is.
type Table = &'static [(&'static str, &'static str, Run)];

const TABLES: [Table; 29] = [
    activation::TABLE,
    backward::TABLE,
    convolve::TABLE,
    create::TABLE,
    index::TABLE,
    join::TABLE,
    join::stack::TABLE,
    linalg::TABLE,
    loss::TABLE,
    norm::TABLE,
    number::FUNCTIONS,
    number::TABLE,
    pointwise::PLAIN,
    pointwise::TABLE,
    pointwise::polynomials::TABLE,
    pointwise::special::TABLE,
    pool::TABLE,
    product::TABLE,
    quantized::TABLE,
    random::TABLE,
    recurrent::TABLE,
    reduce::TABLE,
    reduce::norms::TABLE,
    reduce::statistics::TABLE,
    resample::TABLE,
    resample::grid::TABLE,
    scatter::TABLE,
    sort::TABLE,
    view::TABLE,
];

/// An operator that is known.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub run: Run,
    /// Whether the result takes the place of the first argument.
    pub writes: bool,
}

fn full_name(name: &str, overload: &str) -> String {
    let space = if name.contains('.') { "" } else { "aten." };
    let dot = if overload.is_empty() { "" } else { "." };
    format!("{space}{name}{dot}{overload}")
}

fn keyed(tables: &[Table]) -> HashMap<String, Run> {
    let mut known = HashMap::new();
    for (name, overloads, run) in tables.iter().copied().flatten() {
        for overload in overloads.split(' ') {
            known.insert(full_name(name, overload), *run);
        }
    }
    known
}

fn table() -> &'static HashMap<String, Run> {
    static TABLE: OnceLock<HashMap<String, Run>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut known = keyed(&TABLES);
        for (name, of) in names::OTHER_NAMES {
            if let Some(&run) = known.get(*of) {
                known.insert((*name).to_owned(), run);
            }
        }
        known
    })
}

/// The names of all operators that are known, sorted.
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = table().keys().map(String::as_str).collect();
    names.extend(complex::names());
    names.sort_unstable();
    names.dedup();
    names
}

/// The operator of a name such as `aten.add.Tensor`. `aten.add_.Tensor` is the same, written into its first argument;
/// `aten.view_copy.default` is `aten.view.default`, since tensors are values.
pub(super) fn find(target: &str) -> Option<Found> {
    if let Some(&run) = table().get(target) {
        return Some(Found { run, writes: false });
    }
    if let Some(run) = complex::find(target) {
        return Some(Found { run, writes: false });
    }
    let (path, overload) = target.rsplit_once('.')?;
    // Another shape for the tensor itself: its name stands for what it was.
    let reshaped = match path {
        "aten.transpose_" | "aten.swapaxes_" => Some("aten.transpose.int"),
        "aten.t_" => Some("aten.t.default"),
        "aten.squeeze_" => Some("aten.squeeze.dims"),
        "aten.unsqueeze_" => Some("aten.unsqueeze.default"),
        "aten.detach_" => Some("aten.detach.default"),
        "aten.as_strided_" => Some("aten.as_strided.default"),
        _ => None,
    };
    if let Some(&run) = reshaped.and_then(|name| table().get(name)) {
        return Some(Found { run, writes: false });
    }
    // Overloads that have another name where the first argument is written.
    let written = match target {
        "aten.pow_.Tensor" => Some("aten.pow.Tensor_Tensor"),
        "aten.float_power_.Tensor" => Some("aten.float_power.Tensor_Tensor"),
        "aten.floor_divide_.Tensor" => Some("aten.floor_divide.default"),
        "aten.ldexp_.default" => Some("aten.ldexp.Tensor"),
        _ => None,
    };
    if let Some(&run) = written.and_then(|name| table().get(name)) {
        return Some(Found { run, writes: true });
    }
    if let Some(base) = path.strip_suffix('_').filter(|base| !base.ends_with('_'))
        && let Some(&run) = table().get(&format!("{base}.{overload}"))
    {
        return Some(Found { run, writes: true });
    }
    let base = path.strip_suffix("_copy")?;
    let run = *table().get(&format!("{base}.{overload}"))?;
    Some(Found { run, writes: false })
}

/// Whether an operator's results share memory with its first argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alias {
    No,
    View,
    /// Where memory allows, or nothing is to be done.
    Maybe,
}

/// What PyTorch says of an operator's results.
pub(super) fn alias(target: &str, args: &[(Arc<str>, Arg)]) -> Alias {
    let name = target.strip_prefix("aten.").unwrap_or("");
    let name = name.split('.').next().unwrap_or("").trim_end_matches('_');
    let is_true = |name: &str| {
        let found = args.iter().find(|(key, _)| &**key == name);
        matches!(found, Some((_, Arg::Bool(true))))
    };
    match name {
        "alias" | "detach" | "lift_fresh" | "view" | "view_as" | "_unsafe_view"
        | "_reshape_alias" | "unflatten" | "unsqueeze" | "squeeze" | "permute" | "transpose"
        | "t" | "numpy_T" | "mT" | "mH" | "movedim" | "moveaxis" | "swapaxes" | "swapdims"
        | "expand" | "expand_as" | "broadcast_to" | "slice" | "select" | "narrow" | "split"
        | "split_with_sizes" | "chunk" | "unsafe_chunk" | "tensor_split" | "unbind" | "hsplit"
        | "vsplit" | "dsplit" | "diagonal" | "unfold" | "as_strided" | "positive"
        | "view_as_real" | "view_as_complex" | "real" | "imag" => Alias::View,
        "reshape" | "reshape_as" | "flatten" | "contiguous" | "ravel" => Alias::Maybe,
        "to" | "type_as" | "float" | "double" | "half" if !is_true("copy") => Alias::Maybe,
        "dropout" | "alpha_dropout" | "feature_dropout" | "feature_alpha_dropout"
            if !is_true("train") =>
        {
            Alias::View
        }
        _ => Alias::No,
    }
}

/// The arguments that an operator writes without its name saying so, whose new values are behind its results.
pub(super) fn mutated(target: &str, args: &[(Arc<str>, Arg)]) -> &'static [&'static str] {
    let trains = |name: &str| {
        let found = args.iter().find(|(key, _)| &**key == name);
        let is = matches!(found, Some((_, Arg::Bool(true))));
        let has = args
            .iter()
            .any(|(key, arg)| &**key == "running_mean" && matches!(arg, Arg::Slot(_)));
        is && has
    };
    const RUNNING: &[&str] = &["running_mean", "running_var"];
    match target {
        "aten.batch_norm.default"
        | "aten.native_batch_norm.default"
        | "aten._native_batch_norm_legit.default"
            if trains("training") || trains("train") =>
        {
            RUNNING
        }
        "aten.instance_norm.default" if trains("use_input_stats") => RUNNING,
        "aten._batch_norm_with_update.default" => RUNNING,
        "aten.atan2.out" => &["out"],
        _ => &[],
    }
}

/// Runs a step's operator, on complex numbers where an argument has them.
pub(super) fn run(target: &str, run: Run, call: &Call<'_>) -> Results {
    let mut has_complex = false;
    for (_, arg) in call.args {
        has_complex |= matches!(arg, Arg::Complex(..));
        arg.each_slot(&mut |slot| has_complex |= matches!(call.values[slot], Value::Complex(_)));
    }
    match complex::find(target) {
        _ if has_complex => complex::run(target, run, call),
        Some(own) if complex::makes(target) => own(call),
        _ => run(call),
    }
}

/// Whether an operator says which places of its first operand's memory it reads or writes.
pub(super) fn reads_memory(target: &str) -> bool {
    target.starts_with("aten.as_strided")
}

/// Whether a step is kept where nothing reads its results.
pub(super) fn is_kept(target: &str) -> bool {
    target.contains("assert") || target.contains("constrain_range")
}
