//! Special functions against numbers of mpmath (of 40 digits), and floats against their bits.

use super::{differentiable, refused};
use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;
use half::{bf16, f16};

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;

/// x, q and ζ(x, q).
const ZETAS: [[f64; 3]; 20] = [
    [1.0009765625, 0.5, 1025.9648322260853],
    [1.5, 1e-08, 1000000000002.6123],
    [2.0, 1.0, 1.6449340668482264],
    [2.0, 0.25, 17.19732915450711],
    [2.0, 1000000.0, 1.0000005000001667e-06],
    [3.0, -0.25, -61.34868339183118],
    [2.0, -7.5, 9.744766282170433],
    [5.0, -3.75, 1020.0663490506142],
    [1.25, 40.5, 1.5905285153993765],
    [10.0, 0.5, 1024.017450355758],
    [30.0, 15.0, 6.116988524700631e-36],
    [30.0, 2.5, 1.1529691685630237e-12],
    [100.0, 50.0, 1.4721503331251701e-170],
    [100.0, 60.25, 1.2531147360977472e-178],
    [250.0, 1.5, 9.488230707657751e-45],
    [5.5, 3.25, 0.0020713245965732585],
    [1.125, 1000000000.0, 0.5999153675034594],
    [40.0, 300.0, 6.747525081692557e-99],
    [3.0, -100.25, -62.01250410345885],
    [12.0, 7.0, 9.184645598948394e-11],
];

/// n, x, and the derivative of order n of digamma.
const POLYGAMMAS: [(i64, f64, f64); 45] = [
    (1, 0.001, 1000001.6425331958),
    (1, 0.5, 4.934802200544679),
    (1, 1.0, 1.6449340668482264),
    (1, 3.25, 0.3597982903095799),
    (1, 20.0, 0.05127082293520312),
    (1, 10000.0, 0.00010000500016666666),
    (1, -0.3125, 13.156556547513613),
    (1, -3.25, 19.474085068082154),
    (1, -20.75, 19.6921586563725),
    (2, 0.001, -2000000002.3976321),
    (2, 0.5, -16.82879664423432),
    (2, 1.0, -2.4041138063191885),
    (2, 3.25, -0.12815694713911513),
    (2, 20.0, -0.0026281224023146548),
    (2, 10000.0, -1.000100005e-08),
    (2, -0.3125, 58.765869516630985),
    (2, -3.25, 123.95521103942203),
    (2, -20.75, -124.02732002961224),
    (3, 0.001, 6000000000006.469),
    (3, 0.5, 97.40909103400244),
    (3, 1.0, 6.493939402266829),
    (3, 3.25, 0.09043335532465574),
    (3, 20.0, 0.0002693742213396389),
    (3, 10000.0, 2.00030002e-12),
    (3, -0.3125, 656.9166501515012),
    (3, -3.25, 1558.508802818279),
    (3, -20.75, 1558.5452483477538),
    (6, 0.001, -7.199999999999998e+23),
    (6, 0.5, -92203.45792380303),
    (6, 1.0, -726.0114797149845),
    (6, 3.25, -0.22644877024324592),
    (6, 20.0, -2.17260735041449e-06),
    (6, 10000.0, -1.2003600419999996e-22),
    (6, -0.3125, 2463963.8887520144),
    (6, -3.25, 11791224.722787982),
    (6, -20.75, -11791224.761241894),
    (12, 0.001, -4.7900159999999986e+47),
    (12, 0.5, -3923983571677.6094),
    (12, 1.0, -479060379.8898314),
    (12, 3.25, -109.61275521521783),
    (12, 20.0, -1.298290151762041e-08),
    (12, 10000.0, -3.9940755269183816e-41),
    (12, -0.3125, 1767141497375554.8),
    (12, -3.25, 3.2145233093874116e+16),
    (12, -20.75, -3.214523309387412e+16),
];

