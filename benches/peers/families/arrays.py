"""Algorithms over arrays."""

import torch
import torch.nn.functional as F

from . import common
from .common import ids, normal, program, wave, zeros


@program(lambda: [wave((100000, 64), 1, 1.0), wave((64, 64), 2, 1.0)])
def kmeans(x):
    points, centres = x
    ones = torch.ones(100000, device=common.DEVICE)
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
    var, share = torch.ones(16, 16, device=common.DEVICE), torch.full((16,), 1 / 16, device=common.DEVICE)
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
    degree = zeros(100000).index_add(0, origin, torch.ones(1000000, device=common.DEVICE)).clamp_min(1)
    rank = torch.full((100000,), 1e-5, device=common.DEVICE)
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


@program(lambda: [normal((2048, 2048), 1, 1.0)])
def opening(x):
    mask = x[0] > -1
    for dim in (0, 1):
        parts = [mask.narrow(dim, k, mask.shape[dim] - 2) for k in range(3)]
        mask = parts[0] & parts[1] & parts[2]
    mask = F.pad(mask, (2, 2, 2, 2))
    for dim in (0, 1):
        parts = [mask.narrow(dim, k, mask.shape[dim] - 2) for k in range(3)]
        mask = parts[0] | parts[1] | parts[2]
    return [mask]


@program(lambda: [normal((2048, 2048), 1, 1.0)])
def life(x):
    cells = (x[0] > 0.4).to(torch.uint8)
    for _ in range(10):
        columns = cells.roll(1, 0) + cells.roll(-1, 0)
        whole = cells + columns
        around = whole.roll(1, 1) + whole.roll(-1, 1) + columns
        cells = ((around == 3) | ((around == 2) & (cells == 1))).to(torch.uint8)
    return [cells]


@program(lambda: [normal((2048, 2048), 1, 0.03), normal((2048,), 2, 1.0)])
def cg_dense(x):
    a = x[0] @ x[0].t() + torch.eye(2048, device=common.DEVICE)
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


def positive(*shape):
    x = normal(shape, 1, 1.0)
    return x @ x.mT / shape[-1] + torch.eye(shape[-1], device=common.DEVICE)


@program(lambda: [positive(2048, 2048)])
def cholesky(x):
    return [torch.linalg.cholesky(x[0])]


@program(lambda: [positive(16384, 8, 8)])
def cholesky_8x8(x):
    return [torch.linalg.cholesky(x[0])]


@program(lambda: [normal((1024, 1024), 1, 1.0), normal((1024, 16), 2, 1.0)])
def solve(x):
    return [torch.linalg.solve(*x)]


@program(lambda: [positive(16384, 8, 8), normal((16384, 8, 1), 2, 1.0)])
def solve_8x8(x):
    return [torch.linalg.solve(*x)]


@program(lambda: [normal((1024, 8), 1, 1.0), normal((1024, 1), 2, 1.0), normal((3,), 3, 0.0).requires_grad_()])
def gp_train(x):
    points, values, parameters = x
    length, height, noise = parameters.exp()
    scaled = points / length
    squares = scaled.square().sum(1, keepdim=True)
    distance = squares + squares.t() - scaled @ scaled.t() * 2
    kernel = (distance * -0.5).exp() * height
    l = torch.linalg.cholesky(kernel + torch.eye(1024, device=common.DEVICE) * noise)
    fit = (values.t() @ torch.cholesky_solve(values, l)).sum() * 0.5
    loss = fit + l.diagonal().log().sum()
    return [loss, torch.autograd.grad(loss, parameters)[0]]
