"""Writes pytorch.json beside this file: what PyTorch computes, in binary64, of models whose numbers a formula gives.

    python3 pytorch.py

For each model: the loss at the beginning and after each of three steps of gradient descent, and of each parameter's first
gradient the norm and three elements.
"""

import json
import math
import pathlib

import torch
import torch.nn.functional as F
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
MODELS = {}
RATE = 0.01


def seed(name):
    return sum((at + 1) * ord(c) for at, c in enumerate(name)) % 1009


def numbers(name, *shape):
    """Numbers between -1 and 1 that depend on the name and the position."""
    s = seed(name)
    data = [((i * 7919 + s * 31 + 13) % 2003) / 1001.5 - 1.0 for i in range(math.prod(shape))]
    return torch.tensor(data).reshape(shape)


def whole(name, below, *shape):
    s = seed(name)
    data = [(i * 7919 + s * 31 + 13) % 2003 % below for i in range(math.prod(shape))]
    return torch.tensor(data, dtype=torch.int64).reshape(shape)


def initial(name, shape):
    if len(shape) < 2:
        scale, shift = 0.3, 1.0 if "norm" in name and name.endswith("weight") else 0.0
    else:
        scale, shift = 1.5 / math.sqrt(math.prod(shape) / shape[0]), 0.0
    return numbers(name, *shape) * scale + shift


def model(cls):
    MODELS[cls.__name__] = cls
    return cls


def mlp(*sizes, act=nn.Tanh):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), act()]
    return nn.Sequential(*layers[:-1])


class Named(nn.Module):
    """Parameters of these shapes."""

    def __init__(self, **shapes):
        super().__init__()
        for name, shape in shapes.items():
            setattr(self, name, nn.Parameter(torch.zeros(shape)))


@model
class Perceptron(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp(6, 16, 16, 4, act=nn.ReLU)

    def loss(self):
        return F.cross_entropy(self.layers(numbers("x", 9, 6)), whole("t", 4, 9), label_smoothing=0.1)


@model
class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 4, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 6, 3, stride=2)
        self.norm2 = nn.BatchNorm2d(6)
        self.out = nn.Linear(6, 3)

    def loss(self):
        x = F.relu(self.norm1(self.conv1(numbers("x", 3, 2, 9, 9))))
        x = F.relu(self.norm2(self.conv2(F.max_pool2d(x, 2))))
        return F.cross_entropy(self.out(x.mean((2, 3))), whole("t", 3, 3))


@model
class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(4, 8, 3, stride=2, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv2 = nn.Conv2d(8, 8, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(8)
        self.short = nn.Conv2d(4, 8, 1, stride=2, bias=False)
        self.norm3 = nn.BatchNorm2d(8)

    def loss(self):
        x = numbers("x", 2, 4, 6, 6)
        y = self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x)))))
        y = F.relu(y + self.norm3(self.short(x)))
        return (y * numbers("t", 2, 8, 3, 3)).mean()


