//! What a kernel takes: pointers, integers, numbers; and what may share memory.

use super::index::{Among, fits_32_bits};
use super::kernel::Writer;
use super::name::Param;
use crate::body::{BodyOp, MaskId, Source, Value};
use crate::emit::{Pointer, update};
use crate::expr::Term;
use crate::kernel::ir::{
    Access, Arguments, Block, Body, Expr, Kernel, Launch, Local, PointerType, Role, Stmt, Type,
    ValueType, verify,
};
use crate::print::cuda::memory_type;
use ferrotrace_kernels::ValueId;
use ferrotrace_kernels::support::scalar_type;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

impl Writer<'_> {
    /// Pairs (node written, buffer read) that may share memory: every load of the buffer is of the very element that is
    /// stored, by the thread that stores it, and none comes in a later loop.
    pub(super) fn in_place(&self, needed: &[usize]) -> Vec<(ValueId, Source)> {
        let mut pairs = Vec::new();
        for &s in needed.iter().filter(|_| !self.silent) {
            let store = &self.node.stores[s];
            if let Some(update) = &store.update {
                let loops = (self.node, self.stages.loops.len() == 1);
                pairs.extend(update::in_place(loops, &self.pointers, store, update));
                continue;
            }
            let at = self.stages.loops.iter().position(|l| l.stores.contains(&s));
            let Some(at) = at else { continue };
            if !self.node.stores_once(store) {
                continue;
            }
            let fits = |source: Source, v: Value| match &self.node.body.value(v).op {
                BodyOp::Load {
                    source: from,
                    dtype,
                    index,
                    mask,
                } if *from == source => {
                    let later = &self.stages.loops[at + 1..];
                    *index == store.index
                        && mask.is_none()
                        && dtype.size() == store.dtype.size()
                        && !later.iter().any(|l| l.compute.contains(&v))
                        && !self.stages.row.iter().flatten().any(|&x| x == v)
                }
                _ => true,
            };
            for pointer in &self.pointers {
                if let Pointer::Read(source) = *pointer
                    && self.stages.computed().iter().all(|&v| fits(source, v))
                {
                    pairs.push((store.node, source));
                }
            }
        }
        pairs
    }

    pub(super) fn collect_pointers(&mut self, needed: &[usize]) {
        for v in self.stages.computed() {
            if let BodyOp::Load { source, dtype, .. } = self.node.body.value(v).op
                && self.given != Some(source)
                && !self.pointers.contains(&Pointer::Read(source))
            {
                self.pointers.push(Pointer::Read(source));
                self.pointer_types.push(dtype);
            }
        }
        for &s in needed.iter().filter(|_| !self.silent) {
            let written = Pointer::Write(self.node.stores[s].node);
            // A loop that was unrolled has several stores of one result.
            if !self.pointers.contains(&written) {
                self.pointers.push(written);
                self.pointer_types.push(self.node.stores[s].dtype);
            }
        }
    }

    pub(super) fn print_indices(&mut self, needed: &[usize]) {
        for v in self.stages.computed() {
            let node = self.node;
            let (index, mask, loads) = match &node.body.value(v).op {
                BodyOp::Load { index, mask, .. } => (Some(index), *mask, true),
                BodyOp::Index(e) => (Some(e), None, false),
                BodyOp::Random { index, .. } => (Some(index), None, false),
                BodyOp::Mask(m) => (None, Some(*m), false),
                BodyOp::Check { mask, .. } => (None, *mask, false),
                _ => (None, None, false),
            };
            let given = match node.body.value(v).op {
                BodyOp::Load { source, .. } => self.given == Some(source),
                _ => false,
            };
            if let Some(e) = index.filter(|_| !given) {
                let printed = match node.body.value(v).op {
                    BodyOp::Load { source, .. } => self.index_among(e, Among::Loads(source)),
                    _ => self.index(e),
                };
                let whole = mask.is_none_or(|mask| self.is_of_chunks(mask));
                if loads && whole && printed.unit && self.shape.lanes > 1 {
                    self.whole.insert(v);
                }
                self.indices.insert(v, printed);
            }
            if let Some(m) = mask
                && !self.masks.contains_key(&m)
            {
                let conditions = node.body.mask(m).iter();
                let printed = conditions
                    .map(|e| self.index_among(e, Among::Conditions))
                    .collect();
                self.masks.insert(m, printed);
            }
        }
        if let Some(v) = self.shape.shifted
            && let Some(base) = self.indices.get(&v).and_then(|i| i.base)
        {
            let mask = self.shape.lanes as i64 - 1;
            let shift = (Expr::from(base) & mask).cast(Type::INT);
            self.preamble
                .push(Stmt::constant(Local::Shift, Type::INT, shift));
        }
        for &s in needed {
            let printed = self.index(self.node.place(&self.node.stores[s]));
            self.store_indices.insert(s, printed);
        }
    }

    /// Whether a mask's conditions hold for all elements of a chunk or for none, and follow from its place alone. A product's
    /// template loads elements by itself.
    fn is_of_chunks(&self, mask: MaskId) -> bool {
        let vector = self.vector_var();
        let moves = |term: &Term| match term {
            Term::Var(v) => *v == vector,
            Term::Value(_) => true,
            _ => false,
        };
        let mut conditions = self.node.body.mask(mask).iter();
        self.given.is_none() && !self.gives && !conditions.any(|e| e.any(&mut |t| moves(t)))
    }

    /// Whether all index arithmetic keeps to 32 bits.
    pub(super) fn narrow_indices(&self) -> bool {
        let node = self.node;
        let values = self.stages.computed();
        let exprs = values.iter().flat_map(|&v| node.body.exprs(v));
        let stores = node.stores.iter().map(|s| node.place(s));
        let reduced = self.stages.reductions();
        let positions = reduced.iter().flat_map(|&v| node.body.exprs(v));
        let sizes = values.iter().all(|&v| match node.body.value(v).op {
            BodyOp::Check { size, .. } => size < i32::MAX as i64,
            _ => true,
        });
        sizes
            && self.shape.units() < 1 << 30
            && exprs
                .chain(stores)
                .chain(positions)
                .all(|e| fits_32_bits(e, &self.extents, &node.body))
    }

    /// The kernel of these functions, which wait for the kernel before; verified with debug assertions.
    pub(super) fn ir(&self, main: Block, finish: Option<Block>) -> Kernel {
        let pointer = |(pointer, dtype): (&Pointer, &DType)| {
            let access = match pointer {
                Pointer::Read(_) => Access::Read,
                Pointer::Write(_) => Access::Write,
            };
            PointerType::global(ValueType::Memory(*dtype), access)
        };
        let pointers = self.pointers.iter().zip(&self.pointer_types);
        let numbers = self.node.body.numbers().iter();
        let function = |(role, statements): (Role, Block)| {
            let mut block = Block::from(Stmt::Wait);
            block.append(statements);
            Body { role, block }
        };
        let finish = finish.map(|block| (Role::Finish, block));
        let functions = [(Role::Work, main)].into_iter().chain(finish);
        let kernel = Kernel {
            arguments: Arguments {
                params: self.params.len() as u32,
                pointers: pointers.map(pointer).collect(),
                numbers: numbers.map(|number| number.dtype).collect(),
            },
            lanes: 0,
            functions: functions.map(function).collect(),
            launch: Launch {
                threads: self.shape.threads,
                finish_threads: self.shape.finish_threads,
            },
        };
        debug_assert_eq!(verify(&kernel), Ok(()), "{kernel}");
        kernel
    }

    /// The structure of the kernel's arguments.
    pub(super) fn structure(&self, out: &mut String) {
        let numbers = self.node.body.numbers().len();
        out.push_str(&structure(self.pointers.len(), self.params.len(), numbers));
    }

    /// Constants at the start of a kernel: arguments by name.
    pub(super) fn head(&self, in_place: &[(ValueId, Source)]) -> String {
        let mut text = String::new();
        for i in 0..self.params.len() {
            let _ = writeln!(text, "  const ft_int P{i} = (ft_int)a.P{i};");
        }
        for divisor in &self.divisors {
            let [n, magic, shift] = [0, 1, 2].map(|i| Param(divisor.0 + i));
            let _ = writeln!(
                text,
                "  const ft_divisor {divisor} = {{{n}, (unsigned)a.{magic}, (int)a.{shift}}};"
            );
        }
        for (i, (pointer, dtype)) in self.pointers.iter().zip(&self.pointer_types).enumerate() {
            let (qualifier, shared) = match pointer {
                Pointer::Read(s) => ("const ", in_place.iter().any(|p| p.1 == *s)),
                Pointer::Write(n) => ("", in_place.iter().any(|p| p.0 == *n)),
            };
            let restrict = if shared { "" } else { "__restrict__ " };
            let ty = memory_type(*dtype);
            let _ = writeln!(
                text,
                "  {qualifier}{ty} *{restrict}p{i} = ({qualifier}{ty} *)a.p{i};"
            );
        }
        for (i, number) in self.node.body.numbers().iter().enumerate() {
            let (ty, at) = (scalar_type(number.dtype), self.first_number + i);
            let value = match number.dtype.compute() {
                DType::F32 => format!("__int_as_float((int)a.s{at})"),
                DType::F64 => format!("__longlong_as_double((long long)a.s{at})"),
                _ => format!("({ty})a.s{at}"),
            };
            let _ = writeln!(text, "  const {ty} s{i} = {value};");
        }
        text
    }
}

/// The structure of the arguments of a kernel with so many pointers, integers and numbers.
pub(super) fn structure(pointers: usize, params: usize, numbers: usize) -> String {
    let mut out = "struct FT_SYMBOL_args {\n".to_owned();
    for i in 0..pointers {
        let _ = writeln!(out, "  void *p{i};");
    }
    for i in 0..params {
        let _ = writeln!(out, "  long long P{i};");
    }
    for i in 0..numbers {
        let _ = writeln!(out, "  unsigned long long s{i};");
    }
    out.push_str("  char *scratch;\n  long long *fault;\n};\n");
    out
}
