//! Gradients and training.

mod api;
mod history;
mod loops;
mod structs;
