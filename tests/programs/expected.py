#!/usr/bin/env python3
"""The programs of this folder in NumPy: prints the constants that they are compared with.

    python3 tests/programs/expected.py > tests/programs/expected.rs
"""

import numpy as np


def noise(*shape, seed=0):
    i = np.arange(np.prod(shape))
    return ((i * 7919 + 13 + seed * 104729) % 4001 / 1000.0 - 2.0).reshape(shape)


def definite(n):
    a = noise(n, n, seed=9)
    return a @ a.T / n + 2 * np.eye(n)


def show(name, step, steps, *state):
    state = list(state)
    for _ in range(steps):
        state = step(*state)
    rows = []
    for x in state:
        x = np.asarray(x, np.float64).ravel()
        weights = np.arange(x.size) * 37 % 101 / 101
        rows.append(f"    [{float(x.sum())!r}, {float((x * weights).sum())!r}],")
    print(f"pub const {name}: &[[f64; 2]] = &[\n" + "\n".join(rows) + "\n];")


def tracked(x, p, t):
    move = np.eye(4) + 0.1 * np.eye(4, k=2)
    x, p = move @ x, move @ p @ move.T + 0.01 * np.eye(4)
    spread = p[:2, :2] + 0.25 * np.eye(2)
    gain = np.linalg.solve(spread, p[:2]).T
    x = x + gain @ (np.array([np.sin(0.3 * t), np.cos(0.3 * t)]) - x[:2])
    return x, (np.eye(4) - gain @ np.eye(4)[:2]) @ p, t + 1


def life(b):
    n = np.zeros_like(b[1:-1, 1:-1])
    m = b.shape[0] - 1
    for dy in (-1, 0, 1):
        for dx in (-1, 0, 1):
            if (dy, dx) != (0, 0):
                n = n + b[1 + dy : m + dy, 1 + dx : m + dx]
    b = b.copy()
    b[1:-1, 1:-1] = (n == 3) | ((b[1:-1, 1:-1] == 1) & (n == 2))
    return [b]


def red_black(u, f):
    u = u.copy()
    n = u.shape[0]
    for i0, j0 in [(1, 1), (2, 2), (1, 2), (2, 1)]:
        for i in range(i0, n - 1, 2):
            for j in range(j0, n - 1, 2):
                u[i, j] = (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] + f[i, j]) / 4
    return u, f


