//! Layers and losses against PyTorch's, by name, in both modes, and replayed.

mod attention;
mod bags;
mod batch_norm;
mod ctc;
mod functions;
mod gradients;
mod grids;
mod init;
mod losses;
mod recurrent;
mod sequential;
mod transformers;

use crate::reference::{case, each};
use ferrotrace::derived::{JitArg, Owned};
use ferrotrace::nn::*;
use ferrotrace::prelude::*;
use ferrotrace::stats_scope;

fn cpu() -> Device {
    Device::cpu()
}

/// A layer of one input gives what PyTorch's gives, also when it is replayed with its parameters as arguments.
pub fn like_torch<M>(name: &str, layer: impl Fn() -> M)
where
    M: Module + TensorStruct + Clone + JitArg<Kind = Owned<M>>,
{
    let case = case(name);
    each(|dtype, tolerance| {
        let layer = case.load(layer(), dtype);
        let x = case.input("x", dtype);
        let y = layer.forward(&x);
        if x.dtype().is_float() {
            assert_eq!(y.dtype(), dtype, "{name}");
        }
        case.near("y", &y, tolerance);
    });
    let replayed = jit(|(layer, x): (M, &Tensor)| layer.forward(x));
    let (layer, x) = (case.load(layer(), DType::F64), case.input("x", DType::F64));
    let (_, stats) = stats_scope(|| {
        for _ in 0..3 {
            case.near("y", &replayed.call((layer.clone(), &x)), 1e-8);
        }
    });
    assert_eq!(stats.traces, 1, "{name}");
}

#[test]
fn linear_layers() {
    like_torch("linear", || Linear::new(3, 2, &cpu()));
    like_torch("linear_without_bias", || {
        Linear::new(3, 2, &cpu()).without_bias()
    });
    let case = case("bilinear");
    each(|dtype, tolerance| {
        let layer = case.load(Bilinear::new(3, 4, 2, &cpu()), dtype);
        let (a, b) = (case.input("a", dtype), case.input("b", dtype));
        case.near("y", &layer.forward(&a, &b), tolerance);
    });
}

#[test]
fn embedding() {
    like_torch("embedding", || Embedding::new(5, 3, &cpu()));
    let table = Embedding::new(4, 2, &cpu()).padding(1);
    let rows = table.forward(&Tensor::from_slice(&[1i64, 0], 2, &cpu()));
    let rows = rows.to_vec::<f32>().unwrap();
    assert_eq!(rows[..2], [0.0, 0.0]);
    assert!(rows[2] != 0.0 && rows[3] != 0.0);
    let outside = table.forward(&Tensor::from_slice(&[4i64], 1, &cpu()));
    assert!(outside.to_vec::<f32>().is_err());
}

#[test]
fn convolutions() {
    like_torch("conv1d", || {
        let options = Conv::new().stride(2).padding(1).dilation(2).groups(2);
        Conv1d::with(4, 6, 3, options, &cpu())
    });
    like_torch("conv2d", || {
        let options = Conv::new().stride([1, 2]).padding(1);
        Conv2d::with(2, 3, [2, 3], options, &cpu())
    });
    like_torch("conv2d_same", || {
        Conv2d::with(2, 2, 3, Conv::new().padding("same"), &cpu()).without_bias()
    });
    like_torch("conv3d", || {
        Conv3d::with(1, 2, 2, Conv::new().padding(1), &cpu())
    });
    like_torch("conv_transpose1d", || {
        let options = Conv::new().stride(2).padding(1).output_padding(1).groups(2);
        ConvTranspose1d::with(4, 2, 3, options, &cpu())
    });
    like_torch("conv_transpose2d", || {
        ConvTranspose2d::with(2, 3, [2, 3], Conv::new().stride([2, 1]), &cpu())
    });
    like_torch("conv_transpose3d", || ConvTranspose3d::new(1, 2, 2, &cpu()));
}

#[test]
fn layers_that_differ_in_options_alone_do_not_share_a_replay() {
    let f = jit(|(layer, x): (&Conv2d, &Tensor)| layer.forward(x));
    let x = Tensor::ones([1, 1, 4, 4], DType::F32, &cpu());
    let mut layer = Conv2d::new(1, 1, 2, &cpu());
    assert_eq!(f.call((&layer, &x)).dims(), [1, 1, 3, 3]);
    layer.options = Conv::new().stride(2);
    assert_eq!(f.call((&layer, &x)).dims(), [1, 1, 2, 2]);
}

