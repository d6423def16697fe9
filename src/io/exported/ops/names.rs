//! Operators that are others by another name.

/// A whole name, and that of the operator whose meaning and arguments it has.
pub(super) const OTHER_NAMES: &[(&str, &str)] = &[
    ("aten.arccos.default", "aten.acos.default"),
    ("aten.arccosh.default", "aten.acosh.default"),
    ("aten.arcsin.default", "aten.asin.default"),
    ("aten.arcsinh.default", "aten.asinh.default"),
    ("aten.arctan.default", "aten.atan.default"),
    ("aten.arctanh.default", "aten.atanh.default"),
    ("aten.row_stack.default", "aten.vstack.default"),
    ("aten.special_erfc.default", "aten.erfc.default"),
    ("aten.special_exp2.default", "aten.exp2.default"),
    ("aten.special_expm1.default", "aten.expm1.default"),
    ("aten.special_gammainc.default", "aten.igamma.default"),
    ("aten.special_gammaincc.default", "aten.igammac.default"),
    ("aten.special_log1p.default", "aten.log1p.default"),
    ("aten.special_log_softmax.default", "aten.log_softmax.int"),
    ("aten.special_logit.default", "aten.logit.default"),
    ("aten.special_logsumexp.default", "aten.logsumexp.default"),
    ("aten.special_multigammaln.default", "aten.mvlgamma.default"),
    ("aten.special_polygamma.default", "aten.polygamma.default"),
    ("aten.special_round.default", "aten.round.decimals"),
    ("aten.special_xlogy.default", "aten.xlogy.Tensor"),
    ("aten.special_xlogy.other_scalar", "aten.xlogy.Scalar_Other"),
    ("aten.special_xlogy.self_scalar", "aten.xlogy.Scalar_Self"),
];
