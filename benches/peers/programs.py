"""The programs of `benches/programs` in PyTorch: microseconds of a call, the first call's milliseconds, and the mean magnitude
of the first result.

    python3 programs.py [cuda | cpu] [--compile [--mode MODE]] [--threads N] [NAME ..]

Names choose programs by parts of them; inputs of others are not made. f32 is IEEE's: TF32 is off.
"""

import argparse
import math
import time

import numpy as np
import torch
import torch.nn.functional as F

import inputs as shared

torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False
ROUNDS, SAMPLE, MOST_CALLS = 5, 0.05, 20
PROGRAMS = {}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def wave(shape, seed, scale):
    """An input of f32: a sine of the position, whose phase is the seed's."""
    k = np.arange(math.prod(shape), dtype=np.float64)
    values = scale * np.sin(k * 1.2345 + seed * 7.7)
    return torch.tensor(values.astype(np.float32).reshape(shape), device=DEVICE)


def normal(shape, seed, scale):
    """An input of f32 whose rows and columns are independent."""
    return torch.tensor(shared.normal(shape, seed, scale), device=DEVICE)


def ids(shape, seed, bound):
    """An input of i64 below a bound."""
    k = np.arange(math.prod(shape), dtype=np.int64)
    return torch.tensor(((k * 7919 + seed * 104729 + k // 13 * 31) % bound).reshape(shape), device=DEVICE)


def zeros(*shape):
    return torch.zeros(*shape, device=DEVICE)


def halved(tensors):
    return [x.bfloat16() for x in tensors]


def program(make):
    """Adds a function of a list of inputs, which `make` makes, to the programs."""

    def add(function):
        PROGRAMS[function.__name__] = (make, function)
        return function

    return add


# Training steps


def with_moments(data, parameters):
    return data + parameters + [torch.zeros_like(p) for p in parameters]


def leaves(tensors):
    return [x.detach().requires_grad_() for x in tensors]


def state(x):
    """The inputs behind the data, half of them parameters, half moments."""
    half = len(x) // 2
    return leaves(x[:half]), x[half:]


def descend(loss, parameters, moments):
    """A step of gradient descent with momentum 0.9 and rate 0.01."""
    gradients = torch.autograd.grad(loss, parameters)
    results, following = [loss.detach()], []
    with torch.no_grad():
        for p, m, g in zip(parameters, moments, gradients):
            m = m * 0.9 + g
            results.append(p - m * 0.01)
            following.append(m)
    return results + following


def mlp_inputs():
    shapes = [(1024, 784), (1024,), (1024, 1024), (1024,), (10, 1024), (10,)]
    parameters = [wave(s, i + 1, 0.01 if i % 2 else 0.03) for i, s in enumerate(shapes)]
    return with_moments([wave((256, 784), 7, 1.0), ids((256,), 1, 10)], parameters)


@program(mlp_inputs)
def mlp_train(x):
    p, moments = state(x[2:])
    h = F.linear(x[0], p[0], p[1]).relu()
    h = F.linear(h, p[2], p[3]).relu()
    return descend(F.cross_entropy(F.linear(h, p[4], p[5]), x[1]), p, moments)


def cnn_inputs():
    parameters = []
    for i, (to, given) in enumerate([(32, 3), (64, 32), (128, 64)]):
        parameters += [wave((to, given, 3, 3), 10 + i, 0.1), wave((to,), 20 + i, 0.1) + 1, wave((to,), 30 + i, 0.1)]
    parameters += [wave((10, 2048), 40, 0.02), wave((10,), 41, 0.01)]
    return with_moments([wave((128, 3, 32, 32), 7, 1.0), ids((128,), 1, 10)], parameters)


@program(cnn_inputs)
def cnn_train(x):
    p, moments = state(x[2:])
    h = x[0]
    for i in range(3):
        weight, scale, shift = p[3 * i : 3 * i + 3]
        h = F.conv2d(h, weight, padding=1)
        h = F.max_pool2d(F.batch_norm(h, None, None, scale, shift, True).relu(), 2)
    logits = F.linear(h.flatten(1), p[9], p[10])
    return descend(F.cross_entropy(logits, x[1]), p, moments)


def attention(x, qkv, out, heads, causal):
    batch, length, width = x.shape
    split = F.linear(x, qkv).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(split[0], split[1], split[2], is_causal=causal)
    return F.linear(y.transpose(1, 2).reshape(batch, length, width), out)


LAYERS, HEADS, BATCH, LENGTH, WIDTH, VOCABULARY = 4, 4, 16, 256, 256, 512


def gpt_inputs():
    d = WIDTH
    parameters = [wave((VOCABULARY, d), 1, 0.1), wave((LENGTH, d), 2, 0.1)]
    for i in range(LAYERS):
        parameters += [wave((d,), 3 + i, 0.1) + 1, wave((d,), 4 + i, 0.1)]
        parameters += [wave((3 * d, d), 5 + i, 0.06), wave((d, d), 6 + i, 0.06)]
        parameters += [wave((d,), 7 + i, 0.1) + 1, wave((d,), 8 + i, 0.1)]
        parameters += [wave((4 * d, d), 9 + i, 0.06), wave((d, 4 * d), 10 + i, 0.03)]
    data = [ids((BATCH, LENGTH), 1, VOCABULARY), ids((BATCH * LENGTH,), 2, VOCABULARY)]
    return with_moments(data, parameters)


@program(gpt_inputs)
def gpt_train(x):
    p, moments = state(x[2:])
    h = F.embedding(x[0], p[0]) + p[1]
    for i in range(LAYERS):
        q = p[2 + 8 * i : 10 + 8 * i]
        h = h + attention(F.layer_norm(h, (WIDTH,), q[0], q[1]), q[2], q[3], HEADS, True)
        h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (WIDTH,), q[4], q[5]), q[6])), q[7])
    logits = F.linear(h.reshape(BATCH * LENGTH, WIDTH), p[0])
    return descend(F.cross_entropy(logits, x[1]), p, moments)


