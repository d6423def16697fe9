//! The kernel IR: the functions of one kernel as trees of statements and expressions.
//!
//! It stands between a fused node, which says *what* is computed, and source text. Loops, vectors, memory and control
//! flow are explicit here; spelling is not. No name is a string: a [`Name`] says what a variable is for, and printers
//! alone know how that looks. An [`Expr`] takes 16 bytes and owns its parts, so that a kernel is cheap to build, and a
//! transform may rewrite it where it stands. An index that is used at many positions is built once, with
//! [`Expr::Position`] as a leaf, and [`Expr::at`] puts a position in its place.
//!
//! [`verify`] checks what every printer relies on. [`Kernel`] and its parts have a plain text form of their own
//! (`Display`), for people and for tests.
//!
//! ```
//! use ferrotrace_jit::kernel::ir::{Expr, Local, Name};
//!
//! let place = Expr::from(Name::Pointer(0)) + (Expr::from(Name::Base(1)) + Expr::Position);
//! let here = place.at(&(Expr::from(Local::Column) + 16));
//! assert_eq!(here.to_string(), "(pointer0 + (base1 + (column + 16)))");
//! ```

mod block;
mod display;
mod expr;
mod function;
mod kernel;
mod loops;
mod name;
mod stmt;
mod types;
mod verify;

pub use block::Block;
pub use expr::{Call, Expr, Infix, Prefix};
pub use function::{Cached, Function, Shuffle};
pub use kernel::{Arguments, Body, Kernel, Launch, Role};
pub use loops::{Axis, Loop, Step, Unroll};
pub use name::{Copy, Local, Name, OnDevice, Part};
pub use stmt::{Extent, Meeting, Operation, Sizes, Stmt, Variable};
pub use types::{Access, PointerType, Space, Type, ValueType};
pub use verify::{Fault, Rule, verify};
