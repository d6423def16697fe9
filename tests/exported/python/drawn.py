"""Draws models from the full lists of constructors, exports them with random weights, and runs them.

    PYTHONPATH=.. python3 tests/exported/python/drawn.py FERROTRACE FOLDER --seed 1 --kind timm --count 60

The names of torchvision, timm or transformers are put in an order by the seed before any is tried, and taken in that order
until COUNT were exported. Models of more than 60 million parameters are left out, and those that PyTorch does not construct
with small sizes, or does not export; each is said. Every fourth model is decomposed to core operators; `--form dynamic`
exports all with a symbolic first size, where PyTorch can, and calls them with another one too. An archive is run in both
modes, compared with what PyTorch computes in `f32`, and removed. A tensor may be apart by 1e-4 of its greatest number;
where one is farther, PyTorch's own distance from `f64` is said beside. Needs PyTorch and the three packages; FERROTRACE is
the program `ferrotrace`.
"""

import argparse
import inspect
import logging
import multiprocessing
import os
import random
import re
import shutil
import subprocess
import sys
import time
import warnings

import numpy as np
import torch
import torch.utils._pytree as pytree

from save import arr, save

MOST = 60e6
VOCABULARY = 512

SMALL = {
    r"vocab_size|.*_vocab_size": VOCABULARY,
    r"hidden_size|d_model|n_embd|embed_dim|dim|encoder_hidden_size|hidden_dim|projection_dim|embedding_size|d_embed": 64,
    r"num_hidden_layers|n_layer|n_layers|num_layers|encoder_layers|decoder_layers|num_encoder_layers|num_decoder_layers"
    r"|num_attention_layers|depth": 2,
    r"num_attention_heads|n_head|n_heads|num_heads|encoder_attention_heads|decoder_attention_heads|num_key_value_heads": 4,
    r"intermediate_size|ffn_dim|encoder_ffn_dim|decoder_ffn_dim|d_ff|n_inner|ffn_hidden_size|moe_intermediate_size"
    r"|shared_expert_intermediate_size|dim_feedforward|encoder_intermediate_size": 128,
    r"head_dim|d_kv": 16,
    r"num_experts|num_local_experts|n_routed_experts": 4,
    r"num_experts_per_tok|num_experts_per_token|moe_topk|moe_k|top_k_experts": 2,
    r"image_size": 64,
    r"max_position_embeddings|n_positions|max_source_positions|max_target_positions|max_sequence_length": 128,
}


class Leaves(torch.nn.Module):
    """A model whose result is a list of tensors."""

    def __init__(self, model, names=(), more=()):
        super().__init__()
        self.model, self.names, self.more = model, list(names), dict(more)

    def forward(self, inputs):
        if self.names:
            result = self.model(**dict(zip(self.names, inputs)), **self.more)
            result = result.to_tuple() if hasattr(result, "to_tuple") else result
        else:
            result = self.model(*inputs)
        return [x for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]


def torchvision_names():
    from torchvision.models import list_models

    return list_models()


def torchvision_model(name):
    from torchvision.models import get_model

    model = get_model(name, **({"weights_backbone": None} if is_detector(name) else {}))
    if re.search("r3d|mc3|r2plus1d|mvit|s3d|swin3d", name):
        return model, [torch.randn(1, 3, 16, 224, 224) if "mvit" in name else torch.randn(1, 3, 8, 112, 112)]
    if "raft" in name:
        return model, [torch.randn(1, 3, 128, 128), torch.randn(1, 3, 128, 128)]
    side = 299 if "inception" in name else 224 if re.search("vit|swin|maxvit", name) else 96
    if is_detector(name) and not re.search("deeplab|fcn|lraspp", name):
        return model, [[torch.rand(3, 128, 128)]]
    return model, [torch.randn(2, 3, side, side)]


def is_detector(name):
    return bool(re.search("rcnn|retinanet|fcos|ssd|deeplab|fcn|lraspp", name))


def timm_names():
    import timm

    return timm.list_models()


def timm_model(name):
    import timm

    model = timm.create_model(name, pretrained=False)
    size = model.default_cfg.get("input_size", (3, 224, 224))
    if not model.default_cfg.get("fixed_input_size") and size[-1] > 128:
        least = model.default_cfg.get("min_input_size", (3, 128, 128))
        size = (size[0], max(128, least[-1]), max(128, least[-1]))
    return model, [torch.randn(2, *size)]


def transformers_names():
    import transformers.integrations.moe  # its operators are in archives
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


# What may be made small where the rest does not fit each other then.
DEPTHS = re.compile(r".*layers|n_layer|depth|.*vocab_size|num_.*experts")


