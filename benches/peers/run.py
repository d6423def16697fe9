#!/usr/bin/env python3
"""Runs the benchmarks beside other libraries and writes the tables of benches/RESULTS.md, and the charts drawn from them.

    python3 benches/peers/run.py [--rounds N] [--smoke] [--only SECTION,..] [NAME ..]

Sections: workloads and operations (ours and the peers, child processes that take turns within each round), host,
first_call, compile, products, modes, eager, memory (our own benchmarks, each printing its tables). Without --only, all of them.

Peers are what is there: the interpreter of --python (default $PEERS_PYTHON, else this one) with jax, torch,
onnxruntime, numpy; candle if `cargo build` in benches/peers/candle works. All but onnxruntime get tcmalloc
(libtcmalloc_minimal.so.4 of Debian's libtcmalloc-minimal4, or --tcmalloc PATH): with glibc's malloc they would pay
page faults for every large output, and the comparison would be of allocators.
"""

import argparse
import datetime
import glob
import json
import os
import platform
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import chart

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RESULTS = os.path.join(ROOT, "benches", "RESULTS.md")
SECTIONS = ["workloads", "operations", "host", "first_call", "compile", "products", "modes", "eager", "memory"]
BIG, WIDE, SMALL = 4 * 4096 * 4096, 4 * 4096 * 1024, 4 * 256 * 1024

# Workload: what bounds it from below: a measured ceiling and how much of it the workload needs.
WORKLOADS = {
    "pwarith12_4096": ("copy", 2 * BIG),
    "pwarith12_256x1024": ("copy_small", 2 * SMALL),
    "pw12_4096": ("copy", 2 * BIG),
    "pw12_256x1024": ("copy_small", 2 * SMALL),
    "gelu_4096": ("copy", 2 * BIG),
    "gelu_256x1024": ("copy_small", 2 * SMALL),
    "softmax_4096": ("copy", 2 * BIG),
    "softmax_256x1024": ("copy_small", 2 * SMALL),
    "layernorm_4096x1024": ("copy", 2 * WIDE),
    "layernorm_256x1024": ("copy_small", 2 * SMALL),
    "rmsnorm_res_4096x1024": ("copy", 4 * WIDE),
    "sum_all": ("read", BIG),
    "sum_all_256x1024": ("read_small", SMALL),
    "sum_ax0": ("read", BIG),
    "sum_ax1": ("read", BIG),
    "meanvar_ax1": ("read", BIG),
    "meanvar_all": ("read", BIG),
    "xpyT_4096": ("triad", 3 * BIG),
    "mm_512": ("fma", 2 * 512**3),
    "mm_1024": ("fma", 2 * 1024**3),
    "mm_2048": ("fma", 2 * 2048**3),
    "gemv_4096": ("read", BIG),
    "mm_bias_gelu": ("fma", 2 * 1024 * 1024 * 4096),
    "mlp_step": None,
    "train_mlp": None,
    "train_digits": None,
    "train_cnn": None,
    "train_gpt_block": None,
    "train_lstm": None,
    "tblock": None,
    "minilm": ("fma", 2 * 6 * 4096 * (4 * 384 * 384 + 2 * 384 * 1536 + 2 * 128 * 384)),
    "lstm_b1": None,
    "lstm_b8": None,
    "small_chain1000": None,
    "adamw100": ("triad", 7 * 4 * 21_089_280),
    "conv3x3": ("fma", 2 * 8 * 64 * 56 * 56 * 64 * 9),
    "cumsum_4096": ("copy", 2 * BIG),
    "embsum": None,
    "sort_1024x4096": None,
    "attention_4x8x1024x64": ("fma", 4 * 32 * 1024 * 1024 * 64),
    "attention_causal_4x8x1024x64": ("fma", 2 * 32 * 1024 * 1025 * 64),
}


class Child:
    """A process that speaks the protocol of measure/serve.rs."""

    def __init__(self, name, command, environment=None):
        self.name, self.log = name, tempfile.TemporaryFile()
        env = {**os.environ, "PEER_THREADS": str(os.cpu_count()), **(environment or {})}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.log, env=env, text=True)

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            return self.process.stdout.readline().strip() or "none the process ended"
        except BrokenPipeError:
            return "none the process ended"

    def open(self, name):
        """The value of a workload's first output, or None where the child does not offer it."""
        answer = self.ask("open " + name)
        if answer.startswith("ok "):
            return float(answer[3:])
        if answer != "none not offered":
            print(f"  {self.name}, {name}: {answer[5:]}", file=sys.stderr)
        return None

    def run(self, count):
        """Nanoseconds a run."""
        answer = self.ask(f"run {count}")
        if not answer.isdigit():
            raise RuntimeError(f"{self.name}: {answer}")
        return int(answer) / count

    def end(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self.process.kill()


def cargo_executable(arguments, environment=None):
    """Builds with cargo and gives the executable's path."""
    command = ["cargo", *arguments, "--message-format", "json-render-diagnostics"]
    env = {**os.environ, **(environment or {})}
    output = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, check=True).stdout
    messages = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [m["executable"] for m in messages if m.get("executable")][-1]


