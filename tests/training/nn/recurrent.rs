//! Recurrent layers.

use super::{cpu, like_torch};
use crate::reference::{case, each};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

#[test]
fn one_layer() {
    like_torch("rnn", || Rnn::new(3, 4, &cpu()));
    like_torch("gru", || Gru::new(3, 4, &cpu()));
    like_torch("lstm", || Lstm::new(3, 4, &cpu()));
}

fn deep() -> Recurrent {
    Recurrent::new().layers(2).bidirectional().batch_first()
}

#[test]
fn layers_in_both_directions_from_a_state() {
    let (rnn, gru, lstm) = (case("rnn_deep"), case("gru_deep"), case("lstm_deep"));
    each(|dtype, tolerance| {
        let layer = rnn.load(Rnn::with(3, 4, deep(), &cpu()), dtype);
        let start = rnn.input("start0", dtype);
        let (y, end) = layer.forward_from(&rnn.input("x", dtype), Some(&start));
        rnn.near("y", &y, tolerance);
        rnn.near("end0", &end, tolerance);

        let layer = gru.load(Gru::with(3, 4, deep(), &cpu()), dtype);
        let start = gru.input("start0", dtype);
        let (y, end) = layer.forward_from(&gru.input("x", dtype), Some(&start));
        gru.near("y", &y, tolerance);
        gru.near("end0", &end, tolerance);

        let layer = lstm.load(Lstm::with(3, 4, deep(), &cpu()), dtype);
        let (h, c) = (lstm.input("start0", dtype), lstm.input("start1", dtype));
        let (y, end) = layer.forward_from(&lstm.input("x", dtype), Some((&h, &c)));
        lstm.near("y", &y, tolerance);
        lstm.near("end0", &end.0, tolerance);
        lstm.near("end1", &end.1, tolerance);
    });
}

#[test]
fn one_sequence_without_a_batch() {
    let layer = Lstm::with(3, 4, deep(), &cpu());
    let x = Tensor::randn([2, 5, 3], DType::F32, &cpu());
    let (y, (h, c)) = layer.forward_from(&x, None);
    let (one, (h1, c1)) = layer.forward_from(&x.select(0, 1), None);
    let same = |a: &Tensor, b: Tensor| assert!(a.allclose(&b, 1e-5, 1e-5).unwrap());
    same(&one, y.select(0, 1));
    same(&h1, h.select(1, 1));
    same(&c1, c.select(1, 1));
}

#[test]
fn a_sequence_is_one_plan() {
    let layer = Lstm::new(3, 4, &cpu());
    let x = Tensor::randn([6, 2, 3], DType::F32, &cpu());
    eval([&x]).unwrap();
    TensorStruct::eval(&layer).unwrap();
    let (_, stats) = stats_scope(|| {
        with_mode(Mode::Compiled, || layer.forward(&x).eval().unwrap());
    });
    assert_eq!(
        (stats.flushes, stats.plans_built + stats.plan_cache_hits),
        (1, 1)
    );
}

#[test]
fn shapes_that_do_not_fit_are_errors() {
    let layer = Gru::new(3, 4, &cpu());
    let of = |shape: &[usize]| Tensor::ones(shape, DType::F32, &cpu());
    let state = of(&[1, 2, 4]);
    let fails = |x: Tensor, start: Option<&Tensor>| {
        let (y, end) = layer.forward_from(&x, start);
        assert!(y.error().is_some() && end.error().is_some());
    };
    fails(of(&[5, 2, 4]), None);
    fails(of(&[3]), None);
    fails(of(&[0, 2, 3]), None);
    fails(of(&[5, 3, 3]), Some(&state));
    assert!(
        layer
            .forward_from(&of(&[5, 2, 3]), Some(&state))
            .0
            .error()
            .is_none()
    );
}

#[test]
fn single_steps() {
    let (rnn, gru, lstm) = (case("rnn_cell"), case("gru_cell"), case("lstm_cell"));
    each(|dtype, tolerance| {
        let cell = rnn.load(RnnCell::new(3, 4, &cpu()), dtype);
        let (x, h) = (rnn.input("x", dtype), rnn.input("start0", dtype));
        rnn.near("first0", &cell.forward(&x, None), tolerance);
        rnn.near("end0", &cell.forward(&x, Some(&h)), tolerance);

        let cell = gru.load(GruCell::new(3, 4, &cpu()), dtype);
        let (x, h) = (gru.input("x", dtype), gru.input("start0", dtype));
        gru.near("first0", &cell.forward(&x, None), tolerance);
        gru.near("end0", &cell.forward(&x, Some(&h)), tolerance);

        let cell = lstm.load(LstmCell::new(3, 4, &cpu()), dtype);
        let x = lstm.input("x", dtype);
        let (h, c) = (lstm.input("start0", dtype), lstm.input("start1", dtype));
        let (h0, c0) = cell.forward(&x, None);
        let (h1, c1) = cell.forward(&x, Some((&h, &c)));
        let got = [("first0", h0), ("first1", c0), ("end0", h1), ("end1", c1)];
        for (name, tensor) in got {
            lstm.near(name, &tensor, tolerance);
        }
    });
}

#[test]
fn a_step_of_one_row_is_that_of_its_batch() {
    let cell = GruCell::new(3, 4, &cpu()).without_bias();
    let x = Tensor::randn([2, 3], DType::F32, &cpu());
    let (all, one) = (cell.forward(&x, None), cell.forward(&x.select(0, 1), None));
    assert!(one.allclose(&all.select(0, 1), 1e-5, 1e-6).unwrap());
}

#[test]
fn a_step_from_a_state_of_another_shape_is_an_error() {
    let of = |shape: &[usize]| Tensor::ones(shape, DType::F32, &cpu());
    let cell = LstmCell::new(3, 4, &cpu());
    let (h, c) = (of(&[2, 4]), of(&[1, 4]));
    assert!(
        cell.forward(&of(&[2, 3]), Some((&h, &c)))
            .0
            .error()
            .is_some()
    );
    assert!(cell.forward(&of(&[2, 4]), None).1.error().is_some());
    assert!(cell.forward(&of(&[1, 2, 3]), None).0.error().is_some());
}
