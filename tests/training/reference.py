"""Writes torch.json beside this file: what PyTorch's layers and losses give for small inputs, in binary64.

    python3 reference.py
"""

import json
import pathlib

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
cases = {}
drawn = 0


def values(*shape, scale=1.0):
    """Sixteenths in (-1, 1), which every floating-point dtype holds, without order."""
    global drawn
    n = 1
    for size in shape:
        n *= size
    drawn += 7
    data = [(((i * 7919 + drawn * 13) % 31) - 15) / 16 * scale for i in range(n)]
    return torch.tensor(data).reshape(shape)


def packed(tensor):
    tensor = tensor.detach()
    data = tensor.flatten().tolist()
    if tensor.is_floating_point():
        data = [float(f"{x:.10g}") for x in data]
    return {"shape": list(tensor.shape), "data": data, "integer": not tensor.is_floating_point()}


def fill(layer):
    for name, parameter in layer.named_parameters():
        with torch.no_grad():
            shift = 1.0 if "norm" in name and name.endswith("weight") else 0.0
            parameter.copy_(values(*parameter.shape, scale=0.5) + shift)
    return layer


def case(name, layer, inputs, outputs):
    state = layer.state_dict() if layer is not None else {}
    pack = lambda tensors: {k: packed(v) for k, v in tensors.items()}
    cases[name] = {"state": pack(state), "inputs": pack(inputs), "outputs": pack(outputs)}


def simple(name, layer, x):
    layer = fill(layer).eval()
    case(name, layer, {"x": x}, {"y": layer(x)})


simple("linear", nn.Linear(3, 2), values(4, 3))
simple("linear_without_bias", nn.Linear(3, 2, bias=False), values(2, 4, 3))
layer = fill(nn.Bilinear(3, 4, 2))
a, b = values(5, 3), values(5, 4)
case("bilinear", layer, {"a": a, "b": b}, {"y": layer(a, b)})
layer = fill(nn.Embedding(5, 3))
x = torch.tensor([[0, 4, 2], [2, 2, 1]])
case("embedding", layer, {"x": x}, {"y": layer(x)})

