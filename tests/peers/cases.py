"""Random hostile operator calls and what PyTorch makes of them, one JSON object a line.

    python3 tests/peers/cases.py COUNT SEED > cases.jsonl
    cargo run --release --example peer_cases < cases.jsonl

Shapes are small, often empty or without dimensions; numbers are often beyond a dtype, indices out of range. Random
numbers are drawn from SEED alone.
"""

import json
import math
import random
import sys
import warnings

import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")
DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}
NAMES = {value: key for key, value in DTYPES.items()}
SHAPES = [[], [1], [0], [3], [5], [2, 3], [3, 1], [1, 3], [0, 2], [2, 0], [2, 2, 3], [1, 1, 1]]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.7, -3.7, 255.0, 256.0, 300.0, 65504.0, 65520.0, 1e-40, 1e39, math.inf, -math.inf, math.nan]
NUMBERS = [0, 1, -1, 2, 3, 7, 127, 128, 255, 256, 300, -129, 1 << 31, 1 << 40, 0.5, -0.5, 3.7, -3.7, 1e6, 1e39, math.inf, math.nan, True]
rng = random.Random()


def plain(value):
    """A number as JSON has it: what is not finite as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def spelt(tensor):
    data = tensor.reshape(-1)
    if tensor.dtype.is_floating_point:
        data = data.to(torch.float64)
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data": [plain(v) for v in data.tolist()]}


def tensor(dtype=None, shape=None, special=0.2):
    dtype = dtype or rng.choice(list(DTYPES))
    shape = rng.choice(SHAPES) if shape is None else shape
    count = math.prod(shape)
    if dtype[0] in "fb" and dtype != "bool":
        values = [rng.choice(SPECIAL) if rng.random() < special else rng.randint(-16, 16) / 4 for _ in range(count)]
    elif dtype == "bool":
        values = [rng.random() < 0.5 for _ in range(count)]
    else:
        info = torch.iinfo(DTYPES[dtype])
        edges = [info.min, info.max, 0, 1, 100]
        values = [rng.choice(edges) if rng.random() < special else rng.randint(max(info.min, -9), 9) for _ in range(count)]
    values = torch.tensor(values, dtype=torch.float64 if dtype[0] in "fb" and dtype != "bool" else None)
    return values.to(DTYPES[dtype]).reshape(shape)


def indices(shape, size):
    """Mostly in range, seldom below or beyond."""
    count = math.prod(shape)
    odd = rng.random() < 0.25
    draw = lambda: rng.randint(-2, size + 1) if odd else rng.randint(0, max(size - 1, 0))
    return torch.tensor([draw() for _ in range(count)], dtype=torch.int64).reshape(shape)


def dim(x):
    return rng.randint(-max(x.dim(), 1) - (rng.random() < 0.1), max(x.dim(), 1) - (rng.random() < 0.9))


def partner(x):
    """A tensor that often broadcasts with `x`."""
    shape = [size if rng.random() < 0.7 else 1 for size in x.shape][rng.randint(0, 1) * (x.dim() > 1):]
    return tensor(NAMES[x.dtype] if rng.random() < 0.5 else None, shape if rng.random() < 0.85 else None)


UNARY = "abs neg sign sqrt exp log floor ceil round trunc square logical_not bitwise_not isnan isinf isfinite relu sigmoid tanh recip frac".split()
BINARY = "add sub mul maximum minimum eq ne lt le gt ge logical_and logical_or bitwise_and bitwise_xor floor_divide remainder fmod pow".split()
REDUCTIONS = "sum prod max min any all argmax argmin mean logsumexp count_nonzero".split()
ALONG = "cumsum cumprod softmax log_softmax sort".split()
TORCH = {"recip": "reciprocal", "max": "amax", "min": "amin"}


def torch_of(name):
    return getattr(torch, TORCH.get(name, name))


def case():
    """A call: its name, tensors, arguments, and a function that has PyTorch do it."""
    kind = rng.randrange(22)
    x = tensor()
    d, v = dim(x), rng.choice(NUMBERS)
    if kind == 0:
        name = rng.choice(UNARY)
        return name, [x], [], lambda: torch_of(name)(x)
    if kind == 1:
        name, y = rng.choice(BINARY), partner(x)
        return name, [x, y], [], lambda: torch_of(name)(x, y)
    if kind == 2:
        name = rng.choice("add sub mul eq lt floor_divide remainder fmod pow".split())
        return name + "_number", [x], [v], lambda: torch_of(name)(x, v)
    if kind in (3, 4):
        name = rng.choice(REDUCTIONS)
        return name, [x], [d], lambda: torch_of(name)(x, d)
    if kind == 5:
        name = rng.choice(ALONG)
        if name == "sort":
            return name, [x], [d], lambda: torch.sort(x, dim=d, stable=True)[0]
        return name, [x], [d], lambda: torch_of(name)(x, d)
    if kind == 6:
        return "full", [], [list(x.shape), v, NAMES[x.dtype]], lambda: torch.full(x.shape, v, dtype=x.dtype)
    if kind == 7:
        mask = torch.rand(x.shape, generator=torch.Generator().manual_seed(rng.randrange(1 << 30))) < 0.5
        if rng.random() < 0.5:
            return "masked_fill", [x, mask], [v], lambda: x.masked_fill(mask, v)
        return "where_cond", [x, mask], [v], lambda: torch.where(mask, x, v)
    if kind == 8:
        low, high = rng.choice(NUMBERS), rng.choice(NUMBERS)
        which = rng.randrange(3)
        if which == 0:
            return "clamp_min", [x], [low], lambda: x.clamp(min=low)
        if which == 1:
            return "clamp_max", [x], [high], lambda: x.clamp(max=high)
        return "clamp", [x], [low, high], lambda: x.clamp(low, high)
    if kind == 9:
        pads = [[rng.randint(-1, 2), rng.randint(-1, 2)] for _ in x.shape]
        flat = [n for pair in reversed(pads) for n in pair]
        return "pad", [x], [pads, v], lambda: F.pad(x, flat, value=v)
    if kind == 10:
        a, b, s = (rng.choice([rng.randint(-5, 9), rng.randint(-20, 40) / 8]) for _ in range(3))
        t = rng.choice([n for n in DTYPES if n != "bool"])
        return "arange", [], [a, b, s, t], lambda: torch.arange(a, b, s, dtype=DTYPES[t])
    if kind == 11:
        a, b = (rng.choice([rng.randint(-5, 300), rng.randint(-20, 40) / 8]) for _ in range(2))
        n = rng.randint(0, 7)
        t = rng.choice([n for n in DTYPES if n != "bool"])
        return "linspace", [], [a, b, n, t], lambda: torch.linspace(a, b, n, dtype=DTYPES[t])
    size = x.shape[d] if x.dim() and -x.dim() <= d < x.dim() else 1
    if kind == 12:
        i = indices(rng.choice([[], [1], [2], [0], [3]]), size).abs()
        return "index_select", [x, i], [d], lambda: x.index_select(d, i)
    if kind == 13:
        shape = [rng.randint(0, n) for n in x.shape]
        i = indices(shape, size).abs()
        return "gather", [x, i], [d], lambda: x.gather(d, i)
    if kind == 14:
        shape = [rng.randint(0, n) for n in x.shape]
        i, src = indices(shape, size).abs(), tensor(NAMES[x.dtype] if rng.random() < 0.8 else None, shape, 0)
        name = rng.choice(["scatter_add", "amax", "amin"])
        if name == "scatter_add":
            return name, [x, i, src], [d], lambda: x.scatter_add(d, i, src)
        return "scatter_" + name, [x, i, src], [d], lambda: x.scatter_reduce(d, i, src, name)
    if kind == 15:
        n = rng.randint(1, 4)
        i = indices(rng.choice(SHAPES), n)
        return "one_hot", [i], [n], lambda: F.one_hot(i, n)
    if kind == 16:
        x, n = tensor(rng.choice(["f32", "f64"]), [rng.randint(1, 4), 3], 0), rng.random()
        t = indices([x.shape[0]], 3)
        if rng.random() < 0.3:
            t[0] = -100
        if n < 0.5:
            return "nll_loss", [x, t], [], lambda: F.nll_loss(x, t)
        return "cross_entropy", [x, t], [], lambda: F.cross_entropy(x, t)
    if kind == 17:
        x = tensor(shape=[2, 3])
        y = tensor(NAMES[x.dtype], [3, 2])
        equation = rng.choice(["ij->", "ij->j", "ij->ji", "ij,jk->ik", "ij,ji->"])
        if "," in equation:
            return "einsum", [x, y], [equation], lambda: torch.einsum(equation, x, y)
        return "einsum", [x], [equation], lambda: torch.einsum(equation, x)
    if kind == 18:
        size, step = rng.randint(0, 3), rng.randint(0, 2)
        return "unfold", [x], [d, size, step], lambda: x.unfold(d, size, step)
    if kind == 19:
        start, n = rng.randint(-2, 3), rng.randint(0, 3)
        return "narrow", [x], [d, start, n], lambda: x.narrow(d, start, n)
    if kind == 20:
        name = rng.choice(["flip", "squeeze", "unsqueeze", "roll", "cummax", "topk"])
        if name == "roll":
            return name, [x], [1, d], lambda: x.roll(1, d)
        if name == "cummax":
            return name, [x], [d], lambda: x.cummax(d)[0]
        if name == "topk":
            return name, [x], [1, d], lambda: x.topk(1, d)[0]
        return name, [x], [d], lambda: getattr(x, name)(d)
    y = tensor(NAMES[x.dtype] if rng.random() < 0.6 else None, list(x.shape) if rng.random() < 0.8 else None)
    name = rng.choice(["cat", "stack"])
    return name, [x, y], [d], lambda: getattr(torch, name)([x, y], d)


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    rng.seed(seed)
    for number in range(count):
        name, tensors, arguments, run = case()
        line = {"case": number, "op": name, "tensors": [spelt(t) for t in tensors]}
        line["arguments"] = [plain(a) for a in arguments]
        try:
            line["want"] = spelt(run())
        except Exception as error:  # What PyTorch refuses.
            line["refused"] = f"{type(error).__name__}: {str(error).splitlines()[0][:120] if str(error) else ''}"
        print(json.dumps(line, allow_nan=False))


main()
