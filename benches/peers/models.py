"""The networks of `workload/models.rs`: shapes, inputs, and the forward pass over other libraries."""

from inputs import F32, normal

# Sentences, tokens, width, heads, hidden width, layers; steps, units, layers.
ENCODER, LSTM = (32, 128, 384, 12, 1536, 6), (128, 512, 2)


def offers(name):
    return name in ("minilm", "lstm_b1", "lstm_b8")


def batch(name):
    return int(name[len("lstm_b") :])


def parameters(name):
    """The layers' weights, and the input."""
    if name == "minilm":
        b, t, d, _, f, layers = ENCODER
        shapes = [(d, d), (d,)] * 4 + [(d,)] * 2 + [(f, d), (f,), (d, f), (d,)] + [(d,)] * 2
        x = normal((b, t, d))
    else:
        t, n, layers = LSTM
        shapes = [(4 * n, n), (4 * n, n), (4 * n,)]
        x = normal((t, batch(name), n))
    count = len(shapes)
    return [[normal(s, count * i + j + 1, 0.05) for j, s in enumerate(shapes)] for i in range(layers)], x


def torch_forward(name, compiled):
    import torch
    import torch.nn.functional as F

    layers, x = parameters(name)
    layers = [[torch.from_numpy(a) for a in layer] for layer in layers]
    x = torch.from_numpy(x)

    def encoder(x):
        b, t, d, h, _, _ = ENCODER
        for p in layers:
            q, k, v = (F.linear(x, p[i], p[i + 1]).view(b, t, h, d // h).transpose(1, 2) for i in (0, 2, 4))
            attended = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
            x = F.layer_norm(x + F.linear(attended, p[6], p[7]), (d,), p[8], p[9], 1e-12)
            hidden = F.gelu(F.linear(x, p[10], p[11]))
            x = F.layer_norm(x + F.linear(hidden, p[12], p[13]), (d,), p[14], p[15], 1e-12)
        return x

    def lstm(x):
        zero = torch.zeros(LSTM[2], x.shape[1], LSTM[1])
        flat = [w for p in layers for w in (*p, torch.zeros_like(p[2]))]
        return torch.lstm(x, (zero, zero), flat, True, LSTM[2], 0.0, False, False, False)[0]

    function = encoder if name == "minilm" else lstm
    function = torch.compile(function, dynamic=False) if compiled else function

    def run():
        with torch.no_grad():
            return function(x)

    return run


def onnx_model(name):
    """The model with its weights, and the input."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    layers, x = parameters(name)
    nodes, held, counter = [], [], [0]

    def hold(value):
        counter[0] += 1
        held.append(numpy_helper.from_array(np.ascontiguousarray(value), f"w{counter[0]}"))
        return f"w{counter[0]}"

    def push(op, *ins, **attributes):
        counter[0] += 1
        nodes.append(helper.make_node(op, list(ins), [f"v{counter[0]}"], **attributes))
        return f"v{counter[0]}"

    def linear(y, w, b):
        return push("Add", push("MatMul", y, hold(w.T)), hold(b))

    def norm(y, w, b):
        return push("LayerNormalization", y, hold(w), hold(b), axis=-1, epsilon=1e-12)

    y = "x"
    if name == "minilm":
        b, t, d, h, _, _ = ENCODER
        split, whole = hold(np.array([b, t, h, d // h])), hold(np.array([b, t, d]))
        scale = hold(np.array((d // h) ** -0.5, dtype=F32))
        for p in layers:
            q, k, v = (push("Reshape", linear(y, p[i], p[i + 1]), split) for i in (0, 2, 4))
            q, v = (push("Transpose", z, perm=[0, 2, 1, 3]) for z in (q, v))
            k = push("Transpose", k, perm=[0, 2, 3, 1])
            scores = push("Softmax", push("Mul", push("MatMul", q, k), scale), axis=-1)
            attended = push("Transpose", push("MatMul", scores, v), perm=[0, 2, 1, 3])
            attended = push("Reshape", attended, whole)
            y = norm(push("Add", y, linear(attended, p[6], p[7])), p[8], p[9])
            hidden = push("Gelu", linear(y, p[10], p[11]))
            y = norm(push("Add", y, linear(hidden, p[12], p[13])), p[14], p[15])
    else:
        n = LSTM[1]
        # Gates in ONNX's order: input, output, forget, cell.
        order = lambda w: np.concatenate([w[:n], w[3 * n :], w[n : 2 * n], w[2 * n : 3 * n]])
        for w, u, b in layers:
            bias = np.concatenate([order(b), np.zeros_like(b)])
            y = push("LSTM", y, hold(order(w)[None]), hold(order(u)[None]), hold(bias[None]), hidden_size=n)
            y = push("Squeeze", y, hold(np.array([1])))
    push_out = helper.make_node("Identity", [y], ["out"])
    graph = helper.make_graph(
        nodes + [push_out],
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 10
    return model, x
