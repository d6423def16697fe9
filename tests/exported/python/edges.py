"""Operators at the edges of what they take: options and shapes that models seldom have."""

import torch
import torch.nn.functional as F
from torch import randn, rand, randint

from operators import A, g

torch.manual_seed(1)


def sums(s, x, i, m, n, v):
    return [
        # Factors of integers are whole numbers, those of truth values are truth values.
        torch.addmv(i[0], i, i[1], alpha=0.6, beta=2.7),
        torch.baddbmm(i.expand(2, 4, 4), i.expand(2, 4, 4), i.expand(2, 4, 4), beta=1.2, alpha=-2),
        torch.addr(m, m[0], m[1], alpha=True, beta=False),
        torch.addr(m, m[0], m[1]),
        torch.addbmm(x[0], x, x, beta=0.3, alpha=0.7),
        torch.addmm(n[0], n, n, beta=0, alpha=2.0),
        torch.tensordot(x[:, :1], x, dims=([1, 2], [1, 2])),
        F.cosine_similarity(x[0, :1], x, dim=0),
        *[f(x, dim=1, correction=c) for f in (torch.var, torch.std) for c in (0.5, -1, 3, 4)],
        *torch.var_mean(x, dim=(0, 2), correction=2.5, keepdim=True),
        torch.diff(x, n=5),
        torch.logit(x, eps=0.6),
        torch.angle(x),
        torch.angle(i),
        torch.angle(m),
        torch.sinc(v),
        F.hardtanh(i, -1.5, 1.5),
        torch.logspace(4.3, 2, 2, 3.0, dtype=torch.int64),
        F.softplus(v, beta=2.0),
    ]


g(
    "sums",
    sums,
    randn(4, 4, 4),
    randint(-4, 5, (4, 4)),
    rand(4, 4) > 0.5,
    torch.cat([torch.full((1, 3), float("nan")), randn(2, 3)])[:, :1].expand(3, 3).contiguous(),
    randn(9),
)


def places(s, x, mask, i, bag, w):
    return [
        torch.gather(x[0, 0, 0, 0], 0, i[:1, 0]),
        torch.gather(x[0, 0, 0], 0, i[0, 0]),
        x[0, 0].masked_scatter(mask, x),
        F.embedding_bag(bag, w, padding_idx=-1, mode="max"),
        F.embedding_bag(bag, w, padding_idx=0, mode="mean"),
        torch.searchsorted(x[0, 0].contiguous(), x[0, 1].contiguous(), sorter=torch.argsort(x[0, 0])),
        F.pad(x, (-2, 3, 1, -1), mode="replicate"),
        F.unfold(x[:0], 2),
        *A.native_group_norm(x[:0], None, None, 0, 3, 20, 1, 1e-5),
        *torch.unique_consecutive(i, return_inverse=True, return_counts=True, dim=1),
        *torch.unique(i, return_inverse=True, return_counts=True, dim=1),
        *[torch.unique(torch.stack([i, i.t()]), dim=d) for d in range(3)],
        torch.view_as_real(torch.complex(x[:1], x[:, :1])),
    ]


g(
    "places",
    places,
    randn(2, 3, 4, 5),
    rand(3, 4, 5) > 0.5,
    torch.tensor([[0, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 0], [1, 1, 0, 0]]),
    randint(0, 6, (3, 4)),
    randn(6, 5),
)


def windows(s, x, i, v):
    q = [F.avg_pool2d(t, 3, 2, 1, ceil_mode=c, divisor_override=d) for t in (x, i) for c in (True, False) for d in (None, 2)]
    q += [F.avg_pool2d(i, (2, 3), 3, 1, ceil_mode=True, count_include_pad=p) for p in (True, False)]
    return q + [
        F.avg_pool1d(i[0], 3, 2, 1, ceil_mode=True),
        F.avg_pool3d(v, 2, 2, 1, ceil_mode=True, divisor_override=3),
        F.avg_pool3d(v, 3, 2, ceil_mode=True, count_include_pad=False),
        F.local_response_norm(i, 3),
    ]


g("windows", windows, randn(1, 2, 6, 8), randint(-9, 9, (1, 2, 6, 8)), randn(1, 2, 5, 4, 5))