def shrink(config, widths=True):
    for name, value in list(vars(config).items()):
        if hasattr(value, "to_dict") and hasattr(value, "model_type"):
            shrink(value, widths)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        for pattern, small in SMALL.items():
            if re.fullmatch(pattern, name) and value > small and (widths or DEPTHS.fullmatch(name)):
                setattr(config, name, small)
        if name.endswith("token_id") and value >= VOCABULARY:
            setattr(config, name, 1)
    for name, value in list(vars(config).items()):
        if name in ("layer_types", "mlp_layer_types", "block_types") and isinstance(value, list):
            setattr(config, name, value[:2])


def transformers_small(name, widths):
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(name)
    shrink(config, widths)
    try:
        model = AutoModel.from_config(config, attn_implementation="sdpa")
    except (ValueError, ImportError):
        model = AutoModel.from_config(config, attn_implementation="eager")
    parameters = inspect.signature(model.forward).parameters
    ids = torch.randint(2, VOCABULARY - 2, (2, 12))
    vision = getattr(config, "vision_config", config)
    side = getattr(vision, "image_size", 64)
    side = side if isinstance(side, int) else side[0]
    given = {}
    if model.main_input_name == "pixel_values" or "pixel_values" in parameters:
        given["pixel_values"] = torch.randn(2, getattr(vision, "num_channels", 3), side, side)
    if "input_ids" in parameters:
        given["input_ids"] = ids
        given["attention_mask"] = torch.ones_like(ids)
        given["attention_mask"][1, 9:] = 0
    if "decoder_input_ids" in parameters:
        given["decoder_input_ids"] = ids[:, :7]
    if model.main_input_name == "input_values":
        length = getattr(config, "max_length", None)
        bins = getattr(config, "num_mel_bins", None)
        given["input_values"] = torch.randn(2, length, bins) if length and bins else torch.randn(2, 8000)
    if model.main_input_name == "input_features" and "input_features" in parameters:
        bins = getattr(config, "num_mel_bins", None) or getattr(config, "feature_size", 80)
        frames = 2 * getattr(config, "max_source_positions", 64)
        whole = "max_source_positions" in vars(config)
        given["input_features"] = torch.randn(2, bins, frames) if whole else torch.randn(2, 64, bins)
    if not given:
        raise ValueError(f"takes {model.main_input_name}")
    more = {"use_cache": False} if "use_cache" in parameters else {}
    model.config.return_dict = True
    return Leaves(model, given.keys(), more), list(given.values())


def transformers_model(name):
    """Small in all sizes; where these do not fit each other, in those of `DEPTHS` alone."""
    try:
        model, inputs = transformers_small(name, widths=True)
        if torch.get_default_device().type != "meta":
            model.eval()(inputs)
        return model, inputs
    except Exception:
        with torch.device("meta"):
            size = sum(p.numel() for p in transformers_small(name, widths=False)[0].parameters())
        if size > MOST:
            raise
        return transformers_small(name, widths=False)


KINDS = {
    "torchvision": (torchvision_names, torchvision_model),
    "timm": (timm_names, timm_model),
    "transformers": (transformers_names, transformers_model),
}


def construct(kind, name):
    torch.manual_seed(0)
    model, inputs = KINDS[kind][1](name)
    for module in model.modules():
        # Statistics as training leaves them, not zeros and ones.
        if isinstance(getattr(module, "running_var", None), torch.Tensor):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    for parameter in model.parameters():
        # A matrix of zeros hides what is before it.
        if parameter.dim() > 1 and not parameter.any():
            torch.nn.init.normal_(parameter, 0, 0.05)
    return (model if isinstance(model, Leaves) else Leaves(model)).eval(), inputs


def size_of(kind, name):
    with torch.device("meta"):
        torch.manual_seed(0)
        model = KINDS[kind][1](name)[0]
    return sum(p.numel() for p in model.parameters())


def one(kind, name, folder, form_of, said):
    """Exports one model; says how it went."""
    sys.stdout = sys.stderr = open(os.devnull, "w")
    try:
        try:
            size = size_of(kind, name)
        except Exception:
            size = 0
        if size > MOST:
            return said.put(("LARGE", f"{size / 1e6:.0f} million parameters"))
        model, inputs = construct(kind, name)
        size = sum(p.numel() for p in model.parameters())
        if size > MOST:
            return said.put(("LARGE", f"{size / 1e6:.0f} million parameters"))
    except Exception as error:
        return said.put(("NOT CONSTRUCTED", f"{type(error).__name__}: {str(error).strip()}"[:200]))
    form = ""
    try:
        if form_of == "dynamic":
            try:
                longer = pytree.tree_map(lambda x: torch.cat([x, x[:1]]), inputs)
                shapes = {"inputs": pytree.tree_map(lambda x: {0: torch.export.Dim.DYNAMIC}, inputs)}
                save(folder, model, [(inputs,), (longer,)], dynamic_shapes=shapes)
                form = ", of a symbolic size"
            except Exception:
                shutil.rmtree(folder, ignore_errors=True)
        if not form:
            save(folder, model, [(inputs,)], decompose=form_of == "core")
            form = ", decomposed" if form_of == "core" else ""
    except Exception as error:
        return said.put(("NOT EXPORTED", f"{type(error).__name__}: {str(error).strip()}"[:200]))
    said.put(("EXPORTED", f"{size / 1e6:.1f} million parameters{form}"))


