//! The support text put in front of generated C code, and its Rust twin.
//!
//! Generated C has no `#include`: what a kernel calls is a closed list of small [`Part`]s, asked for by [`Need`]s and
//! returned by [`parts`]. A part is one group of types or one function, for one number of lanes W. Types are named
//! `f32xW`, `f64xW`, `i64xW`, `i32xW`, `i16xW`, `i8xW`, `u8xW` (and `u16xW`, `u32xW`, `u64xW`), functions `ft_…xW`.
//!
//! Values are represented thus: F32 and the half types as `f32xW` (a half value after `ft_round_f16xW` or
//! `ft_round_bf16xW`), F64 as `f64xW`, integers as vectors of their own width, Bool as `i32xW` (of 32 lanes and more `i8xW`) with
//! lanes 0 and −1.
//! Memory functions take `void *` and the bytes of the dtype's own layout (Bool: bytes 0 and 1).
//!
//! The Rust twins of the mathematical functions are generic functions over [`lane::Float`], run here on `f32` and `f64`
//! and recorded ([`trace`]) to print the C text, so there is one source for both. The others are written twice. Both
//! texts give the same bits, the sign and payload of a NaN excepted (`tests/support_twins`).
//!
//! # Rust twins
//!
//! | of | twin |
//! |---|---|
//! | functions of floats | `math::exp(x)`, `math::pow(x, y)`: see [`math`] (every name is the operator's) |
//! | functions of integers | `Integer::pow(x, y)`: see [`integer::Integer`] |
//! | conversions | [`cast::cast`]`::<A, B>(x)` |
//! | sums, products, extrema of lanes | [`tree`], with [`maximum`] and [`minimum`] |
//! | random numbers | [`philox`] |
//!
//! All are `#[inline(always)]` and, in binary32, without branches: a loop over them in a function with
//! `#[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,fma")]` is vectorised. Without FMA instructions they
//! give the same results slowly.
//!
//! # Errors
//!
//! In units in the last place, over the whole range, subnormal numbers included; found over samples of the binary32
//! and binary64 numbers (every 997th pattern of the former), and held by `tests/support_accuracy`.
//!
//! | function | binary32 | binary64 |
//! |---|---|---|
//! | exp, exp2, log, log2, log10 | 1 | 1 |
//! | expm1, log1p | 2 | 2 |
//! | sqrt, recip, square | 0.5 | 0.5 |
//! | rsqrt | 1.5 | 1.5 |
//! | sin | 2 | 2 |
//! | cos, atan | 2.5 | 2.5 |
//! | tan | 4 | 4 |
//! | asin, atan2, tanh | 3 | 3 |
//! | acos, cosh, asinh, acosh | 2 | 2 |
//! | sinh, atanh, sigmoid | 2.5 | 2.5 |
//! | erf | 1.5 | 1.5 |
//! | erfc | 1 | 3 |
//! | pow | 1 | 1 |
//! | fmod, floor, ceil, round, trunc | 0 | 0 |
//! | remainder | 0.5 | 0.5 |

pub mod cast;
mod compare;
mod fast;
mod horizontal;
pub mod integer;
pub mod lane;
pub mod math;
mod memory;
pub mod philox;
mod primitive;
mod rows;
mod scalar;
mod scan;
mod strided;
pub mod trace;
mod transpose;

pub use rows::{ROWS, cost_by_rows};
pub use scalar::scalar_type;
pub use strided::{EVERY, INTERLEAVE};

pub use horizontal::{maximum, minimum, tree};

pub use ferrotrace_runtime::Part;

use ferrotrace_runtime::DType;
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::{LazyLock, Mutex, PoisonError};

/// A part that a kernel calls for: a function name without its `xW`, and the number of lanes W.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Need {
    /// The function's name up to the lanes: `ft_exp_f32` of `ft_exp_f32x16`; `types` for the types alone.
    pub name: &'static str,
    /// The number of lanes, a power of two; or [`SCALAR`].
    pub lanes: usize,
}

/// In place of a number of lanes: the scalar dialect, CUDA C++ for one element, whose functions have no `xW`.
pub const SCALAR: usize = 0;

/// A part before it has a place: what it uses, and its text.
pub(crate) struct Definition {
    deps: Vec<Need>,
    text: String,
}

type Define = Box<dyn Fn(&str, usize) -> Definition + Send + Sync>;

/// A part for any number of lanes.
pub(crate) struct Entry {
    name: Cow<'static, str>,
    define: Define,
}

impl Entry {
    fn new(
        name: impl Into<Cow<'static, str>>,
        define: impl Fn(&str, usize) -> Definition + Send + Sync + 'static,
    ) -> Entry {
        Entry {
            name: name.into(),
            define: Box::new(define),
        }
    }

