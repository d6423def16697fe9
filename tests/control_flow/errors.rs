//! What control flow refuses: every result carries an error that says what is wrong and where.

use super::{MODES, cpu, of, scalar};
use ferrotrace::prelude::*;
use ferrotrace::{ErrorKind, associative_scan, bounded_while_loop, cond, map, scan, while_loop};

#[track_caller]
fn refuses(f: impl Fn() -> Tensor, parts: &[&str]) -> Error {
    let mut last = None;
    for mode in MODES {
        let result = with_mode(mode, &f);
        let error = (result.to_dtype(DType::F64) + 1.0)
            .to_vec::<f64>()
            .expect_err("an error")
            .to_string();
        for part in parts.iter().chain(&["errors.rs"]) {
            assert!(error.contains(part), "{mode:?}: no {part:?} in {error}");
        }
        last = result.error();
    }
    last.expect("the result carries it")
}

#[test]
fn predicates_are_one_truth_value() {
    let x = of(&[1.0, 2.0]);
    let choose = |predicate: &Tensor| cond(predicate, |x| x * 2.0, |x| x + 1.0, &x);
    let error = refuses(|| choose(&scalar(1.0)), &["cond", "bool", "f64"]);
    assert!(matches!(error.kind(), ErrorKind::DType(_)));
    let error = refuses(|| choose(&x.gt(0.0)), &["cond", "one element", "[2]"]);
    assert!(matches!(error.kind(), ErrorKind::Shape(_)));
    let go_on = |condition: fn(&Tensor) -> Tensor| while_loop(condition, |x| x * 2.0, &x);
    refuses(|| go_on(|x| x.sum(..)), &["while_loop", "bool", "f64"]);
    refuses(
        || go_on(|x| x.lt(0.0)),
        &["while_loop", "one element", "[2]"],
    );
    refuses(
        || bounded_while_loop(3, |x| x.lt(0.0), |x| x * 2.0, &x),
        &["one element"],
    );
}

#[test]
fn carried_values_keep_shape_and_dtype() {
    let x = of(&[1.0, 2.0]);
    let longer = |x: &Tensor| Tensor::cat(&[x, x], 0);
    let wider = |x: &Tensor| x.to_dtype(DType::F32);
    let parts = ["f64[2]", "f64[4]", "before a step"];
    refuses(|| while_loop(|x| x.sum(..).lt(9.0), longer, &x), &parts);
    refuses(|| scan(|c, _: &Tensor| (longer(c), ()), &x, &x).0, &parts);
    refuses(
        || bounded_while_loop(3, |x| x.sum(..).lt(9.0), longer, &x),
        &["f64[2]", "f64[4]"],
    );
    let parts = ["f64[2]", "f32[2]"];
    let error = refuses(|| while_loop(|x| x.sum(..).lt(9.0), wider, &x), &parts);
    assert!(matches!(error.kind(), ErrorKind::DType(_)));
    // The name says which one.
    let pair = (scalar(1.0), vec![x.clone(), x.clone()]);
    let f = |(a, b): &(Tensor, Vec<Tensor>), _: &Tensor| {
        ((a.clone(), vec![b[0].clone(), longer(&b[1])]), a.clone())
    };
    refuses(|| scan(f, &pair, &x).1, &["1.1", "f64[2]", "f64[4]"]);
    refuses(
        || {
            associative_scan(
                |a: &Tensor, _: &Tensor| a.sum(..),
                &of(&[1.0; 4]).reshape([2, 2]),
            )
        },
        &["f64[2]", "f64[]"],
    );
    let fewer = |x: &Vec<Tensor>| x[1..].to_vec();
    refuses(
        || while_loop(|x| x[0].lt(9.0), fewer, &vec![scalar(0.0); 2])[0].clone(),
        &["structure"],
    );
}

#[test]
fn branches_give_alike_results() {
    let x = of(&[1.0, 2.0]);
    let yes = x.sum(..).gt(0.0);
    let shorter = |x: &Tensor| x.narrow(0, 0, 1);
    refuses(
        || cond(&yes, |x| x * 2.0, shorter, &x),
        &["f64[2]", "f64[1]", "true", "false"],
    );
    refuses(
        || cond(&yes, |x| x * 2.0, |x| x.to_dtype(DType::I32), &x),
        &["f64[2]", "i32[2]"],
    );
    let lists = |n: usize| move |x: &Tensor| vec![x.clone(); n];
    refuses(
        || cond(&yes, lists(1), lists(2), &x)[0].clone(),
        &["structure"],
    );
}

#[test]
fn rows_fit() {
    let x = of(&[1.0, 2.0]);
    refuses(|| map(|x: &Tensor| x * 2.0, &scalar(1.0)), &["map", "0-d"]);
    let pair = (x.clone(), of(&[1.0, 2.0, 3.0]));
    refuses(
        || map(|(a, b): &(Tensor, Tensor)| a + b, &pair),
        &["[2]", "[3]", "rows"],
    );
    refuses(
        || {
            scan(
                |c: &Tensor, _: &Vec<Tensor>| (c.clone(), ()),
                &x,
                &Vec::new(),
            )
            .0
        },
        &["no tensor"],
    );
}

