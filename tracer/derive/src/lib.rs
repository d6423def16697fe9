//! `#[derive(TensorStruct)]` of the tensor library Ferrotrace. The trait's page describes it.

mod attributes;
mod expand;
mod fields;
mod lifetimes;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct or enum of tensors an argument and a result of compiled functions, and gives its tensors names.
///
/// The trait `TensorStruct` describes what fields may be, and the attributes:
///
/// - on the struct: `#[tensor_struct(crate = path)]` says where Ferrotrace is, where it is not `::ferrotrace`;
/// - on a field: `skip`, `value`, `name = "..."`, `flatten`.
#[proc_macro_derive(TensorStruct, attributes(tensor_struct))]
pub fn tensor_struct(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    let expanded = expand::expand(&input);
    expanded
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
