#!/usr/bin/env python3
"""The programs of benches/slices.rs in NumPy and JAX: the least time of some runs, each from data of its own.

    python3 benches/peers/slices.py [--rounds N] [NAME ..]

JAX is left out where it cannot be imported. Its functions take their arguments' memory (`donate_argnums`); loops over
rows of equal shapes are `fori_loop`s, those of growing shapes are unrolled, or written with masks where that would
compile for minutes.
"""

import argparse
import time

import numpy as np

try:
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
except ImportError:
    jax = None

rng = np.random.default_rng(0)


def draw(*shape, dtype=np.float64):
    return rng.random(shape).astype(dtype)


def writes(x, row, part):
    for i in range(4):
        at = 100 * i
        x[at : at + 1] = row
        x[:, at] = row
        x[at : at + 256, 1000:1256] = part
    return x, row, part


def jax_writes(x, row, part):
    for i in range(4):
        at = 100 * i
        x = x.at[at : at + 1].set(row)
        x = x.at[:, at].set(row)
        x = x.at[at : at + 256, 1000:1256].set(part)
    return x, row, part


def write(x, row, part):
    x[77:78] = row
    return x, row, part


def jax_write(x, row, part):
    return x.at[77:78].set(row), row, part


def smooth(a):
    dims = a.ndim

    def at(moved, by):
        cut = [slice(1, -1)] * dims
        if moved is not None:
            cut[moved] = slice(1 + by, a.shape[moved] - 1 + by)
        return a[tuple(cut)]

    total = at(None, 0)
    for dim in range(dims):
        total = total + at(dim, -1) + at(dim, 1)
    return total * (1 / (2 * dims + 1))


def heat(a, b):
    inner = (slice(1, -1),) * a.ndim
    b[inner] = smooth(a)
    a[inner] = smooth(b)
    return a, b


def jax_heat(a, b):
    inner = (slice(1, -1),) * a.ndim
    b = b.at[inner].set(smooth(a))
    a = a.at[inner].set(smooth(b))
    return a, b


def edges(a):
    a[1:-1, 1:-1] = smooth(a)
    a[0], a[-1] = a[1], a[-2]
    a[:, 0], a[:, -1] = a[:, 1], a[:, -2]
    return (a,)


def jax_edges(a):
    a = a.at[1:-1, 1:-1].set(smooth(a))
    a = a.at[0].set(a[1])
    a = a.at[-1].set(a[-2])
    a = a.at[:, 0].set(a[:, 1])
    return (a.at[:, -1].set(a[:, -2]),)


def lu(a):
    for k in range(len(a) - 1):
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k : k + 1] * a[k, k + 1 :]
    return (a,)


def jax_lu(a):
    n = len(a)
    at = jnp.arange(n)

    def step(k, a):
        below = at > k
        column = jnp.where(below, a[:, k] / a[k, k], 0)
        a = a - column[:, None] * jnp.where(below, a[k], 0)
        return a.at[:, k].set(jnp.where(below, column, a[:, k]))

    return (jax.lax.fori_loop(0, n - 1, step, a),)


def gram_schmidt(a, q, r):
    for k in range(a.shape[1]):
        column = a[:, k]
        norm = np.sqrt(np.square(column).sum())
        r[k, k] = norm
        q[:, k] = column / norm
        r[k, k + 1 :] = q[:, k] @ a[:, k + 1 :]
        a[:, k + 1 :] -= q[:, k : k + 1] * r[k, k + 1 :]
    return a, q, r


def jax_gram_schmidt(a, q, r):
    n = a.shape[1]
    at = jnp.arange(n)

    def step(k, state):
        a, q, r = state
        unit = a[:, k] / jnp.sqrt(jnp.square(a[:, k]).sum())
        products = jnp.where(at >= k, unit @ a, 0)
        rest = a - unit[:, None] * jnp.where(at > k, products, 0)
        return rest, q.at[:, k].set(unit), r.at[k].set(products)

    return jax.lax.fori_loop(0, n, step, (a, q, r))


