//! Loads and stores of each dtype: whole vectors, the first m lanes, and past the cache.

use super::rows::{ROWS, columns};
use super::strided::{EVERY, INTERLEAVE, interleaved, strided};
use super::{Definition, Entry, mask_type, need};
use std::fmt::Write;

/// How a dtype lies in memory: (dtype, memory type, represented by, C text of reading `v`, C text of writing `v`).
type Layout = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

const LAYOUTS: [Layout; 10] = [
    ("f32", "f32", "f32", "v", "v"),
    ("f64", "f64", "f64", "v", "v"),
    ("i64", "i64", "i64", "v", "v"),
    ("i32", "i32", "i32", "v", "v"),
    ("i16", "i16", "i16", "v", "v"),
    ("i8", "i8", "i8", "v", "v"),
    ("u8", "u8", "u8", "v", "v"),
    (
        "bool",
        "i8",
        "i32",
        // By steps, as `convert` writes them.
        "-__builtin_convertvector(__builtin_convertvector(v, i16x@), i32x@)",
        "__builtin_convertvector(__builtin_convertvector(v & 1, i16x@), i8x@)",
    ),
    ("f16", "i16", "f32", "ft_from_f16x@(v)", "ft_to_f16x@(v)"),
    ("bf16", "i16", "f32", "ft_from_bf16x@(v)", "ft_to_bf16x@(v)"),
];

/// How values of a layout are represented in vectors of so many lanes: the type, and the C text of reading and of writing.
fn represented(
    (dtype, _, value, read, write): Layout,
    lanes: usize,
) -> (&'static str, String, String) {
    let (value, read, write) = match dtype {
        "bool" if mask_type(lanes) == "i8" => ("i8", "-(v)", "(v & 1)"),
        _ => (value, read, write),
    };
    let at = |text: &str| text.replace('@', &lanes.to_string());
    (value, at(read), at(write))
}

pub(super) fn size(memory: &str) -> usize {
    match memory {
        "i8" | "u8" => 1,
        "i16" => 2,
        "i32" | "f32" => 4,
        _ => 8,
    }
}

/// The C type of an element in memory.
fn scalar(memory: &str) -> &'static str {
    match memory {
        "f32" => "float",
        "f64" => "double",
        "i64" => "long",
        "i32" => "int",
        "i16" => "short",
        "i8" => "signed char",
        _ => "unsigned char",
    }
}

/// Masked moves of elements of so many bytes.
fn masked_move(memory: &str) -> &'static str {
    ["vmovdqu8", "vmovdqu16", "vmovdqu32", "vmovdqu64"][size(memory).trailing_zeros() as usize]
}

/// The texts of a move of some lanes: masked where AVX-512 has it, masked where AVX2 has it, and for every machine.
struct Moves {
    avx512: Option<String>,
    avx2: Option<String>,
    plain: String,
}

impl Moves {
    /// A function of these texts.
    fn guarded(&self, head: &str, tail: &str) -> String {
        let mut text = head.to_owned();
        let sets = [("FT_AVX512", &self.avx512), ("FT_AVX2", &self.avx2)];
        let known = || {
            sets.iter()
                .filter_map(|(set, moves)| Some((set, moves.as_ref()?)))
        };
        for (k, (set, moves)) in known().enumerate() {
            let test = if k == 0 { "#if" } else { "#elif" };
            let _ = write!(text, "{test} defined({set})\n{moves}");
        }
        match known().next() {
            Some(_) => {
                let _ = write!(text, "#else\n{}#endif\n{tail}", self.plain);
            }
            None => text += &format!("{}{tail}", self.plain),
        }
        text
    }
}

/// Whether a vector fills one register of AVX-512's, whose moves have masks.
fn has_masks(lanes: usize, memory: &str) -> bool {
    matches!(size(memory) * lanes, 16 | 32 | 64)
}

