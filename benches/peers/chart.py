#!/usr/bin/env python3
"""Draws docs/speed-cpu.svg and docs/speed-gpu.svg from the tables of benches/RESULTS.md and docs/gpu-validation.md.

    python3 benches/peers/chart.py            writes both
    python3 benches/peers/chart.py --check    fails where a committed chart is not what the tables say

Needs Python 3.9 alone. The figures are the tables' medians; nothing is left out of a table but rows without a peer.
"""

import math
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RESULTS = os.path.join("benches", "RESULTS.md")
DEVICE = os.path.join("docs", "gpu-validation.md")

# What a workload computes. A row that is not here is drawn under its own name.
LABELS = {
    "pwarith12_4096": "12 arithmetic operations, 4096×4096",
    "pwarith12_256x1024": "12 arithmetic operations, 256×1024",
    "pw12_4096": "12 operations with tanh, 4096×4096",
    "pw12_256x1024": "12 operations with tanh, 256×1024",
    "gelu_4096": "gelu, 4096×4096",
    "gelu_256x1024": "gelu, 256×1024",
    "softmax_4096": "softmax, 4096×4096",
    "softmax_256x1024": "softmax, 256×1024",
    "layernorm_4096x1024": "layer norm, 4096×1024",
    "layernorm_256x1024": "layer norm, 256×1024",
    "rmsnorm_res_4096x1024": "residual + RMS norm, 4096×1024",
    "sum_all": "sum of 4096×4096",
    "sum_all_256x1024": "sum of 256×1024",
    "sum_ax0": "sum of columns, 4096×4096",
    "sum_ax1": "sum of rows, 4096×4096",
    "meanvar_ax1": "mean and variance of rows, 4096×4096",
    "meanvar_all": "mean and variance of 4096×4096",
    "xpyT_4096": "x + y transposed, 4096×4096",
    "mm_512": "matmul 512",
    "mm_1024": "matmul 1024",
    "mm_2048": "matmul 2048",
    "gemv_4096": "vector by matrix 4096",
    "mm_bias_gelu": "matmul + bias + gelu",
    "mlp_step": "training step of a perceptron",
    "tblock": "transformer block, forward",
    "small_chain1000": "1,000 additions of 16 numbers",
    "adamw100": "AdamW, 100 tensors",
    "conv3x3": "convolution 3×3",
    "cumsum_4096": "cumsum of rows, 4096×4096",
    "embsum": "sum of embeddings",
    "sort_1024x4096": "sort of rows, 1024×4096",
    "attention_4x8x1024x64": "attention 4×8×1024×64",
    "attention_causal_4x8x1024x64": "attention, causal",
    "pointwise12_f32": "12 operations with tanh, f32",
    "gelu_tanh_bf16": "gelu, bf16",
    "softmax_f32_8192": "softmax, rows of 8,192, f32",
    "softmax_bf16_1024": "softmax, rows of 1,024, bf16",
    "softmax_f32_65536": "softmax, rows of 65,536, f32",
    "layernorm_bf16": "layer norm, bf16",
    "rmsnorm_residual_bf16": "residual + RMS norm, bf16",
    "sum_all_f32": "sum, f32",
    "sum_axis0_f32": "sum of columns, f32",
    "sum_axis1_f32": "sum of rows, f32",
    "var_mean_all_f32": "variance and mean, f32",
    "transpose_add_f32": "x + y transposed, f32",
    "cumsum_f32": "cumsum of rows, f32",
    "sort_f32": "sort of rows, f32",
    "cross_entropy_bf16_50257": "cross entropy of 50,257 classes, bf16",
    "gather_embed_bf16": "embedding, bf16",
    "matmul_bf16_8192": "matmul 8192, bf16",
    "matmul_bf16_4096": "matmul 4096, bf16",
    "matmul_bias_gelu_bf16": "matmul + bias + gelu, bf16",
    "matmul_f32_ieee_4096": "matmul 4096, f32 (no TF32)",
    "sdpa_causal_bf16": "attention, causal, bf16",
    "attn_naive_bf16": "attention written out, bf16",
    "small_ops_chain200": "200 operations on 16 numbers",
    "block_fwd_bf16": "transformer block, forward, bf16",
    "mlp_train_f32": "training step of a perceptron, f32",
    "conv3x3_f16": "convolution 3×3 + relu, f16",
    "gemv_decode_bf16": "vector by matrix, bf16",
    "adamw_foreach_124M_f32": "AdamW, 148 tensors, f32",
}

