//! Random numbers of bodies.

use super::{MODES, cpu, of, scalar};
use ferrotrace::prelude::*;
use ferrotrace::{Generator, cond, grad, jit, map, scan, while_loop};

fn read(x: &Tensor) -> Vec<f64> {
    x.to_vec::<f64>().expect("numbers")
}

#[test]
fn a_scan_draws_what_the_unrolled_loop_draws() {
    let draws = |g: &Generator, c: &Tensor| {
        let a = g.rand(3, DType::F64, &cpu());
        let b = g.randn(5, DType::F64, &cpu());
        (c + a.sum(..), b.sum(..) + a.sum(..))
    };
    for mode in MODES {
        with_mode(mode, || {
            let (one, other) = (Generator::new(7), Generator::new(7));
            let (last, rows) = scan(|c, _: &Tensor| draws(&one, c), &scalar(0.0), &of(&[0.0; 4]));
            let (mut c, mut all) = (scalar(0.0), Vec::new());
            for _ in 0..4 {
                let (next, row) = draws(&other, &c);
                all.extend(read(&row));
                c = next;
            }
            super::near(&read(&last), &read(&c), mode);
            super::near(&read(&rows), &all, mode);
            // And so does what comes behind it.
            let behind = [&one, &other].map(|g| read(&g.rand(2, DType::F64, &cpu())));
            assert_eq!(behind[0], behind[1]);
        });
    }
}

#[test]
fn every_step_and_every_replay_draws_anew() {
    let noise = |x: &Tensor| {
        let step = |(n, sum): &(Tensor, Tensor)| {
            let draw = Tensor::rand(1, DType::F64, &cpu());
            (n + 1, Tensor::cat(&[sum.narrow(0, 1, 4), draw], 0))
        };
        let start = (Tensor::scalar(0, DType::I32, &cpu()), x.clone());
        while_loop(|(n, _)| n.lt(5), step, &start).1
    };
    let zeros = of(&[0.0; 5]);
    let compiled = jit(noise);
    let replays = || {
        (0..3)
            .flat_map(|_| read(&compiled.call(&zeros)))
            .collect::<Vec<f64>>()
    };
    let mut all = replays();
    all.extend(read(&noise(&zeros)));
    all.extend(with_mode(Mode::Eager, || read(&noise(&zeros))));
    let rows = map(|_: &Tensor| Tensor::rand(2, DType::F64, &cpu()), &zeros);
    all.extend(read(&rows));
    assert!(all.iter().all(|x| (0.0..1.0).contains(x)), "{all:?}");
    all.sort_by(f64::total_cmp);
    all.dedup();
    assert_eq!(all.len(), 25 + 10);
}

/// A first call, which records the function, takes of the generator what later ones take.
#[test]
fn recording_draws_what_a_replay_draws() {
    let generator = Generator::new(3);
    let (start, own) = (generator.state(), generator.clone());
    let program = move |x: &Tensor| {
        let step = |x: &Tensor| x + own.rand(5, DType::F64, &cpu());
        let twice = |x: &Tensor| while_loop(|x| x.sum(..).lt(30.0), step, x);
        let all = while_loop(|x| x.sum(..).lt(20.0), |x| twice(&step(x)), x);
        Tensor::cat(&[all, own.rand(3, DType::F64, &cpu())], 0)
    };
    let (compiled, x) = (jit(program.clone()), of(&[0.0; 5]));
    let seeded = |f: &dyn Fn() -> Tensor| {
        generator.set_state(start);
        [read(&f()), read(&f())]
    };
    let recorded = seeded(&|| compiled.call(&x));
    assert_ne!(recorded[0], recorded[1]);
    assert_eq!(seeded(&|| compiled.call(&x)), recorded);
    assert_eq!(seeded(&|| program(&x)), recorded);
}

#[test]
fn both_modes_draw_the_same() {
    let program = |g: &Generator| {
        let inner = |c: &Tensor, _: &Tensor| (c + g.rand((), DType::F64, &cpu()), ());
        let outer = |c: &Tensor| scan(inner, c, &of(&[0.0; 3])).0;
        let total = while_loop(|c| c.lt(10.0), outer, &scalar(0.0));
        let chosen = cond(
            &total.gt(0.0),
            |x| x + g.rand((), DType::F64, &cpu()),
            |x| x - g.randn((), DType::F64, &cpu()),
            &total,
        );
        Tensor::stack(&[total, chosen, g.rand((), DType::F64, &cpu())], 0)
    };
    let run = |mode| with_mode(mode, || read(&program(&Generator::new(3))));
    let (eager, compiled) = (run(Mode::Eager), run(Mode::Compiled));
    super::near(&eager, &compiled, Mode::Compiled);
    assert!(
        eager[0] >= 10.0 && (0.0..1.0).contains(&(eager[1] - eager[0])),
        "{eager:?}"
    );
}

#[test]
fn a_gradient_sees_the_numbers_that_were_drawn() {
    // The gradient of a dropout is its mask, step by step.
    let x = Tensor::ones([4, 50], DType::F64, &cpu()).requires_grad();
    for mode in MODES {
        with_mode(mode, || {
            let y = map(|x: &Tensor| x.dropout(0.5), &x);
            let gradient = grad(&y.sum(..), &[&x]).remove(0);
            assert_eq!(read(&y), read(&gradient));
            let kept = read(&y).iter().filter(|&&y| y > 0.0).count();
            assert!((60..140).contains(&kept), "{kept}");
        });
    }
}