simple("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), values(2, 4, 9))
simple("conv2d", nn.Conv2d(2, 3, (2, 3), stride=(1, 2), padding=1), values(1, 2, 4, 5))
simple("conv2d_same", nn.Conv2d(2, 2, 3, padding="same", bias=False), values(1, 2, 4, 4))
simple("conv3d", nn.Conv3d(1, 2, 2, padding=1), values(1, 1, 2, 3, 2))
simple("conv_transpose1d", nn.ConvTranspose1d(4, 2, 3, stride=2, padding=1, output_padding=1, groups=2), values(1, 4, 4))
simple("conv_transpose2d", nn.ConvTranspose2d(2, 3, (2, 3), stride=(2, 1)), values(1, 2, 2, 3))
simple("conv_transpose3d", nn.ConvTranspose3d(1, 2, 2), values(1, 1, 2, 2, 2))

simple("layer_norm", nn.LayerNorm([2, 3]), values(4, 2, 3))
simple("rms_norm", nn.RMSNorm(6, eps=1e-5), values(3, 6))
simple("rms_norm_default", nn.RMSNorm(6), values(3, 6))
simple("group_norm", nn.GroupNorm(2, 4), values(2, 4, 3))
simple("instance_norm", nn.InstanceNorm2d(3, affine=True), values(2, 3, 2, 2))
simple("prelu", nn.PReLU(3), values(2, 3, 2))

layer = fill(nn.BatchNorm2d(3)).train()
inputs = {f"x{i}": values(2, 3, 2, 2, scale=1.0 + i) for i in range(3)}
outputs = {f"y{i}": layer(x) for i, x in enumerate(inputs.values())}
outputs["running_mean"], outputs["running_var"] = layer.running_mean.clone(), layer.running_var.clone()
layer.eval()
outputs["evaluated"] = layer(inputs["x0"])
fresh = nn.BatchNorm2d(3)
with torch.no_grad():
    fresh.weight.copy_(layer.weight), fresh.bias.copy_(layer.bias)
case("batch_norm", fresh, inputs, outputs)

layer = fill(nn.MultiheadAttention(8, 2, batch_first=True)).eval()
x, memory = values(2, 3, 8), values(2, 5, 8)
causal = torch.triu(torch.ones(3, 3, dtype=torch.bool), 1)
added = values(3, 3)
case("attention_self", layer, {"x": x}, {"y": layer(x, x, x, need_weights=False)[0]})
case(
    "attention",
    layer,
    {"x": x, "memory": memory, "added": added},
    {
        "causal": layer(x, x, x, attn_mask=causal, need_weights=False)[0],
        "added": layer(x, x, x, attn_mask=added, need_weights=False)[0],
        "both": layer(x, x, x, attn_mask=added.masked_fill(causal, float("-inf")), need_weights=False)[0],
        "cross": layer(x, memory, memory, need_weights=False)[0],
    },
)

for name, make in [("rnn", nn.RNN), ("gru", nn.GRU), ("lstm", nn.LSTM)]:
    layer = fill(make(3, 4))
    x = values(5, 2, 3)
    y, end = layer(x)
    ends = end if name == "lstm" else (end,)
    case(name, layer, {"x": x}, {"y": y, **{f"end{i}": e for i, e in enumerate(ends)}})
    layer = fill(make(3, 4, num_layers=2, bidirectional=True, batch_first=True))
    x = values(2, 5, 3)
    starts = tuple(values(4, 2, 4) for _ in ends)
    y, end = layer(x, starts if name == "lstm" else starts[0])
    ends = end if name == "lstm" else (end,)
    case(
        name + "_deep",
        layer,
        {"x": x, **{f"start{i}": s for i, s in enumerate(starts)}},
        {"y": y, **{f"end{i}": e for i, e in enumerate(ends)}},
    )

x, memory = values(2, 4, 8), values(2, 3, 8)
for first in [False, True]:
    layer = fill(nn.TransformerEncoderLayer(8, 2, 12, activation="gelu", batch_first=True, norm_first=first)).eval()
    case(f"encoder_layer_{first}", layer, {"x": x}, {"y": layer(x)})
    layer = fill(nn.TransformerDecoderLayer(8, 2, 12, batch_first=True, norm_first=first)).eval()
    causal = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
    y = layer(x, memory, tgt_mask=causal)
    case(f"decoder_layer_{first}", layer, {"x": x, "memory": memory}, {"y": y})
layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, norm_first=True)
layer = fill(nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(8), enable_nested_tensor=False)).eval()
case("encoder", layer, {"x": x}, {"y": layer(x)})

logits = values(4, 3, 2, scale=2.0)
classes = torch.tensor([[0, 2], [1, 1], [2, 0], [1, 2]])
probabilities = values(4, 3, 2).softmax(1)
weight = torch.tensor([0.5, 2.0, 1.25])
losses = {}
for reduction in ["none", "sum", "mean"]:
    of = lambda **options: nn.CrossEntropyLoss(reduction=reduction, **options)
    losses[f"weighted_{reduction}"] = of(weight=weight)(logits, classes)
    losses[f"ignored_{reduction}"] = of(ignore_index=1)(logits, classes)
    losses[f"smooth_{reduction}"] = of(label_smoothing=0.2)(logits, classes)
    losses[f"all_{reduction}"] = of(weight=weight, ignore_index=2, label_smoothing=0.1)(logits, classes)
    losses[f"probabilities_{reduction}"] = of(weight=weight, label_smoothing=0.1)(logits, probabilities)
    losses[f"nll_{reduction}"] = nn.NLLLoss(weight=weight, ignore_index=0, reduction=reduction)(logits, classes)
inputs = {"logits": logits, "classes": classes, "probabilities": probabilities, "weight": weight}
case("classes", None, inputs, losses)

