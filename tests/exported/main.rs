//! Programs of `torch.export`: fixtures that PyTorch wrote, with what it computed.

mod fixtures;