# A series of marks: its class in the style, its name, and the table's columns, the least of which counts.
CPU = [
    ("torch", "PyTorch, compiled or not", ["torch", "torch.compile"]),
    ("jax", "JAX", ["jax"]),
    ("candle", "candle", ["candle"]),
    ("other", "onnxruntime or NumPy", ["onnxruntime", "numpy"]),
]
GPU = [("torch", "torch.compile", ["torch.compile, µs"])]

STYLE = """
text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,"DejaVu Sans",sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.small{font-size:11px;fill:#59636e}.end{text-anchor:end}.middle{text-anchor:middle}
.back{fill:#fff}.grid{stroke:#e4e7eb}.one{stroke:#59636e}.stripe{fill:#f6f8fa}
.ahead{fill:#9ccfb0}.behind{fill:#f0b9a8}
.torch{fill:#c8401c}.jax{fill:#2f6fd0}.candle{fill:#8a5a00}.other{fill:#7a7f87}
@media (prefers-color-scheme:dark){
text{fill:#e6edf3}.small{fill:#9198a1}.back{fill:#0d1117}.grid{stroke:#2a313a}.one{stroke:#9198a1}.stripe{fill:#151b23}
.ahead{fill:#2c6b47}.behind{fill:#83402d}
.torch{fill:#ff8a66}.jax{fill:#79b0ff}.candle{fill:#e3b341}.other{fill:#a5acb5}}
"""

WIDTH, LEFT, RIGHT, ROW, TOP = 900, 262, 62, 17, 74


def table(path, first, second):
    """The rows, as dictionaries, of the first table whose heads begin with the two given, and the dated text above it."""
    lines = open(os.path.join(ROOT, path), encoding="utf-8").read().splitlines()
    cells = lambda line: [cell.strip() for cell in line.strip().strip("|").split("|")]
    at = next((i for i, line in enumerate(lines) if line.startswith("|") and cells(line)[:2] == [first, second]), None)
    if at is None:
        sys.exit(f"{path} has no table of {first} and {second}")
    dated = max(i for i in range(at) if re.match(r"\d{4}-\d\d-\d\d, ", lines[i]))
    heads, rows = cells(lines[at]), []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        rows.append(dict(zip(heads, cells(line))))
    return rows, " ".join(lines[dated:at])


def number(cell):
    try:
        return float(cell)
    except ValueError:
        return None


def speeds(rows, ours, series):
    """Of each row its label, and by series how many times as long as ours the peer takes."""
    drawn = []
    for row in rows:
        own, factors = number(row[ours]), {}
        for name, _, columns in series:
            times = [time for time in (number(row.get(column, "")) for column in columns) if time]
            if own and times:
                factors[name] = min(times) / own
        if factors:
            drawn.append((LABELS.get(row["workload"], row["workload"]), factors))
    return drawn


