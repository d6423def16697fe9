//! Models of sequences and words.

use super::{cpu, like_pytorch, numbers, whole};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;

#[derive(Clone, Debug, TensorStruct)]
struct Gpt {
    tokens: Embedding,
    places: Embedding,
    norm1: LayerNorm,
    qkv: Linear,
    out: Linear,
    norm2: LayerNorm,
    wide: Linear,
    narrow: Linear,
    norm3: LayerNorm,
}

#[test]
fn gpt_block_with_tied_embeddings() {
    let model = || Gpt {
        tokens: Embedding::new(11, 8, &cpu()),
        places: Embedding::new(6, 8, &cpu()),
        norm1: LayerNorm::new(8, &cpu()),
        qkv: Linear::new(8, 24, &cpu()),
        out: Linear::new(8, 8, &cpu()),
        norm2: LayerNorm::new(8, &cpu()),
        wide: Linear::new(8, 32, &cpu()),
        narrow: Linear::new(32, 8, &cpu()),
        norm3: LayerNorm::new(8, &cpu()),
    };
    like_pytorch("Gpt", model, |m, _| {
        let ids = whole("ids", 11, &[2, 7]);
        let places = Tensor::arange(0, 6, 1, DType::I64, &cpu());
        let x = m.tokens.forward(&ids.narrow(1, 0, 6)) + m.places.forward(&places);
        let qkv = m.qkv.forward(&m.norm1.forward(&x)).reshape([2, 6, 3, 2, 4]);
        let qkv = qkv.permute([2, 0, 3, 1, 4]);
        let [q, k, v] = [0, 1, 2].map(|i| qkv.select(0, i));
        let y = Tensor::scaled_dot_product_attention(&q, &k, &v, None, true, None);
        let x = x + m.out.forward(&y.transpose(1, 2).reshape([2, 6, 8]));
        let y = m.wide.forward(&m.norm2.forward(&x)).gelu_tanh();
        let x = x + m.narrow.forward(&y);
        let logits = m.norm3.forward(&x).matmul(&m.tokens.weight.t());
        let next = ids.narrow(1, 1, 6).reshape([12]);
        logits.reshape([12, 11]).cross_entropy(&next)
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Bert {
    tokens: Embedding,
    layer: TransformerEncoderLayer,
    out: Linear,
}

#[test]
fn bert_block_with_a_mask() {
    let options = TransformerOptions::new(8, 2).inner(16).dropout(0.0);
    let options = options.activation(Activation::Gelu);
    let model = || Bert {
        tokens: Embedding::new(9, 8, &cpu()).padding(0),
        layer: TransformerEncoderLayer::new(options, &cpu()),
        out: Linear::new(8, 9, &cpu()),
    };
    like_pytorch("Bert", model, |m, _| {
        let ids = whole("ids", 9, &[3, 5]);
        let keep = ids.ne(0).reshape([3, 1, 1, 5]);
        let x = m.layer.forward_masked(&m.tokens.forward(&ids), Some(&keep));
        let asked = whole("masked", 3, &[3, 5]).eq(0);
        let target = asked.where_cond(&ids, -100);
        let logits = m.out.forward(&x).transpose(1, 2);
        CrossEntropyLoss::new().forward(&logits, &target)
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Sequence<T> {
    rnn: T,
    out: Linear,
}

impl<T: Module> Sequence<T> {
    fn loss(&self, dtype: DType) -> Tensor {
        let y = self.rnn.forward(&numbers("x", &[6, 3, 4], dtype));
        let t = numbers("t", &[6, 3, 2], dtype) * 3.0;
        HuberLoss::new(1.0).forward(&self.out.forward(&y), &t)
    }
}

#[test]
fn lstm() {
    let model = || Sequence {
        rnn: Lstm::new(4, 5, &cpu()),
        out: Linear::new(5, 2, &cpu()),
    };
    like_pytorch("LongShort", model, |m, dtype| m.loss(dtype));
}

#[test]
fn gru() {
    let model = || Sequence {
        rnn: Gru::new(4, 5, &cpu()),
        out: Linear::new(5, 2, &cpu()),
    };
    like_pytorch("Gated", model, |m, dtype| m.loss(dtype));
}

#[derive(Clone, Debug, TensorStruct)]
struct Attentive {
    encode: Rnn,
    decode: Gru,
    out: Linear,
}

#[test]
fn recurrent_encoder_and_decoder_with_attention() {
    let model = || Attentive {
        encode: Rnn::with(4, 6, Recurrent::new().bidirectional(), &cpu()),
        decode: Gru::new(3, 12, &cpu()),
        out: Linear::new(24, 5, &cpu()),
    };
    like_pytorch("Attentive", model, |m, dtype| {
        let memory = m.encode.forward(&numbers("x", &[7, 2, 4], dtype));
        let y = m.decode.forward(&numbers("y", &[4, 2, 3], dtype));
        let scores = Tensor::einsum("tbh,sbh->bts", &[&y, &memory]) / 12f64.sqrt();
        let seen = Tensor::einsum("bts,sbh->tbh", &[&scores.softmax(2), &memory]);
        let log_p = m.out.forward(&Tensor::cat(&[&y, &seen], 2)).log_softmax(2);
        let loss = NllLoss::new().weight(numbers("w", &[5], dtype) + 1.5);
        loss.forward(&log_p.reshape([8, 5]), &whole("t", 5, &[8]))
    });
}

#[derive(Clone, Debug, TensorStruct)]
struct Words {
    inner: Embedding,
    outer: Embedding,
}

#[test]
fn words_by_skip_grams() {
    let model = || Words {
        inner: Embedding::new(13, 6, &cpu()),
        outer: Embedding::new(13, 6, &cpu()),
    };
    like_pytorch("Words", model, |m, _| {
        let ids = |name, shape: &[usize]| whole(name, 13, shape);
        let bag = m.inner.forward(&ids("bag", &[8, 3])).mean(1);
        let v = m.inner.forward(&ids("centre", &[8])) + bag;
        let near = (&v * m.outer.forward(&ids("near", &[8]))).sum(1);
        let others = m.outer.forward(&ids("others", &[8, 4]));
        let far = others.matmul(&v.unsqueeze(2)).select(2, 0);
        -(near.logsigmoid() + (-far).logsigmoid().sum(1)).mean(..)
    });
}