def nerf_inputs():
    shapes = [(128, 63), (128,), (128, 128), (128,), (4, 128), (4,)]
    parameters = [wave(s, i + 2, 0.1) for i, s in enumerate(shapes)]
    return with_moments([wave((4096, 64, 3), 1, 1.0), wave((4096, 3), 9, 1.0)], parameters)


@program(nerf_inputs)
def nerf_train(x):
    p, moments = state(x[2:])
    encoded = [x[0]]
    for i in range(10):
        scaled = x[0] * (1 << i)
        encoded += [scaled.sin(), scaled.cos()]
    h = F.linear(torch.cat(encoded, 2), p[0], p[1]).relu()
    h = F.linear(F.linear(h, p[2], p[3]).relu(), p[4], p[5])
    alpha = 1 - (-(h[..., 3].relu()) * 0.05).exp()
    passed = (1 - alpha + 1e-10).cumprod(1)
    passed = torch.cat([torch.ones_like(passed[:, :1]), passed[:, :63]], 1)
    colour = ((alpha * passed)[..., None] * h[..., :3].sigmoid()).sum(1)
    return descend(F.mse_loss(colour, x[1]), p, moments)


@program(lambda: halved([wave((4096, 768), 1, 1.0), wave((50257, 768), 2, 0.03)]) + [ids((4096,), 1, 50257)])
def ce_large_bf16(x):
    p = leaves(x[:2])
    loss = F.cross_entropy(F.linear(p[0], p[1]).float(), x[2])
    return [loss.detach(), *torch.autograd.grad(loss, p)]


# Networks of images and blocks of transformers


def vit_inputs():
    d, weights = 384, []
    for i in range(6):
        weights += [wave((3 * d, d), 5 + i, 0.06), wave((d, d), 6 + i, 0.06)]
        weights += [wave((4 * d, d), 9 + i, 0.06), wave((d, 4 * d), 10 + i, 0.03)]
        weights += [wave((d,), 7 + i, 0.1) + 1, wave((d,), 8 + i, 0.1)]
    return halved([wave((64, 3, 224, 224), 3, 1.0), *weights, wave((d, 768), 77, 0.05)])


