"""Runs archives with the inputs and results beside them in both modes.

    python3 tests/exported/python/compare.py FERROTRACE FOLDER --jobs 2

FERROTRACE is the program `ferrotrace`, FOLDER holds folders of `model.pt2` and `call0`, `call1`, .. Prints what differs or
fails, and how many are equal. The tolerance is taken from the end of a folder's name where that is a dtype.
"""

import argparse
import concurrent.futures
import os
import subprocess

RTOL = {"f32": "1e-5", "f64": "1e-8", "bf16": "0.0157", "c64": "1e-5"}


def run(program, folder, mode, options):
    rtol = options.rtol
    for part in os.path.basename(folder).split(".")[::-1][:2]:
        rtol = rtol or RTOL.get(part)
    command = [program, "run", os.path.join(folder, "model.pt2"), "--mode", mode]
    if rtol:
        command += ["--rtol", rtol]
    i = 0
    while os.path.exists(call := os.path.join(folder, f"call{i}")):
        command += ["--call", call]
        i += 1
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout)
    except subprocess.TimeoutExpired:
        return 124, "takes long"
    said = [line for line in (done.stdout + done.stderr).splitlines() if not line.startswith("loaded ")]
    return done.returncode, "\n  ".join(said)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--modes", nargs="*", default=["eager", "compiled"])
    parser.add_argument("--only", nargs="*", help="folders whose names begin so")
    parser.add_argument("--rtol")
    parser.add_argument("--timeout", type=float, default=300)
    options = parser.parse_args()
    names = sorted(os.listdir(options.folder))
    names = [n for n in names if os.path.exists(os.path.join(options.folder, n, "call0/expected.npz"))]
    if options.only:
        names = [n for n in names if any(n.startswith(start) for start in options.only)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for mode in options.modes:
            one = lambda name: run(options.program, os.path.join(options.folder, name), mode, options)
            equal = 0
            for name, (code, said) in zip(names, pool.map(one, names)):
                equal += code == 0
                if code:
                    print(f"{mode} {name}: exit code {code}\n  {said}", flush=True)
            print(f"{mode}: {equal} of {len(names)} equal", flush=True)


main()
