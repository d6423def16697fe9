"""Every operator: modules of several operators each."""

import torch
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as control_map
import torch.nn as nn, torch.nn.functional as F
from torch import randn, rand, randint, arange

torch.manual_seed(0)


class L(nn.Module):
    def __init__(s, f, mods=None):
        super().__init__()
        s.f = f
        for k, v in (mods or {}).items():
            setattr(s, k, v)

    def forward(s, *a):
        return s.f(s, *a)


GROUPS = {}


def g(name, f, *args, mods=None, train=False, calls=1):
    m = L(f, mods)
    m.train(train)
    GROUPS[name] = (m, args)


x = randn(3, 5)
y = randn(3, 5)
p = rand(3, 5) + 0.1
i = randint(-5, 6, (3, 5))
b = x > 0
g(
    "unary",
    lambda s, x, p: [
        f(x)
        for f in (
            torch.abs,
            torch.neg,
            torch.sign,
            torch.exp,
            torch.exp2,
            torch.expm1,
            torch.square,
            torch.sin,
            torch.cos,
            torch.tan,
            torch.atan,
            torch.sinh,
            torch.cosh,
            torch.tanh,
            torch.asinh,
            torch.erf,
            torch.erfc,
            torch.floor,
            torch.ceil,
            torch.trunc,
            torch.frac,
            torch.isnan,
            torch.isinf,
            torch.isfinite,
            torch.logical_not,
            torch.sigmoid,
            torch.relu,
            torch.reciprocal,
            torch.sgn,
            torch.signbit,
            torch.round,
            torch.nan_to_num,
            torch.sinc,
            torch.deg2rad,
            torch.isposinf,
            torch.isneginf,
        )
    ]
    + [
        f(p)
        for f in (
            torch.log,
            torch.log2,
            torch.log10,
            torch.log1p,
            torch.sqrt,
            torch.rsqrt,
            torch.logit,
            torch.asin,
            torch.acos,
            torch.atanh,
        )
    ]
    + [torch.acosh(p + 1), torch.round(x, decimals=2), torch.logit(x, eps=1e-2)],
    x,
    p.clamp(max=0.9),
)
g(
    "unary_int",
    lambda s, i, b: [
        f(i)
        for f in (
            torch.abs,
            torch.neg,
            torch.sign,
            torch.exp,
            torch.square,
            torch.sin,
            torch.tanh,
            torch.floor,
            torch.round,
            torch.isnan,
            torch.logical_not,
            torch.bitwise_not,
            torch.sigmoid,
            torch.relu,
            torch.sqrt,
        )
    ]
    + [torch.logical_not(b), torch.bitwise_not(b), torch.exp(b)],
    i,
    b,
)
g(
    "binary",
    lambda s, x, y, p: [
        x + y,
        torch.add(x, y, alpha=2),
        x - y,
        torch.sub(x, y, alpha=0.5),
        2 - x,
        torch.rsub(x, y, alpha=3),
        x * y,
        x / p,
        torch.div(x, p, rounding_mode="floor"),
        torch.div(x, p, rounding_mode="trunc"),
        x // p,
        x % p,
        torch.fmod(x, p),
        p**x,
        p**2,
        x**3,
        2**x,
        p**0.5,
        p**-1,
        torch.maximum(x, y),
        torch.minimum(x, y),
        torch.fmax(x, y),
        torch.fmin(x, y),
        torch.atan2(x, y),
        torch.hypot(x, y),
        torch.logaddexp(x, y),
        x == y,
        x != y,
        x < y,
        x <= 0,
        x > y,
        x >= 1.5,
        torch.logical_and(x, y),
        torch.logical_or(x, y),
        torch.logical_xor(x, y),
        torch.xlogy(x, p),
        torch.copysign(x, y),
        torch.heaviside(x, y),
        torch.where(x > 0, x, y),
        torch.where(x > 0, 1.0, y),
        torch.where(x > 0, x, 0),
        torch.where(x > 0, 1, 0),
        torch.where(x > 0, 1.0, 2.0),
        x.masked_fill(y > 0, -1),
        x.clamp(-0.5, 0.5),
        x.clamp(min=0),
        x.clamp(max=y),
        torch.lerp(x, y, 0.3),
        torch.lerp(x, y, p),
        torch.addcmul(x, y, p, value=0.5),
        torch.addcdiv(x, y, p, value=2),
        torch.isclose(x, y),
        torch.float_power(p, 2),
    ],
    x,
    y,
    p,
)
g(
    "binary_int",
    lambda s, i, j, b, x, h: [
        i + j,
        i + 1,
        i + 1.5,
        i * j,
        i / j,
        i // j,
        i % j,
        torch.fmod(i, j),
        torch.div(i, j, rounding_mode="trunc"),
        i & j,
        i | j,
        i ^ j,
        i << 2,
        i >> 1,
        i == j,
        b & (i > 0),
        b | (i > 0),
        b ^ (i > 0),
        b + b,
        b * 2,
        b * 2.0,
        i * x,
        i + b,
        h + i,
        h * 2.5,
        h + x,
        torch.maximum(i, j),
        i.clamp(-1, 2),
        i.clamp(min=0.5),
        ~i,
        i**2,
        torch.pow(2, j),
        b.sum(),
        b.float().mean(),
        i.to(torch.int32) + 1,
        i.to(torch.uint8),
        h.float(),
        x.half(),
        x.to(torch.float64),
        i.bool(),
        -i,
        torch.rsub(i, 3),
        torch.tensor(2) * x,
        x * torch.tensor(2.0, dtype=torch.float64),
        h * torch.tensor(2.0),
    ],
    i,
    randint(1, 5, (3, 5)),
    b,
    x,
    x.half(),
)
g(
    "reduce",
    lambda s, x, i, b: [
        x.sum(),
        x.sum(0),
        x.sum((0, -1), keepdim=True),
        x.sum(-1, dtype=torch.float64),
        i.sum(),
        i.sum(1),
        b.sum(0),
        x.mean(),
        x.mean(0),
        x.mean((0, 1), keepdim=True),
        x.prod(),
        x.prod(1),
        i.prod(0),
        x.amax(1),
        x.amin((0, 1)),
        x.amax(-1, keepdim=True),
        x.max(),
        x.min(),
        x.max(1),
        x.min(0, keepdim=True),
        x.argmax(),
        x.argmax(1),
        x.argmin(0, keepdim=True),
        b.any(),
        b.any(1),
        b.all(0),
        x.var(),
        x.var(0),
        x.var(1, unbiased=False, keepdim=True),
        torch.std(x, dim=0),
        x.std(),
        torch.var_mean(x, dim=1),
        torch.std_mean(x),
        x.logsumexp(1),
        x.norm(),
        x.norm(dim=1),
        x.norm(p=1, dim=1),
        torch.linalg.vector_norm(x, float("inf"), dim=0),
        torch.linalg.norm(x),
        torch.count_nonzero(b),
        x.cumsum(0),
        i.cumsum(1),
        x.cumprod(1),
        x.logcumsumexp(0),
        x.cummax(1),
        x.cummin(0),
        x.diff(),
        torch.aminmax(x),
        x.nansum(),
        x.nanmean(1),
        torch.dist(x, x * 2),
        torch.trace(x),
        torch.var(x, dim=0, correction=2),
    ],
    x,
    i,
    b,
)
g(
    "sort",
    lambda s, x, i: [
        *x.sort(),
        *x.sort(0, descending=True),
        x.argsort(1),
        *x.topk(2),
        *x.topk(2, 0, largest=False),
        *x.kthvalue(2),
        *x.median(1),
        x.median(),
        torch.searchsorted(x.sort().values, x),
        torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0]), right=True),
        *i.sort(stable=True),
        torch.unique(i),
        *torch.unique(i, return_inverse=True, return_counts=True),
        torch.bincount(i.flatten() + 5),
        torch.msort(x),
    ],
    x,
    i,
)
z = randn(2, 3, 4)
g(
    "views",
    lambda s, z: [
        z.view(6, 4),
        z.reshape(-1, 2),
        z.permute(2, 0, 1),
        z.transpose(0, -1),
        z[0].t(),
        z.unsqueeze(1),
        z.unsqueeze(-1).squeeze(-1),
        z[:1].squeeze(0),
        z[:1].squeeze(),
        z.expand(2, -1, 4),
        z[:1].expand(5, 3, 4),
        z[:, 1:, ::2],
        z[0],
        z[..., -1],
        z[:, None],
        z.narrow(1, 1, 2),
        *z.split(2, 1),
        *z.split([1, 2], 1),
        *z.chunk(2, -1),
        *z.unbind(1),
        *torch.tensor_split(z, 3, 2),
        *torch.tensor_split(z, (1, 3), 2),
        z.flatten(),
        z.flatten(1),
        z.unflatten(2, (2, -1)),
        z.movedim(0, 2),
        z.swapaxes(0, 1),
        z.diagonal(0, 1, 2),
        z[0].diagonal(1),
        z.unfold(2, 2, 1),
        torch.as_strided(z, (2, 2), (4, 1), 1),
        z.mT,
        z[0].T,
        z.contiguous(),
        z.clone(),
        torch.broadcast_to(z[:1], (2, 3, 4)),
        z.view_as(z),
        z.ravel(),
        torch.atleast_2d(z[0, 0]),
    ],
    z,
)
g(
    "join",
    lambda s, z, x: [
        torch.cat([z, z], 1),
        torch.stack([x, x], -1),
        torch.hstack([x, x]),
        torch.vstack([x, x]),
        z.repeat(2, 1, 1),
        z.repeat(2, 1, 1, 1),
        torch.tile(x, (2,)),
        x.repeat_interleave(2, 0),
        x.repeat_interleave(3),
        x.flip(0),
        x.flip((0, 1)),
        x.roll(1, 0),
        x.roll(2),
        x.roll((1, -1), (0, 1)),
        torch.rot90(x),
        F.pad(x, (1, 2)),
        F.pad(x, (1, 0, 2, 1), value=3.0),
        F.pad(z, (1, 1), mode="reflect"),
        F.pad(z[None], (1, 2, 0, 1), mode="replicate"),
        F.pad(z, (1, 2), mode="circular"),
        F.pad(x, (-1, 1)),
        x.tril(),
        x.triu(1),
        torch.diag(x[0]),
        torch.diag(x),
        torch.diag_embed(x),
        torch.diag_embed(x, offset=1, dim1=0),
        *torch.meshgrid(x[0], x[:, 0], indexing="ij"),
        *torch.meshgrid(x[0], x[:, 0], indexing="xy"),
        *torch.broadcast_tensors(x[:1], x[:, :1]),
        torch.concat([x, x.half()]),
    ],
    z,
    x,
)
g(
    "shuffle",
    lambda s, a: [
        F.pixel_shuffle(a, 2),
        F.pixel_unshuffle(F.pixel_shuffle(a, 2), 2),
        F.channel_shuffle(a, 2),
        F.unfold(a, (2, 3), padding=1, stride=2),
        F.fold(F.unfold(a, 2), (5, 6), 2),
        F.unfold(a, 2, dilation=2),
    ],
    randn(2, 8, 5, 6),
)
idx = torch.tensor([2, 0, 1, 0])
g(
    "index",
    lambda s, z, idx, b, t: [
        z[:, idx % 3],
        z[idx % 2, idx % 3],
        z[:, :, idx],
        z[idx % 2, :, idx],
        x[b],
        torch.index_select(z, 1, idx % 3),
        torch.gather(z, 2, t),
        torch.take_along_dim(z, t, 2),
        z.take(idx),
        z.masked_select(z > 0),
        torch.nonzero(b),
        F.embedding(idx, z[0]),
        F.one_hot(idx, 5),
        torch.isin(idx, torch.tensor([0, 1])),
        torch.where(b),
        z[-1, -1],
        z[b[:2, :3]],
        torch.argwhere(b),
    ],
    z,
    idx,
    b,
    randint(0, 4, (2, 3, 4)),
)


