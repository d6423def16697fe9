//! What the JSON of an exported program says (`torch/_export/serde/schema.py` of PyTorch's repository), read into plain
//! values. Fields that are not listed here are ignored, as those of newer minor versions must be.

use crate::DType;
use crate::io::json::Tree;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The major version of the schema that is read: PyTorch 2.6 and later.
const MAJOR: i64 = 8;

type Result<T, E = String> = std::result::Result<T, E>;

/// An exported program.
#[derive(Debug)]
pub(super) struct Model {
    pub graph: Graph,
    pub inputs: Vec<InputSpec>,
    pub outputs: Vec<OutputSpec>,
    /// The least and the greatest value of a symbol.
    pub ranges: Vec<(String, Option<i64>, Option<i64>)>,
    pub guards: Vec<String>,
    /// Where inputs and outputs stand in what Python gives and gets.
    pub structure: Option<Structure>,
}

/// A graph of operators.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    pub inputs: Vec<Arg>,
    pub outputs: Vec<Arg>,
    pub nodes: Vec<Node>,
    pub metas: HashMap<String, Meta>,
    /// The expression of a symbolic integer, by name.
    pub symbols: HashMap<String, Size>,
}

/// PyTorch's descriptions of the nested structures that are given and returned, and the names of the arguments.
#[derive(Clone, Debug)]
pub(super) struct Structure {
    pub inputs: String,
    pub outputs: String,
    pub names: Vec<String>,
}

/// One operator, applied.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub target: String,
    /// By the names of the operator's schema.
    pub inputs: Vec<(String, Arg)>,
    pub outputs: Vec<Arg>,
    /// Its own name, which earlier minor versions do not say.
    pub name: Option<String>,
    /// The line of the Python program that it comes from, where the archive says it.
    pub line: Option<String>,
}

/// An argument or a result.
#[derive(Clone, Debug)]
pub(super) enum Arg {
    None,
    /// A tensor, or a symbolic number or truth value.
    Name(String),
    Int(i64),
    Float(f64),
    /// The real and the imaginary part of a number.
    Complex(f64, f64),
    Bool(bool),
    Text(String),
    /// By PyTorch's number.
    DType(i64),
    /// A device, a layout or an order of dimensions in memory.
    Place,
    List(Vec<Arg>),
    Graph(Box<Graph>),
    /// What no operator here takes, by its name in the schema.
    Other(String),
}

/// A size that may be an expression.
#[derive(Clone, Debug)]
pub(super) enum Size {
    Is(i64),
    /// An expression of symbols, and its value when the program was exported.
    Expr(String, Option<i64>),
}

/// What is known of a tensor.
#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub dtype: i64,
    pub sizes: Vec<Size>,
    pub strides: Vec<Size>,
    pub offset: Size,
}

/// What an input of the graph is.
#[derive(Clone, Debug)]
pub(super) enum InputSpec {
    User(Arg),
    /// A value that was fixed when the program was exported.
    Constant,
    Parameter(String, String),
    Buffer(String, String),
    TensorConstant(String, String),
    /// What orders operators that have effects: no value.
    Token(String),
    Other(String),
}

/// What an output of the graph is.
#[derive(Clone, Debug)]
pub(super) enum OutputSpec {
    User(Arg),
    /// A result, and the buffer, parameter or input that it replaces.
    Buffer(String, String),
    Input(String, String),
    Token,
    Other(String),
}

/// A dtype by PyTorch's number; `None` for those that tensors here do not have.
pub(super) fn dtype_of(number: i64) -> Option<DType> {
    Some(match number {
        1 => DType::U8,
        2 => DType::I8,
        3 => DType::I16,
        4 => DType::I32,
        5 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        12 => DType::Bool,
        13 => DType::BF16,
        _ => return None,
    })
}

/// PyTorch's numbers of `torch.float16` and `torch.bfloat16`.
pub(super) const HALF: i64 = 6;
pub(super) const BFLOAT16: i64 = 13;

/// PyTorch's number of `torch.float32`.
pub(super) const FLOAT: i64 = 7;