x, t = values(3, 4, scale=2.0), values(3, 4, scale=2.0)
p, q = values(3, 4).sigmoid(), (values(3, 4) > 0).double()
w, pos = values(4).exp(), values(4).exp()
var, sign = values(3, 4).exp(), torch.where(values(3) > 0, 1.0, -1.0)
n = values(3, 4, scale=2.0)
losses = {}
for reduction in ["none", "sum", "mean"]:
    r = {"reduction": reduction}
    losses[f"l1_{reduction}"] = nn.L1Loss(**r)(x, t)
    losses[f"mse_{reduction}"] = nn.MSELoss(**r)(x, t)
    losses[f"smooth_l1_{reduction}"] = nn.SmoothL1Loss(beta=0.5, **r)(x, t)
    losses[f"huber_{reduction}"] = nn.HuberLoss(delta=0.5, **r)(x, t)
    losses[f"kl_{reduction}"] = nn.KLDivLoss(log_target=True, **r)(x, t)
    losses[f"bce_{reduction}"] = nn.BCELoss(weight=w, **r)(p, q)
    losses[f"bce_logits_{reduction}"] = nn.BCEWithLogitsLoss(weight=w, pos_weight=pos, **r)(x, q)
    losses[f"gaussian_{reduction}"] = nn.GaussianNLLLoss(full=True, **r)(x, t, var)
    losses[f"poisson_{reduction}"] = nn.PoissonNLLLoss(**r)(x, var)
    losses[f"poisson_rate_{reduction}"] = nn.PoissonNLLLoss(log_input=False, **r)(p, var)
    losses[f"cosine_{reduction}"] = nn.CosineEmbeddingLoss(margin=0.1, **r)(x, t, sign)
    losses[f"hinge_{reduction}"] = nn.HingeEmbeddingLoss(margin=0.5, **r)(x[:, 0], sign)
    losses[f"ranking_{reduction}"] = nn.MarginRankingLoss(margin=0.25, **r)(x[:, 0], t[:, 0], sign)
    losses[f"triplet_{reduction}"] = nn.TripletMarginLoss(margin=0.5, **r)(x, t, n)
losses["kl_batch"] = nn.KLDivLoss(reduction="batchmean")(x, p)
inputs = {"x": x, "t": t, "p": p, "q": q, "w": w, "pos": pos, "var": var, "sign": sign, "n": n}
case("pairs", None, inputs, losses)


def optimised(name, make, steps=12, schedule=None):
    """A matrix and a vector after each step by given gradients."""
    global drawn
    drawn = 0
    w, b = nn.Parameter(values(3, 2)), nn.Parameter(values(3))
    opt = make([w, b])
    curve = schedule(opt) if schedule else None
    outputs, inputs = {}, {"w": w.detach().clone(), "b": b.detach().clone()}
    for step in range(steps):
        w.grad, b.grad = values(3, 2), values(3)
        inputs[f"w{step}"], inputs[f"b{step}"] = w.grad.clone(), b.grad.clone()
        opt.step()
        if curve:
            curve.step()
        if step in (0, 1, steps - 1):
            outputs[f"w{step}"], outputs[f"b{step}"] = w.detach().clone(), b.detach().clone()
    # The same for all optimisers.
    case("optim_inputs", None, inputs, {})
    case("optim_" + name, None, {}, outputs)


def lion(parameters, lr=0.05, b1=0.9, b2=0.99, decay=0.1):
    class Lion(torch.optim.Optimizer):
        def __init__(self):
            super().__init__(parameters, {})

        @torch.no_grad()
        def step(self):
            for p in parameters:
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                p.mul_(1 - lr * decay)
                p.sub_(lr * torch.sign(b1 * m + (1 - b1) * p.grad))
                m.mul_(b2).add_(p.grad, alpha=1 - b2)

    return Lion()


def muon(parameters):
    """PyTorch's Muon, its iteration in binary64, for the matrix alone."""
    from torch.optim import _muon

    class Torch:
        bfloat16 = torch.float64

        def __getattr__(self, name):
            return getattr(torch, name)

    _muon.torch = Torch()
    return torch.optim.Muon([p for p in parameters if p.ndim == 2], lr=0.05)


