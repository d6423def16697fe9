"""Times of programs in eager PyTorch."""

import statistics
import time


def microseconds(call):
    """Microseconds of a call: the median of 200, after 20 that are not timed."""
    for _ in range(20):
        call()
    times = []
    for _ in range(200):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
