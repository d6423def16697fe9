//! A pickle machine that builds plain values and tensors, and executes nothing.
//!
//! Pickles are programs of a stack machine (`pickletools.dis` of Python's library lists them). This one knows a handful
//! of names ([`Named`]), and what they make of their arguments; every other name is an error. All memory that a pickle
//! takes here is proportional to its length.

use super::reader::Bounded;
use super::value::{Id, Named, StorageRef, TensorRef, Value};
use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

/// What a pickle described.
pub(super) struct Unpickled {
    pub values: Vec<Value>,
    pub root: Id,
}

#[derive(Default)]
struct Machine {
    values: Vec<Value>,
    stack: Vec<Id>,
    /// Heights of the stack at its marks.
    marks: Vec<usize>,
    memo: HashMap<u32, Id>,
    /// Bytes of the pickle so far.
    read: usize,
    /// Items of containers that were copied so far.
    copied: usize,
}

type Result<T, E = String> = std::result::Result<T, E>;

/// Reads one pickle of at most `most` bytes, or says what is wrong with it.
pub(super) fn unpickle(from: &mut dyn Read, most: usize) -> Result<Unpickled> {
    let mut from = Bounded::new(from, most);
    let mut machine = Machine::default();
    loop {
        match from.byte()? {
            b'.' => break,
            code => machine.step(code, &mut from)?,
        }
    }
    let root = machine.pop()?;
    let values = machine.values;
    Ok(Unpickled { values, root })
}