def sc(s, z, t, idx, x):
    a = z.clone()
    a[:, idx[:2] % 3] = 1.5
    c = z.clone()
    c[c > 0] = 0
    d = z.clone()
    d[0] = z[1]
    d[:, 1:, ::2] += 1
    e = z.clone()
    e.index_put_((idx % 2, idx % 3), z[0, 0, 0], accumulate=True)
    return [
        z.scatter(2, t, z * 2),
        z.scatter(2, t, 1.0),
        z.scatter_add(2, t, z),
        z.scatter_reduce(2, t, z, "amax"),
        z.scatter_reduce(2, t, z, "mean", include_self=False),
        z.scatter_reduce(2, t, z, "prod"),
        z.scatter(2, t, z, reduce="add"),
        a,
        c,
        d,
        e,
        z.index_add(1, idx % 3, torch.ones(2, 4, 4)),
        z.index_add(1, idx % 3, torch.ones(2, 4, 4), alpha=2),
        z.index_copy(1, torch.tensor([2, 0]), torch.zeros(2, 2, 4)),
        z.index_fill(1, torch.tensor([2, 0]), 7.0),
        z.masked_scatter(z > 0, z * 10),
        torch.slice_scatter(z, torch.zeros(2, 1, 4), 1, 1, 2),
        torch.select_scatter(z, torch.zeros(2, 4), 1, -1),
        torch.diagonal_scatter(x, torch.zeros(3)),
        z.index_put((idx % 2, idx % 3), torch.ones(4)),
        z.masked_fill(z > 0, torch.tensor(2.0)),
    ]


