#!/usr/bin/env python3
"""The networks of benches/network beside PyTorch, torch.compile and ONNX Runtime, on the CPU.

    python3 benches/peers/cpu_models.py [--rounds N] [--binary PATH] [--peers NAME,..] [NAME ..]

Every network has processes of its own, one for each contender, which take turns within each round. Prints milliseconds
(medians, and the least in brackets) and MiB: the most that a call holds of memory, weights included, beyond what the
process held before it made the network.
"""

import argparse
import os
import statistics
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
NAMES = ["resnet50_b1", "resnet50_b8", "mobilenet_b1", "mobilenet_b8", "bert_b1", "bert_b8", "gpt2_b1", "gpt2_b4"]
NAMES += ["vit_b1", "vit_b8", "lstm_b1", "lstm_b8"]
PEERS = ["torch", "torch.compile", "onnxruntime"]

D, HEADS, LAYERS = 768, 12, 12

# The blocks of MobileNetV3-Large: window, expanded channels, channels, squeezes, hard-swish, step.
BLOCKS = [
    (3, 16, 16, False, False, 1),
    (3, 64, 24, False, False, 2),
    (3, 72, 24, False, False, 1),
    (5, 72, 40, True, False, 2),
    (5, 120, 40, True, False, 1),
    (5, 120, 40, True, False, 1),
    (3, 240, 80, False, True, 2),
    (3, 200, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 184, 80, False, True, 1),
    (3, 480, 112, True, True, 1),
    (3, 672, 112, True, True, 1),
    (5, 672, 160, True, True, 2),
    (5, 960, 160, True, True, 1),
    (5, 960, 160, True, True, 1),
]