def grids(s, x, v, at, in_v, theta, wide):
    modes = [(m, p, a) for m in ("bilinear", "nearest", "bicubic") for p in ("zeros", "border", "reflection") for a in (0, 1)]
    y = [F.grid_sample(x, at, mode=m, padding_mode=p, align_corners=bool(a)) for m, p, a in modes]
    y += [F.grid_sample(v, in_v, mode=m, padding_mode=p, align_corners=bool(a)) for m, p, a in modes[:12]]
    return y + [F.affine_grid(theta, (2, 1, 3, 4), align_corners=a) for a in (True, False)] + [
        F.affine_grid(wide, (2, 1, 2, 3, 4), align_corners=a) for a in (True, False)
    ]


g(
    "grids",
    grids,
    randn(1, 2, 4, 5),
    randn(1, 1, 3, 4, 5),
    1.4 * randn(1, 3, 3, 2),
    1.4 * randn(1, 2, 2, 3, 3),
    randn(2, 2, 3),
    randn(2, 3, 4),
)


class Instances(torch.nn.Module):
    """Running statistics of instance norms."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.InstanceNorm2d(3, affine=True, track_running_stats=True)
        self.norm.running_mean.normal_()

    def forward(self, x):
        return self.norm(x)


g("instances", lambda s, x: s.f2(x), randn(2, 3, 4, 5), mods={"f2": Instances()}, train=True)


def scores(s, q, k, v, mask):
    f = A._scaled_dot_product_flash_attention_for_cpu
    return [*f(q, k, v, 0.0, True)[:2], *f(q, k, v, 0.0, False, attn_mask=mask)[:2], *f(q, k, v, scale=0.3)[:2]]


g("scores", scores, randn(1, 2, 4, 8), randn(1, 2, 4, 8), randn(1, 2, 4, 8), randn(1, 2, 4, 4))


def statistics(s, x, n, i, q, t):
    r = [f(x, q, dim=d, keepdim=k) for f in (torch.quantile, torch.nanquantile) for d in (None, 1) for k in (True, False)]
    r += [torch.quantile(n, 0.3, dim=0, interpolation=m) for m in ("lower", "higher", "nearest", "midpoint")]
    return r + [
        torch.nanquantile(n, q, dim=1),
        torch.nanmedian(n),
        *torch.nanmedian(n, 1, keepdim=True),
        torch.mode(i, 0)[0],
        torch.mode(i, 1, keepdim=True)[0],
        torch.trapezoid(x, t, dim=1),
        torch.trapezoid(x, dx=0.5),
        torch.trapezoid(x, x.abs().cumsum(0), dim=0),
        torch.cumulative_trapezoid(x, t),
        *torch.gradient(x),
        *torch.gradient(x, spacing=0.5, edge_order=2),
        *torch.gradient(x, spacing=(t.cumsum(0),), dim=1, edge_order=2),
        *torch.gradient(x, spacing=(t.cumsum(0),), dim=(1,)),
        torch.histc(x, 5, -1, 1.5),
        torch.histc(i.float(), 4, 0, 3),
        torch.nonzero_static(i, size=15, fill_value=-7),
        torch.nonzero_static(i, size=3),
        torch.diff(x, n=0, prepend=x),
        torch.prod(i, dtype=torch.bool),
        torch.arange(1.7, 9.6, 1.9, dtype=torch.int64),
        torch.arange(1.7, 9.6, 1.9, dtype=torch.int32),
        *torch.nonzero(i[0, 0], as_tuple=True),
        torch.linalg.vander(t),
        torch.linalg.vecdot(x, x.exp(), dim=0),
        torch.pdist(x),
        torch.linalg.multi_dot([x, x.t(), x]),
        F.multi_margin_loss(x, i[:, 0].abs() % 4, p=2, weight=t[:5].abs()),
    ]


g(
    "statistics",
    statistics,
    randn(4, 5),
    torch.where(rand(4, 5) > 0.7, float("nan"), randn(4, 5)),
    randint(0, 4, (4, 5)),
    torch.tensor([0.0, 0.21, 1.0]),
    randn(5),
)


def matrix_norms(s, x, y, h):
    orders = ("fro", 1, -1, float("inf"), -float("inf"))
    r = [torch.linalg.norm(x, p) for p in orders]
    r += [torch.linalg.norm(y, p, dim=(2, 0), keepdim=k) for p in orders for k in (False, True)]
    r += [torch.linalg.matrix_norm(y, p, dim=(0, -1), keepdim=k) for p in orders for k in (False, True)]
    return r + [
        torch.linalg.norm(y),
        torch.linalg.norm(y, dim=(0, 1)),
        torch.linalg.norm(x, 3, dim=1),
        torch.linalg.norm(x[0], 0.5),
        torch.linalg.norm(x[0], 1, dim=(0,), keepdim=True),
        torch.linalg.norm(x[:0], float("inf"), dim=(0, 1)),
        torch.linalg.matrix_norm(y),
        torch.linalg.matrix_norm(h, 1),
        torch.linalg.matrix_norm(h, 1, dtype=torch.float64),
        torch.linalg.vander(x[0, 0], N=3),
        torch.matrix_power(x[:, :4], 6),
    ]


g("matrix_norms", matrix_norms, randn(4, 5), randn(3, 2, 4), randn(2, 5, 4).bfloat16())


def stacks(s, x, y, i, m):
    one, three = x[0, 0], x.reshape(2, 3, 2, 2)
    return [
        torch.block_diag(x[0], y, one, x[0, 0, 0]),
        torch.cartesian_prod(one, y[0], i[0].float()),
        torch.combinations(one, 2),
        torch.combinations(one, 3, with_replacement=True),
        torch.dstack([x[0], x[1]]),
        torch.column_stack([y[:, 0], y]),
        *torch.atleast_3d(one, y, x, x[0, 0, 0]),
        *torch.atleast_1d(x[0, 0, 0], y),
        torch.fft.fftshift(x),
        torch.fft.ifftshift(x, dim=(1, 2)),
        torch.diagflat(y, 1),
        x.sum_to_size(3, 1),
        *torch.hsplit(x, 3),
        *torch.vsplit(x, [1]),
        *torch.dsplit(three, [1, 2]),
        y.mH,
        A._chunk_cat([x, x.reshape(2, -1)], 0, 2),
        torch.put(x, i, one[: i.shape[1]].expand(i.shape), accumulate=True),
        torch.as_strided_scatter(x, y[:2], (2, 4), (1, 3), 2),
        A._unsafe_masked_index(y, m, [i[:, :1], i[0] + 1], 0.5),
        A._unsafe_masked_index_put_accumulate(y, m, [i[:, :1], i[0]], y[:2, :2]),
    ]


g(
    "stacks",
    stacks,
    randn(2, 3, 4),
    randn(4, 4),
    torch.tensor([[1, 2], [0, 3]]),
    torch.tensor([[True, False], [True, True]]),
)

g(
    "special",
    lambda s, x, p, u, i: [
        *[f(x) for f in (torch.lgamma, torch.digamma, torch.special.ndtr, torch.special.log_ndtr, torch.special.erfcx, torch.special.entr)],
        *[f(p) for f in (torch.lgamma, torch.digamma, torch.special.entr)],
        torch.mvlgamma(p + 2, 3),
        torch.erfinv(u),
        torch.special.ndtri(u.abs()),
        torch.logaddexp2(x, u),
        torch.ldexp(x, i.float()),
        torch.gcd(i, i.flip(0)),
        torch.lcm(i, i.flip(0)),
        torch.isreal(x),
    ],
    torch.cat([4 * randn(20), torch.tensor([0.0, -2.0, 30.0, -40.0, float("inf")])]),
    12 * rand(20) + 0.01,
    torch.cat([2 * rand(23) - 1, torch.tensor([1.0, 0.9999999])]),
    randint(-60, 60, (25,)),
)


@torch.library.custom_op("transformers::grouped_mm_fallback", mutates_args=())
def grouped(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    """The operator of transformers' mixtures of experts: rows of group `e`, which ends before row `offs[e]`."""
    parts, start = [], 0
    for matrix, end in zip(weight, offs.tolist()):
        parts.append(input[start:end] @ matrix)
        start = end
    return torch.cat([*parts, input.new_zeros(len(input) - start, weight.shape[2])])