/// a, x, and the lower and the upper incomplete Γ function over Γ(a).
const GAMMAS: [[f64; 4]; 32] = [
    [1e-06, 0.001, 0.9999936684798586, 6.33152014144515e-06],
    [0.001, 0.5, 0.9994399333435292, 0.0005600666564707498],
    [0.001, 2.0, 0.999951023082169, 4.897691783098148e-05],
    [0.25, 0.25, 0.7436779447314611, 0.25632205526853896],
    [0.25, 0.9990234375, 0.931979694478054, 0.06802030552194606],
    [0.25, 1.0, 0.9320788679898911, 0.06792113201010881],
    [0.5, 0.03125, 0.19741265136584746, 0.8025873486341526],
    [0.5, 30.0, 0.9999999999999906, 9.485737571073848e-15],
    [0.75, 0.75, 0.651592519499689, 0.348407480500311],
    [1.0, 1.0, 0.6321205588285577, 0.36787944117144233],
    [1.5, 0.125, 0.03085959578372673, 0.9691404042162732],
    [2.5, 2.5, 0.5841198130044921, 0.41588018699550794],
    [2.5, 60.0, 1.0, 3.138579772755296e-24],
    [8.0, 2.0, 0.0010967189678587027, 0.9989032810321413],
    [9.5, 9.0, 0.4775617260137371, 0.522438273986263],
    [12.0, 0.0009765625, 1.56917747686021e-45, 1.0],
    [12.0, 11.5, 0.48020190637605786, 0.5197980936239421],
    [12.0, 40.0, 0.9999999391579728, 6.084202717664e-08],
    [27.0, 1.0, 3.503455087916701e-29, 1.0],
    [100.0, 50.0, 3.200065324585125e-10, 0.9999999996799934],
    [100.0, 99.0, 0.473304330399461, 0.526695669600539],
    [100.0, 101.0, 0.5528962934345113, 0.44710370656548876],
    [100.0, 250.0, 1.0, 1.1737017704487874e-27],
    [1000.0, 1000.0, 0.5042052441802155, 0.4957947558197845],
    [1000.0, 700.0, 1.0158583345333217e-26, 1.0],
    [1000.0, 1450.0, 1.0, 2.399298399835456e-36],
    [3000.0, 1500.0, 3.2720081472102296e-254, 1.0],
    [20000.0, 20500.0, 0.9997749719643576, 0.0002250280356423413],
    [100000.0, 99000.0, 0.0007574199211747679, 0.9992425800788253],
    [
        100000.0,
        101000.0,
        0.9991915784870744,
        0.0008084215129255907,
    ],
    [0.125, 650.0, 1.0, 2.342512875880174e-286],
    [700.0, 0.75, 0.0, 1.0],
];

fn column<const N: usize>(table: &[[f64; N]], k: usize) -> Tensor {
    let numbers: Vec<f64> = table.iter().map(|row| row[k]).collect();
    dense(&[table.len()], F64, &numbers)
}

/// Errors relative to each number; what is less than binary64's least normal number counts as 0.
#[track_caller]
fn close(found: &Tensor, want: &Tensor, tolerance: f64) {
    for (i, (a, b)) in values(found).iter().zip(values(want)).enumerate() {
        let near = *a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= tolerance * b.abs();
        assert!(near || b.abs() < 1e-300, "{i}: {a} for {b}");
    }
}

/// A function of two comes out in binary64, and narrower as rounded from there.
#[track_caller]
fn of_two(f: impl Fn(&Tensor, &Tensor) -> Tensor, of: [&Tensor; 2], want: &Tensor, tolerance: f64) {
    both(|| {
        close(&f(of[0], of[1]), want, tolerance);
        for (dtype, bound) in [(F32, 1e-6), (F16, 2e-3), (BF16, 8e-3)] {
            let [a, b] = of.map(|x| x.to_dtype(dtype));
            let found = f(&a, &b);
            assert_eq!(found.dtype(), dtype);
            let want = f(&a.to_dtype(F64), &b.to_dtype(F64)).to_dtype(dtype);
            close(&found, &want, bound);
        }
    });
}

#[test]
fn zeta_functions() {
    let [x, q, want] = [0, 1, 2].map(|k| column(&ZETAS, k));
    of_two(|x, q| x.zeta(q), [&x, &q], &want, 1e-12);
    both(|| {
        let x = dense(&[8], F64, &[1.0, 0.5, 2.0, 2.0, 2.5, 2.0, NAN, 2.0]);
        let q = dense(&[8], F64, &[3.0, 3.0, 0.0, -4.0, -0.5, INF, 1.0, NAN]);
        let want = [INF, NAN, INF, INF, NAN, 0.0, NAN, NAN];
        equal(&x.zeta(&q), &[8], &want);
        for (n, x, want) in POLYGAMMAS {
            let found = dense(&[], F64, &[x]).polygamma(n);
            assert_eq!(found.rank(), 0);
            close(&found, &dense(&[], F64, &[want]), 2e-12);
        }
        let x = dense(&[4], F32, &[0.0, -2.0, INF, NAN]);
        equal(&x.polygamma(1), &[4], &[INF, INF, 0.0, NAN]);
        equal(&x.polygamma(2), &[4], &[-INF, -INF, 0.0, NAN]);
        close(&x.polygamma(0), &x.digamma(), 0.0);
        assert_eq!(ints(&[2, 3]).polygamma(1).dtype(), F32);
        assert_eq!(ints(&[2, 3]).zeta(2).dtype(), F32);
        let empty = Tensor::zeros([0, 2], F32, &cpu());
        assert_eq!(empty.polygamma(3).dims(), [0, 2]);
        assert_eq!(empty.zeta(&dense(&[1], F32, &[2.0])).dims(), [0, 2]);
        refused(&x.polygamma(-1), "polygamma", &["-1"]);
        let wrong = Tensor::ones([3], F64, &cpu());
        refused(&x.zeta(&wrong), "zeta", &[]);
        refused(&x.gammainc(&wrong), "gammainc", &[]);
        refused(&x.gammaincc(&wrong), "gammaincc", &[]);
    });
}

