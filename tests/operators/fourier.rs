//! Fourier transforms in both modes, beside sums by the definition in binary64.

use crate::forms::*;
use ferrotrace::DType::*;
use ferrotrace::jit;
use ferrotrace::prelude::*;
use std::f64::consts::PI;

/// Numbers in (−1, 1) without order, which every dtype of floats holds.
fn noise(n: usize) -> Vec<f64> {
    let number = |i: usize| ((i * i * 37 + i * 101 + 17) % 255) as f64 / 128.0 - 1.0;
    (0..n).map(number).collect()
}

/// The transform of pairs by its definition; `sign` is that of the exponent.
fn defined(x: &[f64], sign: f64) -> Vec<f64> {
    let n = x.len() / 2;
    let mut sums = Vec::with_capacity(2 * n);
    for k in 0..n {
        let (mut re, mut im) = (0.0, 0.0);
        for j in 0..n {
            let (sin, cos) = (sign * 2.0 * PI * (j * k % n) as f64 / n as f64).sin_cos();
            re += x[2 * j] * cos - x[2 * j + 1] * sin;
            im += x[2 * j] * sin + x[2 * j + 1] * cos;
        }
        sums.extend([re, im]);
    }
    sums
}

/// Transforms of rows of `n` pairs.
fn rows(x: &[f64], n: usize, sign: f64) -> Vec<f64> {
    x.chunks(2 * n).flat_map(|row| defined(row, sign)).collect()
}

fn real_as_pairs(x: &[f64]) -> Vec<f64> {
    x.iter().flat_map(|&x| [x, 0.0]).collect()
}

/// How far sums of `n` numbers may be off, in a dtype.
fn slack(dtype: DType, n: usize) -> f64 {
    let sums = match dtype {
        F64 => 1e-15,
        _ => 6e-7,
    };
    (sums * (n as f64).sqrt() * 4.0).max(unit(dtype) * (n as f64).sqrt() * 2.0)
}

/// Lengths that are one product, products of factors, and convolutions: primes beyond 64, and what they divide.
const LENGTHS: [usize; 8] = [1, 2, 5, 64, 67, 134, 256, 1000];

#[test]
fn every_kind_of_length() {
    each(&[F64, F32], true, |dtype| {
        for n in LENGTHS {
            let numbers = noise(4 * n);
            let x = dense(&[2, n, 2], dtype, &numbers);
            let forward = rows(&numbers, n, -1.0);
            near(&x.fft(1), &[2, n, 2], &forward, slack(dtype, n));
            let back: Vec<f64> = rows(&numbers, n, 1.0);
            let back: Vec<f64> = back.iter().map(|x| x / n as f64).collect();
            near(&x.ifft(-1), &[2, n, 2], &back, slack(dtype, 1));
            // Real numbers have half of the frequencies.
            let half = n / 2 + 1;
            let real = &numbers[..2 * n];
            let whole = rows(&real_as_pairs(real), n, -1.0);
            let halves: Vec<f64> = whole
                .chunks(2 * n)
                .flat_map(|row| row[..2 * half].to_vec())
                .collect();
            let x = dense(&[2, n], dtype, real);
            let spectrum = x.rfft(1);
            assert_eq!(spectrum.dtype(), dtype);
            near(&spectrum, &[2, half, 2], &halves, slack(dtype, n));
            near(&spectrum.irfft(n, 1), &[2, n], real, slack(dtype, 1));
        }
    });
}