#[test]
fn errors_of_operands_and_bodies_go_on() {
    let bad = of(&[1.0, 2.0]) + of(&[1.0, 2.0, 3.0]);
    let x = of(&[1.0, 2.0]);
    let broken = |x: &Tensor| x.matmul(&of(&[1.0, 2.0, 3.0]));
    refuses(
        || while_loop(|x| x.sum(..).lt(9.0), |x| x * 2.0, &bad),
        &["add", "[2]", "[3]"],
    );
    refuses(
        || while_loop(|x| x.sum(..).lt(9.0), |x| x + &bad, &x),
        &["add", "[2]", "[3]"],
    );
    refuses(|| cond(&bad, |x| x * 2.0, |x| x * 2.0, &x), &["add"]);
    refuses(
        || cond(&x.sum(..).gt(0.0), |x| x.sum(..), broken, &x),
        &["matmul"],
    );
    refuses(|| scan(|c, x| (c + x, broken(c)), &x, &x).1, &["matmul"]);
}

#[test]
fn bodies_read_no_values() {
    let x = of(&[1.0, 2.0]);
    let reads = |x: &Tensor| {
        let sum = (x * 2.0).sum(..).item::<f64>();
        match sum {
            Ok(sum) => x * sum,
            Err(error) => Tensor::failed("reads", error, &[]),
        }
    };
    refuses(|| map(|x: &Tensor| reads(x), &x), &["cannot read values"]);
    refuses(
        || while_loop(|x| x.sum(..).lt(9.0), reads, &x),
        &["cannot read values"],
    );
    // Also where the program goes on without the value.
    let swallows = |x: &Tensor| x * x.sum(..).item::<f64>().unwrap_or(0.5);
    let decides = |x: &Tensor| {
        let least = x.to_vec::<f64>().map_or(0.0, |x| x[0]);
        x.sum(..).lt(least + 9.0)
    };
    let parts = &["cannot read values"];
    let yes = x.sum(..).gt(0.0);
    refuses(|| while_loop(decides, |x| x * 2.0, &x), parts);
    refuses(|| while_loop(|x| x.sum(..).lt(9.0), swallows, &x), parts);
    refuses(|| bounded_while_loop(3, decides, |x| x * 2.0, &x), parts);
    refuses(|| cond(&yes, |x| x * 1.0, swallows, &x), parts);
    refuses(|| scan(|c, x| (c + x, swallows(c)), &x, &x).1, parts);
    refuses(|| map(swallows, &x.reshape([2, 1])), parts);
    // A body within another reads a value of the outer one.
    let nested = |c: &Tensor| {
        let outer = c.clone();
        while_loop(
            |x| x.sum(..).lt(9.0),
            move |x| x + outer.item::<f64>().unwrap_or(1.0),
            c,
        )
    };
    refuses(|| map(nested, &x), parts);
    // What is captured may be read.
    let w = of(&[3.0]);
    let scaled = map(|x: &Tensor| x * w.item::<f64>().unwrap_or(f64::NAN), &x);
    assert_eq!(scaled.to_vec::<f64>().ok(), Some(vec![3.0, 6.0]));
}

#[test]
fn values_of_a_body_are_printed_without_data() {
    let x = of(&[1.0, 2.0]);
    for mode in MODES {
        let mut printed = Vec::new();
        let step = |x: &Tensor| {
            let y = x * 2.0;
            printed.extend([x, &y].map(Tensor::to_string));
            y
        };
        let y = with_mode(mode, || while_loop(|x| x.sum(..).lt(9.0), step, &x));
        assert_eq!(y.to_vec::<f64>().ok(), Some(vec![4.0, 8.0]));
        assert_eq!(printed, ["tensor(<f64[2]>)"; 2]);
    }
}

#[test]
fn values_of_a_body_do_not_leave_it() {
    let x = of(&[1.0, 2.0]);
    let mut left = None;
    let y = map(|x: &Tensor| left.insert(x * 2.0).clone(), &x);
    assert_eq!(y.to_vec::<f64>().ok(), Some(vec![2.0, 4.0]));
    let error = left
        .map(|x| x.to_vec::<f64>())
        .expect("it was set")
        .expect_err("it has no value");
    assert!(error.to_string().contains("returned"), "{error}");
}

#[test]
fn faults_of_a_step_name_the_line() {
    let table = of(&[1.0, 2.0, 3.0]);
    let start = Tensor::from_slice(&[0i64], 1, &cpu());
    let walk = || {
        while_loop(
            |i| i.sum(..).lt(100),
            |i| i + table.index_select(0, i).to_dtype(DType::I64),
            &start,
        )
    };
    refuses(walk, &["index", "3"]);
}
