"""Writes the NumPy files of this folder: python3 make.py (NumPy 2 and ml_dtypes)."""

import numpy as np
from numpy.lib import format as npy
import ml_dtypes

DTYPES = ["?", "u1", "i1", "i2", "i4", "i8", "f2", "f4", "f8"]

arrays = {}
for dtype in DTYPES:
    x = (np.arange(6).reshape(2, 3) - (0 if dtype in "?u1" else 2)).astype(dtype)
    arrays[f"{dtype.replace('?', 'b1')}_c"] = x
    arrays[f"{dtype.replace('?', 'b1')}_fortran"] = np.asfortranarray(x)
    arrays[f"{dtype.replace('?', 'b1')}_big"] = x.astype(np.dtype(dtype).newbyteorder(">"))
arrays["bf16"] = np.array([1.5, -2.0, 3.25], dtype=ml_dtypes.bfloat16)
arrays["scalar"] = np.float64(0.1)
arrays["empty"] = np.zeros((2, 0, 3), np.float32)
arrays["cube_fortran"] = np.asfortranarray(np.arange(24, dtype=np.int16).reshape(2, 3, 4))
for dtype in ["c8", "c16"]:
    x = (np.arange(24) + 1j * np.arange(24, 48)).reshape(2, 3, 4).astype(dtype)
    forms = x, np.asfortranarray(x), x.astype(np.dtype(dtype).newbyteorder(">")), x[1, 2, 3]
    for form, x in zip(["c", "fortran", "big", "scalar"], forms):
        np.save(f"{dtype}_{form}.npy", x)
np.savez("arrays.npz", **arrays)
np.savez_compressed("compressed.npz", zeros=np.zeros((50, 20)), range=np.arange(1000, dtype=np.int32))

for version in [(1, 0), (2, 0), (3, 0)]:
    with open(f"version{version[0]}.npy", "wb") as f:
        npy.write_array(f, np.arange(4, dtype=np.float32), version=version)

refused = {
    "uint16": np.zeros(2, np.uint16),
    "uint64": np.zeros(2, np.uint64),
    "clongdouble": np.zeros(2, np.clongdouble),
    "longdouble": np.zeros(2, np.longdouble),
    "text": np.array(["a", "b"]),
    "date": np.zeros(2, "M8[s]"),
    "record": np.zeros(2, [("a", "f4"), ("b", "i2")]),
}
for name, x in refused.items():
    np.save(f"refused_{name}.npy", x)
np.save("refused_object.npy", np.array([{}], dtype=object), allow_pickle=True)
