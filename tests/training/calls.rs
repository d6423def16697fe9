//! Calls of compiled functions, differentiated from outside: against the same function without `jit`.

use ferrotrace::prelude::*;
use ferrotrace::{checkpoint, custom_grad, nn, stats_scope, value_and_grad, vjp};
use std::sync::Arc;

fn v(data: &[f64]) -> Tensor {
    Tensor::from_slice(data, data.len(), &Device::cpu())
}

fn bits(tensor: &Tensor) -> Vec<u64> {
    let data = tensor.to_dtype(DType::F64).to_vec::<f64>().unwrap();
    data.into_iter().map(f64::to_bits).collect()
}

#[track_caller]
fn close(a: &Tensor, expected: &Tensor) {
    near(a, expected, 1e-12);
}

#[track_caller]
fn near(a: &Tensor, expected: &Tensor, bound: f64) {
    assert_eq!(a.shape(), expected.shape());
    let (a, b) = (
        a.to_dtype(DType::F64).to_vec::<f64>().unwrap(),
        expected.to_dtype(DType::F64).to_vec::<f64>().unwrap(),
    );
    let same = |(x, y): (&f64, &f64)| x == y || (x - y).abs() <= bound * (1.0 + y.abs());
    assert!(a.iter().zip(&b).all(same), "got {a:?}, expected {b:?}");
}

#[track_caller]
fn fails(a: &Tensor, part: &str) {
    let error = a.error().expect("an error").to_string();
    assert!(error.contains(part), "{error}");
}

type Function = dyn Fn(&Tensor, &Tensor) -> Vec<Tensor>;

/// Two functions of two tensors with the same results, one of them compiled.
fn pair<F>(f: F) -> (Arc<F>, impl Fn(&Tensor, &Tensor) -> Vec<Tensor>)
where
    F: Fn(&Tensor, &Tensor) -> Vec<Tensor> + Send + Sync + 'static,
{
    let plain = Arc::new(f);
    let of = plain.clone();
    let compiled = jit(move |(x, w): (&Tensor, &Tensor)| of(x, w));
    (plain, move |x, w| compiled.call((x, w)))
}

fn sum(results: &[Tensor]) -> Tensor {
    let weighted = results.iter().enumerate();
    let sums = weighted.map(|(n, result)| (result * (n as f64 + 1.0)).sin().sum(..));
    sums.reduce(|a, b| a + b).unwrap()
}

/// First and second derivatives of both, and those of `backward`.
fn compare<F>(f: F)
where
    F: Fn(&Tensor, &Tensor) -> Vec<Tensor> + Send + Sync + 'static,
{
    let (plain, compiled) = pair(f);
    for round in 0..3 {
        let ((), stats) = stats_scope(|| compare_once(&*plain, &compiled, round));
        // With histories, and without.
        let expected = if round == 0 { 2 } else { 0 };
        assert_eq!(stats.traces, expected, "in round {round}");
    }
}

fn compare_once(plain: &Function, compiled: &Function, round: i32) {
    {
        let data = [0.3, -0.7, 1.1, 0.9, -0.2, 0.4].map(|x| x + 0.1 * f64::from(round));
        let x = v(&data).reshape([2, 3]);
        let w = v(&[0.5, -1.5, 0.8]);
        let leaves = || (x.detach().requires_grad(), w.detach().requires_grad());
        let first = |f: &Function| {
            let (x, w) = leaves();
            let found = grad(&sum(&f(&x, &w)), &[&x, &w]);
            let again = (&found[0] * &found[0]).sum(..) + found[1].exp().sum(..);
            let second = grad(&again, &[&x, &w]);
            [found, second].concat()
        };
        let (own, other) = (first(plain), first(compiled));
        for (own, other) in own.iter().zip(&other) {
            close(other, own);
        }
        let (x, w) = leaves();
        sum(&compiled(&x, &w)).backward();
        close(&x.grad(), &own[0]);
        close(&w.grad(), &own[1]);
        let values = no_grad(|| compiled(&x, &w));
        for (a, b) in values.iter().zip(&no_grad(|| plain(&x, &w))) {
            close(a, b);
            assert_eq!(a.has_grad(), b.has_grad());
        }
    }
}

