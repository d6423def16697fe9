//! What the derive refuses, and how it says so.

use crate::expand::expand;
use syn::{DeriveInput, parse_quote};

#[track_caller]
fn refused(input: DeriveInput, why: &str) {
    let error = expand(&input).map(|tokens| tokens.to_string());
    let error = error.expect_err("it is refused").to_string();
    assert!(error.contains(why), "{error}");
}

#[test]
fn attributes_that_mean_nothing_are_refused() {
    let skipped = parse_quote!(
        struct A {
            #[tensor_struct(skip, value)]
            a: u8,
        }
    );
    refused(skipped, "either skipped or a value");
    let unknown = parse_quote!(
        struct A(#[tensor_struct(rename = "b")] u8);
    );
    refused(unknown, "expected `skip`");
    let exclusive = parse_quote!(
        struct A {
            #[tensor_struct(flatten, name = "b")]
            a: Tensor,
        }
    );
    refused(exclusive, "exclude each other");
    let unnamed = parse_quote!(
        struct A {
            #[tensor_struct(value, name = "b")]
            a: u8,
        }
    );
    refused(unnamed, "exclude each other");
    let variant = parse_quote!(
        enum A {
            #[tensor_struct(skip)]
            B(Tensor),
        }
    );
    refused(variant, "on a field");
    let container = parse_quote!(
        #[tensor_struct(skip)]
        struct A(Tensor);
    );
    refused(container, "crate = path");
}

#[test]
fn names_tell_fields_apart() {
    let twice = parse_quote!(
        struct A {
            #[tensor_struct(name = "b")]
            a: Tensor,
            b: Tensor,
        }
    );
    refused(twice, "two fields have this name");
}

#[test]
fn unions_are_refused() {
    refused(parse_quote!(union A { a: u8, b: i8 }), "a union");
}

#[test]
fn the_crate_is_named_by_the_attribute() {
    let of = |input: DeriveInput| expand(&input).expect("it is taken").to_string();
    let text = of(parse_quote!(
        struct A(Tensor);
    ));
    assert!(text.contains(":: ferrotrace :: derived"), "{text}");
    let text = of(parse_quote!(
        #[tensor_struct(crate = crate::tensors)]
        struct A(Tensor);
    ));
    assert!(text.contains("crate :: tensors :: derived"), "{text}");
    assert!(!text.contains(":: ferrotrace ::"), "{text}");
}