o = torch.optim
optimised("sgd", lambda p: o.SGD(p, 0.1, weight_decay=0.05))
optimised("sgd_momentum", lambda p: o.SGD(p, 0.1, momentum=0.9, dampening=0.3, weight_decay=0.05))
optimised("sgd_nesterov", lambda p: o.SGD(p, 0.1, momentum=0.9, nesterov=True))
optimised("adam", lambda p: o.Adam(p, 0.1, weight_decay=0.05))
optimised("adamw", lambda p: o.AdamW(p, 0.1, betas=(0.8, 0.95), weight_decay=0.2))
optimised("adamw_amsgrad", lambda p: o.AdamW(p, 0.1, amsgrad=True))
optimised("adamw_groups", lambda p: o.AdamW([{"params": p[:1]}, {"params": p[1:], "weight_decay": 0.0, "lr": 0.02}], 0.1))
optimised("rmsprop", lambda p: o.RMSprop(p, 0.1, alpha=0.9, weight_decay=0.05))
optimised("rmsprop_all", lambda p: o.RMSprop(p, 0.1, alpha=0.9, momentum=0.5, centered=True))
optimised("adagrad", lambda p: o.Adagrad(p, 0.1, lr_decay=0.1, weight_decay=0.05, initial_accumulator_value=0.1))
optimised("adadelta", lambda p: o.Adadelta(p, 1.5, rho=0.8, weight_decay=0.05))
optimised("nadam", lambda p: o.NAdam(p, 0.1, weight_decay=0.05))
optimised("nadam_decoupled", lambda p: o.NAdam(p, 0.1, betas=(0.8, 0.95), momentum_decay=0.1, weight_decay=0.2, decoupled_weight_decay=True))
optimised("radam", lambda p: o.RAdam(p, 0.1, weight_decay=0.05))
optimised("radam_decoupled", lambda p: o.RAdam(p, 0.1, betas=(0.8, 0.95), weight_decay=0.2, decoupled_weight_decay=True))
optimised("adamax", lambda p: o.Adamax(p, 0.1, betas=(0.8, 0.95), weight_decay=0.05))
optimised("lion", lion)
optimised("muon", muon)


def clipping(p):
    def clip(*_):
        nn.utils.clip_grad_norm_(p, 0.5)

    opt = o.SGD(p, 0.1)
    opt.register_step_pre_hook(clip)
    return opt


optimised("clip_norm", clipping)
s = o.lr_scheduler
warm = lambda opt: s.SequentialLR(
    opt, [s.LinearLR(opt, 0.25, total_iters=4), s.CosineAnnealingLR(opt, 8)], milestones=[4]
)
optimised("scheduled", lambda p: o.AdamW(p, 0.1), schedule=warm)

rates = {}
for name, make in {
    "steps": lambda opt: s.StepLR(opt, 3, 0.5),
    "exponential": lambda opt: s.ExponentialLR(opt, 0.9),
    "cosine": lambda opt: s.CosineAnnealingLR(opt, 20, 0.1),
    "polynomial": lambda opt: s.PolynomialLR(opt, 10, 2.0),
    "one_cycle": lambda opt: s.OneCycleLR(opt, 1.0, total_steps=20),
    "warm": warm,
}.items():
    opt = o.SGD([nn.Parameter(values(1))], 1.0)
    curve, found = make(opt), []
    for step in range(20):
        found.append(opt.param_groups[0]["lr"])
        opt.step()
        if step < 19:
            curve.step()
    rates[name] = torch.tensor(found)
case("schedules", None, {}, rates)

drawn = 0
for name, make in [("rnn", nn.RNNCell), ("gru", nn.GRUCell), ("lstm", nn.LSTMCell)]:
    layer = fill(make(3, 4))
    x = values(2, 3)
    starts = tuple(values(2, 4) for _ in range(2 if name == "lstm" else 1))
    first = layer(x)
    end = layer(x, starts if name == "lstm" else starts[0])
    firsts, ends = (first, end) if name == "lstm" else ((first,), (end,))
    inputs = {"x": x, **{f"start{i}": s for i, s in enumerate(starts)}}
    outputs = {f"end{i}": e for i, e in enumerate(ends)} | {f"first{i}": e for i, e in enumerate(firsts)}
    case(name + "_cell", layer, inputs, outputs)

inputs, outputs = {}, {}
for rank, sizes, asked in [(2, (4, 5), (3, 6)), (3, (3, 4, 2), (2, 3, 3))]:
    x = values(2, 3, *sizes).requires_grad_()
    grid = (values(2, *asked, rank, scale=1.4) + 0.01).requires_grad_()
    theta = values(2, rank, rank + 1, scale=1.4).requires_grad_()
    inputs |= {f"x{rank}": x, f"grid{rank}": grid, f"theta{rank}": theta}
    for align in [False, True]:
        for kind in ["nearest", "bilinear", "bicubic"][: 5 - rank]:
            for padding in ["zeros", "border", "reflection"]:
                y = nn.functional.grid_sample(x, grid, kind, padding, align)
                name = f"{rank}_{kind}_{padding}_{str(align).lower()}"
                dx, dgrid = torch.autograd.grad(y.square().sum(), [x, grid])
                outputs |= {name: y, name + "_dx": dx, name + "_dgrid": dgrid}
        y = nn.functional.affine_grid(theta, (2, 1, *asked), align)
        name = f"affine{rank}_{str(align).lower()}"
        outputs |= {name: y, name + "_dtheta": torch.autograd.grad(y.square().sum(), theta)[0]}
