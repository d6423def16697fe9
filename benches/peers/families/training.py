"""Training steps."""

import torch
import torch.nn.functional as F

from .common import halved, ids, program, wave


def with_moments(data, parameters):
    return data + parameters + [torch.zeros_like(p) for p in parameters]


def leaves(tensors):
    return [x.detach().requires_grad_() for x in tensors]


def state(x):
    """The inputs behind the data, half of them parameters, half moments."""
    half = len(x) // 2
    return leaves(x[:half]), x[half:]


def descend(loss, parameters, moments):
    """A step of gradient descent with momentum 0.9 and rate 0.01."""
    gradients = torch.autograd.grad(loss, parameters)
    results, following = [loss.detach()], []
    with torch.no_grad():
        for p, m, g in zip(parameters, moments, gradients):
            m = m * 0.9 + g
            results.append(p - m * 0.01)
            following.append(m)
    return results + following


def mlp_inputs():
    shapes = [(1024, 784), (1024,), (1024, 1024), (1024,), (10, 1024), (10,)]
    parameters = [wave(s, i + 1, 0.01 if i % 2 else 0.03) for i, s in enumerate(shapes)]
    return with_moments([wave((256, 784), 7, 1.0), ids((256,), 1, 10)], parameters)


@program(mlp_inputs)
def mlp_train(x):
    p, moments = state(x[2:])
    h = F.linear(x[0], p[0], p[1]).relu()
    h = F.linear(h, p[2], p[3]).relu()
    return descend(F.cross_entropy(F.linear(h, p[4], p[5]), x[1]), p, moments)


def cnn_inputs():
    parameters = []
    for i, (to, given) in enumerate([(32, 3), (64, 32), (128, 64)]):
        parameters += [wave((to, given, 3, 3), 10 + i, 0.1), wave((to,), 20 + i, 0.1) + 1, wave((to,), 30 + i, 0.1)]
    parameters += [wave((10, 2048), 40, 0.02), wave((10,), 41, 0.01)]
    return with_moments([wave((128, 3, 32, 32), 7, 1.0), ids((128,), 1, 10)], parameters)


@program(cnn_inputs)
def cnn_train(x):
    p, moments = state(x[2:])
    h = x[0]
    for i in range(3):
        weight, scale, shift = p[3 * i : 3 * i + 3]
        h = F.conv2d(h, weight, padding=1)
        h = F.max_pool2d(F.batch_norm(h, None, None, scale, shift, True).relu(), 2)
    logits = F.linear(h.flatten(1), p[9], p[10])
    return descend(F.cross_entropy(logits, x[1]), p, moments)


def attention(x, qkv, out, heads, causal):
    batch, length, width = x.shape
    split = F.linear(x, qkv).reshape(batch, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(split[0], split[1], split[2], is_causal=causal)
    return F.linear(y.transpose(1, 2).reshape(batch, length, width), out)


LAYERS, HEADS, BATCH, LENGTH, WIDTH, VOCABULARY = 4, 4, 16, 256, 256, 512


def gpt_inputs():
    d = WIDTH
    parameters = [wave((VOCABULARY, d), 1, 0.1), wave((LENGTH, d), 2, 0.1)]
    for i in range(LAYERS):
        parameters += [wave((d,), 3 + i, 0.1) + 1, wave((d,), 4 + i, 0.1)]
        parameters += [wave((3 * d, d), 5 + i, 0.06), wave((d, d), 6 + i, 0.06)]
        parameters += [wave((d,), 7 + i, 0.1) + 1, wave((d,), 8 + i, 0.1)]
        parameters += [wave((4 * d, d), 9 + i, 0.06), wave((d, 4 * d), 10 + i, 0.03)]
    data = [ids((BATCH, LENGTH), 1, VOCABULARY), ids((BATCH * LENGTH,), 2, VOCABULARY)]
    return with_moments(data, parameters)


@program(gpt_inputs)
def gpt_train(x):
    p, moments = state(x[2:])
    h = F.embedding(x[0], p[0]) + p[1]
    for i in range(LAYERS):
        q = p[2 + 8 * i : 10 + 8 * i]
        h = h + attention(F.layer_norm(h, (WIDTH,), q[0], q[1]), q[2], q[3], HEADS, True)
        h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (WIDTH,), q[4], q[5]), q[6])), q[7])
    logits = F.linear(h.reshape(BATCH * LENGTH, WIDTH), p[0])
    return descend(F.cross_entropy(logits, x[1]), p, moments)


def nerf_inputs():
    shapes = [(128, 63), (128,), (128, 128), (128,), (4, 128), (4,)]
    parameters = [wave(s, i + 2, 0.1) for i, s in enumerate(shapes)]
    return with_moments([wave((4096, 64, 3), 1, 1.0), wave((4096, 3), 9, 1.0)], parameters)


@program(nerf_inputs)
def nerf_train(x):
    p, moments = state(x[2:])
    encoded = [x[0]]
    for i in range(10):
        scaled = x[0] * (1 << i)
        encoded += [scaled.sin(), scaled.cos()]
    h = F.linear(torch.cat(encoded, 2), p[0], p[1]).relu()
    h = F.linear(F.linear(h, p[2], p[3]).relu(), p[4], p[5])
    alpha = 1 - (-(h[..., 3].relu()) * 0.05).exp()
    passed = (1 - alpha + 1e-10).cumprod(1)
    passed = torch.cat([torch.ones_like(passed[:, :1]), passed[:, :63]], 1)
    colour = ((alpha * passed)[..., None] * h[..., :3].sigmoid()).sum(1)
    return descend(F.mse_loss(colour, x[1]), p, moments)


@program(lambda: halved([wave((4096, 768), 1, 1.0), wave((50257, 768), 2, 0.03)]) + [ids((4096,), 1, 50257)])
def ce_large_bf16(x):
    p = leaves(x[:2])
    loss = F.cross_entropy(F.linear(p[0], p[1]).float(), x[2])
    return [loss.detach(), *torch.autograd.grad(loss, p)]
