//! Recording of a support function, and its text as vector C.

mod scalar;
mod vector;

pub(super) use scalar::literal as scalar_literal;
pub(super) use vector::literal;

use super::lane::{Float, Float32, Int, Mask};
use super::{Definition, SCALAR, need};
use std::cell::RefCell;
use std::fmt::Write;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// The type of a recorded value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    F32,
    F64,
    I32,
    I64,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::F32 => "f32",
            Kind::F64 => "f64",
            Kind::I32 => "i32",
            Kind::I64 => "i64",
        }
    }

    /// Whether elements have 64 bits.
    fn is_wide(self) -> bool {
        matches!(self, Kind::F64 | Kind::I64)
    }

    /// The integer type of the same width.
    fn int(self) -> Kind {
        match self {
            Kind::F32 | Kind::I32 => Kind::I32,
            Kind::F64 | Kind::I64 => Kind::I64,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Node {
    Arg(usize),
    Float(f64),
    Int(i64),
    Prefix(&'static str, u32),
    Infix(&'static str, u32, u32),
    Compare(&'static str, u32, u32),
    Shift(&'static str, bool, u32, u32),
    Bitcast(u32),
    Convert(u32),
    Call(&'static str, [u32; 3], usize),
    Select(u32, u32, u32),
    Table(&'static str, u32),
    /// A variable with this first value, set again by the next `Merge` that names it.
    Variable(u32),
    Open(u32),
    Merge {
        mask: u32,
        variable: u32,
        value: u32,
    },
    Close,
}

#[derive(Debug, Default)]
struct Arena {
    nodes: Vec<(Kind, Node)>,
    tables: Vec<(&'static str, &'static [f64; 128])>,
}

impl Arena {
    const EMPTY: Arena = Arena {
        nodes: Vec::new(),
        tables: Vec::new(),
    };
}

thread_local! {
    /// The arena of the function being recorded, empty between functions. It is never dropped, so that threads can record
    /// while they end.
    static ARENA: ManuallyDrop<RefCell<Arena>> = const { ManuallyDrop::new(RefCell::new(Arena::EMPTY)) };
}

fn push(kind: Kind, node: Node) -> u32 {
    ARENA.with(|arena| {
        let mut arena = arena.borrow_mut();
        arena.nodes.push((kind, node));
        (arena.nodes.len() - 1) as u32
    })
}

/// A Rust type that marks the kind of a recorded value.
pub trait Marker: Copy + 'static {
    #[doc(hidden)]
    const FLOAT: bool;
    #[doc(hidden)]
    const WIDE: bool;
}

/// The marker type of binary32.
#[derive(Clone, Copy, Debug)]
pub struct F32;
/// The marker type of binary64.
#[derive(Clone, Copy, Debug)]
pub struct F64;
/// Marks integers of 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct I32;
/// Marks integers of 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct I64;
/// Marks truth values beside values of 32 bits.
#[derive(Clone, Copy, Debug)]
pub struct M32;
/// Marks truth values beside values of 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct M64;

macro_rules! markers {
    ($($t:ident $float:literal $wide:literal),*) => {$(
        impl Marker for $t {
            const FLOAT: bool = $float;
            const WIDE: bool = $wide;
        }
    )*};
}

markers!(F32 true false, F64 true true, I32 false false, I64 false true, M32 false false, M64 false true);

/// A recorded value.
#[derive(Debug)]
pub struct Sym<K>(u32, PhantomData<K>);

impl<K> Clone for Sym<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Sym<K> {}

impl<K: Marker> Sym<K> {
    fn record(node: Node) -> Self {
        Sym(push(Self::kind(), node), PhantomData)
    }

    fn kind() -> Kind {
        match (K::FLOAT, K::WIDE) {
            (true, false) => Kind::F32,
            (true, true) => Kind::F64,
            (false, false) => Kind::I32,
            (false, true) => Kind::I64,
        }
    }

    /// A call of a support function that is no method of a trait.
    pub(super) fn function<A>(name: &'static str, args: &[Sym<A>]) -> Self {
        let ids: Vec<u32> = args.iter().map(|a| a.0).collect();
        Self::call(name, &ids)
    }

    fn call(name: &'static str, args: &[u32]) -> Self {
        let mut all = [0; 3];
        all[..args.len()].copy_from_slice(args);
        Self::record(Node::Call(name, all, args.len()))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:literal: $($k:ident)*),* $(,)?) => {$($(
        impl $trait for Sym<$k> {
            type Output = Self;
            fn $method(self, o: Self) -> Self {
                Sym::record(Node::Infix($op, self.0, o.0))
            }
        }
    )*)*};
}

operators! {
    Add add "+": F32 F64 I32 I64,
    Sub sub "-": F32 F64 I32 I64,
    Mul mul "*": F32 F64 I32 I64,
    Div div "/": F32 F64,
    BitAnd bitand "&": I32 I64 M32 M64,
    BitOr bitor "|": I32 I64 M32 M64,
    BitXor bitxor "^": I32 I64 M32 M64,
}

macro_rules! prefixes {
    ($($trait:ident $method:ident $op:literal: $($k:ident)*),* $(,)?) => {$($(
        impl $trait for Sym<$k> {
            type Output = Self;
            fn $method(self) -> Self {
                Sym::record(Node::Prefix($op, self.0))
            }
        }
    )*)*};
}

prefixes! {
    Neg neg "-": F32 F64 I32 I64,
    Not not "~": I32 I64 M32 M64,
}

impl Mask for Sym<M32> {}
impl Mask for Sym<M64> {}

macro_rules! symbolic {
    ($f:ident $i:ident $m:ident $suffix:literal) => {
        impl Int for Sym<$i> {
            type Float = Sym<$f>;
            type Mask = Sym<$m>;
            fn lit(v: i64) -> Self {
                Sym::record(Node::Int(v))
            }
            fn shl(self, n: u32) -> Self {
                Sym::record(Node::Shift("<<", false, self.0, n))
            }
            fn sar(self, n: u32) -> Self {
                Sym::record(Node::Shift(">>", false, self.0, n))
            }
            fn shr(self, n: u32) -> Self {
                Sym::record(Node::Shift(">>", true, self.0, n))
            }
            fn eq(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare("==", self.0, o.0))
            }
            fn lt(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare("<", self.0, o.0))
            }
            fn gt(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare(">", self.0, o.0))
            }
            fn float_bits(self) -> Sym<$f> {
                Sym::record(Node::Bitcast(self.0))
            }
            fn to_float(self) -> Sym<$f> {
                Sym::record(Node::Convert(self.0))
            }
            fn sel(m: Sym<$m>, a: Self, b: Self) -> Self {
                Sym::record(Node::Select(m.0, a.0, b.0))
            }
            fn from_mask(m: Sym<$m>) -> Self {
                Sym(m.0, PhantomData)
            }
        }

        impl Float for Sym<$f> {
            type Int = Sym<$i>;
            type Mask = Sym<$m>;
            fn lit(v: f64) -> Self {
                Sym::record(Node::Float(v))
            }
            fn fma(self, b: Self, c: Self) -> Self {
                Sym::call(concat!("ft_fma_", $suffix), &[self.0, b.0, c.0])
            }
            fn sqrt(self) -> Self {
                Sym::call(concat!("ft_sqrt_", $suffix), &[self.0])
            }
            fn rint(self) -> Self {
                Sym::call(concat!("ft_round_", $suffix), &[self.0])
            }
            fn floor(self) -> Self {
                Sym::call(concat!("ft_floor_", $suffix), &[self.0])
            }
            fn ceil(self) -> Self {
                Sym::call(concat!("ft_ceil_", $suffix), &[self.0])
            }
            fn trunc(self) -> Self {
                Sym::call(concat!("ft_trunc_", $suffix), &[self.0])
            }
            fn max_of(self, o: Self) -> Self {
                Sym::call(concat!("ft_max_of_", $suffix), &[self.0, o.0])
            }
            fn min_of(self, o: Self) -> Self {
                Sym::call(concat!("ft_min_of_", $suffix), &[self.0, o.0])
            }
            fn scale(self, n: Self) -> Self {
                Sym::call(concat!("ft_scale_", $suffix), &[self.0, n.0])
            }
            fn lt(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare("<", self.0, o.0))
            }
            fn le(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare("<=", self.0, o.0))
            }
            fn gt(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare(">", self.0, o.0))
            }
            fn ge(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare(">=", self.0, o.0))
            }
            fn eq(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare("==", self.0, o.0))
            }
            fn ne(self, o: Self) -> Sym<$m> {
                Sym::record(Node::Compare("!=", self.0, o.0))
            }
            fn bits(self) -> Sym<$i> {
                Sym::record(Node::Bitcast(self.0))
            }
            fn sel(m: Sym<$m>, a: Self, b: Self) -> Self {
                Sym::record(Node::Select(m.0, a.0, b.0))
            }
            fn where_set(self, m: Sym<$m>) -> Self {
                (self.bits() & Sym::from_mask(m)).float_bits()
            }
            fn rare(
                m: Sym<$m>,
                default: (Self, Sym<$i>),
                f: impl FnOnce() -> (Self, Sym<$i>),
            ) -> (Self, Sym<$i>) {
                let float = Self::record(Node::Variable(default.0.0));
                let int = Sym::<$i>::record(Node::Variable(default.1.0));
                Sym::<$i>::record(Node::Open(m.0));
                let value = f();
                Self::record(Node::Merge {
                    mask: m.0,
                    variable: float.0,
                    value: value.0.0,
                });
                Sym::<$i>::record(Node::Merge {
                    mask: m.0,
                    variable: int.0,
                    value: value.1.0,
                });
                Sym::<$i>::record(Node::Close);
                (float, int)
            }
        }
    };
}

