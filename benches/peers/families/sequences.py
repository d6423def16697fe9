"""Networks of sequences, graphs and tables."""

import torch
import torch.nn.functional as F

from . import common
from .common import ids, program, wave, zeros


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
    lowest = torch.full((20000, 4), -1e9, device=common.DEVICE)
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
    rows = F.embedding(x[1] + torch.arange(26, device=common.DEVICE) * 100000, x[6])
    both = torch.cat([dense[:, None], rows], 1)
    products = (both @ both.transpose(1, 2)).reshape(4096, 729)
    below = torch.tensor([i * 27 + j for i in range(27) for j in range(i)], device=common.DEVICE)
    features = torch.cat([dense, products[:, below]], 1)
    return [F.linear(F.linear(features, x[4]).relu(), x[5]).sigmoid()]


@program(lambda: [wave((64, 100), i, 1.0) + (3.5 if i == 2 else 0.0) for i in range(1, 5)])
def tridiagonal(x):
    a, b, c, d = x
    upper, right = [c[:, 0] / b[:, 0]], [d[:, 0] / b[:, 0]]
    for i in range(1, 100):
        pivot = b[:, i] - a[:, i] * upper[i - 1]
        right.append((d[:, i] - a[:, i] * right[i - 1]) / pivot)
        upper.append(c[:, i] / pivot)
    solution = [right[99]]
    for i in reversed(range(99)):
        solution.append(right[i] - upper[i] * solution[98 - i])
    return [torch.stack(solution[::-1], 1)]


@program(lambda: [wave((16, 500), 1, 1.0)])
def moving_average(x):
    average = x[0][:, 0]
    every = [average]
    for t in range(1, 500):
        average = average * 0.9 + x[0][:, t] * 0.1
        every.append(average)
    return [torch.stack(every, 1)]


@program(lambda: [wave((8, 300), 1, 1.0)])
def biquads(x):
    signal = x[0]
    for b0, b1, b2, a1, a2 in [[0.2, 0.3, 0.2, -0.5, 0.2], [0.5, -0.1, 0.1, 0.3, 0.1]]:
        z1 = z2 = torch.zeros(8, device=signal.device)
        filtered = []
        for t in range(300):
            v = signal[:, t]
            y = v * b0 + z1
            z1 = v * b1 - y * a1 + z2
            z2 = v * b2 - y * a2
            filtered.append(y)
        signal = torch.stack(filtered, 1)
    return [signal]


def transforms():
    sizes = {"1000": (64, 1000), "1024": (64, 1024), "4096": (16, 4096), "prime": (1, 10007), "long": (1, 1 << 20)}
    for name, (rows, n) in sizes.items():
        # Inputs of a program are pairs as they lie; a view of them as complex numbers takes no time.
        def fft(x):
            return [torch.view_as_real(torch.fft.fft(torch.view_as_complex(x[0])))]

        fft.__name__ = f"fft_{name}"
        program(lambda rows=rows, n=n: [wave((rows, n, 2), 1, 1.0)])(fft)


transforms()


@program(lambda: [wave((64, 1024), 1, 1.0)])
def rfft_1024(x):
    return [torch.view_as_real(torch.fft.rfft(x[0]))]


@program(lambda: [wave((64, 513, 2), 1, 1.0)])
def irfft_1024(x):
    return [torch.fft.irfft(torch.view_as_complex(x[0]), 1024)]
