//! Slices of several dimensions, joins, and what reads, writes, searches and counts by position, against references
//! worked out in the test, in both modes.
#![allow(clippy::reversed_empty_ranges)]

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use ferrotrace::{ReduceOp, eval};

/// Python's `range(*slice(start, end, step).indices(n))`.
fn python(n: usize, start: Option<isize>, end: Option<isize>, step: isize) -> Vec<usize> {
    let n = n as isize;
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let place = |i: isize| if i < 0 { (i + n).max(low) } else { i.min(high) };
    let mut at = start.map_or(if step > 0 { 0 } else { n - 1 }, place);
    let end = end.map_or(if step > 0 { n } else { -1 }, place);
    let mut taken = Vec::new();
    while if step > 0 { at < end } else { at > end } {
        taken.push(at as usize);
        at += step;
    }
    taken
}

#[test]
fn every_slice_of_a_dimension_is_pythons() {
    let ends: Vec<Option<isize>> = (-6..=6).map(Some).chain([None]).collect();
    let n = 5;
    with_mode(Mode::Eager, || {
        let x = Tensor::arange(0, n as i64, 1, I64, &cpu());
        for &start in &ends {
            for &end in &ends {
                for step in [1, 2, 7, -1, -3] {
                    let taken: Vec<f64> = python(n, start, end, step)
                        .iter()
                        .map(|&i| i as f64)
                        .collect();
                    let slice = Slice::Range { start, end, step };
                    equal(&x.at(slice), &[taken.len()], &taken);
                    let mut written: Vec<f64> = (0..n).map(|i| i as f64).collect();
                    let src: Vec<f64> = (0..taken.len()).map(|i| 10.0 + i as f64).collect();
                    for (at, v) in taken.iter().zip(&src) {
                        written[*at as usize] = *v;
                    }
                    equal(
                        &x.assign(slice, dense(&[src.len()], I64, &src)),
                        &[n],
                        &written,
                    );
                }
            }
        }
    });
}

#[test]
fn slices_of_several_dimensions() {
    let dims = [3, 4, 5];
    let numbers = whole(60, 2);
    let rows = |d: usize, s: (Option<isize>, Option<isize>, isize)| python(dims[d], s.0, s.1, s.2);
    let picks = [
        rows(0, (None, None, -1)),
        rows(1, (Some(1), Some(-1), 1)),
        vec![3],
    ];
    let at: Vec<usize> = picks[0]
        .iter()
        .flat_map(|i| picks[1].iter().map(move |j| (i * 4 + j) * 5 + 3))
        .collect();
    both(|| {
        for dtype in ALL {
            for x in forms(&dims, dtype, &numbers) {
                let part = x.at(((..).by(-1), 1..-1, 3));
                assert_eq!(part.dtype(), dtype);
                let expected: Vec<f64> = at.iter().map(|&i| numbers[i]).collect();
                equal(&part, &[3, 2], &expected);
                let src = dense(&[3, 2], dtype, &whole(6, 2));
                let mut written = numbers.clone();
                for (k, &i) in at.iter().enumerate() {
                    written[i] = whole(6, 2)[k];
                }
                let y = x.assign(((..).by(-1), 1..-1, 3), &src);
                assert_eq!(y.dtype(), dtype);
                equal(&y, &dims, &written);
                equal(&x, &dims, &numbers);
            }
        }
    });
}

#[test]
fn forms_of_slices() {
    both(|| {
        let x = Tensor::arange(0, 24, 1, F32, &cpu()).reshape((2, 3, 4));
        let n = 3usize;
        assert_eq!(x.at(0).dims(), [3, 4]);
        assert_eq!(x.at((.., n - 1)).dims(), [2, 4]);
        assert_eq!(x.at([1, -1]).dims(), [4]);
        equal(&x.at((1, 2, 3)), &[], &[23.0]);
        equal(&x.at((0, 0, 1..=2)), &[2], &[1.0, 2.0]);
        equal(&x.at((0, 0, ..=-2)), &[3], &[0.0, 1.0, 2.0]);
        equal(&x.at((0, 0, ..=-1)), &[4], &[0.0, 1.0, 2.0, 3.0]);
        equal(&x.at((0, 0, -2..)), &[2], &[2.0, 3.0]);
        equal(&x.at((0, 0, ..1i64)), &[1], &[0.0]);
        assert_eq!(x.at((Slice::Rest, 0)).dims(), [2, 3]);
        assert_eq!(x.at((0, Slice::Rest)).dims(), [3, 4]);
        assert_eq!(x.at((0, Slice::Rest, 1, 2)).dims(), [0usize; 0]);
        assert_eq!(x.at(vec![Slice::Index(0); 2]).dims(), [4]);
        assert_eq!(x.at(()).dims(), [2, 3, 4]);
        assert_eq!(x.at((3..1, 100.., ..)).dims(), [0, 0, 4]);
        assert_eq!(x.at(0..i64::MAX).dims(), [2, 3, 4]);
        assert_eq!(x.at((.., 0..usize::MAX)).dims(), [2, 3, 4]);
        equal(&Tensor::scalar(3, I8, &cpu()).at(()), &[], &[3.0]);
        fails(&x.at(2), &["at", "index 2"]);
        fails(&x.at((0, 0, 0, 0)), &["at", "4 slices", "rank 3"]);
        fails(&x.at((Slice::Rest, 0, Slice::Rest)), &["at", "once"]);
        fails(&x.at((..).by(0)), &["at", "step"]);
        fails(&Tensor::scalar(3, I8, &cpu()).at(0), &["at"]);
    });
}

