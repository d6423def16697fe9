"""The programs of `benches/programs` in PyTorch, a file a family: functions of a list of inputs."""

# Imported in the order in which programs are measured.
from . import training, networks, sequences, simulations, arrays  # noqa: F401, I001