#[test]
fn norms() {
    like_torch("layer_norm", || LayerNorm::new([2, 3], &cpu()));
    like_torch("rms_norm", || RmsNorm::new(6, &cpu()).eps(1e-5));
    like_torch("group_norm", || GroupNorm::new(2, 4, &cpu()));
    like_torch("instance_norm", || InstanceNorm::new(3).affine(&cpu()));
    let case = case("rms_norm_default");
    with_mode(Mode::Eager, || {
        let layer = case.load(RmsNorm::new(6, &cpu()), DType::F64);
        case.near("y", &layer.forward(&case.input("x", DType::F64)), 1e-9);
    });
    let x = Tensor::ones([2, 4, 3], DType::F32, &cpu());
    assert!(InstanceNorm::new(3).forward(&x).error().is_some());
}

#[test]
fn activations() {
    like_torch("prelu", || PRelu::new(3, &cpu()));
    let x = Tensor::from_slice(&[-2.0, -0.5, 0.0, 0.5, 2.0], 5, &cpu());
    let same = |module: &dyn Module, y: Tensor| {
        let values = |y: Tensor| y.to_vec::<f64>().unwrap();
        assert_eq!(values(module.forward(&x)), values(y));
    };
    same(&Relu, x.relu());
    same(&Gelu, x.gelu());
    same(&Silu, x.silu());
    same(&Tanh, x.tanh());
    same(&LeakyRelu::default(), x.leaky_relu(0.01));
    same(&Elu { a: 0.5 }, x.elu(0.5));
    same(&Softmax { dim: -1 }, x.softmax(-1));
    same(&Identity, x.clone());
}

#[test]
fn modules_one_after_another() {
    let x = Tensor::randn([3, 4], DType::F32, &cpu());
    let (a, b) = (Linear::new(4, 5, &cpu()), Linear::new(5, 2, &cpu()));
    let want = b.forward(&a.forward(&x).relu());
    let tuple = (a.clone(), Relu, b.clone());
    let names: Vec<String> = tuple.named_tensors().into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, ["0.weight", "0.bias", "2.weight", "2.bias"]);
    let same = |y: Tensor| assert!(y.allclose(&want, 1e-6, 1e-6).unwrap());
    same(tuple.forward(&x));
    same(
        Sequential::new()
            .then(a.clone())
            .then(Relu)
            .then(b.clone())
            .forward(&x),
    );
    let boxed: Vec<Box<dyn Module>> = vec![Box::new(a), Box::new(Relu), Box::new(b)];
    same(boxed.forward(&x));
    assert_eq!(Vec::<Relu>::new().forward(&x).dims(), [3, 4]);
}

#[test]
fn dropout_draws_anew_at_every_replay() {
    let f = jit(|(layer, x): (&Dropout, &Tensor)| layer.forward(x));
    let x = Tensor::ones(64, DType::F32, &cpu());
    let mut layer = Dropout::new(0.25);
    let mut seen = std::collections::BTreeSet::new();
    let (kept, stats) = stats_scope(|| {
        let mut kept = 0;
        for _ in 0..100 {
            let y = f.call((&layer, &x)).to_vec::<f32>().unwrap();
            let ones: Vec<bool> = y.iter().map(|&y| y != 0.0).collect();
            assert!(y.iter().all(|&y| y == 0.0 || (y - 4.0 / 3.0).abs() < 1e-6));
            kept += ones.iter().filter(|&&kept| kept).count();
            seen.insert(ones);
        }
        kept
    });
    assert_eq!((seen.len(), stats.traces), (100, 1));
    // 6400 draws of mean 0.75: five standard deviations are 173.
    assert!((4800 - 173..4800 + 173).contains(&kept), "{kept}");
    layer.training = false;
    assert_eq!(f.call((&layer, &x)).to_vec::<f32>().unwrap(), [1.0; 64]);
}

#[test]
fn errors_name_the_callers_line() {
    let layer = Linear::new(3, 2, &cpu());
    let x = Tensor::ones([4, 5], DType::F32, &cpu());
    let line = line!() + 1;
    let error = layer.forward(&x).error().expect("5 is not 3").to_string();
    assert!(error.contains(&format!("nn/mod.rs:{line}:")), "{error}");
}