#[test]
fn what_is_assigned_broadcasts_and_converts() {
    both(|| {
        let x = Tensor::zeros((2, 3), F32, &cpu());
        equal(
            &x.assign((.., 1), 2),
            &[2, 3],
            &[0.0, 2.0, 0.0, 0.0, 2.0, 0.0],
        );
        let column = ints(&[1, 2]);
        equal(
            &x.assign((.., -1), &column),
            &[2, 3],
            &[0.0, 0.0, 1.0, 0.0, 0.0, 2.0],
        );
        let row = ints(&[5, 6, 7]);
        equal(&x.assign(1, &row), &[2, 3], &[0.0, 0.0, 0.0, 5.0, 6.0, 7.0]);
        equal(
            &x.assign(.., &row),
            &[2, 3],
            &[5.0, 6.0, 7.0, 5.0, 6.0, 7.0],
        );
        equal(&x.assign((), 1.5), &[2, 3], &[1.5; 6]);
        equal(&x.assign((1..1, ..), 4), &[2, 3], &[0.0; 6]);
        let cube = Tensor::zeros((2, 3, 2), I64, &cpu());
        // The source's dimensions are those that stay: the first and the last.
        let src = ints(&[1, 2, 3, 4]).reshape((2, 2));
        let expected = [0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0];
        equal(&cube.assign((.., 1, ..), &src), &[2, 3, 2], &expected);
        let expected = [0.0, 0.0, 7.0, 8.0, 0.0, 0.0, 0.0, 0.0, 7.0, 8.0, 0.0, 0.0];
        equal(&cube.assign((.., 1), &ints(&[7, 8])), &[2, 3, 2], &expected);
        let number = Tensor::scalar(1, I64, &cpu());
        equal(&number.assign((), 9), &[], &[9.0]);
        let empty = Tensor::zeros((0, 3), F32, &cpu());
        equal(&empty.assign((.., 1), 1), &[0, 3], &[]);
        fails(&empty.assign((0, 1), 1), &["assign", "index 0"]);
        fails(&cube.assign(0, 1.5), &["assign", "f32", "i64"]);
        fails(&cube.assign(0, &x), &["assign"]);
        fails(&x.assign((0, 0), &row), &["assign", "[3]"]);
        fails(&x.assign((.., 3), 0), &["assign", "index 3"]);
        equal(
            &x.slice_assign(1, 0, isize::MAX, 2, 8),
            &[2, 3],
            &[8.0, 0.0, 8.0, 8.0, 0.0, 8.0],
        );
        equal(
            &x.select_assign(0, -1, 3.0),
            &[2, 3],
            &[0.0, 0.0, 0.0, 3.0, 3.0, 3.0],
        );
        equal(
            &x.select_assign(-1, 0, &column),
            &[2, 3],
            &[1.0, 0.0, 0.0, 2.0, 0.0, 0.0],
        );
        fails(&x.select_assign(0, 2, 1), &["select_assign", "index 2"]);
        fails(&x.select_assign(2, 0, 1), &["select_assign", "dimension 2"]);
        fails(&x.slice_assign(0, 0, 1, 1, &cube), &["slice_assign"]);
    });
}