/// A load by AVX2 of the lanes from `first`, if given, to before `end`: names of `long` variables. It has masks for elements of 4 and
/// 8 bytes.
fn masked_by_avx2(lanes: usize, memory: &str, first: Option<&str>, end: &str) -> Option<String> {
    let (op, mask, number) = match size(memory) {
        4 => ("vmaskmovps", format!("i32x{lanes}"), "int"),
        8 => ("vmaskmovpd", format!("i64x{lanes}"), "long"),
        _ => return None,
    };
    if !matches!(size(memory) * lanes, 16 | 32) {
        return None;
    }
    let ty = format!("{memory}x{lanes}");
    let numbers: Vec<String> = (0..lanes).map(|lane| lane.to_string()).collect();
    let from = first.map_or(String::new(), |first| {
        format!(" & (n >= ({number}){first})")
    });
    let test = format!("(n < ({number}){end}){from}");
    Some(format!(
        "  {mask} n = {{{numbers}}};\n  {mask} k = {test};\n  {ty} v;\n  \
         __asm__(\"{op} %1, %2, %0\" : \"=x\"(v) : \"m\"(*(const {ty}u *)p), \"x\"(k));\n",
        numbers = numbers.join(", ")
    ))
}

/// Loads the lanes `from..to`, the others are 0.
fn ranged(lanes: usize, memory: &'static str) -> Moves {
    let (ty, scalar) = (format!("{memory}x{lanes}"), scalar(memory));
    let plain = format!(
        "  union {{ {ty} v; {scalar} s[{lanes}]; }} u = {{{{}}}};\n  \
         for (long i = from; i < to; i++) u.s[i] = ((const {scalar} __attribute__((may_alias)) *)p)[i];\n  \
         {ty} v = u.v;\n"
    );
    // Bits from..to of 64, none where there are no lanes.
    let masked = format!(
        "  unsigned long k = from < to ? ~0UL >> (64 - (to - from)) << from : 0;\n  {ty} v;\n  \
         __asm__(\"{op} %1, %0%{{%2%}}%{{z%}}\" : \"=v\"(v) : \"m\"(*(const {ty}u *)p), \"Yk\"(k));\n",
        op = masked_move(memory)
    );
    Moves {
        avx512: has_masks(lanes, memory).then_some(masked),
        avx2: masked_by_avx2(lanes, memory, Some("from"), "to"),
        plain,
    }
}

/// Loads or stores m <= W lanes.
fn partial(lanes: usize, memory: &'static str, load: bool) -> Moves {
    let (ty, scalar, bytes) = (format!("{memory}x{lanes}"), scalar(memory), size(memory));
    let start = if load { "{{}}" } else { "{v}" };
    let mut plain =
        format!("  union {{ {ty} v; {scalar} s[{lanes}]; }} u = {start};\n  long i = 0;\n");
    // By powers of two, the largest first: tests that a run of equal rows foretells, instead of a loop.
    let mut count = lanes;
    while count > 0 {
        let (own, other) = ("u.s + i", format!("p + i * {bytes}"));
        let copy = match load {
            true => format!("{own}, (const char *){other}"),
            false => format!("(char *){other}, {own}"),
        };
        let next = if count > 1 {
            format!(", i += {count}")
        } else {
            String::new()
        };
        let _ = writeln!(
            plain,
            "  if (m & {count}) __builtin_memcpy({copy}, {}){next};",
            count * bytes
        );
        count /= 2;
    }
    if load {
        let _ = writeln!(plain, "  {ty} v = u.v;");
    }
    let op = masked_move(memory);
    // The mask is as wide as the lanes; a whole vector's bytes are named as operand, of which m lanes are touched.
    let mask = "  unsigned long k = (1UL << m) - 1;\n";
    let masked = if load {
        format!(
            "{mask}  {ty} v;\n  __asm__(\"{op} %1, %0%{{%2%}}%{{z%}}\" : \"=v\"(v) : \"m\"(*(const {ty}u *)p), \
             \"Yk\"(k));\n"
        )
    } else {
        format!(
            "{mask}  __asm__(\"{op} %1, %0%{{%2%}}\" : \"+m\"(*({ty}u *)p) : \"v\"(v), \"Yk\"(k));\n"
        )
    };
    // AVX2's masked stores take long on some processors.
    let avx2 = load.then(|| masked_by_avx2(lanes, memory, None, "m"));
    Moves {
        avx512: has_masks(lanes, memory).then_some(masked),
        avx2: avx2.flatten(),
        plain,
    }
}

