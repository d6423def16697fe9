"""Draws programs of a few to 30 statements, exports them, and writes what PyTorch computes, and its gradients.

    python3 tests/exported/python/drawn_programs.py FOLDER --seed 1 --count 500 [--gradients] [--dtype float64]
        [--writes 0.3] [--dynamic]
    python3 tests/exported/python/compare.py FERROTRACE FOLDER --rtol 1e-3

Statements are pointwise functions, reductions, scans, sorts, products, windows, views, and with the probability `--writes`
a write into a tensor or a view of one. A program reads earlier values, the last ones most. `--dynamic` exports with
symbolic sizes and calls with several. `--gradients` also writes `gradient_NAME.npy` for each input NAME: of the sum over
all results of their elements, the element i of each weighed by cos(0.7 i + 0.3). Programs that PyTorch refuses, whose
export computes something else than the program, or whose numbers are beyond 1e6, are left out. The test
`exported::gradients` reads the folder that FERROTRACE_DRAWN_PROGRAMS names. Statements come from the seed alone.
"""

import argparse
import logging
import os
import random
import warnings

import numpy as np
import torch
import torch.nn.functional as F

from save import save

UNARY = """sin({a})|tanh({a})|{a}*0.5+1|relu({a})|sigmoid({a})|exp(-{a}.abs())|{a}.abs().sqrt()|cos({a})|erf({a})|log1p({a}.abs())
{a}.clamp(-1,0.5)|F.gelu({a})|F.silu({a})|F.softplus({a})|F.hardswish({a})|F.elu({a})|F.leaky_relu({a},0.1)|F.mish({a})
F.logsigmoid({a})|{a}.neg()|{a}.square()|atan({a})|{a}.sign()|expm1({a}.clamp(max=2))|1.5-{a}|2.0/({a}.abs()+1)|{a}**3
where({a}>0,{a},{a}*0.1)|{a}.masked_fill({a}<0,0.25)|nan_to_num({a})|{a}.double().to({a}.dtype)"""
BINARY = """{a}+{b}|{a}-{b}|{a}*{b}|{a}/({b}.abs()+0.5)|maximum({a},{b})|minimum({a},{b})|where({a}>{b},{a},{b}*0.5)|lerp({a},{b},0.3)
atan2({a},{b}.abs()+0.1)|hypot({a},{b})|({a}>{b}).to({a}.dtype)*{b}|addcmul({a},{a},{b},value=0.3)|logaddexp({a},{b})"""
REDUCE = """{a}.sum({d})|{a}.mean({d})|{a}.amax({d})|{a}.amin({d},keepdim=True)|{a}.sum({d},keepdim=True)|{a}.var({d},correction=0)
{a}.std({d},correction=0,keepdim=True)|{a}.logsumexp({d})|{a}.softmax({d})|{a}.log_softmax({d})|{a}.cumsum({d})|{a}.sum()
{a}.max({d}).values|{a}.sort({d}).values|{a}.norm(2,{d},keepdim=True)|{a}.prod({d})|{a}.cummax({d}).values|{a}.mean()
F.layer_norm({a},[{a}.shape[-1]])|{a}-{a}.mean({d},keepdim=True)|{a}.topk(min(2,{n}),{d}).values|{a}.cumprod({d})
F.normalize({a},dim={d})|{a}.median({d}).values|{a}.logcumsumexp({d})"""
INDEX = """{a}.argmax({d},keepdim=True)|{a}.argsort({d},stable=True)|({a}>0).long()|{a}.argmin({d},keepdim=True)"""
INDEXED = """{a}.gather({d},{i}.clamp(0,{n}-1))|{i}.to({a}.dtype)*0.1+{a}|{a}.scatter_add({d},{i}.clamp(0,{n}-1),{a})"""
VIEW = """{a}.transpose({d},{e})|{a}.unsqueeze({d})|{a}.flip({d})|{a}.roll({k},{d})|{a}.select({d},{k})|{a}.narrow({d},{lo},{w})
cat([{a},{a}*2],{d})|stack([{a},{a}.flip({d})],{d})|{a}.repeat_interleave(2,{d})|{a}.flatten()|{a}.permute({p})|{a}.squeeze()
F.pad({a},(1,2))|F.pad({a},(-1,1),value=0.5)|{a}.unfold({d},min(2,{n}),1)|{a}.expand([3]+list({a}.shape))|{a}.tril()|{a}.T
{a}.triu(1)|{a}.diagonal(0,-2,-1)|{a}.movedim({d},0)|{a}.contiguous()|{a}[...,::2]|{a}.index_select({d},tensor([{lo},{lo}]))
cat([{a}.narrow({d},{lo},{w}),{a}],{d})|{a}.split(max(1,{n}//2),{d})[0]|{a}.chunk(2,{d})[-1]|{a}.unbind({d})[{k}]"""
PRODUCT = """F.linear({a},{c})|{a}@{c}.t()|F.linear({a},{c},{c}.sum(1))|einsum('...k,mk->...m',{a},{c})"""
SQUARE = """{a}@{a}.transpose(-1,-2)|matmul({a}.softmax(-1),{a}.transpose(-1,-2))*0.1"""
PLANE = """F.max_pool2d({a},2,ceil_mode=True)|F.avg_pool2d({a},2,1,padding=1)|F.interpolate({a},scale_factor=2.0)
F.adaptive_avg_pool2d({a},(2,1))|F.interpolate({a},size=(3,5),mode='bilinear')|F.conv2d({a},{a}.detach()[:1,:,:1,:1].cos())"""
WRITE = """{a}.add_(0.5)|{a}.mul_(0.9)|{a}.relu_()|{a}[...] = {a}*0.5|{a}.fill_(0.25)|{a}.zero_()|{a}.clamp_(-1,1)|{a}.copy_({b})
{a}.masked_fill_({a}>0.5,0.1)|{a}.add_({b},alpha=0.5)|{a}.mul_({b}.mean())|{a}.select({d},{lo}).mul_(2)|{a}[..., -1] += 1
{a}.narrow({d},{lo},{w}).add_(1)|{a}[{lo}:{lo}+{w}] = 0.5|{a}[..., ::2].mul_(0.5)|{a}.index_fill_({d},tensor([{lo}]),0.3)
{a}.narrow({d},{lo},1).copy_({b}.mean())|{a}.flip(0).add_(1)|{a}.diagonal(0,0,-1).add_(2)|{a}.transpose(0,-1).mul_(1.5)
{a}.unsqueeze(0).sub_(0.1)|{a}.T[0] = 0.7|{a}.scatter_({d},{a}.argmax({d},keepdim=True),0.2)|{a}.view(-1)[::2] += 1
{a}.reshape(-1)[0] = 3|{a}.cumsum_({d})"""
NAMES = {name: getattr(torch, name) for name in dir(torch) if not name.startswith("_")} | {"F": F}


