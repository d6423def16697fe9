//! Values as CUDA C++ statements, one element each.

use super::index::Position;
use super::kernel::Writer;
use crate::body::{BodyOp, MaskId, Source, Value};
use crate::lower::PROVED;
use crate::schedule::FusedNode;
use ferrotrace_kernels::support::{self, SCALAR, scalar_type};
use ferrotrace_kernels::{BinaryOp, Distribution, UnaryOp};
use ferrotrace_runtime::DType;

/// Where a statement stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    /// The position along the vector axis.
    pub position: Position,
    /// A condition without which no memory is touched.
    pub guard: Option<&'a str>,
    /// What precedes each line.
    pub pad: &'a str,
}

/// The C++ type of an element in memory.
pub(super) fn memory_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "unsigned char",
        DType::F16 | DType::BF16 => "unsigned short",
        other => scalar_type(other),
    }
}

/// By value, whether it is of binary32 and nothing but products and sums, themselves rounded to half types, is made of it.
pub(super) fn coarse(node: &FusedNode) -> Vec<bool> {
    let body = &node.body;
    let is_f32 = |v: usize| body.value(v as Value).dtype == DType::F32;
    let mut coarse: Vec<bool> = (0..body.values().len()).map(is_f32).collect();
    for store in node.stores.iter().filter(|s| !s.dtype.is_half()) {
        coarse[store.value as usize] = false;
    }
    for user in (0..coarse.len()).rev() {
        let keeps = match body.value(user as Value).op {
            BodyOp::Round(..) => true,
            BodyOp::Binary(BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, ..) => coarse[user],
            _ => false,
        };
        for operand in body.operands(user as Value) {
            coarse[operand as usize] &= keeps;
        }
    }
    coarse
}