def levinson(r, y):
    alpha, beta = -r[0], 1.0
    y[0] = alpha
    for k in range(1, len(r)):
        beta *= 1 - alpha**2
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return r, y


def jax_levinson(r, y):
    n = len(r)
    at = jnp.arange(n)

    def step(k, state):
        alpha, beta, y = state
        beta = beta * (1 - alpha**2)
        turned = jnp.roll(jnp.flip(y), k)
        known = at < k
        dot = jnp.sum(jnp.where(known, jnp.roll(jnp.flip(r), k) * y, 0))
        alpha = -(r[k] + dot) / beta
        y = jnp.where(known, y + alpha * turned, y)
        return alpha, beta, y.at[k].set(alpha)

    y = y.at[0].set(-r[0])
    return r, jax.lax.fori_loop(1, n, step, (-r[0], 1.0, y))[2]


def filtered(x, y):
    for i in range(1, len(x)):
        y[i] = x[i] * 0.2 + y[i - 1] * 0.8
    return x, y


def jax_filtered(x, y):
    step = lambda i, y: y.at[i].set(x[i] * 0.2 + y[i - 1] * 0.8)
    return x, jax.lax.fori_loop(1, len(x), step, y)


def two(*shape):
    return lambda: (draw(*shape), draw(*shape))


f32 = np.float32
CASES = [
    ("writes12_2048", lambda: (draw(2048, 2048, dtype=f32), draw(2048, dtype=f32), draw(256, 256, dtype=f32)), writes, jax_writes, 1),
    ("write1_x12_2048", lambda: (draw(2048, 2048, dtype=f32), draw(2048, dtype=f32), draw(1, dtype=f32)), write, jax_write, 12),
    ("heat1d_20000", two(20_000), heat, jax_heat, 100),
    ("heat1d_4M", two(4 << 20), heat, jax_heat, 5),
    ("heat2d_256", two(256, 256), heat, jax_heat, 50),
    ("heat2d_2048", two(2048, 2048), heat, jax_heat, 5),
    ("heat3d_40", two(40, 40, 40), heat, jax_heat, 50),
    ("heat3d_160", two(160, 160, 160), heat, jax_heat, 5),
    ("edges_1024", lambda: (draw(1024, 1024),), edges, jax_edges, 10),
    ("lu_200", lambda: (draw(200, 200) + 200 * np.eye(200),), lu, jax_lu, 1),
    ("gram_schmidt_200", lambda: (draw(240, 200), np.zeros((240, 200)), np.zeros((200, 200))), gram_schmidt, jax_gram_schmidt, 1),
    ("levinson_400", lambda: (draw(400) * 0.01, np.zeros(400)), levinson, jax_levinson, 1),
    ("filter_500x2000", lambda: (draw(500, 2000), np.zeros((500, 2000))), filtered, jax_filtered, 1),
]


def least(data, step, steps, rounds, wait):
    times = []
    for _ in range(rounds):
        state = data()
        start = time.perf_counter()
        for _ in range(steps):
            state = step(*state)
        wait(state)
        times.append(time.perf_counter() - start)
    return f"{min(times) * 1e3:.3f} ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    print("| program | NumPy | JAX |\n|---|---:|---:|")
    for name, data, plain, compiled, steps in CASES:
        if options.names and not any(wanted in name for wanted in options.names):
            continue
        cells = [name, least(data, plain, steps, options.rounds, lambda _: None), "-"]
        if jax is not None:
            arguments = range(len(data()))
            step = jax.jit(compiled, donate_argnums=tuple(arguments))
            given = lambda: jax.block_until_ready(tuple(jnp.array(x) for x in data()))
            least(given, step, 1, 1, jax.block_until_ready)
            cells[2] = least(given, step, steps, options.rounds, jax.block_until_ready)
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