/// A store that does not read the line into the cache; `p` is aligned to the vector, which fills at most two registers.
fn stream(name: &str, ty: &str, lanes: usize) -> Definition {
    let bytes = lanes * size(ty);
    let head = format!("FT_INLINE void {name}x{lanes}(void *p, {ty}x{lanes} v) {{\n");
    let set = match bytes {
        64 => "defined(FT_AVX512)",
        32 => "defined(FT_AVX512) || defined(FT_AVX2)",
        16 => "defined(__SSE2__)",
        _ => "0",
    };
    // Of two registers.
    let twice = match bytes {
        128 => "defined(FT_AVX512)",
        64 => "defined(FT_AVX2)",
        32 => "defined(__SSE2__)",
        _ => "0",
    };
    let op = |bytes: usize| match (bytes, ty) {
        (16, "f32") => ("movntps", "x"),
        (16, _) => ("movntpd", "x"),
        (32, "f32") => ("vmovntps", "x"),
        (32, _) => ("vmovntpd", "x"),
        (_, "f32") => ("vmovntps", "v"),
        _ => ("vmovntpd", "v"),
    };
    let (whole, reg) = op(bytes);
    let mut text = format!(
        "{head}#if {set}\n  __asm__(\"{whole} %1, %0\" : \"=m\"(*({ty}x{lanes}u *)p) : \"{reg}\"(v));\n"
    );
    if twice != "0" {
        let half = lanes / 2;
        let (op, reg) = op(bytes / 2);
        let store = |at: usize| {
            format!(
                "  __asm__(\"{op} %1, %0\" : \"=m\"(*(({ty}x{half}u *)p + {at})) : \"{reg}\"(u.h[{at}]));\n"
            )
        };
        text += &format!(
            "#elif {twice}\n  union {{ {ty}x{lanes} v; {ty}x{half} h[2]; }} u = {{v}};\n{}{}",
            store(0),
            store(1)
        );
    }
    text += &format!("#else\n  *({ty}x{lanes}u *)p = v;\n#endif\n}}\n");
    let mut deps = vec![need("types", lanes)];
    if twice != "0" {
        deps.push(need("types", lanes / 2));
    }
    Definition { deps, text }
}

/// Every second element from `p`, of the lanes `from..to` alone: of two vectors, the elements between the first and the
/// last of these lanes.
fn ranged_evens(
    name: &str,
    dtype: &str,
    memory: &'static str,
    value: &str,
    lanes: usize,
) -> String {
    let order = (0..lanes).map(|lane| 2 * lane + usize::from(2 * lane >= lanes));
    let order: Vec<String> = order.map(|lane| lane.to_string()).collect();
    let (last, scalar) = (lanes.saturating_sub(1), scalar(memory));
    let int = if matches!(value, "f64" | "i64") {
        "i64"
    } else {
        "i32"
    };
    let int = match value {
        "i16" | "i8" => value,
        "u8" => "i8",
        _ => int,
    };
    let clip = |bound: &str| format!("({bound} < 0 ? 0 : {bound} > {lanes} ? {lanes} : {bound})");
    let (a, b) = ((clip("f"), clip("t")), (clip("(f - L)"), clip("(t - L)")));
    let b = [b.0, b.1].map(|bound| bound.replace('L', &last.to_string()));
    format!(
        "FT_INLINE {value}x{lanes} {name}x{lanes}(const void *p, long from, long to) {{\n  \
         const long f = 2 * from, t = 2 * to - 1;\n  \
         const {value}x{lanes} a = ft_loadr_{dtype}x{lanes}(p, {}, {});\n  \
         const {value}x{lanes} b = ft_loadr_{dtype}x{lanes}((const {scalar} *)p + {last}, {}, {});\n  \
         return ({value}x{lanes})FT_SHUFFLE({int}x{lanes}, ({int}x{lanes})a, ({int}x{lanes})b, {});\n}}\n",
        a.0,
        a.1,
        b[0],
        b[1],
        order.join(",")
    )
}

/// A vector of elements that are given one by one: compilers insert them in a register, where an array that is filled and
/// then read as a vector waits for its stores.
fn of_lanes(name: &str, lanes: usize, (value, memory): (&str, &str), read: &str) -> String {
    let scalar = scalar(memory);
    let list = |prefix: &str| -> String {
        let each = (0..lanes).map(|lane| format!("{prefix}a{lane}"));
        each.collect::<Vec<_>>().join(", ")
    };
    format!(
        "FT_INLINE {value}x{lanes} {name}x{lanes}({}) {{\n  const {memory}x{lanes} v = {{{}}};\n  return {read};\n}}\n",
        list(&format!("{scalar} ")),
        list("")
    )
}

