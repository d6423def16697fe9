"""The programs of `benches/short_axes.rs` in PyTorch, eager: medians of many runs on two threads.

    python3 benches/peers/short_axes.py
"""

import torch

from medians import microseconds

torch.set_num_threads(2)
torch.manual_seed(0)


def pairs(x):
    return x.unsqueeze(0) - x.unsqueeze(1)


def gain(x):
    light = x.mean(2, keepdim=True)
    return x * (light.tanh() / (light.abs() + 0.1))


def bodies(x, m):
    d = pairs(x)
    near = (d.square().sum(-1) + 0.01).pow(-1.5)
    return (d * (near * m).unsqueeze(-1)).sum(1)


def flock(x):
    d = pairs(x)
    return (d * (-d.square().sum(-1)).exp().unsqueeze(-1)).sum(1)


def splats(p, c, colour):
    d = (p.unsqueeze(1) - c.unsqueeze(0)).square().sum(-1)
    return ((-d).exp().unsqueeze(-1) * colour).sum(1)


def rotate(x, angle):
    c, s = angle.cos(), angle.sin()
    a, b, z = x.unbind(1)
    return torch.stack([a * c - b * s, a * s + b * c, z], 1)


def attend(x, y):
    return (x @ y.transpose(1, 2)).softmax(-1) @ y


def blocks(x, c):
    coded = c @ x.reshape(64, 8, 64, 8).permute(0, 2, 1, 3) @ c.t()
    decoded = c.t() @ ((coded * 4).round() * 0.25) @ c
    return decoded.permute(0, 2, 1, 3).reshape(512, 512)


def exchange(x):
    a, b = x.unbind(2)
    return torch.stack([torch.minimum(a, b), torch.maximum(a, b)], 2)


def twice(low, details):
    across, down, both = details
    n = low.shape[0]
    left = torch.stack([low + across, low - across], 2).reshape(n, 2 * n)
    right = torch.stack([down + both, down - both], 2).reshape(n, 2 * n)
    return torch.stack([left + right, left - right], 1).reshape(2 * n, 2 * n)


CASES = {
    "scale_rows_3": ([(100_000, 3), (100_000,)], lambda x, s: x * s.exp().unsqueeze(1)),
    "bias_3": ([(100_000, 3), (3,)], lambda x, b: x + b),
    "bias_8": ([(100_000, 8), (8,)], lambda x, b: x + b),
    "normalise_3": ([(100_000, 3)], lambda x: x / (x.square().sum(1, keepdim=True) + 1e-6).sqrt()),
    "softmax_4": ([(100_000, 4)], lambda x: x.softmax(1)),
    "softmax_8": ([(100_000, 8)], lambda x: x.softmax(1)),
    "argmax_5": ([(100_000, 5)], lambda x: x.argmax(1)),
    "layer_norm_4": ([(100_000, 4)], lambda x: torch.nn.functional.layer_norm(x, (4,))),
    "standardise_3": ([(100_000, 3)], lambda x: (x - x.mean(0)) / x.std(0)),
    "mean_colours": ([(256, 256, 3)], lambda x: x.exp().mean((0, 1))),
    "gain_colours": ([(256, 256, 3)], gain),
    "bodies_300": ([(300, 3), (300,)], bodies),
    "flock_300": ([(300, 2)], flock),
    "splats_64": ([(4096, 2), (64, 2), (64, 3)], splats),
    "rays_2048": ([(2048, 64), (2048, 64, 3)], lambda s, c: ((-s.square()).exp().unsqueeze(-1) * c).sum(1)),
    "rotate_points": ([(100_000, 3), (100_000,)], rotate),
    "products_3": ([(20_000, 3, 3), (20_000, 3, 3)], torch.matmul),
    "products_8": ([(4000, 8, 8), (4000, 8, 8)], torch.matmul),
    "attention_8": ([(1024, 8, 8), (1024, 8, 8)], attend),
    "softmax_12_of_8": ([(500, 12, 8)], lambda x: x.softmax(1)),
    "blocks_8": ([(512, 512), (8, 8)], blocks),
    "exchange_4": ([(64, 32, 2, 4)], exchange),
    "haar_2": ([(64, 64), (3, 64, 64), (3, 128, 128)], lambda x, a, b: twice(twice(x, a), b)),
    "swap_8": ([(64, 8, 64, 8)], lambda x: x.permute(0, 2, 1, 3).contiguous()),
}

for name, (shapes, program) in CASES.items():
    inputs = [torch.randn(shape) for shape in shapes]
    print(f"{name:16} {microseconds(lambda: program(*inputs)):9.1f} us")
