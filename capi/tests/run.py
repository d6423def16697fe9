"""Runs a bundle from Python, with its standard library alone: run.py LIBRARY BUNDLE.

The bundle has two inputs, x (2, 3) and b (3), and gives x + b and the sums of its rows."""

import ctypes
import sys
from array import array
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_float, c_int32, c_int64, c_uint8, c_uint16, c_uint32,
                    c_uint64, c_void_p)


class Device(Structure):
    _fields_ = [("device_type", c_int32), ("device_id", c_int32)]


class DataType(Structure):
    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Tensor(Structure):
    _fields_ = [("data", c_void_p), ("device", Device), ("ndim", c_int32), ("dtype", DataType),
                ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)), ("byte_offset", c_uint64)]


class Managed(Structure):
    pass


Deleter = CFUNCTYPE(None, POINTER(Managed))
Managed._fields_ = [("version", c_uint32 * 2), ("context", c_void_p), ("deleter", Deleter), ("flags", c_uint64),
                    ("tensor", Tensor)]

given_back = []
kept = {}


@Deleter
def give_back(managed):
    given_back.append(kept.pop(ctypes.addressof(managed.contents)))


def of(values, *shape):
    """A tensor in the memory of an array of floats."""
    managed = Managed()
    dims = (c_int64 * len(shape))(*shape)
    data = (c_float * len(values)).from_buffer(values)
    managed.version = (c_uint32 * 2)(1, 0)
    managed.deleter = give_back
    managed.tensor = Tensor(ctypes.addressof(data), Device(1, 0), len(shape), DataType(2, 32, 1), dims, None, 0)
    kept[ctypes.addressof(managed)] = (managed, dims, data, values)
    return ctypes.pointer(managed)


def values(managed):
    tensor = managed.contents.tensor
    shape = [tensor.shape[d] for d in range(tensor.ndim)]
    numel = 1
    for size in shape:
        numel *= size
    data = ctypes.cast(tensor.data + tensor.byte_offset, POINTER(c_float))
    return shape, [data[i] for i in range(numel)], managed.contents.flags


library = ctypes.CDLL(sys.argv[1])
library.ft_open.restype = c_void_p
library.ft_open.argtypes = [c_char_p, c_int32]
library.ft_error.restype = c_char_p
library.ft_inputs.restype = c_int64
library.ft_inputs.argtypes = [c_void_p]
library.ft_run_versioned.argtypes = [c_void_p, POINTER(POINTER(Managed)), c_int64, POINTER(POINTER(Managed)), c_int64]
library.ft_close.argtypes = [c_void_p]

bundle = library.ft_open(sys.argv[2].encode(), 2)
assert bundle, library.ft_error()
assert library.ft_inputs(bundle) == 2
for rows in (2, 4):
    x, b = array("f", range(rows * 3)), array("f", [10, 20, 30])
    inputs = (POINTER(Managed) * 2)(of(x, rows, 3), of(b, 3))
    outputs = (POINTER(Managed) * 2)()
    status = library.ft_run_versioned(bundle, inputs, 2, outputs, 2)
    assert status == 0, library.ft_error()
    expected = [x[i] + b[i % 3] for i in range(rows * 3)]
    # The flag says that the memory must not be written.
    assert values(outputs[0]) == ([rows, 3], expected, 1), values(outputs[0])
    sums = [sum(expected[3 * row:3 * row + 3]) for row in range(rows)]
    assert values(outputs[1]) == ([rows], sums, 1), values(outputs[1])
    for output in outputs:
        output.contents.deleter(output)
assert library.ft_run_versioned(bundle, inputs, 0, outputs, 2) == -1
assert b"takes" in library.ft_error(), library.ft_error()
library.ft_close(bundle)
assert len(given_back) == 4 and not kept, (given_back, kept)
print("done")