/// A vector of elements at a distance: every fourth address is computed, the three behind it are of forms that processors
/// address by themselves.
fn at_distance(name: &str, lanes: usize, (value, memory): (&str, &str), read: &str) -> String {
    let scalar = scalar(memory);
    let starts = (4..lanes)
        .step_by(4)
        .map(|lane| format!(", *p{lane} = p{} + 4 * s", lane - 4));
    let element = |lane: usize| match lane % 4 {
        0 => format!("*p{lane}"),
        of => format!("p{}[{of} * s]", lane - of),
    };
    let elements: Vec<String> = (0..lanes).map(element).collect();
    format!(
        "FT_INLINE {value}x{lanes} {name}x{lanes}(const {scalar} *p0, long long s) {{\n  const {scalar} *q = p0{};\n  \
         const {memory}x{lanes} v = {{{}}};\n  return {read};\n}}\n",
        starts.collect::<String>(),
        elements.join(", ")
    )
}

/// The first lanes of a vector of elements at a distance; the others are 0.
fn at_distance_in_part(
    name: &str,
    lanes: usize,
    (value, memory): (&str, &str),
    read: &str,
) -> String {
    let scalar = scalar(memory);
    format!(
        "FT_INLINE {value}x{lanes} {name}x{lanes}(const {scalar} *p, long long s, long m) {{\n  \
         union {{ {memory}x{lanes} v; {scalar} s[{lanes}]; }} u = {{{{}}}};\n  \
         for (long i = 0; i < m; i++) u.s[i] = p[i * s];\n  \
         const {memory}x{lanes} v = u.v;\n  return {read};\n}}\n"
    )
}