@model
class Depthwise(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide = nn.Conv2d(3, 9, 1)
        self.depth = nn.Conv2d(9, 9, 3, padding=1, groups=9)
        self.norm = nn.GroupNorm(3, 9)
        self.narrow = nn.Conv2d(9, 3, 1)

    def loss(self):
        x = numbers("x", 2, 3, 5, 7)
        y = F.hardswish(self.norm(self.depth(F.silu(self.wide(x)))))
        return F.smooth_l1_loss(x + self.narrow(y), numbers("t", 2, 3, 5, 7))


@model
class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv2d(1, 3, 3, padding=1)
        self.deep = nn.Conv2d(3, 6, 3, padding=1)
        self.up = nn.ConvTranspose2d(6, 3, 2, stride=2)
        self.out = nn.Conv2d(6, 1, 3, padding=1)

    def loss(self):
        x = F.relu(self.down(numbers("x", 2, 1, 8, 8)))
        y = self.up(F.relu(self.deep(F.avg_pool2d(x, 2))))
        y = self.out(torch.cat([x, y], 1))
        t = (numbers("t", 2, 1, 8, 8) > 0).double()
        dice = 1 - (2 * (y.sigmoid() * t).sum() + 1) / (y.sigmoid().sum() + t.sum() + 1)
        return F.binary_cross_entropy_with_logits(y, t) + dice


@model
class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode1 = nn.Conv1d(2, 4, 4, stride=2, padding=1)
        self.encode2 = nn.Conv1d(4, 6, 4, stride=2, padding=1)
        self.decode1 = nn.ConvTranspose1d(6, 4, 4, stride=2, padding=1)
        self.decode2 = nn.ConvTranspose1d(4, 2, 4, stride=2, padding=1)

    def loss(self):
        x = numbers("x", 3, 2, 16)
        y = F.elu(self.encode2(F.leaky_relu(self.encode1(x), 0.2)))
        y = self.decode2(F.leaky_relu(self.decode1(y), 0.2)).tanh()
        return F.mse_loss(y, x) + 0.01 * y.diff(dim=2).abs().mean()


@model
class Variational(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.Linear(8, 12)
        self.mean = nn.Linear(12, 3)
        self.log_var = nn.Linear(12, 3)
        self.decode = mlp(3, 12, 8)

    def loss(self):
        x = numbers("x", 5, 8)
        h = F.softplus(self.encode(x))
        mean, log_var = self.mean(h), self.log_var(h)
        z = mean + (0.5 * log_var).exp() * numbers("noise", 5, 3)
        divergence = -0.5 * (1 + log_var - mean.square() - log_var.exp()).sum(1).mean()
        return F.binary_cross_entropy(self.decode(z).sigmoid(), (x + 1) / 2) + 0.1 * divergence


@model
class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.places = nn.Embedding(6, 8)
        self.norm1 = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.out = nn.Linear(8, 8)
        self.norm2 = nn.LayerNorm(8)
        self.wide = nn.Linear(8, 32)
        self.narrow = nn.Linear(32, 8)
        self.norm3 = nn.LayerNorm(8)

    def loss(self):
        ids = whole("ids", 11, 2, 7)
        x = self.tokens(ids[:, :-1]) + self.places(torch.arange(6))
        q, k, v = self.qkv(self.norm1(x)).reshape(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(2, 6, 8))
        x = x + self.narrow(F.gelu(self.wide(self.norm2(x)), approximate="tanh"))
        logits = self.norm3(x) @ self.tokens.weight.T
        return F.cross_entropy(logits.reshape(12, 11), ids[:, 1:].reshape(12))


@model
class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(9, 8, padding_idx=0)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, 0.0, "gelu", batch_first=True)
        self.out = nn.Linear(8, 9)

    def loss(self):
        ids = whole("ids", 9, 3, 5)
        keep = ids != 0
        x = self.tokens(ids)
        x = self.layer(x, src_key_padding_mask=~keep)
        target = torch.where(whole("masked", 3, 3, 5) == 0, ids, -100)
        return F.cross_entropy(self.out(x).transpose(1, 2), target, ignore_index=-100)


@model
class Vision(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, stride=4)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 8))
        self.places = nn.Parameter(torch.zeros(1, 5, 8))
        self.layer = nn.TransformerEncoderLayer(8, 4, 16, 0.0, "relu", batch_first=True, norm_first=True)
        self.head = nn.Linear(8, 3)

    def loss(self):
        x = self.patches(numbers("x", 2, 3, 8, 8)).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(2, 1, 8), x], 1) + self.places
        return F.cross_entropy(self.head(self.layer(x)[:, 0]), whole("t", 3, 2))


