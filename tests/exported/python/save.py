"""Writing of fixtures: an archive, and the inputs and results of its calls, as `ferrotrace run --call` reads them."""

import copy
import os

import numpy as np
import torch
import torch.utils._pytree as pytree


def arr(value):
    """A tensor or number as an array; bfloat16 in 32 bits."""
    if not isinstance(value, torch.Tensor):
        return np.array(value)
    value = value.detach().resolve_conj().resolve_neg()
    if value.dtype == torch.bfloat16:
        value = value.float()
    return value.cpu().numpy()


def same(a, b):
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def save(folder, model, calls, dynamic_shapes=None, strict=False, decompose=False, kwargs=None):
    """Exports a model for the first of its calls, and computes all of them in turn."""
    kwargs = kwargs or {}
    program = torch.export.export(
        model, copy.deepcopy(calls[0]), kwargs, dynamic_shapes=dynamic_shapes, strict=strict
    )
    if decompose:
        program = program.run_decompositions()
    for node in program.graph.nodes:
        # Where the model's text stands, on the machine that exported it.
        for about in ("stack_trace", "nn_module_stack", "torch_fn"):
            node.meta.pop(about, None)
    os.makedirs(folder, exist_ok=True)
    torch.export.save(program, f"{folder}/model.pt2")
    specs = [s.arg for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    model = copy.deepcopy(model)
    for number, args in enumerate(calls):
        call = f"{folder}/call{number}"
        os.makedirs(call, exist_ok=True)
        given = copy.deepcopy((args, kwargs))
        leaves = pytree.tree_leaves(given)
        before = [arr(leaf).copy() if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
        for spec, leaf in zip(specs, leaves):
            if type(spec).__name__ != "ConstantArgument":
                np.save(f"{call}/in_{spec.name}.npy", arr(leaf))
        old = {name: arr(value).copy() for name, value in model.state_dict().items()}
        with torch.no_grad():
            results = model(*given[0], **given[1])
        results = [arr(leaf) for leaf in pytree.tree_leaves(results) if leaf is not None]
        np.savez(f"{call}/expected.npz", **{f"output_{i}": x for i, x in enumerate(results)})
        state = {
            name: arr(value) for name, value in model.state_dict().items() if not same(arr(value), old[name])
        }
        for spec, leaf, was in zip(specs, leaves, before):
            if was is not None and not same(arr(leaf), was):
                state[spec.name] = arr(leaf)
        if state:
            np.savez(f"{call}/expected_state.npz", **state)