g("scatter", sc, z, randint(0, 4, (2, 3, 4)), idx, x)
g(
    "product",
    lambda s, x, z, w: [
        x @ x.t(),
        torch.mm(x, x.t()),
        torch.bmm(z, z.mT),
        z @ w,
        z[0, 0] @ w,
        torch.mv(x, x[0]),
        torch.dot(x[0], x[1]),
        torch.outer(x[0], x[1]),
        torch.addmm(x[:, :3], x, x.t()[:, :3], beta=0.5, alpha=2),
        torch.baddbmm(z[:, :, :3], z, z.mT),
        F.linear(z, w.t()),
        F.linear(z, w.t(), torch.ones(5)),
        torch.einsum("bij,jk->bik", z, w),
        torch.einsum("bij->bj", z),
        torch.tensordot(z, w, 1),
        torch.cdist(x, x * 2),
        F.cosine_similarity(x, x * x),
        torch.linalg.cross(x[:, :3], x[:, 1:4]),
        torch.kron(x, x),
        F.bilinear(x, x, torch.ones(2, 5, 5)),
        torch.inner(x, x),
        torch.chain_matmul(x, x.t(), x),
        x.matmul(x[0]),
        F.pairwise_distance(x, x * 2),
        torch.addmv(x[:, 0], x, x[0]),
        torch.matrix_power(x[:, :3], 3),
    ],
    x,
    z,
    randn(4, 5),
)
q = randn(2, 4, 6, 8)


