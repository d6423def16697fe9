"""The layers of `layers.txt` in PyTorch, on a CUDA device where there is one: microseconds of a call, eager and compiled.

    python3 layers.py LIST [--compile] [--benchmark] [--threads N] [WORD ..]

`--compile` adds torch.compile, `--benchmark` lets cuDNN try its algorithms; words choose lines by parts of them.
"""

import argparse
import time

import torch
import torch.nn.functional as F

torch.backends.cuda.matmul.allow_tf32 = False
torch.backends.cudnn.allow_tf32 = False
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CALLS, ROUNDS, LONG = 10, 9, 0.5


class Layer:
    def __init__(self, line):
        words = line.split()
        self.op = words[1]
        self.dtype = {"bf16": torch.bfloat16, "f16": torch.float16}.get(words[2], torch.float32)
        self.attributes = dict(word.split("=") for word in words[3:])

    def sizes(self, name):
        text = self.attributes.get(name, "")
        return [int(n) for n in text.split("x")] if text else []

    def number(self, name, missing=0):
        return (self.sizes(name) or [missing])[0]

    def operands(self):
        x, w = self.sizes("x"), self.sizes("w")

        def randn(shape):
            return torch.randn(shape, dtype=self.dtype, device=DEVICE)

        if self.op == "cross_entropy":
            return [randn(x), torch.randint(0, x[1], (x[0],), device=DEVICE)]
        if self.op in ("mse", "hinge", "smooth_l1", "kl_div"):
            return [randn(x), randn(x)]
        if self.op in ("layer_norm", "rms_norm"):
            return [randn(x), randn(x[1:]), randn(x[1:])]
        if self.op in ("batch_norm", "group_norm"):
            return [randn(x), randn(x[1:2]), randn(x[1:2])]
        if self.op == "linear":
            return [randn(x), randn(w) * 0.03, randn(w[:1])]
        if self.op.startswith("linear"):
            return [randn(x), randn(w) * 0.03, randn(w[:1]), randn(w[:1])]
        return [randn(x), randn(w) * 0.03] if w else [randn(x)]

    def run(self, x):
        y = self.layer(x)
        then = self.attributes.get("then")
        return getattr(F, then)(y) if then in ("relu", "gelu", "silu") else torch.tanh(y) if then else y

    def layer(self, x):
        op, a, dims = self.op, x[0], self.sizes("dim")
        if op.startswith("conv_transpose"):
            names = ("stride", "padding", "output_padding", "groups", "dilation")
            missing = (1, 0, 0, 1, 1)
            rest = [self.number(name, m) for name, m in zip(names, missing)]
            return getattr(F, op)(a, x[1], None, *rest)
        if op.startswith("conv"):
            rest = [self.number("stride", 1), self.number("padding"), self.number("dilation", 1), self.number("groups", 1)]
            return getattr(F, op)(a, x[1], None, *rest)
        if "pool" in op:
            return getattr(F, op)(a, self.number("window"), self.number("stride"), self.number("padding"))
        if op == "linear_batch_norm":
            return F.batch_norm(a @ x[1].t(), None, None, x[2], x[3], True, 0.1, 1e-5)
        if op == "linear_layer_norm":
            return F.layer_norm(a @ x[1].t(), x[2].shape, x[2], x[3], 1e-5)
        layers = {
            "linear": lambda: F.linear(a, x[1], x[2]),
            "layer_norm": lambda: F.layer_norm(a, a.shape[1:], x[1], x[2], 1e-5),
            "rms_norm": lambda: F.rms_norm(a, a.shape[1:], x[1], 1e-5),
            "batch_norm": lambda: F.batch_norm(a, None, None, x[1], x[2], True, 0.1, 1e-5),
            "group_norm": lambda: F.group_norm(a, self.number("groups", 1), x[1], x[2], 1e-5),
            "instance_norm": lambda: F.instance_norm(a),
            "softmax": lambda: F.softmax(a, 1),
            "log_softmax": lambda: F.log_softmax(a, 1),
            "sum": lambda: a.sum(dims),
            "mean": lambda: a.mean(dims),
            "var": lambda: a.var(dims),
            "argmax": lambda: a.argmax(dims[0]),
            "norm": lambda: torch.linalg.vector_norm(a),
            "cumsum": lambda: a.cumsum(dims[0]),
            "cumsum_exclusive": lambda: torch.cat([torch.zeros_like(a[:, :1]), a.cumsum(1)[:, :-1]], 1),
            "mse": lambda: F.mse_loss(a, x[1]),
            "hinge": lambda: (1 - a * x[1]).clamp_min(0).mean(),
            "kl_div": lambda: F.kl_div(F.log_softmax(a, 1), F.softmax(x[1], 1), reduction="mean"),
            "smooth_l1": lambda: F.smooth_l1_loss(a, x[1]),
            "cross_entropy": lambda: F.cross_entropy(a, x[1]),
            "softplus": lambda: F.softplus(a),
            "mish": lambda: F.mish(a),
            "erf": lambda: torch.erf(a),
            "log1p": lambda: torch.log1p(a.abs()),
            "gelu": lambda: F.gelu(a),
        }
        return layers[op]()


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(f):
    for _ in range(5):
        f()
    synchronize()
    times, start = [], time.time()
    while len(times) < ROUNDS and (not times or time.time() - start < LONG):
        begin = time.perf_counter()
        if DEVICE == "cuda":
            events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            events[0].record()
        for _ in range(CALLS):
            f()
        if DEVICE == "cuda":
            events[1].record()
            torch.cuda.synchronize()
            times.append(events[0].elapsed_time(events[1]) * 1e3 / CALLS)
        else:
            times.append((time.perf_counter() - begin) * 1e6 / CALLS)
    return sorted(times)[len(times) // 2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("list")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--benchmark", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = options.benchmark
    if options.threads:
        torch.set_num_threads(options.threads)
    for line in open(options.list):
        line = line.strip()
        if not line or line.startswith("#") or options.words and not any(w in line for w in options.words):
            continue
        layer = Layer(line)
        operands = layer.operands()
        try:
            with torch.no_grad():
                times = [timed(lambda: layer.run(operands))]
                if options.compile:
                    torch.compiler.reset()
                    compiled = torch.compile(layer.run)
                    times.append(timed(lambda: compiled(operands)))
            print(f"{line} | " + " ".join(f"{t:.2f} us" for t in times), flush=True)
        except Exception as error:  # noqa: BLE001
            print(f"{line} | {type(error).__name__}", flush=True)
        del operands


main()
