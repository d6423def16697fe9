//! The workloads.

use crate::{Workload, randint, randn};
use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, SGD, ops};

const BIG: [usize; 2] = [4096, 4096];

pub(crate) fn open(name: &str) -> Result<Option<Workload>> {
    let shape = if name.ends_with("_256x1024") {
        [256, 1024]
    } else {
        BIG
    };
    let of_one = |f: fn(&Tensor) -> Result<Tensor>| -> Result<Option<Workload>> {
        let x = randn(&shape, 0, 1.0)?;
        Ok(Some(Box::new(move || f(&x))))
    };
    match name {
        "pw12_4096" | "pw12_256x1024" => of_one(transcendental),
        "pwarith12_4096" | "pwarith12_256x1024" => of_one(arithmetic),
        "gelu_4096" | "gelu_256x1024" => of_one(Tensor::gelu),
        "softmax_4096" | "softmax_256x1024" => of_one(ops::softmax_last_dim),
        "sum_all" | "sum_all_256x1024" => of_one(Tensor::sum_all),
        "sum_ax0" => of_one(|x| x.sum(0)),
        "sum_ax1" => of_one(|x| x.sum(1)),
        // Variance alone: candle has no operation that gives both.
        "meanvar_ax1" => of_one(|x| x.var(1)),
        "cumsum_4096" => of_one(|x| x.cumsum(1)),
        "sort_1024x4096" => {
            let x = randn(&[1024, 4096], 0, 1.0)?;
            Ok(Some(Box::new(move || Ok(x.sort_last_dim(true)?.0))))
        }
        "layernorm_4096x1024" | "layernorm_256x1024" => {
            let rows = if shape == BIG { 4096 } else { 256 };
            let x = randn(&[rows, 1024], 0, 1.0)?;
            let (w, b) = (randn(&[1024], 1, 1.0)?, randn(&[1024], 2, 1.0)?);
            Ok(Some(Box::new(move || ops::layer_norm(&x, &w, &b, 1e-5))))
        }
        "rmsnorm_res_4096x1024" => {
            let (x, r) = (randn(&[4096, 1024], 0, 1.0)?, randn(&[4096, 1024], 1, 1.0)?);
            let w = randn(&[1024], 2, 1.0)?;
            Ok(Some(Box::new(move || ops::rms_norm(&(&x + &r)?, &w, 1e-5))))
        }
        "xpyT_4096" => {
            let (x, y) = (randn(&BIG, 0, 1.0)?, randn(&BIG, 1, 1.0)?);
            Ok(Some(Box::new(move || &x + y.t()?)))
        }
        "mm_512" => product(&[512, 512], &[512, 512]),
        "mm_1024" => product(&[1024, 1024], &[1024, 1024]),
        "mm_2048" => product(&[2048, 2048], &[2048, 2048]),
        "gemv_4096" => product(&[1, 4096], &BIG),
        "mm_bias_gelu" => {
            let (x, w) = (
                randn(&[1024, 1024], 0, 1.0)?,
                randn(&[1024, 4096], 1, 0.03)?,
            );
            let b = randn(&[4096], 2, 1.0)?;
            Ok(Some(Box::new(move || {
                x.matmul(&w)?.broadcast_add(&b)?.gelu()
            })))
        }
        "conv3x3" => {
            let (x, w) = (
                randn(&[8, 64, 56, 56], 0, 1.0)?,
                randn(&[64, 64, 3, 3], 1, 0.05)?,
            );
            Ok(Some(Box::new(move || x.conv2d(&w, 1, 1, 1, 1))))
        }
        "embsum" => {
            let table = randn(&[50_000, 256], 0, 1.0)?;
            let rows = randint(&[4096 * 32], 5, 50_000)?;
            Ok(Some(Box::new(move || {
                table
                    .index_select(&rows, 0)?
                    .reshape((4096, 32, 256))?
                    .sum(1)
            })))
        }
        "small_chain1000" => {
            let (x, y) = (randn(&[16], 0, 1.0)?, randn(&[16], 1, 0.001)?);
            Ok(Some(Box::new(move || {
                (0..1000).try_fold(x.clone(), |sum, _| &sum + &y)
            })))
        }
        "mlp_step" => perceptron(),
        "adamw100" => adamw(),
        "tblock" => block(),
        _ => Ok(None),
    }
}

fn transcendental(x: &Tensor) -> Result<Tensor> {
    let gate = (x.affine(0.7, 0.1)?.tanh()? * ops::sigmoid(x)?)?;
    let y = (gate + ((x * x)?.neg()?.exp()? * 0.5)?)?;
    (y.relu()? * x)? + &y
}