symbolic!(F32 I32 M32 "f32");
symbolic!(F64 I64 M64 "f64");

impl Float32 for Sym<F32> {
    type Wide = Sym<F64>;
    fn widen(self) -> Sym<F64> {
        Sym::record(Node::Convert(self.0))
    }
    fn narrow(w: Sym<F64>) -> Self {
        Sym::record(Node::Convert(w.0))
    }
    fn narrow_int(w: Sym<I64>) -> Sym<I32> {
        Sym::record(Node::Convert(w.0))
    }
    fn table(name: &'static str, values: &'static [f64; 128], index: Sym<I32>) -> Sym<F64> {
        ARENA.with(|arena| {
            let mut arena = arena.borrow_mut();
            if arena.tables.iter().all(|t| t.0 != name) {
                arena.tables.push((name, values));
            }
        });
        Sym::record(Node::Table(name, index.0))
    }
}

/// Records a function of `args`, which it receives as their positions among the recorded values; it returns the
/// position of its result. Prints it as a C function `{name}x{lanes}`, or in the scalar dialect.
fn function(name: &str, lanes: usize, args: &[Kind], f: impl FnOnce(&[u32]) -> u32) -> Definition {
    let saved = ARENA.with(|arena| arena.take());
    let ids: Vec<u32> = args
        .iter()
        .enumerate()
        .map(|(i, k)| push(*k, Node::Arg(i)))
        .collect();
    let result = f(&ids);
    let arena = ARENA.with(|arena| arena.replace(saved));
    if lanes == SCALAR {
        return scalar::print(name, &arena, result);
    }
    vector::print(name, lanes, &arena, result)
}

