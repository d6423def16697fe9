"""The workloads in PyTorch: `eager`, or `compile` by `torch.compile`."""

import os
import sys

import torch
import torch.nn.functional as F
import learning
import models
from inputs import ADAM, BLOCK, arguments
from wire import serve

torch.set_num_threads(int(os.environ.get("PEER_THREADS", "2")))
COMPILED = sys.argv[1:] == ["compile"]


def gelu(x):
    return F.gelu(x, approximate="tanh")


def transcendental(x):
    y = torch.tanh(x * 0.7 + 0.1) * torch.sigmoid(x) + torch.exp(-(x * x)) * 0.5
    return torch.relu(y) * x + y


def arithmetic(x):
    y = (x * 0.7 + 0.1) * x - 0.3
    z = (y * 1.1 + x) * 0.5
    return torch.relu(z) * y + z.abs() * 0.25 - x


def rms_norm(x, residual, weight):
    total = x + residual
    return F.rms_norm(total, (1024,), weight, 1e-5), total


def chain(x, y):
    for _ in range(1000):
        x = x + y
    return x


def bias_gelu(x, w, b):
    return gelu(x @ w + b) if COMPILED else gelu(torch.addmm(b, x, w))


def bag(table, rows):
    return table[rows].sum(1) if COMPILED else F.embedding_bag(rows, table, mode="sum")


def block(x, w_qkv, b_qkv, w_o, b_o, w_1, b_1, w_2, b_2):
    batch, length, d, heads, _ = BLOCK
    one, zero = torch.ones(d), torch.zeros(d)
    qkv = F.layer_norm(x, (d,), one, zero) @ w_qkv + b_qkv
    q, k, v = qkv.view(batch, length, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
    attended = F.scaled_dot_product_attention(q, k, v)
    x = x + attended.transpose(1, 2).reshape(batch, length, d) @ w_o + b_o
    return x + gelu(F.layer_norm(x, (d,), one, zero) @ w_1 + b_1) @ w_2 + b_2


FUNCTIONS = {
    "pw12": transcendental,
    "pwarith12": arithmetic,
    "gelu": gelu,
    "softmax": lambda x: torch.softmax(x, -1),
    "layernorm": lambda x, w, b: F.layer_norm(x, (1024,), w, b),
    "rmsnorm_res": rms_norm,
    "sum_all": lambda x: x.sum(),
    "sum_ax0": lambda x: x.sum(0),
    "sum_ax1": lambda x: x.sum(1),
    "meanvar_ax1": lambda x: torch.var_mean(x, 1),
    "meanvar_all": lambda x: torch.var_mean(x),
    "xpyT": lambda x, y: x + y.t(),
    "mm": torch.matmul,
    "gemv": torch.matmul,
    "mm_bias_gelu": bias_gelu,
    "tblock": block,
    "small_chain1000": chain,
    "conv3x3": lambda x, w: F.conv2d(x, w, padding=1),
    "cumsum": lambda x: x.cumsum(-1),
    "embsum": bag,
    "attention": F.scaled_dot_product_attention,
    "attention_causal": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "sort": lambda x: torch.sort(x, -1).values,
}


def perceptron(given):
    *values, images, labels = given
    parameters = [v.requires_grad_() for v in values]
    optimizer = torch.optim.SGD(parameters, lr=0.01, foreach=True)

    def forward(p, images, labels):
        hidden = torch.relu(images @ p[0] + p[1])
        hidden = torch.relu(hidden @ p[2] + p[3])
        return F.cross_entropy(hidden @ p[4] + p[5], labels)

    forward = torch.compile(forward, dynamic=False) if COMPILED else forward
    step = torch.compile(optimizer.step) if COMPILED else optimizer.step

    def run():
        loss = forward(parameters, images, labels)
        loss.backward()
        step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return run


def adamw(given):
    parameters = [torch.nn.Parameter(v) for v in given[: len(ADAM)]]
    for parameter, slope in zip(parameters, given[len(ADAM) :]):
        parameter.grad = slope
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01, fused=not COMPILED, foreach=COMPILED)
    step = torch.compile(optimizer.step) if COMPILED else optimizer.step

    def run():
        step()
        return parameters[0].detach()

    return run


def prepare(name):
    if learning.offers(name):
        return learning.torch_step(name, COMPILED)
    if models.offers(name):
        return models.torch_forward(name, COMPILED)
    given = [torch.from_numpy(a) for a in arguments(name)]
    if name == "mlp_step":
        return perceptron(given)
    if name == "adamw100":
        return adamw(given)
    function = FUNCTIONS.get(name) or FUNCTIONS[name.rsplit("_", 1)[0]]
    function = torch.compile(function, dynamic=False) if COMPILED else function

    def run():
        with torch.no_grad():
            return function(*given)

    return run


if __name__ == "__main__":
    serve(prepare)
