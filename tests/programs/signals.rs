//! Signals and images.

use crate::check::{Program, noise};
use crate::expected::*;
use ferrotrace::DType::*;
use ferrotrace::prelude::*;

/// The Fourier transform of a power of two of numbers, real and imaginary, by Stockham's radix 2, and a quarter of them.
fn fourier(s: Vec<Tensor>) -> Vec<Tensor> {
    let n = s[0].numel();
    let (mut re, mut im) = (s[0].reshape([n, 1]), s[1].reshape([n, 1]));
    let mut done = 1;
    while done < n {
        let half = n / done / 2;
        let halves = |x: &Tensor| (x.narrow(0, 0, half), x.narrow(0, half as isize, half));
        let ((er, or), (ei, oi)) = (halves(&re), halves(&im));
        let angle = Tensor::arange(0, done as i64, 1, F64, &Device::cpu());
        let angle = angle * (-std::f64::consts::PI / done as f64);
        let (cos, sin) = (angle.cos(), angle.sin());
        let (tr, ti) = (&or * &cos - &oi * &sin, &or * &sin + &oi * &cos);
        re = Tensor::cat([&er + &tr, &er - &tr], 1);
        im = Tensor::cat([&ei + &ti, &ei - &ti], 1);
        done *= 2;
    }
    let scale = 1.0 / (n as f64).sqrt();
    let mixed = |x: &Tensor, old: &Tensor| x.reshape(n) * scale + old * 0.25;
    vec![mixed(&re, &s[0]), mixed(&im, &s[1])]
}

#[test]
fn fourier_transform() {
    Program {
        state: || vec![noise(&[128], 0), noise(&[128], 1)],
        step: fourier,
        steps: 8,
        expected: FOURIER,
        tolerance: 1e-12,
    }
    .check();
}

/// A spectrum multiplied by i times real numbers.
fn times_i(f: &Tensor, k: &Tensor) -> Tensor {
    Tensor::complex(&(-(f.select(-1, 1) * k)), &(f.select(-1, 0) * k))
}

/// A step of two-dimensional flow: vorticity carried along in space, of spectra of which the highest third is left out, and
/// diffused implicitly.
fn vortices(s: Vec<Tensor>) -> Vec<Tensor> {
    let (n, m) = (s[0].dims()[0], s[0].dims()[1]);
    let cpu = Device::cpu();
    let kx = Tensor::fftfreq(n, 1.0 / n as f64, F64, &cpu).unsqueeze(1);
    let ky = Tensor::rfftfreq(m, 1.0 / m as f64, F64, &cpu);
    let k2 = kx.square() + ky.square();
    let f = s[0].rfft([0, 1]);
    let psi = &f / k2.gt(0).where_cond(&k2, 1.0).unsqueeze(-1);
    let along = |f: &Tensor, k: &Tensor| times_i(f, k).irfft(m, [0, 1]);
    let moved = along(&psi, &ky) * along(&f, &kx) - along(&psi, &kx) * along(&f, &ky);
    let kept = kx
        .abs()
        .lt(n as f64 / 3.0)
        .logical_and(&ky.lt(m as f64 / 3.0));
    let moved = moved.rfft([0, 1]) * kept.to_dtype(F64).unsqueeze(-1) * 0.02;
    let next = (f - moved) / (k2 * 2e-4 + 1.0).unsqueeze(-1);
    vec![next.irfft(m, [0, 1])]
}

#[test]
fn spectral_flow() {
    Program {
        state: || vec![noise(&[24, 20], 0) * 3.0],
        step: vortices,
        steps: 12,
        expected: VORTICES,
        tolerance: 1e-10,
    }
    .check();
}

/// A layer of a Fourier neural operator, trained: weights of low frequencies and of the signal itself.
fn fourier_layer(s: Vec<Tensor>) -> Vec<Tensor> {
    let (w, v) = (s[0].detach().requires_grad(), s[1].detach().requires_grad());
    let (x, y) = (&s[2], &s[3]);
    let (n, kept) = (x.dims()[1], w.dims()[0]);
    let low = x.rfft(1).narrow(1, 0, kept);
    let smooth = low.complex_mul(&w).irfft(n, 1);
    let loss = (smooth + &v * x).tanh().mse_loss(y);
    let gradients = grad(&loss, &[&w, &v]);
    let moved = |w: &Tensor, g: &Tensor| w.detach() - g * 0.5;
    let next = vec![moved(&w, &gradients[0]), moved(&v, &gradients[1])];
    next.into_iter().chain([x.clone(), y.clone()]).collect()
}

#[test]
fn fourier_operator() {
    Program {
        state: || {
            let weights = [noise(&[5, 2], 1) * 0.5, noise(&[1], 2)];
            let data = [noise(&[6, 15], 3), noise(&[6, 15], 4) * 0.4];
            weights.into_iter().chain(data).collect()
        },
        step: fourier_layer,
        steps: 16,
        expected: FOURIER_LAYER,
        tolerance: 1e-12,
    }
    .check();
}

