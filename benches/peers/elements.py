"""The programs of `benches/elements/main.rs` in PyTorch, eager: medians of many runs on two threads.

    python3 benches/peers/elements.py
"""

import torch

from medians import microseconds

torch.set_num_threads(2)
torch.manual_seed(0)

floats = lambda *shape: torch.randn(shape)
below = lambda n, *shape: torch.randint(0, n, shape)
bytes_ = lambda: torch.randint(0, 250, (400, 500)).to(torch.uint8)
many_bytes = lambda: torch.randint(0, 250, (1024, 1024)).to(torch.uint8)
truths = lambda: torch.randn(400, 500) > 0



def less_mean(x):
    return x - x.mean(0, keepdim=True)


def folded_gradient(x):
    x = x.detach().requires_grad_()
    x.diff(dim=1).reshape(511, 384).square().sum().backward()
    return x.grad


def gradient_of_max_pool(x):
    x = x.detach().requires_grad_()
    torch.nn.functional.max_pool2d(x, 5, 1, 2).square().sum().backward()
    return x.grad


def singular_vectors(x):
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return (u * s) @ vh


def principal_components(x):
    x = x - x.mean(0)
    return x @ torch.linalg.eigh(x.T @ x)[1][:, 246:]


def neighbours_of_gathered(table, k):
    cells = table[k]
    return sum(cells.roll((i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1))


def joined_logsumexp(x):
    shifted = lambda by: torch.nn.functional.pad(x, (by, -by), value=-1e9)
    return torch.stack([x, shifted(1), shifted(2)]).logsumexp(0)


def neighbours_around(x):
    shifted = lambda by, dim: x.roll(by, dim)
    return shifted(1, 0) + shifted(-1, 0) + shifted(1, 1) + shifted(-1, 1) - x * 4


def chain_of_sines(x):
    for _ in range(8):
        x = (x * 1.1).sin() + 0.3
    return x


def frames(x):
    unit = lambda x: x / x.norm(dim=1, keepdim=True)
    a, b = unit(x[:, :, 0]), x[:, :, 1]
    b = unit(b - (a * b).sum(1, keepdim=True) * a)
    return torch.stack([a, b, torch.linalg.cross(a, b)], 2)


def dilated_and_counted(x):
    padded = torch.nn.functional.pad(x, (1, 1, 1, 1))
    for i in range(9):
        x = torch.maximum(x, padded[i // 3 : i // 3 + 512, i % 3 : i % 3 + 512])
    return x.sum()


def skewed_scores(x):
    skewed = torch.nn.functional.pad(x, (1, 0)).reshape(8, 257, 256)[:, 1:]
    return ((x + skewed) * 0.1).softmax(2)


def diagonal_sums(x):
    shifted = torch.nn.functional.pad(x, (0, 1)).reshape(8, -1)
    return shifted[:, : 256 * 256].reshape(8, 256, 256).sum(1)


def part_of_joined_rows(x):
    return torch.nn.functional.pad(x, (0, 1)).reshape(128, 514)[:, 2:511].tanh()


CASES = {
    "gather_rows": ([floats(1000, 63), below(63, 1000, 200)], lambda x, i: x.gather(1, i)),
    "pick_and_double": ([floats(1000), below(1000, 200_000)], lambda x, i: x.index_select(0, i) * 2),
    "sum_of_logs": ([floats(2000), below(2000, 100_000)], lambda x, i: (x.abs() + 0.1).log().index_select(0, i).sum()),
    "bytes_to_floats": ([bytes_()], lambda x: x.float()),
    "bytes_to_means": ([bytes_()], lambda x: x.float().mean(1)),
    "ratios_of_bytes": ([bytes_(), bytes_()], lambda x, y: x.float() / (y.float() + 1)),
    "truths_by_rows": ([truths()], lambda x: x.sum(1)),
    "any_by_columns": ([truths()], lambda x: x.any(0)),
    "kept_where_true": ([truths(), floats(400, 500)], lambda c, x: torch.where(c, x, 0.0)),
    "sum_of_bytes": ([many_bytes()], lambda x: x.sum(1)),
    "count_of_truths": ([torch.randn(1024, 1024) > 0], lambda x: x.sum()),
    "places_in_columns": ([floats(1024, 1024)], lambda x: x.argmax(0)),
    "greatest_in_columns": ([many_bytes()], lambda x: x.amax(0)),
    "remainders_of_bytes": ([many_bytes()], lambda x: x.remainder(7)),
    "quotients_of_shorts": (
        [many_bytes().short(), many_bytes().short()],
        lambda x, y: x.floor_divide(y + 1),
    ),
    "integers_below": ([below(100, 400, 500), below(100, 400, 500)], lambda x, y: x < y),
    "classes_summed": (
        [below(40, 5000), floats(5000, 40)],
        lambda c, x: torch.where(c.unsqueeze(1) == torch.arange(40), x, 0.0).sum(1),
    ),
    "rows_of_functions": ([floats(1024, 1024), floats(1024)], lambda x, v: x + v.exp()),
    "columns_of_functions": ([floats(2000, 64), floats(2000, 1)], lambda x, v: x * v.abs() ** 2.5),
    "windows_of_functions": ([floats(2000)], lambda x: (x.abs() ** 2.5).unfold(0, 16, 1).sum(1)),
    "searched_rows": (
        [floats(5000, 64), floats(2560)],
        lambda x, v: torch.nn.functional.embedding(torch.searchsorted(torch.linspace(-2, 2, 4999), v), x),
    ),
    "rolled_rows": ([floats(384, 512), below(384, 384)], lambda x, i: x[i].roll(3, 1)),
    "columns_less_mean": ([floats(384, 512), below(512, 512)], lambda x, i: less_mean(x.index_select(1, i))),
    "softmax_of_columns": ([floats(384, 512), below(512, 512)], lambda x, i: x.index_select(1, i).softmax(1)),
    "repeated_less_mean": ([floats(384, 512)], lambda x: less_mean(x.repeat_interleave(2, 0))),
    "folded_gradient": ([floats(384, 512)], folded_gradient),
    "padded_across": ([floats(384, 512)], lambda x: torch.nn.functional.pad(x.t(), (1, 1))),
    "joined_across": ([floats(384, 512)], lambda x: torch.cat([x.t(), x.t()])),
    "joined_logsumexp": ([floats(32, 25)], joined_logsumexp),
    "chain_of_sines": ([floats(10_000)], chain_of_sines),
    "reversed_bits": ([floats(1 << 16)], lambda x: x.reshape([2] * 16).flip(0).reshape(-1)),
    "frames": ([floats(20_000, 3, 3)], frames),
    "sums_both_ways": ([floats(1000, 1000)], lambda x: x.sum(0) + x.sum(1)),
    "symmetric_sums": ([floats(1000, 1000)], lambda x: (x + x.t()).abs().sum(1)),
    "dilated_and_counted": ([many_bytes()[:512, :512].contiguous()], dilated_and_counted),
    "running_sums_turned": ([floats(1000, 1000)], lambda x: x.t().cumsum(0)),
    "running_sums_f64": ([floats(1000, 1000)], lambda x: x.double().cumsum(1)),
    "places_over_two": ([floats(64, 32, 64, 16)], lambda x: x.permute(0, 2, 1, 3).reshape(64, 64, 512).argmax(2)),
    "skewed_scores": ([floats(8, 256, 256)], skewed_scores),
    "diagonal_sums": ([floats(8, 256, 256)], diagonal_sums),
    "turned_and_doubled": ([floats(400, 500)], lambda x: x.t().reshape(400, 500) * 2),
    "scan_of_pairs": ([floats(256, 256)], lambda x: torch.stack([x, x * 2], 2).reshape(256, 512).cumsum(0).tanh()),
    "scan_of_repeated": ([floats(256, 256)], lambda x: x.repeat_interleave(2, 1).cumsum(0).tanh()),
    "scan_of_joined": ([floats(256, 256)], lambda x: torch.cat([x, x * 2], 1).cumsum(0).tanh()),
    "part_of_joined_rows": ([floats(256, 256)], part_of_joined_rows),
    "waves_of_one_row": ([floats(30_000)], lambda x: (x.sin() * x.exp()).sigmoid()),
    "waves_of_four_columns": ([floats(30_000, 4), floats(4)], lambda x, y: ((x + y).sin() * x.exp()).sigmoid()),
    "quantised": ([floats(200_000)], lambda x: (x.sigmoid() * 15).to(torch.int64)),
    "joined_points": ([floats(25_000, 8), floats(25_000, 8)], lambda x, y: torch.cat([x + 1, y * 2])),
    "points_as_columns": ([floats(25_000, 8)], lambda x: x.t().contiguous()),
    "neighbours_around": ([floats(1000, 500)], neighbours_around),
    "joined_functions": ([floats(20_000), floats(20_000)], lambda x, y: torch.cat([x, y]).sin().sigmoid().tanh()),
    "padded_numbers": ([floats(500_000)], lambda x: torch.nn.functional.pad(x, (3, 5), value=0.5).relu()),
    "thirteen_columns": ([floats(10_000, 40)], lambda x: x[:, 1:14].relu()),
    "softmax_of_39": ([floats(10_000, 40)], lambda x: x[:, 1:40].softmax(1)),
    "sines": ([floats(200_000)], lambda x: x.sin()),
    "far_sines": ([floats(200_000)], lambda x: (x * 1e5).sin()),
    "powers": ([floats(200_000)], lambda x: x.abs() ** 1.7),
    "forty_columns_as_rows": ([floats(1000, 40)], lambda x: x.t().contiguous()),
    "bytes_as_columns": ([many_bytes()[:1000, :1000].contiguous()], lambda x: x.t().contiguous()),
    "layer_of_eight": ([floats(10_000, 8), floats(8, 8)], lambda x, w: torch.nn.functional.linear(x, w).relu()),
    "logsumexp_of_pairs": ([floats(1001, 6), floats(6, 6)], lambda b, a: (b.unsqueeze(1) + a).logsumexp(-1)),
    "replicated_edges": (
        [floats(4, 16, 33, 35)],
        lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1), mode="replicate"),
    ),
    "part_of_reshaped_rows": ([floats(300, 256)], lambda x: x.diff(1, dim=1).reshape(150, 510).t()[3:508] * 2),
    "dot_product": ([floats(100_000), floats(100_000)], lambda a, b: a @ b),
    "neighbours_of_gathered": ([floats(18), below(18, 500, 400)], neighbours_of_gathered),
    "places_in_windows": (
        [floats(4, 16, 64, 64)],
        lambda x: x.unfold(2, 5, 1).unfold(3, 5, 1).flatten(4).argmax(4),
    ),
    "gradient_of_max_pool": ([floats(4, 16, 64, 64)], gradient_of_max_pool),
    "singular_vectors": ([floats(512, 512)], singular_vectors),
    "singular_values": ([floats(512, 512)], torch.linalg.svdvals),
    "principal_components": ([floats(2000, 256)], principal_components),
    "orthonormal_columns": ([floats(2048, 512)], lambda x: torch.linalg.qr(x)[0]),
    "gamma_numbers": ([floats(512, 512)], lambda x: torch._standard_gamma(x.abs() + 0.5)),
    "poisson_counts": ([floats(512, 512)], lambda x: torch.poisson(x.abs() * 8)),
    "sum_of_transposed": ([floats(1000, 1000)], lambda x: x.t().sum()),
    "sums_of_permuted": ([floats(1000, 30, 100)], lambda x: x.permute(0, 2, 1).sum(0)),
    "places_of_permuted": ([floats(1000, 30, 100)], lambda x: x.permute(2, 0, 1).argmax(2)),
    "columns_less_means": ([floats(100_000, 10)], less_mean),
    "softmax_over_points": ([floats(100_000, 10)], lambda x: x.softmax(0)),
}

for name, (inputs, program) in CASES.items():
    print(f"{name:20} {microseconds(lambda: program(*inputs)):9.1f} us")
