"""Workloads on an NVIDIA GPU: our bench `cuda_models`, whose binary is the first argument, beside `torch.compile`, in one
run. Medians of nine times twenty queued calls between two events; memory is what a call needs beyond its arguments.
Words after the binary choose rows by parts of their names. Prints a table."""

import subprocess
import sys

import torch
import torch.nn.functional as F

F32, BF16, F16 = torch.float32, torch.bfloat16, torch.float16
CALLS, ROUNDS = 20, 9


def randn(*shape, dtype=F32):
    return torch.randn(*shape, device="cuda").to(dtype)


def ids(n, below):
    return torch.randint(0, below, (n,), device="cuda")


def large():
    return (randn(16384, 8192),)


def heads(*shape):
    return tuple(randn(*shape, dtype=BF16) for _ in range(3))


def pointwise(x):
    return torch.tanh(x * 1.5 + 0.3) * torch.sigmoid(x) + torch.exp(-(x * x)) * 0.5 + torch.where(x > 0, x, 0.1 * x)


def residual_norm(x, y, g):
    s = x + y
    return F.rms_norm(s, (s.shape[-1],), g, 1e-5), s


def softmax(x):
    return torch.softmax(x, -1)


def chain(x):
    for _ in range(200):
        x = x * 1.0001 + 0.001
    return x


def block(x, g1, s1, qkv, b_qkv, o, b_o, g2, s2, up, b_up, down, b_down):
    b, s, d = x.shape
    h = F.layer_norm(x, (d,), g1, s1)
    q, k, v = F.linear(h, qkv, b_qkv).view(b, s, 3, 16, d // 16).permute(2, 0, 3, 1, 4)
    a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, d)
    x = x + F.linear(a, o, b_o)
    h = F.gelu(F.linear(F.layer_norm(x, (d,), g2, s2), up, b_up), approximate="tanh")
    return x + F.linear(h, down, b_down)


def block_inputs(d=2048):
    def w(*shape):
        return randn(*shape, dtype=BF16) * 0.02

    matrices = [w(d), w(d), w(3 * d, d), w(3 * d), w(d, d), w(d), w(d), w(d)]
    return (randn(8, 1024, d, dtype=BF16), *matrices, w(4 * d, d), w(4 * d), w(d, 4 * d), w(d))


def perceptron(images, labels, *weights):
    w1, b1, w2, b2, w3, b3 = weights
    h = F.linear(images, w1, b1).relu()
    h = F.linear(h, w2, b2).relu()
    return F.cross_entropy(F.linear(h, w3, b3), labels)


def perceptron_inputs():
    made = [randn(256, 784), ids(256, 10)]
    for n, m in ((512, 784), (512, 512), (10, 512)):
        made += [(randn(n, m) * 0.03).requires_grad_(), (randn(n) * 0.03).requires_grad_()]
    return tuple(made)


def adamw(p, g, m, v):
    for P, G, M, V in zip(p, g, m, v):
        M.mul_(0.9).add_(G, alpha=0.1)
        V.mul_(0.999).addcmul_(G, G, value=0.001)
        P.mul_(1 - 1e-4).addcdiv_(M, V.sqrt().add_(1e-8), value=-1e-3)
    return p[0]


def adamw_inputs():
    kinds = [(768, 2304), (2304,), (768, 768), (768,), (768, 3072), (3072,), (3072, 768), (768,)]
    shapes = [(50257, 768), (1024, 768)] + kinds * 12
    p = [randn(*s) for s in shapes]
    return p, [randn(*s) * 0.01 for s in shapes], [torch.zeros_like(t) for t in p], [torch.zeros_like(t) for t in p]


def last(*shape):
    return randn(*shape, dtype=F16).to(memory_format=torch.channels_last)


