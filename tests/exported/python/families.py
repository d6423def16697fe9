"""Small versions of the families of models that people export."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def residual(channels):
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        nn.BatchNorm2d(channels),
    )


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.blocks = nn.ModuleList([residual(8), residual(8)])
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        for block in self.blocks:
            x = F.relu(block(x) + x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.a, self.b = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.b(F.silu(self.a(x.mean((2, 3), keepdim=True)))))


def mobile(activation):
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False),
        nn.BatchNorm2d(8),
        activation(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False),
        nn.BatchNorm2d(8),
        activation(),
        Squeeze(8),
        nn.Conv2d(8, 12, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(12, 5),
    )


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 4, 4)
        self.depth = nn.Conv2d(8, 8, 7, padding=3, groups=8)
        self.norm = nn.LayerNorm(8)
        self.a, self.b = nn.Linear(8, 32), nn.Linear(32, 8)
        self.gamma = nn.Parameter(torch.full((8,), 0.5))

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.gamma * self.b(F.gelu(self.a(y)))
        return (x + y.permute(0, 3, 1, 2)).mean((-2, -1))


class ViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.place = nn.Parameter(torch.randn(1, 17, 16))
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.place
        return self.head(self.encoder(x)[:, 0])


class Swin(nn.Module):
    """Shifted windows with a table of relative places."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.table = nn.Parameter(torch.randn(49, 2))
        at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + 3
        self.register_buffer("places", apart[..., 0] * 7 + apart[..., 1])

    def forward(self, x):
        n, h, w, c = x.shape
        x = torch.roll(x, (-2, -2), (1, 2))
        y = x.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(y).reshape(-1, 16, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * 0.5) @ k.transpose(-2, -1)
        scores = scores + self.table[self.places.view(-1)].view(16, 16, -1).permute(2, 0, 1)
        y = self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, c))
        y = y.view(n, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        return torch.roll(y, (2, 2), (1, 2))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.up, self.c = nn.ConvTranspose2d(8, 4, 2, 2), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = F.relu(self.b(F.max_pool2d(a, 2)))
        return self.c(torch.cat([self.up(b), a], 1)), F.interpolate(b, scale_factor=2, mode="bilinear")


class Llama(nn.Module):
    """Rotary embedding, grouped heads, and a static cache that every call writes."""

    def __init__(self, length=8):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.q, self.kv, self.o = nn.Linear(16, 16, False), nn.Linear(16, 16, False), nn.Linear(16, 16, False)
        self.gate, self.up, self.down = nn.Linear(16, 24, False), nn.Linear(16, 24, False), nn.Linear(24, 16, False)
        self.norm = nn.Parameter(torch.ones(16))
        self.register_buffer("rates", 1.0 / 100 ** (torch.arange(0, 4, 2) / 4), persistent=False)
        self.register_buffer("keys", torch.zeros(1, 2, length, 4))
        self.register_buffer("values", torch.zeros(1, 2, length, 4))

    def rms(self, x):
        wide = x.float()
        return self.norm * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def rotated(self, x, cos, sin):
        a, b = x.chunk(2, -1)
        return x * cos + torch.cat((-b, a), -1) * sin

    def forward(self, tokens, places):
        x = self.embed(tokens)
        with torch.no_grad():
            angles = places[:, None].float() * self.rates[None]
            angles = torch.cat((angles, angles), -1)
            cos, sin = angles.cos(), angles.sin()
        y = self.rms(x)
        n, t, _ = y.shape
        q = self.rotated(self.q(y).view(n, t, 4, 4).transpose(1, 2), cos, sin)
        k, v = self.kv(y).view(n, t, 2, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        self.keys.index_copy_(2, places, self.rotated(k, cos, sin))
        self.values[:, :, places] = v
        seen = torch.arange(self.keys.shape[2]) <= places[:, None]
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(n, t, -1))
        y = self.rms(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.rms(x) @ self.embed.weight.t()


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Embedding(20, 16), nn.Embedding(12, 16)
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)
        self.register_buffer("mask", torch.tril(torch.ones(12, 12)).view(1, 1, 12, 12))

    def forward(self, tokens):
        n, t = tokens.shape
        x = self.embed(tokens) + self.place(torch.arange(t))
        q, k, v = self.qkv(self.norm(x)).split(16, 2)
        q, k, v = (y.view(n, t, 4, 4).transpose(1, 2) for y in (q, k, v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(4)
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = (scores.softmax(-1) @ v).transpose(1, 2).contiguous().view(n, t, 16)
        return (x + self.out(y)) @ self.embed.weight.T


class T5(nn.Module):
    """Attention with buckets of relative places."""

    def __init__(self):
        super().__init__()
        self.bias, self.qkv = nn.Embedding(8, 2), nn.Linear(8, 24, bias=False)

    def forward(self, x):
        n, t, c = x.shape
        apart = torch.arange(t)[None, :] - torch.arange(t)[:, None]
        side, far = (apart > 0).long() * 4, apart.abs()
        grown = 2 + (torch.log(far.float() / 2) / math.log(8) * 2).long()
        bucket = side + torch.where(far < 2, far, torch.min(grown, torch.full_like(grown, 3)))
        q, k, v = self.qkv(x).view(n, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = torch.matmul(q, k.transpose(3, 2)) + self.bias(bucket).permute(2, 0, 1).unsqueeze(0)
        return (F.softmax(scores.float(), -1).type_as(scores) @ v).transpose(1, 2).reshape(n, t, c)


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv1d(4, 8, 3, padding=1), nn.Conv1d(8, 8, 3, stride=2, padding=1)
        self.register_buffer("place", torch.randn(6, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        x = F.gelu(self.b(F.gelu(self.a(x)))).permute(0, 2, 1)
        return self.layer(x + self.place)


class Mamba(nn.Module):
    """A selective scan, step by step."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, 6, 3, groups=6, padding=2)
        self.step, self.bc = nn.Linear(6, 6), nn.Linear(6, 8)
        self.rate = nn.Parameter(torch.rand(6, 4))

    def forward(self, x):
        n, t, c = x.shape
        x = F.silu(self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2))
        step = F.softplus(self.step(x))
        b, gate = self.bc(x).split([4, 4], -1)
        decay = torch.exp(-step.unsqueeze(-1) * self.rate)
        given = (step * x).unsqueeze(-1) * b.unsqueeze(2)
        state, rows = x.new_zeros(n, c, 4), []
        for i in range(t):
            state = decay[:, i] * state + given[:, i]
            rows.append(torch.einsum("ncs,ns->nc", state, gate[:, i]))
        return torch.stack(rows, 1)


class Diffusion(nn.Module):
    """A block of a diffusion network: the time's embedding, group norms, attention over places."""

    def __init__(self):
        super().__init__()
        self.norm, self.conv = nn.GroupNorm(2, 8), nn.Conv2d(8, 8, 3, padding=1)
        self.time, self.qkv = nn.Linear(6, 8), nn.Conv2d(8, 24, 1)

    def forward(self, x, t):
        rates = torch.exp(-math.log(100) * torch.arange(3, dtype=torch.float32) / 3)
        angles = t[:, None].float() * rates[None]
        time = self.time(F.silu(torch.cat([angles.sin(), angles.cos()], -1)))
        h = self.conv(F.silu(self.norm(x))) + time[:, :, None, None]
        n, c, height, width = h.shape
        q, k, v = self.qkv(self.norm(h)).reshape(n, 3, 2, c // 2, height * width).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(n, c, height, width)
        return F.interpolate(x + y, scale_factor=2.0, mode="nearest")


class Graph(nn.Module):
    """A convolution of a graph: sums over edges, by degrees."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 6)

    def forward(self, x, edges):
        source, target = edges
        ones = torch.ones(edges.shape[1])
        degree = torch.zeros(x.shape[0]).index_add_(0, target, ones).clamp(min=1)
        rate = degree.pow(-0.5)
        sent = self.linear(x)[source] * (rate[source] * rate[target]).unsqueeze(-1)
        sums = torch.zeros(x.shape[0], 6).scatter_add(0, target.unsqueeze(-1).expand(-1, 6), sent)
        most = torch.full((x.shape[0], 6), -9.0).scatter_reduce(0, target.unsqueeze(-1).expand(-1, 6), sent, "amax")
        return F.relu(sums), most


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm, self.head = nn.Embedding(9, 4), nn.LSTM(4, 6, 2, batch_first=True), nn.Linear(6, 3)

    def forward(self, tokens):
        y, (h, _) = self.lstm(self.embed(tokens))
        return self.head(y[:, -1]), h


def generator():
    return nn.Sequential(
        nn.ConvTranspose2d(6, 8, 4, 1, 0, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(True),
        nn.ConvTranspose2d(8, 3, 4, 2, 1, bias=False),
        nn.Tanh(),
    )


def families():
    """Names, models, calls and what else exporting is told."""
    image = lambda n=2, size=32: (torch.randn(n, 3, size, size),)
    batch = {"dynamic_shapes": ({0: torch.export.Dim("batch", min=1, max=64)},)}
    mlp = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
    yield "mlp", mlp, [(torch.randn(n, 6),) for n in (4, 2, 9)], batch
    yield "resnet", ResNet(), [image(), image(3)], batch
    yield "mobilenet", mobile(nn.Hardswish), [image()], {}
    yield "efficientnet", mobile(nn.SiLU), [image()], {}
    yield "convnext", ConvNeXt(), [image()], {}
    yield "vit", ViT(), [image(), image(4)], batch
    yield "swin", Swin(), [(torch.randn(2, 8, 8, 8),)], {}
    yield "unet", UNet(), [(torch.randn(1, 1, 16, 16),)], {}
    tokens = lambda n, t: (torch.randint(0, 20, (n, t)),)
    yield "gpt", Gpt(), [tokens(2, 7), tokens(2, 11)], {
        "dynamic_shapes": ({1: torch.export.Dim("length", min=2, max=11)},)
    }
    steps = [(*tokens(1, 3), torch.tensor([0, 1, 2]))]
    steps += [(*tokens(1, 1), torch.tensor([i])) for i in (3, 4)]
    length = torch.export.Dim("length", min=1, max=8)
    yield "llama", Llama(), steps, {"dynamic_shapes": ({1: length}, {0: length})}
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
    yield "bert", nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), [(torch.randn(2, 5, 16),)], {}
    yield "t5", T5(), [(torch.randn(2, 6, 8),)], {}
    yield "whisper", Whisper(), [(torch.randn(1, 4, 12),)], {}
    yield "mamba", Mamba(), [(torch.randn(2, 5, 6),)], {}
    yield "lstm", Lstm(), [(torch.randint(0, 9, (2, 4)),)], {}
    yield "diffusion", Diffusion(), [(torch.randn(2, 8, 4, 4), torch.tensor([3, 50]))], {}
    yield "gan", generator(), [(torch.randn(2, 6, 1, 1),)], {}
    edges = torch.tensor([[0, 1, 2, 3, 3], [1, 2, 0, 0, 2]])
    yield "graph", Graph(), [(torch.randn(4, 4), edges)], {}
    train = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))
    train.training_form = True
    yield "training", train, [(torch.randn(5, 4),) for _ in range(3)], {}