def networks():
    """The networks as modules, which need PyTorch."""
    import torch
    import torch.nn.functional as F
    from inputs import below, normal
    from torch import nn

    class Weights:
        """Makes weights one after another, each of the next seed; inputs have seed 0."""

        def __init__(self):
            self.seed = 0

        def normal(self, shape, scale):
            self.seed += 1
            return torch.from_numpy(normal(shape, self.seed, scale))

        def scaled(self, shape, terms):
            return self.normal(shape, (1.0 / terms) ** 0.5)

    def held(tensor):
        return nn.Parameter(tensor, requires_grad=False)

    class Layer(nn.Module):
        """A convolution without bias, and the batch norm behind it."""

        def __init__(self, w, cin, cout, k, stride, groups, gain):
            super().__init__()
            terms = cin // groups * k * k
            self.conv = nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False)
            self.conv.weight = held(w.normal((cout, cin // groups, k, k), (2.0 / terms) ** 0.5))
            mean, variance, scale, bias = (w.normal((cout,), 0.1) for _ in range(4))
            self.norm = nn.BatchNorm2d(cout)
            self.norm.running_mean, self.norm.running_var = mean, variance.abs() + 1.0
            self.norm.weight, self.norm.bias = held(scale + gain), held(bias)

        def forward(self, x):
            return self.norm(self.conv(x))

    class Bottleneck(nn.Module):
        def __init__(self, w, cin, width, stride, first):
            super().__init__()
            self.a = Layer(w, cin, width, 1, 1, 1, 1.0)
            self.b = Layer(w, width, width, 3, stride, 1, 1.0)
            self.c = Layer(w, width, 4 * width, 1, 1, 1, 0.3)
            self.around = Layer(w, cin, 4 * width, 1, stride, 1, 0.5) if first else nn.Identity()

        def forward(self, x):
            return F.relu(self.c(F.relu(self.b(F.relu(self.a(x))))) + self.around(x))

    def linear(weight, bias):
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight, layer.bias = held(weight), held(bias)
        return layer

    def images(batch):
        return torch.from_numpy(normal((batch, 3, 224, 224)))

    def resnet50(batch):
        w = Weights()
        layers = [Layer(w, 3, 64, 7, 2, 1, 1.0), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        cin = 64
        for stage, count in enumerate((3, 4, 6, 3)):
            width = 64 << stage
            for i in range(count):
                layers.append(Bottleneck(w, cin, width, 2 if i == 0 and stage > 0 else 1, i == 0))
                cin = 4 * width
        head = linear(w.scaled((1000, cin), cin), w.normal((1000,), 0.1))
        return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head), images(batch)

    def pointwise(weight, bias):
        layer = nn.Conv2d(weight.shape[1], weight.shape[0], 1)
        layer.weight, layer.bias = held(weight), held(bias)
        return layer

    class Squeeze(nn.Module):
        def __init__(self, w, wide):
            super().__init__()
            n = (wide // 4 + 4) // 8 * 8
            n += 8 if n * 10 < wide // 4 * 9 else 0
            self.down = pointwise(w.scaled((n, wide, 1, 1), wide), w.normal((n,), 0.1))
            self.up = pointwise(w.scaled((wide, n, 1, 1), n), w.normal((wide,), 0.1))

        def forward(self, y):
            mean = y.mean((2, 3), keepdim=True)
            return y * F.hardsigmoid(self.up(F.relu(self.down(mean))))

    class Inverted(nn.Module):
        def __init__(self, w, cin, k, wide, cout, squeezes, swish, stride):
            super().__init__()
            active = nn.Hardswish() if swish else nn.ReLU()
            layers = [Layer(w, cin, wide, 1, 1, 1, 1.0), active] if wide != cin else []
            layers += [Layer(w, wide, wide, k, stride, wide, 1.0), active]
            layers += [Squeeze(w, wide)] if squeezes else []
            self.layers = nn.Sequential(*layers, Layer(w, wide, cout, 1, 1, 1, 0.5))
            self.residual = stride == 1 and cin == cout

        def forward(self, x):
            y = self.layers(x)
            return y + x if self.residual else y

    def mobilenet(batch):
        w = Weights()
        layers = [Layer(w, 3, 16, 3, 2, 1, 1.0), nn.Hardswish()]
        cin = 16
        for k, wide, cout, squeezes, swish, stride in BLOCKS:
            layers.append(Inverted(w, cin, k, wide, cout, squeezes, swish, stride))
            cin = cout
        layers += [Layer(w, cin, 960, 1, 1, 1, 1.0), nn.Hardswish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        layers += [linear(w.scaled((1280, 960), 960), w.normal((1280,), 0.1)), nn.Hardswish()]
        layers.append(linear(w.scaled((1000, 1280), 1280), w.normal((1000,), 0.1)))
        return nn.Sequential(*layers), images(batch)

    def norm(w, eps):
        layer = nn.LayerNorm(D, eps)
        layer.weight, layer.bias = held(w.normal((D,), 0.1) + 1.0), held(w.normal((D,), 0.1))
        return layer

    def straight(w, n, k):
        return linear(w.scaled((n, k), k), w.normal((n,), 0.1))

    class Product(nn.Module):
        """A linear layer whose weight is [in, out]."""

        def __init__(self, w, n, k):
            super().__init__()
            self.weight, self.bias = held(w.scaled((k, n), k)), held(w.normal((n,), 0.1))

        def forward(self, x):
            return x @ self.weight + self.bias

    def attend(q, k, v, causal):
        b, t, _ = q.shape
        q, k, v = (x.view(b, t, HEADS, D // HEADS).transpose(1, 2) for x in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return y.transpose(1, 2).reshape(b, t, D)

    class Encoder(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.q, self.k, self.v, self.o = (straight(w, D, D) for _ in range(4))
            self.a = norm(w, 1e-12)
            self.up, self.down = straight(w, 4 * D, D), straight(w, D, 4 * D)
            self.b = norm(w, 1e-12)

        def forward(self, x):
            x = self.a(x + self.o(attend(self.q(x), self.k(x), self.v(x), False)))
            return self.b(x + self.down(F.gelu(self.up(x))))

    class Decoder(nn.Module):
        def __init__(self, w, layer, causal):
            super().__init__()
            self.a, self.joined, self.out = norm(w, 1e-5), layer(w, 3 * D, D), layer(w, D, D)
            self.b, self.up, self.down = norm(w, 1e-5), layer(w, 4 * D, D), layer(w, D, 4 * D)
            self.causal = causal

        def forward(self, x):
            q, k, v = self.joined(self.a(x)).split(D, 2)
            x = x + self.out(attend(q, k, v, self.causal))
            active = F.gelu(self.up(self.b(x)), approximate="tanh" if self.causal else "none")
            return x + self.down(active)

    class Embedded(nn.Module):
        """Tokens and places, blocks, and what is behind them."""

        def __init__(self, words, places, layers):
            super().__init__()
            self.words, self.places, self.layers = held(words), held(places), layers

        def forward(self, ids):
            return self.layers(F.embedding(ids, self.words) + self.places)

    class Logits(nn.Module):
        def __init__(self, words):
            super().__init__()
            self.words = held(words)

        def forward(self, x):
            return x @ self.words.t()

    def ids(batch, length, vocabulary):
        return torch.from_numpy(below((batch, length), 0, vocabulary))

    def bert(batch):
        w = Weights()
        words, places = w.normal((30522, D), 1.0), w.normal((128, D), 1.0)
        first = norm(w, 1e-12)
        layers = nn.Sequential(first, *(Encoder(w) for _ in range(LAYERS)))
        return Embedded(words, places, layers), ids(batch, 128, 30522)

    def gpt2(batch):
        w = Weights()
        words, places = w.scaled((50257, D), D), w.scaled((256, D), D)
        layers = [Decoder(w, Product, True) for _ in range(LAYERS)]
        layers = nn.Sequential(*layers, norm(w, 1e-5), Logits(words))
        return Embedded(words, places, layers), ids(batch, 256, 50257)

    class Vision(nn.Module):
        def __init__(self, w):
            super().__init__()
            self.patch = nn.Conv2d(3, D, 16, 16)
            self.patch.weight, self.patch.bias = held(w.scaled((D, 3, 16, 16), 768)), held(w.normal((D,), 0.1))
            self.one, self.places = held(w.normal((1, 1, D), 1.0)), held(w.normal((197, D), 1.0))
            self.layers = nn.Sequential(*(Decoder(w, straight, False) for _ in range(LAYERS)))
            self.last, self.head = norm(w, 1e-5), straight(w, 1000, D)

        def forward(self, x):
            x = self.patch(x).flatten(2).transpose(1, 2)
            x = torch.cat([self.one.expand(x.shape[0], 1, D), x], 1) + self.places
            return self.head(self.last(self.layers(x))[:, 0])

    def vit(batch):
        return Vision(Weights()), images(batch)

    return {"resnet50": resnet50, "mobilenet": mobilenet, "bert": bert, "gpt2": gpt2, "vit": vit}


def prepare(contender):
    """What makes a function of each network that computes it once."""
    import models
    import torch

    torch.set_num_threads(int(os.environ.get("PEER_THREADS", "2")))

    def forward(name):
        if models.offers(name):
            return models.torch_forward(name, contender == "torch.compile")
        network, batch = name.rsplit("_b", 1)
        module, x = networks()[network](int(batch))
        module = module.eval()
        if contender == "torch.compile":
            module = torch.compile(module, dynamic=False)

        def run():
            with torch.no_grad():
                return module(x)

        return run

    def session(name):
        import io

        import onnx_workloads

        if models.offers(name):
            return onnx_workloads.prepare(name)
        network, batch = name.rsplit("_b", 1)
        module, x = networks()[network](int(batch))
        file = io.BytesIO()
        with torch.no_grad():
            names = {"input_names": ["x"], "output_names": ["out"]}
            torch.onnx.export(module.eval(), (x,), file, dynamo=False, opset_version=20, **names)
        return onnx_workloads.session(file.getvalue(), {"x": x.numpy()})

    return session if contender == "onnxruntime" else forward


def status(pid, key):
    """A line of what the system says of a process, in MiB."""
    for line in open(f"/proc/{pid}/status"):
        if line.startswith(key + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def most(child, before):
    """The most that a run of what is open holds, in MiB."""
    with open(f"/proc/{child.process.pid}/clear_refs", "w") as file:
        file.write("5")
    child.run(1)
    return status(child.process.pid, "VmHWM") - before


def measured(name, contenders, options):
    """The row of a network."""
    import run

    children, held, value = [], {}, None
    try:
        for contender, command, environment in contenders:
            child = run.Child(contender, command, environment)
            child.ask("close")  # All is loaded when it answers.
            before = status(child.process.pid, "VmRSS")
            theirs = child.open(name)
            if theirs is None:
                child.end()
                continue
            value = theirs if value is None else value
            if abs(theirs - value) > 1e-3 * abs(value):
                print(f"  {name}: {contender} has {theirs}, ours {value}", file=sys.stderr)
            children.append(child)
            held[contender] = most(child, before)
        times = run.rounds_of(children, options)
    finally:
        for child in children:
            child.end()
    taken = {child.name: [t / 1e6 for t in taken] for child, taken in times.items()}
    cells = [f"{statistics.median(t):.1f} ({min(t):.1f})" for t in (taken.get(c[0], [float("nan")]) for c in contenders)]
    theirs = [c for c in PEERS if c in taken]
    ratio = "–"
    if theirs and "ours" in taken:
        best = min(theirs, key=lambda c: statistics.median(taken[c]))
        middle, low, high = run.interval([a / b for a, b in zip(taken["ours"], taken[best])])
        ratio = f"{middle:.2f} [{low:.2f}, {high:.2f}]"
    memory = [f"{held[c[0]]:.0f}" if c[0] in held else "–" for c in contenders]
    print(f"| {name} | {' | '.join(cells)} | {ratio} | {' | '.join(memory)} |", flush=True)


def main():
    if sys.argv[1:2] == ["--child"]:
        from wire import serve

        import torch  # noqa: F401

        if sys.argv[2] == "onnxruntime":
            import onnx_workloads  # noqa: F401
        return serve(prepare(sys.argv[2]))
    import run

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rows whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sample", type=float, default=100, help="milliseconds of a sample")
    parser.add_argument("--binary", help="our benchmark `models`, if it is not to be built")
    parser.add_argument("--peers", type=lambda s: s.split(","), default=PEERS)
    parser.add_argument("--python", default=os.environ.get("PEERS_PYTHON", sys.executable))
    parser.add_argument("--tcmalloc", default=os.environ.get("PEERS_TCMALLOC"))
    options = parser.parse_args()
    binary = options.binary or run.bench_executable("models")
    folder = tempfile.mkdtemp(prefix="ferrotrace-peers-")
    os.environ.setdefault("FERROTRACE_CACHE_DIR", os.path.join(folder, "cache"))
    preload = {**run.tcmalloc(options), "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor")}
    contenders = [("ours", [binary, "--serve", "compiled"], {})]
    for peer in PEERS:
        if peer in options.peers:
            command = [options.python, os.path.abspath(__file__), "--child", peer]
            contenders.append((peer, command, {} if peer == "onnxruntime" else preload))
    names = [c[0] for c in contenders]
    print("| network | " + " | ".join(names) + " | ours / best | MiB: " + " | ".join(names) + " |")
    print("|---|" + "---:|" * (2 * len(names) + 1))
    for name in NAMES:
        if not options.names or any(part in name for part in options.names):
            measured(name, contenders, options)


main()