def accuracy(kind, name, folder, said):
    """How far PyTorch's results are from those that it computes in 64 bits."""
    sys.stdout = sys.stderr = open(os.devnull, "w")
    model, inputs = construct(kind, name)
    model = model.double()
    inputs = pytree.tree_map(lambda x: x.double() if x.is_floating_point() else x, inputs)
    with torch.no_grad():
        wide = [arr(x) for x in model(inputs)]
    expected = list(np.load(f"{folder}/call0/expected.npz").values())
    distance = max(map(apart, wide, expected))
    text = f"PyTorch's own results are {distance:.1e} apart from those in f64"
    own = ours(folder)
    if len(own) == len(wide):
        text += f", these {max(map(apart, wide, own)):.1e}"
    said.put(("F64", text))


def ours(folder):
    """The results of the last run, in order: their names are the graph's."""
    order = torch.export.load(f"{folder}/model.pt2").graph_signature.user_outputs
    files = [f"{folder}/said/{name}.npy" for name in order if isinstance(name, str)]
    return [np.load(file) for file in files if os.path.exists(file)]


def apart(expected, result):
    """How far a tensor is from another, as a part of its greatest number; infinite where it is another tensor."""
    if expected.shape != result.shape or not np.array_equal(np.isfinite(expected), np.isfinite(result)):
        return np.inf
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(expected, result) else np.inf
    finite = np.isfinite(expected)
    expected, result = expected[finite].astype(np.float64), result[finite].astype(np.float64)
    return float(np.abs(expected - result).max(initial=0) / max(np.abs(expected).max(initial=0), 1e-30))


def run(program, folder, mode):
    """How far the results of a mode are from PyTorch's at the worst of its calls, or what it says in place of them."""
    worst = 0.0
    for call in calls(folder):
        said = f"{folder}/said"
        shutil.rmtree(said, ignore_errors=True)
        command = [program, "run", f"{folder}/model.pt2", "--call", call, "--mode", mode, "--output", said]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired:
            return np.inf, "takes more than 600 s"
        if done.returncode not in (0, 1):
            return np.inf, f"exit code {done.returncode}: " + done.stderr.strip()[:600]
        if "outputs, where" in done.stdout:
            return np.inf, done.stdout
        expected, own = list(np.load(f"{call}/expected.npz").values()), ours(folder)
        if len(own) != len(expected):
            return np.inf, f"{len(own)} outputs, where {len(expected)} are expected"
        worst = max([worst, *map(apart, expected, own)])
    return worst, ""


def calls(folder):
    return [f"{folder}/{name}" for name in sorted(os.listdir(folder)) if re.fullmatch("call[0-9]", name)]


def forked(function, *args, timeout):
    queue = multiprocessing.Queue()
    process = multiprocessing.Process(target=function, args=(*args, queue))
    process.start()
    result = ("NOT EXPORTED", "ends without a word")
    deadline = time.time() + timeout
    while time.time() < deadline:
        try:
            result = queue.get(timeout=0.5)
            break
        except Exception:
            if not process.is_alive():
                break
    else:
        result = ("NOT EXPORTED", f"takes more than {timeout} s")
    process.join(1)
    process.kill()
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--only", nargs="*", help="these, in place of drawn ones")
    parser.add_argument("--rtol", type=float, default=1e-4)
    parser.add_argument("--form", choices=["dynamic", "core"], help="of all, in place of every fourth decomposed")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    multiprocessing.set_start_method("fork")
    names = sorted(KINDS[options.kind][0]())
    random.Random(options.seed).shuffle(names)
    exported = equal = 0
    for place, name in enumerate(options.only or names):
        if exported == options.count:
            break
        folder = f"{options.folder}/{options.kind}.{name}"
        shutil.rmtree(folder, ignore_errors=True)
        form = options.form or ("core" if place % 4 == 3 else "")
        how, detail = forked(one, options.kind, name, folder, form, timeout=240)
        line = f"{options.kind} {name}: {how}, {detail}".replace("\n", " ")
        if how != "EXPORTED":
            shutil.rmtree(folder, ignore_errors=True)
            print(line, flush=True)
            continue
        exported += 1
        bad = False
        for mode in ("eager", "compiled"):
            distance, output = run(options.program, folder, mode)
            verdict = "EQUAL" if distance <= options.rtol else "FAILED"
            line += f"\n  {mode} {verdict}, {distance:.1e} apart {output}".rstrip()
            bad |= distance > options.rtol
        if bad:
            line += "\n  " + forked(accuracy, options.kind, name, folder, timeout=240)[1]
        equal += not bad
        print(line, flush=True)
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{options.kind}: {equal} of {exported} equal in both modes", flush=True)


main()
