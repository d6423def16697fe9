//! Gradients and training.

mod api;