pub(super) fn entries() -> Vec<Entry> {
    let mut entries = Vec::new();
    for layout in LAYOUTS {
        let (dtype, memory, ..) = layout;
        let half = dtype.ends_with("f16");
        let deps = move |lanes: usize, to: bool| {
            let mut deps = vec![need("types", lanes)];
            if half {
                deps.push(need(
                    &format!("ft_{}_{dtype}", if to { "to" } else { "from" }),
                    lanes,
                ));
            }
            deps
        };
        entries.push(Entry::new(format!("ft_load_{dtype}"), move |name, lanes| {
            let (value, read, _) = represented(layout, lanes);
            let text = format!(
                "FT_INLINE {value}x{lanes} {name}x{lanes}(const void *p) {{\n  {memory}x{lanes} v = \
                 *(const {memory}x{lanes}u *)p;\n  return {};\n}}\n",
                read
            );
            Definition {
                deps: deps(lanes, false),
                text,
            }
        }));
        entries.push(Entry::new(
            format!("ft_lanes_{dtype}"),
            move |name, lanes| {
                let (value, read, _) = represented(layout, lanes);
                Definition {
                    deps: deps(lanes, false),
                    text: of_lanes(name, lanes, (value, memory), &read),
                }
            },
        ));
        for (stem, text) in [
            (
                "distant",
                at_distance as fn(&str, usize, (&str, &str), &str) -> String,
            ),
            ("distantn", at_distance_in_part),
        ] {
            entries.push(Entry::new(
                format!("ft_{stem}_{dtype}"),
                move |name, lanes| {
                    let (value, read, _) = represented(layout, lanes);
                    Definition {
                        deps: deps(lanes, false),
                        text: text(name, lanes, (value, memory), &read),
                    }
                },
            ));
        }
        let strides = EVERY.iter().zip(2..).map(|(stem, stride)| (*stem, stride));
        for (stem, stride) in strides.chain([("reversed", -1)]) {
            entries.push(Entry::new(
                format!("ft_{stem}_{dtype}"),
                move |name, lanes| {
                    let (value, read, _) = represented(layout, lanes);
                    let head =
                        format!("FT_INLINE {value}x{lanes} {name}x{lanes}(const void *p) {{\n");
                    let tail = format!("  return {read};\n}}\n");
                    Definition {
                        deps: deps(lanes, false),
                        text: format!("{head}{}{tail}", strided(lanes, memory, stride)),
                    }
                },
            ));
        }
        for (stem, count) in ROWS.iter().zip(2..) {
            entries.push(Entry::new(
                format!("ft_{stem}_{dtype}"),
                move |name, lanes| {
                    let (value, read, _) = represented(layout, lanes);
                    let head =
                        format!("FT_INLINE void {name}x{lanes}(const void *p, void *q) {{\n");
                    let body = columns(lanes, (value, memory), count, &read);
                    Definition {
                        deps: deps(lanes, false),
                        text: format!("{head}{body}}}\n"),
                    }
                },
            ));
        }
        for (stem, count) in INTERLEAVE.iter().zip(2..) {
            entries.push(Entry::new(
                format!("ft_{stem}_{dtype}"),
                move |name, lanes| {
                    let (value, _, write) = represented(layout, lanes);
                    let of: Vec<String> = (0..count)
                        .map(|k| format!(", {value}x{lanes} v{k}"))
                        .collect();
                    let head =
                        format!("FT_INLINE void {name}x{lanes}(void *p{}) {{\n", of.concat());
                    let body = interleaved(lanes, (value, memory), count, &write);
                    Definition {
                        deps: deps(lanes, true),
                        text: format!("{head}{body}}}\n"),
                    }
                },
            ));
        }
        entries.push(Entry::new(
            format!("ft_loadr_{dtype}"),
            move |name, lanes| {
            let (value, read, _) = represented(layout, lanes);
                let head = format!(
                    "FT_INLINE {value}x{lanes} {name}x{lanes}(const void *p, long from, long to) {{\n"
                );
                let tail = format!("  return {read};\n}}\n");
                let moves = ranged(lanes, memory);
                Definition {
                    deps: deps(lanes, false),
                    text: moves.guarded(&head, &tail),
                }
            },
        ));
        entries.push(Entry::new(
            format!("ft_evensr_{dtype}"),
            move |name, lanes| {
                let (value, _, _) = represented(layout, lanes);
                Definition {
                    deps: vec![
                        need("types", lanes),
                        need(&format!("ft_loadr_{dtype}"), lanes),
                    ],
                    text: ranged_evens(name, dtype, memory, value, lanes),
                }
            },
        ));
        entries.push(Entry::new(format!("ft_store_{dtype}"), move |name, lanes| {
            let (value, _, write) = represented(layout, lanes);
            let text = format!(
                "FT_INLINE void {name}x{lanes}(void *p, {value}x{lanes} v) {{\n  *({memory}x{lanes}u *)p = {};\n}}\n",
                write
            );
            Definition {
                deps: deps(lanes, true),
                text,
            }
        }));
        entries.push(Entry::new(
            format!("ft_loadn_{dtype}"),
            move |name, lanes| {
                let (value, read, _) = represented(layout, lanes);
                let head =
                    format!("FT_INLINE {value}x{lanes} {name}x{lanes}(const void *p, long m) {{\n");
                let tail = format!("  return {read};\n}}\n");
                let moves = partial(lanes, memory, true);
                Definition {
                    deps: deps(lanes, false),
                    text: moves.guarded(&head, &tail),
                }
            },
        ));
        entries.push(Entry::new(
            format!("ft_storen_{dtype}"),
            move |name, lanes| {
                let (value, _, write) = represented(layout, lanes);
                let mut head = format!(
                    "FT_INLINE void {name}x{lanes}(void *p, {value}x{lanes} w, long m) {{\n"
                );
                let text = write;
                let text = if text == "v" {
                    "w".to_owned()
                } else {
                    text.replace("(v", "(w")
                };
                let _ = writeln!(head, "  {memory}x{lanes} v = {text};");
                let moves = partial(lanes, memory, false);
                Definition {
                    deps: deps(lanes, true),
                    text: moves.guarded(&head, "}\n"),
                }
            },
        ));
    }
    for ty in ["f32", "f64"] {
        entries.push(Entry::new(format!("ft_stream_{ty}"), move |name, lanes| {
            stream(name, ty, lanes)
        }));
    }
    entries.push(Entry::new("ft_between_bool".to_owned(), |name, lanes| {
        let order: Vec<String> = (0..lanes).map(|lane| lane.to_string()).collect();
        let mask = mask_type(lanes);
        let c = scalar(mask);
        Definition {
            deps: vec![need("types", lanes)],
            text: format!(
                "FT_INLINE {mask}x{lanes} {name}x{lanes}(long from, long to) {{\n  \
                 const {mask}x{lanes} l = {{{}}};\n  return (l >= ({c})from) & (l < ({c})to);\n}}\n",
                order.join(",")
            ),
        }
    }));
    let fence = "FT_INLINE void ft_fencex@(void) {\n#if defined(__SSE2__)\n  \
                 __asm__ volatile(\"sfence\" ::: \"memory\");\n#endif\n}\n";
    entries.push(Entry::text("ft_fence", &[], fence));
    entries
}