impl Machine {
    fn step(&mut self, code: u8, from: &mut Bounded<'_>) -> Result<()> {
        self.read = from.taken();
        if let Some(value) = plain(code, from)? {
            return self.push(value);
        }
        match code {
            // PROTO, and FRAME, whose length nothing depends on.
            0x80 => match from.byte()? {
                0..=5 => Ok(()),
                other => Err(format!("protocol {other} of pickles is unknown")),
            },
            0x95 => from.array::<8>().map(drop),
            b'(' => {
                self.marks.push(self.stack.len());
                Ok(())
            }
            b'0' => self.pop().map(drop),
            b'1' => self.marked().map(drop),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
                Ok(())
            }
            b'h' | b'j' | b'g' | b'q' | b'r' | b'p' | 0x94 => self.remember(code, from),
            b'c' => {
                let (module, name) = (from.line()?, from.line()?);
                self.name(&module, &name)
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (module, name) = (self.text(module)?, self.text(name)?);
                self.name(&module, &name)
            }
            b'R' | 0x81 => {
                let (args, callee) = (self.pop()?, self.pop()?);
                self.call(callee, args)
            }
            b'b' => self.set_state(),
            b'Q' => {
                let id = self.pop()?;
                self.storage(id)
            }
            _ => self.gather(code),
        }
    }

    fn push(&mut self, value: Value) -> Result<()> {
        let id = Id::try_from(self.values.len()).map_err(|_| "a pickle has too many values")?;
        self.values.push(value);
        self.stack.push(id);
        Ok(())
    }

    fn pop(&mut self) -> Result<Id> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len() > floor {
            true => self.stack.pop().ok_or_else(underflow),
            false => Err(underflow()),
        }
    }

    fn top(&self) -> Result<Id> {
        self.stack.last().copied().ok_or_else(underflow)
    }

    fn marked(&mut self) -> Result<Vec<Id>> {
        let mark = self.marks.pop().ok_or_else(underflow)?;
        Ok(self.stack.split_off(mark))
    }

    fn value(&self, id: Id) -> &Value {
        self.values.get(id as usize).unwrap_or(&Value::None)
    }

    fn text(&self, id: Id) -> Result<Arc<str>> {
        match self.value(id) {
            Value::Text(text) => Ok(text.clone()),
            other => Err(format!("a text is expected where {} is", kind(other))),
        }
    }

    /// Notes the top of the stack under a number, or pushes what was noted.
    fn remember(&mut self, code: u8, from: &mut Bounded<'_>) -> Result<()> {
        let number = match code {
            b'h' | b'q' => from.byte()?.into(),
            b'j' | b'r' => u32::from_le_bytes(from.array()?),
            0x94 => u32::try_from(self.memo.len()).map_err(|_| "a pickle has too many values")?,
            _ => from.line()?.parse().map_err(|_| "a number is none")?,
        };
        if matches!(code, b'h' | b'j' | b'g') {
            let id = self.memo.get(&number).copied();
            self.stack
                .push(id.ok_or("a pickle refers to what it has not")?);
        } else {
            let top = self.top()?;
            self.memo.insert(number, top);
        }
        Ok(())
    }

    /// Makes and fills containers.
    fn gather(&mut self, code: u8) -> Result<()> {
        match code {
            b'l' | b't' | 0x91 => {
                let items = self.marked()?;
                self.push(match code {
                    b't' => Value::Tuple(items),
                    _ => Value::List(items),
                })
            }
            0x85..=0x87 => {
                let mut items = Vec::new();
                for _ in 0x84..code {
                    items.push(self.pop()?);
                }
                items.reverse();
                self.push(Value::Tuple(items))
            }
            b'd' => {
                let pairs = pairs(self.marked()?)?;
                self.push(Value::Dict(pairs))
            }
            b'a' => {
                let item = self.pop()?;
                self.extend(vec![item])
            }
            b'e' | 0x90 => {
                let items = self.marked()?;
                self.extend(items)
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.insert(vec![(key, value)])
            }
            b'u' => {
                let pairs = pairs(self.marked()?)?;
                self.insert(pairs)
            }
            other => Err(format!(
                "instruction {other:#04x} is not one that tensors need"
            )),
        }
    }

    fn extend(&mut self, items: Vec<Id>) -> Result<()> {
        let to = self.top()? as usize;
        match self.values.get_mut(to) {
            Some(Value::List(list)) => {
                list.extend(items);
                Ok(())
            }
            _ => Err("something is appended to what is no list".to_owned()),
        }
    }

    fn insert(&mut self, pairs: Vec<(Id, Id)>) -> Result<()> {
        let to = self.top()? as usize;
        match self.values.get_mut(to) {
            Some(Value::Dict(dict)) => {
                dict.extend(pairs);
                Ok(())
            }
            _ => Err("an entry is made in what is no dictionary".to_owned()),
        }
    }

    fn name(&mut self, module: &str, name: &str) -> Result<()> {
        if Named::is_dtype(module, name) {
            return self.push(Value::Text(format!("{module}.{name}").into()));
        }
        let shown = |text: &str| text.chars().take(80).collect::<String>();
        let named = Named::of(module, name).ok_or_else(|| {
            let (module, name) = (shown(module), shown(name));
            format!(
                "it asks for {module}.{name}, which is not among the few names that tensors need; \
                 nothing was run"
            )
        })?;
        self.push(Value::Named(named))
    }

    fn call(&mut self, callee: Id, args: Id) -> Result<()> {
        let (Value::Named(named), Value::Tuple(args)) = (self.value(callee), self.value(args))
        else {
            return Err("something that is no function is called".to_owned());
        };
        // No name takes more, and a long tuple may be given again and again.
        let args: Vec<Id> = args.iter().copied().take(10).collect();
        let named = *named;
        let value = match (named, &args[..]) {
            (Named::OrderedDict, []) => Value::Dict(Vec::new()),
            (Named::OrderedDict, [list]) => self.dict_of(*list)?,
            (Named::RebuildTensor, [storage, offset, dims, strides, rest @ ..]) => {
                self.plain_metadata(rest)?;
                self.tensor(*storage, *offset, *dims, *strides)?
            }
            (Named::RebuildParameter, [tensor, ..]) => {
                let tensor = self.value(*tensor);
                match tensor {
                    Value::Tensor(_) => tensor.clone(),
                    _ => return Err("a parameter is made of what is no tensor".to_owned()),
                }
            }
            (Named::Size, [sizes]) => Value::Tuple(self.items(*sizes)?),
            (Named::Set, []) => Value::List(Vec::new()),
            (Named::Set, [items]) => Value::List(self.items(*items)?),
            (Named::Encode, [text, ..]) => {
                let text = self.text(*text)?;
                let bytes = text.chars().map(|c| u8::try_from(c as u32));
                let bytes: Result<Vec<u8>, _> = bytes.collect();
                Value::Bytes(bytes.map_err(|_| "bytes are no bytes")?.into())
            }
            (named, args) => {
                let n = args.len();
                return Err(format!("{named:?} is called with {n} arguments"));
            }
        };
        self.push(value)
    }

    /// Applies a state to an object. PyTorch's dictionaries have versions of modules there, which are left out.
    fn set_state(&mut self) -> Result<()> {
        self.pop()?;
        match self.value(self.top()?) {
            Value::Dict(_) | Value::Tensor(_) => Ok(()),
            other => Err(format!("a state is given to {}", kind(other))),
        }
    }

    /// The items of a list or tuple. Python writes each of those that are copied here for its one use: as many items as
    /// the pickle has bytes are enough, and a container that is used again and again is none of Python's.
    fn items(&mut self, id: Id) -> Result<Vec<Id>> {
        let items = match self.value(id) {
            Value::List(items) | Value::Tuple(items) => items,
            other => return Err(format!("a list is expected where {} is", kind(other))),
        };
        let copied = self.copied + items.len();
        if copied > self.read {
            return Err("it uses one list too many times".to_owned());
        }
        let items = items.clone();
        self.copied = copied;
        Ok(items)
    }

    fn dict_of(&mut self, list: Id) -> Result<Value> {
        let mut pairs = Vec::new();
        for pair in self.items(list)? {
            match self.items(pair)?[..] {
                [key, value] => pairs.push((key, value)),
                _ => return Err("a pair is expected".to_owned()),
            }
        }
        Ok(Value::Dict(pairs))
    }

    fn whole(&self, id: Id) -> Result<usize> {
        match self.value(id) {
            Value::Int(n) => usize::try_from(*n).map_err(|_| format!("{n} is no size")),
            other => Err(format!("a number is expected where {} is", kind(other))),
        }
    }

    fn wholes(&mut self, id: Id) -> Result<Vec<usize>> {
        let items = self.items(id)?.into_iter();
        items.map(|id| self.whole(id)).collect()
    }

    fn tensor(&mut self, storage: Id, offset: Id, dims: Id, strides: Id) -> Result<Value> {
        let Value::Storage(storage) = self.value(storage) else {
            return Err("a tensor is made of what is no storage".to_owned());
        };
        let storage = (**storage).clone();
        let strides = self.wholes(strides)?.into_iter().map(isize::try_from);
        let strides: Result<Vec<isize>, _> = strides.collect();
        Ok(Value::Tensor(Arc::new(TensorRef {
            storage,
            offset: self.whole(offset)?,
            dims: self.wholes(dims)?,
            strides: strides.map_err(|_| "a stride is greater than any memory")?,
        })))
    }

    /// Refuses a tensor whose numbers are to be negated or conjugated when read.
    fn plain_metadata(&self, rest: &[Id]) -> Result<()> {
        match rest.get(2).map(|&id| self.value(id)) {
            None | Some(Value::None) => Ok(()),
            Some(Value::Dict(entries)) if entries.is_empty() => Ok(()),
            Some(_) => Err("a tensor is a negated or conjugated view".to_owned()),
        }
    }

    /// The storage of a persistent identity: `("storage", type, key, location, elements)`.
    fn storage(&mut self, id: Id) -> Result<()> {
        let parts = self.items(id)?;
        let is_storage = parts
            .first()
            .is_some_and(|&id| matches!(self.value(id), Value::Text(t) if &**t == "storage"));
        let (is_storage, &[_, of, key, _, numel, ref view @ ..]) = (is_storage, &parts[..]) else {
            return Err("a persistent identity is that of no storage".to_owned());
        };
        let Value::Named(Named::Storage(dtype)) = *self.value(of) else {
            return Err("a persistent identity is that of no storage".to_owned());
        };
        let is_whole = view.iter().all(|&id| matches!(self.value(id), Value::None));
        if !is_storage || !is_whole {
            return Err("a persistent identity is that of no whole storage".to_owned());
        }
        let (key, numel) = (self.text(key)?, self.whole(numel)?);
        self.push(Value::Storage(Arc::new(StorageRef { key, dtype, numel })))
    }
}