#[test]
fn incomplete_gamma_functions() {
    let [a, x, lower, upper] = [0, 1, 2, 3].map(|k| column(&GAMMAS, k));
    of_two(|a, x| a.gammainc(x), [&a, &x], &lower, 1e-12);
    of_two(|a, x| a.gammaincc(x), [&a, &x], &upper, 1e-12);
    both(|| {
        let a = dense(&[9], F64, &[0.0, 0.0, 2.0, 2.0, INF, INF, -1.0, 2.0, NAN]);
        let x = dense(&[9], F64, &[1.0, 0.0, 0.0, INF, 1.0, INF, 1.0, -1.0, 1.0]);
        let want = [1.0, NAN, 0.0, 1.0, 0.0, NAN, NAN, NAN, NAN];
        equal(&a.gammainc(&x), &[9], &want);
        let want = want.map(|y| 1.0 - y);
        equal(&a.gammaincc(&x), &[9], &want);
        // Both broadcast, and results have all dimensions.
        let (a, x) = (
            dense(&[2, 1], F32, &[1.0, 2.0]),
            dense(&[3], F32, &[0.5, 1.0, 4.0]),
        );
        assert_eq!(a.gammainc(&x).dims(), [2, 3]);
        let sum = a.gammainc(&x) + a.gammaincc(&x);
        near(&sum, &[2, 3], &[1.0; 6], 1e-6);
        assert_eq!(a.narrow(0, 0, 0).gammainc(&x).dims(), [0, 3]);
        assert_eq!(dense(&[], F64, &[2.0]).gammaincc(1.0).rank(), 0);
    });
}

#[test]
fn gradients_of_special_functions() {
    let q = dense(&[2, 3], F64, &[0.75, 1.5, 4.0, 12.0, 0.5, 2.25]);
    let x = dense(&[3], F64, &[1.5, 3.0, 6.5]);
    differentiable(std::slice::from_ref(&q), &|of| of[0].polygamma(2));
    differentiable(std::slice::from_ref(&q), &|of| {
        dense(&[3], of[0].dtype(), &[2.0, 3.0, 2.5]).zeta(&of[0])
    });
    differentiable(&[x], &|of| of[0].zeta(1.5));
    differentiable(std::slice::from_ref(&q), &|of| {
        dense(&[3], of[0].dtype(), &[0.5, 2.0, 9.0]).gammainc(&of[0])
    });
    differentiable(&[q], &|of| {
        dense(&[3], of[0].dtype(), &[0.5, 2.0, 9.0]).gammaincc(&of[0])
    });
    // The second derivative by x, (a − 1 − x)·xᵃ⁻²e⁻ˣ / Γ(a), and none by a.
    both(|| {
        let [a, x] = [3.0, 2.0].map(|v| dense(&[], F64, &[v]).requires_grad());
        let first = grad(&a.gammainc(&x), &[&a, &x]);
        let second = grad(&first[1], &[&x]).remove(0);
        near(&first[0], &[], &[0.0], 0.0);
        near(&first[1], &[], &[2.0 * (-2f64).exp()], 1e-12);
        near(&second, &[], &[0.0], 1e-12);
    });
}

/// Numbers of every magnitude, and those next to powers of 2.
fn samples() -> Vec<f64> {
    let mut x = vec![
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.1,
        3.5,
        -1234.567,
        INF,
        -INF,
        f64::MAX,
        f64::MIN,
    ];
    for e in [
        -1074, -1073, -1060, -1022, -1021, -1020, -970, -500, -149, -133, -126, -24, -14, 0, 1, 52,
        53, 127, 1023,
    ] {
        let power = 2f64.powi(e.max(-1022)) * 2f64.powi((e + 1022).min(0));
        x.extend([
            power,
            -power,
            power.next_up(),
            power.next_down(),
            power * 1.75,
        ]);
    }
    x
}

/// The neighbour of a half-precision number by its bits.
fn by_bits(bits: u16, up: bool) -> u16 {
    match (bits & 0x7fff, (bits & 0x8000 == 0) == up) {
        (0, _) => {
            if up {
                1
            } else {
                0x8001
            }
        }
        (_, true) => bits + 1,
        (_, false) => bits - 1,
    }
}