def bench_executable(bench):
    return cargo_executable(["bench", "--no-run", "--bench", bench])


def candle_executable():
    folder = os.path.join(HERE, "candle")
    manifest, target = os.path.join(folder, "Cargo.toml"), os.path.join(folder, "target")
    # candle's own loops use what the compiler may assume: the best of this machine. Another target folder than ours,
    # since other flags would build all of it again.
    environment = {"RUSTFLAGS": "-C target-cpu=native", "CARGO_TARGET_DIR": target}
    try:
        return cargo_executable(["build", "--release", "--locked", "--manifest-path", manifest], environment)
    except (subprocess.CalledProcessError, IndexError):
        print("candle could not be built: left out", file=sys.stderr)
        return None


def tcmalloc(options):
    found = [options.tcmalloc] if options.tcmalloc else glob.glob("/usr/lib/*/libtcmalloc_minimal.so.4")
    if not found:
        print("no libtcmalloc_minimal.so.4: peers pay page faults on large outputs", file=sys.stderr)
    return {"LD_PRELOAD": found[0]} if found else {}


def has_module(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def peers(options, folder):
    """The children to compare with, of those wanted and there."""
    preload = tcmalloc(options)
    scripts = [
        ("jax", "jax", "jax_workloads.py", [], preload),
        ("torch", "torch", "torch_workloads.py", ["eager"], preload),
        ("torch.compile", "torch", "torch_workloads.py", ["compile"], preload),
        ("onnxruntime", "onnxruntime", "onnx_workloads.py", [], {}),
        ("numpy", "numpy", "numpy_workloads.py", [], preload),
    ]
    children = []
    for name, module, script, arguments, env in scripts:
        if options.peers and name not in options.peers:
            continue
        if not has_module(options.python, module):
            print(f"{name} is not there: left out", file=sys.stderr)
            continue
        env = {**env, "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor")}
        children.append(Child(name, [options.python, os.path.join(HERE, script), *arguments], env))
    if not options.peers or "candle" in options.peers:
        executable = candle_executable()
        if executable:
            children.append(Child("candle", [executable], preload))
    return children


def ceilings(folder):
    executable = os.path.join(folder, "ceilings")
    flags = ["-O2", "-march=native", "-pthread"]
    command = [os.environ.get("CC", "cc"), *flags, os.path.join(HERE, "ceilings.c"), "-o", executable]
    if subprocess.run(command).returncode != 0:
        return None
    return Child("ceiling", [executable])


def interval(values):
    """The median, and its 95 % interval by a bootstrap of a fixed seed."""
    generator = random.Random(0)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1949]


def milliseconds(nanoseconds):
    value = nanoseconds / 1e6
    return f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 10 else f"{value:.1f}"


def rounds_of(children, options):
    """Nanoseconds a run, by child and round."""
    counts = {}
    for child in children:
        once = child.run(1)
        once = min(once, child.run(max(1, min(1000, int(1e6 / once)))))
        counts[child] = max(1, min(200_000, int(options.sample * 1e6 / once)))
    times = {child: [] for child in children}
    for turn in range(options.rounds):
        shift = turn % len(children)
        for child in children[shift:] + children[:shift]:
            # Threads of the one before go to sleep first.
            time.sleep(0.005)
            times[child].append(child.run(counts[child]))
    return times