def att(s, q, k, v, m):
    return [
        F.scaled_dot_product_attention(q, k, v),
        F.scaled_dot_product_attention(q, q, q, is_causal=True),
        F.scaled_dot_product_attention(q, k, v, attn_mask=m),
        F.scaled_dot_product_attention(q, k, v, attn_mask=m.float()),
        F.scaled_dot_product_attention(q, k, v, scale=0.3),
        F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
    ]


g("attention", att, q, randn(2, 4, 7, 8), randn(2, 4, 7, 8), torch.rand(6, 7) > 0.3)
im = randn(2, 4, 9, 8)
g(
    "conv",
    lambda s, a, l: [
        s.c1(a),
        s.c2(a),
        s.c3(a),
        s.c4(a),
        s.c5(a),
        s.t1(a),
        s.t2(a),
        s.l1(l),
        s.lt(l),
        s.v(a[:, :, None]),
        s.c1(a[0]),
        s.vt(a[:, :, None]),
    ],
    im,
    randn(2, 3, 10),
    mods=dict(
        c1=nn.Conv2d(4, 6, 3),
        c2=nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2),
        c3=nn.Conv2d(4, 4, (3, 2), padding="same", bias=False),
        c4=nn.Conv2d(4, 4, 3, dilation=2, groups=4, padding=(2, 1)),
        c5=nn.Conv2d(4, 3, 1, padding="valid"),
        t1=nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1, output_padding=1),
        t2=nn.ConvTranspose2d(4, 4, 2, groups=2),
        l1=nn.Conv1d(3, 5, 3, padding=1, padding_mode="circular"),
        lt=nn.ConvTranspose1d(3, 2, 4, stride=2),
        v=nn.Conv3d(4, 2, (1, 2, 2)),
        vt=nn.ConvTranspose3d(4, 2, 2),
    ),
)
g(
    "pool",
    lambda s, a, l: [
        F.max_pool2d(a, 2),
        F.max_pool2d(a, 3, 2, 1, ceil_mode=True),
        *F.max_pool2d(a, 2, return_indices=True),
        F.max_pool2d(a, 2, 1, dilation=2),
        F.avg_pool2d(a, 2),
        F.avg_pool2d(a, 3, 2, 1, count_include_pad=False),
        F.avg_pool2d(a, 3, 2, 1, ceil_mode=True),
        F.avg_pool2d(a, 2, divisor_override=3),
        F.adaptive_avg_pool2d(a, 1),
        F.adaptive_avg_pool2d(a, (3, None)),
        F.adaptive_max_pool2d(a, 3),
        F.max_pool1d(l, 2),
        F.avg_pool1d(l, 3, 1, 1),
        F.adaptive_avg_pool1d(l, 4),
        F.adaptive_max_pool1d(l, 3),
        F.max_pool3d(a[None], 2),
        F.avg_pool3d(a[None], 2),
        F.lp_pool2d(a.abs(), 2, 2),
        F.max_pool2d(a[0], 2),
        F.adaptive_avg_pool3d(a[None], 2),
        F.max_unpool2d(*F.max_pool2d(a[:, :, :8], 2, return_indices=True), 2),
    ],
    im,
    randn(2, 3, 10),
)
g(
    "resample",
    lambda s, a, l, gr: [
        F.interpolate(a, scale_factor=2),
        F.interpolate(a, (5, 6)),
        F.interpolate(a, (12, 7), mode="bilinear"),
        F.interpolate(a, (12, 7), mode="bilinear", align_corners=True),
        F.interpolate(a, scale_factor=1.5, mode="bilinear"),
        F.interpolate(a, (12, 7), mode="bicubic"),
        F.interpolate(a, (5, 6), mode="nearest-exact"),
        F.interpolate(l, 15, mode="linear"),
        F.interpolate(l, scale_factor=2),
        F.grid_sample(a, gr, align_corners=False),
        F.grid_sample(a, gr, align_corners=True, padding_mode="reflection"),
        F.grid_sample(a, gr, mode="nearest", padding_mode="border"),
        F.interpolate(a, scale_factor=1.3),
        F.interpolate(a, scale_factor=1.3, mode="bicubic"),
        F.interpolate(l, scale_factor=0.7, mode="nearest-exact"),
        F.interpolate(a, (20, 13), mode="bicubic", antialias=True),
        F.interpolate(a[:, :, None], scale_factor=2, mode="trilinear"),
        F.affine_grid(torch.ones(2, 2, 3), (2, 4, 5, 6), align_corners=False),
        F.interpolate(a, scale_factor=0.5, mode="area"),
        F.interpolate(a, (6, 5), mode="bilinear", antialias=True),
    ],
    im,
    randn(2, 3, 10),
    torch.rand(2, 3, 4, 2) * 2.2 - 1.1,
)
g(
    "norm",
    lambda s, a, x: [
        s.b(a),
        s.ln(x),
        s.ln0(x),
        s.gn(a),
        s.inn(a),
        s.ia(a),
        s.rms(x),
        F.normalize(x),
        F.local_response_norm(a, 3),
        F.softmax(x, 1),
        F.log_softmax(x, 0),
        x.softmax(-1, dtype=torch.float64),
        F.batch_norm(a, torch.zeros(4), torch.ones(4)),
        F.instance_norm(a),
        F.layer_norm(x, (5,)),
        s.wn(x),
        F.softmin(x, 1),
        s.b1(x),
    ],
    im,
    x,
    mods=dict(
        b=nn.BatchNorm2d(4),
        b1=nn.BatchNorm1d(5, affine=False),
        ln=nn.LayerNorm(5),
        ln0=nn.LayerNorm((3, 5), elementwise_affine=False),
        gn=nn.GroupNorm(2, 4),
        inn=nn.InstanceNorm2d(4),
        ia=nn.InstanceNorm2d(4, affine=True),
        rms=nn.RMSNorm(5),
        wn=nn.utils.parametrizations.weight_norm(nn.Linear(5, 3)),
    ),
)
g(
    "norm_train",
    lambda s, a, x: [s.b(a), s.b1(x)],
    im,
    x,
    mods=dict(b=nn.BatchNorm2d(4), b1=nn.BatchNorm1d(5, momentum=0.3)),
    train=True,
)
g(
    "activation",
    lambda s, x: [
        f(x)
        for f in (
            F.gelu,
            F.silu,
            F.mish,
            F.relu6,
            F.selu,
            F.hardswish,
            F.hardsigmoid,
            F.logsigmoid,
            F.leaky_relu,
            F.elu,
            F.celu,
            F.hardtanh,
            F.softplus,
            F.softshrink,
            F.hardshrink,
            F.tanhshrink,
            F.softsign,
            F.rrelu,
        )
    ]
    + [
        F.gelu(x, approximate="tanh"),
        F.leaky_relu(x, 0.2),
        F.elu(x, 0.5),
        F.celu(x, 2.0),
        F.hardtanh(x, -0.5, 0.7),
        F.softplus(x, 2.0, 1.0),
        F.threshold(x, 0.1, 5.0),
        F.prelu(x, torch.full((5,), 0.3)),
        F.glu(torch.cat([x, x], 1)),
        F.relu(x),
        F.dropout(x, 0.5, False),
        F.alpha_dropout(x, 0.5, False),
        s.p(x),
    ],
    x,
    mods=dict(p=nn.PReLU()),
)
g(
    "create",
    lambda s, x, i: [
        torch.full((2, 3), 1.5),
        torch.full((2,), 3),
        torch.full((2,), True),
        torch.zeros(2, 3),
        torch.ones(2, dtype=torch.int64),
        torch.zeros_like(x),
        torch.ones_like(i),
        torch.full_like(x, 2),
        torch.full_like(x, 2, dtype=torch.int32),
        x.new_zeros(2),
        x.new_ones(3, dtype=torch.bool),
        x.new_full((2,), 3.0),
        torch.arange(5),
        torch.arange(1, 9, 2),
        torch.arange(0, 1, 0.25),
        torch.arange(3, dtype=torch.float32),
        torch.linspace(0, 1, 5),
        torch.logspace(0, 2, 3),
        torch.eye(3),
        torch.eye(2, 4),
        torch.tril_indices(3, 4),
        torch.triu_indices(3, 3, 1),
        torch.hann_window(6),
        torch.hamming_window(5),
        torch.tensor([1, 2, 3]),
        torch.tensor(3.5),
        torch.scalar_tensor(2.0),
        torch.empty_like(x).fill_(3),
        torch.empty(2, 3).zero_(),
        x.new_tensor([1.0, 2.0]),
        torch.zeros(2, dtype=torch.bfloat16).float(),
    ],
    x,
    i,
)
t5 = randint(0, 5, (3,))
g(
    "loss",
    lambda s, x, y, t, p: [
        F.mse_loss(x, y),
        F.mse_loss(x, y, reduction="none"),
        F.l1_loss(x, y, reduction="sum"),
        F.smooth_l1_loss(x, y),
        F.huber_loss(x, y, delta=0.5),
        F.nll_loss(F.log_softmax(x, 1), t),
        F.cross_entropy(x, t),
        F.cross_entropy(x, t, label_smoothing=0.1),
        F.cross_entropy(x, t, weight=torch.arange(1.0, 6)),
        F.cross_entropy(x, F.softmax(y, 1)),
        F.cross_entropy(x, torch.tensor([1, -100, 2])),
        F.binary_cross_entropy(p, (y > 0).float()),
        F.binary_cross_entropy_with_logits(x, (y > 0).float()),
        F.binary_cross_entropy_with_logits(x, (y > 0).float(), pos_weight=torch.ones(5) * 2),
        F.kl_div(F.log_softmax(x, 1), F.softmax(y, 1), reduction="batchmean"),
        F.kl_div(F.log_softmax(x, 1), F.log_softmax(y, 1), log_target=True),
        F.soft_margin_loss(x, y.sign()),
        F.triplet_margin_loss(x, y, p),
        F.poisson_nll_loss(x, p),
        F.margin_ranking_loss(x, y, y.sign()),
        F.hinge_embedding_loss(x, y.sign()),
        F.cosine_embedding_loss(x, y, torch.ones(3)),
    ],
    x,
    y,
    t5,
    p.clamp(max=0.99),
)
sq = randn(3, 2, 3)
g(
    "recurrent",
    lambda s, a, h: [
        *s.l(a)[1],
        s.l(a)[0],
        *s.g(a),
        *s.r(a.transpose(0, 1)),
        *s.l2(a[:, 0]),
        *s.cl(a[0]),
        s.cg(a[0]),
        s.lp(a)[0],
    ],
    sq,
    randn(2, 2, 4),
    mods=dict(
        l=nn.LSTM(3, 4, 2, bidirectional=True),
        g=nn.GRU(3, 4, 2),
        r=nn.RNN(3, 4, batch_first=True, nonlinearity="relu"),
        l2=nn.LSTM(3, 4, bias=False),
        cl=nn.LSTMCell(3, 4),
        cg=nn.GRUCell(3, 4),
        lp=nn.LSTM(3, 4, proj_size=2),
    ),
)
g(
    "embedding_bag",
    lambda s, i, o: [s.m(i, o), s.s(i, o), s.x(i, o), s.m(i.view(2, 3))],
    torch.tensor([1, 2, 4, 5, 4, 3]),
    torch.tensor([0, 4]),
    mods=dict(
        m=nn.EmbeddingBag(10, 3, mode="mean"),
        s=nn.EmbeddingBag(10, 3, mode="sum"),
        x=nn.EmbeddingBag(10, 3, mode="max"),
    ),
)