#[test]
fn neighbours() {
    both(|| {
        for up in [true, false] {
            let to = if up { INF } else { -INF };
            let x: Vec<f64> = samples();
            let want: Vec<f64> = x
                .iter()
                .map(|x| {
                    if *x == to {
                        *x
                    } else if up {
                        x.next_up()
                    } else {
                        x.next_down()
                    }
                })
                .collect();
            let found = dense(&[x.len()], F64, &x)
                .nextafter(to)
                .to_vec::<f64>()
                .unwrap();
            assert_eq!(found, want);
            let x: Vec<f32> = x.iter().map(|x| *x as f32).collect();
            let want: Vec<f32> = x
                .iter()
                .map(|x| {
                    if f64::from(*x) == to {
                        *x
                    } else if up {
                        x.next_up()
                    } else {
                        x.next_down()
                    }
                })
                .collect();
            let found = Tensor::from_slice(&x, x.len(), &cpu())
                .nextafter(to)
                .to_vec::<f32>()
                .unwrap();
            assert_eq!(found, want);
            // All finite numbers of both half-precision formats.
            let all: Vec<u16> = (0..=u16::MAX).collect();
            let halves: Vec<f16> = all
                .iter()
                .map(|b| f16::from_bits(*b))
                .filter(|x| x.is_finite())
                .collect();
            let found = Tensor::from_slice(&halves, halves.len(), &cpu())
                .nextafter(to)
                .to_vec::<f16>()
                .unwrap();
            for (x, y) in halves.iter().zip(found) {
                assert_eq!(y, f16::from_bits(by_bits(x.to_bits(), up)), "{x}");
            }
            let halves: Vec<bf16> = all
                .iter()
                .map(|b| bf16::from_bits(*b))
                .filter(|x| x.is_finite())
                .collect();
            let found = Tensor::from_slice(&halves, halves.len(), &cpu())
                .nextafter(to)
                .to_vec::<bf16>()
                .unwrap();
            for (x, y) in halves.iter().zip(found) {
                assert_eq!(y, bf16::from_bits(by_bits(x.to_bits(), up)), "{x}");
            }
        }
        let x = dense(&[4], F64, &[1.0, 1.0, NAN, 0.0]);
        let y = x.nextafter(&dense(&[4], F64, &[1.0, NAN, 1.0, -0.0]));
        equal(&y, &[4], &[1.0, NAN, NAN, 0.0]);
        equal(&y.signbit().narrow(0, 3, 1), &[1], &[1.0]);
        let wide = dense(&[2, 1], F32, &[1.0, 2.0]).nextafter(&dense(&[3], F64, &[0.0, 1.0, 2.0]));
        assert_eq!((wide.dims(), wide.dtype()), (&[2, 3][..], F64));
        assert_eq!(x.narrow(0, 0, 0).nextafter(1.0).dims(), [0]);
        refused(&ints(&[1]).nextafter(2), "nextafter", &["i64"]);
    });
}

#[test]
fn mantissas_and_exponents() {
    both(|| {
        let mut x = samples();
        x.push(NAN);
        let (mantissa, exponent) = dense(&[x.len()], F64, &x).frexp();
        assert_eq!((mantissa.dtype(), exponent.dtype()), (F64, I32));
        let (mantissas, exponents) = (values(&mantissa), exponent.to_vec::<i32>().unwrap());
        for ((x, m), e) in x.iter().zip(mantissas).zip(exponents) {
            if *x == 0.0 || !x.is_finite() {
                assert!(m.to_bits() == x.to_bits() || x.is_nan(), "{x}: {m}");
                assert_eq!(e, 0, "{x}");
                continue;
            }
            assert!((0.5..1.0).contains(&m.abs()), "{x}: {m} {e}");
            // In two steps, of which the first is exact.
            let half = e / 2;
            assert_eq!(m * 2f64.powi(half) * 2f64.powi(e - half), *x, "{m} {e}");
        }
        let least = Tensor::from_slice(&[f32::from_bits(1), -6.0], 2, &cpu());
        let (mantissa, exponent) = least.frexp();
        equal(&mantissa, &[2], &[0.5, -0.75]);
        equal(&exponent, &[2], &[-148.0, 3.0]);
        let (mantissa, exponent) = dense(&[], BF16, &[96.0]).frexp();
        assert_eq!((mantissa.dtype(), mantissa.rank()), (BF16, 0));
        equal(&mantissa, &[], &[0.75]);
        equal(&exponent, &[], &[7.0]);
        assert_eq!(least.narrow(0, 0, 0).frexp().1.dims(), [0]);
        refused(&ints(&[1]).frexp().0, "frexp", &["i64"]);
    });
    let x = dense(&[3], F64, &[0.75, -5.0, 100.0]);
    differentiable(&[x], &|of| of[0].frexp().0);
}