@grouped.register_fake
def _(input, weight, offs):
    return input.new_empty(input.shape[0], weight.shape[2])


g(
    "experts",
    lambda s, x, w, ends, few: [grouped(x, w, ends), grouped(x[:3], w, few), grouped(x[:3], w, ends.clamp(max=2))],
    randn(9, 5),
    randn(4, 5, 6),
    torch.tensor([2, 2, 7, 8], dtype=torch.int32),
    torch.tensor([0, 1, 1, 3]),
)


def written(s, x, y, i):
    whole = torch.stack([x, x])
    a, b, c, d = whole[0, 0], whole[0, 1], whole[1, 0], whole[1, 1]
    a.pow_(y[0])
    b.ldexp_(i.float())
    c.floor_divide_(y[0])
    d.float_power_(2) if d.dtype == torch.float64 else d.pow_(2)
    wide = torch.stack([x.double(), x.double()])
    wide[1].float_power_(y)
    flat = x.clone()
    flat.as_strided_((2, 2), (1, 3), 1)
    return whole, wide, flat * 2, i.clone().floor_divide_(i.flip(0))


g("written", written, rand(2, 4) + 0.5, rand(2, 4) + 0.5, torch.tensor([-3, 2, 5, -1]))


# Windows on memory take elements in the order in which they lie, which is not that of the dimensions.
def memory(s, x, y, v):
    turned, last, row = x.t(), y.permute(0, 2, 3, 1), v.permute(2, 0, 1)
    clone = y.contiguous(memory_format=torch.channels_last)
    written = x.t().clone(memory_format=torch.preserve_format)
    written.as_strided((2, 2), (5, 1), 2).mul_(-1)
    return [
        turned.as_strided((3, 2), (2, 5)),
        (turned * 2).as_strided((2, 3), (1, 4), 1),
        last.as_strided((2, 3, 2), (7, 2, 1), 3),
        (clone + 1).as_strided((4, 5), (9, 1), 2),
        torch.as_strided_scatter(turned * 1, torch.ones(2, 2), (2, 2), (6, 2), 1),
        torch.as_strided_scatter(clone * 1, torch.ones(3), (3,), (11,), 4),
        row.as_strided((), (), 7),
        x[1:].as_strided((2, 2), (1, 3), 6),
        x[1:].as_strided((2, 2), (1, 3)),
        written,
    ]


