"""Writes the PyTorch files of this folder: python3 make.py (PyTorch 2)."""

import collections
import torch

torch.manual_seed(0)
DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
          torch.float16, torch.bfloat16, torch.float32, torch.float64]


def state():
    state = collections.OrderedDict()
    for dtype in DTYPES:
        state[str(dtype).split(".")[1]] = (torch.arange(6).reshape(2, 3) % 2 if dtype == torch.bool
                                           else torch.arange(6).reshape(2, 3) + 1).to(dtype)
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    state["base"] = base
    state["turned"] = base.permute(2, 0, 1)
    state["window"] = base[1, 1:, ::2]
    state["spread"] = torch.tensor([7.0]).expand(2, 3)
    state["scalar"] = torch.tensor(2.5, dtype=torch.float64)
    state["empty"] = torch.zeros(2, 0, 3)
    state["tied"] = base
    state["parameter"] = torch.nn.Parameter(torch.tensor([1.0, -1.0]))
    return state


for protocol in [2, 3, 4, 5]:
    torch.save(state(), f"state{protocol}.pt", pickle_protocol=protocol)
torch.save(state(), "legacy.pt", _use_new_zipfile_serialization=False)

model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.125)
with torch.no_grad():
    for i, p in enumerate(model.parameters()):
        p.fill_(i + 1)
model(torch.ones(4, 2)).sum().backward()
optimizer.step()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "best": 0.5,
            "names": ["a", "b"], "seed": 2**63 + 5, "nothing": None, "flag": True, "raw": b"\x00\xff",
            "shape": torch.Size([2, 3]), "dtype": torch.float32}, "checkpoint.pt")
torch.save(model, "module.pt")
torch.save({"z": torch.tensor([1 + 2j])}, "complex.pt")
torch.save({"z": torch.zeros(2, dtype=torch.uint16)}, "uint16.pt")


class Evil:
    def __reduce__(self):
        return (print, ("this must not run",))


torch.save({"a": torch.zeros(1), "b": Evil()}, "evil.pt")
torch.save({"b": Evil()}, "evil_legacy.pt", _use_new_zipfile_serialization=False)