#[test]
fn of_one_result_and_of_several() {
    compare(|x, w| vec![(x * w).square()]);
    compare(|x, w| vec![x.exp() * w, x.sum(-1), (w * 2.0).tanh()]);
    compare(|x, w| {
        let y = x.tanh();
        vec![y.clone(), &y * w, y]
    });
    compare(|x, w| vec![x.matmul(&w.reshape([3, 1])).gelu().softmax(0)]);
}

#[test]
fn results_that_are_arguments_or_views_of_them() {
    compare(|x, w| vec![x.clone(), x.t(), w.reshape([3, 1]), x.detach(), x * w]);
    compare(|x, _| vec![x.narrow(0, 0, 1), x.narrow(0, 1, 1).exp()]);
    let f = jit(|x: &Tensor| (x.detach(), x.clone(), x * 2.0));
    let x = v(&[1.0, 2.0]).requires_grad();
    for _ in 0..2 {
        let (cut, same, double) = f.call(&x);
        assert!(!cut.has_grad() && same.has_grad() && double.has_grad());
        close(&grad(&(same + double).sum(..), &[&x])[0], &v(&[3.0, 3.0]));
    }
    let f = jit(|x: &Tensor| x.detach());
    assert!(!f.call(&x).has_grad());
}

/// What the backward pass reads lies in memory as the forward pass stored it: here in another order of dimensions.
#[test]
fn saved_values_in_another_order_of_dimensions() {
    compare(|x, w| vec![(x * w).t().select_assign(0, 0, 0.7).t().tanh().square()]);
    compare(|x, w| vec![(x * w).t().slice_assign(0, 0, 2, 1, 0.7).t().sinh().exp()]);
    compare(|x, w| vec![(x * w).t().cumsum(0).t().tanh() * w.exp()]);
    compare(|x, w| {
        let y = x.t().matmul(x).flip(0).t();
        vec![y.softmax(1) * w, y.t().pow(3).t().tanh()]
    });
}

#[test]
fn what_depends_through_integers_alone_has_no_gradient() {
    let f = jit(|x: &Tensor| {
        (
            x.argmax(0).to_dtype(DType::F64),
            x.gt(0.0).to_dtype(DType::F64) * 2.0,
        )
    });
    let x = v(&[0.5, -3.0, 2.0]).requires_grad();
    for _ in 0..2 {
        let (place, above) = f.call(&x);
        close(&place, &Tensor::scalar(2.0, DType::F64, &Device::cpu()));
        fails(&grad(&place, &[&x])[0], "through the integers");
        fails(&grad(&above.sum(..), &[&x])[0], "through the integers");
        let both = grad(&(above + &x).sum(..), &[&x]);
        close(&both[0], &v(&[1.0, 1.0, 1.0]));
    }
}

#[test]
fn constants_and_integers_among_the_results() {
    compare(|x, w| vec![(x * w).floor() + x, w.detach() * x, x.sign()]);
    let f =
        jit(|(x, index): (&Tensor, &Tensor)| (x.gather(0, index), x.argmax(0), x.detach() * 2.0));
    let x = v(&[0.5, 3.0, 2.0]).requires_grad();
    let index = Tensor::from_slice(&[2_i64, 2, 0], 3, &Device::cpu());
    for _ in 0..2 {
        let (found, place, cut) = f.call((&x, &index));
        close(&grad(&found.sum(..), &[&x])[0], &v(&[1.0, 0.0, 2.0]));
        fails(&grad(&place.to_dtype(DType::F64), &[&x])[0], "argmax");
        assert!(!cut.has_grad());
    }
}

#[test]
fn what_is_cut_off_stays_cut_off_in_second_derivatives() {
    compare(|x, w| {
        let y = x.exp();
        vec![y.detach() * x * w.detach() * w + no_grad(|| x.sin()) * &y]
    });
}

#[test]
fn checkpoints_within() {
    compare(|x, w| {
        let y = checkpoint(|| (x * w).tanh() * x.exp());
        vec![checkpoint(|| checkpoint(|| y.sin() * w) + x)]
    });
}