case("grids", None, inputs, outputs)

table = values(6, 3).requires_grad_()
rows = torch.tensor([[4, 1, 1], [0, 5, 2], [1, 1, 3]])
line = torch.tensor([3, 1, 1, 0, 5, 1, 2])
offsets = torch.tensor([0, 2, 2, 6])
weights, line_weights = values(3, 3).requires_grad_(), values(7).requires_grad_()
inputs = {"table": table, "rows": rows, "line": line, "offsets": offsets, "weights": weights, "line_weights": line_weights}
outputs = {}
for mode in ["sum", "mean", "max", "weighted"]:
    for padding in [None, 1]:
        for form, at, starts, by in [("rows", rows, None, weights), ("line", line, offsets, line_weights)]:
            for last in [False, True] if form == "line" else [False]:
                options = {"mode": mode, "padding_idx": padding, "include_last_offset": last}
                if mode == "weighted":
                    options |= {"mode": "sum", "per_sample_weights": by}
                ends = torch.cat([starts, torch.tensor([7])]) if last else starts
                y = nn.functional.embedding_bag(at, table, ends, **options)
                name = f"{form}_{mode}{'_padded' if padding else ''}{'_last' if last else ''}"
                outputs |= {name: y, name + "_dtable": torch.autograd.grad(y.square().sum(), table, retain_graph=True)[0]}
                if mode == "weighted":
                    outputs[name + "_dweights"] = torch.autograd.grad(y.square().sum(), by)[0]
case("bags", None, inputs, outputs)

logits = values(7, 4, 5, scale=3.0).requires_grad_()
padded = torch.tensor([[1, 2, 2], [3, 0, -1], [4, 4, 4], [2, -100, -100]])
joined = torch.tensor([1, 2, 2, 3, 4, 4, 4])
steps, lengths = torch.tensor([7, 5, 4, 6]), torch.tensor([3, 1, 3, 0])
inputs = {"logits": logits, "padded": padded, "joined": joined, "steps": steps, "lengths": lengths}
outputs = {}
for reduction in ["none", "sum", "mean"]:
    for blank in [0, 3]:
        logs = logits.log_softmax(-1)
        own = torch.where(padded == blank, 4, padded)
        # The third sequence takes two blanks between its labels: more steps than it has.
        loss = nn.functional.ctc_loss(logs, own, steps, lengths, blank, reduction, zero_infinity=True)
        name = f"{reduction}_{blank}"
        dlogs, dlogits = torch.autograd.grad(loss.square().sum(), [logs, logits])
        outputs |= {name: loss, name + "_dlogs": dlogs, name + "_dlogits": dlogits}
one = nn.functional.ctc_loss(logits[:, 0].log_softmax(-1), joined[:3], steps[0], lengths[0])
outputs |= {"one": one, "one_dlogits": torch.autograd.grad(one, logits)[0]}
case("ctc", None, inputs, outputs)

F = nn.functional
x, z, v = values(4, 6).requires_grad_(), (values(4, 6) + 1 / 64).requires_grad_(), values(6).requires_grad_()
image, square = values(2, 4, 5, 6).requires_grad_(), values(2, 3, 3).requires_grad_()
volume = values(1, 2, 3, 4, 4).requires_grad_()
columns = values(2, 12, 20).requires_grad_()
places, counts = torch.tensor([3, 0, 2]), torch.tensor([1, 2, 1, 3, 1, 2])
mask = x.detach() > 0.1
inputs = {
    "x": x, "z": z, "v": v, "image": image, "square": square, "volume": volume, "columns": columns,
    "places": places, "counts": counts, "mask": mask.long(), "signs": torch.where(mask, 1, -1),
    "class": torch.tensor([2, 0, 5, 3]), "classes": torch.tensor([[0, 2, -1, 1, 5, 3], [5, -1, 0, 0, 0, 0], [1, 2, 3, 4, 5, 0], [-1, 0, 0, 0, 0, 0]]),
}
outputs = {}


