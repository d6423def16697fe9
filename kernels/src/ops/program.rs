//! Operators that run programs: branches, and loops whose bodies are programs.
//!
//! Such an operator has several results, and a node has one: a block of bytes, in which [`Part`] finds each of them.

use crate::arg::{Arg, array};
use crate::copy::{Dense, contiguous, copied_on};
use crate::op::operator::{Inferred, OnDevice, Operator, facts, no_gradient, question};
use crate::text::{Attribute, Line, Named};
use crate::{ArgMeta, Array, Class, Sizes};
use ferrotrace_runtime::{Buffer, Category, DType, Device, Error, Layout, Result, Shape, Strides};
use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Bytes at whose multiples results begin in a block: those of an allocation.
const ALIGN: usize = 64;

/// What a program takes as an operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A tensor of this shape and dtype.
    Tensor(Shape, DType),
    /// A number of this category.
    Number(Category),
}

impl Taken {
    fn is(&self, arg: &ArgMeta<'_>) -> bool {
        match (self, arg) {
            (Taken::Tensor(shape, dtype), ArgMeta::Tensor(other, of)) => {
                shape == *other && dtype == of
            }
            (Taken::Number(category), ArgMeta::Scalar(number)) => *category == number.category(),
            _ => false,
        }
    }
}

/// A program that an operator runs, such as a loop over a body.
pub trait Procedure: fmt::Debug + Send + Sync {
    /// The operator's name, as errors give it.
    fn name(&self) -> &'static str;

    /// What it takes.
    fn takes(&self) -> &[Taken];

    /// Where its results lie.
    fn results(&self) -> &Results;

    /// Additions and multiplications, or what takes as long; of a loop without a known end those of one step.
    fn work(&self) -> u64;

    /// Whether the host reads no value while it runs: what it puts on a device's stream then depends on its operands' sizes
    /// and numbers alone.
    fn reads_nothing(&self) -> bool;

    /// Runs it on operands that lie on `device`, and writes all results to the block. `dense` copies an array of a device
    /// that does not lie row by row.
    ///
    /// # Errors
    /// What an operation of the program meets.
    fn run(
        &self,
        device: &Device,
        args: &[Arg],
        block: &mut Block<'_>,
        dense: Dense<'_>,
    ) -> Result<()>;

    /// Whether the other is the same program.
    fn same(&self, other: &dyn Procedure) -> bool;

    /// A hash that programs which are the same share.
    fn digest(&self) -> u64;

    /// The program as the type that it is.
    fn as_any(&self) -> &dyn Any;
}

/// The results of a program, and where each begins in the block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Results {
    kinds: Vec<(Shape, DType)>,
    /// Where each begins, in bytes.
    starts: Vec<usize>,
    bytes: usize,
}

impl Results {
    /// Results of these shapes and dtypes, one after another.
    ///
    /// # Errors
    /// Their bytes cannot be counted.
    pub fn new(kinds: Vec<(Shape, DType)>) -> Result<Results> {
        let (mut starts, mut bytes) = (Vec::with_capacity(kinds.len()), 0usize);
        for (shape, dtype) in &kinds {
            starts.push(bytes);
            let own = shape.numel().checked_mul(dtype.size());
            let end = own.and_then(|own| bytes.checked_add(own)?.checked_next_multiple_of(ALIGN));
            let too_large = || Error::argument("the results are greater than any memory");
            bytes = end.ok_or_else(too_large)?;
        }
        Ok(Results {
            kinds,
            starts,
            bytes,
        })
    }

    /// The shape and dtype of each.
    pub fn kinds(&self) -> &[(Shape, DType)] {
        &self.kinds
    }

    /// The operator that finds a result in the block; `None` if there are fewer results.
    pub fn part(&self, number: usize) -> Option<Part> {
        let (shape, dtype) = self.kinds.get(number)?.clone();
        let (start, bytes) = (self.starts[number], self.bytes);
        Some(Part {
            number,
            start,
            bytes,
            shape,
            dtype,
        })
    }
}

/// The memory of a program's results while it runs.
pub struct Block<'a> {
    results: &'a Results,
    buffer: Buffer,
}

impl fmt::Debug for Block<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block").finish_non_exhaustive()
    }
}

impl Block<'_> {
    /// Writes a result, or the `row` of it along its first dimension.
    ///
    /// # Errors
    /// Out of memory; a value of another shape or dtype than the result's.
    pub fn write(
        &mut self,
        number: usize,
        row: Option<usize>,
        value: &Array,
        dense: Dense<'_>,
    ) -> Result<()> {
        let wrong = || Error::internal(format!("result {number} of a program is another value"));
        let (shape, dtype) = self.results.kinds.get(number).ok_or_else(wrong)?;
        let sizes = match row {
            Some(row) if row < *shape.first().ok_or_else(wrong)? => &shape[1..],
            Some(_) => return Err(wrong()),
            None => &shape[..],
        };
        if value.dtype != *dtype || value.shape()[..] != *sizes {
            return Err(wrong());
        }
        if value.numel() == 0 {
            return Ok(());
        }
        let value = match value.buffer.device().is_cpu() {
            true => contiguous(value)?,
            false => dense(value)?,
        };
        let bytes = value.numel() * dtype.size();
        let first = value.layout.offset() * dtype.size();
        let at = self.results.starts[number] + row.unwrap_or(0) * bytes;
        value
            .buffer
            .copy_into(first..first + bytes, &mut self.buffer, at)
    }
}

