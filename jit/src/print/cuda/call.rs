//! Calls and numbers in CUDA C++.

use crate::kernel::ir::{Cached, Call, Expr, Function, Shuffle, Type};
use crate::print::Printer;
use ferrotrace_runtime::DType;

impl Printer<'_> {
    pub(in crate::print) fn cuda_float(&mut self, dtype: DType, number: f64) {
        let single = dtype.compute() == DType::F32;
        let text = match (number.is_finite(), single) {
            (true, true) => format!("{number:?}f"),
            (true, false) => format!("{number:?}"),
            (false, true) => format!("__int_as_float({:#x})", (number as f32).to_bits()),
            (false, false) => format!("__longlong_as_double({:#x}LL)", number.to_bits()),
        };
        self.out.push_str(&text);
    }

    pub(in crate::print) fn cuda_call(&mut self, call: &Call) {
        let arguments = &call.arguments[..];
        match call.function {
            Function::Unary(op, dtype, _) => {
                let a = self.apart(&arguments[0]);
                let text = op.scalar_expr(dtype, &a, self.needs.set());
                return self.out.push_str(&text);
            }
            Function::Binary(op, dtype, _) => {
                let (a, b) = (self.apart(&arguments[0]), self.apart(&arguments[1]));
                let text = op.scalar_expr(dtype, &a, &b, self.needs.set());
                return self.out.push_str(&text);
            }
            Function::Support(stem, dtype, lanes) => {
                self.support(&format!("ft_{stem}_{}", dtype.name()), lanes);
            }
            Function::Cast(from, to, lanes) => {
                self.support(&format!("ft_cast_{}_{}", from.name(), to.name()), lanes);
            }
            Function::NoWords => return self.out.push_str("uint4{0, 0, 0, 0}"),
            Function::Apply(_) => {
                self.expr(&arguments[0]);
                self.out.push('(');
                self.list(&arguments[1..]);
                return self.out.push(')');
            }
            Function::Shuffle(which, dtype) => return self.shuffle(which, dtype, arguments),
            Function::Behind(warps) => self.of_constant("ft_behind", warps),
            Function::Before(bytes, _) => self.of_constant("ft_before", bytes),
            function => self.cuda_name(function),
        }
        self.out.push('(');
        if call.function == Function::Check {
            self.out.push_str("a.fault, ");
        }
        self.list(arguments);
        self.out.push(')');
    }

    /// A call that all lanes of a warp make.
    fn shuffle(&mut self, which: Shuffle, dtype: DType, arguments: &[Expr]) {
        self.out.push('(');
        self.ty(Type::scalar(dtype));
        self.out.push_str(match which {
            Shuffle::Xor => ")__shfl_xor_sync(~0u, ",
            Shuffle::Down => ")__shfl_down_sync(~0u, ",
            Shuffle::From => ")__shfl_sync(~0u, ",
        });
        self.list(arguments);
        self.out.push(')');
    }

    /// The name of a function that takes a constant.
    fn of_constant(&mut self, name: &str, constant: u32) {
        self.out.push_str(name);
        self.out.push('<');
        self.number(constant.into());
        self.out.push('>');
    }

    /// The name of a function that the kernel's own text, or the compiler, has.
    pub(in crate::print) fn cuda_name(&mut self, function: Function) {
        let name = match function {
            Function::Least => "ft_least",
            Function::Greatest => "ft_most",
            Function::FloorDiv => "ft_floor_div",
            Function::FloorMod => "ft_floor_mod",
            Function::Check => "ft_index",
            Function::Within => "ft_within",
            Function::LoadChunk(Cached::Stays) => "ft_load",
            Function::LoadChunk(Cached::Leaves) => "ft_load_last",
            Function::StoreChunk(Cached::Stays) => "ft_store",
            Function::StoreChunk(Cached::Leaves) => "ft_store_last",
            Function::ElementOf => "ft_bf16_at",
            Function::Pack(DType::F16) => "ft_pack_f16",
            Function::Pack(_) => "ft_pack_bf16",
            Function::Divide => "ft_divide",
            Function::Maximum => "ft_greatest",
            Function::Minimum => "ft_smallest",
            Function::TwoSum => "ft_two_sum",
            Function::BothParts => "ft_both_parts",
            Function::AtomicAdd => "atomicAdd",
            Function::Prefix => "ft_prefix",
            Function::Post => "ft_post",
            Function::OfBits(DType::F64) => "__longlong_as_double",
            Function::OfBits(_) => "__int_as_float",
            // Of vectors, of which a thread has none, or of a host's memory.
            _ => "ft_vectors",
        };
        self.out.push_str(name);
    }
}