@program(vit_inputs)
def vit_bf16(x):
    patches = x[0].reshape(64, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).reshape(64, 196, 768)
    h = F.linear(patches, x[37])
    for i in range(6):
        q = x[1 + 6 * i : 7 + 6 * i]
        h = h + attention(F.layer_norm(h, (384,), q[4], q[5]), q[0], q[1], 6, False)
        h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (384,), q[4], q[5]), q[2])), q[3])
    return [h.mean(1)]


def unet_inputs():
    shapes = [(64, 64, 3, 3), (128, 64, 3, 3), (128, 128, 3, 3), (64, 192, 3, 3)]
    weights = [wave(s, i + 2, scale) for i, (s, scale) in enumerate(zip(shapes, (0.05, 0.05, 0.03, 0.03)))]
    norms = [wave((64,), 6, 0.1) + 1, wave((64,), 7, 0.1), wave((128,), 8, 0.1) + 1, wave((128,), 9, 0.1)]
    return [wave((8, 64, 64, 64), 1, 1.0), *weights, *norms, wave((8, 128), 10, 1.0)]


@program(unet_inputs)
def unet_fwd(x):
    def norm(h, weight, bias):
        return F.silu(F.group_norm(h, 8, weight, bias))

    skip = x[0] + norm(F.conv2d(x[0], x[1], padding=1), x[5], x[6])
    down = F.conv2d(skip, x[2], stride=2, padding=1)
    inner = F.conv2d(norm(down + x[9][:, :, None, None], x[7], x[8]), x[3], padding=1) + down
    up = F.interpolate(inner, size=(64, 64), mode="nearest")
    return [norm(F.conv2d(torch.cat([up, skip], 1), x[4], padding=1), x[5], x[6])]


@program(lambda: halved([wave((8, 16, 1024, 64), i, 1.0) for i in range(3)]))
def alibi_bf16(x):
    i = torch.arange(1024, device=DEVICE).float()
    distance = i[None] - i[:, None]
    slope = torch.exp2(torch.arange(1, 17, device=DEVICE) * -0.5).reshape(16, 1, 1)
    mask = torch.where(distance > 0, -math.inf, distance * slope).bfloat16()
    return [F.scaled_dot_product_attention(x[0], x[1], x[2], mask)]


def mlpblock_inputs():
    weights = [wave((4096, 1024), 2, 0.03), wave((4096,), 3, 0.1), wave((1024, 4096), 4, 0.02)]
    return halved([wave((8192, 1024), 1, 1.0), *weights, wave((1024,), 5, 0.1), wave((1024,), 6, 0.1) + 1])


@program(mlpblock_inputs)
def mlpblock_bf16(x):
    h = F.layer_norm(x[0], (1024,), x[5], x[4])
    return [x[0] + F.linear(F.gelu(F.linear(h, x[1], x[2])), x[3], x[4])]


def conv3d_inputs():
    first = [wave((2, 16, 32, 64, 64), 1, 1.0), wave((32, 16, 3, 3, 3), 2, 0.05), wave((32,), 3, 0.1)]
    return first + [wave((64, 32, 3, 3, 3), 4, 0.04), wave((64,), 5, 0.1)]


@program(conv3d_inputs)
def conv3d(x):
    h = F.max_pool3d(F.conv3d(x[0], x[1], x[2], padding=1).relu(), 2)
    return [F.conv3d(h, x[3], x[4], padding=1).relu().mean((2, 3, 4))]


def mbconv_inputs():
    weights = [wave((384, 96, 1, 1), 2, 0.1), wave((384, 1, 3, 3), 3, 0.3), wave((96, 384, 1, 1), 4, 0.05)]
    biases = [wave((384,), 5, 0.1), wave((96,), 6, 0.1)]
    return [wave((32, 96, 56, 56), 1, 1.0), *weights, *biases, wave((24, 384), 7, 0.1), wave((384, 24), 8, 0.1)]


