//! What every operator answers, and the lists of them.
//!
//! An operator is a value of a type of its own, which holds its attributes and stands with its rules and its ready-made
//! kernel in one file under [`ops`](crate::ops). [`Op`](crate::Op) is any of them: its list is the one other place that
//! names an operator in this crate. What a pass asks of every operator is a method of [`Operator`] without a default: an
//! operator that leaves one open does not compile. What concerns a few has a trait of its own ([`View`], [`Update`],
//! [`OnDevice`]) or is a question of [`Op`](crate::Op) that their file answers, such as `as_reduce`.

use crate::copy::Dense;
use crate::op::gradient::{Adjoint, Gradients};
use crate::ops::view::View;
use crate::text::{Line, Named};
use crate::{Arg, ArgMeta, Array, Class, OpBuilder, Sizes};
use ferrotrace_runtime::{DType, Device, Result, Shape};

/// The shape and dtype of a result.
pub type Inferred = Result<(Shape, DType)>;

/// An operator of this crate, with its attributes.
pub trait Operator {
    /// Its name, as errors and text forms give it.
    fn name(&self) -> &'static str;

    /// The attributes that its name, its operands and its result do not tell, in the order they are printed in.
    fn attributes(&self) -> Vec<Named>;

    /// Reads it from its name and attributes; `None` if the name is another's.
    ///
    /// # Errors
    /// An attribute is missing or of the wrong kind.
    fn read(name: &str, line: &Line<'_>) -> Result<Option<Self>>
    where
        Self: Sized;

    /// What it is to the passes that do not look at its attributes.
    fn class(&self) -> Class;

    /// Whether computing an element again wherever it is used costs no more than reading it from memory.
    fn is_light(&self) -> bool;

    /// Whether the result jumps where operand number `operand`, a float, passes some number.
    fn jumps(&self, operand: usize) -> bool;

    /// The shape and dtype of the result for these operands.
    ///
    /// # Errors
    /// The operands do not fit: the error names what is wrong (shape, dtype, dimension, argument).
    fn infer(&self, args: &[ArgMeta<'_>]) -> Inferred;

    /// Additions and multiplications, or what takes as long, for operands of these sizes.
    fn work(&self, of: &Sizes<'_>) -> u64;

    /// The gradients of the operands from that of the result, built by operators: a vector-Jacobian product. At kinks and
    /// singular points they are PyTorch's.
    ///
    /// # Errors
    /// An operator of its definition that cannot be recorded.
    fn vjp(&self, b: &mut dyn OpBuilder, of: &Adjoint<'_>) -> Result<Gradients>;

    /// Runs the ready-made kernel of the CPU, where the operands lie; `shape` and `dtype` are those that
    /// [`infer`](Operator::infer) gives.
    ///
    /// # Errors
    /// Out of memory; an index out of range.
    fn run(&self, args: &[Arg], shape: &Shape, dtype: DType) -> Result<Array>;

    /// The operator as a view, if its [class](Operator::class) is that.
    fn as_view(&self) -> Option<&dyn View> {
        None
    }

    /// The operator as one that a library of devices has in some forms.
    fn as_library(&self) -> Option<&dyn OnDevice> {
        None
    }

    /// The operator as one that can change its first operand in place.
    fn as_update(&self) -> Option<&dyn Update> {
        None
    }
}

/// An operator that a library of CUDA devices has in some forms.
pub trait OnDevice: Operator {
    /// Whether the library has it for such operands, on a device whose blocks share so many bytes. What it lacks is made of
    /// other operators where there is a definition.
    fn has(&self, args: &[ArgMeta<'_>], shared: usize) -> bool {
        let _ = (args, shared);
        true
    }

    /// Whether it changes a few elements of its first operand, and does so in that operand's memory where nothing else holds
    /// it (scheduler B-22).
    fn writes_over(&self) -> bool {
        false
    }

    /// Runs it on `device`, where the operands lie; `None` in other forms than the library has. `dense` copies an array
    /// that the library does not take as it lies.
    ///
    /// # Errors
    /// Out of memory; what the device's driver answers; a kernel that does not compile.
    fn run_on(
        &self,
        device: &Device,
        args: &[Arg],
        shape: &Shape,
        dtype: DType,
        dense: Dense<'_>,
    ) -> Result<Option<Array>>;
}

/// An operator whose kernel changes a few elements of its first operand.
pub trait Update: Operator {
    /// Whether it can do so in the operand's own memory, of `dtype` as the result (scheduler B-22).
    fn writes_over(&self, dtype: DType) -> bool;

    /// Changes the operand, dense from the start of memory that nothing else holds. The first of `args` is not looked at.
    ///
    /// # Errors
    /// Out of memory; an index out of range: `x` is of no use then.
    fn run_over(&self, x: &mut Array, args: &[Arg]) -> Result<()>;
}

/// Declares an enum of operators, and how it asks the one that it is.
///
/// Variants hold a value of the operator's type, a boxed one, or nothing: then the operator has no attributes, and a
/// constant answers for it. Another list is a variant as a whole.
macro_rules! operators {
    (
        $(#[$doc:meta])*
        pub enum $name:ident: $of:ident {
            values { $($variant:ident($type:ty),)* }
            boxed { $($boxed:ident($inner:ty),)* }
            constants { $($unit:ident = $entry:path,)* }
            lists { $($family:ident,)* }
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = concat!("See [`", stringify!($type), "`].")] $variant($type),)*
            $(#[doc = concat!("See [`", stringify!($inner), "`].")] $boxed(Box<$inner>),)*
            $(#[doc = concat!("See `", stringify!($entry), "`.")] $unit,)*
            $(#[doc = concat!("See [`", stringify!($family), "`].")] $family($family),)*
        }

        $(impl From<$type> for $name {
            fn from(op: $type) -> $name {
                $name::$variant(op)
            }
        })*

        $(impl From<$inner> for $name {
            fn from(op: $inner) -> $name {
                $name::$boxed(Box::new(op))
            }
        })*

        $(impl From<$family> for $name {
            fn from(op: $family) -> $name {
                $name::$family(op)
            }
        })*

        impl $name {
            /// The operator that it is.
            #[inline]
            pub fn entry(&self) -> &dyn $of {
                match self {
                    $($name::$variant(op) => op,)*
                    $($name::$boxed(op) => &**op,)*
                    $($name::$unit => &$entry,)*
                    $($name::$family(op) => op.entry(),)*
                }
            }

            /// Reads an operator from its name and attributes; `None` if no operator has the name.
            ///
            /// # Errors
            /// An attribute is missing or of the wrong kind.
            pub fn read(name: &str, line: &$crate::text::Line<'_>) -> Result<Option<$name>> {
                $(if let Some(op) = <$type as $crate::op::operator::Operator>::read(name, line)? {
                    return Ok(Some($name::$variant(op)));
                })*
                $(if let Some(op) = <$inner as $crate::op::operator::Operator>::read(name, line)? {
                    return Ok(Some($name::$boxed(Box::new(op))));
                })*
                $(if $entry.name() == name {
                    return Ok(Some($name::$unit));
                })*
                $(if let Some(op) = $family::read(name, line)? {
                    return Ok(Some($name::$family(op)));
                })*
                Ok(None)
            }
        }
    };
}
pub(crate) use operators;

/// The names of an operator and of its attributes: `text!("narrow" { dim, start, len })` for attributes called as the
/// fields are, `text!("flip" { dims = mask as dims })` for one called otherwise, or in one of the forms of
/// [`text`](crate::text).
macro_rules! text {
    ($name:literal) => { $crate::op::operator::text!($name {}); };
    ($name:literal { $($field:ident),+ $(,)? }) => {
        $crate::op::operator::text!($name { $($field = $field),+ });
    };
    ($name:literal { $($key:ident = $field:tt $(as $form:ident)?),* $(,)? }) => {
        fn name(&self) -> &'static str {
            $name
        }
        $crate::op::operator::attributes!($($key = $field $(as $form)?),*);
        fn read(name: &str, line: &$crate::text::Line<'_>) -> Result<Option<Self>> {
            if name != $name {
                return Ok(None);
            }
            // An operator without attributes reads nothing.
            let _ = line;
            Ok(Some(Self {
                $($field: $crate::op::operator::form!(read line.get(stringify!($key))? $(, $form)?)
                    .map_err(|e| e.of(stringify!($key)))?,)*
            }))
        }
    };
}
pub(crate) use text;

/// [`Operator::attributes`] of attributes written as for [`text!`].
macro_rules! attributes {
    ($($key:ident = $field:tt $(as $form:ident)?),* $(,)?) => {
        fn attributes(&self) -> Vec<$crate::text::Named> {
            vec![$((stringify!($key), $crate::op::operator::form!(write self.$field $(, $form)?)),)*]
        }
    };
}
pub(crate) use attributes;

/// The answers that are a line each: [class](Operator::class), whether it is [light](Operator::is_light), whether it
/// [jumps](Operator::jumps) for any operand, and its [work](Operator::work).
macro_rules! facts {
    (class: $class:expr, light: $light:expr, jumps: $jumps:expr, work: $work:expr) => {
        fn class(&self) -> Class {
            $class
        }

        fn is_light(&self) -> bool {
            $light
        }

        fn jumps(&self, _: usize) -> bool {
            $jumps
        }

        fn work(&self, of: &$crate::Sizes<'_>) -> u64 {
            let work: fn(&Self, &$crate::Sizes<'_>) -> u64 = $work;
            work(self, of)
        }
    };
}
pub(crate) use facts;

/// [`Operator::vjp`] of what has no operand that a gradient could be asked of, or whose result does not change with them but
/// where it jumps.
macro_rules! no_gradient {
    () => {
        fn vjp(
            &self,
            _: &mut dyn $crate::OpBuilder,
            of: &$crate::op::gradient::Adjoint<'_>,
        ) -> Result<$crate::op::gradient::Gradients> {
            Ok(of.none())
        }
    };
}
pub(crate) use no_gradient;

/// A question of [`Op`](crate::Op): the operator of one type that it is.
macro_rules! question {
    ($(#[$doc:meta])* $name:ident: $variant:ident($type:ty)) => {
        impl $crate::Op {
            $(#[$doc])*
            #[inline]
            pub fn $name(&self) -> Option<&$type> {
                match self {
                    $crate::Op::$variant(op) => Some(op),
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use question;

/// Writes or reads an attribute, as its type says or in a form of its own.
macro_rules! form {
    (write $x:expr) => {
        $crate::text::Value::write(&$x)
    };
    (write $x:expr, $form:ident) => {
        $crate::text::$form::write($x)
    };
    (read $x:expr) => {
        $crate::text::Value::read($x)
    };
    (read $x:expr, $form:ident) => {
        $crate::text::$form::read($x)
    };
}
pub(crate) use form;
