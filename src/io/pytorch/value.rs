//! What a pickle describes, as numbered values: containers hold numbers, so that sharing, cycles and any depth cost
//! nothing.

use crate::DType;
use std::sync::Arc;

/// The number of a value.
pub(super) type Id = u32;

/// A value of a pickle.
#[derive(Clone, Debug)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Arc<str>),
    Bytes(Arc<[u8]>),
    /// Lists and sets.
    List(Vec<Id>),
    Tuple(Vec<Id>),
    Dict(Vec<(Id, Id)>),
    Named(Named),
    Storage(Arc<StorageRef>),
    Tensor(Arc<TensorRef>),
}

/// A name of Python's that pickles of tensors need. There are no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    OrderedDict,
    /// `_rebuild_tensor` and `_rebuild_tensor_v2`, whose first four arguments are the same.
    RebuildTensor,
    /// `_rebuild_parameter` and `_rebuild_parameter_with_state`, whose first argument is the tensor.
    RebuildParameter,
    Size,
    /// Bytes were written as text, before the third protocol.
    Encode,
    Set,
    Storage(DType),
}

impl Named {
    /// The name in a module, if it is one of the few.
    pub fn of(module: &str, name: &str) -> Option<Named> {
        Some(match (module, name) {
            ("collections", "OrderedDict") => Named::OrderedDict,
            ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Named::RebuildTensor,
            ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => {
                Named::RebuildParameter
            }
            ("torch", "Size") => Named::Size,
            ("_codecs", "encode") => Named::Encode,
            ("builtins" | "__builtin__", "set" | "frozenset") => Named::Set,
            ("torch" | "torch.cuda", _) => Named::Storage(match name.strip_suffix("Storage")? {
                "Bool" => DType::Bool,
                "Byte" => DType::U8,
                "Char" => DType::I8,
                "Short" => DType::I16,
                "Int" => DType::I32,
                "Long" => DType::I64,
                "Half" => DType::F16,
                "BFloat16" => DType::BF16,
                "Float" => DType::F32,
                "Double" => DType::F64,
                _ => return None,
            }),
            _ => return None,
        })
    }

    /// Whether the name stands for one of PyTorch's dtypes, which pickles hold as a value.
    pub fn is_dtype(module: &str, name: &str) -> bool {
        const NAMES: [&str; 14] = [
            "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32",
            "float64", "half", "float", "double", "long",
        ];
        module == "torch" && NAMES.contains(&name)
    }
}

/// Memory that tensors share, by its name in the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StorageRef {
    pub key: Arc<str>,
    pub dtype: DType,
    pub numel: usize,
}

/// A window on a storage.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TensorRef {
    pub storage: StorageRef,
    pub offset: usize,
    pub dims: Vec<usize>,
    pub strides: Vec<isize>,
}
