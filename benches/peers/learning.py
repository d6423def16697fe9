"""The training steps of `workload/learning.rs`: shapes and inputs, and the losses over one of two libraries."""

from inputs import below, normal

GPT, HEADS = (4, 128, 256), 8
LSTM = (32, 32, 64, 128)
SHAPES = {
    "train_mlp": [(512, 784), (512,), (512, 512), (512,), (10, 512), (10,)],
    "train_digits": [(64, 64), (64,), (10, 64), (10,)],
    "train_cnn": [(32, 3, 3, 3), (32,), (64, 32, 3, 3), (64,), (10, 4096), (10,)],
    "train_gpt_block": [(256,), (256,), (768, 256), (768,), (256, 256), (256,)]
    + [(256,), (256,), (1024, 256), (1024,), (256, 1024), (256,)],
    "train_lstm": [(512, 64), (512, 128), (512,)],
}
DATA = {
    "train_mlp": [(256, 784), 256],
    "train_digits": [(32, 64), 32],
    "train_cnn": [(32, 3, 32, 32), 32],
    "train_gpt_block": [GPT, GPT],
    "train_lstm": [LSTM[:3], (LSTM[1], LSTM[3])],
}


def offers(name):
    return name in SHAPES


def parameters(name):
    return [normal(shape, i, 0.05) for i, shape in enumerate(SHAPES[name])]


def data(name):
    labels = lambda count: below((count,), 101, 10)
    made = [labels(s) if isinstance(s, int) else normal(s, 100 + i) for i, s in enumerate(DATA[name])]
    return made


def torch_loss(name):
    import torch
    import torch.nn.functional as F

    def mlp(p, data):
        x = data[0]
        for i in range(0, len(p), 2):
            x = F.linear(x if i == 0 else F.relu(x), p[i], p[i + 1])
        return F.cross_entropy(x, data[1])

    def cnn(p, data):
        x = data[0]
        for i in (0, 2):
            x = F.max_pool2d(F.relu(F.conv2d(x, p[i], p[i + 1], padding=1)), 2)
        return F.cross_entropy(F.linear(x.flatten(1), p[4], p[5]), data[1])

    def block(p, data):
        b, t, d = GPT
        x = data[0]
        qkv = F.linear(F.layer_norm(x, (d,), p[0], p[1]), p[2], p[3])
        q, k, v = qkv.reshape(b, t, 3, HEADS, d // HEADS).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(attended.permute(0, 2, 1, 3).reshape(b, t, d), p[4], p[5])
        hidden = F.gelu(F.linear(F.layer_norm(x, (d,), p[6], p[7]), p[8], p[9]), approximate="tanh")
        return F.mse_loss(x + F.linear(hidden, p[10], p[11]), data[1])

    def lstm(p, data):
        zero = torch.zeros(LSTM[1], LSTM[3])
        out, _, _ = torch.lstm(data[0], (zero[None], zero[None]), [p[0], p[1], p[2], torch.zeros_like(p[2])], True, 1, 0.0, True, False, False)
        return F.mse_loss(out[-1], data[1])

    return {"train_mlp": mlp, "train_digits": mlp, "train_cnn": cnn, "train_gpt_block": block, "train_lstm": lstm}[name]


def torch_step(name, compiled):
    import torch

    p = [torch.from_numpy(a).clone().requires_grad_() for a in parameters(name)]
    d = [torch.from_numpy(a) for a in data(name)]
    loss = torch_loss(name)
    loss = torch.compile(loss, dynamic=False) if compiled else loss
    optimizer = torch.optim.SGD(p, lr=0.01, foreach=True)
    step = torch.compile(optimizer.step) if compiled else optimizer.step

    def run():
        value = loss(p, d)
        value.backward()
        step()
        optimizer.zero_grad(set_to_none=True)
        return value.detach()

    return run


def jax_step(name):
    import jax
    import jax.numpy as jnp
    from jax import lax

    def entropy(x, labels):
        return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], 1).mean()

    def mlp(p, data):
        x = data[0]
        for i in range(0, len(p), 2):
            x = (x if i == 0 else jax.nn.relu(x)) @ p[i].T + p[i + 1]
        return entropy(x, data[1])

    def cnn(p, data):
        x = data[0]
        for i in (0, 2):
            y = lax.conv_general_dilated(x, p[i], (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))
            y = jax.nn.relu(y + p[i + 1][:, None, None])
            x = lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return entropy(x.reshape(x.shape[0], -1) @ p[4].T + p[5], data[1])

    def norm(x, w, b):
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * lax.rsqrt(jnp.square(x - mean).mean(-1, keepdims=True) + 1e-5) * w + b

    def block(p, data):
        b, t, d = GPT
        x = data[0]
        qkv = norm(x, p[0], p[1]) @ p[2].T + p[3]
        q, k, v = qkv.reshape(b, t, 3, HEADS, d // HEADS).transpose(2, 0, 3, 1, 4)
        scores = q @ k.transpose(0, 1, 3, 2) * (d // HEADS) ** -0.5
        scores = jnp.where(jnp.tri(t, dtype=bool), scores, -jnp.inf)
        attended = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(b, t, d)
        x = x + attended @ p[4].T + p[5]
        hidden = jax.nn.gelu(norm(x, p[6], p[7]) @ p[8].T + p[9], approximate=True)
        return jnp.square(x + hidden @ p[10].T + p[11] - data[1]).mean()

    def lstm(p, data):
        zero = jnp.zeros((LSTM[1], LSTM[3]), jnp.float32)

        def cell(state, x):
            h, c = state
            i, f, g, o = jnp.split(x @ p[0].T + p[2] + h @ p[1].T, 4, 1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        (h, _), _ = lax.scan(cell, (zero, zero), data[0])
        return jnp.square(h - data[1]).mean()

    loss = {"train_mlp": mlp, "train_digits": mlp, "train_cnn": cnn, "train_gpt_block": block, "train_lstm": lstm}[name]
    given = [jnp.asarray(a) for a in data(name)]

    def step(p):
        value, slopes = jax.value_and_grad(loss)(p, given)
        return [a - 0.01 * b for a, b in zip(p, slopes)], value

    compiled, state = jax.jit(step, donate_argnums=0), [[jnp.asarray(a) for a in parameters(name)]]

    def run():
        state[0], value = jax.block_until_ready(compiled(state[0]))
        return value

    return run
