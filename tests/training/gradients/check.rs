//! Gradients against central differences in binary64.

use ferrotrace::DType::*;
use ferrotrace::jvp;
use ferrotrace::prelude::*;

type Function = Box<dyn Fn(&[Tensor]) -> Tensor>;

/// A function of tensors, and where its gradients are compared.
pub struct Case {
    name: &'static str,
    inputs: Vec<Tensor>,
    f: Function,
    second: bool,
    halves: bool,
}

/// A function of tensors of F64, whose gradients by all of them [`agree`] with central differences. It must be smooth there:
/// no kink may lie within 10⁻⁴.
pub fn case(
    name: &'static str,
    inputs: &[&Tensor],
    f: impl Fn(&[Tensor]) -> Tensor + 'static,
) -> Case {
    Case {
        name,
        inputs: inputs.iter().map(|&x| x.clone()).collect(),
        f: Box::new(f),
        second: true,
        halves: true,
    }
}

impl Case {
    /// Without second derivatives.
    pub fn once(mut self) -> Case {
        self.second = false;
        self
    }

    /// In F64 and F32 alone: rounded to fewer bits, the function is another.
    pub fn wide(mut self) -> Case {
        self.halves = false;
        self
    }
}

/// `n` numbers between −2 and 2 without order, no two nearer than 1/64 if there are at most 200; every float type holds them.
pub fn scattered(n: usize) -> Vec<f64> {
    (0..n)
        .map(|i| ((i * 89 + 37) % 257) as f64 / 64.0 - 2.0)
        .collect()
}

/// A tensor of [`scattered`] numbers.
pub fn sample(dims: &[usize]) -> Tensor {
    of(dims, &scattered(dims.iter().product()))
}

/// A tensor of F64.
pub fn of(dims: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_slice(values, dims, &Device::cpu())
}

/// A vector of positions.
pub fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, values.len(), &Device::cpu())
}

/// The elements as binary64.
pub fn numbers(x: &Tensor) -> Vec<f64> {
    let wide = x.to_dtype(F64).to_vec::<f64>();
    wide.unwrap_or_else(|error| panic!("{error}"))
}

fn count(tensors: &[Tensor]) -> usize {
    tensors.iter().map(Tensor::numel).sum()
}

/// Factors that tell elements apart, around 1.
fn factors(of: &Tensor, from: usize) -> Tensor {
    let n = of.numel();
    let values: Vec<f64> = (0..n)
        .map(|i| ((i * 11 + from) % 13) as f64 / 8.0 + 0.25)
        .collect();
    Tensor::from_vec(values, of.shape(), &Device::cpu()).to_dtype(of.dtype())
}

fn weighed(y: &Tensor, from: usize) -> Tensor {
    (y * factors(y, from)).sum(..)
}

/// The same values in memory that lies otherwise: dimensions in reverse order, or every second element.
fn strided(x: &Tensor) -> Tensor {
    if x.rank() == 0 {
        return x.clone();
    }
    let order: Vec<usize> = (0..x.rank()).rev().collect();
    let wide = x.repeat_interleave(2, 0).permute(&order[..]).contiguous();
    wide.eval().unwrap();
    wide.permute(&order[..]).slice(0, 0, isize::MAX, 2)
}

impl Case {
    /// No linear function of the results, so that their gradients depend on the inputs.
    fn loss(&self, inputs: &[Tensor]) -> Tensor {
        let y = (self.f)(inputs);
        weighed(&(y.square() * 0.25 + y), 3)
    }

    fn gradients(&self, inputs: &[Tensor]) -> Vec<Tensor> {
        let leaves: Vec<Tensor> = inputs.iter().map(|x| x.requires_grad()).collect();
        grad(&self.loss(&leaves), &leaves)
    }

    /// The sum of the gradients, each element times a factor.
    fn summed(&self, inputs: &[Tensor], create: bool) -> (Tensor, Vec<Tensor>) {
        let leaves: Vec<Tensor> = inputs.iter().map(|x| x.requires_grad()).collect();
        let first = grad(&self.loss(&leaves), &leaves);
        let mut sum = weighed(&first[0], 5);
        for (i, gradient) in first.iter().enumerate().skip(1) {
            sum += weighed(gradient, 5 + i);
        }
        let second = match create {
            true => grad(&sum, &leaves),
            false => Vec::new(),
        };
        (sum, second)
    }

    /// The derivative of the loss along a direction, of [`scattered`] numbers.
    fn along(&self) -> Tensor {
        let mut numbers = scattered(count(&self.inputs)).into_iter();
        let directions = self.inputs.iter().map(|x| {
            let values: Vec<f64> = numbers.by_ref().take(x.numel()).collect();
            Tensor::from_vec(values, x.shape(), &Device::cpu())
        });
        jvp(
            |x: &Vec<Tensor>| self.loss(x),
            &self.inputs,
            &directions.collect(),
        )
        .1
    }