def functions(of, table):
    """Values, and slopes of their squares' sum by each of the tensors."""
    for name, make in table.items():
        y = make()
        outputs[name] = y
        loss = y.square().sum() + 0 * of[0].sum()
        slopes = torch.autograd.grad(loss, of, allow_unused=True)
        for i, (slope, by) in enumerate(zip(slopes, of)):
            outputs[f"{name}_d{i}"] = torch.zeros_like(by) if slope is None else slope


functions([x], {
    "glu": lambda: F.glu(x, 1),
    "softmin": lambda: F.softmin(x, 0),
    "tanhshrink": lambda: F.tanhshrink(x),
    "hardshrink": lambda: F.hardshrink(x, 0.3),
    "softshrink": lambda: F.softshrink(x, 0.3),
    "threshold": lambda: F.threshold(x, 0.1, -2.0),
    "lgamma": lambda: torch.lgamma(x.abs() * 3 + 0.25),
    "digamma": lambda: torch.digamma(x.abs() * 9 + 0.25),
    "erfinv": lambda: torch.erfinv(x),
    "sinc": lambda: torch.sinc(x * 2),
    "deg2rad": lambda: torch.deg2rad(x),
    "rad2deg": lambda: torch.rad2deg(x),
    "logit": lambda: torch.logit(x * 0.5 + 0.5),
    "logit_eps": lambda: torch.logit(x, 0.2),
    "nansum": lambda: torch.nansum(torch.where(x > 0.5, torch.nan, x), 1),
    "nansum_all": lambda: torch.nansum(torch.where(x > 0.5, torch.nan, x)),
    "nanmean": lambda: torch.nanmean(torch.where(x > 0.5, torch.nan, x), 0, keepdim=True),
    "trapezoid": lambda: torch.trapezoid(x, dx=0.5, dim=0),
    "cumulative_trapezoid": lambda: torch.cumulative_trapezoid(x, dx=2.0, dim=1),
    "cov": lambda: torch.cov(x),
    "cov_of_row": lambda: torch.cov(x[0], correction=0),
    "corrcoef": lambda: torch.corrcoef(x),
    "corrcoef_of_row": lambda: torch.corrcoef(x[0]),
    "vander": lambda: torch.stack([x[0] ** k for k in range(6)][::-1], 1),
    "vander_up": lambda: torch.stack([x[0] ** k for k in range(4)], 1),
    "pdist": lambda: F.pdist(x),
    "pdist_1": lambda: F.pdist(x, 1.0),
    "renorm": lambda: torch.renorm(x, 2, 1, 0.75),
    "renorm_1": lambda: torch.renorm(x, 1, 0, 1.5),
    "unflatten": lambda: x.unflatten(1, (2, -1)),
    "rot90": lambda: torch.rot90(x, 1, (0, 1)),
    "rot270": lambda: torch.rot90(x, -1, (0, 1)),
    "diag_embed": lambda: torch.diag_embed(x),
    "diag_embed_off": lambda: torch.diag_embed(x, -2, 0, 2),
    "diag_embed_across": lambda: torch.diag_embed(x, 1, 2, 0),
    "tensor_split": lambda: torch.tensor_split(x, 4, 1)[1],
    "index_fill": lambda: torch.index_fill(x, 0, places, 2.5),
    "kthvalue": lambda: torch.kthvalue(x, 2, 1)[0],
    "kthvalue_first": lambda: torch.kthvalue(x, 4, 0, keepdim=True)[0],
})
functions([x, v], {
    "prelu": lambda: F.prelu(x, v),
    "trapezoid_at": lambda: torch.trapezoid(x, v.cumsum(0), dim=1),
    "cumulative_trapezoid_at": lambda: torch.cumulative_trapezoid(x, v.cumsum(0)),
    "cov_weighted": lambda: torch.cov(x, fweights=counts, aweights=v.abs() + 0.5),
    "cov_aweighted": lambda: torch.cov(x, correction=0, aweights=v.abs() + 0.5),
    "tensordot": lambda: torch.tensordot(x, v, dims=([1], [0])),
    "pairwise_distance_one": lambda: F.pairwise_distance(x, v, 3.0, keepdim=True),
})
functions([x, z], {
    "fmax": lambda: torch.fmax(x, z),
    "fmin": lambda: torch.fmin(x, z),
    "copysign": lambda: torch.copysign(x, z),
    "xlogy": lambda: torch.xlogy(x, z.abs() + 0.1),
    "logaddexp2": lambda: torch.logaddexp2(x * 4, z),
    "pairwise_distance": lambda: F.pairwise_distance(x, z),
    "pairwise_distance_1": lambda: F.pairwise_distance(x, z, 1.0),
    "dist": lambda: torch.dist(x, z, 3.0),
    "tensordot_both": lambda: torch.tensordot(x, z, dims=([0, 1], [0, 1])),
    "tensordot_none": lambda: torch.tensordot(x[:2], z[:1], dims=0),
    "block_diag": lambda: torch.block_diag(x, z[0], z[0, 0]),
    "index_copy": lambda: torch.index_copy(x, 0, places, z[:3]),
    "masked_scatter": lambda: torch.masked_scatter(x, mask, z),
    "soft_margin_loss": lambda: F.soft_margin_loss(x * z, torch.where(mask, 1.0, -1.0)),
    "multi_margin_loss": lambda: F.multi_margin_loss(x * z, inputs["class"], reduction="none"),
    "multi_margin_loss_2": lambda: F.multi_margin_loss(x * z, inputs["class"], p=2, margin=0.5, weight=torch.tensor([1.0, 2, 3, 4, 5, 6])),
    "multilabel_margin_loss": lambda: F.multilabel_margin_loss(x * z, inputs["classes"], reduction="none"),
    "multilabel_soft_margin_loss": lambda: F.multilabel_soft_margin_loss(x * z, mask.double(), weight=torch.tensor([1.0, 2, 3, 4, 5, 6])),
})
functions([square], {
    "matrix_power": lambda: torch.matrix_power(square, 5),
    "matrix_power_0": lambda: torch.matrix_power(square, 0),
})
functions([v, x, z], {"addmm": lambda: torch.addmm(v[:4], x, z.t(), beta=0.5, alpha=2.0)})
functions([square, image], {
    "baddbmm": lambda: torch.baddbmm(square[:, :1], image[:, 0, :3], image[:, 1, :3].mT, beta=-1.0, alpha=0.5),
})
functions([image], {
    "local_response_norm": lambda: F.local_response_norm(image, 3, 2.0, 0.75, 1.5),
    "local_response_norm_2": lambda: F.local_response_norm(image, 2),
    "channel_shuffle": lambda: F.channel_shuffle(image, 2),
    "im2col": lambda: F.unfold(image, (2, 3), 1, 0, 1),
    "im2col_wide": lambda: F.unfold(image, (2, 2), (1, 2), (1, 0), (2, 1)),
    "im2col_one": lambda: F.unfold(image[0], 2, padding=1, stride=3),
    "lp_pool1d": lambda: F.lp_pool1d(image[0].abs(), 3.0, 2, 2),
    "lp_pool1d_ceil": lambda: F.lp_pool1d(image[0], 2.0, 4, 3, ceil_mode=True),
    "lp_pool2d": lambda: F.lp_pool2d(image, 2.0, (2, 3), 2),
})
functions([volume], {"lp_pool3d": lambda: F.lp_pool3d(volume, 2.0, 2)})
functions([columns], {
    "col2im": lambda: F.fold(columns, (5, 7), (2, 3), 1, 0, 1),
    "col2im_tiles": lambda: F.fold(columns, (8, 30), (4, 3), stride=(4, 3)),
    "col2im_wide": lambda: F.fold(columns, (8, 9), (2, 2), (1, 2), (1, 0), (2, 2)),
})
case("functions", None, inputs, outputs)