/// Transposed, broadcast and sliced operands, dimensions in any order, several at once.
#[test]
fn layouts_and_dimensions() {
    each(&FLOATS, true, |dtype| {
        let (a, b, c) = (3, 6, 4);
        let numbers = noise(a * b * c * 2);
        let at =
            |i: usize, j: usize, k: usize, part: usize| numbers[((i * b + j) * c + k) * 2 + part];
        // Along the middle dimension, in binary64.
        let mut middle = vec![0.0; numbers.len()];
        for i in 0..a {
            for k in 0..c {
                let line: Vec<f64> = (0..b)
                    .flat_map(|j| [at(i, j, k, 0), at(i, j, k, 1)])
                    .collect();
                for (j, pair) in defined(&line, -1.0).chunks(2).enumerate() {
                    middle[((i * b + j) * c + k) * 2..][..2].copy_from_slice(pair);
                }
            }
        }
        for x in forms(&[a, b, c, 2], dtype, &numbers) {
            near(&x.fft(1), &[a, b, c, 2], &middle, slack(dtype, b));
            near(&x.fft(-2), &[a, b, c, 2], &middle, slack(dtype, b));
            // Of all dimensions, one after another and in any order.
            let all = x.fft(..);
            let each = x.fft(2).fft(0).fft(1);
            near(
                &all,
                &[a, b, c, 2],
                &values(&each),
                3.0 * slack(dtype, a * b * c),
            );
            let back = all.ifft([2, 0, 1]);
            near(&back, &[a, b, c, 2], &numbers, slack(dtype, a * b * c));
            let real = x.select(-1, 0);
            let back = real.rfft([0, 1, 2]).irfft(c, [0, 1, 2]);
            near(&back, &[a, b, c], &values(&real), slack(dtype, a * b * c));
            // The last dimension named is halved.
            assert_eq!(real.rfft([1, 0]).dims(), [a / 2 + 1, b, c, 2]);
        }
        for dims in [[0, 5, 2], [5, 0, 2]] {
            let x = dense(&dims, dtype, &[]);
            let along = if dims[0] == 0 { 1 } else { 0 };
            assert_eq!(x.fft(along).dims(), dims);
            assert_eq!(x.ifft(along).dims(), dims);
        }
    });
}

#[test]
fn halves_that_do_not_fit() {
    both(|| {
        // PyTorch's, of x = [1 + 5i, 2 − i, −3 + 2i].
        let x = dense(&[3, 2], F64, &[1.0, 5.0, 2.0, -1.0, -3.0, 2.0]);
        near(&x.irfft(1, 0), &[1], &[1.0], 1e-14);
        near(&x.irfft(2, 0), &[2], &[1.5, -0.5], 1e-14);
        near(&x.irfft(4, 0), &[4], &[0.5, 1.5, -1.5, 0.5], 1e-14);
        let longer = [
            -0.16666666666666674,
            0.711324865405187,
            1.1993587371177719,
            -1.5,
            -0.5326920704511052,
            1.2886751345948126,
        ];
        near(&x.irfft(6, 0), &[6], &longer, 1e-14);
    });
}

