"""Inputs, the same numbers as `measure/input.rs` makes: integers mixed by SplitMix64."""

import numpy as np

F32 = np.float32


def _mix(x):
    with np.errstate(over="ignore"):
        z = x + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def _words(count, seed):
    return _mix(np.uint64(seed << 32) ^ np.arange(count, dtype=np.uint64))


def normal(shape, seed=0, scale=1.0):
    """About normal, of deviation `scale`: sums of four uniform numbers."""
    words = _words(int(np.prod(shape)), seed)
    total = np.zeros(words.shape, dtype=np.int32)
    for field in range(4):
        total += ((words >> np.uint64(16 * field)) & np.uint64(0xFFFF)).astype(np.int32)
    factor = F32(1.0) / F32(37837.2) * F32(scale)
    return ((total - 131070).astype(F32) * factor).reshape(shape)


def below(shape, seed, bound):
    """Integers below `bound`."""
    return (_words(int(np.prod(shape)), seed) % np.uint64(bound)).astype(np.int64).reshape(shape)


# A transformer block: batch, length, width, heads, hidden width.
BLOCK = (8, 128, 384, 12, 1536)


def block_weights():
    _, _, d, _, f = BLOCK
    shapes = [(d, 3 * d), (3 * d,), (d, d), (d,), (d, f), (f,), (f, d), (d,)]
    return [normal(shape, i + 10, 0.02) for i, shape in enumerate(shapes)]


LAYERS = [(784, 512), (512,), (512, 512), (512,), (512, 10), (10,)]
ADAM = [(1024, 1024)] * 10 + [(512, 512)] * 20 + [(512,)] * 30 + [(10, 512)] * 20 + [(256, 1024)] * 20


def arguments(name):
    """The inputs of a workload, as numpy arrays in the order in which its function takes them."""
    big, small, wide = (4096, 4096), (256, 1024), (4096, 1024)
    shape = small if name.endswith("256x1024") else big
    if name.startswith(("pw", "gelu", "softmax", "sum", "meanvar", "cumsum")):
        return [normal(shape)]
    if name.startswith("layernorm"):
        return [normal(small if shape == small else wide), normal((1024,), 1), normal((1024,), 2)]
    if name == "rmsnorm_res_4096x1024":
        return [normal(wide), normal(wide, 1), normal((1024,), 2)]
    if name == "xpyT_4096":
        return [normal(big), normal(big, 1)]
    if name == "gemv_4096":
        return [normal((1, 4096)), normal(big, 1)]
    if name == "mm_bias_gelu":
        return [normal((1024, 1024)), normal((1024, 4096), 1, 0.03), normal((4096,), 2)]
    if name.startswith("mm_"):
        n = int(name[3:])
        return [normal((n, n)), normal((n, n), 1)]
    if name == "mlp_step":
        labels = np.arange(256, dtype=np.int64) % 10
        return [normal(s, i, 0.03) for i, s in enumerate(LAYERS)] + [normal((256, 784)), labels]
    if name == "tblock":
        return [normal(BLOCK[:3])] + block_weights()
    if name == "small_chain1000":
        return [normal((16,)), normal((16,), 1, 0.001)]
    if name == "adamw100":
        parameters = [normal(s, i) for i, s in enumerate(ADAM)]
        return parameters + [normal(s, 1000 + i) for i, s in enumerate(ADAM)]
    if name == "conv3x3":
        return [normal((8, 64, 56, 56)), normal((64, 64, 3, 3), 1, 0.05)]
    if name == "embsum":
        return [normal((50000, 256)), below((4096, 32), 5, 50000)]
    if name.startswith("attention"):
        return [normal((4, 8, 1024, 64), seed) for seed in range(3)]
    if name == "sort_1024x4096":
        return [normal((1024, 4096))]
    raise KeyError(name)