ROWS = {
    "pointwise12_f32": (pointwise, large),
    "gelu_tanh_bf16": (lambda x: F.gelu(x, approximate="tanh"), lambda: (randn(16384, 8192, dtype=BF16),)),
    "softmax_f32_8192": (softmax, large),
    "softmax_bf16_1024": (softmax, lambda: (randn(131072, 1024, dtype=BF16),)),
    "softmax_f32_65536": (softmax, lambda: (randn(2048, 65536),)),
    "layernorm_bf16": (
        lambda x, g, s: F.layer_norm(x, (4096,), g, s),
        lambda: (randn(32768, 4096, dtype=BF16), randn(4096, dtype=BF16), randn(4096, dtype=BF16)),
    ),
    "rmsnorm_residual_bf16": (
        residual_norm,
        lambda: (randn(32768, 4096, dtype=BF16), randn(32768, 4096, dtype=BF16), randn(4096, dtype=BF16)),
    ),
    "sum_all_f32": (lambda x: x.sum(), large),
    "sum_axis0_f32": (lambda x: x.sum(0), large),
    "sum_axis1_f32": (lambda x: x.sum(1), large),
    "var_mean_all_f32": (lambda x: torch.var_mean(x), large),
    "transpose_add_f32": (lambda x, y: (x + y.t()) * 2.0, lambda: (randn(8192, 8192), randn(8192, 8192))),
    "cumsum_f32": (lambda x: x.cumsum(-1), large),
    "sort_f32": (lambda x: torch.sort(x, -1), lambda: (randn(4096, 4096),)),
    "cross_entropy_bf16_50257": (
        lambda x, t: F.cross_entropy(x.float(), t),
        lambda: (randn(8192, 50257, dtype=BF16), ids(8192, 50257)),
    ),
    "gather_embed_bf16": (lambda w, i: w[i] * 2.0, lambda: (randn(50304, 1024, dtype=BF16), ids(262144, 50304))),
    "matmul_bf16_8192": (lambda a, b: a @ b, lambda: (randn(8192, 8192, dtype=BF16), randn(8192, 8192, dtype=BF16))),
    "matmul_bf16_4096": (lambda a, b: a @ b, lambda: (randn(4096, 4096, dtype=BF16), randn(4096, 4096, dtype=BF16))),
    "matmul_bias_gelu_bf16": (
        lambda a, w, b: F.gelu(a @ w + b, approximate="tanh"),
        lambda: (randn(8192, 4096, dtype=BF16), randn(4096, 16384, dtype=BF16), randn(16384, dtype=BF16)),
    ),
    "matmul_f32_ieee_4096": (lambda a, b: a @ b, lambda: (randn(4096, 4096), randn(4096, 4096))),
    "sdpa_causal_bf16": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: heads(4, 32, 4096, 128),
    ),
    "attn_naive_bf16": (
        lambda q, k, v: torch.softmax((q @ k.transpose(-1, -2)) * 0.125, -1) @ v,
        lambda: heads(4, 16, 2048, 64),
    ),
    "small_ops_chain200": (chain, lambda: (randn(16),)),
    "block_fwd_bf16": (block, block_inputs),
    "mlp_train_f32": (perceptron, perceptron_inputs),
    "conv3x3_f16": (
        lambda x, w: F.relu(F.conv2d(x, w, padding=1)),
        lambda: (last(64, 256, 56, 56), last(256, 256, 3, 3)),
    ),
    "gemv_decode_bf16": (lambda a, w: a @ w.t(), lambda: (randn(1, 4096, dtype=BF16), randn(16384, 4096, dtype=BF16))),
    "adamw_foreach_124M_f32": (adamw, adamw_inputs),
}


def measured(function, make):
    """Microseconds and bytes of a call."""
    torch._dynamo.reset()
    torch.cuda.empty_cache()
    args = make()
    compiled = torch.compile(function)
    trained = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]

    def call():
        if not trained:
            with torch.no_grad():
                return compiled(*args)
        for a in trained:
            a.grad = None
        compiled(*args).backward()
        return None

    for _ in range(3):
        call()
    torch.cuda.synchronize()
    for a in trained:
        a.grad = None
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    call()
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - before
    times = []
    for _ in range(ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(CALLS):
            call()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / CALLS)
    return sorted(times)[ROUNDS // 2], extra


def main():
    binary, words = sys.argv[1], sys.argv[2:]
    printed = subprocess.run([binary, *words], stdout=subprocess.PIPE, text=True, check=True).stdout
    ours = {}
    for line in printed.splitlines():
        if line.startswith("row "):
            _, name, micros, extra = line.split()
            ours[name] = float(micros), int(extra)
        else:
            print(line)
    print("| workload | ours, µs | torch.compile, µs | ratio | ours, MiB | torch.compile, MiB | no more memory |")
    print("|---|---:|---:|---:|---:|---:|---|")
    for name, (micros, extra) in ours.items():
        try:
            theirs, needed = measured(*ROWS[name])
        except Exception as error:
            print(f"| {name} | {micros:.1f} | {str(error)[:60]} | | {extra / 2**20:.2f} | | |", flush=True)
            continue
        verdict = "met" if extra <= needed else "more"
        print(
            f"| {name} | {micros:.1f} | {theirs:.1f} | {micros / theirs:.2f} | {extra / 2**20:.2f} | {needed / 2**20:.2f} | {verdict} |",
            flush=True,
        )


main()