def cx(s, x, f):
    c = torch.view_as_complex(x.reshape(2, 3, -1, 2))
    r = torch.view_as_real(c * torch.polar(torch.ones_like(f), f)).flatten(2)
    k = torch.view_as_complex(torch.stack([f, f], -1))
    return [
        r,
        torch.view_as_real(c * s.fc[:3]),
        c.abs(),
        c.real,
        c.imag,
        torch.view_as_real(c.conj() * 2),
        torch.view_as_real(k + k),
        torch.angle(c),
        torch.view_as_real(c * c.unsqueeze(0)),
    ]


mm = L(cx)
mm.register_buffer("fc", torch.polar(torch.ones(4, 2), torch.randn(4, 2)))
GROUPS["complex"] = (mm, (z, randn(3, 2)))
g("bits", lambda s, x, i: [x.view(torch.int32), i.view(torch.float64), x.half().view(torch.int16)], x, i)
g(
    "inplace",
    lambda s, x, y: (
        lambda a: [
            a.add_(y),
            a.mul_(2).relu_(),
            a.clone().clamp_(-1, 1),
            a.clone().sub_(1).div_(3),
            a.new_zeros(3, 5).copy_(y),
            a.clone().masked_fill_(y > 0, 0.0),
            a.clone().fill_(2).sigmoid_(),
            a.clone().index_add_(0, torch.tensor([0, 1]), y[:2]),
            a.t().clone().transpose_(0, 1),
            a.clone().scatter_(1, torch.zeros(3, 1, dtype=torch.long), 9.0),
            a.clone().unsqueeze_(0),
            a.clone().addcmul_(y, y),
            a.clone().pow_(2),
            a.clone().lerp_(y, 0.5),
            a.clone().cumsum_(0),
            a.clone().tril_(),
            a.clone().exp_().neg_(),
            a.clone().clamp_min_(0),
        ]
    )(x.clone()),
    x,
    y,
)
g(
    "mha",
    lambda s, x: [s.m(x, x, x)[0], s.e(x), s.d(x, x), *s.m(x, x, x, average_attn_weights=False)],
    randn(2, 5, 8),
    mods=dict(
        m=nn.MultiheadAttention(8, 2, batch_first=True),
        e=nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True),
        d=nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
    ),
)


