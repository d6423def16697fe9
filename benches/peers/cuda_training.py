"""The training steps of `cuda_training.rs` in PyTorch, compiled: prints milliseconds a step, the first step's seconds, memory."""

import sys
import time

import torch
import torch.nn.functional as F

torch.backends.cuda.matmul.allow_tf32 = False
BATCH, LENGTH, VOCABULARY, WIDTH, HEADS, LAYERS = 8, 1024, 50304, 768, 12, 12


def measure(name, step):
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    start = time.time()
    first = float(step())
    torch.cuda.synchronize()
    cold = time.time() - start
    for _ in range(5):
        step()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(7):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(20):
            loss = step()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 20)
    peak = (torch.cuda.max_memory_allocated() - before) >> 20
    print(f"row {name} {sorted(times)[3]:.4f} ms, first {cold:.3f} s, loss {first:.4f} to {float(loss):.4f}, {peak} MiB beyond {before >> 20} MiB", flush=True)


def mlp(compiled):
    shapes = [(512, 784), (512,), (512, 512), (512,), (10, 512), (10,)]
    p = [(torch.randn(s, device="cuda") * 0.03).requires_grad_() for s in shapes]
    x, y = torch.randn(256, 784, device="cuda"), torch.randint(0, 10, (256,), device="cuda")

    def loss():
        h = F.relu(F.linear(x, p[0], p[1]))
        return F.cross_entropy(F.linear(F.relu(F.linear(h, p[2], p[3])), p[4], p[5]), y)

    forward = torch.compile(loss, mode="reduce-overhead") if compiled else loss
    optimizer = torch.optim.SGD(p, lr=0.01, foreach=True)
    update = torch.compile(optimizer.step) if compiled else optimizer.step

    def step():
        value = forward()
        value.backward()
        update()
        optimizer.zero_grad(set_to_none=True)
        return value.detach().clone()

    return step


def gpt2(compiled):
    d = WIDTH
    normal = lambda *s: (torch.randn(s, device="cuda") * 0.02).requires_grad_()
    ones, zeros = lambda n: torch.ones(n, device="cuda", requires_grad=True), lambda n: torch.zeros(n, device="cuda", requires_grad=True)
    p = [normal(VOCABULARY, d), normal(LENGTH, d), ones(d), zeros(d)]
    for _ in range(LAYERS):
        p += [ones(d), zeros(d), normal(3 * d, d), zeros(3 * d), normal(d, d), zeros(d)]
        p += [ones(d), zeros(d), normal(4 * d, d), zeros(4 * d), normal(d, 4 * d), zeros(d)]
    tokens = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), device="cuda")
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()

    def loss():
        h = [a.to(torch.bfloat16) for a in p]
        z = F.embedding(x, h[0]) + h[1]
        for i in range(LAYERS):
            l = h[4 + 12 * i : 16 + 12 * i]
            qkv = F.linear(F.layer_norm(z, (d,), l[0], l[1]), l[2], l[3])
            q, k, v = qkv.reshape(BATCH, LENGTH, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
            a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            z = z + F.linear(a.permute(0, 2, 1, 3).reshape(BATCH, LENGTH, d), l[4], l[5])
            u = F.gelu(F.linear(F.layer_norm(z, (d,), l[6], l[7]), l[8], l[9]), approximate="tanh")
            z = z + F.linear(u, l[10], l[11])
        z = F.layer_norm(z, (d,), h[2], h[3])
        return F.cross_entropy(F.linear(z.reshape(-1, d), h[0]).float(), y.reshape(-1))

    forward = torch.compile(loss) if compiled else loss
    optimizer = torch.optim.AdamW(p, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)

    def step():
        value = forward()
        value.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return value.detach()

    return step


if __name__ == "__main__":
    names = sys.argv[1:] or ["mlp", "gpt2"]
    for name in names:
        for compiled in (False, True):
            torch._dynamo.reset()
            measure(f"{name} {'compile' if compiled else 'eager'}", {"mlp": mlp, "gpt2": gpt2}[name](compiled))
