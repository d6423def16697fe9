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