A = torch.ops.aten


def convolution_gradients(s, x, w, of):
    both = A.convolution_backward(of, x, w, [4], [2, 1], [1, 0], [1, 2], False, [0, 0], 1, [True, True, True])
    wide = A.convolution_backward(x, of, w, [3], [2, 1], [1, 0], [1, 2], True, [1, 0], 1, [True, False, True])
    return [*both, wide[0], wide[2]]


c_x, c_w = randn(2, 3, 8, 9), randn(4, 3, 3, 2)
c_of = randn(*F.conv2d(c_x, c_w, None, (2, 1), (1, 0), (1, 2)).shape)
g("convolution_gradients", convolution_gradients, c_x, c_w, c_of)


def norm_gradients(s, x, of, w):
    y, mean, rate = A.native_layer_norm(x, [4, 5], w, w, 1e-5)
    u, m, r = A.native_group_norm(x.view(2, 4, 15), w[:, 0], w[:, 1], 2, 4, 15, 2, 1e-5)
    return [
        *A.native_layer_norm_backward(of, x, [4, 5], mean, rate, w, w, [True, True, True]),
        A.native_layer_norm_backward(of, x, [4, 5], mean, rate, None, None, [True, False, False])[0],
        *A.native_group_norm_backward(of.view(2, 4, 15), x.view(2, 4, 15), m, r, w[:, 0], 2, 4, 15, 2, [True, True, True]),
    ]