def yee(ez, hx, hy, t):
    hx = hx - 0.5 * np.diff(ez, axis=1)
    hy = hy + 0.5 * np.diff(ez, axis=0)
    ez = ez.copy()
    ez[1:-1, 1:-1] += 0.5 * (np.diff(hy, axis=0)[:, 1:-1] - np.diff(hx, axis=1)[1:-1])
    ez[ez.shape[0] // 2, ez.shape[1] // 2] += np.sin(0.3 * t)
    return ez, hx, hy, t + 1


def flow(f):
    xs, ys = [0, 1, 0, -1, 0, 1, -1, -1, 1], [0, 0, 1, 0, -1, 1, 1, -1, -1]
    w = np.array([16, 4, 4, 4, 4, 1, 1, 1, 1]) / 36
    f = np.stack([np.roll(f[k], (ys[k], xs[k]), (0, 1)) for k in range(9)])
    rho = f.sum(0)
    u = sum(xs[k] * f[k] for k in range(9)) / rho
    v = sum(ys[k] * f[k] for k in range(9)) / rho
    out = np.empty_like(f)
    for k in range(9):
        cu = 3 * (xs[k] * u + ys[k] * v)
        out[k] = f[k] + 0.6 * (rho * w[k] * (1 + cu + cu**2 / 2 - 1.5 * (u**2 + v**2)) - f[k])
    return [out]


def bodies(x, v):
    pull = np.zeros_like(x)
    for i in range(len(x)):
        for j in range(len(x)):
            d = x[j] - x[i]
            r = d @ d + 0.05
            if r < 4:
                pull[i] += d * r**-1.5
    v = v + 0.01 * pull / 48
    return x + 0.01 * v, v


def gradients(x, r, d, a):
    norm, image = r @ r, a @ d
    length = norm / (d @ image)
    x, r = x + length * d, r - length * image
    return x, r, r + d * ((r @ r) / norm), a


def qr(a):
    q, r = np.linalg.qr(a)
    # Reflections end with the signs that they end with: each makes its diagonal element -sign(x0).
    r0 = a.copy()
    signs = []
    for k in range(len(a) - 1):
        x = r0[k:, k].copy()
        first = -np.sign(x[0]) * np.linalg.norm(x)
        signs.append(np.sign(first))
        x[0] -= first
        x /= np.linalg.norm(x)
        r0[k:, k:] -= 2 * np.outer(x, x @ r0[k:, k:])
    signs.append(np.sign(r0[-1, -1]))
    flip = np.diag(np.sign(np.diag(r)) * signs)
    return [(flip @ r) @ (q @ flip)]


def cholesky(a):
    low = np.linalg.cholesky(a)
    return [low.T @ low]


def k_means(x, c):
    near = ((x[:, None] - c[None]) ** 2).sum(-1).argmin(1)
    c = c.copy()
    for k in range(len(c)):
        if (near == k).any():
            c[k] = x[near == k].mean(0)
    return x, c


def log_softmax(x, axis):
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def softmax(x, axis):
    return np.exp(log_softmax(x - x.max(axis, keepdims=True), axis))


def viterbi(start, moves, seen):
    logs, score, back = log_softmax(moves, 1), log_softmax(start, 0), []
    for t in range(20):
        all_ = score[:, None] + logs
        back.append(all_.argmax(0))
        score = all_.max(0) + seen[t]
    path = [score.argmax()]
    for by in reversed(back):
        path.append(by[path[-1]])
    return 0.5 * start + 0.05 * score + np.mean(path), moves, seen


def kalman(x, p, t):
    f = np.eye(4)
    f[0, 2] = f[1, 3] = 0.1
    h = np.eye(4)[:2]
    x, p = f @ x, f @ p @ f.T + 0.01 * np.eye(4)
    z = np.array([np.sin(0.1 * t), np.cos(0.1 * t)]).reshape(2, 1)
    gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + 0.1 * np.eye(2))
    return x + gain @ (z - h @ x), (np.eye(4) - gain @ h) @ p, t + 1


def fourier(re, im):
    y = np.fft.fft(re + 1j * im, norm="ortho") + (re + 1j * im) / 4
    return y.real, y.imag