    /// The central differences of a number that depends on the inputs.
    fn differences(&self, value: impl Fn(&[Tensor]) -> Tensor) -> Vec<Vec<f64>> {
        let mut found = Vec::new();
        for (i, x) in self.inputs.iter().enumerate() {
            let values = numbers(x);
            let at = |k: usize, moved: f64| {
                let mut values = values.clone();
                values[k] += moved;
                let mut inputs = self.inputs.clone();
                inputs[i] = Tensor::from_vec(values, x.shape(), &Device::cpu());
                numbers(&value(&inputs))[0]
            };
            let step = 1e-5;
            let slope = |k: usize| (at(k, step) - at(k, -step)) / (2.0 * step);
            found.push((0..values.len()).map(slope).collect());
        }
        found
    }
}

/// What a gradient is, and what it should be.
struct Expected {
    what: String,
    got: Tensor,
    dims: Vec<usize>,
    dtype: DType,
    want: Vec<f64>,
    tolerance: f64,
}

impl Expected {
    fn check(&self) {
        let Expected {
            what, got, want, ..
        } = self;
        assert_eq!(
            (got.dims(), got.dtype()),
            (&self.dims[..], self.dtype),
            "{what}"
        );
        let got = numbers(got);
        let size = want.iter().fold(1f64, |size, x| size.max(x.abs()));
        for (i, (a, b)) in got.iter().zip(want).enumerate() {
            let close = (a - b).abs() <= self.tolerance * size;
            assert!(
                close,
                "{what}: element {i} is {a}, not {b}: {got:?} for {want:?}"
            );
        }
    }
}

/// Compares the gradients of all cases with central differences, their second derivatives with those of the first, and the
/// gradients in narrower types with those in F64, of inputs that lie dense and otherwise, in both modes.
pub fn agree(cases: &[Case]) {
    let first: Vec<_> = with_mode(Mode::Eager, || {
        let of = |case: &Case| case.differences(|x| case.loss(x));
        cases.iter().map(of).collect()
    });
    let second: Vec<_> = with_mode(Mode::Eager, || {
        let of = |case: &Case| match case.second {
            true => case.differences(|x| case.summed(x, false).0),
            false => Vec::new(),
        };
        cases.iter().map(of).collect()
    });
    for mode in [Mode::Eager, Mode::Compiled] {
        with_mode(mode, || {
            let mut expected = Vec::new();
            for (case, (first, second)) in cases.iter().zip(first.iter().zip(&second)) {
                expect(case, first, second, &mut expected);
            }
            let got: Vec<&Tensor> = expected.iter().map(|e| &e.got).collect();
            eval(&got).unwrap_or_else(|error| panic!("{mode:?}: {error}"));
            expected.iter().for_each(Expected::check);
        });
    }
}

fn expect(case: &Case, first: &[Vec<f64>], second: &[Vec<f64>], expected: &mut Vec<Expected>) {
    let mut push = |what: &str, got: Vec<Tensor>, want: &[Vec<f64>], dtype, tolerance| {
        for (i, (got, want)) in got.into_iter().zip(want).enumerate() {
            expected.push(Expected {
                what: format!("{} by operand {i}, {what} {dtype}", case.name),
                got,
                dims: case.inputs[i].dims().to_vec(),
                dtype,
                want: want.clone(),
                tolerance,
            });
        }
    };
    push("dense", case.gradients(&case.inputs), first, F64, 1e-7);
    let moved: Vec<Tensor> = case.inputs.iter().map(strided).collect();
    push("strided", case.gradients(&moved), first, F64, 1e-7);
    if case.second {
        push(
            "second",
            case.summed(&case.inputs, true).1,
            second,
            F64,
            1e-6,
        );
    }
    let narrow = [(F32, 1e-5), (BF16, 0.03), (F16, 0.004)];
    for (dtype, tolerance) in narrow.into_iter().take(if case.halves { 3 } else { 1 }) {
        let inputs: Vec<Tensor> = case.inputs.iter().map(|x| x.to_dtype(dtype)).collect();
        push("narrow", case.gradients(&inputs), first, dtype, tolerance);
    }
    let slopes = first.iter().flatten().zip(scattered(count(&case.inputs)));
    let slope: f64 = slopes.map(|(slope, step)| slope * step).sum();
    // Where the loss of no elements is infinite it has no slope.
    let finite = numbers(&case.loss(&case.inputs))[0].is_finite();
    if case.second && finite {
        expected.push(Expected {
            what: format!("{} along a direction", case.name),
            got: case.along(),
            dims: Vec::new(),
            dtype: F64,
            want: vec![slope],
            tolerance: 1e-6,
        });
    }
}
