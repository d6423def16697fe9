//! What `#[tensor_struct(..)]` says.

use syn::meta::ParseNestedMeta;
use syn::{Attribute, Error, LitStr, Path, Result, parse_quote};

/// What stands on a struct or enum.
pub struct OnType {
    /// Where Ferrotrace is.
    pub root: Path,
}

/// What a field is.
#[derive(Clone, Copy, PartialEq)]
pub enum Role {
    /// Tensors, or a value that says by itself what it is.
    Part,
    /// A value that is hashed.
    Value,
    /// Nothing that a signature knows of.
    Skipped,
}

/// What stands on a field.
pub struct OnField {
    pub role: Role,
    /// The name to use instead of the field's own.
    pub name: Option<LitStr>,
    /// Whether the field adds nothing to names.
    pub flatten: bool,
}

/// Calls `f` with each item of each `#[tensor_struct(..)]`.
fn items(
    attributes: &[Attribute],
    mut f: impl FnMut(&ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    let own = attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("tensor_struct"));
    for attribute in own {
        attribute.parse_nested_meta(|item| f(&item))?;
    }
    Ok(())
}

impl OnType {
    pub fn of(attributes: &[Attribute]) -> Result<OnType> {
        let mut root: Path = parse_quote!(::ferrotrace);
        items(attributes, |item| {
            if !item.path.is_ident("crate") {
                return Err(item.error("expected `crate = path`"));
            }
            root = item.value()?.call(Path::parse_mod_style)?;
            Ok(())
        })?;
        Ok(OnType { root })
    }

    /// Variants have no attributes.
    pub fn none(attributes: &[Attribute]) -> Result<()> {
        items(attributes, |item| {
            Err(item.error("a variant has no such attribute: write it on a field"))
        })
    }
}

impl OnField {
    pub fn of(attributes: &[Attribute]) -> Result<OnField> {
        let mut on = OnField {
            role: Role::Part,
            name: None,
            flatten: false,
        };
        let mut last = None;
        items(attributes, |item| {
            let is = |name| item.path.is_ident(name);
            if is("skip") || is("value") {
                if on.role != Role::Part {
                    return Err(item.error("a field is either skipped or a value"));
                }
                on.role = if is("skip") {
                    Role::Skipped
                } else {
                    Role::Value
                };
            } else if is("flatten") {
                on.flatten = true;
            } else if is("name") {
                on.name = Some(item.value()?.parse()?);
            } else {
                return Err(item.error("expected `skip`, `value`, `flatten` or `name = \"..\"`"));
            }
            last = item.path.get_ident().cloned();
            Ok(())
        })?;
        let named = on.flatten || on.name.is_some();
        match last {
            Some(last) if named && on.role != Role::Part || on.flatten && on.name.is_some() => Err(
                Error::new(last.span(), "these attributes exclude each other"),
            ),
            _ => Ok(on),
        }
    }
}