/// Noise taken out of a signal: what is faint in its spectra.
fn denoised(s: Vec<Tensor>) -> Vec<Tensor> {
    let x = &s[0];
    let window = Tensor::hann_window(16, true, F64, &Device::cpu());
    let spectra = x.stft(16, 4, &window, true);
    let gain = (1.0 - 0.5 / (spectra.complex_abs() + 1e-3)).clamp_min(0);
    let y = (spectra * gain.unsqueeze(-1)).istft(x.numel(), 16, 4, &window, true);
    vec![y.roll(5, 0) + x * 0.1]
}

#[test]
fn noise_gate() {
    Program {
        state: || vec![noise(&[60], 0)],
        step: denoised,
        steps: 8,
        expected: DENOISED,
        tolerance: 1e-12,
    }
    .check();
}

/// The histogram of an image of bytes, made even; the image moves on.
fn equalise(s: Vec<Tensor>) -> Vec<Tensor> {
    let flat = s[0].flatten(0, 1).to_dtype(I64);
    let below = flat.one_hot(256).sum(0).cumsum(0);
    let least = below.gt(0).where_cond(&below, flat.numel() as i64).min(0);
    let spread = flat.numel() as i64 - &least;
    let table = ((below - &least) * 255).floor_divide(&spread).clamp(0, 255);
    let even = table.to_dtype(U8).index_select(0, &flat);
    let even = even.reshape([s[0].dims()[0], s[0].dims()[1]]).roll(3, 1);
    vec![(even.to_dtype(F32) * 0.75 + 20.0).floor().to_dtype(U8)]
}

#[test]
fn histogram_equalisation() {
    Program {
        state: || vec![(noise(&[24, 30], 0) * 20.0 + 100.0).floor().to_dtype(U8)],
        step: equalise,
        steps: 8,
        expected: EQUALISE,
        tolerance: 1e-14,
    }
    .check();
}

/// A recursive filter along the rows of a signal, forwards and backwards.
fn filter(s: Vec<Tensor>) -> Vec<Tensor> {
    let x = &s[0];
    let rows = x.dims()[0] as isize;
    let mut y = x.clone();
    for i in 1..rows {
        y = y.assign(i, &(x.at(i) * 0.3 + y.at(i - 1) * 0.7));
    }
    let mut z = y.clone();
    for i in (0..rows - 1).rev() {
        z = z.assign(i, &(y.at(i) * 0.3 + z.at(i + 1) * 0.7));
    }
    vec![z]
}

#[test]
fn recursive_filter() {
    Program {
        state: || vec![noise(&[20, 16], 0)],
        step: filter,
        steps: 8,
        expected: FILTER,
        tolerance: 1e-12,
    }
    .check();
}

/// Haar's wavelets of a square, level by level.
fn wavelets(s: Vec<Tensor>) -> Vec<Tensor> {
    let mut x = s[0].clone();
    let mut n = x.dims()[0] as isize;
    while n > 4 {
        let mut part = x.at((0..n, 0..n));
        for dim in [1, 0] {
            let (even, odd) = (
                part.slice(dim, 0, isize::MAX, 2),
                part.slice(dim, 1, isize::MAX, 2),
            );
            part = Tensor::cat([(&even + &odd) * 0.5, (&even - &odd) * 0.5], dim);
        }
        x = x.assign((0..n, 0..n), &part);
        n /= 2;
    }
    vec![x.t() + &s[0] * 0.5]
}

#[test]
fn wavelet_transform() {
    Program {
        state: || vec![noise(&[32, 32], 0)],
        step: wavelets,
        steps: 8,
        expected: WAVELETS,
        tolerance: 1e-12,
    }
    .check();
}

/// Le Gall's wavelets by lifting, small coefficients made zero, and back: elements at even and odd places are interleaved,
/// at last over the whole signal.
fn lifting(s: Vec<Tensor>) -> Vec<Tensor> {
    let mut x = s[0].clone();
    let n = x.dims()[1] as isize;
    let sizes = [n, n / 2, n / 4];
    for n in sizes {
        let (even, odd) = (x.at((.., (0..n).by(2))), x.at((.., (1..n).by(2))));
        let detail = &odd - (&even + even.roll(-1, 1)) * 0.5;
        let smooth = &even + (&detail + detail.roll(1, 1)) * 0.25;
        x = x
            .assign((.., 0..n / 2), &smooth)
            .assign((.., n / 2..n), &detail);
    }
    x = x.sign() * (x.abs() - 0.05).clamp_min(0);
    for n in sizes.into_iter().rev() {
        let (smooth, detail) = (x.at((.., 0..n / 2)), x.at((.., n / 2..n)));
        let even = &smooth - (&detail + detail.roll(1, 1)) * 0.25;
        let odd = &detail + (&even + even.roll(-1, 1)) * 0.5;
        x = x.assign((.., 0..n), &Tensor::stack([&even, &odd], 2).flatten(1, 2));
    }
    vec![x]
}

