//! The text that every kernel begins with.

/// Index arithmetic, fault reports, and accesses of whole chunks; indices have 32 bits where `narrow`.
pub(super) fn helpers(narrow: bool) -> String {
    let (int, division) = match narrow {
        true => ("int", "(int)((unsigned long long)(unsigned)a * d.m >> d.s)"),
        false => ("long long", "a / d.n"),
    };
    format!(
        "typedef {int} ft_int;\nstruct ft_divisor {{ ft_int n; unsigned m; int s; }};\n\
         FT_INLINE ft_int operator/(ft_int a, ft_divisor d) {{ return {division}; }}\n\
         FT_INLINE ft_int operator%(ft_int a, ft_divisor d) {{ return a - a / d * d.n; }}\n{HELPERS}"
    )
}

/// `ft_index` wraps an index once, reports it if it is out of range, and gives one that is in range; `ft_within` reports
/// nothing. `ft_two_sum` adds to a total and puts what is lost into its low part, which is NaN beside an infinite total.
/// `ft_divide` divides by a row's number, whose reciprocal is computed once: that of a scaled one where it would
/// not be normal. `ft_load` and `ft_store` are of the elements from `h` to before `m`, by accesses of up to 16 bytes where
/// that is the whole chunk and its address allows them. (The warp's barrier keeps the compiler from predicating the other path into this one.)
/// The forms with `_last` leave nothing in the cache. `FT_AFTER` waits for the kernel before, of a graph that starts this
/// one while that still runs, and lets the next start: everything a kernel reads or writes comes after it. Kernels of
/// more blocks than run at once let nobody start: each time costs what starting a block costs (319 instead of 260
/// microseconds for 262,144 blocks of an H200). The predicate is in the assembly, so that no load becomes predicated.
/// `ft_pack_` rounds two numbers, the first into the lower half.
const HELPERS: &str = include_str!("helpers.cu");