#[test]
fn assignment_within_jit_follows_sizes() {
    let edge = jit(|x: &Tensor| x.assign((1..-1, -1), 0).assign(0, &x.at(-1)));
    for n in [3usize, 5, 4] {
        let numbers = whole(n * n, 17);
        let mut expected = numbers.clone();
        (1..n - 1).for_each(|i| expected[i * n + n - 1] = 0.0);
        expected.copy_within(n * (n - 1).., 0);
        expected[..n].copy_from_slice(&numbers[n * (n - 1)..]);
        let x = dense(&[n, n], F32, &numbers);
        both(|| equal(&edge.call(&x), &[n, n], &expected));
    }
    let third = jit(|x: &Tensor| x.assign(3, 1));
    assert!(third.call(&dense(&[4], F32, &[0.0; 4])).error().is_none());
    assert!(third.call(&dense(&[3], F32, &[0.0; 3])).error().is_some());
}

#[test]
fn lists_of_tensors() {
    both(|| {
        let (a, b) = (ints(&[1]) + 0, ints(&[2]) + 0);
        let owned = vec![a.clone(), b.clone()];
        let two = |x: Tensor| equal(&x, &[2], &[1.0, 2.0]);
        two(Tensor::cat(&[&a, &b], 0));
        two(Tensor::cat(&owned, 0));
        two(Tensor::cat(&owned[..], 0));
        two(Tensor::cat([a.clone(), b.clone()], 0));
        two(Tensor::cat(&[a.clone(), b.clone()], 0));
        two(Tensor::cat(owned.clone(), -1));
        two(Tensor::cat(owned.iter().collect::<Vec<_>>(), 0));
        two(Tensor::stack(&owned, 0).flatten(0, 1));
        two(Tensor::stack(vec![&a, &b], 1).flatten(0, 1));
        let (c, d) = (&a + 1, &b + 1);
        eval(&[&a, &b]).unwrap();
        eval([&a, &b]).unwrap();
        eval(&[c.clone(), d.clone()]).unwrap();
        eval(&owned).unwrap();
        eval(owned.clone()).unwrap();
        eval(owned.iter().map(|x| x + 1)).unwrap();
        let bad = a.reshape((2, 2));
        assert!(eval(&[&a, &bad]).is_err());
        fails(&Tensor::cat(Vec::<Tensor>::new(), 0), &["cat"]);
    });
}

#[test]
fn shapes_and_dimensions_as_tuples() {
    both(|| {
        let rows = 2usize;
        let x = Tensor::arange(0, 12, 1, F32, &cpu()).reshape((rows, -1));
        assert_eq!(x.dims(), [2, 6]);
        assert_eq!(Tensor::zeros((1, 2, 3), F32, &cpu()).dims(), [1, 2, 3]);
        assert_eq!(Tensor::zeros((4,), F32, &cpu()).dims(), [4]);
        assert_eq!(x.unsqueeze(0).expand((3, -1, -1)).dims(), [3, 2, 6]);
        equal(&x.sum((0, -1)), &[], &[66.0]);
        assert_eq!(x.permute((1, 0)).dims(), [6, 2]);
        // No dimensions are all of them where something is reduced, as in PyTorch.
        let none: [usize; 0] = [];
        equal(&x.mean(()), &[], &[5.5]);
        equal(&x.mean(none), &[], &[5.5]);
        equal(&x.sum_keepdim(Vec::<isize>::new()), &[1, 1], &[66.0]);
        near(&x.var(none, 0), &[], &[143.0 / 12.0], 1e-6);
        equal(&x.norm(1.0, none), &[], &[66.0]);
        assert_eq!(x.gt(3).any(none).dims(), [2, 6]);
        assert_eq!(x.flip(none).dims(), [2, 6]);
    });
}

#[test]
fn reading_what_memory_looks_like() {
    both(|| {
        let x = dense(&[2, 3], F32, &whole(6, 9));
        x.eval().unwrap();
        assert_eq!(x.strides().unwrap(), [3, 1]);
        assert_eq!(x.t().strides().unwrap(), [1, 3]);
        assert_eq!(x.at((.., (..).by(2))).strides().unwrap(), [3, 2]);
        assert!(x.is_contiguous() && !x.t().is_contiguous() && x.t().contiguous().is_contiguous());
        let y = &x + 1;
        let strides = y.strides().unwrap();
        assert_eq!(y.is_contiguous(), strides == [3, 1]);
        // Dense, too, where what is made dense is not computed yet, and where the result is a view of it.
        let pending = || (&x + 1).t().contiguous();
        assert!(pending().is_contiguous() && pending().unsqueeze(0).is_contiguous());
        let traced = jit(|x: &Tensor| (x.t().contiguous(), x.flip(0).contiguous()));
        let (turned, flipped) = traced.call(&x);
        assert!(turned.is_contiguous() && flipped.is_contiguous());
        equal(&turned, &[3, 2], &x.t().to_dtype(F64).to_vec().unwrap());
        assert_eq!(
            Tensor::scalar(1, F32, &cpu()).strides().unwrap(),
            [0isize; 0]
        );
        let bad = x.reshape(7);
        assert!(bad.strides().is_err() && !bad.is_contiguous());
    });
}

