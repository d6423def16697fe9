"""The list of programs, and what makes their inputs, the same numbers as those of `benches/programs`."""

import math

import numpy as np
import torch

import inputs

PROGRAMS = {}
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def wave(shape, seed, scale):
    """An input of f32: a sine of the position, whose phase is the seed's."""
    k = np.arange(math.prod(shape), dtype=np.float64)
    values = scale * np.sin(k * 1.2345 + seed * 7.7)
    return torch.tensor(values.astype(np.float32).reshape(shape), device=DEVICE)


def normal(shape, seed, scale):
    """An input of f32 whose rows and columns are independent."""
    return torch.tensor(inputs.normal(shape, seed, scale), device=DEVICE)


def ids(shape, seed, bound):
    """An input of i64 below a bound."""
    k = np.arange(math.prod(shape), dtype=np.int64)
    return torch.tensor(((k * 7919 + seed * 104729 + k // 13 * 31) % bound).reshape(shape), device=DEVICE)


def zeros(*shape):
    return torch.zeros(*shape, device=DEVICE)


def halved(tensors):
    return [x.bfloat16() for x in tensors]


def program(make):
    """Adds a function of a list of inputs, which `make` makes, to the programs."""

    def add(function):
        PROGRAMS[function.__name__] = (make, function)
        return function

    return add
