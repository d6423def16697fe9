//! Sentence embeddings by all-MiniLM-L6-v2.

mod model;

pub use model::{MiniLm, POSITIONS, WIDTH};

use ferrotrace::prelude::*;
use std::fmt;
use std::path::Path;
use tokenizers::{Encoding, Tokenizer, TruncationParams};

/// Sentences that are embedded at once.
const BATCH: usize = 32;
/// Sentences are padded to a multiple of so many tokens: few lengths make few plans.
const STEP: usize = 16;
/// Longer sentences are cut, as the model's authors do.
const LONGEST: usize = 256;

/// A compiled function of a model, of tokens, and of whether there is one.
type Forward = Box<dyn Fn(&MiniLm, &Tensor, &Tensor) -> Tensor>;

/// Makes vectors of sentences: those of sentences that mean alike lie near each other.
pub struct Embedder {
    tokenizer: Tokenizer,
    model: MiniLm,
    forward: Forward,
    device: Device,
}

impl fmt::Debug for Embedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Embedder on {}", self.device)
    }
}

impl Embedder {
    /// The model of a folder with `tokenizer.json` and `model.safetensors`.
    ///
    /// # Errors
    /// A file cannot be read, or is of another model.
    pub fn load(folder: &Path, device: &Device) -> Result<Embedder> {
        let model = MiniLm::load(folder, device)?;
        let file = folder.join("tokenizer.json");
        let failed = |error| Error::argument(format!("{}: {error}", file.display()));
        let mut tokenizer = Tokenizer::from_file(&file).map_err(failed)?;
        tokenizer.with_padding(None);
        let truncation = TruncationParams {
            max_length: LONGEST,
            ..TruncationParams::default()
        };
        tokenizer
            .with_truncation(Some(truncation))
            .map_err(failed)?;
        let forward = jit(|(model, tokens, present): (&MiniLm, &Tensor, &Tensor)| {
            model.forward(tokens, present)
        });
        Ok(Embedder {
            tokenizer,
            model,
            forward: Box::new(move |model, tokens, present| forward.call((model, tokens, present))),
            device: device.clone(),
        })
    }

    /// The tokens of a sentence.
    ///
    /// # Errors
    /// The tokenizer refuses it.
    pub fn tokens(&self, sentence: &str) -> Result<Vec<i64>> {
        let encoding = self.tokenizer.encode(sentence, true);
        let encoding = encoding.map_err(|error| Error::argument(error.to_string()))?;
        Ok(ids(&encoding))
    }

    /// A vector of length 1 for each sentence: `[sentences, WIDTH]`. `done` is told how many are computed.
    ///
    /// # Errors
    /// The tokenizer refuses a sentence, or a run fails.
    pub fn embed(
        &self,
        sentences: &[impl AsRef<str>],
        mut done: impl FnMut(u64),
    ) -> Result<Tensor> {
        let all: Result<Vec<Vec<i64>>> =
            sentences.iter().map(|s| self.tokens(s.as_ref())).collect();
        let all = all?;
        // Sentences of like lengths go together, so that little is padded.
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by_key(|&i| all[i].len());
        let mut vectors = vec![0.0f32; all.len() * WIDTH];
        for places in order.chunks(BATCH) {
            let batch: Vec<&[i64]> = places.iter().map(|&i| &all[i][..]).collect();
            let found = self.of_batch(&batch).to_vec::<f32>()?;
            for (&place, vector) in places.iter().zip(found.chunks_exact(WIDTH)) {
                vectors[place * WIDTH..][..WIDTH].copy_from_slice(vector);
            }
            done(places.len() as u64);
        }
        Ok(Tensor::from_vec(vectors, [all.len(), WIDTH], &self.device))
    }

    fn of_batch(&self, batch: &[&[i64]]) -> Tensor {
        let longest = batch.iter().map(|tokens| tokens.len()).max().unwrap_or(0);
        let length = longest.next_multiple_of(STEP).min(POSITIONS);
        let (mut tokens, mut present) = (Vec::new(), Vec::new());
        for sentence in batch {
            for place in 0..length {
                tokens.push(sentence.get(place).copied().unwrap_or(0));
                present.push(place < sentence.len());
            }
        }
        let shape = [batch.len(), length];
        let tokens = Tensor::from_vec(tokens, shape, &self.device);
        let present = Tensor::from_vec(present, shape, &self.device);
        (self.forward)(&self.model, &tokens, &present)
    }
}

fn ids(encoding: &Encoding) -> Vec<i64> {
    encoding.get_ids().iter().map(|&id| i64::from(id)).collect()
}