    /// A part whose text has `@` for the lanes, and what it uses.
    fn text(name: impl Into<Cow<'static, str>>, deps: &[&str], text: impl Into<String>) -> Entry {
        let deps: Vec<String> = deps.iter().map(|d| d.to_string()).collect();
        let text = text.into();
        Entry::new(name, move |_, lanes| {
            let mut needs = vec![need("types", lanes)];
            needs.extend(deps.iter().map(|d| need(d, lanes)));
            Definition {
                deps: needs,
                text: text.replace('@', &lanes.to_string()),
            }
        })
    }
}

/// Under which condition vectors of so many elements of 64 bits fit one register, `"0"` if under none; None if always.
fn register_guard(lanes: usize) -> Option<&'static str> {
    match lanes * 8 {
        32 => Some("defined(FT_AVX512) || defined(FT_AVX2)"),
        64 => Some("defined(FT_AVX512)"),
        128.. => Some("0"),
        _ => None,
    }
}

/// A definition whose values of 64 bits fill one register at most: where `whole` would need more, its two halves are
/// computed apart, since compilers keep larger vectors in memory. `result` and `args` are the types (a vector type
/// without its lanes; a scalar type as it is) and names of the function.
fn halved(
    name: &str,
    lanes: usize,
    result: &str,
    args: &[(&str, &str)],
    whole: Definition,
) -> Definition {
    let Some(guard) = register_guard(lanes) else {
        return whole;
    };
    let half = lanes / 2;
    let is_vector = |ty: &str| !ty.contains(' ') && ty != "long" && ty != "double";
    let (mut list, mut unions) = (Vec::new(), String::new());
    let mut calls = [Vec::new(), Vec::new()];
    for (ty, arg) in args {
        if is_vector(ty) {
            list.push(format!("{ty}x{lanes} {arg}"));
            unions.push_str(&format!(
                "  union {{ {ty}x{lanes} v; {ty}x{half} h[2]; }} u{arg} = {{{arg}}};\n"
            ));
            calls
                .iter_mut()
                .enumerate()
                .for_each(|(i, c)| c.push(format!("u{arg}.h[{i}]")));
        } else {
            list.push(format!("{ty} {arg}"));
            calls.iter_mut().for_each(|c| c.push(arg.to_string()));
        }
    }
    let text = format!(
        "#if {guard}\n{}#else\nFT_INLINE {result}x{lanes} {name}x{lanes}({}) {{\n{unions}  union {{ \
         {result}x{lanes} v; {result}x{half} h[2]; }} r;\n  r.h[0] = {name}x{half}({});\n  \
         r.h[1] = {name}x{half}({});\n  return r.v;\n}}\n#endif\n",
        whole.text,
        list.join(", "),
        calls[0].join(", "),
        calls[1].join(", "),
    );
    let mut deps = whole.deps;
    if guard == "0" {
        deps = vec![need("types", lanes)];
    }
    deps.push(need(name, half));
    let text = if guard == "0" {
        text.split_once("#else\n")
            .map_or("", |t| t.1)
            .replace("#endif\n", "")
    } else {
        text
    };
    Definition { deps, text }
}

struct Registry {
    index: HashMap<&'static str, usize>,
    entries: Vec<(&'static str, Define)>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = Registry {
        index: HashMap::new(),
        entries: Vec::new(),
    };
    let all = primitive::entries()
        .into_iter()
        .chain(compare::entries())
        .chain(cast::entries())
        .chain(memory::entries())
        .chain(transpose::entries())
        .chain(horizontal::entries())
        .chain(integer::entries())
        .chain(math::entries())
        .chain(scan::entries())
        .chain(philox::entries());
    for entry in all {
        let name: &'static str = match entry.name {
            Cow::Borrowed(name) => name,
            Cow::Owned(name) => name.leak(),
        };
        registry.index.insert(name, registry.entries.len());
        registry.entries.push((name, entry.define));
    }
    registry
});

/// Definitions printed so far: as many as there are parts and numbers of lanes in use, so never freed.
static PRINTED: LazyLock<Mutex<HashMap<Need, &'static Definition>>> = LazyLock::new(Mutex::default);

fn printed(need: Need) -> Option<(usize, &'static Definition)> {
    let place = *REGISTRY.index.get(need.name)?;
    if let Some(definition) = PRINTED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&need)
    {
        return Some((place, definition));
    }
    let scalar = (need.lanes == SCALAR).then(|| scalar::definition(need.name));
    let definition = scalar
        .flatten()
        .unwrap_or_else(|| (REGISTRY.entries[place].1)(need.name, need.lanes));
    let definition: &'static Definition = Box::leak(Box::new(definition));
    let mut map = PRINTED.lock().unwrap_or_else(PoisonError::into_inner);
    Some((place, map.entry(need).or_insert(definition)))
}

/// The need of the function `name` (given without its lanes).
///
/// ```
/// # use ferrotrace_kernels::support::{need, parts};
/// let needs = [need("ft_load_f32", 16), need("ft_exp_f32", 16)].into();
/// assert!(parts(&needs).iter().any(|p| p.text.contains("ft_exp_f32x16(")));
/// ```
pub fn need(name: &str, lanes: usize) -> Need {
    match REGISTRY.index.get_key_value(name) {
        Some((name, _)) => Need { name, lanes },
        None => {
            debug_assert!(false, "no support part is called {name}");
            Need {
                name: "types",
                lanes,
            }
        }
    }
}

