//! The vectors of ten sentences, as the reference implementation computes them: `data/reference.py` wrote them.
//!
//! The weights lie in `weights/`, or where `FERROTRACE_MINILM` says; without them there is nothing to compare, and the test
//! says so.

use ferrotrace::prelude::*;
use ferrotrace_minilm::{Embedder, WIDTH};
use serde_json::Value;
use std::path::PathBuf;

struct Reference {
    text: String,
    tokens: Vec<i64>,
    vector: Vec<f64>,
}

fn references() -> Vec<Reference> {
    let all: Value = serde_json::from_str(include_str!("../data/reference.json")).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let one = |value: &Value| Reference {
        text: value["text"].as_str().unwrap().to_owned(),
        tokens: list(&value["tokens"])
            .iter()
            .map(|v| v.as_i64().unwrap())
            .collect(),
        vector: list(&value["vector"])
            .iter()
            .map(|v| v.as_f64().unwrap())
            .collect(),
    };
    list(&all).iter().map(one).collect()
}

fn weights() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("weights");
    let folder = std::env::var_os("FERROTRACE_MINILM").map_or(beside, PathBuf::from);
    let there = folder.join("model.safetensors").exists();
    if !there {
        println!("no weights in {}: nothing is compared", folder.display());
    }
    there.then_some(folder)
}

#[test]
fn references_are_vectors_of_length_one() {
    let all = references();
    assert_eq!(all.len(), 10);
    for reference in all {
        assert_eq!(reference.vector.len(), WIDTH, "{}", reference.text);
        let square: f64 = reference.vector.iter().map(|x| x * x).sum();
        assert!((square - 1.0).abs() < 1e-5, "{}: {square}", reference.text);
    }
}

#[test]
fn vectors_are_those_of_the_reference() -> Result<()> {
    let Some(folder) = weights() else {
        return Ok(());
    };
    for mode in [Mode::Compiled, Mode::Eager] {
        with_mode(mode, || {
            let embedder = Embedder::load(&folder, &Device::best())?;
            let all = references();
            let texts: Vec<&str> = all.iter().map(|r| &*r.text).collect();
            let found = embedder.embed(&texts, |_| ())?.to_vec::<f32>()?;
            for (reference, found) in all.iter().zip(found.chunks_exact(WIDTH)) {
                assert_eq!(embedder.tokens(&reference.text)?, reference.tokens);
                for (a, b) in found.iter().zip(&reference.vector) {
                    let near = (f64::from(*a) - b).abs() <= 1e-4;
                    assert!(near, "{mode:?} {}: {a} for {b}", reference.text);
                }
            }
            Ok(())
        })?;
    }
    Ok(())
}