class Sequence(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.rnn = layer
        self.out = nn.Linear(5, 2)

    def loss(self):
        y, _ = self.rnn(numbers("x", 6, 3, 4))
        return F.huber_loss(self.out(y), numbers("t", 6, 3, 2) * 3)


@model
class LongShort(Sequence):
    def __init__(self):
        super().__init__(nn.LSTM(4, 5))


@model
class Gated(Sequence):
    def __init__(self):
        super().__init__(nn.GRU(4, 5))


@model
class Attentive(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode = nn.RNN(4, 6, bidirectional=True)
        self.decode = nn.GRU(3, 12)
        self.out = nn.Linear(24, 5)

    def loss(self):
        memory, _ = self.encode(numbers("x", 7, 2, 4))
        y, _ = self.decode(numbers("y", 4, 2, 3))
        scores = torch.einsum("tbh,sbh->bts", y, memory) / 12**0.5
        seen = torch.einsum("bts,sbh->tbh", scores.softmax(2), memory)
        log_p = self.out(torch.cat([y, seen], 2)).log_softmax(2)
        return F.nll_loss(log_p.reshape(8, 5), whole("t", 5, 8), weight=numbers("w", 5) + 1.5)


@model
class Words(nn.Module):
    """Skip-grams with negative samples."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Embedding(13, 6)
        self.outer = nn.Embedding(13, 6)

    def loss(self):
        centre, bag, others = whole("centre", 13, 8), whole("bag", 13, 8, 3), whole("others", 13, 8, 4)
        v = self.inner(centre) + self.inner(bag).mean(1)
        near = (v * self.outer(whole("near", 13, 8))).sum(1)
        far = (self.outer(others) @ v[:, :, None])[:, :, 0]
        return -(F.logsigmoid(near) + F.logsigmoid(-far).sum(1)).mean()


@model
class Factors(Named):
    def __init__(self):
        super().__init__(users=(7, 4), items=(9, 4), user_bias=(7,), item_bias=(9,))

    def loss(self):
        u, i = whole("u", 7, 20), whole("i", 9, 20)
        guess = (self.users[u] * self.items[i]).sum(1) + self.user_bias[u] + self.item_bias[i]
        error = F.mse_loss(guess, 2 * numbers("ratings", 20))
        return error + 0.02 * (self.users.norm() + self.items.norm(dim=1).sum())


@model
class GraphNet(Named):
    def __init__(self):
        super().__init__(first=(5, 8), second=(8, 3), bias=(8,))

    def loss(self):
        source, target = whole("source", 10, 24), whole("target", 10, 24)
        ones = torch.ones(24)
        degree = torch.ones(10).index_add(0, target, ones)
        norm = (degree[source] * degree[target]).rsqrt()[:, None]
        spread = lambda x: x / degree[:, None] + torch.zeros(10, x.shape[1]).index_add(0, target, x[source] * norm)
        x = F.relu(spread(numbers("x", 10, 5) @ self.first) + self.bias)
        x = spread(x @ self.second)
        largest = x.new_zeros(10, 3).scatter_reduce(0, target[:, None].expand(24, 3), x[source], "amax", include_self=False)
        return F.cross_entropy(x + 0.5 * largest, whole("t", 3, 10))


@model
class Experts(Named):
    def __init__(self):
        super().__init__(gate=(5, 4), wide=(4, 5, 7), narrow=(4, 7, 5))

    def loss(self):
        x = numbers("x", 9, 5)
        p = (x @ self.gate).softmax(1)
        best, which = p.topk(2, 1)
        best = best / best.sum(1, keepdim=True)
        y = F.silu(torch.einsum("ni,eio->neo", x, self.wide))
        y = torch.einsum("neo,eoi->nei", y, self.narrow)
        y = (y.gather(1, which[:, :, None].expand(9, 2, 5)) * best[:, :, None]).sum(1)
        used = torch.zeros(9, 4).scatter(1, which, 1.0).mean(0)
        return F.mse_loss(y, numbers("t", 9, 5)) + 0.1 * 4 * (used * p.mean(0)).sum()


@model
class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = mlp(6, 8, 8, act=nn.SiLU)
        self.conv1 = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.conv2 = nn.Conv2d(8, 1, 3, padding=1)

    def loss(self):
        x, noise = numbers("x", 3, 1, 6, 6), numbers("noise", 3, 1, 6, 6)
        t = torch.tensor([0.1, 0.45, 0.8])
        alpha = (t * math.pi / 2).cos().square()[:, None, None, None]
        angles = t[:, None] * torch.tensor([1.0, 3.0, 9.0])
        step = self.time(torch.cat([angles.sin(), angles.cos()], 1))
        y = self.conv1(alpha.sqrt() * x + (1 - alpha).sqrt() * noise)
        y = F.silu(self.norm(y) * (1 + step[:, :, None, None]))
        y = F.interpolate(F.interpolate(y, scale_factor=0.5, mode="bilinear"), size=(6, 6), mode="nearest") + y
        return F.mse_loss(self.conv2(y), noise)


@model
class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp(5, 10, 4, act=nn.GELU)

    def loss(self):
        a, b, c = (self.layers(numbers(name, 6, 5)) for name in "abc")
        sign = torch.where(whole("sign", 2, 6) == 0, -1.0, 1.0)
        triplet = F.triplet_margin_loss(a, b, c, margin=1.0)
        unit = F.normalize(a, dim=1)
        scores = unit @ F.normalize(b, dim=1).T / 0.5
        contrast = F.cross_entropy(scores, torch.arange(6)) + torch.logsumexp(scores, 0).mean()
        return triplet + F.cosine_embedding_loss(a, c, sign, margin=0.1) + 0.5 * contrast


@model
class Physics(nn.Module):
    """u'' + u = 0 with u(0) = 0 and u'(0) = 1, of radial basis functions and a perceptron."""

    def __init__(self):
        super().__init__()
        self.layers = mlp(1, 8, 8, 1)
        self.centres = nn.Parameter(torch.zeros(5, 1))
        self.widths = nn.Parameter(torch.zeros(5))
        self.weights = nn.Parameter(torch.zeros(5))

    def u(self, x):
        distance = (x - self.centres.T).square()
        return self.layers(x)[:, 0] + (-distance * self.widths.exp()).exp() @ self.weights

    def loss(self):
        x = (numbers("x", 12, 1) + 1).requires_grad_()
        zero = torch.zeros(1, 1, requires_grad=True)
        u, start = self.u(x), self.u(zero)
        slope = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
        bend = torch.autograd.grad(slope.sum(), x, create_graph=True)[0]
        begins = torch.autograd.grad(start.sum(), zero, create_graph=True)[0]
        residual = (bend[:, 0] + u).square().mean()
        return residual + start.square().sum() + (begins - 1).square().sum()


@model
class Transcriber(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 6)
        self.out = nn.Linear(6, 6)

    def loss(self):
        log_p = self.out(self.rnn(numbers("x", 6, 3, 4))[0]).log_softmax(2)
        lengths, words = torch.tensor([6, 5, 4]), torch.tensor([3, 2, 1])
        losses = F.ctc_loss(log_p, whole("t", 5, 3, 3) + 1, lengths, words, reduction="none")
        return (losses / words).mean()


@model
class Switch(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.experts = Named(wide=(4, 6, 8), narrow=(4, 8, 6))
        self.out = nn.Linear(6, 3)

    def loss(self):
        n, count, room = 20, 4, 8
        x = numbers("x", n, 6)
        p = self.gate(x).softmax(1)
        top, which = p.topk(2, 1)
        chosen = F.one_hot(which, count)
        turns = chosen.transpose(0, 1).reshape(2 * n, count)
        place = ((turns.cumsum(0) - 1) * turns).sum(1).reshape(2, n).t()
        slot = torch.where(place < room, which * room + place, count * room).reshape(-1)
        twice = x.unsqueeze(1).expand(n, 2, 6).reshape(2 * n, 6)
        given = torch.zeros(count * room + 1, 6).index_add(0, slot, twice)[:-1]
        y = F.gelu(given.reshape(count, room, 6) @ self.experts.wide) @ self.experts.narrow
        back = F.pad(y.reshape(count * room, 6), (0, 0, 0, 1))[slot].reshape(n, 2, 6)
        y = (back * (top / top.sum(1, keepdim=True)).unsqueeze(2)).sum(1) + x
        balance = (chosen[:, 0].double().mean(0) * p.mean(0)).sum() * count
        return F.cross_entropy(self.out(y), whole("t", 3, n)) + balance * 0.1


@model
class Attending(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Linear(5, 8)
        self.a = nn.Linear(16, 2)
        self.out = nn.Linear(8, 3)

    def loss(self):
        n, edges = 12, 40
        source, target = whole("source", n, edges), whole("target", n, edges)
        h = self.w(numbers("x", n, 5))
        e = F.leaky_relu(self.a(torch.cat([h[source], h[target]], 1)), 0.2)
        at = target.unsqueeze(1).expand(edges, 2)
        top = torch.full((n, 2), -math.inf).scatter_reduce(0, at, e.detach(), "amax")
        w = (e - top[target]).exp()
        w = w / (torch.zeros(n, 2).index_add(0, target, w)[target] + 1e-16)
        seen = h[source].reshape(edges, 2, 4) * w.unsqueeze(2)
        y = torch.zeros(n, 2, 4).index_add(0, target, seen).reshape(n, 8)
        return F.cross_entropy(self.out(F.elu(y)), whole("t", 3, n))


def overlap(a, b):
    a0, a1 = a[:, :2] - a[:, 2:] / 2, a[:, :2] + a[:, 2:] / 2
    b0, b1 = b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2
    common = (torch.minimum(a1, b1) - torch.maximum(a0, b0)).clamp(min=0).prod(1)
    hull = (torch.maximum(a1, b1) - torch.minimum(a0, b0)).prod(1)
    union = (a1 - a0).prod(1) + (b1 - b0).prod(1) - common
    return common / (union + 1e-9) - (hull - union) / (hull + 1e-9)


@model
class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.head = nn.Conv2d(6, 14, 1)

    def loss(self):
        x = F.leaky_relu(self.norm(self.conv(numbers("x", 2, 2, 4, 4))), 0.1)
        y = self.head(x).reshape(2, 2, 7, 4, 4).permute(0, 1, 3, 4, 2)
        image, anchor, words = whole("image", 2, 7), whole("anchor", 2, 7), whole("t", 2, 7)
        middle, size = (numbers("middle", 7, 2) + 1) * 2, numbers("size", 7, 2) + 1.2
        cell = middle.floor().clamp(0, 3).long()
        place = (image, anchor, cell[:, 1], cell[:, 0])
        p = y[place]
        guess = torch.cat([p[:, :2].sigmoid() * 2 - 0.5 + cell, (p[:, 2:4].sigmoid() * 2) ** 2], 1)
        fit = overlap(guess, torch.cat([middle, size], 1))
        goal = torch.zeros(2, 2, 4, 4).index_put(place, torch.ones(7))
        o = y[..., 4]
        costs = o.clamp(min=0) - o * goal + (-o.abs()).exp().log1p()
        focal = ((1 - (-costs).exp()) ** 1.5 * costs).mean()
        kind = F.binary_cross_entropy_with_logits(p[:, 5:], F.one_hot(words, 2).double())
        return (1 - fit).mean() + focal + kind * 0.5


@model
class Slope(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = mlp(3, 10, 10, 3, act=nn.Softplus)

    def loss(self):
        x, v = numbers("x", 11, 3), numbers("v", 11, 3)
        slope, product = torch.func.jvp(self.layers, (x,), (v,))
        return ((product * v).sum(1) + (slope * v).sum(1).square() * 0.5).mean()


def digest(gradient):
    flat = gradient.flatten()
    places = [0, flat.numel() // 2, flat.numel() - 1]
    return [float(f"{x:.13g}") for x in [flat.norm().item(), *(flat[i].item() for i in places)]]


written = {}
for name, cls in MODELS.items():
    made = cls()
    with torch.no_grad():
        for path, parameter in made.named_parameters():
            parameter.copy_(initial(path, parameter.shape))
    losses, gradients = [], {}
    for step in range(4):
        made.zero_grad()
        loss = made.loss()
        loss.backward()
        losses.append(float(f"{loss.item():.13g}"))
        with torch.no_grad():
            for path, parameter in made.named_parameters():
                if step == 0:
                    gradients[path] = digest(parameter.grad)
                parameter -= RATE * parameter.grad
    written[name] = {"losses": losses, "gradients": gradients}

lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(value)}" for name, value in written.items())
pathlib.Path(__file__).with_name("pytorch.json").write_text("{\n" + lines + "\n}\n")