g("norm_gradients", norm_gradients, randn(2, 3, 4, 5), randn(2, 3, 4, 5), randn(4, 5))


def pool_gradients(s, x, of, at):
    y, places = A.max_pool2d_with_indices(x, [3, 2], [2, 2], [1, 1], [1, 1], True)
    z = A.avg_pool2d(x, [3, 2], [2, 1], [1, 0], True, False)
    return [
        A.max_pool2d_with_indices_backward(torch.cos(y), x, [3, 2], [2, 2], [1, 1], [1, 1], True, places),
        A.avg_pool2d_backward(torch.cos(z), x, [3, 2], [2, 1], [1, 0], True, False, None),
        A._adaptive_avg_pool2d_backward(of, x),
        A.embedding_dense_backward(x[:, 0, 0], at, 6, -1, False),
        A.embedding_dense_backward(x[:, 0, 0], at, 6, 2, True),
        A.atan2(x, x + 1),
    ]


g("pool_gradients", pool_gradients, randn(2, 3, 7, 8), randn(2, 3, 3, 4), torch.tensor([2, 5]))


def transforms(s, x, y, long):
    full, half = torch.fft.fft(y), torch.fft.rfft(x)
    real = torch.view_as_real
    wide = torch.fft.rfft2(x.reshape(6, 10))
    return [
        real(full),
        real(half),
        real(torch.fft.ifft(full, norm="ortho")),
        torch.fft.irfft(half),
        torch.fft.irfft(half, n=7, norm="forward"),
        real(torch.fft.fft(x, n=16, dim=0)),
        real(wide),
        torch.fft.irfft2(wide, s=(6, 10)),
        real(torch.fft.fftn(x.reshape(3, 4, 5), norm="forward")),
        real(torch.fft.fft2(y.reshape(6, 10))),
        real(torch.fft.rfft(long)),
        torch.fft.irfft(torch.fft.rfft(long), n=1201),
        real(torch.fft.fft(long[:130])),
    ]


