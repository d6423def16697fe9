//! Products of given ranks, powers in binary64, operators of bits, and sums of iterators.

use super::{apart, differentiable, refused, slopes};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

#[test]
fn products_of_given_ranks() {
    let (a, b, v) = (whole(24, 5), whole(24, 3), whole(4, 4));
    each(&NUMBERS, false, |dtype| {
        let other = dense(&[2, 4, 3], dtype, &b);
        let vector = dense(&[4], dtype, &v);
        for x in forms(&[2, 3, 4], dtype, &a) {
            let mut want = vec![0.0; 18];
            for (k, want) in want.iter_mut().enumerate() {
                let (n, i, j) = (k / 9, k / 3 % 3, k % 3);
                let terms = (0..4).map(|l| a[n * 12 + i * 4 + l] * b[n * 12 + l * 3 + j]);
                *want = terms.sum();
            }
            let y = x.bmm(&other);
            assert_eq!(y.dtype(), dtype);
            equal(&y, &[2, 3, 3], &want);
            equal(&x.at(1).mm(&other.at(1)), &[3, 3], &want[9..]);
            let dot = |row: usize| (0..4).map(|l| a[row * 4 + l] * v[l]).sum::<f64>();
            equal(&x.at(0).mv(&vector), &[3], &[dot(0), dot(1), dot(2)]);
            equal(&x.at((1, 2)).vdot(&vector), &[], &[dot(5)]);
        }
    });
    both(|| {
        let (x, v) = (
            Tensor::ones([2, 2], F32, &cpu()),
            Tensor::ones(2, F32, &cpu()),
        );
        let batch = Tensor::ones([2, 2, 2], F32, &cpu());
        refused(&x.mv(&x), "mv", &["[2, 2]"]);
        refused(&v.mv(&v), "mv", &["[2, 1]"]);
        refused(&x.mv(&Tensor::ones(3, F32, &cpu())), "mv", &["3"]);
        refused(&x.mm(&v), "mm", &["[2]"]);
        refused(&x.bmm(&x), "bmm", &["[3, 3]"]);
        refused(&batch.bmm(&batch.narrow(0, 0, 1)), "bmm", &["[1, 2, 2]"]);
        refused(&batch.bmm(&batch.narrow(1, 0, 1)), "bmm", &[]);
        refused(&v.vdot(&x), "vdot", &["[2, 2]"]);
        refused(&x.mm(&x.mv(&x)), "mv", &[]);
        let none = Tensor::zeros([0, 2], F32, &cpu());
        equal(&none.mv(&v), &[0], &[]);
        equal(&none.t().mv(&none.at((.., 0))), &[2], &[0.0, 0.0]);
    });
    let x = dense(&[2, 3, 4], F64, &apart(24));
    let y = dense(&[2, 4, 1], F64, &apart(32)[24..]);
    differentiable(&[x.clone(), y], &|v| v[0].bmm(&v[1]));
    let v = dense(&[4], F64, &apart(4));
    differentiable(&[x.at(0), v.clone()], &|v| v[0].mv(&v[1]));
    differentiable(&[v.clone(), v], &|v| v[0].vdot(&v[1]).square());
}

#[test]
fn powers_in_binary64() {
    let (a, b) = (whole(6, 4), [2.0, -1.0, 0.5]);
    each(&NUMBERS, false, |dtype| {
        for x in forms(&[2, 3], dtype, &a) {
            for power in [-2.0, 0.0, 0.5, 3.0] {
                let want: Vec<f64> = a.iter().map(|x| x.powf(power)).collect();
                let y = x.float_power(power);
                assert_eq!(y.dtype(), F64);
                near(&y, &[2, 3], &want, 1e-14);
                near(
                    &x.float_power(dense(&[], F32, &[power])),
                    &[2, 3],
                    &want,
                    1e-14,
                );
            }
            let want: Vec<f64> = (0..6).map(|i| a[i].powf(b[i % 3])).collect();
            near(&x.float_power(&dense(&[3], F32, &b)), &[2, 3], &want, 1e-14);
        }
    });
    both(|| {
        let x = ints(&[3, 10]);
        near(
            &x.float_power(ints(&[-1, 20])),
            &[2],
            &[1.0 / 3.0, 1e20],
            1e-14,
        );
        near(&x.float_power(-1), &[2], &[1.0 / 3.0, 0.1], 1e-14);
        equal(&x.gt(5).float_power(2), &[2], &[0.0, 1.0]);
        // 3²⁰⁰ is beyond binary32.
        let far = dense(&[1], F32, &[3.0]).float_power(200);
        near(&far, &[1], &[3f64.powi(200)], 1e-13);
        equal(
            &Tensor::zeros([0, 2], BF16, &cpu()).float_power(2),
            &[0, 2],
            &[],
        );
        refused(
            &x.float_power(&ints(&[1, 2, 3])),
            "float_power",
            &["[2]", "[3]"],
        );
        let lost = x.matmul(&ints(&[1, 2, 3]));
        refused(&x.float_power(&lost), "matmul", &[]);
        refused(&lost.float_power(2), "matmul", &[]);
    });
    let x = dense(&[3], F64, &[0.5, 1.25, 2.0]);
    differentiable(&[x.clone(), x.clone()], &|v| v[0].float_power(&v[1]));
    differentiable(&[x], &|v| v[0].float_power(1.5).to_dtype(v[0].dtype()));
}