#[test]
fn wavelets_by_lifting() {
    Program {
        state: || vec![noise(&[5, 64], 0)],
        step: lifting,
        steps: 8,
        expected: LIFTING,
        tolerance: 1e-12,
    }
    .check();
}

/// The last numbers of a signal, of which one comes and one goes: their median, and mean and deviation of each window of 8.
fn rolling(s: Vec<Tensor>) -> Vec<Tensor> {
    let [last, time, told] = <[Tensor; 3]>::try_from(s).expect("three tensors");
    let windows = last.unfold(0, 8, 1);
    let (deviation, mean) = windows.var_mean(1, 1);
    let half = last.numel() as isize / 2;
    let median = last.sort(0, false).0.at(half..half + 1);
    let came = (&time * 0.7).sin() + median * 0.5 + mean.at(-1) * 0.25;
    let told = told.assign((0, ..), &mean);
    let told = told.assign((1, ..), &deviation.sqrt());
    vec![Tensor::cat([last.at(1..), came], 0), time + 1.0, told]
}

#[test]
fn rolling_windows() {
    Program {
        state: || {
            let time = Tensor::zeros([1], F64, &Device::cpu());
            vec![noise(&[40], 0), time, noise(&[2, 33], 1)]
        },
        step: rolling,
        steps: 24,
        expected: ROLLING,
        tolerance: 1e-11,
    }
    .check();
}

/// Levinson and Durbin's recursion: the filter of each order from that of the order before.
fn levinson(s: Vec<Tensor>) -> Vec<Tensor> {
    let r = &s[0];
    let mut filter = (-r.at(1..2)) / r.at(0..1);
    let mut error = r.at(0..1) * (1.0 - filter.square());
    for order in 1..r.numel() as isize - 1 {
        let known = r.at(1..order + 1).flip(0);
        let next = -(r.at(order + 1..order + 2) + (&filter * known).sum_keepdim(0)) / &error;
        filter = Tensor::cat([&filter + &next * filter.flip(0), next.clone()], 0);
        error *= 1.0 - next.square();
    }
    let filter = Tensor::cat([error, filter], 0);
    vec![r * 0.75 + filter.abs() * 0.05]
}

#[test]
fn linear_prediction() {
    Program {
        state: || vec![1.0 / (Tensor::arange(0, 24, 1, F64, &Device::cpu()) + 1.0)],
        step: levinson,
        steps: 8,
        expected: LEVINSON,
        tolerance: 1e-10,
    }
    .check();
}

/// A sound in frames that overlap, whose faint frequencies are left out.
fn gate(s: Vec<Tensor>) -> Vec<Tensor> {
    let (x, device) = (&s[0], Device::cpu());
    let (size, hop, turn) = (32, 8, std::f64::consts::TAU / 32.0);
    let place = Tensor::arange(0, size as i64, 1, F64, &device);
    let window = 0.5 - (&place * turn).cos() * 0.5;
    let frames = x.unfold(0, size, hop) * &window;
    let count = frames.dims()[0];
    let frequencies = Tensor::arange(0, size as i64 / 2 + 1, 1, F64, &device);
    let angle = frequencies.outer(&place) * turn;
    let (cos, sin) = (angle.cos(), angle.sin());
    let (re, im) = (frames.matmul(&cos.t()), frames.matmul(&sin.t()));
    let power = re.square() + im.square();
    let loud = power.ge(power.mean_keepdim(1)).to_dtype(F64);
    // All frequencies but the first and the last stand for two.
    let ends = frequencies.eq(0.0).logical_or(frequencies.eq(16.0));
    let kept = loud * ends.where_cond(1.0, 2.0) / size as f64;
    let back = ((re * &kept).matmul(&cos) + (im * kept).matmul(&sin)) * &window;
    let starts = Tensor::arange(0, (count * hop) as i64, hop as i64, I64, &device);
    let at = (starts.unsqueeze(1) + place.to_dtype(I64)).reshape(-1);
    let silent = x.zeros_like();
    let weight = window.square().expand([count, size]).reshape(-1);
    let weight = silent.index_add(0, &at, &weight) + 1e-3;
    vec![silent.index_add(0, &at, &back.reshape(-1)) / weight + x.roll(1, 0) * 0.1]
}

#[test]
fn spectral_gate() {
    Program {
        state: || vec![noise(&[200], 1)],
        step: gate,
        steps: 8,
        expected: GATE,
        tolerance: 1e-11,
    }
    .check();
}
