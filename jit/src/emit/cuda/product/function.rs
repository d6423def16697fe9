//! The functions that a template of products calls for chunks of 8 elements: an epilogue takes sums, a prologue gives
//! elements of an operand. Each is the loop body of a pointwise kernel, over one chunk.

use super::super::index::Position;
use super::super::kernel::Writer;
use super::super::name::{Param, Place};
use super::super::shape;
use super::super::shape::Form;
use super::super::stage::stages;
use super::super::value;
use super::LANES;
use crate::body::{BodyOp, Number, Source, Value};
use crate::emit::Pointer;
use crate::expr::{Term, Var};
use crate::kernel::ir::Expr;
use crate::print::cuda::{self, memory_type};
use crate::schedule::FusedNode;
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::cuda::tiles;
use ferrotrace_kernels::support::Need;
use ferrotrace_runtime::DType;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The arguments of a kernel, to which each of its functions adds those that it needs.
#[derive(Debug, Default)]
pub struct Arguments {
    pub pointers: Vec<Pointer>,
    pub types: Vec<DType>,
    pub params: Vec<i64>,
    pub numbers: Vec<Number>,
    pub needs: BTreeSet<Need>,
    /// Whether all index arithmetic keeps to 32 bits.
    pub narrow: bool,
    pub reports: bool,
    /// Pairs (node written, buffer read) that may share memory.
    pub in_place: Vec<(ValueId, Source)>,
}

/// A function's text.
#[derive(Debug)]
pub struct Function {
    pub text: String,
    /// Bytes that it loads for a chunk of one row, and for a chunk of all rows together.
    pub bytes: [usize; 2],
}

/// The text of loads of whole chunks: members that hold them, statements that load, and names within the function.
#[derive(Default)]
struct Loads {
    members: String,
    loads: String,
    names: String,
    bytes: usize,
}

/// The loads of whole chunks of a function.
struct Reads {
    /// Loads that differ from row to row.
    of_row: Loads,
    /// Loads that all rows share.
    of_all: Loads,
    /// Whether all chunks are whole and begin at multiples of their size, if the pointers do.
    whole: bool,
    pointers: Vec<Place>,
}

impl Loads {
    fn add(&mut self, ty: &str, v: Value, from: &str, of: &str, of_operand: bool) {
        let _ = writeln!(self.members, "    __align__(16) {ty} g{v}[{LANES}];");
        let _ = match of_operand {
            true => writeln!(self.loads, "    ft_load_as<W>({of}.g{v}, {from}, m);"),
            false => writeln!(self.loads, "    ft_load({of}.g{v}, {from}, m);"),
        };
        let _ = writeln!(self.names, "    const {ty} (&g{v})[{LANES}] = {of}.g{v};");
    }
}

impl Function {
    /// The epilogue of `product`, of the type `FT_SYMBOL_after`: it takes sums and does the stores `needed`.
    pub fn after(
        node: &FusedNode,
        product: ValueId,
        needed: &[usize],
        arguments: &mut Arguments,
    ) -> Function {
        Function::write(node, needed, Some(product), "after", arguments)
    }

    /// The prologue of an operand, of the type `FT_SYMBOL_before0` or `1`: it gives elements in binary32, 0 behind a row's end.
    pub fn before(node: &FusedNode, operand: usize, arguments: &mut Arguments) -> Function {
        Function::write(node, &[0], None, &format!("before{operand}"), arguments)
    }

    fn write(
        node: &FusedNode,
        needed: &[usize],
        given: Option<ValueId>,
        name: &str,
        arguments: &mut Arguments,
    ) -> Function {
        let mut writer = writer(node, needed, given, arguments);
        writer.collect_pointers(needed);
        writer.print_indices(needed);
        let values = writer.row_values(0, None);
        let values = writer.lines(&values, 2);
        let place = writer.decode_chunk();
        let place = writer.lines(&place, 4);
        let reads = Reads::of(&writer, given.is_some());
        let whole = match given {
            Some(_) => None,
            None => Some(writer.param(reads.whole.into())),
        };
        let l = writer.stages.loops[0].clone();
        let chunk = writer.chunk(0, &l, &[]);
        let chunk = writer.lines(&chunk, 4);
        let row = writer.row_variables();
        let row = writer.lines(&row, 2);
        let in_place = match given {
            Some(_) => writer.in_place(needed),
            None => Vec::new(),
        };
        let head = writer.head(&in_place);
        let start = format!("{head}{row}{}", writer.preamble_text());
        let text = Text {
            head,
            start,
            values,
            place,
            chunk,
        };
        let text = match whole {
            None => text.after(name, &reads),
            Some(whole) => text.before(name, &reads, whole),
        };
        arguments.take_back(writer, in_place);
        Function {
            text,
            bytes: [reads.of_row.bytes, reads.of_all.bytes],
        }
    }
}

/// The writer of a function over chunks of [`LANES`] elements, which adds to the arguments of a kernel.
fn writer<'a>(
    node: &'a FusedNode,
    needed: &[usize],
    given: Option<ValueId>,
    arguments: &mut Arguments,
) -> Writer<'a> {
    let stages = stages(node, needed);
    let mut shape = shape::of(node, &stages, needed, false);
    (shape.form, shape.lanes, shape.tile) = (Form::Pointwise, LANES, None);
    // Where a row has several column variables, the last goes through whole chunks.
    shape.line = node.red.last().map_or(1, |n| n.div_ceil(LANES));
    shape.chunks = node.cols().div_ceil(LANES);
    let mut writer = Writer::new(node, stages, shape);
    writer.given = given.map(Source::Node);
    (writer.gives, writer.silent) = (given.is_none(), given.is_none());
    writer.coarse = value::coarse(node);
    writer.params = std::mem::take(&mut arguments.params);
    writer.pointers = std::mem::take(&mut arguments.pointers);
    writer.pointer_types = std::mem::take(&mut arguments.types);
    writer.first_number = arguments.numbers.len();
    writer.needs.append(&mut arguments.needs);
    writer
}