@program(mbconv_inputs)
def mbconv(x):
    h = F.silu(F.conv2d(x[0], x[1], x[4]))
    h = F.silu(F.conv2d(h, x[2], x[4], padding=1, groups=384))
    gate = F.linear(F.silu(F.linear(h.mean((2, 3)), x[6])), x[7]).sigmoid()
    return [F.conv2d(h * gate[..., None, None], x[3], x[5]) + x[0]]


# Networks of sequences, graphs and tables


def lstm_inputs():
    return [wave((64, 64, 256), 1, 1.0), wave((1024, 256), 2, 0.06), wave((1024, 256), 3, 0.06), wave((1024,), 4, 0.1)]


@program(lstm_inputs)
def lstm_loop(x):
    h = c = zeros(64, 256)
    rows = []
    for t in range(64):
        gates = (F.linear(x[0][t], x[1], x[3]) + F.linear(h, x[2])).chunk(4, 1)
        c = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh()
        h = gates[3].sigmoid() * c.tanh()
        rows.append(h)
    return [torch.stack(rows)]


def mamba_inputs():
    shapes = [(8, 64, 256), (256, 16), (8, 64, 16), (8, 64, 16), (8, 64, 256)]
    return [wave(s, i + 1, 1.0) for i, s in enumerate(shapes)]


@program(mamba_inputs)
def mamba_loop(x):
    decay, width = -x[1].exp(), F.softplus(x[4])
    h, rows = zeros(8, 256, 16), []
    for t in range(64):
        dt = width[:, t, :, None]
        h = (dt * decay).exp() * h + (dt * x[2][:, t, None]) * x[0][:, t, :, None]
        rows.append((h * x[3][:, t, None]).sum(-1))
    return [torch.stack(rows, 1)]


def wavenet_inputs():
    layers = [(wave((128, 64, 2), 10 + i, 0.08), wave((64, 64, 1), 20 + i, 0.1)) for i in range(8)]
    return [wave((8, 64, 8192), 1, 1.0)] + [weight for layer in layers for weight in layer]


@program(wavenet_inputs)
def wavenet(x):
    h = x[0]
    skip = torch.zeros_like(h)
    for i in range(8):
        dilation = 1 << i
        z = F.conv1d(F.pad(h, (dilation, 0)), x[1 + 2 * i], dilation=dilation).chunk(2, 1)
        out = F.conv1d(z[0].tanh() * z[1].sigmoid(), x[2 + 2 * i])
        skip = skip + out
        h = h + out
    return [skip.relu().mean(-1)]


def gat_inputs():
    weights = [wave((64, 128), 2, 0.1), wave((4, 16), 3, 1.0), wave((4, 16), 4, 1.0)]
    return [wave((20000, 128), 1, 1.0), *weights, ids((200000,), 1, 20000), ids((200000,), 2, 19997)]


@program(gat_inputs)
def gat(x):
    origin, to = x[4], x[5]
    h = F.linear(x[0], x[1]).reshape(20000, 4, 16)
    s, t = (h * x[2]).sum(-1), (h * x[3]).sum(-1)
    e = F.leaky_relu(s[origin] + t[to], 0.2)
    lowest = torch.full((20000, 4), -1e9, device=DEVICE)
    greatest = lowest.scatter_reduce(0, to[:, None].expand(200000, 4), e, "amax")
    a = (e - greatest[to]).exp()
    total = zeros(20000, 4).index_add(0, to, a)
    messages = h[origin] * (a / total[to])[..., None]
    return [F.elu(zeros(20000, 4, 16).index_add(0, to, messages))]


def dlrm_inputs():
    weights = [wave((64, 13), 4, 0.2), wave((32, 64), 5, 0.1), wave((128, 383), 6, 0.1), wave((1, 128), 7, 0.1)]
    return [wave((4096, 13), 1, 1.0), ids((4096, 26), 3, 100000), *weights, wave((2600000, 32), 8, 0.1)]


@program(dlrm_inputs)
def dlrm(x):
    dense = F.linear(F.linear(x[0], x[2]).relu(), x[3]).relu()
    rows = F.embedding(x[1] + torch.arange(26, device=DEVICE) * 100000, x[6])
    both = torch.cat([dense[:, None], rows], 1)
    products = (both @ both.transpose(1, 2)).reshape(4096, 729)
    below = torch.tensor([i * 27 + j for i in range(27) for j in range(i)], device=DEVICE)
    features = torch.cat([dense, products[:, below]], 1)
    return [F.linear(F.linear(features, x[4]).relu(), x[5]).sigmoid()]


