use super::*;
use std::time::Instant;
use smallvec::smallvec;

#[repr(C)]
struct Spec(i64, i64);
unsafe extern "C" { fn clock_gettime(id: i32, t: *mut Spec) -> i32; }
fn cpu_now() -> f64 { let mut s = Spec(0, 0); unsafe { clock_gettime(3, &mut s) }; s.0 as f64 + s.1 as f64 * 1e-9 }

fn time(name: &str, bytes: f64, f: &mut dyn FnMut()) {
    f();
    let t = Instant::now();
    f();
    let once = t.elapsed().as_secs_f64();
    let reps = ((0.05 / once) as usize).clamp(1, 200_000);
    let mut best = f64::MAX;
    for _ in 0..5 {
        let t = cpu_now();
        for _ in 0..reps { f(); }
        best = best.min((cpu_now() - t) / reps as f64);
    }
    println!("{name:36} {:12.3} us {:8.1} GB/s", best * 1e6, bytes / best / 1e9);
}

fn op(name: &str, bytes: f64, op: &Op, args: &[Arg]) {
    let metas: Vec<ArgMeta<'_>> = args.iter().map(Arg::meta).collect();
    let (shape, dtype) = op.infer(&metas).expect("ok");
    time(name, bytes, &mut || { std::hint::black_box(run(op, args, &shape, dtype).expect("ok")); });
}