/// The value that an instruction pushes by itself, if it is one that does.
fn plain(code: u8, from: &mut Bounded<'_>) -> Result<Option<Value>> {
    let text = |text: String| Value::Text(text.into());
    let bytes = |bytes: Vec<u8>| Value::Bytes(bytes.into());
    Ok(Some(match code {
        b'N' => Value::None,
        0x88 => Value::Bool(true),
        0x89 => Value::Bool(false),
        b'J' => Value::Int(i32::from_le_bytes(from.array()?).into()),
        b'K' => Value::Int(from.byte()?.into()),
        b'M' => Value::Int(u16::from_le_bytes(from.array()?).into()),
        0x8a => {
            let len = from.len::<1>()?;
            Value::Int(long(&from.bytes(len)?)?)
        }
        0x8b => {
            let len = from.len::<4>()?;
            Value::Int(long(&from.bytes(len)?)?)
        }
        b'I' | b'L' => match &*from.line()? {
            "00" => Value::Bool(false),
            "01" => Value::Bool(true),
            digits => {
                let number = digits.trim_end_matches('L').parse();
                Value::Int(number.map_err(|_| "a number is none")?)
            }
        },
        b'G' => Value::Float(f64::from_be_bytes(from.array()?)),
        b'X' => {
            let len = from.len::<4>()?;
            text(from.text(len)?)
        }
        0x8c => {
            let len = from.len::<1>()?;
            text(from.text(len)?)
        }
        0x8d => {
            let len = from.len::<8>()?;
            text(from.text(len)?)
        }
        // Python 2's strings, which are names here.
        b'T' => {
            let len = from.len::<4>()?;
            text(from.text(len)?)
        }
        b'U' => {
            let len = from.len::<1>()?;
            text(from.text(len)?)
        }
        b'B' => {
            let len = from.len::<4>()?;
            bytes(from.bytes(len)?)
        }
        b'C' => {
            let len = from.len::<1>()?;
            bytes(from.bytes(len)?)
        }
        0x8e | 0x96 => {
            let len = from.len::<8>()?;
            bytes(from.bytes(len)?)
        }
        b']' | 0x8f => Value::List(Vec::new()),
        b')' => Value::Tuple(Vec::new()),
        b'}' => Value::Dict(Vec::new()),
        _ => return Ok(None),
    }))
}