/// The dtype of the parts of complex numbers, by PyTorch's number of theirs.
/// The number of the dtype that the parts of complex numbers have; of a real dtype, its own.
pub(super) fn number_of_part(number: i64) -> i64 {
    let Some(part) = part_of(number) else {
        return number;
    };
    let found = (0..number).find(|&of| dtype_of(of) == Some(part));
    found.unwrap_or(number)
}

pub(super) fn part_of(number: i64) -> Option<DType> {
    Some(match number {
        9 => DType::F16,
        10 => DType::F32,
        11 => DType::F64,
        _ => return None,
    })
}

impl Model {
    /// Reads a document, or says what is wrong with it.
    pub fn read(text: &str) -> Result<Model> {
        let tree = Tree::read(text)?;
        let version = tree.field("schema_version")?;
        let (major, minor) = (
            version.field("major")?.int()?,
            version.field("minor")?.int()?,
        );
        if major != MAJOR {
            let is = if major > MAJOR { "newer" } else { "older" };
            return Err(format!(
                "is of version {major}.{minor} of the schema, which is {is} than {MAJOR}: PyTorch 2.6 and later write \
                 {MAJOR}"
            ));
        }
        let module = tree.field("graph_module")?;
        let graph = Graph::read(module.field("graph")?)?;
        let signature = module.field("signature")?;
        let inputs = signature.field("input_specs")?.items()?;
        let outputs = signature.field("output_specs")?.items()?;
        let mut ranges = Vec::new();
        if let Some(all) = tree.get("range_constraints") {
            for (name, range) in all.entries()? {
                let end = |name| range.get(name).map(Tree::int).transpose();
                ranges.push((name.clone(), end("min_val")?, end("max_val")?));
            }
        }
        let guards = match tree.get("guards_code") {
            Some(all) => texts(all)?,
            None => Vec::new(),
        };
        let called = module
            .get("module_call_graph")
            .and_then(|calls| calls.items().ok()?.first());
        Ok(Model {
            graph,
            structure: called.and_then(Structure::read),
            inputs: inputs.iter().map(InputSpec::read).collect::<Result<_>>()?,
            outputs: outputs
                .iter()
                .map(OutputSpec::read)
                .collect::<Result<_>>()?,
            ranges,
            guards,
        })
    }
}

impl Structure {
    /// Reads what the whole module is called with, where the archive says it.
    fn read(call: &Tree) -> Option<Structure> {
        let signature = call.get("signature")?;
        let text = |name| Some(signature.get(name)?.text().ok()?.to_owned());
        let names = signature.get("forward_arg_names");
        Some(Structure {
            inputs: text("in_spec")?,
            outputs: text("out_spec")?,
            names: names
                .and_then(|names| texts(names).ok())
                .unwrap_or_default(),
        })
    }
}

fn texts(list: &Tree) -> Result<Vec<String>> {
    let text = |item: &Tree| item.text().map(str::to_owned);
    list.items()?.iter().map(text).collect()
}

/// The one entry of a union.
fn union(tree: &Tree) -> Result<(&str, &Tree)> {
    let mut set = tree
        .entries()?
        .iter()
        .filter(|(_, value)| *value != Tree::Null);
    match (set.next(), set.next()) {
        (Some((name, value)), None) => Ok((name, value)),
        _ => Err("has a union of other than one value".to_owned()),
    }
}

impl Graph {
    fn read(tree: &Tree) -> Result<Graph> {
        let args = |name| -> Result<Vec<Arg>> {
            let items = tree.field(name)?.items()?;
            items.iter().map(Arg::read).collect()
        };
        let (mut metas, mut symbols) = (HashMap::new(), HashMap::new());
        for (name, meta) in tree.field("tensor_values")?.entries()? {
            metas.insert(name.clone(), Meta::read(meta)?);
        }
        if let Some(all) = tree.get("sym_int_values") {
            for (name, size) in all.entries()? {
                symbols.insert(name.clone(), Size::read(size)?);
            }
        }
        let nodes = tree.field("nodes")?.items()?;
        Ok(Graph {
            inputs: args("inputs")?,
            outputs: args("outputs")?,
            nodes: nodes.iter().map(Node::read).collect::<Result<_>>()?,
            metas,
            symbols,
        })
    }
}

