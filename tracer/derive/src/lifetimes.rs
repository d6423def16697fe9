//! Types with their lifetimes replaced.

use proc_macro2::{Group, TokenStream, TokenTree};
use syn::Lifetime;

/// The tokens with each lifetime that `replace` knows replaced.
pub fn replaced(tokens: TokenStream, replace: &impl Fn(&str) -> Option<Lifetime>) -> TokenStream {
    let mut out = TokenStream::new();
    let mut rest = tokens.into_iter().peekable();
    while let Some(token) = rest.next() {
        match token {
            TokenTree::Group(group) => {
                let inner = replaced(group.stream(), replace);
                let mut new = Group::new(group.delimiter(), inner);
                new.set_span(group.span());
                out.extend([TokenTree::Group(new)]);
            }
            TokenTree::Punct(quote) if quote.as_char() == '\'' => {
                let name = match rest.peek() {
                    Some(TokenTree::Ident(name)) => name.to_string(),
                    _ => String::new(),
                };
                match replace(&name) {
                    Some(lifetime) => {
                        rest.next();
                        out.extend(quote::quote!(#lifetime));
                    }
                    None => out.extend([TokenTree::Punct(quote)]),
                }
            }
            other => out.extend([other]),
        }
    }
    out
}

/// Whether one of these lifetimes, by names without the quote, stands in the tokens.
pub fn mentions(tokens: TokenStream, names: &[String]) -> bool {
    let mut after_quote = false;
    tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => mentions(group.stream(), names),
        TokenTree::Ident(name) if after_quote => {
            after_quote = false;
            names.iter().any(|n| name == n)
        }
        TokenTree::Punct(punct) => {
            after_quote = punct.as_char() == '\'';
            false
        }
        _ => {
            after_quote = false;
            false
        }
    })
}
