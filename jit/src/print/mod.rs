//! Kernels as source text, a folder for each language.
//!
//! A printer decides nothing: it knows how names, types, functions and operators are spelled, where parentheses are
//! needed, and how lines are laid out. It lists the support functions that it met, since the text that defines them is put
//! before the kernel.

pub mod c;