impl Node {
    fn read(tree: &Tree) -> Result<Node> {
        let mut inputs = Vec::new();
        for input in tree.field("inputs")?.items()? {
            let name = input.field("name")?.text()?.to_owned();
            inputs.push((name, Arg::read(input.field("arg")?)?));
        }
        let outputs = tree.field("outputs")?.items()?;
        Ok(Node {
            target: tree.field("target")?.text()?.to_owned(),
            inputs,
            outputs: outputs.iter().map(Arg::read).collect::<Result<_>>()?,
            name: tree
                .get("name")
                .and_then(|name| Some(name.text().ok()?.to_owned())),
            line: tree
                .get("metadata")
                .and_then(|about| about.get("stack_trace"))
                .and_then(|trace| line_of(trace.text().ok()?)),
        })
    }
}

/// The innermost line of a Python stack that is not one of PyTorch's own modules: `FILE:LINE: TEXT`.
fn line_of(stack: &str) -> Option<String> {
    let mut lines = stack.lines().map(str::trim).peekable();
    let (mut own, mut any) = (None, None);
    while let Some(line) = lines.next() {
        let Some((file, rest)) = line
            .strip_prefix("File \"")
            .and_then(|rest| rest.split_once("\", line "))
        else {
            continue;
        };
        let number = rest.split(',').next().unwrap_or_default();
        let text = lines.next_if(|line| !line.starts_with("File \""));
        let text = text.map(|text| format!(": {text}")).unwrap_or_default();
        let shown = format!("{file}:{number}{text}");
        if !file.replace('\\', "/").contains("/torch/") {
            own = Some(shown.clone());
        }
        any = Some(shown);
    }
    own.or(any)
}

fn named(tree: &Tree) -> Result<Arg> {
    Ok(Arg::Name(tree.field("name")?.text()?.to_owned()))
}

impl Arg {
    /// Reads `Argument` and the smaller unions, whose names mean the same.
    fn read(tree: &Tree) -> Result<Arg> {
        let (kind, value) = union(tree)?;
        let list = |item: fn(&Tree) -> Result<Arg>| {
            let items = value.items()?;
            Ok::<_, String>(Arg::List(items.iter().map(item).collect::<Result<_>>()?))
        };
        Ok(match kind {
            "as_none" => Arg::None,
            "as_tensor" => named(value)?,
            "as_tensors" => list(named)?,
            "as_nested_tensors" => list(|inner| {
                let items = inner.items()?;
                Ok(Arg::List(items.iter().map(named).collect::<Result<_>>()?))
            })?,
            "as_name" => Arg::Name(value.text()?.to_owned()),
            "as_int" => Arg::Int(value.int()?),
            "as_ints" => list(|item| Ok(Arg::Int(item.int()?)))?,
            "as_float" => Arg::Float(value.float()?),
            "as_complex" => {
                Arg::Complex(value.field("real")?.float()?, value.field("imag")?.float()?)
            }
            "as_floats" => list(|item| Ok(Arg::Float(item.float()?)))?,
            "as_bool" => Arg::Bool(value.bool()?),
            "as_bools" => list(|item| Ok(Arg::Bool(item.bool()?)))?,
            "as_string" | "as_operator" => Arg::Text(value.text()?.to_owned()),
            "as_strings" => list(|item| Ok(Arg::Text(item.text()?.to_owned())))?,
            "as_sym_int" | "as_sym_bool" | "as_sym_float" | "as_optional_tensor" => {
                Arg::read(value)?
            }
            "as_sym_ints" | "as_sym_bools" | "as_sym_floats" | "as_optional_tensors" => {
                list(Arg::read)?
            }
            "as_scalar_type" => Arg::DType(value.int()?),
            "as_memory_format" | "as_layout" | "as_device" => Arg::Place,
            "as_graph" => Arg::Graph(Box::new(Graph::read(value.field("graph")?)?)),
            other => Arg::Other(other.to_owned()),
        })
    }
}

impl Size {
    fn read(tree: &Tree) -> Result<Size> {
        let (kind, value) = union(tree)?;
        match kind {
            "as_int" => Ok(Size::Is(value.int()?)),
            "as_expr" => {
                let hint = value.get("hint").and_then(|hint| hint.get("as_int"));
                let text = value.field("expr_str")?.text()?.to_owned();
                Ok(Size::Expr(text, hint.map(Tree::int).transpose()?))
            }
            other => Err(format!("has a size {other:?}")),
        }
    }

