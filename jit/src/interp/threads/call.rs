//! Functions.

use super::super::datum::Datum;
use super::value::{Held, Home, whole};
use super::{Fault, Threads, WARP};
use crate::kernel::ir::{Call, Expr, Function, Shuffle};
use ferrotrace_kernels::support::{math, philox};
use ferrotrace_kernels::{BinaryOp, UnaryOp};
use ferrotrace_runtime::{DType, Error};
use smallvec::SmallVec;

fn wrong(error: Error) -> Fault {
    Fault::Wrong(error.to_string())
}

/// A number as binary32.
fn single(number: Datum) -> f32 {
    match number.cast(DType::F32) {
        Datum::F32(x) => x,
        _ => f32::NAN,
    }
}

impl<'k> Threads<'_, 'k> {
    /// What a call gives to a thread.
    pub(super) fn call(&mut self, call: &'k Call, thread: usize) -> Result<Held, Fault> {
        let arguments = &call.arguments[..];
        match call.function {
            Function::NoWords => return Ok(Held::Cleared),
            Function::ElementOf => {
                let array = self.pointed(&arguments[0], thread)?;
                let index = self.integer(&arguments[1], thread)?;
                let place = self.element(array, index)?;
                return self.read(thread, &place);
            }
            Function::Shuffle(which, _) => return self.shuffle(which, arguments, thread),
            Function::AtomicAdd => return self.atomic_add(arguments, thread),
            Function::Apply(_) => {
                let left = self.eval(&arguments[1], thread)?;
                let right = self.eval(&arguments[2], thread)?;
                return self.join(&arguments[0], [left, right], thread);
            }
            Function::Pack(half) => {
                let mut packed = |argument| match self.eval(argument, thread)? {
                    Held::Number(number) => {
                        let rounded = number.cast(DType::F32).round(half);
                        rounded.map(Ok).map_err(wrong)
                    }
                    Held::Unwritten(element) => Ok(Err(element)),
                    other => Err(Fault::Wrong(format!("{other:?} in a pair"))),
                };
                let first = packed(&arguments[0])?;
                return Ok(Held::Pair([first, packed(&arguments[1])?]));
            }
            Function::Before(step, _) => return self.before(step.into(), arguments, thread),
            // These decide: an index that was never written has none to wrap.
            Function::Check | Function::Within => {
                self.number(&arguments[0], thread)?;
            }
            _ => {}
        }
        let mut numbers = SmallVec::<[Datum; 5]>::new();
        for argument in arguments {
            match self.eval(argument, thread)? {
                Held::Number(number) => numbers.push(number),
                other => return self.operand(other),
            }
        }
        plain(call.function, &numbers).map(Held::Number)
    }

    /// Two values under an operation.
    pub(super) fn join(
        &mut self,
        operation: &'k Expr,
        both: [Held; 2],
        thread: usize,
    ) -> Result<Held, Fault> {
        let known = match operation {
            Expr::Name(name) => self.operations.get(name).copied(),
            _ => None,
        };
        let value = known.ok_or_else(|| Fault::Wrong(operation.to_string()))?;
        self.operands.push(both);
        let joined = self.eval(value, thread);
        self.operands.pop();
        joined
    }

    /// What another lane of the warp gives, which must be here.
    fn shuffle(
        &mut self,
        which: Shuffle,
        arguments: &'k [Expr],
        thread: usize,
    ) -> Result<Held, Fault> {
        let of = self.integer(&arguments[1], thread)? as usize;
        let (first, lane) = (thread / WARP * WARP, thread % WARP);
        let other = match which {
            Shuffle::Xor => lane ^ of,
            Shuffle::Down if lane + of >= WARP => lane,
            Shuffle::Down => lane + of,
            Shuffle::From => of,
        };
        self.warp(first)?;
        self.eval(&arguments[0], first + other % WARP)
    }

    fn atomic_add(&mut self, arguments: &'k [Expr], thread: usize) -> Result<Held, Fault> {
        let place = self.pointed(&arguments[0], thread)?;
        let more = self.integer(&arguments[1], thread)?;
        let add = |before: Option<Datum>| before.map(|n| Datum::I64(whole(n) + more));
        let before = match place.home {
            Home::Global(n) => self.memory[n].atomic(place.at, add)?,
            Home::Block(n) => self.shared[n].atomic(place.at, add)?,
            Home::Thread(..) => return Err(Fault::Wrong("an atomic addition".to_owned())),
        };
        let before = before.map_or(Held::unwritten(place.home, place.at), Held::Number);
        self.known(before).map(Held::Number)
    }

    /// A call that gives nothing, by all threads that are here.
    pub(super) fn perform(&mut self, call: &'k Call, here: &[usize]) -> Result<(), Fault> {
        let arguments = &call.arguments[..];
        match call.function {
            Function::Prefix => return self.prefix(arguments, here),
            Function::Behind(warps) => return self.behind(warps as usize, arguments, here),
            _ => {}
        }
        for &thread in here {
            match call.function {
                Function::LoadChunk(_) => self.move_chunk(arguments, true, thread)?,
                Function::StoreChunk(_) => self.move_chunk(arguments, false, thread)?,
                Function::TwoSum => self.two_sum(arguments, thread)?,
                Function::Post => self.post(arguments, thread)?,
                _ => {
                    self.call(call, thread)?;
                }
            }
        }
        Ok(())
    }

    /// Moves the elements of a chunk that count to the thread's array, zero in place of the others, or from there.
    fn move_chunk(
        &mut self,
        arguments: &'k [Expr],
        loads: bool,
        thread: usize,
    ) -> Result<(), Fault> {
        let to = self.pointed(&arguments[0], thread)?;
        let from = self.pointed(&arguments[1], thread)?;
        let end = self.integer(&arguments[2], thread)?;
        let first = match arguments.get(3) {
            Some(first) => self.integer(first, thread)?,
            None => 0,
        };
        let own = if loads { to } else { from };
        let [lanes] = own.dims.all()[..] else {
            return Err(Fault::Wrong("a chunk that is no array".to_owned()));
        };
        for lane in 0..lanes {
            let counts = (first..end).contains(&lane);
            let value = match counts {
                true => self.read(thread, &from.moved(lane).first())?,
                false if loads => Held::Number(Datum::I64(0)),
                false => continue,
            };
            self.write(thread, &to.moved(lane).first(), value)?;
        }
        Ok(())
    }

    fn two_sum(&mut self, arguments: &'k [Expr], thread: usize) -> Result<(), Fault> {
        let mut all = [Held::Cleared; 3];
        for (held, argument) in all.iter_mut().zip(arguments) {
            *held = self.eval(argument, thread)?;
        }
        let results = match all {
            [Held::Number(s), Held::Number(e), Held::Number(x)] => {
                let (s, e, x) = (single(s), single(e), single(x));
                let t = s + x;
                let d = t - s;
                let rest = e + ((s - (t - d)) + (x - d));
                [t, rest].map(|part| Held::Number(Datum::F32(part)))
            }
            all => {
                let unknown = all
                    .into_iter()
                    .find(|held| !matches!(held, Held::Number(_)));
                [self.operand(unknown.unwrap_or(Held::Cleared))?; 2]
            }
        };
        for (argument, held) in arguments.iter().zip(results) {
            let place = self.place(argument, thread)?;
            self.write(thread, &place, held)?;
        }
        Ok(())
    }
}