g("memory", memory, randn(4, 5), randn(2, 3, 4, 2), randn(2, 3, 4))


# What does not depend on the signs of vectors.
def matrices(s, x, b, wide, low):
    definite = x @ x.mT + torch.eye(3)
    factor = torch.linalg.cholesky(definite)
    w, v = torch.linalg.eigh(definite)
    u, d, vh = torch.linalg.svd(wide, full_matrices=False)
    old = torch.svd(wide)
    q, r = torch.linalg.qr(wide)
    sign, log = torch.linalg.slogdet(x)
    inv, info = torch.linalg.inv_ex(x)
    return [
        torch.linalg.inv(x),
        inv,
        info,
        torch.linalg.solve(x, b),
        torch.linalg.solve(x, b.mT, left=False),
        torch.linalg.solve(x, b[..., 0]),
        factor,
        torch.linalg.cholesky(definite, upper=True),
        torch.cholesky_solve(b, factor),
        torch.cholesky_solve(b, factor.mT, upper=True),
        torch.cholesky_inverse(factor[0]),
        torch.linalg.solve_triangular(low, b, upper=False),
        torch.linalg.solve_triangular(low.mT, b.mT, upper=True, left=False, unitriangular=True),
        torch.triangular_solve(b, low, upper=False, transpose=True)[0],
        q,
        r,
        w,
        (v * w[..., None, :]) @ v.mT,
        torch.linalg.eigvalsh(definite, UPLO="U"),
        (u * d) @ vh,
        d,
        (old[0] * old[1]) @ old[2].mT,
        torch.linalg.svdvals(wide),
        torch.linalg.pinv(wide),
        torch.linalg.pinv(wide, rtol=0.5),
        torch.linalg.pinv(x, atol=torch.tensor([0.1, 2.0])),
        torch.linalg.pinv(x, atol=0.5, rtol=0.2),
        torch.pinverse(wide),
        torch.linalg.pinv(x, hermitian=True),
        torch.linalg.matrix_rank(x),
        torch.linalg.matrix_rank(wide, atol=torch.tensor(1.5), rtol=torch.tensor(0.1)),
        *[torch.linalg.cond(x, p) for p in (None, -2, 1, "nuc", "fro")],
        *[torch.linalg.matrix_norm(x, p) for p in (2, -2, "nuc")],
        torch.linalg.matrix_norm(x, "nuc", dim=(2, 0), keepdim=True),
        torch.linalg.norm(wide, 2),
        torch.linalg.tensorsolve(torch.eye(6).reshape(2, 3, 6) + 0.1, b[0].mT),
        torch.linalg.tensorsolve(torch.eye(6).reshape(6, 3, 2) + 0.1, b[0], dims=(0,)),
        torch.linalg.tensorinv(torch.eye(6).reshape(2, 3, 6) + 0.1),
        torch.linalg.det(x),
        sign,
        log,
        torch.logdet(x),
        torch.linalg.matrix_power(x, -2),
        torch.linalg.matrix_power(x, 3),
    ]