    /// The size that the program was exported with, if that is known.
    pub fn hint(&self) -> Option<i64> {
        match self {
            Size::Is(size) => Some(*size),
            Size::Expr(_, hint) => *hint,
        }
    }
}

impl Meta {
    /// Reads `TensorMeta`.
    pub fn read(tree: &Tree) -> Result<Meta> {
        let sizes = |name| -> Result<Vec<Size>> {
            let items = tree.field(name)?.items()?;
            items.iter().map(Size::read).collect()
        };
        Ok(Meta {
            dtype: tree.field("dtype")?.int()?,
            sizes: sizes("sizes")?,
            strides: sizes("strides")?,
            offset: Size::read(tree.field("storage_offset")?)?,
        })
    }

    /// Whether elements lie in row-major order, by the sizes that the program was exported with.
    pub fn is_contiguous(&self) -> bool {
        let mut step = 1;
        for (size, stride) in self.sizes.iter().zip(&self.strides).rev() {
            let (Some(size), Some(stride)) = (size.hint(), stride.hint()) else {
                return true;
            };
            if size != 1 && stride != step {
                return false;
            }
            step = step.saturating_mul(size.max(1));
        }
        true
    }

    /// The dimensions from the one whose elements lie farthest apart in memory to the one whose lie next to each other, by
    /// the sizes that the program was exported with; `None` where elements share memory or leave some of it out.
    pub fn memory_order(&self) -> Option<Vec<usize>> {
        let hints = |sizes: &[Size]| sizes.iter().map(Size::hint).collect::<Option<Vec<i64>>>();
        let (sizes, strides) = (hints(&self.sizes)?, hints(&self.strides)?);
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        if sizes.contains(&0) {
            return Some(order);
        }
        // A dimension of one element lies anywhere.
        order.sort_by_key(|&dim| (sizes[dim] > 1).then_some(Reverse(strides[dim])));
        let mut step = 1;
        for &dim in order.iter().rev().filter(|&&dim| sizes[dim] > 1) {
            if strides[dim] != step {
                return None;
            }
            step = step.saturating_mul(sizes[dim]);
        }
        Some(order)
    }
}

impl InputSpec {
    fn read(tree: &Tree) -> Result<InputSpec> {
        let (kind, value) = union(tree)?;
        let text = |name| Ok::<_, String>(value.field(name)?.text()?.to_owned());
        let arg = || Ok::<_, String>(value.field("arg")?.field("name")?.text()?.to_owned());
        Ok(match kind {
            "user_input" => InputSpec::User(Arg::read(value.field("arg")?)?),
            "constant_input" => InputSpec::Constant,
            "parameter" => InputSpec::Parameter(arg()?, text("parameter_name")?),
            "buffer" => InputSpec::Buffer(arg()?, text("buffer_name")?),
            "tensor_constant" => InputSpec::TensorConstant(arg()?, text("tensor_constant_name")?),
            "token" => InputSpec::Token(arg()?),
            other => InputSpec::Other(other.to_owned()),
        })
    }
}

impl OutputSpec {
    fn read(tree: &Tree) -> Result<OutputSpec> {
        let (kind, value) = union(tree)?;
        let text = |name| Ok::<_, String>(value.field(name)?.text()?.to_owned());
        let arg = || Ok::<_, String>(value.field("arg")?.field("name")?.text()?.to_owned());
        Ok(match kind {
            "user_output" => OutputSpec::User(Arg::read(value.field("arg")?)?),
            "loss_output" => OutputSpec::User(Arg::Name(arg()?)),
            "buffer_mutation" => OutputSpec::Buffer(arg()?, text("buffer_name")?),
            "parameter_mutation" => OutputSpec::Buffer(arg()?, text("parameter_name")?),
            "user_input_mutation" => OutputSpec::Input(arg()?, text("user_input_name")?),
            "token" => OutputSpec::Token,
            other => OutputSpec::Other(other.to_owned()),
        })
    }
}