/// A program as an operator: tensors first, then numbers; its result is the block of its results, bytes.
#[derive(Clone, Debug)]
pub struct Program(pub Arc<dyn Procedure>);

question! {
    /// The program that it runs.
    as_program: Program(Program)
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.digest() == other.0.digest() && self.0.same(&*other.0)
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.digest().hash(state);
    }
}

impl Program {
    fn run_with(&self, device: &Device, args: &[Arg], dense: Dense<'_>) -> Result<Array> {
        let results = self.0.results();
        let mut block = Block {
            results,
            buffer: Buffer::allocate(device, results.bytes)?,
        };
        self.0.run(device, args, &mut block, dense)?;
        Ok(Array {
            buffer: block.buffer,
            layout: Layout::contiguous(Shape::from(results.bytes)),
            dtype: DType::U8,
        })
    }
}

impl Operator for Program {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn attributes(&self) -> Vec<Named> {
        vec![(
            "digest",
            Attribute::Word(format!("{:016x}", self.0.digest())),
        )]
    }

    /// No text holds it.
    fn read(_: &str, _: &Line<'_>) -> Result<Option<Program>> {
        Ok(None)
    }

    facts! { class: Class::Library, light: false, jumps: true, work: |op, _| op.0.work() }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let takes = self.0.takes();
        let fits = takes.len() == args.len() && takes.iter().zip(args).all(|(t, arg)| t.is(arg));
        match fits {
            true => Ok((Shape::from(self.0.results().bytes), DType::U8)),
            false => Err(Error::argument(
                "the operands are not those that the program was recorded for",
            )),
        }
    }

    // What a history keeps beside the trace gives the gradients.
    no_gradient!();

    fn run(&self, args: &[Arg], _: &Shape, _: DType) -> Result<Array> {
        self.run_with(&Device::cpu(), args, &contiguous)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for Program {
    fn run_on(
        &self,
        device: &Device,
        args: &[Arg],
        _: &Shape,
        _: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        self.run_with(device, args, dense).map(Some)
    }
}

/// One of the results of a [`Program`], found in the block of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Which result.
    pub number: usize,
    /// Where it begins in the block, in bytes.
    pub start: usize,
    /// Bytes of the block.
    pub bytes: usize,
    /// Its shape.
    pub shape: Shape,
    /// Its dtype.
    pub dtype: DType,
}

question! {
    /// The result of a program that it finds.
    as_part: Part(Part)
}

impl Part {
    /// The window of the block. A small part of it is copied: it would keep the whole block alive.
    fn found(&self, args: &[Arg], dense: Dense<'_>) -> Result<Array> {
        let block = array(args, 0)?;
        let size = self.dtype.size();
        let first = block.layout.offset() + self.start;
        if !block.layout.is_contiguous() || !first.is_multiple_of(size) {
            return Err(Error::internal(
                "the block of a program's results was moved",
            ));
        }
        let whole = Layout::contiguous(self.shape.clone());
        let offset = if whole.numel() == 0 { 0 } else { first / size };
        let found = Array {
            buffer: block.buffer.clone(),
            layout: Layout::new(
                self.shape.clone(),
                Strides::from_slice(whole.strides()),
                offset,
            ),
            dtype: self.dtype,
        };
        match whole.numel().saturating_mul(size) < self.bytes / 2 {
            true => copied_on(&found, dense),
            false => Ok(found),
        }
    }
}

impl Operator for Part {
    fn name(&self) -> &'static str {
        "part"
    }

    fn attributes(&self) -> Vec<Named> {
        use crate::text::Value;
        let named = [
            ("number", self.number),
            ("start", self.start),
            ("bytes", self.bytes),
        ];
        named.map(|(name, value)| (name, value.write())).to_vec()
    }

    fn read(name: &str, line: &Line<'_>) -> Result<Option<Part>> {
        if name != "part" {
            return Ok(None);
        }
        Ok(Some(Part {
            number: line.value("number")?,
            start: line.value("start")?,
            bytes: line.value("bytes")?,
            shape: line.shape.clone(),
            dtype: line.dtype,
        }))
    }

    fn class(&self) -> Class {
        Class::Library
    }

    fn is_light(&self) -> bool {
        true
    }

    fn jumps(&self, _: usize) -> bool {
        false
    }

    fn work(&self, _: &Sizes<'_>) -> u64 {
        0
    }

    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred {
        let (shape, dtype) = super::tensor(args, 0)?;
        let end = self.shape.numel().checked_mul(self.dtype.size());
        let end = end.and_then(|own| own.checked_add(self.start));
        let within = end.is_some_and(|end| end <= self.bytes);
        match dtype == DType::U8 && shape[..] == [self.bytes] && within {
            true => Ok((self.shape.clone(), self.dtype)),
            false => Err(Error::argument(format!(
                "a part of {} bytes of {dtype}{shape}",
                self.bytes
            ))),
        }
    }

    // As of a program: a history gives it.
    no_gradient!();

    fn run(&self, args: &[Arg], _: &Shape, _: DType) -> Result<Array> {
        self.found(args, &contiguous)
    }

    fn as_library(&self) -> Option<&dyn OnDevice> {
        Some(self)
    }
}

impl OnDevice for Part {
    fn run_on(
        &self,
        _: &Device,
        args: &[Arg],
        _: &Shape,
        _: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>> {
        self.found(args, dense).map(Some)
    }
}
