"""What a program is beside its operators: nested inputs, constants, state that is written, views, symbolic sizes."""

import torch
from torch.export import Dim


class Nested(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.l = torch.nn.Linear(4, 8)
        s.register_buffer("cache", torch.zeros(2, 8))
        s.register_buffer("np_", torch.arange(3.0), persistent=False)
        s.c = torch.tensor([1.0, 2.0])

    def forward(s, x, d, *, flag=None, n=3):
        s.cache.add_(1)
        y = s.l(x).relu() + s.cache.sum() + s.np_.sum()
        z = x.view(-1, 2) * s.c * torch.tensor(3.0)
        d["a"].mul_(2)
        a, b = torch.split(y, [3, 5], dim=-1)
        return {"y": y, "z": [z, None, n, x.shape[0]], "m": torch.max(y, dim=-1)[0]}, a, d["b"][0]


class Writes(torch.nn.Module):
    def __init__(s):
        super().__init__()
        s.register_buffer("kv", torch.zeros(1, 2, 8, 4))
        s.register_buffer("pos", torch.zeros((), dtype=torch.int64))

    def forward(s, x, idx):
        s.kv[:, :, idx] = x
        v = s.kv.transpose(1, 2)
        w = v[0]
        s.kv[0, 1].mul_(2)
        w[3] += 1
        s.pos.add_(1)
        y = torch.zeros(3, 4)
        y[1:, ::2] = x[0, 0, :2, :2]
        y.t()[0] = 7
        z = y.view(-1)
        z[5] = 9
        return w.sum(), y, v.reshape(-1)[:5], z


class Dynamic(torch.nn.Module):
    def forward(s, x, y, n):
        if x.shape[0] % 2 == 0 and x.shape[0] > 3:
            z = x.reshape(x.shape[0] // 2, -1)
        else:
            z = x
        k = torch.nonzero(y)
        m = y.sum().int().item()
        torch._check(m >= 1)
        with torch.no_grad():
            q = x.exp()
        t = torch.arange(m) + n + x.shape[0] / 2
        return z, k, t, n * 2, q, torch.full((x.shape[0], m), 2.0)


class Edges(torch.nn.Module):
    def forward(s, x, e, i):
        return x.sum(), e + 1, x.t() @ x, e.sum(0), (x > 0), i.float().mean()


class Constants(torch.nn.Module):
    def forward(s, x, a=None, b=2.5, flag=True):
        return (x * b if flag else x), None, b, flag


def programs():
    """Names, models, calls and what else exporting is told."""
    nested = lambda n: (torch.randn(n, 4), {"a": torch.ones(3), "b": [torch.ones(2)]})
    sizes = {"x": {0: Dim("b", min=2, max=100)}, "d": {"a": None, "b": [None]}, "flag": None, "n": None}
    yield "nested", Nested(), [nested(5), nested(7), nested(5)], dict(
        dynamic_shapes=sizes, kwargs={"flag": None, "n": 7}
    )
    step = lambda: (torch.randn(1, 2, 2, 4), torch.tensor([1, 3]))
    yield "writes", Writes(), [step(), step(), step()], {}
    calls = [
        (torch.randn(6, 4), torch.tensor([1, 0, 1]), 3),
        (torch.randn(8, 4), torch.tensor([1, 1, 1]), 4),
        (torch.randn(6, 4), torch.tensor([0, 0, 1]), 9),
    ]
    sizes = {"x": {0: Dim.DYNAMIC}, "y": None, "n": Dim.DYNAMIC}
    yield "dynamic", Dynamic(), calls, dict(dynamic_shapes=sizes)
    turned = torch.randn(4, 3, dtype=torch.float64).t().contiguous().t()
    yield "edges", Edges(), [(turned, torch.zeros(0, 3), torch.tensor(5))], {}
    yield "constants", Constants(), [(torch.randn(2),)], {"kwargs": {"a": None, "b": 2.5, "flag": True}}