fn arithmetic(x: &Tensor) -> Result<Tensor> {
    let y = ((x.affine(0.7, 0.1)? * x)? - 0.3)?;
    let z = (((&y * 1.1)? + x)? * 0.5)?;
    ((z.relu()? * &y)? + (z.abs()? * 0.25)?)? - x
}

fn product(a: &[usize], b: &[usize]) -> Result<Option<Workload>> {
    let (a, b) = (randn(a, 0, 1.0)?, randn(b, 1, 1.0)?);
    Ok(Some(Box::new(move || a.matmul(&b))))
}

fn perceptron() -> Result<Option<Workload>> {
    let shapes: [&[usize]; 6] = [&[784, 512], &[512], &[512, 512], &[512], &[512, 10], &[10]];
    let mut p = Vec::new();
    for (i, shape) in shapes.into_iter().enumerate() {
        p.push(Var::from_tensor(&randn(shape, i as u64, 0.03)?)?);
    }
    let images = randn(&[256, 784], 0, 1.0)?;
    let labels: Vec<u32> = (0..256).map(|i| i % 10).collect();
    let labels = Tensor::from_vec(labels, 256, &Device::Cpu)?;
    let mut optimizer = SGD::new(p.clone(), 0.01)?;
    Ok(Some(Box::new(move || {
        let hidden = images.matmul(&p[0])?.broadcast_add(&p[1])?.relu()?;
        let hidden = hidden.matmul(&p[2])?.broadcast_add(&p[3])?.relu()?;
        let scores = hidden.matmul(&p[4])?.broadcast_add(&p[5])?;
        let loss = candle_nn::loss::cross_entropy(&scores, &labels)?;
        optimizer.backward_step(&loss)?;
        loss.detach().copy()
    })))
}

fn adamw() -> Result<Option<Workload>> {
    let kinds: [(usize, &[usize]); 5] = [
        (10, &[1024, 1024]),
        (20, &[512, 512]),
        (30, &[512]),
        (20, &[10, 512]),
        (20, &[256, 1024]),
    ];
    let shapes: Vec<&[usize]> = kinds
        .iter()
        .flat_map(|&(n, s)| std::iter::repeat_n(s, n))
        .collect();
    let mut parameters = Vec::new();
    // The gradient of a sum of products is what the parameter is multiplied by.
    let mut loss = Tensor::zeros((), DType::F32, &Device::Cpu)?;
    for (i, shape) in shapes.into_iter().enumerate() {
        let parameter = Var::from_tensor(&randn(shape, i as u64, 1.0)?)?;
        let slope = randn(shape, 1000 + i as u64, 1.0)?;
        loss = (loss + (parameter.as_tensor() * slope)?.sum_all()?)?;
        parameters.push(parameter);
    }
    let slopes = loss.backward()?;
    let mut optimizer = AdamW::new_lr(parameters.clone(), 1e-3)?;
    Ok(Some(Box::new(move || {
        optimizer.step(&slopes)?;
        Ok(parameters[0].as_detached_tensor())
    })))
}

fn block() -> Result<Option<Workload>> {
    let (batch, length, d, heads, f) = (8usize, 128usize, 384usize, 12usize, 1536usize);
    let shapes: [&[usize]; 8] = [
        &[d, 3 * d],
        &[3 * d],
        &[d, d],
        &[d],
        &[d, f],
        &[f],
        &[f, d],
        &[d],
    ];
    let mut w = Vec::new();
    for (i, shape) in shapes.into_iter().enumerate() {
        w.push(randn(shape, i as u64 + 10, 0.02)?);
    }
    let x = randn(&[batch * length, d], 0, 1.0)?;
    let (one, zero) = (
        Tensor::ones(d, DType::F32, &Device::Cpu)?,
        Tensor::zeros(d, DType::F32, &Device::Cpu)?,
    );
    Ok(Some(Box::new(move || {
        let norm = |x: &Tensor| ops::layer_norm(x, &one, &zero, 1e-5);
        let qkv = norm(&x)?.matmul(&w[0])?.broadcast_add(&w[1])?;
        let qkv = qkv
            .reshape((batch, length, 3, heads, d / heads))?
            .permute((2, 0, 3, 1, 4))?;
        let part = |i: usize| qkv.get(i)?.contiguous();
        let scores = (part(0)?.matmul(&part(1)?.transpose(D::Minus2, D::Minus1)?)?
            * ((d / heads) as f64).powf(-0.5))?;
        let attended = ops::softmax_last_dim(&scores)?.matmul(&part(2)?)?;
        let attended = attended.transpose(1, 2)?.reshape((batch * length, d))?;
        let x = (&x + attended.matmul(&w[2])?.broadcast_add(&w[3])?)?;
        let hidden = norm(&x)?.matmul(&w[4])?.broadcast_add(&w[5])?.gelu()?;
        &x + hidden.matmul(&w[6])?.broadcast_add(&w[7])?
    })))
}