g("matrices", matrices, randn(2, 3, 3), randn(2, 3, 2), randn(4, 3), torch.tril(randn(3, 3)) + 2 * torch.eye(3))


# Transforms of signals with conjugate halves, and spectra of frames.
def spectra(s, x, y, w):
    z = torch.complex(x[0], x[1])
    real = lambda z: torch.view_as_real(z.resolve_conj())
    frames = torch.stft(y, 16, 5, window=w, return_complex=True)
    return [
        *[torch.fft.hfft(z, n, norm=norm) for n, norm in ((None, None), (7, "ortho"), (12, "forward"))],
        *[real(torch.fft.ihfft(x[0], norm=norm)) for norm in (None, "ortho", "forward")],
        torch.fft.hfft2(z),
        torch.fft.hfftn(z, s=(3, 8), norm="ortho"),
        real(torch.fft.ihfft2(x)),
        real(torch.fft.ihfftn(x, s=(5, 4), dim=(2, 1))),
        real(frames),
        real(torch.stft(y, 16, 4, 12, w[:12], center=False, normalized=True, return_complex=True)),
        real(torch.stft(y[0], 8, return_complex=True)),
        torch.istft(frames, 16, 5, window=w),
        torch.istft(frames, 16, 5, window=w, length=30),
        torch.istft(torch.stft(y, 8, 2, normalized=True, return_complex=True), 8, 2, normalized=True),
    ]


g("spectra", spectra, randn(2, 3, 6), randn(2, 40), torch.hann_window(16))


def eliminations(s, x, y):
    a, wide = x @ x.mT + 0.1 * x, x[:, :3]
    factors, pivots = torch.linalg.lu_factor(a)
    packed, places, _ = torch.linalg.lu_factor_ex(wide)
    values = torch.linalg.eigvals(a[0])
    w, v = map(torch.view_as_real, torch.linalg.eig(a[1]))
    re, im = v[..., 0], v[..., 1]
    return [
        *torch.linalg.lu(a),
        *torch.linalg.lu(wide.mT),
        factors,
        pivots,
        packed,
        places,
        *torch.lu_unpack(packed, places),
        torch.lu_unpack(factors, pivots, unpack_data=False)[0],
        torch.linalg.lu_solve(factors, pivots, y),
        torch.linalg.lu_solve(factors, pivots, y, adjoint=True),
        torch.linalg.lu_solve(factors, pivots, y.mT, left=False),
        torch.linalg.lu_solve(factors, pivots, y.mT, left=False, adjoint=True),
        torch.lu_solve(y, factors, pivots),
        torch.linalg.matrix_exp(x),
        torch.matrix_exp(x * 3),
        torch.linalg.householder_product(x[..., :3], y[:, 0]),
        torch.orgqr(x, y[..., :3, 0]),
        torch.sort(torch.view_as_real(values)[:, 0])[0],
        torch.view_as_real(values.sum()),
        # What there is of A·V − V·diag(λ).
        a[1] @ re - (re * w[:, 0] - im * w[:, 1]),
        a[1] @ im - (re * w[:, 1] + im * w[:, 0]),
        (re.square() + im.square()).sum(0),
    ]