/// A function of numbers alone.
fn plain(function: Function, all: &[Datum]) -> Result<Datum, Fault> {
    let ints = |at: usize| whole(all[at]);
    let binary = |op: BinaryOp, dtype: DType| {
        let [a, b] = [0, 1].map(|at| all[at].cast(dtype));
        Datum::binary(op, a, b).map_err(wrong)
    };
    Ok(match function {
        Function::Unary(op, dtype, _) => {
            return Datum::unary(op, all[0].cast(dtype.compute())).map_err(wrong);
        }
        Function::Binary(op, dtype, _) => return binary(op, dtype.compute()),
        Function::Support(stem, dtype, _) => return support(stem, dtype, all),
        Function::Cast(from, to, _) => all[0].cast(from.compute()).cast(to.compute()),
        Function::Least => Datum::I64(ints(0).min(ints(1))),
        Function::Greatest => Datum::I64(ints(0).max(ints(1))),
        Function::FloorDiv => return binary(BinaryOp::FloorDiv, DType::I64),
        Function::FloorMod => return binary(BinaryOp::Mod, DType::I64),
        Function::Check | Function::Within => {
            let (index, size, site) = (ints(0), ints(1), ints(2));
            let at = if index < 0 { index + size } else { index };
            match ((0..size).contains(&at), function) {
                (true, _) => Datum::I64(at),
                // Checked before by another kernel, which ends the run there.
                (false, Function::Within) => Datum::I64(0),
                (false, _) => return Err(Fault::Index(index, site as u32)),
            }
        }
        Function::Maximum => return binary(BinaryOp::Maximum, DType::F32),
        Function::Minimum => return binary(BinaryOp::Minimum, DType::F32),
        Function::BothParts => {
            let (s, e) = (single(all[0]), single(all[1]));
            Datum::F32(s + if e.is_nan() { 0.0 } else { e })
        }
        Function::Divide => return binary(BinaryOp::Div, all[0].dtype()),
        Function::OfBits(DType::F64) => Datum::F64(f64::from_bits(ints(0) as u64)),
        Function::OfBits(_) => Datum::F32(f32::from_bits(ints(0) as u32)),
        other => return Err(Fault::Wrong(format!("{other:?}"))),
    })
}

