//! Values as C statements.

use super::index::{Index, Step};
use super::kernel::Writer;
use crate::body::{BodyOp, MaskId, Source, Value};
pub(super) use crate::print::c::{lane_type, memory_type};
use ferrotrace_kernels::support;
use ferrotrace_runtime::DType;
use std::fmt::Write as _;

/// Where a statement stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    /// The C expression of the vector position of lane 0.
    pub position: &'a str,
    /// How many lanes count, where not all do.
    pub lanes: Option<&'a str>,
    /// Indentation.
    pub indent: usize,
}

impl Writer<'_> {
    /// The vector type of a value of this dtype.
    pub(super) fn vector(&self, dtype: DType) -> String {
        format!("{}x{}", support::c_type(dtype), self.lanes)
    }

    /// A call of a support function `ft_{stem}_{dtype}xW`.
    pub(super) fn call(&mut self, stem: &str, dtype: DType, args: &[&str]) -> String {
        support::call(&mut self.needs, stem, dtype, self.lanes, args)
    }

    /// The statement that declares `v{value}`.
    pub(super) fn statement(&mut self, value: Value, at: At<'_>) -> String {
        let pad = " ".repeat(at.indent);
        let node = self.node;
        let body = &node.body;
        let dtype = body.value(value).dtype;
        let ty = self.vector(dtype);
        let of = |v: &Value| self.name(*v);
        let expr = match &body.value(value).op {
            BodyOp::Load {
                source,
                dtype: memory,
                mask,
                ..
            } => {
                return self.load(value, *source, *memory, *mask, at);
            }
            BodyOp::Number(n) => format!("s{n}"),
            BodyOp::Index(_) => return self.lane_index(value, at),
            BodyOp::Mask(mask) => return self.mask_value(value, *mask, at),
            BodyOp::Unary(..) | BodyOp::Binary(..) => self.operation(value),
            BodyOp::Divide(a, b, r) => {
                let (of_a, of_b, of_r) = (of(a), of(b), of(r));
                match &mut self.usual {
                    Some(tests) => {
                        tests.push(format!("d{value}"));
                        format!("{of_a} * {of_r}")
                    }
                    None => format!("(d{value} ? {of_a} * {of_r} : {of_a} / {of_b})"),
                }
            }
            BodyOp::Select(m, a, b) => {
                let (of_m, of_a, of_b) = (of(m), of(a), of(b));
                self.call("sel", dtype, &[&of_m, &of_a, &of_b])
            }
            BodyOp::Cast(a) => {
                let (from, of_a) = (body.value(*a).dtype, of(a));
                self.call(&format!("cast_{}", from.name()), dtype, &[&of_a])
            }
            BodyOp::Round(a, half) => {
                let of_a = of(a);
                self.call("round", *half, &[&of_a])
            }
            BodyOp::Check { index, mask, .. } => return self.check(value, *index, *mask, at),
            BodyOp::Random { .. } => return self.random(value, at),
            BodyOp::Reduce { .. } => format!("r{value}"),
            BodyOp::Scan { .. } => return self.scan(value, at),
        };
        format!("{pad}const {ty} {} = {expr};\n", self.name(value))
    }

    fn lane_count(&self, at: At<'_>) -> String {
        at.lanes
            .map_or_else(|| self.lanes.to_string(), str::to_owned)
    }

    fn load(
        &mut self,
        value: Value,
        source: Source,
        memory: DType,
        mask: Option<MaskId>,
        at: At<'_>,
    ) -> String {
        let pad = " ".repeat(at.indent);
        let pointer = self
            .staged
            .get(&value)
            .cloned()
            .unwrap_or_else(|| self.pointer(source));
        let index = self.indices[&value].clone();
        let ty = self.vector(memory);
        let whole = self.whole_load(&pointer, memory, &index, at);
        let mask = mask.map(|m| self.masks[&m].clone());
        match (whole, mask) {
            (Some(load), None) => {
                format!("{pad}const {ty} {} = {load};\n", self.name(value))
            }
            (whole, mask) => {
                let test = mask
                    .as_deref()
                    .map(|conditions| self.all_lanes(conditions, at));
                let mut text = format!("{pad}{ty} v{value} = {{0}};\n");
                let part = mask.as_deref().and_then(|conditions| {
                    self.part_load(&pointer, memory, &index, conditions, at)
                });
                let lanes = match part {
                    Some((range, load)) => format!("{{ {range} v{value} = {load}; }}\n"),
                    None => self.lane_load(value, &pointer, memory, &index, mask.as_deref(), at),
                };
                match (whole, test) {
                    (Some(load), Some(Some((test, uniform)))) => {
                        let _ = writeln!(text, "{pad}if ({test}) v{value} = {load};");
                        if !uniform {
                            let _ = write!(text, "{pad}else {lanes}");
                        }
                    }
                    _ => {
                        let _ = write!(text, "{pad}{lanes}");
                    }
                }
                text
            }
        }
    }

    /// One vector access where the index allows it.
    fn whole_load(
        &mut self,
        pointer: &str,
        memory: DType,
        index: &Index,
        at: At<'_>,
    ) -> Option<String> {
        let place = format!("{pointer} + {}", index.at(at.position));
        match (index.step, at.lanes) {
            (Step::Uniform, _) if memory.is_half() => {
                let one = self.call("loadn", memory, &[&place, "1"]);
                Some(self.call("set", DType::F32, &[&format!("{one}[0]")]))
            }
            (Step::Uniform, _) => Some(self.call(
                "set",
                memory,
                &[&format!("{pointer}[{}]", index.at(at.position))],
            )),
            (Step::Unit, None) => Some(self.call("load", memory, &[&place])),
            (Step::Unit, Some(m)) => Some(self.call("loadn", memory, &[&place, m])),
            (Step::Back, None) => Some(self.call("reversed", memory, &[&place])),
            (Step::Even, None) => Some(self.call("evens", memory, &[&place])),
            (Step::Even, Some(m)) => Some(self.call("evensr", memory, &[&place, "0", m])),
            _ => None,
        }
    }

    /// One vector access to the lanes for which all conditions hold, and before it the statements that say which these
    /// are: conditions are linear in the position.
    fn part_load(
        &mut self,
        pointer: &str,
        memory: DType,
        index: &Index,
        conditions: &[Index],
        at: At<'_>,
    ) -> Option<(String, String)> {
        let stem = match index.step {
            Step::Unit => "loadr",
            Step::Even => "evensr",
            _ => return None,
        };
        let range = self.lane_range(conditions, at)?;
        let place = format!("{pointer} + {}", index.at(at.position));
        let load = self.call(stem, memory, &[&place, "from", "to"]);
        Some((range, load))
    }

    /// Statements that declare the range `from..to` of the lanes for which all conditions hold.
    fn lane_range(&self, conditions: &[Index], at: At<'_>) -> Option<String> {
        let mut text = format!("long from = 0, to = {};", self.lane_count(at));
        for condition in conditions {
            let c = condition.at(at.position);
            let _ = match condition.step {
                Step::Irregular => return None,
                Step::Uniform => write!(text, " if ({c} < 0) to = 0;"),
                Step::Unit => write!(text, " from = ft_max(from, -({c}));"),
                Step::Back => write!(text, " to = ft_min(to, {c} + 1);"),
                Step::Even | Step::Strided => {
                    let next = condition.at(&format!("({} + 1)", at.position));
                    write!(
                        text,
                        " {{ const long c = {c}, d = {next} - c; if (d > 0) from = ft_max(from, -ft_floor_div(c, d)); \
                         else to = ft_min(to, ft_floor_div(c, -d) + 1); }}"
                    )
                }
            };
        }
        let _ = write!(
            text,
            " from = ft_min(from, {}); to = ft_max(from, to);",
            self.lanes
        );
        Some(text)
    }

    /// A block that loads lane by lane, those inside the mask alone.
    fn lane_load(
        &mut self,
        value: Value,
        pointer: &str,
        memory: DType,
        index: &Index,
        mask: Option<&[Index]>,
        at: At<'_>,
    ) -> String {
        let position = format!("({} + l)", at.position);
        let guard = mask.map_or(String::new(), |conditions| {
            format!(
                "if ({}) ",
                conditions
                    .iter()
                    .map(|c| format!("{} >= 0", c.at(&position)))
                    .collect::<Vec<_>>()
                    .join(" && ")
            )
        });
        let count = self.lane_count(at);
        let load = self.call("load", memory, &["g"]);
        let (c, w) = (memory_type(memory), self.lanes);
        format!(
            "{{ {c} g[{w}] = {{0}}; for (long l = 0; l < {count}; l++) {guard}g[l] = {pointer}[{}]; v{value} = {load}; }}\n",
            index.at(&position)
        )
    }

    /// A test that proves the mask for all lanes, and whether it decides it: conditions are linear in the position,
    /// so they hold between two positions where they hold at both.
    fn all_lanes(&self, conditions: &[Index], at: At<'_>) -> Option<(String, bool)> {
        let last = format!("({} + {} - 1)", at.position, self.lane_count(at));
        let mut tests = Vec::new();
        let mut uniform = true;
        for condition in conditions {
            match condition.step {
                Step::Irregular => return None,
                Step::Uniform => tests.push(format!("{} >= 0", condition.at(at.position))),
                Step::Unit | Step::Back | Step::Even | Step::Strided => {
                    uniform = false;
                    tests.push(format!(
                        "{} >= 0 && {} >= 0",
                        condition.at(at.position),
                        condition.at(&last)
                    ));
                }
            }
        }
        Some((tests.join(" && "), uniform))
    }

    fn lane_index(&mut self, value: Value, at: At<'_>) -> String {
        let pad = " ".repeat(at.indent);
        let index = self.indices[&value].clone();
        let ty = self.vector(DType::I64);
        match index.step {
            Step::Uniform => {
                let set = self.call("set", DType::I64, &[&index.at(at.position)]);
                format!("{pad}const {ty} v{value} = {set};\n")
            }
            Step::Unit => {
                let set = self.call("set", DType::I64, &[&index.at(at.position)]);
                let iota = self.call("iota", DType::I64, &[]);
                format!("{pad}const {ty} v{value} = {set} + {iota};\n")
            }
            _ => {
                let position = format!("({} + l)", at.position);
                let (count, w) = (self.lane_count(at), self.lanes);
                let load = self.call("load", DType::I64, &["g"]);
                format!(
                    "{pad}{ty} v{value}; {{ long g[{w}] = {{0}}; for (long l = 0; l < {count}; l++) g[l] = {}; v{value} = {load}; }}\n",
                    index.at(&position)
                )
            }
        }
    }

    fn mask_value(&mut self, value: Value, mask: MaskId, at: At<'_>) -> String {
        let pad = " ".repeat(at.indent);
        let conditions = self.masks[&mask].clone();
        let ty = self.vector(DType::Bool);
        let position = format!("({} + l)", at.position);
        let each: Vec<String> = conditions
            .iter()
            .map(|c| format!("{} >= 0", c.at(&position)))
            .collect();
        let (count, w) = (self.lane_count(at), self.lanes);
        let load = self.call("load", DType::I32, &["g"]);
        let lanes = format!(
            "{{ int g[{w}] = {{0}}; for (long l = 0; l < {count}; l++) g[l] = -({}); v{value} = {load}; }}\n",
            each.join(" && ")
        );
        let lanes = match self.lane_range(&conditions, at) {
            Some(range) => {
                let between = self.call("between", DType::Bool, &["from", "to"]);
                format!("{{ {range} v{value} = {between}; }}\n")
            }
            None => lanes,
        };
        match self.all_lanes(&conditions, at) {
            Some((test, true)) => {
                let set = self.call("set", DType::Bool, &[&test]);
                format!("{pad}const {ty} v{value} = {set};\n")
            }
            Some((test, false)) => {
                format!(
                    "{pad}{ty} v{value}; if ({test}) v{value} = ~({ty}){{0}};\n{pad}else {lanes}"
                )
            }
            None => format!("{pad}{ty} v{value}; {lanes}"),
        }
    }

    /// ir G7, codegen A6.6: one wrap of a negative index, then the bounds, relaxed by the mask.
    fn check(&mut self, value: Value, index: Value, mask: Option<MaskId>, at: At<'_>) -> String {
        let pad = " ".repeat(at.indent);
        let BodyOp::Check { size, site, .. } = self.node.body.value(value).op else {
            return String::new();
        };
        let (size, site) = (self.param(size), self.param(site as i64));
        let position = format!("({} + l)", at.position);
        let guard = mask.map_or(String::new(), |m| {
            let conditions = &self.masks[&m];
            let each: Vec<String> = conditions
                .iter()
                .map(|c| format!("{} >= 0", c.at(&position)))
                .collect();
            format!("if ({}) ", each.join(" && "))
        });
        self.reports = true;
        let ty = self.vector(DType::I64);
        if !self.differ[value as usize] {
            let set = self.call("set", DType::I64, &["g"]);
            return format!(
                "{pad}{ty} v{value}; {{ long g = 0; {guard}g = ft_index(a, v{index}[0], {size}, {site}); v{value} = {set}; }}\n"
            );
        }
        let (count, w) = (self.lane_count(at), self.lanes);
        let load = self.call("load", DType::I64, &["g"]);
        format!(
            "{pad}{ty} v{value}; {{ long g[{w}] = {{0}}; for (long l = 0; l < {count}; l++) {guard}g[l] = ft_index(a, v{index}[l], {size}, {site}); v{value} = {load}; }}\n"
        )
    }

    fn random(&mut self, value: Value, at: At<'_>) -> String {
        let BodyOp::Random {
            dist, dtype, args, ..
        } = &self.node.body.value(value).op
        else {
            return String::new();
        };
        let (dist, dtype, args) = (*dist, *dtype, args.clone());
        let pad = " ".repeat(at.indent);
        let index = self.indices[&value].clone();
        let lanes_index = match index.step {
            Step::Unit => {
                let set = self.call("set", DType::I64, &[&index.at(at.position)]);
                let iota = self.call("iota", DType::I64, &[]);
                format!("({set} + {iota})")
            }
            Step::Uniform => self.call("set", DType::I64, &[&index.at(at.position)]),
            _ => {
                let position = format!("({} + l)", at.position);
                let (count, w) = (self.lane_count(at), self.lanes);
                let load = self.call("load", DType::I64, &["g"]);
                let at = index.at(&position);
                format!(
                    "({{ long g[{w}] = {{0}}; for (long l = 0; l < {count}; l++) g[l] = {at}; {load}; }})"
                )
            }
        };
        let ty = self.vector(dtype);
        let expr = super::random::expression(self, dist, dtype, &args, &lanes_index);
        format!("{pad}const {ty} v{value} = {expr};\n")
    }
}