/// Whether there is a part of this name.
pub fn has(name: &str) -> bool {
    REGISTRY.index.contains_key(name)
}

/// The parts that these needs take, with all that they use in turn, in order.
pub fn parts(needs: &BTreeSet<Need>) -> Vec<Part> {
    let mut found: HashMap<Need, Part> = HashMap::new();
    let mut pending: Vec<Need> = needs.iter().copied().collect();
    while let Some(need) = pending.pop() {
        if found.contains_key(&need) {
            continue;
        }
        let Some((place, definition)) = printed(need) else {
            continue;
        };
        // Lanes are a power of two, at most 2^15.
        let order = place as u32 * 16 + need.lanes.max(1).trailing_zeros();
        found.insert(
            need,
            Part {
                order,
                text: Cow::Borrowed(&definition.text),
            },
        );
        pending.extend(&definition.deps);
    }
    let mut parts: Vec<Part> = found.into_values().collect();
    parts.sort_by_key(|p| p.order);
    parts
}

/// Lanes from which on truth values are bytes: vectors of so many lanes hold no wider elements.
pub const BYTE_LANES: usize = 32;

/// The integer type that represents truth values in vectors of so many lanes.
pub fn mask_dtype(lanes: usize) -> DType {
    match lanes >= BYTE_LANES {
        true => DType::I8,
        false => DType::I32,
    }
}

pub(crate) fn mask_type(lanes: usize) -> &'static str {
    mask_dtype(lanes).name()
}

/// The name of the type that represents a dtype in vectors of so many lanes, without its lanes.
pub fn c_type(dtype: DType, lanes: usize) -> &'static str {
    match dtype {
        DType::Bool => mask_type(lanes),
        DType::F16 | DType::BF16 => "f32",
        other => other.name(),
    }
}

/// A call of the function `ft_{stem}_{dtype}x{lanes}` (in the scalar dialect `ft_{stem}_{dtype}`), which is added to
/// `needs`.
pub fn call(
    needs: &mut BTreeSet<Need>,
    stem: &str,
    dtype: DType,
    lanes: usize,
    args: &[&str],
) -> String {
    let name = format!("ft_{stem}_{}", dtype.name());
    needs.insert(need(&name, lanes));
    if lanes == SCALAR {
        return format!("{name}({})", args.join(", "));
    }
    format!("{name}x{lanes}({})", args.join(", "))
}

/// The C text of a conversion of a vector's elements, by steps that double or halve their size: gcc 12 converts one element
/// after another where a step is larger.
fn convert(value: &str, from: &str, to: &str, lanes: usize) -> String {
    const INTEGERS: [&str; 4] = ["i8", "i16", "i32", "i64"];
    let level = |of: &str| memory::size(of).trailing_zeros() as usize;
    let (mut at, last) = (level(from), level(to));
    let mut text = value.to_owned();
    let mut step = |to: &str| text = format!("__builtin_convertvector({text}, {to}x{lanes})");
    while at.abs_diff(last) > 1 {
        at = if at < last { at + 1 } else { at - 1 };
        step(INTEGERS[at]);
    }
    step(to);
    text
}

/// Whether a comparison is a function `ft_{eq, ne, lt, le, gt, ge}_{dtype}`.
pub(crate) fn compares_by_call(dtype: DType, lanes: usize) -> bool {
    compare::is_call(dtype, lanes)
}

/// A comparison of vectors that represent `dtype` (Bool, or not a half type), as a mask of the type [`mask_dtype`].
pub fn mask(comparison: &str, dtype: DType, lanes: usize) -> String {
    let to = mask_type(lanes);
    let int = match dtype {
        DType::Bool => to.to_owned(),
        other => format!("i{}", other.compute().size() * 8),
    };
    let compared = format!("(({int}x{lanes}){comparison})");
    match int == to {
        true => compared,
        false => convert(&compared, &int, to, lanes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_closed_and_in_order() {
        for (name, _) in &REGISTRY.entries {
            for lanes in [SCALAR, 1, 2, 4, 8, 16, 32, 64] {
                let need = need(name, lanes);
                let (place, definition) = printed(need).unwrap();
                for dep in &definition.deps {
                    let (before, _) = printed(*dep).unwrap();
                    let earlier =
                        before < place || before == 0 || (before == place && dep.lanes < lanes);
                    assert!(earlier, "{name} uses {} which comes after it", dep.name);
                }
                // An `@` stands for the lanes, but in a flag that assembly sets.
                let placeholder = definition.text.replace("=@cc", "").contains('@');
                assert!(!placeholder, "{name}");
            }
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<&str> = REGISTRY.entries.iter().map(|e| e.0).collect();
        assert_eq!(names.len(), REGISTRY.entries.len());
    }
}