/// The key, offset and position of a random number.
fn positions(all: &[Datum]) -> (u64, u64, u64) {
    let of = |at: usize| whole(all[at]) as u64;
    (of(0), of(1), of(2))
}

/// A support function. Approximations of the hardware are exact here.
fn support(stem: &str, dtype: DType, all: &[Datum]) -> Result<Datum, Fault> {
    let unary = |op: UnaryOp| Datum::unary(op, all[0]).map_err(wrong);
    match stem {
        // An element of memory is widened where it is read, and rounded before it is written.
        "from" => Ok(all[0]),
        "to" | "round" => all[0].cast(DType::F32).round(dtype).map_err(wrong),
        "fast_exp" | "term_exp" => Ok(Datum::F32(math::exp(single(all[0])))),
        "fast_tanh" | "half_tanh" => unary(UnaryOp::Tanh),
        "fast_sigmoid" => unary(UnaryOp::Sigmoid),
        "fast_log" => unary(UnaryOp::Log),
        "fast_log1p" => unary(UnaryOp::Log1p),
        "fast_erf" => unary(UnaryOp::Erf),
        "uniform" | "randint" | "bits63" => Ok(drawn(stem, dtype, all)),
        "normal" if dtype.is_half() => drawn(stem, dtype, all).round(dtype).map_err(wrong),
        "normal" => Ok(drawn(stem, dtype, all)),
        "bernoulli" => {
            let Datum::F64(p) = all[3].cast(DType::F64) else {
                return Err(Fault::Wrong(format!("the probability {:?}", all[3])));
            };
            let (key, offset, i) = positions(all);
            Ok(Datum::Bool(philox::bernoulli(key, offset, i, p)))
        }
        _ => Err(Fault::Wrong(format!("{stem} of {dtype}"))),
    }
}

/// A random number.
fn drawn(stem: &str, dtype: DType, all: &[Datum]) -> Datum {
    let (key, offset, i) = positions(all);
    match (stem, dtype) {
        ("uniform", DType::F16) => Datum::F32(philox::uniform_f16(key, offset, i)),
        ("uniform", DType::BF16) => Datum::F32(philox::uniform_bf16(key, offset, i)),
        ("uniform", DType::F64) => Datum::F64(philox::uniform_f64(key, offset, i)),
        ("uniform", _) => Datum::F32(philox::uniform_f32(key, offset, i)),
        ("normal", DType::F64) => Datum::F64(philox::normal_f64(key, offset, i)),
        ("normal", _) => Datum::F32(philox::normal_f32(key, offset, i)),
        ("randint", _) => {
            let (low, range) = (whole(all[3]), whole(all[4]) as u64);
            Datum::I64(philox::randint(key, offset, i, low, range.max(1)))
        }
        _ => Datum::I64((philox::bits64(key, offset, i) >> 1) as i64),
    }
}
