//! Gradients and training.

mod api;
mod gradients;
mod history;
mod loops;
mod structs;
