//! Operators' attributes as named values, from which text forms are printed and read.

use ferrotrace_runtime::{DType, Error, Result, Shape};
use smallvec::{Array, SmallVec};
use std::fmt;

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// A word.
    Word(String),
    /// Several.
    List(Vec<Attribute>),
}

/// An attribute with its name.
pub type Named = (&'static str, Attribute);

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attribute::Bool(b) => write!(f, "{b}"),
            Attribute::Int(i) => write!(f, "{i}"),
            Attribute::Float(x) => write!(f, "{x:?}"),
            Attribute::Word(w) => write!(f, "{w:?}"),
            Attribute::List(list) => {
                let each: Vec<String> = list.iter().map(Attribute::to_string).collect();
                write!(f, "[{}]", each.join(", "))
            }
        }
    }
}

/// What a line tells of an operator beside its name and operands.
#[derive(Debug)]
pub struct Line<'a> {
    attributes: Vec<(String, Attribute)>,
    /// The shape of the result.
    pub shape: &'a Shape,
    /// Its dtype.
    pub dtype: DType,
}

impl<'a> Line<'a> {
    /// The attributes that were read, and the result that the line declares.
    pub fn new(attributes: Vec<(String, Attribute)>, shape: &'a Shape, dtype: DType) -> Line<'a> {
        Line {
            attributes,
            shape,
            dtype,
        }
    }

    /// Whether there is an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        self.attributes.iter().any(|(n, _)| n == name)
    }

    /// The attribute of a name.
    ///
    /// # Errors
    /// There is none.
    pub fn get(&self, name: &str) -> Result<&Attribute> {
        let found = self.attributes.iter().find(|(n, _)| n == name);
        let missing = || Error::argument(format!("the attribute {name} is missing"));
        found.map(|(_, value)| value).ok_or_else(missing)
    }

    /// The value of a name.
    ///
    /// # Errors
    /// There is none, or of another kind.
    pub fn value<T: Value>(&self, name: &str) -> Result<T> {
        T::read(self.get(name)?).map_err(|e| e.of(name))
    }

    /// The dimensions of a name, a bit each.
    ///
    /// # Errors
    /// As [`value`](Line::value).
    pub fn dims(&self, name: &str) -> Result<u64> {
        dims::read(self.get(name)?).map_err(|e| e.of(name))
    }
}

/// What an attribute must be and is not.
#[derive(Clone, Copy, Debug)]
pub struct Unlike(pub(crate) &'static str);

impl Unlike {
    /// The error of the attribute of this name.
    pub fn of(self, name: &str) -> Error {
        Error::argument(format!("{name} must be {}", self.0))
    }
}

/// A type of attributes.
pub trait Value: Sized {
    /// As it is printed.
    fn write(&self) -> Attribute;

    /// As it was printed.
    ///
    /// # Errors
    /// It is of another kind.
    fn read(from: &Attribute) -> Result<Self, Unlike>;
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Value for $t {
            fn write(&self) -> Attribute {
                // Attributes come from shapes and slices, which fit 64 bits.
                Attribute::Int(i64::try_from(*self).unwrap_or(i64::MAX))
            }

            fn read(from: &Attribute) -> Result<Self, Unlike> {
                let of_range = match from {
                    Attribute::Int(i) => Self::try_from(*i).ok(),
                    _ => None,
                };
                of_range.ok_or(Unlike("an integer of its range"))
            }
        }
    )*};
}
integers!(u8, u32, usize, isize);

impl Value for bool {
    fn write(&self) -> Attribute {
        Attribute::Bool(*self)
    }

    fn read(from: &Attribute) -> Result<Self, Unlike> {
        match from {
            Attribute::Bool(b) => Ok(*b),
            _ => Err(Unlike("true or false")),
        }
    }
}

impl Value for Box<str> {
    fn write(&self) -> Attribute {
        Attribute::Word(self.to_string())
    }

    fn read(from: &Attribute) -> Result<Self, Unlike> {
        match from {
            Attribute::Word(word) => Ok(word.as_str().into()),
            _ => Err(Unlike("a word")),
        }
    }
}

/// Before and after.
impl Value for (isize, isize) {
    fn write(&self) -> Attribute {
        Attribute::List(vec![self.0.write(), self.1.write()])
    }

    fn read(from: &Attribute) -> Result<Self, Unlike> {
        let [before, after] = <[isize; 2]>::read(from)?;
        Ok((before, after))
    }
}

impl<T: Value, const N: usize> Value for [T; N] {
    fn write(&self) -> Attribute {
        Attribute::List(self.iter().map(T::write).collect())
    }

    fn read(from: &Attribute) -> Result<Self, Unlike> {
        let list: Vec<T> = read_list(from)?;
        let count = |_| Unlike("a list of as many integers as there are dimensions");
        list.try_into().map_err(count)
    }
}

impl<A: Array<Item: Value>> Value for SmallVec<A> {
    fn write(&self) -> Attribute {
        Attribute::List(self.iter().map(Value::write).collect())
    }

    fn read(from: &Attribute) -> Result<Self, Unlike> {
        read_list(from)
    }
}

fn read_list<T: Value, C: FromIterator<T>>(from: &Attribute) -> Result<C, Unlike> {
    let Attribute::List(list) = from else {
        return Err(Unlike("a list of integers"));
    };
    let all = list.iter().map(T::read).collect::<Result<C, Unlike>>();
    all.map_err(|_| Unlike("a list of integers"))
}

/// A type whose values are words of a table.
macro_rules! words {
    ($t:ty: $what:literal { $($word:literal = $value:path),* $(,)? }) => {
        impl $crate::text::Value for $t {
            fn write(&self) -> $crate::text::Attribute {
                let word = match self {
                    $($value => $word,)*
                };
                $crate::text::Attribute::Word(word.to_owned())
            }

            fn read(from: &$crate::text::Attribute) -> Result<Self, $crate::text::Unlike> {
                match from {
                    $($crate::text::Attribute::Word(word) if word == $word => Ok($value),)*
                    _ => Err($crate::text::Unlike($what)),
                }
            }
        }
    };
}
pub(crate) use words;

/// Dimensions, a bit each, as a list.
pub mod dims {
    use super::{Attribute, Unlike, Value};

    /// As they are printed.
    pub fn write(mask: u64) -> Attribute {
        let set = (0..64u8).filter(|d| mask >> d & 1 == 1);
        Attribute::List(set.map(|d| d.write()).collect())
    }

    /// As they were printed.
    ///
    /// # Errors
    /// It is no list of dimensions.
    pub fn read(from: &Attribute) -> Result<u64, Unlike> {
        let dims: Vec<u32> = super::read_list(from)?;
        let mut bits = dims.iter().map(|&d| 1u64.checked_shl(d));
        let mask = bits.try_fold(0, |mask, bit| Some(mask | bit?));
        mask.ok_or(Unlike("a list of dimensions below 64"))
    }
}

/// A binary64 number that is held by its bits, so that operators can be hashed.
pub mod bits {
    use super::{Attribute, Unlike};

    /// As it is printed.
    pub fn write(bits: u64) -> Attribute {
        Attribute::Float(f64::from_bits(bits))
    }

    /// As it was printed.
    ///
    /// # Errors
    /// It is no number.
    pub fn read(from: &Attribute) -> Result<u64, Unlike> {
        match from {
            Attribute::Float(x) => Ok(x.to_bits()),
            Attribute::Int(i) => Ok((*i as f64).to_bits()),
            Attribute::Word(w) if w == "NaN" => Ok(f64::NAN.to_bits()),
            _ => Err(Unlike("a number")),
        }
    }
}
