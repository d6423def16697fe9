//! Short axes of a device: what does not vary along them is computed once.

use super::parts::checked;
use super::threads::{draft, kernels, policy};

/// Calls of a function in all kernels' texts.
fn calls(texts: &[String], function: &str) -> usize {
    texts
        .iter()
        .map(|text| text.matches(function).count())
        .sum()
}

/// The pull of bodies upon each other, beside a shift that comes after the sum.
#[test]
fn distances_of_points_are_computed_once() {
    let text = "%0: f32[30, 40, 3] = input 0 [0, 3, 1]
        %1: f32[30, 40, 3] = input 1 [3, 0, 1]
        %2: f32[30, 3] = input 2 [3, 1]
        %3: f32[30, 40, 3] = sub(%0, %1)
        %4: f32[30, 40, 3] = square(%3)
        %5: f32[30, 40] = sum(%4) {dims: [2], keepdim: false}
        %6: f32[30, 40] = add(%5, 0.25)
        %7: f32[30, 40] = pow(%6, -1.5)
        %8: f32[30, 40, 1] = reshape(%7) {to: [30, 40, 1]}
        %9: f32[30, 40, 3] = expand(%8) {to: [-1, -1, 3]}
        %10: f32[30, 40, 3] = mul(%3, %9)
        %11: f32[30, 3] = sum(%10) {dims: [1], keepdim: false}
        %12: f32[30, 3] = add(%2, %11)
        return %12 %11";
    let texts = checked(text, 1e-5);
    assert_eq!(
        (texts.len(), calls(&texts, "ft_pow_f32(")),
        (1, 1),
        "{texts:?}"
    );
}

/// Without a reduction, what is shared has to be worth stores that many elements apart.
#[test]
fn colours_share_costly_functions() {
    let stores = |functions: &[&str]| {
        let mut text = "%0: f32[600, 3] = input 0 [3, 1]
            %1: f32[600, 1] = input 1 [1, 1]\n"
            .to_owned();
        for (i, function) in functions.iter().enumerate() {
            text += &format!("%{}: f32[600, 1] = {function}(%{})\n", i + 2, i + 1);
        }
        let last = functions.len() + 1;
        let product = last + 1;
        text += &format!("%{product}: f32[600, 3] = mul(%0, %{last})\nreturn %{product}");
        checked(&text, 1e-5);
        let draft = draft(&text, &policy());
        let stores = kernels(&draft).map(|kernel| kernel.node.stores.len());
        stores.collect::<Vec<_>>()
    };
    assert_eq!(stores(&["sin", "erf"]), [3]);
    assert_eq!(stores(&["sin"]), [1]);
}

/// Extremes, their places and logical reductions are chains too; several dtypes are stored side by side.
#[test]
fn reductions_beside_a_short_axis_agree() {
    for dtype in ["f32", "f64", "bf16", "i32"] {
        for kind in ["sum", "prod", "max", "min"] {
            let whole = dtype == "i32" && matches!(kind, "sum" | "prod");
            let result = if whole { "i64" } else { dtype };
            let text = format!(
                "%0: {dtype}[40, 4, 30] = input 0 [120, 1, 4]
                %1: {dtype}[40, 4, 30] = input 1 [30, 0, 1]
                %2: {dtype}[40, 4, 30] = maximum(%0, %1)
                %3: {dtype}[40, 4, 30] = floor_divide(%1, 3)
                %4: {dtype}[40, 4, 30] = remainder(%3, 5)
                %5: {dtype}[40, 4, 30] = mul(%2, %4)
                %6: {result}[40, 4] = {kind}(%5) {{dims: [2], keepdim: false}}
                return %6"
            );
            let error = if dtype == "bf16" { 1e-2 } else { 1e-5 };
            checked(&text, error);
        }
    }
}
