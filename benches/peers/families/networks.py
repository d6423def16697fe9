"""Networks of images and blocks of transformers."""

import math

import torch
import torch.nn.functional as F

from . import common
from .common import halved, program, wave
from .training import attention


def vit_inputs():
    d, weights = 384, []
    for i in range(6):
        weights += [wave((3 * d, d), 5 + i, 0.06), wave((d, d), 6 + i, 0.06)]
        weights += [wave((4 * d, d), 9 + i, 0.06), wave((d, 4 * d), 10 + i, 0.03)]
        weights += [wave((d,), 7 + i, 0.1) + 1, wave((d,), 8 + i, 0.1)]
    return halved([wave((64, 3, 224, 224), 3, 1.0), *weights, wave((d, 768), 77, 0.05)])


@program(vit_inputs)
def vit_bf16(x):
    patches = x[0].reshape(64, 3, 14, 16, 14, 16).permute(0, 2, 4, 1, 3, 5).reshape(64, 196, 768)
    h = F.linear(patches, x[37])
    for i in range(6):
        q = x[1 + 6 * i : 7 + 6 * i]
        h = h + attention(F.layer_norm(h, (384,), q[4], q[5]), q[0], q[1], 6, False)
        h = h + F.linear(F.gelu(F.linear(F.layer_norm(h, (384,), q[4], q[5]), q[2])), q[3])
    return [h.mean(1)]


def unet_inputs():
    shapes = [(64, 64, 3, 3), (128, 64, 3, 3), (128, 128, 3, 3), (64, 192, 3, 3)]
    weights = [wave(s, i + 2, scale) for i, (s, scale) in enumerate(zip(shapes, (0.05, 0.05, 0.03, 0.03)))]
    norms = [wave((64,), 6, 0.1) + 1, wave((64,), 7, 0.1), wave((128,), 8, 0.1) + 1, wave((128,), 9, 0.1)]
    return [wave((8, 64, 64, 64), 1, 1.0), *weights, *norms, wave((8, 128), 10, 1.0)]


@program(unet_inputs)
def unet_fwd(x):
    def norm(h, weight, bias):
        return F.silu(F.group_norm(h, 8, weight, bias))

    skip = x[0] + norm(F.conv2d(x[0], x[1], padding=1), x[5], x[6])
    down = F.conv2d(skip, x[2], stride=2, padding=1)
    inner = F.conv2d(norm(down + x[9][:, :, None, None], x[7], x[8]), x[3], padding=1) + down
    up = F.interpolate(inner, size=(64, 64), mode="nearest")
    return [norm(F.conv2d(torch.cat([up, skip], 1), x[4], padding=1), x[5], x[6])]


@program(lambda: halved([wave((8, 16, 1024, 64), i, 1.0) for i in range(3)]))
def alibi_bf16(x):
    i = torch.arange(1024, device=common.DEVICE).float()
    distance = i[None] - i[:, None]
    slope = torch.exp2(torch.arange(1, 17, device=common.DEVICE) * -0.5).reshape(16, 1, 1)
    mask = torch.where(distance > 0, -math.inf, distance * slope).bfloat16()
    return [F.scaled_dot_product_attention(x[0], x[1], x[2], mask)]


def mlpblock_inputs():
    weights = [wave((4096, 1024), 2, 0.03), wave((4096,), 3, 0.1), wave((1024, 4096), 4, 0.02)]
    return halved([wave((8192, 1024), 1, 1.0), *weights, wave((1024,), 5, 0.1), wave((1024,), 6, 0.1) + 1])


@program(mlpblock_inputs)
def mlpblock_bf16(x):
    h = F.layer_norm(x[0], (1024,), x[5], x[4])
    return [x[0] + F.linear(F.gelu(F.linear(h, x[1], x[2])), x[3], x[4])]


def conv3d_inputs():
    first = [wave((2, 16, 32, 64, 64), 1, 1.0), wave((32, 16, 3, 3, 3), 2, 0.05), wave((32,), 3, 0.1)]
    return first + [wave((64, 32, 3, 3, 3), 4, 0.04), wave((64,), 5, 0.1)]


@program(conv3d_inputs)
def conv3d(x):
    h = F.max_pool3d(F.conv3d(x[0], x[1], x[2], padding=1).relu(), 2)
    return [F.conv3d(h, x[3], x[4], padding=1).relu().mean((2, 3, 4))]


def mbconv_inputs():
    weights = [wave((384, 96, 1, 1), 2, 0.1), wave((384, 1, 3, 3), 3, 0.3), wave((96, 384, 1, 1), 4, 0.05)]
    biases = [wave((384,), 5, 0.1), wave((96,), 6, 0.1)]
    return [wave((32, 96, 56, 56), 1, 1.0), *weights, *biases, wave((24, 384), 7, 0.1), wave((384, 24), 8, 0.1)]


@program(mbconv_inputs)
def mbconv(x):
    h = F.silu(F.conv2d(x[0], x[1], x[4]))
    h = F.silu(F.conv2d(h, x[2], x[4], padding=1, groups=384))
    gate = F.linear(F.silu(F.linear(h.mean((2, 3)), x[6])), x[7]).sigmoid()
    return [F.conv2d(h * gate[..., None, None], x[3], x[5]) + x[0]]