#[test]
fn one_element_of_any_dtype() {
    both(|| {
        for dtype in ALL {
            let x = dense(&[1, 1], dtype, &[1.0]);
            assert_eq!(x.item::<f64>().unwrap(), 1.0);
            assert_eq!(x.item::<i32>().unwrap(), 1);
            assert!(x.item::<bool>().unwrap());
        }
        let x = Tensor::scalar(-2.75, F32, &cpu());
        assert_eq!(
            (x.item::<i64>().unwrap(), x.item::<f32>().unwrap()),
            (-2, -2.75)
        );
        assert!(ints(&[1, 2]).item::<i64>().is_err());
        assert!(x.reshape(3).item::<f32>().is_err());
    });
}

#[test]
fn elements_along_a_dimension() {
    both(|| {
        for dtype in ALL {
            for x in forms(
                &[2, 3],
                dtype,
                &[3.0, 1.0, 2.0, 9.0, 7.0, 8.0].map(|v| v % 2.0),
            ) {
                let found = x.take_along_dim(&ints(&[2, 0, 1]).reshape((1, 3)), 1);
                equal(&found, &[2, 3], &[0.0, 1.0, 1.0, 0.0, 1.0, 1.0]);
            }
        }
        let x = dense(&[1, 3], F32, &[4.0, 5.0, 6.0]);
        let at = ints(&[0, 2, -1, 1]).reshape((2, 2));
        equal(&x.take_along_dim(&at, -1), &[2, 2], &[4.0, 6.0, 6.0, 5.0]);
        let number = Tensor::scalar(2.0, F32, &cpu());
        equal(
            &number.take_along_dim(&Tensor::scalar(0, I64, &cpu()), 0),
            &[],
            &[2.0],
        );
        let none = Tensor::zeros((2, 0), I64, &cpu());
        equal(&x.take_along_dim(&none, 1), &[2, 0], &[]);
        fails(
            &x.take_along_dim(&ints(&[0]), 0),
            &["take_along_dim", "rank"],
        );
        fails(
            &x.take_along_dim(&at.to_dtype(F32), 1),
            &["take_along_dim", "f32"],
        );
        let apart = Tensor::zeros((2, 3), F32, &cpu());
        fails(
            &apart.take_along_dim(&Tensor::zeros((3, 1), I64, &cpu()), 1),
            &["broadcast"],
        );
        assert!(
            x.take_along_dim(&ints(&[3]).reshape((1, 1)), 1)
                .eval()
                .is_err()
        );
    });
}

/// A 0-d tensor, index or source stands for a row of one element, as in PyTorch.
#[test]
fn numbers_among_rows() {
    each(&ALL, true, |dtype| {
        let line = dense(&[3], dtype, &[0.0, 1.0, 1.0]);
        let (number, row) = (Tensor::scalar(1, dtype, &cpu()), dense(&[1], dtype, &[1.0]));
        let (at, places) = (Tensor::scalar(0, I64, &cpu()), ints(&[0, 0]));
        equal(
            &line.gather(0, &Tensor::scalar(-1, I64, &cpu())),
            &[],
            &[1.0],
        );
        equal(&number.gather(-1, &places), &[2], &[1.0, 1.0]);
        equal(&number.gather(0, &at), &[], &[1.0]);
        for src in [&number, &row, &line.narrow(0, 1, 2)] {
            equal(&line.scatter(0, &at, src), &[3], &[1.0, 1.0, 1.0]);
            equal(&line.scatter_add(0, &at, src), &[3], &[1.0, 1.0, 1.0]);
            let greatest = line.scatter_reduce(0, &ints(&[0]), src, ReduceOp::Amax, true);
            equal(&greatest, &[3], &[1.0, 1.0, 1.0]);
        }
        equal(&number.scatter(0, &ints(&[0]), &line), &[], &[0.0]);
        fails(
            &line.gather(0, &places.reshape((1, 2))),
            &["gather", "rank"],
        );
        fails(
            &line.scatter(0, &ints(&[0, 1]), &number),
            &["scatter", "source"],
        );
        assert!(
            line.gather(0, &Tensor::scalar(3, I64, &cpu()))
                .eval()
                .is_err()
        );
    });
}

