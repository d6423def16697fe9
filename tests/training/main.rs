//! Gradients and training.

mod data;
mod gradients;
mod history;
mod loops;
mod nn;
mod optim;
mod programs;
mod reference;
mod structs;