#[test]
fn bits() {
    let (a, b) = (whole(12, 100), whole(4, 7));
    let each_pair = |f: &dyn Fn(i64, i64) -> i64| -> Vec<f64> {
        (0..12)
            .map(|i| f(a[i] as i64, b[i % 4] as i64) as f64)
            .collect()
    };
    let wrapped = |f: &dyn Fn(i64, i64) -> i64, dtype: DType| -> Vec<f64> {
        let x = Tensor::from_slice(&each_pair(f), [3, 4], &cpu());
        values(&x.to_dtype(I64).to_dtype(dtype))
    };
    each(&INTS, true, |dtype| {
        let y = dense(&[4], dtype, &b);
        for x in forms(&[3, 4], dtype, &a) {
            let check = |z: Tensor, f: &dyn Fn(i64, i64) -> i64| {
                assert_eq!(z.dtype(), dtype);
                equal(&z, &[3, 4], &wrapped(f, dtype));
            };
            check(&x & &y, &|x, y| x & y);
            check(&x | y.clone(), &|x, y| x | y);
            check(x.clone() ^ &y, &|x, y| x ^ y);
            check(x.clone() << y.clone(), &|x, y| x << y);
            check(&x >> &y, &|x, y| x >> y);
            check(&x & 6, &|x, _| x & 6);
            check(&x | 1u8, &|x, _| x | 1);
            check(&x ^ 3i64, &|x, _| x ^ 3);
            check(&x << 1, &|x, _| x << 1);
            check(&x >> 2, &|x, _| x >> 2);
            check(6 & &x, &|x, _| 6 & x);
            check(64 | x.clone(), &|x, _| 64 | x);
            check(3 ^ &x, &|x, _| 3 ^ x);
            check(Scalar::from(5) & &x, &|x, _| 5 & x);
            check(1 << (&y + x.zeros_like()), &|_, y| 1 << y);
            check(64 >> (&y + x.zeros_like()), &|_, y| 64 >> y);
            let mut z = x.clone();
            z &= &y;
            z |= 8;
            z ^= y.clone();
            z <<= 1;
            z >>= &y;
            let bits = |x: i64, y: i64| ((((x & y) | 8) ^ y) << 1) >> y;
            check(z, &bits);
            assert_eq!(values(&x), a);
        }
    });
    both(|| {
        let (x, y) = (ints(&[1, 1, 0, 0]).ne(0), ints(&[1, 0, 1, 0]).ne(0));
        for z in [&x & &y, &x | &y, &x ^ &y, &x & true, false ^ &x, true | &x] {
            assert_eq!(z.dtype(), Bool);
        }
        equal(&(&x & &y), &[4], &[1.0, 0.0, 0.0, 0.0]);
        equal(&(&x | &y), &[4], &[1.0, 1.0, 1.0, 0.0]);
        equal(&(&x ^ &y), &[4], &[0.0, 1.0, 1.0, 0.0]);
        equal(&(!&x & &y), &[4], &[0.0, 0.0, 1.0, 0.0]);
        equal(&(true ^ &x), &[4], &[0.0, 0.0, 1.0, 1.0]);
        let mut z = x.clone();
        z &= &y;
        equal(&z, &[4], &[1.0, 0.0, 0.0, 0.0]);
        let wide = &x & ints(&[3]);
        assert_eq!(wide.dtype(), I64);
        equal(&wide, &[4], &[1.0, 1.0, 0.0, 0.0]);
        let float = Tensor::ones(4, F32, &cpu());
        refused(&(&float & 1), "bitwise_and", &["f32"]);
        refused(&(&x | &float), "bitwise_or", &["f32"]);
        refused(&(1 ^ &float), "bitwise_xor", &["f32"]);
        refused(&(&float << 1), "shl", &["f32"]);
        refused(&(&float >> 1), "shr", &["f32"]);
        refused(
            &(ints(&[1, 2]) & ints(&[1, 2, 3])),
            "bitwise_and",
            &["[2]", "[3]"],
        );
        let mut z = x.clone();
        z |= ints(&[2]);
        assert!(z.error().is_some());
    });
}

#[test]
fn sums_of_iterators() {
    each(&NUMBERS, false, |dtype| {
        let x: Vec<Tensor> = (0..4).map(|i| Tensor::full(2, i, dtype, &cpu())).collect();
        for sum in [x.iter().sum::<Tensor>(), x.clone().into_iter().sum()] {
            assert_eq!(sum.dtype(), dtype);
            equal(&sum, &[2], &[6.0, 6.0]);
        }
    });
    both(|| {
        for none in [
            [].iter().sum::<Tensor>(),
            Vec::<Tensor>::new().into_iter().sum(),
        ] {
            assert_eq!((none.dtype(), none.device()), (F32, cpu()));
            equal(&none, &[], &[0.0]);
        }
        let x = [dense(&[2, 1], F32, &[1.0, 2.0]), ints(&[10, 20])];
        let sum: Tensor = x.iter().sum();
        assert_eq!(sum.dtype(), F32);
        equal(&sum, &[2, 2], &[11.0, 21.0, 12.0, 22.0]);
        equal(&x[1..].iter().sum::<Tensor>(), &[2], &[10.0, 20.0]);
        let squares = x.iter().map(|x| x.square());
        equal(
            &squares.sum::<Tensor>(),
            &[2, 2],
            &[101.0, 401.0, 104.0, 404.0],
        );
        let wrong = [ints(&[1, 2]), ints(&[1, 2, 3]), ints(&[1])];
        let error = wrong.iter().sum::<Tensor>().error().map(|e| e.to_string());
        assert!(error.is_some_and(|e| e.contains("[2]") && e.contains("[3]")));
    });
    slopes(
        &[dense(&[2], F64, &[1.0, 2.0]), dense(&[1], F64, &[3.0])],
        |v: &[Tensor]| v.iter().map(|x| x.square()).sum(),
        &[&[1.25, 1.5], &[6.0]],
    );
}