# Simulations


@program(lambda: [wave((4096, 3), 1, 1.0), wave((4096, 3), 2, 0.1), wave((4096,), 3, 0.2) + 1])
def nbody(x):
    p, v, mass = x
    for _ in range(5):
        r = p[None] - p[:, None]
        inverse = (r.square().sum(-1) + 0.01).pow(-1.5)
        v = v + (r * (inverse * mass[None])[..., None]).sum(1) * 1e-4
        p = p + v * 0.01
    return [p, v]


@program(lambda: [wave((1024, 1024), 1, 1.0), wave((1024, 1023), 2, 1.0), wave((1023, 1024), 3, 1.0)])
def fdtd(x):
    e, hy, hx = x
    for _ in range(20):
        hy = hy + (e[:, 1:] - e[:, :-1]) * 0.5
        hx = hx - (e[1:] - e[:-1]) * 0.5
        curl = (hy[:, 1:] - hy[:, :-1])[1:-1] - (hx[1:] - hx[:-1])[:, 1:-1]
        e = e + F.pad(curl * 0.5, (1, 1, 1, 1))
    return [e]


@program(lambda: [wave((128, 128, 128), 1, 1.0)])
def heat3d(x):
    u = x[0]
    for _ in range(20):
        around = u.roll(1, 0) + u.roll(-1, 0) + u.roll(1, 1) + u.roll(-1, 1) + u.roll(1, 2) + u.roll(-1, 2)
        u = u + (around - u * 6) * 0.1
    return [u]


DIRECTIONS = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
WEIGHTS = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4


@program(lambda: [wave((9, 512, 512), 1, 0.01) + 1 / 9])
def lbm(x):
    f = x[0]
    for _ in range(10):
        g = [f[i].roll(direction, (0, 1)) for i, direction in enumerate(DIRECTIONS)]
        rho = sum(g[1:], g[0])
        ux = (g[1] + g[5] + g[8] - g[3] - g[6] - g[7]) / rho
        uy = (g[2] + g[5] + g[6] - g[4] - g[7] - g[8]) / rho
        energy = (ux.square() + uy.square()) * 1.5
        collided = []
        for part, (dy, dx), weight in zip(g, DIRECTIONS, WEIGHTS):
            along = (ux * dy + uy * dx) * 3
            equilibrium = rho * weight * (along + along.square() * 0.5 - energy + 1)
            collided.append(part + (equilibrium - part) * 0.6)
        f = torch.stack(collided)
    return [f]


@program(lambda: [wave((20, 1024, 2, 1), 1, 1.0), wave((4, 4), 2, 0.1) + torch.eye(4, device=DEVICE), wave((2, 4), 3, 1.0)])
def kalman(x):
    measured, f, h = x
    m = zeros(1024, 4, 1)
    p = torch.eye(4, device=DEVICE).expand(1024, 4, 4).contiguous()
    q, r = torch.eye(4, device=DEVICE) * 0.01, torch.eye(2, device=DEVICE) * 0.1
    for t in range(20):
        m = f @ m
        p = f @ p @ f.t() + q
        s = h @ p @ h.t() + r
        a, b, c, d = s[:, :1, :1], s[:, :1, 1:], s[:, 1:, :1], s[:, 1:, 1:]
        inverse = torch.cat([torch.cat([d, -b], 2), torch.cat([-c, a], 2)], 1) / (a * d - b * c)
        gain = p @ h.t() @ inverse
        m = m + gain @ (measured[t] - h @ m)
        p = p - gain @ h @ p
    return [m, p]


@program(lambda: [wave((1,), 1, 1.0)])
def mc_options(x):
    paths = 1 << 20
    price, total = torch.full((paths,), 100.0, device=DEVICE), zeros(paths)
    for _ in range(16):
        price = price * (torch.randn(paths, device=DEVICE) * 0.05 + 0.0001).exp()
        total = total + price
    return [(total / 16 - 100).relu().mean(0)]


