//! Gradients and training.

mod calls;
mod data;
mod dropped;
mod gradients;
mod history;
mod loops;
mod memory;
mod models;
mod nn;
mod optim;
mod programs;
mod reference;
mod structs;
mod updates;