drawn = 0
x, target = values(2, 5, 8), values(2, 4, 8)
added, memory_mask = values(4, 4), torch.tensor([[1, 1, 0, 1, 1], [1, 1, 1, 1, 0], [1, 0, 1, 1, 1], [1, 1, 1, 1, 1]]).bool()
causal = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
padding = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
for first in [False, True]:
    layer = nn.Transformer(8, 2, 2, 1, 12, 0.0, "gelu", batch_first=True, norm_first=first)
    layer = fill(layer).eval()
    inputs = {"x": x, "target": target, "added": added, "seen": memory_mask.long(), "padding": padding.long()}
    outputs = {
        "plain": layer(x, target),
        "causal": layer(x, target, tgt_mask=causal, tgt_is_causal=True),
        "masked": layer(x, target, tgt_mask=added.masked_fill(causal, float("-inf")), memory_mask=~memory_mask),
        "padded": layer(x, target, src_key_padding_mask=~padding, memory_key_padding_mask=~padding),
    }
    case(f"transformer_{first}", layer, inputs, outputs)
layer = nn.TransformerDecoderLayer(8, 2, 12, batch_first=True)
layer = fill(nn.TransformerDecoder(layer, 2)).eval()
y = layer(target, x, tgt_mask=causal, tgt_is_causal=True)
case("decoder", layer, {"x": target, "memory": x}, {"y": y})

