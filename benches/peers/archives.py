"""Writes archives of torch.export with 2 GiB of weights, for the benchmark `archives`.

    PYTHONPATH=.. python3 benches/peers/archives.py FOLDER

FOLDER/entries.pt2 has an entry for each tensor, as PyTorch writes it. FOLDER/pickled.pt2 has them in one entry at an odd
place, as PyTorch 2.6 and 2.7 write it now and then.
"""

import io
import os
import sys
import zipfile

import torch


class Layers(torch.nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def saved(value):
    to = io.BytesIO()
    torch.save(value, to)
    return to.getbuffer()


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(0)
    program = torch.export.export(Layers(32, 4096).eval(), (torch.randn(4, 4096),))
    path = f"{folder}/entries.pt2"
    torch.export.save(program, path)
    with zipfile.ZipFile(path) as archive:
        text = archive.read(next(name for name in archive.namelist() if name.endswith("models/model.json")))
    with zipfile.ZipFile(f"{folder}/pickled.pt2", "w") as archive:
        # The headers that follow have an even length.
        archive.writestr("serialized_exported_program.json", text + b" " * (1 - len(text) % 2))
        archive.writestr("serialized_state_dict.pt", saved(dict(program.state_dict)))
        archive.writestr("serialized_constants.pt", saved({}))
        archive.writestr("version", "8.2")


main()