#[test]
fn slices_added_at_positions() {
    both(|| {
        for dtype in NUMBERS {
            for x in forms(&[3, 2], dtype, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]) {
                for src in forms(&[4, 2], dtype, &whole(8, 5)) {
                    let mut expected = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
                    for (i, to) in [2, 0, 2, 2].into_iter().enumerate() {
                        expected[to * 2] += whole(8, 5)[i * 2];
                        expected[to * 2 + 1] += whole(8, 5)[i * 2 + 1];
                    }
                    let sum = x.index_add(0, &ints(&[2, 0, 2, -1]), &src);
                    assert_eq!(sum.dtype(), dtype);
                    equal(&sum, &[3, 2], &expected);
                    let turned = x.t().index_add(-1, &ints(&[2, 0, 2, -1]), &src.t());
                    equal(&turned.t(), &[3, 2], &expected);
                }
            }
        }
        let number = Tensor::scalar(1.0, F32, &cpu());
        equal(&number.index_add(0, &ints(&[0]), &number), &[], &[2.0]);
        let x = Tensor::zeros((3, 2), F32, &cpu());
        let none = Tensor::zeros((0, 2), F32, &cpu());
        equal(&x.index_add(0, &ints(&[]), &none), &[3, 2], &[0.0; 6]);
        let row = Tensor::ones((1, 2), F32, &cpu());
        let single = Tensor::scalar(1, I64, &cpu());
        equal(
            &x.index_add(0, &single, &row),
            &[3, 2],
            &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0],
        );
        fails(
            &x.index_add(0, &ints(&[0, 1]), &row),
            &["index_add", "[2, 2]"],
        );
        fails(
            &x.index_add(0, &ints(&[0]), &row.to_dtype(F64)),
            &["index_add", "to_dtype(DType::F32)"],
        );
        fails(&x.index_add(0, &row, &row), &["index_add"]);
        assert!(x.index_add(0, &ints(&[3]), &row).eval().is_err());
    });
}

