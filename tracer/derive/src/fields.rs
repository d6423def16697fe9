//! The fields of a struct, or of each variant of an enum.

use crate::attributes::{OnField, OnType, Role};
use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use std::collections::HashSet;
use syn::{Data, DeriveInput, Error, Fields, Ident, LitStr, Member, Result, Type};

/// A struct's fields, or a variant's.
pub struct Shape {
    /// `Self`, or `Self::Variant`.
    pub path: TokenStream,
    /// The number of the variant; none of a struct.
    pub variant: Option<usize>,
    pub fields: Vec<Field>,
}

pub struct Field {
    /// Its name or position.
    pub member: Member,
    /// The name that patterns bind it to.
    pub binding: Ident,
    pub ty: Type,
    pub role: Role,
    /// What it adds to names.
    pub segment: Segment,
}

/// What a field adds to the names of its tensors.
pub enum Segment {
    Name(LitStr),
    Position(usize),
    Nothing,
}

/// The structs, one for each variant of an enum.
pub fn shapes(input: &DeriveInput) -> Result<Vec<Shape>> {
    match &input.data {
        Data::Struct(data) => Ok(vec![Shape {
            path: quote!(Self),
            variant: None,
            fields: fields(&data.fields)?,
        }]),
        Data::Enum(data) => {
            let mut shapes = Vec::new();
            for (index, variant) in data.variants.iter().enumerate() {
                OnType::none(&variant.attrs)?;
                let name = &variant.ident;
                shapes.push(Shape {
                    path: quote!(Self::#name),
                    variant: Some(index),
                    fields: fields(&variant.fields)?,
                });
            }
            Ok(shapes)
        }
        Data::Union(_) => Err(Error::new(
            Span::call_site(),
            "a union is no struct of tensors: which of its fields holds is not known",
        )),
    }
}

/// Whether a type is `PhantomData`, by the last part of its path.
fn is_phantom(ty: &Type) -> bool {
    let Type::Path(path) = ty else { return false };
    let last = path.path.segments.last();
    last.is_some_and(|segment| segment.ident == "PhantomData")
}

fn fields(fields: &Fields) -> Result<Vec<Field>> {
    let alone = matches!(fields, Fields::Unnamed(unnamed) if unnamed.unnamed.len() == 1);
    let mut found = Vec::new();
    let mut names = HashSet::new();
    for (position, (field, member)) in fields.iter().zip(fields.members()).enumerate() {
        let on = OnField::of(&field.attrs)?;
        let segment = match (&member, on.name) {
            _ if on.flatten => Segment::Nothing,
            (_, Some(name)) => Segment::Name(name),
            (Member::Unnamed(_), None) if alone => Segment::Nothing,
            (Member::Unnamed(_), None) => Segment::Position(position),
            (Member::Named(name), None) => {
                let text = name.to_string();
                Segment::Name(LitStr::new(text.trim_start_matches("r#"), name.span()))
            }
        };
        if let Segment::Name(name) = &segment
            && on.role == Role::Part
            && !names.insert(name.value())
        {
            return Err(Error::new(name.span(), "two fields have this name"));
        }
        let role = if is_phantom(&field.ty) {
            Role::Skipped
        } else {
            on.role
        };
        found.push(Field {
            member,
            binding: format_ident!("field_{position}"),
            ty: field.ty.clone(),
            role,
            segment,
        });
    }
    Ok(found)
}

impl Shape {
    /// The pattern that binds its fields.
    pub fn pattern(&self) -> TokenStream {
        let path = &self.path;
        let fields = self.fields.iter().map(|field| {
            let (member, binding) = (&field.member, &field.binding);
            quote!(#member: #binding)
        });
        quote!(#path { #(#fields),* })
    }

    /// The expression of it with what `value` gives for each field.
    pub fn built(&self, value: impl Fn(&Field) -> TokenStream) -> TokenStream {
        let path = &self.path;
        let fields = self.fields.iter().map(|field| {
            let (member, value) = (&field.member, value(field));
            quote!(#member: #value)
        });
        quote!(#path { #(#fields),* })
    }
}