def compare(title, names, ours, others, ceiling, options):
    """A table of ours and the others on named workloads."""
    heads = ["workload", "ours", *[peer.name for peer in others], "best peer", "ours / best [95 %]"]
    heads += ["ceiling", "of ceiling"] if ceiling else []
    rows = []
    for name in names:
        if options.names and not any(part in name for part in options.names):
            continue
        value = ours.open(name)
        if value is None:
            rows.append([name] + ["–"] * (len(heads) - 1))
            continue
        entered, notes = [], ""
        for peer in others:
            theirs = peer.open(name)
            if theirs is None:
                continue
            if theirs != value and not abs(theirs - value) <= 1e-3 * max(abs(value), 1e-6):
                print(f"  {name}: ours is {value}, {peer.name} has {theirs}", file=sys.stderr)
                notes = " (values differ)"
            entered.append(peer)
        need = WORKLOADS.get(name) if ceiling else None
        moved = ceiling.open(need[0]) if need else None
        running = [ours, *entered, *([ceiling] if need else [])]
        try:
            times = rounds_of(running, options)
        except KeyboardInterrupt:
            print("  interrupted: the rows so far stand", file=sys.stderr)
            options.interrupted = True
            break
        except RuntimeError as error:
            print(f"  {name}: {error}", file=sys.stderr)
            rows.append([name] + ["–"] * (len(heads) - 1))
            continue
        finally:
            for child in running:
                child.ask("close")
        medians = {child: statistics.median(values) for child, values in times.items()}
        row = [name, milliseconds(medians[ours])]
        row += [milliseconds(medians[peer]) if peer in medians else "–" for peer in others]
        if entered:
            best = min(entered, key=medians.get)
            middle, low, high = interval([a / b for a, b in zip(times[ours], times[best])])
            row += [best.name, f"{middle:.3f} [{low:.3f}, {high:.3f}]{notes}"]
        else:
            row += ["–", "–"]
        if ceiling:
            floor = medians[ceiling] / moved * need[1] if need else None
            row += [milliseconds(floor), f"{100 * floor / medians[ours]:.0f} %"] if need else ["–", "–"]
        rows.append(row)
        print("  " + " | ".join(row), file=sys.stderr)
    lines = [title, "", "| " + " | ".join(heads) + " |", "|---|" + "---:|" * (len(heads) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def operation_names():
    text = open(os.path.join(ROOT, "benches", "workload", "names.rs")).read()
    return re.findall(r'^    "(op_\w+)",$', text, re.M)


def section(name, options, folder):
    """A section's markdown."""
    if name in ("workloads", "operations"):
        executable = bench_executable("workloads")
        if name == "workloads":
            children = [Child("ours", [executable, "--serve", "compiled"]), *peers(options, folder)]
            ceiling = ceilings(folder)
            title = f"Milliseconds, medians of {options.rounds} rounds; below 1 ours is faster."
            names = list(WORKLOADS)
        else:
            children = [Child("ours, eager", [executable, "--serve", "eager"])]
            candle = candle_executable()
            children += [Child("candle", [candle], tcmalloc(options))] if candle else []
            ceiling, names = None, operation_names()
            title = f"Milliseconds, medians of {options.rounds} rounds; the target is a ratio of at most 2."
        try:
            return compare(title, names, children[0], children[1:], ceiling, options)
        finally:
            for child in children + ([ceiling] if ceiling else []):
                child.end()
    bench = "workloads" if name in ("products", "modes") else name
    arguments = ["--smoke"] if options.smoke else ["--rounds", str(options.rounds)]
    wanted = (["--" + name] if bench == "workloads" else []) + options.names
    command = ["cargo", "bench", "--bench", bench, "--", *arguments, *wanted]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout.strip() + "\n"


def write(name, text):
    """Puts a section's tables between its marks in RESULTS.md."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    old = open(RESULTS).read() if os.path.exists(RESULTS) else ""
    if start not in old:
        old += f"\n## {name}\n\n{start}\n{end}\n"
    before, rest = old.split(start)
    after = rest.split(end)[1]
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
    load = os.getloadavg()[0]
    day = datetime.date.today().isoformat()
    command = "python3 benches/peers/run.py --only " + name
    note = f"{day}, {model}, {os.cpu_count()} cores, {platform.system()}, load when done {load:.1f}; `{command}`"
    with open(RESULTS, "w") as file:
        file.write(f"{before}{start}\n{note}\n\n{text.strip()}\n{end}{after}")
    chart.write()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="rows whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sample", type=float, default=60, help="milliseconds of a sample")
    parser.add_argument("--only", type=lambda s: s.split(","), default=SECTIONS)
    parser.add_argument("--peers", type=lambda s: s.split(","), default=None)
    parser.add_argument("--python", default=os.environ.get("PEERS_PYTHON", sys.executable))
    parser.add_argument("--tcmalloc", default=os.environ.get("PEERS_TCMALLOC"))
    parser.add_argument("--smoke", action="store_true", help="one round of one run, nothing written")
    options = parser.parse_args()
    options.interrupted = False
    # A time limit ends a section as Ctrl-C does: with the rows it has.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.smoke:
        options.rounds, options.sample = 1, 0.001
    folder = tempfile.mkdtemp(prefix="ferrotrace-peers-")
    # A cache of our own kernels that no other run has filled.
    os.environ.setdefault("FERROTRACE_CACHE_DIR", os.path.join(folder, "cache"))
    try:
        for name in options.only:
            text = section(name, options, folder)
            print(f"\n## {name}\n\n{text}", flush=True)
            if not options.smoke and not options.names and not options.interrupted:
                write(name, text)
            if options.interrupted:
                break
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
