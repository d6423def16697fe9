"""The programs of `benches/programs` in PyTorch: microseconds of a call, the first call's milliseconds, and the mean magnitude
of the first result.

    python3 programs.py [cuda | cpu] [--compile [--mode MODE]] [--threads N] [NAME ..]

Names choose programs by parts of them; inputs of others are not made. f32 is IEEE's: TF32 is off.
"""

import argparse
import time

import torch

from families import common

torch.backends.cudnn.allow_tf32 = False
torch.backends.cuda.matmul.allow_tf32 = False
ROUNDS, SAMPLE, MOST_CALLS = 5, 0.05, 20


def synchronize():
    if common.DEVICE == "cuda":
        torch.cuda.synchronize()


def timed(call):
    """Microseconds of a call, the median of rounds whose calls are queued."""

    def round_of(calls):
        synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            call()
        synchronize()
        return (time.perf_counter() - start) / calls

    round_of(3)
    calls = max(1, min(MOST_CALLS, int(SAMPLE / round_of(1))))
    return sorted(round_of(calls) for _ in range(ROUNDS))[ROUNDS // 2] * 1e6


def measure(name, make, function, options):
    inputs = make()
    if options.compile:
        torch.compiler.reset()
        function = torch.compile(function, mode=options.mode)
    synchronize()
    start = time.perf_counter()
    results = function(inputs)
    synchronize()
    first = (time.perf_counter() - start) * 1e3
    value = results[0].double().abs().mean().item()
    took = timed(lambda: function(inputs))
    print(f"{name:16} {took:9.0f} us, first {first:8.0f} ms, {value:.6e}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--mode")
    parser.add_argument("--threads", type=int)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    for device in {"cuda", "cpu"}.intersection(options.words):
        common.DEVICE = device
    words = [word for word in options.words if word not in ("cuda", "cpu")]
    for name, (make, function) in common.PROGRAMS.items():
        if words and not any(word in name for word in words):
            continue
        try:
            measure(name, make, function, options)
        except Exception as error:  # noqa: BLE001
            print(f"{name:16} {type(error).__name__}: {str(error)[:200]!r}", flush=True)


if __name__ == "__main__":
    main()
