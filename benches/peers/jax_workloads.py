"""The workloads in JAX, compiled by `jax.jit`."""

import jax
import jax.numpy as jnp
import learning
from inputs import ADAM, BLOCK, arguments
from jax import lax
from wire import serve


def gelu(x):
    return jax.nn.gelu(x, approximate=True)


def transcendental(x):
    y = jnp.tanh(x * 0.7 + 0.1) * jax.nn.sigmoid(x) + jnp.exp(-(x * x)) * 0.5
    return jax.nn.relu(y) * x + y


def arithmetic(x):
    y = (x * 0.7 + 0.1) * x - 0.3
    z = (y * 1.1 + x) * 0.5
    return jax.nn.relu(z) * y + jnp.abs(z) * 0.25 - x


def layer_norm(x, weight, bias):
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * weight + bias


def rms_norm(x, residual, weight):
    total = x + residual
    scale = lax.rsqrt(jnp.square(total).mean(-1, keepdims=True) + 1e-5)
    return total * scale * weight, total


def chain(x, y):
    for _ in range(1000):
        x = x + y
    return x


def convolution(x, w):
    layout = ("NCHW", "OIHW", "NCHW")
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=layout)


def attention(q, k, v, causal=False):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * q.shape[-1] ** -0.5
    if causal:
        scores = jnp.where(jnp.tri(*scores.shape[-2:], dtype=bool), scores, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)


def block(x, w_qkv, b_qkv, w_o, b_o, w_1, b_1, w_2, b_2):
    batch, length, d, heads, _ = BLOCK
    one, zero = jnp.ones(d, x.dtype), jnp.zeros(d, x.dtype)
    qkv = layer_norm(x, one, zero) @ w_qkv + b_qkv
    q, k, v = qkv.reshape(batch, length, 3, heads, d // heads).transpose(2, 0, 3, 1, 4)
    attended = attention(q, k, v)
    x = x + attended.transpose(0, 2, 1, 3).reshape(batch, length, d) @ w_o + b_o
    return x + gelu(layer_norm(x, one, zero) @ w_1 + b_1) @ w_2 + b_2


FUNCTIONS = {
    "pw12": transcendental,
    "pwarith12": arithmetic,
    "gelu": gelu,
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "layernorm": layer_norm,
    "rmsnorm_res": rms_norm,
    "sum_all": jnp.sum,
    "sum_ax0": lambda x: x.sum(0),
    "sum_ax1": lambda x: x.sum(1),
    "meanvar_ax1": lambda x: (jnp.var(x, 1, ddof=1), jnp.mean(x, 1)),
    "meanvar_all": lambda x: (jnp.var(x, ddof=1), jnp.mean(x)),
    "xpyT": lambda x, y: x + y.T,
    "mm": jnp.matmul,
    "gemv": jnp.matmul,
    "mm_bias_gelu": lambda x, w, b: gelu(x @ w + b),
    "tblock": block,
    "small_chain1000": chain,
    "conv3x3": convolution,
    "cumsum": lambda x: jnp.cumsum(x, -1),
    "embsum": lambda table, rows: table[rows].sum(1),
    "attention": attention,
    "attention_causal": lambda q, k, v: attention(q, k, v, causal=True),
    "sort": lambda x: jnp.sort(x, -1),
}


def perceptron(given):
    *parameters, images, labels = given

    def loss(p):
        hidden = jax.nn.relu(images @ p[0] + p[1])
        hidden = jax.nn.relu(hidden @ p[2] + p[3])
        scores = jax.nn.log_softmax(hidden @ p[4] + p[5])
        return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

    def step(p):
        value, slopes = jax.value_and_grad(loss)(p)
        return [a - 0.01 * b for a, b in zip(p, slopes)], value

    compiled, state = jax.jit(step, donate_argnums=0), [parameters]

    def run():
        state[0], value = jax.block_until_ready(compiled(state[0]))
        return value

    return run


def adamw(given):
    parameters, slopes = given[: len(ADAM)], given[len(ADAM) :]

    def step(p, m, v, t, g):
        t = t + 1
        c1, c2 = 1 - 0.9**t, 1 - 0.999**t
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.999 * a + 0.001 * b * b for a, b in zip(v, g)]
        update = [(a / c1) / (jnp.sqrt(b / c2) + 1e-8) for a, b in zip(m, v)]
        return [a * (1 - 1e-5) - 1e-3 * u for a, u in zip(p, update)], m, v, t

    compiled = jax.jit(step, donate_argnums=(0, 1, 2, 3))
    zeros = lambda: [jnp.zeros(s, jnp.float32) for s in ADAM]
    state = [(parameters, zeros(), zeros(), jnp.float32(0))]

    def run():
        state[0] = jax.block_until_ready(compiled(*state[0], slopes))
        return state[0][0][0]

    return run


def prepare(name):
    if learning.offers(name):
        return learning.jax_step(name)
    given = [jnp.asarray(a) for a in arguments(name)]
    if name == "mlp_step":
        return perceptron(given)
    if name == "adamw100":
        return adamw(given)
    function = FUNCTIONS.get(name) or FUNCTIONS[name.rsplit("_", 1)[0]]
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*given))


if __name__ == "__main__":
    serve(prepare)