#[test]
fn gradients_of_the_programs_own_within() {
    let sign = custom_grad(
        |x: &[&Tensor]| x[0].sign(),
        |x, _, g| vec![g * x[0].square()],
    );
    compare(move |x, w| vec![sign(&[&(x * w)]) * x]);
    let product = custom_grad(
        |x: &[&Tensor]| x[0] * x[1],
        |x, y, g| {
            vec![
                g * x[1] * 0.5,
                (g * x[0] + g * y).sum_keepdim(0).reshape([3]),
            ]
        },
    );
    compare(move |x, w| vec![product(&[x, w]).exp()]);
}

#[test]
fn gradients_within_are_differentiated_from_outside() {
    compare(|x, w| {
        let inner = grad(&(x * w).sin().sum(..), &[x]).remove(0);
        vec![inner * x]
    });
    compare(|x, w| {
        let model = vec![w.clone()];
        let (loss, found) = value_and_grad(&model, |m| (x * &m[0]).square().sum(..));
        vec![loss.reshape(1), found[0].clone()]
    });
}

#[test]
fn of_captured_tensors() {
    let w = v(&[3.0, 0.5]).requires_grad();
    let product = &w * 2.0;
    let (a, b) = (w.clone(), product.clone());
    let f = Arc::new(move |x: &Tensor| (&a * x).square() + &b * a.detach());
    let own = f.clone();
    let compiled = jit(move |x: &Tensor| own(x));
    for i in 0..3 {
        let x = v(&[2.0, f64::from(i)]);
        let (y, z) = (f(&x), compiled.call(&x));
        close(&z, &y);
        let of = [&w, &product];
        for (a, b) in grad(&z.sum(..), &of).iter().zip(&grad(&y.sum(..), &of)) {
            close(a, b);
        }
        let x = x.requires_grad();
        let hess = |y: Tensor| {
            let found = grad(&y.sum(..), &[&w, &x]);
            grad(&(&found[0] * &found[1]).sum(..), &[&w, &x])
        };
        for (a, b) in hess(compiled.call(&x)).iter().zip(&hess(f(&x))) {
            close(a, b);
        }
    }
    let found = no_grad(|| compiled.call(&v(&[1.0, 1.0])));
    assert!(!found.has_grad());
    assert!(compiled.call(&v(&[1.0, 1.0])).has_grad());
}

#[test]
fn a_call_and_its_gradient_are_two_plans() {
    let f = jit(|(x, w): (&Tensor, &Tensor)| ((x * w).tanh() * w).sum(..));
    let w = v(&[0.5, -0.5]).requires_grad();
    let step = |i: i32| {
        f.call((&v(&[f64::from(i), 1.0]), &w)).backward();
        let found = bits(&w.grad());
        w.zero_grad();
        found
    };
    let ((), stats) = stats_scope(|| drop(step(0)));
    assert_eq!((stats.traces, stats.flushes), (1, 2), "{stats:?}");
    let ((), stats) = stats_scope(|| (0..100).for_each(|i| drop(step(i))));
    assert_eq!((stats.traces, stats.plans_built), (0, 0), "{stats:?}");
    assert_eq!(stats.flushes, 200, "{stats:?}");
    let live = |steps| {
        stats_scope(|| (0..steps).for_each(|i| drop(step(i))))
            .1
            .live_bytes
    };
    assert_eq!(live(100), live(1));
}

#[test]
fn random_numbers_are_those_of_the_call() {
    let f = jit(|x: &Tensor| x.dropout(0.5) * x);
    let x = Tensor::ones(64, DType::F64, &Device::cpu()).requires_grad();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let y = f.call(&x);
        let slope = grad(&y.sum(..), &[&x]).remove(0);
        close(&slope, &(&y * 2.0).detach());
        // d/dx of 2 m x, with the mask m of this call.
        let second = grad(&slope.sum(..), &[&x]).remove(0);
        close(&second, &(&y * 2.0).detach());
        seen.push(bits(&y));
    }
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