@program(lambda: [wave((1024, 1), 1, 1.2), wave((1, 1024), 2, 1.5)])
def mandelbrot(x):
    ci, cr = x[0].expand(1024, 1024), x[1].expand(1024, 1024)
    zr, zi, steps = cr, ci, zeros(1024, 1024)
    for _ in range(50):
        a, b = zr.square(), zi.square()
        within = (a + b) <= 4
        next_i, next_r = zr * zi * 2 + ci, a - b + cr
        zr, zi = torch.where(within, next_r, zr), torch.where(within, next_i, zi)
        steps = steps + within.float()
    return [steps]


@program(lambda: [wave((1024, 1024), 1, 1.0)])
def ising(x):
    s = (x[0] > 0).float() * 2 - 1
    i = torch.arange(1024, device=DEVICE)
    colour = (i[None] + i[:, None]) % 2
    for half in range(20):
        around = s.roll(1, 0) + s.roll(-1, 0) + s.roll(1, 1) + s.roll(-1, 1)
        flips = (torch.rand(1024, 1024, device=DEVICE) < (s * around * -0.8).exp()) & (colour == half % 2)
        s = torch.where(flips, -s, s)
    return [s.mean((0, 1))]


# Algorithms over arrays


@program(lambda: [wave((100000, 64), 1, 1.0), wave((64, 64), 2, 1.0)])
def kmeans(x):
    points, centres = x
    ones = torch.ones(100000, device=DEVICE)
    for _ in range(5):
        nearest = (centres.square().sum(1) - points @ centres.t() * 2).argmin(1)
        sums = zeros(64, 64).index_add(0, nearest, points)
        counts = zeros(64).index_add(0, nearest, ones)
        centres = sums / counts.clamp_min(1)[:, None]
    return [centres]


@program(lambda: [wave((2048, 2048), 1, 1.0)])
def sinkhorn(x):
    f = g = zeros(2048)
    for _ in range(10):
        f = -((g[None] - x[0]) * 10).logsumexp(1) * 0.1
        g = -((f[:, None] - x[0]) * 10).logsumexp(0) * 0.1
    return [f, g]


@program(lambda: [wave((100000, 16), 1, 1.0), wave((16, 16), 2, 1.0)])
def gmm_em(x):
    points, mean = x
    var, share = torch.ones(16, 16, device=DEVICE), torch.full((16,), 1 / 16, device=DEVICE)
    for _ in range(5):
        distance = (points.square() @ var.reciprocal().t() - points @ (mean / var).t() * 2) + (mean.square() / var).sum(1)
        weight = (share.log() - (distance + var.log().sum(1)) * 0.5).softmax(1)
        n = weight.sum(0)
        mean = weight.t() @ points / n[:, None]
        var = weight.t() @ points.square() / n[:, None] - mean.square() + 1e-3
        share = n / 1e5
    return [mean, var, share]


@program(lambda: [ids((1000000,), 1, 100000), ids((1000000,), 2, 99991)])
def pagerank(x):
    origin, to = x
    degree = zeros(100000).index_add(0, origin, torch.ones(1000000, device=DEVICE)).clamp_min(1)
    rank = torch.full((100000,), 1e-5, device=DEVICE)
    for _ in range(10):
        given = (rank / degree).index_select(0, origin)
        rank = zeros(100000).index_add(0, to, given) * 0.85 + 0.15e-5
    return [rank]


def mel_inputs():
    windows = [wave((400,), 2, 1.0), wave((400, 201), 3, 1.0), wave((400, 201), 4, 1.0)]
    return [wave((16, 160000), 1, 1.0), *windows, wave((201, 80), 5, 0.1) + 0.1]


@program(mel_inputs)
def mel(x):
    frames = x[0].unfold(1, 400, 160) * x[1]
    power = (frames @ x[2]).square() + (frames @ x[3]).square()
    bands = (power @ x[4]).clamp_min(1e-5).log()
    return [(bands - bands.mean(1, keepdim=True)) / (bands.std(1, keepdim=True) + 1e-5)]