def escaped(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def factor(value):
    return f"{value:.2f}×" if value < 10 else f"{value:.0f}×"


def chart(title, rows, series, caption):
    """An SVG: a bar to the fastest peer of each row, a mark for every peer, from the greatest bar to the least."""
    rows = sorted(rows, key=lambda row: -min(row[1].values()))
    values = [value for _, factors in rows for value in factors.values()]
    low = min(0.8, min(values) * 0.95)
    high = max(2.0, max(values) * 1.08)
    plot = WIDTH - LEFT - RIGHT
    x = lambda value: LEFT + plot * math.log(value / low) / math.log(high / low)
    bottom = TOP + ROW * len(rows)
    height = bottom + 34 + 16 * len(caption)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" role="img">',
        f"<title>{escaped(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{height}"/>',
        f'<text class="title" x="14" y="24">{escaped(title)}</text>',
    ]
    for kind, at, label in [("ahead", 14, "faster"), ("behind", 92, "slower")]:
        out.append(f'<rect class="{kind}" x="{at}" y="36" width="18" height="10"/>')
        out.append(f'<text class="small" x="{at + 24}" y="45">{label}</text>')
    at = 186
    for name, label, _ in series if len(series) > 1 else []:
        out.append(f'<circle class="{name}" cx="{at}" cy="41" r="4"/><text class="small" x="{at + 9}" y="45">{escaped(label)}</text>')
        at += 32 + 6.1 * len(label)
    for i in range(0, len(rows), 2):
        out.append(f'<rect class="stripe" x="8" y="{TOP + ROW * i}" width="{WIDTH - 16}" height="{ROW}"/>')
    for tick in [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]:
        if low <= tick <= high:
            kind = "one" if tick == 1 else "grid"
            out.append(f'<path class="{kind}" d="M{x(tick):.1f} {TOP - 4}V{bottom + 4}"/>')
            out.append(f'<text class="small middle" x="{x(tick):.1f}" y="{TOP - 9}">{tick:g}×</text>')
    for i, (label, factors) in enumerate(rows):
        y, least = TOP + ROW * i, min(factors.values())
        left, right = sorted((x(1), x(least)))
        kind = "ahead" if least >= 1 else "behind"
        out.append(f'<text class="end" x="{LEFT - 10}" y="{y + 12.5}">{escaped(label)}</text>')
        out.append(f'<rect class="{kind}" x="{left:.1f}" y="{y + 4}" width="{right - left:.1f}" height="{ROW - 8}"/>')
        for name, value in factors.items() if len(series) > 1 else []:
            out.append(f'<circle class="{name}" cx="{x(value):.1f}" cy="{y + ROW / 2}" r="3.5"/>')
        out.append(f'<text class="end" x="{WIDTH - 14}" y="{y + 12.5}">{factor(least)}</text>')
    for i, line in enumerate(caption):
        out.append(f'<text class="small" x="14" y="{bottom + 28 + 16 * i}">{escaped(line)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def drawings():
    rows, note = table(RESULTS, "workload", "ours")
    day, machine = note.split(", ", 1)
    machine = machine.split(", load")[0]
    meaning = "Logarithmic; right of 1× Ferrotrace is faster."
    cpu = chart(
        "CPU: the time of other libraries over Ferrotrace's",
        speeds(rows, "ours", CPU),
        CPU,
        [
            f"{meaning} Bars and numbers: the fastest other library.",
            f"f32, compiled, all cores, medians. {machine}, {day}: benches/RESULTS.md, “workloads”.",
        ],
    )
    rows, note = table(DEVICE, "workload", "ours, µs")
    day, machine = note.split(", ")[:2]
    machine = re.sub(r"^an? ", "NVIDIA ", machine)
    version = re.search(r"PyTorch [\d.]*\d", note)
    gpu = chart(
        "GPU: the time of torch.compile over Ferrotrace's",
        speeds(rows, "ours, µs", GPU),
        GPU,
        [
            f"{meaning} 20 queued calls between two events; where kernels are short, the host's time.",
            f"{version.group() if version else 'PyTorch'}, {machine}, {day}: docs/gpu-validation.md, “Speed”.",
        ],
    )
    return {os.path.join("docs", "speed-cpu.svg"): cpu, os.path.join("docs", "speed-gpu.svg"): gpu}


def write():
    for path, text in drawings().items():
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(text)


def stale():
    """The charts that are not what the tables say."""
    full = lambda path: os.path.join(ROOT, path)
    there = lambda path: open(full(path), encoding="utf-8").read() if os.path.exists(full(path)) else None
    return [path for path, text in drawings().items() if there(path) != text]


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        write()
    elif stale():
        sys.exit(f"{', '.join(stale())} differ from the tables: run python3 benches/peers/chart.py")
