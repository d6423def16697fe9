"""Simulations."""

import torch
import torch.nn.functional as F

from . import common
from .common import program, wave, zeros


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


@program(lambda: [wave((20, 1024, 2, 1), 1, 1.0), wave((4, 4), 2, 0.1) + torch.eye(4, device=common.DEVICE), wave((2, 4), 3, 1.0)])
def kalman(x):
    measured, f, h = x
    m = zeros(1024, 4, 1)
    p = torch.eye(4, device=common.DEVICE).expand(1024, 4, 4).contiguous()
    q, r = torch.eye(4, device=common.DEVICE) * 0.01, torch.eye(2, device=common.DEVICE) * 0.1
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
    price, total = torch.full((paths,), 100.0, device=common.DEVICE), zeros(paths)
    for _ in range(16):
        price = price * (torch.randn(paths, device=common.DEVICE) * 0.05 + 0.0001).exp()
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
    i = torch.arange(1024, device=common.DEVICE)
    colour = (i[None] + i[:, None]) % 2
    for half in range(20):
        around = s.roll(1, 0) + s.roll(-1, 0) + s.roll(1, 1) + s.roll(-1, 1)
        flips = (torch.rand(1024, 1024, device=common.DEVICE) < (s * around * -0.8).exp()) & (colour == half % 2)
        s = torch.where(flips, -s, s)
    return [s.mean((0, 1))]


@program(lambda: [wave((4, 256, 256), 1, 10.0)])
def spectral_flow(x):
    n, (w,) = 256, x
    kx = torch.fft.fftfreq(n, 1 / n, device=w.device)[:, None]
    ky = torch.fft.rfftfreq(n, 1 / n, device=w.device)
    k2 = kx**2 + ky**2
    inverse = torch.where(k2 > 0, 1 / k2, 0)
    carried = ((kx.abs() < n / 3) & (ky < n / 3)).float() * 1e-3
    damped = 1 / (k2 * 1e-6 + 1)
    slope = lambda f, k: torch.fft.irfft2(1j * k * f, (n, n))
    for _ in range(4):
        f = torch.fft.rfft2(w)
        psi = f * inverse
        moved = slope(psi, ky) * slope(f, kx) - slope(psi, kx) * slope(f, ky)
        w = torch.fft.irfft2((f - torch.fft.rfft2(moved) * carried) * damped, (n, n))
    return [w]