/// An integer of any length in two's complement, the lowest byte first.
fn long(bytes: &[u8]) -> Result<i128> {
    let sign = bytes.last().is_some_and(|&last| last >= 0x80);
    let mut wide = [if sign { 0xff } else { 0 }; 16];
    let Some(low) = wide.get_mut(..bytes.len()) else {
        return Err("an integer has more than 128 bits".to_owned());
    };
    low.copy_from_slice(bytes);
    Ok(i128::from_le_bytes(wide))
}

fn pairs(items: Vec<Id>) -> Result<Vec<(Id, Id)>> {
    let pairs = items.chunks(2).map(|pair| match *pair {
        [key, value] => Ok((key, value)),
        _ => Err("a dictionary has a key without a value".to_owned()),
    });
    pairs.collect()
}

fn underflow() -> String {
    "it takes more than it has".to_owned()
}

/// What a value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::None => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Int(_) | Value::Float(_) => "a number",
        Value::Text(_) => "a text",
        Value::Bytes(_) => "bytes",
        Value::List(_) => "a list",
        Value::Tuple(_) => "a tuple",
        Value::Dict(_) => "a dictionary",
        Value::Named(_) => "a function or type",
        Value::Storage(_) => "a storage",
        Value::Tensor(_) => "a tensor",
    }
}