#[test]
fn frequencies_and_halves_exchanged() {
    each(&FLOATS, true, |dtype| {
        let f = |n| Tensor::fftfreq(n, 0.5, dtype, &cpu());
        equal(&f(1), &[1], &[0.0]);
        equal(&f(4), &[4], &[0.0, 0.5, -1.0, -0.5]);
        near(&f(5), &[5], &[0.0, 0.4, 0.8, -0.8, -0.4], unit(dtype));
        let f = |n| Tensor::rfftfreq(n, 0.25, dtype, &cpu());
        equal(&f(4), &[3], &[0.0, 1.0, 2.0]);
        near(&f(5), &[3], &[0.0, 0.8, 1.6], 2.0 * unit(dtype));
        let x = dense(&[2, 3], dtype, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        let y = x.fftshift(..);
        equal(&y, &[2, 3], &[5.0, 3.0, 4.0, 2.0, 0.0, 1.0]);
        equal(&y.ifftshift(..), &[2, 3], &values(&x));
        equal(&x.fftshift(1), &[2, 3], &[2.0, 0.0, 1.0, 5.0, 3.0, 4.0]);
    });
}

#[test]
fn pairs() {
    each(&FLOATS, true, |dtype| {
        let (a, b) = ([3.0, 4.0, 1.0, -2.0, 0.0, 0.0], [0.5, -2.0]);
        for x in forms(&[3, 2], dtype, &a) {
            let y = dense(&[2], dtype, &b);
            equal(
                &x.complex_mul(&y),
                &[3, 2],
                &[9.5, -4.0, -3.5, -3.0, 0.0, 0.0],
            );
            equal(&x.complex_conj(), &[3, 2], &[3.0, -4.0, 1.0, 2.0, 0.0, 0.0]);
            near(
                &x.complex_abs(),
                &[3],
                &[5.0, 5f64.sqrt(), 0.0],
                3.0 * unit(dtype),
            );
            let angles = [4f64.atan2(3.0), (-2f64).atan2(1.0), 0.0];
            near(&x.complex_angle(), &[3], &angles, 3.0 * unit(dtype));
            let z = Tensor::complex(&x.select(1, 0), &x.select(1, 1));
            equal(&z, &[3, 2], &a);
        }
        let (re, im) = (
            dense(&[2, 1], dtype, &[1.0, 2.0]),
            dense(&[2], dtype, &[3.0, 4.0]),
        );
        let z = Tensor::complex(&re, &im);
        equal(&z, &[2, 2, 2], &[1.0, 3.0, 1.0, 4.0, 2.0, 3.0, 2.0, 4.0]);
    });
}

#[test]
fn magnitudes_at_their_limits() {
    each(&[F64, F32], true, |dtype| {
        let most = if dtype == F64 { 1e300 } else { 1e30 };
        let x = dense(
            &[3, 2],
            dtype,
            &[3.0 * most, 4.0 * most, 0.0, 0.0, 3.0, 4.0],
        );
        let x = x.detach().requires_grad();
        let size = x.complex_abs();
        near(
            &(&size / most).narrow(0, 0, 1),
            &[1],
            &[5.0],
            8.0 * unit(dtype),
        );
        let slope = grad(&size.sum(..), &[&x]).remove(0);
        near(
            &slope,
            &[3, 2],
            &[0.6, 0.8, 0.0, 0.0, 0.6, 0.8],
            8.0 * unit(dtype),
        );
    });
}

/// Spectra of frames by their definition, and back.
#[test]
fn frames() {
    each(&[F64, F32], true, |dtype| {
        let (n, size, hop) = (50, 8, 3);
        let signal = noise(n);
        let window = Tensor::hann_window(size, true, dtype, &cpu());
        let w: Vec<f64> = values(&window);
        let x = dense(&[n], dtype, &signal);
        let spectra = x.stft(size, hop, &window, true);
        let (bins, count) = (size / 2 + 1, n / hop + 1);
        let reflected = |i: isize| {
            let last = n as isize - 1;
            signal[(last - (last - i.abs()).abs()) as usize]
        };
        let mut want = vec![0.0; bins * count * 2];
        for frame in 0..count {
            let start = (frame * hop) as isize - size as isize / 2;
            let samples: Vec<f64> = (0..size)
                .map(|i| reflected(start + i as isize) * w[i])
                .collect();
            let spectrum = defined(&real_as_pairs(&samples), -1.0);
            for bin in 0..bins {
                want[(bin * count + frame) * 2..][..2].copy_from_slice(&spectrum[2 * bin..][..2]);
            }
        }
        near(&spectra, &[bins, count, 2], &want, slack(dtype, size));
        near(
            &spectra.istft(n, size, hop, &window, true),
            &[n],
            &signal,
            slack(dtype, size),
        );
        // A batch, not centred: the first and the last samples stand under no window.
        let batch = x.reshape([2, 25]).stft(size, 1, &window, false);
        assert_eq!(batch.dims(), [2, bins, 18, 2]);
        let back = batch.istft(25, size, 1, &window, false);
        near(
            &back.narrow(1, 1, 23),
            &[2, 23],
            &[&signal[1..24], &signal[26..49]].concat(),
            slack(dtype, size),
        );
        assert!(values(&back)[0].is_nan());
    });
}

/// Tables that a trace made serve other traces and eager mode, and other lengths have their own.
#[test]
fn transforms_in_functions() {
    let spectrum = jit(|x: &Tensor| x.rfft(0).complex_abs().square().sum(..));
    for n in [7, 130, 131, 7, 132] {
        for seed in 0..3 {
            let numbers: Vec<f64> = noise(n + seed)[seed..].to_vec();
            let x = dense(&[n], F64, &numbers);
            let want = with_mode(Mode::Eager, || {
                values(&x.rfft(0).complex_abs().square().sum(..))
            });
            near(&spectrum.call(&x), &[], &want, 1e-12 * want[0]);
        }
    }
    let table = jit(|x: &Tensor| Tensor::complex(&x.unsqueeze(1), x));
    for n in [3, 4, 5, 3] {
        let x = dense(&[n], F64, &noise(n));
        let want = with_mode(Mode::Eager, || {
            values(&Tensor::complex(&x.unsqueeze(1), &x))
        });
        equal(&table.call(&x), &[n, n, 2], &want);
    }
    // Parseval's theorem, differentiated: the gradient of the sum of squares is the signal, twice.
    let x = dense(&[2, 134, 2], F64, &noise(536)).requires_grad();
    let loss = x.fft(1).square().sum(..) * (1.0 / 134.0);
    let gradient = grad(&loss, &[&x]).remove(0);
    let twice: Vec<f64> = values(&x).iter().map(|x| 2.0 * x).collect();
    near(&gradient, &[2, 134, 2], &twice, 1e-12);
}

#[test]
fn refusals() {
    both(|| {
        let x = dense(&[4, 2], F32, &noise(8));
        let real = dense(&[4, 3], F32, &noise(12));
        fails(&real.fft(0), &["fft", "[4, 3]", "rfft"]);
        fails(
            &Tensor::scalar(1.0, F32, &cpu()).ifft(0),
            &["ifft", "pairs"],
        );
        fails(&x.fft(1), &["fft", "1"]);
        fails(&x.fft([0, 0]), &["fft"]);
        fails(&real.rfft(2), &["rfft", "2"]);
        fails(
            &Tensor::scalar(1.0, F32, &cpu()).rfft(..),
            &["rfft", "no dimension"],
        );
        fails(&x.irfft(0, 0), &["irfft", "no numbers"]);
        for n in [usize::MAX, usize::MAX / 2, 1usize << 62] {
            fails(&x.irfft(n, 0), &["irfft"]);
        }
        let wide = Tensor::ones([1, 2], F32, &cpu()).expand([1usize << 58, 2]);
        fails(&wide.fft(0), &["fft"]);
        fails(&wide.select(1, 0).rfft(0), &["rfft"]);
        fails(&real.irfft(4, 0), &["irfft", "[4, 3]"]);
        fails(&dense(&[0, 2], F32, &[]).fft(0), &["fft", "no elements"]);
        fails(&ints(&[1, 2]).rfft(0), &["rfft", "i64", "to_dtype"]);
        fails(&ints(&[1, 2]).fft(0), &["fft", "i64", "to_dtype"]);
        fails(&real.complex_abs(), &["complex_abs", "[4, 3]"]);
        fails(&real.complex_mul(&x), &["complex_mul"]);
        fails(&Tensor::complex(&x, &real), &["complex", "[4, 3]"]);
        fails(&Tensor::fftfreq(0, 1.0, F32, &cpu()), &["fftfreq"]);
        fails(&Tensor::rfftfreq(4, 1.0, I64, &cpu()), &["rfftfreq", "i64"]);
        let window = Tensor::ones(8, F32, &cpu());
        fails(
            &x.select(1, 0).stft(8, 2, &window, true),
            &["stft", "too short"],
        );
        fails(
            &x.select(1, 0).stft(8, 2, &window, false),
            &["stft", "too short"],
        );
        let long = Tensor::ones(30, F32, &cpu());
        fails(&long.stft(8, 0, &window, false), &["stft", "0 apart"]);
        fails(&long.stft(6, 2, &window, false), &["stft", "[8]"]);
        let spectra = long.stft(8, 2, &window, false);
        fails(&spectra.istft(40, 8, 2, &window, false), &["istft", "40"]);
        fails(&spectra.istft(usize::MAX, 8, 2, &window, true), &["istft"]);
        fails(&long.istft(4, 8, 2, &window, false), &["istft", "[30]"]);
    });
}

// Angles of real numbers' spectra depend on the sign of what is zero.
#[test]
fn ends_of_spectra_of_real_numbers_are_real() {
    each(&[F64, F32], true, |dtype| {
        for n in [1, 2, 5, 64, 67, 100, 101, 128, 130, 134, 202, 400, 1000] {
            let numbers = noise(3 * n).iter().map(|x| x - 0.25).collect::<Vec<f64>>();
            for strided in [false, true] {
                let x = match strided {
                    false => dense(&[3, n], dtype, &numbers).rfft(1),
                    true => dense(&[n, 3], dtype, &numbers).rfft(0).transpose(0, 1),
                };
                let imaginary = x.select(-1, 1).to_dtype(F64);
                let mut ends = imaginary.select(1, 0).to_vec::<f64>().unwrap();
                if n % 2 == 0 {
                    ends.extend(imaginary.select(1, n as isize / 2).to_vec::<f64>().unwrap());
                }
                let bits: Vec<u64> = ends.iter().map(|x| x.to_bits()).collect();
                assert!(
                    bits.iter().all(|&x| x == 0),
                    "{n} {dtype} {strided}: {ends:?}"
                );
            }
        }
    });
}