g("eliminations", eliminations, randn(2, 4, 4), randn(2, 4, 2))


def rarities(s, x, y, at):
    table = torch.nn.functional.embedding(at, y.clone(), max_norm=1.0)
    counts, ends = torch.histogram(x, 6, range=(-2.0, 2.0))
    polynomials = [
        getattr(torch.special, name)(x, n)
        for name in [
            "chebyshev_polynomial_t",
            "chebyshev_polynomial_u",
            "chebyshev_polynomial_v",
            "chebyshev_polynomial_w",
            "hermite_polynomial_h",
            "hermite_polynomial_he",
            "laguerre_polynomial_l",
            "legendre_polynomial_p",
            "shifted_chebyshev_polynomial_t",
        ]
        for n in [0, 1, 4]
    ]
    return [
        table,
        counts,
        ends,
        *polynomials,
        torch.i0(x * 4),
        torch.special.i0e(x * 9),
        torch.special.i1(x * 4),
        torch.special.i1e(x * 9),
        torch.kaiser_window(9),
        torch.kaiser_window(8, periodic=False, beta=3.0),
        torch.vander(x[0]),
        torch.vander(x[0], 3, increasing=True),
        torch.nn.utils.rnn.pad_sequence([x, x[:2], x[:1]], batch_first=True, padding_value=-1.0),
        torch.nn.utils.rnn.pad_sequence([x[:1], x], padding_side="left"),
        torch.conv_tbc(x[:, None].repeat(1, 2, 1), y[:3, :, None].repeat(1, 1, 4) * y[0], y[1], 1),
        torch.nn.functional.kl_div(x, x, reduction="none"),
        torch.nn.functional.multilabel_margin_loss(x, at[:4].expand(5, 4)),
    ]


g("rarities", rarities, randn(5, 4), randn(6, 4), torch.tensor([3, 0, -1, 2, 3])[[1, 0, 3, 0]].clone())