def equalise(x):
    flat = x.ravel().astype(int)
    below = np.bincount(flat, minlength=256).cumsum()
    least = below[below > 0].min()
    table = np.clip((below - least) * 255 // (flat.size - least), 0, 255)
    return [np.floor(np.roll(table[flat].reshape(x.shape), 3, 1) * 0.75 + 20)]


def iir(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = 0.3 * x[i] + 0.7 * y[i - 1]
    z = y.copy()
    for i in reversed(range(len(x) - 1)):
        z[i] = 0.3 * y[i] + 0.7 * z[i + 1]
    return [z]


def wavelets(x):
    old, x, n = x, x.copy(), len(x)
    while n > 4:
        a = x[:n, :n]
        a = np.hstack([(a[:, ::2] + a[:, 1::2]) / 2, (a[:, ::2] - a[:, 1::2]) / 2])
        x[:n, :n] = np.vstack([(a[::2] + a[1::2]) / 2, (a[::2] - a[1::2]) / 2])
        n //= 2
    return [x.T + 0.5 * old]


def adam(x, y, *rest):
    w, m, v, t = list(rest[:4]), list(rest[4:8]), list(rest[8:12]), rest[12] + 1
    h = x @ w[0] + w[1]
    a = np.maximum(h, 0)
    g = 2 * (a @ w[2] + w[3] - y) / y.size
    b = g @ w[2].T * (h > 0)
    for i, grad in enumerate([x.T @ b, b.sum(0), a.T @ g, g.sum(0)]):
        m[i] = 0.9 * m[i] + 0.1 * grad
        v[i] = 0.999 * v[i] + 0.001 * grad**2
        w[i] = w[i] - 0.01 * (m[i] / (1 - 0.9**t)) / (np.sqrt(v[i] / (1 - 0.999**t)) + 1e-6)
    return x, y, *w, *m, *v, t


def attention(q, k, v):
    n = q.shape[2]
    out = np.zeros_like(q)
    for b in range(2):
        for h, slope in enumerate([0.5, 0.25]):
            for i in range(n):
                seen = range(max(0, i - 7), i + 1)
                s = np.array([0.25 * q[b, h, i] @ k[b, h, j] - slope * (i - j) for j in seen])
                out[b, h, i] = softmax(s, 0) @ v[b, h, list(seen)]
    return out, k, v


def experts(x, router, w):
    p = softmax(x @ router, 1)
    out = 0.5 * x
    for i in range(len(x)):
        best = np.argsort(-p[i], kind="stable")[:2]
        for e in best:
            out[i] += p[i, e] / p[i, best].sum() * np.maximum(x[i] @ w[e], 0)
    return np.tanh(out), router, w


def recurrent(h, c, xs, w, u):
    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    for x in xs:
        i, f, g, o = np.split(x @ w.T + h @ u.T, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h, c, xs, w, u


def rolling(last, time, told):
    windows = np.lib.stride_tricks.sliding_window_view(last, 8)
    mean = windows.mean(1)
    came = np.sin(0.7 * time) + 0.5 * np.sort(last)[len(last) // 2] + 0.25 * mean[-1]
    return np.append(last[1:], came), time + 1, np.array([mean, windows.std(1, ddof=1)])


def levinson(r):
    # The normal equations of the greatest order, whose error the first element is.
    n = len(r) - 1
    matrix = r[np.abs(np.subtract.outer(np.arange(n), np.arange(n)))]
    a = np.linalg.solve(matrix, -r[1:])
    return [0.75 * r + 0.05 * np.abs(np.append(r[0] + a @ r[1:], a))]


def beams(scores, words, pairs):
    logs, found = log_softmax(pairs, 1), []
    for i in range(4):
        for w in range(len(pairs)):
            found.append((scores[i] + logs[words[i, -1], w], -len(found), i, w))
    best = sorted(found, reverse=True)[:4]
    words = np.array([[*words[i, 1:], w] for _, _, i, w in best])
    return np.array([b[0] - best[0][0] for b in best]), words, pairs


def particles(at, time, spread):
    at = 0.9 * at + np.sin(0.3 * time) + 0.1 * spread
    running = np.exp(-2 * (at - np.cos(0.2 * time)) ** 2).cumsum()
    drawn = np.searchsorted(running, (np.arange(len(at)) + 0.5) * running[-1] / len(at))
    return at[drawn], time + 1, np.roll(spread, 7)


def both_ways(xs, w, u, b):
    def walk(way, order):
        h, states = np.zeros((xs.shape[1], u.shape[2])), {}
        for t in order:
            x, y = xs[t] @ w[way].T + b[way], h @ u[way].T
            (xr, xz, xn), (hr, hz, hn) = np.split(x, 3, axis=1), np.split(y, 3, axis=1)
            r, z = 1 / (1 + np.exp(-xr - hr)), 1 / (1 + np.exp(-xz - hz))
            h = states[t] = (1 - z) * np.tanh(xn + r * hn) + z * h
        return np.stack([states[t] for t in range(len(xs))])

    forth, back = walk(0, range(len(xs))), walk(1, reversed(range(len(xs))))
    return np.concatenate([forth, back], 2) + 0.5 * xs, w, u, b


def slopes(loss, ws):
    """The gradient of a real function by each array, through steps along the imaginary axis."""
    gradients = []
    for k, w in enumerate(ws):
        g = np.zeros(w.shape)
        for i in np.ndindex(*w.shape):
            moved = [w.astype(complex) for w in ws]
            moved[k][i] += 1e-30j
            g[i] = loss(*moved).imag / 1e-30
        gradients.append(g)
    return gradients


def descended(loss, ws, rate):
    return [w - rate * g for w, g in zip(ws, slopes(loss, ws))]


def softly(x, axis):
    """The logarithm of the sum of exponentials."""
    most = x.real.max(axis, keepdims=True)
    return np.log(np.exp(x - most).sum(axis)) + most.squeeze(axis)


def process(w, x, y):
    def loss(w):
        length, height, spread = np.exp(w)
        k = height * np.exp(-0.5 * (x[:, None] - x) ** 2 / length**2)
        k = k + (spread + 1e-3) * np.eye(len(x))
        return 0.5 * (y @ np.linalg.solve(k, y) + np.log(np.linalg.det(k)))

    return *descended(loss, [w], 0.02), x, y


def meta(w, b, v, *data):
    def loss(*w):
        total = 0
        for x, y, later, wanted in zip(*data):
            own = w
            for _ in range(2):
                h = np.tanh(x @ own[0] + own[1])
                out = 2 * (h @ own[2] - y) / len(x)
                back = out @ own[2].T * (1 - h * h)
                g = [x.T @ back, back.sum(0), h.T @ out]
                own = [w - 0.1 * g for w, g in zip(own, g)]
            out = np.tanh(later @ own[0] + own[1]) @ own[2]
            total = total + ((out - wanted) ** 2).mean()
        return total

    return *descended(loss, [w, b, v], 0.05), *data


def critic(w, v, real, fake, share):
    def score(w, v, x):
        h = x @ w
        kept = np.where(h.real > 0, 1, 0.2)
        return (h * kept) @ v, (kept * v[:, 0]) @ w.T

    def loss(w, v):
        slope = score(w, v, real * share + fake * (1 - share))[1]
        penalty = ((np.sqrt((slope * slope).sum(1)) - 1) ** 2).mean()
        return score(w, v, fake)[0].mean() - score(w, v, real)[0].mean() + 10 * penalty

    return *descended(loss, [w, v], 0.01), real, np.roll(fake, 1, 0), (share + 0.37) % 1


def equation(w, v, start, end):
    def loss(w, v):
        def f(x):
            return np.tanh(x @ w) @ v

        x, h = start, 0.1
        for _ in range(4):
            a = f(x)
            b = f(x + h / 2 * a)
            c = f(x + h / 2 * b)
            x = x + h / 6 * (a + 2 * b + 2 * c + f(x + h * c))
        return ((x - end) ** 2).mean()

    return *descended(loss, [w, v], 0.5), start, end


def labels(moves, scores, tags, lengths):
    def loss(moves, scores):
        total = 0
        for x, tag, n in zip(scores, tags, lengths):
            every = x[0]
            for t in range(1, n):
                every = softly(every[:, None] + moves, 0) + x[t]
            chosen = sum(x[t, tag[t]] for t in range(n))
            moved = sum(moves[tag[t - 1], tag[t]] for t in range(1, n))
            total = total + softly(every, 0) - chosen - moved
        return total / len(tags)

    return *descended(loss, [moves, scores], 1.0), tags, lengths


def normalising(*s):
    *w, x = s

    def loss(*w):
        a, b, stretched = x[:, :2], x[:, 2:], 0
        for k in (0, 2):
            h = a @ w[k]
            by = (h * (h.real > 0)) @ w[k + 1]
            scale = np.tanh(by[:, :2])
            stretched = stretched + scale.sum(1)
            a, b = b * np.exp(scale) + by[:, 2:], a
        return (((a * a).sum(1) + (b * b).sum(1)) / 2 - stretched).mean()

    return *descended(loss, w, 0.05), x


def smoothed(u, f, area, times):
    for _ in range(times):
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        u = u.copy()
        u[1:-1, 1:-1] += 0.8 * ((around - area * f[1:-1, 1:-1]) / 4 - u[1:-1, 1:-1])
    return u


def cycle(u, f, area=1 / 256):
    u = smoothed(u, f, area, 2)
    n = len(u)
    if n <= 5:
        return smoothed(u, f, area, 8)
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    rest = np.pad(f[1:-1, 1:-1] - (around - 4 * u[1:-1, 1:-1]) / area, 1)
    sides = rest[1:-3:2, 2:-2:2] + rest[3:-1:2, 2:-2:2]
    sides = sides + rest[2:-2:2, 1:-3:2] + rest[2:-2:2, 3:-1:2]
    coarse = np.pad(rest[2:-2:2, 2:-2:2] / 2 + sides / 8, 1)
    coarse = cycle(np.zeros_like(coarse), coarse, 4 * area)
    fine = np.zeros_like(u)
    fine[::2, ::2] = coarse
    fine[1::2, ::2] = (coarse[:-1] + coarse[1:]) / 2
    fine[:, 1::2] = (fine[:, :-2:2] + fine[:, 2::2]) / 2
    return smoothed(u + fine, f, area, 2)


def tridiagonal(u, k):
    away, at = -(k + 2.5), 2.2 * (k + 2.5)
    rows = []
    for x, a, b in zip(u, away, at):
        matrix = np.diag(b) + np.diag(a[1:], -1) + np.diag(a[:-1], 1)
        rows.append(2 * np.linalg.solve(matrix, x))
    return np.stack(rows), k


def gate(x):
    size, hop = 32, 8
    window = 0.5 - 0.5 * np.cos(2 * np.pi / size * np.arange(size))
    starts = range(0, len(x) - size + 1, hop)
    y, weight = np.zeros(len(x)), np.zeros(len(x))
    for start in starts:
        spectrum = np.fft.rfft(x[start : start + size] * window)
        power = np.abs(spectrum) ** 2
        spectrum[power < power.mean()] = 0
        y[start : start + size] += np.fft.irfft(spectrum, size) * window
        weight[start : start + size] += window**2
    return [y / (weight + 1e-3) + 0.1 * np.roll(x, 1)]


def decays(k, v, r, w, u):
    over, under, out = np.zeros(k.shape[1:]), np.zeros(k.shape[1:]), []
    for k_t, v_t, r_t in zip(k, v, r):
        now = np.exp(u + k_t)
        out.append((over + now * v_t) / (under + now) / (1 + np.exp(-r_t)))
        over = over * np.exp(-np.exp(w)) + np.exp(k_t) * v_t
        under = under * np.exp(-np.exp(w)) + np.exp(k_t)
    return np.roll(k, 1, 0), np.stack(out) + 0.5 * v, r, w, u


def lifting(x):
    x = x.copy()
    sizes = [x.shape[1] >> level for level in range(3)]
    for n in sizes:
        even, odd = x[:, 0:n:2].copy(), x[:, 1:n:2].copy()
        detail = odd - (even + np.roll(even, -1, 1)) / 2
        x[:, : n // 2] = even + (detail + np.roll(detail, 1, 1)) / 4
        x[:, n // 2 : n] = detail
    x = np.sign(x) * np.maximum(np.abs(x) - 0.05, 0)
    for n in sizes[::-1]:
        smooth, detail = x[:, : n // 2].copy(), x[:, n // 2 : n].copy()
        x[:, 0:n:2] = even = smooth - (detail + np.roll(detail, 1, 1)) / 4
        x[:, 1:n:2] = detail + (even + np.roll(even, -1, 1)) / 2
    return [x]


def whole(*shape, seed=0, bound):
    return np.round(noise(*shape, seed=seed) * 1000 + 2000).astype(int) % bound


def runs(symbols, _):
    run = np.concatenate([[0], np.cumsum(symbols[1:] != symbols[:-1])])
    lengths = np.bincount(run, minlength=symbols.size)
    own = lengths[run]
    longest = [own[symbols == k].max(initial=0) for k in range(3)]
    spread = np.bincount(np.digitize(lengths, [1, 2, 3, 5]), minlength=5)
    moved = (symbols + own + np.arange(symbols.size) % 5) % 3
    return moved, np.concatenate([longest, spread])


def rule_110(x, _):
    cells = x[:, None] >> np.arange(30) & 1
    left, right = np.roll(cells, -1, 1), np.roll(cells, 1, 1)
    cells = (cells | right) ^ (left & cells & right)
    return cells @ (1 << np.arange(30)), cells.sum(1)


def bayes(features, kind, _):
    d = np.arange(features.shape[1])
    counts = np.zeros((4, d.size, 5))
    np.add.at(counts, (kind[:, None], d, features), 1)
    chance = np.log((counts + 1) / (counts.sum(2, keepdims=True) + 5))
    prior = (np.bincount(kind, minlength=4) + 1) / (kind.size + 4)
    score = chance[:, d, features].sum(2).T + np.log(prior)
    odds = np.exp(score - score.max(1, keepdims=True))
    return np.roll(features, 1, 0), score.argmax(1), odds / odds.sum(1, keepdims=True)


def vortices(w):
    n, m = w.shape
    kx, ky = np.fft.fftfreq(n, 1 / n)[:, None], np.fft.rfftfreq(m, 1 / m)
    k2 = kx**2 + ky**2
    f = np.fft.rfft2(w)
    psi = f / np.where(k2 > 0, k2, 1)
    back = lambda f: np.fft.irfft2(f, (n, m))
    moved = back(1j * ky * psi) * back(1j * kx * f) - back(1j * kx * psi) * back(1j * ky * f)
    kept = (abs(kx) < n / 3) & (ky < m / 3)
    return (back((f - 0.02 * np.fft.rfft2(moved) * kept) / (1 + 2e-4 * k2)),)


def fourier_layer(w, v, x, y):
    n = x.shape[1]
    k = np.arange(w.shape[0])
    turns = 2 * np.pi * np.outer(np.arange(n), k) / n
    weights = np.where(k > 0, 2, 1) / n

    def loss(w, v):
        re, im = x @ np.cos(turns), -x @ np.sin(turns)
        a, b = re * w[:, 0] - im * w[:, 1], re * w[:, 1] + im * w[:, 0]
        # The imaginary part of the frequency 0 counts as 0.
        smooth = (a * weights) @ np.cos(turns).T - (b * weights) @ np.sin(turns).T
        return ((np.tanh(smooth + v * x) - y) ** 2).mean()

    return *descended(loss, [w, v], 0.5), x, y


def denoised(x):
    n, size, hop = x.size, 16, 4
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(size) / size)
    wide = np.pad(x, size // 2, mode="reflect")
    total, squares = np.zeros(wide.size), np.zeros(wide.size)
    for start in range(0, wide.size - size + 1, hop):
        spectrum = np.fft.rfft(wide[start : start + size] * window)
        gain = np.maximum(1 - 0.5 / (abs(spectrum) + 1e-3), 0)
        total[start : start + size] += np.fft.irfft(spectrum * gain, size) * window
        squares[start : start + size] += window**2
    half = size // 2
    return (np.roll(total[half : half + n] / squares[half : half + n], 5) + 0.1 * x,)


print("//! What NumPy gives: printed by `expected.py`.\n")
show("LIFE", life, 24, (noise(34, 34) > 0.7).astype(int))
show("RED_BLACK", red_black, 24, noise(30, 30), noise(30, 30, seed=3))
show("YEE", yee, 24, np.zeros((41, 41)), np.zeros((41, 40)), np.zeros((40, 41)), 0.0)
show("FLOW", flow, 16, noise(9, 14, 20) * 0.01 + 1)
show("BODIES", bodies, 16, noise(48, 3), noise(48, 3, seed=1) * 0.1)
b = noise(60)
show("GRADIENTS", gradients, 12, 0 * b, b, b, definite(60))
show("QR", qr, 8, definite(10))
show("CHOLESKY", cholesky, 8, definite(12))
show("K_MEANS", k_means, 12, noise(150, 2), noise(12, 2, seed=8) * 3)
show("VITERBI", viterbi, 8, noise(6), noise(6, 6, seed=3), noise(20, 6, seed=5))
show("KALMAN", kalman, 24, noise(4, 1), np.eye(4), np.zeros(1))
show("FOURIER", fourier, 8, noise(128), noise(128, seed=1))
show("VORTICES", vortices, 12, noise(24, 20) * 3)
weights = noise(5, 2, seed=1) * 0.5, noise(1, seed=2)
show("FOURIER_LAYER", fourier_layer, 16, *weights, noise(6, 15, seed=3), noise(6, 15, seed=4) * 0.4)
show("DENOISED", denoised, 8, noise(60))
show("EQUALISE", equalise, 8, np.floor(noise(24, 30) * 20 + 100))
show("FILTER", iir, 8, noise(20, 16))
show("WAVELETS", wavelets, 8, noise(32, 32))
z = [np.zeros(s) for s in [(6, 16), 16, (16, 3), 3]]
weights = [noise(6, 16, seed=2) * 0.2, z[1], noise(16, 3, seed=3) * 0.2, z[3]]
show("ADAM", adam, 24, noise(24, 6), noise(24, 3, seed=1), *weights, *z, *z, 0.0)
show("ATTENTION", attention, 8, *(noise(2, 2, 24, 8, seed=i) for i in range(3)))
show("EXPERTS", experts, 8, noise(20, 8), noise(8, 5, seed=1), noise(5, 8, 8, seed=2) * 0.2)
state = np.zeros((3, 8))
gates = noise(32, 5, seed=1) * 0.2, noise(32, 8, seed=2) * 0.2
show("RECURRENT", recurrent, 8, state, state, noise(30, 3, 5), *gates)
show("ROLLING", rolling, 24, noise(40), np.zeros(1), noise(2, 33, seed=1))
show("LEVINSON", levinson, 8, 1 / (np.arange(24) + 1))
words = np.arange(24).reshape(4, 6) % 12
show("BEAMS", beams, 24, noise(4, seed=5), words, noise(12, 12, seed=2))
show("PARTICLES", particles, 24, noise(100), 0.0, noise(100, seed=1))
gates = noise(2, 12, 8, seed=1) * 0.2, noise(2, 12, 4, seed=2) * 0.2, noise(2, 12, seed=3) * 0.1
show("BOTH_WAYS", both_ways, 8, noise(15, 3, 8), *gates)
show("PROCESS", process, 8, np.array([0.0, 0, -2]), noise(8, seed=1), np.sin(2 * noise(8, seed=1)))
weights = noise(1, 8, seed=1) * 0.5, noise(8, seed=2) * 0.1, noise(8, 1, seed=3) * 0.5
show("META", meta, 8, *weights, *(noise(2, 6, 1, seed=i) for i in range(4, 8)))
weights = noise(5, 9, seed=1) * 0.3, noise(9, 1, seed=2) * 0.3
share = noise(12, 1, seed=5) * 0.25 + 0.5
show("PENALTY", critic, 12, *weights, noise(12, 5, seed=3), noise(12, 5, seed=4), share)
weights = noise(3, 8, seed=1) * 0.3, noise(8, 3, seed=2) * 0.3
show("EQUATION", equation, 8, *weights, noise(10, 3, seed=3), noise(10, 3, seed=4))
tags = np.round(noise(4, 7, seed=3) * 1000 + 2000).astype(int) % 3
lengths = np.array([7, 1, 4, 6])
show("LABELS", labels, 8, noise(3, 3, seed=1), noise(4, 7, 3, seed=2), tags, lengths)
weights = noise(2, 6, seed=1) * 0.3, noise(6, 4, seed=3) * 0.2
weights = *weights, noise(2, 6, seed=2) * 0.3, noise(6, 4, seed=4) * 0.2
show("NORMALISING", normalising, 8, *weights, noise(14, 4, seed=5))
show("GRIDS", lambda u, f: (cycle(u, f), f), 8, np.zeros((17, 17)), noise(17, 17, seed=2))
show("TRIDIAGONAL", tridiagonal, 8, noise(5, 16, seed=1), noise(5, 16, seed=2))
show("GATE", gate, 8, noise(200, seed=1))
rows = [noise(10, 3, 6, seed=i) for i in (1, 2, 3)]
show("DECAYS", decays, 8, *rows, noise(6, seed=4) * 0.3, noise(6, seed=5) * 0.3)
show("LIFTING", lifting, 8, noise(5, 64))
show("RUNS", runs, 24, whole(150, bound=3), np.zeros(8))
show("RULE_110", rule_110, 24, whole(70, bound=4001) ** 2 * 37, np.zeros(70))
tables = whole(90, 6, bound=5), whole(90, seed=2, bound=4), np.zeros((90, 4))
show("BAYES", bayes, 8, *tables)
show("TRACKED", tracked, 20, np.zeros(4), np.eye(4), 0.0)