g("transforms", transforms, randn(4, 15), randn(60), randn(1201))


class Branches(torch.nn.Module):
    """Branches and loops, nested too: each is a graph within a node."""

    def __init__(s):
        super().__init__()
        s.l = torch.nn.Linear(3, 3)
        s.w = torch.nn.Parameter(randn(3, 3))

    def step(s, h, x):
        h = torch.tanh(h @ s.w + x)
        return h, h * 2 + torch.cond(h.sum() > 0, lambda h: s.l(h), lambda h: h - 1, (h,))

    def forward(s, x, n, h, xs):
        chosen = [
            torch.cond(k * x.sum() > 0, lambda x: s.l(x).sin(), lambda x: x * 2, (x,)) for k in (1, -1)
        ]
        many = torch.cond(n.sum() > 2, lambda x, n: (x + n, n + 1), lambda x, n: (x - n, n * 3), (x, n))
        doubled = while_loop(lambda n, x: n < 5, lambda n, x: (n + 1, x * 2 + n), (n, x))
        grown = while_loop(lambda n, x: (x.abs() < 50).all(), lambda n, x: (n + 1, s.l(x) * 3 + x.sign()), (n, x))
        last, rows = scan(s.step, h, xs, dim=0)
        back = scan(lambda h, x: (h * x, h.sum(-1)), h, xs, dim=0, reverse=True)
        mapped = control_map(lambda x, w: (x * w[0] + x.sum(), x @ w), xs, s.w)
        return [*chosen, *many, *doubled, *grown, last, rows, *back, *mapped]


GROUPS["control_flow"] = (Branches(), (randn(3), torch.tensor(1), randn(2, 3), randn(4, 2, 3)))