def waves(s, x, w, u, a):
    # A layer of a Fourier neural operator: some modes are multiplied, and written into zeros.
    z = torch.fft.rfft2(x)
    modes = torch.zeros(2, 3, 8, 5, dtype=torch.cfloat)
    w = torch.view_as_complex(w)
    modes[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", z[:, :, :3, :3], w)
    modes[:, :, -3:, :3] = torch.einsum("bixy,ioxy->boxy", z[:, :, -3:, :3], w.conj())
    operator = torch.fft.irfft2(modes, s=(8, 8))
    # The kernel of a diagonal state space, and its recurrence.
    rates = -torch.exp(a) + 1j * torch.arange(3) * 2
    steps = (rates * 0.1).unsqueeze(-1) * torch.arange(12)
    kernel = 2 * torch.einsum("n,nl->l", (torch.exp(rates * 0.1) - 1.0) / rates, torch.exp(steps)).real
    filtered = torch.fft.irfft(torch.fft.rfft(u, n=24) * torch.fft.rfft(kernel, n=24), n=24)[..., :12]
    state = torch.zeros(2, 3, dtype=torch.cfloat)
    states = []
    for t in range(4):
        state = torch.exp(rates * 0.1) * state + u[:, t, None]
        states.append(state.real)
    # Weights of a beam.
    v = torch.complex(u[:, :6].reshape(2, 2, 3), u[:, 6:].reshape(2, 2, 3))
    covariance = v.mH @ v + 3 * torch.eye(3, dtype=torch.cfloat)
    look = torch.exp(1j * torch.arange(3) * 0.3)
    beam = torch.linalg.solve(covariance, look.expand(2, 3))
    return [
        operator,
        filtered,
        torch.stack(states),
        torch.view_as_real(beam / (look.conj() * beam).sum(-1, keepdim=True)),
        torch.view_as_real(torch.linalg.inv(covariance)),
        torch.view_as_real(torch.linalg.matrix_exp(covariance * -0.1j)),
        torch.fft.fftshift(z).real,
    ]


g("waves", waves, randn(2, 3, 8, 8), randn(3, 3, 3, 3, 2), randn(2, 12), randn(3))


def pairs(s, x, k, bias):
    z, k, bias = torch.complex(x, x.roll(1, 0)), torch.view_as_complex(k), torch.view_as_complex(bias)
    y = z.clone()
    y[1:3, :2] = 0
    y[0] = z[1]
    y *= 2
    y += z
    y.real.mul_(3)
    y.imag[2] = 1
    linear = F.linear(z, k[:, :, 0].T.contiguous(), bias[:1])
    results = [
        y,
        linear,
        F.conv1d(z[None, :4], k, bias, padding=1),
        torch.sqrt(z), torch.log(z), z**2, z**-3, z**0.5, 2.0 * z.tanh(), z.sin(), z.cos(), z.tan(), z.sinh(), z.cosh(),
        z.sigmoid(), z.reciprocal(), z.sgn(), z.rsqrt(), torch.log1p(z), torch.expm1(z), F.silu(z),
        z.cumsum(1), z.mean(0), z.flip(0), torch.cat([z, z * 1j], 1), torch.stack([z, z.conj()]), torch.where(x > 0, z, 0),
        z.masked_fill(x > 0, 0.0), z.tril(), torch.roll(z, 2, 1), torch.outer(z[0], z[1]), torch.dot(z[0], z[1]),
        torch.vdot(z[0], z[1]), z.sum(), torch.diff(z), 2 - z, torch.full_like(z, 2.0), z.T, z.unbind(0)[1], z.split(3, 1)[1],
        z.diagonal(), z.repeat_interleave(2, 0), z.index_select(1, torch.tensor([2, 0])), torch.addcmul(z, z, z, value=0.5),
        F.pad(z, (1, 2)), z.movedim(0, 1), z @ z.mT, z.trace(), z.square(),
    ]
    real = [z == z.conj(), torch.linalg.vector_norm(z, dim=1), z.any(1), torch.linalg.eigvalsh(z @ z.mH), torch.linalg.svdvals(z[:, :5])]
    return [torch.view_as_real(r.resolve_conj()) for r in results] + real


g("pairs", pairs, randn(5, 7), randn(7, 4, 3, 2), randn(7, 2))


def complex_inputs(s, z, scalar, columns, changed, x):
    changed.mul_(z[0, 0])
    spectrum = torch.fft.rfft(x.view(2, 65))
    return [
        z * scalar,
        z.abs(),
        torch.angle(z),
        (z @ columns).to(torch.complex128) * scalar,
        changed.conj(),
        torch.special.sinc(x),
        # Frequencies 0 and n/2 of real numbers have no imaginary part, whose sign would decide the angle.
        torch.angle(spectrum[:, :1]),
        torch.angle(torch.fft.rfft(-x)[:1]),
        torch.angle(torch.fft.rfft(-x)[65:]),
    ]


g(
    "complex_inputs",
    complex_inputs,
    randn(3, 4, dtype=torch.cfloat),
    torch.tensor(1.5 - 2.5j, dtype=torch.cdouble),
    randn(5, 4, dtype=torch.cfloat).mT,
    randn(3, dtype=torch.cfloat),
    randn(130),
)


def quantized(s, x, w, scales):
    import torch.ao.quantization.fx._decomposed  # registers the operators

    q = torch.ops.quantized_decomposed
    i8, u8, f32 = torch.int8, torch.uint8, torch.float32
    whole = q.quantize_per_tensor(x, 0.05, 3, 0, 255, u8)
    scale, zero = q.choose_qparams.tensor(x, -128, 127, 1e-6, i8)
    told = q.quantize_per_tensor.tensor(x, scale, zero, -128, 127, i8)
    even = q.choose_qparams_symmetric.tensor(x, 0, 255, 1e-6, u8)
    channels = q.quantize_per_channel(w, scales, torch.tensor([1, -2, 0]), 0, -127, 127, i8)
    rows, places = q.choose_qparams_per_token_asymmetric(x, i8)
    tokens = q.quantize_per_token(x, rows, places, -128, 127, i8)
    size, none = q.choose_qparams_per_token(x, i8)
    groups = q.quantize_per_channel_group(w, scales[:, None].expand(3, 2) * 1.5, torch.ones(3, 2, dtype=torch.int32), -8, 7, i8, 4)
    weight = q.dequantize_per_channel(channels, scales, torch.tensor([1, -2, 0]), 0, -127, 127, i8)
    return [
        whole,
        q.dequantize_per_tensor(whole, 0.05, 3, 0, 255, u8),
        q.dequantize_per_tensor(whole, 0.05, 3, 0, 255, u8, out_dtype=torch.bfloat16),
        scale,
        zero,
        told,
        q.dequantize_per_tensor.tensor(told, scale, zero, -128, 127, i8),
        *even,
        channels,
        F.linear(x, weight),
        q.dequantize_per_channel(channels.T.contiguous(), scales, None, 1, -127, 127, i8),
        rows,
        places,
        tokens,
        q.dequantize_per_token(tokens, rows, places, -128, 127, i8, f32),
        size,
        none,
        groups,
        q.dequantize_per_channel_group(groups, scales[:, None].expand(3, 2) * 1.5, None, -8, 7, i8, 4, f32),
        torch.fake_quantize_per_tensor_affine(x, 0.1, 2, -8, 7),
        torch.fake_quantize_per_tensor_affine(x, scales[:1], torch.zeros(1, dtype=torch.int32), -8, 7),
        torch.fake_quantize_per_channel_affine(w, scales, torch.tensor([1, -2, 0], dtype=torch.int32), 0, -8, 7),
        torch.ops.aten._weight_int8pack_mm(x, channels, scales),
    ]


g("quantized", quantized, randn(5, 8), randn(3, 8), rand(3) * 0.05 + 0.02)


def gammas(s, x, p, n, lengths, offsets, image):
    one = torch.ones_like(p)
    return [
        torch.polygamma(0, p),
        torch.polygamma(2, p),
        torch.special.polygamma(1, x),
        torch.special.zeta(p + 1, p),
        torch.special.zeta(2.5, p),
        torch.special.zeta(p + 1, 2.0),
        torch.igamma(p * 4, p.flip(0) * 4),
        torch.igammac(p, p.flip(0)),
        torch.special.gammainc(p, x.abs()),
        torch.special.gammaincc(p, x.abs() * 9),
        torch.nextafter(x, p),
        *torch.frexp(x),
        *[torch.segment_reduce(x, how, lengths=lengths) for how in ["sum", "mean", "prod", "min", "max"]],
        torch.segment_reduce(x, "sum", offsets=offsets),
        torch.segment_reduce(x.T.contiguous(), "max", lengths=lengths.expand(5, 3).contiguous(), axis=1, initial=0.5),
        # What is drawn has one value.
        torch.poisson(one * 0),
        torch.binomial(n, one),
        torch._standard_gamma(p).ge(0),
        F.feature_alpha_dropout(image, 1.0, True),
        F.feature_alpha_dropout(image, 0.5, False),
        F.alpha_dropout(image, 1.0, True),
        x.clone().log_normal_(0.5, 1e-12),
        x.clone().cauchy_(-1.5, 1e-12),
        x.clone().geometric_(1 - 1e-9),
        # Other names.
        torch.special.erfc(x),
        torch.special.exp2(x),
        torch.special.expm1(x),
        torch.special.log1p(p),
        torch.special.log_softmax(x, 1),
        torch.special.logit(p / 2, 0.1),
        torch.special.logsumexp(x, 1),
        torch.special.multigammaln(p + 2, 2),
        torch.special.round(x),
        torch.special.round(x, decimals=2),
        torch.special.xlogy(x, p),
        torch.special.xlogy(x, 2.0),
        torch.special.xlogy(2.0, p),
        torch.row_stack([x, p]),
        *[f(x.tanh()) for f in (torch.arccos, torch.arcsin, torch.arcsinh, torch.arctan, torch.arctanh)],
        torch.arccosh(p + 1),
        x * torch.fft.fftfreq(5),
        x[:, :3] * torch.fft.rfftfreq(5, 0.5),
        torch.norm_except_dim(x, 2, 1),
        torch.norm_except_dim(image, 3, 0),
        torch.norm_except_dim(x, 2, -1),
    ]


g(
    "gammas",
    gammas,
    randn(3, 5),
    rand(3, 5) + 0.1,
    randint(0, 30, (3, 5)).float(),
    torch.tensor([1, 0, 2]),
    torch.tensor([0, 1, 3]),
    randn(2, 3, 4, 4),
)
