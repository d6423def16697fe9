"""Writes the fixtures of tests/exported.

    python3 tests/exported/python/make.py tests/exported/data

Archives of other versions of PyTorch: `--suffix _torch26 --programs`, with that version.
"""

import argparse
import logging
import warnings

import torch

import edges  # adds to the groups of operators
import families
import operators
import programs
from save import save


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--suffix", default="")
    parser.add_argument("--programs", action="store_true", help="no operators")
    parser.add_argument("--only", nargs="*", help="these operators' groups alone")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    for name, model, calls, more in [] if options.only else programs.programs():
        try:
            save(f"{options.folder}/{name}{options.suffix}", model, calls, **more)
            if not options.suffix:
                save(f"{options.folder}/{name}_core", model, calls, decompose=True, **more)
        except torch._dynamo.exc.UserError as error:
            # Versions before 2.8 take no numbers that change.
            print(f"{name}: {error}")
    if options.programs:
        return
    for name, model, calls, more in [] if options.only else families.families():
        model.train(hasattr(model, "training_form"))
        for core in (False, True)[: 1 + (name in ("resnet", "vit", "llama", "training"))]:
            folder = f"{options.folder}/model_{name}{'_core' if core else ''}"
            save(folder, model, calls, decompose=core, **more)
    for name, (model, args) in operators.GROUPS.items():
        if options.only and name not in options.only:
            continue
        for core in (False, True):
            if core and name in ("recurrent", "scores", "special", "experts", "spectra", "rarities", "eliminations", "pairs", "gammas"):
                # Written out, networks, special functions and frames are only long; attention gives weights for sums.
                continue
            folder = f"{options.folder}/{name}{'_core' if core else ''}{options.suffix}"
            save(folder, model, [args, args] if name == "norm_train" else [args], decompose=core)


main()