#[test]
fn bench() { ferrotrace_runtime::with_threads(1, all); }
fn all() {
    let cpu = Device::cpu();
    let randn = |dims: &[usize], dtype| {
        let shape = Shape::new(dims);
        run(&Op::Random { dist: crate::Distribution::Uniform, shape: shape.clone(), dtype },
            &[Arg::Scalar(Scalar::Int(1)), Arg::Scalar(Scalar::Int(2))], &shape, dtype).expect("ok")
    };
    let n = 4096usize;
    let b = (n * n * 4) as f64;
    let _ = &cpu;
    let x = Arg::Array(randn(&[n, n], DType::F32));
    let y = Arg::Array(randn(&[n, n], DType::F32));
    let bias = Arg::Array(randn(&[n], DType::F32));
    let col = Arg::Array(randn(&[n, 1], DType::F32));
    let h = Arg::Array(randn(&[n, n], DType::BF16));
    let h16 = Arg::Array(randn(&[n, n], DType::F16));
    let t = |a: &Arg| { let Arg::Array(a) = a else { panic!() }; Arg::Array(a.with_layout(a.layout.permute(&[1, 0]))) };
    let yt = t(&y);
    let add = Op::Binary(BinaryOp::Add);
    let (s16a, s16b) = (Arg::Array(randn(&[16], DType::F32)), Arg::Array(randn(&[16], DType::F32)));
    let a2 = [s16a.clone(), s16b];
    op("[16] add", 0.0, &add, &a2);
    op("[16] add number", 0.0, &add, &[s16a.clone(), Arg::Scalar(Scalar::Float(1.0))]);
    op("[16] sum", 0.0, &Op::Reduce { kind: crate::ReduceKind::Sum, mask: 1, keepdim: false }, &a2[..1]);
    let k = Arg::Array(randn(&[256, 1024], DType::F32));
    op("add 256x1024", 3.0 * 1048576.0, &add, &[k.clone(), k.clone()]);
    op("exp 256x1024", 2.0 * 1048576.0, &Op::Unary(UnaryOp::Exp), &[k.clone()]);
    let red = |kind, mask| Op::Reduce { kind, mask, keepdim: false };
    use crate::ReduceKind::*;
    op("sum all 256x1024", 1048576.0, &red(Sum, 3), &[k.clone()]);
    op("sum 1 256x1024", 1048576.0, &red(Sum, 2), &[k.clone()]);
    op("sum 0 256x1024", 1048576.0, &red(Sum, 1), &[k.clone()]);
    op("add", 3.0 * b, &add, &[x.clone(), y.clone()]);
    op("add number", 2.0 * b, &add, &[x.clone(), Arg::Scalar(Scalar::Float(1.0))]);
    op("add bias", 2.0 * b, &add, &[x.clone(), bias.clone()]);
    op("add col", 2.0 * b, &add, &[x.clone(), col.clone()]);
    op("x + y.T", 3.0 * b, &add, &[x.clone(), yt.clone()]);
    op("exp", 2.0 * b, &Op::Unary(UnaryOp::Exp), &[x.clone()]);
    op("tanh", 2.0 * b, &Op::Unary(UnaryOp::Tanh), &[x.clone()]);
    op("sin", 2.0 * b, &Op::Unary(UnaryOp::Sin), &[x.clone()]);
    op("log", 2.0 * b, &Op::Unary(UnaryOp::Log), &[x.clone()]);
    op("erf", 2.0 * b, &Op::Unary(UnaryOp::Erf), &[x.clone()]);
    op("pow", 3.0 * b, &Op::Binary(BinaryOp::Pow), &[x.clone(), y.clone()]);
    op("lt", 2.25 * b, &Op::Binary(BinaryOp::Lt), &[x.clone(), y.clone()]);
    op("add bf16", 1.5 * b, &add, &[h.clone(), h.clone()]);
    op("add f16", 1.5 * b, &add, &[h16.clone(), h16.clone()]);
    op("cast f32 bf16", 1.5 * b, &Op::Cast(DType::BF16), &[x.clone()]);
    op("cast f32 f16", 1.5 * b, &Op::Cast(DType::F16), &[x.clone()]);
    op("cast f16 f32", 1.5 * b, &Op::Cast(DType::F32), &[h16.clone()]);
    op("cast f32 i32", 2.0 * b, &Op::Cast(DType::I32), &[x.clone()]);
    op("cast f32 f64", 3.0 * b, &Op::Cast(DType::F64), &[x.clone()]);
    let Arg::Array(yta) = &yt else { panic!() };
    time("contiguous y.T", 2.0 * b, &mut || { std::hint::black_box(contiguous(yta).expect("ok")); });
    op("sum all", b, &red(Sum, 3), &[x.clone()]);
    op("sum 0", b, &red(Sum, 1), &[x.clone()]);
    op("sum 1", b, &red(Sum, 2), &[x.clone()]);
    op("sum all T", b, &red(Sum, 3), &[yt.clone()]);
    op("sum 0 T", b, &red(Sum, 1), &[yt.clone()]);
    op("max 1", b, &red(Max, 2), &[x.clone()]);
    op("max 0", b, &red(Max, 1), &[x.clone()]);
    op("argmax all", b, &red(ArgMax, 3), &[x.clone()]);
    op("argmax 0", b, &red(ArgMax, 1), &[x.clone()]);
    op("argmax 1", b, &red(ArgMax, 2), &[x.clone()]);
    op("mean bf16", b / 2.0, &red(Mean, 3), &[h.clone()]);
    op("mean f16 1", b / 2.0, &red(Mean, 2), &[h16.clone()]);
    op("any", b, &red(Any, 3), &[x.clone()]);
    let short = Arg::Array(randn(&[1 << 21, 8], DType::F32));
    op("sum 1 [2M,8]", b, &red(Sum, 2), &[short.clone()]);
    op("sum 0 [2M,8]", b, &red(Sum, 1), &[short.clone()]);
    let mid = Arg::Array(randn(&[256, 256, 256], DType::F32));
    for m in 1..7u64 { op(&format!("sum {m:03b} [256;3]"), b, &red(Sum, m), &[mid.clone()]); }
    let perm = go(&Op::Permute(smallvec![0, 2, 1]), &[mid.clone()]);
    time("contiguous 021", 2.0 * b, &mut || { std::hint::black_box(contiguous(&perm).expect("ok")); });
    let perm = go(&Op::Permute(smallvec![2, 1, 0]), &[mid.clone()]);
    time("contiguous 210", 2.0 * b, &mut || { std::hint::black_box(contiguous(&perm).expect("ok")); });
    let perm = go(&Op::Permute(smallvec![1, 0, 2]), &[mid.clone()]);
    time("contiguous 102", 2.0 * b, &mut || { std::hint::black_box(contiguous(&perm).expect("ok")); });
    op("cat 0", 4.0 * b, &Op::Cat { dim: 0 }, &[x.clone(), y.clone()]);
    op("cat 1", 4.0 * b, &Op::Cat { dim: 1 }, &[x.clone(), y.clone()]);
    op("pad", 2.0 * b, &Op::Pad(smallvec![(1, 1), (1, 1)]), &[x.clone(), Arg::Scalar(Scalar::Float(0.0))]);
    op("full", b, &Op::Full { shape: Shape::from([n, n]), dtype: DType::F32 }, &[Arg::Scalar(Scalar::Float(0.5))]);
    let key = [Arg::Scalar(Scalar::Int(1)), Arg::Scalar(Scalar::Int(2))];
    let r = |dist, dtype| Op::Random { dist, shape: Shape::from([n, n]), dtype };
    op("rand", b, &r(crate::Distribution::Uniform, DType::F32), &key);
    op("randn", b, &r(crate::Distribution::Normal, DType::F32), &key);
    op("arange", b, &Op::Arange { len: n * n, dtype: DType::F32 }, &key);
    let mut a = vec![0f32; n * n];
    let c = vec![1f32; n * n];
    time("ndarray-like copy 1T", 2.0 * b, &mut || { a.copy_from_slice(&c); std::hint::black_box(&a); });
}

fn go(op: &Op, args: &[Arg]) -> Array {
    let metas: Vec<ArgMeta<'_>> = args.iter().map(Arg::meta).collect();
    let (shape, dtype) = op.infer(&metas).expect("valid operands");
    run(op, args, &shape, dtype).expect("memory")
}