optimised("adafactor", lambda p: o.Adafactor(p, 0.1))
optimised("adafactor_all", lambda p: o.Adafactor(p, 0.3, beta2_decay=-0.5, eps=(1e-3, 0.7), d=1.5, weight_decay=0.05))
optimised("rprop", lambda p: o.Rprop(p, 0.1))
optimised("rprop_all", lambda p: o.Rprop(p, 0.1, etas=(0.4, 1.5), step_sizes=(0.05, 0.2)))
optimised("asgd", lambda p: o.ASGD(p, 0.1, weight_decay=0.05))
optimised("asgd_all", lambda p: o.ASGD(p, 0.2, lambd=0.01, alpha=0.5, t0=3))

inputs, outputs = {}, {}
for name, make in {
    "mean": lambda model: torch.optim.swa_utils.AveragedModel(model),
    "ema": lambda model: torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.8)),
}.items():
    drawn = 0
    model = fill(nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)))
    average = make(model)
    for step in range(6):
        inputs[f"x{step}"] = values(4, 2)
        model(inputs[f"x{step}"])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(values(*parameter.shape) * 0.5)
        average.update_parameters(model)
        state = {k: v for k, v in average.module.state_dict().items() if "num" not in k}
        outputs |= {f"{name}{step}_{k}": v.clone() for k, v in state.items()}
        inputs |= {f"{step}_{k}": v.clone() for k, v in model.state_dict().items()}
case("averages", None, inputs, outputs)


def asgd_average():
    global drawn
    drawn = 0
    w, b = nn.Parameter(values(3, 2)), nn.Parameter(values(3))
    opt = o.ASGD([w, b], 0.2, lambd=0.01, alpha=0.5, t0=3)
    for step in range(12):
        w.grad, b.grad = values(3, 2), values(3)
        opt.step()
    return {"w": opt.state[w]["ax"], "b": opt.state[b]["ax"]}


case("asgd_average", None, {}, asgd_average())


def minimised(name, **options):
    """Five calls of L-BFGS on a loss with a curved valley."""
    global drawn
    drawn = 0
    w, b = nn.Parameter(values(3, 2)), nn.Parameter(values(3))
    opt = o.LBFGS([w, b], **options)
    outputs = {"w": w.detach().clone(), "b": b.detach().clone()}

    def loss():
        opt.zero_grad()
        line = w.flatten()
        valley = (line[1:] - line[:-1].square()).square().sum() * 5 + (1 - line).square().sum()
        loss = valley + (b - w.sum(1)).square().sum()
        loss.backward()
        return loss

    for step in range(5):
        outputs[f"loss{step}"] = opt.step(loss).detach()
        outputs[f"w{step}"], outputs[f"b{step}"] = w.detach().clone(), b.detach().clone()
    state = opt.state[w]
    outputs["counts"] = torch.tensor([state["n_iter"], state["func_evals"]])
    case("lbfgs_" + name, None, {}, outputs)


minimised("fixed", lr=0.3, max_iter=4)
minimised("short", lr=0.5, max_iter=3, history_size=2)
minimised("wolfe", max_iter=3, line_search_fn="strong_wolfe")
minimised("wolfe_far", lr=20.0, max_iter=4, max_eval=9, line_search_fn="strong_wolfe")
minimised("wolfe_near", lr=1e-3, max_iter=3, max_eval=30, line_search_fn="strong_wolfe")
minimised("converged", max_iter=20, tolerance_grad=1e-3, tolerance_change=1e-5, line_search_fn="strong_wolfe")

pathlib.Path(__file__).with_name("torch.json").write_text(json.dumps(cases) + "\n")