/// The definition of a function of one argument.
pub(super) fn unary<A: Marker, R: Marker>(
    name: &str,
    lanes: usize,
    f: fn(Sym<A>) -> Sym<R>,
) -> Definition {
    function(name, lanes, &[Sym::<A>::kind()], |ids| {
        f(Sym(ids[0], PhantomData)).0
    })
}

/// The definition of a function of two arguments.
pub(super) fn binary<A: Marker, R: Marker>(
    name: &str,
    lanes: usize,
    f: fn(Sym<A>, Sym<A>) -> Sym<R>,
) -> Definition {
    let kind = Sym::<A>::kind();
    function(name, lanes, &[kind, kind], |ids| {
        f(Sym(ids[0], PhantomData), Sym(ids[1], PhantomData)).0
    })
}

/// The definition of a function of three arguments.
pub(super) fn ternary<A: Marker, R: Marker>(
    name: &str,
    lanes: usize,
    f: fn(Sym<A>, Sym<A>, Sym<A>) -> Sym<R>,
) -> Definition {
    let kind = Sym::<A>::kind();
    let arg = |id: u32| Sym(id, PhantomData);
    function(name, lanes, &[kind; 3], |ids| {
        f(arg(ids[0]), arg(ids[1]), arg(ids[2])).0
    })
}

/// The definition of `{name}x{lanes}(p0, p1, p2, p3)`, which puts in the place of each of four vectors what the function
/// `one` makes of it. The four are computed step by step together: one alone is a chain in which every operation waits for
/// the one before it, and the processor looks only so far ahead for others.
pub(super) fn four<A: Marker>(
    name: &str,
    one: &'static str,
    lanes: usize,
    f: fn(Sym<A>) -> Sym<A>,
) -> Definition {
    let kind = Sym::<A>::kind();
    let saved = ARENA.with(|arena| arena.take());
    let argument = push(kind, Node::Arg(0));
    let result = f(Sym(argument, PhantomData)).0;
    let arena = ARENA.with(|arena| arena.replace(saved));
    let ty = format!("{}x{lanes}", kind.name());
    let head =
        format!("FT_INLINE void {name}x{lanes}({ty} *p0, {ty} *p1, {ty} *p2, {ty} *p3) {{\n");
    let straight = arena.nodes.iter().all(|(kind, node)| {
        let jumps = matches!(
            node,
            Node::Table(..) | Node::Variable(_) | Node::Open(_) | Node::Merge { .. } | Node::Close
        );
        !jumps && !kind.is_wide()
    });
    let mut text = head;
    let mut deps = vec![need("types", lanes)];
    if !straight || lanes == SCALAR {
        for i in 0..4 {
            let _ = writeln!(text, "  *p{i} = {one}x{lanes}(*p{i});");
        }
        deps.push(need(one, lanes));
    } else {
        let copies = ["_0", "_1", "_2", "_3"];
        let form = vector::Form {
            lanes,
            halves: false,
        };
        let (body, calls) = vector::statements(form, &arena, result, &copies);
        for (i, copy) in copies.iter().enumerate() {
            let _ = writeln!(text, "  const {ty} a0{copy} = *p{i};");
        }
        text.push_str(&body);
        for (i, copy) in copies.iter().enumerate() {
            let _ = writeln!(
                text,
                "  *p{i} = {};",
                vector::operand(lanes, &arena, result, copy)
            );
        }
        deps.extend(calls);
    }
    text.push_str("}\n");
    Definition { deps, text }
}