#[test]
fn repetition() {
    both(|| {
        for dtype in ALL {
            for x in forms(&[2, 2], dtype, &[1.0, 0.0, 0.0, 1.0]) {
                let twice = x.repeat_interleave(2, 0);
                assert_eq!(twice.dtype(), dtype);
                equal(&twice, &[4, 2], &[1.0, 0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
                let uneven = x.repeat_interleave(&ints(&[0, 3]), -1);
                equal(&uneven, &[2, 3], &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
            }
        }
        let x = ints(&[4, 5]);
        equal(&x.repeat_interleave(0, 0), &[0], &[]);
        equal(
            &x.repeat_interleave(&ints(&[2]), 0),
            &[4],
            &[4.0, 4.0, 5.0, 5.0],
        );
        equal(
            &Tensor::scalar(3, I64, &cpu()).repeat_interleave(2, 0),
            &[2],
            &[3.0, 3.0],
        );
        equal(&ints(&[]).repeat_interleave(3, 0), &[0], &[]);
        fails(&x.repeat_interleave(-1, 0), &["repeat_interleave", "-1"]);
        fails(&x.repeat_interleave(1.5, 0), &["repeat_interleave", "1.5"]);
        fails(
            &x.repeat_interleave(&ints(&[1, -2]), 0),
            &["repeat_interleave", "-2"],
        );
        fails(
            &x.repeat_interleave(&ints(&[1, 2, 3]), 0),
            &["repeat_interleave", "[3]"],
        );
        fails(&x.repeat_interleave(usize::MAX, 0), &["repeat_interleave"]);
    });
}

#[test]
fn grids() {
    both(|| {
        let (a, b, c) = (
            ints(&[1, 2]),
            ints(&[3, 4, 5]),
            Tensor::scalar(9, I64, &cpu()),
        );
        let grid = Tensor::meshgrid(&[&a, &b, &c]);
        equal(&grid[0], &[2, 3, 1], &[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
        equal(&grid[1], &[2, 3, 1], &[3.0, 4.0, 5.0, 3.0, 4.0, 5.0]);
        equal(&grid[2], &[2, 3, 1], &[9.0; 6]);
        let grid = Tensor::meshgrid_xy(vec![a.clone(), b.clone()]);
        equal(&grid[0], &[3, 2], &[1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
        equal(&grid[1], &[3, 2], &[3.0, 3.0, 4.0, 4.0, 5.0, 5.0]);
        assert_eq!(Tensor::meshgrid(&[&a, &ints(&[])])[0].dims(), [2, 0]);
        equal(&Tensor::meshgrid_xy(&[&a])[0], &[2], &[1.0, 2.0]);
        fails(
            &Tensor::meshgrid(&[&a, &b.to_dtype(F32)])[0],
            &["meshgrid", "to_dtype(DType::I64)"],
        );
        fails(
            &Tensor::meshgrid(&[a.reshape((1, 2))])[0],
            &["meshgrid", "[1, 2]"],
        );
    });
}

/// The number of elements below a value, or not above it.
fn place(sorted: &[f64], v: f64, right: bool) -> f64 {
    let below = |x: &&f64| if right { **x <= v } else { **x < v };
    sorted.iter().filter(below).count() as f64
}

#[test]
fn places_in_sorted_sequences() {
    for dtype in NUMBERS {
        for len in [1usize, 2, 3, 7, 8, 9, 20] {
            let mut sorted = whole(len, 13);
            sorted.sort_by(f64::total_cmp);
            let wanted = whole(15, 16);
            both(|| {
                for x in forms(&[len], dtype, &sorted) {
                    let v = dense(&[3, 5], dtype, &wanted);
                    for right in [false, true] {
                        let expected: Vec<f64> =
                            wanted.iter().map(|&v| place(&sorted, v, right)).collect();
                        let found = x.searchsorted(&v, right);
                        assert_eq!(found.dtype(), I64);
                        equal(&found, &[3, 5], &expected);
                    }
                }
            });
        }
    }
    both(|| {
        let rows = dense(&[2, 3], F32, &[1.0, 3.0, 5.0, 2.0, 2.0, 8.0]);
        let v = dense(&[2, 2], F32, &[3.0, 9.0, 2.0, -1.0]);
        equal(
            &rows.searchsorted(&v, false),
            &[2, 2],
            &[1.0, 3.0, 0.0, 0.0],
        );
        equal(&rows.searchsorted(&v, true), &[2, 2], &[2.0, 3.0, 2.0, 0.0]);
        let x = dense(&[4], F32, &[0.0, 1.0, 2.0, 3.0]);
        equal(&x.searchsorted(1.5, false), &[], &[2.0]);
        let odd = dense(&[3], F32, &[f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        equal(&x.searchsorted(&odd, false), &[3], &[4.0, 4.0, 0.0]);
        let none = Tensor::zeros(0, F32, &cpu());
        equal(&none.searchsorted(&odd, true), &[3], &[0.0; 3]);
        equal(&x.searchsorted(&none, true), &[0], &[]);
        fails(
            &x.searchsorted(&ints(&[1]), false),
            &["searchsorted", "to_dtype(DType::F32)"],
        );
        fails(&rows.searchsorted(&odd, false), &["searchsorted", "[2, 3]"]);
        fails(
            &Tensor::scalar(1.0, F32, &cpu()).searchsorted(1.0, false),
            &["searchsorted"],
        );
        fails(&ints(&[1]).searchsorted(1.5, false), &["searchsorted"]);
    });
}

#[test]
fn occurrences_of_numbers() {
    both(|| {
        for dtype in INTS {
            let numbers = whole(40, 6);
            for x in forms(&[40], dtype, &numbers) {
                let mut expected = vec![0.0; 6];
                numbers.iter().for_each(|&v| expected[v as usize] += 1.0);
                let counts = x.bincount(None, 0);
                assert_eq!(counts.dtype(), I64);
                equal(&counts, &[6], &expected);
                let weights = dense(&[40], F64, &eighths(40));
                let mut sums = vec![0.0; 8];
                let pairs = numbers.iter().zip(eighths(40));
                pairs.for_each(|(&v, w)| sums[v as usize] += w);
                equal(&x.bincount(Some(&weights), 8), &[8], &sums);
                assert_eq!(x.bincount(Some(&weights.to_dtype(F16)), 0).dtype(), F64);
                assert_eq!(x.bincount(Some(&weights.to_dtype(F32)), 0).dtype(), F32);
            }
        }
        equal(&ints(&[]).bincount(None, 2), &[2], &[0.0, 0.0]);
        fails(&ints(&[1, -1]).bincount(None, 0), &["bincount", "-1"]);
        fails(
            &ints(&[1]).reshape((1, 1)).bincount(None, 0),
            &["bincount", "[1, 1]"],
        );
        fails(
            &dense(&[1], F32, &[1.0]).bincount(None, 0),
            &["bincount", "to_dtype(DType::I64)"],
        );
        fails(
            &ints(&[1, 2]).bincount(Some(&ints(&[1])), 0),
            &["bincount", "weights [1]"],
        );
    });
}

#[test]
fn histograms() {
    both(|| {
        for dtype in FLOATS {
            let numbers = eighths(60);
            for x in forms(&[6, 10], dtype, &numbers) {
                let mut expected = [0.0; 7];
                // Edges at whole quarters are the same in every dtype.
                let (low, width) = (-1.0, 0.25);
                for v in &numbers {
                    let at = (v - low) / width;
                    if (0.0..=7.0).contains(&at) {
                        expected[(at as usize).min(6)] += 1.0;
                    }
                }
                let (counts, edges) = x.histogram(7, Some((-1.0, 0.75)));
                assert_eq!((counts.dtype(), edges.dtype()), (dtype, dtype));
                equal(&counts, &[7], &expected);
                let line: Vec<f64> = (0..=7).map(|i| low + width * i as f64).collect();
                equal(&edges, &[8], &line);
                equal(&x.histogram(3, None).0.sum(..), &[], &[60.0]);
            }
        }
        let x = dense(&[4], F32, &[2.0, f64::NAN, 2.0, 9.0]);
        equal(&x.histogram(2, Some((2.0, 2.0))).0, &[2], &[0.0, 2.0]);
        let same = dense(&[2], F32, &[5.0, 5.0]);
        equal(&same.histogram(2, None).1, &[3], &[4.5, 5.0, 5.5]);
        let none = Tensor::zeros(0, F32, &cpu());
        equal(&none.histogram(2, Some((0.0, 1.0))).0, &[2], &[0.0, 0.0]);
        fails(&x.histogram(2, None).0, &["histogram", "NaN"]);
        fails(&x.histogram(0, None).0, &["histogram", "0 bins"]);
        fails(&x.histogram(1, Some((1.0, 0.0))).1, &["histogram", "range"]);
        fails(
            &ints(&[1]).histogram(1, None).0,
            &["histogram", "to_dtype(DType::F32)"],
        );
    });
}

#[test]
fn values_without_repetition() {
    both(|| {
        for dtype in ALL {
            let numbers: Vec<f64> = whole(30, if dtype == Bool { 2 } else { 11 });
            let mut expected = numbers.clone();
            expected.sort_by(f64::total_cmp);
            expected.dedup();
            for x in forms(&[5, 6], dtype, &numbers) {
                equal(&x.unique(), &[expected.len()], &expected);
                let (found, inverse, counts) = x.unique_with_counts();
                assert_eq!(
                    (found.dtype(), inverse.dtype(), counts.dtype()),
                    (dtype, I64, I64)
                );
                equal(&found, &[expected.len()], &expected);
                let at = |v: &f64| expected.iter().position(|e| e == v).unwrap() as f64;
                equal(
                    &inverse,
                    &[5, 6],
                    &numbers.iter().map(at).collect::<Vec<_>>(),
                );
                let count = |e: &f64| numbers.iter().filter(|v| *v == e).count() as f64;
                equal(
                    &counts,
                    &[expected.len()],
                    &expected.iter().map(count).collect::<Vec<_>>(),
                );
            }
        }
        let odd = dense(&[4], F32, &[f64::NAN, 1.0, f64::NAN, f64::NEG_INFINITY]);
        equal(
            &odd.unique(),
            &[4],
            &[f64::NEG_INFINITY, 1.0, f64::NAN, f64::NAN],
        );
        equal(&ints(&[]).unique(), &[0], &[]);
        equal(&ints(&[]).unique_with_counts().1, &[0], &[]);
        equal(
            &Tensor::scalar(4, I64, &cpu()).unique_with_counts().0,
            &[1],
            &[4.0],
        );
        assert_eq!(
            Tensor::scalar(4, I64, &cpu()).unique_with_counts().1.rank(),
            0
        );
        assert!(odd.reshape(3).unique().error().is_some());
    });
}

#[test]
fn diagonals_and_traces() {
    both(|| {
        for dtype in ALL {
            for x in forms(&[2, 3], dtype, &[1.0, 0.0, 1.0, 1.0, 1.0, 0.0]) {
                equal(&x.trace(), &[], &[2.0]);
                let result = if dtype.is_float() { dtype } else { I64 };
                assert_eq!(x.trace().dtype(), result);
                equal(&x.diag(1), &[2], &[0.0, 0.0]);
            }
            for x in forms(&[2], dtype, &[1.0, 1.0]) {
                assert_eq!(x.diag(0).dtype(), dtype);
                equal(&x.diag(0), &[2, 2], &[1.0, 0.0, 0.0, 1.0]);
                equal(
                    &x.diag(1),
                    &[3, 3],
                    &[0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0],
                );
                equal(
                    &x.diag(-1),
                    &[3, 3],
                    &[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
                );
            }
        }
        equal(&ints(&[]).diag(0), &[0, 0], &[]);
        equal(&ints(&[]).diag(-2), &[2, 2], &[0.0; 4]);
        equal(&Tensor::zeros((0, 3), F32, &cpu()).trace(), &[], &[0.0]);
        fails(&ints(&[1]).trace(), &["trace"]);
        fails(&Tensor::scalar(1, I64, &cpu()).diag(0), &["diag"]);
        fails(&ints(&[1]).diag(isize::MAX), &["diag", "memory"]);
        equal(
            &Tensor::eye((2, 3), I8, &cpu()),
            &[2, 3],
            &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0],
        );
        equal(&Tensor::eye([2, 1], Bool, &cpu()), &[2, 1], &[1.0, 0.0]);
        equal(&Tensor::eye((0, 2), F32, &cpu()), &[0, 2], &[]);
        fails(&Tensor::eye((), F32, &cpu()), &["eye"]);
        fails(&Tensor::eye((1, 2, 3), F32, &cpu()), &["eye", "[1, 2, 3]"]);
    });
}

#[test]
fn slices_without_repetition() {
    both(|| {
        for dtype in [F32, BF16, I64, Bool] {
            let numbers = whole(4 * 3 * 5, 2);
            for x in forms(&[4, 3, 5], dtype, &numbers) {
                for (dim, n) in [(0, 4), (1, 3), (2, 5)] {
                    // The last slice is as the first.
                    let (x, n) = (Tensor::cat(&[&x, &x.narrow(dim, 0, 1)], dim), n + 1);
                    let all: Vec<Vec<f64>> = (0..n)
                        .map(|i| values(&x.narrow(dim, i as isize, 1)))
                        .collect();
                    let mut expected = all.clone();
                    expected.sort_by(|a, b| a.partial_cmp(b).expect("no NaN"));
                    expected.dedup();
                    let (found, inverse, counts) = x.unique_dim_with_counts(dim);
                    assert_eq!(
                        (found.dtype(), inverse.dtype(), counts.dtype()),
                        (dtype, I64, I64)
                    );
                    equal(
                        &x.unique_dim(dim as isize - 3),
                        found.shape(),
                        &values(&found),
                    );
                    assert_eq!(found.shape()[dim], expected.len());
                    for (i, of) in expected.iter().enumerate() {
                        assert_eq!(
                            &values(&found.narrow(dim, i as isize, 1)),
                            of,
                            "{dtype} {dim}"
                        );
                        let count = all.iter().filter(|one| *one == of).count();
                        assert_eq!(values(&counts)[i], count as f64);
                    }
                    for (j, &number) in values(&inverse).iter().enumerate() {
                        assert_eq!(expected[number as usize], all[j]);
                    }
                }
            }
        }
        // Elements of a slice are compared in the order of the other dimensions.
        let crossed = dense(&[2, 2, 2], F32, &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0]);
        let (found, inverse, _) = crossed.unique_dim_with_counts(2);
        equal(&found, &[2, 2, 2], &values(&crossed));
        equal(&inverse, &[2], &[0.0, 1.0]);
        let nan = f64::NAN;
        let odd = dense(&[4, 2], F32, &[1.0, nan, 1.0, nan, nan, 0.0, -1.0, 5.0]);
        let (found, inverse, counts) = odd.unique_dim_with_counts(0);
        equal(&found, &[4, 2], &[-1.0, 5.0, 1.0, nan, 1.0, nan, nan, 0.0]);
        equal(&inverse, &[4], &[1.0, 2.0, 3.0, 0.0]);
        equal(&counts, &[4], &[1.0; 4]);
        equal(&dense(&[0, 3], F32, &[]).unique_dim(0), &[0, 3], &[]);
        equal(&dense(&[3, 0], F32, &[]).unique_dim(1), &[3, 0], &[]);
        fails(
            &dense(&[3, 0], F32, &[]).unique_dim(0),
            &["unique_dim", "no elements"],
        );
        fails(&ints(&[1]).unique_dim(1), &["unique_dim", "dimension 1"]);
        fails(
            &Tensor::scalar(4, I64, &cpu()).unique_dim(0),
            &["unique_dim"],
        );
    });
}
