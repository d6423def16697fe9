"""Exports PyTorch's own operator samples (OpInfo), with what PyTorch computes of them.

    PYTHONPATH=.. python3 tests/exported/python/samples.py FOLDER --seed 1 --most 4

Writes one archive for each operator and dtype, FOLDER/NAME.DTYPE, which calls the operator on some of its samples, drawn by
the seed among the small ones. Operators that draw random numbers are left out, and samples that do not export are said.
`compare.py` runs them. Needs PyTorch and expecttest.
"""

import argparse
import logging
import os
import random
import re
import shutil
import signal
import sys
import warnings

import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

from save import save

DTYPES = {
    "f32": torch.float32,
    "f64": torch.float64,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "bool": torch.bool,
    "c64": torch.complex64,
}

# They draw random numbers, or show memory that nothing has written.
RANDOM = re.compile(
    r"rand|normal|bernoulli|multinomial|dropout|exponential|cauchy|geometric|uniform|rrelu|empty|poisson|gumbel"
    r"|fractional_max_pool|stft|sparse|jiterator|hash_tensor"
)


class Calls(torch.nn.Module):
    """An operator called with several samples: tensors are inputs, all else is fixed."""

    def __init__(self, operator, samples):
        super().__init__()
        self.operator = operator
        self.specs, self.fixed, self.complex = [], [], []
        for sample in samples:
            leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
            self.specs.append(spec)
            self.fixed.append([None if isinstance(x, torch.Tensor) else (x,) for x in leaves])
            self.complex += [x.is_complex() for x in leaves if isinstance(x, torch.Tensor)]

    def forward(self, a):
        # Complex numbers are given, and told, as pairs.
        given = iter([torch.view_as_complex(x) if pairs else x for x, pairs in zip(a, self.complex)])
        results = []
        for spec, fixed in zip(self.specs, self.fixed):
            leaves = [next(given) if x is None else x[0] for x in fixed]
            first, args, kwargs = pytree.tree_unflatten(leaves, spec)
            result = self.operator(first, *args, **kwargs)
            leaves = [x for x in pytree.tree_leaves(result) if x is not None]
            results.append([torch.view_as_real(x) if torch.is_tensor(x) and x.is_complex() else x for x in leaves])
        return results


def written(operator):
    """An operator that writes its first argument, on a view of a copy, which is given as a whole."""

    def call(first, *args, **kwargs):
        whole = torch.stack([first, first])
        operator(whole[1], *args, **kwargs)
        return whole

    return call


def tensors(samples):
    return [
        x
        for sample in samples
        for x in pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
        if isinstance(x, torch.Tensor)
    ]


def is_plain(sample):
    return all(
        x.layout == torch.strided and x.numel() <= 4096 and not x.is_quantized for x in tensors([sample])
    )


class Slow(Exception):
    pass


def alarm(*_):
    raise Slow("takes long")


def export(folder, operator, samples, core):
    given = [x.detach().clone() for x in tensors(samples)]
    given = [torch.view_as_real(x.resolve_conj()).clone() if x.is_complex() else x for x in given]
    shutil.rmtree(folder, ignore_errors=True)
    signal.alarm(60)
    try:
        save(folder, Calls(operator, samples), [(given,)], decompose=core)
    finally:
        signal.alarm(0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, default=4, help="samples of an operator and dtype")
    parser.add_argument("--dtypes", nargs="*", default=list(DTYPES))
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th operator from I on")
    parser.add_argument("--core", action="store_true", help="decompose to core operators")
    parser.add_argument("--inplace", action="store_true", help="the forms that write their first argument")
    parser.add_argument("--split", action="store_true", help="one archive for each sample")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    signal.signal(signal.SIGALRM, alarm)
    part, parts = map(int, options.part.split("/"))
    for op in op_db[part::parts]:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if RANDOM.search(name) or options.only and op.name not in options.only and name not in options.only:
            continue
        function = op.op
        if options.inplace:
            function = written(op.inplace_variant)
            if not op.inplace_variant:
                continue
        for short in options.dtypes:
            dtype = DTYPES[short]
            if dtype not in op.dtypes:
                continue
            torch.manual_seed(options.seed)
            draw = random.Random(f"{options.seed} {name} {short}")
            try:
                samples = [s for s in op.sample_inputs("cpu", dtype) if is_plain(s)]
            except Exception as error:
                print(f"NO SAMPLES {name}.{short}: {str(error).splitlines()[:1]}", flush=True)
                continue
            samples = draw.sample(samples, min(options.most, len(samples)))
            if not samples:
                continue
            folder = os.path.join(options.folder, f"{name}.{short}")
            if not options.split:
                try:
                    export(folder, function, samples, options.core)
                    continue
                except Exception:
                    shutil.rmtree(folder, ignore_errors=True)
            for i, sample in enumerate(samples):
                try:
                    export(f"{folder}.{i}", function, [sample], options.core)
                except Exception as error:
                    shutil.rmtree(f"{folder}.{i}", ignore_errors=True)
                    said = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0][:160]
                    print(f"NOT EXPORTED {name}.{short}.{i}: {said}", flush=True)


main()
