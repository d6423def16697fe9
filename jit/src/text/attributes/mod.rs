//! Operators' attributes by name.

mod composite;
mod print;
mod read;

use ferrotrace_kernels::ScatterMode;
use ferrotrace_runtime::ConvolutionPart;
use std::fmt;

pub(super) use print::of;
pub(super) use read::Attributes;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Attribute {
    Bool(bool),
    Int(i64),
    Float(f64),
    Word(String),
    List(Vec<Attribute>),
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::Bool(b) => write!(f, "{b}"),
            Attribute::Int(i) => write!(f, "{i}"),
            Attribute::Float(x) => write!(f, "{x:?}"),
            Attribute::Word(w) => write!(f, "{w:?}"),
            Attribute::List(list) => {
                let each: Vec<String> = list.iter().map(Attribute::to_string).collect();
                write!(f, "[{}]", each.join(", "))
            }
        }
    }
}

const SCATTERS: [(&str, ScatterMode); 6] = [
    ("assign", ScatterMode::Assign),
    ("sum", ScatterMode::Sum),
    ("prod", ScatterMode::Prod),
    ("amax", ScatterMode::Amax),
    ("amin", ScatterMode::Amin),
    ("mean", ScatterMode::Mean),
];

const PARTS: [(&str, ConvolutionPart); 3] = [
    ("result", ConvolutionPart::Result),
    ("input", ConvolutionPart::Input),
    ("weight", ConvolutionPart::Weight),
];
