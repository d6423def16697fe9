//! Element types and PyTorch's promotion rules.

use std::fmt;

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    /// One byte, 0 or 1.
    Bool,
    /// Unsigned 8-bit integer.
    U8,
    /// Signed 8-bit integer.
    I8,
    /// Signed 16-bit integer.
    I16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// IEEE binary32, the default floating-point type.
    F32,
    /// IEEE binary64.
    F64,
}

/// The promotion category of a dtype: a higher category wins over a lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// `Bool`.
    Bool,
    /// Every integer.
    Int,
    /// Every floating-point type.
    Float,
}

impl DType {
    /// Every dtype, in order of declaration.
    pub const ALL: [DType; 10] = [
        DType::Bool,
        DType::U8,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
    ];

    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::I16 | DType::F16 | DType::BF16 => 2,
            DType::I32 | DType::F32 => 4,
            DType::I64 | DType::F64 => 8,
        }
    }

    /// The promotion category.
    pub const fn category(self) -> Category {
        match self {
            DType::Bool => Category::Bool,
            DType::U8 | DType::I8 | DType::I16 | DType::I32 | DType::I64 => Category::Int,
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => Category::Float,
        }
    }

    /// Whether the type is a floating-point type.
    pub const fn is_float(self) -> bool {
        matches!(self.category(), Category::Float)
    }

    /// Whether the type is an integer (not `Bool`).
    pub const fn is_int(self) -> bool {
        matches!(self.category(), Category::Int)
    }

    /// The least and the greatest value of an integer type; `None` for other types.
    ///
    /// ```
    /// use ferrotrace_runtime::DType::*;
    /// assert_eq!((U8.int_range(), Bool.int_range()), (Some((0, 255)), None));
    /// ```
    pub const fn int_range(self) -> Option<(i64, i64)> {
        match self {
            DType::U8 => Some((0, u8::MAX as i64)),
            DType::I8 => Some((i8::MIN as i64, i8::MAX as i64)),
            DType::I16 => Some((i16::MIN as i64, i16::MAX as i64)),
            DType::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
            DType::I64 => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }

    /// Whether the type is `F16` or `BF16`.
    pub const fn is_half(self) -> bool {
        matches!(self, DType::F16 | DType::BF16)
    }

    /// The type in which arithmetic on this type is carried out: `F32` for the half types, else itself.
    pub const fn compute(self) -> DType {
        match self {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        }
    }

    /// The type of `a op b` for two tensors of one or more dimensions (PyTorch's table; ir T81: promotion).
    ///
    /// ```
    /// use ferrotrace_runtime::DType::*;
    /// assert_eq!(U8.promote(I8), I16);
    /// assert_eq!(F16.promote(BF16), F32);
    /// assert_eq!(I64.promote(F16), F16);
    /// ```
    pub fn promote(self, other: DType) -> DType {
        use DType::*;
        if self == other {
            return self;
        }
        let (low, high) = if self < other {
            (self, other)
        } else {
            (other, self)
        };
        match (low, high) {
            (Bool, t) => t,
            (U8, I8) => I16,
            (F16, BF16) => F32,
            (_, t) => t,
        }
    }

    /// The lower-case name used in text forms and messages.
    pub const fn name(self) -> &'static str {
        match self {
            DType::Bool => "bool",
            DType::U8 => "u8",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
        }
    }

    /// The dtype whose [`name`](Self::name) is `name`.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promotion_is_commutative_and_idempotent() {
        for a in DType::ALL {
            assert_eq!(a.promote(a), a);
            for b in DType::ALL {
                assert_eq!(a.promote(b), b.promote(a));
                assert!(a.promote(b).category() >= a.category().max(b.category()));
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for d in DType::ALL {
            assert_eq!(DType::from_name(d.name()), Some(d));
        }
    }
}
