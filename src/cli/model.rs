//! What `run` takes: a program, or a bundle.

use crate::Place;
use ferrotrace::prelude::*;
use std::path::Path;

/// A program that was loaded, with its kernels or without.
pub enum Model {
    Program(Box<io::ExportedProgram>),
    Bundle(Box<io::Bundle>),
}

impl Model {
    /// Loads a bundle from a file whose name ends in `.ftb`, else a program.
    pub fn load(path: &Path, place: &Place, fallback: io::Fallback) -> Result<Model> {
        if path.extension().is_none_or(|extension| extension != "ftb") {
            return Ok(Model::Program(Box::new(place.load(path)?)));
        }
        set_mode(place.mode);
        let device = place.device_by(Device::cuda_without_compiler)?;
        let bundle = io::Bundle::open_on(path, fallback, &device)?;
        Ok(Model::Bundle(Box::new(bundle)))
    }

    pub fn inputs(&self) -> Vec<io::Port> {
        match self {
            Model::Program(program) => program.inputs(),
            Model::Bundle(bundle) => bundle.inputs(),
        }
    }

    pub fn outputs(&self) -> Vec<io::Port> {
        match self {
            Model::Program(program) => program.outputs(),
            Model::Bundle(bundle) => bundle.outputs(),
        }
    }

    pub fn state_dict(&self) -> io::TensorMap {
        match self {
            Model::Program(program) => program.state_dict(),
            Model::Bundle(bundle) => bundle.state_dict(),
        }
    }

    pub fn run(&mut self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        match self {
            Model::Program(program) => program.run(inputs),
            Model::Bundle(bundle) => bundle.run(inputs),
        }
    }
}
