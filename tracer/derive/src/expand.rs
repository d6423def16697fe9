//! The impls of a derive.

use crate::attributes::{OnType, Role};
use crate::fields::{Field, Segment, Shape, shapes};
use crate::lifetimes::{mentions, replaced};
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::punctuated::Punctuated;
use syn::{
    DeriveInput, GenericParam, Generics, Lifetime, Path, Result, Token, TypeParamBound,
    WherePredicate, parse_quote,
};

type Bounds = Punctuated<TypeParamBound, Token![+]>;

/// What is derived for `input`: an argument, and, where it has no lifetimes, a result and a struct that owns its tensors.
pub fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let root = OnType::of(&input.attrs)?.root;
    let shapes = shapes(input)?;
    let bounded = bounded(input, &shapes, &root);
    let impls = if input.generics.lifetimes().next().is_none() {
        owned(input, &shapes, &root, &bounded)
    } else {
        borrowed(input, &shapes, &root, &bounded)
    };
    Ok(quote! {
        const _: () = { #impls };
    })
}

/// The generics with bounds on the type parameters that stand in fields: what an impl needs beyond the struct's own.
fn bounded(input: &DeriveInput, shapes: &[Shape], root: &Path) -> Generics {
    let mut generics = input.generics.clone();
    let fields = shapes.iter().flat_map(|shape| &shape.fields);
    let fields: Vec<&Field> = fields.collect();
    for param in generics.params.iter_mut() {
        let GenericParam::Type(param) = param else {
            continue;
        };
        param.default = None;
        param.bounds.push(parse_quote!(::core::marker::Send));
        param.bounds.push(parse_quote!(::core::marker::Sync));
        param.bounds.push(parse_quote!('static));
        for field in &fields {
            if !names(field.ty.to_token_stream(), &param.ident) {
                continue;
            }
            match field.role {
                Role::Part => param
                    .bounds
                    .push(parse_quote!(#root::derived::TensorStruct)),
                Role::Value => {
                    param.bounds.push(parse_quote!(::core::hash::Hash));
                    param.bounds.push(parse_quote!(::core::clone::Clone));
                }
                Role::Skipped => {}
            }
        }
    }
    generics
}

/// Whether a name stands in the tokens.
fn names(tokens: TokenStream, name: &syn::Ident) -> bool {
    tokens.into_iter().any(|token| match token {
        proc_macro2::TokenTree::Group(group) => names(group.stream(), name),
        proc_macro2::TokenTree::Ident(ident) => ident == *name,
        _ => false,
    })
}

/// A `match` on `on` with an arm for each shape; an enum without variants has none.
fn matched(on: TokenStream, shapes: &[Shape], arm: impl Fn(&Shape) -> TokenStream) -> TokenStream {
    let arms = shapes.iter().map(|shape| {
        let (pattern, body) = (shape.pattern(), arm(shape));
        quote!(#pattern => #body)
    });
    match shapes.is_empty() {
        true => quote!(match *#on {}),
        false => quote!(match #on { #(#arms),* }),
    }
}

/// The body of `JitArg::visit`.
fn visit(shapes: &[Shape], root: &Path) -> TokenStream {
    matched(quote!(self), shapes, |shape| {
        let variant = shape.variant.map(|index| quote!(visit.variant(#index);));
        let fields = shape.fields.iter().map(|field| {
            let binding = &field.binding;
            match (field.role, &field.segment) {
                (Role::Skipped, _) => quote!(let _ = #binding;),
                (Role::Value, _) => quote!(visit.hashed(#binding);),
                (Role::Part, Segment::Name(name)) => quote!(visit.field(#name, #binding);),
                (Role::Part, Segment::Position(at)) => quote!(visit.item(#at, #binding);),
                (Role::Part, Segment::Nothing) => {
                    quote!(#root::derived::JitArg::visit(#binding, visit);)
                }
            }
        });
        quote!({ #variant #(#fields)* })
    })
}

/// The impls of a type without lifetimes.
fn owned(input: &DeriveInput, shapes: &[Shape], root: &Path, bounded: &Generics) -> TokenStream {
    let name = &input.ident;
    let (impl_generics, _, where_clause) = bounded.split_for_impl();
    let (_, type_generics, _) = input.generics.split_for_impl();
    let visit = visit(shapes, root);
    let visit_mut = matched(quote!(self), shapes, |shape| {
        let (parts, others): (Vec<_>, Vec<_>) =
            shape.fields.iter().partition(|f| f.role == Role::Part);
        let parts = parts.iter().map(|field| &field.binding);
        let others = others.iter().map(|field| &field.binding);
        quote!({
            #(#root::derived::TensorStruct::visit_mut(#parts, visit);)*
            #(let _ = #others;)*
        })
    });
    let rebuild = matched(quote!(self), shapes, |shape| {
        shape.built(|field| {
            let binding = &field.binding;
            match field.role {
                Role::Part => {
                    quote!(#root::derived::TensorStruct::rebuild(#binding, tensor))
                }
                _ => quote!(::core::clone::Clone::clone(#binding)),
            }
        })
    });
    quote! {
        #[automatically_derived]
        impl #impl_generics #root::derived::JitArg for #name #type_generics #where_clause {
            type Kind = #root::derived::Owned<Self>;

            #[allow(unused_variables)]
            fn visit<'__visit>(&'__visit self, visit: &mut #root::derived::Visit<'__visit>) {
                #visit
            }
        }

        #[automatically_derived]
        impl #impl_generics #root::derived::TensorStruct for #name #type_generics #where_clause {
            #[allow(unused_variables)]
            fn visit_mut(&mut self, visit: &mut dyn FnMut(&mut #root::derived::Tensor)) {
                #visit_mut
            }

            #[allow(unused_variables)]
            fn rebuild(
                &self,
                tensor: &mut dyn FnMut(&#root::derived::Tensor) -> #root::derived::Tensor,
            ) -> Self {
                #rebuild
            }
        }

        #[automatically_derived]
        impl #impl_generics #root::derived::JitResult for #name #type_generics #where_clause {
            type Form = #root::derived::Template<Self>;

            fn flatten(
                &self,
                tensors: &mut ::std::vec::Vec<#root::derived::Tensor>,
            ) -> ::core::option::Option<Self::Form> {
                ::core::option::Option::Some(#root::derived::Template::flatten(self, tensors))
            }

            fn unflatten(
                form: &Self::Form,
                tensors: &mut dyn ::core::iter::Iterator<Item = #root::derived::Tensor>,
            ) -> Self {
                form.unflatten(tensors)
            }
        }
    }
}

/// The impls of a type with lifetimes: its family gives all of them one lifetime.
fn borrowed(input: &DeriveInput, shapes: &[Shape], root: &Path, bounded: &Generics) -> TokenStream {
    let (name, visibility) = (&input.ident, &input.vis);
    let lifetimes: Vec<String> = input
        .generics
        .lifetimes()
        .map(|param| param.lifetime.ident.to_string())
        .collect();
    let one: Lifetime = parse_quote!('__lent);
    let with_one = |tokens: TokenStream| {
        replaced(tokens, &|name| {
            let known = lifetimes.iter().any(|lifetime| lifetime == name);
            known.then(|| one.clone())
        })
    };
    let without = without_lifetimes(bounded, &lifetimes);
    let (impl_generics, _, where_clause) = bounded.split_for_impl();
    let (_, type_generics, _) = input.generics.split_for_impl();
    let (kind_impl, kind_generics, kind_where) = without.split_for_impl();
    let kind_params = without.type_params().map(|param| &param.ident);
    let of = with_one(quote!(#name #type_generics));
    let visit = visit(shapes, root);
    let lend = matched(quote!(like), shapes, |shape| {
        shape.built(|field| {
            let (binding, ty) = (&field.binding, with_one(field.ty.to_token_stream()));
            match field.role {
                Role::Part => {
                    let owned = !mentions(field.ty.to_token_stream(), &lifetimes);
                    let kind = match owned {
                        true => quote!(#root::derived::Owned<#ty>),
                        false => quote!(<#ty as #root::derived::JitArg>::Kind),
                    };
                    quote!(<#kind as #root::derived::ArgKind>::lend(#binding, lender))
                }
                _ => quote!(::core::clone::Clone::clone(#binding)),
            }
        })
    });
    // In patterns of the family's impl, `Self` is the family.
    let lend = self_replaced(lend, &name.to_token_stream());
    quote! {
        #[doc(hidden)]
        #[allow(missing_debug_implementations)]
        #visibility struct Kind #kind_impl (::core::marker::PhantomData<fn() -> (#(#kind_params,)*)>)
        #kind_where;

        #[automatically_derived]
        impl #kind_impl #root::derived::ArgKind for Kind #kind_generics #kind_where {
            type Of<#one> = #of;

            #[allow(unused_variables)]
            fn lend<#one>(
                like: &#one Self::Of<'_>,
                lender: &mut #root::derived::Lender<#one>,
            ) -> Self::Of<#one> {
                #lend
            }
        }

        #[automatically_derived]
        impl #impl_generics #root::derived::JitArg for #name #type_generics #where_clause {
            type Kind = Kind #kind_generics;

            #[allow(unused_variables)]
            fn visit<'__visit>(&'__visit self, visit: &mut #root::derived::Visit<'__visit>) {
                #visit
            }
        }
    }
}

/// The generics less the lifetimes, and less the bounds that name one.
fn without_lifetimes(generics: &Generics, lifetimes: &[String]) -> Generics {
    let names = |tokens: TokenStream| mentions(tokens, lifetimes);
    let without = |bounds: &mut Bounds| {
        let kept = std::mem::take(bounds).into_iter();
        *bounds = kept.filter(|b| !names(b.to_token_stream())).collect();
    };
    let mut generics = generics.clone();
    let params = std::mem::take(&mut generics.params).into_iter();
    generics.params = params
        .filter(|param| !matches!(param, GenericParam::Lifetime(_)))
        .collect();
    for param in generics.type_params_mut() {
        without(&mut param.bounds);
    }
    if let Some(clause) = &mut generics.where_clause {
        for predicate in &mut clause.predicates {
            if let WherePredicate::Type(predicate) = predicate {
                without(&mut predicate.bounds);
            }
        }
        let predicates = std::mem::take(&mut clause.predicates).into_iter();
        clause.predicates = predicates
            .filter(|predicate| !names(predicate.to_token_stream()))
            .collect();
    }
    generics
}

/// The tokens with `Self` replaced.
fn self_replaced(tokens: TokenStream, name: &TokenStream) -> TokenStream {
    use proc_macro2::{Group, TokenTree};
    let replace = |token: TokenTree| match token {
        TokenTree::Group(group) => {
            let inner = self_replaced(group.stream(), name);
            TokenTree::Group(Group::new(group.delimiter(), inner)).into()
        }
        TokenTree::Ident(ident) if ident == "Self" => name.clone(),
        other => other.into(),
    };
    tokens.into_iter().map(replace).collect::<TokenStream>()
}