impl Arguments {
    /// Takes the arguments back from a writer that has added to them.
    fn take_back(&mut self, writer: Writer<'_>, in_place: Vec<(ValueId, Source)>) {
        self.narrow &= writer.narrow_indices();
        self.reports |= writer.reports;
        self.in_place.extend(in_place);
        self.needs = writer.needs;
        self.needs.extend(tiles::needs());
        (self.pointers, self.types) = (writer.pointers, writer.pointer_types);
        self.params = writer.params;
        self.numbers.extend(writer.node.body.numbers());
    }
}

impl Reads {
    /// The loads of a function's chunks. The function is an epilogue if it is `given` a product, else a prologue.
    fn of(writer: &Writer<'_>, given: bool) -> Reads {
        let node = writer.node;
        let rows = node.iter.len() as u32;
        let (mut of_row, mut of_all) = (Loads::default(), Loads::default());
        let last = writer.extents.last().copied().unwrap_or(1);
        let (mut whole, mut pointers) = (last.is_multiple_of(LANES), Vec::new());
        let compute = writer.stages.loops[0].compute.iter();
        for &v in compute.filter(|v| writer.whole.contains(*v)) {
            let BodyOp::Load {
                source,
                dtype,
                ref index,
                ..
            } = node.body.value(v).op
            else {
                continue;
            };
            let varies = index.any(&mut |term| match term {
                Term::Var(Var(v)) => *v < rows,
                Term::Value(_) => true,
                _ => false,
            });
            let vector = Term::Var(writer.vector_var());
            let apart = index.terms().iter().filter(|(t, _)| *t != vector);
            let all = |n: i64| n % LANES as i64 == 0;
            whole &= apart.map(|t| t.1).all(all) && all(index.constant());
            let pointer = writer.pointer(source);
            pointers.push(pointer);
            let (to, of) = match varies || given {
                true => (&mut of_row, "x"),
                false => (&mut of_all, "y"),
            };
            let index = writer.indices[&v].at(Position::Chunk);
            // An index calls no support function.
            let from = cuda::expr(&(Expr::from(pointer) + index), &mut BTreeSet::new());
            to.add(memory_type(dtype), v, &from, of, !given);
            to.bytes += LANES * dtype.size();
        }
        Reads {
            of_row,
            of_all,
            whole,
            pointers,
        }
    }
}

/// The statements of which functions are made.
struct Text {
    /// The arguments by name.
    head: String,
    /// The arguments by name, a row's variables, and what indices have of them.
    start: String,
    /// A row's values.
    values: String,
    /// Where a chunk lies.
    place: String,
    /// The chunk.
    chunk: String,
}

/// How methods of a function's type begin.
const METHOD: &str = "  __device__ __forceinline__ void";

impl Text {
    /// The type of an epilogue.
    fn after(&self, name: &str, reads: &Reads) -> String {
        let Text {
            start,
            values,
            place,
            chunk,
            ..
        } = self;
        let Loads {
            members,
            loads,
            names,
            ..
        } = &reads.of_row;
        format!(
            "struct FT_SYMBOL_{name} {{\n  const FT_SYMBOL_args &a;\n  struct ahead {{\n{members}  }};\n\
             {METHOD} load(const ft_int row, const ft_int c, ahead &x) const {{\n{start}{values}{place}{loads}  }}\n\
             {METHOD} operator()(const ft_int row, const ft_int c, const float (&given)[{LANES}], const ahead &x) const \
             {{\n{start}{values}{names}{chunk}  }}\n}};\n"
        )
    }

    /// The type of a prologue. The argument `whole` says whether all chunks are whole and begin at multiples of their size,
    /// if the pointers do.
    fn before(&self, name: &str, reads: &Reads, whole: Param) -> String {
        let Text {
            head,
            start,
            values,
            place,
            chunk,
        } = self;
        let Loads {
            members,
            loads,
            names,
            ..
        } = &reads.of_row;
        let same = &reads.of_all;
        let aligned = |p: &Place| format!(" && ((unsigned long long){p} & 15) == 0");
        let aligned: String = reads.pointers.iter().map(aligned).collect();
        let template = "  template <bool W>\n";
        // Loads that all rows share are written for row 0.
        format!(
            "struct FT_SYMBOL_{name} {{\n  const FT_SYMBOL_args &a;\n  struct ahead {{\n{members}  }};\n\
             {template}{METHOD} load(const ft_int row, const ft_int c, ahead &x) const {{\n{start}{values}{place}{loads}  }}\n  \
             struct same {{\n{}  }};\n  __device__ __forceinline__ bool whole() const {{\n{head}    return {whole} != 0{aligned};\n  \
             }}\n{template}{METHOD} load_same(const ft_int c, same &y) const {{\n  const ft_int row = \
             0;\n{start}{place}{}  }}\n{METHOD} operator()(const ft_int row, const ft_int c, float (&out)[{LANES}], const \
             ahead &x, const same &y) const {{\n{start}{values}{names}{}{chunk}  }}\n}};\n",
            same.members, same.loads, same.names
        )
    }
}