def lines(text):
    return text.replace("\n", "|").split("|")


class Drawing:
    def __init__(self, seed, dtype, writes):
        torch.manual_seed(seed)
        self.rng, self.dtype = random.Random(seed), dtype
        self.values, self.known, self.constants, self.text, self.inputs = {}, [], {}, [], {}
        base = [self.rng.choice([1, 2, 3, 4, 5, 7, 8, 13, 16]) for _ in range(self.rng.choice([1, 2, 2, 3, 3, 4]))]
        while np.prod(base) > 40000:
            base.pop()
        for number in range(self.rng.choice([1, 2, 2, 3])):
            sizes = [1 if number and self.rng.random() < 0.2 else size for size in base]
            x = torch.randn(sizes, dtype=dtype)
            if len(sizes) > 1 and self.rng.random() < 0.3:
                x = x.mT.contiguous().mT
            self.inputs[f"x{number}"] = x
            # The program's own values, which it may write.
            self.value(f"x{number}*1.0", {f"x{number}": x.clone()})
        for _ in range(self.rng.choice([6, 12, 20, 30])):
            self.write() if self.rng.random() < writes else self.step()

    def one_of(self):
        return self.rng.choice(self.known[-8:] if self.rng.random() < 0.8 else self.known)

    def value(self, expression, more=None):
        """A further value, if PyTorch computes it."""
        name = f"v{len(self.text)}"
        try:
            found = eval(expression, NAMES, self.values | self.constants | (more or {}))
        except (RuntimeError, IndexError, ValueError, TypeError):
            return None
        if found.numel() > 40000:
            return None
        self.values[name] = found
        self.text.append(f"{name} = {expression}")
        if found.dtype == self.dtype:
            self.known.append(name)
        return name

    def filled(self, template, a, **more):
        x, rng = self.values[a], self.rng
        d = rng.randrange(x.dim()) if x.dim() else 0
        n = x.shape[d] if x.dim() else 1
        lo = rng.randrange(max(n, 1))
        order = list(range(x.dim()))
        rng.shuffle(order)
        e, w = rng.randrange(max(x.dim(), 1)), rng.randrange(lo, max(n, 1)) + 1 - lo
        return template.format(a=a, b=self.one_of(), d=d, e=e, n=n, lo=lo, w=w, k=-1 - lo, p=tuple(order), **more)

    def step(self):
        rng, a = self.rng, self.one_of()
        kinds = [UNARY, BINARY, REDUCE, INDEX, VIEW, PRODUCT, SQUARE, PLANE]
        kind = rng.choices(kinds, [22, 18, 12, 6, 22, 8, 4, 3])[0]
        template = rng.choice(lines(kind))
        if kind == PRODUCT and self.values[a].dim():
            constant = f"c{len(self.constants)}"
            sizes = rng.choice([1, 2, 3, 5, 8, 16]), self.values[a].shape[-1]
            self.constants[constant] = torch.randn(sizes, dtype=self.dtype) * 0.5
            self.value(self.filled(template, a, c=constant))
        elif kind == INDEX:
            if index := self.value(self.filled(template, a)):
                self.value(self.filled(rng.choice(lines(INDEXED)), a, i=index))
        elif kind != PRODUCT:
            self.value(self.filled(template, a))

    def write(self):
        a = self.one_of()
        x = self.values[a]
        memory = torch.arange(x.untyped_storage().size() // x.element_size())
        if memory.as_strided(x.shape, x.stride(), 0).unique().numel() < x.numel():
            return  # Elements share memory: what is written has no one meaning.
        statement = self.filled(self.rng.choice(lines(WRITE)), a)
        kept = {name: value.clone() for name, value in self.values.items()}
        try:
            exec(statement, NAMES, self.values | self.constants)
            self.text.append(statement)
        except (RuntimeError, IndexError, ValueError):
            self.values = kept

    def model(self):
        results = [name for name in self.values if not name.startswith("x")][-10:]
        results = self.rng.sample(results, min(len(results), self.rng.choice([1, 2, 3, 4])))
        body = [f"{name} = self.{name}" for name in self.constants] + self.text
        text = f"def forward(self, {', '.join(self.inputs)}):\n  " + "\n  ".join(body)
        scope = dict(NAMES)
        exec(f"{text}\n  return ({', '.join(results)},)", scope)
        model = type("Drawn", (torch.nn.Module,), {"forward": scope["forward"]})()
        for name, constant in self.constants.items():
            model.register_buffer(name, constant)
        return model, tuple(self.inputs.values())


def loss(results):
    weights = lambda x: torch.cos(torch.arange(x.numel(), dtype=torch.float64) * 0.7 + 0.3)
    floats = [x.reshape(-1).double() for x in results if x.is_floating_point()]
    return sum((x * weights(x)).sum() for x in floats)


def other_calls(model, inputs, rng):
    """Inputs of other sizes, equal ones staying equal, that the program takes."""
    calls = [inputs]
    for _ in range(6):
        sizes = {1: 1}
        new = lambda n: sizes.setdefault(n, rng.choice([max(2, n - 1), n + 1, 2 * n, 2, 3, n + 5]))
        call = tuple(torch.randn([new(n) for n in x.shape], dtype=x.dtype) for x in inputs)
        try:
            model(*[x.clone() for x in call])
            calls.append(call)
        except (RuntimeError, IndexError, ValueError):
            pass
    return calls


def is_sound(model, inputs, shapes):
    """Whether the export computes what the program does, in numbers that can be compared."""
    with torch.no_grad():
        own = model(*[x.clone() for x in inputs])
        program = torch.export.export(model, tuple(x.clone() for x in inputs), dynamic_shapes=shapes, strict=False)
        other = program.module()(*[x.clone() for x in inputs])
    near = all(torch.allclose(a.double(), b.double(), 1e-4, 1e-5) for a, b in zip(own, other))
    return near and all(x.double().abs().max() < 1e6 for x in own if x.numel())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--writes", type=float, default=0.25)
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--dynamic", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    written = 0
    for seed in range(options.seed, options.seed + options.count):
        drawing = Drawing(seed, getattr(torch, options.dtype), options.writes)
        model, inputs = drawing.model()
        dim = lambda n: torch.export.Dim.AUTO if n > 1 else torch.export.Dim.STATIC
        shapes = tuple({d: dim(n) for d, n in enumerate(x.shape)} for x in inputs) if options.dynamic else None
        folder = f"{options.folder}/drawn_{seed}"
        try:
            if not is_sound(model, inputs, shapes):
                continue
            gradients = []
            if options.gradients:
                leaves = [x.clone().requires_grad_() for x in inputs]
                of = loss(model(*leaves))
                if not isinstance(of, torch.Tensor) or not of.requires_grad:
                    continue
                gradients = torch.autograd.grad(of, leaves, materialize_grads=True)
                if not all(x.isfinite().all() for x in gradients):
                    continue
            calls = other_calls(model, inputs, drawing.rng) if options.dynamic else [inputs]
            save(folder, model, calls, dynamic_shapes=shapes)
        except (RuntimeError, torch._dynamo.exc.UserError):
            continue
        for name, gradient in zip(drawing.inputs, gradients):
            np.save(f"{folder}/call0/gradient_{name}.npy", gradient.numpy())
        with open(f"{folder}/program.txt", "w") as file:
            file.write("\n".join(drawing.text) + "\n")
        written += 1
    print(f"{written} programs")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