#[test]
fn backward_twice_and_memory_between() {
    let f = jit(|x: &Tensor| x.exp().square());
    let x = v(&[2.0]).requires_grad();
    for _ in 0..2 {
        let loss = f.call(&x).sum(..);
        loss.backward();
        let error = loss.try_backward().expect_err("has ended").to_string();
        assert!(error.contains("earlier backward pass"), "{error}");
        let y = f.call(&x);
        let (a, b) = (y.sum(..), (&y * 2.0).sum(..));
        let of = |loss: &Tensor| grad(loss, &[&x]).remove(0);
        close(&(of(&a) * 2.0), &of(&b));
    }
}

#[test]
fn results_that_a_loss_does_not_depend_on() {
    // The second result has an infinite slope at 0, which no gradient of 0 is multiplied by.
    let f = jit(|x: &Tensor| (x * 3.0, x.sqrt(), x.exp() * x));
    let x = v(&[0.0, 4.0]).requires_grad();
    for _ in 0..2 {
        let (a, _, _) = f.call(&x);
        close(&grad(&a.sum(..), &[&x])[0], &v(&[3.0, 3.0]));
        let (a, _, c) = f.call(&x);
        let expected = (x.detach() + 1.0) * x.detach().exp() + 3.0;
        close(&grad(&(a + c).sum(..), &[&x])[0], &expected);
        let (_, b, _) = f.call(&x);
        assert_eq!(bits(&grad(&b.sum(..), &[&x])[0])[1], 0.25_f64.to_bits());
    }
}

#[test]
fn of_structs_with_tied_parameters() {
    let model = || {
        let w = v(&[0.5, -1.0, 2.0, 0.1]).reshape([2, 2]).requires_grad();
        vec![w.clone(), v(&[0.3, 0.7]).requires_grad(), w]
    };
    let loss = |m: &Vec<Tensor>, x: &Tensor| {
        let h = (x.matmul(&m[0]) + &m[1]).tanh();
        h.matmul(&m[2].t()).square().sum(..)
    };
    let f = jit(move |(m, x): (&Vec<Tensor>, &Tensor)| loss(m, x));
    for i in 0..3 {
        let x = v(&[1.0, f64::from(i)]).reshape([1, 2]);
        let m = model();
        let (a, b) = (grad(&loss(&m, &x), &m), grad(&f.call((&m, &x)), &m));
        a.iter().zip(&b).for_each(|(a, b)| close(b, a));
        let (_, own) = value_and_grad(&m, |m| loss(m, &x));
        let (_, found) = value_and_grad(&m, |m| f.call((m, &x)));
        own.iter().zip(&found).for_each(|(a, b)| close(b, a));
    }
}

#[test]
fn of_arguments_that_are_given_away() {
    let f = jit(|(x, w): (Tensor, &Tensor)| (&x * w).exp() * x);
    let w = v(&[0.5, 0.25]).requires_grad();
    for _ in 0..3 {
        let x = v(&[1.0, 2.0]);
        let expected = (&x * w.detach()).exp() * &x * &x;
        close(&grad(&f.call((x, &w)).sum(..), &[&w])[0], &expected);
    }
}

#[test]
fn of_models_with_buffers() {
    let model = || nn::BatchNorm::new(2, &Device::cpu());
    let (own, other) = (model(), model());
    let f = jit(|(m, x): (&nn::BatchNorm, &Tensor)| nn::Module::forward(m, x).exp());
    for i in 0..3 {
        let x = v(&[0.5, 1.0, -1.0, f64::from(i)]).reshape([2, 2]);
        let x = x.to_dtype(DType::F32).requires_grad();
        let a = nn::Module::forward(&own, &x).exp();
        let b = f.call((&other, &x));
        near(&b, &a, 1e-5);
        let slope = |y: &Tensor| grad(&y.square().sum(..), &[&x]).remove(0);
        near(&slope(&b), &slope(&a), 1e-4);
        for (a, b) in own.tensors().iter().zip(other.tensors()) {
            near(&b, a, 1e-6);
        }
    }
}

