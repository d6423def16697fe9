//! Calls and numbers in C.

use crate::kernel::ir::{Call, Function, Type, ValueType};
use crate::print::Printer;
use ferrotrace_runtime::DType;

impl Printer<'_> {
    pub(in crate::print) fn c_float(&mut self, dtype: DType, number: f64) {
        let single = dtype.compute() == DType::F32;
        if number.is_sign_negative() && !number.is_nan() {
            self.out.push('-');
        }
        let text = match (number.is_nan(), number.is_infinite()) {
            (true, _) if single => "__builtin_nanf(\"\")",
            (true, _) => "__builtin_nan(\"\")",
            (_, true) if single => "__builtin_inff()",
            (_, true) => "__builtin_inf()",
            _ => {
                let text = format!("{:?}", number.abs());
                self.out.push_str(&text);
                if single { "f" } else { "" }
            }
        };
        self.out.push_str(text);
    }

    pub(in crate::print) fn c_call(&mut self, call: &Call) {
        let arguments = &call.arguments[..];
        match call.function {
            Function::Unary(op, dtype, lanes) => {
                let a = self.apart(&arguments[0]);
                let needs = self.needs.set();
                let text = op.c_expr(dtype, lanes.into(), &[&a], needs);
                return self.out.push_str(&text);
            }
            Function::Binary(op, dtype, lanes) => {
                let (a, b) = (self.apart(&arguments[0]), self.apart(&arguments[1]));
                let needs = self.needs.set();
                let text = op.c_expr(dtype, lanes.into(), &[&a, &b], needs);
                return self.out.push_str(&text);
            }
            Function::Support(stem, dtype, lanes) => {
                self.support(&format!("ft_{stem}_{}", dtype.name()), lanes);
            }
            Function::Cast(from, to, lanes) => {
                self.support(&format!("ft_cast_{}_{}", from.name(), to.name()), lanes);
            }
            Function::Transpose(bytes, lanes) => {
                self.support(&format!("ft_transpose_i{}", bytes * 8), lanes);
            }
            Function::TransposeEdge(bytes, lanes) => {
                self.support(&format!("ft_transpose_edge_i{}", bytes * 8), lanes);
            }
            Function::Any(lanes) => self.support("ft_any_i32", lanes),
            Function::Fence(lanes) => self.support("ft_fence", lanes),
            Function::Least => self.out.push_str("ft_min"),
            Function::Greatest => self.out.push_str("ft_max"),
            Function::FloorDiv => self.out.push_str("ft_floor_div"),
            Function::FloorMod => self.out.push_str("ft_floor_mod"),
            Function::IsNormal => self.out.push_str("__builtin_isnormal"),
            Function::Check => {
                self.reports = true;
                self.out.push_str("ft_index");
            }
            Function::Prefetch(_) => self.out.push_str("__builtin_prefetch"),
            Function::Convert(..) => self.out.push_str("__builtin_convertvector"),
            Function::Own(number, _) => {
                self.out.push_str("FT_SYMBOL_f");
                self.number(number.into());
            }
            // The verifier leaves them to devices.
            function => self.cuda_name(function),
        }
        self.out.push('(');
        if call.function == Function::Check {
            self.out.push_str("a, ");
        }
        self.list(arguments);
        match call.function {
            Function::Prefetch(level) => {
                self.out.push_str(", 0, ");
                self.number(level.into());
            }
            Function::Convert(dtype, lanes) => {
                self.out.push_str(", ");
                self.ty(Type::Value(ValueType::Vector(dtype, lanes)));
            }
            _ => {}
        }
        self.out.push(')');
    }
}