@program(lambda: [wave((64, 50257), 1, 5.0)])
def topk_sample(x):
    values, indices = (x[0] / 0.8).topk(50, 1)
    p = values.softmax(1)
    kept = p * (p.cumsum(1) - p < 0.9).float()
    kept = kept / kept.sum(1, keepdim=True)
    return [indices.gather(1, (kept.cumsum(1) < 0.5).long().sum(1, keepdim=True))]


BLUR = [0.0625, 0.25, 0.375, 0.25, 0.0625]


@program(lambda: [wave((3, 2160, 3840), 1, 1.0)])
def image(x):
    padded = F.pad(x[0], (2, 2, 2, 2))
    rows = sum((padded[:, k : k + 2160] * BLUR[k] for k in range(1, 5)), padded[:, :2160] * BLUR[0])
    c = sum((rows[:, :, k : k + 3840] * BLUR[k] for k in range(1, 5)), rows[:, :, :3840] * BLUR[0])
    grey = F.pad(c[0] * 0.299 + c[1] * 0.587 + c[2] * 0.114, (1, 1, 1, 1))

    def at(i, j):
        return grey[i : i + 2160, j : j + 3840]

    gx = at(0, 2) + at(1, 2) * 2 + at(2, 2) - at(0, 0) - at(1, 0) * 2 - at(2, 0)
    gy = at(2, 0) + at(2, 1) * 2 + at(2, 2) - at(0, 0) - at(0, 1) * 2 - at(0, 2)
    m = (gx.square() + gy.square()).sqrt()
    return [(m > m.mean((0, 1))).float().mean((0, 1))]


@program(lambda: [normal((2048, 2048), 1, 0.03), normal((2048,), 2, 1.0)])
def cg_dense(x):
    a = x[0] @ x[0].t() + torch.eye(2048, device=DEVICE)
    solution, r = torch.zeros_like(x[1]), x[1]
    p, rr = r, r.dot(r)
    for _ in range(20):
        ap = a @ p
        step = rr / p.dot(ap)
        solution = solution + step * p
        r = r - step * ap
        following = r.dot(r)
        p = r + (following / rr) * p
        rr = following
    return [solution]


@program(lambda: [normal((512, 64), 1, 1.0)])
def gram_schmidt(x):
    q = torch.zeros_like(x[0])
    for j in range(64):
        v = x[0][:, j]
        if j:
            before = q[:, :j]
            v = v - before @ (before.t() @ v)
        v = v / (v.square().sum(0).sqrt() + 1e-6)
        q = q.clone()
        q[:, j] = v
    return [q]


def synchronize():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(call):
    """Microseconds of a call, the median of rounds whose calls are queued."""

    def round_of(calls):
        synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize()
        return (time.perf_counter() - start) / calls

    round_of(3)
    calls = max(1, min(MOST_CALLS, int(SAMPLE / round_of(1))))
    return sorted(round_of(calls) for _ in range(ROUNDS))[ROUNDS // 2] * 1e6


def measure(name, make, function, options):
    inputs = make()
    if options.compile:
        torch.compiler.reset()
        function = torch.compile(function, mode=options.mode)
    synchronize()
    start = time.perf_counter()
    results = function(inputs)
    synchronize()
    first = (time.perf_counter() - start) * 1e3
    value = results[0].double().abs().mean().item()
    took = timed(lambda: function(inputs))
    print(f"{name:16} {took:9.0f} us, first {first:8.0f} ms, {value:.6e}", flush=True)


def main():
    global DEVICE
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--mode")
    parser.add_argument("--threads", type=int)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    for device in {"cuda", "cpu"}.intersection(options.words):
        DEVICE = device
    words = [word for word in options.words if word not in ("cuda", "cpu")]
    for name, (make, function) in PROGRAMS.items():
        if words and not any(word in name for word in words):
            continue
        try:
            measure(name, make, function, options)
        except Exception as error:  # noqa: BLE001
            print(f"{name:16} {type(error).__name__}: {str(error)[:200]!r}", flush=True)


if __name__ == "__main__":
    main()
