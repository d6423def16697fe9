"""The networks of `cuda_networks.rs` in PyTorch: eager, compiled, and compiled and replayed as one CUDA graph. Prints
milliseconds of a call, the first call's seconds and memory. Words choose rows by parts of their names."""

import math
import sys
import time

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16
VOCABULARY, LAYERS, WIDTH, HEADS, KEY_HEADS, INNER, CACHE, PROMPT = 128256, 16, 2048, 32, 8, 8192, 1024, 511
HEAD = WIDTH // HEADS
ROUNDS = 7


def randn(*shape):
    return (torch.randn(*shape, device="cuda") * 0.02).to(BF16)


def measure(name, calls, call):
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    start = time.time()
    call()
    torch.cuda.synchronize()
    cold = time.time() - start
    for _ in range(5):
        call()
    torch.cuda.reset_peak_memory_stats()
    times = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    peak = (torch.cuda.max_memory_allocated() - before) >> 20
    print(f"row {name} {sorted(times)[ROUNDS // 2]:.4f} ms, first {cold:.3f} s, {peak} MiB beyond {before >> 20} MiB", flush=True)


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class Llama:
    def __init__(self):
        keys = KEY_HEADS * HEAD
        shapes = [(WIDTH, WIDTH), (keys, WIDTH), (keys, WIDTH), (WIDTH, WIDTH), (INNER, WIDTH), (INNER, WIDTH), (WIDTH, INNER)]
        ones = torch.ones(WIDTH, device="cuda", dtype=BF16)
        self.layers = [(ones.clone(), ones.clone(), *[randn(*s) for s in shapes]) for _ in range(LAYERS)]
        self.embedding, self.norm = randn(VOCABULARY, WIDTH), ones
        frequencies = torch.exp(torch.arange(HEAD // 2, device="cuda") * (-2 * math.log(500000.0) / HEAD))
        angles = torch.arange(CACHE, device="cuda")[:, None] * frequencies
        angles = torch.cat([angles, angles], 1)
        self.cos, self.sin = angles.cos().to(BF16), angles.sin().to(BF16)

    def forward(self, tokens, positions, caches):
        b, t = tokens.shape
        cos, sin = self.cos[positions], self.sin[positions]
        mask = torch.arange(CACHE, device="cuda") <= positions[:, None]
        x = F.embedding(tokens, self.embedding)
        for (n1, n2, q, k, v, o, gate, up, down), cache in zip(self.layers, caches):
            h = F.rms_norm(x, (WIDTH,), n1, 1e-5)
            q = rotate(F.linear(h, q).view(b, t, HEADS, HEAD).transpose(1, 2), cos, sin)
            k = rotate(F.linear(h, k).view(b, t, KEY_HEADS, HEAD).transpose(1, 2), cos, sin)
            v = F.linear(h, v).view(b, t, KEY_HEADS, HEAD).transpose(1, 2)
            cache[0].index_copy_(2, positions, k)
            cache[1].index_copy_(2, positions, v)
            y = F.scaled_dot_product_attention(q, cache[0], cache[1], mask, enable_gqa=True)
            x = x + F.linear(y.transpose(1, 2).reshape(b, t, WIDTH), o)
            h = F.rms_norm(x, (WIDTH,), n2, 1e-5)
            x = x + F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)
        return F.linear(F.rms_norm(x[:, -1:], (WIDTH,), self.norm, 1e-5), self.embedding).argmax(-1)


def caches(batch):
    return [[torch.zeros(batch, KEY_HEADS, CACHE, HEAD, device="cuda", dtype=BF16) for _ in range(2)] for _ in range(LAYERS)]


def decode(batch):
    model, cache = Llama(), caches(batch)
    token = torch.randint(VOCABULARY, (batch, 1), device="cuda")
    position = torch.full((1,), PROMPT, device="cuda")

    def step():
        token.copy_(model.forward(token, position, cache))
        # The same range of positions again and again.
        position.copy_((position + 1 - PROMPT) % (CACHE - PROMPT) + PROMPT)

    return step


def prefill():
    model, cache = Llama(), caches(1)
    tokens, positions = torch.randint(VOCABULARY, (1, 512), device="cuda"), torch.arange(512, device="cuda")
    return lambda: model.forward(tokens, positions, cache)


def gpt2():
    b, t, d, heads = 8, 1024, 768, 12
    ones = torch.ones(d, device="cuda", dtype=BF16)
    layers = [
        (ones, randn(d), randn(3 * d, d), randn(3 * d), randn(d, d), randn(d), ones, randn(d), randn(4 * d, d), randn(4 * d), randn(d, 4 * d), randn(d))
        for _ in range(12)
    ]
    embedding, place, scale, shift = randn(50257, d), randn(t, d), ones, randn(d)
    tokens, targets = (torch.randint(50257, (b, t), device="cuda") for _ in range(2))

    def run():
        x = F.embedding(tokens, embedding) + place
        for g1, s1, qkv, bq, o, bo, g2, s2, up, bu, down, bd in layers:
            h = F.linear(F.layer_norm(x, (d,), g1, s1), qkv, bq)
            q, k, v = h.view(b, t, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + F.linear(y.transpose(1, 2).reshape(b, t, d), o, bo)
            h = F.linear(F.layer_norm(x, (d,), g2, s2), up, bu)
            x = x + F.linear(F.gelu(h, approximate="tanh"), down, bd)
        logits = F.linear(F.layer_norm(x, (d,), scale, shift), embedding).view(b * t, -1)
        return F.cross_entropy(logits.float(), targets.view(-1))

    return run


def graphed(call):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


ROWS = {
    "llama_decode_b1": (lambda: decode(1), 64),
    "llama_decode_b8": (lambda: decode(8), 64),
    "llama_decode_b32": (lambda: decode(32), 64),
    "llama_prefill_512": (prefill, 10),
    "gpt2_forward": (gpt2, 10),
}


@torch.no_grad()
def main():
    words = sys.argv[1:]
    for name, (make, calls) in ROWS.items():
        if words and not any(word in name for word in words):
            continue
        call = make()
        measure(name + " eager", calls, call)
        torch._dynamo.reset()
        compiled = torch.compile(call)
        measure(name + " compiled", calls, compiled)
        measure(name + " graph", calls, graphed(compiled))
        del call, compiled
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