#[test]
fn in_half_precision() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let f = |x: &Tensor, w: &Tensor| (x.matmul(w)).gelu().sum(-1);
        let compiled = jit(move |(x, w): (&Tensor, &Tensor)| f(x, w));
        let of = |data: &[f64], shape: [usize; 2]| v(data).reshape(shape).to_dtype(dtype);
        let x = of(&[0.5, -1.0, 2.0, 0.25], [2, 2]).requires_grad();
        let w = of(&[1.0, 0.5, -0.5, 2.0], [2, 2]).requires_grad();
        let a = grad(&f(&x, &w).sum(..), &[&x, &w]);
        let b = grad(&compiled.call((&x, &w)).sum(..), &[&x, &w]);
        let bound = match dtype {
            DType::F16 => 2e-3,
            DType::BF16 => 1.6e-2,
            _ => 1e-6,
        };
        for (a, b) in a.iter().zip(&b) {
            assert_eq!(b.dtype(), dtype);
            let (a, b) = (a.to_dtype(DType::F64), b.to_dtype(DType::F64));
            assert!(b.allclose(&a, bound, bound).unwrap(), "{a:?} {b:?}");
        }
    }
}

#[test]
fn in_every_mode_and_by_products_with_vectors() {
    let f = Arc::new(jit(|x: &Tensor| x.sin() * x));
    let x = v(&[0.5, 1.5]).requires_grad();
    let of = || grad(&f.call(&x).sum(..), &[&x]).remove(0);
    let expected = x.detach().cos() * x.detach() + x.detach().sin();
    for mode in [Mode::Compiled, Mode::Eager, Mode::Tiered] {
        close(&with_mode(mode, of), &expected);
    }
    // Recorded compiled, differentiated in eager mode.
    let y = f.call(&x);
    let found = with_mode(Mode::Eager, || grad(&y.sum(..), &[&x]).remove(0));
    close(&found, &expected);
    let compiled = f.clone();
    let (_, product) = vjp(
        move |x: &Tensor| compiled.call(x),
        &x.detach(),
        &v(&[2.0, 0.0]),
    );
    close(&product, &(expected * v(&[2.0, 0.0])));
    let outer = checkpoint(|| f.call(&x).exp());
    let plain = (x.sin() * &x).exp();
    close(
        &grad(&outer.sum(..), &[&x])[0],
        &grad(&plain.sum(..), &[&x])[0],
    );
}

#[test]
fn on_many_threads() {
    let w = v(&[1.0, 2.0]).requires_grad();
    let captured = w.clone();
    let f = jit(move |x: &Tensor| (&captured * x).exp());
    std::thread::scope(|scope| {
        for i in 0..4 {
            let (f, w) = (&f, &w);
            scope.spawn(move || {
                for j in 0..20 {
                    let x = v(&[0.1 * f64::from(i), 0.1 * f64::from(j)]);
                    let expected = (w.detach() * &x).exp() * &x;
                    close(&grad(&f.call(&x).sum(..), &[w])[0], &expected);
                }
            });
        }
    });
}

#[test]
fn a_backward_pass_within_fails_at_every_call() {
    let w = v(&[3.0]).requires_grad();
    let captured = w.clone();
    let step = jit(move |x: &Tensor| {
        let loss = (&captured * x).sum(..);
        loss.backward();
        loss.detach()
    });
    for _ in 0..3 {
        step.call(&v(&[2.0]));
        fails(&w.grad(), "outside");
        w.zero_grad();
    }
}

#[test]
fn a_call_saves_what_is_costly_to_compute_again() {
    let f = jit(|(x, w): (&Tensor, &Tensor)| {
        let u = x.matmul(w);
        (u.sigmoid() * &u).exp().matmul(w).sum(..)
    });
    let side = 64;
    let ones = || Tensor::ones([side, side], DType::F32, &Device::cpu()) * 0.01;
    let (x, w) = (ones().requires_grad(), ones().requires_grad());
    ferrotrace::eval([&x, &w]).unwrap();
    let expected = grad(&f.call((&x, &w)), &[&x, &w]);
    let (loss, stats) = stats_scope(|| f.call((&x, &w)));
    // The first product, beside the loss.
    let bytes = (side * side * DType::F32.size()) as u64;
    assert!(
        (bytes..bytes + 1024).contains(&stats.live_bytes),
        "{stats:?}"
    );
    for (a, b) in grad(&loss, &[&x, &w]).iter().zip(&expected) {
        assert_eq!(bits(a), bits(b));
    }
}