impl Writer<'_> {
    /// Whether rounding to a half type leaves a value of an operand as it is: it comes from memory of that type, or from integers of 8
    /// bits, and is at most taken with another sign, or for another such.
    fn is_rounded(&self, value: Value, half: DType) -> bool {
        let body = &self.node.body;
        let of = |v: Value| self.is_rounded(v, half);
        match body.value(value).op {
            BodyOp::Load { dtype, .. } => dtype == half,
            BodyOp::Cast(a) => matches!(body.value(a).dtype, DType::I8 | DType::U8 | DType::Bool),
            BodyOp::Round(_, to) => to == half,
            BodyOp::Unary(UnaryOp::Neg | UnaryOp::Abs, a) => of(a),
            BodyOp::Select(_, a, b) => of(a) && of(b),
            _ => false,
        }
    }

    /// Which elements `l` of a chunk count.
    pub(super) fn guard(&self) -> &'static str {
        match self.has_heads() {
            true => "l >= h && l < m",
            false => "l < m",
        }
    }

    /// The loop over a chunk's elements.
    pub(super) fn in_chunk(&self) -> At<'static> {
        At {
            position: Position::Lane,
            guard: Some(self.guard()),
            pad: "      ",
        }
    }

    /// A call of the support function `ft_{stem}_{dtype}`.
    pub(super) fn call(&mut self, stem: &str, dtype: DType, args: &[&str]) -> String {
        support::call(&mut self.needs, stem, dtype, SCALAR, args)
    }

    fn function(&mut self, name: &str, args: &[&str]) -> String {
        self.needs.insert(support::need(name, SCALAR));
        format!("{name}({})", args.join(", "))
    }

    /// An element of memory as a value.
    pub(super) fn widen(&mut self, memory: DType, element: &str) -> String {
        match memory {
            DType::Bool => format!("({element} != 0)"),
            DType::F16 => self.function("ft_from_f16", &[element]),
            DType::BF16 => self.function("ft_from_bf16", &[element]),
            _ => element.to_owned(),
        }
    }

    /// A value as an element of memory.
    pub(super) fn narrow(&mut self, memory: DType, value: &str) -> String {
        match memory {
            DType::Bool => format!("(unsigned char)({value})"),
            DType::F16 => self.function("ft_to_f16", &[value]),
            DType::BF16 => self.function("ft_to_bf16", &[value]),
            _ => value.to_owned(),
        }
    }

    /// The condition of a mask at a position, together with the guard.
    fn condition(&self, mask: Option<MaskId>, at: At<'_>) -> Option<String> {
        let conditions = mask.map(|m| self.masks[&m].as_slice()).unwrap_or_default();
        let each = conditions
            .iter()
            .map(|c| format!("{} >= 0", c.at(at.position)));
        let all: Vec<String> = at
            .guard
            .map(str::to_owned)
            .into_iter()
            .chain(each)
            .collect();
        (!all.is_empty()).then(|| all.join(" && "))
    }

    /// The statement that declares `v{value}`.
    pub(super) fn statement(&mut self, value: Value, at: At<'_>) -> String {
        let node = self.node;
        let body = &node.body;
        let dtype = body.value(value).dtype;
        let of = |v: &Value| format!("v{v}");
        let expr = match &body.value(value).op {
            BodyOp::Load {
                source,
                dtype: memory,
                mask,
                ..
            } => self.load(value, *source, *memory, *mask, at),
            BodyOp::Number(n) => format!("s{n}"),
            BodyOp::Index(_) => format!("(long long){}", self.indices[&value].at(at.position)),
            BodyOp::Mask(mask) => {
                let unguarded = At { guard: None, ..at };
                let condition = self.condition(Some(*mask), unguarded);
                condition.unwrap_or_else(|| "true".to_owned())
            }
            BodyOp::Unary(UnaryOp::Tanh, a) if !node.exact && self.coarse[value as usize] => {
                self.call("half_tanh", dtype, &[&of(a)])
            }
            BodyOp::Unary(op @ (UnaryOp::Exp | UnaryOp::Tanh | UnaryOp::Sigmoid), a)
                if !node.exact && dtype == DType::F32 =>
            {
                self.call(&format!("fast_{}", op.name()), dtype, &[&of(a)])
            }
            BodyOp::Unary(op, a) => op.scalar_expr(body.value(*a).dtype, &of(a), &mut self.needs),
            BodyOp::Binary(op, a, b) => {
                op.scalar_expr(body.value(*a).dtype, &of(a), &of(b), &mut self.needs)
            }
            BodyOp::Divide(a, b, _) => format!("ft_divide(v{a}, v{b})"),
            BodyOp::Select(m, a, b) => format!("v{m} ? v{a} : v{b}"),
            BodyOp::Cast(a) => {
                let from = body.value(*a).dtype;
                self.call(&format!("cast_{}", from.name()), dtype, &[&of(a)])
            }
            BodyOp::Round(a, half) if self.gives && self.is_rounded(*a, *half) => of(a),
            BodyOp::Round(a, half) => self.call("round", *half, &[&of(a)]),
            BodyOp::Check {
                index, mask, site, ..
            } if *site == PROVED => match self.condition(*mask, at) {
                Some(condition) => format!("({condition}) ? v{index} : 0"),
                None => of(index),
            },
            BodyOp::Check {
                index,
                size,
                mask,
                site,
            } => {
                self.reports |= !self.setting.checked;
                let (size, site) = (self.param(*size), self.param(*site as i64));
                let call = match self.setting.checked {
                    true => format!("ft_within(v{index}, {size}, {site})"),
                    false => format!("ft_index(a.fault, v{index}, {size}, {site})"),
                };
                match self.condition(*mask, at) {
                    Some(condition) => format!("({condition}) ? {call} : 0"),
                    None => call,
                }
            }
            BodyOp::Random {
                dist, dtype, args, ..
            } => {
                let index = self.indices[&value].at(at.position).to_string();
                self.random(*dist, *dtype, args, &index)
            }
            BodyOp::Reduce { .. } => format!("r{value}"),
            BodyOp::Scan { .. } => format!("e{value}[k][l]"),
        };
        format!(
            "{}const {} v{value} = {expr};\n",
            at.pad,
            scalar_type(dtype)
        )
    }

    fn load(
        &mut self,
        value: Value,
        source: Source,
        memory: DType,
        mask: Option<MaskId>,
        at: At<'_>,
    ) -> String {
        if self.given == Some(source) {
            return match self.node.exact {
                true => self.call("round", memory, &["given[l]"]),
                false => "given[l]".to_owned(),
            };
        }
        if let Some(element) = self.staged(value) {
            return self.widen(memory, &element);
        }
        if self.whole.contains(&value) && at.guard.is_some() {
            let kept = self.shape.kept.contains(&value);
            let chunk = if kept { "h" } else { "g" };
            let turn = if kept { "[k]" } else { "" };
            let element = format!("{chunk}{value}{turn}");
            if memory == DType::BF16 {
                return format!("ft_bf16_at({element}, l)");
            }
            return self.widen(memory, &format!("{element}[l]"));
        }
        let pointer = self.pointer(source);
        let place = format!("{pointer}[{}]", self.indices[&value].at(at.position));
        let element = self.widen(memory, &place);
        match self.condition(mask, at) {
            Some(condition) => {
                let ty = scalar_type(memory);
                format!("({condition}) ? {element} : ({ty})0")
            }
            None => element,
        }
    }

    /// The same numbers as the ready-made kernels draw: Philox by (key, offset, element).
    fn random(&mut self, dist: Distribution, dtype: DType, args: &[Value], index: &str) -> String {
        let (node, before) = (self.node, self.first_number);
        let bits = |v: Value| match node.body.value(v).op {
            BodyOp::Number(n) => format!("a.s{}", before + n as usize),
            _ => format!("v{v}"),
        };
        let word = |v: Value| format!("(unsigned long long){}", bits(v));
        let (key, offset) = (word(args[0]), word(args[1]));
        let index = format!("(long long){index}");
        let common = [key.as_str(), &offset, &index];
        match dist {
            Distribution::Uniform => self.call("uniform", dtype, &common),
            Distribution::Normal => self.call("normal", dtype, &common),
            Distribution::Int => {
                let (low, high) = (bits(args[2]), bits(args[3]));
                let low = format!("(long long){low}");
                let range = format!("(unsigned long long){high} - (unsigned long long){low}");
                let list = [common[0], common[1], common[2], &low, &range];
                let draw = self.call("randint", DType::I64, &list);
                self.drawn(DType::I64, dtype, draw)
            }
            Distribution::Bernoulli => {
                let p = match node.body.value(args[2]).op {
                    BodyOp::Number(n) => {
                        format!(
                            "__longlong_as_double((long long)a.s{})",
                            before + n as usize
                        )
                    }
                    _ => format!("v{}", args[2]),
                };
                let list = [common[0], common[1], common[2], &p];
                let draw = self.function("ft_bernoulli", &list);
                self.drawn(DType::Bool, dtype, draw)
            }
            Distribution::Bits => {
                let draw = self.call("bits63", DType::I64, &common);
                self.drawn(DType::I64, dtype, draw)
            }
        }
    }

    fn drawn(&mut self, from: DType, to: DType, expr: String) -> String {
        if from == to.compute() {
            return expr;
        }
        let value = self.call(&format!("cast_{}", from.name()), to.compute(), &[&expr]);
        match to.is_half() {
            true => self.call("round", to, &[&value]),
            false => value,
        }
    }
}
